/* A local step of a convolutional network (gather, forward, backward, update), and its share of the speed of the
 * machine's fastest matrix product, on one thread and on two. Then its convolutions one by one, with each
 * implementation. All take turns within one run, so that other work on the machine affects all, and the fastest of each
 * counts. */
#include "base/os.h"
#include "model/conv.h"
#include "model/model.h"
#include "solve.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    SAMPLES = 500,
    BATCH = 50,
    CHANNELS = 3,
    SIDE = 32,
    CLASSES = 10,
    THREADS = 2,
    TURNS = 15,
    STEPS = 4,
    PEAK = 1024
};

static const char layers[] = "conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192";

/* Floating-point operations of one sample: twice the multiplications, forward, for the weights, and for the input
 * except at the first layer. */
static const double flops =
    2.0 * (28 * 28 * 64 * 75 * 2.0 + 10 * 10 * 64 * 1600 * 3.0 + 3.0 * (1600 * 384 + 384 * 192 + 192 * 10));

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_model *model;
    fli_fed *fed;
    fli_view view;
    solving worker[THREADS];
    void *start, *a, *b, *c;
} bench;

static fl_status make_fed(bench *b)
{
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_rng r;
    fl_status s = fli_dataset_new(b->ctx, FLI_X_U8, SAMPLES, CHANNELS * SIDE * SIDE, CLASSES, &ds);
    if (s) return s;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < SAMPLES * ds->dim; i++) ((uint8_t *)ds->x)[i] = (uint8_t)fli_rng_u32(&r);
    for (size_t i = 0; i < SAMPLES; i++) ds->label[i] = (int32_t)fli_rng_below(&r, CLASSES);
    ds->shape[0] = CHANNELS;
    ds->shape[1] = ds->shape[2] = SIDE;
    part.start = fli_alloc(b->ctx, 2, sizeof *part.start);
    part.index = fli_alloc(b->ctx, SAMPLES, sizeof *part.index);
    if (!part.start || !part.index) return FL_ENOMEM;
    part.start[1] = SAMPLES;
    for (size_t i = 0; i < SAMPLES; i++) part.index[i] = (uint32_t)i;
    return fli_fed_take(b->ctx, ds, NULL, &part, &b->fed);
}

static fl_status make_model(bench *b)
{
    const fli_model_desc *d = NULL;
    for (size_t i = 0; fli_model_list[i]; i++)
        if (!strcmp(fli_model_list[i]->name, "cnn")) d = fli_model_list[i];
    fli_arena_init(&b->arena, b->ctx);
    fli_node *map = fli_node_new(&b->arena, FLI_NODE_MAP, NULL, NULL);
    fli_node *node = fli_node_new(&b->arena, FLI_NODE_SCALAR, "layers", layers);
    void *params = fli_arena_alloc(&b->arena, 1, d->params_size);
    if (!map || !node || !params) return FL_ENOMEM;
    fli_node_append(map, node);
    fl_status s = fli_bind(b->ctx, &b->arena, "model", map, NULL, &(fli_table){d->keys, params}, 1);
    if (!s) s = fli_model_new_for(b->ctx, d, params, &fli_ops_f32, b->fed->train->shape, CLASSES, 1e-3, &b->model);
    return s;
}

static fl_status setup(bench *b)
{
    fli_sgd_spec sgd = {BATCH, 0, 0};
    fl_status s = make_fed(b);
    if (!s) s = make_model(b);
    for (size_t i = 0; !s && i < THREADS; i++)
        s = solving_init(b->ctx, &fli_solver_sgd, b->model, &sgd, SAMPLES, &b->worker[i]);
    if (!s) s = fli_view_open(b->ctx, b->fed, 0, &b->view);
    if (s) return s;
    b->start = fli_alloc(b->ctx, b->model->space.n, 4);
    b->a = fli_alloc(b->ctx, PEAK * PEAK, 4);
    b->b = fli_alloc(b->ctx, PEAK * PEAK, 4);
    b->c = fli_alloc(b->ctx, PEAK * PEAK, 4);
    return b->start && b->a && b->b && b->c ? fli_model_start(b->ctx, b->model, 1, b->start) : FL_ENOMEM;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

typedef struct {
    bench *b;
    solving *w;
} job;

static void *steps(void *arg)
{
    job *j = arg;
    fli_rng rng;
    fl_answer answer;
    fl_problem p = {.start = j->b->start, .lr = 0.01, .steps = STEPS};
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    solving_solve(j->b->ctx, j->w, &j->b->view, &p, &rng, NULL, &answer);
    return NULL;
}

/* Seconds per step when this many threads take steps at once. */
static double time_steps(bench *b, size_t threads)
{
    pthread_t thread[THREADS];
    job jobs[THREADS];
    size_t started = 0;
    double begin = fli_clock_now();
    for (size_t i = 0; i < threads; i++) jobs[i] = (job){b, &b->worker[i]};
    while (started + 1 < threads && !pthread_create(&thread[started], NULL, steps, &jobs[started + 1])) started++;
    steps(&jobs[0]);
    for (size_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
    return (fli_clock_now() - begin) / STEPS / (double)(started + 1);
}

static double time_peak(bench *b)
{
    double begin = fli_clock_now();
    fli_ops_f32.gemm(0, 0, PEAK, PEAK, PEAK, 1, b->a, PEAK, b->b, PEAK, 0, b->c, PEAK);
    return fli_clock_now() - begin;
}

static double fastest(double a, double b) { return b < a ? b : a; }

static void measure_steps(bench *b)
{
    double one = 1e9, two = 1e9, peak = 1e9;
    for (size_t i = 0; i < TURNS; i++) {
        one = fastest(one, time_steps(b, 1));
        peak = fastest(peak, time_peak(b));
        two = fastest(two, time_steps(b, 2));
    }
    double rate = BATCH * flops / one * 1e-9, most = 2.0 * PEAK * PEAK * PEAK / peak * 1e-9;
    printf("  %s, batch %d: step %.1f ms, %.1f GFLOP/s, %.0f%% of SGEMM's %.1f\n", layers, BATCH, one * 1e3, rate,
           100 * rate / most, most);
    printf("  two threads at once: %.1f ms per step, speed-up %.2f\n", two * 1e3, one / two);
}

/* ---- convolutions --------------------------------------------------------------------------------------- */

typedef struct {
    const fli_conv_kind *kind;
    void *conv, *x, *z, *w, *packed, *work;
    double best[3];
} subject;

static fl_status open_subject(fl_ctx *ctx, const fli_conv_shape *s, const fli_conv_kind *kind, subject *t)
{
    *t = (subject){.kind = kind, .best = {1e9, 1e9, 1e9}};
    fl_status status = kind->make(ctx, s, &fli_ops_f32, &t->conv);
    if (status) return status;
    t->x = fli_alloc(ctx, FLI_CONV_PIECE * s->in.channels * s->in.height * s->in.width, 4);
    t->z = fli_alloc(ctx, FLI_CONV_PIECE * s->outs * s->in.out_height * s->in.out_width, 4);
    t->w = fli_alloc(ctx, s->outs * s->in.channels * s->in.kernel * s->in.kernel, 4);
    t->packed = fli_alloc(ctx, kind->packed(t->conv), 4);
    t->work = fli_alloc(ctx, kind->work(t->conv), 4);
    return t->x && t->z && t->w && t->packed && t->work ? FL_OK : FL_ENOMEM;
}

static void turn(subject *t)
{
    double at[4];
    t->kind->pack(t->conv, FLI_CONV_FORWARD, t->w, t->packed, t->work);
    at[0] = fli_clock_now();
    t->kind->forward(t->conv, FLI_CONV_PIECE, t->packed, t->x, t->z, t->work);
    at[1] = fli_clock_now();
    t->kind->gradient(t->conv, FLI_CONV_PIECE, t->x, t->z, 0, t->packed, t->work);
    at[2] = fli_clock_now();
    t->kind->pack(t->conv, FLI_CONV_BACKWARD, t->w, t->packed, t->work);
    double skip = fli_clock_now() - at[2];
    t->kind->backward(t->conv, FLI_CONV_PIECE, t->packed, t->z, t->x, t->work);
    at[3] = fli_clock_now() - skip;
    for (size_t i = 0; i < 3; i++) t->best[i] = fastest(t->best[i], at[i + 1] - at[i]);
}

static fl_status measure_conv(fl_ctx *ctx, size_t channels, size_t side, size_t outs, size_t kernel)
{
    const fli_conv_kind *kinds[] = {&fli_conv_plain, fli_conv_onednn};
    fli_conv_shape s = {.outs = outs};
    subject t[2] = {{0}};
    fl_status status = FL_OK;
    fli_window_init(&s.in, channels, side, side, kernel, 1, 0);
    double work =
        2e-9 * FLI_CONV_PIECE * (double)(s.in.out_height * s.in.out_width * outs * channels * kernel * kernel);
    for (size_t k = 0; !status && k < 2; k++)
        if (kinds[k]) status = open_subject(ctx, &s, kinds[k], &t[k]);
    for (size_t i = 0; !status && i < TURNS; i++)
        for (size_t k = 0; k < 2; k++)
            if (kinds[k]) turn(&t[k]);
    for (size_t k = 0; !status && k < 2; k++)
        if (kinds[k])
            printf("  conv %zux%zu over %zux%zux%zu, %-6s  forward %6.1f   weights %6.1f   input %6.1f GFLOP/s\n", outs,
                   kernel, channels, side, side, kinds[k]->name, work / t[k].best[0], work / t[k].best[1],
                   work / t[k].best[2]);
    return status;
}

int main(void)
{
    bench b = {.ctx = fl_ctx_new()};
    fl_status s = b.ctx ? setup(&b) : FL_ENOMEM;
    if (!s) measure_steps(&b);
    if (!s) s = measure_conv(b.ctx, 3, 32, 64, 5);
    if (!s) s = measure_conv(b.ctx, 64, 14, 64, 5);
    if (s) fprintf(stderr, "bench: %s\n", b.ctx ? fl_ctx_error(b.ctx) : "out of memory");
    return s != FL_OK; /* the process ends here, so nothing is freed */
}
