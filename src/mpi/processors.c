/* Launchers bind ranks to processors, each to its own, or several to the same (a socket), or none at all. So a rank
 * takes its part of what it may use: divided by how many of its neighbours may use some of it, too. */
#include "mpi/carry.h"

#include <sched.h>
#include <stdlib.h>

static int overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;
    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

fl_status fli_mpi_processors(MPI_Comm machine, uint32_t *out)
{
    int rank, count, sharing = 0;
    cpu_set_t own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof own, &own)) CPU_ZERO(&own); /* more processors than the set has room for */
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_size(machine, &count);
    cpu_set_t *all = malloc((size_t)count * sizeof *all);
    if (!all) return fli_mpi_fail(FL_ESYSTEM, "out of memory");
    fl_status s = fli_mpi_check(MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, all, (int)sizeof own, MPI_BYTE, machine),
                                "MPI_Allgather");
    for (int r = 0; !s && r < count; r++) sharing += overlap(&own, &all[r]);
    free(all);
    int share = sharing ? CPU_COUNT(&own) / sharing : 0;
    *out = !CPU_COUNT(&own) ? 0 : share ? (uint32_t)share : 1;
    return s;
}
