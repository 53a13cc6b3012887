#include "format/keys.h"

#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tree ------------------------------------------------------------------------------------------ */

fli_node *fli_node_new(fli_arena *a, fli_node_type type, const char *key, const char *text)
{
    fli_node *n = fli_arena_alloc(a, 1, sizeof *n);
    if (!n) return NULL;
    n->type = type;
    n->key = key ? fli_arena_strdup(a, key) : NULL;
    n->text = text ? fli_arena_strdup(a, text) : NULL;
    return (key && !n->key) || (text && !n->text) ? NULL : n;
}

void fli_node_append(fli_node *parent, fli_node *child)
{
    fli_node **at = &parent->first;
    while (*at) at = &(*at)->next;
    *at = child;
}

size_t fli_node_count(const fli_node *parent)
{
    size_t n = 0;
    for (const fli_node *c = parent->first; c; c = c->next) n++;
    return n;
}

fli_node *fli_node_find(const fli_node *map, const char *key)
{
    if (!map || map->type != FLI_NODE_MAP) return NULL;
    for (fli_node *n = map->first; n; n = n->next)
        if (!strcmp(n->key, key)) return n;
    return NULL;
}

void fli_node_put(fli_node *map, fli_node *child)
{
    for (fli_node **at = &map->first; *at; at = &(*at)->next)
        if (!strcmp((*at)->key, child->key)) {
            child->next = (*at)->next;
            *at = child;
            return;
        }
    child->next = NULL;
    fli_node_append(map, child);
}

fli_node *fli_node_take(fli_node *map, const char *key)
{
    fli_node **at = &map->first, *n;
    while (*at && strcmp((*at)->key, key)) at = &(*at)->next;
    if ((n = *at)) {
        *at = n->next;
        n->next = NULL;
    }
    return n;
}

const char *fli_node_where(const fli_node *n, char *buf, size_t size)
{
    if (!n || !n->origin)
        fli_snprintf(buf, size, "%s", "");
    else if (n->line)
        fli_snprintf(buf, size, "%s:%d:%d: ", n->origin, n->line, n->column);
    else
        fli_snprintf(buf, size, "%s: ", n->origin);
    return buf;
}

/* ---- values -------------------------------------------------------------------------------------------- */

int fli_choice_word(const char *choices, int i, char *buf, size_t size)
{
    const char *p = choices;
    for (; i > 0; i--) {
        p = strchr(p, '|');
        if (!p) return 0;
        p++;
    }
    size_t n = strcspn(p, "|");
    if (n >= size) n = size - 1;
    memcpy(buf, p, n);
    buf[n] = 0;
    return 1;
}

static int parse_real(const char *s, double *out)
{
    char *end;
    errno = 0;
    double v = fli_strtod(s, &end);
    if (end == s || *end || !isfinite(v) || strpbrk(s, "xXpP")) return 0;
    *out = v;
    return 1;
}

/* Also accepts 1e6, as people write counts. */
static int parse_int(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end != s && !*end && !errno) {
        *out = v;
        return 1;
    }
    double d;
    if (!parse_real(s, &d) || d != floor(d) || fabs(d) > 0x1p53) return 0;
    *out = (int64_t)d;
    return 1;
}

/* The largest first: a size is printed with the first unit that divides it. */
static const struct {
    const char *name;
    double bytes;
} units[] = {{"GiB", 0x1p30}, {"GB", 1e9}, {"MiB", 0x1p20}, {"MB", 1e6},
             {"KiB", 0x1p10}, {"kB", 1e3}, {"KB", 1e3},     {"", 1}};

/* Reads all sizes: a number of bytes, with or without a unit; `auto` is 0. A written 0 is refused. */
static int parse_size(const char *s, int64_t *out)
{
    char *end;
    double v = fli_strtod(s, &end);
    if (!strcmp(s, "auto")) return *out = 0, 1;
    if (end == s || strpbrk(s, "xXpPnN")) return 0;
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && v * units[i].bytes >= 1 && v * units[i].bytes <= 0x1p53)
            return *out = (int64_t)(v * units[i].bytes), 1;
    return 0;
}

static void print_size(fli_text *t, int64_t v)
{
    size_t i = 0;
    while (units[i].bytes > 1 && v % (int64_t)units[i].bytes) i++;
    if (v)
        fli_text_addf(t, "%lld%s", (long long)(v / (int64_t)units[i].bytes), units[i].name);
    else
        fli_text_add(t, "auto");
}

static int parse_bool(const char *s, int *out)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < 3; i++) {
        if (!strcmp(s, yes[i])) return *out = 1, 1;
        if (!strcmp(s, no[i])) return *out = 0, 1;
    }
    return 0;
}

static int parse_choice(const char *s, const char *choices, int *out)
{
    char word[64];
    for (int i = 0; fli_choice_word(choices, i, word, sizeof word); i++)
        if (!strcmp(s, word)) return *out = i, 1;
    return 0;
}

static int in_range(const fl_key *row, double v)
{
    return (row->min == 0 && row->max == 0) || (v >= row->min && v <= row->max);
}

/* ---- binding ------------------------------------------------------------------------------------------- */

/* The arguments of a binding call. */
typedef struct {
    fl_ctx *ctx;
    fli_arena *arena;
    const char *section;
    const fli_table *tables;
    size_t count;
    fl_status status;
} binder;

static void complain(binder *b, const fli_node *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void complain(binder *b, const fli_node *at, const char *fmt, ...)
{
    char where[512], what[1024];
    va_list ap;
    va_start(ap, fmt);
    fli_vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    b->status = fli_fail_also(b->ctx, FL_ECONFIG, "%s%s", fli_node_where(at, where, sizeof where), what);
}

/* fl_name_fn over the words of a choice. */
typedef struct {
    const char *choices;
    char *word; /* WORD_LEN characters */
} choice_words;

enum { WORD_LEN = 64 };

static const char *choice_at(const void *arg, size_t i)
{
    const choice_words *c = arg;
    return c->choices && fli_choice_word(c->choices, (int)i, c->word, WORD_LEN) ? c->word : NULL;
}

static void wrong_value(binder *b, const fl_key *row, const fli_node *n, const char *shown)
{
    fli_text want;
    char word[WORD_LEN], meant[FLI_MEANT_LEN];
    const choice_words words = {row->choices, word};
    fli_text_init(&want, b->ctx);
    fli_key_print_type(&want, row);
    complain(b, n, "%s%s%s is %s, but must be %s%s", b->section, *b->section ? "." : "", row->name,
             *shown ? shown : "empty", fli_text_get(&want), fli_meant(fl_nearest(shown, choice_at, &words), meant));
    fli_text_fini(&want);
}

static int scalar(const fli_node *n) { return n->type == FLI_NODE_SCALAR && n->text; }

/* Parses one number into slot i of a list field; FL_KEY_INTS and FL_KEY_REALS differ only in the element type. */
static int list_item(const fl_key *row, const char *text, void *values, size_t i)
{
    double d;
    if (row->type == FL_KEY_INTS) {
        int64_t v;
        if (!parse_int(text, &v) || !in_range(row, (double)v)) return 0;
        ((int64_t *)values)[i] = v;
        return 1;
    }
    if (!parse_real(text, &d) || !in_range(row, d)) return 0;
    ((double *)values)[i] = d;
    return 1;
}

static void bind_list(binder *b, const fl_key *row, const fli_node *n, void *field)
{
    size_t count = 0, i = 0;
    const fli_node *item = n->type == FLI_NODE_LIST ? n->first : n;
    int word;
    if (row->choices && scalar(n) && parse_choice(n->text, row->choices, &word)) {
        *(fl_reals *)field = (fl_reals){0, NULL, word};
        return;
    }
    for (const fli_node *c = item; c; c = c == n ? NULL : c->next) count++;
    if (!count && row->choices) { /* only a word may stand for an empty list */
        wrong_value(b, row, n, "empty");
        return;
    }
    void *values = fli_arena_alloc(b->arena, count, 8);
    if (!values) {
        b->status = FL_ENOMEM;
        return;
    }
    if (n->type == FLI_NODE_MAP) {
        wrong_value(b, row, n, "a map");
        return;
    }
    for (const fli_node *c = item; c; c = c == n ? NULL : c->next, i++)
        if (!scalar(c) || !list_item(row, c->text, values, i)) {
            wrong_value(b, row, c, scalar(c) ? c->text : "nested");
            return;
        }
    *(fl_reals *)field = (fl_reals){count, values, 0}; /* fl_ints has the same layout, checked below */
}

_Static_assert(sizeof(fl_reals) == sizeof(fl_ints) && offsetof(fl_reals, v) == offsetof(fl_ints, v) &&
                   sizeof(double) == sizeof(int64_t),
               "lists of either type are bound by the same code");

static void bind_value(binder *b, const fl_key *row, const fli_node *n, void *field)
{
    int ok = 1;
    if (row->type == FL_KEY_INTS || row->type == FL_KEY_REALS) {
        bind_list(b, row, n, field);
        return;
    }
    if (!scalar(n)) {
        wrong_value(b, row, n, n->type == FLI_NODE_LIST ? "a list" : n->type == FLI_NODE_MAP ? "a map" : "empty");
        return;
    }
    switch (row->type) {
    case FL_KEY_BOOL: ok = parse_bool(n->text, field); break;
    case FL_KEY_INT: ok = parse_int(n->text, field) && in_range(row, (double)*(int64_t *)field); break;
    case FL_KEY_REAL: ok = parse_real(n->text, field) && in_range(row, *(double *)field); break;
    case FL_KEY_SIZE: ok = parse_size(n->text, field); break;
    case FL_KEY_CHOICE: ok = parse_choice(n->text, row->choices, field); break;
    default:
        *(char **)field = fli_arena_strdup(b->arena, n->text);
        if (!*(char **)field) b->status = FL_ENOMEM;
    }
    if (!ok) wrong_value(b, row, n, n->text);
}

/* Defaults are written as a user would write them: "0.1" or "[10, 20]". */
static fli_node *default_node(binder *b, const fl_key *row)
{
    if (row->def[0] != '[') return fli_node_new(b->arena, FLI_NODE_SCALAR, row->name, row->def);
    fli_node *list = fli_node_new(b->arena, FLI_NODE_LIST, row->name, NULL);
    char word[64];
    for (const char *p = row->def + 1; list && *(p += strspn(p, ", ]"));) {
        size_t n = strcspn(p, ", ]");
        fli_snprintf(word, sizeof word, "%.*s", (int)n, p);
        p += n;
        fli_node *item = fli_node_new(b->arena, FLI_NODE_SCALAR, NULL, word);
        if (!item) return NULL;
        fli_node_append(list, item);
    }
    return list;
}

static const fl_key *find_row(const binder *b, const char *name, void **field)
{
    for (size_t t = 0; t < b->count; t++)
        for (const fl_key *row = b->tables[t].rows; row && row->name; row++)
            if (!strcmp(row->name, name)) {
                *field = (char *)b->tables[t].out + row->offset;
                return row;
            }
    return NULL;
}

/* fl_name_fn over all rows of all tables. */
static const char *row_name(const void *arg, size_t i)
{
    const binder *b = arg;
    for (size_t t = 0; t < b->count; t++)
        for (const fl_key *row = b->tables[t].rows; row && row->name; row++)
            if (!i--) return row->name;
    return NULL;
}

static void unknown_key(binder *b, const fli_node *n)
{
    const char *near = fl_nearest(n->key, row_name, b), *dot = *b->section ? "." : "";
    if (near)
        complain(b, n, "%s%s%s is not a key; did you mean %s%s%s?", b->section, dot, n->key, b->section, dot, near);
    else
        complain(b, n, "%s%s%s is not a key", b->section, dot, n->key);
}

fl_status fli_bind(fl_ctx *ctx, fli_arena *a, const char *section, const fli_node *map, const char *skip,
                   const fli_table *tables, size_t count)
{
    binder b = {ctx, a, section, tables, count, FL_OK};
    void *field = NULL;
    if (map && scalar(map) && !*map->text) map = NULL; /* `section:` with nothing after it */
    if (map && map->type != FLI_NODE_MAP) {
        complain(&b, map, "%s must be a map of keys and values", *section ? section : "the file");
        return b.status;
    }
    for (const fli_node *n = map ? map->first : NULL; n; n = n->next) {
        if (skip && !strcmp(n->key, skip)) continue;
        const fl_key *row = find_row(&b, n->key, &field);
        if (row)
            bind_value(&b, row, n, field);
        else
            unknown_key(&b, n);
    }
    for (size_t t = 0; t < count; t++)
        for (const fl_key *row = tables[t].rows; row && row->name; row++) {
            if (fli_node_find(map, row->name)) continue;
            if (!row->def) {
                const char *help = row->help && *row->help ? row->help : NULL; /* registered keys may have none */
                complain(&b, map, "%s%s%s is missing%s%s%s", section, *section ? "." : "", row->name, help ? " (" : "",
                         help ? help : "", help ? ")" : "");
                continue;
            }
            fli_node *n = default_node(&b, row);
            if (!n) return FL_ENOMEM;
            bind_value(&b, row, n, (char *)tables[t].out + row->offset);
        }
    return b.status;
}

fl_status fli_keys_check_clients(fl_ctx *ctx, const char *section, const fl_key *rows, const void *bound,
                                 size_t clients)
{
    fl_status status = FL_OK;
    for (const fl_key *row = rows; row && row->name; row++) {
        if (!row->per_client) continue;
        const fl_reals *list = (const fl_reals *)(const void *)((const char *)bound + row->offset);
        if (list->n == 1 || list->n == clients || (!list->n && row->choices)) continue;
        status = fli_fail_also(ctx, FL_ECONFIG, "%s.%s has %zu values, but there are %zu clients", section, row->name,
                               list->n, clients);
    }
    return status;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

/* The shortest form that reads back as the same double. */
static void print_real(fli_text *t, double v)
{
    char buf[40];
    for (int digits = 6; digits <= 17; digits++) {
        fli_snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (fli_strtod(buf, NULL) == v) break;
    }
    fli_text_add(t, buf);
}

/* The code point at s and its length in bytes; a broken sequence counts as one byte. */
static unsigned code_point(const unsigned char *s, int *bytes)
{
    int n = s[0] < 0xC0 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    unsigned c = n == 1 ? s[0] : s[0] & (0xFFu >> (n + 1));
    *bytes = 1;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return s[0];
        c = c << 6 | (s[i] & 0x3F);
    }
    *bytes = n;
    return c;
}

/* Control characters, and characters that YAML reads as a line break or a byte order mark. */
static int needs_escape(unsigned c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || c == 0xFEFF || c == 0xFFFE ||
           c == 0xFFFF;
}

static int has_escape(const char *s)
{
    for (int n; *s; s += n)
        if (needs_escape(code_point((const unsigned char *)s, &n))) return 1;
    return 0;
}

static void print_escaped(fli_text *t, const char *s)
{
    fli_text_add(t, "\"");
    for (int n; *s; s += n) {
        unsigned c = code_point((const unsigned char *)s, &n);
        if (needs_escape(c))
            fli_text_addf(t, c < 0x100 ? "\\x%02X" : "\\u%04X", c);
        else {
            if (c == '"' || c == '\\') fli_text_add(t, "\\");
            fli_text_addn(t, s, (size_t)n);
        }
    }
    fli_text_add(t, "\"");
}

/* Words that a YAML reader takes for null. */
static int reads_as_null(const char *s)
{
    return !*s || !strcmp(s, "~") || !strcmp(s, "null") || !strcmp(s, "Null") || !strcmp(s, "NULL");
}

void fli_print_string(fli_text *t, const char *s)
{
    if (has_escape(s)) {
        print_escaped(t, s);
        return;
    }
    if (!reads_as_null(s) && !strpbrk(s, ":#'\"{}[],&*!|>%@`") && !strchr(" -?", *s) && s[strlen(s) - 1] != ' ') {
        fli_text_add(t, s);
        return;
    }
    fli_text_add(t, "'");
    for (; *s; s++) {
        if (*s == '\'') fli_text_add(t, "'");
        fli_text_addn(t, s, 1);
    }
    fli_text_add(t, "'");
}

void fli_key_print_value(fli_text *t, const fl_key *row, const void *bound)
{
    const void *field = (const char *)bound + row->offset;
    char word[64] = "";
    switch (row->type) {
    case FL_KEY_BOOL: fli_text_add(t, *(const int *)field ? "true" : "false"); return;
    case FL_KEY_INT: fli_text_addf(t, "%lld", (long long)*(const int64_t *)field); return;
    case FL_KEY_REAL: print_real(t, *(const double *)field); return;
    case FL_KEY_SIZE: print_size(t, *(const int64_t *)field); return;
    case FL_KEY_STRING: fli_print_string(t, *(char *const *)field); return;
    case FL_KEY_CHOICE:
        fli_choice_word(row->choices, *(const int *)field, word, sizeof word);
        fli_text_add(t, word);
        return;
    case FL_KEY_INTS:
    case FL_KEY_REALS: break;
    }
    const fl_reals *list = field;
    if (row->choices && !list->n) {
        fli_choice_word(row->choices, list->word, word, sizeof word);
        fli_text_add(t, word);
        return;
    }
    fli_text_add(t, "[");
    for (size_t i = 0; i < list->n; i++) {
        if (i) fli_text_add(t, ", ");
        if (row->type == FL_KEY_INTS)
            fli_text_addf(t, "%lld", (long long)((const fl_ints *)field)->v[i]);
        else
            print_real(t, list->v[i]);
    }
    fli_text_add(t, "]");
}

static void print_bounds(fli_text *t, const fl_key *row)
{
    int low = row->min > -FLI_NO_MAX, high = row->max < FLI_NO_MAX;
    if (row->min == 0 && row->max == 0) return;
    if (row->max == FLI_BELOW_1) {
        fli_text_add(t, row->min == FLI_ABOVE_0 ? " > 0 and < 1" : " >= ");
        if (row->min != FLI_ABOVE_0) print_real(t, row->min);
        if (row->min != FLI_ABOVE_0) fli_text_add(t, " and < 1");
        return;
    }
    if (row->min == FLI_ABOVE_0)
        fli_text_add(t, high ? " > 0 and <= " : " > 0");
    else if (low && high) {
        fli_text_add(t, " from ");
        print_real(t, row->min);
        fli_text_add(t, " to ");
    } else if (low) {
        fli_text_add(t, " >= ");
        print_real(t, row->min);
    } else if (high)
        fli_text_add(t, " <= ");
    if (high) print_real(t, row->max);
}

void fli_key_print_type(fli_text *t, const fl_key *row)
{
    char word[64];
    static const char *const noun[] = {
        [FL_KEY_REAL] = "a number",
        [FL_KEY_INT] = "a whole number",
        [FL_KEY_BOOL] = "true or false",
        [FL_KEY_CHOICE] = "one of:",
        [FL_KEY_STRING] = "a text",
        [FL_KEY_INTS] = "a list of whole numbers",
        [FL_KEY_REALS] = "a list of numbers",
        [FL_KEY_SIZE] = "bytes, at least 1, as in 4096, 64 KiB, 400MB or 1.5GiB (kB, MB, GB: powers of 1000), or auto"};
    fli_text_add(t, noun[row->type]);
    if (row->type == FL_KEY_CHOICE)
        for (int i = 0; fli_choice_word(row->choices, i, word, sizeof word); i++)
            fli_text_addf(t, "%s %s", i ? "," : "", word);
    else
        print_bounds(t, row);
    if (row->per_client) fli_text_add(t, ": one, or one per client");
    if (row->choices && row->type == FL_KEY_REALS)
        for (int i = 0; fli_choice_word(row->choices, i, word, sizeof word); i++)
            fli_text_addf(t, "%s or %s", i ? "" : ";", word);
}

void fli_keys_print_help(fli_text *t, const fl_key *rows, int indent)
{
    for (const fl_key *row = rows; row && row->name; row++) {
        fli_text_addf(t, "%*s%-16s %s\n%*s", indent, "", row->name, row->help, indent + 17, "");
        fli_key_print_type(t, row);
        if (!row->def)
            fli_text_add(t, "; must be given\n");
        else if (!*row->def)
            fli_text_add(t, "; default: none\n");
        else
            fli_text_addf(t, "; default: %s\n", row->def);
    }
}
