/* Whether an MPI launcher started the program, by what it left in the environment. That costs nothing, and MPI itself
 * need not be there. A batch script of Slurm has variables of its own, which are none of these. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *rank, *count, *mark; /* variables; the last need not be a number */
    const char *command;
    int abrupt; /* when a rank dies, it kills the others at once, and does not ask them to end */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "mpirun -n", 0}, /* Open MPI */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL, "mpirun -n", 1},   /* MVAPICH, whose launcher is MPICH's */
    {"PMI_RANK", "PMI_SIZE", "PMI_JOBID", "srun -K --mpi=pmi2 -n", 0},      /* with MPICH */
    {"PMI_RANK", "PMI_SIZE", NULL, "mpiexec -n", 1},                        /* MPICH, Intel MPI */
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", NULL, "srun -K --mpi=pmix -n", 0},
    {"PMIX_RANK", "PMIX_SIZE", NULL, "mpirun -n", 0}, /* others: many of them do not say how many */
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
        if (launchers[i].mark && !getenv(launchers[i].mark)) continue;
        if (rank >= 0 && (count > rank || last))
            return (launch){(uint32_t)rank, count > rank ? (uint32_t)count : 0, launchers[i].command,
                            launchers[i].abrupt};
    }
    return none;
}
