/* Regularisers of users: those of fedloom can be registered, and have the same bits; parameters of either kind;
 * mistakes are refused. */
#include "runs.h"

#include "fedloom_extend.h"
#include "regularizer/regularizer.h"

#define COMPOSITE SMALL "precision: f64\nalgorithm: feddr\nmetrics: {every: 1}\n"

static void add(fixture *f, const fl_regularizer *g) { assert_ok(f->ctx, fl_regularizer_register(f->ctx, g)); }
static void drop(fixture *f, const char *name) { assert_ok(f->ctx, fl_forget(f->ctx, "regularizer", name)); }

/* The same model, and the same g at it. */
static void same(fixture *f, const char *set, const char *other)
{
    fl_run *a = run_done(f, COMPOSITE, set), *b = run_done(f, COMPOSITE, other);
    size_t n = fl_run_parameters(a);
    double *x = calloc(2 * n, sizeof *x);
    assert_int_equal(fl_run_model(a, x, n), n);
    fl_run_model(b, x + n, n);
    if (memcmp(x, x + n, n * sizeof *x)) fail_msg("%s is not %s", set, other);
    assert_true(fl_row_get(fl_run_row(a), "regularizer") == fl_row_get(fl_run_row(b), "regularizer"));
    free(x);
    fl_run_free(a);
    fl_run_free(b);
}

/* `check` knows how far it is from convex. */
static size_t doubts(fixture *f, const char *name)
{
    collected text = {0};
    size_t left, count = 0;
    char set[100];
    snprintf(set, sizeof set, "regularizer=%s", name);
    fl_config *cfg = config_of(f, COMPOSITE, set);
    assert_ok(f->ctx, fl_study_check(cfg, NULL, keep_text, &text, NULL, NULL, &left));
    for (const char *at = text.s; (at = strstr(at, "convex")); at++) count++;
    fl_config_free(cfg);
    free(text.s);
    return count;
}

static void whatever_is_built_in(void **state)
{
    fixture *f = *state;
    for (const fl_regularizer *const *r = fli_regularizer_list; *r; r++) {
        char name[64], theirs[100], ours[100];
        fl_regularizer g = **r;
        if (!strcmp(g.name, "none")) continue;
        snprintf(name, sizeof name, "own_%s", g.name);
        g.size = sizeof g;
        g.name = name;
        add(f, &g);
        snprintf(theirs, sizeof theirs, "regularizer=%s", (*r)->name);
        snprintf(ours, sizeof ours, "regularizer=%s;executor=loopback", name);
        same(f, ours, theirs);
        assert_int_equal(doubts(f, name), doubts(f, (*r)->name));
        drop(f, name);
    }
}

/* ---- parameters in the order of the table ---------------------------------------------------------------------- */

static const fl_key keys[] = {
    {.name = "weight", .type = FL_KEY_REAL, .def = "0.01", .max = 10, .help = "of it"},
    {.name = "squared", .type = FL_KEY_BOOL, .def = "false", .help = "instead of absolute values"},
    {.name = NULL},
};

static int calls, at_once;

/* With FL_SERIAL: functions that leave something behind. */
static void note(const void *params)
{
    assert_int_equal(at_once++, 0);
    calls += *(int *)fl_begun(params);
    at_once--;
}

static double value(const void *params, size_t n, const double *x)
{
    const double *p = params;
    double sum = 0;
    note(params);
    for (size_t i = 0; i < n; i++) sum += p[1] > 0 ? p[0] / 2 * x[i] * x[i] : p[0] * fabs(x[i]);
    return sum;
}

static void prox(const void *params, double eta, size_t n, double *x, double *work)
{
    const double *p = params, t = eta * p[0];
    note(params);
    memset(work, 0xff, n * sizeof *work); /* there is room */
    for (size_t i = 0; i < n; i++) x[i] = p[1] > 0 ? x[i] / (1 + t) : fabs(x[i]) <= t ? 0 : x[i] - copysign(t, x[i]);
}

static int validate(const void *params, size_t n, fl_failure *f)
{
    const double *p = params;
    if (n != 15) fl_failed(f, "it is for 15 parameters");
    if (p[0] == 5) fl_failed(f, "there is something about five");
    return 0;
}

static fl_regularizer lasso(int *count)
{
    return (fl_regularizer){.size = sizeof(fl_regularizer),
                            .name = "lasso",
                            .arg = count,
                            .traits = FL_SERIAL,
                            .keys = keys,
                            .validate = validate,
                            .value = value,
                            .prox = prox};
}

static void refused(fixture *f, const char *set, const char *text)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, COMPOSITE, set);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, text);
    fl_config_free(cfg);
}

static void in_the_order_of_the_table(void **state)
{
    fixture *f = *state;
    int one = 1;
    collected text = {0};
    const fl_regularizer g = lasso(&one);
    refused(f, "regularizer=lasso", "lasso");
    add(f, &g);
    calls = 0;
    same(f, "regularizer={kind: lasso, weight: 0.05};threads=3", "regularizer={kind: l1, weight: 0.05}");
    same(f, "regularizer={kind: lasso, weight: 0.2, squared: true}", "regularizer={kind: l2, weight: 0.2}");
    assert_true(calls > 10);
    refused(f, "regularizer={kind: lasso, weight: 11}", "regularizer.weight");
    refused(f, "regularizer={kind: lasso, weight: 5}", "there is something about five");
    refused(f, "regularizer=lasso;data.features=5", "it is for 15 parameters");
    refused(f, "regularizer=lasso;algorithm=scaffold", "takes no proximal step");
    assert_ok(f->ctx, fl_list(f->ctx, "regularizer", "lasso", keep_text, &text));
    assert_non_null(strstr(text.s, "a regulariser of one's own"));
    assert_non_null(strstr(text.s, "instead of absolute values"));
    free(text.s);
    drop(f, "lasso");
    refused(f, "regularizer=lasso", "lasso");
}

/* The newest of a name, and each by its number. */
static void several_of_a_name(void **state)
{
    fixture *f = *state;
    int one = 1, thousand = 1000;
    fl_regularizer first = lasso(&one), second = lasso(&thousand);
    add(f, &first);
    add(f, &second);
    calls = 0;
    fl_run_free(run_done(f, COMPOSITE, "regularizer=lasso@1"));
    assert_true(calls > 0 && calls < 1000);
    fl_run_free(run_done(f, COMPOSITE, "regularizer=lasso"));
    assert_true(calls > 1000);
    drop(f, "lasso");
}

/* ---- mistakes ---------------------------------------------------------------------------------------------- */

static void nowhere(const void *params, double eta, size_t n, double *x, double *work)
{
    (void)params, (void)eta, (void)work;
    x[n - 1] = NAN;
}

static void mistakes_of_a_regularizer_are_named(void **state)
{
    fixture *f = *state;
    int one = 1;
    const fl_regularizer good = lasso(&one);
    const fl_key twice[] = {keys[0], keys[0], {NULL}};
    fl_regularizer g;
#define WRONG(text, ...)                                                                                               \
    do {                                                                                                               \
        g = good;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
        assert_fails(f->ctx, fl_regularizer_register(f->ctx, &g), FL_ECONFIG, text);                                   \
    } while (0)
    assert_fails(f->ctx, fl_regularizer_register(f->ctx, NULL), FL_ECONFIG, "there is no regularizer to register");
    WRONG("fl_regularizer.size is 3", g.size = 3);
    WRONG("a regularizer needs a name", g.name = NULL);
    WRONG("regularizer l1 comes with fedloom", g.name = "l1");
    WRONG("traits 0x2, of which only FL_SERIAL is known", g.traits = 2);
    WRONG("needs the function value", g.value = NULL);
    WRONG("needs the function prox", g.prox = NULL);
    WRONG("regularizer 'lasso' has two parameters called 'weight'", g.keys = twice);
    WRONG("its field is beyond the struct of 4 bytes", g.params_size = 4);
    assert_fails(f->ctx, fl_forget(f->ctx, "regularizer", "lasso"), FL_ECONFIG, "no regularizer called lasso");
    g = good;
    g.prox = nowhere;
    add(f, &g);
    fl_run *run = run_new(f, COMPOSITE, "regularizer=lasso");
    assert_int_equal(fl_run_go(run, NULL, NULL), FL_EDIVERGED);
    fl_run_free(run);
    drop(f, "lasso");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(whatever_is_built_in),
        FIXTURE_TEST(in_the_order_of_the_table),
        FIXTURE_TEST(several_of_a_name),
        FIXTURE_TEST(mistakes_of_a_regularizer_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
