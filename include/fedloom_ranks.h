/* One run by several processes, connected by a program that fills this table: MPI (fedloom_mpi.h), a test.
 *
 * All processes, the ranks, make the same run from the same settings and call the same functions in the same order.
 * Each rank holds the samples and the state of its own part of the clients, and takes their turns; data that ranks
 * exchange pass through this table. The result has the same bits as a run in one process. Rank 0 writes it.
 *
 *     fl_config_ranks(cfg, &ranks);      before fl_run_new or fl_run_resume, on every rank
 *     fl_run_new, fl_run_prepare_save, fl_run_go, fl_run_save      as usual, on every rank
 *
 * These functions exchange data, so that all ranks must make the same call: fl_config_resume of a configuration with
 * ranks, fl_run_new, fl_run_resume, fl_run_go, fl_run_step, fl_run_prepare_save, fl_run_save, fl_run_save_model,
 * fl_run_checkpoint, fl_run_client_vector and fl_run_client_scalars. They return the same value on all ranks. Any rank
 * may call fl_run_stop, and all stop. All other functions read what every rank has: rows, counts, the server's vectors.
 * Give every rank the same start model, and the same output if it is changed.
 *
 * Rank 0 locks the output and writes results, models, and the common part of a checkpoint. The other ranks write the
 * state of their own clients into the same folder, which they must be able to see. Any number of ranks, or one process,
 * may resume a checkpoint.
 *
 * A failure on all ranks ends them alike. A failure on one rank leaves the others waiting: the program that connects
 * them must end them (MPI_Abort). */
#ifndef FEDLOOM_RANKS_H
#define FEDLOOM_RANKS_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Functions return FL_OK or FL_ESYSTEM; after FL_ESYSTEM the library calls none of them again. It never calls two at
 * the same time. */
typedef struct {
    size_t size;          /* sizeof(fl_ranks) */
    uint32_t rank, count; /* this process is number `rank` of `count` */
    uint32_t local;       /* its number among the ranks of this machine: selects its GPU */
    uint32_t neighbours;  /* the number of ranks on this machine, itself included */
    uint32_t processors;  /* of this machine for this rank's threads, unless `threads` is set; 0: unknown */
    void *arg;

    /* ---- together: every rank makes the same calls, in the same order ---- */

    /* Rank r's bytes lie at all + at[r], up to at[r + 1]; afterwards every rank has the bytes of all. `at` has count +
     * 1 entries, the same on every rank. */
    fl_status (*gather)(void *arg, void *all, const size_t *at);
    /* v becomes the sum over the ranks of n floats (real 4) or doubles (8), with the same bits on every rank, in any
     * order of addition. */
    fl_status (*add)(void *arg, void *v, size_t n, size_t real);

    /* ---- messages, which travel while others compute --------------------- */

    /* Begins to send n bytes, which must not change until `flush`. Messages from one rank to another with the same
     * number arrive in the order in which they were sent. Numbers are below 32768. */
    fl_status (*send)(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n);
    /* Begins to receive the next message with that number from that rank, which has n bytes; `mark` identifies it. */
    fl_status (*expect)(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark);
    /* Gives the mark of an expected message that has arrived, once for each. *there 0: none has; with `wait` set it
     * blocks until one has, and *there is 0 only if none is expected. Also makes progress on the messages that are
     * being sent. */
    fl_status (*arrived)(void *arg, int wait, size_t *mark, int *there);
    /* Returns when the memory of all messages sent by this rank may be used again. */
    fl_status (*flush)(void *arg);
} fl_ranks;

/* Runs made from this configuration are made by these ranks together. The table is copied; what it points to must
 * outlive the runs. NULL: by this process alone. */
fl_status fl_config_ranks(fl_config *cfg, const fl_ranks *ranks);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
