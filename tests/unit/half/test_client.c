/* The clients' half and what it lets a server do: limits, turns that are stopped, terms that name files, and messages
 * in words. */
#include "fixture.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "fedloom_extend.h"
#include "fedloom_halves.h"
#include "format/snapshot.h"
#include "remote/packet.h"
#include "half/client.h"

#include <pthread.h>

enum { DIM = 4, SAMPLES = 40, HEADER = 80, NUMBER_AT = 16, BODY_AT = 32, SETTLED_AT = 40, STEPS_AT = HEADER + 16 };

#define SERVER                                                                                                         \
    "rounds: 3\nthreads: 1\nmodel: softmax\nparticipation: everyone\nlocal: {batch: 5, steps: 6, lr: 0.1}\n"           \
    "data: {kind: joined, shape: [4], classes: 2}\npartition: {clients: 1}\nmetrics: {train: false, test: false, "     \
    "clients: false}\n"

/* A federation with one client, and its first turn. */
typedef struct {
    fl_ctx *ctx;
    fl_server *server;
    fl_client *client;
    fl_bytes card, terms, ask;
} world;

static fl_client *client_new(fl_ctx *ctx)
{
    fl_client *c;
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F32, SAMPLES, DIM, 2, &ds));
    for (size_t k = 0; k < ds->n * DIM; k++) ((float *)ds->x)[k] = (float)(k * 7 % 11) / 5 - 1;
    for (size_t k = 0; k < ds->n; k++) ds->label[k] = (int32_t)(k % 2);
    assert_ok(ctx, fli_client_with(ctx, ds, 0, &c));
    return c;
}

static void world_new(fixture *f, const char *assignment, world *w)
{
    fl_config *cfg = fixture_config(f, SERVER);
    *w = (world){.ctx = f->ctx};
    if (assignment) assert_ok(f->ctx, fl_config_set(cfg, assignment));
    assert_ok(f->ctx, fl_server_new(cfg, &w->server));
    fl_config_free(cfg);
    w->client = client_new(f->ctx);
    assert_ok(f->ctx, fl_client_card(w->client, 1, &w->card));
    assert_ok(f->ctx, fl_server_join(w->server, 0, w->card.data, w->card.n));
    assert_ok(f->ctx, fl_server_begin(w->server));
    assert_ok(f->ctx, fl_server_terms(w->server, 0, &w->terms));
}

static void accept_and_ask(world *w)
{
    uint32_t who;
    assert_int_equal(fl_client_ask_bytes(w->client), 0);
    assert_ok(w->ctx, fl_client_accept(w->client, w->terms.data, w->terms.n));
    assert_ok(w->ctx, fl_server_next(w->server, 10, &who, &w->ask));
    assert_true(w->ask.n > STEPS_AT);
}

static void world_free(world *w)
{
    fl_server_free(w->server);
    fl_client_free(w->client);
    fl_bytes_free(&w->card);
    fl_bytes_free(&w->terms);
    fl_bytes_free(&w->ask);
}

static void seal(unsigned char *p, size_t n)
{
    uint32_t crc = fli_crc32c_more(0, p, 12);
    fli_put_u64(p + 12, fli_crc32c_more(crc, p + 16, n - 16), 4);
}

/* The ask with another number of steps; its own where `steps` is 0. */
static fl_bytes asks_for(const world *w, uint64_t steps)
{
    fl_bytes b = {memcpy(malloc(w->ask.n), w->ask.data, w->ask.n), w->ask.n};
    if (steps) fli_put_u64(b.data + STEPS_AT, steps, 8);
    seal(b.data, b.n);
    return b;
}

/* ---- limits ------------------------------------------------------------------------------------------------ */

static void limited_turns(void **state)
{
    world w;
    fl_bytes answer, want, before, after;
    world_new(*state, "algorithm=scaffold", &w);
    accept_and_ask(&w);
    fl_bytes many = asks_for(&w, UINT64_MAX);
    fl_client_limits l = {.size = sizeof l, .steps = 5};
    assert_ok(w.ctx, fl_client_state(w.client, &before));
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_fails(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer), FL_EREFUSED,
                 "client 0 is asked for 6 steps, and allows 5 in a turn");
    assert_fails(w.ctx, fl_client_work(w.client, many.data, many.n, &answer), FL_EREFUSED,
                 "18446744073709551615 steps");
    l = (fl_client_limits){.size = sizeof l, .samples = 29};
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_fails(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer), FL_EREFUSED,
                 "passes over 30 samples, and allows 29");
    assert_fails(w.ctx, fl_client_work(w.client, many.data, many.n, &answer), FL_EREFUSED, "and allows 29");
    assert_true(w.ask.n <= fl_client_ask_bytes(w.client));
    assert_true(w.ask.n + (64 << 10) > fl_client_ask_bytes(w.client));
    l = (fl_client_limits){.size = sizeof l, .bytes = w.ask.n - 1};
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_int_equal(fl_client_ask_bytes(w.client), w.ask.n - 1);
    assert_fails(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer), FL_EREFUSED, "reads at most");
    assert_ok(w.ctx, fl_client_state(w.client, &after));
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.data, after.data, after.n);
    l = (fl_client_limits){.size = sizeof l, .bytes = w.ask.n, .steps = 6, .samples = 30, .seconds = 1e6};
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    assert_ok(w.ctx, fl_client_limit(w.client, NULL));
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &want));
    assert_int_equal(answer.n, want.n);
    assert_memory_equal(answer.data, want.data, want.n);
    free(many.data);
    fl_bytes_free(&answer);
    fl_bytes_free(&want);
    fl_bytes_free(&before);
    fl_bytes_free(&after);
    world_free(&w);
}

static void refuses_terms(fixture *f, const fl_client_limits *l, const char *sentence)
{
    world w;
    world_new(f, "algorithm=scaffold", &w);
    assert_ok(w.ctx, fl_client_limit(w.client, l));
    assert_fails(w.ctx, fl_client_accept(w.client, w.terms.data, w.terms.n), FL_EREFUSED, sentence);
    world_free(&w);
}

static void limited_terms(void **state)
{
    static const char *const methods[] = {"fedavg", "scaffold", NULL}, *const models[] = {"mlp", NULL};
    world w;
    fl_client_limits l = {.size = sizeof l, .methods = methods + 2};
    refuses_terms(*state, &l, "method is scaffold, which is not among those that this client allows");
    l = (fl_client_limits){.size = sizeof l, .methods = methods, .models = models};
    refuses_terms(*state, &l, "model is softmax, which is not among");
    l = (fl_client_limits){.size = sizeof l, .bytes = 100};
    refuses_terms(*state, &l, "and this client reads at most 100");
    l = (fl_client_limits){.size = sizeof l, .memory = 100};
    refuses_terms(*state, &l, "method scaffold and a model of 10 parameters take");
    l = (fl_client_limits){.size = sizeof l, .methods = methods, .memory = 1 << 26, .bytes = 1 << 20};
    world_new(*state, "algorithm=scaffold", &w);
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_ok(w.ctx, fl_client_accept(w.client, w.terms.data, w.terms.n));
    l.size = 0;
    assert_fails(w.ctx, fl_client_limit(w.client, &l), FL_ECONFIG, "fl_client_limits");
    l = (fl_client_limits){.size = sizeof l, .seconds = -1};
    assert_fails(w.ctx, fl_client_limit(w.client, &l), FL_ECONFIG, "is no limit");
    world_free(&w);
}

/* ---- turns that end early ---------------------------------------------------------------------------------- */

static void *stop_it(void *client)
{
    struct timespec a_while = {0, 20000000};
    nanosleep(&a_while, NULL);
    fl_client_stop(client);
    return NULL;
}

/* Far more steps than anybody can wait for; what the client keeps is as it was, and the turn can be taken. */
static void endless(fixture *f, const char *assignment)
{
    world w;
    fl_bytes answer, before, after;
    pthread_t thread;
    world_new(f, assignment, &w);
    accept_and_ask(&w);
    fl_bytes many = asks_for(&w, (uint64_t)1 << 50);
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    fl_bytes_free(&answer);
    fli_put_u64(many.data + NUMBER_AT, 1000, 8);
    memcpy(many.data + SETTLED_AT, w.ask.data + NUMBER_AT, 8); /* it follows that turn */
    seal(many.data, many.n);
    assert_ok(w.ctx, fl_client_state(w.client, &before));
    fl_client_limits l = {.size = sizeof l, .seconds = 0.02};
    assert_ok(w.ctx, fl_client_limit(w.client, &l));
    assert_fails(w.ctx, fl_client_work(w.client, many.data, many.n, &answer), FL_EREFUSED,
                 "took longer than the 0.02 seconds");
    assert_ok(w.ctx, fl_client_limit(w.client, NULL));
    assert_int_equal(pthread_create(&thread, NULL, stop_it, w.client), 0);
    assert_fails(w.ctx, fl_client_work(w.client, many.data, many.n, &answer), FL_EREFUSED, "the turn was stopped");
    pthread_join(thread, NULL);
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    fl_bytes_free(&answer);
    assert_ok(w.ctx, fl_client_state(w.client, &after));
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.data, after.data, after.n);
    fl_bytes_free(&before);
    fl_bytes_free(&after);
    free(many.data);
    world_free(&w);
}

/* A client that keeps nothing can be anywhere; one that keeps something cannot. */
static void lost_states(void **state)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        world w;
        fl_bytes want, answer;
        world_new(*state, keeps ? "algorithm=scaffold" : "algorithm=fedavg", &w);
        accept_and_ask(&w);
        fl_bytes later = asks_for(&w, 0);
        fli_put_u64(later.data + NUMBER_AT, 20, 8);
        fli_put_u64(later.data + SETTLED_AT, 17, 8);
        seal(later.data, later.n);
        assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &want));
        fl_status s = fl_client_work(w.client, later.data, later.n, &answer);
        assert_int_equal(s, keeps ? FL_EMISMATCH : FL_OK);
        if (!s) assert_memory_equal(answer.data + HEADER, want.data + HEADER, want.n - HEADER);
        fl_bytes_free(&answer);
        assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
        assert_memory_equal(answer.data, want.data, want.n);
        fl_bytes_free(&answer);
        fl_bytes_free(&want);
        free(later.data);
        world_free(&w);
    }
}

static void stopped_turns(void **state)
{
    endless(*state, "algorithm=scaffold");
    endless(*state, "algorithm=fedavg");
    endless(*state, "algorithm=apfl");
}

/* The state of a client whose method keeps nothing of a round, with such a thing in it. */
static void foreign_state(void **state)
{
    world w;
    fl_bytes kept, forged;
    fli_packet p;
    fli_saver *out = NULL;
    unsigned char *body = NULL;
    world_new(*state, "algorithm=fedavg", &w);
    accept_and_ask(&w);
    assert_ok(w.ctx, fl_client_state(w.client, &kept));
    assert_ok(w.ctx, fli_packet_read(w.ctx, FLI_PACKET_STATE, kept.data, kept.n, &p));
    assert_ok(w.ctx, fli_saver_open_memory(w.ctx, &out));
    for (int i = 0; i < 6; i++) fli_save_count(out, 0); /* fli_client_place */
    fli_save_count(out, 1);                             /* it says that a model follows */
    assert_ok(w.ctx, fli_saver_take(out, &body, &p.body_bytes));
    p.body = body;
    assert_ok(w.ctx, fli_packet_write(w.ctx, &p, &forged));
    assert_fails(w.ctx, fl_client_restore(w.client, forged.data, forged.n), FL_EFORMAT,
                 "says that this client keeps something, which it does not");
    assert_ok(w.ctx, fl_client_restore(w.client, kept.data, kept.n));
    fli_free(body);
    fl_bytes_free(&kept);
    fl_bytes_free(&forged);
    world_free(&w);
}

/* ---- terms that name files --------------------------------------------------------------------------------- */

/* Terms with one piece of their settings changed. */
static fl_bytes told(const fl_bytes *terms, const char *what, const char *instead)
{
    fl_bytes b = {malloc(terms->n + strlen(instead)), 0};
    for (size_t i = 0; i < terms->n; i++) {
        if (what && i + strlen(what) <= terms->n && !memcmp(terms->data + i, what, strlen(what))) {
            memcpy(b.data + b.n, instead, strlen(instead));
            b.n += strlen(instead);
            i += strlen(what) - 1;
            what = NULL;
        } else {
            b.data[b.n++] = terms->data[i];
        }
    }
    assert_null(what);
    fli_put_u64(b.data + BODY_AT, b.n - HEADER, 8);
    seal(b.data, b.n);
    return b;
}

/* No file is so much as looked for: these do not exist, and nobody says so. */
static void terms_with_files(void **state)
{
    static const char *const forged[][3] = {
        {"\n  start: ''", "\n  start: /etc/shadow", "name a file, model.start"},
        {"\noutput: ''", "\noutput: /tmp/x", "name a file, .output"},
        {"participation:\n  kind: everyone", "participation:\n  kind: trace\n  path: /etc/x",
         "name a file, participation.path"},
        {"system:\n  kind: none", "system:\n  kind: trace\n  path: /etc/x", "name a file, system.path"},
        {"kind: natural\n  min_size: 1", "kind: file\n  path: /etc/x", "name a file, partition.path"},
        {"data:\n  kind: joined\n", "data:\n  kind: csv\n  train: /etc/x\n", "data"},
    };
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        world w;
        world_new(*state, NULL, &w);
        fl_bytes bad = told(&w.terms, forged[i][0], forged[i][1]);
        fl_status s = fl_client_accept(w.client, bad.data, bad.n);
        if (!s || !strstr(fl_ctx_error(w.ctx), forged[i][2]))
            fail_msg("%s: status %d, %s", forged[i][1], (int)s, fl_ctx_error(w.ctx));
        free(bad.data);
        world_free(&w);
    }
}

/* A server keeps its own to itself. */
static void files_of_the_server(void **state)
{
    world w;
    char text[400];
    snprintf(text, sizeof text, "participation={kind: trace, path: %s}", fixture_write(*state, "who.txt", "0\n0\n0\n"));
    world_new(*state, text, &w);
    for (size_t i = 0; i + 7 < w.terms.n; i++) assert_memory_not_equal(w.terms.data + i, "who.txt", 7);
    assert_ok(w.ctx, fl_client_accept(w.client, w.terms.data, w.terms.n));
    world_free(&w);
}

/* ---- in words ---------------------------------------------------------------------------------------------- */

static void says(world *w, const fl_bytes *message, const char *const *sentences)
{
    fl_bytes text;
    assert_ok(w->ctx, fl_client_describe(w->client, message->data, message->n, &text));
    assert_int_equal(strlen((char *)text.data), text.n);
    for (; *sentences; sentences++)
        if (!strstr((char *)text.data, *sentences)) fail_msg("'%s' does not have '%s'", text.data, *sentences);
    fl_bytes_free(&text);
    for (size_t n = 0; n < message->n; n += n < 100 ? 1 : 37) {
        assert_int_equal(fl_client_describe(w->client, message->data, n, &text), FL_EFORMAT);
        assert_null(text.data);
    }
}

/* The same answer with a report that is so long. */
static void report_of(world *w, const fl_bytes *answer, size_t bytes, fl_status status)
{
    fli_packet p;
    fl_bytes forged, text;
    unsigned char *head = calloc(1, bytes + 1);
    assert_ok(w->ctx, fli_packet_read(w->ctx, FLI_PACKET_ANSWER, answer->data, answer->n, &p));
    memcpy(head, p.head, bytes < p.head_bytes ? bytes : p.head_bytes);
    p.head = head;
    p.head_bytes = bytes;
    assert_ok(w->ctx, fli_packet_write(w->ctx, &p, &forged));
    assert_int_equal(fl_client_describe(w->client, forged.data, forged.n, &text), status);
    if (status) assert_non_null(strstr(fl_ctx_error(w->ctx), "its report of its turn is impossible"));
    fl_bytes_free(&forged);
    fl_bytes_free(&text);
    free(head);
}

static void in_words(void **state)
{
    world w;
    fl_bytes text, answer, kept;
    world_new(*state, "algorithm=scaffold", &w);
    says(&w, &w.card,
         (const char *[]){"A card:", "samples                            40", "1 x 1 x 4 f32 numbers",
                          "anyone with the same samples", "Not in it: samples, labels", NULL});
    says(&w, &w.terms,
         (const char *[]){"method                             scaffold", "parameters of the model            10",
                          "  | rounds: 3", NULL});
    accept_and_ask(&w);
    says(&w, &w.ask,
         (const char *[]){"An ask to client 0", "a turn of training in round 1: 6 steps of size 0.1", "  x  ",
                          "Its answer would have:", "x_i - x", NULL});
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    says(&w, &answer,
         (const char *[]){"all that leaves. Computed from its 40 training samples.", "x_i - x", "a vector of 10",
                          "40 bytes, norm ", "It took 6 steps", "a change, added", "what the client keeps: c_i", NULL});
    report_of(&w, &answer, FLI_OUTCOME_BYTES - 1, FL_EFORMAT);
    report_of(&w, &answer, FLI_OUTCOME_BYTES, FL_OK);
    report_of(&w, &answer, FLI_OUTCOME_BYTES + 5000, FL_EFORMAT);
    assert_ok(w.ctx, fl_client_state(w.client, &kept));
    assert_fails(w.ctx, fl_client_describe(w.client, kept.data, kept.n, &text), FL_EFORMAT, "stays where it is");
    fl_bytes_free(&answer);
    fl_bytes_free(&kept);
    world_free(&w);
}

static void figures_in_words(void **state)
{
    world w;
    fl_bytes answer;
    world_new(*state, "metrics={train: true, gradient: true, test: false}", &w);
    accept_and_ask(&w);
    says(&w, &w.ask,
         (const char *[]){"It asks how a model does on this client's samples",
                          "wanted: loss and hits on the training samples", "wanted: the gradient", NULL});
    assert_ok(w.ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    says(&w, &answer,
         (const char *[]){"by evaluation", "training samples                   40", "objective on training samples",
                          "gradient ", NULL});
    fl_bytes_free(&answer);
    world_free(&w);
}

/* ---- a solver of its own ------------------------------------------------------------------------------------- */

static int count_it(void *calls, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    (void)l, (void)p, (void)z, (void)out, (void)f;
    ++*(int *)calls;
    return 0;
}

/* A client of one's own settings, with as many samples as client_new's. */
static fl_client *client_with_solver(fixture *f, const char *solver, fl_status status, const char *sentence)
{
    static const float x[SAMPLES * DIM];
    static const int32_t y[SAMPLES];
    char set[64];
    fl_samples train = {.size = sizeof train, .n = SAMPLES, .dim = DIM, .f32 = x, .label = y, .classes = 2};
    fl_client *c = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    snprintf(set, sizeof set, "local.solver=%s", solver);
    assert_ok(f->ctx, fl_config_data(cfg, &train, NULL, NULL));
    assert_ok(f->ctx, fl_config_set(cfg, set));
    if (status)
        assert_fails(f->ctx, fl_client_new(cfg, &c), status, sentence);
    else
        assert_ok(f->ctx, fl_client_new(cfg, &c));
    fl_config_free(cfg);
    return c;
}

/* Nobody but the client knows of it; the server's terms say sgd. */
static void solver_of_its_own(void **state)
{
    fixture *f = *state;
    world w;
    int calls = 0;
    fl_bytes answer;
    fl_solver s = {.size = sizeof s, .name = "tally", .arg = &calls, .solve = count_it};
    client_with_solver(f, "tally", FL_ECONFIG, "local.solver is tally, which is not registered");
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
    world_new(f, NULL, &w);
    fl_client_free(w.client);
    w.client = client_with_solver(f, "tally", FL_OK, NULL);
    accept_and_ask(&w);
    assert_ok(f->ctx, fl_client_work(w.client, w.ask.data, w.ask.n, &answer));
    assert_int_equal(calls, 1);
    fl_bytes_free(&answer);
    world_free(&w);
    world_new(f, "algorithm=fedgia", &w); /* solves its problems otherwise */
    fl_client_free(w.client);
    w.client = client_with_solver(f, "tally", FL_OK, NULL);
    assert_fails(f->ctx, fl_client_accept(w.client, w.terms.data, w.terms.n), FL_ECONFIG, "no other solver");
    world_free(&w);
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "tally"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(limited_turns),       FIXTURE_TEST(limited_terms),
                                       FIXTURE_TEST(stopped_turns),       FIXTURE_TEST(lost_states),
                                       FIXTURE_TEST(foreign_state),       FIXTURE_TEST(terms_with_files),
                                       FIXTURE_TEST(files_of_the_server), FIXTURE_TEST(in_words),
                                       FIXTURE_TEST(figures_in_words),    FIXTURE_TEST(solver_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
