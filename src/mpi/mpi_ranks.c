/* The table of fedloom_ranks.h by MPI: messages, collective operations, the number of processors per rank; MPI's start
 * and end, for programs that leave MPI to this library; and the table from a communicator. */
#include "mpi/mpi_ranks.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ==== errors ====================================================================================================== */

/* A sentence about the last failure, because functions of the table have no context for it. */

static char last_error[1024];

const char *fl_mpi_error(void) { return last_error; }

/* Stores a sentence for fl_mpi_error; returns the status. */
static fl_status fail(fl_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static fl_status fail(fl_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last_error, sizeof last_error, fmt, ap);
    va_end(ap);
    return status;
}

/* The same with MPI's text for a code; FL_OK for MPI_SUCCESS. */
static fl_status check(int code, const char *what)
{
    char said[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return FL_OK;
    if (MPI_Error_string(code, said, &n) || !n) snprintf(said, sizeof said, "error %d", code);
    return fail(FL_ESYSTEM, "%s: %s", what, said);
}

/* ==== messages ==================================================================================================== */

/* The pending requests of each direction are in one array, because MPI tests many of them at once. A completed request
 * leaves a hole; holes are closed after every test. */

/* ---- the arrays ------------------------------------------------------------------------------------------- */

static int grow_one(void *array, size_t count, size_t size)
{
    void *more = realloc(*(void **)array, count * size);
    if (more) *(void **)array = more;
    return more != NULL;
}

/* Makes room for one more request. */
static fl_status reserve(fli_mpi_requests *q)
{
    size_t more = q->capacity ? 2 * q->capacity : 64;
    if (q->count < q->capacity) return FL_OK;
    if (!grow_one(&q->requests, more, sizeof *q->requests) || !grow_one(&q->marks, more, sizeof *q->marks) ||
        !grow_one(&q->bytes, more, sizeof *q->bytes) || !grow_one(&q->done, more, sizeof *q->done) ||
        !grow_one(&q->statuses, more, sizeof *q->statuses) || !grow_one(&q->found, more, sizeof *q->found))
        return fail(FL_ESYSTEM, "out of memory for %zu messages under way", more);
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

/* Cancels expected messages and abandons sent ones. */
static void drop_messages(fli_mpi *m)
{
    for (size_t i = 0; i < m->expected.count; i++) {
        MPI_Cancel(&m->expected.requests[i]);
        MPI_Request_free(&m->expected.requests[i]);
    }
    for (size_t i = 0; i < m->sent.count; i++) MPI_Request_free(&m->sent.requests[i]);
    fini(&m->expected);
    fini(&m->sent);
}

/* ---- starting messages ------------------------------------------------------------------------------------ */

/* *out = a type of n bytes, from pieces and a rest, so that one element of it is the message. */
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
    if (rank >= m->count) return fail(FL_ESYSTEM, "%s: there are %u ranks, and no %u", what, m->count, rank);
    if (number < FLI_MPI_NUMBERS) return FL_OK;
    return fail(FL_ESYSTEM, "%s: number is %u, and must be below %d", what, number, FLI_MPI_NUMBERS);
}

/* A freed type stays valid until the operations that use it have completed. */
static fl_status send_message(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->sent;
    MPI_Datatype type = MPI_BYTE;
    fl_status s = check_message(m, "send", to, number);
    if (!s) s = reserve(q);
    if (!s && n > m->piece) s = check(make_type(n, m->piece, &type), "a type for a long message");
    if (s) return s;
    q->marks[q->count] = 0;
    q->bytes[q->count] = n;
    int code =
        MPI_Isend(bytes, type == MPI_BYTE ? (int)n : 1, type, (int)to, (int)number, m->all, &q->requests[q->count]);
    if (!code) q->count++;
    if (type != MPI_BYTE) MPI_Type_free(&type);
    return check(code, "MPI_Isend");
}

static fl_status expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->expected;
    MPI_Datatype type = MPI_BYTE;
    fl_status s = check_message(m, "expect", from, number);
    if (!s) s = reserve(q);
    if (!s && n > m->piece) s = check(make_type(n, m->piece, &type), "a type for a long message");
    if (s) return s;
    q->marks[q->count] = mark;
    q->bytes[q->count] = n;
    int code =
        MPI_Irecv(bytes, type == MPI_BYTE ? (int)n : 1, type, (int)from, (int)number, m->all, &q->requests[q->count]);
    if (!code) q->count++;
    if (type != MPI_BYTE) MPI_Type_free(&type);
    return check(code, "MPI_Irecv");
}

/* ---- completing messages ---------------------------------------------------------------------------------- */

/* Reports the first failed request, if MPI says that the statuses have the errors. */
static fl_status check_done(int code, const char *what, int n, const MPI_Status *statuses)
{
    int class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    for (int i = 0; class == MPI_ERR_IN_STATUS && i < n; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return check(statuses[i].MPI_ERROR, what);
    return check(code, what);
}

/* A message that is too short arrives with its length. One that is too long is an MPI error; but Open MPI 4.1 misses it
 * for a few bytes that a rank sends to itself and, over TCP, for messages longer than TCP sends at once: the rest is
 * lost, or the receiver waits for ever. Probing before each receive would detect this, but costs a call per message.
 * Both sides compute lengths from the same settings, so there is no probe. */
static fl_status check_length(MPI_Status *status, size_t wanted)
{
    MPI_Count n = 0;
    fl_status s = check(MPI_Get_elements_x(status, MPI_BYTE, &n), "MPI_Get_elements_x");
    if (s || (size_t)n == wanted) return s;
    return fail(FL_ESYSTEM, "a message of %zu bytes was expected from rank %d, but has %lld", wanted,
                status->MPI_SOURCE, (long long)n);
}

/* Collects the marks of completed messages. */
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

static fl_status arrived(void *arg, int wait, size_t *mark, int *there)
{
    fli_mpi_requests *q = &((fli_mpi *)arg)->expected;
    fl_status s = q->waiting || !q->count ? FL_OK : look(q, wait);
    *there = !s && q->waiting;
    if (*there) *mark = q->found[--q->waiting];
    return s;
}

static fl_status flush(void *arg)
{
    fli_mpi *m = arg;
    fli_mpi_requests *q = &m->sent;
    int code = MPI_Waitall((int)q->count, q->requests, q->statuses);
    fl_status s = check_done(code, "MPI_Waitall", (int)q->count, q->statuses);
    close_holes(q);
    return s;
}

/* ==== collective operations ======================================================================================= */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Sizes fit into int: one call for all parts. */
static fl_status gather_at_once(fli_mpi *m, void *all, const size_t *at)
{
    int *counts = malloc(2 * m->count * sizeof *counts), *places = counts + m->count;
    if (!counts) return fail(FL_ESYSTEM, "out of memory");
    for (uint32_t r = 0; r < m->count; r++) {
        counts[r] = (int)(at[r + 1] - at[r]);
        places[r] = (int)at[r];
    }
    int code = MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_BYTE, m->all);
    free(counts);
    return check(code, "MPI_Allgatherv");
}

/* Sizes exceed int: broadcasts every rank's part piece by piece. */
static fl_status gather_in_pieces(fli_mpi *m, char *all, const size_t *at)
{
    fl_status s = FL_OK;
    for (uint32_t r = 0; r < m->count; r++)
        for (size_t i = at[r]; !s && i < at[r + 1]; i += m->piece)
            s = check(MPI_Bcast(all + i, (int)smaller(m->piece, at[r + 1] - i), MPI_BYTE, (int)r, m->all), "MPI_Bcast");
    return s;
}

static fl_status gather(void *arg, void *all, const size_t *at)
{
    fli_mpi *m = arg;
    for (uint32_t r = 0; r < m->count; r++)
        if (at[r] > at[r + 1])
            return fail(FL_ESYSTEM, "gather: the part of rank %u begins at %zu and ends at %zu", r, at[r], at[r + 1]);
    return at[m->count] <= m->piece ? gather_at_once(m, all, at) : gather_in_pieces(m, all, at);
}

/* MPI requires that MPI_Allreduce gives all ranks the same bits. */
static fl_status add(void *arg, void *v, size_t n, size_t real)
{
    fli_mpi *m = arg;
    fl_status s = FL_OK;
    if (real != sizeof(float) && real != sizeof(double))
        return fail(FL_ESYSTEM, "add: numbers of %zu bytes, neither float nor double", real);
    MPI_Datatype type = real == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
    size_t most = m->piece / real ? m->piece / real : 1;
    for (size_t i = 0; !s && i < n; i += most)
        s = check(MPI_Allreduce(MPI_IN_PLACE, (char *)v + i * real, (int)smaller(most, n - i), type, MPI_SUM, m->all),
                  "MPI_Allreduce");
    return s;
}

/* ==== processors ================================================================================================== */

/* Launchers bind each rank to processors of its own, or several ranks to the same ones (a socket), or none at all. So a
 * rank takes its share: its processors divided by the number of ranks on the machine that may use some of them. */

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
    if (sched_getaffinity(0, sizeof own, &own)) CPU_ZERO(&own); /* more processors than cpu_set_t can hold */
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_size(machine, &count);
    cpu_set_t *all = malloc((size_t)count * sizeof *all);
    if (!all) return fail(FL_ESYSTEM, "out of memory");
    fl_status s =
        check(MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, all, (int)sizeof own, MPI_BYTE, machine), "MPI_Allgather");
    for (int r = 0; !s && r < count; r++) sharing += overlap(&own, &all[r]);
    free(all);
    int share = sharing ? CPU_COUNT(&own) / sharing : 0;
    *out = !CPU_COUNT(&own) ? 0 : share ? (uint32_t)share : 1;
    return s;
}

/* ==== MPI's start and end ========================================================================================= */

/* Calls that wait for messages have no communicator. MPI reports their errors to one of these two, depending on its
 * version; by default an error ends the program. */
static fl_status return_errors(void)
{
    fl_status s = check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (s) return s;
    return check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

fl_status fl_mpi_start(void)
{
    int threads = MPI_THREAD_SINGLE;
    fl_status s = check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    if (s) return s;
    if (threads >= MPI_THREAD_SERIALIZED) return return_errors();
    MPI_Finalize();
    return fail(FL_ESYSTEM, "this MPI library is built for programs without threads (it gives less than "
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

/* One reduction finds both: the least is the negative of the largest negative. A collective operation cannot be
 * cancelled, so after a timeout its request stays pending, and its buffers are static. */
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
    fl_status s = check(MPI_Iallreduce(mine, found, 2, MPI_INT, MPI_MAX, m->meet, &request), "MPI_Iallreduce");
    while (!s && !done) {
        s = check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (s || done) break;
        if (seconds >= 0 && now() > until) return fail(FL_EBUSY, "not all ranks arrived within %.0f s", seconds);
        nanosleep(&moment, NULL);
    }
    *least = -found[0];
    *most = found[1];
    return s;
}

/* ==== the table =================================================================================================== */

const char *fl_mpi_version(void) { return FL_VERSION; }

static fl_status check_started(void)
{
    int started = 0, ended = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended) return fail(FL_ECONFIG, "MPI is not started, or has ended");
    MPI_Query_thread(&threads);
    if (threads >= MPI_THREAD_SERIALIZED) return FL_OK;
    return fail(FL_ECONFIG, "MPI was started with less than MPI_THREAD_SERIALIZED, but several threads call it "
                            "in turn");
}

/* Errors are returned as codes, also on communicators made from this one. */
static fl_status duplicate(fli_mpi *m, MPI_Comm from)
{
    int rank = 0, count = 0;
    fl_status s = check(MPI_Comm_dup(from, &m->all), "MPI_Comm_dup");
    if (!s) s = check(MPI_Comm_set_errhandler(m->all, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (!s) s = check(MPI_Comm_dup(m->all, &m->meet), "MPI_Comm_dup");
    if (!s)
        s = check(MPI_Comm_split_type(m->all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->machine),
                  "MPI_Comm_split_type");
    if (!s) s = check(MPI_Comm_rank(m->all, &rank), "MPI_Comm_rank");
    if (!s) s = check(MPI_Comm_size(m->all, &count), "MPI_Comm_size");
    m->rank = (uint32_t)rank;
    m->count = (uint32_t)count;
    return s;
}

/* The machine's first rank allocates the memory; the others map it. */
static fl_status make_common(fli_mpi *m, int local)
{
    MPI_Aint size;
    int unit;
    fl_status s =
        check(MPI_Win_allocate_shared(local ? 0 : FLI_MPI_COMMON, 1, MPI_INFO_NULL, m->machine, &m->memory, &m->common),
              "MPI_Win_allocate_shared");
    if (!s) s = check(MPI_Win_shared_query(m->common, 0, &size, &unit, &m->memory), "MPI_Win_shared_query");
    if (s) return s;
    if (!local) memset(m->memory, 0, FLI_MPI_COMMON);
    return check(MPI_Barrier(m->machine), "MPI_Barrier");
}

static void release(fli_mpi *m)
{
    drop_messages(m);
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
    fl_status s = check(MPI_Comm_rank(m->machine, &local), "MPI_Comm_rank");
    if (!s) s = check(MPI_Comm_size(m->machine, &neighbours), "MPI_Comm_size");
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
        .gather = gather,
        .add = add,
        .send = send_message,
        .expect = expect,
        .arrived = arrived,
        .flush = flush,
    };
    return FL_OK;
}

fl_status fl_mpi_ranks_new(const void *comm, fl_ranks *out)
{
    if (out->size != sizeof *out)
        return fail(FL_ECONFIG, "fl_ranks.size is %zu, not %zu: it was not set, or is another version's", out->size,
                    sizeof *out);
    fl_status s = check_started();
    if (s) return s;
    fli_mpi *m = calloc(1, sizeof *m);
    if (!m) return fail(FL_ESYSTEM, "out of memory");
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
