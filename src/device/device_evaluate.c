/* Evaluation on a device: pseudo labels, and the work of solver/evaluate.c. */
#include "base/number.h"
#include "device/device.h"
#include "solver/minibatch.h"

#include <math.h>

/* ==== pseudo labels ======================================================================================= */

/* The device computes logits; classes are few, so the CPU computes the rows, as in the CPU's own path. */

/* A part of the rows of a client's y. */
typedef struct {
    const fli_device_labels *of;
    const uint32_t *samples; /* the rows' samples */
    const uint32_t *rows;    /* the rows' indices; NULL: all of y, in order */
    size_t n;                /* f_i is a mean over these in this step */
} part;

static void improve_part(const fli_device *d, const part *p, int64_t steps, const double *logits, double *work)
{
    const fli_model *m = &d->model;
    const fli_ops *ops = m->space.ops;
    if (!p->rows) {
        fli_semi_improve(m, p->n, logits, p->n, steps, p->of->y, work);
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        fli_semi_improve(m, 1, logits + i * m->classes, p->n, steps, fli_at(ops, p->of->y, p->rows[i] * m->classes),
                         work);
}

/* All parts are of one data set. */
static fl_status improve(fl_ctx *ctx, fli_device *d, const part *parts, size_t count, int64_t steps)
{
    size_t rows = 0, used = 0, classes = d->model.classes;
    fli_arena a;
    fli_arena_init(&a, ctx);
    for (size_t i = 0; i < count; i++) rows += parts[i].n;
    fli_engine_outputs *o = fli_arena_alloc(&a, count, sizeof *o);
    double *logits = fli_arena_alloc(&a, rows * classes, sizeof *logits);
    double *work = fli_arena_alloc(&a, 4 * classes, sizeof *work);
    fl_status s = o && logits && work ? FL_OK : FL_ENOMEM;
    double *at = logits;
    for (size_t i = 0; !s && i < count; i++) {
        if (!parts[i].n) continue;
        o[used++] = (fli_engine_outputs){
            .x = parts[i].of->x, .samples = parts[i].samples, .n = parts[i].n, .logits = 1, .out = at};
        at += parts[i].n * classes;
    }
    fli_recorder_play(d->recorder);
    if (!s && used) s = d->engine->does->outputs(ctx, d->net, fli_device_data(d, parts->of->ds), o, used);
    at = logits;
    for (size_t i = 0; !s && i < count; i++) {
        improve_part(d, &parts[i], steps, at, work);
        at += parts[i].n * classes;
    }
    fli_arena_fini(&a);
    return s;
}

static int64_t all_steps(const fli_device *d) { return ((const fli_semi *)d->model.latent_params)->label_steps; }

static part whole(const fli_device_labels *l) { return (part){l, l->samples, NULL, l->n}; }

/* As fli_latent.improve, for several clients at once. */
static fl_status labels_improve(fl_ctx *ctx, fli_device *d, const fli_device_labels *list, size_t count)
{
    part *parts = fli_alloc(ctx, count, sizeof *parts);
    if (!parts) return FL_ENOMEM;
    for (size_t i = 0; i < count; i++) parts[i] = whole(&list[i]);
    fl_status s = count ? improve(ctx, d, parts, count, all_steps(d)) : FL_OK;
    fli_free(parts);
    return s;
}

/* ---- stochastic steps ------------------------------------------------------------------------------------ */

/* A client that takes stochastic steps. */
typedef struct {
    fli_sample_pass pass;
    fli_rng *rng;
    uint32_t *samples; /* of the mini-batch */
} course;

static fl_status course_init(fli_arena *a, const fli_device_labels *l, size_t batch, fli_rng *rng, course *c)
{
    uint32_t *order = fli_arena_alloc(a, l->n, sizeof *order);
    c->samples = fli_arena_alloc(a, batch, sizeof *c->samples);
    if (!order || !c->samples) return FL_ENOMEM;
    for (size_t i = 0; i < l->n; i++) order[i] = (uint32_t)i;
    c->pass = fli_pass_over(&(fli_sgd_spec){.batch = batch}, order, l->n);
    c->rng = rng;
    return FL_OK;
}

static part next_part(const fli_device_labels *l, course *c)
{
    fli_pass_next(&c->pass, c->rng);
    for (size_t i = 0; i < c->pass.count; i++) c->samples[i] = l->samples[c->pass.now[i]];
    return (part){l, c->samples, c->pass.now, c->pass.count};
}

/* Mini-batch after mini-batch, for all clients at once. Clients with no more samples than a mini-batch take all of
 * their steps in the first one. */
fl_status fli_device_labels_turn(fl_ctx *ctx, fli_device *d, const fli_device_labels *list, size_t count,
                                 fli_rng *const *rng)
{
    const fli_latent *latent = d->model.latent;
    size_t steps = 0, batch = latent->batch ? latent->batch(&d->model, &steps) : 0, full = 0, drawn = 0;
    if (!batch) return labels_improve(ctx, d, list, count);
    fli_arena a;
    fli_arena_init(&a, ctx);
    part *parts = fli_arena_alloc(&a, count, sizeof *parts);
    course *courses = fli_arena_alloc(&a, count, sizeof *courses);
    const fli_device_labels **who = fli_arena_alloc(&a, count, sizeof *who);
    fl_status s = parts && courses && who ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i < count; i++)
        if (list[i].n <= batch) {
            parts[full++] = whole(&list[i]);
        } else {
            who[drawn] = &list[i];
            s = course_init(&a, &list[i], batch, rng[i], &courses[drawn++]);
        }
    if (!s && full) s = improve(ctx, d, parts, full, all_steps(d));
    for (size_t k = 0; !s && drawn && k < steps; k++) {
        for (size_t i = 0; i < drawn; i++) parts[i] = next_part(who[i], &courses[i]);
        s = improve(ctx, d, parts, drawn, 1);
    }
    fli_arena_fini(&a);
    return s;
}

/* ==== losses, gradients, outputs ========================================================================== */

/* Evaluations return numbers only: their failure is stored, and reported later. */
static void note_failure(fli_device *d, fl_status s)
{
    if (!s || d->failed) return;
    d->failed = s;
    fli_snprintf(d->why, sizeof d->why, "%s", fl_ctx_error(d->ctx));
}

static void evaluate(fli_device *d, const fli_dataset *ds, fli_engine_eval *l, size_t count)
{
    fli_recorder_play(d->recorder);
    fl_status s = d->failed ? d->failed : d->engine->does->evaluate(d->ctx, d->net, fli_device_data(d, ds), l, count);
    note_failure(d, s);
    for (size_t i = 0; s && i < count; i++) {
        l[i].loss = NAN;
        l[i].correct = 0;
    }
}

/* ---- announced evaluations ------------------------------------------------------------------------------- */

static int same_peek(const fli_peek *a, const fli_peek *b)
{
    return a->ds == b->ds && a->idx == b->idx && a->n == b->n && a->x == b->x && a->own == b->own &&
           (!a->own || a->mix == b->mix);
}

/* Finds an announced evaluation; they are mostly used in the order of their announcement. */
static const fli_eval_ahead *find_seen(fli_device *d, const fli_peek *at)
{
    for (size_t i = 0; i < d->seen_count; i++) {
        const fli_eval_ahead *s = &d->seen[(d->seen_next + i) % d->seen_count];
        if (!same_peek(&s->at, at)) continue;
        d->seen_next = (d->seen_next + i + 1) % d->seen_count;
        return s;
    }
    return NULL;
}

static fli_engine_eval eval_of(const fli_peek *g)
{
    return (fli_engine_eval){.x = g->x, .own = g->own, .mix = g->mix, .samples = g->idx, .n = g->n};
}

/* Evaluates the announced ones of one data set. */
static void foresee_set(fli_device *d, const fli_dataset *ds, const fli_peek *list, size_t n, fli_engine_eval *evals)
{
    size_t count = 0, first = d->seen_count;
    for (size_t i = 0; i < n; i++) {
        if (list[i].ds != ds || !list[i].n) continue;
        evals[count++] = eval_of(&list[i]);
        d->seen[d->seen_count++].at = list[i];
    }
    if (count) evaluate(d, ds, evals, count);
    for (size_t i = 0; i < count; i++) {
        d->seen[first + i].loss = evals[i].loss;
        d->seen[first + i].correct = evals[i].correct;
    }
}

static void foresee(void *arg, const fli_peek *list, size_t n)
{
    fli_device *d = arg;
    d->seen_count = d->seen_next = 0;
    if (!n || d->failed) return;
    fli_engine_eval *evals = fli_alloc(d->ctx, n, sizeof *evals);
    fl_status s = evals ? FL_OK : FL_ENOMEM;
    if (!s && n > d->seen_room) {
        if (!(s = fli_grow(d->ctx, (void **)&d->seen, d->seen_room, n, sizeof *d->seen))) d->seen_room = n;
    }
    note_failure(d, s);
    if (!s) {
        foresee_set(d, d->fed->train, list, n, evals);
        if (d->fed->test) foresee_set(d, d->fed->test, list, n, evals);
    }
    fli_free(evals);
}

/* ---- models on samples ----------------------------------------------------------------------------------- */

static double evaluate_peek(fli_device *d, const fli_peek *at, size_t *correct)
{
    const fli_eval_ahead *s = find_seen(d, at);
    fli_engine_eval l = eval_of(at);
    if (!s) evaluate(d, at->ds, &l, 1);
    if (correct) *correct = s ? s->correct : l.correct;
    return s ? s->loss : l.loss;
}

static double loss(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                   size_t *correct)
{
    fli_device *d = arg;
    fli_peek at = {.ds = ds, .idx = idx, .n = n, .x = x};
    if (correct) *correct = 0;
    if (!n && g) fli_zero(fli_device_space(d), g);
    if (!n) return 0;
    if (!g) return evaluate_peek(d, &at, correct);
    fli_engine_eval l = eval_of(&at);
    l.gradient = g;
    evaluate(d, ds, &l, 1);
    if (correct) *correct = l.correct;
    return l.loss;
}

static double pair(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, const void *own,
                   double mix, size_t *correct)
{
    *correct = 0;
    return n ? evaluate_peek(arg, &(fli_peek){ds, idx, n, x, own, mix}, correct) : 0;
}

static void logits(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, double *out)
{
    fli_device *d = arg;
    fli_engine_outputs o = {.x = x, .samples = idx, .n = n, .logits = 1, .out = out};
    if (!n) return;
    fli_recorder_play(d->recorder);
    if (!d->failed) note_failure(d, d->engine->does->outputs(d->ctx, d->net, fli_device_data(d, ds), &o, 1));
    for (size_t i = 0; d->failed && i < n * d->model.classes; i++) out[i] = NAN;
}

/* ---- a client's objective -------------------------------------------------------------------------------- */

static int mixes(const fli_objective_at *at) { return at->own && at->mix < 1; }
static const void *only(const fli_objective_at *at) { return at->own ? at->own : at->x; }

/* All rows of the client's current y, with room for as many more; NULL after a failure. */
static void *rows_now(fli_device *d, const fli_view *v, const fli_objective_at *at)
{
    const fli_model *m = &d->model;
    size_t n = v->n_unlabelled;
    void *rows = d->failed ? NULL : fli_alloc(d->ctx, 2 * n * m->latent->size(m), m->space.ops->size);
    if (!rows) {
        note_failure(d, FL_ENOMEM);
        return NULL;
    }
    if (!fli_latents_now(m, n, 0, n, at->kept, rows) || at->ahead)
        note_failure(d, labels_improve(d->ctx, d, &(fli_device_labels){v->ds, at->x, v->unlabelled, n, rows}, 1));
    if (!d->failed) return rows;
    fli_free(rows);
    return NULL;
}

static double over_latents(fli_device *d, const fli_view *v, const fli_objective_at *at, void *g)
{
    void *rows = rows_now(d, v, at);
    fli_engine_eval l = {.x = mixes(at) ? at->x : only(at),
                         .own = mixes(at) ? at->own : NULL,
                         .mix = at->mix,
                         .samples = v->unlabelled,
                         .n = v->n_unlabelled,
                         .y = rows,
                         .gradient = g,
                         .add = 1};
    if (!rows) return NAN;
    evaluate(d, v->ds, &l, 1);
    fli_free(rows);
    return l.loss;
}

static fli_objective objective(void *arg, const fli_view *v, const fli_objective_at *at, void *g)
{
    fli_device *d = arg;
    fli_objective o = {0};
    if (mixes(at))
        o.labelled = pair(d, v->ds, v->train, v->n_train, at->x, at->own, at->mix, &o.correct);
    else
        o.labelled = loss(d, v->ds, v->train, v->n_train, only(at), g, &o.correct);
    o.value = o.labelled;
    if (d->model.latent && v->n_unlabelled) o.value += over_latents(d, v, at, g);
    return o;
}

/* Adds up in pieces of the CPU's length. */
static double second_block(void *arg, const fli_view *v, const fli_objective_at *at)
{
    fli_device *d = arg;
    const fli_model *m = &d->model;
    const fli_ops *ops = m->space.ops;
    double sum = 0;
    if (!m->latent || !v->n_unlabelled) return 0;
    size_t n = v->n_unlabelled, size = m->latent->size(m), most = fli_piece_of(m);
    void *before = rows_now(d, v, at);
    if (!before) return NAN;
    void *after = fli_at(ops, before, n * size);
    memcpy(after, before, n * size * ops->size);
    note_failure(d, labels_improve(d->ctx, d, &(fli_device_labels){v->ds, at->x, v->unlabelled, n, after}, 1));
    ops->axpy(n * size, -1, before, after);
    for (size_t i = 0; i < n; i += most) {
        const void *step = fli_cat(ops, after, i * size);
        size_t reals = (n - i < most ? n - i : most) * size;
        sum += ops->dot(reals, step, step);
    }
    fli_free(before);
    return d->failed ? NAN : sum;
}

static fl_status status(void *arg, fl_ctx *ctx)
{
    fli_device *d = arg;
    if (d->failed) return fli_fail(ctx, d->failed, "%s", d->why);
    return fli_device_space(d)->place->does->status(fli_device_space(d)->place, ctx);
}

void fli_device_eval_init(fli_device *d)
{
    d->eval = (fli_device_eval){.arg = d,
                                .place = fli_device_space(d)->place,
                                .loss = loss,
                                .pair = pair,
                                .objective = objective,
                                .second_block = second_block,
                                .logits = logits,
                                .foresee = foresee,
                                .status = status};
}

void fli_device_eval_fini(fli_device *d) { fli_free(d->seen); }
