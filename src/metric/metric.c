/* The list of all metrics, rows of their values, the sums over clients that most of them use, and the metrics of
 * registered objectives. The metrics themselves are in global_rows.c, client_rows.c and clusters.c. */
#include "metric/metric.h"

#include "base/number.h"
#include "base/user_registry.h"
#include "model/user_objective.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ==== rows, views, directions ============================================================================== */

/* ---- the list --------------------------------------------------------------------------------------------- */

const fl_metric *fl_metric_at(size_t k)
{
    const fli_metric *m = fli_metric_at(k);
    return m ? &m->is : NULL;
}

const fl_metric *fl_metric_find(const char *name)
{
    const fl_metric *m = NULL;
    for (size_t k = 0; name && (m = fl_metric_at(k)) && strcmp(m->name, name);) k++;
    return m;
}

size_t fl_metric_place(const fl_metric *metric)
{
    size_t k = 0;
    while (fli_metrics[k] && &fli_metrics[k]->is != metric) k++; /* the common case; rows are read often */
    if (fli_metrics[k]) return k;
    for (const fl_metric *m; (m = fl_metric_at(k)) && m != metric;) k++;
    return k;
}

static int order_in(const fl_metric *m, fl_view view)
{
    return m->shown[view].order ? m->shown[view].order : FL_ORDER_MIDDLE;
}

/* Whether list entry a comes before b in a view. */
static int before(size_t a, size_t b, fl_view view)
{
    int first = order_in(fl_metric_at(a), view), second = order_in(fl_metric_at(b), view);
    return first < second || (first == second && a < b);
}

const fl_metric *fl_metric_shown(fl_view view, size_t k)
{
    const fl_metric *m, *other;
    if ((unsigned)view >= FL_VIEWS) return NULL;
    for (size_t i = 0; (m = fl_metric_at(i)); i++) {
        size_t earlier = 0;
        if (!m->shown[view].label) continue;
        for (size_t j = 0; (other = fl_metric_at(j)); j++) earlier += other->shown[view].label && before(j, i, view);
        if (earlier == k) return m;
    }
    return NULL;
}

/* ---- directions ------------------------------------------------------------------------------------------- */

int fl_metric_beats(const fl_metric *metric, double a, double b)
{
    return metric->better == FL_BETTER_HIGH ? a > b : metric->better == FL_BETTER_LOW ? a < b : 0;
}

int fli_metric_reaches(const fli_metric *metric, double v, double wished)
{
    return v == wished || fl_metric_beats(&metric->is, v, wished);
}

const fli_metric *fli_metric_goal(const fli_metrics_settings *what)
{
    return what->goal == FLI_GOAL_LOCAL ? &fli_metric_local_test_accuracy : &fli_metric_test_accuracy;
}

/* ---- rows ------------------------------------------------------------------------------------------------- */

double fl_row_value(const fl_row *row, const fl_metric *metric)
{
    size_t k = row && metric ? fl_metric_place(metric) : FL_METRICS_MAX;
    return k < FL_METRICS_MAX && fl_metric_at(k) ? row->value[k] : NAN;
}

double fl_row_get(const fl_row *row, const char *name) { return fl_row_value(row, fl_metric_find(name)); }
double fli_row_get(const fl_row *row, const fli_metric *metric) { return fl_row_value(row, &metric->is); }

/* A row read from a file may have any value. */
size_t fl_row_round(const fl_row *row)
{
    double v = fli_row_get(row, &fli_metric_round);
    return v >= 0x1p53 ? SIZE_MAX : v > 0 ? (size_t)v : 0;
}

void fli_row_count(fl_row *row, const fli_counts *c)
{
    for (size_t k = 0; fli_metrics[k]; k++)
        if (fli_metrics[k]->count) row->value[k] = *(const double *)((const char *)c + fli_metrics[k]->count - 1);
}

int fli_metric_wanted(const fli_metric *metric, const fli_metrics_settings *what, const fli_model *model)
{
    for (size_t i = 0; i < 2; i++)
        if (metric->wanted[i] && !*(const int *)((const char *)what + metric->wanted[i])) return 0;
    return !metric->fits || metric->fits(what, model);
}

/* ==== the list ============================================================================================= */

/* In the order of the columns of metrics.csv: new ones come last. */

/* clang-format off */
const fli_metric *const fli_metrics[] = {
    &fli_metric_round,
    &fli_metric_cohort,
    &fli_metric_train_loss,
    &fli_metric_train_accuracy,
    &fli_metric_test_loss,
    &fli_metric_test_accuracy,
    &fli_metric_gradient2,
    &fli_metric_client_q10,
    &fli_metric_client_q50,
    &fli_metric_client_q90,
    &fli_metric_regularizer,
    &fli_metric_local_train_loss,
    &fli_metric_local_train_accuracy,
    &fli_metric_local_test_loss,
    &fli_metric_local_test_accuracy,
    &fli_metric_bytes_up,
    &fli_metric_bytes_down,
    &fli_metric_local_steps,
    &fli_metric_seconds,
    &fli_metric_simulated_seconds,
    &fli_metric_staleness,
    &fli_metric_staleness_max,
    &fli_metric_local_q10,
    &fli_metric_local_q50,
    &fli_metric_local_q90,
    &fli_metric_local_worst,
    &fli_metric_pseudo_accuracy,
    &fli_metric_cluster_accuracy,
    &fli_metric_cluster_nmi,
    &fli_metric_communications,
    &fli_metric_evaluation_bytes_up,
    &fli_metric_evaluation_bytes_down,
    &fli_metric_local_std,
    &fli_metric_labelled_loss,
    &fli_metric_labels_move,
    &fli_metric_hypergradient,
    &fli_metric_lower_distance,
    &fli_metric_system_distance,
    &fli_metric_gradient_mapping,
    &fli_metric_potential,
    &fli_metric_potential_rise,
    &fli_metric_idle,
    &fli_metric_idle_most,
    &fli_metric_weighted_hypergradient,
    &fli_metric_gap,
    &fli_metric_local_gradient2,
    NULL,
};
/* clang-format on */
size_t fli_metrics_count(void) { return sizeof fli_metrics / sizeof *fli_metrics - 1; }
_Static_assert(sizeof fli_metrics / sizeof *fli_metrics - 1 <= FL_METRICS_MAX, "a row has no room for all metrics");

/* ==== sums over clients ==================================================================================== */

/* Most metrics use these. */

double fli_measurement_sum(const fli_measurement *m, fli_term *term, size_t figure)
{
    double total = 0;
    for (size_t lane = 0; lane < FLI_LANES; lane++) {
        double sum = 0;
        for (size_t i = fli_lane_begin(lane, m->count); i < fli_lane_begin(lane + 1, m->count); i++)
            sum += term(&m->clients[i], figure);
        total += sum;
    }
    return total;
}

static int has(const fli_client_figures *f, size_t figure)
{
    int of_labels = figure >= FLI_FIGURE_LABELLED_LOSS && figure <= FLI_FIGURE_LABELS_SLOPE;
    unsigned what = of_labels || figure < FLI_FIGURE_TEST_LOSS ? FLI_HAS_TRAIN
                    : figure < FLI_FIGURE_OWN_TRAIN_LOSS       ? FLI_HAS_TEST
                                                               : FLI_HAS_OWN;
    return ((unsigned)f->num[FLI_FIGURE_HAS] & what) != 0;
}

/* fli_term: the weight of clients that have the figure. */
static double weight(const fli_client_figures *f, size_t figure) { return has(f, figure) ? f->weight : 0; }
static double weight_per_sample(const fli_client_figures *f, size_t figure)
{
    return has(f, figure) ? f->weight / f->num[FLI_FIGURE_TRAIN_N] : 0;
}
static double weighted(const fli_client_figures *f, size_t figure)
{
    return has(f, figure) ? f->weight * f->num[figure] : 0;
}
static double weighted_share(const fli_client_figures *f, size_t figure)
{
    return has(f, figure) ? f->weight * f->num[figure] / f->num[FLI_FIGURE_TRAIN_N] : 0;
}
static double samples(const fli_client_figures *f, size_t figure)
{
    return has(f, figure) ? f->num[FLI_FIGURE_TEST_N] : 0;
}
static double hits(const fli_client_figures *f, size_t figure) { return has(f, figure) ? f->num[figure] : 0; }
static double by_samples(const fli_client_figures *f, size_t figure)
{
    return has(f, figure) ? f->num[FLI_FIGURE_TEST_N] * f->num[figure] : 0;
}

static int classifies(const fli_measurement *m) { return m->model->desc->traits & FLI_MODEL_CLASSIFIER; }

double fli_train_weight(const fli_measurement *m) { return fli_measurement_sum(m, weight, FLI_FIGURE_TRAIN_LOSS); }

double fli_train_decay(const fli_measurement *m)
{
    int whole = m->model->decay_by == FLI_DECAY_AS_IT_IS;
    return fli_measurement_sum(m, whole ? weight : weight_per_sample, FLI_FIGURE_TRAIN_LOSS) * m->model->weight_decay;
}

double fli_weighted_mean(const fli_measurement *m, size_t figure)
{
    return fli_measurement_sum(m, weighted, figure) / fli_measurement_sum(m, weight, figure);
}

double fli_train_accuracy(const fli_measurement *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TRAIN_HITS : FLI_FIGURE_TRAIN_HITS;
    if (!classifies(m)) return NAN;
    return fli_measurement_sum(m, weighted_share, figure) / fli_measurement_sum(m, weight, figure);
}

double fli_test_loss(const fli_measurement *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TEST_LOSS : FLI_FIGURE_TEST_LOSS;
    if (!own && m->test_n > 0) return m->test_loss / m->test_n;
    double n = fli_measurement_sum(m, samples, figure);
    return n > 0 ? fli_measurement_sum(m, by_samples, figure) / n : NAN;
}

double fli_test_accuracy(const fli_measurement *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TEST_HITS : FLI_FIGURE_TEST_HITS;
    if (!classifies(m)) return NAN;
    if (!own && m->test_n > 0) return m->test_hits / m->test_n;
    double n = fli_measurement_sum(m, samples, figure);
    return n > 0 ? fli_measurement_sum(m, hits, figure) / n : NAN;
}

/* ==== metrics of users' objectives ========================================================================= */

/* Metrics of registered objectives follow the list, in the order in which their names were first registered. A name
 * keeps its index until the process ends, since rows are read by index. */

typedef struct {
    fli_metric metric;
    char name[64], event[72];
} slot;

static slot slots[FL_METRICS_MAX];
static atomic_size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const fli_metric *fli_metric_at(size_t k)
{
    size_t built_in = fli_metrics_count();
    if (k < built_in) return fli_metrics[k];
    return k - built_in < atomic_load(&used) ? &slots[k - built_in].metric : NULL;
}

/* Built-in metrics are found by their name, and by their name in charts. */
static int is_built_in(const char *name)
{
    for (size_t k = 0; fli_metrics[k]; k++) {
        const char *chart = fli_metrics[k]->is.shown[FL_VIEW_CHART].label;
        if (!strcmp(fli_metrics[k]->is.name, name) || (chart && !strcmp(chart, name))) return 1;
    }
    return 0;
}

static int is_there(const char *name)
{
    for (size_t i = 0; i < atomic_load(&used); i++)
        if (!strcmp(slots[i].name, name)) return 1;
    return 0;
}

/* Readers see the name only when it is complete. */
static void add_name(const char *name)
{
    size_t at = atomic_load(&used);
    slot *s = &slots[at];
    fli_snprintf(s->name, sizeof s->name, "%s", name);
    fli_snprintf(s->event, sizeof s->event, "own/%s", name);
    s->metric.is = (fl_metric){.name = s->name,
                               .title = s->name,
                               .help = "a metric of an objective that was registered",
                               .scale = FL_SCALE_WIDE,
                               .shown = {[FL_VIEW_EVENTS] = {s->event},
                                         [FL_VIEW_CHART] = {s->name},
                                         [FL_VIEW_STUDY] = {s->name},
                                         [FL_VIEW_STUDY_FILES] = {s->name}}};
    atomic_store(&used, at + 1);
}

static fl_status check_names(fl_ctx *ctx, const char *const *names)
{
    for (size_t i = 0; names[i]; i++) {
        fl_status s = fli_registry_check_name(ctx, "a metric", names[i]);
        if (s) return s;
        if (is_built_in(names[i]))
            return fli_fail(ctx, FL_ECONFIG, "metric %s comes with fedloom; another one needs another name", names[i]);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(names[i], names[j])) return fli_fail(ctx, FL_ECONFIG, "metric %s is named twice", names[i]);
    }
    return FL_OK;
}

fl_status fli_metrics_add(fl_ctx *ctx, const char *const *names)
{
    size_t new = 0, room = FL_METRICS_MAX - fli_metrics_count();
    fl_status s = names ? check_names(ctx, names) : FL_OK;
    if (s || !names) return s;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; names[i]; i++) new += !is_there(names[i]);
    if (atomic_load(&used) + new > room)
        s = fli_fail(ctx, FL_ECONFIG, "a process has room for %zu metrics of its own, and %zu names were used already",
                     room, atomic_load(&used));
    for (size_t i = 0; !s && names[i]; i++)
        if (!is_there(names[i])) add_name(names[i]);
    pthread_mutex_unlock(&lock);
    return s;
}

/* ---- of a run --------------------------------------------------------------------------------------------- */

/* The index of the model's metric i. */
static size_t place_of(const fli_model *m, size_t i) { return fl_metric_place(fl_metric_find(m->desc->metrics[i])); }

fli_columns fli_columns_of(const fli_model *m)
{
    fli_columns c = {.n = 0};
    while (c.n < fli_metrics_count()) c.at[c.n] = c.n, c.n++;
    for (size_t i = 0; m->desc->metrics && m->desc->metrics[i]; i++) c.at[c.n++] = place_of(m, i);
    return c;
}

static fl_status measure_user_metrics(fl_row *row, fli_measurement *m)
{
    const fli_model_desc *d = m->model->desc;
    double value[FLI_USER_METRICS];
    fli_row_clear_user(row);
    if (!d->metrics) return FL_OK;
    d->measure(m->model, m->x, value);
    for (size_t i = 0; d->metrics[i]; i++) row->value[place_of(m->model, i)] = value[i];
    return fli_model_status(m->ctx, m->model, " when its metrics were taken, round %.0f",
                            fli_row_get(row, fli_metrics[0]));
}

void fli_row_clear_user(fl_row *row)
{
    for (size_t k = fli_metrics_count(); k < FL_METRICS_MAX; k++) row->value[k] = NAN;
}

static double value_of(const fli_metric *metric, fli_measurement *m)
{
    if (metric->measure) return metric->measure(m);
    return metric->mean ? fli_weighted_mean(m, metric->mean) : *(const double *)((const char *)m + metric->at);
}

fl_status fli_row_measure(fl_row *row, const fli_metrics_settings *what, fli_measurement *m)
{
    m->status = FL_OK;
    for (size_t k = 0; fli_metrics[k] && !m->status; k++) {
        const fli_metric *metric = fli_metrics[k];
        if (!metric->count) row->value[k] = fli_metric_wanted(metric, what, m->model) ? value_of(metric, m) : NAN;
    }
    return m->status ? m->status : measure_user_metrics(row, m);
}
