/* Fuzz target: a model file, from any bytes. Either a sentence, or a model that can be looked at, and asked about a
 * sample if it is a small one. */
#include "base/rng.h"
#include "model_file/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_model: %s\n", what);
    abort();
}

static void look(const fl_model *m)
{
    const fl_model_info *info = fl_model_about(m);
    fl_tensor t;
    const void *data;
    size_t reals = 0;
    unsigned char last = 0;
    for (size_t k = 0; fl_model_tensor(m, k, &t, &data); k++) {
        size_t n = 1;
        for (size_t i = 0; i < t.dims; i++) n *= t.shape[i];
        demand(t.offset == reals && t.name, "tensors do not follow each other");
        if (n) last = (unsigned char)(last + ((const unsigned char *)data)[n * info->real - 1]);
        reals += n;
    }
    demand(reals == info->parameters && (last || !last), "parameters are not counted");
    for (size_t i = 0; info->class_name && i < info->classes; i++)
        demand(info->class_name[i] != NULL, "a name is lost");
}

static void ask(fl_ctx *ctx, const fl_model *m)
{
    enum { MOST = 4096 };
    static double x[MOST], out[MOST];
    const fl_model_info *info = fl_model_about(m);
    const size_t row[2] = {0, 1};
    const uint32_t col[1] = {0};
    fl_samples s = {.size = sizeof s, .n = 1, .dim = info->dim, .f64 = x};
    if (info->dim > MOST || !info->dim || info->outputs > MOST) return;
    demand(!fl_model_predict(ctx, m, &s, out) == !*fl_ctx_error(ctx), "a prediction failed without a sentence");
    s.row = row;
    s.col = col;
    demand(!fl_model_predict(ctx, m, &s, out) == !*fl_ctx_error(ctx), "a prediction failed without a sentence");
}

static long predicted; /* models that could be asked */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_model *m;
    if (!ctx) return 0;
    fl_status s = fli_loaded_model_read(ctx, "input", data, size, &m);
    demand(!s == !*fl_ctx_error(ctx) && !s == (m != NULL), "a failure without a sentence, or the other way round");
    if (m) {
        look(m);
        ask(ctx, m);
        predicted += fl_model_about(m)->outputs > 0;
    }
    fl_model_free(m);
    fl_ctx_free(ctx);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 3000, DATA = 4 * (2 * 4 + 2 + 3 * 2 + 3) };

/* The length of the header is put in front of them below. */
static const char *const seeds[] = {
    "{\"__metadata__\":{\"format\":\"fedloom\",\"version\":\"0.2.0\",\"model\":\"mlp\",\"settings\":\"hidden: [2]\\n"
    "init: he\\n\",\"shape\":\"[1, 2, 2]\",\"scale\":\"[0.5, 2]\",\"shift\":\"[0, 0]\",\"classes\":\"3\","
    "\"class_names\":\"[\\\"a\\\", \\\"b\\\", \\\"c\\\"]\"},"
    "\"layer1.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},"
    "\"layer1.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]},"
    "\"layer2.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[40,64]},"
    "\"layer2.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[64,76]}}",
    "{\"__metadata__\":{\"format\":\"fedloom\",\"model\":\"cnn\",\"settings\":\"layers: 'conv 1x2, fc 1'\\n\","
    "\"shape\":\"[1, 4, 3]\",\"crop\":\"2\",\"normalize\":\"image\",\"classes\":\"2\"},"
    "\"conv1.weight\":{\"dtype\":\"F32\",\"shape\":[1,1,2,2],\"data_offsets\":[0,16]},"
    "\"conv1.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]},"
    "\"fc1.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[20,24]},"
    "\"fc1.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]},"
    "\"fc2.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[28,36]},"
    "\"fc2.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[36,44]},"
    "\"x\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[44,76]}}",
    "{\"__metadata__\":{\"format\":\"fedloom\",\"model\":\"logistic\",\"shape\":\"[1, 1, 3]\",\"classes\":\"2\"},"
    "\"weight\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]},"
    "\"input.scale\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[24,48]},"
    "\"input.shift\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[48,60]},"
    "\"more\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[60,76]}}",
};

static const char *const tokens[] = {"{",  "}",     "[", "]",  ",",      "\"",  ":",     "-1",   "1e999",   "0",
                                     "99", "65536", "1", "\\", "\\\"",   "[[[", "F64",   "\xff", "1000000", "]]",
                                     "2",  ", 3",   " ", "kK", "hidden", "fc",  "pool ", "same", "conv ",   "logistic"};

static const dialect json = {tokens, sizeof tokens / sizeof *tokens, LONGEST, 1};

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 20000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        uint8_t buf[LONGEST + 8 + DATA] = {0};
        const char *seed = seeds[fli_rng_below(&r, sizeof seeds / sizeof *seeds)];
        size_t n = strlen(seed);
        memcpy(buf + 8, seed, n);
        for (uint64_t k = fli_rng_below(&r, 4); k; k--) n = mutate(&json, &r, buf + 8, n);
        uint64_t length = n;
        memcpy(buf, &length, 8);
        for (size_t k = 0; k < DATA; k++) buf[8 + n + k] = (uint8_t)(fli_rng_u32(&r) & 63);
        LLVMFuzzerTestOneInput(buf, 8 + n + DATA);
    }
    demand(times < 1000 || predicted > times / 8, "hardly any input was a model");
    printf("fuzz_model: %ld inputs, %ld of them models, no failure\n", times, predicted);
    return 0;
}

#endif
