/* Data in the memory of a program: the bits of a run on a file with the same samples, nothing copied, nothing changed,
 * and a sentence for everything that cannot be. */
#include "studies.h"

#include "data/memory.h"
#include "run/plan.h"

enum { N = 60, TEST = 20, DIM = 6, CLASSES = 3, CLIENTS = 3, WIDEST = 8 };

static const size_t starts[CLIENTS + 1] = {0, 25, 40, N};

/* ---- a small problem, in every form ---------------------------------------------------------------------- */

typedef struct {
    uint8_t u8[(N + TEST) * DIM];
    float f32[(N + TEST) * DIM];
    double f64[(N + TEST) * DIM];
    int32_t label[N + TEST];
    double target[N + TEST];
    uint32_t owner[N];
    /* the values that are not 0, of training and test samples; rows of both start at 0 */
    size_t row[N + 1], test_row[TEST + 1], stored;
    uint32_t col[(N + TEST) * DIM];
    float few32[(N + TEST) * DIM];
    double few64[(N + TEST) * DIM];
} problem;

static void make_sparse(problem *p, size_t first, size_t n, size_t *row)
{
    size_t begin = p->stored;
    row[0] = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < DIM; j++) {
            double v = p->f64[(first + i) * DIM + j];
            if (v == 0) continue;
            p->col[p->stored] = (uint32_t)j;
            p->few32[p->stored] = (float)v;
            p->few64[p->stored++] = v;
        }
        row[i + 1] = p->stored - begin;
    }
}

/* Values are multiples of 1/8, a third of them 0, so that texts and floats hold them exactly. */
static problem *problem_new(void)
{
    problem *p = calloc(1, sizeof *p);
    fli_rng r;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < N + TEST; i++) {
        p->label[i] = i < CLASSES ? (int32_t)i : (int32_t)fli_rng_below(&r, CLASSES);
        for (size_t j = 0; j < DIM; j++) {
            size_t at = i * DIM + j;
            p->u8[at] = (uint8_t)(fli_rng_below(&r, 128) + (j == (size_t)p->label[i] ? 100 : 0));
            p->f64[at] = j && fli_rng_below(&r, 3) == 0 ? 0 : ((double)p->u8[at] - 64) / 8 + 0.125;
            p->f32[at] = (float)p->f64[at];
            p->target[i] += p->f64[at] * (double)(j + 1) / 16;
        }
        if (i < N) p->owner[i] = (uint32_t)(i < starts[1] ? 0 : i < starts[2] ? 1 : 2);
    }
    make_sparse(p, 0, N, p->row);
    make_sparse(p, N, TEST, p->test_row);
    return p;
}

static fl_samples dense_of(const problem *p, char form, int regression, size_t first, size_t n)
{
    fl_samples s = {.size = sizeof s, .n = n, .dim = DIM};
    if (form == 'u') s.u8 = p->u8 + first * DIM;
    if (form == 'f') s.f32 = p->f32 + first * DIM;
    if (form == 'd') s.f64 = p->f64 + first * DIM;
    if (regression) {
        s.target = p->target + first;
    } else {
        s.label = p->label + first;
        s.classes = CLASSES;
    }
    return s;
}

static fl_samples sparse_of(const problem *p, int wide, int test)
{
    size_t at = test ? p->row[N] : 0;
    fl_samples s = dense_of(p, ' ', 0, test ? N : 0, test ? TEST : N);
    s.row = test ? p->test_row : p->row;
    s.col = p->col + at;
    if (wide)
        s.f64 = p->few64 + at;
    else
        s.f32 = p->few32 + at;
    return s;
}

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

#define RUN "rounds: 4\nthreads: 2\nlocal: {epochs: 2, batch: 7, lr: 0.02}\nparticipation: {kind: uniform, count: 2}\n"

static fl_run *run_done(fl_config *cfg)
{
    fl_run *run = NULL;
    assert_ok(cfg->ctx, fl_run_new(cfg, &run));
    assert_ok(cfg->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static void assert_same_runs(const fl_run *a, const fl_run *b)
{
    double x[128], y[128];
    const fl_row *of_a, *of_b;
    size_t n = fl_run_model(a, x, 128), rows = fl_run_rows(a, &of_a);
    assert_true(n <= 128 && n == fl_run_model(b, y, 128) && rows == fl_run_rows(b, &of_b) && rows > 1);
    assert_memory_equal(x, y, n * sizeof *x);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; fl_metric_at(k); k++)
            if (fl_metric_at(k)->unit != FL_UNIT_SECONDS)
                assert_memory_equal(&of_a[i].value[k], &of_b[i].value[k], sizeof(double));
}

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

static fl_config *memory_config(fixture *f, const problem *p, const char *yaml)
{
    fl_config *cfg = fl_config_new(f->ctx);
    fl_samples train = dense_of(p, 'd', 0, 0, N), test = dense_of(p, 'd', 0, N, TEST);
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    assert_ok(f->ctx, fl_config_text(cfg, yaml, "a text"));
    assert_ok(f->ctx, fl_config_data(cfg, &train, &test, &who));
    return cfg;
}

static void texts(void **state)
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
    assert_ok(f->ctx, fl_data_describe(cfg, 3, NULL, collect_text, &text));
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
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "do not say who owns");
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
            double a = fl_row_get(&usual->rows[1], "train_loss"), b = fl_row_get(&weighed[i]->rows[1], "train_loss");
            assert_true(a != b);
        }
        fl_run_free(usual);
        fl_config_free(cfg);
    }
    /* at the start all losses are log 3, whatever the weights; afterwards not */
    assert_near(fl_row_get(&weighed[0]->rows[0], "train_loss"), log(3), 1e-12);
    assert_true(!!memcmp(&weighed[0]->plan.samples, &weighed[1]->plan.samples, sizeof(fli_digest)));
    for (int i = 0; i < 3; i++) fl_run_free(weighed[i]);
    free(p);
}

static void refuses_weights(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    static const struct {
        double weight[CLIENTS];
        const char *set, *complaint;
    } cases[] = {
        {{1, 0, 1}, "name=x", "the weight of client 1 is 0"},
        {{1, 1, -1}, "name=x", "the weight of client 2 is -1"},
        {{NAN, 1, 1}, "name=x", "the weight of client 0 is nan"},
        {{1, INFINITY, 1}, "name=x", "the weight of client 1 is inf"},
        {{1, 1e300, 1e-300}, "name=x", "the weight of client 2 is too far"},
        {{1e308, 1e308, 1e308}, "name=x", "too far"},
        {{1, 2, 3}, "weights=uniform", "so `weights` must be auto"},
        {{1, 2, 3}, "algorithm=feddyn", "weighs all clients equally"},
    };
    fl_samples train = dense_of(p, 'd', 0, 0, N);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts, .weight = cases[i].weight};
        fl_config *cfg = fl_config_new(f->ctx);
        fl_run *run = NULL;
        assert_ok(f->ctx, fl_config_text(cfg, RUN "model: softmax\n", NULL));
        assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, &who));
        assert_ok(f->ctx, fl_config_set(cfg, cases[i].set));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, cases[i].complaint);
        /* weights alone, for a partition with other clients */
        who.start = NULL;
        if (i == 6) {
            assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, &who));
            assert_ok(f->ctx, fl_config_set(cfg, "weights=auto"));
            assert_ok(f->ctx, fl_config_set(cfg, "partition={kind: iid, clients: 4}"));
            assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "weight has 3 values, but there are 4 clients");
            assert_ok(f->ctx, fl_config_set(cfg, "partition.clients=3"));
            fl_run_free(run_done(cfg));
        }
        fl_config_free(cfg);
    }
    free(p);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refuses_settings_that_contradict(void **state)
{
    static const struct {
        const char *set, *complaint;
    } cases[] = {
        {"partition={kind: iid, clients: 3}", "partition.kind can only be natural"},
        {"partition={kind: natural, min_size: 20}", "with its default min_size"},
        {"partition.clients=2", "leave partition.clients out"},
        {"data.on_demand=true", "cannot make its clients on demand"},
        {"data.features=3", "features is not a key"},
        {"model=least_squares", "needs real-valued targets"},
        {"model=cnn", "needs images"},
    };
    fixture *f = *state;
    problem *p = problem_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *run = NULL;
        fl_config *cfg = memory_config(f, p, "model: softmax\n");
        assert_ok(f->ctx, fl_config_set(cfg, cases[i].set));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, cases[i].complaint);
        fl_config_free(cfg);
    }
    fl_config *cfg =
        memory_config(f, p, RUN "model: softmax\npartition: {kind: natural, clients: 3}\n"); /* repeats it */
    fl_run_free(run_done(cfg));
    fl_config_free(cfg);
    free(p);
}

/* One change to samples that are right otherwise. */
typedef void change_fn(problem *p, fl_samples *s);

static void no_size(problem *p, fl_samples *s) { (void)p, s->size = 0; }
static void none(problem *p, fl_samples *s) { (void)p, s->n = 0; }
static void too_many(problem *p, fl_samples *s) { (void)p, s->n = UINT32_MAX; }
static void overflows(problem *p, fl_samples *s) { (void)p, s->dim = SIZE_MAX / 16; }
static void two_kinds(problem *p, fl_samples *s) { s->f32 = p->f32; }
static void no_values(problem *p, fl_samples *s) { (void)p, s->f64 = NULL; }
static void no_dim(problem *p, fl_samples *s) { (void)p, s->dim = 0; }
static void half_sparse(problem *p, fl_samples *s) { s->row = p->row; }
static void other_half(problem *p, fl_samples *s) { s->col = p->col; }
static void sparse_bytes(problem *p, fl_samples *s) { s->f64 = NULL, s->u8 = p->u8, s->row = p->row, s->col = p->col; }
static void sparse_images(problem *p, fl_samples *s)
{
    *s = sparse_of(p, 1, 0);
    s->shape[0] = 1, s->shape[1] = 2, s->shape[2] = 3;
}
static void both_answers(problem *p, fl_samples *s) { s->target = p->target; }
static void no_answers(problem *p, fl_samples *s) { (void)p, s->label = NULL, s->classes = 0; }
static void no_classes(problem *p, fl_samples *s) { (void)p, s->classes = 0; }
static void huge_classes(problem *p, fl_samples *s) { (void)p, s->classes = (size_t)INT32_MAX + 1; }
static void classes_of_nothing(problem *p, fl_samples *s) { s->label = NULL, s->target = p->target; }
static void wrong_shape(problem *p, fl_samples *s) { (void)p, s->shape[0] = 1, s->shape[1] = 2, s->shape[2] = 2; }
static void half_shape(problem *p, fl_samples *s) { (void)p, s->shape[0] = 6; }
static void huge_shape(problem *p, fl_samples *s)
{
    (void)p;
    s->shape[0] = (size_t)1 << 32, s->shape[1] = (size_t)1 << 32, s->shape[2] = 6;
}
static void odd_f64(problem *p, fl_samples *s) { s->f64 = (const double *)((uintptr_t)p->f64 + 4); }
static void odd_f32(problem *p, fl_samples *s) { s->f64 = NULL, s->f32 = (const float *)((uintptr_t)p->f32 + 2); }
static void odd_label(problem *p, fl_samples *s) { s->label = (const int32_t *)((uintptr_t)p->label + 1); }

static void refuses_structs(void **state)
{
    static const struct {
        change_fn *change;
        const char *complaint;
    } cases[] = {
        {no_size, "fl_samples.size is 0, but must be sizeof(fl_samples)"},
        {none, "training samples: n is 0"},
        {too_many, "n is 4294967295"},
        {overflows, "more than any memory holds"},
        {two_kinds, "only one of u8, f32 and f64"},
        {no_values, "samples of 6 features need one of u8, f32 and f64"},
        {no_dim, "dim is 0, but there are features"},
        {half_sparse, "need both row and col"},
        {other_half, "need both row and col"},
        {sparse_bytes, "need their values in f32 or f64"},
        {sparse_images, "sparse samples are no images"},
        {both_answers, "only one of label and target"},
        {no_answers, "label or target is missing"},
        {no_classes, "classes is 0, but labels are from 0"},
        {huge_classes, "classes is 2147483648"},
        {classes_of_nothing, "classes is 3, but there are no labels"},
        {wrong_shape, "a shape of 1 x 2 x 2 does not hold 6 features"},
        {half_shape, "a shape of 6 x 0 x 0 does not hold"},
        {huge_shape, "does not hold 6 features"},
        {odd_f64, "f64 is at an address that is no multiple of 8"},
        {odd_f32, "f32 is at an address that is no multiple of 4"},
        {odd_label, "label is at an address that is no multiple of 4"},
    };
    fixture *f = *state;
    problem *p = problem_new();
    fl_config *cfg = fl_config_new(f->ctx);
    fl_samples good = dense_of(p, 'd', 0, 0, N);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_samples s = good;
        cases[i].change(p, &s);
        assert_fails(f->ctx, fl_config_data(cfg, &s, NULL, NULL), FL_ECONFIG, cases[i].complaint);
    }
    assert_fails(f->ctx, fl_config_data(cfg, NULL, NULL, NULL), FL_ECONFIG, "no training samples");
    fl_samples test = dense_of(p, 'd', 0, N, TEST);
    test.classes = 4;
    assert_fails(f->ctx, fl_config_data(cfg, &good, &test, NULL), FL_ECONFIG, "have 3 classes, but the test samples 4");
    test.classes = 3;
    test.n = 0;
    assert_fails(f->ctx, fl_config_data(cfg, &good, &test, NULL), FL_ECONFIG, "test samples: n is 0");
    test.n = TEST;
    test.shape[0] = 1, test.shape[1] = 2, test.shape[2] = 3;
    assert_fails(f->ctx, fl_config_data(cfg, &good, &test, NULL), FL_ECONFIG, "different shapes");
    assert_string_equal(fl_config_get(cfg, "data.kind"), ""); /* nothing was taken */
    fl_config_free(cfg);
    free(p);
}

static void refuses_holdings(void **state)
{
    static const size_t backwards[] = {0, 30, 20, N}, beyond[] = {0, 20, 40, N + 1}, empty[] = {0, 20, 20, N};
    fixture *f = *state;
    problem *p = problem_new();
    fl_samples train = dense_of(p, 'd', 0, 0, N);
    uint32_t *nobodys = calloc(N, sizeof *nobodys);
    memset(nobodys, 0xff, N / 2 * sizeof *nobodys);
    p->owner[7] = 3;
    const struct {
        fl_holding who;
        int late; /* seen when the run is made */
        const char *complaint;
    } cases[] = {
        {{0, CLIENTS, starts, NULL, NULL}, 0, "fl_holding.size is 0"},
        {{sizeof(fl_holding), CLIENTS, starts, p->owner, NULL}, 0, "only one of start and owner"},
        {{sizeof(fl_holding), CLIENTS, NULL, NULL, NULL}, 0, "none of start, owner and weight"},
        {{sizeof(fl_holding), 0, starts, NULL, NULL}, 0, "clients is 0"},
        {{sizeof(fl_holding), N + 1, starts, NULL, NULL}, 0, "clients is 61"},
        {{sizeof(fl_holding), 2, (const size_t *)((uintptr_t)starts + 4), NULL, NULL}, 0, "start is at an address"},
        {{sizeof(fl_holding), CLIENTS, backwards, NULL, NULL}, 1, "client 1 would hold samples from 30 up to"},
        {{sizeof(fl_holding), CLIENTS, empty, NULL, NULL},
         1,
         "client 1 would hold samples from 20 up to but without 20"},
        {{sizeof(fl_holding), CLIENTS, beyond, NULL, NULL}, 1, "client 2 would hold samples from 40"},
        {{sizeof(fl_holding), CLIENTS, NULL, p->owner, NULL}, 1, "sample 7 belongs to client 3, one of only 3"},
        {{sizeof(fl_holding), 2, NULL, nobodys, NULL}, 1, "client 1 of 2 gets none of the 60 samples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_config *cfg = fl_config_new(f->ctx);
        fl_run *run = NULL;
        assert_ok(f->ctx, fl_config_text(cfg, RUN "model: softmax\n", NULL));
        fl_status s = fl_config_data(cfg, &train, NULL, &cases[i].who);
        if (cases[i].late) assert_ok(f->ctx, s);
        assert_fails(f->ctx, s ? s : fl_run_new(cfg, &run), FL_ECONFIG, cases[i].complaint);
        fl_config_free(cfg);
    }
    /* samples of nobody are left out */
    fl_config *cfg = fl_config_new(f->ctx);
    fl_holding who = {.size = sizeof who, .clients = 1, .owner = nobodys};
    assert_ok(f->ctx, fl_config_text(cfg, "rounds: 1\nmodel: softmax\nparticipation: everyone\n", NULL));
    assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, &who));
    fl_run *run = run_done(cfg);
    assert_int_equal(run->plan.fed->samples, N / 2);
    fl_run_free(run);
    fl_config_free(cfg);
    free(nobodys);
    free(p);
}

/* What a look at the samples shows. */
static void refuses_samples(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_samples dense = dense_of(p, 'd', 0, 0, N), sparse = sparse_of(p, 0, 0), numbers = dense_of(p, 'd', 1, 0, N);
    for (int i = 0; i < 9; i++) {
        problem *bad = malloc(sizeof *bad);
        *bad = *p;
        dense = dense_of(bad, 'd', 0, 0, N), sparse = sparse_of(bad, 0, 0), numbers = dense_of(bad, 'd', 1, 0, N);
        const fl_samples *s = i < 3 ? &dense : i < 8 ? &sparse : &numbers;
        static const char *const complaint[] = {"sample 9 has label 3, not in 0 .. 2",
                                                "sample 9 has label -1",
                                                "sample 11, feature 2 is not finite",
                                                "sample 3: feature 6 is out of order or not below 6",
                                                "sample 4: feature 0 is out of order",
                                                "sparse row 5 ends before it starts",
                                                "rows do not start at 0",
                                                "is not finite",
                                                "sample 8 has target inf"};
        if (i < 2) bad->label[9] = i ? -1 : 3;
        if (i == 2) bad->f64[11 * DIM + 2] = NAN;
        if (i == 3) bad->col[bad->row[4] - 1] = 6;
        if (i == 4) bad->col[bad->row[4] + 1] = 0;
        if (i == 5) bad->row[6] = bad->row[5] - 1;
        if (i == 6) bad->row[0] = 1;
        if (i == 7) bad->few32[30] = INFINITY;
        if (i == 8) bad->target[8] = INFINITY;
        fl_config *cfg = fl_config_new(f->ctx);
        fl_run *run = NULL;
        assert_ok(f->ctx, fl_config_text(cfg, "partition: {kind: iid, clients: 2}\n", NULL));
        assert_ok(f->ctx, fl_config_set(cfg, i == 8 ? "model=least_squares" : "model=softmax"));
        assert_ok(f->ctx, fl_config_data(cfg, s, NULL, NULL));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_EFORMAT, complaint[i]);
        fl_config_free(cfg);
        free(bad);
    }
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
    assert_ok(f->ctx, fl_data_describe(cfg, 2, NULL, collect_text, &text));
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

static void compares(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    char out[200];
    snprintf(out, sizeof out, "%s/study", f->folder);
    fl_study_options o = {.output = out, .jobs = 2};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(same_as_arrays),
        FIXTURE_TEST(same_as_a_regression),
        FIXTURE_TEST(same_as_images),
        FIXTURE_TEST(same_as_sparse_files),
        FIXTURE_TEST(texts),
        FIXTURE_TEST(is_a_kind_of_data),
        FIXTURE_TEST(without_a_holding),
        FIXTURE_TEST(weighs_clients),
        FIXTURE_TEST(refuses_weights),
        FIXTURE_TEST(refuses_settings_that_contradict),
        FIXTURE_TEST(refuses_structs),
        FIXTURE_TEST(refuses_holdings),
        FIXTURE_TEST(refuses_samples),
        FIXTURE_TEST(numbers_alone),
        FIXTURE_TEST(goes_on_from_checkpoints),
        FIXTURE_TEST(compares),
        FIXTURE_TEST(copies_lead_to_the_same_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
