#include "data/names.h"

#include "base/text.h"
#include "data/load.h"

#include <float.h>
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

/* Where the text is, or the free slot where it belongs. */
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
    double value; /* if all are numbers */
    const char *text;
    uint32_t number;
    int32_t class;
};

void fli_labels_init(fli_labels *l, fl_ctx *ctx, const char *noun, size_t most)
{
    *l = (fli_labels){.noun = noun, .most = most};
    fli_words_init(&l->words, ctx);
}

void fli_labels_fini(fli_labels *l)
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

static fl_status look_up(const fli_labels *l, const char *text, const char *path, size_t line, int32_t *out)
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
        return fli_fail(l->words.ctx, FL_EFORMAT, "%s:%zu: %s %s does not occur in the training data", path, line,
                        l->noun, fli_show(text).s);
    *out = found->class;
    return FL_OK;
}

/* "nan" and "inf" are a failed computation, not a name. */
static int is_name(const char *text)
{
    double v;
    const char *wrong = fli_number_read(text, DBL_MAX, &v);
    return *text && (!wrong || strcmp(wrong, "is not a finite number"));
}

fl_status fli_labels_read(fli_labels *l, const char *text, const char *path, size_t line, int32_t *out)
{
    uint32_t number;
    fl_ctx *ctx = l->words.ctx;
    if (l->classes) return look_up(l, text, path, line, out);
    size_t before = l->words.n;
    fl_status s = fli_words_add(&l->words, text, &number);
    if (s) return s;
    if (l->words.n > before && !is_name(text))
        return fli_fail(ctx, FL_EFORMAT, "%s:%zu: %s %s is neither a finite number nor a word", path, line, l->noun,
                        fli_show(text).s);
    if (l->words.n > l->most)
        return fli_fail(ctx, FL_EFORMAT, "%s:%zu: %s %s is one more than the %zu different ones allowed", path, line,
                        l->noun, fli_show(text).s, l->most);
    *out = (int32_t)number;
    return FL_OK;
}

fl_status fli_labels_order(fli_labels *l, int32_t *label, size_t n)
{
    size_t words = l->words.n;
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
    return FL_OK;
}

/* The label of a class as the file has it, in the spelling met first. */
static const char *spelling(const fli_labels *l, size_t class)
{
    const struct fli_label *found = NULL;
    for (size_t i = 0; i < l->words.n; i++) {
        const struct fli_label *w = &l->sorted[i];
        if ((size_t)w->class == class && (!found || w->number < found->number)) found = w;
    }
    return found->text;
}

static int numbered_from_zero(const fli_labels *l)
{
    for (size_t i = 0; l->numeric && i < l->words.n; i++)
        if (l->sorted[i].value != l->sorted[i].class) return 0;
    return l->numeric;
}

fl_status fli_labels_log(const fli_labels *l, const char *path)
{
    enum { MOST = 10 };
    fli_text t;
    if (numbered_from_zero(l)) return FL_OK;
    fli_text_init(&t, l->words.ctx);
    for (size_t c = 0; c < l->classes; c++) {
        if (c == MOST - 1 && l->classes > MOST) {
            fli_text_add(&t, ", ...");
            c = l->classes - 1;
        }
        fli_text_addf(&t, "%s%s is class %zu", c ? ", " : "", fli_show(spelling(l, c)).s, c);
    }
    fl_status s = fli_text_ok(&t);
    if (s == FL_OK) fli_log(l->words.ctx, FL_LOG_INFO, "%s: %s %s", path, l->noun, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}
