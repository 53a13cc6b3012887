#include "remote/incoming.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/number.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Offsets of a packet's checksum and of the bytes that it covers, and the length of its header. After the header come
 * 20 bytes of outcome, eight of a length, and a text whose length is a multiple of eight: SHIFT aligns the vectors
 * behind them to eight bytes. */
enum { CHECKSUM_AT = 12, CHECKED_AT = 16, FRONT = 80, SHIFT = 4 };

enum {
    GRAIN = 1 << 16,     /* bytes; memory is allocated in multiples */
    FILE_GRAIN = 1 << 21 /* the same for the file: no machine has larger pages */
};

struct fli_incoming {
    fli_lent lent; /* must be first: fli_lent points to it */
    fli_incoming_store *all;
    unsigned char *memory; /* NULL: the upload is in the file */
    off_t place;           /* its offset there */
    unsigned char *mapped; /* its mapping, once fli_incoming_bytes has made one */
    size_t room, n, arrived;
    int error; /* errno of a failed write */
    uint32_t checksum;
    unsigned char front[FRONT];
    fli_incoming *next; /* in a list of unused ones */
};

struct fli_incoming_store {
    char *folder;
    size_t budget;
    pthread_mutex_t lock; /* guards all below */
    size_t users;         /* the owner, and uploads in use */
    size_t held;          /* bytes of memory, in use or spare */
    fli_incoming *spare;  /* unused memory, whose pages exist already */
    int fd;               /* < 0: no file yet */
    off_t end;            /* length of the file */
    fli_incoming *gaps;   /* unused places in the file */
};

/* ---- the store -------------------------------------------------------------------------------------------- */

fl_status fli_incoming_store_new(fl_ctx *ctx, const char *folder, size_t budget, fli_incoming_store **out)
{
    fli_incoming_store *u = fli_alloc(ctx, 1, sizeof *u);
    *out = NULL;
    if (!u || !(u->folder = fli_strdup(ctx, folder ? folder : "/tmp"))) {
        fli_free(u);
        return FL_ENOMEM;
    }
    u->budget = budget ? budget : (size_t)(fli_limit_memory().bytes / 4);
    u->users = 1;
    u->fd = -1;
    if (pthread_mutex_init(&u->lock, NULL)) {
        fli_free(u->folder);
        fli_free(u);
        return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
    }
    *out = u;
    return FL_OK;
}

static void free_list(fli_incoming *p)
{
    while (p) {
        fli_incoming *next = p->next;
        free(p->memory);
        free(p);
        p = next;
    }
}

/* Caller holds the lock, which this releases. Frees the store after its last user. */
static void leave(fli_incoming_store *u)
{
    size_t left = --u->users;
    pthread_mutex_unlock(&u->lock);
    if (left) return;
    free_list(u->spare);
    free_list(u->gaps);
    if (u->fd >= 0) close(u->fd);
    pthread_mutex_destroy(&u->lock);
    fli_free(u->folder);
    fli_free(u);
}

void fli_incoming_store_free(fli_incoming_store *u)
{
    if (!u) return;
    pthread_mutex_lock(&u->lock);
    leave(u);
}

/* ---- in memory ------------------------------------------------------------------------------------------- */

/* Caller holds the lock. Takes an unused upload from a list: one that is large enough, but at most twice as large as
 * needed. */
static fli_incoming *take_spare(fli_incoming **list, size_t n)
{
    for (fli_incoming **at = list, *p; (p = *at); at = &p->next)
        if (p->room >= n && p->room / 2 <= n) {
            *at = p->next;
            return p;
        }
    return NULL;
}

/* Caller holds the lock. Frees spare memory of other lengths to stay within the budget. */
static fli_incoming *allocate(fli_incoming_store *u, size_t room)
{
    for (fli_incoming *p; u->held + room > u->budget && (p = u->spare);) {
        u->spare = p->next;
        u->held -= p->room;
        p->next = NULL;
        free_list(p);
    }
    if (u->held + room > u->budget) return NULL;
    fli_incoming *p = calloc(1, sizeof *p);
    if (p && !(p->memory = aligned_alloc(64, room))) {
        free(p);
        p = NULL;
    }
    if (!p) return NULL;
    p->room = room;
    u->held += room;
    return p;
}

/* ---- in the file ------------------------------------------------------------------------------------------ */

/* Drops the pages of vectors that were used: the file still has them. Ignores vectors outside the mapping, which were
 * copied. */
static void drop_pages(fli_lent *lent, const void *from, size_t bytes)
{
    const fli_incoming *m = (const fli_incoming *)lent;
    uintptr_t begin = (uintptr_t)m->mapped, at = (uintptr_t)from, all = begin + SHIFT + m->n;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!m->mapped || at < begin || bytes > all - begin || at > all - bytes) return;
    size_t first = (at - begin) / page * page, end = (at - begin + bytes) / page * page;
    if (at + bytes == all) end = (at - begin + bytes + page - 1) / page * page;
    if (end > first) madvise(m->mapped + first, end - first, MADV_DONTNEED);
}

/* Caller holds the lock. Reserves disk space at the end of the file, so that later writes to it do not fail for want of
 * space. */
static fl_status extend(fli_incoming_store *u, fl_ctx *ctx, size_t room, fli_incoming **out)
{
    if (u->fd < 0) u->fd = fli_fd_unnamed(u->folder);
    int error = u->fd < 0 ? errno : posix_fallocate(u->fd, u->end, (off_t)room);
    if (error)
        return fli_fail(ctx, FL_EIO, "%s: no room for an upload beyond server.memory: %s", u->folder, strerror(error));
    fli_incoming *p = *out = calloc(1, sizeof *p);
    if (!p) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    p->room = room;
    p->place = u->end;
    u->end += (off_t)room;
    return FL_OK;
}

static size_t rounded(size_t n, size_t grain) { return (n + SHIFT + grain - 1) / grain * grain; }

/* ---- an upload -------------------------------------------------------------------------------------------- */

static void release(fli_lent *lent) { fli_incoming_free((fli_incoming *)lent); }

static void begin(fli_incoming_store *u, fli_incoming *p, size_t n)
{
    p->lent = (fli_lent){release, p->memory ? NULL : drop_pages};
    p->all = u;
    p->mapped = NULL;
    p->n = n;
    p->arrived = 0;
    p->error = 0;
    p->checksum = 0;
    p->next = NULL;
    u->users++;
}

fl_status fli_incoming_new(fli_incoming_store *u, fl_ctx *ctx, size_t n, fli_incoming **out)
{
    fl_status s = FL_OK;
    size_t room = rounded(n, GRAIN), filed = rounded(n, FILE_GRAIN);
    *out = NULL;
    if (n > SIZE_MAX / 4) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    pthread_mutex_lock(&u->lock);
    fli_incoming *p = take_spare(&u->spare, room);
    if (!p) p = allocate(u, room);
    if (!p) p = take_spare(&u->gaps, filed);
    if (!p) s = extend(u, ctx, filed, &p);
    if (!s) begin(u, p, n);
    pthread_mutex_unlock(&u->lock);
    *out = p;
    return s;
}

void fli_incoming_free(fli_incoming *p)
{
    if (!p) return;
    fli_incoming_store *u = p->all;
    if (p->mapped) munmap(p->mapped, p->n + SHIFT);
    pthread_mutex_lock(&u->lock);
    fli_incoming **list = p->memory ? &u->spare : &u->gaps;
    p->next = *list;
    *list = p;
    leave(u);
}

static fl_status write_there(fli_incoming *p, const unsigned char *bytes, size_t n)
{
    off_t at = p->place + SHIFT + (off_t)p->arrived;
    while (n) {
        ssize_t written = pwrite(p->all->fd, bytes, n, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            p->error = written ? errno : ENOSPC;
            return FL_EIO;
        }
        bytes += written;
        at += written;
        n -= (size_t)written;
    }
    return FL_OK;
}

static size_t between(size_t v, size_t least, size_t most) { return v < least ? least : v > most ? most : v; }

/* Computed as bytes arrive, while they are in the processor's cache. */
static void add_checksum(fli_incoming *p, const unsigned char *bytes, size_t n)
{
    size_t from = p->arrived, to = from + n;
    size_t end = between(CHECKSUM_AT, from, to), again = between(CHECKED_AT, from, to);
    p->checksum = fli_crc32c_more(p->checksum, bytes, end - from);
    p->checksum = fli_crc32c_more(p->checksum, bytes + (again - from), to - again);
}

fl_status fli_incoming_add(fli_incoming *p, const void *bytes, size_t n)
{
    if (n > p->n - p->arrived) return FL_EFORMAT;
    if (!n) return FL_OK;
    if (p->arrived < FRONT) memcpy(p->front + p->arrived, bytes, n < FRONT - p->arrived ? n : FRONT - p->arrived);
    add_checksum(p, bytes, n);
    if (p->memory)
        memcpy(p->memory + SHIFT + p->arrived, bytes, n);
    else if (write_there(p, bytes, n))
        return FL_EIO;
    p->arrived += n;
    return FL_OK;
}

void fli_incoming_why(const fli_incoming *p, char *sentence, size_t n)
{
    fli_snprintf(sentence, n, "%s: an upload cannot be written beyond its first %zu bytes: %s", p->all->folder,
                 p->arrived, strerror(p->error));
}

size_t fli_incoming_size(const fli_incoming *p) { return p->n; }
size_t fli_incoming_left(const fli_incoming *p) { return p->n - p->arrived; }
uint32_t fli_incoming_checksum(const fli_incoming *p) { return p->checksum; }
fli_lent *fli_incoming_lent(fli_incoming *p) { return &p->lent; }

const unsigned char *fli_incoming_front(const fli_incoming *p, size_t *n)
{
    *n = p->arrived < FRONT ? p->arrived : FRONT;
    return p->front;
}

unsigned char *fli_incoming_bytes(fli_incoming *p)
{
    if (p->memory) return p->memory + SHIFT;
    if (!p->mapped) {
        void *m = mmap(NULL, p->n + SHIFT, PROT_READ | PROT_WRITE, MAP_SHARED, p->all->fd, p->place);
        if (m == MAP_FAILED) return NULL;
        p->mapped = m;
    }
    return p->mapped + SHIFT;
}
