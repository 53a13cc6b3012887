/* Whole turns by clusters of blocks, held to plain C in double precision. */
#include "turn_problem.h"

/* With clusters of so many blocks, blocks of so many warps. */
typedef struct {
    turn_case turn;
    uint32_t cluster, warps;
} wide_case;

static void check_case(const wide_case *w, fli_order order)
{
    const turn_case *c = &w->turn;
    problem p;
    make_problem(c, &p);
    fli_cuda_lane *lane = keep(&p, there(sizeof p.lane, p.lane));
    fli_emulated_order(order);
    fli_cuda_wide_force(w->cluster, w->warps);
    assert_int_equal(fli_cuda_wide_cluster(c->type, &p.net, &p.data, c->batch, 1), w->cluster);
    fli_cuda_wide_turns(stream(), c->type, &p.net, &p.data, lane, LANES, c->batch, w->cluster);
    check_turns(&p, c->type == FLI_CUDA_TF32 ? 4e-3 : 1e-6);
    fli_cuda_wide_force(0, 0);
    free_problem(&p);
}

static const wide_case cases[] = {
    {{"40-24-10", {40, 24, 10}, 2, 1, FLI_CUDA_F32, 0, 1, 12, 38, 0, 0, 0, 0}, 3, 8},
    {{"all terms", {40, 24, 10}, 2, 1, FLI_CUDA_F32, 0, 1, 12, 38, 1, 1, 1, 1}, 4, 8},
    {{"odd sizes", {52, 29, 5}, 2, 1, FLI_CUDA_F32, 0, 0, 35, 38, 1, 1, 0, 0}, 3, 16},
    {{"tf32", {64, 30, 11}, 2, 1, FLI_CUDA_TF32, 0, 1, 34, 40, 0, 1, 1, 0}, 2, 8},
    {{"no bias", {32, 60, 3}, 2, 0, FLI_CUDA_F32, 0, 1, 20, 40, 1, 0, 1, 0}, 2, 8},
    {{"most units and classes", {148, 111, 32}, 2, 1, FLI_CUDA_F32, 0, 1, 40, 40, 0, 0, 0, 1}, 2, 16},
    {{"two hidden layers", {40, 20, 24, 10}, 3, 1, FLI_CUDA_F32, 0, 1, 12, 38, 1, 1, 1, 1}, 4, 8},
    {{"two, odd sizes", {52, 60, 29, 5}, 3, 1, FLI_CUDA_F32, 0, 1, 40, 40, 0, 0, 0, 0}, 3, 8},
    {{"two, 16 warps", {52, 60, 29, 5}, 3, 0, FLI_CUDA_TF32, 0, 0, 37, 40, 1, 1, 1, 0}, 2, 16},
    {{"five tiles", {20, 75, 10}, 2, 1, FLI_CUDA_TF32, 0, 1, 33, 40, 1, 1, 1, 1}, 2, 8},
};

static void test_wide_turns_match_plain_ones(void **state)
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
        check_case(&cases[1], o);
        check_case(&cases[6], o);
    }
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    problem p;
    make_problem(&cases[1].turn, &p);
    p.lane[0].steps = 0;
    p.lane[0].start = p.lane[2].z; /* other weights */
    p.lane[1].n = 0;
    fli_cuda_lane *lane = keep(&p, there(sizeof p.lane, p.lane));
    fli_cuda_wide_turns(stream(), FLI_CUDA_F32, &p.net, &p.data, lane, 2, 12, cases[1].cluster);
    for (size_t k = 0; k < LANES; k++) {
        const plain_turn *want = &p.turn[k ? k : 2];
        assert_true(distance(p.lane[k].z, want->z, p.net.parameters, 0) < 1e-7);
    }
    free_problem(&p);
}

static void test_unfit_networks_get_no_cluster(void **state)
{
    (void)state;
    fli_cuda_data d = {.n = 1, .dim = 784, .length = 784};
    fli_network net = plain_network((size_t[]){784, 200, 10}, 2, 1);
    fli_network large = plain_network((size_t[]){784, 500, 10}, 2, 1);
    fli_network two = plain_network((size_t[]){784, 200, 200, 10}, 3, 1);
    fli_network deep = plain_network((size_t[]){784, 200, 200, 200, 10}, 4, 1);
    assert_true(fli_cuda_wide_cluster(FLI_CUDA_F32, &net, &d, 50, 10));
    assert_true(fli_cuda_wide_cluster(FLI_CUDA_TF32, &net, &d, 50, 10));
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F64, &net, &d, 50, 10));
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F32, &net, &d, 65, 10));
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F32, &large, &d, 50, 10));
    assert_true(fli_cuda_wide_cluster(FLI_CUDA_F32, &two, &d, 50, 10));
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F32, &deep, &d, 10, 10));
    d.kind = 1;
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F32, &net, &d, 50, 10));
    d.kind = 0, d.augment = 1;
    assert_false(fli_cuda_wide_cluster(FLI_CUDA_F32, &net, &d, 50, 10));
}

/* As many blocks as there are processors for, if all lanes are computed at a time; the fewer lanes, the more. */
static void test_fewer_lanes_get_larger_clusters(void **state)
{
    (void)state;
    fli_cuda_data d = {.n = 1, .dim = 784, .length = 784};
    fli_network one = plain_network((size_t[]){784, 200, 10}, 2, 1);
    fli_network two = plain_network((size_t[]){784, 200, 200, 10}, 3, 1);
    for (uint32_t lanes = 1, last = 8; lanes <= 150; lanes++) {
        uint32_t cluster = fli_cuda_wide_cluster(FLI_CUDA_F32, &one, &d, 50, lanes);
        assert_true(cluster <= last);
        last = cluster;
    }
    assert_int_equal(fli_cuda_wide_cluster(FLI_CUDA_F32, &one, &d, 50, 1), 8);
    assert_int_equal(fli_cuda_wide_cluster(FLI_CUDA_F32, &two, &d, 50, 1), 8);
    assert_int_equal(fli_cuda_wide_cluster(FLI_CUDA_F32, &one, &d, 50, 150), 0);
    assert_int_equal(fli_cuda_wide_cluster(FLI_CUDA_F32, &two, &d, 50, 150), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_turns_match_plain_ones),
        cmocka_unit_test(test_thread_order_does_not_matter),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_unfit_networks_get_no_cluster),
        cmocka_unit_test(test_fewer_lanes_get_larger_clusters),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
