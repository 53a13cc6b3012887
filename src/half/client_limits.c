/* What a client lets a server ask for: fl_client_limit. Looked at before anything is computed, and before memory is
 * taken. */
#include "half/client_parts.h"

#include "base/sized.h"
#include "engine/footprint.h"

#include <string.h>

/* ---- its own copy ----------------------------------------------------------------------------------------- */

static void names_free(char **names)
{
    for (size_t i = 0; names && names[i]; i++) fli_free(names[i]);
    fli_free(names);
}

void fli_client_limits_fini(fli_client_limits *l)
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
        limits ? fli_take_sized(c->ctx, "fl_client_limits", limits, limits->size, &l.most, sizeof l.most) : FL_OK;
    if (!s && !(l.most.seconds >= 0))
        s = fli_fail(c->ctx, FL_ECONFIG, "a limit of %g seconds is no limit: 0 stands for any time", l.most.seconds);
    if (!s) s = names_copy(c->ctx, l.most.methods, &l.methods);
    if (!s) s = names_copy(c->ctx, l.most.models, &l.models);
    if (s) {
        fli_client_limits_fini(&l);
        return s;
    }
    l.most.methods = l.most.models = NULL; /* the caller's */
    fli_client_limits_fini(&c->limits);
    c->limits = l;
    return FL_OK;
}

/* ---- held against what comes ------------------------------------------------------------------------------ */

fl_status fli_client_may_read(fl_client *c, size_t n)
{
    uint64_t most = c->limits.most.bytes;
    if (!most || n <= most) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED, "a message of %zu bytes came, and this client reads at most %llu", n,
                    (unsigned long long)most);
}

static fl_status may_name(fl_client *c, const char *what, char *const *names, const char *name)
{
    if (!names) return FL_OK;
    for (; *names; names++)
        if (!strcmp(*names, name)) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "the federation's %s is %.100s, which is not among those that this client allows", what, name);
}

fl_status fli_client_may_join(fl_client *c, const fli_terms *t)
{
    fl_status s = may_name(c, "method", c->limits.methods, t->method);
    return s ? s : may_name(c, "model", c->limits.models, t->model);
}

fl_status fli_client_may_hold(fl_client *c)
{
    uint64_t most = c->limits.most.memory;
    double wanted = most ? fli_footprint_client(&c->spec, (size_t)c->count) : 0;
    if (wanted <= (double)most) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "method %s and a model of %zu parameters take %.0f bytes, and this client allows %llu",
                    c->spec.algo->name, c->spec.model->space.n, wanted, (unsigned long long)most);
}

/* Samples that the turn passes over. */
static double effort(const fl_client *c, const fli_ask *ask)
{
    size_t n = fli_fed_size(c->fed, c->number), unlabelled = fli_fed_unlabelled(c->fed, c->number);
    fli_epochs e = fli_epochs_of(c->spec.model, &c->spec.sgd, n - unlabelled, unlabelled);
    size_t cost = fli_algo_cost(c->spec.algo, c->spec.params, &c->spec.solvers, ask, &e);
    return (double)cost * (double)fli_batch_size(&c->spec.sgd, n);
}

fl_status fli_client_may_work(fl_client *c, const fli_ask *ask)
{
    const fl_client_limits *most = &c->limits.most;
    if (ask->kind != FLI_ASK_TURN) return FL_OK;
    if (most->steps && ask->steps > most->steps)
        return fli_fail(c->ctx, FL_EREFUSED, "client %u is asked for %llu steps, and allows %llu in a turn", c->number,
                        (unsigned long long)ask->steps, (unsigned long long)most->steps);
    if (!most->samples) return FL_OK;
    /* every step is of one sample at least; and so many steps are few enough to be counted with */
    double passes = ask->steps > most->samples ? (double)ask->steps : effort(c, ask);
    if (passes <= (double)most->samples) return FL_OK;
    return fli_fail(c->ctx, FL_EREFUSED,
                    "client %u is asked for a turn that passes over %.0f samples, and allows %llu, however often each",
                    c->number, passes, (unsigned long long)most->samples);
}
