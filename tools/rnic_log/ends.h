/* SPDX-License-Identifier: MIT */
/*
 * Connections to a card behind a socket, one for each function of a log. A thread handles what the
 * card sends on each of them while the program's own thread waits on another one: a card that has
 * one clock for all of its functions may need the memory of one before it answers another.
 */
#ifndef RNIC_LOG_ENDS_H
#define RNIC_LOG_ENDS_H

#include <pthread.h>

#include "bus/host.h"
#include "devices/rnic/card/card.h"

struct end {
    struct ends *all;
    unsigned fn;
    struct rnic_bus_host host;
    /* the user's: the driver has chosen big-endian doorbells; those that are not rung yet */
    bool is_big;
    unsigned doorbells;
    struct rnic_transaction doorbell[16];
};

struct ends {
    const char *path;
    unsigned wait_ms;
    struct rnic_bus_host_ops ops; /* their context is a struct end */
    void (*gone)(void *context);  /* a connection has ended by itself */
    void *context;
    struct vipl_thread thread;
    struct vipl_waker waker;
    uint32_t is_behind;   /* atomic: messages are kept; any thread sets it, the thread above takes it */
    pthread_mutex_t lock; /* taken before a connection's lock; guards what follows */
    bool is_over;
    /* NULL: there is none. The user's thread alone changes them. */
    struct end *ends[RNIC_CARD_MAX_FUNCTIONS];
};

/* Begins with none. `behind` of the operations is not used. Returns an errno value. */
int ends_begin(struct ends *ends, const char *path, unsigned wait_ms, const struct rnic_bus_host_ops *ops,
               void (*gone)(void *context), void *context);
void ends_end(struct ends *ends);
/* Connects. Returns an errno value; *why is more than that, or NULL. */
int ends_open(struct ends *ends, unsigned fn, const char **why);
void ends_close(struct ends *ends, unsigned fn);

#endif
