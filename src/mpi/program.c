/* For programs that leave MPI to this library: its start and its end. */
#include "mpi/carry.h"

#include <time.h>

/* Calls that wait for messages have no communicator, so their errors go to one of these: which, depends on MPI's
 * version. Left alone, they end the program. */
static fl_status return_errors(void)
{
    fl_status s = fli_mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (s) return s;
    return fli_mpi_check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

fl_status fl_mpi_start(void)
{
    int threads = MPI_THREAD_SINGLE;
    fl_status s = fli_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    if (s) return s;
    if (threads >= MPI_THREAD_SERIALIZED) return return_errors();
    MPI_Finalize();
    return fli_mpi_fail(FL_ESYSTEM, "this MPI library is built for programs without threads (it gives less than "
                                    "MPI_THREAD_SERIALIZED); fedloom needs one with threads");
}

void fl_mpi_finish(void) { MPI_Finalize(); }

void fl_mpi_abort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One reduction tells both: the least is the largest of the negatives. Its request is left alone when time is up, since
 * what was begun together cannot be taken back, and so is its memory. */
fl_status fl_mpi_meet(const fl_ranks *ranks, int brought, double seconds, int *least, int *most)
{
    static int mine[2], found[2];
    const struct timespec moment = {0, 1000000};
    const fli_mpi *m = ranks->arg;
    MPI_Request request;
    int done = 0;
    double until = now() + seconds;
    mine[0] = -brought;
    mine[1] = brought;
    fl_status s = fli_mpi_check(MPI_Iallreduce(mine, found, 2, MPI_INT, MPI_MAX, m->meet, &request), "MPI_Iallreduce");
    while (!s && !done) {
        s = fli_mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (s || done) break;
        if (seconds >= 0 && now() > until)
            return fli_mpi_fail(FL_EBUSY, "not all ranks were there within %.0f s", seconds);
        nanosleep(&moment, NULL);
    }
    *least = -found[0];
    *most = found[1];
    return s;
}
