/* libmicrohttpd goes on calling a TLS handshake whose other side has not said its part yet, without a pause: with epoll
 * it takes a connection for readable until a read of its own has failed, and handshakes do not count. One stranger with
 * half a hello would keep a core busy. So its sessions read and write by these functions, which wait a moment when a
 * thread has been through all that it has and heard nothing. */
#ifndef FLI_NET_HANDSHAKE_H
#define FLI_NET_HANDSHAKE_H

#include <gnutls/gnutls.h>

/* From now on this session of a new connection waits. The descriptor must not block. */
void fli_handshake_watch(gnutls_session_t session);
/* The connection is gone; on the thread that served it. */
void fli_handshake_gone(int fd);

#endif
