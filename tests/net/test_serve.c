/* A federation served over HTTP gives the simulation's bits, whatever else knocks at its door. */
#include "net/federation.h"

#include "base/os.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- raw connections ----------------------------------------------------------------------------------------- */

/* Sends bytes and reads until the other side closes or an answer's head is there; its code, 0: none. */
static int raw(const federation *t, const char *bytes, size_t n)
{
    char answer[4096];
    size_t got = 0;
    int code = 0, fd = dial(t);
    (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    for (ssize_t k; got < sizeof answer - 1 && (k = recv(fd, answer + got, sizeof answer - 1 - got, 0)) > 0;) {
        got += (size_t)k;
        answer[got] = 0;
        if (strstr(answer, "\r\n\r\n")) break;
    }
    close(fd);
    if (got > 12 && !strncmp(answer, "HTTP/1.1 ", 9)) code = atoi(answer + 9);
    return code;
}

static int raw_text(const federation *t, const char *text) { return raw(t, text, strlen(text)); }

#define HEAD "Host: localhost\r\nFedloom-Protocol: 1 1\r\nFedloom-Client: client-0\r\n"

/* ---- what should work ---------------------------------------------------------------------------------------- */

static void end_well(federation *t, member *m, size_t from)
{
    same_as_simulated(t);
    tell_all(t);
    members_end(m, from);
    serve_down(t);
}

static void whole_run(void **state)
{
    federation t;
    member m[CLIENTS];
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    members_join(&t, m);
    m[1].twice = 1;
    members_start(m, 0);
    same_as_simulated(&t);
    tell_all(&t);
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(m[i].thread, NULL);
        assert_int_equal(m[i].last, 410);
        assert_true(m[i].well);
        member_fini(&m[i]);
    }
    serve_down(&t);
}

/* One thread plays everybody: answers up to `most` asks, 0: until the run has ended. */
static void play(federation *t, member *m, size_t most)
{
    for (size_t n = 0; (!most || n < most) && !fli_serve_wait(t->serve, 0.001);)
        for (size_t i = 0; i < CLIENTS && (!most || n < most); i++) {
            fl_bytes answer;
            if (call(&m[i].call, FLI_NET_ASK, NULL, 0) != 200) continue;
            member_work(&m[i], &answer);
            long code = call(&m[i].call, FLI_NET_ANSWER, answer.data, answer.n);
            assert_true(code == 200 || code == 409);
            fl_bytes_free(&answer);
            n++;
        }
}

/* A client knows that the run is over when it has confirmed it, and a server that starts again knows who has. */
static void who_has_heard(void **state)
{
    static const char over[] = "{\"over\": true}";
    federation t;
    member m[CLIENTS];
    char settings[600], folder[600];
    const char *first;
    fixture *f = *state;
    federation_init(&t, f, "");
    snprintf(settings, sizeof settings, "output=%s/told;checkpoint_every=1", f->folder);
    snprintf(folder, sizeof folder, "%s/told.server", f->folder);
    serve_up(&t, settings, (fli_serve_options){0});
    members_join(&t, m);
    assert_int_equal(call(&m[0].call, FLI_NET_ALIVE, over, sizeof over - 1), 200); /* it cannot know yet */
    for (size_t i = 0; i < CLIENTS; i++) member_accept(&m[i]);
    play(&t, m, 0);
    same_as_simulated(&t);
    assert_ok(f->ctx, fl_run_save(fli_serve_run(t.serve)));
    fli_serve_finish(t.serve);
    for (size_t i = 0; i < CLIENTS; i++) assert_int_equal(call(&m[i].call, FLI_NET_ASK, NULL, 0), 410);
    assert_int_equal(fli_serve_unacknowledged(t.serve, 0, NULL, NULL, &first), CLIENTS);
    assert_string_equal(first, "client-0");
    for (size_t i = 0; i < CLIENTS; i++)
        if (i != 2) member_hear(&m[i]);
    member_hear(&m[3]); /* again */
    assert_int_equal(fli_serve_unacknowledged(t.serve, 0, NULL, NULL, &first), 1);
    assert_string_equal(first, "client-2");
    serve_down(&t);
    serve_up(&t, settings, (fli_serve_options){0});
    for (int i = 0; i < 100 && !fli_serve_wait(t.serve, 0.1); i++) continue;
    fli_serve_finish(t.serve);
    assert_int_equal(fli_serve_unacknowledged(t.serve, 0, NULL, NULL, &first), 1);
    assert_int_equal(call(&m[2].call, FLI_NET_ASK, NULL, 0), 410);
    member_hear(&m[2]);
    assert_true(m[2].well);
    tell_all(&t);
    assert_int_equal(access(folder, F_OK), -1);
    serve_down(&t);
    for (size_t i = 0; i < CLIENTS; i++) member_fini(&m[i]);
}

/* Phases, everybody, two precisions: the messages differ. */
static void other_methods(void **state)
{
    static const char *const settings[] = {"algorithm=fedlin;participation=everyone;precision=f64",
                                           "algorithm={kind: fedbuff, buffer: 2};participation=everyone;rounds=6;"
                                           "system={kind: lognormal, step_seconds: 1}"};
    for (size_t k = 0; k < 2; k++) {
        federation t;
        member m[CLIENTS];
        federation_init(&t, *state, settings[k]);
        serve_up(&t, settings[k], (fli_serve_options){0});
        members_join(&t, m);
        members_start(m, 0);
        end_well(&t, m, 0);
    }
}

/* A server that starts again knows who has joined, and begins without waiting for anybody. */
static void restart_before_begin(void **state)
{
    federation t;
    member m[CLIENTS];
    char settings[200];
    fixture *f = *state;
    federation_init(&t, f, "");
    snprintf(settings, sizeof settings, "output=%s/out", f->folder);
    serve_up(&t, settings, (fli_serve_options){0});
    for (uint32_t i = 0; i < CLIENTS - 1; i++) {
        member_init(&m[i], &t, i);
        member_join(&m[i]);
    }
    serve_down(&t);
    serve_up(&t, settings, (fli_serve_options){0});
    member_init(&m[CLIENTS - 1], &t, CLIENTS - 1);
    member_join(&m[CLIENTS - 1]);
    member_join(&m[2]); /* again: nothing happens */
    serve_down(&t);
    serve_up(&t, settings, (fli_serve_options){0});
    members_start(m, 0);
    end_well(&t, m, 0);
}

/* A server that ends in the middle of a round asks for that round again, and the result has the same bits. */
static void restart_in_a_round(void **state)
{
    federation t;
    char settings[200];
    fixture *f = *state;
    federation_init(&t, f, "");
    for (size_t step = 1; step < 12; step += 3) {
        member m[CLIENTS];
        snprintf(settings, sizeof settings, "output=%s/out%zu;checkpoint_every=1", f->folder, step);
        serve_up(&t, settings, (fli_serve_options){0});
        members_join(&t, m);
        for (size_t i = 0; i < CLIENTS; i++) member_accept(&m[i]);
        for (int k = 0; k < 3; k++) {
            play(&t, m, step);
            serve_down(&t);
            serve_up(&t, settings, (fli_serve_options){0});
        }
        play(&t, m, 0);
        same_as_simulated(&t);
        assert_ok(f->ctx, fl_run_save(fli_serve_run(t.serve)));
        serve_down(&t); /* before anybody was told */
        serve_up(&t, settings, (fli_serve_options){0});
        int paused;
        for (int i = 0; i < 100 && !fli_serve_wait(t.serve, 0.1); i++) continue;
        assert_ok(f->ctx, fli_serve_ending(t.serve, &paused));
        assert_false(paused);
        assert_null(fli_serve_run(t.serve)); /* it was saved before */
        members_start(m, 0);
        tell_all(&t);
        for (size_t i = 0; i < CLIENTS; i++) pthread_join(m[i].thread, NULL);
        for (size_t i = 0; i < CLIENTS; i++) assert_int_equal(m[i].last, 410);
        for (size_t i = 0; i < CLIENTS; i++) member_fini(&m[i]);
        serve_down(&t);
    }
}

static void listed_names(void **state)
{
    federation t;
    member m[CLIENTS];
    char list[200];
    fixture *f = *state;
    federation_init(&t, f, "");
    snprintf(list, sizeof list, "%s", fixture_write(f, "names", "client-0\nclient-1\nclient-2\nclient-3\nclient-4\n"));
    serve_up(&t, "", (fli_serve_options){.roster = list});
    for (uint32_t i = CLIENTS; i-- > 0;) { /* whatever the order of joining */
        member_init(&m[i], &t, i);
        member_join(&m[i]);
    }
    members_start(m, 0);
    end_well(&t, m, 0);
}

static void one_waits_for_another(void **state)
{
    federation t;
    member m[CLIENTS];
    caller second;
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    for (uint32_t i = 0; i < CLIENTS; i++) member_init(&m[i], &t, i);
    for (uint32_t i = 0; i < CLIENTS - 1; i++) member_join(&m[i]);
    assert_int_equal(call(&m[0].call, FLI_NET_ASK, NULL, 0), 204);
    assert_int_equal(call(&m[0].call, FLI_NET_TERMS "?wait=0", NULL, 0), 204);
    assert_int_equal(call(&m[0].call, FLI_NET_ASK "?wait=1", NULL, 0), 204);
    for (size_t i = 0; i < CLIENTS - 1; i++) assert_int_equal(pthread_create(&m[i].thread, NULL, member_go, &m[i]), 0);
    caller_init(&second, t.base, "client-0");
    assert_int_equal(call(&second, FLI_NET_ASK "?wait=1", NULL, 0), 204);
    caller_fini(&second);
    member_join(&m[CLIENTS - 1]);
    members_start(m, CLIENTS - 1);
    end_well(&t, m, 0);
}

/* ---- what should not ----------------------------------------------------------------------------------------- */

static void incompatible_clients_are_told_to_upgrade(void **state)
{
    federation t;
    caller c;
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    caller_init(&c, t.base, "client-0");
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 200);
    assert_non_null(strstr(c.body, "\"shape\":[6]"));
    assert_non_null(strstr(c.body, "\"method\":\"scaffold\""));
    assert_non_null(strstr(c.body, "\"you\":{\"name\":\"client-0\",\"client\":null}"));
    c.version = "2 1";
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 200);
    c.version = "7 6";
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 426);
    assert_non_null(strstr(c.head, "\r\nUpgrade: fedloom/1\r\n"));
    assert_non_null(strstr(c.body, "protocol 7 (6 at least), this one 1 (1 at least)"));
    c.version = "one";
    assert_int_equal(call(&c, FLI_NET_ASK, NULL, 0), 426);
    assert_int_equal(call(&c, FLI_NET_STATUS, NULL, 0), 200);
    caller_fini(&c);
    serve_down(&t);
}

/* What ended a run may name files and clients of the server: clients hear what kind of thing it was. */
static void failed_run(void **state)
{
    static const char settings[] = "local.lr=1e30;model.weight_decay=1";
    federation t;
    member m[CLIENTS];
    int paused;
    federation_init(&t, *state, "");
    serve_up(&t, settings, (fli_serve_options){0});
    members_join(&t, m);
    members_start(m, 0);
    for (int i = 0; i < 600 && !fli_serve_wait(t.serve, 0.1); i++) continue;
    assert_int_equal(fli_serve_ending(t.serve, &paused), FL_EDIVERGED);
    assert_false(paused);
    fli_serve_finish(t.serve);
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(m[i].thread, NULL);
        assert_int_equal(call(&m[i].call, FLI_NET_HEALTH, NULL, 0), 503);
        assert_string_equal(m[i].call.body, "the run diverged\n");
        assert_int_equal(call(&m[i].call, FLI_NET_ASK, NULL, 0), 410);
        assert_non_null(strstr(m[i].call.body, "\"ok\": false, \"reason\": \"the run diverged\"}"));
        member_fini(&m[i]);
    }
    serve_down(&t);
}

static void bad_requests(void **state)
{
    federation t;
    caller c;
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    caller_init(&c, t.base, "client-0");
    assert_int_equal(call(&c, "/v1/nothing", NULL, 0), 404);
    assert_int_equal(call(&c, FLI_NET_JOIN, NULL, 0), 405);
    assert_non_null(strstr(c.head, "\r\nAllow: POST\r\n"));
    assert_int_equal(call(&c, FLI_NET_FEDERATION, "x", 1), 405);
    assert_non_null(strstr(c.head, "\r\nAllow: GET, HEAD\r\n"));
    assert_int_equal(call(&c, FLI_NET_ASK, NULL, 0), 409);
    assert_non_null(strstr(c.body, "\"join\": true"));
    assert_int_equal(call(&c, FLI_NET_JOIN, "this is no card", 15), 400);
    c.name = "../secret";
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 403);
    caller_fini(&c);
    assert_int_equal(raw_text(&t, "GET /v1/federation HTTP/1.1\r\nHost: localhost\r\nFedloom-Protocol: 1 1\r\n\r\n"),
                     403);
    assert_int_equal(raw_text(&t, "GET /v1/federation HTTP/1.1\r\nHost: evil.example\r\nFedloom-Protocol: 1 1\r\n"
                                  "Fedloom-Client: a\r\n\r\n"),
                     403);
    assert_int_equal(raw_text(&t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    assert_int_equal(raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "Content-Length: 70000\r\n\r\n"), 413);
    assert_int_equal(raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "Content-Length: 18446744073709551615\r\n\r\n"),
                     413);
    assert_int_equal(
        raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"), 411);
    assert_int_equal(raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "\r\n"), 411);
    assert_int_equal(raw_text(&t, "GET /v1/federation HTTP/1.1\r\n" HEAD "Content-Length: 5\r\n\r\nhello"), 413);
    assert_int_equal(
        raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}       "), 400);
    int code = raw_text(&t, "POST /v1/join HTTP/1.1\r\n" HEAD "Content-Length: -5\r\n\r\n");
    assert_true(code == 413 || code == 400 || code == 0);
    serve_down(&t);
}

/* Bytes that mean nothing, and long ones, must not do harm; the server still answers afterwards. */
static void garbage_does_no_harm(void **state)
{
    federation t;
    fli_rng r;
    char *bytes = malloc(100000);
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (int k = 0; k < 40; k++) {
        size_t n = 1 + (size_t)(fli_rng_uniform(&r) * (k < 30 ? 300 : 99999));
        for (size_t i = 0; i < n; i++) bytes[i] = (char)(fli_rng_uniform(&r) * 256);
        memcpy(bytes + n - (n > 4 ? 4 : n), "\r\n\r\n", n > 4 ? 4 : n);
        if (k % 3 == 0 && n > 40) memcpy(bytes, "POST /v1/join HTTP/1.1\r\nContent-Length: ", 40);
        int fd = dial(&t);
        (void)!send(fd, bytes, n, MSG_NOSIGNAL);
        close(fd);
    }
    memset(bytes, 'a', 100000);
    memcpy(bytes, "GET /", 5);
    (void)raw(&t, bytes, 100000);
    assert_int_equal(raw_text(&t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    free(bytes);
    serve_down(&t);
}

static void who_cannot_join(void **state)
{
    federation t;
    member m[CLIENTS], odd;
    fl_bytes card;
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    member_init(&odd, &t, 0);
    fl_config *cfg = fl_config_new(odd.ctx);
    fl_samples wide = samples_of(&t, 0, 1);
    wide.dim = DIM / 2;
    fl_client *client;
    assert_ok(odd.ctx, fl_config_data(cfg, &wide, NULL, NULL));
    assert_ok(odd.ctx, fl_client_new(cfg, &client));
    assert_ok(odd.ctx, fl_client_card(client, 0, &card));
    snprintf(odd.name, sizeof odd.name, "odd");
    assert_int_equal(call(&odd.call, FLI_NET_JOIN, card.data, card.n), 409);
    fl_bytes_free(&card);
    fl_client_free(client);
    fl_config_free(cfg);
    members_join(&t, m); /* who was turned away has no number: these get theirs */
    assert_ok(odd.ctx, fl_client_card(odd.client, 0, &card));
    assert_int_equal(call(&odd.call, FLI_NET_JOIN, card.data, card.n), 409);
    assert_non_null(strstr(odd.call.body, "all 5 places"));
    fl_bytes_free(&card);
    assert_ok(odd.ctx, fl_client_card(odd.client, 1, &card));
    snprintf(odd.name, sizeof odd.name, "client-0");
    assert_int_equal(call(&odd.call, FLI_NET_JOIN, card.data, card.n), 409);
    assert_non_null(strstr(odd.call.body, "another card"));
    fl_bytes_free(&card);
    member_fini(&odd);
    members_start(m, 0);
    end_well(&t, m, 0);
}

/* An answer that was tampered with, cut, belongs to another client or an old round: refused, and nothing changes. */
static void bad_answers(void **state)
{
    static const char everyone[] = "participation=everyone";
    federation t;
    member m[CLIENTS];
    fl_bytes answer;
    federation_init(&t, *state, everyone);
    serve_up(&t, everyone, (fli_serve_options){0});
    members_join(&t, m);
    members_start(m, 1);
    member_accept(&m[0]);
    caller *c = &m[0].call;
    while (call(c, FLI_NET_ASK "?wait=20", NULL, 0) != 200) continue;
    char *ask = malloc(c->n);
    size_t n = c->n;
    memcpy(ask, c->body, n);
    assert_int_equal(call(c, FLI_NET_ASK "?wait=20", NULL, 0), 200);
    assert_int_equal(c->n, n);
    assert_memory_equal(c->body, ask, n); /* delivered again until it is answered */
    free(ask);
    member_work(&m[0], &answer);
    unsigned char *longer = calloc(answer.n + 1, 1);
    memcpy(longer, answer.data, answer.n);
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, answer.n - 1), 400);
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, 10), 400);
    assert_int_equal(call(c, FLI_NET_ANSWER, "", 0), 400);
    assert_int_equal(call(c, FLI_NET_ANSWER, longer, answer.n + 1), 400);
    longer[answer.n / 2] ^= 4;
    assert_int_equal(call(c, FLI_NET_ANSWER, longer, answer.n), 400);
    c->name = "client-1";
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, answer.n), 409);
    c->name = m[0].name;
    assert_int_equal(call(c, FLI_NET_ALIVE, "{\"number\": 0}", 13), 200);
    assert_string_equal(c->body, "{\"wanted\": true}\n");
    assert_int_equal(call(c, FLI_NET_ALIVE, "{\"number\": 999999}", 18), 200);
    assert_string_equal(c->body, "{\"wanted\": false}\n");
    assert_int_equal(call(c, FLI_NET_REFUSE, "{\"number\": 999999, \"reason\": \"x\"}", 33), 409);
    assert_int_equal(call(c, FLI_NET_REFUSE, "[[[[", 4), 400);
    assert_int_equal(call(c, FLI_NET_REFUSE, "{\"reason\": \"x\"}", 15), 400);
    assert_int_equal(call(c, FLI_NET_REFUSE, "{\"number\": -1, \"reason\": \"x\"}", 29), 400);
    assert_int_equal(call(c, FLI_NET_REFUSE, "{\"number\": 0, \"reason\": \"x\"}", 28), 200);
    assert_int_equal(raw_text(&t, "POST /v1/answer HTTP/1.1\r\n" HEAD "Content-Length: 99999999999\r\n\r\n"), 413);
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, answer.n), 200);
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, answer.n), 200);
    while (call(c, FLI_NET_ASK "?wait=20", NULL, 0) != 200) continue;
    fl_bytes second;
    member_work(&m[0], &second);
    assert_int_equal(call(c, FLI_NET_ANSWER, second.data, second.n), 200);
    assert_int_equal(call(c, FLI_NET_ANSWER, answer.data, answer.n), 409); /* of an old ask */
    fl_bytes_free(&answer);
    fl_bytes_free(&second);
    free(longer);
    assert_int_equal(pthread_create(&m[0].thread, NULL, member_go, &m[0]), 0);
    end_well(&t, m, 0);
}

/* Hundreds of connections that say nothing, half a request, or half a body; some go away in the middle of it. */
static void silent_connections_do_no_harm(void **state)
{
    enum { SILENT = 300 };
    static const char half[] = "GET /v1/ask?wait=9 HTTP/1.1\r\nHost: loc";
    static const char body[] = "POST /v1/join HTTP/1.1\r\nHost: localhost\r\nFedloom-Protocol: 1 1\r\n"
                               "Fedloom-Client: mallory\r\nContent-Length: 500\r\n\r\nabc";
    static const char poll[] = "GET /v1/ask?wait=60 HTTP/1.1\r\n" HEAD "\r\n";
    federation t;
    member m[CLIENTS];
    int fd[SILENT];
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    for (size_t i = 0; i < SILENT; i++) {
        const char *text = i % 4 == 1 ? half : i % 4 == 2 ? body : i % 4 == 3 ? poll : "";
        fd[i] = dial(&t);
        (void)!send(fd[i], text, strlen(text), MSG_NOSIGNAL);
        if (i % 5 == 0) close(fd[i]), fd[i] = -1;
    }
    members_join(&t, m);
    for (size_t i = 0; i < SILENT; i += 3)
        if (fd[i] >= 0) (void)!send(fd[i], body, strlen(body), MSG_NOSIGNAL);
    members_start(m, 0);
    same_as_simulated(&t);
    tell_all(&t);
    members_end(m, 0);
    serve_down(&t); /* with most of them still open */
    for (size_t i = 0; i < SILENT; i++)
        if (fd[i] >= 0) close(fd[i]);
}

/* The last code; the server's threads may have other things to do first. */
static long join_until(member *m, const fl_bytes *card, long code)
{
    long got = 0;
    for (double end = fli_clock_now() + 30; got != code && fli_clock_now() < end;)
        got = call(&m->call, FLI_NET_JOIN, card->data, card->n);
    return got;
}

/* Bodies that together have no room are told to come again. */
static void no_room(void **state)
{
    federation t;
    member m[CLIENTS];
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){.bodies = 3000});
    int fd = dial(&t);
    static const char most[] = "POST /v1/join HTTP/1.1\r\n" HEAD "Content-Length: 2990\r\n\r\n";
    assert_int_equal(send(fd, most, strlen(most), MSG_NOSIGNAL), strlen(most));
    member_init(&m[0], &t, 0);
    fl_bytes card;
    assert_ok(m[0].ctx, fl_client_card(m[0].client, 0, &card));
    assert_int_equal(join_until(&m[0], &card, 503), 503);
    close(fd);
    assert_int_equal(join_until(&m[0], &card, 200), 200);
    fl_bytes_free(&card);
    member_fini(&m[0]);
    serve_down(&t);
}

static void keep_failure(void *text, const char *line)
{
    if (strstr(line, "event=upload-failed ")) snprintf(text, 512, "%s", line);
}

/* Reads what the server says until `word` has come. */
static void expect(int fd, const char *word)
{
    char text[4096] = "";
    for (size_t n = 0; !strstr(text, word); text[n] = 0) {
        ssize_t k = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (k <= 0) fail_msg("the server does not say %s, but %s", word, text);
        n += (size_t)k;
    }
}

/* The disk is full when half of an answer has been written: the server logs where and why, the client is told to come
 * again, and what it brings then is taken as if nothing had been before. */
static void full_disk(void **state)
{
    federation t;
    member m[CLIENTS];
    fl_bytes answer;
    struct rlimit before;
    char line[512] = "", head[400];
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    federation_init(&t, *state, "participation=everyone");
    serve_up(&t, "participation=everyone;server.memory=1",
             (fli_serve_options){.log = {.line = keep_failure, .arg = line}});
    members_join(&t, m);
    member_accept(&m[0]);
    while (call(&m[0].call, FLI_NET_ASK "?wait=20", NULL, 0) != 200) continue;
    member_work(&m[0], &answer);
    snprintf(head, sizeof head,
             "POST " FLI_NET_ANSWER " HTTP/1.1\r\n" HEAD "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
             answer.n);
    int fd = dial(&t);
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    expect(fd, "100 Continue"); /* there was room */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){answer.n / 2, before.rlim_max}), 0);
    assert_int_equal(send(fd, answer.data, answer.n, MSG_NOSIGNAL), answer.n);
    expect(fd, "503 ");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    close(fd);
    assert_non_null(strstr(line, "client=0 name=client-0 reason=\"/"));
    assert_non_null(strstr(line, "File too large"));
    assert_int_equal(call(&m[0].call, FLI_NET_ANSWER, answer.data, answer.n), 200);
    assert_string_equal(m[0].call.body, "{\"taken\": true}\n");
    fl_bytes_free(&answer);
    members_start(m, 0);
    end_well(&t, m, 0);
}

/* Every wrong request that every page can have, in whatever phase. */
static void ask_all_wrongly(const federation *t)
{
    static const char *const pages[][2] = {
        {"GET", FLI_NET_FEDERATION},
        {"POST", FLI_NET_JOIN},
        {"GET", FLI_NET_TERMS},
        {"GET", FLI_NET_ASK},
        {"POST", FLI_NET_ANSWER},
        {"POST", FLI_NET_REFUSE},
        {"POST", FLI_NET_ALIVE},
        {"GET", FLI_NET_STATUS},
        {"GET", FLI_NET_HEALTH},
        {"GET", FLI_NET_METRICS},
        {"GET", "/"},
        {"GET", "/status.css"},
        {"GET", "/status.js"},
    };
    static const char *const rest[] = {
        HEAD "\r\n",
        HEAD "Content-Length: 2\r\n\r\n{}",
        HEAD "Content-Length: 99999999999\r\n\r\n",
        HEAD "Content-Length: x\r\n\r\n",
        HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Host: localhost\r\nFedloom-Protocol: 1 1\r\nFedloom-Client: nobody\r\nContent-Length: 0\r\n\r\n",
        "Host: localhost\r\nFedloom-Protocol: 1 1\r\nFedloom-Client: ../a\r\nContent-Length: 0\r\n\r\n",
        "Host: localhost\r\nFedloom-Protocol: 9 9\r\nFedloom-Client: client-0\r\nContent-Length: 0\r\n\r\n",
        "Host: example.org\r\nFedloom-Protocol: 1 1\r\nFedloom-Client: client-0\r\nContent-Length: 0\r\n\r\n",
        "Host: localhost\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++) {
            char text[600];
            snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%s", pages[i][0], pages[i][1], rest[k]);
            int code = raw_text(t, text);
            assert_true(code > 0);
            assert_listed(pages[i][0], pages[i][1], code);
        }
}

static void wrong_requests_get_documented_statuses(void **state)
{
    federation t;
    member m[CLIENTS];
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    ask_all_wrongly(&t);
    members_join(&t, m);
    for (size_t i = 0; i < CLIENTS; i++) member_accept(&m[i]);
    ask_all_wrongly(&t);
    play(&t, m, 0);
    same_as_simulated(&t);
    fli_serve_finish(t.serve);
    ask_all_wrongly(&t);
    for (size_t i = 0; i < CLIENTS; i++) member_fini(&m[i]);
    serve_down(&t);
}

static void what_cannot_be_served(void **state)
{
    federation t;
    fixture *f = *state;
    fli_serve *s;
    federation_init(&t, f, "");
    fl_config *cfg = server_config(&t, "");
    fli_serve_options o = {.listen = "127.0.0.1:0"};
    assert_fails(f->ctx, fli_serve_new(f->ctx, cfg, &o, &s), FL_ECONFIG, "a server needs certificates");
    o = (fli_serve_options){.listen = "0.0.0.0:0", .insecure = 1};
    assert_fails(f->ctx, fli_serve_new(f->ctx, cfg, &o, &s), FL_ECONFIG, "plain HTTP is for addresses of this machine");
    o = (fli_serve_options){.listen = ":0", .certs = "/nowhere", .insecure = 1};
    assert_fails(f->ctx, fli_serve_new(f->ctx, cfg, &o, &s), FL_ECONFIG, "exclude each other");
    o = (fli_serve_options){.listen = "127.0.0.1:http", .insecure = 1};
    assert_fails(f->ctx, fli_serve_new(f->ctx, cfg, &o, &s), FL_ECONFIG, "no HOST:PORT");
    fl_config_free(cfg);
}

static void drain_before_begin(void **state)
{
    federation t;
    int paused;
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    fli_serve_drain(t.serve);
    for (int i = 0; i < 100 && !fli_serve_wait(t.serve, 0.1); i++) continue;
    assert_ok(t.f->ctx, fli_serve_ending(t.serve, &paused));
    assert_true(paused);
    assert_null(fli_serve_run(t.serve));
    serve_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(whole_run),
                                       FIXTURE_TEST(who_has_heard),
                                       FIXTURE_TEST(other_methods),
                                       FIXTURE_TEST(restart_before_begin),
                                       FIXTURE_TEST(restart_in_a_round),
                                       FIXTURE_TEST(listed_names),
                                       FIXTURE_TEST(one_waits_for_another),
                                       FIXTURE_TEST(incompatible_clients_are_told_to_upgrade),
                                       FIXTURE_TEST(failed_run),
                                       FIXTURE_TEST(bad_requests),
                                       FIXTURE_TEST(garbage_does_no_harm),
                                       FIXTURE_TEST(who_cannot_join),
                                       FIXTURE_TEST(bad_answers),
                                       FIXTURE_TEST(silent_connections_do_no_harm),
                                       FIXTURE_TEST(no_room),
                                       FIXTURE_TEST(full_disk),
                                       FIXTURE_TEST(wrong_requests_get_documented_statuses),
                                       FIXTURE_TEST(what_cannot_be_served),
                                       FIXTURE_TEST(drain_before_begin)};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
