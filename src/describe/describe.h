/* What the lists (lists.c) and the reference (reference.c) share: examples, facts, and the style of a document. */
#ifndef FLI_DESCRIBE_DESCRIBE_H
#define FLI_DESCRIBE_DESCRIBE_H

#include "config/registry.h"
#include "format/keys.h"

/* Prints how a configuration chooses a thing: one or two lines of YAML. */
void fli_list_example(fli_text *t, const fli_kind *kind, const fli_item *item);

/* Receives a thing's facts besides its keys, line by line: "label", "text". */
typedef void fli_fact_fn(void *arg, const char *label, const char *text);
fl_status fli_list_facts(fl_ctx *ctx, const fli_item *item, fli_fact_fn *fact, void *arg);

/* ==== the reference ========================================================================================= */

/* A format of the reference of all settings: reference.c walks the tables, and the style writes. Texts are those of the
 * tables: plain, with `backticks` around literal input. */
typedef struct {
    void (*begin)(fli_text *t); /* the page's head and an introduction to configurations */
    void (*end)(fli_text *t);
    void (*heading)(fli_text *t, int level, const char *text); /* 1: a part, 2: a thing of it */
    void (*paragraph)(fli_text *t, const char *text);
    void (*facts_begin)(fli_text *t);
    void (*fact)(fli_text *t, const char *label, const char *text); /* a short line about the thing */
    void (*example)(fli_text *t, const char *lines);
    void (*keys_begin)(fli_text *t);
    void (*key)(fli_text *t, const fl_key *row);
    void (*keys_end)(fli_text *t);
} fli_reference_style;

extern const fli_reference_style fli_reference_markdown, fli_reference_man;

#endif
