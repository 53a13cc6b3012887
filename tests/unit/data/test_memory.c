/* Data in the memory of a program: the bits of a run on a file with the same samples, nothing copied, nothing
 * changed. */
#include "memory_problem.h"

/* ---- the same in files ------------------------------------------------------------------------------------- */

static void write_npy(fixture *f, const char *name, const char *type, const char *shape, const void *body, size_t n)
{
    char head[128] = "\x93NUMPY\x01";
    memset(head + 8, ' ', sizeof head - 8);
    head[8] = (char)(sizeof head - 10);
    head[9] = 0;
    int length =
        snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    head[10 + length] = ' ';
    head[sizeof head - 1] = '\n';
    FILE *out = fopen(fixture_path(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(head, 1, sizeof head, out), sizeof head);
    assert_int_equal(fwrite(body, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* `inner`: the shape of a sample. */
static void write_arrays(fixture *f, const problem *p, char form, int regression, const char *inner)
{
    static const char *const names[] = {"x.npy", "y.npy", "tx.npy", "ty.npy"};
    for (int test = 0; test < 2; test++) {
        size_t first = test ? N : 0, n = test ? TEST : N, width = form == 'u' ? 1 : form == 'f' ? 4 : 8;
        const char *x = form == 'u' ? (const char *)p->u8 : form == 'f' ? (const char *)p->f32 : (const char *)p->f64;
        char shape[40];
        snprintf(shape, sizeof shape, "(%zu, %s)", n, inner);
        write_npy(f, names[2 * test],
                  form == 'u'   ? "|u1"
                  : form == 'f' ? "<f4"
                                : "<f8",
                  shape, x + first * DIM * width, n * DIM * width);
        snprintf(shape, sizeof shape, "(%zu,)", n);
        write_npy(f, names[2 * test + 1], regression ? "<f8" : "<i4", shape,
                  regression ? (const void *)(p->target + first) : (const void *)(p->label + first),
                  n * (regression ? 8 : 4));
    }
    char shape[40];
    snprintf(shape, sizeof shape, "(%d,)", N);
    write_npy(f, "g.npy", "<u4", shape, p->owner, sizeof p->owner);
}

static void write_libsvm(fixture *f, const char *name, const problem *p, size_t first, size_t n)
{
    FILE *out = fopen(fixture_path(f, name), "w");
    assert_non_null(out);
    for (size_t i = first; i < first + n; i++) {
        fprintf(out, "%d", p->label[i]);
        if (!first) fprintf(out, " qid:%u", p->owner[i]);
        for (size_t j = 0; j < DIM; j++)
            if (p->f64[i * DIM + j] != 0) fprintf(out, " %zu:%.17g", j + 1, p->f64[i * DIM + j]);
        fprintf(out, "\n");
    }
    fclose(out);
}

/* ---- runs that must agree ------------------------------------------------------------------------------------ */

/* A run on `file`, settings in which %s stands for the folder, and one on the same data in memory. */
static void same_as_file(fixture *f, const char *file, const char *common, const fl_samples *train,
                         const fl_samples *test, const fl_holding *who)
{
    char yaml[1000];
    snprintf(yaml, sizeof yaml, file, f->folder, f->folder, f->folder, f->folder, f->folder);
    fl_config *on_file = fixture_config(f, RUN "partition: natural\n"), *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(on_file, common, NULL));
    assert_ok(f->ctx, fl_config_text(on_file, yaml, NULL));
    assert_ok(f->ctx, fl_config_text(cfg, RUN, NULL));
    assert_ok(f->ctx, fl_config_text(cfg, common, NULL));
    assert_ok(f->ctx, fl_config_data(cfg, train, test, who));
    fl_run *a = run_done(on_file), *b = run_done(cfg);
    assert_same_runs(a, b);
    assert_memory_equal(&a->plan.samples, &b->plan.samples, sizeof a->plan.samples); /* one digest for both */
    fl_run_free(a);
    fl_run_free(b);
    fl_config_free(on_file);
    fl_config_free(cfg);
}

#define NPY                                                                                                            \
    "data: {kind: npy, train_x: %s/x.npy, train_y: %s/y.npy, train_groups: %s/g.npy, test_x: %s/tx.npy, "              \
    "test_y: %s/ty.npy"

static void same_as_arrays(void **state)
{
    static const struct {
        char form;
        const char *common;
    } cases[] = {
        {'u', "model: softmax\nalgorithm: scaffold\n"},
        {'u', "model: softmax\ndata: {normalize: standard, test_fraction: 0.2}\n"},
        {'f', "model: {kind: mlp, hidden: [5]}\ndata: {normalize: columns}\n"},
        {'f', "model: softmax\nprecision: f64\ndata: {normalize: unit}\n"},
        {'d', "model: softmax\nprecision: f64\ndata: {normalize: standard}\n"},
        {'d', "model: softmax\nprecision: f64\ndata: {unlabelled: 0.5}\nsemi: {labels: closed_form}\n"},
    };
    fixture *f = *state;
    problem *p = problem_new(), *before = problem_new();
    fl_holding by_start = {.size = sizeof by_start, .clients = CLIENTS, .start = starts};
    fl_holding by_owner = {.size = sizeof by_owner, .clients = CLIENTS, .owner = p->owner};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_samples train = dense_of(p, cases[i].form, 0, 0, N), test = dense_of(p, cases[i].form, 0, N, TEST);
        write_arrays(f, p, cases[i].form, 0, "6");
        same_as_file(f, NPY "}\n", cases[i].common, &train, &test, i % 2 ? &by_start : &by_owner);
    }
    assert_memory_equal(p, before, sizeof *p); /* labels were taken away, but not here */
    free(before);
    free(p);
}

static void same_as_a_regression(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    fl_samples train = dense_of(p, 'd', 1, 0, N), test = dense_of(p, 'd', 1, N, TEST);
    write_arrays(f, p, 'd', 1, "6");
    same_as_file(f, NPY ", task: regression}\n", "model: least_squares\nprecision: f64\nlocal: {lr: 0.001}\n", &train,
                 &test, &who);
    free(p);
}

static void same_as_images(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    fl_samples train = dense_of(p, 'u', 0, 0, N), test = dense_of(p, 'u', 0, N, TEST);
    train.shape[0] = test.shape[0] = 1;
    train.shape[1] = test.shape[1] = 2;
    train.shape[2] = test.shape[2] = 3;
    write_arrays(f, p, 'u', 0, "2, 3");
    same_as_file(f, NPY "}\n", "model: softmax\ndata: {normalize: image, augment: cifar}\n", &train, &test, &who);
    same_as_file(f, NPY "}\n", "model: softmax\ndata: {crop: 2}\n", &train, &test, &who);
    free(p);
}

static void same_as_sparse_files(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    write_libsvm(f, "train.svm", p, 0, N);
    write_libsvm(f, "test.svm", p, N, TEST);
    for (int wide = 0; wide < 2; wide++)
        for (int scaled = 0; scaled < 2; scaled++) {
            char common[200];
            fl_samples train = sparse_of(p, wide, 0), test = sparse_of(p, wide, 1);
            snprintf(common, sizeof common, "model: softmax\nprecision: %s\ndata: {normalize: %s}\n",
                     wide ? "f64" : "f32", scaled ? "unit" : "auto");
            /* %.0s: the folder, which it does not need so often */
            same_as_file(f,
                         "data: {kind: libsvm, train: %s/train.svm, test: %s/test.svm, groups: qid, storage: sparse, "
                         "features: 6, classes: 3}\n%.0s%.0s%.0s",
                         common, &train, &test, &who);
        }
    free(p);
}

/* ---- configurations --------------------------------------------------------------------------------------------- */

static void later_texts_override_earlier_ones(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, "rounds: 3\nlocal: {lr: 0.5}\n", NULL));
    assert_ok(f->ctx, fl_config_text(cfg, "local: {lr: 0.25}\n", "second"));
    assert_ok(f->ctx, fl_config_text(cfg, "", NULL));
    assert_string_equal(fl_config_get(cfg, "rounds"), "3");
    assert_string_equal(fl_config_get(cfg, "local.lr"), "0.25");
    assert_fails(f->ctx, fl_config_text(cfg, "a: [1", NULL), FL_ECONFIG, "the text:2:");
    assert_fails(f->ctx, fl_config_text(cfg, "a: b\n c: d: e\n", "mine"), FL_ECONFIG, "mine:2:");
    assert_fails(f->ctx, fl_config_text(cfg, "- 1\n", NULL), FL_ECONFIG, "must be a map");
    assert_fails(f->ctx, fl_config_text(cfg, NULL, NULL), FL_ECONFIG, "no text");
    size_t room = 4u << 20;
    char *long_text = malloc(room + 1);
    memset(long_text, '\n', room);
    long_text[room] = 0;
    assert_fails(f->ctx, fl_config_text(cfg, long_text, NULL), FL_ECONFIG, "too large for a configuration");
    free(long_text);
    fl_config_free(cfg);
}

static void is_a_kind_of_data(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    collected text = {0};
    fl_config *cfg = memory_config(f, p, "model: softmax\ndata: {kind: csv, train: x.csv, normalize: unit}\n");
    assert_ok(f->ctx, fl_config_print(cfg, collect_text, &text));
    assert_non_null(strstr(text.s, "data:\n  kind: memory\n  normalize: unit\n")); /* csv's own keys are gone */
    text.n = 0;
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 3, NULL, collect_text, &text));
    assert_non_null(strstr(text.s, "memory: 60 training samples, 6 features, 3 classes; f64"));
    assert_non_null(strstr(text.s, "natural: 3 clients"));
    text.n = 0;
    assert_ok(f->ctx, fl_list(f->ctx, "data", "memory", collect_text, &text));
    assert_non_null(strstr(text.s, "fl_config_data"));
    free(text.s);
    fl_config_free(cfg);
    cfg = fixture_config(f, "model: softmax\ndata: memory\n"); /* a file alone */
    fl_run *run = NULL;
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "a file cannot name them");
    fl_config_free(cfg);
    /* another kind, chosen later, counts */
    cfg = memory_config(f, p, RUN "model: softmax\n");
    assert_ok(f->ctx, fl_config_set(cfg, "data={kind: blobs, samples: 30}"));
    assert_ok(f->ctx, fl_config_set(cfg, "partition={kind: iid, clients: 5}"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_int_equal(fl_run_clients(run), 5);
    fl_run_free(run);
    fl_config_free(cfg);
    free(p);
}

static void without_a_holding(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_samples train = dense_of(p, 'f', 0, 0, N);
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, RUN "model: softmax\npartition: {kind: iid, clients: 4}\n", NULL));
    assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, NULL));
    fl_run *run = run_done(cfg);
    assert_int_equal(fl_run_clients(run), 4);
    assert_true(run->plan.fed->train->x == (void *)p->f32 && run->plan.fed->train->label == p->label); /* as they lie */
    fl_run_free(run);
    assert_ok(f->ctx, fl_config_set(cfg, "partition=natural"));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "a program gives an fl_holding");
    fl_config_free(cfg);
    free(p);
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

/* Weights change the objective: what is measured is weighed as what is minimised. */
static void weighs_clients(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    const double weight[CLIENTS] = {5, 1, 2}, sizes[CLIENTS] = {25, 15, 20}, equal[CLIENTS] = {3, 3, 3};
    const double *const given[] = {weight, sizes, equal};
    fl_samples train = dense_of(p, 'd', 0, 0, N);
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    static const char yaml[] =
        "rounds: 3\nprecision: f64\nmodel: softmax\nparticipation: everyone\nalgorithm: scaffold\n";
    fl_run *weighed[3];
    for (int i = 0; i < 3; i++) {
        fl_config *cfg = fl_config_new(f->ctx);
        assert_ok(f->ctx, fl_config_text(cfg, yaml, NULL));
        who.weight = given[i];
        assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, &who));
        weighed[i] = run_done(cfg);
        who.weight = NULL;
        assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, &who));
        assert_ok(f->ctx, fl_config_set(cfg, i == 2 ? "weights=uniform" : "weights=samples"));
        fl_run *usual = run_done(cfg);
        if (i) {
            assert_same_runs(usual, weighed[i]);
        } else {
            double a = fl_row_get(&usual->rows.at[1], "train_loss"),
                   b = fl_row_get(&weighed[i]->rows.at[1], "train_loss");
            assert_true(a != b);
        }
        fl_run_free(usual);
        fl_config_free(cfg);
    }
    /* at the start all losses are log 3, whatever the weights; afterwards not */
    assert_near(fl_row_get(&weighed[0]->rows.at[0], "train_loss"), log(3), 1e-12);
    assert_true(!!memcmp(&weighed[0]->plan.samples, &weighed[1]->plan.samples, sizeof(fli_digest)));
    for (int i = 0; i < 3; i++) fl_run_free(weighed[i]);
    free(p);
}

/* ---- samples known by their numbers alone ---------------------------------------------------------------------- */

static fl_status plan_of(fixture *f, const fl_samples *s, const fl_holding *who, const char *set, fli_plan *plan)
{
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, "model: softmax\n", NULL));
    assert_ok(f->ctx, fl_config_set(cfg, set));
    assert_ok(f->ctx, fl_config_data(cfg, s, NULL, who));
    fl_status status = fli_plan_data(cfg, NULL, plan);
    fl_config_free(cfg); /* the plan does not need it */
    return status;
}

static void numbers_alone(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_samples s = {.size = sizeof s, .n = N}, with_labels = s, with_targets = s;
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    const size_t other[] = {0, 24, 40, N};
    fli_plan plans[4];
    with_labels.label = p->label, with_labels.classes = CLASSES;
    with_targets.target = p->target;
    assert_ok(f->ctx, plan_of(f, &s, &who, "name=x", &plans[0]));
    assert_ok(f->ctx, plan_of(f, &with_labels, &who, "data.unlabelled=0.5", &plans[1]));
    assert_ok(f->ctx, plan_of(f, &with_targets, &who, "data.test_fraction=0.2", &plans[2]));
    who.start = other;
    assert_ok(f->ctx, plan_of(f, &s, &who, "data.normalize=none", &plans[3]));
    for (int i = 0; i < 4; i++) {
        const uint32_t idx[] = {40, 3, 59};
        fli_batch b;
        assert_int_equal(plans[i].fed->dim, 0);
        assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f32, 0, 3, &b));
        fli_batch_gather(&b, plans[i].fed->train, idx, 3);
        assert_int_equal(b.n, 3);
        if (i == 2) assert_true(((float *)b.target)[1] == (float)p->target[3]);
        fli_batch_fini(&b);
        for (int j = 0; j < i; j++) assert_true(!!memcmp(&plans[i].samples, &plans[j].samples, sizeof(fli_digest)));
    }
    for (int i = 0; i < 4; i++) fli_plan_fini(&plans[i]);
    assert_fails(f->ctx, plan_of(f, &s, &who, "data.normalize=standard", &plans[0]), FL_ECONFIG, "have no features");
    fli_plan_fini(&plans[0]);
    assert_fails(f->ctx, plan_of(f, &s, &who, "data.crop=2", &plans[0]), FL_ECONFIG, "is for images");
    fli_plan_fini(&plans[0]);
    /* the models that come with fedloom need features */
    fl_config *cfg = fl_config_new(f->ctx);
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_config_text(cfg, "model: softmax\n", NULL));
    assert_ok(f->ctx, fl_config_data(cfg, &with_labels, NULL, &who));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "model softmax needs features, but the data has none");
    collected text = {0};
    assert_ok(f->ctx, fl_config_data(cfg, &s, NULL, &who));
    assert_ok(f->ctx, fl_data_describe(cfg, NULL, 2, NULL, collect_text, &text));
    assert_non_null(strstr(text.s, "60 training samples, known by their numbers alone"));
    free(text.s);
    fl_config_free(cfg);
    free(p);
}

/* ---- what is kept of runs ---------------------------------------------------------------------------------------- */

#define KEPT RUN "model: softmax\nprecision: f64\nalgorithm: scaffold\ncheckpoint_every: 1\n"

static void stop_after_two(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)row;
    (void)measured;
    if (fl_run_round(run) == 2) fl_run_stop(*(fl_run **)arg);
}

static void goes_on_from_checkpoints(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    char output[200], set[220];
    fl_run *run = NULL, *again = NULL;
    snprintf(output, sizeof output, "%s/out", f->folder);
    snprintf(set, sizeof set, "output=%s", output);
    fl_config *cfg = memory_config(f, p, KEPT);
    assert_ok(f->ctx, fl_config_set(cfg, "checkpoint_every=0"));
    fl_run *whole = run_done(cfg);
    assert_ok(f->ctx, fl_config_set(cfg, "checkpoint_every=1"));
    assert_ok(f->ctx, fl_config_set(cfg, set));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, stop_after_two, &run));
    fl_run_free(run);
    fl_config_free(cfg);
    cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, output));
    assert_fails(f->ctx, fl_run_resume(cfg, &again), FL_ECONFIG, "a file cannot name them");
    fl_samples train = dense_of(p, 'd', 0, 0, N), test = dense_of(p, 'd', 0, N, TEST);
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    p->f64[7] += 0.5; /* other data */
    assert_ok(f->ctx, fl_config_data(cfg, &train, &test, &who));
    assert_fails(f->ctx, fl_run_resume(cfg, &again), FL_EFORMAT, "was made from other data");
    p->f64[7] -= 0.5;
    const double weight[CLIENTS] = {1, 2, 1};
    who.weight = weight;
    assert_ok(f->ctx, fl_config_data(cfg, &train, &test, &who));
    assert_fails(f->ctx, fl_run_resume(cfg, &again), FL_EFORMAT, "was made from other data");
    who.weight = NULL;
    assert_ok(f->ctx, fl_config_data(cfg, &train, &test, &who));
    assert_ok(f->ctx, fl_run_resume(cfg, &again));
    assert_int_equal(fl_run_round(again), 2);
    assert_ok(f->ctx, fl_run_go(again, NULL, NULL));
    assert_same_runs(whole, again);
    fl_run_free(again);
    fl_run_free(whole);
    fl_config_free(cfg);
    free(p);
}

static void runs_with(fixture *f, fl_config *cfg, const fl_study_options *o, size_t taken_over)
{
    fl_study *s = NULL;
    size_t done;
    assert_ok(f->ctx, fl_study_new(cfg, o, &s));
    assert_int_equal(done_of(s), taken_over);
    fl_status status = fl_study_go(s, NULL, NULL);
    assert_ok(f->ctx, status);
    assert_ok(f->ctx, fl_study_write(s));
    assert_int_equal(fl_study_runs(s, &done), 4);
    assert_int_equal(done, 4);
    fl_study_free(s);
}

static void a_comparison_uses_data_in_memory(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    char out[200];
    snprintf(out, sizeof out, "%s/study", f->folder);
    fl_study_options o = {.size = sizeof o, .output = out, .jobs = 2};
    fl_config *cfg = memory_config(f, p, RUN "model: softmax\nseeds: 2\n" TWO);
    runs_with(f, cfg, &o, 0);
    runs_with(f, cfg, &o, 4); /* finished runs are taken over, */
    p->f64[3] += 1;
    fl_study *s = NULL;
    assert_ok(f->ctx, fl_study_new(cfg, &o, &s));
    assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO, "from data that have changed since"); /* but not these */
    fl_study_free(s);
    /* the same as a run by itself */
    p->f64[3] -= 1;
    fl_config *one = memory_config(f, p, RUN "model: softmax\nseed: 2\nalgorithm: {kind: fedprox, mu: 0.1}\n");
    fl_run *run = run_done(one);
    assert_ok(f->ctx, fl_study_new(cfg, &o, &s));
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    const fli_outcome *last = &s->outcomes[3];
    assert_true(fl_row_get(fl_run_row(run), "train_loss") == fl_row_get(&last->rows[last->count - 1], "train_loss"));
    fl_study_free(s);
    fl_run_free(run);
    fl_config_free(one);
    fl_config_free(cfg);
    free(p);
}

/* Tuning, and checking a theorem's conditions, copy configurations and print them. */
static void tunes_and_checks(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_tune *t = NULL;
    fl_study *s = NULL;
    fl_config *winners = NULL;
    char out[200];
    size_t done, left = 99;
    collected text = {0}, file = {0};
    snprintf(out, sizeof out, "%s/study", f->folder);
    fl_study_options o = {.size = sizeof o, .output = out, .seeds = 1, .jobs = 1};
    fl_tune_options tuning = {.size = sizeof tuning, .budget = 2, .study = &o};
    fl_config *cfg = memory_config(f, p, RUN "model: softmax\ntune: {local.lr: {values: [0.01, 0.1]}}\n" TWO);
    assert_ok(f->ctx, fl_tune_new(cfg, &tuning, &t));
    assert_ok(f->ctx, fl_tune_go(t, NULL, NULL));
    assert_ok(f->ctx, fl_tune_winners(t, &winners));
    fl_tune_free(t);
    fl_config_free(cfg);
    snprintf(out, sizeof out, "%s/winners", f->folder);
    assert_ok(f->ctx, fl_study_new(winners, &o, &s));
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    assert_true(fl_study_runs(s, &done) == 2 && done == 2);
    fl_study_free(s);
    assert_ok(f->ctx, fl_study_check(winners, NULL, collect_text, &text, collect_text, &file, &left));
    assert_non_null(strstr(file.s, "memory"));
    fl_config_free(winners);
    cfg = memory_config(f, p, RUN "model: softmax\nalgorithm: scaffold\n");
    file.n = 0;
    assert_ok(f->ctx, fl_check_fix(cfg, collect_text, &text, collect_text, &file, &left));
    assert_non_null(strstr(file.s, "kind: memory"));
    free(file.s);
    free(text.s);
    fl_config_free(cfg);
    free(p);
}

static void copies_lead_to_the_same_data(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_config *cfg = memory_config(f, p, RUN "model: softmax\nexecutor: loopback\n"), *copy = fl_config_copy(cfg);
    fl_run *a = run_done(cfg);
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_config_set(copy, "executor=threads"));
    fl_run *b = run_done(copy);
    fl_config_free(copy);
    assert_same_runs(a, b);
    fl_run_free(a);
    fl_run_free(b);
    free(p);
}

/* Every allocation on the way fails once: a status each time, and nothing is left behind or changed. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    problem *p = problem_new(), *before = problem_new();
    const double weight[CLIENTS] = {1, 2, 3};
    fl_samples train = dense_of(p, 'u', 0, 0, N), test = dense_of(p, 'u', 0, N, TEST);
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .owner = p->owner, .weight = weight};
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s; k++) {
        fl_run *run = NULL;
        fl_vector v;
        fl_config *cfg = fl_config_new(f->ctx);
        assert_ok(f->ctx, fl_config_set(cfg, "threads=1"));
        fli_ctx_fail_alloc(f->ctx, k);
        s = fl_config_text(cfg, "model: softmax\nalgorithm: scaffold\ndata: {unlabelled: 0.2}\nrounds: 1\n", NULL);
        if (!s) s = fl_config_data(cfg, &train, &test, &who);
        if (!s) s = fl_run_new(cfg, &run);
        if (!s) s = fl_run_step(run, NULL);
        if (!s && fl_run_client_vector(run, 1, 0, &v) < 0) s = FL_ENOMEM;
        if (!s && fl_run_client_scalars(run, 1, NULL, 0)) s = FL_ENOMEM;
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s && s != FL_ENOMEM) fail_msg("allocation %zu: %s", k, fl_ctx_error(f->ctx));
        fl_run_free(run);
        fl_config_free(cfg);
        fli_clear(f->ctx);
    }
    assert_memory_equal(p, before, sizeof *p);
    free(before);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(same_as_arrays),
        FIXTURE_TEST(same_as_a_regression),
        FIXTURE_TEST(same_as_images),
        FIXTURE_TEST(same_as_sparse_files),
        FIXTURE_TEST(later_texts_override_earlier_ones),
        FIXTURE_TEST(is_a_kind_of_data),
        FIXTURE_TEST(without_a_holding),
        FIXTURE_TEST(weighs_clients),
        FIXTURE_TEST(numbers_alone),
        FIXTURE_TEST(goes_on_from_checkpoints),
        FIXTURE_TEST(a_comparison_uses_data_in_memory),
        FIXTURE_TEST(tunes_and_checks),
        FIXTURE_TEST(copies_lead_to_the_same_data),
        FIXTURE_TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
