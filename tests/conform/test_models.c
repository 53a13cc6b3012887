/* Every listed model, at several shapes: gradients against central differences, Hessian-vector products against
 * differences of gradients, f32 against f64, and the promises of model.h. Dense networks also against a plain
 * implementation, below. */
#include "check.h"

#include "solver/curvature.h"

/* ---- a model with random data ---------------------------------------------------------------------------- */

typedef struct {
    size_t features, classes, batch;
    const char *hidden; /* value of the model's key `hidden` (comma-separated widths) or `layers`; NULL: the default */
    size_t image[3];    /* for models of images: channels, height, width */
} shape;

static const shape shapes[] = {
    {1, 2, 1, NULL}, {3, 2, 1, "7"},     {5, 4, 7, ""},     {5, 4, 7, "7"},   {6, 3, 9, "5,4,3"},   {12, 10, 16, NULL},
    {4, 2, 1, ""},   {17, 70, 3, "9,2"}, {9, 5, 65, "8,8"}, {3, 2, 130, "4"}, {2, 3, 2, "3,5,2,4"}, {33, 2, 20, "1"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Windows that do not divide the image, strides, paddings, pools behind and before everything; batches of one piece and
 * of several. */
static const shape pictures[SHAPES] = {
    {9, 2, 1, "conv 2x2", {1, 3, 3}},
    {60, 3, 5, "conv 3x3, pool 2, fc 5", {3, 4, 5}},
    {98, 4, 7, "conv 2x3 same, pool 2, conv 3x2, pool 2, fc 4, fc 3", {2, 7, 7}},
    {70, 3, 4, "conv 3x3 stride 2 pad 1, conv 2x2", {2, 5, 7}},
    {36, 3, 9, "conv 2x3 pad 2, avgpool 2, fc 4", {1, 6, 6}},
    {50, 2, 3, "pool 2, conv 4x2, avgpool 1", {2, 5, 5}},
    {48, 5, 6, "avgpool 2, fc 6", {3, 4, 4}},
    {25, 3, 2, "fc 4", {1, 5, 5}},
    {36, 5, 19, "conv 3x2, pool 2, pool 2", {1, 6, 6}},
    {32, 3, 37, "conv 17x3 same, pool 3", {2, 4, 4}},
    {64, 2, 6, "conv 2x3 stride 3 same, pool 2, fc 3", {1, 8, 8}},
    {72, 4, 4, "conv 3x4 pad 3 stride 2, conv 4x1, pool 2", {2, 6, 6}},
};

enum { GUARD = 256 };

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    void *params;
    fli_model *m;
    fli_batch b;
    size_t n;               /* parameters */
    double *x, *u, *v;      /* point and two directions */
    unsigned char *scratch; /* followed by GUARD bytes */
    size_t scratch_bytes;
} fixture;

static void *must_alloc(fl_ctx *ctx, size_t count, size_t size)
{
    void *p = fli_alloc(ctx, count, size);
    assert_non_null(p);
    return p;
}

/* Values that a float holds exactly, so that both precisions see the same data. */
static double *random_reals(fl_ctx *ctx, fli_rng *r, size_t n, double scale)
{
    double *v = must_alloc(ctx, n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (float)(scale * fli_rng_normal(r));
    return v;
}

/* `init` NULL leaves that key at its default. */
static void *bind_params(fl_ctx *ctx, fli_arena *a, const fli_model_desc *desc, const char *hidden, const char *init)
{
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    char word[16];
    for (const fl_key *row = desc->keys; row && row->name; row++) {
        if (hidden && !strcmp(row->name, "hidden")) {
            fli_node *list = fli_node_new(a, FLI_NODE_LIST, "hidden", NULL);
            for (const char *p = hidden; *p; p += strcspn(p, ","), p += *p == ',') {
                snprintf(word, sizeof word, "%.*s", (int)strcspn(p, ","), p);
                fli_node_append(list, fli_node_new(a, FLI_NODE_SCALAR, NULL, word));
            }
            fli_node_append(map, list);
        }
        if (hidden && !strcmp(row->name, "layers"))
            fli_node_append(map, fli_node_new(a, FLI_NODE_SCALAR, "layers", hidden));
        if (init && !strcmp(row->name, "init")) fli_node_append(map, fli_node_new(a, FLI_NODE_SCALAR, "init", init));
    }
    void *params = must_alloc(ctx, desc->params_size, 1);
    fli_table table = {desc->keys, params};
    assert_ok(ctx, fli_bind(ctx, a, "model", map, NULL, &table, 1));
    return params;
}

static size_t classes_for(const fli_model_desc *desc, size_t classes)
{
    if (!(desc->traits & FLI_MODEL_CLASSIFIER)) return 0;
    return desc->traits & FLI_MODEL_BINARY ? 2 : classes;
}

static const shape *shape_of(const fli_model_desc *desc, size_t i)
{
    return desc->traits & FLI_MODEL_IMAGES ? &pictures[i] : &shapes[i];
}

static fl_status new_model(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                           const shape *s, double wd, fli_model **out)
{
    size_t classes = classes_for(desc, s->classes);
    if (desc->traits & FLI_MODEL_IMAGES) return fli_model_new_for(ctx, desc, params, ops, s->image, classes, wd, out);
    return fli_model_new(ctx, desc, params, ops, s->features, classes, wd, out);
}

static void fill_batch(fixture *f, const fli_ops *ops, fli_rng *r, size_t n)
{
    size_t dim = f->m->features;
    double *a = random_reals(f->ctx, r, n * dim, 1), *t = random_reals(f->ctx, r, n, 1);
    f->b = (fli_batch){.ops = ops, .n = n, .dim = dim, .capacity = n};
    f->b.x = must_alloc(f->ctx, n * dim, ops->size);
    f->b.target = must_alloc(f->ctx, n, ops->size);
    f->b.label = must_alloc(f->ctx, n, sizeof(int32_t));
    ops->from_f64(n * dim, a, f->b.x);
    ops->from_f64(n, t, f->b.target);
    for (size_t i = 0; i < n && f->m->classes; i++) f->b.label[i] = (int32_t)fli_rng_below(r, f->m->classes);
    fli_free(a);
    fli_free(t);
}

static void open_fixture(fixture *f, const fli_model_desc *desc, const shape *s, const fli_ops *ops, double wd)
{
    fli_rng r;
    fli_rng_init(&r, 20, FLI_RNG_TEST, (uint32_t)s->features, (uint32_t)s->batch);
    f->ctx = fl_ctx_new();
    fli_arena_init(&f->arena, f->ctx);
    f->params = bind_params(f->ctx, &f->arena, desc, s->hidden, NULL);
    assert_ok(f->ctx, new_model(f->ctx, desc, f->params, ops, s, wd, &f->m));
    assert_int_equal(f->m->features, s->features);
    fill_batch(f, ops, &r, s->batch);
    f->n = f->m->space.n;
    f->x = random_reals(f->ctx, &r, f->n, 0.4);
    f->u = random_reals(f->ctx, &r, f->n, 1);
    f->v = random_reals(f->ctx, &r, f->n, 1);
    f->scratch_bytes = fli_model_scratch(f->m, s->batch);
    f->scratch = must_alloc(f->ctx, f->scratch_bytes + GUARD, 1);
    memset(f->scratch, 0xFF, f->scratch_bytes + GUARD); /* NaNs, so that reading before writing shows */
}

static void close_fixture(fixture *f)
{
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(f->scratch[f->scratch_bytes + i], 0xFF);
    fli_free(f->scratch);
    fli_free(f->x);
    fli_free(f->u);
    fli_free(f->v);
    fli_free(f->b.x);
    fli_free(f->b.target);
    fli_free(f->b.label);
    fli_free(f->params);
    fli_model_free(f->m);
    fli_arena_fini(&f->arena);
    fl_ctx_free(f->ctx);
}

/* A vector of the model's space full of NaN, for results. */
static void *blank(const fixture *f)
{
    void *p = must_alloc(f->ctx, f->n, f->m->space.ops->size);
    f->m->space.ops->fill(f->n, NAN, p);
    return p;
}

static double norm2(size_t n, const double *x)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += x[i] * x[i];
    return sqrt(s);
}

static double distance(size_t n, const double *x, const double *y)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(s);
}

typedef void check_fn(const fli_model_desc *desc, const shape *s);

static void every_model(check_fn *check)
{
    for (const fli_model_desc *const *p = fli_model_list; *p; p++)
        for (size_t i = 0; i < SHAPES; i++) check(*p, shape_of(*p, i));
}

/* ---- derivatives ----------------------------------------------------------------------------------------- */

static void check_gradient(const fli_model_desc *desc, const shape *s)
{
    const double h = 1e-6;
    fixture f;
    open_fixture(&f, desc, s, &fli_ops_f64, 0.3);
    double *g = blank(&f);
    fli_model_eval(f.m, f.x, &f.b, g, NULL, f.scratch);
    for (size_t i = 0; i < f.n; i++) {
        double keep = f.x[i];
        f.x[i] = keep + h;
        double above = fli_model_eval(f.m, f.x, &f.b, NULL, NULL, f.scratch);
        f.x[i] = keep - h;
        double below = fli_model_eval(f.m, f.x, &f.b, NULL, NULL, f.scratch);
        f.x[i] = keep;
        double slope = (above - below) / (2 * h);
        if (!(fabs(slope - g[i]) <= 2e-8 * (1 + fabs(above))))
            fail_msg("%s, %zu features, batch %zu: component %zu is %.12g, differences say %.12g", desc->name,
                     s->features, s->batch, i, g[i], slope);
    }
    fli_free(g);
    close_fixture(&f);
}

static void test_gradients_match_differences(void **state)
{
    (void)state;
    every_model(check_gradient);
}

static void check_hvp(const fli_model_desc *desc, const shape *s)
{
    fixture f;
    if (desc->traits & FLI_MODEL_UNSUPERVISED) return; /* at fixed memberships: unit/test_factorization */
    open_fixture(&f, desc, s, &fli_ops_f64, 0.3);
    const double h = 1e-6 / norm2(f.n, f.v);
    double *hv = blank(&f), *hu = blank(&f), *above = blank(&f), *below = blank(&f), *at = blank(&f);
    fli_model_hvp(f.m, f.x, &f.b, f.v, hv, f.scratch);
    fli_model_hvp(f.m, f.x, &f.b, f.u, hu, f.scratch);

    fli_lin(&f.m->space, 1, f.x, h, f.v, at);
    fli_model_eval(f.m, at, &f.b, above, NULL, f.scratch);
    fli_lin(&f.m->space, 1, f.x, -h, f.v, at);
    fli_model_eval(f.m, at, &f.b, below, NULL, f.scratch);
    fli_lin(&f.m->space, 0.5 / h, above, -0.5 / h, below, at);
    if (!(distance(f.n, hv, at) <= 1e-7 * (norm2(f.n, hv) + norm2(f.n, f.v))))
        fail_msg("%s, %zu features, batch %zu: Hv differs from differences of gradients by %g (of %g)", desc->name,
                 s->features, s->batch, distance(f.n, hv, at), norm2(f.n, hv));

    double uhv = fli_dot(&f.m->space, f.u, hv), vhu = fli_dot(&f.m->space, f.v, hu);
    assert_near(uhv, vhu, 1e-12 * (norm2(f.n, f.u) * norm2(f.n, hv) + norm2(f.n, f.v) * norm2(f.n, hu)));
    fli_free(hv);
    fli_free(hu);
    fli_free(above);
    fli_free(below);
    fli_free(at);
    close_fixture(&f);
}

static void test_hessian_products_match_differences(void **state)
{
    (void)state;
    every_model(check_hvp);
}

/* wd/2 ||x||^2, wd x and wd v, added exactly once. */
static void check_weight_decay(const fli_model_desc *desc, const shape *s)
{
    const double wd = 0.7;
    fixture f;
    open_fixture(&f, desc, s, &fli_ops_f64, wd);
    double *with = blank(&f), *without = blank(&f);
    double loss = fli_model_eval(f.m, f.x, &f.b, with, NULL, f.scratch);
    double plain = f.m->desc->grad(f.m, f.x, &f.b, without, NULL, f.scratch);
    double xx = norm2(f.n, f.x) * norm2(f.n, f.x);
    assert_near(loss - plain, wd / 2 * xx, 1e-12 * (1 + loss));
    for (size_t i = 0; i < f.n; i++) assert_near(with[i], without[i] + wd * f.x[i], 1e-14 * (1 + fabs(with[i])));
    f.m->desc->hvp(f.m, f.x, &f.b, f.v, without, f.scratch);
    fli_model_hvp(f.m, f.x, &f.b, f.v, with, f.scratch);
    for (size_t i = 0; i < f.n; i++) assert_near(with[i], without[i] + wd * f.v[i], 1e-14 * (1 + fabs(with[i])));
    fli_free(with);
    fli_free(without);
    close_fixture(&f);
}

static void test_weight_decay(void **state)
{
    (void)state;
    every_model(check_weight_decay);
}

/* ---- steps ----------------------------------------------------------------------------------------------- */

/* A model's own step against its gradient and the backend's step; bit 0 of `terms` momentum, 1 anchor, 2 shift. */
static void check_terms(fixture *f, int terms)
{
    const fl_space *s = &f->m->space;
    const fli_ops *ops = s->ops;
    void *z = blank(f), *want = blank(f), *g = blank(f), *room = blank(f), *u = blank(f), *v = blank(f);
    void *m = blank(f), *want_m = blank(f);
    ops->from_f64(f->n, f->x, z), ops->from_f64(f->n, f->x, want);
    ops->from_f64(f->n, f->u, u), ops->from_f64(f->n, f->v, v);
    fli_zero(s, m), fli_zero(s, want_m);
    fli_sgd_step step = {.lr = 0.1, .wd = 0.01, .rho = 0.3, .momentum = 0.9, .grad = g};
    if (terms & 2) step.anchor = u;
    if (terms & 4) step.shift = v;
    for (int k = 0; k < 2; k++) {
        f->m->desc->grad(f->m, want, &f->b, g, NULL, f->scratch);
        step.buffer = terms & 1 ? want_m : NULL;
        ops->sgd(f->n, &step, want);
        step.buffer = terms & 1 ? m : NULL;
        f->m->desc->step(f->m, &f->b, &step, room, z, f->scratch);
    }
    fli_axpy(s, -1, want, z);
    fli_axpy(s, -1, want_m, m);
    double off = sqrt(fli_dot(s, z, z) / fli_dot(s, want, want)) + sqrt(fli_dot(s, m, m));
    if (!(off < (ops->size == 4 ? 1e-4 : 1e-12)))
        fail_msg("%s, %zu features, batch %zu, %s, terms %d: a step is off by %g", f->m->desc->name, f->m->features,
                 f->b.n, ops->name, terms, off);
    fli_free(z), fli_free(want), fli_free(g), fli_free(room), fli_free(u), fli_free(v), fli_free(m), fli_free(want_m);
}

static void check_step(const fli_model_desc *desc, const shape *s)
{
    for (const fli_ops *const *p = fli_ops_list; *p && desc->step; p++) {
        fixture f;
        open_fixture(&f, desc, s, *p, 0);
        for (int terms = 0; terms < 8; terms++) check_terms(&f, terms);
        close_fixture(&f);
    }
}

static void test_own_steps_match_the_backends(void **state)
{
    (void)state;
    every_model(check_step);
}

/* ---- sparse data ----------------------------------------------------------------------------------------- */

/* The fixture's batch with most cells zero, as a sparse data set, each column scaled; and as a dense batch in f->b. */
static fli_dataset *sparse_copy(fixture *f, int scaled)
{
    const fli_ops *ops = f->b.ops;
    size_t n = f->b.n, dim = f->b.dim, k = 0;
    fli_dataset *ds = must_alloc(f->ctx, 1, sizeof *ds);
    double *x = must_alloc(f->ctx, n * dim, sizeof *x);
    *ds = (fli_dataset){.n = n, .dim = dim, .kind = FLI_X_CSR, .shape = {1, 1, dim}, .classes = f->m->classes};
    ds->x = must_alloc(f->ctx, n * dim, sizeof(float));
    ds->row = must_alloc(f->ctx, n + 1, sizeof *ds->row);
    ds->col = must_alloc(f->ctx, n * dim, sizeof *ds->col);
    if (scaled) {
        ds->segments = dim;
        ds->scale = must_alloc(f->ctx, dim, sizeof *ds->scale);
        for (size_t j = 0; j < dim; j++) ds->scale[j] = 1 / (1.1 + (double)j);
    }
    ops->to_f64(n * dim, f->b.x, x);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < dim; j++) {
            double *cell = &x[i * dim + j];
            if ((i + 2 * j) % 3 == 1) *cell = 0;
            if (*cell == 0) continue;
            ((float *)ds->x)[k] = (float)*cell;
            ds->col[k++] = (uint32_t)j;
            if (scaled) *cell *= ds->scale[j];
        }
        ds->row[i + 1] = k;
    }
    ops->from_f64(n * dim, x, f->b.x);
    if (ds->classes)
        ds->label = must_alloc(f->ctx, n, sizeof *ds->label);
    else
        ds->target = must_alloc(f->ctx, n, sizeof *ds->target);
    if (ds->label) memcpy(ds->label, f->b.label, n * sizeof *ds->label);
    if (ds->target) ops->to_f64(n, f->b.target, ds->target);
    fli_free(x);
    return ds;
}

/* A point in the model's own reals. */
static void *narrowed(const fixture *f, const double *x)
{
    void *p = blank(f);
    f->m->space.ops->from_f64(f->n, x, p);
    return p;
}

/* A step from x over the sparse batch b and over the dense f->b. */
static void check_sparse_step(fixture *f, const fli_batch *b, double eps)
{
    const fl_space *s = &f->m->space;
    const fli_sgd_step step = {.lr = 0.1, .wd = 0.01};
    void *sparse = narrowed(f, f->x), *dense = narrowed(f, f->x), *room = blank(f);
    f->m->desc->step(f->m, b, &step, room, sparse, f->scratch);
    f->m->desc->step(f->m, &f->b, &step, room, dense, f->scratch);
    fli_axpy(s, -1, dense, sparse);
    assert_true(sqrt(fli_dot(s, sparse, sparse)) <= 10 * eps * (1 + sqrt(fli_dot(s, dense, dense))));
    fli_free(sparse), fli_free(dense), fli_free(room);
}

/* Losses, gradients and Hessian-vector products over what fli_model_batch makes of sparse data: those of the dense
 * batch, in either precision. Models that cannot use sparse batches get dense ones. */
static void check_sparse_as(const fli_model_desc *desc, const shape *s, const fli_ops *ops, int scaled)
{
    fixture f;
    fli_batch b;
    uint32_t idx[256];
    open_fixture(&f, desc, s, ops, 0.2);
    fli_dataset *ds = sparse_copy(&f, scaled);
    double eps = ops->size == 4 ? 2e-6 : 1e-14, *want = must_alloc(f.ctx, f.n, sizeof *want);
    double *got = must_alloc(f.ctx, f.n, sizeof *got);
    void *x = narrowed(&f, f.x), *v = narrowed(&f, f.v), *a = blank(&f), *c = blank(&f);
    assert_ok(f.ctx, fli_dataset_check(f.ctx, ds, "sparse"));
    for (uint32_t i = 0; i < f.b.n; i++) idx[i] = i;
    fli_model_expect(f.m, fli_dataset_sparse(ds));
    assert_ok(f.ctx, fli_model_batch(f.ctx, f.m, f.b.n, &b));
    assert_true(!b.x == ((desc->traits & FLI_MODEL_SPARSE) != 0));
    fli_batch_gather(&b, ds, idx, f.b.n);
    size_t hits = 77, sparse_hits = 78;
    double loss = fli_model_eval(f.m, x, &f.b, a, &hits, f.scratch);
    assert_near(fli_model_eval(f.m, x, &b, c, &sparse_hits, f.scratch), loss, eps * (1 + loss));
    assert_int_equal(hits, sparse_hits);
    for (int product = 0; product < 2; product++) {
        ops->to_f64(f.n, a, want);
        ops->to_f64(f.n, c, got);
        if (!(distance(f.n, got, want) <= 10 * eps * (1 + norm2(f.n, want))))
            fail_msg("%s, %zu features, batch %zu, %s: %s over sparse data is off by %g", desc->name, s->features,
                     s->batch, ops->name, product ? "Hv" : "the gradient", distance(f.n, got, want));
        fli_model_hvp(f.m, x, &f.b, v, a, f.scratch);
        fli_model_hvp(f.m, x, &b, v, c, f.scratch);
    }
    if (desc->step) check_sparse_step(&f, &b, eps);
    fli_free(want);
    fli_free(got);
    fli_free(x);
    fli_free(v);
    fli_free(a);
    fli_free(c);
    fli_batch_fini(&b);
    fli_dataset_free(ds);
    close_fixture(&f);
}

static void check_sparse(const fli_model_desc *desc, const shape *s)
{
    for (int k = 0; k < 4; k++) check_sparse_as(desc, s, fli_ops_list[k % 2], k / 2);
}

static void test_sparse_samples_act_as_dense(void **state)
{
    (void)state;
    every_model(check_sparse);
}

/* ---- promises of the contract ---------------------------------------------------------------------------- */

/* Without a gradient the loss and the hits are the same, and nothing given is written to. */
static void check_forward_only(const fli_model_desc *desc, const shape *s)
{
    fixture f;
    open_fixture(&f, desc, s, &fli_ops_f64, 0);
    double *g = blank(&f), *x = must_alloc(f.ctx, f.n, sizeof *x);
    double *data = must_alloc(f.ctx, f.b.n * f.b.dim, sizeof *data);
    size_t with = 99, without = 98;
    memcpy(x, f.x, f.n * sizeof *x);
    memcpy(data, f.b.x, f.b.n * f.b.dim * sizeof *data);
    double loss = fli_model_eval(f.m, f.x, &f.b, g, &with, f.scratch);
    assert_near(fli_model_eval(f.m, f.x, &f.b, NULL, &without, f.scratch), loss, 1e-13 * (1 + loss));
    assert_int_equal(with, without);
    assert_true(with <= f.b.n);
    assert_true(isfinite(loss) && fli_finite(&f.m->space, g));
    fli_model_hvp(f.m, f.x, &f.b, f.v, g, f.scratch);
    assert_true(fli_finite(&f.m->space, g));
    assert_memory_equal(x, f.x, f.n * sizeof *x);
    assert_memory_equal(data, f.b.x, f.b.n * f.b.dim * sizeof *data);
    fli_free(g);
    fli_free(x);
    fli_free(data);
    close_fixture(&f);
}

static void test_forward_only(void **state)
{
    (void)state;
    every_model(check_forward_only);
}

static void check_precision(const fli_model_desc *desc, const shape *s)
{
    fixture wide, narrow;
    open_fixture(&wide, desc, s, &fli_ops_f64, 0.1);
    open_fixture(&narrow, desc, s, &fli_ops_f32, 0.1);
    float *x = blank(&narrow), *v = blank(&narrow), *g = blank(&narrow);
    double *want = blank(&wide), *got = blank(&wide);
    fli_ops_f32.from_f64(wide.n, wide.x, x);
    fli_ops_f32.from_f64(wide.n, wide.v, v);

    double loss = fli_model_eval(wide.m, wide.x, &wide.b, want, NULL, wide.scratch);
    assert_near(fli_model_eval(narrow.m, x, &narrow.b, g, NULL, narrow.scratch), loss, 1e-5 * (1 + loss));
    fli_ops_f32.to_f64(wide.n, g, got);
    assert_near(distance(wide.n, got, want), 0, 1e-5 * (1 + norm2(wide.n, want)));

    fli_model_hvp(wide.m, wide.x, &wide.b, wide.v, want, wide.scratch);
    fli_model_hvp(narrow.m, x, &narrow.b, v, g, narrow.scratch);
    fli_ops_f32.to_f64(wide.n, g, got);
    /* the best memberships need not be unique, and it depends on them */
    if (!(desc->traits & FLI_MODEL_UNSUPERVISED))
        assert_near(distance(wide.n, got, want), 0, 1e-5 * (1 + norm2(wide.n, want)));
    fli_free(x);
    fli_free(v);
    fli_free(g);
    fli_free(want);
    fli_free(got);
    close_fixture(&narrow);
    close_fixture(&wide);
}

static void test_single_precision_is_near_double(void **state)
{
    (void)state;
    every_model(check_precision);
}

static void check_tensors(const fli_model_desc *desc, const shape *s)
{
    fixture f;
    open_fixture(&f, desc, s, &fli_ops_f64, 0);
    size_t at = 0;
    for (size_t i = 0; i < f.m->tensor_count; i++) {
        const fl_tensor *t = &f.m->tensors[i];
        assert_int_equal(t->offset, at);
        assert_true(t->name[0]);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(t->name, f.m->tensors[j].name);
        size_t reals = 1;
        for (size_t j = 0; j < t->dims; j++) reals *= t->shape[j];
        at += reals;
    }
    assert_int_equal(at, f.n);
    close_fixture(&f);
}

static void test_tensors_cover_all_parameters(void **state)
{
    (void)state;
    every_model(check_tensors);
}

static void check_start(const fli_model_desc *desc, const shape *s)
{
    fixture f;
    open_fixture(&f, desc, s, &fli_ops_f64, 0);
    double *a = blank(&f), *b = blank(&f), *c = blank(&f);
    assert_ok(f.ctx, fli_model_start(f.ctx, f.m, 5, a));
    assert_ok(f.ctx, fli_model_start(f.ctx, f.m, 5, b));
    assert_ok(f.ctx, fli_model_start(f.ctx, f.m, 6, c));
    assert_memory_equal(a, b, f.n * sizeof *a);
    if (desc->init)
        assert_memory_not_equal(a, c, f.n * sizeof *a);
    else
        assert_true(norm2(f.n, a) == 0);
    fli_free(a);
    fli_free(b);
    fli_free(c);
    close_fixture(&f);
}

static void test_start_models_follow_the_seed(void **state)
{
    (void)state;
    every_model(check_start);
}

/* ---- what a model refuses --------------------------------------------------------------------------------- */

static const fli_model_desc *find(const char *name)
{
    for (const fli_model_desc *const *p = fli_model_list; *p; p++)
        if (!strcmp((*p)->name, name)) return *p;
    fail_msg("there is no model %s", name);
    return NULL;
}

static void test_unfit_data_are_refused(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    fli_model *m = NULL;
    for (const fli_model_desc *const *p = fli_model_list; *p; p++) {
        void *params = bind_params(ctx, &arena, *p, NULL, NULL);
        int labels = (*p)->traits & FLI_MODEL_CLASSIFIER;
        if (!((*p)->traits & FLI_MODEL_UNSUPERVISED))
            assert_fails(ctx, fli_model_new(ctx, *p, params, &fli_ops_f64, 4, labels ? 0 : 3, 0, &m), FL_ECONFIG,
                         (*p)->name);
        assert_fails(ctx, fli_model_new(ctx, *p, params, &fli_ops_f64, 0, labels ? 2 : 0, 0, &m), FL_ECONFIG,
                     "features");
        if (labels)
            assert_fails(ctx, fli_model_new(ctx, *p, params, &fli_ops_f64, 4, 1, 0, &m), FL_ECONFIG, "at least 2");
        if ((*p)->traits & FLI_MODEL_BINARY)
            assert_fails(ctx, fli_model_new(ctx, *p, params, &fli_ops_f64, 4, 7, 0, &m), FL_ECONFIG, "data has 7");
        fli_free(params);
    }
    void *params = bind_params(ctx, &arena, find("mlp"), "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", NULL);
    assert_fails(ctx, fli_model_new(ctx, find("mlp"), params, &fli_ops_f64, 4, 3, 0, &m), FL_ECONFIG,
                 "17 hidden layers");
    fli_free(params);
    params = bind_params(ctx, &arena, find("mlp"), "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", NULL);
    assert_ok(ctx, fli_model_new(ctx, find("mlp"), params, &fli_ops_f64, 4, 3, 0, &m));
    fli_model_free(m);
    fli_free(params);
    fli_model_free(NULL);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

/* Each allocation fails in turn; the sanitizer sees what is left behind. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (const fli_model_desc *const *p = fli_model_list; *p; p++) {
        fixture f;
        open_fixture(&f, *p, shape_of(*p, 4), &fli_ops_f64, 0);
        for (size_t k = 1;; k++) {
            fli_model *m = NULL;
            double l = -1;
            assert_true(k < 100);
            fli_clear(f.ctx);
            fli_ctx_fail_alloc(f.ctx, k);
            fl_status status = new_model(f.ctx, *p, f.params, &fli_ops_f64, shape_of(*p, 4), 0, &m);
            if (!status) status = fli_model_start(f.ctx, m, 1, f.x);
            if (!status) status = fli_smoothness(f.ctx, m, f.x, &f.b, f.b.n, 1, &l);
            fli_model_free(m);
            fli_ctx_fail_alloc(f.ctx, 0);
            if (!status) break;
            assert_int_equal(status, FL_ENOMEM);
            assert_non_null(strstr(fl_ctx_error(f.ctx), "out of memory"));
        }
        close_fixture(&f);
    }
}

/* ---- values known by hand --------------------------------------------------------------------------------- */

/* At zero every class is equally likely, and the first one is predicted. */
static void test_loss_at_zero(void **state)
{
    (void)state;
    for (const fli_model_desc *const *p = fli_model_list; *p; p++) {
        fixture f;
        size_t correct, first = 0;
        open_fixture(&f, *p, shape_of(*p, 8), &fli_ops_f64, 0.5);
        fli_zero(&f.m->space, f.x);
        double loss = fli_model_eval(f.m, f.x, &f.b, NULL, &correct, f.scratch), want = 0;
        const double *target = f.b.target;
        if (f.m->desc->traits & FLI_MODEL_UNSUPERVISED) target = NULL; /* what is to be explained are the samples */
        for (size_t i = 0; i < f.b.n; i++) {
            for (size_t j = 0; !target && j < f.b.dim; j++)
                want += pow(((const double *)f.b.x)[i * f.b.dim + j], 2) / 2;
            if (!target) continue;
            want += f.m->classes ? log((double)f.m->classes) : target[i] * target[i] / 2;
            first += f.m->classes && f.b.label[i] == 0;
        }
        assert_near(loss, want / (double)f.b.n, 1e-13);
        assert_int_equal(correct, first);
        close_fixture(&f);
    }
}

/* Residuals 2 - 5 = -3 and 4 - 3 = 1 of two samples. */
static void test_least_squares_by_hand(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_model *m = NULL;
    double a[] = {1, 0, 0, 2}, x[] = {2, 2}, target[] = {5, 3}, v[] = {1, 10}, g[2], scratch[64];
    size_t correct = 7;
    fli_batch b = {.ops = &fli_ops_f64, .n = 2, .dim = 2, .capacity = 2, .x = a, .target = target};
    assert_ok(ctx, fli_model_new(ctx, find("least_squares"), NULL, &fli_ops_f64, 2, 0, 0, &m));
    assert_true(fli_model_scratch(m, 2) <= sizeof scratch);
    assert_near(fli_model_eval(m, x, &b, g, &correct, scratch), (9.0 + 1.0) / 4, 1e-15);
    assert_int_equal(correct, 0);
    assert_near(g[0], -3.0 / 2, 1e-15);
    assert_near(g[1], 2.0 / 2, 1e-15);
    fli_model_hvp(m, x, &b, v, g, scratch);
    assert_near(g[0], 1.0 / 2, 1e-15);
    assert_near(g[1], 40.0 / 2, 1e-14);
    fli_model_free(m);
    fl_ctx_free(ctx);
}

/* Two samples, worked out by hand: logits 2 and -3 with labels 1 and 1. */
static void test_logistic_by_hand(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_model *m = NULL;
    double a[] = {1, 0, 0, 3}, x[] = {2, -1}, v[] = {1, 1}, g[2], scratch[64];
    int32_t label[] = {1, 1};
    size_t correct;
    fli_batch b = {.ops = &fli_ops_f64, .n = 2, .dim = 2, .capacity = 2, .x = a, .label = label};
    assert_ok(ctx, fli_model_new(ctx, find("logistic"), NULL, &fli_ops_f64, 2, 2, 0, &m));
    assert_true(fli_model_scratch(m, 2) <= sizeof scratch);
    double s0 = 1 / (1 + exp(-2.0)), s1 = 1 / (1 + exp(3.0));
    assert_near(fli_model_eval(m, x, &b, g, &correct, scratch), -(log(s0) + log(s1)) / 2, 1e-15);
    assert_int_equal(correct, 1);
    assert_near(g[0], (s0 - 1) / 2, 1e-15);
    assert_near(g[1], 3 * (s1 - 1) / 2, 1e-15);
    fli_model_hvp(m, x, &b, v, g, scratch);
    assert_near(g[0], s0 * (1 - s0) / 2, 1e-15);
    assert_near(g[1], 9 * s1 * (1 - s1) / 2, 1e-15);

    /* far out, where exp overflows, it is the linear function it should be */
    double far[] = {-2000, 1000};
    assert_near(fli_model_eval(m, far, &b, g, NULL, scratch), 1000, 1e-9);
    fli_model_hvp(m, far, &b, v, g, scratch);
    assert_true(g[0] == 0 && g[1] == 0);
    fli_model_free(m);
    fl_ctx_free(ctx);
}

/* ---- the readable reference for dense networks -------------------------------------------------------------- */

enum { NAIVE_LAYERS = 8, NAIVE_WIDTH = 256 };

/* One sample at a time, one sum at a time. width[0] = features, width[depth] = classes; g += gradient * weight. */
static double naive_sample(size_t depth, const size_t *width, const double *x, const double *sample, int32_t label,
                           double weight, double *g, int *hit)
{
    static double h[NAIVE_LAYERS + 1][NAIVE_WIDTH], d[NAIVE_LAYERS + 1][NAIVE_WIDTH];
    size_t start[NAIVE_LAYERS + 1] = {0};
    for (size_t j = 0; j < width[0]; j++) h[0][j] = sample[j];
    for (size_t l = 0; l < depth; l++) {
        const double *w = x + start[l], *bias = w + width[l] * width[l + 1];
        start[l + 1] = start[l] + width[l] * width[l + 1] + width[l + 1];
        for (size_t i = 0; i < width[l + 1]; i++) {
            double z = bias[i];
            for (size_t j = 0; j < width[l]; j++) z += w[i * width[l] + j] * h[l][j];
            h[l + 1][i] = l + 1 < depth && z < 0 ? 0 : z;
        }
    }
    size_t classes = width[depth], best = 0;
    double sum = 0, loss;
    for (size_t c = 0; c < classes; c++) {
        sum += exp(h[depth][c]);
        if (h[depth][c] > h[depth][best]) best = c;
    }
    for (size_t c = 0; c < classes; c++) d[depth][c] = exp(h[depth][c]) / sum - (c == (size_t)label);
    loss = log(sum) - h[depth][label];
    *hit = best == (size_t)label;
    for (size_t l = depth; l-- > 0;) {
        const double *w = x + start[l];
        double *gw = g + start[l], *gb = gw + width[l] * width[l + 1];
        for (size_t j = 0; j < width[l]; j++) d[l][j] = 0;
        for (size_t i = 0; i < width[l + 1]; i++) {
            gb[i] += weight * d[l + 1][i];
            for (size_t j = 0; j < width[l]; j++) {
                gw[i * width[l] + j] += weight * d[l + 1][i] * h[l][j];
                if (h[l][j] > 0) d[l][j] += d[l + 1][i] * w[i * width[l] + j];
            }
        }
    }
    return loss;
}

/* Mean loss, gradient and hits over the batch. */
static double naive_eval(size_t depth, const size_t *width, const double *x, const fli_batch *b, double *g,
                         size_t *correct)
{
    double loss = 0, weight = 1 / (double)b->n;
    *correct = 0;
    for (size_t i = 0; i < b->n; i++) {
        int hit;
        loss += naive_sample(depth, width, x, (const double *)b->x + i * b->dim, b->label[i], weight, g, &hit);
        *correct += (size_t)hit;
    }
    return loss * weight;
}

static void check_against_naive(const char *name, size_t depth, const size_t *width, const char *hidden, size_t batch)
{
    fixture f;
    shape s = {width[0], width[depth], batch, hidden};
    open_fixture(&f, find(name), &s, &fli_ops_f64, 0);
    double *fast = blank(&f), *plain = must_alloc(f.ctx, f.n, sizeof *plain);
    size_t hits, plain_hits;
    double loss = fli_model_eval(f.m, f.x, &f.b, fast, &hits, f.scratch);
    assert_near(loss, naive_eval(depth, width, f.x, &f.b, plain, &plain_hits), 1e-12 * (1 + loss));
    assert_int_equal(hits, plain_hits);
    for (size_t i = 0; i < f.n; i++) assert_near(fast[i], plain[i], 1e-12 * (1 + fabs(plain[i])));
    fli_free(fast);
    fli_free(plain);
    close_fixture(&f);
}

static void test_dense_against_naive(void **state)
{
    (void)state;
    check_against_naive("softmax", 1, (size_t[]){6, 4}, NULL, 31);
    check_against_naive("softmax", 1, (size_t[]){1, 2}, NULL, 1);
    check_against_naive("mlp", 1, (size_t[]){6, 4}, "", 31);
    check_against_naive("mlp", 2, (size_t[]){11, 7, 5}, "7", 1);
    check_against_naive("mlp", 2, (size_t[]){60, 32, 10}, "32", 10);
    check_against_naive("mlp", 4, (size_t[]){9, 5, 4, 3, 6}, "5,4,3", 23);
    check_against_naive("mlp", 4, (size_t[]){3, 2, 19, 4, 2}, "2,19,4", 50);
    check_against_naive("mlp", 6, (size_t[]){8, 13, 6, 21, 5, 9, 3}, "13,6,21,5,9", 17);
}

/* Without hidden layers the perceptron is softmax regression, tensor by tensor. */
static void test_mlp_without_hidden_is_softmax(void **state)
{
    (void)state;
    fixture a, b;
    open_fixture(&a, find("mlp"), &shapes[2], &fli_ops_f64, 0.1);
    open_fixture(&b, find("softmax"), &shapes[2], &fli_ops_f64, 0.1);
    double *ga = blank(&a), *gb = blank(&b);
    assert_int_equal(a.n, b.n);
    assert_true(fli_model_eval(a.m, a.x, &a.b, ga, NULL, a.scratch) ==
                fli_model_eval(b.m, b.x, &b.b, gb, NULL, b.scratch));
    assert_memory_equal(ga, gb, a.n * sizeof *ga);
    assert_string_equal(a.m->tensors[0].name, "layer1.weight");
    assert_string_equal(b.m->tensors[0].name, "weight");
    assert_int_equal(b.m->tensors[0].shape[0], 4);
    assert_int_equal(b.m->tensors[0].shape[1], 5);
    assert_string_equal(b.m->tensors[1].name, "bias");
    fli_free(ga);
    fli_free(gb);
    close_fixture(&a);
    close_fixture(&b);
}

/* The moments and bounds of the three start rules, layer by layer. */
static void test_mlp_start_rules(void **state)
{
    (void)state;
    static const char *const rules[] = {"pytorch", "he", "glorot"};
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    for (size_t k = 0; k < 3; k++) {
        fli_model *m = NULL;
        void *params = bind_params(ctx, &arena, find("mlp"), "200,100", rules[k]);
        assert_ok(ctx, fli_model_new(ctx, find("mlp"), params, &fli_ops_f64, 50, 10, 0, &m));
        double *x = must_alloc(ctx, m->space.n, sizeof *x);
        assert_ok(ctx, fli_model_start(ctx, m, 3, x));
        for (size_t i = 0; i < m->tensor_count; i += 2) {
            const fl_tensor *w = &m->tensors[i], *b = &m->tensors[i + 1];
            double in = (double)w->shape[1], out = (double)w->shape[0], count = in * out, top = 0, mean = 0;
            double variance = k == 0 ? 1 / (3 * in) : k == 1 ? 2 / in : 2 / (in + out);
            for (size_t j = 0; j < w->shape[0] * w->shape[1]; j++) {
                mean += x[w->offset + j] / count;
                top = fmax(top, fabs(x[w->offset + j]));
            }
            double square = norm2(w->shape[0] * w->shape[1], x + w->offset), bias = norm2(b->shape[0], x + b->offset);
            assert_near(mean, 0, 5 * sqrt(variance / count));
            assert_near(square * square / count, variance, 0.1 * variance); /* 1000 weights in the smallest layer */
            if (k != 1) assert_true(top <= sqrt(3 * variance) && top > 0.98 * sqrt(3 * variance));
            if (k == 0)
                assert_true(bias > 0 && bias * bias <= out / in);
            else
                assert_true(bias == 0);
        }
        fli_free(x);
        fli_free(params);
        fli_model_free(m);
    }
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_match_differences),
        cmocka_unit_test(test_hessian_products_match_differences),
        cmocka_unit_test(test_weight_decay),
        cmocka_unit_test(test_own_steps_match_the_backends),
        cmocka_unit_test(test_sparse_samples_act_as_dense),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_single_precision_is_near_double),
        cmocka_unit_test(test_tensors_cover_all_parameters),
        cmocka_unit_test(test_start_models_follow_the_seed),
        cmocka_unit_test(test_unfit_data_are_refused),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_loss_at_zero),
        cmocka_unit_test(test_least_squares_by_hand),
        cmocka_unit_test(test_logistic_by_hand),
        cmocka_unit_test(test_dense_against_naive),
        cmocka_unit_test(test_mlp_without_hidden_is_softmax),
        cmocka_unit_test(test_mlp_start_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
