/* The status client: what it makes of a status, and of answers that are none. */
#include "context.h"
#include "fake_server.h"
#include "net/client/status_client.h"

#define HEAD "HTTP/1.1 200 OK\r\nFedloom-Protocol: 1 1\r\n"

static fl_status look_once(context *c, fake_answer answer, json_t **out)
{
    fake_server s;
    fli_status_client *w;
    fake_start(&s, &answer, 1);
    fli_status_client_spec spec = {.url = s.url, .insecure = 1};
    assert_ok(c->ctx, fli_status_client_new(c->ctx, &spec, &w));
    fl_status status = fli_status_client_look(w, out);
    fli_status_client_free(w);
    fake_stop(&s);
    assert_true(strstr(s.seen, "GET /v1/status ") == s.seen);
    return status;
}

static void only_a_status_is_accepted(void **state)
{
    context *c = *state;
    json_t *j;
    assert_ok(c->ctx, look_once(c, (fake_answer){HEAD "Content-Length: 13\r\n\r\n{\"round\": 17}"}, &j));
    assert_int_equal(json_integer_value(json_object_get(j, "round")), 17);
    json_decref(j);
    static const struct {
        fake_answer answer;
        fl_status want;
        const char *part;
    } bad[] = {
        {{HEAD "Content-Length: 2\r\n\r\n[]"}, FL_EREFUSED, "no status of a federation"},
        {{HEAD "Content-Length: 5\r\n\r\nhello"}, FL_EREFUSED, "no status of a federation"},
        {{HEAD "Content-Length: 0\r\n\r\n"}, FL_EREFUSED, "no status of a federation"},
        {{HEAD "Content-Length: 9000002\r\n\r\n{}", .repeat = 9000000}, FL_EREFUSED, "no status of a federation"},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}, FL_EREFUSED, ""}, /* somebody else's server */
        {{"HTTP/1.1 503 no\r\nFedloom-Protocol: 1 1\r\nContent-Length: 0\r\n\r\n"}, FL_EIO, "503"},
        {{"HTTP/1.1 403 no\r\nFedloom-Protocol: 1 1\r\nContent-Length: 16\r\n\r\n{\"error\": \"you\"}"},
         FL_EREFUSED,
         "you"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(c->ctx, look_once(c, bad[i].answer, &j), bad[i].want, bad[i].part);
        assert_null(j);
    }
}

static void unsafe_places_are_refused(void **state)
{
    context *c = *state;
    fli_status_client *w;
    fli_status_client_spec spec = {.url = "http://127.0.0.1:1"};
    assert_fails(c->ctx, fli_status_client_new(c->ctx, &spec, &w), FL_ECONFIG, "--insecure-http");
    spec = (fli_status_client_spec){.url = "https://127.0.0.1:1"};
    assert_fails(c->ctx, fli_status_client_new(c->ctx, &spec, &w), FL_ECONFIG, "certificate");
    spec = (fli_status_client_spec){.url = "https://127.0.0.1:1", .certs = "/nowhere"};
    assert_int_not_equal(fli_status_client_new(c->ctx, &spec, &w), FL_OK);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CONTEXT_TEST(only_a_status_is_accepted),
                                       CONTEXT_TEST(unsafe_places_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
