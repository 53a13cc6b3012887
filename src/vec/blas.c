/* The BLAS library as a whole. Its number of threads is the only global state fedloom touches. */
#include "vec/ops.h"

#include "base/limits.h"

#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>

static void one_thread_per_call(void) { openblas_set_num_threads(1); }

fl_status fli_blas_prepare(fl_ctx *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_int had_room; /* once is enough: BLAS keeps what it has mapped */
    pthread_once(&once, one_thread_per_call);
    if (had_room) return FL_OK;
    fli_limit room = fli_limit_room();
    had_room = room.bytes >= FLI_BLAS_BUFFER;
    if (had_room) return FL_OK;
    return fli_fail(ctx, FL_ENOMEM, "out of memory: BLAS reserves %.0f MiB of address space, but %s is %.0f MiB",
                    FLI_BLAS_BUFFER / 0x1p20, room.what, room.bytes / 0x1p20);
}

int fli_blas_thread_safe(void) { return openblas_get_parallel() != OPENBLAS_SEQUENTIAL; }
