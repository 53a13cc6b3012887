/* The file: eight bytes that name the format, then frames
 *
 *     length: u32 | checksum of (number of the frame, length, contents): u32 | contents
 *
 * The last frame is empty and ends the file. Seals of other files have frames of their own, which follow one without
 * contents whose length is MORE. Flipped bits, and missing, swapped and additional frames are detected. */
#include "format/snapshot.h"

#include "base/digest.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAME = 1 << 18 };
#define MORE UINT32_MAX

static const char magic[8] = "fedloom\1"; /* the last byte is the format's version */

typedef struct {
    uint32_t length, checksum;
} head;

static uint32_t contents(uint32_t length) { return length == MORE ? 0 : length; }

static uint32_t checksum(uint64_t number, uint32_t length, const void *frame)
{
    uint32_t crc = fli_crc32c_more(0, &number, sizeof number);
    crc = fli_crc32c_more(crc, &length, sizeof length);
    return fli_crc32c_more(crc, frame, contents(length));
}

/* Adds a frame to the file's seal. */
static void pass_frame(const head *h, fli_seal *all)
{
    all->bytes += sizeof *h + contents(h->length);
    all->checksum = fli_crc32c_more((uint32_t)all->checksum, &h->checksum, sizeof h->checksum);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

struct fli_saver {
    fl_ctx *ctx;
    char *path, *temporary;
    FILE *f;
    char *memory; /* instead of a file; from the C library */
    size_t bytes; /* its size */
    fl_status status;
    uint64_t number;
    fli_seal seal;
    size_t used;
    unsigned char frame[FRAME];
};

static void saver_free(fli_saver *s)
{
    if (s->f) fclose(s->f);
    if (s->temporary) unlink(s->temporary);
    free(s->memory);
    fli_free(s->path);
    fli_free(s->temporary);
    fli_free(s);
}

static fl_status cannot_write(fli_saver *s)
{
    return s->status = fli_fail(s->ctx, FL_EIO, "%s: cannot be written: %s", s->path, strerror(errno ? errno : EIO));
}

static void put(fli_saver *s, const void *p, size_t n)
{
    errno = 0;
    if (!s->status && n && fwrite(p, 1, n, s->f) != n) cannot_write(s);
}

static void put_frame(fli_saver *s, uint32_t length)
{
    head h = {length, checksum(s->number++, length, s->frame)};
    put(s, &h, sizeof h);
    put(s, s->frame, contents(length));
    pass_frame(&h, &s->seal);
    s->used = 0;
}

/* Writes the rest as a frame, and the mark of the end. */
static void put_end(fli_saver *s, uint32_t length)
{
    if (s->used) put_frame(s, (uint32_t)s->used);
    put_frame(s, length);
}

/* Flushes all that was written to disk. */
static void flush(fli_saver *s)
{
    errno = 0;
    if (!s->status && (fflush(s->f) || fsync(fileno(s->f)))) cannot_write(s);
}

fl_status fli_saver_open(fl_ctx *ctx, const char *path, fli_saver **out)
{
    fli_saver *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->path = fli_strdup(ctx, path);
    char *temporary = fli_strf(ctx, "%s.tmp", path);
    fl_status status = s->path && temporary ? FL_OK : FL_ENOMEM;
    if (!status && !(s->f = fli_file_open(temporary, O_WRONLY | O_CREAT | O_TRUNC))) status = cannot_write(s);
    if (status) {
        fli_free(temporary);
        saver_free(s);
        return status;
    }
    s->temporary = temporary;
    put(s, magic, sizeof magic);
    s->seal.bytes = sizeof magic;
    *out = s;
    return FL_OK;
}

fl_status fli_saver_open_memory(fl_ctx *ctx, fli_saver **out)
{
    fli_saver *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    if (!(s->path = fli_strdup(ctx, "memory")) || !(s->f = open_memstream(&s->memory, &s->bytes))) {
        saver_free(s);
        return fli_fail(ctx, FL_ENOMEM, "out of memory");
    }
    put(s, magic, sizeof magic);
    *out = s;
    return FL_OK;
}

fl_status fli_saver_take(fli_saver *s, unsigned char **bytes, size_t *n)
{
    put_end(s, 0);
    errno = 0;
    if (!s->status && fflush(s->f)) cannot_write(s);
    *bytes = s->status ? NULL : fli_alloc(s->ctx, s->bytes, 1);
    fl_status status = s->status ? s->status : *bytes ? FL_OK : FL_ENOMEM;
    if (*bytes) memcpy(*bytes, s->memory, *n = s->bytes);
    saver_free(s);
    return status;
}

void fli_save_bytes(fli_saver *s, const void *p, size_t n)
{
    const unsigned char *from = p;
    while (n && !s->status) {
        size_t piece = FRAME - s->used < n ? FRAME - s->used : n;
        memcpy(s->frame + s->used, from, piece);
        s->used += piece;
        from += piece;
        n -= piece;
        if (s->used == FRAME) put_frame(s, FRAME);
    }
}

void fli_save_count(fli_saver *s, uint64_t v) { fli_save_bytes(s, &v, sizeof v); }
void fli_save_real(fli_saver *s, double v) { fli_save_bytes(s, &v, sizeof v); }
void fli_save_part(fli_saver *s, const char *name) { fli_save_text(s, name); }

void fli_save_text(fli_saver *s, const char *text)
{
    fli_save_count(s, strlen(text));
    fli_save_bytes(s, text, strlen(text));
}

void fli_saver_fail(fli_saver *s, fl_status status)
{
    if (!s->status) s->status = status;
}

fl_status fli_save_end(fli_saver *s)
{
    put_end(s, MORE);
    flush(s);
    return s->status;
}

void fli_save_seal(fli_saver *s, const fli_seal *seal) { fli_save_bytes(s, seal, sizeof *seal); }

fl_status fli_saver_close(fli_saver *s, fli_seal *out)
{
    put_end(s, 0);
    flush(s);
    if (out) *out = s->seal;
    int broken = fclose(s->f);
    s->f = NULL;
    if (broken && !s->status) cannot_write(s);
    if (!s->status && rename(s->temporary, s->path)) cannot_write(s);
    fl_status status = s->status;
    if (!status) {
        fli_free(s->temporary);
        s->temporary = NULL;
        status = fli_sync_above(s->ctx, s->path);
    }
    saver_free(s);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct fli_loader {
    fl_ctx *ctx;
    char *path;
    FILE *f;
    fl_status status;
    uint64_t number;
    size_t used, length; /* of the current frame */
    int last;            /* it is the empty one */
    fli_seals seals;     /* this file's as far as it was read; the others at the end */
    unsigned char frame[FRAME];
};

fl_status fli_loader_refuse(fli_loader *l, const char *sentence)
{
    if (!l->status) l->status = fli_fail(l->ctx, FL_EFORMAT, "%s: %s", l->path, sentence);
    return l->status;
}

static void get(fli_loader *l, void *p, size_t n)
{
    if (l->status) return;
    errno = 0;
    if (fread(p, 1, n, l->f) == n) return;
    if (ferror(l->f))
        l->status = fli_fail(l->ctx, FL_EIO, "%s: cannot be read: %s", l->path, strerror(errno ? errno : EIO));
    else
        fli_loader_refuse(l, "is damaged: it ends too early");
}

/* Returns the frame's length, or MORE; 0 after a failure. */
static uint32_t read_frame(fli_loader *l)
{
    head h = {0, 0};
    get(l, &h, sizeof h);
    if (contents(h.length) > FRAME) fli_loader_refuse(l, "is damaged: a length is wrong");
    if (l->status) return 0;
    get(l, l->frame, contents(h.length));
    if (!l->status && checksum(l->number++, h.length, l->frame) != h.checksum)
        fli_loader_refuse(l, "is damaged: a checksum is wrong");
    if (l->status) return 0;
    pass_frame(&h, &l->seals.own);
    return h.length;
}

/* Reads the seals of a frame. */
static void take_seals(fli_loader *l, uint32_t length)
{
    fli_seals *all = &l->seals;
    size_t more = length / sizeof *all->others;
    if (contents(length) % sizeof *all->others || length == MORE) fli_loader_refuse(l, "is damaged: a length is wrong");
    if (!l->status)
        l->status = fli_grow(l->ctx, (void **)&all->others, all->count, all->count + more, sizeof *all->others);
    if (l->status) return;
    memcpy(all->others + all->count, l->frame, length);
    all->count += more;
}

/* Checks that the contents end here. */
static void get_end(fli_loader *l, uint32_t length)
{
    l->last = 1;
    while (!l->status && length)
        if ((length = read_frame(l))) take_seals(l, length);
    if (!l->status && fgetc(l->f) != EOF) fli_loader_refuse(l, "is damaged: something follows its end");
}

static void get_frame(fli_loader *l)
{
    if (l->last) fli_loader_refuse(l, "is not a checkpoint of this program: more was expected in it");
    uint32_t length = read_frame(l);
    if (l->status) return;
    l->used = 0;
    l->length = contents(length);
    if (!l->length) get_end(l, length);
}

/* `bytes` NULL: reads the file. */
static fl_status loader_open(fl_ctx *ctx, const char *path, const void *bytes, size_t n, fli_loader **out)
{
    char begin[sizeof magic];
    fli_loader *l = fli_alloc(ctx, 1, sizeof *l);
    if (!l) return FL_ENOMEM;
    l->ctx = ctx;
    if (!(l->path = fli_strdup(ctx, path)))
        l->status = FL_ENOMEM;
    else if (!(l->f = bytes ? fmemopen((void *)bytes, n, "r") : fli_file_open(path, O_RDONLY)))
        l->status = fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno));
    get(l, begin, sizeof begin);
    l->seals.own.bytes = sizeof begin;
    if (!l->status && memcmp(begin, magic, sizeof magic)) fli_loader_refuse(l, "is not a checkpoint of this format");
    fl_status s = l->status;
    if (s)
        fli_loader_close(l);
    else
        *out = l;
    return s;
}

fl_status fli_loader_open(fl_ctx *ctx, const char *path, fli_loader **out)
{
    return loader_open(ctx, path, NULL, 0, out);
}

fl_status fli_loader_open_memory(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_loader **out)
{
    if (!n) return fli_fail(ctx, FL_EFORMAT, "%s: is damaged: it ends too early", name);
    return loader_open(ctx, name, bytes, n, out);
}

void fli_loader_close(fli_loader *l)
{
    if (!l) return;
    if (l->f) fclose(l->f);
    fli_free(l->seals.others);
    fli_free(l->path);
    fli_free(l);
}

/* Consumes at most n of the next bytes; *got: how many, 0 after a failure. */
static const unsigned char *next_bytes(fli_loader *l, size_t n, size_t *got)
{
    if (!l->status && l->used == l->length) get_frame(l);
    size_t left = l->status ? 0 : l->length - l->used;
    const unsigned char *at = l->frame + l->used;
    *got = left < n ? left : n;
    l->used += *got;
    return at;
}

void fli_load_bytes(fli_loader *l, void *p, size_t n)
{
    unsigned char *to = p;
    for (size_t got; n && !l->status; n -= got) {
        const unsigned char *from = next_bytes(l, n, &got);
        memcpy(to, from, got);
        to += got;
    }
    if (n) memset(to, 0, n);
}

void fli_load_skip(fli_loader *l, size_t n)
{
    for (size_t got; n && !l->status; n -= got) next_bytes(l, n, &got);
}

uint64_t fli_load_count(fli_loader *l, uint64_t most)
{
    uint64_t v;
    fli_load_bytes(l, &v, sizeof v);
    if (v > most) fli_loader_refuse(l, "does not fit this run: a number in it is too large");
    return l->status ? 0 : v;
}

double fli_load_real(fli_loader *l)
{
    double v;
    fli_load_bytes(l, &v, sizeof v);
    return v;
}

void fli_load_equal(fli_loader *l, uint64_t v, const char *sentence)
{
    if (fli_load_count(l, UINT64_MAX) != v) fli_loader_refuse(l, sentence);
}

void fli_load_same(fli_loader *l, const char *text, const char *sentence)
{
    char piece[256];
    uint64_t n = fli_load_count(l, UINT64_MAX);
    if (n != strlen(text)) fli_loader_refuse(l, sentence);
    while (n && !l->status) {
        size_t m = n < sizeof piece ? (size_t)n : sizeof piece;
        fli_load_bytes(l, piece, m);
        if (memcmp(piece, text, m)) fli_loader_refuse(l, sentence);
        text += m;
        n -= m;
    }
}

void fli_load_part(fli_loader *l, const char *name)
{
    fli_load_same(l, name, "does not fit this run: it has other parts");
}

fl_status fli_loader_status(const fli_loader *l) { return l->status; }

fl_status fli_loader_end(fli_loader *l)
{
    if (!l->status && l->used < l->length) fli_loader_refuse(l, "does not fit this run: something is left over in it");
    if (!l->status && !l->last) get_frame(l);
    if (!l->status && !l->last) fli_loader_refuse(l, "does not fit this run: something is left over in it");
    return l->status;
}

fl_status fli_snapshot_check(fl_ctx *ctx, const char *path, fli_seals *out)
{
    fli_loader *l = NULL;
    fl_status s = fli_loader_open(ctx, path, &l);
    if (s) return s;
    while (!l->status && !l->last) get_frame(l);
    s = l->status;
    if (!s && out) {
        *out = l->seals;
        l->seals.others = NULL;
    }
    fli_loader_close(l);
    return s;
}
