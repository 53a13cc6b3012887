/* A local step (gather, forward, backward, update) of a network on one thread, beside the time of its bare GEMMs alone.
 * Both alternate in one run, so that other work on the machine affects both, and the medians are compared. */
#include "base/os.h"
#include "model/model.h"
#include "solve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 600, MOST_REPEATS = 401 };

typedef struct {
    fli_arena arena;
    fli_model *model;
    fli_fed *fed;
    solving worker;
    fli_view view;
    size_t in, hidden, out, batch;
    void *start, *gemm_x, *gemm_h, *gemm_z, *gemm_w1, *gemm_w2;
} bench;

static const fli_model_desc *mlp(void)
{
    for (size_t i = 0; fli_model_list[i]; i++)
        if (!strcmp(fli_model_list[i]->name, "mlp")) return fli_model_list[i];
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return v[n / 2];
}

static fl_status make_fed(fl_ctx *ctx, bench *b)
{
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_rng r;
    fl_status s = fli_dataset_new(ctx, FLI_X_U8, SAMPLES, b->in, b->out, &ds);
    if (s) return s;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < SAMPLES * b->in; i++) ((uint8_t *)ds->x)[i] = (uint8_t)fli_rng_u32(&r);
    for (size_t i = 0; i < SAMPLES; i++) ds->label[i] = (int32_t)fli_rng_below(&r, b->out);
    ds->segments = 1;
    ds->scale = fli_alloc(ctx, 1, sizeof(double));
    ds->shift = fli_alloc(ctx, 1, sizeof(double));
    part.start = fli_alloc(ctx, 2, sizeof *part.start);
    part.index = fli_alloc(ctx, SAMPLES, sizeof *part.index);
    if (!ds->scale || !ds->shift || !part.start || !part.index) return FL_ENOMEM;
    ds->scale[0] = 1.0 / 255;
    part.start[1] = SAMPLES;
    for (size_t i = 0; i < SAMPLES; i++) part.index[i] = (uint32_t)i;
    return fli_fed_take(ctx, ds, NULL, &part, &b->fed);
}

/* The settings of a network with one hidden layer, bound as a configuration file's would be. */
static fl_status bind_hidden(fl_ctx *ctx, bench *b, void **params)
{
    char width[32];
    snprintf(width, sizeof width, "%zu", b->hidden);
    fli_node *map = fli_node_new(&b->arena, FLI_NODE_MAP, NULL, NULL);
    fli_node *hidden = fli_node_new(&b->arena, FLI_NODE_SCALAR, "hidden", width);
    *params = fli_arena_alloc(&b->arena, 1, mlp()->params_size);
    if (!map || !hidden || !*params) return FL_ENOMEM;
    fli_node_append(map, hidden);
    return fli_bind(ctx, &b->arena, "model", map, NULL, &(fli_table){mlp()->keys, *params}, 1);
}

static fl_status setup(fl_ctx *ctx, bench *b)
{
    fli_sgd_spec sgd = {b->batch, 0};
    void *params = NULL;
    fl_status s;
    fli_arena_init(&b->arena, ctx);
    if ((s = bind_hidden(ctx, b, &params)) || (s = make_fed(ctx, b)) ||
        (s = fli_model_new(ctx, mlp(), params, &fli_ops_f32, b->in, b->out, 1e-4, &b->model)) ||
        (s = solving_init(ctx, &fli_solver_sgd, b->model, &sgd, SAMPLES, &b->worker)) ||
        (s = fli_view_open(ctx, b->fed, 0, &b->view)))
        return s;
    b->start = fli_alloc(ctx, b->model->space.n, 4);
    b->gemm_x = fli_alloc(ctx, b->batch * b->in, 4);
    b->gemm_h = fli_alloc(ctx, b->batch * b->hidden, 4);
    b->gemm_z = fli_alloc(ctx, b->batch * b->out, 4);
    b->gemm_w1 = fli_alloc(ctx, b->in * b->hidden, 4);
    b->gemm_w2 = fli_alloc(ctx, b->hidden * b->out, 4);
    return fli_model_start(ctx, b->model, 1, b->start);
}

static double time_steps(fl_ctx *ctx, bench *b, size_t steps)
{
    fli_rng rng;
    fl_answer answer;
    fl_problem p = {.start = b->start, .lr = 0.01, .steps = steps};
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    double begin = fli_clock_now();
    solving_solve(ctx, &b->worker, &b->view, &p, &rng, NULL, &answer);
    return (fli_clock_now() - begin) / (double)steps;
}

/* The five products of one step: forward twice, weight gradients twice, the hidden layer's error once. */
static double time_gemms(bench *b, size_t steps)
{
    const fli_ops *o = &fli_ops_f32;
    size_t n = b->batch, in = b->in, hid = b->hidden, out = b->out;
    double begin = fli_clock_now();
    for (size_t k = 0; k < steps; k++) {
        o->gemm(0, 1, n, hid, in, 1, b->gemm_x, in, b->gemm_w1, in, 0, b->gemm_h, hid);
        o->gemm(0, 1, n, out, hid, 1, b->gemm_h, hid, b->gemm_w2, hid, 0, b->gemm_z, out);
        o->gemm(1, 0, out, hid, n, 1, b->gemm_z, out, b->gemm_h, hid, 0, b->gemm_w2, hid);
        o->gemm(0, 0, n, hid, out, 1, b->gemm_z, out, b->gemm_w2, hid, 0, b->gemm_h, hid);
        o->gemm(1, 0, hid, in, n, 1, b->gemm_h, hid, b->gemm_x, in, 0, b->gemm_w1, in);
    }
    return (fli_clock_now() - begin) / (double)steps;
}

static int measure(size_t in, size_t hidden, size_t out, size_t batch, size_t steps, size_t repeats)
{
    double step[MOST_REPEATS], gemm[MOST_REPEATS];
    bench b = {.in = in, .hidden = hidden, .out = out, .batch = batch};
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx || setup(ctx, &b)) {
        fprintf(stderr, "bench: %s\n", ctx ? fl_ctx_error(ctx) : "out of memory");
        return 1;
    }
    time_steps(ctx, &b, steps);
    time_gemms(&b, steps);
    for (size_t i = 0; i < repeats; i++) {
        step[i] = time_steps(ctx, &b, steps);
        gemm[i] = time_gemms(&b, steps);
    }
    double s = median(step, repeats), g = median(gemm, repeats);
    double flops = 2.0 * (double)batch * ((double)in * (double)hidden * 2 + (double)hidden * (double)out * 3);
    printf("%zu-%zu-%zu batch %-3zu  step %8.2f us   bare GEMMs %8.2f us   ratio %.2f   %6.1f GFLOP/s\n", in, hidden,
           out, batch, s * 1e6, g * 1e6, s / g, flops / s * 1e-9);
    return 0; /* the process ends here, so nothing is freed */
}

int main(void) { return measure(784, 200, 10, 50, 24, 101) || measure(60, 32, 10, 10, 240, 201); }
