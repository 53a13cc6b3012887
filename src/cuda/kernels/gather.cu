/* Samples of mini-batches into matrices: a warp per row. sample.cuh computes the values. */
#include "cuda/kernels/sample.cuh"

namespace
{

enum { THREADS = 256, ROWS = THREADS / FLI_WARP }; /* of a block */
enum { PICTURES = 4, PICTURE_MOST = 4096 };        /* of a block; bytes of one */

/* V neighbours in memory, read and written as one. */
template <class T, int V> struct __align__(sizeof(T) * V) pack { T v[V]; };

/* The warp's row; 0: none. */
__device__ int find_row(const fli_cuda_batch &b, const fli_cuda_lane **lane, uint32_t *row)
{
    *lane = b.lane + blockIdx.x;
    *row = (blockIdx.y * blockDim.x + threadIdx.x) / FLI_WARP;
    return *row < fli_cuda_rows(*lane, &b);
}

__device__ size_t place_of_row(const fli_cuda_batch &b, const fli_cuda_data &d, uint32_t row)
{
    return ((size_t)blockIdx.x * b.room + row) * d.dim;
}

enum { IN_FLIGHT = 4 };

template <class REAL, class STORED, int V>
__global__ void __launch_bounds__(THREADS) gather_simple(fli_cuda_data d, fli_cuda_batch b, REAL *x)
{
    const fli_cuda_lane *lane;
    uint32_t row;
    const int there = find_row(b, &lane, &row);
    fli_overlap();
    if (!there) return;
    const uint32_t sample = fli_row_sample(lane, b.step, b.first + row), run = fli_data_run(d), packs = d.dim / V;
    const pack<STORED, V> *from = (const pack<STORED, V> *)((const STORED *)d.x + (size_t)sample * d.length);
    pack<REAL, V> *to = (pack<REAL, V> *)(x + place_of_row(b, d, row));
    const int one = d.scale && d.segments == 1 && run > 1; /* one scale for all */
    const REAL scale = one ? (REAL)d.scale[0] : 1, shift = one ? (REAL)d.shift[0] : 0;
    for (uint32_t begin = 0, k; begin < packs; begin += IN_FLIGHT * FLI_WARP) {
        const uint32_t first = begin + threadIdx.x % FLI_WARP;
        pack<STORED, V> in[IN_FLIGHT];
        for (int u = 0; u < IN_FLIGHT; u++)
            if ((k = first + u * FLI_WARP) < packs) in[u] = from[k];
        __syncwarp(); /* keeps the compiler from waiting for each load */
        for (int u = 0; u < IN_FLIGHT; u++) {
            if ((k = first + u * FLI_WARP) >= packs) continue;
            pack<REAL, V> out;
            for (int i = 0; i < V; i++)
                out.v[i] = one ? fli_mul_add((REAL)in[u].v[i], scale, shift)
                               : fli_feature<REAL>(d, run, in[u].v[i], k * V + i);
            to[k] = out;
        }
    }
}

__device__ fli_crop crop_of(const fli_cuda_data &d, const fli_cuda_batch &b, const fli_cuda_lane *lane, uint32_t r,
                            uint32_t sample)
{
    const fli_crop_sizes sizes = fli_data_sizes(d);
    return b.augment && d.augment ? fli_crop_training(d, lane, sample, fli_row_epoch(lane, b.step, r))
                                  : fli_crop_middle(&sizes);
}

/* All values of an open sample, by a warp. */
template <class REAL, class STORED>
__device__ void sample_out(const fli_cuda_data &d, const fli_sample &s, int channels_last, REAL *to)
{
    const uint32_t channels = d.shape[0], width = d.shape[2], plane = d.shape[1] * width;
    for (uint32_t k = threadIdx.x % FLI_WARP; k < d.dim; k += FLI_WARP) {
        uint32_t c = channels_last ? k % channels : k / plane, pixel = channels_last ? k / channels : k % plane;
        to[k] = fli_sample_value<REAL, STORED>(d, s, c, pixel / width, pixel % width);
    }
}

template <class REAL, class STORED>
__global__ void __launch_bounds__(THREADS) gather_images(fli_cuda_data d, fli_cuda_batch b, int channels_last, REAL *x)
{
    const fli_cuda_lane *lane;
    uint32_t row;
    if (!find_row(b, &lane, &row)) return;
    const uint32_t r = b.first + row, sample = fli_row_sample(lane, b.step, r);
    const fli_sample s = fli_sample_open<STORED>(d, sample, crop_of(d, b, lane, r, sample), threadIdx.x % FLI_WARP);
    sample_out<REAL, STORED>(d, s, channels_last, x + place_of_row(b, d, row));
}

/* Pictures: bytes, each image scaled by itself. A warp reads the stored image at once, puts the visible part in order,
 * sums it, and then writes it. */
__host__ __device__ size_t picture_room(const fli_cuda_data &d) { return (d.length + d.dim + 15) / 16 * 16; }

int pictures(const fli_cuda_data *d)
{
    return d->kind == 0 && d->each && (uintptr_t)d->x % 16 == 0 && d->length % 16 == 0 && d->length <= PICTURE_MOST &&
           d->dim % 4 == 0;
}

__device__ void picture_read(const uint8_t *from, uint32_t length, uint8_t *to)
{
    enum { AT_ONCE = PICTURE_MOST / 16 / FLI_WARP };
    const uint32_t own = threadIdx.x % FLI_WARP, packs = length / 16;
    uint4 in[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        if (own + u * FLI_WARP < packs) in[u] = ((const uint4 *)from)[own + u * FLI_WARP];
    __syncwarp(); /* all loads are in flight */
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        if (own + u * FLI_WARP < packs) ((uint4 *)to)[own + u * FLI_WARP] = in[u];
    __syncwarp();
}

/* The visible values, in the order of the target, and their sums; values outside of the image are 0. */
__device__ void picture_order(const fli_cuda_data &d, const fli_crop &l, int channels_last, const uint8_t *from,
                              uint8_t *to, uint32_t *sum, uint32_t *squares)
{
    enum { AT_ONCE = 8 };
    const uint32_t channels = d.shape[0], height = d.shape[1], width = d.shape[2];
    const uint32_t line = d.frame[0] ? d.frame[1] : width, lines = d.frame[0] ? d.frame[0] : height;
    const uint32_t step = channels_last ? channels : 1;
    uint32_t s = 0, q = 0;
    for (uint32_t x = threadIdx.x % FLI_WARP; x < width; x += FLI_WARP) {
        int32_t col = (int32_t)x - l.right, across = col >= 0 && col < (int32_t)width;
        const uint8_t *column = from + l.left + (across ? l.mirror ? (int32_t)width - 1 - col : col : 0);
        for (uint32_t c = 0; c < channels; c++) {
            uint8_t *out = to + (channels_last ? c : c * height * width) + x * step;
            for (uint32_t first = 0; first < height; first += AT_ONCE) { /* read before anything is written */
                uint32_t v[AT_ONCE];
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++) {
                    int32_t row = (int32_t)(first + i) - l.down;
                    int inside = across && row >= 0 && row < (int32_t)height && first + i < height;
                    v[i] = inside ? column[(c * lines + l.top + (uint32_t)row) * line] : 0;
                    s += v[i];
                    q += v[i] * v[i];
                }
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++)
                    if (first + i < height) out[(first + i) * width * step] = (uint8_t)v[i];
            }
        }
    }
    *sum = s;
    *squares = q;
    __syncwarp();
}

template <class REAL>
__global__ void __launch_bounds__(PICTURES *FLI_WARP)
    gather_pictures(fli_cuda_data d, fli_cuda_batch b, int channels_last, REAL *x)
{
    FLI_DYNAMIC(shared);
    const fli_cuda_lane *lane;
    uint32_t row, sum, squares;
    if (!find_row(b, &lane, &row)) return;
    uint8_t *stored = shared + threadIdx.x / FLI_WARP * picture_room(d), *seen = stored + d.length;
    const uint32_t r = b.first + row, sample = fli_row_sample(lane, b.step, r);
    fli_sample s = {(size_t)sample * d.length, crop_of(d, b, lane, r, sample), 0, 0};
    picture_read((const uint8_t *)d.x + s.first, (uint32_t)d.length, stored);
    picture_order(d, s.crop, channels_last, stored, seen, &sum, &squares);
    double mean, var, n = (double)d.dim;
    fli_byte_moments(fli_warp_sum(sum), fli_warp_sum(squares), n, &mean, &var);
    fli_sample_scale(&s, n, mean, var);
    REAL *to = x + place_of_row(b, d, row);
    if (mean == 0) { /* all black: the sign of a zero marks values outside of the image */
        sample_out<REAL, uint8_t>(d, s, channels_last, to);
        return;
    }
    const int single = d.frame[0] && d.shape[2] == 1;
    for (uint32_t k = threadIdx.x % FLI_WARP; k < d.dim / 4; k += FLI_WARP) {
        const pack<uint8_t, 4> in = ((const pack<uint8_t, 4> *)seen)[k];
        pack<REAL, 4> out;
        for (int i = 0; i < 4; i++) out.v[i] = fli_scaled<REAL>(in.v[i], s.scale, s.shift, single);
        ((pack<REAL, 4> *)to)[k] = out;
    }
}

template <class REAL, class STORED>
void gather(fli_cuda_stream s, const fli_cuda_data *d, const fli_cuda_batch *b, int channels_last, REAL *x)
{
    const uint32_t rows = b->most < b->room ? b->most : b->room;
    const dim3 grid(b->lanes, (rows + ROWS - 1) / ROWS);
    if (!rows || !b->lanes || !d->dim) return;
    if (pictures(d) && sizeof(STORED) == 1)
        FLI_LAUNCH(s, gather_pictures<REAL>, dim3(b->lanes, (rows + PICTURES - 1) / PICTURES), PICTURES * FLI_WARP,
                   PICTURES * picture_room(*d), *d, *b, channels_last, x);
    else if (!fli_data_simple(d, (int)b->augment) || (channels_last && d->shape[0] > 1))
        FLI_LAUNCH(s, (gather_images<REAL, STORED>), grid, THREADS, 0, *d, *b, channels_last, x);
    else if (d->dim % 4 == 0)
        FLI_LAUNCH_EARLY(s, (gather_simple<REAL, STORED, 4>), grid, dim3(THREADS), (size_t)0, *d, *b, x);
    else
        FLI_LAUNCH_EARLY(s, (gather_simple<REAL, STORED, 1>), grid, dim3(THREADS), (size_t)0, *d, *b, x);
}

template <class REAL>
void gather_any(fli_cuda_stream s, const fli_cuda_data *d, const fli_cuda_batch *b, int channels_last, void *x)
{
    if (d->kind == 0)
        gather<REAL, uint8_t>(s, d, b, channels_last, (REAL *)x);
    else if (d->kind == 1)
        gather<REAL, float>(s, d, b, channels_last, (REAL *)x);
    else
        gather<REAL, double>(s, d, b, channels_last, (REAL *)x);
}

} // namespace

extern "C" void fli_cuda_gather(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_data *data,
                                const fli_cuda_batch *b, int channels_last, void *x)
{
    if (type == FLI_CUDA_F64)
        gather_any<double>(s, data, b, channels_last, x);
    else
        gather_any<float>(s, data, b, channels_last, x);
}
