/* `fl_check` on problems whose smoothness is known, and what it stands on: the bookkeeping of conditions, the
 * probability of taking part, lists with one value per client. */
#include "theory_problem.h"

#include "algo/theory.h"
#include "server/participation.h"

#include <malloc.h>

/* ---- conditions ---------------------------------------------------------------------------------------- */

static void at(fl_conditions *c, const char *name, uint32_t client, double have, double most)
{
    fl_facts f = {.client = client};
    fl_condition(c, name, "a formula", &f, have, most);
}

static void condition_excess(void **state)
{
    (void)state;
    assert_true(fli_condition_excess(3, 2) == 1.5);
    assert_true(fli_condition_excess(1, 2) == 0.5);
    assert_true(fli_condition_excess(-1, 2) == 0);
    assert_true(fli_condition_excess(1, 0) == INFINITY);
    assert_true(fli_condition_excess(-1, -2) == INFINITY);
    assert_true(fli_condition_excess(INFINITY, 2) == INFINITY);
    assert_true(fli_condition_excess(NAN, 2) == INFINITY);
    assert_true(fli_condition_excess(2, NAN) == INFINITY);
}

static void conditions_are_collected(void **state)
{
    fl_conditions c = {.count = 0};
    (void)state;
    at(&c, "one", 4, 1, 2);
    at(&c, "two", 4, 3, 2); /* fails */
    at(&c, "one", 5, 1.5, 2);
    at(&c, "two", 5, 1, 2);
    at(&c, "one", 6, 0.1, 1);
    at(&c, "two", 6, 9, 4); /* worse */
    at(&c, "two", 6, 5, 4); /* the same client again */
    at(&c, "two", 7, 2.5, 2);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.seen[0].name, "one");
    assert_string_equal(c.seen[0].formula, "a formula");
    assert_int_equal(c.seen[0].client, 5);
    assert_true(c.seen[0].have == 1.5 && c.seen[0].most == 2);
    assert_int_equal(c.seen[0].failing, 0);
    assert_int_equal(c.seen[1].client, 6);
    assert_true(c.seen[1].have == 9 && c.seen[1].most == 4);
    assert_int_equal(c.seen[1].failing, 3);
}

static void conditions_that_are_no_numbers_fail(void **state)
{
    fl_conditions c = {.count = 0};
    (void)state;
    at(&c, "it", 0, 1, 2);
    at(&c, "it", 1, NAN, 2);
    at(&c, "it", 2, 1.9, 2); /* does not push the failure aside */
    assert_int_equal(c.seen[0].client, 1);
    assert_int_equal(c.seen[0].failing, 1);
    at(&c, "edge", 0, 0.1 + 0.2, 0.3); /* equal but for rounding */
    at(&c, "edge", 1, INFINITY, INFINITY);
    assert_int_equal(c.seen[1].failing, 0);
    at(&c, "edge", 2, 0.3 + 1e-9, 0.3);
    assert_int_equal(c.seen[1].failing, 1);
}

static void conditions_do_not_overflow(void **state)
{
    static char names[FLI_CONDITIONS_MAX + 2][8];
    fl_conditions c = {.count = 0};
    (void)state;
    for (size_t i = 0; i < FLI_CONDITIONS_MAX + 2; i++) {
        snprintf(names[i], sizeof names[i], "c%zu", i);
        at(&c, names[i], 0, 1, 2);
    }
    assert_int_equal(c.count, FLI_CONDITIONS_MAX);
}

static void requirements_and_assumptions(void **state)
{
    fl_conditions c = {.count = 0};
    (void)state;
    for (uint32_t client = 0; client < 5; client++) {
        fl_facts f = {.client = client};
        fl_requirement(&c, "it", "holds at odd clients", &f, client % 2);
        fl_requirement(&c, "it", "holds at odd clients", &f, client % 2); /* the same client again */
        fl_requirement(&c, "all", "holds", &f, 1);
        fl_assumption(&c, "it", "nobody knows"); /* another kind with the same name */
    }
    assert_int_equal(c.count, 3);
    assert_int_equal(c.seen[0].kind, FLI_CONDITION_REQUIRED);
    assert_int_equal(c.seen[0].failing, 3);
    assert_int_equal(c.seen[1].failing, 0);
    assert_int_equal(c.seen[2].kind, FLI_CONDITION_ASSUMED);
    assert_int_equal(c.seen[2].failing, 0);
    assert_string_equal(c.seen[2].formula, "nobody knows");
}

/* ---- fl_check ------------------------------------------------------------------------------------------ */

/* One condition as printed. */
typedef struct {
    int holds;
    unsigned client;
    double have, most;
    size_t failing;
} printed;

/* Of one client or, where client is UINT_MAX, of the federation. One that is printed for comparison alone holds if its
 * sides say so. */
static printed read_condition(const char *text, const char *name)
{
    static const char *const verdicts[] = {"holds", "FAILS", "printed"};
    printed p = {.client = UINT32_MAX};
    const char *line = NULL;
    for (size_t i = 0; i < 3 && !line; i++) {
        char head[64];
        snprintf(head, sizeof head, "\n%-9s%-14s ", verdicts[i], name);
        line = strstr(text, head);
    }
    if (!line) fail_msg("condition %s is not in:\n%s", name, text);
    p.holds = strncmp(line + 1, "FAILS", 5) != 0;
    line = strchr(line + 1, '\n') + 1;
    line += strspn(line, " ");
    if (sscanf(line, "tightest at client %u: ", &p.client) == 1) line = strchr(line, ':') + 1;
    int sides = sscanf(line, "%lf %*[<=] %lf", &p.have, &p.most); /* requirements have none */
    assert_true(sides == 2 || sides <= 0);
    const char *end = strchr(line, '\n'), *fails = strstr(line, "fails at ");
    if (fails && fails < end) assert_int_equal(sscanf(fails, "fails at %zu of 4 clients", &p.failing), 1);
    if (p.failing) p.holds = 0;
    return p;
}

/* (38) and (39) of SimFBO on a problem of two levels: f_i and g_i are curved by the Hessians above, g_i by 0.01 and 0.5
 * more. */
static void two_levels(void **state)
{
#define LEVELS "bilevel={kind: regularization, start: 0.01, validation: 0, l2: 0.5}|"
    const double l1 = 9 + 0.01 + 0.5, mu = 0.5, ly = l1 / mu, lv = sqrt(2) * ly * sqrt(1 + ly * ly);
    const double work = 7.25; /* the mean over clients and rounds: 3, 4, 3, 3 and twice as much */
    char *t =
        checked(*state, LEVELS "algorithm={kind: simfbo, lr_x: 0.1, lr_y: 0.2, lr_v: 0.3, server_lr_y: 0.4, "
                               "server_lr_v: 0.5, server_lr_x: 0.6, coef_steps: 3, coef: [1, 1, 1, 1, 2, 1, 1, 1, "
                               "1, 1, 1, 1], coef_rounds: [1, 2, 1]}");
    /* client 1 has the largest coefficients: 1, 2, 1, doubled in the second round */
    printed x = read_condition(t, "(39) lr_x"), y = read_condition(t, "(39) lr_y"),
            v = read_condition(t, "(39) gamma_v"), w = read_condition(t, "(39) gamma_y"),
            u = read_condition(t, "(39) gamma_x"), c = read_condition(t, "(38) gamma_y"),
            d = read_condition(t, "(38) gamma_v");
    assert_true(!x.holds && !y.holds && !v.holds && !w.holds && !u.holds && !c.holds && !d.holds);
    assert_true(x.client == 1 && y.client == 1 && v.client == UINT32_MAX);
    assert_true(x.failing == 4 && x.most == 0.5);
    assert_near(x.have / (0.1 * 0.1 * 8 * l1 * l1), 1, 1e-3);
    assert_near(y.have / (0.2 * 0.2 * 8 * l1 * l1), 1, 1e-3);
    assert_near(y.most / (mu * mu / (96 * l1 * l1)), 1, 1e-3);
    /* everyone takes part: rho is the weighted sum of all, here in the middle of the two kinds of rounds */
    double rho = v.have / 0.5;
    assert_near(w.have / 0.4, rho, 1e-3);
    assert_near(u.have / 0.6, rho, 1e-3);
    assert_true(rho >= 6.5 - 1e-3 && rho <= work);
    assert_near(v.most / (mu / (12 * l1 * l1)), 1, 1e-3);
    assert_near(w.most / (mu / (36 * l1 * l1 * (2.0 / 4 + 3))), 1, 1e-3);
    double lphi = l1 * (1 + ly) * (1 + ly); /* L~ (1 + L_1/mu), L~ = L_1 + L_1^2/mu, with L_2 = 0 */
    assert_near(u.most / fmin(4 / lphi, 4 / (6 * lphi)), 1, 1e-3);
    double k1 = 2 * (40 * l1 * l1 / mu + 384 * 2 * l1 * l1 * l1 * l1 / (mu * mu * mu)); /* K_1 c_gamma_y */
    assert_near(c.have / (sqrt(256 * k1 * ly / mu) * 0.6), 1, 1e-3);
    assert_near(d.have / (sqrt(256 * 6 * l1 * l1 / mu * lv / mu) * 0.6), 1, 1e-3);
    assert_true(c.most == 0.4 && d.most == 0.5);
    assert_says(t, "FAILS    equal work ");
    assert_says(t, "mu_g = 0.5 (bilevel.l2)");
    free(t);
    t = checked(*state, LEVELS "algorithm={kind: shrofbo, lr_x: 1e-3, lr_y: 1e-4, lr_v: 1e-3, server_lr_y: 1e-5, "
                               "server_lr_v: 1e-4, server_lr_x: 1e-13}");
    assert_says(t, "the theorem applies, if what is assumed is true");
    assert_says(t, "assumed  (39) the rest");
    assert_says(t, "assumed  L_1 ");
    assert_silent(t, "equal work");
    free(t);
    /* a server step that is too long for the others, for any L_2, and the method that diverges with it */
    t = checked(*state, LEVELS "algorithm={kind: shrofbo, lr_x: 1e-3, lr_y: 1e-4, lr_v: 1e-3, server_lr_y: 1e-5, "
                               "server_lr_v: 1e-4, server_lr_x: 1000}");
    assert_true(!read_condition(t, "(38) gamma_y").holds && !read_condition(t, "(39) gamma_x").holds);
    free(t);
    t = checked(*state, LEVELS "algorithm={kind: simfbo, radius: 1e-6}");
    assert_false(read_condition(t, "Lemma 1").holds);
    free(t);
    t = checked(*state, LEVELS "algorithm=simfbo|participation={kind: weighted, count: 2}");
    assert_says(t, "FAILS    sampling ");
    free(t);
    /* coefficients that change by round alone: the same at all clients in each, but rho moves */
    t = checked(*state, LEVELS "algorithm={kind: simfbo, coef_rounds: [1, 0.1]}");
    assert_says(t, "holds    equal work ");
    assert_says(t, "FAILS    rho ");
    assert_says(t, "algorithm.coef_rounds = 1");
    assert_silent(t, "participation.kind = everyone"); /* which they do */
    free(t);
    t = checked(*state, LEVELS "algorithm={kind: fednest, ell: 3}");
    assert_says(t, "FAILS    Neumann series");
    assert_says(t, "holds    convexity      g_i is strongly convex in y: bilevel.l2 > 0");
    assert_silent(t, "(39)");
    free(t);
    t = checked(*state, LEVELS "bilevel.l2=0|algorithm={kind: lfednest, ell: 300}");
    assert_says(t, "FAILS    convexity ");
    free(t);
#undef LEVELS
}

/* What a federation is asked, written down once more. */
typedef struct {
    double gamma[N], a[N], d[N], lr[N], p[N];
    size_t least, most;
} facts;

/* The sides of condition `which` at client i with q steps, from the paper. */
static void sides(const facts *f, int which, size_t i, size_t q, double *have, double *most)
{
    double qt = 0, term = 1;
    for (size_t t = 0; t < q; t++, term *= 1 - f->gamma[i] * f->lr[i]) qt += term;
    *have = f->lr[i];
    switch (which) {
    case 0:
        *have = f->gamma[i] * f->lr[i];
        *most = 1;
        break;
    case 1:
        *have = l[i] / 2 + 13 * l[i] / (2 * f->p[i] * f->a[i] * f->gamma[i] * f->lr[i] * qt);
        *most = f->gamma[i];
        break;
    case 2: *most = 1 / (sqrt(6) * qt * l[i]); break;
    default: *most = 1 / ((f->a[i] + f->d[i]) * f->gamma[i] * qt);
    }
}

static const char *const names[] = {"Lemma 1", "(17)", "(18) first", "(18) third"};

/* The printed conditions against the facts; returns how many hold. */
static size_t compare(const char *text, const facts *f)
{
    size_t holding = 0;
    for (int c = 0; c < 4; c++) {
        double worst = 0, have = 0, most = 0, side[2];
        size_t client = 0, failing = 0;
        for (size_t i = 0; i < N; i++) {
            int fails = 0;
            for (int end = 0; end < 2; end++) {
                sides(f, c, i, end ? f->least : f->most, &side[0], &side[1]);
                fails |= side[0] > side[1] * (1 + 1e-9);
                if (side[0] / side[1] > worst) worst = side[0] / side[1], client = i, have = side[0], most = side[1];
            }
            failing += (size_t)fails;
        }
        printed p = read_condition(text, names[c]);
        assert_int_equal(p.holds, failing == 0);
        assert_int_equal(p.failing, failing);
        assert_int_equal(p.client, client);
        assert_near(p.have, have, 2e-3 * have); /* four digits, and L_i measured to 1e-4 a step */
        assert_near(p.most, most, 2e-3 * most);
        holding += p.holds;
    }
    if (holding == 4)
        assert_says(text, "the theorem applies");
    else
        assert_says(text, "the theorem does not apply");
    return holding;
}

static void for_all(double *v, double value)
{
    for (size_t i = 0; i < N; i++) v[i] = value;
}

static facts plain_facts(void)
{
    facts x = {.least = 3, .most = 3};
    for_all(x.gamma, 2);
    for_all(x.a, 3);
    for_all(x.d, 2);
    for_all(x.lr, 0.01);
    for_all(x.p, 1);
    return x;
}

static void smoothness_is_measured(void **state)
{
    fixture *f = *state;
    double low, high;
    size_t measured;
    char *text = checked(f, "");
    const char *line = strstr(text, "smoothness  L_i from ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "smoothness  L_i from %lf to %lf (%zu clients", &low, &high, &measured), 3);
    assert_near(low, 2, 2e-3);
    assert_near(high, 9, 9e-3);
    assert_int_equal(measured, N);
    assert_says(text, "method      fedvra, Wang et al., Beyond ADMM, 2023\n");
    assert_says(text, "local work  3 steps of size 0.01; takes part with probability 1 at least\n");
    free(text);

    text = checked(f, "algorithm=fedgia"); /* neither local.steps nor local.lr are its own */
    assert_says(
        text, "local work  one gradient over all samples of a client, then the method's own steps; a client is in the "
              "cohort with probability 1 at least\n");
    free(text);
    text = checked(f, "algorithm={kind: feddr, solver: exact}");
    assert_says(text, "local work  as many steps as the solver `exact` needs; takes part with");
    free(text);

    text = checked(f, "model.weight_decay=0.5"); /* adds to every eigenvalue */
    assert_says(text, "L_i from 2.5 to 9.5 ");
    free(text);
}

static void conditions_are_the_papers(void **state)
{
    fixture *f = *state;
    facts x = plain_facts();
    char *text = checked(f, "");
    assert_int_equal(compare(text, &x), 3); /* (17) fails */
    free(text);

    for_all(x.gamma, 150);
    text = checked(f, "algorithm.gamma=150");
    assert_int_equal(compare(text, &x), 2); /* Lemma 1 and the third of (18) do */
    free(text);

    /* everything differs by client; the steps by round */
    x = (facts){.gamma = {400, 500, 600, 700},
                .a = {1, 2, 3, 4},
                .d = {4, 3, 2, 1},
                .lr = {1e-4, 2e-4, 3e-4, 1e-4},
                .p = {0.5, 1, 0.25, 0.8},
                .least = 2,
                .most = 5};
    text = checked(
        f, "algorithm.gamma=[400, 500, 600, 700]|algorithm.a=[1, 2, 3, 4]|algorithm.d=[4, 3, 2, 1]|local.lr=1e-4|"
           "local.lr_factors=[1, 2, 3, 1]|participation={kind: bernoulli, probability: [0.5, 1, 0.25, 0.8]}|"
           "local.uneven=range|local.range=[2, 5]");
    assert_says(text, "2 to 5 steps of size 0.0001; takes part with probability 0.25 at least");
    assert_true(compare(text, &x) < 4);
    free(text);

    /* (17) may hold for many steps and fail for few */
    x = plain_facts();
    for_all(x.gamma, 500);
    for_all(x.lr, 2e-5);
    for_all(x.a, 1);
    for_all(x.d, 1);
    x.most = 20;
    text = checked(f, "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20");
    x.least = 20;
    assert_int_equal(compare(text, &x), 4);
    free(text);
    text = checked(f, "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20|local.uneven=range|"
                      "local.range=[1, 20]");
    x.least = 1;
    assert_int_equal(compare(text, &x), 3);
    free(text);
}

/* Remark 1 puts a_i on the boundary of (18): it holds there, whatever rounding does. */
static void automatic_step_sizes_hold(void **state)
{
    fixture *f = *state;
    for (size_t k = 1; k < 40; k++) {
        char set[200];
        snprintf(set, sizeof set, AUTO "|algorithm.gamma=%g|local.lr=%g|local.steps=%zu", 0.37 * (double)k, 0.011,
                 1 + k % 7);
        char *text = checked(f, set);
        printed p = read_condition(text, "(18) third");
        if (!p.holds) fail_msg("%s:\n%s", set, text);
        free(text);
    }
}

/* Takes what a check advises and checks again. */
static void advice_works(fixture *f, const char *settings)
{
    size_t left;
    char *report, *text = checked(f, settings);
    assert_says(text, "the theorem does not apply");
    assert_says(text, "a setting that satisfies all of them: ");
    free(text);
    char *file = fixed(f, settings, &report, &left);
    text = checked_file(f, file);
    if (left || !strstr(text, "the theorem applies")) fail_msg("%s: %zu left\n%s\n%s", settings, left, report, text);
    assert_says(report, "checked again: all conditions hold");
    assert_says(report, "changed  local.lr = ");
    assert_says(file, "  # was 0.01, asked for by ");
    assert_silent(text, "a setting that satisfies");
    free(text);
    free(file);
    free(report);
}

static void advice_holds(void **state)
{
    fixture *f = *state;
    advice_works(f, "");
    advice_works(f, "local.steps=1");
    advice_works(f, AUTO);
    advice_works(f, "algorithm=fedadmm");
    advice_works(f, "algorithm={kind: fedvra, preset: admm, a: 9}");
    advice_works(f, "algorithm={kind: fedvra, preset: fedavg}");
    advice_works(f, "algorithm={kind: fedvra, preset: fednova}");
    advice_works(f, "algorithm={kind: fedvra, preset: scaffold}");
    advice_works(f, "algorithm={kind: fedvra, preset: feddyn, a: 9}|participation={kind: uniform, count: 2}");
    advice_works(f, AUTO "|participation={kind: bernoulli, probability: [0.5, 1, 0.25, 0.8]}");
    advice_works(f, AUTO "|participation={kind: uniform, count: 1}|local.uneven=range|local.range=[1, 30]");
    advice_works(f, "algorithm={kind: fedvra, a: [1, 2, 3, 4], d: [9, 1, 1, 1], gamma: [1, 2, 3, 4]}");
    advice_works(f, "local.uneven=speeds|local.speeds=[0.1, 1]|local.steps=20");
    advice_works(f, "local.lr_factors=[1, 5, 0.1, 1]");
}

/* FedDR: eta < (2 - alpha)/(2 L_i), written out as the paper has it. */
static void feddr_condition(void **state)
{
    fixture *f = *state;
    static const double alphas[] = {0.5, 1, 1.95, 2}, etas[] = {1e-3, 0.05, 0.06, 0.12, 0.3, 2};
    for (size_t a = 0; a < 4; a++)
        for (size_t k = 0; k < 6; k++) {
            char set[200];
            size_t failing = 0;
            snprintf(set, sizeof set, "algorithm={kind: feddr, alpha: %g, eta: %g, solver: exact}", alphas[a], etas[k]);
            char *text = checked(f, set);
            printed p = read_condition(text, "(33)");
            for (size_t i = 0; i < N; i++) {
                double le = l[i] * etas[k];
                failing += !(2 - alphas[a] * (le + 1) - 2 * le * le > 0);
            }
            assert_int_equal(p.failing, failing);
            assert_int_equal(p.holds, failing == 0);
            assert_int_equal(p.client, alphas[a] < 2 ? 2 : 0); /* the largest L_i, or nobody in particular */
            assert_near(p.have, etas[k], 1e-9);
            assert_near(p.most, (2 - alphas[a]) / 18, 2e-3 * p.most);
            assert_silent(text, "summable");
            free(text);
        }
}

static void feddr_advice(void **state)
{
    fixture *f = *state;
    double eta;
    char set[200], *text = checked(f, "algorithm=feddr");
    assert_says(text, "\nassumed  Theorem 3.1    the squared errors of the local solver are summable\n");
    const char *line = strstr(text, "a setting that satisfies all of them: algorithm.alpha = 1, algorithm.eta = ");
    assert_non_null(line);
    assert_int_equal(sscanf(strstr(line, "eta = "), "eta = %lf", &eta), 1);
    assert_near(eta, 1.0 / 27, 1e-4);
    free(text);
    snprintf(set, sizeof set, "algorithm={kind: feddr, alpha: 1, eta: %g}", eta);
    text = checked(f, set);
    assert_says(text, "the theorem applies, if what is assumed is true\n");
    free(text);
    snprintf(set, sizeof set, "algorithm={kind: feddr, alpha: 1, eta: %g, solver: exact}", eta);
    text = checked(f, set);
    assert_says(text, "the theorem applies\n");
    free(text);
    snprintf(set, sizeof set, "algorithm={kind: feddr, alpha: 1, eta: 0.01}|participation={kind: trace, path: %s}",
             fixture_write(f, "trace.txt", "0 1\n1 2\n"));
    text = checked(f, set); /* client 3 never takes part */
    assert_int_equal(read_condition(text, "(33)").client, 3);
    assert_says(text, "no setting satisfies them while a client never takes part");
    free(text);
}

/* ---- regularisers that are not convex ------------------------------------------------------------------ */

/* No theorem that is known here covers one. A method whose theorem does would be an exception, to be named here. */
static void theorems_want_convex_regularisers(void **state)
{
    fixture *f = *state;
    size_t seen = 0;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char set[200];
        if (!((*a)->traits & FL_METHOD_COMPOSITE) || !(*a)->theory.check) continue;
        snprintf(set, sizeof set, "system=lognormal|algorithm=%s|regularizer={kind: mcp, gamma: 1000}", (*a)->name);
        char *text = checked(f, set);
        assert_says(text, "FAILS    convex g       the regulariser is convex; the theorem covers no other\n");
        assert_says(text, "the theorem does not apply");
        assert_says(text, "no setting of the method satisfies them with regularizer mcp, which is not convex\n");
        assert_silent(text, "a setting that satisfies all of them");
        free(text);
        snprintf(set, sizeof set, "system=lognormal|algorithm=%s|regularizer={kind: mcp, weight: 0}", (*a)->name);
        text = checked(f, set);
        assert_says(text, "holds    convex g ");
        free(text);
        snprintf(set, sizeof set, "system=lognormal|algorithm=%s", (*a)->name);
        text = checked(f, set);
        assert_silent(text, "convex g");
        free(text);
        seen++;
    }
    assert_true(seen >= 3); /* feddr, asyncfeddr, fedvra-u */
    char *text = checked(f, "algorithm={kind: feddr, alpha: 1, eta: 0.03, solver: exact}|regularizer=l1");
    assert_says(text, "the theorem applies\n");
    free(text);
}

static void note_long_prox(void *arg, fl_log_level level, const char *line)
{
    char *seen = arg;
    if (level == FL_LOG_WARNING && strstr(line, "wants proximal steps shorter than")) snprintf(seen, 512, "%s", line);
}

/* What is said of the proximal step when a run with these settings is planned; "" if nothing. */
static const char *said_of_prox(fixture *f, const char *settings)
{
    static char seen[512];
    *seen = 0;
    fl_ctx_on_log(f->ctx, note_long_prox, seen);
    free(checked(f, settings));
    fl_ctx_on_log(f->ctx, NULL, NULL);
    return seen;
}

/* The lengths are those of the methods: eta, server_lr lr Q, 1/gamma. */
static void long_proximal_steps_are_said(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *method;
        double length;
    } cases[] = {
        {"algorithm={kind: feddr, eta: 0.5}", 0.5},
        {"system=lognormal|algorithm={kind: asyncfeddr, eta: 0.25}", 0.25},
        {"algorithm={kind: fedavg, server_lr: 2}|local.lr=0.1", 0.6},
        {"algorithm=fedavg|local.lr=0.1|local.momentum=0.5|local.steps=2", 0.25}, /* 1 and 1.5 steps */
        {"algorithm=local-sgd|local.lr=0.1", 0.3},
        {"algorithm={kind: fedprox, mu: 5}|local.lr=0.1", 0.175}, /* (1 - 0.5^3)/5 */
        {"algorithm={kind: fedprox, mu: 20}|local.lr=0.1", 0.05}, /* one step is too long: 1/mu */
        {"algorithm={kind: fedprox, mu: 0}|local.lr=0.1", 0.3},   /* FedAvg */
        {"algorithm={kind: fedvra-u, gamma: 4}", 0.25},
        {"algorithm={kind: fedvra-u, gamma: [1, 2, 4, 1]}", 0.25}, /* at least */
        {"algorithm={kind: fedvra-u, gamma: 0}", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char set[300], says[100];
        snprintf(set, sizeof set, "%s|regularizer={kind: mcp, gamma: %.17g}", cases[i].method, cases[i].length * 1.001);
        assert_string_equal(said_of_prox(f, set), "");
        snprintf(set, sizeof set, "%s|regularizer={kind: mcp, gamma: %.17g}", cases[i].method, cases[i].length * 0.999);
        snprintf(says, sizeof says, "shorter than %.4g, but they are %.4g long", cases[i].length * 0.999,
                 cases[i].length);
        assert_says(said_of_prox(f, set), says);
        snprintf(set, sizeof set, "%s|regularizer=l1", cases[i].method);
        assert_string_equal(said_of_prox(f, set), "");
    }
}

/* The largest eta of (42) as the paper has it, over all gamma_4; C-hat depends on eta. */
static double largest_eta(double l_i, double theta)
{
    double best = 0;
    for (double u = 1e-4; u < 0.5; u += 1e-4)
        for (double g = 1e-3; g < 0.25; g *= 1.01) {
            double c = fmax(1 + u * u, 2 * (1 + u) * (1 + u) / g), room = 1 - 4 * g - 8 * c * theta;
            if (room > 0 && u < (sqrt(1 + 8 * (1 + 2 * g) * room) - 1) / (4 * (1 + 2 * g))) best = fmax(best, u);
        }
    return best / l_i;
}

static void feddr_relative_errors(void **state)
{
    fixture *f = *state;
    static const double relatives[] = {1e-4, 0.01, 0.03, 0.05, 0.07}, p[N] = {0.5, 1, 0.25, 0.8};
    for (size_t k = 0; k < 5; k++)
        for (double eta = 0.001; eta < 0.2; eta *= 2) {
            char set[400];
            size_t failing = 0, close = 0;
            double tightest = INFINITY;
            snprintf(set, sizeof set,
                     "algorithm={kind: feddr, alpha: 1, eta: %g, solver: accurate, relative: %g}|participation={kind: "
                     "bernoulli, probability: [0.5, 1, 0.25, 0.8]}",
                     eta, relatives[k]);
            for (size_t i = 0; i < N; i++) {
                double most = largest_eta(l[i], relatives[k] * relatives[k] / p[i]);
                failing += eta > most;
                close += fabs(eta - most) < 1e-3 * eta; /* what the search of this test may get wrong */
                tightest = fmin(tightest, most);
            }
            char *text = checked(f, set);
            printed c = read_condition(text, "(42)");
            if (!close) assert_int_equal(c.failing, failing);
            if (!close) assert_int_equal(c.holds, failing == 0);
            assert_near(c.most, tightest, 5e-3 * tightest + 1e-4);
            assert_says(text, "holds    Theorem A.1    alpha = 1");
            assert_says(text, "assumed  most_steps ");
            assert_silent(text, "L_-"); /* least squares is convex */
            free(text);
        }
    char *text = checked(f, "algorithm={kind: feddr, eta: 0.001, solver: accurate, relative: 0.001}");
    assert_says(text, "FAILS    Theorem A.1    alpha = 1, for relative errors\n         fails at 4 of 4 clients\n");
    assert_true(read_condition(text, "(42)").holds);
    assert_says(text, "the theorem does not apply");
    free(text);
}

/* What is advised for relative errors satisfies the conditions. */
static void feddr_relative_advice(void **state)
{
    fixture *f = *state;
    for (double relative = 0.001; relative < 2; relative *= 10) {
        double eta, better;
        char set[400];
        static const char way[] = "participation={kind: bernoulli, probability: 0.3}";
        snprintf(set, sizeof set, "%s|algorithm={kind: feddr, solver: accurate, relative: %g}", way, relative);
        char *text = checked(f, set);
        const char *line =
            strstr(text, "a setting that satisfies all of them: algorithm.alpha = 1, algorithm.relative");
        assert_non_null(line);
        assert_int_equal(sscanf(strstr(line, "relative"), "relative = %lf, algorithm.eta = %lf", &better, &eta), 2);
        assert_true(better <= relative);
        free(text);
        snprintf(set, sizeof set, "%s|algorithm={kind: feddr, alpha: 1, eta: %g, solver: accurate, relative: %g}", way,
                 eta, better);
        text = checked(f, set);
        assert_says(text, "the theorem applies, if what is assumed is true\n");
        free(text);
    }
}

static void feddr_absolute_errors(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *more;
        int summable; /* -1: another theorem */
    } cases[] = {{"accuracy: 1", 1},
                 {"accuracy: 1, accuracy_power: 0.51", 1},
                 {"accuracy: 1, accuracy_power: 0.5", 0},
                 {"accuracy: 1, accuracy_power: 0", 0},
                 {"accuracy: 1, relative: 0.01", 1},
                 {"accuracy: 1, relative: 0.01, accuracy_power: 0.3", -1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char set[200];
        snprintf(set, sizeof set, "algorithm={kind: feddr, alpha: 1, eta: 0.01, solver: accurate, %s}", cases[k].more);
        char *text = checked(f, set);
        if (cases[k].summable < 0) {
            assert_true(read_condition(text, "(42)").holds);
            assert_silent(text, "(33)");
        } else {
            assert_true(read_condition(text, "(33)").holds);
            assert_says(text, cases[k].summable ? "holds    Theorem 3.1 " : "FAILS    Theorem 3.1 ");
            assert_silent(text, "(42)");
        }
        assert_says(text, cases[k].summable ? "the theorem applies, if" : "algorithm.accuracy_power = 1\n");
        free(text);
    }
}

static void fedsplit_check(void **state)
{
    fixture *f = *state;
    char *text = checked(f, "algorithm={kind: fedsplit, solver: exact}");
    assert_says(text, "holds    convexity      f_i convex");
    assert_says(text, "assumed  linear rate ");
    assert_silent(text, "assumed  prox");
    assert_says(text, "the theorem applies, if what is assumed is true\n");
    free(text);
    text = checked(f, "algorithm=fedsplit");
    assert_says(text, "assumed  prox ");
    free(text);
    text =
        checked(f, "model={kind: mlp, hidden: [3]}|data={kind: blobs, samples: 60}|partition={kind: iid, clients: 3}|"
                   "algorithm={kind: fedsplit, solver: accurate, relative: 0.1, weak_convexity: 0.5}");
    assert_says(text, "FAILS    convexity ");
    assert_says(text, "fails at 3 of 3 clients");
    assert_says(text, "assumed  L_- ");
    assert_says(text, "the theorem does not apply");
    free(text);
}

/* FedLin: 6 L_i lr Q_i <= 1, everyone taking part; and advice that is taken. L is 9, at client 2. */
static void fedlin_check(void **state)
{
    fixture *f = *state;
    char *text = checked(f, "algorithm=fedlin|local.lr=0.006");
    printed p = read_condition(text, "bound on lr");
    assert_true(p.holds && p.client == 2);
    assert_near(p.have, 6 * 9 * 0.006 * 3, 2e-3);
    assert_says(text, "local work  one gradient over all samples of a client, then 3 steps of size 0.006;");
    assert_says(text, "the theorem applies, if what is assumed is true\n");
    free(text);
    text = checked(f, "algorithm=fedlin|local.lr=0.007");
    assert_true(!read_condition(text, "bound on lr").holds);
    assert_says(text, "a setting that satisfies all of them: local.lr = 0.006172 (1/(6 L Q))");
    free(text);
    text = checked(f, "algorithm=fedlin|local.lr=0.006|participation={kind: uniform, count: 3}|model.weight_decay=0.1");
    assert_says(text, "FAILS    participation ");
    assert_says(text, "holds    step sizes     lr Q_i is the same at all clients");
    assert_says(text, "holds    linear rate "); /* weight decay makes it certain */
    assert_says(text, "a setting that satisfies all of them: participation.kind = everyone\n");
    free(text);
    text = checked(f, "algorithm=fedlin|local.lr=0.001|local.uneven=range|local.range=[2, 10]");
    assert_says(text, "FAILS    step sizes     lr Q_i is the same at all clients");
    free(text);
    text = checked(f, "algorithm=fedlin|local.lr=0.001|local.lr_factors=[1, 1, 1, 2]");
    assert_says(text, "FAILS    step sizes     lr Q_i is the same at all clients");
    free(text);
}

/* Scaffnew: L_i lr <= 1. Rounds have 1 to very many steps. */
static void scaffnew_check(void **state)
{
    fixture *f = *state;
    char *text = checked(f, "algorithm={kind: scaffnew, p: 0.4}|local.lr=0.11");
    printed p = read_condition(text, "bound on lr");
    assert_true(p.holds && p.client == 2);
    assert_near(p.have, 9 * 0.11, 2e-3);
    assert_says(text, "local work  1 to 72 steps of size 0.11;");
    free(text);
    text = checked(f, "algorithm=scaffnew|local.lr=0.12");
    assert_true(!read_condition(text, "bound on lr").holds);
    assert_says(text, "local.lr = 0.1111 (1/L)");
    free(text);
}

/* asyncFedDR, (63) written out as rho > 0 in the paper's cases: with four clients tau = 1 is 2 tau^2 <= n, the others
 * are not. The Hessians are those of convex functions, so c is the paper's. */
static void asyncfeddr_conditions(void **state)
{
    fixture *f = *state;
    static const double alphas[] = {0.1, 0.5, 0.8, 1, 1.5}, etas[] = {1e-3, 0.02, 0.05, 0.1, 0.3, 2};
    static const int taus[] = {1, 3, 10};
    for (size_t a = 0; a < 5; a++)
        for (size_t k = 0; k < 6; k++)
            for (size_t t = 0; t < 3; t++) {
                char set[240];
                size_t failing = 0;
                int exact = t != 1; /* the start */
                double n = N, more = 2.0 * taus[t] * taus[t] - n, alpha = alphas[a], most_alpha = 1;
                snprintf(set, sizeof set,
                         "system=constant|participation={kind: uniform, count: 2}|algorithm={kind: asyncfeddr, alpha: "
                         "%g, eta: %g, solver: exact, tau: %d, init: %s}",
                         alpha, etas[k], taus[t], exact ? "exact" : "lazy");
                char *text = checked(f, set);
                for (size_t i = 0; i < N; i++) {
                    double le = l[i] * etas[k], rho = 2 * (1 - alpha) - (2 + alpha) * le * le - le * alpha;
                    if (more > 0) rho -= alpha * (1 + le * le) * more / (n * n);
                    failing += !(rho > 0);
                }
                if (more > 0) most_alpha = 2 * n * n / (2 * n * n + more);
                printed p = read_condition(text, "(63) eta"), q = read_condition(text, "(63) alpha");
                assert_int_equal(p.failing, failing);
                assert_int_equal(p.holds, failing == 0);
                assert_near(p.have, etas[k], 1e-9);
                if (p.most > 0) assert_int_equal(p.client, 2); /* the largest L_i */
                assert_near(q.most, most_alpha, 1e-3 * most_alpha);
                assert_int_equal(q.holds, alpha < most_alpha);
                assert_true(read_condition(text, "Assumption 4.1").holds);
                assert_int_equal(read_condition(text, "(21)").holds, exact);
                assert_int_equal(strstr(text, "the theorem applies") != NULL, failing == 0 && exact);
                assert_silent(text, "assumed");
                free(text);
            }
}

/* What is advised satisfies all conditions, with and without a tau that is given, and whatever is wrong. */
static void asyncfeddr_advice(void **state)
{
    fixture *f = *state;
    static const char *const settings[] = {
        "system=constant|algorithm=asyncfeddr",
        "system=constant|participation={kind: uniform, count: 2}|algorithm={kind: asyncfeddr, tau: 1, eta: 9}",
        "system=constant|algorithm={kind: asyncfeddr, tau: 40, alpha: 2}",
        "system=constant|algorithm=asyncfeddr|participation={kind: uniform, count: 2}",
        ("system=constant|algorithm=asyncfeddr|model={kind: mlp, hidden: [3]}|data={kind: blobs, "
         "samples: 60}|partition={kind: iid, clients: 3}"),
        "system=constant|algorithm=asyncfeddr|data={kind: linreg, clients: 1}|partition={}"};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char set[600], *text = checked(f, settings[k]);
        double tau, alpha, eta;
        if (!strstr(settings[k], "tau")) assert_false(strstr(text, "holds  Assumption 4.1") != NULL);
        const char *line = strstr(text, "a setting that satisfies all of them: algorithm.init = exact, ");
        assert_non_null(line);
        assert_int_equal(sscanf(line,
                                "a setting that satisfies all of them: algorithm.init = exact, algorithm.tau = %lf, "
                                "algorithm.alpha = %lf, algorithm.eta = %lf",
                                &tau, &alpha, &eta),
                         3);
        assert_true(tau >= 1 && alpha > 0 && eta > 0);
        free(text);
        snprintf(set, sizeof set,
                 "%s|algorithm.init=exact|algorithm.tau=%.0f|algorithm.alpha=%.10g|algorithm.eta=%.10g", settings[k],
                 tau, alpha, eta);
        text = checked(f, set);
        if (!strstr(text, "the theorem applies")) fail_msg("%s:\n%s", set, text);
        assert_says(text, "assumed  Lemma B.2"); /* SGD is the default solver */
        free(text);
    }
}

/* For objectives that are not convex c is twice what it is otherwise: 2 (2 9 - 3)/9 for three clients and tau 3. */
static void asyncfeddr_not_convex(void **state)
{
    fixture *f = *state;
    char *text = checked(
        f, "system=constant|algorithm={kind: asyncfeddr, tau: 3}|model={kind: mlp, hidden: [3]}|data={kind: blobs, "
           "samples: 60}|partition={kind: iid, clients: 3}");
    const char *line = strstr(text, "(63) alpha");
    double have, most;
    assert_non_null(line);
    assert_says(text, "c = 2 max(0, (2 tau^2 - n)/n^2)");
    line = strstr(line, "tightest at client ");
    assert_int_equal(sscanf(line, "tightest at client %*u: %lf < %lf", &have, &most), 2);
    assert_near(most, 2 / (2 + 10.0 / 3), 1e-4);
    free(text);
}

static void what_cannot_be_said(void **state)
{
    fixture *f = *state;
    char set[400], *text = checked(f, "algorithm=fedavg");
    assert_says(text, "no step-size conditions are known here for this method");
    assert_silent(text, "holds");
    free(text);
    snprintf(set, sizeof set, "participation={kind: trace, path: %s}", fixture_write(f, "trace.txt", "0 1\n1 2\n"));
    text = checked(f, set); /* client 3 never takes part */
    assert_false(read_condition(text, "(17)").holds);
    assert_says(text, "no setting satisfies them while a client never takes part");
    assert_silent(text, "nan");
    free(text);
    text =
        checked(f, "model={kind: mlp, hidden: [3]}|data={kind: blobs, samples: 60}|partition={kind: iid, clients: 3}");
    assert_says(text, "at the start model, over at most 512 samples each, drawn at random: estimates)");
    assert_says(text, "assumed  L_i            measured at the start model");
    free(text);
    text = checked(f, "local.lr_factors=[1, 5, 0.1, 1]");
    assert_says(text, ", local.lr_factors = 1\n");
    free(text);
}

/* "Too large by a factor of 1" would say nothing. */
static void close_to_the_bound(void **state)
{
    static const char dr[] = "algorithm={kind: feddr, solver: exact, init: exact, alpha: 1, eta: %s}";
    static const struct {
        const char *eta, *said;
    } ways[] = {{"0.0555", "0.0555 < 0.05556\n"}, {"0.05556", ", just too large;"}, {"0.056", " by a factor of 1.01;"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char set[200];
        snprintf(set, sizeof set, dr, ways[i].eta); /* the largest L_i is 9 */
        char *text = checked(*state, set);
        assert_says(text, ways[i].said);
        free(text);
    }
    char *text = checked(*state, "algorithm={kind: fedgia, t: 6}");
    assert_says(text, "6 < 6, and the two are equal;");
    free(text);
}

static void wrong_settings_are_refused(void **state)
{
    fixture *f = *state;
    collected c = {0};
    fl_config *cfg = problem(f, "algorithm.gamma=[1, 2]");
    assert_fails(f->ctx, fl_check(cfg, collect_text, &c), FL_ECONFIG,
                 "algorithm.gamma has 2 values, but there are 4 clients");
    fl_config_free(cfg);
    cfg = problem(f, "algorithm.gama=1");
    assert_fails(f->ctx, fl_check(cfg, collect_text, &c), FL_ECONFIG, "did you mean algorithm.gamma?");
    fl_config_free(cfg);
    cfg = problem(f, "data.train=/nowhere/at/all.csv");
    assert_fails(f->ctx, fl_check(cfg, collect_text, &c), FL_EIO, "/nowhere/at/all.csv");
    fl_config_free(cfg);
    assert_null(c.s);
}

/* Bytes that the C library has given out; 0 where that is not known (sanitizers, other libraries). */
static size_t bytes_in_use(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

/* A check gives back all memory that it took. */
static void checks_keep_no_memory(void **state)
{
    size_t before = 0;
    for (int k = 0; k < 12; k++) {
        free(checked(*state, "algorithm.gamma=200"));
        if (k == 1) before = bytes_in_use(); /* what is made once is there now */
    }
    assert_true(bytes_in_use() < before + 10 * 256);
}

/* Every allocation may fail: an error, nothing printed, nothing lost (the sanitizers look). */
static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    size_t k = 1;
    for (int done = 0; !done; k += 1 + k / 16) {
        collected c = {0};
        fl_config *cfg = problem(f, "algorithm.gamma=200");
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fl_check(cfg, collect_text, &c);
        fli_ctx_fail_alloc(f->ctx, 0);
        done = s == FL_OK;
        if (!done) {
            assert_int_equal(s, FL_ENOMEM);
            assert_null(c.s);
        }
        free(c.s);
        fl_config_free(cfg);
        fli_clear(f->ctx);
    }
    assert_true(k > 20);
}

/* ---- how likely a client takes part ---------------------------------------------------------------------- */

typedef struct {
    fli_arena arena;
    fli_fed *fed;
    fli_participation *p;
} way;

static void way_init(way *w, fixture *f, const char *name, const char *params, size_t clients, const size_t *size)
{
    const fli_participation_desc *const *d = fli_participation_list;
    size_t *same = calloc(clients, sizeof *same);
    for (size_t i = 0; i < clients; i++) same[i] = 2;
    while (*d && strcmp((*d)->name, name)) d++;
    assert_non_null(*d);
    memset(w, 0, sizeof *w);
    fli_arena_init(&w->arena, f->ctx);
    w->fed = random_fed(f->ctx, clients, size ? size : same, 1, 0, 1);
    free(same);
    assert_ok(f->ctx, fli_participation_new(f->ctx, *d, bound(f->ctx, &w->arena, (*d)->keys, (*d)->params_size, params),
                                            w->fed, &w->p));
}

static void way_fini(way *w)
{
    fli_participation_free(w->p);
    fli_fed_free(w->fed);
    fli_arena_fini(&w->arena);
}

/* How often each client takes part. */
static void frequencies(const way *w, size_t rounds, double *share)
{
    uint32_t cohort[64];
    assert_true(w->fed->clients <= 64);
    memset(share, 0, w->fed->clients * sizeof *share);
    for (size_t r = 0; r < rounds; r++) {
        size_t m = fli_participation_pick(w->p, 5, r, cohort);
        for (size_t i = 0; i < m; i++) share[cohort[i]] += 1 / (double)rounds;
    }
}

/* The stated probabilities, and the frequencies within five standard deviations. */
static void likely(fixture *f, const char *name, const char *params, size_t clients, const double *want)
{
    enum { ROUNDS = 20000 };
    double share[64];
    way w;
    way_init(&w, f, name, params, clients, NULL);
    frequencies(&w, ROUNDS, share);
    for (size_t i = 0; i < clients; i++) {
        double p = fli_participation_probability(w.p, 0, i);
        assert_near(p, want[i], 1e-15);
        assert_near(share[i], p, 5 * sqrt(p * (1 - p) / ROUNDS) + 1e-9);
    }
    way_fini(&w);
}

static void probabilities_follow_the_participation(void **state)
{
    fixture *f = *state;
    static const double coins[] = {0.1, 0.5, 1, 0.9}, same[] = {0.7, 0.7, 0.7}, ones[] = {1, 1, 1};
    static const double tenths[] = {0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, trace[] = {0.5, 1, 0.25, 0};
    char path[300];
    likely(f, "uniform", "count=3", 10, tenths);
    likely(f, "cyclic", "count=3", 10, tenths);
    likely(f, "uniform", "fraction=0.3", 10, tenths);
    likely(f, "everyone", "", 3, ones);
    likely(f, "bernoulli", "probability=0.7", 3, same);
    likely(f, "bernoulli", "probability=[0.1,0.5,1,0.9]", 4, coins);
    snprintf(path, sizeof path, "path=%s", fixture_write(f, "trace.txt", "0 1\n1\n1 2\n0 1\n"));
    likely(f, "trace", path, 4, trace);
}

/* For `weighted` there is no closed form; the approximation is good to a few per cent, and the p_i add up to m. */
static void weighted_probabilities(void **state)
{
    fixture *f = *state;
    enum { CLIENTS = 40, ROUNDS = 20000 };
    size_t size[CLIENTS];
    double share[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) size[i] = 2 + i % 7;
    for (size_t m = 1; m <= 4; m += 3) {
        way w;
        way_init(&w, f, "weighted", m == 1 ? "count=1" : "count=4", CLIENTS, size);
        double sum = 0;
        frequencies(&w, ROUNDS, share);
        for (size_t i = 0; i < CLIENTS; i++) {
            double p = fli_participation_probability(w.p, 0, i), noise = 5 * sqrt(share[i] / ROUNDS);
            sum += p;
            assert_near(p, share[i], noise + 0.03 * share[i]);
        }
        assert_near(sum, (double)m, 1e-9);
        way_fini(&w);
    }
}

/* ---- lists with one value per client ------------------------------------------------------------------- */

typedef struct {
    fl_reals plain, worded;
} lists;

static const fl_key list_keys[] = {
    FLI_KEY_PER_CLIENT(lists, plain, "0.1", 0, FLI_NO_MAX, NULL, "a list"),
    FLI_KEY_PER_CLIENT(lists, worded, "auto", 0, FLI_NO_MAX, "auto", "a list or a word"),
    FLI_KEY_END,
};

static void per_client_lists(void **state)
{
    fixture *f = *state;
    fli_arena a;
    fli_text t;
    fli_arena_init(&a, f->ctx);
    const lists *x = bound(f->ctx, &a, list_keys, sizeof(lists), "");
    assert_int_equal(x->plain.n, 1);
    assert_int_equal(x->worded.n, 0); /* auto */
    assert_ok(f->ctx, fli_keys_check_clients(f->ctx, "s", list_keys, x, 7));
    assert_true(fli_reals_at(&x->plain, 5) == 0.1);
    x = bound(f->ctx, &a, list_keys, sizeof(lists), "plain=[1,2,3];worded=4");
    assert_ok(f->ctx, fli_keys_check_clients(f->ctx, "s", list_keys, x, 3));
    assert_true(fli_reals_at(&x->plain, 2) == 3 && fli_reals_at(&x->worded, 2) == 4);
    assert_fails(f->ctx, fli_keys_check_clients(f->ctx, "s", list_keys, x, 2), FL_ECONFIG,
                 "s.plain has 3 values, but there are 2 clients");
    x = bound(f->ctx, &a, list_keys, sizeof(lists), "plain=1;worded=[1,2]");
    assert_fails(f->ctx, fli_keys_check_clients(f->ctx, "s", list_keys, x, 5), FL_ECONFIG,
                 "s.worded has 2 values, but there are 5 clients");
    x = bound(f->ctx, &a, list_keys, sizeof(lists), "plain=[]");
    assert_fails(f->ctx, fli_keys_check_clients(f->ctx, "s", list_keys, x, 5), FL_ECONFIG,
                 "s.plain has 0 values, but there are 5 clients");
    fli_text_init(&t, f->ctx);
    fli_key_print_type(&t, &list_keys[1]);
    assert_string_equal(fli_text_get(&t), "a list of numbers >= 0: one, or one per client; or auto");
    fli_text_fini(&t);
    fli_arena_fini(&a);
}

static void assert_line(const char *text, const char *line)
{
    char whole[200];
    snprintf(whole, sizeof whole, "\n  %s\n", line);
    assert_says(text, whole);
}

/* The resolved configuration, read again, is the same. */
static void lists_are_printed_and_read_again(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set, *lines[4];
    } cases[] = {
        {"algorithm=fedavg|algorithm=fedvra", {"gamma: balanced", "a: balanced", "d: balanced", "lr_factors: [1]"}},
        {"algorithm={kind: fedvra, gamma: [0.1, 0.2, 0.30000000000000004, 1e-7], a: auto, d: 3}|local.lr_factors=[1, "
         "2, 3, 0.5]",
         {"gamma: [0.1, 0.2, 0.30000000000000004, 1e-07]", "a: auto", "d: [3]", "lr_factors: [1, 2, 3, 0.5]"}},
        {"algorithm={kind: fedvra, a: balanced, a_rounds: [1, 0.5], d_rounds: 2, preset: admm}",
         {"a: balanced", "a_rounds: [1, 0.5]", "d_rounds: [2]", "preset: admm"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collected one = {0}, two = {0};
        fl_config *cfg = problem(f, cases[i].set);
        assert_ok(f->ctx, fl_config_print(cfg, collect_text, &one));
        fl_config_free(cfg);
        for (size_t k = 0; k < 4; k++) assert_line(one.s, cases[i].lines[k]);
        cfg = fixture_config_named(f, "again.yaml", one.s);
        assert_ok(f->ctx, fl_config_print(cfg, collect_text, &two));
        fl_config_free(cfg);
        assert_string_equal(one.s, two.s);
        free(one.s);
        free(two.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(condition_excess),
        FIXTURE_TEST(conditions_are_collected),
        FIXTURE_TEST(conditions_that_are_no_numbers_fail),
        FIXTURE_TEST(conditions_do_not_overflow),
        FIXTURE_TEST(requirements_and_assumptions),
        FIXTURE_TEST(smoothness_is_measured),
        FIXTURE_TEST(conditions_are_the_papers),
        FIXTURE_TEST(automatic_step_sizes_hold),
        FIXTURE_TEST(advice_holds),
        FIXTURE_TEST(feddr_condition),
        FIXTURE_TEST(feddr_advice),
        FIXTURE_TEST(theorems_want_convex_regularisers),
        FIXTURE_TEST(long_proximal_steps_are_said),
        FIXTURE_TEST(feddr_relative_errors),
        FIXTURE_TEST(feddr_relative_advice),
        FIXTURE_TEST(feddr_absolute_errors),
        FIXTURE_TEST(fedsplit_check),
        FIXTURE_TEST(fedlin_check),
        FIXTURE_TEST(scaffnew_check),
        FIXTURE_TEST(asyncfeddr_conditions),
        FIXTURE_TEST(asyncfeddr_advice),
        FIXTURE_TEST(asyncfeddr_not_convex),
        FIXTURE_TEST(what_cannot_be_said),
        FIXTURE_TEST(close_to_the_bound),
        FIXTURE_TEST(wrong_settings_are_refused),
        FIXTURE_TEST(checks_keep_no_memory),
        FIXTURE_TEST(memory_may_run_out),
        FIXTURE_TEST(two_levels),
        FIXTURE_TEST(probabilities_follow_the_participation),
        FIXTURE_TEST(weighted_probabilities),
        FIXTURE_TEST(per_client_lists),
        FIXTURE_TEST(lists_are_printed_and_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
