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
 * Tran-Dinh, Pham, Phan, Nguyen: FedDR - randomized Douglas-Rachford splitting algorithms for nonconvex federated composite
 * optimization, NeurIPS 2021. The paper's text writes the server step once with xbar where it means xt. */
#include "algo/list.h"
#include "algo/dr.h"

static const fli_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "1.95", FLI_ABOVE_0, 2, "relaxation; theory wants it below 2"),
    FLI_KEY_END,
};

const fli_algo fli_algo_feddr = {
    .name = "feddr",
    .title = "Douglas-Rachford splitting for composite problems, with sampling",
    .citation = "Tran-Dinh et al., NeurIPS 2021",
    .traits = FLI_ALGO_UNIFORM | FLI_ALGO_COMPOSITE | FLI_ALGO_INITIAL,
    .keys = keys,
    FLI_DR_PARTS,
};
