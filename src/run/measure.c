#include "run/measure.h"

#include "exec/figures.h"
#include "model/latent.h"
#include "run/clusters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Clients are asked in blocks; smaller ones where each of them sends a gradient, for the sake of memory. */
enum { LANES = 16, BLOCK = 64, GRADIENTS = 16 };

/* Sums over clients. Those over training samples are weighted, so that with all clients they make up f; those over test samples
 * count every sample once. */
typedef struct {
    double loss, hits, weight;           /* train: sum w_i f_i, w_i accuracy_i, w_i */
    double test_loss, test_hits, test_n; /* test: sums over samples */
    double pseudo_hits, pseudo_n;        /* pseudo labels: sums over samples that get one */
} sums;

typedef struct {
    sums global;    /* of the model under measurement */
    sums local;     /* of the clients' own models */
    void *gradient; /* of f; NULL: not measured */
} lane;

struct fli_measure {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const fli_metrics_settings *what;
    const fli_dataset *test;     /* the server's; NULL: none */
    size_t clients, classes;     /* of the federation */
    uint32_t flags;              /* what clients are asked for */
    size_t count;                /* clients measured */
    fli_client_figures *figures; /* count */
    double *sorted;              /* count */
    uint32_t *all;               /* 0, 1, ... over the test set */
    lane lanes[LANES];
    size_t cells;  /* clusters x classes; 0: no clusters to measure */
    double *table; /* cells; whole numbers, so that sums do not depend on the order */
    const void *x; /* under measurement */
    int taken;
    fli_exchange exchanges[BLOCK]; /* the block under way */
    fli_exchange *list[BLOCK];
    size_t rooms; /* those that have memory */
};

static int classifies(const fli_measure *m) { return m->model->desc->traits & FLI_MODEL_CLASSIFIER; }

/* What clients must be asked for: training metrics, their own accuracy, their own models, their pseudo labels, and
 * their test parts when there is no test set. 0: nothing. */
static uint32_t asked_for(const fli_measure *m)
{
    const fli_metrics_settings *w = m->what;
    int pseudo = m->model->latent && !m->model->latent->every;
    uint32_t visit = (w->train ? FLI_FIGURES_TRAIN : 0) | (w->gradient ? FLI_FIGURES_GRADIENT : 0) |
                     (w->clients ? FLI_FIGURES_EITHER : 0) | (w->local ? FLI_FIGURES_OWN : 0) |
                     (pseudo ? FLI_FIGURES_PSEUDO : 0) | (w->train && m->cells ? FLI_FIGURES_CLUSTERS : 0);
    if (!visit && !(w->test && !m->test)) return 0;
    return visit | (w->test ? FLI_FIGURES_TEST : 0);
}

static size_t block(const fli_metrics_settings *what) { return what->gradient ? GRADIENTS : BLOCK; }

static fl_status rooms_new(fli_measure *m)
{
    size_t numbers = FLI_FIGURES + m->cells, vectors = m->what->gradient ? 1 : 0;
    for (; m->rooms < block(m->what) && m->rooms < m->count; m->rooms++) {
        if (fli_message_init(m->ctx, &m->model->space, vectors, numbers, &m->exchanges[m->rooms].up)) return FL_ENOMEM;
        m->list[m->rooms] = &m->exchanges[m->rooms];
    }
    return FL_OK;
}

static fl_status buffers_new(fli_measure *m)
{
    size_t n = m->model->space.n, size = m->model->space.ops->size, tested = m->test ? m->test->n : 0;
    m->count = m->flags ? m->clients : 0;
    if (m->count > (size_t)m->what->max_clients) m->count = (size_t)m->what->max_clients;
    m->figures = fli_alloc(m->ctx, m->count, sizeof *m->figures);
    m->sorted = fli_alloc(m->ctx, m->count, sizeof *m->sorted);
    m->all = fli_alloc(m->ctx, tested, sizeof *m->all);
    m->table = fli_alloc(m->ctx, m->cells, sizeof *m->table);
    if (!m->figures || !m->sorted || !m->all || !m->table) return FL_ENOMEM;
    for (size_t i = 0; i < tested; i++) m->all[i] = (uint32_t)i;
    for (size_t l = 0; m->what->gradient && l < LANES; l++)
        if (!(m->lanes[l].gradient = fli_alloc(m->ctx, n, size))) return FL_ENOMEM;
    return rooms_new(m);
}

double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t clients)
{
    size_t measured = clients < (size_t)what->max_clients ? clients : (size_t)what->max_clients;
    size_t vectors = LANES + (measured < GRADIENTS ? measured : GRADIENTS);
    return what->gradient ? (double)vectors * (double)fli_bytes(&model->space) : 0;
}

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_model *model, const fli_fed *fed,
                          const fli_metrics_settings *what, fli_measure **out)
{
    fli_measure *m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) return FL_ENOMEM;
    m->ctx = ctx;
    m->exec = exec;
    m->model = model;
    m->what = what;
    m->test = fed->test;
    m->clients = fed->clients;
    m->classes = fed->classes;
    m->cells = what->train ? fli_figures_cells(model, fed->classes) : 0;
    m->flags = asked_for(m);
    fl_status s = buffers_new(m);
    if (s)
        fli_measure_free(m);
    else
        *out = m;
    return s;
}

void fli_measure_free(fli_measure *m)
{
    if (!m) return;
    for (size_t l = 0; l < LANES; l++) fli_free(m->lanes[l].gradient);
    for (size_t i = 0; i < m->rooms; i++) fli_message_fini(&m->exchanges[i].up);
    fli_free(m->figures);
    fli_free(m->sorted);
    fli_free(m->all);
    fli_free(m->table);
    fli_free(m);
}

/* ---- the clients' figures -------------------------------------------------------------------------------- */

/* The federation's client that is number `at` of those measured. */
static uint32_t client_at(const fli_measure *m, size_t at)
{
    return (uint32_t)((unsigned __int128)at * m->clients / m->count);
}

/* Mean loss and hits at `at`, on the training samples of a client of that weight. */
static void add_train(sums *t, const double *num, size_t at, double weight)
{
    t->loss += weight * num[at];
    t->hits += weight * num[at + 1] / num[FLI_FIGURE_TRAIN_N];
    t->weight += weight;
}

static void add_test(sums *t, double loss, double hits, double n)
{
    t->test_loss += n * loss;
    t->test_hits += hits;
    t->test_n += n;
}

static void add_global(const fli_measure *m, const fli_exchange *x, lane *l, fli_client_figures *f)
{
    const double *num = x->up.num;
    unsigned has = (unsigned)num[FLI_FIGURE_HAS];
    double n_test = num[FLI_FIGURE_TEST_N];
    if (has & FLI_HAS_TEST) {
        add_test(&l->global, num[FLI_FIGURE_TEST_LOSS], num[FLI_FIGURE_TEST_HITS], n_test);
        if (classifies(m)) f->accuracy = num[FLI_FIGURE_TEST_HITS] / n_test;
    }
    if (has & FLI_HAS_TRAIN) {
        add_train(&l->global, num, FLI_FIGURE_TRAIN_LOSS, x->ask.weight);
        if (l->gradient) fli_axpy(&m->model->space, x->ask.weight, x->up.vec[0], l->gradient);
        f->loss = num[FLI_FIGURE_TRAIN_LOSS];
        if (classifies(m) && !(n_test > 0)) f->accuracy = num[FLI_FIGURE_TRAIN_HITS] / num[FLI_FIGURE_TRAIN_N];
    }
    if (has & FLI_HAS_PSEUDO) {
        l->global.pseudo_n += num[FLI_FIGURE_PSEUDO_N];
        l->global.pseudo_hits += num[FLI_FIGURE_PSEUDO_HITS];
    }
}

static void add_own(const fli_measure *m, const fli_exchange *x, lane *l, fli_client_figures *f)
{
    const double *num = x->up.num;
    double n_test = num[FLI_FIGURE_TEST_N];
    if (!((unsigned)num[FLI_FIGURE_HAS] & FLI_HAS_OWN)) return;
    add_train(&l->local, num, FLI_FIGURE_OWN_TRAIN_LOSS, x->ask.weight);
    if (n_test > 0) add_test(&l->local, num[FLI_FIGURE_OWN_TEST_LOSS], num[FLI_FIGURE_OWN_TEST_HITS], n_test);
    if (n_test > 0 && classifies(m)) f->own_accuracy = num[FLI_FIGURE_OWN_TEST_HITS] / n_test;
    f->own_mix = num[FLI_FIGURE_OWN_MIX];
}

/* Client `at` of those measured; lanes are runs of them. */
static void absorb(fli_measure *m, size_t at, const fli_exchange *x)
{
    fli_client_figures *f = &m->figures[at];
    size_t place = at * LANES / m->count;
    while (at >= (place + 1) * m->count / LANES) place++;
    lane *l = &m->lanes[place];
    *f = (fli_client_figures){.loss = NAN, .accuracy = NAN, .own_accuracy = NAN, .own_mix = NAN};
    f->client = x->ask.client;
    f->samples = (size_t)x->up.num[FLI_FIGURE_TRAIN_N];
    add_global(m, x, l, f);
    add_own(m, x, l, f);
    for (size_t i = 0; m->flags & FLI_FIGURES_CLUSTERS && i < m->cells; i++) m->table[i] += x->up.num[FLI_FIGURES + i];
}

static fl_status ask_block(fli_measure *m, const fli_message *down, size_t first, size_t count, fl_row *row)
{
    for (size_t i = 0; i < count; i++) {
        fli_exchange *x = m->list[i];
        x->ask = (fli_ask){.kind = FLI_ASK_FIGURES,
                           .client = client_at(m, first + i),
                           .flags = m->flags | FLI_ASK_CHANGED | FLI_ASK_REPLY};
        x->down = down;
        fli_coordinator_address(fli_exec_coordinator(m->exec), &x->ask);
        row->evaluation_bytes_down += (double)fli_exec_bytes_down(m->exec, &x->ask);
        row->evaluation_bytes_up += (double)fli_exec_bytes_up(m->exec, &x->ask);
    }
    fli_exec_run(m->exec, m->list, count);
    for (size_t i = 0; i < count; i++)
        if (m->exchanges[i].status) return m->exchanges[i].status;
    for (size_t i = 0; i < count; i++) {
        const char *wrong = fli_figures_wrong(m->exchanges[i].up.num);
        if (wrong)
            return fli_fail(m->ctx, FL_EFORMAT, "client %u: its figures cannot be: %s", client_at(m, first + i), wrong);
        absorb(m, first + i, &m->exchanges[i]);
    }
    return FL_OK;
}

static fl_status ask_clients(fli_measure *m, fl_row *row)
{
    fl_status s = FL_OK;
    void *x = (void *)m->x; /* the vectors of a message down are only read */
    fli_message down = {.vec = &x, .start = fli_coordinator_broadcast(fli_exec_coordinator(m->exec))->start};
    memset(m->table, 0, m->cells * sizeof *m->table);
    for (size_t at = 0; !s && at < m->count; at += m->rooms)
        s = ask_block(m, &down, at, m->count - at < m->rooms ? m->count - at : m->rooms, row);
    return s;
}

/* ---- the server's test set ------------------------------------------------------------------------------- */

/* fli_pool_fn: a lane measures its share. */
static void test_lane(void *arg, size_t item, size_t worker)
{
    fli_measure *m = arg;
    sums *t = &m->lanes[item].global;
    /* the test set counts, not the clients' own parts */
    t->test_loss = t->test_hits = t->test_n = 0;
    size_t n = m->test->n, from = item * n / LANES, to = (item + 1) * n / LANES, hits = 0;
    if (from == to) return;
    fli_eval *eval = &fli_exec_crew(m->exec)->evals[worker];
    double loss = fli_eval_loss(eval, m->test, m->all + from, to - from, m->x, NULL, &hits);
    add_test(t, loss, (double)hits, (double)(to - from));
}

/* ---- a row ----------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts what is in m->sorted. */
static void quantiles(fli_measure *m, size_t n, double *q10, double *q50, double *q90)
{
    qsort(m->sorted, n, sizeof *m->sorted, ascending);
    *q10 = m->sorted[(n - 1) / 10];
    *q50 = m->sorted[(n - 1) / 2];
    *q90 = m->sorted[(n - 1) * 9 / 10];
}

static void client_quantiles(fli_measure *m, fl_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!isnan(m->figures[i].accuracy)) m->sorted[n++] = m->figures[i].accuracy;
    if (n) quantiles(m, n, &row->client_q10, &row->client_q50, &row->client_q90);
}

static void own_quantiles(fli_measure *m, fl_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!isnan(m->figures[i].own_accuracy)) m->sorted[n++] = m->figures[i].own_accuracy;
    if (!n) return;
    quantiles(m, n, &row->local_q10, &row->local_q50, &row->local_q90);
    size_t worst = (n + 9) / 10;
    row->local_worst = 0;
    for (size_t i = 0; i < worst; i++) row->local_worst += m->sorted[i] / (double)worst;
}

static void add_sums(sums *t, const sums *s)
{
    t->loss += s->loss;
    t->hits += s->hits;
    t->weight += s->weight;
    t->test_loss += s->test_loss;
    t->test_hits += s->test_hits;
    t->test_n += s->test_n;
    t->pseudo_hits += s->pseudo_hits;
    t->pseudo_n += s->pseudo_n;
}

static lane total(fli_measure *m)
{
    lane t = m->lanes[0];
    for (size_t i = 1; i < LANES; i++) {
        const lane *l = &m->lanes[i];
        add_sums(&t.global, &l->global);
        add_sums(&t.local, &l->local);
        if (t.gradient) fli_axpy(&m->model->space, 1, l->gradient, t.gradient);
    }
    return t;
}

static void fill_train(const fli_measure *m, const sums *s, double *loss, double *accuracy)
{
    *loss = s->loss / s->weight;
    if (classifies(m)) *accuracy = s->hits / s->weight;
}

static void fill_test(const fli_measure *m, const sums *s, double *loss, double *accuracy)
{
    if (!(s->test_n > 0)) return;
    *loss = s->test_loss / s->test_n;
    if (classifies(m)) *accuracy = s->test_hits / s->test_n;
}

static void fill_row(fli_measure *m, const lane *t, fl_row *row)
{
    const fli_metrics_settings *what = m->what;
    const fli_space *space = &m->model->space;
    if (what->train) fill_train(m, &t->global, &row->train_loss, &row->train_accuracy);
    if (what->test) fill_test(m, &t->global, &row->test_loss, &row->test_accuracy);
    if (what->gradient) {
        double weight = t->global.weight;
        fli_axpy(space, weight * m->model->weight_decay, m->x, t->gradient);
        row->gradient2 = fli_dot(space, t->gradient, t->gradient) / (weight * weight);
    }
    if (what->clients) client_quantiles(m, row);
    if (t->global.pseudo_n > 0) row->pseudo_accuracy = t->global.pseudo_hits / t->global.pseudo_n;
    if (!what->local) return;
    own_quantiles(m, row);
    fill_train(m, &t->local, &row->local_train_loss, &row->local_train_accuracy);
    fill_test(m, &t->local, &row->local_test_loss, &row->local_test_accuracy);
}

static fl_status fill_clusters(const fli_measure *m, fl_row *row)
{
    if (!(m->flags & FLI_FIGURES_CLUSTERS)) return FL_OK;
    size_t clusters = m->cells / m->classes;
    row->cluster_nmi = fli_clusters_nmi(clusters, m->classes, m->table);
    return fli_clusters_accuracy(m->ctx, clusters, m->classes, m->table, &row->cluster_accuracy);
}

fl_status fli_measure_take(fli_measure *m, const void *x, fl_row *row)
{
    for (size_t i = 0; i < LANES; i++) {
        m->lanes[i] = (lane){.gradient = m->lanes[i].gradient};
        if (m->lanes[i].gradient) fli_zero(&m->model->space, m->lanes[i].gradient);
    }
    m->x = x;
    row->train_loss = row->train_accuracy = row->test_loss = row->test_accuracy = row->gradient2 = NAN;
    row->client_q10 = row->client_q50 = row->client_q90 = NAN;
    row->local_q10 = row->local_q50 = row->local_q90 = row->local_worst = row->pseudo_accuracy = NAN;
    row->local_train_loss = row->local_train_accuracy = row->local_test_loss = row->local_test_accuracy = NAN;
    row->cluster_accuracy = row->cluster_nmi = NAN;
    fl_status s = ask_clients(m, row);
    if (s) return s;
    if (m->what->test && m->test) fli_pool_run(fli_exec_crew(m->exec)->pool, LANES, test_lane, m);
    lane t = total(m);
    fill_row(m, &t, row);
    m->taken = 1;
    return fill_clusters(m, row);
}

size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out)
{
    *out = m->figures;
    return m->taken && (m->what->clients || m->what->local) ? m->count : 0;
}
