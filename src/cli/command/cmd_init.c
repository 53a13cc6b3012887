/* fedloom init: writes an experiment from the answers to five questions, or from flags. Each answer is tried before the
 * next question. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ==== the experiment ============================================================================================== */

/* The answers, the file made of them, and whether it fits the data. */

enum { DRAFT_NAME = 64, DRAFT_TEXT = 2048 };

typedef struct {
    char data[DRAFT_TEXT];      /* the text in the braces of `data: {...}` */
    int by_name;                /* data from files, not generated */
    char partition[DRAFT_NAME]; /* its kind */
    size_t clients;             /* 0: the data decide */
    char model[DRAFT_NAME];
    char methods[DRAFT_TEXT]; /* with commas */
    size_t rounds;
    char device[DRAFT_NAME];
    /* read from the data: */
    size_t samples, classes; /* classes 0: regression */
    int images, standard, held_back;
    int everyone; /* all clients take part in every round */
} experiment_draft;

enum { FEW = 10 }; /* up to this number all clients take part; of more clients, a fifth */

static void draft_init(experiment_draft *d)
{
    *d = (experiment_draft){.data = "kind: digits",
                            .partition = "iid",
                            .clients = 2,
                            .model = "softmax",
                            .methods = "fedavg",
                            .rounds = 50,
                            .device = "cpu"};
}

/* Name i of the methods; 0 past the last. */
static int draft_method(const experiment_draft *d, size_t i, char name[DRAFT_NAME])
{
    const char *at = d->methods;
    for (; *at && i; i--) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    snprintf(name, DRAFT_NAME, "%.*s", (int)strcspn(at, ","), at);
    return *at != 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static void write_data(const experiment_draft *d, FILE *f)
{
    fputs("\n# Where samples come from (`fedloom list data`).", f);
    if (d->standard) fputs(" standard: every feature gets mean 0 and deviation 1.", f);
    if (d->held_back) fputs("\n# Of each client's samples a fifth is kept for testing.", f);
    fprintf(f, "\ndata: {%s%s%s}\n", d->data, d->standard ? ", normalize: standard" : "",
            d->held_back ? ", test_fraction: 0.2" : "");
}

static void write_clients(const experiment_draft *d, FILE *f)
{
    fputs("\n# Who holds which of them (`fedloom list partitions`).\n", f);
    fprintf(f, "partition: {kind: %s", d->partition);
    if (d->clients) fprintf(f, ", clients: %zu", d->clients);
    fputs("}\n\n# Who takes part in a round (`fedloom list participations`).\n", f);
    if (d->everyone || !d->clients || d->clients <= FEW)
        fputs("participation: everyone\n", f);
    else
        fprintf(f, "participation: {kind: uniform, count: %zu}\n", (d->clients + 4) / 5);
}

static void write_work(const experiment_draft *d, FILE *f)
{
    fprintf(
        f,
        "\n# What is trained (`fedloom list models`).\n"
        "model: %s\n"
        "\n"
        "# What a client does in its turn: passes over its samples, samples per step, step size. `fedloom tune FILE`\n"
        "# finds the step size for each method, `fedloom check FILE` says which one theory asks for.\n"
        "local: {epochs: 1, batch: 20, lr: %s}\n",
        d->model, d->classes ? "0.05" : "0.01"); /* squared errors are steeper */
    fprintf(f,
            "\n# How long, where (`fedloom list devices`), and how often it is measured.\n"
            "rounds: %zu\n"
            "device: %s\n"
            "metrics: {every: %zu}\n",
            d->rounds, d->device, d->rounds > 50 ? d->rounds / 50 : 1);
}

static void write_methods(const experiment_draft *d, FILE *f)
{
    char name[DRAFT_NAME];
    fputs(
        "\n# What is compared (`fedloom list algorithms`). A method may have keys of its own, and other keys than the\n"
        "# common ones above: - {label: slow, algorithm: {kind: fedprox, mu: 0.1}, local: {lr: 0.01}}\n"
        "methods:\n",
        f);
    for (size_t i = 0; draft_method(d, i, name); i++) fprintf(f, "  - {label: %s, algorithm: %s}\n", name, name);
    fputs("\n# Each of them with these many seeds: the table has means and deviations.\n"
          "seeds: 3\n",
          f);
}

/* Writes the file: commented, with all methods or, with `method`, for one run of it. */
static void draft_write(const experiment_draft *d, const char *method, FILE *f)
{
    if (!method)
        fputs("# An experiment, written by `fedloom init`; everything may be changed. `fedloom list` shows what\n"
              "# there is to choose from, `fedloom list settings` the keys that do not depend on a choice.\n"
              "#     fedloom check FILE      which theorems apply\n"
              "#     fedloom compare FILE    runs it: a table, and a report to open in a browser\n",
              f);
    write_data(d, f);
    write_clients(d, f);
    write_work(d, f);
    if (method)
        fprintf(f, "algorithm: %s\n", method);
    else
        write_methods(d, f);
}

/* ---- whether it fits -------------------------------------------------------------------------------------------- */

static const char origin[] = "the answer";

/* Prints the error's sentences without their places, because the user never sees that file. */
static void say_why(const fl_ctx *ctx)
{
    const char *line = fl_ctx_error(ctx);
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        size_t place = strncmp(line, origin, sizeof origin - 1) ? 0 : sizeof origin - 1;
        while (place && place < n && strchr(":0123456789 ", line[place])) place++;
        say("%.*s", (int)(n - place), line + place);
    }
}

static fl_config *config_of(fl_ctx *ctx, const experiment_draft *d, const char *method)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fl_config *cfg = fl_config_new(ctx);
    if (f) draft_write(d, method, f);
    int bad = !f || fclose(f) || !cfg || fl_config_text(cfg, text, origin);
    free(text);
    if (!bad) return cfg;
    say_why(ctx);
    fl_config_free(cfg);
    return NULL;
}

static json_int_t number(const json_t *of, const char *key) { return json_integer_value(json_object_get(of, key)); }

/* Reads the properties that suitable settings depend on from the description of the data. */
static void learn(experiment_draft *d, const json_t *about)
{
    const json_t *data = json_object_get(about, "data");
    const json_t *first = json_array_get(json_object_get(about, "clients"), 0);
    const char *stored = json_string_value(json_object_get(data, "stored"));
    d->samples = (size_t)number(data, "train_samples");
    d->classes = (size_t)number(data, "classes");
    d->images = json_object_get(data, "shape") != NULL;
    d->standard = d->by_name && stored && (!strcmp(stored, "f32") || !strcmp(stored, "f64"));
    d->held_back = !number(data, "test_samples") && !number(first, "test");
}

/* Loads the data and the partition, and learns their properties. Prints errors. */
static int draft_look(fl_ctx *ctx, experiment_draft *d)
{
    json_t *about = NULL;
    d->standard = d->held_back = 0;
    fl_config *cfg = config_of(ctx, d, "fedavg");
    if (!cfg) return CLI_USAGE;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    fl_status s = fl_data_describe(cfg, NULL, 1, NULL, json_take, &about);
    if (s)
        say_why(ctx);
    else
        learn(d, about);
    json_decref(about);
    fl_config_free(cfg);
    return s ? CLI_USAGE : CLI_OK;
}

/* Whether a run of the method can be made from the draft. With `tell`: prints errors. */
static int draft_fits(fl_ctx *ctx, const experiment_draft *d, const char *method, int tell)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(ctx, d, method);
    fl_status s = cfg ? fl_run_new(cfg, &run) : FL_OK;
    if (s && tell) say_why(ctx);
    fl_run_free(run);
    fl_config_free(cfg);
    return s || !cfg ? CLI_USAGE : CLI_OK;
}

/* ==== answers ===================================================================================================== */

/* Each is compared with what exists, and tried. */

enum { ANSWER_LEN = DRAFT_TEXT };

/* ---- words ---------------------------------------------------------------------------------------- */

/* fl_name_fn over a section of the configuration. */
static const char *kind_at(const void *section, size_t i) { return fl_kind_at(section, i); }

static int is_known(const char *section, const char *name)
{
    char meant[MEANT_LEN];
    const char *known;
    for (size_t i = 0; (known = fl_kind_at(section, i)); i++)
        if (!strcmp(known, name)) return 1;
    say("there is no %s called %s%s `fedloom list %s` shows what there is", section, name,
        *args_meant(fl_nearest(name, kind_at, section), meant) ? meant : ";", section);
    return 0;
}

/* Splits off the first word; 0: none. */
static int next_word(const char **rest, char *word, size_t size)
{
    *rest += strspn(*rest, " \t");
    size_t n = strcspn(*rest, " \t");
    snprintf(word, size, "%.*s", (int)n, *rest);
    *rest += n;
    return n > 0;
}

/* The same, but if the rest is the name of a file or folder, which may have blanks, it is one word. */
static int next_path(const char **rest, char *word, size_t size)
{
    struct stat st;
    *rest += strspn(*rest, " \t");
    size_t n = strlen(*rest);
    if (n >= size || stat(*rest, &st)) return next_word(rest, word, size);
    snprintf(word, size, "%s", *rest);
    *rest += n;
    return 1;
}

/* A whole number >= 1; 0: not one. */
static size_t count_of(const char *word)
{
    char *end;
    unsigned long long v = strtoull(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && v <= 1000000000 ? (size_t)v : 0;
}

/* ---- data ------------------------------------------------------------------------------------------------------ */

/* Adds ", KEY: 'VALUE'" to the braces; 0: no room, or a value that single quotes of YAML cannot hold. */
static int add_key(experiment_draft *d, const char *key, const char *value)
{
    size_t n = strlen(d->data), room = sizeof d->data - n;
    if (strlen(value) * 2 + strlen(key) + 8 > room || strpbrk(value, "\n\r\t")) return 0;
    n += (size_t)snprintf(d->data + n, room, ", %s: '", key);
    for (; *value; value++) {
        if (*value == '\'') d->data[n++] = '\'';
        d->data[n++] = *value;
    }
    snprintf(d->data + n, sizeof d->data - n, "'");
    return 1;
}

/* Key number i of a kind that names its files: required ones, or the folder. NULL past the last. */
static const char *place_key(const json_t *kind, size_t i)
{
    json_t *key;
    size_t k, required = 0, n = 0;
    const char *folder = NULL, *found = NULL;
    json_array_foreach(json_object_get(kind, "keys"), k, key)
    {
        const char *name = json_string_value(json_object_get(key, "name"));
        int must = json_is_null(json_object_get(key, "default"));
        required += must;
        if (must && n++ == i) found = name;
        if (!strcmp(name, "dir")) folder = name;
    }
    return required || i ? found : folder;
}

/* "KIND", "KIND PATH" or "KIND PATH PATH". */
static int take_kind(fl_ctx *ctx, experiment_draft *d, const char *kind, const char *rest)
{
    json_t *about = NULL;
    char path[ANSWER_LEN];
    const char *key;
    size_t n = 0;
    int fits = 1;
    if (!is_known("data", kind)) return CLI_USAGE;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    if (fl_list(ctx, "data", kind, json_take, &about)) return say_error(ctx), CLI_FAILED;
    snprintf(d->data, sizeof d->data, "kind: %s", kind);
    while (fits && next_path(&rest, path, sizeof path)) fits = (key = place_key(about, n++)) && add_key(d, key, path);
    key = place_key(about, n);
    int missing = fits && key && strcmp(key, "dir") != 0;
    if (missing) say("data %s needs %s: `%s PATH`", kind, key, kind);
    if (!fits) say("data %s does not take %s", kind, path);
    json_decref(about);
    d->by_name = n > 0;
    return missing || !fits ? CLI_USAGE : CLI_OK;
}

static int is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* "mine.csv": a file, by its ending; "digits", "idx FOLDER": a kind, and its place. */
static int answer_data(fl_ctx *ctx, experiment_draft *d, const char *answer)
{
    char word[ANSWER_LEN];
    const char *rest = answer;
    next_path(&rest, word, sizeof word);
    const data_format *f = data_format_of(word);
    int code = f ? take_kind(ctx, d, f->kind, answer) : CLI_OK;
    if (!f && is_folder(word)) {
        say("%s is a folder: say what is in it, as in `idx %s` or `image_folder %s`", word, word, word);
        return CLI_USAGE;
    }
    if (!f && strpbrk(word, "/.")) {
        say("%s: the ending of its name does not say what it is (%s); `KIND %s` does", word, data_endings, word);
        return CLI_USAGE;
    }
    if (!f) code = take_kind(ctx, d, word, rest);
    if (!code && f && f->also_key && !add_key(d, f->also_key, f->also_is)) code = CLI_USAGE;
    return code ? code : draft_look(ctx, d);
}

/* ---- the other four --------------------------------------------------------------------------------------------- */

/* "iid 10", "natural". */
static int answer_split(fl_ctx *ctx, experiment_draft *d, const char *answer)
{
    const char *rest = answer;
    char kind[DRAFT_NAME], count[DRAFT_NAME];
    next_word(&rest, kind, sizeof kind);
    if (!is_known("partition", kind)) return CLI_USAGE;
    int given = next_word(&rest, count, sizeof count);
    size_t clients = given ? count_of(count) : 0;
    if (given && !clients) {
        say("%s is not a number of clients: `%s 20`, say", count, kind);
        return CLI_USAGE;
    }
    snprintf(d->partition, sizeof d->partition, "%s", kind);
    d->clients = clients;
    return draft_look(ctx, d);
}

/* "mlp". */
static int answer_model(fl_ctx *ctx, experiment_draft *d, const char *answer)
{
    if (!is_known("model", answer)) return CLI_USAGE;
    snprintf(d->model, sizeof d->model, "%s", answer);
    return draft_fits(ctx, d, "fedavg", 1);
}

static void remove_blanks(const char *from, char *to, size_t size)
{
    size_t n = 0;
    for (; *from && n + 1 < size; from++)
        if (*from != ' ' && *from != '\t') to[n++] = *from;
    to[n] = 0;
}

/* Whether runs of all methods can be made. */
static int all_fit(fl_ctx *ctx, const experiment_draft *d, int tell)
{
    char name[DRAFT_NAME];
    for (size_t i = 0; draft_method(d, i, name); i++)
        if (draft_fits(ctx, d, name, tell)) return 0;
    return 1;
}

/* Whether method i is known and not a repetition. */
static int is_another(const experiment_draft *d, size_t i, const char *name)
{
    char before[DRAFT_NAME];
    if (!is_known("algorithm", name)) return 0;
    for (size_t k = 0; k < i && draft_method(d, k, before); k++)
        if (!strcmp(before, name)) return say("%s is named twice: once is enough", name), 0;
    return 1;
}

/* "fedavg, scaffold". Some methods need all clients in every round; then all methods are compared that way. */
static int answer_methods(fl_ctx *ctx, experiment_draft *d, const char *answer)
{
    char name[DRAFT_NAME];
    remove_blanks(answer, d->methods, sizeof d->methods);
    if (!*d->methods) return say("no method is named: `fedavg,scaffold`, say"), CLI_USAGE;
    for (size_t i = 0; draft_method(d, i, name); i++)
        if (!is_another(d, i, name)) return CLI_USAGE;
    for (d->everyone = 0; d->everyone < 2; d->everyone++)
        if (all_fit(ctx, d, d->everyone)) return CLI_OK;
    return CLI_USAGE;
}

/* "50 cpu". */
static int answer_length(fl_ctx *ctx, experiment_draft *d, const char *answer)
{
    const char *rest = answer;
    char count[DRAFT_NAME], device[DRAFT_NAME];
    next_word(&rest, count, sizeof count);
    if (!(d->rounds = count_of(count))) {
        say("%s is not a number of rounds: `50 cpu`, say", count);
        return CLI_USAGE;
    }
    snprintf(d->device, sizeof d->device, "%s", next_word(&rest, device, sizeof device) ? device : "cpu");
    return all_fit(ctx, d, 1) ? CLI_OK : CLI_USAGE;
}

/* ==== the command ================================================================================================= */

typedef struct {
    words files;
    const char *data, *partition, *model, *methods, *device;
    size_t clients, rounds; /* 0: no flag */
    int force;
    fl_ctx *ctx;
    experiment_draft draft;
} request;

/* ---- five questions --------------------------------------------------------------------------------------------- */

/* Suggestions that fit the answers so far. */
static void suggest_data(const request *r, char *out) { snprintf(out, ANSWER_LEN, "%s", r->data ? r->data : "digits"); }

/* By default labels are uneven, as in real federations; a regression has no labels. */
static void suggest_split(const request *r, char *out)
{
    enum { MOST = 20, SAMPLES_EACH = 30 };
    size_t room = r->draft.samples / SAMPLES_EACH, clients = room < 2 ? 2 : room < MOST ? room : MOST;
    const char *kind = r->partition ? r->partition : r->draft.classes ? "dirichlet" : "iid";
    if (!strcmp(kind, "natural") && !r->clients)
        snprintf(out, ANSWER_LEN, "%s", kind);
    else
        snprintf(out, ANSWER_LEN, "%s %zu", kind, r->clients ? r->clients : clients);
}

static void suggest_model(const request *r, char *out)
{
    const char *suits = !r->draft.classes ? "least_squares" : r->draft.images ? "mlp" : "softmax";
    snprintf(out, ANSWER_LEN, "%s", r->model ? r->model : suits);
}

static void suggest_methods(const request *r, char *out)
{
    snprintf(out, ANSWER_LEN, "%s", r->methods ? r->methods : "fedavg,fedprox,scaffold");
}

static void suggest_length(const request *r, char *out)
{
    snprintf(out, ANSWER_LEN, "%zu %s", r->rounds ? r->rounds : 50, r->device ? r->device : "cpu");
}

static int gave_data(const request *r) { return r->data != NULL; }
static int gave_split(const request *r) { return r->partition || r->clients; }
static int gave_model(const request *r) { return r->model != NULL; }
static int gave_methods(const request *r) { return r->methods != NULL; }
static int gave_length(const request *r) { return r->rounds || r->device; }

/* Takes an answer that fits the earlier ones. Prints errors; returns CLI_OK or another exit code. */
typedef int answer_fn(fl_ctx *ctx, experiment_draft *d, const char *answer);

typedef struct {
    const char *text;
    int (*given)(const request *r); /* given by flags: not asked */
    void (*suggest)(const request *r, char *out);
    answer_fn *take;
} question;

static const question questions[] = {
    {"1. Which data? A file (.csv, .npz, .svm, ...), `image_folder FOLDER` and the\n"
     "   like, or made up: digits, blobs, synthetic, linreg",
     gave_data, suggest_data, answer_data},
    {"2. How are they split, over how many clients?\n"
     "   iid 10, dirichlet 20, shards 100, natural, ...",
     gave_split, suggest_split, answer_split},
    {"3. Which model? softmax, logistic, mlp, cnn, least_squares, ...", gave_model, suggest_model, answer_model},
    {"4. Which methods, with commas? fedavg, fedprox, scaffold, feddyn, ...", gave_methods, suggest_methods,
     answer_methods},
    {"5. How many rounds, computed where? 50 cpu, 200 cuda, ...", gave_length, suggest_length, answer_length},
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

/* Reads a line without the blanks around it; 0: end of the input. */
static int read_line(char *out)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, stdin);
    char *from = n < 0 ? line : line + strspn(line, " \t\r\n");
    while (n > 0 && strchr(" \t\r\n", line[n - 1])) line[--n] = 0;
    if (n >= 0) snprintf(out, ANSWER_LEN, "%s", from);
    free(line);
    return n >= 0;
}

/* Asks until an answer fits. An empty line means the suggestion in brackets. */
static int ask(request *r, const question *q)
{
    char wanted[ANSWER_LEN], answer[ANSWER_LEN];
    q->suggest(r, wanted);
    printf("%s%s%s\n", tone_on(stdout, TONE_HEAD), q->text, tone_off(stdout));
    for (;;) {
        printf("   [%s] ", wanted);
        fflush(stdout);
        if (!read_line(answer)) {
            putchar('\n');
            say("there is no answer, so nothing was written");
            return CLI_FAILED;
        }
        if (!q->take(r->ctx, &r->draft, *answer ? answer : wanted)) return CLI_OK;
    }
}

static int answer_all(request *r)
{
    char wanted[ANSWER_LEN];
    int code = CLI_OK, person = isatty(STDIN_FILENO), asked = 0;
    draft_init(&r->draft);
    for (const question *q = questions; !code && q < questions + QUESTIONS; q++) {
        q->suggest(r, wanted);
        if (q->given(r) || !person)
            code = q->take(r->ctx, &r->draft, wanted);
        else {
            if (!asked++) puts("Enter takes what stands in brackets.\n");
            code = ask(r, q);
        }
    }
    return code;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static int is_there(const char *file)
{
    if (access(file, F_OK)) return CLI_OK;
    say("%s: exists already; --force replaces it, another FILE keeps it", file);
    return CLI_FAILED;
}

/* Opens a temporary file beside `file`, with the mode of a new file; writes its name to `beside`. */
static FILE *open_beside(const char *file, char *beside, size_t size)
{
    if ((size_t)snprintf(beside, size, "%s.XXXXXX", file) >= size) return errno = ENAMETOOLONG, NULL;
    int fd = mkstemp(beside);
    mode_t mask = umask(0);
    umask(mask);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f && !fchmod(fd, 0666 & ~mask)) return f;
    int why = errno;
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (fd >= 0) unlink(beside);
    errno = why;
    return NULL;
}

/* Renames a file unless the new name exists. Some file systems support only one of the two ways. */
static int rename_new(const char *from, const char *to)
{
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return 0;
    return errno == EINVAL || errno == ENOSYS ? link(from, to) : -1;
}

/* Replaces a file completely, or leaves it unchanged. 0: done, else errno. */
static int put_whole(const request *r, const char *file)
{
    char beside[PATH_MAX];
    FILE *f = open_beside(file, beside, sizeof beside);
    if (!f) return errno;
    draft_write(&r->draft, NULL, f);
    int why = fflush(f) || fsync(fileno(f)) ? errno : 0;
    if (fclose(f) && !why) why = errno;
    /* without --force: the file may have been created in the meantime */
    if (!why && (r->force ? rename(beside, file) : rename_new(beside, file))) why = errno;
    unlink(beside); /* after a failure, or after link() */
    return why;
}

/* Writes into a target that is not a plain file, such as a pipe or a symbolic link. 0: done, else errno. */
static int put_through(const request *r, const char *file)
{
    FILE *f = fopen(file, "w");
    if (!f) return errno;
    draft_write(&r->draft, NULL, f);
    int why = fflush(f) ? errno : 0;
    return fclose(f) && !why ? errno : why;
}

static int write_file(const request *r, const char *file)
{
    struct stat st;
    int why = r->force && !lstat(file, &st) && !S_ISREG(st.st_mode) ? put_through(r, file) : put_whole(r, file);
    if (why) {
        say("%s: cannot be written: %s", file, strerror(why));
        return CLI_FAILED;
    }
    say_path("wrote ", file);
    say_path("  who holds what:           fedloom data ", file);
    say_path("  which theorems apply:     fedloom check ", file);
    say_path("  a table, and a report:    fedloom compare ", file);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    request r = {0};
    const option options[] = {
        {"--data", OPT_TEXT, &r.data, TAKES_SOURCE},
        {"--partition", OPT_TEXT, &r.partition, TAKES_PARTITION},
        {"--clients", OPT_COUNT, &r.clients},
        {"--model", OPT_TEXT, &r.model, TAKES_MODEL},
        {"--methods", OPT_TEXT, &r.methods, TAKES_METHODS},
        {"--rounds", OPT_COUNT, &r.rounds},
        {"--device", OPT_TEXT, &r.device, TAKES_DEVICE},
        {"--force", OPT_FLAG, &r.force},
        {0},
    };
    int code = args_parse("init", options, argc, argv, &r.files);
    if (!code && r.files.n > 1) code = say_usage("init", "one FILE at a time");
    const char *file = r.files.n ? r.files.v[0] : "federation.yaml";
    if (!code && !r.force) code = is_there(file);
    if (!code && !(r.ctx = fl_ctx_new())) code = (say("out of memory"), CLI_FAILED);
    if (!code) code = answer_all(&r);
    if (!code) code = write_file(&r, file);
    fl_ctx_free(r.ctx);
    args_free(&r.files);
    return code;
}

static const char help[] = "usage: fedloom init [FILE] [--data DATA] [--partition KIND] [--clients N]\n"
                           "                    [--model MODEL] [--methods A,B,...] [--rounds N]\n"
                           "                    [--device NAME] [--force]\n"
                           "\n"
                           "Writes an experiment for `fedloom check` and `fedloom compare`, with comments,\n"
                           "to begin with: FILE, or federation.yaml. On a terminal it asks five questions:\n"
                           "which data, how they are split over how many clients, which model, which\n"
                           "methods, how many rounds and where. Each answer is tried before the next\n"
                           "question. What options say is not asked; elsewhere than on a terminal nothing\n"
                           "is, and what options do not say is chosen to suit the data.\n"
                           "\n"
                           "DATA is a file whose ending says what it is (.csv, .tsv, .npz, .svm, .libsvm,\n"
                           ".json of LEAF), a kind and where its files are ('idx FOLDER', 'image_folder\n"
                           "FOLDER' with a folder of PNG or JPEG images per class, 'npy X.npy Y.npy'), or\n"
                           "a kind that is made up: digits, blobs, synthetic, linreg. A table of values to\n"
                           "predict is refused, not taken for classes; the sentence says which keys take it.\n"
                           "\n"
                           "options:\n"
                           "  --data DATA        where samples come from (default: digits)\n"
                           "  --partition KIND   who holds which samples (`fedloom list partitions`;\n"
                           "                     default: dirichlet, and iid where there are no classes)\n"
                           "  --clients N        how many clients (default: 20, fewer of few samples)\n"
                           "  --model MODEL      what is trained (default: mlp for images, softmax for other\n"
                           "                     classes, least_squares for regression)\n"
                           "  --methods A,B,...  what is compared (default: fedavg,fedprox,scaffold)\n"
                           "  --rounds N         how long (default: 50)\n"
                           "  --device NAME      where it is computed (`fedloom list devices`; default: cpu)\n"
                           "  --force            replaces FILE\n"
                           "\n"
                           "examples:\n"
                           "  fedloom init\n"
                           "  fedloom init mine.yaml --data mine.csv --partition iid --clients 5\n"
                           "  fedloom init digits.yaml --methods fedavg,feddyn --rounds 100\n"
                           "\n"
                           "exit codes: 0 success, 1 it could not be written, or there was no answer, 2\n"
                           "wrong usage, or the answers do not go together\n";

const command cmd_init = {"init",      "asks five questions and writes an experiment to begin with",
                          help,        run,
                          RANKS_FIRST, {TAKES_FILE, TAKES_ANY}};
