#include "metric/hypergradient.h"

#include "bilevel/bilevel.h"

#include <math.h>

enum { BLOCK = 16, NEWTON_MOST = 100, HALVINGS = 30 };

/* Vectors, whole; only Z, SUM and what SUM is copied to have an upper block that means anything. */
enum { Z, DIRECTION, SUM, GRADIENT, RESIDUAL, SOLUTION, TRIAL, VECTORS };

typedef struct {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const double *weights; /* NULL: p_i */
    fli_counts *counts;
    double value; /* of f, summed with the upper gradients */
    fli_space upper, lower;
    size_t clients, rooms, most; /* most: steps of conjugate gradients at a time */
    double tolerance;
    fli_message own;               /* VECTORS */
    fli_exchange exchanges[BLOCK]; /* the block under way */
    fli_exchange *list[BLOCK];
    fl_status status;
} solver;

static void *vector(const solver *s, size_t i) { return s->own.vec[i]; }
static void *low(const solver *s, void *v) { return fli_at(s->lower.ops, v, s->upper.n); }
static void *low_of(const solver *s, size_t i) { return low(s, vector(s, i)); }
static double norm(const fli_space *s, const void *v) { return sqrt(fli_dot(s, v, v)); }

static fl_status solver_init(solver *s)
{
    const fli_space *space = &s->model->space;
    fl_status status = fli_message_init(s->ctx, space, VECTORS, 0, &s->own);
    for (; !status && s->rooms < BLOCK && s->rooms < s->clients; s->rooms++) {
        status = fli_message_init(s->ctx, space, 1, 1, &s->exchanges[s->rooms].up);
        s->list[s->rooms] = &s->exchanges[s->rooms];
    }
    return status;
}

static void solver_fini(solver *s)
{
    for (size_t i = 0; i < s->rooms; i++) fli_message_fini(&s->exchanges[i].up);
    fli_message_fini(&s->own);
}

double fli_hypergradient_bytes(const fli_model *model, size_t clients)
{
    return (double)(VECTORS + (clients < BLOCK ? clients : BLOCK)) * (double)fli_bytes(&model->space);
}

/* ---- sums over the clients --------------------------------------------------------------------------------- */

static void ask_block(solver *s, const fli_message *down, uint32_t what, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fli_exchange *x = s->list[i];
        x->ask = (fli_ask){
            .kind = FLI_ASK_LEVELS, .client = (uint32_t)(first + i), .flags = what | FLI_ASK_CHANGED | FLI_ASK_REPLY};
        x->down = down;
        fli_coordinator_address(fli_exec_coordinator(s->exec), &x->ask);
        s->counts->evaluation_down += (double)fli_exec_bytes_down(s->exec, &x->ask);
        s->counts->evaluation_up += (double)fli_exec_bytes_up(s->exec, &x->ask);
    }
    fli_exec_run(s->exec, s->list, count);
    for (size_t i = 0; !s->status && i < count; i++)
        if (s->exchanges[i].status) s->status = fli_coordinator_failed(fli_exec_coordinator(s->exec), &s->exchanges[i]);
    for (size_t i = 0; !s->status && i < count; i++) {
        const fli_exchange *x = &s->exchanges[i];
        double weight = s->weights ? s->weights[x->ask.client] : x->ask.weight;
        if (what == FLI_LEVELS_LOWER) /* no more than that came up */
            fli_axpy(&s->lower, weight, low(s, x->up.vec[0]), low_of(s, SUM));
        else
            fli_axpy(&s->model->space, weight, x->up.vec[0], vector(s, SUM));
        if (what == FLI_LEVELS_UPPER) s->value += weight * x->up.num[0];
    }
}

/* SUM = sum_i w_i times a derivative at (x, y), in the order of the clients. */
static void sum(solver *s, uint32_t what, void *z, void *direction)
{
    void *sent[] = {z, direction};
    fli_message down = {.vec = sent};
    fli_zero(&s->model->space, vector(s, SUM));
    for (size_t at = 0; !s->status && at < s->clients; at += s->rooms)
        ask_block(s, &down, what, at, s->clients - at < s->rooms ? s->clients - at : s->rooms);
}

/* ---- solving ----------------------------------------------------------------------------------------------- */

/* SOLUTION's lower block: G_yy s = r for the r in RESIDUAL, which becomes what is left of it, to a norm of `goal`.
 * Returns whether it arrived; a direction in which G is not curved upwards ends it. */
static int conjugate_gradients(solver *s, double goal)
{
    const fli_space *l = &s->lower;
    void *r = low_of(s, RESIDUAL), *d = low_of(s, DIRECTION), *hd = low_of(s, SUM), *x = low_of(s, SOLUTION);
    double rr = fli_dot(l, r, r);
    fli_zero(l, x);
    fli_copy(l, r, d);
    for (size_t k = 0; k < s->most && sqrt(rr) > goal; k++) {
        double before = rr;
        sum(s, FLI_LEVELS_PRODUCT, vector(s, Z), vector(s, DIRECTION));
        double curvature = fli_dot(l, d, hd);
        if (s->status || !(curvature > 0)) return 0;
        fli_axpy(l, rr / curvature, d, x);
        fli_axpy(l, -rr / curvature, hd, r);
        rr = fli_dot(l, r, r);
        fli_lin(l, 1, r, rr / before, d, d);
    }
    return sqrt(rr) <= goal;
}

/* GRADIENT = grad_y G at (x, the y of z); its norm. */
static double lower_gradient(solver *s, void *z)
{
    sum(s, FLI_LEVELS_LOWER, z, NULL);
    fli_copy(&s->lower, low_of(s, SUM), low_of(s, GRADIENT));
    return norm(&s->lower, low_of(s, GRADIENT));
}

/* Goes along SOLUTION from Z, and half as far until the gradient is shorter than it was, of which a Newton direction of
 * a convex function makes sure. Returns the gradient's new norm, or the old one: there was no way further. */
static double take_step(solver *s, double before)
{
    double t = 1;
    for (size_t k = 0; !s->status && k < HALVINGS; k++, t /= 2) {
        fli_copy(&s->upper, vector(s, Z), vector(s, TRIAL));
        fli_lin(&s->lower, 1, low_of(s, Z), t, low_of(s, SOLUTION), low_of(s, TRIAL));
        double now = lower_gradient(s, vector(s, TRIAL));
        if (!(now < (1 - 1e-4 * t) * before)) continue;
        fli_copy(&s->lower, low_of(s, TRIAL), low_of(s, Z));
        return now;
    }
    return before;
}

/* Z's lower block becomes y*(x). Each system is solved as well as the gradient is small. */
static int solve_lower(solver *s)
{
    double now = lower_gradient(s, vector(s, Z)), goal = s->tolerance * fmax(1, now);
    for (size_t k = 0; !s->status && k < NEWTON_MOST && now > goal; k++) {
        double before = now;
        fli_lin(&s->lower, -1, low_of(s, GRADIENT), 0, low_of(s, GRADIENT), low_of(s, RESIDUAL));
        conjugate_gradients(s, fmax(goal / 2, fmin(0.1, now) * now));
        now = take_step(s, before);
        if (now == before) break;
    }
    return !s->status && now <= goal;
}

/* SOLUTION = v*(x) and GRADIENT = grad Phi(x) in their blocks, with y* in Z. */
static int solve_system(solver *s)
{
    s->value = 0;
    sum(s, FLI_LEVELS_UPPER, vector(s, Z), NULL);
    fli_copy(&s->upper, vector(s, SUM), vector(s, GRADIENT));
    fli_copy(&s->lower, low_of(s, SUM), low_of(s, RESIDUAL));
    double goal = s->tolerance * fmax(1, norm(&s->lower, low_of(s, RESIDUAL)));
    if (s->status || !conjugate_gradients(s, goal)) return 0;
    fli_copy(&s->lower, low_of(s, SOLUTION), low_of(s, DIRECTION));
    sum(s, FLI_LEVELS_PRODUCT, vector(s, Z), vector(s, DIRECTION));
    fli_sub(&s->upper, vector(s, GRADIENT), vector(s, SUM), vector(s, GRADIENT));
    return !s->status;
}

static double distance(solver *s, const void *a, const void *b)
{
    fli_sub(&s->lower, fli_cat(s->lower.ops, a, s->upper.n), fli_cat(s->lower.ops, b, s->upper.n), low_of(s, TRIAL));
    return norm(&s->lower, low_of(s, TRIAL));
}

fl_status fli_hypergradient(fl_ctx *ctx, fli_exec *exec, const void *z, const void *v, const double *weights,
                            fli_counts *counts, fli_levels_solved *out)
{
    const fli_exec_spec *spec = fli_exec_spec_of(exec);
    const fli_model *m = spec->model;
    solver s = {.ctx = ctx,
                .exec = exec,
                .model = m,
                .weights = weights,
                .counts = counts,
                .upper = fli_upper_space(&m->space, m->bilevel->upper),
                .lower = fli_lower_space(&m->space, m->bilevel->upper),
                .clients = spec->fed->clients,
                .tolerance = m->space.ops->size == sizeof(double) ? 1e-10 : 1e-5};
    *out = (fli_levels_solved){NAN, NAN, NAN, NAN};
    s.most = 2 * s.lower.n + 100; /* without rounding, as many as there are unknowns are enough */
    if (!(s.status = solver_init(&s))) {
        fli_copy(&m->space, z, vector(&s, Z));
        if (solve_lower(&s) && solve_system(&s)) {
            out->value = s.value;
            out->hypergradient = norm(&s.upper, vector(&s, GRADIENT));
            out->lower_distance = distance(&s, z, vector(&s, Z));
            if (v) out->system_distance = distance(&s, v, vector(&s, SOLUTION));
        } else if (!s.status) {
            fli_log(
                ctx, FL_LOG_WARNING,
                "the lower level could not be solved to a gradient of %g, so the hypergradient is not known; it has "
                "to be strongly convex (bilevel.l2), and precision: f64 is more exact",
                s.tolerance);
        }
    }
    solver_fini(&s);
    return s.status;
}
