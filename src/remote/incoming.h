/* Answers while they are received, and until the run has used their vectors. An upload is received directly into its
 * final place; its vectors are lent to the exchange that it answers. Uploads up to a budget are in memory, further ones
 * in an unnamed file beside the result, which disappears with the process. */
#ifndef FLI_REMOTE_INCOMING_H
#define FLI_REMOTE_INCOMING_H

#include "message/exchange.h"

typedef struct fli_incoming_store fli_incoming_store;
typedef struct fli_incoming fli_incoming;

/* `budget`: bytes of uploads in memory; 0: a quarter of what this process can have. `folder`: where the file goes;
 * NULL: /tmp. */
fl_status fli_incoming_store_new(fl_ctx *ctx, const char *folder, size_t budget, fli_incoming_store **out);
/* Uploads may outlive the store. NULL is fine. */
void fli_incoming_store_free(fli_incoming_store *u);

/* The functions below are safe from any thread, but only one at a time may use an upload. */

/* Room for n bytes. FL_EIO: the disk has none; FL_ENOMEM: out of memory. */
fl_status fli_incoming_new(fli_incoming_store *u, fl_ctx *ctx, size_t n, fli_incoming **out);
void fli_incoming_free(fli_incoming *p); /* NULL is fine */
/* Appends n bytes. FL_EFORMAT: more than are left. FL_EIO: the file cannot be written; fli_incoming_why has the
 * sentence, and the upload can only be freed. */
fl_status fli_incoming_add(fli_incoming *p, const void *bytes, size_t n);
void fli_incoming_why(const fli_incoming *p, char *sentence, size_t n);
size_t fli_incoming_size(const fli_incoming *p);
size_t fli_incoming_left(const fli_incoming *p);
/* The whole upload, aligned so that vectors are aligned if the sender aligned them. NULL: it cannot be mapped. */
unsigned char *fli_incoming_bytes(fli_incoming *p);
/* The first bytes, at most a packet's header; *n: how many have arrived. */
const unsigned char *fli_incoming_front(const fli_incoming *p, size_t *n);
/* The checksum of all bytes but the packet's own checksum. */
uint32_t fli_incoming_checksum(const fli_incoming *p);
/* For an exchange to borrow the vectors; its release frees the upload. */
fli_lent *fli_incoming_lent(fli_incoming *p);

#endif
