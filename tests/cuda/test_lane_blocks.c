/* What blocks of lanes need there: how many lanes fit, and that what was packed arrives, with addresses that lead to
 * each other. */
#include "fixture.h"

#include "cuda/host/host.h"

enum { MEGA = 1 << 20, LANES = 10 };

typedef struct {
    void *room;
    const uint32_t *list;
} entry;

typedef struct {
    entry entry[LANES];
    const entry *there;
    size_t list; /* its length */
} packed;

/* For every lane a megabyte, and a list of its number, repeated; then a table that leads to them. */
static void pack(void *arg, size_t lanes, fli_cuda_layout *p)
{
    packed *k = arg;
    uint32_t list[100];
    for (size_t i = 0; i < lanes; i++) {
        for (size_t j = 0; j < k->list; j++) list[j] = (uint32_t)i;
        k->entry[i].room = fli_cuda_layout_reserve(p, MEGA);
        k->entry[i].list = fli_cuda_layout_copy(p, list, k->list * sizeof *list);
    }
    k->there = fli_cuda_layout_copy(p, k->entry, lanes * sizeof *k->entry);
}

static void check(fli_engine *e, packed *k, size_t lanes)
{
    entry table[LANES];
    uint32_t list[100];
    e->does->read(e, lanes * sizeof *table, k->there, table);
    for (size_t i = 0; i < lanes; i++) {
        assert_ptr_equal(table[i].room, k->entry[i].room);
        assert_int_equal((uintptr_t)table[i].room % 256, 0);
        if (i) assert_true((char *)table[i].room - (char *)table[i - 1].room >= MEGA);
        /* nothing that was sent lies in a room */
        assert_true((const char *)table[i].list < (const char *)table[0].room);
        e->does->read(e, k->list * sizeof *list, table[i].list, list);
        for (size_t j = 0; j < k->list; j++) assert_int_equal(list[j], i);
    }
}

static void lanes_fit_the_limit(void **state)
{
    static const struct {
        double limit;
        size_t lanes, list;
    } cases[] = {{3.5 * MEGA, 3, 5}, {INFINITY, LANES, 100}, {1, 1, 0}, {LANES * 1.01 * MEGA, LANES, 1}};
    fixture *f = *state;
    fli_engine *e;
    fli_cuda_workspace d = {0};
    assert_ok(f->ctx, fli_backend_cuda.open(f->ctx, 0, &e));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        packed k = {.list = cases[i].list};
        size_t lanes = LANES;
        assert_ok(f->ctx, fli_cuda_workspace_send(f->ctx, e, &d, pack, &k, cases[i].limit, &lanes));
        assert_int_equal(lanes, cases[i].lanes);
        check(e, &k, lanes);
    }
    fli_cuda_workspace_fini(e, &d);
    assert_ok(f->ctx, e->does->status(e, f->ctx));
    fli_backend_cuda.close(e);
}

/* A layout that no device has room for fails, and the next one that fits does not. */
static void pack_far_too_much(void *arg, size_t lanes, fli_cuda_layout *p)
{
    *(void **)arg = fli_cuda_layout_reserve(p, (size_t)1 << 50);
    (void)lanes;
}

static void no_room_is_said(void **state)
{
    fixture *f = *state;
    fli_engine *e;
    fli_cuda_workspace d = {0};
    packed k = {.list = 3};
    size_t lanes = LANES;
    void *room;
    assert_ok(f->ctx, fli_backend_cuda.open(f->ctx, 0, &e));
    assert_fails(f->ctx, fli_cuda_workspace_send(f->ctx, e, &d, pack_far_too_much, &room, INFINITY, &lanes), FL_ENOMEM,
                 "memory");
    lanes = 2;
    assert_ok(f->ctx, fli_cuda_workspace_send(f->ctx, e, &d, pack, &k, INFINITY, &lanes));
    check(e, &k, 2);
    fli_cuda_workspace_fini(e, &d);
    fli_backend_cuda.close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(lanes_fit_the_limit), FIXTURE_TEST(no_room_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
