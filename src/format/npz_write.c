#include "format/npz_write.h"

#include "base/bytes.h"
#include "base/number.h"

#include <string.h>
#include <zlib.h>

enum { LOCAL = 30, CENTRAL = 46, END = 22, MOST_ARRAYS = 4, NAME = 32, HEAD = 256, ALIGN = 64 };

/* An array on its way into the archive. */
typedef struct {
    const fli_npz_array *a;
    char file[NAME];
    char head[HEAD]; /* of NPY */
    size_t head_bytes, data_bytes, at;
    uint32_t crc;
} member;

static size_t volume(const fli_npz_array *a)
{
    size_t n = a->width;
    for (size_t k = 0; k < a->dims; k++) n *= a->size[k];
    return n;
}

/* zlib counts in 32 bits. */
static uint32_t checksum(const member *m)
{
    const size_t most = 1u << 30;
    const unsigned char *p = m->a->data;
    uLong crc = crc32(0, (const Bytef *)m->head, (uInt)m->head_bytes);
    for (size_t at = 0; at < m->data_bytes; at += most)
        crc = crc32(crc, p + at, (uInt)(m->data_bytes - at < most ? m->data_bytes - at : most));
    return (uint32_t)crc;
}

/* Version 1.0: magic, two bytes of length, a Python dictionary padded with blanks to a multiple of 64. */
static void describe(const fli_npz_array *a, member *m)
{
    const uint16_t one = 1;
    char order = a->width == 1 ? '|' : *(const unsigned char *)&one ? '<' : '>';
    char shape[100] = "", *text = m->head + 10;
    for (size_t k = 0, used = 0; k < a->dims; k++)
        used += (size_t)fli_snprintf(shape + used, sizeof shape - used, "%zu,", a->size[k]);
    size_t n = (size_t)fli_snprintf(text, HEAD - 10, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (%s), }",
                                    order, a->kind, a->width, shape);
    m->a = a;
    m->head_bytes = (10 + n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(text + n, ' ', m->head_bytes - 10 - n);
    m->head[m->head_bytes - 1] = '\n';
    memcpy(m->head, "\x93NUMPY\x01\x00", 8);
    fli_put_u64((unsigned char *)m->head + 8, m->head_bytes - 10, 2);
    m->data_bytes = volume(a);
    m->crc = checksum(m);
    fli_snprintf(m->file, sizeof m->file, "%s.npy", a->name);
}

/* What the local header and the directory have in common: version, flags, method (stored), time (the first that there
 * is), checksum, sizes, lengths of name and extra field. */
static unsigned char *common(unsigned char *at, const member *m)
{
    uint64_t bytes = m->head_bytes + m->data_bytes;
    const uint64_t fields[] = {20, 0, 0, 0, 0x21, m->crc, bytes, bytes, strlen(m->file), 0};
    static const size_t width[] = {2, 2, 2, 2, 2, 4, 4, 4, 2, 2};
    for (size_t k = 0; k < sizeof width / sizeof *width; k++) at = fli_put_u64(at, fields[k], width[k]);
    return at;
}

static void put_member(fli_out *out, const member *m)
{
    unsigned char head[LOCAL];
    memcpy(head, "PK\3\4", 4);
    common(head + 4, m);
    fli_out_bytes(out, head, sizeof head);
    fli_out_text(out, m->file);
    fli_out_bytes(out, m->head, m->head_bytes);
    fli_out_bytes(out, m->a->data, m->data_bytes);
}

static void put_directory(fli_out *out, const member *m)
{
    unsigned char head[CENTRAL] = "PK\1\2";
    fli_put_u64(head + 4, 20, 2);
    common(head + 6, m);
    fli_put_u64(head + 42, m->at, 4);
    fli_out_bytes(out, head, sizeof head);
    fli_out_text(out, m->file);
}

static void put_end(fli_out *out, size_t count, size_t from, size_t bytes)
{
    unsigned char end[END] = "PK\5\6";
    fli_put_u64(end + 8, count, 2);
    fli_put_u64(end + 10, count, 2);
    fli_put_u64(end + 12, bytes, 4);
    fli_put_u64(end + 16, from, 4);
    fli_out_bytes(out, end, sizeof end);
}

fl_status fli_npz_write(fl_ctx *ctx, const char *path, const fli_npz_array *array, size_t count)
{
    member m[MOST_ARRAYS];
    size_t at = 0, directory = 0;
    fli_out out;
    for (size_t i = 0; i < count; i++) {
        describe(&array[i], &m[i]);
        m[i].at = at;
        at += LOCAL + strlen(m[i].file) + m[i].head_bytes + m[i].data_bytes;
        directory += CENTRAL + strlen(m[i].file);
    }
    if (at > UINT32_MAX - directory)
        return fli_fail(ctx, FL_ECONFIG, "%s: would have %zu bytes, but 4 GiB is the most", path, at + directory);
    fl_status s = fli_out_open(ctx, path, &out);
    if (s) return s;
    for (size_t i = 0; i < count; i++) put_member(&out, &m[i]);
    for (size_t i = 0; i < count; i++) put_directory(&out, &m[i]);
    put_end(&out, count, at, directory);
    return fli_out_close(&out);
}
