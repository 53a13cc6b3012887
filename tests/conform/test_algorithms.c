/* Every listed algorithm: a sane descriptor, exact byte counts; and the equalities between methods that the papers
 * state. */
#include "fixture.h"

#include "algo/algo.h"
#include "run/state.h"

#include <ctype.h>

/* ---- descriptors --------------------------------------------------------------------------------------- */

/* No name is empty or comes twice. */
static void check_names(const char *const *names)
{
    for (size_t i = 0; i < fli_names_count(names); i++) {
        assert_true(names[i][0]);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(names[i], names[j]);
    }
}

static void check_keys(fixture *f, const fl_method *a)
{
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    for (const fl_key *k = a->keys; k && k->name; k++) {
        assert_true(k->help && k->help[0] && k->def);
        assert_true(k->offset + 4 <= a->params_size);
        for (const fl_key *other = a->keys; other < k; other++) {
            assert_string_not_equal(k->name, other->name);
            assert_true(k->offset != other->offset);
        }
    }
    bound(f->ctx, &arena, a->keys, a->params_size, ""); /* the defaults pass their own rules */
    fli_arena_fini(&arena);
}

/* Every key that a remedy names is one of the method's, or local.lr. */
static void check_remedy(const fl_method *a, const char *remedy)
{
    static const char section[] = "algorithm.";
    for (const char *at = remedy; at && (at = strstr(at, section)); at++) {
        const char *name = at + strlen(section);
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
        const fl_key *k = a->keys;
        while (k && k->name && (strlen(k->name) != n || strncmp(k->name, name, n))) k++;
        if (!k || !k->name) fail_msg("%s: \"%s\" names a key that it does not have", a->name, remedy);
    }
    assert_true(!remedy || strstr(remedy, section) || strstr(remedy, "local.lr"));
}

static const fl_key *key_of(const fl_key *rows, const char *name)
{
    while (rows && rows->name && strcmp(rows->name, name)) rows++;
    return rows && rows->name ? rows : NULL;
}

/* Every range is of a key that the method or `local` has, and within what that key may be. */
static void check_tune(const fl_method *a)
{
    static const char own[] = "algorithm.", local[] = "local.";
    size_t count = 0;
    for (const fl_tune_range *r = fli_algo_tune(a); r->key; r++, count++) {
        int is_own = !strncmp(r->key, own, strlen(own)), is_local = !strncmp(r->key, local, strlen(local));
        const fl_key *k = is_own     ? key_of(a->keys, r->key + strlen(own))
                          : is_local ? key_of(fli_settings_common("local"), r->key + strlen(local))
                                     : NULL;
        if (!k) fail_msg("%s is tuned by %s, which it does not have", a->name, r->key);
        assert_true(k->type == FL_KEY_REAL || k->type == FL_KEY_INT || k->type == FL_KEY_REALS);
        assert_true(r->from < r->to && (!r->log || r->from > 0));
        if (k->min < k->max) assert_true(r->from >= k->min && r->to <= k->max);
        for (const fl_tune_range *other = fli_algo_tune(a); other < r; other++)
            assert_string_not_equal(r->key, other->key);
    }
    assert_true(count >= 1 && count <= 3);
}

/* A method's messages: of vectors and scalars that there are, down and up each marked as what they are. */
static void check_parts(const fl_method *a)
{
    assert_true(fli_parts_vectors(a->down) >= 1 && fli_parts_vectors(a->down) <= fli_names_count(a->server));
    assert_true(fli_parts_numbers(a->down) <= a->server_scalars);
    assert_true(fli_parts_vectors(a->up) + fli_parts_numbers(a->up) >= 1);
    for (const fl_part *p = a->down; p->name; p++) {
        assert_true(*p->name && (p->use == FL_PART_FORGET || p->use == FL_PART_KEEP || p->use == FL_PART_KEEP_EACH));
        if (p->what == FL_PART_START) assert_true(p->when == FL_AT_FIRST && fli_names_count(a->client));
        if (p->use == FL_PART_KEEP || p->use == FL_PART_KEEP_EACH)
            assert_true((a->rounds.phases || a->phases > 1) && !fli_algo_is_async(a) && p->what != FL_PART_NUMBER);
    }
    assert_true(!fli_algo_is_async(a) ||
                (!a->rounds.phases && a->phases <= 1 && !a->rounds.steps && !a->rounds.exchanges));
    for (const fl_part *p = a->up; p->name; p++) {
        assert_true(*p->name && (p->use == FL_PART_VALUE || p->use == FL_PART_CHANGE) && p->what != FL_PART_START);
        if (p->use == FL_PART_CHANGE) assert_true(p->what != FL_PART_NUMBER);
    }
}

static void every_method_describes_itself_fully(void **state)
{
    fixture *f = *state;
    size_t count = 0;
    for (const fl_method *const *p = fli_algo_list; *p; p++, count++) {
        const fl_method *a = *p;
        assert_true(a->name && a->title && a->citation && a->title[0] && a->citation[0]);
        for (const char *c = a->name; *c; c++)
            assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '-');
        for (const fl_method *const *q = fli_algo_list; q < p; q++) assert_string_not_equal(a->name, (*q)->name);
        assert_true(a->pose && a->answer && a->absorb && a->advance);
        assert_true(fli_names_count(a->server) >= 1);
        check_parts(a);
        check_names(a->server);
        check_names(a->client);
        check_names(a->sums);
        check_keys(f, a);
        check_remedy(a, fli_algo_remedy(a));
        check_remedy(a, a->personal.remedy);
        check_tune(a);
    }
    assert_true(count >= 8);
    assert_int_equal(fli_names_count(NULL), 0);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static const char base[] = "seed: 5\nrounds: 6\nthreads: 2\nprecision: f64\nmodel: softmax\n"
                           "data: {kind: blobs, classes: 3, features: 4, samples: 90, test_samples: 30}\n"
                           "partition: {kind: iid, clients: 9}\nparticipation: everyone\n"
                           "local: {batch: 4, lr: 0.1}\n";

/* The base configuration with assignments on top, separated by ';', run to its end. */
static fl_run *run_of(fixture *f, const char *assignments)
{
    fl_run *run = NULL;
    char text[512], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

/* The final model; the run is freed, the model is to be. */
static double *model_of(fixture *f, const char *assignments, size_t *n)
{
    fl_run *run = run_of(f, assignments);
    *n = fl_run_parameters(run);
    double *x = malloc(*n * sizeof *x);
    fl_run_model(run, x, *n);
    fl_run_free(run);
    return x;
}

/* The largest difference of two final models. */
static double difference(fixture *f, const char *one, const char *other)
{
    size_t n, m;
    double *x = model_of(f, one, &n), *y = model_of(f, other, &m), worst = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(x[i] - y[i]) <= worst)) worst = fabs(x[i] - y[i]);
    free(x);
    free(y);
    return worst;
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

/* What the papers say each method sends per client and round: vectors up, scalars up, vectors down. */
static const struct {
    const char *name;
    size_t up, scalars, down;
} costs[] = {
    {"fedavg", 1, 0, 1},   {"local-sgd", 1, 0, 1}, {"fedprox", 1, 0, 1}, {"fednova", 1, 1, 1},  {"scaffold", 2, 0, 2},
    {"vrl-sgd", 1, 0, 1},  {"feddyn", 1, 0, 1},    {"fedpd", 1, 0, 1},   {"fedcpsl", 1, 1, 2},  {"fedshvr", 2, 1, 2},
    {"fedshvrp", 2, 1, 2}, {"apfl", 1, 0, 1},      {"apsfl", 1, 0, 1},   {"fedvra-u", 1, 1, 1}, {"mime-lite", 2, 0, 2},
    {"fedlin", 2, 0, 2},   {"scaffnew", 1, 0, 1},
};

/* Different clients in the first r rounds, of which r - 1 have been counted. */
static size_t seen_until(const fl_run *run, size_t r, int seen[9])
{
    uint32_t cohort[9];
    size_t count = 0;
    if (r) {
        size_t m = fli_participation_pick(run->plan.participation, 5, r - 1, cohort);
        for (size_t i = 0; i < m; i++) seen[cohort[i]] = 1;
    }
    for (size_t i = 0; i < 9; i++) count += (size_t)seen[i];
    return count;
}

/* What a turn's messages hold in the phases of a round together, by the tables; without what only a first turn is
 * sent. */
typedef struct {
    size_t vectors, numbers;
} load;

static load load_of(const fl_part *parts, const fl_method *a, const void *params, size_t phases)
{
    load sum = {0, 0};
    for (uint32_t phase = 0; phase < phases; phase++) {
        fl_ask ask = {.phase = phase, .phases = (uint32_t)phases};
        for (const fl_part *p = parts; p->name; p++) {
            if (!fli_part_sent(p, fli_algo_moment(a, params, &ask))) continue;
            assert_true(p->what == FL_PART_VECTOR || p->what == FL_PART_NUMBER); /* blocks are for two levels */
            sum.vectors += p->what == FL_PART_VECTOR;
            sum.numbers += fli_part_numbers(p);
        }
    }
    return sum;
}

/* Gradients of mini-batches that the turns of a client in round r + 1 count as, three being an epoch; 0: its solvers
 * work to an accuracy, and nobody knows. */
static size_t gradients_of(const fl_run *run, size_t r, size_t phases)
{
    const fl_method *a = run->plan.setup.algo;
    const void *params = run->plan.settings->algorithm.params;
    fli_card card = fli_exec_card(run->exec, 0);
    size_t steps = (size_t)fli_ask_for(&run->plan.ask_params, &card, r, r, 0).steps, sum = 0;
    for (size_t phase = 0; phase < phases; phase++) {
        const fli_solvers *all = &run->plan.setup.solvers;
        const fl_solver *s = all->at[all->of[fli_algo_stage(a, params, phase, phases)]];
        int full = (s->traits & FL_SOLVER_FULL_GRADIENT) != 0, counts = (s->traits & FL_SOLVER_COUNTS_STEPS) != 0;
        if (!full && !counts) return 0;
        sum += (full ? 3 : 0) + (counts ? steps : 0); /* ceil(10 / 4) */
    }
    return sum;
}

/* Those that the papers state, against the tables. */
static void check_costs(const fl_method *a, load up, load down)
{
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (!strcmp(costs[i].name, a->name))
            assert_true(costs[i].up == up.vectors && costs[i].scalars == up.numbers && costs[i].down == down.vectors);
}

static void bytes_of(fixture *f, const fl_method *a, const char *precision, size_t size)
{
    size_t at_work = a->traits & FL_METHOD_EVERYONE ? 9 : 4;
    const fl_row *rows;
    char text[256];
    snprintf(text, sizeof text, "algorithm=%s;precision=%s;system=constant;participation=%s", a->name, precision,
             at_work == 9 ? "everyone" : "{kind: uniform, count: 4}");
    fl_run *run = run_of(f, text);
    const void *params = run->plan.settings->algorithm.params;
    size_t cohort = fli_algo_is_async(a) ? fli_algo_pace(a, params).buffer : at_work; /* uploads per server step */
    size_t phases = fli_algo_phases(a, params, 0);
    load up = load_of(a->up, a, params, phases), down = load_of(a->down, a, params, phases);
    double vector = (double)fl_run_parameters(run) * (double)size, gradients = 0;
    check_costs(a, up, down);
    assert_int_equal(fl_run_rows(run, &rows), 7);
    assert_int_equal(fl_row_get(&rows[0], "cohort"), 0);
    int seen[9] = {0};
    for (size_t r = 0; r < 7; r++) {
        double turns = (double)(r * cohort);
        assert_int_equal(fl_row_round(&rows[r]), r);
        if (r) assert_int_equal(fl_row_get(&rows[r], "cohort"), cohort);
        assert_true(fl_row_get(&rows[r], "bytes_up") == turns * ((double)up.vectors * vector + 8 * (double)up.numbers));
        /* asynchronous methods have sent the next model out before the answer is there */
        double told = (r ? turns + (double)(fli_algo_is_async(a) ? at_work : 0) : 0) *
                      ((double)down.vectors * vector + 8 * (double)down.numbers);
        double start =
            (fl_row_get(&rows[r], "bytes_down") - told) / vector; /* models, to clients in their first turn */
        if (!fli_algo_shows_start(a))
            assert_true(start == 0);
        else if (fli_algo_is_async(a))
            assert_true(start == floor(start) && start >= (r ? 4 : 0) && start <= 9);
        else
            assert_true(start == (double)seen_until(run, r, seen));
        if (r) gradients += (double)(cohort * gradients_of(run, r - 1, phases));
        if (gradients > 0) assert_true(fl_row_get(&rows[r], "local_steps") == gradients);
        assert_true(fl_row_get(&rows[r], "communications") == (double)(r * phases));
    }
    fl_run_free(run);
}

static void bytes_follow_from_declared_parts(void **state)
{
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        if ((*a)->traits & FL_METHOD_BYSTANDERS) continue; /* below */
        if ((*a)->traits & FL_METHOD_BILEVEL) continue;    /* in test_bilevel.c */
        bytes_of(*state, *a, "f32", 4);
        bytes_of(*state, *a, "f64", 8);
    }
}

/* FedGiA: 4 of 9 are chosen, all 9 send and receive, and each computes a gradient over all of its samples. Before the
 * first round, unless sigma is given, a number each. Turns are as long as a pass over the samples, whatever `local`
 * says of epochs, and the slowest of all 9 counts. */
static void bystanders_count(void **state)
{
    static const char *const settings[] = {"algorithm={kind: fedgia, sigma: 0.5}", "algorithm=fedgia"};
    for (int survey = 0; survey < 2; survey++) {
        char text[256];
        const fl_row *rows;
        snprintf(text, sizeof text,
                 "%s;participation={kind: uniform, count: 4};local.epochs=5;"
                 "system={kind: constant, step_seconds: 1, turn_seconds: 2}",
                 settings[survey]);
        fl_run *run = run_of(*state, text);
        double model = 8 * (double)fl_run_parameters(run);
        assert_int_equal(fl_run_rows(run, &rows), 7);
        for (size_t r = 0; r < 7; r++) {
            double rounds = (double)r;
            if (r) assert_int_equal(fl_row_get(&rows[r], "cohort"), 4);
            assert_true(fl_row_get(&rows[r], "bytes_up") == 9 * (rounds * model + (survey ? 8 : 0)));
            assert_true(fl_row_get(&rows[r], "bytes_down") == 9 * (rounds + survey) * (model + 8));
            assert_true(fl_row_get(&rows[r], "local_steps") ==
                        9 * rounds * 3); /* a gradient over all samples is an epoch's */
            assert_near(fl_row_get(&rows[r], "simulated_seconds"), (rounds + survey) * (2 + 3),
                        1e-9); /* ceil(10 / 4) */
        }
        fl_run_free(run);
    }
}

static void scaffold_uploads_twice(void **state)
{
    fl_run *avg = run_of(*state, "algorithm=fedavg"), *scaffold = run_of(*state, "algorithm=scaffold");
    assert_true(fl_row_get(fl_run_row(scaffold), "bytes_up") == 2 * fl_row_get(fl_run_row(avg), "bytes_up"));
    assert_true(fl_row_get(fl_run_row(scaffold), "bytes_down") == 2 * fl_row_get(fl_run_row(avg), "bytes_down"));
    assert_true(fl_row_get(fl_run_row(avg), "bytes_up") > 0);
    fl_run_free(avg);
    fl_run_free(scaffold);
}

/* Rounds without an exchange send nothing up, and the round after them nothing down. */
static void fedpd_skips(void **state)
{
    fixture *f = *state;
    fl_run *run =
        run_of(f, "algorithm={kind: fedpd, skip: 0.5};rounds=200;metrics={train: false, test: false, clients: false}");
    const fl_row *rows;
    double one = 9 * 8 * (double)fl_run_parameters(run);
    size_t exchanges = 0;
    int news = 1;
    assert_int_equal(fl_run_rows(run, &rows), 201);
    for (size_t r = 1; r <= 200; r++) {
        double up = fl_row_get(&rows[r], "bytes_up") - fl_row_get(&rows[r - 1], "bytes_up"),
               down = fl_row_get(&rows[r], "bytes_down") - fl_row_get(&rows[r - 1], "bytes_down");
        assert_true(up == 0 || up == one);
        assert_true(down == (news ? one : 0));
        news = up > 0;
        exchanges += news;
    }
    assert_true(fl_row_get(&rows[200], "communications") == (double)exchanges);
    assert_in_range(exchanges, 100 - 36, 100 + 36); /* five deviations of 200 coins */
    fl_run_free(run);
}

/* ---- equalities ---------------------------------------------------------------------------------------- */

static void relatives_of_fedavg(void **state)
{
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: fedprox, mu: 0}") == 0);
    assert_true(difference(*state, "algorithm=fedavg", "algorithm=local-sgd") == 0);
    assert_true(difference(*state, "algorithm=fedavg;participation={kind: uniform, count: 4}",
                           "algorithm={kind: fedprox, mu: 0};participation={kind: uniform, count: 4}") == 0);
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: fedprox, mu: 0.5}") > 1e-4);
    /* with everyone and N = m both aggregations are the same up to rounding */
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: fedavg, aggregation: unbiased}") < 1e-13);
}

/* Without momentum Mime-lite's model is FedAvg's, to the last bit; the gradients beside it change nothing. */
static void mime_lite_without_momentum(void **state)
{
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: mime-lite, beta: 0}") == 0);
    assert_true(difference(*state, "algorithm=fedavg;participation={kind: uniform, count: 4}",
                           "algorithm={kind: mime-lite, beta: 0};participation={kind: uniform, count: 4}") == 0);
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: mime-lite, beta: 0.5}") > 1e-4);
}

/* A single step from the same gradient: where everyone takes one with all samples, FedLin is FedAvg. */
static void fedlin_with_one_step(void **state)
{
    static const char one[] = "local={batch: 0, steps: 1, lr: 0.1}";
    char avg[128], lin[128];
    snprintf(avg, sizeof avg, "algorithm=fedavg;%s", one);
    snprintf(lin, sizeof lin, "algorithm=fedlin;%s", one);
    assert_true(difference(*state, avg, lin) < 1e-13);
    assert_true(difference(*state, "algorithm=fedavg", "algorithm=fedlin") > 1e-6);
}

/* With tau so large that no entry's history counts v stays tau^2 but for Adam's factor, and x moves by server_lr
 * D/(sqrt(v) + tau). */
static void adaptive_servers_that_do_not_adapt(void **state)
{
    assert_true(difference(*state, "algorithm=fedavg;rounds=1",
                           "algorithm={kind: fedadam, beta1: 0, beta2: 0.25, tau: 1e6, server_lr: 1.5e6};rounds=1") <
                1e-9);
    assert_true(difference(*state, "algorithm=fedavg",
                           "algorithm={kind: fedyogi, beta1: 0, beta2: 0.5, tau: 1e6, server_lr: 2e6}") < 1e-9);
    assert_true(difference(*state, "algorithm=fedavg", "algorithm={kind: fedadagrad, tau: 1e6, server_lr: 2e6}") <
                1e-9);
    assert_true(difference(*state, "algorithm=fedadam", "algorithm=fedyogi") > 1e-6);
    assert_true(difference(*state, "algorithm=fedadam", "algorithm=fedadagrad") > 1e-6);
}

static void fednova_with_equal_steps(void **state)
{
    static const char uneven[] = "local.uneven=range;local.range=[1, 6]";
    char nova[128], avg[128];
    assert_true(difference(*state, "algorithm=fedavg", "algorithm=fednova") < 1e-13);
    assert_true(difference(*state, "algorithm=fedavg;participation={kind: uniform, count: 4}",
                           "algorithm=fednova;participation={kind: uniform, count: 4}") < 1e-13);
    snprintf(nova, sizeof nova, "algorithm=fednova;%s", uneven);
    snprintf(avg, sizeof avg, "algorithm=fedavg;%s", uneven);
    assert_true(difference(*state, avg, nova) > 1e-4); /* and only then */
}

#define HALF     "data={kind: blobs, classes: 3, features: 4, samples: 180, test_samples: 30, unlabelled: 0.55};"
#define SEMI     HALF "semi={labels: closed_form, alpha_p: 0.4, alpha_r: 0.3, batch: 3};"
#define SOME     "participation={kind: uniform, count: 4};local.uneven=range;local.range=[1, 4];"
#define MOMENTUM "local.momentum=0.7;"

/* The global model of a personalised method is that of the method without own models: to the last bit where both take
 * their steps the same way, and to rounding where one model alone has its step fused into the gradient. */
static void own_models_take_nothing_away(void **state)
{
    fixture *f = *state;
    assert_true(difference(f, HALF SOME "algorithm=fedavg", HALF SOME "algorithm=apfl") < 1e-13);
    assert_true(difference(f, HALF SOME MOMENTUM "local.batch=0;algorithm=fedavg",
                           HALF SOME MOMENTUM "local.batch=0;algorithm={kind: apfl, mix: 0.2}") < 1e-13);
    assert_true(difference(f, HALF "algorithm=fedavg", SEMI "algorithm=apfl") < 1e-13); /* labelled samples alone */
    assert_true(difference(f, SEMI SOME "algorithm=fedavg", SEMI SOME "algorithm=apsfl") == 0);
    assert_true(difference(f, SEMI "algorithm=apfl", SEMI "algorithm=apsfl") > 1e-4);
    assert_true(difference(f, SEMI SOME "algorithm=fedshvrp", SEMI SOME "algorithm={kind: fedcpsl, mix: 0}") == 0);
    assert_true(difference(f, SEMI SOME "algorithm=fedshvrp", SEMI SOME "algorithm={kind: fedcpsl, mix: 0.8}") == 0);
    assert_true(difference(f, SEMI "algorithm=fedshvrp", SEMI "algorithm=fedshvr") == 0);
    assert_true(difference(f, SEMI "algorithm=fedshvrp", SEMI MOMENTUM "algorithm=fedcpsl") > 1e-4);
}

static void fedcpsl_uploads_once(void **state)
{
    fl_run *one = run_of(*state, SEMI SOME "algorithm=fedcpsl"), *two = run_of(*state, SEMI SOME "algorithm=fedshvrp");
    double scalars = 6 * 4 * 8; /* Qt_i, in 6 rounds of 4 */
    assert_true(fl_row_get(fl_run_row(two), "bytes_up") - scalars ==
                2 * (fl_row_get(fl_run_row(one), "bytes_up") - scalars));
    /* own models begin at the start model, which every client is shown once */
    double model = 8 * (double)fl_run_parameters(one);
    double shown = (fl_row_get(fl_run_row(one), "bytes_down") - fl_row_get(fl_run_row(two), "bytes_down")) / model;
    assert_true(shown == floor(shown) && shown >= 4 && shown <= 9);
    fl_run_free(one);
    fl_run_free(two);
}

static void fedvra_u_without_a_second_block(void **state)
{
    fixture *f = *state;
    assert_true(difference(f, HALF SOME "algorithm=fedvra", HALF SOME "algorithm=fedvra-u") == 0);
    assert_true(difference(f, "algorithm={kind: fedvra, preset: admm}", "algorithm={kind: fedvra-u, preset: admm}") ==
                0);
    assert_true(difference(f, SEMI SOME "algorithm=fedvra", SEMI SOME "algorithm=fedvra-u") == 0);
    assert_true(difference(f, HALF "algorithm=fedvra-u", SEMI "algorithm=fedvra-u") > 1e-4);
}

/* Closed form and projected labels, more samples without labels than with: an epoch is a pass over the larger part. */
static void unlabelled_samples_count(void **state)
{
    fl_run *labelled = run_of(*state, HALF "algorithm=fedshvrp"), *both = run_of(*state, SEMI "algorithm=fedshvrp");
    /* 20 samples a client, 11 without labels: ceil(9 / 4) and ceil(11 / 3) steps */
    assert_true(fl_row_get(fl_run_row(labelled), "local_steps") == 6 * 9 * 3);
    assert_true(fl_row_get(fl_run_row(both), "local_steps") == 6 * 9 * 4);
    fl_run_free(labelled);
    fl_run_free(both);
}

/* One client alone: averaging does nothing, so a round is plain SGD, which is done here by hand. */
static void one_client_is_plain_sgd(void **state)
{
    fixture *f = *state;
    enum { DIM = 4, STEPS = 5 };
    static const char *const names[] = {"fedavg", "local-sgd", "fednova", "fedprox", "scaffold", "vrl-sgd"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        engine e;
        double x[DIM] = {0}, h[DIM * DIM], q[DIM];
        fli_fed *fed = random_fed(f->ctx, 1, (size_t[]){12}, DIM, 0, 2);
        client_quadratic(f->ctx, fed, 0, 0.1, h, q);
        engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0.1, algo_named(names[k]),
                    strcmp(names[k], "fedprox") ? "" : "mu=0", 0, (fli_sgd_spec){0, 0}, 1);
        /* SCAFFOLD's and VRL-SGD's corrections c - c_i and D_i stay 0, so later rounds are plain SGD as well */
        for (size_t r = 0; r < 3; r++) {
            engine_rounds(&e, 1, STEPS, 0.05);
            for (size_t s = 0; s < STEPS; s++) {
                double g[DIM];
                for (size_t i = 0; i < DIM; i++) {
                    g[i] = -q[i];
                    for (size_t j = 0; j < DIM; j++) g[i] += h[i * DIM + j] * x[j];
                }
                for (size_t i = 0; i < DIM; i++) x[i] -= 0.05 * g[i];
            }
            double *got = engine_vector(&e, 0);
            for (size_t i = 0; i < DIM; i++) assert_near(got[i], x[i], 1e-12);
            free(got);
        }
        engine_fini(&e);
    }
}

/* FedPD by hand, with rounds that end without an exchange: then a client goes on from its own x0_i. */
static void fedpd_by_hand(void **state)
{
    fixture *f = *state;
    enum { DIM = 3, N = 2, ROUNDS = 6, STEPS = 4 };
    static const size_t size[N] = {5, 7};
    static const int exchange[ROUNDS] = {1, 0, 0, 1, 0, 1};
    const double eta = 0.5, lr = 0.1;
    double h[N][DIM * DIM], q[N][DIM], x[DIM] = {0}, xi[N][DIM] = {{0}}, x0[N][DIM] = {{0}}, lam[N][DIM] = {{0}};
    engine e;
    engine_init(&e, f->ctx, random_fed(f->ctx, N, size, DIM, 0, 2), "least_squares", &fli_ops_f64, 0,
                algo_named("fedpd"), "eta=0.5", 0, (fli_sgd_spec){0, 0}, 1);
    for (size_t i = 0; i < N; i++) client_quadratic(f->ctx, e.fed, i, 0, h[i], q[i]), e.steps[i] = STEPS;
    for (size_t r = 0; r < ROUNDS; r++) {
        uint32_t flags = (r == 0 || exchange[r - 1] ? FLI_ASK_HAS_BODY : 0) | (exchange[r] ? FLI_ASK_REPLY : 0);
        engine_ask(&e, r, e.everyone, N, lr, 1, 0, flags);
        double mean[DIM] = {0};
        for (size_t i = 0; i < N; i++) {
            for (size_t s = 0; s < STEPS; s++) {
                double g[DIM];
                for (size_t j = 0; j < DIM; j++) {
                    g[j] = -q[i][j] + lam[i][j] + (xi[i][j] - x0[i][j]) / eta;
                    for (size_t k = 0; k < DIM; k++) g[j] += h[i][j * DIM + k] * xi[i][k];
                }
                for (size_t j = 0; j < DIM; j++) xi[i][j] -= lr * g[j];
            }
            for (size_t j = 0; j < DIM; j++) {
                lam[i][j] += (xi[i][j] - x0[i][j]) / eta;
                x0[i][j] = xi[i][j] + eta * lam[i][j];
                mean[j] += x0[i][j] / N;
            }
        }
        for (size_t j = 0; exchange[r] && j < DIM; j++) x[j] = x0[0][j] = x0[1][j] = mean[j];
        double *got = engine_vector(&e, 0);
        for (size_t j = 0; j < DIM; j++) assert_near(got[j], x[j], 1e-12);
        free(got);
    }
    engine_fini(&e);
}

/* FedAvg, one round of given cohorts by hand: both aggregations, a server step, client weights by samples and
 * uniform. */
static void fedavg_aggregation(void **state)
{
    fixture *f = *state;
    enum { DIM = 3, N = 4 };
    static const size_t size[N] = {3, 5, 9, 4};
    static const uint32_t cohort[] = {1, 3};
    for (int unbiased = 0; unbiased < 2; unbiased++)
        for (int uniform = 0; uniform < 2; uniform++) {
            engine e;
            double want[DIM] = {0}, h[DIM * DIM], q[DIM], total = 0;
            fli_fed *fed = random_fed(f->ctx, N, size, DIM, 0, 2);
            engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0, algo_named("fedavg"),
                        unbiased ? "aggregation=unbiased;server_lr=0.7" : "server_lr=0.7", uniform,
                        (fli_sgd_spec){0, 0}, 2);
            for (size_t k = 0; k < 2; k++) total += uniform ? 1.0 / N : (double)size[cohort[k]] / 21;
            for (size_t k = 0; k < 2; k++) { /* one step from 0: x_i - x = lr q_i */
                double w = uniform ? 1.0 / N : (double)size[cohort[k]] / 21;
                client_quadratic(f->ctx, fed, cohort[k], 0, h, q);
                for (size_t j = 0; j < DIM; j++) want[j] += 0.7 * 0.1 * q[j] * (unbiased ? w * N / 2 : w / total);
            }
            engine_round(&e, cohort, 2, 0.1);
            double *x = engine_vector(&e, 0);
            for (size_t j = 0; j < DIM; j++) assert_near(x[j], want[j], 1e-14);
            free(x);
            engine_fini(&e);
        }
}

/* Local momentum: FedNova, SCAFFOLD and VRL-SGD divide by the gradients' weight, so a stationary point stays one. */
static void stationary_points_stay(void **state)
{
    fixture *f = *state;
    enum { DIM = 3, N = 3 };
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        engine e;
        double h[DIM * DIM], q[DIM], optimum[DIM];
        if ((*a)->personal.mix) continue;               /* mixtures are of class probabilities */
        if ((*a)->traits & FL_METHOD_BILEVEL) continue; /* in test_bilevel.c */
        fli_dataset *ds = NULL;
        fli_fed *fed = NULL, *like = random_fed(f->ctx, 1, (size_t[]){8}, DIM, 0, 3);
        fli_partition part = {.clients = N};
        /* all clients have the same data, so that the optimum is everyone's */
        assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, 8 * N, DIM, 0, &ds));
        part.start = fli_alloc(f->ctx, N + 1, sizeof *part.start);
        part.index = fli_alloc(f->ctx, 8 * N, sizeof *part.index);
        for (size_t s = 0; s < 8 * N; s++) {
            memcpy((double *)ds->x + s * DIM, (double *)like->train->x + s % 8 * DIM, DIM * sizeof(double));
            ds->target[s] = like->train->target[s % 8];
            part.index[s] = (uint32_t)s;
        }
        for (size_t i = 0; i <= N; i++) part.start[i] = 8 * i;
        client_quadratic(f->ctx, like, 0, 0, h, q);
        fli_fed_free(like);
        memcpy(optimum, q, sizeof q);
        solve_linear(DIM, h, optimum);
        assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &fed));
        engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0, *a, "", 0, (fli_sgd_spec){0, 0.9}, 1);
        memcpy(fli_exec_server(e.exec)[0], optimum, sizeof optimum);
        engine_warm_up(&e, 0.05);
        engine_rounds(&e, 10, 4, 0.05);
        double *x = engine_vector(&e, 0);
        if (!(distance(DIM, x, optimum) < 1e-10)) fail_msg("%s leaves the common optimum", (*a)->name);
        free(x);
        engine_fini(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_method_describes_itself_fully),
        FIXTURE_TEST(bytes_follow_from_declared_parts),
        FIXTURE_TEST(bystanders_count),
        FIXTURE_TEST(scaffold_uploads_twice),
        FIXTURE_TEST(fedpd_skips),
        FIXTURE_TEST(fedpd_by_hand),
        FIXTURE_TEST(relatives_of_fedavg),
        FIXTURE_TEST(mime_lite_without_momentum),
        FIXTURE_TEST(fedlin_with_one_step),
        FIXTURE_TEST(adaptive_servers_that_do_not_adapt),
        FIXTURE_TEST(fednova_with_equal_steps),
        FIXTURE_TEST(own_models_take_nothing_away),
        FIXTURE_TEST(fedcpsl_uploads_once),
        FIXTURE_TEST(fedvra_u_without_a_second_block),
        FIXTURE_TEST(unlabelled_samples_count),
        FIXTURE_TEST(one_client_is_plain_sgd),
        FIXTURE_TEST(fedavg_aggregation),
        FIXTURE_TEST(stationary_points_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
