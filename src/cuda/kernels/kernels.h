/* The kernels as the host's code (plain C) calls them: each function puts one or a few launches on a stream and
 * returns. All work for many lanes at once: a lane is a client with its own weights and samples.
 *
 * Every sum has a fixed order, without atomic additions, so results are the same from run to run. */
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
 * to tf32. F32: they are as exact as single precision. Everything else is computed in the type of the memory or in a
 * more exact one. */
typedef enum { FLI_CUDA_F32, FLI_CUDA_TF32, FLI_CUDA_F64 } fli_cuda_type;

/* A lane, in device memory; constant during a turn. All addresses are the device's.
 *
 * A mini-batch has plain rows, labelled samples, then rest rows, samples with a y. Of step k the plain rows are order[k
 * * stride ...]: sample numbers; the rest rows rest[k * rest_stride ...]: numbers of rows of y, whose samples are
 * rest_sample[row]. A stride of 0 means the same rows in every step. fli_cuda_rows counts rows. */
typedef struct {
    void *z;             /* parameters; steps write them */
    const void *start;   /* for whole turns in one kernel: the initial z; NULL: z itself */
    const void *term;    /* a step adds times * term to the gradient; NULL: none */
    void *buffer;        /* momentum; NULL: none */
    void *gradient;      /* non-NULL: no step; the gradient is written or added here */
    const double *rates; /* lr and wd of step k at [2 k] and [2 k + 1]; NULL: lr and wd below */
    double lr, wd, momentum;
    double times, rho; /* rho is added to wd; with the anchor times -rho in `term` this is a proximal term */
    const uint32_t *order, *rest, *rest_sample;
    const void *y;
    uint32_t n, size, stride;
    uint32_t rest_n, rest_size, rest_stride;
    uint32_t steps;
    uint32_t key[2], round, client; /* the turn's random stream, for augmentation */
    double mix;                     /* pairs: the share of the own model */
} fli_cuda_lane;

/* A piece of mini-batch `step` of the first `lanes` lanes: of its rows, first the plain ones, then the rest, those from
 * `first` on, at most `most`. Matrices have `room` rows per lane: row r of lane l is row l * room + r. */
typedef struct {
    const fli_cuda_lane *lane;
    uint32_t lanes, step, first, most, room;
    uint32_t augment;        /* nonzero: augment samples as the data set says */
    uint32_t lanes_at_start; /* see fli_cuda_lanes_at_start */
} fli_cuda_batch;

/* The number of lanes of the whole call, before it was divided into blocks that fit the memory, and before some were
 * done. Kernels that cut sums to keep the device busy use this number; otherwise a lane's bits would depend on the free
 * memory. lanes_at_start 0: `lanes`. */
static inline uint32_t fli_cuda_lanes_at_start(const fli_cuda_batch *b)
{
    return b->lanes_at_start ? b->lanes_at_start : b->lanes;
}

/* The number of samples in step k of a pass over n samples in batches of `size`. */
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
/* The epoch of a step. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint32_t
    fli_cuda_epoch(uint32_t n, uint32_t size, uint32_t k)
{
    return n ? k / ((n + size - 1) / size) : 0;
}

/* The number of rows of a lane in this piece of a mini-batch; may be 0. */
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
/* `here` is pinned memory; both addresses are aligned to 16 bytes; less than 2^32 times 16 bytes. */
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
    int aligned;          /* all vectors are aligned to 16 bytes */
} fli_cuda_tape;
/* wide: doubles. */
void fli_cuda_play(fli_cuda_stream s, int wide, const fli_cuda_tape *t);

/* ---- reduce.cu: scalar products, the search for NaN ---- */
enum { FLI_CUDA_DOT_MOST = 256, FLI_CUDA_FINITE_PARTS = 8 };
/* out[0 .. fli_cuda_dot_parts(n) - 1], in device or pinned memory; the caller adds them up. */
unsigned fli_cuda_dot_parts(size_t n); /* at most FLI_CUDA_DOT_MOST */
void fli_cuda_dot(fli_cuda_stream s, int wide, size_t n, const void *x, const void *y, double *out);
/* Tests at most 65535 vectors; addresses and answers are in device or pinned memory. Each vector has
 * FLI_CUDA_FINITE_PARTS answer bytes and is finite if none of them is 0. */
void fli_cuda_finite(fli_cuda_stream s, int wide, size_t n, unsigned count, const void *const *x, unsigned char *out);

/* ---- batch_order.cu: the mini-batches of whole turns ---- */
enum { FLI_CUDA_DRAW_WORK = 5 };
/* Draws them for every lane as solver/minibatch.c does, bit for bit: plain and rest share the lane's random stream. */
typedef struct {
    const uint32_t *samples; /* plain.n, */
    uint32_t n, size;
    uint32_t *order; /* output: steps * size numbers; if all samples fit into one batch, a copy of samples */
    uint32_t rest_n, rest_size;
    uint32_t *rest; /* the same, of the numbers 0 .. rest_n - 1 */
    uint32_t *work; /* FLI_CUDA_DRAW_WORK (n + rest_n), scratch of the shuffle */
    uint32_t steps;
    uint32_t key[2], ctr[4], out[4], left; /* state of the fli_rng */
} fli_cuda_drawing;
void fli_cuda_draw(fli_cuda_stream s, const fli_cuda_drawing *lanes, uint32_t count);

/* ---- gather.cu: samples into matrices ---- */
/* A data set on the device; see data/dataset.h, whose words these are. kind: 0 u8, 1 f32, 2 f64 (fli_xkind). */
typedef struct {
    const void *x;
    const int32_t *label;
    uint64_t n, dim, length; /* samples, features of a model's input, values of a stored row */
    uint32_t kind, segments, each, augment;
    uint64_t still;
    uint32_t shape[3], frame[2];
    const uint32_t *number; /* NULL: `from` plus the sample's place */
    uint32_t from;
    const double *scale, *shift; /* NULL: not scaled */
} fli_cuda_data;
/* x: room x dim per lane; channels_last: of images, row, column, channel. */
void fli_cuda_gather(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_data *data, const fli_cuda_batch *b,
                     int channels_last, void *x);

/* ---- losses.cu: the description of a loss --------------------------------------------------- */
/* Rows of z (room x classes per lane; LOGISTIC: room x 1) are logits and become errors, divided by the number of plain
 * or of rest rows of the whole mini-batch. */
typedef struct {
    fli_net_loss loss;
    uint32_t classes;
    const int32_t *label;    /* of the data set */
    double alpha_p, alpha_r; /* of rest rows: model/semi.h */
} fli_cuda_loss;

/* ---- dense.cu, conv.cu, pool.cu: layers ---- */
/* Matrices of rows have one row per sample: fli_net_in or fli_net_out reals. `in`, `out`, `error` (at the layer's
 * output) and `below` (at its input) have b->room rows per lane. Images inside a network are channels last. `h`: the
 * layer's input if it comes from ReLU, else NULL; `below` is 0 where h is not positive. */
void fli_cuda_fc_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                         const void *in, void *out);
void fli_cuda_fc_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                          const void *error, const void *h, void *below);
/* Makes the step of weights and bias on lane.z or, with lane.gradient, writes the gradient there (`add`: adds it). */
void fli_cuda_fc_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                      const void *error, const void *in, int add);
/* In one kernel, fli_cuda_fc_step of the first layer and, with the new weights, fli_cuda_fc_forward of the next
 * mini-batch x; `next` has the same lanes or fewer. For lanes without `gradient`. fits: whether it supports this type,
 * layer and number of rows per mini-batch. */
int fli_cuda_fc_fused_step_fits(fli_cuda_type type, const fli_net_layer *l, uint32_t rows);
void fli_cuda_fc_fused_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                            const fli_cuda_batch *next, const void *error, const void *in, const void *x, void *out);
/* The same for samples that are bytes, with at most one scale, read where they are stored. */
int fli_cuda_fc_fused_step_bytes_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_data *data,
                                      uint32_t rows);
void fli_cuda_fc_fused_step_bytes(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                  const fli_cuda_batch *b, const fli_cuda_batch *next, const fli_cuda_data *data,
                                  const void *error, void *out);

/* last_layer.cu: the last layer and softmax in one kernel, for labelled rows alone (no rest rows): outputs, errors, the
 * error below (NULL: no layer below; masked: 0 where `in` is not positive), and the layer's step. fits: whether it
 * supports this type (never doubles), layer and number of rows per piece. */
int fli_cuda_fc_last_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss, uint32_t rows);
void fli_cuda_fc_last(fli_cuda_stream s, const fli_net_layer *l, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                      const void *in, int masked, void *below, int add);
/* The same together with the layer m before it: in, masked and below are those of m. Each lane has one block of
 * threads, so this is for many lanes. */
int fli_cuda_fc_last_two_fits(fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                              const fli_cuda_loss *loss, uint32_t rows);
void fli_cuda_fc_last_two(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                          const fli_cuda_loss *loss, const fli_cuda_batch *b, const void *in, int masked, void *below,
                          int add);

/* A convolution, the max pool after it (NULL: none), bias and ReLU: out is the pooled image. which: places of maxima,
 * one byte per value of out. work: fli_cuda_conv_work bytes for all lanes together. chw: the rows of out, and of
 * `error` backward, are channels first, because a layer of units follows. */
size_t fli_cuda_conv_work(fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool, uint32_t lanes,
                          uint32_t room);
void fli_cuda_conv_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                           const fli_cuda_batch *b, const void *in, int chw, unsigned char *which, void *out,
                           void *work);
/* error: at the output, already 0 where ReLU's output is 0. Call backward first, with the weights before the step, */
void fli_cuda_conv_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const void *error, int chw, const unsigned char *which,
                            const void *h, void *below, void *work);
/* then step. */
void fli_cuda_conv_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                        const fli_cuda_batch *b, const void *error, int chw, const unsigned char *which, const void *in,
                        int add, void *work);
/* Size of convolutions' pieces in tf32: 2, 3, 4, or 0 for the fastest. Tests change it. */
extern uint32_t fli_cuda_conv_quads;
/* Pools that do not follow a convolution. chw as above; which NULL: a mean pool. */
void fli_cuda_pool_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                           const void *in, int chw, unsigned char *which, void *out);
void fli_cuda_pool_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                            const void *error, int chw, const unsigned char *which, const void *h, void *below);
/* A step on z with lane.gradient, as fli_ops.sgd does, for mini-batches computed in several pieces. */
void fli_cuda_sgd(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_batch *b, uint64_t parameters);

/* ---- losses.cu: the kernels ---- */
void fli_cuda_rows_error(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                         void *z);
/* The same, after writing the rows' probabilities into p (room x classes); for pairs. */
void fli_cuda_rows_pair_global(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                               const fli_cuda_batch *b, void *z, void *p);
/* z of the own model becomes its error in the mixture with p. */
void fli_cuda_rows_pair_own(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                            const void *p, void *z);
/* Loss and hits of every row, added to sum[2 lane] and [2 lane + 1] in the order of the rows; p NULL: of one model,
 * else of the mixture of z, the own model, with p. */
void fli_cuda_rows_loss(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                        const void *p, const void *z, double *sum);
/* Probabilities, or the logits, as doubles: out is room x classes per lane. */
void fli_cuda_rows_outputs(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                           int logits, const void *z, double *out);

/* ---- small.cu: whole turns in one kernel, a block per lane, the weights in shared memory ---- */
/* Whether the kernel supports this network (FC layers alone), these samples (not cropped, augmented or scaled per
 * feature) and batches of at most `batch`: all must fit into a block's shared memory. */
int fli_cuda_small_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch);
/* All steps of all lanes, which have plain rows alone: lane.z receives the result, lane.buffer is start and result,
 * lane.gradient is ignored. Products are computed in the type of the memory. */
void fli_cuda_small_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                          const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch);

/* ---- wide.cu: the same by a cluster of blocks per lane, each with some of the units ---- */
/* For networks of one or two hidden FC layers and softmax, on samples that are bytes with at most one scale; batches of
 * at most 64; GPUs with clusters. TF32 rounds the weights and errors in products. */
/* The fastest number of blocks per cluster for this number of lanes, that of the whole call (fli_cuda_lanes_at_start):
 * with it all lanes run at the same time. 0: no such kernel, or so many lanes that layer by layer is faster. */
uint32_t fli_cuda_wide_cluster(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                               uint32_t lanes);
/* cluster: from fli_cuda_wide_cluster. A lane's results do not depend on other lanes. */
void fli_cuda_wide_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                         const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch, uint32_t cluster);
/* For tests and measurements: forces this number of blocks per cluster, if possible, and of warps per block (8 or 16);
 * 0: chosen automatically. */
void fli_cuda_wide_force(uint32_t cluster, uint32_t warps);

#ifdef __cplusplus
}
#endif

/* ==== divisions of layers of units =========================================================== */

/* How the products of layers of units are divided into blocks of threads, for comparisons; fli_cuda_fc_forward and the
 * others choose automatically. */

#ifdef __cplusplus
extern "C" {
#endif

/* Forward: units per block. The results' last bits depend on it. */
typedef enum { FLI_FC_16, FLI_FC_32, FLI_FC_CUTS } fli_fc_cut;
void fli_cuda_fc_forward_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                             const void *in, void *out, fli_fc_cut cut);
/* Step and next outputs: warps of a block along units and inputs. The outputs' last bits depend on it. */
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
