/* `fedloom check`: which step-size conditions of the method's theorem hold for this federation, by how much each fails,
 * what has to be assumed, and a setting that would satisfy them. The smoothness constants L_i are measured: the largest
 * eigenvalue of each client's Hessian at the start model, by power iteration. For least squares that is L_i itself; for
 * logistic and softmax regression, which start at zero, where their curvature is largest or nearly so, it is close; for
 * networks it is an estimate at one point. Pseudo labels have no part in it. */
#include "algo/conditions.h"
#include "local/smoothness.h"
#include "model/latent.h"
#include "run/plan.h"

#include <math.h>

enum {
    CLIENTS = 100,    /* at most this many are measured, evenly spaced */
    SAMPLES = 512,    /* at most this many of a client's samples */
    ITERATIONS = 100, /* of power iteration */
};

typedef struct {
    fli_plan *plan;
    fli_batch batch;
    void *x;
    fli_conditions found;
    fli_facts worst; /* the largest L_i, most and fewest steps, the smallest p_i */
    double least;    /* the smallest L_i */
    size_t measured;
} checker;

static fl_status checker_init(fl_ctx *ctx, fli_plan *p, checker *c)
{
    const fli_space *space = &p->model->space;
    *c = (checker){.plan = p,
                   .least = INFINITY,
                   .worst = {.clients = p->fed->clients,
                             .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
                             .probability = 1,
                             .outlook = p->exec.outlook,
                             .least_steps = SIZE_MAX}};
    fl_status s = fli_model_batch(ctx, p->model, SAMPLES, &c->batch);
    if (s) return s;
    if (!(c->x = fli_alloc(ctx, space->n, space->ops->size))) return FL_ENOMEM;
    return fli_model_start_from(ctx, p->model, p->fed, (uint64_t)p->settings.top.seed, c->x);
}

static void checker_fini(checker *c)
{
    fli_batch_fini(&c->batch);
    fli_free(c->x);
}

/* The most and fewest steps a client may take in a round. */
static void steps_of(const fli_plan *p, const fli_view *v, fli_facts *f)
{
    const fli_local_work *e = &p->settings.local.work;
    fli_sgd_spec sgd = fli_settings_sgd(&p->settings);
    size_t per_epoch = fli_objective_steps(p->model, &sgd, v->n_train, v->n_unlabelled),
           unit = e->steps ? 1 : per_epoch;
    if (p->algo->rounds.steps) {
        f->steps = p->algo->rounds.steps(p->settings.algorithm.params, nextafter(1, 0));
        f->least_steps = p->algo->rounds.steps(p->settings.algorithm.params, 0);
        return;
    }
    f->steps = f->least_steps = fli_local_steps(e, (uint64_t)p->settings.top.seed, 0, f->client, per_epoch);
    if (e->uneven != FLI_UNEVEN_RANGE) return;
    f->steps = (size_t)e->range.v[1] * unit;
    f->least_steps = (size_t)e->range.v[0] * unit;
}

/* Each condition is monotone in the number of steps, but not all in the same direction: both ends are asked. */
static void ask(checker *c, const fli_facts *f)
{
    const fli_plan *p = c->plan;
    fli_facts least = *f;
    least.steps = f->least_steps;
    if (!p->algo->theory.check) return;
    p->algo->theory.check(p->settings.algorithm.params, f, &c->found);
    if (f->least_steps != f->steps) p->algo->theory.check(p->settings.algorithm.params, &least, &c->found);
}

static fl_status check_client(fl_ctx *ctx, checker *c, size_t client)
{
    const fli_plan *p = c->plan;
    fli_view v;
    fl_status s = fli_view_open(ctx, p->fed, client, &v);
    if (s) return s;
    fli_facts f = {
        .clients = p->fed->clients,
        .client = (uint32_t)client,
        .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
        .composite = p->regularizer != NULL,
        .g_modulus = fli_regularizer_weak_convexity(p->regularizer, p->settings.regularizer.params),
        .model_traits = p->model->desc->traits,
        .samples = p->fed->samples,
        .parameters = p->model->space.n,
        .momentum = p->settings.local.momentum,
        .full_batch = fli_batch_size(&p->asking.sgd, v.n_train) >= v.n_train,
        .constant_lr = fli_schedule_lr(&p->settings.local, 1) == fli_schedule_lr(&p->settings.local, 0),
        .lr = p->settings.local.lr * fli_reals_at(&p->settings.local.lr_factors, client),
        .probability = fli_participation_probability(p->participation, client),
        .outlook = p->exec.outlook,
        .weight =
            p->uniform ? 1 / (double)p->fed->clients : (double)fli_fed_size(p->fed, client) / (double)p->fed->samples,
    };
    steps_of(p, &v, &f);
    fli_batch_gather(&c->batch, v.ds, v.train, v.n_train < SAMPLES ? v.n_train : SAMPLES);
    s = fli_smoothness(ctx, p->model, c->x, &c->batch, (uint64_t)p->settings.top.seed, ITERATIONS, 1e-4, &f.smoothness);
    fli_view_close(&v);
    if (s) return s;
    ask(c, &f);
    if (f.smoothness > c->worst.smoothness) {
        c->worst.smoothness = f.smoothness;
        c->worst.client = f.client;
        c->worst.lr = f.lr;
    }
    if (f.smoothness < c->least) c->least = f.smoothness;
    if (f.steps > c->worst.steps) c->worst.steps = f.steps;
    if (f.least_steps < c->worst.least_steps) c->worst.least_steps = f.least_steps;
    if (f.probability < c->worst.probability) c->worst.probability = f.probability;
    c->measured++;
    return FL_OK;
}

static void advise(fli_text *t, const checker *c)
{
    const fli_plan *p = c->plan;
    const fli_reals *factors = &p->settings.local.lr_factors;
    int equal = 1;
    for (size_t i = 0; i < factors->n; i++) equal &= factors->v[i] == 1;
    if (!(c->worst.probability > 0)) {
        fli_text_add(t, "no setting satisfies them while a client never takes part\n");
        return;
    }
    if (fli_regularizer_weak_convexity(p->regularizer, p->settings.regularizer.params) > 0) {
        fli_text_addf(t, "no setting of the method satisfies them with regularizer %s, which is not convex\n",
                      p->regularizer->name);
        return;
    }
    fli_text_add(t, "a setting that satisfies all of them: ");
    p->algo->theory.advise(p->settings.algorithm.params, &c->worst, t);
    fli_text_add(t, equal ? "\n" : ", local.lr_factors = 1\n");
}

/* The solver of the stage in which steps are taken, or of the first. */
static const fli_solver *working_solver(const fli_plan *p)
{
    const fli_solvers *all = &p->solvers;
    size_t i = 0;
    while (i < all->count && !all->at[i]->counts_steps) i++;
    return all->at[i < all->count ? i : 0];
}

static int gradients_over_all(const fli_plan *p)
{
    const fli_solvers *all = &p->solvers;
    int any = 0;
    for (size_t i = 0; i < all->count; i++) any |= all->at[i]->full_gradient;
    return any;
}

/* What a turn is: steps as `local` asks for them, unless the method's solver has its own. */
static void print_work(fli_text *t, const checker *c)
{
    const fli_plan *p = c->plan;
    const fli_solver *solver = working_solver(p);
    fli_text_add(t, "local work  ");
    if (gradients_over_all(p)) fli_text_add(t, "one gradient over all samples of a client, then ");
    if (solver->full_gradient && !solver->counts_steps)
        fli_text_add(t, "the method's own steps");
    else if (!solver->counts_steps && !p->model->bilevel)
        fli_text_addf(t, "as many steps as the solver `%s` needs", solver->name);
    else {
        if (c->worst.least_steps != c->worst.steps) fli_text_addf(t, "%zu to ", c->worst.least_steps);
        fli_text_addf(t, "%zu steps", c->worst.steps);
        if (!p->model->bilevel) fli_text_addf(t, " of size %g", p->settings.local.lr); /* else the method has its own */
    }
    fli_text_addf(t, "; %s with probability %.4g at least\n\n",
                  p->algo->traits & FLI_ALGO_BYSTANDERS ? "a client is in the cohort" : "takes part",
                  c->worst.probability);
}

static void print_head(fli_text *t, const checker *c)
{
    const fli_plan *p = c->plan;
    fli_text_addf(t, "method      %s, %s\n", p->algo->name, p->algo->citation);
    fli_text_addf(t, "smoothness  L_i from %.4g to %.4g (%zu of %zu clients measured, at the start model", c->least,
                  c->worst.smoothness, c->measured, p->fed->clients);
    if (p->model->bilevel) fli_text_add(t, ", of the lower level in y");
    if (p->model->latent && !p->model->latent->every) fli_text_add(t, ", on labelled samples alone");
    if (p->fed->largest > SAMPLES) fli_text_addf(t, ", on at most %d samples each", SAMPLES);
    fli_text_add(t, p->model->desc->traits & FLI_MODEL_CONVEX ? ")\n" : "; the model is not convex: an estimate)\n");
    print_work(t, c);
}

static void print_condition(fli_text *t, const checker *c, const fli_condition_seen *s)
{
    int assumed = s->kind == FLI_CONDITION_ASSUMED, bound = s->kind == FLI_CONDITION_BOUND;
    fli_text_addf(t, "%-9s%-14s %s\n", assumed ? "assumed" : s->failing ? "FAILS" : "holds", s->name, s->formula);
    if (bound) fli_text_addf(t, "         tightest at client %u: %.4g <= %.4g", s->client, s->have, s->most);
    if (bound && s->failing)
        fli_text_addf(t, ", too large by a factor of %.3g;", fli_condition_excess(s->have, s->most));
    if (s->failing)
        fli_text_addf(t, "%s fails at %zu of %zu clients", bound ? "" : "        ", s->failing, c->measured);
    if (bound || s->failing) fli_text_add(t, "\n");
}

static void print(fli_text *t, const checker *c)
{
    int all = 1, assumed = 0;
    print_head(t, c);
    if (!c->found.count) {
        fli_text_add(t, "no step-size conditions are known here for this method\n");
        return;
    }
    for (size_t i = 0; i < c->found.count; i++) {
        print_condition(t, c, &c->found.seen[i]);
        all &= !c->found.seen[i].failing;
        assumed |= c->found.seen[i].kind == FLI_CONDITION_ASSUMED;
    }
    if (!all)
        fli_text_add(
            t, "\nthe theorem does not apply; theorems are cautious, and the method may work well all the same\n");
    else
        fli_text_addf(t, "\nall conditions hold at the clients that were measured: the theorem applies%s\n",
                      assumed ? ", if what is assumed is true" : "");
    if (!all && c->plan->algo->theory.advise) advise(t, c);
}

fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg)
{
    fli_plan plan;
    checker c = {0};
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_plan_data(cfg, NULL, &plan);
    if (!s) s = fli_plan_finish(&plan, cfg);
    if (!s) s = checker_init(cfg->ctx, &plan, &c);
    size_t n = s ? 0 : plan.fed->clients < CLIENTS ? plan.fed->clients : CLIENTS;
    for (size_t i = 0; i < n && !s; i++) s = check_client(cfg->ctx, &c, i * plan.fed->clients / n);
    if (!s && plan.algo->theory.check && (plan.settings.system.deadline > 0 || plan.settings.system.wait_for < 1))
        fli_assumption(&c.found, "p_i",
                       "nobody is late every time; p_i is the chance to be invited, not to be in time");
    if (!s) {
        print(&text, &c);
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    checker_fini(&c);
    fli_plan_fini(&plan);
    fli_text_fini(&text);
    return s;
}
