/* From rows to curves: which quantities there are, and mean and spread over the runs of a series. */
#include "report/report.h"

#include <math.h>

static double value(const fl_row *row, const fli_quantity *q)
{
    const char *at = (const char *)row + q->offset;
    return q->whole ? (double)*(const size_t *)at : *(const double *)at;
}

/* Mean and spread of row `i` over the runs that have it. Two passes: the values of converged runs differ in their
 * last digits only. */
static fli_point point_at(const fli_series *s, const fli_quantity *x, const fli_quantity *y, size_t i)
{
    fli_point p = {.row = i};
    double squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < s->count; k++) {
            if (i >= s->curves[k].count) continue;
            double u = value(&s->curves[k].rows[i], x), v = value(&s->curves[k].rows[i], y);
            if (!isfinite(u) || !isfinite(v)) continue;
            if (pass == 0) {
                p.n++;
                p.x += (u - p.x) / (double)p.n;
                p.mean += v / (double)p.n - p.mean / (double)p.n;
            } else {
                squares += (v - p.mean) * (v - p.mean);
            }
        }
    }
    double spread = p.n > 1 ? sqrt(squares / (double)(p.n - 1)) : 0;
    if (!isfinite(spread)) spread = 0; /* a run on its way to infinity: the square overflowed before the value did */
    p.low = p.mean - spread;
    p.high = p.mean + spread;
    return p;
}

static size_t longest(const fli_series *s)
{
    size_t n = 0;
    for (size_t k = 0; k < s->count; k++)
        if (s->curves[k].count > n) n = s->curves[k].count;
    return n;
}

fl_status fli_series_points(fl_ctx *ctx, const fli_series *s, const fli_quantity *x, const fli_quantity *y,
                            fli_point **points, size_t *count)
{
    size_t rows = longest(s), n = 0;
    *points = NULL;
    *count = 0;
    fli_point *p = fli_alloc(ctx, rows, sizeof *p);
    if (!p) return FL_ENOMEM;
    for (size_t i = 0; i < rows; i++) {
        fli_point at = point_at(s, x, y, i);
        /* where a run has ended, the mean place of the others may lie before the last point: a curve does not turn back */
        int back = n > 0 && at.x < p[n - 1].x;
        if (at.n > 0 && !back) p[n++] = at;
    }
    *points = p;
    *count = n;
    return FL_OK;
}

/* Whether a row says something by q. Communications are interesting where they are more than rounds. */
static int tells(const fl_row *row, const fli_quantity *q)
{
    double v = value(row, q);
    return isfinite(v) && (q->offset != offsetof(fl_row, communications) || v > (double)row->round);
}

int fli_report_has(const fli_report *r, const fli_quantity *q)
{
    for (size_t k = 0; k < r->count; k++)
        for (size_t c = 0; c < r->series[k].count; c++)
            for (size_t i = 0; i < r->series[k].curves[c].count; i++)
                if (tells(&r->series[k].curves[c].rows[i], q)) return 1;
    return 0;
}

#define DOUBLE(field) offsetof(fl_row, field), 0
#define WHOLE(field)  offsetof(fl_row, field), 1

const fli_quantity fli_y_list[] = {
    {"test-accuracy", "test accuracy", DOUBLE(test_accuracy), FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"train-loss", "training loss", DOUBLE(train_loss), FLI_SCALE_LOG, FLI_UNIT_NONE},
    {"test-loss", "test loss", DOUBLE(test_loss), FLI_SCALE_WIDE, FLI_UNIT_NONE},
    {"gradient", "squared gradient norm", DOUBLE(gradient2), FLI_SCALE_LOG, FLI_UNIT_NONE},
    {"train-accuracy", "training accuracy", DOUBLE(train_accuracy), FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"local-test-accuracy", "test accuracy of the clients' own models", DOUBLE(local_test_accuracy), FLI_SCALE_LINEAR,
     FLI_UNIT_SHARE},
    {"local-test-loss", "test loss of the clients' own models", DOUBLE(local_test_loss), FLI_SCALE_WIDE, FLI_UNIT_NONE},
    {"local-train-loss", "training loss of the clients' own models", DOUBLE(local_train_loss), FLI_SCALE_LOG,
     FLI_UNIT_NONE},
    {"local-train-accuracy", "training accuracy of the clients' own models", DOUBLE(local_train_accuracy),
     FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"client-accuracy", "client accuracy, median", DOUBLE(client_q50), FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"client-accuracy-q10", "client accuracy, 10% quantile", DOUBLE(client_q10), FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"regularizer", "regulariser g(x)", DOUBLE(regularizer), FLI_SCALE_WIDE, FLI_UNIT_NONE},
    {"local-worst", "own models' accuracy, worst tenth of the clients", DOUBLE(local_worst), FLI_SCALE_LINEAR,
     FLI_UNIT_SHARE},
    {"pseudo-accuracy", "accuracy of the pseudo labels", DOUBLE(pseudo_accuracy), FLI_SCALE_LINEAR, FLI_UNIT_SHARE},
    {"staleness", "staleness of uploads, mean", DOUBLE(staleness), FLI_SCALE_LINEAR, FLI_UNIT_NONE},
    {"cluster-accuracy", "clusters matched with classes: accuracy", DOUBLE(cluster_accuracy), FLI_SCALE_LINEAR,
     FLI_UNIT_SHARE},
    {"cluster-nmi", "clusters and classes: normalised mutual information", DOUBLE(cluster_nmi), FLI_SCALE_LINEAR,
     FLI_UNIT_NONE},
    {NULL, NULL, 0, 0, FLI_SCALE_LINEAR, FLI_UNIT_NONE},
};

const fli_quantity fli_x_list[] = {
    {"rounds", "rounds", WHOLE(round), FLI_SCALE_LINEAR, FLI_UNIT_NONE},
    {"bytes", "uploaded by all clients", DOUBLE(bytes_up), FLI_SCALE_LINEAR, FLI_UNIT_BYTES},
    {"seconds", "time", DOUBLE(seconds), FLI_SCALE_LINEAR, FLI_UNIT_SECONDS},
    {"simulated", "simulated time", DOUBLE(simulated_seconds), FLI_SCALE_LINEAR, FLI_UNIT_SECONDS},
    {"communications", "communications", DOUBLE(communications), FLI_SCALE_LINEAR, FLI_UNIT_NONE},
    {NULL, NULL, 0, 0, FLI_SCALE_LINEAR, FLI_UNIT_NONE},
};
