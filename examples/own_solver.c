/* A local solver of one's own: clients minimise their part of FedProx's objective by gradient steps that are as long as
 * a line search finds good, instead of SGD with a step size that somebody has to tune.
 *
 *     cc own_solver.c $(pkg-config --cflags --libs fedloom) -o own_solver && ./own_solver */
#include <fedloom_extend.h>
#include <stdio.h>
#include <stdlib.h>

/* f_i(z) + <shift, z> + rho/2 ||z - anchor||^2 and its gradient; nonzero: the objective failed. */
static int whole(const fl_local *l, const fl_problem *p, const double *z, double *g, double *value)
{
    const double *shift = p->shift, *anchor = p->anchor;
    if (fl_local_loss(l, z, g, value)) return 1;
    for (size_t i = 0; i < l->space.n; i++) {
        double away = anchor ? z[i] - anchor[i] : 0;
        *value += (shift ? shift[i] * z[i] : 0) + p->rho / 2 * away * away;
        g[i] += (shift ? shift[i] : 0) + p->rho * away;
    }
    return 0;
}

/* Armijo: the step is halved until the objective falls enough, and doubled after every step. */
static int descend(const fl_local *l, const fl_problem *p, double *z, double *room, fl_solution *out)
{
    size_t n = l->space.n;
    double *g = room, *next = room + n, *next_g = room + 2 * n, value, next_value, step = 1;
    if (whole(l, p, z, g, &value)) return 1;
    out->steps = 1;
    for (size_t k = 0; k < p->steps; k++, step *= 2) {
        double square = fl_vec_dot(&l->space, g, g);
        for (int tries = 0; tries < 40; tries++, step /= 2) {
            fl_vec_lin(&l->space, 1, z, -step, g, next);
            if (whole(l, p, next, next_g, &next_value)) return 1;
            out->steps++;
            if (next_value <= value - step / 2 * square) break;
        }
        fl_vec_copy(&l->space, next, z);
        fl_vec_copy(&l->space, next_g, g);
        value = next_value;
    }
    return 0;
}

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *failure)
{
    (void)arg;
    if (l->space.real != sizeof(double)) {
        fl_failed(failure, "this solver is written for precision: f64");
        return 1;
    }
    double *room = malloc(3 * l->space.n * sizeof *room);
    if (!room) fl_failed(failure, "out of memory");
    int failed = !room || descend(l, p, z, room, out);
    free(room);
    return failed;
}

static const char settings[] = "data: {kind: synthetic, clients: 20, alpha: 1, beta: 1}\n"
                               "model: softmax\n"
                               "precision: f64\n"
                               "rounds: 20\n"
                               "algorithm: {kind: fedprox, mu: 0.1}\n"
                               "local: {steps: 10, batch: 0, lr: 0.05}\n";

static double train(fl_ctx *ctx, const char *solver)
{
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    double loss = -1;
    if (cfg && !fl_config_text(cfg, settings, NULL) && !fl_config_set(cfg, solver) && !fl_run_new(cfg, &run) &&
        !fl_run_go(run, NULL, NULL))
        loss = fl_row_get(fl_run_row(run), "train_loss");
    else
        fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    printf("%-22s training loss %.4f\n", solver, loss);
    fl_run_free(run);
    fl_config_free(cfg);
    return loss;
}

int main(void)
{
    fl_solver mine = {.size = sizeof mine, .name = "armijo", .title = "gradient steps by line search", .solve = solve};
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx || fl_solver_register(ctx, &mine)) return 1;
    double sgd = train(ctx, "local.solver=sgd"), armijo = train(ctx, "local.solver=armijo");
    fl_ctx_free(ctx);
    return armijo > 0 && armijo < sgd ? 0 : 1;
}
