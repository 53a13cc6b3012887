/* The names of clients, their numbers and their cards. An entry is on the disk before its client is told, so that a
 * server that starts again knows all of them. Safe from any thread. */
#ifndef FLI_NET_SERVER_ROSTER_H
#define FLI_NET_SERVER_ROSTER_H

#include "base/ctx.h"

#define FLI_NO_CLIENT UINT32_MAX

typedef struct fli_roster fli_roster;

typedef struct {
    size_t clients;   /* how many numbers there are */
    const char *file; /* where it is kept; NULL: nowhere */
    const char *list; /* a file with a name per line, the first that of client 0, and so on; NULL: numbers are given in
                       * the order of joining */
} fli_roster_spec;

/* With all that the file has. A last line that was not written to its end counts for nothing. FL_EFORMAT: the file is
 * damaged; FL_ECONFIG: it is that of another federation, or of another list, or the list is wrong. */
fl_status fli_roster_open(fl_ctx *ctx, const fli_roster_spec *spec, fli_roster **out);
void fli_roster_free(fli_roster *r);

/* The number of a name; FLI_NO_CLIENT: it has none. */
uint32_t fli_roster_find(fli_roster *r, const char *name);
/* The name of a number that is entered; NULL: it is not. It stays where it is. */
const char *fli_roster_name(fli_roster *r, uint32_t client);
/* The same of one that the list names, whether it is entered or not. */
const char *fli_roster_listed(fli_roster *r, uint32_t client);
size_t fli_roster_entered(fli_roster *r); /* how many are entered */

/* The number that a name has or gets now, which is its own from here on. FL_EMISMATCH with the reason if there is none
 * for it. */
fl_status fli_roster_reserve(fli_roster *r, fl_ctx *ctx, const char *name, uint32_t *client);
/* Gives back a number whose client was turned away, once for each fli_roster_reserve; unless it was entered, is on the
 * list, or another request of that name is about to enter it. */
void fli_roster_release(fli_roster *r, uint32_t client);
/* Enters a number's card for good. Again: nothing happens. FL_EIO: not on the disk; it may be tried again. */
fl_status fli_roster_enter(fli_roster *r, fl_ctx *ctx, uint32_t client, const void *card, size_t n);
/* An entered client has to join again, as its card is not let in any more. FL_EIO: not on the disk. */
fl_status fli_roster_leave(fli_roster *r, fl_ctx *ctx, uint32_t client);
/* The card of a number that was entered before the server started; NULL: there is none. */
const unsigned char *fli_roster_card(fli_roster *r, uint32_t client, size_t *n);
/* Notes that a client that is entered knows that the run is over. Again: nothing happens. FL_EIO: not on the disk. */
fl_status fli_roster_acknowledge(fli_roster *r, fl_ctx *ctx, uint32_t client);
int fli_roster_acknowledged(fli_roster *r, uint32_t client);

#endif
