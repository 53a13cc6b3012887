/* Makes a plan, in this order: binds the settings, loads the data, resolves descriptors and parts, checks the rules,
 * and finally compares the memory that a run needs with what there is. settle.c decides what settings leave open. */
#include "plan/plan.h"

#include "algo/user_method.h"
#include "base/file.h"
#include "base/number.h"
#include "base/os.h"
#include "config/settings.h"
#include "engine/engine.h"
#include "format/yaml.h"
#include "metric/measure.h"
#include "metric/metric.h"
#include "model_file/model_file.h"
#include "plan/client_setup.h"
#include "remote/remote_queue.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

fl_status fli_plan_digest(fl_ctx *ctx, const fli_settings *s, const fli_digest *samples, fli_digest *out)
{
    const fli_participation_desc *who = s->sampler.item.desc;
    const fli_system_desc *devices = s->devices.item.desc;
    const char *const files[] = {who->file ? who->file(s->sampler.params) : NULL,
                                 devices->file ? devices->file(s->devices.params) : NULL,
                                 *s->model.start ? s->model.start : NULL};
    *out = *samples;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fli_digest part;
        fli_hash h;
        uint64_t bytes;
        struct stat st;
        if (!files[i] || (!stat(files[i], &st) && !S_ISREG(st.st_mode))) continue; /* a pipe can be read only once */
        fl_status status = fli_digest_file(ctx, files[i], &part, &bytes);
        if (status) return status;
        fli_hash_init(&h);
        fli_hash_bytes(&h, out->byte, sizeof out->byte);
        fli_hash_count(&h, i);
        fli_hash_bytes(&h, part.byte, sizeof part.byte);
        *out = fli_hash_end(&h);
    }
    return FL_OK;
}

/* Reports a mistake in the configuration of data in memory, at its key. */
static fl_status refuse(const fl_config *cfg, const char *key, const char *sentence)
{
    char where[512];
    const fli_node *at = fli_yaml_get(cfg->root, key);
    return fli_fail(cfg->ctx, FL_ECONFIG, "%s%s", fli_node_where(at, where, sizeof where), sentence);
}

/* The program's data decide; settings may repeat what they say, but not contradict it. */
static fl_status check_holding(const fl_config *cfg, const fli_settings *s, const fl_holding *who)
{
    const char *least = fl_config_get(cfg, "partition.min_size");
    if (who->weight && s->top.weights != FLI_WEIGHTS_AUTO)
        return refuse(cfg, "weights", "the data come with the clients' weights, so `weights` must be auto");
    if (!who->start && !who->owner) return FL_OK;
    if (strcmp(s->partitioner.item.name, "natural") || (*least && strcmp(least, "1")))
        return refuse(cfg, "partition",
                      "it is known who holds which samples: partition.kind can only be natural, with its default "
                      "min_size");
    if (s->partition.clients && (size_t)s->partition.clients != who->clients)
        return refuse(cfg, "partition.clients",
                      "it is known who holds which samples: leave partition.clients out, or set it to that many");
    return FL_OK;
}

/* For methods that weigh clients equally. */
static fl_status check_equal_weights(const fli_plan *p)
{
    const fli_fed *f = p->fed;
    if (!f->weight || !(p->setup.algo->traits & FL_METHOD_UNIFORM)) return FL_OK;
    for (size_t i = 1; i < f->clients; i++)
        if (f->weight[i] != f->weight[0])
            return fli_fail(p->ctx, FL_ECONFIG,
                            "algorithm %s weighs all clients equally, but the data come with other weights",
                            p->setup.algo->name);
    return FL_OK;
}

double fli_plan_weight(const fli_plan *p, size_t client)
{
    if (p->fed->weight) return p->fed->weight[client];
    if (p->setup.uniform) return 1 / (double)p->fed->clients;
    return (double)fli_fed_size(p->fed, client) / (double)p->fed->samples;
}

fl_status fli_plan_data(fl_config *cfg, const fli_plan *like, fli_plan *p)
{
    memset(p, 0, sizeof *p);
    p->ctx = cfg->ctx;
    fli_timed_ranks_init(&p->timed_ranks, &cfg->ranks, &p->ranks);
    fli_arena_init(&p->arena, cfg->ctx);
    fl_status s = fli_config_hold(cfg, &p->bound);
    if (s) return s;
    p->settings = &p->bound->settings;
    const fli_memory *m =
        cfg->memory.train.size && !strcmp(p->settings->source.item.name, "memory") ? &cfg->memory : NULL;
    if (m) s = check_holding(cfg, p->settings, &m->who);
    if (s) return s;
    p->setup.algo = p->settings->algorithm.item.desc;
    p->setup.params = p->settings->algorithm.params;
    p->setup.uniform = p->settings->top.weights == FLI_WEIGHTS_UNIFORM || p->setup.algo->traits & FL_METHOD_UNIFORM;
    if (like) {
        p->fed = like->fed;
        p->samples = like->samples;
        p->setup.remote_queue = like->setup.remote_queue;
        p->borrowed = 1;
        p->runs = like->runs;
        return FL_OK;
    }
    fli_fed_spec spec = fli_settings_fed(p->settings, m);
    spec.map = fli_ranked(&p->ranks);
    fli_ctx_stoppable(p->ctx, 1);
    s = fli_fed_new(p->ctx, &spec, &p->fed);
    fli_ctx_stoppable(p->ctx, 0);
    return s ? s : fli_digest_fed(p->ctx, p->fed, &p->samples);
}

/* ---- decisions by settings and data ------------------------------------------------------------------------ */

static fl_status make_model(fli_plan *p)
{
    const fli_settings *s = p->settings;
    const fli_dataset *train = p->fed->train;
    const size_t row[3] = {1, 1, p->fed->dim};
    fl_status status = fli_objective_new(p->ctx, s, train ? train->shape : row, p->fed->classes,
                                         train && fli_dataset_sparse(train), &p->model);
    if (status) return status;
    p->setup.solvers = fli_algo_solvers(p->setup.algo, s->algorithm.params, p->model, fli_settings_solver(s));
    return FL_OK;
}

static fl_status make_system(fli_plan *p)
{
    const fli_settings *s = p->settings;
    if (!strcmp(s->devices.item.name, "none")) return FL_OK;
    return fli_system_new(p->ctx, s->devices.item.desc, s->devices.params, &s->system, p->fed, (uint64_t)s->top.seed,
                          &p->system);
}

/* The pace of an asynchronous method. */
static void resolve_pace(fli_plan *p)
{
    if (!fli_algo_is_async(p->setup.algo)) return;
    p->pace = fli_algo_pace(p->setup.algo, p->settings->algorithm.params);
    p->at_work = p->participation->largest;
}

/* All steps that may fail because of the configuration: each is tried, so that all problems are reported. */
static fl_status resolve(fli_plan *p, const fl_config *cfg)
{
    const fli_settings *s = p->settings;
    fli_rule_facts known = {.ctx = p->ctx, .root = cfg->root, .settings = s, .fed = p->fed};
    fli_problems problems;
    fli_problems_init(&problems, &known);
    fli_problems_note(&problems, make_model(p), "model.kind");
    if (!fli_problems_fatal(&problems))
        fli_problems_note(
            &problems,
            fli_participation_new(p->ctx, s->sampler.item.desc, s->sampler.params, p->fed, &p->participation),
            "participation.kind");
    if (!fli_problems_fatal(&problems)) fli_problems_note(&problems, make_system(p), "system.kind");
    if (p->participation) resolve_pace(p);
    known.model = p->setup.solvers.count ? p->model : NULL; /* it may be made in part only */
    known.solvers = &p->setup.solvers;
    known.pace = p->pace;
    known.at_work = p->at_work;
    known.compared = cfg->compared;
    fli_problems_look(&problems, fli_data_rules);
    return fli_problems_fini(&problems);
}

/* The folder for client state that does not fit in memory: $TMPDIR, else beside the result. /tmp is often in memory
 * itself, so it comes last. */
static char *spill_folder(fli_plan *p)
{
    const char *folder = getenv("TMPDIR"), *output = p->settings->top.output, *slash = strrchr(output, '/');
    if (folder && *folder) return fli_arena_strdup(&p->arena, folder);
    char *near_output = fli_arena_strdup(&p->arena, slash ? output : *output ? "." : "/var/tmp");
    if (near_output && slash) near_output[slash > output ? slash - output : 1] = 0;
    if (!near_output || fli_path_kind(near_output) == 1) return near_output;
    return fli_arena_strdup(&p->arena, fli_path_kind("/var/tmp") == 1 ? "/var/tmp" : "/tmp");
}

/* The settings for clients, as YAML. Messages bring them the start model. */
static char *client_settings(fli_plan *p)
{
    fli_text text;
    fli_settings for_clients;
    if (fli_settings_for_clients(&p->arena, p->settings, &for_clients)) return NULL;
    for_clients.algorithm.params = (void *)p->setup.params; /* only read */
    if (!p->setup.remote_queue) {                           /* clients in this process have the settings of the run */
        for_clients.algorithm.item.name = for_clients.algorithm.exact;
        for_clients.objective.item.name = for_clients.objective.exact;
        for_clients.local.solver = (char *)for_clients.local.exact_solver;
    }
    fli_text_init(&text, p->ctx);
    fli_settings_print_essence(&text, &for_clients);
    char *out = fli_text_ok(&text) ? NULL : fli_arena_strdup(&p->arena, fli_text_get(&text));
    fli_text_fini(&text);
    return out;
}

/* All of the setup except what is settled or known at the end. */
static void fill_setup(fli_plan *p)
{
    const fli_settings *s = p->settings;
    const fl_regularizer *g = s->regularizer.item.desc;
    int ranked = fli_ranked(&p->ranks);
    p->setup.model = p->model;
    p->setup.fed = p->fed;
    p->setup.clients = p->fed->clients;
    p->setup.classes = p->fed->classes;
    p->setup.seed = (uint64_t)s->top.seed;
    p->setup.sgd = fli_settings_sgd(s);
    p->setup.measure_potential = s->metrics.potential && p->setup.algo->theory.potential.name;
    p->setup.weights = p->fed->weight;
    p->setup.regularizer = strcmp(g->name, "none") ? g : NULL;
    p->setup.regularizer_params = s->regularizer.params;
    p->setup.builder = &fli_client_setup_builder;
    p->setup.ranks = ranked ? &p->ranks : NULL;
    p->setup.rank_owner = ranked ? &p->rank_owner : NULL;
    p->ask_params = (fli_ask_params){&p->setup, &s->local, p->participation, p->system};
}

static fl_status read_start(fli_plan *p)
{
    const char *path = p->settings->model.start;
    if (!*path) return FL_OK;
    if (!(p->start = fli_arena_alloc(&p->arena, p->model->space.n, p->model->space.ops->size))) return FL_ENOMEM;
    return fli_model_file_start(p->ctx, path, p->model, p->start);
}

/* fli_rank_owner_init */
static size_t size_of(const void *fed, size_t client) { return fli_fed_size(fed, client); }

static fl_status assign_clients(fli_plan *p)
{
    if (!fli_ranked(&p->ranks)) return FL_OK;
    if (strcmp(p->settings->executor.item.name, "threads"))
        return fli_fail(p->ctx, FL_ECONFIG,
                        "executor is %s, which works in one process; over several it must be threads",
                        p->settings->executor.item.name);
    return fli_rank_owner_init(p->ctx, p->ranks.count, p->fed->clients, size_of, p->fed, &p->rank_owner);
}

static fl_status set_exec_spec(fli_plan *p, const fl_config *cfg)
{
    const fli_settings *s = p->settings;
    p->exec = (fli_exec_spec){
        .setup = &p->setup,
        .threads = fli_ranks_threads(&p->ranks, (size_t)s->top.threads),
        .memory = (size_t)s->top.memory,
        .folder = spill_folder(p),
        .slice = cfg->slice,
        .after_absorb = cfg->after_absorb,
        .executor = p->setup.remote_queue   ? &fli_executor_remote
                    : fli_ranked(&p->ranks) ? &fli_executor_ranks
                                            : s->executor.item.desc,
    };
    p->setup.settings = client_settings(p);
    return p->exec.folder && p->setup.settings ? FL_OK : FL_ENOMEM;
}

fl_status fli_plan_finish(fli_plan *p, const fl_config *cfg)
{
    fl_status status = resolve(p, cfg);
    if (!status) status = read_start(p);
    if (!status) status = fli_plan_digest(p->ctx, p->settings, &p->samples, &p->data);
    if (status) return status;
    fill_setup(p);
    if ((status = check_equal_weights(p)) || (status = assign_clients(p))) return status;
    status = fli_plan_settle(p);
    if (!status) status = set_exec_spec(p, cfg);
    if (!status) status = fli_method_begin(p->ctx, p->setup.algo, (void *)p->setup.params);
    return status ? status : fli_plan_warn(p);
}

/* Whether a run with this finished plan reads samples of clients outside of their turns: for a start model that is made
 * from samples, or to measure whether theory promises that a potential falls. Then every rank has the samples of all
 * clients. */
static int needs_all_samples(const fli_plan *p)
{
    int start = p->model->desc->start_from && !p->start,
        promise = p->setup.measure_potential && p->setup.algo->theory.potential.falls;
    return start || promise || fli_plan_needs_smoothness(p);
}

int fli_plan_needs_smoothness(const fli_plan *p)
{
    return p->setup.algo->theory.gap.smooth && fli_metric_wanted(&fli_metric_gap, &p->settings->metrics, p->model) &&
           p->model->desc->hvp;
}

/* Keeps the part of the test set that this rank evaluates. */
static fl_status keep_tests(fli_plan *p)
{
    size_t from = fli_lane_of_rank(p->ranks.rank, p->ranks.count);
    size_t to = fli_lane_of_rank(p->ranks.rank + 1, p->ranks.count);
    return fli_fed_keep_tests(p->ctx, p->fed, fli_lane_begin(from, p->fed->tests), fli_lane_begin(to, p->fed->tests));
}

/* Keeps the samples of this rank's clients; the digest and settled parameters, which need all of them, are known. */
static fl_status keep_samples(fli_plan *p)
{
    if (!fli_ranked(&p->ranks) || p->borrowed) return FL_OK;
    fl_status s = keep_tests(p);
    if (s) return s;
    if (needs_all_samples(p)) return fli_fed_keep(p->ctx, p->fed, NULL, 0);
    size_t n = p->rank_owner.of[p->ranks.rank].clients;
    uint32_t *own = fli_alloc(p->ctx, n, sizeof *own);
    if (!own) return FL_ENOMEM;
    fli_rank_owner_list(&p->rank_owner, p->ranks.rank, own);
    s = fli_fed_keep(p->ctx, p->fed, own, n);
    fli_free(own);
    return s;
}

/* ==== memory ================================================================================================ */

/* Compares the memory that a run needs with what there is, before it begins: a mistake in a data file or a setting then
 * ends in a sentence, not in a machine that swaps, or in a BLAS library that asks for its buffers for ever. */

/* Clients per round as far as known in advance: the mean if it is drawn, otherwise the largest. */
static size_t usual_cohort(const fli_plan *p)
{
    enum { LOOKED_AT = 1000 };
    size_t clients = p->fed->clients, step = clients / LOOKED_AT + 1, n = 0;
    double sum = 0;
    if (p->setup.algo->traits & FL_METHOD_BYSTANDERS) return clients;
    for (size_t i = 0; i < clients; i += step, n++) {
        double least, most;
        fli_participation_range(p->participation, i, &least, &most);
        sum += most;
    }
    size_t mean = (size_t)(sum / (double)n * (double)clients);
    return mean < 1 ? 1 : mean < p->participation->largest ? mean : p->participation->largest;
}

static double data_bytes(const fli_fed *f)
{
    return (f->train ? (double)fli_dataset_bytes(f->train) : 0) + (f->test ? (double)fli_dataset_bytes(f->test) : 0);
}

static size_t runs_of(const fli_plan *p) { return p->runs ? p->runs : 1; }

static fl_status check_total(fli_plan *p, const fli_footprint *f)
{
    fli_limit memory = fli_limit_memory();
    double measuring = fli_measure_bytes(p->model, &p->settings->metrics, p->fed->clients);
    double data = data_bytes(p->fed);
    p->memory = f->total + measuring + data;
    double all = data + (double)runs_of(p) * (f->total + measuring);
    if (all <= memory.bytes) return FL_OK;
    char who[64] = "the run takes";
    if (runs_of(p) > 1) fli_snprintf(who, sizeof who, "%zu runs at a time take", runs_of(p));
    return fli_fail(p->ctx, FL_ENOMEM,
                    "out of memory: %s at least %.1f GiB (data %.1f; each: server %.1f, %zu threads %.1f, turns %.1f, "
                    "client state %.1f, measuring %.1f), but %s is %.1f GiB; the model has %zu parameters, for %zu "
                    "features and %zu classes",
                    who, all / 0x1p30, data / 0x1p30, f->server / 0x1p30, fli_pool_count(p->exec.threads),
                    f->workers / 0x1p30, f->turns / 0x1p30, f->state / 0x1p30, measuring / 0x1p30, memory.what,
                    memory.bytes / 0x1p30, p->model->space.n, p->fed->dim, p->fed->classes);
}

/* for a thread's stack and heap the C library reserves address space, hardly memory */
#define THREAD_ROOM (0x1p23 + 0x1p27)

/* Address space that is reserved in addition to memory: by BLAS, and for the stacks and heaps of this many threads. */
static double address_space(size_t threads)
{
    return threads ? (double)threads * FLI_BLAS_BUFFER + (double)(threads - 1) * THREAD_ROOM : 0;
}

/* BLAS and the C library keep what they have reserved for a number of threads: a later run of the process needs only
 * the difference. */
static fl_status check_room(const fli_plan *p, const fli_footprint *f)
{
    static atomic_size_t reserved_threads;
    size_t threads = fli_pool_count(p->exec.threads) * runs_of(p), before = reserved_threads;
    fli_limit room = fli_limit_room();
    double address = threads > before ? address_space(threads) - address_space(before) : 0;
    if (f->total + address > room.bytes)
        return fli_fail(p->ctx, FL_ENOMEM,
                        "out of memory: the run takes %.0f MiB and reserves %.0f MiB of address space (threads: %zu), "
                        "but %s is %.0f MiB; try fewer threads, fewer runs at a time, or a higher "
                        "limit",
                        f->total / 0x1p20, address / 0x1p20, threads, room.what, room.bytes / 0x1p20);
    while (threads > before && !atomic_compare_exchange_weak(&reserved_threads, &before, threads)) continue;
    return FL_OK;
}

/* Vectors of a run on a device are there; the server's have a mirror in host memory. */
static fli_footprint host_footprint(fli_plan *p, const fli_footprint *f, size_t cohort, int async)
{
    double measuring = fli_measure_bytes(p->model, &p->settings->metrics, p->fed->clients);
    fli_footprint here = {.server = f->server, .workers = fli_eval_bytes(p->model)};
    here.total = here.server + here.workers;
    p->bytes_on_device = fli_footprint_there(&p->exec, cohort, async) + measuring;
    return here;
}

/* Refuses a plan that does not fit in the machine, or in the limits of this process. */
static fl_status check_memory(fli_plan *p)
{
    size_t cohort = usual_cohort(p);
    int async = p->pace.buffer > 0;
    fli_footprint f = fli_footprint_of(&p->exec, cohort, async);
    if (fli_settings_on_device(p->settings)) f = host_footprint(p, &f, cohort, async);
    fl_status s = check_total(p, &f);
    return s ? s : check_room(p, &f);
}

/* ==== the whole ============================================================================================= */

fl_status fli_plan_make(fl_config *cfg, const fli_plan *like, fli_plan *p)
{
    fl_status s = fli_plan_data(cfg, like, p);
    if (!s) s = fli_plan_finish(p, cfg);
    if (!s) s = keep_samples(p);
    return s ? s : check_memory(p);
}

void fli_plan_fini(fli_plan *p)
{
    if (p->setup.params) fli_method_end(p->setup.algo, (void *)p->setup.params);
    fli_rank_owner_fini(&p->rank_owner);
    fli_participation_free(p->participation);
    fli_system_free(p->system);
    fli_model_free(p->model);
    if (!p->borrowed) fli_fed_free(p->fed);
    fli_arena_fini(&p->arena);
    fli_bound_release(p->bound);
}
