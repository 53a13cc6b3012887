/* A client of a federation over a network: it joins, and from then on fetches asks, works, keeps its state on its disk,
 * and brings answers, until the run is over. Its limits and the rest of its file come first.
 *
 * It may be killed at any moment. What it keeps is on the disk before an answer leaves, and an answer is there until
 * the server has taken it or does not want it; started again, it sends that answer again and goes on. A server that is
 * away is waited for. */
#ifndef FLI_NET_CLIENT_JOIN_H
#define FLI_NET_CLIENT_JOIN_H

#include "fedloom_halves.h"
#include "format/keys.h"
#include "net/common/log.h"

/* ==== limits ====================================================================================================== */

/* What a client lets a server ask of it. These are the client's own settings, whatever the server says. */

typedef struct {
    int64_t steps, samples, bytes, memory; /* 0: any; of bytes: what the terms need */
    double seconds;                        /* the same */
    char *methods, *models;                /* names, separated by commas or spaces; "": any */
    const char **method, **model;          /* the same, one by one, up to a NULL */
} fli_join_limits;

/* The section `limits` of a client's file. */
extern const fl_key fli_join_limit_keys[];

/* Why a federation with that method and model is none for this client, as a sentence; NULL: it is one. Either may be
 * NULL: not known. */
const char *fli_join_limits_wrong(const fli_join_limits *l, const char *method, const char *model, char *sentence,
                                  size_t n);

/* ==== a client's file ============================================================================================= */

/* Where its server is, who it is, where it keeps its state, what it lets be asked of it. Its samples are in the same
 * file, as in any configuration (`data`, and `memory` and `precision` if need be).
 *
 *     url: https://host:8443
 *     certs: certs/alice
 *     data: {kind: npz, train: alice.npz}
 *     limits: {steps: 1000, seconds: 60, methods: [fedavg, scaffold]} */

typedef struct {
    char *url, *certs, *name, *keep, *proxy;
    int insecure_http, digest;
    double patience;
    fli_join_limits limits;
    fli_arena arena; /* has the strings */
} fli_join_settings;

/* At the top level of the file. */
extern const fl_key fli_join_keys[];

/* Takes what is said here out of the configuration, whose context has to stay; what is left is for fl_client_new. To be
 * given back in either case. */
fl_status fli_join_settings_take(fl_config *cfg, fli_join_settings *out);
void fli_join_settings_fini(fli_join_settings *s);

/* ==== taking part ================================================================================================= */

typedef enum {
    FLI_CONSENT_SEND, /* it may leave */
    FLI_CONSENT_SKIP, /* it may not; the client goes on without */
    FLI_CONSENT_STOP, /* it may not, and the client ends */
} fli_consent;

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
    fli_consent (*show)(void *arg, const char *what, const char *text, int ask);
    int (*stopping)(void *arg); /* looked at a few times a second, from two threads */
    void *arg;
} fli_join_spec;

/* FL_OK: the run is over, and it went well; or `once` was done. FL_EDONE: stopped, by `stopping` or `show`; what it
 * keeps is on the disk. Anything else: with a sentence in the context. */
fl_status fli_join(fl_ctx *ctx, const fli_join_spec *spec);

#endif
