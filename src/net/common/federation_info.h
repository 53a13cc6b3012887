/* What a server says of its federation before a client joins (GET /v1/federation), from both sides: what the server
 * takes from its configuration, and the JSON as a client reads it. */
#ifndef FLI_NET_COMMON_FEDERATION_INFO_H
#define FLI_NET_COMMON_FEDERATION_INFO_H

#include "config/config.h"
#include "net/common/packet_peek.h"
#include "net/common/protocol.h"

/* ==== at the server =============================================================================================== */

typedef struct {
    fli_bound *bound; /* of which are the texts below */
    size_t clients;
    const char *method, *model;
    const char *output; /* the result's folder, "" for none */
    char *samples;      /* JSON: what samples must look like */
} fli_federation_summary;

/* Checks the configuration as a whole. */
fl_status fli_federation_summary_read(fl_ctx *ctx, fl_config *cfg, fli_federation_summary *out);
void fli_federation_summary_free(fli_federation_summary *s);

/* ==== at a client ================================================================================================= */

typedef struct {
    int over; /* its run is */
    size_t clients, missing;
    char method[64], model[64];      /* "": it does not say */
    char name[FLI_NET_NAME_MAX + 1]; /* whom the server takes this client for; "": it does not say */
    int has_wanted;
    fli_wanted_samples wanted; /* what samples must look like */
    const char **class_name;   /* of its classes, one allocation; NULL: 0, 1, ... */
} fli_federation_info;

/* FL_EFORMAT with a sentence for anything else. Unknown names are skipped: a newer server may say more. */
fl_status fli_federation_info_read(fl_ctx *ctx, const void *json, size_t n, fli_federation_info *out);
void fli_federation_info_fini(fli_federation_info *info); /* also after a failure */

#endif
