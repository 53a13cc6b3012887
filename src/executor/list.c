#include "executor/executor.h"

const fli_executor *const fli_executor_list[] = {
    &fli_executor_threads,
    &fli_executor_loopback,
    NULL,
};
