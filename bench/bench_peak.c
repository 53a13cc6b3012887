/* The speed of the machine's BLAS: SGEMM of 1024 x 1024 matrices, on this many threads at the same time, each with its
 * own matrices. Prints the total GFLOP/s, the best of several tries:
 *     bench_peak THREADS */
#include "base/os.h"
#include "base/pool.h"
#include "vec/ops.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 1024, TRIES = 8, MOST = 64 };

static float *matrix[MOST][3];

static void multiply(void *arg, size_t item, size_t worker)
{
    (void)arg;
    (void)worker;
    fli_ops_f32.gemm(0, 0, SIZE, SIZE, SIZE, 1, matrix[item][0], SIZE, matrix[item][1], SIZE, 0, matrix[item][2], SIZE);
}

int main(int argc, char **argv)
{
    size_t threads = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 1;
    fl_ctx *ctx = fl_ctx_new();
    fli_pool *pool = NULL;
    double best = 0;
    if (!ctx || threads < 1 || threads > MOST || fli_pool_new(ctx, threads, &pool)) return 1;
    if (fli_blas_prepare(ctx)) return 1;
    for (size_t i = 0; i < threads * 3; i++) {
        float *m = matrix[i / 3][i % 3] = fli_alloc(ctx, (size_t)SIZE * SIZE, sizeof(float));
        if (!m) return 1;
        fli_ops_f32.fill((size_t)SIZE * SIZE, 0.5, m);
    }
    for (int i = 0; i < TRIES; i++) {
        double begin = fli_clock_now();
        fli_pool_run(pool, threads, multiply, NULL);
        double rate = 2e-9 * SIZE * SIZE * SIZE * (double)threads / (fli_clock_now() - begin);
        if (rate > best) best = rate;
    }
    printf("%.1f\n", best);
    return 0; /* the process ends here, so nothing is freed */
}
