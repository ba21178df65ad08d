/* SPDX-License-Identifier: MIT */
/* Starting the card's adapter: what the driver that starts it, and the adapter's program or the driver's fork, agree on. */
#ifndef RNIC_START_H
#define RNIC_START_H

/* What the adapter says on its lifeline, in one byte. */
enum rnic_adapter_start {
    RNIC_ADAPTER_FAILED, /* also: anything else */
    RNIC_ADAPTER_RUNS    /* or another one has the path already */
};

/* What the adapter's process does when it is a fork: serves the path until some time after its last program has gone. */
typedef void rnic_adapter_entry(const char *path, int lifeline);
/* The build puts it here (backend_table.c); NULL: the library has no adapter in it. */
extern rnic_adapter_entry *const rnic_adapter_in_fork;

#endif
