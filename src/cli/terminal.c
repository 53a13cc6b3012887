/* The terminal's abilities and the user's wishes about colours; tables that fit it. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Open MPI's launcher gives rank 0 a terminal of its own, whose output may go to a file. */
static int is_terminal(FILE *f) { return isatty(fileno(f)) && !*launch_find().command; }

int terminal_moves(FILE *f)
{
    const char *term = getenv("TERM");
    return is_terminal(f) && term && *term && strcmp(term, "dumb");
}

size_t terminal_width(FILE *f)
{
    struct winsize w;
    if (!is_terminal(f)) return 0;
    return !ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* https://no-color.org: set and not empty. */
static int coloured(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    return terminal_moves(f) && !(no && *no);
}

const char *tone_on(FILE *f, tone t)
{
    static const char *const codes[] = {[TONE_HEAD] = "\033[1m",
                                        [TONE_GOOD] = "\033[32m",
                                        [TONE_BAD] = "\033[31m",
                                        [TONE_CARE] = "\033[33m",
                                        [TONE_FAINT] = "\033[2m"};
    return coloured(f) ? codes[t] : "";
}

const char *tone_off(FILE *f) { return coloured(f) ? "\033[0m" : ""; }

/* ==== tables that are wider than the terminal ===================================================================== */

/* On a terminal the heading is marked, and columns that do not fit are printed below the others, beside a copy of the
 * first column. Elsewhere a table is printed unchanged.
 *
 * A table is a text with aligned columns: two or more blanks at the same place of all lines separate two columns. */

typedef struct {
    const char **line; /* where each begins */
    size_t lines;
    size_t *start; /* of each column, in characters; the last entry is the total width */
    size_t columns;
} sheet;

static size_t line_length(const char *s) { return strcspn(s, "\n"); }

/* The next character; stays at the end of the line. */
static const char *step(const char *s)
{
    if (!*s || *s == '\n') return s;
    do s++;
    while (((unsigned char)*s & 0xC0) == 0x80);
    return s;
}

static const char *at_character(const char *line, size_t n)
{
    while (n--) line = step(line);
    return line;
}

static size_t characters(const char *line)
{
    size_t n = 0;
    for (const char *next; (next = step(line)) != line; line = next) n++;
    return n;
}

static size_t widest(const sheet *s)
{
    size_t most = 0;
    for (size_t i = 0; i < s->lines; i++) {
        size_t n = characters(s->line[i]);
        if (n > most) most = n;
    }
    return most;
}

static int find_lines(const char *text, sheet *s)
{
    size_t n = 0;
    for (const char *c = text; *c; c++) n += *c == '\n';
    if (!(s->line = calloc(n + 1, sizeof *s->line))) return 0;
    for (; *text; text += line_length(text) + (text[line_length(text)] == '\n')) s->line[s->lines++] = text;
    return 1;
}

/* Marks the positions where any line has a character; after two positions without one a new column begins. */
static int find_columns(sheet *s)
{
    size_t width = widest(s), gap = 0;
    char *used = calloc(width + 1, 1);
    s->start = calloc(width + 2, sizeof *s->start);
    for (size_t i = 0; used && i < s->lines; i++) {
        const char *c = s->line[i];
        for (size_t k = 0; *c && *c != '\n'; k++, c = step(c)) used[k] |= *c != ' ';
    }
    for (size_t k = 0; used && s->start && k < width; k++) {
        if (used[k] && (!k || gap >= 2)) s->start[s->columns++] = k;
        gap = used[k] ? 0 : gap + 1;
    }
    int found = used && s->start;
    if (found) s->start[s->columns] = width;
    free(used);
    return found;
}

/* Prints a cell with the blanks after it, up to the next column. */
static void print_column(const sheet *s, size_t row, size_t k, FILE *out)
{
    const char *from = at_character(s->line[row], s->start[k]), *to = at_character(from, s->start[k + 1] - s->start[k]);
    fprintf(out, "%.*s", (int)(to - from), from);
}

/* Prints the first column, and those from `first` to `end`. */
static void print_part(const sheet *s, size_t first, size_t end, FILE *out)
{
    for (size_t row = 0; row < s->lines; row++) {
        if (!row) fputs(tone_on(out, TONE_HEAD), out);
        if (first) print_column(s, row, 0, out);
        for (size_t k = first; k < end; k++) print_column(s, row, k, out);
        if (!row) fputs(tone_off(out), out);
        fputc('\n', out);
    }
}

/* The end of the columns from `first` on that fit beside the first column; at least one. */
static size_t part_end(const sheet *s, size_t first, size_t width)
{
    size_t end = first + 1, taken = first ? s->start[1] : 0;
    while (end < s->columns && taken + s->start[end + 1] - s->start[first] <= width) end++;
    return end;
}

static void print_parts(const sheet *s, size_t width, FILE *out)
{
    for (size_t first = 0, end; first < s->columns; first = end) {
        end = part_end(s, first, width);
        if (first) fputc('\n', out);
        print_part(s, first, end, out);
    }
}

static void print_whole(const char *text, FILE *out)
{
    size_t head = line_length(text);
    fprintf(out, "%s%.*s%s%s", tone_on(out, TONE_HEAD), (int)head, text, tone_off(out), text + head);
}

void print_fitted(const char *text, FILE *out)
{
    sheet s = {0};
    size_t width = terminal_width(out);
    if (width && find_lines(text, &s) && widest(&s) > width && find_columns(&s) && s.columns > 1)
        print_parts(&s, width, out);
    else
        print_whole(text, out);
    free(s.line);
    free(s.start);
}

/* ==== tables ====================================================================================================== */

/* Cells are added row by row, widths follow from the contents. */

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

static size_t widest_cell(const table *t, size_t column)
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
        size_t column = i % t->columns, pad = widest_cell(t, column) - width(t->cell[i]);
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
        print_fitted(text, out);
    free(text);
}
