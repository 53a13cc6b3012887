/* Sets BLAS up. Its number of threads and its choice of kernels are the only global state that fedloom changes. */
#include "vec/ops.h"

#include "base/number.h"
#include "base/os.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
/* OpenBLAS chooses its kernels by the processor's model when it is loaded. For a model newer than itself it takes its
 * oldest kernels, at a fifth of the speed. fedloom then makes it choose again, for a model that it knows. These two
 * functions are not in its header; builds for a single model lack them. */
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

/* path = the library of a function of this process; returns 0 on failure. */
static int library_of(void (*function)(void), char path[PATH_MAX])
{
    Dl_info info;
    return dladdr(*(void **)&function, &info) && info.dli_fname && realpath(info.dli_fname, path);
}

/* Path of another library whose BLAS functions replace OpenBLAS' own; empty: none. Symbols are bound when the program
 * is loaded, and the search takes long, so it is done once. */
static char other_library[PATH_MAX];

/* A process uses the first BLAS that it was linked with, or that was loaded globally. A library in OpenBLAS' folder
 * does not count: distributions have a libblas.so there that calls OpenBLAS. */
static void find_other_library(void)
{
    char own[PATH_MAX], path[PATH_MAX];
    if (!library_of((void (*)(void))openblas_set_num_threads, own)) return;
    if (!library_of((void (*)(void))cblas_dgemm, path)) return;
    const char *own_file = strrchr(own, '/'), *file = strrchr(path, '/');
    if (!own_file || !file) return;
    if (own_file - own != file - path || strncmp(own, path, (size_t)(file - path)))
        memcpy(other_library, path, strlen(path) + 1);
}

static const char *other_library_path(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_other_library);
    return *other_library ? other_library : NULL;
}

const char *fli_blas_library(void) { return "OpenBLAS"; }

void fli_blas_name(char *out, size_t room)
{
    const char *path = other_library_path(), *file = path ? strrchr(path, '/') + 1 : NULL;
    if (file)
        fli_snprintf(out, room, "BLAS of %s", file);
    else
        fli_snprintf(out, room, "OpenBLAS for %s", openblas_get_corename());
}

/* Other code in this process may have raised OpenBLAS' number of threads, so every run checks it. The number is set
 * only if it is wrong, because other threads may be calling BLAS. */
static void one_thread_per_call(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
    pthread_mutex_unlock(&lock);
}

static void warn_of_other_library(fl_ctx *ctx)
{
    const char *path = other_library_path();
    if (path)
        fli_log(ctx, FL_LOG_WARNING,
                "matrices are multiplied by %s, which was loaded before OpenBLAS: last digits differ, and its number "
                "of threads is unknown",
                path);
}

fl_status fli_blas_prepare(fl_ctx *ctx)
{
    static atomic_int had_room; /* one check is enough: BLAS keeps what it has mapped */
    one_thread_per_call();
    warn_of_other_library(ctx);
    if (had_room) return FL_OK;
    fli_limit room = fli_limit_room();
    had_room = room.bytes >= FLI_BLAS_BUFFER;
    if (had_room) return FL_OK;
    return fli_fail(ctx, FL_ENOMEM, "out of memory: BLAS reserves %.0f MiB of address space, but %s is %.0f MiB",
                    FLI_BLAS_BUFFER / 0x1p20, room.what, room.bytes / 0x1p20);
}

int fli_blas_thread_safe(void) { return openblas_get_parallel() != OPENBLAS_SEQUENTIAL; }
