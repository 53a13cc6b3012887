/* How a federation stands, asked over the network by somebody who looks on. */
#ifndef FLI_NET_CLIENT_STATUS_CLIENT_H
#define FLI_NET_CLIENT_STATUS_CLIENT_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct fli_watch fli_watch;

typedef struct {
    const char *url;
    const char *certs; /* folder of any client certificate of the federation's authority; NULL: none */
    int insecure;      /* plain HTTP to this machine may be */
} fli_watch_spec;

/* FL_ECONFIG with a sentence for a URL or a folder that will not do. */
fl_status fli_watch_new(fl_ctx *ctx, const fli_watch_spec *spec, fli_watch **out);
void fli_watch_free(fli_watch *w); /* NULL is fine */

/* What FLI_NET_STATUS says now: an object, to be given back by json_decref. FL_EIO: there is no answer; FL_EREFUSED:
 * one that refuses, or none of a fedloom server. */
fl_status fli_watch_look(fli_watch *w, json_t **out);

#endif
