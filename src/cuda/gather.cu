/* Samples of mini-batches into matrices: a warp per row. sample.cuh says what the values are. */
#include "cuda/sample.cuh"

namespace
{

enum { THREADS = 256, ROWS = THREADS / FLI_WARP }; /* of a block */

/* V neighbours in memory, read and written as one. */
template <class T, int V> struct __align__(sizeof(T) * V) pack { T v[V]; };

/* The row that a warp is about; 0: there is none. */
__device__ int find_row(const fli_cuda_batch &b, const fli_cuda_lane **lane, uint32_t *row)
{
    *lane = b.lane + blockIdx.x;
    *row = blockIdx.y * ROWS + threadIdx.x / FLI_WARP;
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
        __syncwarp(); /* or else the compiler waits for one after the other */
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

template <class REAL, class STORED>
__global__ void __launch_bounds__(THREADS) gather_images(fli_cuda_data d, fli_cuda_batch b, int channels_last, REAL *x)
{
    const fli_cuda_lane *lane;
    uint32_t row;
    if (!find_row(b, &lane, &row)) return;
    const fli_sight_sizes sizes = fli_data_sizes(d);
    const uint32_t r = b.first + row, sample = fli_row_sample(lane, b.step, r), own = threadIdx.x % FLI_WARP;
    const uint32_t channels = d.shape[0], width = d.shape[2], plane = d.shape[1] * width;
    const fli_sight sight = b.augment && d.augment ? fli_sight_training(d, lane, sample, fli_row_epoch(lane, b.step, r))
                                                   : fli_sight_middle(&sizes);
    const fli_sample s = fli_sample_open<STORED>(d, sample, sight, own);
    REAL *to = x + place_of_row(b, d, row);
    for (uint32_t k = own; k < d.dim; k += FLI_WARP) {
        uint32_t c = channels_last ? k % channels : k / plane, pixel = channels_last ? k / channels : k % plane;
        to[k] = fli_sample_value<REAL, STORED>(d, s, c, pixel / width, pixel % width);
    }
}

template <class REAL, class STORED>
void gather(fli_stream s, const fli_cuda_data *d, const fli_cuda_batch *b, int channels_last, REAL *x)
{
    const uint32_t rows = b->most < b->room ? b->most : b->room;
    const dim3 grid(b->lanes, (rows + ROWS - 1) / ROWS);
    if (!rows || !b->lanes || !d->dim) return;
    if (!fli_data_simple(d, (int)b->augment) || (channels_last && d->shape[0] > 1))
        FLI_LAUNCH(s, (gather_images<REAL, STORED>), grid, THREADS, 0, *d, *b, channels_last, x);
    else if (d->dim % 4 == 0)
        FLI_LAUNCH_EARLY(s, (gather_simple<REAL, STORED, 4>), grid, dim3(THREADS), (size_t)0, *d, *b, x);
    else
        FLI_LAUNCH_EARLY(s, (gather_simple<REAL, STORED, 1>), grid, dim3(THREADS), (size_t)0, *d, *b, x);
}

template <class REAL>
void gather_any(fli_stream s, const fli_cuda_data *d, const fli_cuda_batch *b, int channels_last, void *x)
{
    if (d->kind == 0)
        gather<REAL, uint8_t>(s, d, b, channels_last, (REAL *)x);
    else if (d->kind == 1)
        gather<REAL, float>(s, d, b, channels_last, (REAL *)x);
    else
        gather<REAL, double>(s, d, b, channels_last, (REAL *)x);
}

} // namespace

extern "C" void fli_cuda_gather(fli_stream s, fli_cuda_type type, const fli_cuda_data *data, const fli_cuda_batch *b,
                                int channels_last, void *x)
{
    if (type == FLI_CUDA_F64)
        gather_any<double>(s, data, b, channels_last, x);
    else
        gather_any<float>(s, data, b, channels_last, x);
}
