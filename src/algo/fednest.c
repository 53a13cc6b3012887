/* FedNest: bilevel optimisation by nested loops, each variance reduced; many exchanges per round.
 *
 *   inner    T times: the clients' grad_y g_i(x, y) are averaged to G; then tau steps, or the given number of epochs,
 *            z <- z - lr_in (grad g_i(z) - grad g_i(y) + G) from y; the results are averaged to y   2T exchanges
 *   between  p = grad_y F, averaged; N times p <- p - H p/ell with averaged products H p
 *            v = (1/ell) times the sum of all these p (`sum`), or (N+1)/ell times the last after a random number N' of
 *            0..N of them (`random`, unbiased for the sum, as in the paper)   1 + N (or N') exchanges
 *   outer    h = grad_x F - g_xy v, averaged; then tau steps
 *            z <- z - lr_out (grad_x f_i(z, y) - grad_x f_i(x, y) + h) from x, averaged to x       2 exchanges
 *
 * Averages are over the cohort, with p_i/sum_S p. A client is sent (x, y) in its first exchange, and later only what
 * has changed. Steps on the two levels may differ in number.
 *
 * The authors' program differs from the paper, and these keys follow either: it takes five epochs inside and one step
 * outside, all derivatives but those of the inner steps over all samples (`anchor: full`), and draws one cohort for
 * every inner round and another for the rest (`cohort: each`); its 1/ell is lr_out. It also averages products and sums
 * in a different way, which is not followed here.
 *
 * Tarzanagh, Li, Thrampoulidis, Oymak: FedNest: federated bilevel, minimax, and compositional optimization, ICML
 * 2022. */
#include "algo/algo.h"
#include "algo/family_nested.h"

enum { Z, D, V }; /* server: (x, y); (h, G or p); v, in the lower block */
enum { U };       /* up, sum */

static const fl_key keys[] = {
    FLI_FEDNEST_KEYS,
    FLI_KEY_CHOICE(fli_fednest_params, estimate, "sum", "sum|random",
                   "of the inverse Hessian: the whole sum, or one random term of it"),
    FLI_KEY_END,
};

static const char *const server[] = {"(x, y)", "(h, p)", "v", NULL};

/* The exchanges of a round in order. */
enum {
    FIRST_GRADIENT, /* the inner gradient that begins the round: x is sent with it */
    INNER_GRADIENT,
    INNER_STEPS,
    SYSTEM_START,
    SYSTEM_PRODUCT,
    HYPERGRADIENT,
    OUTER_STEPS,
    SYSTEM_FRESH /* SYSTEM_START with clients that have received nothing in this round */
};

static const fl_part down[] = {
    {"(x, y)", FL_PART_VECTOR, Z, FL_PART_KEEP, FL_IN_PHASE(FIRST_GRADIENT) | FL_IN_PHASE(SYSTEM_FRESH)},
    {"y", FL_PART_LOWER, Z, FL_PART_KEEP, FL_IN_PHASE(INNER_GRADIENT) | FL_IN_PHASE(SYSTEM_START)},
    {"G or p", FL_PART_LOWER, D, FL_PART_FORGET, FL_IN_PHASE(INNER_STEPS) | FL_IN_PHASE(SYSTEM_PRODUCT)},
    {"v", FL_PART_LOWER, V, FL_PART_FORGET, FL_IN_PHASE(HYPERGRADIENT)},
    {"h", FL_PART_UPPER, D, FL_PART_FORGET, FL_IN_PHASE(OUTER_STEPS)},
    {NULL},
};
static const fl_part up[] = {
    {"grad_y g_i or grad_y f_i", FL_PART_LOWER, U, FL_PART_VALUE,
     FL_IN_PHASE(FIRST_GRADIENT) | FL_IN_PHASE(INNER_GRADIENT) | FL_IN_PHASE(SYSTEM_START) | FL_IN_PHASE(SYSTEM_FRESH)},
    {"y_i", FL_PART_LOWER, U, FL_PART_VALUE, FL_IN_PHASE(INNER_STEPS)},
    {"H_i p", FL_PART_LOWER, U, FL_PART_CHANGE, FL_IN_PHASE(SYSTEM_PRODUCT)},
    {"h_i or x_i", FL_PART_UPPER, U, FL_PART_VALUE, FL_IN_PHASE(HYPERGRADIENT) | FL_IN_PHASE(OUTER_STEPS)},
    {NULL},
};

static size_t stage(const void *params, size_t at, size_t phases)
{
    const fli_fednest_params *p = params;
    size_t inner = 2 * (size_t)p->nest.inner_rounds;
    if (at < inner && at % 2) return INNER_STEPS;
    if (at < inner) return !at || p->cohort == FLI_NEST_EACH ? FIRST_GRADIENT : INNER_GRADIENT;
    if (at == inner) return p->cohort == FLI_NEST_ROUND ? SYSTEM_START : SYSTEM_FRESH;
    if (at + 1 == phases) return OUTER_STEPS;
    return at + 2 == phases ? HYPERGRADIENT : SYSTEM_PRODUCT;
}

static int redraws(const void *params, size_t at, size_t phases)
{
    size_t now = stage(params, at, phases);
    return now == FIRST_GRADIENT || now == SYSTEM_FRESH;
}

static size_t phases(const void *params, double coin)
{
    const fli_fednest_params *p = params;
    size_t products = (size_t)p->neumann;
    if (p->estimate == FLI_NEST_RANDOM) products = (size_t)(coin * (double)(products + 1));
    return 2 * (size_t)p->nest.inner_rounds + products + 3;
}

/* Fills in the work of a stage, with (h, p) and v as the client received them; returns its steps, `asked` being those
 * of `local`. */
static size_t work_of(const fli_fednest_params *a, size_t now, size_t asked, const void *d, const void *v, fl_levels *l)
{
    static const fl_level_work kinds[] = {
        [FIRST_GRADIENT] = FL_WORK_LOWER_GRADIENT, [INNER_GRADIENT] = FL_WORK_LOWER_GRADIENT,
        [INNER_STEPS] = FL_WORK_LOWER_STEPS,       [SYSTEM_START] = FL_WORK_UPPER_GRADIENT,
        [SYSTEM_FRESH] = FL_WORK_UPPER_GRADIENT,   [SYSTEM_PRODUCT] = FL_WORK_PRODUCT,
        [HYPERGRADIENT] = FL_WORK_HYPERGRADIENT,   [OUTER_STEPS] = FL_WORK_UPPER_STEPS,
    };
    *l = (fl_levels){.work = kinds[now], .full = a->anchor == FLI_NEST_FULL && now != INNER_STEPS};
    l->v = now == SYSTEM_PRODUCT ? d : v;
    l->shift = d;
    if (now == INNER_STEPS) return fli_nested_inner(a, asked, l);
    return now == OUTER_STEPS ? fli_nested_outer(a, asked, l) : asked;
}

static size_t counts_as(const void *params, size_t now, size_t steps, const fl_epochs *e)
{
    fl_levels l;
    steps = work_of(params, now, steps, params, NULL, &l); /* any shift counts: steps are variance reduced */
    return fli_levels_cost(&l, steps, e);
}

static int pose(const fl_turn *t, fl_problem *p)
{
    const fli_fednest_params *a = t->bound;
    p->start = t->down[Z];
    p->steps = work_of(a, t->stage, t->ask.steps, t->down[D], t->down[V], &p->levels);
    p->lr = t->stage == INNER_STEPS ? a->nest.lr_in : a->nest.lr_out;
    return 0;
}

/* After the last p: v = the sum, or the term that replaces it, over ell. */
static void finish_system(const fl_coordinator *s, const fl_space *lower)
{
    const fli_fednest_params *a = s->bound;
    void *v = fli_nested_lower(s, s->vec[V]);
    if (a->estimate == FLI_NEST_SUM)
        fli_scale(lower, 1 / a->ell, v);
    else
        fli_lin(lower, (double)(a->neumann + 1) / a->ell, fli_nested_lower(s, s->vec[D]), 0, v, v);
}

static int advance(const fl_coordinator *s)
{
    const fli_fednest_params *a = s->bound;
    fl_space upper, lower;
    fli_nested_blocks(s, &upper, &lower);
    void *mean = fli_nested_lower(s, s->sum[U]), *p = fli_nested_lower(s, s->vec[D]),
         *v = fli_nested_lower(s, s->vec[V]);
    switch (s->stage) {
    case FIRST_GRADIENT:
    case INNER_GRADIENT: fli_copy(&lower, mean, p); break;
    case INNER_STEPS: fli_copy(&lower, mean, fli_nested_lower(s, s->vec[Z])); break;
    case SYSTEM_START:
    case SYSTEM_FRESH:
        fli_zero(&upper, s->vec[D]);
        fli_copy(&lower, mean, p);
        fli_copy(&lower, p, v);
        break;
    case SYSTEM_PRODUCT:
        fli_axpy(&lower, -1 / a->ell, mean, p);
        fli_axpy(&lower, 1, p, v);
        break;
    case HYPERGRADIENT: fli_copy(&upper, s->sum[U], s->vec[D]); break;
    case OUTER_STEPS: fli_copy(&upper, s->sum[U], s->vec[Z]); break;
    }
    if (s->phase + 3 == s->phases) finish_system(s, &lower);
    return 0;
}

static const fl_tune_range tune[] = {{"algorithm.lr_in", 0.001, 1, 1}, {"algorithm.lr_out", 0.001, 1, 1}, {NULL}};

const fl_method fli_algo_fednest = {
    .name = "fednest",
    .title = "bilevel by nested, variance-reduced loops; several exchanges per round",
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
    .levels.v = 1 + V,
    .rounds.counts_as = counts_as,
    .pose = pose,
    .answer = fli_nested_answer,
    .absorb = fli_nested_absorb,
    .advance = advance,
};
