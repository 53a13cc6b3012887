/* Who takes part, and how much they do. */
#include "fixture.h"

#include "server/system.h"
#include "server/participation.h"

/* ---- a way under test ---------------------------------------------------------------------------------- */

typedef struct {
    fli_arena arena;
    fli_fed *fed;
    fli_participation *p;
    uint32_t *cohort;
} way;

static const fli_participation_desc *way_named(const char *name)
{
    for (const fli_participation_desc *const *d = fli_participation_list; *d; d++)
        if (!strcmp((*d)->name, name)) return *d;
    fail_msg("there is no participation %s", name);
    return NULL;
}

/* Clients of equal size unless sizes are given. */
static fl_status way_try(way *w, fixture *f, const char *name, const char *params, size_t clients, const size_t *sizes)
{
    size_t *same = calloc(clients, sizeof *same);
    const fli_participation_desc *d = way_named(name);
    for (size_t i = 0; i < clients; i++) same[i] = 2;
    memset(w, 0, sizeof *w);
    fli_arena_init(&w->arena, f->ctx);
    w->fed = random_fed(f->ctx, clients, sizes ? sizes : same, 1, 0, 1);
    w->cohort = calloc(clients, sizeof *w->cohort);
    free(same);
    const void *bound_params = bound(f->ctx, &w->arena, d->keys, d->params_size, params);
    return fli_participation_new(f->ctx, d, bound_params, w->fed, &w->p);
}

static void way_fini(way *w)
{
    fli_participation_free(w->p);
    fli_fed_free(w->fed);
    fli_arena_fini(&w->arena);
    free(w->cohort);
}

static void way_init(way *w, fixture *f, const char *name, const char *params, size_t clients, const size_t *sizes)
{
    assert_ok(f->ctx, way_try(w, f, name, params, clients, sizes));
}

/* The cohort, checked: ascending, distinct, in range, not larger than promised. */
static size_t pick(way *w, uint64_t seed, size_t round)
{
    size_t m = fli_participation_pick(w->p, seed, round, w->cohort);
    assert_true(m <= w->p->largest && w->p->largest <= w->fed->clients);
    for (size_t i = 0; i < m; i++) {
        assert_true(w->cohort[i] < w->fed->clients);
        if (i) assert_true(w->cohort[i] > w->cohort[i - 1]);
    }
    return m;
}

/* How often each client takes part; m receives the size of every cohort, SIZE_MAX if they differ. */
static void frequencies(way *w, size_t rounds, double *share, size_t *m)
{
    memset(share, 0, w->fed->clients * sizeof *share);
    for (size_t r = 0; r < rounds; r++) {
        size_t n = pick(w, 5, r);
        if (!r) *m = n;
        if (*m != n) *m = SIZE_MAX;
        for (size_t i = 0; i < n; i++) share[w->cohort[i]] += 1 / (double)rounds;
    }
}

/* Five standard deviations of a frequency. */
static double slack(double p, size_t rounds) { return 5 * sqrt(p * (1 - p) / (double)rounds) + 1e-9; }

/* ---- all ways ------------------------------------------------------------------------------------------ */

static void every_way_is_a_function_of_seed_and_round(void **state)
{
    fixture *f = *state;
    char trace[300], schedule[300];
    snprintf(trace, sizeof trace, "path=%s", fixture_write(f, "trace.txt", "0 1 2\n5\n"));
    snprintf(schedule, sizeof schedule, "path=%s", fixture_write(f, "schedule.csv", "1,*,0.3\n9,4,0.7\n20,*,1\n"));
    for (const fli_participation_desc *const *d = fli_participation_list; *d; d++) {
        way w;
        uint32_t kept[20];
        assert_true((*d)->title && (*d)->title[0] && (*d)->pick);
        const char *params = !strcmp((*d)->name, "trace") ? trace : !strcmp((*d)->name, "schedule") ? schedule : "";
        way_init(&w, f, (*d)->name, params, 20, NULL);
        for (size_t r = 0; r < 50; r++) {
            size_t m = pick(&w, 3, r);
            if ((*d)->everyone) assert_int_equal(m, 20);
            memcpy(kept, w.cohort, sizeof kept);
            pick(&w, 4, r + 7); /* what else is drawn does not matter */
            assert_int_equal(pick(&w, 3, r), m);
            assert_memory_equal(kept, w.cohort, m * sizeof *kept);
        }
        way_fini(&w);
    }
}

static void everyone_takes_part(void **state)
{
    fixture *f = *state;
    way w;
    way_init(&w, f, "everyone", "", 7, NULL);
    for (size_t r = 0; r < 5; r++) {
        assert_int_equal(pick(&w, 1, r), 7);
        for (uint32_t i = 0; i < 7; i++) assert_int_equal(w.cohort[i], i);
    }
    way_fini(&w);
}

/* ---- a fixed number ------------------------------------------------------------------------------------ */

static void sizes_of_cohorts(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *params;
        size_t clients, m;
    } cases[] = {
        {"count=3", 10, 3},       {"count=10", 10, 10},   {"", 100, 10},          {"fraction=0.25", 10, 3}, /* 2.5 */
        {"fraction=0.01", 10, 1}, {"fraction=1", 10, 10}, {"fraction=0.3", 1, 1}, {"count=2;fraction=0.9", 10, 2}};
    static const char *const names[] = {"uniform", "weighted", "cyclic"};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            way w;
            way_init(&w, f, names[n], cases[i].params, cases[i].clients, NULL);
            for (size_t r = 0; r < 30; r++) assert_int_equal(pick(&w, 1, r), cases[i].m);
            way_fini(&w);
        }
    for (size_t n = 0; n < 3; n++) {
        way w;
        assert_fails(f->ctx, way_try(&w, f, names[n], "count=11", 10, NULL), FL_ECONFIG,
                     "participation.count is 11, but there are only 10 clients");
        way_fini(&w);
    }
}

static void uniform_draws_every_pair_alike(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 20000 };
    way w;
    double share[10], pair[10][10] = {{0}};
    size_t m;
    way_init(&w, f, "uniform", "count=3", 10, NULL);
    frequencies(&w, ROUNDS, share, &m);
    assert_int_equal(m, 3);
    for (size_t i = 0; i < 10; i++) assert_near(share[i], 0.3, slack(0.3, ROUNDS));
    for (size_t r = 0; r < ROUNDS; r++) {
        pick(&w, 6, r);
        for (size_t i = 0; i < 3; i++)
            for (size_t j = 0; j < i; j++) pair[w.cohort[j]][w.cohort[i]] += 1.0 / ROUNDS;
    }
    for (size_t i = 0; i < 10; i++) /* every pair is as likely: 3/10 * 2/9 */
        for (size_t j = i + 1; j < 10; j++) assert_near(pair[i][j], 1.0 / 15, slack(1.0 / 15, ROUNDS));
    way_fini(&w);
}

static void weighted_draws_follow_the_weights(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 20000 };
    static const size_t sizes[] = {1, 2, 3, 4, 30};
    way w;
    double share[5];
    size_t m;
    way_init(&w, f, "weighted", "count=1", 5, sizes);
    frequencies(&w, ROUNDS, share, &m);
    assert_int_equal(m, 1);
    for (size_t i = 0; i < 5; i++) assert_near(share[i], (double)sizes[i] / 40, slack((double)sizes[i] / 40, ROUNDS));
    way_fini(&w);

    /* two of them, one after the other: P(i) = p_i + sum_{j != i} p_j p_i / (1 - p_j) */
    way_init(&w, f, "weighted", "count=2", 5, sizes);
    frequencies(&w, ROUNDS, share, &m);
    assert_int_equal(m, 2);
    for (size_t i = 0; i < 5; i++) {
        double p = (double)sizes[i] / 40, want = p;
        for (size_t j = 0; j < 5; j++)
            if (j != i) want += (double)sizes[j] / 40 * p / (1 - (double)sizes[j] / 40);
        assert_near(share[i], want, slack(want, ROUNDS));
    }
    way_fini(&w);

    /* by the weights that came with the data, whatever the sizes */
    static const double weight[] = {0.4, 0.3, 0.15, 0.1, 0.05};
    way_init(&w, f, "weighted", "count=1", 5, sizes);
    assert_non_null(w.fed->weight = fli_alloc(f->ctx, 5, sizeof *weight));
    memcpy(w.fed->weight, weight, sizeof weight);
    frequencies(&w, ROUNDS, share, &m);
    for (size_t i = 0; i < 5; i++) assert_near(share[i], weight[i], slack(weight[i], ROUNDS));
    way_fini(&w);
}

static void cyclic_rounds_take_clients_in_turn(void **state)
{
    fixture *f = *state;
    static const uint32_t want[][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 1, 9}, {2, 3, 4}, {5, 6, 7}, {0, 8, 9}};
    way w;
    double share[10];
    size_t m;
    way_init(&w, f, "cyclic", "count=3", 10, NULL);
    for (size_t r = 0; r < 7; r++) {
        assert_int_equal(pick(&w, r, r), 3);
        assert_memory_equal(w.cohort, want[r], sizeof want[r]);
    }
    frequencies(&w, 10, share, &m); /* 10 rounds of 3 are 3 full turns */
    for (size_t i = 0; i < 10; i++) assert_near(share[i], 0.3, 1e-12);
    /* far out: round * m does not wrap around; 10^18 + 3 groups start at client 3 * (10^18 + 3) mod 10 = 9 */
    pick(&w, 1, 1000000000000000003u);
    assert_memory_equal(w.cohort, ((uint32_t[]){0, 1, 9}), 3 * sizeof *w.cohort);
    way_fini(&w);
    way_init(&w, f, "cyclic", "count=4", 4, NULL);
    for (size_t r = 0; r < 3; r++) assert_int_equal(pick(&w, 1, r), 4);
    way_fini(&w);
}

/* ---- coins --------------------------------------------------------------------------------------------- */

static void bernoulli_tosses_a_coin_per_client(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 20000 };
    static const double p[] = {0.05, 0.3, 0.5, 0.9, 1};
    way w;
    double share[5], both = 0;
    size_t m, nobody = 0;
    way_init(&w, f, "bernoulli", "probability=[0.05, 0.3, 0.5, 0.9, 1]", 5, NULL);
    frequencies(&w, ROUNDS, share, &m);
    for (size_t i = 0; i < 5; i++) assert_near(share[i], p[i], slack(p[i], ROUNDS));
    for (size_t r = 0; r < ROUNDS; r++) { /* clients 1 and 2 toss their own coins */
        int one = 0, two = 0;
        for (size_t i = 0, n = pick(&w, 8, r); i < n; i++) one |= w.cohort[i] == 1, two |= w.cohort[i] == 2;
        both += (one && two) / (double)ROUNDS;
    }
    assert_near(both, 0.15, slack(0.15, ROUNDS));
    way_fini(&w);

    way_init(&w, f, "bernoulli", "probability=0.2", 5, NULL);
    frequencies(&w, ROUNDS, share, &m);
    for (size_t i = 0; i < 5; i++) assert_near(share[i], 0.2, slack(0.2, ROUNDS));
    for (size_t r = 0; r < ROUNDS; r++) nobody += !pick(&w, 5, r);
    assert_near((double)nobody / ROUNDS, pow(0.8, 5), slack(pow(0.8, 5), ROUNDS)); /* nobody comes: that happens */
    way_fini(&w);
}

static void bernoulli_wrong_length(void **state)
{
    fixture *f = *state;
    way w;
    assert_fails(f->ctx, way_try(&w, f, "bernoulli", "probability=[0.5, 0.5]", 3, NULL), FL_ECONFIG,
                 "participation.probability has 2 values, but there are 3 clients");
    way_fini(&w);
    assert_fails(f->ctx, way_try(&w, f, "bernoulli", "probability=[]", 3, NULL), FL_ECONFIG, "has 0 values");
    way_fini(&w);
}

/* Coins that change: probability times factor, one factor after the other. */
static void bernoulli_with_factors(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 6000 };
    static const double factor[] = {1, 0.5, 2};
    way w;
    double least, most, count[2][3] = {{0}};
    way_init(&w, f, "bernoulli", "probability=[0.2, 0.4];factors=[1, 0.5, 2]", 2, NULL);
    for (size_t r = 0; r < 3 * ROUNDS; r++)
        for (size_t i = 0, n = pick(&w, 1, r); i < n; i++) count[w.cohort[i]][r % 3] += 1.0 / ROUNDS;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 3; k++) {
            double p = (i ? 0.4 : 0.2) * factor[k];
            assert_near(fli_participation_probability(w.p, k + 30, i), p, 1e-12);
            assert_near(count[i][k], p, slack(p, ROUNDS));
        }
    fli_participation_range(w.p, 1, &least, &most);
    assert_true(least == 0.2 && most == 0.8);
    way_fini(&w);
    assert_fails(f->ctx, way_try(&w, f, "bernoulli", "probability=[0.2, 0.6];factors=[1, 2]", 2, NULL), FL_ECONFIG,
                 "a probability of 1.2 is too large");
    way_fini(&w);
    assert_fails(f->ctx, way_try(&w, f, "bernoulli", "factors=[]", 2, NULL), FL_ECONFIG, "factors is empty");
    way_fini(&w);
}

/* ---- schedules ----------------------------------------------------------------------------------------- */

static void schedule_is_followed(void **state)
{
    fixture *f = *state;
    static const double want[][3] = {/* rounds 1 to 6 */
                                     {0.1, 0.5, 0.1}, {0.1, 0.5, 0.1}, {0.1, 0.25, 0.1},
                                     {0.4, 0.4, 0.9}, {0.4, 0.4, 0.9}, {0.4, 1, 0.9}};
    way w;
    char params[600];
    double least, most;
    size_t seen = 0;
    snprintf(params, sizeof params, "path=%s",
             fixture_write(f, "s.csv",
                           "round,client,p\r\n1,*,0.1\n1, 1 ,0.5\n\n3,1,0.25\n4,2,0.7\n4,*,0.4\n4,2,9e-1\n6,1,1"));
    way_init(&w, f, "schedule", params, 3, NULL);
    for (size_t r = 0; r < 6; r++)
        for (size_t i = 0; i < 3; i++) assert_true(fli_participation_probability(w.p, r, i) == want[r][i]);
    assert_true(fli_participation_probability(w.p, 1000000, 2) == 0.9); /* the last line holds for good */
    fli_participation_range(w.p, 1, &least, &most);
    assert_true(least == 0.25 && most == 1);
    fli_participation_range(w.p, 0, &least, &most);
    assert_true(least == 0.1 && most == 0.4);
    enum { SEEDS = 8000 };
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t i = 0, n = pick(&w, seed, 2); i < n; i++) seen += w.cohort[i] == 1;
    assert_near((double)seen / SEEDS, 0.25, slack(0.25, SEEDS));
    for (uint64_t seed = 0; seed < 50; seed++) { /* a probability of 1 is certain */
        size_t n = pick(&w, seed, 7), came = 0;
        for (size_t i = 0; i < n; i++) came += w.cohort[i] == 1;
        assert_int_equal(came, 1);
    }
    way_fini(&w);
}

static void bad_schedules(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "s.csv: the schedule is empty"},
        {"round,client,p\n", "s.csv: the schedule is empty"},
        {"1,*,0.5\n1,3,0.5\n", "s.csv:2: \"3\" is not a client from 0 to 2"},
        {"1,*,0.5\n1,-1,0.5\n", "s.csv:2: \"-1\" is not a client"},
        {"0,*,0.5\n", "s.csv:1: \"0\" is not a round from 1"},
        {"1.5,*,0.5\n", "s.csv:1: \"1.5\" is not a round"},
        {"1,*,0\n", "s.csv:1: \"0\" is not a probability above 0 and up to 1"},
        {"1,*,1.01\n", "is not a probability"},
        {"1,*,nan\n", "is not a probability"},
        {"1,*,0.5x\n", "is not a probability"},
        {"1,*,\n", "is not a probability"},
        {"1,*\n", "s.csv:1: has 2 columns, but must have round, client and p"},
        {"5,*,0.5\n4,*,0.5\n", "s.csv:2: round 4 comes after round 5"},
        {"1,0,0.5\n1,2,0.5\n2,1,0.5\n", "s.csv: client 1 has no probability in round 1"},
        {"1,*,0.5\nround,client,p\n", "s.csv:2: \"round\" is not a round"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        way w;
        char params[600];
        snprintf(params, sizeof params, "path=%s", fixture_write(f, "s.csv", cases[i].text));
        assert_fails(f->ctx, way_try(&w, f, "schedule", params, 3, NULL), FL_EFORMAT, cases[i].message);
        way_fini(&w);
    }
}

/* The model after some rounds of FedVRA. */
static void fedvra_model(fixture *f, const char *participation, const char *more, double *x, size_t n)
{
    fl_run *run = NULL;
    char line[600];
    fl_config *cfg = fixture_config(f, "rounds: 5\nprecision: f64\n"
                                       "data: {kind: blobs, classes: 2, features: 3, samples: 80, test_samples: 0}\n"
                                       "partition: {kind: iid, clients: 4}\nmodel: softmax\n"
                                       "algorithm: {kind: fedvra, gamma: 0.1, a: 1}\n");
    snprintf(line, sizeof line, "participation=%s", participation);
    assert_ok(f->ctx, fl_config_set(cfg, line));
    for (const char *at = more; *at; at += strlen(at) + 1) assert_ok(f->ctx, fl_config_set(cfg, at));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_parameters(run), n);
    fl_run_model(run, x, n);
    fl_run_free(run);
    fl_config_free(cfg);
}

/* FedVRA's d_i = 1/p_i^r, on both sides of a wire, with the probabilities of two clients changing: the same as if it
 * were given round by round. */
static void probabilities_reach_methods(void **state)
{
    fixture *f = *state;
    enum { PARAMETERS = 8 };
    char schedule[600];
    double by_p[PARAMETERS], given[PARAMETERS], sent[PARAMETERS], constant[PARAMETERS];
    snprintf(schedule, sizeof schedule, "{kind: schedule, path: %s}",
             fixture_write(f, "s.csv", "1,*,0.5\n3,*,1\n4,*,0.25\n"));
    fedvra_model(f, schedule, "algorithm.d=auto\0", by_p, PARAMETERS);
    fedvra_model(f, schedule, "algorithm.d=1\0algorithm.d_rounds=[2, 2, 1, 4]\0", given, PARAMETERS);
    fedvra_model(f, schedule, "algorithm.d=auto\0executor=loopback\0", sent, PARAMETERS);
    fedvra_model(f, schedule, "algorithm.d=2\0", constant, PARAMETERS);
    assert_memory_equal(by_p, given, sizeof given);
    assert_memory_equal(by_p, sent, sizeof sent);
    assert_memory_not_equal(by_p, constant, sizeof constant);
    fedvra_model(f, "{kind: bernoulli, probability: 0.25, factors: [2, 2, 4, 1, 1]}", "algorithm.d=auto\0", sent,
                 PARAMETERS);
    assert_memory_equal(by_p, sent, sizeof sent); /* the same coins */
}

/* A schedule is no way for methods that need everyone. */
static void schedules_leave_some_out(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, "data: blobs\npartition: {kind: iid, clients: 4}\nmodel: softmax\n"
                                       "algorithm: fedpd\nparticipation: {kind: schedule, path: nowhere}\n");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "needs every client in every round");
    fl_config_free(cfg);
}

/* ---- traces -------------------------------------------------------------------------------------------- */

static void trace_is_followed(void **state)
{
    fixture *f = *state;
    way w;
    char params[600];
    static const uint32_t want[3][4] = {{0, 2, 3, 9}, {1}, {0}};
    static const size_t m[] = {4, 1, 0};
    snprintf(params, sizeof params, "path=%s", fixture_write(f, "t", "9 0,2,\t3 \n  1\n\n"));
    way_init(&w, f, "trace", params, 10, NULL);
    for (size_t r = 0; r < 9; r++) { /* a short trace starts over; an empty line is a round without anybody */
        assert_int_equal(pick(&w, 1, r), m[r % 3]);
        assert_memory_equal(w.cohort, want[r % 3], m[r % 3] * sizeof(uint32_t));
    }
    way_fini(&w);
    snprintf(params, sizeof params, "path=%s",
             fixture_write(f, "t", "1 2\r\n3")); /* foreign line ends, none at the end */
    way_init(&w, f, "trace", params, 10, NULL);
    assert_int_equal(pick(&w, 1, 0), 2);
    assert_int_equal(pick(&w, 1, 1), 1);
    assert_int_equal(w.cohort[0], 3);
    way_fini(&w);
}

static void bad_traces(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"0 1\n2 10\n", "trace.txt:2: \"10\" is not a client from 0 to 9"},
        {"0\n1\n3 4 3\n", "trace.txt:3: client 3 is named twice"},
        {"0 one 2\n", "trace.txt:1: \"one\" is not a client"},
        {"0\n1x\n", "trace.txt:2: \"1x\" is not a client"},
        {"-1\n", "trace.txt:1: \"-1\" is not a client"},
        {"1 -0\n", "trace.txt:1: \"-0\" is not a client"},
        {"1.5\n", "trace.txt:1: \"1.5\" is not a client"},
        {"0x1\n", "trace.txt:1: \"0x1\" is not a client"},
        {"99999999999999999999999\n", "trace.txt:1: \"99999999999999999999999\" is not a client"},
        {"18446744073709551616\n", "is not a client"},
        {"4294967297\n", "is not a client"}, /* 2^32 + 1 */
        {"", "trace.txt: the trace is empty"},
    };
    char params[600];
    way w;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(params, sizeof params, "path=%s", fixture_write(f, "trace.txt", cases[i].text));
        assert_fails(f->ctx, way_try(&w, f, "trace", params, 10, NULL), FL_EFORMAT, cases[i].message);
        way_fini(&w);
    }
    snprintf(params, sizeof params, "path=%s", fixture_path(f, "none.txt"));
    assert_fails(f->ctx, way_try(&w, f, "trace", params, 10, NULL), FL_EIO, "none.txt");
    way_fini(&w);
}

/* ---- effort -------------------------------------------------------------------------------------------- */

static void fixed_effort(void **state)
{
    (void)state;
    fli_local_work e = {.epochs = 3, .uneven = FLI_UNEVEN_FIXED};
    assert_int_equal(fli_local_steps(&e, 1, 0, 0, 7), 21);
    assert_int_equal(fli_local_steps(&e, 2, 9, 5, 1), 3);
    e.steps = 10; /* instead of epochs */
    assert_int_equal(fli_local_steps(&e, 1, 0, 0, 7), 10);
}

static void range_effort(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    int64_t range[] = {2, 6};
    fli_local_work e = {.epochs = 100, .uneven = FLI_UNEVEN_RANGE, .range = {2, range}};
    size_t count[8] = {0}, differ = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        size_t q = fli_local_steps(&e, 1, i % 100, i / 100, 3);
        assert_true(q % 3 == 0 && q >= 6 && q <= 18);
        count[q / 3]++;
        assert_int_equal(q, fli_local_steps(&e, 1, i % 100, i / 100, 3));
        differ += q != fli_local_steps(&e, 1, i % 100 + 1, i / 100, 3); /* drawn anew in every round */
    }
    for (size_t v = 2; v <= 6; v++) assert_near((double)count[v] / DRAWS, 0.2, slack(0.2, DRAWS));
    assert_near((double)differ / DRAWS, 0.8, slack(0.8, DRAWS / 3));
    e.steps = 1; /* then the range is in steps */
    for (uint32_t i = 0; i < 100; i++) {
        size_t q = fli_local_steps(&e, 1, 0, i, 3);
        assert_true(q >= 2 && q <= 6);
    }
    range[1] = 2;
    assert_int_equal(fli_local_steps(&e, 1, 0, 0, 3), 2);
}

static void speeds_effort(void **state)
{
    (void)state;
    enum { CLIENTS = 20000 };
    double speeds[] = {1, 0.5, 0.2};
    fli_local_work e = {.epochs = 4, .uneven = FLI_UNEVEN_SPEEDS, .speeds = {3, speeds}};
    size_t count[41] = {0};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        size_t q = fli_local_steps(&e, 1, 0, i, 10);
        assert_true(q == 40 || q == 20 || q == 8);
        count[q]++;
        for (size_t r = 1; r < 5; r++) assert_int_equal(fli_local_steps(&e, 1, r, i, 10), q); /* for good */
    }
    assert_near((double)count[40] / CLIENTS, 1.0 / 3, slack(1.0 / 3, CLIENTS));
    assert_near((double)count[20] / CLIENTS, 1.0 / 3, slack(1.0 / 3, CLIENTS));
    speeds[0] = speeds[1] = speeds[2] = 0.001;
    assert_int_equal(fli_local_steps(&e, 1, 0, 0, 10), 1); /* at least one step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_way_is_a_function_of_seed_and_round),
        FIXTURE_TEST(everyone_takes_part),
        FIXTURE_TEST(sizes_of_cohorts),
        FIXTURE_TEST(uniform_draws_every_pair_alike),
        FIXTURE_TEST(weighted_draws_follow_the_weights),
        FIXTURE_TEST(cyclic_rounds_take_clients_in_turn),
        FIXTURE_TEST(bernoulli_tosses_a_coin_per_client),
        FIXTURE_TEST(bernoulli_wrong_length),
        FIXTURE_TEST(bernoulli_with_factors),
        FIXTURE_TEST(schedule_is_followed),
        FIXTURE_TEST(bad_schedules),
        FIXTURE_TEST(probabilities_reach_methods),
        FIXTURE_TEST(schedules_leave_some_out),
        FIXTURE_TEST(trace_is_followed),
        FIXTURE_TEST(bad_traces),
        cmocka_unit_test(fixed_effort),
        cmocka_unit_test(range_effort),
        cmocka_unit_test(speeds_effort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
