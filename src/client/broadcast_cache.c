#include "client/broadcast_cache.h"

#include "message/exchange.h"

#include <math.h>

struct fli_broadcast_cache {
    fl_ctx *ctx;
    const fli_algo *algo;
    const void *params;
    fli_space space;
    size_t upper;
    fli_message kept; /* vectors that are never kept stay unused */
    void **table;     /* of the view */
    fli_message view;
    size_t vectors;
    uint64_t serial; /* of the message taken last; 0: none */
    void **history;  /* one per phase; NULL: nothing was kept of that one */
    size_t phases;
};

/* A part of a vector that is kept. */
static int keeps(const fli_part *p) { return p->what <= FLI_LOWER && (p->use == FLI_KEEP || p->use == FLI_KEEP_EACH); }

static int keeps_vector(const fli_algo *a, size_t vector)
{
    for (const fli_part *p = a->down; p->name; p++)
        if (keeps(p) && p->at == vector) return 1;
    return 0;
}

static int keeps_any(const fli_algo *a)
{
    for (const fli_part *p = a->down; p->name; p++)
        if (keeps(p)) return 1;
    return 0;
}

fl_status fli_broadcast_cache_new(fl_ctx *ctx, const fli_model *model, fli_place *place, const fli_algo *a,
                                  const void *params, fli_broadcast_cache **out)
{
    *out = NULL;
    if (!keeps_any(a)) return FL_OK;
    fli_broadcast_cache *r = fli_alloc(ctx, 1, sizeof *r);
    if (!r) return FL_ENOMEM;
    *r = (fli_broadcast_cache){.ctx = ctx, .algo = a, .params = params, .space = model->space};
    r->space.place = place;
    r->upper = fli_model_upper(model);
    r->vectors = fli_parts_vectors(a->down);
    fl_status s = fli_message_init(ctx, &r->space, r->vectors, 0, &r->kept);
    if (!s && !(r->table = fli_alloc(ctx, r->vectors, sizeof *r->table))) s = FL_ENOMEM;
    if (s) {
        fli_broadcast_cache_free(r);
        return s;
    }
    *out = r;
    return FL_OK;
}

void fli_broadcast_cache_free(fli_broadcast_cache *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->phases; i++) fli_vector_free(&r->space, r->history[i]);
    fli_free(r->history);
    fli_message_fini(&r->kept);
    fli_free(r->table);
    fli_free(r);
}

/* Writes a part into what is kept. */
static void keep(fli_broadcast_cache *r, const fli_part *p, const fli_message *down)
{
    const fli_ops *ops = r->space.ops;
    fli_space range = r->space;
    size_t first;
    range.n = fli_part_range(p, r->space.n, r->upper, &first);
    fli_copy(&range, fli_cat(ops, down->vec[p->at], first), fli_at(ops, r->kept.vec[p->at], first));
}

/* What the vector is now, for later phases that ask what it was in this one. */
static fl_status keep_history(fli_broadcast_cache *r, const fli_part *p, size_t phase)
{
    if (phase >= r->phases) {
        fl_status s = fli_grow(r->ctx, (void **)&r->history, r->phases, phase + 1, sizeof *r->history);
        if (s) return s;
        r->phases = phase + 1;
    }
    if (!r->history[phase] && !(r->history[phase] = fli_vector_alloc(r->ctx, &r->space, fli_bytes(&r->space))))
        return FL_ENOMEM;
    fli_copy(&r->space, r->kept.vec[p->at], r->history[phase]);
    return FL_OK;
}

/* A cohort is met for the first time in a round. What is left of what was sent to the last one must not be taken for
 * this one's: it is made NaN. */
static void forget(fli_broadcast_cache *r)
{
    for (size_t v = 0; v < r->vectors; v++) fli_fill(&r->space, NAN, r->kept.vec[v]);
    for (size_t i = 0; i < r->phases; i++)
        if (r->history[i]) fli_fill(&r->space, NAN, r->history[i]);
}

fl_status fli_broadcast_cache_take(fli_broadcast_cache *r, const fli_ask *ask, const fli_message *down)
{
    unsigned moment = fli_algo_moment(r->algo, r->params, ask);
    if (r->serial && r->serial == down->serial) return FL_OK;
    if (fli_algo_redraws(r->algo, r->params, ask->phase, ask->phases)) forget(r);
    for (const fli_part *p = r->algo->down; p->name; p++) {
        if (!keeps(p) || !fli_part_sent(p, moment)) continue;
        keep(r, p, down);
        fl_status s = p->use == FLI_KEEP_EACH ? keep_history(r, p, ask->phase) : FL_OK;
        if (s) return s;
    }
    for (size_t v = 0; v < r->vectors; v++) r->table[v] = keeps_vector(r->algo, v) ? r->kept.vec[v] : down->vec[v];
    r->view = (fli_message){.vec = r->table,
                            .num = down->num,
                            .start = down->start,
                            .history = (const void *const *)r->history,
                            .serial = down->serial};
    r->serial = down->serial;
    return FL_OK;
}

const fli_message *fli_broadcast_cache_view(const fli_broadcast_cache *r) { return &r->view; }

void fli_broadcast_cache_save(const fli_broadcast_cache *r, fli_saver *out)
{
    fli_save_part(out, "recall");
    fli_save_vectors(&r->space, r->kept.vec, r->vectors, out);
    fli_save_count(out, r->phases);
    for (size_t i = 0; i < r->phases; i++) fli_save_vectors(&r->space, &r->history[i], r->history[i] != NULL, out);
}

fl_status fli_broadcast_cache_load(fli_broadcast_cache *r, fli_loader *in)
{
    fli_load_part(in, "recall");
    fli_load_vectors(&r->space, r->kept.vec, r->vectors, in);
    r->phases = (size_t)fli_load_count(in, FLI_MOST_PHASES);
    if (fli_loader_status(in)) return fli_loader_status(in);
    if (!(r->history = fli_alloc(r->ctx, r->phases, sizeof *r->history))) return r->phases = 0, FL_ENOMEM;
    for (size_t i = 0; i < r->phases && !fli_loader_status(in); i++) {
        if (!fli_load_count(in, 1)) continue;
        if (!(r->history[i] = fli_vector_alloc(r->ctx, &r->space, fli_bytes(&r->space)))) return FL_ENOMEM;
        fli_load_piece(&r->space, r->history[i], fli_bytes(&r->space), in);
    }
    return fli_loader_status(in);
}

size_t fli_broadcast_cache_vectors(const fli_algo *a, const void *params, size_t phases)
{
    size_t vectors = keeps_any(a) ? fli_parts_vectors(a->down) : 0;
    for (size_t at = 0; vectors && at < phases; at++) {
        fli_ask ask = {.phase = (uint32_t)at, .phases = (uint32_t)phases};
        unsigned moment = fli_algo_moment(a, params, &ask);
        for (const fli_part *p = a->down; p->name; p++)
            if (p->use == FLI_KEEP_EACH && fli_part_sent(p, moment)) vectors++;
    }
    return vectors;
}
