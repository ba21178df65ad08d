/* SPDX-License-Identifier: MIT */
/* The names of this host, for the name services of backends. */
#ifndef VIPL_BASE_HOSTNAME_H
#define VIPL_BASE_HOSTNAME_H

#include <stdbool.h>

/* Returns true if `name` is a name of this host: "localhost", or the host's name, with or without
 * its domain. */
bool vipl_hostname_is_own(const char *name);

#endif
