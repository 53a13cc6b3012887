/* Tuning: which settings of a method are the best ones for a problem, by successive halving over seeds.
 *
 * Every method has a box of ranges and the same number of candidates in it: the file's own setting, and points that
 * fill the box evenly. All candidates run with one seed. The best third runs with three seeds, a third of those with
 * nine, and so on up to the tuning seeds. The file's own setting stays in every rung, so that the winner can be
 * compared with it on every seed. Runs of an earlier rung are reused. The number of candidates is the largest whose
 * runs fit the budget, counted in full-length runs with one seed.
 *
 * A rung is a comparison (study.h) with one point per candidate, which also provides parallel runs and resuming: a
 * tuning that was killed repeats its rungs and finds its finished runs. Tuning seeds are far from those that a
 * comparison reports, so nothing is chosen by results that are reported later. */
#ifndef FLI_STUDY_TUNE_H
#define FLI_STUDY_TUNE_H

#include "study/study.h"

enum {
    FLI_TUNE_RUNGS = 12,           /* for up to 3^11 seeds */
    FLI_TUNE_SEED_OFFSET = 1000000 /* first tuning seed minus the file's seed; comparisons have fewer seeds */
};

/* One key of the box. */
typedef struct {
    const char *key;
    const fli_node *at;     /* its node in the file; NULL: the method's own range */
    const fli_node *values; /* a list to choose from; NULL: from .. to */
    size_t count;           /* of values */
    double from, to;
    int log, whole;
} fli_span;

/* The position of a value in its range: 0 at `from`, 1 at `to`. */
double fli_span_place(const fli_span *r, double v);

/* The results of a candidate's runs. */
typedef struct {
    size_t seeds, failed, reached; /* runs, those that diverged, those that reached the target */
    fli_stat value, cost, loss;    /* of the goal at the end; to the target; training loss at the end */
} fli_score;

typedef struct {
    fli_node *point;    /* a map key -> value; empty: the file's own setting */
    const char *values; /* of the keys in its box, one per line: equal for equal settings */
    size_t rung;        /* the last rung that it was in, from 0 */
    size_t place;       /* rank among its method's candidates, from 1 */
    int stays;          /* is in the next rung */
    fli_score score;
} fli_candidate;

/* A method that is tuned: its box, its candidates, what it has spent. */
typedef struct {
    const fli_method *method;
    const fli_settings *settings; /* as the file has it */
    fli_span *ranges;
    size_t range_count;
    fli_candidate *candidates; /* the first is the file's own setting */
    size_t count;
    size_t *remaining; /* candidates of the current rung, ascending */
    size_t remaining_count;
    size_t runs;      /* spent */
    int all_diverged; /* every setting diverged: no winner */
} fli_tuned;

/* The goal: a metric at the end, or the cost of reaching a target. */
typedef struct {
    const fli_metric *value; /* NULL: not decided yet */
    const fli_metric *cost;  /* NULL: there is no target */
    double target;
} fli_goal;

struct fl_tune {
    fl_ctx *ctx;
    fli_arena arena;
    fl_config *cfg;   /* the file, `quick` applied */
    fli_experiment x; /* the file with one seed: labels, and every method with the file's settings */
    fl_study_options options;
    const char *output; /* folder; runs are in `trials` below it */
    size_t budget, seeds;
    uint64_t first_seed;
    fli_goal goal;
    fli_tuned *tuned; /* one per method */
    size_t seeds_at[FLI_TUNE_RUNGS], candidates_at[FLI_TUNE_RUNGS], rungs;
    size_t rung;     /* the current one; `rungs`: done */
    fl_study *study; /* of that rung; NULL: not begun */
    int stop_requested;
    fli_output_claim claim;
    fli_output_claim compare_claim; /* of the comparison's folder, if one follows */
    int compare_next;
};

/* ---- the box of a method: tune_space.c ------------------------------------------------------------------- */

/* Fills the ranges of all methods: the methods' own, under those of the file, under those of a method in the file. */
fl_status fli_tune_ranges(fl_tune *t);

/* ---- candidates and the goal: tune.c --------------------------------------------------------------------- */

/* Makes `count` candidates, or all different ones if there are fewer. */
fl_status fli_tune_candidates(fl_tune *t, fli_tuned *c, size_t count);

/* Whether a is better than b. */
int fli_goal_beats(const fli_goal *g, const fli_score *a, const fli_score *b);

/* ---- files and tables: tune_output.c --------------------------------------------------------------------- */

const fli_candidate *fli_tuned_winner(const fli_tuned *c);
/* A candidate's value for a key, as text. */
void fli_candidate_value(const fli_tuned *c, const fli_candidate *k, const char *key, fli_text *out);
/* The names of a tuning's files, ending with NULL: three, and one per method with a winner. Memory from the arena. */
const char *const *fli_tune_files(fl_tune *t, fli_arena *a);
/* *same: the winners in the output folder were found with this budget and these seeds. */
fl_status fli_tune_was_same(fl_tune *t, int *same);

#endif
