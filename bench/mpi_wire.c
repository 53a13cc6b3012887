/* The time of operations of fedloom_mpi.h's table between the ranks that mpirun started: medians in seconds, one line
 * each.
 *     message BYTES     from one rank to another, half of there and back
 *     each BYTES        a message of many that every rank sends to all others at the same time
 *     gather BYTES      a vector of this size, to which all ranks contribute equal parts
 *     add BYTES         a sum of doubles over all ranks
 *     absorb BYTES      adding a vector of floats to another, as a server does with an upload
 * Needs at least two ranks. */
#include "fedloom_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 1 << 20, TIMES = 41, ROUND_TRIPS = 20 };
static const size_t sizes[] = {8, 1024, 8192, 65536, 655360};

static fl_ranks ranks;
static unsigned char *sent, *came;
static size_t *at;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(fl_status s)
{
    if (!s) return;
    fprintf(stderr, "mpi_wire: %s\n", fl_mpi_error());
    fl_mpi_abort(1);
    exit(1);
}

static void receive(size_t messages)
{
    for (size_t mark, k = 0; k < messages; k++) {
        int there;
        must(ranks.arrived(ranks.arg, 1, &mark, &there));
    }
}

/* ---- measured operations; each returns its number of repetitions ------------------------------------------------- */

static double message(size_t bytes)
{
    uint32_t other = !ranks.rank;
    if (ranks.rank > 1) return 0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        must(ranks.expect(ranks.arg, other, 0, came, bytes, 0));
        if (ranks.rank) receive(1);
        must(ranks.send(ranks.arg, other, 0, sent, bytes));
        if (!ranks.rank) receive(1);
        must(ranks.flush(ranks.arg));
    }
    return 2 * ROUND_TRIPS;
}

static double each(size_t bytes)
{
    for (uint32_t r = 0; r < ranks.count; r++)
        if (r != ranks.rank) must(ranks.expect(ranks.arg, r, 0, came + r * bytes, bytes, r));
    for (uint32_t r = 0; r < ranks.count; r++)
        if (r != ranks.rank) must(ranks.send(ranks.arg, r, 0, sent, bytes));
    receive(ranks.count - 1);
    must(ranks.flush(ranks.arg));
    return ranks.count - 1;
}

static double gather(size_t bytes)
{
    for (uint32_t r = 0; r <= ranks.count; r++) at[r] = r * bytes / ranks.count;
    must(ranks.gather(ranks.arg, came, at));
    return 1;
}

static double add(size_t bytes)
{
    memset(came, 0, bytes);
    must(ranks.add(ranks.arg, came, bytes / sizeof(double), sizeof(double)));
    return 1;
}

/* Uploads come from other ranks and are not in a cache: uses another one each time. */
static double absorb(size_t bytes)
{
    static size_t place;
    float *sum = (float *)came;
    place = (place + bytes) % ((size_t)LARGEST * ranks.count - bytes) / 64 * 64;
    const float *up = (const float *)(sent + place);
    for (size_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += 0.5f * up[i];
    return 1;
}

/* ---- */

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(const char *what, double (*one)(size_t bytes), size_t bytes)
{
    double took[TIMES];
    for (size_t i = 0; i < TIMES; i++) {
        double all = 0;
        must(ranks.add(ranks.arg, &all, 1, sizeof all)); /* a barrier */
        double begin = now(), done = one(bytes);
        took[i] = done > 0 ? (now() - begin) / done : 0;
    }
    qsort(took, TIMES, sizeof *took, smaller);
    if (!ranks.rank) printf("%-8s %8zu %.9f\n", what, bytes, took[TIMES / 2]);
}

static void measure_all(void)
{
    static const struct {
        const char *what;
        double (*one)(size_t bytes);
    } all[] = {{"message", message}, {"each", each}, {"gather", gather}, {"add", add}, {"absorb", absorb}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) measure(all[k].what, all[k].one, sizes[i]);
}

int main(void)
{
    ranks.size = sizeof ranks;
    if (fl_mpi_start() || fl_mpi_ranks_new(NULL, &ranks)) {
        fprintf(stderr, "mpi_wire: %s\n", fl_mpi_error());
        return 1;
    }
    int enough = ranks.count > 1;
    sent = calloc(ranks.count, LARGEST);
    came = calloc(ranks.count, LARGEST);
    at = calloc(ranks.count + 1, sizeof *at);
    if (!sent || !came || !at || !enough)
        fprintf(stderr, "mpi_wire: %s\n", enough ? "out of memory" : "two ranks at least are needed");
    else
        measure_all();
    if (!sent || !came || !at) fl_mpi_abort(1);
    free(sent);
    free(came);
    free(at);
    fl_mpi_ranks_free(&ranks);
    fl_mpi_finish();
    return !enough;
}
