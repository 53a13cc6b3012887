/* Tensors in the safetensors format: eight bytes with the length of a header; the header, JSON with names, types,
 * shapes, offsets and free metadata; then the numbers, little-endian and row-major, without gaps.
 *
 * Input may be untrusted: every length and offset is checked before it is used, and violations of the format are
 * refused. The limits below are fedloom's. */
#ifndef FLI_FORMAT_SAFETENSORS_H
#define FLI_FORMAT_SAFETENSORS_H

#include "base/file.h"

enum {
    FLI_SAFETENSORS_DIMS = 8,            /* dimensions of a tensor, at most */
    FLI_SAFETENSORS_HEADER_MAX = 1 << 22 /* bytes; after parsing it may take fifty times as much */
};

typedef struct {
    const char *name;
    const char *dtype; /* the format's name: F32, F64, U8, I32, I64, U32, U64, ... */
    size_t dims;       /* 0: a single number */
    size_t shape[FLI_SAFETENSORS_DIMS];
    const void *data; /* after reading it may have any alignment: copy it */
    size_t bytes;     /* set by the reader; ignored by the writer */
} fli_tensor_entry;

/* An entry of the metadata. */
typedef struct {
    const char *key, *value;
} fli_tensor_note;

/* The bytes of an element; 0 for an unknown type. */
size_t fli_safetensors_size(const char *dtype);
size_t fli_safetensors_count(const fli_tensor_entry *t); /* the product of the shape, which must not overflow */

/* ---- writing ------------------------------------------------------------------------------------------- */

/* The tensors to be written: names all different, types and shapes valid. Tensors with larger elements come first, so
 * that every tensor is aligned. Bytes that are not UTF-8 become question marks. */
typedef struct {
    const fli_tensor_note *note;
    size_t notes;
    const fli_tensor_entry *tensor;
    size_t tensors;
} fli_tensor_list;

/* Writes a file, or memory from fli_alloc, `before` bytes after its start; n includes these. */
fl_status fli_safetensors_write(fl_ctx *ctx, const fli_tensor_list *list, const char *path);
fl_status fli_safetensors_pack(fl_ctx *ctx, const fli_tensor_list *list, size_t before, void **bytes, size_t *n);

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct {
    struct json_t *header;    /* names and texts live here */
    fli_tensor_entry *tensor; /* in the order of their data */
    size_t tensors;
} fli_safetensors;

/* Reads from memory, which must stay valid: the data point into it. FL_EFORMAT, with `name` in the sentence, for
 * invalid input. *out needs no fini after a failure. */
fl_status fli_safetensors_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_safetensors *out);
void fli_safetensors_fini(fli_safetensors *f);

/* The tensor of that name, or NULL. */
const fli_tensor_entry *fli_safetensors_find(const fli_safetensors *f, const char *name);
const char *fli_safetensors_note(const fli_safetensors *f, const char *key);
/* Converts the numbers of an F32 or F64 tensor; returns 0 for other types. */
int fli_safetensors_f64(const fli_tensor_entry *t, double *out);
int fli_safetensors_f32(const fli_tensor_entry *t, float *out);
/* "2 x 3", for messages. */
void fli_safetensors_shape(const fli_tensor_entry *t, char *text, size_t capacity);

#endif
