/* What is in a folder, in an order that does not depend on the file system. */
#ifndef FLI_DATA_LISTING_H
#define FLI_DATA_LISTING_H

#include "base/ctx.h"

typedef struct {
    char **name; /* without hidden ones, in ascending order of their bytes */
    size_t n;
} fli_listing;

/* *out needs a fini in any case. */
fl_status fli_listing_read(fl_ctx *ctx, const char *path, fli_listing *out);
void fli_listing_fini(fli_listing *l);

#endif
