/* The candidates of a method: points that fill its box evenly, the same ones every time. They are the first ones of a
 * sequence, so that a larger budget adds to those of a smaller one. */
#include "study/tune.h"

#include "base/number.h"
#include "study/variants.h"

#include <math.h>
#include <string.h>

enum { TRIES = 64 }; /* points looked at for each that is wanted: whole numbers and choices repeat */

/* The generalised golden ratio: the root of x^(d+1) = x + 1. Multiples of its powers, modulo 1, are spread evenly in d
 * dimensions whatever their number (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018). */
static double golden(size_t d)
{
    double x = 2;
    for (int i = 0; i < 64; i++) x = pow(1 + x, 1 / ((double)d + 1));
    return x;
}

/* Coordinate j of point k, in [0, 1). */
static double coordinate(double phi, size_t k, size_t j)
{
    double whole;
    return modf(0.5 + (double)k * pow(phi, -(double)(j + 1)), &whole);
}

/* Three digits are enough to try, and read well. */
static void write_number(const fli_span *r, double u, char *text, size_t size)
{
    double v = r->log ? r->from * pow(r->to / r->from, u) : r->from + u * (r->to - r->from);
    if (r->whole) {
        v = fmin(fmax(round(v), ceil(r->from)), floor(r->to));
        fli_snprintf(text, size, "%.0f", v);
        return;
    }
    fli_snprintf(text, size, "%.3g", v);
    double read = fli_strtod(text, NULL);
    if (read < r->from) fli_snprintf(text, size, "%.15g", r->from);
    if (read > r->to) fli_snprintf(text, size, "%.15g", r->to);
}

/* The value of a range at u, as a node that knows where the range stands. */
static fli_node *value_at(fl_tune *t, const fli_span *r, double u)
{
    char text[64];
    fli_node *n;
    if (r->values) {
        const fli_node *v = r->values->first;
        for (size_t pick = (size_t)(u * (double)r->count); pick-- && v->next;) v = v->next;
        if (!(n = fli_arena_alloc(&t->arena, 1, sizeof *n))) return NULL;
        *n = *v;
        n->next = NULL;
    } else {
        write_number(r, u, text, sizeof text);
        if (!(n = fli_node_new(&t->arena, FLI_NODE_SCALAR, NULL, text))) return NULL;
        if (r->at) n->origin = r->at->origin, n->line = r->at->line, n->column = r->at->column;
    }
    n->key = r->key;
    return n;
}

static fli_node *point_at(fl_tune *t, const fli_contest *c, size_t k)
{
    fli_node *point = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL);
    double phi = golden(c->range_count);
    for (size_t j = 0; point && j < c->range_count; j++) {
        fli_node *v = value_at(t, &c->ranges[j], coordinate(phi, k, j));
        if (!v) return NULL;
        fli_node_append(point, v);
    }
    return point;
}

/* A candidate's values as one text, the same for the same values. Numbers count as such: the file may write 0.10. */
static fl_status describe(fl_tune *t, const fli_contest *c, const fli_candidate *k, const char **out)
{
    fl_status s = FL_OK;
    fli_text all;
    fli_text_init(&all, t->ctx);
    for (size_t j = 0; j < c->range_count && !s; j++) {
        char *end;
        fli_text value;
        fli_text_init(&value, t->ctx);
        fli_candidate_value(c, k, c->ranges[j].key, &value);
        double v = fli_strtod(fli_text_get(&value), &end);
        if (value.n && !*end)
            fli_text_addf(&all, "%.17g\n", v);
        else
            fli_text_addf(&all, "%s\n", fli_text_get(&value));
        s = fli_text_ok(&value);
        fli_text_fini(&value);
    }
    if (!s) s = fli_text_ok(&all);
    if (!s && !(*out = fli_arena_strdup(&t->arena, fli_text_get(&all)))) s = FL_ENOMEM;
    fli_text_fini(&all);
    return s;
}

static int is_new(const fli_contest *c, const char *values)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->candidates[i].values, values)) return 0;
    return 1;
}

fl_status fli_tune_candidates(fl_tune *t, fli_contest *c, size_t count)
{
    c->candidates = fli_arena_alloc(&t->arena, count, sizeof *c->candidates);
    c->field = fli_arena_alloc(&t->arena, count, sizeof *c->field);
    if (!c->candidates || !c->field) return FL_ENOMEM;
    if (!(c->candidates[0].point = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL))) return FL_ENOMEM;
    fl_status s = describe(t, c, &c->candidates[0], &c->candidates[0].values);
    c->count = 1;
    for (size_t k = 0; c->count < count && k < TRIES * count && !s; k++) {
        fli_candidate next = {.point = point_at(t, c, k)};
        s = next.point ? describe(t, c, &next, &next.values) : FL_ENOMEM;
        if (!s && is_new(c, next.values)) c->candidates[c->count++] = next;
    }
    if (s) return s;
    if (c->count < count)
        fli_log(t->ctx, FL_LOG_INFO, "%s has only %zu different settings", c->method->label, c->count);
    for (size_t i = 0; i < c->count; i++) c->field[i] = i;
    c->field_count = c->count;
    return FL_OK;
}
