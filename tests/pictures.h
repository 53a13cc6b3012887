/* For tests of what reads images: PNG files of every kind, written chunk by chunk, and JPEG files. */
#ifndef TESTS_PICTURES_H
#define TESTS_PICTURES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h */
#include <zlib.h>

/* A file in memory. */
typedef struct {
    uint8_t b[1 << 16];
    size_t n;
} picture_file;

static inline void picture_put(picture_file *f, const void *data, size_t n)
{
    if (n > sizeof f->b - f->n) abort();
    if (n) memcpy(f->b + f->n, data, n);
    f->n += n;
}

/* ---- PNG ------------------------------------------------------------------------------------------------ */

static inline void picture_number(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static inline void png_chunk(picture_file *f, const char *type, const void *data, size_t n)
{
    uint8_t number[4];
    picture_number(number, (uint32_t)n);
    picture_put(f, number, 4);
    size_t at = f->n;
    picture_put(f, type, 4);
    picture_put(f, data, n);
    picture_number(number, (uint32_t)crc32(0, f->b + at, (unsigned)(4 + n)));
    picture_put(f, number, 4);
}

/* What an image is: type 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha, of 1 to 16 bits. */
typedef struct {
    uint32_t width, height;
    uint8_t depth, type, interlaced;
} png_kind;

static inline unsigned png_samples(const png_kind *k)
{
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4};
    return samples[k->type];
}

/* Sample c of a pixel: anything that differs from pixel to pixel, of so many bits. */
static inline uint32_t png_sample(const png_kind *k, uint32_t x, uint32_t y, unsigned c)
{
    return (x * 2749 + y * 6091 + c * 9973 + x * y * 401) & ((1u << k->depth) - 1);
}

/* Entry i of the palette. */
static inline uint8_t png_colour(uint32_t i, unsigned c)
{
    return (uint8_t)(c == 0 ? 3 * i : c == 1 ? 255 - i : 7 * i);
}

/* The pixels from (x0, y0) in steps of dx and dy: filter bytes and packed samples. Returns how many bytes. */
static inline size_t png_rows(const png_kind *k, uint32_t x0, uint32_t y0, uint32_t dx, uint32_t dy, uint8_t *to)
{
    size_t n = 0;
    for (uint32_t y = y0; x0 < k->width && y < k->height; y += dy) {
        unsigned bits = 0;
        to[n++] = 0;
        for (uint32_t x = x0; x < k->width; x += dx)
            for (unsigned c = 0; c < png_samples(k); c++, bits += k->depth) {
                uint32_t v = png_sample(k, x, y, c);
                if (bits % 8 == 0) to[n++] = 0;
                if (k->depth == 16) {
                    to[n - 1] = (uint8_t)(v >> 8);
                    to[n++] = (uint8_t)v;
                } else {
                    to[n - 1] |= (uint8_t)(v << (8 - k->depth - bits % 8));
                }
            }
    }
    return n;
}

static inline size_t png_pixels(const png_kind *k, uint8_t *to)
{
    static const uint8_t pass[][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                      {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    size_t n = 0;
    if (!k->interlaced) return png_rows(k, 0, 0, 1, 1, to);
    for (size_t i = 0; i < 7; i++) n += png_rows(k, pass[i][0], pass[i][1], pass[i][2], pass[i][3], to + n);
    return n;
}

static inline void png_head(picture_file *f, const png_kind *k)
{
    uint8_t head[13] = {0};
    f->n = 0;
    picture_put(f, "\x89PNG\r\n\x1a\n", 8);
    picture_number(head, k->width);
    picture_number(head + 4, k->height);
    head[8] = k->depth;
    head[9] = k->type;
    head[12] = k->interlaced;
    png_chunk(f, "IHDR", head, sizeof head);
}

static inline void png_file(picture_file *f, png_kind k)
{
    static uint8_t raw[1 << 16], packed[1 << 16];
    uLongf n = sizeof packed;
    png_head(f, &k);
    for (uint32_t i = 0; i < 3u << k.depth && k.type == 3; i++) raw[i] = png_colour(i / 3, i % 3);
    if (k.type == 3) png_chunk(f, "PLTE", raw, 3u << k.depth);
    if (k.type == 3) png_chunk(f, "tRNS", "\x10\x20", 2); /* transparency, which is left out */
    if (compress(packed, &n, raw, (uLong)png_pixels(&k, raw))) abort();
    png_chunk(f, "IDAT", packed, n);
    png_chunk(f, "IEND", NULL, 0);
}

/* ---- JPEG ----------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned width, height;
    J_COLOR_SPACE space; /* JCS_GRAYSCALE, JCS_RGB, JCS_CMYK */
    int progressive;
} jpeg_kind;

/* Slow waves, so that little is lost. */
static inline uint8_t jpeg_sample(unsigned x, unsigned y, unsigned c)
{
    return (uint8_t)(c == 0 ? 40 + 4 * x : c == 1 ? 200 - 3 * y : 90 + x + y);
}

static inline void jpeg_file(picture_file *f, jpeg_kind k)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    unsigned samples = k.space == JCS_GRAYSCALE ? 1 : k.space == JCS_RGB ? 3 : 4;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &n);
    jpeg.image_width = k.width;
    jpeg.image_height = k.height;
    jpeg.input_components = (int)samples;
    jpeg.in_color_space = k.space;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    if (k.progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (unsigned y = 0; y < k.height; y++) {
        uint8_t row[4 * 256];
        JSAMPROW rows = row;
        for (unsigned i = 0; i < k.width * samples; i++) row[i] = jpeg_sample(i / samples, y, i % samples);
        jpeg_write_scanlines(&jpeg, &rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    f->n = 0;
    picture_put(f, bytes, n);
    jpeg_destroy_compress(&jpeg);
    free(bytes);
}

#endif
