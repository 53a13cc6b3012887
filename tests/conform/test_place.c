/* Vectors that live elsewhere: every method that is listed has the bits of plain memory in a place whose addresses
 * nobody can follow, in rounds, metrics and checkpoints. */
#include "hidden_place.h"
#include "outcome.h"
#include "own_methods.h"
#include "runs.h"

#include "algo/algo.h"

static const char base[] =
    "rounds: 4\nseed: 3\nthreads: 2\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "participation: {kind: uniform, count: 7}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true, gradient_mapping: true}\n";

/* The run, to be freed before the place. */
static fl_run *run_there(fixture *f, const char *set, size_t lanes, hidden *h)
{
    fl_run *run = run_new(f, base, set);
    fli_exec_spec spec = *fli_exec_spec_of(run->exec);
    hidden_init(h, f->ctx, run->plan.model, lanes);
    spec.site = &h->site;
    run_anew(f, run, &spec);
    return run;
}

static outcome outcome_there(fixture *f, const char *set, size_t lanes)
{
    hidden h;
    fl_run *run = run_there(f, set, lanes, &h);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    outcome o = outcome_of(run);
    assert_true(h.joins > 0 && h.foreseen > 0 && h.together <= lanes && h.together >= (lanes < 3 ? lanes : 3));
    fl_run_free(run);
    hidden_fini(&h);
    return o;
}

static outcome outcome_here(fixture *f, const char *set)
{
    fl_run *run = run_done(f, base, set);
    outcome o = outcome_of(run);
    fl_run_free(run);
    return o;
}

static void agree(fixture *f, const char *set)
{
    static const size_t lanes[] = {1, 3, 64};
    outcome here = outcome_here(f, set);
    for (size_t k = 0; k < 3; k++) {
        outcome there = outcome_there(f, set, lanes[k]);
        if (!same(&here, &there)) fail_msg("%s: %zu lanes elsewhere give other bits", set, lanes[k]);
        outcome_free(&there);
    }
    outcome_free(&here);
}

static void settings(char *out, size_t size, const fl_method *a, const char *more)
{
    snprintf(out, size, "algorithm=%s;participation=%s;%s%s", a->name,
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}",
             a->traits & FL_METHOD_BILEVEL ? "bilevel=hyper_representation;metrics.gradient_mapping=false;" : "", more);
}

static void every_algorithm(void **state)
{
    static const char *const ways[] = {"model={kind: mlp, hidden: [9]}",
                                       "model={kind: mlp, hidden: [9], weight_decay: 0.01};precision=f64"};
    char set[512];
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        for (size_t k = 0; k < 2; k++) {
            if ((*a)->traits & FL_METHOD_BILEVEL && k) continue; /* weight decay is not for two levels */
            settings(set, sizeof set, *a, ways[k]);
            agree(*state, set);
        }
}

/* Own models, mixtures, pseudo labels, potentials, proximal steps, momentum, several cohorts in a round. */
static void other_settings(void **state)
{
    static const char *const sets[] = {
        "model=softmax;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2};participation=everyone",
        "model=softmax;metrics.local=true;algorithm=apfl",
        "model={kind: softmax, weight_decay: 0.1};metrics.local=true;algorithm=fedpd;participation=everyone",
        "model=softmax;data.unlabelled=0.7;semi={labels: projected, label_steps: 3, label_batch: 2};algorithm=fedvra-u",
        "model=softmax;data.unlabelled=0.7;semi={labels: closed_form, confidence: 0.3};algorithm=fedvra-u",
        "model=softmax;metrics.potential=true;algorithm=fedvra",
        "model=softmax;metrics.potential=true;algorithm=feddr",
        "model=softmax;metrics.potential=true;algorithm={kind: asyncfeddr, tau: 40}",
        "model=softmax;metrics.potential=true;data.unlabelled=0.7;semi={labels: projected};algorithm=fedvra-u",
        "model=softmax;regularizer={kind: l1, weight: 0.01};algorithm=feddr",
        "model=softmax;regularizer={kind: l2_ball, radius: 0.5};algorithm=asyncfeddr",
        "model=softmax;local.momentum=0.9;local.schedule=sqrt;local.schedule_by=step",
        "model=softmax;participation={kind: bernoulli, probability: 0.4}",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) agree(*state, sets[k]);
}

/* A method of the user's works by the operations of its space alone. */
static void a_method_of_the_users(void **state)
{
    fixture *f = *state;
    assert_ok(f->ctx, fl_method_register(f->ctx, &own_scaffold));
    agree(f, "model=softmax;algorithm=own_scaffold");
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "own_scaffold"));
}

/* With a budget for two clients those who have been away longest are in plain memory. */
static void beyond_a_budget(void **state)
{
    fixture *f = *state;
    hidden h;
    size_t spilled, held;
    agree(f, "model=softmax;algorithm=scaffold;memory=1000");
    agree(f, "model=softmax;algorithm=fedcpsl;memory=1000;metrics.local=true");
    fl_run *run = run_there(f, "model=softmax;algorithm=scaffold;memory=1000", 3, &h);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    held = fli_exec_state(run->exec, &spilled);
    assert_true(spilled > 0 && held < 12 * 300);
    fl_run_free(run);
    hidden_fini(&h);
}

/* ---- checkpoints --------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned char *bytes;
    size_t n;
} image;

static image image_of(fixture *f, const fl_run *run)
{
    fli_saver *out;
    image i;
    assert_ok(f->ctx, fli_saver_open_memory(f->ctx, &out));
    fli_exec_save(run->exec, out);
    if (run->async) fli_async_save(run->async, out);
    assert_ok(f->ctx, fli_saver_take(out, &i.bytes, &i.n));
    return i;
}

static int same_image(const image *a, const image *b) { return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n); }

static void put_image(fixture *f, fl_run *run, const image *i)
{
    fli_loader *in;
    assert_ok(f->ctx, fli_loader_open_memory(f->ctx, "image", i->bytes, i->n, &in));
    assert_ok(f->ctx, fli_exec_load(run->exec, in));
    if (run->async) assert_ok(f->ctx, fli_async_load(run->async, in));
    assert_ok(f->ctx, fli_loader_end(in));
    fli_loader_close(in);
}

/* After two rounds; it can be read in either place, and says the same there. */
static void images_agree(fixture *f, const char *set)
{
    hidden h[2];
    image i[3];
    fl_run *run[3] = {run_new(f, base, set), run_there(f, set, 5, &h[0]), run_there(f, set, 5, &h[1])};
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < 2; r++) assert_ok(f->ctx, fl_run_step(run[k], NULL));
        i[k] = image_of(f, run[k]);
    }
    put_image(f, run[2], &i[0]);
    i[2] = image_of(f, run[2]);
    if (!same_image(&i[0], &i[1]) || !same_image(&i[0], &i[2])) fail_msg("%s: another checkpoint elsewhere", set);
    for (int k = 0; k < 3; k++) {
        fl_run_free(run[k]);
        fli_free(i[k].bytes);
    }
    for (int k = 0; k < 2; k++) hidden_fini(&h[k]);
}

static void checkpoints_are_the_same_elsewhere(void **state)
{
    char set[512];
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        settings(set, sizeof set, *a, "model={kind: mlp, hidden: [9]}");
        images_agree(*state, set);
    }
    images_agree(*state, "model=softmax;algorithm=scaffold;memory=1000");
}

/* ---- what others see --------------------------------------------------------------------------------------------- */

static void seen_from_outside(void **state)
{
    fixture *f = *state;
    hidden h;
    double start[28];
    static const char set[] = "model=softmax;algorithm=scaffold;rounds=2";
    fl_run *run[2] = {run_new(f, base, set), run_there(f, set, 5, &h)};
    for (int i = 0; i < 28; i++) start[i] = 0.01 * i;
    for (int k = 0; k < 2; k++) {
        assert_ok(f->ctx, fl_run_start(run[k], start, 28));
        assert_ok(f->ctx, fl_run_go(run[k], NULL, NULL));
    }
    fl_vector v[2];
    for (size_t i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) assert_int_equal(fl_run_vector(run[k], i, &v[k]), 1);
        assert_memory_equal(v[0].data, v[1].data, v[0].n * v[0].real);
    }
    for (size_t client = 0; client < 12; client++) {
        for (int k = 0; k < 2; k++) assert_int_equal(fl_run_client_vector(run[k], client, 0, &v[k]), 1);
        assert_int_equal(!v[0].data, !v[1].data);
        if (v[0].data) assert_memory_equal(v[0].data, v[1].data, v[0].n * v[0].real);
    }
    for (int k = 0; k < 2; k++) fl_run_free(run[k]);
    hidden_fini(&h);
}

/* A device that fails ends the run with its own sentence, whatever its numbers look like. */
static void a_device_that_fails(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {"model=softmax", "model=softmax;algorithm=fedbuff", "model=softmax;rounds=1"};
    for (size_t k = 0; k < 3; k++) {
        hidden h;
        fl_run *run = run_there(f, sets[k], 5, &h);
        assert_ok(f->ctx, fl_run_step(run, NULL));
        h.broken = FL_ESYSTEM;
        if (k < 2) assert_fails(f->ctx, fl_run_step(run, NULL), FL_ESYSTEM, "the device is gone");
        if (k == 2) {
            fli_saver *out;
            unsigned char *bytes;
            size_t n;
            assert_ok(f->ctx, fli_saver_open_memory(f->ctx, &out));
            fli_exec_save(run->exec, out);
            assert_fails(f->ctx, fli_saver_take(out, &bytes, &n), FL_ESYSTEM, "the device is gone");
        }
        fl_run_free(run);
        hidden_fini(&h);
    }
}

/* What there is no solver for is refused by name. */
static const fl_solver *no_solver(const fl_solver *s) { return (void)s, NULL; }

static void a_solver_that_is_missing(void **state)
{
    fixture *f = *state;
    hidden h;
    fl_run *run = run_new(f, base, "model=softmax");
    fli_exec *e = NULL;
    fli_exec_spec spec = *fli_exec_spec_of(run->exec);
    hidden_init(&h, f->ctx, run->plan.model, 4);
    h.site.solver = no_solver;
    spec.site = &h.site;
    assert_fails(f->ctx, fli_exec_new(f->ctx, &spec, &e), FL_ECONFIG, "there is no sgd solver");
    fl_run_free(run);
    hidden_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),
        FIXTURE_TEST(other_settings),
        FIXTURE_TEST(a_method_of_the_users),
        FIXTURE_TEST(beyond_a_budget),
        FIXTURE_TEST(checkpoints_are_the_same_elsewhere),
        FIXTURE_TEST(seen_from_outside),
        FIXTURE_TEST(a_device_that_fails),
        FIXTURE_TEST(a_solver_that_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
