/* Fetches the status of a federation from its server (FLI_NET_STATUS), for people and programs. */
#ifndef FLI_NET_CLIENT_STATUS_CLIENT_H
#define FLI_NET_CLIENT_STATUS_CLIENT_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct fli_status_client fli_status_client;

typedef struct {
    const char *url;
    const char *certs; /* folder of a viewer's certificate; NULL: none */
    int insecure;      /* allow plain HTTP to this machine */
} fli_status_client_spec;

/* FL_ECONFIG with a sentence if the URL or the folder is wrong. */
fl_status fli_status_client_new(fl_ctx *ctx, const fli_status_client_spec *spec, fli_status_client **out);
void fli_status_client_free(fli_status_client *c); /* NULL is fine */

/* Gets FLI_NET_STATUS: a JSON object; release it with json_decref. FL_EIO: no reply. FL_EREFUSED: the server refuses,
 * or is not a fedloom server. */
fl_status fli_status_client_look(fli_status_client *c, json_t **out);

#endif
