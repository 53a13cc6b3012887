#include "algo/fixes.h"

#include "algo/conditions.h"
#include "base/number.h"

#include <math.h>
#include <string.h>

void fli_fix_word(fli_fixes *out, const char *conditions, const char *key, const char *value, const char *why)
{
    if (out->count == FLI_FIXES_MAX) return;
    fli_fix *f = &out->at[out->count++];
    *f = (fli_fix){.conditions = conditions, .key = key, .why = why};
    fli_snprintf(f->value, sizeof f->value, "%s", value);
}

static void add_number(fli_fixes *out, const char *conditions, const char *key, double value, const char *why,
                       double (*round)(double))
{
    char text[FLI_FIX_VALUE];
    if (!(value > 0) || !isfinite(value)) return;
    /* numbers that have four digits as they are stay, whatever the last bit of a division says */
    double digit = pow(10, floor(log10(value)) - 3), near = nearbyint(value / digit);
    double digits = fabs(value / digit - near) < 1e-9 * near ? near : round(value / digit);
    fli_snprintf(text, sizeof text, "%.4g", digits * digit);
    fli_fix_word(out, conditions, key, text, why);
}

void fli_fix_most(fli_fixes *out, const char *conditions, const char *key, double value, const char *why)
{
    add_number(out, conditions, key, value, why, floor);
}

void fli_fix_least(fli_fixes *out, const char *conditions, const char *key, double value, const char *why)
{
    add_number(out, conditions, key, value, why, ceil);
}

/* How many times too large, at most. */
static double worst_excess(const fli_fixes *out, const char *conditions)
{
    const fli_fix names = {.conditions = conditions};
    double worst = 1;
    for (size_t i = 0; i < out->found->count; i++) {
        const fli_condition_seen *s = &out->found->seen[i];
        if (s->kind != FLI_CONDITION_BOUND || !s->failing || !fli_fix_is_for(&names, s->name)) continue;
        worst = fmax(worst, fli_condition_excess(s->have, s->most));
    }
    return worst;
}

static void add_relative(fli_fixes *out, const char *conditions, const char *key, double value, const char *why,
                         double (*round)(double))
{
    size_t before = out->count;
    add_number(out, conditions, key, value, why, round);
    if (out->count > before) out->at[before].relative = 1;
}

void fli_fix_shrink(fli_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now / worst_excess(out, conditions), why, floor);
}

void fli_fix_shrink_root(fli_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now / sqrt(worst_excess(out, conditions)), why, floor);
}

void fli_fix_grow(fli_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now * worst_excess(out, conditions), why, ceil);
}

void fli_fix_everyone(fli_fixes *out, const char *conditions)
{
    fli_fix_word(out, conditions, "participation.kind", "everyone", NULL);
}

void fli_fix_full_batch(fli_fixes *out, const char *conditions)
{
    fli_fix_word(out, conditions, "local.batch", "0", NULL);
    fli_fix_word(out, conditions, "local.batch_fraction", "0", NULL);
}

void fli_fix_plain_steps(fli_fixes *out, const char *conditions)
{
    fli_fix_word(out, conditions, "local.momentum", "0", NULL);
}

void fli_fix_constant_lr(fli_fixes *out, const char *conditions)
{
    fli_fix_word(out, conditions, "local.schedule", "constant", NULL);
}

int fli_fix_is_for(const fli_fix *f, const char *condition)
{
    for (const char *name = f->conditions; *name; name += strcspn(name, "|"), name += *name == '|') {
        size_t n = strcspn(name, "|");
        if (!strncmp(name, condition, n) && (!condition[n] || condition[n] == ' ')) return 1;
    }
    return 0;
}
