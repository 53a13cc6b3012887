/* Every metric of the list: its row is complete, it has a value where it applies, and it is shown wherever its row
 * says. */
#include "row.h"
#include "studies.h"

#include "metric/metric.h"

/* ---- the rows -------------------------------------------------------------------------------------------- */

static int is_name(const char *s)
{
    return *s >= 'a' && *s <= 'z' && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

static void rows_are_complete(void **state)
{
    (void)state;
    for (size_t k = 0; fli_metrics[k]; k++) {
        const fli_metric *m = fli_metrics[k];
        const fl_metric *is = &m->is;
        if (!is->name || !is_name(is->name)) fail_msg("metric %zu has no name", k);
        if (!is->title || !*is->title || !is->help || !*is->help) fail_msg("%s: no title, or no help", is->name);
        if (!!m->count + !!m->mean + !!m->at + !!m->measure != 1)
            fail_msg("%s: has one source, not none or several", is->name);
        if (m->count && (m->wanted[0] || m->fits || m->asks))
            fail_msg("%s: what is counted is asked of nobody", is->name);
        if (is->unit > FL_UNIT_SECONDS || is->better > FL_BETTER_LOW || is->scale > FL_SCALE_WIDE || is->digits < 0)
            fail_msg("%s: its unit, direction, scale or digits are none", is->name);
        if (strcmp(is->name, "round") && !is->shown[FL_VIEW_EVENTS].label) fail_msg("%s: has no tag", is->name);
        if (is->shown[FL_VIEW_STUDY].label && !is->shown[FL_VIEW_STUDY_FILES].label)
            fail_msg("%s: is in a comparison's table, but not in its files", is->name);
        if (!is->shown[FL_VIEW_TARGET].label != !is->shown[FL_VIEW_TARGET_FILES].label ||
            (is->shown[FL_VIEW_TARGET].label && !is->shown[FL_VIEW_STUDY_FILES].label))
            fail_msg("%s: what a target cost is in the table and in the files", is->name);
        assert_ptr_equal(fl_metric_at(k), is);
        assert_ptr_equal(fl_metric_find(is->name), is); /* no other has this name */
    }
    assert_null(fl_metric_find("no_such_metric"));
    assert_null(fl_metric_at(FL_METRICS_MAX));
}

/* Whoever reads metrics.csv by place relies on these. */
static void columns_stay_in_place(void **state)
{
    static const char *const names[] = {"round",
                                        "cohort",
                                        "train_loss",
                                        "train_accuracy",
                                        "test_loss",
                                        "test_accuracy",
                                        "gradient2",
                                        "client_q10",
                                        "client_q50",
                                        "client_q90",
                                        "regularizer",
                                        "local_train_loss",
                                        "local_train_accuracy",
                                        "local_test_loss",
                                        "local_test_accuracy",
                                        "bytes_up",
                                        "bytes_down",
                                        "local_steps",
                                        "seconds",
                                        "simulated_seconds",
                                        "staleness",
                                        "staleness_max",
                                        "local_q10",
                                        "local_q50",
                                        "local_q90",
                                        "local_worst",
                                        "pseudo_accuracy",
                                        "cluster_accuracy",
                                        "cluster_nmi",
                                        "communications",
                                        "evaluation_bytes_up",
                                        "evaluation_bytes_down",
                                        "local_std",
                                        "labelled_loss",
                                        "labels_move",
                                        "hypergradient",
                                        "lower_distance",
                                        "system_distance",
                                        "gradient_mapping",
                                        "potential",
                                        "potential_rise",
                                        "idle",
                                        "idle_most",
                                        "weighted_hypergradient",
                                        "gap",
                                        "local_gradient2"};
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) assert_string_equal(fl_metric_at(k)->name, names[k]);
}

static void views_are_in_order(void **state)
{
    (void)state;
    for (int view = 0; view < FL_VIEWS; view++) {
        const fl_metric *m, *before = NULL;
        size_t n = 0, shown = 0;
        for (size_t k = 0; fli_metrics[k]; k++) shown += fli_metrics[k]->is.shown[view].label != NULL;
        for (; (m = fl_metric_shown((fl_view)view, n)); before = m, n++) {
            int order = m->shown[view].order ? m->shown[view].order : FL_ORDER_MIDDLE;
            int last = !before ? 0 : before->shown[view].order ? before->shown[view].order : FL_ORDER_MIDDLE;
            assert_true(m->shown[view].label && order >= last);
            if (order == last) assert_true(fl_metric_place(before) < fl_metric_place(m));
            for (size_t k = 0; k < n; k++)
                assert_string_not_equal(m->shown[view].label, fl_metric_shown((fl_view)view, k)->shown[view].label);
        }
        assert_true(n > 0 && n == shown);
    }
    assert_null(fl_metric_shown(FL_VIEWS, 0));
}

static void metrics_know_which_value_is_better(void **state)
{
    (void)state;
    const fl_metric *loss = fl_metric_find("train_loss"), *accuracy = fl_metric_find("test_accuracy");
    const fl_metric *cohort = fl_metric_find("cohort");
    assert_true(fl_metric_beats(loss, 1, 2) && !fl_metric_beats(loss, 2, 1) && !fl_metric_beats(loss, 1, 1));
    assert_true(fl_metric_beats(accuracy, 2, 1) && !fl_metric_beats(accuracy, 1, 2));
    assert_false(fl_metric_beats(cohort, 1, 2) || fl_metric_beats(cohort, 2, 1));
    assert_false(fl_metric_beats(loss, NAN, 1) || fl_metric_beats(loss, 1, NAN) || fl_metric_beats(accuracy, NAN, 1));
    assert_true(fli_metric_reaches(&fli_metric_test_accuracy, 0.9, 0.9));
    assert_true(fli_metric_reaches(&fli_metric_test_accuracy, 0.91, 0.9));
    assert_false(fli_metric_reaches(&fli_metric_test_accuracy, 0.89, 0.9));
    assert_true(fli_metric_reaches(&fli_metric_gradient2, 0.89, 0.9));
    assert_false(fli_metric_reaches(&fli_metric_gradient2, 0.91, 0.9) ||
                 fli_metric_reaches(&fli_metric_gradient2, NAN, 1));
}

static void rows_by_name(void **state)
{
    (void)state;
    fl_row row = empty_row();
    for (size_t k = 0; fli_metrics[k]; k++) row.value[k] = 1 + (double)k;
    for (size_t k = 0; fli_metrics[k]; k++) {
        assert_true(fl_row_get(&row, fli_metrics[k]->is.name) == 1 + (double)k);
        assert_true(fl_row_value(&row, fl_metric_at(k)) == 1 + (double)k);
    }
    assert_true(isnan(fl_row_get(&row, "no_such_metric")) && isnan(fl_row_value(&row, NULL)));
    assert_true(isnan(fl_row_get(NULL, "train_loss")) && isnan(fl_row_get(&row, NULL)) && fl_row_round(NULL) == 0);
    static const struct {
        double value;
        size_t round;
    } rounds[] = {{0, 0}, {7, 7}, {1e9, 1000000000}, {NAN, 0}, {-3, 0}, {1e300, SIZE_MAX}};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        *metric(&row, "round") = rounds[i].value;
        assert_true(fl_row_round(&row) == rounds[i].round);
    }
}

/* ---- their values ---------------------------------------------------------------------------------------- */

#define BLOBS "data: {kind: blobs, classes: 3, features: 4, samples: 150, test_fraction: 0.4"
#define REST                                                                                                           \
    "partition: {kind: iid, clients: 6}\nparticipation: {kind: uniform, count: 3}\nlocal: {batch: 5, lr: 0.1}\n"       \
    "rounds: 4\n"
#define ALL "metrics: {gradient: true, gradient_mapping: true, local: true}\n"

/* Between them, every metric applies. */
static const struct {
    const char *yaml;
    const char *missing; /* what is wanted, but does not apply there, in the order of the list; NULL: no matter */
} runs[] = {
    {BLOBS "}\nmodel: softmax\n" REST ALL "algorithm: apfl\nsystem: {kind: lognormal}\n",
     " regularizer staleness staleness_max potential_rise idle idle_most"},
    {BLOBS "}\nmodel: softmax\n" REST ALL "algorithm: feddr\nregularizer: {kind: l1, weight: 0.01}\n",
     " simulated_seconds staleness staleness_max potential_rise idle idle_most"},
    {BLOBS "}\nmodel: softmax\n" REST "algorithm: fedbuff\nsystem: {kind: lognormal}\nmetrics: {gradient: true}\n",
     " regularizer potential_rise idle idle_most"},
    {BLOBS ", unlabelled: 0.5}\nmodel: softmax\nsemi: {labels: closed_form}\n" REST ALL "algorithm: fedcpsl\n",
     " regularizer simulated_seconds staleness staleness_max potential_rise idle idle_most gap"},
    {BLOBS ", unlabelled: 0.5}\nmodel: softmax\nsemi: {labels: projected}\n" REST ALL "algorithm: fedcpsl\n",
     " regularizer simulated_seconds staleness staleness_max potential_rise idle idle_most"},
    {BLOBS ", normalize: given, mean: -9, std: 1}\nmodel: {kind: factorization, rank: 3}\n" REST ALL
           "algorithm: fedvra-u\nregularizer: nonnegative\n",
     NULL}, /* no classifier: it has no accuracies */
    {BLOBS "}\nmodel: softmax\n" REST "metrics: {gradient: true, hypergradient: true}\nalgorithm: simfbo\n"
           "bilevel: regularization\n",
     " regularizer simulated_seconds staleness staleness_max potential_rise idle idle_most"},
    {BLOBS "}\nmodel: softmax\n" REST "metrics: {gradient: true, hypergradient: true}\nalgorithm: lfednest\n"
           "bilevel: regularization\n",
     " regularizer simulated_seconds staleness staleness_max system_distance potential_rise idle idle_most"},
    {"data: {kind: linreg, clients: 4, features: 3}\nmodel: least_squares\nrounds: 4\nmetrics: {potential: true}\n"
     "algorithm: {kind: feddr, eta: 0.01, alpha: 1, solver: exact, init: exact}\n",
     NULL},
};
enum { RUNS = sizeof runs / sizeof *runs };

static int is_wanted(const fl_run *run, const fli_metric *m)
{
    return fli_metric_wanted(m, &run->plan.settings->metrics, run->plan.model);
}

static void applies_somewhere(void **state)
{
    fixture *f = *state;
    int seen[FL_METRICS_MAX] = {0};
    for (size_t i = 0; i < RUNS; i++) {
        char missing[512] = "";
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, runs[i].yaml);
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        for (size_t k = 0; fli_metrics[k]; k++) {
            int finite = isfinite(fl_run_row(run)->value[k]), wanted = is_wanted(run, fli_metrics[k]);
            seen[k] |= finite;
            if (!wanted) assert_true(isnan(fl_run_row(run)->value[k]));
            if (wanted && !finite) snprintf(missing + strlen(missing), 64, " %s", fli_metrics[k]->is.name);
        }
        if (runs[i].missing) assert_string_equal(missing, runs[i].missing);
        fl_run_free(run);
    }
    for (size_t k = 0; fli_metrics[k]; k++)
        if (!seen[k] && strncmp(fli_metrics[k]->is.name, "idle", 4)) /* those are in test_ranks_pace.c */
            fail_msg("%s: no run here has it; add one that does", fli_metrics[k]->is.name);
}

/* What is not asked for is not there, and costs nothing. */
static void only_what_is_wanted(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, BLOBS "}\npartition: {kind: iid, clients: 3}\nmodel: softmax\nrounds: 2\n"
                                             "metrics: {test: false, train: false, clients: false}\n");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    for (size_t k = 0; fli_metrics[k]; k++)
        if (!fli_metrics[k]->count) assert_true(isnan(fl_run_row(run)->value[k]));
    assert_true(fl_row_get(fl_run_row(run), "evaluation_bytes_up") == 0);
    fl_run_free(run);
}

/* ---- where they are shown -------------------------------------------------------------------------------- */

static void collect(void *arg, const char *text)
{
    char **all = arg;
    *all = strdup(text);
}

static void in_the_reference(void **state)
{
    fixture *f = *state;
    char *text = NULL, line[64];
    assert_ok(f->ctx, fl_reference(f->ctx, FL_REFERENCE_MARKDOWN, collect, &text));
    const char *at = strstr(text, "columns\n");
    assert_non_null(at);
    for (size_t k = 0; fli_metrics[k]; k++) {
        snprintf(line, sizeof line, "\n- %s: ", fli_metrics[k]->is.name);
        at = strstr(at, line);
        if (!at) fail_msg("%s is not in the reference, or not in its place", fli_metrics[k]->is.name);
    }
    free(text);
}

static void must_have(const char *text, size_t size, const char *before, const char *label, const char *after)
{
    char want[256];
    snprintf(want, sizeof want, "%s%s%s", before, label, after);
    if (!memmem(text, size, want, strlen(want))) fail_msg("%s is missing", want);
}

static char *file(fixture *f, const char *name, size_t *size)
{
    char *text = read_whole(fixture_path(f, name), size);
    if (!text) fail_msg("%s is missing", name);
    return text;
}

/* Each run as a comparison of one: what it measured stands in all its files. */
static void in_the_files(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < RUNS; i++) {
        char yaml[1024], out[16], events[200], name[256];
        size_t size[4];
        snprintf(yaml, sizeof yaml, "%sseeds: 1\nmethods:\n- {label: M}\n", runs[i].yaml);
        snprintf(out, sizeof out, "out%zu", i);
        snprintf(events, sizeof events, "%s/tb%zu", f->folder, i);
        fl_study *s = study_done(f, yaml, out, (fl_study_options){.tensorboard = events});
        const fl_row *row = &s->outcomes[0].rows[s->outcomes[0].count - 1];
        snprintf(name, sizeof name, "%s/results.csv", out);
        char *csv = file(f, name, &size[0]);
        snprintf(name, sizeof name, "%s/report.html", out);
        char *page = file(f, name, &size[1]);
        snprintf(name, sizeof name, "tb%zu/m/seed-1/events.out.tfevents.0000000000.fedloom", i);
        char *tb = file(f, name, &size[2]);
        snprintf(name, sizeof name, "%s/results.json", out);
        char *json = file(f, name, &size[3]);
        for (size_t k = 0; fli_metrics[k]; k++) {
            const fl_place *at = fli_metrics[k]->is.shown;
            const char *in_files = at[FL_VIEW_STUDY_FILES].label;
            if (in_files) must_have(csv, size[0], ",", in_files, "_mean,");
            if (in_files) must_have(json, size[3], "\"", in_files, "\": ");
            if (!isfinite(row->value[k])) continue;
            if (at[FL_VIEW_CHART].label) must_have(page, size[1], "data-chart=\"", at[FL_VIEW_CHART].label, "\"");
            if (at[FL_VIEW_STUDY].label && !fli_metrics[k]->is.beyond_round)
                must_have(page, size[1], "\">", at[FL_VIEW_STUDY].label, "</th>");
            if (at[FL_VIEW_EVENTS].label) must_have(tb, size[2], "", at[FL_VIEW_EVENTS].label, "");
        }
        free(csv);
        free(page);
        free(tb);
        free(json);
        fl_study_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),  cmocka_unit_test(columns_stay_in_place),
        cmocka_unit_test(views_are_in_order), cmocka_unit_test(metrics_know_which_value_is_better),
        cmocka_unit_test(rows_by_name),       FIXTURE_TEST(applies_somewhere),
        FIXTURE_TEST(only_what_is_wanted),    FIXTURE_TEST(in_the_reference),
        FIXTURE_TEST(in_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
