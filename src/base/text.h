/* Growing text; the "did you mean" of error messages; foreign text in messages. */
#ifndef FLI_BASE_TEXT_H
#define FLI_BASE_TEXT_H

#include "base/ctx.h"
#include "fedloom_extend.h"

/* After it has run out of memory, appending does nothing; check once at the end (fli_text_ok). */
typedef struct fli_text {
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

/* "; did you mean NEAR?" for the end of a sentence, "" if `near` (from fl_nearest) is NULL. Returns `out`. */
enum { FLI_MEANT_LEN = 160 };
const char *fli_meant(const char *near, char out[FLI_MEANT_LEN]);

/* Foreign text for a message: quoted, cut, without control characters. */
typedef struct {
    char s[48];
} fli_quoted;
fli_quoted fli_quote(const char *text);

#endif
