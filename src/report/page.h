/* The parts of the page, each in its own file. All of them are HTML or SVG for use within the page only. */
#ifndef FLI_REPORT_PAGE_H
#define FLI_REPORT_PAGE_H

#include "report/report.h"

/* page.css and the files in js/, turned into C by the build (cmake/embed.cmake); terminated. */
extern const char fli_page_css[], fli_js_axis[], fli_js_chart[], fli_js_read[], fli_js_save[], fli_js_page[],
    fli_js_live[];

/* Who leads, in a sentence. Nothing if the table has no goal, or nobody has a number there. */
void fli_verdict_html(fli_text *t, const fli_report *r);
/* The results table, and what its signs mean. Nothing for an empty grid. */
void fli_table_html(fli_text *t, const fli_report *r);
/* How accuracy is spread over clients, who gains and who loses. Nothing where clients are not known. */
fl_status fli_clients_html(fli_text *t, const fli_report *r);
/* Samples per class and client, as a heat map: clients across, classes down. Nothing without a histogram. */
void fli_heatmap_svg(fli_text *t, const fli_report *r);
/* In which settings the configurations differ, and what they share. Nothing without configurations, or for too many. */
fl_status fli_differences_html(fli_text *t, const fli_report *r);
/* What the scripts read: the values behind the charts and the heat map, as JSON that is safe within <script>. */
fl_status fli_page_data(fli_text *t, const fli_report *r);
/* The key of series k, as a small picture of its own. */
void fli_page_key(fli_text *t, size_t k);
/* A figure of the page around a chart, which the caller adds before fli_figure_end; `id` is that of its plot. */
void fli_figure_begin(fli_text *t, const char *id, const fl_metric *x, const fl_metric *y);
void fli_figure_end(fli_text *t);

#endif
