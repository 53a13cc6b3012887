/* Methods that users register: everything a method points to is copied, its tables become those of a descriptor, and
 * the descriptor's functions call the user's. */
#include "algo/user_method.h"

#include "base/number.h"
#include "base/user_registry.h"
#include "solver/user_solver.h"

#include <math.h>
#include <string.h>

/* ==== what a registered method is made of ================================================================= */

enum { USER_VECTORS = 64, USER_SCALARS = 256 }; /* at most this many of a kind */

/* What the user gave beside tables. */
typedef struct {
    void *arg;
    unsigned traits;
    size_t work, phases, buffer;
    int (*start)(const fl_coordinator *s);
    int (*pose)(const fl_turn *t, fl_problem *p);
    int (*answer)(const fl_turn *t, const fl_answer *a);
    int (*absorb)(const fl_coordinator *s, const fl_upload *u);
    int (*advance)(const fl_coordinator *s);
    void *(*begin)(void *arg, const double *params, fl_failure *f);
    void (*end)(void *begun);
} user_calls;

typedef struct {
    fli_algo algo;   /* first: a pointer to it is one to the method */
    fli_arena arena; /* in which all of it lies, this struct too */
    user_calls does;
    size_t server;                                                /* its vectors, */
    unsigned char sent[USER_VECTORS], sent_scalars[USER_SCALARS]; /* and what clients ever get of the server's */
    int hides;                                                    /* there are server vectors that they never get */
    const char *solver[FL_STAGES];                                /* of every phase */
} user_method;

/* Bound parameters begin with this. Behind the values lies what the rows of the table fill. */
typedef struct {
    const user_method *self;
    void *arg; /* what the functions are handed */
    int begun; /* that is the run's own, and `end` is still to be called */
    double value[];
} user_params;

/* ==== the copy ============================================================================================ */

/* NULL counts as empty. */
static size_t count_keys(const fl_key *keys)
{
    size_t n = 0;
    while (keys && keys[n].name) n++;
    return n;
}

/* The name for phase i by a list such as "gradient|sgd", or by a single name for all; 0: there is none. */
static int user_solver_name(const char *list, size_t i, char *buf, size_t size)
{
    if (!list) list = "sgd";
    return fli_choice_word(list, strchr(list, '|') ? (int)i : 0, buf, size);
}

const fli_solver *fli_user_solver_named(const char *name)
{
    static const struct {
        const char *name;
        const fli_solver *solver;
    } known[] = {{"sgd", &fli_solver_sgd},
                 {"gradient", &fli_solver_gradient},
                 {"sgd_gradient", &fli_solver_sgd_gradient},
                 {"exact", &fli_solver_exact}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].solver;
    return fli_user_solver(name);
}

/* ---- copies ---------------------------------------------------------------------------------------------- */

static char *copy_text(fli_arena *a, const char *text, fl_status *s)
{
    char *copy = text && !*s ? fli_arena_strdup(a, text) : NULL;
    if (text && !copy) *s = FL_ENOMEM;
    return copy;
}

static const char *const *copy_names(fli_arena *a, const char *const *names, fl_status *s)
{
    size_t n = fli_names_count(names);
    const char **copy = *s ? NULL : fli_arena_alloc(a, n + 1, sizeof *copy);
    if (!copy) *s = FL_ENOMEM;
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

/* Values come after the head of the parameters, and what is bound after the values: eight bytes each. */
static size_t place_of(size_t count, size_t k) { return sizeof(user_params) + (count + k) * sizeof(double); }

/* Its rows for those parameters. */
static fl_status user_keys(fli_arena *a, const fl_key *keys, fl_key **out)
{
    fl_status s = FL_OK;
    size_t n = count_keys(keys);
    if (!(*out = fli_arena_alloc(a, n + 1, sizeof **out))) return FL_ENOMEM;
    for (size_t i = 0; !s && i < n; i++)
        (*out)[i] = (fl_key){.name = copy_text(a, keys[i].name, &s),
                             .type = keys[i].type,
                             .offset = place_of(n, i),
                             .def = copy_text(a, keys[i].def, &s),
                             .min = keys[i].min,
                             .max = keys[i].max,
                             .choices = copy_text(a, keys[i].choices, &s),
                             .help = copy_text(a, keys[i].help ? keys[i].help : "", &s)};
    return s;
}

/* fli_algo.bound: the values as the user's functions see them. */
static void bound(const fli_algo *algo, void *params)
{
    user_params *p = params;
    p->self = (const user_method *)algo;
    p->arg = p->self->does.arg;
    size_t k = 0;
    for (const fl_key *key = algo->keys; key->name; key++, k++) {
        const void *from = (const char *)params + key->offset;
        p->value[k] = key->type == FL_KEY_REAL  ? *(const double *)from
                      : key->type == FL_KEY_INT ? (double)*(const int64_t *)from
                                                : (double)*(const int *)from;
    }
}

/* ---- the descriptor -------------------------------------------------------------------------------------- */

static unsigned traits_of(unsigned given)
{
    static const struct {
        unsigned theirs, ours;
    } same[] = {
        {FL_METHOD_EVERYONE, FLI_ALGO_EVERYONE},   {FL_METHOD_UNIFORM, FLI_ALGO_UNIFORM},
        {FL_METHOD_EQUAL_LR, FLI_ALGO_EQUAL_LR},   {FL_METHOD_PLAIN_SGD, FLI_ALGO_PLAIN_SGD},
        {FL_METHOD_COMPOSITE, FLI_ALGO_COMPOSITE}, {FL_METHOD_WHOLE, FLI_ALGO_WHOLE_ABSORB | FLI_ALGO_WHOLE_ADVANCE},
        {FL_METHOD_TOUCHES, FLI_ALGO_TOUCHES}};
    unsigned ours = 0;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (given & same[i].theirs) ours |= same[i].ours;
    return ours;
}

/* What clients are ever sent of the server's. */
static void note_sent(user_method *o)
{
    for (const fl_part *p = o->algo.down; p->name; p++) {
        if (p->what == FL_PART_VECTOR) o->sent[p->at] = 1;
        for (size_t i = 0; i < fli_part_numbers(p); i++) o->sent_scalars[p->at + i] = 1;
    }
    for (size_t i = 0; i < o->server; i++) o->hides |= !o->sent[i];
}

static size_t own_model(const fl_method *m)
{
    size_t i = 0;
    while (m->own_model && strcmp(m->client[i], m->own_model)) i++;
    return m->own_model ? i + 1 : 0;
}

static fl_status fill(const fl_method *m, user_method *o)
{
    fli_arena *a = &o->arena;
    fl_status s = FL_OK;
    fl_key *keys = NULL;
    o->does = (user_calls){m->arg,    m->traits,  m->work,  m->phases ? m->phases : 1,
                           m->buffer, m->start,   m->pose,  m->answer,
                           m->absorb, m->advance, m->begin, m->end};
    o->server = fli_names_count(m->server);
    o->algo = (fli_algo){
        .name = copy_text(a, m->name, &s),
        .title = copy_text(a, m->title ? m->title : "a method of the program's own", &s),
        .citation = copy_text(a, m->citation ? m->citation : "registered by the program", &s),
        .traits = traits_of(m->traits) | FLI_ALGO_TELLS_WEIGHT,
        .params_size = place_of(count_keys(m->keys), count_keys(m->keys)),
        .bound = bound,
        .server = copy_names(a, m->server, &s),
        .client = copy_names(a, m->client, &s),
        .sums = copy_names(a, m->sums, &s),
        .server_scalars = m->server_scalars,
        .client_scalars = m->client_scalars,
        .scalar_sums = m->scalar_sums,
        .down = copy_parts(a, m->down, &s),
        .up = copy_parts(a, m->up, &s),
        .personal.model = own_model(m),
    };
    if (!s) s = user_keys(a, m->keys, &keys);
    o->algo.keys = keys;
    if (!s) note_sent(o);
    o->algo.work = m->work + (o->hides != 0);
    for (size_t i = 0; !s && i < FL_STAGES; i++) {
        char name[64];
        o->solver[i] = user_solver_name(m->solver, i, name, sizeof name) ? copy_text(a, name, &s) : o->solver[0];
    }
    return s;
}

static void method_free(void *method)
{
    fli_arena arena = ((user_method *)method)->arena;
    fli_arena_fini(&arena);
}

/* A copy, its descriptor filled but for what it does; to be freed by method_free. */
static fl_status method_copy(fl_ctx *ctx, const fl_method *m, user_method **out)
{
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    user_method *o = fli_arena_alloc(&arena, 1, sizeof *o);
    if (!o) return FL_ENOMEM;
    o->arena = arena;
    fl_status s = fill(m, o);
    o->arena.ctx = NULL; /* it may go before the method does */
    if (s)
        method_free(o);
    else
        *out = o;
    return s;
}

/* ==== checks ============================================================================================== */

/* A sentence for every mistake in its tables. */

/* ---- what it has ----------------------------------------------------------------------------------------- */

/* Names of one kind of vector: not too many, none empty, none twice. */
static fl_status check_names(fl_ctx *ctx, const fl_method *m, const char *what, const char *const *names)
{
    size_t n = fli_names_count(names);
    if (n > USER_VECTORS)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu %s vectors, but may have at most %d", m->name, n, what,
                        USER_VECTORS);
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
        size_t most = i < 3 ? USER_SCALARS : USER_VECTORS;
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

/* ---- what it sends --------------------------------------------------------------------------------------- */

static size_t phases_of(const fl_method *m) { return m->phases ? m->phases : 1; }

static fl_status check_when(fl_ctx *ctx, const fl_method *m, const char *table, const fl_part *p)
{
    unsigned rounds = p->when & FL_IN_ROUNDS, possible = (1u << phases_of(m)) - 1;
    if (p->when & ~(FL_IN_ROUNDS | FL_IN_WARM_UP | FL_AT_FIRST))
        return fli_fail(ctx, FL_ECONFIG, "method '%s', %s, part '%s': `when` is 0x%x, which means nothing", m->name,
                        table, p->name, p->when);
    if (rounds & ~possible)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', %s, part '%s' is for a phase that there is not: phases are numbered from 0, and "
                        "there %s %zu",
                        m->name, table, p->name, phases_of(m) == 1 ? "is" : "are", phases_of(m));
    if (p->when & FL_IN_WARM_UP && !m->warms_up)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', %s, part '%s' is for the warm-up, but the method does not warm up (warms_up)",
                        m->name, table, p->name);
    return FL_OK;
}

static fl_status check_down(fl_ctx *ctx, const fl_method *m, const fl_part *p)
{
    size_t vectors = fli_names_count(m->server);
    if (p->use != FL_PART_FORGET && p->use != FL_PART_KEEP)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s': `use` is FL_PART_FORGET or FL_PART_KEEP on the way down",
                        m->name, p->name);
    if (p->what == FL_PART_VECTOR && p->at >= vectors)
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
    if (p->use == FL_PART_KEEP && (p->what != FL_PART_VECTOR || m->buffer))
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', down, part '%s' cannot be kept: clients keep vectors for a round, and %s",
                        m->name, p->name, m->buffer ? "asynchronous methods have none" : "this is none");
    return FL_OK;
}

static fl_status check_up(fl_ctx *ctx, const fl_method *m, const fl_part *p)
{
    size_t most = p->what == FL_PART_VECTOR ? USER_VECTORS : USER_SCALARS;
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
                        m->name, p->name, USER_VECTORS, USER_SCALARS);
    return FL_OK;
}

/* Number `at` of the upload's vectors, or scalars: whether a part speaks of it, and whether one speaks of a later
 * one. */
static void look_up(const fl_part *up, fl_what what, size_t at, int *this, int *later)
{
    *this = *later = 0;
    for (const fl_part *p = up; p->name; p++) {
        if (p->what != what) continue;
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
        if ((unsigned)p->what > FL_PART_START || (unsigned)p->use > FL_PART_CHANGE)
            s = fli_fail(ctx, FL_ECONFIG, "method '%s', %s, part '%s': `what` or `use` is none that there is", m->name,
                         table, p->name);
        if (!s) s = up ? check_up(ctx, m, p) : check_down(ctx, m, p);
        if (!s) s = check_when(ctx, m, table, p);
        if (s) return s;
        model |= p->what == FL_PART_VECTOR && !p->at;
    }
    if (up || model) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "method '%s', down: server vector 0, the model x, is never sent", m->name);
}

/* ---- parameters ------------------------------------------------------------------------------------------ */

/* What is wrong with a default is said as it would be of a value in a file. */
static fl_status check_default(fl_ctx *ctx, const fl_method *m, const fl_key *key)
{
    fli_arena arena;
    fl_key *row = NULL;
    fl_key only[2] = {*key, {NULL}};
    double room[sizeof(user_params) / sizeof(double) + 2] = {0}; /* their head, a value and what is bound */
    fl_ctx *aside = fl_ctx_new();
    if (!aside) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    fli_arena_init(&arena, aside);
    fl_status s = user_keys(&arena, only, &row);
    if (!s) s = fli_bind(aside, &arena, "", NULL, NULL, &(fli_table){row, room}, 1);
    if (s)
        fli_fail(ctx, s, "method '%s', parameter '%s': its default cannot be: %s", m->name, key->name,
                 fl_ctx_error(aside));
    fli_arena_fini(&arena);
    fl_ctx_free(aside);
    return s;
}

static fl_status check_key(fl_ctx *ctx, const fl_method *m, const fl_key *key)
{
    fl_status s = fli_registry_check_name(ctx, "a parameter", key->name);
    if (s) return s;
    if (!strcmp(key->name, "kind"))
        return fli_fail(ctx, FL_ECONFIG, "method '%s': a parameter cannot be called 'kind'", m->name);
    if ((unsigned)key->type > FL_KEY_CHOICE)
        return fli_fail(ctx, FL_ECONFIG, "method '%s', parameter '%s': its type is none that there is", m->name,
                        key->name);
    if ((key->type == FL_KEY_CHOICE) != (key->choices && *key->choices))
        return fli_fail(ctx, FL_ECONFIG, "method '%s', parameter '%s': %s", m->name, key->name,
                        key->type == FL_KEY_CHOICE ? "a choice needs its words, as in \"one|two\""
                                                   : "only a choice has words");
    if (isnan(key->min) || isnan(key->max) || key->min > key->max)
        return fli_fail(ctx, FL_ECONFIG, "method '%s', parameter '%s': its least value is above its largest", m->name,
                        key->name);
    for (const fl_key *other = m->keys; other < key; other++)
        if (!strcmp(other->name, key->name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s' has two parameters called '%s'", m->name, key->name);
    return key->def ? check_default(ctx, m, key) : FL_OK;
}

/* ---- what it does ---------------------------------------------------------------------------------------- */

static fl_status check_solvers(fl_ctx *ctx, const fl_method *m)
{
    char name[64];
    for (size_t i = 0; i < phases_of(m); i++) {
        if (!user_solver_name(m->solver, i, name, sizeof name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': `solver` names none for phase %zu", m->name, i);
        if (!fli_user_solver_named(name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': there is no solver '%s'", m->name, name);
    }
    if (m->solver && strchr(m->solver, '|') && user_solver_name(m->solver, phases_of(m), name, sizeof name))
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
                     FL_METHOD_COMPOSITE | FL_METHOD_WHOLE | FL_METHOD_TOUCHES;
    if (m->traits & ~known)
        return fli_fail(ctx, FL_ECONFIG, "method '%s': its traits have 0x%x, which this version does not know", m->name,
                        m->traits & ~known);
    if (m->phases > FL_STAGES)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu phases, but may have at most %d", m->name, m->phases,
                        FL_STAGES);
    if (m->buffer && phases_of(m) > 1)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s' is asynchronous (buffer is %zu), so that it has no rounds with %zu phases",
                        m->name, m->buffer, m->phases);
    if (m->buffer && m->traits & FL_METHOD_EVERYONE)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s' is asynchronous (buffer is %zu), so that it cannot wait for everyone "
                        "(FL_METHOD_EVERYONE)",
                        m->name, m->buffer);
    return FL_OK;
}

/* Refuses a method that cannot be, in a sentence. Its name is known to be free. */
static fl_status user_check(fl_ctx *ctx, const fl_method *m)
{
    fl_status s;
    if ((s = check_calls(ctx, m)) || (s = check_shape(ctx, m)) || (s = check_vectors(ctx, m)) ||
        (s = check_table(ctx, m, 0)) || (s = check_table(ctx, m, 1)) || (s = check_gaps(ctx, m)) ||
        (s = check_solvers(ctx, m)))
        return s;
    for (const fl_key *key = m->keys; key && key->name; key++)
        if ((s = check_key(ctx, m, key))) return s;
    return FL_OK;
}

/* ==== the calls =========================================================================================== */

/* What the user's functions see is made for every call, on the stack, from what a method of fedloom's own would see.
 * The method itself is found by the parameters, which begin with it. */

static fli_registry methods = FLI_REGISTRY_INIT(method_free);

static const user_method *self_of(const void *params) { return ((const user_params *)params)->self; }
static fl_space space_of(const fli_space *s) { return (fl_space){s->n, s->ops->size, s}; }

/* ---- a client's turn ------------------------------------------------------------------------------------- */

/* What a client has of the server, numbered as there. What it is never sent is NaN. */
typedef struct {
    const void *vec[USER_VECTORS];
    double num[USER_SCALARS];
} received;

static void receive(const user_method *o, const fli_turn *t, received *r)
{
    void *nothing = o->hides ? t->work[o->does.work] : NULL;
    for (size_t i = 0; i < o->server; i++) r->vec[i] = o->sent[i] ? t->down[i] : nothing;
    memset(r->num, 0xff, o->algo.server_scalars * sizeof *r->num);
    for (size_t i = 0; i < o->algo.server_scalars; i++)
        if (o->sent_scalars[i]) r->num[i] = t->down_scalars[i];
}

static fl_turn turn_of(const user_method *o, const fli_turn *t, received *r)
{
    receive(o, t, r);
    return (fl_turn){
        .space = space_of(t->space),
        .arg = ((const user_params *)t->params)->arg,
        .params = ((const user_params *)t->params)->value,
        .ask = *t->ask,
        .clients = t->clients,
        .first = t->is_first_turn,
        .initial = t->start_model,
        .down = r->vec,
        .down_scalars = r->num,
        .state = t->state,
        .scalars = t->scalars,
        .work = t->work,
        .up = t->up,
        .up_scalars = t->up_scalars,
        .failure = t->failure,
    };
}

static void check_posed(const fl_problem *p, fl_failure *f)
{
    char text[160];
    if (!p->start) fl_failed(f, "the problem has no `start`");
    if (isfinite(p->lr) && isfinite(p->rho)) return;
    fli_snprintf(text, sizeof text, "the problem has lr %g and rho %g, but both are numbers", p->lr, p->rho);
    fl_failed(f, text);
}

static void pose(const fli_turn *t, fli_problem *p)
{
    const user_method *o = self_of(t->params);
    received r;
    if (o->hides) memset(t->work[o->does.work], 0xff, fli_bytes(t->space));
    fl_turn turn = turn_of(o, t, &r);
    fl_problem posed = {.lr = p->lr, .steps = p->steps};
    fli_registry_enter(o->does.traits);
    if (o->does.pose(&turn, &posed))
        fl_failed(t->failure, NULL);
    else
        check_posed(&posed, t->failure);
    fli_registry_leave(o->does.traits);
    p->start = posed.start;
    p->anchor = posed.anchor;
    p->rho = posed.anchor ? posed.rho : 0;
    p->shift = posed.shift;
    p->lr = posed.lr;
    p->steps = posed.steps;
}

static void answer(const fli_turn *t, const fli_answer *a)
{
    const user_method *o = self_of(t->params);
    received r;
    fl_turn turn = turn_of(o, t, &r);
    fl_answer got = {a->z, a->gradient, a->weight, a->steps, a->missed};
    fli_registry_enter(o->does.traits);
    if (o->does.answer(&turn, &got)) fl_failed(t->failure, NULL);
    fli_registry_leave(o->does.traits);
}

/* ---- the server ------------------------------------------------------------------------------------------ */

/* fl_coordinator.engine */
typedef struct {
    const fli_server_step *server;
    int whole; /* a prox may be taken */
} engine;

static fl_coordinator coordinator_of(const fli_server_step *s, const engine *e)
{
    return (fl_coordinator){
        .space = space_of(s->space),
        .arg = ((const user_params *)s->params)->arg,
        .params = ((const user_params *)s->params)->value,
        .clients = s->clients,
        .cohort = s->cohort,
        .cohort_weight = s->cohort_weight,
        .momentum = s->momentum,
        .phase = s->phase,
        .phases = s->phases,
        .warm_up = s->warm_up,
        .vec = s->vec,
        .sum = s->sum,
        .scalars = s->scalars,
        .scalar_sum = s->scalar_sum,
        .engine = e,
        .failure = s->failure,
    };
}

static void step(const fli_server_step *s, int (*call)(const fl_coordinator *s))
{
    unsigned traits = self_of(s->params)->does.traits;
    engine e = {s, 1};
    fl_coordinator c = coordinator_of(s, &e);
    fli_registry_enter(traits);
    if (call(&c)) fl_failed(s->failure, NULL);
    fli_registry_leave(traits);
}

static void start(const fli_server_step *s) { step(s, self_of(s->params)->does.start); }
static void advance(const fli_server_step *s) { step(s, self_of(s->params)->does.advance); }

static void absorb(const fli_server_step *s, const fli_upload *u)
{
    const user_method *o = self_of(s->params);
    engine e = {s, 0};
    fl_coordinator c = coordinator_of(s, &e);
    fl_upload up = {*u->ask, (const void *const *)u->up, u->up_scalars, u->staleness};
    fli_registry_enter(o->does.traits);
    if (o->does.absorb(&c, &up)) fl_failed(s->failure, NULL);
    fli_registry_leave(o->does.traits);
}

void fl_prox(const fl_coordinator *s, double eta, void *x)
{
    const engine *e = s->engine;
    if (e->whole)
        e->server->prox(e->server->prox_arg, eta, x);
    else
        fl_failed(s->failure, "fl_prox is for `start` and `advance`: `absorb` may have a slice of the vectors only");
}

double fl_weight(const fl_coordinator *s, size_t client)
{
    const engine *e = s->engine;
    return client < s->clients ? e->server->weight(e->server->weight_arg, client) : 0;
}

/* ---- its rounds ------------------------------------------------------------------------------------------ */

static const fli_solver *solver(const void *params, size_t stage)
{
    const fli_solver *found = fli_user_solver_named(self_of(params)->solver[stage]);
    return found ? found : &fli_solver_sgd; /* a solver that was forgotten: see validate */
}

static fl_status validate(fl_ctx *ctx, const void *params, size_t clients)
{
    const user_method *o = self_of(params);
    (void)clients;
    for (size_t i = 0; i < o->does.phases; i++)
        if (!fli_user_solver_named(o->solver[i]))
            return fli_fail(ctx, FL_ECONFIG, "method '%s' needs the solver '%s', which is no longer there",
                            o->algo.name, o->solver[i]);
    return FL_OK;
}

/* fli_algo.begin */
static fl_status begin_method(fl_ctx *ctx, void *params)
{
    user_params *p = params;
    const user_calls *does = &p->self->does;
    fl_failure f = {{0}};
    fli_registry_enter(does->traits);
    void *made = does->begin(does->arg, p->value, &f);
    if (made && fli_has_failed(&f)) does->end(made);
    fli_registry_leave(does->traits);
    if (!made || fli_has_failed(&f)) {
        fl_failed(&f, NULL);
        return fli_fail(ctx, FL_ECALLBACK, "method %s failed in begin: %s", p->self->algo.name, f.text);
    }
    p->arg = made;
    p->begun = 1;
    return FL_OK;
}

/* fli_algo.end */
static void end_method(void *params)
{
    user_params *p = params;
    const user_calls *does = &p->self->does;
    if (!p->begun) return;
    fli_registry_enter(does->traits);
    does->end(p->arg);
    fli_registry_leave(does->traits);
    p->begun = 0;
}

static int warms_up(const void *params)
{
    (void)params;
    return 1;
}

static size_t phases(const void *params, double coin)
{
    (void)coin;
    return self_of(params)->does.phases;
}

static size_t stage(const void *params, size_t phase, size_t count)
{
    (void)params;
    (void)count;
    return phase;
}

static fli_pace pace(const void *params) { return (fli_pace){self_of(params)->does.buffer, 0}; }

/* What a descriptor has beside its tables. */
static void give_calls(const fl_method *m, fli_algo *a)
{
    a->validate = validate;
    a->solver = solver;
    a->start = m->start ? start : NULL;
    a->pose = pose;
    a->answer = answer;
    a->absorb = absorb;
    a->advance = advance;
    if (m->begin) a->begin = begin_method, a->end = end_method;
    if (m->warms_up) a->rounds.warms_up = warms_up;
    if (m->phases > 1) a->rounds.phases = phases;
    if (m->phases > 1) a->rounds.stage = stage;
    if (m->buffer) a->async.pace = pace;
}

/* ---- the list -------------------------------------------------------------------------------------------- */

const fli_algo *fli_algo_at(size_t i, int *by_user)
{
    size_t k = 0;
    while (k < i && fli_algo_list[k]) k++;
    *by_user = fli_algo_list[k] == NULL;
    return *by_user ? fli_registry_at(&methods, i - k) : fli_algo_list[i];
}

const fli_algo *fli_user_method_named(const char *name) { return fli_registry_find(&methods, name); }

int fli_user_method_forget(const char *name) { return fli_registry_forget(&methods, name); }

fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m)
{
    user_method *copy = NULL;
    fl_status s = user_check(ctx, m);
    if (!s) s = method_copy(ctx, m, &copy);
    if (s) return s;
    give_calls(m, &copy->algo);
    return fli_registry_add(ctx, &methods, m->name, copy);
}
