/* Pictures in memory: PNG or JPEG to bytes, in the wanted colours and size. Files are not trusted: their dimensions are
 * checked before memory is allocated, and every defect is an error with a sentence. */
#ifndef FLI_DATA_SOURCE_PICTURE_H
#define FLI_DATA_SOURCE_PICTURE_H

#include "base/ctx.h"

#include <stdint.h>

typedef struct {
    size_t height, width, channels; /* 1: grey; 3: red, green, blue */
    uint8_t *pixel;                 /* rows from the top, channels interleaved; from fli_alloc */
} fli_picture;

enum { FLI_PICTURE_PIXELS = 1 << 27 }; /* largest picture: a small file may promise any number of pixels */

/* Decodes a file in memory, of at most `most` pixels; `path` is for messages. Drops transparency, rounds 16 bits to 8,
 * looks up palettes, and scales grey of fewer bits to 0 .. 255. After a failure *out needs no fini. */
fl_status fli_picture_read(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out);
void fli_picture_fini(fli_picture *p);

/* Converts to grey (1) or colour (3), by the weights of ITU-R 601. */
fl_status fli_picture_recolour(fl_ctx *ctx, fli_picture *p, size_t channels);
/* Resizes with exactly the pixels of Pillow's bilinear filter. */
fl_status fli_picture_resize(fl_ctx *ctx, fli_picture *p, size_t height, size_t width);

/* ---- for the decoders in picture.c, and tests ------------------------------------------------------------- */

/* Allocates p->height x p->width x p->channels bytes; FL_EFORMAT above `most` pixels. */
fl_status fli_picture_make(fl_ctx *ctx, const char *path, size_t most, fli_picture *p);

#endif
