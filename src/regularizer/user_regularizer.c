/* Regularisers that users register: copies of them, in a list of the whole process. */
#include "regularizer/user_regularizer.h"

#include "base/user_registry.h"
#include "format/user_keys.h"

typedef struct {
    fl_regularizer is; /* first: a pointer to it is one to the regulariser. What it points to is in the arena */
    fli_arena arena;
    size_t values; /* its parameters are this many doubles; 0: a struct, or none */
} user_regularizer;

static void regularizer_free(void *item)
{
    user_regularizer *o = item;
    if (!o) return;
    fli_arena_fini(&o->arena);
    fli_free(o);
}

static fli_registry regularizers = FLI_REGISTRY_INIT(regularizer_free);

static fl_status check(fl_ctx *ctx, const fl_regularizer *g)
{
    if (g->traits & ~(unsigned)FL_SERIAL)
        return fli_fail(ctx, FL_ECONFIG, "regularizer %s has traits 0x%x, of which only FL_SERIAL is known", g->name,
                        g->traits);
    if (!g->value || !g->prox)
        return fli_fail(ctx, FL_ECONFIG, "regularizer %s needs the function %s", g->name, g->value ? "prox" : "value");
    return fli_user_keys_check(ctx, &(fli_user_keys){"regularizer", g->name, g->keys, g->params_size});
}

static fl_status copy(user_regularizer *o, const fl_regularizer *g)
{
    fli_arena *a = &o->arena;
    o->is = *g;
    o->is.name = fli_arena_strdup(a, g->name);
    o->is.title = fli_arena_strdup(a, g->title ? g->title : "a regulariser of one's own");
    o->is.citation = fli_arena_strdup(a, g->citation ? g->citation : "registered by the program");
    if (!o->is.name || !o->is.title || !o->is.citation) return FL_ENOMEM;
    return fli_user_keys_copy(a, &o->is.keys, &o->is.params_size, &o->values);
}

fl_status fli_user_regularizer_add(fl_ctx *ctx, const fl_regularizer *given)
{
    fl_status s = check(ctx, given);
    user_regularizer *o = s ? NULL : fli_alloc(ctx, 1, sizeof *o);
    if (!o) return s ? s : FL_ENOMEM;
    fli_arena_init(&o->arena, ctx);
    s = copy(o, given);
    o->arena.ctx = NULL; /* it may go before the regulariser does */
    if (!s) return fli_registry_add(ctx, &regularizers, o->is.name, o);
    regularizer_free(o);
    return s;
}

void fli_user_regularizer_bound(const void *g, void *params)
{
    const user_regularizer *o = g;
    fli_user_keys_bound(o->is.keys, o->values, o->is.arg, params);
}

const fl_regularizer *fli_user_regularizer(const char *name) { return fli_registry_find(&regularizers, name); }
const fl_regularizer *fli_user_regularizer_at(size_t k) { return fli_registry_at(&regularizers, k); }
int fli_user_regularizer_forget(const char *name) { return fli_registry_forget(&regularizers, name); }
