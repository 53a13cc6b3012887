/* The reference of all settings in one format or another: reference.c walks the tables, a style writes. */
#ifndef FLI_DESCRIBE_REFERENCE_H
#define FLI_DESCRIBE_REFERENCE_H

#include "format/keys.h"

/* Texts come as the tables have them: plain, with `backticks` around what is typed. */
typedef struct {
    void (*begin)(fli_text *t); /* the page's head and a few words on what a configuration is */
    void (*end)(fli_text *t);
    void (*heading)(fli_text *t, int level, const char *text); /* 1: a part, 2: a thing of it */
    void (*paragraph)(fli_text *t, const char *text);
    void (*facts_begin)(fli_text *t);
    void (*fact)(fli_text *t, const char *label, const char *text); /* a short line about the thing */
    void (*example)(fli_text *t, const char *lines);
    void (*keys_begin)(fli_text *t);
    void (*key)(fli_text *t, const fli_key *row);
    void (*keys_end)(fli_text *t);
} fli_reference_style;

extern const fli_reference_style fli_reference_markdown, fli_reference_man;

/* Notes on what is done to features, and on files, beside the tables. */
void fli_reference_notes(fli_text *t, const fli_reference_style *style);

/* How a default is shown: "0.1", "must be given", "none". */
const char *fli_reference_default(const fli_key *row);

#endif
