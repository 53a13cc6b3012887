/* The kernels, as the host's code (plain C) calls them: each function puts one or a few launches on a stream and
 * returns. All of them work for many lanes at once: a lane is a client with its own weights and its own samples.
 *
 * Every sum has a fixed order and nothing is added atomically, so that results are the same from run to run. */
#ifndef FLI_CUDA_KERNELS_KERNELS_H
#define FLI_CUDA_KERNELS_KERNELS_H

#include "cuda/runtime.h"
#include "device/tape.h"
#include "model/network.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reals in memory are floats for the first two, doubles for the last. TF32: products of FC and CONV layers are rounded
 * to tf32. F32: they are as exact as single precision. All else is computed in the type of the memory, or better. */
typedef enum { FLI_CUDA_F32, FLI_CUDA_TF32, FLI_CUDA_F64 } fli_cuda_type;

/* A lane, in device memory; it stays as it is during a turn. All addresses are the device's.
 *
 * A mini-batch has plain rows, labelled samples, then rest rows, samples with a y. Of step k the plain rows are
 * order[k * stride ...]: sample numbers; the rest rows rest[k * rest_stride ...]: numbers of rows of y, whose samples
 * are rest_sample[row]. A stride of 0: always the same ones. How many there are: fli_cuda_rows. */
typedef struct {
    void *z;             /* parameters: read, and by steps written */
    const void *start;   /* for whole turns in one kernel: what z is at first; NULL: what it is */
    const void *term;    /* a step adds times * term to the gradient; NULL: nothing */
    void *buffer;        /* momentum; NULL: none */
    void *gradient;      /* non-NULL: no step is taken, the gradient is put or added there */
    const double *rates; /* lr and wd of step k at [2 k] and [2 k + 1]; NULL: the two below */
    double lr, wd, momentum;
    double times, rho; /* rho is added to wd: with the anchor times -rho it is what a proximal term adds */
    const uint32_t *order, *rest, *rest_sample;
    const void *y;
    uint32_t n, size, stride;
    uint32_t rest_n, rest_size, rest_stride;
    uint32_t steps;
    uint32_t key[2], round, client; /* of the turn's random stream: for augmentation */
    double mix;                     /* pairs: the share of the own model */
} fli_cuda_lane;

/* Mini-batch `step` of the first `lanes` lanes; of its rows, plain and rest ones in one list, those from `first` on, at
 * most `most`. Matrices of rows have room for `room` rows per lane: row r of lane l is row l * room + r. */
typedef struct {
    const fli_cuda_lane *lane;
    uint32_t lanes, step, first, most, room;
    uint32_t augment;        /* samples are changed as the data set says; 0: as they are */
    uint32_t lanes_at_start; /* read it by fli_cuda_lanes_at_start */
} fli_cuda_batch;

/* How many lanes there were at the beginning, before some were done, and before they were put into blocks that fit the
 * memory. Kernels that cut sums to keep the device busy go by this: else a lane's bits would depend on the memory that
 * is free. 0: as many as there are. */
static inline uint32_t fli_cuda_lanes_at_start(const fli_cuda_batch *b)
{
    return b->lanes_at_start ? b->lanes_at_start : b->lanes;
}

/* Samples of a pass with n samples in batches of `size` that come up in step k. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint32_t
    fli_cuda_drawn(uint32_t n, uint32_t size, uint32_t k)
{
    if (!n) return 0;
    uint32_t per_epoch = (n + size - 1) / size, at = k % per_epoch * size;
    return size < n - at ? size : n - at;
}
/* Which epoch it is. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint32_t
    fli_cuda_epoch(uint32_t n, uint32_t size, uint32_t k)
{
    return n ? k / ((n + size - 1) / size) : 0;
}

/* Rows that a piece of a mini-batch has of this lane; there may be none. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint32_t
    fli_cuda_rows(const fli_cuda_lane *l, const fli_cuda_batch *b)
{
    uint32_t all = fli_cuda_drawn(l->n, l->size, b->step) + fli_cuda_drawn(l->rest_n, l->rest_size, b->step);
    uint32_t left = all > b->first ? all - b->first : 0;
    return left < b->most ? left : b->most;
}

/* ---- small_copy.cu: short copies to the device ---- */
/* `here` is pinned memory; both are on lines of 16 bytes, of which there are less than 2^32. */
void fli_cuda_copy_small(fli_cuda_stream s, void *there, const void *here, size_t bytes);

/* ---- tape.cu: operations on vectors ---- */
/* A tape (device/tape.h) in device memory. */
typedef struct {
    size_t n;
    const fli_tape_op *op;
    const fli_tape_term *term;
    const uint32_t *begin;
    uint32_t lanes;
    uint32_t longest_sum; /* terms */
    int aligned;          /* all vectors are on lines of 16 bytes */
} fli_cuda_tape;
/* wide: doubles. */
void fli_cuda_play(fli_cuda_stream s, int wide, const fli_cuda_tape *t);

/* ---- reduce.cu: scalar products, the search for NaN ---- */
enum { FLI_CUDA_DOT_MOST = 256, FLI_CUDA_FINITE_PARTS = 8 };
/* out[0 .. fli_cuda_dot_parts(n) - 1], in device or pinned memory: to be added up. */
unsigned fli_cuda_dot_parts(size_t n); /* at most FLI_CUDA_DOT_MOST */
void fli_cuda_dot(fli_cuda_stream s, int wide, size_t n, const void *x, const void *y, double *out);
/* Of at most 65535 vectors, whose addresses and answers are in device or pinned memory: each has FLI_CUDA_FINITE_PARTS
 * bytes, and is finite if none of them is 0. */
void fli_cuda_finite(fli_cuda_stream s, int wide, size_t n, unsigned count, const void *const *x, unsigned char *out);

/* ---- batch_order.cu: the mini-batches of whole turns ---- */
enum { FLI_CUDA_DRAW_WORK = 5 };
/* Draws them for every lane as solver/minibatch.c does, bit for bit: plain and rest share the lane's random stream. */
typedef struct {
    const uint32_t *samples; /* plain.n, */
    uint32_t n, size;
    uint32_t *order; /* steps * size of them, to be written; where all fit into one batch: a copy of samples */
    uint32_t rest_n, rest_size;
    uint32_t *rest; /* the same, of the numbers 0 .. rest_n - 1 */
    uint32_t *work; /* FLI_CUDA_DRAW_WORK (n + rest_n), to shuffle in */
    uint32_t steps;
    uint32_t key[2], ctr[4], out[4], left; /* fli_rng, where it stands */
} fli_cuda_drawing;
void fli_cuda_draw(fli_cuda_stream s, const fli_cuda_drawing *lanes, uint32_t count);

/* ---- gather.cu: samples into matrices ---- */
/* A data set on the device; see data/dataset.h, whose words these are. kind: 0 u8, 1 f32, 2 f64 (fli_xkind). */
typedef struct {
    const void *x;
    const int32_t *label;
    uint64_t n, dim, length; /* samples, features that models see, values of a stored row */
    uint32_t kind, segments, each, augment;
    uint64_t still;
    uint32_t shape[3], frame[2];
    const uint32_t *number; /* NULL: `from` and the sample's place */
    uint32_t from;
    const double *scale, *shift; /* NULL: as they are */
} fli_cuda_data;
/* x: room x dim per lane; channels_last: of images, row, column, channel. */
void fli_cuda_gather(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_data *data, const fli_cuda_batch *b,
                     int channels_last, void *x);

/* ---- losses.cu: what a loss is given ---- */
/* What stands between logits and error. Rows of z (room x classes per lane; LOGISTIC: room x 1) become errors, each
 * divided by the number of plain or of rest rows of the whole mini-batch. */
typedef struct {
    fli_net_loss loss;
    uint32_t classes;
    const int32_t *label;    /* of the data set */
    double alpha_p, alpha_r; /* of rest rows: model/semi.h */
} fli_cuda_loss;

/* ---- dense.cu, conv.cu, pool.cu: layers ---- */
/* Matrices of rows have one row per sample: fli_net_in or fli_net_out reals. `in`, `out`, `error` (at the layer's
 * output) and `below` (at its input) have b->room rows per lane. Of images inside a network rows are channels last.
 * `h` is the layer's input as it went through ReLU in the layer before, or NULL: `below` is 0 where it is not
 * positive. */
void fli_cuda_fc_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                         const void *in, void *out);
void fli_cuda_fc_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                          const void *error, const void *h, void *below);
/* The gradient of weights and bias, and the step with it on lane.z; or with lane.gradient: put there, or with `add`
 * added. */
void fli_cuda_fc_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                      const void *error, const void *in, int add);
/* fli_cuda_fc_step of the first layer and then, with the new weights, fli_cuda_fc_forward of the next mini-batch x, at
 * once: `next` has the same lanes, or fewer. For lanes without `gradient`. fits: whether it is made for this type, this
 * layer and mini-batches of this many rows. */
int fli_cuda_fc_fused_step_fits(fli_cuda_type type, const fli_net_layer *l, uint32_t rows);
void fli_cuda_fc_fused_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                            const fli_cuda_batch *next, const void *error, const void *in, const void *x, void *out);
/* The same for samples that are bytes, with one scale if any, and are read where they are stored. */
int fli_cuda_fc_fused_step_bytes_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_data *data,
                                      uint32_t rows);
void fli_cuda_fc_fused_step_bytes(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                  const fli_cuda_batch *b, const fli_cuda_batch *next, const fli_cuda_data *data,
                                  const void *error, void *out);

/* last_layer.cu: the last layer and softmax at once, for labelled rows alone (no lane has rest rows): outputs, errors,
 * the error below (NULL: there is nothing below; masked: 0 where `in` is not positive), and the layer's step. fits:
 * whether it is made for this type, never double precision, this layer and pieces of this many rows. */
int fli_cuda_fc_last_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss, uint32_t rows);
void fli_cuda_fc_last(fli_cuda_stream s, const fli_net_layer *l, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                      const void *in, int masked, void *below, int add);
/* The same with layer m, whose outputs are the last layer's inputs: in, masked and below are those of m. A lane has a
 * block of threads, so it is for many lanes. */
int fli_cuda_fc_last_two_fits(fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                              const fli_cuda_loss *loss, uint32_t rows);
void fli_cuda_fc_last_two(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                          const fli_cuda_loss *loss, const fli_cuda_batch *b, const void *in, int masked, void *below,
                          int add);

/* A convolution, the max pool behind it if there is one (NULL: none), bias and ReLU: out is the pooled image. which:
 * places of maxima, one byte per value of out. work: fli_cuda_conv_work bytes for all lanes together. chw: the rows of
 * out, and of `error` in the other direction, are channels first, because a layer of units follows. */
size_t fli_cuda_conv_work(fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool, uint32_t lanes,
                          uint32_t room);
void fli_cuda_conv_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                           const fli_cuda_batch *b, const void *in, int chw, unsigned char *which, void *out,
                           void *work);
/* error: at the output, masked by ReLU already where out is 0. First this, with the weights before the step, */
void fli_cuda_conv_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const void *error, int chw, const unsigned char *which,
                            const void *h, void *below, void *work);
/* then this. */
void fli_cuda_conv_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                        const fli_cuda_batch *b, const void *error, int chw, const unsigned char *which, const void *in,
                        int add, void *work);
/* How large pieces of convolutions are in tf32: 2, 3, 4, or 0, whatever is fastest. Tests change it. */
extern uint32_t fli_cuda_conv_quads;
/* Pools that stand alone. chw as above; which NULL: a mean pool. */
void fli_cuda_pool_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                           const void *in, int chw, unsigned char *which, void *out);
void fli_cuda_pool_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                            const void *error, int chw, const unsigned char *which, const void *h, void *below);
/* z by the gradient in lane.gradient, as fli_ops.sgd does: for mini-batches that are computed in several pieces. */
void fli_cuda_sgd(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_batch *b, uint64_t parameters);

/* ---- losses.cu: the kernels ---- */
void fli_cuda_rows_error(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                         void *z);
/* The same, and probabilities of the rows into p (room x classes) before that: for pairs. */
void fli_cuda_rows_pair_global(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                               const fli_cuda_batch *b, void *z, void *p);
/* z of the own model becomes its error in the mixture with p. */
void fli_cuda_rows_pair_own(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                            const void *p, void *z);
/* Loss and hits of every row, added to sum[2 lane] and [2 lane + 1] in the order of the rows; p NULL: of one model,
 * else of the mixture of z, the own model, with p. */
void fli_cuda_rows_loss(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                        const void *p, const void *z, double *sum);
/* Probabilities, or as they are, as doubles: out is room x classes per lane. */
void fli_cuda_rows_outputs(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                           int logits, const void *z, double *out);

/* ---- small.cu: whole turns in one kernel, a block per lane, the weights in shared memory ---- */
/* Whether there is one for this network, FC layers alone, on these samples, neither cropped nor augmented nor scaled
 * one by one, in batches of at most so many: all must fit into a block's shared memory. */
int fli_cuda_small_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch);
/* All steps of all lanes, which have plain rows alone: lane.z is the result, lane.buffer start and result.
 * lane.gradient is not looked at. Products are made in the type of the memory. */
void fli_cuda_small_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                          const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch);

/* ---- wide.cu: the same by a cluster of blocks per lane, each with some of the units ---- */
/* Networks of one or two hidden FC layers and softmax on samples that are bytes and have one scale, if any; batches of
 * at most 64; GPUs with clusters. TF32 rounds the weights and errors in products. */
/* With how many blocks in a cluster so many lanes, those of the whole call (fli_cuda_lanes_at_start), are computed
 * fastest: as many as keep all lanes under way at a time. 0: there is no such kernel, or lanes are so many that layer
 * by layer is faster. */
uint32_t fli_cuda_wide_cluster(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                               uint32_t lanes);
/* cluster: as asked above. Results of some lanes do not depend on the others. */
void fli_cuda_wide_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                         const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch, uint32_t cluster);
/* For tests and measurements: clusters of so many blocks, if there can be such, and blocks of so many warps (8 or 16);
 * 0: as it thinks best. */
void fli_cuda_wide_force(uint32_t cluster, uint32_t warps);

#ifdef __cplusplus
}
#endif

/* ==== ways to cut up layers of units ====================================================================== */

/* How the products of layers of units are cut up into blocks of threads, for comparisons: fli_cuda_fc_forward and
 * the like choose for themselves. */

#ifdef __cplusplus
extern "C" {
#endif

/* Forward: units per block. Results depend on it in their last bits. */
typedef enum { FLI_FC_16, FLI_FC_32, FLI_FC_CUTS } fli_fc_cut;
void fli_cuda_fc_forward_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                             const void *in, void *out, fli_fc_cut cut);
/* Step and next outputs: warps of a block along units and inputs. Outputs depend on it in their last bits. */
typedef enum { FLI_FC_FUSED_1X4, FLI_FC_FUSED_2X2, FLI_FC_FUSED_CUTS } fli_fc_fused_cut;
void fli_cuda_fc_fused_step_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                const fli_cuda_batch *next, const void *error, const void *in, const void *x, void *out,
                                fli_fc_fused_cut how);
void fli_cuda_fc_fused_step_bytes_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                      const fli_cuda_batch *b, const fli_cuda_batch *next, const fli_cuda_data *data,
                                      const void *error, void *out, fli_fc_fused_cut how);

#ifdef __cplusplus
}
#endif

#endif
