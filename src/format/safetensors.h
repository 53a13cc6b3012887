/* Tensors in the safetensors format: eight bytes with the length of a header; the header, JSON with names, types,
 * shapes and places, and with texts of one's own; then the numbers, little-endian and row-major, without gaps.
 *
 * What is read may come from anywhere: every length and place is checked before it is used, and what the format forbids
 * is refused. The limits below are ours. */
#ifndef FLI_FORMAT_SAFETENSORS_H
#define FLI_FORMAT_SAFETENSORS_H

#include "base/file.h"

enum {
    FLI_SAFETENSORS_DIMS = 8,            /* dimensions of a tensor, at most */
    FLI_SAFETENSORS_HEADER_MAX = 1 << 22 /* bytes; parsed it may take fifty times that */
};

typedef struct {
    const char *name;
    const char *dtype; /* as the format calls it: F32, F64, U8, I32, I64, U32, U64, ... */
    size_t dims;       /* 0: a single number */
    size_t shape[FLI_SAFETENSORS_DIMS];
    const void *data; /* in what was read it may lie at any address: copy it */
    size_t bytes;     /* what was read has it; writers need not say */
} fli_tensor_entry;

/* A text beside the tensors. */
typedef struct {
    const char *key, *value;
} fli_tensor_note;

/* Bytes of an element; 0: there is no such type. */
size_t fli_safetensors_size(const char *dtype);
size_t fli_safetensors_count(const fli_tensor_entry *t); /* the product of the shape, which must fit */

/* ---- writing ------------------------------------------------------------------------------------------- */

/* What is to be written: names all different, types and shapes right. Numbers with larger elements are placed first, so
 * that every tensor is aligned. Bytes that are not UTF-8 become question marks. */
typedef struct {
    const fli_tensor_note *note;
    size_t notes;
    const fli_tensor_entry *tensor;
    size_t tensors;
} fli_tensor_list;

/* Into a file, and into memory from fli_alloc, `before` bytes behind its start; n counts these, too. */
fl_status fli_safetensors_write(fl_ctx *ctx, const fli_tensor_list *list, const char *path);
fl_status fli_safetensors_pack(fl_ctx *ctx, const fli_tensor_list *list, size_t before, void **bytes, size_t *n);

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct {
    struct json_t *header;    /* names and texts live here */
    fli_tensor_entry *tensor; /* in the order of their data */
    size_t tensors;
} fli_safetensors;

/* Reads what lies in memory, which must stay: data point into it. FL_EFORMAT, with `name` in the sentence, if it is not
 * what it should be. *out needs no fini after a failure. */
fl_status fli_safetensors_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_safetensors *out);
void fli_safetensors_fini(fli_safetensors *f);

/* By name; NULL: there is none. */
const fli_tensor_entry *fli_safetensors_find(const fli_safetensors *f, const char *name);
const char *fli_safetensors_note(const fli_safetensors *f, const char *key);
/* The numbers of an F32 or F64 tensor, converted. 0: it has another type. */
int fli_safetensors_f64(const fli_tensor_entry *t, double *out);
int fli_safetensors_f32(const fli_tensor_entry *t, float *out);
/* "2 x 3", for messages. */
void fli_safetensors_shape(const fli_tensor_entry *t, char *text, size_t capacity);

#endif
