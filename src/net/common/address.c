#include "net/common/address.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

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
    if (!host) { /* both families, by one socket; where there is no IPv6 that is said when it is opened */
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
