/* A model on the device: the layers of its network, one kernel after the other, for a block of lanes at once. net.c has
 * the network, cuda_evaluate.c its passes and evaluation, train.c turns. */
#ifndef FLI_CUDA_HOST_NET_H
#define FLI_CUDA_HOST_NET_H

#include "cuda/host/host.h"

/* Slots of the backend. */
fl_status fli_cuda_net_new(fli_engine *e, fl_ctx *ctx, const fli_model *m, int tf32, fli_engine_net **out);
void fli_cuda_net_free(fli_engine_net *n);
double fli_cuda_net_bytes(const fli_engine_net *n, size_t lanes, size_t batch, int momentum);
fl_status fli_cuda_train(fl_ctx *ctx, fli_engine_net *n, const fli_engine_turns *turns);
fl_status fli_cuda_evaluate(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_eval *evals,
                            size_t count);
fl_status fli_cuda_outputs(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_outputs *o,
                           size_t count);

/* ---- private to the files named above ---- */

/* A layer, or a convolution and the max pool after it. */
typedef struct {
    const fli_net_layer *layer, *pool; /* pool NULL: none */
    size_t in, out;                    /* reals per row */
    int chw;                           /* its images are channels first, because units follow */
    int masked;                        /* its inputs come from ReLU: the error below is 0 where they are not positive */
} fli_cuda_stage;

struct fli_engine_net {
    fli_engine *engine;
    const fli_model *model;
    fli_cuda_type type;
    size_t real; /* bytes of one */
    fli_network network;
    size_t depth, first; /* stages; the first one with parameters */
    fli_cuda_stage stage[FLI_NET_LAYERS_MAX];
    uint32_t piece;          /* most rows of a lane computed at a time */
    size_t block;            /* most lanes at a time */
    size_t many;             /* from this number of lanes on, one block of threads per lane keeps the device busy */
    fli_cuda_workspace work; /* of the current block */
    fli_cuda_workspace sums; /* of a whole evaluation */
    /* host memory for tables of a block; it grows */
    fli_cuda_lane *lane, *own;
    fli_cuda_drawing *drawing;
    size_t lanes_room;
    fli_tape_op *op;
    uint32_t *begin;
};

/* The memory of a block's mini-batches in the layers. Matrices have lanes * room rows. */
typedef struct {
    uint32_t lanes, room;
    void *x[2];                  /* samples; the second one only with FLI_SWEEP_FUSED */
    void *h[FLI_NET_LAYERS_MAX]; /* output of each stage; the last is logits, then their errors */
    unsigned char *which[FLI_NET_LAYERS_MAX];
    void *error[2]; /* error[l & 1] is at the input of stage l */
    void *p;        /* probabilities of the global model of pairs */
    void *work;
} fli_cuda_sweep;

enum { FLI_SWEEP_BACK = 1, FLI_SWEEP_PAIR = 2, FLI_SWEEP_FUSED = 4 }; /* with errors; with p; with a second x */
void fli_cuda_sweep_pack(const fli_engine_net *n, size_t lanes, uint32_t room, int flags, fli_cuda_layout *p,
                         fli_cuda_sweep *out);
/* Rows to reserve per lane for `rows` rows. */
uint32_t fli_cuda_room(size_t rows);

/* A sweep in progress. */
typedef struct {
    const fli_engine_net *net;
    const fli_cuda_data *data;
    const fli_cuda_sweep *sweep;
    fli_cuda_stream stream;
    fli_cuda_batch batch;
    fli_cuda_loss loss;
    int side; /* index of the x with the samples */
    /* If fli_cuda_fc_fused_step_fits the first layer and all rows are computed at a time: */
    const fli_cuda_batch *next; /* the following mini-batch, in the other x; NULL: none. The first layer's step also
                                   computes its outputs */
    int begun;                  /* this mini-batch was the `next` of a pass */
    int two;                    /* as in fli_cuda_pass_at_once */
    int bytes;                  /* fli_cuda_fc_fused_step_bytes_fits: `next`, which may have no lanes, needs no x */
} fli_cuda_pass;

/* In this order: gathers the samples; computes logits and returns them; from their errors makes the steps, or
 * gradients, which `add` adds to the existing ones. */
void fli_cuda_pass_gather(const fli_cuda_pass *p);
void *fli_cuda_pass_forward(const fli_cuda_pass *p);
void fli_cuda_pass_backward(const fli_cuda_pass *p, int add);
/* Forward, losses of labelled rows and backward in one call, if fli_cuda_fc_last_fits the last layer; with `two`,
 * fli_cuda_fc_last_two_fits the last two, neither of which is the first. */
void fli_cuda_pass_at_once(const fli_cuda_pass *p, int add);

fli_cuda_loss fli_cuda_loss_of(const fli_engine_net *n, const fli_cuda_data *data, const fli_semi *semi);
/* Makes room for the tables of this number of lanes. */
fl_status fli_cuda_net_tables(fl_ctx *ctx, fli_engine_net *n, size_t lanes);
/* Bytes of a vector on the device. */
static inline size_t fli_cuda_vector(const fli_engine_net *n) { return n->network.parameters * n->real; }

/* A tape of operations on vectors before the first step, at most FLI_START_TAPE_OPS per lane. */
enum { FLI_START_TAPE_OPS = 5 };
typedef struct {
    fli_engine_net *net;
    fli_tape tape;
} fli_cuda_start_tape;
fli_cuda_start_tape fli_cuda_start_tape_new(fli_engine_net *n);
void fli_cuda_start_tape_lane(fli_cuda_start_tape *b);
void fli_cuda_start_tape_copy(fli_cuda_start_tape *b, const void *from, void *to);
void fli_cuda_start_tape_zero(fli_cuda_start_tape *b, void *to); /* NULL: does nothing */
/* to = x + factor y */
void fli_cuda_start_tape_sum(fli_cuda_start_tape *b, const void *x, double factor, const void *y, void *to);
void fli_cuda_start_tape_play(fli_cuda_start_tape *b);

#endif
