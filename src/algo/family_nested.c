#include "algo/family_nested.h"

#include <math.h>

enum { U };

const char *const fli_nested_sums[] = {"its average", NULL};

int fli_nested_answer(const fl_turn *t, const fl_answer *a)
{
    fli_copy(&t->space, a->z, t->up[U]);
    return 0;
}

int fli_nested_absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight / s->cohort_weight, t->up[U], s->sum[U]);
    return 0;
}

void fli_nested_blocks(const fl_coordinator *s, fl_space *upper, fl_space *lower)
{
    *upper = fli_upper_space(&s->space, s->bilevel->upper);
    *lower = fli_lower_space(&s->space, s->bilevel->upper);
}

void *fli_nested_lower(const fl_coordinator *s, void *vector)
{
    return fli_at(s->space.ops, vector, s->bilevel->upper);
}

static size_t steps_of(int64_t own, int64_t tau, size_t asked) { return own ? (size_t)own : tau ? (size_t)tau : asked; }

size_t fli_nested_inner(const fli_fednest_params *p, size_t asked, fl_levels *l)
{
    l->epochs = (size_t)p->inner_epochs;
    return steps_of(p->inner_steps, p->tau, asked);
}

size_t fli_nested_outer(const fli_fednest_params *p, size_t asked, fl_levels *l)
{
    l->epochs = (size_t)p->outer_epochs;
    return steps_of(p->outer_steps, p->tau, asked);
}

int fli_nested_validate(const void *params, size_t clients, fl_failure *f)
{
    const fli_fednest_params *p = params;
    (void)clients;
    if (p->inner_steps && p->inner_epochs)
        return fli_refuse(f, "algorithm.inner_steps and algorithm.inner_epochs exclude each other");
    if (p->outer_steps && p->outer_epochs)
        return fli_refuse(f, "algorithm.outer_steps and algorithm.outer_epochs exclude each other");
    return 0;
}

void fli_nested_check(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_fednest_params *p = params;
    fl_condition(out, "Neumann series", "L_i <= ell", f, f->smoothness, p->ell);
    if (isnan(f->sure_convexity))
        fl_assumption(out, "convexity", "g_i is strongly convex in y; for a convex loss bilevel.l2 makes it so");
    else
        fl_requirement(out, "convexity", "g_i is strongly convex in y: bilevel.l2 > 0", f, f->sure_convexity > 0);
    fl_assumption(out, "neumann", "the series has as many terms as its theorem asks for: too few leave a bias");
    fl_assumption(out, "Assumption A", "no g_i becomes more curved in y than L_i, measured at the start model");
    fl_assumption(out, "step sizes", "lr_in and lr_out are small enough for constants that are not measured here");
}

void fli_nested_fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    (void)worst;
    fl_fix_grow(out, "Neumann series", "algorithm.ell", ((const fli_fednest_params *)params)->ell, NULL);
}
