/* What becomes of the sums of a convolution (conv_product.cu): bias, ReLU and pool in the forward pass, the mask of the
 * layer below in the backward pass. */
#ifndef FLI_CUDA_CONV_FINISH_CUH
#define FLI_CUDA_CONV_FINISH_CUH

#include "cuda/kernels/conv.cuh"

/* The layer, in the one direction or the other. */
typedef struct {
    int from, to;           /* channels of the source and of the target */
    int height, width;      /* of the source */
    int rows, columns;      /* of windows in the target */
    int bottom, right;      /* positions of the target end there */
    int kernel, margin;     /* margin: of zeros at the source's top and left; may be negative */
    int wide, chunks;       /* see conv_product.cu */
    int slices, slice_step; /* of a kernel row; floats between them in shared memory */
    int stride, pitch;      /* floats from position to position and from row to row in shared memory */
    int line;               /* positions of a row there */
    int ahead;              /* kernel rows whose filters come at once */
} shape;

/* What becomes of the sums. */
typedef struct {
    size_t bias; /* forward: place in the parameter vector */
    int biased, relu, pooled, chw;
    unsigned char *which;
    const float *h; /* backward: 0 where this is not positive; or NULL */
    float *target;
    int target_size; /* floats per row */
} finish;

/* Memory is read before anything is written, as the compiler must wait for one before the other. A thread has the
 * channels c, c + 8, ... of a window: 2 MT of them, as far as they are there. */

/* Position i of the 2 x 2 of channel c + 8 n of a quad's window. */
template <int QUADS, int MT>
static __device__ __forceinline__ float sum_at(const float s[MT][2 * QUADS][4], int quad, int n, int i)
{
    return s[n / 2][2 * quad + i / 2][n % 2 * 2 + i % 2];
}

/* A window of the target, pooled. row: where its image begins in the target. */
template <int QUADS, int MT>
static __device__ __forceinline__ void pooled_out(const shape &p, const finish &f, const float s[MT][2 * QUADS][4],
                                                  int quad, const float bias[2 * MT], size_t row, int window, int c)
{
    const int plane = f.chw ? p.rows * p.columns : 1;
    unsigned char *which = f.which + row + window * p.to + c;
    float *target = f.target + row + (f.chw ? c * plane + window : window * p.to + c);
#pragma unroll
    for (int n = 0; n < 2 * MT; n++) {
        int place = 0;
        float most = sum_at<QUADS, MT>(s, quad, n, 0);
#pragma unroll
        for (int i = 1; i < 4; i++) {
            float v = sum_at<QUADS, MT>(s, quad, n, i);
            if (v > most) most = v, place = i;
        }
        most += bias[n];
        if (f.relu && most < 0) most = 0;
        if (c + 8 * n >= p.to) continue;
        which[8 * n] = (unsigned char)place;
        target[8 * n * plane] = most;
    }
}

/* The same where nothing is pooled: window y, x of positions. */
template <int QUADS, int MT, int BACK>
static __device__ __forceinline__ void four_out(const shape &p, const finish &f, const float s[MT][2 * QUADS][4],
                                                int quad, const float bias[2 * MT], size_t row, int y, int x, int c)
{
    const int plane = !BACK && f.chw ? p.bottom * p.right : 1, masked = BACK && f.h;
    int at[4], there[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int py = 2 * y + i / 2, px = 2 * x + i % 2, position = py * p.right + px;
        there[i] = py < p.bottom && px < p.right;
        at[i] = !BACK && f.chw ? c * plane + position : position * p.to + c;
    }
    float h[2 * MT][4];
#pragma unroll
    for (int n = 0; n < 2 * MT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) h[n][i] = masked && there[i] && c + 8 * n < p.to ? f.h[row + at[i] + 8 * n] : 1;
#pragma unroll
    for (int n = 0; n < 2 * MT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float sum = sum_at<QUADS, MT>(s, quad, n, i) + bias[n];
            if (BACK ? !(h[n][i] > 0) : f.relu && sum < 0) sum = 0;
            if (there[i] && c + 8 * n < p.to) f.target[row + at[i] + 8 * n * plane] = sum;
        }
}

/* first, last: windows of this warp and of the block. */
template <int QUADS, int MT, int BACK>
static __device__ __forceinline__ void windows_out(const shape &p, const finish &f, const fli_cuda_batch &b,
                                                   const float s[MT][2 * QUADS][4], int first, int last)
{
    const int lane = threadIdx.x % 32, each = p.rows * p.columns, c = blockIdx.y * MT * 16 + lane / 4;
    const float *from = (const float *)b.lane[blockIdx.z].z + f.bias;
    float bias[2 * MT];
#pragma unroll
    for (int n = 0; n < 2 * MT; n++) bias[n] = !BACK && f.biased && c + 8 * n < p.to ? from[c + 8 * n] : 0;
#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        int window = first + 4 * quad + lane % 4;
        if (window > last) continue;
        size_t row = ((size_t)blockIdx.z * b.room + window / each) * f.target_size;
        window %= each;
        if (!BACK && f.pooled)
            pooled_out<QUADS, MT>(p, f, s, quad, bias, row, window, c);
        else
            four_out<QUADS, MT, BACK>(p, f, s, quad, bias, row, window / p.columns, window % p.columns, c);
    }
}

#endif
