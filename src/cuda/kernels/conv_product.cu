/* Images from images: the forward pass, and the error at the layer's input, which is the convolution of the error at
 * its output with filters rotated by 180 degrees and with input and output channels exchanged.
 *
 * A product of filters x (channel, tap) by (channel, tap) x positions. Positions come in windows of 2 x 2: the upper
 * halves of four windows are a tile of eight columns, their lower halves the next one, so that a thread holds the four
 * positions of a window in its accumulators and pooling needs no exchange. A warp has QUADS times four windows and all
 * 16 MT filters of its block.
 *
 * The image's channels come in chunks of 16 (WIDE), each with its margin in shared memory while all taps run over it; a
 * k-slice of 16 is a tap's channels. Images of few channels are one chunk, with the taps of a kernel row consecutive: a
 * k-slice is any 16 of them. The filters are packed in the order in which threads hold them, and fetched one kernel row
 * at a time, the next while this one is used. For tf32 values are rounded before they are in shared memory, because
 * each is read there once per tap. */
#include "cuda/kernels/conv.cuh"

/* ==== bias, ReLU, pool and mask =========================================================================== */

/* The operations on a convolution's sums: bias, ReLU and pool in the forward pass, the mask of the layer below in the
 * backward pass. */

/* The layer, in one of the two directions. */
typedef struct {
    int from, to;           /* channels of the source and of the target */
    int height, width;      /* of the source */
    int rows, columns;      /* of windows in the target */
    int bottom, right;      /* end of the target's positions */
    int kernel, margin;     /* margin: of zeros at the source's top and left; may be negative */
    int wide, chunks;       /* see conv_product.cu */
    int slices, slice_step; /* of a kernel row; floats between them in shared memory */
    int stride, pitch;      /* floats from position to position and from row to row in shared memory */
    int line;               /* positions of a row there */
    int ahead;              /* kernel rows whose filters are fetched at once */
} shape;

/* The operations on the sums, and their target. */
typedef struct {
    size_t bias; /* forward: place in the parameter vector */
    int biased, relu, pooled, chw;
    unsigned char *which;
    const float *h; /* backward: 0 where this is not positive; or NULL */
    float *target;
    int target_size; /* floats per row */
} finish;

/* All memory is read before any is written, because the compiler must keep their order and would wait. A thread has up
 * to 2 MT channels of a window: c, c + 8, ... */

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

/* The same without a pool: window y, x of positions. */
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

/* ==== the product ========================================================================================= */

enum { WARPS = 4, THREADS = 32 * WARPS, SLICE = 16, TILE = 8 * SLICE, AHEAD_MOST = 8 };

/* Blocks of a multiprocessor. More QUADS save reads of filters. Images of few channels need little computing, so many
 * blocks at once have to wait for memory. */
template <int SPLIT, int WIDE, int QUADS> struct cut {
    enum { BLOCKS = QUADS == 4 ? 2 : SPLIT || WIDE ? 3 : 4 };
};
enum { PROCESSORS = 132 };
uint32_t fli_cuda_conv_quads = 0; /* has the linkage of kernels.h */

static shape shape_of(int from, int to, int height, int width, int bottom, int right, int kernel, int margin)
{
    shape p = {};
    p.from = from, p.to = to, p.height = height, p.width = width, p.kernel = kernel, p.margin = margin;
    p.bottom = bottom, p.rows = fli_conv_over(bottom, 2), p.right = right, p.columns = fli_conv_over(right, 2);
    p.wide = from >= SLICE;
    p.line = 2 * p.columns + kernel - 1;
    p.chunks = p.wide ? fli_conv_over(from, SLICE) : 1;
    p.slices = p.wide ? kernel : fli_conv_over(kernel * from, SLICE);
    p.stride = p.wide ? SLICE : from;
    p.slice_step = p.wide ? p.stride : SLICE;
    p.pitch = p.line * p.stride + (p.wide ? 0 : SLICE - 1);
    p.ahead = p.wide || kernel * p.slices > AHEAD_MOST ? 1 : kernel;
    return p;
}

static shape forward_shape(const fli_net_layer *l, const fli_net_layer *pool)
{
    int bottom = pool ? 2 * (int)pool->out[1] : (int)l->out[1], right = pool ? 2 * (int)pool->out[2] : (int)l->out[2];
    return shape_of((int)l->in[0], (int)l->out[0], (int)l->in[1], (int)l->in[2], bottom, right, (int)l->kernel,
                    (int)l->pad);
}

static shape backward_shape(const fli_net_layer *l)
{
    return shape_of((int)l->out[0], (int)l->in[0], (int)l->out[1], (int)l->out[2], (int)l->in[1], (int)l->in[2],
                    (int)l->kernel, (int)l->kernel - 1 - (int)l->pad);
}

/* ---- filters ---- */

/* Tiles of 16 filters that a block has. */
static int tiles_of(const shape *p) { return p->to <= 16 ? 1 : 4; }
static int blocks_of(const shape *p) { return fli_conv_over(p->to, 16 * tiles_of(p)); }
static int slice_floats(const shape *p) { return 2 * TILE * tiles_of(p); }
static size_t packed_of(const shape *p)
{
    return (size_t)blocks_of(p) * p->chunks * p->kernel * p->slices * slice_floats(p);
}

/* packed: block, chunk, kernel row, slice, half of it, tile, thread of the warp, 4. A block of threads has a tile of
 * filters and a chunk of channels, whose weights it reads in their order. x: tiles, y: chunks, z: lanes. */
template <int ROUND, int TURNED>
static __global__ void pack(shape p, int tiles, const fli_cuda_lane *lane, size_t weight, size_t size, float *packed)
{
    FLI_DYNAMIC(shared);
    float *w = (float *)shared; /* filter, channel, tap; turned: channel, filter, tap */
    const int taps = p.kernel * p.kernel, first = blockIdx.x * 16, channel = blockIdx.y * SLICE;
    const int filters = min(16, p.to - first), channels = min((int)SLICE, p.from - channel);
    const int lines = TURNED ? channels : filters, line = (TURNED ? filters : channels) * taps;
    const float *from = (const float *)lane[blockIdx.z].z + weight;
    from += TURNED ? ((size_t)channel * p.to + first) * taps : ((size_t)first * p.from + channel) * taps;
    for (int i = threadIdx.x; i < lines * line; i += blockDim.x)
        fli_async4(w + i, from + (size_t)(i / line) * (TURNED ? p.to : p.from) * taps + i % line, 1);
    fli_async_commit(); /* overlaps a thread's reads */
    fli_async_wait<0>();
    __syncthreads();

    int rows = p.kernel * p.slices * 2, block = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    float *to = packed + blockIdx.z * size + (size_t)((block * p.chunks + blockIdx.y) * rows * tiles + tile) * TILE;
    for (int i = threadIdx.x; i < rows * TILE; i += blockDim.x) {
        int row = i / TILE, at = i % TILE, dy = row / (2 * p.slices), slice = row / 2 % p.slices;
        int filter = at / 16 + 8 * (at % 2), k = 4 * (at / 4 % 4) + 2 * (row % 2) + at / 2 % 2;
        int dx = p.wide ? slice : (SLICE * slice + k) / p.from, c = p.wide ? k : (SLICE * slice + k) % p.from;
        int tap = TURNED ? taps - 1 - (dy * p.kernel + dx) : dy * p.kernel + dx,
            there = filter < filters && c < channels;
        float v =
            there && dx < p.kernel ? w[TURNED ? c * line + filter * taps + tap : filter * line + c * taps + tap] : 0;
        to[(size_t)row * tiles * TILE + at] = ROUND ? fli_conv_tf32(v) : v;
    }
}

/* ---- the source ---- */

/* The rows that windows first .. last of a lane need, consecutively; each image has its margin. */
typedef struct {
    int first, count; /* row `first` of all images of the lane, margins among them */
} stripe;

static __device__ __forceinline__ int stripe_row(const shape &p, int window)
{
    int r = window / p.columns;
    return r / p.rows * (2 * p.rows + p.kernel - 1) + 2 * (r % p.rows);
}

/* The image and y of a row of the stripe. */
static __device__ __forceinline__ int row_there(const shape &p, const stripe &s, int row, int *y)
{
    int each = 2 * p.rows + p.kernel - 1, v = s.first + row;
    *y = v % each - p.margin;
    return v / each;
}

/* Values being copied into shared memory; ROUND: they have arrived and are rounded. */
template <int ROUND> static __device__ __forceinline__ void fetch4(float *to, const float *from, int there)
{
    if (ROUND)
        fli_shared4(to, fli_conv_tf32(*(const float4 *)to));
    else
        fli_async16(to, from, there);
}
template <int ROUND> static __device__ __forceinline__ void fetch1(float *to, const float *from, int there)
{
    if (ROUND)
        *to = fli_conv_tf32(*to);
    else
        fli_async4(to, from, there);
}

/* A chunk of the forward pass: plain copies. source: of the lane. ROUND: the thread rounds what it has copied. */
template <int WIDE, int ROUND>
static __device__ __forceinline__ void load_images(const shape &p, const stripe &s, int chunk, const float *source,
                                                   float *to)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int row = warp; row < s.count; row += WARPS) {
        int y, image = row_there(p, s, row, &y), there = y >= 0 && y < p.height;
        const float *line = source + ((size_t)image * p.height + (there ? y : 0)) * p.width * p.from;
        float *out = to + row * p.pitch;
        if (!WIDE) {
            int begin = p.margin * p.from, end = begin + p.width * p.from;
            for (int i = lane; i < p.pitch; i += 32) {
                int in = there && i >= begin && i < end;
                fetch1<ROUND>(out + i, line + (in ? i - begin : 0), in);
            }
        } else if (p.from % 4 == 0) {
            for (int i = lane; i < 4 * p.line; i += 32) {
                int x = i / 4 - p.margin, c = SLICE * chunk + i % 4 * 4;
                int in = there && x >= 0 && x < p.width && c < p.from;
                fetch4<ROUND>(out + 4 * i, line + (in ? x * p.from + c : 0), in);
            }
        } else {
            for (int i = lane; i < SLICE * p.line; i += 32) {
                int x = i / SLICE - p.margin, c = SLICE * chunk + i % SLICE;
                int in = there && x >= 0 && x < p.width && c < p.from;
                fetch1<ROUND>(out + i, line + (in ? x * p.from + c : 0), in);
            }
        }
    }
}

/* The row of errors, counted over all images of the lane, for row `v` counted with margins; behind: the row after
 * it. */
static __device__ __forceinline__ int error_row(const shape &p, const fli_conv_error &e, int v, int behind)
{
    int each = 2 * p.rows + p.kernel - 1, y = v % each - p.margin, row = e.which ? y / 2 : y;
    return v / each * e.height + (y < 0 ? 0 : min(row + behind, e.height));
}

/* Four channels of an error, before selecting the places of maxima. */
typedef struct {
    float4 v;
    uchar4 which;
    int begin, y, x, c; /* where its image begins in the stripe; its place there, or its window's upper left corner */
} item;

/* Item `number` of a chunk; rows of errors from `first` on. */
static __device__ __forceinline__ item item_read(const shape &p, const stripe &s, int chunk, const fli_conv_error &e,
                                                 int first, int quads, int number)
{
    int at = number / quads, row = first + at / e.width, x = at % e.width, image = row / e.height;
    int c = number % quads * 4, from = SLICE * chunk + c, window = row % e.height * e.width + x, half = e.which != 0;
    size_t before = (size_t)image * e.height * e.width * e.channels;
    item it = {fli_conv_error_at(e, e.error + before, window, from), {0, 0, 0, 0}, 0, 0, 0, c};
    if (half) it.which = fli_conv_which_at(e, e.which + before, window, from);
    it.begin = image * (2 * p.rows + p.kernel - 1) - s.first;
    it.y = (row % e.height << half) + p.margin;
    it.x = (x << half) + p.margin;
    return it;
}

template <int WIDE, int ROUND>
static __device__ __forceinline__ void item_write(const shape &p, const stripe &s, const item &it, int y, int x,
                                                  float4 v, float *to)
{
    int row = it.begin + y;
    if (row < 0 || row >= s.count || y < 0 || y >= 2 * p.rows + p.kernel - 1 || x < 0 || x >= p.line) return;
    to += row * p.pitch + x * p.stride + it.c;
    if (ROUND) v = fli_conv_tf32(v);
    if (WIDE) {
        fli_shared4(to, v);
        return;
    }
    const float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (it.c + j < p.from) to[j] = four[j];
}

/* A chunk of the backward pass: pooled errors go to the places of the maxima; the margins are already zeros. e: of the
 * lane. Four reads overlap. */
template <int WIDE, int ROUND>
static __device__ __forceinline__ void load_errors(const shape &p, const stripe &s, int chunk, const fli_conv_error &e,
                                                   int first_row, int rows, float *to)
{
    const int quads = WIDE ? SLICE / 4 : fli_conv_over(p.from, 4), all = rows * e.width * quads;
    for (int first = threadIdx.x; first < all; first += 4 * THREADS) {
        item it[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            it[i] = item_read(p, s, chunk, e, first_row, quads, min(first + i * THREADS, all - 1));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (first + i * THREADS >= all) break;
            if (!e.which) {
                item_write<WIDE, ROUND>(p, s, it[i], it[i].y, it[i].x, it[i].v, to);
                continue;
            }
#pragma unroll
            for (int k = 0; k < 4; k++)
                item_write<WIDE, ROUND>(p, s, it[i], it[i].y + k / 2, it[i].x + k % 2,
                                        fli_conv_placed(it[i].v, it[i].which, k), to);
        }
    }
}

/* ---- the product ---- */

template <int SPLIT, int QUADS, int MT> struct sums {
    float now[MT][2 * QUADS][4];
    /* Tensor cores truncate their sums. So single precision adds up short sums itself. */
    float all[SPLIT ? MT : 1][SPLIT ? 2 * QUADS : 1][4];
};

template <int SPLIT, int QUADS, int MT> static __device__ __forceinline__ void sums_flush(sums<SPLIT, QUADS, MT> &s)
{
#pragma unroll
    for (int m = 0; m < (SPLIT ? MT : 0); m++)
#pragma unroll
        for (int n = 0; n < 2 * QUADS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s.all[SPLIT ? m : 0][SPLIT ? n : 0][i] += s.now[m][n][i];
                s.now[m][n][i] = 0;
            }
}

/* Half a k-slice: 8 channels. v: of each tile of positions the thread's two channels; w: its filters. */
template <int SPLIT, int QUADS, int MT>
static __device__ __forceinline__ void half_slice(const float v[2 * QUADS][2], const float *w,
                                                  sums<SPLIT, QUADS, MT> &s)
{
    fli_frag_b<SPLIT> b[2 * QUADS];
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        if (SPLIT)
            b[i / 2].set(i % 2, v[i / 2][i % 2]);
        else /* already rounded */
            b[i / 2].hi[i % 2] = __float_as_uint(v[i / 2][i % 2]);
    }
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float4 q = *(const float4 *)(w + TILE * m);
        const float four[4] = {q.x, q.y, q.z, q.w};
        fli_frag_a<SPLIT> a;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (SPLIT)
                a.set(i, four[i]);
            else
                a.hi[i] = __float_as_uint(four[i]);
        }
        if (SPLIT) {
#pragma unroll
            for (int n = 0; n < 2 * QUADS; n++) fli_mma(s.now[m][n], a.lo, b[n].hi);
#pragma unroll
            for (int n = 0; n < 2 * QUADS; n++) fli_mma(s.now[m][n], a.hi, b[n].lo);
        }
#pragma unroll
        for (int n = 0; n < 2 * QUADS; n++) fli_mma(s.now[m][n], a.hi, b[n].hi);
    }
}

/* A k-slice. x: of each quad of windows the thread's position in their upper halves; w: the slice's filters, of this
 * thread. Of a slice it has the channels 4 t .. 4 t + 3, two for each half. */
template <int SPLIT, int QUADS, int MT, int WIDE>
static __device__ __forceinline__ void one_slice(const shape &p, const float *const x[QUADS], int shift, const float *w,
                                                 sums<SPLIT, QUADS, MT> &s)
{
    float v[2][2 * QUADS][2];
#pragma unroll
    for (int i = 0; i < 2 * QUADS; i++) {
        const float *from = x[i / 2] + shift + i % 2 * p.pitch;
        if (WIDE) {
            float4 q = *(const float4 *)from;
            v[0][i][0] = q.x, v[0][i][1] = q.y, v[1][i][0] = q.z, v[1][i][1] = q.w;
        } else {
            v[0][i][0] = from[0], v[0][i][1] = from[1], v[1][i][0] = from[2], v[1][i][1] = from[3];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) half_slice<SPLIT, QUADS, MT>(v[half], w + half * TILE * MT, s);
}

/* ---- the kernel: x: windows, y: blocks of filters, z: lanes ---- */

static __device__ __forceinline__ void load_filters(const float *from, int floats, float *to)
{
    for (int i = 4 * threadIdx.x; i < floats; i += 4 * THREADS) fli_async16(to + i, from + i, 1);
    fli_async_commit();
}

template <int SPLIT, int MT, int WIDE, int BACK, int QUADS>
static __global__ void __launch_bounds__(THREADS, (cut<SPLIT, WIDE, QUADS>::BLOCKS))
    product(shape p, fli_cuda_batch b, const float *source, fli_conv_error e, const float *packed, size_t packed_size,
            int block_windows, int stripe_room, finish f)
{
    enum { SLICE_FLOATS = 2 * TILE * MT };
    FLI_DYNAMIC(shared);
    float *image = (float *)shared, *filters = image + stripe_room;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, stage_floats = p.ahead * p.slices * SLICE_FLOATS;
    const int windows = (int)fli_cuda_rows(b.lane + blockIdx.z, &b) * p.rows * p.columns;
    const int first = blockIdx.x * block_windows, last = min(first + block_windows, windows) - 1;
    if (first >= windows) return;

    packed += blockIdx.z * packed_size + (size_t)blockIdx.y * p.chunks * p.kernel * p.slices * SLICE_FLOATS;
    load_filters(packed, stage_floats, filters);
    stripe s = {stripe_row(p, first), 0};
    s.count = stripe_row(p, last) + p.kernel + 1 - s.first;
    size_t before = (size_t)blockIdx.z * b.room;
    int error_first = 0, error_rows = 0;
    if (BACK) {
        e.error += before * e.height * e.width * e.channels;
        if (e.which) e.which += before * e.height * e.width * e.channels;
        error_first = error_row(p, e, s.first, 0);
        error_rows = error_row(p, e, s.first + s.count - 1, 1) - error_first;
        for (int i = 4 * threadIdx.x; i < stripe_room; i += 4 * THREADS)
            *(float4 *)(image + i) = make_float4(0, 0, 0, 0);
        __syncthreads();
    } else {
        source += before * p.height * p.width * p.from;
    }

    const float *x[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        int window = min(first + (warp * QUADS + i) * 4 + lane / 8, last);
        int column = 2 * (window % p.columns) + lane / 4 % 2;
        x[i] = image + (stripe_row(p, window) - s.first) * p.pitch + column * p.stride + lane % 4 * 4;
    }
    sums<SPLIT, QUADS, MT> sum = {};
    for (int stage = 0, row = 0, chunk = 0; chunk < p.chunks; stage++) {
        if (row == 0) {
            if (chunk) __syncthreads(); /* waits until all threads are done with the previous chunk */
            if (BACK)
                load_errors<WIDE, !SPLIT>(p, s, chunk, e, error_first, error_rows, image);
            else
                load_images<WIDE, 0>(p, s, chunk, source, image);
            fli_async_commit();
        }
        fli_async_wait<0>();
        if (row == 0 && !BACK && !SPLIT) load_images<WIDE, 1>(p, s, chunk, source, image);
        __syncthreads();
        const float *w = filters + stage % 2 * stage_floats + 4 * lane;
        int y = row;
        row += p.ahead;
        if (row == p.kernel) row = 0, chunk++;
        packed += stage_floats;
        if (chunk < p.chunks) load_filters(packed, stage_floats, filters + (stage + 1) % 2 * stage_floats);
        for (int end = y + p.ahead; y < end; y++)
            for (int i = 0; i < p.slices; i++, w += SLICE_FLOATS)
                one_slice<SPLIT, QUADS, MT, WIDE>(p, x, y * p.pitch + i * p.slice_step, w, sum);
        sums_flush(sum);
    }
    int own = first + warp * QUADS * 4;
    if (SPLIT)
        windows_out<QUADS, MT, BACK>(p, f, b, (const float(*)[2 * QUADS][4]) sum.all, own, last);
    else
        windows_out<QUADS, MT, BACK>(p, f, b, sum.now, own, last);
}

/* ---- launches ---- */

/* Floats of shared memory for the rows that any `windows` windows one after the other need. */
static int stripe_floats(const shape *p, int windows)
{
    int rows = fli_conv_over(windows - 1, p->columns) + 1, images = fli_conv_over(rows - 1, p->rows) + 1;
    int count = 2 * (rows - 1) + (images - 1) * (p->kernel - 1) + p->kernel + 1;
    return fli_conv_over(count * p->pitch, 4) * 4;
}

static size_t shared_bytes(const shape *p, int windows)
{
    int stages = p->chunks * p->kernel / p->ahead > 1 ? 2 : 1;
    return sizeof(float) * (stripe_floats(p, windows) + stages * (size_t)p->ahead * p->slices * slice_floats(p));
}

/* Windows of a block: at most `most`, and fewer if images are small, because each needs its margin. */
static int block_windows(const shape *p, int most)
{
    while (most > 8 && shared_bytes(p, most) > FLI_CONV_SHARED) most /= 2;
    return most;
}

static dim3 grid_of(const shape *p, const fli_cuda_batch *b, int windows)
{
    return dim3(fli_conv_over(fli_conv_most(b) * p->rows * p->columns, windows), blocks_of(p), b->lanes);
}

template <int SPLIT, int MT, int WIDE, int BACK, int QUADS>
static void launch_quads(fli_cuda_stream s, const shape *p, const fli_cuda_batch *b, const float *source,
                         const fli_conv_error *e, const float *packed, const finish *f)
{
    int windows = block_windows(p, 4 * WARPS * QUADS);
    FLI_LAUNCH(s, (product<SPLIT, MT, WIDE, BACK, QUADS>), grid_of(p, b, windows), THREADS, shared_bytes(p, windows),
               *p, *b, source, *e, packed, packed_of(p), windows, stripe_floats(p, windows), *f);
}

/* Quads of a warp, for tf32: the number with which the last blocks fill the processors of a large GPU best. */
static int quads_for(const shape *p, const fli_cuda_batch *b)
{
    if (fli_cuda_conv_quads) return (int)fli_cuda_conv_quads;
    int best = 4, least = 0;
    for (int quads = 4; quads >= 2; quads--) {
        dim3 grid = grid_of(p, b, 4 * WARPS * quads);
        int blocks = quads == 4 ? 2 : 3, time = quads * blocks;
        time *= fli_conv_over((int)(grid.x * grid.y * grid.z), PROCESSORS * blocks);
        if (quads == 4 || time < least) best = quads, least = time;
    }
    return best;
}

template <int SPLIT, int MT, int WIDE, int BACK>
static void launch(fli_cuda_stream s, const shape *p, const fli_cuda_batch *b, const float *source,
                   const fli_conv_error *e, const float *packed, const finish *f)
{
    enum { MANY = !SPLIT && WIDE };
    int quads = MANY ? quads_for(p, b) : 2;
    (quads == 4 ? launch_quads < SPLIT, MT, WIDE, BACK, MANY ? 4 : 2 > : quads == 3 ? launch_quads < SPLIT, MT, WIDE,
     BACK, MANY ? 3 : 2 > : launch_quads<SPLIT, MT, WIDE, BACK, 2>)(s, p, b, source, e, packed, f);
}

template <int SPLIT, int BACK>
static void convolve(fli_cuda_stream s, const shape *p, const fli_cuda_batch *b, size_t weight, const float *source,
                     const fli_conv_error *e, float *packed, const finish *f)
{
    dim3 grid(blocks_of(p) * tiles_of(p), p->chunks, b->lanes);
    size_t shared = sizeof(float) * 16 * SLICE * p->kernel * p->kernel;
    FLI_LAUNCH(s, (pack<!SPLIT, BACK>), grid, 256, shared, *p, tiles_of(p), b->lane, weight, packed_of(p), packed);
    if (tiles_of(p) == 1)
        (p->wide ? launch<SPLIT, 1, 1, BACK> : launch<SPLIT, 1, 0, BACK>)(s, p, b, source, e, packed, f);
    else
        (p->wide ? launch<SPLIT, 4, 1, BACK> : launch<SPLIT, 4, 0, BACK>)(s, p, b, source, e, packed, f);
}

int fli_conv_product_fits(const fli_net_layer *l, const fli_net_layer *pool)
{
    if (l->stride != 1 || l->kernel > FLI_CONV_KERNEL || (pool && pool->kernel != 2)) return 0;
    shape forward = forward_shape(l, pool), backward = backward_shape(l);
    return shared_bytes(&forward, 8) <= FLI_CONV_SHARED && shared_bytes(&backward, 8) <= FLI_CONV_SHARED;
}

size_t fli_conv_product_work(const fli_net_layer *l, uint32_t lanes)
{
    shape forward = forward_shape(l, 0), backward = backward_shape(l);
    size_t a = packed_of(&forward), b = packed_of(&backward);
    return lanes * sizeof(float) * (a > b ? a : b);
}

void fli_conv_product_forward(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                              const fli_cuda_batch *b, const float *in, int chw, unsigned char *which, float *out,
                              float *work)
{
    shape p = forward_shape(l, pool);
    finish f = {l->bias, l->biased, l->relu, pool != 0, chw, which, 0, out, (int)fli_net_out(pool ? pool : l)};
    fli_conv_error none = {};
    (split ? convolve<1, 0> : convolve<0, 0>)(s, &p, b, l->weight, in, &none, work, &f);
}

void fli_conv_product_backward(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                               const fli_cuda_batch *b, const float *error, int chw, const unsigned char *which,
                               const float *h, float *below, float *work)
{
    shape p = backward_shape(l);
    finish f = {0, 0, 0, 0, 0, 0, h, below, (int)fli_net_in(l)};
    fli_conv_error e = fli_conv_error_of(l, pool, error, chw, which);
    (split ? convolve<1, 1> : convolve<0, 1>)(s, &p, b, l->weight, 0, &e, work, &f);
}
