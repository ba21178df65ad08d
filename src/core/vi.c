/* SPDX-License-Identifier: MIT */
/* The life of a VI: creation, attributes, the ways out of CONNECTED, destruction. */
#include "core/vi.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/handle.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/service.h"
#include "core/transfer.h"
#include "core/wait.h"
#include "os/os.h"
#include "os/os_compiler.h"

_Static_assert(offsetof(struct vipl_vi, area) == 0, "vipl_vi_area() relies on it");

static void finish_failure(struct vipl_deferred *work);

static void vi_make(void *object)
{
    struct vipl_vi *vi = object;
    vipl_queue_make(&vi->send, vi, false);
    vipl_queue_make(&vi->recv, vi, true);
    vipl_list_init(&vi->connect_waiters);
    vi->end_failed.run = finish_failure;
}

static struct vipl_pool vi_pool = VIPL_POOL_INIT(vi_pool, struct vipl_vi, nic_link, vi_make);

void vipl_vi_abandon_pool(void)
{
    vipl_pool_abandon(&vi_pool);
}

/* --- locking --- */

/* A bit of `holds`: a thread sleeps until nothing holds the VI. */
#define HOLDS_AWAITED UINT32_C(0x80000000)

void vipl_vi_lock(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->send.lock);
    vipl_biased_lock(&vi->recv.lock);
}

void vipl_vi_unlock(struct vipl_vi *vi)
{
    vipl_biased_unlock(&vi->recv.lock);
    vipl_biased_unlock(&vi->send.lock);
}

/* Sleeps until `holds` has another value. After VIPL_SERVICE_RESPONSE_MS the thread does the
 * service thread's work itself, for which the service thread may hold the VI. */
static void await_put(struct vipl_vi *vi, void *handle, uint32_t holds)
{
    if (vipl_futex_wait_for(&vi->holds, holds, VIPL_SERVICE_RESPONSE_MS) != ETIMEDOUT) {
        return;
    }
    struct vipl_nic *nic = vipl_vi_nic(handle);
    if (nic != NULL) {
        vipl_service_relieve(nic);
        vipl_nic_put(nic);
    }
}

struct vipl_vi *vipl_vi_lock_quiet(void *handle)
{
    struct vipl_vi *vi = vipl_handle_find(VIPL_KIND_VI, handle);
    while (vi != NULL) {
        uint32_t holds;
        vipl_vi_lock(vi);
        if (vi->handle != handle) {
            vipl_vi_unlock(vi);
            return NULL;
        }
        holds = vipl_load_acquire(&vi->holds); /* pairs with vipl_vi_put() */
        if ((holds & ~HOLDS_AWAITED) == 0) {
            return vi;
        }
        vipl_vi_unlock(vi);
        assert(vipl_deferred_first == NULL); /* otherwise this thread itself might hold the VI */
        if (vipl_compare_exchange(&vi->holds, holds, holds | HOLDS_AWAITED)) {
            await_put(vi, handle, holds | HOLDS_AWAITED);
        }
    }
    return NULL;
}

struct vipl_nic *vipl_vi_nic(void *handle)
{
    struct vipl_vi *vi = vipl_vi_lock_send(handle);
    if (vi == NULL) {
        return NULL;
    }
    struct vipl_nic *nic = vipl_nic_ref(vi->nic) ? vi->nic : NULL;
    vipl_biased_unlock(&vi->send.lock);
    return nic;
}

bool vipl_vi_progress(void *handle)
{
    struct vipl_nic *nic = vipl_vi_nic(handle);
    if (nic == NULL) {
        return false;
    }
    vipl_nic_progress(nic);
    vipl_nic_put(nic);
    return true;
}

void vipl_vi_hold(struct vipl_vi *vi)
{
    vipl_fetch_add(&vi->holds, 1);
}

void vipl_vi_put(struct vipl_vi *vi)
{
    if (vipl_fetch_add(&vi->holds, (uint32_t)-1) == (1 | HOLDS_AWAITED)) {
        /* The value changes once more, so that a thread about to sleep on the old value does
         * not. */
        vipl_fetch_and(&vi->holds, ~HOLDS_AWAITED);
        vipl_futex_wake_all(&vi->holds);
    }
}

/* --- attributes --- */

static VIP_RETURN check_vi_attributes(const struct vipl_nic *nic, const VIP_VI_ATTRIBUTES *a)
{
    unsigned level = a->ReliabilityLevel;
    if (level == 0 || (level & (level - 1)) != 0 || (level & nic->limits.reliability_levels) == 0) {
        return VIP_INVALID_RELIABILITY_LEVEL;
    }
    if (a->MaxTransferSize == 0 || a->MaxTransferSize > nic->limits.max_transfer_size) {
        vipl_log(VIPL_LOG_REASON, "%s: MaxTransferSize is %llu; 1 to %llu are allowed", nic->name,
                 (unsigned long long)a->MaxTransferSize, (unsigned long long)nic->limits.max_transfer_size);
        return VIP_INVALID_MTU;
    }
    if (a->QoS != NULL) {
        return VIP_INVALID_QOS;
    }
    if (a->EnableRdmaRead != VIP_FALSE && (level & nic->limits.rdma_read_levels) == 0) {
        return VIP_INVALID_RDMAREAD;
    }
    return VIP_SUCCESS;
}

/* Sets the attributes of a VI. Both locks of the VI are held. */
static void set_attributes(struct vipl_vi *vi, const VIP_VI_ATTRIBUTES *a, struct vipl_ptag *ptag)
{
    vi->attributes = *a;
    vi->sends_short =
        vi->nic->ops->send_short != NULL && a->ReliabilityLevel != VIP_SERVICE_RELIABLE_RECEPTION;
    vi->ptag = ptag;
    vi->tag = a->Ptag == NULL ? 0 : ptag->number;
    vipl_queue_forget_memory(&vi->send);
    vipl_queue_forget_memory(&vi->recv);
}

void vipl_up_vi_params(struct vipl_vi *vi, struct vipl_vi_params *out)
{
    out->reliability = vi->attributes.ReliabilityLevel;
    out->max_transfer_size = vi->attributes.MaxTransferSize;
    out->rdma_write = vi->attributes.EnableRdmaWrite != VIP_FALSE;
    out->rdma_read = vi->attributes.EnableRdmaRead != VIP_FALSE;
    out->has_qos = vi->attributes.QoS != NULL;
    out->foreign = false;
    out->is_32_bit = sizeof(void *) == 4;
}

uint32_t vipl_up_vi_tag(struct vipl_vi *vi)
{
    return vi->tag;
}

/* --- creation --- */

/* Counts one more user of both completion queues, which must belong to this NIC handle. The NIC's
 * lock is held. */
static VIP_RETURN use_cqs(struct vipl_nic *nic, void *const handles[2], struct vipl_cq *cqs[2])
{
    for (int i = 0; i < 2; i++) {
        cqs[i] = handles[i] == NULL ? NULL : vipl_cq_lock(handles[i]);
        bool good = handles[i] == NULL || (cqs[i] != NULL && cqs[i]->nic == nic);
        if (cqs[i] != NULL) { /* live until the NIC's lock is released */
            vipl_biased_unlock(&cqs[i]->lock);
        }
        if (!good) {
            return VIP_INVALID_PARAMETER;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (cqs[i] != NULL) {
            cqs[i]->queues++;
        }
    }
    return VIP_SUCCESS;
}

static void drop_cqs_locked(struct vipl_cq *const cqs[2])
{
    for (int i = 0; i < 2; i++) {
        if (cqs[i] != NULL) {
            cqs[i]->queues--;
        }
    }
}

/* Puts the VI on the NIC's list and counts it as a user of its tag and completion queues. On
 * failure nothing has changed. */
static VIP_RETURN link_vi(struct vipl_nic *nic, struct vipl_vi *vi, void *ptag_handle, void *const handles[2],
                          struct vipl_cq *cqs[2], struct vipl_ptag **ptag)
{
    vipl_mutex_lock(&nic->lock);
    VIP_RETURN rc = use_cqs(nic, handles, cqs);
    if (rc == VIP_SUCCESS) {
        rc = vipl_ptag_use_locked(nic, ptag_handle, ptag);
        if (rc == VIP_SUCCESS &&
            (nic->vi_count >= nic->limits.max_vis || vipl_load_relaxed(&nic->closing) != 0)) {
            (*ptag)->users--;
            if (nic->vi_count >= nic->limits.max_vis) {
                vipl_log(VIPL_LOG_REASON, "%s: %u VIs are all that a NIC handle has", nic->name,
                         (unsigned)nic->limits.max_vis);
            }
            rc = VIP_ERROR_RESOURCE;
        }
        if (rc != VIP_SUCCESS) {
            drop_cqs_locked(cqs);
        }
    }
    if (rc == VIP_SUCCESS) {
        nic->vi_count++;
        vipl_store_ptr((void **)&vi->nic, nic);
        vipl_list_append(&nic->vis, &vi->nic_link);
    }
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

static void unlink_vi(struct vipl_nic *nic, struct vipl_vi *vi, struct vipl_ptag *ptag,
                      struct vipl_cq *const cqs[2], bool lived)
{
    vipl_mutex_lock(&nic->lock);
    if (lived) {
        vipl_stats_retire_locked(nic, vi);
    }
    vipl_list_remove(&vi->nic_link);
    nic->vi_count--;
    ptag->users--;
    drop_cqs_locked(cqs);
    vipl_mutex_unlock(&nic->lock);
}

/* Sets up a VI from the pool, and makes it live. */
static void fill_vi(struct vipl_vi *vi, void *handle, const VIP_VI_ATTRIBUTES *attributes,
                    struct vipl_ptag *ptag, struct vipl_cq *const cqs[2])
{
    vipl_vi_lock(vi);
    vi->state = VIP_STATE_IDLE;
    vi->reads = 0;
    vi->connect_rc = VIP_INVALID_STATE;
    vi->takes_recvs = vi->nic->ops->post_recv != NULL;
    vi->recvs_given = vi->unknown_done_logged = false;
    vi->plan = (struct vipl_vi_plan){.number = 0};
    vipl_store_relaxed(&vi->failure, 0);
    vipl_store_ptr(&vi->user_data, NULL);
    set_attributes(vi, attributes, ptag);
    vipl_queue_open(&vi->send, cqs[0], vi->nic->limits.max_descriptors);
    vipl_queue_open(&vi->recv, cqs[1], vi->nic->limits.max_descriptors);
    vipl_store_ptr(&vi->handle, handle);
    vipl_vi_unlock(vi);
}

VIP_RETURN vipl_vi_create(struct vipl_nic *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq,
                          void *recv_cq, void **out)
{
    void *const cq_handles[2] = {send_cq, recv_cq};
    struct vipl_cq *cqs[2];
    struct vipl_ptag *ptag;
    VIP_RETURN rc = check_vi_attributes(nic, attributes);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    struct vipl_vi *vi = vipl_pool_get(&vi_pool);
    if (vi == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    rc = link_vi(nic, vi, attributes->Ptag, cq_handles, cqs, &ptag);
    if (rc != VIP_SUCCESS) {
        goto put_vi;
    }
    void *handle = vipl_handle_create(VIPL_KIND_VI, vi);
    if (handle == NULL) {
        rc = VIP_ERROR_RESOURCE;
        goto leave_nic;
    }
    memset(vi->area, 0, sizeof(vi->area));
    rc = nic->ops->vi_create(nic->be, vi);
    if (rc != VIP_SUCCESS) {
        goto destroy_handle;
    }
    fill_vi(vi, handle, attributes, ptag, cqs);
    *out = handle;
    return VIP_SUCCESS;

destroy_handle:
    vipl_handle_destroy(handle);
leave_nic:
    unlink_vi(nic, vi, ptag, cqs, false);
put_vi:
    vipl_pool_put(&vi_pool, vi);
    return rc;
}

/* Changes the attributes of an idle VI. May wait for a thread that holds the VI and that may need
 * the NIC's lock; the caller does not hold that lock. */
static VIP_RETURN change_attributes(void *handle, const VIP_VI_ATTRIBUTES *attributes, VIP_RETURN tag_rc,
                                    struct vipl_ptag **ptag)
{
    struct vipl_vi *vi = vipl_vi_lock_quiet(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc =
        vi->state != VIP_STATE_IDLE ? VIP_INVALID_STATE : check_vi_attributes(vi->nic, attributes);
    rc = rc == VIP_SUCCESS ? tag_rc : rc;
    if (rc == VIP_SUCCESS) {
        struct vipl_ptag *before = vi->ptag;
        set_attributes(vi, attributes, *ptag);
        *ptag = before;
    }
    vipl_vi_unlock(vi);
    return rc;
}

VIP_RETURN vipl_vi_change(void *handle, const VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_nic *nic = vipl_vi_nic(handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_ptag *ptag = NULL; /* the new tag; after the change the old one */
    vipl_mutex_lock(&nic->lock);
    VIP_RETURN rc = vipl_ptag_use_locked(nic, attributes->Ptag, &ptag);
    vipl_mutex_unlock(&nic->lock);
    rc = change_attributes(handle, attributes, rc, &ptag);
    if (ptag != NULL) {
        vipl_mutex_lock(&nic->lock);
        ptag->users--;
        vipl_mutex_unlock(&nic->lock);
    }
    vipl_nic_put(nic);
    return rc;
}

/* --- into CONNECTED, or not --- */

/* The VI's request has ended: wakes the threads that wait for that. Both locks are held. */
static void announce_connect_locked(struct vipl_vi *vi)
{
    vipl_wake_all_locked(&vi->connect_waiters);
    if (vi->connect_is_peer && vi->send.cq != NULL) {
        vipl_cq_request_ended(vi->send.cq);
    }
    if (vi->connect_is_peer && vi->recv.cq != NULL && vi->recv.cq != vi->send.cq) {
        vipl_cq_request_ended(vi->recv.cq);
    }
}

bool vipl_up_connected(struct vipl_vi *vi, const struct vipl_vi_params *remote)
{
    vipl_vi_lock(vi);
    bool pending = vi->handle != NULL && vi->state == VIP_STATE_CONNECT_PENDING;
    if (pending) {
        vi->state = VIP_STATE_CONNECTED;
        vi->connect_rc = VIP_SUCCESS;
        vi->connections++;
        vi->peer_params = *remote;
        vipl_biased_allow(&vi->send.lock);
        vipl_biased_allow(&vi->recv.lock);
        announce_connect_locked(vi);
    }
    vipl_vi_unlock(vi);
    return pending;
}

void vipl_up_connect_failed(struct vipl_vi *vi, VIP_RETURN rc)
{
    vipl_vi_lock(vi);
    if (vi->handle != NULL && vi->state == VIP_STATE_CONNECT_PENDING) {
        vi->state = VIP_STATE_IDLE;
        vi->connect_rc = rc;
        vi->requests_refused += rc == VIP_REJECT ? 1 : 0;
        vipl_recvs_take_back_locked(vi);
        announce_connect_locked(vi);
    }
    vipl_vi_unlock(vi);
}

/* --- out of CONNECTED --- */

/* Holds the VI before it sets `failure`: a thread that sees the failure, and waits until nothing
 * holds the VI, then waits for the end of the connection. */
VIPL_COLD void vipl_up_fail(struct vipl_vi *vi, VIP_ERROR_CODE code)
{
    if (vipl_up_has_failed(vi)) {
        return;
    }
    vipl_vi_hold(vi);
    if (vipl_compare_exchange(&vi->failure, 0, 1u + (uint32_t)code)) {
        vipl_defer(&vi->end_failed);
    } else {
        vipl_vi_put(vi);
    }
}

bool vipl_up_has_failed(const struct vipl_vi *vi)
{
    return vipl_load_relaxed(&vi->failure) != 0;
}

VIPL_COLD void vipl_vi_fail(struct vipl_vi *vi, VIP_ERROR_CODE code)
{
    if (vi->state == VIP_STATE_CONNECTED) {
        vipl_up_fail(vi, code);
    }
}

void vipl_vi_report(struct vipl_vi *vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code, uint32_t op,
                    VIP_DESCRIPTOR *descriptor)
{
    VIP_ERROR_DESCRIPTOR error = {
        .NicHandle = vi->nic->public_handle,
        .ViHandle = vi->handle,
        .DescriptorPtr = descriptor,
        .OpCode = op,
        .ResourceCode = resource,
        .ErrorCode = code,
    };
    vipl_error_report(vi->nic, &error);
}

/* Quiesces the device for a VI. Both locks are held, and are released during the call. The VI is
 * held, and nothing is posted meanwhile. False: this is a child that was forked meanwhile, and the
 * caller touches nothing any more. */
static bool quiesce_locked(struct vipl_vi *vi)
{
    struct vipl_nic *nic = vi->nic;
    vi->recvs_given = false;
    vipl_vi_unlock(vi);
    nic->ops->quiesce(nic->be, vi);
    if (vipl_nic_is_inherited(nic)) {
        vipl_deferred_first = NULL; /* the deferred work belongs to the parent */
        return false;
    }
    vipl_vi_lock(vi);
    return true;
}

/* Takes a VI out of CONNECTED: afterwards the VI has the state `state`, and its queues are flushed.
 * Both locks are held, and the VI is held. If the backend has quiesce(), `failure` is set, so that
 * nothing more is posted. False: as quiesce_locked(). */
static bool leave_connected_locked(struct vipl_vi *vi, VIP_VI_STATE state)
{
    vi->nic->ops->revoke(vi->nic->be, vi);
    if (vi->nic->ops->quiesce != NULL && !quiesce_locked(vi)) {
        return false;
    }
    vi->state = state;
    vi->reads = 0;
    vipl_queue_flush_locked(&vi->send);
    vipl_queue_flush_locked(&vi->recv);
    return true;
}

/* Ends the connection of a VI that has failed. If this makes another VI of this process fail, the
 * end of its connection is deferred in turn. */
static void finish_failure(struct vipl_deferred *work)
{
    struct vipl_vi *vi = VIPL_CONTAINER(work, struct vipl_vi, end_failed);
    if (vi->nic->ops->quiesce != NULL && vipl_service_takes(vi->nic, work)) {
        return;
    }
    vipl_vi_lock(vi);
    uint32_t failure = vipl_load_relaxed(&vi->failure);
    bool connected = vi->handle != NULL && vi->state == VIP_STATE_CONNECTED;
    if (connected) {
        if (!leave_connected_locked(vi, VIP_STATE_ERROR)) {
            return;
        }
        vi->connections_lost++;
    }
    /* Not earlier: while `failure` is set, the VI may be on this thread's list. */
    vipl_store_relaxed(&vi->failure, 0);
    vipl_vi_unlock(vi);
    if (connected) {
        vi->nic->ops->disconnect(vi->nic->be, vi);
        vipl_vi_report(vi, VIP_RESOURCE_VI, (VIP_ERROR_CODE)(failure - 1), 0, NULL);
    }
    vipl_vi_put(vi);
}

/* Whether a disconnect would break off sends, or answers to the peer's RDMA Reads. The send lock is
 * held. */
static bool is_busy_locked(struct vipl_vi *vi)
{
    const struct vipl_backend *ops = vi->nic->ops;
    return vi->state == VIP_STATE_CONNECTED &&
           (vi->send.completed != vi->send.posted ||
            (ops->is_answering != NULL && ops->is_answering(vi->nic->be, vi)));
}

void vipl_up_answered(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->send.lock);
    vipl_wake_all_locked(&vi->send.waiters);
    vipl_biased_unlock(&vi->send.lock);
}

/* VIP_SUCCESS: nothing is under way any more, or the connection has ended. */
static VIP_RETURN attempt_drained(void *arg, struct vipl_waiter *waiter)
{
    struct vipl_vi *vi = arg;
    vipl_biased_lock(&vi->send.lock);
    bool over = vipl_up_has_failed(vi) || !is_busy_locked(vi);
    if (!over && waiter != NULL) {
        vipl_list_append(&vi->send.waiters, &waiter->link);
        vipl_queue_watch(&vi->send);
    }
    vipl_biased_unlock(&vi->send.lock);
    return over ? VIP_SUCCESS : VIP_NOT_DONE;
}

static void leave_drained(void *arg, struct vipl_waiter *waiter, bool unused)
{
    (void)unused;
    struct vipl_vi *vi = arg;
    vipl_biased_lock(&vi->send.lock);
    /* This waiter reaps no completion, so another waiter must be woken for the one that woke it. */
    vipl_unlist_locked(&vi->send.waiters, waiter, true);
    vipl_biased_unlock(&vi->send.lock);
}

/* Waits until the sends that were posted before a disconnect on a reliable VI are delivered, and
 * the peer's RDMA Reads are answered, or until VIPL_LINGER is over. The caller holds a reference on
 * the NIC and no lock. */
static void linger(struct vipl_vi *vi)
{
    struct vipl_wait_for what = {.attempt = attempt_drained, .leave = leave_drained, .arg = vi};
    uint64_t deadline = vipl_deadline(vi->nic->linger_ms);
    VIP_RETURN rc;
    do {
        rc = vipl_wait(vi->nic, &what, deadline);
    } while (rc == VIP_INTERRUPTED); /* signals do not end the wait of a disconnect */
}

/* Waits until nothing holds the VI, and takes both locks. If the VI is CONNECTED and the backend
 * has quiesce(), `failure` is LEAVING afterwards: nothing more is posted, no failure is marked, and
 * the caller ends the connection. NULL: not a live handle. */
static struct vipl_vi *lock_to_disconnect(void *handle)
{
    struct vipl_vi *vi;
    while ((vi = vipl_vi_lock_quiet(handle)) != NULL) {
        if (vi->state != VIP_STATE_CONNECTED || vi->nic->ops->quiesce == NULL ||
            vipl_compare_exchange(&vi->failure, 0, VIPL_VI_LEAVING)) {
            return vi;
        }
        vipl_vi_unlock(vi); /* another thread has just marked a failure, and holds the VI */
    }
    return NULL;
}

/* Disconnects a CONNECTED VI. Both locks are held, and released. */
static void disconnect_and_unlock(struct vipl_vi *vi)
{
    vipl_vi_hold(vi);
    if (!leave_connected_locked(vi, VIP_STATE_IDLE)) {
        return;
    }
    if (vi->nic->ops->quiesce != NULL) {
        vipl_store_relaxed(&vi->failure, 0); /* the value was VIPL_VI_LEAVING */
    }
    vipl_vi_unlock(vi);
    vi->nic->ops->disconnect(vi->nic->be, vi);
    vipl_vi_put(vi);
    vipl_deferred_run();
}

/* Flushes the receives that were posted for a connection that is not made. Both locks are held, and
 * released. */
static void flush_and_unlock(struct vipl_vi *vi)
{
    vipl_vi_hold(vi);
    if (vi->recvs_given && !quiesce_locked(vi)) {
        return;
    }
    vipl_queue_flush_locked(&vi->recv);
    vipl_vi_unlock(vi);
    vipl_vi_put(vi);
    vipl_deferred_run();
}

static void disconnect(struct vipl_vi *vi, void *handle, bool was_pending)
{
    if (lock_to_disconnect(handle) == NULL) {
        return;
    }
    vi->connect_is_peer = false;
    if (vi->state == VIP_STATE_CONNECTED) {
        disconnect_and_unlock(vi);
        return;
    }
    if (vi->state == VIP_STATE_IDLE && was_pending) {
        flush_and_unlock(vi);
        return;
    }
    if (vi->state == VIP_STATE_ERROR) {
        vi->state = VIP_STATE_IDLE;
    }
    vipl_vi_unlock(vi);
}

/* Ends a connect that is under way, with the result `why`, unless the connection has been made
 * meanwhile. Returns true if a connect was under way. */
static bool cancel_connect(struct vipl_vi *vi, void *handle, VIP_RETURN why)
{
    if (vipl_vi_lock_quiet(handle) == NULL) {
        return false;
    }
    bool pending = vi->state == VIP_STATE_CONNECT_PENDING;
    vipl_vi_hold(vi);
    vipl_vi_unlock(vi);
    if (pending && vi->nic->ops->connect_cancel(vi->nic->be, vi, true) != VIP_SUCCESS) {
        vipl_up_connect_failed(vi, why);
    }
    vipl_vi_put(vi);
    vipl_deferred_run();
    return pending;
}

VIP_RETURN vipl_vi_disconnect(void *handle)
{
    struct vipl_vi *vi = vipl_vi_lock_send(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_nic *nic = vipl_nic_ref(vi->nic) ? vi->nic : NULL;
    bool must_drain = vipl_vi_is_reliable(vi) && is_busy_locked(vi);
    vipl_biased_unlock(&vi->send.lock);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    bool was_pending = cancel_connect(vi, handle, VIP_INVALID_STATE);
    if (must_drain) {
        linger(vi);
    }
    disconnect(vi, handle, was_pending);
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}

/* --- destruction --- */

/* Waits until nothing holds the VI, and takes both locks. If the VI is IDLE, the device has no
 * receive of it any more. NULL: not a live handle. */
static struct vipl_vi *lock_to_end(void *handle)
{
    struct vipl_vi *vi;
    while ((vi = vipl_vi_lock_quiet(handle)) != NULL && vi->state == VIP_STATE_IDLE && vi->recvs_given) {
        vipl_vi_hold(vi);
        if (!quiesce_locked(vi)) {
            return NULL;
        }
        vipl_vi_unlock(vi);
        vipl_vi_put(vi);
        vipl_deferred_run();
    }
    return vi;
}

/* Ends an IDLE VI, which nothing holds. Both locks are held, and released. */
static void end_vi_locked(struct vipl_vi *vi, void *handle)
{
    struct vipl_nic *nic = vi->nic;
    struct vipl_ptag *ptag = vi->ptag;
    struct vipl_cq *const cqs[2] = {vi->send.cq, vi->recv.cq};
    vipl_wake_all_locked(&vi->connect_waiters);
    vipl_queue_close_locked(&vi->send);
    vipl_queue_close_locked(&vi->recv);
    /* After the queues are closed: a thread that takes an entry of a completion queue reads
     * `handle` without the locks of the VI. */
    vipl_store_ptr(&vi->handle, NULL);
    vipl_vi_unlock(vi);
    vipl_handle_destroy(handle);
    nic->ops->vi_destroy(nic->be, vi);
    unlink_vi(nic, vi, ptag, cqs, true);
    vipl_pool_put(&vi_pool, vi);
}

VIP_RETURN vipl_vi_destroy(void *handle)
{
    struct vipl_nic *nic = vipl_vi_nic(handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    struct vipl_vi *vi = lock_to_end(handle);
    if (vi != NULL && vi->state != VIP_STATE_IDLE) {
        vipl_vi_unlock(vi);
        rc = VIP_INVALID_STATE;
    } else if (vi != NULL) {
        end_vi_locked(vi, handle);
        rc = VIP_SUCCESS;
    }
    vipl_nic_put(nic);
    return rc;
}

void vipl_vi_close(struct vipl_vi *vi, void *handle)
{
    vipl_deferred_run();
    disconnect(vi, handle, cancel_connect(vi, handle, VIP_INVALID_PARAMETER));
    if (lock_to_end(handle) != NULL) {
        end_vi_locked(vi, handle);
    }
}
