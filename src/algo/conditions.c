#include "algo/conditions.h"

#include <math.h>
#include <string.h>

double fli_condition_excess(double have, double most)
{
    if (have <= most && have <= 0) return 0;
    double excess = most > 0 ? have / most : INFINITY;
    return isnan(excess) ? INFINITY : excess;
}

/* Step sizes chosen to lie on the boundary, as `auto` does, may miss it by rounding. */
static int holds(double have, double most) { return have <= most || fli_condition_excess(have, most) <= 1 + 1e-12; }

void fli_condition(fli_conditions *c, const char *name, const char *formula, const fli_facts *f, double have,
                   double most)
{
    size_t i = 0;
    while (i < c->count && strcmp(c->seen[i].name, name)) i++;
    if (i == FLI_CONDITIONS_MAX) return;
    fli_condition_seen *s = &c->seen[i];
    if (i == c->count) {
        *s = (fli_condition_seen){.name = name, .formula = formula, .have = have, .most = most, .client = f->client};
        c->count++;
    } else if (fli_condition_excess(have, most) > fli_condition_excess(s->have, s->most)) {
        s->have = have;
        s->most = most;
        s->client = f->client;
    }
    if (holds(have, most) || (s->failing && s->failed == f->client)) return;
    s->failing++;
    s->failed = f->client;
}
