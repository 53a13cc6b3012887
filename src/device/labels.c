/* Pseudo labels: logits come from the device, classes are few, and the rows are computed here as on the CPU. */
#include "device/inside.h"
#include "solver/minibatch.h"

/* Some rows of a client's y. */
typedef struct {
    const fli_labels *of;
    const uint32_t *samples; /* the rows' samples */
    const uint32_t *rows;    /* their numbers; NULL: all of y, in order */
    size_t n;                /* f_i is a mean over them in this step */
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

static part whole(const fli_labels *l) { return (part){l, l->samples, NULL, l->n}; }

fl_status fli_labels_improve(fl_ctx *ctx, fli_device *d, const fli_labels *list, size_t count)
{
    part *parts = fli_alloc(ctx, count, sizeof *parts);
    if (!parts) return FL_ENOMEM;
    for (size_t i = 0; i < count; i++) parts[i] = whole(&list[i]);
    fl_status s = count ? improve(ctx, d, parts, count, all_steps(d)) : FL_OK;
    fli_free(parts);
    return s;
}

/* ---- stochastic steps ------------------------------------------------------------------------------------ */

/* A client that takes them. */
typedef struct {
    fli_sample_pass pass;
    fli_rng *rng;
    uint32_t *samples; /* of the mini-batch */
} course;

static fl_status course_init(fli_arena *a, const fli_labels *l, size_t batch, fli_rng *rng, course *c)
{
    uint32_t *order = fli_arena_alloc(a, l->n, sizeof *order);
    c->samples = fli_arena_alloc(a, batch, sizeof *c->samples);
    if (!order || !c->samples) return FL_ENOMEM;
    for (size_t i = 0; i < l->n; i++) order[i] = (uint32_t)i;
    c->pass = fli_pass_over(&(fli_sgd_spec){.batch = batch}, order, l->n);
    c->rng = rng;
    return FL_OK;
}

static part next_part(const fli_labels *l, course *c)
{
    fli_pass_next(&c->pass, c->rng);
    for (size_t i = 0; i < c->pass.count; i++) c->samples[i] = l->samples[c->pass.now[i]];
    return (part){l, c->samples, c->pass.now, c->pass.count};
}

/* Mini-batch after mini-batch, of all clients at once; those who have no more samples than a mini-batch take all of
 * their steps in the first one. */
fl_status fli_labels_turn(fl_ctx *ctx, fli_device *d, const fli_labels *list, size_t count, fli_rng *const *rng)
{
    const fli_latent *latent = d->model.latent;
    size_t steps = 0, batch = latent->batch ? latent->batch(&d->model, &steps) : 0, full = 0, drawn = 0;
    if (!batch) return fli_labels_improve(ctx, d, list, count);
    fli_arena a;
    fli_arena_init(&a, ctx);
    part *parts = fli_arena_alloc(&a, count, sizeof *parts);
    course *courses = fli_arena_alloc(&a, count, sizeof *courses);
    const fli_labels **who = fli_arena_alloc(&a, count, sizeof *who);
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
