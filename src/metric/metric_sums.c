/* Sums over clients, of which most metrics are made. */
#include "metric/metric.h"

#include <math.h>

double fli_moment_sum(const fli_moment *m, fli_term *term, size_t figure)
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
    unsigned what = figure >= FLI_FIGURE_OWN_TRAIN_LOSS ? FLI_HAS_OWN
                    : figure >= FLI_FIGURE_TEST_LOSS    ? FLI_HAS_TEST
                                                        : FLI_HAS_TRAIN;
    return ((unsigned)f->num[FLI_FIGURE_HAS] & what) != 0;
}

/* fli_term: those of clients that have the figure. */
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

static int classifies(const fli_moment *m) { return m->model->desc->traits & FLI_MODEL_CLASSIFIER; }

double fli_train_weight(const fli_moment *m) { return fli_moment_sum(m, weight, FLI_FIGURE_TRAIN_LOSS); }

double fli_train_decay(const fli_moment *m)
{
    int whole = m->model->decay_by == FLI_DECAY_AS_IT_IS;
    return fli_moment_sum(m, whole ? weight : weight_per_sample, FLI_FIGURE_TRAIN_LOSS) * m->model->weight_decay;
}

double fli_train_loss(const fli_moment *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TRAIN_LOSS : FLI_FIGURE_TRAIN_LOSS;
    return fli_moment_sum(m, weighted, figure) / fli_moment_sum(m, weight, figure);
}

double fli_train_accuracy(const fli_moment *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TRAIN_HITS : FLI_FIGURE_TRAIN_HITS;
    if (!classifies(m)) return NAN;
    return fli_moment_sum(m, weighted_share, figure) / fli_moment_sum(m, weight, figure);
}

double fli_test_loss(const fli_moment *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TEST_LOSS : FLI_FIGURE_TEST_LOSS;
    if (!own && m->test_n > 0) return m->test_loss / m->test_n;
    double n = fli_moment_sum(m, samples, figure);
    return n > 0 ? fli_moment_sum(m, by_samples, figure) / n : NAN;
}

double fli_test_accuracy(const fli_moment *m, int own)
{
    size_t figure = own ? FLI_FIGURE_OWN_TEST_HITS : FLI_FIGURE_TEST_HITS;
    if (!classifies(m)) return NAN;
    if (!own && m->test_n > 0) return m->test_hits / m->test_n;
    double n = fli_moment_sum(m, samples, figure);
    return n > 0 ? fli_moment_sum(m, hits, figure) / n : NAN;
}

double fli_quantile(fli_sorted s, size_t percent) { return s.n ? s.v[(s.n - 1) * percent / 100] : NAN; }
