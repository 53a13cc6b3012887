/* Answers on their way in, and for as long as the run needs the vectors in them. An upload is received where it stays:
 * its vectors are lent to the exchange that it answers. Up to a budget uploads are in memory, beyond it in a file
 * without a name beside the result, which ends with the process however that ends. */
#ifndef FLI_REMOTE_INCOMING_H
#define FLI_REMOTE_INCOMING_H

#include "message/exchange.h"

typedef struct fli_incoming_store fli_incoming_store;
typedef struct fli_incoming fli_incoming;

/* `budget`: bytes of uploads in memory, 0: a quarter of what this process can have. `folder`: of the file. */
fl_status fli_incoming_store_new(fl_ctx *ctx, const char *folder, size_t budget, fli_incoming_store **out);
/* Its uploads may outlive it. NULL is fine. */
void fli_incoming_store_free(fli_incoming_store *u);

/* What follows is safe from any thread, one at a time for each upload. */

/* Room for n bytes. FL_EIO: there is none in the file, FL_ENOMEM: nor in memory. */
fl_status fli_incoming_new(fli_incoming_store *u, fl_ctx *ctx, size_t n, fli_incoming **out);
void fli_incoming_free(fli_incoming *p); /* NULL is fine */
/* The next n bytes, of which there must be as many left. FL_EIO: the file cannot be written, fli_incoming_why says so
 * in a sentence, and nothing is left to do but to free the upload. */
fl_status fli_incoming_add(fli_incoming *p, const void *bytes, size_t n);
void fli_incoming_why(const fli_incoming *p, char *sentence, size_t n);
size_t fli_incoming_size(const fli_incoming *p);
size_t fli_incoming_left(const fli_incoming *p);
/* All of it; aligned so that vectors of an answer are, as far as their writer cared. NULL: it cannot be mapped. */
unsigned char *fli_incoming_bytes(fli_incoming *p);
/* Its beginning, at most a packet's header: *n bytes of it. */
const unsigned char *fli_incoming_front(const fli_incoming *p, size_t *n);
/* Of all bytes but the packet's checksum. */
uint32_t fli_incoming_checksum(const fli_incoming *p);
/* What an exchange is lent; its release frees the upload. */
fli_lent *fli_incoming_lent(fli_incoming *p);

#endif
