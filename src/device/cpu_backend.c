/* The backend `twin`: the CPU as a device, for tests. It takes a device's calls and executes them with the functions of
 * the CPU's own path, one lane after the other within a step. Its results have that path's bits, so that tests can
 * compare the rest of this folder, and its users, with that path on machines without a device. */
#include "base/number.h"
#include "base/os.h"
#include "device/cpu_memory.h"
#include "device/engine.h"
#include "solver/minibatch.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* ==== memory ============================================================================================== */

/* The addresses that it returns are in pages that can be neither read nor written, as those of a device: code that
 * dereferences one crashes, in the tests. */

static size_t pages(size_t bytes)
{
    const size_t page = 65536; /* a multiple of all page sizes */
    return (bytes / page + 1) * page;
}

/* The number of blocks that begin at or before the address. */
static size_t before(const fli_cpu_device_memory *m, const void *there)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)m->block[middle].there <= (uintptr_t)there)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static fl_status block_new(fl_ctx *ctx, size_t bytes, fli_cpu_device_block *b)
{
    *b = (fli_cpu_device_block){.bytes = bytes, .here = fli_alloc(ctx, bytes, 1)};
    if (!b->here) return FL_ENOMEM;
    b->there = mmap(NULL, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->there != MAP_FAILED) return FL_OK;
    fli_free(b->here);
    return fli_fail(ctx, FL_ENOMEM, "out of memory: no addresses for %zu bytes of the twin's", bytes);
}

static void block_free(const fli_cpu_device_block *b)
{
    munmap(b->there, pages(b->bytes));
    fli_free(b->here);
}

/* Zeroed memory; NULL after FL_ENOMEM. */
static void *memory_alloc(fli_cpu_device_memory *m, fl_ctx *ctx, size_t bytes)
{
    fli_cpu_device_block b;
    if (m->count == m->room) {
        if (fli_grow(ctx, (void **)&m->block, m->room, 2 * m->room + 16, sizeof *m->block)) return NULL;
        m->room = 2 * m->room + 16;
    }
    if (block_new(ctx, bytes, &b)) return NULL;
    size_t at = before(m, b.there);
    memmove(m->block + at + 1, m->block + at, (m->count++ - at) * sizeof b);
    m->block[at] = b;
    return b.there;
}

static void memory_release(fli_cpu_device_memory *m, void *there)
{
    size_t at = before(m, there);
    if (!at || m->block[at - 1].there != there) return;
    block_free(&m->block[at - 1]);
    memmove(m->block + at - 1, m->block + at, (m->count-- - at) * sizeof *m->block);
}

static void memory_fini(fli_cpu_device_memory *m)
{
    for (size_t i = 0; i < m->count; i++) block_free(&m->block[i]);
    fli_free(m->block);
    *m = (fli_cpu_device_memory){0};
}

/* The true address of a device address, also of one within a block; NULL for NULL and for unknown addresses. */
static void *memory_at(const fli_cpu_device_memory *m, const void *there)
{
    size_t at = before(m, there);
    if (!at) return NULL;
    const fli_cpu_device_block *b = &m->block[at - 1];
    size_t offset = (size_t)((const char *)there - b->there);
    return offset <= b->bytes ? b->here + offset : NULL;
}

/* ==== the backend ========================================================================================= */

typedef struct {
    fli_engine engine;
    fli_cpu_device_memory memory;
} cpu_engine;

struct fli_engine_net {
    cpu_engine *t;
    fli_model model; /* a copy of the caller's */
    fli_eval eval;
};

struct fli_engine_data {
    const fli_dataset *ds;
};

static void *here(const cpu_engine *t, const void *there) { return there ? memory_at(&t->memory, there) : NULL; }

/* ---- a device ------------------------------------------------------------------------------------------- */

static size_t count(char *why, size_t room)
{
    (void)why;
    (void)room;
    return 1;
}

static fl_status describe(fl_ctx *ctx, size_t which, fli_engine_info *out)
{
    (void)ctx;
    (void)which;
    double bytes = fli_limit_memory().bytes;
    *out = (fli_engine_info){.name = "twin", .memory = bytes, .free = bytes};
    fli_snprintf(out->more, sizeof out->more, "this processor, as a device");
    return FL_OK;
}

static fl_status cpu_open(fl_ctx *ctx, size_t which, fli_engine **out)
{
    (void)which;
    cpu_engine *t = fli_alloc(ctx, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    t->engine.does = &fli_backend_cpu;
    *out = &t->engine;
    return FL_OK;
}

static void cpu_close(fli_engine *e)
{
    cpu_engine *t = (cpu_engine *)e;
    if (!t) return;
    memory_fini(&t->memory);
    fli_free(t);
}

static void *cpu_alloc(fli_engine *e, fl_ctx *ctx, size_t bytes)
{
    return memory_alloc(&((cpu_engine *)e)->memory, ctx, bytes);
}

static void cpu_release(fli_engine *e, void *v)
{
    if (v) memory_release(&((cpu_engine *)e)->memory, v);
}

static void cpu_read(fli_engine *e, size_t bytes, const void *v, void *plain)
{
    memcpy(plain, here((cpu_engine *)e, v), bytes);
}

static void cpu_write(fli_engine *e, size_t bytes, const void *plain, void *v)
{
    memcpy(here((cpu_engine *)e, v), plain, bytes);
}

static fl_status status(fli_engine *e, fl_ctx *ctx)
{
    (void)e;
    (void)ctx;
    return FL_OK;
}

static double dot(fli_engine *e, const fli_ops *ops, size_t n, const void *x, const void *y)
{
    return ops->dot(n, here((cpu_engine *)e, x), here((cpu_engine *)e, y));
}

static void finite(fli_engine *e, const fli_ops *ops, size_t n, size_t vectors, const void *const *x,
                   unsigned char *out)
{
    for (size_t i = 0; i < vectors; i++) out[i] = ops->finite(n, here((cpu_engine *)e, x[i])) != 0;
}

/* ---- tapes ---------------------------------------------------------------------------------------------- */

/* About the length of a GPU's thread block: operations go over chunk after chunk, not over whole vectors. */
enum { CHUNK = 1024 };

/* Applies the operation to entries at .. at + n - 1. */
static void play_op(const cpu_engine *t, const fli_tape *tape, const fli_tape_op *op, size_t at, size_t n)
{
    const fli_ops *ops = tape->ops;
    void *out = fli_at(ops, here(t, op->out), at);
    const void *x = op->x ? fli_cat(ops, here(t, op->x), at) : NULL;
    switch ((fli_tape_kind)op->kind) {
    case FLI_TAPE_COPY: memcpy(out, x, n * ops->size); break;
    case FLI_TAPE_FILL: ops->fill(n, op->a, out); break;
    case FLI_TAPE_AXPY: ops->axpy(n, op->a, x, out); break;
    case FLI_TAPE_LIN: ops->lin(n, op->a, x, op->b, fli_cat(ops, here(t, op->y), at), out); break;
    case FLI_TAPE_SCALE: ops->scale(n, op->a, out); break;
    case FLI_TAPE_SUM:
        for (const fli_tape_term *s = tape->term + op->first, *end = s + op->count; s < end; s++)
            ops->axpy(n, s->a, fli_cat(ops, here(t, s->x), at), out);
        break;
    }
}

/* Plays the lanes from last to first, so that code that relies on their order fails. */
static void play(fli_engine *e, const fli_tape *tape)
{
    for (size_t i = tape->lanes; i-- > 0;)
        for (size_t at = 0; at < tape->n; at += CHUNK)
            for (size_t k = tape->begin[i]; k < tape->begin[i + 1]; k++)
                play_op((cpu_engine *)e, tape, &tape->op[k], at, tape->n - at < CHUNK ? tape->n - at : CHUNK);
}

/* ---- models and data ------------------------------------------------------------------------------------ */

static fl_status net_new(fli_engine *e, fl_ctx *ctx, const fli_model *m, int tf32, fli_engine_net **out)
{
    (void)tf32;
    fli_engine_net *n = fli_alloc(ctx, 1, sizeof *n);
    if (!n) return FL_ENOMEM;
    n->t = (cpu_engine *)e;
    n->model = *m;
    n->model.space.place = NULL;
    fl_status s = fli_eval_init(ctx, &n->model, &n->eval);
    if (s)
        fli_free(n);
    else
        *out = n;
    return s;
}

static void net_free(fli_engine_net *n)
{
    if (!n) return;
    fli_eval_fini(&n->eval);
    fli_free(n);
}

static fl_status data_new(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out)
{
    (void)e;
    if (!(*out = fli_alloc(ctx, 1, sizeof **out))) return FL_ENOMEM;
    (*out)->ds = ds;
    return FL_OK;
}

/* Lists are read in place. */
static fl_status data_list(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n)
{
    (void)d;
    (void)ctx;
    (void)samples;
    (void)n;
    return FL_OK;
}

static void data_free(fli_engine_data *d) { fli_free(d); }

static double data_bytes(const fli_dataset *ds)
{
    (void)ds; /* it is read in place */
    return 0;
}

/* ---- training ------------------------------------------------------------------------------------------- */

enum { OWN_GRAD, OWN_PART, OWN_BUFFER, OWN_VECTORS };

/* A lane being trained. Its worker has its own orders, gradients and buffers. */
typedef struct {
    const fli_engine_lane *lane;
    fli_worker *w;
    fli_view view;
    fli_rng rng;
    fli_minibatch batch;
    fli_sgd_step step, own_step;
    void *z, *own;
} work;

static const fl_solver stand_in = {.name = "twin", .work = OWN_VECTORS};

static double lane_bytes(const fli_engine_net *n, const fli_sgd_spec *spec)
{
    return fli_worker_bytes(&stand_in, &(fli_open){.model = &n->model, .sgd = *spec});
}

static double net_bytes(const fli_engine_net *n, size_t lanes, size_t batch, int momentum)
{
    (void)batch;
    return (double)lanes * lane_bytes(n, &(fli_sgd_spec){.momentum = momentum ? 0.5 : 0});
}

static void steps_init(const cpu_engine *t, const fli_engine_lane *l, double momentum, work *k)
{
    k->step = (fli_sgd_step){.lr = l->lr,
                             .wd = l->wd,
                             .rho = l->rho,
                             .momentum = momentum,
                             .grad = k->w->grad,
                             .shift = here(t, l->shift),
                             .anchor = here(t, l->anchor),
                             .buffer = k->w->buffer};
    k->own_step = (fli_sgd_step){
        .lr = l->own_lr, .wd = l->own_wd, .momentum = momentum, .grad = fli_worker_vector(k->w, OWN_GRAD)};
    if (k->w->buffer) k->own_step.buffer = fli_worker_vector(k->w, OWN_BUFFER);
}

static fl_status work_init(fl_ctx *ctx, fli_engine_net *n, const fli_engine_turns *turns, size_t i, work *k)
{
    const fli_engine_lane *l = &turns->lane[i];
    size_t bytes = fli_bytes(&n->model.space), largest = l->plain.n > l->rest.n ? l->plain.n : l->rest.n;
    fli_open how = {.model = &n->model,
                    .sgd = {.batch = l->plain.size, .latent = l->rest.size, .momentum = turns->momentum},
                    .largest = largest,
                    .eval = &n->eval};
    void *worker = NULL;
    fl_status s = fli_worker_open(ctx, &stand_in, &how, &worker);
    if (s) return s;
    *k = (work){.lane = l, .w = worker, .rng = l->rng, .z = here(n->t, l->z), .own = here(n->t, l->own_z)};
    k->view = (fli_view){.ds = turns->data->ds,
                         .train = l->plain.samples,
                         .n_train = l->plain.n,
                         .unlabelled = l->rest.samples,
                         .n_unlabelled = l->rest.n};
    steps_init(n->t, l, turns->momentum, k);
    fli_minibatch_init(k->w, &k->view, l->plain.samples, l->plain.n, l->y, &k->rng, &k->batch);
    memcpy(k->z, here(n->t, l->start), bytes);
    if (k->own) memcpy(k->own, here(n->t, l->own_start), bytes);
    return FL_OK;
}

static void rate_of(const double *rates, size_t step, fli_sgd_step *s)
{
    if (!rates) return;
    s->lr = rates[2 * step];
    s->wd = rates[2 * step + 1];
}

static void take_step(work *k, size_t number)
{
    const fli_engine_lane *l = k->lane;
    const fl_space *s = &k->w->model->space;
    fli_minibatch_next(&k->batch);
    k->batch.gathered = 0; /* other lanes have used the worker since */
    rate_of(l->rates, number, &k->step);
    rate_of(l->own_rates, number, &k->own_step);
    if (!k->own) {
        fli_minibatch_step(&k->batch, &k->step, k->z);
        return;
    }
    fli_point at = {
        k->z, k->own, l->mix, k->w->grad, fli_worker_vector(k->w, OWN_GRAD), fli_worker_vector(k->w, OWN_PART)};
    fli_minibatch_grad(&k->batch, &at);
    s->ops->sgd(s->n, &k->step, k->z);
    s->ops->sgd(s->n, &k->own_step, k->own);
}

/* Step by step for all lanes that still train, which come first. */
static void take_steps(work *list, size_t lanes)
{
    for (size_t step = 0; lanes; step++) {
        while (lanes && list[lanes - 1].lane->steps <= step) lanes--;
        for (size_t i = 0; i < lanes; i++) take_step(&list[i], step);
    }
}

static fl_status train(fl_ctx *ctx, fli_engine_net *n, const fli_engine_turns *turns)
{
    work *list = fli_alloc(ctx, turns->lanes, sizeof *list);
    fl_status s = list ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i < turns->lanes; i++) s = work_init(ctx, n, turns, i, &list[i]);
    if (!s) take_steps(list, turns->lanes);
    for (size_t i = 0; list && i < turns->lanes; i++) fli_worker_close(list[i].w);
    fli_free(list);
    return s;
}

/* ---- evaluation ---------------------------------------------------------------------------------------------- */

/* The mean loss over the current piece; adds its gradient to the evaluation's vector if one is wanted. */
static double piece_loss(fli_engine_net *n, const fli_engine_eval *l, const fli_pieces *p, size_t *hits)
{
    const fli_model *m = &n->model;
    fli_eval *e = &n->eval;
    const void *x = here(n->t, l->x), *own = here(n->t, l->own);
    const void *y = l->y ? fli_cat(m->space.ops, l->y, p->at * m->classes) : NULL;
    void *g = l->gradient ? e->part : NULL;
    if (own) return fli_pair_loss(m, x, own, l->mix, &e->batch, y ? 0 : p->n, y, hits, e->scratch);
    if (y) return m->latent->grad(m, x, &e->batch, 0, y, g, e->scratch);
    return m->desc->grad(m, x, &e->batch, g, hits, e->scratch);
}

static void evaluate_one(fli_engine_net *n, const fli_dataset *ds, fli_engine_eval *l)
{
    void *g = here(n->t, l->gradient);
    fli_pieces p = fli_pieces_of(&n->eval, ds, l->samples, l->n);
    l->loss = 0;
    l->correct = 0;
    if (g && !l->add) fli_zero(&n->model.space, g);
    while (fli_pieces_next(&p)) {
        size_t hits = 0;
        l->loss += fli_pieces_share(&p) * piece_loss(n, l, &p, &hits);
        if (g) fli_pieces_add(&p, g);
        l->correct += hits;
    }
}

static fl_status evaluate(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_eval *list,
                          size_t evals)
{
    (void)ctx;
    for (size_t i = 0; i < evals; i++) evaluate_one(n, data->ds, &list[i]);
    return FL_OK;
}

static void outputs_one(fli_engine_net *n, const fli_dataset *ds, const fli_engine_outputs *o)
{
    const fli_model *m = &n->model;
    const fli_ops *ops = m->space.ops;
    fli_pieces p = fli_pieces_of(&n->eval, ds, o->samples, o->n);
    while (fli_pieces_next(&p)) {
        double *out = o->out + p.at * m->classes;
        if (!m->desc->logits) {
            m->desc->predict(m, here(n->t, o->x), &n->eval.batch, out, n->eval.scratch);
            continue;
        }
        void *z = m->desc->logits(m, here(n->t, o->x), &n->eval.batch, n->eval.scratch);
        if (!o->logits) ops->softmax(p.n, m->classes, z);
        ops->to_f64(p.n * m->classes, z, out);
    }
}

static fl_status outputs(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_outputs *o, size_t all)
{
    (void)ctx;
    for (size_t i = 0; i < all; i++) outputs_one(n, data->ds, &o[i]);
    return FL_OK;
}

const fli_backend fli_backend_cpu = {
    .name = "twin",
    .title = "the same in plain C, for tests",
    .count = count,
    .describe = describe,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .read = cpu_read,
    .write = cpu_write,
    .play = play,
    .dot = dot,
    .finite = finite,
    .status = status,
    .net_new = net_new,
    .net_free = net_free,
    .net_bytes = net_bytes,
    .data_new = data_new,
    .data_list = data_list,
    .data_free = data_free,
    .data_bytes = data_bytes,
    .train = train,
    .evaluate = evaluate,
    .outputs = outputs,
};
