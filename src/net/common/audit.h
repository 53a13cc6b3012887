/* The audit file of a server: who joined, was refused, dropped or revoked, and which settings changed at a restart. A
 * later change of the file is detectable.
 *
 * A line is a JSON object. Its last member, `before`, is the SHA-256 of the line before it with its line break; zeros
 * in the first line. Lines are only appended, each by one write, so a killed process loses none. An incomplete last
 * line is removed at the next start. Safe from any thread. */
#ifndef FLI_NET_COMMON_AUDIT_H
#define FLI_NET_COMMON_AUDIT_H

#include "base/digest.h"

typedef struct fli_audit fli_audit;

/* The state of a file. An incomplete last line is not counted. */
typedef struct {
    uint64_t lines, bytes;
    uint64_t broken; /* number, from 1, of the first line that does not match the digest of the one before; 0: none */
    int half;        /* the last line has no line break */
    fli_digest last; /* of the last line */
} fli_audit_sums;
/* FL_EIO: the file cannot be read. */
fl_status fli_audit_look(fl_ctx *ctx, const char *path, fli_audit_sums *out);
/* Writes why the file is broken (sums->broken is not 0) as a sentence. */
void fli_audit_wrong(const char *path, const fli_audit_sums *sums, char *sentence, size_t n);

/* Creates the file, or appends to it. A broken file is logged and continued: its first broken line stays. */
fl_status fli_audit_open(fl_ctx *ctx, const char *path, fli_audit **out);
void fli_audit_close(fli_audit *a); /* NULL is fine */
/* Enters a line of the log if its event is in the list of audit.c; `words` are key=value. A full disk is no error: once
 * there is room, the number of lost lines is entered. */
void fli_audit_enter(fli_audit *a, const char *time, const char *event, const char *words);

#endif
