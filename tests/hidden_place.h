/* A site of the test's own: vectors lie in this process, but their addresses are made such that nobody can follow them.
 * What works there goes through the operations of the space, and has the bits of plain memory. Solvers and evaluations
 * are those of the CPU, at the true addresses. */
#ifndef TESTS_HIDDEN_PLACE_H
#define TESTS_HIDDEN_PLACE_H

#include "fixture.h"

#include "solver/minibatch.h"

/* No address of a process has this bit. */
#define HIDDEN ((uintptr_t)1 << 62)

typedef struct {
    fli_place place;
    fli_eval eval; /* at true addresses */
    fli_device_eval elsewhere;
    fli_site site;
    size_t alive; /* pieces of memory */
    int in_lane;
    size_t lane, joins, foreseen, together;
    fl_status broken; /* what it says when it is asked */
} hidden;

static void *hide(const void *p) { return p ? (void *)((uintptr_t)p | HIDDEN) : NULL; }
static void *show(const void *p)
{
    if (p && !((uintptr_t)p & HIDDEN)) fail_msg("%p was never in the place", p);
    return p ? (void *)((uintptr_t)p & ~HIDDEN) : NULL;
}

/* ---- the place -------------------------------------------------------------------------------------------- */

static void *hidden_alloc(fli_place *p, fl_ctx *ctx, size_t bytes)
{
    void *v = fli_alloc(ctx, bytes, 1);
    if (v) ((hidden *)p)->alive++;
    return hide(v);
}

static void hidden_release(fli_place *p, void *v)
{
    if (!v) return;
    ((hidden *)p)->alive--;
    fli_free(show(v));
}

static void hidden_read(fli_place *p, size_t n, const void *v, void *here) { (void)p, memcpy(here, show(v), n); }
static void hidden_write(fli_place *p, size_t n, const void *here, void *v) { (void)p, memcpy(show(v), here, n); }

static void hidden_copy(fli_place *p, const fli_ops *ops, size_t n, const void *x, void *y)
{
    (void)p;
    memmove(show(y), show(x), n * ops->size);
}

static void hidden_fill(fli_place *p, const fli_ops *ops, size_t n, double a, void *y)
{
    (void)p;
    ops->fill(n, a, show(y));
}

static void hidden_axpy(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, void *y)
{
    (void)p;
    ops->axpy(n, a, show(x), show(y));
}

static void hidden_lin(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, double b, const void *y,
                       void *out)
{
    (void)p;
    ops->lin(n, a, show(x), b, show(y), show(out));
}

static void hidden_scale(fli_place *p, const fli_ops *ops, size_t n, double a, void *y)
{
    (void)p;
    ops->scale(n, a, show(y));
}

static void hidden_map(fli_place *p, const fli_ops *ops, size_t n, size_t vectors, void *const *x, fli_map_fn *fn,
                       const void *arg)
{
    void *at[FLI_MAP_MOST];
    (void)p;
    for (size_t i = 0; i < vectors; i++) at[i] = show(x[i]);
    ops->map(n, vectors, at, fn, arg);
}

static double hidden_dot(fli_place *p, const fli_ops *ops, size_t n, const void *x, const void *y)
{
    (void)p;
    return ops->dot(n, show(x), show(y));
}

static void hidden_finite(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                          unsigned char *out)
{
    (void)p;
    for (size_t i = 0; i < count; i++) out[i] = ops->finite(n, show(x[i])) != 0;
}

/* Lanes come in their order, and end before anything else is asked. */
static void hidden_lane(fli_place *p, size_t i)
{
    hidden *h = (hidden *)p;
    assert_int_equal(i, h->in_lane ? h->lane + 1 : 0);
    h->in_lane = 1;
    h->lane = i;
}

static void hidden_join(fli_place *p)
{
    ((hidden *)p)->in_lane = 0;
    ((hidden *)p)->joins++;
}

static fl_status hidden_status(fli_place *p, fl_ctx *ctx)
{
    const hidden *h = (hidden *)p;
    return h->broken ? fli_fail(ctx, h->broken, "the device is gone") : FL_OK;
}

static const fli_place_ops hidden_ops = {
    .alloc = hidden_alloc,
    .release = hidden_release,
    .read = hidden_read,
    .write = hidden_write,
    .copy = hidden_copy,
    .fill = hidden_fill,
    .axpy = hidden_axpy,
    .lin = hidden_lin,
    .scale = hidden_scale,
    .map = hidden_map,
    .dot = hidden_dot,
    .finite = hidden_finite,
    .lane = hidden_lane,
    .join = hidden_join,
    .status = hidden_status,
};

/* ---- evaluations ------------------------------------------------------------------------------------------- */

static double hidden_loss(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                          size_t *correct)
{
    return fli_eval_loss(&((hidden *)arg)->eval, ds, idx, n, show(x), show(g), correct);
}

static double hidden_pair(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x,
                          const void *own, double mix, size_t *correct)
{
    return fli_eval_pair(&((hidden *)arg)->eval, ds, idx, n, show(x), show(own), mix, correct);
}

static fli_objective hidden_objective(void *arg, const fli_view *v, const fli_objective_at *at, void *g)
{
    fli_objective_at shown = {show(at->x), show(at->own), at->mix, at->kept, at->ahead};
    return fli_eval_objective(&((hidden *)arg)->eval, v, &shown, show(g));
}

static double hidden_second_block(void *arg, const fli_view *v, const fli_objective_at *at)
{
    fli_objective_at shown = {show(at->x), show(at->own), at->mix, at->kept};
    return fli_eval_second_block(&((hidden *)arg)->eval, v, &shown);
}

static void hidden_logits(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, double *out)
{
    fli_eval *e = &((hidden *)arg)->eval;
    const fli_model *m = e->model;
    fli_pieces p = fli_pieces_of(e, ds, idx, n);
    while (fli_pieces_next(&p)) {
        void *z = m->desc->logits(m, show(x), &e->batch, e->scratch);
        m->space.ops->to_f64(p.n * m->classes, z, out + p.at * m->classes);
    }
}

static void hidden_foresee(void *arg, const fli_peek *list, size_t n)
{
    (void)list;
    ((hidden *)arg)->foreseen += n;
}

static fl_status hidden_eval_status(void *arg, fl_ctx *ctx) { return hidden_status(arg, ctx); }

/* ---- solvers: those of the CPU, which find everything at its true address ------------------------------------ */

enum { HIDDEN_SOLVERS = 16 };
static const fl_solver *hidden_of[HIDDEN_SOLVERS];
static fl_solver hidden_solvers[HIDDEN_SOLVERS];
static fli_solver_engine hidden_engines[HIDDEN_SOLVERS];

static const fl_solver *behind(const fl_solver *s) { return hidden_of[s - hidden_solvers]; }

typedef struct {
    const fl_solver *solver;
    void *instance;
    hidden *where;
} hidden_instance;

static fl_status hidden_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance)
{
    hidden_instance *i = calloc(1, sizeof *i);
    fli_open there = *how;
    i->where = how->eval->elsewhere->arg;
    there.eval = &i->where->eval;
    i->solver = behind(solver);
    *instance = i;
    return fli_solver_open(ctx, i->solver, &there, &i->instance);
}

static void hidden_close(void *instance)
{
    hidden_instance *i = instance;
    fli_solver_close(i->solver, i->instance);
    free(i);
}

static void turn_vectors(const fl_solver *s, fli_task *t, void *turn(const void *))
{
    fl_problem *p = &t->problem;
    fl_answer *a = &t->answer;
    p->start = turn(p->start);
    p->anchor = turn(p->anchor);
    p->shift = turn(p->shift);
    if (s == &fli_solver_pair) p->pair.start = turn(p->pair.start);
    if (s == &fli_solver_bilevel) {
        p->levels.v = turn(p->levels.v);
        p->levels.shift = turn(p->levels.shift);
    }
    t->z = turn(t->z);
    t->kept = turn(t->kept);
    if (turn != hide || t->status) return;
    a->z = turn(a->z);
    a->gradient = turn(a->gradient);
    a->linearised.multiplier = turn(a->linearised.multiplier);
    a->pair.own = turn(a->pair.own);
    a->levels.v = turn(a->levels.v);
}

static void hidden_solve(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    hidden_instance *i = instance;
    assert_false(i->where->in_lane);
    if (n > i->where->together) i->where->together = n;
    for (size_t k = 0; k < n; k++) turn_vectors(i->solver, tasks[k], show);
    fli_solver_run(ctx, i->solver, i->instance, tasks, n);
    for (size_t k = 0; k < n; k++) turn_vectors(i->solver, tasks[k], hide);
}

static const fl_solver *hidden_solver(const fl_solver *s)
{
    size_t k = 0;
    while (hidden_of[k] && hidden_of[k] != s) k++;
    assert_true(k < HIDDEN_SOLVERS);
    hidden_of[k] = s;
    hidden_solvers[k] = *s;
    hidden_engines[k] = *fli_solver_engine_of(s);
    hidden_engines[k].open = hidden_open;
    hidden_engines[k].run = hidden_solve;
    hidden_engines[k].close = hidden_close;
    hidden_solvers[k].engine = &hidden_engines[k];
    return &hidden_solvers[k];
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static void hidden_init(hidden *h, fl_ctx *ctx, const fli_model *m, size_t lanes)
{
    *h = (hidden){.place = {&hidden_ops}};
    assert_ok(ctx, fli_eval_init(ctx, m, &h->eval));
    h->elsewhere = (fli_device_eval){
        .arg = h,
        .place = &h->place,
        .loss = hidden_loss,
        .pair = hidden_pair,
        .objective = hidden_objective,
        .second_block = hidden_second_block,
        .logits = hidden_logits,
        .foresee = hidden_foresee,
        .status = hidden_eval_status,
    };
    h->site = (fli_site){&h->place, &h->elsewhere, hidden_solver, lanes};
}

/* Everything that was there has been given back. */
static void hidden_fini(hidden *h)
{
    assert_int_equal(h->alive, 0);
    fli_eval_fini(&h->eval);
}

#endif
