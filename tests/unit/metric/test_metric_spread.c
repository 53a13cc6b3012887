/* local_std, by hand. */
#include "check.h"

#include "metric/metric.h"

#include <math.h>

static double spread_of(const double *sorted, size_t n)
{
    fli_measurement m = {.own_accuracies = {sorted, n}};
    return fli_metric_local_std.measure(&m);
}

static void by_hand(void **state)
{
    (void)state;
    assert_true(isnan(spread_of(NULL, 0)));
    assert_true(spread_of((const double[]){0.7}, 1) == 0);
    assert_true(spread_of((const double[]){0.25, 0.25, 0.25, 0.25}, 4) == 0);
    assert_near(spread_of((const double[]){0.5, 1}, 2), 0.25, 1e-15);
    assert_near(spread_of((const double[]){0.1, 0.4, 0.7}, 3), sqrt(0.06), 1e-15); /* (0.09 + 0 + 0.09) / 3 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
