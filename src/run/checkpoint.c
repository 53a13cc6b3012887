/* Checkpoints of a run: the names in their folder, the contents of the files, when one is written and under which
 * number, and how a run resumes from one. Rank 0 alone reads, makes and removes folders; every rank reads and writes
 * files in them. All state that changes from round to round must be saved here: fields of fl_run in save_progress, the
 * rest by its owner. */
#include "base/file.h"
#include "base/number.h"
#include "base/os.h"
#include "run/output.h"
#include "run/state.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ==== names of files in the folder ========================================================================== */

/* 17.checkpoint is number 17; if several ranks made it, 17.1.checkpoint and so on are the parts of ranks 1, 2, ... A
 * name ends in .tmp until its file is complete. Parts without rank 0's file are no checkpoint. The settings are in the
 * same folder. */
static const char checkpoint_suffix[] = ".checkpoint", checkpoint_config[] = "config.yaml";

/* Reads a number >= 1 without leading zeros; 0 if the text does not begin with one. */
static size_t read_number(const char *text, char **end)
{
    return *text >= '1' && *text <= '9' ? (size_t)strtoull(text, end, 10) : 0;
}

/* 17 of "17.checkpoint" and, with *part 3, of "17.3.checkpoint"; 0 for any other name. */
static size_t number_of(const char *name, size_t *part)
{
    char *end = NULL;
    size_t n = read_number(name, &end);
    *part = n && *end == '.' ? read_number(end + 1, &end) : 0;
    return n && !strcmp(end, checkpoint_suffix) ? n : 0;
}

static int is_ours(const char *name)
{
    size_t n = strlen(name), tail = strlen(".tmp"), part;
    char whole[64];
    if (number_of(name, &part) || !strcmp(name, checkpoint_config) || !strcmp(name, ".") || !strcmp(name, ".."))
        return 1;
    if (n <= tail || n >= sizeof whole || strcmp(name + n - tail, ".tmp")) return 0;
    fli_snprintf(whole, sizeof whole, "%.*s", (int)(n - tail), name); /* left by a run that was killed */
    return number_of(whole, &part) || !strcmp(whole, checkpoint_config);
}

/* The folder of a result's checkpoints. */
static char *checkpoint_folder(fl_ctx *ctx, const char *output)
{
    return fli_strf(ctx, "%.*s%s", (int)fli_path_length(output), output, checkpoint_suffix);
}

/* The path of checkpoint `number`, or of its part of rank `part` >= 1. */
static char *checkpoint_file(fl_ctx *ctx, const char *folder, size_t number, size_t part)
{
    return part ? fli_strf(ctx, "%s/%zu.%zu%s", folder, number, part, checkpoint_suffix)
                : fli_strf(ctx, "%s/%zu%s", folder, number, checkpoint_suffix);
}

/* The largest number below `limit`, 0 if there is none. Sets *alien, unless NULL, if anything else is in the folder. */
static size_t newest_number(const char *folder, size_t limit, int *alien)
{
    size_t best = 0, part;
    DIR *dir = opendir(folder);
    if (alien) *alien = 0;
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = number_of(e->d_name, &part);
        if (!part && n > best && n < limit) best = n;
        if (alien && !is_ours(e->d_name)) *alien = 1;
    }
    closedir(dir);
    return best;
}

/* Removes all checkpoints but these two, with their parts. */
static void remove_others(const char *folder, size_t number, size_t other)
{
    size_t part;
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = number_of(e->d_name, &part);
        if (n && n != number && n != other) unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

/* ==== the contents of the files =========================================================================== */

/* Sizes that the rest of a checkpoint depends on. */
enum { SIZES = 2 };

static void model_sizes(const fl_run *run, uint64_t sizes[SIZES])
{
    const fl_space *space = &run->plan.model->space;
    const uint64_t all[SIZES] = {space->n, space->ops->size};
    memcpy(sizes, all, sizeof all);
}

static fl_status print_settings(const fl_run *run, fli_text *text)
{
    fli_settings_print_essence(text, run->plan.settings);
    return fli_text_ok(text);
}

/* The names of a row's metrics, in order: a build with other metrics cannot read the rows. */
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
    fli_row_clear_user(row);
    for (size_t k = 0; k < c->n; k++) row->value[c->at[k]] = value[k];
}

static void save_progress(const fl_run *run, fli_saver *out)
{
    size_t targets = run->plan.settings->metrics.targets.n;
    fli_columns c = fli_columns_of(run->plan.model);
    fli_save_part(out, "progress");
    fli_save_count(out, run->round);
    fli_save_count(out, run->empty.count);
    fli_save_count(out, run->empty.in_a_row);
    fli_save_count(out, run->warm_up_done != 0);
    fli_save_count(out, run->broadcast_is_new != 0);
    fli_save_real(out, run->arrivals.count);
    fli_save_real(out, run->arrivals.ages);
    fli_save_real(out, run->arrivals.oldest);
    for (size_t i = 0; i < targets; i++) fli_save_count(out, run->target_round[i]);
    fli_save_bytes(out, &run->counts, sizeof run->counts);
    save_row(&run->now, &c, out);
    fli_save_count(out, run->rows.count);
    for (size_t i = 0; i < run->rows.count; i++) save_row(&run->rows.at[i], &c, out);
}

/* Writes all that changes; of clients, those of this rank alone. The caller closes the file. */
static fl_status write_checkpoint(fl_run *run, const char *path, fli_saver **file)
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
    model_sizes(run, sizes);
    fli_save_text(out, FL_VERSION);
    fli_save_text(out, fli_text_get(&settings));
    fli_save_text(out, fli_text_get(&metrics));
    fli_save_bytes(out, run->plan.data.byte, sizeof run->plan.data.byte);
    fli_save_bytes(out, sizes, sizeof sizes);
    fli_save_bytes(out, run->kernels, sizeof run->kernels);
    save_progress(run, out);
    fli_exec_save(run->exec, out);
    if (run->async) fli_async_save(run->async, out);
    *file = out;
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
    while (!s && run->rows.count < count) {
        size_t more = count - run->rows.count < PIECE ? count - run->rows.count : PIECE;
        if (run->rows.count + more > run->rows.capacity) {
            size_t room = 2 * (run->rows.count + more);
            if ((s = fli_grow(run->ctx, (void **)&run->rows.at, run->rows.count, room, sizeof *run->rows.at))) return s;
            run->rows.capacity = room;
        }
        for (size_t i = 0; i < more; i++) load_row(&run->rows.at[run->rows.count++], &c, in);
        s = fli_loader_status(in);
    }
    return s;
}

static fl_status load_progress(fl_run *run, fli_loader *in)
{
    size_t targets = run->plan.settings->metrics.targets.n;
    fli_columns c = fli_columns_of(run->plan.model);
    fli_load_part(in, "progress");
    run->round = (size_t)fli_load_count(in, (uint64_t)run->plan.settings->top.rounds);
    run->empty.count = (size_t)fli_load_count(in, run->round);
    run->empty.in_a_row = (size_t)fli_load_count(in, run->empty.count);
    run->warm_up_done = (int)fli_load_count(in, 1);
    run->broadcast_is_new = (int)fli_load_count(in, 1);
    run->arrivals.count = fli_load_real(in);
    run->arrivals.ages = fli_load_real(in);
    run->arrivals.oldest = fli_load_real(in);
    for (size_t i = 0; i < targets; i++) run->target_round[i] = (size_t)fli_load_count(in, SIZE_MAX);
    fli_load_bytes(in, &run->counts, sizeof run->counts);
    load_row(&run->now, &c, in);
    return load_rows(run, in);
}

/* Whether `one` is in the list `those`, separated by semicolons. */
static int lists(const char *those, const char *one)
{
    size_t n = strlen(one);
    for (const char *at = those; at; at = strstr(at, "; ") ? strstr(at, "; ") + 2 : NULL)
        if (!strncmp(at, one, n) && (!at[n] || !strncmp(at + n, "; ", 2))) return 1;
    return 0;
}

/* Another processor or device may resume a run, but its bits will differ: warns, and adds its name. */
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

static fl_status read_checkpoint(fl_run *run, const char *path)
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
    model_sizes(run, sizes);
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

/* ---- the clients of one rank ------------------------------------------------------------------------------- */

/* Writes the clients of this rank into a part beside `path`. */
static fl_status write_part(fl_run *run, const char *path, fli_seal *out)
{
    fli_saver *file = NULL;
    fl_status s = fli_saver_open(run->ctx, path, &file);
    if (s) return s;
    fli_save_part(file, "rank");
    fli_save_count(file, run->plan.ranks.rank);
    fli_save_count(file, run->plan.ranks.count);
    fli_exec_save_clients(run->exec, file);
    return fli_saver_close(file, out);
}

/* The number of ranks decides which rank owns which clients: if it is unchanged, this rank skips the parts of
 * others. */
static fl_status read_part(fl_run *run, const char *path, size_t part)
{
    const fl_ranks *r = &run->plan.ranks;
    fli_loader *in = NULL;
    fl_status s = fli_loader_open(run->ctx, path, &in);
    if (s) return s;
    fli_load_part(in, "rank");
    fli_load_equal(in, part, "does not fit this run: it is the part of another rank");
    uint64_t count = fli_load_count(in, UINT32_MAX);
    if (!(s = fli_loader_status(in)) && (count != r->count || part == r->rank)) {
        s = fli_exec_load_clients(run->exec, in);
        if (!s) s = fli_loader_end(in);
    }
    fli_loader_close(in);
    return s;
}

/* ==== when checkpoints are written, and how ranks cooperate =============================================== */

static int is_first(const fl_run *run) { return fli_ranks_first(&run->plan.ranks); }

/* A failure of one rank becomes the failure of all. */
static fl_status agree(const fl_run *run, fl_status s) { return fli_ranks_agree(run->ctx, &run->plan.ranks, s); }

/* ---- the folder ---------------------------------------------------------------------------------------- */

static fl_status check_readable(fl_ctx *ctx, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", folder, strerror(errno));
    closedir(dir);
    return FL_OK;
}

/* Names the folder, if it has no name yet. */
static fl_status name_folder(fl_run *run)
{
    const char *output = fl_run_output(run);
    if (run->checkpoints.folder) return FL_OK;
    if (!*output) return fli_fail(run->ctx, FL_ECONFIG, "output is empty: checkpoints are kept beside it");
    run->checkpoints.folder = checkpoint_folder(run->ctx, output);
    return run->checkpoints.folder ? FL_OK : FL_ENOMEM;
}

static fl_status write_config(fl_run *run)
{
    fli_text text;
    char *path = fli_strf(run->ctx, "%s/%s", run->checkpoints.folder, checkpoint_config);
    fli_text_init(&text, run->ctx);
    fli_settings_print(&text, run->plan.settings);
    fl_status s = path ? fli_text_ok(&text) : FL_ENOMEM;
    if (!s) s = fli_file_replace(run->ctx, path, fli_text_get(&text), text.n);
    fli_text_fini(&text);
    fli_free(path);
    return s;
}

fl_status fli_checkpoint_discard(fl_run *run, int replace)
{
    const char *output = fl_run_output(run);
    if (run->checkpoints.ready) return FL_OK;
    char *folder = checkpoint_folder(run->ctx, output);
    if (!folder) return FL_ENOMEM;
    fl_status s = FL_OK;
    if (newest_number(folder, SIZE_MAX, NULL) && !replace)
        s = fli_fail(
            run->ctx, FL_EIO,
            "%s: has checkpoints of an earlier run; `fedloom resume` continues from them, or ask to replace them "
            "(--force)",
            folder);
    fli_free(folder);
    return s ? s : fli_checkpoint_clear(run->ctx, output);
}

fl_status fli_checkpoint_make(fl_run *run, int replace)
{
    int alien;
    fl_status s = name_folder(run);
    if (!s) s = fli_folder_lock(run);
    if (s || run->checkpoints.ready) return s;
    const char *folder = run->checkpoints.folder;
    newest_number(folder, SIZE_MAX, &alien);
    if (alien)
        return fli_fail(run->ctx, FL_EIO, "%s: is not used for checkpoints, because something else is in it", folder);
    if ((s = fli_checkpoint_discard(run, replace)) || (s = fli_make_folders(run->ctx, folder))) return s;
    s = write_config(run);
    run->checkpoints.ready = !s;
    return s;
}

fl_status fli_checkpoint_prepare(fl_run *run)
{
    fl_status s = is_first(run) ? fli_checkpoint_make(run, 0) : name_folder(run);
    return agree(run, s);
}

fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output)
{
    int alien;
    char *folder = checkpoint_folder(ctx, output);
    if (!folder) return FL_ENOMEM;
    newest_number(folder, 0, &alien);
    fl_status s = alien || fli_path_kind(folder) != 1 ? FL_OK : fli_remove_folder(ctx, folder);
    fli_free(folder);
    return s;
}

/* ---- writing one ----------------------------------------------------------------------------------------- */

/* The path of this rank's file. */
static char *own_file(const fl_run *run, size_t number)
{
    return checkpoint_file(run->ctx, run->checkpoints.folder, number, is_first(run) ? 0 : run->plan.ranks.rank);
}

/* The newest number plus one, the same at all ranks. */
static fl_status next_number(fl_run *run, size_t *number)
{
    *number = is_first(run) ? newest_number(run->checkpoints.folder, SIZE_MAX, NULL) + 1 : 0;
    return fli_ranks_share(run->ctx, &run->plan.ranks, 0, number, sizeof *number);
}

/* Writes this rank's file. Rank 0's stays open in *file, for the seals of the others; theirs are complete. */
static fl_status write_own(fl_run *run, const char *path, fli_saver **file, fli_seal *seal)
{
    if (!is_first(run)) return write_part(run, path, seal);
    fl_status s = write_checkpoint(run, path, file);
    return s || !fli_ranked(&run->plan.ranks) ? s : fli_save_end(*file);
}

/* Gives every rank the seals of all parts. */
static fl_status gather_seals(fl_run *run, fli_seal *seals)
{
    const fl_ranks *r = &run->plan.ranks;
    if (!fli_ranked(r)) return FL_OK;
    size_t *at = fli_alloc(run->ctx, r->count + 1, sizeof *at);
    fl_status s = agree(run, at ? FL_OK : FL_ENOMEM);
    for (size_t i = 0; !s && i <= r->count; i++) at[i] = i * sizeof *seals;
    if (!s) s = fli_ranks_gather(run->ctx, r, seals, at);
    fli_free(at);
    return s;
}

/* Gives rank 0's file its name, which makes the checkpoint count; drops it if the status says that a part is
 * missing. */
static fl_status close_first(fl_run *run, fl_status s, fli_saver *file, fli_seal *seals)
{
    if (!file) return s;
    if (s) fli_saver_fail(file, s);
    for (size_t i = 1; !s && i < run->plan.ranks.count; i++) fli_save_seal(file, &seals[i]);
    return fli_saver_close(file, &seals[0]);
}

/* Writes all files of one number, or none. The ranks write at the same time. */
static fl_status write_files(fl_run *run, size_t number, uint64_t *bytes)
{
    fli_saver *file = NULL;
    size_t rank = run->plan.ranks.rank, count = fli_ranked(&run->plan.ranks) ? run->plan.ranks.count : 1;
    char *path = own_file(run, number);
    fli_seal *seals = fli_alloc(run->ctx, count, sizeof *seals);
    fl_status s = path && seals ? write_own(run, path, &file, &seals[rank]) : FL_ENOMEM;
    s = agree(run, s);
    if (!s) s = gather_seals(run, seals);
    fl_status closed = close_first(run, s, file, seals);
    if (!s) s = agree(run, closed);
    if (s && path && !is_first(run)) unlink(path);
    for (size_t i = 0; !s && i < count; i++) *bytes += seals[i].bytes;
    fli_free(seals);
    fli_free(path);
    return s;
}

/* Keeps the new one and the one before it, which is known to be complete. */
static fl_status write_next(fl_run *run, uint64_t *bytes)
{
    size_t number;
    fl_status s = fli_checkpoint_prepare(run);
    if (!s) s = next_number(run, &number);
    if (!s) s = write_files(run, number, bytes);
    if (s) return s;
    if (is_first(run)) remove_others(run->checkpoints.folder, number, run->checkpoints.newest);
    run->checkpoints.newest = number;
    run->checkpoints.round = run->round;
    return FL_OK;
}

void fl_run_on_checkpoint(fl_run *run, fl_checkpoint_fn *fn, void *arg)
{
    run->checkpoints.tell = fn;
    run->checkpoints.arg = arg;
}

fl_status fl_run_checkpoint(fl_run *run)
{
    fl_checkpoint c = {.size = sizeof c, .round = run->round};
    double begun = fli_clock_now();
    fli_clear(run->ctx);
    c.status = write_next(run, &c.bytes);
    c.seconds = fli_clock_now() - begun;
    c.why = c.status ? fl_ctx_error(run->ctx) : "";
    if (run->checkpoints.tell) run->checkpoints.tell(run->checkpoints.arg, &c);
    return c.status;
}

/* ---- going on from one ----------------------------------------------------------------------------------- */

/* The newest number below `limit`: rank 0 looks, and tells all. */
static fl_status newest_below(fl_run *run, size_t limit, size_t *number)
{
    *number = is_first(run) ? newest_number(run->checkpoints.folder, limit, NULL) : 0;
    return fli_ranks_share(run->ctx, &run->plan.ranks, 0, number, sizeof *number);
}

static fl_status check_part(fl_run *run, size_t number, size_t part, const fli_seal *seal)
{
    fli_seals found = {0};
    char *path = checkpoint_file(run->ctx, run->checkpoints.folder, number, part);
    fl_status s = path ? fli_snapshot_check(run->ctx, path, &found) : FL_ENOMEM;
    if (!s && (found.own.bytes != seal->bytes || found.own.checksum != seal->checksum))
        s = fli_fail(run->ctx, FL_EFORMAT, "%s: is not the part that %zu%s was made with", path, number,
                     checkpoint_suffix);
    fli_free(found.others);
    fli_free(path);
    return s;
}

/* Checks that all files of a number are complete and belong together; each rank checks some of the parts. *parts: their
 * number. */
static fl_status check_files(fl_run *run, size_t number, size_t *parts)
{
    const fl_ranks *r = &run->plan.ranks;
    size_t rank = fli_ranked(r) ? r->rank : 0, ranks = fli_ranked(r) ? r->count : 1;
    fli_seals seals = {0};
    char *path = checkpoint_file(run->ctx, run->checkpoints.folder, number, 0);
    fl_status s = path ? fli_snapshot_check(run->ctx, path, &seals) : FL_ENOMEM;
    for (size_t i = rank; !s && i < seals.count; i += ranks) s = check_part(run, number, i + 1, &seals.others[i]);
    *parts = seals.count;
    fli_free(seals.others);
    fli_free(path);
    return agree(run, s);
}

/* Finds the newest complete checkpoint. */
static fl_status find_whole(fl_run *run, size_t *number, size_t *parts)
{
    fl_status s = FL_OK;
    for (; !s && *number; s = newest_below(run, *number, number)) {
        s = check_files(run, *number, parts);
        if (!s || s == FL_ENOMEM || s == FL_ESYSTEM) return s;
        fli_log(run->ctx, FL_LOG_WARNING, "%s; the one before it is used", fl_ctx_error(run->ctx));
        fli_clear(run->ctx);
    }
    return s ? s : fli_fail(run->ctx, FL_EFORMAT, "%s: there is no complete checkpoint in it", run->checkpoints.folder);
}

static fl_status read_files(fl_run *run, size_t number, size_t parts)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i <= parts; i++) {
        char *path = checkpoint_file(run->ctx, run->checkpoints.folder, number, i);
        s = !path ? FL_ENOMEM : i ? read_part(run, path, i) : read_checkpoint(run, path);
        fli_free(path);
    }
    return agree(run, s);
}

int fli_checkpoint_exists(fl_run *run)
{
    size_t number = 0;
    if (!run->plan.settings->top.checkpoint_every || name_folder(run)) return 0;
    return !newest_below(run, SIZE_MAX, &number) && number;
}

/* A run may have been killed after it had published its result and before it had removed its checkpoints. */
fl_status fli_checkpoint_check_finished(fl_run *run)
{
    fli_existing_result existing;
    const char *output = fl_run_output(run);
    fl_status s = fli_existing_result_find(run->ctx, output, run->plan.settings, &run->plan.data, &existing);
    if (s || existing != FLI_EXISTING_SAME) return s;
    if ((s = fli_checkpoint_clear(run->ctx, output))) return s;
    return fli_fail(run->ctx, FL_EDONE, "%s: is finished already; what was left of its checkpoints is removed", output);
}

/* Rank 0 locks the output, and checks that the folder exists and can be read. */
static fl_status enter_folder(fl_run *run)
{
    fl_status s = fli_folder_lock(run);
    if (!s) s = fli_checkpoint_check_finished(run);
    if (!s && fli_path_kind(run->checkpoints.folder) != 1)
        s = fli_fail(run->ctx, FL_EIO, "%s: there are no checkpoints to continue from", run->checkpoints.folder);
    return s ? s : check_readable(run->ctx, run->checkpoints.folder);
}

fl_status fli_checkpoint_take(fl_run *run)
{
    size_t number = 0, parts = 0;
    fl_status s = name_folder(run);
    if (!s && is_first(run)) s = enter_folder(run);
    s = agree(run, s);
    if (!s) s = newest_below(run, SIZE_MAX, &number);
    if (!s && number) {
        if (!(s = find_whole(run, &number, &parts))) s = read_files(run, number, parts);
        /* asks to clients in other programs get new numbers from here on: save them before the first one */
        if (!run->plan.setup.remote_queue) run->checkpoints.round = run->round;
    }
    run->checkpoints.newest = number; /* 0: the run ended before its first checkpoint, and starts at the beginning */
    run->checkpoints.ready = !s;
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
    size_t n = fli_path_length(folder), tail = strlen(checkpoint_suffix);
    return n > tail && !strncmp(folder + n - tail, checkpoint_suffix, tail) ? n - tail : n;
}

/* The error for a missing configuration of a run's checkpoints; a folder without permission hides it, too. */
static fl_status no_config(fl_ctx *ctx, const char *output)
{
    struct stat st;
    char *folder = checkpoint_folder(ctx, output);
    int hidden = folder && lstat(folder, &st) && errno != ENOENT && errno != ENOTDIR;
    fl_status s = !folder ? FL_ENOMEM : hidden || fli_path_kind(folder) == 1 ? check_readable(ctx, folder) : FL_OK;
    fli_free(folder);
    return s ? s : fli_fail(ctx, FL_EIO, "%s%s: there are no checkpoints to continue from", output, checkpoint_suffix);
}

fl_status fl_config_resume(fl_config *cfg, const char *folder)
{
    fli_clear(cfg->ctx);
    int n = (int)result_length(folder);
    char *path = fli_strf(cfg->ctx, "%.*s%s/%s", n, folder, checkpoint_suffix, checkpoint_config);
    char *output = fli_strf(cfg->ctx, "%.*s", n, folder);
    fl_status s = path && output ? FL_OK : FL_ENOMEM;
    if (!s && !fli_path_kind(path)) s = no_config(cfg->ctx, output);
    if (!s) s = fl_config_load(cfg, path);
    if (!s) s = fli_config_put(cfg, "output", output);
    fli_free(path);
    fli_free(output);
    return fli_ranks_agree(cfg->ctx, &cfg->ranks, s);
}
