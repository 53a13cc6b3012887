/* How long to wait before the next try: exponential, with full jitter, so that a thousand clients of a server that
 * comes back do not come back together. */
#ifndef FLI_NET_CLIENT_BACKOFF_H
#define FLI_NET_CLIENT_BACKOFF_H

#include <stdint.h>

typedef struct {
    uint64_t random; /* state of the generator, from the system's entropy; not 0 */
    unsigned tries;  /* in a row that came to nothing */
    double since;    /* when the first of them was, by fli_clock_now */
} fli_backoff;

void fli_backoff_init(fli_backoff *b);
enum { FLI_BACKOFF_LEAST = 60 }; /* the most that anybody else can say */
/* Another try came to nothing: seconds until the next, `least`, which the server has said, and between 0 and a bound
 * that doubles from 0.5 to 30. */
double fli_backoff_next(fli_backoff *b, double least);
/* Seconds since the first of the tries in a row that came to nothing; 0: the last one did not. */
double fli_backoff_for(const fli_backoff *b);
/* It worked. */
void fli_backoff_reset(fli_backoff *b);

#endif
