/* A line of a table as fields. */
#ifndef FLI_DATA_FIELDS_H
#define FLI_DATA_FIELDS_H

#include "base/array.h"

/* Cuts `line` at the separator, in place; blanks around a field go, and a field may stand in double quotes (doubled
 * within), without line breaks in it. The separator ' ' is any number of blanks. `field` is an array of char *, filled
 * anew; path and number are for messages. */
fl_status fli_fields_split(fl_ctx *ctx, char *line, char separator, const char *path, size_t number, fli_array *field);

#endif
