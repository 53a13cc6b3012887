/* Trains networks, saves them, and writes what they say of some images: for check.py. Needs the public header alone. */
#include "fedloom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 50, PIXELS = 28 * 28 };

static const char *const models[][2] = {
    {"mlp", "model={kind: mlp, hidden: [24, 12]}"},
    {"mlp-f64", "model={kind: mlp, hidden: [16]};precision=f64;data.normalize=standard"},
    {"cnn", "model={kind: cnn, layers: 'conv 4x5 same, pool 2, conv 6x3 stride 2, avgpool 2, fc 12'}"},
    {"cnn-f64", "model={kind: cnn, layers: 'pool 2, conv 4x3, conv 6x3 pad 1, pool 2'};precision=f64"},
    {"cnn-standard", "model={kind: cnn, layers: 'conv 8x5 stride 2, fc 9'};data.normalize=standard"},
};

static int complain(fl_ctx *ctx)
{
    fprintf(stderr, "make_models: %s\n", fl_ctx_error(ctx));
    return 1;
}

static int write_file(const char *folder, const char *name, const char *end, const void *p, size_t n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    FILE *f = fopen(path, "wb");
    return !f || fwrite(p, 1, n, f) != n || fclose(f);
}

static int train(fl_ctx *ctx, const char *folder, const char *name, const char *settings)
{
    char text[1024], *save = NULL;
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(ctx);
    snprintf(text, sizeof text,
             "data={kind: digits, samples: 300, test_samples: 100};partition={kind: iid, clients: 5};rounds=5;"
             "local.lr=0.1;output=%s/%s;%s",
             folder, name, settings);
    fl_status s = FL_OK;
    for (char *a = strtok_r(text, ";", &save); a && !s; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (!s) s = fl_run_save(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return s ? complain(ctx) : 0;
}

static int ask(fl_ctx *ctx, const char *folder, const char *name, const uint8_t *images)
{
    char path[1024];
    fl_model *model = NULL;
    double out[IMAGES * 10];
    const fl_samples samples = {.size = sizeof samples, .n = IMAGES, .dim = PIXELS, .u8 = images};
    snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, name);
    fl_status s = fl_model_load(ctx, path, &model);
    if (!s) s = fl_model_predict(ctx, model, &samples, out);
    fl_model_free(model);
    return s ? complain(ctx) : write_file(folder, name, ".expected", out, sizeof out);
}

int main(int argc, char **argv)
{
    static uint8_t images[IMAGES * PIXELS];
    uint32_t r = 1;
    int bad = argc != 2;
    fl_ctx *ctx = fl_ctx_new();
    for (size_t i = 0; i < sizeof images; i++) {
        r = r * 1664525u + 1013904223u;
        images[i] = (uint8_t)(i / 28 % 28 > 5 + i / PIXELS % 15 ? r >> 24 : r >> 28); /* something to see */
    }
    if (!bad) bad = write_file(argv[1], "images", ".u8", images, sizeof images);
    for (size_t i = 0; !bad && i < sizeof models / sizeof *models; i++)
        bad = train(ctx, argv[1], models[i][0], models[i][1]) || ask(ctx, argv[1], models[i][0], images);
    fl_ctx_free(ctx);
    return bad;
}
