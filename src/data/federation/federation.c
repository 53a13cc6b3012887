/* Builds a federation, opens views of one client, and digests the data. Normalisation is in normalize.c. */
#include "data/federation/federation.h"

#include "base/text.h"
#include "data/label_names.h"

#include <math.h>
#include <string.h>

/* ==== the federation ======================================================================================== */

/* 1e-9 undoes rounding: 0.29 * 100 is 28.999... */
size_t fli_fed_share(double fraction, size_t n)
{
    size_t k = (size_t)floor(fraction * (double)n + 1e-9);
    return k < n ? k : n - 1;
}

/* ---- each client's own test part ------------------------------------------------------------------------- */

/* Shuffles a client's samples; its test part is the end of the list. Returns that part's size; without one, the order
 * stays. */
static size_t split_client(double fraction, uint64_t seed, size_t client, size_t n, uint32_t *index)
{
    fli_rng r;
    if (!(fraction > 0)) return 0;
    fli_rng_init(&r, seed, FLI_RNG_SPLIT, 0, (uint32_t)client);
    fli_rng_shuffle(&r, n, index);
    return fli_fed_share(fraction, n);
}

/* ---- hidden labels --------------------------------------------------------------------------------------- */

/* Copies borrowed labels, so that they can be changed. */
static fl_status own_labels(fl_ctx *ctx, fli_dataset *ds)
{
    if (!ds->label || !(ds->borrows & FLI_BORROWS_LABELS)) return FL_OK;
    int32_t *own = fli_alloc(ctx, ds->n, sizeof *own);
    if (!own) return FL_ENOMEM;
    memcpy(own, ds->label, ds->n * sizeof *own);
    ds->label = own;
    ds->borrows &= ~(unsigned)FLI_BORROWS_LABELS;
    return FL_OK;
}

static fl_status hide_labels(fl_ctx *ctx, fli_fed *fed)
{
    fli_dataset *ds = fed->train;
    fl_status s = own_labels(ctx, ds);
    if (s) return s;
    fed->truth = fli_alloc(ctx, ds->n, sizeof *fed->truth);
    if (!fed->truth) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) fed->truth[i] = -1;
    for (size_t i = 0; i < fed->here; i++) {
        const uint32_t *end = fed->part.index + fed->part.start[i + 1] - fed->test_count[i];
        for (size_t k = 1; k <= fed->unlabelled_count[i]; k++) {
            uint32_t sample = *(end - k);
            fed->truth[sample] = ds->label[sample];
            ds->label[sample] = -1;
        }
    }
    return FL_OK;
}

/* Draws the samples that lose their labels, and orders each client's training samples so that these come last. One
 * sample keeps its label: without any, a client could not tell one class from another. */
static fl_status draw_unlabelled(fl_ctx *ctx, fli_fed *fed, double fraction)
{
    fli_rng r;
    if (!(fraction > 0)) return FL_OK;
    if (!fed->train->label)
        return fli_fail(ctx, FL_ECONFIG, "data.unlabelled is %g, but a regression has no labels", fraction);
    fed->unlabelled_count = fli_alloc(ctx, fed->here, sizeof *fed->unlabelled_count);
    if (!fed->unlabelled_count) return FL_ENOMEM;
    for (size_t i = 0; i < fed->here; i++) {
        size_t n = fli_fed_size(fed, fed->first + i);
        fli_rng_init(&r, fed->seed, FLI_RNG_LABELS, 0, (uint32_t)(fed->first + i));
        fli_rng_shuffle(&r, n, fed->part.index + fed->part.start[i]);
        fed->unlabelled_count[i] = (uint32_t)fli_fed_share(fraction, n);
    }
    return hide_labels(ctx, fed);
}

fl_status fli_fed_hide(fl_ctx *ctx, fli_fed *fed, const uint32_t *count)
{
    fed->unlabelled_count = fli_alloc(ctx, fed->clients, sizeof *fed->unlabelled_count);
    if (!fed->unlabelled_count) return FL_ENOMEM;
    for (size_t i = 0; i < fed->clients; i++) {
        if (count[i] >= fli_fed_size(fed, i)) return fli_fail(ctx, FL_ECONFIG, "client %zu has no labelled sample", i);
        fed->unlabelled_count[i] = count[i];
    }
    return hide_labels(ctx, fed);
}

/* ---- stored -------------------------------------------------------------------------------------------- */

static fl_status check_partition(fl_ctx *ctx, const fli_partition *p, size_t n)
{
    if (!p->clients) return fli_fail(ctx, FL_ECONFIG, "a federation needs at least one client");
    for (size_t i = 0; i < p->clients; i++) {
        if (p->start[i] >= p->start[i + 1]) return fli_fail(ctx, FL_ECONFIG, "client %zu has no samples", i);
        for (size_t k = p->start[i]; k < p->start[i + 1]; k++)
            if (p->index[k] >= n)
                return fli_fail(ctx, FL_ECONFIG, "client %zu has sample %u, but there are only %zu", i, p->index[k], n);
    }
    return FL_OK;
}

static const char *name_of(const fli_dataset *ds, const char *otherwise) { return ds->origin ? ds->origin : otherwise; }

static fl_status check_sets(fl_ctx *ctx, const fli_dataset *train, const fli_dataset *test)
{
    fl_status s = fli_dataset_check(ctx, train, name_of(train, "training data"));
    if (s || !test) return s;
    if (test->dim != train->dim)
        return fli_fail(ctx, FL_EFORMAT, "the training samples have %zu features, but the test samples %zu", train->dim,
                        test->dim);
    if (fli_dataset_sparse(test) != fli_dataset_sparse(train))
        return fli_fail(ctx, FL_EFORMAT, "the training and test samples must both be sparse or both dense");
    if (!test->label != !train->label || !test->target != !train->target)
        return fli_fail(ctx, FL_EFORMAT, "the training and test samples must both have classes or both have numbers");
    return fli_dataset_check(ctx, test, name_of(test, "test data"));
}

/* Runs after normalisation, which may bring a large value into range. */
static fl_status check_precision(fl_ctx *ctx, int wide, const fli_dataset *train, const fli_dataset *test)
{
    if (wide) return FL_OK;
    fl_status s = fli_dataset_check_f32(ctx, train, name_of(train, "training data"));
    return s || !test ? s : fli_dataset_check_f32(ctx, test, name_of(test, "test data"));
}

static fl_status split_all(fl_ctx *ctx, fli_fed *fed)
{
    fed->test_count = fli_alloc(ctx, fed->here, sizeof *fed->test_count);
    if (!fed->test_count) return FL_ENOMEM;
    for (size_t i = 0; i < fed->here; i++) {
        size_t n = fed->part.start[i + 1] - fed->part.start[i];
        size_t k = split_client(fed->test_fraction, fed->seed, fed->first + i, n, fed->part.index + fed->part.start[i]);
        fed->test_count[i] = (uint32_t)k;
        fed->samples += n - k;
        if (n - k > fed->largest) fed->largest = n - k;
    }
    return FL_OK;
}

fl_status fli_fed_split(fl_ctx *ctx, double unlabelled, fli_fed *fed)
{
    fl_status s = split_all(ctx, fed);
    return s ? s : draw_unlabelled(ctx, fed, unlabelled);
}

/* Takes all three parts, also on failure. */
static fl_status assemble(fl_ctx *ctx, fli_dataset *train, fli_dataset *test, fli_partition *part, double test_fraction,
                          double unlabelled, uint64_t seed, fli_fed **out)
{
    fl_status s = FL_ENOMEM;
    fli_fed *fed = fli_alloc(ctx, 1, sizeof *fed);
    if (!fed) {
        fli_dataset_free(train);
        fli_dataset_free(test);
        fli_partition_fini(part);
        return s;
    }
    fed->train = train;
    fed->test = test;
    if (test) test->test = 1;
    fed->tests = test ? test->n : 0;
    fed->part = *part;
    memset(part, 0, sizeof *part);
    fed->seed = seed;
    fed->test_fraction = test_fraction;
    fed->magnitude = NAN;
    s = check_partition(ctx, &fed->part, train->n);
    if (s) goto done;
    fed->clients = fed->here = fed->part.clients;
    fed->dim = train->dim;
    fed->classes = test && test->classes > train->classes ? test->classes : train->classes;
    s = fli_fed_split(ctx, unlabelled, fed);
    if (s) goto done;
    *out = fed;
    fed = NULL;
done:
    fli_fed_free(fed);
    return s;
}

static fl_status set_augment(fl_ctx *ctx, const fli_fed_spec *spec, fli_dataset *train)
{
    if (spec->augment != FLI_AUGMENT_NONE && (fli_dataset_sparse(train) || train->shape[1] < 2 || train->shape[2] < 2))
        return fli_fail(ctx, FL_ECONFIG,
                        "data.augment is for images, but the data has samples of %zu features in a row", train->dim);
    train->augment = spec->augment;
    train->still = (uint64_t)llround(spec->augment_still * FLI_CROP_DRAWS);
    return FL_OK;
}

fl_status fli_fed_freeze(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed *fed)
{
    fl_status s = FL_OK;
    if (!spec->augment_once || spec->augment == FLI_AUGMENT_NONE) return s;
    for (size_t i = 0; !s && i < fed->here; i++)
        s = fli_dataset_freeze(ctx, fed->train, fed->seed, fed->part.index + fed->part.start[i],
                               fli_fed_size(fed, fed->first + i));
    fed->train->augment = FLI_AUGMENT_NONE;
    return s;
}

static fl_status crop(fl_ctx *ctx, size_t size, fli_dataset *train, fli_dataset *test)
{
    if (!size) return FL_OK;
    fl_status s = fli_dataset_crop(ctx, size, train);
    return s || !test ? s : fli_dataset_crop(ctx, size, test);
}

/* Normalises the weights given with the samples to sum 1. */
static fl_status set_weights(fl_ctx *ctx, const fl_holding *who, fli_fed *fed)
{
    double sum = 0;
    if (who->clients != fed->clients)
        return fli_fail(ctx, FL_ECONFIG, "fl_holding: weight has %zu values, but there are %zu clients", who->clients,
                        fed->clients);
    for (size_t i = 0; i < fed->clients; i++) {
        if (!(who->weight[i] > 0) || !isfinite(who->weight[i]))
            return fli_fail(ctx, FL_ECONFIG,
                            "fl_holding: the weight of client %zu is %g, but must be above 0 and finite", i,
                            who->weight[i]);
        sum += who->weight[i];
    }
    fed->weight = fli_alloc(ctx, fed->clients, sizeof *fed->weight);
    if (!fed->weight) return FL_ENOMEM;
    for (size_t i = 0; i < fed->clients; i++) {
        fed->weight[i] = who->weight[i] / sum;
        if (!isfinite(sum) || !(fed->weight[i] > 0))
            return fli_fail(ctx, FL_ECONFIG, "fl_holding: the weight of client %zu is too far from those of the others",
                            i);
    }
    return FL_OK;
}

fl_status fli_fed_prepare(fl_ctx *ctx, const fli_fed_spec *spec, fli_dataset *train, fli_dataset *test)
{
    int affine = spec->normalize == FLI_NORM_AFFINE;
    fl_status s = fli_normalize_sets(ctx, spec->normalize, affine ? &spec->scale : &spec->mean,
                                     affine ? &spec->shift : &spec->std, train, test);
    if (!s) s = check_precision(ctx, spec->wide, train, test);
    if (!s) s = set_augment(ctx, spec, train);
    return s ? s : crop(ctx, spec->crop, train, test);
}

static fl_status new_stored(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed **out)
{
    fli_dataset *train = NULL, *test = NULL;
    fli_partition part = {0, NULL, NULL};
    fli_source_request request = {.params = spec->source_params,
                                  .seed = spec->seed,
                                  .wide = spec->wide,
                                  .map = spec->map && !spec->augment_once,
                                  .memory = spec->memory};
    fl_status s = spec->source->load(ctx, &request, &train, &test);
    if (!s) s = fli_label_names_note(ctx, train, NULL);
    if (!s) s = check_sets(ctx, train, test); /* partitioners trust labels and groups */
    if (!s) s = fli_fed_prepare(ctx, spec, train, test);
    if (!s)
        s = fli_partition_make(ctx, spec->partitioner, spec->partitioner_params, train, spec->seed, spec->clients,
                               &part);
    if (s) {
        fli_dataset_free(train);
        fli_dataset_free(test);
        return s;
    }
    s = assemble(ctx, train, test, &part, spec->test_fraction, spec->unlabelled, spec->seed, out);
    if (!s) s = fli_fed_freeze(ctx, spec, *out);
    if (!s && spec->memory && spec->memory->who.weight) s = set_weights(ctx, &spec->memory->who, *out);
    if (!s) return FL_OK;
    fli_fed_free(*out);
    *out = NULL;
    return s;
}

/* ---- on demand ----------------------------------------------------------------------------------------- */

static fl_status cannot_on_demand(fl_ctx *ctx, const fli_source *source)
{
    fli_text can;
    fli_text_init(&can, ctx);
    for (const fli_source *const *s = fli_source_list; *s; s++)
        if ((*s)->client) fli_text_addf(&can, "%s%s", can.n ? ", " : "", (*s)->name);
    fl_status status = fli_text_ok(&can);
    if (!status)
        status = fli_fail(ctx, FL_ECONFIG, "data %s cannot make its clients on demand; these can: %s", source->name,
                          fli_text_get(&can));
    fli_text_fini(&can);
    return status;
}

static fl_status check_on_demand(fl_ctx *ctx, const fli_fed_spec *spec)
{
    if (!spec->source->client) return cannot_on_demand(ctx, spec->source);
    if (spec->unlabelled > 0)
        return fli_fail(ctx, FL_ECONFIG,
                        "clients made on demand are made with all their labels: data.unlabelled must be 0");
    if (spec->augment != FLI_AUGMENT_NONE)
        return fli_fail(ctx, FL_ECONFIG, "data.augment is for images that are stored, not for clients made on demand");
    if (spec->crop)
        return fli_fail(ctx, FL_ECONFIG, "data.crop is for images that are stored, not for clients made on demand");
    if (spec->normalize != FLI_NORM_AUTO && spec->normalize != FLI_NORM_NONE)
        return fli_fail(ctx, FL_ECONFIG,
                        "clients made on demand have no samples to take statistics from: normalize must be "
                        "auto or none");
    size_t there = spec->source->clients(spec->source_params);
    if (spec->clients > there)
        return fli_fail(ctx, FL_ECONFIG, "%zu clients are requested, but data %s makes %zu", spec->clients,
                        spec->source->name, there);
    return FL_OK;
}

/* The generator defines the clients; the partitioner is not used. Nothing is stored per client. */
static fl_status new_on_demand(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed **out)
{
    fli_dataset *first = NULL;
    fl_status s = check_on_demand(ctx, spec);
    if (s) return s;
    fli_fed *fed = fli_alloc(ctx, 1, sizeof *fed);
    if (!fed) return FL_ENOMEM;
    fed->source = spec->source;
    fed->params = spec->source_params;
    fed->seed = spec->seed;
    fed->test_fraction = spec->test_fraction;
    fed->clients = fed->here = spec->clients ? spec->clients : fed->source->clients(fed->params);
    s = fed->source->client(ctx, fed->params, fed->seed, 0, &first);
    if (!s) s = fli_dataset_check(ctx, first, "client 0");
    if (s) goto done;
    fed->dim = first->dim;
    fed->classes = first->classes;
    for (size_t i = 0; i < fed->clients; i++) {
        size_t n = fli_fed_size(fed, i);
        fed->samples += n;
        if (n > fed->largest) fed->largest = n;
    }
    *out = fed;
    fed = NULL;
done:
    fli_dataset_free(first);
    fli_fed_free(fed);
    return s;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

fl_status fli_fed_new(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed **out)
{
    *out = NULL;
    if (!(spec->test_fraction >= 0 && spec->test_fraction < 1))
        return fli_fail(ctx, FL_ECONFIG, "the clients' test fraction is %g, but must be at least 0 and below 1",
                        spec->test_fraction);
    if (!(spec->unlabelled >= 0 && spec->unlabelled < 1))
        return fli_fail(ctx, FL_ECONFIG, "data.unlabelled is %g, but must be at least 0 and below 1", spec->unlabelled);
    return spec->on_demand ? new_on_demand(ctx, spec, out) : new_stored(ctx, spec, out);
}

fl_status fli_fed_take(fl_ctx *ctx, fli_dataset *train, fli_dataset *test, fli_partition *part, fli_fed **out)
{
    *out = NULL;
    fl_status s = check_sets(ctx, train, test);
    if (!s) return assemble(ctx, train, test, part, 0, 0, 0, out);
    fli_dataset_free(train);
    fli_dataset_free(test);
    fli_partition_fini(part);
    return s;
}

void fli_fed_free(fli_fed *fed)
{
    if (!fed) return;
    fli_dataset_free(fed->train);
    fli_dataset_free(fed->test);
    fli_partition_fini(&fed->part);
    fli_free(fed->test_count);
    fli_free(fed->unlabelled_count);
    fli_free(fed->truth);
    fli_free(fed->weight);
    fli_free(fed->kept);
    fli_free(fed->kept_start);
    fli_free(fed);
}

size_t fli_fed_size(const fli_fed *fed, size_t client)
{
    const size_t *start = fed->train ? fed->part.start + (client - fed->known) : NULL;
    if (start) return start[1] - start[0] - fli_fed_tests(fed, client);
    size_t n = fed->source->client_size(fed->params, fed->seed, (uint32_t)client);
    return n - fli_fed_share(fed->test_fraction, n);
}

size_t fli_fed_unlabelled(const fli_fed *fed, size_t client)
{
    return fed->unlabelled_count ? fed->unlabelled_count[client - fed->known] : 0;
}

size_t fli_fed_tests(const fli_fed *fed, size_t client)
{
    return fed->test_count ? fed->test_count[client - fed->known] : 0;
}

int32_t fli_fed_truth(const fli_fed *fed, uint32_t sample)
{
    int32_t taken = fed->truth ? fed->truth[sample] : -1;
    return taken >= 0 ? taken : fed->train->label[sample];
}

size_t fli_fed_place(const fli_fed *fed, size_t client)
{
    size_t low = 0, high = fed->here;
    if (!fed->kept) return client < fed->first ? SIZE_MAX : client - fed->first;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (fed->kept[middle] < client)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fed->here && fed->kept[low] == client ? low : SIZE_MAX;
}

/* Start of the list of the client at this place in part.index; at fed->here, the end of the last list. */
static size_t list_start(const fli_fed *fed, size_t place)
{
    const size_t *start = fed->part.start + (fed->first - fed->known);
    return fed->kept ? fed->kept_start[place] : start[place] - start[0];
}

size_t fli_fed_listed(const fli_fed *fed) { return list_start(fed, fed->here); }

fl_status fli_fed_magnitude(fl_ctx *ctx, const fli_fed *fed, double *out)
{
    *out = fed->magnitude;
    if (!fed->train) *out = 0;
    return fed->train && isnan(*out) ? fli_dataset_magnitude(ctx, fed->train, out) : FL_OK;
}

/* ---- some clients alone ---------------------------------------------------------------------------------- */

/* Reduces part.index to the lists of these clients, one after the other. */
static fl_status keep_lists(fl_ctx *ctx, const uint32_t *clients, size_t n, fli_fed *fed)
{
    const size_t *start = fed->part.start;
    size_t listed = 0;
    for (size_t i = 0; i < n; i++) listed += start[clients[i] + 1] - start[clients[i]];
    uint32_t *index = fli_alloc(ctx, listed, sizeof *index), *kept = fli_alloc(ctx, n, sizeof *kept);
    size_t *kept_start = fli_alloc(ctx, n + 1, sizeof *kept_start);
    if (!index || !kept || !kept_start) {
        fli_free(index);
        fli_free(kept);
        fli_free(kept_start);
        return FL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        size_t from = start[clients[i]], own = start[clients[i] + 1] - from;
        memcpy(index + kept_start[i], fed->part.index + from, own * sizeof *index);
        kept[i] = clients[i];
        kept_start[i + 1] = kept_start[i] + own;
    }
    fli_free(fed->part.index);
    fed->part.index = index;
    fed->kept = kept;
    fed->kept_start = kept_start;
    fed->here = n;
    return FL_OK;
}

/* Renumbers the lists for a set that has only the listed samples, and lists those in `kept`, ascending. `place` has an
 * element per sample of the old set, all 0. */
static void renumber(fli_fed *fed, uint32_t *place, uint32_t *kept)
{
    uint32_t *index = fed->part.index, next = 0;
    size_t n = fli_fed_listed(fed);
    for (size_t k = 0; k < n; k++) place[index[k]] = 1;
    for (uint32_t i = 0; i < fed->train->n; i++) {
        if (!place[i]) continue;
        kept[next] = i;
        place[i] = next++;
    }
    for (size_t k = 0; k < n; k++) index[k] = place[index[k]];
}

static fl_status keep_truth(fl_ctx *ctx, const uint32_t *kept, size_t n, fli_fed *fed)
{
    if (!fed->truth) return FL_OK;
    int32_t *own = fli_alloc(ctx, n, sizeof *own);
    if (!own) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) own[i] = fed->truth[kept[i]];
    fli_free(fed->truth);
    fed->truth = own;
    return FL_OK;
}

static fl_status keep_samples(fl_ctx *ctx, fli_fed *fed)
{
    size_t n = fli_fed_listed(fed);
    uint32_t *place = fli_alloc(ctx, fed->train->n, sizeof *place), *kept = fli_alloc(ctx, n, sizeof *kept);
    fl_status s = place && kept ? FL_OK : FL_ENOMEM;
    if (!s) renumber(fed, place, kept);
    if (!s) s = keep_truth(ctx, kept, n, fed);
    fli_free(place);
    if (!s) s = fli_dataset_keep(ctx, fed->train, kept, n);
    fli_free(kept);
    return s;
}

fl_status fli_fed_keep(fl_ctx *ctx, fli_fed *fed, const uint32_t *clients, size_t n)
{
    if (!fed->train) return FL_OK;
    fl_status s = fli_fed_magnitude(ctx, fed, &fed->magnitude);
    if (!s && clients) s = keep_lists(ctx, clients, n, fed);
    return s || fed->train->borrows & FLI_BORROWS_SAMPLES ? s : keep_samples(ctx, fed);
}

fl_status fli_fed_keep_tests(fl_ctx *ctx, fli_fed *fed, size_t from, size_t to)
{
    if (!fed->test || fed->test->borrows & FLI_BORROWS_SAMPLES) return FL_OK;
    uint32_t *own = fli_alloc(ctx, to - from, sizeof *own);
    if (!own) return FL_ENOMEM;
    for (size_t i = from; i < to; i++) own[i - from] = (uint32_t)i;
    fl_status s = fli_dataset_keep(ctx, fed->test, own, to - from);
    fed->test_first = from;
    fli_free(own);
    return s;
}

/* ---- views --------------------------------------------------------------------------------------------- */

static void view_set(fli_view *v, const fli_dataset *ds, const uint32_t *index, size_t n, size_t n_unlabelled,
                     size_t n_test)
{
    v->ds = ds;
    v->train = index;
    v->n_train = n - n_unlabelled - n_test;
    v->unlabelled = index + v->n_train;
    v->n_unlabelled = n_unlabelled;
    v->test = v->unlabelled + n_unlabelled;
    v->n_test = n_test;
}

static fl_status view_make(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_view *v)
{
    fl_status s = fed->source->client(ctx, fed->params, fed->seed, (uint32_t)client, &v->made);
    if (s) return s;
    size_t n = v->made->n;
    v->index = fli_alloc(ctx, n, sizeof *v->index);
    if (!v->index) {
        fli_view_close(v);
        return FL_ENOMEM;
    }
    for (size_t k = 0; k < n; k++) v->index[k] = (uint32_t)k;
    view_set(v, v->made, v->index, n, 0, split_client(fed->test_fraction, fed->seed, client, n, v->index));
    return FL_OK;
}

fl_status fli_view_open(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_view *v)
{
    memset(v, 0, sizeof *v);
    if (client >= fed->clients)
        return fli_fail(ctx, FL_ECONFIG, "there is no client %zu, the federation has %zu", client, fed->clients);
    if (!fed->train) return view_make(ctx, fed, client, v);
    size_t place = fli_fed_place(fed, client);
    if (place >= fed->here)
        return fli_fail(ctx, FL_ECONFIG, "the samples of client %zu are needed, but are not here", client);
    size_t start = list_start(fed, place);
    view_set(v, fed->train, fed->part.index + start, list_start(fed, place + 1) - start,
             fli_fed_unlabelled(fed, client), fli_fed_tests(fed, client));
    return FL_OK;
}

void fli_view_close(fli_view *v)
{
    fli_dataset_free(v->made);
    fli_free(v->index);
    memset(v, 0, sizeof *v);
}

/* ==== the digest ============================================================================================ */

static void add_real(fli_hash *h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    fli_hash_count(h, bits);
}

static void add_values(fli_hash *h, const fli_dataset *ds, size_t i)
{
    size_t size = fli_xkind_size(ds->kind);
    if (!ds->dim) { /* without features, the number identifies the sample */
        fli_hash_count(h, i);
        return;
    }
    if (!fli_dataset_sparse(ds)) {
        size_t length = fli_dataset_length(ds);
        fli_hash_bytes(h, (const char *)ds->x + i * length * size, length * size);
        return;
    }
    size_t from = ds->row[i], n = ds->row[i + 1] - from;
    fli_hash_count(h, n);
    fli_hash_bytes(h, ds->col + from, n * sizeof *ds->col);
    fli_hash_bytes(h, (const char *)ds->x + from * size, n * size);
}

static void add_sample(fli_hash *h, const fli_dataset *ds, size_t i)
{
    add_values(h, ds, i);
    if (ds->label)
        fli_hash_count(h, (uint64_t)(int64_t)ds->label[i]);
    else if (ds->target)
        add_real(h, ds->target[i]);
}

/* `truth`, unless NULL, adds the hidden labels, because some metrics use them. */
static void add_samples(fli_hash *h, const fli_dataset *ds, const uint32_t *index, size_t n, const fli_fed *truth)
{
    fli_hash_count(h, n);
    for (size_t k = 0; k < n; k++) {
        add_sample(h, ds, index[k]);
        if (truth) fli_hash_count(h, (uint64_t)(int64_t)fli_fed_truth(truth, index[k]));
    }
}

static void add_kind(fli_hash *h, const fli_dataset *ds)
{
    fli_hash_count(h, (uint64_t)ds->kind);
    fli_hash_count(h, ds->dim);
    fli_hash_count(h, ds->classes);
    for (int k = 0; k < 3; k++) fli_hash_count(h, ds->shape[k]);
    for (int k = 0; k < 2 && ds->frame[k]; k++) fli_hash_count(h, ds->frame[k]);
    if (ds->each) fli_hash_count(h, UINT64_MAX);
}

fl_status fli_digest_client(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_digest *out)
{
    fli_view v;
    fli_hash h;
    fl_status s = fli_view_open(ctx, fed, client, &v);
    if (s) return s;
    fli_hash_init(&h);
    add_kind(&h, v.ds);
    add_samples(&h, v.ds, v.train, v.n_train, NULL);
    add_samples(&h, v.ds, v.unlabelled, v.n_unlabelled, fed->truth ? fed : NULL);
    add_samples(&h, v.ds, v.test, v.n_test, NULL);
    *out = fli_hash_end(&h);
    fli_view_close(&v);
    return FL_OK;
}

/* Scales depend on all samples, also on those of no client. */
static void add_scaling(fli_hash *h, const fli_dataset *ds)
{
    size_t n = ds->scale ? fli_dataset_sparse(ds) ? ds->dim : ds->segments : 0;
    fli_hash_count(h, n);
    for (size_t k = 0; k < n; k++) {
        add_real(h, ds->scale[k]);
        add_real(h, ds->shift ? ds->shift[k] : 0);
    }
}

fl_status fli_digest_fed(fl_ctx *ctx, const fli_fed *fed, fli_digest *out)
{
    fl_status s = FL_OK;
    fli_hash h;
    fli_digest part;
    fli_hash_init(&h);
    fli_hash_count(&h, fed->clients);
    fli_hash_count(&h, fed->samples);
    fli_hash_count(&h, fed->dim);
    fli_hash_count(&h, fed->classes);
    for (size_t i = 0; i < fed->clients && fed->train && !s; i++) {
        if (!(s = fli_digest_client(ctx, fed, i, &part))) fli_hash_bytes(&h, part.byte, sizeof part.byte);
    }
    if (!s && fed->train) add_scaling(&h, fed->train);
    for (size_t i = 0; i < fed->clients && fed->weight && !s; i++) add_real(&h, fed->weight[i]);
    if (!s && fed->test) {
        add_kind(&h, fed->test);
        for (size_t i = 0; i < fed->test->n; i++) add_sample(&h, fed->test, i);
    }
    if (!s) *out = fli_hash_end(&h);
    return s;
}
