#include "run/client_parts.h"
