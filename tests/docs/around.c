/* What is around the statements in the documentation (BLOCK): run.sh compiles this file once for each of them. */
#include <fedloom_extend.h>
#include <fedloom_halves.h>

#include <stdio.h>
#include <stdlib.h>

static int complain(fl_ctx *ctx)
{
    fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    return 1;
}

int inside(fl_ctx *ctx, fl_config *cfg, fl_run *run, fl_samples train, fl_holding who, const uint8_t *pixels,
           const int32_t *y, size_t n, uint32_t i, fl_bytes card, fl_client *client, fl_server *server);
int inside(fl_ctx *ctx, fl_config *cfg, fl_run *run, fl_samples train, fl_holding who, const uint8_t *pixels,
           const int32_t *y, size_t n, uint32_t i, fl_bytes card, fl_client *client, fl_server *server)
{
    {
#include BLOCK
    }
    return 0;
}
