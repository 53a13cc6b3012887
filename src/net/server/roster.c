/* The file has a line of JSON as its head, then a line per client that joins, a line per client that has to join again,
 * and at the end of the run a line per client that knows of it. Lines are only appended, each by one write that is
 * flushed to the disk, so the cost of joining does not depend on the number of clients. */
#include "net/server/roster.h"

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "net/common/protocol.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
    VERSION = 1,
    CARD_MOST = 4096, /* bytes */
    FILE_MOST = 1 << 30,
    LINE_MOST = 2 * CARD_MOST + 256,
};

typedef struct {
    char name[FLI_NET_NAME_MAX + 1]; /* "": the number is free */
    int listed;                      /* the name comes from the list, and stays */
    unsigned reserved;   /* calls of fli_roster_reserve without a release; several requests may have reserved it */
    unsigned char *card; /* NULL: not entered */
    size_t card_bytes;
    int acknowledged; /* has confirmed that it knows that the run is over */
} entry;

struct fli_roster {
    fl_ctx *ctx; /* only used while the file is opened */
    size_t clients;
    int fixed; /* names come from a list */
    char *path;
    int fd;               /* -1: no file */
    uint64_t length;      /* bytes of the file's whole lines */
    int torn;             /* the file may have more bytes: part of a line whose write failed */
    pthread_mutex_t lock; /* guards all below, and the file */
    entry *entries;
    uint32_t *table; /* numbers hashed by name; FLI_NO_CLIENT: free place */
    size_t mask;
    size_t next; /* all numbers below have names */
    size_t entered;
};

/* ---- names ------------------------------------------------------------------------------------------------ */

static size_t hash(const char *name)
{
    uint64_t h = 1469598103934665603u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

/* The place of a name in the table, or the free place for it. The table is at most half full. */
static uint32_t *seek(const fli_roster *r, const char *name)
{
    size_t at = hash(name) & r->mask;
    while (r->table[at] != FLI_NO_CLIENT && strcmp(r->entries[r->table[at]].name, name)) at = (at + 1) & r->mask;
    return &r->table[at];
}

static void take_number(fli_roster *r, uint32_t client, const char *name)
{
    fli_snprintf(r->entries[client].name, sizeof r->entries[client].name, "%s", name);
    *seek(r, name) = client;
}

/* Builds the table again after a removal: a gap would hide names behind it. */
static void build_table(fli_roster *r)
{
    for (size_t i = 0; i <= r->mask; i++) r->table[i] = FLI_NO_CLIENT;
    for (size_t i = 0; i < r->clients; i++)
        if (*r->entries[i].name) *seek(r, r->entries[i].name) = (uint32_t)i;
}

/* Removes the entry of a client. */
static void remove_entry(fli_roster *r, uint32_t client)
{
    entry *e = &r->entries[client];
    fli_free(e->card);
    e->card = NULL;
    e->acknowledged = 0;
    r->entered--;
    if (e->listed) return;
    *e->name = 0;
    if (client < r->next) r->next = client;
    build_table(r);
}

/* ---- the list ---------------------------------------------------------------------------------------------- */

static fl_status take_name(fli_roster *r, const char *path, size_t line, const char *name)
{
    if (!fli_net_name_ok(name))
        return fli_fail(r->ctx, FL_ECONFIG,
                        "%s:%zu: this is no name of a client: letters, digits, dots, hyphens and underscores, at most "
                        "%d, are",
                        path, line, FLI_NET_NAME_MAX);
    if (line > r->clients)
        return fli_fail(r->ctx, FL_ECONFIG, "%s:%zu: there are %zu clients (partition.clients), and this is one more",
                        path, line, r->clients);
    if (*seek(r, name) != FLI_NO_CLIENT)
        return fli_fail(r->ctx, FL_ECONFIG, "%s:%zu: %s is there twice", path, line, name);
    take_number(r, (uint32_t)(line - 1), name);
    r->entries[line - 1].listed = 1;
    return FL_OK;
}

static fl_status read_list(fli_roster *r, const char *path)
{
    char *text, *save = NULL;
    size_t n, line = 0;
    fl_status s = fli_file_read(r->ctx, path, FILE_MOST, &text, &n);
    if (s) return s;
    if (strlen(text) != n) s = fli_fail(r->ctx, FL_ECONFIG, "%s: this is no text", path);
    for (char *name = strtok_r(text, "\r\n", &save); name && !s; name = strtok_r(NULL, "\r\n", &save))
        s = take_name(r, path, ++line, name);
    if (!s && line < r->clients)
        s = fli_fail(r->ctx, FL_ECONFIG, "%s: has %zu names, but there are %zu clients (partition.clients)", path, line,
                     r->clients);
    r->fixed = 1;
    fli_free(text);
    return s;
}

/* ---- lines ------------------------------------------------------------------------------------------------- */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Decodes hexadecimal digits; NULL: other characters, too many, or out of memory. */
static unsigned char *read_card(fl_ctx *ctx, const char *hex, size_t *n)
{
    size_t digits = strlen(hex);
    unsigned char *card = digits && digits % 2 == 0 && digits / 2 <= CARD_MOST ? fli_alloc(ctx, digits / 2, 1) : NULL;
    for (size_t i = 0; card && i < digits; i++) {
        int d = digit(hex[i]);
        if (d < 0) {
            fli_free(card);
            return NULL;
        }
        card[i / 2] = (unsigned char)(card[i / 2] << 4 | d);
    }
    *n = digits / 2;
    return card;
}

static int line_of(char *out, size_t size, const char *name, uint32_t client, const unsigned char *card, size_t n)
{
    int k = fli_snprintf(out, size, "{\"client\": %u, \"name\": \"%s\", \"card\": \"", client, name);
    for (size_t i = 0; i < n; i++) k += fli_snprintf(out + k, size - (size_t)k, "%02x", card[i]);
    return k + fli_snprintf(out + k, size - (size_t)k, "\"}\n");
}

static fl_status damaged(fli_roster *r, size_t line)
{
    return fli_fail(r->ctx, FL_EFORMAT, "%s:%zu: this line is damaged", r->path, line);
}

static fl_status take_entry(fli_roster *r, size_t line, const json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "name"));
    const char *hex = json_string_value(json_object_get(j, "card"));
    json_int_t client = json_integer_value(json_object_get(j, "client"));
    if (!name || !hex || !fli_net_name_ok(name) || client < 0 || (uint64_t)client >= r->clients)
        return damaged(r, line);
    entry *e = &r->entries[client];
    if (e->card || (*e->name && strcmp(e->name, name)) || (!*e->name && *seek(r, name) != FLI_NO_CLIENT) ||
        (r->fixed && !*e->name))
        return fli_fail(r->ctx, FL_ECONFIG,
                        "%s:%zu: client %d joined as %s, which is not what the list of names says; use the list it was "
                        "begun with, or another output",
                        r->path, line, (int)client, name);
    if (!(e->card = read_card(r->ctx, hex, &e->card_bytes))) return damaged(r, line);
    if (!*e->name) take_number(r, (uint32_t)client, name);
    r->entered++;
    return FL_OK;
}

static fl_status take_told(fli_roster *r, size_t line, const json_t *told)
{
    json_int_t client = json_integer_value(told);
    if (!json_is_integer(told) || client < 0 || (uint64_t)client >= r->clients || !r->entries[client].card)
        return damaged(r, line);
    r->entries[client].acknowledged = 1;
    return FL_OK;
}

static fl_status take_left(fli_roster *r, size_t line, const json_t *left)
{
    json_int_t client = json_integer_value(left);
    if (!json_is_integer(left) || client < 0 || (uint64_t)client >= r->clients || !r->entries[client].card)
        return damaged(r, line);
    remove_entry(r, (uint32_t)client);
    return FL_OK;
}

static fl_status take_head(fli_roster *r, const json_t *j)
{
    json_int_t version = json_integer_value(json_object_get(j, "roster"));
    json_int_t clients = json_integer_value(json_object_get(j, "clients"));
    if (version != VERSION)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: this is no roster that this version knows", r->path);
    if ((uint64_t)clients != r->clients)
        return fli_fail(r->ctx, FL_ECONFIG,
                        "%s: that federation has %lld clients, and this one %zu (partition.clients)", r->path,
                        (long long)clients, r->clients);
    return FL_OK;
}

static fl_status take_line(fli_roster *r, size_t number, const char *line, size_t n)
{
    locale_t before = fli_locale_enter();
    json_t *j = n < LINE_MOST ? json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fli_locale_leave(before);
    const json_t *told = json_object_get(j, "told"), *left = json_object_get(j, "left");
    fl_status s = !j            ? damaged(r, number)
                  : number == 1 ? take_head(r, j)
                  : told        ? take_told(r, number, told)
                  : left        ? take_left(r, number, left)
                                : take_entry(r, number, j);
    json_decref(j);
    return s;
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

static fl_status read_lines(fli_roster *r)
{
    char *text;
    size_t n, number = 0;
    fl_status s = fli_file_read(r->ctx, r->path, FILE_MOST, &text, &n);
    if (s) return s;
    for (char *at = text, *end; !s && (end = memchr(at, '\n', n - (size_t)(at - text))); at = end + 1) {
        s = take_line(r, ++number, at, (size_t)(end - at));
        r->length = (uint64_t)(end + 1 - text);
    }
    fli_free(text);
    return s;
}

static fl_status cannot(fl_ctx *ctx, const fli_roster *r, int error)
{
    return fli_fail(ctx, FL_EIO, "%s: cannot be written: %s", r->path, strerror(error));
}

/* Appends a whole line, or nothing. The rest of an earlier failed write is removed first; otherwise this line would
 * become part of it. */
static fl_status append(fli_roster *r, fl_ctx *ctx, const char *line, size_t n)
{
    if (r->torn && ftruncate(r->fd, (off_t)r->length))
        return fli_fail(ctx, FL_EIO,
                        "%s: no client can join until a half-written line is removed, and removing it fails: %s",
                        r->path, strerror(errno));
    r->torn = 0;
    ssize_t wrote = pwrite(r->fd, line, n, (off_t)r->length);
    int error = wrote < 0 ? errno : (size_t)wrote < n ? ENOSPC : fdatasync(r->fd) ? errno : 0;
    if (!error) {
        r->length += n;
        return FL_OK;
    }
    r->torn = ftruncate(r->fd, (off_t)r->length) != 0;
    return cannot(ctx, r, error);
}

static fl_status open_file(fli_roster *r)
{
    char head[100];
    fl_status s = FL_OK;
    if (fli_path_kind(r->path)) s = read_lines(r);
    if (!s && !r->length) {
        int n = fli_snprintf(head, sizeof head, "{\"roster\": %d, \"clients\": %zu}\n", VERSION, r->clients);
        s = fli_file_private(r->ctx, r->path, head, (size_t)n);
        if (!s) s = fli_sync_above(r->ctx, r->path);
        r->length = (uint64_t)n;
    }
    if (s) return s;
    r->fd = fli_fd_open(r->path, O_WRONLY | O_CLOEXEC, 0);
    if (r->fd < 0 || ftruncate(r->fd, (off_t)r->length)) return cannot(r->ctx, r, errno);
    return FL_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static fl_status fill(fli_roster *r, const fli_roster_spec *spec)
{
    size_t size = 16;
    while (size < 2 * r->clients) size *= 2;
    r->mask = size - 1;
    r->entries = fli_alloc(r->ctx, r->clients, sizeof *r->entries);
    r->table = fli_alloc(r->ctx, size, sizeof *r->table);
    if (spec->file) r->path = fli_strdup(r->ctx, spec->file);
    if (!r->entries || !r->table || (spec->file && !r->path)) return FL_ENOMEM;
    build_table(r);
    fl_status s = spec->list ? read_list(r, spec->list) : FL_OK;
    return s || !spec->file ? s : open_file(r);
}

fl_status fli_roster_open(fl_ctx *ctx, const fli_roster_spec *spec, fli_roster **out)
{
    fli_roster *r = fli_alloc(ctx, 1, sizeof *r);
    *out = NULL;
    if (!r) return FL_ENOMEM;
    r->ctx = ctx;
    r->clients = spec->clients;
    r->fd = -1;
    if (pthread_mutex_init(&r->lock, NULL)) {
        fli_free(r);
        return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
    }
    fl_status s = fill(r, spec);
    if (s)
        fli_roster_free(r);
    else
        *out = r;
    return s;
}

void fli_roster_free(fli_roster *r)
{
    if (!r) return;
    for (size_t i = 0; r->entries && i < r->clients; i++) fli_free(r->entries[i].card);
    if (r->fd >= 0) close(r->fd);
    fli_free(r->entries);
    fli_free(r->table);
    fli_free(r->path);
    pthread_mutex_destroy(&r->lock);
    fli_free(r);
}

/* ---- names and cards -------------------------------------------------------------------------------------- */

uint32_t fli_roster_find(fli_roster *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    uint32_t client = *seek(r, name);
    int entered = client != FLI_NO_CLIENT && r->entries[client].card;
    pthread_mutex_unlock(&r->lock);
    return entered ? client : FLI_NO_CLIENT;
}

const char *fli_roster_name(fli_roster *r, uint32_t client)
{
    pthread_mutex_lock(&r->lock);
    int entered = client < r->clients && r->entries[client].card;
    pthread_mutex_unlock(&r->lock);
    return entered ? r->entries[client].name : NULL;
}

const char *fli_roster_listed(fli_roster *r, uint32_t client)
{
    return client < r->clients && r->entries[client].listed ? r->entries[client].name : NULL;
}

size_t fli_roster_entered(fli_roster *r)
{
    pthread_mutex_lock(&r->lock);
    size_t entered = r->entered;
    pthread_mutex_unlock(&r->lock);
    return entered;
}

/* Caller holds the lock. */
static uint32_t reserve(fli_roster *r, const char *name)
{
    uint32_t client = *seek(r, name);
    if (client != FLI_NO_CLIENT || r->fixed) return client;
    while (r->next < r->clients && *r->entries[r->next].name) r->next++;
    if (r->next == r->clients) return FLI_NO_CLIENT;
    client = (uint32_t)r->next;
    take_number(r, client, name);
    return client;
}

fl_status fli_roster_reserve(fli_roster *r, fl_ctx *ctx, const char *name, uint32_t *client)
{
    pthread_mutex_lock(&r->lock);
    *client = reserve(r, name);
    if (*client != FLI_NO_CLIENT) r->entries[*client].reserved++;
    pthread_mutex_unlock(&r->lock);
    if (*client != FLI_NO_CLIENT) return FL_OK;
    if (r->fixed) return fli_fail(ctx, FL_EMISMATCH, "%s is not on the list of this federation's clients", name);
    return fli_fail(ctx, FL_EMISMATCH, "%s cannot join: all %zu places of this federation are taken", name, r->clients);
}

void fli_roster_release(fli_roster *r, uint32_t client)
{
    pthread_mutex_lock(&r->lock);
    entry *e = &r->entries[client];
    if (!--e->reserved && !e->card && !e->listed) {
        *e->name = 0;
        if (client < r->next) r->next = client;
        build_table(r);
    }
    pthread_mutex_unlock(&r->lock);
}

fl_status fli_roster_enter(fli_roster *r, fl_ctx *ctx, uint32_t client, const void *card, size_t n)
{
    char line[LINE_MOST];
    if (!n || n > CARD_MOST) return fli_fail(ctx, FL_EFORMAT, "this is no card of a client: it has %zu bytes", n);
    unsigned char *copy = fli_alloc(ctx, n, 1);
    if (!copy) return FL_ENOMEM;
    memcpy(copy, card, n);
    pthread_mutex_lock(&r->lock);
    entry *e = &r->entries[client];
    fl_status s = FL_OK;
    if (!e->card && r->fd >= 0) s = append(r, ctx, line, (size_t)line_of(line, sizeof line, e->name, client, copy, n));
    if (!s && !e->card) {
        e->card = copy;
        e->card_bytes = n;
        r->entered++;
        copy = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    fli_free(copy);
    return s;
}

fl_status fli_roster_leave(fli_roster *r, fl_ctx *ctx, uint32_t client)
{
    char line[64];
    int n = fli_snprintf(line, sizeof line, "{\"left\": %u}\n", client);
    pthread_mutex_lock(&r->lock);
    fl_status s = r->fd >= 0 ? append(r, ctx, line, (size_t)n) : FL_OK;
    if (!s) remove_entry(r, client);
    pthread_mutex_unlock(&r->lock);
    return s;
}

const unsigned char *fli_roster_card(fli_roster *r, uint32_t client, size_t *n)
{
    pthread_mutex_lock(&r->lock);
    const entry *e = &r->entries[client];
    const unsigned char *card = e->card;
    *n = e->card_bytes;
    pthread_mutex_unlock(&r->lock);
    return card;
}

fl_status fli_roster_acknowledge(fli_roster *r, fl_ctx *ctx, uint32_t client)
{
    char line[64];
    int n = fli_snprintf(line, sizeof line, "{\"told\": %u}\n", client);
    pthread_mutex_lock(&r->lock);
    entry *e = &r->entries[client];
    fl_status s = !e->acknowledged && r->fd >= 0 ? append(r, ctx, line, (size_t)n) : FL_OK;
    if (!s) e->acknowledged = 1;
    pthread_mutex_unlock(&r->lock);
    return s;
}

int fli_roster_acknowledged(fli_roster *r, uint32_t client)
{
    pthread_mutex_lock(&r->lock);
    int acknowledged = r->entries[client].acknowledged;
    pthread_mutex_unlock(&r->lock);
    return acknowledged;
}
