#include "model_file/model_file.h"

#include "base/limits.h"

#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------- */

/* A block of the parameter vector x as the file has it. */
static fli_tensor_entry entry(const fli_model *m, const fli_tensor *b, const void *x)
{
    size_t size = m->space.ops->size;
    fli_tensor_entry e = {
        .name = b->name, .dtype = size == sizeof(float) ? "F32" : "F64", .data = (const char *)x + b->offset * size};
    e.dims = fli_tensor_shape(b, e.shape);
    return e;
}

fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x,
                               const fli_tensor_list *beside)
{
    size_t own = m->tensor_count, more = beside->tensors;
    fli_tensor_entry *entries = fli_alloc(ctx, own + more, sizeof *entries);
    if (!entries) return FL_ENOMEM;
    for (size_t i = 0; i < own; i++) entries[i] = entry(m, &m->tensors[i], x);
    for (size_t i = 0; i < more; i++) entries[own + i] = beside->tensor[i];
    fli_tensor_list all = {beside->note, beside->notes, entries, own + more};
    fl_status s = fli_safetensors_write(ctx, &all, path);
    fli_free(entries);
    return s;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

fl_status fli_model_file_bytes(fl_ctx *ctx, const char *path, char **bytes, size_t *n)
{
    double memory = fli_limit_memory().bytes;
    return fli_file_read(ctx, path, memory < 0x1p62 ? (size_t)memory : (size_t)1 << 62, bytes, n);
}

/* Whether two shapes are the same but for dimensions of 1: a vector may be a matrix of one row elsewhere. */
static int alike(const fli_tensor_entry *a, const fli_tensor_entry *b)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < a->dims && a->shape[i] == 1) i++;
        while (j < b->dims && b->shape[j] == 1) j++;
        if (i == a->dims || j == b->dims) return i == a->dims && j == b->dims;
        if (a->shape[i++] != b->shape[j++]) return 0;
    }
}

static int convert(const fli_ops *ops, const fli_tensor_entry *t, void *x)
{
    return ops->size == sizeof(float) ? fli_safetensors_f32(t, x) : fli_safetensors_f64(t, x);
}

static fl_status take(fl_ctx *ctx, const char *path, const fli_safetensors *f, const fli_model *m, const fli_tensor *b,
                      void *x)
{
    char has[160], wants[160];
    const fli_ops *ops = m->space.ops;
    const fli_tensor_entry want = entry(m, b, x), *t = fli_safetensors_find(f, b->name);
    if (!t)
        return fli_fail(ctx, FL_EFORMAT, "%s: has no tensor \"%s\", which model %s needs", path, b->name,
                        m->desc->name);
    fli_safetensors_shape(t, has, sizeof has);
    fli_safetensors_shape(&want, wants, sizeof wants);
    if (!alike(t, &want))
        return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" is %s, but that of model %s is %s", path, b->name, has,
                        m->desc->name, wants);
    if (!convert(ops, t, fli_at(ops, x, b->offset)))
        return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" is of type %s, but must be F32 or F64", path, b->name,
                        t->dtype);
    if (ops->finite(fli_safetensors_count(t), fli_at(ops, x, b->offset))) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" has a number that is not finite, or too large for f32", path,
                    b->name);
}

fl_status fli_model_file_take(fl_ctx *ctx, const char *path, const fli_safetensors *f, const fli_model *m, void *x)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < m->tensor_count; i++) s = take(ctx, path, f, m, &m->tensors[i], x);
    return s;
}

fl_status fli_model_file_start(fl_ctx *ctx, const char *path, const fli_model *m, void *x)
{
    char *bytes;
    size_t n;
    fli_safetensors f = {0};
    fl_status s = fli_model_file_bytes(ctx, path, &bytes, &n);
    if (!s) s = fli_safetensors_read(ctx, path, bytes, n, &f);
    if (!s) s = fli_model_file_take(ctx, path, &f, m, x);
    fli_safetensors_fini(&f);
    fli_free(bytes);
    return s;
}
