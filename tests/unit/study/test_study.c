/* Comparisons: how an experiment unfolds, what its runs yield whatever the order and however often they are
 * interrupted, the statistics recomputed by hand, and what is said when something is wrong. */
#include "studies.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- statistics ---------------------------------------------------------------------------------------- */

/* A study with rows made up: accuracy acc[trial][k] after k rounds, a megabyte a round. */
static void make_up(fl_study *s, size_t trial, const double *acc, size_t count)
{
    fli_outcome *o = &s->outcomes[trial];
    o->rows = fli_alloc(s->ctx, count, sizeof *o->rows);
    for (size_t k = 0; k < count; k++) {
        fl_row *row = &o->rows[k];
        *row = empty_row();
        *metric(row, "round") = 10 * k;
        *metric(row, "test_accuracy") = acc[k];
        *metric(row, "train_loss") = 1 - acc[k];
        *metric(row, "bytes_up") = 4e6 * (double)k;
        *metric(row, "seconds") = 2 * (double)k;
    }
    o->count = o->capacity = count;
    o->state = FLI_TRIAL_DONE;
}

static const fli_stat *at_end(const fli_summary *row, const char *name)
{
    return fli_summary_stat(row, fl_metric_find(name));
}

static void summaries_average_over_seeds(void **state)
{
    fixture *f = *state;
    fl_study *s =
        study_new(f, PROBLEM "seeds: 3\nmetrics: {targets: [0.5, 0.9, 0.99]}\n" TWO, "out", (fl_study_options){0});
    fli_arena a;
    fli_summary *rows;
    fli_stat to[FL_METRICS_MAX], *r = &to[fl_metric_place(&fli_metric_round.is)];
    size_t n;
    make_up(s, 0, (const double[]){0.1, 0.6, 0.95}, 3);
    make_up(s, 2, (const double[]){0.1, 0.4, 0.8}, 3);
    make_up(s, 4, (const double[]){0.5, 0.2, 0.91}, 3);
    make_up(s, 1, (const double[]){0.1, 0.2, NAN}, 3);
    s->outcomes[3].state = FLI_TRIAL_FAILED;
    fli_arena_init(&a, f->ctx);
    const fli_results of = fli_study_results(s);
    assert_ok(f->ctx, fli_results_summaries(&of, &a, &rows, &n));
    assert_int_equal(n, 2);
    double mean = (0.95 + 0.8 + 0.91) / 3;
    double var = ((0.95 - mean) * (0.95 - mean) + (0.8 - mean) * (0.8 - mean) + (0.91 - mean) * (0.91 - mean)) / 2;
    assert_int_equal(rows[0].seeds, 3);
    assert_near(at_end(&rows[0], "test_accuracy")->mean, mean, 1e-15);
    assert_near(at_end(&rows[0], "test_accuracy")->std, sqrt(var), 1e-15);
    assert_near(at_end(&rows[0], "train_loss")->mean, 1 - mean, 1e-15);
    assert_near(at_end(&rows[0], "seconds")->mean, 4, 0);
    assert_near(at_end(&rows[0], "bytes_up")->mean, 8, 0);
    assert_near(at_end(&rows[0], "round")->mean, 20, 0);
    assert_int_equal(rows[1].seeds, 1);
    assert_int_equal(rows[1].failed, 1);
    assert_int_equal(at_end(&rows[1], "test_accuracy")->n, 0); /* it was not measured */
    fli_results_to_target(&of, &rows[0], 0.5, to);             /* rounds 10, 20 and 0: once is enough */
    assert_int_equal(r->n, 3);
    assert_near(r->mean, 10, 1e-12);
    assert_near(r->std, 10, 1e-12);
    assert_near(to[fl_metric_place(&fli_metric_bytes_up.is)].mean, 4, 1e-12);
    assert_int_equal(to[fl_metric_place(&fli_metric_simulated_seconds.is)].n, 0);
    fli_results_to_target(&of, &rows[0], 0.9, to);
    assert_int_equal(r->n, 2);
    assert_near(r->mean, 20, 1e-12);
    fli_results_to_target(&of, &rows[0], 0.99, to);
    assert_int_equal(r->n, 0);
    fli_arena_fini(&a);
    char *t = table_of(f->ctx, s);
    assert_non_null(strstr(t, "88.67 ± 7.77"));
    assert_non_null(strstr(t, "20 (2/3)"));
    assert_non_null(strstr(t, "8.00 (2/3)"));
    assert_non_null(strstr(t, "> 20"));
    assert_non_null(strstr(t, "1, 1 failed"));
    assert_null(strstr(t, "sim. s"));
    assert_null(strstr(t, "own models"));
    free(t);
    fl_study_free(s);
}

/* Behind every cell of the table stand its seeds' numbers, in the unit of the column. */
static void numbers_behind_the_table(void **state)
{
    fixture *f = *state;
    fl_study *s = study_new(f, PROBLEM "seeds: 3\nmetrics: {targets: [0.9]}\n" TWO, "out", (fl_study_options){0});
    fli_arena a;
    fli_grid g;
    make_up(s, 0, (const double[]){0.1, 0.6, 0.95}, 3);
    make_up(s, 2, (const double[]){0.1, 0.4, 0.8}, 3);
    make_up(s, 4, (const double[]){0.5, 0.2, 0.91}, 3);
    make_up(s, 1, (const double[]){0.1, 0.2, 0.3}, 3);
    s->outcomes[3].state = FLI_TRIAL_FAILED;
    fli_arena_init(&a, f->ctx);
    const fli_results of = fli_study_results(s);
    assert_ok(f->ctx, fli_results_grid(&of, &a, &g));
    assert_int_equal(g.seeds, 3);
    assert_null(g.chosen); /* there is one setting each */
    assert_string_equal(g.cells[g.goal], "test accuracy %");
    const double *acc = g.values + g.goal * 3, *other = g.values + (g.columns + g.goal) * 3;
    assert_near(acc[0], 95, 1e-12);
    assert_near(acc[1], 80, 1e-12);
    assert_near(acc[2], 91, 1e-12);
    assert_near(other[0], 30, 1e-12);
    assert_true(isnan(other[1]) && isnan(other[2])); /* failed, and not run */
    for (size_t k = 0; k < g.columns; k++)
        if (!strcmp(g.cells[k], "MB to 0.9")) {
            const double *mb = g.values + k * 3;
            assert_true(mb[0] == 8 && isnan(mb[1]) && mb[2] == 8); /* the second seed has not got there */
        }
    fli_arena_fini(&a);
    fl_study_free(s);
}

/* A report is the same whenever it is written, from runs just made and from those of an earlier call. */
static void report_stays_the_same(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM "seeds: 2\ngrid: {local.lr: [0.05, 0.2]}\n" TWO;
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){.command = "as typed"}));
    char *first = read_whole(fixture_path(f, "out/report.html"), NULL);
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){.command = "as typed"}));
    char *second = read_whole(fixture_path(f, "out/report.html"), NULL);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "2 methods in 4 settings"));
    assert_non_null(strstr(first, "<dd>as typed</dd>"));
    assert_non_null(strstr(first, "<dt>last run ended</dt>"));
    assert_non_null(strstr(first, "<dt>local work</dt><dd>not the same for all, see the settings below</dd>"));
    assert_non_null(strstr(first, "<dt>model</dt><dd>softmax"));
    assert_non_null(strstr(first, "\"client-change\":{")); /* from the runs' clients.csv */
    free(first);
    free(second);
}

/* Every client has one of three classes: its mix is 2/3 away from that of all. */
static void knows_how_uneven_clients_are(void **state)
{
    fixture *f = *state;
    fl_study *s = study_done(f, PROBLEM "partition: {kind: shards, clients: 6, shards_per_client: 1}\n" TWO, "shards",
                             (fl_study_options){0});
    assert_near(s->histogram.distance, 2.0 / 3, 1e-12);
    assert_int_equal(s->histogram.least, 15);
    assert_int_equal(s->histogram.most, 15);
    fl_study_free(s);
    char *page = read_whole(fixture_path(f, "shards/report.html"), NULL);
    assert_non_null(strstr(page, "a client&#39;s mix of labels is 0.67 from that of all on average"));
    free(page);
    s = study_done(f, PROBLEM TWO, "iid", (fl_study_options){0});
    assert_true(s->histogram.distance < 0.4);
    fl_study_free(s);
}

/* Cell k of a line of CSV, "" past the last. No label here has a comma in it. */
static void csv_cell(const char *line, size_t k, char *out, size_t size)
{
    for (*out = 0; k; k--, line++)
        if (*(line += strcspn(line, ",\n")) != ',') return;
    snprintf(out, size, "%.*s", (int)strcspn(line, ",\n"), line);
}

/* Row `row` of a CSV text has these cells: "NAME VALUE;NAME VALUE". */
static void assert_cells(const char *csv, size_t row, const char *cells)
{
    char all[2048], *save = NULL, name[64], cell[128];
    const char *line = csv;
    for (size_t i = 0; i < row; i++) line = strchr(line, '\n') + 1;
    snprintf(all, sizeof all, "%s", cells);
    for (char *want = strtok_r(all, ";", &save); want; want = strtok_r(NULL, ";", &save)) {
        size_t k = 0, n = strcspn(want, " ");
        for (csv_cell(csv, 0, name, sizeof name); *name; csv_cell(csv, ++k, name, sizeof name))
            if (!strncmp(name, want, n) && !name[n]) break;
        if (!*name) fail_msg("there is no column %s", want);
        csv_cell(line, k, cell, sizeof cell);
        assert_string_equal(cell, want + n + 1);
    }
}

/* Simulated time and the clients' own models have columns once anybody has them. */
static void clock_and_own_models(void **state)
{
    fixture *f = *state;
    fl_study *s = study_new(f, PROBLEM "seeds: 2\nmetrics: {targets: [0.5, 0.9]}\n" TWO, "out", (fl_study_options){0});
    for (size_t i = 0; i < 4; i++) make_up(s, i, (const double[]){0.1, 0.4, 0.7}, 3);
    for (size_t i = 0; i < 4; i += 2) /* the first method, seed by seed */
        for (size_t k = 0; k < 3; k++) {
            *metric(&s->outcomes[i].rows[k], "simulated_seconds") = 3.5 * (double)k * (double)(i + 1);
            *metric(&s->outcomes[i].rows[k], "local_test_accuracy") = 0.5 + 0.1 * (double)i;
            *metric(&s->outcomes[i].rows[k], "cluster_accuracy") = 0.25;
            *metric(&s->outcomes[i].rows[k], "cluster_nmi") = 0.125 + 0.25 * (double)i;
        }
    char *t = table_of(f->ctx, s), *last = strstr(t, "\n") + 1;
    assert_non_null(strstr(t, "sim. s to 0.5"));
    assert_non_null(strstr(t, "own models acc. %"));
    assert_non_null(strstr(t, "60.00 ± 14.14"));
    assert_non_null(strstr(t, "cluster acc. %            NMI"));
    assert_non_null(strstr(last, "25.00 ± 0.00  0.375 ± 0.354"));
    assert_non_null(strstr(last, " 14.0 ")); /* (7 + 21)/2 seconds */
    assert_non_null(strstr(last, " > 14.0 "));
    last = strstr(last, "\n") + 1; /* the second has no clock */
    assert_null(strstr(last, "14.0"));
    assert_null(strstr(last, "14.14"));
    free(t);
    assert_ok(f->ctx, fl_study_write(s));
    char *csv = read_whole(fixture_path(f, "out/results.csv"), NULL);
    assert_cells(csv, 1,
                 "local_test_accuracy_mean 0.6;local_test_accuracy_std 0.1414213562;simulated_seconds_mean 14;"
                 "simulated_seconds_std 9.899494937;local_worst_mean ;pseudo_accuracy_mean ;cluster_accuracy_mean 0.25;"
                 "cluster_accuracy_std 0;cluster_nmi_mean 0.375;cluster_nmi_std 0.3535533906;communications_mean 0;"
                 "reached_0.5 2;rounds_to_0.5_mean 20;rounds_to_0.5_std 0;megabytes_to_0.5_mean 8;"
                 "simulated_to_0.5_mean 14;simulated_to_0.5_std 9.899494937;communications_to_0.5_mean 0;"
                 "reached_0.9 0;rounds_to_0.9_mean ;simulated_to_0.9_std ");
    assert_cells(csv, 2, "local_test_accuracy_mean ;simulated_seconds_mean ;simulated_to_0.5_mean ;reached_0.5 2");
    free(csv);
    json_t *json = json_load_file(fixture_path(f, "out/results.json"), 0, NULL);
    for (size_t i = 0; i < 2; i++) {
        json_t *row = json_array_get(json_object_get(json, "rows"), i);
        json_t *to = json_object_get(json_array_get(json_object_get(row, "targets"), 0), "simulated_seconds");
        json_t *local = json_object_get(row, "local_test_accuracy");
        assert_true(i ? json_is_null(to) && json_is_null(local) : json_is_object(to) && json_is_object(local));
        if (!i) assert_near(json_number_value(json_object_get(to, "mean")), 14, 1e-12);
        if (!i) assert_near(json_number_value(json_object_get(local, "mean")), 0.6, 1e-12);
    }
    json_decref(json);
    fl_study_free(s);
}

/* The files agree with one another and with what was put in. */
static void result_files_agree(void **state)
{
    fixture *f = *state;
    fl_study *s =
        study_new(f, PROBLEM "seeds: 2\nname: 'a \"name\"'\nmethods: [{label: 'x \"y\" | z', algorithm: fedavg}]\n",
                  "out", (fl_study_options){0});
    make_up(s, 0, (const double[]){0.25, 0.5}, 2);
    make_up(s, 1, (const double[]){0.25, 0.75}, 2);
    assert_ok(f->ctx, fl_study_write(s));
    char *csv = read_whole(fixture_path(f, "out/results.csv"), NULL);
    assert_cells(csv, 1,
                 "method \"x \"\"y\"\" | z\";setting \"\";best 1;seeds 2;failed 0;test_accuracy_mean 0.625;"
                 "test_accuracy_std 0.1767766953;train_loss_mean 0.375;train_loss_std 0.1767766953;rounds_mean 10;"
                 "rounds_std 0;megabytes_up_mean 4;seconds_mean 2;seconds_std 0;local_test_accuracy_mean ;"
                 "cluster_nmi_std ;communications_mean 0;reached_0.4 2;rounds_to_0.4_mean 10;megabytes_to_0.4_mean 4;"
                 "simulated_to_0.4_mean ;reached_0.999 0;rounds_to_0.999_mean ");
    free(csv);
    char *md = read_whole(fixture_path(f, "out/results.md"), NULL);
    assert_non_null(strstr(md, "| x \"y\" \\| z | 2 | 62.50 ± 17.68 |"));
    free(md);
    json_t *json = json_load_file(fixture_path(f, "out/results.json"), 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "name")), "a \"name\"");
    json_t *row = json_array_get(json_object_get(json, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "method")), "x \"y\" | z");
    assert_near(json_number_value(json_object_get(json_object_get(row, "test_accuracy"), "mean")), 0.625, 1e-15);
    json_t *targets = json_object_get(row, "targets");
    assert_int_equal(json_array_size(targets), 2);
    assert_true(json_is_null(json_object_get(json_array_get(targets, 1), "rounds")));
    json_decref(json);
    char *page = read_whole(fixture_path(f, "out/report.html"), NULL);
    assert_non_null(strstr(page, "</html>"));
    free(page);
    assert_int_equal(entries(fixture_path(f, "out")), 5); /* and their manifest */
    fl_study_free(s);
}

/* Labels are text wherever they are read: no formula in a spreadsheet, no markup in a page. */
static void labels_stay_text(void **state)
{
    static const char *const formulas[] = {"=1+1", "+1", "-1", "@SUM(1)"};
    fixture *f = *state;
    char yaml[2048] = PROBLEM "methods:\n- {label: '<b>*x*</b> [y](z) & _w_ `q`', algorithm: fedavg}\n", want[64];
    for (size_t i = 0; i < 4; i++)
        sprintf(yaml + strlen(yaml), "- {label: '%s %zu', algorithm: fedavg}\n", formulas[i], i);
    fl_study *s = study_new(f, yaml, "out", (fl_study_options){0});
    make_up(s, 0, (const double[]){0.25, 0.5}, 2);
    assert_ok(f->ctx, fl_study_write(s));
    char *csv = read_whole(fixture_path(f, "out/results.csv"), NULL);
    for (size_t i = 0; i < 4; i++) {
        snprintf(want, sizeof want, "\n\"'%s %zu\",", formulas[i], i);
        if (!strstr(csv, want)) fail_msg("%s is a formula in results.csv", formulas[i]);
    }
    assert_non_null(strstr(csv, "\n\"<b>*x*</b> [y](z) & _w_ `q`\",\"\",1,1,0,0.5,0,0.5,0,"));
    free(csv);
    char *md = read_whole(fixture_path(f, "out/results.md"), NULL);
    assert_non_null(strstr(md, "| &lt;b>\\*x\\*&lt;/b> \\[y\\](z) &amp; \\_w\\_ \\`q\\` | 1 | 50.00 |"));
    free(md);
    fl_study_free(s);
    assert_fails(f->ctx,
                 study_try(f, PROBLEM "methods: [{label: \"a\\u009bb\", algorithm: fedavg}]\n", "out",
                           (fl_study_options){0}, &s),
                 FL_ECONFIG, "a label may not hold control characters");
}

/* Every broken method is reported, and what they have in common once. */
static void all_mistakes(void **state)
{
    fixture *f = *state;
    fl_study *s;
    assert_int_equal(study_try(f,
                               PROBLEM "stop: {diverged: -3}\nmethods:\n- {label: a, algorithm: {kind: fedavg, x: 1}}\n"
                                       "- {label: b, algorithm: fedprox}\n- {label: c, algorithm: magic}\n",
                               "out", (fl_study_options){0}, &s),
                     FL_ECONFIG);
    const char *said = fl_ctx_error(f->ctx), *common = strstr(said, "stop.diverged is -3");
    assert_non_null(common);
    assert_null(strstr(common + 1, "stop.diverged is -3"));
    assert_non_null(strstr(said, "algorithm.x is not a key\n"));
    assert_non_null(strstr(said, "\n(this is the method labelled a)\n"));
    assert_null(strstr(said, "labelled b"));
    assert_non_null(strstr(said, "algorithm.kind is magic, which is not known"));
    assert_non_null(strstr(said, "\n(this is the method labelled c)"));
}

/* What is written goes into the folder, whatever links are there. */
static void links_are_not_followed(void **state)
{
    fixture *f = *state;
    char victim[200];
    snprintf(victim, sizeof victim, "%s", fixture_write(f, "victim", "precious"));
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_int_equal(mkdir(fixture_path(f, "out"), 0777), 0);
    assert_int_equal(symlink(victim, fixture_path(f, "out/results.csv.tmp")), 0);
    assert_int_equal(symlink(victim, fixture_path(f, "out/manifest.json.tmp")), 0);
    assert_int_equal(symlink(victim, fixture_path(f, "out/results.md")), 0);
    assert_fails(f->ctx, fl_study_write(s), FL_EIO, "results.md: was not written by fedloom");
    unlink(fixture_path(f, "out/results.md"));
    assert_ok(f->ctx, fl_study_write(s));
    char *text = read_whole(victim, NULL), *csv = read_whole(fixture_path(f, "out/results.csv"), NULL);
    assert_string_equal(text, "precious");
    assert_non_null(strstr(csv, "FedAvg"));
    struct stat st;
    assert_true(!lstat(fixture_path(f, "out/results.md"), &st) && S_ISREG(st.st_mode));
    assert_true(lstat(fixture_path(f, "out/results.csv.tmp"), &st) && errno == ENOENT);
    free(text);
    free(csv);
    fl_study_free(s);
}

/* Memory goes with the number of methods, not with that of their pairs: these would take more than a gigabyte. */
static void many_methods(void **state)
{
    enum { METHODS = 3000, LINE = 160 };
    fixture *f = *state;
    struct rusage before, after;
    char *yaml = malloc(METHODS * LINE + 1000), *p = yaml;
    p += sprintf(p, PROBLEM "methods:\n");
    for (int i = 0; i < METHODS; i++) p += sprintf(p, "- {label: 'method %0100d', algorithm: fedavg}\n", i);
    getrusage(RUSAGE_SELF, &before);
    fl_study *s = study_new(f, yaml, "out", (fl_study_options){0});
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(s->x.count, METHODS);
    assert_true(after.ru_maxrss - before.ru_maxrss < 600 * 1024);
    fl_study_free(s);
    sprintf(p, "- {label: 'Method  %0100d', algorithm: fedavg}\n", 7);
    assert_fails(f->ctx, study_try(f, yaml, "out", (fl_study_options){0}, &s), FL_ECONFIG,
                 "e.yaml:3002:3: another method has this label");
    free(yaml);
}

/* The settings of a grid: most accurate, least loss without accuracy, failures and nothing at all behind. */
static void the_best_setting(void **state)
{
    fixture *f = *state;
    fli_arena a;
    fli_summary *rows;
    size_t n;
    fl_study *s =
        study_new(f, PROBLEM "grid: {local.lr: [1, 2, 3, 4]}\nmethods: [{algorithm: fedavg}, {algorithm: scaffold}]\n",
                  "out", (fl_study_options){0});
    fli_arena_init(&a, f->ctx);
    make_up(s, 1, (const double[]){0.5}, 1);
    make_up(s, 2, (const double[]){0.7}, 1);
    make_up(s, 3, (const double[]){0.6}, 1);
    s->outcomes[4].state = FLI_TRIAL_FAILED; /* and nothing of 5 and 7 yet */
    make_up(s, 6, (const double[]){0.1}, 1);
    const fli_results of = fli_study_results(s);
    assert_ok(f->ctx, fli_results_summaries(&of, &a, &rows, &n));
    assert_int_equal(n, 8);
    for (size_t i = 0; i < n; i++) assert_int_equal(rows[i].best, i == 2 || i == 6);
    for (size_t i = 1; i < 4; i++) *metric(&s->outcomes[i].rows[0], "test_accuracy") = NAN;
    *metric(&s->outcomes[1].rows[0], "train_loss") = 0.01;
    assert_ok(f->ctx, fli_results_summaries(&of, &a, &rows, &n));
    for (size_t i = 0; i < 4; i++) assert_int_equal(rows[i].best, i == 1);
    char *t = table_of(f->ctx, s);
    assert_non_null(strstr(t, "fedavg *"));
    assert_non_null(strstr(t, "lr=3"));
    free(t);
    fli_arena_fini(&a);
    fl_study_free(s);
}

/* ---- what is run --------------------------------------------------------------------------------------- */

/* Every run of a comparison is the run one would have had alone. */
static void runs_are_plain_runs(void **state)
{
    fixture *f = *state;
    fl_study *s = study_done(f, PROBLEM "seed: 7\nseeds: 2\n" TWO, "out", (fl_study_options){.jobs = 2});
    assert_int_equal(done_of(s), 4);
    assert_int_equal(s->shared_count, 2); /* one set of data per seed */
    for (size_t i = 0; i < 4; i++) {
        fl_config *cfg = fixture_config(f, PROBLEM);
        fl_run *run = NULL;
        const fl_row *rows;
        assert_ok(f->ctx, fl_config_set(cfg, i / 2 ? "seed=8" : "seed=7"));
        assert_ok(f->ctx, fl_config_set(cfg, i % 2 ? "algorithm={kind: fedprox, mu: 0.1}" : "algorithm=fedavg"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_int_equal(fl_run_rows(run, &rows), s->outcomes[i].count);
        for (size_t k = 0; k < s->outcomes[i].count; k++) {
            assert_int_equal(fl_row_round(&rows[k]), fl_row_round(&s->outcomes[i].rows[k]));
            assert_true(fl_row_get(&rows[k], "train_loss") == fl_row_get(&s->outcomes[i].rows[k], "train_loss"));
            assert_true(fl_row_get(&rows[k], "test_accuracy") == fl_row_get(&s->outcomes[i].rows[k], "test_accuracy"));
        }
        fl_run_free(run);
        fl_config_free(cfg);
    }
    assert_int_equal(entries(fixture_path(f, "out/runs/fed-prox")), 2);
    assert_int_equal(entries(fixture_path(f, "out/runs/fedavg/seed-8")), 7);
    fl_study_free(s);
}

static void jobs_do_not_matter(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM "seeds: 3\ngrid: {local.lr: [0.05, 0.2]}\n" TWO;
    fl_study_free(study_done(f, yaml, "one", (fl_study_options){.jobs = 1}));
    fl_study_free(study_done(f, yaml, "four", (fl_study_options){.jobs = 4}));
    assert_same_csv(f, "one", "four");
}

static void one_method_or_none(void **state)
{
    fixture *f = *state;
    fl_study *s = study_done(f, PROBLEM "seeds: 2\nalgorithm: scaffold\n", "none", (fl_study_options){0});
    assert_int_equal(s->x.count, 2);
    assert_string_equal(s->x.methods[0].label, "scaffold");
    fl_study_free(s);
    s = study_done(f, PROBLEM "methods: [{label: one}]\n", "one", (fl_study_options){0}); /* fedavg by default */
    assert_int_equal(done_of(s), 1);
    assert_non_null(strstr(s->x.trials[0].config, "kind: fedavg"));
    fl_study_free(s);
    s = NULL;
    fl_config *cfg = fixture_config(f, PROBLEM);
    char put[200];
    snprintf(put, sizeof put, "output=%s/default", f->folder);
    assert_ok(f->ctx, fl_config_set(cfg, put));
    assert_ok(f->ctx, fl_study_new(cfg, NULL, &s)); /* no options are the default ones */
    assert_string_equal(fl_study_output(s), put + 7);
    fl_study_free(s);
    fl_config_free(cfg);
}

/* A method may change anything but what the experiment itself sets. */
static void methods_override(void **state)
{
    fixture *f = *state;
    fl_study *s = study_done(
        f,
        PROBLEM
        "seeds: 2\nalgorithm: {kind: fedprox, mu: 3}\nmethods:\n- {label: a}\n- {label: b, rounds: 3, local: {lr: "
        "0.5}}\n"
        "- {label: c, partition: {kind: iid, clients: 4}}\n- {label: d, data: {samples: 60}, algorithm: fedavg}\n"
        "- {label: e, precision: f64}\n",
        "out", (fl_study_options){.jobs = 3});
    assert_int_equal(done_of(s), 10);
    assert_int_equal(s->shared_count, 8); /* a and b share theirs; e's may be stored otherwise */
    assert_int_equal(s->outcomes[0].data, s->outcomes[1].data);
    assert_non_null(strstr(s->x.trials[0].config, "mu: 3"));
    assert_non_null(strstr(s->x.trials[1].config, "batch: 5"));
    assert_int_equal(fl_row_round(&s->outcomes[1].rows[s->outcomes[1].count - 1]), 3);
    assert_int_equal(s->x.trials[1].rounds, 3);
    assert_non_null(strstr(s->x.trials[3].config, "classes: 3"));
    for (size_t k = 0; k < s->shared_count; k++) assert_int_equal(s->shared[k].loaded, 0);
    fl_study_free(s);
}

static void grids_combine_all_values(void **state)
{
    fixture *f = *state;
    fl_study *s =
        study_new(f,
                  PROBLEM "model: {kind: mlp, hidden: [4]}\ngrid: {model.hidden: [[3], [4, 5]], local.lr: [0.1, 0.2]}\n"
                          "methods:\n- {label: a}\n- {label: b, grid: {local.lr: [0.3]}}\n"
                          "- {label: c, grid: {algorithm: [fedavg, {kind: fedprox, mu: 2}]}}\n",
                  "out", (fl_study_options){0});
    assert_int_equal(s->x.count, 4 + 2 + 8);
    assert_string_equal(s->x.trials[0].setting_text, "hidden=[3], lr=0.1");
    assert_string_equal(s->x.trials[1].setting_text, "hidden=[4, 5], lr=0.1");
    assert_non_null(strstr(s->x.trials[1].config, "hidden: [4, 5]"));
    assert_non_null(strstr(s->x.trials[3].config, "lr: 0.2\n"));
    assert_string_equal(s->x.trials[4].setting_text, "hidden=[3], lr=0.3");
    assert_string_equal(s->x.trials[13].setting_text, "hidden=[4, 5], lr=0.2, algorithm={kind: fedprox, mu: 2}");
    assert_non_null(strstr(s->x.trials[13].config, "mu: 2\n"));
    assert_string_equal(s->x.trials[1].folder + strlen(s->x.output), "/runs/a/hidden=-4-5-lr=0.1/seed-1");
    fl_study_free(s);
    /* values are taken as they are, not read a second time; keys that end alike are written out */
    s = study_new(f, PROBLEM "grid: {data.samples: ['90', 80], model.weight_decay: [0], local.lr: ['0.1']}\n", "out",
                  (fl_study_options){0});
    assert_string_equal(s->x.trials[1].setting_text, "samples=80, weight_decay=0, lr=0.1");
    fl_study_free(s);
    s = study_new(
        f,
        PROBLEM
        "partition: {kind: dirichlet, clients: 6, alpha: 1}\nalgorithm: feddyn\ngrid: {partition.alpha: [1, 2], "
        "algorithm.alpha: [1, 2]}\n",
        "out", (fl_study_options){0});
    assert_string_equal(s->x.trials[1].setting_text, "partition.alpha=2, algorithm.alpha=1");
    fl_study_free(s);
}

/* Settings one by one instead of every combination. */
static void points_are_taken_one_by_one(void **state)
{
    fixture *f = *state;
    fl_study *s = study_new(f,
                            PROBLEM "points: [{local.lr: 0.3}, {}]\n"
                                    "methods:\n- {label: a}\n- {label: b, algorithm: fedprox, "
                                    "points: [{local.lr: 0.2, algorithm.mu: 3}]}\n",
                            "out", (fl_study_options){0});
    assert_int_equal(s->x.count, 2 + 1);
    assert_string_equal(s->x.trials[0].setting_text, "lr=0.3");
    assert_non_null(strstr(s->x.trials[0].config, "lr: 0.3\n"));
    assert_string_equal(s->x.trials[1].setting_text, "");
    assert_non_null(strstr(s->x.trials[1].config, "lr: 0.1\n"));
    assert_string_equal(s->x.trials[1].folder + strlen(s->x.output), "/runs/a/seed-1");
    assert_string_equal(s->x.trials[2].setting_text, "lr=0.2, mu=3");
    assert_non_null(strstr(s->x.trials[2].config, "mu: 3\n"));
    fl_study_free(s);
}

/* No label leaves the folder of the comparison, collides or is too long for a file system. */
static void no_label_leaves_the_folder(void **state)
{
    fixture *f = *state;
    char yaml[4096] = PROBLEM "rounds: 0\nmethods:\n", longer[400];
    static const char *const labels[] = {"../../../etc", "/abs/olute", "..",     "日本",
                                         "中国",         ".hidden",    "a/../b", "-rf"};
    memset(longer, 'n', sizeof longer);
    longer[399] = 0;
    for (size_t i = 0; i < 8; i++) sprintf(yaml + strlen(yaml), "- {label: '%s'}\n", labels[i]);
    sprintf(yaml + strlen(yaml), "- {label: '%sa'}\n- {label: '%sb'}\n", longer, longer);
    fl_study *s = study_done(f, yaml, "out", (fl_study_options){.jobs = 1});
    assert_int_equal(done_of(s), 10);
    assert_int_equal(entries(f->folder), 4); /* problem.yaml, e.yaml, out and its lock */
    assert_int_equal(entries(fixture_path(f, "out/runs")), 10);
    assert_int_equal(entries(fixture_path(f, "out/runs/日本/seed-1")), 7);
    assert_int_equal(entries(fixture_path(f, "out/runs/etc/seed-1")) +
                         entries(fixture_path(f, "out/runs/-..-etc/seed-1")) +
                         entries(fixture_path(f, "out/runs/-..-..-etc/seed-1")),
                     7);
    fl_study_free(s);
}

static void regressions_show_no_accuracy(void **state)
{
    fixture *f = *state;
    fl_study *s = study_done(f, REGRESS "seeds: 3\nmetrics: {gradient: true}\n" TWO, "out", (fl_study_options){0});
    char *t = table_of(f->ctx, s), *csv = csv_of(f, "out");
    assert_int_equal(done_of(s), 6);
    assert_null(strstr(t, "accuracy"));
    assert_non_null(strstr(t, "train loss"));
    assert_non_null(strstr(csv, "\"FedAvg\",\"\",1,3,0,,,"));
    assert_string_equal(fl_study_quantity(s, 1, 0), "train-loss");
    for (size_t k = 0; fl_study_quantity(s, 1, k); k++) assert_null(strstr(fl_study_quantity(s, 1, k), "accuracy"));
    free(t);
    free(csv);
    fl_study_free(s);
}

static void data_on_demand(void **state)
{
    fixture *f = *state;
    const char *yaml =
        "rounds: 3\nmodel: softmax\nparticipation: {kind: uniform, count: 3}\nlocal: {batch: 10}\nseeds: 2\n"
        "data: {kind: synthetic, on_demand: true, clients: 5, features: 4, classes: 3, sizes: fixed, size: 12}\n" TWO;
    fl_study_free(study_done(f, yaml, "one", (fl_study_options){.jobs = 1}));
    fl_study *s = study_done(f, yaml, "many", (fl_study_options){.jobs = 4});
    assert_int_equal(done_of(s), 4);
    assert_int_equal(s->histogram.clients, 5);
    size_t sum = 0;
    for (size_t i = 0; i < 15; i++) sum += s->histogram.count[i];
    assert_int_equal(sum, 60);
    fl_study_free(s);
    assert_same_csv(f, "one", "many");
}

/* ---- observers, stopping, memory ----------------------------------------------------------------------- */

static void observers_see_every_round(void **state)
{
    fixture *f = *state;
    for (size_t jobs = 1; jobs < 5; jobs += 3) {
        witness w = {
            .s = study_new(f, PROBLEM "seeds: 4\n" TWO, jobs == 1 ? "a" : "b", (fl_study_options){.jobs = jobs})};
        assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
        assert_int_equal(w.bad, 0);
        assert_int_equal(w.calls, 8 * (7 + 1)); /* rounds 0 to 6, and the end of every run */
        assert_int_equal(w.errors, 0);
        assert_near(w.fraction, 1, 0);
        if (jobs == 1) assert_int_equal(w.most_loaded, 1); /* a seed's data go before the next one's come */
        fl_study_free(w.s);
    }
}

/* What results.json says ended the comparison. */
static void assert_stopped_by(fixture *f, const char *name, const char *why)
{
    char path[64], want[64];
    snprintf(path, sizeof path, "%s/results.json", name);
    snprintf(want, sizeof want, "  \"stopped_by\": \"%s\",\n", why);
    char *text = read_whole(fixture_path(f, path), NULL);
    if (!strstr(text, want)) fail_msg("%s: %.200s", name, text);
    free(text);
}

/* Stopped after any number of steps and taken up again, it ends with the same bytes. */
static void stopped_and_resumed(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM "seeds: 2\nlocal: {momentum: 0.5}\n" TWO;
    fl_study_free(study_done(f, yaml, "whole", (fl_study_options){.jobs = 1}));
    assert_stopped_by(f, "whole", "runs");
    static const size_t at[] = {1, 4, 8, 13, 25, 30};
    for (size_t i = 0; i < 6; i++)
        for (size_t jobs = 1; jobs < 4; jobs += 2) {
            char name[32];
            snprintf(name, sizeof name, "part-%zu-%zu", i, jobs);
            witness w = {.s = study_new(f, yaml, name, (fl_study_options){.jobs = jobs}), .stop_at = at[i]};
            assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
            size_t done = done_of(w.s);
            if (jobs == 1) assert_int_equal(done, at[i] / 8); /* seven rows and an end each */
            for (size_t k = 0; k < 4; k++)
                assert_true(w.s->outcomes[k].state == FLI_TRIAL_DONE || !w.s->outcomes[k].count);
            assert_ok(f->ctx, fl_study_write(w.s)); /* the table so far */
            assert_stopped_by(f, name, done < 4 ? "asked" : "runs");
            if (i % 2) assert_ok(f->ctx, fl_study_go(w.s, NULL, NULL)); /* by the same study, or below by another */
            fl_study_free(w.s);
            fl_study *again = study_new(f, yaml, name, (fl_study_options){.jobs = jobs});
            assert_int_equal(done_of(again), i % 2 ? 4 : done);
            assert_ok(f->ctx, fl_study_write(again)); /* what it has not run is open, and nobody stopped it */
            assert_stopped_by(f, name, i % 2 || done == 4 ? "runs" : "not finished");
            fl_study_free(again);
            fl_study_free(study_done(f, yaml, name, (fl_study_options){.jobs = jobs}));
            assert_same_csv(f, "whole", name);
        }
}

static void *stop_soon(void *arg)
{
    usleep(20000);
    fl_study_stop(arg);
    return NULL;
}

static void stopped_from_elsewhere(void **state)
{
    fixture *f = *state;
    pthread_t thread;
    fl_study *s = study_new(f, PROBLEM "rounds: 100000000\nmetrics: {every: 100000}\nseeds: 3\n" TWO, "out",
                            (fl_study_options){.jobs = 2});
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, s), 0);
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    pthread_join(thread, NULL);
    assert_int_equal(done_of(s), 0);
    assert_int_equal(entries(fixture_path(f, "out/runs/fedavg")), 0); /* nothing half-written */
    fl_study_stop(s);                                                 /* before it starts: nothing does */
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    fl_study_free(s);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

static void one_that_diverges(void **state)
{
    fixture *f = *state;
    const char *yaml = REGRESS
        "seeds: 2\nmethods:\n- {label: good}\n- {label: bad, local: {lr: 1e200}}\n- {label: fine, local: {lr: 0.01}}\n";
    witness w = {.s = study_new(f, yaml, "out", (fl_study_options){.jobs = 2})};
    for (int again = 0; again < 2; again++) { /* what failed is tried again */
        w.fraction = 0;
        w.errors = 0;
        assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
        assert_int_equal(w.bad, 0);
        assert_int_equal(w.errors, 2);
        assert_int_equal(done_of(w.s), 4);
        assert_non_null(strstr(w.error, "bad: "));
        assert_non_null(strstr(w.error, "no longer finite"));
    }
    assert_ok(f->ctx, fl_study_write(w.s));
    char *t = table_of(f->ctx, w.s), *csv = csv_of(f, "out");
    assert_non_null(strstr(t, "0, 2 failed"));
    assert_non_null(strstr(csv, "\"bad\",\"\",1,0,2,,,"));
    free(t);
    free(csv);
    fl_study_free(w.s);
    assert_int_equal(entries(fixture_path(f, "out/runs/bad")), 2); /* the metrics of each, and nothing else */
    assert_int_equal(access(fixture_path(f, "out/runs/bad/seed-1.unfinished.csv"), F_OK), 0);
    fl_study *s = study_done(f, REGRESS "seeds: 2\nlocal: {lr: 1e200}\n" TWO, "all", (fl_study_options){0});
    assert_int_equal(done_of(s), 0); /* a table of nothing is still a table */
    assert_null(fl_study_quantity(s, 1, 0));
    fl_study_free(s);
}

static void data_that_are_not_there(void **state)
{
    fixture *f = *state;
    witness w = {
        .s = study_new(
            f, "data: {kind: csv, train: /nowhere/x.csv}\npartition: {kind: iid, clients: 2}\nmodel: softmax\n" TWO,
            "out", (fl_study_options){.jobs = 2})};
    assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
    assert_int_equal(w.errors, 2); /* each says why */
    assert_non_null(strstr(w.error, "/nowhere/x.csv"));
    assert_ok(f->ctx, fl_study_write(w.s));
    fl_study_free(w.s);
}

static void places_that_cannot_be_written(void **state)
{
    fixture *f = *state;
    fixture_write(f, "out", "a file\n");
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO, "the folder cannot be created");
    assert_fails(f->ctx, fl_study_write(s), FL_EIO, "the folder cannot be created");
    fl_study_free(s);
    s = study_new(f, PROBLEM TWO, "out/below", (fl_study_options){0});
    assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO, "the folder cannot be created");
    fl_study_free(s);
    mkdir(fixture_path(f, "taken"), 0777);
    mkdir(fixture_path(f, "taken/results.csv"), 0777);
    s = study_new(f, PROBLEM TWO, "taken", (fl_study_options){0});
    assert_fails(f->ctx, fl_study_write(s), FL_EIO, "taken/results.csv: was not written by fedloom");
    assert_int_equal(entries(fixture_path(f, "taken")), 1);
    fl_study_free(s);
}

/* ---- wrong experiments --------------------------------------------------------------------------------- */

static void wrong_experiments(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *yaml, *text;
    } wrong[] = {
        {"methods: []\n", "e.yaml:1:1: methods must be a list with at least one method"},
        {"methods: fedavg\n", "e.yaml:1:1: methods must be a list"},
        {"methods: [fedavg]\n", "e.yaml:1:11: a method must be a map"},
        {"methods: [{algorithm: fedvag}]\n", "e.yaml:1:12: algorithm.kind is fedvag"},
        {"methods: [{label: a, lr: 1}]\n", "e.yaml:1:22: lr is not a key"},
        {"methods: [{local: {lr: 1}}]\n", "e.yaml:1:11: a method needs a label or an algorithm"},
        {"methods: [{label: ''}]\n", "a method needs a label or an algorithm"},
        {"methods: [{label: \"a\\nb\"}]\n", "a label may not hold control characters"},
        {"methods: [{label: a}, {label: a}]\n", "e.yaml:1:23: another method has this label"},
        {"methods: [{label: a b}, {label: A/B}]\n", "e.yaml:1:25: another method has this label"},
        {"methods: [{label: a, seed: 2}]\n", "e.yaml:1:22: methods share this"},
        {"methods: [{label: a, seeds: 2}]\n", "methods share this"},
        {"methods: [{label: a, output: x}]\n", "methods share this"},
        {"methods: [{label: a, name: x}]\n", "methods share this"},
        {"methods: [{label: a, algorithm: fedpd}]\n", "needs every client in every round"},
        {"points: 3\n", "e.yaml:1:1: points must be a list of settings"},
        {"points: [3]\n", "e.yaml:1:10: a point must be a map"},
        {"points: [{seed: 3}]\n", "e.yaml:1:11: all runs share this; it cannot be in a point"},
        {"points: [{local.lr: 1}, {local.lr: 1}]\n", "e.yaml:1:1: two points are the same or too alike"},
        {"points: [{local.lr: 1}]\ngrid: {local.lr: [1]}\n", "e.yaml:1:1: a method has a grid or points, not both"},
        {"grid: 3\n", "e.yaml:1:1: grid must be a map"},
        {"grid: {local.lr: 3}\n", "e.yaml:1:8: a grid needs a list of values"},
        {"grid: {local.lr: []}\n", "a grid needs a list of values"},
        {"grid: {local.lr: [fast]}\n", "e.yaml:1:19: local.lr is fast, but must be a number > 0"},
        {"grid: {local.lr: [0.1, 0.1]}\n",
         "e.yaml:1:8: two combinations of the grid are the same or too alike: lr=0.1 and lr=0.1"},
        {"grid: {name: [a, b]}\n", "e.yaml:1:8: all runs share this"},
        {"grid: {seed: [1, 2]}\n", "all runs share this"},
        {"grid: {output: [1, 2]}\n", "all runs share this"},
        {"grid: {.lr: [1, 2]}\n", "a part of this key is empty"},
        {"grid: {local..lr: [1, 2]}\n", "a part of this key is empty"},
        {"grid: {a.b.c.d.e.f.g.h.i: [1, 2]}\n", "too many parts"},
        {"methods: [{label: a, grid: [1]}]\n", "e.yaml:1:22: grid must be a map"},
        {"seeds: 0\n", "e.yaml:1:1: seeds is 0"},
        {"seeds: many\n", "seeds is many"},
        {"seed: -1\n", "e.yaml:1:1: seed is -1"},
        {"seed: one\n", "seed is one"},
        {"seed: 9007199254740992\nseeds: 3\n", "seed is 9007199254740994"},
        {"name: [a]\n", "e.yaml:1:1: this must be a text"},
        {"output: [a]\n", "e.yaml:1:1: this must be a text"},
        {"ruonds: 3\n", "e.yaml:1:1: ruonds is not a key; did you mean rounds?"},
        {"needs: {what: X, files: a}\n", "e.yaml:1:18: needs.files must be a list of names"},
        {"needs: {what: X, files: [[a]]}\n", "needs.files must be a list of names"},
        {"seeds: 10000\ngrid: {local.lr: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}\n", "too many runs"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fl_study *s = NULL;
        char yaml[1024];
        snprintf(yaml, sizeof yaml, "%s%s", PROBLEM, wrong[i].yaml);
        fl_status status = study_try(f, yaml, "out", (fl_study_options){.data = f->folder}, &s);
        if (status != FL_ECONFIG || !strstr(fl_ctx_error(f->ctx), wrong[i].text))
            fail_msg("%s: status %d: \"%s\" lacks \"%s\"", wrong[i].yaml, (int)status, fl_ctx_error(f->ctx),
                     wrong[i].text);
        assert_null(s);
    }
    fl_study *s = NULL;
    static const size_t seeds[] = {100001, SIZE_MAX, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < 3; i++)
        assert_fails(f->ctx, study_try(f, PROBLEM TWO, "out", (fl_study_options){.seeds = seeds[i]}, &s), FL_ECONFIG,
                     "too many runs");
    assert_int_equal(entries(f->folder), 2); /* nothing is written before everything is checked */
}

typedef struct {
    char text[2048];
} log_seen;

static void listen(void *arg, fl_log_level level, const char *line)
{
    log_seen *h = arg;
    size_t used = strlen(h->text);
    (void)level;
    snprintf(h->text + used, sizeof h->text - used, "%s\n", line);
}

/* A key of `algorithm` for all methods: those that have it take it, those that have not are named once. */
static void keys_of_some_methods(void **state)
{
    fixture *f = *state;
    static const char yaml[] =
        PROBLEM "algorithm: scaffold\nseeds: 2\nmethods: [{label: A, algorithm: fedavg}, {label: B, "
                "algorithm: fedprox}, {label: C, algorithm: {kind: fedprox, mu: 0.5}}]\n";
    log_seen h = {""};
    fl_study *s = NULL;
    fl_study_options o = {.size = sizeof o, .output = f->folder};
    fl_config *cfg = config_of(f, yaml);
    fl_ctx_on_log(f->ctx, listen, &h);
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm.mu=0.25"));
    assert_ok(f->ctx, fl_study_new(cfg, &o, &s));
    assert_string_equal(h.text,
                        "--set algorithm.mu=0.25: algorithm.mu holds for the methods that have it; these have not: A\n"
                        "--set algorithm.mu=0.25: algorithm.mu: these methods have a value of their own: C\n");
    for (size_t i = 0; i < 6; i += 3) {
        assert_null(strstr(s->x.trials[i].config, "mu: "));
        assert_non_null(strstr(s->x.trials[i + 1].config, "mu: 0.25\n"));
        assert_non_null(strstr(s->x.trials[i + 2].config, "mu: 0.5\n"));
    }
    fl_study_free(s);
    fl_config_free(cfg);
    cfg = config_of(f, yaml);
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm.nonsense=1"));
    assert_fails(f->ctx, fl_study_new(cfg, &o, &s), FL_ECONFIG,
                 "--set algorithm.nonsense=1: algorithm.nonsense is not a key of any method that is compared");
    fl_config_free(cfg);
    /* the same for a section of a file that names no method */
    h.text[0] = 0;
    s = study_new(
        f, PROBLEM "algorithm: {mu: 0.75}\nmethods: [{label: A, algorithm: fedavg}, {label: B, algorithm: fedprox}]\n",
        "out", (fl_study_options){0});
    assert_non_null(strstr(h.text, "e.yaml:1:13: algorithm.mu holds for the methods that have it; these have not: A"));
    assert_non_null(strstr(s->x.trials[1].config, "mu: 0.75\n"));
    fl_study_free(s);
    fl_ctx_on_log(f->ctx, NULL, NULL);
}

static void wrong_quick(void **state)
{
    fixture *f = *state;
    fl_study *s = NULL;
    assert_fails(f->ctx, study_try(f, PROBLEM "quick: 3\n", "out", (fl_study_options){.quick = 1}, &s), FL_ECONFIG,
                 "e.yaml:1:1: quick must be a map");
    const char *yaml =
        PROBLEM "seeds: 3\nquick: {rounds: 2, seeds: 1, local: {lr: 0.3}, methods: [{label: only}]}\n" TWO;
    s = study_new(f, yaml, "out", (fl_study_options){.quick = 1});
    assert_int_equal(s->x.count, 1);
    assert_int_equal(s->x.trials[0].rounds, 2);
    assert_non_null(strstr(s->x.trials[0].config, "lr: 0.3\n"));
    assert_non_null(strstr(s->x.trials[0].config, "batch: 5\n"));
    fl_study_free(s);
    s = study_new(f, yaml, "out", (fl_study_options){0});
    assert_int_equal(s->x.count, 6);
    fl_study_free(s);
    fl_config *cfg = fixture_config(f, PROBLEM "name: A Name\n");
    assert_ok(f->ctx, fl_study_new(cfg, &(fl_study_options){.size = sizeof(fl_study_options), .quick = 1}, &s));
    assert_string_equal(fl_study_output(s), "results/a-name-quick"); /* not among the real results */
    fl_study_free(s);
    assert_ok(f->ctx, fl_study_new(cfg, NULL, &s));
    assert_string_equal(fl_study_output(s), "results/a-name");
    fl_study_free(s);
    fl_config_free(cfg);
}

static void data_folder(void **state)
{
    fixture *f = *state;
    fl_study *s = NULL;
    char text[512];
    const char *needs = PROBLEM "needs: {what: MNIST, files: [m/a, m/b], published: 'http://there/'}\n";
    const char *uses = PROBLEM "data: {kind: csv, train: '${data}/x.csv'}\n";
    unsetenv("FEDLOOM_DATA");
    assert_fails(f->ctx, study_try(f, needs, "out", (fl_study_options){0}, &s), FL_ECONFIG,
                 "MNIST is needed; give the folder with the data sets by --data DIR or FEDLOOM_DATA; wanted (plain, "
                 ".gz or .xz):\n  DIR/m/a\n  DIR/m/b\npublished at http://there/");
    assert_fails(f->ctx, study_try(f, uses, "out", (fl_study_options){0}, &s), FL_ECONFIG,
                 "${data} stands for the folder");
    assert_int_equal(setenv("FEDLOOM_DATA", "", 1), 0);
    assert_fails(f->ctx, study_try(f, uses, "out", (fl_study_options){0}, &s), FL_ECONFIG,
                 "${data} stands for the folder");
    setenv("FEDLOOM_DATA", "/elsewhere", 1);
    assert_fails(f->ctx, study_try(f, needs, "out", (fl_study_options){0}, &s), FL_EIO, "/elsewhere/m/a");
    mkdir(fixture_path(f, "m"), 0777);
    fixture_write(f, "m/a.gz", "");
    snprintf(text, sizeof text,
             "MNIST was not found; wanted (plain, .gz or .xz):\n  %s/m/b\npublished at http://there/", f->folder);
    assert_fails(f->ctx, study_try(f, needs, "out", (fl_study_options){.data = f->folder}, &s), FL_EIO, text);
    fixture_write(f, "m/b", "");
    s = study_new(f, needs, "out", (fl_study_options){.data = f->folder});
    fl_study_free(s);
    s = study_new(f, uses, "out", (fl_study_options){.data = f->folder});
    snprintf(text, sizeof text, "%s/x.csv", f->folder);
    assert_non_null(strstr(s->x.trials[0].config, text));
    fl_study_free(s);
    unsetenv("FEDLOOM_DATA");
}

/* ---- the paper, plots, event files --------------------------------------------------------------------- */

static char *paper_of(fixture *f, const char *paper, fl_status want)
{
    collected c = {0};
    char yaml[1024];
    snprintf(yaml, sizeof yaml, "%s%s", PROBLEM "seeds: 2\n" TWO, paper);
    fl_study *s = study_new(f, yaml, "out", (fl_study_options){0});
    make_up(s, 0, (const double[]){0.25, 0.5}, 2);
    make_up(s, 2, (const double[]){0.25, 0.75}, 2);
    fl_status status = fl_study_paper(s, collect_text, &c);
    if (status != want) fail_msg("%s: status %d: %s", paper, (int)status, fl_ctx_error(f->ctx));
    fl_study_free(s);
    return c.s;
}

static void a_papers_figures_stand_beside_ours(void **state)
{
    fixture *f = *state;
    char *t = paper_of(
        f,
        "paper:\n  source: Table 1\n  figures:\n    FedAvg: {accuracy: 61 ± 2, to 0.5: 11, to x: 1, colour: red}\n"
        "    FedOther: {accuracy: 3, seconds: 4}\n",
        FL_OK);
    assert_non_null(strstr(t, "Table 1: ours"));
    assert_non_null(strstr(t, "62.50 ± 17.68"));
    assert_non_null(strstr(t, "61 ± 2"));
    assert_non_null(strstr(t, "Fed Prox")); /* the paper has no figures of it */
    assert_non_null(strstr(t, "red"));
    assert_non_null(strstr(t, "in the paper, but no method here: FedOther"));
    free(t);
    assert_null(paper_of(f, "", FL_ECONFIG));
    assert_non_null(strstr(fl_ctx_error(f->ctx), "no paper.figures"));
    assert_null(paper_of(f, "paper: nothing\n", FL_ECONFIG));
    assert_null(paper_of(f, "paper: {figures: [1]}\n", FL_ECONFIG));
    free(paper_of(f, "paper: {figures: {}}\n", FL_OK));
    free(paper_of(f, "paper: {source: [1], figures: {FedAvg: 3, Fed Prox: {accuracy: [1], loss: ''}}}\n", FL_OK));
}

static void every_measured_quantity_can_be_plotted(void **state)
{
    fixture *f = *state;
    collected c = {0};
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_null(fl_study_quantity(s, 1, 0));
    assert_fails(f->ctx, fl_study_plot(s, "rounds", "test-accuracy", collect_text, &c), FL_ECONFIG, "was not measured");
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    assert_string_equal(fl_study_quantity(s, 0, 0), "rounds");
    assert_string_equal(fl_study_quantity(s, 0, 3), "communications");
    assert_null(fl_study_quantity(s, 0, 4));
    size_t n = 0;
    for (const char *y; (y = fl_study_quantity(s, 1, n)); n++) {
        assert_string_not_equal(y, "gradient");
        assert_ok(f->ctx, fl_study_plot(s, "bytes", y, collect_text, &c));
        assert_non_null(strstr(c.s, "</svg>"));
        free(c.s);
        c = (collected){0};
    }
    assert_true(n >= 3);
    assert_fails(f->ctx, fl_study_plot(s, "simulated", "test-accuracy", collect_text, &c), FL_ECONFIG,
                 "simulated was not measured in this comparison");
    assert_fails(f->ctx, fl_study_plot(s, "rounds", "gradient", collect_text, &c), FL_ECONFIG,
                 "gradient was not measured");
    assert_fails(f->ctx, fl_study_plot(s, "rounds", "beauty", collect_text, &c), FL_ECONFIG,
                 "beauty cannot be on the y axis");
    assert_fails(f->ctx, fl_study_plot(s, "years", "gradient", collect_text, &c), FL_ECONFIG,
                 "years cannot be on the x axis");
    assert_null(c.s);
    fl_study_free(s);
}

static void event_files(void **state)
{
    fixture *f = *state;
    char folder[128];
    mkdir(fixture_path(f, "runs"), 0777); /* an output folder whose own path has a runs/ in it */
    fl_study_free(study_done(f, PROBLEM "methods: [{label: FedAvg}]\n", "runs/out", (fl_study_options){0}));
    snprintf(folder, sizeof folder, "%s/board", f->folder);
    fl_study_options o = {.size = sizeof o, .tensorboard = folder};
    fl_study *s = study_new(f, PROBLEM TWO, "runs/out", o);
    memset(folder, 'x', strlen(folder)); /* the caller's text was copied */
    assert_int_equal(done_of(s), 1);
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    fl_study_free(s);
    assert_int_equal(entries(fixture_path(f, "board/fedavg/seed-1")), 1); /* also of what was taken over */
    assert_int_equal(entries(fixture_path(f, "board/fed-prox/seed-1")), 1);
}

static void a_comparison_can_be_watched(void **state)
{
    fixture *f = *state;
    uint16_t port = 0;
    fl_study *s = study_new(f, PROBLEM "seeds: 2\n" TWO, "out", (fl_study_options){.jobs = 2});
    assert_ok(f->ctx, fl_study_watch(s, &port));
    assert_true(port > 0);
    assert_fails(f->ctx, fl_study_watch(s, &port), FL_ECONFIG, "watched already");
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    fl_study_free(s);
}

/* ---- out of memory ------------------------------------------------------------------------------------- */

static fl_status everything(fixture *f)
{
    collected c = {0};
    char folder[200];
    fl_study *s = NULL;
    snprintf(folder, sizeof folder, "%s/out", f->folder);
    fl_config *cfg = fl_config_new(f->ctx);
    fl_status status = cfg ? fl_config_load(cfg, fixture_path(f, "problem.yaml")) : FL_ENOMEM;
    if (!status) status = fl_config_load(cfg, fixture_path(f, "e.yaml"));
    if (!status)
        status = fl_study_new(
            cfg, &(fl_study_options){.size = sizeof(fl_study_options), .output = folder, .tensorboard = folder}, &s);
    if (!status) status = fl_study_table(s, collect_text, &c);
    if (!status) status = fl_study_paper(s, collect_text, &c);
    if (!status) status = fl_study_plot(s, "rounds", "test-accuracy", collect_text, &c);
    if (!status) status = fl_study_write(s);
    free(c.s);
    fl_study_free(s);
    fl_config_free(cfg);
    return status;
}

/* Every allocation fails in turn; with all runs there, so that everything happens on one thread. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM
        "rounds: 1\ngrid: {local.lr: [0.1, 0.2]}\npaper: {figures: {a: {accuracy: 1}}}\nmethods: [{label: a}]\n";
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){0}));
    for (size_t k = 1, fine = 0; fine < 300;
         k++) { /* a report without its histogram is still a report: not the end yet */
        assert_true(k < 10000);
        fli_clear(f->ctx);
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status status = everything(f);
        fli_ctx_fail_alloc(f->ctx, 0);
        fine = status ? 0 : fine + 1;
        if (status && (status != FL_ENOMEM || !strstr(fl_ctx_error(f->ctx), "out of memory")))
            fail_msg("allocation %zu: status %d (%s)", k, (int)status, fl_ctx_error(f->ctx));
    }
    assert_ok(f->ctx, everything(f));
}

/* Options whose size was not set might be anything. */
static void wants_sized_options(void **state)
{
    fixture *f = *state;
    fl_config *cfg = config_of(f, PROBLEM TWO);
    fl_study_options o = {.output = f->folder};
    fl_tune_options tuning = {.size = sizeof tuning, .study = &o};
    fl_study *s = NULL;
    fl_tune *t = NULL;
    size_t left;
    assert_fails(f->ctx, fl_study_new(cfg, &o, &s), FL_ECONFIG, "fl_study_options.size is 0");
    assert_fails(f->ctx, fl_study_check(cfg, &o, collect_text, NULL, NULL, NULL, &left), FL_ECONFIG,
                 "fl_study_options.size is 0");
    assert_fails(f->ctx, fl_tune_new(cfg, &tuning, &t), FL_ECONFIG, "fl_study_options.size is 0");
    o.size = sizeof o;
    tuning.size = 0;
    assert_fails(f->ctx, fl_tune_new(cfg, &tuning, &t), FL_ECONFIG, "fl_tune_options.size is 0");
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(summaries_average_over_seeds),
        FIXTURE_TEST(numbers_behind_the_table),
        FIXTURE_TEST(report_stays_the_same),
        FIXTURE_TEST(knows_how_uneven_clients_are),
        FIXTURE_TEST(clock_and_own_models),
        FIXTURE_TEST(result_files_agree),
        FIXTURE_TEST(labels_stay_text),
        FIXTURE_TEST(all_mistakes),
        FIXTURE_TEST(links_are_not_followed),
        FIXTURE_TEST(many_methods),
        FIXTURE_TEST(the_best_setting),
        FIXTURE_TEST(runs_are_plain_runs),
        FIXTURE_TEST(jobs_do_not_matter),
        FIXTURE_TEST(one_method_or_none),
        FIXTURE_TEST(methods_override),
        FIXTURE_TEST(grids_combine_all_values),
        FIXTURE_TEST(points_are_taken_one_by_one),
        FIXTURE_TEST(no_label_leaves_the_folder),
        FIXTURE_TEST(regressions_show_no_accuracy),
        FIXTURE_TEST(data_on_demand),
        FIXTURE_TEST(observers_see_every_round),
        FIXTURE_TEST(stopped_and_resumed),
        FIXTURE_TEST(stopped_from_elsewhere),
        FIXTURE_TEST(one_that_diverges),
        FIXTURE_TEST(data_that_are_not_there),
        FIXTURE_TEST(places_that_cannot_be_written),
        FIXTURE_TEST(wrong_experiments),
        FIXTURE_TEST(keys_of_some_methods),
        FIXTURE_TEST(wrong_quick),
        FIXTURE_TEST(data_folder),
        FIXTURE_TEST(a_papers_figures_stand_beside_ours),
        FIXTURE_TEST(every_measured_quantity_can_be_plotted),
        FIXTURE_TEST(event_files),
        FIXTURE_TEST(a_comparison_can_be_watched),
        FIXTURE_TEST(out_of_memory),
        FIXTURE_TEST(wants_sized_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
