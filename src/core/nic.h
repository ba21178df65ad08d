/* SPDX-License-Identifier: MIT */
/*
 * A NIC handle: an opened device with its backend and its objects.
 *
 * A call that may block, or that uses the NIC handle while it holds no lock of a VI, holds a
 * reference (vipl_nic_get, vipl_nic_put); closing waits until all references are given back.
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

/* From the pool; live while `handle` is set. The fields after `poll_filter` are zero when a NIC
 * handle is opened, except locks and lists. */
struct vipl_nic {
    struct vipl_mutex lock; /* rank NIC */
    /* atomic: counts application calls that made progress; read by service.c */
    uint32_t activity;
    struct vipl_list free; /* in the pool */
    void *handle;          /* guarded by lock; NULL: not live, or closing */
    /* atomic: struct vipl_poll_filter. Threads that poll read the pointer without lock or
     * reference; see poll_filter.h. NULL: there is no filter, or the hook must see each poll. */
    void *poll_filter;
    void *public_handle; /* the same as handle, constant while live: for the program's handlers */
    /* atomic: the number of references; the closing thread waits until only its own is left. */
    VIPL_FUTEX_WORD uint32_t users;
    uint32_t closing; /* atomic; set once under lock */
    /* constant while live: the fork generation of the process that opened it */
    uint32_t generation;

    const struct vipl_backend *ops; /* constant while live: the backend, or the hook around it */
    struct vipl_be_nic *be;         /* constant while live */
    struct vipl_limits limits;      /* constant while live */
    struct vipl_address address;    /* constant while live */
    char name[64];                  /* constant while live: as opened */
    bool strict_cq;                 /* constant while live: VIPL_STRICT=cq */
    uint8_t progress_mode;          /* constant while live: enum vipl_progress_mode */
    bool quiet;                     /* constant while live: VIPX_QUIET */
    bool waits_itself;              /* constant while live: VIPX_INLINE */
    bool listens_in_calls;          /* constant while live: VIPX_BRIEF_LISTENER */
    uint32_t restart;               /* atomic: calls sleep on after a signal handler ran */
    uint32_t linger_ms;             /* constant while live: VIPL_LINGER, 0 with VIPX_NO_LINGER */
    uint32_t spin_ns;               /* constant while live: VIPL_SPIN_US with VIPX_SPIN, else 0 */

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
    /* requests that VipConnectWait() has not taken; guarded by lock */
    uint32_t conns_waiting;
    /* Readable while conns_waiting > 0; NULL: the program has not asked for it; guarded by lock. */
    struct vipl_ready_fd *conn_ready_fd;
    /* rank LISTEN: held while the backend begins or stops listening */
    struct vipl_mutex listening;
    uint32_t listeners_idle;        /* listeners that no call waits for; guarded by listening */
    struct vipl_list listeners;     /* vipl_listener.link; changed under both listening and lock */
    VIP_NET_ADDRESS *discovered[2]; /* for VipQuerySystemManagementInfo(); guarded by lock */

    struct vipl_mem mem;
    void *cache; /* atomic: struct vipl_cache; NULL: the program has acquired no memory; cache.c */
    struct vipl_sleepers sleepers;
    struct vipl_service service;
};

/* Returns a vipl_nic from the pool, with the contents that it had when it was put there; NULL: no
 * memory. */
struct vipl_nic *vipl_nic_new(void);
void vipl_nic_abandon_pool(void);
/* Looks up a handle and takes a reference. NULL: not a live handle. */
struct vipl_nic *vipl_nic_get(void *handle);
/* Takes another reference; false: the NIC handle is closing. The caller has a reference, or holds
 * the lock of a live object of the NIC handle: while such an object exists, the closing thread has
 * not given its own reference back. A reference on a NIC in the pool must never be taken. */
bool vipl_nic_ref(struct vipl_nic *nic);
void vipl_nic_put(struct vipl_nic *nic);
/* Returns true in a process that was forked inside a call or a handler of this NIC handle, and has
 * returned there. The caller may then touch nothing of the NIC handle, not even a lock. */
static inline bool vipl_nic_is_inherited(const struct vipl_nic *nic)
{
    return nic->generation != vipl_fork_generation();
}

/* Returns true if a poll of the NIC handle would find nothing. The caller has found nothing in an
 * object of the NIC handle, and needs no reference on the NIC handle. */
static inline bool vipl_nic_may_skip_poll(struct vipl_nic *nic)
{
    struct vipl_poll_filter *filter = (struct vipl_poll_filter *)vipl_load_ptr(&nic->poll_filter);
    return filter != NULL && vipl_poll_filter_may_skip(filter);
}
/* Polls by the poll filter, without a reference. False: the caller has to take a reference and to
 * call vipl_nic_progress(). */
bool vipl_nic_poll_fast(struct vipl_nic *nic);
/* Polls the backend for an application thread, which has a reference and holds no lock. */
void vipl_nic_progress(struct vipl_nic *nic);

#endif
