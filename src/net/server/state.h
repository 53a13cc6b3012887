/* Counters and states of a server, for the status page, metrics and the log. */
#ifndef FLI_NET_SERVER_STATE_H
#define FLI_NET_SERVER_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Replies by page and code. */
enum { FLI_NET_PAGES = 24, FLI_NET_CODES = 14 };
typedef struct {
    atomic_uint_fast64_t n[FLI_NET_PAGES + 1][FLI_NET_CODES]; /* last row: requests for none of these pages */
} fli_net_tally;
/* `page`: index into the table of pages; FLI_NET_PAGES: not a page. */
void fli_net_tally_add(fli_net_tally *t, size_t page, unsigned code);
/* The code that column k counts; 0: all other codes. */
unsigned fli_net_tally_code(size_t k);

/* Counts since the server started, and some current values. Any thread may add and read. */
typedef struct {
    atomic_uint_fast64_t requests;     /* with a complete head */
    atomic_uint_fast64_t bytes_in;     /* of bodies */
    atomic_uint_fast64_t bytes_out;    /* of bodies */
    atomic_uint_fast64_t asks;         /* asks from the run */
    atomic_uint_fast64_t deliveries;   /* of asks to clients; the same ask may be delivered more than once */
    atomic_uint_fast64_t answers;      /* taken */
    atomic_uint_fast64_t repeated;     /* answers that had been taken before */
    atomic_uint_fast64_t late;         /* answers that were not awaited */
    atomic_uint_fast64_t malformed;    /* bodies that were not valid answers */
    atomic_uint_fast64_t rejected;     /* answers that were screened out */
    atomic_uint_fast64_t refused;      /* asks that clients refused */
    atomic_uint_fast64_t dropped;      /* clients left out of a round, silent or late */
    atomic_uint_fast64_t unauthorized; /* requests without a certificate or name that may use the page */
    atomic_uint_fast64_t turned_away;  /* other refused requests: no such page, too large, another version */
    atomic_uint_fast64_t busy;         /* requests that got 503 because there was no room for their bodies */
    atomic_uint_fast64_t cut_off;      /* connections that were cut because they were slow */
    atomic_uint_fast64_t connections;  /* now */
    atomic_uint_fast64_t waiting;      /* requests that wait for an ask or terms, now */
    atomic_uint_fast64_t body_bytes;   /* of bodies being received, now */
    fli_net_tally replies;
} fli_net_counters;

typedef enum {
    FLI_NET_JOINING, /* not all clients have joined */
    FLI_NET_RUNNING,
    FLI_NET_DRAINING, /* the round under way is the last one for now */
    FLI_NET_SAVING,   /* the run has ended and its result is not safe yet: clients are not told */
    FLI_NET_PAUSED,   /* the run waits for a restarted server */
    FLI_NET_OVER      /* the run is over, and clients are told */
} fli_net_phase;

/* The state of a client. Times are seconds ago; -1: never. */
typedef struct {
    double heard;   /* its last request */
    double asked;   /* its ask was posted and is unanswered; -1: it has none */
    double took;    /* duration of its last answered ask, in seconds */
    double longest; /* the longest such duration */
    int waiting;    /* one of its requests waits */
    int fetched;    /* it has fetched its ask */
    uint64_t answers, dropped, refused, rejected;
} fli_net_client;

#endif
