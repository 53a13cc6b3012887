#include "run/safetensors.h"

#include "base/file.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

/* Names are our own (fli_tensor), so they need no escaping. The header is padded to eight bytes, as readers like it. */
static void header(fli_text *t, const fli_model *m)
{
    size_t size = m->space.ops->size;
    fli_text_addf(t, "{\"__metadata__\":{\"format\":\"fedloom\",\"version\":\"%s\",\"model\":\"%s\"}", FL_VERSION,
                  m->desc->name);
    for (size_t i = 0; i < m->tensor_count; i++) {
        const fli_tensor *b = &m->tensors[i];
        size_t n = 1, shape[4], dims = fli_tensor_shape(b, shape);
        fli_text_addf(t, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", b->name, size == 4 ? "F32" : "F64");
        for (size_t k = 0; k < dims; n *= shape[k++]) fli_text_addf(t, "%s%zu", k ? "," : "", shape[k]);
        fli_text_addf(t, "],\"data_offsets\":[%zu,%zu]}", b->offset * size, (b->offset + n) * size);
    }
    fli_text_add(t, "}");
    while (t->n % 8 && !t->failed) fli_text_add(t, " ");
}

fl_status fli_safetensors_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x)
{
    fli_text head;
    fli_out out;
    fli_text_init(&head, ctx);
    header(&head, m);
    fl_status s = fli_text_ok(&head);
    if (!s) s = fli_out_open(ctx, path, &out);
    if (!s) {
        uint64_t length = head.n;
        fli_out_bytes(&out, &length, sizeof length);
        fli_out_bytes(&out, head.s, head.n);
        fli_out_bytes(&out, x, fli_bytes(&m->space));
        s = fli_out_close(&out);
    }
    fli_text_fini(&head);
    return s;
}
