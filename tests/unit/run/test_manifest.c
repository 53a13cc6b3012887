/* Manifests: what they say of a folder, what they notice, what is refused. And what stands where a result is to go. */
#include "runs.h"

#include "run/output.h"

#include <sys/stat.h>

#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */

static void written_and_read(void **state)
{
    fixture *f = *state;
    fli_manifest m, back;
    int known;
    fli_manifest_init(&m, f->ctx);
    fli_manifest_init(&back, f->ctx);
    fixture_write(f, "a.txt", "abc");
    fixture_write(f, "b \"q\".txt", "");
    assert_ok(f->ctx, fli_manifest_add(&m, f->folder, "a.txt"));
    assert_ok(f->ctx, fli_manifest_add(&m, f->folder, "b \"q\".txt"));
    assert_ok(f->ctx, fli_manifest_add(&m, f->folder, "a.txt")); /* once is enough */
    assert_fails(f->ctx, fli_manifest_add(&m, f->folder, "none"), FL_EMISMATCH, "none: is missing");
    m.has_data = 1;
    m.data.byte[3] = 7;
    assert_ok(f->ctx, fli_manifest_write(&m, f->folder));
    assert_ok(f->ctx, fli_manifest_read(&back, f->folder));
    assert_int_equal(back.count, 2);
    assert_true(back.has_data && fli_digest_same(&back.data, &m.data));
    assert_string_equal(back.file[1].name, "b \"q\".txt");
    assert_ok(f->ctx, fli_manifest_check(&back, f->folder));
    assert_true(fli_manifest_lists(&back, "a.txt") && !fli_manifest_lists(&back, "c"));
    assert_ok(f->ctx, fli_manifest_knows(&back, f->folder, "a.txt", &known));
    assert_true(known);
    fixture_write(f, "a.txt", "abd"); /* the same size */
    assert_fails(f->ctx, fli_manifest_check(&back, f->folder), FL_EMISMATCH,
                 "a.txt: is not the file that manifest.json");
    assert_ok(f->ctx, fli_manifest_knows(&back, f->folder, "a.txt", &known));
    assert_false(known);
    assert_ok(f->ctx, fli_manifest_add(&back, f->folder, "a.txt")); /* either version is known now */
    assert_ok(f->ctx, fli_manifest_knows(&back, f->folder, "a.txt", &known));
    assert_true(known);
    unlink(fixture_path(f, "a.txt"));
    assert_fails(f->ctx, fli_manifest_check(&m, f->folder), FL_EMISMATCH, "a.txt: is missing");
    fli_manifest_fini(&m);
    fli_manifest_fini(&back);
}

static void broken_manifests_are_refused(void **state)
{
    fixture *f = *state;
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"files\": []}",
        "{\"fedloom\": \"0\", \"files\": {}}",
        "{\"fedloom\": \"0\", \"files\": [1]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"a\", \"bytes\": 3}]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"a\", \"bytes\": -3, \"sha256\": \"" DIGEST "\"}]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"a\", \"bytes\": 3.5, \"sha256\": \"" DIGEST "\"}]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"../a\", \"bytes\": 3, \"sha256\": \"" DIGEST "\"}]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"..\", \"bytes\": 3, \"sha256\": \"" DIGEST "\"}]}",
        "{\"fedloom\": \"0\", \"files\": [{\"name\": \"\", \"bytes\": 3, \"sha256\": \"" DIGEST "\"}]}",
        "{\"fedloom\": \"0\", \"files\": [], \"data\": 3}",
        "{\"fedloom\": \"0\", \"files\": [], \"data\": {\"sha256\": \"abc\"}}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fli_manifest m;
        fli_manifest_init(&m, f->ctx);
        fl_status s = fli_manifest_parse(&m, "manifest.json", wrong[i], strlen(wrong[i]));
        if (s != FL_EFORMAT) fail_msg("case %zu: status %d", i, (int)s);
        assert_non_null(strstr(fl_ctx_error(f->ctx), "manifest.json"));
        fli_manifest_fini(&m);
        fli_clear(f->ctx);
    }
}

/* ---- what stands --------------------------------------------------------------------------------------------- */

static fli_existing_result existing_at(fixture *f, const char *assignments, const fli_digest *data)
{
    fli_existing_result out;
    fli_arena arena;
    fli_settings settings;
    fl_config *cfg = config_of(f, SMALL, assignments);
    fli_arena_init(&arena, f->ctx);
    assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, cfg->root, &settings));
    assert_ok(f->ctx, fli_existing_result_find(f->ctx, fixture_path(f, "out"), &settings, data, &out));
    assert_string_equal(fl_ctx_error(f->ctx), "");
    fli_arena_fini(&arena);
    fl_config_free(cfg);
    return out;
}

static fli_digest save(fixture *f, const char *assignments, int stop)
{
    char set[300];
    snprintf(set, sizeof set, "output=%s/out%s%s", f->folder, *assignments ? ";" : "", assignments);
    fl_run *run = run_new(f, SMALL, set);
    assert_ok(f->ctx, fl_run_prepare_save(run, 1));
    if (stop) fl_run_stop(run);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    fli_digest data = run->plan.data;
    fl_run_free(run);
    return data;
}

static void existing_results(void **state)
{
    fixture *f = *state;
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_NOTHING);
    fli_digest data = save(f, "", 0), other = data;
    other.byte[0] ^= 1;
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_SAME);
    assert_int_equal(existing_at(f, "", &data), FLI_EXISTING_SAME);
    assert_int_equal(existing_at(f, "", &other), FLI_EXISTING_OTHER_DATA);
    assert_int_equal(existing_at(f, "threads=3;name=x;memory=1GiB;output_model=false;output=else", &data),
                     FLI_EXISTING_SAME);
    assert_int_equal(existing_at(f, "seed=6", &data), FLI_EXISTING_OTHER_SETTINGS);
    assert_int_equal(existing_at(f, "stop.diverged=7", &data), FLI_EXISTING_OTHER_SETTINGS);
    static const char *const files[] = {"config.yaml", "metrics.csv",       "metrics.jsonl", "clients.csv",
                                        "result.json", "model.safetensors", "manifest.json"};
    for (size_t i = 0; i < 7; i++) { /* whichever is cut by a byte, or missing */
        char name[64];
        size_t n = 0;
        snprintf(name, sizeof name, "out/%s", files[i]);
        char *text = read_whole(fixture_path(f, name), &n);
        assert_int_equal(truncate(fixture_path(f, name), (off_t)(i == 6 ? n - 4 : n - 1)), 0);
        assert_int_equal(existing_at(f, "", &data), FLI_EXISTING_BROKEN);
        unlink(fixture_path(f, name));
        assert_int_equal(existing_at(f, "", &data), i == 6 ? FLI_EXISTING_UNKNOWN : FLI_EXISTING_BROKEN);
        FILE *out = fopen(fixture_path(f, name), "wb");
        assert_int_equal(fwrite(text, 1, n, out), n);
        fclose(out);
        free(text);
        assert_int_equal(existing_at(f, "", &data), FLI_EXISTING_SAME);
    }
    save(f, "", 1);
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_STOPPED);
}

/* What must not be replaced unasked: results that this version cannot judge. */
static void standing_of_others(void **state)
{
    fixture *f = *state;
    fli_manifest m;
    save(f, "", 0);
    char *manifest = read_whole(fixture_path(f, "out/manifest.json"), NULL);
    unlink(fixture_path(f, "out/manifest.json")); /* as results were once */
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_UNKNOWN);
    assert_int_equal(mkfifo(fixture_path(f, "out/manifest.json"), 0600), 0); /* nobody writes to it */
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_UNKNOWN);
    unlink(fixture_path(f, "out/manifest.json"));
    strstr(manifest, FL_VERSION)[0] = '9';
    fixture_write(f, "out/manifest.json", manifest);
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_OTHER_VERSION);
    free(manifest);
    save(f, "", 0);
    char *config = read_whole(fixture_path(f, "out/config.yaml"), NULL), *longer = malloc(strlen(config) + 40);
    sprintf(longer, "%snot_known_yet: 1\n", config);
    fixture_write(f, "out/config.yaml", longer); /* with a manifest that agrees */
    fli_manifest_init(&m, f->ctx);
    static const char *const names[] = {"config.yaml", "metrics.csv", "metrics.jsonl", "clients.csv", "result.json"};
    char folder[600];
    snprintf(folder, sizeof folder, "%s", fixture_path(f, "out"));
    for (size_t i = 0; i < 5; i++) assert_ok(f->ctx, fli_manifest_add(&m, folder, names[i]));
    assert_ok(f->ctx, fli_manifest_write(&m, folder));
    fli_manifest_fini(&m);
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_OTHER_SETTINGS);
    free(config);
    free(longer);
}

/* A result without the model is whole; it is less than one with it, and never counts as that. */
static void without_the_model(void **state)
{
    fixture *f = *state;
    fli_manifest m;
    save(f, "output_model=false", 0);
    assert_int_equal(access(fixture_path(f, "out/model.safetensors"), F_OK), -1);
    assert_int_equal(entries(fixture_path(f, "out")), 6);
    fli_manifest_init(&m, f->ctx);
    assert_ok(f->ctx, fli_result_check(f->ctx, fixture_path(f, "out"), &m));
    assert_false(fli_manifest_lists(&m, "model.safetensors"));
    fli_manifest_fini(&m);
    assert_int_equal(existing_at(f, "output_model=false", NULL), FLI_EXISTING_SAME);
    assert_int_equal(existing_at(f, "", NULL), FLI_EXISTING_OTHER_SETTINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(written_and_read),  FIXTURE_TEST(broken_manifests_are_refused),
        FIXTURE_TEST(existing_results),  FIXTURE_TEST(standing_of_others),
        FIXTURE_TEST(without_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
