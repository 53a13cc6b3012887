/* Schedules that count local steps: sizes by the formula, whatever the number of steps, and runs that follow it step by
 * step, whoever takes part, through either executor. */
#include "runs.h"
#include "solve.h"

enum { DIM = 3, CLIENTS = 4, ROUNDS = 5, STEPS = 3 };

static const char base[] = "rounds: 5\nthreads: 1\nprecision: f64\nseed: 3\nalgorithm: fedavg\nweights: uniform\n"
                           "data: {kind: linreg, clients: 4, features: 3, min_size: 5, max_size: 9}\n"
                           "model: {kind: least_squares, weight_decay: 0.1}\n"
                           "participation: {kind: cyclic, count: 2}\nmetrics: {test: false}\n"
                           "local: {steps: 3, batch: 0, lr: 0.1, schedule: log2, schedule_by: step}\n";

static void schedule_means_average_the_steps(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        for (uint64_t from = 0; from < 12; from += 4) {
            fli_schedule s = {kind, 0.9, 1};
            double sum = 0;
            for (uint64_t k = from + 1; k <= from + 4; k++) sum += fli_schedule_lr(&s, 1, (double)k);
            assert_near(fli_schedule_mean(&s, from, 4), sum / 4, 1e-15);
            assert_near(fli_schedule_mean(&s, from, 1), fli_schedule_lr(&s, 1, (double)from + 1), 1e-16);
            assert_near(fli_schedule_mean(&s, from, 0), fli_schedule_lr(&s, 1, (double)from + 1), 1e-16);
        }
}

/* z -= lr grad f_i(z) */
static void step(const fli_view *v, double lr, double *z)
{
    double a[DIM], g[DIM];
    for (size_t j = 0; j < DIM; j++) g[j] = 0.1 * z[j];
    for (size_t s = 0; s < v->n_train; s++) {
        fli_dataset_row(v->ds, v->train[s], a);
        double residual = -v->ds->target[v->train[s]];
        for (size_t j = 0; j < DIM; j++) residual += a[j] * z[j];
        for (size_t j = 0; j < DIM; j++) g[j] += residual * a[j] / (double)v->n_train;
    }
    for (size_t j = 0; j < DIM; j++) z[j] -= lr * g[j];
}

/* Round r takes steps 3 r + 1 to 3 r + 3 of all, also at clients that were away. */
static void by_hand(fixture *f, const fl_run *run, double *x)
{
    for (size_t r = 0; r < ROUNDS; r++) {
        double sum[DIM] = {0};
        for (size_t c = 0; c < 2; c++) {
            fli_view v;
            double z[DIM];
            assert_ok(f->ctx, fli_view_open(f->ctx, run->plan.fed, (2 * r + c) % CLIENTS, &v));
            memcpy(z, x, sizeof z);
            for (size_t k = 1; k <= STEPS; k++) step(&v, 0.1 / log2((double)(STEPS * r + k) + 1), z);
            for (size_t j = 0; j < DIM; j++) sum[j] += z[j] / 2;
            fli_view_close(&v);
        }
        memcpy(x, sum, sizeof sum);
    }
}

static void steps_are_counted(void **state)
{
    static const char *const executors[] = {"executor=threads", "executor=loopback"};
    for (size_t i = 0; i < 2; i++) {
        double want[DIM] = {0}, *got;
        fl_run *run = run_done(*state, base, executors[i]);
        by_hand(*state, run, want);
        got = fli_exec_server(run->exec)[0];
        for (size_t j = 0; j < DIM; j++) assert_near(got[j], want[j], 1e-14);
        fl_run_free(run);
    }
}

/* With one step a round, rounds and steps are the same. */
static void one_step(void **state)
{
    fl_run *a = run_done(*state, base, "local.steps=1");
    fl_run *b = run_done(*state, base, "local.steps=1;local.schedule_by=round");
    fl_run *c = run_done(*state, base, "local.schedule_by=round");
    const double *x = fli_exec_server(a->exec)[0], *y = fli_exec_server(b->exec)[0], *z = fli_exec_server(c->exec)[0];
    for (size_t j = 0; j < DIM; j++) assert_near(x[j], y[j], 1e-14);
    assert_true(distance(DIM, x, z) > 1e-3);
    fl_run_free(a);
    fl_run_free(b);
    fl_run_free(c);
}

/* Samples of zeros leave the problem's linear term alone, whose gradient is `shift` everywhere: so
 * z = start - lr weight shift, with momentum and without. */
static void weights_add_up(void **state)
{
    fixture *f = *state;
    fli_fed *fed = random_fed(f->ctx, 1, (size_t[]){5}, DIM, 0, 3);
    memset(fed->train->x, 0, 5 * DIM * sizeof(double));
    for (int momentum = 0; momentum < 2; momentum++) {
        fli_sgd_spec spec = {.momentum = momentum ? 0.8 : 0, .schedule = {2, 0, 1}};
        fli_model *model = NULL;
        solving sgd;
        fli_view v;
        fl_answer a;
        double start[DIM] = {1, 2, 3}, shift[DIM] = {-1, 0.5, 2};
        fl_problem p = {.start = start, .shift = shift, .lr = 0.1, .steps = 7};
        assert_ok(f->ctx, fli_model_new(f->ctx, model_named("least_squares"), NULL, &fli_ops_f64, DIM, 0, 0, &model));
        assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_sgd, model, &spec, 5, &sgd));
        assert_ok(f->ctx, fli_view_open(f->ctx, fed, 0, &v));
        sgd.task.taken = 20;
        assert_ok(f->ctx, solving_solve(f->ctx, &sgd, &v, &p, NULL, NULL, &a));
        for (size_t j = 0; j < DIM; j++)
            assert_near(((const double *)a.z)[j], start[j] - 0.1 * a.weight * shift[j], 1e-14);
        if (momentum) assert_true(fabs(a.weight - fli_sgd_weight(0.8, 7)) > 0.01); /* the sizes matter */
        fli_view_close(&v);
        solving_fini(&sgd);
        fli_model_free(model);
    }
    fli_fed_free(fed);
}

/* A schedule that has fallen to 0 takes steps of 0; and weight decay by mini-batch where all samples have a y. */
static void nothing_is_divided_by_nothing(void **state)
{
    static const char *const sets[] = {
        "local.schedule=exponential;local.decay=1e-200;rounds=3",
        ("data={kind: blobs, classes: 3, features: 4, samples: 60, normalize: given, mean: -9, std: 1};"
         "partition={kind: iid, clients: 4};model={kind: factorization, rank: 3, weight_decay_by: batch};"
         "algorithm=fedvra-u;local={batch: 4, lr: 0.01};regularizer=nonnegative"),
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        fl_run *run = run_done(*state, base, sets[k]);
        assert_true(isfinite(fl_row_get(fl_run_row(run), "train_loss")));
        fl_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(schedule_means_average_the_steps),
        FIXTURE_TEST(steps_are_counted),
        FIXTURE_TEST(one_step),
        FIXTURE_TEST(weights_add_up),
        FIXTURE_TEST(nothing_is_divided_by_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
