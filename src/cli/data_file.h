/* Which kind of data a file holds, by the ending of its name. */
#ifndef CLI_DATA_FILE_H
#define CLI_DATA_FILE_H

typedef struct {
    const char *suffix, *kind;
    const char *key[2];             /* of `data`, where the first file goes, and the second; NULL: there is none */
    const char *also_key, *also_is; /* a further key of `data`, and its value; NULL: none */
} data_format;

/* NULL: the ending does not say. */
const data_format *data_format_of(const char *file);
/* All endings, for a sentence. */
extern const char data_endings[];

#endif
