/* Whether an MPI launcher started the program, by what it left in the environment. That costs nothing, and MPI itself
 * need not be there. A batch script of Slurm has variables of its own, which are none of these. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *rank, *count; /* variables */
    const char *command;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun -n"}, /* Open MPI */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "mpirun -n"},   /* MVAPICH */
    {"PMI_RANK", "PMI_SIZE", "mpiexec -n"},                        /* MPICH, Intel MPI, srun --mpi=pmi2 */
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "srun --mpi=pmix -n"},
    {"PMIX_RANK", "PMIX_SIZE", "mpirun -n"}, /* others: many of them do not say how many */
};

/* A whole number; otherwise -1. */
static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : -1;
    return n >= 0 && n < 1000000000 && !*end ? n : -1;
}

launch launch_find(void)
{
    launch none = {.count = 1, .command = ""};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        long rank = number_of(launchers[i].rank), count = number_of(launchers[i].count);
        int last = i + 1 == sizeof launchers / sizeof *launchers;
        if (rank >= 0 && (count > rank || last))
            return (launch){(uint32_t)rank, count > rank ? (uint32_t)count : 0, launchers[i].command};
    }
    return none;
}
