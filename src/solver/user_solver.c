/* A solver of a user's: the problem goes out as it is posed, and the functions that it may call compute the client's
 * objective as fedloom's own solvers do, on the same mini-batches. */
#include "solver/user_solver.h"

#include "base/number.h"
#include "base/user_registry.h"
#include "solver/minibatch.h"

#include <inttypes.h>
#include <math.h>

typedef struct {
    fli_solver desc; /* first: what an instance is opened with leads here */
    fl_solver is;    /* its texts are in the arena */
    fli_arena arena;
} user_solver;

typedef struct {
    fli_worker *worker;
    const user_solver *solver;
} instance;

/* fl_local.engine: of one task. */
typedef struct {
    fli_worker *worker;
    fli_task *task;
    fli_minibatch batch;
} engine;

/* ---- what a solver may call --------------------------------------------------------------------------------- */

/* Adds weight decay, and tells whether the objective has failed. */
static int finish(const engine *e, double decay, const void *x, void *g, double value, double *loss)
{
    const fli_model *m = e->worker->model;
    if (decay != 0) {
        value += decay / 2 * fli_dot(&m->space, x, x);
        if (g) fli_axpy(&m->space, decay, x, g);
    }
    if (loss) *loss = value;
    return fli_model_failed(m);
}

int fl_local_loss(const fl_local *l, const void *x, void *g, double *loss)
{
    const engine *e = l->engine;
    const fli_view *v = e->task->view;
    double value = fli_eval_loss(e->worker->eval, v->ds, v->train, v->n_train, x, g, NULL);
    return finish(e, fli_model_decay(e->worker->model, v->n_train), x, g, value, loss);
}

size_t fl_local_next(const fl_local *l, const uint32_t **sample, double *decay)
{
    engine *e = l->engine;
    fli_minibatch_next(&e->batch);
    size_t n = fli_minibatch_samples(&e->batch);
    if (decay) *decay = fli_model_step_decay(e->worker->model, e->task->view->n_train, n);
    *sample = e->batch.plain.now;
    return n;
}

int fl_local_batch(const fl_local *l, const void *x, void *g, double *loss)
{
    engine *e = l->engine;
    const uint32_t *sample;
    double decay;
    fl_local_next(l, &sample, &decay);
    e->batch.gathered = 0; /* fl_local_loss may have gathered something else since */
    double value = fli_minibatch_grad(&e->batch, &(fli_point){.x = x, .g = g ? g : e->worker->grad});
    return finish(e, decay, x, g, value, loss);
}

/* ---- solving ------------------------------------------------------------------------------------------------ */

static fl_local local_of(engine *e)
{
    const fli_worker *w = e->worker;
    const fli_task *t = e->task;
    const fl_space *s = &w->model->space;
    size_t n = t->view->n_train;
    fli_rng seed = t->rng; /* mini-batches are drawn from the original */
    return (fl_local){.space = *s,
                      .client = t->client,
                      .round = t->round,
                      .seed = fli_rng_u64(&seed),
                      .samples = n,
                      .batch = fli_batch_size(&w->spec, n),
                      .momentum = w->spec.momentum,
                      .decay = fli_model_decay(w->model, n),
                      .engine = e};
}

/* Methods divide by the weight, unless nothing was to be done. */
static int believable(const fl_problem *p, const fl_solution *s, fl_failure *f)
{
    char text[160];
    if (isfinite(s->weight) && (s->weight > 0 || !p->steps)) return 1;
    fli_snprintf(text, sizeof text, "its solution has the weight %g, but a weight is positive", s->weight);
    fl_failed(f, text);
    return 0;
}

static int call(const fl_solver *s, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    fli_registry_enter(s->traits);
    int failed = fli_failed_by(s->solve(s->arg, l, p, z, out, f), f);
    fli_registry_leave(s->traits);
    return failed || !believable(p, out, f);
}

/* An objective that has failed is known by its model: whoever asked for the task finds it there. */
static fl_status solve_task(const instance *in, fli_task *t)
{
    fli_worker *w = in->worker;
    const fl_problem *p = &t->problem;
    engine e = {.worker = w, .task = t};
    fl_local l = local_of(&e);
    double sgd = fli_sgd_weight(w->spec.momentum, p->steps);
    fl_solution out = {.weight = sgd, .steps = p->steps};
    fl_failure f = {{0}};
    fli_minibatch_init(w, t->view, t->view->train, t->view->n_train, NULL, &t->rng, &e.batch);
    fli_copy(&w->model->space, p->start, t->z);
    int failed = call(&in->solver->is, &l, p, t->z, &out, &f);
    t->answer = (fl_answer){.z = t->z,
                            .weight = out.weight,
                            .guessed = !out.weighed && p->steps && out.weight == sgd,
                            .steps = out.steps,
                            .missed = out.missed != 0};
    if (!failed) return FL_OK;
    if (!fli_has_failed(&f)) fl_failed(&f, NULL);
    fli_snprintf(t->why.text, sizeof t->why.text, "solver %s failed at client %" PRIu32 ", round %" PRIu64 ": %s",
                 in->solver->is.name, t->client, t->round + 1, f.text);
    return FL_ECALLBACK;
}

/* Once it has failed it is not called any more. */
static void solve(fl_ctx *ctx, void *opened, fli_task *const *tasks, size_t n)
{
    fl_status s = FL_OK;
    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        tasks[i]->why.text[0] = 0;
        if (!s) s = solve_task(opened, tasks[i]);
        tasks[i]->status = s;
    }
}

static void close_user_solver(void *opened)
{
    instance *in = opened;
    if (!in) return;
    fli_worker_close(in->worker);
    fli_free(in);
}

static fl_status open_user_solver(fl_ctx *ctx, const fli_solver *solver, const fli_open *how, void **opened)
{
    void *worker = NULL;
    instance *in = fli_alloc(ctx, 1, sizeof *in);
    fl_status s = in ? fli_worker_open(ctx, solver, how, &worker) : FL_ENOMEM;
    if (s) {
        fli_free(in);
        return s;
    }
    *in = (instance){worker, (const user_solver *)solver};
    *opened = in;
    return FL_OK;
}

/* ---- registering ------------------------------------------------------------------------------------------ */

static void solver_free(void *item)
{
    user_solver *o = item;
    if (!o) return;
    fli_arena_fini(&o->arena);
    fli_free(o);
}

static fli_registry solvers = FLI_REGISTRY_INIT(solver_free);

static fl_status check(fl_ctx *ctx, const fl_solver *s)
{
    if (s->traits & ~(unsigned)FL_SERIAL)
        return fli_fail(ctx, FL_ECONFIG, "solver %s has traits 0x%x, of which only FL_SERIAL is known", s->name,
                        s->traits);
    return s->solve ? FL_OK : fli_fail(ctx, FL_ECONFIG, "solver %s needs the function solve", s->name);
}

fl_status fli_user_solver_add(fl_ctx *ctx, const fl_solver *given)
{
    fl_status s = check(ctx, given);
    user_solver *o = s ? NULL : fli_alloc(ctx, 1, sizeof *o);
    if (!o) return s ? s : FL_ENOMEM;
    o->is = *given;
    fli_arena_init(&o->arena, ctx);
    o->is.name = fli_arena_strdup(&o->arena, given->name);
    o->is.title = fli_arena_strdup(&o->arena, given->title ? given->title : "a solver of one's own");
    if (!o->is.name || !o->is.title) {
        solver_free(o);
        return FL_ENOMEM;
    }
    o->desc = (fli_solver){.name = o->is.name,
                           .title = o->is.title,
                           .augments = 1,
                           .counts_steps = 1,
                           .open = open_user_solver,
                           .solve = solve,
                           .close = close_user_solver,
                           .bytes = fli_worker_bytes};
    return fli_registry_add(ctx, &solvers, o->is.name, o);
}

static const fli_solver *desc_of(const user_solver *o) { return o ? &o->desc : NULL; }

const fli_solver *fli_user_solver(const char *name) { return desc_of(fli_registry_find(&solvers, name)); }
const fli_solver *fli_user_solver_at(size_t k) { return desc_of(fli_registry_at(&solvers, k)); }
int fli_user_solver_forget(const char *name) { return fli_registry_forget(&solvers, name); }
