/* What has happened at a server, in numbers, for whoever looks on: the status page, metrics, the log. */
#ifndef FLI_NET_SERVER_STATE_H
#define FLI_NET_SERVER_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Replies by page and code. */
enum { FLI_NET_PAGES = 24, FLI_NET_CODES = 14 };
typedef struct {
    atomic_uint_fast64_t n[FLI_NET_PAGES + 1][FLI_NET_CODES]; /* the last row: no page of ours */
} fli_net_tally;
/* `page`: its place in the table of pages; FLI_NET_PAGES: none. */
void fli_net_tally_add(fli_net_tally *t, size_t page, unsigned code);
/* The code that column k counts; 0: all others. */
unsigned fli_net_tally_code(size_t k);

/* Counted since the server started. Any thread adds, any thread reads. */
typedef struct {
    atomic_uint_fast64_t requests;     /* with all their headers */
    atomic_uint_fast64_t bytes_in;     /* of bodies */
    atomic_uint_fast64_t bytes_out;    /* the same */
    atomic_uint_fast64_t asks;         /* that the run has given out */
    atomic_uint_fast64_t deliveries;   /* of asks; more than asks where one was delivered again */
    atomic_uint_fast64_t answers;      /* taken */
    atomic_uint_fast64_t repeated;     /* answers that had been taken before */
    atomic_uint_fast64_t late;         /* answers that nobody waited for */
    atomic_uint_fast64_t malformed;    /* answers that were none */
    atomic_uint_fast64_t rejected;     /* answers that were screened out */
    atomic_uint_fast64_t refused;      /* asks that clients refused */
    atomic_uint_fast64_t dropped;      /* times that a round went on without a client, silent or late */
    atomic_uint_fast64_t unauthorized; /* requests of nobody that may join */
    atomic_uint_fast64_t turned_away;  /* requests that were wrong otherwise: no such page, too large, other version */
    atomic_uint_fast64_t busy;         /* requests that were told to come back: no room for their bodies */
    atomic_uint_fast64_t cut_off;      /* connections that were too slow */
    atomic_uint_fast64_t connections;  /* now */
    atomic_uint_fast64_t waiting;      /* requests that wait for an ask or terms, now */
    atomic_uint_fast64_t body_bytes;   /* of bodies under way, now */
    fli_net_tally replies;
} fli_net_counters;

typedef enum {
    FLI_NET_JOINING, /* somebody is missing */
    FLI_NET_RUNNING,
    FLI_NET_DRAINING, /* the round under way is the last one for now */
    FLI_NET_SAVING,   /* the run has ended, and its result is not safe yet: clients are not told */
    FLI_NET_PAUSED,   /* the run stands still, and goes on when the server starts again */
    FLI_NET_OVER      /* for good */
} fli_net_phase;

/* A client, as the server sees it. Times are seconds ago; -1: never. */
typedef struct {
    double heard;   /* any request of its */
    double asked;   /* since an ask waits for its answer; -1: none does */
    double took;    /* seconds from its last ask to the answer */
    double longest; /* the same, the longest so far */
    int waiting;    /* a request of its waits for news */
    int fetched;    /* it has what it was asked */
    uint64_t answers, dropped, refused, rejected;
} fli_net_client;

#endif
