/* A run over any number of ranks that is stopped goes on over any other, also in one process, and ends with the bits of
 * one that was never stopped: for every algorithm that is listed. And what is not whole is not taken. The ranks are
 * threads (team.h). */
#include "outcome.h"
#include "team.h"

#include "algo/algo.h"
#include "config/config.h"

#include <dirent.h>
#include <math.h>

static const char base[] =
    "rounds: 7\nthreads: 2\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, sigma: 1, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.05, uneven: range, range: [1, 3]}\nmodel: {kind: mlp, hidden: [5]}\n"
    "metrics: {gradient: true, every: 2, targets: [0.3, 0.99]}\n";

/* What a rank is to do, and what came out. */
typedef struct {
    const char *settings; /* assignments, separated by ';'; NULL: the run in `output` goes on */
    const char *output;
    size_t stop;     /* the last rank alone is asked to after this many rounds; SIZE_MAX: nobody is */
    const char *lay; /* where a link to a full disk lies from round 0 on; NULL: nowhere */
    int save;        /* the result, if there is one */
    fl_run *run;
    const fl_ranks *ranks;
    outcome out;
    size_t round;
    uint64_t bytes; /* of the last checkpoint */
    fl_status status;
    char why[1024], note[1024]; /* the error; the last warning, or word of state in a file */
} task;

enum { MOST = 4 };

static void keep_warning(void *arg, fl_log_level level, const char *line)
{
    if (level == FL_LOG_WARNING || strstr(line, "client state: "))
        snprintf(((task *)arg)->note, sizeof((task *)arg)->note, "%s", line);
}

static void keep_bytes(void *arg, const fl_checkpoint *c) { ((task *)arg)->bytes = c->bytes; }

static void look(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    task *t = arg;
    (void)run;
    (void)measured;
    if (fl_row_round(row) >= t->stop && t->ranks->rank == t->ranks->count - 1) fl_run_stop(t->run);
    if (t->lay && !fl_row_round(row) && !t->ranks->rank && symlink("/dev/full", t->lay)) abort();
}

static fl_status configure(task *t, fl_config *cfg)
{
    char text[1024], output[300], *save = NULL;
    fl_status s = fl_config_ranks(cfg, t->ranks);
    if (!t->settings) return s ? s : fl_config_resume(cfg, t->output);
    snprintf(text, sizeof text, "%s", t->settings);
    snprintf(output, sizeof output, "output=%s", t->output);
    if (!s) s = fl_config_text(cfg, base, "base");
    if (!s) s = fl_config_set(cfg, output);
    for (char *a = strtok_r(text, ";", &save); !s && a; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    return s;
}

static void make_run(const fl_ranks *ranks, void *arg)
{
    task *t = arg;
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = fl_config_new(ctx);
    t->ranks = ranks;
    fl_ctx_on_log(ctx, keep_warning, t);
    fl_status s = configure(t, cfg);
    if (!s) s = t->settings ? fl_run_new(cfg, &t->run) : fl_run_resume(cfg, &t->run);
    if (!s && t->save) s = fl_run_prepare_save(t->run, 0);
    if (!s) t->round = fl_run_round(t->run);
    if (!s) fl_run_on_checkpoint(t->run, keep_bytes, t);
    if (!s) s = fl_run_go(t->run, look, t);
    if (!s && t->save && fl_run_stopped_by(t->run) != FL_STOP_ASKED) s = fl_run_save(t->run);
    t->status = s;
    snprintf(t->why, sizeof t->why, "%s", fl_ctx_error(ctx));
    if (!s) t->out = outcome_of(t->run);
    fl_run_free(t->run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
}

/* As so many ranks; all of them must find the same. */
static task as_ranks(uint32_t ranks, task what)
{
    task tasks[MOST];
    void *args[MOST];
    for (uint32_t i = 0; i < ranks; i++) {
        tasks[i] = what;
        args[i] = &tasks[i];
    }
    team_run(ranks, make_run, args);
    for (uint32_t i = 1; i < ranks; i++) {
        if (tasks[i].status != tasks[0].status || strcmp(tasks[i].why, tasks[0].why) ||
            strcmp(tasks[i].note, tasks[0].note))
            fail_msg("%s: rank 0 says %d, %s %s; rank %u of %u %d, %s %s", what.settings, tasks[0].status, tasks[0].why,
                     tasks[0].note, i, ranks, tasks[i].status, tasks[i].why, tasks[i].note);
        if (!tasks[0].status && !same(&tasks[0].out, &tasks[i].out))
            fail_msg("%s: rank %u of %u has other bits than rank 0", what.settings, i, ranks);
        if (!tasks[i].status) outcome_free(&tasks[i].out);
    }
    return tasks[0];
}

/* What is not about bits: its outcome is not looked at. */
static task plain(uint32_t ranks, task what)
{
    task t = as_ranks(ranks, what);
    if (!t.status) outcome_free(&t.out);
    return t;
}

static void forget(fixture *f, const char *name)
{
    nftw(fixture_path(f, name), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static size_t files_in(const char *folder)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) n += e->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

/* ---- the same bits ----------------------------------------------------------------------------------------- */

/* The files of both results that have no wall-clock seconds, names or folders in them. */
static void same_files(fixture *f, const char *settings)
{
    static const char *const names[] = {"model.safetensors", "clients.csv"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 0, m = 0;
        char path[64];
        snprintf(path, sizeof path, "whole/%s", names[i]);
        char *x = read_whole(fixture_path(f, path), &n);
        snprintf(path, sizeof path, "out/%s", names[i]);
        char *y = read_whole(fixture_path(f, path), &m);
        if (!x || !y || n != m || memcmp(x, y, n)) fail_msg("%s: %s differs", settings, names[i]);
        free(x);
        free(y);
    }
}

/* Begun by the first number of ranks, continued by the second, and finished by the third. */
static void goes_on(fixture *f, const char *settings, const uint32_t ranks[3], const outcome *want)
{
    static const size_t stops[] = {2, 5, SIZE_MAX}; /* with a row of metrics, and without one */
    char output[200], text[700];
    task t = {0};
    snprintf(output, sizeof output, "%s/out", f->folder);
    snprintf(text, sizeof text, "%s;checkpoint_every=3", settings);
    for (size_t i = 0; i < 3; i++) {
        t = as_ranks(ranks[i], (task){i ? NULL : text, output, stops[i], NULL, 1});
        if (t.status) fail_msg("%s: over %u ranks: %s", settings, ranks[i], t.why);
        if (i && t.round != stops[i - 1]) fail_msg("%s: goes on after round %zu", settings, t.round);
        if (i < 2) outcome_free(&t.out);
    }
    if (!same(want, &t.out)) fail_msg("%s: over %u, %u, %u ranks: other bits", settings, ranks[0], ranks[1], ranks[2]);
    outcome_free(&t.out);
    same_files(f, settings);
    assert_int_equal(files_in(f->folder), 2);               /* the results: neither checkpoints nor a lock */
    assert_int_equal(files_in(output), 7 + (ranks[2] > 1)); /* ranks.csv */
    forget(f, "out");
}

/* The run in one process, never stopped. */
static outcome whole_run(fixture *f, const char *settings)
{
    char output[200];
    snprintf(output, sizeof output, "%s/whole", f->folder);
    task t = as_ranks(1, (task){settings, output, SIZE_MAX, NULL, 1});
    if (t.status) fail_msg("%s: %s", settings, t.why);
    return t.out;
}

static void every_algorithm(void **state)
{
    static const uint32_t ranks[][3] = {{1, 3, 2}, {2, 1, 4}, {3, 4, 1}, {4, 4, 3}, {2, 3, 3}, {1, 2, 2}, {4, 2, 1}};
    enum { CHAINS = sizeof ranks / sizeof *ranks };
    static const char *const budgets[] = {"auto", "1", "2KiB"};
    fixture *f = *state;
    size_t k = 0;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char text[512];
        snprintf(text, sizeof text, "algorithm=%s;participation=%s;precision=%s%s", (*a)->name,
                 (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", k % 2 ? "f64" : "f32",
                 levels_for(*a, "mlp"));
        outcome whole = whole_run(f, text);
        for (size_t i = 0; i < 2; i++, k++) {
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, ";memory=%s", budgets[k % 3]);
            goes_on(f, text, ranks[k % CHAINS], &whole);
            text[n] = 0;
        }
        outcome_free(&whole);
        forget(f, "whole");
    }
}

#define LINEAR                                                                                                         \
    "data={kind: linreg, clients: 12, features: 20, min_size: 10, max_size: 30};partition={};"                         \
    "model={kind: least_squares, weight_decay: 0.01};participation={kind: uniform, count: 5};metrics.targets=[];"
#define ON_DEMAND                                                                                                      \
    "data={kind: synthetic, on_demand: true, clients: 9, features: 5, classes: 3};partition={};metrics.targets=[];"

/* What solvers keep of clients; more ranks than clients; samples on demand, whose turns are taken anywhere;
 * several slices of the server. */
static void other_problems(void **state)
{
    static const char *const all[] = {
        "algorithm=scaffold;partition.clients=3;data.samples=60",
        "algorithm=fedavg;partition.clients=2;data.samples=60",
        LINEAR "algorithm={kind: fedgia, variant: gram, k0: 40, t: 0.001};precision=f64;stop.diverged=0",
        LINEAR "algorithm={kind: feddr, eta: 0.1, init: exact, solver: exact};regularizer={kind: l1, weight: 0.05}",
        LINEAR "algorithm={kind: asyncfeddr, eta: 0.1, solver: exact};regularizer={kind: l1, weight: 0.05}",
        "algorithm=fedvra-u;data.unlabelled=0.5;semi.labels=projected;semi.label_steps=3",
        "algorithm={kind: fedcpsl, mix: auto};data.unlabelled=0.5;semi.labels=projected;metrics.local=true;"
        "local.momentum=0.8",
        ON_DEMAND "algorithm=fedavg",
        ON_DEMAND "algorithm=scaffold",
        "algorithm={kind: fedbuff, buffer: 3, tau: 4};participation={kind: uniform, count: 5}",
        "algorithm=fednova;participation={kind: uniform, count: 5};model={kind: mlp, hidden: [3000]}",
    };
    static const uint32_t ranks[][3] = {{4, 1, 3}, {2, 4, 4}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        outcome whole = whole_run(f, all[i]);
        for (size_t k = 0; k < 2; k++) goes_on(f, all[i], ranks[k], &whole);
        outcome_free(&whole);
        forget(f, "whole");
    }
}

/* ---- files ------------------------------------------------------------------------------------------------- */

static const char scaffold[] =
    "algorithm=scaffold;participation=everyone;model=softmax;checkpoint_every=1;metrics.every=1";

static int exists(fixture *f, const char *name) { return !access(fixture_path(f, name), F_OK); }

static uint64_t bytes_of(fixture *f, const char *name)
{
    struct stat st;
    char path[64];
    snprintf(path, sizeof path, "out.checkpoint/%s", name);
    assert_int_equal(stat(fixture_path(f, path), &st), 0);
    return (uint64_t)st.st_size;
}

/* A run over three ranks that was stopped after four rounds, with the checkpoints 3 and 4. */
static void stopped(fixture *f, char output[200])
{
    snprintf(output, 200, "%s/out", f->folder);
    forget(f, "out.checkpoint");
    task t = plain(3, (task){scaffold, output, 4});
    if (t.status) fail_msg("%s", t.why);
    assert_int_equal(files_in(fixture_path(f, "out.checkpoint")), 7);
    assert_true(exists(f, "out.checkpoint/3.checkpoint") && exists(f, "out.checkpoint/3.2.checkpoint"));
    assert_int_equal(t.bytes,
                     bytes_of(f, "4.checkpoint") + bytes_of(f, "4.1.checkpoint") + bytes_of(f, "4.2.checkpoint"));
}

/* What may be wrong with a file: it has the contents of another one, or not all of its own, or a bit is wrong. */
typedef struct {
    const char *file, *contents;
    size_t cut, flip;
    const char *sentence;
} damage;

static void spoil(fixture *f, const damage *d)
{
    size_t n = 0;
    char path[64];
    snprintf(path, sizeof path, "out.checkpoint/%s", d->contents);
    char *bytes = read_whole(fixture_path(f, path), &n);
    assert_true(bytes && n > d->cut && n > d->flip);
    if (d->flip) bytes[d->flip] ^= 4;
    snprintf(path, sizeof path, "out.checkpoint/%s", d->file);
    FILE *out = fopen(fixture_path(f, path), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n - d->cut, out), n - d->cut);
    fclose(out);
    free(bytes);
}

/* Whatever is wrong with one file of the newest, the one before it is used, by as many ranks as there are. */
static void not_whole(void **state)
{
    static const damage all[] = {
        {"4.2.checkpoint", "4.2.checkpoint", 1, 0, "4.2.checkpoint: is damaged: it ends too early"},
        {"4.2.checkpoint", "4.2.checkpoint", 0, 60, "4.2.checkpoint: is damaged: a checksum is wrong"},
        {"4.1.checkpoint", "3.1.checkpoint", 0, 0, "4.1.checkpoint: is not the part that 4.checkpoint was made with"},
        {"4.2.checkpoint", "4.1.checkpoint", 0, 0, "4.2.checkpoint: is not the part that 4.checkpoint was made with"},
        {"4.checkpoint", "4.checkpoint", 1, 0, "4.checkpoint: is damaged: it ends too early"},
        {"4.checkpoint", "4.1.checkpoint", 0, 0, "4.checkpoint: was made by another version"},
    };
    enum { ALL = sizeof all / sizeof *all };
    fixture *f = *state;
    char output[200];
    for (size_t i = 0; i < ALL - 1; i++)
        for (uint32_t ranks = 1; ranks <= MOST; ranks += 3) {
            stopped(f, output);
            spoil(f, &all[i]);
            task t = plain(ranks, (task){NULL, output, 3});
            if (t.status) fail_msg("%s", t.why);
            assert_int_equal(t.round, 3);
            if (!strstr(t.note, all[i].sentence) || !strstr(t.note, "; the one before it is used"))
                fail_msg("%s", t.note);
        }
    stopped(f, output);
    spoil(f, &all[ALL - 1]); /* whole, and something else */
    assert_non_null(strstr(plain(2, (task){NULL, output, 3}).why, all[ALL - 1].sentence));
}

static void missing_files_lead_to_older_checkpoints(void **state)
{
    fixture *f = *state;
    char output[200];
    stopped(f, output);
    assert_int_equal(unlink(fixture_path(f, "out.checkpoint/4.1.checkpoint")), 0);
    task t = plain(2, (task){NULL, output, 3});
    if (t.status) fail_msg("%s", t.why);
    assert_int_equal(t.round, 3);
    assert_non_null(strstr(t.note, "4.1.checkpoint: cannot be read: No such file or directory; the one before it"));
    stopped(f, output);
    assert_int_equal(unlink(fixture_path(f, "out.checkpoint/4.1.checkpoint")), 0);
    assert_int_equal(unlink(fixture_path(f, "out.checkpoint/3.2.checkpoint")), 0);
    t = plain(3, (task){NULL, output, 3});
    assert_int_equal(t.status, FL_EFORMAT);
    assert_non_null(strstr(t.why, "out.checkpoint: there is no complete checkpoint in it"));
    forget(f, "out.checkpoint");
    t = plain(3, (task){NULL, output, 3});
    assert_int_equal(t.status, FL_EIO);
    assert_non_null(strstr(t.why, "out.checkpoint: there are no checkpoints to continue from"));
}

/* Those of the newest two numbers stay, of however many ranks; what killed writers left is no checkpoint. */
static void old_ones_go(void **state)
{
    fixture *f = *state;
    char output[200];
    stopped(f, output);
    fixture_write(f, "out.checkpoint/5.1.checkpoint", "a part without a whole");
    fixture_write(f, "out.checkpoint/5.2.checkpoint.tmp", "half of a part");
    task t = plain(1, (task){NULL, output, 4});
    assert_int_equal(t.round, 4);
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, output));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    assert_ok(f->ctx, fl_run_checkpoint(run));
    assert_true(exists(f, "out.checkpoint/5.checkpoint") && exists(f, "out.checkpoint/4.2.checkpoint"));
    assert_false(exists(f, "out.checkpoint/3.checkpoint") || exists(f, "out.checkpoint/3.1.checkpoint"));
    assert_ok(f->ctx, fl_run_checkpoint(run));
    assert_ok(f->ctx, fl_run_checkpoint(run)); /* settings, two checkpoints in one file each, and what was half done */
    assert_int_equal(files_in(fixture_path(f, "out.checkpoint")), 4);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    assert_false(exists(f, "out.checkpoint"));
    fl_run_free(run);
    fl_config_free(cfg);
}

/* The disk of one rank is full: there is no checkpoint, all say so alike, and nothing is left of it. */
static void full_disk(void **state)
{
    static const char *const names[] = {"1.2.checkpoint", "1.checkpoint"};
    fixture *f = *state;
    char output[100], lay[200], sentence[300], settings[200];
    snprintf(settings, sizeof settings, "%s;rounds=2", scaffold);
    for (size_t i = 0; i < 2; i++) {
        snprintf(output, sizeof output, "%s/out", f->folder);
        snprintf(lay, sizeof lay, "%s.checkpoint/%s.tmp", output, names[i]);
        snprintf(sentence, sizeof sentence,
                 "no checkpoint after round 1: %s.checkpoint/%s: cannot be written: No space", output, names[i]);
        task t = plain(3, (task){settings, output, SIZE_MAX, lay}); /* after the second round there is none anyway */
        if (t.status) fail_msg("%s", t.why);
        if (!strstr(t.note, sentence)) fail_msg("%s", t.note);
        assert_int_equal(files_in(fixture_path(f, "out.checkpoint")), 1); /* the settings */
        forget(f, "out.checkpoint");
    }
}

/* Killed after the result was there: rank 0 removes what is left, and all know that there is nothing to do. */
static void a_finished_run_is_not_repeated(void **state)
{
    fixture *f = *state;
    char output[200], kept[200];
    stopped(f, output);
    assert_int_equal(plain(2, (task){NULL, output, SIZE_MAX, NULL, 1}).status, FL_OK);
    snprintf(kept, sizeof kept, "%s/kept", f->folder);
    assert_int_equal(rename(output, kept), 0);
    stopped(f, output);
    assert_int_equal(rename(kept, output), 0);
    task t = plain(3, (task){NULL, output, SIZE_MAX});
    assert_int_equal(t.status, FL_EDONE);
    assert_non_null(strstr(t.why, "out: is finished already"));
    assert_int_equal(files_in(f->folder), 1);
}

/* Only one run at a time works for an output, of however many ranks. */
static void one_at_a_time(void **state)
{
    fixture *f = *state;
    char output[200];
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    stopped(f, output);
    assert_ok(f->ctx, fl_config_resume(cfg, output));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    assert_int_equal(plain(3, (task){NULL, output, SIZE_MAX}).status, FL_EBUSY);
    fl_run_free(run);
    fl_config_free(cfg);
}

/* A run that diverges leaves its metrics once, and all ranks say where. */
static void a_diverged_run_leaves_its_metrics(void **state)
{
    fixture *f = *state;
    char output[200];
    snprintf(output, sizeof output, "%s/out", f->folder);
    task t = plain(3, (task){"algorithm=fedavg;local.lr=1e30;metrics.every=1", output, SIZE_MAX, NULL, 1});
    assert_int_equal(t.status, FL_EDIVERGED);
    assert_non_null(strstr(t.why, "the metrics so far are in "));
    assert_int_equal(files_in(f->folder), 1);
}

/* How much state there is in files is said once, of all ranks together. */
static void spilled_state(void **state)
{
    fixture *f = *state;
    char output[200], text[200];
    double want = NAN;
    snprintf(output, sizeof output, "%s/out", f->folder);
    snprintf(text, sizeof text,
             "algorithm=scaffold;participation=everyone;partition.clients=5;rounds=2;model.hidden=[20000];"
             "memory=1;threads=1");
    for (uint32_t ranks = 1; ranks <= 3; ranks += 2) {
        double held = 0, away = 0;
        task t = plain(ranks, (task){text, output, SIZE_MAX});
        if (t.status || sscanf(t.note, "client state: %lf MiB in memory, %lf MiB in a", &held, &away) != 2)
            fail_msg("%u ranks: %s %s", ranks, t.why, t.note);
        if (isnan(want)) want = held + away;
        assert_true(held > 0 && away > 0 && held + away < want * 1.5 && held + away > want * 0.5);
    }
}

/* ---- what a program looks at --------------------------------------------------------------------------------- */

typedef struct {
    fixture *f;
    const char *settings;
    double sum[12 * 2]; /* of a client's vector, and its scalar */
    fl_status status;
} looks;

static double sum_of(const fl_vector *v)
{
    double sum = 0;
    for (size_t i = 0; v->data && i < v->n; i++) sum += (double)(1 + i) * ((const double *)v->data)[i];
    return sum;
}

static void look_at_clients(const fl_ranks *ranks, void *arg)
{
    looks *l = arg;
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    char name[64], path[200];
    fl_vector v;
    task t = {.settings = l->settings, .output = "", .ranks = ranks};
    fl_status s = configure(&t, cfg);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    for (size_t i = 0; !s && i < 12; i++) {
        if (fl_run_client_vector(run, i, 0, &v) != 1) s = FL_EFORMAT;
        if (!s) l->sum[2 * i] = sum_of(&v);
        if (!s && fl_run_client_scalars(run, i, &l->sum[2 * i + 1], 1) == SIZE_MAX) s = FL_EFORMAT;
    }
    snprintf(name, sizeof name, "model%u", ranks->rank);
    snprintf(path, sizeof path, "%s/%s", l->f->folder, name);
    if (!s) s = fl_run_save_model(run, path);
    l->status = s;
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
}

/* Every rank sees what any client keeps; rank 0 alone writes the model. */
static void everybody_sees(void **state)
{
    static const char *const all[] = {"algorithm=scaffold;precision=f64;participation={kind: uniform, count: 3}",
                                      "algorithm=apfl;precision=f64;participation={kind: uniform, count: 3}"};
    fixture *f = *state;
    for (size_t k = 0; k < 2; k++) {
        looks one = {f, all[k]}, many[MOST];
        void *args[MOST], *alone = &one;
        team_run(1, look_at_clients, &alone);
        assert_int_equal(one.status, FL_OK);
        for (size_t i = 0; i < MOST; i++) {
            many[i] = (looks){f, all[k]};
            args[i] = &many[i];
        }
        team_run(MOST, look_at_clients, args);
        for (size_t i = 0; i < MOST; i++) {
            assert_int_equal(many[i].status, FL_OK);
            assert_memory_equal(many[i].sum, one.sum, sizeof one.sum);
        }
        assert_int_equal(files_in(f->folder), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),
        FIXTURE_TEST(other_problems),
        FIXTURE_TEST(not_whole),
        FIXTURE_TEST(missing_files_lead_to_older_checkpoints),
        FIXTURE_TEST(old_ones_go),
        FIXTURE_TEST(full_disk),
        FIXTURE_TEST(a_finished_run_is_not_repeated),
        FIXTURE_TEST(one_at_a_time),
        FIXTURE_TEST(a_diverged_run_leaves_its_metrics),
        FIXTURE_TEST(spilled_state),
        FIXTURE_TEST(everybody_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
