/* Wall time. */
#ifndef FLI_BASE_CLOCK_H
#define FLI_BASE_CLOCK_H

double fli_clock_now(void); /* seconds, monotonic, from an arbitrary origin */

#endif
