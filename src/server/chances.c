/* Lines for everyone are kept once, and not for each client: of a client's own lines and those the later one counts. */
#include "server/chances.h"

#include "base/number.h"
#include "data/fields.h"
#include "data/load.h"
#include "format/stream.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A line of the file. */
typedef struct {
    uint64_t round; /* from 0 */
    size_t line;    /* its number; 0 stands for no line */
    uint32_t client;
    double p;
} entry;

enum { COLUMNS = 3 };
static const uint32_t EVERYONE = UINT32_MAX;

struct fli_chances {
    size_t clients;
    fli_array list; /* of entries, by client and line; those for everyone last */
    size_t *start;  /* per client, and two more: the first for everyone, and the end */
};

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    const char *path;
    size_t number; /* of the line */
    size_t clients;
    uint64_t last; /* the latest round so far */
} reader;

static fl_status whole(const reader *r, const char *what, const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    *out = v;
    if (*text >= '0' && *text <= '9' && !*end && !errno && v >= low && v <= high) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT, "%s:%zu: \"%s\" is not a %s from %llu to %llu", r->path, r->number, text, what,
                    (unsigned long long)low, (unsigned long long)high);
}

static fl_status read_fields(reader *r, char *const *field, entry *e)
{
    uint64_t round, client = EVERYONE;
    char *end;
    fl_status s = whole(r, "round", field[0], 1, UINT32_MAX, &round);
    if (!s && strcmp(field[1], "*")) s = whole(r, "client", field[1], 0, r->clients - 1, &client);
    if (s) return s;
    if (round < r->last)
        return fli_fail(r->ctx, FL_EFORMAT, "%s:%zu: round %llu comes after round %llu; rounds must not decrease",
                        r->path, r->number, (unsigned long long)round, (unsigned long long)r->last);
    double p = fli_strtod(field[2], &end);
    if (end == field[2] || *end || !(p > 0 && p <= 1))
        return fli_fail(r->ctx, FL_EFORMAT, "%s:%zu: \"%s\" is not a probability above 0 and up to 1", r->path,
                        r->number, field[2]);
    r->last = round;
    *e = (entry){.round = round - 1, .line = r->number, .client = (uint32_t)client, .p = p};
    return FL_OK;
}

/* Empty lines, and the names of the columns in the first, say nothing. */
static fl_status read_line(reader *r, char *text, fli_array *fields, fli_array *list)
{
    entry e;
    void *room = NULL;
    fl_status s = fli_fields_split(r->ctx, text, ',', r->path, r->number, fields);
    if (s) return s;
    char **field = fields->p;
    if (fields->n == 1 && !*field[0]) return FL_OK;
    if (fields->n != COLUMNS)
        return fli_fail(r->ctx, FL_EFORMAT, "%s:%zu: has %zu columns, but must have round, client and p", r->path,
                        r->number, fields->n);
    if (r->number == 1 && !strcmp(field[0], "round")) return FL_OK;
    if (!(s = read_fields(r, field, &e))) s = fli_array_add(r->ctx, list, 1, &room);
    if (!s) memcpy(room, &e, sizeof e);
    return s;
}

static fl_status read_lines(reader *r, fli_array *list)
{
    fli_stream *in = NULL;
    fli_array fields = {.size = sizeof(char *)};
    char *text;
    size_t length;
    fl_status s = fli_stream_open(r->ctx, r->path, &in);
    while (!s && !(s = fli_stream_line(in, &text, &length)) && text) {
        r->number++;
        s = read_line(r, text, &fields, list);
    }
    fli_stream_close(in);
    fli_array_fini(&fields);
    return s;
}

/* ---- finding ------------------------------------------------------------------------------------------- */

static int by_client(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    if (a->client != b->client) return a->client < b->client ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static const entry *first_of(const fli_chances *c, size_t group) { return (const entry *)c->list.p + c->start[group]; }

/* The last entry of a group up to this round; NULL: there is none. */
static const entry *latest(const fli_chances *c, size_t group, uint64_t round)
{
    const entry *e = first_of(c, group);
    size_t low = 0, high = c->start[group + 1] - c->start[group];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e[middle].round <= round)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &e[low - 1] : NULL;
}

static const entry *in_force(const fli_chances *c, uint64_t round, size_t client)
{
    const entry *own = latest(c, client, round), *all = latest(c, c->clients, round);
    if (!own || !all) return own ? own : all;
    return own->line > all->line ? own : all;
}

double fli_chances_at(const fli_chances *c, size_t round, size_t client) { return in_force(c, round, client)->p; }

/* A probability changes only where an entry begins. */
void fli_chances_range(const fli_chances *c, size_t client, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (int everyone = 0; everyone < 2; everyone++) {
        size_t group = everyone ? c->clients : client;
        for (const entry *e = first_of(c, group); e < first_of(c, group + 1); e++) {
            double p = fli_chances_at(c, e->round, client);
            *least = fmin(*least, p);
            *most = fmax(*most, p);
        }
    }
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static fl_status arrange(fl_ctx *ctx, const char *path, fli_chances *c)
{
    entry *e = c->list.p;
    size_t at = 0;
    if (!c->list.n) return fli_fail(ctx, FL_EFORMAT, "%s: the schedule is empty", path);
    c->start = fli_alloc(ctx, c->clients + 2, sizeof *c->start);
    if (!c->start) return FL_ENOMEM;
    qsort(e, c->list.n, sizeof *e, by_client);
    for (size_t i = 0; i <= c->clients; i++) {
        c->start[i] = at;
        while (at < c->list.n && (e[at].client == i || i == c->clients)) at++;
    }
    c->start[c->clients + 1] = at;
    for (size_t i = 0; i < c->clients; i++)
        if (!in_force(c, 0, i))
            return fli_fail(ctx, FL_EFORMAT, "%s: client %zu has no probability in round 1", path, i);
    return FL_OK;
}

fl_status fli_chances_read(fl_ctx *ctx, const char *path, size_t clients, fli_chances **out)
{
    reader r = {.ctx = ctx, .path = path, .clients = clients};
    fli_chances *c = fli_alloc(ctx, 1, sizeof *c);
    *out = NULL;
    if (!c) return FL_ENOMEM;
    c->clients = clients;
    c->list.size = sizeof(entry);
    fl_status s = read_lines(&r, &c->list);
    if (!s) s = arrange(ctx, path, c);
    if (s)
        fli_chances_free(c);
    else
        *out = c;
    return s;
}

void fli_chances_free(fli_chances *c)
{
    if (!c) return;
    fli_array_fini(&c->list);
    fli_free(c->start);
    fli_free(c);
}
