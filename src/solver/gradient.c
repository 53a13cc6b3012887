/* The gradient of f_i at the start of a local problem, over all of the client's samples: for methods that exchange
 * gradients beside models. Alone, or before the steps of SGD on the same problem, which then are those of sgd.c to the
 * last bit. */
#include "solver/worker.h"

enum { GRADIENT, ANSWERS }; /* of the task */

size_t fli_start_gradient(fli_worker *w, const fli_task *t, void *g)
{
    const fli_view *v = t->view;
    const void *x = t->problem.start;
    fli_eval_loss(w->eval, v->ds, v->train, v->n_train, x, g, NULL);
    if (w->model->weight_decay > 0) fli_axpy(&w->model->space, fli_model_decay(w->model, v->n_train), x, g);
    return fli_epoch_steps(&w->spec, v->n_train);
}

static fl_status gradient_task(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    void *g = fli_task_vector(t, GRADIENT);
    (void)ctx;
    size_t spent = fli_start_gradient(w, t, g);
    fli_copy(&w->model->space, t->problem.start, t->z);
    t->answer = (fli_answer){.z = t->z, .gradient = g, .steps = spent};
    return FL_OK;
}

static fl_status sgd_task(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    void *g = fli_task_vector(t, GRADIENT);
    (void)ctx;
    size_t spent = fli_start_gradient(w, t, g);
    fli_sgd_train(w, t, NULL);
    t->answer.gradient = g;
    t->answer.steps += spent;
    return FL_OK;
}

static void solve_gradient(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, gradient_task);
}

static void solve_sgd(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, sgd_task);
}

/* Without `augments`: a correction by this gradient would be off by what augmentation changes of it. Beside SGD the
 * method has it for a direction only. */
const fli_solver fli_solver_gradient = {
    .name = "gradient", .answers = ANSWERS, .full_gradient = 1, .solve = solve_gradient, FLI_WORKER_INSTANCE};

const fli_solver fli_solver_sgd_gradient = {.name = "sgd-gradient",
                                            .answers = ANSWERS,
                                            .augments = 1,
                                            .full_gradient = 1,
                                            .counts_steps = 1,
                                            .solve = solve_sgd,
                                            FLI_WORKER_INSTANCE};
