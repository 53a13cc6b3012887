/* What a client may know of a federation before it joins: as text that a server sends. */
#ifndef FLI_NET_COMMON_FEDERATION_INFO_H
#define FLI_NET_COMMON_FEDERATION_INFO_H

#include "base/ctx.h"
#include "net/common/packet_peek.h"
#include "net/common/protocol.h"

/* ==== outline =============================================================================================== */

typedef struct {
    size_t clients;
    char *method, *model;
    char *samples; /* JSON: what samples must look like */
    char *output;  /* the result's folder, "" for none */
} fli_federation_outline;

/* Checks the configuration as a whole. */
fl_status fli_federation_outline_read(fl_ctx *ctx, fl_config *cfg, fli_federation_outline *out);
void fli_federation_outline_free(fli_federation_outline *p);

/* ==== offer ================================================================================================= */

/* What a server says of its federation (GET /v1/federation), as a client reads it. */

typedef struct {
    int over; /* its run is */
    size_t clients, missing;
    char method[64], model[64];      /* "": it does not say */
    char name[FLI_NET_NAME_MAX + 1]; /* whom the server takes this client for; "": it does not say */
    int has_wanted;
    fli_wanted wanted;       /* what samples must look like */
    const char **class_name; /* of its classes, one allocation; NULL: 0, 1, ... */
} fli_federation_offer;

/* FL_EFORMAT with a sentence for what is not that. Unknown names are skipped: a newer server may say more. */
fl_status fli_federation_offer_read(fl_ctx *ctx, const void *json, size_t n, fli_federation_offer *out);
void fli_federation_offer_fini(fli_federation_offer *o); /* also after a failure */

#endif
