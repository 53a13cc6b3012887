/* A server whose clients vanish, are late, refuse, or send what they should not: rounds go on as if they had not been
 * invited, bit by bit as in a simulation, or the run ends with a sentence. */
#include "halves.h"
#include "outcome.h"
#include "own_methods.h"

#include "algo/algo.h"
#include "base/bytes.h"
#include "base/digest.h"
#include "base/file.h"
#include "format/safetensors.h"

#include <math.h>
#include <unistd.h>

enum { HEADER = 80, CHECKED_AT = 16 };

#define PLAIN                                                                                                          \
    "model=softmax;metrics.train=false;metrics.test=false;metrics.clients=false;metrics.gradient=false;"               \
    "participation=everyone"
#define UNEVEN PLAIN ";partition={kind: dirichlet, clients: 6, alpha: 0.3, min_size: 8}"

/* ---- small things ------------------------------------------------------------------------------------------ */

/* All that was logged. */
static char said[20000];

/* fl_log_fn */
static void keep_lines(void *arg, fl_log_level level, const char *line)
{
    (void)arg, (void)level;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", line);
}

static void begin(fixture *f, const char *assignments, halves *h)
{
    said[0] = 0;
    like_simulated(f, assignments, h);
    fl_ctx_on_log(f->ctx, keep_lines, NULL);
    open_halves(h, assignments);
}

static void end(halves *h)
{
    close_halves(h);
    fl_run_free(h->like);
    fl_ctx_on_log(h->f->ctx, NULL, NULL);
}

static fl_ask read_ask(const fl_bytes *packet)
{
    fl_ask ask;
    fli_ask_read(packet->data + HEADER, &ask);
    return ask;
}

static fl_bytes work(halves *h, uint32_t who, const fl_bytes *ask)
{
    fl_bytes answer;
    assert_true(ask->n <= fl_client_ask_bytes(h->client[who]));
    assert_ok(h->ctx[who], fl_client_work(h->client[who], ask->data, ask->n, &answer));
    assert_true(answer.n <= fl_server_answer_bytes(h->server));
    return answer;
}

/* What becomes of a turn that a client is asked for. */
typedef enum { ANSWER, DROP, REFUSE, IGNORE } fate;
typedef fate fate_fn(const halves *h, const fl_ask *ask);

/* Carries everything to the run's end. Those who are dropped have worked, half of them. */
static fl_status carry(halves *h, fate_fn *decide)
{
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(h->server, 10, &who, &ask))) {
        if (!ask.n) continue;
        fl_ask what = read_ask(&ask);
        fate f = what.kind == FLI_ASK_TURN ? decide(h, &what) : ANSWER;
        answer = f == ANSWER || who % 2 ? work(h, who, &ask) : (fl_bytes){NULL, 0};
        if (f == ANSWER)
            assert_ok(h->f->ctx, fl_server_answer(h->server, who, answer.data, answer.n));
        else if (f == DROP)
            assert_ok(h->f->ctx, fl_server_drop(h->server, who, "it is tired"));
        else if (f == REFUSE)
            assert_ok(h->f->ctx, fl_server_refused(h->server, who, "it cannot"));
        if (f == DROP && answer.n)
            assert_int_equal(fl_server_answer(h->server, who, answer.data, answer.n), FL_EMISMATCH);
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    return s;
}

static fate answer_all(const halves *h, const fl_ask *ask)
{
    (void)h, (void)ask;
    return ANSWER;
}

/* ---- as in a simulation ------------------------------------------------------------------------------------ */

#define DEADLINE "0.0105"

/* Who is late in the simulation is dropped here. */
static fate as_simulated(const halves *h, const fl_ask *ask)
{
    fli_card card = fli_exec_card(h->like->exec, ask->client);
    return fli_ask_seconds(&h->like->plan.ask_params, &card, ask) > atof(DEADLINE) && !ask->warm_up ? DROP : ANSWER;
}

/* How long a round lasts is simulated there, and not known here. */
static void forget_time(outcome *o)
{
    for (size_t i = 0; i < o->count; i++) *metric(&o->rows[i], "simulated_seconds") = 0;
}

static void drops_alike(fixture *f, const char *assignments)
{
    char simulated[1024];
    halves h;
    snprintf(simulated, sizeof simulated, "%s;system.deadline=" DEADLINE, assignments);
    like_simulated(f, simulated, &h);
    open_halves(&h, assignments);
    assert_ok(f->ctx, fl_run_go(h.like, NULL, NULL));
    assert_int_equal(carry(&h, as_simulated), FL_EDONE);
    outcome want = outcome_of(h.like), got = outcome_of(fl_server_run(h.server));
    forget_time(&want);
    forget_time(&got);
    double came = 0;
    for (size_t i = 1; i < want.count; i++) came += *metric(&want.rows[i], "cohort");
    if (!(came > 0 && came < 7 * 5)) fail_msg("%s: %g clients came, which shows nothing", assignments, came);
    if (!same(&want, &got)) fail_msg("%s: who is dropped here is not as if it had not been invited", assignments);
    outcome_free(&want);
    outcome_free(&got);
    close_halves(&h);
    fl_run_free(h.like);
}

static void dropped_as_simulated(void **state)
{
    static const char rest[] = "model={kind: mlp, hidden: [5]};rounds=7;participation={kind: uniform, count: 5}";
    static const char *const more[] = {
        "fedavg, aggregation: unbiased",        "fedvra, preset: fedavg",  "fedvra, preset: feddyn, gamma: 0.1",
        "fedvra, preset: scaffold, gamma: 0.1", "fedvra, preset: fednova",
    };
    char text[512];
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        unsigned no = FL_METHOD_EVERYONE | FL_METHOD_BYSTANDERS | FL_METHOD_BILEVEL;
        if ((*a)->traits & no || fli_algo_is_async(*a) || (*a)->rounds.phases || (*a)->phases > 1) continue;
        snprintf(text, sizeof text, "%s;algorithm=%s", rest, (*a)->name);
        drops_alike(*state, text);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(text, sizeof text, "%s;algorithm={kind: %s}", rest, more[i]);
        drops_alike(*state, text);
    }
}

/* Only who was asked can be dropped. */
static fate drop_another(const halves *h, const fl_ask *ask)
{
    assert_fails(h->f->ctx, fl_server_drop(h->server, (uint32_t)(ask->client + 1) % 6, "it is slow"), FL_EMISMATCH,
                 "no answer of it is awaited");
    return ANSWER;
}

static void nobody_waits_for_it(void **state)
{
    halves h;
    begin(*state, PLAIN ";participation={kind: uniform, count: 1};rounds=3", &h);
    assert_int_equal(carry(&h, drop_another), FL_EDONE);
    end(&h);
}

/* ---- waiting ----------------------------------------------------------------------------------------------- */

static fate client_3_is_gone(const halves *h, const fl_ask *ask)
{
    (void)h;
    return ask->client == 3 ? IGNORE : ANSWER;
}

/* A round goes on at the deadline, and its late answer is of no use to anybody. */
static void a_round_ends_at_its_deadline(void **state)
{
    halves h;
    begin(*state, PLAIN ";rounds=1;server.deadline=1", &h);
    assert_int_equal(carry(&h, client_3_is_gone), FL_EDONE);
    assert_non_null(strstr(said, "round 1: 1 of 6 clients are left out, they have not answered within 1 seconds: 3"));
    end(&h);
    begin(*state, PLAIN ";rounds=1;algorithm=fedsplit;server.deadline=1", &h);
    assert_fails(h.f->ctx, carry(&h, client_3_is_gone), FL_EIO,
                 "1 of 6 clients have not answered within 1 seconds (server.deadline), and all of them are needed "
                 "here: client 3");
    end(&h);
}

static fate half_ignore(const halves *h, const fl_ask *ask)
{
    (void)h;
    return ask->client >= 3 ? IGNORE : ANSWER;
}

/* As soon as enough are there. */
static void wait_for(void **state)
{
    halves h;
    begin(*state, PLAIN ";rounds=3;server.wait_for=0.5", &h);
    assert_int_equal(carry(&h, half_ignore), FL_EDONE);
    const fl_row *rows;
    size_t n = fl_run_rows(fl_server_run(h.server), &rows);
    fl_row last = rows[n - 1];
    assert_true(*metric(&last, "cohort") == 3);
    end(&h);
}

/* Too few: as a round in which nobody came. */
static void rounds_without_quorum_do_not_count(void **state)
{
    halves h;
    double start[64], model[64];
    begin(*state, PLAIN ";rounds=1;server={deadline: 1, quorum: 0.6};algorithm=scaffold", &h);
    size_t n = fl_run_model(h.like, start, 64);
    assert_int_equal(carry(&h, half_ignore), FL_EIO); /* none of its rounds counts */
    assert_non_null(
        strstr(fl_server_error(h.server), "round 1: no answer has come that counts, and it is the last one"));
    assert_int_equal(fl_run_model(fl_server_run(h.server), model, 64), n);
    assert_memory_equal(start, model, n * sizeof *model);
    assert_non_null(strstr(said, "round 1 does not count: 3 of 6 clients have answered, and server.quorum asks for 4"));
    end(&h);
}

/* Away in rounds 3 to 7, so that those are empty, and from round 13 on. */
static fate at_times(const halves *h, const fl_ask *ask)
{
    (void)h;
    return (ask->round >= 2 && ask->round < 7) || ask->round >= 12 ? DROP : ANSWER;
}

/* A run whose clients are all cut off does not come to an end as if it had been trained. */
static void empty_rounds(void **state)
{
    halves h;
    begin(*state, PLAIN ";rounds=30", &h);
    assert_fails(h.f->ctx, carry(&h, at_times), FL_EIO,
                 "round 22: in 10 rounds in a row no answer has come that counts");
    end(&h);
    begin(*state, PLAIN ";rounds=20", &h); /* eight are the last ones */
    assert_fails(h.f->ctx, carry(&h, at_times), FL_EIO,
                 "round 20: no answer has come that counts, and it is the last one, so the run does not end");
    end(&h);
    begin(*state, PLAIN ";participation={kind: bernoulli, probability: 1e-9};rounds=3", &h); /* nobody is asked */
    assert_fails(h.f->ctx, carry(&h, answer_all), FL_EIO, "round 3: in 3 rounds in a row no answer has come");
    end(&h);
    begin(*state, PLAIN ";rounds=12", &h);
    assert_int_equal(carry(&h, at_times), FL_EDONE);
    assert_non_null(strstr(said, "in 5 of 12 rounds no client took part or answered in time"));
    end(&h);
}

static fate all_refuse(const halves *h, const fl_ask *ask)
{
    (void)h;
    return ask->round == 1 ? REFUSE : ANSWER;
}

static fate all_but_one_refuse(const halves *h, const fl_ask *ask)
{
    (void)h;
    return ask->round != 1 ? ANSWER : ask->client == 4 ? DROP : REFUSE;
}

/* What every client refuses the next cohort will refuse as well. */
static void refused_by_all(void **state)
{
    halves h;
    begin(*state, PLAIN ";rounds=4", &h);
    assert_fails(h.f->ctx, carry(&h, all_refuse), FL_EIO,
                 "round 2: every client that was asked refuses, such as client 0: it cannot");
    end(&h);
    begin(*state, PLAIN ";rounds=4", &h);
    assert_int_equal(carry(&h, all_but_one_refuse), FL_EDONE);
    assert_non_null(strstr(said, "round 2: client 3 is left out: it cannot"));
    end(&h);
}

/* ---- dropping ---------------------------------------------------------------------------------------------- */

static void a_dropped_client_is_not_awaited(void **state)
{
    halves h;
    uint32_t who, all[MOST];
    fl_bytes ask, answer;
    begin(*state, PLAIN ";rounds=1", &h);
    fl_ctx *ctx = h.f->ctx;
    assert_ok(ctx, fl_server_next(h.server, 10, &who, &ask));
    assert_int_equal(fl_server_awaited(h.server, all, 2), 6);
    assert_true(all[0] == 0 && all[1] == 1);
    answer = work(&h, who, &ask);
    assert_ok(ctx, fl_server_answer(h.server, who, answer.data, answer.n));
    assert_int_equal(fl_server_awaited(h.server, NULL, 0), 5);
    assert_fails(ctx, fl_server_drop(h.server, who, "x"), FL_EMISMATCH, "no answer of it is awaited");
    assert_fails(ctx, fl_server_drop(h.server, 6, "x"), FL_EMISMATCH, "there is no client 6");
    assert_ok(ctx, fl_server_drop(h.server, 4, NULL)); /* before anybody has fetched its ask */
    assert_int_equal(carry(&h, answer_all), FL_EDONE);
    assert_int_equal(fl_server_awaited(h.server, NULL, 0), 0);
    assert_non_null(strstr(said, "round 1: client 4 is left out: it was dropped"));
    assert_fails(ctx, fl_server_drop(h.server, 4, "x"), FL_EMISMATCH, "is awaited");
    fl_bytes_free(&ask);
    fl_bytes_free(&answer);
    end(&h);
    begin(*state, PLAIN ";rounds=1;algorithm=fedsplit", &h);
    assert_ok(ctx, fl_server_next(h.server, 10, &who, &ask));
    assert_fails(ctx, fl_server_drop(h.server, who, "x"), FL_EREFUSED, "everybody's answer is needed");
    answer = work(&h, who, &ask);
    assert_ok(ctx, fl_server_answer(h.server, who, answer.data, answer.n));
    assert_int_equal(carry(&h, answer_all), FL_EDONE);
    fl_bytes_free(&ask);
    fl_bytes_free(&answer);
    end(&h);
}

/* Those whose figures do not come are not in the metrics. */
static void not_measured(void **state)
{
    halves h;
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    begin(*state, "model=softmax;rounds=2;participation=everyone", &h);
    while (!(s = fl_server_next(h.server, 10, &who, &ask))) {
        if (who == 2 && read_ask(&ask).kind != FLI_ASK_TURN) {
            assert_ok(h.f->ctx, fl_server_drop(h.server, who, "it is shy"));
        } else {
            answer = work(&h, who, &ask);
            assert_ok(h.f->ctx, fl_server_answer(h.server, who, answer.data, answer.n));
            fl_bytes_free(&answer);
        }
        fl_bytes_free(&ask);
    }
    assert_int_equal(s, FL_EDONE);
    assert_non_null(strstr(said, "1 clients are not measured, such as client 2: it is shy"));
    assert_ok(h.f->ctx, fl_run_go(h.like, NULL, NULL));
    outcome all = outcome_of(h.like), some = outcome_of(fl_server_run(h.server));
    assert_memory_equal(all.model, some.model, all.parameters * sizeof *all.model);
    double a = *metric(&all.rows[2], "train_loss"), b = *metric(&some.rows[2], "train_loss");
    assert_true(a != b && fabs(a - b) < 0.5 * a);
    outcome_free(&all);
    outcome_free(&some);
    end(&h);
}

/* ---- what is let in ---------------------------------------------------------------------------------------- */

/* The checksum of an answer that was changed. */
static void put_right(fl_bytes *answer)
{
    unsigned char *all = malloc(answer->n - 4);
    memcpy(all, answer->data, 12);
    memcpy(all + 12, answer->data + CHECKED_AT, answer->n - CHECKED_AT);
    fli_put_u64(answer->data + 12, fli_crc32c(all, answer->n - 4), 4);
    free(all);
}

/* Puts a number into the last part of an answer, at its end. */
static void forge(fl_bytes *answer, double value, int wide)
{
    float narrow = (float)value;
    if (wide)
        memcpy(answer->data + answer->n - sizeof value, &value, sizeof value);
    else
        memcpy(answer->data + answer->n - sizeof narrow, &narrow, sizeof narrow);
    put_right(answer);
}

/* The same into a scalar of an answer. */
static void forge_scalar(halves *h, fl_bytes *answer, const char *part, double value)
{
    uint64_t head; /* bytes of it */
    fli_safetensors parts;
    fli_get_u64(answer->data + 28, &head, 4);
    size_t at = HEADER + (size_t)head;
    assert_ok(h->f->ctx, fli_safetensors_read(h->f->ctx, "answer", answer->data + at, answer->n - at, &parts));
    const fli_tensor_entry *e = fli_safetensors_find(&parts, part);
    assert_non_null(e);
    memcpy((void *)(uintptr_t)e->data, &value, sizeof value);
    fli_safetensors_fini(&parts);
    put_right(answer);
}

/* Client 1 sends this number in the first round, of 8 bytes or 4 where there is no scalar of that name; what the server
 * says to that, and how the run ends. */
static fl_status send_number(halves *h, const char *scalar, double value, int wide, fl_status *refused)
{
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(h->server, 10, &who, &ask))) {
        int bad = who == 1 && !read_ask(&ask).round;
        answer = work(h, who, &ask);
        if (bad && scalar)
            forge_scalar(h, &answer, scalar, value);
        else if (bad)
            forge(&answer, value, wide);
        s = fl_server_answer(h->server, who, answer.data, answer.n);
        if (bad)
            *refused = s;
        else
            assert_int_equal(s, FL_OK);
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    return s;
}

static void unfit_answers_are_screened(void **state)
{
    static const struct {
        const char *settings;
        double value;
        fl_status refused, end;
        const char *sentence;
    } cases[] = {
        {"", NAN, FL_EREFUSED, FL_EDONE, "client 1 is left out: part \"x_i - x\" of its answer has the value"},
        {"", INFINITY, FL_EREFUSED, FL_EDONE, "has the value inf, which is not finite"},
        {"", 1e30, FL_OK, FL_EDONE, ""},
        {"server.largest_norm=1e3", 1e30, FL_EREFUSED, FL_EDONE, "has the norm 1e+30, which is beyond server.l"},
        {"server={largest_norm: 2, beyond: clip}", 1e30, FL_OK, FL_EDONE, ""},
        {"precision=f64;server={largest_norm: 2, beyond: clip}", 1e30, FL_OK, FL_EDONE, ""},
        /* its square is infinite, so there is no length to be cut to */
        {"precision=f64;server={largest_norm: 2, beyond: clip}", 1e200, FL_EREFUSED, FL_EDONE, "has the norm inf, wh"},
        {"server.failed=end", NAN, FL_EREFUSED, FL_EDIVERGED, "round 1, client 1: the local model is no longer finite"},
        {"algorithm=fedsplit", NAN, FL_EREFUSED, FL_EDIVERGED, "round 1, client 1: the local model is no longer fin"},
        {"algorithm=fedsplit;server.largest_norm=1e3", 1e30, FL_EREFUSED, FL_EREFUSED, "client 1: part"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        halves h;
        fl_status refused = FL_EDONE;
        snprintf(text, sizeof text, "%s;rounds=2%s%s", PLAIN, *cases[i].settings ? ";" : "", cases[i].settings);
        begin(*state, text, &h);
        int wide = !strncmp(cases[i].settings, "precision=f64", 13);
        fl_status s = send_number(&h, NULL, cases[i].value, wide, &refused);
        const char *error = s == FL_EDONE ? said : fl_ctx_error(h.f->ctx);
        if (refused != cases[i].refused || s != cases[i].end || !strstr(error, cases[i].sentence))
            fail_msg("case %zu: refused with %d, ended with %d, and said: %s", i, (int)refused, (int)s, error);
        if (s == FL_EDONE) {
            double model[64], square = 0;
            size_t n = fl_run_model(fl_server_run(h.server), model, 64);
            for (size_t k = 0; k < n; k++) square += model[k] * model[k];
            int large = sqrt(square) > 10;
            assert_int_equal(large, !cases[i].refused && !strstr(cases[i].settings, "clip"));
        }
        end(&h);
    }
}

/* How many answers are waited for, and how many have to come: a share, rounded up, but not by an error of rounding. */
static void shares_of_a_cohort(void **state)
{
    static const struct {
        double share;
        size_t n, wanted, least;
    } cases[] = {{1, 6, 6, 6}, {0.5, 5, 3, 3},   {0.6, 5, 3, 3},  {0.61, 5, 4, 4},
                 {0, 6, 1, 0}, {1e-12, 6, 1, 0}, {1e-6, 6, 1, 1}, {1, 1, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fli_admission a = {.wait_for = cases[i].share, .quorum = cases[i].share};
        assert_int_equal(fli_admission_wanted(&a, cases[i].n), cases[i].wanted);
        assert_int_equal(fli_admission_least(&a, cases[i].n), cases[i].least);
    }
}

/* Also one that is not the first: of ShroFBO's two scalars this is the second. */
static void every_scalar_is_screened(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        halves h;
        fl_status refused = FL_EDONE;
        begin(*state, PLAIN ";bilevel=regularization;algorithm=shrofbo;rounds=2", &h);
        assert_int_equal(send_number(&h, "||a_i||_1", bad[i], 1, &refused), FL_EDONE);
        assert_int_equal(refused, FL_EREFUSED);
        assert_non_null(strstr(said, "client 1 is left out: part \"||a_i||_1\" of its answer has the value"));
        end(&h);
    }
}

/* If nobody's numbers are finite, it is the method that diverges. */
static void all_diverge(void **state)
{
    halves h;
    begin(*state, PLAIN ";local.lr=1e30;model.weight_decay=1;rounds=2", &h);
    assert_fails(h.f->ctx, carry(&h, answer_all), FL_EDIVERGED, "round 1, client 0: the local model is no longer");
    end(&h);
}

/* A vector that is finite, but far too long, is let in where nothing bounds it. The first to fail is then an honest
 * client, and the sentence says who sent the vector. */
static void blown_up(void **state)
{
    halves h;
    fl_status refused;
    double others;
    begin(*state, PLAIN ";rounds=3;model.weight_decay=10", &h);
    assert_fails(h.f->ctx, send_number(&h, NULL, 3e38f, 0, &refused), FL_EDIVERGED,
                 "the longest upload came from client 1, in round 1: its norm is 3e+38, and the longest of all others");
    assert_int_equal(refused, FL_OK);
    const char *last = strstr(fl_server_error(h.server), "of all others ");
    assert_true(last && sscanf(last, "of all others %lf", &others) == 1 && others > 0 && others < 1e3);
    end(&h);
}

/* ---- what is claimed --------------------------------------------------------------------------------------- */

static char refusal[300]; /* of its claim, the last one */

/* Client 1 says that this is its training loss: in the first measurement, or in all others. */
static fl_status claim_loss(halves *h, int at_start, double claimed)
{
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    size_t measured = 0;
    while (!(s = fl_server_next(h->server, 10, &who, &ask))) {
        int figures = who == 1 && read_ask(&ask).kind == FLI_ASK_FIGURES;
        answer = work(h, who, &ask);
        if (figures && (measured++ == 0) == at_start) {
            uint64_t head, names; /* bytes of them */
            fli_get_u64(answer.data + 28, &head, 4);
            fli_get_u64(answer.data + HEADER + head, &names, 8);
            memcpy(answer.data + HEADER + head + 8 + names + 8 * FLI_FIGURE_TRAIN_LOSS, &claimed, sizeof claimed);
            put_right(&answer);
        }
        s = fl_server_answer(h->server, who, answer.data, answer.n);
        if (s) assert_true(figures);
        if (s) assert_non_null(strstr(fl_ctx_error(h->f->ctx), "client 1: "));
        if (s) snprintf(refusal, sizeof refusal, "%s", fl_ctx_error(h->f->ctx));
        if (s == FL_EFORMAT) assert_ok(h->f->ctx, fl_server_drop(h->server, who, "it answers nonsense"));
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    return s;
}

/* A loss that can be is believed, and may end the run, unless the settings that docs/deploy.md names are there. One
 * that cannot be is refused, and the run goes on without it. At the start everybody's loss is log 4. */
static void claimed_loss(void **state)
{
    static const struct {
        const char *settings;
        int at_start;
        double claimed;
        fl_status end;
        const char *refusal;
    } cases[] = {
        {"", 0, 1e50, FL_EDIVERGED, ""},
        {";stop.diverged=0", 0, 1e50, FL_EDONE, ""},
        {";metrics.train=false", 0, 1e50, FL_EDONE, ""},
        {"", 0, 1e300, FL_EDONE, "part \"figures\" of its answer has the value 1e+300, which no loss can have"},
        {"", 0, -1e300, FL_EDONE, "its figures are impossible: its training loss is -1e+300"},
        {"", 1, -6.9314, FL_EDONE, "its training loss is -6.9314, and that of softmax is never negative"},
        {"", 0, -1e-6, FL_EDONE, ""}, /* rounding */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        halves h;
        snprintf(text, sizeof text, "model=softmax;metrics.gradient=false;participation=everyone;rounds=2%s",
                 cases[i].settings);
        begin(*state, text, &h);
        *refusal = 0;
        fl_status s = claim_loss(&h, cases[i].at_start, cases[i].claimed);
        if (!strstr(refusal, cases[i].refusal) || !*refusal != !*cases[i].refusal)
            fail_msg("case %zu was refused with: %s", i, refusal);
        if (s != cases[i].end) fail_msg("case %zu ended with %d: %s", i, (int)s, fl_ctx_error(h.f->ctx));
        end(&h);
    }
}

/* ---- arrivals ---------------------------------------------------------------------------------------------- */

/* Every third turn is dropped, and another client is sent out. */
static fate now_and_then(const halves *h, const fl_ask *ask)
{
    (void)h;
    return ask->stream % 3 == 2 ? DROP : ANSWER;
}

static void asynchronous_runs_go_on_after_drops(void **state)
{
    static const char *const methods[] = {"fedasync", "{kind: fedbuff, buffer: 3}", "asyncfeddr"};
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        halves h;
        snprintf(text, sizeof text,
                 "model=softmax;threads=1;clock=real;rounds=12;metrics.every=4;participation={kind: uniform, count: "
                 "4};algorithm=%s",
                 methods[i]);
        begin(*state, text, &h);
        assert_int_equal(carry(&h, now_and_then), FL_EDONE);
        assert_int_equal(fl_run_round(fl_server_run(h.server)), 12);
        assert_non_null(strstr(said, "is left out: it is tired"));
        end(&h);
    }
}

/* Killed after some answers, with others under way; clients go on from where the server knows them. */
static void arrivals_resumed(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"fedasync", "{kind: fedbuff, buffer: 3}", "asyncfeddr"};
    for (size_t i = 0; i < 3; i++) {
        char text[900], output[560];
        halves h;
        snprintf(output, sizeof output, "%s%zu", fixture_path(f, "arrivals"), i);
        snprintf(text, sizeof text,
                 "model=softmax;clock=real;rounds=12;metrics.every=4;participation={kind: uniform, count: 4};"
                 "algorithm=%s",
                 methods[i]);
        like_simulated(f, text, &h);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ";checkpoint_every=1;output=%s", output);
        open_halves(&h, text);
        for (int kill = 0; kill < 4; kill++) {
            uint32_t who;
            fl_bytes ask, answer;
            for (int k = 0; k < 9 + kill; k++) {
                assert_ok(f->ctx, fl_server_next(h.server, 10, &who, &ask));
                answer = work(&h, who, &ask);
                if (k % 4 != 3) assert_ok(f->ctx, fl_server_answer(h.server, who, answer.data, answer.n));
                if (k % 4 == 3) assert_ok(f->ctx, fl_server_drop(h.server, who, "it is tired"));
                fl_bytes_free(&ask);
                fl_bytes_free(&answer);
            }
            fl_server_free(h.server);
            assert_ok(f->ctx, open_server(&h, text));
            for (uint32_t c = 0; c < h.clients; c++) accept(&h, c);
        }
        assert_int_equal(carry(&h, answer_all), FL_EDONE);
        assert_int_equal(fl_run_round(fl_server_run(h.server)), 12);
        close_halves(&h);
        fl_run_free(h.like);
    }
}

/* ---- many threads ------------------------------------------------------------------------------------------ */

/* Answers, drops and forgets as it pleases. */
static void *mill_about(void *arg)
{
    halves *h = arg;
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(h->server, 0.01, &who, &ask))) {
        if (!ask.n) continue;
        uint64_t stream = read_ask(&ask).stream;
        pthread_mutex_lock(&h->lock[who]);
        s = fl_client_work(h->client[who], ask.data, ask.n, &answer);
        pthread_mutex_unlock(&h->lock[who]);
        assert_int_equal(s, FL_OK);
        if ((stream + who) % 5 == 1) (void)fl_server_drop(h->server, (who + 1) % 6, "somebody else said so");
        if ((stream + who) % 7 != 2) s = fl_server_answer(h->server, who, answer.data, answer.n);
        assert_true(!s || s == FL_EMISMATCH);
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    return (void *)(uintptr_t)s;
}

static void threads_may_share_a_server(void **state)
{
    static const char *const kinds[] = {
        "participation=everyone;algorithm=scaffold;rounds=8;server={deadline: 0.03, wait_for: 0.7, quorum: 0.3}",
        "participation={kind: uniform, count: 5};algorithm=asyncfeddr;rounds=20;clock=real;server.deadline=0.03",
    };
    enum { THREADS = 4 };
    for (size_t i = 0; i < 2; i++) {
        char text[900];
        halves h;
        pthread_t thread[THREADS];
        void *status;
        snprintf(text, sizeof text, "model=softmax;%s", kinds[i]);
        like_simulated(*state, text, &h);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ";checkpoint_every=1;output=%s%zu", fixture_path(h.f, "crowd"), i);
        open_halves(&h, text);
        for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&thread[k], NULL, mill_about, &h), 0);
        for (int k = 0; k < THREADS; k++) {
            pthread_join(thread[k], &status);
            assert_int_equal((uintptr_t)status, FL_EDONE);
        }
        assert_true(fl_run_round(fl_server_run(h.server)) >= 8);
        close_halves(&h);
        fl_run_free(h.like);
    }
}

/* FedAsync with a server step that adds 1 to every entry of the model, which begins at 0, and pauses half-way. */
static atomic_size_t models_whole, models_torn;

static int even_pose(const fl_turn *t, fl_problem *p)
{
    const double *x = t->down[0];
    size_t i = 1;
    while (i < t->space.n && x[i] == x[0]) i++;
    atomic_fetch_add(i < t->space.n ? &models_torn : &models_whole, 1);
    p->start = t->down[0];
    return 0;
}

static int even_absorb(const fl_coordinator *s, const fl_upload *u)
{
    double *x = s->vec[0];
    (void)u;
    for (size_t i = 0; i < s->space.n; i++) {
        if (i == s->space.n / 2) usleep(500);
        x[i] += 1;
    }
    return 0;
}

/* Models are read, each by a thread of its own, while the server writes the next one: none is half one and half the
 * other, however long its reader takes ([DR] B.1). */
static void readers_never_see_half_a_model(void **state)
{
    fixture *f = *state;
    enum { THREADS = 4 };
    static const char settings[] =
        "model=softmax;algorithm=even;clock=real;participation={kind: uniform, count: 5};rounds=300;precision=f64;"
        "data.features=5000;local={batch: 50, lr: 0.1};metrics={every: 300, gradient: false};server.deadline=0.1";
    fl_method even = own_fedasync;
    halves h;
    pthread_t thread[THREADS];
    void *status;
    even.name = "even";
    even.pose = even_pose;
    even.absorb = even_absorb;
    assert_ok(f->ctx, fl_method_register(f->ctx, &even));
    like_simulated(f, settings, &h);
    open_clients(&h);
    for (uint32_t i = 0; i < h.clients; i++) assert_ok(h.ctx[i], fl_method_register(h.ctx[i], &even));
    assert_ok(f->ctx, open_server(&h, settings));
    for (uint32_t i = 0; i < h.clients; i++) accept(&h, i);
    models_whole = models_torn = 0;
    for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&thread[k], NULL, mill_about, &h), 0);
    for (int k = 0; k < THREADS; k++) {
        pthread_join(thread[k], &status);
        assert_int_equal((uintptr_t)status, FL_EDONE);
    }
    assert_int_equal(models_torn, 0);
    assert_true(models_whole >= 300);
    const double *x = fli_exec_server(fl_server_run(h.server)->exec)[0];
    assert_true(x[0] == 300);
    close_halves(&h);
    fl_run_free(h.like);
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "even"));
}

/* ---- checkpoints ------------------------------------------------------------------------------------------- */

/* There is no place for a checkpoint any more: the run ends before clients are ahead of it, and goes on later. */
static void nowhere_to_save(void **state)
{
    fixture *f = *state;
    char text[900], folder[600], away[620];
    static const char settings[] = "model=softmax;algorithm=scaffold;participation={kind: uniform, count: 4}";
    halves h;
    snprintf(folder, sizeof folder, "%s.checkpoint", fixture_path(f, "full"));
    snprintf(away, sizeof away, "%s.away", folder);
    snprintf(text, sizeof text, "%s;checkpoint_every=1;output=%s", settings, fixture_path(f, "full"));
    like_simulated(f, settings, &h);
    assert_ok(f->ctx, fl_run_go(h.like, NULL, NULL));
    open_halves(&h, text);
    uint32_t who;
    fl_bytes ask, answer;
    do { /* until the second round is under way */
        assert_ok(f->ctx, fl_server_next(h.server, 10, &who, &ask));
        answer = work(&h, who, &ask);
        if (read_ask(&ask).round) assert_int_equal(rename(folder, away), 0);
        assert_ok(f->ctx, fl_server_answer(h.server, who, answer.data, answer.n));
        fl_bytes_free(&answer);
        fl_bytes_free(&ask);
    } while (!access(folder, F_OK));
    assert_fails(f->ctx, carry(&h, answer_all), FL_EIO, "full.checkpoint");
    fl_server_free(h.server);
    assert_int_equal(rename(away, folder), 0);
    assert_ok(f->ctx, open_server(&h, text));
    for (uint32_t c = 0; c < h.clients; c++) accept(&h, c);
    assert_int_equal(carry(&h, answer_all), FL_EDONE);
    outcome want = outcome_of(h.like), got = outcome_of(fl_server_run(h.server));
    assert_true(same(&want, &got));
    outcome_free(&want);
    outcome_free(&got);
    close_halves(&h);
    fl_run_free(h.like);
}

/* From the start on nobody else may write where a server's result goes, however long its clients take to join; nor may
 * a server where somebody else does. */
static void a_place_that_is_taken(void **state)
{
    fixture *f = *state;
    halves h;
    char text[500], busy[100];
    fli_lock *lock;
    fl_server *second;
    fl_run *run;
    snprintf(text, sizeof text, PLAIN ";rounds=1;output=%s/taken", f->folder);
    snprintf(busy, sizeof busy, "taken: process %ld is writing there", (long)getpid());
    like_simulated(f, text, &h);
    open_clients(&h);
    fl_config *cfg = joined(&h, text), *same = configure(f, text);
    assert_ok(f->ctx, fl_run_new(same, &run));
    assert_ok(f->ctx, fl_run_prepare_save(run, 0));
    assert_fails(f->ctx, fl_server_new(cfg, &second), FL_EBUSY, busy);
    fl_run_free(run);
    assert_ok(f->ctx, fl_server_new(cfg, &h.server));
    assert_fails(f->ctx, fl_server_new(cfg, &second), FL_EBUSY, busy);
    assert_fails(f->ctx, fl_run_prepare_save(h.like, 0), FL_EBUSY, busy);
    for (uint32_t i = 0; i < h.clients; i++)
        assert_ok(f->ctx, fl_server_join(h.server, i, h.card[i].data, h.card[i].n));
    assert_ok(f->ctx, fl_server_begin(h.server));
    assert_fails(f->ctx, fl_run_prepare_save(h.like, 0), FL_EBUSY, busy);
    for (uint32_t i = 0; i < h.clients; i++) accept(&h, i);
    assert_int_equal(carry(&h, answer_all), FL_EDONE);
    assert_ok(f->ctx, fl_run_save(fl_server_run(h.server)));
    assert_ok(f->ctx, fli_lock_take(f->ctx, strstr(text, f->folder), &lock)); /* it is done */
    fli_lock_leave(lock);
    fl_config_free(cfg);
    fl_config_free(same);
    end(&h);
}

/* ---- what clients claim -------------------------------------------------------------------------------------- */

/* In place of what client `who` has. */
static void claim_samples(halves *h, uint32_t who, uint64_t samples)
{
    fli_put_u64(h->card[who].data + HEADER, samples, 8);
    put_right(&h->card[who]);
}

/* How a server begins whose client 2 claims this many samples; the others have 40 each. */
static fl_status begin_with_claim(fixture *f, const char *assignments, uint64_t samples, halves *h)
{
    said[0] = 0;
    like_simulated(f, assignments, h);
    fl_ctx_on_log(f->ctx, keep_lines, NULL);
    open_clients(h);
    claim_samples(h, 2, samples);
    return open_server(h, assignments);
}

static void a_claim_far_from_others(void **state)
{
    fixture *f = *state;
    halves h;
    assert_fails(f->ctx, begin_with_claim(f, PLAIN, 100000000, &h), FL_ECONFIG,
                 "client 2 says that it has 100000000 samples, more than 100 times the median 40 of all");
    assert_int_equal(fl_server_samples(h.server, 2), 100000000);
    assert_int_equal(fl_server_samples(h.server, 3), 40);
    end(&h);
    assert_ok(f->ctx, begin_with_claim(f, PLAIN ";server.largest_samples=100000000", 100000000, &h));
    assert_non_null(strstr(said, "client 2 says that it has 80000000 of all 80000160 training samples: it alone"));
    end(&h);
    assert_ok(f->ctx, begin_with_claim(f, PLAIN ";weights=uniform", 100000000, &h)); /* it counts as the others do */
    assert_null(strstr(said, "it alone"));
    end(&h);
    assert_ok(f->ctx, begin_with_claim(f, PLAIN, 4000, &h)); /* exactly 100 times */
    end(&h);
    assert_ok(f->ctx, begin_with_claim(f, PLAIN, 200, &h)); /* exactly half */
    assert_null(strstr(said, "it alone"));
    end(&h);
}

/* The server trains nothing: samples that it will never see take no memory here. */
static void a_claim_takes_no_memory(void **state)
{
    halves h;
    assert_ok(((fixture *)*state)->ctx, begin_with_claim(*state, PLAIN ";weights=uniform", UINT32_MAX, &h));
    end(&h);
}

static void a_claim_beyond_the_bound(void **state)
{
    fixture *f = *state;
    halves h;
    const char *text = PLAIN ";server.largest_samples=40";
    like_simulated(f, text, &h);
    open_clients(&h);
    claim_samples(&h, 2, 41);
    fl_config *cfg = joined(&h, text);
    assert_ok(f->ctx, fl_server_new(cfg, &h.server));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_server_join(h.server, 1, h.card[1].data, h.card[1].n));
    assert_fails(f->ctx, fl_server_join(h.server, 2, h.card[2].data, h.card[2].n), FL_EREFUSED,
                 "client 2 cannot join: it says that it has 41 samples, and server.largest_samples is 40");
    assert_int_equal(fl_server_missing(h.server), 5);
    end(&h);
}

/* A server to which clients have not joined yet, with further settings of its data; and what it says to client 2, which
 * comes first with the card that it has. */
static fl_status first_to_join(fixture *f, const char *text, const char *data, halves *h)
{
    char all[512], *save = NULL;
    fl_config *cfg = joined(h, text);
    snprintf(all, sizeof all, "%s", data);
    for (char *a = strtok_r(all, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    assert_ok(f->ctx, fl_server_new(cfg, &h->server));
    fl_config_free(cfg);
    return fl_server_join(h->server, 2, h->card[2].data, h->card[2].n);
}

static void claim(halves *h, uint32_t who, size_t at, uint64_t value)
{
    fli_put_u64(h->card[who].data + HEADER + at, value, 8);
    put_right(&h->card[who]);
}

/* A card with which the run could never begin takes no place, and keeps nobody out. */
static void a_card_that_never_fits(void **state)
{
    enum { SAMPLES = 0, CLASSES = 88, KIND = 96 };
    static const struct {
        const char *text, *data;
        size_t at;
        uint64_t value;
        const char *sentence;
    } cases[] = {
        {PLAIN, "", CLASSES, 5, "client 2 cannot join: its samples have 5 classes, and the federation has 4"},
        {PLAIN, "data.normalize=given;data.mean=[1];data.std=[2]", KIND, FLI_X_CSR,
         "client 2 cannot join: no run can begin with it: "},
        {PLAIN ";algorithm=fednest;bilevel={kind: regularization, validation: 0.5}", "", SAMPLES, 1,
         "client 2 has a single training sample, but bilevel.validation needs one for each level"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        halves h;
        fl_bytes good;
        like_simulated(f, cases[i].text, &h);
        open_clients(&h);
        good = h.card[2];
        h.card[2].data = malloc(good.n);
        memcpy(h.card[2].data, good.data, good.n);
        claim(&h, 2, cases[i].at, cases[i].value);
        assert_fails(f->ctx, first_to_join(f, cases[i].text, cases[i].data, &h), FL_EREFUSED, cases[i].sentence);
        assert_int_equal(fl_server_missing(h.server), h.clients);
        free(h.card[2].data);
        h.card[2] = good;
        for (uint32_t k = 0; k < h.clients; k++)
            assert_ok(f->ctx, fl_server_join(h.server, k, h.card[k].data, h.card[k].n));
        end(&h);
    }
}

/* The weights of a server's run, which its clients are not told: it is ended for that. */
static void weights_of(halves *h, double *weight)
{
    uint32_t who;
    fl_bytes ask;
    assert_ok(h->f->ctx, fl_server_next(h->server, 10, &who, &ask));
    fl_bytes_free(&ask);
    assert_ok(h->f->ctx, fl_server_lost(h->server, who, "that is enough"));
    while (!fl_server_next(h->server, 10, &who, &ask)) fl_bytes_free(&ask);
    fl_run *run = fl_server_run(h->server);
    assert_non_null(run);
    for (size_t i = 0; i < h->clients; i++) weight[i] = fli_plan_weight(&run->plan, i);
}

/* Sizes are uneven: some are above the share at once, some only when what those lose is given to the others. */
static void largest_share(void **state)
{
    fixture *f = *state;
    halves h;
    double plain[MOST], weight[MOST], sum = 0, scale = 0;
    size_t bound = 0, lifted = 0;
    begin(f, UNEVEN ";server.largest_share=0.22", &h);
    weights_of(&h, weight);
    for (size_t i = 0; i < h.clients; i++) {
        plain[i] = fli_plan_weight(&h.like->plan, i);
        sum += weight[i];
        bound += weight[i] == 0.22;
        lifted += weight[i] == 0.22 && plain[i] < 0.22;
        if (weight[i] != 0.22) scale = weight[i] / plain[i];
    }
    for (size_t i = 0; i < h.clients; i++)
        assert_true(weight[i] == 0.22 || (weight[i] < 0.22 && fabs(weight[i] / plain[i] - scale) < 1e-12));
    assert_true(fabs(sum - 1) < 1e-12);
    assert_true(scale > 1 && bound >= 1 && bound < h.clients);
    if (!lifted) fail_msg("no client came to the bound by what others lost: another alpha shows more");
    end(&h);
    assert_ok(f->ctx, begin_with_claim(f, PLAIN ";server.largest_share=0.4", 200, &h));
    assert_non_null(strstr(said, "client 2 claims more samples than server.largest_share allows: its weight is 0.4 and "
                                 "not 0.5"));
    end(&h);
    begin(f, UNEVEN ";server.largest_share=0.18", &h);
    assert_non_null(strstr(said, "2 clients claim more samples than server.largest_share allows, such as client"));
    end(&h);
    like_simulated(f, PLAIN, &h);
    fl_config *cfg = joined(&h, PLAIN ";server.largest_share=0.1");
    assert_fails(f->ctx, fl_server_new(cfg, &h.server), FL_ECONFIG, "it must be at least 0.166667");
    fl_config_free(cfg);
    fl_run_free(h.like);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(dropped_as_simulated),
        FIXTURE_TEST(nobody_waits_for_it),
        FIXTURE_TEST(a_round_ends_at_its_deadline),
        FIXTURE_TEST(wait_for),
        FIXTURE_TEST(rounds_without_quorum_do_not_count),
        FIXTURE_TEST(empty_rounds),
        FIXTURE_TEST(refused_by_all),
        FIXTURE_TEST(a_dropped_client_is_not_awaited),
        FIXTURE_TEST(not_measured),
        FIXTURE_TEST(unfit_answers_are_screened),
        FIXTURE_TEST(every_scalar_is_screened),
        cmocka_unit_test(shares_of_a_cohort),
        FIXTURE_TEST(all_diverge),
        FIXTURE_TEST(blown_up),
        FIXTURE_TEST(claimed_loss),
        FIXTURE_TEST(asynchronous_runs_go_on_after_drops),
        FIXTURE_TEST(arrivals_resumed),
        FIXTURE_TEST(a_place_that_is_taken),
        FIXTURE_TEST(a_claim_far_from_others),
        FIXTURE_TEST(a_claim_takes_no_memory),
        FIXTURE_TEST(a_claim_beyond_the_bound),
        FIXTURE_TEST(a_card_that_never_fits),
        FIXTURE_TEST(largest_share),
        FIXTURE_TEST(threads_may_share_a_server),
        FIXTURE_TEST(readers_never_see_half_a_model),
        FIXTURE_TEST(nowhere_to_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
