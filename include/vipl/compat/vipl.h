/* SPDX-License-Identifier: MIT */
/* For old programs that say #include <vipl.h>: put this folder on the include path (CMake target
 * vipl::compat). */
#ifndef VIPL_COMPAT_VIPL_H
#define VIPL_COMPAT_VIPL_H

/* The originals marked parameters with these, and so do programs that declare functions of their
 * own that way. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif

#include "../vipl.h"

#endif
