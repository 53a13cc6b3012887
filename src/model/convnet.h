/* Convolutional networks: convolutions and pools over images, then fully connected layers, ReLU between them,
 * cross-entropy behind the last. What cnn.c describes and computes with. Private to this folder. */
#ifndef FLI_MODEL_CONVNET_H
#define FLI_MODEL_CONVNET_H

#include "model/conv.h"
#include "model/layers.h"
#include "model/model.h"

typedef enum {
    FLI_STAGE_TURN, /* only the order changes: channels last before the first filter or pool, first after the last */
    FLI_STAGE_CONV, /* filters, with the max pool behind them if there is one, then bias and ReLU */
    FLI_STAGE_MAX,  /* any other max pool */
    FLI_STAGE_MEAN,
    FLI_STAGE_FC
} fli_stage_kind;

/* One step of the computation. The max pool stands before bias and ReLU, as it gives the same: both are monotone. So
 * the most of the work behind a convolution is done on the smaller image. */
typedef struct {
    fli_stage_kind kind;
    size_t in, out;      /* reals per sample */
    size_t outs;         /* CONV, FC: channels or units, each with a bias */
    size_t weight, bias; /* CONV, FC: where they start in the parameter vector */
    size_t weights;      /* CONV, FC: how many there are; weights / outs feed one output */
    int relu;
    size_t rows, cols;   /* TURN */
    fli_conv_shape conv; /* CONV */
    void *convolver;     /* CONV: of the network's kind */
    fli_window pool;     /* MAX, MEAN; CONV: kernel 0 if there is none */
} fli_stage;

/* A turn before and one behind, the output layer. */
enum { FLI_STAGES_MAX = FLI_LAYERS_MAX + 3 };

typedef struct {
    const fli_conv_kind *kind;
    size_t depth, first; /* stages; the first one with parameters */
    /* reals, over all stages: */
    size_t error;  /* of the widest back-propagated error, per sample */
    size_t image;  /* of the largest input of a filter, per sample */
    size_t piece;  /* of the largest filtered image, per sample */
    size_t packed; /* of a packed filter */
    size_t work;   /* of a convolver's work space */
    fli_stage stage[FLI_STAGES_MAX];
} fli_convnet;

/* Stages for images of m->shape; sets m->space.n, m->priv, the tensors and m->piece. fli_convnet_fini undoes it, also
 * when it failed. */
fl_status fli_convnet_setup(fl_ctx *ctx, fli_model *m, const fli_layer *layers, size_t count);
void fli_convnet_fini(fli_model *m);

/* ---- what a computation passes through; carved from scratch --------------------------------------------- */

typedef struct {
    void *h[FLI_STAGES_MAX];        /* h[l]: n x stage l's out; the last holds the logits, then their error */
    uint8_t *which[FLI_STAGES_MAX]; /* max pools: where the maxima lie */
    void *error[2];                 /* error at the input of stage l is in error[l & 1]: n x stage l's in */
} fli_sweep;

typedef struct {
    const fli_model *m;
    const fli_convnet *net;
    const fli_ops *ops;
    const void *x; /* parameters */
    const fli_batch *b;
    fli_sweep s;
    /* for one piece of a batch at a time: */
    void *piece[2]; /* between filter and pool */
    void *image;    /* the input of a filter */
    void *packed[3], *work;
} fli_pass;

void fli_convnet_pass(const fli_model *m, const void *x, const fli_batch *b, void *scratch, fli_pass *p);
/* A second sweep, for R-values, from what the pass has left of scratch. */
void fli_convnet_second(const fli_pass *p, fli_sweep *r);
void fli_convnet_forward(const fli_pass *p);

/* The input of stage l. */
static inline const void *fli_stage_input(const fli_pass *p, size_t l) { return l ? p->s.h[l - 1] : p->b->x; }
/* Columns of a weight matrix: what feeds one output. */
static inline size_t fli_stage_fan_in(const fli_stage *t) { return t->weights / t->outs; }

/* Slots of fli_model_desc. */
size_t fli_convnet_scratch(const fli_model *m, size_t n);
double fli_convnet_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
void *fli_convnet_logits(const fli_model *m, const void *x, const fli_batch *b, void *scratch);
void fli_convnet_pullback(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch);
int fli_convnet_network(const fli_model *m, fli_network *out);
void fli_convnet_layers(const fli_model *m, fli_text *t);
void fli_convnet_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);

#endif
