/* What stands behind an fl_ranks by MPI. */
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
    /* for those that are done: their places and statuses, as MPI tells them, */
    int *done;
    MPI_Status *statuses;
    size_t *found; /* and marks that were not asked for yet */
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

/* error.c: a sentence for fl_mpi_error, and the status. */
fl_status fli_mpi_fail(fl_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same by what MPI says of a code; FL_OK for MPI_SUCCESS. */
fl_status fli_mpi_check(int code, const char *what);

/* together.c and messages.c: the functions of the table. */
fl_status fli_mpi_gather(void *arg, void *all, const size_t *at);
fl_status fli_mpi_add(void *arg, void *v, size_t n, size_t real);
fl_status fli_mpi_send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n);
fl_status fli_mpi_expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark);
fl_status fli_mpi_arrived(void *arg, int wait, size_t *mark, int *there);
fl_status fli_mpi_flush(void *arg);
/* Gives up what is under way. */
void fli_mpi_drop(fli_mpi *m);

/* processors.c: how many of the machine's are for this rank. Its neighbours call it, too. */
fl_status fli_mpi_processors(MPI_Comm machine, uint32_t *out);

#endif
