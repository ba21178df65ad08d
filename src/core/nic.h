/* SPDX-License-Identifier: MIT */
/*
 * An opened device: its backend and its objects.
 *
 * A call that may block or that uses the NIC beyond one VI's locks holds a reference
 * (vipl_nic_get, vipl_nic_put); closing waits for all of them to end.
 */
#ifndef VIPL_CORE_NIC_H
#define VIPL_CORE_NIC_H

#include "base/config.h"
#include "base/list.h"
#include "core/backend.h"
#include "core/mem.h"
#include "core/ready_fd.h"
#include "core/service.h"
#include "core/stats.h"
#include "core/wait.h"
#include "os/os_mutex.h"

struct vipl_vi;
struct vipl_cq;

/* From the pool; live while `handle` is set. What follows `poll_filter` begins at zero, but for locks and lists. */
struct vipl_nic {
    struct vipl_mutex lock; /* rank NIC */
    uint32_t activity;      /* atomic: counts application calls that made progress; read by service.c */
    struct vipl_list free;  /* in the pool */
    void *handle;           /* guarded by lock; NULL: not live, or closing */
    /* Read by threads that poll, without lock or reference; see poll_filter.h. */
    void *poll_filter; /* atomic: struct vipl_poll_filter; NULL: none, or each poll has to come to the hook */
    void *public_handle;            /* the same as handle, constant while live: for callbacks */
    VIPL_FUTEX_WORD uint32_t users; /* atomic: references; closing waits until only its own is left */
    uint32_t closing;               /* atomic; set once under lock */
    uint32_t generation;            /* constant while live: of the process that opened it */

    const struct vipl_backend *ops; /* constant while live: the backend, or the hook around it */
    struct vipl_be_nic *be;         /* constant while live */
    struct vipl_limits limits;      /* constant while live */
    struct vipl_address address;    /* constant while live */
    char name[64];                  /* constant while live: as opened */
    bool strict_cq;                 /* constant while live: VIPL_STRICT=cq */
    uint8_t progress_mode;          /* constant while live: enum vipl_progress_mode */
    uint32_t restart;               /* atomic: calls resume after a signal handler ran */
    uint32_t linger_ms;             /* constant while live: VIPL_LINGER */

    struct vipl_list vis;           /* vipl_vi.nic_link; guarded by lock */
    struct vipl_list cqs;           /* vipl_cq.nic_link; guarded by lock */
    struct vipl_list ptags;         /* vipl_ptag.nic_link; guarded by lock */
    uint32_t vi_count;              /* guarded by lock */
    uint32_t cq_count;              /* guarded by lock */
    uint32_t ptag_count;            /* guarded by lock */
    uint32_t last_tag;              /* guarded by lock */
    struct vipl_retired retired;    /* guarded by lock */
    struct vipl_ptag *default_ptag; /* constant while live */

    struct vipl_list conns;        /* vipl_conn.link, all requests; guarded by lock */
    struct vipl_list conn_waiters; /* vipl_waiter.link: VipConnectWait(); guarded by lock */
    uint32_t conns_waiting;        /* those not taken by VipConnectWait(); guarded by lock */
    /* readable while conns_waiting > 0; NULL: the program has not asked for it; guarded by lock */
    struct vipl_ready_fd *conn_ready_fd;
    struct vipl_mutex listening;    /* rank LISTEN: held while the backend begins or ceases to listen */
    uint32_t listeners_idle;        /* those that no call waits for; guarded by listening */
    struct vipl_list listeners;     /* vipl_listener.link; changed under both listening and lock */
    VIP_NET_ADDRESS *discovered[2]; /* for VipQuerySystemManagementInfo(); guarded by lock */

    struct vipl_mem mem;
    struct vipl_sleepers sleepers;
    struct vipl_service service;
};

struct vipl_nic *vipl_nic_new(void); /* from the pool, as it was left there; NULL: no memory */
void vipl_nic_abandon_pool(void);
struct vipl_nic *vipl_nic_get(void *handle); /* a reference, or NULL: not a live handle */
/* Another reference; false: it is closing. The caller has a reference, or the lock of a live object of the NIC handle,
 * which keeps the closing thread's reference there: one on a NIC in the pool must not be taken and put. */
bool vipl_nic_ref(struct vipl_nic *nic);
void vipl_nic_put(struct vipl_nic *nic);
/* Whether this process was forked while a call, or a callback, was under way here, and has returned into it. Then
 * nothing may be touched any more, not even a lock. */
static inline bool vipl_nic_is_inherited(const struct vipl_nic *nic)
{
    return nic->generation != vipl_fork_generation();
}

/* For a thread that polls, and has found nothing at an object of a NIC handle to which it has no reference: whether there is
 * nothing to be done for it. */
static inline bool vipl_nic_may_skip_poll(struct vipl_nic *nic)
{
    struct vipl_poll_filter *filter = (struct vipl_poll_filter *)vipl_load_ptr(&nic->poll_filter);
    return filter != NULL && vipl_poll_filter_may_skip(filter);
}
/* Does it. False: the thread has to take a reference and vipl_nic_progress(). */
bool vipl_nic_poll_fast(struct vipl_nic *nic);
/* Lets the backend make progress on behalf of an application thread. No lock held. */
void vipl_nic_progress(struct vipl_nic *nic);

#endif
