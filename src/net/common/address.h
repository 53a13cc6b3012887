/* Addresses to listen on. */
#ifndef FLI_NET_COMMON_ADDRESS_H
#define FLI_NET_COMMON_ADDRESS_H

#include "base/ctx.h"

#include <sys/socket.h>

enum { FLI_ADDRESS_TEXT = 80 };

/* "HOST:PORT", "HOST", ":PORT", "[IPv6]:PORT"; what is not said stays as it is. `host` has room for 256 bytes. */
fl_status fli_address_split(fl_ctx *ctx, const char *text, char *host, uint16_t *port);
/* An address of this machine; a name stands for its first one. "" or NULL: all of them. */
fl_status fli_address_read(fl_ctx *ctx, const char *host, uint16_t port, struct sockaddr_storage *out);
/* Whether nobody but this machine can reach it. */
int fli_address_is_local(const struct sockaddr_storage *a);
const char *fli_address_text(const struct sockaddr_storage *a, char text[FLI_ADDRESS_TEXT]);

/* Whether the host of a request or a URL is the machine itself, by its name or address and not by what a name server
 * says. NULL: none was said. */
int fli_host_is_local(const char *host);

#endif
