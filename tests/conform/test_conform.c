/* What fl_conform holds methods to: every method that comes with fedloom conforms, and those that break a rule are
 * found. */
#include "fixture.h"
#include "own_methods.h"

#include "algo/algo.h"

/* Lines of a report. */
typedef struct {
    char text[4096];
    size_t n;
} report;

static void take(void *arg, const char *line)
{
    report *r = arg;
    r->n += (size_t)snprintf(r->text + r->n, sizeof r->text - r->n, "%s", line);
    assert_true(r->n < sizeof r->text);
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        report r = {{0}, 0};
        if (fl_conform(f->ctx, (*a)->name, NULL, take, &r)) fail_msg("%s\n%s", fl_ctx_error(f->ctx), r.text);
        assert_null(strstr(r.text, "FAIL"));
        assert_non_null(strstr(r.text, "ok    5 threads\n"));
        int composite = ((*a)->traits & FL_METHOD_COMPOSITE) != 0;
        assert_int_equal(strstr(r.text, "ok    with a regulariser: slices of 7 entries\n") != NULL, composite);
        if (!strcmp((*a)->name, "scaffold")) {
            assert_non_null(strstr(r.text, "ok    late clients are dropped: messages as bytes\n"));
            assert_non_null(strstr(r.text, "ok    everyone takes part: the bytes of its tables\n"));
        }
    }
}

/* Settings on top: of the method, and of anything else. */
static void settings_apply_and_mistakes_are_refused(void **state)
{
    fixture *f = *state;
    report r = {{0}, 0};
    assert_ok(f->ctx, fl_conform(f->ctx, "feddr", "algorithm: {solver: exact, eta: 0.1}\n", take, &r));
    assert_ok(f->ctx, fl_conform(f->ctx, "fedavg", "model: softmax\nlocal: {momentum: 0.9}\n", NULL, NULL));
    assert_fails(f->ctx, fl_conform(f->ctx, "fedavg", "model: softmix\n", take, &r), FL_ECONFIG,
                 "did you mean softmax");
    assert_fails(f->ctx, fl_conform(f->ctx, "fedavk", NULL, take, &r), FL_ECONFIG, "did you mean fedavg");
    assert_fails(f->ctx, fl_conform(f->ctx, "fedavg", "{", take, &r), FL_ECONFIG, "settings:2:1");
    assert_fails(f->ctx, fl_conform(f->ctx, "fedprox", "algorithm: fedavg", take, &r), FL_ECONFIG, "choose fedavg");
    assert_fails(f->ctx, fl_conform(f->ctx, NULL, NULL, take, &r), FL_ECONFIG, "no method");
}

static void of_ones_own(void **state)
{
    fixture *f = *state;
    const fl_method *const all[] = {&own_scaffold, &own_fedprox, &own_feddyn, &own_fedlin, &own_fedasync};
    for (size_t i = 0; i < 5; i++) {
        report r = {{0}, 0};
        assert_ok(f->ctx, fl_method_register(f->ctx, all[i]));
        if (fl_conform(f->ctx, all[i]->name, NULL, take, &r)) fail_msg("%s\n%s", fl_ctx_error(f->ctx), r.text);
        assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", all[i]->name));
    }
}

/* Every allocation of a registration fails in turn, and some of a whole examination: one sentence, nothing is left. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        s = fl_method_register(f->ctx, &own_scaffold);
        fli_ctx_fail_alloc(f->ctx, 0);
        assert_true(s == FL_OK || s == FL_ENOMEM);
    }
    for (size_t k = 1; k < 3000; k += 59) {
        fli_ctx_fail_alloc(f->ctx, k);
        s = fl_conform(f->ctx, "own_scaffold", NULL, NULL, NULL);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s && s != FL_ENOMEM) fail_msg("allocation %zu: %s", k, fl_ctx_error(f->ctx));
    }
    assert_ok(f->ctx, fl_conform(f->ctx, "own_scaffold", NULL, NULL, NULL));
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "own_scaffold"));
}

/* ---- methods that break a rule ----------------------------------------------------------------------------- */

/* It is found, and the line that says so has this in it. */
static void found(fixture *f, fl_method m, const char *line)
{
    report r = {{0}, 0};
    m.name = "bad";
    assert_ok(f->ctx, fl_method_register(f->ctx, &m));
    fl_status s = fl_conform(f->ctx, "bad", NULL, take, &r);
    if (s != FL_EMISMATCH) fail_msg("status %d: %s\n%s", (int)s, fl_ctx_error(f->ctx), r.text);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "method bad does not conform"));
    const char *at = strstr(r.text, "FAIL");
    for (; at && strncmp(at + 6, line, strlen(line)); at = strstr(at + 1, "FAIL")) continue;
    if (!at) fail_msg("no line 'FAIL  %s' in\n%s", line, r.text);
    assert_null(strstr(r.text, "5 threads")); /* it is not let loose on several */
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "bad"));
}

/* c is read, but is only sent in the first turn; on a machine with one memory it is there all the same. */
static void reads_what_was_not_sent(void **state)
{
    static const fl_part down[] = {
        {"x", FL_PART_VECTOR, SC_X}, {"c", FL_PART_VECTOR, SC_C, FL_PART_FORGET, FL_AT_FIRST}, {NULL}};
    fl_method m = own_scaffold;
    m.down = down;
    found(*state, m, "f32: messages as bytes: fails: ");
}

/* What is never sent is never there. */
static int hidden_pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    p->shift = t->down[1];
    return 0;
}

static void reads_what_is_never_sent(void **state)
{
    fl_method m = own_feddyn;
    m.pose = hidden_pose;
    found(*state, m, "f32: stays finite: ");
}

static int stale_pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    if (t->ask.round) p->shift = t->work[0];
    return 0;
}
static int stale_answer(const fl_turn *t, const fl_answer *a)
{
    scaffold_answer(t, a);
    fl_vec_lin(&t->space, 0.1, a->z, 0, a->z, t->work[0]);
    return 0;
}

static void keeps_something_in_scratch(void **state)
{
    fl_method m = own_scaffold;
    m.pose = stale_pose;
    m.answer = stale_answer;
    found(*state, m, "f32: messages as bytes: ");
}

/* Turns so far, in a variable of the program's: the second run begins where the first ended. */
static int global_pose(const fl_turn *t, fl_problem *p)
{
    int *turns = t->arg;
    fedprox_pose(t, p);
    p->rho = 0.01 * ++*turns;
    return 0;
}

static void keeps_state_in_globals(void **state)
{
    int turns = 0;
    fl_method m = own_fedprox;
    m.pose = global_pose;
    m.arg = &turns;
    found(*state, m, "the same run again: differs first after round 1, in ");
}

/* What came before in the same run, reset when it begins: only a checkpoint, or another order, tells. */
static int reset_start(const fl_coordinator *s)
{
    *(int *)s->arg = 0;
    return 0;
}

static void keeps_state_in_arg(void **state)
{
    int turns = 0;
    fl_method m = own_fedprox;
    m.start = reset_start;
    m.pose = global_pose;
    m.arg = &turns;
    found(*state, m, "f32: messages as bytes: differs first after round 1");
}

static int counted_advance(const fl_coordinator *s)
{
    int *steps = s->arg;
    fl_vec_axpy(&s->space, 1 / s->cohort_weight / ++*steps, s->sum[0], s->vec[0]);
    return 0;
}

/* Uploads of the round under way, in a variable of the program's that is 0 between rounds: one run after the other does
 * not notice. */
static int counting_absorb(const fl_coordinator *s, const fl_upload *u)
{
    ++*(int *)s->arg;
    return fedprox_absorb(s, u);
}

static int count_read_advance(const fl_coordinator *s)
{
    int *count = s->arg;
    fl_vec_axpy(&s->space, 1.0 / (*count + 1), s->sum[0], s->vec[0]);
    *count = 0;
    return 0;
}

static void keeps_a_round_in_globals(void **state)
{
    int count = 0;
    fl_method m = own_fedprox;
    m.traits |= FL_METHOD_WHOLE;
    m.absorb = counting_absorb;
    m.advance = count_read_advance;
    m.arg = &count;
    found(*state, m, "between its uploads another run takes rounds: differs first after round 1");
}

/* The same, where every run has such a variable. */
static void *begin_count(void *arg, const double *params, fl_failure *f)
{
    (void)arg, (void)params, (void)f;
    return calloc(1, sizeof(int));
}

static void has_a_count_of_its_own(void **state)
{
    fixture *f = *state;
    report r = {{0}, 0};
    fl_method m = own_fedprox;
    m.name = "good";
    m.traits |= FL_METHOD_WHOLE;
    m.absorb = counting_absorb;
    m.advance = count_read_advance;
    m.begin = begin_count;
    m.end = free;
    assert_ok(f->ctx, fl_method_register(f->ctx, &m));
    assert_ok(f->ctx, fl_conform(f->ctx, "good@1", NULL, take, &r));
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "good"));
}

static void forgets_in_a_checkpoint(void **state)
{
    int steps = 0;
    fl_method m = own_fedprox;
    m.traits = FL_METHOD_WHOLE;
    m.start = reset_start;
    m.advance = counted_advance;
    m.arg = &steps;
    found(*state, m, "stopped, and resumed from its checkpoint: differs first after round 3");
}

static int first_entry_absorb(const fl_coordinator *s, const fl_upload *u)
{
    feddyn_absorb(s, u);
    if (s->space.real == 4)
        *(float *)s->sum[0] = 0;
    else
        *(double *)s->sum[0] = 0;
    return 0;
}

static void looks_at_an_entrys_place(void **state)
{
    fl_method m = own_feddyn;
    m.absorb = first_entry_absorb;
    found(*state, m, "slices of 7 entries: differs first after round 1");
}

static int moving_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, u->ask.weight, u->up[0], s->vec[0]);
    return 0;
}

static void changes_the_model_in_absorb(void **state)
{
    fl_method m = own_feddyn;
    m.absorb = moving_absorb;
    m.advance = no_advance;
    found(*state, m, "f32: messages as bytes: differs first after round 1");
}

static int nan_advance(const fl_coordinator *s)
{
    fl_vec_scale(&s->space, NAN, s->vec[0]);
    return 0;
}

static void makes_nan(void **state)
{
    fl_method m = own_feddyn;
    m.advance = nan_advance;
    found(*state, m, "f32: stays finite: round 1: the global model is no longer finite");
}

static int late_failure(const fl_coordinator *s)
{
    feddyn_advance(s);
    if (s->space.real != 8) return 0;
    fl_failed(s->failure, "only floats are known here");
    return 1;
}

static void a_failing_function_is_named(void **state)
{
    fl_method m = own_feddyn;
    m.advance = late_failure;
    found(*state, m, "f64: stays finite: method bad failed in advance, round 1: only floats are known here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),
        FIXTURE_TEST(settings_apply_and_mistakes_are_refused),
        FIXTURE_TEST(of_ones_own),
        FIXTURE_TEST(out_of_memory),
        FIXTURE_TEST(reads_what_was_not_sent),
        FIXTURE_TEST(reads_what_is_never_sent),
        FIXTURE_TEST(keeps_something_in_scratch),
        FIXTURE_TEST(keeps_state_in_globals),
        FIXTURE_TEST(keeps_state_in_arg),
        FIXTURE_TEST(keeps_a_round_in_globals),
        FIXTURE_TEST(has_a_count_of_its_own),
        FIXTURE_TEST(forgets_in_a_checkpoint),
        FIXTURE_TEST(looks_at_an_entrys_place),
        FIXTURE_TEST(changes_the_model_in_absorb),
        FIXTURE_TEST(makes_nan),
        FIXTURE_TEST(a_failing_function_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
