#include "server/server_state.h"

#include "algo/user_method.h"
#include "base/os.h"

#include <stdatomic.h>
#include <string.h>

/* SLICE: entries of a slice, so few that its sums stay in the first-level cache while uploads are added. MOST_SLICES:
 * beyond this number slices grow instead; it is more than enough for the threads of a machine. Of ranks each has a
 * slice of its own, even a small one, if possible. */
enum { SLICE = 8192, MOST_SLICES = 256 };

/* The server as seen by a method in a range of entries. Absorbing also adds to scalars, so every slice has its own. All
 * come out the same; the server takes those of the first slice. */
typedef struct {
    fl_space space;
    size_t from;
    void **vec, **sum, **up; /* the server's vectors, its sums and an upload's vectors, at the slice's first entry */
    double *scalars, *scalar_sum;
    fl_coordinator view;
    int finite; /* after advancing: the model is finite in this slice */
    fl_failure failure;
} server_slice;

struct fli_server_state {
    fl_ctx *ctx;
    fli_server_state_spec spec;
    const fli_setup *setup;
    fl_space space;
    fli_message own;      /* vectors and scalars; the broadcast is a part of it */
    fli_message sums;     /* of the step under way */
    void *start;          /* the start model, if the method's clients get it */
    unsigned char *shown; /* a bit per client: it has got the start model */
    double *doubles;      /* 2 n, for the regulariser */
    void *plain;          /* a vector in plain memory; NULL: the server's vectors are there */
    int started;
    fli_step step;
    fl_coordinator view;                  /* the step as the method sees it */
    fli_server_engine in_step, in_absorb; /* the engine behind it */
    server_slice *slices;
    size_t count;
    size_t advances_from; /* the first slice that advances here */
    size_t *at;           /* where each rank's part of a vector begins, in bytes; NULL: one process */
    void *before;         /* x before a step */
    double *moves;        /* squared lengths of the last steps; NULL: the potential needs none */
    size_t remembered;
    void *passed; /* a vector in plain memory, to pass between ranks; NULL: the server's vectors are there */
    size_t uploads, missed;
    fl_failure failure; /* of calls for whole vectors */
    fli_user_failure own_failure, *user_failure;
};

static void prox(const void *state, double eta, void *x);
static double weight_of(const void *state, size_t client) { return fli_server_state_weight(state, client); }

static fl_status extras_new(fli_server_state *c)
{
    size_t n = c->space.n;
    if (fli_algo_shows_start(c->setup->algo)) {
        c->start = fli_vector_alloc(c->ctx, &c->space, fli_bytes(&c->space));
        c->shown = fli_alloc(c->ctx, c->setup->clients / 8 + 1, 1);
        if (!c->start || !c->shown) return FL_ENOMEM;
    }
    if (c->setup->regularizer && !(c->doubles = fli_alloc(c->ctx, 2 * n, sizeof *c->doubles))) return FL_ENOMEM;
    int apart = c->setup->regularizer && c->space.place;
    return apart && !(c->plain = fli_alloc(c->ctx, n, c->space.ops->size)) ? FL_ENOMEM : FL_OK;
}

static fl_status slice_new(fli_server_state *c, size_t size, size_t number)
{
    const fl_method *a = c->setup->algo;
    server_slice *s = &c->slices[number];
    size_t vectors = fli_names_count(a->server), sums = fli_names_count(a->sums), from = number * size;
    s->from = from;
    s->space = c->space;
    s->space.n = c->space.n - from < size ? c->space.n - from : size;
    s->vec = fli_alloc(c->ctx, vectors + sums + fli_parts_vectors(a->up) + 1, sizeof *s->vec);
    s->scalars = number ? fli_alloc(c->ctx, a->server_scalars + a->scalar_sums + 1, sizeof *s->scalars) : c->own.num;
    if (!s->vec || !s->scalars) return FL_ENOMEM;
    s->sum = s->vec + vectors;
    s->up = s->sum + sums;
    s->scalar_sum = number ? s->scalars + a->server_scalars : c->sums.num;
    for (size_t i = 0; i < vectors; i++) s->vec[i] = fli_at(c->space.ops, c->own.vec[i], from);
    for (size_t i = 0; i < sums; i++) s->sum[i] = fli_at(c->space.ops, c->sums.vec[i], from);
    return FL_OK;
}

static fl_status slices_new(fli_server_state *c)
{
    size_t n = c->space.n, ranks = fli_ranked(c->setup->ranks) ? c->setup->ranks->count : 1;
    size_t wanted = n / SLICE > ranks ? n / SLICE : ranks, most = wanted < MOST_SLICES ? wanted : MOST_SLICES;
    size_t size = c->spec.slice ? c->spec.slice : most > 1 ? ((n - 1) / most + 64) / 64 * 64 /* on cache lines */ : n;
    if (c->setup->algo->traits & FL_METHOD_WHOLE_ABSORB || c->space.place) size = n;
    size_t count = size < n ? n / size + (n % size != 0) : 1;
    if (!(c->slices = fli_alloc(c->ctx, count, sizeof *c->slices))) return FL_ENOMEM;
    fl_status s = FL_OK;
    while (!s && c->count < count)
        s = slice_new(c, size, c->count++); /* counted even after a failure, so that it is freed */
    return s;
}

static void slices_free(fli_server_state *c)
{
    for (size_t i = 0; i < c->count; i++) {
        fli_free(c->slices[i].vec);
        if (i) fli_free(c->slices[i].scalars);
    }
    fli_free(c->slices);
}

/* ---- ranks ----------------------------------------------------------------------------------------------- */

/* The first slice of a rank. If there are fewer slices than ranks, the lowest ranks have them. */
static size_t first_slice(const fli_server_state *c, uint32_t rank)
{
    uint32_t ranks = fli_ranked(c->setup->ranks) ? c->setup->ranks->count : 1;
    return (rank * c->count + ranks - 1) / ranks;
}

static void own_slices(const fli_server_state *c, size_t *from, size_t *to)
{
    uint32_t rank = fli_ranked(c->setup->ranks) ? c->setup->ranks->rank : 0;
    *from = first_slice(c, rank);
    *to = first_slice(c, rank + 1);
}

static size_t entry_of(const fli_server_state *c, size_t number)
{
    return number < c->count ? c->slices[number].from : c->space.n;
}

fli_entries fli_server_state_range(const fli_server_state *c, uint32_t rank)
{
    return (fli_entries){entry_of(c, first_slice(c, rank)), entry_of(c, first_slice(c, rank + 1))};
}

static fl_status ranks_new(fli_server_state *c)
{
    const fl_ranks *r = c->setup->ranks;
    if (!fli_ranked(r)) return FL_OK;
    if (!(c->at = fli_alloc(c->ctx, r->count + 1, sizeof *c->at))) return FL_ENOMEM;
    for (uint32_t i = 0; i <= r->count; i++) c->at[i] = entry_of(c, first_slice(c, i)) * c->space.ops->size;
    return c->space.place && !(c->passed = fli_alloc(c->ctx, fli_bytes(&c->space), 1)) ? FL_ENOMEM : FL_OK;
}

/* Completes each vector on every rank by the parts that other ranks have. */
static fl_status share_vectors(fli_server_state *c, void *const *vec, size_t count)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < count; i++) {
        if (c->passed) fli_vector_read(&c->space, fli_bytes(&c->space), vec[i], c->passed);
        s = fli_ranks_gather(c->ctx, c->setup->ranks, c->passed ? c->passed : vec[i], c->at);
        if (c->passed && !s) fli_vector_write(&c->space, fli_bytes(&c->space), c->passed, vec[i]);
    }
    return s;
}

/* Every slice computes the same scalars, but a rank may have no slice; rank 0, with the first one, shares them. */
static fl_status share_scalars(fli_server_state *c)
{
    const fl_method *a = c->setup->algo;
    fl_status s = fli_server_state_status(c);
    if ((s = fli_ranks_agree(c->ctx, c->setup->ranks, s))) return s;
    s = fli_ranks_share(c->ctx, c->setup->ranks, 0, c->own.num, a->server_scalars * sizeof *c->own.num);
    return s ? s : fli_ranks_share(c->ctx, c->setup->ranks, 0, c->sums.num, a->scalar_sums * sizeof *c->sums.num);
}

size_t fli_server_state_remembers(const fl_method *a, const void *params, int measure_potential)
{
    fli_algo_enter(a);
    size_t steps = measure_potential && a->theory.potential.remembers ? a->theory.potential.remembers(params) : 0;
    fli_algo_leave(a);
    return steps <= FL_REMEMBERED ? steps : 0;
}

static fl_status memory_new(fli_server_state *c)
{
    c->remembered = fli_server_state_remembers(c->setup->algo, c->setup->params, c->setup->measure_potential);
    if (!c->remembered) return FL_OK;
    c->moves = fli_alloc(c->ctx, c->remembered, sizeof *c->moves);
    c->before = fli_vector_alloc(c->ctx, &c->space, fli_bytes(&c->space));
    return c->moves && c->before ? FL_OK : FL_ENOMEM;
}

fl_status fli_server_state_new(fl_ctx *ctx, const fli_server_state_spec *spec, fli_server_state **out)
{
    const fl_method *a = spec->setup->algo;
    fl_status s;
    fli_server_state *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->spec = *spec;
    c->setup = spec->setup;
    c->space = spec->setup->model->space;
    c->space.place = spec->place;
    c->in_absorb = (fli_server_engine){.prox = prox, .weight = weight_of, .arg = c};
    c->in_step = (fli_server_engine){.prox = prox, .weight = weight_of, .arg = c, .whole = 1};
    c->user_failure = spec->user_failure && !fli_ranked(spec->setup->ranks) ? spec->user_failure : &c->own_failure;
    if ((s = fli_message_init(ctx, &c->space, fli_names_count(a->server), a->server_scalars, &c->own)) ||
        (s = fli_message_init(ctx, &c->space, fli_names_count(a->sums), a->scalar_sums, &c->sums)) ||
        (s = slices_new(c)) || (s = extras_new(c)) || (s = ranks_new(c)) || (s = memory_new(c))) {
        fli_server_state_free(c);
        return s;
    }
    *out = c;
    return FL_OK;
}

void fli_server_state_free(fli_server_state *c)
{
    if (!c) return;
    slices_free(c);
    fli_message_fini(&c->own);
    fli_message_fini(&c->sums);
    fli_vector_free(&c->space, c->start);
    fli_vector_free(&c->space, c->before);
    fli_free(c->moves);
    fli_free(c->shown);
    fli_free(c->doubles);
    fli_free(c->plain);
    fli_free(c->at);
    fli_free(c->passed);
    fli_free(c);
}

void *const *fli_server_state_vectors(const fli_server_state *c) { return c->own.vec; }
const fli_message *fli_server_state_broadcast(const fli_server_state *c) { return &c->own; }

size_t fli_server_state_broadcast_bytes(const fli_server_state *c)
{
    return fli_parts_vectors(c->setup->algo->down) * fli_vector_stride(&c->space);
}

double fli_server_state_weight(const fli_server_state *c, size_t client)
{
    if (c->setup->weights) return c->setup->weights[client];
    if (c->setup->uniform) return 1 / (double)c->setup->clients;
    return (double)c->spec.size(c->spec.arg, client) / (double)c->spec.samples;
}

/* ---- clients that have got the start model ------------------------------------------------------------------ */

void fli_server_state_address(const fli_server_state *c, fl_ask *ask)
{
    /* before the first turn of any client the model is the start model */
    int differs = c->started || ask->kind == FLI_ASK_TURN;
    int first = c->shown && differs && !(c->shown[ask->client / 8] >> ask->client % 8 & 1);
    ask->weight = fli_server_state_weight(c, ask->client);
    ask->flags = (ask->flags & ~(uint32_t)FLI_ASK_FIRST) | (first ? FLI_ASK_FIRST : 0);
}

void fli_server_state_note(fli_server_state *c, const fl_ask *ask)
{
    if (c->shown) c->shown[ask->client / 8] |= (unsigned char)(1u << ask->client % 8);
}

void fli_server_state_forget(fli_server_state *c, const fl_ask *ask)
{
    if (c->shown && ask->flags & FLI_ASK_FIRST) c->shown[ask->client / 8] &= (unsigned char)~(1u << ask->client % 8);
}

/* ---- the regulariser ------------------------------------------------------------------------------------- */

/* Converts x to doubles, in c->doubles. from_doubles converts back. */
static void to_doubles(const fli_server_state *c, const void *x)
{
    if (c->plain) fli_vector_read(&c->space, fli_bytes(&c->space), x, c->plain);
    c->space.ops->to_f64(c->space.n, c->plain ? c->plain : x, c->doubles);
}

static void from_doubles(const fli_server_state *c, void *x)
{
    c->space.ops->from_f64(c->space.n, c->doubles, c->plain ? c->plain : x);
    if (c->plain) fli_vector_write(&c->space, fli_bytes(&c->space), c->plain, x);
}

/* fli_server_engine.prox */
static void prox(const void *state, double eta, void *x)
{
    const fli_server_state *c = state;
    const fl_regularizer *g = c->setup->regularizer;
    if (!g) return;
    to_doubles(c, x);
    fli_regularizer_prox(g, c->setup->regularizer_params, eta, c->space.n, c->doubles, c->doubles + c->space.n);
    from_doubles(c, x);
}

double fli_server_state_regularizer(fli_server_state *c)
{
    if (!c->setup->regularizer) return 0;
    to_doubles(c, c->own.vec[0]);
    return fli_regularizer_value(c->setup->regularizer, c->setup->regularizer_params, c->space.n, c->doubles);
}

/* ---- a step ---------------------------------------------------------------------------------------------- */

/* Copies the server's view and scalars to the slices. */
static void set_slices(fli_server_state *c)
{
    const fl_method *a = c->setup->algo;
    for (size_t i = 0; i < c->count; i++) {
        server_slice *s = &c->slices[i];
        s->view = c->view;
        s->view.space = s->space;
        s->view.vec = s->vec;
        s->view.sum = s->sum;
        s->view.scalars = s->scalars;
        s->view.scalar_sum = s->scalar_sum;
        s->view.failure = &s->failure;
        if (!i) continue;
        memcpy(s->scalars, c->own.num, a->server_scalars * sizeof *s->scalars);
        memcpy(s->scalar_sum, c->sums.num, a->scalar_sums * sizeof *s->scalar_sum);
    }
}

static fl_coordinator view_of(fli_server_state *c, const fli_step *step)
{
    const fl_method *a = c->setup->algo;
    size_t phases = step->phases ? step->phases : 1;
    return (fl_coordinator){
        .space = c->space,
        .arg = fli_method_arg(a, c->setup->params),
        .bound = c->setup->params,
        .clients = c->setup->clients,
        .cohort = step->cohort,
        .cohort_weight = step->cohort_weight,
        .momentum = c->setup->sgd.momentum,
        .phase = step->phase,
        .phases = phases,
        .stage = fli_algo_stage(a, c->setup->params, step->phase, phases),
        .warm_up = step->warm_up,
        .vec = c->own.vec,
        .sum = c->sums.vec,
        .scalars = c->own.num,
        .scalar_sum = c->sums.num,
        .engine = &c->in_step,
        .bilevel = c->setup->model->bilevel,
        .moves = c->moves,
        .failure = &c->failure,
    };
}

static void view_step(fli_server_state *c, const fli_step *step)
{
    c->step = *step;
    if (!c->step.phases) c->step.phases = 1;
    c->view = view_of(c, step);
}

/* Call after a function of the method, for whole vectors or a slice: records its failure. ask NULL: the call is not for
 * a client. */
static void check_call(fli_server_state *c, const char *call, const fl_ask *ask, fl_failure *failure)
{
    if (!fli_has_failed(failure)) return;
    fli_user_failure_word(failure, c->setup->algo, call, ask, c->step.round);
    fli_user_failure_note(c->user_failure, failure);
}

double fli_server_state_potential(fli_server_state *c, const double *sum)
{
    fl_coordinator now = view_of(c, &(fli_step){0});
    double g = fli_server_state_regularizer(c);
    fli_algo_enter(c->setup->algo);
    double potential = c->setup->algo->theory.potential.server(&now, sum, g);
    fli_algo_leave(c->setup->algo);
    check_call(c, "potential", NULL, &c->failure);
    return potential;
}

double fli_server_state_gap_eta(fli_server_state *c)
{
    fl_coordinator now = view_of(c, &(fli_step){0});
    fli_algo_enter(c->setup->algo);
    double eta = c->setup->algo->theory.gap.eta ? c->setup->algo->theory.gap.eta(&now) : 0;
    fli_algo_leave(c->setup->algo);
    return eta;
}

void fli_server_state_resume(fli_server_state *c, const fli_step *step)
{
    view_step(c, step);
    set_slices(c);
}

fl_status fli_server_state_status(const fli_server_state *c)
{
    return fli_user_failure_there(c->user_failure) ? fli_fail(c->ctx, FL_ECALLBACK, "%s", c->user_failure->first.text)
                                                   : FL_OK;
}

/* Whether a function of the user has failed: then none is called any more. */
static int user_failed(const fli_server_state *c)
{
    return fli_user_failure_there(c->user_failure) ||
           (c->spec.user_failure && fli_user_failure_there(c->spec.user_failure));
}

/* Once, before the first turn of any client. */
static void start(fli_server_state *c)
{
    if (c->started) return;
    c->started = 1;
    if (c->start) {
        fli_copy(&c->space, c->own.vec[0], c->start);
        c->own.start = c->start;
    }
    fli_algo_start(c->setup->algo, &c->view);
    check_call(c, "start", NULL, &c->failure);
}

void fli_server_state_start(fli_server_state *c)
{
    if (!c->started) view_step(c, &(fli_step){0});
    start(c);
}

/* While a server waits for remote clients, sums of zeros need no memory. */
static void clear_sums(fli_server_state *c)
{
    int waits = c->setup->remote_queue && !c->space.place;
    for (size_t i = 0; i < fli_names_count(c->setup->algo->sums); i++)
        if (waits)
            fli_zero_pages(c->sums.vec[i], fli_bytes(&c->space));
        else
            fli_zero(&c->space, c->sums.vec[i]);
}

void fli_server_state_begin(fli_server_state *c, const fli_step *step)
{
    const fl_method *a = c->setup->algo;
    clear_sums(c);
    memset(c->sums.num, 0, a->scalar_sums * sizeof *c->sums.num);
    view_step(c, step);
    start(c);
    set_slices(c);
    c->own.serial++;
}

/* Absorbing by slices: different threads may work on different slices. Each slice gets the uploads in the same order,
 * so its bits do not depend on the thread. The intake below relies on that. */
static size_t slice_count(const fli_server_state *c) { return c->count; }

static void absorb_slice(fli_server_state *c, size_t number, const fli_exchange *x, size_t staleness)
{
    const fl_method *a = c->setup->algo;
    server_slice *s = &c->slices[number];
    if (user_failed(c)) return;
    size_t vectors = fli_parts_vectors(a->up);
    for (size_t i = 0; i < vectors; i++)
        s->up[i] = x->up.vec[i] ? fli_at(c->space.ops, x->up.vec[i], s->from) : NULL; /* NULL: not sent */
    fl_upload up = {x->ask, (const void *const *)s->up, x->up.num, staleness};
    s->view.engine = &c->in_absorb;
    fli_algo_absorb(a, &s->view, &up);
    check_call(c, "absorb", &x->ask, &s->failure);
    fli_lent *lent = x->up.lent && x->up.lent->used ? x->up.lent : NULL;
    for (size_t i = 0; lent && i < vectors; i++)
        if (s->up[i]) lent->used(lent, s->up[i], fli_bytes(&s->space));
    if (c->spec.after_absorb.call) c->spec.after_absorb.call(c->spec.after_absorb.arg);
}

void fli_server_state_count(fli_server_state *c, const fli_exchange *x)
{
    c->uploads++;
    c->missed += x->missed != 0;
}

void fli_server_state_absorb(fli_server_state *c, const fli_exchange *x, size_t staleness)
{
    for (size_t i = 0; i < c->count; i++) absorb_slice(c, i, x, staleness);
    fli_server_state_count(c, x);
}

/* fli_pool_fn */
static void advance_slice(void *state, size_t number, size_t worker)
{
    fli_server_state *c = state;
    server_slice *s = &c->slices[c->advances_from + number];
    (void)worker;
    if (user_failed(c)) return;
    s->view.engine = &c->in_step;
    fli_algo_advance(c->setup->algo, &s->view);
    check_call(c, "advance", NULL, &s->failure);
    s->finite = fli_finite(&s->space, s->vec[0]);
}

/* Whether `advance` needs whole vectors: a prox may depend on all entries. */
static int whole(const fli_server_state *c)
{
    return c->count == 1 || c->setup->regularizer || c->setup->algo->traits & FL_METHOD_WHOLE_ADVANCE;
}

static void advance_whole(fli_server_state *c)
{
    fli_algo_advance(c->setup->algo, &c->view);
    check_call(c, "advance", NULL, &c->failure);
}

/* Advances all slices, or those of this rank. */
static void advance_slices(fli_server_state *c, fli_pool *pool)
{
    size_t from = 0, to = c->count;
    if (c->step.spread) own_slices(c, &from, &to);
    c->advances_from = from;
    if (pool) fli_pool_run(pool, to - from, advance_slice, c);
    for (size_t i = 0; !pool && i < to - from; i++) advance_slice(c, i, 0);
}

/* Ranks absorb into their own slices; sums and vectors are put together when a whole vector is needed, or after
 * advancing. */
static fl_status advance_over_ranks(fli_server_state *c, fli_pool *pool)
{
    const fl_method *a = c->setup->algo;
    size_t vectors = fli_names_count(a->server), sums = fli_names_count(a->sums);
    int together = whole(c);
    if (!together) advance_slices(c, pool);
    fl_status s = share_scalars(c);
    if (!s && together) s = share_vectors(c, c->sums.vec, sums);
    if (!s) s = share_vectors(c, c->own.vec, vectors);
    if (!s && together) advance_whole(c);
    return s;
}

static fl_status advance(fli_server_state *c, fli_pool *pool)
{
    int spread = c->step.spread;
    fl_status s = spread ? advance_over_ranks(c, pool) : fli_server_state_status(c);
    if (s) return s;
    if (!spread && whole(c))
        advance_whole(c);
    else if (!spread)
        advance_slices(c, pool);
    int finite = 1;
    if (spread || whole(c))
        finite = fli_finite(&c->space, c->own.vec[0]);
    else
        for (size_t i = 0; i < c->count; i++) finite = finite && c->slices[i].finite;
    if ((s = fli_server_state_status(c)) || finite || (s = fli_space_status(&c->space, c->ctx))) return s;
    return fli_fail(c->ctx, FL_EDIVERGED, "round %zu: the global model is no longer finite; %s diverges, try %s",
                    c->step.round + 1, c->setup->algo->name, fli_algo_remedy(c->setup->algo));
}

/* x is one step further than c->before, which becomes the difference. Stores its squared length. */
static void remember(fli_server_state *c)
{
    memmove(c->moves + 1, c->moves, (c->remembered - 1) * sizeof *c->moves);
    fli_sub(&c->space, c->own.vec[0], c->before, c->before);
    c->moves[0] = fli_dot(&c->space, c->before, c->before);
}

fl_status fli_server_state_advance(fli_server_state *c, fli_pool *pool)
{
    int remembers = c->moves && !c->step.warm_up;
    if (remembers) fli_copy(&c->space, c->own.vec[0], c->before);
    fl_status s = advance(c, pool);
    if (!s && remembers) remember(c);
    return s;
}

fl_status fli_server_state_failed(const fli_server_state *c, const fli_exchange *x)
{
    if (x->status == FL_ECALLBACK && fli_user_failure_there(c->user_failure)) return fli_server_state_status(c);
    if (x->status != FL_EDIVERGED || x->ask.kind != FLI_ASK_TURN)
        return fli_has_failed(&x->why) ? fli_fail(c->ctx, x->status, "%s", x->why.text) : x->status;
    const fl_method *a = c->setup->algo;
    const char *whose = x->own_diverged ? "own" : "local";
    const char *remedy = x->own_diverged && a->personal.remedy ? a->personal.remedy
                         : a->remedy                           ? a->remedy
                                                               : FLI_LOCAL_REMEDY;
    const fli_solvers *all = &c->setup->solvers;
    const fl_solver *solver = all->at[all->of[fli_algo_stage(a, c->setup->params, x->ask.phase, x->ask.phases)]];
    if (!(solver->traits & FL_SOLVER_COUNTS_STEPS) || x->own_diverged)
        return fli_fail(c->ctx, x->status,
                        "round %zu, client %u: the %s model is no longer finite; %s diverges, try %s",
                        (size_t)x->ask.round + 1, x->ask.client, whose, a->name, remedy);
    return fli_fail(c->ctx, x->status,
                    "round %zu, client %u: the %s model is no longer finite after %zu steps of size %g; try %s",
                    (size_t)x->ask.round + 1, x->ask.client, whose, (size_t)x->ask.steps, x->ask.lr, remedy);
}

size_t fli_server_state_missed(const fli_server_state *c, size_t *uploads)
{
    *uploads = c->uploads;
    return c->missed;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

void fli_server_state_save(const fli_server_state *c, fli_saver *out)
{
    const fl_method *a = c->setup->algo;
    fli_save_part(out, "server");
    fli_save_count(out, c->started != 0);
    fli_save_count(out, c->uploads);
    fli_save_count(out, c->missed);
    fli_save_message(&c->space, &c->own, fli_names_count(a->server), a->server_scalars, out);
    /* in an asynchronous run some uploads of the step may have been absorbed */
    fli_save_message(&c->space, &c->sums, fli_names_count(a->sums), a->scalar_sums, out);
    fli_save_reals(c->moves, c->remembered, out);
    fli_save_vectors(&c->space, &c->start, c->start != NULL, out);
    if (c->shown) fli_save_bytes(out, c->shown, c->setup->clients / 8 + 1);
}

void fli_server_state_load(fli_server_state *c, fli_loader *in)
{
    const fl_method *a = c->setup->algo;
    fli_load_part(in, "server");
    c->started = (int)fli_load_count(in, 1);
    c->uploads = (size_t)fli_load_count(in, SIZE_MAX);
    c->missed = (size_t)fli_load_count(in, c->uploads);
    fli_load_message(&c->space, &c->own, fli_names_count(a->server), a->server_scalars, in);
    fli_load_message(&c->space, &c->sums, fli_names_count(a->sums), a->scalar_sums, in);
    fli_load_reals(c->moves, c->remembered, in);
    fli_load_vectors(&c->space, &c->start, c->start != NULL, in);
    if (c->shown) fli_load_bytes(in, c->shown, c->setup->clients / 8 + 1);
    c->own.start = c->started ? c->start : NULL;
}

/* ==== the intake: absorbing uploads while other clients train =============================================== */

/* The least uploads for which a thread takes a slice: its sums then move from another processor's cache. */
enum { WORTH_IT = 8 };

typedef struct {
    atomic_flag taken; /* a thread absorbs into the slice */
    atomic_size_t absorbed;
} progress;

struct fli_intake {
    fli_server_state *server;
    fli_exchange *const *list;
    size_t n;
    size_t slices, from, to; /* number of the server's slices, and the range of slices that absorb here */
    atomic_uchar *filled;    /* by place in the list */
    atomic_size_t ready;     /* how many exchanges from the first on are filled: these may be absorbed */
    progress *progress;      /* of every slice */
};

fl_status fli_intake_new(fl_ctx *ctx, fli_server_state *server, size_t most, fli_intake **out)
{
    fli_intake *in = fli_alloc(ctx, 1, sizeof *in);
    if (!in) return FL_ENOMEM;
    in->server = server;
    in->slices = slice_count(server);
    own_slices(server, &in->from, &in->to);
    in->filled = fli_alloc(ctx, most, sizeof *in->filled);
    in->progress = fli_alloc(ctx, in->slices, sizeof *in->progress);
    if (!in->filled || !in->progress) {
        fli_intake_free(in);
        return FL_ENOMEM;
    }
    *out = in;
    return FL_OK;
}

void fli_intake_free(fli_intake *in)
{
    if (!in) return;
    fli_free((void *)in->filled);
    fli_free(in->progress);
    fli_free(in);
}

/* Prepares a list of which the first `ready` exchanges are filled. */
static void begin(fli_intake *in, fli_exchange *const *list, size_t n, size_t ready)
{
    in->list = list;
    in->n = n;
    atomic_init(&in->ready, ready);
    for (size_t i = 0; i < in->slices; i++) {
        atomic_flag_clear(&in->progress[i].taken);
        atomic_init(&in->progress[i].absorbed, 0);
    }
}

void fli_intake_open(fli_intake *in, fli_exchange *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) atomic_init(&in->filled[i], 0);
    begin(in, list, n, 0);
}

/* Absorbs what is ready into a slice, unless another thread does that or fewer than `least` uploads are ready. */
static void absorb(fli_intake *in, size_t slice, size_t least)
{
    progress *p = &in->progress[slice];
    size_t at = atomic_load(&p->absorbed), ready = atomic_load(&in->ready);
    if (ready < at + least || atomic_flag_test_and_set(&p->taken)) return;
    for (at = atomic_load(&p->absorbed); at < atomic_load(&in->ready); at++)
        absorb_slice(in->server, slice, in->list[at], 0);
    atomic_store(&p->absorbed, at);
    atomic_flag_clear(&p->taken);
}

void fli_intake_filled(void *intake, size_t i)
{
    fli_intake *in = intake;
    if (in->list[i]->status) return;
    atomic_store(&in->filled[i], 1);
    size_t ready = atomic_load(&in->ready);
    while (ready < in->n && atomic_load(&in->filled[ready])) /* stops at a failed exchange */
        if (atomic_compare_exchange_weak(&in->ready, &ready, ready + 1)) ready++;
    size_t count = in->to - in->from;
    for (size_t s = 0; s < count; s++) absorb(in, in->from + (s + i) % count, WORTH_IT);
}

/* fli_pool_fn */
static void finish(void *intake, size_t slice, size_t worker)
{
    fli_intake *in = intake;
    (void)worker;
    absorb(in, in->from + slice, 1);
}

void fli_intake_close(fli_intake *in, fli_pool *pool) { fli_pool_run(pool, in->to - in->from, finish, in); }

void fli_intake_all(fli_intake *in, fli_exchange *const *list, size_t n, fli_pool *pool)
{
    begin(in, list, n, n);
    fli_intake_close(in, pool);
}
