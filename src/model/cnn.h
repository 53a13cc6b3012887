/* Convolutional networks: convolutions and pools over images, then fully connected layers, ReLU between them,
 * cross-entropy behind the last. What cnn.c computes with and describe.c describes. For this folder and its tests. */
#ifndef FLI_MODEL_CNN_H
#define FLI_MODEL_CNN_H

#include "base/ctx.h"
#include "model/conv.h"
#include "model/model.h"

/* ==== layers, as the configuration has them =============================================================== */

/* The layers of a convolutional network, read from a line such as
 *
 *     conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192
 *
 *     conv CxK [stride S] [pad P | same]    C filters of K x K; ReLU behind it
 *     pool K      the largest of each K x K; what does not fill a window at the right and the bottom is left out
 *     avgpool K   the mean of each K x K
 *     fc N        fully connected, N units; ReLU behind it */

typedef enum { FLI_LAYER_CONV, FLI_LAYER_MAX_POOL, FLI_LAYER_MEAN_POOL, FLI_LAYER_FC } fli_layer_kind;

enum { FLI_LAYERS_MAX = 32 };

typedef struct {
    fli_layer_kind kind;
    size_t size;                /* filters, window or units */
    size_t kernel, stride, pad; /* conv */
    const char *text;           /* where it is in the line, for messages */
    int length;
} fli_layer;

/* At most FLI_LAYERS_MAX of them. Only the line itself is judged here, not whether the layers fit the images. */
fl_status fli_layers_read(fl_ctx *ctx, const char *line, fli_layer *out, size_t *count);

/* ==== stages, as they are computed ======================================================================== */

typedef enum {
    FLI_STAGE_REORDER, /* only the order changes: channels last before the first filter or pool, first after the last */
    FLI_STAGE_CONV,    /* filters, with the max pool behind them if there is one, then bias and ReLU */
    FLI_STAGE_MAX,     /* any other max pool */
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
    size_t rows, cols;   /* REORDER */
    fli_conv_shape conv; /* CONV */
    void *convolver;     /* CONV: of the network's kind */
    fli_window pool;     /* MAX, MEAN; CONV: kernel 0 if there is none */
} fli_stage;

/* Beside the layers: a reordering before and one behind, the output layer. */
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

/* The input of stage l. */
static inline const void *fli_stage_input(const fli_pass *p, size_t l) { return l ? p->s.h[l - 1] : p->b->x; }
/* Columns of a weight matrix: what feeds one output. */
static inline size_t fli_stage_fan_in(const fli_stage *t) { return t->weights / t->outs; }

/* Slots of fli_model_desc. */
int fli_convnet_network(const fli_model *m, fli_network *out);
void fli_convnet_layers(const fli_model *m, fli_text *t);

#endif
