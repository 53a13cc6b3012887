/* A zip archive: members one after the other, each a local header and its contents, then the central directory, which
 * repeats the headers, then an end record with the offset of the directory. Archives or members of 4 GiB and more have
 * additional records (ZIP64); NumPy writes the local headers of all members that way. Local headers are only used to
 * find where the contents begin. */
#include "format/zip.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ==== zlib ================================================================================================== */

static void *zlib_alloc(void *ctx, unsigned count, unsigned size) { return fli_alloc(ctx, count, size); }

static void zlib_free(void *ctx, void *p)
{
    (void)ctx;
    fli_free(p);
}

fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, z_stream *z)
{
    z->zalloc = zlib_alloc;
    z->zfree = zlib_free;
    z->opaque = ctx;
    int rc = inflateInit2(z, window_bits);
    if (rc == Z_MEM_ERROR) return FL_ENOMEM;
    return rc == Z_OK ? FL_OK : fli_fail(ctx, FL_ESYSTEM, "%s: zlib refuses to start (%d)", path, rc);
}

/* ==== reading =============================================================================================== */

enum { STORED = 0, DEFLATED = 8, ENCRYPTED = 1, PIECE = 1 << 16 };
enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR = 20, LONGEST_COMMENT = 65535, SHOWN = 10 };
#define LARGEST_DIRECTORY ((uint64_t)64 << 20)

typedef struct {
    const char *name; /* points into the directory's memory */
    unsigned flags, method;
    uint32_t crc;
    uint64_t packed, size;
    uint64_t at; /* of the local header */
} member;

struct fli_zip {
    fl_ctx *ctx;
    const char *path; /* borrowed */
    int fd;
    uint64_t length;    /* of the file */
    uint64_t directory; /* offset and length of the central directory */
    uint64_t directory_length;
    char *names; /* of all members, NUL-terminated */
    fli_array members;
    /* the current member */
    const member *now;
    uint64_t from, left; /* offset and number of packed bytes still to be read */
    uint64_t seen;       /* bytes unpacked so far */
    uint32_t crc;        /* of these */
    int inflating, ended;
    z_stream gz;
    uint8_t in[PIECE];
};

static uint64_t little(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static fl_status bad(const fli_zip *z, uint64_t at, const char *how)
{
    return fli_fail(z->ctx, FL_EFORMAT, "%s: the zip archive %s (at byte %" PRIu64 ")", z->path, how, at);
}

/* Reads exactly n bytes at offset `at`. */
static fl_status fetch(const fli_zip *z, uint64_t at, void *to, size_t n)
{
    if (at > z->length || n > z->length - at) return bad(z, z->length, "ends too early");
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(z->fd, (char *)to + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fli_fail(z->ctx, FL_EIO, "%s: cannot be read: %s", z->path, strerror(errno));
        if (k == 0) return bad(z, at + done, "ends too early");
        done += (size_t)k;
    }
    return FL_OK;
}

/* ---- the end record ------------------------------------------------------------------------------------- */

/* Reads the 64-bit end record, if its locator precedes the ordinary one at `end`. Counts in `h` that do not fit are all
 * ones. */
static fl_status read_end64(fli_zip *z, uint64_t end)
{
    uint8_t l[LOCATOR], h[END64];
    if (end < LOCATOR) return FL_OK;
    fl_status s = fetch(z, end - LOCATOR, l, LOCATOR);
    if (s || little(l, 4) != 0x07064b50) return s;
    uint64_t at = little(l + 8, 8);
    if ((s = fetch(z, at, h, END64))) return s;
    if (little(h, 4) != 0x06064b50) return bad(z, at, "has no 64-bit end record where its locator says");
    z->directory_length = little(h + 40, 8);
    z->directory = little(h + 48, 8);
    return FL_OK;
}

static fl_status read_end(fli_zip *z, uint64_t end, const uint8_t *h)
{
    z->directory_length = little(h + 12, 4);
    z->directory = little(h + 16, 4);
    fl_status s = little(h + 4, 2) && little(h + 4, 2) != 0xffff ? bad(z, end, "is one part of several") : FL_OK;
    if (!s) s = read_end64(z, end);
    if (s) return s;
    if (z->directory > end || z->directory_length > end - z->directory)
        return bad(z, end, "says that its directory is where it cannot be");
    if (z->directory_length > LARGEST_DIRECTORY) return bad(z, end, "has a directory of more than 64 MiB");
    return FL_OK;
}

/* Finds the end record, which is at the end, before a comment that is usually empty. */
static fl_status find_end(fli_zip *z)
{
    size_t n = z->length < END + LONGEST_COMMENT ? (size_t)z->length : END + LONGEST_COMMENT;
    uint8_t *tail = fli_alloc(z->ctx, n, 1);
    if (!tail) return FL_ENOMEM;
    fl_status s = fetch(z, z->length - n, tail, n);
    size_t i = n < END ? 0 : n - END + 1;
    /* its comment must reach the end, since a comment could contain the bytes of an end record */
    while (!s && i && !(little(tail + i - 1, 4) == 0x06054b50 && little(tail + i + 19, 2) == n - END - (i - 1))) i--;
    if (!s && !i) s = bad(z, z->length, "ends too early, or goes on too long: no directory at its end");
    if (!s) s = read_end(z, z->length - n + i - 1, tail + i - 1);
    fli_free(tail);
    return s;
}

/* ---- the directory -------------------------------------------------------------------------------------- */

/* The extra field has 64-bit numbers, in this order, for those whose field in the record is all ones. */
static int read_extra64(const uint8_t *extra, size_t n, const uint8_t *record, member *m)
{
    const struct {
        size_t at;
        uint64_t *to;
    } wide[] = {{24, &m->size}, {20, &m->packed}, {42, &m->at}};
    for (size_t k; n >= 4; extra += k, n -= k) {
        k = 4 + (size_t)little(extra + 2, 2);
        if (k > n) return 0;
        if (little(extra, 2) != 1) continue;
        size_t from = 4;
        for (size_t i = 0; i < 3; i++) {
            if (little(record + wide[i].at, 4) != UINT32_MAX) continue;
            if (from + 8 > k) return 0;
            *wide[i].to = little(extra + from, 8);
            from += 8;
        }
        return 1;
    }
    return 1;
}

static int is_file(const char *name)
{
    size_t n = strlen(name);
    return n && name[n - 1] != '/' && strncmp(name, "__MACOSX/", 9) != 0;
}

/* Reads one record of the directory, of which n bytes are left; *used is its length. */
static fl_status read_record(fli_zip *z, const uint8_t *p, size_t n, char **names, size_t *used)
{
    uint64_t at = z->directory + z->directory_length - n;
    if (n < CENTRAL || little(p, 4) != 0x02014b50) return bad(z, at, "has a damaged directory");
    size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2), comment = (size_t)little(p + 32, 2);
    *used = CENTRAL + name + extra + comment;
    if (*used > n) return bad(z, at, "has a damaged directory");
    if (!name || memchr(p + CENTRAL, 0, name)) return bad(z, at, "has a file without a proper name");
    member m = {.name = *names,
                .flags = (unsigned)little(p + 8, 2),
                .method = (unsigned)little(p + 10, 2),
                .crc = (uint32_t)little(p + 16, 4),
                .packed = little(p + 20, 4),
                .size = little(p + 24, 4),
                .at = little(p + 42, 4)};
    if (!read_extra64(p + CENTRAL + name, extra, p, &m)) return bad(z, at, "has a damaged directory");
    memcpy(*names, p + CENTRAL, name);
    (*names)[name] = 0;
    if (!is_file(*names)) return FL_OK;
    *names += name + 1;
    void *room;
    fl_status s = fli_array_add(z->ctx, &z->members, 1, &room);
    if (!s) *(member *)room = m;
    return s;
}

static fl_status read_directory(fli_zip *z)
{
    size_t n = (size_t)z->directory_length, used = 0;
    uint8_t *p = fli_alloc(z->ctx, n, 1);
    z->names = fli_alloc(z->ctx, n + 1, 1); /* every name fits: a record is longer than its name */
    char *names = z->names;
    fl_status s = p && z->names ? fetch(z, z->directory, p, n) : FL_ENOMEM;
    for (size_t at = 0; !s && at < n; at += used) s = read_record(z, p + at, n - at, &names, &used);
    fli_free(p);
    return s;
}

/* ---- archives ------------------------------------------------------------------------------------------- */

fl_status fli_zip_open(fl_ctx *ctx, const char *path, int fd, fli_zip **out)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return fli_fail(ctx, FL_EIO, "%s: a zip archive must be a file, not a pipe: its directory is at its end", path);
    fli_zip *z = fli_alloc(ctx, 1, sizeof *z);
    if (!z) return FL_ENOMEM;
    z->ctx = ctx;
    z->path = path;
    z->fd = fd;
    z->length = (uint64_t)st.st_size;
    z->members.size = sizeof(member);
    fl_status s = find_end(z);
    if (!s) s = read_directory(z);
    if (s)
        fli_zip_close(z);
    else
        *out = z;
    return s;
}

static void stop(fli_zip *z)
{
    if (z->inflating) inflateEnd(&z->gz);
    z->inflating = 0;
}

void fli_zip_close(fli_zip *z)
{
    if (!z) return;
    stop(z);
    fli_array_fini(&z->members);
    fli_free(z->names);
    fli_free(z);
}

size_t fli_zip_count(const fli_zip *z) { return z->members.n; }

const char *fli_zip_name(const fli_zip *z, size_t i) { return ((const member *)z->members.p)[i].name; }

void fli_zip_print_names(const fli_zip *z, const char *ending, fli_text *t)
{
    size_t m = strlen(ending);
    for (size_t i = 0; i < z->members.n && i < SHOWN; i++) {
        const char *name = fli_zip_name(z, i);
        size_t n = strlen(name);
        char *cut = fli_strf(z->ctx, "%.*s", (int)(n > m && !strcmp(name + n - m, ending) ? n - m : n), name);
        if (!cut) {
            t->failed = 1;
            return;
        }
        fli_text_addf(t, "%s%s", i ? ", " : "", fli_quote(cut).s);
        fli_free(cut);
    }
    if (z->members.n > SHOWN) fli_text_add(t, ", ...");
}

/* ---- members -------------------------------------------------------------------------------------------- */

static fl_status start_inflate(fli_zip *z)
{
    z->gz = (z_stream){0};
    fl_status s = fli_inflate_start(z->ctx, z->path, -MAX_WBITS, &z->gz);
    z->inflating = !s;
    return s;
}

fl_status fli_zip_start(fli_zip *z, size_t i)
{
    const member *m = (const member *)z->members.p + i;
    uint8_t h[LOCAL];
    stop(z);
    if (m->flags & ENCRYPTED) return bad(z, m->at, "is encrypted; unpack it first");
    if (m->method != STORED && m->method != DEFLATED)
        return fli_fail(z->ctx, FL_EFORMAT,
                        "%s: %s is packed by zip method %u, but only stored and deflated files are read; unpack it "
                        "first",
                        z->path, fli_quote(m->name).s, m->method);
    if (m->method == STORED && m->packed != m->size) return bad(z, m->at, "has a stored file of two sizes");
    fl_status s = fetch(z, m->at, h, LOCAL);
    if (s) return s;
    if (little(h, 4) != 0x04034b50) return bad(z, m->at, "has no file where its directory says");
    z->now = m;
    z->from = m->at + LOCAL + little(h + 26, 2) + little(h + 28, 2);
    z->left = m->packed;
    z->seen = 0;
    z->crc = 0;
    z->ended = 0;
    if (z->from > z->length || z->left > z->length - z->from) return bad(z, z->length, "ends too early");
    return m->method == DEFLATED ? start_inflate(z) : FL_OK;
}

static fl_status damaged(const fli_zip *z, size_t made, const char *how)
{
    return fli_fail(z->ctx, FL_EFORMAT, "%s: the zip data of %s are damaged at uncompressed offset %" PRIu64 ": %s",
                    z->path, fli_quote(z->now->name).s, z->seen + made, how);
}

static fl_status read_stored(fli_zip *z, void *buf, size_t n, size_t *got)
{
    *got = z->left < n ? (size_t)z->left : n;
    fl_status s = fetch(z, z->from, buf, *got);
    z->from += *got;
    z->left -= *got;
    z->ended = !z->left;
    return s;
}

static fl_status more_input(fli_zip *z)
{
    size_t k = z->left < PIECE ? (size_t)z->left : PIECE;
    fl_status s = fetch(z, z->from, z->in, k);
    z->gz.next_in = z->in;
    z->gz.avail_in = s ? 0 : (unsigned)k;
    z->from += k;
    z->left -= k;
    return s;
}

static fl_status read_deflated(fli_zip *z, void *buf, size_t n, size_t *got)
{
    fl_status s = FL_OK;
    unsigned room = n < PIECE ? (unsigned)n : PIECE;
    z->gz.next_out = buf;
    z->gz.avail_out = room;
    while (!z->ended && z->gz.avail_out == room) {
        if (!z->gz.avail_in && (s = more_input(z))) return s;
        int had = z->gz.avail_in != 0, rc = inflate(&z->gz, Z_NO_FLUSH);
        *got = room - z->gz.avail_out;
        z->ended = rc == Z_STREAM_END;
        if (rc == Z_MEM_ERROR) return FL_ENOMEM;
        if (rc == Z_BUF_ERROR && !had) return damaged(z, *got, "they end too early");
        if (rc != Z_OK && rc != Z_BUF_ERROR && rc != Z_STREAM_END)
            return damaged(z, *got, z->gz.msg ? z->gz.msg : "not what zlib expects");
    }
    return FL_OK;
}

fl_status fli_zip_read(fli_zip *z, void *buf, size_t n, size_t *got)
{
    const member *m = z->now;
    *got = 0;
    if (z->ended || !n) return FL_OK;
    fl_status s = m->method == STORED ? read_stored(z, buf, n, got) : read_deflated(z, buf, n, got);
    if (s) return s;
    if (*got) z->crc = (uint32_t)crc32(z->crc, buf, (unsigned)*got);
    z->seen += *got;
    if (z->seen > m->size || (z->ended && (z->seen != m->size || z->crc != m->crc || z->left || z->gz.avail_in)))
        return damaged(z, 0, "the contents do not match their checksum and sizes");
    return FL_OK;
}

/* ==== writing NumPy archives ================================================================================ */

enum { MOST_ARRAYS = 4, NPZ_NAME = 32, NPY_HEADER = 256, NPY_ALIGN = 64 };

/* An array that is being written. */
typedef struct {
    const fli_npz_array *a;
    char file[NPZ_NAME];
    char head[NPY_HEADER]; /* the NPY header */
    size_t head_bytes, data_bytes, at;
    uint32_t crc;
} npz_member;

static size_t volume(const fli_npz_array *a)
{
    size_t n = a->width;
    for (size_t k = 0; k < a->dims; k++) n *= a->size[k];
    return n;
}

/* A CRC-32 in pieces, since zlib's lengths have 32 bits. */
static uint32_t checksum(const npz_member *m)
{
    const size_t most = 1u << 30;
    const unsigned char *p = m->a->data;
    uLong crc = crc32(0, (const Bytef *)m->head, (uInt)m->head_bytes);
    for (size_t at = 0; at < m->data_bytes; at += most)
        crc = crc32(crc, p + at, (uInt)(m->data_bytes - at < most ? m->data_bytes - at : most));
    return (uint32_t)crc;
}

/* Version 1.0: magic, two bytes of length, a Python dictionary padded with blanks to a multiple of 64. */
static void describe_array(const fli_npz_array *a, npz_member *m)
{
    const uint16_t one = 1;
    char order = a->width == 1 ? '|' : *(const unsigned char *)&one ? '<' : '>';
    char shape[100] = "", *text = m->head + 10;
    for (size_t k = 0, used = 0; k < a->dims; k++)
        used += (size_t)fli_snprintf(shape + used, sizeof shape - used, "%zu,", a->size[k]);
    size_t n =
        (size_t)fli_snprintf(text, NPY_HEADER - 10, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (%s), }",
                             order, a->kind, a->width, shape);
    m->a = a;
    m->head_bytes = (10 + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    memset(text + n, ' ', m->head_bytes - 10 - n);
    m->head[m->head_bytes - 1] = '\n';
    memcpy(m->head, "\x93NUMPY\x01\x00", 8);
    fli_put_u64((unsigned char *)m->head + 8, m->head_bytes - 10, 2);
    m->data_bytes = volume(a);
    m->crc = checksum(m);
    fli_snprintf(m->file, sizeof m->file, "%s.npy", a->name);
}

/* The common part of local header and directory: version, flags, method (stored), time (the earliest possible),
 * checksum, sizes, lengths of name and extra field. */
static unsigned char *put_common(unsigned char *at, const npz_member *m)
{
    uint64_t bytes = m->head_bytes + m->data_bytes;
    const uint64_t fields[] = {20, 0, 0, 0, 0x21, m->crc, bytes, bytes, strlen(m->file), 0};
    static const size_t width[] = {2, 2, 2, 2, 2, 4, 4, 4, 2, 2};
    for (size_t k = 0; k < sizeof width / sizeof *width; k++) at = fli_put_u64(at, fields[k], width[k]);
    return at;
}

static void put_member(fli_writer *out, const npz_member *m)
{
    unsigned char head[LOCAL];
    memcpy(head, "PK\3\4", 4);
    put_common(head + 4, m);
    fli_writer_bytes(out, head, sizeof head);
    fli_writer_text(out, m->file);
    fli_writer_bytes(out, m->head, m->head_bytes);
    fli_writer_bytes(out, m->a->data, m->data_bytes);
}

static void put_directory(fli_writer *out, const npz_member *m)
{
    unsigned char head[CENTRAL] = "PK\1\2";
    fli_put_u64(head + 4, 20, 2);
    put_common(head + 6, m);
    fli_put_u64(head + 42, m->at, 4);
    fli_writer_bytes(out, head, sizeof head);
    fli_writer_text(out, m->file);
}

static void put_end(fli_writer *out, size_t count, size_t from, size_t bytes)
{
    unsigned char end[END] = "PK\5\6";
    fli_put_u64(end + 8, count, 2);
    fli_put_u64(end + 10, count, 2);
    fli_put_u64(end + 12, bytes, 4);
    fli_put_u64(end + 16, from, 4);
    fli_writer_bytes(out, end, sizeof end);
}

fl_status fli_npz_write(fl_ctx *ctx, const char *path, const fli_npz_array *array, size_t count)
{
    npz_member m[MOST_ARRAYS];
    size_t at = 0, directory = 0;
    fli_writer out;
    for (size_t i = 0; i < count; i++) {
        describe_array(&array[i], &m[i]);
        m[i].at = at;
        at += LOCAL + strlen(m[i].file) + m[i].head_bytes + m[i].data_bytes;
        directory += CENTRAL + strlen(m[i].file);
    }
    if (at > UINT32_MAX - directory)
        return fli_fail(ctx, FL_ECONFIG, "%s: would have %zu bytes, but 4 GiB is the most", path, at + directory);
    fl_status s = fli_writer_open(ctx, path, &out);
    if (s) return s;
    for (size_t i = 0; i < count; i++) put_member(&out, &m[i]);
    for (size_t i = 0; i < count; i++) put_directory(&out, &m[i]);
    put_end(&out, count, at, directory);
    return fli_writer_close(&out);
}
