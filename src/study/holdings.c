/* Who holds what: label counts for the heat map, and how uneven the clients are, for the report. */
#include "study/study.h"

#include <math.h>

/* Clients whose labels are counted, of whom the heat map shows fewer; those whose samples are made on demand cost more.
 * Sizes are cheap to ask for, but not for everybody of a hundred million. */
enum { COUNTED_MAX = 1000, COUNTED_ON_DEMAND = 100, SHOWN_MAX = 100, CLASSES_MAX = 100, SIZES_MAX = 1000000 };

static void take_sizes(const fli_fed *f, fli_histogram *h)
{
    h->least = SIZE_MAX;
    h->most = 0;
    for (size_t i = 0; i < f->clients && i < SIZES_MAX; i++) {
        size_t n = fli_fed_size(f, i);
        if (n < h->least) h->least = n;
        if (n > h->most) h->most = n;
    }
}

static fl_status count_labels(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    fl_status status = FL_OK;
    h->count = fli_alloc(ctx, h->counted * h->classes, sizeof *h->count);
    if (!h->count) return FL_ENOMEM;
    for (size_t i = 0; i < h->counted && !status; i++) {
        fli_view v;
        if ((status = fli_view_open(ctx, f, i, &v))) break;
        for (size_t k = 0; k < v.n_train; k++) h->count[i * h->classes + (size_t)v.ds->label[v.train[k]]]++;
        fli_view_close(&v);
    }
    return status;
}

static double sum_of(const size_t *count, size_t classes)
{
    size_t sum = 0;
    for (size_t c = 0; c < classes; c++) sum += count[c];
    return (double)sum;
}

static double distance(const size_t *a, const size_t *b, size_t classes)
{
    double d = 0, of_a = sum_of(a, classes), of_b = sum_of(b, classes);
    for (size_t c = 0; c < classes; c++) d += fabs((double)a[c] / of_a - (double)b[c] / of_b);
    return d / 2;
}

static fl_status take_distance(fl_ctx *ctx, fli_histogram *h)
{
    size_t n = 0;
    double mean = 0;
    size_t *all = fli_alloc(ctx, h->classes, sizeof *all);
    if (!all) return FL_ENOMEM;
    for (size_t i = 0; i < h->counted * h->classes; i++) all[i % h->classes] += h->count[i];
    for (size_t i = 0; i < h->counted; i++) {
        const size_t *mine = h->count + i * h->classes;
        if (sum_of(mine, h->classes) > 0) mean += (distance(mine, all, h->classes) - mean) / (double)++n;
    }
    if (n > 1) h->distance = mean;
    fli_free(all);
    return FL_OK;
}

/* The labels of the test samples; *n: how many of them there are. Not known: samples elsewhere, or too many clients. */
static fl_status count_tests(fl_ctx *ctx, const fli_fed *f, const fli_histogram *h, size_t *count, size_t *n)
{
    fl_status status = FL_OK;
    *n = 0;
    if (f->test) {
        if (f->test->n < f->tests || !f->test->label) return FL_OK;
        for (*n = 0; *n < f->test->n; ++*n) count[f->test->label[*n]]++; /* test samples keep their labels */
        return FL_OK;
    }
    for (size_t i = 0; i < f->clients && h->counted == f->clients && f->here == f->clients && !status; i++) {
        fli_view v;
        if ((status = fli_view_open(ctx, f, i, &v))) break;
        for (size_t k = 0; k < v.n_test; k++) count[v.ds->label[v.test[k]]]++;
        *n += v.n_test;
        fli_view_close(&v);
    }
    return status;
}

static fl_status take_chance(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    size_t n, most = 0, *count = f->classes ? fli_alloc(ctx, f->classes, sizeof *count) : NULL;
    if (!count) return f->classes ? FL_ENOMEM : FL_OK;
    fl_status status = count_tests(ctx, f, h, count, &n);
    for (size_t c = 0; c < f->classes; c++)
        if (count[c] > most) most = count[c];
    if (!status && n) {
        h->chance = (double)most / (double)n;
        h->tested = n;
    }
    fli_free(count);
    return status;
}

fl_status fli_holdings_take(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    size_t most = f->train ? COUNTED_MAX : COUNTED_ON_DEMAND;
    *h = (fli_histogram){.all_clients = f->clients,
                         .classes = f->classes,
                         .samples = f->samples,
                         .features = f->dim,
                         .tests = f->tests,
                         .distance = NAN};
    h->counted = f->clients < most ? f->clients : most;
    h->clients = h->counted < SHOWN_MAX ? h->counted : SHOWN_MAX;
    take_sizes(f, h);
    fl_status status = take_chance(ctx, f, h);
    if (status) return status;
    if (!f->classes || f->classes > CLASSES_MAX || f->here < f->clients) return FL_OK;
    status = count_labels(ctx, f, h);
    return status ? status : take_distance(ctx, h);
}
