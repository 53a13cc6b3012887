/* A method of the user's becomes ours: everything it points to is copied, and its tables become those of a
 * descriptor. */
#include "algo/own_method.h"

#include "solver/own_solver.h"

#include <string.h>

_Static_assert((unsigned)FL_IN_WARM_UP == FLI_IN_WARM_UP && (unsigned)FL_AT_FIRST == FLI_AT_FIRST,
               "when parts are sent is the same here and in the public header");

/* NULL counts as empty. */
static size_t count_keys(const fl_key *keys)
{
    size_t n = 0;
    while (keys && keys[n].name) n++;
    return n;
}

int fli_own_solver_name(const char *list, size_t i, char *buf, size_t size)
{
    if (!list) list = "sgd";
    return fli_choice_word(list, strchr(list, '|') ? (int)i : 0, buf, size);
}

const fli_solver *fli_own_solver_named(const char *name)
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
    return fli_own_solver(name);
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

static fli_part part_of(const fl_part *p)
{
    static const fli_what what[] = {FLI_WHOLE, FLI_NUMBER, FLI_START};
    static const fli_use use[] = {FLI_FORGET, FLI_KEEP, FLI_VALUE, FLI_CHANGE};
    return (fli_part){NULL, what[p->what], p->at, use[p->use], p->when, p->count};
}

static const fli_part *copy_parts(fli_arena *a, const fl_part *parts, fl_status *s)
{
    size_t n = 0;
    while (parts && parts[n].name) n++;
    fli_part *copy = *s ? NULL : fli_arena_alloc(a, n + 1, sizeof *copy);
    if (!copy) *s = FL_ENOMEM;
    for (size_t i = 0; !*s && i < n; i++) {
        copy[i] = part_of(&parts[i]);
        copy[i].name = copy_text(a, parts[i].name, s);
    }
    return copy;
}

/* Values come after the head of the parameters, and what is bound after the values: eight bytes each. */
static size_t place_of(size_t count, size_t k) { return sizeof(fli_own_params) + (count + k) * sizeof(double); }

fl_status fli_own_keys(fli_arena *a, const fl_key *keys, fli_key **out)
{
    static const fli_key_type type[] = {FLI_REAL, FLI_INT, FLI_BOOL, FLI_CHOICE};
    fl_status s = FL_OK;
    size_t n = count_keys(keys);
    if (!(*out = fli_arena_alloc(a, n + 1, sizeof **out))) return FL_ENOMEM;
    for (size_t i = 0; !s && i < n; i++)
        (*out)[i] = (fli_key){.name = copy_text(a, keys[i].name, &s),
                              .type = type[keys[i].type],
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
    fli_own_params *p = params;
    p->self = (const fli_own_method *)algo;
    p->arg = p->self->does.arg;
    size_t k = 0;
    for (const fli_key *key = algo->keys; key->name; key++, k++) {
        const void *from = (const char *)params + key->offset;
        p->value[k] = key->type == FLI_REAL  ? *(const double *)from
                      : key->type == FLI_INT ? (double)*(const int64_t *)from
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
static void note_sent(fli_own_method *o)
{
    for (const fli_part *p = o->algo.down; p->name; p++) {
        if (p->what == FLI_WHOLE) o->sent[p->at] = 1;
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

static fl_status fill(const fl_method *m, fli_own_method *o)
{
    fli_arena *a = &o->arena;
    fl_status s = FL_OK;
    fli_key *keys = NULL;
    o->does = (fli_own_calls){m->arg,    m->traits,  m->work,  m->phases ? m->phases : 1,
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
    if (!s) s = fli_own_keys(a, m->keys, &keys);
    o->algo.keys = keys;
    if (!s) note_sent(o);
    o->algo.work = m->work + (o->hides != 0);
    for (size_t i = 0; !s && i < FLI_STAGES; i++) {
        char name[64];
        o->solver[i] = fli_own_solver_name(m->solver, i, name, sizeof name) ? copy_text(a, name, &s) : o->solver[0];
    }
    return s;
}

fl_status fli_own_copy(fl_ctx *ctx, const fl_method *m, fli_own_method **out)
{
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    fli_own_method *o = fli_arena_alloc(&arena, 1, sizeof *o);
    if (!o) return FL_ENOMEM;
    o->arena = arena;
    fl_status s = fill(m, o);
    o->arena.ctx = NULL; /* it may go before the method does */
    if (s)
        fli_own_free(o);
    else
        *out = o;
    return s;
}

void fli_own_free(void *own)
{
    fli_arena arena = ((fli_own_method *)own)->arena;
    fli_arena_fini(&arena);
}
