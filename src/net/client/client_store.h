/* A client's files, so that it can be killed at any moment: its state, and the answer that the server may not have
 * yet.
 *
 *     FOLDER/instance            the number by which a server knows the folder
 *     FOLDER/run-ID/state        after the last turn
 *     FOLDER/run-ID/answer       to that turn, until the server has it
 *     FOLDER/run-ID/begun        digests of what the run was begun with
 *     FOLDER/run-ID.over/        of a run that is over; the last eight stay
 *
 * ID is the beginning of the run's digest: the files of a run that was given up stay until a person removes them.
 * Files are put in place whole, are on the disk when a call returns, have a checksum, and are their owner's alone
 * (mode 600, folders 700). One process at a time has a folder (FOLDER.fedloom-lock). */
#ifndef FLI_NET_CLIENT_CLIENT_STORE_H
#define FLI_NET_CLIENT_CLIENT_STORE_H

#include "base/digest.h"

typedef struct fli_client_store fli_client_store;

/* FL_EBUSY: another process has it. Makes the folder. */
fl_status fli_client_store_open(fl_ctx *ctx, const char *folder, fli_client_store **out);
void fli_client_store_close(fli_client_store *store); /* NULL is fine */

fl_status fli_random_number(fl_ctx *ctx, uint64_t *number);
/* A number that no other folder has, but for copies of this one: drawn when it is asked for first. */
fl_status fli_client_store_instance(fli_client_store *store, uint64_t *number);

/* From here on it is about this run. One that was put aside is taken up again. */
fl_status fli_client_store_run(fli_client_store *store, const fli_digest *run);
/* That run is over: its files are put aside. */
fl_status fli_client_store_over(fli_client_store *store);

typedef enum {
    FLI_CLIENT_STORE_STATE,
    FLI_CLIENT_STORE_ANSWER,
    FLI_CLIENT_STORE_BEGUN,
    FLI_CLIENT_STORE_KINDS
} fli_client_store_kind;

fl_status fli_client_store_write(fli_client_store *store, fli_client_store_kind kind, const void *p, size_t n);
/* *p from fli_alloc; NULL and FL_OK: there is none. FL_EFORMAT: it is damaged. */
fl_status fli_client_store_read(fli_client_store *store, fli_client_store_kind kind, unsigned char **p, size_t *n);
/* A missing one is fine. */
fl_status fli_client_store_forget(fli_client_store *store, fli_client_store_kind kind);
/* Where the run's files are. */
const char *fli_client_store_run_folder(const fli_client_store *store);

#endif
