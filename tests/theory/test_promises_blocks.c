/* What `fedloom check` promises of methods with pseudo labels, FedVRA-U, FedCPSL and FedSHVR, held against random small
 * problems: see test_promises.c. */
#include "promises.h"

/* ---- problems with pseudo labels --------------------------------------------------------------------------- */

typedef struct {
    drawn d;
    double row[MOST_ROWS * MOST_FEATURES], value[MOST_ROWS]; /* labelled rows first */
    double label_lr;
    size_t label_steps;
} blocks;

/* Labelled and unlabelled samples of every client as the library's plan has them. */
static void deal_again(blocks *b, const char *text)
{
    fl_run *run = NULL;
    fl_ctx *ctx = b->d.f->ctx;
    fl_config *cfg = fl_config_new(ctx);
    twin *t = &b->d.t;
    size_t at = 0;
    assert_ok(ctx, fl_config_text(cfg, text, "the problem"));
    if (fl_run_new(cfg, &run)) fail_msg("%s\n%s", fl_ctx_error(ctx), text);
    fl_config_free(cfg);
    for (size_t i = 0; i < t->clients; i++) {
        fli_view v;
        assert_ok(ctx, fli_view_open(ctx, run->plan.fed, i, &v));
        if (b->d.decay_by_samples) t->at[i].decay *= (double)t->at[i].plain / (double)v.n_train;
        t->at[i].plain = v.n_train;
        t->at[i].open = v.n_unlabelled;
        t->at[i].row = b->row + at * t->features;
        t->at[i].value = b->value + at;
        t->at[i].weight = fli_plan_weight(&run->plan, i);
        assert_true(v.n_unlabelled <= MOST_OPEN);
        for (size_t s = 0; s < v.n_train + v.n_unlabelled; s++, at++) {
            uint32_t sample = s < v.n_train ? v.train[s] : v.unlabelled[s - v.n_train];
            fli_dataset_row(v.ds, sample, b->row + at * t->features);
            b->value[at] = s < v.n_train ? (double)v.ds->label[sample] : NAN;
        }
        fli_view_close(&v);
    }
    fl_run_free(run);
}

/* A softmax problem, with pseudo labels where `open`. Returns whether there are any. */
static int draw_blocks(blocks *b, fixture *f, fli_rng *r, int open)
{
    wish w = {.kind = SOFTMAX,
              .clients = 2 + one_of(r, 4),
              .features = 1 + one_of(r, 3),
              .classes = 2 + one_of(r, 3),
              .most = 10};
    w.late = !open && chance(r, 0.1);
    draw_data(&b->d, f, r, &w);
    b->d.t.alpha_p = b->d.t.alpha_r = 0;
    if (!open) return 0;
    b->d.t.alpha_p = spread(r, 0.01, chance(r, 0.3) ? 1000 : 2);
    b->d.t.alpha_r = chance(r, 0.1) ? 0 : spread(r, 0.01, 2);
    for (char *at = strstr(b->d.text, "  group_column"); at; at = NULL) { /* data is an earlier section */
        char rest[sizeof b->d.text];
        snprintf(rest, sizeof rest, "%s", at);
        b->d.used = (size_t)(at - b->d.text);
        say(&b->d, "  unlabelled: %.17g\n", between(r, 0.2, 0.6));
        say(&b->d, "%s", rest);
    }
    return 1;
}

static void say_labels(blocks *b, const char *how, const char *more)
{
    say(&b->d, "semi:\n  labels: %s\n  alpha_p: %.17g\n  alpha_r: %.17g\n  label_lr: %.17g\n  label_steps: %zu\n%s",
        how, b->d.t.alpha_p, b->d.t.alpha_r, b->label_lr, b->label_steps, more);
}

/* A client's L_i may not be less than the curvature that is there for sure, at x = 0, where runs begin. */
static int too_smooth(const blocks *b, const verdict *said)
{
    double least = 0;
    for (size_t i = 0; i < b->d.t.clients; i++) {
        double plain = twin_gram(&b->d.t, b->d.t.at[i].row, b->d.t.at[i].plain) / (double)b->d.t.classes;
        least = fmax(least, fmax(plain, twin_open_curvature(&b->d.t, i)) + b->d.t.at[i].decay);
    }
    return said->smoothness < least * (1 - 1e-2);
}

/* Bounds from above on the curvature in x, and in a client's labels where they begin. */
static double roughly(const blocks *b, size_t i)
{
    const twin *t = &b->d.t;
    double open = t->at[i].open ? (double)t->classes * twin_open_curvature(t, i) / 2 : 0;
    return twin_smoothness(t, i) + 2 * open +
           (t->at[i].open ? t->alpha_r * (double)t->classes / (double)t->at[i].open : 0);
}

/* ---- [VRA] Theorem 2 ------------------------------------------------------------------------------------- */

/* The mean of (101) after a round from a state a few rounds from the start is below it there by what (151) says at
 * least. */
static void vra_u_cohorts(tally *t, fli_rng *r, const blocks *b, const vra_settings *v, sampling how, size_t count,
                          size_t problem, const char *text)
{
    static vra_state s, next;
    double x[MOST_X] = {0}, mean = 0;
    char why[200];
    unsigned all = (1U << b->d.t.clients) - 1;
    vra_begin(&b->d.t, x, &s);
    for (size_t k = one_of(r, 5); k > 0; k--) vra_round(&b->d.t, v, 1 + (unsigned)one_of(r, all), &s);
    double before = vra_potential(&b->d.t, v, &s);
    for (unsigned cohort = 0; cohort <= all; cohort++) {
        double p = cohort_probability(how, b->d.t.clients, count, v->p, cohort);
        if (p == 0) continue;
        next = s;
        vra_round(&b->d.t, v, cohort, &next);
        mean += p * vra_potential(&b->d.t, v, &next);
    }
    t->states++;
    if (!tally_rise(t, before, mean + vra_descent(&b->d.t, v, &s))) return;
    snprintf(why, sizeof why, "the mean of (101) over all cohorts is %.10g after %.10g", mean, before);
    tally_add(t, &t->broken, problem, text, why);
}

/* gamma and step sizes that satisfy (27) and (28), and labels' steps that satisfy (29) as it is printed, or that are
 * longer, so that some lie between what is printed and what the proof needs. */
static void draw_vra_u(blocks *b, fli_rng *r, vra_settings *v, double worse)
{
    double l = 0, p = 1;
    for (size_t i = 0; i < b->d.t.clients; i++) l = fmax(l, roughly(b, i)), p = fmin(p, v->p[i]);
    double q = 0.999 / (2 * (v->a + v->d) * (double)v->steps), most = 0;
    double c = v->a * (1 - pow(1 - q, (double)v->steps));
    for (size_t i = 0; i < b->d.t.clients; i++) most = fmin(fmax(most, v->p[i]), 0.98);
    double gamma = fmax(sqrt(6) * l / (2 * (v->a + v->d)), l / 2 + 9.01 * l / (p * c * sqrt(1 - most))) / worse;
    for (size_t i = 0; i < b->d.t.clients; i++) v->gamma[i] = gamma, v->lr[i] = q / gamma;
    v->label_steps = b->label_steps = 1 + one_of(r, 3);
    worse *= chance(r, 0.5) ? spread(r, 1, 30) : 1;
    v->label_lr = b->label_lr = worse * 0.999 / (l + 4 / gamma * (double)v->label_steps * l * l * (1 + 400 / (c * c)));
}

/* The first condition of Theorem 2 that is false with the largest L_i that check says, or one that is less than what is
 * there for sure; NULL: none. Whose L_i it is, is not known: the p_i for which a condition is easiest counts; of
 * clients without pseudo labels (29) asks nothing. gamma and the step sizes are the same for all. */
static const char *false_of_theorem_2(const blocks *b, const vra_settings *v, const verdict *said)
{
    double l = said->smoothness, gamma = v->gamma[0], least_gamma = INFINITY, least_rate = INFINITY;
    double moved = 1 - pow(1 - gamma * v->lr[0], (double)v->steps), q = 4 / gamma * (double)v->label_steps * l * l;
    int open = 1;
    for (size_t i = 0; i < b->d.t.clients; i++) {
        double p = v->p[i], u = p * v->a * moved;
        open &= b->d.t.at[i].open > 0;
        least_gamma = fmin(least_gamma, l / 2 + (p < 1 ? 9 * l / (u * sqrt(1 - p)) : 17 * l / u));
        least_rate =
            fmin(least_rate, l + q * (p < 1 ? 1 + (4 + u) * (4 + u) / (u * u * (1 - p)) : (32 + 5 * u) / (u * u)));
    }
    if (too_smooth(b, said)) return "L_i is less than the curvature at the start";
    if (gamma < (1 - 1e-3) * least_gamma) return "(27)";
    if (sqrt(6) * l * moved > (1 + 1e-3) * gamma) return "(28) first";
    if (gamma * v->lr[0] > 1 + 1e-9) return "(28) second";
    if ((v->a + v->d) * moved > 1 + 1e-9) return "(28) third";
    return open && v->label_lr * least_rate > 1 + 1e-3 ? "(29) as (146) has it" : NULL;
}

static void vra_u_problem(tally *t, fixture *f, size_t problem)
{
    static blocks b;
    fli_rng r;
    verdict said;
    vra_settings v = {.labels = 1};
    size_t count;
    fli_rng_init(&r, 31, FLI_RNG_TEST, 0, (uint32_t)problem);
    int mend = chance(&r, 0.6);
    draw_blocks(&b, f, &r, 1);
    sampling how = draw_sampling_from(&b.d, &r, 0.05, chance(&r, 0.5) ? 0.2 : 0.98, &count, v.p);
    v.steps = 1 + one_of(&r, 4);
    v.a = spread(&r, 0.5, 3);
    v.d = spread(&r, 0.5, 3);
    deal_again(&b, b.d.text);
    draw_vra_u(&b, &r, &v, mend ? spread(&r, 2, 100) : 1);
    if (b.d.t.alpha_r == 0) b.d.t.alpha_r = 0.01;
    say_labels(&b, "projected", "");
    say(&b.d,
        "local:\n  batch: 0\n  steps: %zu\n  lr: %.17g\nalgorithm:\n  kind: fedvra-u\n  a: %.17g\n  d: %.17g\n  gamma: "
        "%.17g\n",
        v.steps, v.lr[0], v.a, v.d, v.gamma[0]);
    char *text = promised(t, f, b.d.text, mend, &said);
    if (text) {
        if (how == EVERYONE && !strstr(text, "kind: everyone")) how = UNIFORM, count = cohort_of(text, b.d.t.clients);
        for (size_t i = 0; how == UNIFORM && i < b.d.t.clients; i++) v.p[i] = (double)count / (double)b.d.t.clients;
        assert_true(numbers(text, "algorithm", "gamma", v.gamma, b.d.t.clients));
        for (size_t i = 0; i < b.d.t.clients; i++) v.lr[i] = number(text, "local", "lr", NAN);
        v.a = number(text, "algorithm", "a", v.a);
        v.d = number(text, "algorithm", "d", v.d);
        v.label_lr = number(text, "semi", "label_lr", NAN);
        v.label_steps = (size_t)number(text, "semi", "label_steps", 1);
        const char *wrong = false_of_theorem_2(&b, &v, &said);
        if (wrong) tally_add(t, &t->untrue, problem, text, wrong);
        for (size_t k = 0; k < 3; k++) vra_u_cohorts(t, &r, &b, &v, how, count, problem, text);
    }
    free(text);
    free(said.json);
}

static void vra_theorem_2(void **state)
{
    tally t = {.theorem = "[VRA] Theorem 2"};
    for (size_t k = problems(600); k-- > 0;) vra_u_problem(&t, *state, k);
    tally_end(&t, 20);
}

/* ---- [CPSL] Theorem 1 ------------------------------------------------------------------------------------ */

typedef struct {
    cpsl_settings v;
    sampling how;
    const char *outside; /* why the theorem does not cover it; NULL: it may */
    size_t least;        /* the fewest steps; v.steps are the most */
    const char *method;
} cpsl_case;

/* lr as large as (34) allows for this L. */
static double cpsl_edge(const twin *t, const cpsl_case *c, double l)
{
    double p = (double)c->v.cohort / (double)t->clients, q = cpsl_steps(c->v.momentum, c->v.steps);
    double rate = c->v.server_lr > 0 ? c->v.server_lr : (double)c->v.steps;
    double slow = c->v.server_lr > 0 ? c->v.server_lr : ((double)c->least + (double)c->v.steps) / 2;
    return fmin(fmin(p / (48 * rate * l), 1 / (8 * l * q)),
                fmin(3 * slow / (100 * p * l * q * q), p / (32 * rate * l) / sqrt(1 + 2 / p)));
}

/* Things that [CPSL] does not cover, some of the time. */
static void draw_outside(blocks *b, fli_rng *r, cpsl_case *c)
{
    const char *semi = "", *local = "";
    if (c->v.labels && chance(r, 0.1)) b->d.t.alpha_r = 0;
    size_t open = 0;
    for (size_t i = 0; i < b->d.t.clients; i++) open += b->d.t.at[i].open;
    if (b->d.t.alpha_r == 0 && open) c->outside = "alpha_r = 0, so that nothing is strongly convex in nu";
    if (chance(r, 0.05)) c->outside = "a step size that falls", local = "  schedule: sqrt\n";
    if (open && chance(r, 0.05)) c->outside = "confidence: another objective", semi = "  confidence: 0.5\n";
    if (c->v.labels) say_labels(b, *semi ? "closed_form" : "projected", semi);
    say(&b->d, "local:\n  batch: 0\n  steps: %zu\n  momentum: %.17g\n  lr: %.17g\n%s", c->v.steps, c->v.momentum,
        c->v.lr, local);
    if (c->least < c->v.steps) say(&b->d, "  uneven: range\n  range: [%zu, %zu]\n", c->least, c->v.steps);
}

static void draw_cpsl(blocks *b, fli_rng *r, cpsl_case *c)
{
    double p[MOST_CLIENTS], l = 0;
    *c = (cpsl_case){.how = draw_sampling(&b->d, r, &c->v.cohort, p)};
    c->v.cohort = c->how == UNIFORM ? (size_t)(p[0] * (double)b->d.t.clients + 0.5) : b->d.t.clients;
    if (c->how == BERNOULLI) c->outside = "cohorts whose size changes";
    c->method = c->how == EVERYONE && chance(r, 0.3)   ? "fedshvr"
                : c->how != EVERYONE && chance(r, 0.3) ? "fedshvrp"
                                                       : "fedcpsl";
    c->v.labels = b->d.t.alpha_p > 0;
    c->v.momentum = !strcmp(c->method, "fedcpsl") && chance(r, 0.5) ? between(r, 0.1, 0.9) : 0;
    c->v.steps = c->least = 1 + one_of(r, 5);
    if (chance(r, 0.15)) c->v.steps = 30, c->least = 1;
    c->v.server_lr = chance(r, 0.4) ? spread(r, 0.3, 10) : 0;
    for (size_t i = 0; i < b->d.t.clients; i++) l = fmax(l, c->v.labels ? roughly(b, i) : twin_smoothness(&b->d.t, i));
    c->v.lr = cpsl_edge(&b->d.t, c, l) * (chance(r, 0.7) ? between(r, 0.7, 0.999) : spread(r, 1.1, 300));
    c->v.label_lr = b->label_lr = 0.2 / l;
    b->label_steps = 1;
    draw_outside(b, r, c);
    say(&b->d, "algorithm:\n  kind: %s\n", c->method);
    if (c->v.server_lr > 0) say(&b->d, "  server_lr: %.17g\n", c->v.server_lr);
}

/* The mean of (48) after a round is below it before by what (69) says at least. */
static void cpsl_cohorts(tally *t, fli_rng *r, const blocks *b, const cpsl_case *c, size_t problem, const char *text)
{
    static cpsl_state s, next;
    double mean = 0;
    char why[200];
    unsigned all = (1U << b->d.t.clients) - 1;
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < b->d.t.clients; i++)
        for (size_t k = 0; k < MOST_OPEN; k++)
            for (size_t j = 0; j < b->d.t.classes; j++) s.nu[i][k][j] = 1 / (double)b->d.t.classes;
    for (size_t k = one_of(r, 5); k > 0; k--) {
        unsigned cohort;
        do cohort = (unsigned)one_of(r, all + 1);
        while (cohort_probability(UNIFORM, b->d.t.clients, c->v.cohort, NULL, cohort) == 0);
        cpsl_round(&b->d.t, &c->v, cohort, &s);
    }
    double before = cpsl_potential(&b->d.t, &c->v, &s);
    for (unsigned cohort = 0; cohort <= all; cohort++) {
        double p = cohort_probability(UNIFORM, b->d.t.clients, c->v.cohort, NULL, cohort);
        if (p == 0) continue;
        next = s;
        cpsl_round(&b->d.t, &c->v, cohort, &next);
        mean += p * cpsl_potential(&b->d.t, &c->v, &next);
    }
    t->states++;
    if (!tally_rise(t, before, mean + cpsl_descent(&b->d.t, &c->v, &s))) return;
    snprintf(why, sizeof why, "the mean of (48) over all cohorts is %.10g after %.10g", mean, before);
    tally_add(t, &t->broken, problem, text, why);
}

/* What is false of the text that is promised; NULL: nothing. */
static const char *false_of_cpsl(const blocks *b, const cpsl_case *c, const verdict *said)
{
    double l = 0;
    if (c->outside) return c->outside;
    if (too_smooth(b, said)) return "L_i is less than the curvature at the start";
    for (size_t i = 0; i < b->d.t.clients && !c->v.labels; i++) l = fmax(l, twin_smoothness(&b->d.t, i));
    return l > 0 && c->v.lr > cpsl_edge(&b->d.t, c, l) * (1 + 1e-3) ? "(34)" : NULL;
}

static void cpsl_problem(tally *t, fixture *f, size_t problem)
{
    static blocks b;
    fli_rng r;
    cpsl_case c;
    verdict said;
    fli_rng_init(&r, 32, FLI_RNG_TEST, 0, (uint32_t)problem);
    draw_blocks(&b, f, &r, chance(&r, 0.5));
    deal_again(&b, b.d.text);
    draw_cpsl(&b, &r, &c);
    int mend = chance(&r, 0.4), own = !strcmp(c.method, "fedcpsl");
    if (own) say(&b.d, "  mix: %g\n", (double)one_of(&r, 2)); /* Theorem 2 is about the rest */
    if (own) say(&b.d, "  lr_local: %.17g\n", c.v.lr);
    char *text = promised(t, f, b.d.text, mend, &said);
    if (text) {
        if (c.how == BERNOULLI && !strstr(text, "kind: bernoulli")) c.outside = NULL, c.how = UNIFORM;
        if (strstr(text, "schedule: constant") && c.outside && strstr(c.outside, "falls")) c.outside = NULL;
        if (c.outside && strstr(c.outside, "alpha_r") && number(text, "semi", "alpha_r", 0) > 0) c.outside = NULL;
        if (c.outside && strstr(c.outside, "confidence") && !(number(text, "semi", "confidence", 0) > 0))
            c.outside = NULL;
        b.d.t.alpha_r = number(text, "semi", "alpha_r", 0);
        c.v.cohort = cohort_of(text, b.d.t.clients);
        c.v.lr = number(text, "local", "lr", NAN);
        c.v.server_lr = number(text, "algorithm", "server_lr", 0);
        c.v.label_lr = number(text, "semi", "label_lr", c.v.label_lr);
        c.v.l = said.smoothness;
        int cohorts = c.least == c.v.steps && c.how != BERNOULLI && !strstr(text, "closed_form");
        const char *wrong = false_of_cpsl(&b, &c, &said);
        if (wrong) tally_add(t, &t->untrue, problem, text, wrong);
        for (size_t k = 0; k < 3 && cohorts && !c.outside; k++) cpsl_cohorts(t, &r, &b, &c, problem, text);
    }
    free(text);
    free(said.json);
}

static void cpsl_theorem_1(void **state)
{
    tally t = {.theorem = "[CPSL] Theorem 1"};
    for (size_t k = problems(1000); k-- > 0;) cpsl_problem(&t, *state, k);
    tally_end(&t, 25);
}

/* f(x, nu) along a run of one of the plain methods, everyone in every round, beside the library's. */
static void goes_its_way(const blocks *b, const char *more, int cpsl)
{
    static vra_state s;
    static cpsl_state p;
    const fl_row *rows;
    const twin *t = &b->d.t;
    unsigned all = (1U << t->clients) - 1;
    vra_settings v = {.labels = 1, .a = 0.7, .d = 1.2, .steps = 3, .label_lr = 0.3, .label_steps = 2};
    cpsl_settings c = {.lr = 0.01, .momentum = 0.5, .steps = 3, .cohort = t->clients, .labels = 1, .label_lr = 0.3};
    for (size_t i = 0; i < t->clients; i++) v.gamma[i] = 2, v.lr[i] = 0.01;
    memset(&p, 0, sizeof p);
    vra_begin(t, (double[MOST_X]){0}, &s);
    memcpy(p.nu, s.nu, sizeof p.nu);
    fl_run *run = run_text(b->d.f, b->d.text, more);
    assert_non_null(run);
    size_t n = fl_run_rows(run, &rows);
    for (size_t k = 0; k < n; k++) {
        double want = 0, g[MOST_X], have = fl_row_get(&rows[k], "train_loss");
        for (size_t i = 0; i < t->clients; i++)
            want += t->at[i].weight * twin_f(t, i, cpsl ? p.x : s.x, cpsl ? p.nu[i] : s.nu[i], g);
        if (!(fabs(want - have) < 1e-9 * (1 + fabs(want))))
            fail_msg("round %zu, %s: %.17g, not %.17g\n%s", k, more, have, want, b->d.text);
        if (cpsl)
            cpsl_round(t, &c, all, &p);
        else
            vra_round(t, &v, all, &s);
    }
    fl_run_free(run);
}

/* The plain methods that try the cohorts go the way of the library's. */
static void plain_methods(void **state)
{
    static blocks b;
    for (uint32_t problem = 0; problem < 20; problem++) {
        fli_rng r;
        fli_rng_init(&r, 33, FLI_RNG_TEST, 0, problem);
        draw_blocks(&b, *state, &r, 1);
        deal_again(&b, b.d.text);
        b.label_lr = 0.3, b.label_steps = 2;
        say_labels(&b, "projected", "");
        say(&b.d, "participation:\n  kind: everyone\n");
        goes_its_way(
            &b, "algorithm={kind: fedvra-u, a: 0.7, d: 1.2, gamma: 2};local={batch: 0, steps: 3, lr: 0.01};rounds=5",
            0);
        goes_its_way(&b,
                     "algorithm={kind: fedcpsl, mix: 0.5};local={batch: 0, steps: 3, lr: 0.01, momentum: 0.5};rounds=5;"
                     "semi.label_steps=1",
                     1);
    }
}

/* ---- [CPSL] Theorem 2 ------------------------------------------------------------------------------------ */

/* With mix 1 an own model is trained on f_i(own, nu_i) alone. With a mix between 0 and 1 (38) has L~, the smoothness of
 * the loss by the outputs, and cross-entropy's is infinite: the condition cannot be known to hold. */
static void own_problem(tally *t, fixture *f, size_t problem)
{
    static blocks b;
    fli_rng r;
    cpsl_case c;
    verdict said;
    const fl_row *rows;
    fli_rng_init(&r, 34, FLI_RNG_TEST, 0, (uint32_t)problem);
    draw_blocks(&b, f, &r, 0);
    deal_again(&b, b.d.text);
    double mix = chance(&r, 0.5) ? 1 : between(&r, 0.05, 0.95), l = 0;
    for (size_t i = 0; i < b.d.t.clients; i++) l = fmax(l, twin_smoothness(&b.d.t, i));
    c = (cpsl_case){.v = {.cohort = b.d.t.clients, .steps = 1 + one_of(&r, 5)}};
    c.least = c.v.steps;
    c.v.lr = cpsl_edge(&b.d.t, &c, l) * between(&r, 0.5, 0.999);
    say(&b.d,
        "participation:\n  kind: everyone\nlocal:\n  batch: 0\n  steps: %zu\n  lr: %.17g\nalgorithm:\n  kind: fedcpsl\n"
        "  mix: %.17g\n  lr_local: %.17g\n",
        c.v.steps, c.v.lr, mix, spread(&r, 1e-4, 10) / l);
    char *text = promised(t, f, b.d.text, 1, &said);
    if (text && mix < 1 && condition(&said, "(38)") == 'h')
        tally_add(t, &t->untrue, problem, text, "(38) with L~ infinite");
    if (text && mix == 1) {
        fl_run *run = run_text(f, text, "metrics.local=true");
        size_t n = run ? fl_run_rows(run, &rows) : 0;
        double before = n ? fl_row_get(&rows[0], "train_loss") : NAN;
        double after = n ? fl_row_get(&rows[n - 1], "local_train_loss") : NAN;
        t->runs++;
        if (!(after <= before * (1 + 1e-12))) tally_add(t, &t->broken, problem, text, "own models become worse");
        if (run) fl_run_free(run);
    }
    free(text);
    free(said.json);
}

static void cpsl_theorem_2(void **state)
{
    tally t = {.theorem = "[CPSL] Theorem 2"};
    for (size_t k = problems(150); k-- > 0;) own_problem(&t, *state, k);
    tally_end(&t, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(plain_methods), FIXTURE_TEST(vra_theorem_2),
                                       FIXTURE_TEST(cpsl_theorem_1), FIXTURE_TEST(cpsl_theorem_2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
