/* SPDX-License-Identifier: MIT */
/*
 * The contract that a backend implements. Core has checked each argument, state and right before it
 * calls the backend; the backend moves bytes and reports through backend_up.h. A backend never
 * calls the public API, and includes no other backend and no header of core except those that
 * tools/check_layers.py lists.
 *
 * Core's objects are opaque to a backend. Each VI and each connection request begins with an area
 * for the backend's own data, which is zeroed when the object is created.
 *
 * An optional operation may be NULL; its comment then begins with "Optional".
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

/* The backend's area of a VI. */
static inline void *vipl_vi_area(struct vipl_vi *vi)
{
    return vi;
}
/* The backend's area of a connection request. */
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

/* What one end of a connection tells the other end about itself. */
struct vipl_vi_params {
    uint64_t max_transfer_size;
    uint16_t reliability;
    bool rdma_write;
    bool rdma_read;
    bool has_qos;
    bool foreign;   /* the peer is not a VI: its transfer size and QoS do not limit the VI here */
    bool is_32_bit; /* the peer's program has 32-bit addresses; false if that is not known */
};

/* A send descriptor as core has read it, once. */
struct vipl_send {
    uint16_t op;    /* VIP_CONTROL_OP_... */
    bool immediate; /* the message carries immediate_data */
    uint16_t reliability;
    uint32_t immediate_data;
    uint32_t sequence;       /* the number of this send in vipl_up_send_done() */
    uint64_t remote_address; /* of an RDMA operation */
    VIP_MEM_HANDLE remote_handle;
    bool has_outstanding; /* an earlier send of this VI is not complete yet */
    bool has_unreaped;    /* the program has not reaped all earlier sends of this VI */
    /* Written by the backend with VIPL_POSTED_DONE: VIP_STATUS error bits, or 0 for success. */
    uint32_t status;
    /* Written by the backend with an error: the peer has seen nothing of the send, and the
     * connection stays up. */
    bool refused;
    VIP_MEM_HANDLE *handles; /* for each piece of `local`, the registered memory that contains it */
    struct vipl_sg local;
    VIP_MEM_HANDLE few_handles[VIPL_FEW_SEGMENTS]; /* `handles`, if local.iov is local.few */
};

/* An RDMA operation on one non-empty piece of memory, without immediate data. */
struct vipl_rdma {
    bool write; /* RDMA Write; otherwise RDMA Read */
    void *local;
    VIP_MEM_HANDLE local_handle;
    size_t bytes;
    uint64_t remote_address;
    VIP_MEM_HANDLE remote_handle;
};

/*
 * A receive descriptor as core has read it, once, for a device that takes receives when they are
 * posted. `local` is the memory that a message may fill. The list ends where the segments leave the
 * VI's memory, which is no error while messages are short enough. The backend completes a receive
 * that is too short for its message with VIP_STATUS_LENGTH_ERROR and places no data; core then
 * reports the right error.
 */
struct vipl_recv {
    /* The number of this receive in vipl_up_recv_done(). Later receives have higher numbers, with
     * gaps. */
    uint32_t sequence;
    /* `local` is empty, and each message that consumes this receive fails, also a message without
     * data. Only an RDMA Write with immediate data, which places nothing in the receive,
     * succeeds. */
    bool invalid;
    VIP_MEM_HANDLE *handles; /* as in struct vipl_send */
    struct vipl_sg local;
    VIP_MEM_HANDLE few_handles[VIPL_FEW_SEGMENTS];
};

/* What a backend returns for a send or a receive that core hands over. */
enum vipl_posted {
    VIPL_POSTED_DONE,    /* complete: send->status is the result */
    VIPL_POSTED_PENDING, /* the backend will call vipl_up_send_done() or vipl_up_recv_done() */
    /* The backend has no room. Core hands the same send or receive over again when the program
     * posts another one, and after vipl_up_send_resume() or vipl_up_recv_resume(). */
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
    /* The device keeps to the pages that memory has when it is registered; otherwise it uses those
     * that the addresses have at the time of a transfer. */
    bool keeps_pages;
    bool pages_stay; /* and the system leaves these pages in place meanwhile */
};

/* Why a peer may not access memory that it names. */
enum vipl_mem_fault {
    VIPL_MEM_NO_FAULT, /* the access is allowed, or is allowed again since it was refused */
    VIPL_MEM_UNKNOWN,  /* the handle names no region */
    VIPL_MEM_OTHER_TAG,
    VIPL_MEM_WRAPS, /* address + length is beyond the largest address */
    VIPL_MEM_OUTSIDE,
    VIPL_MEM_NO_RIGHT
};

struct vipl_region_params {
    void *address;
    size_t bytes;
    VIP_MEM_HANDLE handle;
    uint32_t tag; /* the number of a tag of this NIC handle; never 0 */
    bool rdma_write;
    bool rdma_read;
};

/* What a request of a VI is, for connect(). */
enum vipl_connect_kind {
    VIPL_CONNECT_PATIENT, /* client-server: waits for a listener, in case there is none */
    VIPL_CONNECT_AT_ONCE, /* client-server: ends as soon as the backend knows of no listener */
    VIPL_CONNECT_PEER     /* peer-to-peer, which is symmetric */
};

/* What core may sleep on, and for how long. */
struct vipl_poll_hint {
    int fd; /* readable when poll() has work; -1: none */
    int ms; /* poll() must be called after this time; 0: there is work now; -1: no time limit */
    /* set by core before finish_wait(): the sleep has ended, and fd was not readable then */
    bool quiet;
};

struct vipl_backend {
    const char *name; /* for example "loopback": the first part of the names of its devices */
    /* The device chooses the handles of registered memory (hardware calls them STags or keys), and
     * region_add() returns them. */
    bool chooses_handles;

    /* --- The device. Application threads call these with no lock held; they may block. -------- */

    /* Opens a device. `device` is the part of the device name after "name:", or "". On failure
     * *out is unchanged. */
    VIP_RETURN (*open)(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out);
    /* The last call for a device. No VI, no connection request and no other call is left. */
    void (*close)(struct vipl_be_nic *be);
    void (*limits)(struct vipl_be_nic *be, struct vipl_limits *out);
    void (*address)(struct vipl_be_nic *be, struct vipl_address *out); /* host part only */
    /* Optional. Adds properties of the device that limits() and address() do not give; core has
     * zeroed *out. */
    void (*describe)(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out);
    /* Lists the devices that can be opened now: one vipl_device_add() each, with the name as for
     * open() and a text for people. Opens nothing. */
    void (*list)(struct vipl_device_list *to);
    /* Returns the index-th address of a host; VIP_ERROR_NAMESERVICE if there is none. */
    VIP_RETURN (*resolve)(struct vipl_be_nic *be, const char *name, uint32_t index, struct vipl_address *out);
    VIP_RETURN (*reverse)(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size);

    /* Called in a forked child: the backend forgets its process-wide state, and touches nothing
     * that the parent uses. */
    void (*abandon)(void);

    /* --- Memory. The caller holds no lock, or only the lock of rank REGIONS. ------------------ */

    /* Adds a region. On failure nothing has changed. With chooses_handles the backend sets
     * region->handle to a number that is neither 0 nor 0xFFFFFFFF, nor the handle of a region that
     * region_remove() has not removed yet. No program knows the handle, and core accepts no access
     * by it, until this call has returned. */
    VIP_RETURN (*region_add)(struct vipl_be_nic *be, struct vipl_region_params *region);
    /* Removes a region; core removes it from its own table afterwards. After success no peer
     * accesses the region directly. VIP_ERROR_RESOURCE: a peer does not finish an access that it
     * has begun, and nothing has changed. */
    VIP_RETURN (*region_remove)(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
    /* Gives a region another tag or other rights; core changes its own table afterwards. After
     * success no peer accesses the region directly by the old tag or rights. On failure nothing has
     * changed. */
    VIP_RETURN (*region_change)(struct vipl_be_nic *be, const struct vipl_region_params *region);
    /* Called before a NIC handle is closed: does what region_remove() does, for all regions that
     * exist now and for those that are added later. */
    VIP_RETURN (*regions_end)(struct vipl_be_nic *be);

    /* Optional, both or neither: the device has memory of its own. Allocates `bytes`, more than 0,
     * at a multiple of 64. close() frees what is left. VIP_ERROR_NOT_SUPPORTED: there is no memory
     * of that kind here; VIP_ERROR_RESOURCE: there is not so much left. No lock is held. */
    VIP_RETURN (*memory_alloc)(struct vipl_be_nic *be, size_t bytes, VIPX_DEVICE_MEMORY kind, void **out);
    /* Frees memory of memory_alloc() of this NIC handle. VIP_INVALID_PARAMETER: none begins at the
     * address; VIP_ERROR_RESOURCE: a region is in it; VIP_ERROR_NOT_SUPPORTED: there is no memory
     * of the device here. */
    VIP_RETURN (*memory_free)(struct vipl_be_nic *be, void *address);

    /* --- VIs. No lock held. ------------------------------------------------------------------- */

    VIP_RETURN (*vi_create)(struct vipl_be_nic *be, struct vipl_vi *vi); /* the area is zeroed */
    void (*vi_destroy)(struct vipl_be_nic *be, struct vipl_vi *vi);      /* the VI is IDLE */

    /* --- Connections. No lock held, unless a comment says otherwise. -------------------------- */

    /* The NIC handle begins to take requests for this discriminator; from now on vipl_up_listens()
     * is true for it. Core calls listen() once for a discriminator, and unlisten() once when core
     * drops it, at the latest before close(). The lock of rank LISTEN is held in both. listen() may
     * block for at most 100 ms, to receive requests that have already been sent. */
    VIP_RETURN (*listen)(struct vipl_be_nic *be, const struct vipl_address *local);
    void (*unlisten)(struct vipl_be_nic *be, const struct vipl_address *local);
    /* Called before a program looks for requests. The backend reports all requests that have
     * arrived, including those that core had no room for earlier. Must not block. */
    void (*conns_look)(struct vipl_be_nic *be);
    /* Starts a request. The backend answers with vipl_up_connected() or vipl_up_connect_failed().
     * Must not block. An AT_ONCE request ends with VIP_NO_MATCH when the backend has found out that
     * nobody listens for `remote`, and with VIP_NOT_REACHABLE when no such host can be reached;
     * what the backend cannot find out is no reason to end it. connect() itself may return these
     * two codes. */
    VIP_RETURN(*connect)
    (struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
     const struct vipl_address *remote, enum vipl_connect_kind kind);
    /* Ends a request whose time is up. VIP_SUCCESS: the answer has come meanwhile.
     * Otherwise the code says how far the request got: VIP_TIMEOUT, VIP_NO_MATCH,
     * VIP_NOT_REACHABLE or VIP_ERROR_RESOURCE. `withdrawn`: the program withdraws the request, and
     * the backend must not wait to find out how far it got. */
    VIP_RETURN (*connect_cancel)(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);
    /* Called before a request is handed to the program. Returns true if this NIC handle alone has
     * the request from now on. Returns false if another listener has taken the request or the
     * requester has gone; the backend does not use `conn` afterwards. */
    bool (*conn_taken)(struct vipl_be_nic *be, struct vipl_conn *conn);
    /* Accepts a request; may block for the requester's reply. VIP_TIMEOUT: the requester has gone.
     * On success the backend has called vipl_up_connected() for the VI. */
    VIP_RETURN (*conn_accept)(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
    /* Ends a request without a connection. `answer`: the backend tells the requester that the
     * request was rejected. If not, the NIC handle is closing and its program has not taken the
     * request, which goes on as if this listener had not been there. */
    void (*conn_reject)(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);
    /* The VI leaves CONNECTED, and core is about to flush its queues. From now on a peer that
     * fetches from the buffers of a pending send must notice that the send is over. Both locks of
     * the VI are held; must not block. */
    void (*revoke)(struct vipl_be_nic *be, struct vipl_vi *vi);
    /* Optional. A backend needs quiesce() if its device accesses the program's memory by itself.
     * Without quiesce() the backend accesses that memory only in calls of core or under a lock of
     * the VI. The program gets a buffer back only when the device has finished with it.
     *
     * When quiesce() returns, the device neither reads nor writes memory for the VI's sends and
     * receives, and the backend reports none of them any more. The backend has reported those that
     * the device had finished; they complete in order, as reported. Core flushes the others
     * afterwards.
     *
     * No lock is held. The VI is held, and nothing is posted to it meanwhile. May block for
     * seconds. Core calls quiesce() once each time that the VI leaves CONNECTED, after revoke() and
     * before the flush; and once when receives that were handed over for a connection which was not
     * made are flushed or forgotten. Any thread may call it, also between prepare_wait() and
     * finish_wait(). An async-signal-safe function calls it only if the NIC handle has no service
     * thread that could. */
    void (*quiesce)(struct vipl_be_nic *be, struct vipl_vi *vi);
    /* Optional. Whether a disconnect would break off the answer to an RDMA Read of the peer; core
     * waits for VIPL_LINGER milliseconds at most until vipl_up_answered(). The VI's send lock is
     * held. */
    bool (*is_answering)(struct vipl_be_nic *be, struct vipl_vi *vi);
    /* The VI has left CONNECTED: the backend forgets the peer, and tells it. */
    void (*disconnect)(struct vipl_be_nic *be, struct vipl_vi *vi);

    /* --- Data. -------------------------------------------------------------------------------- */

    /* Takes the next send in posting order. The VI's send lock is held; must not block. */
    enum vipl_posted (*post_send)(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
    /* Optional. Sends one contiguous, non-empty buffer without immediate data, on a VI whose
     * earlier sends are all complete and whose reliability is not RELIABLE_RECEPTION.
     * `has_unreaped` is as in vipl_send. Returns true if the send is complete. On false, core calls
     * post_send() for the same message under the same lock; the backend must continue after any
     * bytes that it has already written. */
    bool (*send_short)(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                       bool has_unreaped);
    /* Optional. As send_short(), for RDMA. */
    bool (*rdma_short)(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_rdma *rdma);
    /* Optional. Without post_recv() the backend finds a receive for each message by
     * vipl_up_recv_claim(). A backend with post_recv() has quiesce() too; its device takes receives
     * in posting order, from the moment that the VI begins to connect or to accept (before
     * connect() and conn_accept()): first those that were posted earlier, then each one when it is
     * posted. Returns PENDING or AGAIN.
     *
     * The VI's receive lock is held, and possibly the send lock too; must not block. After AGAIN
     * core holds the later receives back. A message for which the device then has no receive must
     * wait until the backend has called vipl_up_recv_resume().
     *
     * If the connection is not made (connect(), connect_cancel() or conn_accept() has failed, or
     * the backend has called vipl_up_connect_failed()), the receives that are not done belong to
     * core again, and the backend reports none of them any more. At the next attempt core hands
     * them over again, under the same numbers. */
    enum vipl_posted (*post_recv)(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv);

    /* --- Progress. No lock held. -------------------------------------------------------------- */

    /* Makes progress without blocking. Any thread may call poll() at any time; a thread that finds
     * another thread in it returns. */
    void (*poll)(struct vipl_be_nic *be);
    /* Optional. Returns the poll filter of the device (poll_filter.h), which stays the same while
     * the device is open, or NULL. */
    struct vipl_poll_filter *(*poll_filter)(struct vipl_be_nic *be);
    /* Optional. Flushes the work that the backend deferred with vipl_up_request_flush(). The
     * service thread calls it if no application call has flushed the work. */
    void (*flush_deferred)(struct vipl_be_nic *be);
    /* Present with flush_deferred(). Returns the poll epoch: a number, which wraps, that each poll
     * of the device increments, in any thread. Work that was deferred before such a poll has been
     * flushed. */
    uint32_t (*poll_epoch)(struct vipl_be_nic *be);
    /* The caller is about to sleep. The backend says on which descriptor and for how long. If the
     * backend opens a descriptor later, it calls vipl_up_wake(). */
    void (*prepare_wait)(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
    /* The caller's sleep is over, and peers need not wake it any more. Called once for each
     * prepare_wait(), with the hint of that call. */
    void (*finish_wait)(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
};

/* The backends that the library was configured with; the last element is NULL. The build writes
 * this array. */
extern const struct vipl_backend *const vipl_backends[];

/* How the library was built, for VipxBuildOptions(). The build writes this string. */
extern const char vipl_build_options[];

/* Adds a device to the list in vipl_backend.list(). `device` is the part of its name after "name:",
 * or "". */
void vipl_device_add(struct vipl_device_list *to, const char *device, const char *text);

/* Opens a device of a backend. The opener may put a layer of its own around the backend's
 * operations: core uses the *ops and *be that it returns. */
typedef VIP_RETURN vipl_backend_opener(const struct vipl_backend *backend, struct vipl_nic *nic,
                                       const char *device, const struct vipl_backend **ops,
                                       struct vipl_be_nic **be);
extern vipl_backend_opener *const vipl_backend_open;

#endif
