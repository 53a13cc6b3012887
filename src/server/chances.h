/* How likely clients take part, as it changes over the rounds: read from a file. */
#ifndef FLI_SERVER_CHANCES_H
#define FLI_SERVER_CHANCES_H

#include "base/ctx.h"

typedef struct fli_chances fli_chances;

/* The file is a table with the columns round, client, p: from that round on, counted from 1, the client, counted from
 * 0, or everyone (*) takes part with probability p, until a later line says otherwise. Rounds do not decrease, and
 * everyone has a p in the first round. */
fl_status fli_chances_read(fl_ctx *ctx, const char *path, size_t clients, fli_chances **out);
void fli_chances_free(fli_chances *c);

double fli_chances_at(const fli_chances *c, size_t round, size_t client); /* round from 0 */
/* The smallest and the largest over all rounds. */
void fli_chances_range(const fli_chances *c, size_t client, double *least, double *most);

#endif
