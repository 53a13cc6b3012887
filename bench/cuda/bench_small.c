/* Whole turns of small networks on a GPU, in one kernel (src/cuda/small.cu): microseconds per client-step of batch 50,
 * and how far the result is from the same turn in double precision. From the repository's root:
 *
 *     nvcc -arch=sm_90 -O3 -D_GNU_SOURCE -Isrc -Iinclude -Itests/cuda bench/cuda/bench_small.c src/cuda/small.cu \
 *         src/cuda/runtime.c src/base/number.c src/base/clock.c -o bench_small && ./bench_small
 *
 * -DFLI_SMALL_THREADS=256 tries blocks of another size. */
#include "base/clock.h"
#include "plain_turn.h"

#include <stdio.h>

enum { BATCH = 50, STEPS = 20, SAMPLES = 1000, LANES_MOST = 1000, REPEATS = 20 };

static void check(int code)
{
    if (!code) return;
    fprintf(stderr, "bench_small: %s\n", fli_cuda_error(code));
    exit(1);
}

static uint64_t noise_state = 1;
static double noise(void) /* in [-1, 1) */
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(noise_state >> 33) / 1073741824.0 - 1;
}

static void *there(fli_stream s, const void *from, size_t bytes)
{
    void *p;
    check(fli_cuda_alloc(bytes, &p));
    if (from) check(fli_cuda_upload(s, p, from, bytes));
    check(fli_cuda_wait(s));
    return p;
}

/* Samples of one client are those of all: bytes, each a sum of few, as images are. */
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

static void make_samples(fli_stream s, problem *p)
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

static void make_lanes(fli_stream s, problem *p, int terms)
{
    size_t m = p->net.parameters;
    p->order = malloc(SAMPLES * sizeof *p->order);
    p->z = malloc(m * sizeof *p->z);
    p->zf = malloc(m * sizeof *p->zf);
    p->lane = calloc(LANES_MOST, sizeof *p->lane);
    for (uint32_t i = 0; i < SAMPLES; i++) p->order[i] = i * 377 % SAMPLES;
    for (size_t i = 0; i < m; i++) p->z[i] = p->zf[i] = (float)(0.1 * noise());
    void *order = there(s, p->order, SAMPLES * sizeof *p->order), *term = there(s, p->zf, m * sizeof(float));
    p->z_there = there(s, NULL, LANES_MOST * m * sizeof(float));
    for (size_t k = 0; k < LANES_MOST; k++) {
        p->lane[k] = (fli_cuda_lane){.z = (float *)p->z_there + k * m,
                                     .lr = 0.05,
                                     .wd = 1e-4,
                                     .rho = 0.1,
                                     .order = order,
                                     .n = SAMPLES,
                                     .size = BATCH,
                                     .stride = BATCH,
                                     .steps = STEPS};
        if (terms) p->lane[k].shift = p->lane[k].anchor = term;
    }
}

static void reset(fli_stream s, const problem *p, size_t lanes)
{
    size_t bytes = p->net.parameters * sizeof(float);
    for (size_t k = 0; k < lanes; k++) check(fli_cuda_upload(s, p->lane[k].z, p->zf, bytes));
    check(fli_cuda_wait(s));
}

/* Of the last of the lanes, after one turn. */
static double error_of(fli_stream s, problem *p, size_t lanes, int terms)
{
    size_t m = p->net.parameters;
    float *got = malloc(m * sizeof *got);
    double *z = malloc(m * sizeof *z), off = 0, norm = 0;
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
    check(fli_cuda_download(s, got, p->lane[lanes - 1].z, m * sizeof *got));
    check(fli_cuda_wait(s));
    for (size_t i = 0; i < m; i++) {
        off += (got[i] - z[i]) * (got[i] - z[i]);
        norm += z[i] * z[i];
    }
    free(got);
    free(z);
    return sqrt(off / norm);
}

static void measure(fli_stream s, const char *name, const size_t *size, size_t depth, int biased, int terms)
{
    static const uint32_t many[] = {10, 100, 132, 1000};
    problem p = {.net = plain_network(size, depth, biased)};
    make_samples(s, &p);
    make_lanes(s, &p, terms);
    fli_cuda_lane *lane = there(s, p.lane, LANES_MOST * sizeof *lane);
    if (!fli_cuda_small_fits(FLI_CUDA_F32, &p.net, &p.data, BATCH)) {
        printf("%-22s does not fit\n", name);
        return;
    }
    for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
        reset(s, &p, many[k]);
        fli_cuda_small_turns(s, FLI_CUDA_F32, &p.net, &p.data, lane, many[k], BATCH);
        check(fli_cuda_wait(s) || fli_cuda_last());
        double error = error_of(s, &p, many[k], terms), begin = fli_clock_now();
        for (int i = 0; i < REPEATS; i++) fli_cuda_small_turns(s, FLI_CUDA_F32, &p.net, &p.data, lane, many[k], BATCH);
        check(fli_cuda_wait(s));
        double step = (fli_clock_now() - begin) / REPEATS / STEPS * 1e6;
        check(fli_cuda_last());
        printf("%-22s %5u lanes  %8.2f us per step of all  %8.4f us per client-step   error %.1e\n", name, many[k],
               step, step / many[k], error);
    }
}

int main(void)
{
    fli_stream s;
    check(fli_cuda_use(0));
    check(fli_cuda_stream_new(&s));
    measure(s, "60-32-10", (size_t[]){60, 32, 10}, 2, 1, 0);
    measure(s, "60-32-10, shift+anchor", (size_t[]){60, 32, 10}, 2, 1, 1);
    measure(s, "softmax 784-10", (size_t[]){784, 10}, 1, 1, 0);
    measure(s, "softmax, shift+anchor", (size_t[]){784, 10}, 1, 1, 1);
    measure(s, "logistic 123", (size_t[]){123, 1}, 1, 0, 0);
    return 0; /* the process ends here; nothing is freed */
}
