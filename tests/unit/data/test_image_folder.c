/* image_folder: folders of images per class, and per client and class; every way they can be wrong. */
#include "data_files.h"
#include "pictures.h"

#include "data/federation/federation.h"
#include "fedloom.h"

#include <sys/stat.h>

static picture_file file;

static void put_png(scratch *d, const char *name, png_kind k)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s", at(d, name));
    *strrchr(folder, '/') = 0;
    assert_ok(d->ctx, fli_make_folders(d->ctx, folder));
    png_file(&file, k);
    put(d, name, file.b, file.n);
}

/* Widths tell images apart once they are resized; here all are 3 x 2, told apart by their kind. */
static const png_kind grey = {3, 2, 8, 0, 0}, colour = {3, 2, 8, 2, 0};

static fl_status load(scratch *d, const char *const *keys, fli_dataset **train, fli_dataset **test)
{
    return load_source(d->ctx, &fli_source_image_folder, keys, train, test);
}

static void refused(scratch *d, const char *const *keys, fl_status status, const char *sentence)
{
    fli_dataset *train, *test;
    assert_fails(d->ctx, load(d, keys, &train, &test), status, sentence);
}

/* Classes by name, images by name within them, channels as planes. */
static void classes_and_planes(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_png(d, "train/cat/b.PNG", colour);
    put_png(d, "train/cat/a.png", colour);
    put_png(d, "train/ant/z.jpeg", colour); /* a PNG by its bytes */
    put_png(d, "train/cat/.hidden.png", grey);
    put_png(d, "test/cat/1.png", colour);
    jpeg_file(&file, (jpeg_kind){3, 2, JCS_RGB, 0});
    put(d, "train/cat/c.jpg", file.b, file.n);
    put_text(d, "train/README", "no class");
    put_text(d, "train/cat/Thumbs.db", "no image");
    const char *const *keys = KEYS("train", at(d, "train"), "test", at(d, "test"));
    assert_ok(d->ctx, load(d, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, test, "test"));
    assert_true(train->kind == FLI_X_U8 && train->n == 4 && train->dim == 18 && train->classes == 2 && !train->group);
    assert_true(train->shape[0] == 3 && train->shape[1] == 2 && train->shape[2] == 3);
    assert_memory_equal(train->label, ((const int32_t[]){0, 1, 1, 1}), 4 * sizeof(int32_t));
    assert_string_equal(train->class_name[0], "ant");
    assert_string_equal(train->class_name[1], "cat");
    assert_true(test->n == 1 && test->label[0] == 1 && test->classes == 2);
    const uint8_t *x = train->x;
    for (unsigned c = 0; c < 3; c++)
        for (unsigned i = 0; i < 6; i++) {
            assert_int_equal(x[6 * c + i], png_sample(&colour, i % 3, i / 3, c));
            assert_in_range(x[3 * 18 + 6 * c + i] - jpeg_sample(i % 3, i / 3, c) + 8, 0, 16); /* c.jpg is the last */
        }
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_image_folder, keys);
}

/* Numbers as names are in the order of the numbers. */
static void numbers_as_classes(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_png(d, "t/10/a.png", grey);
    put_png(d, "t/2/a.png", grey);
    assert_ok(d->ctx, load(d, KEYS("train", at(d, "t")), &train, &test));
    assert_true(!test && train->classes == 2 && train->label[0] == 1 && train->label[1] == 0);
    assert_string_equal(train->class_name[0], "2");
    fli_dataset_free(train);
    assert_ok(d->ctx, load(d, KEYS("train", at(d, "t"), "classes", "11"), &train, &test));
    assert_true(train->classes == 11 && train->label[0] == 10 && train->label[1] == 2 && !train->class_name);
    fli_dataset_free(train);
    refused(d, KEYS("train", at(d, "t"), "classes", "10"), FL_EFORMAT, "/t: entry 0: label '10' is not a whole number");
}

/* CLIENT/CLASS: clients are groups, and `natural` gives each its own. */
static void client_folders_become_groups(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_png(d, "train/bob/cat/a.png", grey);
    put_png(d, "train/bob/ant/a.png", grey);
    put_png(d, "train/ann/cat/a.png", grey);
    put_png(d, "test/zoe/ant/a.png", grey);
    const char *const *keys = KEYS("train", at(d, "train"), "test", at(d, "test"), "layout", "client/class");
    assert_ok(d->ctx, load(d, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_true(train->n == 3 && train->groups == 2);
    assert_memory_equal(train->group, ((const int32_t[]){0, 1, 1}), 3 * sizeof(int32_t));
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 3 * sizeof(int32_t));
    assert_true(test->n == 1 && test->label[0] == 0 && !test->group);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_image_folder, keys);
    refused(d, KEYS("train", at(d, "train")), FL_EFORMAT,
            "/train/ann: has no image in it (*.png, *.jpg, *.jpeg), where layout: class expects some");
    refused(d, KEYS("train", at(d, "train/bob"), "layout", "client/class"), FL_EFORMAT,
            "/train/bob/ant: has no folder in it, where layout: client/class expects some");
}

/* ---- sizes and colours ---------------------------------------------------------------------------------- */

static void has_shape(scratch *d, const char *const *keys, size_t channels, size_t height, size_t width)
{
    fli_dataset *train, *test;
    assert_ok(d->ctx, load(d, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_true(train->shape[0] == channels && train->shape[1] == height && train->shape[2] == width);
    fli_dataset_free(train);
}

static void sizes_and_colours(void **state)
{
    scratch *d = *state;
    const char *t = at(d, "t");
    put_png(d, "t/a/1.png", (png_kind){5, 4, 8, 2, 0});
    put_png(d, "t/a/2.png", (png_kind){5, 4, 16, 0, 1});
    refused(d, KEYS("train", t), FL_EFORMAT, "/t/a/2.png: is grey, but ");
    refused(d, KEYS("train", t), FL_EFORMAT, "/t/a/1.png is not; `channels: 1` and `channels: 3` make all alike");
    has_shape(d, KEYS("train", t, "channels", "1"), 1, 4, 5);
    has_shape(d, KEYS("train", t, "channels", "3"), 3, 4, 5);
    put_png(d, "t/b/1.png", (png_kind){7, 9, 8, 2, 0});
    refused(d, KEYS("train", t, "channels", "1"), FL_EFORMAT, "/t/b/1.png: is 9 x 7 pixels, but ");
    refused(d, KEYS("train", t, "channels", "1"), FL_EFORMAT,
            "/t/a/1.png is 4 x 5; `resize` makes all of them one size");
    has_shape(d, KEYS("train", t, "channels", "3", "resize", "6"), 3, 6, 6);
    has_shape(d, KEYS("train", t, "channels", "1", "resize", "[2, 8]"), 1, 2, 8);
    refused(d, KEYS("train", t, "resize", "[2, 8, 1]"), FL_ECONFIG, "resize has 3 numbers, but takes one or two");
    refused(d, KEYS("train", t, "resize", "0"), FL_ECONFIG, "data.resize is 0, but must be ");
    torture_source(d->ctx, &fli_source_image_folder, KEYS("train", t, "channels", "1", "resize", "[2, 8]"));
    put_png(d, "v/a/1.png", (png_kind){7, 9, 8, 2, 0});
    refused(d, KEYS("train", at(d, "t/a/.."), "channels", "1", "resize", "3", "test", at(d, "t/a")), FL_EFORMAT,
            "/t/a: has no folder in it");
    put_png(d, "u/a/1.png", grey);
    refused(d, KEYS("train", at(d, "u"), "test", at(d, "v")), FL_EFORMAT,
            "/v: samples of 3 x 9 x 7 features, but those for training are 1 x 2 x 3");
}

/* ---- what is refused ------------------------------------------------------------------------------------ */

static void broken_image_folders_are_refused(void **state)
{
    scratch *d = *state;
    put_png(d, "t/a/1.png", grey);
    put_png(d, "v/b/1.png", grey);
    refused(d, KEYS("train", at(d, "t"), "test", at(d, "v")), FL_EFORMAT,
            "/v: entry 0: label 'b' does not occur in the training data");
    refused(d, KEYS("train", at(d, "none")), FL_EIO, "/none: the folder cannot be read: No such file or directory");
    put_text(d, "t/a/2.png", "GIF89a");
    refused(d, KEYS("train", at(d, "t")), FL_EFORMAT, "/t/a/2.png: is neither a PNG nor a JPEG image");
    assert_int_equal(unlink(at(d, "t/a/2.png")), 0);
    assert_int_equal(mkdir(at(d, "t/a/2.png"), 0700), 0);
    refused(d, KEYS("train", at(d, "t")), FL_EIO, "/t/a/2.png");
    assert_int_equal(mkdir(at(d, "t/empty"), 0700), 0);
    refused(d, KEYS("train", at(d, "t")), FL_EFORMAT, "/t/empty: has no image in it");
}

/* ---- in a federation ------------------------------------------------------------------------------------ */

static void keep_text(void *arg, const char *text) { strncat(arg, text, 4000); }

/* `fedloom data` says what it is; the clients of `natural` are the folders. */
static void an_image_folder_is_described(void **state)
{
    scratch *d = *state;
    char assignment[256], text[8192] = "";
    put_png(d, "t/ann/cat/a.png", colour);
    put_png(d, "t/bob/cat/a.png", colour);
    put_png(d, "t/bob/ant/a.png", colour);
    fl_config *cfg = fl_config_new(d->ctx);
    assert_non_null(cfg);
    assert_ok(d->ctx, fl_config_set(cfg, "data.kind=image_folder"));
    snprintf(assignment, sizeof assignment, "data.train=%s", at(d, "t"));
    assert_ok(d->ctx, fl_config_set(cfg, assignment));
    assert_ok(d->ctx, fl_config_set(cfg, "data.layout=client/class"));
    assert_ok(d->ctx, fl_config_set(cfg, "data.resize=[4, 5]"));
    assert_ok(d->ctx, fl_config_set(cfg, "partition.kind=natural"));
    assert_ok(d->ctx, fl_config_set(cfg, "model.kind=softmax"));
    assert_ok(d->ctx, fl_config_set(cfg, "algorithm.kind=fedavg"));
    assert_ok(d->ctx, fl_data_describe(cfg, NULL, 9, NULL, keep_text, text));
    assert_non_null(strstr(text, "data       image_folder: 3 training samples, 60 features, 2 classes, images 3x4x5; "
                                 "bytes"));
    assert_non_null(strstr(text, "partition  natural: 2 clients"));
    fl_config_free(cfg);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(classes_and_planes),
        TEST(numbers_as_classes),
        TEST(client_folders_become_groups),
        TEST(sizes_and_colours),
        TEST(broken_image_folders_are_refused),
        TEST(an_image_folder_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
