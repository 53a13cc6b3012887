/* What clients keep between their turns. A client's vectors exist only once it has been touched: memory follows the work, not the
 * size of the federation. Different clients may be touched from different threads at the same time. */
#ifndef FLI_EXEC_STORE_H
#define FLI_EXEC_STORE_H

#include "base/ctx.h"
#include "vec/space.h"

typedef struct fli_store fli_store;

typedef struct {
    void **vectors;
    double *scalars;
    int first; /* nobody asked for this client before */
} fli_kept;

fl_status fli_store_new(fl_ctx *ctx, const fli_space *space, size_t clients, size_t vectors, size_t scalars,
                        fli_store **out);
void fli_store_free(fli_store *s);
/* The client's vectors and scalars, zeroed on the first call. */
fl_status fli_store_get(fli_store *s, size_t client, fli_kept *out);
/* The client's vectors, or NULL if nobody has asked for this client (or clients keep nothing); makes none. */
void *const *fli_store_peek(const fli_store *s, size_t client);
const double *fli_store_peek_scalars(const fli_store *s, size_t client); /* likewise */
size_t fli_store_bytes(const fli_store *s);                              /* held now */

#endif
