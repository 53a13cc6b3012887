/* The speed of the clients' devices and links, from which a run computes simulated seconds: the durations of a virtual
 * clock. Nothing here waits or measures. A table of kinds; each is a few lines, so they share one file. At the end: how
 * many local steps a client takes.
 *
 * Everything is a function of (seed, turn, client): it does not depend on threads or order, and takes no memory per
 * client except the lines of a trace. After fli_system_new the object is read-only, so threads share it without
 * locks. */
#ifndef FLI_SERVER_SYSTEM_H
#define FLI_SERVER_SYSTEM_H

#include "base/rng.h"
#include "data/federation/federation.h"
#include "format/keys.h"

typedef struct fli_system fli_system;

/* Shared by all kinds. The last two are only stored here: run/rounds.c uses them. */
typedef struct {
    double step_seconds;       /* one local step on a device of speed 1 */
    double turn_seconds;       /* fixed cost of a turn */
    double up_rate, down_rate; /* bytes per second; 0: takes no time */
    double deadline;           /* seconds after which a synchronous round ends and drops late clients; 0: none */
    double wait_for;           /* over-selection: share of the invited clients whose answers end the round; in (0, 1] */
} fli_system_common;

/* One client's device in one of its turns. */
typedef struct {
    double step;     /* seconds per local step */
    double up, down; /* bytes per second; 0: takes no time */
    double extra;    /* further seconds of the turn */
} fli_speed;

typedef struct fli_system_desc {
    const char *name, *title, *citation;
    const fl_key *keys;
    size_t params_size;
    /* Reads files, prepares tables (memory from s->arena). May be NULL. */
    fl_status (*setup)(fl_ctx *ctx, fli_system *s);
    /* Changes *out, which has the values of the common keys, to those of a client in a turn: a function of (s->seed,
     * turn, client). NULL: all clients are alike. Called by many threads. */
    void (*speed)(const fli_system *s, size_t turn, uint32_t client, fli_speed *out);
    /* The file that the kind reads; its content counts as data. NULL: none. */
    const char *(*file)(const void *params);
} fli_system_desc;

struct fli_system {
    const fli_system_desc *desc;
    const void *params; /* borrowed */
    fli_system_common common;
    size_t clients;
    uint64_t seed;
    fli_arena arena;
    void *priv;
};

extern const fli_system_desc *const fli_system_list[]; /* NULL-terminated */

/* `params` must outlive the system; `common` is copied, only the number of clients is read from `fed`. */
fl_status fli_system_new(fl_ctx *ctx, const fli_system_desc *desc, const void *params, const fli_system_common *common,
                         const fli_fed *fed, uint64_t seed, fli_system **out);
void fli_system_free(fli_system *s);

/* One client's device in one turn. The caller decides what `turn` counts (rounds, or a client's own turns); it is below
 * 2^32 - 1. Only what varies from turn to turn depends on it. */
fli_speed fli_system_speed(const fli_system *s, size_t turn, uint32_t client);

/* Simulated seconds from the moment the server sends to a client until its answer has arrived: download, steps, upload,
 * and fixed costs. Finite and not negative if the bytes are finite. */
double fli_system_turn(const fli_system *s, size_t turn, uint32_t client, size_t steps, double bytes_down,
                       double bytes_up);

/* ==== local steps ========================================================================================== */

/* How the work of a cohort's clients differs (heterogeneous local updates). */
typedef enum {
    FLI_UNEVEN_FIXED, /* the same for all clients */
    FLI_UNEVEN_RANGE, /* uniform in [low, high], drawn per client and round */
    FLI_UNEVEN_SPEEDS /* every client has one of the given speeds for the whole run; its work is multiplied by it */
} fli_uneven;
#define FLI_UNEVEN_WORDS "fixed|range|speeds"

typedef struct {
    int64_t epochs, steps; /* steps if above 0, else epochs */
    int uneven;
    fl_ints range;   /* [low, high], in epochs or steps */
    fl_reals speeds; /* in (0, 1] */
} fli_local_work;

/* Q_i, the steps of a client in a round, at least 1. per_epoch: steps of one of its epochs. */
size_t fli_local_steps(const fli_local_work *e, uint64_t seed, size_t round, uint32_t client, size_t per_epoch);

#endif
