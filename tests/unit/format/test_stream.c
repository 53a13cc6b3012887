#include "data_files.h"

#include "format/stream.h"

#include <sys/stat.h>
#include <unistd.h>

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

/* Both methods, sizes before or behind the contents, 64-bit or not, folders in front, a comment behind. */
static void zip_archives(void **state)
{
    scratch *d = *state;
    char *text = make_text(BIG);
    static const size_t sizes[] = {0, 1, 5, BIG};
    for (size_t i = 0; i < 4; i++)
        for (int how = 0; how < 10; how++) {
            zip_file *z = calloc(1, sizeof *z);
            if (i % 2) zip_member(z, "folder/", NULL, 0, 0, 0);
            if (i % 2) zip_member(z, "__MACOSX/._name.csv", "junk", 4, 0, 0);
            zip_member(z, "folder/name.csv", text, sizes[i], how % 2 ? 8 : 0, how / 2);
            zip_end_as(z, how > 5);
            if (i == 2) {
                z->b[z->n - 2] = 30;
                zip_number(z, 30, 0x06054b50); /* a comment that looks like an end record */
            }
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
    for (int how = 0; how < 10; how++) {
        zip_file *z = calloc(1, sizeof *z);
        zip_member(z, "a", text, BIG, how % 2 ? 8 : 0, how / 2);
        size_t body = z->n;
        zip_end_as(z, how > 5);
        for (size_t cut = 4; cut < z->n; cut += cut < 60 ? 1 : cut < z->n - 60 ? 9973 : 1) {
            const char *path = put(d, "cut.zip", z->b, cut);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, path);
            assert_fails(d->ctx, drain(d->ctx, path), FL_EFORMAT, "the zip archive ends too early");
        }
        for (size_t i = body / 2; i < body / 2 + 40; i++) z->b[i] ^= 0xa5;
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad.zip", z->b, z->n)), FL_EFORMAT,
                     "the zip data of 'a' are damaged at uncompressed offset ");
        for (size_t i = body / 2; i < body / 2 + 40; i++) z->b[i] ^= 0xa5;
        z->b[body + 16] ^= 1; /* the checksum */
        assert_fails(d->ctx, drain(d->ctx, put(d, "bad.zip", z->b, z->n)), FL_EFORMAT,
                     "at uncompressed offset 300000: the contents do not match their checksum");
        free(z);
    }
    free(text);
}

/* One byte of an archive changed: `at` counts from its directory, or from its end record if `end`. */
static void zip_refusals(void **state)
{
    scratch *d = *state;
    static const struct {
        int end;
        size_t at;
        uint8_t value;
        const char *message;
    } cases[] = {
        {0, 8, 1, "is encrypted; unpack it first"},
        {0, 10, 12, "'a' is packed by zip method 12, but only stored and deflated files are read"},
        {0, 20, 9, "has a stored file of two sizes"},
        {0, 28, 0, "has a file without a proper name"},
        {0, 46, 0, "has a file without a proper name"},
        {0, 28, 200, "has a damaged directory"},
        {0, 0, 'Q', "has a damaged directory"},
        {0, 42, 1, "has no file where its directory says"},
        {0, 45, 1, "ends too early"},
        {0, 24, 200, "has a stored file of two sizes"},
        {1, 4, 1, "is one part of several"},
        {1, 19, 1, "says that its directory is where it cannot be"},
        {1, 15, 1, "says that its directory is where it cannot be"},
        {1, 12, 3, "has a damaged directory"},
    };
    zip_file *z = calloc(1, sizeof *z);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_again(z);
        zip_member(z, "a", "hello", 5, 0, 0);
        size_t dir = z->n;
        zip_end(z);
        z->b[(cases[i].end ? z->n - 22 : dir) + cases[i].at] = cases[i].value;
        assert_fails(d->ctx, drain(d->ctx, put(d, "r.zip", z->b, z->n)), FL_EFORMAT, cases[i].message);
    }
    zip_again(z);
    zip_member(z, "a", "hello", 5, 0, ZIP_64);
    zip_end_as(z, 1);
    z->b[z->n - 22 - 20 - 56] ^= 1;
    assert_fails(d->ctx, drain(d->ctx, put(d, "r.zip", z->b, z->n)), FL_EFORMAT, "has no 64-bit end record");
    zip_again(z);
    zip_member(z, "only-a-folder/", NULL, 0, 0, 0);
    zip_end(z);
    assert_fails(d->ctx, drain(d->ctx, put(d, "f.zip", z->b, z->n)), FL_EFORMAT,
                 "f.zip: the zip archive holds no file");
    zip_again(z);
    zip_end(z);
    assert_fails(d->ctx, drain(d->ctx, put(d, "e.zip", z->b, z->n)), FL_EFORMAT, "the zip archive holds no file");
    free(z);
}

/* Several files: what they are is said, as far as it is known. */
static void zip_of_several(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *name[3], *message;
    } cases[] = {
        {{"a", "b"}, "s.zip: the zip archive holds 2 files: 'a', 'b'; unpack it and name the file to read"},
        {{"x.npy", "y.npy"}, "s.zip: is a NumPy archive with the arrays 'x', 'y'; `kind: npz` reads it"},
        {{"[Content_Types].xml", "xl/workbook.xml"}, "s.zip: is an Excel workbook, which is not read; save it as CSV"},
        {{"archive/data.pkl", "archive/version"}, "s.zip: is a PyTorch file, which is not read"},
    };
    zip_file *z = calloc(1, sizeof *z);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_again(z);
        for (size_t k = 0; cases[i].name[k]; k++) zip_member(z, cases[i].name[k], "hello", 5, 8, 0);
        zip_end(z);
        assert_fails(d->ctx, drain(d->ctx, put(d, "s.zip", z->b, z->n)), FL_EFORMAT, cases[i].message);
    }
    zip_again(z);
    for (char name[] = "a"; *name < 'p'; ++*name) zip_member(z, name, "", 0, 0, 0);
    zip_end(z);
    assert_fails(d->ctx, drain(d->ctx, put(d, "s.zip", z->b, z->n)), FL_EFORMAT, "'j', ...; unpack it");
    free(z);
}

/* A named array of an archive. */
static void zip_arrays(void **state)
{
    scratch *d = *state;
    fli_stream *s;
    char *data;
    size_t n;
    zip_file *z = calloc(1, sizeof *z);
    zip_member(z, "xx.npy", "wrong", 5, 0, ZIP_NUMPY);
    zip_member(z, "x.npy", "right", 5, 8, ZIP_NUMPY);
    zip_end(z);
    const char *path = put(d, "a.npz", z->b, z->n);
    assert_ok(d->ctx, fli_stream_open_array(d->ctx, path, "x", &s));
    assert_ok(d->ctx, fli_stream_all(s, 10, &data, &n));
    assert_string_equal(data, "right");
    assert_non_null(strstr(fli_stream_path(s), "a.npz: array x"));
    fli_free(data);
    fli_stream_close(s);
    assert_fails(d->ctx, fli_stream_open_array(d->ctx, path, "y", &s), FL_EFORMAT,
                 "a.npz: has no array 'y'; there are 'xx', 'x'");
    assert_fails(d->ctx, fli_stream_open_array(d->ctx, put_text(d, "t", "text"), "y", &s), FL_EFORMAT,
                 "t: is not a zip archive, as numpy.savez writes");
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

static void lines_lose_their_endings(void **state)
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

static void files_are_found_despite_suffixes(void **state)
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
    assert_fails(d->ctx, fli_find_file(d->ctx, "", d->dir, &path), FL_EIO, "is a folder, not a file");
    assert_fails(d->ctx, fli_find_file(d->ctx, at(d, "a"), "b", &path), FL_EIO, "a/b: no such file");
    assert_int_equal(symlink("loop", at(d, "loop")), 0);
    assert_fails(d->ctx, fli_find_file(d->ctx, d->dir, "loop", &path), FL_EIO, "/loop: cannot be opened: Too many");
    assert_int_equal(symlink("nowhere", at(d, "stale")), 0);
    assert_fails(d->ctx, fli_find_file(d->ctx, d->dir, "stale", &path), FL_EIO,
                 "/stale: is a link to a file that does not exist");
    if (!geteuid()) return; /* root may look everywhere */
    assert_ok(d->ctx, fli_make_folders(d->ctx, at(d, "closed")));
    assert_int_equal(chmod(at(d, "closed"), 0), 0);
    assert_fails(d->ctx, fli_find_file(d->ctx, at(d, "closed"), "x", &path), FL_EIO, "cannot be opened: Permission");
    assert_int_equal(chmod(at(d, "closed"), 0700), 0);
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
        cmocka_unit_test(zip_of_several),
        cmocka_unit_test(zip_arrays),
        cmocka_unit_test(need_and_end),
        cmocka_unit_test(lines_lose_their_endings),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(files_are_found_despite_suffixes),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
