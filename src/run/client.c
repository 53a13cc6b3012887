/* The clients' half of a federation in public: fl_client. Its samples, the method and the model of the terms, and what
 * it keeps between asks; fli_clients with a single client does the work. */
#include "run/client.h"

#include "run/config.h"
#include "run/member.h"

#include "data/joined.h"
#include "exec/mailbox.h"
#include "exec/recall.h"

#include <string.h>

struct fl_client {
    fl_ctx *ctx;
    fli_arena arena;       /* of the settings */
    fli_settings settings; /* its own: where its samples come from, memory */
    fli_memory memory;     /* what a program has handed over; train.size 0: nothing */
    fli_dataset *samples;  /* as loaded; NULL: not now, or the federation has them */
    int wide;              /* they were loaded for models that compute in f64 */
    uint64_t count;
    /* from the terms */
    unsigned char *terms; /* as they came; NULL: none were accepted */
    size_t terms_bytes;
    uint32_t number;
    fli_protocol protocol;
    fli_clients_spec spec;
    void *member;
    fli_fed *fed;
    fli_eval eval;
    /* what changes */
    fli_clients *clients;
    fli_recall *recall;    /* NULL: it keeps nothing of a round just now */
    uint64_t turns;        /* that it took */
    uint64_t last;         /* the number of the last of them: asks for turns have ascending numbers */
    uint64_t round, phase; /* of the exchange that is to come next, where it keeps something of the round */
};

/* ---- its samples ----------------------------------------------------------------------------------------- */

static fl_status load(fl_client *c, int wide)
{
    fli_dataset *test = NULL;
    const fli_source *source = c->settings.source.item.desc;
    fli_request ask = {.params = c->settings.source.params,
                       .seed = (uint64_t)c->settings.top.seed,
                       .wide = wide,
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

fl_status fl_client_new(fl_config *cfg, fl_client **out)
{
    fli_clear(cfg->ctx);
    fl_client *c = fli_alloc(cfg->ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = cfg->ctx;
    c->memory = cfg->memory;
    fli_arena_init(&c->arena, c->ctx);
    fl_status s = fli_settings_bind_member(c->ctx, &c->arena, cfg->root, &c->settings);
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
}

void fl_client_free(fl_client *c)
{
    if (!c) return;
    part_from(c);
    fli_dataset_free(c->samples);
    fli_arena_fini(&c->arena);
    fli_free(c);
}

/* ---- joining --------------------------------------------------------------------------------------------- */

/* As they are, all of them for training: what becomes of them is in the terms, which come later. */
static fl_status make_card(fl_client *c, int digest, fli_card *out)
{
    uint32_t none = 0;
    size_t start[2] = {0, c->samples->n};
    uint32_t *index = fli_alloc(c->ctx, c->samples->n, sizeof *index);
    if (!index) return FL_ENOMEM;
    for (size_t i = 0; i < c->samples->n; i++) index[i] = (uint32_t)i;
    fli_fed all = {.train = c->samples,
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
    fl_status s = fli_member_builder.make(c->ctx, t, &c->spec, &c->member);
    if (!s) s = take_samples(c, t, fli_member_settings(c->member));
    if (s) return s;
    c->number = t->client;
    c->spec.fed = c->fed;
    c->spec.memory = (size_t)c->settings.top.memory;
    c->spec.folder = "/var/tmp";
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
    fl_status s = fli_packet_read(c->ctx, FLI_PACKET_TERMS, terms, n, &p);
    if (s) return s;
    if (c->terms && c->terms_bytes == n && !memcmp(c->terms, terms, n)) return FL_OK;
    if (c->terms) return fli_fail(c->ctx, FL_EMISMATCH, "this client has accepted other terms already");
    s = fli_terms_read(c->ctx, p.body, p.body_bytes, &t);
    if (!s && t.client != p.client) s = fli_fail(c->ctx, FL_EFORMAT, "these terms are for two clients");
    c->protocol.run = p.run;
    if (!s) s = understand(c, &t);
    if (!s && !(c->terms = fli_alloc(c->ctx, n, 1))) s = FL_ENOMEM;
    if (s)
        part_from(c);
    else
        memcpy(c->terms, terms, c->terms_bytes = n);
    fli_terms_fini(&t);
    return s;
}

/* ---- working --------------------------------------------------------------------------------------------- */

/* Why a turn cannot come now, as the end of a sentence; NULL: it can. A method relies on what its server does: that
 * turns and their phases come in order, each once, and the start model with the first of them. */
static const char *untimely(const fl_client *c, const fli_errand *e)
{
    const fli_algo *a = c->spec.algo;
    const fli_ask *ask = &e->x.ask;
    if (ask->kind != FLI_ASK_TURN) {
        int potential = (ask->flags & FLI_FIGURES_POTENTIAL) && ask->kind == FLI_ASK_FIGURES;
        return potential && !c->spec.watch ? "nobody said that its potential would be measured" : NULL;
    }
    if (e->number <= c->last) return "it has taken that turn, or a later one";
    if (fli_algo_shows_start(a) && !c->turns && !(ask->flags & FLI_ASK_FIRST)) return "it lacks the start model";
    if (ask->flags & FLI_ASK_FIRST && !(ask->flags & FLI_ASK_CHANGED)) return "it lacks the start model";
    if (fli_algo_redraws(a, c->spec.params, ask->phase, ask->phases)) return NULL;
    return ask->round == c->round && ask->phase == c->phase ? NULL : "its phase does not follow the one before";
}

/* What the client keeps of earlier phases is put in its place. */
static fl_status recall(fl_client *c, fli_errand *e)
{
    if (e->x.ask.kind != FLI_ASK_TURN) return FL_OK;
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
    if (ask->kind != FLI_ASK_TURN) return;
    c->turns++;
    c->last = e->number;
    c->round = ask->round;
    c->phase = (uint64_t)ask->phase + 1;
    if (c->phase < fli_algo_cohort_end(c->spec.algo, c->spec.params, ask->phase, ask->phases)) return;
    c->round = c->phase = 0;
    fli_recall_free(c->recall);
    c->recall = NULL;
}

fl_status fl_client_work(fl_client *c, const void *ask, size_t n, fl_bytes *out)
{
    fli_errand e;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_errand_read(c->ctx, &c->protocol, c->number, ask, n, &e);
    const char *wrong = s ? NULL : untimely(c, &e);
    if (wrong) s = fli_fail(c->ctx, FL_EFORMAT, "client %u is asked for something impossible: %s", c->number, wrong);
    if (!s) {
        fli_exchange *x = &e.x;
        if (!(x->status = recall(c, &e))) fli_clients_work(c->clients, &x, 1, 0);
        go_on(c, &e);
        if (x->status && !fli_has_failed(&x->why) && *fl_ctx_error(c->ctx)) fl_failed(&x->why, fl_ctx_error(c->ctx));
        s = fli_answer_pack(c->ctx, &c->protocol, &e, out);
        if (!s) fli_clear(c->ctx); /* a turn that failed is said in the answer */
    }
    fli_errand_fini(&e);
    return s;
}

/* ---- what it keeps --------------------------------------------------------------------------------------- */

fl_status fl_client_state(fl_client *c, fl_bytes *out)
{
    fli_saver *saver = NULL;
    unsigned char *body = NULL;
    size_t n = 0;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_saver_open_memory(c->ctx, &saver);
    if (s) return s;
    fli_save_count(saver, c->turns);
    fli_save_count(saver, c->last);
    fli_save_count(saver, c->round);
    fli_save_count(saver, c->phase);
    fli_save_count(saver, c->recall != NULL);
    if (c->recall) fli_recall_save(c->recall, saver);
    fli_clients_save(c->clients, saver);
    if ((s = fli_saver_take(saver, &body, &n))) return s;
    fli_packet p = {
        .kind = FLI_PACKET_STATE, .client = c->number, .run = c->protocol.run, .body = body, .body_bytes = n};
    s = fli_packet_write(c->ctx, &p, out);
    fli_free(body);
    return s;
}

/* What a state says, beside the client as it is: it takes its place when all of it is there. */
typedef struct {
    fli_clients *clients;
    fli_recall *recall;
    uint64_t turns, last, round, phase;
} restored;

static fl_status read_state(fl_client *c, fli_loader *in, restored *r)
{
    r->turns = fli_load_count(in, UINT64_MAX);
    r->last = fli_load_count(in, UINT64_MAX);
    r->round = fli_load_count(in, UINT64_MAX);
    r->phase = fli_load_count(in, UINT32_MAX);
    fl_status s = FL_OK;
    if (fli_load_count(in, 1)) {
        s = fli_recall_new(c->ctx, c->spec.model, NULL, c->spec.algo, c->spec.params, &r->recall);
        if (!s && !r->recall) s = fli_loader_refuse(in, "says that this client keeps something, which it does not");
        if (!s) s = fli_recall_load(r->recall, in);
    }
    if (!s) s = fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &r->clients);
    if (!s) s = fli_clients_load(r->clients, in);
    return s ? s : fli_loader_end(in);
}

fl_status fl_client_restore(fl_client *c, const void *state, size_t n)
{
    fli_packet p;
    fli_loader *in = NULL;
    restored r = {0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    if (c->turns) return fli_fail(c->ctx, FL_ECONFIG, "this client has worked already");
    fl_status s = fli_packet_read(c->ctx, FLI_PACKET_STATE, state, n, &p);
    if (!s && (p.client != c->number || !fli_digest_same(&p.run, &c->protocol.run)))
        s = fli_fail(c->ctx, FL_EMISMATCH, "this is the state of another client, or of another run");
    if (!s) s = fli_loader_open_memory(c->ctx, "the state of a client", p.body, p.body_bytes, &in);
    if (!s) s = read_state(c, in, &r);
    fli_loader_close(in);
    if (s) {
        fli_clients_free(r.clients);
        fli_recall_free(r.recall);
        return s;
    }
    fli_clients_free(c->clients);
    fli_recall_free(c->recall);
    c->clients = r.clients;
    c->recall = r.recall;
    c->turns = r.turns;
    c->last = r.last;
    c->round = r.round;
    c->phase = r.phase;
    return FL_OK;
}
