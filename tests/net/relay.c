/* Stands between clients and a server as a bad network: connections are slow, stand still, and are cut in the middle
 * of whatever is being said, by a schedule that follows from a seed.
 *
 *     relay FROM TO [seed=N] [delay=MS] [rate=BYTES] [cut=BYTES] [stall=MS] [seconds=S]
 *
 * FROM and TO are IPv4 HOST:PORT; port 0 of FROM: any. Its first line is the port it listens on, its last one, after
 * SIGTERM or `seconds`, what became of connections. Every piece waits up to `delay`; a direction passes `rate` bytes
 * per second; a connection lives for `cut` bytes on average, and then, one as likely as the other, is reset, closed, or
 * loses all that is said for `stall` milliseconds before it is reset. 0: nothing of the kind. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 512, PIECE = 16384 };

typedef enum { RESET, CLOSE, LOSE, FATES } fate;

/* What is under way in one direction. */
typedef struct {
    unsigned char piece[PIECE];
    size_t from, n;
    double due; /* when the piece may leave */
    int ended;  /* nothing more comes */
} pipe_way;

typedef struct {
    int fd[2]; /* the client's, the server's */
    int connected;
    pipe_way way[2]; /* from fd[0], from fd[1] */
    double left;     /* bytes until its fate */
    fate fate;
    double lost_at; /* when what is lost turns into a reset; 0: all is well */
} wire;

typedef struct {
    double seed, delay, rate, cut, stall, seconds;
} plan;

static plan want = {.seed = 1, .stall = 500, .seconds = 600};
static wire *wires[MOST];
static size_t count, opened, refused, fates[FATES], passed;
static uint64_t state;
static volatile sig_atomic_t ended;

static void on_term(int signal_)
{
    (void)signal_;
    ended = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* splitmix64, in (0, 1) */
static double uniform(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static int address(const char *text, struct sockaddr_in *out)
{
    char host[64];
    unsigned port;
    *out = (struct sockaddr_in){.sin_family = AF_INET};
    if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || port > 65535) return 0;
    out->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

static void shut(size_t i, int reset)
{
    wire *l = wires[i];
    for (int k = 0; k < 2; k++) {
        if (reset) setsockopt(l->fd[k], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(l->fd[k]);
    }
    free(l);
    wires[i] = wires[--count];
}

static void take(int listener, const struct sockaddr_in *to)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    wire *l = fd < 0 || count == MOST ? NULL : calloc(1, sizeof *l);
    if (!l) {
        if (fd >= 0) close(fd);
        return;
    }
    l->fd[0] = fd;
    l->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    l->left = want.cut > 0 ? -want.cut * log(uniform()) : INFINITY;
    l->fate = (fate)(uniform() * FATES);
    wires[count++] = l;
    opened++;
    for (int k = 0; k < 2; k++) setsockopt(l->fd[k], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (l->fd[1] < 0 || (connect(l->fd[1], (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS)) {
        refused++;
        shut(count - 1, 1);
    }
}

/* ---- what passes ------------------------------------------------------------------------------------------------- */

/* 0: the connection is broken. */
static int fill(wire *l, int k)
{
    pipe_way *w = &l->way[k];
    ssize_t n = recv(l->fd[k], w->piece, PIECE, 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    w->from = 0;
    w->n = (size_t)n;
    w->ended = n == 0;
    if (n == 0 && shutdown(l->fd[!k], SHUT_WR)) return 0;
    w->due = now() + 1e-3 * want.delay * uniform() + (want.rate > 0 ? (double)n / want.rate : 0);
    return 1;
}

static int drain(wire *l, int k)
{
    pipe_way *w = &l->way[k];
    size_t n = (double)w->n > l->left ? (size_t)l->left : w->n;
    if (l->lost_at > 0) {
        w->n = 0;
        return 1;
    }
    ssize_t sent = n ? send(l->fd[!k], w->piece + w->from, n, MSG_NOSIGNAL) : 0;
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    w->from += (size_t)sent;
    w->n -= (size_t)sent;
    l->left -= (double)sent;
    passed += (size_t)sent;
    return 1;
}

/* Its time has come. 1: it is gone. */
static int meet_fate(size_t i, double t)
{
    wire *l = wires[i];
    if (l->lost_at > 0 ? t < l->lost_at : l->left >= 1) return 0;
    if (l->lost_at <= 0) fates[l->fate]++;
    if (l->lost_at <= 0 && l->fate == LOSE) {
        l->lost_at = t + 1e-3 * want.stall;
        return 0;
    }
    shut(i, l->fate != CLOSE);
    return 1;
}

/* What to poll for, and the time until something is due. */
static int look_out(struct pollfd *p, double t)
{
    double wait = 0.25;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) {
            const wire *l = wires[i];
            p[2 * i + (size_t)k] = (struct pollfd){.fd = l->fd[k]};
            short *events = &p[2 * i + (size_t)k].events;
            if (!l->connected) {
                if (k) *events = POLLOUT;
                continue;
            }
            if (!l->way[k].n && !l->way[k].ended) *events |= POLLIN;
            if (l->way[!k].n && l->way[!k].due <= t) *events |= POLLOUT;
            if (l->way[k].n && l->way[k].due > t) wait = fmin(wait, l->way[k].due - t);
            if (l->lost_at > 0) wait = fmin(wait, fmax(0, l->lost_at - t));
            if (!*events) p[2 * i + (size_t)k].fd = -1; /* a hang-up is seen when there is something to say */
        }
    return (int)ceil(1000 * wait);
}

static int is_connected(wire *l, short happened)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (!happened) return 1;
    getsockopt(l->fd[1], SOL_SOCKET, SO_ERROR, &error, &n);
    l->connected = !error;
    refused += error != 0;
    return !error;
}

/* 0: broken. */
static int serve(wire *l, const struct pollfd *p, double t)
{
    if (!l->connected) return is_connected(l, p[1].revents);
    for (int k = 0; k < 2; k++) {
        if (p[k].revents && !l->way[k].n && !l->way[k].ended && !fill(l, k)) return 0;
        if (l->way[k].n && l->way[k].due <= t && p[!k].revents && !drain(l, k)) return 0;
    }
    return !(l->way[0].ended && l->way[1].ended && !l->way[0].n && !l->way[1].n);
}

static void run(int listener, const struct sockaddr_in *to)
{
    static struct pollfd p[2 * MOST + 1];
    double end = now() + want.seconds;
    while (!ended && now() < end) {
        size_t had = count;
        int wait = look_out(p, now());
        p[2 * had] = (struct pollfd){.fd = listener, .events = POLLIN};
        if (poll(p, 2 * had + 1, wait) < 0 && errno != EINTR) return;
        double t = now();
        for (size_t i = had; i-- > 0;) { /* downwards: the last one takes the place of one that goes */
            int well = serve(wires[i], p + 2 * i, t);
            if (!well)
                shut(i, 1);
            else
                meet_fate(i, t);
        }
        if (p[2 * had].revents) take(listener, to);
    }
}

static int read_plan(int n, char **words)
{
    const struct {
        const char *name;
        double *to;
    } keys[] = {{"seed", &want.seed}, {"delay", &want.delay}, {"rate", &want.rate},
                {"cut", &want.cut},   {"stall", &want.stall}, {"seconds", &want.seconds}};
    for (int i = 0; i < n; i++) {
        const char *equals = strchr(words[i], '=');
        size_t k = 0, length = equals ? (size_t)(equals - words[i]) : 0;
        while (k < 6 && (strlen(keys[k].name) != length || strncmp(keys[k].name, words[i], length))) k++;
        if (k == 6) return 0;
        *keys[k].to = strtod(equals + 1, NULL);
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in from, to;
    socklen_t size = sizeof from;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (argc < 3 || !address(argv[1], &from) || !address(argv[2], &to) || !read_plan(argc - 3, argv + 3)) {
        fprintf(stderr, "usage: relay HOST:PORT HOST:PORT [seed=N] [delay=MS] [rate=BYTES] [cut=BYTES] [stall=MS] "
                        "[seconds=S]\n");
        return 2;
    }
    signal(SIGTERM, on_term);
    signal(SIGPIPE, SIG_IGN);
    state = (uint64_t)want.seed;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&from, size) || listen(listener, MOST) ||
        getsockname(listener, (struct sockaddr *)&from, &size)) {
        perror("relay");
        return 1;
    }
    printf("%u\n", (unsigned)ntohs(from.sin_port));
    fflush(stdout);
    run(listener, &to);
    while (count) shut(count - 1, 1);
    close(listener);
    printf("opened=%zu refused=%zu reset=%zu closed=%zu lost=%zu bytes=%zu\n", opened, refused, fates[RESET],
           fates[CLOSE], fates[LOSE], passed);
    return 0;
}
