/* Checks a method that a user registers: a sentence for every mistake in its tables. */
#include "algo/user_method.h"

#include <math.h>
#include <string.h>

/* ---- what it has ----------------------------------------------------------------------------------------- */

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

/* ---- what it sends --------------------------------------------------------------------------------------- */

static size_t phases_of(const fl_method *m) { return m->phases ? m->phases : 1; }

static fl_status check_when(fl_ctx *ctx, const fl_method *m, const char *table, const fl_part *p)
{
    unsigned rounds = p->when & FLI_IN_ROUNDS, possible = (1u << phases_of(m)) - 1;
    if (p->when & ~(FLI_IN_ROUNDS | FLI_IN_WARM_UP | FLI_AT_FIRST))
        return fli_fail(ctx, FL_ECONFIG, "method '%s', %s, part '%s': `when` is 0x%x, which means nothing", m->name,
                        table, p->name, p->when);
    if (rounds & ~possible)
        return fli_fail(ctx, FL_ECONFIG,
                        "method '%s', %s, part '%s' is for a phase that there is not: phases are numbered from 0, and "
                        "there %s %zu",
                        m->name, table, p->name, phases_of(m) == 1 ? "is" : "are", phases_of(m));
    if (p->when & FLI_IN_WARM_UP && !m->warms_up)
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
    size_t most = p->what == FL_PART_VECTOR ? FLI_USER_VECTORS : FLI_USER_SCALARS;
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
    fli_key *row = NULL;
    fl_key only[2] = {*key, {NULL}};
    double room[sizeof(fli_user_params) / sizeof(double) + 2] = {0}; /* their head, a value and what is bound */
    fl_ctx *aside = fl_ctx_new();
    if (!aside) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    fli_arena_init(&arena, aside);
    fl_status s = fli_user_keys(&arena, only, &row);
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
        if (!fli_user_solver_name(m->solver, i, name, sizeof name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': `solver` names none for phase %zu", m->name, i);
        if (!fli_user_solver_named(name))
            return fli_fail(ctx, FL_ECONFIG, "method '%s': there is no solver '%s'", m->name, name);
    }
    if (m->solver && strchr(m->solver, '|') && fli_user_solver_name(m->solver, phases_of(m), name, sizeof name))
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
    if (m->phases > FLI_STAGES)
        return fli_fail(ctx, FL_ECONFIG, "method '%s' has %zu phases, but may have at most %d", m->name, m->phases,
                        FLI_STAGES);
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

fl_status fli_user_check(fl_ctx *ctx, const fl_method *m)
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
