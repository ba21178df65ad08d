/* SPDX-License-Identifier: MIT */
/*
 * An optional layer between core and a backend: deterministic faults (VIPL_FAULTS,
 * docs/use/faults.md), a trace of each call (VIPL_TRACE=file), and in debug builds a check that
 * core and backend keep their contract.
 */
#ifndef VIPL_HOOK_HOOK_H
#define VIPL_HOOK_HOOK_H

#include "core/backend.h"

/* Opens a device of a backend, with the hook around it if one of the hook's settings is set. */
vipl_backend_opener vipl_hook_open;

#endif
