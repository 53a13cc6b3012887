/* Collects the conditions of a theorem, and settings that would satisfy them. */
#include "algo/theory.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

/* ==== conditions ========================================================================================== */

double fli_condition_excess(double have, double most)
{
    if (have <= most && have <= 0) return 0;
    double excess = most > 0 ? have / most : INFINITY;
    return isnan(excess) ? INFINITY : excess;
}

/* Step sizes chosen to lie on the boundary, as `auto` does, may miss it by rounding. Strict conditions have no
 * boundary. */
static int holds(double have, double most, int strict)
{
    return strict ? have < most : have <= most || fli_condition_excess(have, most) <= 1 + 1e-12;
}

/* The condition of this name: an earlier one, or a new one; NULL: no room. */
static fli_condition_seen *seen(fl_conditions *c, fli_condition_kind kind, const char *name, const char *formula)
{
    size_t i = 0;
    while (i < c->count && (c->seen[i].kind != kind || strcmp(c->seen[i].name, name))) i++;
    if (i == FLI_CONDITIONS_MAX) return c->full = 1, NULL;
    if (i == c->count)
        c->seen[c->count++] =
            (fli_condition_seen){.kind = kind, .name = name, .formula = formula, .have = -INFINITY, .most = INFINITY};
    return &c->seen[i];
}

static void fails_at(fli_condition_seen *s, const fl_facts *f)
{
    uint32_t client = f ? f->client : 0;
    if (s->failing && s->failed == client) return;
    s->failing++;
    s->failed = client;
}

static void bound(fl_conditions *c, fli_condition_kind kind, const char *name, const char *formula, const fl_facts *f,
                  double have, double most, int strict)
{
    fli_condition_seen *s = seen(c, kind, name, formula);
    if (!s) return;
    int first = isinf(s->have) && s->have < 0;
    s->strict = strict;
    s->whole = !f;
    if (first || fli_condition_excess(have, most) > fli_condition_excess(s->have, s->most)) {
        s->have = have;
        s->most = most;
        s->client = f ? f->client : 0;
    }
    if (!holds(have, most, strict)) fails_at(s, f);
}

void fl_condition(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have, double most)
{
    bound(c, FLI_CONDITION_BOUND, name, formula, f, have, most, 0);
}

void fl_condition_below(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have,
                        double most)
{
    bound(c, FLI_CONDITION_BOUND, name, formula, f, have, most, 1);
}

void fl_as_printed(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have, double most)
{
    bound(c, FLI_CONDITION_PRINTED, name, formula, f, have, most, 0);
}

void fl_requirement(fl_conditions *c, const char *name, const char *sentence, const fl_facts *f, int holding)
{
    fli_condition_seen *s = seen(c, FLI_CONDITION_REQUIRED, name, sentence);
    if (!s) return;
    s->whole = !f;
    if (!holding) fails_at(s, f);
}

void fl_assumption(fl_conditions *c, const char *name, const char *sentence)
{
    (void)seen(c, FLI_CONDITION_ASSUMED, name, sentence);
}

void fl_not_covered(fl_conditions *c, const char *name, const char *sentence)
{
    (void)seen(c, FLI_CONDITION_OUTSIDE, name, sentence);
}

void fli_require_convex_g(fl_conditions *c, const fl_facts *f)
{
    if (!f->composite) return;
    fl_requirement(c, "convex g", "the regulariser is convex; the theorem covers no other", f, f->g_modulus == 0);
}

void fli_ask_strong_convexity(fl_conditions *c, const fl_facts *f)
{
    if (f->sure_convexity > 0)
        fl_requirement(c, "linear rate", "every f_i is strongly convex: weight decay makes it so", f, 1);
    else
        fl_assumption(c, "linear rate", "every f_i is strongly convex, as weight decay makes a convex one");
}

void fli_warn_long_prox(const fl_facts *f, double step, const char *remedy, fli_text *out)
{
    if (!(step * f->g_modulus >= 1)) return;
    fli_text_addf(out,
                  "the regulariser is not convex and wants proximal steps shorter than %.4g, but they are %.4g long: a "
                  "small change may make parameters jump; make %s smaller, or choose a regulariser that is closer to "
                  "convex",
                  1 / f->g_modulus, step, remedy);
}

/* ==== fixes =============================================================================================== */

void fl_fix_word(fl_fixes *out, const char *conditions, const char *key, const char *value, const char *why)
{
    if (out->count == FLI_FIXES_MAX) return;
    fli_fix *f = &out->at[out->count++];
    *f = (fli_fix){.conditions = conditions, .key = key, .why = why};
    fli_snprintf(f->value, sizeof f->value, "%s", value);
}

static void add_number(fl_fixes *out, const char *conditions, const char *key, double value, const char *why,
                       double (*round)(double))
{
    char text[FLI_FIX_VALUE];
    if (!(value > 0) || !isfinite(value)) return;
    /* numbers that have four digits already keep them, whatever the last bit of a division is */
    double digit = pow(10, floor(log10(value)) - 3), near = nearbyint(value / digit);
    double digits = fabs(value / digit - near) < 1e-9 * near ? near : round(value / digit);
    fli_snprintf(text, sizeof text, "%.4g", digits * digit);
    fl_fix_word(out, conditions, key, text, why);
}

void fl_fix_most(fl_fixes *out, const char *conditions, const char *key, double value, const char *why)
{
    add_number(out, conditions, key, value, why, floor);
}

void fl_fix_least(fl_fixes *out, const char *conditions, const char *key, double value, const char *why)
{
    add_number(out, conditions, key, value, why, ceil);
}

/* The largest ratio of left to right side among these conditions. */
static double worst_excess(const fl_fixes *out, const char *conditions)
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

static void add_relative(fl_fixes *out, const char *conditions, const char *key, double value, const char *why,
                         double (*round)(double))
{
    size_t before = out->count;
    add_number(out, conditions, key, value, why, round);
    if (out->count > before) out->at[before].relative = 1;
}

void fl_fix_shrink(fl_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now / worst_excess(out, conditions), why, floor);
}

void fl_fix_shrink_root(fl_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now / sqrt(worst_excess(out, conditions)), why, floor);
}

void fl_fix_grow(fl_fixes *out, const char *conditions, const char *key, double now, const char *why)
{
    add_relative(out, conditions, key, now * worst_excess(out, conditions), why, ceil);
}

void fl_fix_everyone(fl_fixes *out, const char *conditions)
{
    fl_fix_word(out, conditions, "participation.kind", "everyone", NULL);
}

void fl_fix_full_batch(fl_fixes *out, const char *conditions)
{
    fl_fix_word(out, conditions, "local.batch", "0", NULL);
    fl_fix_word(out, conditions, "local.batch_fraction", "0", NULL);
}

void fl_fix_plain_steps(fl_fixes *out, const char *conditions)
{
    fl_fix_word(out, conditions, "local.momentum", "0", NULL);
}

void fl_fix_constant_lr(fl_fixes *out, const char *conditions)
{
    fl_fix_word(out, conditions, "local.schedule", "constant", NULL);
}

int fli_fix_is_for(const fli_fix *f, const char *condition)
{
    for (const char *name = f->conditions; *name; name += strcspn(name, "|"), name += *name == '|') {
        size_t n = strcspn(name, "|");
        if (!strncmp(name, condition, n) && (!condition[n] || condition[n] == ' ')) return 1;
    }
    return 0;
}
