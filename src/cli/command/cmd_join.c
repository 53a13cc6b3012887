/* fedloom join: takes part in a federation with the samples of this machine. */
#include "cli/cli.h"

#include "net/client/join.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    words plain, data, limits, sets;
    const char *certs, *name, *keep, *proxy;
    double patience;
    int insecure, digest, changed, show, yes, once, quiet;
} request;

/* ---- samples by file names ------------------------------------------------------------------------------- */

static fl_status put_key(fl_config *cfg, const char *key, const char *value)
{
    char full[64];
    snprintf(full, sizeof full, "data.%s", key);
    return settings_put(cfg, full, value);
}

static int put_data(fl_ctx *ctx, fl_config *cfg, const data_format *f, const words *files)
{
    fl_status s = put_key(cfg, "kind", f->kind);
    for (size_t i = 0; !s && i < files->n; i++) s = put_key(cfg, f->key[i], files->v[i]);
    if (!s && f->also_key) s = put_key(cfg, f->also_key, f->also_is);
    if (s) say_error(ctx);
    return settings_exit(s);
}

static int take_data(fl_ctx *ctx, fl_config *cfg, const words *files)
{
    const data_format *f = files->n ? data_format_of(files->v[0]) : NULL;
    if (!files->n) return CLI_OK;
    if (!f)
        return say_usage("join",
                         "--data %s: the ending of its name does not say what it is (%s); for others, a CLIENT.yaml "
                         "has a `data` section",
                         files->v[0], data_endings);
    size_t wanted = f->key[1] ? 2 : 1;
    if (files->n == wanted) return put_data(ctx, cfg, f, files);
    return say_usage("join", "--data is given %zu times, but %s takes %s", files->n, f->kind,
                     wanted == 2 ? "two files: features and labels" : "one file");
}

/* ---- settings -------------------------------------------------------------------------------------------- */

/* The plain words: a URL, a file, or both. */
static int take_words(fl_ctx *ctx, const request *r, fl_config *cfg)
{
    const char *url = NULL, *file = NULL;
    for (size_t i = 0; i < r->plain.n; i++) {
        const char **to = strstr(r->plain.v[i], "://") ? &url : &file;
        if (*to) return say_usage("join", "give one URL and at most one CLIENT.yaml");
        *to = r->plain.v[i];
    }
    if (!url && !file) return say_usage("join", "which URL?");
    fl_status s = file ? fl_config_load(cfg, file) : FL_OK;
    if (!s && url) s = settings_put(cfg, "url", url);
    if (s) say_error(ctx);
    return s == FL_ENOMEM ? CLI_FAILED : s ? CLI_USAGE : CLI_OK;
}

static fl_status put_option(fl_config *cfg, const char *key, const char *text)
{
    return text ? settings_put(cfg, key, text) : FL_OK;
}

static int take_options(fl_ctx *ctx, const request *r, fl_config *cfg)
{
    char text[512];
    fl_status s = put_option(cfg, "certs", r->certs);
    if (!s) s = put_option(cfg, "name", r->name);
    if (!s) s = put_option(cfg, "keep", r->keep);
    if (!s) s = put_option(cfg, "proxy", r->proxy);
    if (!s && r->insecure) s = fl_config_set(cfg, "insecure_http=true");
    if (!s && r->digest) s = fl_config_set(cfg, "digest=true");
    snprintf(text, sizeof text, "patience=%.17g", r->patience);
    if (!s && r->patience > 0) s = fl_config_set(cfg, text);
    for (size_t i = 0; !s && i < r->limits.n; i++) {
        if (snprintf(text, sizeof text, "limits.%s", r->limits.v[i]) >= (int)sizeof text)
            return say_usage("join", "--limit %s is too long", r->limits.v[i]);
        s = fl_config_set(cfg, text);
    }
    for (size_t i = 0; !s && i < r->sets.n; i++) s = fl_config_set(cfg, r->sets.v[i]);
    if (s) say_error(ctx);
    return settings_exit(s);
}

/* ---- messages to people ---------------------------------------------------------------------------------- */

static int is_stopping(void *unused)
{
    (void)unused;
    return interrupt_seen();
}

static void tell_person(void *unused, const char *line)
{
    (void)unused;
    say("%s", line);
}

static void log_line(void *unused, const char *line)
{
    (void)unused;
    fprintf(stderr, "%s\n", line);
}

/* 1 for a line that begins with y or Y, -1 at the end of the input. */
static int answered_yes(void)
{
    printf("send it? [y/N] ");
    fflush(stdout);
    int first = getchar();
    for (int c = first; c != '\n' && c != EOF;) c = getchar();
    return first == EOF ? -1 : first == 'y' || first == 'Y';
}

static fli_consent show(void *req, const char *what, const char *text, int ask)
{
    const request *r = req;
    printf("---- %s would leave:\n", what);
    say_out(NULL, text);
    if (*text && text[strlen(text) - 1] != '\n') putchar('\n');
    fflush(stdout);
    if (!ask || r->yes) return FLI_CONSENT_SEND;
    int yes = answered_yes();
    return yes < 0 ? FLI_CONSENT_STOP : yes ? FLI_CONSENT_SEND : FLI_CONSENT_SKIP;
}

/* ---- joining --------------------------------------------------------------------------------------------- */

static int go(fl_ctx *ctx, request *r, fl_config *cfg, const fli_join_settings *settings)
{
    int person = isatty(STDERR_FILENO);
    fli_join_spec spec = {.cfg = cfg,
                          .settings = settings,
                          .once = r->once,
                          .look_only = r->once && r->show,
                          .changed = r->changed,
                          .log = {person ? NULL : log_line, NULL, r->quiet},
                          .tell = person && !r->quiet ? tell_person : NULL,
                          .show = r->show ? show : NULL,
                          .stopping = is_stopping,
                          .arg = r};
    interrupt_install(r->quiet);
    interrupt_context(ctx);
    fl_status s = fli_join(ctx, &spec);
    interrupt_context(NULL);
    if (s == FL_EDONE || s == FL_ESTOPPED)
        return !interrupt_seen() || interrupt_seen() == SIGTERM ? CLI_OK : CLI_INTERRUPTED;
    if (s) say_error(ctx);
    return settings_exit(s);
}

static int join(request *r)
{
    fli_join_settings settings;
    int code = CLI_FAILED;
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    if (!cfg) {
        say("out of memory");
        fl_ctx_free(ctx);
        return code;
    }
    fl_ctx_on_log(ctx, r->quiet ? say_warning : say_log, NULL);
    code = take_words(ctx, r, cfg);
    if (!code) code = take_data(ctx, cfg, &r->data);
    if (!code) code = take_options(ctx, r, cfg);
    if (!code) {
        fl_status s = fli_join_settings_take(cfg, &settings);
        if (s) say_error(ctx);
        code = s ? settings_exit(s) : go(ctx, r, cfg, &settings);
        fli_join_settings_fini(&settings);
    }
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    request r = {0};
    const option options[] = {
        {"--data", OPT_WORDS, &r.data, TAKES_FILE},
        {"--certs", OPT_TEXT, &r.certs, TAKES_FOLDER},
        {"--name", OPT_TEXT, &r.name},
        {"--insecure-http", OPT_FLAG, &r.insecure},
        {"--keep", OPT_TEXT, &r.keep, TAKES_FOLDER},
        {"--limit", OPT_WORDS, &r.limits},
        {"--patience", OPT_REAL, &r.patience},
        {"--proxy", OPT_TEXT, &r.proxy},
        {"--digest", OPT_FLAG, &r.digest},
        {"--changed-data", OPT_FLAG, &r.changed},
        {"--set", OPT_WORDS, &r.sets, TAKES_SETTING},
        {"--show", OPT_FLAG, &r.show},
        {"--yes", OPT_FLAG, &r.yes},
        {"--once", OPT_FLAG, &r.once},
        {"--quiet", OPT_FLAG, &r.quiet},
        {0},
    };
    int code = args_parse("join", options, argc, argv, &r.plain);
    if (!code && r.yes && !r.show) code = say_usage("join", "--yes is for --show");
    if (!code && r.show && !r.yes && !isatty(STDIN_FILENO))
        code = say_usage("join", "--show asks before anything is sent, on a terminal; --show --yes prints and sends");
    if (!code) code = join(&r);
    args_free(&r.plain);
    args_free(&r.data);
    args_free(&r.limits);
    args_free(&r.sets);
    return code;
}

static const char help[] = "usage: fedloom join URL [CLIENT.yaml] [--data FILE ...] [--certs DIR]\n"
                           "                    [--keep DIR] [--limit KEY=VALUE ...] [--patience SECONDS]\n"
                           "                    [--show [--yes]] [--once] [--quiet] ...\n"
                           "\n"
                           "Takes part in the federation of a `fedloom serve` with one's own samples, until\n"
                           "the run is over. The samples stay: what leaves is the client's card (how many\n"
                           "samples, of which shape), the rows of the method's upload table, and sums of\n"
                           "evaluation. Nothing that the server sends names a file or a command.\n"
                           "\n"
                           "The client may be stopped or killed at any moment. Started again with the same\n"
                           "folder (--keep) it goes on, and the result has the same bytes. A server that is\n"
                           "away is waited for. A folder has a part for each run; what is left of a run that\n"
                           "was given up may be removed.\n"
                           "\n"
                           "options:\n"
                           "  --data FILE         samples: .npz, .csv or .tsv (labels in the last column),\n"
                           "                      .svm or .libsvm, .json (LEAF), each also with .gz or .xz;\n"
                           "                      twice for .npy: features, then labels. Others by the\n"
                           "                      `data` section of CLIENT.yaml\n"
                           "  --certs DIR         this client's ca.pem, cert.pem and key.pem, as\n"
                           "                      `fedloom cert client` makes them; its name is in them\n"
                           "  --name NAME         the name over plain HTTP, with --insecure-http\n"
                           "  --insecure-http     lets URL begin with http://, to this machine itself alone\n"
                           "  --keep DIR          what the client keeps between turns; one process at a time\n"
                           "                      may have it (default: fedloom-NAME)\n"
                           "  --limit KEY=VALUE   what may be asked of this client, see below\n"
                           "  --patience SECONDS  gives up a server that is away for that long (default:\n"
                           "                      never)\n"
                           "  --show              prints everything that would leave, in words, before it\n"
                           "                      does, and asks; with --once the answer to the first turn\n"
                           "                      is printed, and not sent\n"
                           "  --yes               with --show: prints, and does not ask\n"
                           "  --once              ends after the first turn\n"
                           "  --digest            tells the server a digest of the samples, so that it\n"
                           "                      notices if they are others than before\n"
                           "  --changed-data      goes on with other samples, or terms, than the run was\n"
                           "                      begun with; without it they are refused\n"
                           "  --proxy URL         goes through a proxy; the environment's are not used\n"
                           "  --set KEY=VALUE     sets a key as in CLIENT.yaml: data.label=species\n"
                           "  --quiet             prints only warnings and errors\n"
                           "\n"
                           "Each of these keys may be in CLIENT.yaml instead: url, certs, name,\n"
                           "insecure_http, keep, patience, digest, proxy, limits. Where samples are is in\n"
                           "its `data` section, as in any configuration (`fedloom list data`). Nothing is\n"
                           "written to a disk but the folder `keep`:\n"
                           "\n"
                           "  url: https://federation.example:8443\n"
                           "  certs: certs/alice\n"
                           "  keep: /var/lib/fedloom/alice\n"
                           "  data: {kind: csv, train: patients.csv, label: outcome}\n"
                           "  limits:\n"
                           "    steps: 1000                   # local steps per ask\n"
                           "    samples: 100000               # samples passed over per ask\n"
                           "    seconds: 60                   # per ask\n"
                           "    bytes: 64MiB                  # of an ask\n"
                           "    memory: 2GiB                  # for model, method and solver\n"
                           "    methods: [fedavg, scaffold]   # takes part in these alone\n"
                           "    models: [softmax, mlp]        # trains these alone\n"
                           "\n"
                           "Without limits: 1,000,000 steps per ask, and bytes as many as the method and the\n"
                           "model need; everything else is free. An ask beyond a limit is refused, with the\n"
                           "reason, and said here. On a terminal progress is printed for people, elsewhere\n"
                           "as lines of key=value, on stderr.\n"
                           "\n"
                           "examples:\n"
                           "  fedloom join https://host:8443 --data mine.npz --certs certs/alice\n"
                           "  fedloom join https://host:8443 alice.yaml --limit steps=500 --limit seconds=30\n"
                           "  fedloom join https://host:8443 alice.yaml --show --once\n"
                           "  fedloom join http://127.0.0.1:8080 --data a.csv --name a --insecure-http\n"
                           "\n"
                           "exit codes: 0 the run is over, or SIGTERM; 1 it failed, or the server will not\n"
                           "have this client; 2 wrong usage or configuration; 130 interrupted\n";

const command cmd_join = {"join", "takes part in a federation with one's own samples", help, run,
                          .takes = {TAKES_ANY, TAKES_FILE}};
