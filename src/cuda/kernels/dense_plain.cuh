/* Layers of units without tensor cores: double precision. One product for the three of them, D = A B over k:
 *
 *     forward    rows x units    over inputs
 *     backward   rows x inputs   over units
 *     step       units x inputs  over rows                                                                          */
#ifndef FLI_CUDA_DENSE_PLAIN_CUH
#define FLI_CUDA_DENSE_PLAIN_CUH

#include "cuda/kernels/dense_product.cuh"
#include "cuda/kernels/update.cuh"

enum fc_what { FC_FORWARD, FC_BACKWARD, FC_STEP };
enum { PLAIN_TILE = 32, PLAIN_K = 16, PLAIN_SIDE = 16, PLAIN_THREADS = PLAIN_SIDE * PLAIN_SIDE };

/* A lane's matrices: z, the rows of inputs and the errors at the units. */
template <typename T> struct fc_plain_lane {
    const T *w, *in, *error;
    uint32_t rows, units, inputs;
};

template <int WHAT, typename T> static __device__ T plain_a(const fc_plain_lane<T> &p, uint32_t m, uint32_t k)
{
    if (WHAT == FC_FORWARD) return m < p.rows && k < p.inputs ? p.in[(size_t)m * p.inputs + k] : 0;
    if (WHAT == FC_BACKWARD) return m < p.rows && k < p.units ? p.error[(size_t)m * p.units + k] : 0;
    return m < p.units && k < p.rows ? p.error[(size_t)k * p.units + m] : 0;
}
template <int WHAT, typename T> static __device__ T plain_b(const fc_plain_lane<T> &p, uint32_t k, uint32_t n)
{
    if (WHAT == FC_FORWARD) return n < p.units && k < p.inputs ? p.w[(size_t)n * p.inputs + k] : 0;
    if (WHAT == FC_BACKWARD) return n < p.inputs && k < p.units ? p.w[(size_t)k * p.inputs + n] : 0;
    return n < p.inputs && k < p.rows ? p.in[(size_t)k * p.inputs + n] : 0;
}

/* A thread's 2 x 2 entries of D: (y, x), 16 apart. */
template <int WHAT, typename T>
static __device__ void plain_product(const fc_plain_lane<T> &p, uint32_t m0, uint32_t n0, uint32_t ks, T (*d)[2])
{
    __shared__ T a[PLAIN_TILE][PLAIN_K + 1], b[PLAIN_K][PLAIN_TILE + 1];
    const uint32_t x = threadIdx.x % PLAIN_SIDE, y = threadIdx.x / PLAIN_SIDE;
    for (uint32_t k0 = 0; k0 < ks; k0 += PLAIN_K) {
        for (uint32_t i = threadIdx.x; i < PLAIN_TILE * PLAIN_K; i += PLAIN_THREADS) {
            /* the index that runs along memory is the fastest */
            uint32_t am = WHAT == FC_STEP ? i % PLAIN_TILE : i / PLAIN_K;
            uint32_t ak = WHAT == FC_STEP ? i / PLAIN_TILE : i % PLAIN_K;
            uint32_t bn = WHAT == FC_FORWARD ? i / PLAIN_K : i % PLAIN_TILE;
            uint32_t bk = WHAT == FC_FORWARD ? i % PLAIN_K : i / PLAIN_TILE;
            a[am][ak] = plain_a<WHAT>(p, m0 + am, k0 + ak);
            b[bk][bn] = plain_b<WHAT>(p, k0 + bk, n0 + bn);
        }
        __syncthreads();
        for (int k = 0; k < PLAIN_K; k++)
            for (int e = 0; e < 4; e++) d[e / 2][e % 2] += a[y + e / 2 * PLAIN_SIDE][k] * b[k][x + e % 2 * PLAIN_SIDE];
        __syncthreads();
    }
}

template <typename T>
static __device__ void plain_bias(const fc_plain_lane<T> &p, const fli_update<T> &u, size_t bias, uint32_t m0)
{
    uint32_t unit = m0 + threadIdx.x;
    if (threadIdx.x >= PLAIN_TILE || unit >= p.units) return;
    T sum = 0, now = u.z[bias + unit];
    for (uint32_t r = 0; r < p.rows; r++) sum += p.error[(size_t)r * p.units + unit];
    u.template apply<1>(bias + unit, &sum, &now);
}

/* blockIdx: x cuts n, y cuts m, z is the lane. */
template <int WHAT, typename T>
__global__ void __launch_bounds__(PLAIN_THREADS)
    fc_plain(fli_cuda_batch b, fc_layer l, const T *in, const T *error, const T *h, T *out, int add)
{
    const uint32_t lane = blockIdx.z, m0 = blockIdx.y * PLAIN_TILE, n0 = blockIdx.x * PLAIN_TILE;
    const size_t first = (size_t)lane * b.room;
    fli_update<T> u;
    u.init(&b.lane[lane], b.step, add);
    const fc_plain_lane<T> p = {u.z + l.weight,
                                in ? in + first * l.inputs : in,
                                error ? error + first * l.units : error,
                                fli_cuda_rows(&b.lane[lane], &b),
                                l.units,
                                l.inputs};
    T d[2][2] = {{0, 0}, {0, 0}};
    plain_product<WHAT>(p, m0, n0, WHAT == FC_FORWARD ? p.inputs : WHAT == FC_BACKWARD ? p.units : p.rows, d);
    const uint32_t wide = WHAT == FC_FORWARD ? p.units : p.inputs, high = WHAT == FC_STEP ? p.units : p.rows;
    for (int e = 0; e < 4; e++) {
        uint32_t m = m0 + threadIdx.x / PLAIN_SIDE + e / 2 * PLAIN_SIDE;
        uint32_t n = n0 + threadIdx.x % PLAIN_SIDE + e % 2 * PLAIN_SIDE;
        if (m >= high || n >= wide) continue;
        T v = d[e / 2][e % 2];
        size_t at = (first + m) * wide + n;
        if (WHAT == FC_STEP) {
            T now = p.w[(size_t)m * wide + n];
            u.template apply<1>(l.weight + (size_t)m * wide + n, &v, &now);
        } else if (WHAT == FC_FORWARD) {
            if (l.biased) v += u.z[l.bias + n];
            out[at] = l.relu && v < 0 ? 0 : v;
        } else {
            out[at] = h && !(h[at] > 0) ? 0 : v;
        }
    }
    if (WHAT == FC_STEP && !n0 && l.biased) plain_bias(p, u, l.bias, m0);
}

#endif
