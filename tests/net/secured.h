/* A federation over HTTPS: an authority, and certificates for the server and every member. */
#ifndef TESTS_NET_SECURED_H
#define TESTS_NET_SECURED_H

#include "net/federation.h"

#include "net/cert/cert.h"

typedef struct {
    federation t;
    char ca[300]; /* folder of the authority */
} secured;

UNUSED static void authority(secured *s, fixture *f)
{
    static const char *const host[] = {"127.0.0.1"};
    char name[20];
    snprintf(s->ca, sizeof s->ca, "%.200s", fixture_path(f, "ca"));
    assert_ok(f->ctx, fli_cert_init(f->ctx, s->ca, "test", 10));
    assert_ok(f->ctx, fli_cert_server(f->ctx, s->ca, host, 1, (fli_cert_wish){5, 0}));
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(name, sizeof name, "client-%d", i);
        assert_ok(f->ctx, fli_cert_client(f->ctx, s->ca, name, (fli_cert_wish){5, 0}));
    }
}

UNUSED static void secured_up(secured *s, fixture *f)
{
    char certs[400];
    memset(s, 0, sizeof *s);
    federation_init(&s->t, f, "");
    authority(s, f);
    snprintf(certs, sizeof certs, "%s/server", s->ca);
    s->t.cfg = server_config(&s->t, "");
    fli_serve_options o = {.listen = "127.0.0.1:0", .certs = certs};
    assert_ok(f->ctx, fli_serve_new(f->ctx, s->t.cfg, &o, &s->t.serve));
    snprintf(s->t.base, sizeof s->t.base, "https://127.0.0.1:%u", (unsigned)fli_serve_port(s->t.serve));
}

/* From now on a caller has the certificate of that name, of this authority or another. */
UNUSED static void show(caller *c, secured *s, const char *name, const char *ca)
{
    snprintf(c->certs, sizeof c->certs, "%.250s/clients/%.40s", ca, name);
    snprintf(c->trust, sizeof c->trust, "%.250s/server/ca.pem", s->ca);
}

/* The same of a viewer's. */
UNUSED static void show_viewer(caller *c, secured *s, const char *name, const char *ca)
{
    show(c, s, name, ca);
    snprintf(c->certs, sizeof c->certs, "%.240s/viewers/%.40s", ca, name);
}

/* Everybody joins, and says another name than its certificate's, which does not count. */
UNUSED static void members_certified(secured *s, member *m)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        member_init(&m[i], &s->t, i);
        show(&m[i].call, s, m[i].name, s->ca);
        m[i].call.name = "somebody-else";
        member_join(&m[i]);
    }
}

#endif
