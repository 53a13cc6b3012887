/* For tests of what reads files: a scratch folder, files in it (plain, gzip, xz, zip), and sources run by the keys a user writes. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include "check.h"

#include "base/file.h"
#include "data/list.h"

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

/* A zip archive under construction, byte by byte. */
typedef struct {
    uint8_t b[1 << 19];
    size_t n;
} zip_file;

static inline void zip_number(zip_file *z, size_t bytes, uint32_t v)
{
    for (size_t i = 0; i < bytes; i++, v >>= 8) z->b[z->n++] = (uint8_t)v;
}

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

/* One member. method: 0 or 8. descriptor: 0 sizes in the header, 1 behind the contents, 2 likewise without a signature. */
static inline void zip_member(zip_file *z, const char *name, const void *data, size_t n, int method, int descriptor)
{
    static uint8_t body[1 << 19];
    uint32_t crc = n ? (uint32_t)crc32(0, data, (unsigned)n) : 0;
    uint32_t packed = n || method ? (uint32_t)zip_body(data, n, method, body) : 0;
    zip_number(z, 4, 0x04034b50);
    zip_number(z, 2, 20);
    zip_number(z, 2, descriptor ? 8 : 0);
    zip_number(z, 2, (uint32_t)method);
    zip_number(z, 4, 0x4f360000); /* time and date */
    zip_number(z, 4, descriptor ? 0 : crc);
    zip_number(z, 4, descriptor ? 0 : packed);
    zip_number(z, 4, descriptor ? 0 : (uint32_t)n);
    zip_number(z, 2, (uint32_t)strlen(name));
    zip_number(z, 2, 5);
    memcpy(z->b + z->n, name, strlen(name));
    z->n += strlen(name);
    memcpy(z->b + z->n, "extra", 5);
    z->n += 5;
    memcpy(z->b + z->n, body, packed);
    z->n += packed;
    if (descriptor == 1) zip_number(z, 4, 0x08074b50);
    if (!descriptor) return;
    zip_number(z, 4, crc);
    zip_number(z, 4, packed);
    zip_number(z, 4, (uint32_t)n);
}

/* A stump of the central directory, of which only the signature is looked at. */
static inline void zip_end(zip_file *z)
{
    zip_number(z, 4, 0x02014b50);
    zip_number(z, 4, 20);
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

/* What precision load_source asks for. */
static int load_wide;

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
        fli_node *n = fli_node_new(&arena, FLI_NODE_SCALAR, pairs[0], pairs[1]);
        if (n)
            fli_node_append(map, n);
        else
            map = NULL;
    }
    fli_table table = {source->keys, params};
    if (map) s = fli_bind(ctx, &arena, "data", map, NULL, &table, 1);
    if (s == FL_OK) s = source->load(ctx, &(fli_request){.params = params, .seed = 1, .wide = load_wide}, train, test);
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
        if (s == FL_ENOMEM) assert_non_null(strstr(fl_ctx_error(ctx), "out of memory"));
        fli_clear(ctx);
        fli_dataset_free(train);
        fli_dataset_free(test);
    }
}

#endif
