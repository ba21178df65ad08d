/* SPDX-License-Identifier: MIT */
/* Entry points of the data path: posting, and reaping completions from a work queue. */
#include "base/guard.h"
#include "base/handle.h"
#include "core/nic.h"
#include "core/service.h"
#include "core/transfer.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os_compiler.h"
#include "share/client_call.h"
#include "share/client_wait.h"
#include "vipl/posix.h"

VIP_RETURN VI_CALL VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                               VIP_MEM_HANDLE MemoryHandle)
{
    if (DescriptorPtr == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    if (!vipl_guard_enter_safe()) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = vipl_post_send(ViHandle, DescriptorPtr, MemoryHandle);
    if (VIPL_UNLIKELY(rc == VIP_INVALID_PARAMETER) && vipl_handle_is_shared(ViHandle)) {
        rc = vipl_share_post(ViHandle, false, DescriptorPtr, MemoryHandle);
    }
    vipl_guard_leave_safe();
    return rc;
}

/* The slow path of VipPostRecv(). The thread is inside the API guard. */
static VIPL_NOINLINE VIP_RETURN post_recv_any(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    VIP_RETURN rc = vipl_post_recv(handle, descriptor, memory);
    if (VIPL_UNLIKELY(rc == VIP_INVALID_PARAMETER) && vipl_handle_is_shared(handle)) {
        rc = vipl_share_post(handle, true, descriptor, memory);
    }
    vipl_guard_leave_safe();
    return rc;
}

/* As post_recv_any(), with the receive lock of the VI held, which was found by the handle. */
static VIPL_NOINLINE VIP_RETURN post_recv_held(struct vipl_vi *vi, void *handle, VIP_DESCRIPTOR *descriptor,
                                               VIP_MEM_HANDLE memory)
{
    vipl_biased_unlock(&vi->recv.lock);
    return post_recv_any(handle, descriptor, memory);
}

/* The fast path here and in done() makes no stack frame: every slow path is a tail call. A thread
 * that enters as the lock's owner may use the VI that it found by handle, because destroying a VI
 * takes the lock first. */
VIP_RETURN VI_CALL VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                               VIP_MEM_HANDLE MemoryHandle)
{
    if (VIPL_UNLIKELY(DescriptorPtr == NULL)) {
        return VIP_INVALID_PARAMETER;
    }
    if (VIPL_UNLIKELY(!vipl_guard_enter_safe())) {
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_vi *vi = vipl_handle_find(VIPL_KIND_VI, ViHandle);
    if (vi == NULL || !vipl_biased_enter(&vi->recv.lock)) {
        return post_recv_any(ViHandle, DescriptorPtr, MemoryHandle);
    }
    if (VIPL_UNLIKELY(!vipl_post_recv_fast_locked(vi, DescriptorPtr, MemoryHandle))) {
        return post_recv_held(vi, ViHandle, DescriptorPtr, MemoryHandle);
    }
    vipl_biased_leave(&vi->recv.lock);
    vipl_guard_leave_safe();
    return VIP_SUCCESS;
}

/* A queue to reap from, and the descriptor that was reaped. */
struct reap {
    void *handle;
    bool recv;
    VIP_DESCRIPTOR *descriptor;
};

static inline VIP_RETURN reap_now(void *handle, bool recv, VIP_DESCRIPTOR **out)
{
    struct vipl_queue *q = vipl_vi_lock_queue(handle, recv);
    if (q == NULL) {
        *out = NULL;
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_queue_reap_locked(q, out);
    vipl_biased_unlock(&q->lock);
    return rc;
}

static VIP_RETURN attempt_reap(void *arg, struct vipl_waiter *waiter)
{
    struct reap *reap = arg;
    struct vipl_queue *q = vipl_vi_lock_queue(reap->handle, reap->recv);
    if (q == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_queue_reap_locked(q, &reap->descriptor);
    if (rc == VIP_NOT_DONE && waiter != NULL) {
        vipl_list_append(&q->waiters, &waiter->link);
        vipl_queue_watch(q);
    }
    vipl_biased_unlock(&q->lock);
    return rc;
}

static void leave_reap(void *arg, struct vipl_waiter *waiter, bool unused)
{
    struct reap *reap = arg;
    struct vipl_queue *q = vipl_vi_lock_queue(reap->handle, reap->recv);
    if (q != NULL) { /* a VI that was destroyed has emptied its lists */
        vipl_unlist_locked(&q->waiters, waiter, unused);
        vipl_biased_unlock(&q->lock);
    }
}

/* The queue is empty, and work may be pending. Looks the NIC up again instead of taking it as a
 * parameter, which would cost the empty-poll path a register. The thread is inside the API
 * guard. */
static VIPL_NOINLINE VIP_RETURN poll_and_reap(struct vipl_vi *vi, void *handle, bool recv,
                                              VIP_DESCRIPTOR **out)
{
    struct vipl_nic *nic = vipl_vi_nic_hint(vi, handle);
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    *out = NULL;
    if (nic != NULL && vipl_nic_poll_fast(nic)) {
        bool none =
            vipl_queue_looks_empty(recv ? &vi->recv : &vi->send) && vipl_load_ptr(&vi->handle) == handle;
        rc = none ? VIP_NOT_DONE : reap_now(handle, recv, out);
    } else if (vipl_vi_progress(handle)) {
        rc = reap_now(handle, recv, out);
    }
    vipl_guard_leave_safe();
    return rc;
}

/* VipSendDone() and VipRecvDone() for a handle that is not the handle of a private VI of this
 * process. The thread is inside the API guard. */
static VIPL_COLD VIP_RETURN done_elsewhere(void *handle, bool recv, VIP_DESCRIPTOR **out)
{
    *out = NULL;
    VIP_RETURN rc =
        vipl_handle_is_shared(handle) ? vipl_share_done(handle, recv, out) : VIP_INVALID_PARAMETER;
    vipl_guard_leave_safe();
    return rc;
}

/* The slow path of done(): reaps any completion. The lock of the queue is held, whose VI was found
 * by the handle. The thread is inside the API guard. */
static VIPL_NOINLINE VIP_RETURN reap_held(struct vipl_vi *vi, void *handle, bool recv, VIP_DESCRIPTOR **out)
{
    struct vipl_queue *q = recv ? &vi->recv : &vi->send;
    if (vi->handle != handle) {
        vipl_biased_unlock(&q->lock);
        return done_elsewhere(handle, recv, out);
    }
    VIP_RETURN rc = vipl_queue_reap_locked(q, out);
    vipl_biased_unlock(&q->lock);
    vipl_guard_leave_safe();
    return rc;
}

/* As reap_held(), for a thread that does not own the lock. */
static VIPL_NOINLINE VIP_RETURN lock_and_reap(struct vipl_vi *vi, void *handle, bool recv,
                                              VIP_DESCRIPTOR **out)
{
    vipl_biased_lock_and_own(recv ? &vi->recv.lock : &vi->send.lock);
    return reap_held(vi, handle, recv, out);
}

static inline __attribute__((always_inline)) VIP_RETURN done(VIP_VI_HANDLE handle, bool recv,
                                                             VIP_DESCRIPTOR **out)
{
    if (VIPL_UNLIKELY(out == NULL)) {
        return VIP_INVALID_PARAMETER;
    }
    if (VIPL_UNLIKELY(!vipl_guard_enter_safe())) {
        *out = NULL;
        return VIP_NOT_DONE;
    }
    struct vipl_vi *vi = vipl_handle_find(VIPL_KIND_VI, handle);
    if (VIPL_UNLIKELY(vi == NULL)) {
        return done_elsewhere(handle, recv, out);
    }
    struct vipl_queue *q = recv ? &vi->recv : &vi->send;
    if (vipl_queue_looks_empty(q)) {
        struct vipl_nic *nic = vipl_vi_nic_hint(vi, handle);
        if (nic == NULL || !vipl_nic_may_skip_poll(nic)) {
            return poll_and_reap(vi, handle, recv, out);
        }
        *out = NULL;
        vipl_guard_leave_safe();
        return VIP_NOT_DONE;
    }
    if (!vipl_biased_enter(&q->lock)) {
        return lock_and_reap(vi, handle, recv, out);
    }
    /* The thread entered as the owner, so no other thread has reaped the completion seen above. */
    struct vipl_work *work = vipl_queue_at(q, q->reaped);
    if (q->ready_fd != NULL || vipl_work_is_listed(work)) {
        return reap_held(vi, handle, recv, out);
    }
    VIP_RETURN rc = vipl_queue_reap_alone_locked(q, work, out);
    vipl_biased_leave(&q->lock);
    vipl_guard_leave_safe();
    return rc;
}

VIP_RETURN VI_CALL VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done(ViHandle, false, DescriptorPtr);
}

VIP_RETURN VI_CALL VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done(ViHandle, true, DescriptorPtr);
}

/* Finds the NIC of a VI, with a reference, if the program may wait for the queue by the VI's
 * handle. */
static VIP_RETURN waitable(void *handle, bool recv, struct vipl_nic **out)
{
    struct vipl_queue *q = vipl_vi_lock_queue(handle, recv);
    if (q == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = q->cq != NULL ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
    if (rc == VIP_SUCCESS && !vipl_nic_ref(q->vi->nic)) {
        rc = VIP_INVALID_PARAMETER;
    }
    *out = q->vi->nic;
    vipl_biased_unlock(&q->lock);
    return rc;
}

static VIP_RETURN wait_for_work(VIP_VI_HANDLE handle, bool recv, VIP_ULONG timeout, const void *mask,
                                VIP_DESCRIPTOR **out)
{
    struct reap reap = {handle, recv, NULL};
    struct vipl_wait_for what = {.attempt = attempt_reap,
                                 .leave = leave_reap,
                                 .cancellable = true,
                                 .mask = mask,
                                 .arg = &reap,
                                 .arg_bytes = sizeof(reap)};
    struct vipl_nic *nic;
    if (out == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *out = NULL;
    VIP_RETURN rc = waitable(handle, recv, &nic);
    if (rc != VIP_SUCCESS) {
        return vipl_handle_is_shared(handle) ? vipl_share_wait(handle, recv, timeout, mask, out) : rc;
    }
    rc = vipl_wait(nic, &what, vipl_deadline(timeout));
    *out = reap.descriptor;
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
    return vipl_guard_enter() ? vipl_guard_leave(wait_for_work(ViHandle, false, Timeout, NULL, DescriptorPtr))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
    return vipl_guard_enter() ? vipl_guard_leave(wait_for_work(ViHandle, true, Timeout, NULL, DescriptorPtr))
                              : VIP_ERROR_NOT_SUPPORTED;
}

#ifdef SA_NOCLDSTOP /* as in posix.h */

VIP_RETURN VI_CALL VipxSendWaitMask(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                    VIP_DESCRIPTOR **DescriptorPtr)
{
    return vipl_guard_enter() ? vipl_guard_leave(wait_for_work(ViHandle, false, Timeout, Mask, DescriptorPtr))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipxRecvWaitMask(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                    VIP_DESCRIPTOR **DescriptorPtr)
{
    return vipl_guard_enter() ? vipl_guard_leave(wait_for_work(ViHandle, true, Timeout, Mask, DescriptorPtr))
                              : VIP_ERROR_NOT_SUPPORTED;
}

#endif

/* Registers a handler, or gives it the oldest completion if there is one. */
static VIP_RETURN enlist_queue_handler(VIP_VI_HANDLE handle, bool recv, struct vipl_event *event)
{
    VIP_DESCRIPTOR *descriptor;
    struct vipl_queue *q = vipl_vi_lock_queue(handle, recv);
    if (q == NULL) {
        vipl_free(event);
        return VIP_INVALID_PARAMETER;
    }
    vipl_list_append(&q->notifies, &event->link);
    vipl_queue_watch(q);
    if (vipl_queue_reap_locked(q, &descriptor) != VIP_NOT_DONE) {
        vipl_event_fire_vi(q, descriptor);
    }
    vipl_biased_unlock(&q->lock);
    return VIP_SUCCESS;
}

static VIP_RETURN notify_queue(VIP_VI_HANDLE handle, bool recv, void *context, VIP_VI_CALLBACK handler)
{
    struct vipl_nic *nic;
    if (handler == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = waitable(handle, recv, &nic);
    if (rc != VIP_SUCCESS) {
        return vipl_handle_is_shared(handle) ? vipl_share_notify(handle, recv, context, handler) : rc;
    }
    rc = vipl_service_start(nic);
    struct vipl_event *event = rc == VIP_SUCCESS ? vipl_event_new(VIPL_EVENT_VI, context) : NULL;
    if (event != NULL) {
        event->vi_handler = handler;
        rc = enlist_queue_handler(handle, recv, event);
    } else if (rc == VIP_SUCCESS) {
        rc = VIP_ERROR_RESOURCE;
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
    return vipl_guard_enter() ? vipl_guard_leave(notify_queue(ViHandle, false, Context, Handler))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
    return vipl_guard_enter() ? vipl_guard_leave(notify_queue(ViHandle, true, Context, Handler))
                              : VIP_ERROR_NOT_SUPPORTED;
}
