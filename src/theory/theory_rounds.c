/* A-priori numbers: after how many rounds, at most, a theorem promises that the gradient has been small, from constants
 * that are known before the first round, and when it was in a run.
 *
 * The theorems bound a mean over rounds of ||grad f||^2, which the smallest is not above, by A/K + B; B is for
 * mini-batches and their variance, which is not measured, so that there are numbers for gradients over all samples
 * alone. Of f a lower bound is needed: losses here are not negative. */
#include "theory/theory_check.h"

#include "solver/smoothness.h"
#include "model/latent.h"
#include "run/run.h"

#include <math.h>

/* ---- at the start model ---------------------------------------------------------------------------------- */

typedef struct {
    const fli_check *c;
    fli_eval eval;
    void *x, *gradient;
    double *sum; /* of the gradients */
} starter;

/* One client's part: its value and gradient, weight decay included. Labels that are kept are those of the beginning. */
static fl_status add_client(fl_ctx *ctx, starter *s, const fli_facts *f, fli_start_values *out, double *slope2)
{
    const fli_plan *p = &s->c->plan;
    const fli_space *space = &p->model->space;
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

static double regularizer_at(const fli_plan *p, const starter *s, double *x)
{
    if (!p->regularizer) return 0;
    p->model->space.ops->to_f64(p->model->space.n, s->x, x);
    return p->regularizer->value(p->settings.regularizer.params, p->model->space.n, x);
}

static fl_status add_all(fl_ctx *ctx, starter *s, fli_start_values *out, double *slope2)
{
    const fli_plan *p = &s->c->plan;
    fl_status status = FL_OK;
    if (p->start)
        fli_copy(&p->model->space, p->start, s->x);
    else
        status = fli_model_start_from(ctx, p->model, p->fed, (uint64_t)p->settings.top.seed, s->x);
    *out = (fli_start_values){.client_slope2 = slope2};
    for (size_t i = 0; i < s->c->facts.measured && !status; i++)
        status = add_client(ctx, s, &s->c->facts.client[i], out, &slope2[i]);
    for (size_t i = 0; i < p->model->space.n; i++) out->slope2 += s->sum[i] * s->sum[i];
    out->value += regularizer_at(p, s, s->sum);
    return status;
}

/* slope2 has room for one number per client. */
static fl_status measure_start(fl_ctx *ctx, const fli_check *c, fli_start_values *out, double *slope2)
{
    const fli_space *space = &c->plan.model->space;
    starter s = {.c = c};
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

/* Why there is no number, for all methods; NULL: there may be one. */
static const char *obstacle(const fli_check *c, const fli_promise *p)
{
    if (fli_check_failing(c)) return "the theorem does not apply";
    if (c->plan.model->desc->traits & FLI_MODEL_OWN) return "no lower bound of an objective of one's own is known";
    if (c->facts.measured < c->plan.fed->clients) return "not all clients were measured";
    if (p->full && !all_full(c)) return "steps are on mini-batches, whose variance is not measured";
    return NULL;
}

fl_status fli_check_rounds(fli_check *c)
{
    fl_ctx *ctx = c->plan.ctx;
    const fli_theory *theory = &c->plan.algo->theory;
    fli_start_values start;
    if (!theory->promise) return FL_OK;
    theory->promise(c->plan.params, &c->facts.all, NULL, &c->rounds);
    if (!c->rounds.missing) c->rounds.missing = obstacle(c, &c->rounds);
    if (c->rounds.missing) return FL_OK;
    double *slope2 = fli_alloc(ctx, c->facts.measured, sizeof *slope2);
    fl_status s = slope2 ? measure_start(ctx, c, &start, slope2) : FL_ENOMEM;
    if (!s) theory->promise(c->plan.params, &c->facts.all, &start, &c->rounds);
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

/* ---- a run beside it ------------------------------------------------------------------------------------- */

/* The first round in which the quantity was that small; infinite: it never was. */
static double first_below(const fl_row *rows, size_t n, const fli_promise *p, double eps)
{
    for (size_t i = 0; i < n; i++) {
        double v = fl_row_get(&rows[i], p->metric);
        if ((p->squared ? v * v : v) <= eps) return (double)fl_row_round(&rows[i]);
    }
    return INFINITY;
}

static fl_status measured_run(fl_config *cfg, fl_run **run)
{
    static const char *const sets[] = {"metrics.gradient=true", "metrics.gradient_mapping=true", "metrics.every=1",
                                       "output=\"\""};
    fl_status s = FL_OK;
    for (size_t i = 0; i < sizeof sets / sizeof *sets && !s; i++) s = fl_config_set(cfg, sets[i]);
    if (!s) s = fl_run_new(cfg, run);
    return s ? s : fl_run_go(*run, NULL, NULL);
}

fl_status fli_check_run(fl_config *cfg, fli_check *c)
{
    fl_run *run = NULL;
    const fl_row *rows;
    if (!c->rounds.theorem || c->rounds.missing) return FL_OK;
    fl_status s = measured_run(cfg, &run);
    size_t n = s ? 0 : fl_run_rows(run, &rows);
    for (size_t k = 0; k < FLI_CHECK_EPS && !s; k++) c->eps[k].run = first_below(rows, n, &c->rounds, c->eps[k].eps);
    c->ran = s ? 0 : n ? fl_row_round(&rows[n - 1]) : 0;
    fl_run_free(run);
    return s;
}

/* ---- in words -------------------------------------------------------------------------------------------- */

void fli_check_print_rounds(fli_text *t, const fli_check *c)
{
    const fli_promise *p = &c->rounds;
    if (!p->theorem) return;
    fli_text_addf(t, "\na priori    %s: ", p->theorem);
    if (p->missing) {
        fli_text_addf(t, "no number of rounds: %s\n", p->missing);
        return;
    }
    fli_text_addf(t, "rounds until %s has been at most eps%s\n", p->bounds,
                  p->expected ? ", in the mean over cohorts" : "");
    fli_text_addf(t, "            %-12s %-14s%s\n", "eps", "at most", c->ran ? "this run" : "");
    for (size_t k = 0; k < FLI_CHECK_EPS; k++) {
        fli_text_addf(t, "            %-12.4g %-14.4g", c->eps[k].eps, c->eps[k].at_most);
        if (c->ran && isfinite(c->eps[k].run)) fli_text_addf(t, "%.0f", c->eps[k].run);
        if (c->ran && !isfinite(c->eps[k].run)) fli_text_addf(t, "not in %zu", c->ran);
        fli_text_add(t, "\n");
    }
}

void fli_check_json_rounds(fli_json *j, const fli_check *c)
{
    const fli_promise *p = &c->rounds;
    if (!p->theorem) return;
    fli_json_map(j, "rounds");
    fli_json_text(j, "theorem", p->theorem);
    if (p->missing)
        fli_json_text(j, "missing", p->missing);
    else {
        fli_json_text(j, "quantity", p->bounds);
        fli_json_truth(j, "in_expectation", p->expected);
        fli_json_real(j, "times_eps", p->times_eps);
        fli_json_list(j, "until");
        for (size_t k = 0; k < FLI_CHECK_EPS; k++) {
            fli_json_map(j, NULL);
            fli_json_real(j, "eps", c->eps[k].eps);
            fli_json_real(j, "at_most", c->eps[k].at_most);
            if (c->ran) fli_json_real(j, "run", c->eps[k].run);
            fli_json_end(j);
        }
        fli_json_end(j);
        if (c->ran) fli_json_whole(j, "rounds_run", c->ran);
    }
    fli_json_end(j);
}
