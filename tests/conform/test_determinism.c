/* Same seed, same bits: for every algorithm that is listed, whatever the number of threads and whichever the executor.
 * `loopback` gives clients nothing but bytes, so what agrees with it can be sent. */
#include "outcome.h"

#include "algo/algo.h"

static const char base[] =
    "rounds: 4\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true}\n";

/* Runs the base configuration with assignments on top, separated by ';'. */
static outcome run_of(fixture *f, const char *assignments)
{
    fl_run *run = NULL;
    char text[512], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    outcome o = outcome_of(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return o;
}

static void settings(char *out, size_t size, const fli_algo *a, const char *model, const char *precision, int seed,
                     int threads)
{
    snprintf(out, size, "algorithm=%s;participation=%s;model=%s;precision=%s;seed=%d;threads=%d%s", a->name,
             a->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", model, precision, seed, threads,
             levels_for(a, model));
}

static void threads_of(fixture *f, const fli_algo *a, const char *model, const char *precision)
{
    static const int threads[] = {1, 2, 3, 8};
    char text[512];
    settings(text, sizeof text, a, model, precision, 3, 1);
    outcome first = run_of(f, text);
    for (size_t i = 0; i < first.parameters; i++) assert_true(isfinite(first.model[i]));
    assert_int_equal(first.count, 5);
    for (size_t t = 0; t < 4; t++) {
        settings(text, sizeof text, a, model, precision, 3, threads[t]);
        outcome again = run_of(f, text);
        if (!same(&first, &again))
            fail_msg("%s, %s, %s: %d threads give other bits", a->name, model, precision, threads[t]);
        outcome_free(&again);
    }
    settings(text, sizeof text, a, model, precision, 3, 1);
    strcat(text, ";executor=loopback");
    outcome sent = run_of(f, text);
    if (!same(&first, &sent)) fail_msg("%s, %s, %s: loopback gives other bits", a->name, model, precision);
    outcome_free(&sent);
    settings(text, sizeof text, a, model, precision, 4, 1);
    outcome other = run_of(f, text);
    if (!memcmp(first.model, other.model, first.parameters * sizeof *first.model))
        fail_msg("%s, %s, %s: another seed gives the same model", a->name, model, precision);
    outcome_free(&other);
    outcome_free(&first);
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        threads_of(f, *a, "softmax", "f32");
        threads_of(f, *a, "softmax", "f64");
        threads_of(f, *a, "{kind: mlp, hidden: [9, 5]}", "f32");
        threads_of(f, *a, "{kind: mlp, hidden: [9, 5], weight_decay: 0.01}", "f64");
    }
}

/* f32 and f64 start from the same point and go the same way, up to rounding. */
static void precisions_agree(void **state)
{
    fixture *f = *state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        char text[512];
        settings(text, sizeof text, *a, "softmax", "f32", 3, 2);
        outcome single = run_of(f, text);
        settings(text, sizeof text, *a, "softmax", "f64", 3, 2);
        outcome twofold = run_of(f, text);
        for (size_t i = 0; i < single.parameters; i++) assert_near(single.model[i], twofold.model[i], 1e-4);
        assert_memory_not_equal(single.model, twofold.model, single.parameters * sizeof(double));
        outcome_free(&single);
        outcome_free(&twofold);
    }
}

/* Runs with 1, 3 and 8 threads, and with messages as bytes; all must agree. */
static void threads_agree(fixture *f, const char *assignments)
{
    static const char *const ways[] = {"threads=1", "threads=3", "threads=8", "executor=loopback"};
    outcome o[4];
    for (int w = 0; w < 4; w++) {
        char text[512];
        snprintf(text, sizeof text, "%s;%s", assignments, ways[w]);
        o[w] = run_of(f, text);
        if (!same(&o[0], &o[w])) fail_msg("%s: %s gives other bits", assignments, ways[w]);
    }
    for (int w = 0; w < 4; w++) outcome_free(&o[w]);
}

/* Momentum, schedules, the other ways of taking part, data made on demand. */
static void other_settings(void **state)
{
    fixture *f = *state;
    threads_agree(
        f, "model=softmax;participation={kind: bernoulli, probability: 0.4};local.momentum=0.9;local.schedule=sqrt");
    threads_agree(
        f, "model=softmax;participation={kind: weighted, count: 4};local.uneven=speeds;local.schedule=exponential");
    threads_agree(
        f, "model=softmax;participation={kind: cyclic, count: 5};local.batch=0;local.steps=3;algorithm=scaffold");
    threads_agree(f, "model={kind: softmax, weight_decay: 0.5, weight_decay_by: batch};partition={kind: cuts, clients: "
                     "12};local.schedule=log2;local.schedule_by=step;local.uneven=range;local.momentum=0.5");
    threads_agree(f, "model=softmax;participation=everyone;local.batch=1000;algorithm={kind: fedpd, skip: 0.5}");
    threads_agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
                     "5};algorithm={kind: fednest, inner_rounds: 3, neumann: 4, estimate: random}");
    threads_agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
                     "5};algorithm={kind: fednest, inner_rounds: 2, inner_epochs: 2, anchor: full, cohort: each}");
    threads_agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
                     "5};algorithm={kind: lfednest, inner_rounds: 2, outer_epochs: 2, anchor: full, cohort: level}");
    threads_agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
                     "5};algorithm={kind: fbo-aggitd, inner_rounds: 4}");
    threads_agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;metrics.hypergradient=true;rounds=3;"
                     "participation={kind: uniform, count: 5};algorithm=simfbo");
    threads_agree(f,
                  "model=softmax;participation=everyone;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2}");
    threads_agree(f, "model=softmax;participation={kind: bernoulli, probability: 0.3, factors: [1, 2, 0.5]};"
                     "algorithm={kind: fedvra, gamma: 0.1, a: auto, d: auto}");
    threads_agree(f, "model=softmax;data.unlabelled=0.7;semi={labels: projected, label_steps: 3, label_batch: 2};"
                     "algorithm=fedvra-u");
    threads_agree(f, "model={kind: factorization, rank: 4, membership_batch: 3};regularizer=nonnegative;"
                     "algorithm=fedvra-u;local.lr=0.01");
    threads_agree(f, "model={kind: factorization, rank: 4};regularizer=nonnegative;algorithm=fedvra-u;local.lr=0.01");
    threads_agree(f, "model=softmax;participation={kind: uniform, count: 3};algorithm=fedgia;rounds=6");
    threads_agree(f, "data={kind: digits, samples: 240, test_samples: 40, augment: cifar};model={kind: cnn, layers: "
                     "\"conv 5x5 stride 2, pool 2, conv 6x3 same, fc 8\"};algorithm=scaffold;metrics.gradient=false");
    threads_agree(f, "data={kind: digits, samples: 240, test_samples: 40, crop: 17, augment: crop, normalize: image};"
                     "model={kind: cnn, layers: \"conv 6x5 same, pool 2, fc 8\"};algorithm=scaffold");
    threads_agree(f, "data={kind: synthetic, on_demand: true};partition={};model=softmax;algorithm=scaffold;rounds=2");
    /* exact local solutions: 20 features and 10 to 30 samples, so that either factor is among them */
    threads_agree(f, "data={kind: linreg, clients: 100, features: 20, min_size: 10, max_size: 30};partition={};"
                     "model={kind: least_squares, weight_decay: 0.01};regularizer={kind: l1, weight: 0.05};"
                     "algorithm={kind: feddr, eta: 0.1, init: exact, solver: exact}");
    threads_agree(f, "data={kind: linreg, clients: 100, features: 20, min_size: 10, max_size: 30};partition={};"
                     "model={kind: least_squares, weight_decay: 0.01};algorithm={kind: fedgia, variant: gram, k0: 9}");
    threads_agree(f, "model={kind: mlp, hidden: [6]};algorithm={kind: feddr, eta: 0.5, alpha: 1, solver: accurate, "
                     "relative: 0.1, accuracy: 1, most_steps: 30};rounds=3");
}

/* Whether the method, as it is by default, can work with pseudo labels. */
static int takes_labels(fixture *f, const fli_algo *a)
{
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    const void *params = bound(f->ctx, &arena, a->keys, a->params_size, "");
    int takes = 1;
    for (size_t stage = 0; stage < FLI_STAGES; stage++) {
        const fli_solver *solver = a->solver ? a->solver(params, stage) : &fli_solver_sgd;
        takes &= solver->latent || solver->second_block;
    }
    fli_arena_fini(&arena);
    return takes;
}

/* Pseudo labels of either kind, in both precisions, and what clients have of their own. */
static void pseudo_labels(void **state)
{
    static const char *const ways[] = {
        "model=softmax;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4}",
        "model={kind: mlp, hidden: [6]};precision=f64;semi={labels: projected, label_lr: 9, batch: 3}",
        "model=softmax;local.batch=0;local.momentum=0.8;semi={labels: closed_form, alpha_r: 0, confidence: 0.4}"};
    fixture *f = *state;
    size_t count = 0;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        if (!takes_labels(f, *a)) continue;
        count++;
        for (size_t k = 0; k < 3; k++)
            for (int own = 0; own <= ((*a)->personal.mix != NULL); own++) {
                char text[400];
                snprintf(text, sizeof text,
                         "algorithm={kind: %s%s};participation=%s;data.unlabelled=0.6;metrics.local=%s;%s", (*a)->name,
                         own ? ", mix: auto" : "",
                         (*a)->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 7}",
                         (*a)->async.pace ? "false" : "true", ways[k]);
                threads_agree(f, text);
            }
    }
    assert_true(count >= 15);
}

#define SPEEDS "system={kind: lognormal, sigma: 1, jitter: 0.5};system.step_seconds=1;"

/* Arrivals in the order of simulated time: all or some at work, buffers, bounds on ages, both precisions, state and
 * none; and rounds that leave clients behind. */
static void simulated_time(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"fedasync", "{kind: fedasync, staleness: hinge, tau: 11}",
                                          "{kind: fedbuff, buffer: 3, tau: 4}", "asyncfeddr",
                                          "{kind: asyncfeddr, eta: 0.5, alpha: 0.8, tau: 11}"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        char text[400];
        snprintf(text, sizeof text, SPEEDS "algorithm=%s;model=softmax;participation=everyone;rounds=60", methods[k]);
        threads_agree(f, text);
        snprintf(text, sizeof text,
                 SPEEDS "algorithm=%s;model={kind: mlp, hidden: [4]};participation={kind: uniform, count: 5};rounds=60;"
                        "precision=f64;metrics.every=7",
                 methods[k]);
        threads_agree(f, text);
    }
    threads_agree(f,
                  "data={kind: linreg, clients: 30, features: 20, min_size: 10, max_size: 30};partition={};rounds=90;"
                  "model={kind: least_squares, weight_decay: 0.01};regularizer={kind: l1, weight: 0.05};"
                  "system={kind: linear, slowest: 20};algorithm={kind: asyncfeddr, eta: 0.1, solver: exact}");
    threads_agree(f, SPEEDS "algorithm=scaffold;model=softmax;system.wait_for=0.5;system.deadline=9");
    /* dropped clients are shown the start model anew; bytes take time, so that decides who is dropped */
    threads_agree(f, SPEEDS "algorithm=feddr;model=softmax;system.wait_for=0.5;system.down_rate=100;rounds=8");
}

/* Speeds decide the order, so they decide the model. */
static void speeds_matter(void **state)
{
    fixture *f = *state;
    outcome a = run_of(f, "algorithm=fedasync;model=softmax;rounds=40;participation=everyone");
    outcome b = run_of(f, SPEEDS "algorithm=fedasync;model=softmax;rounds=40;participation=everyone");
    assert_memory_not_equal(a.model, b.model, a.parameters * sizeof *a.model);
    outcome_free(&a);
    outcome_free(&b);
}

/* ---- sparse data ------------------------------------------------------------------------------------------ */

/* 1300 samples, about a tenth of 40 features each. */
static void write_libsvm(fixture *f, char *path, size_t size)
{
    fli_rng r;
    char *text = malloc(1 << 18), *p = text;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < 1300; i++) {
        p += sprintf(p, "%d", fli_rng_uniform(&r) < 0.4 ? 1 : -1);
        for (int j = 1; j <= 40; j++)
            if (fli_rng_uniform(&r) < 0.1) p += sprintf(p, " %d:%.5f", j, fli_rng_normal(&r));
        p += sprintf(p, "\n");
    }
    snprintf(path, size, "%s", fixture_write(f, "s.libsvm", text));
    free(text);
}

/* Every model gives the same run on the same data, sparse or dense, up to rounding; and the same bits with any number
 * of threads. The batches are small, or all 520 training samples of a client: more than are computed at a time. */
static void sparse_data(void **state)
{
    static const char *const models[] = {"logistic", "softmax", "{kind: mlp, hidden: [5]}", "least_squares"};
    static const char *const more[] = {"local.batch=7;algorithm=scaffold", "local.batch=0;local.steps=3;local.lr=20"};
    fixture *f = *state;
    char path[128], text[2][512];
    write_libsvm(f, path, sizeof path);
    for (size_t k = 0; k < 8; k++) {
        static const char *const storage[] = {"sparse", "dense"};
        outcome o[2];
        for (size_t i = 0; i < 2; i++) {
            snprintf(text[i], sizeof text[i],
                     "data={kind: libsvm, train: %s, storage: %s, normalize: %s, test_fraction: 0.2%s};"
                     "partition={kind: iid, clients: 2};participation=everyone;model=%s;precision=f64;%s",
                     path, storage[i], k % 2 ? "columns" : "unit", k / 2 == 3 ? ", task: regression" : "",
                     models[k / 2], more[k % 2]);
            o[i] = run_of(f, text[i]);
        }
        threads_agree(f, text[0]);
        assert_int_equal(o[0].parameters, o[1].parameters);
        double moved = 0;
        for (size_t j = 0; j < o[0].parameters; j++) {
            moved = fmax(moved, fabs(o[0].model[j]));
            assert_near(o[0].model[j], o[1].model[j], 1e-12 * (1 + fabs(o[1].model[j])));
        }
        assert_true(moved > 1e-3);
        for (size_t j = 0; j < o[0].count; j++)
            assert_near(fl_row_get(&o[0].rows[j], "train_loss"), fl_row_get(&o[1].rows[j], "train_loss"),
                        1e-12 * (1 + fl_row_get(&o[1].rows[j], "train_loss")));
        outcome_free(&o[0]);
        outcome_free(&o[1]);
    }
}

/* ---- more clients than the executor takes at a time ------------------------------------------------------ */

/* 150 clients, one full-batch step each: x = -lr sum w_i grad f_i(0) by hand. */
static void large_cohort(void **state)
{
    fixture *f = *state;
    enum { CLIENTS = 150, DIM = 5 };
    size_t size[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) size[i] = 1 + i % 4;
    for (size_t threads = 1; threads < 4; threads += 2) {
        engine e;
        double want[DIM] = {0}, h[DIM * DIM], q[DIM];
        fli_fed *fed = random_fed(f->ctx, CLIENTS, size, DIM, 0, 1);
        engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0, algo_named("fedavg"), "", 0,
                    (fli_sgd_spec){0, 0}, threads);
        for (size_t i = 0; i < CLIENTS; i++) {
            client_quadratic(f->ctx, fed, i, 0, h, q);
            for (size_t j = 0; j < DIM; j++) want[j] += 0.1 * (double)size[i] / (double)fed->samples * q[j];
        }
        engine_rounds(&e, 1, 1, 0.1);
        double *x = engine_vector(&e, 0);
        for (size_t j = 0; j < DIM; j++) assert_near(x[j], want[j], 1e-14);
        free(x);
        engine_fini(&e);
    }
}

static void large_cohort_threads(void **state)
{
    fixture *f = *state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        char text[256];
        snprintf(text, sizeof text, "algorithm=%s;model=softmax;participation=everyone;partition.clients=150%s",
                 (*a)->name, levels_for(*a, "softmax"));
        threads_agree(f, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),      FIXTURE_TEST(precisions_agree), FIXTURE_TEST(other_settings),
        FIXTURE_TEST(simulated_time),       FIXTURE_TEST(speeds_matter),    FIXTURE_TEST(large_cohort),
        FIXTURE_TEST(large_cohort_threads), FIXTURE_TEST(sparse_data),      FIXTURE_TEST(pseudo_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
