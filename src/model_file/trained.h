/* A model that was read from a file, and nothing else: what fl_model_* are about. Read-only once it is made. */
#ifndef FLI_MODEL_FILE_TRAINED_H
#define FLI_MODEL_FILE_TRAINED_H

#include "format/safetensors.h"
#include "model/model.h"
#include "config/settings.h"

struct fl_model {
    fli_arena arena;
    fli_safetensors file; /* its texts, and the names of its tensors */
    fl_model_info info;
    fl_tensor *tensor; /* of the model in its order, then all others */
    size_t tensors;
    void *x; /* all of them, one behind the other: info.parameters reals */
    /* for predictions; the model is NULL where nobody knows how to make any */
    fli_choice kind;
    fli_model *model;
    fli_dataset like; /* a set without samples: shape, crop and normalisation */
    double *each;     /* one scale per feature, for sparse samples; NULL: none, or there is a shift as well */
    int shifted;      /* some shift is not 0: samples are not sparse once they are normalised */
};

/* The same as fl_model_load for a file that lies in memory, which is not needed afterwards; `name` is for messages. */
fl_status fli_trained_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fl_model **out);

#endif
