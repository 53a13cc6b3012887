/* Messages under way. Requests stand in one array per direction, since that is how MPI looks at many of them at once;
 * what is done leaves a hole, which is closed after every look. */
#include "mpi/carry.h"

#include <stdlib.h>
#include <string.h>

/* ---- the arrays ------------------------------------------------------------------------------------------- */

static int grow_one(void *array, size_t count, size_t size)
{
    void *more = realloc(*(void **)array, count * size);
    if (more) *(void **)array = more;
    return more != NULL;
}

/* Room for another one. */
static fl_status reserve(fli_mpi_requests *q)
{
    size_t more = q->capacity ? 2 * q->capacity : 64;
    if (q->count < q->capacity) return FL_OK;
    if (!grow_one(&q->requests, more, sizeof *q->requests) || !grow_one(&q->marks, more, sizeof *q->marks) ||
        !grow_one(&q->bytes, more, sizeof *q->bytes) || !grow_one(&q->done, more, sizeof *q->done) ||
        !grow_one(&q->statuses, more, sizeof *q->statuses) || !grow_one(&q->found, more, sizeof *q->found))
        return fli_mpi_fail(FL_ESYSTEM, "out of memory for %zu messages under way", more);
    q->capacity = more;
    return FL_OK;
}

static void close_holes(fli_mpi_requests *q)
{
    size_t kept = 0;
    for (size_t i = 0; i < q->count; i++)
        if (q->requests[i] != MPI_REQUEST_NULL) {
            q->requests[kept] = q->requests[i];
            q->marks[kept] = q->marks[i];
            q->bytes[kept++] = q->bytes[i];
        }
    q->count = kept;
}

static void fini(fli_mpi_requests *q)
{
    free(q->requests);
    free(q->marks);
    free(q->bytes);
    free(q->done);
    free(q->statuses);
    free(q->found);
    memset(q, 0, sizeof *q);
}

void fli_mpi_drop(fli_mpi *m)
{
    for (size_t i = 0; i < m->expected.count; i++) {
        MPI_Cancel(&m->expected.requests[i]);
        MPI_Request_free(&m->expected.requests[i]);
    }
    for (size_t i = 0; i < m->sent.count; i++) MPI_Request_free(&m->sent.requests[i]);
    fini(&m->expected);
    fini(&m->sent);
}

/* ---- beginning -------------------------------------------------------------------------------------------- */

/* n bytes as a type of which there is one: pieces, and the rest. */
static int make_type(size_t n, size_t piece, MPI_Datatype *out)
{
    MPI_Datatype whole, parts[2];
    int counts[2] = {(int)(n / piece), (int)(n % piece)};
    MPI_Aint places[2] = {0, (MPI_Aint)(n - n % piece)};
    int code = MPI_Type_contiguous((int)piece, MPI_BYTE, &whole);
    if (code) return code;
    parts[0] = whole;
    parts[1] = MPI_BYTE;
    code = MPI_Type_create_struct(2, counts, places, parts, out);
    MPI_Type_free(&whole);
    return code ? code : MPI_Type_commit(out);
}

static fl_status check_message(const fli_mpi *m, const char *what, uint32_t rank, uint32_t number)
{
    if (rank >= m->count) return fli_mpi_fail(FL_ESYSTEM, "%s: there are %u ranks, and no %u", what, m->count, rank);
    if (number < FLI_MPI_NUMBERS) return FL_OK;
    return fli_mpi_fail(FL_ESYSTEM, "%s: number is %u, and must be below %d", what, number, FLI_MPI_NUMBERS);
}

/* A type that is freed stays until what was begun with it is done. */
fl_status fli_mpi_send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->sent;
    MPI_Datatype type = MPI_BYTE;
    fl_status s = check_message(m, "send", to, number);
    if (!s) s = reserve(q);
    if (!s && n > m->piece) s = fli_mpi_check(make_type(n, m->piece, &type), "a type for a long message");
    if (s) return s;
    q->marks[q->count] = 0;
    q->bytes[q->count] = n;
    int code =
        MPI_Isend(bytes, type == MPI_BYTE ? (int)n : 1, type, (int)to, (int)number, m->all, &q->requests[q->count]);
    if (!code) q->count++;
    if (type != MPI_BYTE) MPI_Type_free(&type);
    return fli_mpi_check(code, "MPI_Isend");
}

fl_status fli_mpi_expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->expected;
    MPI_Datatype type = MPI_BYTE;
    fl_status s = check_message(m, "expect", from, number);
    if (!s) s = reserve(q);
    if (!s && n > m->piece) s = fli_mpi_check(make_type(n, m->piece, &type), "a type for a long message");
    if (s) return s;
    q->marks[q->count] = mark;
    q->bytes[q->count] = n;
    int code =
        MPI_Irecv(bytes, type == MPI_BYTE ? (int)n : 1, type, (int)from, (int)number, m->all, &q->requests[q->count]);
    if (!code) q->count++;
    if (type != MPI_BYTE) MPI_Type_free(&type);
    return fli_mpi_check(code, "MPI_Irecv");
}

/* ---- ending ----------------------------------------------------------------------------------------------- */

/* Why some of them failed, where MPI says that it has put that into the statuses. */
static fl_status check_done(int code, const char *what, int n, const MPI_Status *statuses)
{
    int class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    for (int i = 0; class == MPI_ERR_IN_STATUS && i < n; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return fli_mpi_check(statuses[i].MPI_ERROR, what);
    return fli_mpi_check(code, what);
}

/* A message that is too short comes with its length. One that is too long is MPI's error, but Open MPI 4.1 notices
 * neither a few bytes of a rank to itself nor, over TCP, what is longer than it sends at once: the rest is
 * lost, or the receiver waits for ever. A probe before each receive would tell, and cost a look at every message; both
 * sides compute lengths from the same settings, so it is not made. */
static fl_status check_length(MPI_Status *status, size_t wanted)
{
    MPI_Count n = 0;
    fl_status s = fli_mpi_check(MPI_Get_elements_x(status, MPI_BYTE, &n), "MPI_Get_elements_x");
    if (s || (size_t)n == wanted) return s;
    return fli_mpi_fail(FL_ESYSTEM, "a message of %zu bytes was expected from rank %d, and %lld came", wanted,
                        status->MPI_SOURCE, (long long)n);
}

/* Finds those that are there. */
static fl_status look(fli_mpi_requests *q, int wait)
{
    int n = 0, code = wait ? MPI_Waitsome((int)q->count, q->requests, &n, q->done, q->statuses)
                           : MPI_Testsome((int)q->count, q->requests, &n, q->done, q->statuses);
    if (n == MPI_UNDEFINED) n = 0;
    fl_status s = check_done(code, wait ? "MPI_Waitsome" : "MPI_Testsome", n, q->statuses);
    for (int i = 0; !s && i < n; i++) {
        s = check_length(&q->statuses[i], q->bytes[q->done[i]]);
        if (!s) q->found[q->waiting++] = q->marks[q->done[i]];
    }
    close_holes(q);
    return s;
}

fl_status fli_mpi_arrived(void *arg, int wait, size_t *mark, int *there)
{
    fli_mpi_requests *q = &((fli_mpi *)arg)->expected;
    fl_status s = q->waiting || !q->count ? FL_OK : look(q, wait);
    *there = !s && q->waiting;
    if (*there) *mark = q->found[--q->waiting];
    return s;
}

fl_status fli_mpi_flush(void *arg)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->sent;
    int code = MPI_Waitall((int)q->count, q->requests, q->statuses);
    fl_status s = check_done(code, "MPI_Waitall", (int)q->count, q->statuses);
    close_holes(q);
    return s;
}
