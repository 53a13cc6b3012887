/* What is promised of `device: cuda`: every method whose local work is SGD, on every model that is computed there,
 * comes after a round of five steps to what it comes to on the CPU, but for rounding, and to the same bits when it is
 * run again.
 *
 * With FEDLOOM_TEST_ALL in the environment (tests/run-gpu.sh) every method meets every model in both precisions. The
 * emulator would take minutes for that. There all methods meet a softmax model in single and a network of three layers
 * in double precision. The other models meet few methods, and those of a realistic size none.
 *
 * Then whole runs with all else that a configuration may ask for, metrics among them. */
#include "outcome.h"
#include "runs.h"

#include "algo/algo.h"

#include <float.h>

static const char base[] =
    "rounds: 1\nseed: 3\nthreads: 1\nalgorithm: fedavg\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 80, test_samples: 8, test_fraction: 0.2}\n"
    "partition: {kind: dirichlet, clients: 4, alpha: 1}\nparticipation: {kind: uniform, count: 3}\n"
    "local: {batch: 5, lr: 0.1, steps: 5}\nsystem: {kind: lognormal, jitter: 0.3}\n";

/* ---- two runs -------------------------------------------------------------------------------------------- */

/* A run of it, or NULL with `why`, if none can be made. */
static fl_run *make(fixture *f, const char *set, const char *device, char *why, size_t room)
{
    char text[1024];
    fl_run *run = NULL;
    snprintf(text, sizeof text, "%s;device=%s", set, device);
    fl_config *cfg = config_of(f, base, text);
    fl_status s = fl_run_new(cfg, &run);
    if (s) assert_int_equal(s, FL_ECONFIG);
    snprintf(why, room, "%s", s ? fl_ctx_error(f->ctx) : "");
    fl_config_free(cfg);
    return run;
}

/* Where a run begins and where it ends. */
typedef struct {
    outcome begin, end;
} course;

static course finish(fixture *f, fl_run *run)
{
    course c = {.begin = outcome_of(run)};
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    c.end = outcome_of(run);
    fl_run_free(run);
    return c;
}

static void course_free(course *c)
{
    outcome_free(&c->begin);
    outcome_free(&c->end);
}

/* ||a - b||; b NULL: ||a|| */
static double between(const outcome *a, const outcome *b)
{
    double square = 0;
    if (b) assert_int_equal(a->parameters, b->parameters);
    for (size_t i = 0; i < a->parameters; i++) square += pow(a->model[i] - (b ? b->model[i] : 0), 2);
    return sqrt(square);
}

/* How far apart two models are, beside the model itself, and beside the way that it has come. */
typedef struct {
    double model, way;
} gap;

static gap gap_of(const course *a, const course *b)
{
    double d = between(&a->end, &b->end);
    return (gap){d / between(&a->end, NULL), d / between(&a->end, &a->begin)};
}

/* Whether a metric counts samples or clients: rounding may move one of them. */
static int counts(const char *name)
{
    return strstr(name, "accuracy") || strstr(name, "_q") || strstr(name, "_worst") || strstr(name, "_std");
}

/* Every metric of every row, measured in the same rows. */
static void compare_rows(const outcome *a, const outcome *b, double most, const char *set)
{
    const fl_metric *m;
    assert_int_equal(a->count, b->count);
    for (size_t r = 0; r < a->count; r++)
        for (size_t k = 0; (m = fl_metric_at(k)); k++) {
            double x = fl_row_value(&a->rows[r], m), y = fl_row_value(&b->rows[r], m);
            double room = counts(m->name) ? 0.15 : most * (1 + fabs(x));
            if (!(fabs(x - y) <= room) && !(isnan(x) && isnan(y)))
                fail_msg("%s: %s in row %zu is %.9g, expected %.9g", set, m->name, r, y, x);
        }
}

/* How far apart they may be. */
static gap most_of(int wide) { return wide ? (gap){1e-12, 1e-10} : (gap){1e-5, 1e-4}; }

static int within(gap g, gap most) { return g.model <= most.model && g.way <= most.way; }

/* ---- units at their kink --------------------------------------------------------------------------------- */

/* A unit whose sum is as near to zero as rounding is on or off as the order of its terms has it, and both are right; so
 * are both of two equal maxima. A run of 784-200-200-10 makes a million such sums. One that is that near, for one
 * sample in one step, moves the model by 1e-3 of its way, and a CNN's by more. So a result that is further from the
 * CPU's than rounding takes it must be next to one that the CPU comes to as well, from a start that is moved by no more
 * than what rounding does to a sum: by 2, 4 or 8 last digits. */
enum { MOVES = 16 };

static fl_run *moved(fixture *f, const char *set, int wide, uint32_t which)
{
    fli_rng r;
    char why[1000];
    fl_run *run = make(f, set, "cpu", why, sizeof why);
    void *x = fli_exec_server(run->exec)[0];
    double most = (2 << which % 3) * (wide ? DBL_EPSILON : FLT_EPSILON);
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, which);
    for (size_t i = 0; i < fl_run_parameters(run); i++) {
        double factor = 1 + fli_rng_range(&r, -most, most);
        if (wide)
            ((double *)x)[i] *= factor;
        else
            ((float *)x)[i] = (float)(((float *)x)[i] * factor);
    }
    fli_exec_server_changed(run->exec);
    return run;
}

/* Where it would have ended had it begun there: the move of its start is taken off again. */
static void begin_at(course *c, const outcome *start)
{
    for (size_t i = 0; i < start->parameters; i++) {
        c->end.model[i] -= c->begin.model[i] - start->model[i];
        c->begin.model[i] = start->model[i];
    }
}

/* To the first of them that is near enough, else to the nearest. */
static gap gap_to_moved(fixture *f, const char *set, int wide, const course *there)
{
    gap least = {INFINITY, INFINITY};
    for (uint32_t k = 0; k < MOVES && !within(least, most_of(wide)); k++) {
        course c = finish(f, moved(f, set, wide, k));
        begin_at(&c, &there->begin);
        gap g = gap_of(&c, there);
        if (g.way < least.way) least = g;
        course_free(&c);
    }
    return least;
}

static gap gap_but_for_kinks(fixture *f, const char *set, int wide, const course *here, const course *there)
{
    gap g = gap_of(here, there);
    if (within(g, most_of(wide))) return g;
    gap other = gap_to_moved(f, set, wide, there);
    print_message("%s: %.1e of its size and %.1e of its way from the CPU's result, %.1e and %.1e from that of a start "
                  "moved by rounding\n",
                  set, g.model, g.way, other.model, other.way);
    return other;
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

typedef enum { COMPARED, NOT_THERE, NOT_TOGETHER } verdict;

/* Runs it here, and there twice. */
static verdict compare(fixture *f, const char *set, int wide, gap *g)
{
    char why[1000];
    fl_run *run = make(f, set, "cpu", why, sizeof why);
    if (!run) return NOT_TOGETHER;
    course here = finish(f, run);
    verdict v = NOT_THERE;
    if ((run = make(f, set, "cuda", why, sizeof why))) {
        course there = finish(f, run), again = finish(f, make(f, set, "cuda", why, sizeof why));
        if (!same(&there.end, &again.end)) fail_msg("%s: other bits when it is run again", set);
        compare_rows(&here.end, &there.end, most_of(wide).model, set);
        *g = gap_but_for_kinks(f, set, wide, &here, &there);
        v = COMPARED;
        course_free(&there);
        course_free(&again);
    } else {
        assert_non_null(strstr(why, "the cpu alone"));
    }
    course_free(&here);
    return v;
}

static void check_gap(gap g, int wide, const char *set)
{
    if (!within(g, most_of(wide)))
        fail_msg("%s: models differ by %.2g of their size and %.2g of their way", set, g.model, g.way);
}

/* ---- every method ---------------------------------------------------------------------------------------- */

#define SMALL_IMAGES "data={kind: digits, samples: 40, test_samples: 4, crop: 12}"
#define IMAGES       "data={kind: digits, samples: 400, test_samples: 20};local.batch=50"
#define WIDE_LAYERS  IMAGES ";model={kind: mlp, hidden: [200, 200]}"
#define SEMI         "data.unlabelled=0.6;semi={labels: projected, label_steps: 2}"

/* Which methods meet a model. */
typedef enum { NONE, FEW, ALL } amount;
typedef struct {
    const char *name, *set;
    amount emulated[2], full[2]; /* in single, in double precision */
} way;
static const way ways[] = {
    {"softmax", "model={kind: softmax, weight_decay: 0.01}", {ALL, FEW}, {ALL, ALL}},
    {"logistic", "data.classes=2;model={kind: logistic, weight_decay: 0.01}", {FEW, FEW}, {ALL, ALL}},
    {"mlp", "model={kind: mlp, hidden: [9, 5]}", {FEW, ALL}, {ALL, ALL}},
    {"wide mlp", "data.features=20;model={kind: mlp, hidden: [70]}", {FEW, NONE}, {ALL, ALL}},
    {"cnn",
     SMALL_IMAGES ";data.crop=8;model={kind: cnn, layers: 'conv 8x5 same, pool 2, conv 8x3 same, pool 2, fc 6'}",
     {FEW, NONE},
     {ALL, ALL}},
    {"odd cnn",
     SMALL_IMAGES ";model={kind: cnn, layers: 'conv 5x5 stride 2, pool 2, conv 6x3 same, avgpool 2, fc 8'}",
     {FEW, FEW},
     {ALL, ALL}},
    {"semi-supervised softmax", SEMI ";model=softmax", {FEW, FEW}, {ALL, ALL}},
    {"semi-supervised mlp", SEMI ";model={kind: mlp, hidden: [7]}", {FEW, NONE}, {ALL, ALL}},
    {"784-200-200-10", WIDE_LAYERS, {NONE, NONE}, {ALL, FEW}},
    {"large cnn",
     IMAGES ";model={kind: cnn, layers: 'conv 64x5 same, pool 2, conv 64x5 same, pool 2, fc 384, fc 192'}",
     {NONE, NONE},
     {FEW, FEW}},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* A plain step, one with all of its terms, pseudo labels with a pair, and a gradient. */
static const char *const few[] = {"fedavg", "fedvra", "fedcpsl", "fedlin"};

static amount amount_of(const way *w, int wide) { return (getenv("FEDLOOM_TEST_ALL") ? w->full : w->emulated)[wide]; }

static int meets(amount which, const fl_method *a)
{
    int one_of = 0;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) one_of |= !strcmp(few[i], a->name);
    return which == ALL || (which == FEW && one_of);
}

typedef struct {
    size_t count[3]; /* by verdicts */
    gap worst;
    const char *who;
} tally;

static void meet(fixture *f, const way *w, int wide, const fl_method *a, tally *t)
{
    char set[512];
    gap g = {0};
    snprintf(set, sizeof set, "precision=%s;%s;algorithm=%s%s%s", wide ? "f64" : "f32", w->set, a->name,
             a->traits & FL_METHOD_EVERYONE ? ";participation=everyone" : "",
             a->traits & FL_METHOD_BILEVEL ? ";bilevel=hyper_representation" : "");
    verdict v = compare(f, set, wide, &g);
    t->count[v]++;
    if (v != COMPARED) return;
    check_gap(g, wide, set);
    if (t->who && g.way <= t->worst.way) return;
    t->worst = g;
    t->who = a->name;
}

static void every_method(void **state)
{
    for (size_t k = 0; k < WAYS; k++)
        for (int wide = 0; wide < 2; wide++) {
            amount which = amount_of(&ways[k], wide);
            tally t = {0};
            for (const fl_method *const *a = fli_algo_list; *a; a++)
                if (meets(which, *a)) meet(*state, &ways[k], wide, *a, &t);
            if (which == NONE) continue;
            print_message("%s, %s: %zu methods, %zu not there, %zu not together; %s differs by %.1e of its size and "
                          "%.1e of its way\n",
                          ways[k].name, wide ? "f64" : "f32", t.count[COMPARED], t.count[NOT_THERE],
                          t.count[NOT_TOGETHER], t.who, t.worst.model, t.worst.way);
            assert_true(t.count[COMPARED] >= (which == ALL ? 20 : 2));
        }
}

/* A run of which one unit is at its kink, on the CPU alone: two starts that differ by rounding have results 1e-3 of the
 * way apart, each of which is found among those of other such starts. A wrong result is not. */
static void only_kinks_explain_a_gap(void **state)
{
    static const char set[] = WIDE_LAYERS ";algorithm=fedbuff";
    fixture *f = *state;
    char why[1000];
    gap g = {0};
    course here = finish(f, make(f, set, "cpu", why, sizeof why)), there = {0};
    for (uint32_t k = MOVES; k < 2 * MOVES && within(g, most_of(0)); k++) {
        course_free(&there);
        there = finish(f, moved(f, set, 0, k));
        begin_at(&there, &here.begin);
        g = gap_of(&here, &there);
    }
    assert_false(within(g, most_of(0)));
    check_gap(gap_but_for_kinks(f, set, 0, &here, &there), 0, set);
    for (size_t i = 0; i < there.end.parameters; i++)
        there.end.model[i] += 3e-4 * (there.end.model[i] - there.begin.model[i]);
    assert_false(within(gap_but_for_kinks(f, set, 0, &here, &there), most_of(0)));
    course_free(&here);
    course_free(&there);
}

/* ---- other settings -------------------------------------------------------------------------------------- */

#define ROUNDS "rounds=3;local.steps=0;metrics={gradient: true, gradient_mapping: true};"

static void agree(fixture *f, const char *set)
{
    gap g = {0};
    int wide = strstr(set, "precision=f64") != NULL;
    if (compare(f, set, wide, &g) != COMPARED) fail_msg("%s: %s", set, fl_ctx_error(f->ctx));
    check_gap(g, wide, set);
}

static void other_settings(void **state)
{
    static const char *const sets[] = {
        ROUNDS "model=softmax;local.batch=0;local.steps=4;algorithm=feddyn",
        ROUNDS "model=softmax;local.batch=1000;algorithm=fedvra;metrics.potential=true;precision=f64",
        ROUNDS "model={kind: mlp, hidden: [7]};local.momentum=0.8;local.schedule=sqrt;local.schedule_by=step",
        ROUNDS "model={kind: softmax, weight_decay: 0.5, weight_decay_by: batch};local.batch_fraction=0.3",
        ROUNDS "model=softmax;local.uneven=range;local.range=[1, 3];algorithm=fednova",
        ROUNDS "model=softmax;algorithm=fedadam;memory=100",
        ROUNDS "model={kind: mlp, hidden: [5]};algorithm=scaffold;memory=1000",
        ROUNDS "model=softmax;algorithm=feddr;regularizer={kind: l1, weight: 0.01}",
        ROUNDS "model=softmax;algorithm=fedbuff;local.momentum=0.5;system={kind: lognormal, jitter: 0.9}",
        ROUNDS "model=softmax;algorithm=asyncfeddr;memory=1",
        ROUNDS "model=softmax;algorithm={kind: apfl, mix: auto};metrics.local=true",
        ROUNDS "data.unlabelled=0.6;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4};model=softmax;"
               "algorithm={kind: fedcpsl, mix: auto};metrics.local=true",
        ROUNDS "data.unlabelled=0.9;semi={labels: projected, label_steps: 3, label_batch: 2};precision=f64;"
               "model={kind: mlp, hidden: [5]};algorithm=fedvra-u",
        ROUNDS "data={kind: digits, samples: 40, test_samples: 4, augment: cifar};algorithm=fedcpsl;model=softmax",
        ROUNDS "data={kind: digits, samples: 40, test_samples: 4, crop: 10, augment: crop, normalize: image};"
               "model={kind: cnn, layers: 'conv 5x5 stride 2, pool 2, fc 8'};rounds=1;algorithm=scaffold",
        ROUNDS "data.samples=8;data.test_fraction=0;model={kind: mlp, hidden: [1]};partition={kind: iid, clients: 8}",
        ROUNDS "partition={kind: iid, clients: 1};participation=everyone;model=softmax",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) agree(*state, sets[k]);
}

/* As a9a: many features, of which a sample has a few ones. */
static void sparse_samples(void **state)
{
    fixture *f = *state;
    char set[1024];
    FILE *out = fopen(fixture_path(f, "sparse"), "w");
    assert_non_null(out);
    for (int i = 0; i < 80; i++) {
        fprintf(out, "%s", i % 3 ? "+1" : "-1");
        for (int j = 1 + i % 5; j < 123; j += 7 + (i * j) % 31) fprintf(out, " %d:%s", j, i % 4 ? "1" : "0.25");
        fputc('\n', out);
    }
    fclose(out);
    snprintf(set, sizeof set,
             ROUNDS "data={kind: libsvm, train: %s, storage: sparse, normalize: columns, test_fraction: 0.2};"
                    "model={kind: logistic, weight_decay: 0.01};algorithm=scaffold",
             fixture_path(f, "sparse"));
    agree(f, set);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

/* Two rounds there, the others on `device`, from a checkpoint. */
static course resumed(fixture *f, const char *set, const char *device)
{
    char text[2048], path[600];
    fl_run *run;
    snprintf(path, sizeof path, "%s", fixture_path(f, device));
    snprintf(text, sizeof text, "%s;device=cuda;checkpoint_every=2;output=%s", set, path);
    run = run_new(f, base, text);
    for (int r = 0; r < 2; r++) assert_ok(f->ctx, fl_run_step(run, NULL));
    fl_run_free(run);
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, path));
    snprintf(text, sizeof text, "device=%s", device);
    assert_ok(f->ctx, fl_config_set(cfg, text));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    fl_config_free(cfg);
    return finish(f, run);
}

/* With what clients keep: control variates, own models, pseudo labels. */
static void a_run_resumes_on_either_device(void **state)
{
    static const char set[] = "rounds=4;model={kind: mlp, hidden: [5]};data.unlabelled=0.6;algorithm=fedcpsl;"
                              "semi={labels: projected, label_steps: 2};local.momentum=0.5";
    char text[1024];
    fixture *f = *state;
    snprintf(text, sizeof text, "%s;device=cuda", set);
    course whole = finish(f, run_new(f, base, text)), there = resumed(f, set, "cuda"), here = resumed(f, set, "cpu");
    assert_true(same(&whole.end, &there.end));
    compare_rows(&whole.end, &here.end, 1e-5, set);
    check_gap(gap_of(&whole, &here), 0, set);
    course_free(&whole);
    course_free(&there);
    course_free(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_method),   FIXTURE_TEST(only_kinks_explain_a_gap),       FIXTURE_TEST(other_settings),
        FIXTURE_TEST(sparse_samples), FIXTURE_TEST(a_run_resumes_on_either_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
