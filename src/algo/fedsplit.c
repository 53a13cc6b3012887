/* FedSplit: Peaceman-Rachford splitting, FedDR's relative with alpha = 2, g = 0 and everyone taking part.
 *
 *   client   y_i <- y_i + 2 (xbar - x_i);  x_i ~ prox_{eta f_i}(y_i);  up: the change of 2 x_i - y_i
 *   server   xbar <- xbar + (1/n) sum (change of 2 x_i - y_i)
 *
 * Pathak, Wainwright: FedSplit: an algorithmic framework for fast federated optimization, NeurIPS 2020. It needs convexity. */
#include "algo/list.h"
#include "algo/dr.h"

static const fli_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "2", 2, 2, "relaxation; always 2"),
    FLI_KEY_END,
};

static void warn(const void *params, const fli_facts *f, fli_text *out)
{
    (void)params;
    if (!f->convex)
        fli_text_add(out, "which needs convex objectives: the model is not convex, and it may not converge; feddr does "
                          "not need that");
}

const fli_algo fli_algo_fedsplit = {
    .name = "fedsplit",
    .title = "Peaceman-Rachford splitting with everyone taking part",
    .citation = "Pathak and Wainwright, NeurIPS 2020",
    .traits = FLI_ALGO_EVERYONE | FLI_ALGO_UNIFORM | FLI_ALGO_INITIAL,
    .keys = keys,
    FLI_DR_PARTS,
    .warn = warn,
};
