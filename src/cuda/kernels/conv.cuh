/* Shared by the parts of the convolutions: conv.cu chooses, conv_product.cu computes images from images (forward, and
 * backward to the layer's input), conv_gradient.cu gradients of filters, conv_plain.cu all other cases.
 *
 * The products run on tensor cores, without a matrix of patches: a block keeps a piece of the image, with its margin,
 * in shared memory, and the taps of the filters read it at shifted places. */
#ifndef FLI_CUDA_CONV_CUH
#define FLI_CUDA_CONV_CUH

#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/mma.cuh"

/* Shared memory of a block in bytes: every current GPU has it, and large ones hold two such blocks. And the largest
 * kernel. */
enum { FLI_CONV_SHARED = 99 * 1024, FLI_CONV_KERNEL = 9 };

static inline __host__ __device__ int fli_conv_over(int a, int b) { return (a + b - 1) / b; }

/* An error at a layer's output: pooled, with the places of its maxima (`which`, channels last), or not pooled. */
typedef struct {
    const float *error;
    const unsigned char *which;      /* NULL: no pool */
    int height, width, channels;     /* of `error` */
    int position_step, channel_step; /* floats from one to the next in `error` */
} fli_conv_error;

/* Four channels from c on; missing ones are 0. */
static __device__ __forceinline__ float4 fli_conv_error_at(const fli_conv_error &e, const float *image, int window,
                                                           int c)
{
    const float *at = image + (size_t)window * e.position_step + (size_t)c * e.channel_step;
    if (e.channel_step == 1 && e.channels % 4 == 0)
        return c < e.channels ? *(const float4 *)at : make_float4(0, 0, 0, 0);
    float4 v = make_float4(0, 0, 0, 0);
    if (c < e.channels) v.x = at[0];
    if (c + 1 < e.channels) v.y = at[e.channel_step];
    if (c + 2 < e.channels) v.z = at[2 * e.channel_step];
    if (c + 3 < e.channels) v.w = at[3 * e.channel_step];
    return v;
}

/* The places of the four maxima; undefined for missing channels. */
static __device__ __forceinline__ uchar4 fli_conv_which_at(const fli_conv_error &e, const unsigned char *image,
                                                           int window, int c)
{
    const unsigned char *at = image + (size_t)window * e.channels + c;
    uchar4 v = {0, 0, 0, 0};
    if (e.channels % 4 == 0) return c < e.channels ? *(const uchar4 *)at : v;
    if (c < e.channels) v.x = at[0];
    if (c + 1 < e.channels) v.y = at[1];
    if (c + 2 < e.channels) v.z = at[2];
    if (c + 3 < e.channels) v.w = at[3];
    return v;
}

/* Pooled errors at one place of their windows: 0 unless the maximum was there. */
static __device__ __forceinline__ float4 fli_conv_placed(float4 v, uchar4 which, int place)
{
    return make_float4(which.x == place ? v.x : 0, which.y == place ? v.y : 0, which.z == place ? v.z : 0,
                       which.w == place ? v.w : 0);
}

/* Rounded to tf32. */
static __device__ __forceinline__ float fli_conv_tf32(float v) { return __uint_as_float(fli_tf32(v)); }
static __device__ __forceinline__ float4 fli_conv_tf32(float4 v)
{
    return make_float4(fli_conv_tf32(v.x), fli_conv_tf32(v.y), fli_conv_tf32(v.z), fli_conv_tf32(v.w));
}

/* A lane with rows makes the layer's step; without rows, a gradient that is written, not added, is 0. */
static __device__ __forceinline__ int fli_conv_takes(const fli_cuda_lane *lane, uint32_t rows, int add)
{
    return rows || (lane->gradient && !add);
}

/* The most rows of a lane in a launch. */
static inline int fli_conv_most(const fli_cuda_batch *b) { return (int)(b->most < b->room ? b->most : b->room); }

/* The calls of kernels.h on tensor cores, for layers that fit (fli_conv_*_fits): stride 1 and no pool or one of 2 x 2.
 * split: single precision, else tf32. */
int fli_conv_product_fits(const fli_net_layer *l, const fli_net_layer *pool);
size_t fli_conv_product_work(const fli_net_layer *l, uint32_t lanes);
void fli_conv_product_forward(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                              const fli_cuda_batch *b, const float *in, int chw, unsigned char *which, float *out,
                              float *work);
void fli_conv_product_backward(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                               const fli_cuda_batch *b, const float *error, int chw, const unsigned char *which,
                               const float *h, float *below, float *work);

int fli_conv_gradient_fits(const fli_net_layer *l, const fli_net_layer *pool);
size_t fli_conv_gradient_work(const fli_net_layer *l, const fli_net_layer *pool, uint32_t lanes);
void fli_conv_gradient_step(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const float *error, int chw, const unsigned char *which,
                            const float *in, int add, float *work);

/* The same for every layer, a thread per result: slow. REAL: float, double. */
template <class REAL>
void fli_conv_plain_forward(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const REAL *in, int chw, unsigned char *which, REAL *out);
template <class REAL>
void fli_conv_plain_backward(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool,
                             const fli_cuda_batch *b, const REAL *error, int chw, const unsigned char *which,
                             const REAL *h, REAL *below);
template <class REAL>
void fli_conv_plain_step(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool, const fli_cuda_batch *b,
                         const REAL *error, int chw, const unsigned char *which, const REAL *in, int add);

/* The error at the output of l and of the pool after it. */
static inline fli_conv_error fli_conv_error_of(const fli_net_layer *l, const fli_net_layer *pool, const float *error,
                                               int chw, const unsigned char *which)
{
    const size_t *out = pool ? pool->out : l->out;
    int positions = (int)(out[1] * out[2]), channels = (int)out[0];
    fli_conv_error e = {error,    pool ? which : 0,   (int)out[1],        (int)out[2],
                        channels, chw ? 1 : channels, chw ? positions : 1};
    return e;
}

#endif
