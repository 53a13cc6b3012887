/* Fuzz target: an image, from any bytes. Either a sentence and nothing left, or a picture of as many pixels as it says
 * that can be made grey, coloured, smaller and larger. A PNG is read a second time with its checksums mended, which a
 * search would hardly find. */
#include "data/source/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIXELS = 1 << 14 };

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_pictures: %s\n", what);
    abort();
}

static void use(fl_ctx *ctx, fli_picture *p)
{
    size_t bytes = p->height * p->width * p->channels;
    demand(p->height && p->width && p->height * p->width <= PIXELS, "a size is wrong");
    demand(p->channels == 1 || p->channels == 3, "so many channels");
    demand(crc32(0, p->pixel, (unsigned)bytes) <= UINT32_MAX, "its pixels cannot be read");
    demand(!fli_picture_recolour(ctx, p, p->channels == 1 ? 3 : 1), "no other colours");
    demand(!fli_picture_resize(ctx, p, 5, 40), "no other size");
    demand(p->height == 5 && p->width == 40, "the size is another one");
}

static void try(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_picture p;
    if (!ctx) return;
    fl_status s = fli_picture_read(ctx, "input", data, size, PIXELS, &p);
    demand(!s == !*fl_ctx_error(ctx), "a failure without a sentence, or the other way round");
    demand(!s == !!p.pixel, "pixels after a failure, or none without");
    if (!s) use(ctx, &p);
    fli_picture_fini(&p);
    fl_ctx_free(ctx);
}

static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Gives every chunk that is whole its checksum. */
static void mend(uint8_t *png, size_t size)
{
    for (size_t at = 8, n; at + 12 <= size && (n = number_at(png + at)) <= size - at - 12; at += 12 + n) {
        uint32_t sum = (uint32_t)crc32(0, png + at + 4, (unsigned)(4 + n));
        for (int i = 0; i < 4; i++) png[at + 8 + n + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try(data, size);
    if (size < 8 || memcmp(data, "\x89PNG", 4)) return 0;
    uint8_t *mended = malloc(size);
    if (!mended) return 0;
    memcpy(mended, data, size);
    mend(mended, size);
    try(mended, size);
    free(mended);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "../pictures.h"
#include "mutate.h"

static const char *const tokens[] = {"\xff",     "\xff\xd9", "\xff\xda", "IDAT", "PLTE", "tRNS", "\x7f\xff\xff\xff",
                                     "\1",       "\2",       "\3",       "\4",   "\6",   "\x10", "\xff\xc4",
                                     "\xff\xdb", "\x80"};
static const dialect of_images = {tokens, sizeof tokens / sizeof *tokens, sizeof((picture_file *)0)->b, 1};

static const png_kind png[] = {{6, 5, 1, 0, 0}, {6, 5, 16, 0, 1}, {6, 5, 8, 2, 1}, {6, 5, 4, 3, 0},
                               {6, 5, 8, 3, 1}, {6, 5, 8, 4, 0},  {6, 5, 16, 6, 1}};
static const jpeg_kind jpeg[] = {
    {17, 9, JCS_RGB, 0}, {17, 9, JCS_RGB, 1}, {17, 9, JCS_GRAYSCALE, 0}, {17, 9, JCS_CMYK, 0}};
enum { PNGS = sizeof png / sizeof *png, SEEDS = PNGS + sizeof jpeg / sizeof *jpeg };

static void make_seed(size_t which, picture_file *f)
{
    if (which < PNGS)
        png_file(f, png[which]);
    else
        jpeg_file(f, jpeg[which - PNGS]);
}

/* As a start for libFuzzer. */
static int write_seeds(const char *folder)
{
    static picture_file f;
    for (size_t k = 0; k < SEEDS; k++) {
        char path[512];
        make_seed(k, &f);
        snprintf(path, sizeof path, "%s/seed-%zu", folder, k);
        FILE *out = fopen(path, "wb");
        if (!out || fwrite(f.b, 1, f.n, out) != f.n || fclose(out)) return 1;
    }
    return 0;
}

/* Arguments: how many inputs (20000), or `seeds FOLDER` to write the seeds. */
int main(int argc, char **argv)
{
    static picture_file f;
    if (argc == 3) return write_seeds(argv[2]);
    long times = argc > 1 ? atol(argv[1]) : 20000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        make_seed((size_t)i % SEEDS, &f);
        for (uint64_t k = fli_rng_below(&r, 6); k; k--) f.n = mutate(&of_images, &r, f.b, f.n);
        LLVMFuzzerTestOneInput(f.b, f.n);
    }
    printf("fuzz_pictures: %ld inputs, no failure\n", times);
    return 0;
}

#endif
