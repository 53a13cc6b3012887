/* What a client may know of a federation before it joins: as text that a server sends. */
#ifndef FLI_NET_COMMON_OUTLINE_H
#define FLI_NET_COMMON_OUTLINE_H

#include "base/ctx.h"

typedef struct {
    size_t clients;
    char *method, *model;
    char *samples; /* JSON: what samples must look like */
    char *output;  /* the result's folder, "" for none */
} fli_outline;

/* Checks the configuration as a whole. */
fl_status fli_outline_read(fl_ctx *ctx, fl_config *cfg, fli_outline *out);
void fli_outline_free(fli_outline *p);

#endif
