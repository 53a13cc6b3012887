/* Made-up data of LEAF's shape: users who write 28 x 28 images of some of the classes, as JSON like that of FEMNIST. An
 * image is its class's pattern, the same for everybody, with pixels flipped by the writer; pixels are 0 or 1. */
#ifndef TESTS_LEAF_H
#define TESTS_LEAF_H

#include "fixture.h"

#include "base/rng.h"

#include <sys/stat.h>

enum { LEAF_PIXELS = 28 * 28 };

typedef struct {
    size_t users, classes;
    size_t least, most; /* samples per user */
} leaf_shape;

static void leaf_image(FILE *out, size_t label, fli_rng *writer)
{
    fli_rng pattern;
    fli_rng_init(&pattern, 77, FLI_RNG_TEST, 1, (uint32_t)label);
    for (size_t k = 0; k < LEAF_PIXELS; k++) {
        int ink = fli_rng_below(&pattern, 4) == 0, flipped = fli_rng_below(writer, 10) == 0;
        fprintf(out, "%s%d.0", k ? "," : "", ink != flipped);
    }
}

/* One file of users from..to-1; a writer uses up to ten classes in a row, round about. */
static void leaf_file(const char *path, const leaf_shape *s, size_t from, size_t to, int test)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "{\"users\": [");
    for (size_t u = from; u < to; u++) fprintf(out, "%s\"f%04zu_%02zu\"", u > from ? ", " : "", u, u % 50);
    fprintf(out, "], \"num_samples\": [");
    for (size_t u = from; u < to; u++)
        fprintf(out, "%s%zu", u > from ? ", " : "", test ? 2 : s->least + u * 7 % (s->most - s->least + 1));
    fprintf(out, "], \"user_data\": {");
    for (size_t u = from; u < to; u++) {
        size_t n = test ? 2 : s->least + u * 7 % (s->most - s->least + 1);
        fli_rng writer;
        fli_rng_init(&writer, 77, FLI_RNG_TEST, test ? 3 : 2, (uint32_t)u);
        fprintf(out, "%s\"f%04zu_%02zu\": {\"x\": [", u > from ? ", " : "", u, u % 50);
        for (size_t i = 0; i < n; i++) {
            fprintf(out, i ? ",[" : "[");
            leaf_image(out, (u * 3 + i % 10) % s->classes, &writer);
            fprintf(out, "]");
        }
        fprintf(out, "], \"y\": [");
        for (size_t i = 0; i < n; i++) fprintf(out, "%s%zu", i ? "," : "", (u * 3 + i % 10) % s->classes);
        fprintf(out, "]}");
    }
    fprintf(out, "}}\n");
    assert_int_equal(fclose(out), 0);
}

/* The folders f->folder/NAME/train, of two files, and f->folder/NAME/test. */
UNUSED static void leaf_write(fixture *f, const char *name, const leaf_shape *s)
{
    char path[512];
    assert_int_equal(mkdir(fixture_path(f, name), 0777), 0);
    for (int test = 0; test < 2; test++) {
        snprintf(path, sizeof path, "%s/%s/%s", f->folder, name, test ? "test" : "train");
        assert_int_equal(mkdir(path, 0777), 0);
        for (size_t half = 0; half < 2; half++) {
            snprintf(path, sizeof path, "%s/%s/%s/all_data_%zu_niid_0_keep_0_%s_9.json", f->folder, name,
                     test ? "test" : "train", half, test ? "test" : "train");
            leaf_file(path, s, half * (s->users / 2), half ? s->users : s->users / 2, test);
        }
    }
}

#endif
