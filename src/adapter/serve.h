/* SPDX-License-Identifier: MIT */
/* An adapter from its beginning to its end: that of the program vipl-rnicd, or of the fork that
 * stands in for it. */
#ifndef ADAPTER_SERVE_H
#define ADAPTER_SERVE_H

#include "adapter/adapter.h"

/* What an adapter is like of which nothing is said: a card of 256 functions with an address of its
 * own, and no socket yet. */
void rnic_adapter_defaults(struct rnic_adapter_config *config);

/*
 * Serves until it is to end. `lifeline`: where it is said that it does (rnic/start.h); -1: nowhere.
 * `runs`: called with the adapter before it serves, and with NULL when it has; NULL: nothing is. An
 * errno value, and in `what` what could not be had.
 */
int rnic_adapter_serve(const struct rnic_adapter_config *config, int lifeline,
                       void (*runs)(struct rnic_adapter *adapter), char *what, size_t size);

/* For a program that has no vipl-rnicd: in a fork of it, as if that had been started with --socket
 * PATH --linger (rnic/start.h). */
void rnic_adapter_fork(const char *path, int lifeline);

#endif
