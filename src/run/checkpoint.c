#include "run/checkpoint.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "run/folder.h"
#include "run/on_device.h"
#include "run/standing.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char suffix[] = ".checkpoint", config_name[] = "config.yaml", config_new[] = "config.yaml.tmp";

/* ---- the contents -------------------------------------------------------------------------------------- */

/* What the rest of the file relies on. */
enum { SIZES = 2 };
static void sizes_of(const fl_run *run, uint64_t sizes[SIZES])
{
    const fli_space *space = &run->plan.model->space;
    const uint64_t all[SIZES] = {space->n, space->ops->size};
    memcpy(sizes, all, sizeof all);
}

static fl_status print_settings(const fl_run *run, fli_text *text)
{
    fli_settings_print_essence(text, &run->plan.settings);
    return fli_text_ok(text);
}

/* The metrics of a row, in their order: rows are of no use to a build that has others. */
static fl_status print_metrics(const fl_run *run, fli_text *text)
{
    fli_columns c = fli_columns_of(run->plan.model);
    for (size_t k = 0; k < c.n; k++) fli_text_addf(text, "%s%s", k ? "," : "", fli_metric_at(c.at[k])->is.name);
    return fli_text_ok(text);
}

static void save_row(const fl_row *row, const fli_columns *c, fli_saver *out)
{
    double value[FL_METRICS_MAX];
    for (size_t k = 0; k < c->n; k++) value[k] = row->value[c->at[k]];
    fli_save_bytes(out, value, c->n * sizeof *value);
}

static void load_row(fl_row *row, const fli_columns *c, fli_loader *in)
{
    double value[FL_METRICS_MAX];
    fli_load_bytes(in, value, c->n * sizeof *value);
    fli_row_clear_own(row);
    for (size_t k = 0; k < c->n; k++) row->value[c->at[k]] = value[k];
}

static void save_progress(const fl_run *run, fli_saver *out)
{
    size_t targets = run->plan.settings.metrics.targets.n;
    fli_columns c = fli_columns_of(run->plan.model);
    fli_save_part(out, "progress");
    fli_save_count(out, run->round);
    fli_save_count(out, run->empty);
    fli_save_count(out, run->warm != 0);
    fli_save_count(out, run->news != 0);
    fli_save_real(out, run->arrived);
    fli_save_real(out, run->ages);
    fli_save_real(out, run->oldest);
    for (size_t i = 0; i < targets; i++) fli_save_count(out, run->target_round[i]);
    fli_save_bytes(out, &run->counts, sizeof run->counts);
    save_row(&run->now, &c, out);
    fli_save_count(out, run->row_count);
    for (size_t i = 0; i < run->row_count; i++) save_row(&run->rows[i], &c, out);
}

static fl_status save(fl_run *run, const char *path)
{
    uint64_t sizes[SIZES];
    fli_text settings, metrics;
    fli_saver *out = NULL;
    fli_text_init(&settings, run->ctx);
    fli_text_init(&metrics, run->ctx);
    fl_status s = print_settings(run, &settings);
    if (!s) s = print_metrics(run, &metrics);
    if (!s) s = fli_saver_open(run->ctx, path, &out);
    if (s) goto done;
    sizes_of(run, sizes);
    fli_save_text(out, FL_VERSION);
    fli_save_text(out, fli_text_get(&settings));
    fli_save_text(out, fli_text_get(&metrics));
    fli_save_bytes(out, run->plan.data.byte, sizeof run->plan.data.byte);
    fli_save_bytes(out, sizes, sizeof sizes);
    fli_save_bytes(out, run->kernels, sizeof run->kernels);
    save_progress(run, out);
    fli_exec_save(run->exec, out);
    if (run->async) fli_async_save(run->async, out);
    s = fli_saver_close(out);
done:
    fli_text_fini(&settings);
    fli_text_fini(&metrics);
    return s;
}

static fl_status load_rows(fl_run *run, fli_loader *in)
{
    enum { PIECE = 1024 };
    fl_status s = fli_loader_status(in);
    fli_columns c = fli_columns_of(run->plan.model);
    size_t count = (size_t)fli_load_count(in, run->round + 1);
    while (!s && run->row_count < count) {
        size_t more = count - run->row_count < PIECE ? count - run->row_count : PIECE;
        if (run->row_count + more > run->row_capacity) {
            size_t room = 2 * (run->row_count + more);
            if ((s = fli_grow(run->ctx, (void **)&run->rows, run->row_count, room, sizeof *run->rows))) return s;
            run->row_capacity = room;
        }
        for (size_t i = 0; i < more; i++) load_row(&run->rows[run->row_count++], &c, in);
        s = fli_loader_status(in);
    }
    return s;
}

static fl_status load_progress(fl_run *run, fli_loader *in)
{
    size_t targets = run->plan.settings.metrics.targets.n;
    fli_columns c = fli_columns_of(run->plan.model);
    fli_load_part(in, "progress");
    run->round = (size_t)fli_load_count(in, (uint64_t)run->plan.settings.top.rounds);
    run->empty = (size_t)fli_load_count(in, run->round);
    run->warm = (int)fli_load_count(in, 1);
    run->news = (int)fli_load_count(in, 1);
    run->arrived = fli_load_real(in);
    run->ages = fli_load_real(in);
    run->oldest = fli_load_real(in);
    for (size_t i = 0; i < targets; i++) run->target_round[i] = (size_t)fli_load_count(in, SIZE_MAX);
    fli_load_bytes(in, &run->counts, sizeof run->counts);
    load_row(&run->now, &c, in);
    return load_rows(run, in);
}

/* Whether it is one of those, which are separated by semicolons. */
static int lists(const char *those, const char *one)
{
    size_t n = strlen(one);
    for (const char *at = those; at; at = strstr(at, "; ") ? strstr(at, "; ") + 2 : NULL)
        if (!strncmp(at, one, n) && (!at[n] || !strncmp(at + n, "; ", 2))) return 1;
    return 0;
}

/* Another processor or device may go on with a run, but not to the same bits. */
static void load_kernels(fl_run *run, fli_loader *in)
{
    char before[sizeof run->kernels], now[FLI_COMPUTED_WITH];
    fli_run_computed_with(run, now);
    fli_load_bytes(in, before, sizeof before);
    before[sizeof before - 1] = 0;
    if (fli_loader_status(in) || !strcmp(before, now)) return;
    fli_log(run->ctx, FL_LOG_WARNING,
            "the run was begun with kernels for %s and goes on with those for %s: its last digits will not be those of "
            "a run that was never stopped",
            before, now);
    if (lists(before, now))
        memcpy(run->kernels, before, sizeof before);
    else
        fli_snprintf(run->kernels, sizeof run->kernels, "%s; %s", before, now);
}

static fl_status load(fl_run *run, const char *path)
{
    uint64_t sizes[SIZES];
    fli_digest data;
    fli_text settings, metrics;
    fli_loader *in = NULL;
    fli_text_init(&settings, run->ctx);
    fli_text_init(&metrics, run->ctx);
    fl_status s = print_settings(run, &settings);
    if (!s) s = print_metrics(run, &metrics);
    if (!s) s = fli_loader_open(run->ctx, path, &in);
    if (s) goto done;
    sizes_of(run, sizes);
    fli_load_same(in, FL_VERSION, "was made by another version of fedloom than this one, " FL_VERSION);
    fli_load_same(in, fli_text_get(&settings), "was made with other settings than those of this run");
    fli_load_same(in, fli_text_get(&metrics), "was made by a fedloom that has other metrics than this one");
    fli_load_bytes(in, data.byte, sizeof data.byte);
    if (!fli_digest_same(&data, &run->plan.data))
        fli_loader_refuse(in, "was made from other data: values, labels, who holds what or a trace have changed since");
    for (size_t i = 0; i < SIZES; i++)
        fli_load_equal(in, sizes[i], "was made with a model of another size than this run's");
    load_kernels(run, in);
    s = load_progress(run, in);
    if (!s) s = fli_exec_load(run->exec, in);
    if (!s && run->async) s = fli_async_load(run->async, in);
    if (!s) s = fli_loader_end(in);
done:
    fli_loader_close(in);
    fli_text_fini(&settings);
    fli_text_fini(&metrics);
    return s;
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

/* The number of "17.checkpoint"; 0 for any other name. */
static size_t number_of(const char *name)
{
    char *end;
    size_t n = *name >= '1' && *name <= '9' ? (size_t)strtoull(name, &end, 10) : 0;
    return n && !strcmp(end, suffix) ? n : 0;
}

static int is_ours(const char *name)
{
    size_t n = strlen(name), tail = strlen(".tmp");
    char whole[64];
    if (number_of(name) || !strcmp(name, config_name) || !strcmp(name, config_new) || !strcmp(name, ".") ||
        !strcmp(name, ".."))
        return 1;
    if (n <= tail || n >= sizeof whole || strcmp(name + n - tail, ".tmp")) return 0;
    fli_snprintf(whole, sizeof whole, "%.*s", (int)(n - tail), name); /* of a run that was killed */
    return number_of(whole) != 0;
}

/* The largest number below `limit`, 0 if there is none. *alien, unless NULL: something else is in the folder. */
static size_t newest(const char *folder, size_t limit, int *alien)
{
    size_t best = 0;
    DIR *dir = opendir(folder);
    if (alien) *alien = 0;
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = number_of(e->d_name);
        if (n > best && n < limit) best = n;
        if (alien && !is_ours(e->d_name)) *alien = 1;
    }
    closedir(dir);
    return best;
}

static fl_status check_readable(fl_ctx *ctx, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", folder, strerror(errno));
    closedir(dir);
    return FL_OK;
}

static char *file_name(const fl_run *run, size_t number)
{
    return fli_strf(run->ctx, "%s/%zu%s", run->checkpoints, number, suffix);
}

/* Where the checkpoints of a result lie. */
static char *folder_of(fl_ctx *ctx, const char *output)
{
    return fli_strf(ctx, "%.*s%s", (int)fli_path_length(output), output, suffix);
}

/* Names the folder, if it has no name yet. */
static fl_status name_folder(fl_run *run)
{
    const char *output = fl_run_output(run);
    if (run->checkpoints) return FL_OK;
    if (run->plan.settings.top.clock == FLI_CLOCK_REAL && !run->plan.mailbox)
        return fli_fail(run->ctx, FL_ECONFIG, "clock is real: such a run cannot be repeated, so it has no checkpoints");
    if (!*output) return fli_fail(run->ctx, FL_ECONFIG, "output is empty: checkpoints are kept beside it");
    run->checkpoints = folder_of(run->ctx, output);
    return run->checkpoints ? FL_OK : FL_ENOMEM;
}

static fl_status write_config(fl_run *run)
{
    fli_text text;
    char *path = fli_strf(run->ctx, "%s/%s", run->checkpoints, config_name);
    fli_text_init(&text, run->ctx);
    fli_settings_print(&text, &run->plan.settings);
    fl_status s = path ? fli_text_ok(&text) : FL_ENOMEM;
    if (!s) s = fli_file_replace(run->ctx, path, fli_text_get(&text), text.n);
    fli_text_fini(&text);
    fli_free(path);
    return s;
}

fl_status fli_checkpoint_discard(fl_run *run, int replace)
{
    const char *output = fl_run_output(run);
    if (run->checkpoints_ready) return FL_OK;
    char *folder = folder_of(run->ctx, output);
    if (!folder) return FL_ENOMEM;
    fl_status s = FL_OK;
    if (newest(folder, SIZE_MAX, NULL) && !replace)
        s = fli_fail(
            run->ctx, FL_EIO,
            "%s: has checkpoints of an earlier run; `fedloom resume` continues from them, or ask to replace them "
            "(--force)",
            folder);
    fli_free(folder);
    return s ? s : fli_checkpoint_clear(run->ctx, output);
}

fl_status fli_checkpoint_prepare(fl_run *run, int replace)
{
    int alien;
    fl_status s = name_folder(run);
    if (!s) s = fli_folder_lock(run);
    if (s || run->checkpoints_ready) return s;
    const char *folder = run->checkpoints;
    newest(folder, SIZE_MAX, &alien);
    if (alien)
        return fli_fail(run->ctx, FL_EIO, "%s: is not used for checkpoints, because something else is in it", folder);
    if ((s = fli_checkpoint_discard(run, replace)) || (s = fli_make_folders(run->ctx, folder))) return s;
    s = write_config(run);
    run->checkpoints_ready = !s;
    return s;
}

fl_status fli_checkpoint_remove(fl_run *run)
{
    if (!run->checkpoints_ready) return FL_OK;
    run->checkpoints_ready = 0;
    return fli_checkpoint_clear(run->ctx, fl_run_output(run));
}

fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output)
{
    int alien;
    char *folder = folder_of(ctx, output);
    if (!folder) return FL_ENOMEM;
    newest(folder, 0, &alien);
    fl_status s = alien || fli_path_kind(folder) != 1 ? FL_OK : fli_remove_folder(ctx, folder);
    fli_free(folder);
    return s;
}

/* ---- writing one ----------------------------------------------------------------------------------------- */

/* All but the one just written and the one before it, which is known to be whole. */
static fl_status remove_others(fl_run *run, size_t number)
{
    for (size_t n = number; (n = newest(run->checkpoints, n, NULL));) {
        if (n == run->checkpoint) continue;
        char *path = file_name(run, n);
        if (!path) return FL_ENOMEM;
        unlink(path);
        fli_free(path);
    }
    return FL_OK;
}

static fl_status write_next(fl_run *run, uint64_t *bytes)
{
    struct stat file;
    fl_status s = fli_checkpoint_prepare(run, 0);
    if (s) return s;
    size_t number = newest(run->checkpoints, SIZE_MAX, NULL) + 1;
    char *path = file_name(run, number);
    s = path ? save(run, path) : FL_ENOMEM;
    if (!s && !stat(path, &file)) *bytes = (uint64_t)file.st_size;
    if (!s) s = remove_others(run, number);
    if (!s) {
        run->checkpoint = number;
        run->checkpoint_round = run->round;
    }
    fli_free(path);
    return s;
}

void fl_run_on_checkpoint(fl_run *run, fl_checkpoint_fn *fn, void *arg)
{
    run->told = fn;
    run->told_arg = arg;
}

fl_status fl_run_checkpoint(fl_run *run)
{
    fl_checkpoint c = {.size = sizeof c, .round = run->round};
    double begun = fli_clock_now();
    fli_clear(run->ctx);
    c.status = write_next(run, &c.bytes);
    c.seconds = fli_clock_now() - begun;
    c.why = c.status ? fl_ctx_error(run->ctx) : "";
    if (run->told) run->told(run->told_arg, &c);
    return c.status;
}

/* Whether this is a round of which there is to be one. Clients that are elsewhere may have had a turn before the first
 * round. */
static int is_due(const fl_run *run)
{
    return run->plan.mailbox || (run->round && run->round % (size_t)run->plan.settings.top.checkpoint_every == 0);
}

fl_status fli_checkpoint_due(fl_run *run, int asked)
{
    const fli_top_settings *top = &run->plan.settings.top;
    int never = !top->checkpoint_every || run->checkpoint_round == run->round;
    if (never || run->round >= (size_t)top->rounds || !(asked || is_due(run))) return FL_OK;
    fl_status s = fl_run_checkpoint(run);
    if (s != FL_EIO || run->plan.mailbox) return s;
    fli_log(run->ctx, FL_LOG_WARNING, "no checkpoint after round %zu: %s", run->round, fl_ctx_error(run->ctx));
    fli_clear(run->ctx);
    return FL_OK;
}

/* ---- going on from one ----------------------------------------------------------------------------------- */

/* The newest file that is whole. */
static fl_status find_whole(fl_run *run, size_t *number, char **path)
{
    for (size_t n = SIZE_MAX; (n = newest(run->checkpoints, n, NULL));) {
        if (!(*path = file_name(run, n))) return FL_ENOMEM;
        fl_status s = fli_snapshot_check(run->ctx, *path);
        *number = n;
        if (!s || s == FL_ENOMEM) return s;
        fli_log(run->ctx, FL_LOG_WARNING, "%s; the one before it is used", fl_ctx_error(run->ctx));
        fli_clear(run->ctx);
        fli_free(*path);
        *path = NULL;
    }
    return fli_fail(run->ctx, FL_EFORMAT, "%s: there is no complete checkpoint in it", run->checkpoints);
}

int fli_checkpoint_exists(fl_run *run)
{
    return run->plan.settings.top.checkpoint_every && !name_folder(run) && newest(run->checkpoints, SIZE_MAX, NULL);
}

/* A run that was killed between putting its result in place and removing its checkpoints has nothing left to do. */
fl_status fli_checkpoint_check_finished(fl_run *run)
{
    fli_standing standing;
    const char *output = fl_run_output(run);
    fl_status s = fli_standing_find(run->ctx, output, &run->plan.settings, &run->plan.data, &standing);
    if (s || standing != FLI_STANDS_SAME) return s;
    if ((s = fli_checkpoint_clear(run->ctx, output))) return s;
    return fli_fail(run->ctx, FL_EDONE, "%s: is finished already; what was left of its checkpoints is removed", output);
}

fl_status fli_checkpoint_take(fl_run *run)
{
    char *path = NULL;
    size_t number = 0;
    fl_status s = name_folder(run);
    if (!s) s = fli_folder_lock(run);
    if (!s) s = fli_checkpoint_check_finished(run);
    if (!s && fli_path_kind(run->checkpoints) != 1)
        s = fli_fail(run->ctx, FL_EIO, "%s: there are no checkpoints to continue from", run->checkpoints);
    if (!s) s = check_readable(run->ctx, run->checkpoints);
    if (!s && newest(run->checkpoints, SIZE_MAX, NULL)) {
        if (!(s = find_whole(run, &number, &path))) s = load(run, path);
        fli_free(path);
        /* asks to clients that are elsewhere have new numbers from here on, and the next start must know them */
        if (!run->plan.mailbox) run->checkpoint_round = run->round;
    }
    run->checkpoint = number; /* 0: it ended before the first one, and begins again */
    run->checkpoints_ready = !s;
    return s;
}

fl_status fl_run_resume(fl_config *cfg, fl_run **out)
{
    fl_run *run = NULL;
    fl_status s = fl_run_new(cfg, &run);
    if (!s) s = fli_checkpoint_take(run);
    if (s)
        fl_run_free(run);
    else
        *out = run;
    return s;
}

/* "runs/a.checkpoint/" and "runs/a" both mean the result runs/a. */
static size_t result_length(const char *folder)
{
    size_t n = fli_path_length(folder), tail = strlen(suffix);
    return n > tail && !strncmp(folder + n - tail, suffix, tail) ? n - tail : n;
}

/* Says why the configuration of a run's checkpoints is not there: also a folder that may not be entered hides it. */
static fl_status no_config(fl_ctx *ctx, const char *output)
{
    struct stat st;
    char *folder = folder_of(ctx, output);
    int hidden = folder && lstat(folder, &st) && errno != ENOENT && errno != ENOTDIR;
    fl_status s = !folder ? FL_ENOMEM : hidden || fli_path_kind(folder) == 1 ? check_readable(ctx, folder) : FL_OK;
    fli_free(folder);
    return s ? s : fli_fail(ctx, FL_EIO, "%s%s: there are no checkpoints to continue from", output, suffix);
}

fl_status fl_config_resume(fl_config *cfg, const char *folder)
{
    fli_clear(cfg->ctx);
    int n = (int)result_length(folder);
    char *path = fli_strf(cfg->ctx, "%.*s%s/%s", n, folder, suffix, config_name);
    char *output = fli_strf(cfg->ctx, "%.*s", n, folder);
    fl_status s = path && output ? FL_OK : FL_ENOMEM;
    if (!s && !fli_path_kind(path)) s = no_config(cfg->ctx, output);
    if (!s) s = fl_config_load(cfg, path);
    if (!s) {
        fli_node *node = fli_node_new(&cfg->arena, FLI_NODE_SCALAR, "output", output);
        if (node)
            fli_node_put(cfg->root, node);
        else
            s = FL_ENOMEM;
    }
    fli_free(path);
    fli_free(output);
    return s;
}
