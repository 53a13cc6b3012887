#include "config/rules.h"

#include "base/number.h"
#include "format/yaml.h"

#include <string.h>

const char fli_rules_base[] = "data: {kind: blobs, samples: 60}\n"
                              "partition: {kind: iid, clients: 4}\n"
                              "model: softmax\n"
                              "participation: everyone\n"
                              "rounds: 1\n";

/* ---- places ---------------------------------------------------------------------------------------------- */

/* Where a key was given. `participation: everyone` gives participation.kind. */
static const fli_node *given(const fli_known *k, const char *key)
{
    const fli_node *n = fli_yaml_get(k->root, key);
    const char *dot = strchr(key, '.');
    char section[64];
    if (n || !dot || strcmp(dot, ".kind") || (size_t)(dot - key) >= sizeof section) return n;
    memcpy(section, key, (size_t)(dot - key));
    section[dot - key] = 0;
    n = fli_yaml_get(k->root, section);
    return n && n->type == FLI_NODE_SCALAR ? n : NULL;
}

/* Copies the word at *at and steps behind it and the blanks that follow; 0 at the end, or if it has no room. */
static int next_word(const char **at, char *word, size_t size)
{
    size_t n = strcspn(*at, " ");
    if (!n || n >= size) return 0;
    memcpy(word, *at, n);
    word[n] = 0;
    *at += n + strspn(*at + n, " ");
    return 1;
}

/* The first of the keys that was given another value than its default; without one, the first that was given. */
static const fli_node *blamed(const fli_known *k, const char *keys, char *key, size_t size)
{
    const fli_node *first = NULL;
    char word[64];
    while (next_word(&keys, word, sizeof word)) {
        const fli_node *n = given(k, word);
        const char *usual = fli_settings_default(k->settings, word);
        int same = n && n->type == FLI_NODE_SCALAR && usual && !strcmp(n->text, usual);
        if (!n || (first && same)) continue;
        first = n;
        fli_snprintf(key, size, "%s", word);
        if (!same) break;
    }
    return first;
}

/* The first key that a sentence speaks of and that was given. */
static const fli_node *spoken_of(const fli_known *k, const char *line, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789.";
    for (size_t i = 0; i < length;) {
        char word[64];
        size_t n = strspn(line + i, letters);
        while (n && line[i + n - 1] == '.') n--; /* the end of a sentence */
        if (n && n < sizeof word && memchr(line + i, '.', n)) {
            memcpy(word, line + i, n);
            word[n] = 0;
            const fli_node *found = given(k, word);
            if (found) return found;
        }
        i += n ? n : 1;
    }
    return NULL;
}

/* ---- problems -------------------------------------------------------------------------------------------- */

void fli_problems_init(fli_problems *p, const fli_known *k)
{
    *p = (fli_problems){.known = k};
    fli_text_init(&p->said, k->ctx);
    fli_text_add(&p->said, fl_ctx_error(k->ctx));
    fli_clear(k->ctx);
}

int fli_problems_fatal(const fli_problems *p) { return (p->status && p->status != FL_ECONFIG) || p->said.failed; }

static void add_line(fli_problems *p, fl_status status, const fli_node *at, const char *line, size_t length)
{
    char where[512];
    fli_text_addf(&p->said, "%s%s", p->said.n ? "\n" : "", fli_node_where(at, where, sizeof where));
    fli_text_addn(&p->said, line, length);
    if (!p->status || fli_problems_fatal(p)) p->status = status;
}

void fli_problems_note(fli_problems *p, fl_status status, const char *keys)
{
    const fli_known *k = p->known;
    char key[64];
    if (!status) return;
    for (const char *line = fl_ctx_error(k->ctx); *line;) {
        size_t n = strcspn(line, "\n");
        const fli_node *at = status == FL_ECONFIG ? spoken_of(k, line, n) : NULL;
        if (!at && status == FL_ECONFIG) at = blamed(k, keys, key, sizeof key);
        add_line(p, status, at, line, n);
        line += n + (line[n] == '\n');
    }
    if (!p->status || status != FL_ECONFIG) p->status = status;
    fli_clear(k->ctx);
}

fl_status fli_problems_fini(fli_problems *p)
{
    fl_ctx *ctx = p->known->ctx;
    fl_status status = p->said.failed ? FL_ENOMEM : p->status;
    if (p->said.failed)
        fli_fail(ctx, FL_ENOMEM, "out of memory");
    else if (p->said.n)
        fli_fail_also(ctx, status, "%s", fli_text_get(&p->said));
    fli_text_fini(&p->said);
    return status;
}

/* ---- rules ----------------------------------------------------------------------------------------------- */

static int answerable(const fli_known *k, const char *keys)
{
    char word[64];
    while (next_word(&keys, word, sizeof word))
        if (k->unbound >> fli_settings_section_of(word) & 1) return 0;
    return 1;
}

/* The sentence with its values; the blamed key's value is added where the sentence does not have it. */
static void word_sentence(const fli_known *k, const char *sentence, const char *blame, fli_text *out)
{
    int told = !*blame;
    for (const char *c = sentence; *c;) {
        size_t plain = strcspn(c, "{");
        fli_text_addn(out, c, plain);
        c += plain;
        if (!*c) break;
        char key[64] = "";
        size_t n = strcspn(++c, "}");
        if (n < sizeof key) memcpy(key, c, n);
        c += n + 1;
        told |= !strcmp(key, blame);
        if (!strcmp(key, "solver"))
            fli_text_add(out, fli_known_culprit(k)->name);
        else
            fli_settings_print_key(out, k->settings, key);
    }
    if (told) return;
    fli_text_addf(out, " (%s is ", blame);
    fli_settings_print_key(out, k->settings, blame);
    fli_text_add(out, ")");
}

static void look_at(fli_problems *p, const fli_rule *r)
{
    const fli_known *k = p->known;
    char blame[64] = "";
    fli_text line;
    if (!answerable(k, r->keys)) return;
    if (r->check) {
        fli_problems_note(p, r->check(k), r->keys);
        return;
    }
    if (!r->broken(k)) return;
    const fli_node *at = blamed(k, r->keys, blame, sizeof blame);
    fli_text_init(&line, k->ctx);
    word_sentence(k, r->sentence, blame, &line);
    p->said.failed |= line.failed;
    add_line(p, FL_ECONFIG, at, fli_text_get(&line), line.n);
    fli_text_fini(&line);
}

void fli_problems_look(fli_problems *p, const fli_rule *rules)
{
    for (const fli_rule *r = rules; r->keys && !fli_problems_fatal(p); r++) look_at(p, r);
}
