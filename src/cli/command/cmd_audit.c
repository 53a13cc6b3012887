/* fedloom audit: checks that a federation's audit file is unchanged since its server wrote it. */
#include "cli/cli.h"

#include "net/common/audit.h"

static int look(fl_ctx *ctx, const char *path)
{
    char sentence[4096], digest[FLI_DIGEST_TEXT];
    fli_audit_sums sums;
    if (fli_audit_look(ctx, path, &sums)) return say_error(ctx), CLI_FAILED;
    if (sums.broken) {
        fli_audit_wrong(path, &sums, sentence, sizeof sentence);
        return say("%s", sentence), CLI_FAILED;
    }
    fli_digest_print(&sums.last, digest);
    printf("%llu lines, each follows from the one before\n", (unsigned long long)sums.lines);
    if (sums.half) printf("behind them is half a line, of a server that was killed as it wrote it\n");
    if (sums.lines) printf("SHA-256 of the last line: %s\n", digest);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    words files = {0};
    const option options[] = {{0}};
    int code = args_parse("audit", options, argc, argv, &files);
    if (!code && files.n != 1) code = say_usage("audit", files.n ? "one FILE at a time" : "which FILE?");
    fl_ctx *ctx = code ? NULL : fl_ctx_new();
    if (!code && !ctx) code = (say("out of memory"), CLI_FAILED);
    if (!code) code = look(ctx, files.v[0]);
    fl_ctx_free(ctx);
    args_free(&files);
    return code;
}

static const char help[] = "usage: fedloom audit FILE\n"
                           "\n"
                           "Whether the audit file of a `fedloom serve`, OUTPUT.audit.jsonl, is as the\n"
                           "server wrote it. Every line has the SHA-256 of the line before it, so a line\n"
                           "that was changed, removed or put in is found, and the first such line is named.\n"
                           "Lines removed at the end are not found by the file alone: compare the number of\n"
                           "lines, or the last line's SHA-256, with what was printed before.\n"
                           "\n"
                           "examples:\n"
                           "  fedloom audit results/one.audit.jsonl\n"
                           "\n"
                           "exit codes: 0 all lines follow, 1 one does not or the file cannot be read,\n"
                           "2 wrong usage\n";

const command cmd_audit = {"audit", "whether the audit file of a federation is as it was written", help, run,
                           .takes = {TAKES_FILE}};
