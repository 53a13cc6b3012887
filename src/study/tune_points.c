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

/* Whether two candidates have the same values. Numbers are compared as such: the file may write 0.10. */
static int are_same(const fli_contest *c, const fli_candidate *a, const fli_candidate *b, fl_ctx *ctx)
{
    int same = 1;
    for (size_t j = 0; j < c->range_count && same; j++) {
        fli_text x, y;
        char *end_x, *end_y;
        fli_text_init(&x, ctx);
        fli_text_init(&y, ctx);
        fli_candidate_value(c, a, c->ranges[j].key, &x);
        fli_candidate_value(c, b, c->ranges[j].key, &y);
        double u = fli_strtod(fli_text_get(&x), &end_x), v = fli_strtod(fli_text_get(&y), &end_y);
        same = x.n && y.n && !*end_x && !*end_y ? u == v : !strcmp(fli_text_get(&x), fli_text_get(&y));
        fli_text_fini(&x);
        fli_text_fini(&y);
    }
    return same;
}

static int is_new(const fli_contest *c, const fli_candidate *k, fl_ctx *ctx)
{
    for (size_t i = 0; i < c->count; i++)
        if (are_same(c, &c->candidates[i], k, ctx)) return 0;
    return 1;
}

fl_status fli_tune_candidates(fl_tune *t, fli_contest *c, size_t count)
{
    c->candidates = fli_arena_alloc(&t->arena, count, sizeof *c->candidates);
    c->field = fli_arena_alloc(&t->arena, count, sizeof *c->field);
    if (!c->candidates || !c->field) return FL_ENOMEM;
    if (!(c->candidates[0].point = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL))) return FL_ENOMEM;
    c->count = 1;
    for (size_t k = 0; c->count < count && k < TRIES * count; k++) {
        fli_candidate next = {.point = point_at(t, c, k)};
        if (!next.point) return FL_ENOMEM;
        if (is_new(c, &next, t->ctx)) c->candidates[c->count++] = next;
    }
    if (c->count < count)
        fli_log(t->ctx, FL_LOG_INFO, "%s has only %zu different settings", c->method->label, c->count);
    for (size_t i = 0; i < c->count; i++) c->field[i] = i;
    c->field_count = c->count;
    return FL_OK;
}
