/* Whole turns of small networks in one kernel, held to plain C in double precision. */
#include "turn_problem.h"

static void check_case(const turn_case *c, fli_order order)
{
    problem p;
    int wide = c->type == FLI_CUDA_F64;
    make_problem(c, &p);
    fli_cuda_lane *lane = keep(&p, there(sizeof p.lane, p.lane));
    fli_emulated_order(order);
    assert_true(fli_cuda_small_fits(c->type, &p.net, &p.data, c->batch));
    fli_cuda_small_turns(stream(), c->type, &p.net, &p.data, lane, LANES, c->batch);
    check_turns(&p, wide ? 1e-13 : 3e-6);
    free_problem(&p);
}

static const turn_case cases[] = {
    {"60-32-10", {60, 32, 10}, 2, 1, FLI_CUDA_F32, 0, 1, 12, 38, 0, 0, 0, 0},
    {"60-32-10, all terms", {60, 32, 10}, 2, 1, FLI_CUDA_F32, 1, 3, 12, 38, 1, 1, 1, 1},
    {"tf32 is single precision", {60, 32, 10}, 2, 1, FLI_CUDA_TF32, 1, 0, 12, 38, 0, 1, 1, 0},
    {"odd sizes", {7, 5, 6, 3}, 3, 1, FLI_CUDA_F32, 2, 7, 3, 17, 1, 1, 0, 0},
    {"odd bytes", {7, 5, 6, 3}, 3, 0, FLI_CUDA_F64, 0, 7, 3, 17, 0, 0, 1, 1},
    {"doubles", {20, 13, 9, 4}, 3, 1, FLI_CUDA_F64, 2, 2, 9, 31, 1, 1, 1, 0},
    {"floats for doubles", {20, 13, 4}, 2, 1, FLI_CUDA_F64, 1, 20, 9, 31, 0, 1, 0, 0},
    {"softmax", {33, 10}, 1, 1, FLI_CUDA_F32, 0, 1, 16, 40, 1, 0, 0, 1},
    {"softmax, more classes than threads of a row", {12, 19}, 1, 1, FLI_CUDA_F32, 0, 1, 16, 40, 0, 0, 0, 0},
    {"logistic", {23, 1}, 1, 0, FLI_CUDA_F32, 1, 0, 10, 37, 0, 1, 1, 0},
    {"logistic, doubles", {24, 1}, 1, 0, FLI_CUDA_F64, 2, 0, 10, 37, 1, 0, 0, 0},
    {"all samples at once", {16, 8, 3}, 2, 1, FLI_CUDA_F32, 0, 0, 40, 40, 0, 0, 0, 0},
    {"one at a time", {16, 8, 3}, 2, 1, FLI_CUDA_F32, 0, 1, 1, 12, 0, 0, 0, 0},
    {"more tiles than threads", {130, 70, 5}, 2, 1, FLI_CUDA_F32, 0, 1, 12, 20, 1, 0, 0, 0},
    {"too large for all terms", {600, 37, 4}, 2, 1, FLI_CUDA_F32, 0, 1, 11, 20, 1, 1, 1, 0},
    {"no room for samples in advance", {900, 40, 4}, 2, 1, FLI_CUDA_F32, 1, 1, 11, 18, 0, 0, 1, 0},
    {"63-32-16, as large as a hidden layer in registers", {63, 32, 16}, 2, 1, FLI_CUDA_F32, 0, 1, 30, 40, 1, 1, 1, 0},
    {"9-5-2, no biases", {9, 5, 2}, 2, 0, FLI_CUDA_F32, 1, 0, 57, 37, 0, 1, 0, 1},
};

static void test_small_turns_match_plain_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], i % 2 ? FLI_ORDER_REVERSE : FLI_ORDER_FORWARD);
}

/* A missing barrier would show. */
static void test_thread_order_does_not_matter(void **state)
{
    (void)state;
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        check_case(&cases[3], o);
        check_case(&cases[13], o); /* sums in parts */
        check_case(&cases[16], o); /* a small hidden layer */
    }
    check_case(&cases[1], FLI_ORDER_RANDOM);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    problem p;
    make_problem(&cases[3], &p);
    p.lane[0].steps = 0;
    p.lane[1].n = 0;
    p.turn[0].steps = p.turn[1].steps = 0;
    fli_cuda_lane *lane = keep(&p, there(sizeof p.lane, p.lane));
    fli_cuda_small_turns(stream(), FLI_CUDA_F32, &p.net, &p.data, lane, 2, 3);
    for (size_t k = 0; k < LANES; k++) assert_true(distance(p.lane[k].z, p.turn[k].z, p.net.parameters, 0) < 1e-7);
    free_problem(&p);
}

static void test_only_small_networks_fit(void **state)
{
    (void)state;
    fli_cuda_data d = {.n = 1, .dim = 784, .length = 784};
    fli_network softmax = plain_network((size_t[]){784, 10}, 1, 1),
                deep = plain_network((size_t[]){784, 200, 10}, 2, 1);
    fli_network small = plain_network((size_t[]){784, 16, 10}, 2, 1);
    assert_true(fli_cuda_small_fits(FLI_CUDA_F32, &softmax, &d, 50));
    assert_false(fli_cuda_small_fits(FLI_CUDA_F64, &softmax, &d, 50));
    assert_true(fli_cuda_small_fits(FLI_CUDA_F64, &softmax, &d, 20));
    assert_false(fli_cuda_small_fits(FLI_CUDA_F32, &softmax, &d, 80));
    assert_false(fli_cuda_small_fits(FLI_CUDA_F32, &softmax, &d, 4000000000u));
    assert_false(fli_cuda_small_fits(FLI_CUDA_F32, &deep, &d, 10));
    assert_true(fli_cuda_small_fits(FLI_CUDA_F32, &small, &d, 32));
    small.layer[0].kind = FLI_NET_CONV;
    assert_false(fli_cuda_small_fits(FLI_CUDA_F32, &small, &d, 32));
    d.augment = 1;
    assert_false(fli_cuda_small_fits(FLI_CUDA_F32, &softmax, &d, 50));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_turns_match_plain_ones),
        cmocka_unit_test(test_thread_order_does_not_matter),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_only_small_networks_fit),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
