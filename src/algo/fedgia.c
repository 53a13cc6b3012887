/* FedGiA: gradient descent and inexact ADMM, for f = (1/N) sum f_i. All clients take a turn in every round, from one
 * gradient each:
 *
 *   client   g_i = grad f_i(x)/N
 *   in C     k0 times:  x_i = x - (H_i/N + sigma I)^-1 (g_i + pi_i),  pi_i <- pi_i + sigma (x_i - x)
 *   others   pi_i = -g_i,  x_i = x: a gradient step, and the limit of the above for many steps
 *   up       z_i = x_i + pi_i/sigma
 *   server   x = (1/N) sum_i z_i
 *
 * C is the cohort that `participation` chooses. With everything times N this is the linearised solver's problem
 * (solver/linearised.c): start = x, rho = N sigma, shift = N pi_i, which is what a client keeps, steps = k0, or 0 for
 * the limit. The k0 steps need no further gradient, and cost next to nothing beside it.
 *
 *   H_i      gram: A_i'A_i/d_i for least squares, A_i'A_i/(4 d_i) for logistic regression, plus the weight decay;
 *            diagonal: r_i I, with r_i the largest eigenvalue of that matrix, for softmax regression the bound
 *            lambda_max(A_i'A_i/d_i)/2 that its Hessian has at every model, or, for networks, the largest eigenvalue of
 *            the Hessian at the start model
 *   sigma    given, or t r/N with r = max r_i, for which everyone is asked for its r_i before the first round
 *   t        given, or auto: mean r_i / r, that is sigma = (mean r_i)/N. Clients outside C, and those in it for large
 *            k0, make gradient steps of length 1/(N sigma) out of a round, which converge if f = (1/N) sum f_i is
 *            curved less than 2 N sigma. f of a linear model is curved by at most mean r_i: auto is the longest step
 *            of that kind which surely converges. The paper's Table II (0.15; max(0.1, 8 ln(d)/n)) relies on an f that
 *            is much flatter than the steepest f_i. If clients are alike it diverges: there any t below
 *            1/2 does.
 *   start    pi_i = 0, z_i = x_i = x0
 *
 *   theory   Theorems IV.1 to IV.3: with H_i at least the curvature of f_i and sigma > 6 r/N the augmented Lagrangian
 *            sum_i [f_i(x_i)/N + <x_i - x, pi_i> + sigma/2 ||x_i - x||^2] never increases, whatever C is, and grad f(x)
 *            vanishes. All t in use are far below 6.
 *
 * Zhou, Li: Efficient and convergent federated learning, 2022. Its (29) counts an upload and a broadcast as two
 * communication rounds, its figures count one, as we do. */
#include "algo/algo.h"

#include <math.h>

enum { X };            /* server */
enum { SIGMA, R };     /* its scalars */
enum { PI, X_I };      /* client: N pi_i; x_i, which only the potential needs, */
enum { SLOPE, APART }; /* and its terms <x_i - x, N pi_i> and N sigma/2 ||x_i - x||^2, as of the last turn */
enum { Z };            /* up, sum */
enum { R_SUM };        /* scalar sum, before the first round */
enum { R_I };          /* up, before the first round */
enum { GRAM, DIAGONAL };

typedef struct {
    int variant;
    int64_t k0;
    double sigma;
    fl_reals t; /* empty: auto */
} params;

static const fl_key keys[] = {
    FLI_KEY_CHOICE(
        params, variant, "diagonal", "gram|diagonal",
        "the curvature H_i that stands for f_i's: the Gram matrix of the client's samples (least squares and "
        "logistic regression), or its largest eigenvalue in all directions (any model)"),
    FLI_KEY_INT(params, k0, "5", 1, 1000000, "local steps per round of the clients that participation chooses"),
    FLI_KEY_REAL(params, sigma, "0", 0, FLI_NO_MAX,
                 "penalty parameter; 0: t r/N, with r the largest curvature of all clients"),
    {"t", FL_KEY_REALS, "auto", FLI_ABOVE_0, FLI_NO_MAX, "auto",
     "of sigma = t r/N; auto: the mean curvature of the clients over the largest, which converges without tuning; less "
     "is faster where clients differ much (the paper: 0.15; max(0.1, 8 ln(d)/n) for d samples and n parameters); "
     "theory wants more than 6",
     offsetof(params, t)},
    FLI_KEY_END,
};

static const char *const server[] = {"x", NULL};
static const char *const client[] = {"N pi_i", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {"sigma", FL_PART_NUMBER, SIGMA}, {NULL}};
static const fl_part up[] = {{"z_i", FL_PART_VECTOR, Z, FL_PART_VALUE, FL_IN_ROUNDS},
                             {"r_i", FL_PART_NUMBER, R_I, FL_PART_VALUE, FL_IN_WARM_UP},
                             {NULL}};
static const char *const sums[] = {"mean of the z_i", NULL};

static int validate(const void *p, size_t clients, fl_failure *f)
{
    const params *a = p;
    (void)clients;
    if (a->t.n <= 1) return 0;
    return fli_refuse(f, "algorithm.t is one number or auto, not a list of %zu", a->t.n);
}

static const char *solver(const void *p, size_t stage)
{
    (void)stage;
    return ((const params *)p)->variant == GRAM ? "gram" : "diagonal";
}

static int warms_up(const void *p) { return !(((const params *)p)->sigma > 0); }

static int start(const fl_coordinator *s)
{
    s->scalars[SIGMA] = ((const params *)s->bound)->sigma;
    return 0;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    p->start = t->down[X];
    if (t->ask.warm_up) return 0; /* rho = 0: only r_i is needed */
    p->rho = (double)t->clients * t->down_scalars[SIGMA];
    p->shift = t->state[PI];
    p->steps = !t->ask.bystander ? (size_t)a->k0 : 0;
    return 0;
}

/* The Lagrangian of Lemma B.3 uses the x of the round's beginning; the next x comes too late, so its terms are computed
 * here. */
static void watch(const fl_turn *t, const fl_answer *a)
{
    double *kept = t->scalars + fli_algo_fedgia.client_scalars;
    fli_sub(&t->space, a->z, t->down[X], t->state[X_I]);
    kept[SLOPE] = fli_dot(&t->space, t->state[X_I], a->linearised.multiplier);
    kept[APART] = (double)t->clients * t->down_scalars[SIGMA] / 2 * fli_dot(&t->space, t->state[X_I], t->state[X_I]);
    fli_copy(&t->space, a->z, t->state[X_I]);
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    if (t->ask.warm_up) {
        t->up_scalars[R_I] = a->linearised.curvature;
        if (t->watched) fli_copy(&t->space, t->down[X], t->state[X_I]);
        return 0;
    }
    if (t->watched) watch(t, a);
    /* z_i = x_i + pi_i/sigma */
    fli_copy(&t->space, a->linearised.multiplier, t->state[PI]);
    fli_lin(&t->space, 1, a->z, 1 / ((double)t->clients * t->down_scalars[SIGMA]), a->linearised.multiplier, t->up[Z]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    if (!s->warm_up) {
        fli_axpy(&s->space, 1 / (double)s->clients, t->up[Z], s->sum[Z]);
        return 0;
    }
    s->scalars[R] = fmax(s->scalars[R], t->up_scalars[R_I]);
    s->scalar_sum[R_SUM] += t->up_scalars[R_I];
    return 0;
}

/* N sigma; if all samples are zeros there is no curvature, and any number is good */
static double penalty(const fl_coordinator *s)
{
    const params *a = s->bound;
    double r = s->scalars[R];
    if (!(r > 0)) return 1;
    return a->t.n ? a->t.v[0] * r : s->scalar_sum[R_SUM] / (double)s->clients;
}

static int advance(const fl_coordinator *s)
{
    if (s->warm_up)
        s->scalars[SIGMA] = penalty(s) / (double)s->clients;
    else
        fli_copy(&s->space, s->sum[Z], s->vec[X]);
    return 0;
}

/* With sigma = t r/N and r >= r_i the condition is one on t. */
static void check(const void *p, const fl_facts *f, fl_conditions *out)
{
    const params *a = p;
    if (a->sigma > 0)
        fl_condition_below(out, "Theorem IV.1", "6 r_i/N < sigma", f, 6 * f->smoothness / (double)f->clients, a->sigma);
    else
        fl_condition_below(out, "Theorem IV.1", "6 < t, so that 6 r/N < sigma", f, 6,
                           a->t.n ? a->t.v[0] : f->all->mean_smoothness / f->all->smoothness);
    if (!f->bounded)
        fl_assumption(out, "(21)", "H_i = r_i I is at least the curvature of f_i wherever the run gets to");
}

/* Theorem IV.3: min ||grad f||^2 <= rho (L^1 - f*)/K over the K rounds after the first, rho = 10 t^3 r/(t^2 - 5t - 6)
 * with t = N sigma/r. The paper starts with L^0 at the first round, which its Lemma B.3 does not allow (pi = 0 there
 * violates (34)). After that round L^1 <= f(x0) + 7/(12 N sigma) mean ||grad f_i(x0)||^2: a client is then at x0 - y
 * with ||y|| <= ||grad f_i||/(N sigma), and r/N < sigma/6. */
static void promise(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    const params *a = p;
    double n = (double)all->clients, r = all->smoothness, mean = 0;
    double t = a->sigma > 0 ? n * a->sigma / r : a->t.n ? a->t.v[0] : all->mean_smoothness / r;
    *out = (fl_promise){
        .theorem = "[GiA] Theorem IV.3", .bounds = "the smallest ||grad f(x)||^2", .metric = "gradient2", .before = 1};
    if (!start) return;
    for (size_t i = 0; i < all->count; i++) mean += start->client_slope2[i] / (double)all->count;
    out->times_eps = 10 * t * t * t * r / (t * t - 5 * t - 6) * (start->value + 7 / (12 * t * r) * mean);
}

static const void *point(const fl_turn *t) { return t->state ? t->state[X_I] : t->down[X]; }

static void contribute(const fl_turn *t, double f, void *gradient, double *out)
{
    const double *kept = t->state ? t->scalars + fli_algo_fedgia.client_scalars : (const double[]){0, 0};
    (void)gradient;
    out[0] = f + kept[SLOPE] + kept[APART];
    out[1] = 0;
}

static double lagrangian(const fl_coordinator *s, const double *sum, double g) { return (void)s, sum[0] + g; }

static void falls(const void *p, const fl_facts *f, fl_conditions *out)
{
    check(p, f, out);
    fl_requirement(out, "(21)", "the model is linear, so that r_i bounds its curvature", f, f->bounded);
}

static void fix(const void *p, const fl_facts *worst, fl_fixes *out)
{
    if (((const params *)p)->sigma > 0)
        fl_fix_least(out, "Theorem IV.1", "algorithm.sigma", 6.6 * worst->smoothness / (double)worst->clients,
                     "10% above 6 r/N");
    else
        fl_fix_word(out, "Theorem IV.1", "algorithm.t", "6.1", "just above 6");
}

static const fl_tune_range tune[] = {{"algorithm.t", 0.01, 10, 1}, {NULL}};

const fl_method fli_algo_fedgia = {
    .name = "fedgia",
    .title = "gradient descent and inexact ADMM: one gradient per client and round",
    .citation = "Zhou and Li, 2022",
    .traits = FL_METHOD_UNIFORM | FL_METHOD_BYSTANDERS | FL_METHOD_WHOLE_ADVANCE,
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .server_scalars = 2,
    .client = client,
    .up = up,
    .sums = sums,
    .scalar_sums = 1,
    .validate = validate,
    .theory.check = check,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.potential = {.name = "the augmented Lagrangian (8)",
                         .vectors = 1,
                         .scalars = 2,
                         .point = point,
                         .client = contribute,
                         .server = lagrangian,
                         .falls = falls,
                         .after = 1}, /* the start violates (34), as pi_i = 0 */
    .remedy = "a larger algorithm.t, or algorithm.sigma",
    .solver_for = solver,
    .rounds.warms_up = warms_up,
    .start = start,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
