/* FBO-AggITD: aggregated iterative differentiation. T gradient steps on the averaged lower level, then the derivative
 * of their result, computed by going through the steps backwards.
 *
 *   forward  t = 0..T-1: y_{t+1} = y_t - lr_in sum p_i grad_y g_i(x, y_t)                              T exchanges
 *   turn     z = grad_y F(x, y_T), h = grad_x F(x, y_T), averaged                                     1 exchange
 *   back     t = T-1..0: h <- h - lr_in sum p_i g_xy(x, y_t) z;  z <- z - lr_in sum p_i g_yy(x, y_t) z T exchanges
 *   server   x <- x - lr_out h
 *
 * Averages are over the cohort, with p_i/sum_S p. Clients remember the y_t that they were sent on the way forward. They
 * take no local steps, so `local.steps` and `local.uneven` do not matter.
 *
 * Xiao, Ji: Communication-efficient federated hypergradient computation via aggregated iterative differentiation, ICML
 * 2023. Named, but not written out, in the SimFBO paper; this is the plain reverse-mode form. */
#include "algo/algo.h"
#include "algo/family_nested.h"

enum { XY, H, Z }; /* server: (x, y); h, in the upper block; z, in the lower one */
enum { U };        /* up, sum */

static const fl_key keys[] = {FLI_NEST_KEYS, FLI_KEY_END};

static const char *const server[] = {"(x, y)", "h", "z", NULL};

static size_t inner_rounds(const void *params) { return (size_t)((const fli_nested_params *)params)->inner_rounds; }

static size_t phases(const void *params, double coin)
{
    (void)coin;
    return 2 * inner_rounds(params) + 1;
}

enum { FIRST, FORWARD, TURN, BACK }; /* stages; x comes with the first */

/* The client keeps x and every y_t. */
static const fl_part down[] = {{"(x, y)", FL_PART_VECTOR, XY, FL_PART_KEEP_EACH, FL_IN_PHASE(FIRST)},
                               {"y", FL_PART_LOWER, XY, FL_PART_KEEP_EACH, FL_IN_PHASE(FORWARD)},
                               {"y", FL_PART_LOWER, XY, FL_PART_KEEP, FL_IN_PHASE(TURN)},
                               {"z", FL_PART_LOWER, Z, FL_PART_FORGET, FL_IN_PHASE(BACK)},
                               {NULL}};
static const fl_part up[] = {
    {"grad_y g_i", FL_PART_LOWER, U, FL_PART_CHANGE, FL_IN_PHASE(FIRST) | FL_IN_PHASE(FORWARD)},
    {"grad f_i", FL_PART_VECTOR, U, FL_PART_VALUE, FL_IN_PHASE(TURN)},
    {"(g_xy z, g_yy z)", FL_PART_VECTOR, U, FL_PART_CHANGE, FL_IN_PHASE(BACK)},
    {NULL}};

static size_t stage(const void *params, size_t phase, size_t count)
{
    size_t rounds = inner_rounds(params);
    (void)count;
    if (phase < rounds) return phase ? FORWARD : FIRST;
    return phase == rounds ? TURN : BACK;
}

static size_t counts_as(const void *params, size_t now, size_t steps, const fl_epochs *e)
{
    (void)e;
    (void)params;
    (void)now;
    (void)steps;
    return 1;
}

/* Phase T + 1 + k differentiates step T - 1 - k. */
static size_t step_of(size_t phase, size_t rounds) { return 2 * rounds - phase; }

static int pose(const fl_turn *t, fl_problem *p)
{
    size_t rounds = inner_rounds(t->bound);
    p->steps = 1;
    p->start = t->stage == BACK ? t->history[step_of(t->ask.phase, rounds)] : t->down[XY];
    if (t->stage == FIRST || t->stage == FORWARD)
        p->levels = (fl_levels){.work = FL_WORK_LOWER_GRADIENT};
    else if (t->stage == TURN)
        p->levels = (fl_levels){.work = FL_WORK_UPPER_GRADIENT};
    else
        p->levels = (fl_levels){.work = FL_WORK_PRODUCT, .v = t->down[Z]};
    return 0;
}

static int advance(const fl_coordinator *s)
{
    const fli_nested_params *a = s->bound;
    fl_space upper, lower;
    fli_nested_blocks(s, &upper, &lower);
    if (s->stage == FIRST || s->stage == FORWARD) {
        fli_axpy(&lower, -a->lr_in, fli_nested_lower(s, s->sum[U]), fli_nested_lower(s, s->vec[XY]));
    } else if (s->stage == TURN) {
        fli_copy(&upper, s->sum[U], s->vec[H]);
        fli_copy(&lower, fli_nested_lower(s, s->sum[U]), fli_nested_lower(s, s->vec[Z]));
    } else {
        fli_axpy(&upper, -a->lr_in, s->sum[U], s->vec[H]);
        fli_axpy(&lower, -a->lr_in, fli_nested_lower(s, s->sum[U]), fli_nested_lower(s, s->vec[Z]));
        if (s->phase + 1 == s->phases) fli_axpy(&upper, -a->lr_out, s->vec[H], s->vec[XY]);
    }
    return 0;
}

static const fl_tune_range tune[] = {{"algorithm.lr_in", 0.001, 1, 1}, {"algorithm.lr_out", 0.001, 1, 1}, {NULL}};

const fl_method fli_algo_fbo_aggitd = {
    .name = "fbo-aggitd",
    .title = "bilevel by differentiating through averaged lower-level steps",
    .citation = "Xiao and Ji, ICML 2023",
    .traits = FL_METHOD_BILEVEL | FL_METHOD_WHOLE_ADVANCE,
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(fli_nested_params),
    .server = server,
    .down = down,
    .up = up,
    .sums = fli_nested_sums,
    .remedy = "smaller algorithm.lr_in and algorithm.lr_out",
    .solver = "bilevel",
    .rounds.phases = phases,
    .rounds.stage = stage,
    .rounds.counts_as = counts_as,
    .pose = pose,
    .answer = fli_nested_answer,
    .absorb = fli_nested_absorb,
    .advance = advance,
};
