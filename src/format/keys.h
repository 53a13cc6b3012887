/* Settings as tables: one row per key. The parser, the error messages, the help, the reference and the resolved copy
 * beside a result all use these rows.
 *
 * A source of settings (a YAML file, --set, a JSON case) first becomes a tree of nodes that remember their origin;
 * binding reads a map node through the rows into a plain C struct. */
#ifndef FLI_FORMAT_KEYS_H
#define FLI_FORMAT_KEYS_H

#include "base/memory.h"
#include "base/text.h"
#include "fedloom_extend.h"

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#define FLI_ABOVE_0 DBL_TRUE_MIN /* as min: greater than zero */
#define FLI_NO_MAX  DBL_MAX
#define FLI_BELOW_1 0x1.fffffffffffffp-1 /* as max: less than one */

/* Table rows, so that a table reads like one. `s` is the struct, `f` its field; the key has the field's name. */
#define FLI_KEY_REAL(s, f, def, lo, hi, help)                                                                          \
    {                                                                                                                  \
#f, FL_KEY_REAL, def, lo, hi, NULL, help, offsetof(s, f)                                                       \
    }
#define FLI_KEY_INT(s, f, def, lo, hi, help)                                                                           \
    {                                                                                                                  \
#f, FL_KEY_INT, def, lo, hi, NULL, help, offsetof(s, f)                                                        \
    }
#define FLI_KEY_BOOL(s, f, def, help)                                                                                  \
    {                                                                                                                  \
#f, FL_KEY_BOOL, def, 0, 0, NULL, help, offsetof(s, f)                                                         \
    }
#define FLI_KEY_STRING(s, f, def, help)                                                                                \
    {                                                                                                                  \
#f, FL_KEY_STRING, def, 0, 0, NULL, help, offsetof(s, f)                                                       \
    }
#define FLI_KEY_SIZE(s, f, def, help)                                                                                  \
    {                                                                                                                  \
#f, FL_KEY_SIZE, def, 0, 0, NULL, help, offsetof(s, f)                                                         \
    }
#define FLI_KEY_CHOICE(s, f, def, words, help)                                                                         \
    {                                                                                                                  \
#f, FL_KEY_CHOICE, def, 0, 0, words, help, offsetof(s, f)                                                      \
    }
#define FLI_KEY_INTS(s, f, def, lo, hi, help)                                                                          \
    {                                                                                                                  \
#f, FL_KEY_INTS, def, lo, hi, NULL, help, offsetof(s, f)                                                       \
    }
#define FLI_KEY_REALS(s, f, def, lo, hi, help)                                                                         \
    {                                                                                                                  \
#f, FL_KEY_REALS, def, lo, hi, NULL, help, offsetof(s, f)                                                      \
    }
#define FLI_KEY_PER_CLIENT(s, f, def, lo, hi, word, help)                                                              \
    {                                                                                                                  \
#f, FL_KEY_REALS, def, lo, hi, word, help, offsetof(s, f), 1                                                   \
    }
#define FLI_KEY_END                                                                                                    \
    {                                                                                                                  \
        NULL, FL_KEY_BOOL, NULL, 0, 0, NULL, NULL, 0                                                                   \
    }

/* Value i of a list that has one value for all clients, or one per client. */
static inline double fli_reals_at(const fl_reals *r, size_t i) { return r->v[r->n == 1 ? 0 : i]; }
/* Whether all of its values are the same; true for an empty list. */
static inline int fli_reals_equal(const fl_reals *r)
{
    size_t i = 1;
    while (i < r->n && r->v[i] == r->v[0]) i++;
    return i >= r->n;
}

/* ---- the tree ------------------------------------------------------------------------------------------ */

typedef enum { FLI_NODE_SCALAR, FLI_NODE_LIST, FLI_NODE_MAP } fli_node_type;

typedef struct fli_node {
    fli_node_type type;
    const char *key;        /* in a map; NULL otherwise */
    const char *text;       /* scalars */
    struct fli_node *first; /* lists and maps */
    struct fli_node *next;  /* sibling */
    const char *origin;     /* a file's name, or "--set ..." */
    int line, column;       /* from 1; 0: no position */
} fli_node;

fli_node *fli_node_new(fli_arena *a, fli_node_type type, const char *key, const char *text);
void fli_node_append(fli_node *parent, fli_node *child);
size_t fli_node_count(const fli_node *parent);                 /* children of a list or map */
fli_node *fli_node_find(const fli_node *map, const char *key); /* NULL if absent, or map is NULL or no map */
/* Replaces the child with that key, or appends. */
void fli_node_put(fli_node *map, fli_node *child);
fli_node *fli_node_take(fli_node *map, const char *key); /* removes it from the map; NULL if absent */
/* Writes "file:3:7: " or "--set x=1: " or "" into buf and returns it. */
const char *fli_node_where(const fli_node *n, char *buf, size_t size);

/* ---- binding ------------------------------------------------------------------------------------------- */

typedef struct {
    const fl_key *rows; /* NULL: an empty table */
    void *out;
} fli_table;

/* Fills the structs of `count` tables from one map (NULL or an empty scalar: all defaults). Every problem adds a
 * sentence to the context's error (unknown key with a suggestion, wrong type, out of range, missing); FL_ECONFIG if
 * there was any. Strings and lists are allocated in the arena. `section` is the path for messages, "" at the top;
 * `skip` is a key that is allowed although no table has it (such as "kind"), or NULL. */
fl_status fli_bind(fl_ctx *ctx, fli_arena *a, const char *section, const fli_node *map, const char *skip,
                   const fli_table *tables, size_t count);

/* Checks the lengths of lists with one value per client, when the number of clients is known; reports all problems. */
fl_status fli_keys_check_clients(fl_ctx *ctx, const char *section, const fl_key *rows, const void *bound,
                                 size_t clients);

/* Writes word i of a choices string to buf; returns 0 past the last. */
int fli_choice_word(const char *choices, int i, char *buf, size_t size);

/* Writes a string as YAML: plain if that reads back as the same string, also within braces; else quoted. */
void fli_print_string(fli_text *t, const char *s);
/* The bound value of a row, written as YAML. */
void fli_key_print_value(fli_text *t, const fl_key *row, const void *bound);
/* The type and bounds for a person: "a number > 0", "one of: a, b". */
void fli_key_print_type(fli_text *t, const fl_key *row);
/* Help lines for a table: name, type, default, sentence; `indent` spaces in front. */
void fli_keys_print_help(fli_text *t, const fl_key *rows, int indent);

#endif
