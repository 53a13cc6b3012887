/* model.start: runs that begin with the tensors of a file. */
#include "runs.h"

#include "format/safetensors.h"

#include <sys/stat.h>

enum { FEATURES = 4, CLASSES = 3, HIDDEN = 5 };
static const char net[] = BLOBS "seed: 5\nrounds: 4\nthreads: 2\nmodel: {kind: mlp, hidden: [5]}\n"
                                "partition: {kind: iid, clients: 8}\nparticipation: {kind: uniform, count: 4}\n"
                                "local: {batch: 5, lr: 0.1}\n";

/* Tensors as another program would write them: other notes, another order, something else among them. */
typedef struct {
    float w1[HIDDEN * FEATURES], b1[HIDDEN];
    double w2[CLASSES * HIDDEN], b2[CLASSES];
    int64_t batches;
    fli_tensor_entry entry[5];
} foreign;

static void foreign_init(foreign *n)
{
    for (size_t i = 0; i < HIDDEN * FEATURES; i++) n->w1[i] = 0.01F * (float)(i + 1);
    for (size_t i = 0; i < HIDDEN; i++) n->b1[i] = -0.5F + (float)i;
    for (size_t i = 0; i < CLASSES * HIDDEN; i++) n->w2[i] = 0.1 * (double)i - 0.3;
    for (size_t i = 0; i < CLASSES; i++) n->b2[i] = 1.0 / (double)(i + 3);
    n->batches = 7;
    n->entry[0] = (fli_tensor_entry){"layer2.weight", "F64", 2, {CLASSES, HIDDEN}, n->w2, 0};
    n->entry[1] = (fli_tensor_entry){"layer1.weight", "F32", 2, {HIDDEN, FEATURES}, n->w1, 0};
    n->entry[2] = (fli_tensor_entry){"num_batches_tracked", "I64", 0, {0}, &n->batches, 0};
    n->entry[3] = (fli_tensor_entry){"layer1.bias", "F32", 1, {HIDDEN}, n->b1, 0};
    n->entry[4] = (fli_tensor_entry){"layer2.bias", "F64", 2, {1, CLASSES}, n->b2, 0};
}

static const char *foreign_write(fixture *f, const foreign *n, size_t tensors)
{
    static const fli_tensor_note note[] = {{"format", "pt"}};
    assert_ok(f->ctx, fli_safetensors_write(f->ctx, &(fli_tensor_list){note, 1, n->entry, tensors},
                                            fixture_path(f, "start.safetensors")));
    return f->path;
}

static fl_run *begin(fixture *f, const char *assignments)
{
    char all[1024];
    snprintf(all, sizeof all, "model.start=%s/start.safetensors;%s", f->folder, assignments);
    return run_new(f, net, all);
}

static void by_name_and_converted(void **state)
{
    fixture *f = *state;
    foreign n;
    double x[64];
    foreign_init(&n);
    foreign_write(f, &n, 5);
    for (int wide = 0; wide < 2; wide++) {
        size_t at = 0;
        fl_run *run = begin(f, wide ? "precision=f64" : "");
        assert_int_equal(fl_run_model(run, x, 64), 43);
        for (size_t i = 0; i < HIDDEN * FEATURES; i++) assert_true(x[at++] == (double)n.w1[i]);
        for (size_t i = 0; i < HIDDEN; i++) assert_true(x[at++] == (double)n.b1[i]);
        for (size_t i = 0; i < CLASSES * HIDDEN; i++) assert_true(x[at++] == (wide ? n.w2[i] : (double)(float)n.w2[i]));
        for (size_t i = 0; i < CLASSES; i++) assert_true(x[at++] == (wide ? n.b2[i] : (double)(float)n.b2[i]));
        fl_run_free(run);
    }
}

static void cannot_begin(fixture *f, const foreign *n, size_t tensors, const char *why)
{
    char all[256];
    fl_run *run;
    foreign_write(f, n, tensors);
    snprintf(all, sizeof all, "model.start=%s/start.safetensors", f->folder);
    fl_config *cfg = config_of(f, net, all);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_EFORMAT, why);
    fl_config_free(cfg);
}

static void unfit_start_models_are_refused(void **state)
{
    fixture *f = *state;
    foreign n;
    fl_run *run;
    char all[256];
    foreign_init(&n);
    cannot_begin(f, &n, 4, "start.safetensors: has no tensor \"layer2.bias\", which model mlp needs");
    n.entry[1].shape[0] = FEATURES;
    n.entry[1].shape[1] = HIDDEN;
    cannot_begin(f, &n, 5, "tensor \"layer1.weight\" is 4 x 5, but that of model mlp is 5 x 4");
    foreign_init(&n);
    n.entry[3].dtype = "I32";
    cannot_begin(f, &n, 5, "tensor \"layer1.bias\" is of type I32, but must be F32 or F64");
    foreign_init(&n);
    n.w2[3] = NAN;
    cannot_begin(f, &n, 5, "tensor \"layer2.weight\" has a number that is not finite");
    n.w2[3] = 1e60;
    cannot_begin(f, &n, 5, "tensor \"layer2.weight\" has a number that is not finite, or too large for f32");
    snprintf(all, sizeof all, "model.start=%s/absent", f->folder);
    fl_config *cfg = config_of(f, net, all);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_EIO, "absent: cannot be read");
    fl_config_free(cfg);
    snprintf(all, sizeof all, "%s/start.safetensors", f->folder);
    unlink(all);
    assert_int_equal(mkfifo(all, 0600), 0); /* nobody writes into it: whoever opens it plainly waits for ever */
    snprintf(all, sizeof all, "model.start=%s/start.safetensors", f->folder);
    cfg = config_of(f, net, all);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_EIO, "not a plain file");
    fl_config_free(cfg);
}

/* A run that begins with the model that another ended with. */
static void goes_on_from_a_result(void **state)
{
    fixture *f = *state;
    char all[512];
    double was[64], is[64];
    snprintf(all, sizeof all, "output=%s/first", f->folder);
    fl_run *first = run_done(f, net, all);
    assert_ok(f->ctx, fl_run_save(first));
    snprintf(all, sizeof all, "model.start=%s/first/model.safetensors", f->folder);
    fl_run *second = run_new(f, net, all);
    assert_int_equal(fl_run_model(first, was, 64), fl_run_model(second, is, 64));
    assert_memory_equal(was, is, 43 * sizeof *was);
    assert_ok(f->ctx, fl_run_go(second, NULL, NULL));
    const fl_row *rows;
    assert_true(fl_run_rows(second, &rows) > 1);
    assert_true(fl_row_get(&rows[0], "train_loss") == fl_row_get(fl_run_row(first), "train_loss"));
    fl_run_free(first);
    fl_run_free(second);
}

/* Clients that are told everything by messages never see the file. */
static void by_messages(void **state)
{
    fixture *f = *state;
    foreign n;
    double a[64], b[64];
    foreign_init(&n);
    foreign_write(f, &n, 5);
    fl_run *direct = begin(f, "algorithm=scaffold"), *told = begin(f, "algorithm=scaffold;executor=loopback");
    assert_null(strstr(told->plan.setup.settings, "start.safetensors"));
    assert_ok(f->ctx, fl_run_go(direct, NULL, NULL));
    assert_ok(f->ctx, fl_run_go(told, NULL, NULL));
    fl_run_model(direct, a, 64);
    fl_run_model(told, b, 64);
    assert_memory_equal(a, b, 43 * sizeof *a);
    fl_run_free(direct);
    fl_run_free(told);
}

/* The file is data: what was begun with another one is not continued. */
static void part_of_the_data(void **state)
{
    fixture *f = *state;
    foreign n;
    double a[64], b[64];
    char all[512], output[128];
    fl_run *run;
    snprintf(output, sizeof output, "%s/out", f->folder);
    snprintf(all, sizeof all, "output=%s;checkpoint_every=1", output);
    foreign_init(&n);
    foreign_write(f, &n, 5);
    run = begin(f, all);
    fli_digest before = run->plan.data;
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    fl_run_model(run, a, 64);
    fl_run_free(run); /* not saved: its checkpoints stay */
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, output));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    assert_true(fl_run_round(run) > 0);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    fl_run_model(run, b, 64);
    assert_memory_equal(a, b, 43 * sizeof *a);
    assert_true(fli_digest_same(&before, &run->plan.data));
    fl_run_free(run);
    n.b1[0] += 1;
    foreign_write(f, &n, 5);
    fl_status s = fl_run_resume(cfg, &run);
    assert_int_not_equal(s, FL_OK);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "data"));
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(by_name_and_converted), FIXTURE_TEST(unfit_start_models_are_refused),
        FIXTURE_TEST(goes_on_from_a_result), FIXTURE_TEST(by_messages),
        FIXTURE_TEST(part_of_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
