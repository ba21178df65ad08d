/* SPDX-License-Identifier: MIT */
/* Entry points: completion queues. */
#include <errno.h>

#include "base/guard.h"
#include "base/handle.h"
#include "core/cq.h"
#include "core/nic.h"
#include "core/queue.h"
#include "core/service.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os_compiler.h"
#include "share/client_call.h"
#include "share/client_wait.h"
#include "vipl/posix.h"

static VIP_RETURN create_cq(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
    if (CQHandle == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *CQHandle = NULL;
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_create_cq(NicHandle, EntryCount, CQHandle);
    }
    struct vipl_nic *nic = EntryCount == 0 ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    if (EntryCount <= nic->limits.max_cq_entries) {
        rc = vipl_cq_create(nic, EntryCount, CQHandle);
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(create_cq(NicHandle, EntryCount, CQHandle))
                              : VIP_ERROR_NOT_SUPPORTED;
}

/* Returns the NIC of a completion queue, with a reference; NULL: not a live handle. */
static struct vipl_nic *cq_nic(VIP_CQ_HANDLE handle)
{
    struct vipl_cq *cq = vipl_cq_lock(handle);
    if (cq == NULL) {
        return NULL;
    }
    struct vipl_nic *nic = vipl_nic_ref(cq->nic) ? cq->nic : NULL;
    vipl_biased_unlock(&cq->lock);
    return nic;
}

static VIP_RETURN destroy_cq(VIP_CQ_HANDLE CQHandle)
{
    if (vipl_handle_is_shared(CQHandle)) {
        return vipl_share_destroy_cq(CQHandle);
    }
    struct vipl_nic *nic = cq_nic(CQHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_cq_destroy(nic, CQHandle);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipDestroyCQ(VIP_CQ_HANDLE CQHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(destroy_cq(CQHandle)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN resize_cq(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
    if (vipl_handle_is_shared(CQHandle)) {
        return vipl_share_resize_cq(CQHandle, EntryCount);
    }
    struct vipl_cq *cq = EntryCount == 0 ? NULL : vipl_cq_lock(CQHandle);
    if (cq == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    if (EntryCount <= cq->nic->limits.max_cq_entries && EntryCount >= cq->count) {
        cq->limit = (uint32_t)EntryCount;
        rc = VIP_SUCCESS;
    }
    vipl_biased_unlock(&cq->lock);
    return rc;
}

VIP_RETURN VI_CALL VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
    return vipl_guard_enter() ? vipl_guard_leave(resize_cq(CQHandle, EntryCount)) : VIP_ERROR_NOT_SUPPORTED;
}

/* Returns the work of the oldest entry; NULL: there is none. */
static inline struct vipl_work *oldest_locked(struct vipl_cq *cq)
{
    return vipl_list_empty(&cq->entries) ? NULL : VIPL_CONTAINER(cq->entries.next, struct vipl_work, cq_link);
}

struct take {
    void *handle;
    void *vi;
    VIP_BOOLEAN recv;
    bool watches; /* VipxCQWaitFds(): the end of a peer-to-peer request ends the wait as well */
    bool request_ended;
};

static inline VIP_RETURN take_entry_locked(struct vipl_cq *cq, struct take *take)
{
    struct vipl_work *work = oldest_locked(cq);
    if (work == NULL) {
        return VIP_NOT_DONE;
    }
    take->vi = work->queue->vi->handle; /* live: the end of a VI removes its entries first */
    take->recv = work->queue->is_recv ? VIP_TRUE : VIP_FALSE;
    vipl_cq_unlist_locked(cq, work);
    return VIP_SUCCESS;
}

static VIP_RETURN attempt_take(void *arg, struct vipl_waiter *waiter)
{
    struct take *take = arg;
    struct vipl_cq *cq = vipl_cq_lock(take->handle);
    if (cq == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = take_entry_locked(cq, take);
    if (rc == VIP_NOT_DONE && take->watches && cq->request_ended) {
        cq->request_ended = false;
        take->request_ended = true;
        rc = VIP_SUCCESS;
    }
    if (rc == VIP_NOT_DONE && waiter != NULL) {
        vipl_list_append(&cq->waiters, &waiter->link);
    }
    vipl_biased_unlock(&cq->lock);
    return rc;
}

static void leave_take(void *arg, struct vipl_waiter *waiter, bool unused)
{
    struct take *take = arg;
    struct vipl_cq *cq = vipl_cq_lock(take->handle);
    if (cq != NULL) {
        vipl_unlist_locked(&cq->waiters, waiter, unused);
        vipl_biased_unlock(&cq->lock);
    }
}

static void hand_out(const struct take *take, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv, VIP_RETURN rc)
{
    *vi = rc == VIP_SUCCESS ? take->vi : NULL;
    if (rc == VIP_SUCCESS) {
        *recv = take->recv;
    }
}

/* Polls the NIC handle of a completion queue that looked empty. */
static VIPL_NOINLINE void poll_for(struct vipl_nic *nic, void *handle)
{
    if (!vipl_nic_poll_fast(nic)) {
        nic = cq_nic(handle);
        if (nic != NULL) {
            vipl_nic_progress(nic);
            vipl_nic_put(nic);
        }
    }
}

/* The slow path of VipCQDone(). The thread is inside the API guard. */
static VIPL_NOINLINE VIP_RETURN take_any(void *handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
    struct take take = {.handle = handle};
    VIP_RETURN rc = attempt_take(&take, NULL);
    if (VIPL_UNLIKELY(rc == VIP_INVALID_PARAMETER) && vipl_handle_is_shared(handle)) {
        rc = vipl_share_cq_done(handle, vi, recv);
    } else {
        hand_out(&take, vi, recv, rc);
    }
    vipl_guard_leave_safe();
    return rc;
}

VIP_RETURN VI_CALL VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
    if (VIPL_UNLIKELY(ViHandle == NULL || RecvQueue == NULL)) {
        return VIP_INVALID_PARAMETER;
    }
    *ViHandle = NULL;
    if (VIPL_UNLIKELY(!vipl_guard_enter_safe())) {
        return VIP_NOT_DONE;
    }
    struct vipl_cq *cq = vipl_handle_find(VIPL_KIND_CQ, CQHandle);
    if (VIPL_LIKELY(cq != NULL) && vipl_cq_looks_empty(cq, CQHandle)) {
        struct vipl_nic *nic = vipl_load_ptr((void **)&cq->nic);
        if (vipl_nic_may_skip_poll(nic)) {
            vipl_guard_leave_safe();
            return VIP_NOT_DONE;
        }
        poll_for(nic, CQHandle);
    }
    if (VIPL_UNLIKELY(cq == NULL || !vipl_biased_trylock_own(&cq->lock))) {
        return take_any(CQHandle, ViHandle, RecvQueue);
    }
    struct take take = {.handle = CQHandle};
    bool taken = cq->handle == CQHandle && take_entry_locked(cq, &take) == VIP_SUCCESS;
    vipl_biased_unlock(&cq->lock);
    if (VIPL_UNLIKELY(!taken)) {
        return take_any(CQHandle, ViHandle, RecvQueue);
    }
    hand_out(&take, ViHandle, RecvQueue, VIP_SUCCESS);
    vipl_guard_leave_safe();
    return VIP_SUCCESS;
}

static VIP_RETURN wait_for_entry(VIP_CQ_HANDLE handle, VIP_ULONG timeout, const void *mask,
                                 struct vipl_more_fds *fds, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
    struct take take = {.handle = handle, .watches = fds != NULL};
    struct vipl_wait_for what = {.attempt = attempt_take,
                                 .leave = leave_take,
                                 .cancellable = true,
                                 .mask = mask,
                                 .fds = fds,
                                 .arg = &take,
                                 .arg_bytes = sizeof(take)};
    if (vi == NULL || recv == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *vi = NULL;
    struct vipl_nic *nic = cq_nic(handle);
    if (nic == NULL && fds != NULL && vipl_handle_is_shared(handle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    if (nic == NULL) {
        return vipl_handle_is_shared(handle) ? vipl_share_cq_wait(handle, timeout, mask, vi, recv)
                                             : VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_wait(nic, &what, vipl_deadline(timeout));
    rc = take.request_ended ? VIP_NOT_DONE : rc;
    hand_out(&take, vi, recv, rc);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
                             VIP_BOOLEAN *RecvQueue)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(wait_for_entry(CQHandle, Timeout, NULL, NULL, ViHandle, RecvQueue))
               : VIP_ERROR_NOT_SUPPORTED;
}

#ifdef SA_NOCLDSTOP /* as in posix.h */

VIP_RETURN VI_CALL VipxCQWaitMask(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                  VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(wait_for_entry(CQHandle, Timeout, Mask, NULL, ViHandle, RecvQueue))
               : VIP_ERROR_NOT_SUPPORTED;
}

/* Returns what a wait that watched descriptors as well returns to the program. With a time limit of
 * 0, and where a request had ended before, there was no sleep that watched the descriptors, so they
 * are polled at the end. */
static VIP_RETURN finish_wait_for_fds(struct vipl_more_fds *more, struct pollfd *fds, VIP_RETURN rc)
{
    bool unknown = rc == VIP_TIMEOUT || (rc == VIP_NOT_DONE && !vipl_more_fds_are_ready(more));
    if (unknown && more->count > 0) {
        (void)vipl_poll_more(NULL, 0, more, 0, NULL);
        rc = vipl_more_fds_are_ready(more) ? VIP_NOT_DONE : rc;
    }
    vipl_more_fds_copy(more, fds, rc == VIP_NOT_DONE);
    vipl_more_fds_end(more);
    return rc;
}

/* A child that a signal handler forks during the call does not free the copy: the heap may be in
 * use there. */
static VIP_RETURN wait_for_entry_or_fds(VIP_CQ_HANDLE handle, struct pollfd *fds, VIP_ULONG count,
                                        VIP_ULONG timeout, const sigset_t *mask, VIP_VI_HANDLE *vi,
                                        VIP_BOOLEAN *recv)
{
    struct vipl_more_fds more;
    uint32_t generation = vipl_fork_generation();
    int error = vipl_more_fds_begin(&more, fds, count);
    if (error != 0) {
        return error == ENOMEM ? VIP_ERROR_RESOURCE : VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = wait_for_entry(handle, timeout, mask, &more, vi, recv);
    return vipl_fork_generation() == generation ? finish_wait_for_fds(&more, fds, rc) : rc;
}

VIP_RETURN VI_CALL VipxCQWaitFds(VIP_CQ_HANDLE CQHandle, struct pollfd *Fds, VIP_ULONG Count,
                                 VIP_ULONG Timeout, const sigset_t *Mask, VIP_VI_HANDLE *ViHandle,
                                 VIP_BOOLEAN *RecvQueue)
{
    return vipl_guard_enter() ? vipl_guard_leave(wait_for_entry_or_fds(CQHandle, Fds, Count, Timeout, Mask,
                                                                       ViHandle, RecvQueue))
                              : VIP_ERROR_NOT_SUPPORTED;
}

#endif

static VIP_RETURN enlist_cq_handler(VIP_CQ_HANDLE handle, struct vipl_event *event)
{
    struct vipl_cq *cq = vipl_cq_lock(handle);
    if (cq == NULL) {
        vipl_free(event);
        return VIP_INVALID_PARAMETER;
    }
    vipl_list_append(&cq->notifies, &event->link);
    struct vipl_work *work = oldest_locked(cq);
    if (work != NULL) {
        vipl_event_fire_cq(cq, work->queue);
        vipl_cq_unlist_locked(cq, work);
    }
    vipl_biased_unlock(&cq->lock);
    return VIP_SUCCESS;
}

static VIP_RETURN notify_cq(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
    if (vipl_handle_is_shared(CQHandle) && Handler != NULL) {
        return vipl_share_notify_cq(CQHandle, Context, Handler);
    }
    struct vipl_nic *nic = Handler == NULL ? NULL : cq_nic(CQHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_service_start(nic);
    struct vipl_event *event = rc == VIP_SUCCESS ? vipl_event_new(VIPL_EVENT_CQ, Context) : NULL;
    if (event != NULL) {
        event->cq_handler = Handler;
        rc = enlist_cq_handler(CQHandle, event);
    } else if (rc == VIP_SUCCESS) {
        rc = VIP_ERROR_RESOURCE;
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
    return vipl_guard_enter() ? vipl_guard_leave(notify_cq(CQHandle, Context, Handler))
                              : VIP_ERROR_NOT_SUPPORTED;
}
