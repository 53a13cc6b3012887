/* Every listed regulariser with several parameters and sizes: the prox against its optimality condition (perturbations,
 * brute force along an axis, and Fenchel's equality with a conjugate written down here), its general properties,
 * extreme inputs, and small cases by hand. How far a regulariser is from convex, as its descriptor says, decides what
 * is asked of it. */
#include "check.h"

#include "base/rng.h"
#include "regularizer/regularizer.h"

enum { MOST = 100, GUARD = 8 };

static const size_t sizes[] = {1, 2, 7, MOST};
static const double etas[] = {0.01, 1, 30};
enum { SIZES = sizeof sizes / sizeof *sizes, ETAS = sizeof etas / sizeof *etas };

/* ---- conjugates ------------------------------------------------------------------------------------------ */

/* Parameters by key, read back from the bound struct. */
typedef struct {
    double weight, l1, l2, low, high, radius, total;
    size_t group;
} settings;

/* g*(u) = sup_z <u, z> - g(z). Where it is an indicator, `slack` is how much rounding is forgiven. */
typedef double conjugate_fn(const settings *s, size_t n, const double *u, double slack);

static double dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double norm(size_t n, const double *a) { return sqrt(dot(n, a, a)); }

static double conjugate_none(const settings *s, size_t n, const double *u, double slack)
{
    (void)s;
    return norm(n, u) <= slack ? 0 : INFINITY;
}

static double conjugate_l1(const settings *s, size_t n, const double *u, double slack)
{
    for (size_t i = 0; i < n; i++)
        if (fabs(u[i]) > s->weight + slack) return INFINITY;
    return 0;
}

static double conjugate_l2(const settings *s, size_t n, const double *u, double slack)
{
    if (s->weight == 0) return conjugate_none(s, n, u, slack);
    return dot(n, u, u) / (2 * s->weight);
}

static double conjugate_elastic(const settings *s, size_t n, const double *u, double slack)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double over = fmax(fabs(u[i]) - s->l1, 0);
        if (s->l2 > 0)
            sum += over * over / (2 * s->l2);
        else if (over > slack)
            return INFINITY;
    }
    return sum;
}

static double conjugate_group(const settings *s, size_t n, const double *u, double slack)
{
    for (size_t i = 0; i < n; i += s->group)
        if (norm(i + s->group < n ? s->group : n - i, u + i) > s->weight + slack) return INFINITY;
    return 0;
}

static double conjugate_nonnegative(const settings *s, size_t n, const double *u, double slack)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        if (u[i] > slack) return INFINITY;
    return 0;
}

static double conjugate_box(const settings *s, size_t n, const double *u, double slack)
{
    double sum = 0;
    (void)slack;
    for (size_t i = 0; i < n; i++) sum += fmax(u[i] * s->low, u[i] * s->high);
    return sum;
}

static double conjugate_ball(const settings *s, size_t n, const double *u, double slack)
{
    (void)slack;
    return s->radius * norm(n, u);
}

static double conjugate_simplex(const settings *s, size_t n, const double *u, double slack)
{
    double top = u[0];
    (void)slack;
    for (size_t i = 1; i < n; i++) top = fmax(top, u[i]);
    return s->total * top;
}

static double conjugate_linf(const settings *s, size_t n, const double *u, double slack)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs(u[i]);
    return sum <= s->weight + slack ? 0 : INFINITY;
}

/* ---- cases ----------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name, *keys; /* "key=value,..." */
    int indicator;
    conjugate_fn *conjugate; /* NULL: g is not convex */
} example;

static const example examples[] = {
    {"none", "", 0, conjugate_none},
    {"l1", "weight=0.1", 0, conjugate_l1},
    {"l1", "weight=2", 0, conjugate_l1},
    {"l1", "weight=0", 0, conjugate_l1},
    {"l2", "weight=0.5", 0, conjugate_l2},
    {"l2", "weight=0", 0, conjugate_l2},
    {"elastic_net", "l1=0.3,l2=0.7", 0, conjugate_elastic},
    {"elastic_net", "l1=0.3,l2=0", 0, conjugate_elastic},
    {"elastic_net", "l1=0,l2=2", 0, conjugate_elastic},
    {"group_l2", "weight=0.4,group=3", 0, conjugate_group},
    {"group_l2", "weight=0.4,group=1", 0, conjugate_group},
    {"group_l2", "weight=1.5,group=1000", 0, conjugate_group},
    {"group_l2", "weight=0,group=2", 0, conjugate_group},
    {"nonnegative", "", 1, conjugate_nonnegative},
    {"box", "low=-0.5,high=0.25", 1, conjugate_box},
    {"box", "low=1,high=1", 1, conjugate_box},
    {"box", "low=2,high=1e3", 1, conjugate_box},
    {"l2_ball", "radius=0.7", 1, conjugate_ball},
    {"l2_ball", "radius=40", 1, conjugate_ball},
    {"simplex", "total=1", 1, conjugate_simplex},
    {"simplex", "total=25", 1, conjugate_simplex},
    {"simplex", "total=0.001", 1, conjugate_simplex},
    {"mcp", "weight=0.5,gamma=3", 0, NULL}, /* etas below and above gamma */
    {"mcp", "weight=2,gamma=0.5", 0, NULL},
    {"mcp", "weight=0.2,gamma=1", 0, NULL}, /* eta = gamma */
    {"mcp", "weight=0.1,gamma=1.0000001", 0, NULL},
    {"mcp", "weight=0,gamma=2", 0, NULL},
    {"linf", "weight=0.3", 0, conjugate_linf},
    {"linf", "weight=50", 0, conjugate_linf},
    {"linf", "weight=0", 0, conjugate_linf},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    const fl_regularizer *reg;
    const example *e;
    void *params;
    settings s;
    double modulus; /* g + modulus/2 ||x||^2 is convex */
    fli_rng rng;
} fixture;

static const fl_regularizer *find(const char *name)
{
    for (const fl_regularizer *const *r = fli_regularizer_list; *r; r++)
        if (!strcmp((*r)->name, name)) return *r;
    fail_msg("no regulariser is called %s", name);
    return NULL;
}

static fl_status bind(fl_ctx *ctx, fli_arena *a, const fl_regularizer *reg, const char *keys, void *params)
{
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    char key[32], value[32];
    for (int n; sscanf(keys, "%31[^=]=%31[^,]%n", key, value, &n) == 2; keys += n, keys += *keys == ',')
        fli_node_append(map, fli_node_new(a, FLI_NODE_SCALAR, key, value));
    fli_table table = {reg->keys, params};
    return fli_bind(ctx, a, "regularizer", map, NULL, &table, 1);
}

static double real_key(const fixture *f, const char *name)
{
    for (const fl_key *row = f->reg->keys; row && row->name; row++) {
        const char *field = (const char *)f->params + row->offset;
        if (strcmp(row->name, name)) continue;
        return row->type == FL_KEY_INT ? (double)*(const int64_t *)field : *(const double *)field;
    }
    return 0;
}

static void open_fixture(fixture *f, const example *e)
{
    f->ctx = fl_ctx_new();
    f->e = e;
    f->reg = find(e->name);
    fli_arena_init(&f->arena, f->ctx);
    fli_rng_init(&f->rng, 7, FLI_RNG_TEST, (uint32_t)strlen(e->keys), 0);
    f->params = fli_alloc(f->ctx, f->reg->params_size, 1);
    assert_ok(f->ctx, bind(f->ctx, &f->arena, f->reg, e->keys, f->params));
    f->modulus = fli_regularizer_weak_convexity(f->reg, f->params);
    f->s = (settings){.weight = real_key(f, "weight"),
                      .l1 = real_key(f, "l1"),
                      .l2 = real_key(f, "l2"),
                      .low = real_key(f, "low"),
                      .high = real_key(f, "high"),
                      .radius = real_key(f, "radius"),
                      .total = real_key(f, "total"),
                      .group = (size_t)real_key(f, "group")};
}

static void close_fixture(fixture *f)
{
    fli_free(f->params);
    fli_arena_fini(&f->arena);
    fl_ctx_free(f->ctx);
}

static double value(const fixture *f, size_t n, const double *x) { return f->reg->value(f->params, n, x); }

/* z = prox(x) with a work area of exactly n doubles that starts as NaN. */
static void prox(const fixture *f, double eta, size_t n, const double *x, double *z)
{
    double room[MOST + GUARD];
    memset(room, 0xFF, sizeof room);
    memmove(z, x, n * sizeof *z);
    f->reg->prox(f->params, eta, n, z, room);
    const unsigned char *past = (const unsigned char *)(room + n);
    for (size_t i = 0; i < GUARD * sizeof *room; i++) assert_int_equal(past[i], 0xFF);
}

/* Normal entries of scale 0.1, 1 or 10, some of them equal and some zero. */
static void random_point(fixture *f, size_t n, double *x)
{
    double scale = pow(10, (double)fli_rng_below(&f->rng, 3) - 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = fli_rng_below(&f->rng, 8);
        x[i] = kind == 0 ? 0 : kind == 1 && i ? x[i - 1] : scale * fli_rng_normal(&f->rng);
    }
}

typedef void check_fn(fixture *f, double eta, size_t n);

/* `check` for every example, size and eta, `repeat` times. */
static void everywhere(check_fn *check, int repeat)
{
    for (const example *e = examples; e < examples + EXAMPLES; e++) {
        fixture f;
        open_fixture(&f, e);
        for (size_t i = 0; i < SIZES * ETAS; i++)
            for (int r = 0; r < repeat; r++) check(&f, etas[i % ETAS], sizes[i / ETAS]);
        close_fixture(&f);
    }
}

/* ---- optimality ------------------------------------------------------------------------------------------ */

static double objective(const fixture *f, double eta, size_t n, const double *x, const double *z)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (z[i] - x[i]) * (z[i] - x[i]);
    return value(f, n, z) + sum / (2 * eta);
}

static double distance(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* The objective is (1/eta - modulus)-strongly convex: at its minimiser z it lies under that at w by at least that times
 * ||w - z||^2 / 2. Where that is negative, z is still the global minimiser. */
static void assert_below(const fixture *f, double eta, size_t n, const double *x, const double *z, const double *w)
{
    double at_z = objective(f, eta, n, x, z), at_w = objective(f, eta, n, x, w), d = distance(n, z, w);
    double size = fabs(at_z) + (dot(n, x, x) + dot(n, z, z) + d * d) / eta;
    if (!(at_z + d * d / 2 * fmax(1 / eta - f->modulus, 0) <= at_w + 1e-12 * (1 + size)))
        fail_msg("%s {%s}, n %zu, eta %g: %.17g at the prox, %.17g at distance %g", f->e->name, f->e->keys, n, eta,
                 at_z, at_w, d);
}

/* Perturbations in all directions and along the axes, small and large; and pulled back into the set, where g is an
 * indicator. */
static void check_perturbed(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST], w[MOST];
    random_point(f, n, x);
    prox(f, eta, n, x, z);
    for (int k = 0; k < 60; k++) {
        double scale = pow(10, (double)(k % 6) - 4);
        memcpy(w, z, n * sizeof *w);
        if (k % 2)
            w[fli_rng_below(&f->rng, n)] += scale * fli_rng_normal(&f->rng);
        else
            for (size_t i = 0; i < n; i++) w[i] += scale * fli_rng_normal(&f->rng);
        assert_below(f, eta, n, x, z, w);
        prox(f, eta, n, w, w);
        assert_below(f, eta, n, x, z, w);
    }
    assert_below(f, eta, n, x, z, x);
}

static void test_prox_minimises(void **state)
{
    (void)state;
    everywhere(check_perturbed, 5);
}

/* The objective's least value along one axis through z, over a fine grid that is refined around its best point. Between
 * two points of the grid g has at most one kink. */
static double least_on_axis(const fixture *f, double eta, size_t n, const double *x, double *w, size_t axis)
{
    double far = 2 * (fabs(x[axis]) + fabs(w[axis])) + 1, low = -far, high = far, best = INFINITY, at = 0;
    for (int level = 0; level < 12; level++) {
        enum { POINTS = 200 };
        double step = (high - low) / POINTS;
        for (int k = 0; k <= POINTS; k++) {
            w[axis] = low + k * step;
            double here = objective(f, eta, n, x, w);
            if (here < best) best = here, at = w[axis];
        }
        low = at - 2 * step;
        high = at + 2 * step;
    }
    return best;
}

/* For sums over coordinates, convex or not, this is global optimality. */
static void check_along_axes(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST], w[MOST];
    random_point(f, n, x);
    prox(f, eta, n, x, z);
    memcpy(w, z, n * sizeof *w);
    double at_z = objective(f, eta, n, x, z), least = least_on_axis(f, eta, n, x, w, fli_rng_below(&f->rng, n));
    double size = fabs(at_z) + (dot(n, x, x) + dot(n, z, z)) / eta;
    if (!(at_z <= least + 1e-12 * (1 + size)))
        fail_msg("%s {%s}, n %zu, eta %g: %.17g at the prox, %.17g along an axis", f->e->name, f->e->keys, n, eta, at_z,
                 least);
}

static void test_prox_is_least_along_axes(void **state)
{
    (void)state;
    everywhere(check_along_axes, 10);
}

/* u = (x - z)/eta is a subgradient of g at z just when g(z) + g*(u) = <u, z>. */
static void check_fenchel(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST], u[MOST];
    if (!f->e->conjugate) return; /* test_list: only where g is not convex */
    random_point(f, n, x);
    prox(f, eta, n, x, z);
    for (size_t i = 0; i < n; i++) u[i] = (x[i] - z[i]) / eta;
    double slack = 1e-12 * (norm(n, x) + norm(n, z)) / eta;
    double gap = value(f, n, z) + f->e->conjugate(&f->s, n, u, slack) - dot(n, u, z);
    if (!(fabs(gap) <= slack * (1 + norm(n, z)) + 1e-12 * value(f, n, z)))
        fail_msg("%s {%s}, n %zu, eta %g: Fenchel's gap is %g", f->e->name, f->e->keys, n, eta, gap);
}

static void test_prox_is_a_subgradient_step(void **state)
{
    (void)state;
    everywhere(check_fenchel, 40);
}

/* ---- properties ------------------------------------------------------------------------------------------ */

/* The prox is monotone; with c = 1 - eta modulus > 0, <px - py, x - y> >= c ||px - py||^2, which bounds its Lipschitz
 * constant by 1/c: firmly non-expansive where g is convex. */
static void check_lipschitz(fixture *f, double eta, size_t n)
{
    double x[MOST], y[MOST], px[MOST], py[MOST];
    random_point(f, n, x);
    random_point(f, n, y);
    prox(f, eta, n, x, px);
    prox(f, eta, n, y, py);
    double far = distance(n, x, y), near = distance(n, px, py), size = norm(n, x) + norm(n, y) + norm(n, px), cross = 0;
    for (size_t i = 0; i < n; i++) cross += (px[i] - py[i]) * (x[i] - y[i]);
    double c = fmax(1 - eta * f->modulus, 0);
    if (!(c * near <= far + 1e-13 * size))
        fail_msg("%s {%s}: distance grew from %g to %g", f->e->name, f->e->keys, far, near);
    if (!(c * near * near <= cross + 1e-13 * size * size)) fail_msg("%s {%s}: not firmly", f->e->name, f->e->keys);
}

static void test_prox_is_lipschitz(void **state)
{
    (void)state;
    everywhere(check_lipschitz, 40);
}

/* g + m/2 ||x||^2 is convex for the m that the descriptor gives: on segments, the middle lies below. */
static void check_modulus(fixture *f, double eta, size_t n)
{
    double x[MOST], y[MOST], middle[MOST];
    (void)eta;
    if (!isfinite(f->modulus)) return;
    random_point(f, n, x);
    random_point(f, n, y);
    for (size_t i = 0; i < n; i++) middle[i] = x[i] / 2 + y[i] / 2;
    double ends = (value(f, n, x) + value(f, n, y)) / 2 + f->modulus / 8 * pow(distance(n, x, y), 2);
    if (!(value(f, n, middle) <= ends * (1 + 1e-12)))
        fail_msg("%s {%s}: the modulus %g is too small", f->e->name, f->e->keys, f->modulus);
}

static void test_the_modulus_restores_convexity(void **state)
{
    (void)state;
    everywhere(check_modulus, 40);
}

/* The values of an indicator are 0 and infinity; the others are finite, and not negative. */
static void check_value(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST];
    random_point(f, n, x);
    prox(f, eta, n, x, z);
    double at_x = value(f, n, x), at_z = value(f, n, z);
    if (!f->e->indicator) {
        assert_true(isfinite(at_x) && at_x >= 0 && at_z <= at_x * (1 + 1e-12));
        return;
    }
    assert_true(at_z == 0);
    int moved = distance(n, x, z) > 1e-10 * (norm(n, x) + norm(n, z));
    assert_true(moved ? at_x == INFINITY : at_x == 0 || at_x == INFINITY);
}

static void test_values_are_never_negative(void **state)
{
    (void)state;
    everywhere(check_value, 40);
}

/* The prox of an indicator is a projection: twice is once, and eta does not matter. */
static void check_projection(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST], again[MOST];
    if (!f->e->indicator) return;
    random_point(f, n, x);
    prox(f, eta, n, x, z);
    prox(f, eta, n, z, again);
    assert_near(distance(n, z, again), 0, 1e-14 * (norm(n, z) + 1));
    prox(f, 3.7 * eta, n, x, again);
    assert_memory_equal(z, again, n * sizeof *z);
}

static void test_projecting_twice_changes_nothing(void **state)
{
    (void)state;
    everywhere(check_projection, 20);
}

/* Multiplies g by c: weights grow with it, `gamma`, whose inverse is a curvature, shrinks. */
static void scale_params(fixture *f, double c)
{
    static const struct {
        const char *name;
        int inverse;
    } scaled[] = {{"weight", 0}, {"l1", 0}, {"l2", 0}, {"gamma", 1}};
    for (const fl_key *row = f->reg->keys; row && row->name; row++)
        for (size_t k = 0; k < sizeof scaled / sizeof *scaled; k++)
            if (!strcmp(row->name, scaled[k].name))
                *(double *)((char *)f->params + row->offset) *= scaled[k].inverse ? 1 / c : c;
}

/* prox_{(c eta) g} = prox_{eta (c g)}: bit for bit when c is a power of two. */
static void check_scaling(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST], scaled[MOST];
    if (f->e->indicator) return;
    random_point(f, n, x);
    prox(f, 4 * eta, n, x, z);
    scale_params(f, 4);
    prox(f, eta, n, x, scaled);
    scale_params(f, 0.25);
    assert_memory_equal(z, scaled, n * sizeof *z);
}

static void test_eta_scales_the_weight(void **state)
{
    (void)state;
    everywhere(check_scaling, 5);
}

/* ---- extreme inputs -------------------------------------------------------------------------------------- */

static void check_extreme(fixture *f, double eta, size_t n)
{
    static const double rare[] = {1e300, -1e300, 0.0, -0.0, 1.7e308, -1.7e308, 1e-300, 5e-324, 1};
    double x[MOST] = {0}, y[MOST], z[MOST];
    for (size_t i = 0; i < n; i++) x[i] = rare[fli_rng_below(&f->rng, 9)];
    prox(f, eta, n, x, z);
    for (size_t i = 0; i < n; i++) {
        y[i] = -z[i];
        if (!isfinite(z[i])) fail_msg("%s {%s}: entry %zu is %g", f->e->name, f->e->keys, i, z[i]);
        if (!f->e->indicator) assert_true(fabs(z[i]) <= fabs(x[i]) && z[i] * x[i] >= 0);
    }
    assert_false(isnan(value(f, n, x)));
    assert_false(isnan(value(f, n, y)));
    if (f->e->indicator) assert_true(value(f, n, z) == 0);
}

static void test_extreme_inputs(void **state)
{
    (void)state;
    everywhere(check_extreme, 30);
}

static void check_equal_entries(fixture *f, double eta, size_t n)
{
    static const double levels[] = {0.0, -0.0, 3, -3, 1e300, -1e300, 1e-300};
    double x[MOST], z[MOST];
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        for (size_t i = 0; i < n; i++) x[i] = levels[l];
        prox(f, eta, n, x, z);
        if (f->e->indicator) assert_true(value(f, n, z) == 0);
        if (!strcmp(f->e->name, "group_l2")) continue; /* the last group may be shorter */
        for (size_t i = 1; i < n; i++) assert_true(z[i] == z[0]);
        if (!strcmp(f->e->name, "simplex")) assert_near(z[0], f->s.total / (double)n, 1e-15 * f->s.total);
    }
}

static void test_equal_entries(void **state)
{
    (void)state;
    everywhere(check_equal_entries, 1);
}

/* Divergence must not disappear in a prox. */
static void check_nan(fixture *f, double eta, size_t n)
{
    double x[MOST], z[MOST];
    random_point(f, n, x);
    size_t at = fli_rng_below(&f->rng, n);
    x[at] = NAN;
    prox(f, eta, n, x, z);
    assert_true(isnan(z[at]));
    x[at] = INFINITY;
    prox(f, eta, n, x, z);
    assert_true(!isfinite(z[at]) || (!strcmp(f->e->name, "box") && z[at] == f->s.high));
    if (f->e->indicator) assert_true(value(f, n, x) == INFINITY || !strcmp(f->e->name, "nonnegative"));
}

static void test_nan_shows(void **state)
{
    (void)state;
    everywhere(check_nan, 3);
}

/* One large and very many small positive entries: the sum must still be right to 1e-12. */
static void test_simplex_is_feasible_when_large(void **state)
{
    enum { N = 200000 };
    fixture f;
    (void)state;
    for (const example *e = examples; e < examples + EXAMPLES; e++) {
        if (strcmp(e->name, "simplex")) continue;
        open_fixture(&f, e);
        double *x = fli_alloc(f.ctx, N, sizeof *x), *work = fli_alloc(f.ctx, N, sizeof *work), sum = 0;
        for (size_t i = 0; i < N; i++) x[i] = f.s.total * (0.1 + 1e-7 * fli_rng_uniform(&f.rng));
        x[77] += 0.9 * f.s.total;
        f.reg->prox(f.params, 1, N, x, work);
        assert_true(value(&f, N, x) == 0);
        for (size_t i = 0; i < N; i++) sum += x[i] / f.s.total;
        assert_near(sum, 1, 1e-10); /* plain summation */
        assert_true(x[77] > 0.89 * f.s.total);
        fli_free(x);
        fli_free(work);
        close_fixture(&f);
    }
}

/* ---- by hand --------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name, *keys;
    double eta;
    size_t n;
    double x[4], z[4], value; /* value: g(x) */
} answer;

static const answer answers[] = {
    {"none", "", 5, 2, {1, -2}, {1, -2}, 0},
    {"l1", "weight=0.5", 2, 4, {3, -0.5, -4, 1}, {2, 0, -3, 0}, 4.25},
    {"l2", "weight=2", 1.5, 2, {8, -4}, {2, -1}, 80},
    {"elastic_net", "l1=1,l2=3", 1, 3, {5, -9, 0.5}, {1, -2, 0}, 14.5 + 1.5 * 106.25},
    {"group_l2", "weight=2,group=2", 0.5, 4, {3, 4, 0.6, 0.8}, {2.4, 3.2, 0, 0}, 12},
    {"group_l2", "weight=1,group=3", 2, 4, {2, -1, 2, 5}, {2. / 3, -1. / 3, 2. / 3, 3}, 8}, /* a short last group */
    {"nonnegative", "", 1, 3, {-1, 0, 2}, {0, 0, 2}, INFINITY},
    {"nonnegative", "", 1, 3, {1, 0, -0.0}, {1, 0, 0}, 0},
    {"nonnegative", "", 1, 2, {-1e-12, 1e-12}, {0, 1e-12}, INFINITY},
    {"box", "low=-1,high=2", 9, 4, {-3, -1, 0.5, 7}, {-1, -1, 0.5, 2}, INFINITY},
    {"box", "low=-1,high=2", 9, 3, {2, -1, 0}, {2, -1, 0}, 0},
    {"l2_ball", "radius=5", 1, 2, {6, -8}, {3, -4}, INFINITY},
    {"l2_ball", "radius=5", 1, 2, {3, 4}, {3, 4}, 0},
    {"l2_ball", "radius=5", 1, 2, {2.9999997, 3.9999996}, {2.9999997, 3.9999996}, 0},
    {"l2_ball", "radius=5", 1, 2, {6e300, -8e300}, {3, -4}, INFINITY},
    {"simplex", "total=1", 1, 3, {0.2, 0.5, 0.3}, {0.2, 0.5, 0.3}, 0},
    {"simplex", "total=1", 1, 2, {1, 0.6}, {0.7, 0.3}, INFINITY},
    {"simplex", "total=1", 1, 3, {5, -1, 3.9}, {1, 0, 0}, INFINITY},
    {"simplex", "total=6", 1, 4, {4, 3, -9, 2}, {3, 2, 0, 1}, INFINITY},
    {"simplex", "total=2", 1, 1, {-7}, {2}, INFINITY},
    {"simplex", "total=1", 1, 3, {0.5, -0.5, 1}, {0.25, 0, 0.75}, INFINITY}, /* adds up, but has a negative entry */
    {"simplex", "total=1", 1, 2, {1e300, 1e300}, {0.5, 0.5}, INFINITY},
    {"mcp", "weight=1,gamma=2", 1, 4, {0.5, -1.5, 2, -3}, {0, -1, 2, -3}, 0.4375 + 0.9375 + 1 + 1},
    {"mcp", "weight=1,gamma=1", 4, 4, {1, 1.5, 1.999, -2.001}, {0, 0, 0, -2.001}, 2}, /* eta > gamma: all or nothing */
    {"linf", "weight=2", 1.5, 4, {5, -4, 1, -0.0}, {3, -3, 1, 0}, 10},
    {"linf", "weight=2", 4, 3, {5, -2, 1}, {0, 0, 0}, 10}, /* ||x||_1 = eta weight */
    {"linf", "weight=2", 3, 3, {5, -2, 2}, {1, -1, 1}, 10},
    {"mcp", "weight=1,gamma=1", 1, 3, {0.9, 1, -1.1}, {0, 0, -1.1}, 0.495 + 0.5 + 0.5},
};

static void test_known_answers(void **state)
{
    (void)state;
    for (const answer *a = answers; a < answers + sizeof answers / sizeof *answers; a++) {
        example e = {a->name, a->keys, 0, NULL};
        double z[4];
        fixture f;
        open_fixture(&f, &e);
        double g = value(&f, a->n, a->x);
        assert_true(g == a->value || fabs(g - a->value) <= 1e-13 * a->value);
        prox(&f, a->eta, a->n, a->x, z);
        for (size_t i = 0; i < a->n; i++)
            if (!(fabs(z[i] - a->z[i]) <= 4e-16 * (1 + fabs(a->z[i]))))
                fail_msg("%s {%s}: entry %zu is %.17g, expected %.17g", a->name, a->keys, i, z[i], a->z[i]);
        close_fixture(&f);
    }
}

/* A violation of 1e-9 is one, of 1e-14 is rounding. */
static void test_rounding_is_no_violation(void **state)
{
    static const struct {
        const char *name, *keys;
        double inside; /* the only entry of a feasible vector */
    } edges[] = {{"box", "low=-5,high=3", 3}, {"l2_ball", "radius=3", 3}, {"simplex", "total=3", 3}};
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        example e = {edges[i].name, edges[i].keys, 1, NULL};
        fixture f;
        open_fixture(&f, &e);
        double near = edges[i].inside * (1 + 1e-14), far = edges[i].inside * (1 + 1e-9);
        assert_true(value(&f, 1, &near) == 0);
        assert_true(value(&f, 1, &far) == INFINITY);
        close_fixture(&f);
    }
}

/* ---- settings -------------------------------------------------------------------------------------------- */

static void test_low_must_not_exceed_high(void **state)
{
    const fl_regularizer *box = find("box");
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    double params[2];
    (void)state;
    fli_arena_init(&arena, ctx);
    assert_int_equal(box->params_size, sizeof params);
    assert_ok(ctx, bind(ctx, &arena, box, "low=2,high=1.5", params));
    assert_fails(ctx, fli_regularizer_validate(ctx, box, params, 3), FL_ECONFIG,
                 "low is 2, but must not be above regularizer.high, which is 1.5");
    assert_ok(ctx, bind(ctx, &arena, box, "low=2,high=2", params));
    assert_ok(ctx, fli_regularizer_validate(ctx, box, params, 3));
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

static void test_rows_refuse(void **state)
{
    static const char *const bad[][3] = {
        {"l1", "weight=-1", "weight"},
        {"l2", "weight=-0.1", "weight"},
        {"elastic_net", "l1=-1", "l1"},
        {"elastic_net", "l2=-1", "l2"},
        {"group_l2", "group=0", "group"},
        {"group_l2", "weight=-1", "weight"},
        {"group_l2", "group=1.5", "group"},
        {"l2_ball", "radius=0", "radius"},
        {"l2_ball", "radius=-1", "radius"},
        {"simplex", "total=0", "total"},
        {"linf", "weight=-1", "weight"},
        {"mcp", "gamma=0", "gamma"},
        {"mcp", "weight=-1", "weight"},
        {"box", "low=inf", "low"},
        {"none", "weight=1", "weight is not a key"},
    };
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    char params[64];
    (void)state;
    fli_arena_init(&arena, ctx);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(ctx, bind(ctx, &arena, find(bad[i][0]), bad[i][1], params), FL_ECONFIG, bad[i][2]);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

/* Whatever is listed is complete, is tested above, and its defaults are accepted. */
static void test_every_listed_regularizer_is_complete(void **state)
{
    (void)state;
    for (const fl_regularizer *const *r = fli_regularizer_list; *r; r++) {
        size_t count = 0;
        assert_true((*r)->title && (*r)->value && (*r)->prox);
        for (const fl_regularizer *const *q = fli_regularizer_list; q < r; q++)
            assert_string_not_equal((*q)->name, (*r)->name);
        for (size_t i = 0; i < EXAMPLES; i++) count += !strcmp(examples[i].name, (*r)->name);
        if (!count) fail_msg("%s has no line in the table of examples", (*r)->name);
        for (size_t i = 0; i < EXAMPLES; i++)
            if (!strcmp(examples[i].name, (*r)->name)) assert_true(examples[i].conjugate || (*r)->weak_convexity);
        example e = {(*r)->name, "", 0, NULL};
        fixture f;
        open_fixture(&f, &e);
        assert_ok(f.ctx, fli_regularizer_validate(f.ctx, *r, f.params, 5));
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prox_minimises),
        cmocka_unit_test(test_prox_is_a_subgradient_step),
        cmocka_unit_test(test_prox_is_lipschitz),
        cmocka_unit_test(test_the_modulus_restores_convexity),
        cmocka_unit_test(test_prox_is_least_along_axes),
        cmocka_unit_test(test_values_are_never_negative),
        cmocka_unit_test(test_projecting_twice_changes_nothing),
        cmocka_unit_test(test_eta_scales_the_weight),
        cmocka_unit_test(test_extreme_inputs),
        cmocka_unit_test(test_equal_entries),
        cmocka_unit_test(test_nan_shows),
        cmocka_unit_test(test_simplex_is_feasible_when_large),
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_rounding_is_no_violation),
        cmocka_unit_test(test_low_must_not_exceed_high),
        cmocka_unit_test(test_rows_refuse),
        cmocka_unit_test(test_every_listed_regularizer_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
