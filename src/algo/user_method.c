/* Registered methods: a deep copy of each. Their functions are called as those of any method (algo.h); this file has
 * what differs: their parameters, the life of the object that `begin` makes, and the hiding of server data that clients
 * are not sent. */
#include "algo/user_method.h"

#include "base/number.h"
#include "format/user_keys.h"
#include "solver/user_solver.h"

#include <math.h>
#include <string.h>

enum { FLI_USER_VECTORS = 64, FLI_USER_SCALARS = 256 }; /* the most of a kind */

typedef struct {
    fl_method is;    /* first: a pointer to this struct is one to the method */
    fli_arena arena; /* owns all of the copy, this struct too */
    size_t values;   /* the number of double parameters; 0: a struct, or none */
    size_t server;   /* the number of its vectors, */
    unsigned char sent[FLI_USER_VECTORS],
        sent_scalars[FLI_USER_SCALARS]; /* and the scalars of the server that clients are ever sent */
    int hides;                          /* some data of the server are never sent */
} user_method;

static void method_free(void *method)
{
    fli_arena arena = ((user_method *)method)->arena;
    fli_arena_fini(&arena);
}

static fli_registry methods = FLI_REGISTRY_INIT(method_free);

/* NULL for built-in methods. */
static const user_method *registered(const fl_method *a)
{
    return a->traits & FLI_METHOD_REGISTERED ? (const user_method *)a : NULL;
}

/* ==== parameters ========================================================================================== */

size_t fli_method_head(const fl_method *a) { return registered(a) ? sizeof(fli_user_head) : 0; }
void *fli_method_arg(const fl_method *a, const void *params)
{
    return registered(a) && params ? fli_user_head_of(params)->arg : NULL;
}

void *fli_method_params_copy(fli_arena *arena, const fl_method *a, const void *params)
{
    size_t before = fli_method_head(a);
    char *copy = fli_arena_alloc(arena, 1, before + a->params_size + 1);
    return copy ? (char *)memcpy(copy, (const char *)params - before, before + a->params_size) + before : NULL;
}

void fli_method_bound(const fl_method *a, void *params)
{
    const user_method *o = registered(a);
    if (o) fli_user_keys_bound(a->keys, o->values, a->arg, params);
}

static fl_status has_solvers(fl_ctx *ctx, const fl_method *a, const void *params)
{
    char word[64];
    const char *name = word;
    for (size_t i = 0; i < FL_STAGES; i++) {
        if (a->solver_for) {
            fli_algo_enter(a);
            name = a->solver_for(params, i);
            fli_algo_leave(a);
        } else if (!fli_algo_solver_word(a->solver, i, word, sizeof word))
            return FL_OK;
        if (!name || !fli_algo_solver_named(name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s' needs the solver '%s', which %s", a->name, name ? name : "",
                            a->solver_for ? "does not exist" : "is no longer there");
    }
    return FL_OK;
}

/* Checks the stages that its own function gives to the phases of a round. */
static fl_status has_stages(fl_ctx *ctx, const fl_method *a, const void *params)
{
    size_t phases = fli_algo_phases(a, params, 0), stage = 0;
    if (phases > FLI_MOST_PHASES)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu phases, but a round may have at most %d", a->name, phases,
                        FLI_MOST_PHASES);
    for (size_t k = 0; a->rounds.stage && k < phases; k++) {
        fli_algo_enter(a);
        stage = a->rounds.stage(params, k, phases);
        fli_algo_leave(a);
        if (stage >= FL_STAGES)
            return fli_fail(ctx, FL_ECONFIG, "method '%s': phase %zu of %zu is in stage %zu, but stages are below %d",
                            a->name, k, phases, stage, FL_STAGES);
    }
    return FL_OK;
}

fl_status fli_method_validate(fl_ctx *ctx, const fl_method *a, const void *params, size_t clients)
{
    fl_failure f = {{0}};
    fl_status s = registered(a) ? has_solvers(ctx, a, params) : FL_OK;
    if (!s && registered(a)) s = has_stages(ctx, a, params);
    if (s || !a->validate) return s;
    fli_algo_enter(a);
    int refused = fli_failed_by(a->validate(params, clients, &f), &f);
    fli_algo_leave(a);
    if (!refused) return FL_OK;
    if (!fli_has_failed(&f)) fl_failed(&f, NULL);
    return fli_fail(ctx, FL_ECONFIG, "%s", f.text);
}

fl_status fli_method_begin(fl_ctx *ctx, const fl_method *a, void *params)
{
    fl_failure f = {{0}};
    if (!a->begin) return FL_OK;
    fli_algo_enter(a);
    void *made = a->begin(a->arg, params, &f);
    if (made && fli_has_failed(&f)) a->end(made);
    fli_algo_leave(a);
    if (!made || fli_has_failed(&f)) {
        fl_failed(&f, NULL);
        return fli_fail(ctx, FL_ECALLBACK, "method %s failed in begin: %s", a->name, f.text);
    }
    *fli_user_head_of(params) = (fli_user_head){.arg = made, .begun = 1};
    return FL_OK;
}

void fli_method_end(const fl_method *a, void *params)
{
    if (!a->end || !params || !fli_user_head_of(params)->begun) return;
    fli_algo_enter(a);
    a->end(fli_user_head_of(params)->arg);
    fli_algo_leave(a);
    fli_user_head_of(params)->begun = 0;
}

/* ==== hidden server data ================================================================================== */

int fli_method_hides(const fl_method *a) { return registered(a) && registered(a)->hides; }

void fli_method_hide(const fl_method *a, size_t vectors, const void **vec, double *num, void *nothing, fl_turn *turn)
{
    const user_method *o = registered(a);
    fli_fill(&turn->space, NAN, nothing);
    for (size_t i = 0; i < o->server; i++) vec[i] = o->sent[i] && i < vectors ? turn->down[i] : nothing;
    for (size_t i = 0; i < a->server_scalars; i++) num[i] = o->sent_scalars[i] ? turn->down_scalars[i] : NAN;
    turn->down = vec;
    turn->down_scalars = num;
}

/* ==== the copy ============================================================================================ */

static const char *copy_text(fli_arena *a, const char *text, fl_status *s)
{
    if (*s || !text) return NULL;
    const char *copy = fli_arena_strdup(a, text);
    if (!copy) *s = FL_ENOMEM;
    return copy;
}

static const char *const *copy_names(fli_arena *a, const char *const *names, fl_status *s)
{
    size_t n = fli_names_count(names);
    const char **copy = *s || !n ? NULL : fli_arena_alloc(a, n + 1, sizeof *copy);
    if (!*s && n && !copy) *s = FL_ENOMEM;
    for (size_t i = 0; !*s && i < n; i++) copy[i] = copy_text(a, names[i], s);
    return copy;
}

static const fl_part *copy_parts(fli_arena *a, const fl_part *parts, fl_status *s)
{
    size_t n = 0;
    while (parts && parts[n].name) n++;
    fl_part *copy = *s ? NULL : fli_arena_alloc(a, n + 1, sizeof *copy);
    if (!copy) *s = FL_ENOMEM;
    for (size_t i = 0; !*s && i < n; i++) {
        copy[i] = parts[i];
        copy[i].name = copy_text(a, parts[i].name, s);
    }
    return copy;
}

static const fl_tune_range *copy_ranges(fli_arena *a, const fl_tune_range *ranges, fl_status *s)
{
    size_t n = 0;
    while (ranges && ranges[n].key) n++;
    fl_tune_range *copy = *s || !n ? NULL : fli_arena_alloc(a, n + 1, sizeof *copy);
    if (!*s && n && !copy) *s = FL_ENOMEM;
    for (size_t i = 0; !*s && i < n; i++) {
        copy[i] = ranges[i];
        copy[i].key = copy_text(a, ranges[i].key, s);
    }
    return copy;
}

/* Notes which data of the server are ever sent to clients. */
static void note_sent(user_method *o)
{
    o->server = fli_names_count(o->is.server);
    for (const fl_part *p = o->is.down; p->name; p++) {
        if (fli_part_is_vector(p)) o->sent[p->at] = 1;
        for (size_t i = 0; i < fli_part_numbers(p); i++) o->sent_scalars[p->at + i] = 1;
    }
    for (size_t i = 0; i < o->server; i++) o->hides |= !o->sent[i];
    for (size_t i = 0; i < o->is.server_scalars; i++) o->hides |= !o->sent_scalars[i];
}

static void copy_texts(user_method *o, fl_status *s)
{
    fli_arena *a = &o->arena;
    fl_method *m = &o->is;
    m->name = copy_text(a, m->name, s);
    m->title = copy_text(a, m->title ? m->title : "a method of the program's own", s);
    m->citation = copy_text(a, m->citation ? m->citation : "registered by the program", s);
    m->solver = copy_text(a, m->solver, s);
    m->own_model = copy_text(a, m->own_model, s);
    m->remedy = copy_text(a, m->remedy, s);
    m->personal.remedy = copy_text(a, m->personal.remedy, s);
    m->theory.potential.name = copy_text(a, m->theory.potential.name, s);
    m->theory.gap.name = copy_text(a, m->theory.gap.name, s);
}

/* Copies all that `o->is` points to into o's arena. */
static fl_status copy_all(user_method *o)
{
    fli_arena *a = &o->arena;
    fl_method *m = &o->is;
    fl_status s = FL_OK;
    copy_texts(o, &s);
    m->server = copy_names(a, m->server, &s);
    m->client = copy_names(a, m->client, &s);
    m->sums = copy_names(a, m->sums, &s);
    m->down = copy_parts(a, m->down, &s);
    m->up = copy_parts(a, m->up, &s);
    m->tune = copy_ranges(a, m->tune, &s);
    if (!s) s = fli_user_keys_copy(a, &m->keys, &m->params_size, &o->values);
    m->traits |= FL_METHOD_TELLS_WEIGHT | FLI_METHOD_REGISTERED;
    if (s) return s;
    note_sent(o);
    m->work += o->hides != 0; /* for fli_method_hide */
    return FL_OK;
}

/* Free it with method_free. */
static fl_status method_copy(fl_ctx *ctx, const fl_method *m, user_method **out)
{
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    user_method *o = fli_arena_alloc(&arena, 1, sizeof *o);
    if (!o) return FL_ENOMEM;
    o->is = *m;
    o->arena = arena;
    fl_status s = copy_all(o);
    o->arena.ctx = NULL; /* the context may be freed before the method */
    if (s)
        method_free(o);
    else
        *out = o;
    return s;
}

/* ==== checks ============================================================================================== */

/* One sentence for every mistake in the method's tables. */

/* ---- its data -------------------------------------------------------------------------------------------- */

/* Names of one kind of vector: not too many, none empty, none twice. */
static fl_status check_names(fl_ctx *ctx, const fl_method *m, const char *what, const char *const *names)
{
    size_t n = fli_names_count(names);
    if (n > FLI_USER_VECTORS)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu %s vectors, but may have at most %d", m->name, n, what,
                        FLI_USER_VECTORS);
    for (size_t i = 0; i < n; i++) {
        if (!*names[i]) return fli_fail(ctx, FL_ECONFIG, "method '%s': %s vector %zu has no name", m->name, what, i);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(names[i], names[k]))
                return fli_fail(ctx, FL_ECONFIG, "method '%s' has two %s vectors called '%s'", m->name, what, names[i]);
    }
    return FL_OK;
}

static fl_status check_vectors(fl_ctx *ctx, const fl_method *m)
{
    const struct {
        const char *what;
        size_t n;
    } counts[] = {{"server_scalars", m->server_scalars},
                  {"client_scalars", m->client_scalars},
                  {"scalar_sums", m->scalar_sums},
                  {"work", m->work}};
    fl_status s;
    if (!fli_names_count(m->server))
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has no server vectors, but the first of them is the model x",
                        m->name);
    if ((s = check_names(ctx, m, "server", m->server)) || (s = check_names(ctx, m, "client", m->client)) ||
        (s = check_names(ctx, m, "sum", m->sums)))
        return s;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t most = i < 3 ? FLI_USER_SCALARS : FLI_USER_VECTORS;
        if (counts[i].n > most)
            return fli_fail(ctx, FL_ECONFIG, "method '%s': %s is %zu, but at most %zu are allowed", m->name,
                            counts[i].what, counts[i].n, most);
    }
    for (size_t i = 0; m->own_model && i < fli_names_count(m->client); i++)
        if (!strcmp(m->own_model, m->client[i])) return FL_OK;
    if (!m->own_model) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "method '%s': own_model is '%s', but no client vector is called that", m->name,
                    m->own_model);
}

/* ---- its messages ---------------------------------------------------------------------------------------- */

static size_t phases_of(const fl_method *m) { return m->phases ? m->phases : 1; }
/* The number of stages that parts and solvers may refer to. */
static size_t stages_of(const fl_method *m)
{
    return m->rounds.stage ? FL_STAGES : m->rounds.phases ? 1 : phases_of(m);
}

static fl_status check_when(fl_ctx *ctx, const fl_method *m, const char *table, const fl_part *p)
{
    unsigned rounds = p->when & FL_IN_ROUNDS, possible = (1u << stages_of(m)) - 1;
    if (p->when & ~(FL_IN_ROUNDS | FL_IN_WARM_UP | FL_AT_FIRST))
        return fli_fail(ctx, FL_ECONFIG, "method '%s', %s, part '%s': `when` is 0x%x, which means nothing", m->name,
                        table, p->name, p->when);
    if (rounds != FL_IN_ROUNDS && rounds & ~possible)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', %s, part '%s' is for a phase that there is not: phases are numbered from 0, and "
                        "there %s %zu",
                        m->name, table, p->name, stages_of(m) == 1 ? "is" : "are", stages_of(m));
    if (p->when & FL_IN_WARM_UP && !m->warms_up && !m->rounds.warms_up)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', %s, part '%s' is for the warm-up, but the method does not warm up (warms_up)",
                        m->name, table, p->name);
    return FL_OK;
}

static fl_status check_down(fl_ctx *ctx, const fl_method *m, const fl_part *p)
{
    size_t vectors = fli_names_count(m->server);
    int keeps = p->use == FL_PART_KEEP || p->use == FL_PART_KEEP_EACH, async = fli_algo_is_async(m);
    if (p->use != FL_PART_FORGET && !keeps)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s': `use` is FL_PART_FORGET or FL_PART_KEEP on the way down",
                        m->name, p->name);
    if (fli_part_is_vector(p) && p->at >= vectors)
        return fli_fail(ctx, FL_ECONFIG, "method '%s', down, part '%s' is server vector %zu, but there %s only %zu",
                        m->name, p->name, p->at, vectors == 1 ? "is" : "are", vectors);
    if (p->what == FL_PART_NUMBER && (p->at > m->server_scalars || p->count > m->server_scalars - p->at ||
                                      (!p->count && p->at == m->server_scalars)))
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s' goes beyond the server's scalars, of which there are %zu",
                        m->name, p->name, m->server_scalars);
    if (p->what == FL_PART_START && (p->when != FL_AT_FIRST || p->use != FL_PART_FORGET))
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s': the start model is sent with `when` FL_AT_FIRST and `use` "
                        "FL_PART_FORGET",
                        m->name, p->name);
    if (keeps && (!fli_part_is_vector(p) || async))
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s' cannot be kept: clients keep vectors for a round, and %s",
                        m->name, p->name, async ? "asynchronous methods have none" : "this is none");
    return FL_OK;
}

static fl_status check_up(fl_ctx *ctx, const fl_method *m, const fl_part *p)
{
    size_t most = fli_part_is_vector(p) ? FLI_USER_VECTORS : FLI_USER_SCALARS;
    if (p->what == FL_PART_START)
        return fli_fail(ctx, FL_ECONFIG, "method '%s', up, part '%s': the start model is only sent down", m->name,
                        p->name);
    if (p->use != FL_PART_VALUE && p->use != FL_PART_CHANGE)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', up, part '%s': `use` is FL_PART_VALUE or FL_PART_CHANGE on the way up", m->name,
                        p->name);
    if (p->at >= most || p->count > most - p->at)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', up, part '%s' goes beyond what an upload may have: %d vectors and %d scalars",
                        m->name, p->name, FLI_USER_VECTORS, FLI_USER_SCALARS);
    return FL_OK;
}

/* Looks for vector or scalar `at` of the upload: whether a part refers to it, and whether one refers to a later one. */
static void look_up(const fl_part *up, fl_what what, size_t at, int *this, int *later)
{
    *this = *later = 0;
    for (const fl_part *p = up; p->name; p++) {
        if (p->what != what && (what == FL_PART_NUMBER || !fli_part_is_vector(p))) continue;
        size_t count = what == FL_PART_NUMBER && p->count ? p->count : 1;
        *this |= p->at <= at && at < p->at + count;
        *later |= p->at + count > at + 1;
    }
}

static fl_status check_gaps(fl_ctx *ctx, const fl_method *m)
{
    for (int what = FL_PART_VECTOR; what <= FL_PART_NUMBER; what++) {
        int this, later = 1;
        for (size_t at = 0; later; at++) {
            look_up(m->up, (fl_what)what, at, &this, &later);
            if (!this && later)
                return fli_fail(ctx, FL_ECONFIG,
                                "method '%s', up: no part is %s %zu of the upload, but one is of a higher number",
                                m->name, what == FL_PART_VECTOR ? "vector" : "scalar", at);
        }
    }
    return FL_OK;
}

static fl_status check_table(fl_ctx *ctx, const fl_method *m, int up)
{
    const char *table = up ? "up" : "down";
    const fl_part *parts = up ? m->up : m->down;
    int model = 0;
    if (!parts || !parts->name)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' sends nothing %s: its table `%s` is empty", m->name, table,
                        table);
    for (const fl_part *p = parts; p->name; p++) {
        fl_status s = FL_OK;
        int block = p->what == FL_PART_UPPER || p->what == FL_PART_LOWER;
        if ((unsigned)p->what > FL_PART_LOWER || (unsigned)p->use > FL_PART_KEEP_EACH)
            s = fli_fail(ctx, FL_ECONFIG, "method '%s', %s, part '%s': `what` or `use` is none that there is", m->name,
                         table, p->name);
        if (!s && block && !(m->traits & FL_METHOD_BILEVEL))
            s = fli_fail(ctx, FL_ECONFIG,
                         "method '%s', %s, part '%s' is a block of a vector, which methods for two levels have "
                         "(FL_METHOD_BILEVEL)",
                         m->name, table, p->name);
        if (!s) s = up ? check_up(ctx, m, p) : check_down(ctx, m, p);
        if (!s) s = check_when(ctx, m, table, p);
        if (s) return s;
        model |= fli_part_is_vector(p) && !p->at;
    }
    if (up || model) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "method '%s', down: server vector 0, the model x, is never sent", m->name);
}

/* ---- its functions --------------------------------------------------------------------------------------- */

static fl_status check_solvers(fl_ctx *ctx, const fl_method *m)
{
    char name[64];
    if (m->solver_for && m->solver)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has both `solver` and `solver_for`", m->name);
    for (size_t i = 0; !m->solver_for && i < stages_of(m); i++) {
        if (m->solver && strchr(m->solver, '|') && m->rounds.stage &&
            !fli_algo_solver_word(m->solver, i, name, sizeof name))
            return FL_OK; /* one stage per name */
        if (!fli_algo_solver_word(m->solver, i, name, sizeof name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': `solver` names none for phase %zu", m->name, i);
        if (!fli_algo_solver_named(name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': there is no solver '%s'", m->name, name);
    }
    if (m->solver && strchr(m->solver, '|') && fli_algo_solver_word(m->solver, stages_of(m), name, sizeof name))
        return fli_fail(ctx, FL_ECONFIG, "method '%s': `solver` names more than there are phases", m->name);
    return FL_OK;
}

static fl_status check_calls(fl_ctx *ctx, const fl_method *m)
{
    const struct {
        const char *name;
        int there;
    } calls[] = {{"pose", m->pose != NULL},
                 {"answer", m->answer != NULL},
                 {"absorb", m->absorb != NULL},
                 {"advance", m->advance != NULL}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!calls[i].there)
            return fli_fail(ctx, FL_ECONFIG, "method '%s' has no function `%s`", m->name, calls[i].name);
    if (!m->begin != !m->end)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has a function `%s`, but no function `%s`", m->name,
                        m->begin ? "begin" : "end", m->begin ? "end" : "begin");
    return FL_OK;
}

static fl_status check_shape(fl_ctx *ctx, const fl_method *m)
{
    unsigned known = FL_SERIAL | FL_METHOD_EVERYONE | FL_METHOD_UNIFORM | FL_METHOD_EQUAL_LR | FL_METHOD_PLAIN_SGD |
                     FL_METHOD_COMPOSITE | FL_METHOD_WHOLE | FL_METHOD_TOUCHES | FL_METHOD_BYSTANDERS |
                     FL_METHOD_LABELLED | FL_METHOD_BLOCKS | FL_METHOD_BILEVEL | FL_METHOD_TELLS_WEIGHT |
                     FL_METHOD_NORMALISES;
    if (m->traits & ~known)
        return fli_fail(ctx, FL_ECONFIG, "method '%s': its traits have 0x%x, which this version does not know", m->name,
                        m->traits & ~known);
    if (m->phases > FL_STAGES)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu phases, but may have at most %d", m->name, m->phases,
                        FL_STAGES);
    if (!fli_algo_is_async(m)) return FL_OK;
    if (phases_of(m) > 1)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s' is asynchronous (buffer is %zu), so that it has no rounds with %zu phases",
                        m->name, m->buffer, m->phases);
    if (m->rounds.phases || m->rounds.exchanges || m->rounds.steps)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s' is asynchronous, so that it has no rounds for `phases`, `exchanges` or `steps`",
                        m->name);
    if (m->traits & FL_METHOD_EVERYONE)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s' is asynchronous (buffer is %zu), so that it cannot wait for everyone "
                        "(FL_METHOD_EVERYONE)",
                        m->name, m->buffer);
    return FL_OK;
}

/* Checks groups in which some functions require others. */
static fl_status check_groups(fl_ctx *ctx, const fl_method *m)
{
    const fl_potential *p = &m->theory.potential;
    const fl_theory *t = &m->theory;
    if (p->name && !p->levels && (!p->point || !p->client || !p->server))
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s': its potential needs the functions `point`, `client` and `server`, or `levels`",
                        m->name);
    if (!p->name && (p->point || p->client || p->server || p->levels || p->falls))
        return fli_fail(ctx, FL_ECONFIG, "method '%s': its potential needs a name", m->name);
    if (t->gap.name && !t->gap.value)
        return fli_fail(ctx, FL_ECONFIG, "method '%s': its gap needs the function `value`", m->name);
    if (t->fix && !t->check && !t->check_all)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has settings that satisfy its theorem, but no `check`", m->name);
    if (!m->settling.unsettled != !m->settling.settle)
        return fli_fail(ctx, FL_ECONFIG, "method '%s': `unsettled` and `settle` need each other", m->name);
    if (m->levels.v > fli_names_count(m->server))
        return fli_fail(ctx, FL_ECONFIG, "method '%s': levels.v is server vector %zu, but there are only %zu", m->name,
                        m->levels.v - 1, fli_names_count(m->server));
    if (m->personal.mix && !m->own_model)
        return fli_fail(ctx, FL_ECONFIG, "method '%s': personal.mix needs `own_model`", m->name);
    return FL_OK;
}

static fl_status user_check(fl_ctx *ctx, const fl_method *m)
{
    fl_status s;
    if ((s = check_calls(ctx, m)) || (s = check_shape(ctx, m)) || (s = check_vectors(ctx, m)) ||
        (s = check_table(ctx, m, 0)) || (s = check_table(ctx, m, 1)) || (s = check_gaps(ctx, m)) ||
        (s = check_solvers(ctx, m)) || (s = check_groups(ctx, m)))
        return s;
    return fli_user_keys_check(ctx, &(fli_user_keys){"method", m->name, m->keys, m->params_size});
}

/* ---- the list -------------------------------------------------------------------------------------------- */

const fl_method *fli_algo_at(size_t i, int *by_user)
{
    size_t k = 0;
    while (k < i && fli_algo_list[k]) k++;
    *by_user = fli_algo_list[k] == NULL;
    return *by_user ? fli_registry_at(&methods, i - k) : fli_algo_list[i];
}

const fl_method *fli_user_method_named(const char *name) { return fli_registry_find(&methods, name); }

int fli_user_method_forget(const char *name) { return fli_registry_forget(&methods, name); }

fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m)
{
    user_method *own = NULL;
    fl_status s = user_check(ctx, m);
    if (!s) s = method_copy(ctx, m, &own);
    return s ? s : fli_registry_add(ctx, &methods, m->name, own);
}
