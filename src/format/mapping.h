/* A part of a file as memory that is only read. Its pages are those that the system has of the file anyway: processes
 * on one machine share them, and they count for nobody when memory is short.
 *
 * For a short while alone: who reads a mapped file that another process cuts short is killed by SIGBUS. */
#ifndef FLI_FORMAT_MAPPING_H
#define FLI_FORMAT_MAPPING_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *base; /* NULL: nothing is mapped */
    size_t length;
} fli_mapping;

/* Where n bytes from this offset are, or NULL: it is no plain file, or has fewer, or the system does not map it. */
void *fli_mapping_open(int fd, uint64_t offset, size_t n, fli_mapping *m);
void fli_mapping_close(fli_mapping *m);

#endif
