#include "data_files.h"

#include "data/stream.h"

enum { BIG = 300000 }; /* several windows of the stream */

/* Text lines with a pattern that compresses, but not to nothing. */
static char *make_text(size_t n)
{
    char *p = malloc(n);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = i % 71 == 70 ? '\n' : (char)('a' + (x >> 24) % 13);
    }
    return p;
}

/* Reads everything in pieces of `piece` bytes and compares. */
static void check_contents(fl_ctx *ctx, const char *path, const char *want, size_t n, size_t piece)
{
    fli_stream *s;
    char *buf = malloc(piece);
    size_t at_ = 0, got;
    assert_ok(ctx, fli_stream_open(ctx, path, &s));
    assert_string_equal(fli_stream_path(s), path);
    do {
        assert_int_equal(fli_stream_offset(s), at_);
        assert_ok(ctx, fli_stream_read(s, buf, piece, &got));
        assert_true(at_ + got <= n);
        assert_memory_equal(buf, want + at_, got);
        at_ += got;
    } while (got == piece);
    assert_int_equal(at_, n);
    assert_ok(ctx, fli_stream_end(s));
    assert_ok(ctx, fli_stream_read(s, buf, piece, &got));
    assert_int_equal(got, 0);
    fli_stream_close(s);
    free(buf);
}

static void reads_all_packings(void **state)
{
    scratch *d = *state;
    char *text = make_text(BIG);
    const char *paths[] = {put(d, "plain", text, BIG), put_gz(d, "a.gz", text, BIG), put_xz(d, "a.xz", text, BIG),
                           put_gz(d, "misnamed.xz", text, BIG)};
    for (size_t i = 0; i < 4; i++) {
        check_contents(d->ctx, paths[i], text, BIG, 1000);
        check_contents(d->ctx, paths[i], text, BIG, BIG + 1);
    }
    check_contents(d->ctx, put(d, "empty", "", 0), "", 0, 10);
    check_contents(d->ctx, put_gz(d, "empty.gz", "", 0), "", 0, 10);
    check_contents(d->ctx, put_xz(d, "empty.xz", "", 0), "", 0, 10);
    free(text);
}

/* `cat a.gz b.gz` is a valid gzip file, and so for xz. */
static void reads_concatenated_streams(void **state)
{
    scratch *d = *state;
    uint8_t *(*pack[])(const void *, size_t, size_t *) = {pack_gz, pack_xz};
    char *text = make_text(BIG);
    for (int k = 0; k < 2; k++) {
        size_t a, b, half = 123457;
        uint8_t *first = pack[k](text, half, &a), *second = pack[k](text + half, BIG - half, &b);
        uint8_t *both = malloc(a + b);
        memcpy(both, first, a);
        memcpy(both + a, second, b);
        check_contents(d->ctx, put(d, "both", both, a + b), text, BIG, 4096);
        free(first);
        free(second);
        free(both);
    }
    free(text);
}

static fl_status drain(fl_ctx *ctx, const char *path)
{
    fli_stream *s;
    char buf[1000];
    size_t got = 1;
    fl_status status = fli_stream_open(ctx, path, &s);
    while (status == FL_OK && got) status = fli_stream_read(s, buf, sizeof buf, &got);
    if (status != FL_OK && s) assert_int_equal(fli_stream_read(s, buf, 1, &got), status); /* failures stay */
    fli_stream_close(s);
    return status;
}

static void damage_is_noticed(void **state)
{
    scratch *d = *state;
    uint8_t *(*pack[])(const void *, size_t, size_t *) = {pack_gz, pack_xz};
    const char *word[] = {"the gzip data are damaged", "the xz data are damaged"};
    char *text = make_text(BIG);
    for (int k = 0; k < 2; k++) {
        size_t n;
        uint8_t *p = pack[k](text, BIG, &n);
        size_t cuts[] = {7, 11, n / 2, n - 9, n - 1};
        for (size_t i = 0; i < 5; i++) {
            const char *path = put(d, "cut", p, cuts[i]);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, path);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, word[k]);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, "the file ends too early");
        }
        p[n - 6] ^= 1; /* gzip: CRC; xz: the footer */
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad-end", p, n)), FL_EFORMAT, "at uncompressed offset 300000");
        p[n - 6] ^= 1;
        for (size_t i = n / 2; i < n / 2 + 40; i++) p[i] ^= 0xa5;
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad-middle", p, n)), FL_EFORMAT, "at uncompressed offset ");
        free(p);
    }
    free(text);
}

static void garbage_after_the_packed_data_is_noticed(void **state)
{
    scratch *d = *state;
    uint8_t *(*pack[])(const void *, size_t, size_t *) = {pack_gz, pack_xz};
    for (int k = 0; k < 2; k++) {
        size_t n;
        uint8_t *p = pack[k]("hello", 5, &n), longer[500] = {0};
        memcpy(longer, p, n);
        memcpy(longer + n, "garbage!", 8);
        assert_fails(d->ctx, drain(d->ctx, put(d, "more", longer, n + 8)), FL_EFORMAT, "at uncompressed offset 5");
        free(p);
    }
}

static void opening_fails_with_the_name(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    assert_fails(d->ctx, fli_stream_open(d->ctx, at(d, "nothing"), &s), FL_EIO,
                 "nothing: cannot be opened: No such file");
    assert_null(s);
    assert_fails(d->ctx, fli_stream_open(d->ctx, d->dir, &s), FL_EIO, "is a folder, not a file");
    fli_stream_close(NULL);
}

/* Both methods, sizes before or behind the contents, folders in front. */
static void zip_archives(void **state)
{
    scratch *d = *state;
    char *text = make_text(BIG);
    static const size_t sizes[] = {0, 1, 5, BIG};
    for (size_t i = 0; i < 4; i++)
        for (int how = 0; how < 4; how++) {
            int method = how ? 8 : 0, descriptor = how ? how - 1 : 0;
            zip_file *z = calloc(1, sizeof *z);
            if (i % 2) zip_member(z, "folder/", NULL, 0, 0, 0);
            zip_member(z, "folder/name.csv", text, sizes[i], method, descriptor);
            zip_end(z);
            const char *path = put(d, "a.zip", z->b, z->n);
            check_contents(d->ctx, path, text, sizes[i], 1000);
            check_contents(d->ctx, path, text, sizes[i], BIG + 1);
            free(z);
        }
    free(text);
}

static void zip_damage_is_noticed(void **state)
{
    scratch *d = *state;
    char *text = make_text(BIG);
    for (int how = 0; how < 4; how++) {
        zip_file *z = calloc(1, sizeof *z);
        zip_member(z, "a", text, BIG, how ? 8 : 0, how ? how - 1 : 0);
        zip_end(z);
        for (size_t cut = 4; cut < z->n - 4; cut += cut < 60 ? 1 : cut < z->n - 60 ? 9973 : 1) {
            const char *path = put(d, "cut.zip", z->b, cut);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, path);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, "the zip archive ends too early (at byte ");
        }
        for (size_t i = z->n / 2; i < z->n / 2 + 40; i++) z->b[i] ^= 0xa5;
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad.zip", z->b, z->n)), FL_EFORMAT,
                     "the zip data are damaged at uncompressed offset ");
        for (size_t i = z->n / 2; i < z->n / 2 + 40; i++) z->b[i] ^= 0xa5;
        z->b[how > 1 ? z->n - 20 : 14] ^= 1; /* the checksum */
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad.zip", z->b, z->n)), FL_EFORMAT,
                     "at uncompressed offset 300000: the contents do not match their checksum");
        free(z);
    }
    free(text);
}

static void zip_refusals(void **state)
{
    scratch *d = *state;
    static const struct {
        size_t at;
        uint8_t value;
        const char *message;
    } cases[] = {
        {6, 1, "is encrypted; unpack it first"},
        {7, 0x20, "uses a feature that is not supported; unpack it first (at byte 36)"},
        {4, 45, "uses a feature that is not supported"}, /* zip64 */
        {8, 12, "uses a feature that is not supported"}, /* bzip2 */
        {18, 9, "uses a feature that is not supported"}, /* stored, but with two different sizes */
        {26, 0, "has a file without a name"},
        {30, '/', "has a folder with contents"},
    };
    zip_file *z = calloc(1, sizeof *z);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        z->n = 0;
        zip_member(z, "a", "hello", 5, 0, 0);
        zip_end(z);
        z->b[cases[i].at] = cases[i].value;
        assert_fails(d->ctx, drain(d->ctx, put(d, "r.zip", z->b, z->n)), FL_EFORMAT, cases[i].message);
    }
    z->n = 0;
    zip_member(z, "a", "hello", 5, 8, 0);
    size_t second = z->n;
    zip_member(z, "b", "world", 5, 8, 0);
    zip_end(z);
    char message[100];
    snprintf(message, sizeof message,
             "holds more than one file; unpack it and name the one that is meant (at byte %zu)", second + 4);
    assert_fails(d->ctx, drain(d->ctx, put(d, "two.zip", z->b, z->n)), FL_EFORMAT, message);
    memcpy(z->b + second, "PK\7\7", 4);
    assert_fails(d->ctx, drain(d->ctx, put(d, "odd.zip", z->b, z->n)), FL_EFORMAT, "has no directory behind its file");
    z->n = 0;
    zip_member(z, "only-a-folder/", NULL, 0, 0, 0);
    zip_end(z);
    assert_fails(d->ctx, drain(d->ctx, put(d, "f.zip", z->b, z->n)), FL_EFORMAT,
                 "f.zip: the zip archive holds no file");
    assert_fails(d->ctx, drain(d->ctx, put(d, "e.zip", "PK\5\6", 4)), FL_EFORMAT, "the zip archive holds no file");
    free(z);
}

static void need_and_end(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    char buf[16];
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_text(d, "ten", "0123456789"), &s));
    assert_ok(d->ctx, fli_stream_need(s, buf, 4, "a start"));
    assert_memory_equal(buf, "0123", 4);
    assert_fails(d->ctx, fli_stream_end(s), FL_EFORMAT, "ten: has bytes after its end at offset 4");
    assert_fails(d->ctx, fli_stream_need(s, buf, 9, "a tail"), FL_EFORMAT,
                 "ten: ends at offset 10, 3 bytes short of a tail");
    fli_stream_close(s);
}

static void expect_line(fl_ctx *ctx, fli_stream *s, const char *want)
{
    char *line;
    size_t n;
    assert_ok(ctx, fli_stream_line(s, &line, &n));
    if (!want) {
        assert_null(line);
        return;
    }
    assert_non_null(line);
    assert_string_equal(line, want);
    assert_int_equal(n, strlen(want));
}

static void lines(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_text(d, "t", "one\ntwo\r\n\n\r\n a\rb \nlast"), &s));
    const char *want[] = {"one", "two", "", "", " a\rb ", "last", NULL, NULL};
    for (size_t i = 0; i < 8; i++) expect_line(d->ctx, s, want[i]);
    fli_stream_close(s);
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_text(d, "t", "x\n"), &s));
    expect_line(d->ctx, s, "x");
    expect_line(d->ctx, s, NULL);
    fli_stream_close(s);
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_text(d, "t", ""), &s));
    expect_line(d->ctx, s, NULL);
    fli_stream_close(s);
}

/* Lines across the borders of the window, compressed. */
static void long_lines(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    char *text = malloc(BIG + 1);
    memset(text, 'q', BIG);
    text[100000] = text[100001] = '\n';
    text[BIG] = 0;
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_xz(d, "t.xz", text, BIG), &s));
    text[100000] = 0;
    expect_line(d->ctx, s, text);
    expect_line(d->ctx, s, "");
    expect_line(d->ctx, s, text + 100002);
    expect_line(d->ctx, s, NULL);
    fli_stream_close(s);
    free(text);
}

static void bad_lines(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    char *line;
    size_t n;
    assert_ok(d->ctx, fli_stream_open(d->ctx, put(d, "nul", "ab\nc\0d\n", 7), &s));
    expect_line(d->ctx, s, "ab");
    assert_fails(d->ctx, fli_stream_line(s, &line, &n), FL_EFORMAT, "nul: a NUL byte in the text at offset 4");
    assert_null(line);
    fli_stream_close(s);
    size_t huge = ((size_t)64 << 20) + 1;
    char *text = malloc(huge);
    memset(text, 'x', huge);
    assert_ok(d->ctx, fli_stream_open(d->ctx, put_gz(d, "long.gz", text, huge), &s));
    assert_fails(d->ctx, fli_stream_line(s, &line, &n), FL_EFORMAT, "is longer than 64 MiB");
    fli_stream_close(s);
    free(text);
}

static void all_at_once(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    char *text = make_text(BIG), *data;
    size_t n;
    const char *path = put_gz(d, "all.gz", text, BIG);
    assert_ok(d->ctx, fli_stream_open(d->ctx, path, &s));
    assert_ok(d->ctx, fli_stream_all(s, BIG, &data, &n));
    assert_int_equal(n, BIG);
    assert_memory_equal(data, text, BIG);
    assert_int_equal(data[BIG], 0);
    fli_free(data);
    assert_ok(d->ctx, fli_stream_all(s, BIG, &data, &n));
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    fli_free(data);
    fli_stream_close(s);
    assert_ok(d->ctx, fli_stream_open(d->ctx, path, &s));
    assert_fails(d->ctx, fli_stream_all(s, BIG - 1, &data, &n), FL_EFORMAT, "longer than the 299999 bytes allowed");
    assert_null(data);
    fli_stream_close(s);
    free(text);
}

static void every_allocation_may_fail(void **state)
{
    scratch *d = *state;
    char *text = make_text(BIG), *data;
    size_t n;
    zip_file *z = calloc(1, sizeof *z);
    zip_member(z, "a", text, BIG, 8, 0);
    zip_end(z);
    const char *paths[] = {put(d, "p", text, BIG), put_gz(d, "p.gz", text, BIG), put_xz(d, "p.xz", text, BIG),
                           put(d, "p.zip", z->b, z->n)};
    free(z);
    for (size_t i = 0; i < 4; i++) {
        fl_status status = FL_ENOMEM;
        for (size_t k = 1; status; k++) {
            fli_stream *s;
            assert_true(k < 1000);
            fli_ctx_fail_alloc(d->ctx, k);
            status = fli_stream_open(d->ctx, paths[i], &s);
            if (status == FL_OK) status = fli_stream_all(s, BIG, &data, &n);
            fli_ctx_fail_alloc(d->ctx, 0);
            if (status == FL_OK) fli_free(data);
            assert_true(status == FL_OK || status == FL_ENOMEM);
            fli_clear(d->ctx);
            fli_stream_close(s);
        }
    }
    free(text);
}

static void finding(void **state)
{
    scratch *d = *state;
    char *path;
    put_text(d, "a", "");
    put_text(d, "a.gz", "");
    put_text(d, "b.gz", "");
    put_text(d, "b.xz", "");
    put_text(d, "c.xz", "");
    put_text(d, "e.zip", "");
    const char *cases[][2] = {{"a", "a"}, {"b", "b.gz"}, {"c", "c.xz"}, {"c.xz", "c.xz"}, {"e", "e.zip"}};
    for (size_t i = 0; i < 5; i++) {
        assert_ok(d->ctx, fli_find_file(d->ctx, d->dir, cases[i][0], &path));
        assert_string_equal(path, at(d, cases[i][1]));
        fli_free(path);
        assert_ok(d->ctx, fli_find_file(d->ctx, "", at(d, cases[i][0]), &path));
        assert_string_equal(path, at(d, cases[i][1]));
        fli_free(path);
    }
    assert_ok(d->ctx, fli_find_file(d->ctx, "/elsewhere", at(d, "a"), &path));
    fli_free(path);
    assert_fails(d->ctx, fli_find_file(d->ctx, d->dir, "nix", &path), FL_EIO, "/nix: no such file");
    assert_null(path);
    assert_fails(d->ctx, fli_find_file(d->ctx, "", d->dir, &path), FL_EIO, "no such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_packings),
        cmocka_unit_test(reads_concatenated_streams),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(garbage_after_the_packed_data_is_noticed),
        cmocka_unit_test(opening_fails_with_the_name),
        cmocka_unit_test(zip_archives),
        cmocka_unit_test(zip_damage_is_noticed),
        cmocka_unit_test(zip_refusals),
        cmocka_unit_test(need_and_end),
        cmocka_unit_test(lines),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
