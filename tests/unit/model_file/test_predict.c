/* Trained models at work: what a run measured at its end is what its model file predicts, for every kind of model, of
 * samples and of normalisation. */
#include "runs.h"

#include "model/model.h"
#include "model_file/model_file.h"

#include <pthread.h>

#define COMMON                                                                                                         \
    "seed: 3\nrounds: 4\nthreads: 2\npartition: {kind: iid, clients: 5}\nlocal: {batch: 10, lr: 0.05}\n"               \
    "metrics: {every: 4}\n"
#define DIGITS "data: {kind: digits, samples: 200, test_samples: 301, noise: 0.3}\n"
#define CNN    "model: {kind: cnn, layers: 'conv 4x5 same, pool 2, conv 6x3 stride 2, avgpool 2, fc 12'}\n"
#define MLP    "model: {kind: mlp, hidden: [16, 8]}\n"

/* ---- helpers ------------------------------------------------------------------------------------------- */

/* The run, done and saved, and its model. */
typedef struct {
    fl_run *run;
    fl_model *model;
} trained;

static trained train(fixture *f, const char *yaml, const char *assignments)
{
    trained t = {.run = run_new(f, yaml, assignments)};
    char path[600];
    assert_ok(f->ctx, fl_run_go(t.run, NULL, NULL));
    assert_ok(f->ctx, fl_run_prepare_save(t.run, 1));
    assert_ok(f->ctx, fl_run_save(t.run));
    snprintf(path, sizeof path, "%s/model.safetensors", fl_run_output(t.run));
    assert_ok(f->ctx, fl_model_load(f->ctx, path, &t.model));
    return t;
}

static void trained_free(trained *t)
{
    fl_model_free(t->model);
    fl_run_free(t->run);
}

/* A stored set as a user has it. */
static fl_samples raw(const fli_dataset *d)
{
    fl_samples s = {.size = sizeof s, .n = d->n, .dim = fli_dataset_length(d)};
    if (fli_dataset_sparse(d)) s.dim = d->dim;
    if (d->kind == FLI_X_U8) s.u8 = d->x;
    if (d->kind == FLI_X_F32 || d->kind == FLI_X_CSR) s.f32 = d->x;
    if (d->kind == FLI_X_F64 || d->kind == FLI_X_CSR64) s.f64 = d->x;
    s.row = d->row;
    s.col = d->col;
    return s;
}

static double *predict(fixture *f, const fl_model *m, const fl_samples *s)
{
    double *out = malloc((s->n * fl_model_about(m)->outputs + 1) * sizeof *out);
    assert_ok(f->ctx, fl_model_predict(f->ctx, m, s, out));
    return out;
}

static size_t likeliest(const double *p, size_t n)
{
    size_t top = 0;
    for (size_t k = 1; k < n; k++)
        if (p[k] > p[top]) top = k;
    return top;
}

/* The accuracy and the loss on the test set, from predictions alone. */
static void agree(fixture *f, const char *yaml, const char *assignments)
{
    char all[1024];
    snprintf(all, sizeof all, "output=%s/out;%s", f->folder, assignments);
    trained t = train(f, yaml, all);
    const fli_dataset *test = t.run->plan.fed->test;
    fl_samples s = raw(test);
    size_t hits = 0, k = fl_model_about(t.model)->outputs;
    double *p = predict(f, t.model, &s), loss = 0, tolerance = fl_model_about(t.model)->real == 4 ? 2e-6 : 1e-13;
    for (size_t i = 0; i < s.n; i++) {
        const double *row = p + i * k;
        double sum = 0, error = test->target ? row[0] - test->target[i] : 0;
        for (size_t j = 0; j < k; j++) sum += row[j];
        if (test->label) assert_near(sum, 1, 1e-12);
        hits += test->label && likeliest(row, k) == (size_t)test->label[i];
        loss += test->label ? -log(row[test->label[i]]) : error * error / 2;
    }
    const fl_row *row = fl_run_row(t.run);
    if (test->label) assert_true((double)hits / (double)s.n == fl_row_get(row, "test_accuracy"));
    double measured = fl_row_get(row, "test_loss");
    assert_near(loss / (double)s.n, measured, tolerance * (1 + measured));
    free(p);
    trained_free(&t);
}

/* Tables: x and y around one of three centres. */
static void write_table(fixture *f, const char *name, size_t n, unsigned seed, int target)
{
    static const char *const names[] = {"red", "deep blue", "green \"\"x\"\""};
    FILE *out = fopen(fixture_path(f, name), "w");
    assert_non_null(out);
    fprintf(out, "a,b,what\n");
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned)i % 3;
        seed = seed * 1103515245u + 12345u;
        double a = 100 * c + seed / 65536 % 61, b = 0.001 * (c * c + seed / 256 % 7);
        if (target)
            fprintf(out, "%g,%g,%g\n", a, b, 0.5 * a - 300 * b + 1);
        else
            fprintf(out, "%g,%g,\"%s\"\n", a, b, names[c]);
    }
    fclose(out);
}

static const char *table(fixture *f, int target)
{
    static char yaml[512];
    write_table(f, "train.csv", 90, 1, target);
    write_table(f, "test.csv", 47, 77, target);
    snprintf(yaml, sizeof yaml, "data: {kind: csv, train: %s/train.csv, test: %s/test.csv, task: %s}\n" COMMON,
             f->folder, f->folder, target ? "regression" : "classification");
    return yaml;
}

static void write_sparse(fixture *f, const char *name, size_t n, unsigned seed)
{
    FILE *out = fopen(fixture_path(f, name), "w");
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%d", i % 2 ? 1 : -1);
        for (unsigned k = 1 + (unsigned)i % 2; k <= 40; k += 7) {
            seed = seed * 1103515245u + 12345u;
            fprintf(out, " %u:%g", k, (double)(seed / 65536 % 100) - 20);
        }
        fprintf(out, " 41:1\n");
    }
    fclose(out);
}

static const char *sparse(fixture *f)
{
    static char yaml[512];
    write_sparse(f, "train.svm", 80, 5);
    write_sparse(f, "test.svm", 33, 50);
    snprintf(yaml, sizeof yaml,
             "data: {kind: libsvm, train: %s/train.svm, test: %s/test.svm, storage: sparse}\n" COMMON, f->folder,
             f->folder);
    return yaml;
}

/* ---- predictions and measurements ---------------------------------------------------------------------- */

static void predictions_on_images_match_the_metrics(void **state)
{
    fixture *f = *state;
    static const char *const models[] = {"model: softmax\n", MLP, CNN};
    static const char *const looks[] = {"", "data.normalize=standard", "data.normalize=image", "data.crop=20",
                                        "data.crop=20;data.normalize=image"};
    for (size_t m = 0; m < 3; m++)
        for (size_t k = 0; k < 5; k++)
            for (int wide = 0; wide < 2; wide++) {
                char yaml[1024];
                snprintf(yaml, sizeof yaml, DIGITS COMMON "%sprecision: %s\n", models[m], wide ? "f64" : "f32");
                agree(f, yaml, looks[k]);
            }
}

static void predictions_on_tables_match_the_metrics(void **state)
{
    fixture *f = *state;
    static const char *const looks[] = {"data.normalize=standard", "data.normalize=unit", "data.normalize=columns",
                                        "data.normalize=given;data.mean=[5];data.std=[70]"};
    for (size_t k = 0; k < 4; k++) {
        char all[256];
        snprintf(all, sizeof all, "model=softmax;%s", looks[k]);
        agree(f, table(f, 0), all);
        snprintf(all, sizeof all, "model=least_squares;precision=f64;local.lr=1e-3;%s", looks[k]);
        agree(f, table(f, 1), all);
        snprintf(all, sizeof all, "model=least_squares;local.lr=1e-3;%s", looks[k]);
        agree(f, table(f, 1), all);
    }
}

static void sparse_tables(void **state)
{
    fixture *f = *state;
    static const char *const models[] = {"logistic", "softmax", "mlp"};
    static const char *const looks[] = {"none", "unit", "columns"};
    for (size_t m = 0; m < 3; m++)
        for (size_t k = 0; k < 3; k++)
            for (int wide = 0; wide < 2; wide++) {
                char all[256];
                snprintf(all, sizeof all, "model=%s;data.normalize=%s;precision=%s;local.lr=1e-3", models[m], looks[k],
                         wide ? "f64" : "f32");
                agree(f, sparse(f), all);
            }
}

/* More features than a text should list: the scales are tensors then. */
static void long_scales(void **state)
{
    fixture *f = *state;
    char all[256];
    snprintf(all, sizeof all, "data.features=3000;data.normalize=unit;model=logistic;output=%s/out", f->folder);
    trained t = train(f, sparse(f), all);
    fl_tensor tensor;
    fl_samples s = raw(t.run->plan.fed->test);
    assert_null(fl_model_metadata(t.model, "scale"));
    assert_int_equal(fl_model_tensor(t.model, 0, &tensor, NULL), 1);
    assert_int_equal(fl_model_tensor(t.model, 1, &tensor, NULL), 0); /* they are no parameters */
    assert_int_equal(t.model->like.segments, 3000);
    double *p = predict(f, t.model, &s);
    free(p);
    trained_free(&t);
}

/* ---- the same samples in other clothes ------------------------------------------------------------------- */

static void same_outputs(fixture *f, const trained *t, const fl_samples *s, const double *expected)
{
    double *p = predict(f, t->model, s), tolerance = fl_model_about(t->model)->real == 4 ? 1e-5 : 1e-12;
    for (size_t i = 0; i < s->n * fl_model_about(t->model)->outputs; i++) assert_near(p[i], expected[i], tolerance);
    free(p);
}

static void try_clothes(fixture *f, const char *yaml, const char *assignments)
{
    trained t = train(f, yaml, assignments);
    fl_samples s = raw(t.run->plan.fed->test), other = {.size = sizeof other, .n = s.n, .dim = s.dim};
    double *expected = predict(f, t.model, &s), *wide = calloc(s.n * s.dim, sizeof *wide);
    float *narrow = calloc(s.n * s.dim, sizeof *narrow), *value = calloc(s.n * s.dim, sizeof *value);
    size_t *row = calloc(s.n + 1, sizeof *row), at = 0;
    uint32_t *col = calloc(s.n * s.dim, sizeof *col);
    for (size_t i = 0; i < s.n; i++)
        for (size_t k = s.row ? s.row[i] : 0; k < (s.row ? s.row[i + 1] : s.dim); k++) {
            size_t place = i * s.dim + (s.row ? s.col[k] : k), from = s.row ? k : place;
            wide[place] = s.u8 ? s.u8[from] : s.f32 ? (double)s.f32[from] : s.f64[from];
        }
    for (size_t i = 0; i < s.n; i++, row[i] = at)
        for (size_t k = 0; k < s.dim; k++) {
            narrow[i * s.dim + k] = (float)wide[i * s.dim + k];
            if (wide[i * s.dim + k] == 0) continue;
            col[at] = (uint32_t)k;
            value[at++] = (float)wide[i * s.dim + k];
        }
    other.f64 = wide;
    same_outputs(f, &t, &other, expected);
    other.f64 = NULL;
    other.f32 = narrow;
    same_outputs(f, &t, &other, expected);
    other.f32 = value;
    other.row = row;
    other.col = col;
    same_outputs(f, &t, &other, expected);
    free(expected);
    free(wide);
    free(narrow);
    free(value);
    free(row);
    free(col);
    trained_free(&t);
}

static void predictions_ignore_how_samples_are_stored(void **state)
{
    fixture *f = *state;
    char all[256];
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    try_clothes(f, DIGITS COMMON CNN, all);
    snprintf(all, sizeof all, "output=%s/2;data.crop=20;data.normalize=image", f->folder);
    try_clothes(f, DIGITS COMMON MLP, all);
    snprintf(all, sizeof all, "output=%s/3;data.normalize=standard;precision=f64", f->folder);
    try_clothes(f, DIGITS COMMON "model: softmax\n", all);
    snprintf(all, sizeof all, "output=%s/4;data.normalize=unit;model=softmax;local.lr=1e-3", f->folder);
    try_clothes(f, sparse(f), all);
}

/* One sample at a time gives what all at once give. */
static void one_by_one(void **state)
{
    fixture *f = *state;
    char all[128];
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, DIGITS COMMON CNN, all);
    fl_samples s = raw(t.run->plan.fed->test);
    double *expected = predict(f, t.model, &s), one[10];
    for (size_t i = 0; i < s.n; i += 50) {
        fl_samples single = s;
        single.n = 1;
        single.u8 += i * s.dim;
        assert_ok(f->ctx, fl_model_predict(f->ctx, t.model, &single, one));
        for (size_t k = 0; k < 10; k++) assert_near(one[k], expected[10 * i + k], 1e-6);
    }
    s.n = 0;
    assert_ok(f->ctx, fl_model_predict(f->ctx, t.model, &s, one));
    free(expected);
    trained_free(&t);
}

/* ---- threads ------------------------------------------------------------------------------------------- */

typedef struct {
    const fl_model *model;
    const fl_samples *samples;
    const double *expected;
    int ok;
} helper;

static void *ask(void *arg)
{
    helper *h = arg;
    fl_ctx *ctx = fl_ctx_new();
    size_t n = h->samples->n * fl_model_about(h->model)->outputs;
    double *out = malloc(n * sizeof *out);
    h->ok = 1;
    for (int i = 0; i < 5; i++)
        h->ok &= !fl_model_predict(ctx, h->model, h->samples, out) && !memcmp(out, h->expected, n * sizeof *out);
    free(out);
    fl_ctx_free(ctx);
    return NULL;
}

static void threads_predict_the_same(void **state)
{
    fixture *f = *state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    helper h[THREADS];
    char all[128];
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, DIGITS COMMON CNN, all);
    fl_samples s = raw(t.run->plan.fed->test);
    double *expected = predict(f, t.model, &s);
    fl_run_free(t.run); /* which changes nothing for the model, but has the samples */
    t.run = run_new(f, DIGITS COMMON CNN, "");
    s = raw(t.run->plan.fed->test);
    for (size_t i = 0; i < THREADS; i++) {
        h[i] = (helper){t.model, &s, expected, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &h[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(h[i].ok);
    }
    free(expected);
    trained_free(&t);
}

/* ---- what is said of a model --------------------------------------------------------------------------- */

static void a_model_describes_itself(void **state)
{
    fixture *f = *state;
    fl_tensor tensor;
    const void *data;
    char all[256];
    double x[64];
    snprintf(all, sizeof all, "output=%s/out;model=softmax;data.normalize=standard", f->folder);
    trained t = train(f, table(f, 0), all);
    const fl_model_info *info = fl_model_about(t.model);
    assert_string_equal(info->kind, "softmax");
    assert_int_equal(info->parameters, 9);
    assert_int_equal(info->dim, 2);
    assert_int_equal(info->shape[2], 2);
    assert_int_equal(info->classes, 3);
    assert_int_equal(info->outputs, 3);
    assert_int_equal(info->real, 4);
    assert_string_equal(info->class_name[0], "deep blue");
    assert_string_equal(info->class_name[1], "green \"x\"");
    assert_string_equal(info->class_name[2], "red");
    assert_int_equal(fl_run_model(t.run, x, 64), 9);
    assert_int_equal(fl_model_tensor(t.model, 0, &tensor, &data), 1);
    assert_string_equal(tensor.name, "weight");
    assert_int_equal(tensor.dims, 2);
    assert_int_equal(tensor.shape[0], 3);
    assert_int_equal(tensor.shape[1], 2);
    for (size_t i = 0; i < 6; i++) assert_true((double)((const float *)data)[i] == x[i]);
    assert_int_equal(fl_model_tensor(t.model, 1, &tensor, &data), 1);
    assert_string_equal(tensor.name, "bias");
    assert_int_equal(tensor.offset, 6);
    for (size_t i = 0; i < 3; i++) assert_true((double)((const float *)data)[i] == x[6 + i]);
    assert_int_equal(fl_model_tensor(t.model, 2, &tensor, &data), 0);
    assert_string_equal(fl_model_metadata(t.model, "algorithm"), "fedavg");
    assert_string_equal(fl_model_metadata(t.model, "round"), "4");
    assert_string_equal(fl_model_metadata(t.model, "seed"), "3");
    assert_string_equal(fl_model_metadata(t.model, "layers"),
                        "[{\"kind\": \"linear\", \"in\": 2, \"out\": 3, \"activation\": \"softmax\"}]");
    assert_int_equal(strlen(fl_model_metadata(t.model, "data")), 64);
    assert_null(fl_model_metadata(t.model, "nonsense"));
    trained_free(&t);
}

static void layers_of_a_network(void **state)
{
    fixture *f = *state;
    char all[128];
    snprintf(all, sizeof all, "output=%s/out;rounds=0", f->folder);
    trained t = train(f, DIGITS COMMON CNN, all);
    assert_string_equal(
        fl_model_metadata(t.model, "layers"),
        "[{\"name\": \"conv1\", \"kind\": \"conv\", \"in\": 1, \"out\": 4, \"window\": 5, \"stride\": 1, \"pad\": 2, "
        "\"activation\": \"relu\"}, {\"kind\": \"max_pool\", \"window\": 2}, "
        "{\"name\": \"conv2\", \"kind\": \"conv\", \"in\": 4, \"out\": 6, \"window\": 3, \"stride\": 2, \"pad\": 0, "
        "\"activation\": \"relu\"}, {\"kind\": \"mean_pool\", \"window\": 2}, {\"kind\": \"flatten\"}, "
        "{\"name\": \"fc1\", \"kind\": \"linear\", \"in\": 54, \"out\": 12, \"activation\": \"relu\"}, "
        "{\"name\": \"fc2\", \"kind\": \"linear\", \"in\": 12, \"out\": 10, \"activation\": \"softmax\"}]");
    assert_string_equal(fl_model_metadata(t.model, "shape"), "[1, 28, 28]");
    trained_free(&t);
}

/* Shares in clusters; the largest is the cluster that the metrics count. */
static void cluster_shares_sum_to_one(void **state)
{
    fixture *f = *state;
    char all[128];
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, BLOBS COMMON "model: {kind: factorization, rank: 3}\n", all);
    fl_samples s = raw(t.run->plan.fed->test);
    assert_int_equal(fl_model_about(t.model)->outputs, 3);
    double *p = predict(f, t.model, &s);
    for (size_t i = 0; i < s.n; i++) {
        for (size_t k = 0; k < 3; k++) assert_true(p[3 * i + k] >= 0);
        assert_near(p[3 * i] + p[3 * i + 1] + p[3 * i + 2], 1, 1e-5);
    }
    free(p);
    trained_free(&t);
}

/* Of two levels both are in the file, and the lower one predicts. */
static void two_levels(void **state)
{
    fixture *f = *state;
    fl_tensor tensor;
    char all[256];
    static const char *const kinds[] = {"bilevel={kind: regularization};model=softmax",
                                        "bilevel={kind: hyper_representation};model={kind: mlp, hidden: [6]}"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(all, sizeof all, "output=%s/%zu;algorithm=fednest;%s", f->folder, i, kinds[i]);
        trained t = train(f, BLOBS COMMON, all);
        fl_samples s = raw(t.run->plan.fed->test);
        size_t hits = 0, n = s.n;
        double *p = predict(f, t.model, &s);
        for (size_t k = 0; k < n; k++) hits += likeliest(p + 3 * k, 3) == (size_t)t.run->plan.fed->test->label[k];
        assert_true((double)hits / (double)n == fl_row_get(fl_run_row(t.run), "test_accuracy"));
        assert_int_equal(fl_model_about(t.model)->parameters, fl_run_parameters(t.run));
        if (!i) {
            assert_int_equal(fl_model_tensor(t.model, 2, &tensor, NULL), 1);
            assert_string_equal(tensor.name, "log_l2");
        }
        free(p);
        trained_free(&t);
    }
}

/* ---- odd input ----------------------------------------------------------------------------------------- */

static void odd_samples(void **state)
{
    fixture *f = *state;
    char all[128];
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[6];
    float narrow[8] = {0};
    const size_t row[3] = {0, 1, 2}, back[3] = {0, 2, 1}, endless[3] = {0, 1, SIZE_MAX};
    const uint32_t col[2] = {0, 3}, far[2] = {0, 4}, twice[2] = {1, 1};
    const size_t both[3] = {0, 2, 2};
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, SMALL, all);
    const fl_samples good = {.size = sizeof good, .n = 2, .dim = 4, .f64 = x};
    fl_samples s = good;
#define REFUSED(status, text)                                                                                          \
    do {                                                                                                               \
        assert_fails(f->ctx, fl_model_predict(f->ctx, t.model, &s, out), status, text);                                \
        s = good;                                                                                                      \
    } while (0)
    s.size = 0;
    REFUSED(FL_ECONFIG, "fl_samples.size");
    s.dim = 3;
    REFUSED(FL_ECONFIG, "3 features, but the model is for 4");
    s.shape[0] = s.shape[1] = s.shape[2] = 2;
    REFUSED(FL_ECONFIG, "are 2 x 2 x 2, but the model is for 1 x 1 x 4");
    s.f32 = narrow;
    REFUSED(FL_ECONFIG, "only one of u8, f32 and f64");
    s.f64 = NULL;
    REFUSED(FL_ECONFIG, "need one of u8, f32 and f64");
    s.f64 = (const double *)((uintptr_t)x + 1);
    REFUSED(FL_ECONFIG, "f64 is at an address that is no multiple of 8");
    s.row = row;
    REFUSED(FL_ECONFIG, "sparse samples need both row and col");
    s.row = row;
    s.col = far;
    REFUSED(FL_EFORMAT, "sample 1: feature 4 is out of order or not below 4");
    s.row = both;
    s.col = twice;
    REFUSED(FL_EFORMAT, "sample 0: feature 1 is out of order");
    s.row = back;
    s.col = col;
    REFUSED(FL_EFORMAT, "sample 1: its values end before they begin");
    s.row = endless;
    s.col = col;
    REFUSED(FL_EFORMAT, "values, of only 4 features");
    x[5] = NAN;
    REFUSED(FL_EFORMAT, "sample 1, feature 1 is not finite");
    x[5] = 1e300;
    REFUSED(FL_EFORMAT, "sample 1: the output is not finite");
    x[5] = 1;
    assert_fails(f->ctx, fl_model_predict(f->ctx, t.model, &s, NULL), FL_ECONFIG, "room");
    assert_fails(f->ctx, fl_model_predict(f->ctx, t.model, NULL, out), FL_ECONFIG, "a model and samples");
    assert_fails(f->ctx, fl_model_predict(f->ctx, NULL, &s, out), FL_ECONFIG, "a model and samples");
    assert_ok(f->ctx, fl_model_predict(f->ctx, t.model, &s, out));
    trained_free(&t);
    fl_model_free(NULL);
}

/* The file with some text of its header replaced by another of the same length. */
static void spoil(fixture *f, const char *path, const char *from, const char *to, const char *why)
{
    size_t n;
    fl_model *m;
    char *bytes = read_whole(path, &n), *at = memmem(bytes, n, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    assert_fails(f->ctx, fli_loaded_model_read(f->ctx, "input", bytes, n, &m), FL_EFORMAT, why);
    assert_null(m);
    free(bytes);
}

static void odd_files(void **state)
{
    fixture *f = *state;
    char all[128], path[256];
    fl_model *m = (fl_model *)f;
    snprintf(all, sizeof all, "output=%s/out;data.crop=20", f->folder);
    trained t = train(f, DIGITS COMMON "model: {kind: mlp, hidden: [16]}\n", all);
    snprintf(path, sizeof path, "%s/out/model.safetensors", f->folder);
    spoil(f, path, "\"format\":\"fedloom\"", "\"format\":\"fedlooM\"", "is not a model that a run has written");
    spoil(f, path, "\"shape\":\"[1, 28", "\"shapE\":\"[1, 28", "is not a model that a run has written");
    spoil(f, path, "[1, 28, 28]", "[1, 28, -8]", "of shape");
    spoil(f, path, "\"crop\":\"20\"", "\"crop\":\"99\"", "of crop");
    spoil(f, path, "\"crop\":\"20\"", "\"crop\":\"2x\"", "of crop");
    spoil(f, path, "\"classes\":\"10\"", "\"classes\":\"1e\"", "of classes");
    spoil(f, path, "\"scale\":\"[0.0", "\"scale\":\"[1e9", "of scale");
    spoil(f, path, "\"shift\":\"[0]\"", "\"shift\":\"[x]\"", "of shift");
    spoil(f, path, "hidden: [16]", "hidden: [17]", "tensor \"layer1.weight\" is 16 x 400, but");
    spoil(f, path, "hidden: [16]", "hidden: [-1]", "so no model can be made from it");
    spoil(f, path, "hidden: [16]", "hiddem: [16]", "so no model can be made from it");
    spoil(f, path, "\"layer2.bias\"", "\"layer3.bias\"", "has no tensor \"layer2.bias\"");
    assert_fails(f->ctx, fl_model_load(f->ctx, fixture_path(f, "absent"), &m), FL_EIO, "absent: cannot be read");
    assert_null(m);
    assert_fails(f->ctx, fl_model_load(f->ctx, f->folder, &m), FL_EIO, "not a plain file");
    assert_fails(f->ctx, fl_model_load(f->ctx, NULL, &m), FL_ECONFIG, "there is no path");
    assert_fails(f->ctx, fl_model_load(f->ctx, fixture_write(f, "odd", "{}"), &m), FL_EFORMAT, "odd: does not begin");
    trained_free(&t);
}

/* Kinds that nobody knows here can be looked at, and that is all. */
static void unknown_kind(void **state)
{
    fixture *f = *state;
    size_t n;
    double out[2], x[3] = {0};
    fl_model *m;
    fl_tensor tensor;
    char all[128], path[256];
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, SMALL, all);
    snprintf(path, sizeof path, "%s/out/model.safetensors", f->folder);
    char *bytes = read_whole(path, &n);
    memcpy(memmem(bytes, n, "\"model\":\"softmax\"", 17), "\"model\":\"softmay\"", 17);
    assert_ok(f->ctx, fli_loaded_model_read(f->ctx, "input", bytes, n, &m));
    free(bytes);
    assert_string_equal(fl_model_about(m)->kind, "softmay");
    assert_int_equal(fl_model_about(m)->outputs, 0);
    assert_int_equal(fl_model_about(m)->parameters, 15);
    assert_int_equal(fl_model_tensor(m, 1, &tensor, NULL), 1);
    assert_string_equal(tensor.name, "bias");
    fl_samples s = {.size = sizeof s, .n = 1, .dim = 3, .f64 = x};
    assert_fails(f->ctx, fl_model_predict(f->ctx, m, &s, out), FL_ECONFIG, "predict with a model of kind softmay");
    fl_model_free(m);
    trained_free(&t);
}

static void no_memory(void **state)
{
    fixture *f = *state;
    char all[128], path[256];
    double out[3], x[4] = {0};
    fl_samples s = {.size = sizeof s, .n = 1, .dim = 4, .f64 = x};
    snprintf(all, sizeof all, "output=%s/out", f->folder);
    trained t = train(f, SMALL, all);
    snprintf(path, sizeof path, "%s/out/model.safetensors", f->folder);
    for (size_t k = 1;; k++) {
        fl_model *m;
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status status = fl_model_load(f->ctx, path, &m);
        if (!status) status = fl_model_predict(f->ctx, m, &s, out);
        fli_ctx_fail_alloc(f->ctx, 0);
        fl_model_free(m);
        if (!status) break;
        assert_int_equal(status, FL_ENOMEM);
        assert_true(k < 1000);
    }
    trained_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(predictions_on_images_match_the_metrics),
        FIXTURE_TEST(predictions_on_tables_match_the_metrics),
        FIXTURE_TEST(sparse_tables),
        FIXTURE_TEST(long_scales),
        FIXTURE_TEST(predictions_ignore_how_samples_are_stored),
        FIXTURE_TEST(one_by_one),
        FIXTURE_TEST(threads_predict_the_same),
        FIXTURE_TEST(a_model_describes_itself),
        FIXTURE_TEST(layers_of_a_network),
        FIXTURE_TEST(cluster_shares_sum_to_one),
        FIXTURE_TEST(two_levels),
        FIXTURE_TEST(odd_samples),
        FIXTURE_TEST(odd_files),
        FIXTURE_TEST(unknown_kind),
        FIXTURE_TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
