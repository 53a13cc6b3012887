#include "format/user_keys.h"

#include "base/user_registry.h"

#include <math.h>
#include <string.h>

void *fl_begun(const void *params) { return fli_user_head_of(params)->arg; }

/* ---- values ---------------------------------------------------------------------------------------------- */

/* The bound fields are stored after the values: eight bytes each. */
static size_t values_size(size_t rows) { return 2 * rows * sizeof(double); }

void fli_user_keys_bound(const fl_key *keys, size_t values, void *arg, void *params)
{
    double *value = params;
    *fli_user_head_of(params) = (fli_user_head){.arg = arg};
    for (size_t k = 0; k < values; k++) {
        const fl_key *key = &keys[k];
        const void *from = (const char *)params + key->offset;
        value[k] = key->type == FL_KEY_REAL  ? *(const double *)from
                   : key->type == FL_KEY_INT ? (double)*(const int64_t *)from
                                             : (double)*(const int *)from;
    }
}

/* ---- the copy -------------------------------------------------------------------------------------------- */

static const char *copy_text(fli_arena *a, const char *text, fl_status *s)
{
    if (*s || !text) return NULL;
    const char *copy = fli_arena_strdup(a, text);
    if (!copy) *s = FL_ENOMEM;
    return copy;
}

fl_status fli_user_keys_copy(fli_arena *a, const fl_key **keys, size_t *params_size, size_t *values)
{
    fl_status s = FL_OK;
    const fl_key *given = *keys;
    size_t n = 0;
    int placed = *params_size > 0;
    while (given && given[n].name) n++;
    *values = placed ? 0 : n;
    if (!placed) *params_size = values_size(n);
    fl_key *copy = fli_arena_alloc(a, n + 1, sizeof *copy);
    *keys = copy;
    if (!copy) return FL_ENOMEM;
    for (size_t i = 0; !s && i < n; i++) {
        copy[i] = given[i];
        copy[i].name = copy_text(a, given[i].name, &s);
        copy[i].def = copy_text(a, given[i].def, &s);
        copy[i].choices = copy_text(a, given[i].choices, &s);
        copy[i].help = copy_text(a, given[i].help ? given[i].help : "", &s);
        if (!placed) copy[i].offset = (n + i) * sizeof(double);
    }
    return s;
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

/* Reports a wrong default as a wrong value in a file is reported. */
static fl_status check_default(fl_ctx *ctx, const fli_user_keys *of, const fl_key *key)
{
    fli_arena arena;
    fl_key only[2] = {*key, {NULL}};
    union {
        fl_reals list; /* the largest field of a row */
        double number;
    } room = {{0}};
    only->offset = 0;
    fl_ctx *aside = fl_ctx_new();
    if (!aside) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    fli_arena_init(&arena, aside);
    fl_status s = fli_bind(aside, &arena, "", NULL, NULL, &(fli_table){only, &room}, 1);
    if (s)
        fli_fail(ctx, s, "%s '%s', parameter '%s': its default cannot be: %s", of->what, of->name, key->name,
                 fl_ctx_error(aside));
    fli_arena_fini(&arena);
    fl_ctx_free(aside);
    return s;
}

static size_t field_size(fl_key_type type)
{
    static const size_t size[] = {
        [FL_KEY_REAL] = sizeof(double),    [FL_KEY_INT] = sizeof(int64_t),   [FL_KEY_BOOL] = sizeof(int),
        [FL_KEY_CHOICE] = sizeof(int),     [FL_KEY_STRING] = sizeof(char *), [FL_KEY_INTS] = sizeof(fl_ints),
        [FL_KEY_REALS] = sizeof(fl_reals), [FL_KEY_SIZE] = sizeof(int64_t)};
    return size[type];
}

static fl_status check_key(fl_ctx *ctx, const fli_user_keys *of, const fl_key *key)
{
    fl_status s = fli_registry_check_name(ctx, "a parameter", key->name);
    if (s) return s;
    if (!strcmp(key->name, "kind"))
        return fli_fail(ctx, FL_ECONFIG, "%s '%s': a parameter cannot be called 'kind'", of->what, of->name);
    if ((unsigned)key->type > (of->params_size ? FL_KEY_SIZE : FL_KEY_CHOICE))
        return fli_fail(ctx, FL_ECONFIG, "%s '%s', parameter '%s': its type is none that there is", of->what, of->name,
                        key->name);
    if (of->params_size && (key->offset > of->params_size || field_size(key->type) > of->params_size - key->offset))
        return fli_fail(ctx, FL_ECONFIG, "%s '%s', parameter '%s': its field is beyond the struct of %zu bytes",
                        of->what, of->name, key->name, of->params_size);
    if (key->type <= FL_KEY_CHOICE && (key->type == FL_KEY_CHOICE) != (key->choices && *key->choices))
        return fli_fail(ctx, FL_ECONFIG, "%s '%s', parameter '%s': %s", of->what, of->name, key->name,
                        key->type == FL_KEY_CHOICE ? "a choice needs its words, as in \"one|two\""
                                                   : "only a choice has words");
    if (isnan(key->min) || isnan(key->max) || key->min > key->max)
        return fli_fail(ctx, FL_ECONFIG, "%s '%s', parameter '%s': its least value is above its largest", of->what,
                        of->name, key->name);
    for (const fl_key *other = of->keys; other < key; other++)
        if (!strcmp(other->name, key->name))
            return fli_fail(ctx, FL_ECONFIG, "%s '%s' has two parameters called '%s'", of->what, of->name, key->name);
    return key->def ? check_default(ctx, of, key) : FL_OK;
}

fl_status fli_user_keys_check(fl_ctx *ctx, const fli_user_keys *of)
{
    fl_status s = FL_OK;
    for (const fl_key *key = of->keys; !s && key && key->name; key++) s = check_key(ctx, of, key);
    return s;
}
