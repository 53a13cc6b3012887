/* Figures, the clients' side: losses, hits, gradients and potentials of models on a client's samples, for asks that are
 * not turns; they change nothing of a client. Also the workers: threads, with memory for each (workers.h). */
#include "algo/user_method.h"
#include "base/number.h"
#include "client/clients.h"
#include "model/model.h"
#include "model/semi.h"
#include "solver/minibatch.h"

#include <math.h>
#include <string.h>

/* ==== figures ============================================================================================== */

/* The squared norm of the model that was measured last: many clients are asked about the same one. */
typedef struct {
    const void *of;
    double value;
} squared_norm;

/* The measurement of one client. */
typedef struct {
    const fli_evaluate_side *side;
    fli_eval *eval;
    squared_norm *squared_norm; /* shared by all measurements of one call */
    fli_exchange *exchange;
    fli_view view;
    int viewed; /* `view` is open */
    const fl_ask *ask;
    const void *start;   /* the start model, if it was sent */
    const void *x, *own; /* own == x if the client has no own model */
    double mix;
    void *const *kept;     /* the client's vectors */
    const double *scalars; /* the client's scalars; NULL: it has none, or they are not needed */
    double *num;
    void *gradient; /* NULL: not wanted */
} measurement;

static double decay(const measurement *c, const void *x)
{
    const fli_model *m = c->side->setup->model;
    if (m->weight_decay == 0) return 0;
    if (c->squared_norm->of != x) *c->squared_norm = (squared_norm){x, fli_dot(&c->side->space, x, x)};
    return 0.5 * fli_model_decay(m, c->view.n_train) * c->squared_norm->value;
}

static void put(measurement *c, size_t loss_at, double loss, size_t hits)
{
    c->num[loss_at] = loss;
    c->num[loss_at + 1] = (double)hits;
}

static void on_test(measurement *c, const void *x, size_t at)
{
    size_t hits = 0;
    double loss = fli_eval_loss(c->eval, c->view.ds, c->view.test, c->view.n_test, x, NULL, &hits);
    put(c, at, loss, hits);
}

static fli_objective_at point_of(const measurement *c, const void *x, const void *own)
{
    void *const *kept = c->side->kept;
    return (fli_objective_at){.x = x,
                              .own = own,
                              .mix = c->mix,
                              .kept = kept ? &kept[fli_fed_place(c->side->setup->fed, c->ask->client)] : NULL};
}

/* The objective at x or, if `own` is not NULL, of the mixture with the own model, through which it is trained. */
static fli_objective on_train(measurement *c, const void *x, const void *own, void *g, size_t at)
{
    fli_objective_at where = point_of(c, x, own);
    fli_objective o = fli_eval_objective(c->eval, &c->view, &where, g);
    put(c, at, o.value + decay(c, own ? own : x), o.correct);
    return o;
}

/* How far the second block would move; NaN if the client's second block is hidden. */
static double labels_move(measurement *c)
{
    fli_objective_at where = point_of(c, c->x, NULL);
    const fli_latent *latent = c->side->setup->model->latent;
    if (!latent || !latent->kept) return 0;
    return where.kept ? fli_eval_second_block(c->eval, &c->view, &where) : NAN;
}

/* Evaluates in plain memory although the model is on a device: the figures that need it are rare, and devices cannot
 * compute them. */
typedef struct {
    fli_eval eval;
    void *x, *own;
} plain;

static void plain_fini(plain *p)
{
    fli_eval_fini(&p->eval);
    fli_free(p->x);
    fli_free(p->own);
}

static fl_status plain_init(const measurement *c, plain *p)
{
    const fli_evaluate_side *s = c->side;
    size_t bytes = fli_bytes(&s->space);
    *p = (plain){.x = fli_alloc(s->ctx, bytes, 1), .own = fli_alloc(s->ctx, bytes, 1)};
    fl_status status = p->x && p->own ? fli_eval_init(s->ctx, s->setup->model, &p->eval) : FL_ENOMEM;
    if (status) {
        plain_fini(p);
        return status;
    }
    fli_vector_read(&s->space, bytes, c->x, p->x);
    fli_vector_read(&s->space, bytes, c->own, p->own);
    return FL_OK;
}

/* The slope of the objective in the second block. */
static fl_status block_slope(measurement *c)
{
    fli_objective_at where = point_of(c, c->x, NULL);
    double *slope = &c->num[FLI_FIGURE_LABELS_SLOPE];
    plain p;
    if (!c->eval->elsewhere) {
        *slope = fli_eval_block_slope(c->eval, &c->view, &where);
        return FL_OK;
    }
    fl_status s = plain_init(c, &p);
    if (s) return s;
    where.x = p.x;
    *slope = fli_eval_block_slope(&p.eval, &c->view, &where);
    plain_fini(&p);
    return FL_OK;
}

/* The gradient in x after the second block has moved, and that slope. */
static fl_status look_ahead(measurement *c)
{
    fli_objective_at where = point_of(c, c->x, NULL);
    where.ahead = 1;
    (void)fli_eval_objective(c->eval, &c->view, &where, c->exchange->up.vec[1]);
    return block_slope(c);
}

/* The squared gradient, in the own model, of the objective that trains it; computed by `eval` in space s. */
static fl_status own_gradient_in(measurement *c, fli_eval *eval, const fl_space *s, const void *x, const void *own)
{
    const fli_evaluate_side *side = c->side;
    int mixes = side->setup->algo->personal.mix != NULL;
    fli_objective_at where = point_of(c, mixes ? x : own, mixes ? own : NULL);
    void *g = fli_vector_alloc(side->ctx, s, fli_bytes(s));
    if (!g) return FL_ENOMEM;
    (void)fli_eval_objective(eval, &c->view, &where, g);
    fli_axpy(s, fli_model_decay(side->setup->model, c->view.n_train), own, g);
    c->num[FLI_FIGURE_OWN_GRADIENT2] = fli_dot(s, g, g);
    fli_vector_free(s, g);
    return FL_OK;
}

static fl_status own_gradient(measurement *c)
{
    const fli_evaluate_side *side = c->side;
    plain p;
    if (!(side->setup->algo->personal.mix && c->mix < 1 && c->eval->elsewhere))
        return own_gradient_in(c, c->eval, &side->space, c->x, c->own);
    fl_status s = plain_init(c, &p);
    if (s) return s;
    s = own_gradient_in(c, &p.eval, &side->setup->model->space, p.x, p.own);
    plain_fini(&p);
    return s;
}

/* Which models are evaluated on which samples. */
typedef struct {
    int test, train, own_test, own_train;
} wanted;

static wanted wants(const measurement *c)
{
    uint32_t f = c->ask->flags;
    int own = (f & FLI_FIGURES_OWN) != 0, same = own && c->own == c->x; /* then both models are the global one */
    int own_train = own && f & FLI_FIGURES_OWN_TRAIN;
    return (wanted){
        .test = c->view.n_test && (f & (FLI_FIGURES_TEST | FLI_FIGURES_EITHER) || same),
        .train = f & (FLI_FIGURES_TRAIN | FLI_FIGURES_GRADIENT) || (f & FLI_FIGURES_EITHER && !c->view.n_test) ||
                 (same && own_train),
        .own_test = own && !same && c->view.n_test,
        .own_train = own_train && !same,
    };
}

static fl_status global_model(measurement *c)
{
    wanted w = wants(c);
    if (w.test) on_test(c, c->x, FLI_FIGURE_TEST_LOSS);
    if (w.train)
        c->num[FLI_FIGURE_LABELLED_LOSS] = on_train(c, c->x, NULL, c->gradient, FLI_FIGURE_TRAIN_LOSS).labelled;
    if (c->gradient) c->num[FLI_FIGURE_LABELS_MOVE] = labels_move(c);
    c->num[FLI_FIGURE_HAS] += (w.test ? FLI_HAS_TEST : 0) + (w.train ? FLI_HAS_TRAIN : 0);
    return c->ask->flags & FLI_FIGURES_AHEAD ? look_ahead(c) : FL_OK;
}

/* The mixture of the own and the global model on the test part. */
static void mixed_on_test(measurement *c)
{
    size_t hits = 0;
    double loss = fli_eval_pair(c->eval, c->view.ds, c->view.test, c->view.n_test, c->x, c->own, c->mix, &hits);
    put(c, FLI_FIGURE_OWN_TEST_LOSS, loss, hits);
}

/* If the own model is the global one, its figures are copied. For methods that mix models, the second block belongs to
 * x, even if the mixture does not contain x; otherwise it belongs to the own model. */
static void own_model(measurement *c)
{
    int mixes = c->side->setup->algo->personal.mix != NULL;
    wanted w = wants(c);
    if (c->own == c->x) memcpy(c->num + FLI_FIGURE_OWN_TRAIN_LOSS, c->num + FLI_FIGURE_TRAIN_LOSS, 4 * sizeof *c->num);
    if (w.own_train) (void)on_train(c, mixes ? c->x : c->own, mixes ? c->own : NULL, NULL, FLI_FIGURE_OWN_TRAIN_LOSS);
    if (w.own_test && c->mix < 1)
        mixed_on_test(c);
    else if (w.own_test)
        on_test(c, c->own, FLI_FIGURE_OWN_TEST_LOSS);
    c->num[FLI_FIGURE_OWN_MIX] = c->mix;
    c->num[FLI_FIGURE_HAS] += FLI_HAS_OWN;
}

/* Counts a sample with these logits, unless they are too uncertain for a pseudo label. */
static void pseudo_label(measurement *c, const void *logits, uint32_t sample)
{
    const fli_model *m = c->side->setup->model;
    const fli_semi *semi = m->latent_params;
    double least = semi->labels == FLI_SEMI_CLOSED_FORM ? semi->confidence : 0, p;
    size_t best = fli_likeliest(m, logits, &p);
    if (p < least) return;
    c->num[FLI_FIGURE_PSEUDO_N]++;
    c->num[FLI_FIGURE_PSEUDO_HITS] += (int32_t)best == fli_fed_truth(c->side->setup->fed, sample);
}

/* The model is on a device, which computes the logits. */
static fl_status pseudo_labels_at_site(measurement *c)
{
    const fli_model *m = c->side->setup->model;
    const fli_device_eval *there = c->eval->elsewhere;
    size_t n = c->view.n_unlabelled;
    double *logits = fli_alloc(c->side->ctx, n, m->classes * sizeof *logits);
    void *row = fli_alloc(c->side->ctx, m->classes, m->space.ops->size);
    fl_status s = logits && row ? FL_OK : FL_ENOMEM;
    if (!s && n) there->logits(there->arg, c->view.ds, c->view.unlabelled, n, c->x, logits);
    for (size_t i = 0; !s && i < n; i++) {
        m->space.ops->from_f64(m->classes, logits + i * m->classes, row);
        pseudo_label(c, row, c->view.unlabelled[i]);
    }
    fli_free(logits);
    fli_free(row);
    return s;
}

/* Counts the correct pseudo labels that x gives to the client's unlabelled samples. */
static fl_status pseudo_labels(measurement *c)
{
    const fli_model *m = c->side->setup->model;
    fli_eval *e = c->eval;
    c->num[FLI_FIGURE_HAS] += FLI_HAS_PSEUDO;
    if (e->elsewhere) return pseudo_labels_at_site(c);
    fli_pieces piece = fli_pieces_of(e, c->view.ds, c->view.unlabelled, c->view.n_unlabelled);
    while (fli_pieces_next(&piece)) {
        const uint32_t *samples = piece.samples + piece.at;
        void *z = m->desc->logits(m, c->x, &e->batch, e->scratch);
        for (size_t i = 0; i < piece.n; i++) pseudo_label(c, fli_at(m->space.ops, z, i * m->classes), samples[i]);
    }
    return FL_OK;
}

static int32_t truth(const measurement *c, uint32_t sample)
{
    return c->side->setup->fed->train ? fli_fed_truth(c->side->setup->fed, sample) : c->view.ds->label[sample];
}

static void clusters(measurement *c)
{
    const fli_model *m = c->side->setup->model;
    uint32_t found[FLI_PIECE_MOST];
    fli_eval *e = c->eval;
    size_t classes = c->side->setup->fed->classes;
    double *count = c->num + FLI_FIGURES_CLUSTERS_AT;
    memset(count, 0, fli_figures_cells(m, classes) * sizeof *count);
    fli_pieces p = fli_pieces_of(e, c->view.ds, c->view.train, c->view.n_train);
    while (fli_pieces_next(&p)) {
        m->desc->clusters(m, c->x, &e->batch, found, e->scratch);
        for (size_t i = 0; i < p.n; i++) count[found[i] * classes + (size_t)truth(c, p.samples[p.at + i])] += 1;
    }
}

/* f_i(x). For methods with a second block f_i(x, y_i) at the y_i that the client keeps; NaN if it keeps none or hides
 * it. */
static double potential_value(measurement *c, const void *at, void *gradient)
{
    const fli_latent *latent = c->side->setup->model->latent;
    fli_objective_at where = point_of(c, at, NULL);
    if (!latent || !(c->side->setup->algo->traits & FL_METHOD_BLOCKS))
        return fli_eval_loss(c->eval, c->view.ds, c->view.train, c->view.n_train, at, gradient, NULL) + decay(c, at);
    double f = fli_eval_objective(c->eval, &c->view, &where, gradient).value + decay(c, at);
    return latent->kept && !latent->every && where.kept ? f : NAN;
}

/* The method chooses the point for f_i and its gradient, and computes its potential from them. */
static fl_status ask_potential(measurement *c, fl_turn *t, void *gradient)
{
    const fli_evaluate_side *s = c->side;
    const fl_potential *p = &s->setup->algo->theory.potential;
    fl_failure failure = {{0}};
    t->failure = &failure;
    fli_algo_enter(s->setup->algo);
    const void *at = p->point(t);
    fli_algo_leave(s->setup->algo);
    if (!at) fl_failed(&failure, "it has no point");
    if (!fli_has_failed(&failure)) {
        double f = potential_value(c, at, gradient);
        fli_axpy(&s->space, fli_model_decay(s->setup->model, c->view.n_train), at, gradient);
        fli_algo_enter(s->setup->algo);
        p->client(t, f, gradient, c->num + FLI_FIGURES_POTENTIAL_AT);
        fli_algo_leave(s->setup->algo);
    }
    if (!fli_has_failed(&failure)) return FL_OK;
    fl_failure *why = &c->exchange->why;
    fli_snprintf(why->text, sizeof why->text, "method %s failed in its potential at client %u: %s",
                 s->setup->algo->name, t->ask.client, failure.text);
    return fli_fail(s->ctx, FL_ECALLBACK, "%s", why->text);
}

/* Asks the method for its potential. Of the server's vectors only the model is there. */
static fl_status potential(measurement *c)
{
    const fli_evaluate_side *s = c->side;
    const fl_space *space = &s->space;
    const fli_message *sent = c->exchange->down;
    size_t vectors = fli_names_count(s->setup->algo->server), stride = fli_vector_stride(space);
    fl_turn t = {.space = *space,
                 .arg = fli_method_arg(s->setup->algo, s->setup->params),
                 .bound = s->setup->params,
                 .ask = *c->ask,
                 .sent = 1,
                 .away = (c->ask->flags & FLI_ASK_AWAY) != 0,
                 .clients = s->setup->clients,
                 .initial = c->start,
                 .down = (const void *const *)sent->vec,
                 .down_scalars = sent->num,
                 .state = c->kept,
                 .scalars = (double *)c->scalars, /* only read */
                 .watched = s->setup->measure_potential};
    int hides = (s->setup->algo->traits & FLI_METHOD_REGISTERED) != 0;
    char *gradient = fli_vector_alloc(s->ctx, space, hides ? 2 * stride : stride);
    const void **seen = hides ? fli_alloc(s->ctx, vectors, sizeof *seen) : NULL;
    double *numbers = hides ? fli_alloc(s->ctx, s->setup->algo->server_scalars + 1, sizeof *numbers) : NULL;
    fl_status status = gradient && (!hides || (seen && numbers)) ? FL_OK : FL_ENOMEM;
    if (!status && hides) fli_method_hide(s->setup->algo, 1, seen, numbers, gradient + stride, &t);
    if (!status) status = ask_potential(c, &t, gradient);
    fli_free(seen);
    fli_free(numbers);
    fli_vector_free(space, gradient);
    return status;
}

static fl_status measure(measurement *c)
{
    const fli_evaluate_side *s = c->side;
    memset(c->num, 0, FLI_FIGURES * sizeof *c->num);
    c->num[FLI_FIGURE_TRAIN_N] = (double)c->view.n_train;
    c->num[FLI_FIGURE_TEST_N] = (double)c->view.n_test;
    fl_status status = global_model(c);
    if (!status && c->ask->flags & FLI_FIGURES_PSEUDO && s->setup->model->latent_params && s->setup->fed->truth)
        status = pseudo_labels(c);
    if (c->ask->flags & FLI_FIGURES_OWN) own_model(c);
    if (!status && c->ask->flags & FLI_FIGURES_OWN_GRADIENT) status = own_gradient(c);
    if (c->ask->flags & FLI_FIGURES_CLUSTERS && fli_figures_cells(s->setup->model, s->setup->fed->classes)) clusters(c);
    if (!status && c->ask->flags & FLI_FIGURES_POTENTIAL && s->setup->algo->theory.potential.client)
        status = potential(c);
    return status;
}

static fl_status own_model_up(const measurement *c)
{
    fli_copy(&c->side->space, c->own, c->exchange->up.vec[0]);
    c->exchange->up.num[0] = c->mix;
    return FL_OK;
}

static fl_status levels(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *x)
{
    uint32_t flags = x->ask.flags;
    fli_derivative d = {.work = flags & FLI_LEVELS_PRODUCT ? FL_WORK_PRODUCT
                                : flags & FLI_LEVELS_UPPER ? FL_WORK_UPPER_GRADIENT
                                                           : FL_WORK_LOWER_GRADIENT,
                        .z = x->down->vec[0],
                        .v = flags & FLI_LEVELS_PRODUCT ? x->down->vec[1] : NULL,
                        .value = flags & FLI_LEVELS_UPPER ? x->up.num : NULL,
                        .seed = side->setup->seed,
                        .client = x->ask.client};
    fli_view view;
    if (!side->setup->model->bilevel)
        return fli_fail(side->ctx, FL_EFORMAT, "client %u: it is asked for two levels, but there is one", d.client);
    fl_status s = fli_view_open(side->ctx, side->setup->fed, d.client, &view);
    if (s) return s;
    s = fli_derivative_over(side->ctx, eval, &view, &d, x->up.vec[0]);
    fli_view_close(&view);
    return s;
}

/* Finds the own model: the client's vector, if the method has one and the client has had a turn; else the start model,
 * if it was sent; else the global model. */
static fl_status begin(measurement *c)
{
    const fli_evaluate_side *side = c->side;
    const fl_method *a = side->setup->algo;
    const fli_exchange *x = c->exchange;
    uint32_t client = x->ask.client;
    int wants_own = x->ask.kind == FLI_ASK_OWN_MODEL || x->ask.flags & FLI_FIGURES_OWN;
    size_t own = fli_algo_own_model(a);
    int looks = (wants_own && own) || x->ask.flags & FLI_FIGURES_POTENTIAL;
    fl_status s = looks ? fli_store_peek(side->store, client, &c->kept) : FL_OK;
    if (s) return s;
    c->scalars = c->kept ? fli_store_scalars(side->store, client) : NULL;
    c->start = x->ask.flags & FLI_ASK_FIRST ? x->down->start : NULL;
    c->own = !own ? c->x : c->kept ? c->kept[own - 1] : c->start ? c->start : c->x;
    c->mix = wants_own ? fli_algo_mix(a, side->setup->params, client, fli_store_scalars(side->store, client)) : 1;
    if (x->ask.kind == FLI_ASK_OWN_MODEL) return FL_OK;
    s = fli_view_open(side->ctx, side->setup->fed, client, &c->view);
    c->viewed = !s;
    return s;
}

static void end(measurement *c)
{
    if (c->viewed) fli_view_close(&c->view);
    if (c->kept) fli_store_release(c->side->store, c->ask->client);
}

/* ---- evaluations announced to a device beforehand --------------------------------------------------------- */

enum { PEEKS = 4 };

static size_t peeks_of(const measurement *c, fli_peek *out)
{
    const fli_view *v = &c->view;
    wanted w = wants(c);
    size_t n = 0;
    int both = c->mix < 1;
    fli_peek own = {v->ds, NULL, 0, both ? c->x : c->own, both ? c->own : NULL, c->mix};
    if (w.test) out[n++] = (fli_peek){v->ds, v->test, v->n_test, c->x, NULL, 1};
    if (w.train && !c->gradient) out[n++] = (fli_peek){v->ds, v->train, v->n_train, c->x, NULL, 1};
    if (w.own_test) out[n] = own, out[n].idx = v->test, out[n++].n = v->n_test;
    if (w.own_train) out[n] = own, out[n].idx = v->train, out[n++].n = v->n_train;
    return n;
}

static fl_status foresee(const fli_device_eval *there, fl_ctx *ctx, const measurement *all, size_t n)
{
    size_t count = 0;
    fli_peek *list = fli_alloc(ctx, n, PEEKS * sizeof *list);
    if (!list) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (all[i].viewed) count += peeks_of(&all[i], list + count);
    if (count) there->foresee(there->arg, list, count);
    fli_free(list);
    return FL_OK;
}

static void evaluate(const fli_evaluate_side *side, fli_eval *eval, measurement *all, fli_exchange *const *list,
                     size_t n)
{
    const fli_device_eval *there = eval->elsewhere;
    squared_norm last = {0};
    for (size_t i = 0; i < n; i++) {
        fli_exchange *x = list[i];
        all[i] = (measurement){
            .side = side, .eval = eval, .squared_norm = &last, .exchange = x, .ask = &x->ask, .num = x->up.num};
        all[i].x = x->down->vec[0];
        all[i].gradient = x->ask.flags & FLI_FIGURES_GRADIENT ? x->up.vec[0] : NULL;
        x->status = x->ask.kind == FLI_ASK_LEVELS ? FL_OK : begin(&all[i]);
    }
    fl_status s = there ? foresee(there, side->ctx, all, n) : FL_OK;
    for (size_t i = 0; i < n; i++) {
        fli_exchange *x = list[i];
        if (!x->status) x->status = s;
        if (!x->status)
            x->status = x->ask.kind == FLI_ASK_LEVELS      ? levels(side, eval, x)
                        : x->ask.kind == FLI_ASK_OWN_MODEL ? own_model_up(&all[i])
                                                           : measure(&all[i]);
    }
    if (there) there->foresee(there->arg, NULL, 0);
    for (size_t i = 0; i < n; i++) end(&all[i]);
}

void fli_evaluate(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *const *list, size_t n)
{
    measurement one, *all = n == 1 ? &one : fli_alloc(side->ctx, n, sizeof *all);
    for (size_t i = 0; !all && i < n; i++) list[i]->status = FL_ENOMEM;
    if (all) evaluate(side, eval, all, list, n);
    if (all != &one) fli_free(all);
}
