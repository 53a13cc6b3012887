/* Runs that diverge: said once, ended where stop.diverged says, with the key of this very method, and their metrics are
 * kept. */
#include "runs.h"

#define LINEAR                                                                                                         \
    "precision: f64\nseed: 3\ndata: {kind: linreg, clients: 4, features: 3}\npartition: natural\nmodel: "              \
    "least_squares\n"                                                                                                  \
    "participation: everyone\nrounds: 400\nlocal: {steps: 1, batch: 0, lr: 0.05}\n"

typedef struct {
    size_t warnings;
    char last[1024];
} log_seen;

static void listen(void *arg, fl_log_level level, const char *line)
{
    log_seen *h = arg;
    if (level != FL_LOG_WARNING) return;
    h->warnings++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

/* Takes over the error of a run that must diverge. */
static void diverges(fixture *f, const char *yaml, const char *assignments, char *error, size_t size)
{
    fl_run *run = run_new(f, yaml, assignments);
    if (*fl_run_output(run)) assert_ok(f->ctx, fl_run_prepare_save(run, 1));
    fl_status s = fl_run_go(run, NULL, NULL);
    snprintf(error, size, "%s", fl_ctx_error(f->ctx));
    if (s != FL_EDIVERGED) fail_msg("%s: status %d (%s)", assignments, (int)s, error);
    fl_run_free(run);
    fli_clear(f->ctx);
}

#define assert_says(text, part)                                                                                        \
    do {                                                                                                               \
        if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);                                          \
    } while (0)

/* Steps a little too large: the loss grows from round to round, and is a plain number all the while. */
static void rising_loss(void **state)
{
    fixture *f = *state;
    log_seen h = {0};
    char error[1024];
    const fl_row *rows;
    fl_ctx_on_log(f->ctx, listen, &h);
    diverges(f, LINEAR, "local.lr=3", error, sizeof error);
    assert_int_equal(h.warnings, 1);
    assert_says(h.last, "times what it began with; fedavg may need a smaller local.lr or algorithm.server_lr");
    assert_says(error, "the training loss is ");
    assert_says(error, "fedavg diverges, try a smaller local.lr or algorithm.server_lr (stop.diverged is 1000)");

    h.warnings = 0; /* a rule of one's own; 0 leaves only what is not finite */
    diverges(f, LINEAR, "local.lr=3;stop.diverged=0", error, sizeof error);
    assert_int_equal(h.warnings, 1);
    assert_says(error, "no longer finite");
    fl_run *run = run_new(f, LINEAR, "local.lr=3;stop.diverged=2");
    assert_int_equal(fl_run_go(run, NULL, NULL), FL_EDIVERGED);
    size_t n = fl_run_rows(run, &rows);
    assert_true(n > 1 && fl_row_get(&rows[n - 1], "train_loss") > 2 * fl_row_get(&rows[0], "train_loss"));
    for (size_t i = 0; i + 1 < n; i++)
        assert_true(fl_row_get(&rows[i], "train_loss") <= 2 * fl_row_get(&rows[0], "train_loss"));
    fl_run_free(run);
    fli_clear(f->ctx);

    h.warnings = 0; /* a run that behaves says nothing */
    fl_run_free(run_done(f, LINEAR, "rounds=20"));
    assert_int_equal(h.warnings, 0);
}

/* Without training metrics the test loss is watched. */
static void other_losses(void **state)
{
    fixture *f = *state;
    char error[1024];
    diverges(f, SMALL,
             "local.lr=300;rounds=100;model={kind: mlp, hidden: [5]};metrics.train=false;metrics.clients=false;"
             "stop.diverged=20",
             error, sizeof error);
    assert_says(error, "the test loss is ");
}

/* Every method names what sets its own step. */
static void divergence_names_a_remedy(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *yaml, *assignments, *remedy;
    } cases[] = {
        {LINEAR, "algorithm={kind: fedgia, t: 0.001, k0: 40}",
         "fedgia diverges, try a larger algorithm.t, or algorithm.sigma"},
        {LINEAR, "algorithm=scaffold;local.lr=1e200", "try a smaller local.lr"},
        {SMALL, "algorithm={kind: apfl, lr_local: 1e30};model=mlp",
         "the own model is no longer finite; apfl diverges, try a smaller algorithm.lr_local"},
        {SMALL, "algorithm={kind: fedcpsl, lr_local: 1e30};model=mlp", "try a smaller algorithm.lr_local"},
        {SMALL, "algorithm={kind: fedavg, server_lr: 1e300}", "try a smaller local.lr or algorithm.server_lr"},
        {SMALL, "algorithm={kind: fedvra, d: 1e300}",
         "try a smaller algorithm.a or local.lr, or a larger algorithm.gamma"},
        {LINEAR, "algorithm={kind: fedprox, mu: 1e200};local.steps=9", "try a smaller local.lr or algorithm.mu"},
        {LINEAR, "algorithm={kind: feddyn, alpha: 1e200};local.steps=9", "try a smaller local.lr or algorithm.alpha"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[1024];
        diverges(f, cases[i].yaml, cases[i].assignments, error, sizeof error);
        assert_says(error, cases[i].remedy);
    }
}

/* Features that no step suits are named as the reason; and a constraint that does not hold at the start is none. */
static void other_reasons(void **state)
{
    fixture *f = *state;
    char error[1024], yaml[600];
    fixture_write(f, "large.csv", "1,1e30,0.5\n2,2,1\n3,1,2\n4,5,1\n");
    snprintf(
        yaml, sizeof yaml,
        "precision: f64\ndata: {kind: csv, train: %s/large.csv, task: regression}\npartition: {kind: iid, clients: 2}\n"
        "model: least_squares\nrounds: 9\nlocal: {lr: 0.1}\n",
        f->folder);
    diverges(f, yaml, "", error, sizeof error);
    assert_says(error, "\nfeatures are as large as 1e+30: data.normalize");
    diverges(f, LINEAR, "local.lr=3", error, sizeof error);
    assert_null(strstr(error, "data.normalize"));
    fixture_write(f, "large.csv", "1,2,1e-9\n2,1,0\n3,1,0\n4,5,0\n");
    fl_run_free(run_done(f, yaml, "local.lr=0.001;regularizer={kind: simplex, total: 1}"));
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, LINEAR, "stop.diverged=0.5");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "stop.diverged is 0.5, but must be above 1, or 0");
    fl_config_free(cfg);
}

/* No result, but the metrics so far, in a file that the message names; the next run with that output clears it away. */
static void metrics_are_kept(void **state)
{
    fixture *f = *state;
    char error[1024], assignments[256], path[600];
    snprintf(assignments, sizeof assignments, "local.lr=3;output=%s/out", f->folder);
    snprintf(path, sizeof path, "%s", fixture_path(f, "out.unfinished.csv"));
    diverges(f, LINEAR, assignments, error, sizeof error);
    assert_says(error, "\nthe metrics so far are in ");
    assert_says(error, path);
    char *csv = read_whole(path, NULL);
    assert_non_null(csv);
    assert_int_equal(strncmp(csv, "round,cohort,train_loss,", 24), 0);
    assert_non_null(strstr(csv, "\n0,0,"));
    free(csv);
    assert_int_equal(entries(f->folder), 2); /* and config.yaml */

    snprintf(assignments, sizeof assignments, "rounds=2;output=%s/out", f->folder);
    fl_run *run = run_done(f, LINEAR, assignments);
    assert_ok(f->ctx, fl_run_save(run));
    assert_int_equal(access(path, F_OK), -1);
    fl_run_free(run);

    snprintf(assignments, sizeof assignments, "local.lr=3;output=%s/never", f->folder); /* nobody asked for a result */
    run = run_new(f, LINEAR, assignments);
    assert_int_equal(fl_run_go(run, NULL, NULL), FL_EDIVERGED);
    fl_run_free(run);
    fli_clear(f->ctx);
    assert_int_equal(access(fixture_path(f, "never.unfinished.csv"), F_OK), -1);

    fixture_write(f, "mine.unfinished.csv", "round the world\n"); /* somebody's own */
    snprintf(assignments, sizeof assignments, "local.lr=3;output=%s/mine", f->folder);
    diverges(f, LINEAR, assignments, error, sizeof error);
    assert_says(error, "could not be kept in ");
    csv = read_whole(fixture_path(f, "mine.unfinished.csv"), NULL);
    assert_string_equal(csv, "round the world\n");
    free(csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(rising_loss),   FIXTURE_TEST(other_losses),     FIXTURE_TEST(divergence_names_a_remedy),
        FIXTURE_TEST(other_reasons), FIXTURE_TEST(metrics_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
