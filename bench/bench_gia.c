/* FedGiA. First a client's turn: the k0 inner steps one by one with the Cholesky factor, and all at once with
 * eigenvalues, compared with the gradient at the start of both. Then [GiA] Example V.1 with 64 clients, from a
 * configuration and loaded data to the stop rule: set-up, factors, rounds and measurements, on two threads. Prints the
 * fastest of several runs, which was disturbed least, and the smallest processor time, which other work on the machine
 * changes less. */
#include "base/os.h"
#include "solver/gram.h"
#include "config/config.h"
#include "run/state.h"
#include "solve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 60, FEATURES = 100 };

static int failed(fl_ctx *ctx)
{
    fprintf(stderr, "bench: %s\n", fl_ctx_error(ctx));
    return 1;
}

/* ---- a turn ------------------------------------------------------------------------------------------------ */

typedef struct {
    fl_ctx *ctx;
    fli_fed *fed;
    fli_model *model;
    solving worker;
    fli_view view;
    double x[FEATURES], shift[FEATURES];
} bench;

static fl_status one_client(bench *b, size_t samples)
{
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_rng r;
    fl_status s = fli_dataset_new(b->ctx, FLI_X_F64, samples, FEATURES, 0, &ds);
    if (s) return s;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < samples * FEATURES; i++) ((double *)ds->x)[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < samples; i++) ds->target[i] = fli_rng_normal(&r);
    part.start = fli_alloc(b->ctx, 2, sizeof *part.start);
    part.index = fli_alloc(b->ctx, samples, sizeof *part.index);
    if (!part.start || !part.index) return FL_ENOMEM;
    part.start[1] = samples;
    for (size_t i = 0; i < samples; i++) part.index[i] = (uint32_t)i;
    return fli_fed_take(b->ctx, ds, NULL, &part, &b->fed);
}

static fl_status setup(bench *b, size_t samples)
{
    const fli_model_desc *d = fli_model_list[0];
    for (size_t i = 0; strcmp(d->name, "least_squares"); i++) d = fli_model_list[i];
    fl_status s = one_client(b, samples);
    if (!s) s = fli_model_new(b->ctx, d, NULL, &fli_ops_f64, FEATURES, 0, 0, &b->model);
    if (!s) s = solving_init(b->ctx, &fli_solver_gram, b->model, &(fli_sgd_spec){0}, samples, &b->worker);
    return s ? s : fli_view_open(b->ctx, b->fed, 0, &b->view);
}

/* Seconds of the first turn, which prepares, and of a later one. */
static fl_status time_turn(bench *b, size_t k0, size_t patience, double *first, double *later)
{
    fl_problem p = {.start = b->x, .shift = b->shift, .rho = 0.5, .steps = k0};
    fli_rng rng;
    void *cache = NULL;
    fl_status s = FL_OK;
    *first = *later = INFINITY;
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    for (size_t i = 0; i < REPEATS && !s; i++) {
        for (size_t turn = 0; turn < 8 && !s; turn++) {
            fli_task *t = solving_pose(&b->worker, &b->view, &p, &rng, &cache);
            double begin = fli_clock_now();
            s = fli_linearised_gram(b->ctx, b->worker.instance, t, patience);
            double *best = turn ? later : first;
            *best = fmin(*best, fli_clock_now() - begin);
        }
        fli_solver_gram.forget(cache);
        cache = NULL;
    }
    return s;
}

static int turns(size_t samples)
{
    static const size_t k0[] = {1, 5, 10, 50};
    bench b = {.ctx = fl_ctx_new()};
    double first, gradient, loop_first, loop, once_first, once;
    if (!b.ctx) return 1;
    if (setup(&b, samples) || time_turn(&b, 0, 0, &first, &gradient)) return failed(b.ctx);
    printf("  %zu samples of %d features, us per turn (gradient alone: %.1f)\n", samples, FEATURES, gradient * 1e6);
    for (size_t i = 0; i < sizeof k0 / sizeof *k0; i++) {
        if (time_turn(&b, k0[i], SIZE_MAX, &loop_first, &loop) || time_turn(&b, k0[i], 0, &once_first, &once))
            return failed(b.ctx);
        printf("    k0 = %-2zu  one by one %6.1f (first %6.1f)   all at once %6.1f (first %6.1f)   saves %.1f x\n",
               k0[i], loop * 1e6, loop_first * 1e6, once * 1e6, once_first * 1e6, loop / once);
    }
    return 0; /* the process ends soon, so nothing is freed */
}

/* ---- a run ------------------------------------------------------------------------------------------------- */

static const char *const problem[] = {"rounds=1000",
                                      "threads=2",
                                      "precision=f64",
                                      "weights=uniform",
                                      "data={kind: linreg, clients: 64, features: 100}",
                                      "partition=natural",
                                      "model=least_squares",
                                      "participation={kind: uniform, fraction: 0.5}",
                                      "metrics={every: 1, test: false, gradient: true, clients: false}",
                                      "stop.gradient2=1e-7",
                                      NULL};

static int whole(const char *variant, int k0)
{
    char algorithm[128];
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fli_plan data;
    fl_status s = cfg ? FL_OK : FL_ENOMEM;
    double best = INFINITY, least = INFINITY;
    size_t rounds = 0;
    snprintf(algorithm, sizeof algorithm, "algorithm={kind: fedgia, variant: %s, k0: %d, t: 0.1}", variant, k0);
    for (size_t i = 0; !s && problem[i]; i++) s = fl_config_set(cfg, problem[i]);
    if (!s) s = fl_config_set(cfg, algorithm);
    if (!s) s = fli_plan_data(cfg, NULL, &data);
    for (size_t i = 0; i < REPEATS && !s; i++) {
        fl_run *run = NULL;
        double begin = fli_clock_now();
        clock_t used = clock();
        s = fli_run_new(cfg, &data, &run);
        if (!s) s = fl_run_go(run, NULL, NULL);
        best = fmin(best, fli_clock_now() - begin);
        least = fmin(least, (double)(clock() - used) / CLOCKS_PER_SEC);
        if (!s) rounds = fl_row_round(fl_run_row(run));
        fl_run_free(run);
    }
    if (s) return failed(ctx);
    printf("  %-8s  k0 = %-2d  %2zu rounds  %6.2f ms  (%6.2f ms of processor time)\n", variant, k0, rounds, best * 1e3,
           least * 1e3);
    return 0;
}

int main(void)
{
    static const int k0[] = {1, 5, 10, 50};
    if (turns(150) || turns(60)) return 1;
    for (size_t i = 0; i < sizeof k0 / sizeof *k0; i++)
        if (whole("gram", k0[i])) return 1;
    for (size_t i = 0; i < sizeof k0 / sizeof *k0; i++)
        if (whole("diagonal", k0[i])) return 1;
    return 0;
}
