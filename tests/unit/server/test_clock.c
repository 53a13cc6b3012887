/* Simulated seconds of whole runs: how long rounds last, who is dropped, what is counted, and what is refused. Five
 * clients whose turns last as long as one can say by hand. */
#include "fixture.h"

#include "run/state.h"

enum { CLIENTS = 5, STEPS = 3, DIM = 3, BYTES = DIM * 8 };

/* A turn: 0.25 s, and three steps of 0.5 s. */
static const double turn = 1.75;

static fl_config *config_of(fixture *f, const char *assignments)
{
    char text[2048], *save = NULL;
    size_t n = 0;
    for (size_t i = 0; i < CLIENTS; i++)
        for (size_t j = 0; j < DIM; j++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%zu,%d,%d,%d,%zu\n", i, j == 0 ? 1 : 0, j == 1 ? 2 : 0,
                                  j == 2 ? 1 : 0, 1 + (i * 7 + j * 3) % 5);
    fixture_write(f, "data.csv", text);
    snprintf(
        text, sizeof text,
        "rounds: 4\nprecision: f64\nthreads: 2\nmodel: least_squares\npartition: natural\nparticipation: everyone\n"
        "data: {kind: csv, train: %s, group_column: 0, task: regression, storage: f64}\n"
        "local: {batch: 0, steps: %d, lr: 0.1}\nsystem: {kind: constant, turn_seconds: 0.25, step_seconds: 0.5}\n",
        fixture_path(f, "data.csv"), STEPS);
    fl_config *cfg = fixture_config(f, text);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

static fl_run *run_of(fixture *f, const char *assignments)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, assignments);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_parameters(run), DIM);
    return run;
}

/* A trace of devices: seconds per step of each client, as an assignment. */
static const char *devices(fixture *f, const char *lines)
{
    static char text[600];
    snprintf(text, sizeof text, "system={kind: trace, path: %s};system.turn_seconds=0.25",
             fixture_write(f, "devices", lines));
    return text;
}

/* Every round lasts `each` after `first` seconds. */
static void lasts(fixture *f, const char *assignments, double first, double each)
{
    const fl_row *rows;
    fl_run *run = run_of(f, assignments);
    size_t n = fl_run_rows(run, &rows);
    assert_int_equal(n, 5);
    for (size_t r = 0; r < n; r++) {
        if (!(fabs(fl_row_get(&rows[r], "simulated_seconds") - first - (double)r * each) < 1e-12))
            fail_msg("%s: %g after round %zu", assignments, fl_row_get(&rows[r], "simulated_seconds"), r);
        assert_true(isnan(fl_row_get(&rows[r], "staleness")) && isnan(fl_row_get(&rows[r], "staleness_max")));
    }
    fl_run_free(run);
}

static void the_slowest_decides(void **state)
{
    fixture *f = *state;
    lasts(f, "system.turn_seconds=0;system.step_seconds=0", 0, 0);
    lasts(f, "", 0, turn);
    lasts(f, "threads=1", 0, turn);
    lasts(f, "local.steps=7", 0, 0.25 + 7 * 0.5);
    lasts(f, "system={kind: linear, slowest: 8};system.turn_seconds=0.25;system.step_seconds=0.5", 0, turn + 8);
    lasts(f, "system.down_rate=12", 0, turn + BYTES / 12.0);
    lasts(f, "system.up_rate=48;system.down_rate=12", 0, turn + BYTES / 12.0 + BYTES / 48.0);
    lasts(f, "system.up_rate=48;precision=f32", 0, turn + BYTES / 2 / 48.0);
    lasts(f, "algorithm=scaffold;system.up_rate=48;system.down_rate=12", 0, turn + 2 * BYTES / 12.0 + 2 * BYTES / 48.0);
    lasts(f, devices(f, "1\n5\n2\n"), 0, 0.25 + 15); /* it starts over: client 4 is like client 1 */
    lasts(f, devices(f, "1\n2 3\n1 4 2\n1\n1\n"), 0, 0.25 + 3 + BYTES / 4.0 + BYTES / 2.0);
    /* the turns before the first round count like others */
    lasts(f, "algorithm={kind: feddr, init: exact, solver: exact}", turn, turn);
    /* nobody takes part */
    fixture_write(f, "who", "0\n\n4\n\n");
    char text[700];
    snprintf(text, sizeof text, "participation={kind: trace, path: %s}", f->path);
    fl_run *run = run_of(f, text);
    const fl_row *rows;
    fl_run_rows(run, &rows);
    assert_near(fl_row_get(&rows[4], "simulated_seconds"), 2 * turn, 1e-12);
    fl_run_free(run);
}

/* Only those invited count: with client k alone the linear delay is k/4 of the largest. */
static void only_who_takes_part(void **state)
{
    fixture *f = *state;
    char text[700];
    const fl_row *rows;
    snprintf(text, sizeof text,
             "system={kind: linear, slowest: 8};system.turn_seconds=0.25;system.step_seconds=0.5;participation={kind: "
             "trace, path: %s}",
             fixture_write(f, "who", "2\n0 1\n3\n1 2 3\n"));
    fl_run *run = run_of(f, text);
    static const double delay[] = {4, 2, 6, 6};
    double clock = 0;
    fl_run_rows(run, &rows);
    for (size_t r = 0; r < 4; r++) {
        clock += turn + delay[r];
        assert_near(fl_row_get(&rows[r + 1], "simulated_seconds"), clock, 1e-12);
    }
    fl_run_free(run);
}

/* Uneven work: the round lasts as long as the client with the most steps. */
static void uneven_work(void **state)
{
    fixture *f = *state;
    const fl_row *rows;
    double clock = 0;
    fl_run *run = run_of(f, "local.uneven=range;local.range=[1, 9];rounds=10");
    const fli_plan *p = &run->plan;
    size_t n = fl_run_rows(run, &rows);
    for (size_t r = 0; r + 1 < n; r++) {
        size_t most = 0;
        for (uint32_t i = 0; i < CLIENTS; i++) {
            size_t s = fli_local_steps(&p->settings->local.work, (uint64_t)p->settings->top.seed, r, i, 1);
            most = s > most ? s : most;
        }
        clock += 0.25 + 0.5 * (double)most;
        assert_near(fl_row_get(&rows[r + 1], "simulated_seconds"), clock, 1e-12);
    }
    fl_run_free(run);
}

/* ---- who is late ----------------------------------------------------------------------------------------- */

/* With these devices turns last 1.75, 3.75, 5.75, 7.75 and 9.75 seconds. */
#define STEPPED "system={kind: linear, slowest: 8};system.turn_seconds=0.25;system.step_seconds=0.5;"

/* A run that keeps `count` clients in every round and lasts `each`: the same, to the bit, as one to which only those
 * come who are listed. Methods with and without state, so that what a dropped client had is untouched. */
static void keeps(fixture *f, const char *assignments, const char *who, size_t count, double each)
{
    static const char *const methods[] = {"fedavg", "scaffold", "{kind: feddr, solver: exact, eta: 0.5}", "feddyn"};
    for (size_t k = 0; k < 4; k++) {
        char text[1200];
        const fl_row *rows;
        double x[DIM], y[DIM];
        snprintf(text, sizeof text, "algorithm=%s;rounds=6;%s", methods[k], assignments);
        fl_run *run = run_of(f, text);
        const fl_method *a = run->plan.setup.algo;
        double down = (double)fli_parts_vectors(a->down) * BYTES, up = (double)fli_parts_vectors(a->up) * BYTES;
        double start = fli_algo_shows_start(a) ? BYTES : 0; /* with everybody's first turn */
        size_t n = fl_run_rows(run, &rows);
        assert_int_equal(n, 7);
        for (size_t r = 1; r < n; r++) {
            assert_int_equal(fl_row_get(&rows[r], "cohort"), count);
            if (!(fabs(fl_row_get(&rows[r], "simulated_seconds") - (double)r * each) < 1e-12))
                fail_msg("%s: %g after round %zu", text, fl_row_get(&rows[r], "simulated_seconds"), r);
            /* everyone invited has received the model; who was late is told the start model again and again */
            double shown = start * (double)(CLIENTS + (r - 1) * (CLIENTS - count));
            assert_true(fl_row_get(&rows[r], "bytes_down") == (double)(r * CLIENTS) * down + shown);
            assert_true(fl_row_get(&rows[r], "bytes_up") == (double)(r * count) * up);
            /* the exact solver takes one; simulated time goes by the steps that were asked for */
            assert_true(fl_row_get(&rows[r], "local_steps") ==
                        (double)(r * count * (strstr(methods[k], "exact") ? 1 : STEPS)));
        }
        assert_int_equal(fl_run_model(run, x, DIM), DIM);
        fl_run_free(run);
        snprintf(text, sizeof text, "algorithm=%s;rounds=6;participation={kind: trace, path: %s}", methods[k],
                 fixture_write(f, "who", who));
        run = run_of(f, text);
        assert_int_equal(fl_run_model(run, y, DIM), DIM);
        fl_run_free(run);
        if (memcmp(x, y, sizeof x)) fail_msg("%s, %s: not as if only %s came", methods[k], assignments, who);
        assert_true(distance(DIM, x, (double[DIM]){0}) > 0.1);
    }
}

static void a_deadline_leaves_out_slow_clients(void **state)
{
    fixture *f = *state;
    keeps(f, STEPPED "system.deadline=6", "0 1 2\n", 3, 6);
    keeps(f, STEPPED "system.deadline=5.75", "0 1 2\n", 3, 5.75); /* just in time */
    keeps(f, STEPPED "system.deadline=5.74", "0 1\n", 2, 5.74);
    keeps(f, STEPPED "system.deadline=1.75", "0\n", 1, 1.75);
    keeps(f, STEPPED "system.deadline=100", "0 1 2 3 4\n", 5, 9.75); /* nobody is waited for longer than needed */
    char text[700];
    snprintf(text, sizeof text, "%s;system.deadline=4", devices(f, "1\n2\n1\n2\n1\n"));
    keeps(f, text, "0 2 4\n", 3, 4); /* in the middle of the cohort */
}

static void waiting_for_some(void **state)
{
    fixture *f = *state;
    char text[700];
    keeps(f, STEPPED "system.wait_for=0.5", "0 1 2\n", 3, 5.75);
    keeps(f, STEPPED "system.wait_for=0.6", "0 1 2\n", 3, 5.75); /* 0.6 * 5 is a little more than 3 in binary */
    keeps(f, STEPPED "system.wait_for=0.61", "0 1 2 3\n", 4, 7.75);
    keeps(f, STEPPED "system.wait_for=0.2", "0\n", 1, 1.75);
    keeps(f, STEPPED "system.wait_for=1e-12", "0\n", 1, 1.75); /* at least one */
    keeps(f, STEPPED "system.wait_for=0.8;system.deadline=4", "0 1\n", 2, 4);
    keeps(f, STEPPED "system.wait_for=0.4;system.deadline=8", "0 1\n", 2, 3.75);
    keeps(f, STEPPED "system.wait_for=0.4;system.deadline=3.75", "0 1\n", 2, 3.75);
    /* all alike: the first of the cohort */
    keeps(f, "system.wait_for=0.4", "0 1\n", 2, turn);
    /* clients 1 and 3 need 3.25 s, the others 6.25: of those the first */
    snprintf(text, sizeof text, "%s;system.wait_for=0.6", devices(f, "2\n1\n2\n1\n2\n"));
    keeps(f, text, "0 1 3\n", 3, 6.25);
    snprintf(text, sizeof text, "%s;system.wait_for=0.2", devices(f, "2\n1\n2\n1\n2\n"));
    keeps(f, text, "1\n", 1, 3.25);
    snprintf(text, sizeof text, "%s;system.wait_for=0.8", devices(f, "3\n1\n2\n1\n2\n"));
    keeps(f, text, "1 2 3 4\n", 4, 6.25);
}

/* Everybody is late: nothing happens, for as long as the deadline. */
static void everybody_late(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"fedavg", "scaffold", "{kind: feddr, solver: exact}", "feddyn"};
    for (size_t k = 0; k < 4; k++) {
        char text[200];
        double x[DIM];
        const fl_row *rows;
        snprintf(text, sizeof text, "algorithm=%s;system.deadline=1", methods[k]);
        fl_run *run = run_of(f, text);
        fl_run_rows(run, &rows);
        assert_int_equal(fl_run_model(run, x, DIM), DIM);
        for (size_t i = 0; i < DIM; i++) assert_true(x[i] == 0);
        assert_int_equal(fl_row_get(&rows[4], "cohort"), 0);
        assert_true(fl_row_get(&rows[4], "simulated_seconds") == 4 && fl_row_get(&rows[4], "bytes_up") == 0 &&
                    fl_row_get(&rows[4], "local_steps") == 0);
        assert_true(fl_row_get(&rows[4], "bytes_down") ==
                    4.0 * CLIENTS *
                        (double)(fli_parts_vectors(run->plan.setup.algo->down) +
                                 (fli_algo_shows_start(run->plan.setup.algo) != 0)) *
                        BYTES);
        assert_true(fl_row_get(&rows[4], "train_loss") == fl_row_get(&rows[0], "train_loss"));
        fl_run_free(run);
    }
}

/* FedDR: xt stays the mean of all 2 x_i - y_i when clients are dropped now in one round, now in another. The state of
 * the clients is followed from the outside: exact prox steps of quadratics, with whoever should be in time. */
static void dropped_state_is_untouched(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 12 };
    const double eta = 0.5, alpha = 1.2;
    double y[CLIENTS][DIM] = {{0}}, x[CLIENTS][DIM] = {{0}}, bar[DIM] = {0};
    fl_run *run = run_of(f, "algorithm={kind: feddr, solver: exact, eta: 0.5, alpha: 1.2};rounds=12;"
                            "participation={kind: uniform, count: 3};seed=4;" STEPPED "system.deadline=6");
    size_t cohort[ROUNDS + 1] = {0}, dropped = 0;
    const fl_row *rows;
    for (size_t r = 0; r < ROUNDS; r++) {
        uint32_t who[CLIENTS];
        size_t m = fli_participation_pick(run->plan.participation, 4, r, who);
        for (size_t c = 0; c < m; c++) {
            uint32_t i = who[c];
            double h[DIM * DIM], q[DIM];
            dropped += i > 2;
            if (i > 2) continue;
            cohort[r + 1]++;
            client_quadratic(f->ctx, run->plan.fed, i, 0, h, q);
            for (size_t k = 0; k < DIM; k++) { /* the Hessians are diagonal */
                y[i][k] += alpha * (bar[k] - x[i][k]);
                x[i][k] = (y[i][k] + eta * q[k]) / (1 + eta * h[k * DIM + k]);
            }
        }
        for (size_t k = 0; k < DIM; k++) {
            bar[k] = 0;
            for (size_t i = 0; i < CLIENTS; i++) bar[k] += (2 * x[i][k] - y[i][k]) / CLIENTS;
        }
    }
    assert_true(dropped > 5);
    fl_run_rows(run, &rows);
    for (size_t r = 1; r <= ROUNDS; r++) assert_int_equal(fl_row_get(&rows[r], "cohort"), cohort[r]);
    for (size_t v = 0; v < 2; v++) {
        const double *have = fli_exec_server(run->exec)[v];
        for (size_t k = 0; k < DIM; k++) assert_near(have[k], bar[k], 1e-13);
    }
    fl_run_free(run);
}

/* ---- stopping -------------------------------------------------------------------------------------------- */

static void stop_simulated(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set;
        size_t rounds;
        fl_stop why;
    } cases[] = {{"stop.simulated=5", 3, FL_STOP_TIME},
                 {"stop.simulated=5.25", 3, FL_STOP_TIME}, /* reached exactly */
                 {"stop.simulated=5.26", 4, FL_STOP_TIME},
                 {"stop.simulated=100", 50, FL_STOP_ROUNDS},
                 {"stop.simulated=0", 50, FL_STOP_ROUNDS},
                 {"stop.simulated=5;metrics.every=10", 3, FL_STOP_TIME},
                 {"stop.simulated=5;algorithm=asyncfeddr", 11, FL_STOP_TIME}}; /* 5 at 1.75, 5 at 3.5, 1 at 5.25 */
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[200];
        snprintf(text, sizeof text, "rounds=50;%s", cases[k].set);
        fl_run *run = run_of(f, text);
        assert_int_equal(fl_row_round(fl_run_row(run)), cases[k].rounds);
        assert_int_equal(fl_run_stopped_by(run), cases[k].why);
        fl_run_free(run);
    }
}

/* ---- asynchronous runs ----------------------------------------------------------------------------------- */

/* Turns last 1.75, 3.75, 5.75, 7.75 and 9.75 seconds: who is back when is written out. */
static void asynchronous_rows_follow_the_clock(void **state)
{
    fixture *f = *state;
    static const double when[] = {1.75, 3.5, 3.75, 5.25, 5.75, 7, 7.5, 7.75, 8.75, 9.75};
    static const uint32_t who[] = {0, 0, 1, 0, 2, 0, 1, 3, 0, 4};
    const fl_row *rows;
    size_t version[CLIENTS] = {0};
    fl_run *run = run_of(f, STEPPED "algorithm=asyncfeddr;rounds=10");
    size_t n = fl_run_rows(run, &rows);
    assert_int_equal(n, 11);
    assert_true(fl_row_get(&rows[0], "simulated_seconds") == 0 && isnan(fl_row_get(&rows[0], "staleness")) &&
                fl_row_get(&rows[0], "bytes_down") == 0);
    for (size_t k = 0; k < 10; k++) {
        const fl_row *row = &rows[k + 1];
        assert_int_equal(fl_row_round(row), k + 1);
        assert_int_equal(fl_row_get(row, "cohort"), 1);
        assert_near(fl_row_get(row, "simulated_seconds"), when[k], 1e-12);
        assert_true(fl_row_get(row, "staleness") == (double)(k - version[who[k]]));
        assert_true(fl_row_get(row, "staleness_max") == fl_row_get(row, "staleness"));
        assert_true(fl_row_get(row, "bytes_up") == (double)(k + 1) * BYTES);
        assert_true(fl_row_get(row, "bytes_down") ==
                    (double)(k + 1 + 2 * CLIENTS) * BYTES); /* five are at work, each was shown the start model */
        assert_true(fl_row_get(row, "local_steps") == (double)(k + 1) * STEPS);
        version[who[k]] = k + 1;
    }
    fl_run_free(run);
}

/* Rows are means and maxima since the row before; links cost time. */
static void asynchronous_rows(void **state)
{
    fixture *f = *state;
    const fl_row *one, *five;
    fl_run *a = run_of(f, STEPPED "algorithm=fedasync;rounds=22");
    fl_run *b = run_of(f, STEPPED "algorithm=fedasync;rounds=22;metrics.every=5");
    fl_run_rows(a, &one);
    assert_int_equal(fl_run_rows(b, &five), 6); /* 0, 5, 10, 15, 20, 22 */
    for (size_t r = 1; r < 6; r++) {
        double sum = 0, most = 0;
        size_t from = 5 * (r - 1) + 1, to = r < 5 ? 5 * r : 22;
        for (size_t k = from; k <= to; k++) {
            sum += fl_row_get(&one[k], "staleness");
            most = fmax(most, fl_row_get(&one[k], "staleness"));
        }
        assert_int_equal(fl_row_round(&five[r]), to);
        assert_near(fl_row_get(&five[r], "staleness"), sum / (double)(to - from + 1), 1e-12);
        assert_true(fl_row_get(&five[r], "staleness_max") == most);
        assert_true(fl_row_get(&five[r], "simulated_seconds") == fl_row_get(&one[to], "simulated_seconds"));
        assert_true(fl_row_get(&five[r], "train_loss") == fl_row_get(&one[to], "train_loss"));
    }
    fl_run_free(a);
    fl_run_free(b);
    a = run_of(f, "algorithm=fedasync;rounds=5;system.up_rate=48;system.down_rate=12");
    assert_near(fl_row_get(fl_run_row(a), "simulated_seconds"), turn + BYTES / 12.0 + BYTES / 48.0, 1e-12);
    fl_run_free(a);
}

/* A failed run fails again instead of going on from where it was left. */
static void failed_runs_stay_failed(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, "algorithm=fedasync;local.lr=1e200;participation={kind: uniform, count: 1}");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "no longer finite");
    for (int again = 0; again < 3; again++)
        assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "the run has failed");
    fl_run_free(run);
}

/* ---- what cannot be -------------------------------------------------------------------------------------- */

static void refused(fixture *f, const char *assignments, const char *message)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, assignments);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, message);
    assert_null(run);
    fl_config_free(cfg);
}

static void impossible_timings_are_refused(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"asyncfeddr", "fedasync", "fedbuff"};
    char text[200];
    refused(f, "clock=real", "clock is real, but algorithm fedavg works in rounds");
    refused(f, "clock=real;algorithm=feddr", "clock is real, but algorithm feddr works in rounds");
    for (size_t k = 0; k < 3; k++) {
        static const char *const ways[] = {"{kind: bernoulli, probability: 0.5}", "{kind: weighted, count: 2}",
                                           "{kind: cyclic, count: 2}", "{kind: trace, path: nowhere}"};
        for (size_t w = 0; w < 4; w++) {
            snprintf(text, sizeof text, "algorithm=%s;participation=%s", methods[k], ways[w]);
            refused(f, text, "is asynchronous: participation.kind can be everyone");
        }
        snprintf(text, sizeof text, "algorithm=%s;system.deadline=1", methods[k]);
        refused(f, text, "never waits, so system.deadline and system.wait_for mean nothing");
        snprintf(text, sizeof text, "algorithm=%s;system.wait_for=0.5", methods[k]);
        refused(f, text, "never waits, so system.deadline and system.wait_for mean nothing");
        snprintf(text, sizeof text, "algorithm=%s;clock=real", methods[k]);
        refused(f, text, "clock is real, which is for clients in other programs");
        snprintf(text, sizeof text, "algorithm=%s;algorithm.tau=3%s", methods[k], k == 2 ? ";algorithm.buffer=1" : "");
        refused(f, text, "algorithm.tau is 3, but with 5 clients at work some upload may be 4 server steps old");
    }
    refused(f, "algorithm=fedpd;system.deadline=1", "fedpd needs every client in every round, so system.deadline");
    refused(f, "algorithm=fedsplit;system.wait_for=0.9", "fedsplit needs every client in every round, so system.dead");
    refused(f, "algorithm=fedasync;regularizer={kind: l1, weight: 1}", "takes no proximal step");
    refused(f, "system.wait_for=0", "system.wait_for");
    refused(f, "system.wait_for=1.1", "system.wait_for");
    refused(f, "system.deadline=-1", "system.deadline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(the_slowest_decides),
        FIXTURE_TEST(only_who_takes_part),
        FIXTURE_TEST(uneven_work),
        FIXTURE_TEST(a_deadline_leaves_out_slow_clients),
        FIXTURE_TEST(waiting_for_some),
        FIXTURE_TEST(everybody_late),
        FIXTURE_TEST(dropped_state_is_untouched),
        FIXTURE_TEST(stop_simulated),
        FIXTURE_TEST(asynchronous_rows_follow_the_clock),
        FIXTURE_TEST(asynchronous_rows),
        FIXTURE_TEST(failed_runs_stay_failed),
        FIXTURE_TEST(impossible_timings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
