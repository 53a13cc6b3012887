/* Uploads on their way into the server, while others of the cohort still work. Any thread that has filled an exchange
 * says so; as soon as all those before it in the cohort are filled too it may be absorbed. Whoever is at hand then
 * absorbs, slice by slice of the server's vectors, one thread at a slice. A slice takes the uploads in the cohort's
 * order, hence the same bits whoever does it and whenever. */
#ifndef FLI_SERVER_INTAKE_H
#define FLI_SERVER_INTAKE_H

#include "server/coordinator.h"

typedef struct fli_intake fli_intake;

/* For at most this many exchanges at a time. The server is borrowed. */
fl_status fli_intake_new(fl_ctx *ctx, fli_coordinator *server, size_t most, fli_intake **out);
void fli_intake_free(fli_intake *in);

/* These will be filled. One that fails is not absorbed, nor are those after it. */
void fli_intake_open(fli_intake *in, fli_exchange *const *list, size_t n);
/* Exchange i of the list is filled. On any thread. */
void fli_intake_filled(void *intake, size_t i);
/* All are; absorbs what is left of them. */
void fli_intake_close(fli_intake *in, fli_pool *pool);
/* The same of any number that are all filled already. */
void fli_intake_all(fli_intake *in, fli_exchange *const *list, size_t n, fli_pool *pool);

#endif
