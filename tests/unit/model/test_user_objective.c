/* An objective of one's own: the numbers of fedloom's own model where it computes the same, and failures that end a run
 * with a sentence. */
#include "own.h"

#include "config/registry.h"

#define UNMEASURED ";metrics={train: false, test: false, clients: false}"
#define EXACT      SMALL "precision: f64\nmetrics: {gradient: true}\n"

/* As `refuse`, with settings on top. */
static void refuse_set(fixture *f, const char *set, const char *text)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, EXACT, set);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, text);
    fl_config_free(cfg);
}

/* ---- the same numbers --------------------------------------------------------------------------------------- */

static const char *const methods[] = {
    "algorithm=fedavg;local.momentum=0.5",
    "algorithm=scaffold",
    "algorithm=fedvra",
    "algorithm={kind: feddr, solver: accurate, accuracy: 1e-10, relative: 1e-10}",
    "algorithm=fedlin;participation=everyone",
};

/* A solver that goes on until it is accurate decides by last digits, which kernels have their own of: how many steps it
 * takes is then not compared. */
static void check_rows(const fl_run *a, const fl_run *b, int accurate)
{
    static const char *const names[] = {"train_loss", "train_accuracy", "test_loss",  "test_accuracy",
                                        "gradient2",  "bytes_up",       "local_steps"};
    size_t count = sizeof names / sizeof *names - (accurate ? 1 : 0);
    const fl_row *p, *q;
    size_t n = fl_run_rows(a, &p);
    assert_int_equal(fl_run_rows(b, &q), n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++) assert_near(fl_row_get(&p[i], names[k]), fl_row_get(&q[i], names[k]), 1e-11);
}

static void same_trajectory(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    own_register(f, &arg);
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        char set[400], looped[450];
        snprintf(set, sizeof set, "%s;model.weight_decay=0.01", methods[k]);
        fl_run *theirs = run_done(f, EXACT, set);
        snprintf(set, sizeof set, "%s;model={kind: own_softmax, weight_decay: 0.01}", methods[k]);
        snprintf(looped, sizeof looped, "%s;executor=loopback", set);
        fl_run *ours = run_done(f, EXACT, set), *loop = run_done(f, EXACT, looped);
        check_rows(ours, theirs, strstr(methods[k], "accurate") != NULL);
        if (!(own_distance(ours, theirs) <= 1e-11)) fail_msg("%s: %g", methods[k], own_distance(ours, theirs));
        assert_true(own_distance(ours, loop) == 0);
        fl_run_free(theirs);
        fl_run_free(ours);
        fl_run_free(loop);
    }
    own_forget(f);
}

static void single_precision(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    own_register(f, &arg);
    fl_run *theirs = run_done(f, SMALL, "algorithm=scaffold"), *ours = run_done(f, SMALL, "algorithm=scaffold;" OWN);
    assert_near(own_distance(ours, theirs), 0, 1e-5);
    fl_run_free(theirs);
    fl_run_free(ours);
    own_forget(f);
}

/* Stopped in the middle and continued, in a process that has other things registered by then. */
static void after_a_checkpoint(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    char set[400];
    fl_run *second = NULL;
    own_register(f, &arg);
    snprintf(set, sizeof set, OWN ";algorithm=scaffold;checkpoint_every=2;output=%s/own", f->folder);
    fl_run *first = run_new(f, EXACT, set);
    assert_ok(f->ctx, fl_run_go(first, own_stop_after_three, first));
    assert_int_equal(fl_run_round(first), 3);
    fl_run_free(first);
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, fixture_path(f, "own")));
    assert_ok(f->ctx, fl_run_resume(cfg, &second));
    assert_ok(f->ctx, fl_run_go(second, NULL, NULL));
    fl_run *whole = run_done(f, EXACT, OWN ";algorithm=scaffold");
    assert_true(own_distance(second, whole) == 0);
    assert_ok(f->ctx, fl_run_save(second));
    char *model = read_whole(fixture_path(f, "own/model.safetensors"), NULL);
    assert_non_null(strstr(model + 8, "\"weight\":{\"dtype\":\"F64\",\"shape\":[3,4]"));
    free(model);
    fl_run_free(second);
    fl_run_free(whole);
    fl_config_free(cfg);
    own_forget(f);
}

/* FedGiA's curvature is that of the start where no bound is known, here as everywhere. */
static void fedgia_runs(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    own_register(f, &arg);
    fl_run *ours = run_done(f, EXACT, OWN ";algorithm=fedgia"),
           *loop = run_done(f, EXACT, OWN ";algorithm=fedgia;executor=loopback");
    assert_true(own_distance(ours, loop) == 0);
    const fl_row *rows;
    size_t n = fl_run_rows(ours, &rows);
    assert_true(fl_row_get(&rows[n - 1], "train_loss") < fl_row_get(&rows[0], "train_loss"));
    fl_run_free(ours);
    fl_run_free(loop);
    own_forget(f);
}

/* Products with the Hessian, through everything that asks for them: the smoothness constants of `check`. */
static void check_measures_the_own_curvature(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    collected ours = {0}, theirs = {0};
    own_register(f, &arg);
    fl_config *cfg = config_of(f, EXACT, "algorithm=fedvra");
    assert_ok(f->ctx, fl_check(cfg, keep_text, &theirs));
    assert_ok(f->ctx, fl_config_set(cfg, OWN));
    assert_ok(f->ctx, fl_check(cfg, keep_text, &ours));
    double at_start[2], bound[2]; /* of three classes, whose bound is 3/2 of what a model of zeros has */
    assert_int_equal(sscanf(strstr(ours.s, "L_i from"), "L_i from %lf to %lf", &at_start[0], &at_start[1]), 2);
    assert_int_equal(sscanf(strstr(theirs.s, "L_i from"), "L_i from %lf to %lf", &bound[0], &bound[1]), 2);
    for (size_t i = 0; i < 2; i++) assert_near(bound[i], 1.5 * at_start[i], 1e-3 * bound[i]);
    assert_non_null(strstr(ours.s, "assumed  L_i            measured at the start model"));
    arg.fail_product = 1;
    assert_fails(f->ctx, fl_check(cfg, keep_text, &ours), FL_ECALLBACK,
                 "objective own_softmax failed at client 0: no curvature today");
    fl_config_free(cfg);
    fl_objective plain = own_softmax(&arg);
    plain.product = NULL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &plain));
    cfg = config_of(f, EXACT, OWN);
    ours.s[0] = 0;
    ours.n = 0;
    assert_ok(f->ctx, fl_check(cfg, keep_text, &ours)); /* FedAvg has no conditions, for which one would need them */
    assert_non_null(strstr(ours.s, "no step-size conditions are known here for this method"));
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm=fedvra"));
    assert_fails(f->ctx, fl_check(cfg, keep_text, &ours), FL_ECONFIG,
                 "model own_softmax has none (fl_objective.product)");
    fl_config_free(cfg);
    refuse_set(f, OWN ";algorithm={kind: fedgia, variant: diagonal}", "the diagonal solver needs products");
    refuse_set(f, OWN ";algorithm={kind: feddr, solver: exact}", "the exact solver is for");
    refuse_set(f, OWN ";algorithm=simfbo;bilevel=regularization", "two levels are made of");
    own_forget(f);
    free(ours.s);
    free(theirs.s);
}

/* ---- failing ---------------------------------------------------------------------------------------------- */

static void a_failing_objective_gives_its_reason(void **state)
{
    fixture *f = *state;
    own_arg arg = {.fail_batch = 1};
    own_register(f, &arg);
    own_fails(f, OWN, FL_ECALLBACK, "objective own_softmax failed when client");
    own_fails(f, OWN ";executor=loopback", FL_ECALLBACK, "was measured: no more paper");
    own_fails(f, OWN UNMEASURED ";threads=1", FL_ECALLBACK, "objective own_softmax failed at client ");
    own_fails(f, OWN UNMEASURED ";executor=loopback", FL_ECALLBACK, ", round 1: no more paper");
    own_fails(f,
              OWN UNMEASURED ";algorithm={kind: fedasync, tau: 100};system=constant;"
                             "participation=everyone",
              FL_ECALLBACK, "no more paper");
    own_fails(f, OWN UNMEASURED ";algorithm={kind: feddr, solver: accurate, accuracy: 1e-9, relative: 1e-9}",
              FL_ECALLBACK, ", round 1: no more paper");
    arg = (own_arg){.fail_batch = 200};
    own_fails(f, OWN, FL_ECALLBACK, "no more paper"); /* somewhere in the middle */
    arg = (own_arg){.fail_test = 1};
    own_fails(f, OWN ";metrics={train: false, clients: false}", FL_ECALLBACK,
              "objective own_softmax failed on the test set: no more paper");
    arg = (own_arg){.hits = 1000};
    own_fails(f, OWN, FL_ECALLBACK, "it has 1000 hits among");
    arg = (own_arg){.fail_product = 1};
    own_fails(f, OWN ";algorithm={kind: fedgia, variant: diagonal}", FL_ECALLBACK, "no curvature today");
    own_forget(f);
}

/* After a failure nothing more is called. */
static void no_more_calls(void **state)
{
    fixture *f = *state;
    own_arg arg = {.fail_batch = 3};
    own_register(f, &arg);
    own_fails(f, OWN ";threads=1", FL_ECALLBACK, "no more paper");
    assert_int_equal(atomic_load(&arg.calls), 3);
    own_forget(f);
}

static void an_objective_may_set_the_start(void **state)
{
    fixture *f = *state;
    own_arg arg = {.start = 0.25};
    double x[OWN_PARAMETERS];
    fl_objective o = own_softmax(&arg);
    o.start = own_start;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    fl_run *run = run_new(f, SMALL, OWN);
    fl_run_model(run, x, OWN_PARAMETERS);
    for (size_t k = 0; k < OWN_PARAMETERS; k++) assert_true(x[k] == 0.25);
    fl_run_free(run);
    arg.fail_start = 1;
    own_fails(f, OWN, FL_ECALLBACK, "objective own_softmax failed at the start model: no reason was given");
    own_forget(f);
}

static void not_finite(void **state)
{
    fixture *f = *state;
    own_arg arg = {.nan_loss = 1};
    own_register(f, &arg);
    own_fails(f, OWN, FL_EDIVERGED, "round 0: the training loss of the start model is not finite");
    arg = (own_arg){.nan_gradient = 1};
    own_fails(f, OWN, FL_EDIVERGED, "the local model is no longer finite");
    own_forget(f);
}

static void one_at_a_time(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    fl_objective o = own_softmax(&arg);
    o.traits |= FL_SERIAL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    fl_run_free(run_done(f, SMALL, OWN ";threads=4"));
    assert_int_equal(atomic_load(&arg.most), 1);
    own_forget(f);
}

/* ---- samples that are known by their numbers -------------------------------------------------------------- */

enum { HOLDERS = 5 };

/* f_i(x) = (x - i)^2/2, whose sum is least at 2 */
static int near_own_number(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *f)
{
    double d = own_get(x, real, 0) - client;
    (void)arg, (void)f;
    assert_true(client < HOLDERS);
    *loss = d * d / 2;
    if (g) own_put(g, real, 0, d);
    return 0;
}

/* The same for whole clients at once, as a batch. */
static int near_numbers(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct,
                        fl_failure *f)
{
    double sum = 0, slope = 0;
    (void)correct;
    assert_int_equal(b->dim, 0);
    assert_null(b->x);
    for (size_t i = 0; i < b->n; i++) {
        double l, d;
        near_own_number(arg, b->sample[i], sizeof(double), (double[]){own_get(x, b->real, 0)}, &d, &l, f);
        sum += l / (double)b->n;
        slope += d / (double)b->n;
    }
    *loss = sum;
    if (g) own_put(g, b->real, 0, slope);
    return 0;
}

static void gradients_by_client(void **state)
{
    fixture *f = *state;
    const fl_objective forms[] = {
        {.size = sizeof forms[0], .name = "numbers", .parameters = 1, .client = near_own_number},
        {.size = sizeof forms[0], .name = "numbers", .parameters = 1, .batch = near_numbers}};
    const uint32_t idx[] = {4, 1};
    for (size_t k = 0; k < 2; k++) {
        fli_item item;
        fli_model *m = NULL;
        fli_dataset *ds = NULL;
        fli_batch b;
        double x = 3, g = NAN, scratch[8];
        assert_ok(f->ctx, fl_objective_register(f->ctx, &forms[k]));
        assert_true(fli_item_find(fli_kind_find("model"), "numbers", &item));
        assert_ok(f->ctx, fli_model_new(f->ctx, item.desc, NULL, &fli_ops_f64, 0, 0, 0, &m));
        assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, HOLDERS, 0, 0, &ds));
        assert_ok(f->ctx, fli_model_batch(f->ctx, m, 2, &b));
        assert_true(fli_model_scratch(m, 2) <= 16 * sizeof *scratch);
        fli_batch_gather(&b, ds, idx, 2);
        void *room = fli_alloc(f->ctx, fli_model_scratch(m, 2), 1);
        assert_near(m->desc->grad(m, &x, &b, &g, NULL, room), (0.5 + 2) / 2, 1e-15);
        assert_near(g, 0.5, 1e-15);
        fli_free(room);
        fli_batch_fini(&b);
        fli_dataset_free(ds);
        fli_model_free(m);
    }
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "numbers"));
}

/* Samples without features, `each` of them per client. */
static fl_config *numbered(fixture *f, fl_samples *samples, fl_holding *who, size_t each, const char *set)
{
    static size_t start[HOLDERS + 1];
    *samples = (fl_samples){.size = sizeof *samples, .n = HOLDERS * each};
    *who = (fl_holding){.size = sizeof *who, .clients = HOLDERS, .start = start};
    for (size_t i = 0; i <= HOLDERS; i++) start[i] = i * each;
    fl_config *cfg = config_of(f, "rounds: 40\nprecision: f64\nlocal: {lr: 0.1}\nmetrics: {gradient: true}\n", set);
    assert_ok(f->ctx, fl_config_data(cfg, samples, NULL, who));
    return cfg;
}

static void whole_clients(void **state)
{
    fixture *f = *state;
    fl_objective o = {.size = sizeof o, .name = "numbers", .parameters = 1, .client = near_own_number};
    static const char *const ways[] = {
        "algorithm=scaffold", "algorithm=fedavg;local.steps=3;executor=loopback",
        "algorithm={kind: feddr, solver: accurate, accuracy: 1e-6, relative: 0.1, eta: 1}"};
    fl_samples samples;
    fl_holding who;
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        char set[300];
        double x;
        snprintf(set, sizeof set, "model=numbers;participation=everyone;%s", ways[k]);
        fl_config *cfg = numbered(f, &samples, &who, 1, set);
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        fl_run_model(run, &x, 1);
        assert_near(x, 2, 0.05);
        assert_near(fl_row_get(fl_run_row(run), "train_loss"), 1, 0.01);
        assert_near(fl_row_get(fl_run_row(run), "gradient2"), (x - 2) * (x - 2), 1e-9);
        fl_run_free(run);
        fl_config_free(cfg);
    }
    fl_config *cfg =
        numbered(f, &samples, &who, 1, "model=numbers;algorithm={kind: feddr, solver: accurate, relative: 0.1}");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG,
                 "a parameter of algorithm feddr that is auto needs products");
    fl_config_free(cfg);
    cfg = numbered(f, &samples, &who, 2, "model=numbers");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "client 0 must have one sample, number 0");
    assert_ok(f->ctx, fl_config_set(cfg, "model=softmax"));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "");
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "numbers"));
}

/* ---- registering ------------------------------------------------------------------------------------------ */

static void refuses(fixture *f, fl_objective o, const char *text)
{
    assert_fails(f->ctx, fl_objective_register(f->ctx, &o), FL_ECONFIG, text);
}

static void mistakes_of_an_objective_are_named(void **state)
{
    fixture *f = *state;
    static const fl_tensor gap[] = {{"a", 0, 1, {4}}, {"b", 5, 2, {2, 5}}};
    static const fl_tensor few[] = {{"a", 0, 1, {4}}}, none[] = {{"a", 0, 2, {15, 0}}};
    static const fl_tensor twice[] = {{"a", 0, 1, {4}}, {"a", 4, 1, {11}}}, quote[] = {{"a\"", 0, 1, {15}}};
    static const fl_tensor huge[] = {{"a", 0, 3, {SIZE_MAX / 2, 4, 15}}};
    static const char *const nine[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", NULL};
    own_arg arg = {0};
    fl_objective o = own_softmax(&arg), bad;
#define WITH(change, text)                                                                                             \
    do {                                                                                                               \
        bad = o;                                                                                                       \
        change;                                                                                                        \
        refuses(f, bad, text);                                                                                         \
    } while (0)
    WITH(bad.size = 0, "fl_objective.size is 0");
    WITH(bad.name = NULL, "an objective needs a name");
    WITH(bad.name = "my own", "a name has letters");
    WITH(bad.name = "softmax", "model softmax comes with fedloom");
    WITH(bad.name = "quadratic_bilevel", "comes with fedloom");
    WITH(bad.parameters = 0, "has 0 parameters");
    WITH(bad.batch = NULL, "needs one of the functions batch and client");
    WITH(bad.client = near_own_number, "not both");
    WITH((bad.batch = NULL, bad.client = near_own_number), "client counts no hits");
    WITH(bad.traits = 1024, "is not known");
    WITH(bad.measure = own_measure, "a function measure, but no metrics");
    WITH((bad.measure = own_measure, bad.metrics = nine), "has 9 metrics, but at most 8 are allowed");
    WITH(bad.tensors = gap, "without gaps");
    WITH((bad.tensors = few, bad.tensor_count = 1), "tensors cover 4 of 15 parameters");
    WITH((bad.tensors = none, bad.tensor_count = 1), "none of them 0");
    WITH((bad.tensors = huge, bad.tensor_count = 1), "objective own_softmax: tensor");
    WITH(bad.tensors = twice, "two tensors called a");
    WITH((bad.tensors = quote, bad.tensor_count = 1), "needs a name of at most");
#undef WITH
    refuse_set(f, OWN, "model.kind is own_softmax, which is not known");
}

/* Out of memory at any moment: said, and nothing is left behind. */
static void no_memory(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    fl_objective o = own_softmax(&arg);
    fl_status s = FL_ENOMEM;
    size_t k = 1;
    o.metrics = (const char *const[]){"weight_sum", NULL};
    o.measure = own_measure;
    for (; s; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        s = fl_objective_register(f->ctx, &o);
        if (s) assert_int_equal(s, FL_ENOMEM);
    }
    fli_ctx_fail_alloc(f->ctx, 0);
    assert_true(k > 4);
    own_forget(f);
    refuse_set(f, OWN, "which is not known");
}

static void shows(void *arg, const char *text) { *(int *)arg += strstr(text, "own_softmax") != NULL; }

/* A name may be given again: runs made before go on with what they have. */
static void again_and_gone(void **state)
{
    fixture *f = *state;
    own_arg first = {0}, second = {0};
    int shown = 0;
    own_register(f, &first);
    fl_run *run = run_new(f, SMALL, OWN);
    own_register(f, &second);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_true(atomic_load(&first.calls) > 0 && atomic_load(&second.calls) == 0);
    fl_run_free(run);
    fl_run_free(run_done(f, SMALL, OWN));
    assert_true(atomic_load(&second.calls) > 0);
    assert_ok(f->ctx, fl_list(f->ctx, "models", NULL, shows, &shown));
    assert_int_equal(shown, 1);
    assert_ok(f->ctx, fl_list(f->ctx, "model", "own_softmax", shows, &shown));
    assert_int_equal(shown, 2);
    assert_ok(f->ctx, fl_reference(f->ctx, FL_REFERENCE_MARKDOWN, shows, &shown));
    assert_int_equal(shown, 2);
    own_forget(f);
    assert_fails(f->ctx, fl_forget(f->ctx, "model", "own_softmax"), FL_ECONFIG, "no model called own_softmax");
    assert_fails(f->ctx, fl_forget(f->ctx, "data", "blobs"), FL_ECONFIG, "is no section");
    refuse_set(f, OWN, "which is not known");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(same_trajectory),
        FIXTURE_TEST(single_precision),
        FIXTURE_TEST(after_a_checkpoint),
        FIXTURE_TEST(fedgia_runs),
        FIXTURE_TEST(check_measures_the_own_curvature),
        FIXTURE_TEST(a_failing_objective_gives_its_reason),
        FIXTURE_TEST(no_more_calls),
        FIXTURE_TEST(an_objective_may_set_the_start),
        FIXTURE_TEST(not_finite),
        FIXTURE_TEST(one_at_a_time),
        FIXTURE_TEST(gradients_by_client),
        FIXTURE_TEST(whole_clients),
        FIXTURE_TEST(mistakes_of_an_objective_are_named),
        FIXTURE_TEST(no_memory),
        FIXTURE_TEST(again_and_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
