/* The state behind an fl_ranks by MPI: for mpi_ranks.c and its test. */
#ifndef FLI_MPI_MPI_RANKS_H
#define FLI_MPI_MPI_RANKS_H

#include "fedloom_mpi.h"

#include <mpi.h>

/* Pending requests, and data about each for its completion. MPI_REQUEST_NULL is a hole. */
typedef struct {
    size_t count, capacity;
    MPI_Request *requests;
    size_t *marks; /* of expected messages */
    size_t *bytes;
    /* completed requests: */
    int *done; /* indices and statuses, as MPI returns them */
    MPI_Status *statuses;
    size_t *found; /* `waiting` marks of messages that `arrived` has not returned yet */
    size_t waiting;
} fli_mpi_requests;

typedef struct {
    MPI_Comm all;  /* for collective operations and messages */
    MPI_Comm meet; /* for fl_mpi_meet alone: other ranks may be in an operation on `all` */
    MPI_Comm machine;
    MPI_Win common;
    void *memory; /* of the window `common` */
    uint32_t rank, count;
    size_t piece; /* most bytes of one transfer, because MPI counts in int; tests set it lower */
    fli_mpi_requests sent, expected;
} fli_mpi;

enum { FLI_MPI_COMMON = 64, FLI_MPI_NUMBERS = 32768 }; /* FLI_MPI_NUMBERS: MPI guarantees this many tags */

/* *out = number of processors that this rank should use; 0: unknown. All ranks of the machine call it together. */
fl_status fli_mpi_processors(MPI_Comm machine, uint32_t *out);

#endif
