/* How a stored image becomes the one that a model sees: cropped, moved, mirrored, scaled by the set's numbers or by its
 * own. Private to this folder; the rest of the program gathers batches. */
#ifndef FLI_DATA_IMAGES_H
#define FLI_DATA_IMAGES_H

#include "data/dataset.h"

/* Whether samples take more than one scale and shift per feature run on their way into a batch. */
static inline int fli_images_need_look(const fli_dataset *ds) { return ds->frame[0] || ds->each; }

/* Row r of out = sample idx[r] as evaluation sees it: the middle of the image. For dense sets. */
void fli_images_gather(const fli_ops *ops, const fli_dataset *ds, const uint32_t *idx, size_t n, void *out);

#endif
