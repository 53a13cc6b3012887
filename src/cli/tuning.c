/* Carrying out a tuning: progress on stderr, the table on stdout, files in the output folder. */
#include "cli/cli.h"

static void stop_tune(void *tune) { fl_tune_stop(tune); }

/* Of a tuning that has run to its end. */
static fl_status finish(fl_tune *tune, fl_text_fn *out, int quiet, fl_config **winners)
{
    fl_status s = fl_tune_write(tune);
    if (!s) s = fl_tune_table(tune, out, NULL);
    if (!s) s = fl_tune_verdict(tune);
    if ((!s || s == FL_EDIVERGED) && !quiet)
        say("%s has what was tried (tried.csv, tried.svg) and the winners (best.yaml, and a file for each)",
            fl_tune_output(tune));
    return s || !winners ? s : fl_tune_winners(tune, winners);
}

int tuning_run(fl_ctx *ctx, fl_config *cfg, const fl_tune_options *options, fl_text_fn *out, int quiet,
               fl_config **winners)
{
    fl_tune *tune = NULL;
    int done = 0;
    fl_status s = fl_tune_new(cfg, options, &tune);
    if (!s) {
        watcher w = watcher_new(stop_tune, tune, quiet);
        s = fl_tune_go(tune, watcher_observe, &w);
        watcher_end(&w);
        done = !s && fl_tune_done(tune);
    }
    if (done) s = finish(tune, out, quiet, winners);
    if (s) say_error(ctx);
    if (!s && !done && !quiet) say("stopped; the same command continues in %s", fl_tune_output(tune));
    fl_tune_free(tune);
    return s ? settings_exit(s) : done ? CLI_OK : CLI_INTERRUPTED;
}

/* fl_text_fn: a document has room for one table, which is the comparison's. */
static void discard(void *unused, const char *text)
{
    (void)unused;
    (void)text;
}

int tune_first(fl_ctx *ctx, fl_config **cfg, const study_request *req)
{
    fl_config *winners = NULL;
    fl_study_options study = req->options;
    fl_tune_options o = {.size = sizeof o, .study = &study, .budget = req->budget, .compare_next = 1};
    study.seeds = 0; /* the file's tuning seeds: those of the comparison are others */
    int code = tuning_run(ctx, *cfg, &o, req->json ? discard : say_table, req->quiet, &winners);
    if (code) return code;
    fl_config_free(*cfg);
    *cfg = winners;
    return CLI_OK;
}
