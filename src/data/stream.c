/* Reading plain, gzip, xz and zip files through one window of uncompressed bytes (`ready`), which `refill` makes anew whenever it is
 * used up. A failure is kept: every later call returns it again. The decoders take their memory from fli_alloc too, so running
 * out of it is an ordinary failure. */
#include "data/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzma.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE = 1 << 16 };
#define LONGEST_LINE ((size_t)64 << 20)
#define XZ_MEMORY    ((uint64_t)256 << 20) /* what an xz header may ask for; `xz -9` needs 65 MiB */

/* The member of a zip archive that is read. */
typedef struct {
    unsigned method; /* STORED or DEFLATED */
    int follows;     /* checksum and sizes come behind the contents, not before */
    uint32_t crc, packed_size, size;
    uint32_t seen_crc; /* of the contents so far */
    uint64_t seen_packed, seen;
} zip_member;

struct fli_stream {
    fl_ctx *ctx;
    char *path;
    int fd;
    fl_status status; /* the first failure */
    /* Makes `ready` non-empty, or leaves it empty at the end. */
    fl_status (*refill)(fli_stream *s);
    void (*fini)(fli_stream *s);
    uint64_t offset; /* of ready[0] in the uncompressed data */
    const uint8_t *ready;
    size_t ready_n;
    size_t in_n;
    uint64_t pulled; /* bytes of the file so far, those in `in` included */
    int packed_end;  /* the last compressed stream is complete */
    z_stream gz;
    zip_member zip; /* uses gz for its input, also when the member is not compressed */
    lzma_stream xz;
    lzma_allocator xz_memory;
    char *line;
    size_t line_capacity;
    uint8_t in[PIECE], out[PIECE];
};

/* Fills `in` from the file; less than PIECE bytes only at its end. */
static fl_status pull(fli_stream *s)
{
    s->in_n = 0;
    while (s->in_n < PIECE) {
        ssize_t k = read(s->fd, s->in + s->in_n, PIECE - s->in_n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fli_fail(s->ctx, FL_EIO, "%s: cannot be read: %s", s->path, strerror(errno));
        if (k == 0) break;
        s->in_n += (size_t)k;
    }
    s->pulled += s->in_n;
    return FL_OK;
}

static fl_status corrupt(const fli_stream *s, const char *packing, size_t produced, const char *how)
{
    return fli_fail(s->ctx, FL_EFORMAT, "%s: the %s data are damaged at uncompressed offset %" PRIu64 ": %s", s->path,
                    packing, s->offset + produced, how);
}

/* ---- plain ---------------------------------------------------------------------------------------------- */

static fl_status refill_plain(fli_stream *s)
{
    fl_status status = pull(s);
    s->ready = s->in;
    s->ready_n = status == FL_OK ? s->in_n : 0;
    return status;
}

static void fini_plain(fli_stream *s) { (void)s; }

/* ---- gzip ----------------------------------------------------------------------------------------------- */

static void *gz_alloc(void *ctx, unsigned count, unsigned size) { return fli_alloc(ctx, count, size); }
static void gz_free(void *ctx, void *p)
{
    (void)ctx;
    fli_free(p);
}

static fl_status gz_pull(fli_stream *s)
{
    fl_status status = pull(s);
    s->gz.next_in = s->in;
    s->gz.avail_in = status == FL_OK ? (unsigned)s->in_n : 0;
    return status;
}

/* A gzip file is one member after the other. */
static fl_status gz_next_member(fli_stream *s)
{
    if (!s->gz.avail_in) {
        fl_status status = gz_pull(s);
        if (status) return status;
    }
    s->packed_end = !s->gz.avail_in;
    if (!s->packed_end) inflateReset(&s->gz);
    return FL_OK;
}

static fl_status refill_gz(fli_stream *s)
{
    fl_status status = FL_OK;
    s->gz.next_out = s->out;
    s->gz.avail_out = PIECE;
    while (status == FL_OK && !s->packed_end && s->gz.avail_out == PIECE) {
        if (!s->gz.avail_in && (status = gz_pull(s))) break;
        if (!s->gz.avail_in) return corrupt(s, "gzip", 0, "the file ends too early");
        int rc = inflate(&s->gz, Z_NO_FLUSH);
        if (rc == Z_STREAM_END)
            status = gz_next_member(s);
        else if (rc == Z_MEM_ERROR)
            return FL_ENOMEM;
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return corrupt(s, "gzip", PIECE - s->gz.avail_out, s->gz.msg ? s->gz.msg : "not what zlib expects");
    }
    s->ready = s->out;
    s->ready_n = status == FL_OK ? PIECE - s->gz.avail_out : 0;
    return status;
}

static void fini_gz(fli_stream *s) { inflateEnd(&s->gz); }

/* Unpacking from s->gz.next_in on. */
static fl_status start_inflate(fli_stream *s, int window_bits)
{
    s->gz.zalloc = gz_alloc;
    s->gz.zfree = gz_free;
    s->gz.opaque = s->ctx;
    int rc = inflateInit2(&s->gz, window_bits);
    if (rc == Z_MEM_ERROR) return FL_ENOMEM;
    if (rc != Z_OK) return fli_fail(s->ctx, FL_ESYSTEM, "%s: zlib refuses to start (%d)", s->path, rc);
    s->fini = fini_gz;
    return FL_OK;
}

static fl_status init_gz(fli_stream *s)
{
    enum { GZIP_ONLY = 16 };
    s->gz.next_in = s->in;
    s->gz.avail_in = (unsigned)s->in_n;
    s->refill = refill_gz;
    return start_inflate(s, MAX_WBITS + GZIP_ONLY);
}

/* ---- zip ------------------------------------------------------------------------------------------------ */

/* One file in an archive: a local header, the contents, perhaps a descriptor with what the header left open, then the central
 * directory, which repeats all that and is not read. Folders before the file are passed over. */

enum { STORED = 0, DEFLATED = 8 };
#define ZIP_LOCAL      0x04034b50u
#define ZIP_DESCRIPTOR 0x08074b50u
#define ZIP_CENTRAL    0x02014b50u

static uint64_t zip_offset(const fli_stream *s) { return s->pulled - s->gz.avail_in; }

static fl_status zip_bad(const fli_stream *s, const char *how)
{
    return fli_fail(s->ctx, FL_EFORMAT, "%s: the zip archive %s (at byte %" PRIu64 ")", s->path, how, zip_offset(s));
}

/* The next n bytes of the archive, into `to` unless it is NULL. */
static fl_status zip_take(fli_stream *s, size_t n, uint8_t *to)
{
    while (n) {
        if (!s->gz.avail_in) {
            fl_status status = gz_pull(s);
            if (status) return status;
            if (!s->gz.avail_in) return zip_bad(s, "ends too early");
        }
        size_t k = n < s->gz.avail_in ? n : s->gz.avail_in;
        if (to) {
            memcpy(to, s->gz.next_in, k);
            to += k;
        }
        s->gz.next_in += k;
        s->gz.avail_in -= (unsigned)k;
        n -= k;
    }
    return FL_OK;
}

static uint32_t little(const uint8_t *p, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = bytes; i-- > 0;) v = v << 8 | p[i];
    return v;
}

/* Reads a local header behind its signature, up to the contents; *folder if it has none to read. */
static fl_status zip_header(fli_stream *s, int *folder)
{
    enum { REST = 26, ENCRYPTED = 1, FOLLOWS = 8, KNOWN = 0x0800 | FOLLOWS | 6, ZIP64 = 45 };
    uint8_t h[REST], last = 0;
    zip_member *m = &s->zip;
    fl_status status = zip_take(s, REST, h);
    if (status) return status;
    unsigned flags = little(h + 2, 2);
    size_t name = little(h + 22, 2), extra = little(h + 24, 2);
    *m = (zip_member){.method = little(h + 4, 2),
                      .follows = (flags & FOLLOWS) != 0,
                      .crc = little(h + 10, 4),
                      .packed_size = little(h + 14, 4),
                      .size = little(h + 18, 4)};
    if (!name) return zip_bad(s, "has a file without a name");
    if ((status = zip_take(s, name - 1, NULL)) || (status = zip_take(s, 1, &last)) ||
        (status = zip_take(s, extra, NULL)))
        return status;
    *folder = last == '/';
    if (flags & ENCRYPTED) return zip_bad(s, "is encrypted; unpack it first");
    if (h[0] >= ZIP64 || flags & ~(unsigned)KNOWN || (m->method != STORED && m->method != DEFLATED) ||
        (m->method == STORED && (m->follows || m->packed_size != m->size)))
        return zip_bad(s, "uses a feature that is not supported; unpack it first");
    if (*folder && (m->packed_size || m->follows)) return zip_bad(s, "has a folder with contents");
    return FL_OK;
}

/* What the archive says about the contents must be what was seen; behind them, no second file may follow. */
static fl_status zip_finish(fli_stream *s)
{
    zip_member *m = &s->zip;
    uint8_t b[16];
    fl_status status = zip_take(s, 4, b);
    if (status) return status;
    if (m->follows) { /* its signature may be left out */
        size_t from = little(b, 4) == ZIP_DESCRIPTOR ? 4 : 0;
        if ((status = zip_take(s, 8 + from, b + 4))) return status;
        m->crc = little(b + from, 4);
        m->packed_size = little(b + from + 4, 4);
        m->size = little(b + from + 8, 4);
        if ((status = zip_take(s, 4, b))) return status;
    }
    if (m->crc != m->seen_crc || m->size != m->seen || m->packed_size != m->seen_packed)
        return corrupt(s, "zip", 0, "the contents do not match their checksum and sizes");
    if (little(b, 4) == ZIP_LOCAL)
        return zip_bad(s, "holds more than one file; unpack it and name the one that is meant");
    if (little(b, 4) != ZIP_CENTRAL) return zip_bad(s, "has no directory behind its file");
    s->packed_end = 1;
    return FL_OK;
}

/* Counts what was made ready; `done`: the contents are complete. */
static fl_status zip_produced(fli_stream *s, const uint8_t *from, size_t n, int done)
{
    s->zip.seen_crc = (uint32_t)crc32(s->zip.seen_crc, from, (unsigned)n);
    s->zip.seen += n;
    s->ready = from;
    s->ready_n = n;
    if (!done || n) return FL_OK; /* what is ready is read before the end is looked at */
    return zip_finish(s);
}

static fl_status refill_stored(fli_stream *s)
{
    uint64_t left = s->zip.size - s->zip.seen;
    if (s->packed_end) return FL_OK;
    if (left && !s->gz.avail_in) {
        fl_status status = gz_pull(s);
        if (status) return status;
        if (!s->gz.avail_in) return zip_bad(s, "ends too early");
    }
    size_t n = left < s->gz.avail_in ? (size_t)left : s->gz.avail_in;
    const uint8_t *from = s->gz.next_in;
    s->gz.next_in += n;
    s->gz.avail_in -= (unsigned)n;
    s->zip.seen_packed += n;
    return zip_produced(s, from, n, !left);
}

static fl_status refill_deflated(fli_stream *s)
{
    int rc = Z_OK;
    if (s->packed_end) return FL_OK;
    s->gz.next_out = s->out;
    s->gz.avail_out = PIECE;
    while (rc != Z_STREAM_END && s->gz.avail_out == PIECE) {
        if (!s->gz.avail_in) {
            fl_status status = gz_pull(s);
            if (status) return status;
        }
        unsigned before = s->gz.avail_in;
        rc = inflate(&s->gz, Z_NO_FLUSH);
        s->zip.seen_packed += before - s->gz.avail_in;
        if (rc == Z_MEM_ERROR) return FL_ENOMEM;
        if (!before && rc == Z_BUF_ERROR) return zip_bad(s, "ends too early");
        if (rc != Z_OK && rc != Z_BUF_ERROR && rc != Z_STREAM_END)
            return corrupt(s, "zip", PIECE - s->gz.avail_out, s->gz.msg ? s->gz.msg : "not what zlib expects");
    }
    return zip_produced(s, s->out, PIECE - s->gz.avail_out, rc == Z_STREAM_END);
}

static fl_status init_zip(fli_stream *s)
{
    uint8_t signature[4];
    int folder = 1;
    s->gz.next_in = s->in;
    s->gz.avail_in = (unsigned)s->in_n;
    while (folder) {
        fl_status status = zip_take(s, 4, signature);
        if (status) return status;
        if (little(signature, 4) != ZIP_LOCAL) return zip_bad(s, "holds no file");
        if ((status = zip_header(s, &folder))) return status;
    }
    s->refill = s->zip.method == STORED ? refill_stored : refill_deflated;
    return s->zip.method == STORED ? FL_OK : start_inflate(s, -MAX_WBITS);
}

/* ---- xz ------------------------------------------------------------------------------------------------- */

static void *xz_alloc(void *ctx, size_t count, size_t size) { return fli_alloc(ctx, count, size); }
static void xz_free(void *ctx, void *p)
{
    (void)ctx;
    fli_free(p);
}

static fl_status xz_failed(const fli_stream *s, lzma_ret rc)
{
    size_t produced = PIECE - s->xz.avail_out;
    switch (rc) {
    case LZMA_MEM_ERROR: return FL_ENOMEM;
    case LZMA_MEMLIMIT_ERROR: return corrupt(s, "xz", produced, "unpacking would take more than 256 MiB");
    case LZMA_BUF_ERROR: return corrupt(s, "xz", produced, "the file ends too early");
    case LZMA_FORMAT_ERROR: return corrupt(s, "xz", produced, "what follows is no xz stream");
    case LZMA_OPTIONS_ERROR: return corrupt(s, "xz", produced, "unknown options");
    default: return corrupt(s, "xz", produced, "the contents do not match their checksum or are not valid");
    }
}

static fl_status refill_xz(fli_stream *s)
{
    fl_status status = FL_OK;
    s->xz.next_out = s->out;
    s->xz.avail_out = PIECE;
    while (!s->packed_end && s->xz.avail_out == PIECE) {
        if (!s->xz.avail_in && s->in_n) {
            if ((status = pull(s))) return status;
            s->xz.next_in = s->in;
            s->xz.avail_in = s->in_n;
        }
        lzma_ret rc = lzma_code(&s->xz, s->in_n ? LZMA_RUN : LZMA_FINISH);
        if (rc == LZMA_STREAM_END)
            s->packed_end = 1;
        else if (rc != LZMA_OK)
            return xz_failed(s, rc);
    }
    s->ready = s->out;
    s->ready_n = PIECE - s->xz.avail_out;
    return FL_OK;
}

static void fini_xz(fli_stream *s) { lzma_end(&s->xz); }

static fl_status init_xz(fli_stream *s)
{
    s->xz = (lzma_stream)LZMA_STREAM_INIT;
    s->xz_memory = (lzma_allocator){xz_alloc, xz_free, s->ctx};
    s->xz.allocator = &s->xz_memory;
    s->xz.next_in = s->in;
    s->xz.avail_in = s->in_n;
    lzma_ret rc = lzma_stream_decoder(&s->xz, XZ_MEMORY, LZMA_CONCATENATED);
    if (rc == LZMA_MEM_ERROR) return FL_ENOMEM;
    if (rc != LZMA_OK) return fli_fail(s->ctx, FL_ESYSTEM, "%s: liblzma refuses to start (%d)", s->path, (int)rc);
    s->refill = refill_xz;
    s->fini = fini_xz;
    return FL_OK;
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static int starts_with(const fli_stream *s, const char *magic, size_t n)
{
    return s->in_n >= n && !memcmp(s->in, magic, n);
}

/* Looks at the first bytes, which `pull` has fetched. */
static fl_status choose_decoder(fli_stream *s)
{
    if (starts_with(s, "\x1f\x8b", 2)) return init_gz(s);
    if (starts_with(s,
                    "\xfd"
                    "7zXZ",
                    6))
        return init_xz(s);
    if (starts_with(s, "PK\3\4", 4) || starts_with(s, "PK\5\6", 4)) return init_zip(s);
    s->ready = s->in;
    s->ready_n = s->in_n;
    return FL_OK;
}

fl_status fli_stream_open(fl_ctx *ctx, const char *path, fli_stream **out)
{
    fl_status status = FL_ENOMEM;
    struct stat st;
    *out = NULL;
    fli_stream *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->fd = -1;
    s->refill = refill_plain;
    s->fini = fini_plain;
    s->path = fli_strdup(ctx, path);
    if (!s->path) goto done;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st))
        status = fli_fail(ctx, FL_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = fli_fail(ctx, FL_EIO, "%s: is a folder, not a file", path);
    else if (!(status = pull(s)))
        status = choose_decoder(s);
done:
    if (status == FL_OK)
        *out = s;
    else
        fli_stream_close(s);
    return status;
}

void fli_stream_close(fli_stream *s)
{
    if (!s) return;
    s->fini(s);
    if (s->fd >= 0) close(s->fd);
    fli_free(s->line);
    fli_free(s->path);
    fli_free(s);
}

const char *fli_stream_path(const fli_stream *s) { return s->path; }

uint64_t fli_stream_offset(const fli_stream *s) { return s->offset; }

/* ---- reading -------------------------------------------------------------------------------------------- */

/* Makes at least one byte ready unless the end is reached. */
static fl_status ensure(fli_stream *s)
{
    if (s->status == FL_OK && !s->ready_n) s->status = s->refill(s);
    return s->status;
}

static void consume(fli_stream *s, size_t n)
{
    s->ready += n;
    s->ready_n -= n;
    s->offset += n;
}

fl_status fli_stream_read(fli_stream *s, void *buf, size_t n, size_t *got)
{
    uint8_t *to = buf;
    *got = 0;
    while (*got < n) {
        fl_status status = ensure(s);
        if (status) return status;
        if (!s->ready_n) break;
        size_t k = n - *got < s->ready_n ? n - *got : s->ready_n;
        memcpy(to + *got, s->ready, k);
        consume(s, k);
        *got += k;
    }
    return FL_OK;
}

fl_status fli_stream_need(fli_stream *s, void *buf, size_t n, const char *what)
{
    size_t got;
    fl_status status = fli_stream_read(s, buf, n, &got);
    if (status || got == n) return status;
    return s->status = fli_fail(s->ctx, FL_EFORMAT, "%s: ends at offset %" PRIu64 ", %zu bytes short of %s", s->path,
                                s->offset, n - got, what);
}

fl_status fli_stream_end(fli_stream *s)
{
    fl_status status = ensure(s);
    if (status || !s->ready_n) return status;
    return fli_fail(s->ctx, FL_EFORMAT, "%s: has bytes after its end at offset %" PRIu64, s->path, s->offset);
}

/* Appends the first k ready bytes to the n that `line` holds, leaving room for the NUL. */
static fl_status extend_line(fli_stream *s, size_t n, size_t k)
{
    const uint8_t *nul = memchr(s->ready, 0, k);
    if (nul)
        return fli_fail(s->ctx, FL_EFORMAT, "%s: a NUL byte in the text at offset %" PRIu64, s->path,
                        s->offset + (uint64_t)(nul - s->ready));
    if (n + k > LONGEST_LINE)
        return fli_fail(s->ctx, FL_EFORMAT, "%s: the line that reaches offset %" PRIu64 " is longer than 64 MiB",
                        s->path, s->offset);
    if (n + k + 1 > s->line_capacity) {
        size_t capacity = 2 * (n + k + 1);
        fl_status status = fli_grow(s->ctx, (void **)&s->line, n, capacity, 1);
        if (status) return status;
        s->line_capacity = capacity;
    }
    memcpy(s->line + n, s->ready, k);
    return FL_OK;
}

fl_status fli_stream_line(fli_stream *s, char **line, size_t *length)
{
    size_t n = 0;
    *line = NULL;
    *length = 0;
    for (int complete = 0; !complete;) {
        fl_status status = ensure(s);
        if (status) return status;
        if (!s->ready_n) {
            if (!n) return FL_OK;
            break;
        }
        const uint8_t *end = memchr(s->ready, '\n', s->ready_n);
        size_t k = end ? (size_t)(end - s->ready) : s->ready_n;
        if ((status = extend_line(s, n, k))) return s->status = status;
        n += k;
        complete = end != NULL;
        consume(s, k + (size_t)complete);
    }
    if (n && s->line[n - 1] == '\r') n--;
    s->line[n] = 0;
    *line = s->line;
    *length = n;
    return FL_OK;
}

fl_status fli_stream_all(fli_stream *s, size_t limit, char **data, size_t *n)
{
    fl_status status = FL_OK;
    size_t capacity = 0, total = 0;
    char *p = NULL;
    *data = NULL;
    *n = 0;
    while (!(status = ensure(s)) && s->ready_n) {
        size_t k = s->ready_n;
        if (k > limit - total) {
            status = fli_fail(s->ctx, FL_EFORMAT, "%s: longer than the %zu bytes allowed (at offset %" PRIu64 ")",
                              s->path, limit, s->offset);
            break;
        }
        if (total + k + 1 > capacity) {
            size_t more = 2 * (total + k + 1);
            if ((status = fli_grow(s->ctx, (void **)&p, total, more, 1))) break;
            capacity = more;
        }
        memcpy(p + total, s->ready, k);
        total += k;
        consume(s, k);
    }
    if (status == FL_OK && !p && !(p = fli_alloc(s->ctx, 1, 1))) status = FL_ENOMEM;
    if (status) {
        fli_free(p);
        return status;
    }
    p[total] = 0;
    *data = p;
    *n = total;
    return FL_OK;
}

/* ---- finding -------------------------------------------------------------------------------------------- */

fl_status fli_find_file(fl_ctx *ctx, const char *dir, const char *name, char **path)
{
    static const char *const ending[] = {"", ".gz", ".xz", ".zip"};
    const char *folder = *name == '/' ? "" : dir;
    const char *slash = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
    struct stat st;
    *path = NULL;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        char *p = fli_strf(ctx, "%s%s%s%s", folder, slash, name, ending[i]);
        if (!p) return FL_ENOMEM;
        if (!stat(p, &st) && !S_ISDIR(st.st_mode)) {
            *path = p;
            return FL_OK;
        }
        fli_free(p);
    }
    return fli_fail(ctx, FL_EIO, "%s%s%s: no such file, nor with .gz, .xz or .zip at its end", folder, slash, name);
}
