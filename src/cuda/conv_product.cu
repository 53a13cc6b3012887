/* Images from images: the forward pass, and the error at the layer's input, which is the convolution of the error at
 * its output with filters turned by 180 degrees whose channels have changed sides.
 *
 * A product of positions x (channel, tap) by (channel, tap) x filters. Positions come in windows of 2 x 2: of two tiles
 * of 16 rows a thread holds in its accumulators the four positions of the same window, so that pooling needs no
 * exchange. Eight windows are a group, a warp has GROUPS of them and 8 NT filters.
 *
 * The image's channels come in chunks of 16 (WIDE), each with its margin in shared memory while all taps run over it; a
 * k-slice of 16 is a tap's channels. Images of few channels are one chunk, where the taps of a kernel row lie one
 * behind the other: a k-slice is any 16 of those. The filters are packed in the order in which threads hold them, and
 * come one kernel row at a time, the next while this one is used. */
#include "cuda/conv.cuh"
#include "cuda/mma.cuh"

#ifndef FLI_CONV_TRIAL
#define FLI_CONV_TRIAL 0
#endif
/* groups, blocks per multiprocessor, and whether short sums are added up outside */
enum {
    F32_GROUPS = FLI_CONV_TRIAL == 2 ? 2 : 1,
    F32_BLOCKS = FLI_CONV_TRIAL == 0 ? 3 : 2,
    F32_SHORT = FLI_CONV_TRIAL != 2
};
enum { TF32_GROUPS = FLI_CONV_TRIAL == 1 ? 1 : 2, TF32_BLOCKS = FLI_CONV_TRIAL == 1 ? 4 : 2 };
enum { WARPS = 4, THREADS = 32 * WARPS, SLICE = 16, WIDE_STRIDE = 24, AHEAD_MOST = 8 };

typedef struct {
    int from, to;           /* channels of the source and of the target */
    int height, width;      /* of the source */
    int rows, columns;      /* of windows in the target */
    int bottom, right;      /* positions of the target end there */
    int kernel, margin;     /* margin: of zeros at the source's top and left; may be negative */
    int wide, chunks;       /* see above */
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

static shape shape_of(int from, int to, int height, int width, int bottom, int right, int kernel, int margin)
{
    shape p = {};
    p.from = from, p.to = to, p.height = height, p.width = width, p.kernel = kernel, p.margin = margin;
    p.bottom = bottom, p.rows = fli_conv_over(bottom, 2), p.right = right, p.columns = fli_conv_over(right, 2);
    p.wide = from >= SLICE;
    p.line = 2 * p.columns + kernel - 1;
    p.chunks = p.wide ? fli_conv_over(from, SLICE) : 1;
    p.slices = p.wide ? kernel : fli_conv_over(kernel * from, SLICE);
    p.stride = p.wide ? WIDE_STRIDE : from;
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

/* Tiles of eight filters that a block has. */
static int tiles_of(const shape *p) { return p->to <= 16 ? 2 : 8; }
static int blocks_of(const shape *p) { return fli_conv_over(p->to, 8 * tiles_of(p)); }
static size_t packed_of(const shape *p)
{
    return (size_t)blocks_of(p) * p->chunks * p->kernel * p->slices * SLICE * tiles_of(p) * 8;
}

/* packed: block, chunk, kernel row, slice, half of it, tile, thread of the warp, 2. A block of threads has a tile of
 * filters and a chunk of channels, whose weights it reads in their order. x: tiles, y: chunks, z: lanes. */
template <int ROUND, int TURNED>
static __global__ void pack(shape p, int tiles, const fli_cuda_lane *lane, size_t weight, size_t size, float *packed)
{
    FLI_DYNAMIC(shared);
    float *w = (float *)shared; /* filter, channel, tap; turned: channel, filter, tap */
    const int taps = p.kernel * p.kernel, first = blockIdx.x * 8, channel = blockIdx.y * SLICE;
    const int filters = min(8, p.to - first), channels = min((int)SLICE, p.from - channel);
    const int lines = TURNED ? channels : filters, line = (TURNED ? filters : channels) * taps;
    const float *from = (const float *)lane[blockIdx.z].z + weight;
    from += TURNED ? ((size_t)channel * p.to + first) * taps : ((size_t)first * p.from + channel) * taps;
    for (int i = threadIdx.x; i < lines * line; i += blockDim.x)
        w[i] = from[(size_t)(i / line) * (TURNED ? p.to : p.from) * taps + i % line];
    __syncthreads();

    int rows = p.kernel * p.slices * 2, block = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    float *to = packed + blockIdx.z * size + (size_t)(block * p.chunks + blockIdx.y) * rows * tiles * 64 + tile * 64;
    for (int i = threadIdx.x; i < rows * 64; i += blockDim.x) {
        int row = i / 64, at = i % 64, dy = row / (2 * p.slices), slice = row / 2 % p.slices;
        int filter = at / 8, k = 4 * (at / 2 % 4) + 2 * (row % 2) + at % 2;
        int dx = p.wide ? slice : (SLICE * slice + k) / p.from, c = p.wide ? k : (SLICE * slice + k) % p.from;
        int tap = TURNED ? taps - 1 - (dy * p.kernel + dx) : dy * p.kernel + dx,
            there = filter < filters && c < channels;
        float v =
            there && dx < p.kernel ? w[TURNED ? c * line + filter * taps + tap : filter * line + c * taps + tap] : 0;
        to[(size_t)row * tiles * 64 + at] = ROUND ? __uint_as_float(fli_tf32(v)) : v;
    }
}

/* ---- the source ---- */

/* The rows that windows first .. last of a lane need, one below the other; each image has its margin. */
typedef struct {
    int first, count; /* row `first` of all images of the lane, margins among them */
} stripe;

static __device__ __forceinline__ int stripe_row(const shape &p, int window)
{
    int r = window / p.columns;
    return r / p.rows * (2 * p.rows + p.kernel - 1) + 2 * (r % p.rows);
}

/* Where a row of the stripe lies: its image and y. */
static __device__ __forceinline__ int row_there(const shape &p, const stripe &s, int row, int *y)
{
    int each = 2 * p.rows + p.kernel - 1, v = s.first + row;
    *y = v % each - p.margin;
    return v / each;
}

/* A chunk of the forward pass: plain copies. source: of the lane. */
static __device__ __forceinline__ void load_images(const shape &p, const stripe &s, int chunk, const float *source,
                                                   float *to)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int row = warp; row < s.count; row += WARPS) {
        int y, image = row_there(p, s, row, &y), there = y >= 0 && y < p.height;
        const float *line = source + ((size_t)image * p.height + (there ? y : 0)) * p.width * p.from;
        float *out = to + row * p.pitch;
        if (!p.wide) {
            int begin = p.margin * p.from, end = begin + p.width * p.from;
            for (int i = lane; i < p.pitch; i += 32) {
                int in = there && i >= begin && i < end;
                fli_async4(out + i, line + (in ? i - begin : 0), in);
            }
        } else if (p.from % 4 == 0) {
            for (int i = lane; i < 4 * p.line; i += 32) {
                int x = i / 4 - p.margin, c = SLICE * chunk + i % 4 * 4;
                int in = there && x >= 0 && x < p.width && c < p.from;
                fli_async16(out + i / 4 * WIDE_STRIDE + i % 4 * 4, line + (in ? x * p.from + c : 0), in);
            }
        } else {
            for (int i = lane; i < SLICE * p.line; i += 32) {
                int x = i / SLICE - p.margin, c = SLICE * chunk + i % SLICE;
                int in = there && x >= 0 && x < p.width && c < p.from;
                fli_async4(out + i / SLICE * WIDE_STRIDE + i % SLICE, line + (in ? x * p.from + c : 0), in);
            }
        }
    }
}

/* Four channels of the error at a place of the stripe, before those that were no maxima are left out. */
typedef struct {
    float4 v;
    uchar4 which;
    int to, c, place; /* where it goes, from which of the chunk's channels on; place -1: nothing is left out */
} item;

static __device__ __forceinline__ item item_read(const shape &p, const stripe &s, int chunk, const fli_conv_error &e,
                                                 int quads, int number)
{
    int y, at = number / quads, row = at / p.line, x = at % p.line, image = row_there(p, s, row, &y);
    int c = number % quads * 4, from = SLICE * chunk + c, half = e.which != 0;
    item it = {make_float4(0, 0, 0, 0), {0, 0, 0, 0}, row * p.pitch + x * p.stride + c, c, -1};
    x -= p.margin;
    if (row >= s.count || y < 0 || x < 0 || y >> half >= e.height || x >> half >= e.width) return it;
    int window = (y >> half) * e.width + (x >> half);
    size_t before = (size_t)image * e.height * e.width * e.channels;
    it.v = fli_conv_error_at(e, e.error + before, window, from);
    if (half) it.which = fli_conv_which_at(e, e.which + before, window, from), it.place = y % 2 * 2 + x % 2;
    return it;
}

static __device__ __forceinline__ void item_write(const shape &p, const item &it, float *to)
{
    float4 v = it.place < 0 ? it.v : fli_conv_placed(it.v, it.which, it.place);
    if (p.wide) {
        *(float4 *)(to + it.to) = v;
        return;
    }
    const float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (it.c + j < p.from) to[it.to + j] = four[j];
}

/* A chunk of the backward pass: pooled errors go where the maxima were. e: of the lane. Reads come in fours, so that
 * they wait together. */
static __device__ __forceinline__ void load_errors(const shape &p, const stripe &s, int chunk, const fli_conv_error &e,
                                                   float *to)
{
    const int quads = p.wide ? SLICE / 4 : fli_conv_over(p.from, 4), all = quads * p.line * s.count;
    for (int first = 0; first < all; first += 4 * THREADS) {
        item it[4];
#pragma unroll
        for (int i = 0; i < 4; i++) it[i] = item_read(p, s, chunk, e, quads, first + i * THREADS + (int)threadIdx.x);
        __syncwarp(); /* the compiler would read each when it is written */
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + i * THREADS + (int)threadIdx.x < all) item_write(p, it[i], to);
    }
    if (p.wide) return;
    for (int row = threadIdx.x / 32; row < s.count; row += WARPS) /* what is read behind a row is taken times 0 */
        for (int i = p.line * p.stride + threadIdx.x % 32; i < p.pitch; i += 32) to[row * p.pitch + i] = 0;
}

/* ---- the product ---- */

template <int SPLIT, int GROUPS, int NT> struct sums {
    float now[2 * GROUPS][NT][4];
    /* Tensor cores cut off what their sums have no room for. Single precision therefore adds up short sums itself. */
    float all[SPLIT && F32_SHORT ? 2 * GROUPS : 1][SPLIT && F32_SHORT ? NT : 1][4];
};

template <int SPLIT, int GROUPS, int NT> static __device__ __forceinline__ void sums_flush(sums<SPLIT, GROUPS, NT> &s)
{
#pragma unroll
    for (int m = 0; m < (SPLIT && F32_SHORT ? 2 * GROUPS : 0); m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s.all[SPLIT && F32_SHORT ? m : 0][SPLIT && F32_SHORT ? n : 0][i] += s.now[m][n][i];
                s.now[m][n][i] = 0;
            }
}

template <int SPLIT, int NT> static __device__ __forceinline__ fli_frag_b<SPLIT> filter_at(const float *w, int n)
{
    float2 v = *(const float2 *)(w + 64 * n);
    fli_frag_b<SPLIT> b;
    if (SPLIT) {
        b.set(0, v.x);
        b.set(1, v.y);
    } else { /* rounded when packed */
        b.hi[0] = __float_as_uint(v.x);
        b.hi[1] = __float_as_uint(v.y);
    }
    return b;
}

/* Half a k-slice: 8 channels. Two tiles of filters at once, so that products on the same sums are far apart. */
template <int SPLIT, int GROUPS, int NT>
static __device__ __forceinline__ void half_slice(const fli_frag_a<SPLIT> a[2 * GROUPS], const float *w,
                                                  sums<SPLIT, GROUPS, NT> &s)
{
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
        fli_frag_b<SPLIT> b[2] = {filter_at<SPLIT, NT>(w, n), filter_at<SPLIT, NT>(w, n + 1)};
        if (SPLIT) {
#pragma unroll
            for (int i = 0; i < 4 * GROUPS; i++) fli_mma(s.now[i / 2][n + i % 2], a[i / 2].lo, b[i % 2].hi);
#pragma unroll
            for (int i = 0; i < 4 * GROUPS; i++) fli_mma(s.now[i / 2][n + i % 2], a[i / 2].hi, b[i % 2].lo);
        }
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) fli_mma(s.now[i / 2][n + i % 2], a[i / 2].hi, b[i % 2].hi);
    }
}

template <int WIDE> static __device__ __forceinline__ void four_channels(const float *x, float v[4])
{
    if (WIDE) {
        float4 q = *(const float4 *)x;
        v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
    } else {
        v[0] = x[0], v[1] = x[1], v[2] = x[2], v[3] = x[3];
    }
}

/* A k-slice. x: of a group of windows, the place of this thread's window; w: the slice's filters, of this thread. */
template <int SPLIT, int GROUPS, int NT, int WIDE>
static __device__ __forceinline__ void one_slice(const shape &p, const float *const x[GROUPS], int shift,
                                                 const float *w, sums<SPLIT, GROUPS, NT> &s)
{
    const int stride = WIDE ? (int)WIDE_STRIDE : p.stride;
    float v[2 * GROUPS][2][4];
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++) {
        four_channels<WIDE>(x[i / 2] + shift + i % 2 * p.pitch, v[i][0]);
        four_channels<WIDE>(x[i / 2] + shift + i % 2 * p.pitch + stride, v[i][1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        fli_frag_a<SPLIT> a[2 * GROUPS];
#pragma unroll
        for (int i = 0; i < 2 * GROUPS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) a[i].set(j, v[i][j % 2][2 * half + j / 2]);
        half_slice<SPLIT, GROUPS, NT>(a, w + half * 64 * NT, s);
    }
}

/* ---- what becomes of the sums ---- */

/* Channels c and c + 1 of a target; the second need not be there. */
static __device__ __forceinline__ void pair_out(const shape &p, float *to, int plane, int c, const float v[2])
{
    if (plane == 1 && p.to % 2 == 0) {
        *(float2 *)to = make_float2(v[0], v[1]);
        return;
    }
    to[0] = v[0];
    if (c + 1 < p.to) to[plane] = v[1];
}

static __device__ __forceinline__ void which_out(const shape &p, unsigned char *to, int c, const int place[2])
{
    if (p.to % 2 == 0) {
        *(unsigned short *)to = (unsigned short)(place[0] | place[1] << 8);
        return;
    }
    to[0] = (unsigned char)place[0];
    if (c + 1 < p.to) to[1] = (unsigned char)place[1];
}

/* A window of the target, pooled: channels c and c + 1, v: of each its four positions. row: its floats. */
static __device__ __forceinline__ void pooled_out(const shape &p, const finish &f, const float v[2][4],
                                                  const float bias[2], size_t row, int window, int c)
{
    int place[2], plane = f.chw ? p.rows * p.columns : 1;
    float most[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        place[j] = 0, most[j] = v[j][0];
#pragma unroll
        for (int i = 1; i < 4; i++)
            if (v[j][i] > most[j]) most[j] = v[j][i], place[j] = i;
        most[j] += bias[j];
        if (f.relu && !(most[j] > 0)) most[j] = 0;
    }
    which_out(p, f.which + row + (size_t)window * p.to + c, c, place);
    pair_out(p, f.target + row + (f.chw ? c * plane + window : window * p.to + c), plane, c, most);
}

/* The same where nothing is pooled: window y, x of positions. */
template <int BACK>
static __device__ __forceinline__ void four_out(const shape &p, const finish &f, const float v[2][4],
                                                const float bias[2], size_t row, int y, int x, int c)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int py = 2 * y + i / 2, px = 2 * x + i % 2, position = py * p.right + px;
        if (py >= p.bottom || px >= p.right) continue;
        int plane = !BACK && f.chw ? p.bottom * p.right : 1;
        size_t at = row + (!BACK && f.chw ? c * plane + position : position * p.to + c);
        float sum[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int there = c + j < p.to;
            sum[j] = v[j][i] + bias[j];
            if (BACK ? f.h && !(there && f.h[at + j] > 0) : f.relu && !(sum[j] > 0)) sum[j] = 0;
        }
        pair_out(p, f.target + at, plane, c, sum);
    }
}

template <int GROUPS, int NT, int BACK>
static __device__ __forceinline__ void windows_out(const shape &p, const finish &f, const fli_cuda_batch &b,
                                                   const float s[2 * GROUPS][NT][4], int first, int last)
{
    int lane = threadIdx.x % 32, each = p.rows * p.columns;
    const float *bias = !BACK && f.biased ? (const float *)b.lane[blockIdx.z].z + f.bias : 0;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        int window = first + 8 * group + lane / 4;
        if (window > last) continue;
        size_t row = ((size_t)blockIdx.z * b.room + window / each) * f.target_size;
        window %= each;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int c = (blockIdx.y * NT + n) * 8 + 2 * (lane % 4);
            if (c >= p.to) continue;
            const float own[2] = {bias ? bias[c] : 0, bias && c + 1 < p.to ? bias[c + 1] : 0};
            const float(*low)[4] = s[2 * group], (*high)[4] = s[2 * group + 1];
            const float v[2][4] = {{low[n][0], low[n][2], high[n][0], high[n][2]},
                                   {low[n][1], low[n][3], high[n][1], high[n][3]}};
            if (!BACK && f.pooled)
                pooled_out(p, f, v, own, row, window, c);
            else
                four_out<BACK>(p, f, v, own, row, window / p.columns, window % p.columns, c);
        }
    }
}

/* ---- the kernel: x: windows, y: blocks of filters, z: lanes ---- */

static __device__ __forceinline__ void load_filters(const float *from, int floats, float *to)
{
    for (int i = 4 * threadIdx.x; i < floats; i += 4 * THREADS) fli_async16(to + i, from + i, 1);
    fli_async_commit();
}

template <int SPLIT, int GROUPS, int NT, int WIDE, int BACK>
static __global__ void __launch_bounds__(THREADS, SPLIT ? F32_BLOCKS : TF32_BLOCKS)
    product(shape p, fli_cuda_batch b, const float *source, fli_conv_error e, const float *packed, size_t packed_size,
            int block_windows, int stripe_room, finish f)
{
    FLI_DYNAMIC(shared);
    float *image = (float *)shared, *filters = image + stripe_room;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, stage_floats = p.ahead * p.slices * SLICE * NT * 8;
    const int windows = (int)fli_cuda_rows(b.lane + blockIdx.z, &b) * p.rows * p.columns;
    const int first = blockIdx.x * block_windows, last = min(first + block_windows, windows) - 1;
    if (first >= windows) return;

    size_t before = (size_t)blockIdx.z * b.room;
    if (BACK) {
        e.error += before * e.height * e.width * e.channels;
        if (e.which) e.which += before * e.height * e.width * e.channels;
    } else {
        source += before * p.height * p.width * p.from;
    }
    packed += blockIdx.z * packed_size + (size_t)blockIdx.y * p.chunks * p.kernel * p.slices * SLICE * NT * 8;
    stripe s = {stripe_row(p, first), 0};
    s.count = stripe_row(p, last) + p.kernel + 1 - s.first;

    const float *x[GROUPS];
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        int window = min(first + (warp * GROUPS + i) * 8 + lane / 4, last);
        x[i] = image + (stripe_row(p, window) - s.first) * p.pitch + window % p.columns * 2 * p.stride + lane % 4 * 4;
    }
    sums<SPLIT, GROUPS, NT> sum = {};
    load_filters(packed, stage_floats, filters);
    for (int stage = 0, row = 0, chunk = 0; chunk < p.chunks; stage++) {
        if (row == 0) {
            if (chunk) __syncthreads(); /* all are done with the chunk before */
            if (BACK)
                load_errors(p, s, chunk, e, image);
            else
                load_images(p, s, chunk, source, image);
            fli_async_commit();
        }
        fli_async_wait<0>();
        __syncthreads();
        const float *w = filters + stage % 2 * stage_floats + 2 * lane;
        int y = row;
        row += p.ahead;
        if (row == p.kernel) row = 0, chunk++;
        packed += stage_floats;
        if (chunk < p.chunks) load_filters(packed, stage_floats, filters + (stage + 1) % 2 * stage_floats);
        for (int end = y + p.ahead; y < end; y++)
            for (int i = 0; i < p.slices; i++, w += SLICE * NT * 8)
                one_slice<SPLIT, GROUPS, NT, WIDE>(p, x, y * p.pitch + i * p.slice_step, w, sum);
        sums_flush(sum);
    }
    int own = first + warp * GROUPS * 8;
    if (SPLIT && F32_SHORT)
        windows_out<GROUPS, NT, BACK>(p, f, b, (const float(*)[NT][4])sum.all, own, last);
    else
        windows_out<GROUPS, NT, BACK>(p, f, b, sum.now, own, last);
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
    return sizeof(float) *
           (stripe_floats(p, windows) + stages * (size_t)p->ahead * p->slices * SLICE * tiles_of(p) * 8);
}

/* Windows of a block: at most so many, fewer where images are small, since each needs its margin. */
static int block_windows(const shape *p, int most)
{
    while (most > 8 && shared_bytes(p, most) > FLI_CONV_SHARED) most /= 2;
    return most;
}

template <int SPLIT, int NT, int WIDE, int BACK>
static void launch(fli_stream s, const shape *p, const fli_cuda_batch *b, const float *source, const fli_conv_error *e,
                   const float *packed, const finish *f)
{
    enum { GROUPS = SPLIT ? (int)F32_GROUPS : (int)TF32_GROUPS };
    int windows = block_windows(p, 8 * WARPS * GROUPS);
    dim3 grid(fli_conv_over(fli_conv_most(b) * p->rows * p->columns, windows), blocks_of(p), b->lanes);
    FLI_LAUNCH(s, (product<SPLIT, GROUPS, NT, WIDE, BACK>), grid, THREADS, shared_bytes(p, windows), *p, *b, source, *e,
               packed, packed_of(p), windows, stripe_floats(p, windows), *f);
}

template <int SPLIT, int BACK>
static void convolve(fli_stream s, const shape *p, const fli_cuda_batch *b, size_t weight, const float *source,
                     const fli_conv_error *e, float *packed, const finish *f)
{
    dim3 grid(blocks_of(p) * tiles_of(p), p->chunks, b->lanes);
    size_t shared = sizeof(float) * 8 * SLICE * p->kernel * p->kernel;
    FLI_LAUNCH(s, (pack<!SPLIT, BACK>), grid, 256, shared, *p, tiles_of(p), b->lane, weight, packed_of(p), packed);
    if (tiles_of(p) == 2)
        (p->wide ? launch<SPLIT, 2, 1, BACK> : launch<SPLIT, 2, 0, BACK>)(s, p, b, source, e, packed, f);
    else
        (p->wide ? launch<SPLIT, 8, 1, BACK> : launch<SPLIT, 8, 0, BACK>)(s, p, b, source, e, packed, f);
}

static int fits(const shape *p) { return shared_bytes(p, 8) <= FLI_CONV_SHARED; }

int fli_conv_product_fits(const fli_net_layer *l, const fli_net_layer *pool)
{
    if (l->stride != 1 || l->kernel > FLI_CONV_KERNEL || (pool && pool->kernel != 2)) return 0;
    shape forward = forward_shape(l, pool), backward = backward_shape(l);
    return fits(&forward) && fits(&backward);
}

size_t fli_conv_product_work(const fli_net_layer *l, uint32_t lanes)
{
    shape forward = forward_shape(l, 0), backward = backward_shape(l);
    size_t a = packed_of(&forward), b = packed_of(&backward);
    return lanes * sizeof(float) * (a > b ? a : b);
}

void fli_conv_product_forward(fli_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                              const fli_cuda_batch *b, const float *in, int chw, unsigned char *which, float *out,
                              float *work)
{
    shape p = forward_shape(l, pool);
    finish f = {l->bias, l->biased, l->relu, pool != 0, chw, which, 0, out, (int)fli_net_out(pool ? pool : l)};
    fli_conv_error none = {};
    (split ? convolve<1, 0> : convolve<0, 0>)(s, &p, b, l->weight, in, &none, work, &f);
}

void fli_conv_product_backward(fli_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                               const fli_cuda_batch *b, const float *error, int chw, const unsigned char *which,
                               const float *h, float *below, float *work)
{
    shape p = backward_shape(l);
    finish f = {0, 0, 0, 0, 0, 0, h, below, (int)fli_net_in(l)};
    fli_conv_error e = fli_conv_error_of(l, pool, error, chw, which);
    (split ? convolve<1, 1> : convolve<0, 1>)(s, &p, b, l->weight, 0, &e, work, &f);
}
