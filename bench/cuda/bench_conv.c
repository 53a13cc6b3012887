/* Times convolutions of many lanes on a GPU, the two of the CIFAR network at a mini-batch of 50, and measures their
 * distance from double precision. An argument is fli_cuda_conv_quads. By hand:
 *
 *     nvcc -O3 -arch=sm_90 -D_GNU_SOURCE -Isrc -Iinclude bench/cuda/bench_conv.c src/cuda/kernels/conv*.cu \
 *         src/cuda/runtime.c src/base/number.c -o bench_conv && ./bench_conv */
#include "cuda/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 50, ROOM = 56, MOST = 100 };

typedef struct {
    const char *name;
    fli_net_layer l, pool;
    int chw;
} layer;

static const layer layers[] = {
    {"conv1",
     {.kind = FLI_NET_CONV,
      .relu = 1,
      .in = {3, 24, 24},
      .out = {64, 24, 24},
      .kernel = 5,
      .stride = 1,
      .pad = 2,
      .weight = 0,
      .bias = 64 * 75,
      .biased = 1},
     {.kind = FLI_NET_MAX_POOL, .in = {64, 24, 24}, .out = {64, 12, 12}, .kernel = 2, .stride = 2},
     0},
    {"conv2",
     {.kind = FLI_NET_CONV,
      .relu = 1,
      .in = {64, 12, 12},
      .out = {64, 12, 12},
      .kernel = 5,
      .stride = 1,
      .pad = 2,
      .weight = 0,
      .bias = 64 * 1600,
      .biased = 1},
     {.kind = FLI_NET_MAX_POOL, .in = {64, 12, 12}, .out = {64, 6, 6}, .kernel = 2, .stride = 2},
     1},
};

static const char *const op_names[] = {"forward", "backward", "step"};
enum { FORWARD, BACKWARD, STEP, OPS };

static void must(int code)
{
    if (!code) return;
    fprintf(stderr, "%s\n", fli_cuda_error(code));
    exit(1);
}

static uint32_t seed = 1;
static double drawn(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 23) - 1;
}

/* A layer's memory on the device, in one type. */
typedef struct {
    const layer *of;
    fli_cuda_type type;
    size_t parameters, in_size, out_size;
    void *z, *gradient, *in, *out, *error, *below, *work;
    unsigned char *which;
    fli_cuda_lane *lane;
    fli_cuda_batch batch;
} bench;

static fli_cuda_stream stream;

static void *put(fli_cuda_type type, size_t n, const float *x)
{
    void *p, *raw = malloc(n * sizeof(double));
    size_t size = n * (type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float));
    for (size_t i = 0; i < n; i++)
        if (type == FLI_CUDA_F64)
            ((double *)raw)[i] = x[i];
        else
            ((float *)raw)[i] = x[i];
    must(fli_cuda_alloc(size, &p));
    must(fli_cuda_upload(stream, p, raw, size));
    must(fli_cuda_wait(stream));
    free(raw);
    return p;
}

static double *get(fli_cuda_type type, size_t n, const void *p)
{
    void *raw = malloc(n * sizeof(double));
    double *x = malloc(n * sizeof *x);
    must(fli_cuda_last());
    must(fli_cuda_download(stream, raw, p, n * (type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float))));
    must(fli_cuda_wait(stream));
    for (size_t i = 0; i < n; i++) x[i] = type == FLI_CUDA_F64 ? ((double *)raw)[i] : (double)((float *)raw)[i];
    free(raw);
    return x;
}

/* The same reals in every type, from the same seed. */
static void *random_reals(fli_cuda_type type, size_t n, double scale)
{
    float *x = malloc(n * sizeof *x);
    seed = (uint32_t)n;
    for (size_t i = 0; i < n; i++) x[i] = (float)(drawn() * scale);
    void *p = put(type, n, x);
    free(x);
    return p;
}

static void lanes_begin(bench *b, uint32_t lanes, int gradient)
{
    size_t size = b->parameters * (b->type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float));
    fli_cuda_lane lane[MOST] = {{0}};
    void *p;
    for (size_t i = 0; i < lanes; i++) {
        lane[i].z = (char *)b->z + i * size;
        lane[i].gradient = gradient ? (char *)b->gradient + i * size : NULL;
        lane[i].lr = 1e-9, lane[i].n = BATCH, lane[i].size = BATCH;
    }
    must(fli_cuda_alloc(sizeof lane, &p));
    b->lane = p;
    must(fli_cuda_upload(stream, p, lane, sizeof lane));
    must(fli_cuda_wait(stream));
    b->batch = (fli_cuda_batch){.lane = b->lane, .lanes = lanes, .most = BATCH, .room = ROOM};
}

static void bench_begin(bench *b, const layer *of, fli_cuda_type type, uint32_t lanes, int gradient)
{
    size_t rows = (size_t)lanes * ROOM, filters = of->l.out[0];
    void *p;
    *b = (bench){.of = of, .type = type};
    b->parameters = of->l.bias + filters, b->in_size = fli_net_in(&of->l), b->out_size = fli_net_out(&of->pool);
    b->z = random_reals(type, lanes * b->parameters, sqrt(3.0 * (double)filters / (double)of->l.bias));
    b->in = random_reals(type, rows * b->in_size, 1);
    b->error = random_reals(type, rows * b->out_size, 1);
    b->out = random_reals(type, rows * b->out_size, 1);
    b->below = random_reals(type, rows * b->in_size, 1);
    b->gradient = random_reals(type, lanes * b->parameters, 1);
    must(fli_cuda_alloc(rows * b->out_size, &p));
    b->which = p;
    must(fli_cuda_alloc(fli_cuda_conv_work(type, &of->l, &of->pool, lanes, ROOM) + 256, &b->work));
    lanes_begin(b, lanes, gradient);
}

static void bench_end(bench *b)
{
    void *all[] = {b->z, b->gradient, b->in, b->out, b->error, b->below, b->work, b->which, b->lane};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_cuda_release(all[i]);
}

static void call(const bench *b, int op)
{
    const fli_net_layer *l = &b->of->l, *pool = &b->of->pool;
    int chw = b->of->chw;
    if (op == FORWARD)
        fli_cuda_conv_forward(stream, b->type, l, pool, &b->batch, b->in, chw, b->which, b->out, b->work);
    else if (op == BACKWARD)
        fli_cuda_conv_backward(stream, b->type, l, pool, &b->batch, b->error, chw, b->which, b->in, b->below, b->work);
    else
        fli_cuda_conv_step(stream, b->type, l, pool, &b->batch, b->error, chw, b->which, b->in, 0, b->work);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds per call: the best of a few series. */
static double seconds(const bench *b, int op, int calls)
{
    double best = 1e9;
    for (int series = 0; series < 4; series++) {
        double from = now();
        for (int i = 0; i < calls; i++) call(b, op);
        must(fli_cuda_last());
        must(fli_cuda_wait(stream));
        double each = (now() - from) / calls;
        if (series && each < best) best = each; /* the first one warms up */
    }
    return best;
}

static double times(const layer *of, fli_cuda_type type, uint32_t lanes)
{
    bench b;
    double all = 0, flops = 2.0 * BATCH * (double)(fli_net_out(&of->l) * of->l.in[0] * of->l.kernel * of->l.kernel);
    bench_begin(&b, of, type, lanes, 0);
    call(&b, FORWARD); /* for `which` */
    for (int op = 0; op < OPS; op++) {
        if (op == BACKWARD && of == &layers[0]) continue;
        double t = seconds(&b, op, lanes > 10 ? 10 : 50) / lanes;
        printf("%s %-4s %3u lanes  %-8s %7.2f us per lane  %6.1f TFLOP/s\n", of->name,
               type == FLI_CUDA_F32 ? "f32" : "tf32", lanes, op_names[op], 1e6 * t, 1e-12 * flops / t);
        all += t;
    }
    bench_end(&b);
    return all;
}

/* ||a - b|| / ||b|| over the rows of lanes; size: reals of a row, `rows` of `room` rows count. */
static double distance(const double *a, const double *b, size_t lanes, size_t room, size_t rows, size_t size)
{
    double apart = 0, norm = 0;
    for (size_t l = 0; l < lanes; l++)
        for (size_t i = l * room * size; i < (l * room + rows) * size; i++)
            apart += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
    return sqrt(apart / norm);
}

static void errors(const layer *of, fli_cuda_type type)
{
    enum { LANES = 2 };
    bench b, exact;
    bench_begin(&b, of, type, LANES, 1);
    bench_begin(&exact, of, FLI_CUDA_F64, LANES, 1);
    double far[OPS];
    for (int op = 0; op < OPS; op++) {
        call(&b, op);
        call(&exact, op);
        if (op == FORWARD) must(fli_cuda_move(stream, exact.which, b.which, (size_t)LANES * ROOM * b.out_size));
        size_t size = op == FORWARD ? b.out_size : op == BACKWARD ? b.in_size : b.parameters;
        size_t room = op == STEP ? 1 : ROOM, rows = op == STEP ? 1 : BATCH;
        double *x = get(type, LANES * room * size, op == FORWARD ? b.out : op == BACKWARD ? b.below : b.gradient);
        double *y = get(FLI_CUDA_F64, LANES * room * size,
                        op == FORWARD    ? exact.out
                        : op == BACKWARD ? exact.below
                                         : exact.gradient);
        far[op] = distance(x, y, LANES, room, rows, size);
        free(x), free(y);
    }
    printf("%s %-4s error: forward %.2g, backward %.2g, gradient %.2g\n", of->name,
           type == FLI_CUDA_F32 ? "f32" : "tf32", far[FORWARD], far[BACKWARD], far[STEP]);
    bench_end(&b), bench_end(&exact);
}

int main(int argc, char **argv)
{
    fli_cuda_conv_quads = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    must(fli_cuda_use(0));
    must(fli_cuda_stream_new(&stream));
    for (int type = FLI_CUDA_F32; type <= FLI_CUDA_TF32; type++)
        for (int i = 0; i < 2; i++) errors(&layers[i], (fli_cuda_type)type);
    for (int type = FLI_CUDA_F32; type <= FLI_CUDA_TF32; type++)
        for (uint32_t lanes = 10; lanes <= MOST; lanes *= 10) {
            double all = times(&layers[0], (fli_cuda_type)type, lanes) + times(&layers[1], (fli_cuda_type)type, lanes);
            printf("both  %-4s %3u lanes  %.1f us per client-step\n", type == FLI_CUDA_F32 ? "f32" : "tf32", lanes,
                   1e6 * all);
        }
    fli_cuda_stream_free(stream);
    return 0;
}
