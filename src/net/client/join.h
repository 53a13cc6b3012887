/* The life of a client: it joins a server's federation, and from then on fetches asks, works, keeps its state on its
 * disk, and brings answers, until the run is over.
 *
 * It may be killed at any moment. What it keeps is on the disk before an answer leaves, and an answer is there until
 * the server has taken it or does not want it; started again, it sends that answer again and goes on. A server that is
 * away is waited for. */
#ifndef FLI_NET_CLIENT_JOIN_H
#define FLI_NET_CLIENT_JOIN_H

#include "net/client/join_settings.h"
#include "net/common/log.h"

typedef enum {
    FLI_LET_GO,   /* it may leave */
    FLI_LET_BE,   /* it may not; the client goes on without */
    FLI_LET_STOP, /* and the client ends */
} fli_leave;

typedef struct {
    fl_config *cfg; /* where its samples are */
    const fli_join_settings *settings;
    int once;        /* ends after its first turn */
    int look_only;   /* and does not send the answer to it */
    int changed;     /* goes on with samples or terms that are not those the run was begun with */
    fli_net_log log; /* for programs */
    /* For people; each may be NULL. */
    void (*tell)(void *arg, const char *line);
    /* Everything that leaves, in words, before it does; `ask`: whether there is a choice. NULL: it leaves unseen. */
    fli_leave (*show)(void *arg, const char *what, const char *text, int ask);
    int (*stopping)(void *arg); /* looked at a few times a second, from two threads */
    void *arg;
} fli_join_spec;

/* FL_OK: the run is over, and it went well; or `once` was done. FL_EDONE: stopped, by `stopping` or `show`; what it
 * keeps is on the disk. Anything else: with a sentence in the context. */
fl_status fli_join(fl_ctx *ctx, const fli_join_spec *spec);

#endif
