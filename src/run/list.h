/* What the listing and the reference share. */
#ifndef FLI_RUN_LIST_H
#define FLI_RUN_LIST_H

#include "run/registry.h"

/* How a thing is chosen in a configuration: one or two lines of YAML. */
void fli_list_example(fli_text *t, const fli_kind *kind, const fli_item *item);

/* What `device` can name on this machine. */
fl_status fli_list_devices(fl_ctx *ctx, fli_text *t);

#endif
