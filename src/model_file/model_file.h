/* Trained models on disk: the model.safetensors of results, and the start models of runs. Keys of the metadata:
 *
 *   format            fedloom
 *   version           of fedloom
 *   model             the kind, such as mlp
 *   settings          of the model, as YAML: "hidden: [32]\ninit: pytorch\n"
 *   layers            as JSON, see model/describe.c; some kinds have none
 *   parameters        their number
 *   precision         f32 or f64
 *   shape             of a sample in the data, as JSON: channels, height, width
 *   crop              the model sees the middle of images, this many pixels high and wide; absent: the whole image
 *   normalize         image: each image by its own mean and deviation, over the part that is seen. Else absent, and
 *   scale, shift      JSON lists of equal length: value * scale + shift, one pair per run of features; absent: none.
 *                     Long lists are the tensors input.scale and input.shift instead
 *   classes           0: a regression
 *   class_names       as JSON; absent: 0, 1, ...
 *   bilevel           the problem with two levels that was trained; absent: one level
 *   algorithm, round, seed, data      origin; data is the digest
 *
 * With two levels the file has the parameters of both. For methods with a model per client it has the global model. */
#ifndef FLI_MODEL_FILE_MODEL_FILE_H
#define FLI_MODEL_FILE_MODEL_FILE_H

#include "config/settings.h"
#include "format/safetensors.h"
#include "model/model.h"

#define FLI_SCALE_TENSOR "input.scale"
#define FLI_SHIFT_TENSOR "input.shift"

/* Writes the parameters x of a model; `extra` has the metadata and additional tensors. */
fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x,
                               const fli_tensor_list *extra);

/* x = the start model of a run: reads the model's parameters by name from a file that any program may have written. */
fl_status fli_model_file_start(fl_ctx *ctx, const char *path, const fli_model *m, void *x);

/* ==== a loaded model ======================================================================================== */

/* A model made from a file alone, for the public fl_model_*. Read-only once made. */
struct fl_model {
    fli_arena arena;
    fli_safetensors file; /* owns the texts and the tensors' names */
    fl_model_info info;
    fl_tensor *tensor; /* the model's tensors in its order, then all others */
    size_t tensors;
    void *x; /* all tensors, concatenated: info.parameters reals */
    /* for predictions; model is NULL for a kind that this program does not have */
    fli_choice kind;
    fli_model *model;
    fli_dataset like; /* a set without samples: shape, crop and normalisation */
    double *each;     /* one scale per feature, for sparse samples; NULL: none, or samples are also shifted */
    int shifted;      /* some shift is not 0, so normalised samples are not sparse */
};

/* fl_model_load for a file in memory, which may be freed afterwards; `name` is for messages. */
fl_status fli_loaded_model_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fl_model **out);

#endif
