/* JSON, value by value, into a growing text. This file writes commas, indentation and escapes.
 *
 *     fli_json_map(&j, NULL);
 *     fli_json_real(&j, "mean", 0.1);
 *     fli_json_end(&j);
 *
 * `key` is NULL in a list, and for the document itself. */
#ifndef FLI_FORMAT_JSON_H
#define FLI_FORMAT_JSON_H

#include "base/text.h"

#include <stdint.h>

enum { FLI_JSON_DEEPEST = 16 };

typedef struct {
    fli_text *t;
    int depth;
    char closing[FLI_JSON_DEEPEST]; /* of each open map or list */
    int filled[FLI_JSON_DEEPEST];   /* whether it has an entry */
} fli_json;

void fli_json_init(fli_json *j, fli_text *t);
void fli_json_map(fli_json *j, const char *key);
void fli_json_list(fli_json *j, const char *key);
void fli_json_end(fli_json *j);                                  /* closes the innermost map or list */
void fli_json_text(fli_json *j, const char *key, const char *s); /* NULL: null */
void fli_json_real(fli_json *j, const char *key, double v);      /* all its digits; not finite: null */
void fli_json_whole(fli_json *j, const char *key, uint64_t v);
void fli_json_truth(fli_json *j, const char *key, int v);

#endif
