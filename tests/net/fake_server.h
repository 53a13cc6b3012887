/* A server of raw sockets on loopback that answers what a test tells it, however wrong that is. */
#ifndef TESTS_NET_FAKE_SERVER_H
#define TESTS_NET_FAKE_SERVER_H

#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* Answers come in this order, one per request; the last one is repeated. */
typedef struct {
    const char *text; /* all bytes of an answer */
    size_t repeat;    /* its last byte, this many times more */
    int hang;         /* nothing follows, and the connection stays */
} fake_answer;

typedef struct {
    int fd;
    int port;
    char url[64];
    const fake_answer *answers;
    size_t count;
    atomic_size_t requests;
    atomic_int ending;
    pthread_t thread;
    char request[65536]; /* of the thread */
    pthread_mutex_t lock;
    char seen[65536]; /* the last whole request; behind the lock */
} fake_server;

/* Whether the last request has this text. */
static inline int fake_saw(fake_server *s, const char *text)
{
    pthread_mutex_lock(&s->lock);
    int saw = strstr(s->seen, text) != NULL;
    pthread_mutex_unlock(&s->lock);
    return saw;
}

static inline int fake_publish(fake_server *s)
{
    pthread_mutex_lock(&s->lock);
    memcpy(s->seen, s->request, sizeof s->seen);
    pthread_mutex_unlock(&s->lock);
    return 1;
}

/* A request to its end: headers, and as many bytes as they say. 0: the connection is closed. */
static inline int fake_read(fake_server *s, int fd)
{
    size_t n = 0, want = 0;
    while (!atomic_load(&s->ending)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        ssize_t got = recv(fd, s->request + n, sizeof s->request - 1 - n, 0);
        if (got <= 0) return 0;
        n += (size_t)got;
        s->request[n] = 0;
        const char *end = strstr(s->request, "\r\n\r\n"), *length = strstr(s->request, "Content-Length: ");
        if (!end) continue;
        want = (size_t)(end + 4 - s->request) + (length && length < end ? (size_t)atoi(length + 16) : 0);
        if (n >= want) return fake_publish(s);
    }
    return 0;
}

static inline int fake_send(int fd, const fake_answer *a)
{
    char block[4096];
    size_t left = a->repeat;
    memset(block, 'x', sizeof block);
    if (send(fd, a->text, strlen(a->text), MSG_NOSIGNAL) < 0) return 0;
    while (left) {
        ssize_t sent = send(fd, block, left < sizeof block ? left : sizeof block, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        left -= (size_t)sent;
    }
    return 1;
}

/* One connection: each request gets its answer; it is closed where an answer says so or has no length. */
static inline void fake_serve(fake_server *s, int fd)
{
    while (fake_read(s, fd)) {
        size_t k = atomic_fetch_add(&s->requests, 1);
        const fake_answer *a = &s->answers[k < s->count ? k : s->count - 1];
        if (!fake_send(fd, a)) return;
        while (a->hang && !atomic_load(&s->ending)) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            char byte;
            if (poll(&p, 1, 20) > 0 && recv(fd, &byte, 1, 0) <= 0) return;
        }
        if (!strstr(a->text, "Content-Length: ") || strstr(a->text, "Connection: close")) return;
    }
}

static inline void *fake_go(void *server)
{
    fake_server *s = server;
    while (!atomic_load(&s->ending)) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0) continue;
        fake_serve(s, fd);
        close(fd);
    }
    return NULL;
}

static inline void fake_start(fake_server *s, const fake_answer *answers, size_t count)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof here;
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->answers = answers;
    s->count = count;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&here, &n), 0);
    s->port = ntohs(here.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", s->port);
    assert_int_equal(pthread_create(&s->thread, NULL, fake_go, s), 0);
}

static inline void fake_stop(fake_server *s)
{
    atomic_store(&s->ending, 1);
    pthread_join(s->thread, NULL);
    close(s->fd);
    pthread_mutex_destroy(&s->lock);
}

#endif
