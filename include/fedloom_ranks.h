/* One run by several processes, for whoever connects them: MPI (fedloom_mpi.h), a test.
 *
 * All processes, the ranks, make the same run from the same settings and call the same functions in the same order.
 * Each of them has the samples and the state of its own part of the clients, and takes their turns; what the ranks must
 * know of each other passes through this table. The result has the bits of a run in one process. Rank 0 writes it.
 *
 *     fl_config_ranks(cfg, &ranks);      before fl_run_new or fl_run_resume, on every rank
 *     fl_run_new, fl_run_prepare_save, fl_run_go, fl_run_save      as ever, on every rank
 *
 * Functions in which ranks meet, so that all of them make the same call: fl_config_resume of a configuration with
 * ranks, fl_run_new, fl_run_resume, fl_run_go, fl_run_step, fl_run_prepare_save, fl_run_save, fl_run_save_model,
 * fl_run_checkpoint, fl_run_client_vector and fl_run_client_scalars. They return the same on all ranks. Any rank may
 * call fl_run_stop, and all stop. All others look at what every rank has: rows, counts, the server's vectors; a start
 * model, and another output, are given to every rank alike.
 *
 * Files are rank 0's: it locks the output, writes results, models and what all have in common of a checkpoint. Other
 * ranks write the state of their own clients beside it, into the same folder, which they must see. A checkpoint may be
 * resumed by any number of ranks, or by one process.
 *
 * A failure that all ranks have in common ends them alike. One that a rank has alone leaves the others waiting: who
 * connects them has to end them (MPI_Abort). */
#ifndef FEDLOOM_RANKS_H
#define FEDLOOM_RANKS_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Functions return FL_OK, or FL_ESYSTEM after which nothing of it is called any more. None is called on two threads at
 * the same time. */
typedef struct {
    size_t size;          /* sizeof(fl_ranks) */
    uint32_t rank, count; /* this process is number `rank` of `count` */
    uint32_t local;       /* its number among those on the same machine: which of its GPUs it takes */
    uint32_t neighbours;  /* how many those are, itself included */
    uint32_t processors;  /* of that machine, for this rank: its threads, unless `threads` is set; 0: not known */
    void *arg;

    /* ---- together: every rank makes the same calls, in the same order ---- */

    /* Rank r's bytes lie at all + at[r], up to at[r + 1]; afterwards every rank has the bytes of all. at has count + 1
     * entries, the same everywhere. */
    fl_status (*gather)(void *arg, void *all, const size_t *at);
    /* v becomes the sum over the ranks of n floats (real 4) or doubles (8), with the same bits everywhere; in which
     * order it is added up is not said. */
    fl_status (*add)(void *arg, void *v, size_t n, size_t real);

    /* ---- messages, under way while others compute ---- */

    /* Begins to send n bytes, which must stay as they are until `flush`. Messages from one rank to another that have
     * the same number arrive in the order in which they were sent. Numbers are below 32768. */
    fl_status (*send)(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n);
    /* Begins to receive the next message of that number from that rank, which has n bytes; `mark` stands for it. */
    fl_status (*expect)(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark);
    /* The mark of an expected message that is there, each once. *there 0: none is, which cannot be if `wait` is set and
     * one is expected. Also lets those that are under way go on. */
    fl_status (*arrived)(void *arg, int wait, size_t *mark, int *there);
    /* Returns when all that was sent here has left the memory it was in. */
    fl_status (*flush)(void *arg);
} fl_ranks;

/* The runs made from this configuration are made by these ranks together. The table is copied, what it leads to must
 * outlive the runs. NULL: by this process alone. */
fl_status fl_config_ranks(fl_config *cfg, const fl_ranks *ranks);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
