#include "data/fields.h"

#include "base/text.h"

#include <string.h>

/* The line at hand. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    size_t number;
    char separator;
    fli_array *field;
} splitter;

static int is_blank(const splitter *l, char c) { return c == ' ' || (c == '\t' && l->separator != '\t'); }

/* Undoubles the quotes of a field whose opening quote is at p; *end is behind the closing one. */
static fl_status unquote(const splitter *l, char *p, char **end)
{
    char *to = p;
    char *from = p + 1;
    for (; *from; from++) {
        if (*from == '"' && from[1] != '"') break;
        if (*from == '"') from++;
        *to++ = *from;
    }
    if (!*from)
        return fli_fail(l->ctx, FL_EFORMAT, "%s:%zu: field %zu has an opening quote, but no closing one", l->path,
                        l->number, l->field->n - 1);
    *to = 0;
    for (from++; is_blank(l, *from); from++) continue;
    if (*from && *from != l->separator)
        return fli_fail(l->ctx, FL_EFORMAT, "%s:%zu: field %zu continues after its closing quote with %s", l->path,
                        l->number, l->field->n - 1, fli_show(from).s);
    *end = from;
    return FL_OK;
}

/* One field from *p on; *p is then behind the separator, NULL at the end of the line. */
static fl_status next_field(const splitter *l, char **p)
{
    void *room;
    char *start = *p, *end = start;
    fl_status s = fli_array_add(l->ctx, l->field, 1, &room);
    if (s) return s;
    while (is_blank(l, *start)) start++;
    *(char **)room = start;
    if (*start == '"') {
        if ((s = unquote(l, start, &end))) return s;
        *p = *end ? end + 1 : NULL;
        return FL_OK;
    }
    end = strchrnul(start, l->separator);
    *p = *end ? end + 1 : NULL;
    while (end > start && is_blank(l, end[-1])) end--;
    *end = 0;
    return FL_OK;
}

/* Blanks in any number between the fields. */
static fl_status split_blanks(const splitter *l, char *line)
{
    char *save = NULL;
    for (char *t = strtok_r(line, " \t", &save); t; t = strtok_r(NULL, " \t", &save)) {
        void *room;
        fl_status s = fli_array_add(l->ctx, l->field, 1, &room);
        if (s) return s;
        *(char **)room = t;
    }
    return FL_OK;
}

fl_status fli_fields_split(fl_ctx *ctx, char *line, char separator, const char *path, size_t number, fli_array *field)
{
    splitter l = {ctx, path, number, separator, field};
    field->n = 0;
    if (separator == ' ') return split_blanks(&l, line);
    while (line) {
        fl_status s = next_field(&l, &line);
        if (s) return s;
    }
    return FL_OK;
}
