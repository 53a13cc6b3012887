#include "data/source/picture.h"

#include <string.h>

void fli_picture_fini(fli_picture *p)
{
    fli_free(p->pixel);
    *p = (fli_picture){0};
}

fl_status fli_picture_make(fl_ctx *ctx, const char *path, size_t most, fli_picture *p)
{
    if (!p->height || !p->width || p->width > most / p->height)
        return fli_fail(ctx, FL_EFORMAT, "%s: is an image of %zu x %zu pixels, but 1 to %zu are read", path, p->height,
                        p->width, most);
    p->pixel = fli_alloc(ctx, p->height * p->width, p->channels);
    return p->pixel ? FL_OK : FL_ENOMEM;
}

/* The first bytes decide, not the name of the file. */
fl_status fli_picture_read(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    fl_status s;
    *out = (fli_picture){0};
    if (n >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8))
        s = fli_picture_png(ctx, path, bytes, n, most, out);
    else if (n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3))
        s = fli_picture_jpeg(ctx, path, bytes, n, most, out);
    else
        s = fli_fail(ctx, FL_EFORMAT, "%s: is neither a PNG nor a JPEG image, by its first bytes", path);
    if (s) fli_picture_fini(out);
    return s;
}

/* 299/1000, 587/1000 and 114/1000 in units of 2^-16: what Pillow computes, to the bit. */
static uint8_t grey(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

fl_status fli_picture_recolour(fl_ctx *ctx, fli_picture *p, size_t channels)
{
    size_t n = p->height * p->width;
    if (channels == p->channels) return FL_OK;
    uint8_t *to = fli_alloc(ctx, n, channels);
    if (!to) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (channels == 1)
            to[i] = grey(p->pixel + 3 * i);
        else
            memset(to + 3 * i, p->pixel[i], 3);
    }
    fli_free(p->pixel);
    p->pixel = to;
    p->channels = channels;
    return FL_OK;
}
