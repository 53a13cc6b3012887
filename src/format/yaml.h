/* YAML into trees of settings and back, and laying one tree over another. What the keys mean is not known here: that is
 * binding (format/keys.h).
 *
 * A section is a map, usually with the key `kind`. The shorthand `algorithm: fedprox` stands for `algorithm: {kind:
 * fedprox}`; setting and merging treat both alike. A missing value (`key:`, `~`, `null`) is a scalar with the text "".
 * Anchors, aliases and tags are refused, and size, nesting and keys per map are bounded, so that no file unfolds into
 * more than it shows. */
#ifndef FLI_FORMAT_YAML_H
#define FLI_FORMAT_YAML_H

#include "format/keys.h"

/* ==== reading =============================================================================================== */

/* Reads a file into a map. Every node knows its origin, line and column; a map's entry stands where its key does. */
fl_status fli_yaml_load(fl_ctx *ctx, fli_arena *a, const char *path, fli_node **root);

/* The same from n bytes in memory; `origin` stands for the file in messages. */
fl_status fli_yaml_parse(fl_ctx *ctx, fli_arena *a, const char *origin, const char *text, size_t n, fli_node **root);

/* Applies "key=value" or "section.key=value"; the value is YAML. Sections come into being as needed. Setting a section,
 * or its `kind`, to another kind drops the section's other keys: they belonged to the old kind. Setting it to a list, a
 * map or nothing replaces it. */
fl_status fli_yaml_set(fl_ctx *ctx, fli_arena *a, const char *assignment, fli_node *root);

/* What stands at "key" or "section.key"; NULL if nothing does. */
const fli_node *fli_yaml_get(const fli_node *root, const char *path);

/* Lays `over` on `base`, both maps: `over` wins, sections merge key by key unless their kinds differ. `over` is
 * copied. */
fl_status fli_yaml_merge(fl_ctx *ctx, fli_arena *a, fli_node *base, const fli_node *over);

/* ==== printing ============================================================================================== */

/* A tree of settings as YAML again, with remarks: what changed a file says so where it did. */

typedef struct {
    const fli_node *at;
    const char *text; /* one line */
} fli_remark;

/* `root` is a map. A remark stands behind its node's line as a comment. */
void fli_yaml_print(fli_text *t, const fli_node *root, const fli_remark *remarks, size_t count);

#endif
