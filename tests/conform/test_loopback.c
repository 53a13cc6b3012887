/* The loopback executor can fail: a method that reads what its tables do not send, on either side, ends there,
 * although it works where client and server share memory. Beside it the byte forms that all executors share. */
#include "runs.h"

#include "engine/engine.h"
#include "message/exchange.h"
#include "message/codec.h"
#include "run/state.h"

#include <signal.h>
#include <sys/wait.h>

enum { N = 4, DIM = 3 };

/* ---- cheats ---------------------------------------------------------------------------------------------- */

/* A round of a method on least squares; its status. */
static fl_status rounds_of(fixture *f, const fl_method *a, const fli_executor *executor, size_t rounds)
{
    static const size_t size[N] = {4, 5, 6, 7};
    engine e;
    engine_init(&e, f->ctx, random_fed(f->ctx, N, size, DIM, 0, 3), "least_squares", &fli_ops_f64, 0, a, "", 1,
                (fli_sgd_spec){0}, 1);
    fli_exec_free(e.exec);
    e.setup = setup_of(e.model, e.fed, a, bound(f->ctx, &e.arena, a->keys, a->params_size, ""));
    fli_exec_spec spec = {.setup = &e.setup, .threads = 1, .executor = executor};
    assert_ok(f->ctx, fli_exec_new(f->ctx, &spec, &e.exec));
    fl_status s = FL_OK;
    for (size_t r = 0; r < rounds && !s; r++) {
        fl_ask asks[N];
        for (uint32_t i = 0; i < N; i++) asks[i] = (fl_ask){.client = i, .steps = 2, .lr = 0.05, .probability = 1};
        fli_round round = {
            .round = r, .flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY, .asks = asks, .count = N, .phases = 1};
        s = fli_exec_round(e.exec, &round);
    }
    fli_clear(f->ctx);
    engine_fini(&e);
    return s;
}

/* `honest` works on both executors, `cheat` where memory is shared. */
static void only_loopback_sees(fixture *f, const fl_method *honest, const fl_method *cheat)
{
    assert_int_equal(rounds_of(f, honest, &fli_executor_threads, 3), FL_OK);
    assert_int_equal(rounds_of(f, honest, &fli_executor_loopback, 3), FL_OK);
    assert_int_equal(rounds_of(f, cheat, &fli_executor_threads, 3), FL_OK);
    assert_int_equal(rounds_of(f, cheat, &fli_executor_loopback, 3), FL_EDIVERGED);
}

/* SCAFFOLD that forgets to send c down, */
static void unsent_down(void **state)
{
    static const fl_part down[] = {
        {"x", FL_PART_VECTOR, 0}, {"c", FL_PART_VECTOR, 1, FL_PART_FORGET, FL_IN_PHASE(1)}, {NULL}};
    fl_method cheat = *algo_named("scaffold");
    cheat.down = down;
    only_loopback_sees(*state, algo_named("scaffold"), &cheat);
}

/* or the change of c_i up; */
static void unsent_up(void **state)
{
    static const fl_part up[] = {{"x_i - x", FL_PART_VECTOR, 0, FL_PART_CHANGE},
                                 {"c_i+ - c_i", FL_PART_VECTOR, 1, FL_PART_CHANGE, FL_IN_PHASE(1)},
                                 {NULL}};
    fl_method cheat = *algo_named("scaffold");
    cheat.up = up;
    only_loopback_sees(*state, algo_named("scaffold"), &cheat);
}

/* FedNova that forgets a number. */
static void unsent_number(void **state)
{
    static const fl_part up[] = {{"(x_i - x)/Q_i", FL_PART_VECTOR, 0, FL_PART_CHANGE},
                                 {"Q_i", FL_PART_NUMBER, 0, FL_PART_VALUE, FL_IN_PHASE(1)},
                                 {NULL}};
    fl_method cheat = *algo_named("fednova");
    cheat.up = up;
    only_loopback_sees(*state, algo_named("fednova"), &cheat);
}

/* Scratch that was not written in this turn. */
static const fl_method *watched;

static int pose_from_scratch(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    p->shift = t->work[0];
    return 0;
}

static void scratch_of_an_earlier_turn(void **state)
{
    fl_method cheat = *(watched = algo_named("scaffold"));
    cheat.pose = pose_from_scratch;
    only_loopback_sees(*state, watched, &cheat);
}

/* A pointer that was kept: the memory of a message is gone when the turn is over. */
static const double *kept;

static int pose_and_keep(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    if (t->ask.round) p->rho = *kept;
    kept = t->down[0];
    return 0;
}

static int keeps_a_pointer(fixture *f)
{
    fl_method cheat = *algo_named("fedavg");
    cheat.pose = pose_and_keep;
    return (int)rounds_of(f, &cheat, &fli_executor_loopback, 2);
}

static void memory_is_gone(void **state)
{
    fixture *f = *state;
    int status;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(keeps_a_pointer(f));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status)); /* a signal, or a sanitizer's report */
}

/* FedNest that does not say that clients keep (x, y). */
static void kept_parts_must_be_declared(void **state)
{
    fixture *f = *state;
    const char *config = "rounds: 2\nmodel: {kind: mlp, hidden: [3]}\nbilevel: hyper_representation\n"
                         "data: {kind: blobs, classes: 3, features: 4, samples: 60}\n"
                         "partition: {kind: iid, clients: 4}\nalgorithm: fednest\nparticipation: everyone\n";
    fl_part down[16];
    size_t n = 0;
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, config);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_method cheat = *run->plan.setup.algo;
    for (const fl_part *p = cheat.down; p->name; p++) {
        down[n] = *p;
        down[n++].use = FL_PART_FORGET;
    }
    down[n] = (fl_part){NULL};
    for (int bytes = 0; bytes < 2; bytes++)
        for (int honest = 0; honest < 2; honest++) {
            fli_exec *e = NULL;
            cheat.down = honest ? run->plan.setup.algo->down : down;
            fli_setup setup = setup_of(run->plan.model, run->plan.fed, &cheat, run->plan.settings->algorithm.params);
            fli_exec_spec spec = {
                .setup = &setup, .threads = 1, .executor = bytes ? &fli_executor_loopback : &fli_executor_threads};
            assert_ok(f->ctx, fli_exec_new(f->ctx, &spec, &e));
            assert_ok(f->ctx, fli_model_start(f->ctx, run->plan.model, 7, fli_exec_server(e)[0]));
            fl_ask asks[N];
            for (uint32_t i = 0; i < N; i++) asks[i] = (fl_ask){.client = i, .steps = 2};
            fli_round r = {.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY, .asks = asks, .count = N};
            r.phases = cheat.rounds.phases(setup.params, 0);
            assert_int_equal(fli_exec_round(e, &r), bytes && !honest ? FL_EDIVERGED : FL_OK);
            fli_clear(f->ctx);
            fli_exec_free(e);
        }
    fl_run_free(run);
    fl_config_free(cfg);
}

/* ---- byte forms ------------------------------------------------------------------------------------------ */

static void ask_bytes(void **state)
{
    (void)state;
    const fl_ask ask = {.round = 0x0102030405060708,
                        .stream = 9,
                        .steps = UINT64_MAX,
                        .lr = -2.5,
                        .weight = 0.125,
                        .probability = 1,
                        .client = 0x0a0b0c0d,
                        .kind = FLI_ASK_FIGURES,
                        .cohort = 7,
                        .phase = 3,
                        .phases = 5,
                        .flags = FLI_FIGURES_OWN | FLI_ASK_HAS_BODY};
    static const unsigned char head[] = {8, 7, 6, 5, 4, 3, 2, 1, 9, 0}, lr[] = {0, 0, 0, 0, 0, 0, 4, 0xc0},
                               client[] = {0x0d, 0x0c, 0x0b, 0x0a, FLI_ASK_FIGURES, 0, 0, 0, 7, 0};
    unsigned char bytes[FLI_ASK_BYTES], again[FLI_ASK_BYTES];
    fl_ask back;
    memset(&back, 0, sizeof back);
    fli_ask_write(&ask, bytes);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + 24, lr, sizeof lr);
    assert_memory_equal(bytes + 48, client, sizeof client);
    fli_ask_read(bytes, &back);
    fli_ask_write(&back, again);
    assert_memory_equal(bytes, again, sizeof bytes);
    assert_true(back.round == ask.round && back.lr == -2.5 && back.flags == ask.flags && back.phases == 5);
}

static void outcomes_are_read_as_written(void **state)
{
    fixture *f = *state;
    unsigned char bytes[FLI_OUTCOME_BYTES];
    fli_exchange x = {.spent = 1234567890123, .missed = 1, .status = FL_EDIVERGED, .own_diverged = 1}, y = {0};
    fli_outcome_write(&x, bytes);
    assert_ok(f->ctx, fli_outcome_read(bytes, &y));
    assert_true(y.spent == x.spent && y.missed && y.own_diverged && y.status == FL_EDIVERGED);
    bytes[8] = 2;
    assert_int_equal(fli_outcome_read(bytes, &y), FL_EFORMAT);
}

/* Every part at its place, blocks too, and nothing else touched. */
static void message_bytes(void **state)
{
    fixture *f = *state;
    static const fl_part parts[] = {{"a", FL_PART_LOWER, 1},
                                    {"n", FL_PART_NUMBER, 2, FL_PART_VALUE, 0, 2},
                                    {"b", FL_PART_UPPER, 0, FL_PART_KEEP, FL_IN_PHASE(1)},
                                    {"x0", FL_PART_START, 0, FL_PART_FORGET, FL_AT_FIRST},
                                    {NULL}};
    fli_bilevel levels = {.upper = 2};
    fli_model m = {.space = fli_space_of(&fli_ops_f32, 5, NULL), .bilevel = &levels};
    fli_message from, to;
    float start[5] = {9, 8, 7, 6, 5}, came[5] = {0};
    assert_ok(f->ctx, fli_message_init(f->ctx, &m.space, 2, 4, &from));
    assert_ok(f->ctx, fli_message_init(f->ctx, &m.space, 2, 4, &to));
    from.start = start;
    for (size_t i = 0; i < 5; i++) ((float *)from.vec[0])[i] = (float)i, ((float *)from.vec[1])[i] = 10 + (float)i;
    for (size_t i = 0; i < 4; i++) from.num[i] = 0.5 * (double)i;
    assert_int_equal(fli_wire_bytes(parts, FL_IN_PHASE(0), &m), 3 * 4 + 2 * 8);
    assert_int_equal(fli_wire_bytes(parts, FL_IN_PHASE(1), &m), 3 * 4 + 2 * 8 + 2 * 4);
    size_t all = fli_wire_bytes(parts, FL_IN_PHASE(1) | FL_AT_FIRST, &m);
    assert_int_equal(all, 3 * 4 + 2 * 8 + 2 * 4 + 5 * 4);
    unsigned char bytes[128] = {0};
    fli_wire_write(parts, FL_IN_PHASE(1) | FL_AT_FIRST, &m, &from, bytes);
    assert_memory_equal(bytes, "\0\0\x40\x41", 4); /* 12, in four bytes */
    assert_fails(f->ctx, fli_wire_read(f->ctx, parts, FL_IN_PHASE(1), &m, bytes, all, &to, came), FL_EFORMAT,
                 "56 bytes");
    assert_ok(f->ctx, fli_wire_read(f->ctx, parts, FL_IN_PHASE(1) | FL_AT_FIRST, &m, bytes, all, &to, came));
    const float *u = to.vec[0], *v = to.vec[1];
    assert_true(u[0] == 0 && u[1] == 1 && u[2] == 0 && u[4] == 0 && v[0] == 0 && v[1] == 0 && v[2] == 12 && v[4] == 14);
    assert_true(to.num[0] == 0 && to.num[1] == 0 && to.num[2] == 1 && to.num[3] == 1.5);
    assert_ptr_equal(to.start, came);
    assert_memory_equal(came, start, sizeof start);
    fli_message_fini(&from);
    fli_message_fini(&to);
}

/* ---- joining --------------------------------------------------------------------------------------------- */

static void cards_are_read_as_written(void **state)
{
    fixture *f = *state;
    static const size_t size[2] = {5, 9};
    fli_fed *fed = random_fed(f->ctx, 2, size, DIM, 0, 3);
    unsigned char bytes[FLI_CARD_BYTES];
    fli_card own, back;
    fli_digest digest;
    assert_ok(f->ctx, fli_card_make(f->ctx, fed, 1, 1, &own));
    assert_ok(f->ctx, fli_digest_client(f->ctx, fed, 1, &digest));
    fli_card_write(&own, bytes);
    assert_int_equal(bytes[0], 9);
    assert_ok(f->ctx, fli_card_read(f->ctx, bytes, &back));
    assert_true(back.samples == 9 && !back.unlabelled && back.digested && fli_digest_same(&back.digest, &digest));
    bytes[8] = 10; /* more without a label than there are */
    assert_fails(f->ctx, fli_card_read(f->ctx, bytes, &back), FL_EFORMAT, "10 of them without a label");
    bytes[8] = 0;
    bytes[7] = 1;
    assert_fails(f->ctx, fli_card_read(f->ctx, bytes, &back), FL_EFORMAT, "is impossible");
    fli_fed_free(fed);
}

static void terms_are_read_as_written(void **state)
{
    fixture *f = *state;
    static const size_t size[N] = {4, 5, 6, 7};
    engine e;
    engine_init(&e, f->ctx, random_fed(f->ctx, N, size, DIM, 2, 3), "softmax", &fli_ops_f64, 0.5,
                algo_named("scaffold"), "", 1, (fli_sgd_spec){8, 0.9}, 1);
    fli_setup setup = {.model = e.model, .fed = e.fed, .algo = algo_named("scaffold"), .clients = N, .seed = 77};
    double scale[DIM] = {1, 2, 3}, shift[DIM] = {0, -1, 0.5};
    char *names[] = {"cat", "a dog"};
    setup.settings = "model:\n  kind: softmax\n";
    e.fed->train->scale = scale;
    e.fed->train->shift = shift;
    e.fed->train->segments = DIM;
    e.fed->train->class_name = names;
    fli_terms said, heard;
    fli_terms_make(&setup, 2, &said);
    size_t n = fli_terms_bytes(&said);
    unsigned char *bytes = malloc(n), *again = malloc(n + 1);
    fli_terms_write(&said, bytes);
    assert_ok(f->ctx, fli_terms_read(f->ctx, bytes, n, &heard));
    assert_true(heard.seed == 77 && heard.client == 2 && heard.clients == N && heard.shape[2] == DIM && !heard.sparse);
    assert_true(heard.parameters == e.model->space.n && heard.precision == 8 && heard.scales == DIM);
    assert_true(heard.scale[1] == 2 && heard.shift[2] == 0.5 && heard.classes == 2);
    assert_string_equal(heard.class_name[0], "cat");
    assert_string_equal(heard.class_name[1], "a dog");
    assert_string_equal(heard.model, "softmax");
    assert_string_equal(heard.method, "scaffold");
    assert_string_equal(heard.settings, setup.settings);
    fli_terms_write(&heard, again);
    assert_memory_equal(bytes, again, n);
    fli_terms_fini(&heard);
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(fli_terms_read(f->ctx, bytes, k, &heard), FL_EFORMAT);
        fli_terms_fini(&heard);
        fli_clear(f->ctx);
    }
    again[n] = 0;
    assert_fails(f->ctx, fli_terms_read(f->ctx, again, n + 1, &heard), FL_EFORMAT, "something follows");
    fli_terms_fini(&heard);
    bytes[8] = 2; /* N: the client's own number is not below it */
    assert_fails(f->ctx, fli_terms_read(f->ctx, bytes, n, &heard), FL_EFORMAT, "number is not below");
    fli_terms_fini(&heard);
    e.fed->train->scale = e.fed->train->shift = NULL;
    e.fed->train->class_name = NULL;
    free(bytes);
    free(again);
    engine_fini(&e);
}

/* Every byte of terms may be anything: they are refused or read, and nothing else. */
static void damaged_terms(void **state)
{
    fixture *f = *state;
    static const size_t size[N] = {4, 5, 6, 7};
    engine e;
    engine_init(&e, f->ctx, random_fed(f->ctx, N, size, DIM, 2, 3), "softmax", &fli_ops_f32, 0, algo_named("fedavg"),
                "", 1, (fli_sgd_spec){0}, 1);
    fli_setup setup = {.model = e.model, .fed = e.fed, .algo = algo_named("fedavg"), .clients = N, .settings = "x"};
    fli_terms said, heard;
    fli_terms_make(&setup, 0, &said);
    size_t n = fli_terms_bytes(&said);
    unsigned char *bytes = malloc(n), *damaged = malloc(n);
    fli_terms_write(&said, bytes);
    for (size_t k = 0; k < n; k++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(damaged, bytes, n);
            damaged[k] ^= (unsigned char)(1 << bit);
            fl_status s = fli_terms_read(f->ctx, damaged, n, &heard);
            assert_true(s == FL_OK || s == FL_EFORMAT);
            fli_terms_fini(&heard);
            fli_clear(f->ctx);
        }
    free(bytes);
    free(damaged);
    engine_fini(&e);
}

/* ---- what is counted ------------------------------------------------------------------------------------- */

/* The threads executor with a scale: bytes of all messages, by kind and way. */
static double weighed[1 + FLI_ASK_LEVELS][2];
static const fli_setup *scales;

static void weigh(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled)
{
    for (size_t i = 0; i < n; i++) {
        fli_wire w;
        const fl_ask *ask = &list[i]->ask;
        fli_wire_of(scales, ask, &w);
        unsigned char *bytes = malloc(fli_wire_down(&w, scales->model, ask) + 1);
        size_t down = fli_wire_down(&w, scales->model, ask);
        if (down) fli_wire_write(w.down, w.moment, scales->model, list[i]->down, bytes); /* what is counted is there */
        free(bytes);
        weighed[ask->kind][0] += (double)down;
        weighed[ask->kind][1] += (double)fli_wire_up(&w, scales->model, ask);
    }
    fli_executor_threads.run(executor, list, n, filled);
}

/* A run on those scales: its columns say what was carried. */
static void counted_is_carried(void **state)
{
    fixture *f = *state;
    fli_executor weighing = fli_executor_threads;
    weighing.run = weigh;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char set[256];
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, "rounds: 5\nsystem: lognormal\nmodel: {kind: mlp, hidden: [3]}\n"
                                           "data: {kind: blobs, classes: 3, features: 4, samples: 80}\n"
                                           "partition: {kind: iid, clients: 6}\nmetrics: {gradient: true, every: 2}\n");
        snprintf(set, sizeof set, "algorithm=%s", (*a)->name);
        assert_ok(f->ctx, fl_config_set(cfg, set));
        snprintf(set, sizeof set, "participation=%s",
                 (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 3}");
        assert_ok(f->ctx, fl_config_set(cfg, set));
        snprintf(set, sizeof set, "metrics.local=%s", fli_algo_is_async(*a) ? "false" : "true");
        assert_ok(f->ctx, fl_config_set(cfg, set));
        if ((*a)->traits & FL_METHOD_BILEVEL) assert_ok(f->ctx, fl_config_set(cfg, "bilevel=hyper_representation"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        /* the same run on scales */
        fli_exec_spec spec = *fli_exec_spec_of(run->exec);
        spec.executor = &weighing;
        scales = spec.setup;
        run_anew(f, run, &spec);
        memset(weighed, 0, sizeof weighed);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        const fl_row *row = fl_run_row(run);
        if (fli_algo_is_async(*a)) { /* turns are computed ahead, and some are never absorbed */
            assert_true(fl_row_get(row, "bytes_up") <= weighed[FLI_ASK_TURN][1] &&
                        fl_row_get(row, "bytes_down") >= weighed[FLI_ASK_TURN][0]);
        } else if (fl_row_get(row, "bytes_down") != weighed[FLI_ASK_TURN][0] ||
                   fl_row_get(row, "bytes_up") != weighed[FLI_ASK_TURN][1]) {
            fail_msg("%s: %g down and %g up were carried", (*a)->name, weighed[FLI_ASK_TURN][0],
                     weighed[FLI_ASK_TURN][1]);
        }
        assert_true(fl_row_get(row, "evaluation_bytes_down") == weighed[FLI_ASK_FIGURES][0] &&
                    fl_row_get(row, "evaluation_bytes_down") > 0);
        assert_true(fl_row_get(row, "evaluation_bytes_up") == weighed[FLI_ASK_FIGURES][1] &&
                    fl_row_get(row, "evaluation_bytes_up") > 0);
        fl_run_free(run);
        fl_config_free(cfg);
    }
}

/* ---- the key --------------------------------------------------------------------------------------------- */

/* A scale for each of many sparse features, names of classes: all of that is told to the clients. */
static void wide_data(void **state)
{
    fixture *f = *state;
    char text[4000] = "", config[700];
    for (size_t i = 0; i < 40; i++) {
        char line[80];
        snprintf(line, sizeof line, "%s %zu:%g %zu:%g\n", i % 2 ? "+1" : "-1", 1 + i, 0.5 + (double)i, 5000 + i,
                 2.0 * (double)(i % 3) - 1);
        strcat(text, line);
    }
    char file[200];
    snprintf(file, sizeof file, "%s", fixture_write(f, "wide.svm", text));
    double loss[2];
    for (int bytes = 0; bytes < 2; bytes++) {
        fl_run *run = NULL;
        snprintf(config, sizeof config,
                 "rounds: 3\nmodel: logistic\nexecutor: %s\nlocal: {lr: 0.1}\npartition: {kind: iid, clients: 4}\n"
                 "data: {kind: libsvm, train: %s, normalize: columns}\n",
                 bytes ? "loopback" : "threads", file);
        fl_config *cfg = fixture_config(f, config);
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_non_null(run->plan.fed->train->class_name);
        assert_string_equal(run->plan.fed->train->class_name[1], "+1");
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        loss[bytes] = fl_row_get(fl_run_row(run), "train_loss");
        fl_run_free(run);
        fl_config_free(cfg);
    }
    assert_true(loss[0] == loss[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(unsent_down),
        FIXTURE_TEST(unsent_up),
        FIXTURE_TEST(unsent_number),
        FIXTURE_TEST(scratch_of_an_earlier_turn),
        FIXTURE_TEST(memory_is_gone),
        FIXTURE_TEST(kept_parts_must_be_declared),
        FIXTURE_TEST(ask_bytes),
        FIXTURE_TEST(outcomes_are_read_as_written),
        FIXTURE_TEST(message_bytes),
        FIXTURE_TEST(cards_are_read_as_written),
        FIXTURE_TEST(terms_are_read_as_written),
        FIXTURE_TEST(damaged_terms),
        FIXTURE_TEST(counted_is_carried),
        FIXTURE_TEST(wide_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
