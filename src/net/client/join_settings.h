/* A client's own file: where its server is, who it is, what it keeps where, what it lets be asked of it. Its samples
 * are in the same file, as in any configuration (`data`, and `memory` and `precision` if need be).
 *
 *     url: https://host:8443
 *     certs: certs/alice
 *     data: {kind: npz, train: alice.npz}
 *     limits: {steps: 1000, seconds: 60, methods: [fedavg, scaffold]} */
#ifndef FLI_NET_CLIENT_JOIN_SETTINGS_H
#define FLI_NET_CLIENT_JOIN_SETTINGS_H

#include "net/client/limits.h"

typedef struct {
    char *url, *certs, *name, *keep, *proxy;
    int insecure_http, digest;
    double patience;
    fli_join_limits limits;
    fli_arena arena; /* has the strings */
} fli_join_settings;

/* At the top level of the file. */
extern const fli_key fli_join_keys[];

/* Takes what is said here out of the configuration, whose context has to stay; what is left is for fl_client_new. To be
 * given back in either case. */
fl_status fli_join_settings_take(fl_config *cfg, fli_join_settings *out);
void fli_join_settings_fini(fli_join_settings *s);

#endif
