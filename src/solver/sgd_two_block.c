/* SGD on f_i(x, y_i): first y_i at the model that the client starts from, then Q_i steps on x with that y_i ([VRA]
 * Algorithm 3, [CPSL] (7a)-(7b)). The local problem's other terms are in x alone, so they are folded into the step as
 * ever. */
#include "solver/latents.h"

static fl_status solve_task(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    void *y;
    fl_status s = fli_latents_improve(ctx, w, t->view, t->problem.start, &t->rng, t->cache, &y);
    if (!s) fli_sgd_train(w, t, y);
    return s;
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
