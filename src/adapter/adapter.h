/* SPDX-License-Identifier: MIT */
/*
 * The adapter: one card, as a process. Programs and virtual machines connect to its sockets and get
 * a function each; a wire joins it to others. One thread does everything, in turns: requests and
 * frames that have arrived, then whatever the card has to do.
 */
#ifndef ADAPTER_ADAPTER_H
#define ADAPTER_ADAPTER_H

#include "adapter/clock.h"
#include "adapter/function.h"
#include "adapter/listen.h"
#include "adapter/log.h"
#include "adapter/stats.h"
#include "adapter/wire.h"
#include "devices/rnic/card/card.h"
#include "os/os.h"

/* bytes, padding and more included: then it is not valid */
enum { RNIC_MAX_FRAME = 9000 + 14 + 64 };

struct rnic_adapter_config {
    struct rnic_card_config card;
    const char *socket; /* path at which each connection gets the next free function; NULL: none */
    /* where fn-0.sock, fn-1.sock, ... are, one for each function; NULL: nowhere */
    const char *folder;
    const char *wire;   /* see wire.h; NULL: "switch" */
    const char *impair; /* how bad it is, and what faults the card has, see card.h; NULL: none */
    const char *faults;
    const char *log; /* path of the transaction log; NULL: none is kept */
    /* card.mac was chosen; else it is the wire's, or made here (mac.h); likewise card.mtu */
    bool has_mac;
    bool has_mtu;
    bool lingers;     /* ends some time after its last program has gone; else it never does */
    uint64_t spin_ns; /* how long it goes on looking for something to do before it sleeps */
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
    struct rnic_listener stats;
    struct rnic_adapter_wire *wire; /* NULL: there is none */
    struct rnic_source wire_source;
    struct rnic_log *log; /* NULL: none is kept */
    unsigned users;       /* functions with a program */
    bool is_deaf;         /* a listener has not accepted a connection, for want of descriptors */
    bool lingers;
    uint64_t spin_ns;
    bool has_held_back; /* a function may have something to do that had to wait for the card */
    /* the card has accessed memory, interrupted or sent since this was cleared */
    bool is_active;
    bool is_ended;    /* it is to end */
    uint64_t deaf_at; /* since when it is_deaf */
    uint64_t now;     /* of the last turn */
    struct rnic_clock clock;
    uint64_t used_at;              /* when the last program has gone */
    uint8_t data[RNIC_MAX_ACCESS]; /* of the reply that is being sent */
    uint8_t frame[RNIC_MAX_FRAME]; /* that has come by the wire */
};

/* 0, or an errno value: EALREADY: another adapter has one of the sockets. `error`: what could not
 * be had. */
int rnic_adapter_create(const struct rnic_adapter_config *config, struct rnic_adapter **out, char *error,
                        size_t size);
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
