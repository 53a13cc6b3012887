/* The server's half under bad manners: messages that are late, damaged or somebody else's, clients that are lost, and
 * ends at any moment, also with many threads inside. */
#include "fixture.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "fedloom_extend.h"
#include "fedloom_halves.h"
#include "client/card.h"
#include "remote/packet.h"
#include "half/client.h"
#include "half/server.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N = 3, DIM = 4, SAMPLES = 10 };

#define SERVER                                                                                                         \
    "rounds: 3\nthreads: 1\nmodel: softmax\nprecision: f64\nparticipation: everyone\nlocal: {batch: 3, lr: 0.1}\n"     \
    "data: {kind: joined, shape: [4], classes: 2}\npartition: {clients: 3}\n"

typedef struct {
    fixture *f;
    fl_server *server;
    fl_client *client[N];
    fl_bytes card[N];
} world;

static fl_client *client_new(fl_ctx *ctx, uint32_t i, size_t dim, size_t classes)
{
    fl_client *c;
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, SAMPLES + i, dim, classes, &ds));
    for (size_t k = 0; k < ds->n * dim; k++) ((double *)ds->x)[k] = (double)((k * 7 + i) % 11) / 5 - 1;
    for (size_t k = 0; classes && k < ds->n; k++) ds->label[k] = (int32_t)((k + i) % classes);
    assert_ok(ctx, fli_client_with(ctx, ds, 1, &c));
    return c;
}

static void world_new(fixture *f, const char *assignment, world *w)
{
    fl_config *cfg = fixture_config(f, SERVER);
    *w = (world){.f = f};
    if (assignment) assert_ok(f->ctx, fl_config_set(cfg, assignment));
    assert_ok(f->ctx, fl_server_new(cfg, &w->server));
    fl_config_free(cfg);
    for (uint32_t i = 0; i < N; i++) {
        w->client[i] = client_new(f->ctx, i, DIM, 2);
        assert_ok(f->ctx, fl_client_card(w->client[i], 0, &w->card[i]));
    }
}

static void join_all(world *w)
{
    for (uint32_t i = 0; i < N; i++) assert_ok(w->f->ctx, fl_server_join(w->server, i, w->card[i].data, w->card[i].n));
}

static void begin(world *w)
{
    join_all(w);
    assert_ok(w->f->ctx, fl_server_begin(w->server));
    for (uint32_t i = 0; i < N; i++) {
        fl_bytes terms;
        assert_ok(w->f->ctx, fl_server_terms(w->server, i, &terms));
        assert_ok(w->f->ctx, fl_client_accept(w->client[i], terms.data, terms.n));
        fl_bytes_free(&terms);
    }
}

static void world_free(world *w)
{
    fl_server_free(w->server);
    for (size_t i = 0; i < N; i++) {
        fl_client_free(w->client[i]);
        fl_bytes_free(&w->card[i]);
    }
}

/* The next ask, answered but not handed in. */
static uint32_t take(world *w, fl_bytes *ask, fl_bytes *answer)
{
    uint32_t who;
    assert_ok(w->f->ctx, fl_server_next(w->server, 10, &who, ask));
    assert_true(ask->n > 0 && who < N);
    assert_ok(w->f->ctx, fl_client_work(w->client[who], ask->data, ask->n, answer));
    return who;
}

static fl_status finish(world *w)
{
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(w->server, 10, &who, &ask))) {
        assert_ok(w->f->ctx, fl_client_work(w->client[who], ask.data, ask.n, &answer));
        assert_ok(w->f->ctx, fl_server_answer(w->server, who, answer.data, answer.n));
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    return s;
}

/* A copy with a change at one place, and the checksum of the whole put right. */
static unsigned char *forged(const fl_bytes *b, size_t at, uint64_t value, size_t bytes)
{
    unsigned char *copy = memcpy(malloc(b->n), b->data, b->n), *all = malloc(b->n - 4);
    fli_put_u64(copy + at, value, bytes);
    memcpy(all, copy, 12);
    memcpy(all + 12, copy + 16, b->n - 16);
    fli_put_u64(copy + 12, fli_crc32c(all, b->n - 4), 4);
    free(all);
    return copy;
}

/* ---- settings --------------------------------------------------------------------------------------------- */

static void refuse(fixture *f, const char *assignment, const char *sentence)
{
    fl_server *s = NULL;
    fl_config *cfg = fixture_config(f, SERVER);
    assert_ok(f->ctx, fl_config_set(cfg, assignment));
    assert_fails(f->ctx, fl_server_new(cfg, &s), FL_ECONFIG, sentence);
    fl_config_free(cfg);
}

static void a_server_refuses_impossible_settings(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    refuse(f, "data={kind: blobs}", "it must be joined");
    refuse(f, "data.normalize=standard", "the server has none");
    refuse(f, "data.shape=[1, 2]", "data.shape has 2 numbers");
    refuse(f, "partition.clients=0", "partition.clients must say");
    refuse(f, "executor=loopback", "executor is loopback");
    refuse(f, "partition={kind: dirichlet, clients: 3, alpha: 0.1}", "partition.kind is dirichlet");
    refuse(f, "local.lr=-1", "local.lr");
    fl_config *cfg = fixture_config(f, SERVER);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "fl_server_new");
    fl_config_free(cfg);
    fl_server *s = NULL;
    cfg = fixture_config(f, SERVER "output: x\ncheckpoint_every: 2\n");
    assert_fails(f->ctx, fl_server_new(cfg, &s), FL_ECONFIG, "checkpoint_every is 2");
    fl_config_free(cfg);
}

/* ---- joining ----------------------------------------------------------------------------------------------- */

static void a_server_checks_who_joins(void **state)
{
    world w;
    uint32_t who;
    fl_bytes out;
    world_new(*state, NULL, &w);
    fl_ctx *ctx = w.f->ctx;
    assert_int_equal(fl_server_missing(w.server), N);
    assert_fails(ctx, fl_server_begin(w.server), FL_ECONFIG, "3 of 3 clients");
    assert_fails(ctx, fl_server_next(w.server, 0, &who, &out), FL_ECONFIG, "has not begun");
    assert_fails(ctx, fl_server_terms(w.server, 0, &out), FL_ECONFIG, "has not begun");
    assert_fails(ctx, fl_server_answer(w.server, 0, "", 0), FL_ECONFIG, "has not begun");
    assert_fails(ctx, fl_server_lost(w.server, 0, "x"), FL_ECONFIG, "has not begun");
    assert_null(fl_server_run(w.server));
    assert_fails(ctx, fl_server_join(w.server, N, w.card[0].data, w.card[0].n), FL_EMISMATCH, "no client 3");
    assert_fails(ctx, fl_server_join(w.server, 0, w.card[0].data, w.card[0].n - 1), FL_EFORMAT, "cut short");
    assert_fails(ctx, fl_server_join(w.server, 0, NULL, 0), FL_EFORMAT, "cut short");
    assert_non_null(strstr(fl_server_error(w.server), "no card of a client"));
    assert_ok(ctx, fl_server_join(w.server, 0, w.card[0].data, w.card[0].n));
    assert_ok(ctx, fl_server_join(w.server, 0, w.card[0].data, w.card[0].n));
    assert_int_equal(fl_server_missing(w.server), N - 1);
    assert_fails(ctx, fl_server_join(w.server, 0, w.card[1].data, w.card[1].n), FL_EMISMATCH, "another card");
    fl_client *wide = client_new(ctx, 1, DIM + 1, 2), *numbers = client_new(ctx, 1, DIM, 0);
    assert_ok(ctx, fl_client_card(wide, 1, &out));
    assert_fails(ctx, fl_server_join(w.server, 1, out.data, out.n), FL_EMISMATCH, "another shape");
    fl_bytes_free(&out);
    assert_ok(ctx, fl_client_card(numbers, 1, &out));
    assert_fails(ctx, fl_server_join(w.server, 1, out.data, out.n), FL_EMISMATCH, "no labels");
    fl_bytes_free(&out);
    fl_client_free(wide);
    fl_client_free(numbers);
    begin(&w);
    assert_fails(ctx, fl_server_begin(w.server), FL_ECONFIG, "begun already");
    assert_int_equal(finish(&w), FL_EDONE);
    assert_int_equal(fl_run_round(fl_server_run(w.server)), 3);
    assert_int_equal(finish(&w), FL_EDONE);
    world_free(&w);
}

/* A client with more classes than the federation, and terms for somebody else's samples. */
static void clients_check_terms_and_asks(void **state)
{
    world w, other;
    fl_bytes terms, ask, answer;
    world_new(*state, NULL, &w);
    world_new(*state, "seed=2", &other);
    fl_ctx *ctx = w.f->ctx;
    begin(&other);
    assert_ok(ctx, fl_server_terms(other.server, 0, &terms));
    fl_client *odd = client_new(ctx, 0, DIM, 3), *wide = client_new(ctx, 0, DIM + 1, 2);
    assert_fails(ctx, fl_client_work(odd, "", 0, &answer), FL_ECONFIG, "not accepted");
    assert_fails(ctx, fl_client_accept(odd, terms.data, terms.n), FL_EMISMATCH,
                 "'2', but the labels of the federation are 0 to 1");
    assert_fails(ctx, fl_client_accept(wide, terms.data, terms.n), FL_EMISMATCH, "another shape");
    assert_fails(ctx, fl_client_accept(wide, terms.data, terms.n - 1), FL_EFORMAT, "cut short");
    fl_client_free(odd);
    fl_client_free(wide);
    begin(&w);
    assert_fails(ctx, fl_client_accept(w.client[0], terms.data, terms.n), FL_EMISMATCH, "other terms");
    uint32_t who = take(&w, &ask, &answer);
    fl_bytes_free(&answer);
    assert_fails(ctx, fl_client_work(other.client[who], ask.data, ask.n, &answer), FL_EFORMAT, "of another run");
    assert_fails(ctx, fl_client_work(w.client[(who + 1) % N], ask.data, ask.n, &answer), FL_EFORMAT, "another client");
    fl_bytes_free(&terms);
    fl_bytes_free(&ask);
    world_free(&w);
    world_free(&other);
}

/* What a program has handed over is not touched, also where it is refused. */
static void borrowed_labels(void **state)
{
    fixture *f = *state;
    world w;
    fl_bytes terms;
    fl_client *c;
    double x[3 * DIM] = {0};
    int32_t label[] = {1, 2, 0};
    fl_samples samples = {.size = sizeof samples, .n = 3, .dim = DIM, .f64 = x, .label = label, .classes = 3};
    fl_config *cfg = fl_config_new(f->ctx);
    world_new(f, NULL, &w);
    begin(&w);
    assert_ok(f->ctx, fl_server_terms(w.server, 0, &terms));
    assert_ok(f->ctx, fl_config_data(cfg, &samples, NULL, NULL));
    assert_ok(f->ctx, fl_client_new(cfg, &c));
    assert_fails(f->ctx, fl_client_accept(c, terms.data, terms.n), FL_EMISMATCH,
                 "'2', but the labels of the federation are 0 to 1");
    assert_true(label[0] == 1 && label[1] == 2 && label[2] == 0);
    fl_client_free(c);
    fl_config_free(cfg);
    fl_bytes_free(&terms);
    world_free(&w);
}

/* Labels as files write them; and samples that are not those of the card. */
#define FEW "0,1,2,3,cat\n1,1,0,2,dog\n2,0,1,1,cat\n"
static void class_names(void **state)
{
    fixture *f = *state;
    world w;
    fl_bytes terms;
    fl_client *c[3];
    static const char *const names[] = {"a.csv", "b.csv", "c.csv"};
    static const char *const files[] = {FEW FEW FEW "2,0,1,1,cat\n", "0,1,2,3,cat\n1,1,0,2,cow\n", FEW};
    world_new(f, "data.class_names=dog, cat", &w);
    begin(&w);
    assert_ok(f->ctx, fl_server_terms(w.server, 0, &terms));
    for (int i = 0; i < 3; i++) {
        char text[600];
        snprintf(text, sizeof text, "data: {kind: csv, train: %s, header: false, label: 4}\n",
                 fixture_write(f, names[i], files[i]));
        fl_config *cfg = fixture_config(f, text);
        assert_ok(f->ctx, fl_client_new(cfg, &c[i]));
        fl_config_free(cfg);
    }
    assert_ok(f->ctx, fl_client_labels(c[0], 2, (const char *const[]){"dog", "cat"}));
    assert_fails(f->ctx, fl_client_labels(c[0], 2, NULL), FL_EMISMATCH, "the labels of the federation are 0 to 1");
    assert_fails(f->ctx, fl_client_labels(c[1], 2, (const char *const[]){"dog", "cat"}), FL_EMISMATCH,
                 "'cow', but the classes of the federation are dog, cat");
    assert_ok(f->ctx, fl_client_labels(c[1], 0, NULL)); /* a regression: its server has a sentence for that */
    assert_ok(f->ctx, fl_client_accept(c[0], terms.data, terms.n));
    assert_fails(f->ctx, fl_client_labels(c[0], 2, NULL), FL_ECONFIG, "has joined a federation already");
    assert_fails(f->ctx, fl_client_accept(c[1], terms.data, terms.n), FL_EMISMATCH, "'cow'");
    assert_fails(f->ctx, fl_client_accept(c[2], terms.data, terms.n), FL_EMISMATCH,
                 "client 0 has 3 samples, but joined with 10");
    for (int i = 0; i < 3; i++) fl_client_free(c[i]);
    fl_bytes_free(&terms);
    world_free(&w);
}

static int contains(const fl_bytes *b, const void *what, size_t n)
{
    for (size_t i = 0; i + n <= b->n; i++)
        if (!memcmp(b->data + i, what, n)) return 1;
    return 0;
}

/* Neither what cohorts are drawn by, nor how many samples others have, leaves the server, in whatever form. */
static void what_clients_are_told(void **state)
{
    static const char digits[] = "98765432123";
    world w;
    fl_bytes out, answer;
    fli_packet p;
    fli_terms t;
    fl_ask ask;
    unsigned char number[8];
    fli_put_u64(number, 98765432123, 8);
    world_new(*state, "participation={kind: uniform, count: 2, seed: 98765432123}", &w);
    begin(&w);
    for (uint32_t i = 0; i < N; i++) {
        assert_ok(w.f->ctx, fl_server_terms(w.server, i, &out));
        assert_false(contains(&out, digits, strlen(digits)) || contains(&out, number, sizeof number));
        assert_ok(w.f->ctx, fli_packet_read(w.f->ctx, FLI_PACKET_TERMS, out.data, out.n, &p));
        assert_ok(w.f->ctx, fli_terms_read(w.f->ctx, p.body, p.body_bytes, &t));
        assert_int_equal(t.samples, SAMPLES + i);
        assert_int_equal(t.before, 0);
        fli_terms_fini(&t);
        fl_bytes_free(&out);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t who = take(&w, &out, &answer);
        assert_false(contains(&out, digits, strlen(digits)) || contains(&out, number, sizeof number));
        fli_ask_read(out.data + 80, &ask);
        assert_true(isnan(ask.weight)); /* n_i / n, and a client knows its n_i */
        assert_ok(w.f->ctx, fl_server_answer(w.server, who, answer.data, answer.n));
        fl_bytes_free(&out);
        fl_bytes_free(&answer);
    }
    assert_int_equal(finish(&w), FL_EDONE);
    world_free(&w);
}

/* Which run it is goes by the cards of all: with a secret beside them nobody finds those of others by trying. */
static void which_run(void **state)
{
    static const char *const settings[] = {"participation.seed=5", "participation.seed=6", "participation.seed=5"};
    unsigned char run[3][32];
    for (int i = 0; i < 3; i++) {
        world w;
        fl_bytes terms;
        world_new(*state, settings[i], &w);
        begin(&w);
        assert_ok(w.f->ctx, fl_server_terms(w.server, 1, &terms));
        memcpy(run[i], terms.data + 48, sizeof run[i]);
        fl_bytes_free(&terms);
        world_free(&w);
    }
    assert_memory_not_equal(run[0], run[1], sizeof run[0]);
    assert_memory_equal(run[0], run[2], sizeof run[0]);
}

/* The first client's ask would always have the smallest number of a round, and the last one's the largest. */
static void numbers_of_asks(void **state)
{
    enum { ROUNDS = 3 };
    uint32_t ascending = 0;
    for (int secret = 0; secret < 2; secret++) {
        world w;
        fl_bytes ask, answer;
        uint64_t number[N], last = 0;
        ascending = 0;
        world_new(*state, secret ? "participation.seed=5" : "participation.seed=0", &w);
        begin(&w);
        for (int t = 0; t < ROUNDS * 2 + 1; t++) { /* measurements, of all as well, are between them */
            uint64_t largest = last;
            for (uint32_t i = 0; i < N; i++) {
                uint32_t who = take(&w, &ask, &answer);
                fli_get_u64(ask.data + 16, &number[who], 8);
                assert_true(number[who] > last && number[who] <= last + N);
                if (number[who] > largest) largest = number[who];
                assert_ok(w.f->ctx, fl_server_answer(w.server, who, answer.data, answer.n));
                fl_bytes_free(&ask);
                fl_bytes_free(&answer);
            }
            ascending += number[0] < number[1] && number[1] < number[2];
            last = largest;
        }
        assert_int_equal(finish(&w), FL_EDONE);
        world_free(&w);
        if (!secret) assert_int_equal(ascending, ROUNDS * 2 + 1);
    }
    assert_true(ascending < ROUNDS * 2 + 1);
}

/* ---- answers ----------------------------------------------------------------------------------------------- */

static void only_the_awaited_answer_counts(void **state)
{
    world w;
    fl_bytes ask, answer, late;
    world_new(*state, NULL, &w);
    fl_ctx *ctx = w.f->ctx;
    begin(&w);
    uint32_t who = take(&w, &ask, &answer);
    fl_bytes_free(&ask);
    uint32_t next = take(&w, &ask, &late);
    assert_int_not_equal(who, next);
    for (size_t n = 0; n < answer.n; n += n < 100 ? 1 : 37)
        assert_int_equal(fl_server_answer(w.server, who, answer.data, n), FL_EFORMAT);
    for (size_t at = 0; at < answer.n; at++) {
        answer.data[at] ^= 4;
        assert_int_equal(fl_server_answer(w.server, who, answer.data, answer.n), FL_EFORMAT);
        answer.data[at] ^= 4;
    }
    assert_fails(ctx, fl_server_answer(w.server, next, answer.data, answer.n), FL_EMISMATCH, "of client");
    assert_fails(ctx, fl_server_answer(w.server, who, ask.data, ask.n), FL_EFORMAT, "another kind");
    unsigned char *older = forged(&answer, 8, 1, 2);
    assert_fails(ctx, fl_server_answer(w.server, who, older, answer.n), FL_EFORMAT,
                 "it is of version 1 of the format, and this is 2");
    free(older);
    unsigned char *number = forged(&answer, 16, 999, 8), *run = forged(&answer, 48, 1, 8);
    unsigned char *status = forged(&answer, 80 + 16, 77, 4), *silent = forged(&answer, 80 + 16, FL_EIO, 4);
    assert_fails(ctx, fl_server_answer(w.server, who, number, answer.n), FL_EMISMATCH, "not awaited");
    assert_fails(ctx, fl_server_answer(w.server, who, run, answer.n), FL_EMISMATCH, "another run");
    assert_fails(ctx, fl_server_answer(w.server, who, status, answer.n), FL_EFORMAT, "is impossible");
    assert_fails(ctx, fl_server_answer(w.server, who, silent, answer.n), FL_EFORMAT, "more than was asked for");
    assert_ok(ctx, fl_server_answer(w.server, who, answer.data, answer.n));
    assert_fails(ctx, fl_server_answer(w.server, who, answer.data, answer.n), FL_EMISMATCH, "not awaited");
    assert_fails(ctx, fl_server_lost(w.server, who, "x"), FL_EMISMATCH, "is awaited");
    assert_ok(ctx, fl_server_answer(w.server, next, late.data, late.n));
    assert_int_equal(finish(&w), FL_EDONE);
    assert_fails(ctx, fl_server_answer(w.server, next, late.data, late.n), FL_EMISMATCH, "not awaited");
    free(number);
    free(run);
    free(status);
    free(silent);
    fl_bytes_free(&ask);
    fl_bytes_free(&answer);
    fl_bytes_free(&late);
    world_free(&w);
}

/* Figures that cannot be are refused before they count: the right ones may still come. */
static void impossible_figures(void **state)
{
    world w;
    fl_bytes ask, answer;
    world_new(*state, NULL, &w);
    fl_ctx *ctx = w.f->ctx;
    begin(&w);
    uint32_t who = take(&w, &ask, &answer); /* the start model is measured first */
    uint64_t head, names;                   /* bytes of them */
    fli_get_u64(answer.data + 28, &head, 4);
    fli_get_u64(answer.data + 80 + head, &names, 8);
    for (size_t i = 0; i < 3; i++) {
        static const double odd[] = {-1, 0.5, NAN};
        uint64_t bits;
        memcpy(&bits, &odd[i], sizeof bits);
        unsigned char *bad = forged(&answer, (size_t)(80 + head + 8 + names), bits, 8);
        assert_fails(ctx, fl_server_answer(w.server, who, bad, answer.n), FL_EFORMAT, "its figures are impossible");
        free(bad);
    }
    assert_ok(ctx, fl_server_answer(w.server, who, answer.data, answer.n));
    assert_int_equal(finish(&w), FL_EDONE);
    fl_bytes_free(&ask);
    fl_bytes_free(&answer);
    world_free(&w);
}

/* fl_log_fn */
static void keep_line(void *text, fl_log_level level, const char *line)
{
    (void)level;
    snprintf(text, 1000, "%s", line);
}

/* What fails at a client ends the run with the client's own words, made printable, or leaves it out, and is said in
 * them. */
static void failed(void **state, int ends)
{
    world w;
    char said[1000] = "";
    uint32_t who;
    fl_bytes ask, answer;
    world_new(*state, ends ? "server.failed=end" : NULL, &w);
    fl_ctx_on_log(w.f->ctx, keep_line, said);
    begin(&w);
    who = take(&w, &ask, &answer);
    const char why[] = "no\x1b[2J power\n";
    size_t n = 80 + 20 + sizeof why - 1;
    fl_bytes bad = {memcpy(malloc(n), answer.data, 80 + 20), n};
    fli_put_u64(bad.data + 28, 20 + sizeof why - 1, 4);
    fli_put_u64(bad.data + 32, 0, 8);
    memcpy(bad.data + 100, why, sizeof why - 1);
    unsigned char *bytes = forged(&bad, 80 + 16, FL_ESYSTEM, 4);
    assert_ok(w.f->ctx, fl_server_answer(w.server, who, bytes, n));
    if (ends)
        assert_fails(w.f->ctx, finish(&w), FL_ESYSTEM, "no?[2J power");
    else
        assert_int_equal(finish(&w), FL_EDONE);
    if (!ends) assert_non_null(strstr(said, "1 clients are not measured, such as client 0: no?[2J power"));
    fl_ctx_on_log(w.f->ctx, NULL, NULL);
    free(bad.data);
    free(bytes);
    fl_bytes_free(&ask);
    fl_bytes_free(&answer);
    world_free(&w);
}

static void failed_turn(void **state)
{
    failed(state, 0);
    failed(state, 1);
}

/* ---- states ------------------------------------------------------------------------------------------------ */

/* An ask that comes again gives the answer that it gave. One that builds on something else is refused, and the client
 * stays as it is. */
static void taken_again(fl_ctx *ctx, fl_client *c, const fl_bytes *ask, const fl_bytes *answer)
{
    fl_bytes before, after, again;
    uint64_t number;
    fli_get_u64(ask->data + 16, &number, 8);
    assert_ok(ctx, fl_client_state(c, &before));
    unsigned char *later = forged(ask, 40, number + 3, 8), *itself = forged(ask, 40, number, 8);
    assert_fails(ctx, fl_client_work(c, later, ask->n, &again), FL_EMISMATCH, "the server builds on its turn");
    assert_fails(ctx, fl_client_work(c, itself, ask->n, &again), FL_EFORMAT, "has taken that turn");
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, fl_client_work(c, ask->data, ask->n, &again));
        assert_int_equal(again.n, answer->n);
        assert_memory_equal(again.data, answer->data, again.n);
        fl_bytes_free(&again);
    }
    assert_ok(ctx, fl_client_state(c, &after));
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.data, before.data, after.n);
    fl_bytes_free(&before);
    fl_bytes_free(&after);
    free(later);
    free(itself);
}

static void client_state_can_be_restored(void **state)
{
    world w;
    fl_bytes ask, answer, kept;
    world_new(*state, "algorithm=scaffold", &w);
    fl_ctx *ctx = w.f->ctx;
    assert_fails(ctx, fl_client_state(w.client[0], &kept), FL_ECONFIG, "not accepted");
    begin(&w);
    uint32_t who;
    do { /* past the measurement at the start, which leaves no trace */
        who = take(&w, &ask, &answer);
        assert_ok(ctx, fl_server_answer(w.server, who, answer.data, answer.n));
        assert_ok(ctx, fl_client_state(w.client[who], &kept));
        if (kept.n < 400) fl_bytes_free(&kept), fl_bytes_free(&ask), fl_bytes_free(&answer);
    } while (!kept.n);
    assert_ok(ctx, fl_client_restore(w.client[who], kept.data, kept.n));
    taken_again(ctx, w.client[who], &ask, &answer);
    fl_bytes_free(&answer);
    fl_bytes_free(&ask);
    uint32_t other = (who + 1) % N;
    assert_fails(ctx, fl_client_restore(w.client[other], kept.data, kept.n), FL_EMISMATCH, "another client");
    fl_bytes_free(&kept);
    assert_ok(ctx, fl_client_state(w.client[other], &kept));
    for (size_t n = 0; n < kept.n; n++) assert_int_equal(fl_client_restore(w.client[other], kept.data, n), FL_EFORMAT);
    assert_ok(ctx, fl_client_restore(w.client[other], kept.data, kept.n));
    fl_bytes_free(&kept);
    assert_int_equal(finish(&w), FL_EDONE);
    world_free(&w);
}

/* Every allocation of a client fails once: it says so, or its answer does, and the next attempt succeeds. */
static fl_status attempt(fl_ctx *ctx, int what, fl_config *cfg, fl_client **c, const fl_bytes *in, fl_bytes *out)
{
    (void)ctx;
    switch (what) {
    case 0: return fl_client_new(cfg, c);
    case 1: return fl_client_card(*c, 1, out);
    case 2: return fl_client_accept(*c, in->data, in->n);
    case 3: return fl_client_state(*c, out);
    default: return fl_client_restore(*c, in->data, in->n);
    }
}

static void without_memory(void **state)
{
    fixture *f = *state;
    world w;
    fl_client *c = NULL;
    fl_bytes terms, out = {0};
    world_new(f, "algorithm=scaffold", &w);
    begin(&w);
    assert_ok(f->ctx, fl_server_terms(w.server, 0, &terms));
    fl_config *cfg = fixture_config(f, "data: {kind: blobs, classes: 2, features: 4, samples: 10, test_samples: 0}\n");
    for (int what = 0; what < 5; what++) {
        fl_bytes in = what == 2 ? terms : out, made = {0};
        size_t k = 0;
        for (fl_status s = FL_ENOMEM; s; assert_true(k < 2000)) {
            fli_ctx_fail_alloc(f->ctx, ++k);
            s = attempt(f->ctx, what, cfg, &c, &in, &made);
            fli_ctx_fail_alloc(f->ctx, 0);
            if (s) assert_int_equal(s, FL_ENOMEM);
            if (s) assert_null(made.data);
            fli_clear(f->ctx);
        }
        assert_true(k > 1);
        if (what != 2) fl_bytes_free(&out);
        out = what == 2 ? out : made;
    }
    fl_bytes_free(&out);
    fl_bytes_free(&terms);
    fl_client_free(c);
    fl_config_free(cfg);
    world_free(&w);
}

/* Samples that are known by their numbers alone, each client's from 0 on: mean (x - number)^2/2. */
static int by_number(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct, fl_failure *f)
{
    double sum = 0;
    (void)arg;
    (void)correct;
    (void)f;
    assert_true(b->dim == 0 && b->real == 8);
    *loss = 0;
    for (size_t i = 0; i < b->n; i++) {
        double d = *(const double *)x - b->sample[i];
        sum += d / (double)b->n;
        *loss += d * d / 2 / (double)b->n;
    }
    if (g) *(double *)g = sum;
    return 0;
}

static void numbers_alone(void **state)
{
    fixture *f = *state;
    fl_objective o = {.size = sizeof o, .name = "numbers", .title = "numbers", .parameters = 1, .batch = by_number};
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    fl_config *cfg = fixture_config(
        f, "rounds: 60\nthreads: 1\nmodel: numbers\nprecision: f64\nparticipation: everyone\nweights: uniform\n"
           "local: {batch: 0, lr: 0.2}\ndata: {kind: joined, shape: [0]}\npartition: {clients: 3}\n");
    world w = {.f = f};
    assert_ok(f->ctx, fl_server_new(cfg, &w.server));
    fl_config_free(cfg);
    for (uint32_t i = 0; i < N; i++) {
        fl_samples mine = {.size = sizeof mine, .n = 3 + 2 * (size_t)i};
        assert_non_null(cfg = fl_config_new(f->ctx));
        assert_ok(f->ctx, fl_config_data(cfg, &mine, NULL, NULL));
        assert_ok(f->ctx, fl_client_new(cfg, &w.client[i]));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_client_card(w.client[i], 1, &w.card[i]));
    }
    begin(&w);
    assert_int_equal(finish(&w), FL_EDONE);
    double x;
    assert_int_equal(fl_run_model(fl_server_run(w.server), &x, 1), 1);
    assert_near(x, 2, 1e-4); /* the mean of the clients' means 1, 2 and 3 */
    world_free(&w);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "numbers"));
}

/* ---- ends --------------------------------------------------------------------------------------------------- */

static void a_lost_client_ends_the_run(void **state)
{
    world w;
    uint32_t who, other;
    fl_bytes ask, answer;
    world_new(*state, NULL, &w);
    begin(&w);
    who = take(&w, &ask, &answer);
    fl_bytes_free(&ask);
    assert_ok(w.f->ctx, fl_server_lost(w.server, who, "its line went dead"));
    while (!fl_server_next(w.server, 10, &other, &ask)) fl_bytes_free(&ask);
    assert_fails(w.f->ctx, fl_server_next(w.server, 0, &other, &ask), FL_EIO, "its line went dead");
    assert_fails(w.f->ctx, fl_server_answer(w.server, who, answer.data, answer.n), FL_EMISMATCH, "not awaited");
    assert_non_null(fl_server_run(w.server));
    fl_bytes_free(&answer);
    world_free(&w);
}

static void a_server_stops_when_asked(void **state)
{
    for (int early = 0; early < 2; early++) {
        world w;
        world_new(*state, "rounds=100000", &w);
        if (early) fl_server_stop(w.server);
        begin(&w);
        fl_server_stop(w.server);
        assert_int_equal(finish(&w), FL_EDONE);
        assert_int_equal(fl_run_stopped_by(fl_server_run(w.server)), FL_STOP_ASKED);
        world_free(&w);
    }
}

/* The result of such a run is saved as any other. */
static void a_result_is_saved_once(void **state)
{
    fixture *f = *state;
    world w;
    char text[400];
    snprintf(text, sizeof text, "output=%s/result", f->folder);
    world_new(f, text, &w);
    begin(&w);
    assert_int_equal(finish(&w), FL_EDONE);
    fl_run *run = fl_server_run(w.server);
    assert_ok(f->ctx, fl_run_save(run));
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_EIO, "result");
    world_free(&w);
}

/* Freed before anybody joined, before it begins, before the first ask is taken, and with asks out. */
static void freed_at_any_moment(void **state)
{
    for (int moment = 0; moment < 6; moment++) {
        world w;
        fl_bytes ask, answer;
        world_new(*state, NULL, &w);
        if (moment == 1) join_all(&w);
        if (moment >= 2) begin(&w);
        for (int i = 3; i <= moment; i++) {
            uint32_t who = take(&w, &ask, &answer);
            if (i == 4) assert_ok(w.f->ctx, fl_server_answer(w.server, who, answer.data, answer.n));
            fl_bytes_free(&ask);
            fl_bytes_free(&answer);
        }
        world_free(&w);
    }
    fl_server_free(NULL);
    fl_client_free(NULL);
    fl_bytes_free(NULL);
}

/* Threads that take asks and never answer, answer rubbish, and wait; the server goes while they are inside. */
typedef struct {
    fl_server *server;
    atomic_int inside;
    atomic_int gone;
} crowd;

static void *mill_about(void *arg)
{
    crowd *c = arg;
    uint32_t who = 0;
    fl_bytes ask;
    atomic_fetch_add(&c->inside, 1);
    for (int i = 0; !atomic_load(&c->gone); i++) {
        if (!fl_server_next(c->server, 0.001, &who, &ask)) {
            if (i % 2 && ask.n) assert_int_not_equal(fl_server_answer(c->server, who, ask.data, ask.n), FL_OK);
            assert_int_not_equal(fl_server_answer(c->server, who % N, "x", 1), FL_OK);
            fl_bytes_free(&ask);
        } else {
            break;
        }
        if (fl_server_missing(c->server)) break;
        if (i == 5) fl_server_stop(c->server);
    }
    return NULL;
}

static void threads_may_call_at_once(void **state)
{
    enum { THREADS = 4 };
    for (int round = 0; round < 4; round++) {
        world w;
        pthread_t thread[THREADS];
        world_new(*state, round % 2 ? "algorithm=scaffold" : NULL, &w);
        begin(&w);
        crowd c = {.server = w.server};
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, mill_about, &c), 0);
        while (atomic_load(&c.inside) < THREADS) usleep(100);
        usleep(2000 * (unsigned)round);
        if (round > 1)
            for (uint32_t i = 0; i < N; i++) (void)fl_server_lost(w.server, i, "lost");
        atomic_store(&c.gone, 1); /* no thread begins another call; those that are inside leave */
        for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
        world_free(&w);
    }
}

/* A thread waits in fl_server_next for long; the server's end lets it go. */
static void *wait_long(void *arg)
{
    crowd *c = arg;
    uint32_t who;
    fl_bytes ask;
    atomic_store(&c->inside, 1);
    fl_status s = fl_server_next(c->server, 1000, &who, &ask);
    fl_bytes_free(&ask);
    return (void *)(uintptr_t)s;
}

static void waiters_leave(void **state)
{
    world w;
    pthread_t thread;
    uint32_t who;
    fl_bytes ask[N];
    void *status;
    world_new(*state, NULL, &w);
    begin(&w);
    for (size_t i = 0; i < N; i++) assert_ok(w.f->ctx, fl_server_next(w.server, 10, &who, &ask[i]));
    crowd c = {.server = w.server};
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &c), 0);
    while (!atomic_load(&c.inside)) usleep(100);
    usleep(20000); /* it is inside by now, or sees that it is over */
    assert_ok(w.f->ctx, fl_server_lost(w.server, who, "gone"));
    pthread_join(thread, &status);
    assert_int_equal((uintptr_t)status, FL_EIO);
    for (size_t i = 0; i < N; i++) fl_bytes_free(&ask[i]);
    world_free(&w);
}

/* On the real clock answers are taken as they come. */
static void real_clock(void **state)
{
    for (int early = 0; early < 2; early++) {
        world w;
        fl_bytes ask, answer;
        world_new(*state, NULL, &w);
        fl_server_free(w.server);
        fl_config *cfg = fixture_config(*state, SERVER "clock: real\nalgorithm: fedasync\n");
        assert_ok(w.f->ctx, fl_config_set(cfg, "rounds=20"));
        assert_ok(w.f->ctx, fl_server_new(cfg, &w.server));
        fl_config_free(cfg);
        begin(&w);
        for (int i = 0; early && i < 5; i++) {
            uint32_t who = take(&w, &ask, &answer);
            assert_ok(w.f->ctx, fl_server_answer(w.server, who, answer.data, answer.n));
            fl_bytes_free(&ask);
            fl_bytes_free(&answer);
        }
        if (!early) assert_int_equal(finish(&w), FL_EDONE);
        if (!early) assert_int_equal(fl_run_round(fl_server_run(w.server)), 20);
        world_free(&w);
    }
}

/* Clients that are sent one by one share the model's body between two server steps, and only then. */
static void asynchronous_bodies(void **state)
{
    enum { ASKS = 6 };
    static const int step[ASKS] = {0, 0, 0, 0, 1, 1}; /* before each ask; after the first three an answer comes in */
    world w;
    fli_ask_packet packet[ASKS];
    fl_bytes ask[ASKS], answer;
    uint32_t who[ASKS];
    int found;
    world_new(*state, NULL, &w);
    fl_server_free(w.server);
    fl_config *cfg = fixture_config(*state, SERVER "clock: real\nalgorithm: {kind: fedbuff, buffer: 2}\n"
                                                   "metrics: {every: 20}\n");
    assert_ok(w.f->ctx, fl_config_set(cfg, "rounds=20"));
    assert_ok(w.f->ctx, fl_server_new(cfg, &w.server));
    fl_config_free(cfg);
    begin(&w);
    for (uint32_t i = 0; i < N; i++) { /* of the start model's metrics */
        uint32_t measured = take(&w, &ask[0], &answer);
        assert_ok(w.f->ctx, fl_server_answer(w.server, measured, answer.data, answer.n));
        fl_bytes_free(&ask[0]);
        fl_bytes_free(&answer);
    }
    for (int i = 0; i < ASKS; i++) {
        if (i >= N) {
            assert_ok(w.f->ctx, fl_client_work(w.client[who[i - N]], ask[i - N].data, ask[i - N].n, &answer));
            assert_ok(w.f->ctx, fl_server_answer(w.server, who[i - N], answer.data, answer.n));
            fl_bytes_free(&answer);
        }
        assert_ok(w.f->ctx, fli_server_next(w.server, 10, &who[i], &found, &packet[i]));
        assert_true(found);
        fli_ask_packet copy = packet[i];
        atomic_fetch_add(&copy.body->users, 1);
        assert_ok(w.f->ctx, fli_ask_join(w.f->ctx, &copy, &ask[i]));
    }
    for (int i = 0; i < ASKS; i++)
        for (int j = 0; j < i; j++) {
            size_t n = packet[i].body->bytes.n;
            assert_int_equal(n, packet[j].body->bytes.n);
            assert_int_equal(packet[i].body == packet[j].body, step[i] == step[j]);
            assert_int_equal(!memcmp(packet[i].body->bytes.data, packet[j].body->bytes.data, n), step[i] == step[j]);
        }
    for (int i = 0; i < ASKS; i++) {
        fli_shared_body_release(packet[i].body);
        fl_bytes_free(&ask[i]);
    }
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_server_refuses_impossible_settings),
        FIXTURE_TEST(a_server_checks_who_joins),
        FIXTURE_TEST(clients_check_terms_and_asks),
        FIXTURE_TEST(borrowed_labels),
        FIXTURE_TEST(class_names),
        FIXTURE_TEST(what_clients_are_told),
        FIXTURE_TEST(which_run),
        FIXTURE_TEST(numbers_of_asks),
        FIXTURE_TEST(only_the_awaited_answer_counts),
        FIXTURE_TEST(impossible_figures),
        FIXTURE_TEST(failed_turn),
        FIXTURE_TEST(client_state_can_be_restored),
        FIXTURE_TEST(a_lost_client_ends_the_run),
        FIXTURE_TEST(a_server_stops_when_asked),
        FIXTURE_TEST(freed_at_any_moment),
        FIXTURE_TEST(threads_may_call_at_once),
        FIXTURE_TEST(waiters_leave),
        FIXTURE_TEST(real_clock),
        FIXTURE_TEST(asynchronous_bodies),
        FIXTURE_TEST(a_result_is_saved_once),
        FIXTURE_TEST(without_memory),
        FIXTURE_TEST(numbers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
