/* SPDX-License-Identifier: MIT */
/*
 * The contract a backend implements. Core has checked every argument, state and right before it
 * calls; the backend moves bytes and reports through backend_up.h. It never calls the public API,
 * includes no other core header but those named in tools/check_layers.py, and no other backend.
 *
 * Core's objects are opaque here. Each VI and each connection request carries an area for the
 * backend's own part, at its start, zeroed at creation.
 */
#ifndef VIPL_CORE_BACKEND_H
#define VIPL_CORE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/address.h"
#include "base/iov.h"
#include "core/poll_filter.h"
#include "os/os.h"
#include "vipl/posix.h"
#include "vipl/vipl.h"

struct vipl_nic;    /* core's opened device */
struct vipl_vi;     /* core's VI */
struct vipl_conn;   /* core's pending connection request */
struct vipl_be_nic; /* the backend's opened device */
struct vipl_device_list;

enum { VIPL_VI_AREA_BYTES = 128, VIPL_CONN_AREA_BYTES = 64 };

static inline void *vipl_vi_area(struct vipl_vi *vi)
{
    return vi;
}
static inline void *vipl_conn_area(struct vipl_conn *conn)
{
    return conn;
}

/* A VIP_NET_ADDRESS with its parts in fixed places. */
struct vipl_address {
    uint16_t host_len;
    uint16_t disc_len;
    uint8_t host[VIPL_MAX_HOST_ADDRESS];
    uint8_t disc[VIPL_MAX_DISCRIMINATOR];
};

static inline bool vipl_address_same_discriminator(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->disc_len == b->disc_len && memcmp(a->disc, b->disc, a->disc_len) == 0;
}
static inline bool vipl_address_same_host(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->host_len == b->host_len && memcmp(a->host, b->host, a->host_len) == 0;
}

/* What one end of a connection tells the other about itself. */
struct vipl_vi_params {
    uint64_t max_transfer_size;
    uint16_t reliability;
    bool rdma_write;
    bool rdma_read;
    bool has_qos;
    bool foreign;   /* no VI at all: its transfer sizes and QoS bind no VI */
    bool is_32_bit; /* its program's addresses are; false if that is not known */
};

/* A send descriptor, read once. */
struct vipl_send {
    uint16_t op;    /* VIP_CONTROL_OP_... */
    bool immediate; /* immediate_data travels too */
    uint16_t reliability;
    uint32_t immediate_data;
    uint32_t sequence;       /* names this send in vipl_up_send_done() */
    uint64_t remote_address; /* RDMA */
    VIP_MEM_HANDLE remote_handle;
    bool has_outstanding; /* an earlier send of this VI is still under way */
    bool has_unreaped;    /* or the program has not asked for its completion yet */
    uint32_t status;      /* out, with VIPL_POSTED_DONE: VIP_STATUS error bits, 0 for success */
    bool refused;         /* out, with an error: the peer has seen nothing of it, and the connection lives */
    VIP_MEM_HANDLE *handles; /* of the registered memory in which each piece of local lies */
    struct vipl_sg local;
    VIP_MEM_HANDLE few_handles[VIPL_FEW_SEGMENTS]; /* `handles`, if local.iov is local.few */
};

/* RDMA of one piece, which is not empty, without immediate data. */
struct vipl_rdma {
    bool write; /* else a read */
    void *local;
    VIP_MEM_HANDLE local_handle;
    size_t bytes;
    uint64_t remote_address;
    VIP_MEM_HANDLE remote_handle;
};

/*
 * A receive descriptor, read once, for a device that takes receives when they are posted. `local` is the memory that a message
 * may fill. It ends where the segments leave memory of the VI's, which is no fault as long as messages are short. A longer
 * message fails with VIP_STATUS_LENGTH_ERROR: core turns that into the right error. It fills nothing.
 */
struct vipl_recv {
    uint32_t
        sequence; /* names this receive in vipl_up_recv_done(); later ones have higher numbers, with gaps */
    bool
        invalid; /* local is empty, and a message that finds this receive fails, also one without data; only an
                        * RDMA Write with immediate data, which places nothing here, succeeds */
    VIP_MEM_HANDLE *handles; /* as in struct vipl_send */
    struct vipl_sg local;
    VIP_MEM_HANDLE few_handles[VIPL_FEW_SEGMENTS];
};

enum vipl_posted {
    VIPL_POSTED_DONE,    /* complete: send->status says how */
    VIPL_POSTED_PENDING, /* the backend will call vipl_up_send_done(), or vipl_up_recv_done() */
    /* no room: core calls again, with the same send or receive, when another one is posted, and after vipl_up_send_resume() or
     * vipl_up_recv_resume() */
    VIPL_POSTED_AGAIN
};

struct vipl_limits {
    uint64_t max_register_bytes;
    uint64_t max_block_bytes;
    uint32_t max_regions;
    uint32_t max_vis;
    uint32_t max_descriptors;
    uint32_t max_segments;
    uint32_t max_cqs;
    uint32_t max_cq_entries;
    uint32_t max_transfer_size;
    uint32_t native_mtu;
    uint32_t max_ptags;
    uint32_t max_pending_connects; /* requests that wait for VipConnectWait() */
    uint16_t max_discriminator;
    uint16_t reliability_levels;
    uint16_t rdma_read_levels;
    uint32_t hardware_version;
};

/* Why a peer may not have memory that it names. */
enum vipl_mem_fault {
    VIPL_MEM_NO_FAULT, /* it may, or may again */
    VIPL_MEM_UNKNOWN,  /* no such handle */
    VIPL_MEM_OTHER_TAG,
    VIPL_MEM_WRAPS, /* the range goes over the end of all addresses */
    VIPL_MEM_OUTSIDE,
    VIPL_MEM_NO_RIGHT
};

struct vipl_region_params {
    void *address;
    size_t bytes;
    VIP_MEM_HANDLE handle;
    uint32_t tag; /* of this NIC handle's tags; never 0 */
    bool rdma_write;
    bool rdma_read;
};

/* What core may sleep on, and for how long. */
struct vipl_poll_hint {
    int fd; /* becomes readable when poll has something to do; -1: none */
    int ms; /* poll wants to be called after so many; 0: there is something to do right now; -1: never */
};

struct vipl_backend {
    const char *name; /* "loopback": what devices of it start with */
    /* The device assigns the handles of registered memory (hardware calls them STags or keys): region_add sets them. */
    bool chooses_handles;

    /* --- the device. Called from application threads with no lock held; may block. ------------- */

    /* `device` is what follows "name:" in the device name, or "". On failure *out is untouched. */
    VIP_RETURN (*open)(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out);
    /* Last call: no VI, no connection request, no other call is left. */
    void (*close)(struct vipl_be_nic *be);
    void (*limits)(struct vipl_be_nic *be, struct vipl_limits *out);
    void (*address)(struct vipl_be_nic *be, struct vipl_address *out); /* host part only */
    /* NULL: limits and address say all. Otherwise what else there is to know about the device; *out is cleared. */
    void (*describe)(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out);
    /* What can be opened now, each by vipl_device_add(): `device` as for open, and a text for people. Opens nothing. */
    void (*list)(struct vipl_device_list *to);
    /* The index-th address of a host; VIP_ERROR_NAMESERVICE if there is none. */
    VIP_RETURN (*resolve)(struct vipl_be_nic *be, const char *name, uint32_t index, struct vipl_address *out);
    VIP_RETURN (*reverse)(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size);

    /* In a forked child: forget the process-wide state, and touch nothing the parent uses. */
    void (*abandon)(void);

    /* --- memory. At most the lock of rank REGIONS is held. -------------------------------------- */

    /* A region begins. On failure nothing has changed. With chooses_handles it sets region->handle, to a number that is
     * neither 0 nor 0xFFFFFFFF nor that of another region which region_remove has not ended; no program knows it, and core
     * accepts no access by it, until this has returned. */
    VIP_RETURN (*region_add)(struct vipl_be_nic *be, struct vipl_region_params *region);
    /* A region ends; core's look-ups follow. When this succeeds no peer reaches the region directly.
     * VIP_ERROR_RESOURCE: a peer may, for it does not finish what it has begun, and nothing has changed. */
    VIP_RETURN (*region_remove)(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
    /* A region gets another tag or other rights; core's look-ups follow. When this returns no peer reaches
     * the region directly by the old ones. On failure nothing has changed. */
    VIP_RETURN (*region_change)(struct vipl_be_nic *be, const struct vipl_region_params *region);
    /* The NIC handle is about to close: as if region_remove were called for each region, now and later. */
    VIP_RETURN (*regions_end)(struct vipl_be_nic *be);

    /* --- VIs. No lock held. ------------------------------------------------------------------------ */

    VIP_RETURN (*vi_create)(struct vipl_be_nic *be, struct vipl_vi *vi); /* area is zeroed */
    void (*vi_destroy)(struct vipl_be_nic *be, struct vipl_vi *vi);      /* it is IDLE */

    /* --- connections. No lock held. ----------------------------------------------------------------- */

    /* The NIC handle begins to take requests for this discriminator, which vipl_up_listens() knows from now on. Called once;
     * unlisten, once, when core drops the discriminator, at the latest before close. The lock of rank LISTEN is held
     * across both. listen may block for the requests that are there already, 100 ms at most. */
    VIP_RETURN (*listen)(struct vipl_be_nic *be, const struct vipl_address *local);
    void (*unlisten)(struct vipl_be_nic *be, const struct vipl_address *local);
    /* A program is about to look for requests: those that have arrived by now are to be reported to core, also those
     * that core had no room for before. Not blocking. */
    void (*conns_look)(struct vipl_be_nic *be);
    /* Starts a request; the answer comes through vipl_up_connected() or vipl_up_connect_failed().
     * `peer` : symmetric. Not blocking. */
    VIP_RETURN(*connect)
    (struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
     const struct vipl_address *remote, bool peer);
    /* Ends a request whose time is up. The answer may still have come: VIP_SUCCESS then. Otherwise
     * the code that tells how far it got: VIP_TIMEOUT, VIP_NO_MATCH, VIP_NOT_REACHABLE or VIP_ERROR_RESOURCE. `withdrawn`: the program takes
     * the request back, how far it got is of no interest: nothing is waited for to find that out. */
    VIP_RETURN (*connect_cancel)(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);
    /* A request is about to be handed to the program, which is the only one to have it from now on. False: another one
     * has it, or the requester has gone; the backend does not name the conn any more. */
    bool (*conn_taken)(struct vipl_be_nic *be, struct vipl_conn *conn);
    /* Connects; may block for the requester's word. VIP_TIMEOUT: the requester has gone. On success
     * vipl_up_connected() was called for the VI. */
    VIP_RETURN (*conn_accept)(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
    /* The request is over without a connection; it may not have been taken. `answer`: tell the requester of the rejection. */
    void (*conn_reject)(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);
    /* Both VI locks held, must not block; the VI leaves CONNECTED and its queues are about to be flushed:
     * a peer that fetches from a pending send's buffers must find out that it came too late. */
    void (*revoke)(struct vipl_be_nic *be, struct vipl_vi *vi);
    /* NULL: the backend touches no memory of a program but in a call of core's or under a VI's lock. Otherwise a device does,
     * and a buffer may be given back to the program only when the device has finished with it. No lock is held, the VI is
     * held, and nothing is posted to it meanwhile; may block for seconds. When it returns, the device neither reads nor writes
     * memory for the sends and receives of this VI, and reports none of them any more. Those that it had finished are to be
     * reported by then: they complete as they are, in order. What is left is flushed afterwards.
     * Called once each time: after revoke, before the flush, when the VI leaves CONNECTED; and when receives that were handed
     * over for a connection which did not come about are to be flushed or forgotten. Any thread, also between prepare_wait and
     * finish_wait; one of the async-signal-safe functions only if the NIC handle has no service thread that could do it. */
    void (*quiesce)(struct vipl_be_nic *be, struct vipl_vi *vi);
    /* The VI has left CONNECTED: forget the peer and tell it. */
    void (*disconnect)(struct vipl_be_nic *be, struct vipl_vi *vi);

    /* --- data. ----------------------------------------------------------------------------------------- */

    /* The VI's send lock is held; must not block. Called in posting order. */
    enum vipl_posted (*post_send)(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
    /* NULL: none. As post_send, for a message of one piece, which is not empty, without immediate data, of a VI that is not
     * RELIABLE_RECEPTION, when all earlier sends are done; `has_unreaped` as in vipl_send. True: this one is, too. False: it goes to post_send at once, before
     * anything else happens to the VI; that goes on with what has been sent of it. */
    bool (*send_short)(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                       bool has_unreaped);
    /* The same for RDMA. */
    bool (*rdma_short)(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_rdma *rdma);
    /* NULL: messages take receives by vipl_up_recv_claim(). Otherwise (and then there is `quiesce` too) the device takes them, from the moment that the VI begins
     * to connect or to accept (before `connect` and `conn_accept`): first those that were posted before, then each when it is
     * posted. The VI's receive lock is held, perhaps the send lock too; must not block. Called in posting order. PENDING or
     * AGAIN. Core holds those behind an AGAIN back, so the backend must not let a message find that there is no receive before
     * it has called vipl_up_recv_resume(): the message waits.
     * When a connection does not come about, the receives that are not done are core's again: connect, connect_cancel or
     * conn_accept has failed, or vipl_up_connect_failed() was called. From then on the backend reports none of them. At the
     * next try they are handed over again, under the same numbers. */
    enum vipl_posted (*post_recv)(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv);

    /* --- progress. No lock held. ------------------------------------------------------------------------- */

    /* Moves what can be moved, without blocking. Any thread, at any time; one that finds another at
     * work returns. */
    void (*poll)(struct vipl_be_nic *be);
    /* NULL, or what a program that polls looks at in place of that (poll_filter.h), for as long as the device is open. */
    struct vipl_poll_filter *(*poll_filter)(struct vipl_be_nic *be);
    /* NULL, or what vipl_up_request_flush() is about: does it, if nobody has meanwhile. */
    void (*flush_deferred)(struct vipl_be_nic *be);
    /* With `flush_deferred`: how often that may have been done, by any thread's look at the device; wraps. What was to be done before a
     * look that this counts has been. */
    uint32_t (*poll_epoch)(struct vipl_be_nic *be);
    /* The caller is about to sleep: says on what and for how long. A descriptor made later comes with a call
     * of vipl_up_wake(). */
    void (*prepare_wait)(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
    /* The sleeper is back: peers need not wake it any more. Once for each prepare_wait, with what that said. */
    void (*finish_wait)(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
};

/* Written out by the build: the backends it was configured with, NULL at the end. */
extern const struct vipl_backend *const vipl_backends[];

/* How the library was built: as VipxBuildOptions(). Written out by the build, too. */
extern const char vipl_build_options[];

/* For `list`. `device` is "" or what follows "name:". */
void vipl_device_add(struct vipl_device_list *to, const char *device, const char *text);

/* Opens one of them, perhaps with a layer of operations of its own around it: *ops and *be are what core uses. */
typedef VIP_RETURN vipl_backend_opener(const struct vipl_backend *backend, struct vipl_nic *nic,
                                       const char *device, const struct vipl_backend **ops,
                                       struct vipl_be_nic **be);
extern vipl_backend_opener *const vipl_backend_open;

#endif
