/* PNG and JPEG files of every kind, and every way a file can be wrong; pictures in other colours and sizes. */
#include "check.h"
#include "pictures.h"

#include "data/source/picture.h"

static picture_file file;

static int setup(void **state)
{
    *state = fl_ctx_new();
    return !*state;
}

static int teardown(void **state)
{
    fl_ctx_free(*state);
    return 0;
}

static fl_status read_file(fl_ctx *ctx, fli_picture *p)
{
    return fli_picture_read(ctx, "a.png", file.b, file.n, FLI_PICTURE_PIXELS, p);
}

/* ---- PNG ------------------------------------------------------------------------------------------------ */

/* What must come of a pixel. */
static uint8_t expected(const png_kind *k, uint32_t x, uint32_t y, unsigned c)
{
    uint32_t v = png_sample(k, x, y, k->type == 3 ? 0 : c);
    if (k->type == 3) return png_colour(v, c);
    return (uint8_t)((v * 255 * 2 + ((1u << k->depth) - 1)) / (2 * ((1u << k->depth) - 1)));
}

static void check_png(fl_ctx *ctx, png_kind k)
{
    fli_picture p;
    png_file(&file, k);
    assert_ok(ctx, read_file(ctx, &p));
    assert_int_equal(p.height, k.height);
    assert_int_equal(p.width, k.width);
    assert_int_equal(p.channels, k.type == 0 || k.type == 4 ? 1 : 3);
    for (uint32_t y = 0; y < k.height; y++)
        for (uint32_t x = 0; x < k.width; x++)
            for (unsigned c = 0; c < p.channels; c++)
                if (p.pixel[(y * k.width + x) * p.channels + c] != expected(&k, x, y, c))
                    fail_msg("type %u, %u bits, interlaced %u: pixel %u, %u, channel %u is %u, not %u", k.type, k.depth,
                             k.interlaced, y, x, c, p.pixel[(y * k.width + x) * p.channels + c], expected(&k, x, y, c));
    fli_picture_fini(&p);
}

static void png_of_every_kind(void **state)
{
    static const uint8_t kinds[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                       {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint8_t interlaced = 0; interlaced < 2; interlaced++) {
            check_png(*state, (png_kind){13, 11, kinds[i][1], kinds[i][0], interlaced});
            check_png(*state, (png_kind){1, 1, kinds[i][1], kinds[i][0], interlaced});
        }
}

/* Wherever it ends, it is a sentence, and nothing is left behind. */
static void png_cut_short(void **state)
{
    fli_picture p;
    png_file(&file, (png_kind){9, 7, 8, 2, 1});
    for (size_t n = 8, all = file.n; n < all; n++) {
        file.n = n;
        assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: the PNG image cannot be read: ");
        assert_null(p.pixel);
    }
}

static void png_damaged(void **state)
{
    fli_picture p;
    png_file(&file, (png_kind){9, 7, 8, 2, 0});
    file.b[60] ^= 1; /* within IDAT */
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: the PNG image cannot be read: 'IDAT: ");
    png_head(&file, &(png_kind){9, 7, 7, 2, 0}); /* of 7 bits */
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: the PNG image cannot be read: 'Invalid IHDR data'");
}

/* A bomb: the dimensions are looked at before there is memory for them. */
static void dimensions_come_first(void **state)
{
    fli_picture p;
    png_head(&file, &(png_kind){60000, 50000, 8, 2, 0});
    png_chunk(&file, "IDAT", "", 0);
    fli_ctx_fail_alloc(*state, 1);
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT,
                 "a.png: is an image of 50000 x 60000 pixels, but 1 to 134217728 are read");
    jpeg_file(&file, (jpeg_kind){16, 16, JCS_RGB, 0});
    assert_fails(*state, fli_picture_read(*state, "a.jpg", file.b, file.n, 255, &p), FL_EFORMAT,
                 "a.jpg: is an image of 16 x 16 pixels, but 1 to 255 are read");
    fli_ctx_fail_alloc(*state, 0);
    assert_ok(*state, fli_picture_read(*state, "a.jpg", file.b, file.n, 256, &p));
    fli_picture_fini(&p);
}

static void without_memory(void **state)
{
    fli_picture p;
    png_file(&file, (png_kind){9, 7, 8, 2, 0});
    fli_ctx_fail_alloc(*state, 1);
    assert_fails(*state, read_file(*state, &p), FL_ENOMEM, "out of memory");
    assert_null(p.pixel);
    fli_ctx_fail_alloc(*state, 0);
}

/* ---- JPEG ----------------------------------------------------------------------------------------------- */

static void check_jpeg(fl_ctx *ctx, jpeg_kind k, fli_picture *p)
{
    jpeg_file(&file, k);
    assert_ok(ctx, read_file(ctx, p)); /* whatever its name */
    assert_int_equal(p->height, k.height);
    assert_int_equal(p->width, k.width);
    assert_int_equal(p->channels, k.space == JCS_RGB ? 3 : 1);
    for (size_t i = 0; i < p->height * p->width * p->channels; i++) {
        size_t pixel = i / p->channels;
        int want = jpeg_sample((unsigned)(pixel % p->width), (unsigned)(pixel / p->width), (unsigned)(i % p->channels));
        assert_in_range(p->pixel[i] - want + 8, 0, 16);
    }
}

static void jpeg_of_every_kind(void **state)
{
    fli_picture a, b;
    for (int grey = 0; grey < 2; grey++) {
        jpeg_kind k = {21, 17, grey ? JCS_GRAYSCALE : JCS_RGB, 0};
        check_jpeg(*state, k, &a);
        k.progressive = 1;
        check_jpeg(*state, k, &b);
        assert_memory_equal(a.pixel, b.pixel, a.height * a.width * a.channels);
        fli_picture_fini(&a);
        fli_picture_fini(&b);
    }
}

static void jpeg_refused(void **state)
{
    fli_picture p;
    jpeg_file(&file, (jpeg_kind){16, 16, JCS_CMYK, 0});
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT,
                 "a.png: is a JPEG image in CMYK, which is not read; convert it to RGB");
    jpeg_file(&file, (jpeg_kind){16, 16, JCS_RGB, 0});
    for (size_t n = 3, all = file.n; n + 2 < all; n++) { /* without the end marker alone it is whole */
        file.n = n;
        assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: the JPEG image cannot be read: ");
        assert_null(p.pixel);
    }
}

/* Where a marker is, from a place on. */
static size_t find_marker(const picture_file *f, size_t from, uint8_t which)
{
    for (size_t i = from; i + 1 < f->n; i++)
        if (f->b[i] == 0xff && (which ? f->b[i + 1] == which : f->b[i + 1] && f->b[i + 1] != 0xff)) return i;
    fail_msg("no marker %02x", which);
    return 0;
}

/* A small file that would be decoded over and over: its first scan, many times. */
static void jpeg_of_many_scans(void **state)
{
    static picture_file many;
    fli_picture p;
    jpeg_file(&file, (jpeg_kind){16, 16, JCS_GRAYSCALE, 1});
    size_t scan = find_marker(&file, 0, 0xda), behind = find_marker(&file, scan + 2, 0);
    for (int times = 400; times <= 600; times += 200) {
        many.n = 0;
        picture_put(&many, file.b, scan);
        for (int i = 0; i < times; i++) picture_put(&many, file.b + scan, behind - scan);
        picture_put(&many, file.b + behind, file.n - behind);
        fl_status s = fli_picture_read(*state, "a.jpg", many.b, many.n, 256, &p);
        if (times == 400)
            assert_ok(*state, s);
        else
            assert_fails(*state, s, FL_EFORMAT, "a.jpg: the JPEG image cannot be read: 'it has more than 500 scans'");
        fli_picture_fini(&p);
    }
}

static void other_formats_are_refused(void **state)
{
    fli_picture p;
    file.n = 0;
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: is neither a PNG nor a JPEG image");
    picture_put(&file, "GIF89a..", 8);
    assert_fails(*state, read_file(*state, &p), FL_EFORMAT, "a.png: is neither a PNG nor a JPEG image");
}

/* ---- colours and sizes ---------------------------------------------------------------------------------- */

static fli_picture made(fl_ctx *ctx, size_t height, size_t width, size_t channels, const uint8_t *pixel)
{
    fli_picture p = {height, width, channels, NULL};
    assert_ok(ctx, fli_picture_make(ctx, "p", 1000, &p));
    memcpy(p.pixel, pixel, height * width * channels);
    return p;
}

static void becomes(fli_picture *p, size_t height, size_t width, size_t channels, const uint8_t *pixel)
{
    assert_true(p->height == height && p->width == width && p->channels == channels);
    assert_memory_equal(p->pixel, pixel, height * width * channels);
    fli_picture_fini(p);
}

#define BYTES(...) ((const uint8_t[]){__VA_ARGS__})

static void other_colours(void **state)
{
    fli_picture p = made(*state, 1, 2, 1, BYTES(7, 200));
    assert_ok(*state, fli_picture_recolour(*state, &p, 1));
    assert_ok(*state, fli_picture_recolour(*state, &p, 3));
    becomes(&p, 1, 2, 3, BYTES(7, 7, 7, 200, 200, 200));
    p = made(*state, 2, 2, 3, BYTES(255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30));
    assert_ok(*state, fli_picture_recolour(*state, &p, 1));
    becomes(&p, 2, 2, 1, BYTES(76, 150, 29, 18)); /* as Pillow's convert("L") */
}

static void resizes(fl_ctx *ctx, const uint8_t *ramp, size_t height, size_t width, const uint8_t *want)
{
    fli_picture p = made(ctx, 4, 4, 1, ramp);
    assert_ok(ctx, fli_picture_resize(ctx, &p, height, width));
    becomes(&p, height, width, 1, want);
}

/* What Pillow 12 makes of these by resize((width, height), BILINEAR). */
static void other_sizes(void **state)
{
    const uint8_t ramp[] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150};
    uint8_t waves[5 * 7 * 3];
    resizes(*state, ramp, 4, 4, ramp);
    resizes(*state, ramp, 2, 2, BYTES(36, 52, 98, 114));
    resizes(*state, ramp, 1, 1, BYTES(75));
    resizes(*state, ramp, 3, 5, BYTES(12, 19, 27, 35, 42, 60, 67, 75, 83, 90, 108, 115, 123, 131, 138));
    resizes(*state, ramp, 2, 7, BYTES(29, 33, 38, 44, 50, 55, 59, 91, 95, 100, 106, 112, 117, 121));
    resizes(*state, ramp, 4, 2, BYTES(7, 23, 47, 63, 87, 103, 127, 143));
    for (unsigned i = 0; i < sizeof waves; i++) {
        unsigned y = i / 21, x = i / 3 % 7;
        waves[i] = (uint8_t)(x * 97 + y * 57 + i % 3 * 31 + x * y * 13);
    }
    fli_picture p = made(*state, 5, 7, 3, waves);
    assert_ok(*state, fli_picture_resize(*state, &p, 3, 4));
    becomes(&p, 3, 4, 3,
            BYTES(73, 104, 128, 109, 140, 95, 148, 93, 124, 149, 112, 85, 142, 112, 143, 138, 100, 131, 158, 120, 93,
                  149, 178, 86, 150, 104, 135, 98, 129, 160, 127, 158, 103, 150, 181, 86));
}

/* White stays white, however far it is stretched or pressed. */
static void white_stays_white(void **state)
{
    uint8_t white[23 * 31], want[60 * 60];
    memset(white, 255, sizeof white);
    memset(want, 255, sizeof want);
    for (size_t height = 1; height <= 60; height += 7)
        for (size_t width = 1; width <= 60; width += 3) {
            fli_picture p = made(*state, 23, 31, 1, white);
            assert_ok(*state, fli_picture_resize(*state, &p, height, width));
            becomes(&p, height, width, 1, want);
        }
}

/* Every allocation of a change fails once. */
static void changes_without_memory(void **state)
{
    const uint8_t pixel[4 * 4 * 3] = {1, 2, 3};
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s; k++) {
        fli_picture p = made(*state, 4, 4, 3, pixel);
        fli_ctx_fail_alloc(*state, k);
        s = fli_picture_recolour(*state, &p, 1);
        if (!s) s = fli_picture_resize(*state, &p, 3, 3);
        fli_ctx_fail_alloc(*state, 0);
        assert_true(s == FL_OK || s == FL_ENOMEM);
        fli_clear(*state);
        fli_picture_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(png_of_every_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(png_cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(png_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(dimensions_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(jpeg_of_every_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(jpeg_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(jpeg_of_many_scans, setup, teardown),
        cmocka_unit_test_setup_teardown(other_formats_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(other_colours, setup, teardown),
        cmocka_unit_test_setup_teardown(other_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(white_stays_white, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
