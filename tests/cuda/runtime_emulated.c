/* runtime.h without a GPU: everything is done at once, in plain memory. */
#include "cuda/runtime.h"
#include "fails.h"

enum { OK = 0, BAD_VALUE = 1, NO_MEMORY = 2, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700 };
static int last_error;
void fli_emulated_fail(int code) { last_error = code; }

/* From a call on all of them fail, as with CUDA; or all that ask for memory. */
static size_t calls_left;
static int failure;
void fli_emulated_fail_from(size_t call, int code)
{
    calls_left = call;
    failure = code;
}
/* What the next call returns; memory: it asks for some. */
static int next(int memory_)
{
    if (!failure || (failure == NO_MEMORY && !memory_)) return OK;
    if (calls_left > 1) {
        calls_left--;
        return OK;
    }
    return failure;
}

static const double memory = 64.0 * 1024 * 1024 * 1024;

int fli_cuda_count(int *devices)
{
    *devices = 1;
    return OK;
}
int fli_cuda_use(int device) { return device ? NO_DEVICE : next(0); }
int fli_cuda_describe(int device, char *name, size_t room, double *bytes, int *major, int *minor, int *processors,
                      int *driver)
{
    if (device) return NO_DEVICE;
    snprintf(name, room, "emulated");
    *bytes = memory;
    *major = 9;
    *minor = 0;
    *processors = 2;
    *driver = 13000;
    return OK;
}
int fli_cuda_free_memory(double *bytes)
{
    *bytes = memory;
    return next(0);
}
const char *fli_cuda_error(int code)
{
    switch (code) {
    case OK: return "no error";
    case BAD_VALUE: return "invalid argument";
    case NO_MEMORY: return "out of memory";
    case NO_DEVICE: return "no such device";
    case ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    default: return "unknown error";
    }
}

/* A stream is something to have and to give back. */
int fli_cuda_stream_new(fli_cuda_stream *out)
{
    if (next(0)) return failure;
    *out = malloc(1);
    return *out ? OK : NO_MEMORY;
}
void fli_cuda_stream_free(fli_cuda_stream s) { free(s); }
int fli_cuda_wait(fli_cuda_stream s)
{
    (void)s;
    return next(0);
}
int fli_cuda_last(void)
{
    int code = last_error;
    last_error = OK;
    return code;
}

/* Not zero, so that nobody counts on zeros. */
int fli_cuda_alloc(size_t bytes, void **out)
{
    if (next(1)) return failure;
    if ((double)bytes > memory) return NO_MEMORY;
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*out) return NO_MEMORY;
    memset(*out, 0xff, bytes);
    return OK;
}
void fli_cuda_release(void *p) { free(p); }
int fli_cuda_pinned(size_t bytes, void **out) { return fli_cuda_alloc(bytes, out); }
void fli_cuda_unpin(void *p) { free(p); }

static int copy(void *to, const void *from, size_t bytes)
{
    if (next(0)) return failure;
    if (bytes) memcpy(to, from, bytes);
    return OK;
}
int fli_cuda_upload(fli_cuda_stream s, void *there, const void *here, size_t bytes)
{
    (void)s;
    return copy(there, here, bytes);
}
int fli_cuda_download(fli_cuda_stream s, void *here, const void *there, size_t bytes)
{
    (void)s;
    return copy(here, there, bytes);
}
int fli_cuda_move(fli_cuda_stream s, void *to, const void *from, size_t bytes)
{
    (void)s;
    return copy(to, from, bytes);
}
int fli_cuda_zero(fli_cuda_stream s, void *there, size_t bytes)
{
    (void)s;
    if (next(0)) return failure;
    if (bytes) memset(there, 0, bytes);
    return OK;
}
