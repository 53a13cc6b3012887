/* The heartbeat: signs of life while a client works, and what stops its work. */
#include "context.h"
#include "fake_server.h"

#include "net/client/heartbeat.h"

#define ALIVE(wanted) "HTTP/1.1 200 OK\r\nFedloom-Protocol: 1 1\r\nContent-Length: 16\r\n\r\n{\"wanted\":" wanted "}"

static atomic_int stops, ending;

static void stop(void *worker)
{
    (void)worker;
    atomic_fetch_add(&stops, 1);
}

static int is_ending(void *unused)
{
    (void)unused;
    return atomic_load(&ending);
}

static fli_heartbeat *open_heartbeat(context *c, const fake_server *s)
{
    fli_heartbeat *h = NULL;
    const fli_http_call_spec call = {.url = s->url, .name = "ann", .plain = 1, .stopping = is_ending};
    const fli_heartbeat_spec spec = {0.1, stop, NULL};
    atomic_store(&stops, 0);
    atomic_store(&ending, 0);
    assert_ok(c->ctx, fli_heartbeat_new(c->ctx, &call, &spec, &h));
    return h;
}

/* At most ten seconds. */
static int until(const atomic_int *a, const atomic_size_t *b, size_t least)
{
    for (int i = 0; i < 1000; i++) {
        if (a ? (size_t)atomic_load(a) >= least : atomic_load(b) >= least) return 1;
        usleep(10000);
    }
    return 0;
}

static void beats_while_it_works(void **state)
{
    context *c = *state;
    fake_server s;
    const fake_answer yes = {ALIVE("true ")};
    fake_start(&s, &yes, 1);
    fli_heartbeat *h = open_heartbeat(c, &s);
    fli_heartbeat_work(h, 42);
    assert_true(until(NULL, &s.requests, 3));
    assert_false(fli_heartbeat_rest(h));
    fli_heartbeat_free(h);
    assert_true(fake_saw(&s, "POST /v1/alive HTTP/1.1\r\n"));
    assert_true(fake_saw(&s, "{\"number\": 42}"));
    fake_stop(&s);
    assert_int_equal(atomic_load(&stops), 0);
}

static void work_that_nobody_wants_is_stopped(void **state)
{
    context *c = *state;
    fake_server s;
    const fake_answer no = {ALIVE("false")};
    fake_start(&s, &no, 1);
    fli_heartbeat *h = open_heartbeat(c, &s);
    fli_heartbeat_work(h, 1);
    assert_true(until(&stops, NULL, 1));
    assert_true(fli_heartbeat_rest(h));
    fli_heartbeat_work(h, 2); /* anew */
    assert_true(until(&stops, NULL, 2));
    assert_true(fli_heartbeat_rest(h));
    assert_int_equal(atomic_load(&stops), 2);
    assert_false(fli_heartbeat_rest(h));
    fli_heartbeat_free(h);
    fake_stop(&s);
}

/* What a beat hears comes late: the client is at something else by then. */
static fli_heartbeat *late; /* NULL: nothing comes late */

fli_http_call_end __real_fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body,
                                            size_t n, fli_http_answer *out);
fli_http_call_end __wrap_fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body,
                                            size_t n, fli_http_answer *out);

fli_http_call_end __wrap_fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body,
                                            size_t n, fli_http_answer *out)
{
    fli_http_call_end end = __real_fli_http_call_post(c, path, type, body, n, out);
    if (late && strstr(body, " 1}")) {
        fli_heartbeat_rest(late);
        fli_heartbeat_work(late, 2);
    }
    return end;
}

static void only_what_is_not_wanted_is_stopped(void **state)
{
    context *c = *state;
    fake_server s;
    const fake_answer answers[] = {{ALIVE("false")}, {ALIVE("true ")}};
    fake_start(&s, answers, 2);
    fli_heartbeat *h = open_heartbeat(c, &s);
    late = h;
    fli_heartbeat_work(h, 1);
    assert_true(until(NULL, &s.requests, 3));
    assert_false(fli_heartbeat_rest(h));
    fli_heartbeat_free(h);
    late = NULL;
    fake_stop(&s);
    assert_int_equal(atomic_load(&stops), 0);
}

static atomic_int polite; /* times that the client was asked whether it is to stop */

static int counts_and_ends(void *unused)
{
    (void)unused;
    atomic_fetch_add(&polite, 1);
    return 1;
}

/* Work is stopped once, however long it takes until it stops. */
static void work_is_stopped_once(void **state)
{
    context *c = *state;
    fake_server s;
    fli_heartbeat *h = NULL;
    const fake_answer yes = {ALIVE("true ")};
    fake_start(&s, &yes, 1);
    const fli_http_call_spec call = {.url = s.url, .name = "ann", .plain = 1, .stopping = counts_and_ends};
    const fli_heartbeat_spec spec = {100, stop, NULL};
    atomic_store(&stops, 0);
    atomic_store(&polite, 0);
    assert_ok(c->ctx, fli_heartbeat_new(c->ctx, &call, &spec, &h));
    fli_heartbeat_work(h, 1);
    assert_true(until(&polite, NULL, 3));
    assert_int_equal(atomic_load(&stops), 1);
    assert_true(fli_heartbeat_rest(h));
    fli_heartbeat_free(h);
    fake_stop(&s);
}

/* Nobody answers; a signal stops the work all the same, and ending does not wait for the server. */
static void signals_stop_work(void **state)
{
    context *c = *state;
    fake_server s;
    const fake_answer hang = {"", .hang = 1};
    fake_start(&s, &hang, 1);
    fli_heartbeat *h = open_heartbeat(c, &s);
    fli_heartbeat_work(h, 1);
    atomic_store(&ending, 1);
    assert_true(until(&stops, NULL, 1));
    assert_true(fli_heartbeat_rest(h));
    fli_heartbeat_free(h);
    fake_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(beats_while_it_works),
        CONTEXT_TEST(work_that_nobody_wants_is_stopped),
        CONTEXT_TEST(only_what_is_not_wanted_is_stopped),
        CONTEXT_TEST(work_is_stopped_once),
        CONTEXT_TEST(signals_stop_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
