/* SPDX-License-Identifier: MIT */
/*
 * Starting the card's adapter: what the driver, which starts it, agrees on with the adapter's
 * process, which is the program vipl-rnicd or a fork of the driver's program.
 */
#ifndef RNIC_START_H
#define RNIC_START_H

/* One byte, which the adapter sends to the driver through its lifeline once it has started. */
enum rnic_adapter_start {
    RNIC_ADAPTER_FAILED, /* every other byte means the same */
    RNIC_ADAPTER_RUNS    /* this adapter serves the path, or another one does already */
};

/* The main function of an adapter that is a fork. It serves `path` until some time after its last
 * program has gone. */
typedef void rnic_adapter_entry(const char *path, int lifeline);
/* The build sets this pointer (rnic_table.c). NULL: the library was built without the
 * adapter. */
extern rnic_adapter_entry *const rnic_adapter_in_fork;

#endif
