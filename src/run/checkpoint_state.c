#include "run/checkpoint_state.h"

#include "base/number.h"
#include "run/on_device.h"

#include <string.h>

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
    fli_save_count(out, run->empty_row);
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

fl_status fli_checkpoint_write(fl_run *run, const char *path, fli_saver **file)
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
    run->empty_row = (size_t)fli_load_count(in, run->empty);
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

fl_status fli_checkpoint_read(fl_run *run, const char *path)
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

/* ---- the clients of one rank ------------------------------------------------------------------------------- */

fl_status fli_checkpoint_write_part(fl_run *run, const char *path, fli_seal *out)
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

/* Who has which clients follows from the number of ranks: if that is the same, another rank's part is not for this
 * one. */
fl_status fli_checkpoint_read_part(fl_run *run, const char *path, size_t part)
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
