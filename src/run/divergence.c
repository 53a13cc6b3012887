/* Runs whose loss grows instead of falling: said once, and ended before a night is spent on them. */
#include "metric/metric_list.h"
#include "run/run.h"

#include <math.h>

enum { FAR = 10 }; /* times the start: worth a word */

/* The loss that is watched: the training loss where it is measured. */
static double watched_loss(const fl_run *run, const fl_row *row)
{
    return fli_row_get(row, run->plan.settings.metrics.train ? &fli_metric_train_loss : &fli_metric_test_loss);
}

static fl_status diverged(fl_run *run, double loss, double start)
{
    const fli_algo *a = run->plan.algo;
    const char *which = run->plan.settings.metrics.train ? "training" : "test";
    if (!isfinite(loss) && !run->round)
        return fli_fail(run->ctx, FL_EDIVERGED,
                        "round 0: the %s loss of the start model is not finite, before anything was trained", which);
    if (!isfinite(loss))
        return fli_fail(run->ctx, FL_EDIVERGED, "round %zu: the %s loss is no longer finite; %s diverges, try %s",
                        run->round, which, a->name, fli_algo_remedy(a));
    return fli_fail(run->ctx, FL_EDIVERGED,
                    "round %zu: the %s loss is %.4g, which is %.3g times the %.4g it began with; %s diverges, try %s "
                    "(stop.diverged is %g)",
                    run->round, which, loss, loss / start, start, a->name, fli_algo_remedy(a),
                    run->plan.settings.stop.diverged);
}

/* A loss that climbs far above its start is said once, and ends the run where stop.diverged says so. A loss of 0 at the
 * start gives no measure: then only numbers that are not finite end it. */
fl_status fli_run_check_loss(fl_run *run)
{
    double most = run->plan.settings.stop.diverged, loss = watched_loss(run, &run->now);
    double start = watched_loss(run, &run->rows[0]);
    if (!fli_measure_heard(run->measure)) return FL_OK;
    if (run->plan.regularizer && run->row_count > 1) /* where it begins a constraint may not hold yet */
        start = fmax(start, watched_loss(run, &run->rows[1]));
    int measured = run->plan.settings.metrics.train || (run->row_count > 1 && !isnan(start));
    if (isinf(loss) || (isnan(loss) && measured)) return diverged(run, loss, start);
    if (!(start > 0)) return FL_OK;
    if (most > 0 && loss > most * start) return diverged(run, loss, start);
    if (!(loss > FAR * start)) return FL_OK;
    if (!run->climbing)
        fli_log(run->ctx, FL_LOG_WARNING, "round %zu: the loss is %.4g, %.3g times what it began with; %s may need %s",
                run->round, loss, loss / start, run->plan.algo->name, fli_algo_remedy(run->plan.algo));
    run->climbing = 1;
    return FL_OK;
}

/* Features of very different sizes leave no step that suits them: that is not the method's fault. */
fl_status fli_run_explain(fl_run *run)
{
    enum { LARGE = 10000 };
    double largest;
    if (!fli_fed_magnitude(run->ctx, run->plan.fed, &largest) && largest > LARGE)
        fli_fail_also(run->ctx, FL_EDIVERGED,
                      "features are as large as %.3g: data.normalize, for instance unit or standard, scales them",
                      largest);
    return FL_EDIVERGED;
}
