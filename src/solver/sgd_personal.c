/* A pair of models on one client ([CPSL] Algorithm 1): z, which answers the posed problem as plain SGD does, and the
 * client's own model, which learns to make the mixture mix h(own) + (1 - mix) h(z) of their outputs fit the client's
 * samples. Both steps of a pair use the gradients before either step, on the same mini-batch; momentum starts at zero:
 *
 *     z   <- z - lr mu,           mu     <- gam mu + grad f_i(z) + the problem's other terms
 *     own <- own - own_lr mu_own, mu_own <- gam mu_own + grad_own F_i(own, z)
 *
 * A mix that is not given is chosen here; [CPSL] leaves that open (Remark 5). A share of the labelled samples is held
 * out and never trained on; the mix maximises their likelihood. The log-likelihood sum log(mix a + (1 - mix) b), with
 * a and b the two models' probabilities of the right class, is concave in mix, so bisection finds its maximum. The mix
 * stays away from 0 and 1, where one of the models would no longer learn or matter. */
#include "solver/minibatch.h"
#include "model/semi.h"

#include <math.h>

enum { HELD_OUT = 5 }; /* one labelled sample in this many */
#define LEAST_MIX 0.1
#define MOST_MIX  0.9

enum { OWN_GRAD, OWN_PART, OWN_BUFFER, VECTORS }; /* of the instance */
enum { OWN, ANSWERS };                            /* of the task */

/* The held-out samples are the same in every turn, and random, because a client's list may be sorted by class. */
size_t fli_pair_hold_out(const fli_task *t, uint32_t *order)
{
    const fli_view *v = t->view;
    fli_rng r;
    memcpy(order, v->train, v->n_train * sizeof *order);
    fli_rng_init(&r, t->seed, FLI_RNG_SPLIT, 2, t->client);
    fli_rng_shuffle(&r, v->n_train, order);
    return v->n_train - v->n_train / HELD_OUT;
}

/* The slope of the mean log-likelihood at this mix; a and b interleaved. */
static double slope(size_t n, const double *ab, double mix)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double a = ab[2 * i], b = ab[2 * i + 1];
        sum += (a - b) / fmax(mix * a + (1 - mix) * b, 1e-300);
    }
    return sum;
}

static double likeliest(size_t n, const double *ab)
{
    double low = LEAST_MIX, high = MOST_MIX;
    if (slope(n, ab, high) >= 0) return high;
    if (slope(n, ab, low) <= 0) return low;
    for (int i = 0; i < 40; i++) {
        double middle = (low + high) / 2;
        if (slope(n, ab, middle) > 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double fli_pair_mix(size_t n, const double *ab)
{
    int differ = 0;
    for (size_t i = 0; i < n; i++) differ |= ab[2 * i] != ab[2 * i + 1];
    return differ ? likeliest(n, ab) : FLI_FIRST_MIX;
}

/* Writes the probabilities of the right class under model x for samples idx[0 .. n-1] to ab[which], ab[which + 2],
 * ... */
static void right_class(fli_worker *w, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x,
                        size_t which, double *ab)
{
    const fli_model *m = w->model;
    const fli_ops *ops = m->space.ops;
    fli_pieces p = fli_pieces_of(w->eval, ds, idx, n);
    while (fli_pieces_next(&p)) {
        void *z = m->desc->logits(m, x, &w->eval->batch, w->eval->scratch);
        ops->softmax(p.n, m->classes, z);
        for (size_t i = 0; i < p.n; i++) {
            size_t right = i * m->classes + (size_t)w->eval->batch.label[i];
            ops->to_f64(1, fli_cat(ops, z, right), &ab[2 * (p.at + i) + which]);
        }
    }
}

/* Chooses the mix by the n samples at the end of the worker's order. */
static fl_status choose_mix(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fl_problem *p, size_t n, double *mix)
{
    const uint32_t *idx = w->order + v->n_train - n;
    *mix = FLI_FIRST_MIX;
    if (!n) return FL_OK;
    double *ab = fli_alloc(ctx, 2 * n, sizeof *ab);
    if (!ab) return FL_ENOMEM;
    right_class(w, v->ds, idx, n, p->pair.start, 0, ab);
    right_class(w, v->ds, idx, n, p->start, 1, ab);
    *mix = fli_pair_mix(n, ab);
    fli_free(ab);
    return FL_OK;
}

/* The labelled samples for training, and the mix. */
typedef struct {
    const uint32_t *samples;
    size_t n;
    double mix;
} training;

static fl_status prepare(fl_ctx *ctx, fli_worker *w, const fli_task *t, training *out)
{
    const fli_view *v = t->view;
    *out = (training){v->train, v->n_train, t->problem.pair.mix};
    if (!isnan(out->mix)) return FL_OK;
    out->samples = w->order;
    out->n = fli_pair_hold_out(t, w->order);
    return choose_mix(ctx, w, v, &t->problem, v->n_train - out->n, &out->mix);
}

static fl_answer train(fli_worker *w, fli_task *t, const training *on, const void *y)
{
    const fl_space *s = &w->model->space;
    const fl_problem *p = &t->problem;
    void *own = fli_task_vector(t, OWN), *own_grad = fli_worker_vector(w, OWN_GRAD);
    fli_point at = {t->z, own, on->mix, w->grad, own_grad, fli_worker_vector(w, OWN_PART)};
    fli_sgd_course course = fli_sgd_begin(w, t);
    fli_sgd_step own_step = {.lr = p->pair.lr,
                             .wd = fli_model_decay(w->model, t->view->n_train),
                             .momentum = course.step.momentum,
                             .grad = own_grad};
    fli_minibatch b;
    if (w->buffer) {
        own_step.buffer = fli_worker_vector(w, OWN_BUFFER);
        fli_zero(s, own_step.buffer);
    }
    fli_minibatch_init(w, t->view, on->samples, on->n, y, &t->rng, &b);
    fli_copy(s, p->pair.start, own);
    for (size_t k = 0; k < p->steps && !fli_halted(w->halt); k++) {
        fli_minibatch_next(&b);
        fli_minibatch_grad(&b, &at);
        fli_sgd_next(w, t, fli_minibatch_samples(&b), &course);
        own_step.wd = fli_model_step_decay(w->model, t->view->n_train, fli_minibatch_samples(&b));
        own_step.lr = p->pair.lr * course.share;
        s->ops->sgd(s->n, &course.step, t->z);
        s->ops->sgd(s->n, &own_step, own);
    }
    return (fl_answer){
        .z = t->z, .weight = fli_sgd_course_weight(w, t, &course), .steps = p->steps, .pair = {own, on->mix}};
}

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    fli_task *t = e->task;
    void *y;
    training on;
    (void)arg, (void)z, (void)f;
    fl_status s = fli_latents_improve(e->ctx, e->worker, t->view, p->start, &t->rng, t->cache, &y);
    if (!s) s = prepare(e->ctx, e->worker, t, &on);
    if (!s) *out = train(e->worker, t, &on, y);
    return s;
}

const fl_solver fli_solver_pair = {
    .name = "pair",
    .traits = FLI_SOLVER_SECOND_BLOCK | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
    .solve = solve,
    .work = VECTORS,
    .vectors = ANSWERS,
    .forget = fli_free,
    .engine = &(fli_solver_engine){.model_traits = FLI_MODEL_SOFTMAX,
                                   .models = "classifiers that give class probabilities, such as softmax and mlp",
                                   FLI_LATENTS_KEPT}};
