/* FedDR: Douglas-Rachford splitting for the composite problem F = (1/n) sum f_i + g.
 *
 *   client   y_i <- y_i + alpha (xbar - x_i)
 *            x_i ~ prox_{eta f_i}(y_i): minimises f_i(z) + 1/(2 eta) ||z - y_i||^2 from the previous x_i
 *            rho = 1/eta, anchor = y_i, start = x_i (warm);  up: the change of xh_i = 2 x_i - y_i
 *   server   xt <- xt + (1/n) sum_S (change of xh_i);  xbar = prox_{eta g}(xt)
 *
 *   start    y_i = x0. lazy: x_i = xh_i = xt = x0, no extra round. exact: x_i = prox(y_i) on every client before round 1, xt the
 *            mean of the xh_i, xbar = x0. Either way xt is the mean of all xh_i at all times.
 *
 *   theory   with exact local solutions, any cohorts with p_i > 0 and convex g: eta < (2 - alpha)/(2 L). That is (33) for gamma_4 = 0,
 *            whose 2 - alpha (L eta + 1) - 2 L^2 eta^2 > 0 factors into (2 - alpha - 2 L eta)(1 + L eta) > 0; the bound on alpha that
 *            is printed beside it excludes the alpha = 1 of Corollary 3.1, and alpha < 2 follows from eta > 0 anyway. Inexact
 *            solutions are covered while their squared errors are summable.
 *
 * Tran-Dinh, Pham, Phan, Nguyen: FedDR - randomized Douglas-Rachford splitting algorithms for nonconvex federated composite
 * optimization, NeurIPS 2021. The paper's text writes the server step once with xbar where it means xt. */
#include "algo/list.h"
#include "algo/dr.h"

static const fli_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "1.95", FLI_ABOVE_0, 2, "relaxation; theory wants it below 2"),
    FLI_KEY_END,
};

static void check(const void *params, const fli_facts *f, fli_conditions *out)
{
    const fli_dr_params *p = params;
    double most = f->probability > 0 ? (2 - p->alpha) / (2 * f->smoothness) : 0;
    fli_condition(out, "(33)",
                  p->solver ? "eta < (2 - alpha)/(2 L_i), p_i > 0"
                            : "eta < (2 - alpha)/(2 L_i), p_i > 0, and the squared errors of the local solver summable",
                  f, p->eta, most);
}

static void advise(const void *params, const fli_facts *worst, fli_text *out)
{
    (void)params;
    fli_text_addf(out, "algorithm.alpha = 1, algorithm.eta = %.4g (Corollary 3.1: 1/(3 L))",
                  1 / (3 * worst->smoothness));
}

const fli_algo fli_algo_feddr = {
    .name = "feddr",
    .title = "Douglas-Rachford splitting for composite problems, with sampling",
    .citation = "Tran-Dinh et al., NeurIPS 2021",
    .traits = FLI_ALGO_UNIFORM | FLI_ALGO_COMPOSITE | FLI_ALGO_INITIAL,
    .keys = keys,
    FLI_DR_PARTS,
    .check = check,
    .advise = advise,
};
