/* `fedloom check`: plans a configuration, measures its constants, and checks the conditions of its method's theorem. If
 * the theorem promises a rate, the number of rounds follows, and --run compares it with a run of the same
 * configuration. Printing is in print.c, changing the settings in fix.c. */
#include "theory/check.h"

#include "base/number.h"
#include "model/model.h"
#include "run/state.h"
#include "solver/curvature.h"

#include <math.h>
#include <string.h>

/* ==== the conditions of the theorem ========================================================================= */

/* ---- conditions of all methods --------------------------------------------------------------------------- */

/* Notes which constants hold only at the start model, or only for some clients. */
static void ask_of_constants(fli_check *c)
{
    const fl_facts *f = &c->facts.worst;
    if (c->plan.model->bilevel)
        fl_assumption(&c->found, "L_1",
                      "measured at the start model, over a sample of at most 512 samples of each "
                      "client and level; elsewhere assumed");
    else if (!fli_bounded(c->plan.model))
        fl_assumption(&c->found, "L_i",
                      "measured at the start model, over a sample of at most 512 samples of each "
                      "client; elsewhere assumed: a network has no L_i that holds everywhere, and "
                      "with ReLU not even near every point");
    else if (!f->bounded)
        fl_assumption(&c->found, "L_i", "measured on images as they are stored; augmented ones curve f_i no more");
    if (c->facts.measured < c->plan.fed->clients)
        fl_assumption(&c->found, "clients", "those that were not measured are like those that were, a random choice");
}

/* A step on a mini-batch then has more decay than f_i has, and no theorem covers that. */
static void ask_of_decay(fli_check *c)
{
    const fli_model *m = c->plan.model;
    if (m->weight_decay > 0 && m->decay_by == FLI_DECAY_BY_BATCH)
        fl_requirement(&c->found, "weight decay",
                       "mini-batches take the weight decay of f_i: weight_decay_by is not "
                       "batch, or steps are over all samples",
                       &c->facts.worst, c->facts.worst.full_batch);
}

/* Whether there are pseudo labels, or memberships, and the method's theorem does not cover f_i(x, y_i). */
static int is_beside_theory(const fli_plan *p)
{
    return p->model->latent && !(p->setup.algo->traits & FL_METHOD_BLOCKS);
}

static void ask_of_blocks(fli_check *c)
{
    if (is_beside_theory(&c->plan))
        fl_requirement(&c->found, "one block",
                       "clients have no y_i of their own, of which this theorem knows nothing: semi.labels is none, or "
                       "the method one with a second block, such as fedvra-u",
                       NULL, 0);
}

static void ask_of_cohorts(fli_check *c)
{
    const fli_plan *p = &c->plan;
    const fli_system_common *system = &p->settings->system;
    const fli_admission *server = &p->settings->server;
    if (system->deadline > 0)
        fl_assumption(&c->found, "p_i", "no client is late: p_i is the chance to be invited, not that to be in time");
    if (system->wait_for < 1)
        fl_requirement(&c->found, "wait_for",
                       "a round waits for all who are invited: system.wait_for is 1; p_i does not say who is "
                       "left out",
                       NULL, 0);
    if (server->deadline > 0 || server->wait_for < 1 || server->largest_norm > 0)
        fl_assumption(&c->found, "server",
                      "where clients are elsewhere: server.deadline, wait_for and largest_norm leave out no "
                      "client and shorten no upload");
    if (!strcmp(p->participation->desc->name, "weighted"))
        fl_assumption(&c->found, "p_i of draws", "p_i of weighted draws is right to a few per cent");
}

static void ask_all(fli_check *c)
{
    const fl_theory *theory = &c->plan.setup.algo->theory;
    if (!theory->check) return;
    for (size_t i = 0; i < c->facts.measured; i++)
        fli_ask_theory(&c->plan, theory->check, &c->facts.client[i], &c->found);
    fli_algo_enter(c->plan.setup.algo);
    if (theory->check_all) theory->check_all(c->plan.setup.params, &c->facts.all, &c->found);
    fli_algo_leave(c->plan.setup.algo);
    if (!c->found.count) return;
    if (fli_settings_solver(c->plan.settings))
        fl_assumption(&c->found, "solver", "the local solver does at least what steps of SGD would do");
    ask_of_decay(c);
    ask_of_blocks(c);
    ask_of_cohorts(c);
    ask_of_constants(c);
}

/* Methods compute one local.lr for all clients. */
static void equal_factors(const fli_plan *p, fl_fixes *f)
{
    const fl_reals *factors = &p->settings->local.lr_factors;
    const fli_fix *lr = NULL;
    int equal = 1;
    for (size_t i = 0; i < factors->n; i++) equal &= factors->v[i] == 1;
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->at[i].key, "local.lr") && !f->at[i].relative) lr = &f->at[i];
    if (lr && !equal) fl_fix_word(f, lr->conditions, "local.lr_factors", "1", NULL);
}

static int is_asked_for(fli_check *c, const fli_fix *f)
{
    int asked = 0;
    for (size_t i = 0; i < c->found.count; i++) {
        fli_condition_seen *s = &c->found.seen[i];
        if (!fli_condition_fails(s) || !fli_fix_is_for(f, s->name)) continue;
        s->has_fix = asked = 1;
    }
    return asked;
}

/* Keeps the smaller of two numbers for one key: both are upper bounds. */
static void keep_fix(fl_fixes *out, const fli_fix *f)
{
    size_t i = 0;
    while (i < out->count && strcmp(out->at[i].key, f->key)) i++;
    if (i == out->count)
        out->at[out->count++] = *f;
    else if (f->relative && fli_strtod(f->value, NULL) < fli_strtod(out->at[i].value, NULL))
        out->at[i] = *f;
}

/* No fix if a client never takes part: then no step size helps. */
static void find_fixes(fli_check *c)
{
    const fli_plan *p = &c->plan;
    fl_fixes all = {.found = &c->found};
    c->fixes = (fl_fixes){.found = &c->found};
    if (!p->setup.algo->theory.fix || !fli_check_failing(c) || !(c->facts.worst.probability > 0)) return;
    fli_algo_enter(p->setup.algo);
    p->setup.algo->theory.fix(p->setup.params, &c->facts.worst, &all);
    fli_algo_leave(p->setup.algo);
    if (p->model->decay_by == FLI_DECAY_BY_BATCH)
        fl_fix_word(&all, "weight decay", "model.weight_decay_by", "samples", NULL);
    if (is_beside_theory(p) && !p->model->latent->every) fl_fix_word(&all, "one block", "semi.labels", "none", NULL);
    if (p->settings->system.wait_for < 1) fl_fix_word(&all, "wait_for", "system.wait_for", "1", NULL);
    for (size_t i = 0; i < all.count; i++)
        if (is_asked_for(c, &all.at[i])) keep_fix(&c->fixes, &all.at[i]);
    equal_factors(p, &c->fixes);
}

size_t fli_check_failing(const fli_check *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->found.count; i++) n += fli_condition_fails(&c->found.seen[i]);
    return n + c->found.full;
}

/* No row changes the model, its start or its weight decay; rows may change pseudo labels. */
static int same_curvatures(const fli_plan *a, const fli_plan *b)
{
    const fli_semi *s = &a->settings->semi, *t = &b->settings->semi;
    if (!a->model->latent || !b->model->latent) return a->model->latent == b->model->latent;
    return fli_bounded(b->model) && s->alpha_p == t->alpha_p && s->alpha_r == t->alpha_r;
}

/* ==== rounds until the gradient is small ==================================================================== */

/* A-priori numbers: after how many rounds, at most, a theorem promises that the gradient has been small, computed from
 * constants that are known before the first round; and when it was small in a run.
 *
 * The theorems bound the mean over rounds of ||grad f||^2, which is at least the smallest one, by A/K + B. B stems from
 * the variance of mini-batches, which is not measured, so there are numbers only for gradients over all samples. They
 * need a lower bound of f: losses here are not negative. */

/* ---- at the start model ---------------------------------------------------------------------------------- */

typedef struct {
    const fli_check *c;
    fli_eval eval;
    void *x, *gradient;
    double *sum; /* of the gradients */
} at_start;

/* Adds one client's value and gradient, with weight decay. Labels that are kept are those of the beginning. */
static fl_status add_client(fl_ctx *ctx, at_start *s, const fl_facts *f, fl_start_values *out, double *slope2)
{
    const fli_plan *p = &s->c->plan;
    const fl_space *space = &p->model->space;
    fli_view v;
    void *none = NULL;
    fli_objective_at at = {.x = s->x, .kept = &none};
    fl_status status = fli_view_open(ctx, p->fed, f->client, &v);
    if (status) return status;
    double decay = fli_model_decay(p->model, v.n_train);
    fli_objective o = fli_eval_objective(&s->eval, &v, &at, s->gradient);
    fli_axpy(space, decay, s->x, s->gradient);
    out->value += f->weight * (o.value + decay / 2 * fli_dot(space, s->x, s->x));
    *slope2 = fli_dot(space, s->gradient, s->gradient);
    double part[64];
    for (size_t i = 0; i < space->n; i += 64) {
        size_t k = space->n - i < 64 ? space->n - i : 64;
        space->ops->to_f64(k, fli_cat(space->ops, s->gradient, i), part);
        for (size_t j = 0; j < k; j++) s->sum[i + j] += f->weight * part[j];
    }
    fli_view_close(&v);
    return fli_model_status(ctx, p->model, " at client %u", f->client);
}

static double regularizer_at(const fli_plan *p, const at_start *s, double *x)
{
    if (!p->setup.regularizer) return 0;
    p->model->space.ops->to_f64(p->model->space.n, s->x, x);
    return p->setup.regularizer->value(p->settings->regularizer.params, p->model->space.n, x);
}

static fl_status add_all(fl_ctx *ctx, at_start *s, fl_start_values *out, double *slope2)
{
    const fli_plan *p = &s->c->plan;
    fl_status status = FL_OK;
    if (p->start)
        fli_copy(&p->model->space, p->start, s->x);
    else
        status = fli_model_start_from(ctx, p->model, p->fed, (uint64_t)p->settings->top.seed, s->x);
    *out = (fl_start_values){.client_slope2 = slope2};
    for (size_t i = 0; i < s->c->facts.measured && !status; i++)
        status = add_client(ctx, s, &s->c->facts.client[i], out, &slope2[i]);
    for (size_t i = 0; i < p->model->space.n; i++) out->slope2 += s->sum[i] * s->sum[i];
    out->value += regularizer_at(p, s, s->sum);
    return status;
}

/* slope2 has room for one number per client. */
static fl_status measure_start(fl_ctx *ctx, const fli_check *c, fl_start_values *out, double *slope2)
{
    const fl_space *space = &c->plan.model->space;
    at_start s = {.c = c};
    fl_status status = fli_eval_init(ctx, c->plan.model, &s.eval);
    if (status) return status;
    s.x = fli_alloc(ctx, space->n, space->ops->size);
    s.gradient = fli_alloc(ctx, space->n, space->ops->size);
    s.sum = fli_alloc(ctx, space->n, sizeof *s.sum);
    status = s.x && s.gradient && s.sum ? add_all(ctx, &s, out, slope2) : FL_ENOMEM;
    fli_free(s.sum);
    fli_free(s.gradient);
    fli_free(s.x);
    fli_eval_fini(&s.eval);
    return status;
}

/* ---- the number ------------------------------------------------------------------------------------------ */

static int all_full(const fli_check *c)
{
    int full = 1;
    for (size_t i = 0; i < c->facts.measured; i++) full &= c->facts.client[i].full_batch;
    return full;
}

/* Why there is no number for any method; NULL: there may be one. */
static const char *obstacle(const fli_check *c, const fl_promise *p)
{
    if (fli_check_failing(c)) return "the theorem does not apply";
    if (c->plan.model->desc->traits & FLI_MODEL_USER) return "no lower bound of an objective of one's own is known";
    if (c->facts.measured < c->plan.fed->clients) return "not all clients were measured";
    if (p->full && !all_full(c)) return "steps are on mini-batches, whose variance is not measured";
    return NULL;
}

static fl_status promise_rounds(fli_check *c)
{
    fl_ctx *ctx = c->plan.ctx;
    const fl_theory *theory = &c->plan.setup.algo->theory;
    fl_start_values start;
    if (!theory->promise) return FL_OK;
    fli_algo_enter(c->plan.setup.algo);
    theory->promise(c->plan.setup.params, &c->facts.all, NULL, &c->rounds);
    fli_algo_leave(c->plan.setup.algo);
    if (!c->rounds.missing) c->rounds.missing = obstacle(c, &c->rounds);
    if (c->rounds.missing) return FL_OK;
    double *slope2 = fli_alloc(ctx, c->facts.measured, sizeof *slope2);
    fl_status s = slope2 ? measure_start(ctx, c, &start, slope2) : FL_ENOMEM;
    fli_algo_enter(c->plan.setup.algo);
    if (!s) theory->promise(c->plan.setup.params, &c->facts.all, &start, &c->rounds);
    fli_algo_leave(c->plan.setup.algo);
    if (!s && !(isfinite(c->rounds.times_eps) && start.slope2 > 0))
        c->rounds.missing = "the objective at the start has no bound, or no slope";
    for (size_t k = 0; k < FLI_CHECK_EPS && !s; k++) {
        c->eps[k].eps = start.slope2 * pow(10, -2.0 * (double)(k + 1));
        c->eps[k].at_most = c->rounds.before + ceil(c->rounds.times_eps / c->eps[k].eps);
        c->eps[k].run = NAN;
    }
    fli_free(slope2);
    return s;
}

/* ---- a run for comparison -------------------------------------------------------------------------------- */

/* The first round in which the quantity was that small; infinite if it never was. */
static double first_below(const fl_row *rows, size_t n, const fl_promise *p, double eps)
{
    for (size_t i = 0; i < n; i++) {
        double v = fl_row_get(&rows[i], p->metric);
        if ((p->squared ? v * v : v) <= eps) return (double)fl_row_round(&rows[i]);
    }
    return INFINITY;
}

static fl_status run_measured(fl_config *cfg, fl_run **run)
{
    static const char *const sets[] = {"metrics.gradient=true", "metrics.gradient_mapping=true", "metrics.every=1",
                                       "output=\"\""};
    fl_status s = FL_OK;
    for (size_t i = 0; i < sizeof sets / sizeof *sets && !s; i++) s = fl_config_set(cfg, sets[i]);
    if (!s) s = fl_run_new(cfg, run);
    return s ? s : fl_run_go(*run, NULL, NULL);
}

static fl_status compare_with_run(fl_config *cfg, fli_check *c)
{
    fl_run *run = NULL;
    const fl_row *rows;
    if (!c->rounds.theorem || c->rounds.missing) return FL_OK;
    fl_status s = run_measured(cfg, &run);
    size_t n = s ? 0 : fl_run_rows(run, &rows);
    for (size_t k = 0; k < FLI_CHECK_EPS && !s; k++) c->eps[k].run = first_below(rows, n, &c->rounds, c->eps[k].eps);
    c->ran = s ? 0 : n ? fl_row_round(&rows[n - 1]) : 0;
    fl_run_free(run);
    return s;
}

/* ==== the whole ============================================================================================= */

static fl_status make(fl_config *cfg, const fli_plan *like, const fli_check *before, fli_check *c)
{
    memset(c, 0, sizeof *c);
    fl_status s = fli_plan_data(cfg, like, &c->plan);
    if (!s) s = fli_plan_finish(&c->plan, cfg);
    if (s) return s;
    if (!c->plan.setup.algo->theory.check && !c->plan.model->desc->hvp) return FL_OK; /* no need to measure */
    if (before && same_curvatures(&before->plan, &c->plan))
        s = fli_measure_again(cfg->ctx, &c->plan, &before->facts, &c->facts);
    else
        s = fli_measure_facts(cfg->ctx, &c->plan, 1, &c->facts);
    if (s) return s;
    ask_all(c);
    find_fixes(c);
    return promise_rounds(c);
}

fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c) { return make(cfg, like, NULL, c); }

fl_status fli_check_again(fl_config *cfg, const fli_check *before, fli_check *c)
{
    return make(cfg, &before->plan, before, c);
}

void fli_check_fini(fli_check *c)
{
    fli_measured_free(&c->facts);
    fli_plan_fini(&c->plan);
}

static void print_check(fli_text *t, const fli_check *c, int json)
{
    fli_json j;
    fli_json_init(&j, t);
    if (!json) {
        fli_check_print(t, c);
        return;
    }
    fli_json_map(&j, NULL);
    fli_check_json(&j, c);
    fli_json_end(&j);
}

static fl_status check_and_print(fl_config *cfg, int run, fl_text_fn *out, void *arg)
{
    fli_check c;
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_check_make(cfg, NULL, &c);
    if (!s) s = fli_settle_fixes(cfg, &c);
    if (!s && run) s = compare_with_run(cfg, &c);
    if (!s) {
        print_check(&text, &c, fli_wants_json(cfg->ctx));
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    fli_check_fini(&c);
    fli_text_fini(&text);
    return s;
}

fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg) { return check_and_print(cfg, 0, out, arg); }
fl_status fl_check_run(fl_config *cfg, fl_text_fn *out, void *arg) { return check_and_print(cfg, 1, out, arg); }
