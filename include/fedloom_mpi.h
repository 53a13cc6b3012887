/* fl_ranks by MPI, in a library of its own, libfedloom_mpi: nothing else of fedloom needs MPI.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     MPI_Comm comm = MPI_COMM_WORLD;
 *     fl_ranks ranks = {.size = sizeof ranks};
 *     if (fl_mpi_ranks_new(&comm, &ranks)) ...      fl_mpi_error() says why
 *     fl_config_ranks(cfg, &ranks);
 *     ...                                           runs, on every rank
 *     fl_mpi_ranks_free(&ranks);
 *
 * None of these is called on two threads at the same time, and no function of the table while one of these is under
 * way. */
#ifndef FEDLOOM_MPI_H
#define FEDLOOM_MPI_H

#include "fedloom_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Fills the table. `comm` points to an MPI_Comm, which is duplicated; NULL: MPI_COMM_WORLD. Every rank of it calls
 * this. FL_ECONFIG: the table's size was not set, or MPI was not started, or with less than MPI_THREAD_SERIALIZED. */
fl_status fl_mpi_ranks_new(const void *comm, fl_ranks *out);
/* Every rank calls it, when nothing that was made with the table is left. The table is all zeros afterwards. */
void fl_mpi_ranks_free(fl_ranks *ranks);
/* What was wrong with the last call that failed, of these or of the table; "" if none has. */
const char *fl_mpi_error(void);

/* FL_VERSION of the library. */
const char *fl_mpi_version(void);

/* ---- for programs that leave MPI to this library ----------------------------------------------------------- */

/* MPI_Init_thread and MPI_Finalize. FL_ESYSTEM: MPI did not start, or lets threads not even take turns. */
fl_status fl_mpi_start(void);
void fl_mpi_finish(void);
/* MPI_Abort: ends all ranks, in seconds, and this one at once. */
void fl_mpi_abort(int status);

/* Waits until every rank is here, this long at most; negative: however long it takes. *least and *most of what the
 * ranks brought are the same on all of them. FL_EBUSY: some did not come in time; no rank may call this again. May be
 * called while other ranks are inside functions of the table, and after these have failed. */
fl_status fl_mpi_meet(const fl_ranks *ranks, int brought, double seconds, int *least, int *most);

/* 64 bytes that the ranks of one machine have in common, zeros at first. They go with the table. */
void *fl_mpi_common(const fl_ranks *ranks);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
