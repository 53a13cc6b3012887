/* A solver with an instance and a task, for tests and benchmarks that solve one problem at a time. */
#ifndef TESTS_SOLVE_H
#define TESTS_SOLVE_H

#include "solver/worker.h"

typedef struct {
    const fl_solver *solver;
    fli_eval eval;
    void *instance;
    fli_task task;
} solving;

static inline void solving_fini(solving *s)
{
    if (!s->solver) return;
    fli_task_fini(&s->task);
    fli_solver_close(s->solver, s->instance);
    fli_eval_fini(&s->eval);
    *s = (solving){0};
}

static inline fl_status solving_init(fl_ctx *ctx, const fl_solver *solver, const fli_model *m, const fli_sgd_spec *sgd,
                                     size_t largest, solving *out)
{
    *out = (solving){.solver = solver};
    fli_open how = {.model = m, .sgd = *sgd, .largest = largest, .eval = &out->eval};
    fl_status s = fli_eval_init(ctx, m, &out->eval);
    if (!s) s = fli_solver_open(ctx, solver, &how, &out->instance);
    if (!s) s = fli_task_init(ctx, solver, &m->space, &out->task);
    if (s) solving_fini(out);
    return s;
}

/* Poses the task; rng and cache may be NULL for solvers that need none. */
static inline fli_task *solving_pose(solving *s, const fli_view *v, const fl_problem *p, const fli_rng *rng,
                                     void **cache)
{
    s->task.problem = *p;
    s->task.view = v;
    s->task.rng = rng ? *rng : (fli_rng){0};
    s->task.cache = cache;
    return &s->task;
}

/* The answer is good until the next call. */
static inline fl_status solving_solve(fl_ctx *ctx, solving *s, const fli_view *v, const fl_problem *p,
                                      const fli_rng *rng, void **cache, fl_answer *a)
{
    fli_task *t = solving_pose(s, v, p, rng, cache);
    fli_solver_run(ctx, s->solver, s->instance, &t, 1);
    *a = t->answer;
    return t->status;
}

#endif
