/* What the listing and the reference share. */
#ifndef FLI_DESCRIBE_LIST_H
#define FLI_DESCRIBE_LIST_H

#include "config/registry.h"

/* How a thing is chosen in a configuration: one or two lines of YAML. */
void fli_list_example(fli_text *t, const fli_kind *kind, const fli_item *item);

/* What a thing says of itself beyond its keys: "label", "text", line by line. */
typedef void fli_fact_fn(void *arg, const char *label, const char *text);
fl_status fli_list_facts(fl_ctx *ctx, const fli_item *item, fli_fact_fn *fact, void *arg);

/* What `device` can name on this machine. */
fl_status fli_list_devices(fl_ctx *ctx, fli_text *t);

/* ---- the same as JSON (list_json.c) ---------------------------------------------------------------------- */

void fli_list_kinds_json(fli_text *t);
void fli_list_items_json(fli_text *t, const fli_kind *kind);
fl_status fli_list_item_json(fl_ctx *ctx, fli_text *t, const fli_kind *kind, const fli_item *item);
void fli_list_settings_json(fli_text *t, const char *section); /* NULL: all of them */

#endif
