/* SPDX-License-Identifier: MIT */
/*
 * The adapter: a process that runs one card. Each program or virtual machine that connects to one
 * of its sockets gets a function of the card; a wire joins the card to other cards. A single thread
 * does all the work, in turns: first it handles requests and frames that have arrived, then it runs
 * the card.
 */
#ifndef ADAPTER_ADAPTER_H
#define ADAPTER_ADAPTER_H

#include "adapter/clock.h"
#include "adapter/function.h"
#include "adapter/listen.h"
#include "adapter/log.h"
#include "adapter/record.h"
#include "adapter/stats.h"
#include "adapter/wire.h"
#include "devices/rnic/card/card.h"
#include "os/os.h"

/* bytes of a frame, with padding; a longer frame is not valid */
enum { RNIC_MAX_FRAME = 9000 + 14 + 64 };

struct rnic_adapter_config {
    struct rnic_card_config card;
    const char *socket; /* path at which each connection gets the next free function; NULL: none */
    /* the folder of fn-0.sock, fn-1.sock, ..., one socket for each function; NULL: none */
    const char *folder;
    /* path at which each connection gets the next free function and speaks the bus protocol; NULL:
     * none */
    const char *bus;
    const char *wire;   /* see wire.h; NULL: "switch" */
    const char *impair; /* how bad the wire is, see card.h; NULL: not at all */
    const char *faults; /* what the card does wrong, see card.h; NULL: nothing */
    const char *log;    /* path of the transaction log; NULL: none is kept */
    bool records;       /* the log is to be enough for a replay */
    /* the user has chosen card.mac; false: the wire's address, or one that mac.c makes */
    bool has_mac;
    bool has_mtu;     /* the user has chosen card.mtu; false: the wire's */
    bool lingers;     /* the adapter ends some time after its last program; false: it never does */
    uint64_t spin_ns; /* how long the adapter polls before it sleeps */
};

struct rnic_adapter {
    struct rnic_card card;
    struct rnic_card_config config; /* constant */
    struct vipl_pollset set;
    struct vipl_waker end; /* signalled when the adapter shall end */
    struct rnic_source end_source;
    struct rnic_function *functions; /* config.functions of them */
    struct rnic_listener pool;
    struct rnic_listener *fixed; /* one for each function; NULL: no folder */
    struct rnic_listener bus;
    struct rnic_listener stats;
    struct rnic_adapter_wire *wire; /* NULL: there is none */
    struct rnic_source wire_source;
    struct rnic_log log;
    struct rnic_recorder *recorder; /* of that log; NULL: it is not for a replay */
    unsigned users;                 /* functions with a program */
    /* its program was sent DMA_WRITEs, and may not have executed them; NULL: there is none */
    struct rnic_function *posted;
    bool is_deaf; /* a listener could not accept a connection: no descriptors were left */
    bool lingers;
    uint64_t spin_ns;
    bool has_held_back; /* a function may have a request or store that had to wait for the card */
    /* the card has accessed memory, raised an interrupt or sent a frame since this was cleared */
    bool is_active;
    bool is_ended;    /* the adapter shall end */
    uint64_t deaf_at; /* when is_deaf was set */
    uint64_t now;     /* the time of the last turn */
    struct rnic_clock clock;
    uint64_t used_at;              /* when the last program ended */
    uint8_t data[RNIC_MAX_ACCESS]; /* of the reply that is being sent */
    uint8_t frame[RNIC_MAX_FRAME]; /* a frame that was received from the wire */
};

/* Creates an adapter. Returns 0 or an errno value, and stores the name of the resource that failed
 * in `error`. EALREADY: another adapter has one of the sockets. */
int rnic_adapter_create(const struct rnic_adapter_config *config, struct rnic_adapter **out, char *error,
                        size_t size);
void rnic_adapter_destroy(struct rnic_adapter *adapter);
/* Makes one turn, without sleeping, at the time vipl_now_ns(). */
void rnic_adapter_turn(struct rnic_adapter *adapter);
/* Makes turns, and sleeps between them, until rnic_adapter_end() is called or the adapter ends by
 * itself. */
void rnic_adapter_run(struct rnic_adapter *adapter);
/* Makes rnic_adapter_run() return. Any thread; async-signal-safe. */
void rnic_adapter_end(struct rnic_adapter *adapter);

/* Called by function.c when a program has ended. */
void rnic_adapter_user_gone(struct rnic_adapter *adapter);

#endif
