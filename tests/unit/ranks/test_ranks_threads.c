/* How many threads a rank has: as many as the configuration says, else its share of the processors. */
#include "check.h"

#include "base/pool.h"
#include "ranks/ranks.h"

static void neighbours_share_the_processors(void **state)
{
    (void)state;
    size_t all = fli_pool_count(0);
    fl_ranks alone = {.count = 1, .neighbours = 1, .processors = 1}, r = {.count = 4, .neighbours = 1};
    assert_int_equal(fli_ranks_threads(NULL, 0), all);
    assert_int_equal(fli_ranks_threads(NULL, 3), 3);
    assert_int_equal(fli_ranks_threads(&alone, 0), all); /* no run of several processes */
    assert_int_equal(fli_ranks_threads(&r, 0), all);     /* each on a machine of its own */
    r.neighbours = 2;
    assert_int_equal(fli_ranks_threads(&r, 0), all < 2 ? 1 : all / 2);
    r.neighbours = (uint32_t)all + 1;
    assert_int_equal(fli_ranks_threads(&r, 0), 1);
    r.neighbours = 0; /* whoever connects them does not know */
    assert_int_equal(fli_ranks_threads(&r, 0), all);
    r.processors = 7;
    assert_int_equal(fli_ranks_threads(&r, 0), 7);
    assert_int_equal(fli_ranks_threads(&r, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_share_the_processors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
