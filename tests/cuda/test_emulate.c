/* Kernels run here as they would on a GPU, and what is wrong with them shows. */
#include "test_emulate.h"
#include "device_memory.h"
#include "order.h"

#include "check.h"

#include <math.h>
#include <string.h>

static float value(size_t i) { return (float)((i * 37 + 11) % 101) / 16 - 2; }

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = value(i);
}

static void sums(float out[EMULATE_BLOCKS], int barrier)
{
    enum { N = EMULATE_BLOCKS * EMULATE_THREADS };
    float in[N];
    fill(in, N);
    float *x = there(sizeof in, in), *y = there(EMULATE_BLOCKS * sizeof *y, NULL);
    emulate_sum(stream(), x, y, barrier);
    here(EMULATE_BLOCKS * sizeof *out, y, out);
    fli_cuda_release(x);
    fli_cuda_release(y);
}

static void test_barriers_hold_in_any_order(void **state)
{
    (void)state;
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        float out[EMULATE_BLOCKS];
        fli_emulated_order(o);
        sums(out, 1);
        for (size_t b = 0; b < EMULATE_BLOCKS; b++) {
            float want = 0;
            for (size_t i = 0; i < EMULATE_THREADS; i++) want += value(b * EMULATE_THREADS + i);
            assert_true(out[b] == want); /* sixteenths: exact in any order */
        }
    }
}

static void test_warps_exchange_in_any_order(void **state)
{
    (void)state;
    float in[32], out[256], sum = 0;
    fill(in, 32);
    for (size_t i = 0; i < 32; i++) sum += in[i];
    float *x = there(sizeof in, in), *y = there(sizeof out, NULL);
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        emulate_warp(stream(), x, y);
        here(sizeof out, y, out);
        for (size_t t = 0; t < 32; t++) {
            assert_true(out[t] == in[31 - t]);
            assert_true(out[32 + t] == in[t ^ 5]);
            assert_true(out[64 + t] == in[t % 8 + 3 < 8 ? t + 3 : t]);
            assert_true(out[96 + t] == in[t < 2 ? t : t - 2]);
            assert_true(out[128 + t] == 0x9249);
            assert_true(out[160 + t] == sum);
            assert_true(out[192 + t] == in[(t < 16 ? t : 31 - t) ^ 1]);
            assert_true(out[224 + t] == 107);
        }
    }
    fli_cuda_release(x);
    fli_cuda_release(y);
}

/* The largest error of a product against that in doubles. */
static double product_error(int split)
{
    float a[128], b[64], d[128];
    for (size_t i = 0; i < 128; i++) a[i] = sinf((float)i);
    for (size_t i = 0; i < 64; i++) b[i] = cosf((float)(3 * i));
    float *x = there(sizeof a, a), *y = there(sizeof b, b), *z = there(sizeof d, NULL);
    emulate_product(stream(), x, y, z, split);
    here(sizeof d, z, d);
    double worst = 0;
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < 8; j++) {
            double want = 0;
            for (size_t k = 0; k < 8; k++) want += (double)a[i * 8 + k] * (double)b[k * 8 + j];
            worst = fmax(worst, fabs(want - (double)d[i * 8 + j]));
        }
    fli_cuda_release(x);
    fli_cuda_release(y);
    fli_cuda_release(z);
    return worst;
}

static void test_split_products_are_precise(void **state)
{
    (void)state;
    double once = product_error(0), split = product_error(1);
    assert_true(once > 1e-5 && once < 5e-3);
    assert_true(split < 2e-6);
}

static void asynchronous(float *out, int n, int wait)
{
    float in[4 * EMULATE_THREADS];
    fill(in, 4 * EMULATE_THREADS);
    float *x = there(sizeof in, in), *y = there(sizeof in, NULL);
    emulate_async(stream(), x, y, n, wait);
    here(sizeof in, y, out);
    fli_cuda_release(x);
    fli_cuda_release(y);
}

static void test_awaited_copies_have_arrived(void **state)
{
    (void)state;
    float out[4 * EMULATE_THREADS];
    asynchronous(out, 200, 1);
    for (size_t i = 0; i < 4 * EMULATE_THREADS; i++)
        assert_true(out[i] == (i < 200 ? value(i) : 0) + (i + 1 < 200 ? value(i + 1) : 0));
}

enum { CLUSTERS = 2 * EMULATE_BLOCKS * EMULATE_THREADS };

/* Whether all values are where they should be; without clusters they are, too. */
static int neighbours(int barrier)
{
    float in[CLUSTERS], out[CLUSTERS];
    int right = 1;
    fill(in, CLUSTERS);
    float *x = there(sizeof in, in), *y = there(sizeof in, NULL);
    int ran = emulate_cluster(stream(), x, y, barrier);
    here(sizeof out, y, out);
    for (size_t i = 0; i < CLUSTERS && ran; i++) {
        size_t block = i / EMULATE_THREADS, first = block / EMULATE_BLOCKS * EMULATE_BLOCKS;
        size_t before = first + (block - first + EMULATE_BLOCKS - 1) % EMULATE_BLOCKS;
        right &= out[i] == in[before * EMULATE_THREADS + i % EMULATE_THREADS];
    }
    fli_cuda_release(x);
    fli_cuda_release(y);
    return right;
}

static void test_clusters_see_neighbours_after_barriers(void **state)
{
    (void)state;
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        assert_true(neighbours(1));
    }
}

#ifdef FLI_CUDA_EMULATED
#include "fails.h"

static void test_race_shows(void **state)
{
    (void)state;
    float one[EMULATE_BLOCKS], other[EMULATE_BLOCKS];
    fli_emulated_order(FLI_ORDER_FORWARD);
    sums(one, 0);
    fli_emulated_order(FLI_ORDER_REVERSE);
    sums(other, 0);
    assert_true(memcmp(one, other, sizeof one) != 0);
    assert_false(neighbours(0));
}

static void test_missing_wait_shows(void **state)
{
    (void)state;
    float out[4 * EMULATE_THREADS];
    asynchronous(out, 200, 0);
    assert_true(isnan(out[0]));
}

static void *room;
static void divergent(void) { emulate_divergent(stream(), room); }
static void early_end(void) { emulate_early_end(stream(), room); }
static void behind(void) { emulate_behind(stream(), room); }

static void test_mistakes_end_it(void **state)
{
    (void)state;
    room = there(64 * sizeof(float), NULL);
    assert_true(fails(divergent, "divergent_kernel, block 0 0 0: "));
    assert_true(fails(early_end, "thread 3 has ended"));
    assert_true(fails(behind, ""));
    fli_cuda_release(room);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers_hold_in_any_order),
        cmocka_unit_test(test_warps_exchange_in_any_order),
        cmocka_unit_test(test_split_products_are_precise),
        cmocka_unit_test(test_awaited_copies_have_arrived),
        cmocka_unit_test(test_clusters_see_neighbours_after_barriers),
#ifdef FLI_CUDA_EMULATED
        cmocka_unit_test(test_race_shows),
        cmocka_unit_test(test_missing_wait_shows),
        cmocka_unit_test(test_mistakes_end_it),
#endif
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
