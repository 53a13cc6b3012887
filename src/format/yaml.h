/* YAML into trees of settings and back, and merging of trees. The meaning of keys is not known here: binding
 * (format/keys.h) gives it.
 *
 * A section is a map, usually with the key `kind`. The shorthand `algorithm: fedprox` stands for `algorithm: {kind:
 * fedprox}`; setting and merging treat both alike. A missing value (`key:`, `~`, `null`) is a scalar with the text "".
 * Anchors, aliases and tags are refused, and size, nesting and keys per map are bounded, so that the memory for a file
 * is in proportion to its size. */
#ifndef FLI_FORMAT_YAML_H
#define FLI_FORMAT_YAML_H

#include "format/keys.h"

/* ==== reading =============================================================================================== */

/* Reads a file into a map. Every node has its origin, line and column; a map's entry has those of its key. */
fl_status fli_yaml_load(fl_ctx *ctx, fli_arena *a, const char *path, fli_node **root);

/* The same from n bytes in memory; messages call them `origin`. */
fl_status fli_yaml_parse(fl_ctx *ctx, fli_arena *a, const char *origin, const char *text, size_t n, fli_node **root);

/* Applies "key=value" or "section.key=value"; the value is YAML. Missing sections are made. Setting a section, or its
 * `kind`, to another kind drops the section's other keys, which belong to the old kind. Setting it to a list, a map or
 * nothing replaces it. */
fl_status fli_yaml_set(fl_ctx *ctx, fli_arena *a, const char *assignment, fli_node *root);

/* The node at "key" or "section.key", or NULL. */
const fli_node *fli_yaml_get(const fli_node *root, const char *path);

/* Merges `over` into `base`, both maps: values of `over` win, sections merge key by key unless their kinds differ.
 * `over` is copied. */
fl_status fli_yaml_merge(fl_ctx *ctx, fli_arena *a, fli_node *base, const fli_node *over);

/* ==== printing ============================================================================================== */

/* Prints a tree of settings as YAML, with remarks, which tell where and why a file was changed. */

typedef struct {
    const fli_node *at;
    const char *text; /* one line */
} fli_remark;

/* `root` is a map. A remark is printed as a comment behind its node's line. */
void fli_yaml_print(fli_text *t, const fli_node *root, const fli_remark *remarks, size_t count);

#endif
