#include "format/json.h"

#include <math.h>
#include <string.h>

void fli_json_init(fli_json *j, fli_text *t)
{
    memset(j, 0, sizeof *j);
    j->t = t;
}

static void new_line(fli_json *j)
{
    fli_text_add(j->t, "\n");
    for (int i = 0; i < j->depth; i++) fli_text_add(j->t, "  ");
}

/* Writes the comma, indentation and key before a value. */
static void begin(fli_json *j, const char *key)
{
    if (j->depth) {
        if (j->filled[j->depth - 1]) fli_text_add(j->t, ",");
        j->filled[j->depth - 1] = 1;
        new_line(j);
    }
    if (!key) return;
    fli_text_json(j->t, key);
    fli_text_add(j->t, ": ");
}

static void begin_group(fli_json *j, const char *key, const char *opening, char closing)
{
    begin(j, key);
    fli_text_add(j->t, opening);
    j->closing[j->depth] = closing;
    j->filled[j->depth++] = 0;
}

void fli_json_map(fli_json *j, const char *key) { begin_group(j, key, "{", '}'); }
void fli_json_list(fli_json *j, const char *key) { begin_group(j, key, "[", ']'); }

void fli_json_end(fli_json *j)
{
    int filled = j->filled[--j->depth];
    if (filled) new_line(j);
    fli_text_addn(j->t, &j->closing[j->depth], 1);
    if (!j->depth) fli_text_add(j->t, "\n");
}

void fli_json_text(fli_json *j, const char *key, const char *s)
{
    begin(j, key);
    if (s)
        fli_text_json(j->t, s);
    else
        fli_text_add(j->t, "null");
}

void fli_json_real(fli_json *j, const char *key, double v)
{
    begin(j, key);
    if (isfinite(v))
        fli_text_addf(j->t, "%.17g", v);
    else
        fli_text_add(j->t, "null");
}

void fli_json_whole(fli_json *j, const char *key, uint64_t v)
{
    begin(j, key);
    fli_text_addf(j->t, "%llu", (unsigned long long)v);
}

void fli_json_truth(fli_json *j, const char *key, int v)
{
    begin(j, key);
    fli_text_add(j->t, v ? "true" : "false");
}
