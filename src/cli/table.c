/* Text tables: cells are added row by row, widths follow from the contents. */
#include "cli/cli.h"
#include "cli/json_out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_MAX = 256 };

void table_init(table *t, size_t columns)
{
    memset(t, 0, sizeof *t);
    t->columns = columns;
}

void table_free(table *t)
{
    for (size_t i = 0; i < t->cells; i++) free(t->cell[i]);
    free(t->cell);
    table_init(t, t->columns);
}

void table_add(table *t, const char *fmt, ...)
{
    char buf[CELL_MAX];
    va_list ap;
    if (t->cells == t->capacity) {
        size_t more = t->capacity ? 2 * t->capacity : 64;
        char **cell = realloc(t->cell, more * sizeof *cell);
        if (!cell) return;
        t->cell = cell;
        t->capacity = more;
    }
    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    t->cell[t->cells] = strdup(say_clean(buf));
    if (t->cell[t->cells]) t->cells++;
}

/* Characters, not bytes. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static size_t widest(const table *t, size_t column)
{
    size_t most = 0;
    for (size_t i = column; i < t->cells; i += t->columns) {
        size_t w = width(t->cell[i]);
        if (w > most) most = w;
    }
    return most;
}

static void write_lines(const table *t, size_t left, FILE *out)
{
    for (size_t i = 0; i < t->cells; i++) {
        size_t column = i % t->columns, pad = widest(t, column) - width(t->cell[i]);
        int last = column + 1 == t->columns || i + 1 == t->cells, flush_left = column < left;
        fprintf(out, "%s%*s%s", column ? "  " : "", flush_left ? 0 : (int)pad, "", t->cell[i]);
        if (flush_left && !last) fprintf(out, "%*s", (int)pad, "");
        if (last) fputc('\n', out);
    }
}

void table_print(const table *t, size_t left, FILE *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    if (!memory) return say("out of memory");
    write_lines(t, left, memory);
    if (fclose(memory))
        say("out of memory");
    else
        wide_print(text, out);
    free(text);
}

int table_json(const table *t, const char *name)
{
    json_t *rows = json_array(), *row = NULL;
    for (size_t i = t->columns; i < t->cells; i++) {
        size_t column = i % t->columns;
        if (!column) json_array_append_new(rows, row = json_object());
        json_object_set_new(row, t->cell[column], json_out_text(t->cell[i]));
    }
    return json_out(json_pack("{s:o}", name, rows));
}
