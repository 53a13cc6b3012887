/* What `fedloom check` promises of FedVRA, federated ADMM, FedDR, asyncFedDR and FedGiA, held against random small
 * problems: where it says that the theorem applies, the theorem's conditions must be true with the exact constants of
 * the problem, and the theorem's function must fall. FEDLOOM_PROBLEMS=N draws N problems per theorem. */
#include "promises.h"

#include "format/safetensors.h"

/* ---- [VRA] Theorem 1 ------------------------------------------------------------------------------------- */

typedef struct {
    vra_settings v;
    sampling how;
    size_t count;
    int admm;
    int in_turns;  /* a participation in which p_i is 0 in some rounds */
    int changing;  /* steps differ by round, from `fewest` to v.steps */
    size_t fewest; /* steps of the slowest client; v.steps are the most */
} vra_case;

/* On the edge of (17) and (18) at client i, boost times as large. */
static void on_the_edge(const drawn *d, vra_case *c, size_t i, double boost)
{
    vra_settings *v = &c->v;
    double l = twin_smoothness(&d->t, i), product = 0.9999 / (2 * (v->a + v->d) * (double)v->steps);
    double s = 1 - pow(1 - product, (double)c->fewest), p = v->p[i];
    v->gamma[i] = boost * 1.001 * fmax(sqrt(6) * l / (2 * (v->a + v->d)), l / 2 + 6.5 * l / (p * v->a * s));
    v->lr[i] = product / v->gamma[i];
}

static void draw_in_turns(drawn *d, fli_rng *r, vra_case *c)
{
    c->in_turns = 1;
    c->how = UNIFORM;
    c->count = 1 + one_of(r, d->t.clients - 1);
    for (size_t i = 0; i < d->t.clients; i++) c->v.p[i] = (double)c->count / (double)d->t.clients;
    if (chance(r, 0.5)) {
        say(d, "participation:\n  kind: cyclic\n  count: %zu\n", c->count);
        return;
    }
    char text[400];
    size_t used = 0;
    for (size_t k = 0; k < 6; k++) used += (size_t)snprintf(text + used, sizeof text - used, "%zu\n", k % d->t.clients);
    fixture_write(d->f, "turns.txt", text);
    say(d, "participation:\n  kind: trace\n  path: %s\n", d->f->path);
}

/* Everything but gamma and the step sizes. */
static void draw_vra_work(drawn *d, fli_rng *r, vra_case *c)
{
    static const double half[] = {1, 0.5};
    c->admm = chance(r, 0.3);
    c->v.a = c->admm ? 1 : spread(r, 0.5, 4);
    c->v.d = c->admm ? 1 : spread(r, 0.5, 4);
    c->v.steps = c->fewest = 1 + one_of(r, 5);
    say(d, "local:\n  batch: 0\n  steps: %zu\n", c->v.steps);
    if (c->how != EVERYONE || !chance(r, 0.4)) return;
    c->changing = chance(r, 0.4);
    c->fewest = c->changing ? 1 : (c->v.steps + 1) / 2;
    say(d, "  uneven: %s\n", c->changing ? "range" : "speeds");
    if (c->changing) say(d, "  range: [1, %zu]\n", c->v.steps);
    if (!c->changing) say_list(d, "speeds", half, 2);
}

static void draw_vra(drawn *d, fli_rng *r, vra_case *c, int mend)
{
    size_t n = d->t.clients;
    double shared = chance(r, 0.5) ? 1 : spread(r, 1, 30);
    int one = chance(r, 0.4); /* one gamma */
    *c = (vra_case){.how = EVERYONE};
    if (chance(r, 0.07))
        draw_in_turns(d, r, c);
    else
        c->how = draw_sampling(d, r, &c->count, c->v.p);
    draw_vra_work(d, r, c);
    for (size_t i = 0; i < n; i++) on_the_edge(d, c, i, shared * (chance(r, 0.5) ? 1 : spread(r, 1, 10)));
    for (size_t i = 1; i < n && (one || mend); i++) {
        size_t more = c->v.gamma[i] > c->v.gamma[0] ? i : 0;
        c->v.gamma[0] = c->v.gamma[i] = c->v.gamma[more];
        c->v.lr[0] = c->v.lr[i] = c->v.lr[more];
    }
    for (size_t i = 0; i < n && (one || mend); i++) c->v.gamma[i] = c->v.gamma[0], c->v.lr[i] = c->v.lr[0];
    if (mend) { /* from settings that fail */
        double worse = spread(r, 3, 300);
        for (size_t i = 0; i < n; i++) c->v.gamma[i] /= worse;
    }
    double factors[MOST_CLIENTS];
    for (size_t i = 0; i < n; i++) factors[i] = c->v.lr[i] / c->v.lr[0];
    say(d, "  lr: %.17g\n", c->v.lr[0]);
    say_list(d, "lr_factors", factors, n);
    say(d, "algorithm:\n  kind: %s\n", c->admm ? "fedadmm" : "fedvra");
    if (!c->admm) say(d, "  a: %.17g\n  d: %.17g\n", c->v.a, c->v.d);
    if (one || mend)
        say(d, "  gamma: %.17g\n", c->v.gamma[0]);
    else
        say_list(d, "gamma", c->v.gamma, n);
}

/* The settings of the text that is promised. */
static void read_vra(const char *text, size_t n, vra_case *c)
{
    double factors[MOST_CLIENTS], lr = number(text, "local", "lr", NAN);
    if (!numbers(text, "local", "lr_factors", factors, n)) factors[0] = NAN;
    c->v.a = number(text, "algorithm", "a", c->v.a);
    c->v.d = number(text, "algorithm", "d", c->v.d);
    c->v.steps = (size_t)number(text, "local", "steps", (double)c->v.steps);
    assert_true(numbers(text, "algorithm", "gamma", c->v.gamma, n));
    for (size_t i = 0; i < n; i++) c->v.lr[i] = lr * factors[i];
    if (!c->in_turns || strstr(text, "kind: cyclic") || strstr(text, "kind: trace")) return;
    c->in_turns = 0; /* --fix has chosen another participation */
    c->how = strstr(text, "kind: everyone") ? EVERYONE : UNIFORM;
    c->count = cohort_of(text, n);
    for (size_t i = 0; i < n; i++) c->v.p[i] = (double)c->count / (double)n;
}

/* The first condition of Theorem 1 that is false with the true L_i; NULL: none. The first is what (17) has to be for
 * gamma_i that differ, and follows from (17) for those that do not (docs/theory.md).
 * Which client is slow, where lasting speeds differ, is not known here: all count as fast, the easiest case. */
static const char *false_of_theorem_1(const drawn *d, const vra_case *c)
{
    const vra_settings *v = &c->v;
    double averaged = 0, beta = vra_beta(&d->t, v);
    for (size_t i = 0; i < d->t.clients; i++) {
        double gl = v->gamma[i] * v->lr[i], l = twin_smoothness(&d->t, i), most = 1 - pow(1 - gl, (double)v->steps);
        double u = v->p[i] * v->a * (c->changing ? 1 - pow(1 - gl, (double)c->fewest) : most);
        averaged += d->t.at[i].weight * (l / 2 + 4 * beta / u * (1 + 4 / u) * l * l);
        if (gl > 1 + 1e-9) return "Lemma 1";
        if (sqrt(6) * l * most / v->gamma[i] > 1 + 1e-6) return "(18) first";
        if ((v->a + v->d) * most > 1 + 1e-9) return "(18) third";
    }
    return averaged > (1 + 1e-3) / (2 * beta) ? "(17), averaged as its proof needs it" : NULL;
}

/* The mean of P after a round from a state a few rounds from the start is below P there by what (79) says at least; its
 * last term is 0 where steps are over all samples. */
static void vra_cohorts(tally *t, fli_rng *r, const drawn *d, const vra_settings *v, sampling how, size_t count,
                        size_t problem, const char *text)
{
    static vra_state s, next;
    double x[MOST_X] = {0}, mean = 0, before;
    unsigned all = (1U << d->t.clients) - 1;
    char why[200];
    for (size_t j = 0; j < d->t.n && chance(r, 0.5); j++) x[j] = fli_rng_normal(r);
    vra_begin(&d->t, x, &s);
    for (size_t k = one_of(r, 5); k > 0; k--) {
        unsigned cohort;
        do cohort = (unsigned)one_of(r, all + 1);
        while (cohort_probability(how, d->t.clients, count, v->p, cohort) == 0);
        vra_round(&d->t, v, cohort, &s);
    }
    before = vra_potential(&d->t, v, &s);
    for (unsigned cohort = 0; cohort <= all; cohort++) {
        double p = cohort_probability(how, d->t.clients, count, v->p, cohort);
        if (p == 0) continue;
        next = s;
        vra_round(&d->t, v, cohort, &next);
        mean += p * vra_potential(&d->t, v, &next);
    }
    t->states++;
    if (!tally_rise(t, before, mean + vra_descent(&d->t, v, &s))) return;
    snprintf(why, sizeof why, "the mean of P over all cohorts is %.10g after %.10g", mean, before);
    tally_add(t, &t->broken, problem, text, why);
}

/* (86), added up over the rounds: sum ||grad f||^2 <= 2 D_1/beta (P^0 - P^R). */
static promise vra_promise(const drawn *d, const vra_case *c)
{
    const vra_settings *v = &c->v;
    double sum = 0;
    for (size_t i = 0; i < d->t.clients; i++) {
        double moved = 1 - pow(1 - v->gamma[i] * v->lr[i], (double)c->fewest);
        sum += 9 / (v->p[i] * (2 * v->a + v->d) * moved);
    }
    return (promise){.gap = "gradient2", .factor = 2 * sum / vra_beta(&d->t, v)};
}

/* With work that changes from round to round (45) is not what falls, but f and 4 beta Xi_i/inf_r u_i do
 * (docs/theory.md): by (86), sum ||grad f||^2 <= 2 D_1/beta times what they are at the start, since no f_i is below
 * 0. */
static void vra_changing(tally *t, const drawn *d, const vra_case *c, size_t problem, const char *text)
{
    static vra_state s;
    const fl_row *rows;
    vra_settings slow = c->v;
    double sum = 0;
    char why[200];
    slow.steps = c->fewest;
    vra_begin(&d->t, (double[MOST_X]){0}, &s);
    double most = vra_promise(d, c).factor * vra_potential(&d->t, &slow, &s);
    fl_run *run = run_text(d->f, text, "rounds=60");
    size_t n = run ? fl_run_rows(run, &rows) : 0;
    for (size_t k = 0; k < n; k++) sum += fl_row_get(&rows[k], "gradient2");
    t->runs++;
    snprintf(why, sizeof why, "sum ||grad f||^2 over 60 rounds is %g, promised: %g", run ? sum : INFINITY, most);
    if (!run || !(sum <= most * (1 + 1e-9))) tally_add(t, &t->broken, problem, text, why);
    if (run) fl_run_free(run);
}

static void vra_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    vra_case c;
    verdict said;
    fli_rng_init(&r, 11, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = draw_wish(&r);
    int mend = chance(&r, 0.4);
    draw_data(&d, f, &r, &w);
    draw_vra(&d, &r, &c, mend);
    char *text = promised(t, f, d.text, mend, &said);
    if (text) {
        read_vra(text, d.t.clients, &c);
        const char *wrong = c.in_turns ? "p_i > 0 in every round" : false_of_theorem_1(&d, &c);
        if (wrong) tally_add(t, &t->untrue, problem, text, wrong);
        promise p = vra_promise(&d, &c);
        if (c.changing)
            vra_changing(t, &d, &c, problem, text);
        else if (c.how == EVERYONE)
            hold(t, f, problem, text, "", &p);
        else if (!c.in_turns)
            for (size_t k = 0; k < 3; k++) vra_cohorts(t, &r, &d, &c.v, c.how, c.count, problem, text);
    }
    free(text);
    free(said.json);
}

static void vra_theorem_1(void **state)
{
    tally t = {.theorem = "[VRA] Theorem 1"};
    for (size_t k = problems(3000); k-- > 0;) vra_problem(&t, *state, k);
    tally_end(&t, 25);
}

/* The plain FedVRA that tries the cohorts goes the way of the library's. */
static void plain_fedvra(void **state)
{
    static drawn d;
    static vra_state s;
    size_t compared = 0;
    for (uint32_t problem = 0; problem < 40; problem++) {
        fli_rng r;
        vra_case c;
        const fl_row *rows;
        double x[MOST_X] = {0};
        fli_rng_init(&r, 12, FLI_RNG_TEST, 0, problem);
        wish w = draw_wish(&r);
        draw_data(&d, *state, &r, &w);
        draw_vra(&d, &r, &c, 0);
        if (c.how != EVERYONE || c.fewest < c.v.steps) continue;
        fl_run *run = run_text(*state, d.text, "metrics.potential=true;rounds=6");
        assert_non_null(run);
        fl_run_rows(run, &rows);
        vra_begin(&d.t, x, &s);
        for (size_t k = 0; k <= 6; k++) {
            double p = vra_potential(&d.t, &c.v, &s), have = fl_row_get(&rows[k], "potential");
            if (!(fabs(p - have) < 1e-9 * (1 + fabs(p)))) fail_msg("%.17g, not %.17g\n%s", have, p, d.text);
            vra_round(&d.t, &c.v, (1U << d.t.clients) - 1, &s);
        }
        compared++;
        fl_run_free(run);
    }
    assert_true(compared > 5);
}

/* ---- start models ----------------------------------------------------------------------------------------- */

/* Writes the model that a run begins with. */
static void write_start(fixture *f, const char *text)
{
    double x[400];
    fl_tensor t;
    fl_run *run = NULL;
    fli_tensor_entry entry[8];
    fl_config *cfg = fl_config_new(f->ctx);
    size_t tensors = 0;
    assert_ok(f->ctx, fl_config_text(cfg, text, "the problem"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_true(fl_run_model(run, x, 400) <= 400);
    for (; fl_run_tensor(run, tensors, &t); tensors++) {
        fli_tensor_entry *e = &entry[tensors];
        assert_true(tensors < 8);
        *e = (fli_tensor_entry){.name = t.name, .dtype = "F64", .dims = t.dims, .data = x + t.offset};
        for (size_t k = 0; k < t.dims; k++) e->shape[k] = t.shape[k];
    }
    assert_ok(f->ctx, fli_safetensors_write(f->ctx, &(fli_tensor_list){NULL, 0, entry, tensors},
                                            fixture_path(f, "start.safetensors")));
    fl_run_free(run);
}

static double measured_at(fixture *f, const char *text, int seed, int from_file)
{
    char all[9000];
    snprintf(all, sizeof all, "seed: %d\n%smodel:\n  kind: mlp\n  hidden: [3]\n", seed, text);
    if (from_file) {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "  start: %s\n", fixture_path(f, "start.safetensors"));
    } else
        write_start(f, all);
    verdict v = check_text(f, all);
    free(v.json);
    return v.smoothness;
}

/* L_i is measured at the model that the run begins with: with the start model of another seed in a file, that
 * seed's. */
static void start_models(void **state)
{
    fixture *f = *state;
    size_t different = 0;
    for (uint32_t problem = 0; problem < 20; problem++) {
        static drawn d;
        fli_rng r;
        char text[8000];
        fli_rng_init(&r, 13, FLI_RNG_TEST, 0, problem);
        wish w = {.kind = SOFTMAX, .clients = 3, .features = 3, .classes = 3, .most = 10};
        draw_data(&d, f, &r, &w);
        snprintf(text, sizeof text,
                 "precision: f64\nthreads: 1\npartition: natural\nlocal: {batch: 0}\nalgorithm: {kind: fedadmm}\n"
                 "data:\n  kind: csv\n  train: %s\n  group_column: 0\n  storage: f64\n  classes: 3\n",
                 fixture_path(f, "data.csv"));
        double other = measured_at(f, text, 2, 0), want = measured_at(f, text, 1, 0), have = measured_at(f, text, 2, 1);
        different += fabs(other - want) > 0.02 * want;
        if (!(fabs(have - want) <= 0.02 * want))
            fail_msg(
                "problem %u: L_i is %g at seed 1's start model, %g at seed 2's, and %g for seed 2 with a file that has "
                "seed 1's",
                problem, want, other, have);
    }
    assert_true(different > 10);
}

/* A network has no L_i that holds everywhere: every verdict says that it was measured at one model. */
static void networks_are_assumed(void **state)
{
    static const char *const methods[] = {"fedvra", "fedadmm", "fedvra-u", "feddr",  "asyncfeddr",
                                          "fedgia", "fedcpsl", "fedshvrp", "simfbo", "shrofbo"};
    fixture *f = *state;
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "threads: 1\nmodel: {kind: mlp, hidden: [3]}\ndata: {kind: blobs, samples: 60, classes: 3}\n"
                 "partition: {kind: iid, clients: 3}\nlocal: {batch: 0}\nalgorithm: {kind: %s}\n%s",
                 methods[k],
                 strstr(methods[k], "fbo")     ? "bilevel: hyper_representation\n"
                 : strstr(methods[k], "async") ? "system: lognormal\n"
                                               : "");
        verdict v = check_text(f, text);
        const char *at = v.json;
        int said = 0;
        for (; (at = strstr(at, "\"formula\"")); at++) {
            const char *is = behind(at, "verdict"), *start = strstr(at, "start model");
            said |= is && is[1] == 'a' && start && start < is;
        }
        if (!said)
            fail_msg("%s: no word that L_i of a network is measured at the start model alone:\n%s", methods[k], v.json);
        free(v.json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(plain_fedvra), FIXTURE_TEST(vra_theorem_1),
                                       FIXTURE_TEST(start_models), FIXTURE_TEST(networks_are_assumed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
