#include "run/checkpoint.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char suffix[] = ".checkpoint", config_name[] = "config.yaml", config_new[] = "config.yaml.tmp";

/* ---- the contents -------------------------------------------------------------------------------------- */

/* The settings, but for those that do not change a bit of the result. */
static fl_status print_settings(const fl_run *run, fli_text *text)
{
    static char nothing[] = "";
    fli_settings s = run->plan.settings;
    s.top.threads = s.top.memory = s.top.checkpoint_every = 0;
    s.top.name = s.top.output = nothing;
    fli_settings_print(text, &s);
    return fli_text_ok(text);
}

/* Figures of the data and the model, by which another version of a data file is noticed. */
enum { SIZES = 9 };
static void sizes_of(const fl_run *run, uint64_t sizes[SIZES])
{
    const fli_fed *f = run->plan.fed;
    const fli_space *space = &run->plan.model->space;
    const uint64_t all[SIZES] = {f->clients, f->samples,       f->dim,
                                 f->classes, f->largest,       f->test ? f->test->n : 0,
                                 space->n,   space->ops->size, sizeof(fl_row)};
    memcpy(sizes, all, sizeof all);
}

static void save_progress(const fl_run *run, fli_saver *out)
{
    size_t targets = run->plan.settings.metrics.targets.n;
    fli_save_part(out, "progress");
    fli_save_count(out, run->round);
    fli_save_count(out, run->empty);
    fli_save_count(out, run->warm != 0);
    fli_save_count(out, run->news != 0);
    fli_save_real(out, run->arrived);
    fli_save_real(out, run->ages);
    fli_save_real(out, run->oldest);
    for (size_t i = 0; i < targets; i++) fli_save_count(out, run->target_round[i]);
    fli_save_bytes(out, &run->now, sizeof run->now);
    fli_save_count(out, run->row_count);
    fli_save_bytes(out, run->rows, run->row_count * sizeof *run->rows);
}

static fl_status save(fl_run *run, const char *path)
{
    uint64_t sizes[SIZES];
    fli_text settings;
    fli_saver *out = NULL;
    fli_text_init(&settings, run->ctx);
    fl_status s = print_settings(run, &settings);
    if (!s) s = fli_saver_open(run->ctx, path, &out);
    if (s) goto done;
    sizes_of(run, sizes);
    fli_save_text(out, FL_VERSION);
    fli_save_text(out, fli_text_get(&settings));
    fli_save_bytes(out, sizes, sizeof sizes);
    save_progress(run, out);
    fli_exec_save(run->exec, out);
    if (run->async) fli_async_save(run->async, out);
    s = fli_saver_close(out);
done:
    fli_text_fini(&settings);
    return s;
}

static fl_status load_rows(fl_run *run, fli_loader *in)
{
    enum { PIECE = 1024 };
    fl_status s = fli_loader_status(in);
    size_t count = (size_t)fli_load_count(in, run->round + 1);
    while (!s && run->row_count < count) {
        size_t more = count - run->row_count < PIECE ? count - run->row_count : PIECE;
        if (run->row_count + more > run->row_capacity) {
            size_t room = 2 * (run->row_count + more);
            if ((s = fli_grow(run->ctx, (void **)&run->rows, run->row_count, room, sizeof *run->rows))) return s;
            run->row_capacity = room;
        }
        fli_load_bytes(in, run->rows + run->row_count, more * sizeof *run->rows);
        run->row_count += more;
        s = fli_loader_status(in);
    }
    return s;
}

static fl_status load_progress(fl_run *run, fli_loader *in)
{
    size_t targets = run->plan.settings.metrics.targets.n;
    fli_load_part(in, "progress");
    run->round = (size_t)fli_load_count(in, (uint64_t)run->plan.settings.top.rounds);
    run->empty = (size_t)fli_load_count(in, run->round);
    run->warm = (int)fli_load_count(in, 1);
    run->news = (int)fli_load_count(in, 1);
    run->arrived = fli_load_real(in);
    run->ages = fli_load_real(in);
    run->oldest = fli_load_real(in);
    for (size_t i = 0; i < targets; i++) run->target_round[i] = (size_t)fli_load_count(in, SIZE_MAX);
    fli_load_bytes(in, &run->now, sizeof run->now);
    return load_rows(run, in);
}

static fl_status load(fl_run *run, const char *path)
{
    uint64_t sizes[SIZES];
    fli_text settings;
    fli_loader *in = NULL;
    fli_text_init(&settings, run->ctx);
    fl_status s = print_settings(run, &settings);
    if (!s) s = fli_loader_open(run->ctx, path, &in);
    if (s) goto done;
    sizes_of(run, sizes);
    fli_load_same(in, FL_VERSION, "was made by another version of fedloom than this one, " FL_VERSION);
    fli_load_same(in, fli_text_get(&settings), "was made with other settings than those of this run");
    for (size_t i = 0; i < SIZES; i++)
        fli_load_equal(in, sizes[i], "was made with data or a model of another size than this run's");
    s = load_progress(run, in);
    if (!s) s = fli_exec_load(run->exec, in);
    if (!s && run->async) s = fli_async_load(run->async, in);
    if (!s) s = fli_loader_end(in);
done:
    fli_loader_close(in);
    fli_text_fini(&settings);
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
    snprintf(whole, sizeof whole, "%.*s", (int)(n - tail), name); /* of a run that was killed */
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

static char *file_name(const fl_run *run, size_t number)
{
    return fli_strf(run->ctx, "%s/%zu%s", run->checkpoints, number, suffix);
}

static size_t without_slashes(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return n;
}

/* Names the folder, if it has no name yet. */
static fl_status name_folder(fl_run *run)
{
    const char *output = fl_run_output(run);
    if (run->checkpoints) return FL_OK;
    if (run->plan.settings.top.clock == FLI_CLOCK_REAL)
        return fli_fail(run->ctx, FL_ECONFIG, "clock is real: such a run cannot be repeated, so it has no checkpoints");
    if (!*output) return fli_fail(run->ctx, FL_ECONFIG, "output is empty: checkpoints lie beside it");
    run->checkpoints = fli_strf(run->ctx, "%.*s%s", (int)without_slashes(output), output, suffix);
    return run->checkpoints ? FL_OK : FL_ENOMEM;
}

/* Under another name first, as everything here. */
static fl_status write_config(fl_run *run)
{
    fli_text text;
    fli_out out;
    char *path = fli_strf(run->ctx, "%s/%s", run->checkpoints, config_name);
    char *temporary = fli_strf(run->ctx, "%s/%s", run->checkpoints, config_new);
    fli_text_init(&text, run->ctx);
    fli_settings_print(&text, &run->plan.settings);
    fl_status s = path && temporary ? fli_text_ok(&text) : FL_ENOMEM;
    if (!s) s = fli_out_open(run->ctx, temporary, &out);
    if (!s) {
        fli_out_text(&out, fli_text_get(&text));
        s = fli_out_close(&out);
    }
    if (!s && rename(temporary, path))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
    fli_text_fini(&text);
    fli_free(path);
    fli_free(temporary);
    return s;
}

static fl_status enter(fl_run *run)
{
    fl_status s = fli_lock_folder(run->ctx, run->checkpoints, &run->checkpoints_lock);
    run->checkpoints_ready = !s;
    return s;
}

void fli_checkpoint_leave(fl_run *run)
{
    if (run->checkpoints_ready) close(run->checkpoints_lock);
    run->checkpoints_ready = 0;
}

/* That of an earlier run, unless it is still at work. */
static fl_status remove_folder(fl_run *run)
{
    fl_status s = fli_path_kind(run->checkpoints) == 1 ? enter(run) : FL_OK;
    if (!s) s = fli_remove_folder(run->ctx, run->checkpoints);
    fli_checkpoint_leave(run);
    return s;
}

fl_status fli_checkpoint_prepare(fl_run *run, int replace)
{
    int alien;
    if (run->checkpoints_ready) return FL_OK;
    fl_status s = name_folder(run);
    if (s) return s;
    const char *folder = run->checkpoints;
    size_t last = newest(folder, SIZE_MAX, &alien);
    if (alien)
        return fli_fail(run->ctx, FL_EIO, "%s: is not used for checkpoints, because something else lies in it", folder);
    if (last && !replace)
        return fli_fail(run->ctx, FL_EIO,
                        "%s: has checkpoints of an earlier run; `fedloom resume` goes on from them, or ask to replace "
                        "them (--force)",
                        folder);
    if ((s = remove_folder(run)) || (s = fli_make_folders(run->ctx, folder)) || (s = enter(run))) return s;
    s = write_config(run);
    if (s) fli_checkpoint_leave(run);
    return s;
}

fl_status fli_checkpoint_remove(fl_run *run)
{
    int alien;
    if (!run->checkpoints_ready) return FL_OK;
    newest(run->checkpoints, 0, &alien);
    fl_status s = alien ? FL_OK : fli_remove_folder(run->ctx, run->checkpoints);
    fli_checkpoint_leave(run);
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

fl_status fl_run_checkpoint(fl_run *run)
{
    fli_clear(run->ctx);
    fl_status s = fli_checkpoint_prepare(run, 0);
    if (s) return s;
    size_t number = newest(run->checkpoints, SIZE_MAX, NULL) + 1;
    char *path = file_name(run, number);
    s = path ? save(run, path) : FL_ENOMEM;
    if (!s) s = remove_others(run, number);
    if (!s) {
        run->checkpoint = number;
        run->checkpoint_round = run->round;
    }
    fli_free(path);
    return s;
}

fl_status fli_checkpoint_due(fl_run *run, int asked)
{
    const fli_top_settings *top = &run->plan.settings.top;
    int never = !top->checkpoint_every || run->checkpoint_round == run->round;
    if (never || run->round >= (size_t)top->rounds) return FL_OK;
    if (!asked && (!run->round || run->round % (size_t)top->checkpoint_every)) return FL_OK;
    fl_status s = fl_run_checkpoint(run);
    if (s != FL_EIO) return s;
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
        fli_log(run->ctx, FL_LOG_WARNING, "%s; the one before it is taken", fl_ctx_error(run->ctx));
        fli_clear(run->ctx);
        fli_free(*path);
        *path = NULL;
    }
    return fli_fail(run->ctx, FL_EFORMAT, "%s: there is no whole checkpoint in it", run->checkpoints);
}

int fli_checkpoint_exists(fl_run *run)
{
    return run->plan.settings.top.checkpoint_every && !name_folder(run) && newest(run->checkpoints, SIZE_MAX, NULL);
}

fl_status fli_checkpoint_take(fl_run *run)
{
    char *path = NULL;
    size_t number = 0;
    fl_status s = name_folder(run);
    if (!s && fli_path_kind(run->checkpoints) != 1)
        s = fli_fail(run->ctx, FL_EIO, "%s: there are no checkpoints to go on from", run->checkpoints);
    if (!s) s = enter(run);
    if (!s && newest(run->checkpoints, SIZE_MAX, NULL)) {
        if (!(s = find_whole(run, &number, &path))) s = load(run, path);
        fli_free(path);
        run->checkpoint_round = run->round;
    }
    run->checkpoint = number; /* 0: it ended before the first one, and begins again */
    if (s) fli_checkpoint_leave(run);
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
    size_t n = without_slashes(folder), tail = strlen(suffix);
    return n > tail && !strncmp(folder + n - tail, suffix, tail) ? n - tail : n;
}

fl_status fl_config_resume(fl_config *cfg, const char *folder)
{
    fli_clear(cfg->ctx);
    int n = (int)result_length(folder);
    char *path = fli_strf(cfg->ctx, "%.*s%s/%s", n, folder, suffix, config_name);
    char *output = fli_strf(cfg->ctx, "%.*s", n, folder);
    fl_status s = path && output ? FL_OK : FL_ENOMEM;
    if (!s && !fli_path_kind(path))
        s = fli_fail(cfg->ctx, FL_EIO, "%s%s: there are no checkpoints to go on from", output, suffix);
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
