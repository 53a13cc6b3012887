/* fedloom init: five questions, or flags, and an experiment that runs. */
#include "cli/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    words files;
    const char *data, *partition, *model, *methods, *device;
    size_t clients, rounds; /* 0: not given */
    int force;
    fl_ctx *ctx;
    draft draft;
} request;

/* ---- five questions --------------------------------------------------------------------------------------------- */

enum { ANSWER_LEN = DRAFT_TEXT };

/* What suits the answers so far. */
static void suggest_data(const request *r, char *out) { snprintf(out, ANSWER_LEN, "%s", r->data ? r->data : "digits"); }

/* Label skew is what federations are about; a regression has no labels. */
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

typedef struct {
    const char *text;
    int (*given)(const request *r); /* by flags: not asked */
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

/* A line without blanks around it; 0: there is none any more. */
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

/* Until an answer fits. Nothing typed means what stands in brackets. */
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
    say("%s: is there already; --force replaces it, and another FILE leaves it as it is", file);
    return CLI_FAILED;
}

/* An open file beside `file`, with the mode that a new file gets; its name is in `beside`. */
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

/* A new name for a file, unless there is a file of that name. Some file systems know one of both ways alone. */
static int rename_new(const char *from, const char *to)
{
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return 0;
    return errno == EINVAL || errno == ENOSYS ? link(from, to) : -1;
}

/* Whole, or what was there stays as it was. 0: done, else errno. */
static int put_whole(const request *r, const char *file)
{
    char beside[PATH_MAX];
    FILE *f = open_beside(file, beside, sizeof beside);
    if (!f) return errno;
    draft_write(&r->draft, NULL, f);
    int why = fflush(f) || fsync(fileno(f)) ? errno : 0;
    if (fclose(f) && !why) why = errno;
    /* without --force: it may have come in the meantime */
    if (!why && (r->force ? rename(beside, file) : rename_new(beside, file))) why = errno;
    unlink(beside); /* after a failure, or a link */
    return why;
}

/* Into what is no plain file, such as a pipe or a link to a file elsewhere. 0: done, else errno. */
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
