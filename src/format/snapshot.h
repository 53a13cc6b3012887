/* State written to a file and read back, for checkpoints. Every module writes and reads its own part through this
 * interface.
 *
 * Errors are sticky in both directions, so that a part is a list of calls: check once at the end. All input is checked
 * before it is returned: every byte of the file is covered by a checksum, the file appears under its name only when it
 * is complete, and the code that reads a number refuses one that would exceed an array (fli_load_count). Numbers have
 * this machine's representation. */
#ifndef FLI_FORMAT_SNAPSHOT_H
#define FLI_FORMAT_SNAPSHOT_H

#include "base/ctx.h"

typedef struct fli_saver fli_saver;

/* Begins a file for that path; until fli_saver_close it is called `path`.tmp. */
fl_status fli_saver_open(fl_ctx *ctx, const char *path, fli_saver **out);
/* The same in memory: fli_saver_take, instead of fli_saver_close, returns it; the caller frees it with fli_free. */
fl_status fli_saver_open_memory(fl_ctx *ctx, fli_saver **out);
fl_status fli_saver_take(fli_saver *s, unsigned char **bytes, size_t *n);
void fli_save_bytes(fli_saver *s, const void *p, size_t n);
void fli_save_count(fli_saver *s, uint64_t v);
void fli_save_real(fli_saver *s, double v);
void fli_save_text(fli_saver *s, const char *text);
/* Begins a module's part; fli_load_part checks the name. */
void fli_save_part(fli_saver *s, const char *name);
/* Reports a failure outside of the saver, such as a spilled client that cannot be read. */
void fli_saver_fail(fli_saver *s, fl_status status);
/* The length of a file, and the checksum of its checksums. If a state consists of several files, one of them ends with
 * the seals of the others, written after fli_save_end, which flushes its contents to disk. */
typedef struct {
    uint64_t bytes, checksum;
} fli_seal;
fl_status fli_save_end(fli_saver *s);
void fli_save_seal(fli_saver *s, const fli_seal *seal);
/* Flushes the file to disk and renames it. After any failure it removes the file. *out: its seal; may be NULL. */
fl_status fli_saver_close(fli_saver *s, fli_seal *out);

typedef struct fli_loader fli_loader;

typedef struct {
    fli_seal own;
    fli_seal *others; /* the seals of other files at its end; freed by the caller with fli_free */
    size_t count;
} fli_seals;

/* Reads every byte of a file and its checksums; FL_EFORMAT if one is wrong. Unless NULL, *out receives the seals. */
fl_status fli_snapshot_check(fl_ctx *ctx, const char *path, fli_seals *out);

fl_status fli_loader_open(fl_ctx *ctx, const char *path, fli_loader **out);
/* Reads from memory, which must stay valid; messages call it `name`. */
fl_status fli_loader_open_memory(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_loader **out);
void fli_loader_close(fli_loader *l);
/* After a failure all values read as zero. */
void fli_load_bytes(fli_loader *l, void *p, size_t n);
void fli_load_skip(fli_loader *l, size_t n);
uint64_t fli_load_count(fli_loader *l, uint64_t most); /* fails if it is greater than `most` */
double fli_load_real(fli_loader *l);
/* Fails with the sentence if the text differs. */
void fli_load_same(fli_loader *l, const char *text, const char *sentence);
void fli_load_part(fli_loader *l, const char *name);
/* Fails with the sentence if the number is not v. */
void fli_load_equal(fli_loader *l, uint64_t v, const char *sentence);
/* For values that are readable but impossible. */
fl_status fli_loader_refuse(fli_loader *l, const char *sentence);
fl_status fli_loader_status(const fli_loader *l);
/* FL_EFORMAT if data are left. */
fl_status fli_loader_end(fli_loader *l);

#endif
