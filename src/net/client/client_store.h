/* A client's files, so that it can be killed at any moment: its state, and the answer that the server may not have yet.
 *
 *     FOLDER/instance            the number by which a server knows the folder
 *     FOLDER/run-ID/state        after the last turn
 *     FOLDER/run-ID/answer       to that turn, until the server has it
 *     FOLDER/run-ID/begun        digests of the samples and terms that the run began with
 *     FOLDER/run-ID.over/        the same of a finished run; the last eight stay
 *
 * ID is the beginning of the run's digest. The files of an abandoned run stay until a person removes them. Files are
 * put in place whole, are on the disk when a call returns, have a checksum, and only their owner may read them (mode
 * 600, folders 700). One process at a time uses a folder (FOLDER.fedloom-lock). */
#ifndef FLI_NET_CLIENT_CLIENT_STORE_H
#define FLI_NET_CLIENT_CLIENT_STORE_H

#include "base/digest.h"

typedef struct fli_client_store fli_client_store;

/* Makes the folder if needed, and locks it. FL_EBUSY: another process has it. */
fl_status fli_client_store_open(fl_ctx *ctx, const char *folder, fli_client_store **out);
void fli_client_store_close(fli_client_store *store); /* NULL is fine */

fl_status fli_random_number(fl_ctx *ctx, uint64_t *number);
/* The folder's number, which is drawn at the first call. No other folder has it, except copies of this one. */
fl_status fli_client_store_instance(fli_client_store *store, uint64_t *number);

/* Selects this run for the calls below. If its files were set aside, they return. */
fl_status fli_client_store_run(fli_client_store *store, const fli_digest *run);
/* The run is over: sets its files aside. */
fl_status fli_client_store_over(fli_client_store *store);

typedef enum {
    FLI_CLIENT_STORE_STATE,
    FLI_CLIENT_STORE_ANSWER,
    FLI_CLIENT_STORE_BEGUN,
    FLI_CLIENT_STORE_KINDS
} fli_client_store_kind;

fl_status fli_client_store_write(fli_client_store *store, fli_client_store_kind kind, const void *p, size_t n);
/* *p is from fli_alloc; NULL with FL_OK: there is no such file. FL_EFORMAT: it is damaged. */
fl_status fli_client_store_read(fli_client_store *store, fli_client_store_kind kind, unsigned char **p, size_t *n);
/* Removes the file; a missing one is fine. */
fl_status fli_client_store_forget(fli_client_store *store, fli_client_store_kind kind);
/* The folder of the run's files; NULL: fli_client_store_run was not called. */
const char *fli_client_store_run_folder(const fli_client_store *store);

#endif
