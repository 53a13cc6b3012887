/* The same over HTTPS: a client is who its certificate says, and nobody else gets in. */
#include "net/secured.h"

#include "net/client/http_client.h"

static void whole_run(void **state)
{
    secured s;
    member m[CLIENTS];
    secured_up(&s, *state);
    members_certified(&s, m);
    members_start(m, 0);
    same_as_simulated(&s.t);
    tell_all(&s.t);
    members_end(m, 0);
    serve_down(&s.t);
}

static void who_gets_in(void **state)
{
    secured s;
    caller c;
    fixture *f = *state;
    char foreign[300];
    size_t count;
    secured_up(&s, f);
    caller_init(&c, s.t.base, "client-0");
    show(&c, &s, "client-0", s.ca);
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 200);
    assert_non_null(strstr(c.body, "\"name\":\"client-0\""));
    *c.certs = 0; /* no certificate */
    caller_anew(&c);
    long code = call(&c, FLI_NET_FEDERATION, NULL, 0);
    assert_true(code == 403 || code == 0);
    snprintf(foreign, sizeof foreign, "%.200s", fixture_path(f, "foreign"));
    assert_ok(f->ctx, fli_cert_init(f->ctx, foreign, "foreign", 10));
    assert_ok(f->ctx, fli_cert_client(f->ctx, foreign, "client-0", (fli_cert_wish){5, 0}));
    show(&c, &s, "client-0", foreign);
    caller_anew(&c);
    code = call(&c, FLI_NET_FEDERATION, NULL, 0);
    assert_true(code == 403 || code == 0);
    assert_ok(f->ctx, fli_cert_client(f->ctx, s.ca, "old", (fli_cert_wish){-1, 0}));
    show(&c, &s, "old", s.ca);
    caller_anew(&c);
    code = call(&c, FLI_NET_FEDERATION, NULL, 0);
    assert_true(code == 403 || code == 0);
    show(&c, &s, "client-1", s.ca);
    caller_anew(&c);
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 200);
    assert_ok(f->ctx, fli_cert_revoke(f->ctx, s.ca, "client-1", &count));
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 403); /* also over a connection that is open */
    assert_non_null(strstr(c.body, "revoked"));
    caller_fini(&c);
    serve_down(&s.t);
}

/* Log lines that say that something is wrong, and is tried again. */
static void count_wrong(void *count, const char *line) { *(int *)count += strstr(line, "event=wrong ") != NULL; }

/* A server whose certificate is of another authority may get the right one: a client tries again for a while. */
static void waits_for_the_right_certificate(void **state)
{
    secured s;
    fixture *f = *state;
    char foreign[300], ca[400], cert[400], key[400];
    int wrong = 0;
    fli_http_answer r;
    secured_up(&s, f);
    snprintf(foreign, sizeof foreign, "%.200s", fixture_path(f, "foreign"));
    assert_ok(f->ctx, fli_cert_init(f->ctx, foreign, "foreign", 10));
    assert_ok(f->ctx, fli_cert_client(f->ctx, foreign, "client-0", (fli_cert_wish){5, 0}));
    snprintf(ca, sizeof ca, "%s/clients/client-0/ca.pem", foreign);
    snprintf(cert, sizeof cert, "%s/clients/client-0/cert.pem", foreign);
    snprintf(key, sizeof key, "%s/clients/client-0/key.pem", foreign);
    const fli_http_call_spec spec = {.url = s.t.base, .ca_path = ca, .cert_path = cert, .key_path = key};
    const fli_net_log log = {.line = count_wrong, .arg = &wrong};
    fli_retry line = {.ctx = f->ctx, .log = &log, .patience = 0.3};
    fli_http_backoff_init(&line.backoff);
    assert_ok(f->ctx, fli_http_call_new(f->ctx, &spec, &line.call));
    assert_fails(f->ctx, fli_retry_get(&line, FLI_NET_FEDERATION, -1, 1000, &r), FL_EREFUSED, "certificate");
    assert_int_equal(wrong, 1);
    fli_http_call_free(line.call);
    serve_down(&s.t);
}

/* Clients take part, viewers look on, and neither does what the other does; all see whether it is well. */
static void who_looks_on(void **state)
{
    static const char *const seen[] = {FLI_NET_STATUS, FLI_NET_METRICS, "/", "/status.css", "/status.js"};
    static const char *const got[] = {FLI_NET_FEDERATION, FLI_NET_TERMS, FLI_NET_ASK};
    static const char *const posted[] = {FLI_NET_JOIN, FLI_NET_ANSWER, FLI_NET_REFUSE, FLI_NET_ALIVE};
    secured s;
    caller viewer, client;
    fixture *f = *state;
    size_t count;
    secured_up(&s, f);
    assert_ok(f->ctx, fli_cert_viewer(f->ctx, s.ca, "client-0", (fli_cert_wish){5, 0})); /* called as a client is */
    caller_init(&client, s.t.base, "client-0");
    show(&client, &s, "client-0", s.ca);
    caller_init(&viewer, s.t.base, "client-0");
    show_viewer(&viewer, &s, "client-0", s.ca);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        assert_int_equal(call(&viewer, seen[i], NULL, 0), 200);
        assert_int_equal(call(&client, seen[i], NULL, 0), 403);
        assert_non_null(strstr(client.body, "the certificate of client-0 is a client's, and this page is for viewers"));
    }
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) {
        assert_int_equal(call(&viewer, got[i], NULL, 0), 403);
        assert_non_null(strstr(viewer.body, "the certificate of client-0 is a viewer's, and this page is for clients"));
        assert_int_not_equal(call(&client, got[i], NULL, 0), 403);
    }
    for (size_t i = 0; i < sizeof posted / sizeof *posted; i++)
        assert_int_equal(call(&viewer, posted[i], "{}", 2), 403);
    assert_int_equal(call(&viewer, FLI_NET_HEALTH, NULL, 0), 200);
    assert_int_equal(call(&client, FLI_NET_HEALTH, NULL, 0), 200);
    assert_ok(f->ctx, fli_cert_revoke(f->ctx, s.ca, "client-0", &count));
    assert_int_equal(count, 2); /* both of that name */
    assert_int_equal(call(&viewer, FLI_NET_STATUS, NULL, 0), 403);
    caller_fini(&viewer);
    caller_fini(&client);
    serve_down(&s.t);
}

/* Bytes that are no handshake, and connections that say nothing, beside one that works. */
static void garbage_leaves_other_connections_working(void **state)
{
    secured s;
    caller c;
    int fd[60];
    secured_up(&s, *state);
    for (size_t i = 0; i < 60; i++) {
        static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03rubbish";
        const char *text = i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : i % 3 == 1 ? hello : "";
        fd[i] = dial(&s.t);
        (void)!send(fd[i], text, i % 3 == 1 ? sizeof hello : strlen(text), MSG_NOSIGNAL);
    }
    caller_init(&c, s.t.base, "client-0");
    show(&c, &s, "client-0", s.ca);
    assert_int_equal(call(&c, FLI_NET_FEDERATION, NULL, 0), 200);
    caller_fini(&c);
    serve_down(&s.t);
    for (size_t i = 0; i < 60; i++) close(fd[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(whole_run), FIXTURE_TEST(who_gets_in),
                                       FIXTURE_TEST(waits_for_the_right_certificate), FIXTURE_TEST(who_looks_on),
                                       FIXTURE_TEST(garbage_leaves_other_connections_working)};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
