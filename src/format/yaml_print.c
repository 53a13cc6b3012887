/* Maps and lists of maps go over lines of their own, two columns further in for each level; lists of values stay on
 * one line. */
#include "format/yaml_print.h"

typedef struct {
    fli_text *t;
    const fli_remark *remarks;
    size_t count;
} printer;

static void print_map(const printer *p, const fli_node *map, int indent, int hanging);

static int is_flat(const fli_node *list)
{
    for (const fli_node *c = list->first; c; c = c->next)
        if (c->type == FLI_NODE_MAP && c->first) return 0;
    return 1;
}

static void print_flow(const printer *p, const fli_node *n)
{
    if (n->type == FLI_NODE_SCALAR) {
        fli_print_string(p->t, n->text);
        return;
    }
    fli_text_add(p->t, n->type == FLI_NODE_MAP ? "{" : "[");
    for (const fli_node *c = n->first; c; c = c->next) {
        if (c->key) fli_print_string(p->t, c->key);
        if (c->key) fli_text_add(p->t, ": ");
        print_flow(p, c);
        if (c->next) fli_text_add(p->t, ", ");
    }
    fli_text_add(p->t, n->type == FLI_NODE_MAP ? "}" : "]");
}

static void end_line(const printer *p, const fli_node *n)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->remarks[i].at == n) fli_text_addf(p->t, "  # %s", p->remarks[i].text);
    fli_text_add(p->t, "\n");
}

static void print_list(const printer *p, const fli_node *list, int indent)
{
    for (const fli_node *c = list->first; c; c = c->next) {
        fli_text_addf(p->t, "%*s- ", indent, "");
        if (c->type == FLI_NODE_MAP && c->first) {
            print_map(p, c, indent + 2, 1);
            continue;
        }
        print_flow(p, c);
        end_line(p, c);
    }
}

/* `hanging`: the first key stands behind a dash. */
static void print_map(const printer *p, const fli_node *map, int indent, int hanging)
{
    for (const fli_node *c = map->first; c; c = c->next, hanging = 0) {
        int below = c->type == FLI_NODE_MAP ? c->first != NULL : c->type == FLI_NODE_LIST && !is_flat(c);
        fli_text_addf(p->t, "%*s", hanging ? 0 : indent, "");
        fli_print_string(p->t, c->key);
        fli_text_add(p->t, below ? ":" : ": ");
        if (!below) print_flow(p, c);
        end_line(p, c);
        if (below && c->type == FLI_NODE_MAP) print_map(p, c, indent + 2, 0);
        if (below && c->type == FLI_NODE_LIST) print_list(p, c, indent + 2);
    }
}

void fli_yaml_print(fli_text *t, const fli_node *root, const fli_remark *remarks, size_t count)
{
    print_map(&(printer){t, remarks, count}, root, 0, 0);
}
