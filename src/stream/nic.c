/* SPDX-License-Identifier: MIT */
/* Devices: one completion queue tells which of many streams has something to be taken. */
#include "stream/nic.h"

#include <errno.h>
#include <string.h>

#include "base/lock_rank.h"
#include "stream/endpoint.h"
#include "vipl/posix.h"

enum { CQ_ENTRIES = 1024 }; /* EntryCount is a floor: no backend loses an entry */

static struct vipl_list *bucket_of(struct vipl_stream_nic *nic, VIP_VI_HANDLE vi)
{
    return &nic->streams[((uintptr_t)vi >> 4 ^ (uintptr_t)vi >> 12) % VIPL_STREAM_BUCKETS];
}

static int errno_of(VIP_RETURN rc)
{
    return rc == VIP_ERROR_RESOURCE        ? ENOMEM
           : rc == VIP_INVALID_PARAMETER   ? ENODEV
           : rc == VIP_ERROR_NOT_SUPPORTED ? ENOTSUP
                                           : EIO;
}

static VIP_RETURN prepare(struct vipl_stream_nic *nic)
{
    VIP_NIC_ATTRIBUTES attributes;
    VIP_RETURN rc = VipQueryNic(nic->nic, &attributes);
    if (rc == VIP_SUCCESS) {
        nic->address_length = attributes.NicAddressLen;
        memcpy(nic->address, attributes.LocalNicAddress, attributes.NicAddressLen);
        rc = VipCreateCQ(nic->nic, CQ_ENTRIES, &nic->cq);
    }
    return rc;
}

int vipl_stream_nic_open(const char *device, VIP_ULONG flags, struct vipl_stream_nic **out,
                         VIP_RETURN *reason)
{
    struct vipl_stream_nic *nic = vipl_zalloc(sizeof(*nic));
    *out = NULL;
    *reason = VIP_ERROR_RESOURCE;
    if (nic == NULL) {
        return ENOMEM;
    }
    *reason = VipxOpenNic(device, flags | VIPX_QUIET | VIPX_NO_LINGER, &nic->nic);
    if (*reason != VIP_SUCCESS) {
        vipl_free(nic);
        return errno_of(*reason);
    }
    *reason = prepare(nic);
    if (*reason != VIP_SUCCESS) {
        VipCloseNic(nic->nic);
        vipl_free(nic);
        return errno_of(*reason);
    }
    for (unsigned i = 0; i < VIPL_STREAM_BUCKETS; i++) {
        vipl_list_init(&nic->streams[i]);
    }
    vipl_list_init(&nic->waiters);
    vipl_mutex_init(&nic->lock, VIPL_RANK_STREAM_NIC);
    nic->generation = vipl_fork_generation();
    nic->references = 1;
    *out = nic;
    return 0;
}

void vipl_stream_nic_release(struct vipl_stream_nic *nic)
{
    if (nic->generation != vipl_fork_generation()) {
        return; /* the parent's: the memory stays */
    }
    if (vipl_fetch_add(&nic->references, UINT32_MAX) == 1) {
        vipl_stream_waiters_free(nic);
        VipDestroyCQ(nic->cq);
        VipCloseNic(nic->nic);
        vipl_free(nic);
    }
}

void vipl_stream_nic_add(struct vipl_stream_nic *nic, struct vipl_stream *stream)
{
    vipl_fetch_add(&nic->references, 1);
    vipl_mutex_lock(&nic->lock);
    vipl_list_append(bucket_of(nic, stream->vi), &stream->nic_link);
    stream->users = 1;
    vipl_mutex_unlock(&nic->lock);
}

void vipl_stream_hold(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->nic->lock);
    stream->users++;
    vipl_mutex_unlock(&stream->nic->lock);
}

void vipl_stream_put(struct vipl_stream *stream)
{
    struct vipl_stream_nic *nic = stream->nic;
    vipl_fetch_add(&nic->references, 1); /* the last user may end while this thread unlocks */
    vipl_mutex_lock(&nic->lock);
    bool last = --stream->users == 0;
    if (last) {
        vipl_list_remove(&stream->nic_link);
    }
    vipl_mutex_unlock(&nic->lock);
    if (last) {
        vipl_stream_destroy(stream);
        vipl_stream_nic_release(nic);
    }
    vipl_stream_nic_release(nic);
}

VIP_NIC_HANDLE vipl_stream_nic_handle(const struct vipl_stream_nic *nic)
{
    return nic->nic;
}

unsigned vipl_stream_nic_address(const struct vipl_stream_nic *nic, uint8_t *address)
{
    memcpy(address, nic->address, nic->address_length);
    return nic->address_length;
}

/* The completion queue has named a VI. Takes what has come for its stream, if it still has one. */
static void take_for(struct vipl_stream_nic *nic, VIP_VI_HANDLE vi)
{
    struct vipl_stream *stream = NULL;
    vipl_mutex_lock(&nic->lock);
    struct vipl_list *bucket = bucket_of(nic, vi);
    for (struct vipl_list *l = bucket->next; l != bucket && stream == NULL; l = l->next) {
        struct vipl_stream *one = VIPL_CONTAINER(l, struct vipl_stream, nic_link);
        if (one->vi == vi) {
            stream = one;
            stream->users++;
        }
    }
    vipl_mutex_unlock(&nic->lock);
    if (stream != NULL) {
        vipl_stream_progress(stream);
        vipl_stream_put(stream);
    }
}

void vipl_stream_nic_progress(struct vipl_stream_nic *nic)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    while (VipCQDone(nic->cq, &vi, &is_recv) == VIP_SUCCESS) {
        take_for(nic, vi);
    }
}

int vipl_stream_nic_wait(struct vipl_stream_nic *nic, struct pollfd *fds, unsigned count, int ms,
                         const void *mask)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    VIP_ULONG timeout = ms < 0 ? VIP_INFINITE : (VIP_ULONG)ms;
    switch (VipxCQWaitFds(nic->cq, fds, count, timeout, mask, &vi, &is_recv)) {
    case VIP_SUCCESS:
        take_for(nic, vi);
        vipl_stream_nic_progress(nic);
        return 0;
    case VIP_NOT_DONE:
        return VIPL_POLL_OTHERS;
    case VIP_TIMEOUT:
        return ETIMEDOUT;
    case VIP_INTERRUPTED:
        return EINTR;
    case VIP_ERROR_RESOURCE:
        return ENOMEM;
    default:
        return EINVAL;
    }
}

int vipl_stream_nic_fd(struct vipl_stream_nic *nic, int *fd)
{
    VIP_RETURN rc = VipxGetFd(VIPX_FD_CQ, nic->cq, fd);
    return rc == VIP_SUCCESS ? 0 : errno_of(rc);
}
