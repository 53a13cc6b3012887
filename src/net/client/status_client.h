/* Asks a server how its federation stands (FLI_NET_STATUS), for people and programs that look on. */
#ifndef FLI_NET_CLIENT_STATUS_CLIENT_H
#define FLI_NET_CLIENT_STATUS_CLIENT_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct fli_status_client fli_status_client;

typedef struct {
    const char *url;
    const char *certs; /* folder of any client certificate of the federation's authority; NULL: none */
    int insecure;      /* plain HTTP to this machine may be */
} fli_status_client_spec;

/* FL_ECONFIG with a sentence for a URL or a folder that will not do. */
fl_status fli_status_client_new(fl_ctx *ctx, const fli_status_client_spec *spec, fli_status_client **out);
void fli_status_client_free(fli_status_client *c); /* NULL is fine */

/* What FLI_NET_STATUS says now: an object, to be given back by json_decref. FL_EIO: there is no answer; FL_EREFUSED:
 * one that refuses, or none of a fedloom server. */
fl_status fli_status_client_look(fli_status_client *c, json_t **out);

#endif
