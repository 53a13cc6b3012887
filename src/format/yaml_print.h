/* A tree of settings as YAML again, with remarks: what changed a file says so where it did. */
#ifndef FLI_FORMAT_YAML_PRINT_H
#define FLI_FORMAT_YAML_PRINT_H

#include "format/keys.h"

typedef struct {
    const fli_node *at;
    const char *text; /* one line */
} fli_remark;

/* `root` is a map. A remark stands behind its node's line as a comment. */
void fli_yaml_print(fli_text *t, const fli_node *root, const fli_remark *remarks, size_t count);

#endif
