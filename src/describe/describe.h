/* What the lists (lists.c) and the reference (reference.c) share: examples, facts, and the style of a document. */
#ifndef FLI_DESCRIBE_DESCRIBE_H
#define FLI_DESCRIBE_DESCRIBE_H

#include "config/registry.h"
#include "format/keys.h"

/* How a thing is chosen in a configuration: one or two lines of YAML. */
void fli_list_example(fli_text *t, const fli_kind *kind, const fli_item *item);

/* What a thing says of itself beyond its keys: "label", "text", line by line. */
typedef void fli_fact_fn(void *arg, const char *label, const char *text);
fl_status fli_list_facts(fl_ctx *ctx, const fli_item *item, fli_fact_fn *fact, void *arg);

/* ==== the reference ========================================================================================= */

/* The reference of all settings in one format or another: reference.c walks the tables, a style writes.
 * Texts come as the tables have them: plain, with `backticks` around what is typed. */
typedef struct {
    void (*begin)(fli_text *t); /* the page's head and a few words on what a configuration is */
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
