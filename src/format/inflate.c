#include "format/inflate.h"

#include <zlib.h>

static void *take(void *ctx, unsigned count, unsigned size) { return fli_alloc(ctx, count, size); }

static void give_back(void *ctx, void *p)
{
    (void)ctx;
    fli_free(p);
}

fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, z_stream *z)
{
    z->zalloc = take;
    z->zfree = give_back;
    z->opaque = ctx;
    int rc = inflateInit2(z, window_bits);
    if (rc == Z_MEM_ERROR) return FL_ENOMEM;
    return rc == Z_OK ? FL_OK : fli_fail(ctx, FL_ESYSTEM, "%s: zlib refuses to start (%d)", path, rc);
}
