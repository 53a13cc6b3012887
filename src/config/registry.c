#include "config/registry.h"

#include "algo/own.h"
#include "data/partition/partition.h"
#include "data/source.h"
#include "executor/executor.h"
#include "server/participation.h"
#include "server/system.h"
#include "bilevel/bilevel.h"
#include "solver/own_solver.h"
#include "model/own.h"
#include "regularizer/regularizer.h"
#include "config/list_describe.h"

#include <string.h>

static int source_item(size_t i, fli_item *out)
{
    const fli_source *d = fli_source_list[i];
    if (d) *out = (fli_item){d->name, d->title, d->citation, d->needs, d->keys, d->params_size, d, fli_describe_source};
    return d != NULL;
}

static int partitioner_item(size_t i, fli_item *out)
{
    const fli_partitioner *d = fli_partitioner_list[i];
    if (d)
        *out = (fli_item){d->name, d->title,       d->citation, d->needs_labels ? "class labels" : NULL,
                          d->keys, d->params_size, d,           fli_describe_partitioner};
    return d != NULL;
}

static fli_item model_of(const fli_model_desc *d)
{
    int own = (d->traits & FLI_MODEL_OWN) != 0;
    return (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, fli_describe_model, own};
}

static int model_item(size_t i, fli_item *out)
{
    size_t n = 0;
    while (fli_model_list[n]) n++;
    const fli_model_desc *d = i < n ? fli_model_list[i] : fli_own_model_at(i - n);
    if (d) *out = model_of(d);
    return d != NULL;
}

static int own_model(const char *name, fli_item *out)
{
    const fli_model_desc *d = fli_own_model_named(name);
    if (d) *out = model_of(d);
    return d != NULL;
}

static int regularizer_item(size_t i, fli_item *out)
{
    const fli_regularizer *d = fli_regularizer_list[i];
    if (d)
        *out = (fli_item){d->name, d->title, d->citation, NULL, d->keys, d->params_size, d, fli_describe_regularizer};
    return d != NULL;
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
static void algo_bound(const void *desc, void *params)
{
    const fli_algo *a = desc;
    if (a->bound) a->bound(a, params);
}

static int give_algo(const fli_algo *d, int own, fli_item *out)
{
    if (d)
        *out = (fli_item){d->name,        d->title, d->citation,       NULL, d->keys,
                          d->params_size, d,        fli_describe_algo, own,  algo_bound};
    return d != NULL;
}

static int algo_item(size_t i, fli_item *out)
{
    int own;
    const fli_algo *d = fli_algo_at(i, &own);
    return give_algo(d, own, out);
}

static int own_algo(const char *name, fli_item *out) { return give_algo(fli_own_method_named(name), 1, out); }

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

static int give_solver(const fli_solver *own, fli_item *out)
{
    if (own) *out = (fli_item){.name = own->name, .title = own->title, .desc = own, .own = 1};
    return own != NULL;
}

/* Those that a configuration may choose, then those of users. */
static int solver_item(size_t i, fli_item *out)
{
    size_t n = 0;
    for (const fli_solver *const *s = fli_solver_list; *s; s++) {
        if (!(*s)->title || n++ < i) continue;
        *out = (fli_item){(*s)->name, (*s)->title, NULL, NULL, NULL, 0, *s, NULL};
        return 1;
    }
    return give_solver(fli_own_solver_at(i - n), out);
}

static int own_solver(const char *name, fli_item *out) { return give_solver(fli_own_solver(name), out); }

const fli_kind fli_kinds[] = {
    {"algorithm", "algorithms", "federated methods", NULL, algo_item, own_algo},
    {"model", "models", "what is trained", NULL, model_item, own_model},
    {"regularizer", "regularizers", "what is added to the objective, for composite problems", NULL, regularizer_item},
    {"data", "data", "where samples come from: loaders and generators", NULL, source_item},
    {"partition", "partitions", "who holds which samples", NULL, partitioner_item},
    {"participation", "participations", "who takes part in a round", NULL, participation_item},
    {"system", "systems", "how fast the clients' devices and links are", NULL, system_item},
    {"bilevel", "bilevels", "two-level problems", NULL, bilevel_item},
    {"solver", "solvers", "what takes local steps", "local", solver_item, own_solver},
    {"executor", "executors", "where the clients are", NULL, executor_item},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

const fli_kind *fli_kind_find(const char *section)
{
    for (const fli_kind *k = fli_kinds; k->section; k++)
        if (!strcmp(k->section, section) || !strcmp(k->plural, section)) return k;
    return NULL;
}

/* What golden cases alone are about. It goes with data of its own, so it is not listed. */
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
    for (size_t i = 0; kind->item(i, out) && !out->own; i++)
        if (!strcmp(out->name, name)) return 1;
    return (kind->own && kind->own(name, out)) || find_unlisted(kind, name, out);
}

int fli_item_has_key(const fli_item *item, const char *key)
{
    for (const fli_key *k = item->keys; k && k->name; k++)
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
