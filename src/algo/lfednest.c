/* LFedNest: the light version of FedNest. Clients use their own derivatives, and only y and x are averaged.
 *
 *   inner    T times: tau steps, or the given number of epochs, y <- y - lr_in grad_y g_i; averaged to y  T exchanges
 *   outer    tau steps x <- x - lr_out (grad_x f_i - g_xy v_i); averaged to x                           1 exchange
 *            v_i = (1/ell) sum_{n=0..N} (I - H_i/ell)^n grad_y f_i at the client's own x
 *
 * Steps on the two levels may differ in number, and the clients of the outer exchange from those of the inner ones. The
 * authors' program takes five epochs inside, and outside one step with derivatives over all samples (`anchor: full`).
 *
 * If clients differ it does not find the federation's hypergradient: the inverse of an average is not the average of
 * the inverses.
 *
 * Tarzanagh, Li, Thrampoulidis, Oymak: FedNest: federated bilevel, minimax, and compositional optimization, ICML
 * 2022. */
#include "algo/algo.h"
#include "algo/family_nested.h"

enum { Z }; /* server: (x, y) */
enum { U }; /* up, sum */

static const fl_key keys[] = {FLI_FEDNEST_KEYS, FLI_KEY_END};

static const char *const server[] = {"(x, y)", NULL};

enum { FIRST, INNER, OUTER, OUTER_FRESH }; /* stages; fresh: with clients that have received nothing in this round */

/* The client keeps x, and the y that it received last. */
static const fl_part down[] = {
    {"(x, y)", FL_PART_VECTOR, Z, FL_PART_KEEP, FL_IN_PHASE(FIRST) | FL_IN_PHASE(OUTER_FRESH)},
    {"y", FL_PART_LOWER, Z, FL_PART_KEEP, FL_IN_PHASE(INNER) | FL_IN_PHASE(OUTER)},
    {NULL}};
static const fl_part up[] = {{"y_i", FL_PART_LOWER, U, FL_PART_VALUE, FL_IN_PHASE(FIRST) | FL_IN_PHASE(INNER)},
                             {"x_i", FL_PART_UPPER, U, FL_PART_VALUE, FL_IN_PHASE(OUTER) | FL_IN_PHASE(OUTER_FRESH)},
                             {NULL}};

static size_t phases(const void *params, double coin)
{
    (void)coin;
    return (size_t)((const fli_fednest_params *)params)->nest.inner_rounds + 1;
}

static size_t stage(const void *params, size_t phase, size_t count)
{
    const fli_fednest_params *p = params;
    if (phase + 1 == count) return p->cohort == FLI_NEST_ROUND ? OUTER : OUTER_FRESH;
    return !phase || p->cohort == FLI_NEST_EACH ? FIRST : INNER;
}

static int redraws(const void *params, size_t phase, size_t count)
{
    size_t now = stage(params, phase, count);
    return now == FIRST || now == OUTER_FRESH;
}

static int is_outer(size_t now) { return now == OUTER || now == OUTER_FRESH; }

/* Fills in the work of a stage and returns its steps; `asked` are those of `local`. */
static size_t work_of(const fli_fednest_params *a, size_t now, size_t asked, fl_levels *l)
{
    *l = (fl_levels){.work = FL_WORK_LOWER_STEPS};
    if (!is_outer(now)) return fli_nested_inner(a, asked, l);
    *l = (fl_levels){
        .work = FL_WORK_OWN_STEPS, .neumann = (size_t)a->neumann, .ell = a->ell, .full = a->anchor == FLI_NEST_FULL};
    return fli_nested_outer(a, asked, l);
}

static size_t counts_as(const void *params, size_t now, size_t steps, const fl_epochs *e)
{
    fl_levels l;
    steps = work_of(params, now, steps, &l);
    return fli_levels_cost(&l, steps, e);
}

static int pose(const fl_turn *t, fl_problem *p)
{
    const fli_fednest_params *a = t->bound;
    p->start = t->down[Z];
    p->steps = work_of(a, t->stage, t->ask.steps, &p->levels);
    p->lr = is_outer(t->stage) ? a->nest.lr_out : a->nest.lr_in;
    return 0;
}

static int advance(const fl_coordinator *s)
{
    fl_space upper, lower;
    fli_nested_blocks(s, &upper, &lower);
    if (!is_outer(s->stage))
        fli_copy(&lower, fli_nested_lower(s, s->sum[U]), fli_nested_lower(s, s->vec[Z]));
    else
        fli_copy(&upper, s->sum[U], s->vec[Z]);
    return 0;
}

static const fl_tune_range tune[] = {{"algorithm.lr_in", 0.001, 1, 1}, {"algorithm.lr_out", 0.001, 1, 1}, {NULL}};

const fl_method fli_algo_lfednest = {
    .name = "lfednest",
    .title = "FedNest with the clients' own hypergradients: two exchanges per round",
    .citation = "Tarzanagh et al., ICML 2022",
    .traits = FL_METHOD_BILEVEL | FL_METHOD_WHOLE_ADVANCE,
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(fli_fednest_params),
    .server = server,
    .down = down,
    .up = up,
    .sums = fli_nested_sums,
    .validate = fli_nested_validate,
    .theory.check = fli_nested_check,
    .theory.fix = fli_nested_fix,
    .remedy = "smaller algorithm.lr_in and algorithm.lr_out, or a larger algorithm.ell",
    .solver = "bilevel",
    .rounds.phases = phases,
    .rounds.stage = stage,
    .rounds.redraws = redraws,
    .rounds.counts_as = counts_as,
    .pose = pose,
    .answer = fli_nested_answer,
    .absorb = fli_nested_absorb,
    .advance = advance,
};
