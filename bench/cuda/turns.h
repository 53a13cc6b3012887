/* Whole turns on a GPU, in one kernel: the timed problem, microseconds per client-step of batch 50, and the result's
 * distance from the same turn in double precision. For bench_small.c and bench_wide.c. */
#ifndef FLI_BENCH_TURNS_H
#define FLI_BENCH_TURNS_H

#include "base/os.h"
#include "plain_turn.h"

#include <stdio.h>

enum { BATCH = 50, STEPS = 20, SAMPLES = 1000, LANES_MOST = 1000, REPEATS = 10 };

static void check(int code)
{
    if (!code) return;
    fprintf(stderr, "%s\n", fli_cuda_error(code));
    exit(1);
}

static uint64_t noise_state = 1;
static double noise(void) /* in [-1, 1) */
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(noise_state >> 33) / 1073741824.0 - 1;
}

static void *there(fli_cuda_stream s, const void *from, size_t bytes)
{
    void *p;
    check(fli_cuda_alloc(bytes, &p));
    if (from) check(fli_cuda_upload(s, p, from, bytes));
    check(fli_cuda_wait(s));
    return p;
}

/* All clients have the same samples: bytes, each a sum of a few, as in images. */
typedef struct {
    fli_network net;
    fli_cuda_data data;
    uint8_t *x;
    double *value;
    int32_t *label;
    uint32_t *order;
    double *z;
    float *zf;
    fli_cuda_lane *lane; /* plain memory */
    void *z_there;
} problem;

static void make_samples(fli_cuda_stream s, problem *p)
{
    size_t dim = p->net.features, all = SAMPLES * dim;
    double scale = 1.0 / 255, shift = 0;
    p->x = malloc(all);
    p->value = malloc(all * sizeof *p->value);
    p->label = malloc(SAMPLES * sizeof *p->label);
    for (size_t i = 0; i < all; i++) p->value[i] = (p->x[i] = (uint8_t)(128 + 127 * noise())) / 255.0;
    for (size_t i = 0; i < SAMPLES; i++) p->label[i] = (int32_t)((noise() + 1) / 2 * (double)p->net.classes);
    p->data = (fli_cuda_data){.n = SAMPLES, .dim = dim, .length = dim, .segments = 1};
    p->data.x = there(s, p->x, all);
    p->data.label = there(s, p->label, SAMPLES * sizeof *p->label);
    p->data.scale = there(s, &scale, sizeof scale);
    p->data.shift = there(s, &shift, sizeof shift);
}

static void make_lanes(fli_cuda_stream s, problem *p, int terms)
{
    size_t m = p->net.parameters;
    p->order = malloc(SAMPLES * sizeof *p->order);
    p->z = malloc(m * sizeof *p->z);
    p->zf = malloc(m * sizeof *p->zf);
    p->lane = calloc(LANES_MOST, sizeof *p->lane);
    for (uint32_t i = 0; i < SAMPLES; i++) p->order[i] = i * 377 % SAMPLES;
    for (size_t i = 0; i < m; i++) p->z[i] = p->zf[i] = (float)(0.1 * noise());
    void *order = there(s, p->order, SAMPLES * sizeof *p->order), *term = there(s, p->zf, m * sizeof(float));
    size_t apart = (m + 63) / 64 * 64; /* vectors are aligned to 16 bytes */
    p->z_there = there(s, NULL, LANES_MOST * apart * sizeof(float));
    for (size_t k = 0; k < LANES_MOST; k++) {
        p->lane[k] = (fli_cuda_lane){.z = (float *)p->z_there + k * apart,
                                     .lr = 0.05,
                                     .wd = 1e-4,
                                     .order = order,
                                     .n = SAMPLES,
                                     .size = BATCH,
                                     .stride = BATCH,
                                     .steps = STEPS};
        if (terms) p->lane[k].term = term, p->lane[k].times = 0.9, p->lane[k].rho = 0.1; /* term - 0.1 term */
    }
}

static void reset(fli_cuda_stream s, const problem *p, size_t lanes)
{
    size_t bytes = p->net.parameters * sizeof(float);
    for (size_t k = 0; k < lanes; k++) check(fli_cuda_upload(s, p->lane[k].z, p->zf, bytes));
    check(fli_cuda_wait(s));
}

static double *plain_result(const problem *p, int terms)
{
    size_t m = p->net.parameters;
    double *z = malloc(m * sizeof *z);
    memcpy(z, p->z, m * sizeof *z);
    plain_turn_run(&(plain_turn){.net = &p->net,
                                 .x = p->value,
                                 .label = p->label,
                                 .order = p->order,
                                 .n = SAMPLES,
                                 .size = BATCH,
                                 .stride = BATCH,
                                 .steps = STEPS,
                                 .lr = 0.05,
                                 .wd = 1e-4,
                                 .rho = 0.1,
                                 .shift = terms ? p->z : NULL,
                                 .anchor = terms ? p->z : NULL,
                                 .z = z});
    return z;
}

/* The last lane's error after one turn. */
static double error_of(fli_cuda_stream s, const problem *p, size_t lanes, const double *want)
{
    size_t m = p->net.parameters;
    float *got = malloc(m * sizeof *got);
    double off = 0, norm = 0;
    check(fli_cuda_download(s, got, p->lane[lanes - 1].z, m * sizeof *got));
    check(fli_cuda_wait(s));
    for (size_t i = 0; i < m; i++) {
        off += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    free(got);
    return sqrt(off / norm);
}

/* fli_cuda_small_turns, fli_cuda_wide_turns */
typedef void whole_turns(fli_cuda_stream, fli_cuda_type, const fli_network *, const fli_cuda_data *,
                         const fli_cuda_lane *, uint32_t lanes, uint32_t batch);

/* Prints the rest of a line; want: the exact result of a turn. */
static void measure_lanes(fli_cuda_stream s, const problem *p, whole_turns *turns, fli_cuda_type type,
                          const fli_cuda_lane *lane, uint32_t lanes, const double *want)
{
    reset(s, p, lanes);
    turns(s, type, &p->net, &p->data, lane, lanes, BATCH);
    check(fli_cuda_last());
    check(fli_cuda_wait(s));
    double error = error_of(s, p, lanes, want), begin = fli_clock_now();
    for (int i = 0; i < REPEATS; i++) turns(s, type, &p->net, &p->data, lane, lanes, BATCH);
    check(fli_cuda_wait(s));
    double step = (fli_clock_now() - begin) / REPEATS / STEPS * 1e6;
    printf(" %5u lanes %7.2f us per step, %6.3f per client-step, error %.1e\n", lanes, step, step / lanes, error);
    fflush(stdout);
}

#endif
