/* Client state between turns. A client's vectors, and even its place in a table, exist only once it has been touched:
 * memory depends on the work, not on the size of the federation. Several threads may touch different clients at the
 * same time.
 *
 * A budget bounds the state in memory: that of the longest unused clients goes to a file, and returns when it is
 * needed. Clients in use stay, even if they exceed the budget. Results do not depend on the budget, only the time does.
 *
 * Vectors live at the place of the space. If that is a device, the budget bounds the device's memory, and plain memory
 * replaces the file. */
#ifndef FLI_CLIENT_STORE_H
#define FLI_CLIENT_STORE_H

#include "base/ctx.h"
#include "format/snapshot.h"
#include "vec/space.h"

/* ==== the file for state beyond the budget ================================================================= */

/* An unnamed file for state that exceeds the budget: places of one size, numbered from 0. It disappears with the
 * process. It is read and written by system calls, not mapped: mapped pages would count as memory of this process,
 * which the budget is to bound. */

typedef struct fli_spill fli_spill;

fl_status fli_spill_new(fl_ctx *ctx, const char *folder, size_t bytes, fli_spill **out);

/* ==== the store ============================================================================================ */

typedef struct fli_store fli_store;

typedef struct {
    void **vectors;
    double *scalars;
    int first; /* the client was never touched before */
} fli_client_state;

typedef struct {
    fl_space space;
    size_t clients, vectors, scalars;
    size_t budget;      /* bytes in memory; 0: no limit */
    const char *folder; /* of the file; NULL: /tmp. Borrowed; opened when the first client is written */
    /* With a budget: called when a client's state has left memory, to free what belongs to it. May be NULL. */
    void (*left)(void *arg, size_t client);
    /* Whether this store has that client; others are skipped by fli_store_load. NULL: it has all. */
    int (*here)(const void *arg, size_t client);
    void *arg;
} fli_store_spec;

fl_status fli_store_new(fl_ctx *ctx, const fli_store_spec *spec, fli_store **out);
void fli_store_free(fli_store *s);
/* The client's vectors and scalars, zeroed at the first call. They stay in place until fli_store_release. */
fl_status fli_store_get(fli_store *s, size_t client, fli_client_state *out);
/* The same for reading: *out is NULL if the client was never touched, or clients keep nothing. If it is not NULL,
 * call fli_store_release. */
fl_status fli_store_peek(fli_store *s, size_t client, void *const **out);
void fli_store_release(fli_store *s, size_t client);

/* Scalars of a client between peek (or get) and release; NULL if peek found nothing. */
const double *fli_store_scalars(fli_store *s, size_t client);

size_t fli_store_bytes(const fli_store *s);   /* bytes in memory now, or on the device */
size_t fli_store_spilled(const fli_store *s); /* bytes in the file, or in plain memory */

/* All touched clients. Only between turns. Load only into an unused store, or one that has loaded other clients. */
void fli_store_save(fli_store *s, fli_saver *out);
fl_status fli_store_load(fli_store *s, fli_loader *in);

#endif
