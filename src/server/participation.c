#include "server/participation.h"

#include "base/number.h"
#include "data/load.h"
#include "format/stream.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== a table of probabilities, read from a file =========================================================== */

/* The file is a table with the columns round, client, p. From that round on (counted from 1), the client (counted from
 * 0), or every client (*), takes part with probability p, until a later line changes it. Rounds do not decrease, and
 * the first round has a line for *.
 *
 * Lines for * are stored once, not per client: of these and the client's own lines the later one is in force. */

/* A line of the file. */
typedef struct {
    uint64_t round; /* counted from 0 */
    size_t line;    /* its number; 0: none */
    uint32_t client;
    double p;
} entry;

enum { COLUMNS = 3 };
static const uint32_t EVERYONE = UINT32_MAX;

typedef struct {
    size_t clients;
    fli_array list; /* entries, by client and line; those for * last */
    size_t *start;  /* by client: its first entry; then the first one for *, and the end */
} probability_table;

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    const char *path;
    size_t number; /* of the current line */
    size_t clients;
    uint64_t last; /* the latest round up to that line */
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

/* Ignores empty lines, and column names in the first. */
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

static int by_client_and_line(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    if (a->client != b->client) return a->client < b->client ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static const entry *first_of(const probability_table *c, size_t group)
{
    return (const entry *)c->list.p + c->start[group];
}

/* The last entry of a group (a client's, or those for *) up to this round; NULL: none. */
static const entry *latest(const probability_table *c, size_t group, uint64_t round)
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

static const entry *in_force(const probability_table *c, uint64_t round, size_t client)
{
    const entry *own = latest(c, client, round), *all = latest(c, c->clients, round);
    if (!own || !all) return own ? own : all;
    return own->line > all->line ? own : all;
}

/* round counts from 0 */
static double probability_at(const probability_table *c, size_t round, size_t client)
{
    return in_force(c, round, client)->p;
}

/* It is enough to look at the rounds of all entries: probabilities change only there. */
static void probability_range(const probability_table *c, size_t client, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (int everyone = 0; everyone < 2; everyone++) {
        size_t group = everyone ? c->clients : client;
        for (const entry *e = first_of(c, group); e < first_of(c, group + 1); e++) {
            double p = probability_at(c, e->round, client);
            *least = fmin(*least, p);
            *most = fmax(*most, p);
        }
    }
}

/* ---- the whole table -------------------------------------------------------------------------------------- */

static fl_status arrange(fl_ctx *ctx, const char *path, probability_table *c)
{
    entry *e = c->list.p;
    size_t at = 0;
    if (!c->list.n) return fli_fail(ctx, FL_EFORMAT, "%s: the schedule is empty", path);
    c->start = fli_alloc(ctx, c->clients + 2, sizeof *c->start);
    if (!c->start) return FL_ENOMEM;
    qsort(e, c->list.n, sizeof *e, by_client_and_line);
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

static void probability_table_free(probability_table *c)
{
    if (!c) return;
    fli_array_fini(&c->list);
    fli_free(c->start);
    fli_free(c);
}

static fl_status probability_table_read(fl_ctx *ctx, const char *path, size_t clients, probability_table **out)
{
    reader r = {.ctx = ctx, .path = path, .clients = clients};
    probability_table *c = fli_alloc(ctx, 1, sizeof *c);
    *out = NULL;
    if (!c) return FL_ENOMEM;
    c->clients = clients;
    c->list.size = sizeof(entry);
    fl_status s = read_lines(&r, &c->list);
    if (!s) s = arrange(ctx, path, c);
    if (s)
        probability_table_free(c);
    else
        *out = c;
    return s;
}

/* ==== ways to draw cohorts ================================================================================= */

/* ---- a fixed number per round: uniform, weighted, cyclic ------------------------------------------------ */

typedef struct {
    int64_t count;
    double fraction;
} size_params;

#define SIZE_KEYS                                                                                                      \
    FLI_KEY_INT(size_params, count, "0", 0, 4294967295.0, "clients per round; 0: use fraction"),                       \
        FLI_KEY_REAL(size_params, fraction, "0.1", FLI_ABOVE_0, 1, "share of all clients per round")

static const fl_key size_keys[] = {SIZE_KEYS, FLI_KEY_END};

static fl_status size_setup(fl_ctx *ctx, fli_participation *p)
{
    const size_params *a = p->params;
    size_t n = p->fed->clients, m = a->count ? (size_t)a->count : (size_t)llround(a->fraction * (double)n);
    if (m > n) return fli_fail(ctx, FL_ECONFIG, "participation.count is %zu, but there are only %zu clients", m, n);
    p->largest = m ? m : 1;
    return FL_OK;
}

static size_t uniform_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    fli_rng_sample(rng, p->fed->clients, p->largest, out);
    return p->largest;
}

static size_t cyclic_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)rng;
    size_t n = p->fed->clients, m = p->largest, first = (size_t)((unsigned __int128)round * m % n), wrapped = 0;
    size_t over = first + m > n ? first + m - n : 0;
    for (size_t i = 0; i < over; i++) out[wrapped++] = (uint32_t)i; /* ascending: the wrapped part comes first */
    for (size_t i = over; i < m; i++) out[i] = (uint32_t)(first + i - over);
    return m;
}

/* A client and its key in the race below. */
typedef struct {
    double key;
    uint32_t client;
} racer;

static int by_key(const void *a, const void *b)
{
    const racer *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->client < y->client ? -1 : 1;
}

static int by_client(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

typedef struct {
    double finish; /* expected time of the m-th ring: sum_i (1 - exp(-r_i t)) = m */
    racer racers[];
} race;

/* The rate of a client's clock, up to a factor: its weight, if the data has weights, else its number of samples. */
static double rate(const fli_fed *fed, size_t client)
{
    return fed->weight ? fed->weight[client] : (double)fli_fed_size(fed, client);
}

/* The expected number of clocks that have rung by time t. */
static double rung(const fli_fed *fed, double t)
{
    double sum = 0;
    for (size_t i = 0; i < fed->clients; i++) sum -= expm1(-rate(fed, i) * t);
    return sum;
}

static fl_status weighted_setup(fl_ctx *ctx, fli_participation *p)
{
    enum { HALVINGS = 60 };
    fl_status s = size_setup(ctx, p);
    if (s) return s;
    race *r = fli_arena_alloc(&p->arena, 1, sizeof *r + p->fed->clients * sizeof(racer));
    if (!r) return FL_ENOMEM;
    double low = 0, high = 1;
    if (p->largest == p->fed->clients) low = high = INFINITY;
    while (rung(p->fed, high) < (double)p->largest) high *= 2;
    for (int i = 0; i < HALVINGS && low < high; i++) {
        double middle = (low + high) / 2;
        if (rung(p->fed, middle) < (double)p->largest)
            low = middle;
        else
            high = middle;
    }
    r->finish = high;
    p->priv = r;
    return FL_OK;
}

/* Drawing clients one after the other, with probabilities proportional to r_i among those left, equals a race of
 * exponential clocks of rate r_i (Efraimidis and Spirakis 2006): the m fastest take part. */
static size_t weighted_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    racer *r = ((race *)p->priv)->racers;
    for (size_t i = 0; i < p->fed->clients; i++) {
        r[i].client = (uint32_t)i;
        r[i].key = -log(1 - fli_rng_uniform(rng)) / rate(p->fed, i);
    }
    qsort(r, p->fed->clients, sizeof *r, by_key);
    for (size_t i = 0; i < p->largest; i++) out[i] = r[i].client;
    qsort(out, p->largest, sizeof *out, by_client);
    return p->largest;
}

static double weighted_probability(const fli_participation *p, size_t round, size_t client)
{
    (void)round;
    return -expm1(-rate(p->fed, client) * ((const race *)p->priv)->finish);
}

/* ---- independent draws --------------------------------------------------------------------------------- */

/* Draws each client independently, with the probability that the way gives it. */
static size_t toss(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    size_t m = 0;
    for (size_t i = 0; i < p->fed->clients; i++)
        if (fli_rng_uniform(rng) < p->desc->probability(p, round, i)) out[m++] = (uint32_t)i;
    return m;
}

typedef struct {
    fl_reals probability, factors;
} bernoulli_params;

static const fl_key bernoulli_keys[] = {
    FLI_KEY_REALS(bernoulli_params, probability, "0.1", FLI_ABOVE_0, 1,
                  "probability of taking part: one for all clients, or a list with one per client"),
    FLI_KEY_REALS(bernoulli_params, factors, "1", FLI_ABOVE_0, FLI_NO_MAX,
                  "multiply it in rounds 1, 2, ...; behind the last one they start over"),
    FLI_KEY_END,
};

static void range_of(const fl_reals *v, double *least, double *most)
{
    *least = *most = v->v[0];
    for (size_t i = 1; i < v->n; i++) {
        *least = fmin(*least, v->v[i]);
        *most = fmax(*most, v->v[i]);
    }
}

static fl_status bernoulli_setup(fl_ctx *ctx, fli_participation *p)
{
    const bernoulli_params *a = p->params;
    double least, most, factor;
    if (a->probability.n != 1 && a->probability.n != p->fed->clients)
        return fli_fail(ctx, FL_ECONFIG, "participation.probability has %zu values, but there are %zu clients",
                        a->probability.n, p->fed->clients);
    if (!a->factors.n) return fli_fail(ctx, FL_ECONFIG, "participation.factors is empty");
    range_of(&a->probability, &least, &most);
    range_of(&a->factors, &least, &factor);
    if (most * factor <= 1) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG,
                    "participation.probability goes up to %g and participation.factors to %g, but a probability of %g "
                    "is too large",
                    most, factor, most * factor);
}

static double bernoulli_probability(const fli_participation *p, size_t round, size_t client)
{
    const bernoulli_params *a = p->params;
    return fli_reals_at(&a->probability, client) * a->factors.v[round % a->factors.n];
}

static void bernoulli_range(const fli_participation *p, size_t client, double *least, double *most)
{
    const bernoulli_params *a = p->params;
    double one = fli_reals_at(&a->probability, client);
    range_of(&a->factors, least, most);
    *least *= one;
    *most *= one;
}

/* ---- independent draws by a schedule ------------------------------------------------------------------- */

typedef struct {
    char *path;
} schedule_params;

static const fl_key schedule_keys[] = {
    FLI_KEY_STRING(schedule_params, path, NULL,
                   "CSV file with the columns round (from 1), client (from 0, or * for all) and p: the probability "
                   "from that round on, until a later line; rounds do not decrease, and 0 < p <= 1"),
    FLI_KEY_END,
};

static fl_status schedule_setup(fl_ctx *ctx, fli_participation *p)
{
    probability_table *c;
    fl_status s = probability_table_read(ctx, ((const schedule_params *)p->params)->path, p->fed->clients, &c);
    p->priv = c;
    return s;
}

static void schedule_fini(fli_participation *p) { probability_table_free(p->priv); }
static const char *schedule_file(const void *params) { return ((const schedule_params *)params)->path; }

static double schedule_probability(const fli_participation *p, size_t round, size_t client)
{
    return probability_at(p->priv, round, client);
}

static void schedule_range(const fli_participation *p, size_t client, double *least, double *most)
{
    probability_range(p->priv, client, least, most);
}

/* ---- every client -------------------------------------------------------------------------------------- */

static size_t everyone_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    (void)rng;
    for (size_t i = 0; i < p->fed->clients; i++) out[i] = (uint32_t)i;
    return p->fed->clients;
}

/* ---- a trace: the cohort of each round, one per line --------------------------------------------------- */

typedef struct {
    char *path;
} trace_params;

static const fl_key trace_keys[] = {
    FLI_KEY_STRING(trace_params, path, NULL,
                   "text file with one line per round: the numbers of the clients that take part, from 0"),
    FLI_KEY_END,
};

typedef struct line {
    struct line *next;
    size_t n;
    uint32_t clients[];
} line;

typedef struct {
    size_t rounds;
    const line **round;
    uint32_t *appearances; /* by client: rounds in which it takes part */
} trace;

static fl_status trace_line(fl_ctx *ctx, fli_participation *p, const char *path, size_t number, const char *text,
                            line **out)
{
    size_t n = 0;
    for (const char *c = text; *(c += strspn(c, " ,\t")); c += strcspn(c, " ,\t")) n++;
    line *l = fli_arena_alloc(&p->arena, 1, sizeof *l + n * sizeof *l->clients);
    if (!l) return FL_ENOMEM;
    for (const char *c = text; *(c += strspn(c, " ,\t")); c += strcspn(c, " ,\t")) {
        char *end;
        errno = 0;
        unsigned long long v = strtoull(c, &end, 10);
        if (*c == '-' || end == c || (*end && !strchr(" ,\t", *end)) || errno || v >= p->fed->clients)
            return fli_fail(ctx, FL_EFORMAT, "%s:%zu: \"%.*s\" is not a client from 0 to %zu", path, number,
                            (int)strcspn(c, " ,\t"), c, p->fed->clients - 1);
        l->clients[l->n++] = (uint32_t)v;
    }
    qsort(l->clients, l->n, sizeof *l->clients, by_client);
    for (size_t i = 1; i < l->n; i++)
        if (l->clients[i] == l->clients[i - 1])
            return fli_fail(ctx, FL_EFORMAT, "%s:%zu: client %u is named twice", path, number, l->clients[i]);
    *out = l;
    return FL_OK;
}

static fl_status trace_read(fl_ctx *ctx, fli_participation *p, const char *path, fli_stream *in, trace *t)
{
    line *first = NULL, **tail = &first;
    char *text;
    size_t length;
    fl_status s;
    while (!(s = fli_stream_line(in, &text, &length)) && text) {
        if ((s = trace_line(ctx, p, path, t->rounds + 1, text, tail))) return s;
        tail = &(*tail)->next;
        t->rounds++;
    }
    if (s) return s;
    if (!t->rounds) return fli_fail(ctx, FL_EFORMAT, "%s: the trace is empty", path);
    t->round = fli_arena_alloc(&p->arena, t->rounds, sizeof *t->round);
    if (!t->round) return FL_ENOMEM;
    t->appearances = fli_arena_alloc(&p->arena, p->fed->clients, sizeof *t->appearances);
    if (!t->appearances) return FL_ENOMEM;
    for (size_t i = 0; i < t->rounds; i++, first = first->next) {
        t->round[i] = first;
        for (size_t k = 0; k < first->n; k++) t->appearances[first->clients[k]]++;
    }
    return FL_OK;
}

static fl_status trace_setup(fl_ctx *ctx, fli_participation *p)
{
    const char *path = ((const trace_params *)p->params)->path;
    trace *t = fli_arena_alloc(&p->arena, 1, sizeof *t);
    fli_stream *in = NULL;
    if (!t) return FL_ENOMEM;
    fl_status s = fli_stream_open(ctx, path, &in);
    if (!s) s = trace_read(ctx, p, path, in, t);
    fli_stream_close(in);
    p->priv = t;
    return s;
}

static const char *trace_file(const void *params) { return ((const trace_params *)params)->path; }

static size_t trace_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)rng;
    const trace *t = p->priv;
    const line *l = t->round[round % t->rounds]; /* a trace shorter than the run starts over */
    memcpy(out, l->clients, l->n * sizeof *out);
    return l->n;
}

static double trace_probability(const fli_participation *p, size_t round, size_t client)
{
    (void)round;
    const trace *t = p->priv;
    return (double)t->appearances[client] / (double)t->rounds;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static const fli_participation_desc ways[] = {
    {.name = "uniform",
     .title = "a fixed number of clients, every subset equally likely",
     .keys = size_keys,
     .params_size = sizeof(size_params),
     .at_work = 1,
     .setup = size_setup,
     .pick = uniform_pick},
    {.name = "bernoulli",
     .title = "every client tosses its own coin",
     .keys = bernoulli_keys,
     .params_size = sizeof(bernoulli_params),
     .setup = bernoulli_setup,
     .pick = toss,
     .probability = bernoulli_probability,
     .range = bernoulli_range},
    {.name = "schedule",
     .title = "every client tosses its own coin, whose probability changes over the rounds, from a file",
     .keys = schedule_keys,
     .params_size = sizeof(schedule_params),
     .setup = schedule_setup,
     .pick = toss,
     .probability = schedule_probability,
     .range = schedule_range,
     .file = schedule_file,
     .fini = schedule_fini},
    {.name = "weighted",
     .title = "a fixed number of clients, drawn by the number of their samples, or by weights that come with the data",
     .citation = "Efraimidis and Spirakis, 2006",
     .keys = size_keys,
     .params_size = sizeof(size_params),
     .setup = weighted_setup,
     .pick = weighted_pick,
     .probability = weighted_probability},
    {.name = "cyclic",
     .title = "a fixed number of clients, one group after the other",
     .keys = size_keys,
     .params_size = sizeof(size_params),
     .planned = 1,
     .setup = size_setup,
     .pick = cyclic_pick},
    {.name = "everyone", .title = "all clients in every round", .everyone = 1, .at_work = 1, .pick = everyone_pick},
    {.name = "trace",
     .title = "who was available, from a file",
     .keys = trace_keys,
     .params_size = sizeof(trace_params),
     .planned = 1,
     .setup = trace_setup,
     .pick = trace_pick,
     .probability = trace_probability,
     .file = trace_file},
};

const fli_participation_desc *const fli_participation_list[] = {&ways[0], &ways[1], &ways[2], &ways[3],
                                                                &ways[4], &ways[5], &ways[6], NULL};

fl_status fli_participation_new(fl_ctx *ctx, const fli_participation_desc *desc, const void *params, const fli_fed *fed,
                                fli_participation **out)
{
    fli_participation *p = fli_alloc(ctx, 1, sizeof *p);
    if (!p) return FL_ENOMEM;
    *p = (fli_participation){.desc = desc, .params = params, .fed = fed, .largest = fed->clients};
    fli_arena_init(&p->arena, ctx);
    fl_status s = desc->setup ? desc->setup(ctx, p) : FL_OK;
    if (s)
        fli_participation_free(p);
    else
        *out = p;
    return s;
}

void fli_participation_free(fli_participation *p)
{
    if (!p) return;
    if (p->desc->fini) p->desc->fini(p);
    fli_arena_fini(&p->arena);
    fli_free(p);
}

size_t fli_participation_pick(const fli_participation *p, uint64_t seed, size_t round, uint32_t *out)
{
    fli_rng rng;
    fli_rng_init(&rng, seed, FLI_RNG_COHORT, (uint32_t)round, 0);
    return p->desc->pick(p, round, &rng, out);
}

double fli_participation_probability(const fli_participation *p, size_t round, size_t client)
{
    if (p->desc->probability) return p->desc->probability(p, round, client);
    return (double)p->largest / (double)p->fed->clients;
}

void fli_participation_range(const fli_participation *p, size_t client, double *least, double *most)
{
    if (p->desc->range)
        p->desc->range(p, client, least, most);
    else
        *least = *most = fli_participation_probability(p, 0, client);
}
