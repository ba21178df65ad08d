/* SPDX-License-Identifier: MIT */
/*
 * A layer between core and a backend, there only when asked for: deterministic faults (VIPL_FAULTS,
 * docs/use/faults.md), a trace of every call (VIPL_TRACE=file), and in debug builds a check that core
 * and backend keep their contract.
 */
#ifndef VIPL_HOOK_HOOK_H
#define VIPL_HOOK_HOOK_H

#include "core/backend.h"

/* Opens the backend, through the hook if one of its settings is there. */
vipl_backend_opener vipl_hook_open;

#endif
