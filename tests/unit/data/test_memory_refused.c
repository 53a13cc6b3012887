/* Data in the memory of a program: a sentence for everything that cannot be. */
#include "memory_problem.h"

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
static void rounded_shape(problem *p, fl_samples *s) { (void)p, s->shape[0] = 4, s->shape[1] = s->shape[2] = 1; }
static void huge_shape(problem *p, fl_samples *s)
{
    (void)p;
    s->shape[0] = (size_t)1 << 32, s->shape[1] = (size_t)1 << 32, s->shape[2] = 6;
}
static void odd_f64(problem *p, fl_samples *s) { s->f64 = (const double *)((uintptr_t)p->f64 + 4); }
static void odd_f32(problem *p, fl_samples *s) { s->f64 = NULL, s->f32 = (const float *)((uintptr_t)p->f32 + 2); }
static void odd_label(problem *p, fl_samples *s) { s->label = (const int32_t *)((uintptr_t)p->label + 1); }
static const char *const same_names[] = {"low", "high", "low"}, *const empty_name[] = {"low", "", "high"};
static void twice_a_name(problem *p, fl_samples *s) { (void)p, s->class_name = same_names; }
static void no_name(problem *p, fl_samples *s) { (void)p, s->class_name = empty_name; }
static void names_of_nothing(problem *p, fl_samples *s)
{
    s->label = NULL, s->classes = 0, s->target = p->target, s->class_name = same_names;
}

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
        {rounded_shape, "a shape of 4 x 1 x 1 does not hold 6 features"},
        {huge_shape, "does not hold 6 features"},
        {odd_f64, "f64 is at an address that is no multiple of 8"},
        {odd_f32, "f32 is at an address that is no multiple of 4"},
        {odd_label, "label is at an address that is no multiple of 4"},
        {twice_a_name, "two classes are called 'low'"},
        {no_name, "class_name[1] must have between 1 and 255 bytes"},
        {names_of_nothing, "class_name is given, but there are no classes"},
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
    for (int i = 0; i < 10; i++) {
        problem *bad = malloc(sizeof *bad);
        *bad = *p;
        dense = dense_of(bad, 'd', 0, 0, N), sparse = sparse_of(bad, 0, 0), numbers = dense_of(bad, 'd', 1, 0, N);
        const fl_samples *s = i < 3 ? &dense : i == 8 ? &numbers : &sparse;
        static const char *const complaint[] = {"sample 9 has label 3, not in 0 .. 2",
                                                "sample 9 has label -1",
                                                "sample 11, feature 2 is not finite",
                                                "sample 3: feature 6 is out of order or not below 6",
                                                "sample 4: feature 0 is out of order",
                                                "sparse row 5 ends before it starts",
                                                "rows do not start at 0",
                                                "is not finite",
                                                "sample 8 has target inf",
                                                "values, of only 6 features"};
        if (i < 2) bad->label[9] = i ? -1 : 3;
        if (i == 2) bad->f64[11 * DIM + 2] = NAN;
        if (i == 3) bad->col[bad->row[4] - 1] = 6;
        if (i == 4) bad->col[bad->row[4] + 1] = 0;
        if (i == 5) bad->row[6] = bad->row[5] - 1;
        if (i == 6) bad->row[0] = 1;
        if (i == 7) bad->few32[30] = INFINITY;
        if (i == 8) bad->target[8] = INFINITY;
        if (i == 9) bad->row[N] = SIZE_MAX; /* nothing is read there */
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

/* A test set alone is for a server: a run still needs to be told where its samples are. */
static void refuses_no_samples(void **state)
{
    fixture *f = *state;
    problem *p = problem_new();
    fl_samples none_at_all = {.size = sizeof none_at_all}, test = dense_of(p, 'd', 0, N, TEST);
    fl_config *cfg = fl_config_new(f->ctx);
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_config_text(cfg, "model: softmax\n", NULL));
    assert_ok(f->ctx, fl_config_data(cfg, &none_at_all, &test, NULL));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "data.kind is missing");
    assert_null(run);
    assert_fails(f->ctx, fl_config_set(cfg, NULL), FL_ECONFIG, "no assignment");
    assert_fails(f->ctx, fl_config_load(cfg, NULL), FL_ECONFIG, "no path");
    fl_config_free(cfg);
    free(p);
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(refuses_settings_that_contradict),
        FIXTURE_TEST(refuses_structs),
        FIXTURE_TEST(refuses_holdings),
        FIXTURE_TEST(refuses_samples),
        FIXTURE_TEST(refuses_no_samples),
        FIXTURE_TEST(refuses_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
