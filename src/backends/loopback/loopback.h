/* SPDX-License-Identifier: MIT */
/*
 * The loopback emulator connects VIs of one process, and of processes of one host.
 *
 *   loopback.c      the operations of the contract; connecting, also within the process
 *   offers.c        requests of this process, offered to listeners of this and other processes
 *   offer.c         one such offer
 *   replies.c       what the listeners answer
 *   claims.c        the word of each request that says which program has it
 *   calls.c         requests of other processes
 *   names.c         the sockets by which processes find each other
 *   request.c       the packets that processes exchange on these sockets
 *   control.c       control messages: the same packets on the socket of a link
 *   inproc.c        data within one process: one copy, at once, from sender to receiver
 *   ring.c          the shared-memory ring between two processes
 *   link.c          links between NIC handles of two processes: segment, rings, begin and end
 *   poll_filter.c   the poll filter of a NIC handle
 *   tx.c            sessions, which are connections over a link: beginning, end, and sending
 *   rx.c            sessions: receiving
 *   direct.c        RDMA by a copy or a system call, without the peer's help
 *   exports.c       the table of registered memory that peers access directly, and its revocation
 *   mapped.c        shared memory of a peer that this process has mapped
 *   pieces.c        where a rendezvous send lies in the sender's memory
 *
 * Copies: within a process a payload is copied once. Between processes a small payload is copied
 * into the ring and out of it: below a few KiB two copies take less time than a system call. A
 * large payload is copied once, by a system call of the receiver, where the kernel allows that, and
 * otherwise through the ring. What the kernel allows may change while the processes run.
 *
 * Locks: the registry's lock (rank BACKEND) guards everything about connecting, and `request` of
 * every VI's area. `peer` of an area is written under the registry's lock and both queue locks of
 * that VI.
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

/* An opened loopback device. Its memory is from a pool, because a thread that polls may come late.
 * The members from `core` on begin at zero. */
struct vipl_be_nic {
    /* registry.nics, under the registry's lock; in the pool, the free list */
    struct vipl_list link;
    struct vipl_mutex exports_lock; /* rank BACKEND_MEM */
    /* atomic: struct lo_remote; NULL: no other process was needed yet */
    void *remote;
    struct vipl_poll_filter poll_filter; /* written under the rx lock of `remote` */
    struct vipl_nic *core;               /* constant */
    uint32_t settings_rendezvous;        /* constant: enum lo_rendezvous */
    /* constant: bytes up to which a payload travels in the ring */
    uint32_t settings_inline;
    uint32_t settings_inline_mappable; /* constant: the same for memory that the peer may map */
    uint32_t settings_ring;            /* constant: bytes of a ring */
    struct vipl_address address;       /* constant */
    /* struct lo_exports, under exports_lock; base NULL: it was not needed yet */
    struct vipl_shm exports;
};

/* A request for a connection, from the call of connect to its answer. Guarded by the registry. */
struct lo_request {
    struct vipl_list link; /* registry.requests */
    struct vipl_be_nic *nic;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_vi_params params;
    bool peer;     /* the request is symmetric */
    bool at_once;  /* the request ends when every place has been asked and none has a listener */
    bool short_of; /* there were no resources for an offer, so a listener may have been missed */
    /* random; of two symmetric requests, the one with the smaller id is answered */
    uint64_t id;
    struct lo_claim claim;   /* says which program has the request */
    struct vipl_list offers; /* lo_offer.link */
    unsigned last_number;    /* the number of the latest offer */
    /* receives notices of new listeners, or symmetric requests; NULL: none yet */
    struct lo_socket *socket;
    /* when to offer the request to the listeners that do not have it; UINT64_MAX: no such time */
    uint64_t step_at;
    /* a listener that has hung up gets no further offer before this time */
    uint64_t retry_at;
    bool listener_full; /* the queue of a listener was full */
    /* a bit for each place whose listener gets no further offer of this request */
    uint32_t shunned;
    /* symmetric: the request of another process that is being answered; NULL: none */
    struct lo_incoming *matched;
};

/* The backend's area of a VI. */
struct lo_vi {
    struct vipl_vi *peer;       /* connected within this process: the other VI */
    struct lo_request *request; /* connecting: the request */
    /* connected to another process: the session; written under both queue locks */
    struct lo_session *session;
};

/* The backend's area of a connection request. */
struct lo_conn {
    struct lo_offer *offer;       /* the request is of a VI of this process */
    struct lo_incoming *incoming; /* the request is of another process */
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

/* Ends and frees a request. The registry's lock is held. */
void vipl_lo_request_end(struct lo_request *request);
/* Looks for the counterpart of a symmetric request, of this process or another one, and connects
 * the two or begins to. Returns true if the request is over. The registry's lock is held. */
bool vipl_lo_request_match(struct lo_request *request);

#endif
