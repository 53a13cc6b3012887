/* From a made run to its saved result, with progress on the way. */
#include "cli.h"

typedef struct {
    fl_run *run;
    progress *progress;
} watch;

static void observe(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    watch *w = arg;
    if (interrupt_seen()) fl_run_stop(w->run);
    progress_step(w->progress, run, row, measured);
}

fl_status carry_run(fl_run *run, int force, progress *p, summary *sum)
{
    watch w = {run, p};
    int save = *fl_run_output(run) != 0;
    fl_status s = save ? fl_run_prepare_save(run, force) : FL_OK;
    if (s) return s;
    progress_begin(p, run);
    s = fl_run_go(run, observe, &w);
    progress_end(p, run);
    if (!summary_add(sum, run)) say("out of memory: %s is missing in the table", fl_run_name(run));
    if (s || !save) return s;
    if (fl_run_stopped_by(run) == FL_STOP_ASKED && fl_run_checkpointed(run)) {
        if (!p->quiet)
            say("stopped after round %zu; `fedloom resume %s` continues it", fl_run_round(run), fl_run_output(run));
        return FL_OK;
    }
    s = fl_run_save(run);
    if (!s && !p->quiet) say("results are in %s", fl_run_output(run));
    return s;
}
