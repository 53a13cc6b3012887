/* The folder a run leaves: every file of it, read back; complete or absent, whatever is in the way. */
#include "runs.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static fl_run *run_with_output(fixture *f, const char *name, const char *assignments)
{
    char text[512];
    snprintf(text, sizeof text, "output=%s/%s%s%s", f->folder, name, *assignments ? ";" : "", assignments);
    return run_done(f, SMALL, text);
}

static char *result_file(fixture *f, const char *name, size_t *size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/out/%s", f->folder, name);
    char *text = read_whole(path, size);
    if (!text) fail_msg("%s is missing", path);
    return text;
}

static size_t columns(void)
{
    size_t n = 0;
    while (fl_metric_at(n)) n++;
    return n;
}

/* A JSON object with exactly the row's columns and values; NaN is null. */
static void check_object(const json_t *o, const fl_row *row)
{
    assert_int_equal(json_object_size(o), columns());
    for (size_t c = 0; c < columns(); c++) {
        const json_t *v = json_object_get(o, fl_metric_at(c)->name);
        double want = row->value[c];
        if (isnan(want))
            assert_true(json_is_null(v));
        else
            assert_true(json_is_number(v) && json_number_value(v) == want);
    }
}

static void check_jsonl(fixture *f, const fl_run *run)
{
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows), i = 0;
    char *text = result_file(f, "metrics.jsonl", NULL), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), i++) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_true(i < n && json_is_object(o));
        check_object(o, &rows[i]);
        json_decref(o);
    }
    assert_int_equal(i, n);
    free(text);
}

static void check_csv(fixture *f, const fl_run *run)
{
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows);
    char *text = result_file(f, "metrics.csv", NULL), *p = text;
    for (size_t r = 0; r <= n; r++)
        for (size_t c = 0; c < columns(); c++) {
            size_t length = strcspn(p, ",\n");
            assert_int_equal(p[length], c + 1 < columns() ? ',' : '\n');
            p[length] = 0;
            double want = r ? rows[r - 1].value[c] : 0;
            if (!r)
                assert_string_equal(p, fl_metric_at(c)->name);
            else if (isnan(want))
                assert_string_equal(p, "");
            else
                assert_true(strtod(p, NULL) == want);
            p += length + 1;
        }
    assert_int_equal(*p, 0);
    free(text);
}

static void check_clients(fixture *f, size_t clients, size_t samples)
{
    char *text = result_file(f, "clients.csv", NULL), *save = NULL, *line = strtok_r(text, "\n", &save);
    size_t n = 0, total = 0, client, size;
    double loss, accuracy;
    assert_string_equal(line, "client,samples,train_loss,accuracy,own_accuracy,own_mix");
    while ((line = strtok_r(NULL, "\n", &save))) {
        assert_int_equal(sscanf(line, "%zu,%zu,%lf,%lf", &client, &size, &loss, &accuracy), 4);
        assert_int_equal(client, n++);
        assert_true(loss > 0 && accuracy >= 0 && accuracy <= 1);
        total += size;
    }
    assert_int_equal(n, clients);
    assert_int_equal(total, samples);
    free(text);
}

static void check_result_json(fixture *f, const fl_run *run, const char *name, const char *why)
{
    char *text = result_file(f, "result.json", NULL);
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "fedloom")), FL_VERSION);
    assert_string_equal(json_string_value(json_object_get(o, "name")), name);
    assert_string_equal(json_string_value(json_object_get(o, "algorithm")), fl_run_algorithm(run));
    assert_string_equal(json_string_value(json_object_get(o, "stopped_by")), why);
    assert_int_equal(json_integer_value(json_object_get(o, "clients")), fl_run_clients(run));
    assert_int_equal(json_integer_value(json_object_get(o, "parameters")), fl_run_parameters(run));
    assert_int_equal(json_integer_value(json_object_get(o, "rounds")), fl_row_round(fl_run_row(run)));
    check_object(json_object_get(o, "final"), fl_run_row(run));
    const json_t *list = json_object_get(o, "targets");
    double accuracy;
    size_t k = 0;
    for (size_t round; fl_run_target(run, k, &accuracy, &round); k++) {
        const json_t *t = json_array_get(list, k), *at = json_object_get(t, "round");
        assert_true(json_number_value(json_object_get(t, "test_accuracy")) == accuracy);
        if (round == SIZE_MAX)
            assert_true(json_is_null(at));
        else
            assert_int_equal(json_integer_value(at), round);
    }
    assert_int_equal(json_array_size(list), k);
    json_decref(o);
    free(text);
}

/* Length (8 bytes, little-endian), JSON header, numbers: the tensors must follow one another without gaps. */
static void check_safetensors(fixture *f, const fl_run *run, const char *type, size_t size)
{
    size_t bytes, n = fl_run_parameters(run), at = 0;
    unsigned char *file = (unsigned char *)result_file(f, "model.safetensors", &bytes);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | file[i];
    assert_true(length % 8 == 0);
    assert_int_equal(bytes, 8 + length + n * size);
    json_t *head = json_loadb((char *)file + 8, length, JSON_REJECT_DUPLICATES, NULL), *t;
    assert_non_null(head);
    const char *name;
    json_object_foreach(head, name, t)
    {
        size_t count = 1, i;
        json_t *d;
        if (!strcmp(name, "__metadata__")) continue;
        assert_string_equal(json_string_value(json_object_get(t, "dtype")), type);
        json_array_foreach(json_object_get(t, "shape"), i, d) count *= (size_t)json_integer_value(d);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0)), at);
        at += count * size;
        assert_int_equal(json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 1)), at);
    }
    assert_int_equal(at, n * size);
    double *x = malloc(n * sizeof *x);
    fl_run_model(run, x, n);
    for (size_t i = 0; i < n; i++) {
        float single;
        double v;
        memcpy(size == 4 ? (void *)&single : (void *)&v, file + 8 + length + i * size, size);
        assert_true((size == 4 ? (double)single : v) == x[i]);
    }
    json_decref(head);
    free(x);
    free(file);
}

static void check_config(fixture *f, const char *assignments)
{
    char path[256];
    collected want = {0}, got = {0};
    fl_config *cfg = config_of(f, SMALL, assignments), *saved = fl_config_new(f->ctx);
    snprintf(path, sizeof path, "%s/out/config.yaml", f->folder);
    assert_ok(f->ctx, fl_config_load(saved, path));
    assert_ok(f->ctx, fl_config_print(cfg, collect_text, &want));
    assert_ok(f->ctx, fl_config_print(saved, collect_text, &got));
    assert_string_equal(want.s, got.s);
    free(want.s);
    free(got.s);
    fl_config_free(cfg);
    fl_config_free(saved);
}

static void result_folder(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *assignments, *name, *why, *type;
        size_t size;
    } cases[] = {
        {"metrics.targets=[0.3, 1]", "run", "rounds", "F32", 4},
        {"precision=f64;model={kind: mlp, hidden: [6, 5]};name=\"say \\\"hi\\\"\\n\\\\\";algorithm=scaffold",
         "say \"hi\"\n\\", "rounds", "F64", 8},
        {"stop.target=0.4;rounds=500;metrics.gradient=true", "run", "target", "F32", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[200], text[600];
        snprintf(path, sizeof path, "%s/out", f->folder);
        fl_run *run = run_with_output(f, "out", cases[i].assignments);
        assert_ok(f->ctx, fl_run_prepare_save(run, 1));
        assert_ok(f->ctx, fl_run_save(run));
        assert_int_equal(entries(path), 7);
        assert_int_equal(entries(f->folder), 2); /* and config.yaml of the test */
        check_jsonl(f, run);
        check_csv(f, run);
        check_clients(f, 8, 120);
        check_result_json(f, run, cases[i].name, cases[i].why);
        check_safetensors(f, run, cases[i].type, cases[i].size);
        snprintf(text, sizeof text, "output=%s;%s", path, cases[i].assignments);
        check_config(f, text);
        fl_run_free(run);
    }
}

/* A result's own config.yaml gives the same run again. */
static void result_can_be_repeated(void **state)
{
    fixture *f = *state;
    char path[200];
    double x[15], y[15];
    fl_run *run = run_with_output(f, "out", "local.uneven=speeds;algorithm={kind: fedprox, mu: 0.3}"), *again = NULL;
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_model(run, x, 15);
    fl_run_free(run);
    fl_config *cfg = fl_config_new(f->ctx);
    snprintf(path, sizeof path, "%s/out/config.yaml", f->folder);
    assert_ok(f->ctx, fl_config_load(cfg, path));
    assert_ok(f->ctx, fl_run_new(cfg, &again));
    assert_ok(f->ctx, fl_run_go(again, NULL, NULL));
    fl_run_model(again, y, 15);
    assert_memory_equal(x, y, sizeof x);
    fl_run_free(again);
    fl_config_free(cfg);
}

static void existing_results(void **state)
{
    fixture *f = *state;
    char out[200];
    snprintf(out, sizeof out, "%s/out", f->folder);
    fl_run *first = run_with_output(f, "out", "name=first"), *second = run_with_output(f, "out/", "name=second");
    assert_ok(f->ctx, fl_run_save(first)); /* also without prepare */
    assert_fails(f->ctx, fl_run_save(first), FL_EIO, "exists already");
    assert_fails(f->ctx, fl_run_prepare_save(second, 0), FL_EIO, "exists already");
    assert_fails(f->ctx, fl_run_save(second), FL_EIO, "exists already");
    check_result_json(f, first, "first", "rounds");
    assert_ok(f->ctx, fl_run_prepare_save(second, 1));
    check_result_json(f, first, "first", "rounds"); /* the old one stays until the new one is complete */
    assert_ok(f->ctx, fl_run_save(second));
    check_result_json(f, second, "second", "rounds");
    assert_int_equal(entries(out), 7);
    assert_int_equal(entries(f->folder), 2);
    fl_run_free(first);
    fl_run_free(second);

    /* a folder with anything else in it is never replaced */
    fixture_write(f, "out/notes.txt", "mine");
    first = run_with_output(f, "out", "");
    assert_fails(f->ctx, fl_run_prepare_save(first, 1), FL_EIO, "notes.txt");
    assert_fails(f->ctx, fl_run_prepare_save(first, 0), FL_EIO, "exists already");
    assert_int_equal(entries(out), 8);
    assert_int_equal(entries(f->folder), 2);
    fl_run_free(first);
}

/* An empty folder is as good as none. */
static void empty_place(void **state)
{
    fixture *f = *state;
    fl_run *run = run_with_output(f, "out", "");
    assert_int_equal(mkdir(fixture_path(f, "out"), 0777), 0);
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    assert_ok(f->ctx, fl_run_save(run));
    assert_int_equal(entries(fixture_path(f, "out")), 7);
    assert_int_equal(entries(f->folder), 2);
    fl_run_free(run);
}

/* What a killed run left is cleared away; what merely has that name is not. */
static void only_own_leftovers_are_removed(void **state)
{
    fixture *f = *state;
    fl_run *run = run_with_output(f, "out", "");
    assert_int_equal(mkdir(fixture_path(f, "out.partial"), 0777), 0);
    fixture_write(f, "out.partial/precious", "mine");
    assert_fails(f->ctx, fl_run_prepare_save(run, 1), FL_EIO, "precious");
    assert_fails(f->ctx, fl_run_save(run), FL_EIO, "precious");
    assert_int_equal(entries(fixture_path(f, "out.partial")), 1);
    assert_int_equal(unlink(fixture_path(f, "out.partial/precious")), 0);
    fixture_write(f, "out.partial/metrics.csv", "half a li");
    assert_ok(f->ctx, fl_run_save(run));
    assert_int_equal(entries(f->folder), 2);
    fl_run_free(run);
}

/* Somebody puts a folder there between the preparation and the saving. */
static void place_taken_meanwhile(void **state)
{
    fixture *f = *state;
    char out[200];
    snprintf(out, sizeof out, "%s/out", f->folder);
    fl_run *run = run_with_output(f, "out", "");
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    assert_int_equal(mkdir(out, 0777), 0);
    fixture_write(f, "out/precious", "mine");
    assert_fails(f->ctx, fl_run_save(run), FL_EIO, "(--force)\nthe metrics so far are in ");
    assert_int_equal(entries(out), 1);
    assert_int_equal(access(fixture_path(f, "out.unfinished.csv"), F_OK), 0);
    assert_int_equal(entries(f->folder), 3); /* with config.yaml of the test */
    fl_run_free(run);
}

static void unwritable_places(void **state)
{
    fixture *f = *state;
    fixture_write(f, "file", "x");
    fl_run *run = run_with_output(f, "file", "");
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_EIO, "exists and is not a folder");
    assert_fails(f->ctx, fl_run_prepare_save(run, 1), FL_EIO, "exists and is not a folder");
    fl_run_free(run);
    run = run_with_output(f, "file/out", "");
    assert_fails(f->ctx, fl_run_prepare_save(run, 1), FL_EIO, "cannot be created");
    assert_fails(f->ctx, fl_run_save(run), FL_EIO, "cannot be created");
    fl_run_free(run);
    run = run_done(f, SMALL, "output=/proc/nothing/out");
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_EIO, "/proc/nothing");
    fl_run_free(run);
    run = run_done(f, SMALL, "");
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_ECONFIG, "output is empty");
    assert_fails(f->ctx, fl_run_save(run), FL_ECONFIG, "output is empty");
    fl_run_free(run);
    char *text = read_whole(fixture_path(f, "file"), NULL);
    assert_string_equal(text, "x");
    free(text);
}

/* A folder has to be called by its name: what lies beside it is called after it. */
static void an_output_folder_needs_a_name(void **state)
{
    fixture *f = *state;
    static const char *const wrong[] = {".", "..", "x/.", "x/../", "/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char set[200];
        snprintf(set, sizeof set, "rounds=1;output=%s", wrong[i]);
        fl_run *run = run_new(f, SMALL, set);
        assert_fails(f->ctx, fl_run_prepare_save(run, 1), FL_ECONFIG, "which has no name of its own");
        fl_run_free(run);
    }
    assert_int_equal(entries(f->folder), 1); /* config.yaml */
}

/* A run that is given up leaves nothing behind. */
static void prepared_but_not_saved(void **state)
{
    fixture *f = *state;
    fl_run *run = run_with_output(f, "out", "");
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    fl_run_free(run);
    assert_int_equal(entries(f->folder), 1);
}

/* A disk that takes no more than `limit` bytes per file. */
static fl_status save_limited(fl_run *run, rlim_t limit)
{
    struct rlimit old, small;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = limit;
    setrlimit(RLIMIT_FSIZE, &small);
    fl_status s = fl_run_save(run);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    return s;
}

static void full_disk(void **state)
{
    fixture *f = *state;
    static const rlim_t limits[] = {0, 10, 2000, 3000, 8000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fl_run *run = run_with_output(f, "out", "model={kind: mlp, hidden: [500]};rounds=2");
        int kept = limits[i] >= 2000; /* metrics outlive a model that does not fit */
        assert_fails(f->ctx, save_limited(run, limits[i]), FL_EIO,
                     kept ? "\nthe metrics so far are in " : "\nthe metrics so far could not be kept in ");
        assert_int_equal(!access(fixture_path(f, "out.unfinished.csv"), F_OK), kept);
        assert_int_equal(entries(f->folder), kept ? 2 : 1);
        assert_ok(f->ctx, fl_run_save(run)); /* there is room again */
        assert_int_equal(entries(f->folder), 2);
        fl_run_free(run);

        /* an earlier result outlives a failed attempt to replace it */
        run = run_with_output(f, "out", "model={kind: mlp, hidden: [500]};rounds=1");
        assert_ok(f->ctx, fl_run_prepare_save(run, 1));
        assert_fails(f->ctx, save_limited(run, limits[i]), FL_EIO, "cannot be written");
        assert_int_equal(entries(f->folder), limits[i] >= 1000 ? 3 : 2);
        unlink(fixture_path(f, "out.unfinished.csv"));
        assert_int_equal(entries(fixture_path(f, "out")), 7);
        fl_run_free(run);
        nftw(fixture_path(f, "out"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(result_folder),
        FIXTURE_TEST(result_can_be_repeated),
        FIXTURE_TEST(existing_results),
        FIXTURE_TEST(empty_place),
        FIXTURE_TEST(only_own_leftovers_are_removed),
        FIXTURE_TEST(place_taken_meanwhile),
        FIXTURE_TEST(unwritable_places),
        FIXTURE_TEST(prepared_but_not_saved),
        FIXTURE_TEST(full_disk),
        FIXTURE_TEST(an_output_folder_needs_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
