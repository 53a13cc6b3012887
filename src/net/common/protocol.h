/* What server and clients of a federation over a network agree on: first addresses to listen on, then names, paths,
 * codes and bounds of the protocol. fedloom_halves.h makes and reads the packets in the bodies; docs/protocol.md
 * describes all of it for other languages.
 *
 * Clients call, servers answer; a client without work waits in a request for its next ask. The server knows a client by
 * the name in its certificate or, over plain HTTP on loopback, by the header FLI_NET_NAME. */
#ifndef FLI_NET_COMMON_PROTOCOL_H
#define FLI_NET_COMMON_PROTOCOL_H

#include "base/ctx.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* ==== addresses =================================================================================================== */

enum { FLI_ADDRESS_TEXT = 80 };

/* "HOST:PORT", "HOST", ":PORT" or "[IPv6]:PORT"; a missing part leaves its output unchanged. `host`: 256 bytes. */
fl_status fli_address_split(fl_ctx *ctx, const char *text, char *host, uint16_t *port);
/* A local address to listen on; a name means its first address; "" or NULL means all addresses. */
fl_status fli_address_read(fl_ctx *ctx, const char *host, uint16_t port, struct sockaddr_storage *out);
/* Whether the address is a loopback address. */
int fli_address_is_local(const struct sockaddr_storage *a);
const char *fli_address_text(const struct sockaddr_storage *a, char text[FLI_ADDRESS_TEXT]);

/* Whether the host of a request or a URL is this machine, judged by the text alone: localhost or a loopback address.
 * The name server is not asked. NULL, for no host, is not. */
int fli_host_is_local(const char *host);

/* ==== the protocol ================================================================================================ */

enum {
    FLI_NET_VERSION = 1, /* the version spoken here */
    FLI_NET_OLDEST = 1,  /* the oldest version understood here */
    FLI_NET_PORT = 8443,
    FLI_NET_NAME_MAX = 64,          /* bytes of a client's name */
    FLI_NET_WAIT_MOST = 60,         /* seconds that a request for an ask may wait at the server */
    FLI_NET_SMALL_BODY = 64 * 1024, /* a card, a refusal, or an answer in JSON */
};

/* Paths. Bodies are packets (FLI_NET_PACKET) or JSON. */
#define FLI_NET_FEDERATION "/v1/federation" /* GET: JSON, what is run here and what samples must look like */
#define FLI_NET_JOIN       "/v1/join"       /* POST card: JSON {"client": NUMBER}; 409 with the reason */
#define FLI_NET_TERMS      "/v1/terms"      /* GET: terms; 204: others have still to join */
#define FLI_NET_ASK        "/v1/ask"        /* GET ?wait=SECONDS: an ask; 204: none so far; 410: the run is over */
#define FLI_NET_ANSWER     "/v1/answer"     /* POST answer: 200 taken, now or before; 409 not expected */
#define FLI_NET_REFUSE     "/v1/refuse"     /* POST JSON {"number": ask's, "reason": "..."}: the client refuses it */
#define FLI_NET_ALIVE      "/v1/alive"  /* POST JSON {"number": ask's}: still at work; {"over": true}: has heard it */
#define FLI_NET_STATUS     "/v1/status" /* GET: JSON, for people and programs that look on */
#define FLI_NET_METRICS    "/metrics"
#define FLI_NET_HEALTH     "/healthz"

#define FLI_NET_PACKET  "application/vnd.fedloom.packet"
#define FLI_NET_HEADER  "Fedloom-Protocol" /* in every request and answer: "VERSION OLDEST" of the sender */
#define FLI_NET_UPGRADE "fedloom/1"        /* in a reply 426: the version spoken here, in HTTP's form */
#define FLI_NET_NAME    "Fedloom-Client"   /* plain HTTP only: the client's name */
/* "FOLDER PROCESS", 16 hexadecimal digits each: which of a client's processes sends the request. */
#define FLI_NET_INSTANCE "Fedloom-Instance"

/* A sentence that names both versions if the two sides cannot communicate; NULL: they can. `header`: the other side's
 * FLI_NET_HEADER, or NULL if it sent none. */
const char *fli_net_version_wrong(const char *header, char *sentence, size_t n);
/* The value of FLI_NET_HEADER that this side sends. */
const char *fli_net_version_text(void);

/* Identifies a process among those that use one certificate. `folder` is stored in the client's folder, so a restarted
 * process keeps it and a process elsewhere has another one. `process` is drawn at each start, so two processes with
 * copies of one folder differ. */
typedef struct {
    uint64_t folder, process; /* both 0: not sent */
} fli_instance;
enum { FLI_INSTANCE_TEXT = 34 };
/* The value of FLI_NET_INSTANCE for this process. */
const char *fli_instance_text(const fli_instance *i, char text[FLI_INSTANCE_TEXT]);
/* NULL, for a missing header, gives zeros. Returns 0 if the header is malformed. */
int fli_instance_read(const char *header, fli_instance *out);

/* Letters, digits, dots, hyphens and underscores, 1 to FLI_NET_NAME_MAX of them, no dot or hyphen first. Such a name
 * can also name a file. */
int fli_net_name_ok(const char *name);

#endif
