#include "data/label_names.h"

#include "base/number.h"
#include "base/text.h"
#include "data/load.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- distinct texts ------------------------------------------------------------------------------------- */

void fli_words_init(fli_words *w, fl_ctx *ctx) { *w = (fli_words){.ctx = ctx}; }

void fli_words_fini(fli_words *w)
{
    for (size_t i = 0; i < w->n; i++) fli_free(w->word[i]);
    fli_free(w->word);
    fli_free(w->slot);
    *w = (fli_words){.ctx = w->ctx};
}

/* FNV-1a */
static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h ^ h >> 29;
}

/* The text's slot, or the free slot where it belongs. */
static size_t find_slot(const fli_words *w, const char *text)
{
    size_t at = hash(text) & (w->slots - 1);
    while (w->slot[at] && strcmp(w->word[w->slot[at] - 1], text)) at = (at + 1) & (w->slots - 1);
    return at;
}

/* Keeps the table at most half full. */
static fl_status make_room(fli_words *w)
{
    if (w->n < w->capacity) return FL_OK;
    size_t capacity = w->capacity ? 2 * w->capacity : 64;
    uint32_t *slot = fli_alloc(w->ctx, 2 * capacity, sizeof *slot);
    if (!slot) return FL_ENOMEM;
    fl_status s = fli_grow(w->ctx, (void **)&w->word, w->n, capacity, sizeof *w->word);
    if (s) {
        fli_free(slot);
        return s;
    }
    fli_free(w->slot);
    w->slot = slot;
    w->slots = 2 * capacity;
    w->capacity = capacity;
    for (size_t i = 0; i < w->n; i++) w->slot[find_slot(w, w->word[i])] = (uint32_t)i + 1;
    return FL_OK;
}

fl_status fli_words_add(fli_words *w, const char *text, uint32_t *number)
{
    fl_status s;
    if (fli_words_find(w, text, number)) return FL_OK;
    if (w->n >= INT32_MAX) return fli_fail(w->ctx, FL_EFORMAT, "more than %d distinct names", INT32_MAX);
    if ((s = make_room(w))) return s;
    char *copy = fli_strdup(w->ctx, text);
    if (!copy) return FL_ENOMEM;
    size_t at = find_slot(w, text);
    *number = (uint32_t)w->n;
    w->word[w->n++] = copy;
    w->slot[at] = (uint32_t)w->n;
    return FL_OK;
}

int fli_words_find(const fli_words *w, const char *text, uint32_t *number)
{
    if (!w->slots) return 0;
    uint32_t found = w->slot[find_slot(w, text)];
    if (found) *number = found - 1;
    return found != 0;
}

/* ---- labels --------------------------------------------------------------------------------------------- */

struct fli_label {
    double value; /* set if all labels are numbers */
    const char *text;
    uint32_t number;
    int32_t class;
};

enum { MANY = 1000 };
/* More than FEW different numbers with fewer than EACH samples each are unlikely to be classes. */
enum { FEW = 20, EACH = 10 };
#define WAY_OUT                                                                                                        \
    "for values to predict, say task: regression (with model: least_squares), for classes task: classification"

void fli_label_names_init(fli_label_names *l, fl_ctx *ctx, size_t fixed)
{
    *l = (fli_label_names){.noun = "label", .bounded = 1, .hint = "", .fixed = fixed, .classes = fixed};
    fli_words_init(&l->words, ctx);
}

void fli_groups_init(fli_label_names *l, fl_ctx *ctx)
{
    fli_label_names_init(l, ctx, 0);
    l->noun = "group";
    l->bounded = 0;
}

void fli_label_names_guess(fli_label_names *l, int client, const char *hint)
{
    l->whole = 1;
    l->few = !client;
    l->hint = hint;
}

void fli_label_names_fini(fli_label_names *l)
{
    fli_words_fini(&l->words);
    fli_free(l->sorted);
    fli_free(l->class_of);
    l->sorted = NULL;
    l->class_of = NULL;
}

static int by_value(const void *a, const void *b)
{
    const struct fli_label *p = a, *q = b;
    return (p->value > q->value) - (p->value < q->value);
}

static int by_text(const void *a, const void *b)
{
    const struct fli_label *p = a, *q = b;
    return strcmp(p->text, q->text);
}

static fl_status look_up(const fli_label_names *l, const char *text, fli_origin at, int32_t *out)
{
    struct fli_label key = {.text = text};
    uint32_t number;
    if (fli_words_find(&l->words, text, &number)) {
        *out = l->class_of[number];
        return FL_OK;
    }
    const struct fli_label *found = NULL;
    if (l->numeric && !fli_number_read(text, DBL_MAX, &key.value))
        found = bsearch(&key, l->sorted, l->words.n, sizeof key, by_value);
    if (!found)
        return fli_fail(l->words.ctx, FL_EFORMAT, FLI_AT "%s %s does not occur in the training data%s", FLI_ORIGIN(at),
                        l->noun, fli_quote(text).s,
                        l->numeric ? "; where labels are 0, 1, ..., `classes: N` takes them as they are" : "");
    *out = found->class;
    return FL_OK;
}

static fl_status read_fixed(const fli_label_names *l, const char *text, fli_origin at, int32_t *out)
{
    double v = -1;
    if (fli_number_read(text, DBL_MAX, &v) || !(v >= 0 && v < (double)l->fixed) || v != floor(v))
        return fli_fail(l->words.ctx, FL_EFORMAT,
                        FLI_AT "label %s is not a whole number in 0 .. %zu, as classes: %zu says", FLI_ORIGIN(at),
                        fli_quote(text).s, l->fixed - 1, l->fixed);
    *out = (int32_t)v;
    return FL_OK;
}

/* Checks a label on its first occurrence. */
static fl_status check_new_label(fli_label_names *l, const char *text, fli_origin at)
{
    fl_ctx *ctx = l->words.ctx;
    double v;
    const char *wrong = fli_number_read(text, DBL_MAX, &v);
    if (!*text || (wrong && strcmp(wrong, FLI_NO_NUMBER))) /* "nan" and "inf" are a failed computation, not a name */
        return fli_fail(ctx, FL_EFORMAT, FLI_AT "%s %s is neither a finite number nor a word", FLI_ORIGIN(at), l->noun,
                        fli_quote(text).s);
    if (l->whole && !wrong && v != floor(v))
        return fli_fail(ctx, FL_EFORMAT, FLI_AT "label %s is not a whole number, as classes are; " WAY_OUT "%s",
                        FLI_ORIGIN(at), fli_quote(text).s, l->hint);
    if (!l->bounded || l->words.n <= (l->few ? FEW : MANY)) return FL_OK;
    fli_snprintf(l->last, sizeof l->last, FLI_AT "label %s", FLI_ORIGIN(at), fli_quote(text).s);
    return l->words.n <= FLI_MOST_LABELS
               ? FL_OK
               : fli_fail(ctx, FL_EFORMAT, "%s is one more than the %d different ones allowed", l->last,
                          FLI_MOST_LABELS);
}

fl_status fli_label_names_read(fli_label_names *l, const char *text, fli_origin at, int32_t *out)
{
    uint32_t number = 0;
    if (l->fixed) return read_fixed(l, text, at, out);
    if (l->classes) return look_up(l, text, at, out);
    size_t before = l->words.n;
    fl_status s = fli_words_add(&l->words, text, &number);
    if (s == FL_OK && l->words.n > before) s = check_new_label(l, text, at);
    *out = (int32_t)number;
    return s;
}

fl_status fli_label_names_read_number(fli_label_names *l, double v, fli_origin at, int32_t *out)
{
    const double exact = 9007199254740992; /* 2^53: neighbours of larger numbers have the same double */
    char text[40];
    int small = v >= 0 && v < 256;
    if (v != floor(v) || fabs(v) > exact)
        return fli_fail(l->words.ctx, FL_EFORMAT, FLI_AT "%s %.17g is not a whole number up to 2^53%s", FLI_ORIGIN(at),
                        l->noun, v, l->bounded ? "; for values to predict, say task: regression" : "");
    if (small && l->quick[(int)v]) {
        *out = l->quick[(int)v] - 1;
        return FL_OK;
    }
    fli_snprintf(text, sizeof text, "%.0f", v);
    fl_status s = fli_label_names_read(l, text, at, out);
    if (s == FL_OK && small) l->quick[(int)v] = *out + 1;
    return s;
}

static fl_status check_count(const fli_label_names *l, size_t n)
{
    if (l->few && l->numeric && l->classes > FEW && (l->classes > n / EACH || l->classes > MANY))
        return fli_fail(l->words.ctx, FL_EFORMAT,
                        "%s is the last of %zu different numbers in %zu samples, too many for classes; " WAY_OUT "%s",
                        l->last, l->classes, n, l->hint);
    if (!l->bounded || l->classes <= MANY || l->classes <= n / 2) return FL_OK;
    return fli_fail(l->words.ctx, FL_EFORMAT,
                    "%s is the last of %zu different ones in %zu samples, too many for classes; for values to predict, "
                    "say task: regression, for labels `classes: N`",
                    l->last, l->classes, n);
}

fl_status fli_label_names_order(fli_label_names *l, int32_t *label, size_t n)
{
    size_t words = l->words.n;
    if (l->classes) return FL_OK;
    memset(l->quick, 0, sizeof l->quick);
    l->sorted = fli_alloc(l->words.ctx, words, sizeof *l->sorted);
    l->class_of = fli_alloc(l->words.ctx, words, sizeof *l->class_of);
    if (!l->sorted || !l->class_of) return FL_ENOMEM;
    l->numeric = 1;
    for (size_t i = 0; i < words; i++) {
        struct fli_label *w = &l->sorted[i];
        *w = (struct fli_label){.text = l->words.word[i], .number = (uint32_t)i};
        if (fli_number_read(w->text, DBL_MAX, &w->value)) l->numeric = 0;
    }
    int (*order)(const void *, const void *) = l->numeric ? by_value : by_text;
    qsort(l->sorted, words, sizeof *l->sorted, order);
    for (size_t i = 0; i < words; i++) {
        if (!i || order(&l->sorted[i - 1], &l->sorted[i])) l->classes++;
        l->sorted[i].class = (int32_t)l->classes - 1;
        l->class_of[l->sorted[i].number] = l->sorted[i].class;
    }
    for (size_t i = 0; i < n; i++) label[i] = l->class_of[label[i]];
    return check_count(l, n);
}

/* The label of each class as the file spells it first; one allocation. */
static char **spellings(const fli_label_names *l)
{
    size_t n = l->classes, bytes = 0;
    uint32_t *first = fli_alloc(l->words.ctx, n, sizeof *first);
    char **names = NULL;
    for (size_t i = 0; first && i < l->words.n; i++) {
        const struct fli_label *w = &l->sorted[i];
        uint32_t *f = &first[w->class];
        if (!*f || w->number + 1 < *f) *f = w->number + 1;
    }
    for (size_t c = 0; first && c < n; c++) bytes += strlen(l->words.word[first[c] - 1]) + 1;
    if (first) names = fli_alloc(l->words.ctx, n * sizeof *names + bytes, 1);
    char *text = (char *)(names + n);
    for (size_t c = 0; names && c < n; c++) {
        const char *word = l->words.word[first[c] - 1];
        names[c] = strcpy(text, word);
        text += strlen(word) + 1;
    }
    fli_free(first);
    return names;
}

static int numbered_from_zero(const fli_label_names *l)
{
    for (size_t i = 0; l->numeric && i < l->words.n; i++)
        if (l->sorted[i].value != l->sorted[i].class) return 0;
    return l->numeric;
}

fl_status fli_label_names_name(const fli_label_names *l, const char *path, fli_dataset *ds)
{
    if (l->fixed || numbered_from_zero(l)) return FL_OK;
    ds->class_name = spellings(l);
    ds->named_in = fli_strdup(l->words.ctx, path);
    return ds->class_name && ds->named_in ? FL_OK : FL_ENOMEM;
}

fl_status fli_label_names_note(fl_ctx *ctx, const fli_dataset *ds, const int32_t *become)
{
    enum { MOST = 10 };
    fli_text t;
    if (!ds->named_in) return FL_OK;
    fli_text_init(&t, ctx);
    for (size_t c = 0; c < ds->classes; c++) {
        if (c == MOST - 1 && ds->classes > MOST) {
            fli_text_add(&t, ", ...");
            c = ds->classes - 1;
        }
        fli_text_addf(&t, "%s%s is class %zu", c ? ", " : "", fli_quote(ds->class_name[c]).s,
                      become ? (size_t)become[c] : c);
    }
    fl_status s = fli_text_ok(&t);
    if (s == FL_OK) fli_log(ctx, FL_LOG_INFO, "%s: label %s", ds->named_in, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}
