/* Clusters against classes: the matching against all permutations, figures against values by hand. */
#include "check.h"

#include "base/rng.h"
#include "metric/clusters.h"

/* The best total over all ways to give rows from `row` on a column that is not used. */
static double brute(size_t n, const double *gain, size_t row, unsigned used)
{
    double best = -INFINITY;
    if (row == n) return 0;
    for (size_t j = 0; j < n; j++)
        if (!(used >> j & 1)) best = fmax(best, gain[row * n + j] + brute(n, gain, row + 1, used | 1u << j));
    return best;
}

static void matching_is_best(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t trial = 0; trial < 2000; trial++) {
        size_t n = 1 + trial % 6;
        double gain[36], total = NAN;
        for (size_t i = 0; i < n * n; i++) /* few values: many ties; or reals, also negative */
            gain[i] = trial % 2 ? (double)fli_rng_below(&r, 4) : fli_rng_normal(&r);
        assert_ok(ctx, fli_matching_best(ctx, n, gain, &total));
        assert_near(total, brute(n, gain, 0, 0), 1e-12);
    }
    fl_ctx_free(ctx);
}

static double accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count)
{
    double v = NAN;
    assert_ok(ctx, fli_clusters_accuracy(ctx, clusters, classes, count, &v));
    return v;
}

static void accuracy_by_hand(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    /* the largest cell of each row would use class 0 twice: 8 + 2, or 7 + 5 */
    assert_near(accuracy(ctx, 2, 2, (double[]){8, 5, 7, 2}), 12.0 / 22, 1e-15);
    assert_near(accuracy(ctx, 2, 2, (double[]){0, 5, 7, 0}), 1, 0);
    /* more clusters than classes: one is left over; and the other way round */
    assert_near(accuracy(ctx, 3, 2, (double[]){4, 0, 3, 0, 0, 3}), 0.7, 1e-15);
    assert_near(accuracy(ctx, 2, 3, (double[]){4, 3, 0, 0, 0, 3}), 0.7, 1e-15);
    assert_near(accuracy(ctx, 1, 4, (double[]){1, 2, 3, 4}), 0.4, 1e-15);
    for (size_t k = 1;; k++) {
        double v;
        fli_ctx_fail_alloc(ctx, k);
        fl_status s = fli_clusters_accuracy(ctx, 2, 2, (double[]){8, 5, 7, 2}, &v);
        fli_ctx_fail_alloc(ctx, 0);
        fli_clear(ctx);
        if (!s) break;
        assert_int_equal(s, FL_ENOMEM);
    }
    fl_ctx_free(ctx);
}

static void nmi_by_hand(void **state)
{
    (void)state;
    assert_near(fli_clusters_nmi(2, 2, (double[]){5, 0, 0, 3}), 1, 1e-15);
    assert_near(fli_clusters_nmi(2, 2, (double[]){2, 2, 3, 3}), 0, 1e-15);
    assert_near(fli_clusters_nmi(1, 2, (double[]){4, 4}), 0, 0);
    assert_near(fli_clusters_nmi(1, 1, (double[]){4}), 1, 0);
    /* cluster 0 is class 0, cluster 1 half and half: I = log 4 - 1.5 log 2 + h, by the definition */
    double i = 0.5 * log(0.5 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.25));
    double a = log(2.0), b = -0.75 * log(0.75) - 0.25 * log(0.25);
    assert_near(fli_clusters_nmi(2, 2, (double[]){4, 0, 2, 2}), i / ((a + b) / 2), 1e-14);
    /* four clusters, two per class: I = log 2, entropies log 4 and log 2 */
    assert_near(fli_clusters_nmi(4, 2, (double[]){3, 0, 3, 0, 0, 3, 0, 3}), 2.0 / 3, 1e-14);
}

/* Other names for clusters or classes change nothing. */
static void names_do_not_matter(void **state)
{
    (void)state;
    enum { ROWS = 5, COLS = 4 };
    fl_ctx *ctx = fl_ctx_new();
    fli_rng r;
    double count[ROWS * COLS], other[ROWS * COLS];
    uint32_t row[ROWS], col[COLS];
    fli_rng_init(&r, 9, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < ROWS * COLS; i++) count[i] = (double)fli_rng_below(&r, 50);
    double acc = accuracy(ctx, ROWS, COLS, count), nmi = fli_clusters_nmi(ROWS, COLS, count);
    for (size_t trial = 0; trial < 50; trial++) {
        fli_rng_permutation(&r, ROWS, row);
        fli_rng_permutation(&r, COLS, col);
        for (size_t i = 0; i < ROWS * COLS; i++) other[row[i / COLS] * COLS + col[i % COLS]] = count[i];
        assert_near(accuracy(ctx, ROWS, COLS, other), acc, 1e-15);
        assert_near(fli_clusters_nmi(ROWS, COLS, other), nmi, 1e-14);
    }
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching_is_best),
        cmocka_unit_test(accuracy_by_hand),
        cmocka_unit_test(nmi_by_hand),
        cmocka_unit_test(names_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
