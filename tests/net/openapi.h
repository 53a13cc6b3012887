/* Which statuses docs/openapi.yaml lists for a page. What a server answers must be among them. */
#ifndef TESTS_NET_OPENAPI_H
#define TESTS_NET_OPENAPI_H

#include "check.h"

#include <pthread.h>

typedef struct {
    char method[8], path[32];
    int code;
} openapi_row;

static openapi_row openapi_rows[400];
static size_t openapi_count;

/* The file has a path, a method and a status on lines of their own, told by how far they are indented: "  /v1/ask:",
 * "    get:", "        '200': ...". tests/docs/openapi.sh reads it in the same way. */
static inline void openapi_load(void)
{
    FILE *f = fopen(TEST_ROOT "/../docs/openapi.yaml", "r");
    openapi_row row = {0};
    char line[400];
    assert_non_null(f);
    while (fgets(line, sizeof line, f) && strncmp(line, "components:", 11)) {
        if (!strncmp(line, "  /", 3)) sscanf(line, " %31[^:]", row.path);
        if (!strncmp(line, "    get:", 8)) strcpy(row.method, "GET");
        if (!strncmp(line, "    post:", 9)) strcpy(row.method, "POST");
        if (strncmp(line, "        '", 9) || sscanf(line, " '%d'", &row.code) != 1) continue;
        assert_true(openapi_count < sizeof openapi_rows / sizeof *openapi_rows);
        openapi_rows[openapi_count++] = row;
    }
    fclose(f);
    assert_true(openapi_count > 50);
}

/* Pages that there are not, and methods that they do not know, belong to no page; 0: there was no answer. */
static inline void assert_listed(const char *method, const char *path, long code)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t n = strcspn(path, "?");
    pthread_once(&once, openapi_load);
    if (!code || code == 404 || code == 405) return;
    for (size_t i = 0; i < openapi_count; i++) {
        const openapi_row *r = &openapi_rows[i];
        if (r->code == code && !strcmp(r->method, method) && strlen(r->path) == n && !strncmp(r->path, path, n)) return;
    }
    fail_msg("%s %.*s answers %ld, which docs/openapi.yaml does not list", method, (int)n, path, code);
}

#endif
