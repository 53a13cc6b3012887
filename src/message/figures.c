#include "message/figures.h"

#include "base/number.h"
#include "bilevel/bilevel.h"
#include "model/latent.h"

#include <math.h>

static void levels_parts(const fli_ask *ask, fli_part *down, fli_part *up)
{
    *down++ = (fli_part){"(x, y)", FLI_WHOLE, 0};
    if (ask->flags & FLI_LEVELS_PRODUCT) *down++ = (fli_part){"v", FLI_LOWER, 1};
    *down = (fli_part){NULL};
    *up++ = (fli_part){"derivative", ask->flags & FLI_LEVELS_LOWER ? FLI_LOWER : FLI_WHOLE, 0, FLI_VALUE};
    if (ask->flags & FLI_LEVELS_UPPER) *up++ = (fli_part){"f_i", FLI_NUMBER, 0, FLI_VALUE};
    *up = (fli_part){NULL};
}

void fli_figures_parts(const fli_ask *ask, size_t numbers, size_t cells, fli_part down[FLI_FIGURES_PARTS],
                       fli_part up[FLI_FIGURES_PARTS])
{
    int model = ask->kind == FLI_ASK_OWN_MODEL;
    if (ask->kind == FLI_ASK_LEVELS) {
        levels_parts(ask, down, up);
        return;
    }
    *down++ = (fli_part){"x", FLI_WHOLE, 0};
    if (model || ask->flags & (FLI_FIGURES_OWN | FLI_FIGURES_POTENTIAL)) *down++ = (fli_part)FLI_START_PART;
    if (!model && ask->flags & FLI_FIGURES_POTENTIAL && numbers)
        *down++ = (fli_part){"numbers", FLI_NUMBER, 0, FLI_FORGET, 0, numbers};
    *down = (fli_part){NULL};
    *up++ = (fli_part){"figures", FLI_NUMBER, 0, FLI_VALUE, 0, model ? 1 : FLI_FIGURES};
    if (model) *up++ = (fli_part){"own model", FLI_WHOLE, 0, FLI_VALUE};
    if (!model && ask->flags & FLI_FIGURES_GRADIENT) *up++ = (fli_part){"gradient", FLI_WHOLE, 0, FLI_VALUE};
    if (!model && ask->flags & FLI_FIGURES_AHEAD)
        *up++ = (fli_part){"gradient at the next second block", FLI_WHOLE, 1, FLI_VALUE};
    if (!model && ask->flags & FLI_FIGURES_POTENTIAL)
        *up++ = (fli_part){"potential", FLI_NUMBER, FLI_FIGURES_POTENTIAL_AT, FLI_VALUE, 0, FLI_POTENTIAL_TERMS};
    if (!model && ask->flags & FLI_FIGURES_CLUSTERS && cells)
        *up++ = (fli_part){"clusters", FLI_NUMBER, FLI_FIGURES_CLUSTERS_AT, FLI_VALUE, 0, cells};
    *up = (fli_part){NULL};
}

size_t fli_figures_cells(const fli_model *m, size_t classes)
{
    return m->desc->clusters ? m->latent->size(m) * classes : 0;
}

/* Whether v is a number of samples, of at most that many. */
static int counts(double v, double most) { return v >= 0 && v <= most && v == floor(v); }

const char *fli_figures_wrong(const double *num)
{
    double all = FLI_HAS_TRAIN + FLI_HAS_TEST + FLI_HAS_OWN + FLI_HAS_PSEUDO;
    double train = num[FLI_FIGURE_TRAIN_N], test = num[FLI_FIGURE_TEST_N];
    if (!counts(num[FLI_FIGURE_HAS], all)) return "it claims figures that do not exist";
    unsigned has = (unsigned)num[FLI_FIGURE_HAS];
    if (!counts(train, UINT32_MAX) || !counts(test, UINT32_MAX)) return "a number of samples is impossible";
    if (has & (FLI_HAS_TRAIN | FLI_HAS_OWN) && !(train > 0))
        return "it has figures of training samples, but no samples";
    if (has & FLI_HAS_TEST && !(test > 0)) return "it has figures of test samples, but no samples";
    if (!counts(num[FLI_FIGURE_TRAIN_HITS], train) || !counts(num[FLI_FIGURE_OWN_TRAIN_HITS], train) ||
        !counts(num[FLI_FIGURE_TEST_HITS], test) || !counts(num[FLI_FIGURE_OWN_TEST_HITS], test) ||
        !counts(num[FLI_FIGURE_PSEUDO_N], UINT32_MAX) || !counts(num[FLI_FIGURE_PSEUDO_HITS], num[FLI_FIGURE_PSEUDO_N]))
        return "more of its samples are right than it has";
    return NULL;
}

/* Entropies of a semi-supervised objective may make it negative, and so may an upper level. */
const char *fli_losses_wrong(const fli_model *m, const double *num, char *sentence, size_t n)
{
    const double rounding = 1e-3; /* of all kernels and precisions, by far */
    static const struct {
        size_t at;
        const char *name;
    } losses[] = {{FLI_FIGURE_TRAIN_LOSS, "training loss"},
                  {FLI_FIGURE_TEST_LOSS, "test loss"},
                  {FLI_FIGURE_OWN_TRAIN_LOSS, "own model's training loss"},
                  {FLI_FIGURE_OWN_TEST_LOSS, "own model's test loss"}};
    if (!(m->desc->traits & FLI_MODEL_NONNEGATIVE) || m->bilevel || (m->latent && !m->desc->clusters)) return NULL;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (!(num[losses[i].at] < -rounding)) continue;
        fli_snprintf(sentence, n, "its %s is %g, and that of %s is never negative", losses[i].name, num[losses[i].at],
                     m->desc->name);
        return sentence;
    }
    return NULL;
}
