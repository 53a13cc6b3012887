/* The bytes of the protocol, held to captures: a federation of SCAFFOLD whose arithmetic is exact, so that it has the
 * same bytes on every machine. What differs is either a bug, or a change that needs a new version of the protocol. */
#include "fixture.h"

#include "fedloom_halves.h"
#include "half/client.h"
#include "remote/packet.h"

#include <math.h>

enum { N = 2, DIM = 4, CLASSES = 2, SAMPLES = 4 };

/* Softmax of two classes from 0 gives 1/2 exactly; samples are powers of two, and so are steps and batches. */
static const char settings[] = "rounds: 1\nthreads: 1\nmodel: softmax\nalgorithm: scaffold\nparticipation: everyone\n"
                               "local: {steps: 1, batch: 4, lr: 0.5}\nmetrics: {train: false, test: false}\n"
                               "data: {kind: joined, shape: [4], classes: 2, normalize: none}\n"
                               "partition: {clients: 2}\n";

static fl_client *client_new(fl_ctx *ctx, uint32_t i)
{
    fl_client *c;
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F32, SAMPLES, DIM, CLASSES, &ds));
    for (size_t k = 0; k < SAMPLES * DIM; k++) ((float *)ds->x)[k] = ldexpf(1, (int)(k * k + 3 * i) % 5 - 2);
    for (size_t k = 0; k < SAMPLES; k++) ds->label[k] = (k + i) % 3 == 0;
    assert_ok(ctx, fli_client_with(ctx, ds, 0, &c));
    return c;
}

/* The message is the capture of that name, to the last byte. */
static void assert_capture(const char *name, const fl_bytes *is)
{
    char path[512];
    unsigned char was[4096];
    snprintf(path, sizeof path, TEST_ROOT "/unit/remote/captures/%s.bin", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(was, 1, sizeof was, f);
    fclose(f);
    assert_int_equal(is->n, n);
    assert_memory_equal(is->data, was, n);
}

/* Each client's turn: its ask, its answer, and what the client keeps then. */
static void assert_turn(fixture *f, fl_client *client, uint32_t who, const fl_bytes *ask, const fl_bytes *answer)
{
    char name[32];
    fl_bytes state;
    assert_ok(f->ctx, fl_client_state(client, &state));
    snprintf(name, sizeof name, "ask%u", who);
    assert_capture(name, ask);
    snprintf(name, sizeof name, "answer%u", who);
    assert_capture(name, answer);
    snprintf(name, sizeof name, "state%u", who);
    assert_capture(name, &state);
    fl_bytes_free(&state);
}

/* All exchanges. Asks to measure are answered too, but a loss need not be the same everywhere. */
static size_t turns(fixture *f, fl_server *server, fl_client *const *client)
{
    size_t n = 0;
    fl_status s;
    uint32_t who;
    fl_bytes ask, answer;
    while (!(s = fl_server_next(server, 10, &who, &ask))) {
        fli_packet p;
        fl_ask is;
        assert_ok(f->ctx, fli_packet_read(f->ctx, FLI_PACKET_ASK, ask.data, ask.n, &p));
        fli_ask_read(p.head, &is);
        assert_ok(f->ctx, fl_client_work(client[who], ask.data, ask.n, &answer));
        if (is.kind == FLI_ASK_TURN) {
            assert_turn(f, client[who], who, &ask, &answer);
            n++;
        }
        assert_ok(f->ctx, fl_server_answer(server, who, answer.data, answer.n));
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    assert_int_equal(s, FL_EDONE);
    return n;
}

static void messages_match_the_captured_bytes(void **state)
{
    fixture *f = *state;
    fl_server *server;
    fl_client *client[N];
    fl_bytes bytes;
    fl_config *cfg = fixture_config(f, settings);
    assert_ok(f->ctx, fl_server_new(cfg, &server));
    fl_config_free(cfg);
    for (uint32_t i = 0; i < N; i++) {
        client[i] = client_new(f->ctx, i);
        assert_ok(f->ctx, fl_client_card(client[i], 1, &bytes));
        if (!i) assert_capture("card", &bytes);
        assert_ok(f->ctx, fl_server_join(server, i, bytes.data, bytes.n));
        fl_bytes_free(&bytes);
    }
    assert_ok(f->ctx, fl_server_begin(server));
    for (uint32_t i = 0; i < N; i++) {
        assert_ok(f->ctx, fl_server_terms(server, i, &bytes));
        if (!i) assert_capture("terms", &bytes);
        assert_ok(f->ctx, fl_client_accept(client[i], bytes.data, bytes.n));
        fl_bytes_free(&bytes);
    }
    assert_int_equal(turns(f, server, client), N);
    fl_server_free(server);
    for (size_t i = 0; i < N; i++) fl_client_free(client[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(messages_match_the_captured_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
