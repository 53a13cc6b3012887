/* What the two models with one weight per feature and no intercept share: their parameters. Private to this folder. */
#ifndef FLI_MODEL_LINEAR_H
#define FLI_MODEL_LINEAR_H

#include "model/model.h"

/* fli_model_desc.setup: a vector "weight" of `features` reals. */
fl_status fli_linear_setup(fl_ctx *ctx, fli_model *m);
/* For fli_model_desc.layers: the one there is, and what is behind it. */
void fli_linear_layers(const fli_model *m, const char *activation, fli_text *t);

#endif
