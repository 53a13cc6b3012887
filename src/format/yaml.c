/* Reading turns libyaml's events into nodes with an explicit stack, whose depth limits nesting. */
#include "format/yaml.h"

#include "base/file.h"
#include "base/number.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* ==== reading =============================================================================================== */

enum {
    FILE_MAX = 1 << 20,
    NESTING_MAX = 32,
    KEYS_MAX = 1000, /* per map; keeps the search for duplicates cheap */
    PATH_PARTS_MAX = 8,
    SHOWN_MAX = 100 /* characters of an assignment, in messages */
};

/* ---- events to nodes ----------------------------------------------------------------------------------- */

/* An open list or map. */
typedef struct {
    fli_node *node, *last;
    const char *key; /* a key whose value is still to come */
    yaml_mark_t key_mark;
    size_t keys;
} frame;

typedef struct {
    fl_ctx *ctx;
    fli_arena *arena;
    const char *origin;
    int positions; /* line and column are meaningful: not in a --set */
    yaml_parser_t parser;
    frame stack[NESTING_MAX];
    size_t depth;
    fli_node *root; /* NULL until the first node is complete */
    size_t documents;
} reader;

/* Fails with a sentence that begins with the position. */
static fl_status fail_at(reader *r, const yaml_mark_t *mark, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static fl_status fail_at(reader *r, const yaml_mark_t *mark, const char *fmt, ...)
{
    char what[1024], where[64] = "";
    va_list ap;
    va_start(ap, fmt);
    fli_vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (r->positions) fli_snprintf(where, sizeof where, "%zu:%zu:", mark->line + 1, mark->column + 1);
    return fli_fail(r->ctx, FL_ECONFIG, "%s:%s %s", r->origin, where, what);
}

/* Whether line `line` (from 0) is indented with a tab, a common mistake. */
static int tab_indent(const char *text, size_t n, size_t line)
{
    const char *p = text, *end = text + n;
    for (; line && p < end; p++)
        if (*p == '\n') line--;
    while (p < end && *p == ' ') p++;
    return p < end && *p == '\t';
}

/* Reports libyaml's error. Its reader (encoding) gives a byte offset, scanner and parser a line and column. */
static fl_status syntax_error(reader *r, const char *text, size_t n)
{
    const yaml_parser_t *p = &r->parser;
    yaml_mark_t at = p->problem_mark;
    if (p->error == YAML_MEMORY_ERROR) return fli_fail(r->ctx, FL_ENOMEM, "%s: out of memory", r->origin);
    if (p->error == YAML_READER_ERROR) {
        at.line = at.column = 0;
        for (size_t i = 0; i < p->problem_offset && i < n; i++) {
            at.column++;
            if (text[i] == '\n') at.line++, at.column = 0;
        }
    } else if (tab_indent(text, n, at.line))
        return fail_at(r, &at, "not valid YAML: indent with spaces, not with a tab");
    return fail_at(r, &at, "not valid YAML: %s%s%s", p->problem ? p->problem : "unreadable", p->context ? " " : "",
                   p->context ? p->context : "");
}

static void set_position(const reader *r, fli_node *n, const yaml_mark_t *mark)
{
    if (!r->positions) return;
    n->line = (int)mark->line + 1;
    n->column = (int)mark->column + 1;
}

static fli_node *node_at(reader *r, fli_node_type type, const char *text, const yaml_mark_t *mark)
{
    fli_node *n = fli_node_new(r->arena, type, NULL, text);
    if (!n) return NULL;
    n->origin = r->origin;
    set_position(r, n, mark);
    return n;
}

static fl_status take_key(reader *r, frame *f, const yaml_event_t *e)
{
    const char *key = (const char *)e->data.scalar.value;
    if (!*key) return fail_at(r, &e->start_mark, "a key is empty");
    if (++f->keys > KEYS_MAX) return fail_at(r, &e->start_mark, "more than %d keys in one map", KEYS_MAX);
    const fli_node *earlier = fli_node_find(f->node, key);
    if (earlier && r->positions)
        return fail_at(r, &e->start_mark, "the key %s is given twice: in line %d and in line %zu", key, earlier->line,
                       e->start_mark.line + 1);
    if (earlier) return fail_at(r, &e->start_mark, "the key %s is given twice", key);
    f->key = fli_arena_strdup(r->arena, key);
    f->key_mark = e->start_mark;
    return f->key ? FL_OK : FL_ENOMEM;
}

/* Adds a node to its parent. A map's entry has the position of its key. */
static void attach(reader *r, fli_node *n)
{
    if (!r->depth) {
        r->root = n;
        return;
    }
    frame *f = &r->stack[r->depth - 1];
    if (f->node->type == FLI_NODE_MAP) {
        n->key = f->key;
        f->key = NULL;
        set_position(r, n, &f->key_mark);
    }
    if (f->last)
        f->last->next = n;
    else
        f->node->first = n;
    f->last = n;
}

static int expects_key(const reader *r)
{
    const frame *f = r->depth ? &r->stack[r->depth - 1] : NULL;
    return f && f->node->type == FLI_NODE_MAP && !f->key;
}

static int reads_as_null(const yaml_event_t *e)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp((const char *)e->data.scalar.value, words[i])) return 1;
    return 0;
}

static fl_status on_scalar(reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length) return fail_at(r, &e->start_mark, "a text holds a zero byte");
    if (expects_key(r)) return take_key(r, &r->stack[r->depth - 1], e);
    fli_node *n = node_at(r, FLI_NODE_SCALAR, reads_as_null(e) ? "" : text, &e->start_mark);
    if (!n) return FL_ENOMEM;
    attach(r, n);
    return FL_OK;
}

static fl_status on_open(reader *r, const yaml_event_t *e, fli_node_type type)
{
    if (expects_key(r)) return fail_at(r, &e->start_mark, "a key must be a word, not a list or a map");
    if (r->depth == NESTING_MAX) return fail_at(r, &e->start_mark, "nested more than %d deep", NESTING_MAX);
    fli_node *n = node_at(r, type, NULL, &e->start_mark);
    if (!n) return FL_ENOMEM;
    attach(r, n);
    r->stack[r->depth++] = (frame){.node = n};
    return FL_OK;
}

/* Refuses anchors (which a "billion laughs" file uses) and tags: settings do not need them. */
static fl_status refuse_extras(reader *r, const yaml_event_t *e, const void *anchor, const void *tag)
{
    if (anchor) return fail_at(r, &e->start_mark, "anchors (&) are not supported");
    if (tag) return fail_at(r, &e->start_mark, "tags (!) are not supported");
    return FL_OK;
}

static fl_status on_event(reader *r, const yaml_event_t *e)
{
    fl_status s = FL_OK;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++) return fail_at(r, &e->start_mark, "a second document (---) is not supported");
        return FL_OK;
    case YAML_ALIAS_EVENT: return fail_at(r, &e->start_mark, "aliases (*) are not supported");
    case YAML_SCALAR_EVENT:
        s = refuse_extras(r, e, e->data.scalar.anchor, e->data.scalar.tag);
        return s ? s : on_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        s = refuse_extras(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
        return s ? s : on_open(r, e, FLI_NODE_LIST);
    case YAML_MAPPING_START_EVENT:
        s = refuse_extras(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
        return s ? s : on_open(r, e, FLI_NODE_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return FL_OK;
    default: return FL_OK;
    }
}

/* Reads any YAML text; *out is NULL if it is empty. */
static fl_status read_text(fl_ctx *ctx, fli_arena *a, const char *origin, int positions, const char *text, size_t n,
                           fli_node **out)
{
    reader r = {.ctx = ctx, .arena = a, .origin = origin, .positions = positions};
    fl_status s = FL_OK;
    if (!yaml_parser_initialize(&r.parser)) return fli_fail(ctx, FL_ENOMEM, "%s: out of memory", origin);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    for (int end = 0; s == FL_OK && !end;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r.parser, &e)) {
            s = syntax_error(&r, text, n);
            break;
        }
        s = on_event(&r, &e);
        end = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&r.parser);
    *out = r.root;
    return s;
}

fl_status fli_yaml_parse(fl_ctx *ctx, fli_arena *a, const char *origin, const char *text, size_t n, fli_node **root)
{
    fli_node *node = NULL;
    char where[512];
    if (n > FILE_MAX)
        return fli_fail(ctx, FL_ECONFIG, "%s: larger than %d bytes, too large for a configuration", origin, FILE_MAX);
    const char *name = fli_arena_strdup(a, origin);
    if (!name) return FL_ENOMEM;
    fl_status s = read_text(ctx, a, name, 1, text, n, &node);
    if (s) return s;
    if (!node || (node->type == FLI_NODE_SCALAR && !*node->text)) { /* only comments */
        node = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
        if (!node) return FL_ENOMEM;
        node->origin = name;
        node->line = node->column = 1;
    }
    if (node->type != FLI_NODE_MAP)
        return fli_fail(ctx, FL_ECONFIG, "%sthe file must be a map of keys and values, but is a %s",
                        fli_node_where(node, where, sizeof where),
                        node->type == FLI_NODE_LIST ? "list" : "single text");
    *root = node;
    return FL_OK;
}

fl_status fli_yaml_load(fl_ctx *ctx, fli_arena *a, const char *path, fli_node **root)
{
    fl_status s = FL_OK;
    size_t n = 0;
    char *text = NULL;
    errno = 0;
    FILE *f = fli_file_open(path, O_RDONLY);
    if (!f) return fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno));
    text = fli_alloc(ctx, FILE_MAX + 1, 1);
    if (!text) {
        s = FL_ENOMEM;
        goto done;
    }
    n = fread(text, 1, FILE_MAX + 1, f);
    if (ferror(f))
        s = fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno));
    else
        s = fli_yaml_parse(ctx, a, path, text, n, root);
done:
    fli_free(text);
    fclose(f);
    return s;
}

/* ---- sections ------------------------------------------------------------------------------------------ */

/* The kind of a section in either notation; NULL if it gives none. */
static const char *kind_of(const fli_node *n)
{
    const fli_node *kind = n->type == FLI_NODE_MAP ? fli_node_find(n, "kind") : n;
    return kind && kind->type == FLI_NODE_SCALAR && *kind->text ? kind->text : NULL;
}

static fli_node *copy(fli_arena *a, const fli_node *n)
{
    fli_node *c = fli_node_new(a, n->type, n->key, n->text), *last = NULL;
    if (!c) return NULL;
    c->origin = n->origin;
    c->line = n->line;
    c->column = n->column;
    for (const fli_node *child = n->first; child; child = child->next) {
        fli_node *d = copy(a, child);
        if (!d) return NULL;
        if (last)
            last->next = d;
        else
            c->first = d;
        last = d;
    }
    return c;
}

/* Replaces the shorthand by the long form, in place; an empty value becomes an empty section. */
static fl_status expand(fli_arena *a, fli_node *n)
{
    if (n->type != FLI_NODE_SCALAR) return FL_OK;
    fli_node *kind = NULL;
    if (*n->text) {
        kind = fli_node_new(a, FLI_NODE_SCALAR, "kind", n->text);
        if (!kind) return FL_ENOMEM;
        kind->origin = n->origin;
        kind->line = n->line;
        kind->column = n->column;
    }
    n->type = FLI_NODE_MAP;
    n->text = NULL;
    n->first = kind;
    return FL_OK;
}

static fl_status merge_entry(fli_arena *a, fli_node *base, const fli_node *over)
{
    fli_node *old = fli_node_find(base, over->key), *fresh = copy(a, over);
    if (!fresh) return FL_ENOMEM;
    int section = old && old->type != FLI_NODE_LIST && over->type != FLI_NODE_LIST &&
                  (old->type == FLI_NODE_MAP || over->type == FLI_NODE_MAP);
    const char *had = section ? kind_of(old) : NULL, *has = kind_of(over);
    if (!section || (had && has && strcmp(had, has))) {
        fli_node_put(base, fresh);
        return FL_OK;
    }
    fl_status s = expand(a, old);
    if (!s) s = expand(a, fresh);
    for (const fli_node *n = fresh->first; !s && n; n = n->next) s = merge_entry(a, old, n);
    return s;
}

fl_status fli_yaml_merge(fl_ctx *ctx, fli_arena *a, fli_node *base, const fli_node *over)
{
    fl_status s = FL_OK;
    if (base->type != FLI_NODE_MAP || over->type != FLI_NODE_MAP)
        return fli_fail(ctx, FL_ECONFIG, "only maps of settings can be merged");
    for (const fli_node *n = over->first; !s && n; n = n->next) s = merge_entry(a, base, n);
    return s;
}

/* ---- assignments --------------------------------------------------------------------------------------- */

/* "--set <assignment>" for messages: one line, not too long. */
static char *set_origin(fli_arena *a, const char *assignment)
{
    char shown[SHOWN_MAX + 16];
    size_t n = (size_t)fli_snprintf(shown, sizeof shown, "--set %.*s%s", SHOWN_MAX, assignment,
                                    strlen(assignment) > SHOWN_MAX ? "..." : "");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)shown[i] < ' ') shown[i] = ' ';
    return fli_arena_strdup(a, shown);
}

/* Splits "a.b.c" in place. */
static fl_status split(fl_ctx *ctx, const char *origin, char *path, const char *parts[PATH_PARTS_MAX], size_t *count)
{
    *count = 0;
    for (char *p = path; p;) {
        char *dot = strchr(p, '.');
        if (dot) *dot++ = 0;
        if (!*p) return fli_fail(ctx, FL_ECONFIG, "%s: a key is empty", origin);
        if (*count == PATH_PARTS_MAX)
            return fli_fail(ctx, FL_ECONFIG, "%s: more than %d keys deep", origin, PATH_PARTS_MAX);
        parts[(*count)++] = p;
        p = dot;
    }
    return FL_OK;
}

/* The section `key` of `map`, as a map; made if it is missing. */
static fl_status enter(fl_ctx *ctx, fli_arena *a, const char *origin, fli_node *map, const char *key, fli_node **out)
{
    fli_node *n = fli_node_find(map, key);
    if (n && n->type == FLI_NODE_LIST)
        return fli_fail(ctx, FL_ECONFIG, "%s: %s is a list, which has no keys", origin, key);
    if (!n) {
        n = fli_node_new(a, FLI_NODE_MAP, key, NULL);
        if (!n) return FL_ENOMEM;
        n->origin = origin;
        fli_node_append(map, n);
    }
    *out = n;
    return expand(a, n);
}

/* Puts a value under parts[0].parts[1]... of root. */
static fl_status assign(fl_ctx *ctx, fli_arena *a, const char *origin, fli_node *root, const char *const *parts,
                        size_t count, fli_node *value)
{
    fli_node *map = root;
    int word = value->type == FLI_NODE_SCALAR && *value->text;
    if (word && count > 1 && !strcmp(parts[count - 1], "kind")) count--; /* the shorthand */
    for (size_t i = 0; i + 1 < count; i++) {
        fl_status s = enter(ctx, a, origin, map, parts[i], &map);
        if (s) return s;
    }
    value->key = fli_arena_strdup(a, parts[count - 1]);
    if (!value->key) return FL_ENOMEM;
    if (word) return merge_entry(a, map, value); /* may be a section's kind */
    fli_node_put(map, value);
    return FL_OK;
}

/* The entry whose key is the n characters at `key`. */
static const fli_node *find_part(const fli_node *map, const char *key, size_t n)
{
    if (map->type != FLI_NODE_MAP) return NULL;
    for (const fli_node *c = map->first; c; c = c->next)
        if (strlen(c->key) == n && !memcmp(c->key, key, n)) return c;
    return NULL;
}

const fli_node *fli_yaml_get(const fli_node *root, const char *path)
{
    const fli_node *n = root;
    while (n && *path) {
        size_t length = strcspn(path, ".");
        n = find_part(n, path, length);
        path += length + (path[length] == '.');
    }
    return n;
}

/* A copy without the blanks at both ends. */
static char *trimmed(fli_arena *a, const char *s, size_t n)
{
    while (n && strchr(" \t", *s)) s++, n--;
    while (n && strchr(" \t", s[n - 1])) n--;
    char *t = fli_arena_alloc(a, n + 1, 1);
    return t ? memcpy(t, s, n) : NULL;
}

fl_status fli_yaml_set(fl_ctx *ctx, fli_arena *a, const char *assignment, fli_node *root)
{
    const char *parts[PATH_PARTS_MAX], *eq = strchr(assignment, '=');
    size_t count;
    fli_node *value = NULL;
    char *origin = set_origin(a, assignment);
    if (!origin) return FL_ENOMEM;
    if (!eq) return fli_fail(ctx, FL_ECONFIG, "%s: must be KEY=VALUE or SECTION.KEY=VALUE", origin);
    if (strlen(assignment) > FILE_MAX) return fli_fail(ctx, FL_ECONFIG, "%s: longer than %d bytes", origin, FILE_MAX);
    char *path = trimmed(a, assignment, (size_t)(eq - assignment));
    if (!path) return FL_ENOMEM;
    fl_status s = split(ctx, origin, path, parts, &count);
    if (!s) s = read_text(ctx, a, origin, 0, eq + 1, strlen(eq + 1), &value);
    if (s) return s;
    if (!value) {
        value = fli_node_new(a, FLI_NODE_SCALAR, NULL, "");
        if (!value) return FL_ENOMEM;
        value->origin = origin;
    }
    return assign(ctx, a, origin, root, parts, count, value);
}

/* ==== printing ============================================================================================== */

/* Maps and lists of maps have one entry per line, indented by two columns per level; lists of values stay on one
 * line. */

typedef struct {
    fli_text *t;
    const fli_remark *remarks;
    size_t count;
} printer;

static void print_map(const printer *p, const fli_node *map, int indent, int hanging);

static int is_flat(const fli_node *list)
{
    for (const fli_node *c = list->first; c; c = c->next)
        if (c->type == FLI_NODE_MAP && c->first) return 0;
    return 1;
}

static void print_flow(const printer *p, const fli_node *n)
{
    if (n->type == FLI_NODE_SCALAR) {
        fli_print_string(p->t, n->text);
        return;
    }
    fli_text_add(p->t, n->type == FLI_NODE_MAP ? "{" : "[");
    for (const fli_node *c = n->first; c; c = c->next) {
        if (c->key) fli_print_string(p->t, c->key);
        if (c->key) fli_text_add(p->t, ": ");
        print_flow(p, c);
        if (c->next) fli_text_add(p->t, ", ");
    }
    fli_text_add(p->t, n->type == FLI_NODE_MAP ? "}" : "]");
}

static void end_line(const printer *p, const fli_node *n)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->remarks[i].at == n) fli_text_addf(p->t, "  # %s", p->remarks[i].text);
    fli_text_add(p->t, "\n");
}

static void print_list(const printer *p, const fli_node *list, int indent)
{
    for (const fli_node *c = list->first; c; c = c->next) {
        fli_text_addf(p->t, "%*s- ", indent, "");
        if (c->type == FLI_NODE_MAP && c->first) {
            print_map(p, c, indent + 2, 1);
            continue;
        }
        print_flow(p, c);
        end_line(p, c);
    }
}

/* `hanging`: the first key follows a dash. */
static void print_map(const printer *p, const fli_node *map, int indent, int hanging)
{
    for (const fli_node *c = map->first; c; c = c->next, hanging = 0) {
        int below = c->type == FLI_NODE_MAP ? c->first != NULL : c->type == FLI_NODE_LIST && !is_flat(c);
        fli_text_addf(p->t, "%*s", hanging ? 0 : indent, "");
        fli_print_string(p->t, c->key);
        fli_text_add(p->t, below ? ":" : ": ");
        if (!below) print_flow(p, c);
        end_line(p, c);
        if (below && c->type == FLI_NODE_MAP) print_map(p, c, indent + 2, 0);
        if (below && c->type == FLI_NODE_LIST) print_list(p, c, indent + 2);
    }
}

void fli_yaml_print(fli_text *t, const fli_node *root, const fli_remark *remarks, size_t count)
{
    print_map(&(printer){t, remarks, count}, root, 0, 0);
}
