/* Tapes give the bits that vec/ops.h gives, whatever the threads' order, the vectors' length and their places. */
#include "cuda/kernels/kernels.h"
#include "device_memory.h"
#include "order.h"

/* A tape's memory: `vectors` vectors of `stride` reals. The first SHARED are read by all lanes and written by none; the
 * others belong to the lanes in turn. */
enum { SHARED = 4, EACH = 5, OPS = 9, LANES_MOST = 3, TERMS_MOST = 700 };

typedef struct {
    const fli_ops *ops;
    size_t n, stride, offset, lanes, terms;
    char *here, *there; /* the same vectors */
    fli_tape_op op[LANES_MOST * OPS];
    fli_tape_term term[LANES_MOST * OPS * TERMS_MOST];
    uint32_t begin[LANES_MOST + 1];
    uint32_t random;
} tape_case;

static uint32_t draw(tape_case *c, uint32_t below)
{
    c->random = c->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)c->random * below >> 32);
}
static double number(tape_case *c) { return (double)draw(c, 2000001) / 1e6 - 1; }

static size_t vectors(const tape_case *c) { return SHARED + EACH * c->lanes; }
static size_t bytes(const tape_case *c) { return vectors(c) * c->stride * c->ops->size; }
static size_t place_of(const tape_case *c, size_t vector) { return (vector * c->stride + c->offset) * c->ops->size; }

static size_t own(tape_case *c, size_t lane) { return SHARED + lane * EACH + draw(c, EACH); }
static size_t any(tape_case *c, size_t lane) { return draw(c, 2) ? draw(c, SHARED) : own(c, lane); }
static size_t other(tape_case *c, size_t lane, size_t than)
{
    size_t v = any(c, lane);
    return v == than ? 0 : v;
}

/* Writes it on the tape with addresses there, and does it here. */
static void add_sum(tape_case *c, fli_tape_op *o, size_t lane, size_t out, uint32_t count)
{
    o->first = (uint32_t)c->terms;
    o->count = count;
    for (uint32_t k = 0; k < count; k++) {
        size_t x = other(c, lane, out);
        fli_tape_term *t = &c->term[c->terms++];
        *t = (fli_tape_term){number(c), c->there + place_of(c, x)};
        c->ops->axpy(c->n, t->a, c->here + place_of(c, x), c->here + place_of(c, out));
    }
}

static void add_op(tape_case *c, fli_tape_op *o, size_t lane, uint32_t most_terms)
{
    size_t out = own(c, lane), x = other(c, lane, out), y = any(c, lane);
    char *to = c->here + place_of(c, out), *from = c->here + place_of(c, x), *beside = c->here + place_of(c, y);
    *o = (fli_tape_op){.kind = draw(c, FLI_TAPE_SUM + 1), .a = number(c), .b = number(c)};
    o->out = c->there + place_of(c, out);
    o->x = c->there + place_of(c, x);
    o->y = c->there + place_of(c, y);
    switch ((fli_tape_kind)o->kind) {
    case FLI_TAPE_COPY: memcpy(to, from, c->n * c->ops->size); break;
    case FLI_TAPE_FILL: c->ops->fill(c->n, o->a, to); break;
    case FLI_TAPE_AXPY: c->ops->axpy(c->n, o->a, from, to); break;
    case FLI_TAPE_LIN: c->ops->lin(c->n, o->a, from, o->b, beside, to); break;
    case FLI_TAPE_SCALE: c->ops->scale(c->n, o->a, to); break;
    case FLI_TAPE_SUM: add_sum(c, o, lane, out, 1 + draw(c, most_terms)); break;
    }
}

static void record(tape_case *c, uint32_t most_terms)
{
    double *fresh = malloc(vectors(c) * c->stride * sizeof *fresh);
    for (size_t i = 0; i < vectors(c) * c->stride; i++) fresh[i] = number(c);
    c->ops->from_f64(vectors(c) * c->stride, fresh, c->here);
    free(fresh);
    c->there = there(bytes(c), c->here);
    for (size_t lane = 0; lane < c->lanes; lane++) {
        c->begin[lane] = (uint32_t)(lane * OPS);
        for (size_t k = 0; k < OPS; k++) add_op(c, &c->op[lane * OPS + k], lane, most_terms);
    }
    c->begin[c->lanes] = (uint32_t)(c->lanes * OPS);
}

static void play(const tape_case *c, uint32_t longest, int aligned)
{
    void *op = there(c->lanes * OPS * sizeof *c->op, c->op);
    void *term = there((c->terms + 1) * sizeof *c->term, c->term);
    void *begin = there(sizeof c->begin, c->begin);
    fli_cuda_tape t = {.n = c->n,
                       .op = op,
                       .term = term,
                       .begin = begin,
                       .lanes = (uint32_t)c->lanes,
                       .longest_sum = longest,
                       .aligned = aligned};
    fli_cuda_play(stream(), c->ops->size == sizeof(double), &t);
    assert_int_equal(fli_cuda_wait(stream()), 0);
    fli_cuda_release(op);
    fli_cuda_release(term);
    fli_cuda_release(begin);
}

static void check_tape(const fli_ops *ops, size_t n, size_t lanes, uint32_t most_terms, size_t offset)
{
    tape_case *c = calloc(1, sizeof *c);
    *c = (tape_case){.ops = ops, .n = n, .stride = (n + offset + 3) / 4 * 4, .offset = offset, .lanes = lanes};
    c->random = (uint32_t)(n * 31 + lanes * 7 + most_terms + offset);
    c->here = malloc(bytes(c));
    record(c, most_terms);
    play(c, most_terms, offset == 0);
    void *result = malloc(bytes(c));
    here(bytes(c), c->there, result);
    assert_memory_equal(result, c->here, bytes(c));
    fli_cuda_release(c->there);
    free(result);
    free(c->here);
    free(c);
}

static void test_tapes_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 3, 4, 130, 301};
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        for (size_t p = 0; fli_ops_list[p]; p++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
                for (size_t lanes = 1; lanes <= LANES_MOST; lanes++)
                    for (size_t offset = 0; offset < 2; offset++)
                        check_tape(fli_ops_list[p], lengths[i], lanes, 10, offset);
    }
}

/* A thread has many entries. */
static void test_long_vectors(void **state)
{
    (void)state;
    for (size_t p = 0; fli_ops_list[p]; p++) check_tape(fli_ops_list[p], 4623, LANES_MOST, 10, 0);
}

/* Sums of many terms, of vectors that are short, and such that are not. */
static void test_long_sums(void **state)
{
    (void)state;
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        for (size_t p = 0; fli_ops_list[p]; p++) {
            check_tape(fli_ops_list[p], 37, 2, 300, 0);
            check_tape(fli_ops_list[p], 64, 1, TERMS_MOST, 1);
        }
    }
    check_tape(&fli_ops_f32, 70001, 1, 20, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tapes_give_the_same_bits),
        cmocka_unit_test(test_long_vectors),
        cmocka_unit_test(test_long_sums),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
