#include "run/traits.h"

#include "algo/algo.h"
#include "data/partition.h"
#include "data/source.h"
#include "model/model.h"

/* "label: x, c: 2 x the model, and 1 number" for `count` vectors and some scalars of 8 bytes. */
static void add_vectors(fli_text *t, const char *label, const char *const *names, size_t count, size_t scalars)
{
    fli_text_addf(t, "%s: ", label);
    if (!count && !scalars) fli_text_add(t, "nothing");
    for (size_t i = 0; i < count; i++) fli_text_addf(t, "%s%s", i ? ", " : "", names[i]);
    if (count) fli_text_addf(t, ": %zu x the model", count);
    if (scalars) fli_text_addf(t, "%s%zu number%s of 8 bytes", count ? ", and " : "", scalars, scalars == 1 ? "" : "s");
    fli_text_add(t, "\n");
}

/* Of bilevel methods: how often they meet the cohort with their default parameters is not known here, what they need is. */
static void add_levels(fli_text *t, const fli_algo *a)
{
    fli_text_add(t, "problem: two levels (`bilevel`)\n");
    fli_text_add(t, a->phases ? "exchanges: several per round, with the same cohort; see the column communications\n"
                              : "exchanges: one per round\n");
    fli_text_add(t, "sent: of every vector only the blocks that are needed\n");
}

void fli_traits_algo(fli_text *t, const void *desc)
{
    const fli_algo *a = desc;
    fli_text_add(
        t, a->traits & FLI_ALGO_EVERYONE ? "takes part: every client in every round (participation: everyone)\n"
           : a->traits & FLI_ALGO_BYSTANDERS
               ? "takes part: every client in every round; `participation` chooses those that do the method's local "
                 "steps\n"
           : a->pace ? "takes part: everyone, or so many at the same time (participation: uniform)\n"
                     : "takes part: any cohort\n");
    fli_text_add(t, a->traits & FLI_ALGO_UNIFORM
                        ? "client weights: equal, w_i = 1/N\n"
                        : "client weights: by samples, w_i = n_i/n, unless `weights` is uniform\n");
    if (a->pace)
        fli_text_add(t, "asynchronous: the server takes uploads as they come; a server step counts as a round\n");
    if (a->traits & FLI_ALGO_COMPOSITE) fli_text_add(t, "composite problems: yes, with any `regularizer`\n");
    if (a->traits & FLI_ALGO_PLAIN_SGD)
        fli_text_add(t, "local steps: defined for plain SGD, since it reads gradients out of displacements\n");
    if (a->traits & FLI_ALGO_BLOCKS)
        fli_text_add(t, "objective: made for one with a second block on the clients, such as pseudo labels (`semi`)\n");
    if (a->traits & FLI_ALGO_LABELLED) fli_text_add(t, "objective: labelled samples alone, whatever `semi` says\n");
    if (a->own_mix)
        fli_text_add(
            t, "own models: a client predicts with a mixture of its own and the global model (`metrics.local`)\n");
    if (a->traits & FLI_ALGO_BILEVEL) add_levels(t, a);
    add_vectors(t, "kept by a client", a->client, fli_names_count(a->client), a->client_scalars);
    add_vectors(t, "kept by the server", a->server, fli_names_count(a->server), 0);
    if (a->phase) return;
    int survey = (a->traits & FLI_ALGO_SURVEY) != 0;
    add_vectors(t, "up, per client and round", a->up, fli_names_count(a->up), survey ? 0 : a->up_scalars);
    add_vectors(t, "down, per client and round", a->server, a->down, a->down_scalars);
    if (survey) add_vectors(t, "up, per client, before the first round", NULL, 0, a->up_scalars);
    if (a->exchanges) fli_text_add(t, "exchange: at random; in a round without one nothing is sent\n");
}

void fli_traits_model(fli_text *t, const void *desc)
{
    const fli_model_desc *m = desc;
    fli_text_addf(t, "for: %s\n",
                  m->traits & FLI_MODEL_BINARY         ? "classification, exactly two classes"
                  : m->traits & FLI_MODEL_CLASSIFIER   ? "classification"
                  : m->traits & FLI_MODEL_UNSUPERVISED ? "clustering; any data, labels are not read"
                                                       : "regression");
    fli_text_addf(t, "objective: %s\n", m->traits & FLI_MODEL_CONVEX ? "convex" : "not convex");
}

void fli_traits_source(fli_text *t, const void *desc)
{
    const fli_source *s = desc;
    if (s->client)
        fli_text_add(t, "on demand: can make a client's samples when its turn comes (`data.on_demand: true`)\n");
}

void fli_traits_partitioner(fli_text *t, const void *desc)
{
    const fli_partitioner *p = desc;
    fli_text_add(t, p->sets_clients ? "clients: as many as the data say; `partition.clients` limits them\n"
                                    : "clients: `partition.clients`, which must be given\n");
}
