#include "net/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

enum { MOMENT = 1 }; /* milliseconds */

/* A connection of this thread that had nothing to say, when nobody has been heard or told anything since; -1: none.
 * That it is asked again means that its thread has asked all others meanwhile. */
static _Thread_local int quiet = -1;

static ssize_t pull(gnutls_transport_ptr_t fd_, void *bytes, size_t n)
{
    int fd = (int)(intptr_t)fd_;
    ssize_t got = recv(fd, bytes, n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && quiet == fd) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, MOMENT);
        got = recv(fd, bytes, n, 0);
    }
    if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        quiet = -1;
    else if (quiet < 0)
        quiet = fd;
    return got;
}

static ssize_t push(gnutls_transport_ptr_t fd, const giovec_t *pieces, int n)
{
    struct msghdr m = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)n};
    ssize_t sent = sendmsg((int)(intptr_t)fd, &m, MSG_NOSIGNAL);
    if (sent >= 0) quiet = -1;
    return sent;
}

void fli_handshake_watch(gnutls_session_t session)
{
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
}

void fli_handshake_gone(int fd)
{
    if (quiet == fd) quiet = -1;
}
