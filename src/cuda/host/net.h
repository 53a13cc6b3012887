/* A model on the device: the layers of its network, one kernel after the other, for a block of lanes at once. net.c
 * knows the network, cuda_evaluate.c takes mini-batches through it and evaluates, train.c has turns. */
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

/* A layer, or a convolution with the max pool behind it. */
typedef struct {
    const fli_net_layer *layer, *pool; /* pool NULL: there is none */
    size_t in, out;                    /* reals per row */
    int chw;                           /* images behind it are channels first, because units follow */
    int masked;                        /* what comes in went through ReLU: the error below is 0 where it is not
                                          positive */
} fli_cuda_stage;

struct fli_engine_net {
    fli_engine *engine;
    const fli_model *model;
    fli_cuda_type type;
    size_t real; /* bytes of one */
    fli_network network;
    size_t depth, first; /* stages; the first one with parameters */
    fli_cuda_stage stage[FLI_NET_LAYERS_MAX];
    uint32_t piece;          /* rows of a lane that are computed at a time, at most */
    size_t block;            /* lanes at a time, at most */
    size_t many;             /* lanes from which on one block of threads for each keeps the device busy */
    fli_cuda_workspace work; /* of the block under way */
    fli_cuda_workspace sums; /* of a whole evaluation */
    /* memory here for tables of a block, which grows */
    fli_cuda_lane *lane, *own;
    fli_cuda_drawing *drawing;
    size_t lanes_room;
    fli_tape_op *op;
    uint32_t *begin;
};

/* Where a block's mini-batches pass through. Matrices have lanes * room rows. */
typedef struct {
    uint32_t lanes, room;
    void *x[2];                  /* samples; the second one only with FLI_SWEEP_FUSED */
    void *h[FLI_NET_LAYERS_MAX]; /* behind each stage; the last one is logits, then their errors */
    unsigned char *which[FLI_NET_LAYERS_MAX];
    void *error[2]; /* that at the input of stage l is in error[l & 1] */
    void *p;        /* probabilities of the global model of pairs */
    void *work;
} fli_cuda_sweep;

enum { FLI_SWEEP_BACK = 1, FLI_SWEEP_PAIR = 2, FLI_SWEEP_FUSED = 4 }; /* errors are wanted; p; a second x */
void fli_cuda_sweep_pack(const fli_engine_net *n, size_t lanes, uint32_t room, int flags, fli_cuda_layout *p,
                         fli_cuda_sweep *out);
/* Rows that lanes have room for, so that `rows` of them fit. */
uint32_t fli_cuda_room(size_t rows);

/* A sweep under way. */
typedef struct {
    const fli_engine_net *net;
    const fli_cuda_data *data;
    const fli_cuda_sweep *sweep;
    fli_cuda_stream stream;
    fli_cuda_batch batch;
    fli_cuda_loss loss;
    int side; /* the x that has the samples */
    /* Where fli_cuda_fc_fused_step_fits the first layer, and all rows are computed at a time: */
    const fli_cuda_batch *next; /* the mini-batch behind this one, in the other x: with the step on the first layer its
                                   outputs are computed; NULL: there is none */
    int begun;                  /* this one was the `next` of a pass */
    int two;                    /* for fli_cuda_pass_at_once */
    int bytes;                  /* fli_cuda_fc_fused_step_bytes_fits: `next`, which may have no lanes, is in no x */
} fli_cuda_pass;

/* Samples of the piece; then its logits, which are returned; then from their errors the steps, or gradients, which with
 * `add` are added to what is there. */
void fli_cuda_pass_gather(const fli_cuda_pass *p);
void *fli_cuda_pass_forward(const fli_cuda_pass *p);
void fli_cuda_pass_backward(const fli_cuda_pass *p, int add);
/* All of that up and down, with the losses of labelled rows, where fli_cuda_fc_last_fits the last layer; `two`:
 * fli_cuda_fc_last_two_fits the last two, neither of which is the first. */
void fli_cuda_pass_at_once(const fli_cuda_pass *p, int add);

fli_cuda_loss fli_cuda_loss_of(const fli_engine_net *n, const fli_cuda_data *data, const fli_semi *semi);
/* Room for tables of so many lanes. */
fl_status fli_cuda_net_tables(fl_ctx *ctx, fli_engine_net *n, size_t lanes);
/* A vector's bytes there. */
static inline size_t fli_cuda_vector(const fli_engine_net *n) { return n->network.parameters * n->real; }

/* Operations on vectors, lane by lane, all of them by one tape: at most FLI_START_TAPE_OPS per lane. */
enum { FLI_START_TAPE_OPS = 5 };
typedef struct {
    fli_engine_net *net;
    fli_tape tape;
} fli_cuda_start_tape;
fli_cuda_start_tape fli_cuda_start_tape_new(fli_engine_net *n);
void fli_cuda_start_tape_lane(fli_cuda_start_tape *b);
void fli_cuda_start_tape_copy(fli_cuda_start_tape *b, const void *from, void *to);
void fli_cuda_start_tape_zero(fli_cuda_start_tape *b, void *to); /* NULL: nothing to do */
/* to = x + factor y */
void fli_cuda_start_tape_sum(fli_cuda_start_tape *b, const void *x, double factor, const void *y, void *to);
void fli_cuda_start_tape_play(fli_cuda_start_tape *b);

#endif
