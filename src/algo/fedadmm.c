/* Federated ADMM ([VRA] Algorithm 2): FedVRA with a = d = 1.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) - <lam_i, z> + gamma_i/2 ||z - x||^2 from x
 *            lam_i <- lam_i + gamma_i (x - x_i);  up: gamma_i (x_i - x)
 *   server   lam <- lam + sum_S w_i gamma_i (x - x_i);  x <- x + beta sum_S w_i gamma_i (x_i - x) - beta lam
 *
 * The paper's Algorithm 2 uploads gamma_i x_i - lam_i, from which the server forms the same two sums. */
#include "algo/algo.h"
#include "algo/family_vra.h"

typedef struct {
    fl_reals gamma;
} params;

static const fl_key keys[] = {
    FLI_KEY_PER_CLIENT(params, gamma, "0.1", FLI_ABOVE_0, FLI_NO_MAX, NULL, "penalty parameter gamma_i"),
    FLI_KEY_END,
};

static fli_vra at(const void *p, size_t client)
{
    return (fli_vra){fli_reals_at(&((const params *)p)->gamma, client), 1, 1};
}

static int start(const fl_coordinator *s)
{
    fli_vra_start(s, &((const params *)s->bound)->gamma);
    return 0;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    fli_vra c = at(t->bound, t->ask.client);
    fli_vra_pose(t, &c, p);
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_vra c = at(t->bound, t->ask.client);
    fli_vra_answer(t, &c, a);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_vra c = at(s->bound, t->ask.client);
    fli_vra_absorb(s, &c, t);
    return 0;
}

static int one_gamma(const void *p) { return fli_reals_equal(&((const params *)p)->gamma); }

static void check(const void *p, const fl_facts *f, fl_conditions *out)
{
    fli_vra c = at(p, f->client);
    fli_vra_check(&c, one_gamma(p), f, out);
}

static fli_vra in_theory(const void *p, const fl_facts *f) { return at(p, f->client); }

static double beta_of(const void *p, const fl_facts_all *all)
{
    double sum = 0;
    for (size_t i = 0; i < all->clients; i++) sum += all->weights[i] * at(p, i).gamma;
    return 1 / sum;
}

static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out)
{
    if (!one_gamma(p)) fli_vra_check_sum(0, beta_of(p, all), in_theory, p, all, out);
}

static void promise(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    fli_vra_promise(in_theory, p, beta_of(p, all), all, start, out);
}

static void contribute(const fl_turn *t, double f, void *gradient, double *out)
{
    fli_vra c = at(t->bound, t->ask.client);
    fli_vra_contribute(t, &c, f, gradient, out);
}

static void falls(const void *p, const fl_facts *f, fl_conditions *out)
{
    fli_vra c = at(p, f->client);
    fli_vra_falls(&c, one_gamma(p), f, out);
}

static void warn(const void *p, const fl_facts *f, fli_text *out) { fli_vra_warn(at(p, f->client).gamma, f, out); }

static void fix(const void *p, const fl_facts *worst, fl_fixes *out)
{
    (void)p;
    fli_vra_fix(0, 1, 1, worst, out);
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.gamma", 0.001, 10, 1}, {NULL}};

const fl_method fli_algo_fedadmm = {
    .name = "fedadmm",
    .title = "federated ADMM: FedVRA with both step sizes 1",
    .citation = "Wang et al., Beyond ADMM, 2023, Algorithm 2",
    .traits = FL_METHOD_PLAIN_SGD,
    .remedy = "a smaller local.lr or algorithm.gamma",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    FLI_VRA_PARTS,
    .theory.check = check,
    .theory.check_all = check_all,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.warn = warn,
    .theory.potential = {.name = FLI_VRA_POTENTIAL,
                         .point = fli_vra_point,
                         .client = contribute,
                         .server = fli_vra_potential,
                         .falls = falls},
    .start = start,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = fli_vra_advance,
};
