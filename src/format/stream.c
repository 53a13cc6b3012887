/* A stream reads plain, gzip and xz files, and members of zip archives (zip.c), through one window of uncompressed
 * bytes (`ready`), which `refill` replaces when it is used up. A failure is kept: every later call returns it again.
 * The decoders also allocate with fli_alloc, so running out of memory is an ordinary failure. */
#include "format/stream.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/text.h"
#include "format/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ==== files as memory ======================================================================================= */

/* The address of n bytes from this offset; NULL if it is not a regular file, is shorter, or cannot be mapped. */
static void *map_file(int fd, uint64_t offset, size_t n, fli_mapping *m)
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

/* ==== foreign formats ======================================================================================= */

#define FROM_PANDAS "; convert it, for instance with pandas: " /* + reader + TO_CSV */
#define TO_CSV      ".to_csv(\"data.csv\", index=False)"

#define IN_FOLDERS " here; put images into a folder per class, for `kind: image_folder`"

typedef struct {
    const char *name;
    const char *magic; /* the first bytes */
    size_t length;
    const char *member; /* of zip archives: the ending of a member's name; NULL: not an archive */
    const char *way_out;
} foreign_format;

#define BYTES(literal) literal, sizeof literal - 1, NULL
#define MEMBER(name)   NULL, 0, name
#define PICKLE(protocol)                                                                                               \
    {                                                                                                                  \
        "a Python pickle", BYTES(protocol),                                                                            \
            "; open it in Python and write numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"                   \
    }

static const foreign_format known[] = {
    {"a Parquet file", BYTES("PAR1\x15"), FROM_PANDAS "pandas.read_parquet(...)" TO_CSV},
    {"an Arrow (Feather) file", BYTES("ARROW1\0\0"), FROM_PANDAS "pandas.read_feather(...)" TO_CSV},
    {"a Feather file", BYTES("FEA1\0\0\0\0"), FROM_PANDAS "pandas.read_feather(...)" TO_CSV},
    {"an HDF5 file", BYTES("\x89HDF\r\n\x1a\n"),
     "; convert it, for instance with h5py: numpy.savez(\"data.npz\", x=f[\"x\"], y=f[\"y\"]), for `kind: npz`"},
    {"a MATLAB 7.3 file", BYTES("MATLAB 7.3 MAT-file"),
     "; it is HDF5 inside: convert it with h5py and numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    {"a MATLAB file", BYTES("MATLAB 5.0 MAT-file"),
     "; convert it with scipy.io.loadmat and numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    PICKLE("\x80\2"),
    PICKLE("\x80\3"),
    PICKLE("\x80\4"),
    PICKLE("\x80\5"),
    {"a PyTorch file", MEMBER("/data.pkl"),
     "; open it with torch.load and write numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    {"an Excel workbook", MEMBER("[Content_Types].xml"),
     "; save it as CSV, or convert it with pandas: pandas.read_excel(...)" TO_CSV},
    {"an Excel workbook (or another old Office file)", BYTES("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
     "; save it as CSV, or convert it with pandas: pandas.read_excel(...)" TO_CSV},
    {"an SQLite database", BYTES("SQLite format 3\0"), FROM_PANDAS "pandas.read_sql(...)" TO_CSV},
    {"a PNG image", BYTES("\x89PNG\r\n\x1a\n"), IN_FOLDERS},
    {"a JPEG image", BYTES("\xff\xd8\xff"), IN_FOLDERS},
    {"text in UTF-16", BYTES("\xff\xfe"), "; convert it: iconv -f UTF-16 -t UTF-8"},
    {"text in UTF-16", BYTES("\xfe\xff"), "; convert it: iconv -f UTF-16 -t UTF-8"},
    {"compressed by bzip2", BYTES("BZh"), "; unpack it, or pack it with gzip or xz"},
    {"compressed by zstd", BYTES("\x28\xb5\x2f\xfd"), "; unpack it, or pack it with gzip or xz"},
};
enum { KNOWN = sizeof known / sizeof *known };

static fl_status refuse(fl_ctx *ctx, const char *path, const foreign_format *f)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: is %s, which is not read%s", path, f->name, f->way_out);
}

fl_status fli_format_check(fl_ctx *ctx, const char *path, const uint8_t *first, size_t n, int numpy)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].magic && n >= known[i].length && !memcmp(first, known[i].magic, known[i].length))
            return refuse(ctx, path, &known[i]);
    if (!numpy && n >= 6 && !memcmp(first, "\x93NUMPY", 6))
        return fli_fail(ctx, FL_EFORMAT, "%s: is a NumPy array, which `kind: npy` reads", path);
    return FL_OK;
}

static int ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && !strcmp(name + n - m, ending);
}

/* Explains why an archive with several files is refused: by its format if it is known, else by its contents. */
static fl_status refuse_archive(fl_ctx *ctx, const char *path, const fli_zip *zip)
{
    size_t arrays = 0, n = fli_zip_count(zip);
    fli_text names;
    for (size_t i = 0; i < n; i++) {
        arrays += (size_t)ends_with(fli_zip_name(zip, i), ".npy");
        for (size_t k = 0; k < KNOWN; k++)
            if (known[k].member && ends_with(fli_zip_name(zip, i), known[k].member))
                return refuse(ctx, path, &known[k]);
    }
    if (!n) return fli_fail(ctx, FL_EFORMAT, "%s: the zip archive holds no file", path);
    fli_text_init(&names, ctx);
    fli_zip_print_names(zip, arrays == n ? ".npy" : "", &names);
    fl_status s = fli_text_ok(&names);
    if (!s && arrays == n)
        s = fli_fail(ctx, FL_EFORMAT, "%s: is a NumPy archive with the arrays %s; `kind: npz` reads it", path,
                     fli_text_get(&names));
    if (!s)
        s = fli_fail(ctx, FL_EFORMAT, "%s: the zip archive holds %zu files: %s; unpack it and name the file to read",
                     path, n, fli_text_get(&names));
    fli_text_fini(&names);
    return s;
}

/* ==== streams =============================================================================================== */

enum { PIECE = 1 << 16, SAY_SECONDS = 10 };
#define LONGEST_LINE ((size_t)64 << 20)
#define XZ_MEMORY    ((uint64_t)256 << 20) /* the most that an xz header may ask for; `xz -9` needs 65 MiB */

struct fli_stream {
    fl_ctx *ctx;
    char *file; /* the name of the open file */
    char *path; /* the name for messages, with the member of an archive */
    int fd;
    fl_status status; /* the first failure */
    /* Makes `ready` non-empty, or leaves it empty at the end of the data. */
    fl_status (*refill)(fli_stream *s);
    void (*fini)(fli_stream *s);
    double due;      /* by fli_clock_now: the time of the next progress message */
    uint64_t offset; /* of ready[0] in the uncompressed data */
    const uint8_t *ready;
    size_t ready_n;
    size_t in_n;
    int packed_end; /* the last compressed stream is complete */
    z_stream gz;
    fli_zip *zip;
    lzma_stream xz;
    lzma_allocator xz_memory;
    char *line;
    size_t line_capacity;
    uint8_t in[PIECE], out[PIECE];
};

/* Fills `in` from the file; it has less than PIECE bytes only at the end. */
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

static fl_status gz_pull(fli_stream *s)
{
    fl_status status = pull(s);
    s->gz.next_in = s->in;
    s->gz.avail_in = status == FL_OK ? (unsigned)s->in_n : 0;
    return status;
}

/* Starts the next member; a gzip file is a sequence of members. */
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

static fl_status init_gz(fli_stream *s)
{
    enum { GZIP_ONLY = 16 };
    s->gz.next_in = s->in;
    s->gz.avail_in = (unsigned)s->in_n;
    fl_status status = fli_inflate_start(s->ctx, s->path, MAX_WBITS + GZIP_ONLY, &s->gz);
    if (status) return status;
    s->refill = refill_gz;
    s->fini = fini_gz;
    return FL_OK;
}

/* ---- zip ------------------------------------------------------------------------------------------------ */

static fl_status refill_zip(fli_stream *s)
{
    s->ready = s->out;
    return fli_zip_read(s->zip, s->out, PIECE, &s->ready_n);
}

static void fini_zip(fli_stream *s) { fli_zip_close(s->zip); }

static fl_status no_such_member(fli_stream *s, const char *member)
{
    fli_text names;
    fli_text_init(&names, s->ctx);
    fli_zip_print_names(s->zip, ".npy", &names);
    fl_status status = fli_text_ok(&names);
    if (!status)
        status =
            fli_fail(s->ctx, FL_EFORMAT, "%s: has no array %s; there %s %s", s->file, fli_quote(member).s,
                     fli_zip_count(s->zip) == 1 ? "is" : "are", fli_zip_count(s->zip) ? fli_text_get(&names) : "none");
    fli_text_fini(&names);
    return status;
}

/* Selects the array `member`; the name may have .npy at its end or not. */
static fl_status choose_member(fli_stream *s, const char *member)
{
    size_t n = strlen(member);
    for (size_t i = 0; i < fli_zip_count(s->zip); i++) {
        const char *name = fli_zip_name(s->zip, i);
        if (!strncmp(name, member, n) && (!name[n] || !strcmp(name + n, ".npy"))) return fli_zip_start(s->zip, i);
    }
    return no_such_member(s, member);
}

static fl_status init_zip(fli_stream *s, const char *member)
{
    fl_status status = fli_zip_open(s->ctx, s->file, s->fd, &s->zip);
    if (status) return status;
    s->refill = refill_zip;
    s->fini = fini_zip;
    if (member) return choose_member(s, member);
    return fli_zip_count(s->zip) == 1 ? fli_zip_start(s->zip, 0) : refuse_archive(s->ctx, s->file, s->zip);
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
    case LZMA_FORMAT_ERROR: return corrupt(s, "xz", produced, "what follows is not an xz stream");
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

/* Selects the decoder by the first bytes, which `pull` has read. */
static fl_status choose_decoder(fli_stream *s, const char *member)
{
    if (starts_with(s, "PK\3\4", 4) || starts_with(s, "PK\5\6", 4)) return init_zip(s, member);
    if (member) return fli_fail(s->ctx, FL_EFORMAT, "%s: is not a zip archive, as numpy.savez writes", s->file);
    if (starts_with(s, "\x1f\x8b", 2)) return init_gz(s);
    if (starts_with(s,
                    "\xfd"
                    "7zXZ",
                    6))
        return init_xz(s);
    s->ready = s->in;
    s->ready_n = s->in_n;
    return FL_OK;
}

static fl_status open_file(fli_stream *s, const char *member)
{
    struct stat st;
    s->fd = fli_fd_open(s->file, O_RDONLY, 0);
    if (s->fd < 0 || fstat(s->fd, &st))
        return fli_fail(s->ctx, FL_EIO, "%s: cannot be opened: %s", s->file, strerror(errno));
    if (S_ISDIR(st.st_mode)) return fli_fail(s->ctx, FL_EIO, "%s: is a folder, not a file", s->file);
    fl_status status = pull(s);
    return status ? status : choose_decoder(s, member);
}

fl_status fli_stream_open_array(fl_ctx *ctx, const char *path, const char *member, fli_stream **out)
{
    fl_status status = FL_ENOMEM;
    *out = NULL;
    fli_stream *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->fd = -1;
    s->refill = refill_plain;
    s->fini = fini_plain;
    s->due = fli_clock_now() + SAY_SECONDS;
    s->file = fli_strdup(ctx, path);
    s->path = member ? fli_strf(ctx, "%s: array %s", path, member) : fli_strdup(ctx, path);
    if (s->file && s->path) status = open_file(s, member);
    if (status == FL_OK)
        *out = s;
    else
        fli_stream_close(s);
    return status;
}

fl_status fli_stream_open(fl_ctx *ctx, const char *path, fli_stream **out)
{
    return fli_stream_open_array(ctx, path, NULL, out);
}

void fli_stream_close(fli_stream *s)
{
    if (!s) return;
    s->fini(s);
    if (s->fd >= 0) close(s->fd);
    fli_free(s->line);
    fli_free(s->file);
    fli_free(s->path);
    fli_free(s);
}

const char *fli_stream_path(const fli_stream *s) { return s->path; }

uint64_t fli_stream_offset(const fli_stream *s) { return s->offset; }

/* ---- reading -------------------------------------------------------------------------------------------- */

/* Logs progress from time to time: a small file may unpack to much, and take long. */
static void say_progress(fli_stream *s)
{
    double now = fli_clock_now();
    if (now < s->due) return;
    s->due = now + SAY_SECONDS;
    fli_log(s->ctx, FL_LOG_INFO, "%s: %.0f MiB of it are %s so far", s->path, (double)s->offset * 0x1p-20,
            s->refill == refill_plain ? "read" : "unpacked");
}

/* Makes at least one byte ready, except at the end. */
static fl_status ensure(fli_stream *s)
{
    if (s->status || s->ready_n) return s->status;
    if (fli_ctx_stopped(s->ctx)) return s->status = fli_fail(s->ctx, FL_ESTOPPED, "%s: reading was stopped", s->path);
    say_progress(s);
    return s->status = s->refill(s);
}

static void consume(fli_stream *s, size_t n)
{
    s->ready += n;
    s->ready_n -= n;
    s->offset += n;
}

fl_status fli_stream_peek(fli_stream *s, const uint8_t **first, size_t *n)
{
    fl_status status = ensure(s);
    *first = s->ready;
    *n = s->ready_n;
    return status;
}

fl_status fli_stream_skip_mark(fli_stream *s)
{
    fl_status status = ensure(s);
    if (status == FL_OK && s->ready_n >= 3 && !memcmp(s->ready, "\xef\xbb\xbf", 3)) consume(s, 3);
    return status;
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

void *fli_stream_map(fli_stream *s, size_t n, size_t alignment, fli_mapping *m)
{
    *m = (fli_mapping){NULL, 0};
    if (s->status != FL_OK || s->refill != refill_plain || s->offset % alignment) return NULL;
    void *at = map_file(s->fd, s->offset, n, m);
    if (at && lseek(s->fd, (off_t)(s->offset + n), SEEK_SET) < 0) fli_mapping_close(m);
    if (!m->base) return NULL;
    s->offset += n;
    s->ready_n = 0;
    return at;
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

/* Whether the file exists; any failure but its absence is an error. */
static fl_status find_exact(fl_ctx *ctx, const char *path, int *there)
{
    struct stat st;
    *there = 0;
    if (!stat(path, &st)) {
        *there = 1;
        return S_ISDIR(st.st_mode) ? fli_fail(ctx, FL_EIO, "%s: is a folder, not a file", path) : FL_OK;
    }
    int why = errno;
    if (why == ENOENT && !lstat(path, &st))
        return fli_fail(ctx, FL_EIO, "%s: is a link to a file that does not exist", path);
    if (why == ENOENT || why == ENOTDIR) return FL_OK;
    return fli_fail(ctx, FL_EIO, "%s: cannot be opened: %s", path, strerror(why));
}

fl_status fli_find_file(fl_ctx *ctx, const char *dir, const char *name, char **path)
{
    static const char *const ending[] = {"", ".gz", ".xz", ".zip"};
    const char *folder = *name == '/' ? "" : dir;
    const char *slash = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
    *path = NULL;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        int there = 0;
        char *p = fli_strf(ctx, "%s%s%s%s", folder, slash, name, ending[i]);
        fl_status s = p ? find_exact(ctx, p, &there) : FL_ENOMEM;
        if (s == FL_OK && there) {
            *path = p;
            return FL_OK;
        }
        fli_free(p);
        if (s) return s;
    }
    return fli_fail(ctx, FL_EIO, "%s%s%s: no such file, nor with .gz, .xz or .zip at its end", folder, slash, name);
}

/* ==== fields of a line ====================================================================================== */

/* The current line. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    size_t number;
    char separator;
    fli_array *field;
} splitter;

static int is_blank(const splitter *l, char c) { return c == ' ' || (c == '\t' && l->separator != '\t'); }

/* Unquotes a field whose opening quote is at p; *end points behind the closing one. */
static fl_status unquote(const splitter *l, char *p, char **end)
{
    char *to = p;
    char *from = p + 1;
    for (; *from; from++) {
        if (*from == '"' && from[1] != '"') break;
        if (*from == '"') from++;
        *to++ = *from;
    }
    if (!*from)
        return fli_fail(l->ctx, FL_EFORMAT, "%s:%zu: field %zu has an opening quote, but no closing one", l->path,
                        l->number, l->field->n - 1);
    *to = 0;
    for (from++; is_blank(l, *from); from++) continue;
    if (*from && *from != l->separator)
        return fli_fail(l->ctx, FL_EFORMAT, "%s:%zu: field %zu continues after its closing quote with %s", l->path,
                        l->number, l->field->n - 1, fli_quote(from).s);
    *end = from;
    return FL_OK;
}

/* Reads one field from *p; *p then points behind the separator, or is NULL at the end of the line. */
static fl_status next_field(const splitter *l, char **p)
{
    void *room;
    char *start = *p, *end = start;
    fl_status s = fli_array_add(l->ctx, l->field, 1, &room);
    if (s) return s;
    while (is_blank(l, *start)) start++;
    *(char **)room = start;
    if (*start == '"') {
        if ((s = unquote(l, start, &end))) return s;
        *p = *end ? end + 1 : NULL;
        return FL_OK;
    }
    end = strchrnul(start, l->separator);
    *p = *end ? end + 1 : NULL;
    while (end > start && is_blank(l, end[-1])) end--;
    *end = 0;
    return FL_OK;
}

/* Splits at any number of blanks. */
static fl_status split_blanks(const splitter *l, char *line)
{
    char *save = NULL;
    for (char *t = strtok_r(line, " \t", &save); t; t = strtok_r(NULL, " \t", &save)) {
        void *room;
        fl_status s = fli_array_add(l->ctx, l->field, 1, &room);
        if (s) return s;
        *(char **)room = t;
    }
    return FL_OK;
}

fl_status fli_fields_split(fl_ctx *ctx, char *line, char separator, const char *path, size_t number, fli_array *field)
{
    splitter l = {ctx, path, number, separator, field};
    field->n = 0;
    if (separator == ' ') return split_blanks(&l, line);
    while (line) {
        fl_status s = next_field(&l, &line);
        if (s) return s;
    }
    return FL_OK;
}
