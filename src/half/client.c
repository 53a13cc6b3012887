/* The clients' half of a federation in public: fl_client. It has the client's samples, the method and the model of the
 * terms, and the client's state between asks; fli_clients with a single client does the work. */
#include "half/client.h"

#include "base/ctx.h"
#include "base/number.h"
#include "base/os.h"
#include "base/text.h"
#include "config/config.h"
#include "data/federation/remote_data.h"
#include "engine/engine.h"
#include "format/safetensors.h"
#include "plan/client_setup.h"

#include <math.h>
#include <string.h>

/* ==== limits on what a server may ask ======================================================================= */

/* Limits (fl_client_limit) are checked before anything is computed or allocated. */

/* ---- a copy of the limits ---------------------------------------------------------------------------------- */

static void names_free(char **names)
{
    for (size_t i = 0; names && names[i]; i++) fli_free(names[i]);
    fli_free(names);
}

static void limits_fini(fli_client_limits *l)
{
    names_free(l->methods);
    names_free(l->models);
    *l = (fli_client_limits){0};
}

static fl_status names_copy(fl_ctx *ctx, const char *const *given, char ***out)
{
    size_t n = fli_names_count(given);
    if (!given) return FL_OK;
    char **names = fli_alloc(ctx, n + 1, sizeof *names);
    for (size_t i = 0; names && i < n; i++)
        if (!(names[i] = fli_strdup(ctx, given[i]))) return names_free(names), FL_ENOMEM;
    *out = names;
    return names ? FL_OK : FL_ENOMEM;
}

fl_status fl_client_limit(fl_client *c, const fl_client_limits *limits)
{
    fli_client_limits l = {0};
    fli_clear(c->ctx);
    fl_status s =
        limits ? fli_take_versioned(c->ctx, "fl_client_limits", limits, limits->size, &l.most, sizeof l.most) : FL_OK;
    if (!s && !(l.most.seconds >= 0))
        s = fli_fail(c->ctx, FL_ECONFIG, "a limit of %g seconds is no limit: 0 stands for any time", l.most.seconds);
    if (!s) s = names_copy(c->ctx, l.most.methods, &l.methods);
    if (!s) s = names_copy(c->ctx, l.most.models, &l.models);
    if (s) {
        limits_fini(&l);
        return s;
    }
    l.most.methods = l.most.models = NULL; /* they point to the caller's lists; the copies are in `l` */
    limits_fini(&c->limits);
    c->limits = l;
    return FL_OK;
}

/* ---- checks ------------------------------------------------------------------------------------------------ */

/* Each check returns FL_EREFUSED with a sentence if a limit is exceeded. First the length of any message, before its
 * bytes are read. */
static fl_status may_read(fl_client *c, size_t n)
{
    uint64_t most = c->limits.most.bytes;
    if (!most || n <= most) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED, "a message of %zu bytes came, and this client reads at most %llu", n,
                    (unsigned long long)most);
}

static fl_status check_name(fl_client *c, const char *what, char *const *names, const char *name)
{
    if (!names) return FL_OK;
    for (; *names; names++)
        if (!strcmp(*names, name)) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "the federation's %s is %.100s, which is not among those that this client allows", what, name);
}

/* Checks terms before they are used. */
static fl_status may_join(fl_client *c, const fli_terms *t)
{
    fl_status s = check_name(c, "method", c->limits.methods, t->method);
    return s ? s : check_name(c, "model", c->limits.models, t->model);
}

/* Checks the memory that the terms need before it is allocated. */
static fl_status may_hold(fl_client *c)
{
    uint64_t most = c->limits.most.memory;
    double wanted = most ? fli_footprint_client(&c->spec, (size_t)c->count) : 0;
    if (wanted <= (double)most) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "method %s and a model of %zu parameters take %.0f bytes, and this client allows %llu",
                    c->setup.algo->name, c->setup.model->space.n, wanted, (unsigned long long)most);
}

/* Samples that the turn processes, counted once per use. */
static double effort(const fl_client *c, const fl_ask *ask)
{
    size_t n = fli_fed_size(c->fed, c->number), unlabelled = fli_fed_unlabelled(c->fed, c->number);
    fl_epochs e = fli_epochs_of(c->setup.model, &c->setup.sgd, n - unlabelled, unlabelled);
    size_t cost = fli_algo_cost(c->setup.algo, c->setup.params, &c->setup.solvers, ask, &e);
    return (double)cost * (double)fli_batch_size(&c->setup.sgd, n);
}

/* Checks an ask before anything is computed. */
static fl_status may_work(fl_client *c, const fl_ask *ask)
{
    const fl_client_limits *most = &c->limits.most;
    if (ask->kind != FLI_ASK_TURN) return FL_OK;
    if (most->steps && ask->steps > most->steps)
        return fli_fail(c->ctx, FL_EREFUSED, "client %u is asked for %llu steps, and allows %llu in a turn", c->number,
                        (unsigned long long)ask->steps, (unsigned long long)most->steps);
    if (!most->samples) return FL_OK;
    /* every step uses at least one sample; if there are no more steps than that, `effort` can compute with them */
    double passes = ask->steps > most->samples ? (double)ask->steps : effort(c, ask);
    if (passes <= (double)most->samples) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "client %u is asked for a turn that passes over %.0f samples, and allows %llu, however often each",
                    c->number, passes, (unsigned long long)most->samples);
}

/* ==== state between asks ==================================================================================== */

/* A client cannot know whether its last turn counts: its answer may have come too late, or the server may have gone
 * back to a checkpoint. Every ask names the last turn that counts (fli_packet.settled), and the client goes back to the
 * place after that turn. A server asks for the same turn again, for a whole round again, or for the next turn; so the
 * client stores three places: before the last round, before the last turn, and now. It can also return to the
 * beginning, for a server that has lost everything. If the method keeps no state, any place between two rounds is the
 * same, so it does not matter if the client has lost its files. */

/* ---- snapshots -------------------------------------------------------------------------------------------- */

static void point_fini(fli_client_point *p)
{
    fli_free(p->bytes);
    *p = (fli_client_point){0};
}

/* Drops both stored places. */
static void forget_places(fl_client *c)
{
    point_fini(&c->round);
    point_fini(&c->turn);
}

/* Whether clients of this method have state that lasts from round to round. */
static int keeps_something(const fl_client *c)
{
    const fli_solvers *all = &c->setup.solvers;
    if (fli_algo_client_vectors(c->setup.algo, c->setup.measure_potential) ||
        fli_algo_client_scalars(c->setup.algo, c->setup.measure_potential))
        return 1;
    for (size_t i = 0; i < all->count; i++)
        if (fli_solver_engine_of(all->at[i])->save) return 1;
    return 0;
}

static void save_place(const fli_client_place *p, fli_saver *out)
{
    fli_save_count(out, p->turns);
    fli_save_count(out, p->last);
    fli_save_count(out, p->round);
    fli_save_count(out, p->phase);
    fli_save_count(out, p->stream);
    fli_save_count(out, p->warm);
}

static fli_client_place load_place(fli_loader *in)
{
    fli_client_place p;
    p.turns = fli_load_count(in, UINT64_MAX);
    p.last = fli_load_count(in, UINT64_MAX);
    p.round = fli_load_count(in, UINT64_MAX);
    p.phase = fli_load_count(in, UINT32_MAX);
    p.stream = fli_load_count(in, UINT64_MAX);
    p.warm = fli_load_count(in, 1);
    return p;
}

static void save_kept(fl_client *c, fli_saver *out)
{
    fli_save_count(out, c->broadcast_cache != NULL);
    if (c->broadcast_cache) fli_broadcast_cache_save(c->broadcast_cache, out);
    fli_clients_save(c->clients, out);
}

/* The content of a snapshot. It replaces the client's state once all of it has been read. */
typedef struct {
    fli_clients *clients;
    fli_broadcast_cache *broadcast_cache;
} kept;

static void kept_fini(kept *k)
{
    fli_clients_free(k->clients);
    fli_broadcast_cache_free(k->broadcast_cache);
}

static fl_status load_kept(fl_client *c, fli_loader *in, kept *k)
{
    fl_status s = FL_OK;
    if (fli_load_count(in, 1)) {
        s = fli_broadcast_cache_new(c->ctx, &c->setup, NULL, &k->broadcast_cache);
        if (!s && !k->broadcast_cache)
            s = fli_loader_refuse(in, "says that this client keeps something, which it does not");
        if (!s) s = fli_broadcast_cache_load(k->broadcast_cache, in);
    }
    if (!s) s = fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &k->clients);
    return s ? s : fli_clients_load(k->clients, in);
}

static fl_status load_point(fl_client *c, const fli_client_point *p, kept *k)
{
    fli_loader *in = NULL;
    fl_status s = fli_loader_open_memory(c->ctx, "the state of a client", p->bytes, p->n, &in);
    if (!s) s = load_kept(c, in, k);
    if (!s) s = fli_loader_end(in);
    fli_loader_close(in);
    return s;
}

static void put_in_place(fl_client *c, const kept *k, const fli_client_place *at)
{
    fli_clients_free(c->clients);
    fli_broadcast_cache_free(c->broadcast_cache);
    c->clients = k->clients;
    c->broadcast_cache = k->broadcast_cache;
    c->now = *at;
}

/* ---- going back ------------------------------------------------------------------------------------------- */

/* Stores the present place before a turn. */
static fl_status mark_place(fl_client *c, const fl_ask *ask)
{
    int warm = ask->warm_up;
    int new_round = !c->now.turns || ask->stream != c->now.stream || warm != (int)c->now.warm;
    fli_client_point p = {.there = 1, .at = c->now};
    if (c->broadcast_cache || keeps_something(c)) {
        fli_saver *saver = NULL;
        fl_status s = fli_saver_open_memory(c->ctx, &saver);
        if (s) return s;
        save_kept(c, saver);
        if ((s = fli_saver_take(saver, &p.bytes, &p.n))) return s;
    }
    point_fini(&c->turn);
    if (new_round) point_fini(&c->round);
    *(new_round ? &c->round : &c->turn) = p;
    return FL_OK;
}

static const fli_client_place beginning;

/* The place after turn number `settled`, which was the client's last one that counts (0: none). NULL: the client has no
 * such place. */
static const fli_client_place *place_after(fl_client *c, uint64_t settled)
{
    if (c->now.last == settled) return &c->now;
    if (c->turn.there && c->turn.at.last == settled) return &c->turn.at;
    if (c->round.there && c->round.at.last == settled) return &c->round.at;
    if (!settled) return &beginning;
    if (keeps_something(c)) return NULL;
    c->other = (fli_client_place){.turns = 1, .last = settled};
    return &c->other;
}

static fl_status start_over(fl_client *c, const fli_client_place *at)
{
    kept k = {0};
    fl_status s = fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &k.clients);
    if (s) return s;
    put_in_place(c, &k, at);
    forget_places(c);
    return FL_OK;
}

/* Goes back to a place: turns after it leave no trace. A failure changes nothing. */
static fl_status go_back_to(fl_client *c, const fli_client_place *to)
{
    const fli_client_point *p = to == &c->turn.at ? &c->turn : &c->round;
    kept k = {0};
    if (to == &c->now) return FL_OK;
    if (to == &beginning || to == &c->other) return start_over(c, to);
    if (p->bytes) {
        fl_status s = load_point(c, p, &k);
        if (s) return kept_fini(&k), s;
        put_in_place(c, &k, to);
    } else {
        fli_broadcast_cache_free(c->broadcast_cache);
        c->broadcast_cache = NULL;
        c->now = *to;
    }
    point_fini(&c->turn);
    return FL_OK;
}

/* Called after a failed turn, which leaves no trace. */
static fl_status undo_turn(fl_client *c) { return go_back_to(c, c->turn.there ? &c->turn.at : &c->round.at); }

/* ---- as bytes --------------------------------------------------------------------------------------------- */

static void save_point(const fli_client_point *p, fli_saver *out)
{
    fli_save_count(out, p->there != 0);
    if (!p->there) return;
    save_place(&p->at, out);
    fli_save_count(out, p->n);
    fli_save_bytes(out, p->bytes, p->n);
}

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
    save_place(&c->now, saver);
    save_kept(c, saver);
    save_point(&c->round, saver);
    save_point(&c->turn, saver);
    if ((s = fli_saver_take(saver, &body, &n))) return s;
    fli_packet p = {
        .kind = FLI_PACKET_STATE, .client = c->number, .run = c->protocol.run, .body = body, .body_bytes = n};
    s = fli_packet_write(c->ctx, &p, out);
    fli_free(body);
    return s;
}

/* Also loads the snapshot on trial: a damaged one must be found now, not when it is needed. */
static fl_status read_point(fl_client *c, fli_loader *in, size_t most, fli_client_point *p)
{
    kept trial = {0};
    if (!fli_load_count(in, 1)) return fli_loader_status(in);
    p->at = load_place(in);
    p->n = (size_t)fli_load_count(in, most);
    fl_status s = fli_loader_status(in);
    if (s) return s;
    p->there = 1;
    if (!p->n) return keeps_something(c) ? fli_loader_refuse(in, "lacks what this client kept before") : FL_OK;
    if (!(p->bytes = fli_alloc(c->ctx, p->n, 1))) return FL_ENOMEM;
    fli_load_bytes(in, p->bytes, p->n);
    s = fli_loader_status(in);
    if (!s) s = load_point(c, p, &trial);
    kept_fini(&trial);
    return s;
}

/* The content of a state. */
typedef struct {
    kept kept;
    fli_client_place now;
    fli_client_point round, turn;
} restored;

static fl_status read_state(fl_client *c, fli_loader *in, size_t bytes, restored *r)
{
    r->now = load_place(in);
    fl_status s = load_kept(c, in, &r->kept);
    if (!s) s = read_point(c, in, bytes, &r->round);
    if (!s) s = read_point(c, in, bytes, &r->turn);
    if (s) return s;
    if (r->round.at.last > r->now.last || r->turn.at.last > r->now.last)
        return fli_loader_refuse(in, "contradicts itself: an earlier turn has a later number");
    return fli_loader_end(in);
}

fl_status fl_client_restore(fl_client *c, const void *state, size_t n)
{
    fli_packet p;
    fli_loader *in = NULL;
    restored r = {0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = fli_packet_read(c->ctx, FLI_PACKET_STATE, state, n, &p);
    if (!s && (p.client != c->number || !fli_digest_same(&p.run, &c->protocol.run)))
        s = fli_fail(c->ctx, FL_EMISMATCH, "this is the state of another client, or of another run");
    if (!s) s = fli_loader_open_memory(c->ctx, "the state of a client", p.body, p.body_bytes, &in);
    if (!s) s = read_state(c, in, p.body_bytes, &r);
    fli_loader_close(in);
    if (s) {
        kept_fini(&r.kept);
        point_fini(&r.round);
        point_fini(&r.turn);
        return s;
    }
    put_in_place(c, &r.kept, &r.now);
    forget_places(c);
    c->round = r.round;
    c->turn = r.turn;
    return FL_OK;
}

/* ==== the client ============================================================================================ */

/* ---- its samples ----------------------------------------------------------------------------------------- */

static fl_status load(fl_client *c, int wide)
{
    fli_dataset *test = NULL;
    const fli_source *source = c->settings.source.item.desc;
    fli_source_request ask = {.params = c->settings.source.params,
                              .seed = (uint64_t)c->settings.top.seed,
                              .wide = wide,
                              .client = 1,
                              .memory = c->memory.train.size ? &c->memory : NULL};
    if (c->samples && (c->wide == wide || !source)) return FL_OK;
    if (!source) return fli_fail(c->ctx, FL_ECONFIG, "the samples of this client are gone");
    fli_dataset_free(c->samples);
    c->samples = NULL;
    fli_ctx_stoppable(c->ctx, 1);
    fl_status s = source->load(c->ctx, &ask, &c->samples, &test);
    fli_ctx_stoppable(c->ctx, 0);
    fli_dataset_free(test); /* the server tests, or a part of these samples does */
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

/* The solver that replaces SGD here; NULL: none. */
static const char *solver_name(const fl_client *c)
{
    const char *name = c->settings.local.solver;
    return name && strcmp(name, FLI_SOLVER_SGD) ? name : NULL;
}

static fl_status check_solver(const fl_client *c)
{
    const char *name = solver_name(c);
    if (!name || fli_settings_solver(&c->settings)) return FL_OK;
    return fli_fail(c->ctx, FL_ECONFIG, "local.solver is %s, which is not registered (fl_solver_register)", name);
}

fl_status fl_client_new(fl_config *cfg, fl_client **out)
{
    fli_clear(cfg->ctx);
    fl_client *c = fli_alloc(cfg->ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = cfg->ctx;
    c->memory = cfg->memory;
    fli_arena_init(&c->arena, c->ctx);
    fl_status s = fli_settings_bind_client(c->ctx, &c->arena, cfg->root, &c->settings);
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

static void leave_federation(fl_client *c)
{
    fli_clients_free(c->clients);
    fli_broadcast_cache_free(c->broadcast_cache);
    forget_places(c);
    fli_eval_fini(&c->eval);
    fli_fed_free(c->fed);
    if (c->made) fli_client_setup_builder.free(c->made);
    fli_free(c->terms);
    c->clients = NULL;
    c->broadcast_cache = NULL;
    c->eval = (fli_eval){0};
    c->fed = NULL;
    c->made = NULL;
    c->terms = NULL;
    c->now = (fli_client_place){0};
}

void fl_client_free(fl_client *c)
{
    if (!c) return;
    leave_federation(c);
    fli_dataset_free(c->samples);
    limits_fini(&c->limits);
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
    if (s || !classes) return s; /* regression: no labels */
    return fli_joined_labels(c->ctx, &all, c->samples);
}

/* The card describes all samples as loaded, all for training: the terms, which come later, say how they are used. */
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

/* Turns the client's samples into those of the federation: normalised, split, numbered. */
static fl_status take_samples(fl_client *c, const fli_terms *t, const fli_settings *settings)
{
    fli_fed_spec spec = fli_settings_fed(settings, NULL);
    fli_data_shape all;
    if (!fli_is_joined(&spec))
        return fli_fail(c->ctx, FL_EFORMAT, "the terms are of a federation whose samples are not at its clients");
    fl_status s = fli_joined_shape(c->ctx, &spec, &all);
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
    if (spec.clients == t->clients && all.classes == t->classes && c->fed->dim == c->setup.model->features)
        return FL_OK;
    return fli_fail(c->ctx, FL_EFORMAT, "the terms contradict their settings");
}

static fl_status apply_terms(fl_client *c, const fli_terms *t)
{
    fl_status s = fli_client_setup_make(c->ctx, t, solver_name(c), &c->setup, &c->made);
    /* memory 0: the state stays in memory; a budget would move clients to the disk to make room for others */
    c->spec = (fli_clients_spec){.setup = &c->setup, .user_failure = &c->user_failure, .halt = &c->halt};
    if (!s) s = may_hold(c);
    if (!s) s = take_samples(c, t, fli_client_setup_settings(c->made));
    if (s) return s;
    c->number = t->client;
    c->setup.fed = c->fed;
    s = fli_eval_init(c->ctx, c->setup.model, &c->eval);
    return s ? s : fli_clients_new(c->ctx, &c->spec, 1, &c->eval, &c->clients);
}

fl_status fl_client_accept(fl_client *c, const void *terms, size_t n)
{
    fli_packet p;
    fli_terms t = {0};
    fli_clear(c->ctx);
    fl_status s = may_read(c, n);
    if (!s) s = fli_packet_read(c->ctx, FLI_PACKET_TERMS, terms, n, &p);
    if (s) return s;
    if (c->terms && c->terms_bytes == n && !memcmp(c->terms, terms, n)) return FL_OK;
    if (c->terms) return fli_fail(c->ctx, FL_EMISMATCH, "this client has accepted other terms already");
    s = fli_terms_read(c->ctx, p.body, p.body_bytes, &t);
    if (!s && t.client != p.client) s = fli_fail(c->ctx, FL_EFORMAT, "these terms are for two clients");
    c->protocol = (fli_protocol){&c->setup, p.run};
    if (!s) s = may_join(c, &t);
    if (!s) s = apply_terms(c, &t);
    if (!s && !(c->terms = fli_alloc(c->ctx, n, 1))) s = FL_ENOMEM;
    if (s)
        leave_federation(c);
    else
        memcpy(c->terms, terms, c->terms_bytes = n);
    fli_terms_fini(&t);
    return s;
}

size_t fl_client_ask_bytes(const fl_client *c)
{
    uint64_t most = c->limits.most.bytes;
    size_t bytes = c->terms ? fli_ask_bytes(&c->setup) : 0;
    return most && most < bytes ? (size_t)most : bytes;
}

/* ---- working --------------------------------------------------------------------------------------------- */

/* Why a turn cannot follow on this place, as the end of a sentence; NULL: it can. Methods rely on their server: turns
 * and their phases come in order, each once, the first one with the start model. */
static const char *untimely(const fl_client *c, const fli_client_place *at, const fli_received_ask *e)
{
    const fl_method *a = c->setup.algo;
    const fl_ask *ask = &e->x.ask;
    if (ask->kind != FLI_ASK_TURN) {
        int potential = (ask->flags & FLI_FIGURES_POTENTIAL) && ask->kind == FLI_ASK_FIGURES;
        return potential && !c->setup.measure_potential ? "its terms do not say that the potential is measured" : NULL;
    }
    if (e->number <= at->last) return "it has taken that turn, or a later one";
    if (fli_algo_shows_start(a) && !at->turns && !(ask->flags & FLI_ASK_FIRST)) return "it lacks the start model";
    if (ask->flags & FLI_ASK_FIRST && !(ask->flags & FLI_ASK_HAS_BODY)) return "it lacks the start model";
    if (fli_algo_redraws(a, c->setup.params, ask->phase, ask->phases)) return NULL;
    return ask->round == at->round && ask->phase == at->phase ? NULL : "its phase does not follow the one before";
}

/* Adds to the broadcast what the client has stored of earlier phases. */
static fl_status complete_broadcast(fl_client *c, fli_received_ask *e)
{
    if (!c->broadcast_cache) {
        fl_status s = fli_broadcast_cache_new(c->ctx, &c->setup, NULL, &c->broadcast_cache);
        if (s || !c->broadcast_cache) return s; /* the method keeps nothing */
    }
    fl_status s = fli_broadcast_cache_take(c->broadcast_cache, &e->x.ask, &e->inbox);
    e->x.down = fli_broadcast_cache_view(c->broadcast_cache);
    return s;
}

/* Notes the turn. Forgets what belongs to the round if this was the cohort's last exchange. */
static void count_turn(fl_client *c, const fli_received_ask *e)
{
    const fl_ask *ask = &e->x.ask;
    c->now.turns++;
    c->now.last = e->number;
    c->now.round = ask->round;
    c->now.phase = (uint64_t)ask->phase + 1;
    c->now.stream = ask->stream;
    c->now.warm = ask->warm_up;
    if (c->now.phase < fli_algo_cohort_end(c->setup.algo, c->setup.params, ask->phase, ask->phases)) return;
    c->now.round = c->now.phase = 0;
    fli_broadcast_cache_free(c->broadcast_cache);
    c->broadcast_cache = NULL;
}

/* Takes the turn; a failed one leaves no trace. FL_EREFUSED: it was stopped before its end. */
static fl_status take_turn(fl_client *c, fli_received_ask *e)
{
    fli_exchange *x = &e->x;
    double seconds = c->limits.most.seconds;
    fl_status s = mark_place(c, &x->ask);
    if (s) return s;
    c->halt.until = seconds > 0 ? fli_clock_now() + seconds : 0;
    if (!(x->status = complete_broadcast(c, e))) fli_clients_work(c->clients, &x, 1, 0);
    int halted = fli_halted(&c->halt), asked = atomic_exchange(&c->halt.asked, 0);
    c->halt.until = 0;
    if (!halted && !x->status) return count_turn(c, e), FL_OK;
    if ((s = undo_turn(c)))
        return leave_federation(c), s; /* the state is now neither that before nor that after the turn */
    if (!halted) return FL_OK;
    if (asked) return fli_fail(c->ctx, FL_EREFUSED, "client %u: the turn was stopped", c->number);
    return fli_fail(c->ctx, FL_EREFUSED, "client %u: the turn took longer than the %g seconds that this client allows",
                    c->number, seconds);
}

/* Finds the place that this ask needs. Changes nothing. */
static fl_status find_place(fl_client *c, const fli_received_ask *e, const fli_client_place **at)
{
    if (!(*at = place_after(c, e->settled)))
        return fli_fail(c->ctx, FL_EMISMATCH,
                        "client %u: the server builds on its turn %llu, but its last one was %llu, and it cannot go "
                        "back to that one",
                        c->number, (unsigned long long)e->settled, (unsigned long long)c->now.last);
    const char *wrong = untimely(c, *at, e);
    if (!wrong) return FL_OK;
    return fli_fail(c->ctx, FL_EFORMAT, "client %u is asked for something impossible: %s", c->number, wrong);
}

static fl_status work(fl_client *c, fli_received_ask *e, fl_bytes *out)
{
    const fli_client_place *at;
    fli_exchange *x = &e->x;
    fl_status s = find_place(c, e, &at);
    if (!s) s = may_work(c, &x->ask);
    if (!s) s = go_back_to(c, at);
    if (!s && x->ask.kind == FLI_ASK_TURN)
        s = take_turn(c, e);
    else if (!s)
        fli_clients_work(c->clients, &x, 1, 0);
    if (s) return s;
    if (x->status && !fli_has_failed(&x->why) && *fl_ctx_error(c->ctx)) fl_failed(&x->why, fl_ctx_error(c->ctx));
    s = fli_answer_pack(c->ctx, &c->protocol, e, out);
    if (!s) fli_clear(c->ctx); /* the answer reports a failed turn */
    return s;
}

fl_status fl_client_work(fl_client *c, const void *ask, size_t n, fl_bytes *out)
{
    fli_received_ask e;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    if (!c->terms) return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    fl_status s = may_read(c, n);
    if (s) return s;
    if (!(s = fli_received_ask_read(c->ctx, &c->protocol, c->number, ask, n, &e))) s = work(c, &e, out);
    fli_received_ask_fini(&e);
    return s;
}

void fl_client_stop(fl_client *c) { atomic_store(&c->halt.asked, 1); }
