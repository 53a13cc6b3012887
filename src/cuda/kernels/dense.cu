/* Layers of units, many lanes at once: chooses kernels and numbers of blocks. The kernels are in dense_product.cuh
 * (forward, backward), dense_step.cuh, dense_fused_step.cuh and dense_bytes.cuh; the one for double precision is
 * here. */
#include "cuda/kernels/dense_bytes.cuh"
#include "cuda/kernels/dense_fused_step.cuh"
#include "cuda/kernels/dense_product.cuh"
#include "cuda/kernels/dense_step.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/sample.cuh"
#include "cuda/kernels/update.cuh"

/* ==== double precision ==================================================================================== */

/* Layers of units without tensor cores: double precision. One kernel for all three products D = A B over k:
 *
 *     forward    rows x units    over inputs
 *     backward   rows x inputs   over units
 *     step       units x inputs  over rows */

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

/* ==== which kernel, how many blocks ======================================================================= */

static uint32_t pieces(size_t n, size_t size) { return (uint32_t)((n + size - 1) / size); }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t rows_of(const fli_cuda_batch *b) { return least(b->most, b->room); }

/* Vectors and matrices are aligned to 256 bytes, so their rows are aligned to 16 if: */
static int weights_aligned(const fc_layer &l) { return l.weight % 4 == 0 && l.inputs % 4 == 0; }

/* The arguments of a product's launch. */
struct fc_call {
    fli_cuda_stream stream;
    fli_cuda_batch batch;
    fc_layer layer;
    const float *in, *h;
    float *out;
};

/* ---- forward, backward --------------------------------------------------------------------------------- */

template <int SPLIT, int BACK, int VEC, class CUT> static void launch_product(const fc_call &c)
{
    static_assert(!BACK || CUT::TM % 32 == 0, "tiles along m come in lines of 32");
    dim3 grid(pieces(BACK ? c.layer.inputs : c.layer.units, CUT::TM), pieces(rows_of(&c.batch), CUT::TN),
              c.batch.lanes);
    auto kernel = fc_product<SPLIT, BACK, VEC, CUT>;
    FLI_LAUNCH_EARLY(c.stream, kernel, grid, dim3(CUT::THREADS), (size_t)CUT::BYTES, c.batch, c.layer, c.in, c.h,
                     c.out);
}

/* Chooses the tiles of n for the rows: 50 rows need 7; more rows take several blocks. */
template <int SPLIT, int BACK, int MT, int WM, int WK, int STAGES> static void product_rows(const fc_call &c)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        launch_product<SPLIT, BACK, 1, fc_cut<MT, 2, WM, WK, STAGES>>(c);
    else if (rows <= 32 || (rows > 56 && rows <= 64))
        launch_product<SPLIT, BACK, 1, fc_cut<MT, 4, WM, WK, STAGES>>(c);
    else
        launch_product<SPLIT, BACK, 1, fc_cut<MT, 7, WM, WK, STAGES>>(c);
}

template <int SPLIT> static void forward(const fc_call &c, fli_fc_cut cut)
{
    if (!weights_aligned(c.layer))
        launch_product<SPLIT, 0, 0, fc_cut<2, 7, 1, 4, 3>>(c);
    else if (cut == FLI_FC_16)
        product_rows<SPLIT, 0, 1, 1, 8, 3>(c);
    else
        product_rows<SPLIT, 0, 2, 1, 4, 3>(c);
}
template <int SPLIT> static void backward(const fc_call &c)
{
    if (weights_aligned(c.layer) && c.layer.units % 4 == 0)
        product_rows<SPLIT, 1, 2, 1, 4, 3>(c);
    else
        launch_product<SPLIT, 1, 0, fc_cut<2, 7, 1, 4, 3>>(c);
}

template <int WHAT> static void plain(const fc_call &c, const void *error, int add)
{
    const fc_layer &l = c.layer;
    dim3 grid(pieces(WHAT == FC_FORWARD ? l.units : l.inputs, PLAIN_TILE),
              pieces(WHAT == FC_STEP ? l.units : rows_of(&c.batch), PLAIN_TILE), c.batch.lanes);
    auto kernel = fc_plain<WHAT, double>;
    FLI_LAUNCH(c.stream, kernel, grid, dim3(PLAIN_THREADS), (size_t)0, c.batch, l, (const double *)(const void *)c.in,
               (const double *)error, (const double *)(const void *)c.h, (double *)(void *)c.out, add);
}

extern "C" void fli_cuda_fc_forward_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                        const fli_cuda_batch *b, const void *in, void *out, fli_fc_cut cut)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)in, NULL, (float *)out};
    if (type == FLI_CUDA_F64) return plain<FC_FORWARD>(c, NULL, 0);
    if (type == FLI_CUDA_F32) return forward<1>(c, cut);
    forward<0>(c, cut);
}

/* Large blocks read the samples less often; small ones keep all processors busy with few lanes. */
static fli_fc_cut best_cut(size_t units, uint32_t lanes)
{
    return pieces(units, 32) * lanes >= fli_processors() ? FLI_FC_32 : FLI_FC_16;
}
extern "C" void fli_cuda_fc_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                    const fli_cuda_batch *b, const void *in, void *out)
{
    fli_cuda_fc_forward_cut(s, type, l, b, in, out, best_cut(fli_net_out(l), fli_cuda_lanes_at_start(b)));
}

extern "C" void fli_cuda_fc_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                     const fli_cuda_batch *b, const void *error, const void *h, void *below)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)error, (const float *)h, (float *)below};
    if (type == FLI_CUDA_F64) {
        fc_call d = c;
        d.in = NULL;
        return plain<FC_BACKWARD>(d, error, 0);
    }
    if (type == FLI_CUDA_F32) return backward<1>(c);
    backward<0>(c);
}

/* ---- step ---------------------------------------------------------------------------------------------- */

template <int SPLIT, int VEC, class S> static void launch_step(const fc_call &c, const float *error, int add)
{
    fc_work work = {pieces(c.layer.inputs, S::TC), pieces(c.layer.units, S::TU), pieces(rows_of(&c.batch), S::ROWS)};
    uint64_t all = (uint64_t)work.pieces * work.unit_blocks * c.batch.lanes, room = fli_processors() * S::RESIDENT;
    auto kernel = fc_step<SPLIT, VEC, S>;
    FLI_LAUNCH_EARLY(c.stream, kernel, dim3((uint32_t)(all < room ? all : room)), dim3(S::THREADS),
                     S::bytes(work.turns), c.batch, c.layer, work, error, c.in, add);
}

template <int SPLIT, int WU, int WC, int STAGES> static void step_rows(const fc_call &c, const float *error, int add)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        launch_step<SPLIT, 1, fc_stride<2, WU, WC, STAGES>>(c, error, add);
    else if (rows <= 32 || (rows > 56 && rows <= 64))
        launch_step<SPLIT, 1, fc_stride<4, WU, WC, STAGES>>(c, error, add);
    else
        launch_step<SPLIT, 1, fc_stride<7, WU, WC, STAGES>>(c, error, add);
}
/* Single precision makes three products for one, so computing dominates, and smaller blocks fill a processor better. */
template <int SPLIT> static void step(const fc_call &c, const float *error, int add)
{
    if (!weights_aligned(c.layer) || c.layer.units % 4)
        launch_step<SPLIT, 0, fc_stride<7, 4, 1, 3>>(c, error, add);
    else
        step_rows<SPLIT, 4, SPLIT ? 1 : 2, 3>(c, error, add);
}

extern "C" void fli_cuda_fc_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                 const void *error, const void *in, int add)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)in, NULL, NULL};
    if (type == FLI_CUDA_F64) return plain<FC_STEP>(c, error, add);
    if (type == FLI_CUDA_F32) return step<1>(c, (const float *)error, add);
    step<0>(c, (const float *)error, add);
}

/* ---- from one mini-batch to the next ------------------------------------------------------------------- */

enum { FUSED_ROWS = 56 };

template <int SPLIT, class S>
static void launch_fused(const fc_call &c, const fli_cuda_batch *next, const float *error, const float *x)
{
    auto kernel = fc_fused<SPLIT, S>;
    dim3 grid(pieces(c.layer.units, S::TU), c.batch.lanes);
    FLI_LAUNCH_EARLY(c.stream, kernel, grid, dim3(S::THREADS), 4 * (size_t)S::FLOATS, c.batch, *next, c.layer, error,
                     c.in, x, c.out);
}
template <int SPLIT, int WU, int WC, int STAGES>
static void fused_rows(const fc_call &c, const fli_cuda_batch *next, const float *error, const float *x)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        launch_fused<SPLIT, fc_chain<2, WU, WC, STAGES>>(c, next, error, x);
    else if (rows <= 32)
        launch_fused<SPLIT, fc_chain<4, WU, WC, STAGES>>(c, next, error, x);
    else
        launch_fused<SPLIT, fc_chain<7, WU, WC, STAGES>>(c, next, error, x);
}
template <int SPLIT>
static void fused_step(const fc_call &c, const fli_cuda_batch *next, const float *error, const float *x,
                       fli_fc_fused_cut how)
{
    if (how == FLI_FC_FUSED_1X4) return fused_rows<SPLIT, 1, 4, 2>(c, next, error, x);
    fused_rows<SPLIT, 2, 2, 2>(c, next, error, x);
}

extern "C" int fli_cuda_fc_fused_step_fits(fli_cuda_type type, const fli_net_layer *l, uint32_t rows)
{
    if (type == FLI_CUDA_F64 || l->kind != FLI_NET_FC || rows > FUSED_ROWS) return 0;
    return weights_aligned(fc_layer_of(l)) && fli_net_out(l) % 4 == 0;
}
extern "C" void fli_cuda_fc_fused_step_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                           const fli_cuda_batch *b, const fli_cuda_batch *next, const void *error,
                                           const void *in, const void *x, void *out, fli_fc_fused_cut how)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)in, NULL, (float *)out};
    if (type == FLI_CUDA_F32) return fused_step<1>(c, next, (const float *)error, (const float *)x, how);
    fused_step<0>(c, next, (const float *)error, (const float *)x, how);
}
/* Uses blocks of 16 units if each processor gets at most this many, or if there are few rows, when reading weights
 * dominates: these blocks read longer pieces. */
static fli_fc_fused_cut best_fused(const fli_net_layer *l, const fli_cuda_batch *b, uint32_t most)
{
    uint32_t blocks = pieces(fli_net_out(l), 16) * fli_cuda_lanes_at_start(b);
    return rows_of(b) <= 16 || blocks <= most * fli_processors() ? FLI_FC_FUSED_1X4 : FLI_FC_FUSED_2X2;
}
extern "C" void fli_cuda_fc_fused_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                       const fli_cuda_batch *b, const fli_cuda_batch *next, const void *error,
                                       const void *in, const void *x, void *out)
{
    fli_cuda_fc_fused_step_cut(s, type, l, b, next, error, in, x, out, best_fused(l, b, 4));
}

template <int SPLIT, class S>
static void launch_bytes(const fc_call &c, const fli_cuda_batch *next, const fli_cuda_data *data, const float *error)
{
    auto kernel = fc_fused_bytes<SPLIT, S>;
    dim3 grid(pieces(c.layer.units, S::TU), c.batch.lanes);
    FLI_LAUNCH_EARLY(c.stream, kernel, grid, dim3(S::THREADS), 4 * (size_t)S::FLOATS, c.batch, *next, c.layer, *data,
                     error, c.out);
}
template <int SPLIT, int WU, int WC>
static void bytes_rows(const fc_call &c, const fli_cuda_batch *next, const fli_cuda_data *data, const float *error)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        launch_bytes<SPLIT, fc_byte_chain<2, WU, WC>>(c, next, data, error);
    else if (rows <= 32)
        launch_bytes<SPLIT, fc_byte_chain<4, WU, WC>>(c, next, data, error);
    else
        launch_bytes<SPLIT, fc_byte_chain<7, WU, WC>>(c, next, data, error);
}
template <int SPLIT>
static void fused_bytes(const fc_call &c, const fli_cuda_batch *next, const fli_cuda_data *data, const float *error,
                        fli_fc_fused_cut how)
{
    if (how == FLI_FC_FUSED_1X4) return bytes_rows<SPLIT, 1, 4>(c, next, data, error);
    bytes_rows<SPLIT, 2, 2>(c, next, data, error);
}

extern "C" int fli_cuda_fc_fused_step_bytes_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_data *data,
                                                 uint32_t rows)
{
    if (!fli_cuda_fc_fused_step_fits(type, l, rows) || !fli_data_simple(data, 1) || data->kind != 0) return 0;
    return (!data->scale || data->segments == 1) && fli_net_in(l) == data->length && data->length % 16 == 0;
}
extern "C" void fli_cuda_fc_fused_step_bytes_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                                 const fli_cuda_batch *b, const fli_cuda_batch *next,
                                                 const fli_cuda_data *data, const void *error, void *out,
                                                 fli_fc_fused_cut how)
{
    const fc_call c = {s, *b, fc_layer_of(l), NULL, NULL, (float *)out};
    if (type == FLI_CUDA_F32) return fused_bytes<1>(c, next, data, (const float *)error, how);
    fused_bytes<0>(c, next, data, (const float *)error, how);
}
extern "C" void fli_cuda_fc_fused_step_bytes(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                             const fli_cuda_batch *b, const fli_cuda_batch *next,
                                             const fli_cuda_data *data, const void *error, void *out)
{
    fli_cuda_fc_fused_step_bytes_cut(s, type, l, b, next, data, error, out, best_fused(l, b, 2));
}
