/* State on its way to a file and back: what checkpoints are made of. Every module writes and reads its own part; this
 * is all it sees.
 *
 * Errors are sticky in both directions, so that a part is a list of calls: ask once at the end. Whatever is read was
 * checked first: every byte of the file is under a checksum, the file appears under its name only when it is complete,
 * and a number that would lead outside of memory is refused by the code that reads it (fli_load_count). Numbers are
 * written as this machine has them. */
#ifndef FLI_FORMAT_SNAPSHOT_H
#define FLI_FORMAT_SNAPSHOT_H

#include "base/ctx.h"

typedef struct fli_saver fli_saver;

/* Begins a file that is to have that path; until fli_saver_close it is called `path`.tmp. */
fl_status fli_saver_open(fl_ctx *ctx, const char *path, fli_saver **out);
/* The same in memory: fli_saver_take, instead of fli_saver_close, hands it out, to be given back by fli_free. */
fl_status fli_saver_open_memory(fl_ctx *ctx, fli_saver **out);
fl_status fli_saver_take(fli_saver *s, unsigned char **bytes, size_t *n);
void fli_save_bytes(fli_saver *s, const void *p, size_t n);
void fli_save_count(fli_saver *s, uint64_t v);
void fli_save_real(fli_saver *s, double v);
void fli_save_text(fli_saver *s, const char *text);
/* A module's part begins; read by fli_load_part, which refuses any other. */
void fli_save_part(fli_saver *s, const char *name);
/* Whoever cannot go on (a spilled client that cannot be read) says so. */
void fli_saver_fail(fli_saver *s, fl_status status);
/* Where a state lies in several files, one of them ends with the seals of the others: their lengths, and the checksums
 * of their checksums. After fli_save_end, with which the contents of that one are on the disk. */
typedef struct {
    uint64_t bytes, checksum;
} fli_seal;
fl_status fli_save_end(fli_saver *s);
void fli_save_seal(fli_saver *s, const fli_seal *seal);
/* Puts the file in place: flushed to the disk, then renamed. Of a file with any failure nothing is left. Its own seal,
 * unless NULL. */
fl_status fli_saver_close(fli_saver *s, fli_seal *out);

typedef struct fli_loader fli_loader;

typedef struct {
    fli_seal own;
    fli_seal *others; /* that it ends with; the caller's, by fli_free */
    size_t count;
} fli_seals;

/* Reads every byte of a file and its checksums; FL_EFORMAT if one is wrong. The seals, unless NULL. */
fl_status fli_snapshot_check(fl_ctx *ctx, const char *path, fli_seals *out);

fl_status fli_loader_open(fl_ctx *ctx, const char *path, fli_loader **out);
/* Of bytes in memory, which must stay; `name` stands for the file in messages. */
fl_status fli_loader_open_memory(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_loader **out);
void fli_loader_close(fli_loader *l);
/* After a failure everything reads as zero. */
void fli_load_bytes(fli_loader *l, void *p, size_t n);
void fli_load_skip(fli_loader *l, size_t n);
uint64_t fli_load_count(fli_loader *l, uint64_t most); /* fails if it is larger than `most` */
double fli_load_real(fli_loader *l);
/* Fails if the text is another one. */
void fli_load_same(fli_loader *l, const char *text, const char *sentence);
void fli_load_part(fli_loader *l, const char *name);
/* A number that must be the one at hand, or `sentence` is what is wrong. */
void fli_load_equal(fli_loader *l, uint64_t v, const char *sentence);
/* For values that are readable and nevertheless impossible. */
fl_status fli_loader_refuse(fli_loader *l, const char *sentence);
fl_status fli_loader_status(const fli_loader *l);
/* FL_EFORMAT if something is left to be read. */
fl_status fli_loader_end(fli_loader *l);

#endif
