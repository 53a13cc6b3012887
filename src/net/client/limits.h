/* What a client lets a server ask of it. These are the client's own settings, whatever the server says. */
#ifndef FLI_NET_CLIENT_LIMITS_H
#define FLI_NET_CLIENT_LIMITS_H

#include "format/keys.h"

#include "fedloom_halves.h"

typedef struct {
    int64_t steps, samples, bytes, memory; /* 0: any; of bytes: what the terms need */
    double seconds;                        /* the same */
    char *methods, *models;                /* names, separated by commas or spaces; "": any */
    const char **method, **model;          /* the same, one by one, up to a NULL */
} fli_join_limits;

/* The section `limits` of a client's file. */
extern const fli_key fli_join_limit_keys[];

/* Reads the section, which may be NULL. Lists of names may be YAML lists. */
fl_status fli_join_limits_bind(fl_ctx *ctx, fli_arena *a, fli_node *section, fli_join_limits *out);
/* Hands them to a client, which then refuses what is beyond them. They must outlive it. */
fl_status fli_join_limits_set(const fli_join_limits *l, fl_client *client);
/* Why a federation with that method and model is none for this client, as a sentence; NULL: it is one. Either may be
 * NULL: not known. */
const char *fli_join_limits_wrong(const fli_join_limits *l, const char *method, const char *model, char *sentence,
                                  size_t n);

#endif
