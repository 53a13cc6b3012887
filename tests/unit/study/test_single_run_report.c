/* Reports, events and charts of runs that no comparison has made. */
#include "studies.h"

#include <sys/stat.h>

static fl_run *run_of(fixture *f, const char *yaml, const char *name)
{
    char put[200];
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, yaml);
    snprintf(put, sizeof put, "output=%s/%s", f->folder, name);
    assert_ok(f->ctx, fl_config_set(cfg, put));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static char *page_of(fixture *f, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/report.html", name);
    return read_whole(fixture_path(f, path), NULL);
}

static void a_page_on_request(void **state)
{
    fixture *f = *state;
    fl_run *run = run_of(f, PROBLEM "name: 'one & only'\nseed: 5\n", "out");
    assert_ok(f->ctx, fl_run_save(run));
    assert_null(page_of(f, "out"));
    fl_run_free(run);
    run = run_of(f, PROBLEM "name: 'one & only'\nseed: 5\n", "with");
    assert_ok(f->ctx, fl_run_save_with_report(run, "typed <this>"));
    char *html = page_of(f, "with");
    assert_non_null(html);
    assert_non_null(strstr(html, "<h1>one &amp; only</h1>"));
    assert_non_null(strstr(html, "<dt>command</dt><dd>typed &lt;this&gt;</dd>"));
    assert_non_null(
        strstr(html, "<dt>data</dt><dd>blobs: 90 training samples of 4 features in 3 classes; 40 test samples"));
    assert_non_null(strstr(html, "<dt>clients</dt><dd>6, each with 15 samples</dd>"));
    assert_non_null(strstr(html, "<dt>cohort</dt><dd>uniform (count 3); 3 of 6 clients in the last round</dd>"));
    assert_non_null(strstr(html, "; 15 parameters</dd>"));
    assert_non_null(strstr(html, "Nothing was learnt: <b>fedavg</b> ends at 30.00 (test accuracy %), not above 35, "));
    assert_non_null(strstr(html, "id=\"clients\""));
    assert_non_null(strstr(html, "seed 5<"));
    free(html);
    fl_run_free(run);
}

/* Without a test set accuracy is on the clients' own test parts, and so is what the largest class's share gives. */
static void chance_is_of_test_parts(void **state)
{
    static const char text[] = "data: {kind: blobs, classes: 3, features: 4, samples: 90, spread: %s, test_samples: 0, "
                               "test_fraction: 0.4}\npartition: {kind: iid, clients: 3}\nmodel: softmax\n"
                               "local: {epochs: 5, batch: 5, lr: 0.1}\nrounds: 6\nalgorithm: fedavg\n";
    static const char *const spreads[] = {"100", "0.1"},
                             *const verdicts[] = {
                                 "Nothing was learnt: <b>fedavg</b> ends at 27.78 (test accuracy %), not above 36.11, ",
                                 "<p class=\"verdict\" id=\"verdict\"><b>fedavg</b> ends at 88.89"};
    fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        char yaml[512], name[] = "out0";
        snprintf(yaml, sizeof yaml, text, spreads[i]);
        name[3] = (char)('0' + i);
        fl_run *run = run_of(f, yaml, name);
        assert_ok(f->ctx, fl_run_save_with_report(run, NULL));
        char *html = page_of(f, name);
        if (!strstr(html, verdicts[i])) fail_msg("%.300s", strstr(html, "id=\"verdict\""));
        free(html);
        fl_run_free(run);
    }
}

/* One of several processes has a part of the test set, and writes the page. */
static void a_page_counts_what_others_hold(void **state)
{
    fixture *f = *state;
    fl_run *run = run_of(f, PROBLEM, "out");
    assert_ok(f->ctx, fli_fed_keep_tests(f->ctx, run->plan.fed, 0, 7));
    assert_ok(f->ctx, fl_run_save_with_report(run, NULL));
    char *html = page_of(f, "out");
    assert_non_null(strstr(html, "; 40 test samples"));
    free(html);
    fl_run_free(run);
}

/* The folder is whole by its manifest with the page and without it, and either may be replaced. */
static void the_page_is_part_of_the_result(void **state)
{
    fixture *f = *state;
    for (int with = 1; with >= 0; with--) {
        fl_run *run = run_of(f, PROBLEM, "out");
        assert_ok(f->ctx, fl_run_prepare_save(run, 1));
        assert_ok(f->ctx, with ? fl_run_save_with_report(run, NULL) : fl_run_save(run));
        fl_run_free(run);
        char *manifest = read_whole(fixture_path(f, "out/manifest.json"), NULL);
        assert_int_equal(strstr(manifest, "report.html") != NULL, with);
        free(manifest);
        assert_int_equal(entries(fixture_path(f, "out")), 7 + (size_t)with);
    }
}

/* What a run says of itself is what a comparison says of it. */
static void as_a_comparison_has_it(void **state)
{
    fixture *f = *state;
    fl_study_free(
        study_done(f, PROBLEM "methods: [{label: fedavg, algorithm: fedavg}]\n", "study", (fl_study_options){0}));
    fl_run *run = run_of(f, PROBLEM, "run");
    assert_ok(f->ctx, fl_run_save_with_report(run, NULL));
    fl_run_free(run);
    char *a = page_of(f, "study"), *b = page_of(f, "run");
    static const char *const parts[] = {"<dt>heterogeneity</dt>", "<dt>model</dt>", "\"client-spread\":{"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *x = strstr(a, parts[i]), *y = strstr(b, parts[i]);
        assert_true(x && y);
        assert_int_equal(strcspn(x, "\n"), strcspn(y, "\n"));
        assert_int_equal(strncmp(x, y, strcspn(x, "\n")), 0);
    }
    free(a);
    free(b);
}

static void events_go_to_the_given_folder(void **state)
{
    fixture *f = *state;
    char folder[200];
    struct stat st;
    fl_run *run = run_of(f, PROBLEM, "out");
    snprintf(folder, sizeof folder, "%s/events/mine", f->folder);
    assert_ok(f->ctx, fl_run_events(run, folder));
    assert_int_equal(stat(fixture_path(f, "events/mine/events.out.tfevents.0000000000.fedloom"), &st), 0);
    assert_true(st.st_size > 100);
    snprintf(folder, sizeof folder, "%s", fixture_write(f, "file", "x"));
    assert_fails(f->ctx, fl_run_events(run, folder), FL_EIO, "file");
    fl_run_free(run);
}

static void charts_of_folders(void **state)
{
    fixture *f = *state;
    char a[200], b[200];
    fl_curves *c = NULL;
    collected svg = {0};
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){0}));
    snprintf(a, sizeof a, "%s/out/runs/fedavg/seed-1", f->folder);
    snprintf(b, sizeof b, "%s/out/runs/fed-prox/seed-1", f->folder);
    const char *const folders[] = {a, b}, *const wrong[] = {a, f->folder};
    assert_ok(f->ctx, fl_curves_read(f->ctx, folders, 2, &c));
    assert_string_equal(fl_curves_quantity(c, 0, 0), "rounds");
    assert_non_null(fl_curves_quantity(c, 1, 0));
    assert_ok(f->ctx, fl_curves_plot(c, "rounds", "test-accuracy", collect_text, &svg));
    assert_non_null(strstr(svg.s, ">FedAvg</text>"));
    assert_non_null(strstr(svg.s, ">Fed Prox</text>"));
    assert_fails(f->ctx, fl_curves_plot(c, "rounds", "beauty", collect_text, &svg), FL_ECONFIG, "beauty");
    fl_curves_free(c);
    free(svg.s);
    assert_fails(f->ctx, fl_curves_read(f->ctx, wrong, 2, &c), FL_EIO, "is not the result of a run");
    assert_fails(f->ctx, fl_curves_read(f->ctx, NULL, 0, &c), FL_ECONFIG, "no result folder was named");
}

static fl_status save_with_page(fixture *f, fl_run *run)
{
    (void)f;
    fl_status s = fl_run_prepare_save(run, 1);
    return s ? s : fl_run_save_with_report(run, "command");
}

static fl_status plot_folder(fixture *f, fl_run *run)
{
    fl_curves *c = NULL;
    collected svg = {0};
    const char *const folders[] = {fl_run_output(run), fl_run_output(run)};
    fl_status s = fl_curves_read(f->ctx, folders, 2, &c);
    if (s) return s;
    s = fl_curves_plot(c, "rounds", "test-accuracy", collect_text, &svg);
    fl_curves_free(c);
    free(svg.s);
    return s;
}

/* Every allocation fails in turn: while a result with its page is saved, and while folders are read and drawn. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    fl_status (*const jobs[])(fixture *, fl_run *) = {save_with_page, plot_folder};
    fl_run *run = run_of(f, PROBLEM, "out");
    struct stat st;
    assert_ok(f->ctx, fl_run_save(run));
    for (size_t i = 0; i < 2; i++) {
        size_t failures = 0;
        for (size_t k = 1, fine = 0; fine < 20; k++) { /* what is not needed may be missing */
            assert_true(k < 100000);
            fli_clear(f->ctx);
            fli_ctx_fail_alloc(f->ctx, k);
            fl_status s = jobs[i](f, run);
            fli_ctx_fail_alloc(f->ctx, 0);
            fine = s ? 0 : fine + 1;
            failures += s != FL_OK;
            assert_int_not_equal(stat(fixture_path(f, "out.partial"), &st), 0);
            if (s && (s != FL_ENOMEM || !strstr(fl_ctx_error(f->ctx), "out of memory")))
                fail_msg("job %zu, allocation %zu: status %d (%s)", i, k, (int)s, fl_ctx_error(f->ctx));
        }
        assert_true(failures > 50);
        assert_int_equal(entries(fixture_path(f, "out")), 8); /* with the page, and nothing half-written */
    }
    fl_run_free(run);
}

/* So many that each list of them is an allocation of its own. */
static void out_of_memory_for_many(void **state)
{
    enum { MANY = 5000 };
    static const char *folders[MANY];
    fixture *f = *state;
    fl_curves *c = NULL;
    fl_status s = FL_ENOMEM;
    size_t k = 0;
    for (size_t i = 0; i < MANY; i++) folders[i] = "/nowhere/at/all";
    while (s == FL_ENOMEM) {
        fli_clear(f->ctx);
        fli_ctx_fail_alloc(f->ctx, ++k);
        s = fl_curves_read(f->ctx, folders, MANY, &c);
        fli_ctx_fail_alloc(f->ctx, 0);
    }
    assert_true(k > 5);
    assert_int_equal(s, FL_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_page_on_request),       FIXTURE_TEST(the_page_is_part_of_the_result),
        FIXTURE_TEST(as_a_comparison_has_it),  FIXTURE_TEST(events_go_to_the_given_folder),
        FIXTURE_TEST(charts_of_folders),       FIXTURE_TEST(a_page_counts_what_others_hold),
        FIXTURE_TEST(chance_is_of_test_parts), FIXTURE_TEST(out_of_memory),
        FIXTURE_TEST(out_of_memory_for_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
