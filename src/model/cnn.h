/* Convolutional networks: convolutions and pools over images, then fully connected layers, with ReLU between them and
 * cross-entropy behind the last. Types that cnn.c and describe.c share. For this folder and its tests. */
#ifndef FLI_MODEL_CNN_H
#define FLI_MODEL_CNN_H

#include "base/ctx.h"
#include "model/conv.h"
#include "model/model.h"

/* ==== layers, as configured ================================================================================ */

/* The layers of a convolutional network, read from a line such as
 *
 *   conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192
 *
 *   conv CxK [stride S] [pad P | same]    C filters of K x K; ReLU behind it
 *   pool K      the largest of each K x K; rows and columns that do not fill a window are left out
 *   avgpool K   the mean of each K x K
 *   fc N        fully connected, N units; ReLU behind it */

typedef enum { FLI_LAYER_CONV, FLI_LAYER_MAX_POOL, FLI_LAYER_MEAN_POOL, FLI_LAYER_FC } fli_layer_kind;

enum { FLI_LAYERS_MAX = 32 };

typedef struct {
    fli_layer_kind kind;
    size_t size;                /* filters, window or units */
    size_t kernel, stride, pad; /* conv */
    const char *text;           /* its text in the line, for messages */
    int length;
} fli_layer;

/* Reads at most FLI_LAYERS_MAX layers. Checks the line alone, not whether the layers fit the images. */
fl_status fli_layers_read(fl_ctx *ctx, const char *line, fli_layer *out, size_t *count);

/* ==== stages, as computed ================================================================================== */

typedef enum {
    FLI_STAGE_REORDER, /* changes the order alone: channels last before the first filter or pool, back after the last */
    FLI_STAGE_CONV,    /* filters, then a max pool if it follows directly, bias and ReLU */
    FLI_STAGE_MAX,     /* any other max pool */
    FLI_STAGE_MEAN,
    FLI_STAGE_FC
} fli_stage_kind;

/* One step of the computation. A max pool comes before bias and ReLU: the result is the same, because both are
 * monotone, and bias and ReLU then work on the smaller image. */
typedef struct {
    fli_stage_kind kind;
    size_t in, out;      /* reals per sample */
    size_t outs;         /* CONV, FC: channels or units, each with a bias */
    size_t weight, bias; /* CONV, FC: offsets in the parameter vector */
    size_t weights;      /* CONV, FC: number of weights; weights / outs feed one output */
    int relu;
    size_t rows, cols;   /* REORDER */
    fli_conv_shape conv; /* CONV */
    void *convolver;     /* CONV: from fli_convnet.kind->make */
    fli_window pool;     /* MAX, MEAN; CONV: kernel 0 if it has no pool */
} fli_stage;

/* Besides the layers: the reordering before and after the images, and the output layer. */
enum { FLI_STAGES_MAX = FLI_LAYERS_MAX + 3 };

typedef struct {
    const fli_conv_kind *kind;
    size_t depth, first; /* stages; the first one with parameters */
    /* the maximum over all stages, in reals: */
    size_t error;  /* a back-propagated error, per sample */
    size_t image;  /* a filter's input, per sample */
    size_t piece;  /* a filter's output before the pool, per sample */
    size_t packed; /* a packed filter */
    size_t work;   /* a convolver's work space */
    fli_stage stage[FLI_STAGES_MAX];
} fli_convnet;

/* ---- intermediate values, carved from scratch ----------------------------------------------------------- */

typedef struct {
    void *h[FLI_STAGES_MAX];        /* h[l]: n x stage l's out; the last holds the logits, then their error */
    uint8_t *which[FLI_STAGES_MAX]; /* max pools: positions of the maxima */
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
    void *piece[2]; /* values between a filter and its pool */
    void *image;    /* the input of a filter */
    void *packed[3], *work;
} fli_pass;

/* The input of stage l. */
static inline const void *fli_stage_input(const fli_pass *p, size_t l) { return l ? p->s.h[l - 1] : p->b->x; }
/* Number of weights that feed one output: columns of the weight matrix. */
static inline size_t fli_stage_fan_in(const fli_stage *t) { return t->weights / t->outs; }

/* Slots of fli_model_desc. */
int fli_convnet_network(const fli_model *m, fli_network *out);
void fli_convnet_layers(const fli_model *m, fli_text *t);

#endif
