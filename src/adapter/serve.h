/* SPDX-License-Identifier: MIT */
/* Runs an adapter from its creation to its end: in the program vipl-rnicd, or in a fork that
 * replaces the program. */
#ifndef ADAPTER_SERVE_H
#define ADAPTER_SERVE_H

#include "adapter/adapter.h"

/* Sets the defaults: a card of 256 functions with an address of its own, and no socket. */
void rnic_adapter_defaults(struct rnic_adapter_config *config);

/*
 * Creates an adapter and serves until it ends. `lifeline`: the descriptor on which the start is
 * reported (rnic/start.h); -1: none. `runs`: called with the adapter before it serves, and with
 * NULL afterwards; may be NULL. Returns 0 or an errno value, and stores the name of the resource
 * that failed in `what`.
 */
int rnic_adapter_serve(const struct rnic_adapter_config *config, int lifeline,
                       void (*runs)(struct rnic_adapter *adapter), char *what, size_t size);

/* The main function of an adapter in a fork, for programs that have no vipl-rnicd: serves as
 * vipl-rnicd does with --socket PATH --linger (rnic/start.h). */
void rnic_adapter_fork(const char *path, int lifeline);

#endif
