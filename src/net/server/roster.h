/* The names of clients, their numbers and their cards. An entry is on the disk before its client gets its number, so
 * that a restarted server knows all clients. Safe from any thread. */
#ifndef FLI_NET_SERVER_ROSTER_H
#define FLI_NET_SERVER_ROSTER_H

#include "base/ctx.h"

#define FLI_NO_CLIENT UINT32_MAX

typedef struct fli_roster fli_roster;

typedef struct {
    size_t clients;   /* numbers are 0 .. clients - 1 */
    const char *file; /* the roster's file; NULL: none */
    const char *list; /* a file with a name per line, client 0 first; NULL: numbers are given in the order of joining */
} fli_roster_spec;

/* Reads the file, if there is one. An incomplete last line is ignored. FL_EFORMAT: the file is damaged. FL_ECONFIG: it
 * belongs to another federation or another list, or the list is wrong. */
fl_status fli_roster_open(fl_ctx *ctx, const fli_roster_spec *spec, fli_roster **out);
void fli_roster_free(fli_roster *r);

/* The number of an entered client; FLI_NO_CLIENT: no entered client has that name. */
uint32_t fli_roster_find(fli_roster *r, const char *name);
/* The name of an entered client; NULL: not entered. The text is valid until the client leaves. */
const char *fli_roster_name(fli_roster *r, uint32_t client);
/* The name that the list gives to a number, entered or not; NULL: none. */
const char *fli_roster_listed(fli_roster *r, uint32_t client);
size_t fli_roster_entered(fli_roster *r); /* number of entered clients */

/* The number that the name has, or a new one, reserved for it. FL_EMISMATCH with the reason if it cannot have one. If
 * the client is then refused, call fli_roster_release. */
fl_status fli_roster_reserve(fli_roster *r, fl_ctx *ctx, const char *name, uint32_t *client);
/* Takes back one fli_roster_reserve of a client that was refused. The number becomes free, unless it is entered, on the
 * list, or reserved by another request of that name. */
void fli_roster_release(fli_roster *r, uint32_t client);
/* Stores a client's card: the client is entered for good. Repeating it has no effect. FL_EIO: not on the disk; it may
 * be tried again. */
fl_status fli_roster_enter(fli_roster *r, fl_ctx *ctx, uint32_t client, const void *card, size_t n);
/* Removes an entered client, whose card is not accepted any more: it has to join again. FL_EIO: not on the disk. */
fl_status fli_roster_leave(fli_roster *r, fl_ctx *ctx, uint32_t client);
/* The card of an entered client; NULL: not entered. */
const unsigned char *fli_roster_card(fli_roster *r, uint32_t client, size_t *n);
/* Stores that an entered client knows that the run is over. Repeating it has no effect. FL_EIO: not on the disk. */
fl_status fli_roster_acknowledge(fli_roster *r, fl_ctx *ctx, uint32_t client);
int fli_roster_acknowledged(fli_roster *r, uint32_t client);

#endif
