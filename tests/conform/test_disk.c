/* Every call that writes to a disk fails in turn (disk.h): what had the name before is there afterwards, or what was to
 * have it, whole; the error names it; and whoever starts again goes on. */
#include "brief.h"
#include "disk.h"
#include "outcome.h"
#include "runs.h"

#include "base/file.h"
#include "format/snapshot.h"
#include "net/client/client_store.h"
#include "net/server/roster.h"
#include "run/output.h"

typedef struct {
    fixture *f;
    fl_run *run;    /* whose result is saved */
    outcome like;   /* of a run that nothing happened to */
    int bob, carol; /* whose entering succeeded */
} stage;

/* Something that is done to a disk. */
typedef struct {
    void (*prepare)(stage *s);                   /* there is what was there before */
    fl_status (*act)(stage *s);                  /* from opening to closing; again: likewise */
    void (*inspect)(stage *s, fl_status status); /* what a process finds that starts after that; FL_OK: the new */
    int lasts;                                   /* what it leaves has to survive a crash of the machine */
    size_t least;                                /* so many calls it has, at least */
} scene;

static fl_status ended(stage *s, const scene *c, int *reached)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        c->act(s);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    disk_end();
    *reached = WEXITSTATUS(status) == 0;
    return *reached ? FL_EIO : FL_OK;
}

/* One call fails; 0: there are fewer. */
static int fails_at(stage *s, const scene *c, disk_kind kind, size_t k)
{
    int reached;
    fl_status status;
    fl_ctx *ctx = s->f->ctx;
    c->prepare(s);
    fli_clear(ctx);
    disk_begin(kind, k);
    if (kind == DISK_ENDS)
        status = ended(s, c, &reached);
    else {
        status = c->act(s);
        reached = disk_end();
        if (status && status != FL_EIO) fail_msg("call %zu %s: %s", k, disk_names[kind], fl_ctx_error(ctx));
        if (status && !strstr(fl_ctx_error(ctx), s->f->folder))
            fail_msg("call %zu %s: names no file: \"%s\"", k, disk_names[kind], fl_ctx_error(ctx));
    }
    if (!reached && status) fail_msg("no call %s: %s", disk_names[kind], fl_ctx_error(ctx));
    if (!reached && c->lasts && kind != DISK_ENDS) {
        assert_int_equal(disk.early, 0);
        assert_int_equal(disk.unsynced, 0);
        assert_int_equal(disk.unsynced_folders, 0);
    }
    c->inspect(s, status);
    assert_ok(ctx, c->act(s));
    c->inspect(s, FL_OK);
    return reached;
}

static void fails_everywhere(stage *s, const scene *c)
{
    enum { MOST = 2000 };
    for (disk_kind kind = 0; kind < DISK_KINDS; kind++) {
        size_t k = 1;
        if (brief() && kind != DISK_SHORT && kind != DISK_ENDS) continue;
        while (fails_at(s, c, kind, k)) assert_true(++k < MOST);
        if (k <= c->least) fail_msg("only %zu calls", k - 1);
    }
}

static void assert_text(stage *s, const char *name, const char *old, const char *new, fl_status status)
{
    char *text = read_whole(fixture_path(s->f, name), NULL);
    assert_non_null(text);
    if (strcmp(text, new) && (!status || strcmp(text, old))) fail_msg("%s is \"%s\"", name, text);
    free(text);
}

/* ---- a file -------------------------------------------------------------------------------------------------- */

static void old_file(stage *s) { fixture_write(s->f, "file", "old"); }

static fl_status replace_file(stage *s) { return fli_file_replace(s->f->ctx, fixture_path(s->f, "file"), "newer", 5); }

static void find_file(stage *s, fl_status status)
{
    assert_text(s, "file", "old", "newer", status);
    assert_int_equal(entries(s->f->folder), disk.kind == DISK_ENDS && status ? entries(s->f->folder) : 1);
}

static void a_file(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){old_file, replace_file, find_file, 0, 5});
}

static fl_status write_snapshot(stage *s, const char *text)
{
    fli_saver *out = NULL;
    fl_status status = fli_saver_open(s->f->ctx, fixture_path(s->f, "snapshot"), &out);
    if (status) return status;
    fli_save_text(out, text);
    return fli_saver_close(out, NULL);
}

/* None of its calls fails unnoticed, not the one that closes the file either: some disks say only then that they are
 * full. */
static void a_snapshot(void **state)
{
    stage s = {*state};
    size_t k = 1;
    for (int reached = 1; reached; k++) {
        assert_ok(s.f->ctx, write_snapshot(&s, "old"));
        disk_begin(DISK_FAILS, k);
        fl_status status = write_snapshot(&s, "new");
        reached = disk_end();
        if (status != (reached ? FL_EIO : FL_OK)) fail_msg("call %zu fails: status %d", k, (int)status);
        fli_clear(s.f->ctx);
        assert_ok(s.f->ctx, fli_snapshot_check(s.f->ctx, fixture_path(s.f, "snapshot"), NULL));
    }
    assert_true(k > 8);
}

/* A folder is opened and flushed. Not all file systems can, and not all folders may be read: that is no failure. */
static void a_folder(void **state)
{
    static const struct {
        size_t call;
        int error;
        fl_status status;
    } cases[] = {{1, EACCES, FL_OK}, {1, EMFILE, FL_EIO}, {1, EIO, FL_EIO},    {2, EINVAL, FL_OK},
                 {2, EROFS, FL_OK},  {2, EIO, FL_EIO},    {2, ENOSPC, FL_EIO}, {2, EACCES, FL_EIO}};
    fixture *f = *state;
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        disk.error = cases[i].error;
        disk_begin(DISK_FAILS, cases[i].call);
        fl_status s = fli_sync_folder(f->ctx, f->folder);
        assert_true(disk_end());
        assert_int_equal(s, cases[i].status);
        snprintf(text, sizeof text, "%s: the names in it cannot be written: %s", f->folder, strerror(disk.error));
        assert_string_equal(fl_ctx_error(f->ctx), s ? text : "");
        fli_clear(f->ctx);
    }
    disk.error = 0;
}

/* ---- what a client keeps --------------------------------------------------------------------------------------- */

static const fli_digest digest = {{1}};

static fl_status with_keep(stage *s, fl_status (*act)(fli_client_store *))
{
    char folder[128];
    fli_client_store *k = NULL;
    snprintf(folder, sizeof folder, "%s/mine", s->f->folder);
    fl_status status = fli_client_store_open(s->f->ctx, folder, &k);
    if (!status) status = fli_client_store_run(k, &digest);
    if (!status) status = act(k);
    fli_client_store_close(k);
    return status;
}

static fl_status write_old(fli_client_store *k) { return fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "old", 3); }
static fl_status write_new(fli_client_store *k)
{
    return fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "newer", 5);
}

static void old_state(stage *s) { assert_ok(s->f->ctx, with_keep(s, write_old)); }
static fl_status new_state(stage *s) { return with_keep(s, write_new); }

static char kept[16];

static fl_status read_state(fli_client_store *k)
{
    unsigned char *p;
    size_t n;
    fl_status status = fli_client_store_read(k, FLI_CLIENT_STORE_STATE, &p, &n);
    if (!status) snprintf(kept, sizeof kept, "%.*s", (int)n, p ? (const char *)p : "");
    fli_free(p);
    return status;
}

static void find_state(stage *s, fl_status status)
{
    assert_ok(s->f->ctx, with_keep(s, read_state));
    if (strcmp(kept, "newer") && (!status || strcmp(kept, "old"))) fail_msg("the state is \"%s\"", kept);
}

static void a_state(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){old_state, new_state, find_state, 1, 8});
}

static fl_status put_aside(fli_client_store *k) { return fli_client_store_over(k); }
static fl_status end_run(stage *s) { return with_keep(s, put_aside); }

static void find_old_state(stage *s, fl_status status)
{
    (void)status;
    find_state(s, FL_EIO);
}

/* A run that is over is put aside, or not, and can be taken up again. */
static void a_run_that_is_over(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){old_state, end_run, find_old_state, 1, 5});
}

static void remove_state(stage *s) { fli_remove_folder(s->f->ctx, fixture_path(s->f, "mine")); }

static void find_new_state(stage *s, fl_status status)
{
    if (!status) find_state(s, FL_OK);
    if (status) remove_state(s);
}

/* With all the folders that it is in. */
static void the_first_state(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){remove_state, new_state, find_new_state, 1, 12});
}

static void old_run_is_over(stage *s)
{
    old_state(s);
    assert_ok(s->f->ctx, with_keep(s, put_aside));
}

static fl_status nothing(fli_client_store *k)
{
    (void)k;
    return FL_OK;
}

static fl_status take_up(stage *s) { return with_keep(s, nothing); }

static void a_run_that_is_taken_up(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){old_run_is_over, take_up, find_old_state, 1, 3});
}

/* ---- the roster ------------------------------------------------------------------------------------------------ */

static fl_status open_roster(stage *s, fli_roster **out)
{
    char file[128];
    snprintf(file, sizeof file, "%s/roster", s->f->folder);
    return fli_roster_open(s->f->ctx, &(fli_roster_spec){3, file, NULL}, out);
}

static fl_status enter(stage *s, fli_roster *r, const char *name, const char *card)
{
    uint32_t client;
    assert_ok(s->f->ctx, fli_roster_reserve(r, s->f->ctx, name, &client));
    fl_status status = fli_roster_enter(r, s->f->ctx, client, card, strlen(card));
    if (status) fli_roster_release(r, client);
    return status;
}

static void old_roster(stage *s)
{
    fli_roster *r;
    remove(fixture_path(s->f, "roster"));
    assert_ok(s->f->ctx, open_roster(s, &r));
    assert_ok(s->f->ctx, enter(s, r, "alice", "card of alice"));
    fli_roster_free(r);
}

/* A server goes on when one client could not be entered: another one comes, with a shorter line. */
static fl_status join_two(stage *s)
{
    fli_roster *r;
    s->bob = s->carol = 0;
    fl_status status = open_roster(s, &r), second, third;
    if (status) return status;
    s->bob = !(status = enter(s, r, "bob-with-a-long-name", "the long card of bob"));
    s->carol = !(second = enter(s, r, "carol", "c"));
    third = fli_roster_acknowledge(r, s->f->ctx, 0);
    fli_roster_free(r);
    return status ? status : second ? second : third;
}

static void find_clients(stage *s, fl_status status)
{
    fli_roster *r;
    int here = disk.kind != DISK_ENDS; /* otherwise another process knows */
    assert_ok(s->f->ctx, open_roster(s, &r));
    assert_int_equal(fli_roster_find(r, "alice"), 0);
    uint32_t bob = fli_roster_find(r, "bob-with-a-long-name"), carol = fli_roster_find(r, "carol");
    if (!status || (here && s->bob)) assert_int_not_equal(bob, FLI_NO_CLIENT);
    if (!status || (here && s->carol)) assert_int_not_equal(carol, FLI_NO_CLIENT);
    if (!status) assert_true(fli_roster_acknowledged(r, 0));
    fli_roster_free(r);
}

static void clients_that_join(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){old_roster, join_two, find_clients, 1, 6});
}

static void no_roster(stage *s) { remove(fixture_path(s->f, "roster")); }

static fl_status begin_roster(stage *s)
{
    fli_roster *r;
    fl_status status = open_roster(s, &r);
    fli_roster_free(r);
    return status;
}

static void find_roster(stage *s, fl_status status)
{
    fli_roster *r;
    size_t n = 0;
    char *text = read_whole(fixture_path(s->f, "roster"), &n);
    if (!status || text) assert_true(n && text[n - 1] == '\n');
    free(text);
    assert_ok(s->f->ctx, open_roster(s, &r));
    assert_int_equal(fli_roster_entered(r), 0);
    fli_roster_free(r);
    if (status) no_roster(s);
}

static void a_roster_that_begins(void **state)
{
    stage s = {*state};
    fails_everywhere(&s, &(scene){no_roster, begin_roster, find_roster, 1, 7});
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static const char old_seed[] = "\nseed: 1\n", new_seed[] = "\nseed: 2\n";

static fl_run *run_with(fixture *f, int seed)
{
    char set[256];
    snprintf(set, sizeof set, "output=%s/out;rounds=2;seed=%d", f->folder, seed);
    return run_done(f, SMALL, set);
}

static void clear(stage *s)
{
    nftw(fixture_path(s->f, "out"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    nftw(fixture_path(s->f, "out.checkpoint"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void old_result(stage *s)
{
    fl_run *run = run_with(s->f, 1);
    clear(s);
    assert_ok(s->f->ctx, fl_run_save(run));
    fl_run_free(run);
}

static void no_result(stage *s) { clear(s); }

static fl_status save(stage *s)
{
    fl_status status = fl_run_prepare_save(s->run, 1);
    return status ? status : fl_run_save(s->run);
}

/* A run that is to replace a result sees to what another one has left. */
static void restart(stage *s)
{
    char set[256];
    snprintf(set, sizeof set, "output=%s/out", s->f->folder);
    fl_run *run = run_new(s->f, SMALL, set);
    assert_ok(s->f->ctx, fl_run_prepare_save(run, 1));
    fl_run_free(run);
}

/* A folder that is there is a whole result, and nothing half-written is left beside it. */
static void find_result(stage *s, fl_status status)
{
    fli_manifest m;
    if (disk.kind == DISK_GONE && !fli_path_kind(fixture_path(s->f, "out")))
        assert_non_null(strstr(fl_ctx_error(s->f->ctx), "out.partial.old")); /* which says where the earlier one is */
    if (status && (disk.kind == DISK_GONE || disk.kind == DISK_ENDS)) restart(s);
    char *config = read_whole(fixture_path(s->f, "out/config.yaml"), NULL);
    assert_non_null(config);
    if (!strstr(config, new_seed) && (!status || !strstr(config, old_seed))) fail_msg("config.yaml: %s", config);
    free(config);
    fli_manifest_init(&m, s->f->ctx);
    assert_ok(s->f->ctx, fli_result_check(s->f->ctx, fixture_path(s->f, "out"), &m));
    fli_manifest_fini(&m);
    remove(fixture_path(s->f, "out.unfinished.csv"));
    if (disk.kind != DISK_ENDS) assert_int_equal(entries(s->f->folder), 2); /* and config.yaml */
}

static void find_result_or_none(stage *s, fl_status status)
{
    int here = fli_path_kind(fixture_path(s->f, "out"));
    if (!status) assert_true(here);
    if (here) find_result(s, FL_OK);
}

static void results_survive_every_failing_call(void **state)
{
    stage s = {.f = *state};
    s.run = run_with(s.f, 2);
    for (int exchange = 1; exchange >= 0; exchange--) {
        disk.no_exchange = !exchange;
        fails_everywhere(&s, &(scene){old_result, save, find_result, 1, 30});
    }
    disk.no_exchange = 0;
    fails_everywhere(&s, &(scene){no_result, save, find_result_or_none, 1, 30});
    fl_run_free(s.run);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

static const char often[] = "rounds=3;checkpoint_every=1;threads=1;seed=2;output=";

static fl_run *run_often(stage *s)
{
    char set[256];
    snprintf(set, sizeof set, "%s%s/out", often, s->f->folder);
    return run_new(s->f, SMALL, set);
}

static void stopped_run(stage *s)
{
    clear(s);
    fl_run *run = run_often(s);
    assert_ok(s->f->ctx, fl_run_prepare_save(run, 1));
    fl_run_stop(run);
    assert_ok(s->f->ctx, fl_run_go(run, NULL, NULL)); /* with a checkpoint */
    fl_run_free(run);
}

/* Goes on from the newest checkpoint, unless all is done. */
static fl_status resume(stage *s)
{
    char folder[128];
    fl_run *run = NULL;
    snprintf(folder, sizeof folder, "%s/out.checkpoint", s->f->folder);
    if (fli_path_kind(fixture_path(s->f, "out"))) return FL_OK;
    fl_config *cfg = fl_config_new(s->f->ctx);
    fl_status status = fl_config_resume(cfg, folder);
    if (!status) status = fl_run_resume(cfg, &run);
    if (!status) status = fl_run_prepare_save(run, 1);
    if (!status) status = fl_run_go(run, NULL, NULL);
    if (!status) status = fl_run_save(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return status;
}

static void find_run(stage *s, fl_status status)
{
    fl_model *model;
    fl_tensor t;
    const void *x;
    if (status && !fli_path_kind(fixture_path(s->f, "out"))) return; /* act goes on from the checkpoint */
    assert_ok(s->f->ctx, fl_model_load(s->f->ctx, fixture_path(s->f, "out/model.safetensors"), &model));
    for (size_t k = 0, at = 0; fl_model_tensor(model, k, &t, &x); k++) {
        size_t n = 1;
        for (size_t i = 0; i < t.dims; i++) n *= t.shape[i];
        for (size_t i = 0; i < n; i++) assert_true(((const float *)x)[i] == (float)s->like.model[at++]);
    }
    fl_model_free(model);
}

static void checkpoints_survive_every_failing_call(void **state)
{
    stage s = {.f = *state};
    fl_run *run = run_done(s.f, SMALL, "rounds=3;seed=2");
    s.like = outcome_of(run);
    fl_run_free(run);
    fails_everywhere(&s, &(scene){stopped_run, resume, find_run, 1, 60});
    outcome_free(&s.like);
}

int main(void)
{
    /* Files in memory: some file systems flush a file that replaces another, which happens thousands of times here. */
    if (!access("/dev/shm", W_OK | X_OK)) setenv("TMPDIR", "/dev/shm", 1);
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_file),
        FIXTURE_TEST(a_snapshot),
        FIXTURE_TEST(a_folder),
        FIXTURE_TEST(a_state),
        FIXTURE_TEST(a_run_that_is_over),
        FIXTURE_TEST(the_first_state),
        FIXTURE_TEST(a_run_that_is_taken_up),
        FIXTURE_TEST(clients_that_join),
        FIXTURE_TEST(a_roster_that_begins),
        FIXTURE_TEST(results_survive_every_failing_call),
        FIXTURE_TEST(checkpoints_survive_every_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
