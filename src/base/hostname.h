/* SPDX-License-Identifier: MIT */
/* What this host is called, for backends' name services. */
#ifndef VIPL_BASE_HOSTNAME_H
#define VIPL_BASE_HOSTNAME_H

#include <stdbool.h>

/* Whether `name` is a name of this host: "localhost", or its name in the system, with its own domain or without one. */
bool vipl_hostname_is_own(const char *name);

#endif
