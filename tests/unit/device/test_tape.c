/* Operations that are recorded and played, against the same done at once: random programs over a few vectors, within
 * lanes and outside of them, bit for bit. How sums are gathered, and what ends a tape. */
#include "check.h"

#include "device/device.h"
#include "vec/space.h"

#include <signal.h>
#include <sys/wait.h>

enum { N = 2500, SHARED = 3, LANES = 4, OWN = 4, VECTORS = SHARED + LANES * OWN, ROUNDS = 60 };

/* ---- an engine that also says what it was given --------------------------------------------------------- */

static size_t plays, played_ops, played_lanes, longest_sum;

static void counting_play(fli_engine *e, const fli_tape *t)
{
    plays++;
    played_ops += t->count;
    played_lanes += t->lanes;
    for (size_t i = 0; i < t->count; i++)
        if (t->op[i].kind == FLI_TAPE_SUM && t->op[i].count > longest_sum) longest_sum = t->op[i].count;
    fli_backend_cpu.play(e, t);
}

static void forget_counts(void) { plays = played_ops = played_lanes = longest_sum = 0; }

typedef struct {
    fl_ctx *ctx;
    fli_backend backend;
    fli_engine *engine;
    fli_recorder *recorder;
    fl_space there, here;
    void *memory, *v[VECTORS]; /* there */
    char *plain, *w[VECTORS];  /* the same here */
} bench;

static void bench_init(bench *b, const fli_ops *ops)
{
    fli_rng r;
    double x[N];
    *b = (bench){.ctx = fl_ctx_new(), .backend = fli_backend_cpu, .here = fli_space_of(ops, N, NULL)};
    b->backend.play = counting_play;
    assert_ok(b->ctx, fli_backend_cpu.open(b->ctx, 0, &b->engine));
    b->engine->does = &b->backend;
    assert_ok(b->ctx, fli_recorder_new(b->ctx, b->engine, &b->recorder));
    b->there = fli_space_of(ops, N, fli_recorder_place(b->recorder));
    b->memory = fli_vector_alloc(b->ctx, &b->there, VECTORS * N * ops->size);
    b->plain = fli_alloc(b->ctx, VECTORS * N, ops->size);
    assert_non_null(b->memory);
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < VECTORS; i++) {
        b->v[i] = fli_at(ops, b->memory, i * N);
        b->w[i] = fli_at(ops, b->plain, i * N);
        for (size_t k = 0; k < N; k++) x[k] = fli_rng_normal(&r);
        ops->from_f64(N, x, b->w[i]);
        fli_vector_write(&b->there, N * ops->size, b->w[i], b->v[i]);
    }
    forget_counts();
}

static void bench_fini(bench *b)
{
    fli_vector_free(&b->there, b->memory);
    fli_recorder_free(b->recorder);
    fli_backend_cpu.close(b->engine);
    fli_free(b->plain);
    fl_ctx_free(b->ctx);
}

static void same(bench *b)
{
    size_t bytes = fli_bytes(&b->there);
    char *got = malloc(bytes);
    for (size_t i = 0; i < VECTORS; i++) {
        fli_vector_read(&b->there, bytes, b->v[i], got);
        assert_memory_equal(got, b->w[i], bytes);
    }
    assert_ok(b->ctx, b->there.place->does->status(b->there.place, b->ctx));
    free(got);
}

/* ---- random programs ------------------------------------------------------------------------------------ */

static void mapped(const void *arg, double *v)
{
    v[0] = v[0] / 2 + *(const double *)arg * v[1];
    v[1] = -v[0];
}

/* One operation on vectors x and y, into out, which may be one of them where that is allowed. */
static void operate(const fl_space *s, uint32_t kind, double a, void *x, void *y, void *out)
{
    switch (kind) {
    case 0: fli_copy(s, x, out); break;
    case 1: fli_fill(s, a, out); break;
    case 2: fli_lin(s, a, x, -0.5, y, out); break;
    case 3: fli_scale(s, a, out); break;
    case 4: fli_sub(s, x, y, out); break;
    case 5: fli_zero(s, out); break;
    default:
        if (x != out) fli_axpy(s, a, x, out);
    }
}

/* What is read may be shared or the lane's own; what is written is its own. */
static void random_op(bench *b, fli_rng *r, size_t lane, size_t kinds)
{
    size_t own = SHARED + lane * OWN, from[2], out = own + fli_rng_below(r, OWN);
    uint32_t kind = (uint32_t)fli_rng_below(r, kinds);
    double a = fli_rng_range(r, -1, 1);
    for (size_t i = 0; i < 2; i++) {
        size_t k = fli_rng_below(r, SHARED + OWN);
        from[i] = k < SHARED ? k : own + k - SHARED;
    }
    operate(&b->there, kind, a, b->v[from[0]], b->v[from[1]], b->v[out]);
    operate(&b->here, kind, a, b->w[from[0]], b->w[from[1]], b->w[out]);
}

/* Any vector. */
static void server_op(bench *b, fli_rng *r, size_t kinds)
{
    size_t x = fli_rng_below(r, VECTORS), y = fli_rng_below(r, VECTORS), out = fli_rng_below(r, VECTORS);
    uint32_t kind = (uint32_t)fli_rng_below(r, kinds);
    double a = fli_rng_range(r, -1, 1);
    operate(&b->there, kind, a, b->v[x], b->v[y], b->v[out]);
    operate(&b->here, kind, a, b->w[x], b->w[y], b->w[out]);
}

/* Something that does not go on a tape. */
static void interruption(bench *b, fli_rng *r)
{
    size_t x = fli_rng_below(r, VECTORS), y = (x + 1 + fli_rng_below(r, VECTORS - 1)) % VECTORS;
    double a = 0.25;
    unsigned char finite[2];
    const void *both[2] = {b->v[x], b->v[y]};
    fl_space part = b->there, part_here = b->here;
    switch (fli_rng_below(r, 5)) {
    case 0: assert_true(fli_dot(&b->there, b->v[x], b->v[y]) == fli_dot(&b->here, b->w[x], b->w[y])); break;
    case 1:
        fli_map(&b->there, 2, (void *const[]){b->v[x], b->v[y]}, mapped, &a);
        fli_map(&b->here, 2, (void *const[]){b->w[x], b->w[y]}, mapped, &a);
        break;
    case 2: /* another length */
        part.n = part_here.n = N / 3;
        fli_axpy(&part, a, b->v[x], b->v[y]);
        fli_axpy(&part_here, a, b->w[x], b->w[y]);
        break;
    case 3:
        b->there.place->does->finite(b->there.place, b->there.ops, N, 2, both, finite);
        assert_int_equal(finite[0], fli_finite(&b->here, b->w[x]) != 0);
        assert_int_equal(finite[1], fli_finite(&b->here, b->w[y]) != 0);
        break;
    default:
        memset(b->w[x], 0, fli_bytes(&b->here));
        fli_vector_write(&b->there, fli_bytes(&b->there), b->w[x], b->v[x]);
    }
}

static void programs(const fli_ops *ops)
{
    bench b;
    fli_rng r;
    bench_init(&b, ops);
    fli_rng_init(&r, 6, FLI_RNG_TEST, 1, 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t kinds = round % 2 ? 12 : 7; /* mostly sums in every other round */
        for (size_t pass = 0; pass <= fli_rng_below(&r, 2); pass++)
            for (size_t i = 0; i < LANES; i++) {
                b.there.place->does->lane(b.there.place, i);
                for (size_t k = fli_rng_below(&r, 9); k > 0; k--)
                    if (round % 3) /* in every third round lanes do not keep to themselves */
                        random_op(&b, &r, i, kinds);
                    else
                        server_op(&b, &r, kinds);
            }
        b.there.place->does->join(b.there.place);
        for (size_t k = fli_rng_below(&r, 40); k > 0; k--) server_op(&b, &r, kinds);
        if (fli_rng_below(&r, 3) == 0) interruption(&b, &r);
        if (fli_rng_below(&r, 4) == 0) same(&b);
    }
    same(&b);
    assert_true(longest_sum > 2);
    bench_fini(&b);
}

static void test_random_programs_give_equal_bits(void **state)
{
    (void)state;
    programs(&fli_ops_f32);
    programs(&fli_ops_f64);
}

/* ---- sums ----------------------------------------------------------------------------------------------- */

/* y_k += a x_i for every i, two targets in turn: two operations. */
static void test_uploads_become_two_sums(void **state)
{
    bench b;
    (void)state;
    bench_init(&b, &fli_ops_f32);
    for (size_t round = 0; round < 30; round++)
        for (size_t i = 2; i < VECTORS; i++)
            for (size_t k = 0; k < 2; k++) {
                double a = 0.01 * (double)(i + round + k);
                fli_axpy(&b.there, a, b.v[i], b.v[k]);
                fli_axpy(&b.here, a, b.w[i], b.w[k]);
            }
    same(&b);
    assert_int_equal(plays, 1);
    assert_int_equal(played_ops, 2);
    assert_int_equal(longest_sum, 30 * (VECTORS - 2));
    bench_fini(&b);
}

/* What was read or written in between keeps a sum from being gathered. */
static void test_order_matters(void **state)
{
    static const size_t uses[][2] = {{0, 1}, {1, 2}, {0, 2}, {1, 0}, {2, 1}}; /* an axpy from, to */
    bench b;
    (void)state;
    bench_init(&b, &fli_ops_f64);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++)
            for (size_t k = 0; k < 5; k++) {
                const size_t *use[3] = {uses[i], uses[j], uses[k]};
                for (size_t s = 0; s < 3; s++) {
                    fli_axpy(&b.there, 0.3, b.v[use[s][0]], b.v[use[s][1]]);
                    fli_axpy(&b.here, 0.3, b.w[use[s][0]], b.w[use[s][1]]);
                }
                same(&b);
            }
    bench_fini(&b);
}

static void both(bench *b, void (*fn)(const fl_space *, double, const void *, void *), size_t x, size_t y)
{
    fn(&b->there, 0.5, b->v[x], b->v[y]);
    fn(&b->here, 0.5, b->w[x], b->w[y]);
}

static void add(const fl_space *s, double a, const void *x, void *y) { fli_axpy(s, a, x, y); }
static void put(const fl_space *s, double a, const void *x, void *y) { fli_lin(s, a, x, a, x, y); }

/* Lanes, and what belongs to none, go on one tape, until one has to see what another did. */
static void test_lanes_share_one_tape(void **state)
{
    bench b;
    (void)state;
    bench_init(&b, &fli_ops_f32);
    fli_place *p = b.there.place;
    both(&b, put, 0, 1); /* the server's */
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < LANES; i++) {
            p->does->lane(p, i);
            both(&b, add, 2, SHARED + i * OWN + pass);
        }
    p->does->join(p);
    both(&b, put, 0, SHARED + 3);
    /* what is on the tape is none of their business */
    size_t x = SHARED + 2, y = SHARED + OWN + 2;
    assert_true(fli_dot(&b.there, b.v[x], b.v[y]) == fli_dot(&b.here, b.w[x], b.w[y]));
    assert_true(fli_finite(&b.there, b.v[x]));
    assert_int_equal(plays, 0);
    both(&b, add, SHARED, 0); /* sees lane 0 */
    assert_int_equal(plays, 1);
    assert_int_equal(played_lanes, LANES + 1);
    assert_int_equal(played_ops, 2 * LANES + 2);
    p->does->lane(p, 0);
    both(&b, put, 0, SHARED); /* sees the server, and writes what it has read */
    assert_int_equal(plays, 2);
    p->does->lane(p, 1);
    both(&b, add, 2, SHARED + OWN);
    p->does->lane(p, 2);
    both(&b, add, 1, 2); /* writes what lane 1 has read */
    assert_int_equal(plays, 3);
    same(&b);
    assert_int_equal(plays, 4);
    bench_fini(&b);
}

/* ---- addresses ------------------------------------------------------------------------------------------ */

/* Code that follows an address of the backend `twin` crashes. */
static void test_twin_addresses_cannot_be_followed(void **state)
{
    bench b;
    int status;
    (void)state;
    bench_init(&b, &fli_ops_f32);
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL); /* not the tests' own handler */
        close(STDERR_FILENO);
        _exit(((volatile char *)b.v[1])[0] ? 0 : 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bench_fini(&b);
}

static void test_no_memory(void **state)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_engine *e;
    (void)state;
    assert_ok(ctx, fli_backend_cpu.open(ctx, 0, &e));
    for (size_t k = 1; k < 12; k++) {
        fli_recorder *r = NULL;
        fli_ctx_fail_alloc(ctx, k);
        if (!fli_recorder_new(ctx, e, &r)) {
            fl_space s = fli_space_of(&fli_ops_f32, 8, fli_recorder_place(r));
            char *v = fli_vector_alloc(ctx, &s, 64 * 200);
            for (size_t i = 1; v && i < 200; i++) fli_axpy(&s, 1, v + 64 * i, v + 64 * (i % 2));
            fl_status status = s.place->does->status(s.place, ctx);
            assert_true(status == FL_OK || status == FL_ENOMEM);
            fli_vector_free(&s, v);
        }
        fli_ctx_fail_alloc(ctx, 0);
        fli_clear(ctx);
        fli_recorder_free(r);
    }
    fli_backend_cpu.close(e);
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs_give_equal_bits),
        cmocka_unit_test(test_uploads_become_two_sums),
        cmocka_unit_test(test_order_matters),
        cmocka_unit_test(test_lanes_share_one_tape),
        cmocka_unit_test(test_twin_addresses_cannot_be_followed),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
