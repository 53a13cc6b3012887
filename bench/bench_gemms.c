/* The matrix products of a local step of a network by the machine's SGEMM alone, in this many processes at the same
 * time: an upper bound of what a federation gains. Processes, because threads would share OpenBLAS' lock. Prints
 * microseconds per step of all processes together:
 *     bench_gemms NETWORK PROCESSES */
#include "base/os.h"
#include "vec/ops.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* C (m x n) = A (m x k) B (k x n), for forward passes; gradients by weights and by inputs are the same product with
 * permuted dimensions. */
typedef struct {
    size_t m, n, k;
    int first; /* the layer next to the data has no gradient by inputs */
} layer;

typedef struct {
    const char *name;
    size_t images; /* convolutions: the products are done once per image */
    layer layers[6];
} network;

static const network networks[] = {
    {"60-32-10", 0, {{10, 32, 60, 1}, {10, 10, 32, 0}}},
    {"784-200-10", 0, {{50, 200, 784, 1}, {50, 10, 200, 0}}},
    {"784-200-200-10", 0, {{50, 200, 784, 1}, {50, 200, 200, 0}, {50, 10, 200, 0}}},
    {"cnn", 50, {{784, 64, 75, 1}, {100, 64, 1600, 0}, {50, 384, 1600, 0}, {50, 192, 384, 0}, {50, 10, 192, 0}}},
};
enum { NETWORKS = sizeof networks / sizeof *networks, CONVOLUTIONS = 2, TRIES = 7, MOST = 256 };

typedef struct {
    const network *net;
    size_t steps;
    float *room[3];
} job;

/* Shared by the processes of a try. */
typedef struct {
    atomic_size_t ready;
    double seconds[MOST];
} meeting;

static void products(const layer *l, float *const *at)
{
    fli_ops_f32.gemm(0, 0, l->m, l->n, l->k, 1, at[0], l->k, at[1], l->n, 0, at[2], l->n);
    fli_ops_f32.gemm(1, 0, l->k, l->n, l->m, 1, at[0], l->k, at[2], l->n, 0, at[1], l->n);
    if (!l->first) fli_ops_f32.gemm(0, 1, l->m, l->k, l->n, 1, at[2], l->n, at[1], l->n, 0, at[0], l->k);
}

static double multiply(const job *j)
{
    double begin = fli_clock_now();
    for (size_t s = 0; s < j->steps; s++)
        for (size_t i = 0; j->net->layers[i].m; i++)
            for (size_t c = 0; c < (i < CONVOLUTIONS && j->net->images ? j->net->images : 1); c++)
                products(&j->net->layers[i], j->room);
    return fli_clock_now() - begin;
}

static int make_room(fl_ctx *ctx, job *j)
{
    size_t most = 0;
    for (const layer *l = j->net->layers; l->m; l++) {
        size_t sides[] = {l->m * l->k, l->k * l->n, l->m * l->n};
        for (size_t i = 0; i < 3; i++) most = sides[i] > most ? sides[i] : most;
    }
    for (size_t i = 0; i < 3; i++) /* products of zeros stay zero */
        if (!(j->room[i] = fli_alloc(ctx, most, sizeof(float)))) return 1;
    for (size_t i = 0; i < 3; i++) memset(j->room[i], 0, most * sizeof(float)); /* not the kernel's page of zeros */
    return 0;
}

/* Seconds of the slowest of this many processes, which begin together. */
static double together(meeting *m, const job *j, size_t processes)
{
    double slowest = 0;
    atomic_store(&m->ready, 0);
    for (size_t i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0) exit(1);
        if (child) continue;
        multiply(&(job){j->net, 1, {j->room[0], j->room[1], j->room[2]}}); /* makes the pages this process's own */
        atomic_fetch_add(&m->ready, 1);
        while (atomic_load(&m->ready) < processes) continue;
        m->seconds[i] = multiply(j);
        _exit(0);
    }
    while (wait(NULL) > 0) continue;
    for (size_t i = 0; i < processes; i++) slowest = m->seconds[i] > slowest ? m->seconds[i] : slowest;
    return slowest;
}

int main(int argc, char **argv)
{
    static job j = {.steps = 1};
    size_t processes = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
    double best = 0;
    fl_ctx *ctx = fl_ctx_new();
    meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; argc > 1 && i < NETWORKS; i++)
        if (!strcmp(argv[1], networks[i].name)) j.net = &networks[i];
    if (!ctx || m == MAP_FAILED || !j.net || processes < 1 || processes > MOST || fli_blas_prepare(ctx) ||
        make_room(ctx, &j))
        return 1;
    while (multiply(&j) < 0.1) j.steps *= 2;
    for (int i = 0; i < TRIES; i++) {
        double s = together(m, &j, processes);
        if (!i || s < best) best = s;
    }
    printf("%.3f\n", best * 1e6 / (double)(j.steps * processes));
    return 0; /* the process ends here, so nothing is freed */
}
