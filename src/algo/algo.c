/* Calls of a method's functions, and what follows from its descriptor: solvers, costs, remedies. */
#include "algo/algo.h"

#include "base/number.h"
#include "solver/user_solver.h"

#include <math.h>
#include <string.h>

const char *fli_algo_remedy(const fl_method *a)
{
    if (a->remedy) return a->remedy;
    for (const fl_key *k = a->keys; k && k->name; k++)
        if (!strcmp(k->name, "server_lr")) return "a smaller local.lr or algorithm.server_lr";
    return FLI_LOCAL_REMEDY;
}

const fl_tune_range *fli_algo_tune(const fl_method *a)
{
    static const fl_tune_range step[] = {FLI_TUNE_LR, {NULL}};
    return a->tune ? a->tune : step;
}

size_t fli_names_count(const char *const *names)
{
    size_t n = 0;
    while (names && names[n]) n++;
    return n;
}

size_t fli_algo_client_vectors(const fl_method *a, int watched)
{
    return fli_names_count(a->client) + (watched ? a->theory.potential.vectors : 0);
}

size_t fli_algo_client_scalars(const fl_method *a, int watched)
{
    return a->client_scalars + (watched ? a->theory.potential.scalars : 0);
}

size_t fli_algo_own_model(const fl_method *a)
{
    for (size_t i = 0; a->own_model && a->client && a->client[i]; i++)
        if (!strcmp(a->client[i], a->own_model)) return i + 1;
    return 0;
}

/* ---- solvers --------------------------------------------------------------------------------------------- */

const fl_solver *fli_algo_solver_named(const char *name)
{
    static const struct {
        const char *name;
        const fl_solver *solver;
    } known[] = {
        {"sgd", &fli_solver_sgd},   {"gradient", &fli_solver_gradient}, {"sgd_gradient", &fli_solver_sgd_gradient},
        {"pair", &fli_solver_pair}, {"exact", &fli_solver_exact},       {"accurate", &fli_solver_accurate},
        {"gram", &fli_solver_gram}, {"diagonal", &fli_solver_diagonal}, {"bilevel", &fli_solver_bilevel}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].solver;
    return fli_user_solver(name);
}

int fli_algo_solver_word(const char *list, size_t i, char *buf, size_t size)
{
    if (!list) list = "sgd";
    return fli_choice_word(list, strchr(list, '|') ? (int)i : 0, buf, size);
}

/* The solver of a stage. A forgotten solver is refused when a configuration is checked. */
static const fl_solver *wanted(const fl_method *a, const void *params, size_t stage)
{
    char word[64];
    const char *name = word;
    if (!fli_algo_solver_word(a->solver, stage, word, sizeof word))
        fli_algo_solver_word(a->solver, 0, word, sizeof word);
    if (a->solver_for) {
        fli_algo_enter(a);
        name = a->solver_for(params, stage);
        fli_algo_leave(a);
    }
    const fl_solver *found = name ? fli_algo_solver_named(name) : NULL;
    return found ? found : &fli_solver_sgd;
}

int fli_algo_takes_solver(const fl_method *a, const void *params)
{
    int steps = 0;
    for (size_t stage = 0; stage < FL_STAGES; stage++) {
        const fl_solver *s = wanted(a, params, stage);
        if (s != &fli_solver_sgd && s != &fli_solver_gradient) return 0;
        steps |= s == &fli_solver_sgd;
    }
    return steps;
}

fli_solvers fli_algo_solvers(const fl_method *a, const void *params, const fli_model *m, const fl_solver *own)
{
    fli_solvers all = {.count = 0};
    for (size_t stage = 0; stage < FL_STAGES; stage++) {
        const fl_solver *s = wanted(a, params, stage);
        s = own && s == &fli_solver_sgd ? own : fli_solver_on(m, s);
        size_t i = 0;
        while (i < all.count && all.at[i] != s) i++;
        if (i == all.count) all.at[all.count++] = s;
        all.of[stage] = (unsigned char)i;
    }
    return all;
}

static size_t stage_of(const fl_method *a, const void *params, const fl_ask *ask)
{
    return fli_algo_stage(a, params, ask->phase, ask->phases);
}

size_t fli_algo_cost(const fl_method *a, const void *params, const fli_solvers *all, const fl_ask *ask,
                     const fl_epochs *e)
{
    size_t stage = stage_of(a, params, ask), steps = (size_t)ask->steps;
    if (!a->rounds.counts_as) return fli_solver_cost(all->at[all->of[stage]], steps, e->all);
    fli_algo_enter(a);
    size_t cost = a->rounds.counts_as(params, stage, steps, e);
    fli_algo_leave(a);
    return cost;
}

unsigned fli_algo_moment(const fl_method *a, const void *params, const fl_ask *ask)
{
    unsigned first = ask->flags & FLI_ASK_FIRST ? FL_AT_FIRST : 0;
    return first | (ask->warm_up ? FL_IN_WARM_UP : FL_IN_PHASE(stage_of(a, params, ask)));
}

size_t fli_algo_cohort_end(const fl_method *a, const void *params, size_t phase, size_t phases)
{
    do phase++;
    while (phase < phases && !fli_algo_redraws(a, params, phase, phases));
    return phase;
}

fl_ask fli_algo_tell(const fl_method *a, const fl_ask *ask)
{
    fl_ask sent = *ask;
    if (!(a->traits & FL_METHOD_TELLS_WEIGHT)) sent.weight = NAN;
    return sent;
}

int fli_algo_shows_start(const fl_method *a)
{
    const fl_part *const tables[] = {a->down, a->up};
    for (size_t i = 0; i < 2; i++)
        for (const fl_part *p = tables[i]; p && p->name; p++)
            if (p->what == FL_PART_START || p->when & FL_AT_FIRST) return 1;
    return 0;
}

/* ==== calling a method ==================================================================================== */

/* Methods of fedloom never have FL_SERIAL: for them these do nothing. */
void fli_algo_enter(const fl_method *a) { fli_registry_enter(a->traits); }
void fli_algo_leave(const fl_method *a) { fli_registry_leave(a->traits); }

/* ---- steps ----------------------------------------------------------------------------------------------- */

static void end_call(const fl_method *a, int failed, fl_failure *f)
{
    if (failed) fl_failed(f, NULL);
    fli_algo_leave(a);
}

void fli_algo_start(const fl_method *a, const fl_coordinator *s)
{
    if (!a->start) return;
    fli_algo_enter(a);
    end_call(a, a->start(s), s->failure);
}

/* Checks a problem that a registered method has posed. Only linearised solvers read rho without an anchor. */
static void check_posed(const fl_method *a, const fl_turn *t, fl_problem *p)
{
    char text[160];
    if (!p->start) fl_failed(t->failure, "the problem has no `start`");
    if (!isfinite(p->lr) || !isfinite(p->rho)) {
        fli_snprintf(text, sizeof text, "the problem has lr %g and rho %g, but both are numbers", p->lr, p->rho);
        fl_failed(t->failure, text);
    }
    if (p->anchor || p->rho == 0) return;
    const fl_solver *s = wanted(a, t->bound, t->stage);
    if (!(s->traits & FL_SOLVER_READS_RHO)) p->rho = 0;
}

void fli_algo_pose(const fl_method *a, const fl_turn *t, fl_problem *p)
{
    fli_algo_enter(a);
    int failed = a->pose(t, p);
    end_call(a, failed, t->failure);
    if (a->traits & FLI_METHOD_REGISTERED && !failed) check_posed(a, t, p);
}

void fli_algo_answer(const fl_method *a, const fl_turn *t, const fl_answer *answer)
{
    fli_algo_enter(a);
    end_call(a, a->answer(t, answer), t->failure);
}

void fli_algo_absorb(const fl_method *a, const fl_coordinator *s, const fl_upload *u)
{
    fli_algo_enter(a);
    end_call(a, a->absorb(s, u), s->failure);
}

void fli_algo_advance(const fl_method *a, const fl_coordinator *s)
{
    fli_algo_enter(a);
    end_call(a, a->advance(s), s->failure);
}

void fl_prox(const fl_coordinator *s, double eta, void *x)
{
    const fli_server_engine *e = s->engine;
    if (e->whole)
        e->prox(e->arg, eta, x);
    else
        fl_failed(s->failure, "fl_prox is for `start` and `advance`: `absorb` may have a slice of the vectors only");
}

double fl_weight(const fl_coordinator *s, size_t client)
{
    const fli_server_engine *e = s->engine;
    return client < s->clients ? e->weight(e->arg, client) : 0;
}

size_t fl_upper(const fl_coordinator *s) { return s->bilevel ? s->bilevel->upper : 0; }

/* ---- groups ---------------------------------------------------------------------------------------------- */

int fli_algo_warms_up(const fl_method *a, const void *params)
{
    if (!a->rounds.warms_up) return a->warms_up != 0;
    fli_algo_enter(a);
    int does = a->rounds.warms_up(params) != 0;
    fli_algo_leave(a);
    return does;
}

int fli_algo_exchanges(const fl_method *a, const void *params, size_t round, double coin)
{
    if (!a->rounds.exchanges) return 1;
    fli_algo_enter(a);
    int does = a->rounds.exchanges(params, round, coin) != 0;
    fli_algo_leave(a);
    return does;
}

size_t fli_algo_phases(const fl_method *a, const void *params, double coin)
{
    if (!a->rounds.phases) return a->phases ? a->phases : 1;
    fli_algo_enter(a);
    size_t n = a->rounds.phases(params, coin);
    fli_algo_leave(a);
    return n ? n : 1;
}

int fli_algo_redraws(const fl_method *a, const void *params, size_t phase, size_t phases)
{
    if (!phase || !a->rounds.redraws) return !phase;
    fli_algo_enter(a);
    int does = a->rounds.redraws(params, phase, phases) != 0;
    fli_algo_leave(a);
    return does;
}

size_t fli_algo_stage(const fl_method *a, const void *params, size_t phase, size_t phases)
{
    if (!a->rounds.stage) return a->rounds.phases || phase >= a->phases ? 0 : phase;
    fli_algo_enter(a);
    size_t stage = a->rounds.stage(params, phase, phases);
    fli_algo_leave(a);
    return stage < FL_STAGES ? stage : FL_STAGES - 1; /* refused when a configuration is checked */
}

size_t fli_algo_steps(const fl_method *a, const void *params, double coin)
{
    fli_algo_enter(a);
    size_t n = a->rounds.steps(params, coin);
    fli_algo_leave(a);
    return n ? n : 1;
}

int fli_algo_is_async(const fl_method *a) { return a->async.pace || a->buffer; }

fl_pace fli_algo_pace(const fl_method *a, const void *params)
{
    if (!a->async.pace) return (fl_pace){.buffer = a->buffer};
    fli_algo_enter(a);
    fl_pace pace = a->async.pace(params);
    fli_algo_leave(a);
    if (!pace.buffer) pace.buffer = 1;
    return pace;
}

double fli_algo_mix(const fl_method *a, const void *params, size_t client, const double *scalars)
{
    if (!a->personal.mix) return 1;
    fli_algo_enter(a);
    double mix = a->personal.mix(params, client, scalars);
    fli_algo_leave(a);
    return mix;
}
