/* Fully connected networks with ReLU between the layers and cross-entropy behind the last: what softmax regression (one
 * layer) and the multi-layer perceptron share. Private to this folder. */
#ifndef FLI_MODEL_DENSE_H
#define FLI_MODEL_DENSE_H

#include "model/model.h"

enum { FLI_DENSE_HIDDEN_MAX = 16 };

typedef struct {
    size_t in, out;
    size_t weight, bias; /* offsets of W (out x in, row-major) and b (out) in the parameter vector */
} fli_dense_layer;

typedef struct {
    size_t depth;        /* hidden layers + 1 */
    size_t delta_max[2]; /* width of the widest back-propagated error: among even layers, among odd layers */
    fli_dense_layer layer[FLI_DENSE_HIDDEN_MAX + 1];
} fli_dense;

/* Makes layers features -> hidden[0] -> ... -> classes. Sets m->space.n, m->priv (a fli_dense) and the tensors, called
 * "layer1.weight", "layer1.bias", ... or, for a single layer and not `numbered`, "weight" and "bias". */
fl_status fli_dense_setup(fl_ctx *ctx, fli_model *m, const int64_t *hidden, size_t hidden_count, int numbered);

/* Slots of fli_model_desc. */
size_t fli_dense_scratch(const fli_model *m, size_t n);
double fli_dense_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
void *fli_dense_logits(const fli_model *m, const void *x, const fli_batch *b, void *scratch);
void fli_dense_pullback(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch);
void fli_dense_step(const fli_model *m, const fli_batch *b, const fli_sgd_step *step, void *g, void *z, void *scratch);
int fli_dense_network(const fli_model *m, fli_network *out);
void fli_dense_layers(const fli_model *m, fli_text *t);
void fli_dense_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);

/* The part of hvp behind the last layer. In: z = logits, rz = RZ_L; out: z = D_L = (P - Y)/n, rz = RD_L. */
void fli_dense_output_r(const fli_ops *ops, size_t n, size_t classes, const int32_t *label, void *z, void *rz);

#endif
