/* The shared library as a plugin: loaded by a thread, with no symbol visible to others, used, and unloaded. Three
 * times, so that what one life leaves behind meets the next.
 *
 *     load PATH-OF-LIBFEDLOOM.SO [LIBRARY]...          the further libraries are loaded before, for all to see */
#include <dlfcn.h>
#include <fedloom.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(fl_ctx_new)                                                                                                      \
    X(fl_ctx_free)                                                                                                     \
    X(fl_ctx_error)                                                                                                    \
    X(fl_config_new)                                                                                                   \
    X(fl_config_free)                                                                                                  \
    X(fl_config_set)                                                                                                   \
    X(fl_run_new)                                                                                                      \
    X(fl_run_free)                                                                                                     \
    X(fl_run_go)                                                                                                       \
    X(fl_run_row)                                                                                                      \
    X(fl_row_get)

typedef struct {
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
} api;

/* A convolution, so that oneDNN has its turn too. */
static const char *const federation[] = {
    "data={kind: digits, samples: 400, test_samples: 100}",
    "partition={kind: iid, clients: 4}",
    "model={kind: cnn, layers: \"conv 4x5, pool 4, fc 16\"}",
    "local={epochs: 1, batch: 20, lr: 0.1}",
    "algorithm=scaffold",
    "threads=2",
    "rounds=3",
};

static int find(void *library, api *a)
{
#define FIND(name)                                                                                                     \
    *(void **)&a->name = dlsym(library, #name);                                                                        \
    if (!a->name) return 0;
    FUNCTIONS(FIND)
    return 1;
}

/* The loss at the end; negative: it failed. */
static double run_one(const api *a)
{
    double loss = -1;
    fl_ctx *ctx = a->fl_ctx_new();
    fl_config *cfg = a->fl_config_new(ctx);
    fl_run *run = NULL;
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < sizeof federation / sizeof *federation; i++) s = a->fl_config_set(cfg, federation[i]);
    if (s || a->fl_run_new(cfg, &run) || a->fl_run_go(run, NULL, NULL))
        printf("%s\n", a->fl_ctx_error(ctx));
    else
        loss = a->fl_row_get(a->fl_run_row(run), "train_loss");
    a->fl_run_free(run);
    a->fl_config_free(cfg);
    a->fl_ctx_free(ctx);
    return loss;
}

static int is_mapped(const char *name)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
    if (maps) fclose(maps);
    return found;
}

typedef struct {
    const char *path;
    double loss;
} life;

static void *live(void *arg)
{
    life *l = arg;
    api a;
    void *library = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
    l->loss = -1;
    if (!library || !find(library, &a))
        printf("%s\n", dlerror());
    else
        l->loss = run_one(&a);
    if (library) dlclose(library);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { LIVES = 3 };
    life l[LIVES];
    for (int i = 2; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) return printf("%s\n", dlerror()), 1;
    for (size_t i = 0; i < LIVES; i++) {
        pthread_t thread;
        l[i].path = argv[1];
        if (pthread_create(&thread, NULL, live, &l[i]) || pthread_join(thread, NULL)) return 1;
        if (!(l[i].loss > 0) || l[i].loss != l[0].loss) return printf("loss %g, then %g\n", l[0].loss, l[i].loss), 1;
        if (is_mapped("libfedloom")) return printf("dlclose left the library in the process\n"), 1;
    }
    printf("loss %.17g\n", l[0].loss);
    return 0;
}
