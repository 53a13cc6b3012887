/* What can be said of any method by its descriptor. */
#include "algo/algo.h"

#include <math.h>
#include <string.h>

const char *fli_algo_remedy(const fli_algo *a)
{
    if (a->remedy) return a->remedy;
    for (const fl_key *k = a->keys; k && k->name; k++)
        if (!strcmp(k->name, "server_lr")) return "a smaller local.lr or algorithm.server_lr";
    return FLI_LOCAL_REMEDY;
}

const fli_tune_range *fli_algo_tune(const fli_algo *a)
{
    static const fli_tune_range step[] = {FLI_TUNE_LR, {NULL}};
    return a->tune ? a->tune : step;
}

size_t fli_names_count(const char *const *names)
{
    size_t n = 0;
    while (names && names[n]) n++;
    return n;
}

size_t fli_algo_client_vectors(const fli_algo *a, int watched)
{
    return fli_names_count(a->client) + (watched ? a->theory.potential.vectors : 0);
}

size_t fli_algo_client_scalars(const fli_algo *a, int watched)
{
    return a->client_scalars + (watched ? a->theory.potential.scalars : 0);
}

static const fli_solver *wanted(const fli_algo *a, const void *params, size_t stage)
{
    return a->solver ? a->solver(params, stage) : &fli_solver_sgd;
}

int fli_algo_takes_solver(const fli_algo *a, const void *params)
{
    int steps = 0;
    for (size_t stage = 0; stage < FL_STAGES; stage++) {
        const fli_solver *s = wanted(a, params, stage);
        if (s != &fli_solver_sgd && s != &fli_solver_gradient) return 0;
        steps |= s == &fli_solver_sgd;
    }
    return steps;
}

fli_solvers fli_algo_solvers(const fli_algo *a, const void *params, const fli_model *m, const fli_solver *own)
{
    fli_solvers all = {.count = 0};
    for (size_t stage = 0; stage < FL_STAGES; stage++) {
        const fli_solver *s = wanted(a, params, stage);
        s = own && s == &fli_solver_sgd ? own : fli_solver_on(m, s);
        size_t i = 0;
        while (i < all.count && all.at[i] != s) i++;
        if (i == all.count) all.at[all.count++] = s;
        all.of[stage] = (unsigned char)i;
    }
    return all;
}

size_t fli_algo_stage(const fli_algo *a, const void *params, const fl_ask *ask)
{
    return a->rounds.stage ? a->rounds.stage(params, ask->phase, ask->phases) : 0;
}

size_t fli_algo_cost(const fli_algo *a, const void *params, const fli_solvers *all, const fl_ask *ask,
                     const fli_epochs *e)
{
    size_t stage = fli_algo_stage(a, params, ask), steps = (size_t)ask->steps;
    if (a->rounds.counts_as) return a->rounds.counts_as(params, stage, steps, e);
    return fli_solver_cost(all->at[all->of[stage]], steps, e->all);
}

unsigned fli_algo_moment(const fli_algo *a, const void *params, const fl_ask *ask)
{
    unsigned first = ask->flags & FLI_ASK_FIRST ? FL_AT_FIRST : 0;
    return first | (ask->warm_up ? FL_IN_WARM_UP : FL_IN_PHASE(fli_algo_stage(a, params, ask)));
}

int fli_algo_redraws(const fli_algo *a, const void *params, size_t phase, size_t phases)
{
    return !phase || (a->rounds.redraws && a->rounds.redraws(params, phase, phases));
}

size_t fli_algo_cohort_end(const fli_algo *a, const void *params, size_t phase, size_t phases)
{
    do phase++;
    while (phase < phases && !fli_algo_redraws(a, params, phase, phases));
    return phase;
}

fl_ask fli_algo_tell(const fli_algo *a, const fl_ask *ask)
{
    fl_ask sent = *ask;
    if (!(a->traits & FLI_ALGO_TELLS_WEIGHT)) sent.weight = NAN;
    return sent;
}

int fli_algo_shows_start(const fli_algo *a)
{
    const fl_part *const tables[] = {a->down, a->up};
    for (size_t i = 0; i < 2; i++)
        for (const fl_part *p = tables[i]; p && p->name; p++)
            if (p->what == FL_PART_START || p->when & FL_AT_FIRST) return 1;
    return 0;
}
