/* libsvm, csv, leaf: good files of every form, and every way a file can be wrong. */
#include "data_files.h"

/* ---- libsvm --------------------------------------------------------------------------------------------- */

static void check_row(const fli_dataset *ds, size_t i, const double *want)
{
    double *row = malloc(ds->dim * sizeof *row);
    fli_dataset_row(ds, i, row);
    for (size_t j = 0; j < ds->dim; j++) assert_near(row[j], want[j], 1e-6);
    free(row);
}

static void libsvm_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char text[] = "# a comment\n+1 1:0.5 3:-2e1 \n\n-1\t2:1   # the rest 9:9\r\n1.0\n-1.0 4:.25";
    static const char more[] = "1 6:1\n+1 1:3\n-1.00 2:7\n";
    put_gz(d, "a.gz", text, strlen(text));
    put_xz(d, "t.xz", more, strlen(more));
    const char *const *keys = KEYS("train", at(d, "a"), "test", at(d, "t"));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, test, "test"));
    assert_true(train->kind == FLI_X_CSR && train->n == 4 && train->dim == 6 && test->dim == 6 && train->classes == 2);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1, 0}), 16);
    assert_memory_equal(test->label, ((const int32_t[]){1, 1, 0}), 12);
    check_row(train, 0, (const double[]){0.5, 0, -20, 0, 0, 0});
    check_row(train, 1, (const double[]){0, 1, 0, 0, 0, 0});
    check_row(train, 2, (const double[]){0, 0, 0, 0, 0, 0});
    check_row(train, 3, (const double[]){0, 0, 0, 0.25, 0, 0});
    check_row(test, 0, (const double[]){0, 0, 0, 0, 0, 1});
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_libsvm, keys);
}

/* Whatever the storage, the same rows. auto takes what is smaller: dense for the first file, sparse for the second. */
static void libsvm_storage(void **state)
{
    scratch *d = *state;
    static const char *const files[] = {"1 1:1 2:2 3:3\n-1 1:4 3:6\n1 2:8 3:9\n", "1 1:1 50:2\n-1 7:4\n1 2:8 3:9\n"};
    for (size_t i = 0; i < 2; i++) {
        const char *path = put_text(d, "f", files[i]);
        fli_dataset *set[3], *test[3];
        static const char *const storage[] = {"auto", "sparse", "dense"};
        for (size_t k = 0; k < 3; k++) {
            const char *const *keys = KEYS("train", path, "test", path, "storage", storage[k]);
            assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, keys, &set[k], &test[k]));
            assert_ok(d->ctx, fli_dataset_check(d->ctx, set[k], "train"));
            assert_true(set[k]->kind == test[k]->kind);
            torture_source(d->ctx, &fli_source_libsvm, keys);
        }
        assert_true(set[0]->kind == (i ? FLI_X_CSR : FLI_X_F32));
        assert_true(set[1]->kind == FLI_X_CSR && set[2]->kind == FLI_X_F32);
        assert_true(fli_dataset_bytes(set[0]) <= fli_dataset_bytes(set[1]));
        assert_true(fli_dataset_bytes(set[0]) <= fli_dataset_bytes(set[2]));
        for (size_t r = 0; r < 3; r++) {
            double row[50];
            fli_dataset_row(set[2], r, row);
            check_row(set[0], r, row);
            check_row(set[1], r, row);
            check_row(test[0], r, row);
        }
        for (size_t k = 0; k < 3; k++) {
            fli_dataset_free(set[k]);
            fli_dataset_free(test[k]);
        }
    }
}

static void keep_note(void *arg, fl_log_level level, const char *line)
{
    assert_true(level == FL_LOG_INFO);
    snprintf(arg, 400, "%s", line);
}

static void keep_first_note(void *arg, fl_log_level level, const char *line)
{
    if (!*(char *)arg) keep_note(arg, level, line);
}

/* Which label is which class, in the spelling met first; nothing to say about 0, 1, 2. */
static void labels_are_noted(void **state)
{
    scratch *d = *state;
    char note[400] = "", eleven[200], *p = eleven;
    for (int i = 0; i < 11; i++) p += sprintf(p, "%d 1:1\n", i * 10);
    const struct {
        const fli_source *source;
        const char *text, *want;
    } cases[] = {
        {&fli_source_libsvm, "+1 1:1\n-1 1:2\n1 1:3\n", "label '-1' is class 0, '+1' is class 1"},
        {&fli_source_libsvm, "2 1:1\n1 1:2\n", "label '1' is class 0, '2' is class 1"},
        {&fli_source_libsvm, "1 1:1\n0 1:2\n2.0 1:1\n", ""},
        {&fli_source_libsvm, eleven, "'80' is class 8, ..., '100' is class 10"},
        {&fli_source_csv, "1,positive\n2,negative\n", "label 'negative' is class 0, 'positive' is class 1"},
        {&fli_source_csv, "1,0\n2,1\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_dataset *train, *test;
        const char *path = put_text(d, "n", cases[i].text);
        *note = 0;
        fl_ctx_on_log(d->ctx, keep_note, note);
        assert_ok(d->ctx, load_source(d->ctx, cases[i].source, KEYS("train", path), &train, &test));
        fl_ctx_on_log(d->ctx, NULL, NULL);
        if (!*cases[i].want) assert_string_equal(note, "");
        if (*cases[i].want) assert_non_null(strstr(note, path));
        if (!strstr(note, cases[i].want)) fail_msg("\"%s\" lacks \"%s\"", note, cases[i].want);
        fli_dataset_free(train);
    }
}

static void libsvm_regression_and_features(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *path = put_text(d, "r", "1.5 1:1\n-2.25e-3 2:1\n1.5\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm,
                                  KEYS("train", path, "task", "regression", "features", "9"), &train, &test));
    assert_null(test);
    assert_true(train->dim == 9 && train->classes == 0 && !train->label && train->shape[2] == 9);
    for (size_t i = 0; i < 3; i++) assert_near(train->target[i], ((const double[]){1.5, -2.25e-3, 1.5})[i], 0);
    fli_dataset_free(train);
}

/* Labels 10, 9, 2 in the order of numbers, not of text. */
static void libsvm_labels_are_ordered_as_numbers(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *path = put_text(d, "r", "10 1:1\n2 1:1\n9 1:1\n0 1:1\n-0 1:1\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", path), &train, &test));
    assert_int_equal(train->classes, 4);
    assert_memory_equal(train->label, ((const int32_t[]){3, 1, 2, 0, 0}), 20);
    fli_dataset_free(train);
}

/* A source run on a file with this text must fail with a message that has the file's name and `message`. */
static void expect_bad(scratch *d, const fli_source *source, const char *key, const char *value, const char *text,
                       const char *message)
{
    fli_dataset *train, *test;
    const char *path = put_text(d, "bad", text);
    const char *const *keys = KEYS("train", path, key, value);
    assert_fails(d->ctx, load_source(d->ctx, source, keys, &train, &test), FL_EFORMAT, message);
    assert_fails(d->ctx, load_source(d->ctx, source, keys, &train, &test), FL_EFORMAT, path);
}

static void libsvm_bad(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1 1:1\n1 0:2\n", "bad:2: index 0, but indices start at 1; if they start at 0 in this file, say index: zero"},
        {"1 1:1\n\n-1 3:1 2:1\n", "bad:3: index 2 follows index 3; indices must ascend"},
        {"1 3:1 3:1\n", "bad:1: index 3 repeats index 3"},
        {"1 8:1\n", "bad:1: index 8 is above the 7 features"},
        {"1 99999999999999999999999999:1\n", "is above the 7 features"},
        {"1 1:nan\n", "bad:1: the value 'nan' of index 1 is not a finite number"},
        {"1 1:1 2:-inf\n", "bad:1: the value '-inf' of index 2 is not a finite number"},
        {"1 1:1e999\n", "the value '1e999' of index 1 is too large"},
        {"1 1:1e39\n", "bad:1: the value '1e39' of index 1 is too large for precision f32; precision: f64 keeps it"},
        {"1 1:0x10\n", "the value '0x10' of index 1 is not a number"},
        {"1 1:\n", "the value '' of index 1 is not a number"},
        {"1 1:2x\n", "the value '2x' of index 1 is not a number"},
        {"1 1:2:3\n", "the value '2:3' of index 1 is not a number"},
        {"1 1\n", "bad:1: '1' is not index:value"},
        {"1 :4\n", "bad:1: ':4' does not start with a whole number"},
        {"1 -1:4\n", "bad:1: '-1:4' does not start with a whole number"},
        {"1 1:1 qid:4\n", "bad:1: 'qid:4' does not start with a whole number"},
        {"1 1.5:4\n", "'1.5:4' does not start with a whole number"},
        {"spam 1:1\n", "bad:1: the label 'spam' is not a number"},
        {"1 1:1\nnan 1:1\n", "bad:2: the label 'nan' is not a finite number"},
        {"1:1 2:1\n", "bad:1: the label '1:1' is not a number"},
        {"", "bad: has no samples in its 0 lines"},
        {"\n # nothing\n", "bad: has no samples in its 2 lines"},
        {"1 \x01\x1b[31m\n", "bad:1: '??[31m' is not index:value"},
        {"1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaa...' is not index:value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_bad(d, &fli_source_libsvm, "features", "7", cases[i].text, cases[i].message);
    expect_bad(d, &fli_source_libsvm, "task", "regression", "inf 1:1\n",
               "bad:1: the label 'inf' is not a finite number");
    expect_bad(d, &fli_source_libsvm, "features", "0", "1\n-1\n", "bad: has no features in any");
    expect_bad(d, &fli_source_libsvm, "features", "0", "1 4294967295:1\n", "index 4294967295 is above the 2147483647");
}

/* Many labels are fine as long as there are samples for them. */
static void libsvm_too_many_labels(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    char *text = malloc(40000), *p = text;
    for (int i = 0; i <= 1000; i++) p += sprintf(p, "%d 1:1\n", i);
    expect_bad(d, &fli_source_libsvm, "task", "classification", text,
               "bad:1001: label '1000' is the last of 1001 different ones in 1001 samples, too many for classes");
    assert_ok(d->ctx,
              load_source(d->ctx, &fli_source_libsvm, KEYS("train", at(d, "bad"), "classes", "1001"), &train, &test));
    assert_int_equal(train->classes, 1001);
    fli_dataset_free(train);
    for (int i = 0; i <= 1000; i++) p += sprintf(p, "%d 1:1\n", i);
    const char *path = put_text(d, "good", text);
    const char *const *keys = KEYS("train", path, "task", "classification");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, keys, &train, &test));
    assert_int_equal(train->classes, 1001);
    fli_dataset_free(train);
    free(text);
}

/* n samples of one feature, whose labels are 0, step, 2 step, ..., and start again after `different` of them. */
static char *some_numbers(const fli_source *source, size_t n, size_t different, double step)
{
    char *text = malloc(n * 32), *p = text;
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, source == &fli_source_csv ? "1,%g\n" : "%g 1:1\n", (double)(i % different) * step);
    return text;
}

/* What looks like values to predict is not taken for classes, unless someone says so. */
static void values_are_no_classes(void **state)
{
    static const struct {
        size_t n, different;
        double step;
        const char *bad; /* NULL: classes */
    } tables[] = {
        {40, 40, 0.25,
         "bad:2: label '0.25' is not a whole number, as classes are; for values to predict, say task: "
         "regression (with model: least_squares), for classes task: classification"},
        {4, 2, 0.5, "bad:2: label '0.5' is not a whole number"},
        {200, 21, 10,
         "bad:21: label '200' is the last of 21 different numbers in 200 samples, too many for classes; for "
         "values to predict, say task: regression"},
        {210, 21, 10, NULL},
        {20, 20, 1, NULL},
        {20000, 1001, 1, "bad:1001: label '1000' is the last of 1001 different numbers in 20000 samples"},
        {20000, 1000, 1, NULL},
    };
    const fli_source *const sources[] = {&fli_source_csv, &fli_source_libsvm};
    scratch *d = *state;
    fli_dataset *train, *test;
    for (size_t i = 0; i < 2 * sizeof tables / sizeof *tables; i++) {
        size_t k = i / 2;
        const fli_source *source = sources[i % 2];
        char *text = some_numbers(source, tables[k].n, tables[k].different, tables[k].step);
        if (tables[k].bad) expect_bad(d, source, "task", "auto", text, tables[k].bad);
        const char *path = put_text(d, "bad", text);
        const char *const *keys = KEYS("train", path, "task", tables[k].bad ? "classification" : "auto");
        assert_ok(d->ctx, load_source(d->ctx, source, keys, &train, &test));
        assert_int_equal(train->classes, tables[k].different);
        fli_dataset_free(train);
        free(text);
    }
}

/* One client may have few samples of each class; the federation says how many there are. */
static void a_clients_own_labels(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    char *text = some_numbers(&fli_source_csv, 60, 30, 1);
    const char *const *keys = KEYS("train", put_text(d, "own", text));
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test), FL_EFORMAT, "too many for classes");
    load_client = 1;
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test));
    load_client = 0;
    assert_int_equal(train->classes, 30);
    fli_dataset_free(train);
    free(text);
}

/* scikit-learn's files: a mark and comments in front, indices from 0, queries. */
static void libsvm_from_zero(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *path = put_text(d, "z",
                                "\xef\xbb\xbf# Generated by dump_svmlight_file\n#\n1 qid:7 0:0.5 3:2\n"
                                "0 qid:3 1:1 # qid:9\n1 qid:7\n");
    const char *const *keys = KEYS("train", path, "test", path, "index", "zero", "groups", "qid", "storage", "sparse");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, keys, &train, &test));
    assert_true(train->n == 3 && train->dim == 4 && train->groups == 2 && !test->group);
    check_row(train, 0, (const double[]){0.5, 0, 0, 2});
    check_row(test, 1, (const double[]){0, 1, 0, 0});
    assert_memory_equal(train->group, ((const int32_t[]){1, 0, 1}), 12);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_libsvm, keys);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", path, "index", "zero"), &train, &test));
    assert_null(train->group);
    fli_dataset_free(train);
    expect_bad(d, &fli_source_libsvm, "groups", "qid", "1 qid:1 1:1\n1 1:1\n", "bad:2: no qid:N after the label, but");
    expect_bad(d, &fli_source_libsvm, "groups", "qid", "1 qid: 1:1\n", "bad:1: group '' is neither");
    expect_bad(d, &fli_source_libsvm, "index", "zero", "1 0:1 0:1\n", "bad:1: index 0 repeats index 0");
    expect_bad(d, &fli_source_libsvm, "index", "zero", "1 3:1 1:1\n", "bad:1: index 1 follows index 3");
}

/* One slip of an index must not make a giant model. */
static void libsvm_absurd_index(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    expect_bad(
        d, &fli_source_libsvm, "task", "classification", "1 1:1\n-1 2:1 2147483647:1\n1 3:1\n",
        "bad:2: index 2147483647 would make 2147483647 features out of 4 values in 3 samples; if that is intended, say "
        "features: 2147483647");
    const char *path = put_text(d, "wide", "1 1:1\n-1 70000:1\n");
    const char *fine = put_text(d, "fine", "1 65536:1\n-1 2:1\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", path, "features", "70000"), &train, &test));
    assert_int_equal(train->dim, 70000);
    fli_dataset_free(train);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", fine), &train, &test));
    fli_dataset_free(train);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", fine, "test", path), &train, &test),
                 FL_EFORMAT, "wide:2: index 70000 would make 70000 features");
    /* a few test samples of a large training set */
    char *text = malloc(200000), *p = text;
    for (int i = 0; i < 7000; i++) p += sprintf(p, "%d %d:1\n", i % 2, 10 * i + 10);
    const char *large = put_text(d, "large", text);
    const char *few = put_text(d, "few", "1 69999:1\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", large, "test", few), &train, &test));
    assert_true(train->dim == 70000 && test->dim == 70000);
    fli_dataset_free(train);
    fli_dataset_free(test);
    free(text);
}

/* Where models compute in f64, what the file says is kept to the last bit, dense or sparse; storage takes the smaller
 * one. */
static void wide_values(void **state)
{
    scratch *d = *state;
    static const char leaf[] =
        "{\"users\": [\"u\"], \"num_samples\": [2], \"user_data\": {\"u\": {\"x\": [[0.1, 1e39], "
        "[0, 0.3]], \"y\": [0, 1]}}}";
    const struct {
        const fli_source *source;
        const char *text, *storage;
        fli_xkind kind;
    } cases[] = {
        {&fli_source_libsvm, "0 1:0.1 2:1e39\n1 2:0.3\n", "sparse", FLI_X_CSR64},
        {&fli_source_libsvm, "0 1:0.1 2:1e39\n1 2:0.3\n", "dense", FLI_X_F64},
        {&fli_source_libsvm, "0 1:0.1 2:1e39\n1 2:0.3\n", "auto", FLI_X_F64},
        {&fli_source_csv, "0.1,1e39,0\n0,0.3,1\n", "auto", FLI_X_F64},
        {&fli_source_csv, "0.1,1e39,0\n0,0.3,1\n", "f64", FLI_X_F64},
        {&fli_source_leaf, leaf, NULL, FLI_X_F64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_dataset *train, *test;
        double row[2];
        const char *path = put_text(d, "w", cases[i].text);
        const char *const *keys = KEYS("train", path, cases[i].storage ? "storage" : NULL, cases[i].storage);
        load_wide = 1;
        assert_ok(d->ctx, load_source(d->ctx, cases[i].source, keys, &train, &test));
        torture_source(d->ctx, cases[i].source, keys);
        load_wide = 0;
        assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
        assert_int_equal(train->kind, cases[i].kind);
        fli_dataset_row(train, 0, row);
        assert_true(row[0] == 0.1 && row[1] == 1e39);
        fli_dataset_row(train, 1, row);
        assert_true(row[0] == 0 && row[1] == 0.3);
        fli_dataset_free(train);
        if (i != 4)
            assert_fails(d->ctx, load_source(d->ctx, cases[i].source, keys, &train, &test), FL_EFORMAT,
                         "too large for precision f32; precision: f64 keeps it");
    }
}

static void libsvm_bad_test_part(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *a = put_text(d, "a", "1 1:1\n2 1:1\n"), *b = put_text(d, "b", "1 1:1\n3 1:1\n");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", a, "test", b), &train, &test),
                 FL_EFORMAT, "b:2: label '3' does not occur in the training data");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", a, "test", "/no/file"), &train, &test),
                 FL_EIO, "/no/file: no such file");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("test", b), &train, &test), FL_ECONFIG,
                 "train is missing");
    put(d, "a", "1 1:1\n2 \0 1:1\n", 15);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_libsvm, KEYS("train", a), &train, &test), FL_EFORMAT,
                 "a NUL byte in the text at offset 8");
}

/* ---- csv ------------------------------------------------------------------------------------------------ */

static void csv_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char text[] = "\xef\xbb\xbf"
                               "a;b;class\r\n1;0.25;positive\r\n\r\n -3e2 ; \"4\" ;\"negative\"\r\n5;6;positive";
    static const char more[] = "a;b;class\n7;8;negative\n";
    put_gz(d, "a.csv.gz", text, strlen(text));
    put_text(d, "t.csv", more);
    const char *const *keys =
        KEYS("train", at(d, "a.csv"), "test", at(d, "t.csv"), "separator", "semicolon", "header", "true");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_true(train->kind == FLI_X_F32 && train->n == 3 && train->dim == 2 && train->classes == 2 && !train->group);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 12);
    assert_memory_equal(train->x, ((const float[]){1, 0.25f, -300, 4, 5, 6}), 24);
    assert_true(test->n == 1 && test->classes == 2 && test->label[0] == 0);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_csv, keys);
}

/* Every separator; the label in front; groups; doubles kept to the last bit. */
static void csv_columns(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char *const separator[][2] = {{"comma", ","}, {"semicolon", ";"}, {"tab", "\t"}, {"space", "  \t "}};
    for (size_t i = 0; i < 4; i++) {
        char text[300];
        const char *s = separator[i][1];
        snprintf(text, sizeof text, "10%s0.1%sbob%s7\n9%s1e-300%sann%s-0.5\n010%s3%sbob%s2\n", s, s, s, s, s, s, s, s,
                 s);
        const char *path = put_text(d, "t.csv", text);
        const char *const *keys =
            KEYS("train", path, "separator", separator[i][0], "label", "0", "group_column", "2", "storage", "f64");
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test));
        assert_true(train->kind == FLI_X_F64 && train->n == 3 && train->dim == 2 && train->classes == 2);
        assert_memory_equal(train->x, ((const double[]){0.1, 7, 1e-300, -0.5, 3, 2}), 48);
        assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 12); /* 9 < 10 = 010 */
        assert_int_equal(train->groups, 2);
        assert_memory_equal(train->group, ((const int32_t[]){1, 0, 1}), 12);
        fli_dataset_free(train);
        torture_source(d->ctx, &fli_source_csv, keys);
    }
}

/* A table of QSAR's form: zipped, no header, semicolons, CRLF, the class as a word. */
static void csv_in_a_zip(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char text[] = "0;1;0;positive\r\n1;1;0;negative\r\n0;0;1;negative\r\n";
    zip_file *z = calloc(1, sizeof *z);
    zip_member(z, "q.csv", text, sizeof text - 1, 8, 0);
    zip_end(z);
    const char *const *keys = KEYS("train", put(d, "q.zip", z->b, z->n), "separator", "semicolon");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test));
    assert_true(train->n == 3 && train->dim == 3 && train->classes == 2);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 0}), 12);
    assert_memory_equal(train->x, ((const float[]){0, 1, 0, 1, 1, 0, 0, 0, 1}), 36);
    fli_dataset_free(train);
    torture_source(d->ctx, &fli_source_csv, keys);
    free(z);
}

static void csv_regression_and_quotes(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *path = put_text(d, "t.csv", "1,2,3.5\n4,5,-6e-1\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", path, "task", "regression"), &train, &test));
    assert_true(train->classes == 0 && train->n == 2 && !train->label);
    assert_near(train->target[0], 3.5, 0);
    assert_near(train->target[1], -0.6, 0);
    fli_dataset_free(train);
    /* 'a,b' and 'a"b' are two words; as text, '"' comes before ',' */
    path = put_text(d, "t.csv", "1,\"a,b\"\n2,\"a\"\"b\" \n3,\"a,b\"\n");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", path), &train, &test));
    assert_int_equal(train->classes, 2);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 12);
    fli_dataset_free(train);
}

/* Numbers must come out as strtod reads them, whichever way they are written. */
static void csv_numbers_are_exact(void **state)
{
    scratch *d = *state;
    static const char *const number[] = {"0.1",
                                         "0.30000000000000004",
                                         "123456789012345",
                                         "1234567890123456789",
                                         "-.5",
                                         "5.",
                                         "+7",
                                         "1e-5",
                                         "2.5E+3",
                                         "0.000000000000001",
                                         "999999999999999",
                                         "-0",
                                         "4.9e-324",
                                         "1e308",
                                         "0.1234567890123456",
                                         "12345.6789012345"};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        fli_dataset *train, *test;
        char text[64];
        snprintf(text, sizeof text, "%s,0\n", number[i]);
        const char *path = put_text(d, "n.csv", text);
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", path, "storage", "f64"), &train, &test));
        double want = strtod(number[i], NULL);
        assert_memory_equal(train->x, &want, sizeof want);
        fli_dataset_free(train);
    }
}

static void csv_bad(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1,2,a\n1,2\n", "bad:2: 2 fields where the first row has 3"},
        {"1,2,a\n\n1,2,3,a\n", "bad:3: 4 fields where the first row has 3"},
        {"1,x,a\n", "bad:1: column 1: 'x' is not a number"},
        {"1,2,a\n1,,a\n", "bad:2: column 1: '' is not a number"},
        {"1,nan,a\n", "bad:1: column 1: 'nan' is not a finite number"},
        {"Infinity,1,a\n", "bad:1: column 0: 'Infinity' is not a finite number"},
        {"1e39,1,a\n", "bad:1: column 0: '1e39' is too large"},
        {"1 2,1,a\n", "bad:1: column 0: '1 2' is not a number"},
        {"0x1p3,1,a\n", "column 0: '0x1p3' is not a number"},
        {"1,2,\n", "bad:1: label '' is neither a finite number nor a word"},
        {"1,2,NaN\n", "bad:1: label 'NaN' is neither a finite number nor a word"},
        {"1,\"2,a\n", "bad:1: field 1 has an opening quote, but no closing one"},
        {"1,\"2\"3,a\n", "bad:1: field 1 continues after its closing quote with '3,a'"},
        {"1\n", "bad:1: no column is left for features: 1 in all"},
        {"", "bad: has no samples in its 0 lines"},
        {"\n  \n", "bad: has no samples in its 2 lines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_bad(d, &fli_source_csv, "header", "false", cases[i].text, cases[i].message);
    expect_bad(d, &fli_source_csv, "header", "true", "a,b,c\n", "bad: has no samples in its 1 lines");
    expect_bad(d, &fli_source_csv, "label", "3", "1,2,3\n", "bad:1: there is no column 3 for the label, only 0 .. 2");
    expect_bad(d, &fli_source_csv, "group_column", "5", "1,2,3\n",
               "bad:1: there is no column 5 for the group, only 0 .. 2");
    expect_bad(d, &fli_source_csv, "group_column", "2", "1,2,3\n", "bad:1: column 2 cannot be the label and the group");
    expect_bad(d, &fli_source_csv, "group_column", "0", "1,2\n", "bad:1: no column is left for features");
    expect_bad(d, &fli_source_csv, "group_column", "0", ",2,3\n", "bad:1: group '' is neither");
    expect_bad(d, &fli_source_csv, "task", "regression", "1,2,a\n", "bad:1: column 2: 'a' is not a number");
}

static fl_status csv_load(scratch *d, const char *text, const char *key, const char *value, fli_dataset **train)
{
    fli_dataset *test;
    return load_source(d->ctx, &fli_source_csv, KEYS("train", put_text(d, "h.csv", text), key, value), train, &test);
}

/* A first line without numbers among its features is a header, and is noted. */
static void csv_headers(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *text, *key, *value;
        size_t n, classes;
        int noted;
    } cases[] = {
        {"a,b,label\n1,2,x\n3,4,y\n", "header", "auto", 2, 2, 1},
        {"a,b,label\n1,2,x\n3,4,y\n", "header", "true", 2, 2, 0},
        {",b,0\n1,2,7\n3,4,8\n", "header", "auto", 2, 2, 1}, /* pandas leaves the index without a name */
        {"1,2,x\n3,4,y\n5,6,x\n", "header", "auto", 3, 2, 0},
        {"1,2,x\n3,4,y\n5,6,x\n", "header", "true", 2, 2, 0},
        {"0,1,2,3\n3,4,5,6\n", "header", "true", 1, 1, 0},
        {"0,1,2,3\n3,4,5,6\n", "header", "false", 2, 2, 0},
        {"0,1,2,label\n3,4,5,6\n", "header", "false", 2, 2, 0},
        {"1,2,x\n3,4,7\n5,6,x\n", "header", "auto", 3, 2, 0}, /* the word comes again: a label */
        {"age,species,size\n1,cat,3\n2,dog,4\n", "label", "species", 2, 2, 0},
        {"1,2020,3\n4,5,4\n", "label", "2", 2, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_dataset *train;
        char note[400] = "";
        fl_ctx_on_log(d->ctx, keep_first_note, note);
        assert_ok(d->ctx, csv_load(d, cases[i].text, cases[i].key, cases[i].value, &train));
        fl_ctx_on_log(d->ctx, NULL, NULL);
        assert_true(train->n == cases[i].n && train->dim >= 1 && train->classes == cases[i].classes);
        assert_int_equal(strstr(note, "h.csv: line 1 is taken as a header") != NULL, cases[i].noted);
        fli_dataset_free(train);
    }
}

static void csv_names(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *path = put_text(d, "n.csv", "who,\"the size\",kind,w\nann,1,x,2\nbob,3,y,4\nann,5,x,6\n");
    const char *const *keys = KEYS("train", path, "test", path, "label", "kind", "group_column", "who");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_csv, keys, &train, &test));
    assert_true(train->dim == 2 && train->classes == 2 && train->groups == 2 && test->dim == 2);
    assert_memory_equal(train->x, ((const float[]){1, 2, 3, 4, 5, 6}), 24);
    assert_memory_equal(train->label, ((const int32_t[]){0, 1, 0}), 12);
    assert_memory_equal(train->group, ((const int32_t[]){0, 1, 0}), 12);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_csv, keys);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", path, "label", "Kind"), &train, &test),
                 FL_EFORMAT, "n.csv:1: no column is called 'Kind' for the label, only 'who', 'the size', 'kind', 'w'");
    assert_fails(
        d->ctx,
        load_source(d->ctx, &fli_source_csv, KEYS("train", path, "label", "kind", "header", "false"), &train, &test),
        FL_ECONFIG, "n.csv: the label is called 'kind', but header is false: give the column's number");
}

/* What may be a header, but cannot be told from a sample: the message says what to say. */
static void csv_doubtful_headers(void **state)
{
    scratch *d = *state;
    static const char *const cases[][2] = {
        {"2020,b,c\n1,2,0\n", "bad:1: column 1: 'b' is not a number; if this line is a header, say header: true"},
        {"2,?,0\n1,2,1\n", "bad:1: column 1: '?' is not a number; if this line is a header, say header: true"},
        {"0,1,2,3\n3,4,5,6\n", "bad:1: counts 0, 1, 2, ... as a header without names does; say header: true, or"},
        {"10,20,class\n1,2,0\n3,4,1\n", "bad:1: the label 'class' is the only word among numbers; if this line is a "},
        {"a,b,c\n1,x,0\n", "bad:2: column 1: 'x' is not a number"},
        {"a,b,c\n", "bad: has no samples in its 1 lines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_bad(d, &fli_source_csv, "header", "auto", cases[i][0], cases[i][1]);
    expect_bad(d, &fli_source_csv, "task", "regression", "10,20,y\n1,2,0\n",
               "bad:1: column 2: 'y' is not a number; if this line is a header, say header: true");
    expect_bad(d, &fli_source_csv, "label", "-2", "1,2,3\n", "bad:1: there is no column -2 for the label, only 0 .. 2");
    expect_bad(d, &fli_source_csv, "label", "99999999999999999999999", "1,2,3\n", "for the label, only 0 .. 2");
}

static void csv_bad_test_part(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *a = put_text(d, "a", "1,2,x\n3,4,y\n"), *b = put_text(d, "b", "1,2,x\n\n3,4,z\n");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", a, "test", b), &train, &test), FL_EFORMAT,
                 "b:3: label 'z' does not occur in the training data");
    put_text(d, "b", "1,x\n");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_csv, KEYS("train", a, "test", b), &train, &test), FL_EFORMAT,
                 "b: samples of 1 x 1 x 1 features, but those for training are 1 x 1 x 2");
}

/* ---- leaf ----------------------------------------------------------------------------------------------- */

#define USER_A "\"ann\": {\"x\": [[1, 2.5], [3, 4]], \"y\": [0, 2]}"
#define USER_B "\"bob\": {\"x\": [[-5e1, 6]], \"y\": [1.0]}"
#define BOTH   "{\"users\": [\"bob\", \"ann\"], \"num_samples\": [1, 2], \"user_data\": {" USER_A ", " USER_B "}}"

static void leaf_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char more[] =
        "{\"users\": [\"ann\", \"bob\"], \"num_samples\": [1, 0], \"user_data\": {\"ann\": {\"x\": [[7, 8]], "
        "\"y\": [2]}, \"bob\": {\"x\": [], \"y\": []}}}";
    put_gz(d, "a.json.gz", BOTH, strlen(BOTH));
    put_text(d, "t.json", more);
    const char *const *keys = KEYS("train", at(d, "a.json"), "test", at(d, "t.json"));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_leaf, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, test, "test"));
    assert_true(train->kind == FLI_X_F32 && train->n == 3 && train->dim == 2 && train->classes == 3);
    assert_memory_equal(train->x, ((const float[]){-50, 6, 1, 2.5f, 3, 4}), 24);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 2}), 12);
    assert_memory_equal(train->group, ((const int32_t[]){0, 1, 1}), 12);
    assert_true(train->groups == 2 && test->groups == 2 && test->n == 1 && test->classes == 3);
    assert_true(test->group[0] == 1 && test->label[0] == 2);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_leaf, keys);
}

/* Files in the order of their names, whatever else lies there. */
static void leaf_folder(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    assert_ok(d->ctx, fli_make_folders(d->ctx, at(d, "folder")));
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", at(d, "folder")), &train, &test), FL_EIO,
                 "folder: there is no *.json in this folder");
    put_text(d, "folder/2.json", "{\"users\": [\"ann\"], \"num_samples\": [2], \"user_data\": {" USER_A "}}");
    put_text(d, "folder/1.json", "{\"users\": [\"bob\"], \"num_samples\": [1], \"user_data\": {" USER_B "}}");
    put_text(d, "folder/readme.txt", "nothing");
    const char *const *keys = KEYS("train", at(d, "folder"));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_leaf, keys, &train, &test));
    assert_null(test);
    assert_true(train->n == 3 && train->groups == 2 && train->classes == 3);
    assert_memory_equal(train->group, ((const int32_t[]){0, 1, 1}), 12);
    assert_near(((float *)train->x)[0], -50, 0);
    fli_dataset_free(train);
    torture_source(d->ctx, &fli_source_leaf, keys);
    put_text(d, "folder/3.json", "{\"users\": [\"bob\"], \"num_samples\": [1], \"user_data\": {" USER_B "}}");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, keys, &train, &test), FL_EFORMAT,
                 "folder/3.json: user 'bob' occurs twice");
}

#define ONE(data) "{\"users\": [\"u\"], \"num_samples\": [1], \"user_data\": {\"u\": " data "}}"

static void leaf_bad(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"users\": [\n1,,]", "bad:2:3: not valid JSON: "},
        {"", "bad:1:0: not valid JSON: "},
        {"{\"users\": [\"u\"]", "not valid JSON"},
        {BOTH " more", "not valid JSON: 'end of file expected"},
        {"{\"users\": [], \"users\": []}", "not valid JSON: 'duplicate object key"},
        {"[1, 2]", "bad: lacks a list \"users\""},
        {"{\"users\": 1}", "bad: lacks a list \"users\""},
        {"{\"users\": []}", "bad: lacks a list \"num_samples\""},
        {"{\"users\": [], \"num_samples\": []}", "bad: lacks a map \"user_data\""},
        {"{\"users\": [], \"num_samples\": [], \"user_data\": {}}", "bad: has no samples"},
        {"{\"users\": [\"u\"], \"num_samples\": [], \"user_data\": {}}", "has 1 users, 0 num_samples and 0 user_data"},
        {"{\"users\": [7], \"num_samples\": [1], \"user_data\": {\"7\": {}}}", "users[0] is not a text"},
        {"{\"users\": [\"u\"], \"num_samples\": [1], \"user_data\": {\"v\": {}}}", "user_data of 'u' lacks a list x"},
        {"{\"users\": [\"u\", \"u\"], \"num_samples\": [1, 1], \"user_data\": {\"u\": {\"x\": [[1]], \"y\": [1]}, "
         "\"v\": {}}}",
         "user 'u' occurs twice"},
        {"{\"users\": [\"u\"], \"num_samples\": [0], \"user_data\": {\"u\": {\"x\": [], \"y\": []}}}",
         "user 'u' has no samples"},
        {ONE("3"), "user_data of 'u' lacks a list x"},
        {ONE("{\"x\": [[1]], \"y\": 2}"), "user_data of 'u' lacks a list x or a list y"},
        {ONE("{\"x\": [[1]], \"y\": [1, 2]}"), "user 'u' has 1 samples, but 2 labels"},
        {ONE("{\"x\": [[1], [2]], \"y\": [1, 2]}"), "user 'u' has 2 samples, but num_samples says otherwise"},
        {ONE("{\"x\": [1], \"y\": [1]}"), "user 'u', x[0] is not a list of numbers"},
        {ONE("{\"x\": [[]], \"y\": [1]}"), "user 'u', x[0] is not a list of numbers"},
        {ONE("{\"x\": [\"text\"], \"y\": [1]}"), "user 'u', x[0] is not a list of numbers"},
        {ONE("{\"x\": [[1, \"2\"]], \"y\": [1]}"), "user 'u', x[0][1] is not a number"},
        {ONE("{\"x\": [[1, null]], \"y\": [1]}"), "user 'u', x[0][1] is not a number"},
        {ONE("{\"x\": [[1, -1e39]], \"y\": [1]}"),
         "user 'u', x[0][1] is -1e+39, too large for precision f32; precision: f64 keeps it"},
        {ONE("{\"x\": [[1, NaN]], \"y\": [1]}"), "not valid JSON"},
        {ONE("{\"x\": [[1]], \"y\": [1.5]}"), "user 'u', y 0: label 1.5 is not a whole number"},
        {ONE("{\"x\": [[1]], \"y\": [null]}"), "user 'u', y[0] is neither a number nor a text"},
        {ONE("{\"x\": [[1]], \"y\": [1e300]}"), "y 0: label 1.0000000000000001e+300 is not a whole number up to 2^53"},
        {"{\"users\": [\"u\"], \"num_samples\": [2], \"user_data\": {\"u\": {\"x\": [[1, 2], [3]], \"y\": [0, 1]}}}",
         "user 'u', x[1] has 1 features where the first sample has 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_bad(d, &fli_source_leaf, "test", "", cases[i].text, cases[i].message);
}

/* Labels as elsewhere: numbers or words, 0, 1, ... in ascending order; or as they are, where their number is given. */
static void leaf_labels(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char words[] =
        "\xef\xbb\xbf{\"users\": [\"u\"], \"num_samples\": [3], \"user_data\": {\"u\": {\"x\": [[1], "
        "[2], [3]], \"y\": [\"dog\", \"cat\", \"dog\"]}}}";
    const char *path = put_text(d, "l.json", words);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", path), &train, &test));
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 12);
    fli_dataset_free(train);
    put_text(d, "l.json", ONE("{\"x\": [[1]], \"y\": [7]}"));
    const char *other = put_text(d, "t.json", ONE("{\"x\": [[1]], \"y\": [5]}"));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", path), &train, &test));
    assert_true(train->classes == 1 && train->label[0] == 0);
    fli_dataset_free(train);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", path, "test", other), &train, &test),
                 FL_EFORMAT, "t.json: user 'u', y 0: label '5' does not occur in the training data; where labels");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", path, "test", other, "classes", "62"), &train,
                                  &test));
    assert_true(train->classes == 62 && train->label[0] == 7 && test->classes == 62 && test->label[0] == 5);
    fli_dataset_free(train);
    fli_dataset_free(test);
}

static void leaf_bad_test_part(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *a = put_text(d, "a.json", BOTH), *b = put_text(d, "b.json", ONE("{\"x\": [[1, 2]], \"y\": [0]}"));
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", a, "test", b), &train, &test), FL_EFORMAT,
                 "b.json: user 'u' does not occur in the training data");
    put_text(d, "b.json",
             "{\"users\": [\"bob\"], \"num_samples\": [1], \"user_data\": {\"bob\": {\"x\": [[1]], \"y\": [0]}}}");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", a, "test", b), &train, &test), FL_EFORMAT,
                 "b.json: samples of 1 x 1 x 1 features, but those for training are 1 x 1 x 2");
    put(d, "b.json.gz", "\x1f\x8b\x08 this is damaged", 20);
    assert_fails(d->ctx,
                 load_source(d->ctx, &fli_source_leaf, KEYS("train", a, "test", at(d, "b.json.gz")), &train, &test),
                 FL_EFORMAT, "b.json.gz: the gzip data are damaged at uncompressed offset 0");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_leaf, KEYS("train", "/no/such"), &train, &test), FL_EIO,
                 "/no/such: no such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_good),
        cmocka_unit_test(libsvm_storage),
        cmocka_unit_test(labels_are_noted),
        cmocka_unit_test(libsvm_regression_and_features),
        cmocka_unit_test(libsvm_labels_are_ordered_as_numbers),
        cmocka_unit_test(libsvm_bad),
        cmocka_unit_test(libsvm_too_many_labels),
        cmocka_unit_test(values_are_no_classes),
        cmocka_unit_test(a_clients_own_labels),
        cmocka_unit_test(libsvm_from_zero),
        cmocka_unit_test(libsvm_absurd_index),
        cmocka_unit_test(wide_values),
        cmocka_unit_test(libsvm_bad_test_part),
        cmocka_unit_test(csv_good),
        cmocka_unit_test(csv_columns),
        cmocka_unit_test(csv_in_a_zip),
        cmocka_unit_test(csv_regression_and_quotes),
        cmocka_unit_test(csv_numbers_are_exact),
        cmocka_unit_test(csv_bad),
        cmocka_unit_test(csv_headers),
        cmocka_unit_test(csv_names),
        cmocka_unit_test(csv_doubtful_headers),
        cmocka_unit_test(csv_bad_test_part),
        cmocka_unit_test(leaf_good),
        cmocka_unit_test(leaf_folder),
        cmocka_unit_test(leaf_bad),
        cmocka_unit_test(leaf_labels),
        cmocka_unit_test(leaf_bad_test_part),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
