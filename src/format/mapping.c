#include "format/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *fli_mapping_open(int fd, uint64_t offset, size_t n, fli_mapping *m)
{
    struct stat st;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (size_t)(offset % page);
    *m = (fli_mapping){NULL, 0};
    if (!n || fstat(fd, &st) || !S_ISREG(st.st_mode)) return NULL;
    if (offset > (uint64_t)st.st_size || n > (uint64_t)st.st_size - offset) return NULL;
    void *base = mmap(NULL, before + n, PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - before));
    if (base == MAP_FAILED) return NULL;
    *m = (fli_mapping){base, before + n};
    return (char *)base + before;
}

void fli_mapping_close(fli_mapping *m)
{
    if (m->base) munmap(m->base, m->length);
    *m = (fli_mapping){NULL, 0};
}
