/* Growing text, and the "did you mean" behind error messages. */
#ifndef FLI_BASE_TEXT_H
#define FLI_BASE_TEXT_H

#include "base/ctx.h"

/* Appending to a text that ran out of memory does nothing; ask once at the end (fli_text_ok). */
typedef struct {
    fl_ctx *ctx;
    char *s; /* always terminated once something was added; NULL before */
    size_t n, capacity;
    int failed;
} fli_text;

void fli_text_init(fli_text *t, fl_ctx *ctx);
void fli_text_fini(fli_text *t);
void fli_text_add(fli_text *t, const char *s);
void fli_text_addn(fli_text *t, const char *s, size_t n);
void fli_text_addf(fli_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fli_text_json(fli_text *t, const char *s); /* a JSON string, quotes included */
const char *fli_text_get(const fli_text *t);    /* "" when empty */
fl_status fli_text_ok(const fli_text *t);

/* The candidate nearest to `word`, NULL if none is near. Candidates come from `next(arg, i)`, NULL at the end. */
typedef const char *fli_name_fn(const void *arg, size_t i);
const char *fli_nearest(const char *word, fli_name_fn *next, const void *arg);

#endif
