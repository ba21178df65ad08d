/* SPDX-License-Identifier: MIT */
/*
 * The loopback emulator: VIs of one process, and of processes of one host.
 *
 *   loopback.c             the device, its limits and names, the operations table
 *   connect.c     requests and listeners: who connects to whom, within this process
 *   names.c  the same between processes, over local sockets; with it
 *   calls.c       what others ask of us, and
 *   walks.c       our own search
 *   inproc.c       data within one process: one copy, at once, from sender to receiver
 *   ring.c        the shared-memory ring between two processes
 *   link.c        two NIC handles of two processes: segment, rings, life and death
 *   tx.c          sessions, which travel in the rings: their life, and sending
 *   rx.c          receiving
 *   exports.c      the table of registered memory that peers access directly, and how it is taken back
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

#include "base/list.h"
#include "core/backend.h"
#include "core/backend_up.h"
#include "os/os.h"
#include "os/os_mutex.h"

struct lo_session;
struct lo_call;
struct lo_walk;

enum lo_pull { LO_PULL_AUTO, LO_PULL_ON, LO_PULL_OFF };

/* An opened loopback device. */
struct vipl_be_nic {
    struct vipl_nic *core;       /* constant */
    struct vipl_list link;       /* registry.nics; guarded by the registry */
    struct vipl_list listeners;  /* lo_listener.link, the latest used last; guarded by the registry */
    uint32_t idle_listeners;     /* those nobody waits on; guarded by the registry */
    uint32_t settings_pull;      /* constant: enum lo_pull */
    uint32_t settings_inline;    /* constant: bytes up to which a payload travels in the ring */
    uint32_t settings_ring;      /* constant: bytes of a ring */
    struct vipl_address address; /* constant */
    void *remote;                /* lo_remote, what connects to other processes; set once, atomic; or NULL */
    struct vipl_mutex window_lock; /* rank BACKEND_MEM */
    struct vipl_shm window;        /* lo_window; guarded by window_lock; base NULL: nobody needed it yet */
};

/* A discriminator somebody waits, or has waited, for. */
struct lo_listener {
    struct vipl_list link;
    struct vipl_address local;
    struct vipl_be_nic *nic;
    uint32_t waiting; /* calls that wait now */
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
    bool taken;              /* a program has it before it */
    struct vipl_conn *conn;  /* where it waits, in this process; NULL: nowhere yet */
    struct vipl_be_nic *at;  /* and the NIC handle that it waits at */
    struct lo_walk *walk;    /* its search among other processes; NULL: none */
    struct lo_call *matched; /* symmetric: the call of another process that it answers; NULL: none */
};

/* The backend's part of a VI. */
struct lo_vi {
    struct vipl_vi *peer;       /* connected within this process */
    struct lo_request *request; /* connecting */
    struct lo_session *session; /* connected to another process; written under both queue locks */
};

/* The backend's part of a connection request. */
struct lo_conn {
    struct lo_request *request; /* of a VI of this process */
    struct lo_call *call;       /* of another process */
};

_Static_assert(sizeof(struct lo_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");
_Static_assert(sizeof(struct lo_conn) <= VIPL_CONN_AREA_BYTES, "the request's area holds it");

static inline struct lo_vi *lo_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}
static inline struct lo_conn *lo_conn_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}

/* --- connect.c --- */

struct vipl_lo_registry {
    struct vipl_mutex lock;
    struct vipl_list nics;     /* vipl_be_nic.link: every open loopback device of this process */
    struct vipl_list requests; /* lo_request.link: unanswered */
};
extern struct vipl_lo_registry vipl_lo_registry;

void vipl_lo_registry_abandon(void);
bool vipl_lo_same_address(const struct vipl_address *a, const struct vipl_address *b);
bool vipl_lo_same_discriminator(const struct vipl_address *a, const struct vipl_address *b);
struct lo_listener *vipl_lo_find_listener(struct vipl_be_nic *be, const struct vipl_address *wanted);
VIP_RETURN vipl_lo_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_lo_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
VIP_RETURN vipl_lo_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                           const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_lo_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi);
bool vipl_lo_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn);
VIP_RETURN vipl_lo_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
void vipl_lo_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);
void vipl_lo_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_lo_drop_listeners(struct vipl_be_nic *be);
/* The request is over: frees it. The registry's lock is held. */
void vipl_lo_request_end(struct lo_request *request);
/* It has no place in this process any more. The registry's lock is held. */
void vipl_lo_request_drop_place(struct lo_request *request);
/* Takes the request back from where nobody waits, in this process. False: it stays, somebody has it or is about to.
 * The registry's lock is held. */
bool vipl_lo_request_leave(struct lo_request *request);

/* --- inproc.c --- */

enum vipl_posted vipl_lo_local_send(struct vipl_vi *vi, struct vipl_vi *peer, struct vipl_send *send);

#endif
