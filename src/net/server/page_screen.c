/* The page for people: it fetches FLI_NET_STATUS again and again, and shows it. */
#include "net/server/pages.h"

#include <string.h>

extern const char fli_status_html[], fli_status_css[], fli_status_js[]; /* from status.html, ... by cmake/embed.cmake */

/* Nothing but what comes from here; nobody may put it into a page of his own. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static fli_reply part(const char *type, const char *text)
{
    return (fli_reply){.code = 200, .type = type, .body = text, .n = strlen(text), .policy = policy};
}

fli_reply fli_page_screen(void *desk, fli_request *r)
{
    (void)desk, (void)r;
    return part("text/html; charset=utf-8", fli_status_html);
}

fli_reply fli_page_screen_css(void *desk, fli_request *r)
{
    (void)desk, (void)r;
    return part("text/css; charset=utf-8", fli_status_css);
}

fli_reply fli_page_screen_js(void *desk, fli_request *r)
{
    (void)desk, (void)r;
    return part("text/javascript; charset=utf-8", fli_status_js);
}
