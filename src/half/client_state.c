/* What a client keeps between asks, and where it can go back to.
 *
 * A client cannot know whether its last turn counts: its answer may have come too late, or the server may have gone
 * back to a checkpoint. Every ask says so (fli_packet.settled), and the client goes to the place where that turn was
 * its last. A server asks for a turn again, for a whole round again, or for what comes next; so there are three such
 * places: before the last round, before the last turn, and now. Beside them there is the beginning: a server that has
 * lost everything begins anew. A client whose method keeps nothing can be anywhere between two rounds, so it does not
 * matter if it has lost its state. */
#include "half/client_parts.h"

#include <string.h>

/* ---- snapshots -------------------------------------------------------------------------------------------- */

static void point_fini(fli_client_point *p)
{
    fli_free(p->bytes);
    *p = (fli_client_point){0};
}

void fli_client_forget(fl_client *c)
{
    point_fini(&c->round);
    point_fini(&c->turn);
}

/* Whether clients of this method keep anything from round to round. */
static int keeps_something(const fl_client *c)
{
    const fli_solvers *all = &c->spec.solvers;
    if (fli_algo_client_vectors(c->spec.algo, c->spec.watch) || fli_algo_client_scalars(c->spec.algo, c->spec.watch))
        return 1;
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i]->save) return 1;
    return 0;
}

static void save_place(const fli_client_place *p, fli_saver *out)
{
    fli_save_count(out, p->turns);
    fli_save_count(out, p->last);
    fli_save_count(out, p->round);
    fli_save_count(out, p->phase);
    fli_save_count(out, p->stream);
    fli_save_count(out, p->warm);
}

static fli_client_place load_place(fli_loader *in)
{
    fli_client_place p;
    p.turns = fli_load_count(in, UINT64_MAX);
    p.last = fli_load_count(in, UINT64_MAX);
    p.round = fli_load_count(in, UINT64_MAX);
    p.phase = fli_load_count(in, UINT32_MAX);
    p.stream = fli_load_count(in, UINT64_MAX);
    p.warm = fli_load_count(in, 1);
    return p;
}

static void save_kept(fl_client *c, fli_saver *out)
{
    fli_save_count(out, c->recall != NULL);
    if (c->recall) fli_recall_save(c->recall, out);
    fli_clients_save(c->clients, out);
}

/* What a snapshot says, beside the client as it is: it takes its place when all of it is there. */
typedef struct {
    fli_clients *clients;
    fli_recall *recall;
} kept;

static void kept_fini(kept *k)
{
    fli_clients_free(k->clients);
    fli_recall_free(k->recall);
}

static fl_status load_kept(fl_client *c, fli_loader *in, kept *k)
{
    fl_status s = FL_OK;
    if (fli_load_count(in, 1)) {
        s = fli_recall_new(c->ctx, c->spec.model, NULL, c->spec.algo, c->spec.params, &k->recall);
        if (!s && !k->recall) s = fli_loader_refuse(in, "says that this client keeps something, which it does not");
        if (!s) s = fli_recall_load(k->recall, in);
    }
    if (!s) s = fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &k->clients);
    return s ? s : fli_clients_load(k->clients, in);
}

static fl_status load_point(fl_client *c, const fli_client_point *p, kept *k)
{
    fli_loader *in = NULL;
    fl_status s = fli_loader_open_memory(c->ctx, "the state of a client", p->bytes, p->n, &in);
    if (!s) s = load_kept(c, in, k);
    if (!s) s = fli_loader_end(in);
    fli_loader_close(in);
    return s;
}

static void put_in_place(fl_client *c, const kept *k, const fli_client_place *at)
{
    fli_clients_free(c->clients);
    fli_recall_free(c->recall);
    c->clients = k->clients;
    c->recall = k->recall;
    c->now = *at;
}

/* ---- going back ------------------------------------------------------------------------------------------- */

fl_status fli_client_mark(fl_client *c, const fli_ask *ask)
{
    int warm = (ask->flags & FLI_ASK_WARM_UP) != 0;
    int new_round = !c->now.turns || ask->stream != c->now.stream || warm != (int)c->now.warm;
    fli_client_point p = {.there = 1, .at = c->now};
    if (c->recall || keeps_something(c)) {
        fli_saver *saver = NULL;
        fl_status s = fli_saver_open_memory(c->ctx, &saver);
        if (s) return s;
        save_kept(c, saver);
        if ((s = fli_saver_take(saver, &p.bytes, &p.n))) return s;
    }
    point_fini(&c->turn);
    if (new_round) point_fini(&c->round);
    *(new_round ? &c->round : &c->turn) = p;
    return FL_OK;
}

static const fli_client_place beginning;

const fli_client_place *fli_client_find(fl_client *c, uint64_t settled)
{
    if (c->now.last == settled) return &c->now;
    if (c->turn.there && c->turn.at.last == settled) return &c->turn.at;
    if (c->round.there && c->round.at.last == settled) return &c->round.at;
    if (!settled) return &beginning;
    if (keeps_something(c)) return NULL;
    c->other = (fli_client_place){.turns = 1, .last = settled};
    return &c->other;
}

static fl_status begin_anew(fl_client *c, const fli_client_place *at)
{
    kept k = {0};
    fl_status s = fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &k.clients);
    if (s) return s;
    put_in_place(c, &k, at);
    fli_client_forget(c);
    return FL_OK;
}

fl_status fli_client_go_back(fl_client *c, const fli_client_place *to)
{
    const fli_client_point *p = to == &c->turn.at ? &c->turn : &c->round;
    kept k = {0};
    if (to == &c->now) return FL_OK;
    if (to == &beginning || to == &c->other) return begin_anew(c, to);
    if (p->bytes) {
        fl_status s = load_point(c, p, &k);
        if (s) return kept_fini(&k), s;
        put_in_place(c, &k, to);
    } else {
        fli_recall_free(c->recall);
        c->recall = NULL;
        c->now = *to;
    }
    point_fini(&c->turn);
    return FL_OK;
}

fl_status fli_client_undo(fl_client *c) { return fli_client_go_back(c, c->turn.there ? &c->turn.at : &c->round.at); }

/* ---- as bytes --------------------------------------------------------------------------------------------- */

static void save_point(const fli_client_point *p, fli_saver *out)
{
    fli_save_count(out, p->there != 0);
    if (!p->there) return;
    save_place(&p->at, out);
    fli_save_count(out, p->n);
    fli_save_bytes(out, p->bytes, p->n);
}

fl_status fl_client_state(fl_client *c, fl_bytes *out)
{
    fli_saver *saver = NULL;
    unsigned char *body = NULL;
    size_t n = 0;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_saver_open_memory(c->ctx, &saver);
    if (s) return s;
    save_place(&c->now, saver);
    save_kept(c, saver);
    save_point(&c->round, saver);
    save_point(&c->turn, saver);
    if ((s = fli_saver_take(saver, &body, &n))) return s;
    fli_packet p = {
        .kind = FLI_PACKET_STATE, .client = c->number, .run = c->protocol.run, .body = body, .body_bytes = n};
    s = fli_packet_write(c->ctx, &p, out);
    fli_free(body);
    return s;
}

/* A place that cannot be gone back to is found out now, not when it is needed. */
static fl_status read_point(fl_client *c, fli_loader *in, size_t most, fli_client_point *p)
{
    kept trial = {0};
    if (!fli_load_count(in, 1)) return fli_loader_status(in);
    p->at = load_place(in);
    p->n = (size_t)fli_load_count(in, most);
    fl_status s = fli_loader_status(in);
    if (s) return s;
    p->there = 1;
    if (!p->n) return keeps_something(c) ? fli_loader_refuse(in, "lacks what this client kept before") : FL_OK;
    if (!(p->bytes = fli_alloc(c->ctx, p->n, 1))) return FL_ENOMEM;
    fli_load_bytes(in, p->bytes, p->n);
    s = fli_loader_status(in);
    if (!s) s = load_point(c, p, &trial);
    kept_fini(&trial);
    return s;
}

/* All that a state says. */
typedef struct {
    kept kept;
    fli_client_place now;
    fli_client_point round, turn;
} restored;

static fl_status read_state(fl_client *c, fli_loader *in, size_t bytes, restored *r)
{
    r->now = load_place(in);
    fl_status s = load_kept(c, in, &r->kept);
    if (!s) s = read_point(c, in, bytes, &r->round);
    if (!s) s = read_point(c, in, bytes, &r->turn);
    if (s) return s;
    if (r->round.at.last > r->now.last || r->turn.at.last > r->now.last)
        return fli_loader_refuse(in, "contradicts itself: an earlier turn has a later number");
    return fli_loader_end(in);
}

fl_status fl_client_restore(fl_client *c, const void *state, size_t n)
{
    fli_packet p;
    fli_loader *in = NULL;
    restored r = {0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_packet_read(c->ctx, FLI_PACKET_STATE, state, n, &p);
    if (!s && (p.client != c->number || !fli_digest_same(&p.run, &c->protocol.run)))
        s = fli_fail(c->ctx, FL_EMISMATCH, "this is the state of another client, or of another run");
    if (!s) s = fli_loader_open_memory(c->ctx, "the state of a client", p.body, p.body_bytes, &in);
    if (!s) s = read_state(c, in, p.body_bytes, &r);
    fli_loader_close(in);
    if (s) {
        kept_fini(&r.kept);
        point_fini(&r.round);
        point_fini(&r.turn);
        return s;
    }
    put_in_place(c, &r.kept, &r.now);
    fli_client_forget(c);
    c->round = r.round;
    c->turn = r.turn;
    return FL_OK;
}
