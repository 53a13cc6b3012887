/* The parts of the page, each in its own file. All of them are HTML or SVG for use within the page only. */
#ifndef FLI_REPORT_PAGE_H
#define FLI_REPORT_PAGE_H

#include "report/report.h"

/* page.css and page.js, turned into C by the build (cmake/embed.cmake); terminated. */
extern const char fli_page_css[], fli_page_js[];

/* The results table; the best number of a column whose header says what is better is bold. Nothing for an empty
 * grid. */
void fli_table_html(fli_text *t, const fli_report *r);
/* Samples per class and client, as a heat map: clients across, classes down. Nothing without a histogram. */
void fli_heatmap_svg(fli_text *t, const fli_report *r);
/* What page.js reads: the values behind the charts and the heat map, as JSON that is safe within <script>. */
fl_status fli_page_data(fli_text *t, const fli_report *r);
/* The key of series k, as a small picture of its own. */
void fli_page_key(fli_text *t, size_t k);

#endif
