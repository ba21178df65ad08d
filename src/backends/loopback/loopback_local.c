/* SPDX-License-Identifier: MIT */
/*
 * Data within one process. The post itself finds the peer's receive (or checks the remote right),
 * copies once and completes both ends: no queue, no thread, no system call. Runs under the sender's
 * send lock and the receiver's receive lock.
 */
#include <string.h>

#include "backends/loopback/loopback.h"
#include "os/os_atomic.h"

void vipl_lo_copy(const struct vipl_sg *to, const struct vipl_sg *from)
{
    size_t to_at = 0;
    size_t from_at = 0;
    unsigned t = 0;
    unsigned f = 0;
    while (t < to->count && f < from->count) {
        size_t n = to->iov[t].len - to_at;
        if (n > from->iov[f].len - from_at) {
            n = from->iov[f].len - from_at;
        }
        memmove((char *)to->iov[t].base + to_at, (const char *)from->iov[f].base + from_at, n);
        to_at += n;
        from_at += n;
        if (to_at == to->iov[t].len) {
            t++;
            to_at = 0;
        }
        if (from_at == from->iov[f].len) {
            f++;
            from_at = 0;
        }
    }
}

/* The last bytes of a piece, as one store where they are an aligned word. Pairs with the acquire load of
 * whoever spins on them. */
static size_t tail_bytes(const unsigned char *end, size_t n)
{
    if (sizeof(void *) == 8 && n >= 8 && (uintptr_t)end % 8 == 0) {
        return 8;
    }
    return n >= 4 && (uintptr_t)end % 4 == 0 ? 4 : 1;
}

static void store_tail(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n == sizeof(void *) && n == 8) {
        void *word;
        memcpy(&word, from, sizeof(word));
        vipl_store_ptr((void **)(void *)to, word);
    } else if (n == 4) {
        uint32_t word;
        memcpy(&word, from, sizeof(word));
        vipl_store_release((uint32_t *)(void *)to, word);
    } else {
        __atomic_store_n(to, *from, __ATOMIC_RELEASE);
    }
}

void vipl_lo_copy_ordered(unsigned char *to, const struct vipl_sg *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        const unsigned char *base = from->iov[i].base;
        size_t n = from->iov[i].len;
        size_t tail = tail_bytes(to + n, n);
        memmove(to, base, n - tail);
        store_tail(to + n - tail, base + n - tail, tail);
        to += n;
    }
}

static uint32_t send_message(struct vipl_vi *peer, struct vipl_send *send)
{
    struct vipl_sg to;
    switch (vipl_up_recv_claim(peer, send->local.bytes, &to)) {
    case VIPL_CLAIM_OK:
        vipl_lo_copy(&to, &send->local);
        vipl_up_recv_finish(peer, 0, (uint32_t)send->local.bytes, false,
                            send->immediate ? &send->immediate_data : NULL);
        return 0;
    case VIPL_CLAIM_EMPTY:
    case VIPL_CLAIM_FAILED:
        break;
    case VIPL_CLAIM_GONE: /* the connection is ending: dropped, as it would be on a wire */
        return 0;
    }
    return send->reliability == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0;
}

static uint32_t rdma_write(struct vipl_vi *peer, struct vipl_send *send)
{
    if (!vipl_up_rdma_allowed(peer, true, send->remote_handle, send->remote_address, send->local.bytes)) {
        return VIP_STATUS_RDMA_PROT_ERROR;
    }
    if (send->local.bytes > 0) {
        vipl_lo_copy_ordered((unsigned char *)(uintptr_t)send->remote_address, &send->local);
    }
    if (!send->immediate) {
        return 0;
    }
    if (vipl_up_recv_claim(peer, 0, NULL) == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(peer, 0, (uint32_t)send->local.bytes, true, &send->immediate_data);
        return 0;
    }
    return send->reliability == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0;
}

static uint32_t rdma_read(struct vipl_vi *peer, struct vipl_send *send)
{
    struct vipl_sg from;
    if (!vipl_up_rdma_allowed(peer, false, send->remote_handle, send->remote_address, send->local.bytes)) {
        return VIP_STATUS_RDMA_PROT_ERROR;
    }
    from.count = 1;
    from.bytes = send->local.bytes;
    from.iov[0].base = (void *)(uintptr_t)send->remote_address;
    from.iov[0].len = send->local.bytes;
    vipl_lo_copy(&send->local, &from);
    return 0;
}

enum vipl_posted vipl_lo_local_send(struct vipl_vi *vi, struct vipl_vi *peer, struct vipl_send *send)
{
    vipl_up_recv_lock(peer);
    if (lo_vi_of(peer)->peer != vi) { /* it has just left; this end hears of it in a moment */
        vipl_up_recv_unlock_quiet(peer);
        return VIPL_POSTED_AGAIN;
    }
    switch (send->op) {
    case VIP_CONTROL_OP_RDMAWRITE:
        send->status = rdma_write(peer, send);
        break;
    case VIP_CONTROL_OP_RDMAREAD:
        send->status = rdma_read(peer, send);
        break;
    default:
        send->status = send_message(peer, send);
        break;
    }
    send->settle = vipl_up_recv_unlock(peer) ? peer : NULL;
    return VIPL_POSTED_DONE;
}
