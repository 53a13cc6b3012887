/* Ends with 0 if there is a GPU that can be used, else with 77 and why not. */
#include "cuda/runtime.h"

#include <stdio.h>

int main(void)
{
    int devices = 0, code = fli_cuda_count(&devices);
    if (!code && devices > 0) return 0;
    puts(code ? fli_cuda_error(code) : "no GPU");
    return 77;
}
