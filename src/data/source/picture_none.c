/* In the place of picture_png.c and picture_jpeg.c in a build without libpng and libjpeg. */
#include "data/source/picture.h"

static fl_status refuse(fl_ctx *ctx, const char *path, const char *what, const char *library)
{
    return fli_fail(ctx, FL_ESYSTEM, "%s: is a %s image, but this fedloom was built without %s (FEDLOOM_IMAGES)", path,
                    what, library);
}

fl_status fli_picture_png(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    (void)bytes, (void)n, (void)most, (void)out;
    return refuse(ctx, path, "PNG", "libpng");
}

fl_status fli_picture_jpeg(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    (void)bytes, (void)n, (void)most, (void)out;
    return refuse(ctx, path, "JPEG", "libjpeg");
}
