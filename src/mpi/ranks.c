/* A table from a communicator, and back. */
#include "mpi/carry.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *fl_mpi_version(void) { return FL_VERSION; }

static fl_status check_started(void)
{
    int started = 0, ended = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended) return fli_mpi_fail(FL_ECONFIG, "MPI is not started, or has ended");
    MPI_Query_thread(&threads);
    if (threads >= MPI_THREAD_SERIALIZED) return FL_OK;
    return fli_mpi_fail(FL_ECONFIG, "MPI was started with less than MPI_THREAD_SERIALIZED: threads could not take "
                                    "turns with it");
}

/* Errors come back as codes, of communicators that are made from this one as well. */
static fl_status duplicate(fli_mpi *m, MPI_Comm from)
{
    int rank = 0, count = 0;
    fl_status s = fli_mpi_check(MPI_Comm_dup(from, &m->all), "MPI_Comm_dup");
    if (!s) s = fli_mpi_check(MPI_Comm_set_errhandler(m->all, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (!s) s = fli_mpi_check(MPI_Comm_dup(m->all, &m->meet), "MPI_Comm_dup");
    if (!s)
        s = fli_mpi_check(MPI_Comm_split_type(m->all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->machine),
                          "MPI_Comm_split_type");
    if (!s) s = fli_mpi_check(MPI_Comm_rank(m->all, &rank), "MPI_Comm_rank");
    if (!s) s = fli_mpi_check(MPI_Comm_size(m->all, &count), "MPI_Comm_size");
    m->rank = (uint32_t)rank;
    m->count = (uint32_t)count;
    return s;
}

/* The first rank of a machine has the memory, the others see it. */
static fl_status make_common(fli_mpi *m, int local)
{
    MPI_Aint size;
    int unit;
    fl_status s = fli_mpi_check(
        MPI_Win_allocate_shared(local ? 0 : FLI_MPI_COMMON, 1, MPI_INFO_NULL, m->machine, &m->memory, &m->common),
        "MPI_Win_allocate_shared");
    if (!s) s = fli_mpi_check(MPI_Win_shared_query(m->common, 0, &size, &unit, &m->memory), "MPI_Win_shared_query");
    if (s) return s;
    if (!local) memset(m->memory, 0, FLI_MPI_COMMON);
    return fli_mpi_check(MPI_Barrier(m->machine), "MPI_Barrier");
}

static void release(fli_mpi *m)
{
    fli_mpi_drop(m);
    if (m->common != MPI_WIN_NULL) MPI_Win_free(&m->common);
    if (m->machine != MPI_COMM_NULL) MPI_Comm_free(&m->machine);
    if (m->meet != MPI_COMM_NULL) MPI_Comm_free(&m->meet);
    if (m->all != MPI_COMM_NULL) MPI_Comm_free(&m->all);
    free(m);
}

static fl_status fill(fli_mpi *m, fl_ranks *out)
{
    int local = 0, neighbours = 0;
    uint32_t processors = 0;
    fl_status s = fli_mpi_check(MPI_Comm_rank(m->machine, &local), "MPI_Comm_rank");
    if (!s) s = fli_mpi_check(MPI_Comm_size(m->machine, &neighbours), "MPI_Comm_size");
    if (!s) s = fli_mpi_processors(m->machine, &processors);
    if (!s) s = make_common(m, local);
    if (s) return s;
    *out = (fl_ranks){
        .size = sizeof *out,
        .rank = m->rank,
        .count = m->count,
        .local = (uint32_t)local,
        .neighbours = (uint32_t)neighbours,
        .processors = processors,
        .arg = m,
        .gather = fli_mpi_gather,
        .add = fli_mpi_add,
        .send = fli_mpi_send,
        .expect = fli_mpi_expect,
        .arrived = fli_mpi_arrived,
        .flush = fli_mpi_flush,
    };
    return FL_OK;
}

fl_status fl_mpi_ranks_new(const void *comm, fl_ranks *out)
{
    if (out->size != sizeof *out)
        return fli_mpi_fail(FL_ECONFIG, "fl_ranks.size is %zu, not %zu: it was not set, or is another version's",
                            out->size, sizeof *out);
    fl_status s = check_started();
    if (s) return s;
    fli_mpi *m = calloc(1, sizeof *m);
    if (!m) return fli_mpi_fail(FL_ESYSTEM, "out of memory");
    m->all = m->meet = m->machine = MPI_COMM_NULL;
    m->common = MPI_WIN_NULL;
    m->piece = INT_MAX;
    s = duplicate(m, comm ? *(const MPI_Comm *)comm : MPI_COMM_WORLD);
    if (!s) s = fill(m, out);
    if (s) release(m);
    return s;
}

void fl_mpi_ranks_free(fl_ranks *ranks)
{
    if (!ranks || !ranks->arg) return;
    release(ranks->arg);
    memset(ranks, 0, sizeof *ranks);
}

void *fl_mpi_common(const fl_ranks *ranks) { return ((fli_mpi *)ranks->arg)->memory; }
