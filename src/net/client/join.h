/* A client of a federation over a network: its limits, the settings in its file, and fli_join. It joins, then fetches
 * asks, works, stores its state and sends answers, until the run is over.
 *
 * It may be killed at any moment. Its state is on the disk before it sends an answer, and the answer stays there until
 * the server has taken it or does not need it; after a restart the client sends that answer again and continues. It
 * waits for a server that is away. */
#ifndef FLI_NET_CLIENT_JOIN_H
#define FLI_NET_CLIENT_JOIN_H

#include "fedloom_halves.h"
#include "format/keys.h"
#include "net/common/log.h"

/* ==== limits ====================================================================================================== */

/* What a client allows a server to ask. These settings are the client's own; the server cannot change them. */

typedef struct {
    int64_t steps, samples, bytes, memory; /* 0: no limit; bytes 0: as many as the terms need */
    double seconds;                        /* 0: no limit */
    char *methods, *models;                /* names, separated by commas or spaces; "": any */
    const char **method, **model;          /* the same names as lists that end with NULL */
} fli_join_limits;

/* The section `limits` of a client's file. */
extern const fl_key fli_join_limit_keys[];

/* Why this client cannot join a federation with that method and model, as a sentence; NULL: it can. Either may be NULL:
 * not known. */
const char *fli_join_limits_wrong(const fli_join_limits *l, const char *method, const char *model, char *sentence,
                                  size_t n);

/* ==== a client's file ============================================================================================= */

/* A client's file: the server's address, the client's name, the folder of its state, and its limits. The same file
 * names its samples, as in any configuration (`data`, and `memory` and `precision` if needed).
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
    fli_arena arena; /* owns the strings */
} fli_join_settings;

/* Keys at the top level of the file. */
extern const fl_key fli_join_keys[];

/* Moves these keys out of the configuration, whose context must outlive `out`; the rest is for fl_client_new. Call
 * fli_join_settings_fini also after a failure. */
fl_status fli_join_settings_take(fl_config *cfg, fli_join_settings *out);
void fli_join_settings_fini(fli_join_settings *s);

/* ==== taking part ================================================================================================= */

typedef enum {
    FLI_CONSENT_SEND, /* send it */
    FLI_CONSENT_SKIP, /* do not send it, and go on */
    FLI_CONSENT_STOP, /* do not send it, and end the client */
} fli_consent;

typedef struct {
    fl_config *cfg; /* names its samples */
    const fli_join_settings *settings;
    int once;        /* ends after its first turn */
    int look_only;   /* do not send the answer of that turn */
    int changed;     /* go on even if samples or terms differ from those at the run's beginning */
    fli_net_log log; /* lines for programs */
    /* For people; each may be NULL. */
    void (*tell)(void *arg, const char *line);
    /* Shows everything in words before it is sent; `ask`: the user has a choice. NULL: everything is sent unseen. */
    fli_consent (*show)(void *arg, const char *what, const char *text, int ask);
    int (*stopping)(void *arg); /* called a few times a second, on two threads; not 0 ends the client */
    void *arg;
} fli_join_spec;

/* FL_OK: the run is over without an error, or the one turn of `once` is done. FL_EDONE: `stopping` or `show` ended the
 * client; its state is on the disk. Other codes come with a sentence in the context. */
fl_status fli_join(fl_ctx *ctx, const fli_join_spec *spec);

#endif
