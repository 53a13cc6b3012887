/* What every test file needs from cmocka, in the order it wants. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"

/* Fails with the context's sentence when `call` is not FL_OK. */
#define assert_ok(ctx, call)                                                                                           \
    do {                                                                                                               \
        fl_status status_ = (call);                                                                                    \
        if (status_ != FL_OK) fail_msg("%s: %s", #call, fl_ctx_error(ctx));                                            \
    } while (0)

/* `call` must fail with `expected` and a message that contains `text`. Clears the error. */
#define assert_fails(ctx, call, expected, text)                                                                        \
    do {                                                                                                               \
        fl_status status_ = (call);                                                                                    \
        if (status_ != (expected)) fail_msg("%s: status %d (%s)", #call, (int)status_, fl_ctx_error(ctx));             \
        if (!strstr(fl_ctx_error(ctx), (text)))                                                                        \
            fail_msg("%s: message \"%s\" lacks \"%s\"", #call, fl_ctx_error(ctx), (text));                             \
        fli_clear(ctx);                                                                                                \
    } while (0)

#define assert_near(a, b, tolerance)                                                                                   \
    do {                                                                                                               \
        double a_ = (a), b_ = (b);                                                                                     \
        if (!(fabs(a_ - b_) <= (tolerance))) fail_msg("%s = %.17g, expected %.17g", #a, a_, b_);                       \
    } while (0)

#endif
