/* Tasks: many at a time, by one instance, are answered bit for bit as each alone by an instance of its own; an answer
 * lasts until its task is posed anew, whatever the instance solves meanwhile; and a task that fails leaves the others
 * alone. */
#include "fixture.h"

#include "bilevel/bilevel.h"
#include "solve.h"

enum { TASKS = 8, DIM = 4, CLASSES = 3, MOST = 64 };

static const size_t sizes[TASKS] = {15, 300, 27, 40, 19, 23, 31, 12}; /* one takes more than a batch */

typedef struct {
    const char *what;
    const fli_solver *solver;
    const char *model;
    size_t classes;
    fli_sgd_spec sgd;
    int labels;   /* of unlabelled samples: FLI_SEMI_ */
    size_t kinds; /* of work on a bilevel problem, from client to client */
} way;

static const way ways[] = {
    {"sgd", &fli_solver_sgd, "softmax", CLASSES, {7, 0.5}, 0, 0},
    {"sgd, full batches", &fli_solver_sgd, "mlp", CLASSES, {0}, 0, 0},
    {"two-block, labels anew", &fli_solver_blocks, "softmax", CLASSES, {5, 0.5}, FLI_SEMI_CLOSED_FORM, 0},
    {"two-block, labels kept", &fli_solver_blocks, "mlp", CLASSES, {5}, FLI_SEMI_PROJECTED, 0},
    {"pair", &fli_solver_pair, "softmax", CLASSES, {6, 0.9}, 0, 0},
    {"pair, labels kept", &fli_solver_pair, "mlp", CLASSES, {.fraction = 0.3}, FLI_SEMI_PROJECTED, 0},
    {"gradient", &fli_solver_gradient, "mlp", CLASSES, {5}, 0, 0},
    {"sgd after a gradient", &fli_solver_sgd_gradient, "softmax", CLASSES, {7, 0.5}, 0, 0},
    {"exact", &fli_solver_exact, "least_squares", 0, {0}, 0, 0},
    {"accurate", &fli_solver_accurate, "mlp", CLASSES, {0}, 0, 0},
    {"gram", &fli_solver_gram, "logistic", 2, {0}, 0, 0},
    {"diagonal", &fli_solver_diagonal, "logistic", 2, {0}, 0, 0},
    {"diagonal, by products", &fli_solver_diagonal, "softmax", CLASSES, {0}, 0, 0},
    {"bilevel", &fli_solver_bilevel, "mlp", CLASSES, {5}, 0, 1 + FLI_WORK_OWN_STEPS},
    {"bilevel, together", &fli_solver_bilevel, "mlp", CLASSES, {5}, 0, 1 + FLI_WORK_TOGETHER},
};

/* What a task's problem points to, in the model's precision. */
typedef struct {
    double start[MOST], anchor[MOST], shift[MOST], other[MOST];
} vectors;

/* The clients of a federation, each with a problem of its own. */
typedef struct {
    fl_ctx *ctx;
    const way *way;
    fli_arena arena;
    fli_fed *fed;
    fli_semi semi;
    fli_model *model;
    fli_view view[TASKS];
    vectors vectors[TASKS];
    fli_problem problem[TASKS];
} clients;

static void random_vector(const clients *c, uint32_t stream, double scale, void *out)
{
    double x[MOST];
    fli_rng rng;
    fli_rng_init(&rng, 8, FLI_RNG_TEST, 1, stream);
    for (size_t i = 0; i < c->model->space.n; i++) x[i] = scale * fli_rng_normal(&rng);
    c->model->space.ops->from_f64(c->model->space.n, x, out);
}

static fli_levels levels_of(fli_bilevel_kind work, const vectors *v)
{
    static const double a[] = {1, 0.5};
    fli_levels l = {.work = work, .v = v->other, .shift = v->shift, .lr_y = 0.1, .lr_v = 0.05};
    l.coefs = (fli_coefs){a, 2, 0.9, 1};
    l.neumann = 3;
    l.ell = 4;
    return l;
}

/* Different terms, step sizes, numbers of steps and demands from client to client. */
static fli_problem problem_of(const clients *c, size_t i)
{
    const vectors *v = &c->vectors[i];
    const fli_solver *s = c->way->solver;
    fli_problem p = {.start = v->start, .lr = 0.02 + 0.01 * (double)i, .steps = 2 + i, .rho = 0.5 + (double)i};
    if (i % 3 || s == &fli_solver_exact) p.anchor = v->anchor;
    int linearised = s == &fli_solver_gram || s == &fli_solver_diagonal;
    if (i % 2 || linearised) p.shift = v->shift;
    if (linearised && i == 2) p.rho = 0;   /* only the curvature */
    if (linearised && i == 3) p.steps = 0; /* the limit */
    p.stop = (fli_stopping){.relative = 0.1, .modulus = 0.3, .most_steps = 5 + 4 * i};
    if (s == &fli_solver_pair) p.pair = (fli_pair_extra){v->other, 0.05, i % 2 ? NAN : 0.1 * (double)i};
    if (s == &fli_solver_bilevel) p.levels = levels_of((fli_bilevel_kind)(i % c->way->kinds), v);
    return p;
}

static void two_levels(clients *c)
{
    const fli_bilevel_desc *d = fli_bilevel_list[0];
    for (size_t i = 0; strcmp(d->name, "hyper_representation"); i++) d = fli_bilevel_list[i];
    assert_ok(c->ctx, fli_bilevel_give(c->ctx, c->model, d, bound(c->ctx, &c->arena, d->keys, d->params_size, ""),
                                       &(fli_bilevel_common){.validation = 0.3, .l2 = 0.1}));
}

static void clients_init(clients *c, fl_ctx *ctx, const way *w, const fli_ops *ops)
{
    const fli_model_desc *d = model_named(w->model);
    *c = (clients){.ctx = ctx, .way = w};
    fli_arena_init(&c->arena, ctx);
    c->fed = random_fed(ctx, TASKS, sizes, DIM, w->classes, 5);
    c->semi = (fli_semi){.labels = w->labels, .alpha_p = 0.6, .alpha_r = 0.3, .label_lr = 5, .label_steps = 2};
    if (w->labels) assert_ok(ctx, fli_fed_hide(ctx, c->fed, (const uint32_t[TASKS]){4, 280, 0, 9, 18, 1, 30, 6}));
    const void *params = bound(ctx, &c->arena, d->keys, d->params_size, strcmp(w->model, "mlp") ? "" : "hidden=[4]");
    double wd = w->solver == &fli_solver_bilevel ? 0 : 0.1;
    assert_ok(ctx, fli_model_new(ctx, d, params, ops, DIM, w->classes, wd, &c->model));
    assert_ok(ctx, fli_model_use_semi(ctx, c->model, &c->semi));
    if (w->solver == &fli_solver_bilevel) two_levels(c);
    assert_true(c->model->space.n <= MOST);
    for (size_t i = 0; i < TASKS; i++) {
        assert_ok(ctx, fli_view_open(ctx, c->fed, i, &c->view[i]));
        random_vector(c, 4 * (uint32_t)i, 0.7, c->vectors[i].start);
        random_vector(c, 4 * (uint32_t)i + 1, 0.7, c->vectors[i].anchor);
        random_vector(c, 4 * (uint32_t)i + 2, 0.2, c->vectors[i].shift);
        random_vector(c, 4 * (uint32_t)i + 3, 0.7, c->vectors[i].other);
        c->problem[i] = problem_of(c, i);
    }
}

static void clients_fini(clients *c)
{
    for (size_t i = 0; i < TASKS; i++) fli_view_close(&c->view[i]);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
    fli_arena_fini(&c->arena);
}

static void pose(const clients *c, size_t i, void **cache, fli_task *t)
{
    t->problem = c->problem[i];
    t->view = &c->view[i];
    t->cache = cache;
    t->seed = 77;
    t->client = (uint32_t)i;
    fli_rng_init(&t->rng, 1, FLI_RNG_BATCH, 3, (uint32_t)i);
}

/* Everything that an answer says, to be compared byte by byte. */
typedef struct {
    double z[MOST], gradient[MOST], multiplier[MOST], own[MOST], v[MOST];
    double weight, steps, missed, curvature, mix, norm;
} outcome;

static void take(const fli_space *s, const void *from, double *to)
{
    if (from) memcpy(to, from, fli_bytes(s));
}

static outcome outcome_of(const clients *c, const fli_task *t)
{
    const fli_answer *a = &t->answer;
    const fli_space *s = &c->model->space;
    outcome o;
    memset(&o, 0, sizeof o);
    assert_ok(c->ctx, t->status);
    take(s, a->z, o.z);
    take(s, a->gradient, o.gradient);
    take(s, a->linearised.multiplier, o.multiplier);
    take(s, a->pair.own, o.own);
    take(s, a->levels.v, o.v);
    o.weight = a->weight;
    o.steps = (double)a->steps;
    o.missed = a->missed;
    o.curvature = a->linearised.curvature;
    o.mix = a->pair.mix;
    o.norm = a->levels.norm;
    return o;
}

static void forget(const fli_solver *s, void **cache)
{
    for (size_t i = 0; s->forget && i < TASKS; i++) s->forget(cache[i]);
    memset(cache, 0, TASKS * sizeof *cache);
}

/* A client's task by an instance that has never seen another. */
static outcome alone(const clients *c, size_t i)
{
    solving s;
    void *cache[TASKS] = {0};
    assert_ok(c->ctx, solving_init(c->ctx, c->way->solver, c->model, &c->way->sgd, c->fed->largest, &s));
    pose(c, i, &cache[i], &s.task);
    s.solver->solve(c->ctx, s.instance, (fli_task *[]){&s.task}, 1);
    outcome o = outcome_of(c, &s.task);
    forget(s.solver, cache);
    solving_fini(&s);
    return o;
}

static void check(const clients *c, size_t i, const fli_task *t, const outcome *want, const char *when)
{
    outcome got = outcome_of(c, t);
    if (memcmp(&got, want, sizeof got))
        fail_msg("%s, %zu bytes: the answer of task %zu is another %s", c->way->what, c->model->space.ops->size, i,
                 when);
}

static void compare(clients *c)
{
    const fli_solver *solver = c->way->solver;
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
    solver->solve(c->ctx, s.instance, all, TASKS);
    for (size_t i = 0; i < TASKS; i++) check(c, i, &task[i], &want[i], "than alone");

    void *more[TASKS] = {0};
    for (size_t i = 0; i < TASKS; i++) {
        pose(c, i, &more[i], &s.task);
        solver->solve(c->ctx, s.instance, (fli_task *[]){&s.task}, 1);
        check(c, i, &s.task, &want[i], "by an instance that has worked before");
    }
    for (size_t i = 0; i < TASKS; i++) check(c, i, &task[i], &want[i], "after later ones were solved");

    forget(solver, cache);
    for (size_t i = 0; i < TASKS; i++) pose(c, i, &cache[i], &task[i]);
    solver->solve(c->ctx, s.instance, reversed, TASKS);
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
        task[i].problem = (fli_problem){.start = zero, .anchor = i == 1 ? NULL : zero, .rho = 1};
        task[i].view = &view[i];
        task[i].cache = &cache[i];
        all[i] = &task[i];
    }
    s.solver->solve(f->ctx, s.instance, all, N);
    assert_fails(f->ctx, task[1].status, FL_ECONFIG, "7 samples of 20 features has no unique minimiser");
    for (size_t i = 0; i < N; i += 2) {
        fli_answer a;
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
static void descriptors(void **state)
{
    static const fli_solver *const counting[] = {&fli_solver_sgd, &fli_solver_sgd_gradient, &fli_solver_blocks,
                                                 &fli_solver_pair};
    fli_semi semi = {.labels = FLI_SEMI_CLOSED_FORM};
    fixture *f = *state;
    fli_model *m = NULL;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, DIM, CLASSES, 0, &m));
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const fli_solver *s = ways[w].solver;
        int counts = 0;
        for (size_t i = 0; i < 4; i++) counts |= s == counting[i];
        assert_int_equal(s->counts_steps, counts);
        assert_ptr_equal(fli_solver_on(m, s), s);
        assert_true(!s->latent || s->latent->second_block);
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
        FIXTURE_TEST(descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
