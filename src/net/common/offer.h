/* What a server says of its federation (GET /v1/federation), as a client reads it. */
#ifndef FLI_NET_COMMON_OFFER_H
#define FLI_NET_COMMON_OFFER_H

#include "net/common/glance.h"
#include "net/common/protocol.h"

typedef struct {
    int over; /* its run is */
    size_t clients, missing;
    char method[64], model[64];      /* "": it does not say */
    char name[FLI_NET_NAME_MAX + 1]; /* whom the server takes this client for; "": it does not say */
    int has_wanted;
    fli_wanted wanted;       /* what samples must look like */
    const char **class_name; /* of its classes, one allocation; NULL: 0, 1, ... */
} fli_offer;

/* FL_EFORMAT with a sentence for what is not that. Unknown names are skipped: a newer server may say more. */
fl_status fli_offer_read(fl_ctx *ctx, const void *json, size_t n, fli_offer *out);
void fli_offer_fini(fli_offer *o); /* also after a failure */

#endif
