/* Safetensors files: what is written can be read back; what the format forbids is refused, each with its sentence. */
#include "format/safetensors.h"
#include "check.h"
#include "context.h"

typedef struct {
    char *bytes;
    size_t n;
} image;

/* A file with this header and so many bytes of data, 0, 1, 2, ... */
static image make(const char *header, size_t data)
{
    uint64_t length = strlen(header);
    image f = {.n = 8 + (size_t)length + data};
    f.bytes = malloc(f.n);
    memcpy(f.bytes, &length, 8);
    memcpy(f.bytes + 8, header, length);
    for (size_t i = 0; i < data; i++) f.bytes[8 + length + i] = (char)i;
    return f;
}

static void refuse(fl_ctx *ctx, const char *header, size_t data, const char *why)
{
    image f = make(header, data);
    fli_safetensors st;
    assert_fails(ctx, fli_safetensors_read(ctx, "input", f.bytes, f.n, &st), FL_EFORMAT, why);
    assert_null(st.header);
    free(f.bytes);
}

static void accept(fl_ctx *ctx, const char *header, size_t data, size_t tensors)
{
    image f = make(header, data);
    fli_safetensors st;
    assert_ok(ctx, fli_safetensors_read(ctx, "input", f.bytes, f.n, &st));
    assert_int_equal(st.tensors, tensors);
    fli_safetensors_fini(&st);
    free(f.bytes);
}

static const float a[6] = {1, 2, 3, 4, 5, -0.5F};
static const double b[2] = {0.1, -1e300};
static const uint8_t c[3] = {7, 8, 9};
static const int64_t d[1] = {-5};
static const fli_tensor_entry entries[] = {
    {.name = "a.weight", .dtype = "F32", .dims = 2, .shape = {2, 3}, .data = a},
    {.name = "c \"quoted\"\n", .dtype = "U8", .dims = 1, .shape = {3}, .data = c},
    {.name = "b", .dtype = "F64", .dims = 1, .shape = {2}, .data = b},
    {.name = "none", .dtype = "I32", .dims = 2, .shape = {0, 4}, .data = NULL},
    {.name = "scalar", .dtype = "I64", .dims = 0, .data = d},
};
static const fli_tensor_note notes[] = {{"format", "test"}, {"odd", "a \"b\"\\\n\t\x01 \xc3\xa9"}, {"bytes", "x\xff"}};
static const fli_tensor_list list = {notes, 3, entries, 5};

static void check_read(fl_ctx *ctx, const void *bytes, size_t n)
{
    fli_safetensors st;
    double wide[6];
    float narrow[2];
    assert_ok(ctx, fli_safetensors_read(ctx, "input", bytes, n, &st));
    assert_int_equal(st.tensors, 5);
    for (size_t i = 0; i < 5; i++) {
        const fli_tensor_entry *want = &entries[i], *got = fli_safetensors_find(&st, want->name);
        assert_non_null(got);
        assert_string_equal(got->dtype, want->dtype);
        assert_int_equal(got->dims, want->dims);
        for (size_t k = 0; k < got->dims; k++) assert_int_equal(got->shape[k], want->shape[k]);
        assert_int_equal(got->bytes, fli_safetensors_count(want) * fli_safetensors_size(want->dtype));
        if (got->bytes) assert_memory_equal(got->data, want->data, got->bytes);
        assert_int_equal((uintptr_t)got->data % fli_safetensors_size(got->dtype), 0);
    }
    assert_int_equal(fli_safetensors_f64(fli_safetensors_find(&st, "a.weight"), wide), 1);
    for (size_t i = 0; i < 6; i++) assert_true(wide[i] == (double)a[i]);
    assert_int_equal(fli_safetensors_f32(fli_safetensors_find(&st, "b"), narrow), 1);
    assert_true(narrow[0] == 0.1F && isinf(narrow[1]));
    assert_int_equal(fli_safetensors_f64(fli_safetensors_find(&st, "scalar"), wide), 0);
    assert_int_equal(fli_safetensors_f32(fli_safetensors_find(&st, "scalar"), narrow), 0);
    assert_null(fli_safetensors_find(&st, "a"));
    assert_string_equal(fli_safetensors_note(&st, "odd"), notes[1].value);
    assert_string_equal(fli_safetensors_note(&st, "bytes"), "x?");
    assert_null(fli_safetensors_note(&st, "absent"));
    fli_safetensors_fini(&st);
}

static void round_trip(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    void *bytes;
    char *text, path[] = "/tmp/fedloom-safetensors-XXXXXX";
    size_t n, length;
    assert_ok(ctx, fli_safetensors_pack(ctx, &list, 0, &bytes, &n));
    check_read(ctx, bytes, n);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(ctx, fli_safetensors_write(ctx, &list, path));
    assert_ok(ctx, fli_file_read(ctx, path, 1 << 20, &text, &length));
    assert_int_equal(length, n);
    assert_memory_equal(text, bytes, n);
    unlink(path);
    fli_free(text);
    fli_free(bytes);
}

/* Cut anywhere it is refused; so is a byte too many. */
static void no_part_of_it(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    void *bytes;
    size_t n;
    fli_safetensors st;
    assert_ok(ctx, fli_safetensors_pack(ctx, &list, 0, &bytes, &n));
    for (size_t k = 0; k < n; k++) {
        char *part = malloc(k ? k : 1);
        memcpy(part, bytes, k);
        assert_int_equal(fli_safetensors_read(ctx, "input", part, k, &st), FL_EFORMAT);
        fli_clear(ctx);
        free(part);
    }
    char *more = calloc(1, n + 1);
    memcpy(more, bytes, n);
    assert_fails(ctx, fli_safetensors_read(ctx, "input", more, n + 1, &st), FL_EFORMAT, "but there are");
    free(more);
    fli_free(bytes);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void what_is_refused(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    refuse(ctx, " {" A "}", 8, "does not begin");
    refuse(ctx, "[1]", 0, "does not begin");
    refuse(ctx, "{" A, 8, "the header, byte");
    refuse(ctx, "{" A "," A "}", 8, "duplicate");
    refuse(ctx, "{" A "} x", 8, "the header, byte");
    refuse(ctx, "{\"a\xff\":1}", 0, "the header, byte");
    refuse(ctx, "{\"a\":1}", 0, "\"a\" has no type");
    refuse(ctx, "{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "\"a\" has no type");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "\"a\" has no shape");
    refuse(ctx, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "no shape");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "dimension 1 is not a size");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-2],\"data_offsets\":[0,8]}}", 8, "dimension 2 is not a size");
    refuse(ctx, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "too large");
    refuse(ctx, "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0, "too large");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "no data_offsets within the 8 bytes");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "no data_offsets");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "no data_offsets");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "no data_offsets");
    refuse(ctx, "{" A "}", 7, "no data_offsets within the 7 bytes");
    refuse(ctx, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "has 8 bytes, but");
    refuse(ctx, "{" A "}", 9, "end after 8 bytes of data, but there are 9");
    refuse(ctx, "{}", 1, "end after 0 bytes");
    refuse(ctx, "{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[7,9]}}", 9, "another one reaches to 8");
    refuse(ctx, "{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[9,11]}}", 11, "fills it from 8");
    refuse(ctx, "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "another one reaches");
    refuse(ctx, "{" A ",\"__metadata__\":[]}", 8, "not a list of texts");
    refuse(ctx, "{" A ",\"__metadata__\":{\"k\":1}}", 8, "\"k\" is not a text");
}

static void what_is_accepted(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    accept(ctx, "{}", 0, 0);
    accept(ctx, "{" A "}   ", 8, 1);
    accept(ctx, "{\"__metadata__\":{}," A "}", 8, 1);
    accept(ctx, "{\"a\":{\"shape\":[],\"dtype\":\"BF16\",\"data_offsets\":[0,2]}}", 2, 1);
    /* empty tensors lie anywhere between others */
    accept(ctx, "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]}}", 8, 2);
    accept(ctx, "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[8,8]}}", 8, 2);
}

static void lengths_that_lie(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_safetensors st;
    static const uint64_t lies[] = {0, 1, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, 4096};
    image f = make("{" A "}", 8);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        memcpy(f.bytes, &lies[i], 8);
        assert_int_equal(fli_safetensors_read(ctx, "input", f.bytes, f.n, &st), FL_EFORMAT);
        fli_clear(ctx);
    }
    free(f.bytes);
}

/* The data of others need not be aligned. */
static void any_address(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_safetensors st;
    double out[1];
    const double want = 1.25;
    const char head[] = "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}";
    image f = make(head, 9);
    memcpy(f.bytes + f.n - 8, &want, 8);
    assert_ok(ctx, fli_safetensors_read(ctx, "input", f.bytes, f.n, &st));
    assert_int_equal(fli_safetensors_f64(fli_safetensors_find(&st, "x"), out), 1);
    assert_true(out[0] == want);
    fli_safetensors_fini(&st);
    free(f.bytes);
}

static void no_memory(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    void *bytes = NULL;
    size_t n, k = 0;
    fl_status s;
    do {
        fli_ctx_fail_alloc(ctx, ++k);
        s = fli_safetensors_pack(ctx, &list, 0, &bytes, &n);
        fli_ctx_fail_alloc(ctx, 0);
        if (s) assert_null(bytes);
        fli_clear(ctx);
    } while (s == FL_ENOMEM);
    assert_ok(ctx, s);
    assert_true(k > 2);
    fli_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(round_trip),       CONTEXT_TEST(no_part_of_it),    CONTEXT_TEST(what_is_refused),
        CONTEXT_TEST(what_is_accepted), CONTEXT_TEST(lengths_that_lie), CONTEXT_TEST(any_address),
        CONTEXT_TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
