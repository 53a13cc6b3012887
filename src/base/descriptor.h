/* Opening files. */
#ifndef FLI_BASE_DESCRIPTOR_H
#define FLI_BASE_DESCRIPTOR_H

#include <fcntl.h>
#include <stdio.h>

/* open and fopen, but never with a descriptor below 3: where a program has closed one of its standard ones, the next
 * file would get its number, and whatever is printed would land in that file. NULL or -1 with errno set. `flags` are
 * those of open. */
int fli_fd_open(const char *path, int flags, mode_t mode);
FILE *fli_file_open(const char *path, int flags);
FILE *fli_file_open_mode(const char *path, int flags, mode_t mode);
/* The same file behind a descriptor from 3 on; closes the one given if it was lower. Passes -1 on. */
int fli_fd_high(int fd);

#endif
