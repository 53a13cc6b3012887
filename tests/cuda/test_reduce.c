/* Scalar products and the search for NaN, against plain loops. */
#include "cuda/kernels/kernels.h"
#include "device_memory.h"
#include "order.h"

static double value(size_t i) { return sin((double)i) * (i % 7 ? 1 : 1000); }

/* In single or double precision; *want is the same sum, in order. */
static double product(size_t n, int wide, double *want)
{
    size_t size = wide ? sizeof(double) : sizeof(float);
    double *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), parts[FLI_CUDA_DOT_MOST], sum = 0;
    float *xs = (void *)x, *ys = (void *)y;
    *want = 0;
    for (size_t i = 0; i < n; i++) {
        double a = wide ? value(i) : (double)(float)value(i), b = wide ? value(2 * i) : (double)(float)value(2 * i);
        *want += a * b;
        if (wide)
            x[i] = a, y[i] = b;
        else
            xs[i] = (float)a, ys[i] = (float)b;
    }
    void *u = there(n * size, x), *v = there(n * size, y);
    double *out = there(sizeof parts, NULL);
    fli_cuda_dot(stream(), wide, n, u, v, out);
    here(sizeof parts, out, parts);
    for (unsigned i = 0; i < fli_cuda_dot_parts(n); i++) sum += parts[i];
    fli_cuda_release(u);
    fli_cuda_release(v);
    fli_cuda_release(out);
    free(x);
    free(y);
    return sum;
}

static void test_dot_products_ignore_thread_order(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 2, 255, 1024, 5000, 70001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int wide = 0; wide < 2; wide++) {
            double want, first = 0;
            for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
                fli_emulated_order(o);
                double got = product(lengths[i], wide, &want);
                assert_near(got, want, 1e-13 * (fabs(want) + 1e6 * (double)lengths[i]));
                if (o) assert_true(got == first);
                first = got;
            }
        }
}

/* Of three vectors, one on a line of its own, the second has `bad` at `place`. */
static void check_finite(size_t n, int wide, size_t offset, size_t place, double bad)
{
    enum { VECTORS = 3, PARTS = FLI_CUDA_FINITE_PARTS };
    size_t size = wide ? sizeof(double) : sizeof(float), all = VECTORS * n + offset;
    double *x = calloc(all, sizeof *x);
    float *xs = (void *)x;
    for (size_t i = 0; i < all; i++) {
        double v = i == offset + n + place ? bad : i % 2 ? 1e30 : -1e30;
        if (wide)
            x[i] = v;
        else
            xs[i] = (float)v;
    }
    char *v = there(all * size, x);
    const void *at[VECTORS];
    for (size_t i = 0; i < VECTORS; i++) at[i] = v + (offset + i * n) * size;
    void *list = there(sizeof at, at);
    unsigned char *out = there(VECTORS * PARTS, NULL), parts[VECTORS * PARTS];
    fli_cuda_finite(stream(), wide, n, VECTORS, list, out);
    here(sizeof parts, out, parts);
    for (size_t i = 0; i < VECTORS; i++)
        assert_int_equal(!memchr(parts + i * PARTS, 0, PARTS), i != 1 || isfinite(bad));
    fli_cuda_release(v);
    fli_cuda_release(list);
    fli_cuda_release(out);
    free(x);
}

static void test_one_bad_number_is_found(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 6, 40, 9000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int wide = 0; wide < 2; wide++)
            for (size_t offset = 0; offset < 2; offset++) {
                check_finite(lengths[i], wide, offset, 0, (double)NAN);
                check_finite(lengths[i], wide, offset, lengths[i] - 1, -(double)INFINITY);
                check_finite(lengths[i], wide, offset, lengths[i] / 2, 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_products_ignore_thread_order),
        cmocka_unit_test(test_one_bad_number_is_found),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
