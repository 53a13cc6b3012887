#include "base/text.h"

#include "base/number.h"

#include <string.h>

void fli_text_init(fli_text *t, fl_ctx *ctx)
{
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
}

void fli_text_fini(fli_text *t)
{
    fli_free(t->s);
    t->s = NULL;
}

static int reserve(fli_text *t, size_t more)
{
    size_t want = t->n + more + 1;
    if (t->failed) return 0;
    if (want <= t->capacity) return 1;
    size_t capacity = want < 256 ? 256 : want + want / 2;
    if (fli_grow(t->ctx, (void **)&t->s, t->n, capacity, 1)) {
        t->failed = 1;
        return 0;
    }
    t->capacity = capacity;
    return 1;
}

void fl_text_add(fl_text *t, const char *text) { fli_text_add(t, text); }

void fli_text_addn(fli_text *t, const char *s, size_t n)
{
    if (!reserve(t, n)) return;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void fli_text_add(fli_text *t, const char *s) { fli_text_addn(t, s, strlen(s)); }

void fli_text_addf(fli_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = fli_vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(t, (size_t)n)) return;
    va_start(ap, fmt);
    fli_vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

void fli_text_json(fli_text *t, const char *s)
{
    fli_text_add(t, "\"");
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20)
            fli_text_addf(t, "\\u%04x", *s);
        else
            fli_text_addf(t, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    fli_text_add(t, "\"");
}

const char *fli_text_get(const fli_text *t) { return t->s ? t->s : ""; }

fl_status fli_text_ok(const fli_text *t) { return t->failed ? FL_ENOMEM : FL_OK; }

/* Ignores case: papers write FedAvg, configurations fedavg. */
static int same_letter(char a, char b) { return fli_upper(a) == fli_upper(b); }

/* Edit distance (insert, delete, replace, swap of neighbours), at most `limit`. */
static size_t distance(const char *a, const char *b, size_t limit)
{
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b);
    size_t d[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST || (n > m ? n - m : m - n) > limit) return limit + 1;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = d[i % 3], *above = d[(i + 2) % 3], *above2 = d[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            int swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
            if (swapped && above2[j - 2] + 1 < best) best = above2[j - 2] + 1;
            now[j] = best;
        }
    }
    return d[n % 3][m];
}

const char *fl_nearest(const char *word, fl_name_fn *next, const void *arg)
{
    size_t n = strlen(word), limit = n < 4 ? 1 : n < 8 ? 2 : 3;
    const char *name;
    size_t best = SIZE_MAX, best_distance = limit + 1;
    for (size_t i = 0; (name = next(arg, i)); i++) {
        size_t d = distance(word, name, limit);
        if (n >= 3 && d > 1 && !strncmp(word, name, n)) d = 1; /* an abbreviation */
        if (d < best_distance) {
            best_distance = d;
            best = i;
        }
    }
    return best == SIZE_MAX ? NULL : next(arg, best);
}

const char *fli_meant(const char *near, char out[FLI_MEANT_LEN])
{
    out[0] = 0;
    if (near) fli_snprintf(out, FLI_MEANT_LEN, "; did you mean %.128s?", near);
    return out;
}

fli_quoted fli_quote(const char *text)
{
    enum { MOST = 40 };
    fli_quoted out;
    size_t n = 0;
    out.s[n++] = '\'';
    for (; *text && n <= MOST; text++) out.s[n++] = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
    memcpy(out.s + n, *text ? "...'" : "'", *text ? 5 : 2);
    return out;
}
