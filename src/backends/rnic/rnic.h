/* SPDX-License-Identifier: MIT */
/*
 * The device "rnic": VIs on an RDMA card. This backend is written in terms of the verbs
 * (verbs/verbs.h).
 *
 *   rnic.c      the table of operations: opening and closing, limits; the list of open cards
 *   describe.c  what the card is, in words and numbers
 *   names.c     the name service: names of hosts and addresses of cards
 *   region.c    registered memory: maps and steering tags; memory of the card
 *   vi.c        a VI's queue pair: creation, destruction, and the reset between two connections
 *   data.c      posts; completions; the growth of queues
 *   loop.c      progress, sleeping
 *   cm.c        control messages, as bytes
 *   connect.c   the requesting side of connections, and peer-to-peer requests
 *   listen.c    the accepting side
 *   conn.c      events of connections: control messages and errors of queue pairs
 *
 * A process uses one function of the card. Its NIC handles share the function; each has its own
 * realm and its own completion queue.
 *
 * Copies: none. The card moves payload directly between the memory of the programs.
 *
 * Locks: the registry's lock (rank BACKEND) guards everything about connecting, the list of cards,
 * and events. `rx` of a NIC handle (rank BACKEND_RX) guards the taking of completions and the
 * growth of queues. `wanting_lock` (rank BACKEND_TX) guards one list. Core holds the VI's send or
 * receive lock around posts.
 */
#ifndef BACKENDS_RNIC_RNIC_H
#define BACKENDS_RNIC_RNIC_H

#include <string.h>

#include "backends/rnic/cm.h"
#include "backends/rnic/verbs/verbs.h"
#include "base/deferred.h"
#include "base/list.h"
#include "core/backend.h"
#include "core/backend_up.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"

struct rnic_connect_op;
struct rnic_offer;

enum { RNIC_QP_CHUNK = 1024, RNIC_REGION_BUCKETS = 4096, RNIC_DEVICE_NAME = 64 };

/* A card that this process has opened. The registry's lock guards the fields that have no other
 * guard. */
struct rnic_device {
    struct vipl_list link;       /* registry.devices, while new NIC handles may use the card */
    char name[RNIC_DEVICE_NAME]; /* constant: the text after "rnic:" */
    struct vipl_rnic *rnic;      /* constant */
    struct vipl_list nics;       /* rnic_nic.link */
    unsigned nic_count;
    /* atomic, relaxed: the card is dead, and its connections and requests have failed */
    uint32_t torn_down;
    struct vipl_list listeners;           /* rnic_listener.link */
    struct vipl_list incomings;           /* rnic_incoming.link */
    struct vipl_list ops;                 /* rnic_connect_op.link */
    bool has_accepted;                    /* one of `ops` may be accepted */
    struct vipl_list accepting;           /* rnic_vi.accepting */
    struct vipl_list pending_disconnects; /* rnic_pending_disconnect.link */
    uint64_t disconnect_at;               /* when pending_disconnects are sent again */
    /* atomic, relaxed: a request or a DISCONNECT waits for a time; written under the registry's
     * lock */
    uint32_t timed;
    uint32_t last_listener;
    /* serial number of the last request. The first one is random, because another process may have
     * used the function and its queue pairs before */
    uint32_t last_serial;
    /* The struct rnic_vi of each queue pair, in chunks. Atomic: written under the registry's lock
     * together with `rx` of the VI's NIC handle, read under either */
    void *vis[RNIC_QP_LIMIT / RNIC_QP_CHUNK];
};

/* An opened NIC handle, which core passes to the operations. */
struct rnic_nic {
    struct vipl_nic *core;      /* constant */
    struct rnic_device *device; /* constant */
    struct vipl_rnic *rnic;     /* constant: the device's */
    struct vipl_list link;      /* device->nics; guarded by the registry */
    struct vipl_rnic_pd pd;     /* constant: the realm */
    unsigned vector;            /* constant: of the completion queue */
    /* atomic, relaxed: other NIC handles have this vector too; never 0 again */
    uint32_t shares_vector;
    struct vipl_rnic_cq *cq; /* constant */
    /* rank BACKEND_RX: held while completions are taken and queues grow */
    struct vipl_mutex rx;
    /* no completion since then, in ns; 0: not known. Guarded by rx */
    uint64_t silent_since;
    struct vipl_list vis;           /* rnic_vi.link; guarded by the registry */
    struct vipl_mutex wanting_lock; /* rank BACKEND_TX */
    /* rnic_vi.wanting: a post found no room; guarded by wanting_lock */
    struct vipl_list wanting;
    /* atomic, relaxed: the list is not empty; written under wanting_lock */
    uint32_t has_wanting;
    /* constant: the descriptors of the interrupts and of the bus; fd -1: there are no interrupts */
    struct vipl_pollset waits;
    struct vipl_mutex regions_lock;                /* rank BACKEND_MEM; guards the next two */
    struct vipl_list regions[RNIC_REGION_BUCKETS]; /* rnic_region.link, by tag */
    bool regions_ended;
};

enum rnic_vi_state {
    RNIC_VI_IDLE,
    RNIC_VI_REQUESTING, /* the VI has sent a request */
    RNIC_VI_WAITING,    /* peer-to-peer: the peer will send the request */
    RNIC_VI_ACCEPTING,  /* ACCEPT is sent; the requester will send READY */
    RNIC_VI_CONNECTED
};

/* The backend's part of a VI, from a type-stable pool. The registry's lock guards the fields that
 * have no other guard. */
struct rnic_vi {
    struct vipl_list link; /* nic->vis; in the pool: free link */
    struct vipl_vi *vi;    /* constant while live */
    void *nic;             /* struct rnic_nic; atomic; NULL: not live */
    struct vipl_rnic_qp qp;
    enum rnic_vi_state state;          /* set by rnic_vi_set() */
    struct vipl_list accepting;        /* device->accepting, while it is ACCEPTING */
    bool was_connected;                /* the VI has been CONNECTED since it began to accept */
    struct vipl_rnic_peer peer;        /* ACCEPTING, CONNECTED */
    uint32_t serial;                   /* of the request under way or of the connection */
    struct rnic_connect_op *op;        /* REQUESTING, WAITING; and ACCEPTING, peer-to-peer */
    struct vipl_vi_params peer_params; /* ACCEPTING */
    bool peer_gone;                    /* the peer knows of the end of the connection */
    /* the VI is being quiesced: errors of its queue pair are ignored */
    bool ending;
    uint32_t active; /* atomic, relaxed: the queue pair has left IDLE */
    /* atomic, relaxed: core knows that the VI is connected, and the card gets its receives */
    uint32_t open;
    uint32_t broken;  /* atomic, relaxed: the connection has failed; sends fail */
    uint32_t drained; /* atomic, relaxed: DRAINED was taken; written under rx */
    /* the card knows of receives held back; guarded by the receive lock */
    bool held;
    struct vipl_list wanting;          /* nic->wanting; guarded by wanting_lock */
    struct vipl_deferred grow;         /* owned by the thread that has set `deferred` */
    VIPL_FUTEX_WORD uint32_t deferred; /* atomic: enum in data.c */
};

/* In core's VI: the area of this backend. */
struct rnic_vi_area {
    struct rnic_vi *rv;
};

/* In core's connection request: the area of this backend. */
struct rnic_conn_area {
    struct rnic_offer *offer; /* NULL: the requester is gone; guarded by the registry */
};

struct vipl_rnic_registry {
    struct vipl_mutex lock; /* rank BACKEND */
    struct vipl_list devices;
};
extern struct vipl_rnic_registry vipl_rnic_registry;

static inline struct rnic_nic *rnic_nic_of(struct vipl_be_nic *be)
{
    return (struct rnic_nic *)(void *)be;
}
static inline struct rnic_vi *rnic_vi_of(struct vipl_vi *vi)
{
    return ((struct rnic_vi_area *)vipl_vi_area(vi))->rv;
}
static inline struct rnic_conn_area *rnic_conn_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}
static inline struct rnic_nic *rnic_nic_of_vi(struct rnic_vi *rv)
{
    return vipl_load_ptr(&rv->nic);
}

static inline void rnic_vi_set(struct rnic_vi *rv, enum rnic_vi_state state)
{
    vipl_list_remove(&rv->accepting);
    if (state == RNIC_VI_ACCEPTING) {
        vipl_list_append(&rnic_nic_of_vi(rv)->device->accepting, &rv->accepting);
    }
    rv->state = state;
}
static inline bool rnic_same_peer(const struct vipl_rnic_peer *a, const struct vipl_rnic_peer *b)
{
    return memcmp(a->mac, b->mac, sizeof(a->mac)) == 0 && a->function == b->function && a->qp == b->qp;
}

/*
 * Returns the live VI that has the queue pair, or NULL. The caller holds the registry's lock, or
 * `rx` of a NIC handle. Under `rx` alone, a VI of another NIC handle may be destroyed meanwhile:
 * the caller compares `nic`.
 */
static inline struct rnic_vi *rnic_vi_at(struct rnic_device *device, uint32_t qp)
{
    if (qp >= RNIC_QP_LIMIT) {
        return NULL;
    }
    void **chunk = vipl_load_ptr(&device->vis[qp / RNIC_QP_CHUNK]);
    return chunk == NULL ? NULL : vipl_load_ptr(&chunk[qp % RNIC_QP_CHUNK]);
}

/* --- Operations of the table in rnic.c that other files have --- */

/* describe.c: what the card is, as vipl-info shows it. */
void vipl_rnic_describe(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out);

/* names.c: names of hosts and addresses of cards. */
VIP_RETURN vipl_rnic_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                             struct vipl_address *out);
VIP_RETURN vipl_rnic_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name,
                             size_t size);

/* region.c: registered memory. The card's tags are its handles. */
VIP_RETURN vipl_rnic_region_add(struct vipl_be_nic *be, struct vipl_region_params *params);
VIP_RETURN vipl_rnic_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
VIP_RETURN vipl_rnic_region_change(struct vipl_be_nic *be, const struct vipl_region_params *params);
VIP_RETURN vipl_rnic_regions_end(struct vipl_be_nic *be);
VIP_RETURN vipl_rnic_memory_alloc(struct vipl_be_nic *be, size_t bytes, VIPX_DEVICE_MEMORY kind, void **out);
VIP_RETURN vipl_rnic_memory_free(struct vipl_be_nic *be, void *address);

/* loop.c: progress and sleeping. vipl_rnic_loop_open() makes what a NIC handle sleeps on; false: no
 * descriptors are left. */
bool vipl_rnic_loop_open(struct rnic_nic *nic);
void vipl_rnic_loop_close(struct rnic_nic *nic);
void vipl_rnic_poll(struct vipl_be_nic *be);
void vipl_rnic_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_rnic_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);

#endif
