/* The description of a federation that clients read before they join (GET /v1/federation): how a server makes it from
 * its configuration, and how a client parses its JSON. */
#ifndef FLI_NET_COMMON_FEDERATION_INFO_H
#define FLI_NET_COMMON_FEDERATION_INFO_H

#include "config/config.h"
#include "net/common/packet_peek.h"
#include "net/common/protocol.h"

/* ==== at the server =============================================================================================== */

typedef struct {
    fli_bound *bound; /* owns the strings below, but for `samples` */
    size_t clients;
    const char *method, *model;
    const char *output; /* the result's folder; "": none */
    char *samples;      /* JSON: what samples must look like */
} fli_federation_summary;

/* Validates the whole configuration. */
fl_status fli_federation_summary_read(fl_ctx *ctx, fl_config *cfg, fli_federation_summary *out);
void fli_federation_summary_free(fli_federation_summary *s);

/* ==== at a client ================================================================================================= */

typedef struct {
    int over; /* the run is over */
    size_t clients, missing;
    char method[64], model[64];      /* "": the server does not say */
    char name[FLI_NET_NAME_MAX + 1]; /* this client's name as the server knows it; "": the server does not say */
    int has_wanted;                  /* `wanted` is set */
    fli_wanted_samples wanted;       /* what samples must look like */
    const char **class_name;         /* wanted.classes names, one allocation; NULL: 0, 1, ... */
} fli_federation_info;

/* FL_EFORMAT with a sentence for invalid JSON. Unknown members are ignored: a newer server may send more. */
fl_status fli_federation_info_read(fl_ctx *ctx, const void *json, size_t n, fli_federation_info *out);
void fli_federation_info_fini(fli_federation_info *info); /* also after a failure */

#endif
