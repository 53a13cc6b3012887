#include "net/cert/cert_index.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "fedloom certificates 1 "
static const char *const kind_name[] = {"server", "client", "viewer"};

const char *fli_cert_kind_name(fli_cert_kind kind) { return kind_name[kind]; }

void fli_cert_index_init(fli_cert_index *x, fl_ctx *ctx)
{
    memset(x, 0, sizeof *x);
    x->ctx = ctx;
}

void fli_cert_index_fini(fli_cert_index *x)
{
    fli_free(x->line);
    x->line = NULL;
    x->lines = x->capacity = 0;
}

int fli_cert_host_ok(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:*-";
    size_t n = strlen(host);
    return n && n <= FLI_CERT_HOST_MAX && strspn(host, allowed) == n && *host != '-' && *host != '.';
}

fl_status fli_cert_index_add(fli_cert_index *x, const fli_cert_line *line)
{
    if (x->lines == x->capacity) {
        size_t more = x->capacity ? 2 * x->capacity : 64;
        fl_status s = fli_grow(x->ctx, (void **)&x->line, x->capacity, more, sizeof *x->line);
        if (s) return s;
        x->capacity = more;
    }
    x->line[x->lines++] = *line;
    return FL_OK;
}

/* Up to the next space or the line's end; NULL: there is no word, or it does not fit into n bytes as text. */
static const char *take_word(const char *at, const char *end, char *word, size_t n)
{
    size_t length = 0;
    while (at + length < end && at[length] != ' ') length++;
    if (!length || length >= n || memchr(at, 0, length)) return NULL;
    memcpy(word, at, length);
    word[length] = 0;
    return at + length < end ? at + length + 1 : end;
}

static int read_number(const char *word, int64_t *out)
{
    size_t n = strspn(word, "0123456789");
    if (!n || n > 18 || word[n]) return 0;
    *out = strtoll(word, NULL, 10);
    return 1;
}

static int read_kind(const char *word, fli_cert_kind *out)
{
    for (size_t k = 0; k < sizeof kind_name / sizeof *kind_name; k++)
        if (!strcmp(word, kind_name[k])) return *out = (fli_cert_kind)k, 1;
    return 0;
}

static int read_line(const char *at, const char *end, fli_cert_line *line)
{
    char kind[16], ends[24], revoked[24];
    memset(line, 0, sizeof *line);
    if (at < end && end[-1] == ' ') return 0;
    at = take_word(at, end, line->serial, sizeof line->serial);
    if (at) at = take_word(at, end, kind, sizeof kind);
    if (at) at = take_word(at, end, line->name, sizeof line->name);
    if (at) at = take_word(at, end, ends, sizeof ends);
    if (at) at = take_word(at, end, revoked, sizeof revoked);
    return at == end && strlen(line->serial) == 2 * FLI_CERT_SERIAL &&
           strspn(line->serial, "0123456789abcdef") == 2 * FLI_CERT_SERIAL && read_kind(kind, &line->kind) &&
           fli_cert_host_ok(line->name) && read_number(ends, &line->ends) && read_number(revoked, &line->revoked);
}

static int read_head(const char *at, const char *end, uint64_t *list)
{
    char word[24];
    int64_t number;
    size_t n = strlen(HEAD);
    if ((size_t)(end - at) <= n || memcmp(at, HEAD, n)) return 0;
    if (take_word(at + n, end, word, sizeof word) != end || !read_number(word, &number)) return 0;
    *list = (uint64_t)number;
    return 1;
}

fl_status fli_cert_index_parse(fli_cert_index *x, const char *name, const char *text, size_t n)
{
    const char *at = text, *stop = text + n;
    fl_status s = FL_OK;
    for (size_t number = 1; !s && (at < stop || number == 1); number++) {
        fli_cert_line line;
        const char *end = at < stop ? memchr(at, '\n', (size_t)(stop - at)) : NULL;
        if (!end || !(number == 1 ? read_head(at, end, &x->list) : read_line(at, end, &line)))
            return fli_fail(x->ctx, FL_EFORMAT, "%s:%zu: is not a line of an index of certificates", name, number);
        if (number > 1) s = fli_cert_index_add(x, &line);
        at = end + 1;
    }
    return s;
}

fl_status fli_cert_index_load(fli_cert_index *x, const char *path)
{
    char *text;
    size_t n = 0;
    fl_status s = fli_file_read(x->ctx, path, FLI_CERT_INDEX_MOST, &text, &n);
    if (!s) s = fli_cert_index_parse(x, path, text, n);
    fli_free(text);
    return s;
}

fl_status fli_cert_index_save(const fli_cert_index *x, const char *path)
{
    fli_text t;
    fli_text_init(&t, x->ctx);
    fli_text_addf(&t, HEAD "%llu\n", (unsigned long long)x->list);
    for (size_t i = 0; i < x->lines; i++) {
        const fli_cert_line *l = x->line + i;
        fli_text_addf(&t, "%s %s %s %lld %lld\n", l->serial, kind_name[l->kind], l->name, (long long)l->ends,
                      (long long)l->revoked);
    }
    fl_status s = fli_text_ok(&t);
    if (!s) s = fli_file_private(x->ctx, path, t.s, t.n);
    fli_text_fini(&t);
    return s;
}

const fli_cert_line *fli_cert_index_holding(const fli_cert_index *x, fli_cert_kind kind, const char *name, int64_t now)
{
    for (size_t i = x->lines; i--;) {
        const fli_cert_line *l = x->line + i;
        if (l->kind == kind && !strcmp(l->name, name) && !l->revoked && l->ends > now) return l;
    }
    return NULL;
}
