/* Registered solvers: copies of the users' structs, in a list of the whole process. They are called as built-in ones
 * (local.c). */
#include "solver/user_solver.h"

#include "base/user_registry.h"

typedef struct {
    fl_solver is; /* first: a pointer to this struct is one to the solver. Its texts are in the arena */
    fli_arena arena;
} user_solver;

static void solver_free(void *item)
{
    user_solver *o = item;
    if (!o) return;
    fli_arena_fini(&o->arena);
    fli_free(o);
}

static fli_registry solvers = FLI_REGISTRY_INIT(solver_free);

enum { FLI_USER_SOLVER_VECTORS = 64 }; /* the most of a kind */

static fl_status check(fl_ctx *ctx, const fl_solver *s)
{
    const unsigned known =
        FL_SERIAL | FL_SOLVER_FULL_GRADIENT | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS | FL_SOLVER_READS_RHO;
    if (s->traits & ~known)
        return fli_fail(ctx, FL_ECONFIG, "solver %s has traits 0x%x, of which 0x%x is not known", s->name, s->traits,
                        s->traits & ~known);
    if (s->work > FLI_USER_SOLVER_VECTORS || s->vectors > FLI_USER_SOLVER_VECTORS)
        return fli_fail(ctx, FL_ECONFIG, "solver %s has %zu work and %zu answer vectors, but at most %d are allowed",
                        s->name, s->work, s->vectors, FLI_USER_SOLVER_VECTORS);
    if (s->engine) return fli_fail(ctx, FL_ECONFIG, "solver %s has an engine, which is fedloom's own", s->name);
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
    o->is.traits |= FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS | FLI_SOLVER_REGISTERED;
    return fli_registry_add(ctx, &solvers, o->is.name, o);
}

const fl_solver *fli_user_solver(const char *name) { return fli_registry_find(&solvers, name); }
const fl_solver *fli_user_solver_at(size_t k) { return fli_registry_at(&solvers, k); }
int fli_user_solver_forget(const char *name) { return fli_registry_forget(&solvers, name); }
