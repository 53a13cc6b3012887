/* A federation served over HTTP gives the simulation's bits, whatever else knocks at its door. */
#include "net/federation.h"

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
    assert_ok(t.f->ctx, fli_serve_finish(t.serve, 10));
    for (size_t i = 0; i < CLIENTS; i++) pthread_join(m[i].thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(m[i].last, 410);
        assert_non_null(strstr(m[i].call.body, "\"ok\": true"));
        member_fini(&m[i]);
    }
    serve_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(whole_run)};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
