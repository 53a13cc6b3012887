/* Rows that are gathered there have the CPU's bits, whatever is made of samples on their way. */
#include "device_memory.h"
#include "order.h"

#include "cuda/host/host.h"

/* ---- an engine that can hold data, and no more --------------------------------------------------------- */

static size_t allocations; /* that are still there */

static void *engine_alloc(fli_engine *e, fl_ctx *ctx, size_t bytes)
{
    void *v = NULL;
    (void)e;
    if (bytes > 1u << 30) {
        fli_fail(ctx, FL_ENOMEM, "out of memory there");
        return NULL;
    }
    v = there(bytes, NULL);
    assert_int_equal(fli_cuda_zero(stream(), v, bytes), 0);
    allocations++;
    return v;
}
static void engine_release(fli_engine *e, void *v)
{
    (void)e;
    allocations -= v != NULL;
    fli_cuda_release(v);
}
static void engine_write(fli_engine *e, size_t bytes, const void *from, void *v)
{
    (void)e;
    assert_int_equal(fli_cuda_upload(stream(), v, from, bytes), 0);
    assert_int_equal(fli_cuda_wait(stream()), 0);
}
static fl_status engine_status(fli_engine *e, fl_ctx *ctx)
{
    (void)e;
    (void)ctx;
    return FL_OK;
}
static const fli_backend backend = {
    .alloc = engine_alloc, .release = engine_release, .write = engine_write, .status = engine_status};
static fli_engine engine = {&backend};

/* ---- data sets ------------------------------------------------------------------------------------------- */

enum { N = 9, CHANNELS = 3 };

/* How a set is made of what is stored. */
typedef struct {
    fli_xkind kind;
    size_t side, crop; /* crop 0: none */
    size_t segments;   /* 0: as they are */
    int each;
    fli_augment augment;
    double still;
    int black; /* one sample is */
    int kept;  /* it is a part of a larger set */
} recipe;

static double value(size_t i) { return (double)((i * 37 + i / 75 * 101) % 251) / 3 - (double)(i % 5); }

static void fill(fli_dataset *ds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ds->kind == FLI_X_U8)
            ((uint8_t *)ds->x)[i] = (uint8_t)(1 + (i * 37 + i / 75 * 101) % 251);
        else if (fli_xkind_size(ds->kind) == sizeof(float))
            ((float *)ds->x)[i] = (float)value(i);
        else
            ((double *)ds->x)[i] = value(i);
    }
}

static void sparse_rows(fl_ctx *ctx, fli_dataset *ds)
{
    ds->row = fli_alloc(ctx, N + 1, sizeof *ds->row);
    ds->col = fli_alloc(ctx, N * ds->dim, sizeof *ds->col);
    for (size_t i = 0; i < N; i++) {
        ds->row[i + 1] = ds->row[i];
        for (size_t j = 0; j < ds->dim; j++)
            if ((i * 5 + j) % 7 == 0) ds->col[ds->row[i + 1]++] = (uint32_t)j;
    }
}

/* As in a set of which other samples were dropped. */
static void number(fl_ctx *ctx, fli_dataset *ds)
{
    ds->number = fli_alloc(ctx, ds->n, sizeof *ds->number);
    assert_non_null(ds->number);
    for (uint32_t i = 0; i < ds->n; i++) ds->number[i] = 7 * i * i + 3;
}

static fli_dataset *data_of(fl_ctx *ctx, const recipe *r)
{
    fli_dataset *ds = NULL;
    size_t dim = CHANNELS * r->side * r->side;
    assert_ok(ctx, fli_dataset_new(ctx, r->kind, N, dim, 4, &ds));
    fill(ds, N * dim);
    if (r->black) memset((char *)ds->x + 3 * dim * fli_xkind_size(r->kind), 0, dim * fli_xkind_size(r->kind));
    if (fli_dataset_sparse(ds)) sparse_rows(ctx, ds);
    for (size_t i = 0; i < N; i++) ds->label[i] = (int32_t)(i % 4);
    if (!fli_dataset_sparse(ds)) memcpy(ds->shape, (size_t[3]){CHANNELS, r->side, r->side}, sizeof ds->shape);
    ds->from = 100;
    if (r->kept) number(ctx, ds);
    ds->each = r->each;
    ds->segments = r->segments;
    ds->scale = r->segments ? fli_alloc(ctx, r->segments, sizeof(double)) : NULL;
    ds->shift = r->segments ? fli_alloc(ctx, r->segments, sizeof(double)) : NULL;
    for (size_t s = 0; s < r->segments; s++) {
        ds->scale[s] = 0.3 + 0.01 * (double)s;
        ds->shift[s] = fli_dataset_sparse(ds) ? 0 : 0.7 - (double)s / 3;
    }
    if (r->crop) assert_ok(ctx, fli_dataset_crop(ctx, r->crop, ds));
    ds->augment = r->augment;
    ds->still = (uint64_t)(r->still * FLI_CROP_DRAWS);
    return ds;
}

/* ---- lanes: labelled samples and some with a y, in the order of this list --------------------------------- */

enum { LANES = 3, ROOM = 8, STEPS = 4, SIZE = 3, REST_SIZE = 2, FIRST = 1 };

typedef struct {
    fli_cuda_lane *there, here[LANES];
    uint32_t order[LANES][STEPS * SIZE], rest[LANES][STEPS * REST_SIZE], rest_sample[N];
    void *order_there, *rest_there, *rest_sample_there;
} lane_set;

static void lane_set_begin(lane_set *c)
{
    for (uint32_t i = 0; i < N; i++) c->rest_sample[i] = (i * 4 + 1) % N;
    for (uint32_t l = 0; l < LANES; l++) {
        for (uint32_t i = 0; i < STEPS * SIZE; i++) c->order[l][i] = (i * 5 + l) % N;
        for (uint32_t i = 0; i < STEPS * REST_SIZE; i++) c->rest[l][i] = (i * 2 + l) % N;
    }
    c->order_there = there(sizeof c->order, c->order);
    c->rest_there = there(sizeof c->rest, c->rest);
    c->rest_sample_there = there(sizeof c->rest_sample, c->rest_sample);
    for (uint32_t l = 0; l < LANES; l++) /* the last lane's batch is always the same; the second has no rest */
        c->here[l] = (fli_cuda_lane){.order = (uint32_t *)c->order_there + l * STEPS * SIZE,
                                     .rest = (uint32_t *)c->rest_there + l * STEPS * REST_SIZE,
                                     .rest_sample = c->rest_sample_there,
                                     .n = l == 2 ? SIZE : 8,
                                     .size = SIZE,
                                     .stride = l == 2 ? 0 : SIZE,
                                     .rest_n = l == 1 ? 0 : 5,
                                     .rest_size = REST_SIZE,
                                     .rest_stride = REST_SIZE,
                                     .steps = STEPS,
                                     .key = {77, 5},
                                     .round = 3,
                                     .client = 40 + l};
    c->there = there(sizeof c->here, c->here);
}

static void lane_set_end(lane_set *c)
{
    fli_cuda_release(c->there);
    fli_cuda_release(c->order_there);
    fli_cuda_release(c->rest_there);
    fli_cuda_release(c->rest_sample_there);
}

/* ---- what the CPU gathers --------------------------------------------------------------------------------- */

/* Rows `from` .. `to` - 1 of the list, of one epoch. */
static void gather_some(fli_batch *all, const fli_dataset *ds, const fli_cuda_lane *l, const uint32_t *idx, size_t from,
                        size_t to, uint32_t epoch, int augment)
{
    fli_batch part = *all;
    fli_rng turn;
    part.x = (char *)all->x + from * all->dim * all->ops->size;
    part.n = to - from;
    if (from == to) return;
    if (augment) {
        fli_rng_init(&turn, l->key[0] | (uint64_t)l->key[1] << 32, FLI_RNG_BATCH, l->round, l->client);
        fli_batch_augment(&part, ds, idx + from, &turn, epoch);
    } else {
        fli_batch_gather(&part, ds, idx + from, to - from);
    }
}

/* All rows of step k; how many. */
static size_t gather_here(fli_batch *all, const fli_dataset *ds, const lane_set *c, uint32_t lane, uint32_t k,
                          int augment)
{
    const fli_cuda_lane *l = &c->here[lane];
    uint32_t idx[ROOM], plain = fli_cuda_drawn(l->n, l->size, k), rest = fli_cuda_drawn(l->rest_n, l->rest_size, k);
    for (uint32_t i = 0; i < plain; i++) idx[i] = c->order[lane][k * l->stride + i];
    for (uint32_t i = 0; i < rest; i++) idx[plain + i] = c->rest_sample[c->rest[lane][k * REST_SIZE + i]];
    gather_some(all, ds, l, idx, 0, plain, fli_cuda_epoch(l->n, l->size, k), augment);
    gather_some(all, ds, l, idx, plain, plain + rest, fli_cuda_epoch(l->rest_n, l->rest_size, k), augment);
    return plain + rest;
}

/* Where value j of a row with channels first lies. */
static size_t place_of(const fli_dataset *ds, size_t j, int channels_last)
{
    size_t plane = ds->shape[1] * ds->shape[2];
    return channels_last ? j % plane * ds->shape[0] + j / plane : j;
}

static void check_rows(const fli_ops *ops, const fli_dataset *ds, const fli_batch *want, size_t rows, int channels_last,
                       const char *got)
{
    for (size_t r = 0; r + FIRST < rows; r++)
        for (size_t j = 0; j < ds->dim; j++) {
            const char *a = (const char *)want->x + ((FIRST + r) * ds->dim + j) * ops->size;
            const char *b = got + (r * ds->dim + place_of(ds, j, channels_last)) * ops->size;
            assert_memory_equal(a, b, ops->size);
        }
}

static void check_step(fl_ctx *ctx, const fli_ops *ops, const fli_dataset *ds, const fli_cuda_data *d,
                       const lane_set *c, fli_cuda_batch b, int channels_last)
{
    fli_batch want;
    size_t bytes = (size_t)LANES * ROOM * ds->dim * ops->size, room = (size_t)ROOM * ds->dim * ops->size;
    char *got = malloc(bytes);
    void *x = there(bytes, NULL);
    fli_cuda_gather(stream(), ops == &fli_ops_f64 ? FLI_CUDA_F64 : FLI_CUDA_F32, d, &b, channels_last, x);
    here(bytes, x, got);
    assert_ok(ctx, fli_batch_init(ctx, ops, ds->dim, ROOM, &want));
    for (uint32_t l = 0; l < LANES; l++) {
        size_t rows = gather_here(&want, ds, c, l, b.step, b.augment && ds->augment);
        check_rows(ops, ds, &want, rows, channels_last, got + l * room);
    }
    fli_batch_fini(&want);
    fli_cuda_release(x);
    free(got);
}

static void check_recipe(fl_ctx *ctx, const recipe *r, const lane_set *c)
{
    fli_dataset *ds = data_of(ctx, r);
    fli_engine_data *d = NULL;
    assert_ok(ctx, fli_cuda_data_new(&engine, ctx, ds, &d));
    for (int k = 0; k < 2 * STEPS; k++) {
        const fli_ops *ops = k % 2 ? &fli_ops_f64 : &fli_ops_f32;
        fli_cuda_batch b = {c->there, LANES, (uint32_t)k / 2, FIRST, ROOM, ROOM, k < 6};
        check_step(ctx, ops, ds, fli_cuda_engine_data(d), c, b, 0);
        if (!fli_dataset_sparse(ds)) check_step(ctx, ops, ds, fli_cuda_engine_data(d), c, b, 1);
    }
    fli_cuda_data_free(d);
    assert_int_equal(allocations, 0);
    fli_dataset_free(ds);
}

/* ---- tests ------------------------------------------------------------------------------------------------ */

static void test_rows_match_the_cpus(void **state)
{
    (void)state;
    /* side, crop, segments, each, augment */
    static const recipe how[] = {
        {.side = 5},
        {.side = 6, .segments = 1},
        {.side = 6, .segments = CHANNELS},
        {.side = 5, .segments = CHANNELS * 25},
        {.side = 6, .segments = CHANNELS * 36},
        {.side = 6, .each = 1},
        {.side = 6, .crop = 4, .segments = CHANNELS},
        {.side = 6, .crop = 3, .each = 1},
        {.side = 5, .augment = FLI_AUGMENT_CIFAR},
        {.side = 5, .segments = CHANNELS, .augment = FLI_AUGMENT_CIFAR},
        {.side = 5, .segments = CHANNELS * 25, .augment = FLI_AUGMENT_CIFAR},
        {.side = 3, .each = 1, .augment = FLI_AUGMENT_CIFAR},
        {.side = 7, .crop = 4, .each = 1, .augment = FLI_AUGMENT_CROP},
        {.side = 5, .augment = FLI_AUGMENT_CIFAR, .kept = 1},
        {.side = 7, .crop = 4, .each = 1, .augment = FLI_AUGMENT_CROP, .kept = 1},
        {.side = 7, .crop = 4, .segments = CHANNELS * 49, .augment = FLI_AUGMENT_CROP},
        {.side = 4, .crop = 1, .segments = CHANNELS, .augment = FLI_AUGMENT_CROP},
        {.side = 4, .each = 1}, /* these are whole multiples of 16 bytes */
        {.side = 4, .each = 1, .augment = FLI_AUGMENT_CIFAR, .black = 1},
        {.side = 8, .crop = 6, .each = 1, .augment = FLI_AUGMENT_CROP},
        {.side = 36, .crop = 34, .each = 1, .augment = FLI_AUGMENT_CROP},
        {.side = 8, .crop = 5, .each = 1, .augment = FLI_AUGMENT_CROP, .still = 0.5},
        {.side = 5, .segments = CHANNELS, .augment = FLI_AUGMENT_CIFAR, .still = 0.25},
    };
    fl_ctx *ctx = fl_ctx_new();
    lane_set c;
    lane_set_begin(&c);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (fli_xkind kind = FLI_X_U8; kind <= FLI_X_F64; kind++) {
            recipe r = how[i];
            r.kind = kind;
            fli_emulated_order((fli_order)(i % FLI_ORDERS));
            check_recipe(ctx, &r, &c);
        }
    lane_set_end(&c);
    fl_ctx_free(ctx);
}

static void test_sparse_rows_match_the_cpus(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    lane_set c;
    lane_set_begin(&c);
    for (int k = 0; k < 4; k++)
        check_recipe(ctx, &(recipe){k < 2 ? FLI_X_CSR : FLI_X_CSR64, .side = 5, .segments = k % 2 ? 75 : 0}, &c);
    lane_set_end(&c);
    fl_ctx_free(ctx);
}

static void test_unfit_datasets_are_refused(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_engine_data *d;
    fli_dataset none = {.n = 3}, targets = {.n = 3, .dim = 2, .shape = {1, 1, 2}, .target = (double[3]){0}};
    size_t row[2] = {0, 0};
    int32_t label = 0;
    fli_dataset wide = {.n = 1, .dim = (size_t)1 << 40, .kind = FLI_X_CSR, .row = row, .label = &label, .classes = 1};
    fli_dataset large = wide;
    large.dim = (size_t)1 << 29;
    assert_fails(ctx, fli_cuda_data_new(&engine, ctx, &none, &d), FL_ECONFIG, "have none");
    assert_fails(ctx, fli_cuda_data_new(&engine, ctx, &targets, &d), FL_ECONFIG, "other targets");
    assert_fails(ctx, fli_cuda_data_new(&engine, ctx, &wide, &d), FL_ECONFIG, "features");
    assert_fails(ctx, fli_cuda_data_new(&engine, ctx, &large, &d), FL_ENOMEM, "dense there");
    assert_true(fli_cuda_data_bytes(&large) > 2e9);
    assert_int_equal(allocations, 0);
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_match_the_cpus),
        cmocka_unit_test(test_sparse_rows_match_the_cpus),
        cmocka_unit_test(test_unfit_datasets_are_refused),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
