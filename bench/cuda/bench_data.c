/* Drawing mini-batches and gathering their samples on a GPU (src/cuda/kernels/batch_order.cu, gather.cu): microseconds
 * for all lanes together. From the repository's root:
 *
 *     nvcc -arch=sm_90 -O3 -D_GNU_SOURCE -Isrc -Iinclude bench/cuda/bench_data.c \
 *         src/cuda/kernels/batch_order.cu src/cuda/kernels/gather.cu src/cuda/runtime.c \
 *         src/base/number.c src/base/os.c -o bench_data && ./bench_data */
#include "base/os.h"
#include "cuda/kernels/kernels.h"
#include "data/augment.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 60000, BATCH = 50, ROOM = 56, REPEATS = 50 };

static fli_cuda_stream the_stream;

static void check(int code)
{
    if (!code) return;
    fprintf(stderr, "bench_data: %s\n", fli_cuda_error(code));
    exit(1);
}

static void *there(const void *from, size_t bytes)
{
    void *p;
    check(fli_cuda_alloc(bytes, &p));
    if (from)
        check(fli_cuda_upload(the_stream, p, from, bytes));
    else
        check(fli_cuda_zero(the_stream, p, bytes));
    check(fli_cuda_wait(the_stream));
    return p;
}

/* A list of samples that are not neighbours. */
static uint32_t *list_there(size_t n)
{
    uint32_t *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (uint32_t)(i * 40503u % SAMPLES);
    uint32_t *p = there(v, n * sizeof *v);
    free(v);
    return p;
}

/* Images that are not black, because the kernel treats black ones separately. */
static void *bytes_there(size_t n)
{
    unsigned char *v = malloc(n);
    for (size_t i = 0; i < n; i++) v[i] = (unsigned char)(i * 2654435761u >> 24);
    void *p = there(v, n);
    free(v);
    return p;
}

/* Microseconds of a launch among many consecutive ones. */
#define TIME(out, launch)                                                                                              \
    do {                                                                                                               \
        launch;                                                                                                        \
        check(fli_cuda_wait(the_stream));                                                                              \
        double begin_ = fli_clock_now();                                                                               \
        for (int i_ = 0; i_ < REPEATS; i_++) launch;                                                                   \
        check(fli_cuda_wait(the_stream));                                                                              \
        check(fli_cuda_last());                                                                                        \
        (out) = (fli_clock_now() - begin_) * 1e6 / REPEATS;                                                            \
    } while (0)

static void bench_draw(uint32_t lanes, uint32_t n, uint32_t epochs)
{
    fli_cuda_drawing *d = calloc(lanes, sizeof *d);
    uint32_t steps = epochs * ((n + BATCH - 1) / BATCH);
    uint32_t *samples = list_there(n);
    uint32_t *order = there(NULL, (size_t)lanes * steps * BATCH * 4),
             *work = there(NULL, (size_t)lanes * n * 4 * FLI_CUDA_DRAW_WORK);
    for (uint32_t l = 0; l < lanes; l++)
        d[l] = (fli_cuda_drawing){.samples = samples,
                                  .n = n,
                                  .size = BATCH,
                                  .order = order + (size_t)l * steps * BATCH,
                                  .work = work + (size_t)l * n * FLI_CUDA_DRAW_WORK,
                                  .steps = steps,
                                  .key = {1, 2},
                                  .ctr = {0, 7, 3, l}};
    fli_cuda_drawing *p = there(d, lanes * sizeof *d);
    double us;
    TIME(us, fli_cuda_draw(the_stream, p, lanes));
    printf("draw    %5u lanes, %5u samples, %u epochs: %8.2f us, %6.2f an epoch\n", lanes, n, epochs, us, us / epochs);
    fli_cuda_release(samples);
    fli_cuda_release(order);
    fli_cuda_release(work);
    fli_cuda_release(p);
    free(d);
}

static void bench_gather(const char *what, const fli_cuda_data *data, uint32_t lanes, int channels_last)
{
    fli_cuda_lane *l = calloc(lanes, sizeof *l);
    uint32_t *order = list_there((size_t)lanes * BATCH);
    for (uint32_t i = 0; i < lanes; i++)
        l[i] = (fli_cuda_lane){.order = order + (size_t)i * BATCH, .n = BATCH, .size = BATCH, .steps = 1, .client = i};
    fli_cuda_lane *p = there(l, lanes * sizeof *l);
    void *x = there(NULL, (size_t)lanes * ROOM * data->dim * sizeof(float));
    fli_cuda_batch b = {.lane = p, .lanes = lanes, .most = BATCH, .room = ROOM, .augment = data->augment};
    double us, bytes = (double)lanes * BATCH * ((double)data->length + 4 * (double)data->dim);
    TIME(us, fli_cuda_gather(the_stream, FLI_CUDA_F32, data, &b, channels_last, x));
    printf("gather  %5u lanes, %s: %8.2f us, %5.0f GB/s\n", lanes, what, us, bytes / us / 1e3);
    fli_cuda_release(order);
    fli_cuda_release(p);
    fli_cuda_release(x);
    free(l);
}

int main(void)
{
    const double scale = 1.0 / 255, shift = 0;
    check(fli_cuda_use(0));
    check(fli_cuda_stream_new(&the_stream));
    fli_cuda_data digits = {.n = SAMPLES, .dim = 784, .length = 784, .segments = 1, .shape = {1, 28, 28}};
    digits.x = bytes_there((size_t)SAMPLES * 784);
    digits.scale = there(&scale, sizeof scale);
    digits.shift = there(&shift, sizeof shift);
    fli_cuda_data photos = {.n = SAMPLES, .dim = 1728, .length = 3072, .shape = {3, 24, 24}, .frame = {32, 32}};
    photos.x = bytes_there((size_t)SAMPLES * 3072);
    photos.each = 1;
    photos.augment = FLI_AUGMENT_CROP;
    const uint32_t lanes[] = {10, 100, 1000};
    for (int k = 0; k < 3; k++) {
        bench_draw(lanes[k], 600, 1);
        bench_draw(lanes[k], 600, 5);
        bench_draw(lanes[k], 120, 5);
        bench_gather("784 bytes, scaled", &digits, lanes[k], 0);
        bench_gather("24 x 24 of 32 x 32 x 3, by their own scale, channels last", &photos, lanes[k], 1);
    }
    bench_draw(10, 20000, 1);
    return 0;
}
