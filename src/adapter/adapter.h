/* SPDX-License-Identifier: MIT */
/*
 * The adapter: one card, as a process. Programs and virtual machines connect to its sockets and get a function each; a wire joins
 * it to others. One thread does everything, in turns: requests and frames that have arrived, then whatever the card has to do.
 */
#ifndef ADAPTER_ADAPTER_H
#define ADAPTER_ADAPTER_H

#include "adapter/function.h"
#include "adapter/listen.h"
#include "devices/rnic/card.h"
#include "os/os.h"

struct rnic_adapter_config {
    struct rnic_card_config card;
    const char *socket; /* path at which each connection gets the next free function; NULL: none */
    const char *folder; /* where fn-0.sock, fn-1.sock, ... are, one for each function; NULL: nowhere */
    bool lingers;       /* ends some time after its last program has gone; else it never does */
};

struct rnic_adapter {
    struct rnic_card card;
    struct rnic_card_config config; /* constant */
    struct vipl_pollset set;
    struct vipl_waker end; /* signalled: it is to end */
    struct rnic_source end_source;
    struct rnic_function *functions; /* config.functions of them */
    struct rnic_listener pool;
    struct rnic_listener *fixed; /* one a function, or NULL */
    unsigned users;              /* functions with a program */
    bool is_deaf;                /* a listener has not accepted somebody, for want of descriptors */
    bool lingers;
    bool is_unsettled; /* a function may have something to do that had to wait for the card */
    bool is_active;    /* the card has accessed memory, interrupted or sent since this was cleared */
    bool is_ended;     /* it is to end */
    uint64_t now;      /* of the last turn */
    uint64_t used_at;  /* when the last program has gone */
    uint8_t data[RNIC_MOST_ACCESS]; /* of the reply that is being sent */
};

/* 0, or an errno value: EADDRINUSE: another adapter has one of the sockets. */
int rnic_adapter_create(const struct rnic_adapter_config *config, struct rnic_adapter **out);
void rnic_adapter_destroy(struct rnic_adapter *adapter);
/* One turn, without sleeping; the time is vipl_now_ns(). */
void rnic_adapter_turn(struct rnic_adapter *adapter);
/* Turns, and sleep in between, until the adapter is to end. */
void rnic_adapter_run(struct rnic_adapter *adapter);
/* rnic_adapter_run() is to return. From any thread; async-signal-safe. */
void rnic_adapter_end(struct rnic_adapter *adapter);

/* For its parts. */
void rnic_adapter_user_gone(struct rnic_adapter *adapter);

#endif
