/* Pieces of the page's JSON, for those who add a chart of their own to it. */
#ifndef FLI_REPORT_PAGE_DATA_H
#define FLI_REPORT_PAGE_DATA_H

#include "report/report.h"

void fli_data_number(fli_text *t, double v); /* null if it is not finite */
/* "title":...,"unit":...,"scale":... */
void fli_data_about(fli_text *t, const fl_metric *m);
/* The charts of clients.c, as members of "charts"; `after`: others come before them. */
fl_status fli_clients_data(fli_text *t, const fli_report *r, int after);

#endif
