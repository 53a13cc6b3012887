/* The BLAS library as a whole. Its number of threads and its choice of kernels are the global state that fedloom
 * touches. */
#include "vec/ops.h"

#include "base/limits.h"

#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
/* OpenBLAS looks at a processor's model when it is loaded. For a model that is newer than itself it takes its oldest
 * kernels, at a fifth of the speed, whatever instructions there are. It is then told to look again, at a model that it
 * knows. These two are not in its header; builds for a single model do not have them. */
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));

void fli_blas_look_again(const char *core)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    const char *wish = getenv(variable);
    if (!core || !gotoblas_dynamic_init || !gotoblas_dynamic_quit || (wish && *wish)) return;
    if (strcmp(openblas_get_corename(), "Prescott") || setenv(variable, core, 1)) return;
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(variable);
}
#else
void fli_blas_look_again(const char *core) { (void)core; }
#endif

const char *fli_blas_core(void) { return openblas_get_corename(); }

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
