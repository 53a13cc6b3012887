/* fedloom cert: certificates of servers and clients. */
#include "cli/cli.h"

#include "net/cert/cert.h"

#include <stdarg.h>
#include <string.h>

/* The words and options after `fedloom cert`. */
typedef struct {
    const words *plain; /* from the action on */
    const char *name;
    fli_cert_wish wish;
    int has_days, json;
} request;

/* printf, cleaned, because a folder's name may contain any character. */
__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...)
{
    char line[4096 + 512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    say_out(NULL, line);
}

static const char *dir_of(const request *r) { return r->plain->v[1]; }

static fl_status do_init(fl_ctx *ctx, const request *r)
{
    long days = r->has_days ? r->wish.days : FLI_CERT_CA_DAYS;
    fl_status s = fli_cert_init(ctx, dir_of(r), r->name ? r->name : "fedloom federation", days);
    if (s) return s;
    say_path("authority made in ", dir_of(r));
    tell("keep ca-key.pem there: with it anyone can admit clients\n");
    return FL_OK;
}

static fl_status do_server(fl_ctx *ctx, const request *r)
{
    fl_status s = fli_cert_server(ctx, dir_of(r), r->plain->v + 2, r->plain->n - 2, r->wish);
    if (s) return s;
    tell("for the server's machine: %s/server\n", dir_of(r));
    return FL_OK;
}

static fl_status do_client(fl_ctx *ctx, const request *r)
{
    fl_status s = FL_OK;
    for (size_t i = 2; i < r->plain->n && !s; i++) {
        s = fli_cert_client(ctx, dir_of(r), r->plain->v[i], r->wish);
        if (!s) tell("for the machine of %s: %s/clients/%s\n", r->plain->v[i], dir_of(r), r->plain->v[i]);
    }
    return s;
}

static fl_status do_viewer(fl_ctx *ctx, const request *r)
{
    fl_status s = FL_OK;
    for (size_t i = 2; i < r->plain->n && !s; i++) {
        s = fli_cert_viewer(ctx, dir_of(r), r->plain->v[i], r->wish);
        if (!s) tell("for %s, who looks on: %s/viewers/%s\n", r->plain->v[i], dir_of(r), r->plain->v[i]);
    }
    return s;
}

static fl_status do_request(fl_ctx *ctx, const request *r)
{
    fl_status s = fli_cert_request(ctx, dir_of(r), r->plain->v[2]);
    if (s) return s;
    tell("key made, which stays in %s\nfor the authority to sign: %s/request.pem\n", dir_of(r), dir_of(r));
    return FL_OK;
}

static fl_status do_sign(fl_ctx *ctx, const request *r)
{
    char name[FLI_NET_NAME_MAX + 1];
    fl_status s = fli_cert_sign(ctx, dir_of(r), r->plain->v[2], r->wish, name);
    if (s) return s;
    tell("signed for %s; to put beside its key: %s/clients/%s/ca.pem and cert.pem\n", name, dir_of(r), name);
    return FL_OK;
}

static fl_status do_revoke(fl_ctx *ctx, const request *r)
{
    fl_status s = FL_OK;
    for (size_t i = 2, count; i < r->plain->n && !s; i++) {
        s = fli_cert_revoke(ctx, dir_of(r), r->plain->v[i], &count);
        if (!s && count) tell("%s: %zu certificate%s revoked\n", r->plain->v[i], count, count == 1 ? "" : "s");
        if (!s && !count) tell("%s: had none that still held\n", r->plain->v[i]);
    }
    if (!s) tell("the list is %s/crl.pem; a server elsewhere wants it in its folder\n", dir_of(r));
    return s;
}

typedef struct {
    table rows;
    time_t now;
} listing;

static void list_one(void *arg, const fli_cert_line *l)
{
    listing *all = arg;
    char ends[FLI_DAY_MAX], revoked[FLI_DAY_MAX];
    table_add(&all->rows, "%s", l->name);
    table_add(&all->rows, "%s", fli_cert_kind_name(l->kind));
    table_add(&all->rows, "%s", fli_day_text(l->ends, ends));
    if (l->revoked)
        table_add(&all->rows, "revoked %s", fli_day_text(l->revoked, revoked));
    else
        table_add(&all->rows, "%s", l->ends > (int64_t)all->now ? "holds" : "has ended");
    table_add(&all->rows, "%s", l->serial);
}

/* {"NAME": [{HEADING: TEXT, ...}, ...]}, for tables of texts. Returns an exit code. */
static int table_as_json(const table *t, const char *name)
{
    json_t *rows = json_array(), *row = NULL;
    for (size_t i = t->columns; i < t->cells; i++) {
        size_t column = i % t->columns;
        if (!column) json_array_append_new(rows, row = json_object());
        json_object_set_new(row, t->cell[column], json_out_text(t->cell[i]));
    }
    return json_out(json_pack("{s:o}", name, rows));
}

static fl_status do_list(fl_ctx *ctx, const request *r)
{
    static const char *const head[] = {"name", "kind", "until", "state", "serial"};
    listing all = {.now = time(NULL)};
    table_init(&all.rows, sizeof head / sizeof *head);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) table_add(&all.rows, "%s", head[i]);
    fl_status s = fli_cert_list(ctx, dir_of(r), list_one, &all);
    if (!s && r->json) s = table_as_json(&all.rows, "certificates") ? FL_ENOMEM : FL_OK;
    if (!s && !r->json) table_print(&all.rows, sizeof head / sizeof *head, stdout);
    table_free(&all.rows);
    return s;
}

/* An action, and how many words it takes. */
typedef struct {
    const char *name, *wants;
    size_t least, most;
    fl_status (*run)(fl_ctx *ctx, const request *r);
} action;

static const action actions[] = {
    {"init", "DIR", 1, 1, do_init},
    {"server", "DIR HOST ...", 2, FLI_CERT_HOSTS_MAX + 1, do_server},
    {"client", "DIR NAME ...", 2, SIZE_MAX, do_client},
    {"viewer", "DIR NAME ...", 2, SIZE_MAX, do_viewer},
    {"request", "DIR NAME", 2, 2, do_request},
    {"sign", "DIR FILE", 2, 2, do_sign},
    {"revoke", "DIR NAME ...", 2, SIZE_MAX, do_revoke},
    {"list", "DIR", 1, 1, do_list},
};

/* fl_name_fn */
static const char *action_name(const void *unused, size_t i)
{
    (void)unused;
    return i < sizeof actions / sizeof *actions ? actions[i].name : NULL;
}

const char *const *cert_actions(void)
{
    static const char *names[sizeof actions / sizeof *actions + 1];
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) names[i] = actions[i].name;
    return names;
}

static int find_action(const words *plain, const action **out)
{
    char meant[MEANT_LEN];
    if (!plain->n) return say_usage("cert", "do what? init, server, client, viewer, request, sign, revoke or list");
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const action *a = *out = actions + i;
        if (strcmp(a->name, plain->v[0])) continue;
        if (plain->n - 1 >= a->least && plain->n - 1 <= a->most) return CLI_OK;
        return say_usage("cert", "%s wants %s", a->name, a->wants);
    }
    return say_usage("cert", "%s: not one of init, server, client, viewer, request, sign, revoke and list%s",
                     plain->v[0], args_meant(fl_nearest(plain->v[0], action_name, NULL), meant));
}

static int perform(const action *a, const request *r)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return say("out of memory"), CLI_FAILED;
    fl_ctx_on_log(ctx, say_log, NULL);
    fl_status s = a->run(ctx, r);
    if (s) say_error(ctx);
    fl_ctx_free(ctx);
    return settings_exit(s);
}

static int run(int argc, char **argv)
{
    words plain = {0};
    size_t days = 0;
    request r = {.plain = &plain};
    const action *a = NULL;
    const option options[] = {
        {"--name", OPT_TEXT, &r.name},
        {"--days", OPT_COUNT, &days},
        {"--force", OPT_FLAG, &r.wish.force},
        {"--format", OPT_FORMAT, &r.json},
        {0},
    };
    int code = args_parse("cert", options, argc, argv, &plain);
    if (!code) code = find_action(&plain, &a);
    if (!code && r.json && a->run != do_list) code = say_usage("cert", "--format json is for `fedloom cert list`");
    if (!code && days > FLI_CERT_MOST_DAYS)
        code = say_usage("cert", "--days %zu: more than %d", days, (int)FLI_CERT_MOST_DAYS);
    r.has_days = days > 0;
    r.wish.days = days ? (long)days : FLI_CERT_DAYS;
    if (!code) code = perform(a, &r);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom cert init DIR [--name NAME] [--days N]\n"
                           "       fedloom cert server DIR HOST ... [--days N] [--force]\n"
                           "       fedloom cert client DIR NAME ... [--days N] [--force]\n"
                           "       fedloom cert viewer DIR NAME ... [--days N] [--force]\n"
                           "       fedloom cert request DIR NAME\n"
                           "       fedloom cert sign DIR FILE [--days N] [--force]\n"
                           "       fedloom cert revoke DIR NAME ...\n"
                           "       fedloom cert list DIR [--format table|json]\n"
                           "\n"
                           "Makes the certificates by which the server and the clients of a federation know\n"
                           "each other. Who holds a client's may join, under the name that is in it and no\n"
                           "other; who holds a viewer's may look on. Keys are readable by their owner alone.\n"
                           "\n"
                           "  init     makes an authority in a new folder. Its key, DIR/ca-key.pem, never\n"
                           "           leaves it.\n"
                           "  server   makes DIR/server, the folder for the server's machine. HOST is every\n"
                           "           name and address under which clients reach it.\n"
                           "  client   makes DIR/clients/NAME, the folder for that client's machine.\n"
                           "  viewer   makes DIR/viewers/NAME, for people who read `fedloom status`, the\n"
                           "           status page and metrics. It can never join, and a client's cannot\n"
                           "           read these.\n"
                           "  request  at a client: makes a key in DIR, which stays there, and\n"
                           "           DIR/request.pem for the authority to sign.\n"
                           "  sign     at the authority: makes DIR/clients/NAME of such a request, without a\n"
                           "           key. Its ca.pem and cert.pem go beside the key.\n"
                           "  revoke   refuses all certificates of a name from now on, also on connections\n"
                           "           that are open. The list is DIR/crl.pem, and DIR/server/crl.pem; a\n"
                           "           running server looks at it again when the file changes.\n"
                           "  list     shows every certificate, until when it holds, and which are revoked.\n"
                           "\n"
                           "options:\n"
                           "  --name NAME      what people call the authority (default: fedloom federation)\n"
                           "  --days N         how long it holds: an authority 3650 days, a certificate 365,\n"
                           "                   and never longer than its authority\n"
                           "  --force          makes another one although the name has one that holds. That\n"
                           "                   goes on to hold, too: so certificates are renewed\n"
                           "  --format FORMAT  of the list: table, or json\n"
                           "\n"
                           "examples:\n"
                           "  fedloom cert init ca\n"
                           "  fedloom cert server ca federation.example.org 192.0.2.7\n"
                           "  fedloom cert client ca alice bob carol\n"
                           "  fedloom cert viewer ca dana\n"
                           "  fedloom cert revoke ca bob\n"
                           "  fedloom cert server ca federation.example.org 192.0.2.7 --force\n";

const command cmd_cert = {"cert", "makes and revokes the certificates of a federation", help, run,
                          .takes = {TAKES_ACTION, TAKES_FOLDER}};
