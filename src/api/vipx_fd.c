/* SPDX-License-Identifier: MIT */
/* Entry point: ready descriptors for event loops. */
#include "api/fd.h"
#include "base/guard.h"
#include "base/handle.h"
#include "core/cq.h"
#include "core/nic.h"
#include "core/ready_fd.h"
#include "core/vi.h"
#include "os/event.h"
#include "share/client_wait.h"
#include "vipl/posix.h"

/* A query for the ready descriptor of an object. If the object has none, `fresh` becomes its ready
 * descriptor. If there is no `fresh` either, fd is -1, and nic is the object's NIC, with a
 * reference. */
struct query {
    struct vipl_ready_fd *fresh;
    struct vipl_nic *nic;
    int fd;
};

/* Attaches a ready descriptor to an object. The lock of the object is held. */
static VIP_RETURN attach_locked(struct query *query, struct vipl_ready_fd **at, bool something,
                                struct vipl_nic *nic)
{
    query->fd = vipl_ready_fd_attach(at, &query->fresh, something);
    if (query->fd < 0 && !vipl_nic_ref(nic)) {
        return VIP_INVALID_PARAMETER;
    }
    query->nic = nic;
    return VIP_SUCCESS;
}

static VIP_RETURN of_queue(struct query *query, void *handle, bool recv)
{
    struct vipl_queue *q = vipl_vi_lock_queue(handle, recv);
    if (q == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    if (q->cq == NULL) {
        rc = attach_locked(query, &q->ready_fd, q->reaped != q->completed, q->vi->nic);
        vipl_queue_watch(q);
    }
    vipl_biased_unlock(&q->lock);
    return rc;
}

static VIP_RETURN of_cq(struct query *query, void *handle)
{
    struct vipl_cq *cq = vipl_cq_lock(handle);
    if (cq == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = attach_locked(query, &cq->ready_fd, cq->count > 0, cq->nic);
    vipl_biased_unlock(&cq->lock);
    return rc;
}

static VIP_RETURN of_requests(struct query *query, void *handle)
{
    struct vipl_nic *nic = vipl_nic_get(handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_mutex_lock(&nic->lock);
    VIP_RETURN rc = attach_locked(query, &nic->conn_ready_fd, nic->conns_waiting > 0, nic);
    vipl_mutex_unlock(&nic->lock);
    vipl_nic_put(nic);
    return rc;
}

static VIP_RETURN attach(struct query *query, VIPX_FD_KIND kind, void *handle)
{
    switch (kind) {
    case VIPX_FD_SEND:
    case VIPX_FD_RECV:
        return of_queue(query, handle, kind == VIPX_FD_RECV);
    case VIPX_FD_CQ:
        return of_cq(query, handle);
    case VIPX_FD_CONNECT:
        return of_requests(query, handle);
    }
    return VIP_INVALID_PARAMETER;
}

static bool is_kind_of(VIPX_FD_KIND kind, const void *handle)
{
    switch (kind) {
    case VIPX_FD_SEND:
    case VIPX_FD_RECV:
        return vipl_handle_kind(handle) == VIPL_KIND_VI;
    case VIPX_FD_CQ:
        return vipl_handle_kind(handle) == VIPL_KIND_CQ;
    case VIPX_FD_CONNECT:
        return vipl_handle_kind(handle) == VIPL_KIND_NIC;
    }
    return false;
}

VIP_RETURN vipl_get_fd(VIPX_FD_KIND kind, VIP_PVOID handle, int *fd)
{
    struct query query = {.fresh = NULL};
    if (vipl_handle_is_shared(handle)) {
        return is_kind_of(kind, handle) ? vipl_share_fd(handle, kind == VIPX_FD_RECV, fd)
                                        : VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = attach(&query, kind, handle);
    if (rc == VIP_SUCCESS && query.fd < 0) {
        struct vipl_nic *nic = query.nic;
        rc = vipl_ready_fd_new(nic, &query.fresh);
        if (rc == VIP_SUCCESS) {
            rc = attach(&query, kind, handle);
            vipl_ready_fd_free(query.fresh); /* another thread was first, or the object has ended */
        }
        vipl_nic_put(nic);
    }
    if (rc == VIP_SUCCESS) {
        *fd = query.fd;
    }
    return rc;
}

static VIP_RETURN get_fd(VIPX_FD_KIND kind, VIP_PVOID handle, int *fd)
{
    if (fd == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *fd = -1;
    return vipl_fds_are_of_system() ? vipl_get_fd(kind, handle, fd) : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipxGetFd(VIPX_FD_KIND Kind, VIP_PVOID Handle, int *Fd)
{
    return vipl_guard_enter() ? vipl_guard_leave(get_fd(Kind, Handle, Fd)) : VIP_ERROR_NOT_SUPPORTED;
}
