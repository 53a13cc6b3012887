/* A partition from a JSON file: {"clients": [[0, 5, 7], [1, 2], ...]}, or one list per name, {"ann": [0, 5, 7], "bob":
 * [1, 2]}, in order of appearance. Samples in no list belong to no client. */
#include "base/file.h"
#include "base/number.h"
#include "data/partition/partition.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    char *path;
} file_params;

static const fl_key keys[] = {
    FLI_KEY_STRING(file_params, path, NULL,
                   "JSON file with the sample numbers of each client, such as `{\"clients\": [[0, 5, 7], [1, 2]]}`"),
    FLI_KEY_END,
};

/* The lists of a file in either form. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    json_t *root;
    size_t clients;
    json_t **list; /* borrowed from root */
    const char **name;
} lists;

static void lists_fini(lists *l)
{
    json_decref(l->root);
    fli_free(l->list);
    fli_free(l->name);
}

/* A client's name or number, for messages. */
static const char *client_name(const lists *l, size_t i, char *buf, size_t size)
{
    if (l->name[i])
        fli_snprintf(buf, size, "client \"%s\"", l->name[i]);
    else
        fli_snprintf(buf, size, "client %zu", i);
    return buf;
}

static fl_status find_lists(lists *l)
{
    json_t *clients = json_object_get(l->root, "clients");
    int plain = json_is_array(clients);
    if (!json_is_object(l->root))
        return fli_fail(l->ctx, FL_EFORMAT, "%s: an object such as {\"clients\": [[0, 1], [2]]} is expected", l->path);
    l->clients = plain ? json_array_size(clients) : json_object_size(l->root);
    if (plain && json_object_size(l->root) != 1)
        return fli_fail(l->ctx, FL_EFORMAT, "%s: only \"clients\" is expected, but there are %zu keys", l->path,
                        json_object_size(l->root));
    if (!l->clients) return fli_fail(l->ctx, FL_EFORMAT, "%s: there are no clients", l->path);
    l->list = fli_alloc(l->ctx, l->clients, sizeof *l->list);
    l->name = fli_alloc(l->ctx, l->clients, sizeof *l->name);
    if (!l->list || !l->name) return FL_ENOMEM;
    if (plain) {
        for (size_t i = 0; i < l->clients; i++) l->list[i] = json_array_get(clients, i);
        return FL_OK;
    }
    void *at = json_object_iter(l->root);
    for (size_t i = 0; at; i++, at = json_object_iter_next(l->root, at)) {
        l->list[i] = json_object_iter_value(at);
        l->name[i] = json_object_iter_key(at);
    }
    return FL_OK;
}

static fl_status lists_load(fl_ctx *ctx, const char *path, lists *l)
{
    json_error_t e;
    struct stat st;
    *l = (lists){.ctx = ctx, .path = path};
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return fli_fail(ctx, FL_EIO, "%s: the partition cannot be read: it is a folder, not a file", path);
    errno = 0;
    FILE *f = fli_file_open(path, O_RDONLY);
    if (!f) return fli_fail(ctx, FL_EIO, "%s: the partition cannot be read: %s", path, strerror(errno));
    locale_t before = fli_locale_enter();
    l->root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
    fli_locale_leave(before);
    fclose(f);
    if (l->root) return find_lists(l);
    return fli_fail(ctx, FL_EFORMAT, "%s:%d:%d: not JSON: %s", path, e.line, e.column, e.text);
}

static fl_status give_sample(const lists *l, size_t client, size_t k, size_t n, uint32_t *owner)
{
    char who[80], other[80];
    const json_t *v = json_array_get(l->list[client], k);
    client_name(l, client, who, sizeof who);
    if (!json_is_integer(v))
        return fli_fail(l->ctx, FL_EFORMAT, "%s: %s: entry %zu is not a whole number", l->path, who, k);
    json_int_t s = json_integer_value(v);
    if (s < 0 || (uint64_t)s >= n)
        return fli_fail(l->ctx, FL_EFORMAT, "%s: %s: there is no sample %lld, the data have 0 to %zu", l->path, who,
                        (long long)s, n - 1);
    if (owner[s] == client)
        return fli_fail(l->ctx, FL_EFORMAT, "%s: %s has sample %lld twice", l->path, who, (long long)s);
    if (owner[s] != FLI_NOBODY)
        return fli_fail(l->ctx, FL_EFORMAT, "%s: %s and %s both have sample %lld", l->path,
                        client_name(l, owner[s], other, sizeof other), who, (long long)s);
    owner[s] = (uint32_t)client;
    return FL_OK;
}

static fl_status give_all_samples(const lists *l, size_t n, uint32_t *owner)
{
    char who[80];
    for (size_t i = 0; i < l->clients; i++) {
        client_name(l, i, who, sizeof who);
        if (!json_is_array(l->list[i]))
            return fli_fail(l->ctx, FL_EFORMAT, "%s: %s is not a list of sample numbers", l->path, who);
        if (!json_array_size(l->list[i])) return fli_fail(l->ctx, FL_EFORMAT, "%s: %s has no samples", l->path, who);
        for (size_t k = 0; k < json_array_size(l->list[i]); k++) {
            fl_status s = give_sample(l, i, k, n, owner);
            if (s) return s;
        }
    }
    return FL_OK;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const file_params *p = params;
    size_t wanted = *clients;
    lists l;
    (void)seed;
    for (size_t s = 0; s < ds->n; s++) owner[s] = FLI_NOBODY;
    fl_status s = lists_load(ctx, p->path, &l);
    if (!s) s = give_all_samples(&l, ds->n, owner);
    if (s) goto done;
    if (wanted > l.clients) {
        s = fli_fail(ctx, FL_ECONFIG, "%s: %zu clients are requested, but the file has %zu", p->path, wanted,
                     l.clients);
        goto done;
    }
    *clients = wanted ? wanted : l.clients;
    for (size_t k = 0; k < ds->n; k++)
        if (owner[k] >= *clients) owner[k] = FLI_NOBODY;
    if (*clients < l.clients)
        fli_log(ctx, FL_LOG_INFO, "%s: the first %zu of %zu clients are used, the others are left out", p->path,
                *clients, l.clients);
done:
    lists_fini(&l);
    return s;
}

const fli_partitioner fli_partitioner_file = {
    .name = "file",
    .title = "a list of samples per client from a JSON file",
    .keys = keys,
    .params_size = sizeof(file_params),
    .sets_clients = 1,
    .assign = assign,
};
