/* A metric's value as text. */
#include "cli/cli.h"

const char *value_text(const fl_metric *m, double v, char text[VALUE_MAX_LEN])
{
    if (m->unit == FL_UNIT_NONE)
        snprintf(text, VALUE_MAX_LEN, "%.*g", m->digits ? m->digits : 5, v);
    else if (m->unit == FL_UNIT_SHARE || m->unit == FL_UNIT_SCORE)
        snprintf(text, VALUE_MAX_LEN, "%.4f", v);
    else if (m->unit == FL_UNIT_COUNT)
        snprintf(text, VALUE_MAX_LEN, "%.0f", v);
    else if (m->unit == FL_UNIT_BYTES)
        snprintf(text, VALUE_MAX_LEN, "%.1f", v / 1e6);
    else
        snprintf(text, VALUE_MAX_LEN, "%.*f", m->digits ? m->digits : v >= 9.95 ? 1 : 4, v);
    return text;
}
