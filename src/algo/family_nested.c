#include "algo/family_nested.h"

#include <math.h>

enum { U };

const char *const fli_nested_sums[] = {"its average", NULL};

const fli_solver *fli_nested_solver(const void *params, size_t stage)
{
    (void)stage;
    (void)params;
    return &fli_solver_bilevel;
}

void fli_nested_answer(const fli_turn *t, const fli_answer *a) { fli_copy(t->space, a->z, t->up[U]); }

void fli_nested_absorb(const fli_server_step *s, const fli_upload *t)
{
    fli_axpy(s->space, t->ask->weight / s->cohort_weight, t->up[U], s->sum[U]);
}

void fli_nested_blocks(const fli_server_step *s, fli_space *upper, fli_space *lower)
{
    *upper = fli_upper_space(s->space, s->bilevel->upper);
    *lower = fli_lower_space(s->space, s->bilevel->upper);
}

void *fli_nested_lower(const fli_server_step *s, void *vector)
{
    return fli_at(s->space->ops, vector, s->bilevel->upper);
}

static size_t steps_of(int64_t own, int64_t tau, size_t asked) { return own ? (size_t)own : tau ? (size_t)tau : asked; }

size_t fli_nested_inner(const fli_fednest_params *p, size_t asked, fli_levels *l)
{
    l->epochs = (size_t)p->inner_epochs;
    return steps_of(p->inner_steps, p->tau, asked);
}

size_t fli_nested_outer(const fli_fednest_params *p, size_t asked, fli_levels *l)
{
    l->epochs = (size_t)p->outer_epochs;
    return steps_of(p->outer_steps, p->tau, asked);
}

fl_status fli_nested_validate(fl_ctx *ctx, const void *params, size_t clients)
{
    const fli_fednest_params *p = params;
    (void)clients;
    if (p->inner_steps && p->inner_epochs)
        return fli_fail(ctx, FL_ECONFIG, "algorithm.inner_steps and algorithm.inner_epochs exclude each other");
    if (p->outer_steps && p->outer_epochs)
        return fli_fail(ctx, FL_ECONFIG, "algorithm.outer_steps and algorithm.outer_epochs exclude each other");
    return FL_OK;
}

void fli_nested_check(const void *params, const fli_facts *f, fli_conditions *out)
{
    const fli_fednest_params *p = params;
    fli_condition(out, "Neumann series", "L_i <= ell", f, f->smoothness, p->ell);
    if (isnan(f->sure_convexity))
        fli_assumption(out, "convexity", "g_i is strongly convex in y; for a convex loss bilevel.l2 makes it so");
    else
        fli_requirement(out, "convexity", "g_i is strongly convex in y: bilevel.l2 > 0", f, f->sure_convexity > 0);
    fli_assumption(out, "neumann", "the series has as many terms as its theorem asks for: too few leave a bias");
    fli_assumption(out, "Assumption A", "no g_i becomes more curved in y than L_i, measured at the start model");
    fli_assumption(out, "step sizes", "lr_in and lr_out are small enough for constants that nobody can measure here");
}

void fli_nested_fix(const void *params, const fli_facts *worst, fli_fixes *out)
{
    (void)worst;
    fli_fix_grow(out, "Neumann series", "algorithm.ell", ((const fli_fednest_params *)params)->ell, NULL);
}
