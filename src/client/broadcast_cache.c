#include "client/broadcast_cache.h"

#include "message/codec.h"

#include <math.h>

struct fli_broadcast_cache {
    fl_ctx *ctx;
    const fli_setup *setup;
    fl_space space;
    fli_message kept; /* the kept vectors; others stay unused */
    void **table;     /* the vectors of `view` */
    fli_message view;
    size_t vectors;
    uint64_t serial; /* of the last message; 0: none */
    void **history;  /* by phase, for parts of FL_PART_KEEP_EACH; NULL: none */
    size_t phases;
};

/* Whether the part is of a vector, and kept. */
static int keeps(const fl_part *p)
{
    return fli_part_is_vector(p) && (p->use == FL_PART_KEEP || p->use == FL_PART_KEEP_EACH);
}

static int keeps_vector(const fl_method *a, size_t vector)
{
    for (const fl_part *p = a->down; p->name; p++)
        if (keeps(p) && p->at == vector) return 1;
    return 0;
}

static int keeps_any(const fl_method *a)
{
    for (const fl_part *p = a->down; p->name; p++)
        if (keeps(p)) return 1;
    return 0;
}

fl_status fli_broadcast_cache_new(fl_ctx *ctx, const fli_setup *setup, fli_place *place, fli_broadcast_cache **out)
{
    *out = NULL;
    if (!keeps_any(setup->algo)) return FL_OK;
    fli_broadcast_cache *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    *c = (fli_broadcast_cache){.ctx = ctx, .setup = setup, .space = setup->model->space};
    c->space.place = place;
    c->vectors = fli_parts_vectors(setup->algo->down);
    fl_status s = fli_message_init(ctx, &c->space, c->vectors, 0, &c->kept);
    if (!s && !(c->table = fli_alloc(ctx, c->vectors, sizeof *c->table))) s = FL_ENOMEM;
    if (s) {
        fli_broadcast_cache_free(c);
        return s;
    }
    *out = c;
    return FL_OK;
}

void fli_broadcast_cache_free(fli_broadcast_cache *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->phases; i++) fli_vector_free(&c->space, c->history[i]);
    fli_free(c->history);
    fli_message_fini(&c->kept);
    fli_free(c->table);
    fli_free(c);
}

/* Writes a sent part into the kept vectors. */
static void keep(fli_broadcast_cache *c, const fli_sent_part *p, const fli_message *down)
{
    const fli_model *m = c->setup->model;
    fl_space range = c->space;
    range.n = p->count;
    fli_copy(&range, fli_sent_place(p, m, down, NULL), fli_sent_place(p, m, &c->kept, NULL));
}

/* Stores the vector's value in this phase, for later phases that use it (FL_PART_KEEP_EACH). */
static fl_status keep_history(fli_broadcast_cache *c, const fl_part *p, size_t phase)
{
    if (phase >= c->phases) {
        fl_status s = fli_grow(c->ctx, (void **)&c->history, c->phases, phase + 1, sizeof *c->history);
        if (s) return s;
        c->phases = phase + 1;
    }
    if (!c->history[phase] && !(c->history[phase] = fli_vector_alloc(c->ctx, &c->space, fli_bytes(&c->space))))
        return FL_ENOMEM;
    fli_copy(&c->space, c->kept.vec[p->at], c->history[phase]);
    return FL_OK;
}

/* Called for the first exchange of a round: vectors from the last cohort become NaN, so that no client uses them by
 * mistake. */
static void forget(fli_broadcast_cache *c)
{
    for (size_t v = 0; v < c->vectors; v++) fli_fill(&c->space, NAN, c->kept.vec[v]);
    for (size_t i = 0; i < c->phases; i++)
        if (c->history[i]) fli_fill(&c->space, NAN, c->history[i]);
}

fl_status fli_broadcast_cache_take(fli_broadcast_cache *c, const fl_ask *ask, const fli_message *down)
{
    const fl_method *a = c->setup->algo;
    const void *params = c->setup->params;
    if (c->serial && c->serial == down->serial) return FL_OK;
    if (fli_algo_redraws(a, params, ask->phase, ask->phases)) forget(c);
    for (fli_sent_parts w = fli_parts_walk(a->down, fli_algo_moment(a, params, ask), c->setup->model, NULL);
         fli_parts_next(&w);) {
        const fl_part *p = w.is.part;
        if (!keeps(p)) continue;
        keep(c, &w.is, down);
        fl_status s = p->use == FL_PART_KEEP_EACH ? keep_history(c, p, ask->phase) : FL_OK;
        if (s) return s;
    }
    for (size_t v = 0; v < c->vectors; v++) c->table[v] = keeps_vector(a, v) ? c->kept.vec[v] : down->vec[v];
    c->view = (fli_message){.vec = c->table,
                            .num = down->num,
                            .start = down->start,
                            .history = (const void *const *)c->history,
                            .serial = down->serial};
    c->serial = down->serial;
    return FL_OK;
}

const fli_message *fli_broadcast_cache_view(const fli_broadcast_cache *c) { return &c->view; }

void fli_broadcast_cache_save(const fli_broadcast_cache *c, fli_saver *out)
{
    fli_save_part(out, "recall"); /* the name in the file format */
    fli_save_vectors(&c->space, c->kept.vec, c->vectors, out);
    fli_save_count(out, c->phases);
    for (size_t i = 0; i < c->phases; i++) fli_save_vectors(&c->space, &c->history[i], c->history[i] != NULL, out);
}

fl_status fli_broadcast_cache_load(fli_broadcast_cache *c, fli_loader *in)
{
    fli_load_part(in, "recall");
    fli_load_vectors(&c->space, c->kept.vec, c->vectors, in);
    c->phases = (size_t)fli_load_count(in, FLI_MOST_PHASES);
    if (fli_loader_status(in)) return fli_loader_status(in);
    if (!(c->history = fli_alloc(c->ctx, c->phases, sizeof *c->history))) return c->phases = 0, FL_ENOMEM;
    for (size_t i = 0; i < c->phases && !fli_loader_status(in); i++) {
        if (!fli_load_count(in, 1)) continue;
        if (!(c->history[i] = fli_vector_alloc(c->ctx, &c->space, fli_bytes(&c->space)))) return FL_ENOMEM;
        fli_load_piece(&c->space, c->history[i], fli_bytes(&c->space), in);
    }
    return fli_loader_status(in);
}

size_t fli_broadcast_cache_vectors(const fl_method *a, const void *params, size_t phases)
{
    size_t vectors = keeps_any(a) ? fli_parts_vectors(a->down) : 0;
    for (size_t at = 0; vectors && at < phases; at++) {
        fl_ask ask = {.phase = (uint32_t)at, .phases = (uint32_t)phases};
        unsigned moment = fli_algo_moment(a, params, &ask);
        for (const fl_part *p = a->down; p->name; p++)
            if (p->use == FL_PART_KEEP_EACH && fli_part_sent(p, moment)) vectors++;
    }
    return vectors;
}
