/* What stands behind an fl_ranks by MPI: for mpi_ranks.c and its test. */
#ifndef FLI_MPI_MPI_RANKS_H
#define FLI_MPI_MPI_RANKS_H

#include "fedloom_mpi.h"

#include <mpi.h>

/* Requests under way, and what is to be known of each when it is done. A hole is MPI_REQUEST_NULL. */
typedef struct {
    size_t count, capacity;
    MPI_Request *requests;
    size_t *marks; /* of what is received */
    size_t *bytes;
    /* of those that are done: */
    int *done; /* places and statuses, as MPI returns them, */
    MPI_Status *statuses;
    size_t *found; /* and `waiting` marks that were not asked for yet */
    size_t waiting;
} fli_mpi_requests;

typedef struct {
    MPI_Comm all;  /* for what the ranks do together, and for messages */
    MPI_Comm meet; /* for fl_mpi_meet alone: others may be in the middle of something */
    MPI_Comm machine;
    MPI_Win common;
    void *memory; /* of that */
    uint32_t rank, count;
    size_t piece; /* bytes of one transfer at most: MPI counts in int. Tests have small ones */
    fli_mpi_requests sent, expected;
} fli_mpi;

enum { FLI_MPI_COMMON = 64, FLI_MPI_NUMBERS = 32768 }; /* MPI promises that many tags */

/* How many of the machine's processors this rank may take. All ranks of the machine call it together. */
fl_status fli_mpi_processors(MPI_Comm machine, uint32_t *out);

#endif
