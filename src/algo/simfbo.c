/* SimFBO: bilevel optimisation in a single loop. Lower level, linear system and upper level move together, and a round
 * is one exchange.
 *
 *   problem  min_x sum p_i f_i(x, y*(x)),  y*(x) = argmin_y sum p_i g_i(x, y);  v stands for (d2 g/dydy)^-1 grad_y f
 *   client   Q_i steps from (x, y, v), all directions at the values before the step:
 *            y <- y - lr_y a_k grad_y g_i;  v <- v - lr_v a_k (g_yy v - grad_y f_i)
 *            x <- x - lr_x a_k (grad_x f_i - g_xy v);  up: q_y, q_v, q_x, the sums of a_k times the direction
 *            a_k = a_i^(t,k): coef_rounds[t] coef[k] coef_decay^k, with a coef for each client if coef_steps says so
 *   server   pt_i = (N/m) p_i:  y <- y - server_lr_y sum pt_i q_y;  x <- x - server_lr_x sum pt_i q_x;
 *            v <- P_r(v - server_lr_v sum pt_i q_v),  P_r(v) = min(1, r/||v||) v,  r = L_f/mu_g
 *
 *   theory   with unequal ||a_i||_1 the fixed point is that of the problem with p_i replaced by weights proportional to
 *            p_i ||a_i||_1 (section B of the paper); ShroFBO corrects that
 *
 *   potential (37): Psi = Phi~(x) + K_1 ||y - y~*(x)||^2 + K_2 ||v - v~*(x)||^2, with these weights w_i in all of Phi~,
 *            y~* and v~*. K_1 contains L_2 and beta_gh, which are unknown here: it is computed for K_1 = K_2 = 1,
 *            for which theory promises nothing.
 *
 * Yang, Xiao, Ji: SimFBO: towards simple, flexible and communication-efficient federated bilevel learning, NeurIPS
 * 2023. A step uses one mini-batch of training samples, for grad_y g and both products, and one of validation samples;
 * the paper draws three. */
#include "algo/family_simfbo.h"
#include "algo/algo.h"

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_simfbo_upload(t, a, 1);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    fli_simfbo_step(s, 1);
    return 0;
}

static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out)
{
    fli_simfbo_check_all(0, p, all, out);
}

static const fl_part up[] = {FLI_FBO_UPLOADS, {NULL}};

/* ||a_i||_1. The factor coef_rounds is left out: it is the same for all clients. */
static double work(const void *params, size_t client, size_t steps) { return fli_simfbo_length(params, client, steps); }

const fl_method fli_algo_simfbo = {
    .name = "simfbo",
    .title = "bilevel: both levels and the linear system between them in one loop",
    .citation = "Yang, Xiao, Ji, NeurIPS 2023",
    FLI_FBO_PARTS,
    .theory.check_all = check_all,
    .levels = {FLI_FBO_V, work},
    .up = up,
    .answer = answer,
    .absorb = fli_simfbo_absorb,
    .advance = advance,
};
