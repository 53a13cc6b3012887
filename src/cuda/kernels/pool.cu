/* Pools without a convolution, and steps with gradients that were added up: operations value by value. */
#include "cuda/kernels/update.cuh"

namespace
{

enum { THREADS = 256 };

/* Sizes of a pool; rows of `out` are channels first if chw. */
struct window {
    uint32_t channels, height, width, kernel, out_height, out_width;
    int chw;

    __device__ uint32_t ins() const { return channels * height * width; }
    __device__ uint32_t outs() const { return channels * out_height * out_width; }
    __device__ uint32_t out_at(uint32_t y, uint32_t x, uint32_t c) const
    {
        return chw ? (c * out_height + y) * out_width + x : (y * out_width + x) * channels + c;
    }
};

window window_of(const fli_net_layer *l, int chw)
{
    window w = {(uint32_t)l->in[0],
                (uint32_t)l->in[1],
                (uint32_t)l->in[2],
                (uint32_t)l->kernel,
                (uint32_t)l->out[1],
                (uint32_t)l->out[2],
                chw};
    return w;
}

/* A block per row of a lane; of more than 65535 rows a block has several. */
dim3 grid_of(const fli_cuda_batch *b)
{
    const uint32_t rows = b->most < b->room ? b->most : b->room;
    return dim3(b->lanes, rows < 65535 ? rows : 65535);
}

/* Calls `use` with every row of a block: its number among the rows of all lanes. */
#define EACH_ROW(b, at)                                                                                                \
    const uint32_t rows_ = fli_cuda_rows((b).lane + blockIdx.x, &(b));                                                 \
    size_t at = (size_t)blockIdx.x * (b).room + blockIdx.y;                                                            \
    for (uint32_t row_ = blockIdx.y; row_ < rows_; row_ += gridDim.y, at += gridDim.y)

/* The largest value of a window: on ties the first; a NaN counts as largest, of several the last. */
template <class REAL> __device__ REAL largest(const window &w, const REAL *x, unsigned char *which)
{
    REAL best = x[0];
    uint32_t place = 0;
    for (uint32_t i = 0; i < w.kernel; i++)
        for (uint32_t j = 0; j < w.kernel; j++) {
            REAL v = x[(i * w.width + j) * w.channels];
            if (!(v > best || v != v)) continue;
            best = v;
            place = i * w.kernel + j;
        }
    *which = (unsigned char)place;
    return best;
}

template <class REAL> __device__ REAL mean(const window &w, const REAL *x)
{
    REAL sum = 0;
    for (uint32_t i = 0; i < w.kernel; i++)
        for (uint32_t j = 0; j < w.kernel; j++) sum += x[(i * w.width + j) * w.channels];
    return sum * ((REAL)1 / (REAL)(w.kernel * w.kernel));
}

template <class REAL>
__global__ void __launch_bounds__(THREADS)
    pool_forward(window w, fli_cuda_batch b, const REAL *in, unsigned char *which, REAL *out)
{
    EACH_ROW(b, at)
    {
        for (uint32_t k = threadIdx.x; k < w.outs(); k += THREADS) {
            uint32_t c = k % w.channels, pixel = k / w.channels, y = pixel / w.out_width, x = pixel % w.out_width;
            const REAL *from = in + at * w.ins() + (y * w.width + x) * w.kernel * w.channels + c;
            size_t to = at * w.outs() + w.out_at(y, x, c);
            out[to] = which ? largest(w, from, which + to) : mean(w, from);
        }
    }
}

/* Positions that no window covers, at the right and at the bottom, are zero. */
template <class REAL>
__global__ void __launch_bounds__(THREADS)
    pool_backward(window w, fli_cuda_batch b, const REAL *error, const unsigned char *which, const REAL *h, REAL *below)
{
    const REAL share = (REAL)1 / (REAL)(w.kernel * w.kernel);
    EACH_ROW(b, at)
    {
        for (uint32_t k = threadIdx.x; k < w.ins(); k += THREADS) {
            uint32_t c = k % w.channels, pixel = k / w.channels, y = pixel / w.width, x = pixel % w.width;
            uint32_t place = y % w.kernel * w.kernel + x % w.kernel;
            size_t to = at * w.ins() + k;
            REAL d = 0;
            if (y / w.kernel < w.out_height && x / w.kernel < w.out_width && (!h || h[to] > 0)) {
                size_t from = at * w.outs() + w.out_at(y / w.kernel, x / w.kernel, c);
                d = !which ? share * error[from] : which[from] == place ? error[from] : 0;
            }
            below[to] = d;
        }
    }
}

enum { AT_ONCE = 4 };

template <class REAL> __global__ void __launch_bounds__(THREADS) sgd_lanes(fli_cuda_batch b, uint64_t n)
{
    const size_t first = ((size_t)blockIdx.y * THREADS + threadIdx.x) * AT_ONCE;
    const size_t stride = (size_t)gridDim.y * THREADS * AT_ONCE;
    fli_update<REAL> u;
    u.init(b.lane + blockIdx.x, b.step, 0);
    const REAL *gradient = u.gradient;
    u.gradient = NULL; /* the gradient is complete: make the step */
    for (size_t at = first; at < n; at += stride) {
        REAL g[AT_ONCE], z[AT_ONCE];
        if (at + AT_ONCE <= n) {
            fli_load<AT_ONCE>(gradient + at, g);
            fli_load<AT_ONCE>(u.z + at, z);
            u.template apply<AT_ONCE>(at, g, z);
        } else {
            for (size_t k = at; k < n; k++) u.template apply<1>(k, gradient + k, u.z + k);
        }
    }
}

} // namespace

extern "C" void fli_cuda_pool_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                      const fli_cuda_batch *b, const void *in, int chw, unsigned char *which, void *out)
{
    const window w = window_of(l, chw);
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, pool_forward<double>, grid_of(b), THREADS, 0, w, *b, (const double *)in, which, (double *)out);
    else
        FLI_LAUNCH(s, pool_forward<float>, grid_of(b), THREADS, 0, w, *b, (const float *)in, which, (float *)out);
}

extern "C" void fli_cuda_pool_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                       const fli_cuda_batch *b, const void *error, int chw, const unsigned char *which,
                                       const void *h, void *below)
{
    const window w = window_of(l, chw);
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, pool_backward<double>, grid_of(b), THREADS, 0, w, *b, (const double *)error, which,
                   (const double *)h, (double *)below);
    else
        FLI_LAUNCH(s, pool_backward<float>, grid_of(b), THREADS, 0, w, *b, (const float *)error, which,
                   (const float *)h, (float *)below);
}

extern "C" void fli_cuda_sgd(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_batch *b, uint64_t parameters)
{
    const uint64_t blocks = (parameters + THREADS * AT_ONCE - 1) / (THREADS * AT_ONCE);
    const dim3 grid(b->lanes, (uint32_t)(blocks < 1024 ? blocks : 1024));
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, sgd_lanes<double>, grid, THREADS, 0, *b, parameters);
    else
        FLI_LAUNCH(s, sgd_lanes<float>, grid, THREADS, 0, *b, parameters);
}
