/* The library in a program with a locale of its own: it reads and writes the same, also when the locale changes under
 * it. The locale is made here, with a comma for the decimal point and dots between thousands, so that none need be
 * installed. */
#include "runs.h"

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "run/state.h"

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>

#define YAML SMALL "metrics: {gradient: true, targets: [0.25]}\nalgorithm: {kind: fedprox, mu: 0.125}\n"

/* Makes the locale and names it to the C library; 0 where localedef is missing. */
static int make_locale(fixture *f)
{
    char command[1024];
    fixture_write(f, "comma.src",
                  "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \"<U002C>\"\n"
                  "thousands_sep \"<U002E>\"\ngrouping 3;3\nEND LC_NUMERIC\n");
    fixture_write(f, "plain.map",
                  "<code_set_name> PLAIN\n<comment_char> %\n<escape_char> /\nCHARMAP\n<U0000>..<U007F> "
                  "/x00\nEND CHARMAP\n");
    snprintf(command, sizeof command,
             "cd %s && mkdir -p locales && localedef -c -i ./comma.src -f ./plain.map ./locales/comma >/dev/null 2>&1",
             f->folder);
    int rc = system(command);
    setenv("LOCPATH", fixture_path(f, "locales"), 1);
    char number[16] = "";
    if (setlocale(LC_ALL, "comma")) snprintf(number, sizeof number, "%.1f", 1.5);
    setlocale(LC_ALL, "C");
    (void)rc; /* it warns of what the locale lacks */
    return !strcmp(number, "1,5");
}

static void needs_locale(fixture *f)
{
    if (!make_locale(f)) skip();
}

static void numbers_have_points_in_any_locale(void **state)
{
    fixture *f = *state;
    fli_text t;
    fli_writer out;
    char buf[32], *end;
    needs_locale(f);
    assert_non_null(setlocale(LC_ALL, "comma"));
    fli_snprintf(buf, sizeof buf, "%g %.2f", 0.5, 1234.5);
    assert_string_equal(buf, "0.5 1234.50");
    assert_true(fli_strtod("2.5,", &end) == 2.5 && *end == ',');
    fli_text_init(&t, f->ctx);
    fli_text_addf(&t, "%.3g", 0.125);
    assert_string_equal(fli_text_get(&t), "0.125");
    fli_text_fini(&t);
    char *s = fli_strf(f->ctx, "%g", 1.5);
    assert_string_equal(s, "1.5");
    fli_free(s);
    fli_fail(f->ctx, FL_EIO, "%g", 2.5);
    assert_string_equal(fl_ctx_error(f->ctx), "2.5");
    fli_clear(f->ctx);
    assert_ok(f->ctx, fli_writer_open(f->ctx, fixture_path(f, "file"), &out));
    fli_writer_printf(&out, "%g", 3.5);
    assert_ok(f->ctx, fli_writer_close(&out));
    s = read_whole(fixture_path(f, "file"), NULL);
    assert_string_equal(s, "3.5");
    free(s);
    snprintf(buf, sizeof buf, "%.1f", 1.5); /* and the caller's own is as it was */
    assert_string_equal(buf, "1,5");
    setlocale(LC_ALL, "C");
}

/* Without the seconds, which are never the same twice. */
static char *metrics_of(fixture *f, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/metrics.jsonl", name);
    char *text = read_whole(fixture_path(f, path), NULL);
    assert_non_null(text);
    for (char *s = text; (s = strstr(s, "\"seconds\": ")); s++) {
        char *end = s + strcspn(s, ",}");
        memmove(s, end, strlen(end) + 1);
    }
    return text;
}

static void result_into(fixture *f, const char *name)
{
    char set[200];
    snprintf(set, sizeof set, "output=%s/%s;local.lr=0.0625;rounds=40", f->folder, name);
    fl_run *run = run_done(f, YAML, set);
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
}

static void same_files(fixture *f, const char *a, const char *b)
{
    static const char *const names[] = {"clients.csv", "model.safetensors"};
    char *x = metrics_of(f, a), *y = metrics_of(f, b), path[64];
    assert_string_equal(x, y);
    free(x);
    free(y);
    for (size_t i = 0; i < 2; i++) {
        size_t n, m;
        snprintf(path, sizeof path, "%s/%s", a, names[i]);
        x = read_whole(fixture_path(f, path), &n);
        snprintf(path, sizeof path, "%s/%s", b, names[i]);
        y = read_whole(fixture_path(f, path), &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
        free(x);
        free(y);
    }
}

static void a_comma_from_the_start(void **state)
{
    fixture *f = *state;
    needs_locale(f);
    result_into(f, "plain");
    assert_non_null(setlocale(LC_ALL, "comma"));
    result_into(f, "comma");
    fl_config *cfg = fl_config_new(f->ctx); /* what was written can be read, in either */
    assert_ok(f->ctx, fl_config_load(cfg, fixture_path(f, "plain/config.yaml")));
    fl_config_free(cfg);
    setlocale(LC_ALL, "C");
    same_files(f, "plain", "comma");
}

static atomic_int quit;

static void *change_about(void *unused)
{
    (void)unused;
    while (!quit) {
        setlocale(LC_ALL, "comma");
        setlocale(LC_ALL, "C");
    }
    return NULL;
}

static void changed_at_any_time(void **state)
{
    fixture *f = *state;
    pthread_t other;
    needs_locale(f);
    result_into(f, "plain");
    quit = 0;
    assert_int_equal(pthread_create(&other, NULL, change_about, NULL), 0);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "changed%d", i);
        result_into(f, name);
        same_files(f, "plain", name);
    }
    quit = 1;
    pthread_join(other, NULL);
    setlocale(LC_ALL, "C");
}

/* A comparison reads its results back, and a JSON parser does so with numbers of its own. */
static void comparisons_are_equal_in_any_locale(void **state)
{
    fixture *f = *state;
    char out[200];
    needs_locale(f);
    snprintf(out, sizeof out, "%s/out", f->folder);
    for (int k = 0; k < 2; k++) {
        fl_study *s = NULL;
        size_t done;
        fl_config *cfg = fixture_config(f, YAML "seeds: 2\nmethods: [{algorithm: fedavg}]\n");
        assert_non_null(setlocale(LC_ALL, k ? "comma" : "C"));
        assert_ok(f->ctx, fl_study_new(cfg, &(fl_study_options){.size = sizeof(fl_study_options), .output = out}, &s));
        assert_int_equal(fl_study_runs(s, &done), 2);
        assert_int_equal(done, k ? 2 : 0);
        assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
        assert_ok(f->ctx, fl_study_write(s));
        char *csv = read_whole(fixture_path(f, "out/results.csv"), NULL);
        fixture_write(f, k ? "second.csv" : "first.csv", csv);
        free(csv);
        fl_study_free(s);
        fl_config_free(cfg);
    }
    setlocale(LC_ALL, "C");
    char *a = read_whole(fixture_path(f, "first.csv"), NULL), *b = read_whole(fixture_path(f, "second.csv"), NULL);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* Loaders read the numbers of files, whichever library does it. */
static void files_of_data(void **state)
{
    fixture *f = *state;
    static const char leaf[] = "{\"users\": [\"u\"], \"num_samples\": [2], \"user_data\": {\"u\": {\"x\": "
                               "[[0.30000000000000004, 1e-1], [2.5, 0.25]], \"y\": [0, 1]}}}";
    const char *const text[] = {"0.30000000000000004,1e-1,a\n2.5,0.25,b\n",
                                "1 1:0.30000000000000004 2:1e-1\n2 1:2.5 2:0.25\n", leaf};
    static const char *const kind[] = {"csv", "libsvm", "leaf"};
    needs_locale(f);
    for (size_t i = 0; i < 3; i++) {
        char yaml[400];
        fl_run *run = NULL;
        double row[2];
        snprintf(yaml, sizeof yaml,
                 "precision: f64\ndata: {kind: %s, train: '%s'}\npartition: {kind: iid, clients: 2}\nmodel: softmax\n",
                 kind[i], fixture_write(f, kind[i], text[i]));
        fl_config *cfg = fixture_config(f, yaml);
        assert_non_null(setlocale(LC_ALL, "comma"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        setlocale(LC_ALL, "C");
        fli_dataset_row(run->plan.fed->train, 0, row);
        assert_true(row[0] == 0.30000000000000004 && row[1] == 0.1);
        fl_run_free(run);
        fl_config_free(cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(numbers_have_points_in_any_locale),
        FIXTURE_TEST(a_comma_from_the_start),
        FIXTURE_TEST(changed_at_any_time),
        FIXTURE_TEST(comparisons_are_equal_in_any_locale),
        FIXTURE_TEST(files_of_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
