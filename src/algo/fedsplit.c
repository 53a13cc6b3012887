/* FedSplit: Peaceman-Rachford splitting, FedDR's relative with alpha = 2, g = 0 and everyone taking part.
 *
 *   client   y_i <- y_i + 2 (xbar - x_i);  x_i ~ prox_{eta f_i}(y_i);  up: the change of 2 x_i - y_i
 *   server   xbar <- xbar + (1/n) sum (change of 2 x_i - y_i)
 *
 *   theory   f_i convex. Where they are strongly convex too, the reflection 2 prox_{eta f_i} - 1 is a contraction by
 *            the larger of |1 - eta L|/(1 + eta L) and |1 - eta mu|/(1 + eta mu), and the error falls linearly, for any
 *            eta > 0; best is eta = 1/sqrt(mu L). Errors of the local solver leave an error of the same size.
 *
 * Pathak, Wainwright: FedSplit: an algorithmic framework for fast federated optimization, NeurIPS 2020. */
#include "algo/algo.h"
#include "algo/family_dr.h"

static const fl_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "2", 2, 2, "relaxation; always 2"),
    FLI_KEY_END,
};

static void check(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_dr_params *p = params;
    fl_requirement(out, "convexity", "f_i convex; any eta > 0 will do", f, f->convex);
    fli_ask_strong_convexity(out, f);
    if (p->solver != FLI_DR_EXACT)
        fl_assumption(out, "prox",
                      "local solutions are as accurate as the result should be: their errors remain in it");
    fli_dr_assume(p, f, out);
}

static void fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    fli_dr_fix_steps(worst, out);
    fli_dr_fix_auto(params, worst, out);
}

static void warn(const void *params, const fl_facts *f, fli_text *out)
{
    (void)params;
    if (!f->convex)
        fli_text_add(out, "which needs convex objectives: the model is not convex, and it may not converge; feddr does "
                          "not need that");
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.eta", 0.1, 1000, 1}, {NULL}};

const fl_method fli_algo_fedsplit = {
    .name = "fedsplit",
    .title = "Peaceman-Rachford splitting with everyone taking part",
    .citation = "Pathak and Wainwright, NeurIPS 2020",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_UNIFORM,
    .tune = tune,
    .keys = keys,
    FLI_DR_PARTS,
    .answer = fli_dr_answer,
    .theory.check = check,
    .theory.fix = fix,
    .theory.warn = warn,
};
