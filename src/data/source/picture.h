/* Pictures in memory: from a PNG or a JPEG file to bytes, in the colours and the size that are wanted. What a file says
 * is never trusted: its dimensions are looked at before there is memory for them, and whatever is wrong with it is one
 * sentence. */
#ifndef FLI_DATA_SOURCE_PICTURE_H
#define FLI_DATA_SOURCE_PICTURE_H

#include "base/ctx.h"

#include <stdint.h>

typedef struct {
    size_t height, width, channels; /* 1: grey; 3: red, green, blue */
    uint8_t *pixel;                 /* rows from the top, the channels of a pixel side by side; from fli_alloc */
} fli_picture;

enum { FLI_PICTURE_PIXELS = 1 << 27 }; /* of a picture, at most: a small file may promise any number */

/* A file that lies in memory, of at most `most` pixels; `path` is for messages. Transparency is left out, 16 bits are
 * rounded to 8, palettes are looked up, and grey of fewer bits is spread over 0 .. 255. After a failure *out needs no
 * fini. */
fl_status fli_picture_read(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out);
void fli_picture_fini(fli_picture *p);

/* Makes it grey (1) or coloured (3), by the weights of ITU-R 601. */
fl_status fli_picture_recolour(fl_ctx *ctx, fli_picture *p, size_t channels);
/* Makes it this large, with the bits of Pillow's bilinear filter. */
fl_status fli_picture_resize(fl_ctx *ctx, fli_picture *p, size_t height, size_t width);

/* ---- for the decoders in picture.c, and tests ------------------------------------------------------------- */

/* Memory for p->height x p->width x p->channels bytes, if that is no more than `most` pixels. */
fl_status fli_picture_make(fl_ctx *ctx, const char *path, size_t most, fli_picture *p);

#endif
