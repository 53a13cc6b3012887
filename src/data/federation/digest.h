/* What a federation's data are, in 32 bytes: values, labels, who holds what, what they are scaled by, and weights that
 * come with them. Two
 * federations with the same digest give the same results under the same settings.
 *
 * Each client's part is a digest of its own samples alone, in its own order, so that it can be made where the samples
 * are; the whole is made of those, in the order of the clients, and of what all share. */
#ifndef FLI_DATA_FEDERATION_DIGEST_H
#define FLI_DATA_FEDERATION_DIGEST_H

#include "base/digest.h"
#include "data/federation/fed.h"

/* One client's samples: training, unlabelled and test parts, values as they are stored, with their labels or
 * targets. */
fl_status fli_digest_client(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_digest *out);
/* The whole federation. Of one that is made on demand only the sizes: its samples are a function of the settings and
 * the seed. */
fl_status fli_digest_fed(fl_ctx *ctx, const fli_fed *fed, fli_digest *out);

#endif
