/* A run: everything that changes while a plan is carried out. For run/, and for half/ and study/, which make runs. */
#ifndef FLI_RUN_STATE_H
#define FLI_RUN_STATE_H

#include "base/file.h"
#include "device/device.h"
#include "engine/async.h"
#include "fedloom_halves.h"
#include "metric/measure.h"
#include "plan/plan.h"

#include <stdatomic.h>

/* Seconds of going forward, and seconds of these in which a rank waited for others. */
typedef struct {
    double seconds, waited;
} fli_time_spent;

/* Of ranks: this rank's times since the last row, and each rank's up to the last row (NULL: no row yet, or one
 * process). */
typedef struct {
    fli_time_spent own, *of;
} fli_rank_times;

/* The round under way. */
typedef struct {
    uint32_t *cohort;
    fl_ask *asks;      /* of the round; late clients are dropped from these */
    double *durations; /* simulated, and as many again to sort them */
} fli_round_under_way;

/* Rounds in which no client took part, or all were late. */
typedef struct {
    size_t count, in_a_row; /* in_a_row: the last ones */
} fli_empty_rounds;

/* Of asynchronous methods: uploads since the last row, the sum and the largest of their ages. */
typedef struct {
    double count, ages, oldest;
} fli_arrivals;

typedef struct {
    fl_row *at;
    size_t count, capacity;
} fli_rows;

/* The end of a run. */
typedef struct {
    fl_stop why;
    atomic_int requested; /* at this rank */
    int agreed;           /* it was requested at any rank */
} fli_stopping;

/* Where results are written. */
typedef struct {
    char *partial;  /* folder of an incomplete result; NULL: no such folder exists */
    int replace;    /* an earlier result of that name may be replaced */
    fli_lock *lock; /* of the output; NULL: not taken */
} fli_saving;

/* Checkpoints, see output.h. */
typedef struct {
    char *folder;           /* NULL: not named yet */
    int ready;              /* it exists and is this run's */
    size_t newest;          /* number of the newest one known to be complete; 0: none */
    size_t round;           /* the round after which it was made; SIZE_MAX: none */
    fl_checkpoint_fn *tell; /* called for each, also for one that could not be written; NULL: none */
    void *arg;
} fli_checkpoints;

struct fl_run {
    fl_ctx *ctx;
    fli_plan plan;
    fli_device *device; /* NULL: the run is computed on this processor */
    fli_site site;      /* of the device */
    fli_exec *exec;
    fli_measure *measure;
    size_t round; /* finished rounds; of asynchronous methods, server steps */
    fli_round_under_way under_way;
    fli_empty_rounds empty;
    int loss_warned;      /* the warning that the loss is far above its start was logged */
    int started;          /* a step was made or tried */
    fl_status failed;     /* the status of a failed step; FL_OK: none failed */
    int warm_up_done;     /* the turns before the first round are done, if the method has any */
    int broadcast_is_new; /* the next round's broadcast is new to the clients */
    void *peek_buffer;    /* a client's vector, for fl_run_client_vector; NULL: not used yet */
    /* asynchronous methods */
    fli_async *async; /* NULL: the run is in rounds */
    fli_arrivals arrivals;
    fli_rank_times rank_times;
    /* results */
    fli_counts counts;
    fl_row now; /* for observers: the counts of this round, the last measured metrics */
    fli_rows rows;
    size_t *target_round; /* per target; SIZE_MAX: not reached */
    fli_stopping stop;
    fli_saving saving;
    fli_checkpoints checkpoints;
    char kernels[256]; /* from fli_run_computed_with; several if it was resumed on another machine */
};

/* fl_run_new on the data of another plan (see fli_plan_data); `data` NULL loads them. */
fl_status fli_run_new(fl_config *cfg, const fli_plan *data, fl_run **out);

/* The rows of a metrics.jsonl file; memory from fli_alloc. */
fl_status fli_rows_read(fl_ctx *ctx, const char *path, fl_row **rows, size_t *count);

/* ==== how a run goes forward: rounds.c ====================================================================== */

/* Allocates room for cohorts, and for the turns of all clients before the first round that some methods need. */
fl_status fli_rounds_prepare(fl_run *run);

/* Asynchronous methods go from one upload to the next. */
fl_status fli_arrivals_prepare(fl_run *run);

/* ==== kernels and device: run.c ============================================================================= */

/* What the run is computed with: kernels, and the device beside them. */
enum { FLI_COMPUTED_WITH = 256 };
void fli_run_computed_with(const fl_run *run, char out[FLI_COMPUTED_WITH]);
/* Refuses ranks whose kernels or devices differ from rank 0's: their clients would have other last digits. */
fl_status fli_run_same_kernels(fl_ctx *ctx, const fl_ranks *ranks, const char own[FLI_COMPUTED_WITH]);

#endif
