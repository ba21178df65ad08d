/* SPDX-License-Identifier: MIT */
/*
 * A VI: two work queues, a state, attributes.
 *
 * State, attributes and `handle` are written under both queue locks, so either lock is enough to
 * read them. One thread decides under both locks that the VI leaves CONNECTED. That thread then
 * tells the backend and the program, without locks; meanwhile it holds the VI (vipl_vi_hold), and a
 * thread that wants to connect or destroy the VI waits.
 *
 * A device with queues of its own is quiesced between that decision and the flush. For the time of
 * the call both locks are released, while the VI is CONNECTED, held, and marked in `failure`
 * (docs/design/concurrency.md).
 *
 * A failure that ends the connection is marked by vipl_up_fail(), under the lock under which it was
 * found: from then on nothing more is executed or received. The thread that marked the VI ends the
 * connection when it holds no lock any more (base/deferred.h).
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

/* A value of vipl_vi.failure for a VI that has not failed: a thread disconnects the VI, and has
 * released its locks until the device is quiesced. */
enum { VIPL_VI_LEAVING = 0x7FFFFFFF };

/* What hook/plan.c remembers of the send that the device gets next, if there is a fault plan. */
struct vipl_vi_plan {
    uint32_t number; /* the number of the send in the plan; 0: it has none yet */
    bool delayed;    /* the plan has delayed the send, and may still do so */
};

/* From the pool; live while `handle` is set. */
struct vipl_vi {
    uint64_t area[VIPL_VI_AREA_BYTES / 8]; /* the backend's part; first, see vipl_vi_area() */
    /* atomic: written under both locks; threads that poll read it without a lock */
    void *handle;
    struct vipl_nic *nic; /* constant while live; atomic, for threads that poll */
    VIP_VI_STATE state;
    uint32_t tag; /* the tag's number; 0: memory of any tag of the NIC handle */
    /* atomic: 0; or 1 + VIP_ERROR_CODE, set by the thread on whose list the VI is; or
     * VIPL_VI_LEAVING. */
    uint32_t failure;
    uint32_t reads;   /* pending RDMA Reads; guarded by the send lock */
    bool takes_recvs; /* constant while live: the device takes receives when they are posted */
    /* the backend has send_short() and the VI may use it; guarded like attributes */
    bool sends_short;
    /* the device got a receive since it last quiesced; guarded by the receive lock */
    bool recvs_given;
    bool unknown_done_logged; /* see vipl_up_recv_done(); guarded by the receive lock */
    VIP_VI_ATTRIBUTES attributes;
    struct vipl_ptag *ptag; /* the tag that the VI uses */
    /* nic->vis; guarded by the NIC's lock. In the pool: free link */
    struct vipl_list nic_link;
    struct vipl_deferred end_failed; /* on the list of the thread that set `failure` */
    VIPL_FUTEX_WORD uint32_t holds;  /* atomic */
    void *user_data;                 /* atomic */

    VIP_RETURN connect_rc;             /* VIP_NOT_DONE while connecting; both locks */
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
/* disconnects without lingering and destroys */
void vipl_vi_close(struct vipl_vi *vi, void *handle);
VIP_RETURN vipl_vi_change(void *handle, const VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_vi_disconnect(void *handle);
void vipl_vi_abandon_pool(void);

/* Locks one queue of a VI that the caller has found by its handle. False: the VI has been destroyed
 * meanwhile, and nothing is locked. `recv` is a constant at each call. */
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
/* Finds a VI by its handle and locks one of its queues. NULL: not a live handle. */
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
/* Returns the NIC handle of a VI for a thread that polls without a lock, or NULL if the handle is
 * not live. VI and NIC handle may end at any time: the result is a hint. */
static inline struct vipl_nic *vipl_vi_nic_hint(struct vipl_vi *vi, const void *handle)
{
    struct vipl_nic *nic = (struct vipl_nic *)vipl_load_ptr((void **)&vi->nic);
    return vipl_load_ptr(&vi->handle) == handle ? nic : NULL;
}
/* Returns the NIC handle of a VI, with a reference. NULL: not a live handle. */
struct vipl_nic *vipl_vi_nic(void *handle);
/* Polls the NIC handle of a VI. Returns false if the VI or its NIC handle has ended. */
bool vipl_vi_progress(void *handle);
/* Waits until nothing holds the VI, and takes both of its locks. NULL: not a live handle. */
struct vipl_vi *vipl_vi_lock_quiet(void *handle);
/* Take and release both locks. */
void vipl_vi_lock(struct vipl_vi *vi);
void vipl_vi_unlock(struct vipl_vi *vi);

static inline bool vipl_vi_is_reliable(const struct vipl_vi *vi)
{
    return vi->attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
}

/* The caller, which holds the queue's lock, is about to look up registered memory (mem.h). */
static inline void vipl_queue_reads(struct vipl_queue *q)
{
    if (VIPL_UNLIKELY(q->reading_epoch != vipl_load_acquire(&q->vi->nic->mem.epoch))) {
        vipl_queue_enlist_reader(q);
    }
}

/* A held VI is neither connected again nor destroyed. The caller has one of the VI's locks, or
 * calls under the conditions of vipl_up_fail(). */
void vipl_vi_hold(struct vipl_vi *vi);
void vipl_vi_put(struct vipl_vi *vi);
/* As vipl_up_fail(), if the VI is connected; otherwise no effect. A queue lock is held. */
void vipl_vi_fail(struct vipl_vi *vi, VIP_ERROR_CODE code);

/* Reports an asynchronous error of the VI. */
void vipl_vi_report(struct vipl_vi *vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code, uint32_t op,
                    VIP_DESCRIPTOR *descriptor);

#endif
