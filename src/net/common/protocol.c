#include "net/common/protocol.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ==== addresses =================================================================================================== */

enum { HOST = 256 };

static int read_port(const char *text, uint16_t *out)
{
    unsigned long v = 0;
    if (!*text || strlen(text) > 5) return 0;
    for (; *text >= '0' && *text <= '9'; text++) v = 10 * v + (unsigned long)(*text - '0');
    *out = (uint16_t)v;
    return !*text && v <= UINT16_MAX;
}

static int split(const char *text, char *host, uint16_t *port)
{
    const char *end = text, *from = text, *colon;
    if (*text == '[') {
        from = text + 1;
        end = strchr(text, ']');
        colon = end && end[1] ? end + 1 : NULL;
    } else {
        colon = strchr(text, ':');
        if (colon && strchr(colon + 1, ':')) colon = NULL; /* an IPv6 address without a port */
        end = colon ? colon : text + strlen(text);
    }
    if (!end || end - from >= HOST || (colon && (*colon != ':' || !read_port(colon + 1, port)))) return 0;
    if (end > from) fli_snprintf(host, HOST, "%.*s", (int)(end - from), from);
    return 1;
}

fl_status fli_address_split(fl_ctx *ctx, const char *text, char *host, uint16_t *port)
{
    return split(text, host, port) ? FL_OK : fli_fail(ctx, FL_ECONFIG, "%s is no HOST:PORT", text);
}

fl_status fli_address_read(fl_ctx *ctx, const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    char number[8];
    if (host && !*host) host = NULL;
    fli_snprintf(number, sizeof number, "%u", (unsigned)port);
    memset(out, 0, sizeof *out);
    if (!host) { /* one socket for both families; opening it reports a missing IPv6 */
        struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
        memcpy(out, &all, sizeof all);
        return FL_OK;
    }
    int error = getaddrinfo(host, number, &want, &found);
    if (error) return fli_fail(ctx, FL_ECONFIG, "%s: %s", host, gai_strerror(error));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return FL_OK;
}

int fli_address_is_local(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

const char *fli_address_text(const struct sockaddr_storage *a, char text[FLI_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    int v6 = a->ss_family == AF_INET6;
    inet_ntop(a->ss_family, v6 ? (const void *)&six->sin6_addr : (const void *)&four->sin_addr, host, sizeof host);
    fli_snprintf(text, FLI_ADDRESS_TEXT, v6 ? "[%s]:%u" : "%s:%u", host,
                 (unsigned)ntohs(v6 ? six->sin6_port : four->sin_port));
    return text;
}

int fli_host_is_local(const char *host)
{
    char name[HOST] = "";
    uint16_t port = 0;
    struct in_addr four;
    if (!host || !split(host, name, &port)) return 0;
    return !strcasecmp(name, "localhost") || !strcmp(name, "::1") ||
           (inet_pton(AF_INET, name, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

/* ==== the protocol ================================================================================================ */

/* The preprocessor cannot print these two: they are enumerators, not macros. */
static_assert(FLI_NET_VERSION == 1 && FLI_NET_OLDEST == 1, "they are written out below, and in FLI_NET_UPGRADE");
const char *fli_net_version_text(void) { return "1 1"; }

/* Reads decimal digits and returns what follows them; NULL if there are none. */
static const char *read_digits(const char *at, long *out)
{
    char *end;
    if (*at < '0' || *at > '9') return NULL;
    *out = strtol(at, &end, 10);
    return end;
}

/* "VERSION OLDEST"; 0: the header has another form. */
static int parse(const char *header, long *version, long *oldest)
{
    const char *at = read_digits(header, version);
    if (!at || *at != ' ' || !(at = read_digits(at + 1, oldest))) return 0;
    return !*at && *oldest > 0 && *version >= *oldest && *version < 1000000;
}

const char *fli_net_version_wrong(const char *header, char *sentence, size_t n)
{
    long version, oldest;
    if (!header || strlen(header) > 20 || !parse(header, &version, &oldest)) {
        fli_snprintf(sentence, n, "the other side does not say which protocol it speaks (header %s); here it is %d",
                     FLI_NET_HEADER, FLI_NET_VERSION);
        return sentence;
    }
    if (version >= FLI_NET_OLDEST && oldest <= FLI_NET_VERSION) return NULL;
    fli_snprintf(sentence, n, "the other side speaks protocol %ld (%ld at least), this one %d (%d at least)", version,
                 oldest, FLI_NET_VERSION, FLI_NET_OLDEST);
    return sentence;
}

const char *fli_instance_text(const fli_instance *i, char text[FLI_INSTANCE_TEXT])
{
    fli_snprintf(text, FLI_INSTANCE_TEXT, "%016llx %016llx", (unsigned long long)i->folder,
                 (unsigned long long)i->process);
    return text;
}

int fli_instance_read(const char *header, fli_instance *out)
{
    *out = (fli_instance){0, 0};
    if (!header) return 1;
    if (strlen(header) != 33 || strspn(header, "0123456789abcdef") != 16 || header[16] != ' ' ||
        strspn(header + 17, "0123456789abcdef") != 16)
        return 0;
    out->folder = strtoull(header, NULL, 16);
    out->process = strtoull(header + 17, NULL, 16);
    return 1;
}

static int letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int fli_net_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (!n || n > FLI_NET_NAME_MAX || !letter(*name)) return 0;
    for (size_t i = 0; i < n; i++)
        if (!letter(name[i]) && name[i] != '.' && name[i] != '-') return 0;
    return 1;
}
