/* Calls to servers that are well, slow, wrong or somebody else. */
#include "context.h"
#include "fake_server.h"

#include "base/os.h"
#include "net/client/http_client.h"
#include "net/common/protocol.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\nFedloom-Protocol: 1 1\r\n"
#define OURS    "Fedloom-Protocol: 1 1\r\n"

static fli_http_call *open_call(context *c, const fake_server *s)
{
    fli_http_call *call = NULL;
    const fli_http_call_spec spec = {.url = s->url, .name = "ann", .plain = 1, .connect_s = 2, .stall_s = 1};
    assert_ok(c->ctx, fli_http_call_new(c->ctx, &spec, &call));
    return call;
}

/* One GET of at most 1000 bytes, answered like this. */
static fli_http_call_end get_once(context *c, fake_answer answer, fli_http_answer *r, char *why, size_t n)
{
    fake_server s;
    fake_start(&s, &answer, 1);
    fli_http_call *call = open_call(c, &s);
    fli_http_call_end end = fli_http_call_get(call, "/v1/ask", 0, 1000, r);
    snprintf(why, n, "%s", fli_http_call_why(call));
    fli_http_call_free(call);
    fake_stop(&s);
    return end;
}

#define assert_get(c, answer_, end_, code_, text)                                                                      \
    do {                                                                                                               \
        fli_http_answer r_;                                                                                            \
        char why_[600];                                                                                                \
        fli_http_call_end got_ = get_once(c, (fake_answer)answer_, &r_, why_, sizeof why_);                            \
        if (got_ != (end_)) fail_msg("ended with %d: %s", (int)got_, why_);                                            \
        if ((code_) && r_.code != (code_)) fail_msg("code %ld", r_.code);                                              \
        if (!strstr(why_, text)) fail_msg("\"%s\" lacks \"%s\"", why_, text);                                          \
    } while (0)
#define A(...)                                                                                                         \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static void answers_arrive(void **state)
{
    context *c = *state;
    static const fake_answer answers[] = {{OK_HEAD "Content-Length: 5\r\n\r\nhello"},
                                          {"HTTP/1.1 204 No Content\r\n" OURS "Content-Length: 0\r\n\r\n"},
                                          {OK_HEAD "Content-Length: 14\r\n\r\n{\"taken\":true}"}};
    fake_server s;
    fli_http_answer r;
    fake_start(&s, answers, 3);
    fli_http_call *call = open_call(c, &s);
    assert_int_equal(fli_http_call_get(call, "/v1/ask", 30, 1000, &r), FLI_CALL_DONE);
    assert_int_equal(r.code, 200);
    assert_string_equal((const char *)r.body, "hello");
    assert_true(fake_saw(&s, "GET /v1/ask?wait=30 HTTP/1.1\r\n"));
    assert_true(fake_saw(&s, "Fedloom-Protocol: 1 1\r\n"));
    assert_true(fake_saw(&s, "Fedloom-Client: ann\r\n"));
    assert_int_equal(fli_http_call_get(call, "/v1/terms", -1, 1000, &r), FLI_CALL_DONE);
    assert_int_equal(r.code, 204);
    assert_int_equal(r.n, 0);
    assert_true(fake_saw(&s, "GET /v1/terms HTTP/1.1\r\n"));
    assert_int_equal(fli_http_call_post(call, "/v1/answer", FLI_NET_PACKET, "a\0b", 3, &r), FLI_CALL_DONE);
    assert_true(fli_http_answer_flag(&r, "taken", 0));
    assert_false(fli_http_answer_flag(&r, "other", 0));
    assert_true(fake_saw(&s, "Content-Type: " FLI_NET_PACKET "\r\n"));
    assert_true(fake_saw(&s, "Content-Length: 3\r\n"));
    assert_false(fake_saw(&s, "100-continue"));
    fli_http_call_free(call);
    fake_stop(&s);
}

static void what_is_refused_and_what_comes_later(void **state)
{
    context *c = *state;
    static const struct {
        const char *status;
        fli_http_call_end end;
    } codes[] = {
        {"200 OK", FLI_CALL_DONE},       {"400 Bad", FLI_CALL_DONE},   {"409 Conflict", FLI_CALL_DONE},
        {"410 Gone", FLI_CALL_DONE},     {"413 Large", FLI_CALL_DONE}, {"422 Screened", FLI_CALL_DONE},
        {"401 Who", FLI_CALL_WRONG},     {"403 No", FLI_CALL_WRONG},   {"404 Where", FLI_CALL_WRONG},
        {"426 Upgrade", FLI_CALL_WRONG}, {"408 Slow", FLI_CALL_AGAIN}, {"429 Much", FLI_CALL_AGAIN},
        {"500 Oh", FLI_CALL_AGAIN},      {"503 Away", FLI_CALL_AGAIN}, {"302 There", FLI_CALL_WRONG},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "HTTP/1.1 %s\r\n" OURS "Location: http://127.0.0.1:1/\r\nContent-Length: 23\r\n\r\n"
                 "{\"error\":\"so\\u0007 it\"}",
                 codes[i].status);
        assert_get(c, A(text), codes[i].end, atol(codes[i].status), i > 5 && i < 14 ? "so? it" : "");
    }
}

/* What a server says of when to come again; days and nonsense count for nothing. */
static void retry_after_is_read_as_seconds(void **state)
{
    static const struct {
        const char *said;
        unsigned seconds;
    } bad[] = {{"Retry-After: 7\r\n", 7},
               {"retry-after:  12 \r\n", 12},
               {"Retry-After: -1\r\n", 0},
               {"Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", 0},
               {"Retry-After: 123456789012\r\n", 0},
               {"Retry-After: 7 s\r\n", 0},
               {"Retry-Afterwards: 7\r\n", 0},
               {"", 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300], why[600];
        fli_http_answer r;
        snprintf(text, sizeof text, "HTTP/1.1 503 Away\r\n" OURS "%sContent-Length: 0\r\n\r\n", bad[i].said);
        assert_int_equal(get_once(*state, (fake_answer){text}, &r, why, sizeof why), FLI_CALL_AGAIN);
        assert_int_equal(r.retry, bad[i].seconds);
    }
}

/* A client does not come before that. */
static void comes_later(void **state)
{
    context *c = *state;
    static const fake_answer answers[] = {{"HTTP/1.1 503 Away\r\n" OURS "Retry-After: 1\r\nContent-Length: 0\r\n\r\n"},
                                          {OK_HEAD "Content-Length: 5\r\n\r\nhello"}};
    fake_server s;
    fli_http_answer r;
    fli_net_log log = {0};
    fake_start(&s, answers, 2);
    fli_retry retry = {.ctx = c->ctx, .call = open_call(c, &s), .log = &log};
    fli_http_backoff_init(&retry.backoff);
    double begun = fli_clock_now();
    assert_ok(c->ctx, fli_retry_get(&retry, "/v1/ask", 0, 1000, &r));
    assert_true(fli_clock_now() - begun >= 1);
    assert_int_equal(r.code, 200);
    assert_int_equal(r.retry, 0);
    fli_http_call_free(retry.call);
    fake_stop(&s);
}

typedef struct {
    int wrong; /* lines that say that something is wrong, and is tried again */
    char last[600];
} said;

static void hear(void *arg, const char *line)
{
    said *s = arg;
    s->wrong += strstr(line, "event=wrong ") != NULL;
    snprintf(s->last, sizeof s->last, "%s", line);
}

#define REFUSED(json) "HTTP/1.1 403 Forbidden\r\n" OURS "Content-Length: " json

/* What a call that is tried again makes of these answers, with a certificate that holds by this machine's clock or
 * not. */
static fl_status retried(context *c, const fake_answer *answers, size_t n, int holds, double patience, said *heard)
{
    fake_server s;
    fli_http_answer r;
    int64_t now = (int64_t)time(NULL);
    fli_net_log log = {.line = hear, .arg = heard};
    *heard = (said){0};
    fake_start(&s, answers, n);
    const fli_http_call_spec spec = {.url = s.url,
                                     .name = "ann",
                                     .plain = 1,
                                     .connect_s = 2,
                                     .stall_s = 1,
                                     .begins = now - 1000,
                                     .ends = holds ? now + 1000 : now - 1};
    fli_retry retry = {.ctx = c->ctx, .log = &log, .patience = patience};
    fli_http_backoff_init(&retry.backoff);
    assert_ok(c->ctx, fli_http_call_new(c->ctx, &spec, &retry.call));
    fl_status status = fli_retry_get(&retry, "/v1/ask", 0, 1000, &r);
    fli_http_call_free(retry.call);
    fake_stop(&s);
    return status;
}

/* A server whose clock is wrong for a moment, and what else may pass. */
/* How many seconds from now on it is tried again. */
static double seconds_until(const said *heard)
{
    struct tm t = {0};
    const char *at = strstr(heard->last, "event=wrong until=");
    if (!at || !strptime(at + strlen("event=wrong until="), "%Y-%m-%dT%H:%M:%S", &t)) fail_msg("%s", heard->last);
    return difftime(timegm(&t), time(NULL));
}

static void wrong_for_a_moment(void **state)
{
    context *c = *state;
    said heard;
    static const fake_answer clock[] = {
        {REFUSED("47\r\n\r\n{\"error\":\"ended\",\"again\":300,\"clock\":\"2040\"}   ")},
        {REFUSED("47\r\n\r\n{\"error\":\"ended\",\"again\":300,\"clock\":\"2040\"}   ")},
        {OK_HEAD "Content-Length: 2\r\n\r\nhi"}};
    static const fake_answer process[] = {{REFUSED("25\r\n\r\n{\"error\":\"two\",\"again\":9}")},
                                          {OK_HEAD "Content-Length: 2\r\n\r\nhi"}};
    static const fake_answer final[] = {{REFUSED("17\r\n\r\n{\"error\":\"never\"}")}};
    assert_ok(c->ctx, retried(c, clock, 3, 1, 0, &heard));
    assert_int_equal(heard.wrong, 1);
    assert_true(seconds_until(&heard) > 200 && seconds_until(&heard) <= 300);
    assert_non_null(strstr(heard.last, "refuses (403): ended"));
    assert_int_equal(retried(c, clock, 3, 0, 0, &heard), FL_EREFUSED); /* by our clock as well */
    assert_int_equal(heard.wrong, 0);
    assert_ok(c->ctx, retried(c, process, 2, 0, 0, &heard)); /* that has nothing to do with clocks */
    assert_true(seconds_until(&heard) <= 9);
    assert_fails(c->ctx, retried(c, clock, 1, 1, 0.3, &heard), FL_EREFUSED, "refuses (403): ended");
    assert_int_equal(heard.wrong, 1);
    assert_fails(c->ctx, retried(c, final, 1, 1, 0, &heard), FL_EREFUSED, "refuses (403): never");
    assert_int_equal(heard.wrong, 0);
}

static int has_heard(void *arg)
{
    const said *s = arg;
    return *s->last != 0;
}

/* What a terminal shows while there is no answer: after how long the client gives up, or how to end it. */
static void told_of_no_answer(void **state)
{
    static const struct {
        double patience;
        const char *end;
    } cases[] = {{60, "trying again (gives up after 60 s)"}, {0, "(Ctrl-C ends it, --patience SECONDS sets a limit)"}};
    context *c = *state;
    for (size_t i = 0; i < 2; i++) {
        said heard = {0};
        fli_http_answer r;
        fli_net_log log = {0};
        const fli_http_call_spec spec = {.url = "http://127.0.0.1:1", .name = "ann", .plain = 1, .connect_s = 2};
        fli_retry line = {.ctx = c->ctx,
                          .log = &log,
                          .patience = cases[i].patience,
                          .tell = hear,
                          .stopping = has_heard,
                          .arg = &heard};
        fli_http_backoff_init(&line.backoff);
        assert_ok(c->ctx, fli_http_call_new(c->ctx, &spec, &line.call));
        assert_int_equal(fli_retry_get(&line, "/v1/ask", 0, 1000, &r), FL_EDONE);
        fli_http_call_free(line.call);
        if (!strstr(heard.last, cases[i].end)) fail_msg("\"%s\" lacks \"%s\"", heard.last, cases[i].end);
    }
}

static void answers_of_others(void **state)
{
    context *c = *state;
    assert_get(c, A("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), FLI_CALL_WRONG, 200,
               "does not say which protocol");
    assert_get(c, A("HTTP/1.1 200 OK\r\nFedloom-Protocol: 9 8\r\nContent-Length: 2\r\n\r\nhi"), FLI_CALL_WRONG, 200,
               "speaks protocol 9 (8 at least), this one 1");
    assert_get(c, A("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nhi"), FLI_CALL_AGAIN, 502, "answers 502");
    assert_get(c, A("HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), FLI_CALL_WRONG,
               301, "redirects (301)");
    assert_get(c, A("what?\r\n\r\n"), FLI_CALL_WRONG, 0, "127.0.0.1");
}

static void broken_bodies(void **state)
{
    context *c = *state;
    fli_http_answer r;
    char why[600];
    assert_get(c, A(OK_HEAD "Content-Length: 100\r\nConnection: close\r\n\r\nhalf"), FLI_CALL_AGAIN, 0, "127.0.0.1");
    assert_get(c, A(OK_HEAD "Content-Length: 100\r\n\r\nhalf", .hang = 1), FLI_CALL_AGAIN, 0, "127.0.0.1");
    assert_get(c, A("", .hang = 1), FLI_CALL_AGAIN, 0, "127.0.0.1");
    fake_server s;
    const fake_answer large = {OK_HEAD "Content-Length: 1000004\r\n\r\nhead", .repeat = 1000000};
    fake_start(&s, &large, 1);
    fli_http_call *call = open_call(c, &s);
    for (int i = 0; i < 2; i++) { /* and the next call works as this one */
        assert_int_equal(fli_http_call_get(call, "/v1/ask", 0, 1000, &r), FLI_CALL_DONE);
        assert_true(r.cut);
        assert_int_equal(r.n, 1000);
        assert_memory_equal(r.body, "headx", 5);
    }
    fli_http_call_free(call);
    fake_stop(&s);
    assert_int_equal(get_once(c, (fake_answer){OK_HEAD "Content-Length: 1000\r\n\r\n", 1000, 0}, &r, why, sizeof why),
                     FLI_CALL_DONE);
}

/* Whatever is cut off an answer, it is not taken for one. */
static void answers_that_are_cut(void **state)
{
    context *c = *state;
    static const char *const whole[] = {OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhello",
                                        "HTTP/1.1 204 No Content\r\n" OURS "Connection: close\r\n\r\n"};
    for (size_t i = 0; i < 2; i++)
        for (size_t n = strlen(whole[i]); n-- > 0;) {
            char part[200];
            snprintf(part, sizeof part, "%.*s", (int)n, whole[i]);
            assert_get(c, A(part), FLI_CALL_AGAIN, 0, "127.0.0.1");
        }
    assert_get(c, A(OK_HEAD "\r\nhello"), FLI_CALL_AGAIN, 0, "127.0.0.1"); /* of no length */
}

static int now(void *unused)
{
    (void)unused;
    return 1;
}

static void nobody_there_and_stopping(void **state)
{
    context *c = *state;
    fake_server s;
    fli_http_call *call = NULL;
    fli_http_answer r;
    const fake_answer hang = {"", .hang = 1};
    fake_start(&s, &hang, 1);
    const fli_http_call_spec spec = {.url = s.url, .name = "ann", .plain = 1, .stopping = now};
    assert_ok(c->ctx, fli_http_call_new(c->ctx, &spec, &call));
    assert_int_equal(fli_http_call_get(call, "/v1/ask", 30, 1000, &r), FLI_CALL_STOPPED);
    fli_http_call_free(call);
    fake_stop(&s);
    call = open_call(c, &s); /* the port is free again */
    assert_int_equal(fli_http_call_get(call, "/v1/ask", 30, 1000, &r), FLI_CALL_AGAIN);
    assert_int_equal(r.retry, 0); /* without an answer there is no Retry-After */
    fli_http_call_free(call);
}

static void unsafe_urls_are_refused(void **state)
{
    context *c = *state;
    fli_http_call *call = NULL;
    static const struct {
        const char *url;
        int plain;
        const char *why;
    } bad[] = {
        {"", 1, "no URL"},
        {"host:8443", 1, "https://"},
        {"ftp://host/", 1, "must begin with https://"},
        {"file:///etc/passwd", 1, ""},
        {"http://127.0.0.1:1", 0, "--insecure-http"},
        {"http://example.com", 1, "only for this machine"},
        {"http://127.0.0.1.example.com", 1, "only for this machine"},
        {"http://localhost.example.com", 1, "only for this machine"},
        {"https://ann:pw@host", 0, "must not name a user"},
        {"http://127.0.0.1.5", 1, "only for this machine"}, /* no address: a name server would be asked */
        {"http://127.999.0.1", 1, "only for this machine"},
        {"http://0.0.0.0", 1, "only for this machine"},
        {"http://[::]", 1, "only for this machine"},
        {"http://[::ffff:10.0.0.1]", 1, "only for this machine"},
        {"https://host/?x=1", 0, "must not have a query"},
        {"https://host/#x", 0, "must not have a #"},
        {"https://host", 0, "https needs the folder"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const fli_http_call_spec spec = {.url = bad[i].url, .plain = bad[i].plain};
        assert_fails(c->ctx, fli_http_call_new(c->ctx, &spec, &call), FL_ECONFIG, bad[i].why);
    }
    static const char *const good[] = {"http://localhost:1", "http://127.9.9.9", "http://[::1]:8080/"};
    for (size_t i = 0; i < 3; i++) {
        const fli_http_call_spec spec = {.url = good[i], .plain = 1};
        assert_ok(c->ctx, fli_http_call_new(c->ctx, &spec, &call));
        fli_http_call_free(call);
    }
}

/* A client of this version, and servers of later ones: one that still knows it, and one that does not. */
static void other_versions(void **state)
{
    context *c = *state;
    assert_get(c, A("HTTP/1.1 200 OK\r\nFedloom-Protocol: 2 1\r\nContent-Length: 2\r\n\r\nhi"), FLI_CALL_DONE, 200, "");
    assert_get(c, A("HTTP/1.1 200 OK\r\nFedloom-Protocol: 3 2\r\nContent-Length: 2\r\n\r\nhi"), FLI_CALL_WRONG, 200,
               "the other side speaks protocol 3 (2 at least), this one 1 (1 at least)");
    assert_get(c,
               A("HTTP/1.1 426 Upgrade\r\nFedloom-Protocol: 3 2\r\nContent-Length: 34\r\n\r\n"
                 "{\"error\":\"I speak 3, you speak 1\"}"),
               FLI_CALL_WRONG, 426, "I speak 3, you speak 1");
}

/* Bodies are bounded, and so are heads, also those of answers that say that the answer is to come. */
static void headers_without_an_end(void **state)
{
    static const char *const begin[] = {OK_HEAD, "HTTP/1.1 100 Continue\r\n\r\n"};
    static const char *const again[] = {"X-Same: and again and again and again\r\n", "HTTP/1.1 100 Continue\r\n\r\n"};
    context *c = *state;
    for (size_t k = 0; k < 2; k++) {
        size_t n = strlen(begin[k]), more = strlen(again[k]), times = (1 << 20) / more;
        char *text = malloc(n + times * more + 1);
        assert_non_null(text);
        strcpy(text, begin[k]);
        for (size_t i = 0; i < times; i++) memcpy(text + n + i * more, again[k], more + 1);
        assert_get(c, A(text), FLI_CALL_AGAIN, 0, "sends headers without an end");
        free(text);
    }
}

/* It would carry to another machine what must not leave this one. */
static void no_proxy_for_plain_http(void **state)
{
    context *c = *state;
    fli_http_call *call = NULL;
    const fli_http_call_spec spec = {.url = "http://127.0.0.1:1", .plain = 1, .proxy = "http://proxy.example:3128"};
    assert_fails(c->ctx, fli_http_call_new(c->ctx, &spec, &call), FL_ECONFIG, "through no proxy");
}

/* A terminal obeys more than bytes below 32. */
static void what_terminals_obey(void **state)
{
    context *c = *state;
    assert_get(c,
               A("HTTP/1.1 403 No\r\n" OURS "Content-Length: 36\r\n\r\n"
                 "{\"error\":\"a\\u009b31mb\\u202ec\\u007f\"}"),
               FLI_CALL_WRONG, 403, "a??31mb???c?");
}

/* A proxy that the environment names would see everything. */
static void no_proxy_of_the_environment(void **state)
{
    context *c = *state;
    fli_http_answer r;
    char why[600];
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    fli_http_call_end end = get_once(c, (fake_answer){OK_HEAD "Content-Length: 0\r\n\r\n"}, &r, why, sizeof why);
    unsetenv("http_proxy");
    assert_int_equal(end, FLI_CALL_DONE);
}

static void pauses_grow_to_a_bound(void **state)
{
    fli_http_backoff b;
    double longest = 0, total = 0;
    (void)state;
    fli_http_backoff_init(&b);
    assert_true(fli_http_backoff_for(&b) <= 0);
    for (int i = 0; i < 1000; i++) {
        double bound = i < 10 ? 0.5 * (1 << i) : 30, next = fli_http_backoff_next(&b, 0);
        assert_true(next >= 0 && next < (bound < 30 ? bound : 30));
        if (next > longest) longest = next;
        total += next;
    }
    assert_true(longest > 25);
    assert_true(total > 1000 * 12.0 && total < 1000 * 18.0); /* 15 on the average: all of the range is used */
    fli_http_backoff_reset(&b);
    assert_true(fli_http_backoff_next(&b, 0) < 0.5);
    fli_http_backoff_reset(&b);
    double next = fli_http_backoff_next(&b, 7);
    assert_true(next >= 7 && next < 7.5);
    fli_http_backoff_reset(&b);
    next = fli_http_backoff_next(&b, 1e6);
    assert_true(next >= FLI_BACKOFF_SERVER_MAX && next < FLI_BACKOFF_SERVER_MAX + 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(answers_arrive),
        CONTEXT_TEST(what_is_refused_and_what_comes_later),
        CONTEXT_TEST(retry_after_is_read_as_seconds),
        CONTEXT_TEST(comes_later),
        CONTEXT_TEST(wrong_for_a_moment),
        CONTEXT_TEST(told_of_no_answer),
        CONTEXT_TEST(answers_of_others),
        CONTEXT_TEST(broken_bodies),
        CONTEXT_TEST(answers_that_are_cut),
        CONTEXT_TEST(nobody_there_and_stopping),
        CONTEXT_TEST(unsafe_urls_are_refused),
        CONTEXT_TEST(other_versions),
        CONTEXT_TEST(headers_without_an_end),
        CONTEXT_TEST(no_proxy_for_plain_http),
        CONTEXT_TEST(what_terminals_obey),
        CONTEXT_TEST(no_proxy_of_the_environment),
        CONTEXT_TEST(pauses_grow_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
