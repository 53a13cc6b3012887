/* What clients keep between their turns. A client's vectors, and even its place in a table, exist only once it has been
 * touched: memory follows the work, not the size of the federation. Different clients may be touched from different
 * threads at the same time.
 *
 * With a budget no more than that is held in memory: the state of the clients that were unused for the longest time
 * goes to a file and comes back when it is needed. Clients in use stay, so that as many are held as are in use at the
 * same time even where the budget is smaller. Results do not depend on it, only the time.
 *
 * Vectors live where the space has its place. If that is a device, its memory is what the budget bounds, and plain
 * memory takes the place of the file. */
#ifndef FLI_CLIENT_STORE_H
#define FLI_CLIENT_STORE_H

#include "base/ctx.h"
#include "format/snapshot.h"
#include "vec/space.h"

/* ==== the file for state beyond the budget ================================================================= */

/* A file for what does not fit into memory: places of one size, numbered from 0. It has no name, so that nothing is
 * left of it however the program ends. Read and written by calls, not mapped: the pages of a mapped file would count as
 * memory of this process, which is what a budget is there to bound. */

typedef struct fli_spill fli_spill;

fl_status fli_spill_new(fl_ctx *ctx, const char *folder, size_t bytes, fli_spill **out);

/* ==== the store ============================================================================================ */

typedef struct fli_store fli_store;

typedef struct {
    void **vectors;
    double *scalars;
    int first; /* this client was never touched before */
} fli_client_state;

typedef struct {
    fl_space space;
    size_t clients, vectors, scalars;
    size_t budget; /* bytes; 0: no limit */
    const char
        *folder; /* for what is beyond it, unless there is a place; borrowed, looked at when somebody goes there */
    /* With a budget: a client's state leaves memory, and what others keep for it may go as well. NULL: nobody does. */
    void (*left)(void *arg, size_t client);
    /* Whether this is the store of that client: what is loaded of others is passed over. NULL: of all. */
    int (*here)(const void *arg, size_t client);
    void *arg;
} fli_store_spec;

fl_status fli_store_new(fl_ctx *ctx, const fli_store_spec *spec, fli_store **out);
void fli_store_free(fli_store *s);
/* The client's vectors and scalars, zeroed on the first call. They stay where they are until fli_store_release. */
fl_status fli_store_get(fli_store *s, size_t client, fli_client_state *out);
/* The same for reading: *out is NULL if this client was never touched (or clients keep nothing); makes none. Unless it
 * is NULL, to be released as well. */
fl_status fli_store_peek(fli_store *s, size_t client, void *const **out);
void fli_store_release(fli_store *s, size_t client);

/* Scalars of a client between peek (or get) and release; NULL if peek found nothing. */
const double *fli_store_scalars(fli_store *s, size_t client);

size_t fli_store_bytes(const fli_store *s);   /* held in memory now, or on the device */
size_t fli_store_spilled(const fli_store *s); /* in the file, or in plain memory */

/* Between turns: all clients that were ever touched. Loading is for a store nobody has used, or which has loaded other
 * clients. */
void fli_store_save(fli_store *s, fli_saver *out);
fl_status fli_store_load(fli_store *s, fli_loader *in);

#endif
