/* ShroFBO: SimFBO for clients that do unequal work. A client divides its upload by the total weight of its steps, and
 * the server multiplies by the average weight, so that clients do not count for more because they take more steps.
 *
 *   client   as SimFBO;  up: q_y/||a_i||_1, q_v/||a_i||_1, q_x/||a_i||_1, and the number ||a_i||_1 = sum_k a_k
 *   server   rho = sum_S pt_i ||a_i||_1;  as SimFBO with rho times the step sizes
 *
 *   theory   converges to the solution of the problem with the true p_i
 *
 *   potential as SimFBO's, with w_i = p_i
 *
 * Yang, Xiao, Ji: SimFBO: towards simple, flexible and communication-efficient federated bilevel learning, NeurIPS
 * 2023. */
#include "algo/family_simfbo.h"
#include "algo/algo.h"

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_simfbo_upload(t, a, 1 / a->weight);
    t->up_scalars[FLI_FBO_NORM] = a->weight;
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_simfbo_absorb(s, t);
    /* rho += pt_i ||a_i||_1 */
    s->scalar_sum[FLI_FBO_RHO] += (double)s->clients / (double)s->cohort * t->ask.weight * t->up_scalars[FLI_FBO_NORM];
    return 0;
}

static int advance(const fl_coordinator *s)
{
    fli_simfbo_step(s, s->scalar_sum[FLI_FBO_RHO]);
    return 0;
}

static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out)
{
    fli_simfbo_check_all(1, p, all, out);
}

static const fl_part up[] = {FLI_FBO_UPLOADS, {"||a_i||_1", FL_PART_NUMBER, FLI_FBO_NORM, FL_PART_VALUE}, {NULL}};

const fl_method fli_algo_shrofbo = {
    .name = "shrofbo",
    .title = "SimFBO that stays right when clients do unequal work",
    .citation = "Yang, Xiao, Ji, NeurIPS 2023",
    FLI_FBO_PARTS,
    .theory.check_all = check_all,
    .levels.v = FLI_FBO_V,
    .up = up,
    .scalar_sums = FLI_FBO_SCALAR_SUMS,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
