#include "client/store.h"

#include "base/file.h"
#include "message/exchange.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ==== the file for state beyond the budget ================================================================= */

struct fli_spill {
    fl_ctx *ctx;
    char *folder; /* for error messages */
    size_t bytes;
    int fd;
};

fl_status fli_spill_new(fl_ctx *ctx, const char *folder, size_t bytes, fli_spill **out)
{
    fl_status status = FL_ENOMEM;
    fli_spill *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s || !(s->folder = fli_strdup(ctx, folder))) goto done;
    s->ctx = ctx;
    s->bytes = bytes;
    s->fd = fli_fd_unnamed(folder);
    status = s->fd < 0 ? fli_fail(ctx, FL_EIO, "%s: no file for client state can be created here: %s", folder,
                                  strerror(errno))
                       : FL_OK;
    if (!status) *out = s;
done:
    if (status && s) {
        fli_free(s->folder);
        fli_free(s);
    }
    return status;
}

static void spill_free(fli_spill *s)
{
    if (!s) return;
    close(s->fd);
    fli_free(s->folder);
    fli_free(s);
}

static fl_status failed(fli_spill *s, const char *what, int error)
{
    return fli_fail(s->ctx, FL_EIO,
                    "%s: client state beyond `memory` cannot be %s here: %s; TMPDIR names another folder", s->folder,
                    what, strerror(error));
}

static fl_status spill_write(fli_spill *s, size_t place, const void *p)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t n = pwrite(s->fd, (const char *)p + at, s->bytes - at, (off_t)(place * s->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(s, "written", n ? errno : ENOSPC);
        at += (size_t)n;
    }
    return FL_OK;
}

/* Safe from any thread. FL_EIO with the folder and the reason. */
static fl_status spill_read(fli_spill *s, size_t place, void *p)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t n = pread(s->fd, (char *)p + at, s->bytes - at, (off_t)(place * s->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(s, "read", n ? errno : EIO);
        at += (size_t)n;
    }
    return FL_OK;
}

/* ==== the store ============================================================================================ */

/* One allocation per client in memory: the table of its vectors, its scalars, then the vectors themselves, in one
 * piece. If the space has a place, the vectors are there. */
typedef struct entry {
    struct entry *before, *after; /* in the list of unused entries, longest unused first */
    size_t client;
    size_t users;
    int moving;  /* it changes from `client` to another one; both find it here meanwhile */
    int changed; /* since it was last written to the file */
    double *scalars;
    void *vectors[];
} entry;

/* A client that was touched at least once. The others, perhaps a hundred million, use no memory. */
typedef struct {
    uint32_t key;   /* 1 + the client; 0: a free slot */
    uint32_t place; /* 1 + its place in the file or on the shelf; 0: none */
    entry *entry;   /* NULL: not in memory */
} slot;

/* Without a budget neither the list nor the file is used; only one thread at a time uses a client. */
struct fli_store {
    fl_ctx *ctx;
    fli_store_spec spec;
    /* bytes of an entry: its tables; the saved part, and in it scalars and vectors */
    size_t head, payload, numbers, vectors;
    atomic_size_t held;   /* number of entries in memory */
    pthread_mutex_t lock; /* held for bookkeeping, never during disk access */
    pthread_cond_t moved;
    int lockable;
    /* under the lock: a hash table, at most three quarters full, from which no client is removed */
    slot *slots;
    size_t room, used; /* room: a power of two, or 0 */
    /* with a budget: */
    size_t most; /* entries that the budget allows */
    size_t placed;
    fli_spill *spill; /* NULL until the first client is written */
    void **shelf;     /* plain memory instead of the file, for `placed` clients */
    size_t shelves;
    entry *oldest, *newest;
};

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t stride(const fli_store *s) { return round_up(fli_bytes(&s->spec.space)); }

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status lock_new(fli_store *s)
{
    if (pthread_mutex_init(&s->lock, NULL)) return fli_fail(s->ctx, FL_ESYSTEM, "a mutex cannot be created");
    if (pthread_cond_init(&s->moved, NULL)) {
        pthread_mutex_destroy(&s->lock);
        return fli_fail(s->ctx, FL_ESYSTEM, "a condition variable cannot be created");
    }
    s->lockable = 1;
    return FL_OK;
}

fl_status fli_store_new(fl_ctx *ctx, const fli_store_spec *spec, fli_store **out)
{
    fli_store *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->spec = *spec;
    s->head = round_up(sizeof(entry) + spec->vectors * sizeof(void *));
    s->numbers = round_up(spec->scalars * sizeof(double));
    s->vectors = spec->vectors * stride(s);
    s->payload = s->numbers + s->vectors;
    atomic_init(&s->held, 0);
    s->most = s->payload ? spec->budget / (s->head + s->payload) : 0;
    fl_status status = lock_new(s);
    if (status)
        fli_store_free(s);
    else
        *out = s;
    return status;
}

static void entry_free(const fli_store *s, entry *e)
{
    if (e && s->spec.space.place && s->vectors) fli_vector_free(&s->spec.space, e->vectors[0]);
    fli_free(e);
}

void fli_store_free(fli_store *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->room; i++) entry_free(s, s->slots[i].entry);
    for (size_t i = 0; i < s->shelves; i++) fli_free(s->shelf[i]);
    fli_free(s->shelf);
    if (s->lockable) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->moved);
    }
    spill_free(s->spill);
    fli_free(s->slots);
    fli_free(s);
}

/* ---- the table of clients, under the lock ----------------------------------------------------------------- */

/* The slot of a client, or the free slot for it. */
static slot *seek(slot *slots, size_t room, size_t client)
{
    size_t at = (size_t)((uint64_t)client * 0x9E3779B97F4A7C15u >> 32);
    for (;; at++) {
        slot *t = &slots[at & (room - 1)];
        if (!t->key || t->key == client + 1) return t;
    }
}

/* NULL: this client was never touched. Valid until the next slot_for. */
static slot *find(const fli_store *s, size_t client)
{
    slot *t = s->room ? seek(s->slots, s->room, client) : NULL;
    return t && t->key ? t : NULL;
}

static fl_status make_room(fli_store *s)
{
    size_t room = s->room ? 2 * s->room : 64;
    slot *slots = fli_alloc(s->ctx, room, sizeof *slots);
    if (!slots) return FL_ENOMEM;
    for (size_t i = 0; i < s->room; i++)
        if (s->slots[i].key) *seek(slots, room, s->slots[i].key - 1) = s->slots[i];
    fli_free(s->slots);
    s->slots = slots;
    s->room = room;
    return FL_OK;
}

/* The client's slot, made if needed; NULL: out of memory. */
static slot *slot_for(fli_store *s, size_t client)
{
    slot *t = find(s, client);
    if (t) return t;
    if (4 * (s->used + 1) > 3 * s->room && make_room(s)) return NULL;
    t = seek(s->slots, s->room, client);
    t->key = (uint32_t)client + 1;
    s->used++;
    return t;
}

static entry *entry_of(const fli_store *s, size_t client)
{
    const slot *t = find(s, client);
    return t ? t->entry : NULL;
}

static size_t place_of(const fli_store *s, size_t client)
{
    const slot *t = find(s, client);
    return t ? t->place : 0;
}

/* ---- entries --------------------------------------------------------------------------------------------- */

static entry *entry_new(fli_store *s, size_t client)
{
    fli_place *place = s->spec.space.place;
    entry *e = fli_alloc(s->ctx, s->head + (place ? s->numbers : s->payload), 1);
    if (!e) return NULL;
    e->client = client;
    e->scalars = (void *)((char *)e + s->head);
    char *piece = (char *)e->scalars + s->numbers;
    if (place && s->vectors && !(piece = fli_vector_alloc(s->ctx, &s->spec.space, s->vectors))) {
        fli_free(e);
        return NULL;
    }
    for (size_t v = 0; v < s->spec.vectors; v++) e->vectors[v] = piece + v * stride(s);
    atomic_fetch_add(&s->held, 1);
    return e;
}

/* Copies a client's scalars and vectors to one piece of plain memory. write_payload copies them back. */
static void read_payload(const fli_store *s, const entry *e, void *here)
{
    memcpy(here, e->scalars, s->numbers);
    if (s->vectors) fli_vector_read(&s->spec.space, s->vectors, e->vectors[0], (char *)here + s->numbers);
}

static void write_payload(const fli_store *s, entry *e, const void *here)
{
    memcpy(e->scalars, here, s->numbers);
    if (s->vectors) fli_vector_write(&s->spec.space, s->vectors, (const char *)here + s->numbers, e->vectors[0]);
}

static void clear_payload(const fli_store *s, entry *e)
{
    memset(e->scalars, 0, s->numbers);
    for (size_t v = 0; v < s->spec.vectors; v++) fli_zero(&s->spec.space, e->vectors[v]);
}

/* ---- with a budget, under the lock ------------------------------------------------------------------------ */

static void order_append(fli_store *s, entry *e)
{
    e->before = s->newest;
    e->after = NULL;
    *(s->newest ? &s->newest->after : &s->oldest) = e;
    s->newest = e;
}

static void order_remove(fli_store *s, entry *e)
{
    *(e->before ? &e->before->after : &s->oldest) = e->after;
    *(e->after ? &e->after->before : &s->newest) = e->before;
}

static fl_status shelf_new(fli_store *s)
{
    if (s->placed == s->shelves) {
        size_t more = s->shelves ? 2 * s->shelves : 64;
        if (fli_grow(s->ctx, (void **)&s->shelf, s->shelves, more, sizeof *s->shelf)) return FL_ENOMEM;
        s->shelves = more;
    }
    return (s->shelf[s->placed] = fli_alloc(s->ctx, s->payload, 1)) ? FL_OK : FL_ENOMEM;
}

/* The place of a client in the file or on the shelf, given to it if needed. Counts from 1. */
static fl_status place_for(fli_store *s, size_t client, size_t *out)
{
    fl_status status = FL_OK;
    if ((*out = place_of(s, client))) return FL_OK;
    if (s->spec.space.place)
        status = shelf_new(s);
    else if (!s->spill)
        status = fli_spill_new(s->ctx, s->spec.folder ? s->spec.folder : "/tmp", s->payload, &s->spill);
    if (!status) *out = ++s->placed;
    return status;
}

/* In plain memory an entry's scalars and vectors are one piece. */
static fl_status write_away(fli_store *s, const entry *e, size_t place)
{
    if (!s->spec.space.place) return spill_write(s->spill, place - 1, e->scalars);
    read_payload(s, e, s->shelf[place - 1]);
    return FL_OK;
}

static fl_status read_back(fli_store *s, entry *e, size_t place)
{
    if (!s->spec.space.place) return spill_read(s->spill, place - 1, e->scalars);
    write_payload(s, e, s->shelf[place - 1]);
    return FL_OK;
}

/* Caller does not hold the lock. Writes e's content to place `out` (0: not needed), then reads another client's from
 * place `in` (0: that client is new, and its state is zeroed). *written: the first step is done. */
static fl_status swap_contents(fli_store *s, entry *e, size_t out, size_t in, int *written)
{
    fl_status status = out ? write_away(s, e, out) : FL_OK;
    *written = !status;
    if (status) return status;
    if (in) return read_back(s, e, in);
    clear_payload(s, e);
    return FL_OK;
}

static void discard(fli_store *s, entry *e)
{
    atomic_fetch_sub(&s->held, 1);
    entry_free(s, e);
}

/* An entry for a client that is not in memory: a new one while the budget allows it, else the longest unused one.
 * Releases the lock during disk access. */
static fl_status load_entry(fli_store *s, size_t client, entry **out)
{
    int fresh = s->held < s->most || !s->oldest, written;
    if (!slot_for(s, client)) return FL_ENOMEM;
    entry *e = fresh ? entry_new(s, client) : s->oldest;
    if (!e) return FL_ENOMEM;
    size_t was = e->client, from = place_of(s, client), to = 0;
    fl_status status = fresh || !e->changed ? FL_OK : place_for(s, was, &to);
    if (status) return status;
    if (!fresh) order_remove(s, e);
    e->moving = 1;
    find(s, client)->entry = e;
    pthread_mutex_unlock(&s->lock);
    status = swap_contents(s, e, to, from, &written);
    pthread_mutex_lock(&s->lock);
    e->moving = 0;
    if (to) find(s, was)->place = (uint32_t)to; /* even if the write failed: the state in memory counts */
    if (written && !fresh) {
        find(s, was)->entry = NULL;
        if (s->spec.left) s->spec.left(s->spec.arg, was);
    }
    if (!status) {
        e->client = client;
        e->changed = 0;
        *out = e;
    } else {
        find(s, client)->entry = NULL;
        if (written)
            discard(s, e);
        else
            order_append(s, e);
    }
    pthread_cond_broadcast(&s->moved);
    return status;
}

/* The client's entry, with one more user; NULL if it was never touched and `make` is 0. */
static fl_status acquire(fli_store *s, size_t client, int make, entry **out, int *first)
{
    fl_status status = FL_OK;
    pthread_mutex_lock(&s->lock);
    while (entry_of(s, client) && entry_of(s, client)->moving) pthread_cond_wait(&s->moved, &s->lock);
    entry *e = entry_of(s, client);
    *first = !e && !place_of(s, client);
    if (e && !e->users) order_remove(s, e);
    if (!e && (make || place_of(s, client))) status = load_entry(s, client, &e);
    if (e && !status) {
        e->users++;
        e->changed |= make;
    }
    pthread_mutex_unlock(&s->lock);
    *out = e;
    return status;
}

/* ---- without a budget: state stays in memory -------------------------------------------------------------- */

static entry *find_entry(fli_store *s, size_t client)
{
    pthread_mutex_lock(&s->lock);
    entry *e = entry_of(s, client);
    pthread_mutex_unlock(&s->lock);
    return e;
}

/* Makes the entry outside the lock, because that clears memory; no other thread uses this client now. */
static fl_status find_or_make_entry(fli_store *s, size_t client, entry **out, int *first)
{
    entry *e = find_entry(s, client);
    *first = !e;
    if (!e && !(e = entry_new(s, client))) return FL_ENOMEM;
    if (*first) {
        pthread_mutex_lock(&s->lock);
        slot *t = slot_for(s, client);
        if (t) t->entry = e;
        pthread_mutex_unlock(&s->lock);
        if (!t) {
            discard(s, e);
            return FL_ENOMEM;
        }
    }
    *out = e;
    return FL_OK;
}

/* ---- public functions ------------------------------------------------------------------------------------- */

fl_status fli_store_get(fli_store *s, size_t client, fli_client_state *out)
{
    entry *e = NULL;
    *out = (fli_client_state){0};
    if (!s->payload) return FL_OK;
    fl_status status =
        s->spec.budget ? acquire(s, client, 1, &e, &out->first) : find_or_make_entry(s, client, &e, &out->first);
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
    if (!s->payload) return FL_OK;
    if (!s->spec.budget) e = find_entry(s, client);
    fl_status status = s->spec.budget ? acquire(s, client, 0, &e, &first) : FL_OK;
    if (!status && e) *out = e->vectors;
    return status;
}

void fli_store_release(fli_store *s, size_t client)
{
    if (!s->payload || !s->spec.budget) return;
    pthread_mutex_lock(&s->lock);
    entry *e = entry_of(s, client);
    if (!--e->users) order_append(s, e);
    pthread_mutex_unlock(&s->lock);
}

size_t fli_store_bytes(const fli_store *s) { return atomic_load(&s->held) * (s->head + s->payload); }
size_t fli_store_spilled(const fli_store *s) { return s->placed * s->payload; }

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

static int touched(const slot *t) { return t->entry || t->place; }

static int by_client(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* All touched clients, sorted: a checkpoint must not depend on the table's order. NULL: out of memory. */
static slot *sorted(const fli_store *s, size_t *count)
{
    slot *all = fli_alloc(s->ctx, s->used, sizeof *all);
    *count = 0;
    for (size_t i = 0; all && i < s->room; i++)
        if (touched(&s->slots[i])) all[(*count)++] = s->slots[i];
    if (all) qsort(all, *count, sizeof *all, by_client);
    return all;
}

/* Copies a client's state, in memory or not. */
static fl_status read_saved(const fli_store *s, const slot *t, void *out)
{
    if (t->entry)
        read_payload(s, t->entry, out);
    else if (s->spec.space.place)
        memcpy(out, s->shelf[t->place - 1], s->payload);
    else
        return spill_read(s->spill, t->place - 1, out);
    return FL_OK;
}

/* Reads state from the file directly: saving changes nothing, not even which clients are in memory. */
void fli_store_save(fli_store *s, fli_saver *out)
{
    size_t count;
    fl_status status = FL_OK;
    slot *all = sorted(s, &count);
    void *buffer = fli_alloc(s->ctx, 1, s->payload);
    if (!all || !buffer) status = FL_ENOMEM;
    fli_save_part(out, "clients");
    fli_save_count(out, count);
    for (size_t i = 0; i < count && !status; i++) {
        status = read_saved(s, &all[i], buffer);
        fli_save_count(out, all[i].key - 1);
        if (!status) fli_save_bytes(out, buffer, s->payload);
    }
    fli_free(buffer);
    fli_free(all);
    if (status) fli_saver_fail(out, status);
}

const double *fli_store_scalars(fli_store *s, size_t client)
{
    entry *e = find_entry(s, client);
    return e ? e->scalars : NULL;
}

static fl_status load_client(fli_store *s, size_t client, fli_loader *in)
{
    fli_client_state kept;
    if (find(s, client) && touched(find(s, client)))
        return fli_loader_refuse(in, "does not fit this run: a client is in it twice");
    fl_status status = fli_store_get(s, client, &kept);
    if (status) return status;
    fli_load_bytes(in, kept.scalars, s->numbers);
    if (s->vectors) fli_load_piece(&s->spec.space, kept.vectors[0], s->vectors, in);
    fli_store_release(s, client);
    return fli_loader_status(in);
}

fl_status fli_store_load(fli_store *s, fli_loader *in)
{
    fl_status status = FL_OK;
    fli_load_part(in, "clients");
    for (uint64_t left = fli_load_count(in, s->payload ? s->spec.clients : 0); left && !status; left--) {
        size_t client = (size_t)fli_load_count(in, s->spec.clients - 1);
        if ((status = fli_loader_status(in))) break;
        if (!s->spec.here || s->spec.here(s->spec.arg, client))
            status = load_client(s, client, in);
        else
            fli_load_skip(in, s->payload);
    }
    return status ? status : fli_loader_status(in);
}
