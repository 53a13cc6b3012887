/* Mini-batch SGD with momentum on the local problem, also with a second block. The terms of the problem (weight decay,
 * shift, proximal) are folded into the update: one pass over the parameters per step, or none if the model can step
 * while it computes its gradient. */
#include "solver/minibatch.h"

#include <math.h>

/* shift + rho (z - anchor) = (shift - rho anchor) + rho z: one vector less to read in every step, for one to write in
 * the first. Returns the addition to the weight decay. */
static double merge_terms(fli_worker *w, const fl_problem *p, fli_sgd_step *step)
{
    if (!p->shift || !p->anchor || p->steps < 3) return 0;
    fli_lin(&w->model->space, 1, p->shift, -p->rho, p->anchor, w->linear);
    step->shift = w->linear;
    step->anchor = NULL;
    step->wd += p->rho;
    return p->rho;
}

double fli_sgd_weight(double momentum, size_t steps)
{
    double q = (double)steps, g = momentum;
    return g > 0 ? q / (1 - g) - g * (1 - pow(g, q)) / ((1 - g) * (1 - g)) : q;
}

fli_sgd_course fli_sgd_begin(fli_worker *w, const fli_task *t)
{
    const fl_problem *p = &t->problem;
    const fli_schedule *schedule = &w->spec.schedule;
    if (w->buffer) fli_zero(&w->model->space, w->buffer);
    fli_sgd_course c = {.step = {.lr = p->lr,
                                 .wd = fli_model_decay(w->model, t->view->n_train),
                                 .rho = p->rho,
                                 .momentum = w->spec.momentum,
                                 .grad = w->grad,
                                 .shift = p->shift,
                                 .anchor = p->anchor,
                                 .buffer = w->buffer}};
    c.flat = merge_terms(w, p, &c.step);
    c.share = 1;
    c.mean = schedule->by_step ? fli_schedule_mean(schedule, t->taken, p->steps) : 1;
    return c;
}

void fli_sgd_next(const fli_worker *w, const fli_task *t, size_t batch, fli_sgd_course *c)
{
    const fli_schedule *schedule = &w->spec.schedule;
    c->k++;
    if (w->model->decay_by == FLI_DECAY_BY_BATCH)
        c->step.wd = fli_model_step_decay(w->model, t->view->n_train, batch) + c->flat;
    if (!schedule->by_step) return;
    /* a schedule may fall to 0 */
    c->share = c->mean > 0 ? fli_schedule_lr(schedule, 1, (double)(t->taken + c->k)) / c->mean : 1;
    c->step.lr = t->problem.lr * c->share;
    c->momentum = w->spec.momentum * c->momentum + 1;
    c->weight += c->share * c->momentum;
}

double fli_sgd_course_weight(const fli_worker *w, const fli_task *t, const fli_sgd_course *c)
{
    /* steps of a schedule average to lr, so that without momentum there is nothing to add up */
    int add_up = w->spec.schedule.by_step && w->spec.momentum > 0;
    return add_up ? c->weight : fli_sgd_weight(w->spec.momentum, t->problem.steps);
}

fl_answer fli_sgd_train(fli_worker *w, fli_task *t, const void *y)
{
    const fl_problem *p = &t->problem;
    fli_minibatch b;
    fli_sgd_course course = fli_sgd_begin(w, t);
    fli_minibatch_init(w, t->view, t->view->train, t->view->n_train, y, &t->rng, &b);
    for (size_t k = 0; k < p->steps && !fli_halted(w->halt); k++) {
        fli_minibatch_next(&b);
        fli_sgd_next(w, t, fli_minibatch_samples(&b), &course);
        fli_minibatch_step(&b, &course.step, t->z);
    }
    return (fl_answer){.z = t->z, .weight = fli_sgd_course_weight(w, t, &course), .steps = p->steps};
}

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    (void)arg, (void)p, (void)z, (void)f;
    *out = fli_sgd_train(e->worker, e->task, NULL);
    return FL_OK;
}

const fl_solver fli_solver_sgd = {.name = "sgd",
                                  .title = "stochastic gradient steps on mini-batches",
                                  .traits = FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                                  .solve = solve,
                                  .engine = &(fli_solver_engine){.latent = &fli_solver_blocks}};

/* ==== with a second block ================================================================================= */

/* On f_i(x, y_i): first y_i at the model that the client starts from, then Q_i steps on x with that y_i ([VRA]
 * Algorithm 3, [CPSL] (7a)-(7b)). The local problem's other terms are in x alone, so they are folded into the step as
 * above. */

static int solve_blocks(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    fli_task *t = e->task;
    void *y;
    (void)arg, (void)z, (void)f;
    fl_status s = fli_latents_improve(e->ctx, e->worker, t->view, p->start, &t->rng, t->cache, &y);
    if (!s) *out = fli_sgd_train(e->worker, t, y);
    return s;
}

const fl_solver fli_solver_blocks = {.name = "two-block",
                                     .traits = FLI_SOLVER_SECOND_BLOCK | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                                     .solve = solve_blocks,
                                     .forget = fli_free,
                                     .engine = &(fli_solver_engine){FLI_LATENTS_KEPT}};
