/* SGD on f_i(x, y_i): first y_i at the model that the client starts from, then Q_i steps on x with that y_i ([VRA] Algorithm 3, [CPSL]
 * (7a)-(7b)). The local problem's other terms are in x alone, so they are folded into the step as ever. */
#include "local/draw.h"

#include "model/latent.h"

static fl_status solve_task(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    const fli_space *s = &w->model->space;
    const fli_problem *p = &t->problem;
    void *y;
    fli_draw draw;
    fl_status status = fli_latents_improve(ctx, w, t->view, p->start, t->cache, &y);
    if (status) return status;
    fli_sgd_step step = fli_sgd_begin(w, p);
    fli_point at = {.x = t->z, .g = w->grad};
    fli_draw_init(w, t->view, t->view->train, t->view->n_train, y, &t->rng, &draw);
    fli_copy(s, p->start, t->z);
    for (size_t k = 0; k < p->steps; k++) {
        fli_draw_next(&draw);
        fli_draw_grad(&draw, &at);
        s->ops->sgd(s->n, &step, t->z);
    }
    t->answer = (fli_answer){.z = t->z, .weight = fli_sgd_weight(w->spec.momentum, p->steps), .steps = p->steps};
    return FL_OK;
}

static void solve(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, solve_task);
}

const fli_solver fli_solver_blocks = {.name = "two-block",
                                      .second_block = 1,
                                      .augments = 1,
                                      .counts_steps = 1,
                                      .solve = solve,
                                      FLI_WORKER_INSTANCE,
                                      FLI_LATENTS_KEPT};
