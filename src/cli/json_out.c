#include "cli/json_out.h"

#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int json_out(json_t *document)
{
    char *text = document ? json_dumps(document, JSON_INDENT(2)) : NULL;
    json_decref(document);
    if (!text) {
        say("out of memory");
        return CLI_FAILED;
    }
    say_out(NULL, text);
    putchar('\n');
    free(text);
    return CLI_OK;
}

json_t *json_out_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

json_t *json_out_text(const char *s)
{
    char *copy = strdup(s);
    json_t *text = copy ? json_string(say_clean(copy)) : NULL;
    free(copy);
    return text;
}

void json_take(void *document, const char *text) { *(json_t **)document = json_loads(text, 0, NULL); }
