/* SPDX-License-Identifier: MIT */
/*
 * A VI: two work queues, a state, attributes.
 *
 * State, attributes and `handle` are written under both queue locks, so either lock is enough to
 * read them. Leaving CONNECTED is decided by one thread (under both locks), which then, without
 * locks, tells the backend and the program; meanwhile the VI is held, and a thread that wants to connect
 * or destroy it waits.
 *
 * A device with queues of its own is quiesced between that decision and the flush: then both locks are released for a
 * moment, with the VI CONNECTED, held, and marked in `failure` (docs/design/concurrency.md).
 *
 * A failure that ends the connection is noted by vipl_up_fail(), under whatever lock it was found: from then on
 * nothing more is executed or received. The thread that noted it ends the connection where it holds no lock
 * (base/deferred.h).
 */
#ifndef VIPL_CORE_VI_H
#define VIPL_CORE_VI_H

#include "base/deferred.h"
#include "base/handle.h"
#include "base/pool.h"
#include "core/backend.h"
#include "core/mem.h"
#include "core/nic.h"
#include "core/queue.h"

/* In place of a failure: a thread disconnects the VI, and has released its locks until the device is quiesced. */
enum { VIPL_VI_LEAVING = 0x7FFFFFFF };

/* The send that comes next to the device, where there is a fault plan: what hook/plan.c remembers of it. */
struct vipl_vi_plan {
    uint32_t number; /* its number in the plan; 0: it has none yet */
    bool delayed;    /* it was delayed, and may still be */
};

/* From the pool; live while `handle` is set. */
struct vipl_vi {
    uint64_t area[VIPL_VI_AREA_BYTES / 8]; /* the backend's part; first, see vipl_vi_area() */
    void *handle; /* atomic: written under both locks, read under either; threads that poll look without */
    struct vipl_nic *nic; /* constant while live; atomic, for threads that poll */
    VIP_VI_STATE state;
    uint32_t tag;     /* the tag's number; 0: memory of any tag of the NIC handle */
    uint32_t failure; /* atomic: 0; 1 + VIP_ERROR_CODE, set by the thread whose list it is on; or LEAVING */
    uint32_t reads;   /* RDMA Reads under way; guarded by the send lock */
    bool takes_recvs; /* constant while live: the device takes receives when they are posted */
    bool sends_short; /* the device has send_short(), and the VI may use it; as attributes */
    bool recvs_given; /* it was given some since it last quiesced; guarded by the receive lock */
    bool unknown_done_logged; /* one was reported done that it had not; guarded by the receive lock */
    VIP_VI_ATTRIBUTES attributes;
    struct vipl_ptag *ptag;          /* the tag that the VI uses */
    struct vipl_list nic_link;       /* nic->vis; guarded by the NIC's lock. In the pool: free link */
    struct vipl_deferred end_failed; /* of the thread that set `failure` */
    VIPL_FUTEX_WORD uint32_t holds;  /* atomic */
    void *user_data;                 /* atomic */

    VIP_RETURN connect_rc;             /* NOT_DONE while connecting; both locks */
    bool connect_is_peer;              /* both locks */
    uint64_t connect_deadline;         /* both locks */
    struct vipl_vi_params peer_params; /* the peer's; written under both locks, read under either */
    struct vipl_list connect_waiters;  /* vipl_waiter.link; guarded by the receive lock */

    uint64_t connections;      /* statistics, see VIPX_WORK_STATISTICS; both locks */
    uint64_t connections_lost; /* both locks */
    uint64_t requests_refused; /* both locks */

    struct vipl_vi_plan plan; /* the hook's; guarded by the send lock */

    struct vipl_queue send;
    struct vipl_queue recv;
};

VIP_RETURN vipl_vi_create(struct vipl_nic *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq,
                          void *recv_cq, void **out);
VIP_RETURN vipl_vi_destroy(void *handle);
void vipl_vi_close(struct vipl_vi *vi, void *handle); /* disconnects without lingering and destroys */
VIP_RETURN vipl_vi_change(void *handle, const VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_vi_disconnect(void *handle);
void vipl_vi_abandon_pool(void);

/* Locks that queue of a VI that was found by its handle; false: it has ended meanwhile. `recv` is a constant at each call. */
static inline bool vipl_vi_lock_found(struct vipl_vi *vi, const void *handle, bool recv)
{
    struct vipl_biased *lock = recv ? &vi->recv.lock : &vi->send.lock;
    vipl_biased_lock(lock);
    if (VIPL_UNLIKELY(vi->handle != handle)) {
        vipl_biased_unlock(lock);
        return false;
    }
    return true;
}
/* The VI with the lock of that queue held; NULL: no such VI. */
static inline struct vipl_vi *vipl_vi_lock_one(void *handle, bool recv)
{
    struct vipl_vi *vi = (struct vipl_vi *)vipl_handle_find(VIPL_KIND_VI, handle);
    return vi != NULL && vipl_vi_lock_found(vi, handle, recv) ? vi : NULL;
}
static inline struct vipl_vi *vipl_vi_lock_send(void *handle)
{
    return vipl_vi_lock_one(handle, false);
}
static inline struct vipl_vi *vipl_vi_lock_recv(void *handle)
{
    return vipl_vi_lock_one(handle, true);
}
static inline struct vipl_queue *vipl_vi_lock_queue(void *handle, bool recv)
{
    struct vipl_vi *vi = vipl_vi_lock_one(handle, recv);
    return vi == NULL ? NULL : recv ? &vi->recv : &vi->send;
}
/* For a thread that polls, without a lock: the VI's NIC handle, or NULL: no such VI. Both may have ended a moment ago. */
static inline struct vipl_nic *vipl_vi_nic_hint(struct vipl_vi *vi, const void *handle)
{
    struct vipl_nic *nic = (struct vipl_nic *)vipl_load_ptr((void **)&vi->nic);
    return vipl_load_ptr(&vi->handle) == handle ? nic : NULL;
}
struct vipl_nic *vipl_vi_nic(void *handle); /* with a reference; NULL: no such VI */
/* Both locks, once nothing holds the VI. NULL: no such VI. */
struct vipl_vi *vipl_vi_lock_quiet(void *handle);
void vipl_vi_lock(struct vipl_vi *vi);
void vipl_vi_unlock(struct vipl_vi *vi);

static inline bool vipl_vi_is_reliable(const struct vipl_vi *vi)
{
    return vi->attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
}

/* The queue is about to look up registered memory (mem.h). Its lock is held. */
static inline void vipl_queue_reads(struct vipl_queue *q)
{
    if (VIPL_UNLIKELY(q->reading_epoch != vipl_load_acquire(&q->vi->nic->mem.epoch))) {
        vipl_queue_enlist_reader(q);
    }
}

/* While held (by a thread that has one of its locks, or see vipl_up_fail()) a VI is neither connected again nor destroyed. */
void vipl_vi_hold(struct vipl_vi *vi);
void vipl_vi_put(struct vipl_vi *vi);
/* As vipl_up_fail(), if the VI is connected. A queue lock is held. */
void vipl_vi_fail(struct vipl_vi *vi, VIP_ERROR_CODE code);

void vipl_vi_report(struct vipl_vi *vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code, uint32_t op,
                    VIP_DESCRIPTOR *descriptor);

#endif
