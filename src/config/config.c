#include "config/config.h"

#include "format/yaml.h"
#include "message/codec.h"

#include <string.h>

/* ==== asks of turns ======================================================================================== */

double fli_ask_params_coin(const fli_ask_params *a, size_t round)
{
    fli_rng rng;
    fli_rng_init(&rng, a->setup->seed, FLI_RNG_ALGO, (uint32_t)round, 0);
    return fli_rng_uniform(&rng);
}

/* The steps in the epochs of a client with this card. */
static fl_epochs epochs_of(const fli_ask_params *a, const fli_card *card)
{
    size_t unlabelled = (size_t)card->unlabelled;
    return fli_epochs_of(a->setup->model, &a->setup->sgd, (size_t)card->samples - unlabelled, unlabelled);
}

static size_t steps_of(const fli_ask_params *a, const fli_card *card, size_t round, size_t turn, uint32_t client)
{
    if (a->setup->algo->rounds.steps)
        return fli_algo_steps(a->setup->algo, a->setup->params, fli_ask_params_coin(a, round));
    return fli_local_steps(&a->local->work, a->setup->seed, turn, client, epochs_of(a, card).all);
}

fl_ask fli_ask_for(const fli_ask_params *a, const fli_card *card, size_t round, size_t turn, uint32_t client)
{
    size_t steps = steps_of(a, card, round, turn, client);
    return (fl_ask){
        .round = round,
        .stream = turn,
        .client = client,
        .steps = steps,
        .lr = fli_settings_lr(a->local, round, steps) * fli_reals_at(&a->local->lr_factors, client),
        .probability = fli_participation_probability(a->participation, round, client),
    };
}

/* The numbers in local.range are equally likely; of long ranges, this many evenly spaced ones are used. */
enum { DRAWS = 1000 };

double fli_ask_work(const fli_ask_params *a, const fli_card *card, uint32_t client)
{
    const fli_local_work *e = &a->local->work;
    double (*work)(const void *params, size_t client, size_t steps) = a->setup->algo->levels.work;
    int64_t low = e->range.v[0], most = e->range.v[1] - low, sum_of = most < DRAWS ? most + 1 : DRAWS;
    double sum = 0;
    if (e->uneven != FLI_UNEVEN_RANGE || a->setup->algo->rounds.steps)
        return work(a->setup->params, client, steps_of(a, card, 0, 0, client));
    for (int64_t k = 0; k < sum_of; k++) {
        fli_local_work drawn = *e;
        drawn.uneven = FLI_UNEVEN_FIXED;
        *(e->steps ? &drawn.steps : &drawn.epochs) = low + (sum_of > 1 ? k * most / (sum_of - 1) : 0);
        sum += work(a->setup->params, client, fli_local_steps(&drawn, 0, 0, client, epochs_of(a, card).all));
    }
    return sum / (double)sum_of;
}

double fli_ask_seconds(const fli_ask_params *a, const fli_card *card, const fl_ask *ask)
{
    fl_epochs e = epochs_of(a, card);
    size_t cost = fli_algo_cost(a->setup->algo, a->setup->params, &a->setup->solvers, ask, &e);
    fli_wire w;
    fli_wire_of(a->setup, ask, &w);
    return fli_system_turn(a->system, (size_t)ask->stream, ask->client, cost,
                           (double)fli_wire_down(&w, a->setup->model, ask),
                           (double)fli_wire_up(&w, a->setup->model, ask));
}

/* ==== the configuration ==================================================================================== */

fl_config *fl_config_new(fl_ctx *ctx)
{
    fl_config *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return NULL;
    c->ctx = ctx;
    fli_arena_init(&c->arena, ctx);
    c->root = fli_node_new(&c->arena, FLI_NODE_MAP, NULL, NULL);
    if (c->root) return c;
    fl_config_free(c);
    return NULL;
}

void fl_config_free(fl_config *c)
{
    if (!c) return;
    fli_bound_release(c->bound);
    fli_arena_fini(&c->arena);
    fli_free(c);
}

/* ---- binding ---------------------------------------------------------------------------------------------- */

void fli_bound_release(fli_bound *b)
{
    if (!b || --b->holders) return;
    fli_arena_fini(&b->arena);
    fli_free(b);
}

static fl_status bind(fl_config *c)
{
    fli_bound *b = fli_alloc(c->ctx, 1, sizeof *b);
    if (!b) return FL_ENOMEM;
    b->registry_changes = fli_registry_changes();
    b->holders = 1;
    fli_arena_init(&b->arena, c->ctx);
    fl_status s = fli_settings_bind(c->ctx, &b->arena, c->root, &b->settings);
    if (s)
        fli_bound_release(b);
    else
        c->bound = b;
    return s;
}

fl_status fli_config_settings(fl_config *c, const fli_settings **borrowed)
{
    if (c->bound && c->bound->registry_changes != fli_registry_changes()) fli_config_change(c);
    fl_status s = c->bound ? FL_OK : bind(c);
    if (!s) *borrowed = &c->bound->settings;
    return s;
}

fl_status fli_config_hold(fl_config *c, fli_bound **out)
{
    const fli_settings *settings;
    fl_status s = fli_config_settings(c, &settings);
    if (s) return s;
    c->bound->holders++;
    *out = c->bound;
    return FL_OK;
}

fli_node *fli_config_change(fl_config *c)
{
    fli_bound_release(c->bound);
    c->bound = NULL;
    return (fli_node *)c->root;
}

fl_status fli_config_put(fl_config *c, const char *key, const char *text)
{
    fli_node *n = fli_node_new(&c->arena, FLI_NODE_SCALAR, key, text);
    if (!n) return FL_ENOMEM;
    fli_node_put(fli_config_change(c), n);
    return FL_OK;
}

/* ---- values given so far ---------------------------------------------------------------------------------- */

/* Copies the nodes' origins into the arena. Neighbours mostly have the same origin. */
static fl_status own_origins(fli_arena *a, fli_node *n, const char **was, const char **now)
{
    fl_status s = FL_OK;
    if (n->origin && n->origin != *was) {
        *was = n->origin;
        if (!(*now = fli_arena_strdup(a, n->origin))) return FL_ENOMEM;
    }
    if (n->origin) n->origin = *now;
    for (fli_node *c = n->first; c && !s; c = c->next) s = own_origins(a, c, was, now);
    return s;
}

fl_config *fli_config_copy(fl_ctx *ctx, const fl_config *from)
{
    const char *was = NULL, *now = NULL;
    fl_config *c = fl_config_new(ctx);
    if (!c) return NULL;
    c->memory = from->memory;
    fli_node *root = fli_config_change(c);
    if (!fli_yaml_merge(c->ctx, &c->arena, root, from->root) && !own_origins(&c->arena, root, &was, &now)) {
        if ((c->bound = from->bound)) c->bound->holders++;
        return c;
    }
    fl_config_free(c);
    return NULL;
}

fl_config *fl_config_copy(const fl_config *from) { return fli_config_copy(from->ctx, from); }

/* Choosing another kind drops the keys of the old one, except those that all kinds of the section share. */
static fl_status keep_common(fl_config *c, const fli_node *old, const char *name)
{
    fli_node *now = fli_node_find(c->root, name);
    if (!now || now->type != FLI_NODE_SCALAR || !*now->text) return FL_OK; /* no other kind was chosen */
    for (const fl_key *k = fli_settings_common(name); k && k->name; k++) {
        const fli_node *was = fli_node_find(old, k->name);
        if (!was || fli_node_find(now, k->name)) continue;
        if (now->type == FLI_NODE_SCALAR) {
            fli_node *kind = fli_arena_alloc(&c->arena, 1, sizeof *kind);
            if (!kind) return FL_ENOMEM;
            *kind = *now;
            kind->key = "kind";
            kind->next = NULL;
            now->type = FLI_NODE_MAP;
            now->first = kind;
        }
        fli_node *copy = fli_arena_alloc(&c->arena, 1, sizeof *copy);
        if (!copy) return FL_ENOMEM;
        *copy = *was;
        fli_node_put(now, copy);
    }
    return FL_OK;
}

fl_status fli_config_merge(fl_config *c, const fli_node *over)
{
    fli_node *root = fli_config_change(c), *before = fli_node_new(&c->arena, FLI_NODE_MAP, NULL, NULL);
    if (!before) return FL_ENOMEM;
    fl_status s = fli_yaml_merge(c->ctx, &c->arena, before, root); /* of a copy: merging changes nodes in place */
    if (!s) s = fli_yaml_merge(c->ctx, &c->arena, root, over);
    for (const fli_node *n = over->first; !s && n; n = n->next) {
        const fli_node *old = fli_node_find(before, n->key);
        if (old) s = keep_common(c, old, n->key);
    }
    return s;
}

fl_status fl_config_load(fl_config *c, const char *path)
{
    fli_node *root = NULL;
    fli_clear(c->ctx);
    if (!path) return fli_fail(c->ctx, FL_ECONFIG, "fl_config_load: there is no path");
    fl_status s = fli_yaml_load(c->ctx, &c->arena, path, &root);
    return s ? s : fli_config_merge(c, root);
}

fl_status fl_config_text(fl_config *c, const char *text, const char *name)
{
    fli_node *root = NULL;
    fli_clear(c->ctx);
    if (!text) return fli_fail(c->ctx, FL_ECONFIG, "fl_config_text: there is no text");
    fl_status s = fli_yaml_parse(c->ctx, &c->arena, name ? name : "the text", text, strlen(text), &root);
    return s ? s : fli_config_merge(c, root);
}

fl_status fl_config_set(fl_config *c, const char *assignment)
{
    char name[64] = "";
    fli_clear(c->ctx);
    if (!assignment) return fli_fail(c->ctx, FL_ECONFIG, "fl_config_set: there is no assignment");
    const char *from = assignment + strspn(assignment, " \t");
    size_t n = strcspn(from, ".= \t");
    if (n < sizeof name) memcpy(name, from, n);
    fli_node *old = fli_node_find(c->root, name), before = {0};
    if (old) before = *old; /* setting may change the node in place */
    fl_status s = fli_yaml_set(c->ctx, &c->arena, assignment, fli_config_change(c));
    return s || !old ? s : keep_common(c, &before, name);
}

fl_status fl_config_data(fl_config *c, const fl_samples *train, const fl_samples *test, const fl_holding *who)
{
    fli_memory memory;
    fli_clear(c->ctx);
    fl_status s = fli_memory_take(c->ctx, train, test, who, &memory);
    if (!s && memory.train.n) s = fl_config_set(c, "data.kind=memory"); /* else only a server's test set */
    if (!s) c->memory = memory;
    return s;
}

fl_status fl_config_ranks(fl_config *c, const fl_ranks *ranks)
{
    fli_clear(c->ctx);
    if (ranks && (ranks->size != sizeof *ranks || ranks->rank >= ranks->count))
        return fli_fail(c->ctx, FL_ECONFIG, "fl_config_ranks: process %u of %u, by a table of %zu bytes, cannot be",
                        ranks->rank, ranks->count, ranks->size);
    c->ranks = ranks ? *ranks : (fl_ranks){0};
    return FL_OK;
}

const char *fl_config_get(const fl_config *c, const char *key)
{
    const fli_node *n = fli_yaml_get(c->root, key);
    return n && n->type == FLI_NODE_SCALAR ? n->text : "";
}

fl_status fl_config_check(fl_config *c)
{
    const fli_settings *settings;
    fli_clear(c->ctx);
    return fli_config_settings(c, &settings);
}

fl_status fl_config_print(fl_config *c, fl_text_fn *out, void *arg)
{
    const fli_settings *settings;
    fli_text text;
    fli_clear(c->ctx);
    fli_text_init(&text, c->ctx);
    fl_status s = fli_config_settings(c, &settings);
    if (!s) {
        fli_settings_print(&text, settings);
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    fli_text_fini(&text);
    return s;
}
