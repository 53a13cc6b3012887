/* Fuzz target: a safetensors file, from any bytes. Either a sentence, or tensors that cover the data, can be read to
 * the last byte, and come out the same when they are written and read again. */
#include "base/rng.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_safetensors: %s\n", what);
    abort();
}

static void check_tensors(const fli_safetensors *f, const uint8_t *data, size_t size)
{
    const uint8_t *end = f->tensors ? f->tensor[0].data : data + size;
    for (size_t i = 0; i < f->tensors; i++) {
        const fli_tensor_entry *t = &f->tensor[i];
        demand(t->data == end && (const uint8_t *)t->data >= data + 8, "tensors do not follow each other");
        demand(t->bytes == fli_safetensors_count(t) * fli_safetensors_size(t->dtype), "a size is wrong");
        demand(fli_safetensors_find(f, t->name) == t, "a tensor is not found");
        end += t->bytes;
    }
    demand(end == data + size, "tensors do not cover the data");
}

static void check_again(fl_ctx *ctx, const fli_safetensors *f)
{
    fli_tensor_list list = {NULL, 0, f->tensor, f->tensors};
    fli_safetensors again;
    void *bytes;
    size_t n;
    if (fli_safetensors_pack(ctx, &list, 0, &bytes, &n)) return;
    demand(!fli_safetensors_read(ctx, "again", bytes, n, &again), "what was written cannot be read");
    demand(again.tensors == f->tensors, "a tensor is lost");
    for (size_t i = 0; i < f->tensors; i++) {
        const fli_tensor_entry *was = &f->tensor[i], *is = fli_safetensors_find(&again, was->name);
        demand(is && is->bytes == was->bytes && !memcmp(is->data, was->data, was->bytes), "a tensor has changed");
    }
    fli_safetensors_fini(&again);
    fli_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_safetensors f;
    if (!ctx) return 0;
    fl_status s = fli_safetensors_read(ctx, "input", data, size, &f);
    demand(!s == !*fl_ctx_error(ctx), "a failure without a sentence, or the other way round");
    if (!s) {
        check_tensors(&f, data, size);
        check_again(ctx, &f);
    }
    fli_safetensors_fini(&f);
    fl_ctx_free(ctx);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4000 };

/* The length of the header is put in front of it below. */
static const char seed[] = "{\"__metadata__\":{\"format\":\"fedloom\"},"
                           "\"layer1.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                           "\"layer1.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
                           "\"u\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[32,33]}}";
enum { DATA = 33 };

static const char *const tokens[] = {
    "{",  "}",     "[",       "]", ",",         "\"",        ":",      "null",    "-1",   "1e999",
    "0",  "8",     "\\u0000", "1", "\"shape\"", "\"dtype\"", "[[[",    "\"F64\"", "\xff", "9223372036854775807",
    "24", "[0,0]", "\\ud800", " ", "[24,32]",   "true",      "\"U8\"", "0.5"};

static const dialect json = {tokens, sizeof tokens / sizeof *tokens, LONGEST, 0};

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 20000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        uint8_t buf[LONGEST + 96];
        size_t header = sizeof seed - 1, data = DATA;
        memset(buf, 1, sizeof buf);
        memcpy(buf + 8, seed, header);
        for (uint64_t k = fli_rng_below(&r, 6); k; k--) header = mutate(&json, &r, buf + 8, header);
        uint64_t length = fli_rng_below(&r, 16) ? header : fli_rng_u32(&r) >> fli_rng_below(&r, 32);
        memcpy(buf, &length, 8);
        if (fli_rng_below(&r, 16) == 0) data = (size_t)fli_rng_below(&r, DATA + 9);
        LLVMFuzzerTestOneInput(buf, 8 + header + data);
    }
    printf("fuzz_safetensors: %ld inputs, no failure\n", times);
    return 0;
}

#endif
