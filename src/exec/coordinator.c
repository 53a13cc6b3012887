#include "exec/coordinator.h"

#include <string.h>

struct fli_coordinator {
    fl_ctx *ctx;
    fli_coordinator_spec spec;
    fli_space space;
    fli_message own;      /* vectors and scalars; the broadcast is a part of it */
    fli_message sums;     /* of the step under way */
    void *start;          /* the start model, for methods whose clients are shown it */
    unsigned char *shown; /* of methods that show it: a bit per client that has been */
    double *doubles;      /* 2 n, for the regulariser */
    int started;
    fli_step step;
    fli_server view; /* the same for the method */
    size_t uploads, missed;
};

static double weight_of(const void *coordinator, size_t client) { return fli_coordinator_weight(coordinator, client); }

static fl_status extras_new(fli_coordinator *c)
{
    size_t n = c->space.n;
    if (fli_algo_shows_start(c->spec.algo)) {
        c->start = fli_alloc(c->ctx, n, c->space.ops->size);
        c->shown = fli_alloc(c->ctx, c->spec.clients / 8 + 1, 1);
        if (!c->start || !c->shown) return FL_ENOMEM;
    }
    if (c->spec.regularizer && !(c->doubles = fli_alloc(c->ctx, 2 * n, sizeof *c->doubles))) return FL_ENOMEM;
    return FL_OK;
}

fl_status fli_coordinator_new(fl_ctx *ctx, const fli_coordinator_spec *spec, fli_coordinator **out)
{
    const fli_algo *a = spec->algo;
    fl_status s;
    fli_coordinator *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->spec = *spec;
    c->space = spec->model->space;
    if ((s = fli_message_init(ctx, &c->space, fli_names_count(a->server), a->server_scalars, &c->own)) ||
        (s = fli_message_init(ctx, &c->space, fli_names_count(a->sums), a->scalar_sums, &c->sums)) ||
        (s = extras_new(c))) {
        fli_coordinator_free(c);
        return s;
    }
    *out = c;
    return FL_OK;
}

void fli_coordinator_free(fli_coordinator *c)
{
    if (!c) return;
    fli_message_fini(&c->own);
    fli_message_fini(&c->sums);
    fli_free(c->start);
    fli_free(c->shown);
    fli_free(c->doubles);
    fli_free(c);
}

void *const *fli_coordinator_vectors(const fli_coordinator *c) { return c->own.vec; }
const fli_message *fli_coordinator_broadcast(const fli_coordinator *c) { return &c->own; }

size_t fli_coordinator_broadcast_bytes(const fli_coordinator *c)
{
    return fli_parts_vectors(c->spec.algo->down) * fli_vector_stride(&c->space);
}

double fli_coordinator_weight(const fli_coordinator *c, size_t client)
{
    if (c->spec.weights) return c->spec.weights[client];
    if (c->spec.uniform) return 1 / (double)c->spec.clients;
    return (double)c->spec.size(c->spec.arg, client) / (double)c->spec.samples;
}

/* ---- who has been shown the start model ------------------------------------------------------------------------------- */

void fli_coordinator_address(const fli_coordinator *c, fli_ask *ask)
{
    /* before anybody's first turn the start model is the model itself */
    int differs = c->started || ask->kind == FLI_ASK_TURN;
    int first = c->shown && differs && !(c->shown[ask->client / 8] >> ask->client % 8 & 1);
    ask->weight = fli_coordinator_weight(c, ask->client);
    ask->flags = (ask->flags & ~(uint32_t)FLI_ASK_FIRST) | (first ? FLI_ASK_FIRST : 0);
}

void fli_coordinator_note(fli_coordinator *c, const fli_ask *ask)
{
    if (c->shown) c->shown[ask->client / 8] |= (unsigned char)(1u << ask->client % 8);
}

/* ---- the regulariser ------------------------------------------------------------------------------------- */

/* fli_server.prox */
static void prox(const void *coordinator, double eta, void *x)
{
    const fli_coordinator *c = coordinator;
    const fli_regularizer *g = c->spec.regularizer;
    if (!g) return;
    c->space.ops->to_f64(c->space.n, x, c->doubles);
    g->prox(c->spec.regularizer_params, eta, c->space.n, c->doubles, c->doubles + c->space.n);
    c->space.ops->from_f64(c->space.n, c->doubles, x);
}

double fli_coordinator_regularizer(fli_coordinator *c)
{
    if (!c->spec.regularizer) return 0;
    c->space.ops->to_f64(c->space.n, c->own.vec[0], c->doubles);
    return c->spec.regularizer->value(c->spec.regularizer_params, c->space.n, c->doubles);
}

/* ---- a step ---------------------------------------------------------------------------------------------- */

void fli_coordinator_resume(fli_coordinator *c, const fli_step *step)
{
    const fli_algo *a = c->spec.algo;
    c->step = *step;
    if (!c->step.phases) c->step.phases = 1;
    c->view = (fli_server){
        .space = &c->space,
        .params = c->spec.params,
        .clients = c->spec.clients,
        .cohort = step->cohort,
        .cohort_weight = step->cohort_weight,
        .momentum = c->spec.momentum,
        .phase = step->phase,
        .phases = c->step.phases,
        .stage = a->rounds.stage ? a->rounds.stage(c->spec.params, step->phase, c->step.phases) : 0,
        .warm_up = step->warm_up,
        .vec = c->own.vec,
        .sum = c->sums.vec,
        .scalars = c->own.num,
        .scalar_sum = c->sums.num,
        .prox = prox,
        .prox_arg = c,
        .weight = weight_of,
        .weight_arg = c,
        .model_traits = c->spec.model->desc->traits,
        .samples = c->spec.samples,
        .bilevel = c->spec.model->bilevel,
    };
}

/* Once, before the first turn of anybody. */
static void start(fli_coordinator *c)
{
    if (c->started) return;
    c->started = 1;
    if (c->start) {
        fli_copy(&c->space, c->own.vec[0], c->start);
        c->own.start = c->start;
    }
    if (c->spec.algo->start) c->spec.algo->start(&c->view);
}

void fli_coordinator_begin(fli_coordinator *c, const fli_step *step)
{
    const fli_algo *a = c->spec.algo;
    fli_coordinator_resume(c, step);
    start(c);
    for (size_t i = 0; i < fli_names_count(a->sums); i++) fli_zero(&c->space, c->sums.vec[i]);
    memset(c->sums.num, 0, a->scalar_sums * sizeof *c->sums.num);
    c->own.serial++;
}

void fli_coordinator_absorb(fli_coordinator *c, const fli_exchange *x, size_t staleness)
{
    fli_upload up = {&x->ask, x->up.vec, x->up.num, staleness};
    c->spec.algo->absorb(&c->view, &up);
    c->uploads++;
    c->missed += x->missed != 0;
}

fl_status fli_coordinator_advance(fli_coordinator *c)
{
    c->spec.algo->advance(&c->view);
    if (fli_finite(&c->space, c->own.vec[0])) return FL_OK;
    return fli_fail(c->ctx, FL_EDIVERGED, "round %zu: the global model is no longer finite; %s diverges, try %s",
                    c->step.round + 1, c->spec.algo->name, fli_algo_remedy(c->spec.algo));
}

fl_status fli_coordinator_failed(const fli_coordinator *c, const fli_exchange *x)
{
    if (x->status != FL_EDIVERGED) return x->status;
    const fli_algo *a = c->spec.algo;
    const char *whose = x->own_diverged ? "own" : "local";
    const char *remedy = x->own_diverged && a->personal.remedy ? a->personal.remedy
                         : a->remedy                           ? a->remedy
                                                               : FLI_LOCAL_REMEDY;
    if (!fli_algo_solver(a, c->spec.params, c->spec.model)->counts_steps || x->own_diverged)
        return fli_fail(c->ctx, x->status,
                        "round %zu, client %u: the %s model is no longer finite; %s diverges, try %s",
                        (size_t)x->ask.round + 1, x->ask.client, whose, a->name, remedy);
    return fli_fail(c->ctx, x->status,
                    "round %zu, client %u: the %s model is no longer finite after %zu steps of size %g; try %s",
                    (size_t)x->ask.round + 1, x->ask.client, whose, (size_t)x->ask.steps, x->ask.lr, remedy);
}

size_t fli_coordinator_missed(const fli_coordinator *c, size_t *uploads)
{
    *uploads = c->uploads;
    return c->missed;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

void fli_coordinator_save(const fli_coordinator *c, fli_saver *out)
{
    const fli_algo *a = c->spec.algo;
    fli_save_part(out, "server");
    fli_save_count(out, c->started != 0);
    fli_save_count(out, c->uploads);
    fli_save_count(out, c->missed);
    fli_save_vectors(&c->space, c->own.vec, fli_names_count(a->server), out);
    fli_save_reals(c->own.num, a->server_scalars, out);
    fli_save_vectors(&c->space, c->sums.vec, fli_names_count(a->sums), out); /* an asynchronous step may be half done */
    fli_save_reals(c->sums.num, a->scalar_sums, out);
    fli_save_vectors(&c->space, &c->start, c->start != NULL, out);
    if (c->shown) fli_save_bytes(out, c->shown, c->spec.clients / 8 + 1);
}

void fli_coordinator_load(fli_coordinator *c, fli_loader *in)
{
    const fli_algo *a = c->spec.algo;
    fli_load_part(in, "server");
    c->started = (int)fli_load_count(in, 1);
    c->uploads = (size_t)fli_load_count(in, SIZE_MAX);
    c->missed = (size_t)fli_load_count(in, c->uploads);
    fli_load_vectors(&c->space, c->own.vec, fli_names_count(a->server), in);
    fli_load_reals(c->own.num, a->server_scalars, in);
    fli_load_vectors(&c->space, c->sums.vec, fli_names_count(a->sums), in);
    fli_load_reals(c->sums.num, a->scalar_sums, in);
    fli_load_vectors(&c->space, &c->start, c->start != NULL, in);
    if (c->shown) fli_load_bytes(in, c->shown, c->spec.clients / 8 + 1);
    c->own.start = c->started ? c->start : NULL;
}
