/* CIFAR-10, binary version: records of one label byte and 3 x 32 x 32 bytes (red, green, blue plane). */
#include "base/number.h"
#include "data/load.h"
#include "data/source.h"

#include <inttypes.h>
#include <string.h>

enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, CLASSES = 10 };

typedef struct {
    char *dir;
    int64_t batches;
} params;

/* Appends the records of one file. */
static fl_status load_batch(fl_ctx *ctx, fli_stream *s, fli_array *x, fli_array *label)
{
    const char *path = fli_stream_path(s);
    uint8_t record[RECORD];
    for (size_t i = 0;; i++) {
        size_t got;
        void *pixels, *l;
        uint64_t at = fli_stream_offset(s);
        fl_status status = fli_stream_read(s, record, RECORD, &got);
        if (status) return status;
        if (!got && i) return FL_OK;
        if (got < RECORD)
            return fli_fail(ctx, FL_EFORMAT, "%s: has %" PRIu64 " bytes, not a positive multiple of %d", path, at + got,
                            RECORD);
        if (record[0] >= CLASSES)
            return fli_fail(ctx, FL_EFORMAT, "%s: record %zu at offset %" PRIu64 " has label %u, not in 0 .. 9", path,
                            i, at, record[0]);
        if ((status = fli_array_add(ctx, x, PIXELS, &pixels)) || (status = fli_array_add(ctx, label, 1, &l)))
            return status;
        memcpy(pixels, record + 1, PIXELS);
        *(int32_t *)l = record[0];
    }
}

/* Loads files `name`1 .. `name`count, or just `name` if count is 0, as one data set. */
static fl_status load_part(fl_ctx *ctx, const char *dir, const char *name, int count, fli_dataset **out)
{
    fli_array x = {.size = 1}, label = {.size = sizeof(int32_t)};
    fl_status status = FL_OK;
    *out = NULL;
    for (int b = count ? 1 : 0; status == FL_OK && b <= count; b++) {
        char file[32];
        fli_stream *s = NULL;
        fli_snprintf(file, sizeof file, b ? "%s_%d.bin" : "%s.bin", name, b);
        status = fli_load_open(ctx, dir, file, &s);
        if (status == FL_OK) status = load_batch(ctx, s, &x, &label);
        fli_stream_close(s);
    }
    if (status == FL_OK && !(*out = fli_alloc(ctx, 1, sizeof **out))) status = FL_ENOMEM;
    if (status == FL_OK) {
        **out = (fli_dataset){.n = label.n, .dim = PIXELS, .kind = FLI_X_U8, .classes = CLASSES, .shape = {3, 32, 32}};
        status = fli_load_origin(ctx, dir, *out);
        if (status == FL_OK) status = fli_array_take(ctx, &x, &(*out)->x);
        if (status == FL_OK) status = fli_array_take(ctx, &label, (void **)&(*out)->label);
    }
    fli_array_fini(&x);
    fli_array_fini(&label);
    return status;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    *train = *test = NULL;
    fl_status status = load_part(ctx, p->dir, "data_batch", (int)p->batches, train);
    if (status == FL_OK) status = load_part(ctx, p->dir, "test_batch", 0, test);
    if (status == FL_OK) return FL_OK;
    fli_dataset_free(*train);
    fli_dataset_free(*test);
    *train = *test = NULL;
    return status;
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, dir, NULL, "folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin"),
    FLI_KEY_INT(params, batches, "5", 1, 5, "use only the first N training batches, 10000 images each"),
    FLI_KEY_END,
};

const fli_source fli_source_cifar10 = {
    .name = "cifar10",
    .title = "CIFAR-10, binary version: 32 x 32 colour images of 10 classes",
    .citation = "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    .needs = "data_batch_1.bin to data_batch_5.bin and test_batch.bin in dir, plain or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
