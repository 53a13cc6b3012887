#include "exec/store.h"

#include "exec/spill.h"

#include <pthread.h>
#include <stdatomic.h>

/* One allocation per client in memory: the table of its vectors, its scalars, then the vectors themselves. */
typedef struct entry {
    struct entry *before, *after; /* of those nobody uses, longest unused first */
    size_t client;
    size_t users;
    int moving;  /* it changes hands from `client` to another one; both names lead here until it has */
    int changed; /* since it was last in the file */
    double *scalars;
    void *vectors[];
} entry;

/* Without a budget neither the lock nor the order nor the file is used: a client belongs to one thread at a time. */
struct fli_store {
    fl_ctx *ctx;
    fli_store_spec spec;
    size_t head, payload; /* bytes of an entry: its tables, and what is saved */
    entry **entries;
    atomic_size_t held; /* entries in memory */
    /* with a budget */
    size_t most;      /* entries that it allows */
    uint32_t *places; /* 1 + a client's place in the file; 0: it has none */
    size_t placed;
    fli_spill *spill; /* NULL before the first one goes there */
    entry *oldest, *newest;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int lockable;
};

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t stride(const fli_store *s) { return round_up(fli_bytes(&s->spec.space)); }

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status budget_new(fli_store *s)
{
    s->most = s->spec.budget / (s->head + s->payload);
    if (!(s->places = fli_alloc(s->ctx, s->spec.clients, sizeof *s->places))) return FL_ENOMEM;
    if (pthread_mutex_init(&s->lock, NULL)) return fli_fail(s->ctx, FL_ESYSTEM, "a mutex cannot be made");
    if (pthread_cond_init(&s->moved, NULL)) {
        pthread_mutex_destroy(&s->lock);
        return fli_fail(s->ctx, FL_ESYSTEM, "a condition variable cannot be made");
    }
    s->lockable = 1;
    return FL_OK;
}

fl_status fli_store_new(fl_ctx *ctx, const fli_store_spec *spec, fli_store **out)
{
    fl_status status = FL_OK;
    fli_store *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->spec = *spec;
    s->head = round_up(sizeof(entry) + spec->vectors * sizeof(void *));
    s->payload = round_up(spec->scalars * sizeof(double)) + spec->vectors * stride(s);
    atomic_init(&s->held, 0);
    if (s->payload && !(s->entries = fli_alloc(ctx, spec->clients, sizeof *s->entries))) status = FL_ENOMEM;
    if (!status && s->payload && spec->budget) status = budget_new(s);
    if (status)
        fli_store_free(s);
    else
        *out = s;
    return status;
}

void fli_store_free(fli_store *s)
{
    if (!s) return;
    for (size_t i = 0; s->entries && i < s->spec.clients; i++) fli_free(s->entries[i]);
    if (s->lockable) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->moved);
    }
    fli_spill_free(s->spill);
    fli_free(s->entries);
    fli_free(s->places);
    fli_free(s);
}

static void *payload_of(const fli_store *s, entry *e) { return (char *)e + s->head; }

static entry *entry_new(fli_store *s, size_t client)
{
    size_t scalars = round_up(s->spec.scalars * sizeof(double));
    entry *e = fli_alloc(s->ctx, s->head + s->payload, 1);
    if (!e) return NULL;
    e->client = client;
    e->scalars = payload_of(s, e);
    for (size_t v = 0; v < s->spec.vectors; v++) e->vectors[v] = (char *)e->scalars + scalars + v * stride(s);
    atomic_fetch_add(&s->held, 1);
    return e;
}

/* ---- under a budget, behind the lock --------------------------------------------------------------------- */

static void into_order(fli_store *s, entry *e)
{
    e->before = s->newest;
    e->after = NULL;
    *(s->newest ? &s->newest->after : &s->oldest) = e;
    s->newest = e;
}

static void out_of_order(fli_store *s, entry *e)
{
    *(e->before ? &e->before->after : &s->oldest) = e->after;
    *(e->after ? &e->after->before : &s->newest) = e->before;
}

/* Outside the lock: e's contents go to a place, and those of another client come. *written: the first part is done. */
static fl_status exchange(fli_store *s, entry *e, size_t out, size_t in, int *written)
{
    fl_status status = out ? fli_spill_write(s->spill, out - 1, payload_of(s, e)) : FL_OK;
    *written = !status;
    if (status) return status;
    if (in) return fli_spill_read(s->spill, in - 1, payload_of(s, e));
    memset(payload_of(s, e), 0, s->payload);
    return FL_OK;
}

static void discard(fli_store *s, entry *e)
{
    atomic_fetch_sub(&s->held, 1);
    fli_free(e);
}

/* An entry for a client that is not in memory: a new one as long as the budget allows it, else that of the client that was not seen for
 * the longest time. The lock is given up while the disk is at work. */
static fl_status bring(fli_store *s, size_t client, entry **out)
{
    int fresh = s->held < s->most || !s->oldest, written;
    entry *e = fresh ? entry_new(s, client) : s->oldest;
    if (!e) return FL_ENOMEM;
    fl_status status = FL_OK;
    if (!fresh && !s->spill)
        status = fli_spill_new(s->ctx, s->spec.folder ? s->spec.folder : "/tmp", s->payload, &s->spill);
    if (status) return status;
    if (!fresh) out_of_order(s, e);
    size_t was = e->client, from = s->places[client];
    size_t to = fresh || !e->changed ? 0 : s->places[was] ? s->places[was] : ++s->placed;
    e->moving = 1;
    s->entries[client] = e;
    pthread_mutex_unlock(&s->lock);
    status = exchange(s, e, to, from, &written);
    pthread_mutex_lock(&s->lock);
    e->moving = 0;
    if (to) s->places[was] = (uint32_t)to; /* also of a write that failed: what is in memory counts */
    if (written && !fresh) {
        s->entries[was] = NULL;
        if (s->spec.left) s->spec.left(s->spec.arg, was);
    }
    if (!status) {
        e->client = client;
        e->changed = 0;
        *out = e;
    } else {
        s->entries[client] = NULL;
        if (written)
            discard(s, e);
        else
            into_order(s, e);
    }
    pthread_cond_broadcast(&s->moved);
    return status;
}

/* The client's entry, for one more user; NULL if it was never touched and `make` is 0. */
static fl_status use(fli_store *s, size_t client, int make, entry **out, int *first)
{
    fl_status status = FL_OK;
    pthread_mutex_lock(&s->lock);
    while (s->entries[client] && s->entries[client]->moving) pthread_cond_wait(&s->moved, &s->lock);
    entry *e = s->entries[client];
    *first = !e && !s->places[client];
    if (e && !e->users) out_of_order(s, e);
    if (!e && (make || s->places[client])) status = bring(s, client, &e);
    if (e && !status) {
        e->users++;
        e->changed |= make;
    }
    pthread_mutex_unlock(&s->lock);
    *out = e;
    return status;
}

/* ---- what others call ------------------------------------------------------------------------------------ */

fl_status fli_store_get(fli_store *s, size_t client, fli_kept *out)
{
    fl_status status = FL_OK;
    entry *e = NULL;
    *out = (fli_kept){0};
    if (!s->entries) return FL_OK;
    if (s->places)
        status = use(s, client, 1, &e, &out->first);
    else if (!(e = s->entries[client])) {
        out->first = 1;
        if (!(e = s->entries[client] = entry_new(s, client))) status = FL_ENOMEM;
    }
    if (status) return status;
    out->vectors = e->vectors;
    out->scalars = e->scalars;
    return FL_OK;
}

fl_status fli_store_peek(fli_store *s, size_t client, void *const **out)
{
    int first;
    entry *e = NULL;
    *out = NULL;
    if (!s->entries) return FL_OK;
    if (!s->places) e = s->entries[client];
    fl_status status = s->places ? use(s, client, 0, &e, &first) : FL_OK;
    if (!status && e) *out = e->vectors;
    return status;
}

void fli_store_release(fli_store *s, size_t client)
{
    if (!s->places) return;
    pthread_mutex_lock(&s->lock);
    entry *e = s->entries[client];
    if (!--e->users) into_order(s, e);
    pthread_mutex_unlock(&s->lock);
}

size_t fli_store_bytes(const fli_store *s) { return atomic_load(&s->held) * (s->head + s->payload); }
size_t fli_store_spilled(const fli_store *s) { return s->placed * s->payload; }

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

static int touched(const fli_store *s, size_t client) { return s->entries[client] || (s->places && s->places[client]); }

/* Those in the file are read past everybody else: saving changes nothing, not even the order. */
void fli_store_save(fli_store *s, fli_saver *out)
{
    size_t count = 0, clients = s->entries ? s->spec.clients : 0;
    fl_status status = FL_OK;
    void *buffer = s->spill ? fli_alloc(s->ctx, 1, s->payload) : NULL;
    if (s->spill && !buffer) status = FL_ENOMEM;
    for (size_t i = 0; i < clients; i++) count += touched(s, i) != 0;
    fli_save_part(out, "clients");
    fli_save_count(out, count);
    for (size_t i = 0; i < clients && !status; i++) {
        if (!touched(s, i)) continue;
        if (!s->entries[i]) status = fli_spill_read(s->spill, s->places[i] - 1, buffer);
        fli_save_count(out, i);
        if (!status) fli_save_bytes(out, s->entries[i] ? payload_of(s, s->entries[i]) : buffer, s->payload);
    }
    fli_free(buffer);
    if (status) fli_saver_fail(out, status);
}

const double *fli_store_scalars(const fli_store *s, size_t client)
{
    return s->entries && s->entries[client] ? s->entries[client]->scalars : NULL;
}

fl_status fli_store_load(fli_store *s, fli_loader *in)
{
    fli_kept kept;
    fl_status status = FL_OK;
    fli_load_part(in, "clients");
    for (uint64_t left = fli_load_count(in, s->entries ? s->spec.clients : 0); left; left--) {
        size_t client = (size_t)fli_load_count(in, s->spec.clients - 1);
        status = fli_loader_status(in);
        if (!status && touched(s, client))
            status = fli_loader_refuse(in, "does not fit this run: a client is in it twice");
        if (!status) status = fli_store_get(s, client, &kept);
        if (status) return status;
        fli_load_bytes(in, payload_of(s, s->entries[client]), s->payload);
        fli_store_release(s, client);
    }
    return fli_loader_status(in);
}
