/* Pieces of memory that hold vectors, on their way to a checkpoint and back: wherever they live, the file has the same
 * bytes. */
#ifndef FLI_MESSAGE_PIECE_H
#define FLI_MESSAGE_PIECE_H

#include "format/snapshot.h"
#include "vec/space.h"

void fli_save_piece(const fli_space *s, const void *v, size_t bytes, fli_saver *out);
void fli_load_piece(const fli_space *s, void *v, size_t bytes, fli_loader *in);

#endif
