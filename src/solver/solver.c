/* Schedules of step sizes, the memory and early end of tasks, and the choice of a solver for a model. */
#include "solver/solver.h"

#include "base/number.h"
#include "base/os.h"

#include <math.h>

/* ==== schedules =========================================================================================== */

enum { CONSTANT, SQRT, LOG2, EXPONENTIAL };

double fli_schedule_lr(const fli_schedule *s, double lr, double k)
{
    switch (s->kind) {
    case SQRT: return lr / sqrt(k);
    case LOG2: return lr / log2(k + 1);
    case EXPONENTIAL: return lr * pow(s->decay, k - 1);
    default: return lr;
    }
}

double fli_schedule_mean(const fli_schedule *s, uint64_t from, size_t steps)
{
    double sum = 0;
    for (size_t j = 1; j <= steps; j++) sum += fli_schedule_lr(s, 1, (double)(from + j));
    return steps ? sum / (double)steps : fli_schedule_lr(s, 1, (double)from + 1);
}

/* ==== tasks and solvers =================================================================================== */

int fli_halted(const fli_halt *h)
{
    if (!h) return 0;
    return atomic_load_explicit(&h->asked, memory_order_relaxed) || (h->until > 0 && fli_clock_now() >= h->until);
}

fl_status fli_task_init(fl_ctx *ctx, const fl_solver *solver, const fl_space *s, fli_task *out)
{
    *out = (fli_task){.stride = fli_vector_stride(s), .place = s->place};
    out->z = fli_vector_alloc(ctx, s, fli_bytes(s));
    if (solver->vectors) out->kept = fli_vector_alloc(ctx, s, solver->vectors * out->stride);
    if (out->z && (out->kept || !solver->vectors)) return FL_OK;
    fli_task_fini(out);
    return FL_ENOMEM;
}

void fli_task_fini(fli_task *t)
{
    const fl_space there = {.place = t->place};
    fli_vector_free(&there, t->z);
    fli_vector_free(&there, t->kept);
    *t = (fli_task){0};
}

double fli_task_bytes(const fl_solver *solver, const fli_model *m)
{
    return (1 + (double)solver->vectors) * (double)fli_bytes(&m->space);
}

void *fli_task_vector(const fli_task *t, size_t i) { return (char *)t->kept + i * t->stride; }

const fli_solver_engine *fli_solver_engine_of(const fl_solver *s)
{
    static const fli_solver_engine none;
    return s->engine ? s->engine : &none;
}

const fl_solver *fli_solver_on(const fli_model *m, const fl_solver *wanted)
{
    const fl_solver *latent = fli_solver_engine_of(wanted)->latent;
    return m->latent && latent ? latent : wanted;
}

size_t fli_solver_cost(const fl_solver *solver, size_t steps, size_t per_epoch)
{
    if (!(solver->traits & FL_SOLVER_FULL_GRADIENT)) return steps;
    return per_epoch + (solver->traits & FL_SOLVER_COUNTS_STEPS ? steps : 0);
}

const fl_solver *fli_solver_roomiest(const fl_solver *const *list, size_t n)
{
    const fl_solver *most = list[0];
    for (size_t i = 1; i < n; i++)
        if (list[i]->vectors > most->vectors) most = list[i];
    return most;
}

fl_status fli_solver_fits(fl_ctx *ctx, const fl_solver *solver, const fli_model *m)
{
    const fli_solver_engine *e = fli_solver_engine_of(solver);
    char who[64];
    fli_snprintf(who, sizeof who, "the %s solver", solver->name);
    if (solver->traits & FLI_SOLVER_HESSIAN && fli_model_needs_hvp(ctx, m, who)) return FL_ECONFIG;
    if ((m->desc->traits & e->model_traits) == e->model_traits) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "the %s solver is for %s; model %s needs another", solver->name, e->models,
                    m->desc->name);
}
