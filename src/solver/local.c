/* Calls of solvers: instances, tasks one after the other for solvers without a `run` of their own, and the functions
 * that a solver may call. */
#include "base/number.h"
#include "base/user_registry.h"
#include "solver/minibatch.h"

#include <inttypes.h>
#include <math.h>

static fl_local local_of(fli_local *e)
{
    const fli_worker *w = e->worker;
    const fli_task *t = e->task;
    size_t n = t->view->n_train;
    return (fl_local){.space = w->model->space,
                      .client = t->client,
                      .round = t->round,
                      .samples = n,
                      .batch = fli_batch_size(&w->spec, n),
                      .momentum = w->spec.momentum,
                      .decay = fli_model_decay(w->model, n),
                      .engine = e,
                      .kept = t->cache};
}

/* Checks the answer of a registered solver. Methods divide by the weight, unless there was no work. */
static fl_status check_answer(const fl_solver *s, fli_task *t, double sgd, fl_failure *f)
{
    fl_answer *a = &t->answer;
    size_t steps = t->problem.steps;
    if (!fli_has_failed(f) && (!isfinite(a->weight) || (a->weight <= 0 && steps)))
        fli_refuse(f, "its solution has the weight %g, but a weight is positive", a->weight);
    a->z = t->z;
    a->weighed = a->weighed || !steps || a->weight != sgd;
    if (!fli_has_failed(f)) return FL_OK;
    fli_snprintf(t->why.text, sizeof t->why.text, "solver %s failed at client %" PRIu32 ", round %" PRIu64 ": %s",
                 s->name, t->client, t->round + 1, f->text);
    return FL_ECALLBACK;
}

/* If an objective fails, its model knows: the caller looks there. */
static fl_status solve_task(fl_ctx *ctx, const fl_solver *s, fli_worker *w, fli_task *t)
{
    fli_local e; /* its mini-batches are made on request */
    e.ctx = ctx, e.worker = w, e.task = t, e.drawing = 0;
    fl_local l = local_of(&e);
    const fl_problem *p = &t->problem;
    double sgd = fli_sgd_weight(w->spec.momentum, p->steps);
    fl_failure f;
    t->answer = (fl_answer){.z = t->z, .weight = sgd, .steps = p->steps};
    fli_copy(&l.space, p->start, t->z);
    if (!(s->traits & FLI_SOLVER_REGISTERED)) return (fl_status)s->solve(s->arg, &l, p, t->z, &t->answer, &f);
    fli_rng seed = t->rng; /* the original stream draws the mini-batches */
    l.seed = fli_rng_u64(&seed);
    f.text[0] = t->why.text[0] = 0;
    fli_registry_enter(s->traits);
    if (s->solve(s->arg, &l, p, t->z, &t->answer, &f)) fl_failed(&f, NULL);
    fli_registry_leave(s->traits);
    return check_answer(s, t, sgd, &f);
}

fl_status fli_solver_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance)
{
    const fli_solver_engine *e = fli_solver_engine_of(solver);
    return e->open ? e->open(ctx, solver, how, instance) : fli_worker_open(ctx, solver, how, instance);
}

/* A registered solver that has failed is not called again. */
void fli_solver_run(fl_ctx *ctx, const fl_solver *solver, void *instance, fli_task *const *tasks, size_t n)
{
    const fli_solver_engine *e = fli_solver_engine_of(solver);
    fl_status failed = FL_OK;
    if (e->run) {
        e->run(ctx, instance, tasks, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        tasks[i]->status = failed ? failed : solve_task(ctx, solver, instance, tasks[i]);
        if (solver->traits & FLI_SOLVER_REGISTERED) failed = tasks[i]->status;
    }
}

void fli_solver_close(const fl_solver *solver, void *instance)
{
    const fli_solver_engine *e = fli_solver_engine_of(solver);
    if (instance) (e->close ? e->close : fli_worker_close)(instance);
}

double fli_solver_bytes(const fl_solver *solver, const fli_open *how)
{
    const fli_solver_engine *e = fli_solver_engine_of(solver);
    return (e->bytes ? e->bytes : fli_worker_bytes)(solver, how);
}

/* ==== functions for solvers ================================================================================ */

/* Adds weight decay, and returns nonzero if the objective has failed. */
static int finish(const fli_local *e, double decay, const void *x, void *g, double value, double *loss)
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
    const fli_local *e = l->engine;
    const fli_view *v = e->task->view;
    double value = fli_eval_loss(e->worker->eval, v->ds, v->train, v->n_train, x, g, NULL);
    return finish(e, fli_model_decay(e->worker->model, v->n_train), x, g, value, loss);
}

size_t fl_local_next(const fl_local *l, const uint32_t **sample, double *decay)
{
    fli_local *e = l->engine;
    const fli_view *v = e->task->view;
    if (!e->drawing) fli_minibatch_init(e->worker, v, v->train, v->n_train, NULL, &e->task->rng, &e->batch);
    e->drawing = 1;
    fli_minibatch_next(&e->batch);
    size_t n = fli_minibatch_samples(&e->batch);
    if (decay) *decay = fli_model_step_decay(e->worker->model, v->n_train, n);
    *sample = e->batch.plain.now;
    return n;
}

int fl_local_batch(const fl_local *l, const void *x, void *g, double *loss)
{
    fli_local *e = l->engine;
    const uint32_t *sample;
    double decay;
    fl_local_next(l, &sample, &decay);
    e->batch.gathered = 0; /* fl_local_loss may have gathered other samples since */
    double value = fli_minibatch_grad(&e->batch, &(fli_point){.x = x, .g = g ? g : e->worker->grad});
    return finish(e, decay, x, g, value, loss);
}

void *fl_local_work(const fl_local *l, size_t i) { return fli_worker_vector(((fli_local *)l->engine)->worker, i); }
void *fl_local_vector(const fl_local *l, size_t i) { return fli_task_vector(((fli_local *)l->engine)->task, i); }
