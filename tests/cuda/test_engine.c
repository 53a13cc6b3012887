/* The backend `cuda` as the logic above it uses it: memory, both ways, tapes, answers, errors. */
#include "cuda/host/host.h"
#include "device/engine.h"
#include "device_memory.h"
#include "fails.h"

typedef struct {
    fl_ctx *ctx;
    fli_engine *engine;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->ctx = fl_ctx_new();
    *state = f;
    return fli_backend_cuda.open(f->ctx, 0, &f->engine) != FL_OK;
}

static int teardown(void **state)
{
    fixture *f = *state;
    fli_backend_cuda.close(f->engine);
    fl_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void *take(const fixture *f, size_t bytes)
{
    void *p = f->engine->does->alloc(f->engine, f->ctx, bytes);
    assert_non_null(p);
    assert_true((uintptr_t)p % 256 == 0);
    return p;
}

static void test_a_gpu_describes_itself(void **state)
{
    fixture *f = *state;
    char why[200] = "";
    fli_engine_info info;
    assert_true(fli_backend_cuda.count(why, sizeof why) > 0);
    assert_ok(f->ctx, fli_backend_cuda.describe(f->ctx, 0, &info));
    assert_true(info.name[0] && info.memory > 0 && info.free > 0 && info.free <= info.memory);
    assert_non_null(strstr(info.more, "compute capability"));
    assert_fails(f->ctx, fli_backend_cuda.describe(f->ctx, 1000, &info), FL_ESYSTEM, "GPU 1000");
    fli_engine *none = NULL;
    assert_fails(f->ctx, fli_backend_cuda.open(f->ctx, 1000, &none), FL_ESYSTEM, "GPU 1000");
}

/* What is given back comes again, as zeros. */
static void test_released_memory_returns_as_zeros(void **state)
{
    enum { PIECES = 300, BYTES = 1000 };
    fixture *f = *state;
    const fli_backend *does = f->engine->does;
    void *piece[PIECES];
    char junk[BYTES], back[BYTES], zero[BYTES] = {0};
    memset(junk, 7, sizeof junk);
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < PIECES; i++) {
            piece[i] = take(f, BYTES - i % 3);
            does->read(f->engine, BYTES - 2, piece[i], back);
            assert_memory_equal(back, zero, BYTES - 2);
            does->write(f->engine, BYTES - 2, junk, piece[i]);
            if (i) assert_true(piece[i] != piece[i - 1]);
        }
        for (size_t i = 0; i < PIECES; i++) does->release(f->engine, piece[i]);
    }
    void *same = take(f, BYTES);
    int found = 0;
    for (size_t i = 0; i < PIECES; i++) found |= piece[i] == same;
    assert_true(found);
    does->release(f->engine, same);
    does->release(f->engine, NULL);
    does->release(f->engine, take(f, 0));
}

static void test_too_much_memory(void **state)
{
    fixture *f = *state;
    void *large = take(f, 6 << 20);
    f->engine->does->release(f->engine, large); /* goes back to CUDA when more is wanted than there is */
    assert_null(f->engine->does->alloc(f->engine, f->ctx, (size_t)1 << 46));
    assert_non_null(strstr(fl_ctx_error(f->ctx), "the GPU has no memory left for 70368744 MB"));
    fli_clear(f->ctx);
    assert_null(f->engine->does->alloc(f->engine, f->ctx, SIZE_MAX));
    fli_clear(f->ctx);
    assert_ok(f->ctx, f->engine->does->status(f->engine, f->ctx)); /* it goes on */
    f->engine->does->release(f->engine, take(f, 5 << 20));
}

/* More than the engine has room to stage, and what it has room for, again and again. */
static void test_both_ways(void **state)
{
    enum { BYTES = 9 << 20, SMALL = 300000 };
    fixture *f = *state;
    char *from = malloc(BYTES), *to = malloc(BYTES), *v = take(f, BYTES);
    for (size_t i = 0; i < BYTES; i++) from[i] = (char)(i * 31 + i / 977);
    f->engine->does->write(f->engine, BYTES, from, v);
    for (size_t i = 0; i < 40; i++) {
        memset(from + i * SMALL / 2, (int)i, SMALL);
        f->engine->does->write(f->engine, SMALL, from + i * SMALL / 2, v + i * SMALL / 2);
    }
    f->engine->does->read(f->engine, BYTES, v, to);
    assert_memory_equal(from, to, BYTES);
    f->engine->does->read(f->engine, SMALL, v + 13, to);
    assert_memory_equal(from + 13, to, SMALL);
    f->engine->does->release(f->engine, v);
    free(from);
    free(to);
}

/* x_lane = 2; y_lane = x + ... + x, lane + 1 times: long tapes too, which the ring is too small for. */
static void play_lanes(const fixture *f, size_t n, uint32_t lanes, uint32_t terms)
{
    float *x = take(f, n * lanes * sizeof *x), *y = take(f, n * lanes * sizeof *y);
    fli_tape_op *op = calloc(2 * lanes, sizeof *op);
    fli_tape_term *term = calloc((size_t)lanes * terms, sizeof *term);
    uint32_t *begin = calloc(lanes + 1, sizeof *begin);
    fli_tape t = {.ops = &fli_ops_f32, .n = n, .op = op, .term = term, .begin = begin, .lanes = lanes};
    for (uint32_t l = 0; l < lanes; l++) {
        begin[l] = (uint32_t)t.count;
        op[t.count++] = (fli_tape_op){.kind = FLI_TAPE_FILL, .a = 2, .out = x + l * n};
        op[t.count] = (fli_tape_op){.kind = FLI_TAPE_SUM, .first = (uint32_t)t.terms, .out = y + l * n};
        op[t.count++].count = terms;
        for (uint32_t k = 0; k < terms; k++) term[t.terms++] = (fli_tape_term){(double)(l + 1) / 4, x + l * n};
    }
    begin[lanes] = (uint32_t)t.count;
    f->engine->does->play(f->engine, &t);
    memset(term, 0, (size_t)lanes * terms * sizeof *term); /* it may be used anew at once */
    float *got = malloc(n * lanes * sizeof *got);
    f->engine->does->read(f->engine, n * lanes * sizeof *got, y, got);
    for (size_t i = 0; i < n * lanes; i++) assert_true(got[i] == (float)terms * (float)(i / n + 1) / 2);
    f->engine->does->release(f->engine, x);
    f->engine->does->release(f->engine, y);
    free(got);
    free(op);
    free(term);
    free(begin);
}

static void test_long_tapes_are_played_whole(void **state)
{
    play_lanes(*state, 5, 1, 1);
    play_lanes(*state, 6, 40, 3);
    play_lanes(*state, 33, 3, 20);
    for (int i = 0; i < 20; i++) play_lanes(*state, 4, 40, 400);
    play_lanes(*state, 1, 300, 1200);
    assert_ok(((fixture *)*state)->ctx,
              ((fixture *)*state)->engine->does->status(((fixture *)*state)->engine, ((fixture *)*state)->ctx));
}

static void test_dot_and_finite_are_right(void **state)
{
    enum { N = 3000, SOME = 70 };
    fixture *f = *state;
    double x[N], want = 0;
    float good[4] = {1, 2, 3, 4}, bad[4] = {1, 2, INFINITY, 4};
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)(i % 50) / 8;
        want += x[i] * x[i];
    }
    void *v = take(f, sizeof x), *g = take(f, sizeof good), *b = take(f, sizeof bad);
    f->engine->does->write(f->engine, sizeof x, x, v);
    f->engine->does->write(f->engine, sizeof good, good, g);
    f->engine->does->write(f->engine, sizeof bad, bad, b);
    assert_true(f->engine->does->dot(f->engine, &fli_ops_f64, N, v, v) == want);
    assert_true(f->engine->does->dot(f->engine, &fli_ops_f32, 4, g, g) == 30);
    assert_true(f->engine->does->dot(f->engine, &fli_ops_f32, 0, g, g) == 0);
    const void *list[SOME];
    unsigned char out[SOME];
    for (size_t i = 0; i < SOME; i++) list[i] = i % 3 == 1 ? b : g;
    f->engine->does->finite(f->engine, &fli_ops_f32, 4, SOME, list, out);
    for (size_t i = 0; i < SOME; i++) assert_int_equal(out[i], i % 3 != 1);
    f->engine->does->release(f->engine, v);
    f->engine->does->release(f->engine, g);
    f->engine->does->release(f->engine, b);
}

/* Without memory for its lists nothing is lost. */
static void test_lists_fail(void **state)
{
    fixture *f = *state;
    for (size_t k = 1; k < 8; k++) {
        fli_cuda_stream s;
        void *p;
        assert_int_equal(fli_cuda_stream_new(&s), 0);
        fli_ctx_fail_alloc(f->ctx, k);
        fli_cuda_heap *h = fli_cuda_heap_new(f->ctx, s);
        if (h) {
            int code = 0;
            for (size_t i = 0; i < 100 && !code; i++) code = fli_cuda_heap_take(h, f->ctx, 100 * i + 1, &p);
            assert_true(code || k > 6);
            fli_ctx_fail_alloc(f->ctx, 0);
            assert_int_equal(fli_cuda_heap_take(h, f->ctx, 100, &p), 0);
            fli_cuda_heap_give(h, p);
        }
        fli_ctx_fail_alloc(f->ctx, 0);
        fli_clear(f->ctx);
        fli_cuda_heap_free(h);
        fli_cuda_stream_free(s);
    }
}

#ifdef FLI_CUDA_EMULATED
/* An error of a kernel's comes up later, stays, and is told as often as somebody asks. */
static void test_failure_stays(void **state)
{
    fixture *f = *state;
    fli_engine *e;
    float x[4] = {1, 2, 3, 4};
    unsigned char finite = 1;
    assert_ok(f->ctx, fli_backend_cuda.open(f->ctx, 0, &e));
    void *v = e->does->alloc(e, f->ctx, sizeof x);
    e->does->write(e, sizeof x, x, v);
    fli_emulated_fail(700);
    assert_fails(f->ctx, e->does->status(e, f->ctx), FL_ESYSTEM, "the GPU failed: kernels: an illegal memory access");
    assert_fails(f->ctx, e->does->status(e, f->ctx), FL_ESYSTEM, "kernels: an illegal memory access");
    e->does->read(e, sizeof x, v, x);
    assert_true(isnan(x[0]) && isnan(x[3]));
    assert_true(isnan(e->does->dot(e, &fli_ops_f32, 4, v, v)));
    const void *list[] = {v};
    e->does->finite(e, &fli_ops_f32, 4, 1, list, &finite);
    assert_int_equal(finite, 0);
    assert_null(e->does->alloc(e, f->ctx, 100));
    fli_clear(f->ctx);
    e->does->close(e);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_describes_itself),
        cmocka_unit_test(test_released_memory_returns_as_zeros),
        cmocka_unit_test(test_too_much_memory),
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_long_tapes_are_played_whole),
        cmocka_unit_test(test_dot_and_finite_are_right),
        cmocka_unit_test(test_lists_fail),
#ifdef FLI_CUDA_EMULATED
        cmocka_unit_test(test_failure_stays),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
