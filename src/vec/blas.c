/* The BLAS library as a whole. Its number of threads is the only global state fedloom touches. */
#include "vec/ops.h"

#include <cblas.h>
#include <pthread.h>

static void one_thread_per_call(void) { openblas_set_num_threads(1); }

void fli_blas_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, one_thread_per_call);
}

int fli_blas_thread_safe(void) { return openblas_get_parallel() != OPENBLAS_SEQUENTIAL; }
