/* SPDX-License-Identifier: MIT */
/*
 * The loopback emulator: VIs of one process, and of processes of one host.
 *
 *   loopback.c   the operations of the contract: the device, and connecting, also of two VIs of this process
 *   offers.c     our own requests, offered to listeners of this process and of others
 *   claims.c     the word of each request that says which program has it
 *   calls.c      requests of other processes
 *   names.c      the sockets by which processes find each other
 *   request.c    the packets that they exchange there
 *   control.c    the same over the socket of a link that is there
 *   inproc.c     data within one process: one copy, at once, from sender to receiver
 *   ring.c       the shared-memory ring between two processes
 *   link.c       two NIC handles of two processes: segment, rings, beginning and end
 *   tx.c         sessions, which travel in the rings: their beginning and end, and sending
 *   rx.c         receiving
 *   exports.c    the table of registered memory that peers access directly, and how it is taken back
 *
 * Copies: within a process a payload is copied once. Between processes a small one is copied into the
 * ring and out of it (two copies beat a system call below a few KiB), a large one is copied once, by
 * the receiver's system call, where the kernel allows that, else through the ring. What it allows may change.
 *
 * Locks: the registry's (rank BACKEND) guards everything about connecting, and every area's
 * `request`. An area's `peer` is written under it and both of that VI's queue locks.
 */
#ifndef VIPL_LOOPBACK_LOOPBACK_H
#define VIPL_LOOPBACK_LOOPBACK_H

#include "backends/loopback/claims.h"
#include "base/list.h"
#include "core/backend.h"
#include "core/backend_up.h"
#include "os/os.h"
#include "os/os_mutex.h"

struct lo_session;
struct lo_offer;
struct lo_incoming;
struct lo_socket;

enum lo_rendezvous { LO_RENDEZVOUS_AUTO, LO_RENDEZVOUS_ON, LO_RENDEZVOUS_OFF };

/* An opened loopback device. From a pool: a thread that polls may come late. What follows `poll_filter` begins at zero. */
struct vipl_be_nic {
    struct vipl_list link;          /* registry.nics; guarded by the registry. In the pool: free link */
    struct vipl_mutex exports_lock; /* rank BACKEND_MEM */
    void *remote; /* lo_remote, what connects to other processes; set once, atomic; or NULL */
    struct vipl_poll_filter poll_filter; /* written under the rx lock of `remote` */
    struct vipl_nic *core;               /* constant */
    uint32_t settings_rendezvous;        /* constant: enum lo_rendezvous */
    uint32_t settings_inline;            /* constant: bytes up to which a payload travels in the ring */
    uint32_t settings_inline_mappable;   /* constant: the same, of memory that the peer may map */
    uint32_t settings_ring;              /* constant: bytes of a ring */
    struct vipl_address address;         /* constant */
    struct vipl_shm exports; /* lo_exports; guarded by exports_lock; base NULL: it was not needed yet */
};

/* What a VI wants: a connection. Lives from connect to its answer; guarded by the registry. */
struct lo_request {
    struct vipl_list link; /* registry.requests */
    struct vipl_be_nic *nic;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_vi_params params;
    bool peer;
    uint64_t id;              /* random; of two symmetric requests the smaller is answered */
    struct lo_claim claim;    /* which program has it */
    struct vipl_list offers;  /* lo_offer.link */
    unsigned last_number;     /* of an offer */
    struct lo_socket *socket; /* where new listeners give notice, or symmetric requests ask; NULL: none yet */
    uint64_t step_at;         /* when to offer it where it is not yet; UINT64_MAX: not for lack of time */
    uint64_t retry_at;        /* not before then to one that has hung up */
    bool listener_full;       /* a listener had too many callers before us */
    uint32_t shunned;         /* places, a bit each, of listeners that this request has nothing to do with */
    struct lo_incoming *matched; /* symmetric: the request of another process that it answers; NULL: none */
};

/* The backend's part of a VI. */
struct lo_vi {
    struct vipl_vi *peer;       /* connected within this process */
    struct lo_request *request; /* connecting */
    struct lo_session *session; /* connected to another process; written under both queue locks */
};

/* The backend's part of a connection request. */
struct lo_conn {
    struct lo_offer *offer;       /* of a VI of this process */
    struct lo_incoming *incoming; /* of another process */
};

_Static_assert(sizeof(struct lo_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");
_Static_assert(sizeof(struct lo_conn) <= VIPL_CONN_AREA_BYTES, "the request's area holds it");

static inline struct lo_vi *lo_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}
static inline bool lo_same_address(const struct vipl_address *a, const struct vipl_address *b)
{
    return vipl_address_same_host(a, b) && vipl_address_same_discriminator(a, b);
}
static inline struct lo_conn *lo_conn_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}

/* --- loopback.c --- */

struct vipl_lo_registry {
    struct vipl_mutex lock;    /* rank BACKEND */
    struct vipl_list nics;     /* vipl_be_nic.link: every open loopback device of this process */
    struct vipl_list requests; /* lo_request.link: unanswered */
};
extern struct vipl_lo_registry vipl_lo_registry;

/* The request is over: frees it. The registry's lock is held. */
void vipl_lo_request_end(struct lo_request *request);
/* Joins a symmetric request with one that asks for it, if there is one. True: it is over. The registry's lock is held. */
bool vipl_lo_request_match(struct lo_request *request);

#endif
