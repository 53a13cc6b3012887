#include "config/list_describe.h"

#include "algo/algo.h"
#include "data/partition/partition.h"
#include "data/source.h"
#include "model/model.h"
#include "regularizer/regularizer.h"

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

/* The same for the parts of a message that a moment sends; nothing where there are none. */
static void add_sent(fli_text *t, const char *label, const fli_part *parts, unsigned moment, unsigned instead)
{
    size_t vectors = 0, numbers = 0;
    for (const fli_part *p = parts; p->name; p++) {
        if (!fli_part_sent(p, moment) || (instead && fli_part_sent(p, instead))) continue;
        if (!vectors && !numbers) fli_text_addf(t, "%s: ", label);
        if (p->what == FLI_NUMBER)
            numbers++;
        else
            fli_text_addf(t, "%s%s", vectors++ ? ", " : "", p->name);
    }
    if (vectors || numbers) add_amounts(t, vectors, numbers);
}

/* What a method sends whose exchanges differ. */
static void add_parts(fli_text *t, const char *label, const fli_part *parts)
{
    static const char *const block[] = {"", " (upper)", " (lower)", "", ""};
    fli_text_addf(t, "%s: ", label);
    for (const fli_part *p = parts; p->name; p++)
        fli_text_addf(t, "%s%s%s", p == parts ? "" : ", ", p->name, block[p->what]);
    fli_text_add(t, "\n");
}

/* Of bilevel methods: how often they meet the cohort with their default parameters is not known here, what they need
 * is. */
static void add_levels(fli_text *t)
{
    fli_text_add(t, "problem: two levels (`bilevel`)\n");
    fli_text_add(t, "sent: of every vector only the blocks that are needed\n");
}

static void add_tuned(fli_text *t, const fli_algo *a)
{
    const fli_tune_range *first = fli_algo_tune(a);
    fli_text_add(t, "tuned by default:");
    for (const fli_tune_range *r = first; r->key; r++)
        fli_text_addf(t, "%s %s from %g to %g%s", r == first ? "" : ",", r->key, r->from, r->to,
                      r->log ? " (log)" : "");
    fli_text_add(t, "\n");
}

void fli_describe_algo(fli_text *t, const void *desc)
{
    const fli_algo *a = desc;
    fli_text_add(
        t, a->traits & FLI_ALGO_EVERYONE ? "takes part: every client in every round (participation: everyone)\n"
           : a->traits & FLI_ALGO_BYSTANDERS
               ? "takes part: every client in every round; `participation` chooses those that do the method's local "
                 "steps\n"
           : a->async.pace ? "takes part: everyone, or a fixed number at a time (participation: uniform)\n"
                           : "takes part: any cohort\n");
    fli_text_add(t, a->traits & FLI_ALGO_UNIFORM
                        ? "client weights: equal, w_i = 1/N\n"
                        : "client weights: by samples, w_i = n_i/n, unless `weights` is uniform\n");
    if (a->async.pace)
        fli_text_add(t, "asynchronous: the server takes uploads as they come; a server step counts as a round\n");
    if (a->traits & FLI_ALGO_COMPOSITE) fli_text_add(t, "composite problems: yes, with any `regularizer`\n");
    if (a->traits & FLI_ALGO_PLAIN_SGD)
        fli_text_add(t, "local steps: defined for plain SGD, since it reads gradients out of displacements\n");
    if (a->traits & FLI_ALGO_TOUCHES) fli_text_add(t, "arithmetic: touches its vectors itself: stays on the CPU\n");
    if (a->traits & FLI_ALGO_BLOCKS)
        fli_text_add(t, "objective: made for one with a second block on the clients, such as pseudo labels (`semi`)\n");
    if (a->traits & FLI_ALGO_LABELLED) fli_text_add(t, "objective: labelled samples alone, whatever `semi` says\n");
    if (a->personal.mix)
        fli_text_add(
            t, "own models: a client predicts with a mixture of its own and the global model (`metrics.local`)\n");
    if (a->traits & FLI_ALGO_BILEVEL) add_levels(t);
    if (a->rounds.phases)
        fli_text_addf(t, "exchanges: several per round, with the same cohort%s; see the column communications\n",
                      a->rounds.redraws ? " unless `cohort` says otherwise" : "");
    add_tuned(t, a);
    add_vectors(t, "kept by a client", a->client, a->client_scalars);
    add_vectors(t, "kept by the server", a->server, 0);
    if (a->rounds.stage) {
        add_parts(t, "up, as an exchange needs it", a->up);
        add_parts(t, "down, as an exchange needs it", a->down);
        return;
    }
    add_sent(t, "up, per client and round", a->up, FLI_IN(0), 0);
    add_sent(t, "down, per client and round", a->down, FLI_IN(0), 0);
    add_sent(t, "down, in a client's first turn", a->down, FLI_AT_FIRST, FLI_IN(0));
    if (a->rounds.warms_up) add_sent(t, "up, per client, before the first round", a->up, FLI_IN_WARM_UP, FLI_IN(0));
    if (a->rounds.exchanges)
        fli_text_add(t, "exchange: its keys may leave it out of rounds; nothing is sent up then\n");
}

void fli_describe_model(fli_text *t, const void *desc)
{
    const fli_model_desc *m = desc;
    fli_text_addf(t, "for: %s\n",
                  m->traits & FLI_MODEL_OWN            ? "the data that it was written for"
                  : m->traits & FLI_MODEL_BINARY       ? "classification, exactly two classes"
                  : m->traits & FLI_MODEL_CLASSIFIER   ? "classification"
                  : m->traits & FLI_MODEL_UNSUPERVISED ? "clustering; any data, labels are not read"
                                                       : "regression");
    fli_text_addf(t, "objective: %s\n", m->traits & FLI_MODEL_CONVEX ? "convex" : "not convex");
}

void fli_describe_regularizer(fli_text *t, const void *desc)
{
    const fli_regularizer *g = desc;
    if (g->weak_convexity)
        fli_text_add(t, "convex: no, so no theorem of `fedloom check` applies, and proximal steps have to be short\n");
}

void fli_describe_source(fli_text *t, const void *desc)
{
    const fli_source *s = desc;
    if (s->client)
        fli_text_add(t, "on demand: can make a client's samples when its turn comes (`data.on_demand: true`)\n");
}

void fli_describe_partitioner(fli_text *t, const void *desc)
{
    const fli_partitioner *p = desc;
    fli_text_add(t, p->sets_clients ? "clients: as many as the data say; `partition.clients` limits them\n"
                                    : "clients: `partition.clients`, which must be given\n");
}
