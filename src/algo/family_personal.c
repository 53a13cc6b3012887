#include "algo/family_personal.h"

#include <math.h>

void fli_personal_pose(const fli_personal_params *p, const fl_turn *t, size_t own, double times, fl_problem *out)
{
    if (t->first) fli_copy(&t->space, t->initial, t->state[own]);
    out->pair.start = t->state[own];
    out->pair.lr = p->lr_local > 0 ? p->lr_local : times * t->ask.lr;
    out->pair.mix = p->mix.n ? fli_reals_at(&p->mix, t->ask.client) : NAN;
}

void fli_personal_answer(const fl_turn *t, const fl_answer *a, size_t own, size_t mix)
{
    fli_copy(&t->space, a->pair.own, t->state[own]);
    t->scalars[mix] = a->pair.mix;
}

double fli_personal_mix(const fli_personal_params *p, size_t client, const double *scalars)
{
    if (scalars) return scalars[0];
    return p->mix.n ? fli_reals_at(&p->mix, client) : FLI_FIRST_MIX;
}
