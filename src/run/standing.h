/* What stands where a result is to go, and whether it is the result that is wanted: whole, finished, with these
 * settings, from these data. By determinism such a result need not be made again. */
#ifndef FLI_RUN_STANDING_H
#define FLI_RUN_STANDING_H

#include "base/digest.h"
#include "config/settings.h"

typedef enum {
    FLI_STANDS_NOTHING,
    FLI_STANDS_BROKEN,         /* files are missing, cut or changed: nobody's result */
    FLI_STANDS_STOPPED,        /* whole, of a run that was asked to stop before its end */
    FLI_STANDS_UNKNOWN,        /* a result without a manifest, or one that cannot be read: nobody knows what it is */
    FLI_STANDS_OTHER_VERSION,  /* whole, by another version of fedloom */
    FLI_STANDS_OTHER_SETTINGS, /* finished, but another run */
    FLI_STANDS_OTHER_DATA,     /* likewise, from data that have changed since */
    FLI_STANDS_SAME
} fli_standing;

/* FL_ENOMEM is the only failure. Paths of wanted settings are compared as they are written. `data` NULL:
 * the data are not compared. */
fl_status fli_standing_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                            fli_standing *out);

#endif
