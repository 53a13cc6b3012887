/* A user's objective as a model: passes batches as fl_batch, and turns the failure of a user function into a status.
 *
 * Solvers only handle numbers, so the model remembers a failure, calls no more user functions and returns NaN. The code
 * that made it compute asks for the status afterwards. */
#include "model/user_objective.h"

#include "base/number.h"
#include "base/user_registry.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    fli_model_desc desc; /* first member, so that a model's desc points here */
    fl_objective is;     /* its pointers lead into the arena */
    fli_arena arena;
} objective;

/* A model's failure. */
typedef struct {
    atomic_int failed;
    pthread_mutex_t lock;
    pthread_t thread; /* the failing thread, which knows where it failed */
    fl_failure why;
    fl_failure sentence; /* made when that thread asks for the status */
} failure_state;

static const objective *objective_of(const fli_model *m) { return (const objective *)m->desc; }
static failure_state *failure_of(const fli_model *m) { return (failure_state *)m->priv; }

int fli_model_by_client(const fli_model *m) { return m->desc->traits & FLI_MODEL_USER && objective_of(m)->is.client; }

/* ---- calling ---------------------------------------------------------------------------------------------- */

static int has_failed(const fli_model *m) { return atomic_load(&failure_of(m)->failed); }

/* Called after a user function returned a value other than 0. */
static void note_failure(const fli_model *m, fl_failure *f)
{
    failure_state *t = failure_of(m);
    if (!fli_has_failed(f)) fl_failed(f, NULL);
    pthread_mutex_lock(&t->lock);
    if (!fli_has_failed(&t->why)) {
        t->why = *f;
        t->thread = pthread_self();
        atomic_store(&t->failed, 1);
    }
    pthread_mutex_unlock(&t->lock);
}

static int failed(const fli_model *m, const char *where, fl_failure *why)
{
    failure_state *t = failure_of(m);
    if (!has_failed(m) || !why) return has_failed(m);
    pthread_mutex_lock(&t->lock);
    if (!fli_has_failed(&t->sentence) && pthread_equal(t->thread, pthread_self()))
        fli_snprintf(t->sentence.text, sizeof t->sentence.text, "objective %s failed%s: %s", m->desc->name, where,
                     t->why.text);
    *why = t->sentence;
    pthread_mutex_unlock(&t->lock);
    return 1;
}

static fl_batch batch_of(const fli_batch *b)
{
    return (fl_batch){.n = b->n,
                      .dim = b->dim,
                      .real = b->ops->size,
                      .sample = b->sample,
                      .test = b->from->test,
                      .x = b->dim ? b->x : NULL,
                      .label = b->from->label ? b->label : NULL,
                      .target = b->from->target ? b->target : NULL};
}

/* Averages over the clients of the batch, usually one. */
static int over_clients(const fli_model *m, const void *x, const fli_batch *b, void *g, double *loss, void *scratch,
                        fl_failure *f)
{
    const fl_objective *o = &objective_of(m)->is;
    double share = 1 / (double)b->n, sum = 0;
    if (b->n == 1) return o->client(o->arg, b->sample[0], m->space.ops->size, x, g, loss, f);
    if (g) fli_zero(&m->space, g);
    for (size_t i = 0; i < b->n; i++) {
        if (o->client(o->arg, b->sample[i], m->space.ops->size, x, g ? scratch : NULL, loss, f)) return 1;
        if (g) fli_axpy(&m->space, share, scratch, g);
        sum += share * *loss;
    }
    *loss = sum;
    return 0;
}

static int over_batch(const fli_model *m, const void *x, const fli_batch *b, void *g, double *loss, size_t *hits,
                      fl_failure *f)
{
    const fl_objective *o = &objective_of(m)->is;
    fl_batch batch = batch_of(b);
    int failed = o->batch(o->arg, &batch, x, g, loss, hits, f);
    if (failed || *hits <= b->n) return failed;
    char text[128];
    fli_snprintf(text, sizeof text, "it has %zu hits among %zu samples", *hits, b->n);
    fl_failed(f, text);
    return 1;
}

/* Around every call of the user's functions; 0: one of them has failed before, so that none is called. */
static int enter(const fli_model *m)
{
    fli_registry_enter(objective_of(m)->is.traits);
    return !has_failed(m);
}

/* Given what the function returned; 0 where none was called. Returns whether one has failed. */
static int leave(const fli_model *m, int said, fl_failure *f)
{
    if (fli_failed_by(said, f)) note_failure(m, f);
    fli_registry_leave(objective_of(m)->is.traits);
    return has_failed(m);
}

static double grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    const fl_objective *o = &objective_of(m)->is;
    double loss = NAN;
    size_t hits = 0;
    fl_failure f = {{0}};
    int said = 0;
    if (enter(m))
        said = o->client ? over_clients(m, x, b, g, &loss, scratch, &f) : over_batch(m, x, b, g, &loss, &hits, &f);
    int failed = leave(m, said, &f);
    if (failed && g) fli_zero(&m->space, g);
    if (correct) *correct = failed || !(o->traits & FL_OBJECTIVE_CLASSIFIER) ? 0 : hits;
    return failed ? NAN : loss;
}

static void hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch)
{
    const fl_objective *o = &objective_of(m)->is;
    fl_failure f = {{0}};
    fl_batch batch = batch_of(b);
    (void)scratch;
    int said = enter(m) && o->product(o->arg, &batch, x, v, out, &f);
    if (leave(m, said, &f)) fli_zero(&m->space, out);
}

static void init(const fli_model *m, fli_rng *r, double *x)
{
    const fl_objective *o = &objective_of(m)->is;
    fl_failure f = {{0}};
    int said = enter(m) && o->start(o->arg, fli_rng_u64(r), x, &f);
    leave(m, said, &f);
}

static void measure(const fli_model *m, const void *x, double *out)
{
    const fl_objective *o = &objective_of(m)->is;
    fl_failure f = {{0}};
    for (size_t i = 0; o->metrics[i]; i++) out[i] = NAN;
    int said = enter(m) && o->measure(o->arg, m->space.ops->size, x, out, &f);
    leave(m, said, &f);
}

static size_t scratch(const fli_model *m, size_t n) { return objective_of(m)->is.client && n > 1 ? m->space.n : 0; }

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    const objective *o = objective_of(m);
    failure_state *t = fli_arena_alloc(&m->arena, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    if (pthread_mutex_init(&t->lock, NULL)) return fli_fail(ctx, FL_ESYSTEM, "no lock for objective %s", o->is.name);
    m->priv = t;
    m->space.n = o->is.parameters;
    m->tensors = o->is.tensors;
    m->tensor_count = o->is.tensor_count;
    return FL_OK;
}

static void fini(fli_model *m)
{
    if (m->priv) pthread_mutex_destroy(&failure_of(m)->lock);
}

/* ---- registering ------------------------------------------------------------------------------------------ */

static void objective_free(void *item)
{
    objective *o = item;
    if (!o) return;
    fli_arena_fini(&o->arena);
    fli_free(o);
}

static fli_registry objectives = FLI_REGISTRY_INIT(objective_free);

enum { LONGEST = 127 }; /* name of a tensor */

/* Names are written to files unquoted. */
static fl_status check_tensor_name(fl_ctx *ctx, const fl_objective *o, size_t k)
{
    const char *name = o->tensors[k].name;
    size_t n = name ? strlen(name) : 0;
    int plain = n && n <= LONGEST && strcmp(name, "__metadata__");
    for (size_t i = 0; i < n; i++)
        plain = plain && name[i] > ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\\';
    if (!plain)
        return fli_fail(ctx, FL_ECONFIG,
                        "objective %s: tensor %zu needs a name of at most %d printable characters without blanks, "
                        "quotes and backslashes",
                        o->name, k, LONGEST);
    for (size_t i = 0; i < k; i++)
        if (!strcmp(o->tensors[i].name, name))
            return fli_fail(ctx, FL_ECONFIG, "objective %s has two tensors called %s", o->name, name);
    return FL_OK;
}

/* Number of reals of a tensor; 0 if it has none, or more than size_t can count. */
static size_t tensor_reals(const fl_tensor *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n)) return 0;
    return n;
}

static fl_status check_tensors(fl_ctx *ctx, const fl_objective *o)
{
    size_t at = 0;
    for (size_t k = 0; k < o->tensor_count; k++) {
        const fl_tensor *t = &o->tensors[k];
        size_t n = t->dims >= 1 && t->dims <= 4 ? tensor_reals(t) : 0;
        fl_status s = check_tensor_name(ctx, o, k);
        if (s) return s;
        if (!n)
            return fli_fail(ctx, FL_ECONFIG, "objective %s: tensor %s needs 1 to 4 dimensions, none of them 0", o->name,
                            t->name);
        if (t->offset != at || n > o->parameters - at)
            return fli_fail(ctx, FL_ECONFIG,
                            "objective %s: tensors must cover the %zu parameters in order and without gaps, but %s has "
                            "%zu from %zu on, after %zu",
                            o->name, o->parameters, t->name, n, t->offset, at);
        at += n;
    }
    if (at == o->parameters) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "objective %s: tensors cover %zu of %zu parameters", o->name, at, o->parameters);
}

static fl_status take_tensors(objective *o)
{
    const fl_tensor whole = {"x", 0, 1, {o->is.parameters}}, *given = o->is.tensors ? o->is.tensors : &whole;
    if (!o->is.tensors) o->is.tensor_count = 1;
    fl_tensor *t = fli_arena_alloc(&o->arena, o->is.tensor_count, sizeof *t);
    if (!t) return FL_ENOMEM;
    for (size_t k = 0; k < o->is.tensor_count; k++) {
        t[k] = (fl_tensor){
            .name = fli_arena_strdup(&o->arena, given[k].name), .offset = given[k].offset, .dims = given[k].dims};
        memcpy(t[k].shape, given[k].shape, t[k].dims * sizeof *t[k].shape);
        if (!t[k].name) return FL_ENOMEM;
    }
    o->is.tensors = t;
    return FL_OK;
}

static fl_status take_texts(objective *o)
{
    size_t n = 0;
    while (o->is.metrics && o->is.metrics[n]) n++;
    const char **names = fli_arena_alloc(&o->arena, n + 1, sizeof *names);
    if (!names) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!(names[i] = fli_arena_strdup(&o->arena, o->is.metrics[i]))) return FL_ENOMEM;
    o->is.metrics = n ? names : NULL;
    o->is.name = fli_arena_strdup(&o->arena, o->is.name);
    o->is.title = fli_arena_strdup(&o->arena, o->is.title ? o->is.title : "a user's objective");
    return o->is.name && o->is.title ? FL_OK : FL_ENOMEM;
}

fl_status fli_user_objective_check(fl_ctx *ctx, const fl_objective *o)
{
    const unsigned known = FL_SERIAL | FL_OBJECTIVE_CONVEX | FL_OBJECTIVE_CLASSIFIER;
    size_t metrics = 0;
    while (o->metrics && o->metrics[metrics]) metrics++;
    if (o->traits & ~known)
        return fli_fail(ctx, FL_ECONFIG, "objective %s has traits 0x%x, of which 0x%x is not known", o->name, o->traits,
                        o->traits & ~known);
    if (!o->parameters || o->parameters > SIZE_MAX / 2 / sizeof(double))
        return fli_fail(ctx, FL_ECONFIG,
                        "objective %s has %zu parameters; it needs at least one, and a model must fit "
                        "into memory",
                        o->name, o->parameters);
    if (!o->batch == !o->client)
        return fli_fail(ctx, FL_ECONFIG, "objective %s needs one of the functions batch and client%s", o->name,
                        o->batch ? ", not both" : "");
    if (o->client && o->traits & FL_OBJECTIVE_CLASSIFIER)
        return fli_fail(ctx, FL_ECONFIG, "objective %s is a classifier, so it needs batch: client counts no hits",
                        o->name);
    if (!metrics != !o->measure)
        return fli_fail(ctx, FL_ECONFIG, "objective %s has %s", o->name,
                        metrics ? "metrics, but no function measure" : "a function measure, but no metrics");
    if (metrics > FLI_USER_METRICS)
        return fli_fail(ctx, FL_ECONFIG, "objective %s has %zu metrics, but at most %d are allowed", o->name, metrics,
                        FLI_USER_METRICS);
    return o->tensors ? check_tensors(ctx, o) : FL_OK;
}

static fli_model_desc describe(const objective *o)
{
    const fl_objective *is = &o->is;
    unsigned traits = FLI_MODEL_USER;
    if (is->traits & FL_OBJECTIVE_CONVEX) traits |= FLI_MODEL_CONVEX;
    if (is->traits & FL_OBJECTIVE_CLASSIFIER) traits |= FLI_MODEL_CLASSIFIER;
    return (fli_model_desc){.name = is->name,
                            .title = is->title,
                            .traits = traits,
                            .setup = setup,
                            .scratch = scratch,
                            .init = is->start ? init : NULL,
                            .grad = grad,
                            .hvp = is->product ? hvp : NULL,
                            .fini = fini,
                            .metrics = is->metrics,
                            .measure = is->metrics ? measure : NULL,
                            .failed = failed};
}

fl_status fli_user_objective_add(fl_ctx *ctx, const fl_objective *given)
{
    objective *o = fli_alloc(ctx, 1, sizeof *o);
    if (!o) return FL_ENOMEM;
    o->is = *given;
    fli_arena_init(&o->arena, ctx);
    fl_status s = take_texts(o);
    if (!s) s = take_tensors(o);
    if (s) {
        objective_free(o);
        return s;
    }
    o->desc = describe(o);
    return fli_registry_add(ctx, &objectives, o->is.name, o);
}

const fli_model_desc *fli_user_model_at(size_t k)
{
    const objective *o = fli_registry_at(&objectives, k);
    return o ? &o->desc : NULL;
}

const fli_model_desc *fli_user_model_named(const char *name)
{
    const objective *o = fli_registry_find(&objectives, name);
    return o ? &o->desc : NULL;
}

int fli_user_model_forget(const char *name) { return fli_registry_forget(&objectives, name); }
