/* Solvers on a device, which replace the CPU's solvers that consist of SGD: they turn tasks into turns of many clients
 * at once. All decisions before the first step (batch sizes, rates, pseudo labels, mixtures, merged terms) are made
 * here, by the CPU's own functions. */
#include "device/device.h"
#include "solver/minibatch.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST }; /* the first of a task's further vectors: the gradient, or the own model */

typedef struct {
    fli_device *d;
    const fl_solver *solver;
    fli_worker worker; /* for fli_sgd_begin and functions like it: model, spec and `linear` */
    void *linear;      /* there: a vector per lane, for merged terms; NULL until one is needed */
    size_t stride;
} instance;

/* A task, and its turn on the device. */
typedef struct {
    fli_task *t;
    fli_sgd_course course;
    const uint32_t *samples; /* labelled ones for training */
    size_t n;
    double mix;
    void *y;
} turn;

/* A block of tasks that are solved at once. */
typedef struct {
    fl_ctx *ctx;
    instance *in;
    fli_arena arena;
    turn *turns; /* of the tasks that have not failed */
    size_t count;
} block;

static int is_pair(const instance *in);
static int has_gradient(const instance *in) { return (in->solver->traits & FL_SOLVER_FULL_GRADIENT) != 0; }

/* ---- the second block ------------------------------------------------------------------------------------ */

/* Finds the memory of a task's y. A task that does not fit the client's stored y fails alone. */
static fl_status place_of_y(block *b, turn *u)
{
    const fli_model *m = &b->in->d->model;
    fli_latents l = fli_latents_of(m, u->t->view);
    if (!l.n) return FL_OK;
    if (m->latent->kept) return fli_latents_kept(b->ctx, m, l.n, u->t->cache, &u->y);
    u->y = fli_arena_alloc(&b->arena, l.n * m->latent->size(m), m->space.ops->size);
    return u->y ? FL_OK : FL_ENOMEM;
}

static void drop_failed(block *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (!b->turns[i].t->status) b->turns[kept++] = b->turns[i];
    b->count = kept;
}

static fl_status find_labels(block *b)
{
    const fli_model *m = &b->in->d->model;
    size_t count = 0;
    if (!m->latent) return FL_OK;
    for (size_t i = 0; i < b->count; i++) b->turns[i].t->status = place_of_y(b, &b->turns[i]);
    drop_failed(b);
    fli_device_labels *list = fli_arena_alloc(&b->arena, b->count, sizeof *list);
    fli_rng **rng = fli_arena_alloc(&b->arena, b->count, sizeof *rng);
    if (!list || !rng) return FL_ENOMEM;
    for (size_t i = 0; i < b->count; i++) {
        fli_task *t = b->turns[i].t;
        fli_latents l = fli_latents_of(m, t->view);
        if (!l.n) continue;
        list[count] = (fli_device_labels){t->view->ds, t->problem.start, l.samples, l.n, b->turns[i].y};
        rng[count++] = &t->rng;
    }
    return count ? fli_device_labels_turn(b->ctx, b->in->d, list, count, rng) : FL_OK;
}

/* ---- mixtures -------------------------------------------------------------------------------------------- */

/* The outputs of two models for a turn's held-out samples. */
typedef struct {
    turn *of;
    size_t n;
    double *outputs; /* 2 n x classes: the own model's, then the other one's */
} trial;

/* Sets the training samples, and the mix if it is given. */
static fl_status hold_out(block *b, turn *u, trial *q)
{
    size_t all = u->t->view->n_train, classes = b->in->d->model.classes;
    uint32_t *order = fli_arena_alloc(&b->arena, all, sizeof *order);
    if (!order) return FL_ENOMEM;
    u->samples = order;
    u->n = fli_pair_hold_out(u->t, order);
    *q = (trial){.of = u, .n = all - u->n};
    q->outputs = fli_arena_alloc(&b->arena, 2 * q->n * classes, sizeof *q->outputs);
    return q->outputs ? FL_OK : FL_ENOMEM;
}

static fl_status choose_mix(block *b, const trial *q)
{
    const fli_view *v = q->of->t->view;
    size_t classes = b->in->d->model.classes;
    const uint32_t *held = q->of->samples + q->of->n;
    double *ab = fli_arena_alloc(&b->arena, 2 * q->n, sizeof *ab);
    if (!ab) return FL_ENOMEM;
    for (size_t i = 0; i < q->n; i++) {
        size_t right = i * classes + (size_t)v->ds->label[held[i]];
        ab[2 * i] = q->outputs[right];
        ab[2 * i + 1] = q->outputs[q->n * classes + right];
    }
    q->of->mix = fli_pair_mix(q->n, ab);
    return FL_OK;
}

static void ask_both(const block *b, const trial *q, fli_engine_outputs o[2])
{
    const fl_problem *p = &q->of->t->problem;
    o[0] = (fli_engine_outputs){.x = p->pair.start, .samples = q->of->samples + q->of->n, .n = q->n, .out = q->outputs};
    o[1] = o[0];
    o[1].x = p->start;
    o[1].out = q->outputs + q->n * b->in->d->model.classes;
}

static fl_status find_mixtures(block *b)
{
    fli_device *d = b->in->d;
    size_t count = 0, asked = 0;
    if (!is_pair(b->in)) return FL_OK;
    trial *q = fli_arena_alloc(&b->arena, b->count, sizeof *q);
    fli_engine_outputs *o = fli_arena_alloc(&b->arena, 2 * b->count, sizeof *o);
    fl_status s = q && o ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i < b->count; i++) {
        turn *u = &b->turns[i];
        u->mix = u->t->problem.pair.mix;
        if (!isnan(u->mix) || (s = hold_out(b, u, &q[count]))) continue;
        if (q[count].n) ask_both(b, &q[count], o + 2 * asked++);
        count++;
    }
    fli_recorder_play(d->recorder);
    if (!s && asked) s = d->engine->does->outputs(b->ctx, d->net, fli_device_data(d, q->of->t->view->ds), o, 2 * asked);
    for (size_t i = 0; !s && i < count; i++) s = choose_mix(b, &q[i]);
    return s;
}

/* ---- gradients at the start ------------------------------------------------------------------------------ */

static fl_status find_gradients(block *b)
{
    fli_device *d = b->in->d;
    if (!has_gradient(b->in) || !b->count) return FL_OK;
    fli_engine_eval *evals = fli_arena_alloc(&b->arena, b->count, sizeof *evals);
    if (!evals) return FL_ENOMEM;
    for (size_t i = 0; i < b->count; i++) {
        const fli_task *t = b->turns[i].t;
        evals[i] = (fli_engine_eval){.x = t->problem.start,
                                     .samples = t->view->train,
                                     .n = t->view->n_train,
                                     .gradient = fli_task_vector(t, FIRST)};
    }
    fli_recorder_play(d->recorder);
    fl_status s = d->engine->does->evaluate(b->ctx, d->net, fli_device_data(d, b->turns->t->view->ds), evals, b->count);
    if (s || !(d->model.weight_decay > 0)) return s;
    fli_place *p = fli_device_space(d)->place;
    for (size_t i = 0; i < b->count; i++) {
        p->does->lane(p, i);
        fli_axpy(fli_device_space(d), fli_model_decay(&d->model, evals[i].n), evals[i].x, evals[i].gradient);
    }
    p->does->join(p);
    return FL_OK;
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

static int merges(const fl_problem *p) { return p->shift && p->anchor && p->steps >= 3; }

/* Allocates vectors there for the merged terms, if a task has any. */
static fl_status room_to_merge(block *b)
{
    instance *in = b->in;
    int any = 0;
    for (size_t i = 0; i < b->count; i++) any |= merges(&b->turns[i].t->problem);
    if (!any || in->linear) return FL_OK;
    in->linear = fli_vector_alloc(b->ctx, fli_device_space(in->d), in->d->lanes * in->stride);
    return in->linear ? FL_OK : FL_ENOMEM;
}

static fli_engine_pass pass_of(const fli_sgd_spec *spec, const uint32_t *samples, size_t n)
{
    return (fli_engine_pass){samples, (uint32_t)n, (uint32_t)fli_batch_size(spec, n)};
}

/* Sets lr and wd of every step if they differ; runs through the course in any case. */
static fl_status find_rates(block *b, turn *u, fli_engine_lane *l)
{
    instance *in = b->in;
    const fli_task *t = u->t;
    size_t steps = t->problem.steps;
    int vary = in->worker.spec.schedule.by_step || in->d->model.decay_by == FLI_DECAY_BY_BATCH;
    fli_sample_pass plain = {.n = l->plain.n, .size = l->plain.size}, rest = {.n = l->rest.n, .size = l->rest.size};
    if (!vary) return FL_OK;
    double *rates = fli_arena_alloc(&b->arena, 2 * steps, sizeof *rates);
    double *own = is_pair(in) ? fli_arena_alloc(&b->arena, 2 * steps, sizeof *own) : NULL;
    if (!rates || (is_pair(in) && !own)) return FL_ENOMEM;
    for (size_t k = 0; k < steps; k++) {
        fli_pass_advance(plain.n ? &plain : &rest);
        size_t batch = plain.n ? plain.count : rest.count;
        fli_sgd_next(&in->worker, t, batch, &u->course);
        rates[2 * k] = u->course.step.lr;
        rates[2 * k + 1] = u->course.step.wd;
        if (!own) continue;
        own[2 * k] = t->problem.pair.lr * u->course.share;
        own[2 * k + 1] = fli_model_step_decay(&in->d->model, t->view->n_train, batch);
    }
    l->rates = rates;
    l->own_rates = own;
    return FL_OK;
}

static void add_own(const instance *in, const turn *u, fli_engine_lane *l)
{
    const fli_task *t = u->t;
    l->own_start = t->problem.pair.start;
    l->own_z = fli_task_vector(t, FIRST);
    l->own_lr = t->problem.pair.lr;
    l->own_wd = fli_model_decay(&in->d->model, t->view->n_train);
    l->mix = u->mix;
}

/* Fills in lane i. The merging of terms is recorded. */
static fl_status make_lane(block *b, size_t i, turn *u, fli_engine_lane *l)
{
    instance *in = b->in;
    const fli_task *t = u->t;
    const fli_sgd_spec *spec = &in->worker.spec, latent = fli_latent_spec(spec);
    fli_latents with_y = fli_latents_of(&in->d->model, t->view);
    fli_place *p = fli_device_space(in->d)->place;
    p->does->lane(p, i);
    in->worker.linear = in->linear ? (char *)in->linear + i * in->stride : NULL;
    u->course = fli_sgd_begin(&in->worker, t);
    const fli_sgd_step *step = &u->course.step;
    *l = (fli_engine_lane){.start = t->problem.start,
                           .z = t->z,
                           .shift = step->shift,
                           .anchor = step->anchor,
                           .rho = step->rho,
                           .lr = step->lr,
                           .wd = step->wd,
                           .steps = (uint32_t)t->problem.steps,
                           .rng = t->rng,
                           .plain = pass_of(spec, u->samples, u->n),
                           .rest = pass_of(&latent, with_y.samples, with_y.n),
                           .y = u->y};
    if (is_pair(in)) add_own(in, u, l);
    return find_rates(b, u, l);
}

/* Longest first; equally long ones keep their order. */
static int longer_first(const void *a, const void *b)
{
    const turn *u = a, *v = b;
    if (u->t->problem.steps != v->t->problem.steps) return u->t->problem.steps < v->t->problem.steps ? 1 : -1;
    return (u->t->client > v->t->client) - (u->t->client < v->t->client);
}

/* Plays what is recorded of the lanes' vectors, before they are used. */
static fl_status settle(block *b, const fli_engine_lane *lane, size_t lanes)
{
    enum { EACH = 6 };
    const void **v = fli_arena_alloc(&b->arena, EACH * lanes, sizeof *v);
    if (!v) return FL_ENOMEM;
    for (size_t i = 0; i < lanes; i++) {
        const fli_engine_lane *l = &lane[i];
        const void *all[EACH] = {l->start, l->z, l->shift, l->anchor, l->own_start, l->own_z};
        memcpy(v + EACH * i, all, sizeof all);
    }
    fli_recorder_settle(b->in->d->recorder, fli_device_space(b->in->d)->n, v, EACH * lanes);
    return FL_OK;
}

static fl_status train(block *b)
{
    instance *in = b->in;
    fli_device *d = in->d;
    fli_place *p = fli_device_space(d)->place;
    fli_engine_lane *lane = fli_arena_alloc(&b->arena, b->count, sizeof *lane);
    fl_status s = lane ? room_to_merge(b) : FL_ENOMEM;
    size_t at_work = 0;
    if (s) return s;
    qsort(b->turns, b->count, sizeof *b->turns, longer_first);
    for (size_t i = 0; !s && i < b->count; i++) {
        const fli_task *t = b->turns[i].t;
        s = make_lane(b, i, &b->turns[i], &lane[i]);
        if (lane[i].steps) at_work++;
        if (lane[i].steps) continue;
        fli_copy(fli_device_space(d), t->problem.start, t->z);
        if (lane[i].own_z) fli_copy(fli_device_space(d), lane[i].own_start, lane[i].own_z);
    }
    p->does->join(p);
    if (s || !at_work || (s = settle(b, lane, at_work))) return s;
    fli_engine_turns turns = {.data = fli_device_data(d, b->turns->t->view->ds),
                              .lane = lane,
                              .lanes = at_work,
                              .momentum = in->worker.spec.momentum,
                              .semi = d->model.latent ? d->model.latent_params : NULL};
    return d->engine->does->train(b->ctx, d->net, &turns);
}

/* ---- answers --------------------------------------------------------------------------------------------- */

static void answer_sgd(block *b)
{
    const instance *in = b->in;
    for (size_t i = 0; i < b->count; i++) {
        turn *u = &b->turns[i];
        fli_task *t = u->t;
        t->answer = (fl_answer){
            .z = t->z, .weight = fli_sgd_course_weight(&in->worker, t, &u->course), .steps = t->problem.steps};
        if (is_pair(in)) {
            t->answer.pair.own = fli_task_vector(t, FIRST);
            t->answer.pair.mix = u->mix;
        }
        if (!has_gradient(in)) continue;
        t->answer.gradient = fli_task_vector(t, FIRST);
        t->answer.steps += fli_epoch_steps(&in->worker.spec, t->view->n_train);
    }
}

static void answer_gradient(block *b)
{
    const fl_space *s = fli_device_space(b->in->d);
    for (size_t i = 0; i < b->count; i++) {
        fli_task *t = b->turns[i].t;
        s->place->does->lane(s->place, i);
        fli_copy(s, t->problem.start, t->z);
        t->answer = (fl_answer){.z = t->z,
                                .gradient = fli_task_vector(t, FIRST),
                                .weight = fli_sgd_weight(b->in->worker.spec.momentum, t->problem.steps),
                                .steps = fli_epoch_steps(&b->in->worker.spec, t->view->n_train)};
    }
    s->place->does->join(s->place);
}

/* ---- blocks of tasks ------------------------------------------------------------------------------------- */

static fl_status solve_block(block *b)
{
    fl_status s = find_labels(b);
    if (!s) s = find_mixtures(b);
    if (!s) s = find_gradients(b);
    if (!b->count || s) return s;
    if (!(b->in->solver->traits & FL_SOLVER_COUNTS_STEPS)) {
        answer_gradient(b);
        return FL_OK;
    }
    s = train(b);
    if (!s) answer_sgd(b);
    return s;
}

/* A failure of the device fails all of the block's tasks. */
static void solve_some(fl_ctx *ctx, instance *in, fli_task *const *tasks, size_t n)
{
    block b = {.ctx = ctx, .in = in, .count = n};
    fli_arena_init(&b.arena, ctx);
    b.turns = fli_arena_alloc(&b.arena, n, sizeof *b.turns);
    for (size_t i = 0; i < n; i++) {
        tasks[i]->answer = (fl_answer){0};
        tasks[i]->status = b.turns ? FL_OK : FL_ENOMEM;
        if (b.turns) b.turns[i] = (turn){.t = tasks[i], .samples = tasks[i]->view->train, .n = tasks[i]->view->n_train};
    }
    fl_status s = b.turns ? solve_block(&b) : FL_OK;
    for (size_t i = 0; s && i < n; i++)
        if (!tasks[i]->status) tasks[i]->status = s;
    fli_arena_fini(&b.arena);
}

/* ---- fl_solver ------------------------------------------------------------------------------------------- */

static void solve(fl_ctx *ctx, void *instance_, fli_task *const *tasks, size_t n)
{
    instance *in = instance_;
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < in->d->lanes ? n - at : in->d->lanes;
        solve_some(ctx, in, tasks + at, k);
    }
}

static fl_status open_instance(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **out)
{
    instance *in = fli_alloc(ctx, 1, sizeof *in);
    if (!in) return FL_ENOMEM;
    in->d = how->eval->elsewhere->arg;
    in->solver = solver;
    in->stride = fli_vector_stride(fli_device_space(in->d));
    in->worker = (fli_worker){.model = &in->d->model, .spec = how->sgd};
    *out = in;
    return FL_OK;
}

static void close_instance(void *instance_)
{
    instance *in = instance_;
    if (!in) return;
    fli_vector_free(fli_device_space(in->d), in->linear);
    fli_free(in);
}

/* The host's part only: the device's memory was counted when it was opened. */
static double instance_bytes(const fl_solver *solver, const fli_open *how)
{
    (void)solver;
    (void)how;
    return sizeof(instance);
}

#define INSTANCE .run = solve, .open = open_instance, .close = close_instance, .bytes = instance_bytes
static const fli_solver_engine plain = {INSTANCE}, with_labels = {INSTANCE, FLI_LATENTS_KEPT};

static const fl_solver blocks = {.name = "two-block",
                                 .traits = FLI_SOLVER_SECOND_BLOCK | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                                 .forget = fli_free,
                                 .engine = &with_labels};
static const fl_solver sgd = {.name = "sgd",
                              .traits = FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                              .engine = &(fli_solver_engine){INSTANCE, .latent = &blocks}};
static const fl_solver pair = {
    .name = "pair",
    .traits = FLI_SOLVER_SECOND_BLOCK | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
    .vectors = FIRST + 1,
    .forget = fli_free,
    .engine = &(fli_solver_engine){.model_traits = FLI_MODEL_SOFTMAX,
                                   .models = "classifiers that give class probabilities, such as softmax and mlp",
                                   INSTANCE,
                                   FLI_LATENTS_KEPT}};
static const fl_solver gradient = {
    .name = "gradient", .traits = FL_SOLVER_FULL_GRADIENT, .vectors = FIRST + 1, .engine = &plain};
static const fl_solver sgd_gradient = {.name = "sgd-gradient",
                                       .traits = FL_SOLVER_FULL_GRADIENT | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                                       .vectors = FIRST + 1,
                                       .engine = &plain};

static int is_pair(const instance *in) { return in->solver == &pair; }

const fl_solver *fli_device_solver(const fl_solver *solver)
{
    static const struct {
        const fl_solver *here, *there;
    } list[] = {{&fli_solver_sgd, &sgd},
                {&fli_solver_blocks, &blocks},
                {&fli_solver_pair, &pair},
                {&fli_solver_gradient, &gradient},
                {&fli_solver_sgd_gradient, &sgd_gradient}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].here == solver) return list[i].there;
    return NULL;
}
