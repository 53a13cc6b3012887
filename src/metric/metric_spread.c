/* How unequally the clients are served: the standard deviation over clients of the accuracy of the model that each of
 * them uses. Clients count alike, however many samples they have, and they are all there are: the divisor is their
 * number. */
#include "metric/metric_list.h"

#include <math.h>

static int wants_own(const fli_metrics_settings *what, const fli_model *model) { return (void)model, what->local; }

/* Two passes: the accuracies of clients that are served equally differ in their last digits only. */
static double spread(fli_moment *m)
{
    fli_sorted a = m->own_accuracies;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < a.n; i++) mean += a.v[i] / (double)a.n;
    for (size_t i = 0; i < a.n; i++) squares += (a.v[i] - mean) * (a.v[i] - mean);
    return a.n ? sqrt(squares / (double)a.n) : NAN;
}

const fli_metric fli_metric_local_std = {
    .is = {.name = "local_std",
           .title = "own models' accuracy, standard deviation over clients",
           .help = "standard deviation over clients of the accuracy of each client's own model on its own test part "
                   "(`metrics.local`): 0 where all are served alike",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"local/std"},
                     [FL_VIEW_CHART] = {"local-std"},
                     [FL_VIEW_NOTE] = {"the clients' own models: deviation", 1},
                     [FL_VIEW_STUDY] = {"own acc. deviation %"},
                     [FL_VIEW_STUDY_FILES] = {"local_std"},
                     [FL_VIEW_PAPER] = {"deviation"}}},
    .measure = spread,
    .wanted = wants_own,
    .asks = FLI_FIGURES_OWN,
};
