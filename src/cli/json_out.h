/* JSON on stdout, for --format json, and from the library. */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include <jansson.h>

/* Prints a document, takes it, and returns an exit code; NULL: there was no memory for it. */
int json_out(json_t *document);
/* Values of any kind: what is no number is null, and what is no text is made one, as on a terminal. */
json_t *json_out_number(double v);
json_t *json_out_text(const char *s);

/* fl_text_fn whose argument is a json_t *: takes a document that the library prints. NULL: there was no memory. */
void json_take(void *document, const char *text);

#endif
