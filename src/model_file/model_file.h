/* Trained models on disk: the files model.safetensors of results, and files that a run starts from. What is said beside
 * the tensors, key by key:
 *
 *     format            fedloom
 *     version           of fedloom
 *     model             its kind, "mlp"
 *     settings          what it is made from, as YAML: "hidden: [32]\ninit: pytorch\n"
 *     layers            as JSON, see model/describe.c; not for every kind
 *     parameters        how many
 *     precision         f32 or f64
 *     shape             of a sample as it is in the data, as JSON: channels, height, width
 *     crop              models see the middle of images, this many pixels high and wide; absent: all
 *     normalize         image: every image by its own mean and deviation, of what is seen of it. Otherwise absent, and
 *     scale, shift      JSON lists: value * scale + shift, one pair per run of features, of equal length; absent: none.
 *                       Long ones are the tensors input.scale and input.shift instead
 *     classes           0: a regression
 *     class_names       as JSON; absent: 0, 1, ...
 *     bilevel           which two levels were trained; absent: one
 *     algorithm, round, seed, data      how it came about; data is the digest
 *
 * With two levels the parameters of both are there. Of methods that make a model per client it is the global one. */
#ifndef FLI_MODEL_FILE_MODEL_FILE_H
#define FLI_MODEL_FILE_MODEL_FILE_H

#include "format/safetensors.h"
#include "model/model.h"

#define FLI_SCALE_TENSOR "input.scale"
#define FLI_SHIFT_TENSOR "input.shift"

/* A model, and what else the file is to have. */
fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x,
                               const fli_tensor_list *beside);

/* A whole file, in memory from fli_alloc. */
fl_status fli_model_file_bytes(fl_ctx *ctx, const char *path, char **bytes, size_t *n);
/* The model's parameters by name out of a file of any origin: of the same shapes up to dimensions of 1, f32 or f64, and
 * finite. Whatever else the file has is not looked at. `path` is for messages. */
fl_status fli_model_file_take(fl_ctx *ctx, const char *path, const fli_safetensors *f, const fli_model *m, void *x);
/* Both: the start model of a run. */
fl_status fli_model_file_start(fl_ctx *ctx, const char *path, const fli_model *m, void *x);

#endif
