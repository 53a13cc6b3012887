/* What a trained model says of samples. */
#include "model/latent.h"

#include <math.h>

size_t fli_model_outputs(const fli_model *m)
{
    if (!m->desc->predict && !m->desc->logits) return 0;
    if (m->desc->traits & FLI_MODEL_UNSUPERVISED) return m->latent->size(m);
    return m->desc->traits & FLI_MODEL_CLASSIFIER ? m->classes : 1;
}

/* In double, so that logits of single precision keep their order. */
static void softmax(size_t classes, double *z)
{
    double most = z[0], sum = 0;
    for (size_t k = 1; k < classes; k++)
        if (z[k] > most) most = z[k];
    for (size_t k = 0; k < classes; k++) sum += z[k] = exp(z[k] - most);
    for (size_t k = 0; k < classes; k++) z[k] /= sum;
}

void fli_model_predict(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch)
{
    if (m->desc->predict) {
        m->desc->predict(m, x, b, out, scratch);
        return;
    }
    m->space.ops->to_f64(b->n * m->classes, m->desc->logits(m, x, b, scratch), out);
    for (size_t i = 0; i < b->n; i++) softmax(m->classes, out + i * m->classes);
}
