#include "run/model_file.h"

#include "base/safetensors.h"

/* A block of the parameter vector x as the file has it. */
static fli_tensor_entry entry(const fli_model *m, const fli_tensor *b, const void *x)
{
    size_t size = m->space.ops->size;
    fli_tensor_entry e = {.name = b->name,
                          .dtype = size == sizeof(float) ? "F32" : "F64",
                          .dims = b->kernel ? 4
                                  : b->cols ? 2
                                            : 1,
                          .shape = {b->rows, b->cols},
                          .data = (const char *)x + b->offset * size};
    if (b->kernel) {
        e.shape[1] = b->cols / b->kernel / b->kernel;
        e.shape[2] = e.shape[3] = b->kernel;
    }
    return e;
}

fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x)
{
    const fli_tensor_note notes[] = {{"format", "fedloom"}, {"version", FL_VERSION}, {"model", m->desc->name}};
    fli_tensor_entry *entries = fli_alloc(ctx, m->tensor_count, sizeof *entries);
    if (!entries) return FL_ENOMEM;
    for (size_t i = 0; i < m->tensor_count; i++) entries[i] = entry(m, &m->tensors[i], x);
    fl_status s = fli_safetensors_write(
        ctx, &(fli_tensor_list){notes, sizeof notes / sizeof *notes, entries, m->tensor_count}, path);
    fli_free(entries);
    return s;
}
