/* Memory there for a test of kernels, and a stream, from stream_begin to stream_end (a group's setup and teardown). All
 * calls must succeed. */
#ifndef FLI_TEST_DEVICE_MEMORY_H
#define FLI_TEST_DEVICE_MEMORY_H

#include "check.h"
#include "cuda/runtime.h"

static fli_cuda_stream the_stream;
static inline fli_cuda_stream stream(void) { return the_stream; }

static inline int stream_begin(void **state)
{
    (void)state;
    return fli_cuda_use(0) || fli_cuda_stream_new(&the_stream);
}
static inline int stream_end(void **state)
{
    (void)state;
    int rc = fli_cuda_wait(the_stream) || fli_cuda_last();
    fli_cuda_stream_free(the_stream);
    return rc;
}

/* A copy of `from` there, or with NULL memory whose contents nobody may count on; fli_cuda_release. */
static inline void *there(size_t bytes, const void *from)
{
    void *p = NULL;
    assert_int_equal(fli_cuda_alloc(bytes, &p), 0);
    void *nan = from ? NULL : malloc(bytes);
    if (nan) memset(nan, 0xff, bytes);
    assert_int_equal(fli_cuda_upload(the_stream, p, from ? from : nan, bytes), 0);
    assert_int_equal(fli_cuda_wait(the_stream), 0);
    free(nan);
    return p;
}

/* What is there when all that the stream was given is done. */
static inline void here(size_t bytes, const void *from, void *to)
{
    assert_int_equal(fli_cuda_last(), 0);
    assert_int_equal(fli_cuda_download(the_stream, to, from, bytes), 0);
    assert_int_equal(fli_cuda_wait(the_stream), 0);
}

#endif
