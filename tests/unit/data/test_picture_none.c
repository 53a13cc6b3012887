/* A build without libpng and libjpeg names the file, and what it lacks. Its decoders stand here in the place of those
 * of the library. */
#include "check.h"

#include "data/source/picture.c"

static void says_what_is_missing(void **state)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_picture p;
    (void)state;
    assert_fails(ctx, fli_picture_read(ctx, "a.png", "\x89PNG\r\n\x1a\n", 8, 100, &p), FL_ESYSTEM,
                 "a.png: is a PNG image, but this fedloom was built without libpng (FEDLOOM_IMAGES)");
    assert_fails(ctx, fli_picture_read(ctx, "b.jpg", "\xff\xd8\xff\xe0", 4, 100, &p), FL_ESYSTEM,
                 "b.jpg: is a JPEG image, but this fedloom was built without libjpeg (FEDLOOM_IMAGES)");
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
