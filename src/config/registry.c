#include "config/registry.h"

#include "algo/algo.h"
#include "algo/user_method.h"
#include "bilevel/bilevel.h"
#include "data/partition/partition.h"
#include "data/source.h"
#include "executor/executor.h"
#include "format/user_keys.h"
#include "model/model.h"
#include "model/user_objective.h"
#include "regularizer/user_regularizer.h"
#include "server/participation.h"
#include "server/system.h"
#include "solver/user_solver.h"

#include <string.h>

/* ==== descriptions of things in a list: fli_item.more ====================================================== */

/* ", and 1 number of 8 bytes" after this many vectors. */
static void add_amounts(fli_text *t, size_t vectors, size_t numbers)
{
    if (vectors) fli_text_addf(t, ": %zu x the model", vectors);
    if (numbers)
        fli_text_addf(t, "%s%zu number%s of 8 bytes", vectors ? ", and " : "", numbers, numbers == 1 ? "" : "s");
    fli_text_add(t, "\n");
}

/* "label: x, c: 2 x the model, and 1 number" for named vectors and some scalars. */
static void add_vectors(fli_text *t, const char *label, const char *const *names, size_t scalars)
{
    size_t count = fli_names_count(names);
    fli_text_addf(t, "%s: ", label);
    if (!count && !scalars) fli_text_add(t, "nothing");
    for (size_t i = 0; i < count; i++) fli_text_addf(t, "%s%s", i ? ", " : "", names[i]);
    add_amounts(t, count, scalars);
}

/* The same for the parts of a message that are sent at a moment; nothing if there are none. */
static void add_sent(fli_text *t, const char *label, const fl_part *parts, unsigned moment, unsigned instead)
{
    size_t vectors = 0, numbers = 0;
    for (const fl_part *p = parts; p->name; p++) {
        if (!fli_part_sent(p, moment) || (instead && fli_part_sent(p, instead))) continue;
        if (!vectors && !numbers) fli_text_addf(t, "%s: ", label);
        if (p->what == FL_PART_NUMBER)
            numbers++;
        else
            fli_text_addf(t, "%s%s", vectors++ ? ", " : "", p->name);
    }
    if (vectors || numbers) add_amounts(t, vectors, numbers);
}

/* The messages of a method whose exchanges differ. */
static void add_parts(fli_text *t, const char *label, const fl_part *parts)
{
    fli_text_addf(t, "%s: ", label);
    for (const fl_part *p = parts; p->name; p++)
        fli_text_addf(t, "%s%s%s", p == parts ? "" : ", ", p->name,
                      p->what == FL_PART_UPPER   ? " (upper)"
                      : p->what == FL_PART_LOWER ? " (lower)"
                                                 : "");
    fli_text_add(t, "\n");
}

/* For bilevel methods. The number of exchanges with default parameters is unknown here; requirements are known. */
static void add_levels(fli_text *t)
{
    fli_text_add(t, "problem: two levels (`bilevel`)\n");
    fli_text_add(t, "sent: of every vector only the blocks that are needed\n");
}

static void add_tuned(fli_text *t, const fl_method *a)
{
    const fl_tune_range *first = fli_algo_tune(a);
    fli_text_add(t, "tuned by default:");
    for (const fl_tune_range *r = first; r->key; r++)
        fli_text_addf(t, "%s %s from %g to %g%s", r == first ? "" : ",", r->key, r->from, r->to,
                      r->log ? " (log)" : "");
    fli_text_add(t, "\n");
}

static void describe_algo(fli_text *t, const void *desc)
{
    const fl_method *a = desc;
    fli_text_add(
        t, a->traits & FL_METHOD_EVERYONE ? "takes part: every client in every round (participation: everyone)\n"
           : a->traits & FL_METHOD_BYSTANDERS
               ? "takes part: every client in every round; `participation` chooses those that do the method's local "
                 "steps\n"
           : fli_algo_is_async(a) ? "takes part: everyone, or a fixed number at a time (participation: uniform)\n"
                                  : "takes part: any cohort\n");
    fli_text_add(t, a->traits & FL_METHOD_UNIFORM
                        ? "client weights: equal, w_i = 1/N\n"
                        : "client weights: by samples, w_i = n_i/n, unless `weights` is uniform\n");
    if (fli_algo_is_async(a))
        fli_text_add(t, "asynchronous: the server takes uploads as they come; a server step counts as a round\n");
    if (a->traits & FL_METHOD_COMPOSITE) fli_text_add(t, "composite problems: yes, with any `regularizer`\n");
    if (a->traits & FL_METHOD_PLAIN_SGD)
        fli_text_add(t, "local steps: defined for plain SGD, since it reads gradients out of displacements\n");
    if (a->traits & FL_METHOD_TOUCHES) fli_text_add(t, "arithmetic: touches its vectors itself: stays on the CPU\n");
    if (a->traits & FL_METHOD_BLOCKS)
        fli_text_add(t, "objective: made for one with a second block on the clients, such as pseudo labels (`semi`)\n");
    if (a->traits & FL_METHOD_LABELLED) fli_text_add(t, "objective: labelled samples alone, whatever `semi` says\n");
    if (a->personal.mix)
        fli_text_add(
            t, "own models: a client predicts with a mixture of its own and the global model (`metrics.local`)\n");
    if (a->traits & FL_METHOD_BILEVEL) add_levels(t);
    if (a->rounds.phases || a->phases > 1)
        fli_text_addf(t, "exchanges: several per round, with the same cohort%s; see the column communications\n",
                      a->rounds.redraws ? " unless `cohort` says otherwise" : "");
    add_tuned(t, a);
    add_vectors(t, "kept by a client", a->client, a->client_scalars);
    add_vectors(t, "kept by the server", a->server, 0);
    if (a->rounds.stage || a->phases > 1) {
        add_parts(t, "up, as an exchange needs it", a->up);
        add_parts(t, "down, as an exchange needs it", a->down);
        return;
    }
    add_sent(t, "up, per client and round", a->up, FL_IN_PHASE(0), 0);
    add_sent(t, "down, per client and round", a->down, FL_IN_PHASE(0), 0);
    add_sent(t, "down, in a client's first turn", a->down, FL_AT_FIRST, FL_IN_PHASE(0));
    if (a->rounds.warms_up || a->warms_up)
        add_sent(t, "up, per client, before the first round", a->up, FL_IN_WARM_UP, FL_IN_PHASE(0));
    if (a->rounds.exchanges)
        fli_text_add(t, "exchange: its keys may leave it out of rounds; nothing is sent up then\n");
}

static void describe_model(fli_text *t, const void *desc)
{
    const fli_model_desc *m = desc;
    fli_text_addf(t, "for: %s\n",
                  m->traits & FLI_MODEL_USER           ? "the data that it was written for"
                  : m->traits & FLI_MODEL_BINARY       ? "classification, exactly two classes"
                  : m->traits & FLI_MODEL_CLASSIFIER   ? "classification"
                  : m->traits & FLI_MODEL_UNSUPERVISED ? "clustering; any data, labels are not read"
                                                       : "regression");
    fli_text_addf(t, "objective: %s\n", m->traits & FLI_MODEL_CONVEX ? "convex" : "not convex");
}

static void describe_regularizer(fli_text *t, const void *desc)
{
    const fl_regularizer *g = desc;
    if (g->weak_convexity)
        fli_text_add(t, "convex: no, so no theorem of `fedloom check` applies, and proximal steps have to be short\n");
}

static void describe_source(fli_text *t, const void *desc)
{
    const fli_source *s = desc;
    if (s->client)
        fli_text_add(t, "on demand: can make a client's samples when its turn comes (`data.on_demand: true`)\n");
}

static void describe_partitioner(fli_text *t, const void *desc)
{
    const fli_partitioner *p = desc;
    fli_text_add(t, p->sets_clients ? "clients: as many as the data say; `partition.clients` limits them\n"
                                    : "clients: `partition.clients`, which must be given\n");
}

/* ==== kinds ================================================================================================ */

static int source_item(size_t i, fli_item *out)
{
    const fli_source *d = fli_source_list[i];
    if (d) *out = (fli_item){d->name, d->title, d->citation, d->needs, d->keys, d->params_size, d, describe_source};
    return d != NULL;
}

static int partitioner_item(size_t i, fli_item *out)
{
    const fli_partitioner *d = fli_partitioner_list[i];
    if (d)
        *out = (fli_item){d->name, d->title,       d->citation, d->needs_labels ? "class labels" : NULL,
                          d->keys, d->params_size, d,           describe_partitioner};
    return d != NULL;
}

static fli_item model_of(const fli_model_desc *d)
{
    int by_user = (d->traits & FLI_MODEL_USER) != 0;
    return (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, describe_model, by_user};
}

static int model_item(size_t i, fli_item *out)
{
    size_t n = 0;
    while (fli_model_list[n]) n++;
    const fli_model_desc *d = i < n ? fli_model_list[i] : fli_user_model_at(i - n);
    if (d) *out = model_of(d);
    return d != NULL;
}

static int user_model(const char *name, fli_item *out)
{
    const fli_model_desc *d = fli_user_model_named(name);
    if (d) *out = model_of(d);
    return d != NULL;
}

static int give_regularizer(const fl_regularizer *d, int by_user, fli_item *out)
{
    if (d) *out = (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, describe_regularizer};
    if (!d || !by_user) return d != NULL;
    out->by_user = 1;
    out->params_head = sizeof(fli_user_head);
    out->bound = fli_user_regularizer_bound;
    return 1;
}

static int regularizer_item(size_t i, fli_item *out)
{
    size_t n = 0;
    while (fli_regularizer_list[n]) n++;
    return i < n ? give_regularizer(fli_regularizer_list[i], 0, out)
                 : give_regularizer(fli_user_regularizer_at(i - n), 1, out);
}

static int user_regularizer(const char *name, fli_item *out)
{
    return give_regularizer(fli_user_regularizer(name), 1, out);
}

static int participation_item(size_t i, fli_item *out)
{
    const fli_participation_desc *d = fli_participation_list[i];
    if (d) *out = (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, NULL};
    return d != NULL;
}

static int system_item(size_t i, fli_item *out)
{
    const fli_system_desc *d = fli_system_list[i];
    if (d) *out = (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, NULL};
    return d != NULL;
}

/* fli_item.bound */
static void algo_bound(const void *desc, void *params) { fli_method_bound(desc, params); }

static int give_algo(const fl_method *d, int by_user, fli_item *out)
{
    if (d)
        *out = (fli_item){.name = d->name,
                          .title = d->title,
                          .citation = d->citation,
                          .keys = d->keys,
                          .params_size = d->params_size,
                          .desc = d,
                          .more = describe_algo,
                          .by_user = by_user,
                          .params_head = fli_method_head(d),
                          .bound = algo_bound};
    return d != NULL;
}

static int algo_item(size_t i, fli_item *out)
{
    int by_user;
    const fl_method *d = fli_algo_at(i, &by_user);
    return give_algo(d, by_user, out);
}

static int user_algo(const char *name, fli_item *out) { return give_algo(fli_user_method_named(name), 1, out); }

static fli_item bilevel_of(const fli_bilevel_desc *d)
{
    return (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, NULL};
}

static int bilevel_item(size_t i, fli_item *out)
{
    if (fli_bilevel_list[i]) *out = bilevel_of(fli_bilevel_list[i]);
    return fli_bilevel_list[i] != NULL;
}

static int executor_item(size_t i, fli_item *out)
{
    const fli_executor *d = fli_executor_list[i];
    if (d) *out = (fli_item){d->name, d->title, NULL, NULL, NULL, 0, d, NULL};
    return d != NULL;
}

static int give_solver(const fl_solver *d, fli_item *out)
{
    if (d) *out = (fli_item){.name = d->name, .title = d->title, .desc = d, .by_user = 1};
    return d != NULL;
}

/* The built-in solvers that a configuration may choose, then the registered ones. */
static int solver_item(size_t i, fli_item *out)
{
    size_t n = 0;
    for (const fl_solver *const *s = fli_solver_list; *s; s++) {
        if (!(*s)->title || n++ < i) continue;
        *out = (fli_item){(*s)->name, (*s)->title, NULL, NULL, NULL, 0, *s, NULL};
        return 1;
    }
    return give_solver(fli_user_solver_at(i - n), out);
}

static int user_solver(const char *name, fli_item *out) { return give_solver(fli_user_solver(name), out); }

const fli_kind fli_kinds[] = {
    {"algorithm", "algorithms", "federated methods", NULL, algo_item, user_algo},
    {"model", "models", "what is trained", NULL, model_item, user_model},
    {"regularizer", "regularizers", "what is added to the objective, for composite problems", NULL, regularizer_item,
     user_regularizer},
    {"data", "data", "where samples come from: loaders and generators", NULL, source_item},
    {"partition", "partitions", "who holds which samples", NULL, partitioner_item},
    {"participation", "participations", "who takes part in a round", NULL, participation_item},
    {"system", "systems", "how fast the clients' devices and links are", NULL, system_item},
    {"bilevel", "bilevels", "two-level problems", NULL, bilevel_item},
    {"solver", "solvers", "what takes local steps", "local", solver_item, user_solver},
    {"executor", "executors", "where the clients are", NULL, executor_item},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

const fli_kind *fli_kind_find(const char *section)
{
    for (const fli_kind *k = fli_kinds; k->section; k++)
        if (!strcmp(k->section, section) || !strcmp(k->plural, section)) return k;
    return NULL;
}

/* Finds an algorithm that only golden cases use; it has its own data, so it is not listed. */
static int find_unlisted(const fli_kind *kind, const char *name, fli_item *out)
{
    const fli_item items[] = {model_of(&fli_model_quadratic_bilevel), bilevel_of(&fli_bilevel_quadratic)};
    static const char *const section[] = {"model", "bilevel"};
    for (size_t i = 0; i < 2; i++)
        if (!strcmp(kind->section, section[i]) && !strcmp(items[i].name, name)) {
            *out = items[i];
            return 1;
        }
    return 0;
}

int fli_item_find(const fli_kind *kind, const char *name, fli_item *out)
{
    for (size_t i = 0; kind->item(i, out) && !out->by_user; i++)
        if (!strcmp(out->name, name)) return 1;
    return (kind->users && kind->users(name, out)) || find_unlisted(kind, name, out);
}

void *fli_item_params(fli_arena *a, const fli_item *item)
{
    char *block = fli_arena_alloc(a, 1, item->params_head + item->params_size + 1);
    return block ? block + item->params_head : NULL;
}

int fli_item_has_key(const fli_item *item, const char *key)
{
    for (const fl_key *k = item->keys; k && k->name; k++)
        if (!strcmp(k->name, key)) return 1;
    return 0;
}

int fl_kind_has_key(const char *section, const char *name, const char *key)
{
    const fli_kind *kind = fli_kind_find(section);
    fli_item item;
    return kind && name && key && fli_item_find(kind, name, &item) && fli_item_has_key(&item, key);
}

const char *fli_item_name(const void *kind, size_t i)
{
    fli_item item;
    return ((const fli_kind *)kind)->item(i, &item) ? item.name : NULL;
}

const char *fl_kind_at(const char *section, size_t k)
{
    const fli_kind *kind = section ? fli_kind_find(section) : NULL;
    return kind ? fli_item_name(kind, k) : NULL;
}
