/* What server and clients of a federation over a network agree on: names, paths, codes and bounds of the protocol. The
 * bytes within are those of fedloom_halves.h; docs/protocol.md describes all of it for other languages.
 *
 * Clients call, servers answer; a client that has nothing to do waits in a request for its next ask. A client is known
 * by the name in its certificate, or, over plain HTTP on loopback, by the header FLI_NET_NAME. Addresses to listen on
 * come first. */
#ifndef FLI_NET_COMMON_PROTOCOL_H
#define FLI_NET_COMMON_PROTOCOL_H

#include "base/ctx.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* ==== addresses =================================================================================================== */

enum { FLI_ADDRESS_TEXT = 80 };

/* "HOST:PORT", "HOST", ":PORT", "[IPv6]:PORT"; what is not said stays as it is. `host` has room for 256 bytes. */
fl_status fli_address_split(fl_ctx *ctx, const char *text, char *host, uint16_t *port);
/* An address of this machine; a name stands for its first one. "" or NULL: all of them. */
fl_status fli_address_read(fl_ctx *ctx, const char *host, uint16_t port, struct sockaddr_storage *out);
/* Whether only this machine can reach it. */
int fli_address_is_local(const struct sockaddr_storage *a);
const char *fli_address_text(const struct sockaddr_storage *a, char text[FLI_ADDRESS_TEXT]);

/* Whether the host of a request or a URL is the machine itself, by its name or address and not by what a name server
 * says. NULL: none was said. */
int fli_host_is_local(const char *host);

/* ==== the protocol ================================================================================================ */

enum {
    FLI_NET_VERSION = 1, /* spoken here, */
    FLI_NET_OLDEST = 1,  /* and the oldest that is understood */
    FLI_NET_PORT = 8443,
    FLI_NET_NAME_MAX = 64,          /* bytes of a client's name */
    FLI_NET_WAIT_MOST = 60,         /* seconds that a request for an ask may wait at the server */
    FLI_NET_SMALL_BODY = 64 * 1024, /* a card, a refusal, what an answer in JSON may have */
};

/* Paths. Bodies are packets (FLI_NET_PACKET) or JSON. */
#define FLI_NET_FEDERATION "/v1/federation" /* GET: JSON, what is run here and what samples must look like */
#define FLI_NET_JOIN       "/v1/join"       /* POST card: JSON {"client": NUMBER}; 409 with the reason */
#define FLI_NET_TERMS      "/v1/terms"      /* GET: terms; 204: others have still to join */
#define FLI_NET_ASK        "/v1/ask"        /* GET ?wait=SECONDS: an ask; 204: none so far; 410: the run is over */
#define FLI_NET_ANSWER     "/v1/answer"     /* POST answer: 200 taken, also if it was before; 409 not awaited */
#define FLI_NET_REFUSE     "/v1/refuse"     /* POST JSON {"number": ask's, "reason": "..."}: will not do it */
#define FLI_NET_ALIVE      "/v1/alive"  /* POST JSON {"number": ask's}: still at work; {"over": true}: has heard it */
#define FLI_NET_STATUS     "/v1/status" /* GET: JSON, for people and programs that look on */
#define FLI_NET_METRICS    "/metrics"
#define FLI_NET_HEALTH     "/healthz"

#define FLI_NET_PACKET  "application/vnd.fedloom.packet"
#define FLI_NET_HEADER  "Fedloom-Protocol" /* every request and answer: "VERSION OLDEST" of who speaks */
#define FLI_NET_UPGRADE "fedloom/1"        /* with 426: what is spoken here, as HTTP calls protocols */
#define FLI_NET_NAME    "Fedloom-Client"   /* plain HTTP alone: who speaks */
/* "FOLDER PROCESS", 16 hexadecimal digits each: which process of a client speaks. */
#define FLI_NET_INSTANCE "Fedloom-Instance"

/* A sentence that names both, if two sides cannot speak with each other; NULL: they can. `header`: what the other side
 * sent as FLI_NET_HEADER, NULL: nothing. */
const char *fli_net_version_wrong(const char *header, char *sentence, size_t n);
/* The header of ours. */
const char *fli_net_version_text(void);

/* Two processes may have one certificate. The number that a client's folder keeps tells a process that was started
 * again from one that is elsewhere; the number that every process draws tells two that have copies of a folder. */
typedef struct {
    uint64_t folder, process; /* zeros: it does not say */
} fli_instance;
enum { FLI_INSTANCE_TEXT = 34 };
/* The header of ours. */
const char *fli_instance_text(const fli_instance *i, char text[FLI_INSTANCE_TEXT]);
/* 0: it is none. NULL: not said, which is zeros. */
int fli_instance_read(const char *header, fli_instance *out);

/* Letters, digits, dots, hyphens and underscores, 1 to FLI_NET_NAME_MAX of them, no dot or hyphen first: a name that
 * may be a file's. */
int fli_net_name_ok(const char *name);

#endif
