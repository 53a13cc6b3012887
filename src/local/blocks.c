/* SGD on f_i(x, y_i): first y_i at the model that the client starts from, then Q_i steps on x with that y_i ([VRA] Algorithm 3, [CPSL]
 * (7a)-(7b)). The local problem's other terms are in x alone, so they are folded into the step as ever. */
#include "local/draw.h"

#include "model/latent.h"

static fl_status solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, fli_rng *rng, void **cache,
                       fli_answer *out)
{
    const fli_space *s = &w->model->space;
    void *y;
    fli_draw draw;
    fl_status status = fli_latents_improve(ctx, w, v, p->start, cache, &y);
    if (status) return status;
    fli_sgd_step step = fli_sgd_begin(w, p);
    fli_point at = {.x = w->z, .g = w->grad};
    fli_draw_init(w, v, v->train, v->n_train, y, rng, &draw);
    fli_copy(s, p->start, w->z);
    for (size_t k = 0; k < p->steps; k++) {
        fli_draw_next(&draw);
        fli_draw_grad(&draw, &at);
        s->ops->sgd(s->n, &step, w->z);
    }
    *out = (fli_answer){.z = w->z, .weight = fli_sgd_weight(w->spec.momentum, p->steps), .steps = p->steps};
    return FL_OK;
}

const fli_solver fli_solver_blocks = {
    .name = "two-block", .second_block = 1, .augments = 1, .solve = solve, FLI_LATENTS_KEPT};
