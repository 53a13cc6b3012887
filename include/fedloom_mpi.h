/* fl_ranks over MPI, in a separate library, libfedloom_mpi: the rest of fedloom does not need MPI.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     MPI_Comm comm = MPI_COMM_WORLD;
 *     fl_ranks ranks = {.size = sizeof ranks};
 *     if (fl_mpi_ranks_new(&comm, &ranks)) ...      fl_mpi_error() says why
 *     fl_config_ranks(cfg, &ranks);
 *     ...                                           runs, on every rank
 *     fl_mpi_ranks_free(&ranks);
 *
 * Never call two of these functions at the same time, nor one of them while a function of the table is running. */
#ifndef FEDLOOM_MPI_H
#define FEDLOOM_MPI_H

#include "fedloom_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Fills the table; every rank of the communicator calls this. `comm` points to an MPI_Comm, which is duplicated; NULL:
 * MPI_COMM_WORLD. FL_ECONFIG: the table's size was not set, or MPI was not started with MPI_THREAD_SERIALIZED or
 * more. */
fl_status fl_mpi_ranks_new(const void *comm, fl_ranks *out);
/* Every rank calls it, after freeing all that was made with the table. Sets the table to zero. */
void fl_mpi_ranks_free(fl_ranks *ranks);
/* The error of the last call that failed, of these functions or of the table; "" if none has. */
const char *fl_mpi_error(void);

/* FL_VERSION of this library. */
const char *fl_mpi_version(void);

/* ---- for programs that leave MPI to this library ----------------------------------------------------------- */

/* MPI_Init_thread and MPI_Finalize. FL_ESYSTEM: MPI did not start, or offers less than MPI_THREAD_SERIALIZED. */
fl_status fl_mpi_start(void);
void fl_mpi_finish(void);
/* MPI_Abort: ends this rank at once, and all others within seconds. */
void fl_mpi_abort(int status);

/* Waits at most `seconds` (negative: without limit) until every rank has called it. *least and *most are the smallest
 * and the largest of `brought` over the ranks, the same on all of them. FL_EBUSY: some ranks did not come in time; then
 * no rank may call this again. Other ranks may be inside functions of the table, or these may have failed. */
fl_status fl_mpi_meet(const fl_ranks *ranks, int brought, double seconds, int *least, int *most);

/* 64 bytes that the ranks of one machine share, zero at first. They are freed with the table. */
void *fl_mpi_common(const fl_ranks *ranks);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
