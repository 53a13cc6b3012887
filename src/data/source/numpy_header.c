/* The header of NumPy's .npy arrays, in Python syntax: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784),
 * }. */
#include "data/source/numpy.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie in the file");

enum { LONGEST_HEADER = 1 << 20 };

/* ---- the text ------------------------------------------------------------------------------------------- */

/* A place in the header's text. */
typedef struct {
    const char *p;
} cursor;

static void skip_blanks(cursor *c) { c->p += strspn(c->p, " \t\n\r"); }

static int take(cursor *c, const char *word)
{
    skip_blanks(c);
    size_t n = strlen(word);
    if (strncmp(c->p, word, n)) return 0;
    c->p += n;
    return 1;
}

/* 'text' or "text" of at most FLI_NUMPY_TYPE characters. */
static int take_string(cursor *c, char *out)
{
    skip_blanks(c);
    char quote = *c->p;
    if (quote != '\'' && quote != '"') return 0;
    size_t n = 0;
    for (c->p++; *c->p && *c->p != quote && n < FLI_NUMPY_TYPE; c->p++) out[n++] = *c->p;
    out[n] = 0;
    return *c->p == quote ? (c->p++, 1) : 0;
}

static int take_size(cursor *c, uint64_t *out)
{
    skip_blanks(c);
    uint64_t v = 0;
    const char *start = c->p;
    for (; *c->p >= '0' && *c->p <= '9' && v < UINT64_MAX / 100; c->p++) v = 10 * v + (uint64_t)(*c->p - '0');
    *out = v;
    return c->p > start && (*c->p < '0' || *c->p > '9');
}

/* (), (3,) or (3, 4) */
static int take_shape(cursor *c, fli_numpy *h)
{
    if (!take(c, "(")) return 0;
    for (h->dims = 0; !take(c, ")"); h->dims++) {
        if (h->dims == FLI_NUMPY_DIMS || !take_size(c, &h->size[h->dims])) return 0;
        if (!take(c, ",")) {
            h->dims++;
            return take(c, ")");
        }
    }
    return 1;
}

/* A type with named fields is a list: passed over, so that it can be refused by name. */
static int take_fields(cursor *c, fli_numpy *h)
{
    size_t depth = 0;
    char quote = 0;
    skip_blanks(c);
    if (*c->p != '[') return 0;
    do {
        if (!*c->p) return 0;
        if (quote)
            quote = *c->p == quote ? 0 : quote;
        else if (*c->p == '\'' || *c->p == '"')
            quote = *c->p;
        else
            depth += (size_t)(*c->p == '[') - (size_t)(*c->p == ']');
        c->p++;
    } while (depth);
    strcpy(h->type, "[...]");
    return 1;
}

/* One pair of the dictionary; `seen` gets a bit for its key. */
static int take_pair(cursor *c, fli_numpy *h, unsigned *seen)
{
    char key[FLI_NUMPY_TYPE + 1];
    if (!take_string(c, key) || !take(c, ":")) return 0;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        return take_fields(c, h) || take_string(c, h->type);
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= 2;
        h->fortran = take(c, "True");
        return h->fortran || take(c, "False");
    }
    if (strcmp(key, "shape")) return 0;
    *seen |= 4;
    return take_shape(c, h);
}

static int parse(cursor *c, fli_numpy *h)
{
    unsigned seen = 0;
    int more = 1;
    if (!take(c, "{")) return 0;
    while (more && !take(c, "}")) {
        if (!take_pair(c, h, &seen)) return 0;
        more = take(c, ",");
        if (!more && !take(c, "}")) return 0;
    }
    skip_blanks(c);
    return seen == 7 && !*c->p;
}

/* The text after the magic, terminated. */
static fl_status read_text(fl_ctx *ctx, fli_stream *s, char **text, size_t *length)
{
    uint8_t b[8], l[4] = {0};
    const char *path = fli_stream_path(s);
    fl_status status = fli_stream_need(s, b, 8, "an NPY header");
    if (status) return status;
    if (memcmp(b, "\x93NUMPY", 6))
        return fli_fail(ctx, FL_EFORMAT, "%s: does not start as an NPY file at offset 0", path);
    if (b[6] < 1 || b[6] > 3 || b[7])
        return fli_fail(ctx, FL_EFORMAT, "%s: is of NPY version %u.%u at offset 6, not 1.0, 2.0 or 3.0", path, b[6],
                        b[7]);
    if ((status = fli_stream_need(s, l, b[6] == 1 ? 2 : 4, "the length of the NPY header"))) return status;
    *length = l[0] | (size_t)l[1] << 8 | (size_t)l[2] << 16 | (size_t)l[3] << 24;
    if (*length > LONGEST_HEADER)
        return fli_fail(ctx, FL_EFORMAT, "%s: the header length at offset 8 is %zu, more than 1 MiB", path, *length);
    *text = fli_alloc(ctx, *length + 1, 1);
    return *text ? fli_stream_need(s, *text, *length, "the NPY header") : FL_ENOMEM;
}

/* ---- the type ------------------------------------------------------------------------------------------- */

/* What a type that is refused holds. */
static const char *foreign(const char *type)
{
    static const struct {
        char kind;
        const char *what;
    } known[] = {{'c', "complex numbers"}, {'O', "Python objects"}, {'S', "texts"},    {'a', "texts"},
                 {'U', "texts"},           {'T', "texts"},          {'M', "dates"},    {'m', "time spans"},
                 {'V', "records"},         {'f', "floats"},         {'i', "integers"}, {'u', "integers"}};
    if (*type == '[') return "records";
    for (size_t i = 0; *type && i < sizeof known / sizeof *known; i++)
        if (type[1] == known[i].kind) return known[i].what;
    return "values";
}

/* A byte order ('<' ours, '>' the other, '|' and '=' whichever), a kind and a width. */
static int read_type(fli_numpy *h)
{
    const char *t = h->type;
    static const char *const widths[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"};
    if (!*t || !strchr("<>|=", *t)) return 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (!strcmp(t + 1, widths[i])) h->kind = t[1];
    h->width = h->kind ? (size_t)(t[2] - '0') : 0;
    h->swapped = *t == '>' && h->width > 1;
    return h->kind != 0;
}

fl_status fli_numpy_header(fl_ctx *ctx, fli_stream *s, fli_numpy *h)
{
    char *text = NULL;
    size_t length = 0;
    fl_status status = read_text(ctx, s, &text, &length);
    memset(h, 0, sizeof *h);
    if (status == FL_OK) {
        cursor c = {text};
        if (!parse(&c, h) || c.p != text + length)
            status =
                fli_fail(ctx, FL_EFORMAT, "%s: the NPY header is not understood at offset %" PRIu64 ": %s",
                         fli_stream_path(s), fli_stream_offset(s) - length + (uint64_t)(c.p - text), fli_show(c.p).s);
        else if (!read_type(h))
            status = fli_fail(ctx, FL_EFORMAT,
                              "%s: holds %s of type %s, but must be an array " FLI_NUMPY_TYPES
                              "; convert it, for instance by %s",
                              fli_stream_path(s), foreign(h->type), fli_show(h->type).s,
                              strcmp(foreign(h->type), "texts") ? ".astype(\"float32\")"
                                                                : "numpy.unique(labels, return_inverse=True)[1]");
    }
    fli_free(text);
    return status;
}
