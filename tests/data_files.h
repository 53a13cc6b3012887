/* For tests of what reads files: a scratch folder, files in it (plain, gzip, xz, zip), and sources run by the keys a
 * user writes. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include "check.h"

#include "base/file.h"
#include "data/source.h"
#include "data/label_names.h"

#include <lzma.h>
#include <zlib.h>

typedef struct {
    fl_ctx *ctx;
    char dir[64];
    char path[16][128]; /* what the last 16 calls of `at` returned */
    int next;
} scratch;

static inline int scratch_setup(void **state)
{
    scratch *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->ctx = fl_ctx_new();
    strcpy(s->dir, "/tmp/fedloom-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    *state = s;
    return 0;
}

static inline int scratch_teardown(void **state)
{
    scratch *s = *state;
    assert_int_equal(fli_remove_folder(s->ctx, s->dir), FL_OK);
    fl_ctx_free(s->ctx);
    free(s);
    return 0;
}

/* The path of a file in the scratch folder. */
static inline const char *at(scratch *s, const char *name)
{
    char *p = s->path[s->next++ % 16];
    snprintf(p, sizeof s->path[0], "%s/%s", s->dir, name);
    return p;
}

static inline const char *put(scratch *s, const char *name, const void *data, size_t n)
{
    const char *path = at(s, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *put_text(scratch *s, const char *name, const char *text)
{
    return put(s, name, text, strlen(text));
}

/* Its owner's alone, as keys must be. */
static inline void copy_private(scratch *s, const char *from, const char *to)
{
    char *text;
    size_t n;
    assert_ok(s->ctx, fli_file_read(s->ctx, at(s, from), 1 << 20, &text, &n));
    assert_ok(s->ctx, fli_file_private(s->ctx, at(s, to), text, n));
    fli_free(text);
}

/* One gzip member; free() the result. */
static inline uint8_t *pack_gz(const void *data, size_t n, size_t *packed)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, n) + 64;
    uint8_t *out = malloc(room);
    z.next_in = (uint8_t *)(uintptr_t)data;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *packed = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

/* One xz stream; free() the result. */
static inline uint8_t *pack_xz(const void *data, size_t n, size_t *packed)
{
    size_t room = lzma_stream_buffer_bound(n);
    uint8_t *out = malloc(room);
    *packed = 0;
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, data, n, out, packed, room), LZMA_OK);
    return out;
}

/* A zip archive under construction, byte by byte: what is there so far, and its directory. */
typedef struct {
    uint8_t b[1 << 19];
    size_t n;
    uint8_t dir[4096];
    size_t dir_n;
    unsigned count;
} zip_file;

static inline void put_little(uint8_t *b, size_t *n, size_t bytes, uint64_t v)
{
    for (size_t i = 0; i < bytes; i++, v >>= 8) b[(*n)++] = (uint8_t)v;
}

static inline void zip_number(zip_file *z, size_t bytes, uint64_t v) { put_little(z->b, &z->n, bytes, v); }
static inline void zip_dir(zip_file *z, size_t bytes, uint64_t v) { put_little(z->dir, &z->dir_n, bytes, v); }

/* The raw deflate stream (the body of a gzip member), or the bytes themselves. */
static inline size_t zip_body(const void *data, size_t n, int method, uint8_t *to)
{
    if (!method) {
        memcpy(to, data, n);
        return n;
    }
    size_t packed;
    uint8_t *p = pack_gz(data, n, &packed);
    memcpy(to, p + 10, packed - 18);
    free(p);
    return packed - 18;
}

/* How a member is written: sizes in the header, behind the contents, likewise without a signature; 64-bit sizes in the
 * header as NumPy has them; 64-bit sizes and place in the directory too. */
enum { ZIP_PLAIN, ZIP_BEHIND, ZIP_BEHIND_BARE, ZIP_NUMPY, ZIP_64 };

/* The record of the directory. */
static inline void zip_record(zip_file *z, const char *name, uint32_t crc, size_t packed, size_t n, int method, int how,
                              size_t at)
{
    int wide = how == ZIP_64;
    zip_dir(z, 4, 0x02014b50);
    zip_dir(z, 4, 45 << 16 | 45);
    zip_dir(z, 2, how == ZIP_BEHIND || how == ZIP_BEHIND_BARE ? 8 : 0);
    zip_dir(z, 2, (uint64_t)method);
    zip_dir(z, 4, 0x4f360000); /* time and date */
    zip_dir(z, 4, crc);
    zip_dir(z, 4, wide ? UINT32_MAX : packed);
    zip_dir(z, 4, wide ? UINT32_MAX : n);
    zip_dir(z, 2, strlen(name));
    zip_dir(z, 4, wide ? 7 + 28 : 0); /* and no comment */
    zip_dir(z, 8, 0);
    zip_dir(z, 4, wide ? UINT32_MAX : at);
    memcpy(z->dir + z->dir_n, name, strlen(name));
    z->dir_n += strlen(name);
    z->count++;
    if (!wide) return;
    zip_dir(z, 4, 3 << 16 | 0x5455); /* some other field first */
    zip_dir(z, 3, 0);
    zip_dir(z, 4, 24 << 16 | 1);
    zip_dir(z, 8, n);
    zip_dir(z, 8, packed);
    zip_dir(z, 8, at);
}

/* One member. method: 0 or 8. */
static inline void zip_member(zip_file *z, const char *name, const void *data, size_t n, int method, int how)
{
    static uint8_t body[1 << 19];
    uint32_t crc = n ? (uint32_t)crc32(0, data, (unsigned)n) : 0;
    size_t packed = n || method ? zip_body(data, n, method, body) : 0, at = z->n;
    int behind = how == ZIP_BEHIND || how == ZIP_BEHIND_BARE, wide = how == ZIP_NUMPY || how == ZIP_64;
    zip_record(z, name, crc, packed, n, method, how, at);
    zip_number(z, 4, 0x04034b50);
    zip_number(z, 2, wide ? 45 : 20);
    zip_number(z, 2, behind ? 8 : 0);
    zip_number(z, 2, (uint64_t)method);
    zip_number(z, 4, 0x4f360000);
    zip_number(z, 4, behind ? 0 : crc);
    zip_number(z, 4, wide ? UINT32_MAX : behind ? 0 : packed);
    zip_number(z, 4, wide ? UINT32_MAX : behind ? 0 : n);
    zip_number(z, 2, strlen(name));
    zip_number(z, 2, wide ? 20 : 5);
    memcpy(z->b + z->n, name, strlen(name));
    z->n += strlen(name);
    if (wide) {
        zip_number(z, 4, 16 << 16 | 1);
        zip_number(z, 8, n);
        zip_number(z, 8, packed);
    } else {
        memcpy(z->b + z->n, "extra", 5);
        z->n += 5;
    }
    memcpy(z->b + z->n, body, packed);
    z->n += packed;
    if (how == ZIP_BEHIND) zip_number(z, 4, 0x08074b50);
    if (!behind) return;
    zip_number(z, 4, crc);
    zip_number(z, 4, packed);
    zip_number(z, 4, n);
}

/* The directory and the end; `wide`: with the 64-bit end record, all ones in the other. */
static inline void zip_end_as(zip_file *z, int wide)
{
    size_t at = z->n, record = at + z->dir_n;
    memcpy(z->b + z->n, z->dir, z->dir_n);
    z->n += z->dir_n;
    if (wide) {
        zip_number(z, 4, 0x06064b50);
        zip_number(z, 8, 44);
        zip_number(z, 4, 45 << 16 | 45);
        zip_number(z, 8, 0);
        zip_number(z, 8, z->count);
        zip_number(z, 8, z->count);
        zip_number(z, 8, z->dir_n);
        zip_number(z, 8, at);
        zip_number(z, 4, 0x07064b50);
        zip_number(z, 4, 0);
        zip_number(z, 8, record);
        zip_number(z, 4, 1);
    }
    zip_number(z, 4, 0x06054b50);
    zip_number(z, 4, wide ? UINT32_MAX : 0);
    zip_number(z, 2, wide ? 0xffff : z->count);
    zip_number(z, 2, wide ? 0xffff : z->count);
    zip_number(z, 4, wide ? UINT32_MAX : z->dir_n);
    zip_number(z, 4, wide ? UINT32_MAX : at);
    zip_number(z, 2, 0);
}

static inline void zip_end(zip_file *z) { zip_end_as(z, 0); }

/* The same memory for another archive. */
static inline void zip_again(zip_file *z)
{
    z->n = z->dir_n = 0;
    z->count = 0;
}

static inline const char *put_gz(scratch *s, const char *name, const void *data, size_t n)
{
    size_t packed;
    uint8_t *p = pack_gz(data, n, &packed);
    const char *path = put(s, name, p, packed);
    free(p);
    return path;
}

static inline const char *put_xz(scratch *s, const char *name, const void *data, size_t n)
{
    size_t packed;
    uint8_t *p = pack_xz(data, n, &packed);
    const char *path = put(s, name, p, packed);
    free(p);
    return path;
}

/* What load_source asks for: doubles, samples that may stay in their files, those of one client. */
static int load_wide, load_mapped, load_client;

/* A value as a user writes it: a text, or a list as "[1, 2]". */
static inline fli_node *value_node(fli_arena *arena, const char *key, const char *text)
{
    if (*text != '[') return fli_node_new(arena, FLI_NODE_SCALAR, key, text);
    fli_node *list = fli_node_new(arena, FLI_NODE_LIST, key, NULL);
    char *copy = fli_arena_strdup(arena, text), *rest = copy;
    for (char *word; list && copy && (word = strtok_r(rest, "[, ]", &rest));) {
        fli_node *item = fli_node_new(arena, FLI_NODE_SCALAR, NULL, word);
        if (!item) return NULL;
        fli_node_append(list, item);
    }
    return copy ? list : NULL;
}

/* Binds key, value, key, value, ..., NULL and runs the source. */
static inline fl_status load_source(fl_ctx *ctx, const fli_source *source, const char *const *pairs,
                                    fli_dataset **train, fli_dataset **test)
{
    fli_arena arena;
    *train = *test = NULL;
    fli_arena_init(&arena, ctx);
    fl_status s = FL_ENOMEM;
    void *params = fli_arena_alloc(&arena, 1, source->params_size);
    fli_node *map = params ? fli_node_new(&arena, FLI_NODE_MAP, NULL, NULL) : NULL;
    for (; map && pairs[0]; pairs += 2) {
        fli_node *n = value_node(&arena, pairs[0], pairs[1]);
        if (n)
            fli_node_append(map, n);
        else
            map = NULL;
    }
    fli_table table = {source->keys, params};
    if (map) s = fli_bind(ctx, &arena, "data", map, NULL, &table, 1);
    fli_source_request ask = {
        .params = params, .seed = 1, .wide = load_wide, .map = load_mapped, .client = load_client};
    if (s == FL_OK) s = source->load(ctx, &ask, train, test);
    if (s == FL_OK && (s = fli_label_names_note(ctx, *train, NULL))) { /* as fli_fed_make does */
        fli_dataset_free(*train);
        fli_dataset_free(*test);
        *train = *test = NULL;
    }
    if (s != FL_OK) assert_true(!*train && !*test);
    fli_arena_fini(&arena);
    return s;
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Fails the 1st, 2nd, 3rd, ... allocation of a load until none is left to fail. Leaks are for the sanitizer to find. */
static inline void torture_source(fl_ctx *ctx, const fli_source *source, const char *const *pairs)
{
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s != FL_OK; k++) {
        fli_dataset *train, *test;
        assert_true(k < 100000);
        fli_ctx_fail_alloc(ctx, k);
        s = load_source(ctx, source, pairs, &train, &test);
        fli_ctx_fail_alloc(ctx, 0);
        if (s != FL_OK && s != FL_ENOMEM) fail_msg("allocation %zu: status %d, %s", k, (int)s, fl_ctx_error(ctx));
        if (s == FL_ENOMEM && !strstr(fl_ctx_error(ctx), "out of memory"))
            fail_msg("allocation %zu: %s", k, fl_ctx_error(ctx));
        fli_clear(ctx);
        fli_dataset_free(train);
        fli_dataset_free(test);
    }
}

#endif
