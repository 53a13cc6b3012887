/* Files that no loader reads are named, whichever loader meets them. */
#include "data_files.h"

static const fli_source *const sources[] = {&fli_source_libsvm, &fli_source_csv, &fli_source_leaf};

static void expect(scratch *d, const char *path, const char *message)
{
    fli_dataset *train, *test;
    for (size_t i = 0; i < 3; i++)
        assert_fails(d->ctx, load_source(d->ctx, sources[i], KEYS("train", path), &train, &test), FL_EFORMAT, message);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", "", "train_images", path), &train, &test),
                 FL_EFORMAT, message);
}

static void expect_numpy(scratch *d, const char *path, const char *message)
{
    fli_dataset *train, *test;
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", path, "train_y", path), &train, &test),
                 FL_EFORMAT, message);
}

#define START(text) text, sizeof text - 1

static void formats_are_named(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *start;
        size_t n;
        const char *message;
    } cases[] = {
        {START("PAR1\x15\4\x15"), "f: is a Parquet file, which is not read; convert it, for instance with pandas"},
        {START("ARROW1\0\0\xff"), "f: is an Arrow (Feather) file"},
        {START("FEA1\0\0\0\0\1"), "f: is a Feather file"},
        {START("\x89HDF\r\n\x1a\n\0\0"), "f: is an HDF5 file"},
        {START("MATLAB 5.0 MAT-file, Platform"), "f: is a MATLAB file, which is not read; convert it with scipy.io"},
        {START("MATLAB 7.3 MAT-file, Platform"), "f: is a MATLAB 7.3 file"},
        {START("\x80\4\x95\1\2\3"), "f: is a Python pickle"},
        {START("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0"), "f: is an Excel workbook (or another old Office file)"},
        {START("\xff\xfe\x31\0,\0"), "f: is text in UTF-16"},
        {START("\x89PNG\r\n\x1a\n\0"), "f: is a PNG image, which is not read here; put images into a folder per class"},
        {START("\xff\xd8\xff\xe0"), "f: is a JPEG image"},
        {START("BZh91AY"), "f: is compressed by bzip2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect(d, put(d, "f", cases[i].start, cases[i].n), cases[i].message);
        expect_numpy(d, at(d, "f"), cases[i].message);
    }
    put_gz(d, "f.gz", "PAR1\x15\4\x15\4", 8);
    expect(d, at(d, "f.gz"), "f.gz: is a Parquet file");
    expect(d, put(d, "f", "\x93NUMPY\1\0v\0{", 11), "f: is a NumPy array, which `kind: npy` reads");
}

static void archives_are_named(void **state)
{
    scratch *d = *state;
    zip_file *z = calloc(1, sizeof *z);
    zip_member(z, "x.npy", "1", 1, 0, ZIP_NUMPY);
    zip_member(z, "y.npy", "1", 1, 0, ZIP_NUMPY);
    zip_end(z);
    expect(d, put(d, "d.npz", z->b, z->n), "d.npz: is a NumPy archive with the arrays 'x', 'y'; `kind: npz` reads it");
    expect_numpy(d, at(d, "d.npz"), "`kind: npz` reads it");
    zip_again(z);
    zip_member(z, "[Content_Types].xml", "<x>", 3, 0, 0);
    zip_member(z, "xl/workbook.xml", "<x>", 3, 0, 0);
    zip_end(z);
    expect(d, put(d, "w.xlsx", z->b, z->n), "w.xlsx: is an Excel workbook, which is not read; save it as CSV");
    free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_named),
        cmocka_unit_test(archives_are_named),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
