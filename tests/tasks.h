/* Clients with problems of their own, for tests that solve many tasks: by whatever solver, together or alone. */
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include "fixture.h"

#include "bilevel/bilevel.h"
#include "solve.h"

enum { TASKS = 8, DIM = 4, CLASSES = 3, MOST = 64 };

static const size_t sizes[TASKS] = {15, 300, 27, 40, 19, 23, 31, 12}; /* one takes more than a batch */

typedef struct {
    const char *what;
    const fl_solver *solver;
    const char *model;
    size_t classes;
    fli_sgd_spec sgd;
    int labels;   /* of unlabelled samples: FLI_SEMI_ */
    size_t kinds; /* of work on a bilevel problem, from client to client */
    int decay_by; /* FLI_DECAY_ */
    int64_t label_batch;
} way;

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
    fl_problem problem[TASKS];
} clients;

UNUSED static void random_vector(const clients *c, uint32_t stream, double scale, void *out)
{
    double x[MOST];
    fli_rng rng;
    fli_rng_init(&rng, 8, FLI_RNG_TEST, 1, stream);
    for (size_t i = 0; i < c->model->space.n; i++) x[i] = scale * fli_rng_normal(&rng);
    c->model->space.ops->from_f64(c->model->space.n, x, out);
}

UNUSED static fl_levels levels_of(fl_level_work work, const vectors *v)
{
    static const double a[] = {1, 0.5};
    fl_levels l = {.work = work, .v = v->other, .shift = v->shift, .lr_y = 0.1, .lr_v = 0.05};
    l.coefs = (fl_coefs){a, 2, 0.9, 1};
    l.neumann = 3;
    l.ell = 4;
    return l;
}

/* Different terms, step sizes, numbers of steps and demands from client to client. */
UNUSED static fl_problem problem_of(const clients *c, size_t i)
{
    const vectors *v = &c->vectors[i];
    const fl_solver *s = c->way->solver;
    fl_problem p = {.start = v->start, .lr = 0.02 + 0.01 * (double)i, .steps = 2 + i, .rho = 0.5 + (double)i};
    if (i % 3 || s == &fli_solver_exact) p.anchor = v->anchor;
    int linearised = s == &fli_solver_gram || s == &fli_solver_diagonal;
    if (i % 2 || linearised) p.shift = v->shift;
    if (linearised && i == 2) p.rho = 0;   /* only the curvature */
    if (linearised && i == 3) p.steps = 0; /* the limit */
    p.stop = (fl_stopping){.relative = 0.1, .modulus = 0.3, .most_steps = 5 + 4 * i};
    if (s == &fli_solver_pair) p.pair = (fl_pair){v->other, 0.05, i % 2 ? NAN : 0.1 * (double)i};
    if (s == &fli_solver_bilevel) p.levels = levels_of((fl_level_work)(i % c->way->kinds), v);
    return p;
}

UNUSED static void two_levels(clients *c)
{
    const fli_bilevel_desc *d = fli_bilevel_list[0];
    for (size_t i = 0; strcmp(d->name, "hyper_representation"); i++) d = fli_bilevel_list[i];
    assert_ok(c->ctx, fli_bilevel_give(c->ctx, c->model, d, bound(c->ctx, &c->arena, d->keys, d->params_size, ""),
                                       &(fli_bilevel_common){.validation = 0.3, .l2 = 0.1}));
}

UNUSED static void clients_init(clients *c, fl_ctx *ctx, const way *w, const fli_ops *ops)
{
    const fli_model_desc *d = model_named(w->model);
    *c = (clients){.ctx = ctx, .way = w};
    fli_arena_init(&c->arena, ctx);
    c->fed = random_fed(ctx, TASKS, sizes, DIM, w->classes, 5);
    c->semi = (fli_semi){.labels = w->labels, .alpha_p = 0.6, .alpha_r = 0.3, .label_lr = 5, .label_steps = 2};
    c->semi.label_batch = w->label_batch;
    if (w->labels) assert_ok(ctx, fli_fed_hide(ctx, c->fed, (const uint32_t[TASKS]){4, 280, 0, 9, 18, 1, 30, 6}));
    const void *params = bound(ctx, &c->arena, d->keys, d->params_size, strcmp(w->model, "mlp") ? "" : "hidden=[4]");
    double wd = w->solver == &fli_solver_bilevel ? 0 : 0.1;
    assert_ok(ctx, fli_model_new(ctx, d, params, ops, DIM, w->classes, wd, &c->model));
    c->model->decay_by = w->decay_by;
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

UNUSED static void clients_fini(clients *c)
{
    for (size_t i = 0; i < TASKS; i++) fli_view_close(&c->view[i]);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
    fli_arena_fini(&c->arena);
}

UNUSED static void pose(const clients *c, size_t i, void **cache, fli_task *t)
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

UNUSED static void take(const fl_space *s, const void *from, double *to)
{
    if (from) fli_vector_read(s, fli_bytes(s), from, to);
}

/* The task's vectors are of the space s. */
UNUSED static outcome outcome_of(const clients *c, const fl_space *s, const fli_task *t)
{
    const fl_answer *a = &t->answer;
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

UNUSED static void forget(const fl_solver *s, void **cache)
{
    for (size_t i = 0; s->forget && i < TASKS; i++) s->forget(cache[i]);
    memset(cache, 0, TASKS * sizeof *cache);
}

/* A client's task by an instance that has never seen another. */
UNUSED static outcome alone(const clients *c, size_t i)
{
    solving s;
    void *cache[TASKS] = {0};
    assert_ok(c->ctx, solving_init(c->ctx, c->way->solver, c->model, &c->way->sgd, c->fed->largest, &s));
    pose(c, i, &cache[i], &s.task);
    fli_solver_run(c->ctx, s.solver, s.instance, (fli_task *[]){&s.task}, 1);
    outcome o = outcome_of(c, &c->model->space, &s.task);
    forget(s.solver, cache);
    solving_fini(&s);
    return o;
}

#endif
