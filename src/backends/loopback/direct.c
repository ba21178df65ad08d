/* SPDX-License-Identifier: MIT */
/* Direct access. How a peer revokes what it has exported is in exports.c. */
#include "backends/loopback/direct.h"

#include <errno.h>
#include <string.h>

#include "backends/loopback/mapped.h"
#include "backends/loopback/poll_filter.h"
#include "base/iov.h"
#include "base/peer_copy.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

bool vipl_lo_direct_may(const struct lo_session *session, bool write, uint64_t address)
{
    bool enabled = write ? session->params.rdma_write : session->params.rdma_read;
    return enabled && session->access != NULL && vipl_load_relaxed(&session->link->direct_access) != 0 &&
           (sizeof(void *) == 8 || address <= UINT32_MAX);
}

/* --- checks --- */

/* Begins an access, which the peer can wait for: between begin and end this process checks what the
 * peer allows, and accesses its memory. A session's first access begins by an ordered store, which
 * tells the peer to make a barrier for the later ones: these begin by a plain store (exports.c). */
static inline void begin_access(struct lo_session *session)
{
    uint32_t word = lo_access_under(session->recent.epoch);
    if (VIPL_LIKELY(session->access_idle != 0)) {
        vipl_store_relaxed(session->access, word);
        vipl_signal_fence();
    } else {
        vipl_store_ordered(session->access, word);
        session->access_idle = session->peer_makes_barriers ? LO_ACCESS_NO_BARRIER : 0;
    }
}

static inline void end_access(struct lo_session *session)
{
    vipl_store_release(session->access, session->access_idle);
}

/* Whether the peer VI permits direct access. */
static inline bool is_permitted(const struct lo_session *session)
{
    return vipl_load_ordered(session->peer_permission) == session->peer_number;
}

/* Looks the region up in the peer's export table and among the memory that this process has
 * mapped. */
static VIPL_NOINLINE bool look_up_region(struct lo_session *session, uint32_t epoch, VIP_MEM_HANDLE handle)
{
    struct lo_link *link = session->link;
    struct lo_recent *recent = &session->recent;
    recent->handle = 0;
    recent->epoch = epoch;
    if (!vipl_lo_exports_find(link->exports.base, session->peer_tag, handle, &recent->region)) {
        return false;
    }
    recent->mapped = vipl_lo_mapped_find(link, &recent->region.mappable, recent->region.bytes);
    recent->handle = handle;
    return true;
}

/* Finds the region. The one that was looked up last is valid while the table has the epoch of that
 * look-up: a peer that revokes something begins a new epoch, and then waits for accesses that may
 * not have seen it. */
static inline bool find_region(struct lo_session *session, VIP_MEM_HANDLE handle)
{
    const struct lo_exports *exports = session->link->exports.base;
    const struct lo_recent *recent = &session->recent;
    uint32_t epoch = vipl_load_ordered(&exports->epoch); /* pairs with drain_accesses() */
    return VIPL_LIKELY(recent->handle == handle && recent->epoch == epoch) ||
           look_up_region(session, epoch, handle);
}

/* Checks the access against the permission and the region. *mapped is where the bytes are mapped in
 * this process; NULL: they are not. */
static inline bool resolve_target(struct lo_session *session, bool write, VIP_MEM_HANDLE handle,
                                  uint64_t address, size_t bytes, unsigned char **mapped)
{
    const struct lo_recent *recent = &session->recent;
    if (handle == 0 || !is_permitted(session) || !find_region(session, handle) ||
        !lo_exported_allows(&recent->region, write, address, bytes)) {
        return false;
    }
    *mapped = recent->mapped == NULL ? NULL : recent->mapped + (address - recent->region.start);
    return true;
}

/* --- the copy --- */

/* Returns whether a system call has copied all bytes. If the system does not allow access any more,
 * or the peer's process runs another program by now, the link's RDMA goes through the rings from
 * now on. There a peer that has died is noticed. */
static bool check_copy_error(struct lo_link *link, int error)
{
    if (error != 0 && error != EFAULT) {
        vipl_store_relaxed(&link->direct_access, 0);
    }
    return error == 0;
}

/* Describes the remote range by one piece. A range that is written and ends at a multiple of 8
 * becomes two: the last word is a piece of its own, because a receiver may poll it, and so has to
 * be written last. */
static unsigned remote_pieces(struct vipl_iov out[2], uint64_t address, size_t bytes, bool write)
{
    char *start = (char *)(uintptr_t)address;
    size_t tail = write && bytes > 8 && ((uintptr_t)(start + bytes) & 7) == 0 ? 8 : 0;
    out[0].base = start;
    out[0].len = bytes - tail;
    out[1].base = start + bytes - tail;
    out[1].len = tail;
    return tail > 0 ? 2 : 1;
}

/* Copies by a system call. */
static bool access_by_system(struct lo_link *link, const struct vipl_send *send, bool write)
{
    struct vipl_iov remote[2];
    unsigned n = remote_pieces(remote, send->remote_address, send->local.bytes, write);
    return check_copy_error(link, vipl_peer_copy_lists(&link->peer, write, send->local.iov, send->local.count,
                                                       remote, n, send->local.bytes));
}

/* Copies to or from memory that both processes have mapped. */
static bool access_mapped(unsigned char *mapped, const struct vipl_send *send, bool write)
{
    return write ? vipl_iov_ordered(mapped, &send->local) == VIPL_IOV_DONE
                 : vipl_iov_scatter(&send->local, 0, mapped, send->local.bytes);
}

bool vipl_lo_direct_access(struct lo_session *session, const struct vipl_send *send)
{
    bool write = send->op == VIP_CONTROL_OP_RDMAWRITE;
    unsigned char *mapped;
    begin_access(session);
    bool done =
        resolve_target(session, write, send->remote_handle, send->remote_address, send->local.bytes, &mapped);
    if (done) {
        done = mapped != NULL ? access_mapped(mapped, send, write)
                              : access_by_system(session->link, send, write);
    }
    end_access(session);
    return done;
}

/* Copies one piece; VIPL_SAFE_COPY is off. */
static inline bool access_short(struct lo_link *link, unsigned char *mapped, const struct vipl_rdma *rdma)
{
    if (mapped == NULL) {
        struct vipl_iov local[2] = {[1] = {rdma->local, rdma->bytes}};
        struct vipl_iov remote[3];
        unsigned n = remote_pieces(remote + 1, rdma->remote_address, rdma->bytes, rdma->write);
        return check_copy_error(
            link, rdma->write ? vipl_peer_write(&link->peer, local, 2, remote, n + 1, rdma->bytes)
                              : vipl_peer_read(&link->peer, local, 2, remote, n + 1, rdma->bytes));
    }
    if (rdma->write) {
        vipl_iov_put(mapped, rdma->local, rdma->bytes);
    } else {
        memcpy(rdma->local, mapped, rdma->bytes);
    }
    return true;
}

bool vipl_lo_direct_short(struct lo_session *session, const struct vipl_rdma *rdma)
{
    struct lo_link *link = session->link;
    unsigned char *mapped;
    if (!lo_may_send(link) || session->tx_offset != 0 ||
        !vipl_lo_direct_may(session, rdma->write, rdma->remote_address)) {
        return false;
    }
    begin_access(session);
    bool done = resolve_target(session, rdma->write, rdma->remote_handle, rdma->remote_address, rdma->bytes,
                               &mapped) &&
                access_short(link, mapped, rdma);
    end_access(session);
    return done;
}
