/* Many clients of one server, in one process: the cost of a federation over a network, compared with the wire's speed.
 *
 *     net_load URL CLIENTS PER_ROUND ROUNDS SERVER_PID [CERTS]
 *
 * The server is a `fedloom serve` with this number of clients, named c0, c1, ...; CERTS contains a folder with a
 * certificate for each. All clients have the same sixteen samples. Each has its own connection and speaks the whole
 * protocol. One fl_client computes one turn; all clients send its answer, with their own name and number. So the time
 * is that of the server and the protocol, without training. net_load.sh starts both and prints the table. */
#include "base/bytes.h"
#include "remote/packet.h"
#include "fedloom_halves.h"
#include "net/common/protocol.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    FRONT = 32, /* bytes of a packet that differ between clients: up to its number and client */
    CHECKSUM_AT = 12,
    CHECKED_AT = 16,
    NUMBER_AT = 16,
    CLIENT_AT = 24
};
enum { SAMPLES = 16, DIM = 784, CLASSES = 10, HEAD = 80, WAIT = 55, LINES = 10, GROUP = 64 };

typedef enum { JOINING, TERMS, ASKING, ANSWERING, OVER } stage;

typedef struct load load;

/* libcurl searches all connections of a multi handle at every request, so each handle has only a few clients. */
typedef struct {
    load *load;
    CURLM *multi;
    double timer; /* when libcurl wants to be called; < 0: never */
} group;

typedef struct {
    group *group;
    CURL *easy;
    struct curl_slist *headers;
    stage stage;
    uint32_t index; /* of its name */
    unsigned tries;
    unsigned char front[FRONT]; /* of its answer, whose rest is the same for all */
    size_t sent;                /* of the answer */
    unsigned char *body;        /* of the server's reply: its beginning, or all of it */
    size_t n, kept, room;
} worker;

struct load {
    const char *url, *certs;
    size_t clients, per_round, rounds, groups;
    long server;
    int epoll;
    group *group;
    group **owner; /* by descriptor */
    size_t descriptors;
    worker *workers;
    fl_ctx *ctx;
    fl_config *cfg;
    fl_client *client;
    fl_bytes card, model; /* model: the answer from which all others are made */
    uint32_t checksum;    /* of the bytes after its front */
    int accepted;         /* a client has its terms, */
    uint32_t works;       /* namely this one, which computes the answer for all */
    size_t joined, over, answers, failures, said;
    double bytes_up, bytes_down, begun, first, last;
    double rss_begin, rss_joined, rss_last, rss_most;
    double cpu_joined, cpu_last; /* seconds of the server's processors, */
    double own_joined, own_last; /* and of this process */
    double rss_peak;
    double wire_bytes, wire_seconds, wire_cpu; /* sums over all measurements of the wire */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "net_load: %s: %s\n", what, why);
    exit(1);
}

/* The server's memory in MB, now or at its peak. */
static double server_memory(long pid, const char *what)
{
    char path[64], line[256];
    double kb = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what))) kb = strtod(line + strlen(what), NULL);
    if (f) fclose(f);
    return kb * 1024 / 1e6;
}

static double server_rss(long pid) { return server_memory(pid, "VmRSS:"); }

/* A process's processor time in seconds. */
static double cpu_seconds(long pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && !fgets(text, sizeof text, f)) *text = 0;
    if (f) fclose(f);
    const char *name_ends = strrchr(text, ')'); /* the name before it may have blanks */
    if (name_ends) sscanf(name_ends + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* ---- the one client that works ------------------------------------------------------------------------------- */

static void make_client(load *l)
{
    static float x[SAMPLES * DIM];
    static int32_t y[SAMPLES];
    for (size_t i = 0; i < SAMPLES * DIM; i++) x[i] = (float)((i * 2654435761u) % 1000) / 1000;
    for (size_t i = 0; i < SAMPLES; i++) y[i] = (int32_t)(i % CLASSES);
    fl_samples s = {.size = sizeof s, .n = SAMPLES, .dim = DIM, .f32 = x, .label = y, .classes = CLASSES};
    l->ctx = fl_ctx_new();
    l->cfg = l->ctx ? fl_config_new(l->ctx) : NULL;
    if (!l->cfg || fl_config_data(l->cfg, &s, NULL, NULL) || fl_client_new(l->cfg, &l->client) ||
        fl_client_card(l->client, 0, &l->card))
        die("the client", l->ctx ? fl_ctx_error(l->ctx) : "out of memory");
}

/* Computes the first answer, from any client's ask, as if it were for the client with terms. */
static void work(load *l, const worker *w)
{
    fli_packet p;
    fl_bytes ask;
    fl_ask a;
    unsigned char head[FLI_ASK_BYTES];
    if (fli_packet_read(l->ctx, FLI_PACKET_ASK, w->body, w->n, &p)) die("an ask", fl_ctx_error(l->ctx));
    fli_ask_read(p.head, &a);
    a.client = p.client = l->works;
    p.settled = 0;
    fli_ask_write(&a, head);
    p.head = head;
    if (fli_packet_write(l->ctx, &p, &ask) || fl_client_work(l->client, ask.data, ask.n, &l->model))
        die("a turn", fl_ctx_error(l->ctx));
    fl_bytes_free(&ask);
}

/* Copies only the front and combines its checksum with that of the rest, so that the generator takes little time on the
 * machine that it shares with the server. */
static void make_answer(load *l, worker *w)
{
    if (!l->model.n) {
        work(l, w);
        l->checksum = fli_crc32c(l->model.data + FRONT, l->model.n - FRONT);
    }
    memcpy(w->front, l->model.data, FRONT);
    memcpy(w->front + NUMBER_AT, w->body + NUMBER_AT, 8);
    memcpy(w->front + CLIENT_AT, w->body + CLIENT_AT, 4);
    uint32_t crc = fli_crc32c_more(fli_crc32c(w->front, CHECKSUM_AT), w->front + CHECKED_AT, FRONT - CHECKED_AT);
    fli_put_u64(w->front + CHECKSUM_AT, fli_crc32c_joined(crc, l->checksum, l->model.n - FRONT), 4);
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

static size_t take(char *piece, size_t size, size_t n, void *worker_)
{
    worker *w = worker_;
    size_t more = size * n, keep = w->n + more > w->room ? w->room - w->kept : more;
    if (w->kept + more > w->room && w->room > HEAD) { /* the caller needs all of it */
        w->room = 2 * (w->kept + more);
        keep = more;
        if (!(w->body = realloc(w->body, w->room))) return 0;
    }
    memcpy(w->body + w->kept, piece, keep);
    w->kept += keep;
    w->n += more;
    return more;
}

/* CURLOPT_READFUNCTION: the card, or the answer. */
static size_t give(char *piece, size_t size, size_t n, void *worker_)
{
    worker *w = worker_;
    const load *l = w->group->load;
    const fl_bytes *all = w->stage == JOINING ? &l->card : &l->model;
    size_t room = size * n, at = w->sent, end = w->stage == ANSWERING && at < FRONT ? FRONT : all->n;
    size_t more = end - at < room ? end - at : room;
    memcpy(piece, w->stage == ANSWERING && at < FRONT ? w->front + at : all->data + at, more);
    w->sent += more;
    return more;
}

static int rewind_to(void *worker_, curl_off_t offset, int origin)
{
    if (origin == SEEK_SET) ((worker *)worker_)->sent = (size_t)offset;
    return origin == SEEK_SET ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

static void request(load *l, worker *w)
{
    static const char *const paths[] = {FLI_NET_JOIN, FLI_NET_TERMS, FLI_NET_ASK, FLI_NET_ANSWER};
    char url[300];
    const fl_bytes *send = w->stage == JOINING ? &l->card : w->stage == ANSWERING ? &l->model : NULL;
    int whole = (w->stage == TERMS && !l->accepted) || (w->stage == ASKING && !l->model.n);
    snprintf(url, sizeof url, send ? "%s%s" : "%s%s?wait=%d", l->url, paths[w->stage], (int)WAIT);
    curl_easy_setopt(w->easy, CURLOPT_URL, url);
    if (send) {
        curl_easy_setopt(w->easy, CURLOPT_POST, 1L);
        w->sent = 0;
        curl_easy_setopt(w->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)send->n);
    } else {
        curl_easy_setopt(w->easy, CURLOPT_HTTPGET, 1L);
    }
    w->n = w->kept = 0;
    w->room = whole ? 4096 : HEAD;
    if (!(w->body = realloc(w->body, w->room))) die("memory", "there is none");
    curl_multi_add_handle(w->group->multi, w->easy);
}

static void open_worker(load *l, worker *w, uint32_t index)
{
    char text[600];
    w->index = index;
    w->group = &l->group[index / GROUP];
    w->easy = curl_easy_init();
    snprintf(text, sizeof text, FLI_NET_HEADER ": %s", fli_net_version_text());
    w->headers = curl_slist_append(NULL, text);
    w->headers = curl_slist_append(w->headers, "Expect:");
    w->headers = curl_slist_append(w->headers, "Content-Type: " FLI_NET_PACKET);
    snprintf(text, sizeof text, FLI_NET_NAME ": c%u", index);
    if (!l->certs) w->headers = curl_slist_append(w->headers, text);
    curl_easy_setopt(w->easy, CURLOPT_HTTPHEADER, w->headers);
    curl_easy_setopt(w->easy, CURLOPT_PRIVATE, w);
    curl_easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(w->easy, CURLOPT_WRITEDATA, w);
    curl_easy_setopt(w->easy, CURLOPT_READFUNCTION, give);
    curl_easy_setopt(w->easy, CURLOPT_READDATA, w);
    curl_easy_setopt(w->easy, CURLOPT_SEEKFUNCTION, rewind_to);
    curl_easy_setopt(w->easy, CURLOPT_SEEKDATA, w);
    curl_easy_setopt(w->easy, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 18);
    curl_easy_setopt(w->easy, CURLOPT_BUFFERSIZE, 1L << 18);
    curl_easy_setopt(w->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(w->easy, CURLOPT_TIMEOUT, 300L);
    if (!l->certs) return;
    snprintf(text, sizeof text, "%s/c0/ca.pem", l->certs);
    curl_easy_setopt(w->easy, CURLOPT_CAINFO, text);
    curl_easy_setopt(w->easy, CURLOPT_CAPATH, NULL); /* reading this machine's certificates takes long */
    snprintf(text, sizeof text, "%s/c%u/cert.pem", l->certs, index);
    curl_easy_setopt(w->easy, CURLOPT_SSLCERT, text);
    snprintf(text, sizeof text, "%s/c%u/key.pem", l->certs, index);
    curl_easy_setopt(w->easy, CURLOPT_SSLKEY, text);
}

/* ---- progress ------------------------------------------------------------------------------------------------ */

static void say_progress(load *l)
{
    size_t round = l->answers / l->per_round, step = l->rounds / LINES ? l->rounds / LINES : 1;
    if (!l->said++) printf("%8s %10s %14s %16s\n", "round", "seconds", "rounds/minute", "server RSS (MB)");
    if (l->answers % l->per_round || round % step) return;
    double seconds = now() - l->first;
    l->rss_last = server_rss(l->server);
    if (l->rss_last > l->rss_most) l->rss_most = l->rss_last;
    printf("%8zu %10.1f %14.1f %16.1f\n", round, seconds, 60 * (double)round / seconds, l->rss_last);
    fflush(stdout);
}

static void count_bytes(load *l, CURL *easy)
{
    curl_off_t up = 0, down = 0;
    long head = 0, asked = 0;
    curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &up);
    curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    curl_easy_getinfo(easy, CURLINFO_HEADER_SIZE, &head);
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &asked);
    l->bytes_up += (double)(up + asked);
    l->bytes_down += (double)(down + head);
}

/* ---- the life of a client ------------------------------------------------------------------------------------ */

/* If the time per client grows with their number, some code searches all of them; the processor times tell on which
 * side. */
static void say_joining(load *l)
{
    size_t step = l->clients / LINES ? l->clients / LINES : 1;
    if (l->joined == 1) printf("%8s %10s %14s %16s\n", "joined", "seconds", "server, CPU s", "clients, CPU s");
    if (l->joined % step) return;
    printf("%8zu %10.1f %14.1f %16.1f\n", l->joined, now() - l->begun, cpu_seconds(l->server), cpu_seconds(getpid()));
    fflush(stdout);
}

static void note_joined(load *l)
{
    l->joined++;
    say_joining(l);
    if (l->joined < l->clients) return;
    l->rss_joined = server_rss(l->server);
    printf("%zu clients joined in %.1f s; the server has %.1f MB, %.1f KB for each\n", l->clients, now() - l->begun,
           l->rss_joined, 1000 * (l->rss_joined - l->rss_begin) / (double)l->clients);
    fflush(stdout);
    l->bytes_up = l->bytes_down = 0;
    l->cpu_joined = cpu_seconds(l->server);
    l->own_joined = cpu_seconds(getpid());
    l->first = now();
}

static void accept_terms(load *l, const worker *w)
{
    if (fl_client_accept(l->client, w->body, w->n)) die("the terms", fl_ctx_error(l->ctx));
    l->works = w->index; /* the roster numbers clients by the order of their names */
    l->accepted = 1;
}

/* A client's next step after this reply of the server. */
static void move_on(load *l, worker *w, long code)
{
    if (code == 410) {
        w->stage = OVER;
        l->over++;
        return;
    }
    switch (w->stage) {
    case JOINING:
        if (code != 200) die("joining", "it was refused");
        note_joined(l);
        w->stage = TERMS;
        break;
    case TERMS:
        if (code != 200) break; /* try again */
        if (!l->accepted) accept_terms(l, w);
        w->stage = ASKING;
        break;
    case ASKING:
        if (code == 200) make_answer(l, w);
        if (code == 200) w->stage = ANSWERING;
        break;
    case ANSWERING:
        if (code != 200) l->failures++;
        l->answers++;
        l->last = now();
        if (l->answers == l->per_round * l->rounds) {
            l->cpu_last = cpu_seconds(l->server);
            l->own_last = cpu_seconds(getpid());
            l->rss_peak = server_memory(l->server, "VmHWM:");
        }
        say_progress(l);
        w->stage = ASKING;
        break;
    case OVER: break;
    }
}

static void look_at_done(group *g)
{
    load *l = g->load;
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(g->multi, &left))) {
        worker *w;
        long code = 0;
        CURLcode result = m->data.result;
        CURL *easy = m->easy_handle;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&w);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
        count_bytes(l, easy);
        curl_multi_remove_handle(g->multi, easy);
        if (result || code >= 500) {
            l->failures++;
            if (++w->tries > 20) die("a client", result ? curl_easy_strerror(result) : "the server is too busy");
        } else {
            move_on(l, w, code);
        }
        if (w->stage != OVER) request(l, w);
    }
}

/* ---- events -------------------------------------------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *group_, void *known)
{
    group *g = group_;
    load *l = g->load;
    struct epoll_event e = {.data.fd = fd};
    (void)easy;
    if ((size_t)fd >= l->descriptors) die("a connection", "its descriptor is beyond the limit");
    if (what != CURL_POLL_OUT) e.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) e.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
    } else {
        if (epoll_ctl(l->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e))
            epoll_ctl(l->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e);
        l->owner[fd] = g;
        curl_multi_assign(g->multi, fd, g);
    }
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *group_)
{
    (void)multi;
    ((group *)group_)->timer = ms < 0 ? -1 : now() + 1e-3 * (double)ms;
    return 0;
}

/* The time until the first group's timer, at most a second. */
static double next_timer(const load *l)
{
    double first = now() + 1;
    for (const group *g = l->group; g < l->group + l->groups; g++)
        if (g->timer >= 0 && g->timer < first) first = g->timer;
    return first;
}

static void call_timers(load *l)
{
    int running;
    double moment = now();
    for (group *g = l->group; g < l->group + l->groups; g++) {
        if (g->timer < 0 || moment < g->timer) continue;
        g->timer = -1;
        curl_multi_socket_action(g->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        look_at_done(g);
    }
}

static void turn(load *l)
{
    enum { MANY = 256 };
    struct epoll_event e[MANY];
    int running;
    double wait = next_timer(l) - now();
    int n = epoll_wait(l->epoll, e, MANY, wait <= 0 ? 0 : (int)(1000 * wait) + 1);
    for (int i = 0; i < n; i++) {
        int flags = (e[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) | (e[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                    (e[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        group *g = l->owner[e[i].data.fd];
        curl_multi_socket_action(g->multi, e[i].data.fd, flags, &running);
        look_at_done(g);
    }
    call_timers(l);
}

static void open_groups(load *l)
{
    struct rlimit r = {0};
    if (!getrlimit(RLIMIT_NOFILE, &r)) setrlimit(RLIMIT_NOFILE, &(struct rlimit){r.rlim_max, r.rlim_max});
    l->descriptors = r.rlim_max < 1000000 ? r.rlim_max : 1000000;
    l->owner = calloc(l->descriptors, sizeof *l->owner);
    l->groups = (l->clients + GROUP - 1) / GROUP;
    l->group = calloc(l->groups, sizeof *l->group);
    if (!l->owner || !l->group) die("memory", "there is none");
    for (group *g = l->group; g < l->group + l->groups; g++) {
        *g = (group){.load = l, .multi = curl_multi_init(), .timer = -1};
        if (!g->multi) die("libcurl", "it does not begin");
        curl_multi_setopt(g->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(g->multi, CURLMOPT_SOCKETDATA, g);
        curl_multi_setopt(g->multi, CURLMOPT_TIMERFUNCTION, on_timer);
        curl_multi_setopt(g->multi, CURLMOPT_TIMERDATA, g);
        curl_multi_setopt(g->multi, CURLMOPT_MAXCONNECTS, (long)GROUP + 16);
    }
}

/* New connections come in small groups: a listening server's queue is short. */
static void run(load *l)
{
    enum { AT_ONCE = 64 };
    size_t opened = 0;
    double end = now() + 3600;
    while (l->over < l->clients && now() < end) {
        while (opened < l->clients && opened < l->joined + AT_ONCE) {
            open_worker(l, &l->workers[opened], (uint32_t)opened);
            request(l, &l->workers[opened++]);
        }
        turn(l);
    }
}

/* ---- the speed of the wire ----------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    size_t bytes;
    gnutls_session_t tls; /* NULL: plain */
} side;

static ssize_t pass(side *s, void *p, size_t n, int send_)
{
    if (!s->tls) return send_ ? send(s->fd, p, n, 0) : recv(s->fd, p, n, 0);
    return send_ ? gnutls_record_send(s->tls, p, n) : gnutls_record_recv(s->tls, p, n);
}

static void *sender(void *side_)
{
    static char block[1 << 16];
    side *s = side_;
    if (s->tls && gnutls_handshake(s->tls)) return NULL;
    for (size_t left = s->bytes; left;) {
        ssize_t n = pass(s, block, left < sizeof block ? left : sizeof block, 1);
        if (n <= 0) return NULL;
        left -= (size_t)n;
    }
    return NULL;
}

static gnutls_session_t session(int fd, unsigned flags, gnutls_certificate_credentials_t c)
{
    gnutls_session_t s;
    gnutls_init(&s, flags);
    gnutls_set_default_priority(s);
    gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, c);
    gnutls_transport_set_int(s, fd);
    return s;
}

static void connect_pair(int fd[2])
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&here, n) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&here, &n) || connect(fd[0], (struct sockaddr *)&here, n) ||
        (fd[1] = accept(listener, NULL, NULL)) < 0)
        die("a connection on this machine", "there is none");
    close(listener);
}

/* One connection on this machine, with a thread at either end. Measured before and after the run, because the machine
 * may have other work. */
static void measure_wire(load *l)
{
    const size_t bytes = (size_t)1 << 30;
    const char *certs = l->certs;
    char cert[500], key[500];
    static char block[1 << 16];
    int fd[2];
    pthread_t thread;
    gnutls_certificate_credentials_t c;
    connect_pair(fd);
    side a = {.fd = fd[0], .bytes = bytes}, b = {.fd = fd[1]};
    gnutls_certificate_allocate_credentials(&c);
    if (certs) {
        snprintf(cert, sizeof cert, "%s/c0/cert.pem", certs);
        snprintf(key, sizeof key, "%s/c0/key.pem", certs);
        gnutls_certificate_set_x509_key_file(c, cert, key, GNUTLS_X509_FMT_PEM);
        a.tls = session(fd[0], GNUTLS_SERVER, c);
        b.tls = session(fd[1], GNUTLS_CLIENT, c);
    }
    pthread_create(&thread, NULL, sender, &a);
    if (b.tls && gnutls_handshake(b.tls)) die("the wire", "no handshake");
    double begun = now(), cpu = cpu_seconds(getpid());
    for (size_t left = bytes; left;) {
        ssize_t n = pass(&b, block, sizeof block, 0);
        if (n <= 0) die("the wire", "it broke");
        left -= (size_t)n;
    }
    l->wire_seconds += now() - begun;
    pthread_join(thread, NULL);
    l->wire_cpu += cpu_seconds(getpid()) - cpu;
    l->wire_bytes += (double)bytes;
    if (a.tls) gnutls_deinit(a.tls), gnutls_deinit(b.tls);
    gnutls_certificate_free_credentials(c);
    close(fd[0]), close(fd[1]);
}

static void say_result(load *l)
{
    double seconds = l->last - l->first, rounds = (double)l->answers / (double)l->per_round;
    double bytes = (l->bytes_up + l->bytes_down) / rounds, per_second = l->wire_bytes / l->wire_seconds;
    printf("\n%s, %zu clients, %zu per round: %.0f rounds in %.1f s, %zu of %zu said that it is over, %zu requests "
           "said again\n",
           l->certs ? "TLS" : "plain", l->clients, l->per_round, rounds, seconds, l->over, l->clients, l->failures);
    printf("  rounds per minute            %10.1f\n", 60 * rounds / seconds);
    printf("  server, CPU per client turn  %10.2f ms\n", 1e3 * (l->cpu_last - l->cpu_joined) / (double)l->answers);
    printf("  bytes per round              %10.1f MB (%.1f MB up, %.1f MB down)\n", bytes / 1e6,
           l->bytes_up / rounds / 1e6, l->bytes_down / rounds / 1e6);
    printf("  a connection on this machine %10.0f MB/s, %.0f rounds per minute\n", per_second / 1e6,
           60 * per_second / bytes);
    printf("  share of it                  %10.2f\n", bytes * rounds / seconds / per_second);
    printf("  processors per round         %10.2f s of the server, %.2f s here, %.2f s of such a connection\n",
           (l->cpu_last - l->cpu_joined) / rounds, (l->own_last - l->own_joined) / rounds,
           l->wire_cpu * bytes / l->wire_bytes);
    printf(
        "  server RSS                   %10.1f MB at its start, %.1f with all clients, %.1f after a round, %.1f at the "
        "end; %.1f at most\n",
        l->rss_begin, l->rss_joined, l->rss_most, l->rss_last, l->rss_peak);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: net_load URL CLIENTS PER_ROUND ROUNDS SERVER_PID [CERTS]\n");
        return 2;
    }
    load l = {.url = argv[1],
              .clients = strtoul(argv[2], NULL, 10),
              .per_round = strtoul(argv[3], NULL, 10),
              .rounds = strtoul(argv[4], NULL, 10),
              .server = strtol(argv[5], NULL, 10),
              .certs = argc > 6 ? argv[6] : NULL};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    l.workers = calloc(l.clients, sizeof *l.workers);
    if (l.epoll < 0 || !l.workers || !l.per_round) die("beginning", "something is missing");
    open_groups(&l);
    make_client(&l);
    l.rss_begin = server_rss(l.server);
    measure_wire(&l);
    l.begun = now();
    run(&l);
    measure_wire(&l);
    say_result(&l);
    return l.over != l.clients || l.answers < l.per_round * l.rounds;
}
