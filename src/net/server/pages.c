/* Every page there is. */
#include "net/server/pages.h"

#include <assert.h>

static size_t small_body(void *desk)
{
    (void)desk;
    return FLI_NET_SMALL_BODY;
}

/* Before the run has begun nobody can have an answer to give. */
static size_t answer_body(void *desk)
{
    size_t most = fl_server_answer_bytes(((fli_desk *)desk)->server);
    return most ? most : FLI_NET_SMALL_BODY;
}

const fli_page fli_pages[] = {
    {"GET", FLI_NET_FEDERATION, 0, NULL, fli_page_federation},
    {"POST", FLI_NET_JOIN, FLI_PAGE_ACTS, small_body, fli_page_join},
    {"GET", FLI_NET_TERMS, FLI_PAGE_JOINED, NULL, fli_page_terms},
    {"GET", FLI_NET_ASK, FLI_PAGE_JOINED, NULL, fli_page_ask},
    {"POST", FLI_NET_ANSWER, FLI_PAGE_JOINED, answer_body, fli_page_answer},
    {"POST", FLI_NET_REFUSE, FLI_PAGE_JOINED, small_body, fli_page_refuse},
    {"POST", FLI_NET_ALIVE, FLI_PAGE_JOINED, small_body, fli_page_alive},
    {"GET", FLI_NET_STATUS, FLI_PAGE_LOOK, NULL, fli_page_status},
    {"GET", FLI_NET_HEALTH, FLI_PAGE_LOOK | FLI_PAGE_BOTH, NULL, fli_page_health},
    {"GET", FLI_NET_METRICS, FLI_PAGE_LOOK, NULL, fli_page_metrics},
    {"GET", "/", FLI_PAGE_LOOK, NULL, fli_page_screen},
    {"GET", "/status.css", FLI_PAGE_LOOK, NULL, fli_page_screen_css},
    {"GET", "/status.js", FLI_PAGE_LOOK, NULL, fli_page_screen_js},
    {0},
};
static_assert(sizeof fli_pages / sizeof *fli_pages <= FLI_NET_PAGES, "there is a row for each page's replies");
