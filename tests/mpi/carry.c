/* Every function of the table that src/mpi fills, on however many ranks mpirun started. Each rank prints what fails on
 * it; the last line counts over all of them. */
#include "mpi/mpi_ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static fl_ranks ranks;
static int passed, failed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            passed++;                                                                                                  \
        else {                                                                                                         \
            failed++;                                                                                                  \
            printf("rank %u of %u, line %d: %s (%s)\n", ranks.rank, ranks.count, __LINE__, #condition,                 \
                   fl_mpi_error());                                                                                    \
        }                                                                                                              \
    } while (0)

static fli_mpi *inside(void) { return ranks.arg; }

/* Transfers of at most this many bytes. */
static void with_pieces(size_t bytes, void (*test)(void))
{
    size_t before = inside()->piece;
    inside()->piece = bytes;
    test();
    inside()->piece = before;
}

static unsigned char byte_of(size_t i, uint32_t rank) { return (unsigned char)(i * 7 + rank * 31 + 1); }

/* ---- the table itself -------------------------------------------------------------------------------------- */

/* Neighbours are those whose machine has the same name; among them, ranks are in order. */
static void check_table(void)
{
    enum { NAME = 256 };
    int rank, count;
    uint32_t before = 0, same = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    CHECK(ranks.rank == (uint32_t)rank && ranks.count == (uint32_t)count);
    char own[NAME] = "", *names = calloc((size_t)count, NAME);
    gethostname(own, sizeof own - 1);
    MPI_Allgather(own, NAME, MPI_BYTE, names, NAME, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < count; r++) {
        int here = !strcmp(own, names + (size_t)r * NAME);
        same += (uint32_t)here;
        before += (uint32_t)(here && r < rank);
    }
    CHECK(ranks.neighbours == same && ranks.local == before);
    free(names);
}

/* Ranks that share processors divide them, and those with their own take these. */
static void check_processors(void)
{
    cpu_set_t all, own;
    uint32_t n = 0;
    sched_getaffinity(0, sizeof all, &all);
    uint32_t there = (uint32_t)CPU_COUNT(&all);
    CHECK(fli_mpi_processors(inside()->machine, &n) == FL_OK);
    CHECK(n == (there / ranks.neighbours ? there / ranks.neighbours : 1)); /* run.sh binds none of them */
    CPU_ZERO(&own);
    for (int k = 0, cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && (uint32_t)(k++ % 2) == ranks.local % 2) CPU_SET(cpu, &own);
    if (there >= 2) {
        uint32_t others = (ranks.neighbours + 1 - ranks.local % 2) / 2, mine = (uint32_t)CPU_COUNT(&own);
        CHECK(!sched_setaffinity(0, sizeof own, &own));
        CHECK(fli_mpi_processors(inside()->machine, &n) == FL_OK);
        CHECK(n == (mine / others ? mine / others : 1));
        sched_setaffinity(0, sizeof all, &all);
    }
}

/* ---- together ---------------------------------------------------------------------------------------------- */

/* Parts of these lengths, some of them empty. */
static void gather_parts(const size_t *lengths)
{
    size_t *at = calloc(ranks.count + 1, sizeof *at);
    for (uint32_t r = 0; r < ranks.count; r++) at[r + 1] = at[r] + lengths[r % 5];
    unsigned char *all = calloc(at[ranks.count] + 1, 1);
    for (size_t i = at[ranks.rank]; i < at[ranks.rank + 1]; i++) all[i] = byte_of(i, ranks.rank);
    CHECK(ranks.gather(ranks.arg, all, at) == FL_OK);
    size_t wrong = 0;
    for (uint32_t r = 0; r < ranks.count; r++)
        for (size_t i = at[r]; i < at[r + 1]; i++) wrong += all[i] != byte_of(i, r);
    CHECK(!wrong && !all[at[ranks.count]]);
    free(all);
    free(at);
}

static void check_gather(void)
{
    static const size_t lengths[][5] = {{5, 3, 8, 1, 2}, {0, 0, 0, 0, 0}, {0, 100000, 0, 7, 0}, {70001, 0, 3, 0, 9}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) gather_parts(lengths[i]);
}

/* Sums that no order changes are right; others have the same bits on all ranks. */
static void check_add(void)
{
    enum { N = 1003 };
    static float f[N];
    static double d[N];
    for (size_t i = 0; i < N; i++) f[i] = (float)(i + ranks.rank);
    CHECK(ranks.add(ranks.arg, f, N, sizeof *f) == FL_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < N; i++) wrong += f[i] != (float)(ranks.count * i + ranks.count * (ranks.count - 1) / 2);
    CHECK(!wrong);
    for (size_t i = 0; i < N; i++) d[i] = 1.0 / (double)(1 + i * 3 + ranks.rank * 1000);
    CHECK(ranks.add(ranks.arg, d, N, sizeof *d) == FL_OK);
    double *all = calloc((size_t)N * ranks.count, sizeof *all);
    size_t *at = calloc(ranks.count + 1, sizeof *at);
    for (uint32_t r = 0; r <= ranks.count; r++) at[r] = r * sizeof d;
    memcpy(all + (size_t)N * ranks.rank, d, sizeof d);
    CHECK(ranks.gather(ranks.arg, all, at) == FL_OK);
    for (uint32_t r = 0; r < ranks.count; r++) CHECK(!memcmp(all + (size_t)N * r, d, sizeof d));
    CHECK(ranks.add(ranks.arg, NULL, 0, sizeof *d) == FL_OK);
    free(all);
    free(at);
}

/* ---- messages ---------------------------------------------------------------------------------------------- */

enum { MESSAGES = 300, LONGEST = 9000 };

/* Lengths from nothing to more than what MPI sends eagerly. */
static size_t length_of(size_t k) { return k % 11 == 0 ? 0 : k % 7 == 0 ? LONGEST : k * 5 % 200; }

static void fill(unsigned char *bytes, size_t k, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < length_of(k); i++) bytes[i] = byte_of(i + k * 13, from * 16 + to);
}

static int is_filled(const unsigned char *bytes, size_t k, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < length_of(k); i++)
        if (bytes[i] != byte_of(i + k * 13, from * 16 + to)) return 0;
    return 1;
}

/* Everyone to everyone, itself included, half of them expected before they are sent, in another order than they are
 * sent; several have the same number, and keep their order. Those that are there are taken one by one. */
static void check_messages(void)
{
    size_t total = (size_t)ranks.count * MESSAGES, half = MESSAGES / 2;
    unsigned char *out = malloc(total * LONGEST), *in = malloc(total * LONGEST), *seen = calloc(total, 1);
    fl_status s = FL_OK;
    for (size_t k = half; k < MESSAGES; k++) /* even numbers downwards in 8-blocks: of one number in order */
        for (uint32_t r = ranks.count; !s && r-- > 0;)
            s = ranks.expect(ranks.arg, r, (uint32_t)(k % 8), in + (r * MESSAGES + k) * LONGEST, length_of(k),
                             r * MESSAGES + k);
    for (size_t k = MESSAGES; k-- > 0;) {
        size_t turned = k < half ? half - 1 - k : MESSAGES - 1 - (k - half); /* each half upwards, the second first */
        for (uint32_t r = 0; !s && r < ranks.count; r++) {
            unsigned char *bytes = out + (r * MESSAGES + turned) * LONGEST;
            uint32_t number = (uint32_t)(turned % 8) + (turned < half ? FLI_MPI_NUMBERS - 8 : 0);
            fill(bytes, turned, ranks.rank, r);
            s = ranks.send(ranks.arg, r, number, bytes, length_of(turned));
        }
    }
    for (size_t k = 0; k < half; k++)
        for (uint32_t r = 0; !s && r < ranks.count; r++)
            s = ranks.expect(ranks.arg, r, (uint32_t)(k % 8) + FLI_MPI_NUMBERS - 8, in + (r * MESSAGES + k) * LONGEST,
                             length_of(k), r * MESSAGES + k);
    CHECK(s == FL_OK);
    size_t twice = 0, wrong = 0, taken = 0, mark = 0;
    for (int there = 1; !s && taken < total; taken += there != 0) {
        s = ranks.arrived(ranks.arg, taken % 3 == 0, &mark, &there);
        if (s || !there) continue;
        twice += seen[mark]++;
        wrong += !is_filled(in + mark * LONGEST, mark % MESSAGES, (uint32_t)(mark / MESSAGES), ranks.rank);
    }
    int there = 1;
    CHECK(s == FL_OK && taken == total && !twice && !wrong);
    CHECK(ranks.arrived(ranks.arg, 1, &mark, &there) == FL_OK && !there); /* none is expected: nobody waits */
    CHECK(ranks.flush(ranks.arg) == FL_OK);
    CHECK(!inside()->sent.count && !inside()->expected.count);
    CHECK(ranks.flush(ranks.arg) == FL_OK); /* of nothing */
    free(out);
    free(in);
    free(seen);
}

/* A message that was not sent yet is not there, and those that look do not wait for it. */
static void check_patience(void)
{
    uint32_t next = (ranks.rank + 1) % ranks.count, before = (ranks.rank + ranks.count - 1) % ranks.count;
    int there = 1, go = 1, came = 0;
    size_t mark = 0, at_end = ranks.count;
    CHECK(ranks.expect(ranks.arg, before, 5, &came, sizeof came, 77) == FL_OK);
    CHECK(ranks.arrived(ranks.arg, 0, &mark, &there) == FL_OK && !there);
    size_t *at = calloc(ranks.count + 1, sizeof *at);
    CHECK(ranks.gather(ranks.arg, &at_end, at) == FL_OK); /* of nothing */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(ranks.send(ranks.arg, next, 5, &go, sizeof go) == FL_OK);
    CHECK(ranks.arrived(ranks.arg, 1, &mark, &there) == FL_OK && there && mark == 77 && came == 1);
    CHECK(ranks.flush(ranks.arg) == FL_OK);
    free(at);
}

/* ---- wrong uses -------------------------------------------------------------------------------------------- */

static int says(const char *part) { return strstr(fl_mpi_error(), part) != NULL; }

static void check_refusals(void)
{
    fl_ranks other = {0};
    char byte = 0;
    int there;
    size_t mark, *at = calloc(ranks.count + 1, sizeof *at);
    CHECK(fl_mpi_ranks_new(NULL, &other) == FL_ECONFIG && says("size is 0"));
    CHECK(ranks.send(ranks.arg, ranks.count, 0, &byte, 1) == FL_ESYSTEM && says("and no"));
    CHECK(ranks.expect(ranks.arg, ranks.count, 0, &byte, 1, 0) == FL_ESYSTEM && says("and no"));
    CHECK(ranks.send(ranks.arg, 0, FLI_MPI_NUMBERS, &byte, 1) == FL_ESYSTEM && says("32768"));
    CHECK(ranks.add(ranks.arg, &byte, 1, 1) == FL_ESYSTEM && says("1 bytes"));
    at[0] = 1;
    CHECK(ranks.gather(ranks.arg, &byte, at) == FL_ESYSTEM && says("begins at 1"));
    char two[2] = {1, 2}, room[3] = {0};
    CHECK(!ranks.expect(ranks.arg, ranks.rank, 1, room, 3, 0) && !ranks.send(ranks.arg, ranks.rank, 1, two, 2));
    CHECK(ranks.arrived(ranks.arg, 1, &mark, &there) == FL_ESYSTEM && !there && says("3 bytes") && says("has 2"));
    CHECK(ranks.flush(ranks.arg) == FL_OK);
    free(at);
}

/* A message that is longer than expected, in one of two orders. What Open MPI does not notice is in mpi_ranks.c. */
static void send_too_much(int expected_first)
{
    char three[3] = {1, 2, 3}, room[2] = {0};
    uint32_t next = (ranks.rank + 1) % ranks.count, before = (ranks.rank + ranks.count - 1) % ranks.count;
    int there;
    size_t mark;
    if (expected_first) CHECK(!ranks.expect(ranks.arg, before, 1, room, 2, 0));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!ranks.send(ranks.arg, next, 1, three, 3));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!expected_first) CHECK(!ranks.expect(ranks.arg, before, 1, room, 2, 0));
    CHECK(ranks.arrived(ranks.arg, 1, &mark, &there) == FL_ESYSTEM && !there && says("truncated"));
    CHECK(ranks.flush(ranks.arg) == FL_OK);
}

static void check_too_long(void)
{
    if (ranks.count == 1) return;
    send_too_much(1);
    send_too_much(0);
}

/* ---- the program's part ------------------------------------------------------------------------------------ */

static void check_meeting(void)
{
    int least = -1, most = -1;
    struct timespec late = {0, 50000000};
    if (ranks.rank) nanosleep(&late, NULL);
    CHECK(fl_mpi_meet(&ranks, 3, 60, &least, &most) == FL_OK && least == 3 && most == 3);
    CHECK(fl_mpi_meet(&ranks, 5 + (int)ranks.rank, -1, &least, &most) == FL_OK);
    CHECK(least == 5 && most == 4 + (int)ranks.count);
}

static void check_common(void)
{
    int *common = fl_mpi_common(&ranks);
    CHECK(common && !*common);
    MPI_Barrier(MPI_COMM_WORLD);
    __atomic_fetch_add(common, 1, __ATOMIC_SEQ_CST);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(*common == (int)ranks.neighbours);
}

/* Another table, from another communicator: messages of the two do not mix, and what is left under way goes with it. */
static void check_second(void)
{
    fl_ranks second = {.size = sizeof second};
    MPI_Comm backwards;
    char byte = 1, room = 0;
    int there = 1;
    size_t mark;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -(int)ranks.rank, &backwards);
    CHECK(fl_mpi_ranks_new(&backwards, &second) == FL_OK);
    MPI_Comm_free(&backwards);
    CHECK(second.rank == ranks.count - 1 - ranks.rank && second.count == ranks.count);
    CHECK(!ranks.send(ranks.arg, ranks.rank, 2, &byte, 1));
    CHECK(!second.expect(second.arg, second.rank, 2, &room, 1, 0));
    CHECK(!second.arrived(second.arg, 0, &mark, &there) && !there);
    fl_mpi_ranks_free(&second);
    CHECK(!second.arg && !second.count);
    CHECK(!ranks.expect(ranks.arg, ranks.rank, 2, &room, 1, 9));
    CHECK(!ranks.arrived(ranks.arg, 1, &mark, &there) && there && mark == 9 && room == 1);
    CHECK(!ranks.flush(ranks.arg));
}

/* With "late" as argument, rank 0 does not come to a meeting: the others give up. */
static int meet_without(void)
{
    int least, most, wrong = 0;
    struct timespec pause = {1, 0};
    if (ranks.rank)
        wrong = fl_mpi_meet(&ranks, 1, 0.2, &least, &most) != FL_EBUSY || !says("not all ranks");
    else
        nanosleep(&pause, NULL);
    if (wrong) printf("rank %u: %s\n", ranks.rank, fl_mpi_error());
    MPI_Barrier(MPI_COMM_WORLD);
    fl_mpi_abort(wrong ? 1 : 42); /* what was begun together has no end */
    return 1;
}

int main(int argc, char **argv)
{
    ranks.size = sizeof ranks;
    if (fl_mpi_ranks_new(NULL, &ranks) != FL_ECONFIG || !says("not started")) return puts("it works without MPI"), 1;
    if (fl_mpi_start() || fl_mpi_ranks_new(NULL, &ranks)) return puts(fl_mpi_error()), 1;
    if (argc > 1 && !strcmp(argv[1], "late")) return meet_without();
    check_table();
    check_processors();
    check_gather();
    with_pieces(1000, check_gather);
    with_pieces(1, check_patience);
    check_add();
    with_pieces(40, check_add);
    check_messages();
    with_pieces(64, check_messages);
    check_patience();
    check_refusals();
    check_too_long();
    check_meeting();
    check_common();
    check_second();
    int mine[2] = {passed, failed}, all[2] = {0, 0};
    MPI_Reduce(mine, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!ranks.rank) printf("%d passed, %d failed\n", all[0], all[1]);
    fl_mpi_ranks_free(&ranks);
    fl_mpi_finish();
    return failed > 0;
}
