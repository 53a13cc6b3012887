#include "exec/participation.h"

#include "data/stream.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a fixed number per round: uniform, weighted, cyclic ------------------------------------------------ */

typedef struct {
    int64_t count;
    double fraction;
} size_params;

#define SIZE_KEYS                                                                                                      \
    FLI_KEY_INT(size_params, count, "0", 0, 4294967295.0, "clients per round; 0: use fraction"),                       \
        FLI_KEY_REAL(size_params, fraction, "0.1", FLI_ABOVE_0, 1, "share of all clients per round")

static const fli_key size_keys[] = {SIZE_KEYS, FLI_KEY_END};

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
    double finish; /* when the m-th clock has rung, on average: sum_i (1 - exp(-n_i t)) = m */
    racer racers[];
} race;

/* Expected clocks that have rung by time t. */
static double rung(const fli_fed *fed, double t)
{
    double sum = 0;
    for (size_t i = 0; i < fed->clients; i++) sum -= expm1(-(double)fli_fed_size(fed, i) * t);
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

/* Drawing one after the other with probability n_i among those left is the same as a race of exponential clocks of rate
 * n_i (Efraimidis and Spirakis 2006): the m fastest take part. */
static size_t weighted_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    racer *r = ((race *)p->priv)->racers;
    for (size_t i = 0; i < p->fed->clients; i++) {
        r[i].client = (uint32_t)i;
        r[i].key = -log(1 - fli_rng_uniform(rng)) / (double)fli_fed_size(p->fed, i);
    }
    qsort(r, p->fed->clients, sizeof *r, by_key);
    for (size_t i = 0; i < p->largest; i++) out[i] = r[i].client;
    qsort(out, p->largest, sizeof *out, by_client);
    return p->largest;
}

static double weighted_probability(const fli_participation *p, size_t client)
{
    return -expm1(-(double)fli_fed_size(p->fed, client) * ((const race *)p->priv)->finish);
}

/* ---- independent coins --------------------------------------------------------------------------------- */

typedef struct {
    fli_reals probability;
} bernoulli_params;

static const fli_key bernoulli_keys[] = {
    FLI_KEY_REALS(bernoulli_params, probability, "0.1", FLI_ABOVE_0, 1,
                  "probability of taking part: one for all clients, or a list with one per client"),
    FLI_KEY_END,
};

static fl_status bernoulli_setup(fl_ctx *ctx, fli_participation *p)
{
    const bernoulli_params *a = p->params;
    if (a->probability.n == 1 || a->probability.n == p->fed->clients) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "participation.probability has %zu values, but there are %zu clients",
                    a->probability.n, p->fed->clients);
}

static size_t bernoulli_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    const fli_reals *prob = &((const bernoulli_params *)p->params)->probability;
    size_t m = 0;
    for (size_t i = 0; i < p->fed->clients; i++)
        if (fli_rng_uniform(rng) < prob->v[prob->n == 1 ? 0 : i]) out[m++] = (uint32_t)i;
    return m;
}

static double bernoulli_probability(const fli_participation *p, size_t client)
{
    return fli_reals_at(&((const bernoulli_params *)p->params)->probability, client);
}

/* ---- everyone ------------------------------------------------------------------------------------------ */

static size_t everyone_pick(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out)
{
    (void)round;
    (void)rng;
    for (size_t i = 0; i < p->fed->clients; i++) out[i] = (uint32_t)i;
    return p->fed->clients;
}

/* ---- a trace: who was there, line by line -------------------------------------------------------------- */

typedef struct {
    char *path;
} trace_params;

static const fli_key trace_keys[] = {
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
    uint32_t *seen; /* per client: rounds it is in */
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
    t->seen = fli_arena_alloc(&p->arena, p->fed->clients, sizeof *t->seen);
    if (!t->seen) return FL_ENOMEM;
    for (size_t i = 0; i < t->rounds; i++, first = first->next) {
        t->round[i] = first;
        for (size_t k = 0; k < first->n; k++) t->seen[first->clients[k]]++;
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

static double trace_probability(const fli_participation *p, size_t client)
{
    const trace *t = p->priv;
    return (double)t->seen[client] / (double)t->rounds;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static const fli_participation_desc ways[] = {
    {"uniform", "a fixed number of clients, every subset equally likely", NULL, size_keys, sizeof(size_params), 0, 1,
     size_setup, uniform_pick, NULL},
    {"bernoulli", "every client tosses its own coin", NULL, bernoulli_keys, sizeof(bernoulli_params), 0, 0,
     bernoulli_setup, bernoulli_pick, bernoulli_probability},
    {"weighted", "a fixed number of clients, drawn by the number of their samples", "Efraimidis and Spirakis, 2006",
     size_keys, sizeof(size_params), 0, 0, weighted_setup, weighted_pick, weighted_probability},
    {"cyclic", "a fixed number of clients, one group after the other", NULL, size_keys, sizeof(size_params), 0, 0,
     size_setup, cyclic_pick},
    {"everyone", "all clients in every round", NULL, NULL, 0, 1, 1, NULL, everyone_pick, NULL},
    {"trace", "who was available, from a file", NULL, trace_keys, sizeof(trace_params), 0, 0, trace_setup, trace_pick,
     trace_probability, trace_file},
};

const fli_participation_desc *const fli_participation_list[] = {&ways[0], &ways[1], &ways[2], &ways[3],
                                                                &ways[4], &ways[5], NULL};

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
    fli_arena_fini(&p->arena);
    fli_free(p);
}

size_t fli_participation_pick(const fli_participation *p, uint64_t seed, size_t round, uint32_t *out)
{
    fli_rng rng;
    fli_rng_init(&rng, seed, FLI_RNG_COHORT, (uint32_t)round, 0);
    return p->desc->pick(p, round, &rng, out);
}

double fli_participation_probability(const fli_participation *p, size_t client)
{
    if (p->desc->probability) return p->desc->probability(p, client);
    return (double)p->largest / (double)p->fed->clients;
}
