/* Trained models on disk: the files model.safetensors of results, and files that a run starts from. Their metadata, key
 * by key:
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

#include "config/settings.h"
#include "format/safetensors.h"
#include "model/model.h"

#define FLI_SCALE_TENSOR "input.scale"
#define FLI_SHIFT_TENSOR "input.shift"

/* Writes the parameters x of a model; `extra` has the metadata and further tensors. */
fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x,
                               const fli_tensor_list *extra);

/* Reads the parameters of a model, by name, from a file of any origin: the start model of a run. */
fl_status fli_model_file_start(fl_ctx *ctx, const char *path, const fli_model *m, void *x);

/* ==== a loaded model ======================================================================================== */

/* A model that was made from a file alone: what the public fl_model_* work on. Read-only once it is made. */
struct fl_model {
    fli_arena arena;
    fli_safetensors file; /* its texts, and the names of its tensors */
    fl_model_info info;
    fl_tensor *tensor; /* of the model in its order, then all others */
    size_t tensors;
    void *x; /* all of them, one behind the other: info.parameters reals */
    /* for predictions; the model is NULL for a kind that this program does not have */
    fli_choice kind;
    fli_model *model;
    fli_dataset like; /* a set without samples: shape, crop and normalisation */
    double *each;     /* one scale per feature, for sparse samples; NULL: none, or there is a shift as well */
    int shifted;      /* some shift is not 0: samples are not sparse once they are normalised */
};

/* The same as fl_model_load for a file that lies in memory, which is not needed afterwards; `name` is for messages. */
fl_status fli_loaded_model_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fl_model **out);

#endif
