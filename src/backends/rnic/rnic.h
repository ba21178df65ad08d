/* SPDX-License-Identifier: MIT */
/*
 * The device "rnic": VIs on an RDMA card. VIPL's backend in terms of the verbs of verbs.h.
 *
 *   rnic.c      the operations of the contract: opening and closing, limits; the cards that this process has open
 *   describe.c  what the card is, in words and numbers
 *   names.c     the name service: names of hosts and addresses of cards
 *   region.c    registered memory: maps and steering tags
 *   vi.c        a VI's queue pair: its beginning, its end, and what comes between two connections
 *   data.c      posts; completions; room for more
 *   loop.c      progress, sleeping
 *   cm.c        control messages, as bytes
 *   connect.c   the requesting side of connections, and peer-to-peer requests
 *   listen.c    the accepting side
 *   conn.c      events of connections: what control messages and errors of queue pairs lead to
 *
 * One function of the card serves a process: its NIC handles share it, and each has a realm and a
 * completion queue of its own.
 *
 * Copies: none. The card moves payload between the memory of the programs.
 *
 * Locks: the registry's (rank BACKEND) guards everything about connecting, the list of cards and
 * events; `rx` of a NIC handle (rank BACKEND_RX) the taking of completions and the growth of
 * queues; `wanting_lock` (rank BACKEND_TX) one list. A VI's two queues are posted to under the VI's
 * own locks.
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

/* A card that this process has opened. Guarded by the registry, but where a field says
 * otherwise. */
struct rnic_device {
    struct vipl_list link;       /* registry.devices, while new NIC handles may use it */
    char name[RNIC_DEVICE_NAME]; /* constant: what follows "rnic:" */
    struct vipl_rnic *rnic;      /* constant */
    struct vipl_list nics;       /* rnic_nic.link */
    unsigned nic_count;
    /* atomic, relaxed: it is dead, and all that depended on it has been told */
    uint32_t torn_down;
    struct vipl_list listeners;           /* rnic_listener.link */
    struct vipl_list incomings;           /* rnic_incoming.link */
    struct vipl_list ops;                 /* rnic_connect_op.link */
    bool has_accepted;                    /* one of them may be accepted */
    struct vipl_list accepting;           /* rnic_vi.accepting */
    struct vipl_list pending_disconnects; /* rnic_pending_disconnect.link */
    uint64_t disconnect_at;               /* when they are told again */
    /* atomic, relaxed: some of them wait for a time; written under the registry's lock */
    uint32_t timed;
    uint32_t last_listener;
    /* of a request; begins anywhere: another process may have had this function before, and the
     * same queue pairs */
    uint32_t last_serial;
    /* struct rnic_vi * of each queue pair, in chunks; atomic: set under the registry's lock and
     * `rx` of the VI's NIC handle, and read under either */
    void *vis[RNIC_QP_LIMIT / RNIC_QP_CHUNK];
};

/* An opened NIC handle: what core passes to the operations. */
struct rnic_nic {
    struct vipl_nic *core;      /* constant */
    struct rnic_device *device; /* constant */
    struct vipl_rnic *rnic;     /* constant: the device's */
    struct vipl_list link;      /* device->nics; guarded by the registry */
    struct vipl_rnic_pd pd;     /* constant: the realm */
    unsigned vector;            /* constant: of the completion queue */
    uint32_t shares_vector;     /* atomic, relaxed: others have it too; never 0 again */
    struct vipl_rnic_cq *cq;    /* constant */
    struct vipl_mutex rx;       /* rank BACKEND_RX: completions are taken, queues grow */
    /* no completion since then, in ns; 0: not known. Guarded by rx */
    uint64_t silent_since;
    struct vipl_list vis;           /* rnic_vi.link; guarded by the registry */
    struct vipl_mutex wanting_lock; /* rank BACKEND_TX */
    /* rnic_vi.wanting: a post found no room; guarded by wanting_lock */
    struct vipl_list wanting;
    /* atomic, relaxed: the list is not empty; written under wanting_lock */
    uint32_t has_wanting;
    /* constant: the interrupts, and the way to the card; fd -1: there are no interrupts */
    struct vipl_pollset waits;
    struct vipl_mutex regions_lock;                /* rank BACKEND_MEM; guards the next two */
    struct vipl_list regions[RNIC_REGION_BUCKETS]; /* rnic_region.link, by tag */
    bool regions_ended;
};

enum rnic_vi_state {
    RNIC_VI_IDLE,
    RNIC_VI_REQUESTING, /* it has sent a request */
    RNIC_VI_WAITING,    /* peer-to-peer: the other side is to send the request */
    RNIC_VI_ACCEPTING,  /* the acceptance is sent, the requester's READY is to come */
    RNIC_VI_CONNECTED
};

/* The backend's part of a VI, from a pool: its memory stays of this type. Guarded by the registry,
 * but where a field says otherwise. */
struct rnic_vi {
    struct vipl_list link; /* nic->vis; in the pool: free link */
    struct vipl_vi *vi;    /* constant while live */
    void *nic;             /* struct rnic_nic; atomic; NULL: not live */
    struct vipl_rnic_qp qp;
    enum rnic_vi_state state;          /* set by rnic_vi_set() */
    struct vipl_list accepting;        /* device->accepting, while it is ACCEPTING */
    bool was_connected;                /* since it began to accept */
    struct vipl_rnic_peer peer;        /* ACCEPTING, CONNECTED */
    uint32_t serial;                   /* of the request under way, or of the connection */
    struct rnic_connect_op *op;        /* REQUESTING, WAITING; and ACCEPTING, peer-to-peer */
    struct vipl_vi_params peer_params; /* ACCEPTING */
    bool peer_gone;                    /* the peer need not be told of the end */
    /* it is being quiesced: errors of the queue pair are no news */
    bool ending;
    uint32_t active; /* atomic, relaxed: the queue pair has left IDLE */
    /* atomic, relaxed: core knows that it is connected, and the card gets its receives */
    uint32_t open;
    uint32_t broken;                   /* atomic, relaxed: the connection has failed; sends fail */
    uint32_t drained;                  /* atomic, relaxed: DRAINED was taken; written under rx */
    bool held;                         /* the card knows of receives held back; guarded by the receive lock */
    struct vipl_list wanting;          /* nic->wanting; guarded by wanting_lock */
    struct vipl_deferred grow;         /* of the thread that has set `deferred` */
    VIPL_FUTEX_WORD uint32_t deferred; /* atomic: enum in data.c */
};

/* The backend's part of a VI in core's. */
struct rnic_vi_area {
    struct rnic_vi *rv;
};

/* The backend's part of a connection request in core's. */
struct rnic_conn_area {
    struct rnic_offer *offer; /* NULL: the requester has gone; guarded by the registry */
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
 * The live VI that has the queue pair, or NULL. The registry's lock is held, or `rx` of the VI's
 * NIC handle: others' may be gone by the time that this returns, so that the caller compares `nic`.
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

/* loop.c: progress and sleeping. vipl_rnic_loop_open() makes what a NIC handle sleeps on; false: no
 * descriptors are left. */
bool vipl_rnic_loop_open(struct rnic_nic *nic);
void vipl_rnic_loop_close(struct rnic_nic *nic);
void vipl_rnic_poll(struct vipl_be_nic *be);
void vipl_rnic_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_rnic_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);

#endif
