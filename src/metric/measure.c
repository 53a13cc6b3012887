#include "metric/measure.h"

#include "bilevel/bilevel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== the hypergradient ==================================================================================== */

enum { DERIVATIVE_BLOCK = 16, NEWTON_MOST = 100, HALVINGS = 30 };

/* Vectors, both blocks long; only Z, SUM and copies of SUM use their upper block. */
enum { Z, DIRECTION, SUM, GRADIENT, RESIDUAL, SOLUTION, TRIAL, VECTORS };

typedef struct {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const double *weights; /* NULL: p_i */
    fli_counts *counts;
    double value; /* of f, summed with the upper gradients */
    fl_space upper, lower;
    size_t clients, rooms, most; /* most: steps of conjugate gradients at a time */
    double tolerance;
    fli_message own;                          /* VECTORS of them */
    fli_exchange exchanges[DERIVATIVE_BLOCK]; /* the current block */
    fli_exchange *list[DERIVATIVE_BLOCK];
    fl_status status;
} solver;

static void *vector(const solver *s, size_t i) { return s->own.vec[i]; }
static void *low(const solver *s, void *v) { return fli_at(s->lower.ops, v, s->upper.n); }
static void *low_of(const solver *s, size_t i) { return low(s, vector(s, i)); }
static double norm(const fl_space *s, const void *v) { return sqrt(fli_dot(s, v, v)); }

static fl_status solver_init(solver *s)
{
    const fl_space *space = &s->model->space;
    fl_status status = fli_message_init(s->ctx, space, VECTORS, 0, &s->own);
    for (; !status && s->rooms < DERIVATIVE_BLOCK && s->rooms < s->clients; s->rooms++) {
        status = fli_message_init(s->ctx, space, 1, 1, &s->exchanges[s->rooms].up);
        s->list[s->rooms] = &s->exchanges[s->rooms];
    }
    return status;
}

static void solver_fini(solver *s)
{
    for (size_t i = 0; i < s->rooms; i++) fli_message_fini(&s->exchanges[i].up);
    fli_message_fini(&s->own);
}

/* Its memory in bytes. */
static double hypergradient_bytes(const fli_model *model, size_t clients)
{
    return (double)(VECTORS + (clients < DERIVATIVE_BLOCK ? clients : DERIVATIVE_BLOCK)) *
           (double)fli_bytes(&model->space);
}

/* ---- sums over the clients -------------------------------------------------------------------------------- */

static void ask_derivative(solver *s, const fli_message *down, uint32_t what, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fli_exchange *x = s->list[i];
        x->ask = (fl_ask){
            .kind = FLI_ASK_LEVELS, .client = (uint32_t)(first + i), .flags = what | FLI_ASK_HAS_BODY | FLI_ASK_REPLY};
        x->down = down;
        fli_server_state_address(fli_exec_server_state(s->exec), &x->ask);
        s->counts->evaluation_down += (double)fli_exec_bytes_down(s->exec, &x->ask);
        s->counts->evaluation_up += (double)fli_exec_bytes_up(s->exec, &x->ask);
    }
    fli_exec_run(s->exec, s->list, count);
    for (size_t i = 0; !s->status && i < count; i++)
        if (s->exchanges[i].status)
            s->status = fli_server_state_failed(fli_exec_server_state(s->exec), &s->exchanges[i]);
    for (size_t i = 0; !s->status && i < count; i++) {
        const fli_exchange *x = &s->exchanges[i];
        double weight = s->weights ? s->weights[x->ask.client] : x->ask.weight;
        if (what == FLI_LEVELS_LOWER) /* only the lower block was uploaded */
            fli_axpy(&s->lower, weight, low(s, x->up.vec[0]), low_of(s, SUM));
        else
            fli_axpy(&s->model->space, weight, x->up.vec[0], vector(s, SUM));
        if (what == FLI_LEVELS_UPPER) s->value += weight * x->up.num[0];
    }
}

/* SUM = sum_i w_i times a derivative at (x, y), in the order of the clients. */
static void sum(solver *s, uint32_t what, void *z, void *direction)
{
    void *sent[] = {z, direction};
    fli_message down = {.vec = sent};
    fli_zero(&s->model->space, vector(s, SUM));
    for (size_t at = 0; !s->status && at < s->clients; at += s->rooms)
        ask_derivative(s, &down, what, at, s->clients - at < s->rooms ? s->clients - at : s->rooms);
}

/* ---- solving ---------------------------------------------------------------------------------------------- */

/* SOLUTION's lower block: G_yy s = r for the r in RESIDUAL, which receives the remaining residual, down to a norm of
 * `goal`. Returns whether it reached that; stops at a direction of curvature <= 0. */
static int conjugate_gradients(solver *s, double goal)
{
    const fl_space *l = &s->lower;
    void *r = low_of(s, RESIDUAL), *d = low_of(s, DIRECTION), *hd = low_of(s, SUM), *x = low_of(s, SOLUTION);
    double rr = fli_dot(l, r, r);
    fli_zero(l, x);
    fli_copy(l, r, d);
    for (size_t k = 0; k < s->most && sqrt(rr) > goal; k++) {
        double before = rr;
        sum(s, FLI_LEVELS_PRODUCT, vector(s, Z), vector(s, DIRECTION));
        double curvature = fli_dot(l, d, hd);
        if (s->status || !(curvature > 0)) return 0;
        fli_axpy(l, rr / curvature, d, x);
        fli_axpy(l, -rr / curvature, hd, r);
        rr = fli_dot(l, r, r);
        fli_lin(l, 1, r, rr / before, d, d);
    }
    return sqrt(rr) <= goal;
}

/* GRADIENT = grad_y G at (x, the y of z); returns its norm. */
static double lower_gradient(solver *s, void *z)
{
    sum(s, FLI_LEVELS_LOWER, z, NULL);
    fli_copy(&s->lower, low_of(s, SUM), low_of(s, GRADIENT));
    return norm(&s->lower, low_of(s, GRADIENT));
}

/* Steps along SOLUTION from Z, and halves the step until the gradient gets shorter, as a Newton direction of a convex
 * function ensures. Returns the gradient's new norm, or the old one if no step helps. */
static double take_step(solver *s, double before)
{
    double t = 1;
    for (size_t k = 0; !s->status && k < HALVINGS; k++, t /= 2) {
        fli_copy(&s->upper, vector(s, Z), vector(s, TRIAL));
        fli_lin(&s->lower, 1, low_of(s, Z), t, low_of(s, SOLUTION), low_of(s, TRIAL));
        double now = lower_gradient(s, vector(s, TRIAL));
        if (!(now < (1 - 1e-4 * t) * before)) continue;
        fli_copy(&s->lower, low_of(s, TRIAL), low_of(s, Z));
        return now;
    }
    return before;
}

/* Z's lower block becomes y*(x). Each system is solved to an accuracy in proportion to the gradient. */
static int solve_lower(solver *s)
{
    double now = lower_gradient(s, vector(s, Z)), goal = s->tolerance * fmax(1, now);
    for (size_t k = 0; !s->status && k < NEWTON_MOST && now > goal; k++) {
        double before = now;
        fli_lin(&s->lower, -1, low_of(s, GRADIENT), 0, low_of(s, GRADIENT), low_of(s, RESIDUAL));
        conjugate_gradients(s, fmax(goal / 2, fmin(0.1, now) * now));
        now = take_step(s, before);
        if (now == before) break;
    }
    return !s->status && now <= goal;
}

/* SOLUTION = v*(x) and GRADIENT = grad Phi(x) in their blocks, with y* in Z. */
static int solve_system(solver *s)
{
    s->value = 0;
    sum(s, FLI_LEVELS_UPPER, vector(s, Z), NULL);
    fli_copy(&s->upper, vector(s, SUM), vector(s, GRADIENT));
    fli_copy(&s->lower, low_of(s, SUM), low_of(s, RESIDUAL));
    double goal = s->tolerance * fmax(1, norm(&s->lower, low_of(s, RESIDUAL)));
    if (s->status || !conjugate_gradients(s, goal)) return 0;
    fli_copy(&s->lower, low_of(s, SOLUTION), low_of(s, DIRECTION));
    sum(s, FLI_LEVELS_PRODUCT, vector(s, Z), vector(s, DIRECTION));
    fli_sub(&s->upper, vector(s, GRADIENT), vector(s, SUM), vector(s, GRADIENT));
    return !s->status;
}

static double distance(solver *s, const void *a, const void *b)
{
    fli_sub(&s->lower, fli_cat(s->lower.ops, a, s->upper.n), fli_cat(s->lower.ops, b, s->upper.n), low_of(s, TRIAL));
    return norm(&s->lower, low_of(s, TRIAL));
}

fl_status fli_hypergradient(fl_ctx *ctx, fli_exec *exec, const void *z, const void *v, const double *weights,
                            fli_counts *counts, fli_levels_solved *out)
{
    const fli_setup *setup = fli_exec_setup(exec);
    const fli_model *m = setup->model;
    solver s = {.ctx = ctx,
                .exec = exec,
                .model = m,
                .weights = weights,
                .counts = counts,
                .upper = fli_upper_space(&m->space, m->bilevel->upper),
                .lower = fli_lower_space(&m->space, m->bilevel->upper),
                .clients = setup->fed->clients,
                .tolerance = m->space.ops->size == sizeof(double) ? 1e-10 : 1e-5};
    *out = (fli_levels_solved){NAN, NAN, NAN, NAN};
    s.most = 2 * s.lower.n + 100; /* without rounding, the number of unknowns is enough */
    if (!(s.status = solver_init(&s))) {
        fli_copy(&m->space, z, vector(&s, Z));
        if (solve_lower(&s) && solve_system(&s)) {
            out->value = s.value;
            out->hypergradient = norm(&s.upper, vector(&s, GRADIENT));
            out->lower_distance = distance(&s, z, vector(&s, Z));
            if (v) out->system_distance = distance(&s, v, vector(&s, SOLUTION));
        } else if (!s.status) {
            fli_log(
                ctx, FL_LOG_WARNING,
                "the lower level could not be solved to a gradient of %g, so the hypergradient is not known; it has "
                "to be strongly convex (bilevel.l2), and precision: f64 is more exact",
                s.tolerance);
        }
    }
    solver_fini(&s);
    return s.status;
}

/* ==== measuring ============================================================================================ */

/* Clients are asked in blocks; in smaller ones if each sends a gradient, to save memory. */
enum { LANES = FLI_LANES, BLOCK = 64, GRADIENTS = 16 };

/* Sums over a part of the clients, or of the test set. */
typedef struct {
    double test_loss, test_hits, test_n; /* the test set: sums over samples */
    void *gradient;                      /* of f; NULL: not measured */
    void *ahead;                         /* the same at the next values of the second blocks */
} lane;

/* The server's test set. */
typedef struct {
    const fli_dataset *samples; /* on this rank; NULL: there is none */
    uint32_t *all;              /* 0, 1, ... over them */
    size_t n, first;            /* samples of the whole set, and the first on this rank */
} test_set;

/* The answers of the clients that are asked. */
typedef struct {
    uint32_t flags;              /* what they are asked to measure */
    size_t count;                /* the number of them */
    size_t came;                 /* the number of answers */
    fli_client_figures *figures; /* count, in use: came */
    unsigned char *answered;     /* count: whether it has answered */
    double *accuracies, *own;    /* count each: sorted */
    size_t cells;                /* clusters x classes; 0: clusters are not measured */
    double *table;               /* cells; whole numbers, so that sums do not depend on the order */
} asked_clients;

/* The current exchanges. */
typedef struct {
    fli_exchange exchanges[BLOCK];
    fli_exchange *list[BLOCK];
    size_t rooms; /* exchanges that have memory */
} client_block;

struct fli_measure {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_setup *setup;
    const fl_space *space; /* of x, gradients and messages */
    const fli_metrics_settings *what;
    const fli_ask_params *ask_params;
    const fli_async *async; /* NULL: a method with rounds */
    test_set test;
    double *weights;   /* of clients at two levels; NULL: p_i */
    double smoothness; /* the largest L_i; NaN: unknown */
    asked_clients asked;
    client_block block;
    lane lanes[LANES];
    const void *x; /* the model being measured */
    int taken;
};

static int classifies(const fli_measure *m) { return m->setup->model->desc->traits & FLI_MODEL_CLASSIFIER; }

/* The figures that clients must be asked for, by the wanted metrics; 0: none, for example if only the server's test set
 * is measured. */
static uint32_t asked_for(const fli_measure *m)
{
    uint32_t flags = 0;
    for (size_t k = 0; fli_metrics[k]; k++)
        if (fli_metric_wanted(fli_metrics[k], m->what, m->setup->model)) flags |= fli_metrics[k]->asks;
    if (!m->asked.cells) flags &= ~(uint32_t)FLI_FIGURES_CLUSTERS;
    if (!m->setup->algo->theory.potential.client) flags &= ~(uint32_t)FLI_FIGURES_POTENTIAL;
    if (!m->setup->algo->theory.gap.ahead) flags &= ~(uint32_t)FLI_FIGURES_AHEAD;
    return flags == FLI_FIGURES_TEST && m->test.samples ? 0 : flags;
}

static int gradients(const fli_metrics_settings *what) { return what->gradient || what->gradient_mapping; }

static size_t block(const fli_metrics_settings *what) { return gradients(what) ? GRADIENTS : BLOCK; }

static fl_status rooms_new(fli_measure *m)
{
    size_t numbers = FLI_FIGURES_CLUSTERS_AT + m->asked.cells;
    size_t vectors = m->asked.flags & FLI_FIGURES_AHEAD ? 2 : gradients(m->what) ? 1 : 0;
    for (; m->block.rooms < block(m->what) && m->block.rooms < m->asked.count; m->block.rooms++) {
        if (fli_message_init(m->ctx, m->space, vectors, numbers, &m->block.exchanges[m->block.rooms].up))
            return FL_ENOMEM;
        m->block.list[m->block.rooms] = &m->block.exchanges[m->block.rooms];
    }
    return FL_OK;
}

static int wants_levels(const fli_metrics_settings *what, const fli_model *model)
{
    return model->bilevel && (what->hypergradient || what->potential);
}

/* w_i proportional to p_i times the mean work of a turn over rounds; none if all clients work equally. */
static fl_status weights_new(fli_measure *m)
{
    const fli_ask_params *a = m->ask_params;
    double sum = 0, first = 0;
    int differ = 0;
    if (!wants_levels(m->what, m->setup->model) || !a->setup->algo->levels.work) return FL_OK;
    if (!(m->weights = fli_alloc(m->ctx, m->setup->clients, sizeof *m->weights))) return FL_ENOMEM;
    for (size_t i = 0; i < m->setup->clients; i++) {
        fli_card card = fli_exec_card(m->exec, (uint32_t)i);
        fli_algo_enter(a->setup->algo);
        double work = fli_ask_work(a, &card, (uint32_t)i);
        fli_algo_leave(a->setup->algo);
        first = i ? first : work;
        differ |= work != first;
        m->weights[i] = fli_server_state_weight(fli_exec_server_state(m->exec), i) * work;
        sum += m->weights[i];
    }
    for (size_t i = 0; i < m->setup->clients; i++) m->weights[i] /= sum;
    if (differ) return FL_OK;
    fli_free(m->weights);
    m->weights = NULL;
    return FL_OK;
}

static fl_status lanes_new(fli_measure *m)
{
    size_t bytes = fli_bytes(m->space);
    for (size_t l = 0; l < LANES; l++) {
        lane *of = &m->lanes[l];
        if (gradients(m->what) && !(of->gradient = fli_vector_alloc(m->ctx, m->space, bytes))) return FL_ENOMEM;
        int ahead = (m->asked.flags & FLI_FIGURES_AHEAD) != 0;
        if (ahead && !(of->ahead = fli_vector_alloc(m->ctx, m->space, bytes))) return FL_ENOMEM;
    }
    return FL_OK;
}

static fl_status buffers_new(fli_measure *m)
{
    size_t tested = m->test.samples ? m->test.samples->n : 0;
    m->asked.count = m->asked.flags ? m->setup->clients : 0;
    if (m->asked.count > (size_t)m->what->max_clients) m->asked.count = (size_t)m->what->max_clients;
    m->asked.figures = fli_alloc(m->ctx, m->asked.count, sizeof *m->asked.figures);
    m->asked.accuracies = fli_alloc(m->ctx, m->asked.count, sizeof *m->asked.accuracies);
    m->asked.own = fli_alloc(m->ctx, m->asked.count, sizeof *m->asked.own);
    m->asked.answered = fli_alloc(m->ctx, m->asked.count, sizeof *m->asked.answered);
    m->test.all = fli_alloc(m->ctx, tested, sizeof *m->test.all);
    m->asked.table = fli_alloc(m->ctx, m->asked.cells, sizeof *m->asked.table);
    if (!m->asked.figures || !m->asked.accuracies || !m->asked.own || !m->asked.answered || !m->test.all ||
        !m->asked.table)
        return FL_ENOMEM;
    for (size_t i = 0; i < tested; i++) m->test.all[i] = (uint32_t)i;
    fl_status s = lanes_new(m);
    if (!s) s = weights_new(m);
    return s ? s : rooms_new(m);
}

double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t clients)
{
    size_t measured = clients < (size_t)what->max_clients ? clients : (size_t)what->max_clients;
    size_t vectors = LANES + (measured < GRADIENTS ? measured : GRADIENTS);
    double levels = wants_levels(what, model) ? hypergradient_bytes(model, clients) : 0;
    double mapping = what->gradient_mapping ? 3 * (double)model->space.n * sizeof(double) : 0;
    if (what->gradient && model->latent) vectors *= 2;
    return levels + mapping + (gradients(what) ? (double)vectors * (double)fli_bytes(&model->space) : 0);
}

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_metrics_settings *what,
                          const fli_ask_params *ask_params, fli_measure **out)
{
    fli_measure *m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) return FL_ENOMEM;
    m->ctx = ctx;
    m->exec = exec;
    m->setup = fli_exec_setup(exec);
    m->space = fli_exec_space(exec);
    m->what = what;
    m->ask_params = ask_params;
    const fli_fed *fed = m->setup->fed;
    m->test = (test_set){.samples = fed->test, .n = fed->tests, .first = fed->test_first};
    m->asked.cells = what->train ? fli_figures_cells(m->setup->model, m->setup->classes) : 0;
    m->smoothness = NAN;
    m->asked.flags = asked_for(m);
    fl_status s = buffers_new(m);
    if (s)
        fli_measure_free(m);
    else
        *out = m;
    return s;
}

void fli_measure_follow(fli_measure *m, const fli_async *a) { m->async = a; }
void fli_measure_smooth(fli_measure *m, double smoothness) { m->smoothness = smoothness; }

void fli_measure_free(fli_measure *m)
{
    if (!m) return;
    for (size_t l = 0; l < LANES; l++) {
        fli_vector_free(m->space, m->lanes[l].gradient);
        fli_vector_free(m->space, m->lanes[l].ahead);
    }
    for (size_t i = 0; i < m->block.rooms; i++) fli_message_fini(&m->block.exchanges[i].up);
    fli_free(m->asked.figures);
    fli_free(m->asked.accuracies);
    fli_free(m->asked.own);
    fli_free(m->asked.answered);
    fli_free(m->weights);
    fli_free(m->test.all);
    fli_free(m->asked.table);
    fli_free(m);
}

/* ---- the clients' figures -------------------------------------------------------------------------------- */

/* The number in the federation of measured client `at`. */
static uint32_t client_at(const fli_measure *m, size_t at)
{
    return (uint32_t)((unsigned __int128)at * m->setup->clients / m->asked.count);
}

/* Fills in the columns of clients.csv. */
static void describe(const fli_measure *m, fli_client_figures *f)
{
    const double *num = f->num;
    unsigned has = (unsigned)num[FLI_FIGURE_HAS];
    double n_test = num[FLI_FIGURE_TEST_N];
    f->samples = (size_t)num[FLI_FIGURE_TRAIN_N];
    f->loss = has & FLI_HAS_TRAIN ? num[FLI_FIGURE_TRAIN_LOSS] : NAN;
    f->accuracy = f->own_accuracy = NAN;
    f->own_mix = has & FLI_HAS_OWN ? num[FLI_FIGURE_OWN_MIX] : NAN;
    if (!classifies(m)) return;
    if (has & FLI_HAS_TEST)
        f->accuracy = num[FLI_FIGURE_TEST_HITS] / n_test;
    else if (has & FLI_HAS_TRAIN && !(n_test > 0))
        f->accuracy = num[FLI_FIGURE_TRAIN_HITS] / num[FLI_FIGURE_TRAIN_N];
    if (has & FLI_HAS_OWN && n_test > 0) f->own_accuracy = num[FLI_FIGURE_OWN_TEST_HITS] / n_test;
}

/* Adds measured client `at` to the sums; lanes are runs of clients. */
static void absorb(fli_measure *m, size_t at, const fli_exchange *x)
{
    fli_client_figures *f = &m->asked.figures[at];
    size_t place = at * LANES / m->asked.count;
    while (at >= fli_lane_begin(place + 1, m->asked.count)) place++;
    m->asked.answered[at] = 1;
    *f = (fli_client_figures){.client = x->ask.client, .weight = x->ask.weight};
    memcpy(f->num, x->up.num, sizeof f->num);
    if (m->asked.flags & FLI_FIGURES_POTENTIAL)
        memcpy(f->potential, x->up.num + FLI_FIGURES_POTENTIAL_AT, sizeof f->potential);
    describe(m, f);
    const lane *of = &m->lanes[place];
    int trained = ((unsigned)f->num[FLI_FIGURE_HAS] & FLI_HAS_TRAIN) != 0;
    if (of->gradient && trained) fli_axpy(m->space, x->ask.weight, x->up.vec[0], of->gradient);
    if (of->ahead && trained) fli_axpy(m->space, x->ask.weight, x->up.vec[1], of->ahead);
    for (size_t i = 0; m->asked.flags & FLI_FIGURES_CLUSTERS && i < m->asked.cells; i++)
        m->asked.table[i] += x->up.num[FLI_FIGURES_CLUSTERS_AT + i];
}

/* A client that is ahead of the server may need to know which of its turns the server has absorbed, and in its first
 * turn also the model where it began. */
static void tell_away(const fli_measure *m, fl_ask *ask)
{
    int starts = fli_algo_shows_start(m->setup->algo);
    if (m->async && fli_async_away(m->async, ask->client, &ask->stream))
        ask->flags |= FLI_ASK_AWAY | (starts ? FLI_ASK_FIRST : 0);
}

/* The ask for a client's figures. A potential depends on the turn that would come next. */
static fl_ask ask_of(const fli_measure *m, uint32_t client, const fli_counts *counts)
{
    fl_ask ask = {.client = client};
    if (m->asked.flags & FLI_FIGURES_POTENTIAL) {
        fli_card card = fli_exec_card(m->exec, client);
        ask = fli_ask_for(m->ask_params, &card, (size_t)counts->round, (size_t)counts->round, client);
    }
    ask.kind = FLI_ASK_FIGURES;
    ask.flags = m->asked.flags | FLI_ASK_HAS_BODY | FLI_ASK_REPLY;
    fli_server_state_address(fli_exec_server_state(m->exec), &ask);
    if (m->asked.flags & FLI_FIGURES_POTENTIAL) tell_away(m, &ask);
    return ask;
}

static fl_status ask_block(fli_measure *m, const fli_message *down, size_t first, size_t count, fli_counts *counts)
{
    for (size_t i = 0; i < count; i++) {
        fli_exchange *x = m->block.list[i];
        x->ask = ask_of(m, client_at(m, first + i), counts);
        x->down = down;
        counts->evaluation_down += (double)fli_exec_bytes_down(m->exec, &x->ask);
    }
    fl_status s = fli_exec_gather(m->exec, m->block.list, count);
    if (s) return s;
    for (size_t i = 0; i < count; i++) {
        if (m->block.exchanges[i].status) continue; /* the client is left out */
        counts->evaluation_up += (double)fli_exec_bytes_up(m->exec, &m->block.exchanges[i].ask);
        const char *wrong = fli_figures_wrong(m->block.exchanges[i].up.num);
        if (wrong)
            return fli_fail(m->ctx, FL_EFORMAT, "client %u: its figures are impossible: %s",
                            m->block.exchanges[i].ask.client, wrong);
        absorb(m, first + i, &m->block.exchanges[i]);
    }
    return FL_OK;
}

static fl_status ask_clients(fli_measure *m, fli_counts *counts)
{
    fl_status s = FL_OK;
    void *x = (void *)m->x; /* the exchange only reads vectors that go down */
    fli_server_state *server = fli_exec_server_state(m->exec);
    if (m->asked.flags & (FLI_FIGURES_POTENTIAL | FLI_FIGURES_AHEAD)) fli_server_state_start(server);
    const fli_message *now = fli_server_state_broadcast(server);
    fli_message down = {.vec = &x, .num = now->num, .start = now->start};
    memset(m->asked.table, 0, m->asked.cells * sizeof *m->asked.table);
    memset(m->asked.answered, 0, m->asked.count);
    for (size_t at = 0; !s && at < m->asked.count; at += m->block.rooms)
        s = ask_block(m, &down, at, m->asked.count - at < m->block.rooms ? m->asked.count - at : m->block.rooms,
                      counts);
    m->asked.came = 0;
    for (size_t at = 0; at < m->asked.count; at++)
        if (m->asked.answered[at]) m->asked.figures[m->asked.came++] = m->asked.figures[at];
    return s;
}

/* ---- the server's test set ------------------------------------------------------------------------------- */

static size_t first_lane(const fli_measure *m, uint32_t rank)
{
    return fli_lane_of_rank(rank, m->setup->ranks ? m->setup->ranks->count : 1);
}

static uint32_t own_rank(const fli_measure *m) { return m->setup->ranks ? m->setup->ranks->rank : 0; }

/* The samples that a lane of this rank evaluates. */
static fli_peek peek_of(const fli_measure *m, size_t item)
{
    size_t from = fli_lane_begin(item, m->test.n), to = fli_lane_begin(item + 1, m->test.n);
    return (fli_peek){m->test.samples, m->test.all + (from - m->test.first), to - from, m->x, NULL, 1};
}

/* Announces the lanes' evaluations to a device that can use that. */
static void foresee(const fli_measure *m, const fli_device_eval *there)
{
    fli_peek list[LANES];
    size_t n = 0;
    for (size_t i = first_lane(m, own_rank(m)); i < first_lane(m, own_rank(m) + 1); i++) {
        list[n] = peek_of(m, i);
        n += list[n].n > 0;
    }
    if (n) there->foresee(there->arg, list, n);
}

/* fli_pool_fn: a lane measures its part. */
static void test_lane(void *arg, size_t item, size_t worker)
{
    fli_measure *m = arg;
    item += first_lane(m, own_rank(m));
    lane *l = &m->lanes[item];
    fli_peek at = peek_of(m, item);
    size_t hits = 0;
    if (!at.n) return;
    fli_eval *eval = &fli_exec_workers(m->exec)->evals[worker];
    double loss = fli_eval_loss(eval, at.ds, at.idx, at.n, at.x, NULL, &hits);
    (void)fli_model_status(m->ctx, m->setup->model,
                           " on the test set"); /* this thread has the failure; it is checked again below */
    l->test_n = (double)at.n;
    l->test_loss = l->test_n * loss;
    l->test_hits = (double)hits;
}

/* Gives the lanes' results to all ranks. */
static fl_status share_lanes(fli_measure *m)
{
    double found[LANES][3];
    if (!m->setup->ranks) return FL_OK;
    size_t *at = fli_alloc(m->ctx, m->setup->ranks->count + 1, sizeof *at);
    if (!at) return FL_ENOMEM;
    for (uint32_t r = 0; r <= m->setup->ranks->count; r++) at[r] = first_lane(m, r) * sizeof *found;
    for (size_t i = 0; i < LANES; i++) {
        const lane *l = &m->lanes[i];
        memcpy(found[i], (double[]){l->test_loss, l->test_hits, l->test_n}, sizeof *found);
    }
    fl_status s = fli_ranks_gather(m->ctx, m->setup->ranks, found, at);
    for (size_t i = 0; i < LANES; i++) {
        lane *l = &m->lanes[i];
        *l = (lane){found[i][0], found[i][1], found[i][2], l->gradient, l->ahead};
    }
    fli_free(at);
    return s;
}

static fl_status measure_test(fli_measure *m)
{
    fli_workers *workers = fli_exec_workers(m->exec);
    const fli_device_eval *there = workers->evals[0].elsewhere;
    if (!m->what->test || !m->test.samples) return FL_OK;
    if (there) foresee(m, there);
    fli_pool_run(workers->pool, first_lane(m, own_rank(m) + 1) - first_lane(m, own_rank(m)), test_lane, m);
    if (there) there->foresee(there->arg, NULL, 0);
    fl_status s = fli_model_status(m->ctx, m->setup->model, " on the test set");
    s = fli_ranks_agree(m->ctx, m->setup->ranks, s);
    return s ? s : share_lanes(m);
}

/* ---- a row ----------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef double figure_fn(const fli_client_figures *f);
static double accuracy(const fli_client_figures *f) { return f->accuracy; }
static double own_accuracy(const fli_client_figures *f) { return f->own_accuracy; }

static fli_sorted sort(const fli_measure *m, figure_fn *get, double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->asked.came; i++)
        if (!isnan(get(&m->asked.figures[i]))) out[n++] = get(&m->asked.figures[i]);
    qsort(out, n, sizeof *out, ascending);
    return (fli_sorted){out, n};
}

static lane total(fli_measure *m)
{
    lane t = m->lanes[0];
    for (size_t i = 1; i < LANES; i++) {
        const lane *l = &m->lanes[i];
        t.test_loss += l->test_loss;
        t.test_hits += l->test_hits;
        t.test_n += l->test_n;
        if (t.gradient) fli_axpy(m->space, 1, l->gradient, t.gradient);
        if (t.ahead) fli_axpy(m->space, 1, l->ahead, t.ahead);
    }
    return t;
}

static fli_measurement gather(fli_measure *m)
{
    lane t = total(m);
    fli_measurement moment = {
        .ctx = m->ctx,
        .exec = m->exec,
        .model = m->setup->model,
        .space = m->space,
        .what = m->what,
        .x = m->x,
        .clients = m->asked.figures,
        .count = m->asked.came,
        .test_loss = t.test_loss,
        .test_hits = t.test_hits,
        .test_n = t.test_n,
        .accuracies = sort(m, accuracy, m->asked.accuracies),
        .own_accuracies = sort(m, own_accuracy, m->asked.own),
        .table = m->asked.table,
        .clusters = m->asked.cells ? m->asked.cells / m->setup->classes : 0,
        .classes = m->setup->classes,
    };
    if (t.gradient) fli_axpy(m->space, fli_train_decay(&moment), m->x, t.gradient);
    if (t.ahead) fli_axpy(m->space, fli_train_decay(&moment), m->x, t.ahead);
    moment.gradient = t.gradient;
    moment.ahead = t.ahead;
    moment.smoothness = m->smoothness;
    return moment;
}

/* For a two-level problem, if wanted: with the clients' p_i, and with the weights with which the method's steps count,
 * which are mostly the same. */
static fl_status measure_levels(fli_measure *m, fli_counts *counts, fli_level_figures *out)
{
    const fl_method *a = m->setup->algo;
    const void *v = a->levels.v ? fli_exec_server(m->exec)[a->levels.v - 1] : NULL;
    fli_levels_solved by_p = {NAN, NAN, NAN, NAN}, by_work;
    fl_status s = FL_OK;
    *out = (fli_level_figures){NAN, NAN, NAN, NAN, NAN};
    if (!wants_levels(m->what, m->setup->model)) return FL_OK;
    if (m->what->hypergradient || !m->weights) s = fli_hypergradient(m->ctx, m->exec, m->x, v, NULL, counts, &by_p);
    by_work = by_p;
    if (!s && m->weights) s = fli_hypergradient(m->ctx, m->exec, m->x, v, m->weights, counts, &by_work);
    *out =
        (fli_level_figures){by_p.hypergradient, by_p.lower_distance, by_p.system_distance, by_work.hypergradient, NAN};
    if (!m->what->potential || !a->theory.potential.levels) return s;
    fli_algo_enter(a);
    out->potential = a->theory.potential.levels(by_work.value, by_work.lower_distance, by_work.system_distance);
    fli_algo_leave(a);
    return s;
}

fl_status fli_measure_take(fli_measure *m, const void *x, fli_counts *counts, fl_row *row)
{
    for (size_t i = 0; i < LANES; i++) {
        m->lanes[i] = (lane){.gradient = m->lanes[i].gradient, .ahead = m->lanes[i].ahead};
        if (m->lanes[i].gradient) fli_zero(m->space, m->lanes[i].gradient);
        if (m->lanes[i].ahead) fli_zero(m->space, m->lanes[i].ahead);
    }
    m->x = x;
    fl_status s = ask_clients(m, counts);
    if (s) return s;
    if ((s = measure_test(m))) return s;
    fli_measurement moment = gather(m);
    if ((s = fli_exec_status(m->exec)) || (s = measure_levels(m, counts, &moment.levels))) return s;
    m->taken = 1;
    fli_row_count(row, counts);
    return fli_row_measure(row, m->what, &moment);
}

size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out)
{
    *out = m->asked.figures;
    return m->taken && (m->what->clients || m->what->local) ? m->asked.came : 0;
}

int fli_measure_heard(const fli_measure *m) { return m->asked.came || !m->asked.count; }
