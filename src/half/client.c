/* The clients' half of a federation in public: fl_client. Its samples, the method and the model of the terms, and what
 * it keeps between asks; fli_clients with a single client does the work. */
#include "half/client_parts.h"

#include "config/config.h"
#include "plan/member.h"

#include "base/clock.h"
#include "data/federation/joined.h"

#include <string.h>

/* ---- its samples ----------------------------------------------------------------------------------------- */

static fl_status load(fl_client *c, int wide)
{
    fli_dataset *test = NULL;
    const fli_source *source = c->settings.source.item.desc;
    fli_request ask = {.params = c->settings.source.params,
                       .seed = (uint64_t)c->settings.top.seed,
                       .wide = wide,
                       .client = 1,
                       .memory = c->memory.train.size ? &c->memory : NULL};
    if (c->samples && (c->wide == wide || !source)) return FL_OK;
    if (!source) return fli_fail(c->ctx, FL_ECONFIG, "the samples of this client are gone");
    fli_dataset_free(c->samples);
    c->samples = NULL;
    fl_status s = source->load(c->ctx, &ask, &c->samples, &test);
    fli_dataset_free(test); /* testing is the server's business, or a part of these */
    if (!s) s = fli_dataset_check(c->ctx, c->samples, c->samples->origin ? c->samples->origin : "the samples");
    if (!s && c->count && c->samples->n != c->count)
        s = fli_fail(c->ctx, FL_EMISMATCH, "there were %llu samples, and now there are %zu",
                     (unsigned long long)c->count, c->samples->n);
    if (s) {
        fli_dataset_free(c->samples);
        c->samples = NULL;
        return s;
    }
    c->count = c->samples->n;
    c->wide = wide;
    return FL_OK;
}

/* The solver that takes the place of SGD here; NULL: none does. */
static const char *own_solver(const fl_client *c)
{
    const char *name = c->settings.local.solver;
    return name && strcmp(name, FLI_SOLVER_SGD) ? name : NULL;
}

static fl_status check_solver(const fl_client *c)
{
    const char *name = own_solver(c);
    if (!name || fli_settings_solver(&c->settings)) return FL_OK;
    return fli_fail(c->ctx, FL_ECONFIG, "local.solver is %s, which nobody has registered (fl_solver_register)", name);
}

fl_status fl_client_new(fl_config *cfg, fl_client **out)
{
    fli_clear(cfg->ctx);
    fl_client *c = fli_alloc(cfg->ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = cfg->ctx;
    c->memory = cfg->memory;
    fli_arena_init(&c->arena, c->ctx);
    fl_status s = fli_settings_bind_member(c->ctx, &c->arena, cfg->root, &c->settings);
    if (!s) s = check_solver(c);
    if (!s) s = load(c, fli_settings_wide(&c->settings));
    if (s)
        fl_client_free(c);
    else
        *out = c;
    return s;
}

fl_status fli_client_with(fl_ctx *ctx, fli_dataset *samples, int wide, fl_client **out)
{
    fl_client *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    *c = (fl_client){.ctx = ctx, .samples = samples, .wide = wide, .count = samples->n};
    fli_arena_init(&c->arena, ctx);
    *out = c;
    return FL_OK;
}

static void part_from(fl_client *c)
{
    fli_clients_free(c->clients);
    fli_recall_free(c->recall);
    fli_client_forget(c);
    fli_eval_fini(&c->eval);
    fli_fed_free(c->fed);
    if (c->member) fli_member_builder.free(c->member);
    fli_free(c->terms);
    c->clients = NULL;
    c->recall = NULL;
    c->eval = (fli_eval){0};
    c->fed = NULL;
    c->member = NULL;
    c->terms = NULL;
    c->now = (fli_client_place){0};
}

void fl_client_free(fl_client *c)
{
    if (!c) return;
    part_from(c);
    fli_dataset_free(c->samples);
    fli_client_limits_fini(&c->limits);
    fli_arena_fini(&c->arena);
    fli_free(c);
}

/* ---- joining --------------------------------------------------------------------------------------------- */

fl_status fl_client_labels(fl_client *c, size_t classes, const char *const *class_name)
{
    const fli_common all = {.classes = classes, .class_name = (char *const *)class_name};
    fli_clear(c->ctx);
    if (c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has joined a federation already");
    fl_status s = load(c, c->wide);
    if (s || !classes) return s; /* a regression has none */
    return fli_joined_labels(c->ctx, &all, c->samples);
}

/* As they are, all of them for training: what becomes of them is in the terms, which come later. */
static fl_status make_card(fl_client *c, int digest, fli_card *out)
{
    uint32_t none = 0;
    size_t start[2] = {0, c->samples->n};
    uint32_t *index = fli_alloc(c->ctx, c->samples->n, sizeof *index);
    if (!index) return FL_ENOMEM;
    for (size_t i = 0; i < c->samples->n; i++) index[i] = (uint32_t)i;
    fli_fed all = {.train = c->samples,
                   .here = 1,
                   .part = {1, start, index},
                   .test_count = &none,
                   .clients = 1,
                   .dim = c->samples->dim,
                   .classes = c->samples->classes};
    fl_status s = fli_card_make(c->ctx, &all, 0, digest, out);
    fli_free(index);
    return s;
}

fl_status fl_client_card(fl_client *c, int digest, fl_bytes *out)
{
    unsigned char head[FLI_CARD_BYTES];
    fli_card card;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has joined a federation already");
    fl_status s = load(c, c->wide);
    if (!s) s = make_card(c, digest, &card);
    if (s) return s;
    fli_card_write(&card, head);
    fli_packet p = {.kind = FLI_PACKET_CARD, .head = head, .head_bytes = sizeof head};
    return fli_packet_write(c->ctx, &p, out);
}

/* What the federation makes of the client's samples. */
static fl_status take_samples(fl_client *c, const fli_terms *t, const fli_settings *told)
{
    fli_fed_spec spec = fli_settings_fed(told, NULL);
    fli_look all;
    if (!fli_is_joined(&spec))
        return fli_fail(c->ctx, FL_EFORMAT, "the terms are of a federation whose samples are not at its clients");
    fl_status s = fli_joined_look(c->ctx, &spec, &all);
    if (!s) s = load(c, spec.wide);
    if (s) return s;
    fli_common common = {.classes = all.classes, .class_name = t->class_name, .before = (uint32_t)t->before};
    memcpy(common.shape, all.shape, sizeof common.shape);
    fli_dataset *samples = c->samples;
    size_t n = samples->n;
    c->samples = NULL;
    if ((s = fli_fed_member(c->ctx, &spec, &common, t->client, samples, &c->fed))) return s;
    if (n != t->samples)
        return fli_fail(c->ctx, FL_EMISMATCH, "client %u has %zu samples, but joined with %llu", t->client, n,
                        (unsigned long long)t->samples);
    if (spec.clients == t->clients && all.classes == t->classes && c->fed->dim == c->spec.model->features) return FL_OK;
    return fli_fail(c->ctx, FL_EFORMAT, "the terms contradict their settings");
}

static fl_status understand(fl_client *c, const fli_terms *t)
{
    fl_status s = fli_member_make(c->ctx, t, own_solver(c), &c->spec, &c->member);
    if (!s) s = fli_client_may_hold(c);
    if (!s) s = take_samples(c, t, fli_member_settings(c->member));
    if (s) return s;
    c->number = t->client;
    c->spec.fed = c->fed;
    c->spec.memory = 0; /* its state stays: a store puts clients on the disk to make room for others */
    c->spec.fault = &c->fault;
    c->spec.halt = &c->halt;
    c->protocol.model = c->spec.model;
    c->protocol.algo = c->spec.algo;
    c->protocol.params = c->spec.params;
    c->protocol.classes = c->fed->classes;
    c->protocol.clients = c->spec.clients;
    s = fli_eval_init(c->ctx, c->spec.model, &c->eval);
    return s ? s : fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &c->clients);
}

fl_status fl_client_accept(fl_client *c, const void *terms, size_t n)
{
    fli_packet p;
    fli_terms t = {0};
    fli_clear(c->ctx);
    fl_status s = fli_client_may_read(c, n);
    if (!s) s = fli_packet_read(c->ctx, FLI_PACKET_TERMS, terms, n, &p);
    if (s) return s;
    if (c->terms && c->terms_bytes == n && !memcmp(c->terms, terms, n)) return FL_OK;
    if (c->terms) return fli_fail(c->ctx, FL_EMISMATCH, "this client has accepted other terms already");
    s = fli_terms_read(c->ctx, p.body, p.body_bytes, &t);
    if (!s && t.client != p.client) s = fli_fail(c->ctx, FL_EFORMAT, "these terms are for two clients");
    c->protocol.run = p.run;
    if (!s) s = fli_client_may_join(c, &t);
    if (!s) s = understand(c, &t);
    if (!s && !(c->terms = fli_alloc(c->ctx, n, 1))) s = FL_ENOMEM;
    if (s)
        part_from(c);
    else
        memcpy(c->terms, terms, c->terms_bytes = n);
    fli_terms_fini(&t);
    return s;
}

size_t fl_client_ask_bytes(const fl_client *c)
{
    uint64_t most = c->limits.most.bytes;
    size_t bytes = c->terms ? fli_ask_bytes(&c->protocol) : 0;
    return most && most < bytes ? (size_t)most : bytes;
}

/* ---- working --------------------------------------------------------------------------------------------- */

/* Why a turn cannot come to a client that is there, as the end of a sentence; NULL: it can. A method relies on what
 * its server does: that turns and their phases come in order, each once, and the start model with the first of them. */
static const char *untimely(const fl_client *c, const fli_client_place *at, const fli_errand *e)
{
    const fli_algo *a = c->spec.algo;
    const fli_ask *ask = &e->x.ask;
    if (ask->kind != FLI_ASK_TURN) {
        int potential = (ask->flags & FLI_FIGURES_POTENTIAL) && ask->kind == FLI_ASK_FIGURES;
        return potential && !c->spec.watch ? "nobody said that its potential would be measured" : NULL;
    }
    if (e->number <= at->last) return "it has taken that turn, or a later one";
    if (fli_algo_shows_start(a) && !at->turns && !(ask->flags & FLI_ASK_FIRST)) return "it lacks the start model";
    if (ask->flags & FLI_ASK_FIRST && !(ask->flags & FLI_ASK_CHANGED)) return "it lacks the start model";
    if (fli_algo_redraws(a, c->spec.params, ask->phase, ask->phases)) return NULL;
    return ask->round == at->round && ask->phase == at->phase ? NULL : "its phase does not follow the one before";
}

/* What the client keeps of earlier phases is put in its place. */
static fl_status recall(fl_client *c, fli_errand *e)
{
    if (!c->recall) {
        fl_status s = fli_recall_new(c->ctx, c->spec.model, NULL, c->spec.algo, c->spec.params, &c->recall);
        if (s || !c->recall) return s; /* nothing is kept */
    }
    fl_status s = fli_recall_take(c->recall, &e->x.ask, &e->inbox);
    e->x.down = fli_recall_view(c->recall);
    return s;
}

/* Forgets what is kept of the round if this was the last exchange with the cohort. */
static void go_on(fl_client *c, const fli_errand *e)
{
    const fli_ask *ask = &e->x.ask;
    c->now.turns++;
    c->now.last = e->number;
    c->now.round = ask->round;
    c->now.phase = (uint64_t)ask->phase + 1;
    c->now.stream = ask->stream;
    c->now.warm = (ask->flags & FLI_ASK_WARM_UP) != 0;
    if (c->now.phase < fli_algo_cohort_end(c->spec.algo, c->spec.params, ask->phase, ask->phases)) return;
    c->now.round = c->now.phase = 0;
    fli_recall_free(c->recall);
    c->recall = NULL;
}

/* Takes the turn; one that fails has not been. FL_EREFUSED: it was ended before it was over. */
static fl_status take_turn(fl_client *c, fli_errand *e)
{
    fli_exchange *x = &e->x;
    double seconds = c->limits.most.seconds;
    fl_status s = fli_client_mark(c, &x->ask);
    if (s) return s;
    c->halt.until = seconds > 0 ? fli_clock_now() + seconds : 0;
    if (!(x->status = recall(c, e))) fli_clients_work(c->clients, &x, 1, 0);
    int halted = fli_halted(&c->halt), asked = atomic_exchange(&c->halt.asked, 0);
    c->halt.until = 0;
    if (!halted && !x->status) return go_on(c, e), FL_OK;
    if ((s = fli_client_undo(c))) return part_from(c), s; /* what is left of it is not what anybody thinks it is */
    if (!halted) return FL_OK;
    if (asked) return fli_fail(c->ctx, FL_EREFUSED, "client %u: the turn was stopped", c->number);
    return fli_fail(c->ctx, FL_EREFUSED, "client %u: the turn took longer than the %g seconds that this client allows",
                    c->number, seconds);
}

/* Where the client has to be for this ask; nothing has changed yet. */
static fl_status find_place(fl_client *c, const fli_errand *e, const fli_client_place **at)
{
    if (!(*at = fli_client_find(c, e->settled)))
        return fli_fail(c->ctx, FL_EMISMATCH,
                        "client %u: the server builds on its turn %llu, but its last one was %llu, and it cannot go "
                        "back to that one",
                        c->number, (unsigned long long)e->settled, (unsigned long long)c->now.last);
    const char *wrong = untimely(c, *at, e);
    if (!wrong) return FL_OK;
    return fli_fail(c->ctx, FL_EFORMAT, "client %u is asked for something impossible: %s", c->number, wrong);
}

static fl_status work(fl_client *c, fli_errand *e, fl_bytes *out)
{
    const fli_client_place *at;
    fli_exchange *x = &e->x;
    fl_status s = find_place(c, e, &at);
    if (!s) s = fli_client_may_work(c, &x->ask);
    if (!s) s = fli_client_go_back(c, at);
    if (!s && x->ask.kind == FLI_ASK_TURN)
        s = take_turn(c, e);
    else if (!s)
        fli_clients_work(c->clients, &x, 1, 0);
    if (s) return s;
    if (x->status && !fli_has_failed(&x->why) && *fl_ctx_error(c->ctx)) fl_failed(&x->why, fl_ctx_error(c->ctx));
    s = fli_answer_pack(c->ctx, &c->protocol, e, out);
    if (!s) fli_clear(c->ctx); /* a turn that failed is said in the answer */
    return s;
}

fl_status fl_client_work(fl_client *c, const void *ask, size_t n, fl_bytes *out)
{
    fli_errand e;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_client_may_read(c, n);
    if (s) return s;
    if (!(s = fli_errand_read(c->ctx, &c->protocol, c->number, ask, n, &e))) s = work(c, &e, out);
    fli_errand_fini(&e);
    return s;
}

void fl_client_stop(fl_client *c) { atomic_store(&c->halt.asked, 1); }
