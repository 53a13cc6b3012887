/* Images: windows, pools and moves in every precision against the definitions, written out plainly here. */
#include "check.h"

#include "base/rng.h"
#include "vec/ops.h"

enum { MOST = 4096, N = 3 };

static const fli_window windows[] = {
    {1, 3, 3, 2, 1, 0, 2, 2}, {2, 5, 4, 3, 1, 1, 5, 4}, {3, 6, 7, 3, 2, 1, 3, 4},  {17, 4, 4, 3, 1, 2, 6, 6},
    {2, 8, 8, 5, 3, 4, 4, 4}, {1, 1, 1, 1, 1, 0, 1, 1}, {70, 5, 6, 2, 2, 0, 2, 3},
};
enum { WINDOWS = sizeof windows / sizeof *windows };

/* Small multiples of 1/8: exact in either precision, and so are their sums. */
static void fill(fli_rng *r, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++) x[i] = (double)(int)fli_rng_below(r, 65) / 8 - 4;
}

static double pixel(const fli_window *w, const double *x, ptrdiff_t y, ptrdiff_t column, size_t c)
{
    if (y < 0 || column < 0 || y >= (ptrdiff_t)w->height || column >= (ptrdiff_t)w->width) return 0;
    return x[((size_t)y * w->width + (size_t)column) * w->channels + c];
}

/* ---- windows ---------------------------------------------------------------------------------------------- */

static void check_window(const fli_ops *ops, const fli_window *w, fli_rng *r)
{
    static double x[MOST], col[4 * MOST], back[MOST], folded[MOST];
    static char nx[MOST * 8], ncol[4 * MOST * 8];
    size_t image = w->channels * w->height * w->width, taps = w->kernel * w->kernel * w->channels;
    size_t positions = w->out_height * w->out_width;
    fli_window again;
    fli_window_init(&again, w->channels, w->height, w->width, w->kernel, w->stride, w->pad);
    assert_int_equal(again.out_height, w->out_height);
    assert_int_equal(again.out_width, w->out_width);
    fill(r, image, x);
    ops->from_f64(image, x, nx);
    ops->image->unfold(w, nx, ncol);
    ops->to_f64(positions * taps, ncol, col);
    for (size_t i = 0; i < positions * taps; i++) {
        size_t p = i / taps, k = i % taps / w->channels, c = i % w->channels;
        ptrdiff_t y = (ptrdiff_t)(p / w->out_width * w->stride + k / w->kernel) - (ptrdiff_t)w->pad;
        ptrdiff_t column = (ptrdiff_t)(p % w->out_width * w->stride + k % w->kernel) - (ptrdiff_t)w->pad;
        assert_true(col[i] == pixel(w, x, y, column, c));
    }
    /* fold is the adjoint: <col', unfold(e_i)> for every unit image e_i */
    fill(r, positions * taps, col);
    ops->from_f64(positions * taps, col, ncol);
    memset(nx, 0xFF, sizeof nx);
    ops->image->fold(w, ncol, nx);
    ops->to_f64(image, nx, folded);
    memset(back, 0, sizeof back);
    for (size_t i = 0; i < positions * taps; i++) {
        size_t p = i / taps, k = i % taps / w->channels, c = i % w->channels;
        ptrdiff_t y = (ptrdiff_t)(p / w->out_width * w->stride + k / w->kernel) - (ptrdiff_t)w->pad;
        ptrdiff_t column = (ptrdiff_t)(p % w->out_width * w->stride + k % w->kernel) - (ptrdiff_t)w->pad;
        if (y < 0 || column < 0 || y >= (ptrdiff_t)w->height || column >= (ptrdiff_t)w->width) continue;
        back[((size_t)y * w->width + (size_t)column) * w->channels + c] += col[i];
    }
    for (size_t i = 0; i < image; i++) assert_true(folded[i] == back[i]);
}

static void test_windows_unfold_and_fold(void **state)
{
    (void)state;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++)
        for (size_t i = 0; i < WINDOWS; i++) check_window(*ops, &windows[i], &r);
}

static void test_transpose_swaps_two_axes(void **state)
{
    (void)state;
    fli_rng r;
    double x[2 * 3 * 5], y[2 * 3 * 5];
    char nx[sizeof x], ny[sizeof x];
    fli_rng_init(&r, 2, FLI_RNG_TEST, 0, 0);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++) {
        fill(&r, 30, x);
        (*ops)->from_f64(30, x, nx);
        (*ops)->image->transpose(2, 3, 5, nx, ny);
        (*ops)->to_f64(30, ny, y);
        for (size_t i = 0; i < 30; i++) assert_true(y[i] == x[i / 15 * 15 + i % 3 * 5 + i % 15 / 3]);
    }
}

/* ---- pools ------------------------------------------------------------------------------------------------ */

static void check_pool(const fli_ops *ops, size_t channels, size_t height, size_t width, size_t kernel, fli_rng *r)
{
    static double x[4 * MOST], y[MOST], d[MOST], put[4 * MOST], mean[MOST], pick[MOST];
    static char nx[4 * MOST * 8], ny[MOST * 8], nd[MOST * 8], nput[4 * MOST * 8];
    static uint8_t which[MOST];
    fli_window w;
    fli_window_init(&w, channels, height, width, kernel, kernel, 0);
    size_t image = channels * height * width, pooled = channels * w.out_height * w.out_width;
    fill(r, N * image, x);
    fill(r, N * pooled, d);
    ops->from_f64(N * image, x, nx);
    ops->from_f64(N * pooled, d, nd);
    ops->image->max_pool(&w, N, nx, which, ny);
    ops->to_f64(N * pooled, ny, y);
    ops->image->max_pick(&w, N, nx, which, ny);
    ops->to_f64(N * pooled, ny, pick);
    memset(nput, 0xFF, sizeof nput);
    ops->image->max_put(&w, N, nd, which, nput);
    ops->to_f64(N * image, nput, put);
    ops->image->mean_pool(&w, N, nx, ny);
    ops->to_f64(N * pooled, ny, mean);
    for (size_t o = 0; o < N * pooled; o++) {
        size_t n = o / pooled, p = o % pooled / channels, c = o % channels;
        const double *from = x + n * image;
        double *to = put + n * image;
        double best = -INFINITY, sum = 0;
        size_t first = 0, at = 0;
        for (size_t k = 0; k < kernel * kernel; k++) {
            size_t row = p / w.out_width * kernel + k / kernel, column = p % w.out_width * kernel + k % kernel;
            size_t i = (row * width + column) * channels + c;
            sum += from[i];
            if (from[i] > best) best = from[i], first = k, at = i;
        }
        assert_true(y[o] == best && pick[o] == best);
        assert_int_equal(which[o], first);
        assert_near(mean[o], sum / (double)(kernel * kernel), 1e-6);
        assert_true(to[at] == d[o]);
        to[at] = 0;
    }
    for (size_t i = 0; i < N * image; i++) assert_true(put[i] == 0); /* nothing anywhere else */

    /* <d, mean_pool(x)> = <mean_put(d), x> */
    double left = 0, right = 0;
    memset(nput, 0xFF, sizeof nput);
    ops->image->mean_put(&w, N, nd, nput);
    ops->to_f64(N * image, nput, put);
    for (size_t i = 0; i < N * pooled; i++) left += d[i] * mean[i];
    for (size_t i = 0; i < N * image; i++) right += put[i] * x[i];
    assert_near(left, right, 1e-4 * (1 + fabs(left)));
}

static void test_pools_match_plain_loops(void **state)
{
    (void)state;
    fli_rng r;
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++) {
        check_pool(*ops, 1, 4, 4, 2, &r);
        check_pool(*ops, 3, 5, 7, 2, &r);
        check_pool(*ops, 64, 4, 4, 2, &r);
        check_pool(*ops, 70, 3, 4, 3, &r);
        check_pool(*ops, 2, 16, 16, 16, &r);
        check_pool(*ops, 5, 3, 3, 1, &r);
    }
}

/* Wherever in the window it is. */
static void test_pool_keeps_nan(void **state)
{
    (void)state;
    fli_window w;
    fli_window_init(&w, 1, 2, 2, 2, 2, 0);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++)
        for (size_t i = 0; i < 4; i++) {
            double x[4] = {3, 1, 2, 0}, y;
            char nx[32], ny[8];
            uint8_t which;
            x[i] = NAN;
            (*ops)->from_f64(4, x, nx);
            (*ops)->image->max_pool(&w, 1, nx, &which, ny);
            (*ops)->to_f64(1, ny, &y);
            assert_true(isnan(y));
            assert_int_equal(which, i);
        }
}

/* ---- moves ------------------------------------------------------------------------------------------------ */

static void test_shift_moves_and_mirrors(void **state)
{
    (void)state;
    enum { C = 2, H = 4, W = 5, ALL = C * H * W };
    const double fill_values[C] = {-7, 9};
    fli_rng r;
    double x[ALL], y[ALL];
    char nx[sizeof x];
    fli_rng_init(&r, 4, FLI_RNG_TEST, 0, 0);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++)
        for (int k = 0; k < 4 * 13 * 13; k++) {
            int mirror = k & 1, filled = k >> 1 & 1, down = k / 4 / 13 - 6, right = k / 4 % 13 - 6;
            fill(&r, ALL, x);
            (*ops)->from_f64(ALL, x, nx);
            (*ops)->image->shift(C, H, W, mirror, down, right, filled ? fill_values : NULL, H * W, nx);
            (*ops)->to_f64(ALL, nx, y);
            for (int i = 0; i < ALL; i++) {
                int c = i / (H * W), row = i / W % H - down, column = i % W - right;
                int inside = row >= 0 && row < H && column >= 0 && column < W;
                int source = (c * H + row) * W + (mirror ? W - 1 - column : column);
                assert_true(y[i] == (inside ? x[source] : filled ? fill_values[c] : 0));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_unfold_and_fold), cmocka_unit_test(test_transpose_swaps_two_axes),
        cmocka_unit_test(test_pools_match_plain_loops), cmocka_unit_test(test_pool_keeps_nan),
        cmocka_unit_test(test_shift_moves_and_mirrors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
