/* Products of rows of samples with a lane's own weights on tensor cores: forward and backward of a layer of units.
 *
 *     D[m][n] = sum over k of A[m][k] B[n][k]
 *
 * forward: m are units, k inputs; backward: m are inputs, k units; n are rows of the mini-batch. Rows are on the side
 * with tiles of 8, so that little is wasted for 50 rows (56), 20 (24) or 10 (16).
 *
 * A block has 16 MT WM of the m and 8 NT of the n. Its warps share the k as well (WK), because a warp with a large part
 * of D needs few operands per product; their sums are added at the end, in order. Memory is read asynchronously, STAGES
 * pieces of BK k ahead.
 *
 * Of 16 k a thread takes 4 t ... 4 t + 3 (t = its number % 4) by one access: the order of k is free as long as A and B
 * agree. Chunks of four k are placed so that the eight threads of such an access use different banks. */
#ifndef FLI_CUDA_DENSE_PRODUCT_CUH
#define FLI_CUDA_DENSE_PRODUCT_CUH

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/mma.cuh"

/* A layer of units, as an argument of kernels. */
struct fc_layer {
    uint32_t units, inputs;
    size_t weight, bias;
    int biased, relu;
};
static inline fc_layer fc_layer_of(const fli_net_layer *l)
{
    return fc_layer{(uint32_t)fli_net_out(l), (uint32_t)fli_net_in(l), l->weight, l->bias, l->biased, l->relu};
}

/* How a product is divided: see above. */
template <int MT_, int NT_, int WM_, int WK_, int STAGES_> struct fc_cut {
    enum {
        MT = MT_,
        NT = NT_,
        WM = WM_,
        WK = WK_,
        THREADS = 32 * WM * WK,
        TM = 16 * MT * WM,
        TN = 8 * NT,
        BK = 16 * WK,
        SUB = BK / (16 * WK),
        STAGES = STAGES_,
        STAGE = (TM + TN) * BK, /* floats */
        SUM = TM + 4,           /* the stride of sums, without bank conflicts */
        SUMS = WK * TN * SUM,   /* in the place of the operands */
        FLOATS = STAGES * STAGE > SUMS ? STAGES *STAGE : SUMS,
        BYTES = 4 * FLOATS,
        BLOCKS = 227 * 1024 / (BYTES + 1024), /* limit by a processor's shared memory, */
        FEWER = 16 / (WM * WK),               /* registers */
        RESIDENT = BLOCKS < FEWER ? BLOCKS : FEWER
    };
};

/* A matrix to read: `rows` x `width`, and its neighbouring rows are `width` apart. */
struct fc_matrix {
    const float *at;
    uint32_t rows, width;
};

/* Place of (row, column) of a tile in shared memory: k along rows, */
template <int BK> struct along_k {
    static __device__ __forceinline__ uint32_t at(uint32_t row, uint32_t k)
    {
        return row * BK + ((k / 4 ^ (row & 1) << 2) << 2) + k % 4;
    }
};
/* m along rows, which are k, */
template <int TM> struct along_m {
    static __device__ __forceinline__ uint32_t at(uint32_t k, uint32_t m) { return k * TM + (m ^ (k / 4 & 3) << 3); }
};
/* rows that are STRIDE apart. */
template <int STRIDE> struct apart {
    static __device__ __forceinline__ uint32_t at(uint32_t row, uint32_t col) { return row * STRIDE + col; }
};

/* Fetches ROWS x WIDTH of a matrix, from (row, col) on, into a tile; zeros outside. VEC: rows of the matrix are aligned
 * to 16 bytes. */
template <class TILE, int VEC, int ROWS, int WIDTH, int THREADS>
static __device__ __forceinline__ void fc_fetch(float *to, const fc_matrix &a, uint32_t row, uint32_t col)
{
    constexpr uint32_t V = VEC ? 4 : 1, PER_ROW = WIDTH / V, DOWN = THREADS / PER_ROW;
    static_assert(THREADS % PER_ROW == 0, "a thread stays in its column");
    const uint32_t r0 = threadIdx.x / PER_ROW, c = threadIdx.x % PER_ROW * V;
    const int inside = col + c < a.width;
    const float *from = a.at + (size_t)(row + r0) * a.width + col + c;
#pragma unroll(VEC ? 8 : 2)
    for (uint32_t r = r0; r < ROWS; r += DOWN, from += (size_t)DOWN * a.width) {
        if (VEC)
            fli_async16(to + TILE::at(r, c), from, inside && row + r < a.rows);
        else
            fli_async4(to + TILE::at(r, c), from, inside && row + r < a.rows);
    }
}

/* A thread's four k of MT times two rows of A, or of one row of B. */
template <int MT> struct fc_quads {
    float q[MT][2][4];
};

template <class CUT, int BACK>
static __device__ __forceinline__ void fc_read_a(const float *tile, uint32_t m, uint32_t k, fc_quads<CUT::MT> &a)
{
    const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < CUT::MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t row = m + 16 * i + 8 * half + g;
            if (BACK) {
#pragma unroll
                for (int j = 0; j < 4; j++) a.q[i][half][j] = tile[along_m<CUT::TM>::at(k + 4 * t + j, row)];
            } else {
                const float4 v = *(const float4 *)(tile + along_k<CUT::BK>::at(row, k + 4 * t));
                a.q[i][half][0] = v.x, a.q[i][half][1] = v.y, a.q[i][half][2] = v.z, a.q[i][half][3] = v.w;
            }
        }
}

/* sum += A B of 16 k, for COUNT tiles of n. In single precision the sum of 16 k starts from 0 and is added afterwards,
 * because tensor cores do not round sums to the nearest. */
template <int SPLIT, int MT, int COUNT>
static __device__ __forceinline__ void fc_multiply(const fc_quads<MT> &a, const float4 *b, float (*sum)[MT][4])
{
    float fresh[COUNT][MT][4];
#pragma unroll
    for (int n = 0; n < COUNT; n++)
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) fresh[n][i][e] = SPLIT ? 0.0f : sum[n][i][e];
#pragma unroll
    for (int pair = 0; pair < 2; pair++) {
        fli_frag_a<SPLIT> fa[MT];
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) fa[i].set(e, a.q[i][e % 2][2 * pair + e / 2]);
        if constexpr (MT == 1) { /* all at once: few products are independent of each other */
            fli_frag_b<SPLIT> fb[COUNT];
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
                fb[n].set(0, pair ? b[n].z : b[n].x);
                fb[n].set(1, pair ? b[n].w : b[n].y);
            }
            fli_mma_add_all<SPLIT, COUNT>(fresh[0], fa[0], fb);
        } else {
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
                fli_frag_b<SPLIT> fb;
                fb.set(0, pair ? b[n].z : b[n].x);
                fb.set(1, pair ? b[n].w : b[n].y);
#pragma unroll
                for (int i = 0; i < MT; i++) fli_mma_add<SPLIT>(fresh[n][i], fa[i], fb);
            }
        }
    }
#pragma unroll
    for (int n = 0; n < COUNT; n++)
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[n][i][e] = SPLIT ? sum[n][i][e] + fresh[n][i][e] : fresh[n][i][e];
}

/* A warp's products of a piece of BK k that has arrived. */
template <int SPLIT, int BACK, class CUT>
static __device__ __forceinline__ void fc_piece(const float *stage, float (*sum)[CUT::MT][4])
{
    constexpr int NT = CUT::NT, FIRST = NT > 4 ? (NT + 1) / 2 : NT;
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t m = warp % CUT::WM * (16 * CUT::MT);
    const float *rows = stage + CUT::TM * CUT::BK;
#pragma unroll
    for (int s = 0; s < CUT::SUB; s++) {
        uint32_t k = (s * CUT::WK + warp / CUT::WM) * 16;
        fc_quads<CUT::MT> a;
        float4 b[NT];
        fc_read_a<CUT, BACK>(stage, m, k, a);
#pragma unroll
        for (int n = 0; n < NT; n++) b[n] = *(const float4 *)(rows + along_k<CUT::BK>::at(8 * n + g, k + 4 * t));
        fc_multiply<SPLIT, CUT::MT, FIRST>(a, b, sum);
        if (FIRST < NT) fc_multiply<SPLIT, CUT::MT, (FIRST < NT ? NT - FIRST : 1)>(a, b + FIRST, sum + FIRST);
    }
}

/* Writes the sums of all warps to shared memory: sums[share of k][n][m]. */
template <class CUT> static __device__ __forceinline__ void fc_lay_down(float (*sum)[CUT::MT][4], float *sums)
{
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float *to = sums + warp / CUT::WM * (CUT::TN * CUT::SUM) + warp % CUT::WM * (16 * CUT::MT);
#pragma unroll
    for (int n = 0; n < CUT::NT; n++)
#pragma unroll
        for (int i = 0; i < CUT::MT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) to[(8 * n + 2 * t + e % 2) * CUT::SUM + 16 * i + g + e / 2 * 8] = sum[n][i][e];
    __syncthreads();
}

/* One sum of D, of all shares of the k. */
template <class CUT> static __device__ __forceinline__ float fc_total(const float *sums, uint32_t n, uint32_t m)
{
    float v = 0;
#pragma unroll
    for (int w = 0; w < CUT::WK; w++) v += sums[(w * CUT::TN + n) * CUT::SUM + m];
    return v;
}

/* The product over all k; leaves the block's part of D in `memory`, for fc_total. */
template <int SPLIT, int BACK, int VEC, class CUT>
static __device__ __forceinline__ void fc_sums(const fc_matrix &w, const fc_matrix &rows, uint32_t m, uint32_t n,
                                               float *memory)
{
    float sum[CUT::NT][CUT::MT][4];
#pragma unroll
    for (int i = 0; i < CUT::NT * CUT::MT * 4; i++) (&sum[0][0][0])[i] = 0;
    const uint32_t pieces = (rows.width + CUT::BK - 1) / CUT::BK;
    auto fetch = [&](uint32_t piece) {
        float *stage = memory + piece % CUT::STAGES * CUT::STAGE;
        if (piece < pieces) {
            if (BACK)
                fc_fetch<along_m<CUT::TM>, VEC, CUT::BK, CUT::TM, CUT::THREADS>(stage, w, piece * CUT::BK, m);
            else
                fc_fetch<along_k<CUT::BK>, VEC, CUT::TM, CUT::BK, CUT::THREADS>(stage, w, m, piece * CUT::BK);
            fc_fetch<along_k<CUT::BK>, VEC, CUT::TN, CUT::BK, CUT::THREADS>(stage + CUT::TM * CUT::BK, rows, n,
                                                                            piece * CUT::BK);
        }
        fli_async_commit();
    };
    for (int p = 0; p < CUT::STAGES - 1; p++) fetch(p);
    for (uint32_t p = 0; p < pieces; p++) {
        fli_async_wait<CUT::STAGES - 2>();
        __syncthreads();
        fetch(p + CUT::STAGES - 1);
        fc_piece<SPLIT, BACK, CUT>(memory + p % CUT::STAGES * CUT::STAGE, sum);
    }
    fli_async_wait<0>();
    __syncthreads();
    fc_lay_down<CUT>(sum, memory);
}

/* blockIdx: x cuts m, y the rows, z is the lane. `in`: rows of inputs, or of errors at the units. */
template <int SPLIT, int BACK, int VEC, class CUT>
__global__ void __launch_bounds__(CUT::THREADS, CUT::RESIDENT)
    fc_product(fli_cuda_batch b, fc_layer l, const float *in, const float *h, float *out)
{
    FLI_DYNAMIC(bytes);
    float *memory = (float *)bytes;
    const uint32_t lane = blockIdx.z, m0 = blockIdx.x * CUT::TM, n0 = blockIdx.y * CUT::TN;
    const uint32_t count = fli_cuda_rows(&b.lane[lane], &b), wide = BACK ? l.inputs : l.units;
    const float *z = (const float *)b.lane[lane].z;
    fli_overlap();
    if (n0 >= count) return;
    const size_t first = (size_t)lane * b.room;
    const fc_matrix w = {z + l.weight, l.units, l.inputs};
    const uint32_t k = BACK ? l.units : l.inputs;
    const fc_matrix rows = {in + first * k, count, k};
    fc_sums<SPLIT, BACK, VEC, CUT>(w, rows, m0, n0, memory);
    for (uint32_t i = threadIdx.x; i < CUT::TN * CUT::TM; i += CUT::THREADS) {
        uint32_t n = i / CUT::TM, m = i % CUT::TM;
        if (n0 + n >= count || m0 + m >= wide) continue;
        float v = fc_total<CUT>(memory, n, m);
        size_t at = (first + n0 + n) * wide + m0 + m;
        if (BACK) {
            if (h && !(h[at] > 0)) v = 0;
        } else {
            if (l.biased) v += z[l.bias + m0 + m];
            if (l.relu && v < 0) v = 0;
        }
        out[at] = v;
    }
}

#endif
