/* One sentence about the last failure: functions of the table have no context to leave it in. */
#include "mpi/carry.h"

#include <stdarg.h>
#include <stdio.h>

static char last[1024];

const char *fl_mpi_error(void) { return last; }

fl_status fli_mpi_fail(fl_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last, sizeof last, fmt, ap);
    va_end(ap);
    return status;
}

fl_status fli_mpi_check(int code, const char *what)
{
    char said[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return FL_OK;
    if (MPI_Error_string(code, said, &n) || !n) snprintf(said, sizeof said, "error %d", code);
    return fli_mpi_fail(FL_ESYSTEM, "%s: %s", what, said);
}
