/* Foreign text and numbers, made safe for XML, HTML and JSON. */
#ifndef FLI_REPORT_MARKUP_H
#define FLI_REPORT_MARKUP_H

#include "base/text.h"

/* Text or attribute value: & < > " ' as entities. What XML cannot carry (control characters, broken UTF-8) becomes
 * U+FFFD. */
void fli_markup_text(fli_text *t, const char *s);
/* The first `n` bytes of such a text. */
void fli_markup_some(fli_text *t, const char *s, size_t n);
/* A JSON string with its quotes, safe inside <script>: no '<', '>' or '&' remains. */
void fli_markup_json(fli_text *t, const char *s);
/* A coordinate: one decimal, none if it is 0. */
void fli_markup_number(fli_text *t, double v);
/* Characters (not bytes) of a UTF-8 text; a broken byte counts as one. */
size_t fli_markup_length(const char *s);
/* The first `n` characters, escaped; an ellipsis takes the last place if the text is longer. */
void fli_markup_clip(fli_text *t, const char *s, size_t n);

#endif
