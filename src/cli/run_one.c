/* From a made run to its saved result, with progress on the way. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    fl_run *run;
    progress *progress;
    int checkpointed, foretold;
} watch;

/* Some launchers leave no time for last words, so the way to go on is said before, unless the run ends with that
 * checkpoint: then it is said anyway. */
static void foretell(watch *w)
{
    char starter[RANKS_COMMAND_LEN];
    int ending = fl_run_stopped_by(w->run) != FL_STOP_NONE;
    if (!w->checkpointed || w->foretold || ending || w->progress->quiet || !ranks_abrupt()) return;
    say("note: if a rank dies, go on from the last checkpoint with `%sfedloom resume %s`", ranks_command(starter),
        fl_run_output(w->run));
    w->foretold = 1;
}

static void observe(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    watch *w = arg;
    if (interrupt_seen()) fl_run_stop(w->run);
    foretell(w);
    progress_step(w->progress, run, row, measured);
}

/* Several processes are ended when one of them dies: then it is said where to go on. */
static void foresee(const fl_run *run, size_t round, int any)
{
    char starter[RANKS_COMMAND_LEN];
    if (any)
        last_words_prepare("the run ended early; the last checkpoint is after round %zu: %sfedloom resume %s", round,
                           ranks_command(starter), fl_run_output(run));
    else
        last_words_prepare("the run ended early, and there is no checkpoint to go on from; --checkpoint-every K, or "
                           "the key checkpoint_every, writes them");
}

/* fl_checkpoint_fn */
static void note_checkpoint(void *arg, const fl_checkpoint *c)
{
    watch *w = arg;
    if (c->status != FL_OK) return;
    foresee(w->run, c->round, 1);
    w->checkpointed = 1;
}

/* Ends with a checkpoint, or with a result. */
static fl_status finish(fl_run *run, progress *p)
{
    char starter[RANKS_COMMAND_LEN];
    int asked = fl_run_stopped_by(run) == FL_STOP_ASKED;
    if (asked && fl_run_checkpointed(run)) {
        if (!p->quiet)
            say("stopped after round %zu; `%sfedloom resume %s` continues it", fl_run_round(run),
                ranks_command(starter), fl_run_output(run));
        return FL_OK;
    }
    fl_status s = fl_run_save(run);
    if (!s && !p->quiet) say("results and report.html are in %s", fl_run_output(run));
    return s;
}

int events_check(const char *tensorboard, const char *run_name)
{
    struct stat st;
    if (!tensorboard) return CLI_OK;
    if (!stat(tensorboard, &st) && !S_ISDIR(st.st_mode)) {
        say("%s: --tensorboard needs a folder, but this is a file", tensorboard);
        return CLI_FAILED;
    }
    if (*run_name && !strchr(run_name, '/') && strcmp(run_name, ".") && strcmp(run_name, "..")) return CLI_OK;
    say("name is %s, which cannot be a folder below %s; give the run a name without a slash", run_name, tensorboard);
    return CLI_USAGE;
}

static fl_status write_events(fl_run *run, const char *tensorboard)
{
    size_t size = strlen(tensorboard) + strlen(fl_run_name(run)) + 2;
    char *folder = malloc(size);
    if (!folder) return FL_ENOMEM;
    snprintf(folder, size, "%s/%s", tensorboard, fl_run_name(run));
    fl_status s = fl_run_events(run, folder);
    free(folder);
    return s;
}

fl_status carry_run(fl_run *run, const carriage *how, progress *p, summary *sum)
{
    watch w = {.run = run, .progress = p};
    int save = *fl_run_output(run) != 0;
    fl_status s = save ? fl_run_prepare_save(run, how->force) : FL_OK;
    if (!s && save) s = fl_run_with_report(run, how->typed);
    if (s) return s;
    foresee(run, fl_run_round(run), fl_run_checkpointed(run));
    fl_run_on_checkpoint(run, note_checkpoint, &w);
    progress_begin(p, run);
    s = fl_run_go(run, observe, &w);
    fl_run_on_checkpoint(run, NULL, NULL);
    progress_end(p, run);
    if (!summary_add(sum, run)) say("out of memory: %s is missing in the table", fl_run_name(run));
    if (fl_run_stopped_by(run) == FL_STOP_ASKED) interrupt_agreed();
    if (!s && save) s = finish(run, p);
    if (!s && how->tensorboard) s = write_events(run, how->tensorboard);
    if (!s) last_words_forget();
    return s;
}
