/* FedCPSL: a personalised model per client, few labels, uneven clients. The global model learns from labelled and
 * unlabelled samples with variance reduction and momentum; beside it each client trains a model of its own, and
 * predicts with a mixture of the two.
 *
 *   client   nu_i, pseudo labels at x, by the solver, if `semi` says so
 *            x_i = Q_i momentum steps on f_i(z, nu_i) + <c - c_i, z> from x                 shift = c - c_i
 *            own_i: as many on F_i(own, z, nu_i), f_i of mix h(own) + (1 - mix) h(z)        own_start = own_i, kept
 *            c_i and the upload (x_i - x, Qt_i): as in family_control_variates.h; one vector, although there are
 *            control variates
 *   server   as in family_control_variates.h
 *
 * own_i starts at the start model. The paper's theta is x, theta_lc own_i, eta lr, eta_c lr_local (eta_lc in its
 * experiments, where it is 2 eta), eta_g server_lr, gamma the local momentum, beta_i mix_i. Two choices of mix are not
 * in the paper. `mix: auto` is described in solver/sgd_personal.c; the paper's Remark 5 leaves that choice open.
 * `mix: dissimilarity` interprets its Remark 1, that beta_i should depend on how much the client differs from the
 * others: c_i is its mean gradient and c that of all clients, and
 *     mix_i = ||c_i - c|| / (||c_i - c|| + ||c||),   0.75 while both are 0
 * grows to 1 if clients differ and the federation as a whole has converged.
 *
 * Theorem 2 leaves an error because x and nu_i move while own_i is trained. Remark 3 removes it by rounds for own_i
 * alone, after the others have converged: after `freeze_after` rounds x is no longer trained, so clients upload
 * nothing, and nu_i stays at its value for x (with projected steps: at their limit).
 *
 * Wang, Xu, Yuan, Quek: Towards fast personalized semi-supervised federated learning in edge networks. */
#include "algo/family_control_variates.h"
#include "algo/algo.h"
#include "algo/family_personal.h"

#include <math.h>

enum { OWN = FLI_CONTROL_CLIENT };
enum { MIX };                 /* client scalar */
enum { OWN_LR = 2 };          /* times lr, unless lr_local says otherwise */
enum { AUTO, DISSIMILARITY }; /* words of mix */

typedef struct {
    fli_personal_params own;
    double server_lr;
    int64_t freeze_after;
} params;

static const fl_key keys[] = {
    FLI_OWN_KEYS(params, own, "auto|dissimilarity", "; dissimilarity: ||c_i - c||/(||c_i - c|| + ||c||)",
                 "twice local.lr"),
    FLI_CONTROL_SERVER_LR(params),
    FLI_KEY_INT(params, freeze_after, "0", 0, 1e9,
                "rounds after which the global model no longer changes and clients train their "
                "own models alone, so that nothing is sent up; 0: never"),
    FLI_KEY_END};

static const char *const client[] = {"c_i", "own_i", NULL};
static const fl_part down[] = {
    {"x", FL_PART_VECTOR, FLI_CONTROL_X}, {"c", FL_PART_VECTOR, FLI_CONTROL_C}, FLI_START_PART, {NULL}};
static const fl_part up[] = {FLI_CONTROL_UPLOADS, {NULL}};

static int frozen(const params *a, uint64_t round) { return a->freeze_after && round >= (uint64_t)a->freeze_after; }

static int exchanges(const void *p, size_t round, double coin) { return (void)coin, !frozen(p, round); }

/* The shift is c - c_i. */
static double dissimilarity(const fl_turn *t, const void *shift)
{
    const void *c = t->down[FLI_CONTROL_C];
    double apart = sqrt(fli_dot(&t->space, shift, shift)), mean = sqrt(fli_dot(&t->space, c, c));
    return apart + mean > 0 ? apart / (apart + mean) : FLI_FIRST_MIX;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    fli_control_pose(t, p);
    fli_personal_pose(&a->own, t, OWN, OWN_LR, p);
    if (!a->own.mix.n && a->own.mix.word == DISSIMILARITY) p->pair.mix = dissimilarity(t, p->shift);
    if (frozen(a, t->ask.round)) p->lr = 0; /* z stays at x */
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    if (!frozen(t->bound, t->ask.round)) fli_control_answer(t, a, NULL);
    fli_personal_answer(t, a, OWN, MIX);
    return 0;
}

static double mix(const void *p, size_t i, const double *scalars)
{
    return fli_personal_mix(&((const params *)p)->own, i, scalars);
}

static void check(const void *p, const fl_facts *f, fl_conditions *out) { (void)p, fli_control_check(f, out); }

/* Whether Theorem 2 covers these own models. Its D_0 = sum w_i (1 - mix_i) (5 L/4 + mix_i L~ L_h Gamma) and its errors
 * (d), (e) contain L~, the smoothness of the loss in the outputs h; cross-entropy has none, since its slope 1/h is not
 * bounded. L~ is not needed for mix_i = 0 and, without pseudo labels, for mix_i = 1. Then L_F is L: F_i is f_i of one
 * model. */
static int covered(const params *a, const fl_facts_all *all)
{
    int all_are = 1;
    for (size_t i = 0; i < all->count; i++) {
        double mix = fli_personal_mix(&a->own, all->each[i].client, NULL);
        all_are &= mix == 0 || (mix == 1 && !all->each[i].second_block);
    }
    return all_are;
}

/* The additional conditions of Theorem 2. (38) holds for D_0 <= 5 (1 - mix) L/4; with L_F = L the second bound of (37)
 * equals the third. The third has lr where its proof, (130) and (132), has lr server_lr: both are required. */
static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out)
{
    const params *a = p;
    fli_control_terms t = fli_control_terms_of(a->server_lr, all);
    double lr = a->own.lr_local > 0 ? a->own.lr_local : OWN_LR * all->lr, least = 1;
    fli_control_check_all(a->server_lr, all, out);
    if (!a->own.mix.n && a->own.mix.word == AUTO)
        fl_requirement(out, "mix", "f_i is of all labelled samples: algorithm.mix is not auto, which holds some out",
                       NULL, 0);
    if (a->freeze_after)
        fl_not_covered(out, "freeze_after",
                       "the rounds after algorithm.freeze_after, in which the global model does not change (Remark 3)");
    if (!covered(a, all)) {
        fl_not_covered(
            out, "Theorem 2",
            "the own models: it asks for a loss that is smooth in the outputs (L~), and cross-entropy is not; "
            "it covers mix = 0 and, without pseudo labels, mix = 1 alone");
        return;
    }
    for (size_t i = 0; i < all->count; i++) least = fmin(least, fli_personal_mix(&a->own, all->each[i].client, NULL));
    if (least < 1)
        fl_condition(out, "(36) second", "lr <= m/(48 server_lr N D_0), D_0 <= 5 (1 - mix) L/4", NULL, all->lr,
                     t.share / (48 * t.most_rate * 1.25 * (1 - least) * t.l));
    fl_condition(out, "(37) first", "lr_local <= 1/(2 Qt L_F), both the largest; L_F = L", NULL, lr,
                 1 / (2 * t.qt * t.l));
    fl_condition(out, "(37) third", "lr_local <= lr min(1, server_lr) N/(m Qt), with the smallest Qt", NULL, lr,
                 all->least_lr * fmin(1, t.least_rate) / (t.share * t.least_qt));
}

static void promise(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    const params *a = p;
    fli_control_promise(a->server_lr, all, start, out);
    if (a->freeze_after) out->missing = "the global model does not change after algorithm.freeze_after rounds";
}

static void fix(const void *p, const fl_facts *worst, fl_fixes *out)
{
    double own = ((const params *)p)->own.lr_local;
    fli_control_fix(p, worst, out);
    fl_fix_word(out, "mix", "algorithm.mix", "0.75", NULL);
    fl_fix_shrink(out, "(37)", "algorithm.lr_local", own > 0 ? own : OWN_LR * worst->base_lr, NULL);
}

/* (33): ||grad f(x, nu)||^2 + 31 L/64 sum w_i ||nu_i+ - nu_i||^2 */
static double gap(double slope, double moves, double block_slopes, double smoothness)
{
    (void)block_slopes;
    return slope + 31 * smoothness / 64 * moves;
}

static int advance(const fl_coordinator *s)
{
    fli_control_advance(s, ((const params *)s->bound)->server_lr);
    return 0;
}

const fl_method fli_algo_fedcpsl = {
    .name = "fedcpsl",
    .title = "personalised and semi-supervised, with momentum and variance reduction",
    .citation = "Wang et al., Towards fast personalized semi-supervised federated learning in edge networks",
    .traits = FL_METHOD_BLOCKS,
    .keys = keys,
    .params_size = sizeof(params),
    FLI_CONTROL_PARTS,
    .client = client,
    .own_model = "own_i",
    .personal.mix = mix,
    .client_scalars = 1,
    .down = down,
    .up = up,
    .personal.remedy = "a smaller algorithm.lr_local",
    .solver = "pair",
    .theory.check = check,
    .theory.check_all = check_all,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.gap = {.name = "G of (33)", .smooth = 1, .value = gap},
    .rounds.exchanges = exchanges,
    .pose = pose,
    .answer = answer,
    .absorb = fli_control_absorb,
    .advance = advance,
};
