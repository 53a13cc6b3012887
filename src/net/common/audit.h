/* The audit file of a server: who joined, was refused, dropped or revoked, and which settings changed at a restart. A
 * change of the file shows.
 *
 * A line is a JSON object whose last member, `before`, is the SHA-256 of the line before it with its line break; zeros
 * in the first line. Lines are only ever added. Each is written at once, so a process that is killed loses none; what
 * is left of half a line is removed at the next start. Safe from any thread. */
#ifndef FLI_NET_COMMON_AUDIT_H
#define FLI_NET_COMMON_AUDIT_H

#include "base/digest.h"

typedef struct fli_audit fli_audit;

/* What a file has, whole lines alone. */
typedef struct {
    uint64_t lines, bytes;
    uint64_t broken; /* the first line that does not follow from the one before, from 1; 0: all do */
    int half;        /* something without a line break follows */
    fli_digest last; /* of the last line */
} fli_audit_sums;
/* FL_EIO: it cannot be read. */
fl_status fli_audit_look(fl_ctx *ctx, const char *path, fli_audit_sums *out);
/* What is wrong with a broken one, as a sentence. */
void fli_audit_wrong(const char *path, const fli_audit_sums *sums, char *sentence, size_t n);

/* Goes on behind what the file has; makes it. A broken one is logged, and gone on with: its first broken line stays. */
fl_status fli_audit_open(fl_ctx *ctx, const char *path, fli_audit **out);
void fli_audit_close(fli_audit *a); /* NULL is fine */
/* Enters a line of the log, of words key=value, if its event is one that is entered. A disk that is full stops nobody:
 * how many lines were lost is entered when there is room. */
void fli_audit_enter(fli_audit *a, const char *time, const char *event, const char *words);

#endif
