#include "exec/evaluate.h"

#include "local/pieces.h"
#include "model/latent.h"
#include "model/semi.h"

#include <math.h>
#include <string.h>

/* A client being looked at. */
typedef struct {
    const fli_evaluate_side *side;
    fli_eval *eval;
    fli_view view;
    const fli_ask *ask;
    const void *x, *own; /* own is x itself where the client has no model of its own */
    double mix;
    void *const *kept;     /* the client's vectors, */
    const double *scalars; /* and scalars; NULL: it has none, or nobody wants them */
    double *num;
    void *gradient; /* NULL: not wanted */
} visit;

static double decay(const visit *c, const void *x)
{
    const fli_model *m = c->side->model;
    return m->weight_decay != 0 ? 0.5 * fli_model_decay(m, c->view.n_train) * fli_dot(&m->space, x, x) : 0;
}

static void put(visit *c, size_t loss_at, double loss, size_t hits)
{
    c->num[loss_at] = loss;
    c->num[loss_at + 1] = (double)hits;
}

static void on_test(visit *c, const void *x, size_t at)
{
    size_t hits = 0;
    double loss = fli_eval_loss(c->eval, c->view.ds, c->view.test, c->view.n_test, x, NULL, &hits);
    put(c, at, loss, hits);
}

static fli_objective_at standpoint(const visit *c, const void *x, const void *own)
{
    void *const *kept = c->side->kept;
    return (fli_objective_at){x, own, c->mix, kept ? &kept[fli_fed_place(c->side->fed, c->ask->client)] : NULL};
}

/* The objective at x or, with an own model beside it, of the mixture, which is trained through that model. */
static fli_objective on_train(visit *c, const void *x, const void *own, void *g, size_t at)
{
    fli_objective_at where = standpoint(c, x, own);
    fli_objective o = fli_eval_objective(c->eval, &c->view, &where, g);
    put(c, at, o.value + decay(c, own ? own : x), o.correct);
    return o;
}

/* NaN where the client's second block is hidden from us. */
static double labels_move(visit *c)
{
    fli_objective_at where = standpoint(c, c->x, NULL);
    const fli_latent *latent = c->side->model->latent;
    if (!latent || !latent->kept) return 0;
    return where.kept ? fli_eval_second_block(c->eval, &c->view, &where) : NAN;
}

static void global_model(visit *c)
{
    uint32_t f = c->ask->flags;
    int same = f & FLI_FIGURES_OWN && c->own == c->x; /* then it is the own model's figures as well */
    int own_train = same && f & FLI_FIGURES_OWN_TRAIN;
    int test = c->view.n_test && (f & (FLI_FIGURES_TEST | FLI_FIGURES_EITHER) || same);
    int train =
        f & (FLI_FIGURES_TRAIN | FLI_FIGURES_GRADIENT) || (f & FLI_FIGURES_EITHER && !c->view.n_test) || own_train;
    if (test) on_test(c, c->x, FLI_FIGURE_TEST_LOSS);
    if (train) c->num[FLI_FIGURE_LABELLED_LOSS] = on_train(c, c->x, NULL, c->gradient, FLI_FIGURE_TRAIN_LOSS).labelled;
    if (c->gradient) c->num[FLI_FIGURE_LABELS_MOVE] = labels_move(c);
    c->num[FLI_FIGURE_HAS] += (test ? FLI_HAS_TEST : 0) + (train ? FLI_HAS_TRAIN : 0);
}

/* The mixture of the own and the global model on the test part. */
static void mixed_on_test(visit *c)
{
    size_t hits = 0;
    double loss = fli_eval_pair(c->eval, c->view.ds, c->view.test, c->view.n_test, c->x, c->own, c->mix, &hits);
    put(c, FLI_FIGURE_OWN_TEST_LOSS, loss, hits);
}

/* A client whose own model is the global one has been looked at already. Where a method mixes models, the second block
 * belongs to x, also with nothing of x in the mixture; else it belongs to the own model. */
static void own_model(visit *c)
{
    int mixes = c->side->algo->personal.mix != NULL;
    if (c->own == c->x) {
        memcpy(c->num + FLI_FIGURE_OWN_TRAIN_LOSS, c->num + FLI_FIGURE_TRAIN_LOSS, 4 * sizeof *c->num);
    } else {
        if (c->ask->flags & FLI_FIGURES_OWN_TRAIN)
            (void)on_train(c, mixes ? c->x : c->own, mixes ? c->own : NULL, NULL, FLI_FIGURE_OWN_TRAIN_LOSS);
        if (c->view.n_test && c->mix < 1)
            mixed_on_test(c);
        else if (c->view.n_test)
            on_test(c, c->own, FLI_FIGURE_OWN_TEST_LOSS);
    }
    c->num[FLI_FIGURE_OWN_MIX] = c->mix;
    c->num[FLI_FIGURE_HAS] += FLI_HAS_OWN;
}

/* How many of the labels that x gives to the client's unlabelled samples are right. */
static void pseudo_labels(visit *c)
{
    const fli_model *m = c->side->model;
    fli_eval *e = c->eval;
    const fli_semi *semi = m->latent_params;
    double least = semi->labels == FLI_SEMI_CLOSED_FORM ? semi->confidence : 0, p;
    fli_pieces piece = fli_pieces_of(e, c->view.ds, c->view.unlabelled, c->view.n_unlabelled);
    while (fli_pieces_next(&piece)) {
        const uint32_t *samples = piece.samples + piece.at;
        void *z = m->desc->logits(m, c->x, &e->batch, e->scratch);
        for (size_t i = 0; i < piece.n; i++) {
            size_t best = fli_likeliest(m, fli_at(m->space.ops, z, i * m->classes), &p);
            if (p < least) continue;
            c->num[FLI_FIGURE_PSEUDO_N]++;
            c->num[FLI_FIGURE_PSEUDO_HITS] += (int32_t)best == fli_fed_truth(c->side->fed, samples[i]);
        }
    }
    c->num[FLI_FIGURE_HAS] += FLI_HAS_PSEUDO;
}

static int32_t truth(const visit *c, uint32_t sample)
{
    return c->side->fed->train ? fli_fed_truth(c->side->fed, sample) : c->view.ds->label[sample];
}

static void clusters(visit *c)
{
    const fli_model *m = c->side->model;
    uint32_t found[FLI_PIECE_MOST];
    fli_eval *e = c->eval;
    size_t classes = c->side->fed->classes;
    double *count = c->num + FLI_FIGURES_CLUSTERS_AT;
    memset(count, 0, fli_figures_cells(m, classes) * sizeof *count);
    fli_pieces p = fli_pieces_of(e, c->view.ds, c->view.train, c->view.n_train);
    while (fli_pieces_next(&p)) {
        m->desc->clusters(m, c->x, &e->batch, found, e->scratch);
        for (size_t i = 0; i < p.n; i++) count[found[i] * classes + (size_t)truth(c, p.samples[p.at + i])] += 1;
    }
}

/* The method says where it wants f_i and the gradient, and what it makes of them. */
static fl_status potential(visit *c, const fli_message *sent, const void *start)
{
    const fli_evaluate_side *s = c->side;
    const fli_space *space = &s->model->space;
    const fli_potential *p = &s->algo->theory.potential;
    fli_turn t = {.space = space,
                  .params = s->params,
                  .ask = c->ask,
                  .clients = s->fed->clients,
                  .initial = start,
                  .down = (const void *const *)sent->vec,
                  .down_scalars = sent->num,
                  .state = c->kept,
                  .scalars = (double *)c->scalars, /* to be read */
                  .watched = s->watch};
    void *gradient = fli_alloc(s->ctx, space->n, space->ops->size);
    if (!gradient) return FL_ENOMEM;
    const void *at = p->point(&t);
    double f = fli_eval_loss(c->eval, c->view.ds, c->view.train, c->view.n_train, at, gradient, NULL) + decay(c, at);
    fli_axpy(space, fli_model_decay(s->model, c->view.n_train), at, gradient);
    p->client(&t, f, gradient, c->num + FLI_FIGURES_POTENTIAL_AT);
    fli_free(gradient);
    return FL_OK;
}

static void look(visit *c)
{
    const fli_evaluate_side *s = c->side;
    memset(c->num, 0, FLI_FIGURES * sizeof *c->num);
    c->num[FLI_FIGURE_TRAIN_N] = (double)c->view.n_train;
    c->num[FLI_FIGURE_TEST_N] = (double)c->view.n_test;
    global_model(c);
    if (c->ask->flags & FLI_FIGURES_PSEUDO && s->model->latent_params && s->fed->truth) pseudo_labels(c);
    if (c->ask->flags & FLI_FIGURES_OWN) own_model(c);
    if (c->ask->flags & FLI_FIGURES_CLUSTERS && fli_figures_cells(s->model, s->fed->classes)) clusters(c);
}

static fl_status with_state(visit *c, fli_exchange *x, const void *start)
{
    const fli_evaluate_side *s = c->side;
    if (x->ask.kind == FLI_ASK_OWN_MODEL) {
        fli_copy(&s->model->space, c->own, x->up.vec[0]);
        x->up.num[0] = c->mix;
        return FL_OK;
    }
    fl_status status = fli_view_open(s->ctx, s->fed, x->ask.client, &c->view);
    if (status) return status;
    look(c);
    if (c->ask->flags & FLI_FIGURES_POTENTIAL && s->algo->theory.potential.name) status = potential(c, x->down, start);
    fli_view_close(&c->view);
    return status;
}

static fl_status levels(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *x)
{
    uint32_t flags = x->ask.flags;
    fli_derivative d = {.work = flags & FLI_LEVELS_PRODUCT ? FLI_WORK_PRODUCT
                                : flags & FLI_LEVELS_UPPER ? FLI_WORK_UPPER_GRADIENT
                                                           : FLI_WORK_LOWER_GRADIENT,
                        .z = x->down->vec[0],
                        .v = flags & FLI_LEVELS_PRODUCT ? x->down->vec[1] : NULL,
                        .seed = side->seed,
                        .client = x->ask.client};
    fli_view view;
    if (!side->model->bilevel)
        return fli_fail(side->ctx, FL_EFORMAT, "client %u: it is asked for two levels, but there is one", d.client);
    fl_status s = fli_view_open(side->ctx, side->fed, d.client, &view);
    if (s) return s;
    s = fli_derivative_over(side->ctx, eval, &view, &d, x->up.vec[0]);
    fli_view_close(&view);
    return s;
}

/* The client's own model is its vector, if the method has one and the client has had a turn; before that the start
 * model, where clients are shown it; else the global one. */
fl_status fli_evaluate(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *x)
{
    const fli_algo *a = side->algo;
    uint32_t client = x->ask.client;
    if (x->ask.kind == FLI_ASK_LEVELS) return levels(side, eval, x);
    int wants = x->ask.kind == FLI_ASK_OWN_MODEL || x->ask.flags & FLI_FIGURES_OWN;
    int looks = (wants && a->personal.model) || x->ask.flags & FLI_FIGURES_POTENTIAL;
    visit c = {.side = side, .eval = eval, .ask = &x->ask, .x = x->down->vec[0], .num = x->up.num};
    c.gradient = x->ask.flags & FLI_FIGURES_GRADIENT ? x->up.vec[0] : NULL;
    fl_status s = looks ? fli_store_peek(side->store, client, &c.kept) : FL_OK;
    if (s) return s;
    c.scalars = c.kept ? fli_store_scalars(side->store, client) : NULL;
    const void *start = x->ask.flags & FLI_ASK_FIRST ? x->down->start : NULL;
    c.own = !a->personal.model ? c.x : c.kept ? c.kept[a->personal.model - 1] : start ? start : c.x;
    c.mix =
        a->personal.mix && wants ? a->personal.mix(side->params, client, fli_store_scalars(side->store, client)) : 1;
    s = with_state(&c, x, start);
    if (c.kept) fli_store_release(side->store, client);
    return s;
}
