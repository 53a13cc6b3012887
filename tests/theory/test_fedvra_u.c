/* FedVRA-U on f + g without a second block: its projection is the proximal step that belongs to its server step, so
 * that it ends where f + g is least, whether g is the indicator of a set or not. */
#include "composite.h"

static void least_of_f_plus_g(void **state)
{
    static const term *const terms[] = {&none, &l1, &positive, &box, &ball};
    static const char *const params[] = {"gamma=4;a=0.5;d=1", "gamma=[2, 3, 4, 5, 6, 7];a=0.3;d=1"};
    for (size_t k = 0; k < 10; k++) {
        const term *g = terms[k / 2];
        engine e;
        quadratics p;
        double want[DIM];
        start(&e, *state, "fedvra-u", params[k % 2], g, NULL, 1, &p);
        spy.answer = watched->answer; /* it has fewer vectors than are watched */
        optimum(&p, g, want);
        engine_rounds(&e, 6000, 4, 0.02);
        if (!(distance(DIM, server(&e, 0), want) < 1e-8))
            fail_msg("%s, %s: %g away from the optimum", g->name, params[k % 2], distance(DIM, server(&e, 0), want));
        assert_true(gradient_mapping(&p, g, 0.1, server(&e, 0)) < 1e-7);
        engine_fini(&e);
    }
    (void)lyapunov;
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(least_of_f_plus_g)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
