/* All models that come with fedloom. */
#include "model/model.h"

extern const fli_model_desc fli_model_least_squares, fli_model_logistic, fli_model_softmax, fli_model_mlp,
    fli_model_factorization, fli_model_cnn;

const fli_model_desc *const fli_model_list[] = {
    &fli_model_least_squares,
    &fli_model_logistic,
    &fli_model_softmax,
    &fli_model_mlp,
    &fli_model_cnn,
    &fli_model_factorization,
    NULL,
};
