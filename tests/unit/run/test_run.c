/* Whole runs through the public header: rows, stop rules, failures, and metrics recomputed from the raw numbers. What a
 * run leaves is in test_result.c. */
#include "row.h"
#include "runs.h"

#include "message/exchange.h"

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void whole_run(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, SMALL, "name=small one;rounds=20");
    const fl_row *rows;
    assert_string_equal(fl_run_name(run), "small one");
    assert_string_equal(fl_run_output(run), "");
    assert_string_equal(fl_run_algorithm(run), "fedavg");
    assert_int_equal(fl_run_rounds(run), 20);
    assert_int_equal(fl_run_clients(run), 8);
    assert_int_equal(fl_run_parameters(run), 3 * 4 + 3);
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_NONE);
    assert_null(fl_run_row(run));
    assert_int_equal(fl_run_rows(run, &rows), 0);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ROUNDS);
    assert_int_equal(fl_run_rows(run, &rows), 21);
    assert_ptr_equal(fl_run_row(run), &rows[20]);
    assert_near(fl_row_get(&rows[0], "train_loss"), log(3), 1e-6); /* the model starts at 0 */
    assert_true(fl_row_get(&rows[20], "train_loss") < fl_row_get(&rows[0], "train_loss"));
    assert_true(fl_row_get(&rows[20], "test_accuracy") > 0.6 && fl_row_get(&rows[20], "test_accuracy") <= 1);
    assert_true(isnan(fl_row_get(&rows[20], "gradient2"))); /* not asked for */
    assert_true(fl_row_get(&rows[20], "seconds") > 0);
    for (size_t r = 0; r <= 20; r++) {
        assert_int_equal(fl_row_round(&rows[r]), r);
        assert_int_equal(fl_row_get(&rows[r], "cohort"), r ? 4 : 0);
        assert_true(fl_row_get(&rows[r], "local_steps") == (double)(r * 4 * 3));
        assert_true(fl_row_get(&rows[r], "client_q10") <= fl_row_get(&rows[r], "client_q50") &&
                    fl_row_get(&rows[r], "client_q50") <= fl_row_get(&rows[r], "client_q90"));
        if (r) assert_true(fl_row_get(&rows[r], "seconds") >= fl_row_get(&rows[r - 1], "seconds"));
    }
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL)); /* over is over */
    assert_int_equal(fl_run_rows(run, &rows), 21);
    fl_run_free(run);
    fl_run_free(NULL);
}

/* ---- what cohorts come from ------------------------------------------------------------------------------ */

static int same_model(fixture *f, const char *one, const char *other)
{
    double model[2][64];
    const char *const settings[] = {one, other};
    for (int i = 0; i < 2; i++) {
        fl_run *run = run_new(f, SMALL, settings[i]);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_int_equal(fl_run_model(run, model[i], 64), 3 * 4 + 3);
        fl_run_free(run);
    }
    return !memcmp(model[0], model[1], (3 * 4 + 3) * sizeof(double));
}

/* Cohorts have the seed of everything else unless they have their own, which nothing but cohorts comes from. */
static void seed_of_cohorts(void **state)
{
    fixture *f = *state;
    static const char asynchronous[] = "algorithm=fedasync;system={kind: lognormal, jitter: 0.3}";
    char text[200];
    assert_true(same_model(f, "seed=7", "seed=7;participation.seed=7"));
    assert_false(same_model(f, "seed=7", "seed=7;participation.seed=8"));
    assert_true(same_model(f, "seed=7;participation=everyone", "seed=7;participation={kind: everyone, seed: 8}"));
    assert_false(same_model(f, "seed=7;participation.seed=8", "seed=8;participation.seed=8"));
    snprintf(text, sizeof text, "seed=7;%s", asynchronous);
    char with[256];
    snprintf(with, sizeof with, "%s;participation.seed=7", text);
    assert_true(same_model(f, text, with));
    snprintf(with, sizeof with, "%s;participation.seed=8", text);
    assert_false(same_model(f, text, with));
}

typedef struct {
    size_t calls, measured, next;
    fl_run *stop;      /* stop this one */
    size_t stop_round; /* after this round */
} watcher;

static void watch(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    watcher *w = arg;
    assert_non_null(run);
    assert_int_equal(fl_row_round(row), w->next++);
    w->calls++;
    w->measured += (size_t)measured;
    if (w->stop && fl_row_round(row) == w->stop_round) fl_run_stop(w->stop);
}

static void metrics_every_k(void **state)
{
    fixture *f = *state;
    static const size_t want[] = {0, 4, 8, 10};
    fl_run *run = run_new(f, SMALL, "rounds=10;metrics.every=4");
    watcher w = {0};
    const fl_row *rows;
    assert_ok(f->ctx, fl_run_go(run, watch, &w));
    assert_int_equal(w.calls, 11);
    assert_int_equal(w.measured, 4);
    assert_int_equal(fl_run_rows(run, &rows), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fl_row_round(&rows[i]), want[i]); /* the last round is always measured */
    assert_true(fl_row_get(&rows[3], "local_steps") == 10 * 4 * 3);
    fl_run_free(run);
}

/* Measuring less often changes nothing but the number of rows and what measurements send. */
static void measuring_does_not_interfere(void **state)
{
    fixture *f = *state;
    fl_run *often = run_done(f, SMALL, ""), *seldom = run_done(f, SMALL, "metrics.every=100");
    fl_row a = *fl_run_row(often), b = *fl_run_row(seldom);
    const fl_row *rows;
    double times = (double)fl_run_rows(often, &rows) / (double)fl_run_rows(seldom, &rows);
    /* twice, at the beginning and at the end: a model to each of 8 clients, and their figures back */
    assert_true(times > 1 &&
                fl_row_get(&b, "evaluation_bytes_down") == 2.0 * 8 * 4 * (double)fl_run_parameters(seldom));
    assert_true(fl_row_get(&b, "evaluation_bytes_up") == 2.0 * 8 * 8 * FLI_FIGURES);
    assert_true(fl_row_get(&a, "evaluation_bytes_up") == times * fl_row_get(&b, "evaluation_bytes_up"));
    assert_true(fl_row_get(&a, "evaluation_bytes_down") == times * fl_row_get(&b, "evaluation_bytes_down"));
    *metric(&a, "seconds") = *metric(&b, "seconds") = *metric(&a, "evaluation_bytes_up") =
        *metric(&b, "evaluation_bytes_up") = 0;
    *metric(&a, "evaluation_bytes_down") = *metric(&b, "evaluation_bytes_down") = 0;
    assert_memory_equal(&a, &b, sizeof a);
    fl_run_free(often);
    fl_run_free(seldom);
}

static void nothing_measured(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "metrics={test: false, train: false, clients: false}");
    const fl_row *r = fl_run_row(run);
    assert_int_equal(fl_row_round(r), 6);
    assert_true(isnan(fl_row_get(r, "train_loss")) && isnan(fl_row_get(r, "train_accuracy")) &&
                isnan(fl_row_get(r, "test_loss")) && isnan(fl_row_get(r, "test_accuracy")));
    assert_true(isnan(fl_row_get(r, "gradient2")) && isnan(fl_row_get(r, "client_q10")) &&
                isnan(fl_row_get(r, "client_q50")) && isnan(fl_row_get(r, "client_q90")));
    assert_true(fl_row_get(r, "bytes_up") > 0);
    fl_run_free(run);
}

static void no_rounds(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "rounds=0");
    const fl_row *rows;
    assert_int_equal(fl_run_rows(run, &rows), 1);
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ROUNDS);
    assert_true(fl_row_get(&rows[0], "bytes_up") == 0 && fl_row_get(&rows[0], "local_steps") == 0);
    fl_run_free(run);
}

/* Coins so thin that nobody comes: the model stays, nothing is sent. */
static void rounds_without_anybody(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "participation={kind: bernoulli, probability: 1e-9}");
    double x[15], zero[15] = {0};
    const fl_row *r = fl_run_row(run);
    fl_run_model(run, x, 15);
    assert_memory_equal(x, zero, sizeof x);
    assert_true(fl_row_round(r) == 6 && fl_row_get(r, "cohort") == 0 && fl_row_get(r, "bytes_up") == 0 &&
                fl_row_get(r, "bytes_down") == 0 && fl_row_get(r, "local_steps") == 0);
    fl_run_free(run);
}

static void keep_warnings(void *arg, fl_log_level level, const char *line)
{
    char *all = arg;
    if (level == FL_LOG_WARNING) snprintf(all + strlen(all), 1024 - strlen(all), "%s\n", line);
}

/* Said once when it first happens, and counted at the end. */
static void rounds_without_anybody_are_said(void **state)
{
    fixture *f = *state;
    char said[1024] = "", sets[256];
    fl_ctx_on_log(f->ctx, keep_warnings, said);
    snprintf(sets, sizeof sets, "participation={kind: trace, path: %s}",
             fixture_write(f, "trace", "0 1\n\n2\n\n\n3\n"));
    fl_run_free(run_done(f, SMALL, sets));
    assert_string_equal(
        said, "round 2: no client takes part, so the model does not change; the end of the run says how often\n"
              "in 3 of 6 rounds no client took part or answered in time: the model did not change\n");
    said[0] = 0;
    fl_run_free(run_done(f, SMALL, ""));
    assert_string_equal(said, "");
}

static void model_into_short_memory(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "");
    double x[15], y[4] = {0, 0, 0, -99};
    assert_int_equal(fl_run_model(run, NULL, 0), 15);
    assert_int_equal(fl_run_model(run, x, 15), 15);
    assert_int_equal(fl_run_model(run, y, 3), 15);
    assert_memory_equal(x, y, 3 * sizeof *x);
    assert_true(y[3] == -99);
    fl_run_free(run);
}

/* ---- stopping ------------------------------------------------------------------------------------------ */

static void targets_have_their_first_round(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "rounds=15;metrics.targets=[0.4, 0.6, 1]");
    static const double want[] = {0.4, 0.6, 1};
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows), round;
    double accuracy;
    for (size_t k = 0; k < 3; k++) {
        size_t first = SIZE_MAX;
        for (size_t i = n; i-- > 0;)
            if (fl_row_get(&rows[i], "test_accuracy") >= want[k]) first = fl_row_round(&rows[i]);
        assert_int_equal(fl_run_target(run, k, &accuracy, &round), 1);
        assert_true(accuracy == want[k]);
        assert_int_equal(round, first);
    }
    assert_int_equal(fl_run_target(run, 3, &accuracy, &round), 0);
    fl_run_free(run);

    run = run_done(f, SMALL, "rounds=1;local.lr=1e-9;metrics.targets=1"); /* out of reach */
    assert_int_equal(fl_run_target(run, 0, &accuracy, &round), 1);
    assert_true(round == SIZE_MAX);
    fl_run_free(run);
}

static void stop_at_target(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "rounds=1000;stop.target=0.6");
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows);
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_TARGET);
    assert_true(n > 1 && n < 200);
    for (size_t i = 0; i < n; i++) assert_true((fl_row_get(&rows[i], "test_accuracy") >= 0.6) == (i + 1 == n));
    fl_run_free(run);
}

static void stop_at_gradient(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(
        f, SMALL,
        "rounds=5000;metrics.gradient=true;stop.gradient2=1e-3;participation=everyone;local={lr: 0.5, batch: 0};"
        "model.weight_decay=0.1");
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows);
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_GRADIENT);
    for (size_t i = 0; i < n; i++) assert_true((fl_row_get(&rows[i], "gradient2") <= 1e-3) == (i + 1 == n));
    assert_true(n > 1);
    fl_run_free(run);
}

static void stop_after_seconds(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "rounds=1000000;stop.seconds=1e-9;metrics.every=50");
    const fl_row *rows;
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_TIME);
    assert_int_equal(fl_run_rows(run, &rows), 2);
    assert_int_equal(fl_row_round(&rows[1]), 1); /* measured, though not due */
    fl_run_free(run);
    run = run_done(f, SMALL, "rounds=100000000;stop.seconds=0.05;metrics.every=100000000");
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_TIME);
    assert_true(fl_row_get(fl_run_row(run), "seconds") >= 0.05 && fl_row_get(fl_run_row(run), "seconds") < 5);
    fl_run_free(run);
}

/* Asked between two rounds, no further round begins; the row of the last one is there. */
static void stop_from_the_observer(void **state)
{
    fixture *f = *state;
    for (size_t at = 0; at < 3; at++) {
        fl_run *run = run_new(f, SMALL, "rounds=1000");
        watcher w = {.stop = run, .stop_round = at};
        const fl_row *rows;
        assert_ok(f->ctx, fl_run_go(run, watch, &w));
        assert_int_equal(fl_run_stopped_by(run), FL_STOP_ASKED);
        assert_int_equal(fl_run_rows(run, &rows), at + 1);
        assert_int_equal(fl_row_round(&rows[at]), at);
        assert_int_equal(w.calls, at + 1);
        fl_run_free(run);
    }
}

static void note(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    size_t *last = arg; /* run to stop, round, newest measured round */
    (void)run;
    if (measured) last[2] = fl_row_round(row);
    if (fl_row_round(row) == last[1]) fl_run_stop((fl_run *)last[0]);
}

/* The same where that round was not due to be measured: it is, before the run ends. */
static void stop_from_the_observer_unmeasured(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, SMALL, "rounds=1000;metrics.every=10");
    size_t last[3] = {(size_t)run, 3, 0};
    assert_ok(f->ctx, fl_run_go(run, note, last));
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ASKED);
    assert_int_equal(fl_row_round(fl_run_row(run)), 3);
    assert_int_equal(last[2], 3);
    fl_run_free(run);
}

static void stop_before_the_start(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, SMALL, "");
    fl_run_stop(run);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ASKED);
    assert_int_equal(fl_row_round(fl_run_row(run)), 0);
    fl_run_free(run);
}

/* ---- what cannot be run ---------------------------------------------------------------------------------- */

static void refused(fixture *f, const char *yaml, const char *assignments, const char *message)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, yaml, assignments);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, message);
    assert_null(run);
    fl_config_free(cfg);
}

static void impossible_runs(void **state)
{
    fixture *f = *state;
    refused(f, SMALL, "partition.clients=121", "121 clients cannot share 120 samples");
    refused(f, SMALL, "partition={kind: dirichlet, clients: 8, min_size: 16}", "120");
    refused(f, SMALL, "partition={kind: quantity, clients: 8, min_size: 16}", "120");
    refused(f, SMALL, "partition={kind: iid}", "partition.clients is missing");
    refused(f, SMALL, "participation.count=9", "participation.count is 9, but there are only 8 clients");
    refused(f, SMALL, "algorithm=vrl-sgd",
            "algorithm vrl-sgd needs every client in every round, but participation.kind is uniform");
    refused(f, SMALL, "algorithm=fedpd", "algorithm fedpd needs every client");
    refused(f, SMALL, "algorithm=feddyn;weights=samples",
            "algorithm feddyn weighs clients equally, but weights is samples");
    refused(f, SMALL, "model=logistic", "exactly 2 classes");
    refused(f, SMALL, "model=least_squares", "model least_squares needs real-valued targets");
    refused(f, SMALL, "data={kind: linreg, clients: 4, features: 3};partition={}", "model softmax needs labels");
    refused(f, SMALL, "data.on_demand=true;partition={}", "blobs cannot make its clients on demand");
    refused(f, SMALL, "algorithm=feddr;regularizer={kind: l1, weight: 0.1};metrics.gradient=true;stop.gradient2=1e-3",
            "stop.gradient2 looks at f alone");
    refused(f, SMALL, "rounds=-1", "rounds is -1");
}

#define TWO  "data.classes=2;model=logistic;"
#define SEMI "data.unlabelled=0.5;semi.labels=closed_form;"

static void impossible_labels(void **state)
{
    fixture *f = *state;
    refused(f, SMALL, "data.unlabelled=1", "data.unlabelled is 1");
    refused(f, SMALL, "data.unlabelled=-0.1", "data.unlabelled is -0.1");
    refused(f, SMALL, "semi.labels=projected", "semi.labels is set, but every sample has a label; set data.unlabelled");
    refused(f, SMALL, "data.unlabelled=0.5;semi.labels=guess", "semi.labels is guess");
    refused(f, SMALL, SEMI "semi.alpha_p=-1", "semi.alpha_p is -1");
    refused(f, SMALL, SEMI "semi.alpha_r=nan", "semi.alpha_r");
    refused(f, SMALL, SEMI "semi.confidence=1.1", "semi.confidence is 1.1");
    refused(f, SMALL, SEMI "semi.label_lr=-1", "semi.label_lr is -1");
    refused(f, SMALL, SEMI "semi.label_steps=0", "semi.label_steps is 0");
    refused(f, SMALL, SEMI TWO,
            "semi.labels needs a classifier that gives class probabilities, such as softmax or mlp");
    refused(f, SMALL, "data={kind: linreg, clients: 8, features: 3, unlabelled: 0.5};partition={};model=least_squares",
            "data.unlabelled is 0.5, but a regression has no labels");
    refused(f, SMALL, "data={kind: synthetic, on_demand: true, unlabelled: 0.5};partition={}",
            "clients made on demand are made with all their labels: data.unlabelled must be 0");
    refused(f, SMALL, "data.unlabelled=0.5;semi.labels=projected;metrics.gradient=true;stop.gradient2=1e-3",
            "stop.gradient2 looks at the gradient in x alone, but with semi.labels projected");
    static const char *const others[] = {"{kind: feddr, solver: accurate, relative: 0.1, accuracy: 1}", "fedgia"};
    for (size_t k = 0; k < 2; k++) {
        char text[256];
        snprintf(text, sizeof text, SEMI "algorithm=%s", others[k]);
        refused(f, SMALL, text, "knows nothing of pseudo labels; set semi.labels to none");
    }
}

static void impossible_pairs(void **state)
{
    static const char *const methods[] = {"fedcpsl", "apfl", "apsfl"};
    fixture *f = *state;
    for (size_t k = 0; k < 3; k++) {
        char text[256];
        snprintf(text, sizeof text, TWO "algorithm=%s", methods[k]);
        refused(f, SMALL, text, "the pair solver is for classifiers that give class probabilities");
        snprintf(text, sizeof text,
                 "data={kind: linreg, clients: 8, features: 3};partition={};model=least_squares;algorithm=%s",
                 methods[k]);
        refused(f, SMALL, text, "the pair solver is for classifiers that give class probabilities");
        snprintf(text, sizeof text, "algorithm={kind: %s, mix: [0.5, 0.5]}", methods[k]);
        refused(f, SMALL, text, "algorithm.mix");
        snprintf(text, sizeof text, "algorithm={kind: %s, mix: 1.5}", methods[k]);
        refused(f, SMALL, text, "algorithm.mix");
    }
    refused(f, SMALL, "algorithm=fedshvr", "algorithm fedshvr needs every client in every round");
}

/* Clients with one sample each keep its label, and have no unlabelled ones. */
static void lonely_samples(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"{kind: fedcpsl, mix: auto}", "apsfl", "fedvra-u"}, *const labels[] = {
                                                                                                  "closed_form",
                                                                                                  "projected"};
    for (size_t k = 0; k < 6; k++) {
        char text[256];
        snprintf(text, sizeof text,
                 "data.samples=8;partition.clients=8;data.unlabelled=0.9;semi.labels=%s;algorithm=%s", labels[k % 2],
                 methods[k / 2]);
        fl_run *run = run_done(f, SMALL, text);
        assert_true(isfinite(fl_row_get(fl_run_row(run), "train_loss")));
        fl_run_free(run);
    }
}

static double pseudo_accuracy(fixture *f, const char *semi)
{
    char text[256];
    snprintf(text, sizeof text, "data.unlabelled=0.5;rounds=0;semi={%s}", semi);
    fl_run *run = run_done(f, SMALL, text);
    double v = fl_row_get(fl_run_row(run), "pseudo_accuracy");
    fl_run_free(run);
    return v;
}

/* All classes are equally likely at the start, and the first one is taken; only labels in closed form ask how sure the
 * model is. */
static void pseudo_labels_at_the_start(void **state)
{
    fixture *f = *state;
    double v = pseudo_accuracy(f, "labels: closed_form");
    assert_true(v > 0 && v < 1);
    assert_true(isnan(pseudo_accuracy(f, "labels: closed_form, confidence: 0.99")));
    assert_true(pseudo_accuracy(f, "labels: projected, confidence: 0.99") == v);
}

/* The global model is fine, a client's own one is not. */
static void own_model_diverges(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, SMALL, "algorithm={kind: apfl, lr_local: 1e39};local.steps=5");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "round 1, client ");
    fl_run_free(run);
}

static void missing_data(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, SMALL, "data={kind: csv, train: /nonexistent/file.csv}");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_EIO, "/nonexistent/file.csv");
    fl_config_free(cfg);
}

static void keep_line(void *arg, fl_log_level level, const char *line)
{
    if (level == FL_LOG_WARNING) snprintf(arg, 256, "%s", line);
}

static void momentum_is_warned_about(void **state)
{
    fixture *f = *state;
    char line[256] = "";
    fl_ctx_on_log(f->ctx, keep_line, line);
    fl_run *run = run_new(f, SMALL, "algorithm=scaffold");
    assert_string_equal(line, "");
    fl_run_free(run);
    run = run_new(f, SMALL, "algorithm=scaffold;local.momentum=0.5");
    assert_non_null(strstr(line, "scaffold"));
    assert_non_null(strstr(line, "momentum"));
    fl_run_free(run);
}

/* ---- divergence ---------------------------------------------------------------------------------------- */

static void a_diverging_run_keeps_its_metrics(void **state)
{
    fixture *f = *state;
    char output[160];
    snprintf(output, sizeof output, "output=%s/out", f->folder);
    fl_run *run = run_new(f, SMALL, "model=mlp;local.lr=1e30;threads=1");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "round 1, client ");
    fl_run_free(run);

    fl_config *cfg = config_of(f, SMALL, "model=mlp;local.lr=1e30;precision=f64");
    assert_ok(f->ctx, fl_config_set(cfg, output));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    fl_status s = fl_run_go(run, NULL, NULL);
    assert_int_equal(s, FL_EDIVERGED);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "round "));
    fl_run_free(run);
    assert_int_equal(entries(f->folder), 2); /* config.yaml and the metrics; no result, not even a part of one */
    assert_int_equal(access(fixture_path(f, "out.unfinished.csv"), F_OK), 0);
}

/* The server's own step can diverge while every client is fine. */
static void divergence_of_the_server(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, SMALL, "algorithm={kind: fedavg, server_lr: 1e300}");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "round 1: the global model is no longer finite");
    fl_run_free(run);
}

/* ---- metrics by hand ------------------------------------------------------------------------------------- */

enum { DIM = 3, TRAIN = 12, TEST = 5, CLIENTS = 3 };
static const size_t begin[CLIENTS + 1] = {0, 3, 8, 12};
static double cell(size_t row, size_t col) { return (double)((int)(row * 7 + col * 5 + row * col) % 11 - 5) / 4; }

/* rows x (DIM features, target), by a formula with exact values; the test set continues where training ended. */
static void write_table(fixture *f, const char *name, size_t from, size_t to)
{
    char text[4096] = "";
    for (size_t r = from; r < to; r++)
        for (size_t c = 0; c <= DIM; c++)
            snprintf(text + strlen(text), 32, "%.17g%s", cell(r, c), c == DIM ? "\n" : ",");
    fixture_write(f, name, text);
}

/* Mean of (a'x - b)^2/2 over rows; adds weight times its gradient to g. */
static double table_loss(size_t from, size_t to, const double *x, double weight, double *g)
{
    double loss = 0, n = (double)(to - from);
    for (size_t r = from; r < to; r++) {
        double residual = -cell(r, DIM);
        for (size_t c = 0; c < DIM; c++) residual += cell(r, c) * x[c];
        loss += residual * residual / (2 * n);
        for (size_t c = 0; c < DIM && g; c++) g[c] += weight * residual * cell(r, c) / n;
    }
    return loss;
}

typedef struct {
    int uniform;
    double decay;
    size_t rows;
} by_hand;

/* Observer: recomputes every row from the model of that moment. */
static void recompute(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    by_hand *h = arg;
    double x[DIM], g[DIM] = {0}, loss = 0, square = 0, gradient2 = 0;
    assert_true(measured);
    assert_int_equal(fl_run_model(run, x, DIM), DIM);
    for (size_t i = 0; i < CLIENTS; i++) {
        double w = h->uniform ? 1.0 / CLIENTS : (double)(begin[i + 1] - begin[i]) / TRAIN;
        loss += w * table_loss(begin[i], begin[i + 1], x, w, g);
    }
    for (size_t c = 0; c < DIM; c++) {
        square += x[c] * x[c];
        gradient2 += (g[c] + h->decay * x[c]) * (g[c] + h->decay * x[c]);
    }
    assert_near(fl_row_get(row, "train_loss"), loss + h->decay / 2 * square, 1e-13);
    assert_near(fl_row_get(row, "gradient2"), gradient2, 1e-13);
    assert_near(fl_row_get(row, "test_loss"), table_loss(TRAIN, TRAIN + TEST, x, 0, NULL), 1e-13);
    assert_true(isnan(fl_row_get(row, "train_accuracy")) && isnan(fl_row_get(row, "test_accuracy")) &&
                isnan(fl_row_get(row, "client_q50")));
    h->rows++;
}

static void regression_metrics(void **state)
{
    fixture *f = *state;
    char yaml[1024];
    write_table(f, "train.csv", 0, TRAIN);
    write_table(f, "test.csv", TRAIN, TRAIN + TEST);
    fixture_write(f, "parts.json", "{\"clients\": [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9, 10, 11]]}");
    snprintf(
        yaml, sizeof yaml,
        "data: {kind: csv, train: %s/train.csv, test: %s/test.csv, task: regression, storage: f64}\n"
        "partition: {kind: file, path: %s/parts.json, clients: 3}\nmodel: least_squares\nprecision: f64\nrounds: 5\n"
        "participation: everyone\nlocal: {batch: 2, lr: 0.05}\nmetrics: {gradient: true}\n",
        f->folder, f->folder, f->folder);
    for (int uniform = 0; uniform < 2; uniform++)
        for (int decay = 0; decay < 2; decay++) {
            by_hand h = {uniform, decay ? 0.3 : 0, 0};
            char set[64];
            snprintf(set, sizeof set, "weights=%s;model.weight_decay=%g", uniform ? "uniform" : "samples", h.decay);
            fl_run *run = run_new(f, yaml, set);
            assert_ok(f->ctx, fl_run_go(run, recompute, &h));
            assert_int_equal(h.rows, 6);
            fl_run_free(run);
        }
}

/* Two classes by the sign of the single feature's product with the parameter: accuracy can be read off the table.
 * Client i of 11 has 10 samples, i of which are labelled against their feature. */
static void accuracy_quantiles(void **state)
{
    fixture *f = *state;
    enum { N = 11, EACH = 10 };
    char text[8192] = "", parts[4096] = "{\"clients\": [", yaml[512];
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < EACH; k++) {
            int up = k % 2, wrong = k < i; /* client 10 is wrong throughout */
            snprintf(text + strlen(text), 32, "%d,%d\n", up ? 1 : -1, wrong ? !up : up);
            snprintf(parts + strlen(parts), 32, "%s%zu", k ? "," : i ? ",[" : "[", i * EACH + k);
            if (k + 1 == EACH) strcat(parts, "]");
        }
    strcat(parts, "]}");
    fixture_write(f, "train.csv", text);
    fixture_write(f, "test.csv", "1,1\n-1,0\n1,0\n"); /* two of three are right */
    fixture_write(f, "parts.json", parts);
    snprintf(yaml, sizeof yaml,
             "data: {kind: csv, train: %s/train.csv, test: %s/test.csv}\npartition: {kind: file, path: %s/parts.json}\n"
             "model: logistic\nrounds: 1\nparticipation: {kind: trace, path: %s/trace}\nlocal: {batch: 0, lr: 1}\n",
             f->folder, f->folder, f->folder, f->folder);
    fixture_write(f, "trace", "0\n"); /* the first client alone, all of whose samples are right, makes x > 0 */
    fl_run *run = run_done(f, yaml, "");
    double x, total = 0;
    fl_run_model(run, &x, 1);
    assert_near(x, 0.5, 1e-6);
    for (size_t i = 0; i < N; i++) total += (double)(EACH - i) / EACH / N;
    const fl_row *r = fl_run_row(run);
    assert_near(fl_row_get(r, "train_accuracy"), total, 1e-12);
    assert_near(fl_row_get(r, "test_accuracy"), 2.0 / 3, 1e-12);
    assert_near(fl_row_get(r, "client_q10"), 0.1, 1e-12); /* of 0, 0.1, ..., 1 */
    assert_near(fl_row_get(r, "client_q50"), 0.5, 1e-12);
    assert_near(fl_row_get(r, "client_q90"), 0.9, 1e-12);
    assert_near(fl_row_get(r, "test_loss"), (2 * log1p(exp(-0.5)) + log1p(exp(0.5))) / 3, 1e-6);
    fl_run_free(run);

    /* with their own test parts clients are judged on those, but the test set stays the test set */
    run = run_done(f, yaml, "data.test_fraction=0.3;partition.clients=11");
    assert_near(fl_row_get(fl_run_row(run), "test_accuracy"), 2.0 / 3, 1e-12);
    fl_run_free(run);
}

/* Clients' own test parts stand in for a test set. */
static void own_test_parts(void **state)
{
    fixture *f = *state;
    fl_run *run = run_done(f, SMALL, "data.test_samples=0;data.test_fraction=0.4;rounds=30");
    const fl_row *r = fl_run_row(run);
    assert_true(fl_row_get(r, "test_accuracy") > 0.5 && fl_row_get(r, "test_accuracy") <= 1);
    assert_near(fl_row_get(r, "test_accuracy") * 48, round(fl_row_get(r, "test_accuracy") * 48),
                1e-9); /* 8 clients with 6 of 15 samples each */
    assert_near(fl_row_get(r, "client_q50") * 6, round(fl_row_get(r, "client_q50") * 6), 1e-9);
    fl_run_free(run);
    run = run_done(f, SMALL, "data.test_samples=0"); /* nothing to test on */
    assert_true(isnan(fl_row_get(fl_run_row(run), "test_accuracy")) && isnan(fl_row_get(fl_run_row(run), "test_loss")));
    assert_true(fl_row_get(fl_run_row(run), "train_accuracy") > 0);
    fl_run_free(run);
}

/* With fewer clients than there are, training metrics are an estimate from evenly spaced ones; all of them is exact. */
static void metrics_of_some_clients(void **state)
{
    fixture *f = *state;
    fl_run *all = run_done(f, SMALL, ""), *same = run_done(f, SMALL, "metrics.max_clients=8"),
           *some = run_done(f, SMALL, "metrics.max_clients=3");
    assert_true(fl_row_get(fl_run_row(all), "train_loss") == fl_row_get(fl_run_row(same), "train_loss"));
    assert_true(fl_row_get(fl_run_row(all), "test_loss") == fl_row_get(fl_run_row(some), "test_loss"));
    assert_near(fl_row_get(fl_run_row(all), "train_loss"), fl_row_get(fl_run_row(some), "train_loss"),
                0.5 * fl_row_get(fl_run_row(all), "train_loss"));
    assert_true(fl_row_get(fl_run_row(all), "train_loss") != fl_row_get(fl_run_row(some), "train_loss"));
    fl_run_free(all);
    fl_run_free(same);
    fl_run_free(some);
}

/* The server's step is as long as its step size says, that towards the regulariser as well: with one local step it is a
 * proximal gradient step of length server_lr lr. */
static void a_short_step_of_the_server(void **state)
{
    static const char once[] = "precision=f64;rounds=1;participation=everyone;local={batch: 0, steps: 1, lr: 0.5};"
                               "algorithm={kind: fedavg, server_lr: 0.25}";
    const double least = 0.25 * 0.5 * 0.1;
    double x[15], y[15], moved = 0;
    char set[400];
    fl_run *run = run_done(*state, SMALL, once);
    assert_int_equal(fl_run_model(run, x, 15), 15);
    fl_run_free(run);
    snprintf(set, sizeof set, "%s;regularizer={kind: l1, weight: 0.1}", once);
    run = run_done(*state, SMALL, set);
    assert_int_equal(fl_run_model(run, y, 15), 15);
    fl_run_free(run);
    for (size_t i = 0; i < 15; i++) {
        assert_near(y[i], copysign(fmax(fabs(x[i]) - least, 0), x[i]), 1e-12);
        moved = fmax(moved, fabs(y[i]));
    }
    assert_true(moved > 0);
}

/* ---- looking at data ------------------------------------------------------------------------------------- */

static void describe_data(void **state)
{
    fixture *f = *state;
    collected c = {0};
    char path[200], set[256];
    double x[15], y[15];
    fl_config *cfg = config_of(f, SMALL, "");
    snprintf(path, sizeof path, "%s/parts.json", f->folder);
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 3, path, collect_text, &c));
    fl_config_free(cfg);
    assert_non_null(strstr(c.s, "blobs: 120 training samples, 4 features, 3 classes"));
    assert_non_null(strstr(c.s, "60 samples"));
    assert_non_null(strstr(c.s, "iid: 8 clients"));
    assert_non_null(strstr(c.s, "15 to 15 per client"));
    assert_non_null(strstr(c.s, "5 more clients"));
    free(c.s);

    /* the written partition reads back as the same federation */
    fl_run *run = run_done(f, SMALL, "");
    fl_run_model(run, x, 15);
    fl_run_free(run);
    snprintf(set, sizeof set, "partition={kind: file, path: %s}", path);
    run = run_done(f, SMALL, set);
    fl_run_model(run, y, 15);
    fl_run_free(run);
    assert_memory_equal(x, y, sizeof x);
}

/* Storage, share of non-zeros (6 of 3 x 50) and memory: 6 values of 8 bytes, 4 starts of 8, 3 labels of 4, and the same
 * for the test set, are 184 bytes. */
static void describe_sparse_data(void **state)
{
    fixture *f = *state;
    collected c = {0};
    char path[200], set[512];
    snprintf(path, sizeof path, "%s", fixture_write(f, "s.txt", "1 1:1 50:2\n-1 7:4\n1 2:8 3:9 4:1\n"));
    snprintf(set, sizeof set, "data={kind: libsvm, train: %s, test: %s};partition={kind: iid, clients: 2}", path, path);
    fl_config *cfg = config_of(f, "model: logistic\n", "");
    char *half = strchr(set, ';');
    *half++ = 0;
    assert_ok(f->ctx, fl_config_set(cfg, set));
    assert_ok(f->ctx, fl_config_set(cfg, half));
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &c));
    assert_non_null(strstr(c.s, "50 features, 2 classes; sparse f32, 4 % non-zero, 0.2 KiB in memory\n"));
    free(c.s);
    c = (collected){0};
    assert_ok(f->ctx, fl_config_set(cfg, "data.storage=dense"));
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &c));
    assert_non_null(strstr(c.s, "2 classes; f32, 1.2 KiB in memory\n"));
    free(c.s);
    assert_ok(f->ctx, fl_config_set(cfg, "data.storage=sparse"));
    assert_ok(f->ctx, fl_config_set(cfg, "data.normalize=standard"));
    assert_fails(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &c), FL_ECONFIG, "storage: dense");
    fl_config_free(cfg);
}

/* As JSON: the data, how it is divided, and clients with their classes. */
static void describe_as_json(void **state)
{
    fixture *f = *state;
    collected c = {0};
    fl_config *cfg = config_of(f, SMALL, "");
    fl_ctx_format(f->ctx, FL_FORMAT_JSON);
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &c));
    fl_ctx_format(f->ctx, FL_FORMAT_TEXT);
    fl_config_free(cfg);
    assert_non_null(strstr(c.s, "\"data\": {\n    \"kind\": \"blobs\",\n    \"train_samples\": 120,\n"));
    assert_non_null(strstr(c.s, "\"partition\": {\n    \"kind\": \"iid\",\n    \"clients\": 8,\n"
                                "    \"least_samples\": 15,\n    \"most_samples\": 15,\n"
                                "    \"mean_samples\": 15\n  },\n"));
    assert_non_null(strstr(c.s, "\"client\": 2,"));
    assert_null(strstr(c.s, "\"client\": 3,"));
    free(c.s);
}

static void describe_failures(void **state)
{
    fixture *f = *state;
    collected c = {0};
    fl_config *cfg = config_of(f, SMALL, "partition.clients=1000");
    assert_fails(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &c), FL_ECONFIG, "1000 clients");
    assert_null(c.s);
    fl_config_free(cfg);
    cfg = config_of(f, SMALL, "");
    assert_fails(f->ctx, fl_data_describe(cfg, NULL, 0, "/proc/nothing/x.json", collect_text, &c), FL_EIO,
                 "/proc/nothing/x.json");
    free(c.s);
    fl_config_free(cfg);
}

/* ---- examples in the header ------------------------------------------------------------------------------ */

static void status_texts(void **state)
{
    (void)state;
    assert_string_equal(fl_status_text(FL_OK), "success");
    for (int s = FL_OK; s <= FL_ESYSTEM; s++) assert_true(strlen(fl_status_text((fl_status)s)) > 3);
    assert_non_null(fl_status_text((fl_status)99));
    fl_ctx_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(whole_run),
        FIXTURE_TEST(seed_of_cohorts),
        FIXTURE_TEST(metrics_every_k),
        FIXTURE_TEST(measuring_does_not_interfere),
        FIXTURE_TEST(nothing_measured),
        FIXTURE_TEST(no_rounds),
        FIXTURE_TEST(rounds_without_anybody),
        FIXTURE_TEST(rounds_without_anybody_are_said),
        FIXTURE_TEST(model_into_short_memory),
        FIXTURE_TEST(targets_have_their_first_round),
        FIXTURE_TEST(stop_at_target),
        FIXTURE_TEST(stop_at_gradient),
        FIXTURE_TEST(stop_after_seconds),
        FIXTURE_TEST(stop_from_the_observer),
        FIXTURE_TEST(stop_from_the_observer_unmeasured),
        FIXTURE_TEST(stop_before_the_start),
        FIXTURE_TEST(impossible_runs),
        FIXTURE_TEST(impossible_labels),
        FIXTURE_TEST(impossible_pairs),
        FIXTURE_TEST(lonely_samples),
        FIXTURE_TEST(pseudo_labels_at_the_start),
        FIXTURE_TEST(own_model_diverges),
        FIXTURE_TEST(missing_data),
        FIXTURE_TEST(momentum_is_warned_about),
        FIXTURE_TEST(a_diverging_run_keeps_its_metrics),
        FIXTURE_TEST(divergence_of_the_server),
        FIXTURE_TEST(regression_metrics),
        FIXTURE_TEST(accuracy_quantiles),
        FIXTURE_TEST(own_test_parts),
        FIXTURE_TEST(metrics_of_some_clients),
        FIXTURE_TEST(a_short_step_of_the_server),
        FIXTURE_TEST(describe_data),
        FIXTURE_TEST(describe_sparse_data),
        FIXTURE_TEST(describe_as_json),
        FIXTURE_TEST(describe_as_json),
        FIXTURE_TEST(describe_failures),
        cmocka_unit_test(status_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
