/* Checkpoints as files: nothing damaged is ever taken for whole, nothing that does not fit is taken over, and no
 * contents whatever lead outside of memory. That a run goes on from them with the same bits is in
 * conform/test_resume.c. */
#include "fixture.h"

#include "algo/algo.h"
#include "base/digest.h"
#include "format/snapshot.h"
#include "run/state.h"
#include "solver/minibatch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- the file format --------------------------------------------------------------------------------------- */

static void checksums_agree_however_computed(void **state)
{
    (void)state;
    fli_rng rng;
    unsigned char bytes[300];
    fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)fli_rng_below(&rng, 256);
    assert_int_equal(fli_crc32c_more(0, "123456789", 9), 0xE3069283); /* of the standard */
    for (size_t n = 0; n <= sizeof bytes; n++) {
        size_t cut = (size_t)fli_rng_below(&rng, n + 1);
        uint32_t crc = fli_crc32c_more(fli_crc32c_more(0, bytes, cut), bytes + cut, n - cut);
        assert_int_equal(crc, fli_crc32c(bytes, n));
        assert_int_equal(crc, fli_crc32c_by_tables(0, bytes, n)); /* what processors without the instruction do */
        uint32_t rest = fli_crc32c(bytes + cut, n - cut);
        assert_int_equal(crc, fli_crc32c_joined(fli_crc32c(bytes, cut), rest, n - cut));
    }
}

static void write_file(const char *path, const char *p, size_t n)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(p, 1, n, out), n);
    fclose(out);
}

enum { LARGE = 700000 }; /* more than two frames */

static void there_and_back(void **state)
{
    fixture *f = *state;
    fli_saver *out = NULL;
    fli_loader *in = NULL;
    char path[600], *big = malloc(LARGE), *again = malloc(LARGE);
    snprintf(path, sizeof path, "%s", fixture_path(f, "state"));
    for (size_t i = 0; i < LARGE; i++) big[i] = (char)(i * 2654435761u >> 13);
    assert_ok(f->ctx, fli_saver_open(f->ctx, path, &out));
    fli_save_part(out, "first");
    fli_save_count(out, 12345678901234567u);
    fli_save_bytes(out, big, LARGE);
    fli_save_real(out, -0.1);
    fli_save_text(out, "a text");
    assert_int_not_equal(access(path, F_OK), 0); /* not before it is complete */
    assert_ok(f->ctx, fli_saver_close(out, NULL));
    assert_ok(f->ctx, fli_snapshot_check(f->ctx, path, NULL));
    for (int k = 0; k < 4; k++) {
        fli_clear(f->ctx);
        assert_ok(f->ctx, fli_loader_open(f->ctx, path, &in));
        fli_load_part(in, k == 1 ? "other" : "first");
        assert_true(fli_load_count(in, k == 2 ? 12345678901234566u : UINT64_MAX) == (k % 3 ? 0 : 12345678901234567u));
        fli_load_bytes(in, again, LARGE);
        double real = fli_load_real(in);
        if (k == 3) assert_fails(f->ctx, fli_loader_end(in), FL_EFORMAT, "left over");
        fli_load_same(in, "a text", "is another text");
        if (!k) {
            assert_ok(f->ctx, fli_loader_end(in));
            assert_memory_equal(big, again, LARGE);
            assert_true(real == -0.1);
            fli_load_count(in, 1);
            assert_fails(f->ctx, fli_loader_status(in), FL_EFORMAT, "more was expected");
        } else
            assert_int_equal(fli_loader_status(in), FL_EFORMAT);
        fli_loader_close(in);
    }
    fli_clear(f->ctx);
    assert_fails(f->ctx, fli_loader_open(f->ctx, "/nowhere/x", &in), FL_EIO, "/nowhere/x");
    fli_clear(f->ctx);
    assert_fails(f->ctx, fli_saver_open(f->ctx, "/nowhere/x", &out), FL_EIO, "/nowhere/x");
    free(big);
    free(again);
}

/* A file that ends with the seals of others: its contents are read as ever, and every byte of it counts. */
static void every_byte_is_sealed(void **state)
{
    fixture *f = *state;
    struct stat st;
    char path[600], copy[600];
    size_t n = 0;
    fli_seal seal[2] = {{17, 4}, {1 << 20, 99}}, own;
    fli_seals found = {0};
    fli_saver *out = NULL;
    fli_loader *in = NULL;
    snprintf(path, sizeof path, "%s", fixture_path(f, "state"));
    snprintf(copy, sizeof copy, "%s", fixture_path(f, "damaged"));
    assert_ok(f->ctx, fli_saver_open(f->ctx, path, &out));
    fli_save_text(out, "a text");
    assert_ok(f->ctx, fli_save_end(out));
    for (size_t i = 0; i < 2; i++) fli_save_seal(out, &seal[i]);
    assert_ok(f->ctx, fli_saver_close(out, &own));
    assert_ok(f->ctx, fli_snapshot_check(f->ctx, path, &found));
    assert_memory_equal(&found.own, &own, sizeof own);
    assert_int_equal(found.count, 2);
    assert_memory_equal(found.others, seal, sizeof seal);
    fli_free(found.others);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(own.bytes, st.st_size);
    assert_ok(f->ctx, fli_loader_open(f->ctx, path, &in));
    fli_load_same(in, "a text", "is another text");
    assert_ok(f->ctx, fli_loader_end(in));
    fli_load_count(in, 1);
    assert_fails(f->ctx, fli_loader_status(in), FL_EFORMAT, "more was expected");
    fli_loader_close(in);
    char *bytes = read_whole(path, &n);
    for (size_t i = 0; i < 2 * n; i++) {
        char was = bytes[i % n];
        if (i < n) bytes[i] = (char)(was ^ 1 << i % 8);
        write_file(copy, bytes, i < n ? n : i - n);
        bytes[i % n] = was;
        fli_clear(f->ctx);
        if (fli_snapshot_check(f->ctx, copy, NULL) != FL_EFORMAT) fail_msg("byte %zu of %zu may change", i, n);
    }
    write_file(copy, bytes, n + 1);
    fli_clear(f->ctx);
    assert_int_equal(fli_snapshot_check(f->ctx, copy, NULL), FL_EFORMAT);
    /* the empty frame before the seals becomes the one that ends a file: its checksum is of its length as well */
    static const char more[4] = {-1, -1, -1, -1};
    char *end = memmem(bytes, n, more, sizeof more);
    assert_non_null(end);
    memset(end, 0, sizeof more);
    write_file(copy, bytes, (size_t)(end - bytes) + 8);
    fli_clear(f->ctx);
    assert_fails(f->ctx, fli_snapshot_check(f->ctx, copy, NULL), FL_EFORMAT, "a checksum is wrong");
    free(bytes);
}

/* ---- runs -------------------------------------------------------------------------------------------------- */

static const char base[] = "rounds: 6\ncheckpoint_every: 1\nthreads: 1\nmodel: softmax\noutput: %s/out\n"
                           "data: {kind: blobs, classes: 3, features: 4, samples: 60, test_samples: 9}\n"
                           "partition: {kind: iid, clients: 4}\nparticipation: {kind: uniform, count: 2}\n"
                           "system: lognormal\nlocal: {batch: 5}\nmetrics: {targets: [0.4]}\nalgorithm: %s\n";

static void stop_at_4(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)run;
    (void)measured;
    if (fl_row_round(row) == 4) fl_run_stop(*(fl_run **)arg);
}

static fl_config *config_of(fixture *f, const char *algorithm)
{
    char text[1024];
    snprintf(text, sizeof text, base, f->folder, algorithm);
    return fixture_config(f, text);
}

/* fl_checkpoint_fn */
static void add_round(void *sum, const fl_checkpoint *c)
{
    assert_int_equal(c->size, sizeof *c);
    assert_int_equal(c->status, FL_OK);
    assert_true(c->bytes > 0);
    *(size_t *)sum = *(size_t *)sum * 10 + c->round;
}

static void of_each_is_told(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    size_t rounds = 0;
    fl_config *cfg = config_of(f, "fedavg");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_run_on_checkpoint(run, add_round, &rounds);
    assert_ok(f->ctx, fl_run_go(run, stop_at_4, &run));
    assert_int_equal(rounds, 1234);
    fl_run_on_checkpoint(run, NULL, NULL);
    assert_ok(f->ctx, fl_run_checkpoint(run));
    assert_int_equal(rounds, 1234);
    fl_run_free(run);
    fl_config_free(cfg);
}

/* A run that was stopped after four rounds, with the checkpoints 3 and 4. */
static void stopped_run(fixture *f, const char *algorithm)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, algorithm);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, stop_at_4, &run));
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ASKED);
    assert_int_equal(fl_run_round(run), 4);
    assert_true(fl_run_checkpointed(run));
    fl_run_free(run);
    fl_config_free(cfg);
    assert_int_equal(access(fixture_path(f, "out.checkpoint/4.checkpoint"), F_OK), 0);
    assert_int_equal(access(fixture_path(f, "out.checkpoint/3.checkpoint"), F_OK), 0);
    assert_int_not_equal(access(fixture_path(f, "out.checkpoint/2.checkpoint"), F_OK), 0);
}

static fl_status resume_as(fixture *f, const char *folder, const char *assignment, fl_run **run)
{
    fl_config *cfg = fl_config_new(f->ctx);
    fl_status s = fl_config_resume(cfg, fixture_path(f, folder));
    if (!s && *assignment) s = fl_config_set(cfg, assignment);
    if (!s) s = fl_run_resume(cfg, run);
    fl_config_free(cfg);
    return s;
}

static fl_status resume(fixture *f, fl_run **run) { return resume_as(f, "out", "", run); }

/* Every byte, every truncation: noticed. */
static void damage_is_noticed(void **state)
{
    fixture *f = *state;
    size_t n;
    char path[600], copy[600];
    stopped_run(f, "scaffold");
    snprintf(path, sizeof path, "%s", fixture_path(f, "out.checkpoint/4.checkpoint"));
    snprintf(copy, sizeof copy, "%s", fixture_path(f, "damaged"));
    char *bytes = read_whole(path, &n);
    assert_true(n > 1000 && n < 100000);
    for (size_t i = 0; i < n; i++) {
        char was = bytes[i];
        bytes[i] = (char)(was ^ 1 << i % 8);
        write_file(copy, bytes, n);
        bytes[i] = was;
        fli_clear(f->ctx);
        if (fli_snapshot_check(f->ctx, copy, NULL) != FL_EFORMAT) fail_msg("byte %zu of %zu may change", i, n);
    }
    for (size_t i = 0; i < n; i += 1 + i / 50) {
        write_file(copy, bytes, i);
        fli_clear(f->ctx);
        assert_int_equal(fli_snapshot_check(f->ctx, copy, NULL), FL_EFORMAT);
    }
    write_file(copy, bytes, n + 1);
    assert_int_equal(fli_snapshot_check(f->ctx, copy, NULL), FL_EFORMAT);
    free(bytes);
}

static void keep_line(void *arg, fl_log_level level, const char *line)
{
    if (level == FL_LOG_WARNING) snprintf(arg, 512, "%s", line);
}

static void the_one_before_is_taken(void **state)
{
    fixture *f = *state;
    size_t n;
    fl_run *run = NULL;
    char path[600], note[512] = "";
    fl_ctx_on_log(f->ctx, keep_line, note);
    stopped_run(f, "feddyn");
    snprintf(path, sizeof path, "%s", fixture_path(f, "out.checkpoint/4.checkpoint"));
    char *bytes = read_whole(path, &n);
    bytes[n / 2] ^= 4;
    write_file(path, bytes, n);
    free(bytes);
    assert_ok(f->ctx, resume(f, &run));
    assert_int_equal(fl_run_round(run), 3);
    assert_non_null(strstr(note, "4.checkpoint: is damaged"));
    /* the next one that is written leaves the whole one and itself */
    assert_ok(f->ctx, fl_run_checkpoint(run));
    assert_int_equal(access(fixture_path(f, "out.checkpoint/3.checkpoint"), F_OK), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    fl_run_free(run);

    write_file(fixture_path(f, "out.checkpoint/3.checkpoint"), "fedloom\1", 8);
    write_file(fixture_path(f, "out.checkpoint/5.checkpoint"), "", 0);
    assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "there is no complete checkpoint");
}

/* Kernels for another processor go on, with a warning, and the result says that both were there. */
static void other_kernels(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    char note[512] = "", want[320];
    size_t n;
    fl_config *cfg = config_of(f, "fedavg");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    snprintf(want, sizeof want, "\"kernels\": \"an abacus; %s\"", run->kernels);
    snprintf(run->kernels, sizeof run->kernels, "an abacus");
    assert_ok(f->ctx, fl_run_checkpoint(run));
    fl_run_free(run);
    fl_ctx_on_log(f->ctx, keep_line, note);
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    assert_non_null(strstr(note, "was begun with kernels for an abacus and goes on with those for "));
    assert_ok(f->ctx, fl_run_checkpoint(run));
    fl_run_free(run);
    assert_ok(f->ctx, fl_run_resume(cfg, &run)); /* these are known by now */
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
    fl_config_free(cfg);
    char *manifest = read_whole(fixture_path(f, "out/manifest.json"), &n);
    manifest[n - 1] = 0;
    assert_non_null(strstr(manifest, want));
    free(manifest);
}

/* Either name leads there; what does not change the result may differ; what does may not. */
static void what_may_differ(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    stopped_run(f, "fedvra");
    static const char *const folders[] = {"out", "out/", "out.checkpoint", "out.checkpoint/"};
    for (size_t i = 0; i < 4; i++) {
        assert_ok(f->ctx, resume_as(f, folders[i], "threads=2", &run));
        assert_int_equal(fl_run_round(run), 4);
        fl_run_free(run);
    }
    assert_ok(f->ctx, resume_as(f, "out", "memory=1KiB", &run));
    fl_run_free(run);
    static const char *const other[] = {"local.lr=0.06", "rounds=7", "seed=2", "algorithm=fedavg"};
    for (size_t i = 0; i < 4; i++)
        assert_fails(f->ctx, resume_as(f, "out", other[i], &run), FL_EFORMAT, "other settings");
    assert_fails(f->ctx, resume_as(f, "elsewhere", "", &run), FL_EIO, "there are no checkpoints");
}

/* The contents of a checkpoint without its frames, and a file made of such contents. */
static char *unpack(fixture *f, const char *path, size_t *n)
{
    fli_loader *in = NULL;
    char *bytes = malloc(1 << 20);
    assert_ok(f->ctx, fli_loader_open(f->ctx, path, &in));
    for (*n = 0; !fli_loader_status(in); ++*n) fli_load_bytes(in, bytes + *n, 1);
    --*n;
    fli_loader_close(in);
    fli_clear(f->ctx);
    return bytes;
}

static void pack(fixture *f, const char *path, const char *bytes, size_t n)
{
    fli_saver *out = NULL;
    assert_ok(f->ctx, fli_saver_open(f->ctx, path, &out));
    fli_save_bytes(out, bytes, n);
    assert_ok(f->ctx, fli_saver_close(out, NULL));
}

/* What follows the text that begins there: its length, and its characters. */
static size_t behind_text(const char *bytes, size_t at)
{
    uint64_t n;
    memcpy(&n, bytes + at, sizeof n);
    return at + sizeof n + n;
}

static void other_versions_and_data(void **state)
{
    fixture *f = *state;
    size_t n;
    fl_run *run = NULL;
    char path[600], config[600], *text, *size;
    stopped_run(f, "fedavg");
    snprintf(path, sizeof path, "%s", fixture_path(f, "out.checkpoint/4.checkpoint"));
    char *bytes = unpack(f, path, &n);
    pack(f, path, bytes, n);
    assert_ok(f->ctx, resume(f, &run)); /* unpacked and packed it is the same */
    assert_int_equal(fl_run_round(run), 4);
    fl_run_free(run);
    bytes[8]++; /* after the length of the version */
    pack(f, path, bytes, n);
    assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "another version");
    bytes[8]--;
    /* the settings follow, the metrics, and then the digest of the data and the sizes */
    size_t metrics = behind_text(bytes, behind_text(bytes, 0));
    bytes[metrics + 8]++;
    pack(f, path, bytes, n);
    assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "other metrics");
    bytes[metrics + 8]--;
    size = bytes + behind_text(bytes, metrics);
    size[7]++;
    pack(f, path, bytes, n);
    assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "was made from other data");
    size[7]--;
    size[32]++;
    pack(f, path, bytes, n);
    assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "a model of another size");
    free(bytes);
    snprintf(config, sizeof config, "%s", fixture_path(f, "out.checkpoint/config.yaml"));
    text = read_whole(config, &n);
    write_file(config, text, n / 2);
    free(text);
    assert_true(resume(f, &run) != FL_OK);
}

/* Any contents under right checksums: refused or taken, but nothing worse. The sanitizers look on. */
static void any_contents(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"scaffold", "{kind: fedbuff, buffer: 2}",
                                          "{kind: fedgia, variant: diagonal}"};
    size_t refused = 0, taken = 0;
    fli_rng rng;
    fli_rng_init(&rng, 9, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 3; k++) {
        size_t n;
        char path[600];
        stopped_run(f, methods[k]);
        snprintf(path, sizeof path, "%s", fixture_path(f, "out.checkpoint/4.checkpoint"));
        char *bytes = unpack(f, path, &n);
        /* what comes before is compared byte by byte */
        size_t from = behind_text(bytes, behind_text(bytes, behind_text(bytes, 0))) + 32;
        for (int i = 0; i < 150; i++) {
            fl_run *run = NULL;
            char *copy = malloc(n);
            size_t length = i % 10 ? n : from + fli_rng_below(&rng, n - from);
            memcpy(copy, bytes, n);
            for (size_t j = 0; j < 1 + fli_rng_below(&rng, 3); j++) {
                size_t place = from + fli_rng_below(&rng, n - from) / 8 * 8;
                uint64_t v = fli_rng_below(&rng, 2) ? UINT64_MAX >> fli_rng_below(&rng, 64) : fli_rng_below(&rng, 9);
                if (place + 8 <= n) memcpy(copy + place, &v, 8);
            }
            pack(f, path, copy, length);
            free(copy);
            fli_clear(f->ctx);
            fl_status s = resume(f, &run);
            assert_true(s == FL_OK || s == FL_EFORMAT || s == FL_ENOMEM);
            refused += s != FL_OK;
            taken += s == FL_OK;
            if (!s) fl_run_free(run);
        }
        free(bytes);
        nftw(fixture_path(f, "out.checkpoint"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    assert_true(refused > 50 && taken > 50);
}

/* Two runs that went on from the same checkpoints would each remove what the other one wrote. */
static void one_at_a_time(void **state)
{
    fixture *f = *state;
    fl_run *first = NULL, *second = NULL;
    stopped_run(f, "fedavg");
    assert_ok(f->ctx, resume(f, &first));
    char busy[100];
    snprintf(busy, sizeof busy, "out: process %ld is writing there", (long)getpid());
    assert_fails(f->ctx, resume(f, &second), FL_EBUSY, busy);
    fl_config *cfg = config_of(f, "fedavg");
    assert_ok(f->ctx, fl_run_new(cfg, &second));
    assert_fails(f->ctx, fl_run_prepare_save(second, 1), FL_EBUSY, busy);
    assert_int_equal(access(fixture_path(f, "out.checkpoint/4.checkpoint"), F_OK), 0);
    fl_run_free(first);
    assert_ok(f->ctx, fl_run_prepare_save(second, 1));
    fl_run_free(second);
    fl_config_free(cfg);
}

/* A value, a label, the order of two samples: the number of samples is the same, the data are not. */
static void changed_data(void **state)
{
    fixture *f = *state;
    static const char *const tables[] = {
        "1,0.5,a\n2,0.25,b\n3,1,a\n4,2,b\n",      /* as it was */
        "1,0.5,a\n2,0.25,b\n3,1,a\n4,2.0625,b\n", /* a value */
        "1,0.5,a\n2,0.25,b\n3,1,b\n4,2,a\n",      /* labels */
        "2,0.25,b\n1,0.5,a\n3,1,a\n4,2,b\n",      /* who holds what */
    };
    char yaml[400];
    snprintf(yaml, sizeof yaml,
             "rounds: 6\ncheckpoint_every: 1\nmodel: softmax\nparticipation: everyone\noutput: %s/out\n"
             "data: {kind: csv, train: %s/table.csv, header: false}\npartition: {kind: iid, clients: 2}\n",
             f->folder, f->folder);
    fixture_write(f, "table.csv", tables[0]);
    fl_config *cfg = fixture_config(f, yaml);
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, stop_at_4, &run));
    fl_run_free(run);
    fl_config_free(cfg);
    for (size_t i = 1; i < 4; i++) {
        fixture_write(f, "table.csv", tables[i]);
        assert_fails(f->ctx, resume(f, &run), FL_EFORMAT,
                     "was made from other data: values, labels, who holds what or a trace have changed since");
    }
    fixture_write(f, "table.csv", tables[0]);
    assert_ok(f->ctx, resume(f, &run));
    assert_int_equal(fl_run_round(run), 4);
    fl_run_free(run);
}

/* Who is there in a round, and how fast devices are, may come from files: they count as data. */
static void changed_traces(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *key, *before, *after;
    } cases[] = {{"participation", "0 1\n2 3\n", "0 1\n1 3\n"}, {"system", "1\n2\n3\n4\n", "1\n2\n3\n5\n"}};
    for (size_t i = 0; i < 2; i++) {
        char set[200];
        fl_run *run = NULL;
        fl_config *cfg = config_of(f, "fedavg");
        fixture_write(f, "trace.txt", cases[i].before);
        snprintf(set, sizeof set, "%s={kind: trace, path: %s/trace.txt}", cases[i].key, f->folder);
        assert_ok(f->ctx, fl_config_set(cfg, set));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_ok(f->ctx, fl_run_go(run, stop_at_4, &run));
        fl_run_free(run);
        fl_config_free(cfg);
        fixture_write(f, "trace.txt", cases[i].after);
        assert_fails(f->ctx, resume(f, &run), FL_EFORMAT, "was made from other data");
        fixture_write(f, "trace.txt", cases[i].before);
        assert_ok(f->ctx, resume(f, &run));
        fl_run_free(run);
        nftw(fixture_path(f, "out.checkpoint"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* Killed after the result was in place and before the checkpoints were gone: there is nothing left to do but to remove
 * them. */
static void killed_after_the_end(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    stopped_run(f, "fedavg");
    assert_ok(f->ctx, resume(f, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
    assert_int_equal(access(fixture_path(f, "out.checkpoint"), F_OK), -1);
    char kept[600];
    snprintf(kept, sizeof kept, "%s", fixture_path(f, "kept"));
    assert_int_equal(rename(fixture_path(f, "out"), kept), 0);
    stopped_run(f, "fedavg");
    assert_int_equal(rename(kept, fixture_path(f, "out")), 0); /* as a kill would leave it */
    assert_fails(f->ctx, resume(f, &run), FL_EDONE, "out: is finished already");
    assert_int_equal(access(fixture_path(f, "out.checkpoint"), F_OK), -1);
    assert_int_equal(access(fixture_path(f, "out/model.safetensors"), F_OK), 0);
    assert_fails(f->ctx, resume(f, &run), FL_EIO, "there are no checkpoints to continue from");
}

/* A run without checkpoints does not leave another one's beside its result. */
static void of_an_earlier_run(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    stopped_run(f, "fedavg");
    fl_config *cfg = config_of(f, "fedavg");
    assert_ok(f->ctx, fl_config_set(cfg, "checkpoint_every=0"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fixture_write(f, "out.unfinished.csv", "round,cohort,train_loss,\n");
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_EIO, "has checkpoints of an earlier run");
    assert_int_equal(access(fixture_path(f, "out.checkpoint/4.checkpoint"), F_OK), 0);
    assert_int_equal(access(fixture_path(f, "out.unfinished.csv"), F_OK), 0); /* a refusal costs nothing */
    assert_ok(f->ctx, fl_run_prepare_save(run, 1));
    assert_int_equal(access(fixture_path(f, "out.unfinished.csv"), F_OK), -1);
    assert_int_equal(access(fixture_path(f, "out.checkpoint"), F_OK), -1);
    fl_run_free(run);
    fl_config_free(cfg);
}

/* A folder that cannot be read is not one without checkpoints. */
static void an_unreadable_folder_is_an_error(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    int root = !geteuid();
    stopped_run(f, "fedavg");
    assert_int_equal(chmod(f->folder, 0755), 0);
    assert_int_equal(chmod(fixture_path(f, "out.checkpoint"), 0), 0);
    if (root) assert_int_equal(seteuid(65534), 0); /* root may read everything */
    fl_status s = resume(f, &run);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(s, FL_EIO);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "out.checkpoint: the folder cannot be read: "));
    assert_int_equal(chmod(fixture_path(f, "out.checkpoint"), 0700), 0);
}

/* Nothing of anybody else's is removed or mixed up. */
static void the_folder(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    stopped_run(f, "fedavg");
    fl_config *cfg = config_of(f, "fedavg");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_fails(f->ctx, fl_run_prepare_save(run, 0), FL_EIO, "checkpoints of an earlier run");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EIO, "checkpoints of an earlier run");
    fixture_write(f, "out.checkpoint/thesis.tex", "my only copy");
    assert_fails(f->ctx, fl_run_prepare_save(run, 1), FL_EIO, "something else is in it");
    assert_int_equal(unlink(fixture_path(f, "out.checkpoint/thesis.tex")), 0);
    assert_ok(f->ctx, fl_run_prepare_save(run, 1));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    assert_int_not_equal(access(fixture_path(f, "out.checkpoint"), F_OK), 0);
    assert_int_equal(access(fixture_path(f, "out/model.safetensors"), F_OK), 0);
    fl_run_free(run);
    fl_config_free(cfg);
}

static void refused_settings(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, "fedasync");
    assert_ok(f->ctx, fl_config_set(cfg, "checkpoint_every=0"));
    assert_ok(f->ctx, fl_config_set(cfg, "output=''"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_fails(f->ctx, fl_run_checkpoint(run), FL_ECONFIG, "output is empty");
    fl_run_free(run);
    assert_ok(f->ctx, fl_config_set(cfg, "checkpoint_every=1"));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "checkpoint_every needs output");
    fl_config_free(cfg);
}

/* fl_text_fn */
static void count_bytes(void *count, const char *text) { *(rlim_t *)count += strlen(text); }

/* A run goes on when there is no room for its checkpoints, and says so. */
static void full_disk(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    char note[512] = "";
    struct rlimit before, small = {0, 0};
    fl_ctx_on_log(f->ctx, keep_line, note);
    fl_config *cfg = config_of(f, "scaffold");
    assert_ok(f->ctx, fl_config_set(cfg, "data.features=1000"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_ok(f->ctx, fl_config_print(cfg, count_bytes, &small.rlim_cur)); /* it fits, and nothing larger */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fl_status s = fl_run_go(run, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_ok(f->ctx, s);
    assert_non_null(strstr(note, "no checkpoint after round 5"));
    assert_int_not_equal(access(fixture_path(f, "out.checkpoint/1.checkpoint.tmp"), F_OK), 0);
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
    fl_config_free(cfg);
}

/* ---- what a solver keeps ------------------------------------------------------------------------------------- */

/* A solver whose answer depends on how often the client has been asked. */
static int count_solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    (void)arg, (void)f;
    if (!*l->kept && !(*l->kept = fli_alloc(e->ctx, 1, sizeof(size_t)))) return FL_ENOMEM;
    double turns = (double)++*(size_t *)*l->kept;
    fl_vec_lin(&l->space, 1 / (1 + turns), p->start, 0, p->start, z);
    *(double *)z += turns;
    *out = (fl_answer){.z = z, .weight = 1, .steps = 1};
    return 0;
}

static void count_save(const void *cache, fli_saver *out) { fli_save_count(out, *(const size_t *)cache); }

static fl_status count_load(fl_ctx *ctx, fli_loader *in, void **cache)
{
    if (!(*cache = fli_alloc(ctx, 1, sizeof(size_t)))) return FL_ENOMEM;
    *(size_t *)*cache = (size_t)fli_load_count(in, 100);
    return fli_loader_status(in);
}

static const fli_solver_engine counts = {.save = count_save, .load = count_load};
static const fl_solver counting = {.name = "counting", .solve = count_solve, .forget = fli_free, .engine = &counts};
static const fl_solver counting_too = {
    .name = "counting, too", .solve = count_solve, .forget = fli_free, .engine = &counts};
static const fl_solver forgetful = {.name = "forgetful", .solve = count_solve, .forget = fli_free};

/* A method of two stages, each with its solver (engine_solvers). */
static void counting_engine(fixture *f, engine *e)
{
    static fl_method algo;
    static const size_t size[] = {3, 4, 5};
    algo = *algo_named("fedavg");
    algo.phases = 2;
    engine_init(e, f->ctx, random_fed(f->ctx, 3, size, 4, 0, 1), "least_squares", &fli_ops_f64, 0, &algo, "", 0,
                (fli_sgd_spec){0, 0}, 2);
}

/* Runs on from a checkpoint, and without; returns whether both end at the same model, whose first entry is *first. */
static int goes_on(fixture *f, double *first)
{
    engine a, b;
    fli_saver *out = NULL;
    fli_loader *in = NULL;
    counting_engine(f, &a);
    engine_rounds(&a, 3, 1, 0.1);
    engine_round(&a, (const uint32_t[]){1}, 1, 0.1);
    assert_ok(f->ctx, fli_saver_open(f->ctx, fixture_path(f, "state"), &out));
    fli_exec_save(a.exec, out);
    assert_ok(f->ctx, fli_saver_close(out, NULL));
    counting_engine(f, &b);
    b.round = a.round;
    assert_ok(f->ctx, fli_loader_open(f->ctx, fixture_path(f, "state"), &in));
    assert_ok(f->ctx, fli_exec_load(b.exec, in));
    assert_ok(f->ctx, fli_loader_end(in));
    fli_loader_close(in);
    engine_rounds(&a, 2, 1, 0.1);
    engine_rounds(&b, 2, 1, 0.1);
    double *x = engine_vector(&a, 0), *y = engine_vector(&b, 0);
    int same = memcmp(x, y, 4 * sizeof *x) == 0;
    *first = x[0];
    free(x);
    free(y);
    engine_fini(&a);
    engine_fini(&b);
    return same;
}

/* What each solver keeps is its own, and comes back. */
static void solvers_state(void **state)
{
    static const fl_solver *const choices[][2] = {{&counting, &counting},
                                                  {&counting, &counting_too},
                                                  {&forgetful, &counting},
                                                  {&counting, &forgetful},
                                                  {&forgetful, &forgetful}};
    double first[5];
    for (size_t k = 0; k < 5; k++) {
        size_t others = choices[k][1] != choices[k][0];
        engine_solvers = (fli_solvers){{choices[k][0], choices[k][1]}, 1 + others, {0, (unsigned char)others}};
        assert_int_equal(goes_on(*state, &first[k]), k < 2);
    }
    engine_solvers.count = 0;
    assert_true(first[0] != first[1]); /* one cache, or two */
    assert_true(first[1] == first[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(checksums_agree_however_computed),
        FIXTURE_TEST(there_and_back),
        FIXTURE_TEST(every_byte_is_sealed),
        FIXTURE_TEST(of_each_is_told),
        FIXTURE_TEST(damage_is_noticed),
        FIXTURE_TEST(changed_data),
        FIXTURE_TEST(changed_traces),
        FIXTURE_TEST(killed_after_the_end),
        FIXTURE_TEST(of_an_earlier_run),
        FIXTURE_TEST(an_unreadable_folder_is_an_error),
        FIXTURE_TEST(one_at_a_time),
        FIXTURE_TEST(the_folder),
        FIXTURE_TEST(the_one_before_is_taken),
        FIXTURE_TEST(other_kernels),
        FIXTURE_TEST(what_may_differ),
        FIXTURE_TEST(refused_settings),
        FIXTURE_TEST(other_versions_and_data),
        FIXTURE_TEST(any_contents),
        FIXTURE_TEST(full_disk),
        FIXTURE_TEST(solvers_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
