/* What fails: whether something ends the program, and with which words. And an error that CUDA would report. */
#ifndef FLI_TEST_FAILS_H
#define FLI_TEST_FAILS_H

#include "check.h"

#include <signal.h>
#include <sys/wait.h>

void fli_emulated_fail(int code); /* the next fli_cuda_last returns it: runtime_emulated.c */
/* This call of runtime.h from now on, counted from 1, and all later ones fail with it; with 2, CUDA's word for no
 * memory, only those that ask for memory count and fail. 0: no more. */
void fli_emulated_fail_from(size_t call, int code);

static inline int fails(void (*what)(void), const char *text)
{
    char said[4096] = "";
    size_t length = 0;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], 2);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL); /* cmocka would go on with the next test */
        signal(SIGSEGV, SIG_DFL);
        what();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)n;
    close(ends[0]);
    assert_true(waitpid(child, &status, 0) == child);
    return status != 0 && strstr(said, text) != NULL;
}

#endif
