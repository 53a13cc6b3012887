/* What all ranks do at the same time. */
#include "mpi/carry.h"

#include <stdlib.h>

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Counts and places of parts, in int. */
static fl_status gather_at_once(fli_mpi *m, void *all, const size_t *at)
{
    int *counts = malloc(2 * m->count * sizeof *counts), *places = counts + m->count;
    if (!counts) return fli_mpi_fail(FL_ESYSTEM, "out of memory");
    for (uint32_t r = 0; r < m->count; r++) {
        counts[r] = (int)(at[r + 1] - at[r]);
        places[r] = (int)at[r];
    }
    int code = MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_BYTE, m->all);
    free(counts);
    return fli_mpi_check(code, "MPI_Allgatherv");
}

/* Larger than int: every rank's part, piece by piece. */
static fl_status gather_in_pieces(fli_mpi *m, char *all, const size_t *at)
{
    fl_status s = FL_OK;
    for (uint32_t r = 0; r < m->count; r++)
        for (size_t i = at[r]; !s && i < at[r + 1]; i += m->piece)
            s = fli_mpi_check(MPI_Bcast(all + i, (int)smaller(m->piece, at[r + 1] - i), MPI_BYTE, (int)r, m->all),
                              "MPI_Bcast");
    return s;
}

fl_status fli_mpi_gather(void *arg, void *all, const size_t *at)
{
    fli_mpi *m = arg;
    for (uint32_t r = 0; r < m->count; r++)
        if (at[r] > at[r + 1])
            return fli_mpi_fail(FL_ESYSTEM, "gather: the part of rank %u begins at %zu and ends at %zu", r, at[r],
                                at[r + 1]);
    return at[m->count] <= m->piece ? gather_at_once(m, all, at) : gather_in_pieces(m, all, at);
}

/* MPI requires that all ranks receive the same result of MPI_Allreduce, bit by bit. */
fl_status fli_mpi_add(void *arg, void *v, size_t n, size_t real)
{
    fli_mpi *m = arg;
    fl_status s = FL_OK;
    if (real != sizeof(float) && real != sizeof(double))
        return fli_mpi_fail(FL_ESYSTEM, "add: numbers of %zu bytes, neither float nor double", real);
    MPI_Datatype type = real == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
    size_t most = m->piece / real ? m->piece / real : 1;
    for (size_t i = 0; !s && i < n; i += most)
        s = fli_mpi_check(
            MPI_Allreduce(MPI_IN_PLACE, (char *)v + i * real, (int)smaller(most, n - i), type, MPI_SUM, m->all),
            "MPI_Allreduce");
    return s;
}
