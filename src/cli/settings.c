/* From a file and --set assignments to a configuration. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int settings_exit(fl_status status) { return status == FL_OK ? CLI_OK : status == FL_ECONFIG ? CLI_USAGE : CLI_FAILED; }

fl_status settings_put(fl_config *cfg, const char *key, const char *text)
{
    char *assignment = malloc(strlen(key) + 4 * strlen(text) + 4), *p = assignment; /* at worst \xNN for each byte */
    if (!assignment) return FL_ENOMEM;
    p += sprintf(p, "%s=\"", key);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            p += sprintf(p, "\\x%02X", (unsigned char)*text);
        else {
            if (*text == '"' || *text == '\\') *p++ = '\\';
            *p++ = *text;
        }
    }
    strcpy(p, "\"");
    fl_status s = fl_config_set(cfg, assignment);
    free(assignment);
    return s;
}

/* The file's name without folder and ending: what a run is called unless it says. */
static fl_status name_after(fl_config *cfg, const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file, *dot = strrchr(base, '.');
    char stem[256];
    if (*fl_config_get(cfg, "name")) return FL_OK;
    snprintf(stem, sizeof stem, "%.*s", dot && dot != base ? (int)(dot - base) : (int)strlen(base), base);
    return settings_put(cfg, "name", stem);
}

/* Hands a configuration on, or says what is wrong with it. A file that cannot be read is wrong usage, too. */
static int deliver(fl_ctx *ctx, fl_status s, fl_config *cfg, fl_config **out)
{
    if (!s) {
        *out = cfg;
        return CLI_OK;
    }
    say_error(ctx);
    fl_config_free(cfg);
    return s == FL_ENOMEM ? CLI_FAILED : CLI_USAGE;
}

/* A file that is not there may have a neighbour of a similar name. */
static void suggest(const char *file)
{
    char folder[4096], near[MEANT_LEN];
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    snprintf(folder, sizeof folder, "%.*s", (int)(base - file), file);
    if (yaml_files_near(slash ? folder : ".", base, near)) say("did you mean %s%s.yaml?", folder, near);
}

int settings_load(fl_ctx *ctx, const char *file, fl_config **out)
{
    fl_config *cfg = fl_config_new(ctx);
    int code = deliver(ctx, cfg ? fl_config_load(cfg, file) : FL_ENOMEM, cfg, out);
    if (code && access(file, F_OK) && errno == ENOENT) suggest(file);
    return code;
}

fl_status settings_finish(fl_config *cfg, const char *file, const words *sets)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < sets->n; i++) s = fl_config_set(cfg, sets->v[i]);
    return s ? s : name_after(cfg, file);
}

int settings_open(fl_ctx *ctx, const char *file, const words *sets, fl_config **out)
{
    fl_config *cfg = NULL;
    int code = settings_load(ctx, file, &cfg);
    return code ? code : deliver(ctx, settings_finish(cfg, file, sets), cfg, out);
}
