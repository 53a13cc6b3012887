/* What `fedloom check` promises of SimFBO and ShroFBO, held against random small problems of two levels: see
 * test_promises.c. The constants L_2, L_3 and beta_gh of (38) and (39) are not known here; taken as 0 they leave bounds
 * that are necessary whatever they are. */
#include "promises.h"

typedef struct {
    int shrofbo, weighted, uneven;
    double radius; /* 0: auto */
} levels_case;

/* Step sizes from far too large to far too small. */
static void draw_levels(drawn *d, fli_rng *r, levels_case *c)
{
    size_t n = d->t.clients;
    *c = (levels_case){.shrofbo = chance(r, 0.5), .weighted = chance(r, 0.15), .uneven = chance(r, 0.25)};
    c->radius = chance(r, 0.2) ? spread(r, 1e-6, 100) : 0;
    say(d, "bilevel:\n  kind: regularization\n  start: %.17g\n  validation: 0\n  l2: %.17g\n", spread(r, 0.01, 0.3),
        spread(r, 0.05, 2));
    if (c->weighted)
        say(d, "participation:\n  kind: weighted\n  count: %zu\n", 1 + one_of(r, n - 1));
    else
        say(d, chance(r, 0.7) ? "participation:\n  kind: everyone\n" : "participation:\n  kind: uniform\n  count: 1\n");
    say(d, "local:\n  batch: 0\n  steps: 4\n");
    if (c->uneven) say(d, "  uneven: speeds\n  speeds: [1, 0.25]\n");
    say(d,
        "algorithm:\n  kind: %s\n  lr_x: %.17g\n  lr_y: %.17g\n  lr_v: %.17g\n  server_lr_x: %.17g\n  server_lr_y: "
        "%.17g\n  server_lr_v: %.17g\n",
        c->shrofbo ? "shrofbo" : "simfbo", spread(r, 1e-6, 0.1), spread(r, 1e-6, 0.1), spread(r, 1e-6, 0.1),
        spread(r, 1e-14, 1e5), spread(r, 1e-6, 1), spread(r, 1e-6, 1));
    if (c->radius > 0) say(d, "  radius: %.17g\n", c->radius);
}

/* A bound from below on gamma_y/gamma_x: (38) asks for c_y >= 256 K_1 L_y/mu_g, where L_y, the smoothness of y*(x), may
 * be L_1/mu_g, and K_1 >= [40 L_1^2/mu_g + 384 L_R^2 L_1^2/mu_g^3]/c_y with L_R >= L_1. */
static double least_ratio(const verdict *v)
{
    const char *lower = behind(v->json, "convexity"), *upper = behind(v->json, "upper_smoothness");
    double mu = lower ? strtod(lower, NULL) : NAN, l = fmax(v->smoothness, upper ? strtod(upper, NULL) : 0);
    return sqrt(256 * l / (mu * mu) * (40 * l * l / mu + 384 * pow(l, 4) / pow(mu, 3)));
}

static double ratio(const char *text)
{
    return number(text, "algorithm", "server_lr_y", NAN) / number(text, "algorithm", "server_lr_x", NAN);
}

static const char *false_of_levels(const char *text, const levels_case *c, const verdict *v, double v_star)
{
    double radius = number(text, "algorithm", "radius", 0);
    if (!(ratio(text) > 0.99 * least_ratio(v))) return "(38): server_lr_x is too large beside server_lr_y";
    if (radius > 0 && radius < 0.999 * v_star) return "radius is less than ||v*||";
    if (c->weighted && strstr(text, "kind: weighted")) return "sampling that is not uniform";
    const char *least = behind(v->json, "least_steps"), *most = behind(v->json, "steps");
    if (!c->shrofbo && strtod(least, NULL) != strtod(most, NULL))
        return "unequal ||a_i||_1, for which Theorem 1 is about other weights";
    return NULL;
}

/* y comes no farther from y*(x): its distance is a part of (37), and x hardly moves. */
static void levels_run(tally *t, fixture *f, size_t problem, const char *text, const levels_case *c, const verdict *v)
{
    const fl_row *rows;
    fl_run *run = run_text(f, text, "metrics.hypergradient=true;metrics.gradient=false;rounds=1000;metrics.every=1000");
    size_t n = run ? fl_run_rows(run, &rows) : 0;
    double v_star = n ? fl_row_get(&rows[0], "system_distance") : NAN; /* v begins at 0 */
    const char *wrong = false_of_levels(text, c, v, v_star);
    if (wrong) tally_add(t, &t->untrue, problem, text, wrong);
    t->runs++;
    double before = n ? fl_row_get(&rows[0], "lower_distance") : NAN;
    double after = n ? fl_row_get(&rows[n - 1], "lower_distance") : NAN;
    if (n && before < 1e-9) before = 1e-9;
    if (strstr(text, "kind: everyone") && tally_rise(t, before, after * (1 - 1e-6)))
        tally_add(t, &t->broken, problem, text, "y goes away from y*(x)");
    if (run) fl_run_free(run);
}

static void levels_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    verdict said;
    levels_case c;
    fli_rng_init(&r, 41, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = {.kind = chance(&r, 0.5) ? LEAST_SQUARES : SOFTMAX,
              .clients = 2 + one_of(&r, 3),
              .features = 1 + one_of(&r, 3),
              .most = 8};
    if (w.kind == SOFTMAX) w.classes = 2 + one_of(&r, 2);
    draw_data(&d, f, &r, &w);
    char *decay = strstr(d.text, "  weight_decay: "); /* of two levels there is none */
    memcpy(decay + 16, "0 #", 3);
    draw_levels(&d, &r, &c);
    char *text = promised(t, f, d.text, 1, &said);
    if (text) levels_run(t, f, problem, text, &c, &said);
    if (text && ratio(text) < 0.99 * fmin(ratio(d.text), least_ratio(&said)))
        tally_add(t, &t->untrue, problem, text, "check --fix goes away from (38)");
    free(text);
    free(said.json);
}

static void fbo_theorems(void **state)
{
    tally t = {.theorem = "[FBO] Theorems 1 and 2"};
    for (size_t k = problems(150); k-- > 0;) levels_problem(&t, *state, k);
    tally_end(&t, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(fbo_theorems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
