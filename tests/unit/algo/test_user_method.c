/* Methods of the user's: those of fedloom written again by the public header have the same bits, mistakes in tables are
 * refused, and functions that fail end a run in a sentence. */
#include "runs.h"
#include "saboteur.h"
#include "row.h"

#include <pthread.h>
#include <stdatomic.h>

static const char base[] = "rounds: 5\nseed: 3\n"
                           "data: {kind: blobs, classes: 4, features: 6, samples: 400, test_samples: 50}\n"
                           "partition: {kind: iid, clients: 14}\nsystem: {kind: lognormal, jitter: 0.3}\n"
                           "participation: {kind: uniform, count: 10}\nmodel: {kind: mlp, hidden: [9]}\n"
                           "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\nmetrics: {gradient: true}\n";

static void add(fixture *f, const fl_method *m) { assert_ok(f->ctx, fl_method_register(f->ctx, m)); }
static void drop(fixture *f, const char *name) { assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", name)); }

/* The model and the metrics at the end. */
typedef struct {
    double *model;
    size_t n, rows;
    fl_row *row;
} outcome;

static outcome outcome_of(fixture *f, const char *assignments)
{
    const fl_row *rows;
    fl_run *run = run_done(f, base, assignments);
    outcome o = {.n = fl_run_parameters(run), .rows = fl_run_rows(run, &rows)};
    o.model = malloc(o.n * sizeof *o.model);
    o.row = malloc(o.rows * sizeof *o.row);
    fl_run_model(run, o.model, o.n);
    memcpy(o.row, rows, o.rows * sizeof *rows);
    for (size_t i = 0; i < o.rows; i++) *metric(&o.row[i], "seconds") = 0;
    fl_run_free(run);
    return o;
}

static void outcome_free(outcome *o)
{
    free(o->model);
    free(o->row);
}

/* Both with the same settings on top, by all executors and in both precisions. */
static void same_bits(fixture *f, const char *ours, const char *theirs, const char *more)
{
    static const char *const ways[] = {"threads=1", "threads=3", "executor=loopback", "threads=2;precision=f64",
                                       "executor=loopback;precision=f64"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char text[512];
        snprintf(text, sizeof text, "algorithm=%s;%s;%s", ours, ways[i], more);
        outcome a = outcome_of(f, text);
        snprintf(text, sizeof text, "algorithm=%s;%s;%s", theirs, ways[i], more);
        outcome b = outcome_of(f, text);
        assert_int_equal(a.n, b.n);
        assert_int_equal(a.rows, b.rows);
        if (memcmp(a.model, b.model, a.n * sizeof *a.model) || memcmp(a.row, b.row, a.rows * sizeof *a.row))
            fail_msg("%s and %s differ: %s;%s", ours, theirs, ways[i], more);
        outcome_free(&a);
        outcome_free(&b);
    }
}

static void the_same_as_built_in(void **state)
{
    fixture *f = *state;
    const fl_method *const all[] = {&own_scaffold, &own_fedprox, &own_feddyn, &own_fedlin, &own_fedasync};
    for (size_t i = 0; i < 5; i++) add(f, all[i]);
    same_bits(f, "own_scaffold", "scaffold", "seed=1");
    same_bits(f, "{kind: own_scaffold, server_lr: 0.5}", "{kind: scaffold, server_lr: 0.5}", "local.momentum=0.9");
    same_bits(f, "own_fedprox", "fedprox", "seed=1");
    same_bits(f, "{kind: own_fedprox, mu: 0.3, aggregation: unbiased}",
              "{kind: fedprox, mu: 0.3, aggregation: unbiased}", "regularizer={kind: l1, weight: 0.01}");
    same_bits(f, "own_feddyn", "feddyn", "seed=1");
    same_bits(f, "own_fedlin", "fedlin", "seed=1");
    same_bits(f, "own_fedasync", "fedasync", "rounds=40");
    same_bits(f, "{kind: own_fedasync, alpha: 0.9}", "{kind: fedasync, alpha: 0.9}",
              "rounds=40;participation=everyone;system={kind: lognormal, sigma: 1};system.step_seconds=1");
    for (size_t i = 0; i < 5; i++) drop(f, all[i]->name);
}

/* ---- what comes with fedloom, registered ----------------------------------------------------------------------- */

/* What its default settings need of a run. */
static const char *needs(const fl_method *a)
{
    if (a->traits & FL_METHOD_BILEVEL) return "bilevel=regularization;model=softmax";
    if (a->traits & FL_METHOD_EVERYONE) return "participation=everyone";
    return fli_algo_is_async(a) ? "rounds=30;system.step_seconds=0.01" : "seed=1";
}

/* The text without the names by which methods were registered. */
static void plain_names(char *text)
{
    for (char *at = text; (at = strstr(at, "own_"));) memmove(at, at + 4, strlen(at + 4) + 1);
}

/* What `fedloom check` says of a method, or how it fails. */
static void checked(fixture *f, const char *name, const char *more, collected *out)
{
    char text[512];
    size_t left;
    snprintf(text, sizeof text, "algorithm=%s;model=softmax;%s", name, more);
    fl_config *cfg = config_of(f, base, text);
    if (fl_study_check(cfg, NULL, keep_text, out, NULL, NULL, &left)) keep_text(out, fl_ctx_error(f->ctx));
    fl_config_free(cfg);
    plain_names(out->s);
}

/* A user's method may do all that those of fedloom do: their descriptors can be registered, and have the same bits, the
 * same theory and the same potential. */
static void whatever_is_built_in(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char name[64], more[256];
        collected ours = {0}, theirs = {0};
        fl_method m = **a;
        snprintf(name, sizeof name, "own_%s", (*a)->name);
        snprintf(more, sizeof more, "%s%s", needs(*a), (*a)->theory.potential.name ? ";metrics.potential=true" : "");
        m.size = sizeof m;
        m.name = name;
        add(f, &m);
        same_bits(f, name, (*a)->name, more);
        checked(f, name, needs(*a), &ours);
        checked(f, (*a)->name, needs(*a), &theirs);
        assert_string_equal(ours.s, theirs.s);
        free(ours.s);
        free(theirs.s);
        drop(f, name);
    }
}

/* ---- vectors ----------------------------------------------------------------------------------------------- */

static void swap_and_add(const void *arg, double *v)
{
    double x = v[0];
    v[0] = v[1];
    v[1] = x + *(const double *)arg;
}

static void vector_functions_work_in_both_precisions(void **state)
{
    (void)state;
    for (size_t k = 0; fli_ops_list[k]; k++) {
        const fli_ops *ops = fli_ops_list[k];
        fl_space s = fli_space_of(ops, 3, NULL);
        double x[3] = {1, 2, 3}, y[3] = {4, 5, 6}, got[3], ten = 10;
        char a[24], b[24], c[24];
        ops->from_f64(3, x, a);
        ops->from_f64(3, y, b);
        assert_true(fl_vec_dot(&s, a, b) == 32);
        fl_vec_copy(&s, a, c);
        fl_vec_axpy(&s, 2, b, c);
        fl_vec_scale(&s, 0.5, c);
        ops->to_f64(3, c, got);
        assert_true(got[0] == 4.5 && got[1] == 6 && got[2] == 7.5);
        fl_vec_lin(&s, 2, a, -1, b, c);
        ops->to_f64(3, c, got);
        assert_true(got[0] == -2 && got[1] == -1 && got[2] == 0);
        fl_vec_map(&s, 2, (void *const[]){a, b}, swap_and_add, &ten);
        ops->to_f64(3, a, got);
        assert_true(got[0] == 4 && got[2] == 6);
        ops->to_f64(3, b, got);
        assert_true(got[0] == 11 && got[2] == 13);
        fl_vec_zero(&s, a);
        assert_true(fl_vec_dot(&s, a, b) == 0);
    }
}

/* ---- what the lists say ------------------------------------------------------------------------------------ */

static void a_registered_method_is_listed(void **state)
{
    fixture *f = *state;
    collected text = {0};
    fl_method m = own_scaffold;
    m.traits |= FL_METHOD_TOUCHES;
    add(f, &m);
    assert_ok(f->ctx, fl_list(f->ctx, "algorithms", NULL, keep_text, &text));
    assert_non_null(strstr(text.s, "own_scaffold     SCAFFOLD again"));
    assert_ok(f->ctx, fl_list(f->ctx, "algorithm", "own_scaffold", keep_text, &text));
    assert_non_null(strstr(text.s, "touches its vectors itself: stays on the CPU"));
    assert_non_null(strstr(text.s, "kept by a client: c_i"));
    assert_non_null(strstr(text.s, "step size of the server"));
    assert_non_null(strstr(text.s, "up, per client and round: x_i - x, c_i+ - c_i"));
    assert_ok(f->ctx, fl_reference(f->ctx, FL_REFERENCE_MARKDOWN, keep_text, &text));
    assert_null(strstr(text.s, "own_scaffold"));
    refuse(f, "algorithm: own_scafold\ndata: {kind: blobs}\nmodel: softmax\n", "did you mean own_scaffold?");
    refuse(f, "algorithm: {kind: own_scaffold, server_rl: 2}\ndata: {kind: blobs}\nmodel: softmax\n", "did you mean");
    refuse(f, "algorithm: {kind: own_scaffold, server_lr: 0}\ndata: {kind: blobs}\nmodel: softmax\n", "server_lr");
    free(text.s);
    drop(f, "own_scaffold");
    refuse(f, "algorithm: own_scaffold\ndata: {kind: blobs}\nmodel: softmax\n", "not known");
    assert_fails(f->ctx, fl_forget(f->ctx, "algorithm", "own_scaffold"), FL_ECONFIG, "was registered");
    assert_fails(f->ctx, fl_forget(f->ctx, "algorithm", "fedavg"), FL_ECONFIG, "was registered");
    assert_fails(f->ctx, fl_forget(f->ctx, "data", "blobs"), FL_ECONFIG, "no section that things are registered in");
    assert_fails(f->ctx, fl_forget(f->ctx, "algorithm", NULL), FL_ECONFIG, "there is no name");
}

/* What was bound before another method took the name, or the name went, no longer counts. */
static void bound_before(void **state)
{
    fixture *f = *state;
    const fli_settings *s;
    add(f, &own_fedprox);
    fl_config *cfg = config_of(f, base, "algorithm=own_fedprox");
    assert_ok(f->ctx, fli_config_settings(cfg, &s));
    const void *first = s->algorithm.item.desc;
    assert_ok(f->ctx, fli_config_settings(cfg, &s));
    assert_ptr_equal(s->algorithm.item.desc, first);
    add(f, &own_fedprox);
    assert_ok(f->ctx, fli_config_settings(cfg, &s));
    assert_ptr_not_equal(s->algorithm.item.desc, first);
    drop(f, "own_fedprox");
    assert_fails(f->ctx, fl_config_check(cfg), FL_ECONFIG, "algorithm.kind is own_fedprox, which is not known");
    fl_config_free(cfg);
}

/* A parameter without a default and without a word of help. */
static void without_help(void **state)
{
    static const fl_key key[] = {{.name = "mu", .type = FL_KEY_REAL}, {.name = NULL}};
    fixture *f = *state;
    fl_method m = own_fedprox;
    m.keys = key;
    add(f, &m);
    fl_config *cfg = fixture_config(f, "algorithm: own_fedprox\ndata: {kind: blobs}\nmodel: softmax\n");
    fl_run *run = NULL;
    assert_int_equal(fl_run_new(cfg, &run), FL_ECONFIG);
    assert_string_equal(fl_ctx_error(f->ctx), "algorithm.mu is missing");
    fl_config_free(cfg);
    drop(f, "own_fedprox");
}

/* ---- lists that change under those who look --------------------------------------------------------------- */

/* Registers and forgets names that come before and after the one that others look for. */
static void *come_and_go(void *arg)
{
    fl_ctx *ctx = fl_ctx_new();
    const atomic_int *over = arg;
    while (!atomic_load(over)) {
        fl_method m = own_fedprox;
        m.name = "passing";
        if (fl_method_register(ctx, &m) || fl_forget(ctx, "algorithm", "passing")) break;
        m.name = "early";
        if (fl_forget(ctx, "algorithm", "early") || fl_method_register(ctx, &m)) break;
    }
    fl_ctx_free(ctx);
    return NULL;
}

static void always_found(void **state)
{
    fixture *f = *state;
    fl_method early = own_fedprox;
    atomic_int over = 0;
    pthread_t other;
    size_t missed = 0;
    collected text = {0};
    early.name = "early";
    add(f, &early);
    add(f, &own_scaffold);
    assert_int_equal(pthread_create(&other, NULL, come_and_go, &over), 0);
    for (int i = 0; i < 20000; i++) missed += !fl_kind_has_key("algorithm", "own_scaffold", "server_lr");
    for (int i = 0; i < 20; i++) assert_ok(f->ctx, fl_list(f->ctx, "algorithms", NULL, keep_text, &text));
    free(text.s);
    atomic_store(&over, 1);
    pthread_join(other, NULL);
    assert_int_equal(missed, 0);
    drop(f, "own_scaffold");
    drop(f, "early");
}

/* What is registered is copied: the caller's tables may go, and its context too. A name may be given again. */
static void a_registered_method_is_copied(void **state)
{
    fixture *f = *state;
    fl_ctx *other = fl_ctx_new();
    char name[] = "mine", key[] = "server_lr", vector[] = "c", part[] = "x";
    const char *server[] = {"x", vector, NULL};
    fl_key keys[] = {{key, FL_KEY_REAL, "1", 1e-9, 1e9, NULL, "step"}, {NULL}};
    fl_part down[] = {{part, FL_PART_VECTOR, 0}, {"c", FL_PART_VECTOR, 1}, {NULL}};
    fl_method m = own_scaffold;
    m.name = name;
    m.server = server;
    m.keys = keys;
    m.down = down;
    assert_ok(other, fl_method_register(other, &m));
    fl_run *before = run_new(f, base, "algorithm=mine");
    name[0] = key[0] = vector[0] = part[0] = '?';
    down[1].at = 700;
    server[0] = NULL;
    fl_ctx_free(other);
    same_bits(f, "{kind: mine, server_lr: 0.7}", "{kind: scaffold, server_lr: 0.7}", "seed=1");
    m = own_fedprox;
    m.name = "mine";
    add(f, &m);
    same_bits(f, "{kind: mine, mu: 0.7}", "{kind: fedprox, mu: 0.7}", "seed=1");
    assert_ok(f->ctx, fl_run_go(before, NULL, NULL)); /* it has the older one */
    fl_run_free(before);
    drop(f, "mine");
}

/* ---- mistakes ---------------------------------------------------------------------------------------------- */

static size_t seven_steps(const void *params, double coin) { return (void)params, (void)coin, 7; }
static const char *no_solver(const void *params, size_t stage) { return (void)params, (void)stage, "lbfgs"; }
static size_t stage_24(const void *params, size_t phase, size_t phases)
{
    return (void)params, (void)phase, (void)phases, FL_STAGES;
}
static size_t so_many_phases(const void *params, double coin) { return (void)params, (void)coin, (size_t)1 << 21; }
static double half(const void *params, size_t client, const double *scalars)
{
    return (void)params, (void)client, (void)scalars, 0.5;
}
static unsigned nothing_open(const void *params) { return (void)params, 0; }
static void no_fix(const void *params, const fl_facts *worst, fl_fixes *out) { (void)params, (void)worst, (void)out; }
static const void *at_x(const fl_turn *t) { return t->down[0]; }
static int never_right(const void *params, size_t clients, fl_failure *f)
{
    (void)params;
    (void)clients;
    fl_failed(f, "there is something about these numbers");
    return 1;
}

static void wrong(fixture *f, const fl_method *m, const char *text)
{
    assert_fails(f->ctx, fl_method_register(f->ctx, m), FL_ECONFIG, text);
}

static void mistakes_of_a_method_are_named(void **state)
{
    fixture *f = *state;
#define WRONG(text, ...)                                                                                               \
    do {                                                                                                               \
        fl_method m = own_scaffold;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        wrong(f, &m, text);                                                                                            \
    } while (0)
#define PARTS(...) ((const fl_part[]){__VA_ARGS__, {NULL}})
#define KEYS(...)  ((const fl_key[]){__VA_ARGS__, {NULL}})
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
    WRONG("size", m.size = 0);
    WRONG("needs a name", m.name = NULL);
    WRONG("a letter first", m.name = "3x");
    WRONG("algorithm fedavg comes with fedloom", m.name = "fedavg");
    WRONG("has no function `pose`", m.pose = NULL);
    WRONG("has no function `answer`", m.answer = NULL);
    WRONG("has no function `absorb`", m.absorb = NULL);
    WRONG("has no function `advance`", m.advance = NULL);
    WRONG("traits have 0x10000", m.traits = 0x10000);
    WRONG("25 phases", m.phases = 25);
    WRONG("asynchronous", m.phases = 2, m.buffer = 1);
    WRONG("wait for everyone", m.traits = FL_METHOD_EVERYONE, m.buffer = 1);
    WRONG("no server vectors", m.server = NULL);
    WRONG("two server vectors called 'x'", m.server = NAMES("x", "x"));
    WRONG("vector 1 has no name", m.client = NAMES("a", ""));
    WRONG("client_scalars is 100000", m.client_scalars = 100000);
    WRONG("work is 65", m.work = 65);
    WRONG("own_model is 'y'", m.own_model = "y");
    WRONG("sends nothing down", m.down = NULL);
    WRONG("sends nothing up", m.up = PARTS({NULL}));
    WRONG("part 'c' is server vector 2, but there are only 2", m.down = PARTS({"x", 0, 0}, {"c", 0, 2}));
    WRONG("the model x, is never sent", m.down = PARTS({"c", 0, 1}));
    WRONG("beyond the server's scalars", m.down = PARTS({"x", 0, 0}, {"r", FL_PART_NUMBER, 0}));
    WRONG("beyond the server's scalars", m.server_scalars = 3,
          m.down = PARTS({"x", 0, 0}, {"r", FL_PART_NUMBER, 1, 0, 0, 3}));
    WRONG("FL_PART_FORGET or FL_PART_KEEP", m.down = PARTS({"x", 0, 0, FL_PART_VALUE}));
    WRONG("FL_AT_FIRST", m.down = PARTS({"x", 0, 0}, {"x0", FL_PART_START}));
    WRONG("cannot be kept", m.server_scalars = 1, m.down = PARTS({"x", 0, 0}, {"r", FL_PART_NUMBER, 0, FL_PART_KEEP}));
    WRONG("asynchronous methods have none", m.buffer = 1, m.down = PARTS({"x", 0, 0, FL_PART_KEEP}));
    WRONG("a phase that there is not: phases are numbered from 0, and there is 1",
          m.down = PARTS({"x", 0, 0, 0, FL_IN_PHASE(1)}));
    WRONG("does not warm up", m.down = PARTS({"x", 0, 0, 0, FL_IN_WARM_UP}));
    WRONG("which means nothing", m.down = PARTS({"x", 0, 0, 0, 0x40000000u}));
    WRONG("FL_PART_VALUE or FL_PART_CHANGE", m.up = PARTS({"u", 0, 0}));
    WRONG("only sent down", m.up = PARTS({"u", FL_PART_START, 0, FL_PART_VALUE}));
    WRONG("beyond what an upload may have", m.up = PARTS({"u", 0, 64, FL_PART_VALUE}));
    WRONG("no part is vector 1 of the upload", m.up = PARTS({"u", 0, 0, FL_PART_VALUE}, {"v", 0, 2, FL_PART_VALUE}));
    WRONG("no part is scalar 0 of the upload",
          m.up = PARTS({"u", 0, 0, FL_PART_VALUE}, {"v", FL_PART_NUMBER, 1, FL_PART_VALUE, 0, 2}));
    WRONG("no solver 'lbfgs'", m.solver = "lbfgs");
    WRONG("both `solver` and `solver_for`", m.solver = "sgd", m.solver_for = no_solver);
    WRONG("is a block of a vector", m.up = PARTS({"u", FL_PART_LOWER, 0, FL_PART_VALUE}));
    WRONG("a phase that there is not", m.phases = 2, m.rounds.phases = seven_steps,
          m.down = PARTS({"x", 0, 0, 0, FL_IN_PHASE(1)}));
    WRONG("no rounds for `phases`", m.buffer = 2, m.rounds.steps = seven_steps);
    WRONG("beyond the struct of 12 bytes", m.params_size = 12,
          m.keys = KEYS({.name = "mu", .type = FL_KEY_REAL, .def = "1", .offset = 8}));
    WRONG("needs the functions `point`", m.theory.potential.name = "V");
    WRONG("needs a name", m.theory.potential.point = at_x);
    WRONG("but no `check`", m.theory.fix = no_fix);
    WRONG("needs the function `value`", m.theory.gap.name = "G");
    WRONG("need each other", m.settling.unsettled = nothing_open);
    WRONG("levels.v is server vector 2, but there are only 2", m.levels.v = 3);
    WRONG("personal.mix needs `own_model`", m.personal.mix = half);
    WRONG("names none for phase 2", m.phases = 3, m.solver = "sgd|sgd");
    WRONG("more than there are phases", m.solver = "sgd|sgd");
    WRONG("its default cannot be", m.keys = KEYS({"mu", FL_KEY_REAL, "much", 0, 0, NULL, "h"}));
    WRONG("its default cannot be", m.keys = KEYS({"mu", FL_KEY_INT, "7", 0, 6, NULL, "h"}));
    WRONG("its default cannot be", m.keys = KEYS({"mu", FL_KEY_CHOICE, "c", 0, 0, "a|b", "h"}));
    WRONG("needs its words", m.keys = KEYS({"mu", FL_KEY_CHOICE, "c", 0, 0, NULL, "h"}));
    WRONG("only a choice has words", m.keys = KEYS({"mu", FL_KEY_INT, "1", 0, 0, "a", "h"}));
    WRONG("above its largest", m.keys = KEYS({"mu", FL_KEY_INT, "1", 2, 1, NULL, "h"}));
    WRONG("two parameters called 'mu'", m.keys = KEYS({"mu", FL_KEY_INT, "1"}, {"mu", FL_KEY_INT, "1"}));
    WRONG("cannot be called 'kind'", m.keys = KEYS({"kind", FL_KEY_INT, "1"}));
    WRONG("a parameter is called 'a b'", m.keys = KEYS({"a b", FL_KEY_INT, "1"}));
    assert_fails(f->ctx, fl_method_register(f->ctx, NULL), FL_ECONFIG, "no method");
    refuse(f, "algorithm: own_scaffold\ndata: {kind: blobs}\nmodel: softmax\n", "not known");
}

/* ---- functions that fail ----------------------------------------------------------------------------------- */

/* Without an answer's `start`. */
static int no_start(const fl_turn *t, fl_problem *p)
{
    (void)t;
    (void)p;
    return 0;
}

static int no_number(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    p->lr = NAN;
    return 0;
}

static int prox_in_absorb(const fl_coordinator *s, const fl_upload *u)
{
    (void)u;
    fl_prox(s, 1, s->vec[0]);
    return 0;
}

static void fails(fixture *f, const fl_method *m, const char *assignments, const char *sentence)
{
    char text[512];
    saboteur *s = m->arg;
    add(f, m);
    snprintf(text, sizeof text, "algorithm=%s;participation=everyone;%s", m->name, assignments);
    fl_run *run = run_new(f, base, text);
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_ECALLBACK, sentence);
    assert_int_not_equal(fl_run_go(run, NULL, NULL), FL_OK); /* nor does it go on */
    if (s && !strstr(assignments, "threads=4")) assert_int_equal(s->later, 0);
    fl_run_free(run);
    drop(f, m->name);
}

static void failures_name_function_client_and_round(void **state)
{
    fixture *f = *state;
    static const char *const ways[] = {"threads=1", "threads=4", "executor=loopback"};
    static const char *const calls[] = {"start", "pose", "answer", "absorb", "advance"};
    static const char *const said[] = {
        "method bad failed in start, round 1: the disk is on fire",
        "method bad failed in pose, client 3, round 3: the disk is on fire",
        "method bad failed in answer, client 3, round 3: the disk is on fire",
        "method bad failed in absorb, client 3, round 3: the disk is on fire",
        "method bad failed in advance, round 1: the disk is on fire",
    };
    fl_method m;
    for (size_t c = 0; c < 5; c++)
        for (size_t w = 0; w < 3; w++) {
            saboteur s = {.where = calls[c], .client = 3, .round = 2};
            m = bad_method(&s);
            fails(f, &m, ways[w], said[c]);
        }
    saboteur s = {.where = "pose", .silent = 1};
    m = bad_method(&s);
    fails(f, &m, "threads=1", "method bad failed in pose, client 0, round 1: a later sentence");
    m = own_scaffold;
    m.pose = no_start;
    fails(f, &m, "threads=1", "method own_scaffold failed in pose, client 0, round 1: the problem has no `start`");
    m.pose = no_number;
    fails(f, &m, "threads=1", "round 1: the problem has lr nan and rho 0, but both are numbers");
    m = own_fedprox;
    m.absorb = prox_in_absorb;
    fails(f, &m, "threads=1", "failed in absorb, client 0, round 1: fl_prox is for");
}

/* The same of asynchronous methods. */
static void asynchronous_failures(void **state)
{
    fixture *f = *state;
    static const char *const ways[] = {"threads=1;rounds=900", "threads=4;rounds=900", "executor=loopback;rounds=900"};
    static const char *const calls[] = {"start", "pose", "absorb"};
    for (size_t c = 0; c < 3; c++)
        for (size_t w = 0; w < 3; w++) {
            char sentence[64];
            saboteur s = {.where = calls[c], .client = 3, .any = 1};
            fl_method m = bad_async_method(&s);
            snprintf(sentence, sizeof sentence, "method bad failed in %s", calls[c]);
            fails(f, &m, ways[w], sentence);
        }
}

/* ---- traits ------------------------------------------------------------------------------------------------ */

static _Atomic int inside, most_inside;
static int counted_pose(const fl_turn *t, fl_problem *p)
{
    int now = ++inside;
    if (now > most_inside) most_inside = now;
    scaffold_pose(t, p);
    inside--;
    return 0;
}
static int counted_answer(const fl_turn *t, const fl_answer *a)
{
    int now = ++inside;
    if (now > most_inside) most_inside = now;
    scaffold_answer(t, a);
    inside--;
    return 0;
}

static void one_call_at_a_time(void **state)
{
    fixture *f = *state;
    fl_method m = own_scaffold;
    m.traits |= FL_SERIAL;
    m.pose = counted_pose;
    m.answer = counted_answer;
    add(f, &m);
    same_bits(f, "own_scaffold", "scaffold", "threads=6;participation=everyone");
    assert_int_equal(most_inside, 1);
    drop(f, "own_scaffold");
}

/* The mean of the upload is taken off: no entry is on its own. */
static int centred_absorb(const fl_coordinator *s, const fl_upload *u)
{
    double norm = fl_vec_dot(&s->space, u->up[0], u->up[0]);
    fl_vec_axpy(&s->space, u->ask.weight / (1 + norm), u->up[0], s->sum[0]);
    return 0;
}

static void whole_vectors(void **state)
{
    fixture *f = *state;
    double x[2][200];
    fl_method m = own_feddyn;
    m.absorb = centred_absorb;
    m.traits |= FL_METHOD_WHOLE;
    add(f, &m);
    for (size_t k = 0; k < 2; k++) {
        fl_run *run = run_new(f, base, "algorithm=own_feddyn;threads=3");
        fli_exec_spec spec = *fli_exec_spec_of(run->exec);
        spec.slice = k ? 5 : SIZE_MAX;
        run_anew(f, run, &spec);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        fl_run_model(run, x[k], 200);
        assert_true(fl_run_parameters(run) > 50);
        assert_memory_equal(x[0], x[k], 50 * sizeof(double));
        fl_run_free(run);
    }
    drop(f, "own_feddyn");
}

/* ---- an own model, a warm-up, the start model, numbers ---------------------------------------------------- */

/* Everybody says before the first round how many steps it was asked for; the mean comes down with the start model. */
typedef struct {
    double asked;
    int first;
} seen;

static int personal_pose(const fl_turn *t, fl_problem *p)
{
    if (t->first) fl_vec_copy(&t->space, t->initial, t->state[0]);
    if (!t->ask.warm_up && !(t->down_scalars[0] >= 1)) {
        fl_failed(t->failure, "the mean did not come down");
        return 1;
    }
    if (!isnan(t->down_scalars[1])) {
        fl_failed(t->failure, "a number came down that is not sent");
        return 1;
    }
    p->start = t->ask.warm_up ? t->down[0] : t->state[0];
    p->anchor = t->down[0];
    p->rho = 0.1;
    return 0;
}

static int personal_answer(const fl_turn *t, const fl_answer *a)
{
    if (!t->ask.warm_up) {
        fl_vec_copy(&t->space, a->z, t->state[0]);
        t->scalars[0] += 1;
    }
    difference_answer(t, a);
    t->up_scalars[0] = (double)t->ask.steps;
    return 0;
}

static int personal_absorb(const fl_coordinator *s, const fl_upload *u)
{
    if (u->ask.warm_up)
        s->scalar_sum[0] += u->up_scalars[0] * fl_weight(s, u->ask.client);
    else
        fl_vec_axpy(&s->space, u->ask.weight, u->up[0], s->sum[0]);
    return 0;
}

static int personal_advance(const fl_coordinator *s)
{
    if (s->warm_up)
        s->scalars[0] = s->scalar_sum[0];
    else
        fl_vec_axpy(&s->space, 1 / s->cohort_weight, s->sum[0], s->vec[0]);
    return 0;
}

static const fl_method personal = {
    .size = sizeof(fl_method),
    .name = "personal",
    .server = NAMES("x"),
    .client = NAMES("x_i"),
    .sums = NAMES("dx"),
    .server_scalars = 2,
    .client_scalars = 1,
    .scalar_sums = 1,
    .down = (const fl_part[]){{"x", FL_PART_VECTOR, 0},
                              {"x0", FL_PART_START, 0, FL_PART_FORGET, FL_AT_FIRST},
                              {"mean", FL_PART_NUMBER, 0, FL_PART_FORGET, FL_IN_PHASE(0)},
                              {NULL}},
    .up = (const fl_part[]){{"x_i - x", FL_PART_VECTOR, 0, FL_PART_CHANGE, FL_IN_PHASE(0)},
                            {"Q_i", FL_PART_NUMBER, 0, FL_PART_VALUE, FL_IN_WARM_UP},
                            {NULL}},
    .own_model = "x_i",
    .warms_up = 1,
    .pose = personal_pose,
    .answer = personal_answer,
    .absorb = personal_absorb,
    .advance = personal_advance,
};

static void further_tables(void **state)
{
    fixture *f = *state;
    add(f, &personal);
    same_bits(f, "personal", "personal", "metrics.local=true"); /* threads and loopback, see below */
    outcome a = outcome_of(f, "algorithm=personal;metrics.local=true;threads=2");
    outcome b = outcome_of(f, "algorithm=personal;metrics.local=true;executor=loopback");
    assert_memory_equal(a.model, b.model, a.n * sizeof *a.model);
    assert_memory_equal(a.row, b.row, a.rows * sizeof *a.row);
    /* the warm-up sent 14 models and start models down and 14 numbers up; then 10 models and numbers down, models up */
    double n = (double)a.n;
    assert_near(fl_row_get(&a.row[5], "bytes_up"), 14 * 8 + 5 * 10 * 4 * n, 0.5);
    assert_near(fl_row_get(&a.row[5], "bytes_down"), 14 * 8 * n + 5 * 10 * (4 * n + 8), 0.5);
    outcome_free(&a);
    outcome_free(&b);
    drop(f, "personal");
}

/* ---- a solver of one's own --------------------------------------------------------------------------------- */

/* One step of gradient descent over all samples, whatever it is asked for. */
static int one_step(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    double loss;
    (void)f;
    if (fl_local_loss(l, p->start, arg, &loss)) return 1;
    fl_vec_axpy(&l->space, -p->lr, arg, z);
    out->weight = 1;
    out->steps = 1;
    return 0;
}

/* FedAvg by that solver is FedAvg with one step over all samples. */
static void own_solver(void **state)
{
    fixture *f = *state;
    static double gradient[4096];
    fl_run *run = NULL;
    fl_solver s = {.size = sizeof s, .name = "descend", .arg = gradient, .traits = FL_SERIAL, .solve = one_step};
    fl_method m = own_fedprox;
    m.name = "descent";
    m.solver = "descend";
    wrong(f, &m, "there is no solver 'descend'");
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
    add(f, &m);
    outcome a = outcome_of(f, "algorithm={kind: descent, mu: 0};threads=3;precision=f64");
    outcome b = outcome_of(f, "algorithm=fedavg;local={batch: 0, lr: 0.1, steps: 1};precision=f64");
    for (size_t i = 0; i < a.n; i++) assert_near(a.model[i], b.model[i], 1e-12);
    outcome_free(&a);
    outcome_free(&b);
    assert_ok(f->ctx, fl_conform(f->ctx, "descent", NULL, NULL, NULL));
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "descend"));
    fl_config *cfg = config_of(f, base, "algorithm=descent");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "needs the solver 'descend', which is no longer there");
    fl_config_free(cfg);
    drop(f, "descent");
}

/* ---- what a run has of its own ---------------------------------------------------------------------------- */

typedef struct {
    int open, made; /* now, and ever */
    int refuses;
} maker;

typedef struct {
    maker *of;
    double step;
    atomic_int turns;
} made;

static void *begin_made(void *arg, const double *params, fl_failure *f)
{
    maker *m = arg;
    made *one = calloc(1, sizeof *one);
    if (m->refuses) fl_failed(f, "there is no room");
    if (m->refuses == 1) return free(one), NULL;
    *one = (made){.of = m, .step = params[0]};
    m->open++;
    m->made++;
    return one;
}

static void end_made(void *begun)
{
    made *one = begun;
    one->of->open--;
    free(one);
}

static int opened_pose(const fl_turn *t, fl_problem *p)
{
    made *one = t->arg;
    atomic_fetch_add(&one->turns, 1);
    return scaffold_pose(t, p);
}

/* 14 clients, of which 10 take part. */
static int opened_advance(const fl_coordinator *s)
{
    made *one = s->arg;
    if (one->step != s->params[0] || one->step != 0.5) fl_failed(s->failure, "it is another run's");
    if (atomic_load(&one->turns) % 10) fl_failed(s->failure, "it has seen another run's turns");
    return scaffold_advance(s);
}

static void begun_for_each_run(void **state)
{
    fixture *f = *state;
    static const char chosen[] = "algorithm={kind: opens, server_lr: 0.5}";
    maker m = {0};
    fl_method own = own_scaffold;
    own.name = "opens";
    own.arg = &m;
    own.begin = begin_made;
    own.end = end_made;
    own.pose = opened_pose;
    own.advance = opened_advance;
    add(f, &own);
    fl_config *both = config_of(f, base, chosen);
    fl_run *a = NULL, *b = NULL;
    int more = 1;
    assert_ok(f->ctx, fl_run_new(both, &a)); /* they share its settings, */
    assert_ok(f->ctx, fl_run_new(both, &b)); /* and not what was begun */
    fl_config_free(both);
    assert_int_equal(m.open, 2);
    while (more) {
        assert_ok(f->ctx, fl_run_step(a, &more));
        assert_ok(f->ctx, fl_run_step(b, &more));
    }
    fl_run_free(a);
    assert_int_equal(m.open, 1);
    fl_run_free(b);
    own.advance = scaffold_advance; /* a client that is elsewhere has one of its own */
    add(f, &own);
    fl_run_free(run_done(f, base, "algorithm={kind: opens, server_lr: 0.5};executor=loopback"));
    assert_int_equal(m.open, 0);
    assert_true(m.made > 3);
    for (m.refuses = 1; m.refuses <= 2; m.refuses++) {
        fl_config *cfg = config_of(f, base, chosen);
        assert_fails(f->ctx, fl_run_new(cfg, &a), FL_ECALLBACK, "method opens failed in begin: there is no room");
        fl_config_free(cfg);
    }
    own.end = NULL;
    assert_fails(f->ctx, fl_method_register(f->ctx, &own), FL_ECONFIG,
                 "method 'opens' has a function `begin`, but no function `end`");
    drop(f, "opens");
}

/* ---- groups of functions that get the parameters ------------------------------------------------------------- */

static atomic_int inside, most_inside;
static const maker *before_any; /* what the functions get while a run is planned */

/* As many as the step size has tenths, of the run that asks. */
static size_t made_steps(const void *params, double coin)
{
    const made *one = fl_begun(params);
    int n = atomic_fetch_add(&inside, 1) + 1;
    if (n > atomic_load(&most_inside)) atomic_store(&most_inside, n);
    (void)coin;
    atomic_fetch_sub(&inside, 1);
    if ((const void *)one == before_any) return 1;
    return one->step == *(const double *)params ? (size_t)(10 * one->step) : 1;
}

static void what_was_begun(void **state)
{
    fixture *f = *state;
    maker m = {0};
    fl_method own = own_scaffold;
    before_any = &m;
    own.name = "opens";
    own.arg = &m;
    own.traits |= FL_SERIAL;
    own.begin = begin_made;
    own.end = end_made;
    own.rounds.steps = made_steps;
    add(f, &own);
    fl_run *run = run_done(f, base, "algorithm={kind: opens, server_lr: 0.5};rounds=2;executor=loopback");
    assert_true(fl_row_get(fl_run_row(run), "local_steps") == 2 * 10 * 5);
    fl_run_free(run);
    assert_int_equal(m.open, 0);
    assert_int_equal(atomic_load(&most_inside), 1);
    drop(f, "opens");
}

/* ---- a potential, and what it does not see ---- */

/* f at the model: of SCAFFOLD's vectors the clients get both, but here the model alone. */
static const void *blind_point(const fl_turn *t)
{
    if (!isnan(fl_vec_dot(&t->space, t->down[1], t->down[1]))) fl_failed(t->failure, "it sees c");
    return t->down[0];
}

static void own_value(const fl_turn *t, double f, void *gradient, double *out)
{
    (void)gradient;
    out[0] = f;
    out[1] = t->ask.client == 3;
}

static double summed(const fl_coordinator *s, const double *sum, double g)
{
    if (!(sum[1] > 0 && sum[1] < 1)) fl_failed(s->failure, "client 3 is not there");
    return sum[0] + g;
}

static const void *no_point(const fl_turn *t) { return (void)t, NULL; }
static double unsummed(const fl_coordinator *s, const double *sum, double g)
{
    fl_failed(s->failure, "it does not add up");
    return sum[0] + g;
}

static void a_method_may_bring_its_potential(void **state)
{
    fixture *f = *state;
    static const char *const ways[] = {"metrics.potential=true;threads=3", "metrics.potential=true;executor=loopback"};
    fl_method own = own_scaffold;
    own.name = "falls";
    own.theory.potential =
        (fl_potential){.name = "the loss", .point = blind_point, .client = own_value, .server = summed};
    add(f, &own);
    for (size_t i = 0; i < 2; i++) {
        char text[128];
        snprintf(text, sizeof text, "algorithm=falls;%s", ways[i]);
        fl_run *run = run_done(f, base, text);
        double loss = fl_row_get(fl_run_row(run), "train_loss");
        assert_true(fabs(fl_row_get(fl_run_row(run), "potential") - loss) < 1e-6 * loss);
        fl_run_free(run);
    }
    own.theory.potential.point = no_point;
    add(f, &own);
    fl_run *run = run_new(f, base, "algorithm=falls;metrics.potential=true");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_ECALLBACK, "failed in its potential at client");
    fl_run_free(run);
    own.theory.potential.point = blind_point;
    own.theory.potential.server = unsummed;
    add(f, &own);
    run = run_new(f, base, "algorithm=falls;metrics.potential=true");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_ECALLBACK, "failed in potential");
    fl_run_free(run);
    drop(f, "falls");
}

/* A struct for parameters: of every type, and lists with a value per client. */
typedef struct {
    double rate;
    fl_reals shares;
    fl_ints sizes;
    char *word;
    int64_t bytes;
    int choice, yes;
} structured;

static int structured_pose(const fl_turn *t, fl_problem *p)
{
    const structured *s = t->bound;
    int right = s->rate == 0.25 && s->shares.n == 14 && s->sizes.n == 2 && s->sizes.v[1] == 5 && s->choice == 1 &&
                s->yes && s->bytes == 4096 && !strcmp(s->word, "it's");
    if (!right || s->shares.v[t->ask.client] != t->ask.client) fl_failed(t->failure, "it is another struct");
    return scaffold_pose(t, p);
}

static int structured_advance(const fl_coordinator *s)
{
    fl_vec_axpy(&s->space, 1 / s->cohort_weight, s->sum[0], s->vec[0]);
    return 0;
}

static void parameters_in_a_struct(void **state)
{
    fixture *f = *state;
    fl_method own = own_scaffold;
    own.name = "structured";
    own.params_size = sizeof(structured);
    own.keys = KEYS({"rate", FL_KEY_REAL, "0.25", 0, 1, NULL, "h", offsetof(structured, rate)},
                    {"shares", FL_KEY_REALS, "1", 0, 20, NULL, "h", offsetof(structured, shares), 1},
                    {"sizes", FL_KEY_INTS, "[4, 5]", 0, 9, NULL, "h", offsetof(structured, sizes)},
                    {"word", FL_KEY_STRING, "it's", 0, 0, NULL, "h", offsetof(structured, word)},
                    {"bytes", FL_KEY_SIZE, "4KiB", 0, 0, NULL, "h", offsetof(structured, bytes)},
                    {"choice", FL_KEY_CHOICE, "b", 0, 0, "a|b", "h", offsetof(structured, choice)},
                    {"yes", FL_KEY_BOOL, "true", 0, 0, NULL, "h", offsetof(structured, yes)});
    own.pose = structured_pose;
    own.advance = structured_advance;
    add(f, &own);
    fl_run_free(run_done(f, base, "algorithm={kind: structured, shares: [0,1,2,3,4,5,6,7,8,9,10,11,12,13]}"));
    fl_config *cfg = config_of(f, base, "algorithm={kind: structured, shares: [0, 1]}");
    fl_run *run = NULL;
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "algorithm.shares");
    fl_config_free(cfg);
    drop(f, "structured");
}

/* What only a function can refuse. */
static void refused_by_itself(void **state)
{
    fixture *f = *state;
    const struct {
        const char *text;
        fl_method m;
    } all[] = {{"there is something about these numbers", {.validate = never_right}},
               {"needs the solver 'lbfgs', which does not exist", {.solver_for = no_solver}},
               {"is in stage 24, but stages are below 24", {.rounds.stage = stage_24}},
               {"has 2097152 phases", {.rounds.phases = so_many_phases}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fl_method own = own_scaffold;
        fl_run *run = NULL;
        own.name = "refuses";
        own.validate = all[i].m.validate;
        own.solver_for = all[i].m.solver_for;
        own.rounds = all[i].m.rounds;
        add(f, &own);
        fl_config *cfg = config_of(f, base, "algorithm=refuses");
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, all[i].text);
        fl_config_free(cfg);
        drop(f, "refuses");
    }
}

/* ---- comparisons, tuning, checks -------------------------------------------------------------------------- */

static void in_experiments(void **state)
{
    fixture *f = *state;
    collected text = {0};
    fl_study *study = NULL;
    fl_tune *tune = NULL;
    char yaml[1024];
    size_t done, left;
    add(f, &own_scaffold);
    snprintf(yaml, sizeof yaml,
             "%sseeds: 2\nmethods:\n- {label: theirs, algorithm: scaffold}\n- {label: ours, algorithm: own_scaffold}\n"
             "- {label: slow, algorithm: {kind: own_scaffold, server_lr: 0.5}}\n",
             base);
    fl_config *cfg = fixture_config(f, yaml);
    fl_study_options options = {.size = sizeof options, .output = fixture_path(f, "study"), .jobs = 2};
    assert_ok(f->ctx, fl_study_new(cfg, &options, &study));
    assert_ok(f->ctx, fl_study_go(study, NULL, NULL));
    assert_int_equal(fl_study_runs(study, &done), 6);
    assert_int_equal(done, 6);
    assert_ok(f->ctx, fl_study_table(study, keep_text, &text));
    assert_ok(f->ctx, fl_study_write(study));
    fl_study_free(study);
    options = (fl_study_options){.size = sizeof options, .output = fixture_path(f, "tune"), .seeds = 1};
    fl_tune_options tuning = {.size = sizeof tuning, .study = &options, .budget = 3};
    assert_ok(f->ctx, fl_tune_new(cfg, &tuning, &tune));
    assert_ok(f->ctx, fl_tune_go(tune, NULL, NULL));
    assert_ok(f->ctx, fl_tune_table(tune, keep_text, &text));
    assert_non_null(strstr(text.s, "ours"));
    fl_tune_free(tune);
    assert_ok(f->ctx, fl_study_check(cfg, NULL, keep_text, &text, NULL, NULL, &left));
    fl_config_free(cfg);
    free(text.s);
    drop(f, "own_scaffold");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(the_same_as_built_in),
        FIXTURE_TEST(whatever_is_built_in),
        FIXTURE_TEST(a_registered_method_is_listed),
        FIXTURE_TEST(always_found),
        FIXTURE_TEST(bound_before),
        FIXTURE_TEST(without_help),
        FIXTURE_TEST(a_registered_method_is_copied),
        FIXTURE_TEST(mistakes_of_a_method_are_named),
        FIXTURE_TEST(failures_name_function_client_and_round),
        FIXTURE_TEST(asynchronous_failures),
        FIXTURE_TEST(one_call_at_a_time),
        FIXTURE_TEST(whole_vectors),
        FIXTURE_TEST(further_tables),
        FIXTURE_TEST(begun_for_each_run),
        FIXTURE_TEST(what_was_begun),
        FIXTURE_TEST(a_method_may_bring_its_potential),
        FIXTURE_TEST(parameters_in_a_struct),
        FIXTURE_TEST(refused_by_itself),
        FIXTURE_TEST(in_experiments),
        FIXTURE_TEST(own_solver),
        FIXTURE_TEST(vector_functions_work_in_both_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
