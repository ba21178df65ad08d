/* SPDX-License-Identifier: MIT */
/* For old programs that say #include <vipl.h>: put this folder on the include path (CMake target vipl::compat). */
#include "../vipl.h"
