/* Tasks: many at a time, by one instance, are answered bit for bit as each alone by an instance of its own; an answer
 * lasts until its task is posed anew, whatever the instance solves meanwhile; and a task that fails leaves the others
 * alone. */
#include "tasks.h"

static const way ways[] = {
    {"sgd", &fli_solver_sgd, "softmax", CLASSES, {7, 0.5}},
    {"sgd, full batches", &fli_solver_sgd, "mlp", CLASSES, {0}},
    {"two-block, labels anew", &fli_solver_blocks, "softmax", CLASSES, {5, 0.5}, FLI_SEMI_CLOSED_FORM},
    {"two-block, labels kept", &fli_solver_blocks, "mlp", CLASSES, {5}, FLI_SEMI_PROJECTED},
    {"pair", &fli_solver_pair, "softmax", CLASSES, {6, 0.9}},
    {"pair, labels kept", &fli_solver_pair, "mlp", CLASSES, {.fraction = 0.3}, FLI_SEMI_PROJECTED},
    {"gradient", &fli_solver_gradient, "mlp", CLASSES, {5}},
    {"sgd after a gradient", &fli_solver_sgd_gradient, "softmax", CLASSES, {7, 0.5}},
    {"exact", &fli_solver_exact, "least_squares", 0, {0}},
    {"accurate", &fli_solver_accurate, "mlp", CLASSES, {0}},
    {"gram", &fli_solver_gram, "logistic", 2, {0}},
    {"diagonal", &fli_solver_diagonal, "logistic", 2, {0}},
    {"diagonal, by products", &fli_solver_diagonal, "softmax", CLASSES, {0}},
    {"bilevel", &fli_solver_bilevel, "mlp", CLASSES, {5}, 0, 1 + FL_WORK_OWN_STEPS},
    {"bilevel, together", &fli_solver_bilevel, "mlp", CLASSES, {5}, 0, 1 + FL_WORK_TOGETHER},
};

static void check(const clients *c, size_t i, const fli_task *t, const outcome *want, const char *when)
{
    outcome got = outcome_of(c, &c->model->space, t);
    if (memcmp(&got, want, sizeof got))
        fail_msg("%s, %zu bytes: the answer of task %zu is another %s", c->way->what, c->model->space.ops->size, i,
                 when);
}

static void compare(clients *c)
{
    const fl_solver *solver = c->way->solver;
    solving s; /* the instance; its own task is one more */
    fli_task task[TASKS], *all[TASKS], *reversed[TASKS];
    void *cache[TASKS] = {0};
    outcome want[TASKS];
    assert_ok(c->ctx, solving_init(c->ctx, solver, c->model, &c->way->sgd, c->fed->largest, &s));
    for (size_t i = 0; i < TASKS; i++) {
        want[i] = alone(c, i);
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(want[i].z, want[j].z, sizeof want[i].z);
        assert_ok(c->ctx, fli_task_init(c->ctx, solver, &c->model->space, &task[i]));
        pose(c, i, &cache[i], &task[i]);
        all[i] = reversed[TASKS - 1 - i] = &task[i];
    }
    fli_solver_run(c->ctx, solver, s.instance, all, TASKS);
    for (size_t i = 0; i < TASKS; i++) check(c, i, &task[i], &want[i], "than alone");

    void *more[TASKS] = {0};
    for (size_t i = 0; i < TASKS; i++) {
        pose(c, i, &more[i], &s.task);
        fli_solver_run(c->ctx, solver, s.instance, (fli_task *[]){&s.task}, 1);
        check(c, i, &s.task, &want[i], "by an instance that has worked before");
    }
    for (size_t i = 0; i < TASKS; i++) check(c, i, &task[i], &want[i], "after later ones were solved");

    forget(solver, cache);
    for (size_t i = 0; i < TASKS; i++) pose(c, i, &cache[i], &task[i]);
    fli_solver_run(c->ctx, solver, s.instance, reversed, TASKS);
    for (size_t i = 0; i < TASKS; i++) check(c, i, &task[i], &want[i], "in another order");

    for (size_t i = 0; i < TASKS; i++) fli_task_fini(&task[i]);
    forget(solver, cache);
    forget(solver, more);
    solving_fini(&s);
}

static void together_as_alone(void **state)
{
    fixture *f = *state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (const fli_ops *const *o = fli_ops_list; *o; o++) {
            clients c;
            clients_init(&c, f->ctx, &ways[w], *o);
            compare(&c);
            clients_fini(&c);
        }
}

/* The terms of a problem that has no unique minimiser; its neighbours have one. */
static void failures_are_the_tasks_own(void **state)
{
    fixture *f = *state;
    enum { K = 20, N = 3 };
    fli_fed *fed = random_fed(f->ctx, N, (const size_t[N]){9, 7, 8}, K, 0, 2);
    fli_model *model = NULL;
    fli_view view[N];
    fli_task task[N], *all[N];
    void *cache[N] = {0};
    double zero[K] = {0};
    solving s;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("least_squares"), NULL, &fli_ops_f64, K, 0, 0, &model));
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_exact, model, &(fli_sgd_spec){0}, fed->largest, &s));
    for (size_t i = 0; i < N; i++) {
        assert_ok(f->ctx, fli_view_open(f->ctx, fed, i, &view[i]));
        assert_ok(f->ctx, fli_task_init(f->ctx, s.solver, &model->space, &task[i]));
        task[i].problem = (fl_problem){.start = zero, .anchor = i == 1 ? NULL : zero, .rho = 1};
        task[i].view = &view[i];
        task[i].cache = &cache[i];
        all[i] = &task[i];
    }
    fli_solver_run(f->ctx, s.solver, s.instance, all, N);
    assert_fails(f->ctx, task[1].status, FL_ECONFIG, "7 samples of 20 features has no unique minimiser");
    for (size_t i = 0; i < N; i += 2) {
        fl_answer a;
        assert_ok(f->ctx, task[i].status);
        solving one;
        void *fresh = NULL;
        assert_ok(f->ctx, solving_init(f->ctx, s.solver, model, &(fli_sgd_spec){0}, fed->largest, &one));
        assert_ok(f->ctx, solving_solve(f->ctx, &one, &view[i], &task[i].problem, NULL, &fresh, &a));
        assert_memory_equal(a.z, task[i].answer.z, sizeof zero);
        s.solver->forget(fresh);
        solving_fini(&one);
    }
    for (size_t i = 0; i < N; i++) {
        s.solver->forget(cache[i]);
        fli_task_fini(&task[i]);
        fli_view_close(&view[i]);
    }
    solving_fini(&s);
    fli_model_free(model);
    fli_fed_free(fed);
}

/* Which solver stands in for which, and what is said of steps. */
static void solvers_declare_traits_and_replacements(void **state)
{
    static const fl_solver *const counting[] = {&fli_solver_sgd, &fli_solver_sgd_gradient, &fli_solver_blocks,
                                                &fli_solver_pair};
    fli_semi semi = {.labels = FLI_SEMI_CLOSED_FORM};
    fixture *f = *state;
    fli_model *m = NULL;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, DIM, CLASSES, 0, &m));
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const fl_solver *s = ways[w].solver;
        int counts = 0;
        for (size_t i = 0; i < 4; i++) counts |= s == counting[i];
        assert_int_equal((s->traits & FL_SOLVER_COUNTS_STEPS) != 0, counts);
        assert_ptr_equal(fli_solver_on(m, s), s);
        const fl_solver *latent = fli_solver_engine_of(s)->latent;
        assert_true(!latent || latent->traits & FLI_SOLVER_SECOND_BLOCK);
    }
    assert_ok(f->ctx, fli_model_use_semi(f->ctx, m, &semi));
    assert_ptr_equal(fli_solver_on(m, &fli_solver_sgd), &fli_solver_blocks);
    assert_ptr_equal(fli_solver_on(m, &fli_solver_pair), &fli_solver_pair);
    assert_ptr_equal(fli_solver_on(m, &fli_solver_exact), &fli_solver_exact);
    fli_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(together_as_alone),
        FIXTURE_TEST(failures_are_the_tasks_own),
        FIXTURE_TEST(solvers_declare_traits_and_replacements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
