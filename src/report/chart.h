/* A chart of lines that are there already, whatever they were made from. */
#ifndef FLI_REPORT_CHART_H
#define FLI_REPORT_CHART_H

#include "report/report.h"

typedef struct {
    fli_point *points;
    size_t count;
} fli_line;

/* As fli_chart_svg, with a line per series of the report; of x and y only title, unit and scale are looked at. */
fl_status fli_chart_lines(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y,
                          const fli_line *lines, int for_page);

#endif
