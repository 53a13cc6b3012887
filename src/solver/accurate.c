/* The local problem to an accuracy, for any model: L-BFGS on
 *
 *     phi(z) = f_i(z) + wd/2 ||z||^2 + <shift, z> + rho/2 ||z - anchor||^2
 *
 * with gradients over all of the client's samples. For an m-strongly convex phi
 * ||z - minimiser|| <= ||grad phi(z)||/m, so it stops when
 *
 *     ||grad phi(z)|| <= m accuracy   and   ||grad phi(z)|| <= m relative ||z - start||   (those that are required)
 *
 * or when the steps are used up, or when rounding allows no further progress. Each gradient is a step. Near a
 * minimiser at a kink, as ReLU networks can have, gradients are not small: the solver then stops without progress, and
 * the accuracy counts as missed.
 *
 * The line search looks for a weak Wolfe point, phi(t) <= phi(0) + C1 t phi'(0) and phi'(t) >= C2 phi'(0), by
 * bracketing: it needs no convexity, and tolerates kinks as those of ReLU networks (Lewis and Overton, Nonsmooth
 * optimization via quasi-Newton methods, 2013). Close to the minimiser, values are equal up to rounding long before
 * gradients are; there the first condition is replaced by phi'(t) <= (2 C1 - 1) phi'(0), which follows from it on a
 * parabola (Hager and Zhang, SIAM J. Optim. 16, 2005). Steps and rounding in the model's precision, scalars in
 * double. */
#include "solver/minibatch.h"

#include <float.h>
#include <math.h>

enum {
    PAIRS = 10,
    TRIALS = 60, /* of a line search */
    IDLE = 20    /* iterations without progress in value or gradient, after which rounding is assumed to prevent any */
};
enum { TRIAL = 2 * PAIRS, TRIAL_GRADIENT, DIRECTION, VECTORS }; /* after the pairs, among the instance's vectors */

static const double C1 = 1e-4, C2 = 0.9;

typedef struct {
    fli_worker *w;
    const fl_space *space;
    const fli_view *v;
    const fl_problem *p;
    void *z, *g, *trial, *trial_g, *d;
    void *s[PAIRS], *y[PAIRS]; /* oldest first */
    double sy[PAIRS];
    size_t pairs, steps;
    double wd;
    double value, norm; /* phi(z), ||grad phi(z)|| */
    double noise;       /* rounding error of values, roughly */
} search;

/* phi(x) and its gradient; q->noise follows the magnitude of the terms. Returns infinity in place of NaN. */
static double eval(search *q, const void *x, void *g)
{
    const fl_problem *p = q->p;
    double wd = q->wd, epsilon = q->space->ops->size == sizeof(float) ? FLT_EPSILON : DBL_EPSILON;
    double loss = fli_eval_loss(q->w->eval, q->v->ds, q->v->train, q->v->n_train, x, g, NULL), linear = 0, square = 0;
    q->steps++;
    if (wd > 0) {
        square += wd / 2 * fli_dot(q->space, x, x);
        fli_axpy(q->space, wd, x, g);
    }
    if (p->shift) {
        linear = fli_dot(q->space, p->shift, x);
        fli_axpy(q->space, 1, p->shift, g);
    }
    if (p->anchor) {
        void *apart = q->w->eval->part; /* free between evaluations */
        fli_sub(q->space, x, p->anchor, apart);
        square += p->rho / 2 * fli_dot(q->space, apart, apart);
        fli_axpy(q->space, p->rho, apart, g);
    }
    double value = loss + square + linear;
    if (!isfinite(value)) return INFINITY;
    q->noise = 10 * epsilon * (fabs(loss) + square + fabs(linear));
    return value;
}

static double norm(const fl_space *s, const void *x) { return sqrt(fli_dot(s, x, x)); }

static int asks_for_accuracy(const fl_stopping *s) { return s->accuracy > 0 || s->relative > 0; }

/* Whether the required accuracy is proven. */
static int accurate(const search *q)
{
    const fl_stopping *s = &q->p->stop;
    if (s->accuracy > 0 && !(q->norm <= s->modulus * s->accuracy)) return 0;
    if (s->relative > 0) {
        void *moved = q->w->eval->part;
        fli_sub(q->space, q->z, q->p->start, moved);
        if (!(q->norm <= s->modulus * s->relative * norm(q->space, moved))) return 0;
    }
    return asks_for_accuracy(s);
}

static int spent(const search *q)
{
    return (q->p->stop.most_steps && q->steps >= q->p->stop.most_steps) || fli_halted(q->w->halt);
}

/* d = -H g by the two-loop recursion. Without pairs, the first trial of the line search is the minimiser of the problem
 * with a flat f_i. */
static double direction(search *q)
{
    const fl_space *s = q->space;
    double a[PAIRS], flat = q->wd + (q->p->anchor ? q->p->rho : 0);
    fli_copy(s, q->g, q->d);
    for (size_t i = q->pairs; i-- > 0;) {
        a[i] = fli_dot(s, q->s[i], q->d) / q->sy[i];
        fli_axpy(s, -a[i], q->y[i], q->d);
    }
    if (q->pairs) {
        const void *y = q->y[q->pairs - 1];
        fli_scale(s, q->sy[q->pairs - 1] / fli_dot(s, y, y), q->d);
    } else {
        fli_scale(s, 1 / (flat > 0 ? flat : q->norm), q->d);
    }
    for (size_t i = 0; i < q->pairs; i++) fli_axpy(s, a[i] - fli_dot(s, q->y[i], q->d) / q->sy[i], q->s[i], q->d);
    fli_scale(s, -1, q->d);
    return fli_dot(s, q->g, q->d);
}

/* A point inside the bracket: the zero of a linear slope, unless that is close to an end. */
static double between(double lo, double lo_slope, double hi, double hi_slope)
{
    double t = lo - lo_slope * (hi - lo) / (hi_slope - lo_slope), margin = 0.1 * (hi - lo);
    return t >= lo + margin && t <= hi - margin ? t : (lo + hi) / 2;
}

/* Moves along d, with phi'(0) = slope, and leaves the new point and gradient in trial and trial_g; *value is phi there.
 * Returns 0 if it finds no such point. */
static int line_search(search *q, double slope, double *value)
{
    double t = 1, lo = 0, hi = INFINITY, lo_slope = slope, hi_slope = INFINITY, noise = q->noise;
    for (size_t k = 0; k < TRIALS && !spent(q); k++) {
        fli_lin(q->space, 1, q->z, t, q->d, q->trial);
        *value = eval(q, q->trial, q->trial_g);
        double at = fli_dot(q->space, q->trial_g, q->d);
        int lower = *value <= q->value + C1 * t * slope ||
                    (*value <= q->value + fmax(noise, q->noise) && at <= (2 * C1 - 1) * slope);
        if (!lower || !isfinite(at)) {
            hi = t;
            hi_slope = isfinite(at) ? at : INFINITY;
        } else if (at < C2 * slope) {
            if (spent(q)) return 1; /* the steps are used up: not far enough, but lower */
            lo = t;
            lo_slope = at;
        } else {
            return 1;
        }
        t = isfinite(hi) ? between(lo, lo_slope, hi, hi_slope) : 2 * t;
    }
    return 0;
}

static void swap(void **a, void **b)
{
    void *c = *a;
    *a = *b;
    *b = c;
}

/* Stores s = trial - z and y = the difference of the gradients in place of the oldest pair, unless rounding dominates
 * their curvature. */
static void keep_pair(search *q)
{
    const fl_space *s = q->space;
    if (q->pairs == PAIRS) {
        void *old_s = q->s[0], *old_y = q->y[0];
        for (size_t i = 1; i < PAIRS; i++) {
            q->s[i - 1] = q->s[i];
            q->y[i - 1] = q->y[i];
            q->sy[i - 1] = q->sy[i];
        }
        q->s[--q->pairs] = old_s;
        q->y[q->pairs] = old_y;
    }
    void *ds = q->s[q->pairs], *dy = q->y[q->pairs];
    fli_sub(s, q->trial, q->z, ds);
    fli_sub(s, q->trial_g, q->g, dy);
    double sy = fli_dot(s, ds, dy);
    if (sy > 1e-10 * norm(s, ds) * norm(s, dy)) q->sy[q->pairs++] = sy;
}

/* One iteration; returns 0 if no descent is visible beyond rounding. */
static int iterate(search *q)
{
    double value = 0, slope = direction(q);
    int found = slope < 0 && line_search(q, slope, &value);
    if (!found && q->pairs && !spent(q)) { /* once more along the gradient */
        q->pairs = 0;
        slope = direction(q);
        found = line_search(q, slope, &value);
    }
    if (!found) return 0;
    keep_pair(q);
    swap(&q->z, &q->trial);
    swap(&q->g, &q->trial_g);
    q->value = value;
    q->norm = norm(q->space, q->g);
    return 1;
}

static void search_init(search *q, fli_worker *w, const fli_task *t)
{
    *q = (search){.w = w, .space = &w->model->space, .v = t->view, .p = &t->problem, .z = t->z, .g = w->grad};
    q->wd = fli_model_decay(w->model, t->view->n_train);
    q->trial = fli_worker_vector(w, TRIAL);
    q->trial_g = fli_worker_vector(w, TRIAL_GRADIENT);
    q->d = fli_worker_vector(w, DIRECTION);
    for (size_t i = 0; i < PAIRS; i++) {
        q->s[i] = fli_worker_vector(w, 2 * i);
        q->y[i] = fli_worker_vector(w, 2 * i + 1);
    }
    q->value = eval(q, q->z, q->g);
    q->norm = norm(q->space, q->g);
}

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    search q;
    (void)arg, (void)f;
    search_init(&q, e->worker, e->task);
    double best = q.value, least = q.norm;
    size_t idle = 0;
    int reached = accurate(&q);
    while (!reached && isfinite(q.value) && q.norm > 0 && !spent(&q) && idle < IDLE && iterate(&q)) {
        idle = q.value < best - q.noise || q.norm < 0.99 * least ? 0 : idle + 1;
        best = fmin(best, q.value);
        least = fmin(least, q.norm);
        reached = accurate(&q);
    }
    if (q.z != z) fl_vec_copy(&l->space, q.z, z);
    *out = (fl_answer){.z = z,
                       .weight = (double)p->steps,
                       .steps = q.steps * fli_epoch_steps(&e->worker->spec, l->samples),
                       .missed = asks_for_accuracy(&p->stop) && !reached};
    return FL_OK;
}

const fl_solver fli_solver_accurate = {.name = "accurate", .solve = solve, .work = VECTORS};
