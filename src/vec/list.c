/* All backends. To add one: a file with its table, and a line here. */
#include "vec/ops.h"

#include <string.h>

const fli_ops *const fli_ops_list[] = {&fli_ops_f32, &fli_ops_f64, NULL};

const fli_ops *fli_ops_find(const char *name)
{
    for (const fli_ops *const *p = fli_ops_list; *p; p++)
        if (!strcmp((*p)->name, name)) return *p;
    return NULL;
}
