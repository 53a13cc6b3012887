/* Convolutions of every kind and type, a thread per result: any stride, any pool, double precision. */
#include "cuda/kernels/conv.cuh"
#include "cuda/kernels/update.cuh"

typedef struct {
    int from, height, width; /* the image */
    int to, bottom, right;   /* the convolution's output */
    int kernel, stride, pad;
    int window, rows, columns; /* the pool, 1 without one, and its output */
    int chw;
    size_t weight, bias;
    int biased, relu;
} shape;

static shape shape_of(const fli_net_layer *l, const fli_net_layer *pool, int chw)
{
    const size_t *out = pool ? pool->out : l->out;
    shape p = {(int)l->in[0],
               (int)l->in[1],
               (int)l->in[2],
               (int)l->out[0],
               (int)l->out[1],
               (int)l->out[2],
               (int)l->kernel,
               (int)l->stride,
               (int)l->pad,
               pool ? (int)pool->kernel : 1,
               (int)out[1],
               (int)out[2],
               chw,
               l->weight,
               l->bias,
               l->biased,
               l->relu};
    return p;
}

static __device__ __forceinline__ size_t out_at(const shape &p, int c, int window)
{
    return p.chw ? (size_t)c * p.rows * p.columns + window : (size_t)window * p.to + c;
}

/* ---- forward: x: results of a lane, y: lanes ---- */

/* Filter c at position y, x of an image. */
template <class REAL>
static __device__ REAL filtered(const shape &p, const REAL *image, const REAL *filter, int y, int x)
{
    REAL sum = 0;
    for (int dy = 0; dy < p.kernel; dy++) {
        int sy = y * p.stride + dy - p.pad;
        if (sy < 0 || sy >= p.height) continue;
        for (int dx = 0; dx < p.kernel; dx++) {
            int sx = x * p.stride + dx - p.pad;
            if (sx < 0 || sx >= p.width) continue;
            const REAL *from = image + ((size_t)sy * p.width + sx) * p.from, *w = filter + dy * p.kernel + dx;
            for (int c = 0; c < p.from; c++) sum += from[c] * w[(size_t)c * p.kernel * p.kernel];
        }
    }
    return sum;
}

template <class REAL>
static __global__ void forward(shape p, fli_cuda_batch b, const REAL *in, unsigned char *which, REAL *out)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, size = (size_t)p.rows * p.columns * p.to;
    const fli_cuda_lane *lane = b.lane + blockIdx.y;
    if (i >= fli_cuda_rows(lane, &b) * size) return;
    size_t row = blockIdx.y * (size_t)b.room + i / size;
    int c = (int)(i % p.to), window = (int)(i % size / p.to), y = window / p.columns, x = window % p.columns, place = 0;
    const REAL *image = in + row * p.height * p.width * p.from, *z = (const REAL *)lane->z;
    const REAL *filter = z + p.weight + (size_t)c * p.from * p.kernel * p.kernel;
    REAL most = 0;
    for (int k = 0; k < p.window * p.window; k++) {
        REAL v = filtered(p, image, filter, y * p.window + k / p.window, x * p.window + k % p.window);
        if (k == 0 || v > most) most = v, place = k;
    }
    if (p.biased) most += z[p.bias + c];
    if (p.window > 1) which[row * size + (size_t)window * p.to + c] = (unsigned char)place;
    out[row * size + out_at(p, c, window)] = p.relu && most < 0 ? 0 : most;
}

/* ---- backward: x: results of a lane, y: lanes ---- */

/* The error of filter c at position y, x before the pool. image: the row's number. */
template <class REAL>
static __device__ __forceinline__ REAL error_at(const shape &p, const REAL *error, const unsigned char *which,
                                                size_t row, int c, int y, int x)
{
    size_t size = (size_t)p.rows * p.columns * p.to;
    int wy = y / p.window, wx = x / p.window, window = wy * p.columns + wx;
    if (wy >= p.rows || wx >= p.columns) return 0;
    if (p.window > 1 && which[row * size + (size_t)window * p.to + c] != y % p.window * p.window + x % p.window)
        return 0;
    return error[row * size + out_at(p, c, window)];
}

/* The sum over all filters of the taps that cover y, x of the image. */
template <class REAL>
static __device__ REAL gathered(const shape &p, const REAL *error, const unsigned char *which, size_t row,
                                const REAL *filters, int y, int x)
{
    REAL sum = 0;
    for (int dy = 0; dy < p.kernel; dy++) {
        int ty = y + p.pad - dy;
        if (ty < 0 || ty % p.stride || ty / p.stride >= p.bottom) continue;
        for (int dx = 0; dx < p.kernel; dx++) {
            int tx = x + p.pad - dx;
            if (tx < 0 || tx % p.stride || tx / p.stride >= p.right) continue;
            for (int o = 0; o < p.to; o++)
                sum += error_at(p, error, which, row, o, ty / p.stride, tx / p.stride) *
                       filters[((size_t)o * p.from * p.kernel + dy) * p.kernel + dx];
        }
    }
    return sum;
}

template <class REAL>
static __global__ void backward(shape p, fli_cuda_batch b, const REAL *error, const unsigned char *which, const REAL *h,
                                REAL *below)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, size = (size_t)p.height * p.width * p.from;
    const fli_cuda_lane *lane = b.lane + blockIdx.y;
    if (i >= fli_cuda_rows(lane, &b) * size) return;
    size_t row = blockIdx.y * (size_t)b.room + i / size, at = blockIdx.y * (size_t)b.room * size + i;
    int c = (int)(i % p.from), x = (int)(i / p.from % p.width), y = (int)(i / p.from / p.width % p.height);
    const REAL *filters = (const REAL *)lane->z + p.weight + (size_t)c * p.kernel * p.kernel;
    below[at] = h && !(h[at] > 0) ? 0 : gathered(p, error, which, row, filters, y, x);
}

/* ---- step: x: parameters of the layer, y: lanes ---- */

template <class REAL>
static __device__ REAL weight_gradient(const shape &p, const REAL *error, const unsigned char *which, const REAL *in,
                                       size_t row, int o, int c, int dy, int dx)
{
    const REAL *image = in + row * p.height * p.width * p.from + c;
    REAL sum = 0;
    for (int y = 0; y < p.bottom; y++) {
        int sy = y * p.stride + dy - p.pad;
        if (sy < 0 || sy >= p.height) continue;
        for (int x = 0; x < p.right; x++) {
            int sx = x * p.stride + dx - p.pad;
            if (sx < 0 || sx >= p.width) continue;
            sum += error_at(p, error, which, row, o, y, x) * image[((size_t)sy * p.width + sx) * p.from];
        }
    }
    return sum;
}

template <class REAL> static __device__ REAL bias_gradient(const shape &p, const REAL *error, size_t row, int o)
{
    REAL sum = 0;
    for (int i = 0; i < p.rows * p.columns; i++)
        sum += error[row * ((size_t)p.rows * p.columns * p.to) + out_at(p, o, i)];
    return sum;
}

template <class REAL>
static __global__ void step(shape p, fli_cuda_batch b, const REAL *error, const unsigned char *which, const REAL *in,
                            int add)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t taps = (size_t)p.kernel * p.kernel, weights = p.to * taps * p.from;
    const fli_cuda_lane *lane = b.lane + blockIdx.y;
    uint32_t rows = fli_cuda_rows(lane, &b);
    if (i >= weights + (p.biased ? p.to : 0) || !fli_conv_takes(lane, rows, add)) return;
    int o = (int)(i / taps / p.from), c = (int)(i / taps % p.from), tap = (int)(i % taps);
    REAL sum = 0;
    for (uint32_t r = 0; r < rows; r++) {
        size_t row = blockIdx.y * (size_t)b.room + r;
        sum += i < weights ? weight_gradient(p, error, which, in, row, o, c, tap / p.kernel, tap % p.kernel)
                           : bias_gradient(p, error, row, (int)(i - weights));
    }
    fli_update<REAL> u;
    u.init(lane, b.step, add);
    size_t at = i < weights ? p.weight + i : p.bias + (i - weights);
    u.template apply<1>(at, &sum, u.z + at);
}

/* ---- launches ---- */

enum { THREADS = 128 };

static dim3 grid_of(size_t results, const fli_cuda_batch *b)
{
    return dim3((unsigned)((results + THREADS - 1) / THREADS), b->lanes);
}

template <class REAL>
void fli_conv_plain_forward(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const REAL *in, int chw, unsigned char *which, REAL *out)
{
    shape p = shape_of(l, pool, chw);
    dim3 grid = grid_of(fli_conv_most(b) * fli_net_out(pool ? pool : l), b);
    FLI_LAUNCH(s, forward<REAL>, grid, THREADS, 0, p, *b, in, which, out);
}

template <class REAL>
void fli_conv_plain_backward(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool,
                             const fli_cuda_batch *b, const REAL *error, int chw, const unsigned char *which,
                             const REAL *h, REAL *below)
{
    shape p = shape_of(l, pool, chw);
    dim3 grid = grid_of(fli_conv_most(b) * fli_net_in(l), b);
    FLI_LAUNCH(s, backward<REAL>, grid, THREADS, 0, p, *b, error, which, h, below);
}

template <class REAL>
void fli_conv_plain_step(fli_cuda_stream s, const fli_net_layer *l, const fli_net_layer *pool, const fli_cuda_batch *b,
                         const REAL *error, int chw, const unsigned char *which, const REAL *in, int add)
{
    shape p = shape_of(l, pool, chw);
    dim3 grid = grid_of(l->out[0] * (l->in[0] * l->kernel * l->kernel + 1), b);
    FLI_LAUNCH(s, step<REAL>, grid, THREADS, 0, p, *b, error, which, in, add);
}

#define FOR_TYPE(REAL)                                                                                                 \
    template void fli_conv_plain_forward<REAL>(fli_cuda_stream, const fli_net_layer *, const fli_net_layer *,          \
                                               const fli_cuda_batch *, const REAL *, int, unsigned char *, REAL *);    \
    template void fli_conv_plain_backward<REAL>(fli_cuda_stream, const fli_net_layer *, const fli_net_layer *,         \
                                                const fli_cuda_batch *, const REAL *, int, const unsigned char *,      \
                                                const REAL *, REAL *);                                                 \
    template void fli_conv_plain_step<REAL>(fli_cuda_stream, const fli_net_layer *, const fli_net_layer *,             \
                                            const fli_cuda_batch *, const REAL *, int, const unsigned char *,          \
                                            const REAL *, int);
FOR_TYPE(float)
FOR_TYPE(double)
