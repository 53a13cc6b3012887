/* Gradients of filters and of their bias, and the step with them.
 *
 * A product of filters x positions (the error at the output) by positions x (tap, channel). A block has the filters'
 * tiles of 16 (MT of them), some tiles of eight columns, NT to a warp, and some images of a lane, which come a few rows
 * at a time: a stage. When errors are stored in shared memory they are spread to the places of the maxima. The next
 * stage is fetched while this one is used. Few columns: several warps share them and divide the positions.
 *
 * Every block writes its sums; a second kernel adds those of a lane in the order of the images and takes the step. */
#include "cuda/kernels/conv.cuh"
#include "cuda/kernels/update.cuh"

enum { CHANNELS = 64, OUTER = 16, INNER = 8, SPOTS = 512 / 4, FIVE_STRIDE = CHANNELS + 8 };

/* How a block is cut up: 40 tiles of columns, 512 items of errors. BLOCKS: of a multiprocessor. FIVE: a block has the 5
 * x 64 columns of a kernel row, and a warp all five taps of its channels, so that the compiler knows their distance,
 * which saves registers for larger products of a warp. */
template <int SPLIT, int FIVE> struct cut {
    enum {
        WARPS = !SPLIT && FIVE ? 4 : 8,
        THREADS = 32 * WARPS,
        NT = 40 / WARPS,
        ITEMS = 512 / THREADS,
        BLOCKS = SPLIT ? 1 : 2
    };
};
enum { BLOCKS_MOST = 1024, PARTS_MOST = 25, PROCESSORS = 132 };

typedef struct {
    int from, to;      /* channels of the image and of the error */
    int height, width; /* of the image */
    int bottom, right; /* end of the error's positions, before the pool */
    int kernel, pad, pooled;
    int rows, steps; /* of a stage: rows of positions, eights of positions */
    int wide;        /* channels in blocks of `channels`; else all taps of a kernel row in a line */
    int channels, channel_blocks, row_tiles, tiles; /* tiles of columns: of a kernel row, of a block of channels */
    int filters, filter_blocks;                     /* filters of a block: 16 or 64 */
    int warp_tiles, warps, column_warps, groups;    /* groups of tiles, a block each */
    int five;                                       /* see above */
    int shares;                                     /* warps with the same columns: they divide the positions */
    int error_stride, stride, pitch, line; /* floats in shared memory; line: positions of an image's row there */
    int image_rows;                        /* rows of the image in a stage */
    int parts;                             /* of a lane's images */
} shape;

/* Floats from position to position, so that four positions lie in different banks. */
static int apart(int floats) { return fli_conv_over(floats - 8, 16) * 16 + 8; }

static void set_columns(shape *p)
{
    p->wide = p->from >= 8;
    p->channels = p->wide ? (p->from < CHANNELS ? fli_conv_over(p->from, 8) * 8 : (int)CHANNELS) : p->from;
    p->channel_blocks = fli_conv_over(p->from, p->channels);
    p->row_tiles = p->wide ? p->kernel * p->channels / 8 : fli_conv_over(p->kernel * p->from, 8);
    p->tiles = p->kernel * p->row_tiles;
    p->column_warps = 1;
    while (p->column_warps < p->warps && p->column_warps * p->warp_tiles < p->tiles) p->column_warps *= 2;
    p->groups = fli_conv_over(p->tiles, p->column_warps * p->warp_tiles);
    p->shares = p->warps / p->column_warps;
}

/* Number of kernel rows of a group of tiles after its first one. */
static int group_reach(const shape *p)
{
    int n = p->column_warps * p->warp_tiles, even = n % p->row_tiles == 0 || p->row_tiles % n == 0;
    int reach = even ? (n - 1) / p->row_tiles : fli_conv_over(n - 1, p->row_tiles);
    return reach < p->kernel - 1 ? reach : p->kernel - 1;
}

static int lane_blocks(const shape *p) { return p->groups * p->channel_blocks * p->filter_blocks; }

/* Parts of a lane's images, so that blocks fill a large GPU evenly; with many lanes one. `images`: of a lane. */
static int parts_of(const shape *p, uint32_t lanes, int images, int slots)
{
    int blocks = (int)lanes * lane_blocks(p), best = 1;
    double least = 0;
    for (int parts = 1; parts <= PARTS_MOST && parts <= images; parts++) {
        if (parts > 1 && blocks * parts > BLOCKS_MOST) break;
        double time = fli_conv_over(blocks * parts, slots) * (fli_conv_over(images, parts) + 0.5);
        if (parts == 1 || time < 0.97 * least) best = parts, least = time;
    }
    return best;
}

static int image_floats(const shape *p) { return fli_conv_over(p->image_rows * p->pitch, 4) * 4; }
static int error_floats(const shape *p) { return p->steps * 8 * p->error_stride; }
static size_t shared_bytes(const shape *p)
{
    size_t used =
        sizeof(float) * (2 * ((size_t)image_floats(p) + error_floats(p))) + sizeof(int) * (8 * p->steps + SPOTS);
    size_t warps = sizeof(float) * p->column_warps * p->warp_tiles * 8 * p->filters;
    size_t bias = sizeof(float) * 4 * 32 * p->warps;
    size_t after = warps > bias ? warps : bias;
    return used > after ? used : after;
}

static void set_stage(shape *p, int rows)
{
    p->rows = rows;
    p->steps = fli_conv_over(rows * p->right, 8);
    p->image_rows = rows + group_reach(p);
}

/* Rows of a stage: the least work in all, then the largest stage; 0: none is small enough. */
static int stage_rows(const shape *of)
{
    shape p = *of;
    int best = 0, least = 0, unit = p.pooled ? 2 : 1, quads = p.filters / 4;
    for (int r = unit; r < p.bottom + unit; r += unit) {
        set_stage(&p, r);
        if (r * p.right * quads > 512 * unit * unit || shared_bytes(&p) > FLI_CONV_SHARED) break;
        int work = fli_conv_over(p.bottom, r) * p.steps;
        if (!best || work <= least) best = r, least = work;
    }
    return best;
}

static shape shape_of(const fli_net_layer *l, const fli_net_layer *pool, int split)
{
    shape p = {};
    p.from = (int)l->in[0], p.to = (int)l->out[0];
    p.five = p.from % CHANNELS == 0 && p.to > 16 && l->kernel == 5;
    p.warps = !split && p.five ? (int)cut<0, 1>::WARPS : (int)cut<0, 0>::WARPS, p.warp_tiles = 40 / p.warps;
    p.height = (int)l->in[1], p.width = (int)l->in[2];
    p.pooled = pool != 0;
    p.bottom = pool ? 2 * (int)pool->out[1] : (int)l->out[1];
    p.right = pool ? 2 * (int)pool->out[2] : (int)l->out[2];
    p.kernel = (int)l->kernel, p.pad = (int)l->pad;
    p.filters = p.to <= 16 ? 16 : 64;
    p.filter_blocks = fli_conv_over(p.to, p.filters);
    set_columns(&p);
    p.error_stride = apart(p.filters);
    p.stride = p.wide ? apart(p.channels) : p.from;
    p.line = p.right + p.kernel - 1;
    p.pitch = p.line * p.stride + (p.wide ? 0 : 8);
    set_stage(&p, stage_rows(&p));
    return p;
}

static size_t sums_of(const shape *p)
{
    return (size_t)p->filter_blocks * p->channel_blocks * p->tiles * 8 * p->filters;
}
/* Floats of a part: its sums, and those of the bias. */
static size_t part_of(const shape *p) { return sums_of(p) + (size_t)p->filter_blocks * p->filters; }

/* ---- stages ---- */

/* A place among the images of a part. */
typedef struct {
    int image, y;
} place;

static __device__ __forceinline__ place place_next(const shape &p, place at)
{
    at.y += p.rows;
    if (at.y >= p.bottom) at.y = 0, at.image++;
    return at;
}

/* The rows of the image, shifted by kernel row dy. source: of the lane. */
template <int NARROW>
static __device__ __forceinline__ void load_image(const shape &p, place at, int dy, int channel, const float *source,
                                                  float *to)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, vectors = p.from % 4 == 0;
    for (int row = warp; row < p.image_rows; row += blockDim.x / 32) {
        int y = at.y + row + dy - p.pad, there = y >= 0 && y < p.height;
        const float *line = source + ((size_t)at.image * p.height + (there ? y : 0)) * p.width * p.from;
        float *out = to + row * p.pitch;
        if (NARROW) {
            int begin = p.pad * p.from, end = begin + p.width * p.from;
            for (int i = lane; i < p.pitch; i += 32) {
                int in = there && i >= begin && i < end;
                fli_async4(out + i, line + (in ? i - begin : 0), in);
            }
            continue;
        }
        int each = vectors ? p.channels / 4 : p.channels, size = vectors ? 4 : 1;
        for (int i = lane, x = i / each, c = i % each; x < p.line; c += 32) {
            while (c >= each) c -= each, x++;
            if (x >= p.line) break;
            int from = channel + c * size, sx = x - p.pad, in = there && sx >= 0 && sx < p.width && from < p.from;
            const float *read = line + (in ? sx * p.from + from : 0);
            if (vectors)
                fli_async16(out + x * p.stride + 4 * c, read, in);
            else
                fli_async4(out + x * p.stride + c, read, in);
        }
    }
}

/* The same where channels come in full blocks: a warp has half a row at a time. */
static __device__ __forceinline__ void load_blocks(const shape &p, place at, int dy, int channel, const float *source,
                                                   float *to)
{
    enum { EACH = CHANNELS / 4 };
    const int half = fli_conv_over(p.line, 2);
    for (int unit = threadIdx.x / 32; unit < 2 * p.image_rows; unit += blockDim.x / 32) {
        int y = at.y + unit / 2 + dy - p.pad, there = y >= 0 && y < p.height, begin = unit % 2 * half;
        const float *line = source + ((size_t)at.image * p.height + (there ? y : 0)) * p.width * p.from + channel;
        float *out = to + unit / 2 * p.pitch;
        for (int i = begin * EACH + threadIdx.x % 32; i < min(begin + half, p.line) * EACH; i += 32) {
            int x = i / EACH - p.pad, in = there && x >= 0 && x < p.width;
            fli_async16(out + i / EACH * FIVE_STRIDE + i % EACH * 4, line + (in ? x * p.from + i % EACH * 4 : 0), in);
        }
    }
}

/* Errors being fetched: four filters of each of ITEMS windows, or positions without a pool. */
template <int ITEMS> struct items {
    float4 v[ITEMS];
    uchar4 which[ITEMS];
};

/* Windows (or positions) of a stage are numbered; the number of item i of this thread. */
template <int MT> static __device__ __forceinline__ int item_number(int i)
{
    return (int)(threadIdx.x + i * blockDim.x) / (4 * MT);
}
static __device__ __forceinline__ int stage_windows(const shape &p, const fli_conv_error &e)
{
    return (p.pooled ? p.rows / 2 : p.rows) * e.width;
}

/* Those outside of the image are zeros. */
template <int MT, int ITEMS>
static __device__ __forceinline__ void load_items(const shape &p, const fli_conv_error &e, place at, int filter,
                                                  items<ITEMS> *it)
{
    const size_t before = (size_t)at.image * e.height * e.width * e.channels;
    const int c = filter + threadIdx.x % (4 * MT) * 4, first = (p.pooled ? at.y / 2 : at.y) * e.width;
    const int end = min(first + stage_windows(p, e), e.height * e.width);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int window = first + item_number<MT>(i);
        it->v[i] = make_float4(0, 0, 0, 0);
        it->which[i].x = it->which[i].y = it->which[i].z = it->which[i].w = 0;
        if (window >= end) continue;
        it->v[i] = fli_conv_error_at(e, e.error + before, window, c);
        if (p.pooled) it->which[i] = fli_conv_which_at(e, e.which + before, window, c);
    }
    __syncwarp(); /* keeps the compiler from moving the loads to their use */
}

/* spot: the place of the first position of every window of a stage in shared memory. */
template <int MT, int ROUND, int ITEMS>
static __device__ __forceinline__ void store_items(const shape &p, const fli_conv_error &e, const items<ITEMS> &it,
                                                   const int *spot, float *to)
{
    to += threadIdx.x % (4 * MT) * 4;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int number = item_number<MT>(i);
        if (number >= stage_windows(p, e)) continue;
        float *at = to + spot[number], *below = at + p.right * p.error_stride;
        float4 v = ROUND ? fli_conv_tf32(it.v[i]) : it.v[i];
        if (!p.pooled) {
            fli_shared4(at, v);
            continue;
        }
        fli_shared4(at, fli_conv_placed(v, it.which[i], 0));
        fli_shared4(at + p.error_stride, fli_conv_placed(v, it.which[i], 1));
        fli_shared4(below, fli_conv_placed(v, it.which[i], 2));
        fli_shared4(below + p.error_stride, fli_conv_placed(v, it.which[i], 3));
    }
}

/* ---- the product ---- */

template <int MT, int NT, int SHORT> struct sums {
    float now[MT][NT][4];
    float all[SHORT ? MT : 1][SHORT ? NT : 1][4]; /* as in conv_product.cu */
};

template <int MT, int NT, int SHORT> static __device__ __forceinline__ void sums_flush(sums<MT, NT, SHORT> &s)
{
#pragma unroll
    for (int m = 0; m < (SHORT ? MT : 0); m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s.all[SHORT ? m : 0][SHORT ? n : 0][i] += s.now[m][n][i];
                s.now[m][n][i] = 0;
            }
}

/* Of tile m a thread's rows are filters 16 m + 2 g and the next, so that tensor cores read the memory's order. For tf32
 * errors are already rounded. */
template <int SPLIT, int MT>
static __device__ __forceinline__ void errors_at(const float *low, const float *high, fli_frag_a<SPLIT> a[MT])
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float2 l = *(const float2 *)(low + 16 * m), h = *(const float2 *)(high + 16 * m);
        const float four[4] = {l.x, l.y, h.x, h.y};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (SPLIT)
                a[m].set(i, four[i]);
            else
                a[m].hi[i] = __float_as_uint(four[i]);
        }
    }
}

/* Tile n of a warp, among those of its block. */
template <int NT, int FIVE> static __device__ __forceinline__ int tile_of(int warp, int n)
{
    return FIVE ? n % 5 * (CHANNELS / 8) + warp * (NT / 5) + n / 5 : warp * NT + n;
}
/* Eight positions. error: of this thread's position and filters; low, high: of its two positions in the image; tile:
 * bytes from there. */
template <int SPLIT, int MT, int NT, int FIVE>
static __device__ __forceinline__ void eight(const float *error, int error_stride, const char *low, const char *high,
                                             const int tile[NT], sums<MT, NT, SPLIT> &s)
{
    fli_frag_a<SPLIT> a[MT];
    errors_at<SPLIT, MT>(error, error + 4 * error_stride, a);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int at = FIVE ? (n % 5 * FIVE_STRIDE + n / 5 * 8) * (int)sizeof(float) : tile[n];
        fli_frag_b<SPLIT> b;
        b.set(0, *(const float *)(low + at));
        b.set(1, *(const float *)(high + at));
        if (SPLIT) {
#pragma unroll
            for (int m = 0; m < MT; m++) fli_mma(s.now[m][n], a[m].lo, b.hi);
#pragma unroll
            for (int m = 0; m < MT; m++) fli_mma(s.now[m][n], a[m].hi, b.lo);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) fli_mma(s.now[m][n], a[m].hi, b.hi);
    }
}

/* ---- sums of a block ---- */

/* Column c of tile n: the filters that this thread has, from 2 g on, +16 for the next tile. */
template <int MT, int NT>
static __device__ __forceinline__ void sums_put(const float s[MT][NT][4], int n, int c, float *to, int add)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float2 *at = (float2 *)(to + 16 * m), before = add ? *at : make_float2(0, 0);
        *at = make_float2(before.x + s[m][n][c], before.y + s[m][n][2 + c]);
    }
}

/* Warps that share columns add their sums in shared memory, in the order of the warps; then the block writes them. */
template <int MT, int NT, int FIVE>
static __device__ __forceinline__ void sums_out(const shape &p, const float s[MT][NT][4], int first_tile, float *shared,
                                                float *out)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp / p.column_warps;
    const int own = warp % p.column_warps, filter = lane / 4 * 2;
    for (int turn = 0; turn < p.shares; turn++) {
        __syncthreads();
        if (turn != share) continue;
#pragma unroll
        for (int i = 0; i < 2 * NT; i++) {
            int column = tile_of<NT, FIVE>(own, i / 2) * 8 + 2 * (lane % 4) + i % 2;
            sums_put<MT, NT>(s, i / 2, i % 2, shared + column * 16 * MT + filter, turn > 0);
        }
    }
    __syncthreads();
    int tiles = min(p.column_warps * NT, p.tiles - first_tile);
    for (int i = 4 * threadIdx.x; i < tiles * 8 * 16 * MT; i += 4 * blockDim.x)
        *(float4 *)(out + (size_t)first_tile * 8 * 16 * MT + i) = *(const float4 *)(shared + i);
}

/* The bias: every thread's own sum of errors, those of the same filters added in the order of threads. */
static __device__ __forceinline__ void bias_out(const shape &p, float4 own, float *shared, float *out)
{
    __syncthreads();
    *(float4 *)(shared + 4 * threadIdx.x) = own;
    __syncthreads();
    if ((int)threadIdx.x >= p.filters) return;
    float sum = 0;
    for (int i = threadIdx.x; i < 4 * (int)blockDim.x; i += p.filters) sum += shared[i];
    out[threadIdx.x] = sum;
}

/* ---- the kernel: x: groups of columns, blocks of channels, of filters; y: parts, z: lanes ---- */

template <int SPLIT, int MT, int FIVE, int NARROW>
static __global__ void __launch_bounds__(cut<SPLIT, FIVE>::THREADS, cut<SPLIT, FIVE>::BLOCKS)
    gradient(shape p, fli_cuda_batch b, fli_conv_error e, const float *source, int image_room, int error_room,
             size_t part_size, float *parts)
{
    enum { THREADS = cut<SPLIT, FIVE>::THREADS, WARPS = cut<SPLIT, FIVE>::WARPS, NT = cut<SPLIT, FIVE>::NT };
    FLI_DYNAMIC(shared);
    float *image = (float *)shared, *error = image + 2 * image_room;
    int *offset = (int *)(error + 2 * error_room), *spot = offset + 8 * p.steps; /* bytes; floats */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4, g = lane / 4;
    const int rows = (int)fli_cuda_rows(b.lane + blockIdx.z, &b), each = fli_conv_over(rows, p.parts);
    const int group = blockIdx.x % p.groups, channel_block = blockIdx.x / p.groups % p.channel_blocks;
    const int filter_block = blockIdx.x / p.groups / p.channel_blocks;
    const int first_tile = group * p.column_warps * NT, dy = first_tile / p.row_tiles;
    place at = {(int)blockIdx.y * each, 0};
    const int end = min(at.image + each, rows);

    size_t before = (size_t)blockIdx.z * b.room;
    source += before * p.height * p.width * p.from;
    e.error += before * e.height * e.width * e.channels;
    if (e.which) e.which += before * e.height * e.width * e.channels;

    int tile[NT]; /* offset of a tile's columns from the place of the first tap */
#pragma unroll
    for (int n = 0; n < NT; n++) {
        int number = first_tile + tile_of<NT, FIVE>(warp % p.column_warps, n), in = number % p.row_tiles,
            row = number / p.row_tiles;
        int x = NARROW ? in * 8 : in / (p.channels / 8) * p.stride + in % (p.channels / 8) * 8;
        tile[n] = (int)sizeof(float) * (number < p.tiles ? (row - dy) * p.pitch + x + g : g);
    }
    for (int i = threadIdx.x; i < 8 * p.steps; i += THREADS)
        offset[i] = i < p.rows * p.right ? (i / p.right * p.pitch + i % p.right * p.stride) * (int)sizeof(float) : 0;
    const int unit = p.pooled ? 2 : 1;
    for (int i = threadIdx.x; i < stage_windows(p, e); i += THREADS)
        spot[i] = (i / e.width * p.right + i % e.width) * unit * p.error_stride;
    for (int i = threadIdx.x; i < 2 * error_room; i += THREADS) error[i] = 0;
    __syncthreads();

    sums<MT, NT, SPLIT> sum = {};
    float4 bias = make_float4(0, 0, 0, 0);
    items<cut<SPLIT, FIVE>::ITEMS> it;
    if (at.image < end) {
        (FIVE ? load_blocks : load_image<NARROW>)(p, at, dy, channel_block * p.channels, source, image);
        load_items<MT>(p, e, at, filter_block * p.filters, &it);
    }
    for (int stage = 0; at.image < end; stage ^= 1) {
#pragma unroll
        for (int i = 0; i < cut<SPLIT, FIVE>::ITEMS; i++)
            bias.x += it.v[i].x, bias.y += it.v[i].y, bias.z += it.v[i].z, bias.w += it.v[i].w;
        store_items<MT, !SPLIT>(p, e, it, spot, error + stage * error_room);
        fli_async_commit();
        fli_async_wait<0>();
        __syncthreads();
        at = place_next(p, at);
        if (at.image < end) {
            (FIVE ? load_blocks : load_image<NARROW>)(p, at, dy, channel_block * p.channels, source,
                                                      image + (stage ^ 1) * image_room);
            load_items<MT>(p, e, at, filter_block * p.filters, &it);
        }
        const char *x = (const char *)(image + stage * image_room + (FIVE ? warp * (NT / 5) * 8 + g : 0));
        const float *d = error + stage * error_room + t * p.error_stride + g * 2;
        for (int i = warp / p.column_warps; i < p.steps; i += p.shares)
            eight<SPLIT, MT, NT, FIVE>(d + 8 * i * p.error_stride, p.error_stride, x + offset[8 * i + t],
                                       x + offset[8 * i + t + 4], tile, sum);
        sums_flush(sum);
    }
    float *part = parts + (blockIdx.z * (size_t)p.parts + blockIdx.y) * part_size;
    size_t block = (size_t)filter_block * p.channel_blocks + channel_block;
    float *out = part + block * p.tiles * 8 * p.filters;
    if (SPLIT)
        sums_out<MT, NT, FIVE>(p, (const float(*)[NT][4])sum.all, first_tile, (float *)shared, out);
    else
        sums_out<MT, NT, FIVE>(p, sum.now, first_tile, (float *)shared, out);
    if (group == 0 && channel_block == 0)
        bias_out(p, bias, (float *)shared, part + part_size + (filter_block - p.filter_blocks) * p.filters);
}

/* ---- the step: x: eights of channels, sixteens of filters, and one block for the bias; y: lanes ---- */

/* The column of a tap of channel c. */
static __device__ __forceinline__ int column_of(const shape &p, int c, int dy, int dx)
{
    return dy * p.row_tiles * 8 + (p.wide ? dx * p.channels + c % p.channels : dx * p.from + c);
}

static __device__ __forceinline__ float parts_sum(const shape &p, const float *parts, size_t part_size)
{
    float sum = 0;
    for (int i = 0; i < p.parts; i++) sum += parts[i * part_size];
    return sum;
}

/* Four filters. */
static __device__ __forceinline__ float4 parts_sum4(const shape &p, const float *parts, size_t part_size)
{
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int i = 0; i < p.parts; i++) {
        float4 v = *(const float4 *)(parts + i * part_size);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    return sum;
}

static __device__ void step_filters(const shape &p, const fli_update<float> &u, const float *parts, size_t part_size,
                                    size_t weight, float *shared)
{
    enum { QUADS = OUTER / 4, AT_ONCE = 4 };
    int inner = fli_conv_over(p.from, INNER), c0 = blockIdx.x % inner * INNER, o0 = blockIdx.x / inner * OUTER;
    int taps = p.kernel * p.kernel, channels = min((int)INNER, p.from - c0), filters = min((int)OUTER, p.to - o0);
    size_t block = (size_t)(o0 / p.filters) * p.channel_blocks + c0 / p.channels;
    const float *from = parts + block * p.tiles * 8 * p.filters + o0 % p.filters;
    for (int i = threadIdx.x; i < taps * channels * QUADS; i += blockDim.x) {
        int o = i % QUADS * 4, c = i / QUADS % channels, tap = i / QUADS / channels;
        int column = column_of(p, c0 + c, tap / p.kernel, tap % p.kernel);
        float4 v = parts_sum4(p, from + (size_t)column * p.filters + o, part_size);
        float *to = shared + (c * taps + tap) * (OUTER + 1) + o;
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
    __syncthreads();
    int line = channels * taps;
    for (int first = threadIdx.x; first < filters * line; first += AT_ONCE * blockDim.x) {
        size_t number[AT_ONCE];
        int there[AT_ONCE];
        float g[AT_ONCE][1], now[AT_ONCE][1];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
            int i = first + q * (int)blockDim.x, o = i / line, at = i % line;
            there[q] = i < filters * line;
            number[q] = weight + ((size_t)(o0 + o) * p.from + c0) * taps + at;
            g[q][0] = there[q] ? shared[at * (OUTER + 1) + o] : 0;
            now[q][0] = there[q] ? u.z[number[q]] : 0;
        }
        u.groups<AT_ONCE, 1>(number, there, g, now);
    }
}

static __global__ void __launch_bounds__(256) step(shape p, fli_cuda_batch b, const float *parts, size_t part_size,
                                                   size_t weight, size_t bias, int biased, int add)
{
    FLI_DYNAMIC(shared);
    const fli_cuda_lane *lane = b.lane + blockIdx.y;
    if (!fli_conv_takes(lane, fli_cuda_rows(lane, &b), add)) return;
    fli_update<float> u;
    u.init(lane, b.step, add);
    parts += blockIdx.y * p.parts * part_size;
    if (blockIdx.x + 1 < gridDim.x) {
        step_filters(p, u, parts, part_size, weight, (float *)shared);
    } else if (biased) {
        const float *from = parts + part_size - p.filter_blocks * p.filters;
        for (int o = threadIdx.x; o < p.to; o += blockDim.x) {
            float sum = parts_sum(p, from + o, part_size);
            u.apply<1>(bias + o, &sum, u.z + bias + o);
        }
    }
}

/* ---- launches ---- */

int fli_conv_gradient_fits(const fli_net_layer *l, const fli_net_layer *pool)
{
    if (l->stride != 1 || (pool && pool->kernel != 2) || l->kernel > FLI_CONV_KERNEL) return 0;
    shape p = shape_of(l, pool, 0);
    return p.rows > 0;
}

size_t fli_conv_gradient_work(const fli_net_layer *l, const fli_net_layer *pool, uint32_t lanes)
{
    shape p = shape_of(l, pool, 0);
    size_t few = BLOCKS_MOST / lane_blocks(&p);
    return sizeof(float) * (few > lanes ? few : lanes) * part_of(&p);
}

template <int SPLIT, int MT, int FIVE, int NARROW>
static void launch(fli_cuda_stream s, const shape *p, const fli_cuda_batch *b, const fli_conv_error *e, const float *in,
                   float *parts)
{
    dim3 grid(lane_blocks(p), p->parts, b->lanes);
    FLI_LAUNCH(s, (gradient<SPLIT, MT, FIVE, NARROW>), grid, 32 * p->warps, shared_bytes(p), *p, *b, *e, in,
               image_floats(p), error_floats(p), part_of(p), parts);
}

template <int SPLIT>
static void launch_any(fli_cuda_stream s, const shape *p, const fli_cuda_batch *b, const fli_conv_error *e,
                       const float *in, float *parts)
{
    if (p->filters == 16)
        (p->wide ? launch<SPLIT, 1, 0, 0> : launch<SPLIT, 1, 0, 1>)(s, p, b, e, in, parts);
    else if (p->five)
        launch<SPLIT, 4, 1, 0>(s, p, b, e, in, parts);
    else
        (p->wide ? launch<SPLIT, 4, 0, 0> : launch<SPLIT, 4, 0, 1>)(s, p, b, e, in, parts);
}

void fli_conv_gradient_step(fli_cuda_stream s, int split, const fli_net_layer *l, const fli_net_layer *pool,
                            const fli_cuda_batch *b, const float *error, int chw, const unsigned char *which,
                            const float *in, int add, float *work)
{
    shape p = shape_of(l, pool, split);
    p.parts = parts_of(&p, fli_cuda_lanes_at_start(b), fli_conv_most(b),
                       PROCESSORS * (split ? (int)cut<1, 0>::BLOCKS : (int)cut<0, 0>::BLOCKS));
    fli_conv_error e = fli_conv_error_of(l, pool, error, chw, which);
    (split ? launch_any<1> : launch_any<0>)(s, &p, b, &e, in, work);
    size_t part = part_of(&p);
    dim3 blocks(fli_conv_over(p.from, INNER) * fli_conv_over(p.to, OUTER) + 1, b->lanes);
    size_t shared = sizeof(float) * p.kernel * p.kernel * INNER * (OUTER + 1);
    FLI_LAUNCH(s, step, blocks, 256, shared, p, *b, work, part, l->weight, l->bias, l->biased, add);
}
