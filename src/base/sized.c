#include "base/sized.h"

#include <stdint.h>
#include <string.h>

enum {
    SMALLEST = 2 * sizeof(size_t), /* the size and something else */
    MOST_NEWS = 4096               /* bytes that some later version may add: anything longer was never set */
};

fl_status fli_take_sized(fl_ctx *ctx, const char *what, const void *given, size_t size, void *into, size_t into_size)
{
    memset(into, 0, into_size);
    /* All of them are aligned like size_t, so nothing else can be a size of theirs. */
    if (size < SMALLEST || size % sizeof(size_t) || size > into_size + MOST_NEWS)
        return fli_fail(ctx, FL_ECONFIG, "%s.size is %zu, but must be sizeof(%s), which is %zu in this version", what,
                        size, what, into_size);
    const uint8_t *bytes = given;
    for (size_t i = into_size; i < size; i++)
        if (bytes[i])
            return fli_fail(ctx, FL_ECONFIG,
                            "%s has %zu bytes, and something is set beyond the %zu that this version (%s) knows", what,
                            size, into_size, FL_VERSION);
    memcpy(into, given, size < into_size ? size : into_size);
    return FL_OK;
}
