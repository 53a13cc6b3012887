/* Results that are there when a comparison begins: which of them count, which are made again, which stay whatever
 * happens. */
#include "studies.h"

#include "run/output.h"

#include <sys/stat.h>

static ino_t inode(fixture *f, const char *name)
{
    struct stat st;
    return stat(fixture_path(f, name), &st) ? 0 : st.st_ino;
}

static void more_seeds_later(void **state)
{
    fixture *f = *state;
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){.seeds = 2}));
    ino_t before = inode(f, "out/runs/fedavg/seed-2/model.safetensors");
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){.seeds = 4});
    assert_int_equal(done_of(s), 4);
    fl_study_free(s);
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){.seeds = 4}));
    assert_true(before && inode(f, "out/runs/fedavg/seed-2/model.safetensors") == before);
    fl_study_free(study_done(f, PROBLEM TWO, "fresh", (fl_study_options){.seeds = 4}));
    assert_same_csv(f, "out", "fresh");
    s = study_done(f, PROBLEM TWO, "out",
                   (fl_study_options){.seeds = 1}); /* fewer: the others stay, and do not count */
    assert_int_equal(done_of(s), 2);
    fl_study_free(s);
    assert_true(inode(f, "out/runs/fedavg/seed-2/model.safetensors") == before);
}

static void changed_settings(void **state)
{
    fixture *f = *state;
    static const char changed[] = PROBLEM "seeds: 2\nthreads: 2\nmethods:\n- {label: FedAvg, algorithm: fedavg}\n"
                                          "- {label: Fed Prox, algorithm: {kind: fedprox, mu: 0.2}}\n";
    fl_study_free(study_done(f, PROBLEM "seeds: 2\n" TWO, "out", (fl_study_options){0}));
    ino_t before = inode(f, "out/runs/fedavg/seed-1/config.yaml");
    fl_study *s = study_new(f, changed, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 2); /* threads change nothing, mu does */
    fl_study_free(s);
    s = study_new(f, changed, "out", (fl_study_options){0});
    assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO,
                 "out/runs/fed-prox/seed-1: is a finished run with other settings (2 such here)");
    fl_study_free(s);
    fl_study_free(study_done(f, changed, "out", (fl_study_options){.force = 1}));
    fl_study_free(study_done(f, changed, "fresh", (fl_study_options){0}));
    assert_same_csv(f, "out", "fresh");
    assert_true(inode(f, "out/runs/fedavg/seed-1/config.yaml") == before);
    char *config = read_whole(fixture_path(f, "out/runs/fed-prox/seed-1/config.yaml"), NULL);
    assert_non_null(strstr(config, "mu: 0.2"));
    free(config);
    s = study_new(f, PROBLEM "seeds: 2\ndata: {samples: 91}\n" TWO, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 0);
    fl_study_free(s);
}

/* As if the files had been written as they are now. */
static void renew_manifest(fixture *f, const char *folder)
{
    static const char *const names[] = {"config.yaml", "metrics.csv", "metrics.jsonl", "clients.csv", "result.json"};
    fli_manifest old, new;
    char path[600];
    snprintf(path, sizeof path, "%s", fixture_path(f, folder));
    fli_manifest_init(&old, f->ctx);
    fli_manifest_init(&new, f->ctx);
    assert_ok(f->ctx, fli_manifest_read(&old, path));
    new.has_data = 1;
    new.data = old.data;
    for (size_t i = 0; i < 5; i++) assert_ok(f->ctx, fli_manifest_add(&new, path, names[i]));
    assert_ok(f->ctx, fli_manifest_write(&new, path));
    fli_manifest_fini(&old);
    fli_manifest_fini(&new);
}

/* A result from before a key existed counts as made with the key's default; a key that is gone, or has another default
 * now, does not. */
static void results_from_before_a_key(void **state)
{
    fixture *f = *state;
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){0}));
    char *config = read_whole(fixture_path(f, "out/runs/fedavg/seed-1/config.yaml"), NULL), text[8192];
    char *line = strstr(config, "  max_clients: ");
    assert_non_null(line);
    snprintf(text, sizeof text, "%.*s%s", (int)(line - config), config, strchr(line, '\n') + 1);
    fixture_write(f, "out/runs/fedavg/seed-1/config.yaml", text);
    renew_manifest(f, "out/runs/fedavg/seed-1");
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 2);
    fl_study_free(s);
    s = study_new(f, PROBLEM "metrics: {max_clients: 5}\n" TWO, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 0);
    fl_study_free(s);
    snprintf(text, sizeof text, "%slong_gone: 1\n", config);
    fixture_write(f, "out/runs/fedavg/seed-1/config.yaml", text);
    renew_manifest(f, "out/runs/fedavg/seed-1");
    s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 1);
    fl_study_free(s);
    free(config);
}

/* Whatever is wrong with a result that is there, it is made again. */
static void broken_results(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM TWO;
    fl_study_free(study_done(f, yaml, "whole", (fl_study_options){0}));
    static const struct {
        const char *name, *text;
        int listed; /* its manifest tells of the file as it is, and it is nonsense all the same */
    } broken[] = {
        {"manifest.json", "", 0},
        {"manifest.json", "{\"fedloom\": \"" FL_VERSION "\", \"files\": []}", 0},
        {"metrics.jsonl", "", 0},
        {"metrics.jsonl", "", 1},
        {"metrics.jsonl", "{\"round\": 0}\n{\"round\": 2}\n{\"round\": 4\n", 1},
        {"metrics.jsonl", "{\"round\": 4}\n{\"round\": 2}\n", 1},
        {"metrics.jsonl", "{\"round\": 400}\n", 1},
        {"metrics.csv", "round\n", 0},
        {"clients.csv", "", 0},
        {"model.safetensors", "", 0},
        {"config.yaml", "", 0},
        {"result.json", "{}", 1},
        {"result.json", "{\n  \"stopped_by\": \"asked\",\n", 1},
        {"result.json", "{\"stopped_by\": \"asked\"}", 1},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char name[100];
        fl_study_free(study_done(f, yaml, "out", (fl_study_options){0}));
        snprintf(name, sizeof name, "out/runs/fedavg/seed-1/%s", broken[i].name);
        fixture_write(f, name, broken[i].text);
        if (broken[i].listed) renew_manifest(f, "out/runs/fedavg/seed-1");
        fl_study *s = study_new(f, yaml, "out", (fl_study_options){0});
        if (done_of(s) != 1) fail_msg("case %zu was taken over", i);
        fl_study_free(s);
        fl_study_free(study_done(f, yaml, "out", (fl_study_options){0}));
        assert_same_csv(f, "whole", "out");
    }
}

/* A small table on the disk, so that the data can change while the settings stay. */
static void write_table(fixture *f, double value)
{
    char text[2000] = "";
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "%d,%g,%d\n", i % 7, i == 20 ? value : (double)(i % 5) / 4, i % 3);
    fixture_write(f, "table.csv", text);
}

static void changed_data(void **state)
{
    fixture *f = *state;
    char yaml[400];
    struct stat before, after;
    snprintf(yaml, sizeof yaml,
             "rounds: 2\ndata: {kind: csv, train: %s/table.csv}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n"
             "methods: [{algorithm: fedavg}, {algorithm: scaffold}]\n",
             f->folder);
    write_table(f, 0.5);
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){0}));
    assert_int_equal(stat(fixture_path(f, "out/runs/fedavg/seed-1/result.json"), &before), 0);
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){0})); /* nothing has changed, nothing is run */
    assert_int_equal(stat(fixture_path(f, "out/runs/fedavg/seed-1/result.json"), &after), 0);
    assert_true(before.st_ino == after.st_ino);

    write_table(f, 0.75);
    fl_study *s = study_new(f, yaml, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 2); /* without loading data nobody can tell */
    assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO,
                 "out/runs/fedavg/seed-1: is a finished run from data that have changed since (2 such here)");
    assert_int_equal(done_of(s), 0);
    fl_study_free(s);
    fl_study_free(study_done(f, yaml, "out", (fl_study_options){.force = 1}));
    fl_study_free(study_done(f, yaml, "fresh", (fl_study_options){0}));
    assert_same_csv(f, "out", "fresh");

    unlink(fixture_path(f, "table.csv")); /* the table can still be printed */
    s = study_done(f, yaml, "out", (fl_study_options){0});
    assert_int_equal(done_of(s), 2);
    fl_study_free(s);
}

/* A run that was stopped half-way, finished meanwhile by another comparison, is taken over by the first. */
static void finished_by_another(void **state)
{
    fixture *f = *state;
    witness w = {.s = study_new(f, PROBLEM TWO, "out", (fl_study_options){.jobs = 1}), .stop_at = 3};
    assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
    assert_int_equal(done_of(w.s), 0);
    fli_output_claim_leave(&w.s->claim);
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){0}));
    assert_ok(f->ctx, fl_study_go(w.s, NULL, NULL));
    assert_int_equal(done_of(w.s), 2);
    fl_study_free(w.s);
}

/* What no comparison has written stays, whatever it is called. */
static void files_of_others(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"results.csv", "results.md", "results.json", "report.html", "manifest.json"};
    mkdir(fixture_path(f, "out"), 0777);
    for (size_t i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "out/%s", names[i]);
        fixture_write(f, path, "mine\n");
        fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){.force = 1});
        assert_fails(f->ctx, fl_study_go(s, NULL, NULL), FL_EIO, "was not written by fedloom");
        assert_fails(f->ctx, fl_study_write(s), FL_EIO, names[i]);
        assert_int_equal(entries(fixture_path(f, "out")), 1); /* and nothing was run */
        fl_study_free(s);
        char *text = read_whole(fixture_path(f, path), NULL);
        assert_string_equal(text, "mine\n");
        free(text);
        unlink(fixture_path(f, path));
    }
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){0}));
    fl_study_free(study_done(f, PROBLEM TWO, "out", (fl_study_options){0})); /* its own it renews */
    fixture_write(f, "out/results.csv", "edited by hand\n");
    fl_study *s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0});
    assert_fails(f->ctx, fl_study_write(s), FL_EIO, "results.csv: was not written by fedloom, or was changed since");
    fl_study_free(s);
}

/* kill -9 leaves a folder under another name. */
static void only_own_leftovers_are_removed(void **state)
{
    fixture *f = *state;
    mkdir(fixture_path(f, "out"), 0777);
    mkdir(fixture_path(f, "out/runs"), 0777);
    mkdir(fixture_path(f, "out/runs/fedavg"), 0777);
    mkdir(fixture_path(f, "out/runs/fedavg/seed-1.partial"), 0777);
    fixture_write(f, "out/runs/fedavg/seed-1.partial/config.yaml", "half\n");
    mkdir(fixture_path(f, "out/runs/fed-prox"), 0777);
    mkdir(fixture_path(f, "out/runs/fed-prox/seed-1"), 0777);
    fixture_write(f, "out/runs/fed-prox/seed-1/precious.txt", "mine\n");
    witness w = {.s = study_new(f, PROBLEM TWO, "out", (fl_study_options){0})};
    assert_ok(f->ctx, fl_study_go(w.s, watch, &w));
    assert_int_equal(done_of(w.s), 1);
    assert_non_null(strstr(w.error, "precious.txt")); /* what is not ours is not touched, and said */
    assert_int_equal(entries(fixture_path(f, "out/runs/fedavg")), 1);
    assert_int_equal(entries(fixture_path(f, "out/runs/fed-prox/seed-1")), 1);
    fl_study_free(w.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(more_seeds_later),
        FIXTURE_TEST(changed_settings),
        FIXTURE_TEST(results_from_before_a_key),
        FIXTURE_TEST(broken_results),
        FIXTURE_TEST(changed_data),
        FIXTURE_TEST(finished_by_another),
        FIXTURE_TEST(files_of_others),
        FIXTURE_TEST(only_own_leftovers_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
