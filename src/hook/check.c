/* SPDX-License-Identifier: MIT */
/*
 * The checks of the contract of backend.h. Each message says which side has broken the contract. A
 * check knows the locks that a thread holds by their ranks (lock_rank.h), which each thread of a
 * debug build remembers while it holds them.
 */
#include "hook/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/lock_rank.h"
#include "core/vi.h"

static void breach(const char *op, const char *rule)
{
    fprintf(stderr, "vipl: contract of backend.h broken: %s: %s\n", op, rule);
    abort();
}

/* In other builds `kept` is not evaluated, since there are many checks per message. */
#define check(kept, op, rule) (VIPL_CHECKING && !(kept) ? breach(op, rule) : (void)0)

void vipl_checks_init(struct vipl_checks *checks)
{
    vipl_mutex_init(&checks->lock, VIPL_RANK_BACKEND_TX);
}

_Static_assert((int)VIPL_RANK_LOG < (int)VIPL_RANK_OS_SHM, "a core lock may be held where os is called");

void vipl_check_unlocked(const char *op)
{
    for (uint32_t rank = VIPL_RANK_BACKEND; rank <= VIPL_RANK_LOG; rank++) {
        check(vipl_rank_not_held(rank), op, "core calls it with no lock held");
    }
}

void vipl_check_table(const struct vipl_backend *backend)
{
    check(backend->post_recv == NULL || backend->quiesce != NULL, "open", "with post_recv there is quiesce");
    check((backend->memory_alloc == NULL) == (backend->memory_free == NULL), "open",
          "memory of the device is allocated and freed");
}

void vipl_check_limits(const struct vipl_limits *limits, const struct vipl_address *address)
{
    static const char op[] = "limits";
    unsigned levels = VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION;
    check(limits->reliability_levels != 0 && (limits->reliability_levels & ~levels) == 0, op,
          "the levels are VIPL's");
    check((limits->rdma_read_levels & ~limits->reliability_levels) == 0, op,
          "RDMA Read only at levels there are");
    check(limits->max_segments <= VIPL_MAX_SEGMENTS, op, "a scatter/gather list holds max_segments");
    check(limits->max_discriminator <= VIPL_MAX_DISCRIMINATOR, op, "an address holds max_discriminator");
    check(address->host_len <= VIPL_MAX_HOST_ADDRESS && address->disc_len == 0, "address",
          "a host part, and no discriminator");
}

void vipl_check_properties(const VIPX_DEVICE_PROPERTIES *properties)
{
    static const char op[] = "describe";
    enum { MAX = sizeof(properties->Property) / sizeof(properties->Property[0]) };
    check(properties->Count <= MAX, op, "as many properties as there is room for");
    for (unsigned i = 0; i < MAX && i < properties->Count; i++) {
        const VIPX_PROPERTY *each = &properties->Property[i];
        check(each->Name[0] != '\0' && memchr(each->Name, '\0', sizeof(each->Name)) != NULL, op,
              "each has a name, and an end of it");
        check(memchr(each->Text, '\0', sizeof(each->Text)) != NULL, op, "a text has an end");
    }
}

/* --- life times --- */

static struct vipl_vi **connecting_locked(struct vipl_checks *checks, const struct vipl_vi *vi)
{
    for (unsigned i = 0; i < VIPL_CHECKED_CONNECTS; i++) {
        if (checks->connecting[i] == vi) {
            return &checks->connecting[i];
        }
    }
    return NULL;
}

void vipl_check_created(struct vipl_checks *checks)
{
    vipl_fetch_add(&checks->vis, 1);
}

void vipl_check_destroy(struct vipl_checks *checks, const struct vipl_vi *vi)
{
    uint32_t vis = vipl_fetch_add(&checks->vis, (uint32_t)-1);
    check(vis > 0, "vi_destroy", "once for each vi_create");
    vipl_mutex_lock(&checks->lock);
    bool busy = connecting_locked(checks, vi) != NULL;
    vipl_mutex_unlock(&checks->lock);
    check(!busy, "vi_destroy", "no connect of the VI is running");
}

void vipl_check_close(struct vipl_checks *checks)
{
    check(vipl_load_ordered(&checks->vis) == 0, "close", "no VI is left");
    check(checks->listeners == 0, "close", "each listen was followed by its unlisten");
}

void vipl_check_listens(struct vipl_checks *checks)
{
    check(vipl_rank_held(VIPL_RANK_LISTEN), "listen", "the lock of rank LISTEN is held");
    checks->listeners++;
}

void vipl_check_unlistens(struct vipl_checks *checks)
{
    check(vipl_rank_held(VIPL_RANK_LISTEN), "unlisten", "the lock of rank LISTEN is held");
    check(checks->listeners > 0, "unlisten", "once for each listen");
    checks->listeners--;
}

void vipl_check_connect_begins(struct vipl_checks *checks, struct vipl_vi *vi)
{
    vipl_mutex_lock(&checks->lock);
    bool twice = connecting_locked(checks, vi) != NULL;
    struct vipl_vi **slot = connecting_locked(checks, NULL);
    if (slot != NULL) { /* NULL: more VIs connect at once than there are slots */
        *slot = vi;
    }
    vipl_mutex_unlock(&checks->lock);
    check(!twice, "connect", "one request of a VI at a time");
}

void vipl_check_connect_ends(struct vipl_checks *checks, const struct vipl_vi *vi)
{
    vipl_mutex_lock(&checks->lock);
    struct vipl_vi **slot = connecting_locked(checks, vi);
    if (slot != NULL) {
        *slot = NULL;
    }
    vipl_mutex_unlock(&checks->lock);
}

void vipl_check_code(const char *op, VIP_RETURN rc, uint32_t allowed)
{
    check((unsigned)rc < 32 && (allowed >> rc & 1) != 0, op, "it returns a code that the contract names");
}

void vipl_check_handle(VIP_MEM_HANDLE handle)
{
    check(handle != 0 && handle != 0xFFFFFFFFu, "region_add", "a handle is neither 0 nor 0xFFFFFFFF");
}

void vipl_check_memory(const void *address)
{
    check((uintptr_t)address % 64 == 0, "memory_alloc", "memory of the device begins at a multiple of 64");
}

void vipl_check_held(const char *op, struct vipl_vi *vi)
{
    check(vipl_load_ordered(&vi->holds) != 0, op, "core holds the VI");
}

/* --- data --- */

void vipl_check_revoke(struct vipl_vi *vi)
{
    static const char op[] = "revoke";
    check(vipl_rank_held(VIPL_RANK_SEND) && vipl_biased_is_held(&vi->send.lock), op, "the send lock is held");
    check(vipl_rank_held(VIPL_RANK_RECV) && vipl_biased_is_held(&vi->recv.lock), op,
          "the receive lock is held");
    check(vi->state == VIP_STATE_CONNECTED, op, "the VI is connected until now");
}

void vipl_check_send(struct vipl_vi *vi, const struct vipl_send *send)
{
    static const char op[] = "post_send";
    check(vipl_rank_held(VIPL_RANK_SEND) && vipl_biased_is_held(&vi->send.lock), op,
          "the VI's send lock is held");
    check(vipl_rank_not_held(VIPL_RANK_RECV), op, "no receive lock is held");
    check(vi->state == VIP_STATE_CONNECTED, op, "the VI is connected");
    check(send->sequence == vi->send.executed && send->sequence != vi->send.posted, op,
          "sends come in posting order, numbered one after the other");
    check(send->has_outstanding == (vi->send.completed != vi->send.executed), op,
          "has_outstanding: an earlier send is not complete");
    check(send->has_unreaped == (vi->send.reaped != vi->send.executed), op,
          "has_unreaped: an earlier send has not been reaped");
    check(send->status == 0, op, "core clears what the backend fills in");
    check(send->op < VIP_CONTROL_OP_RESERVED && send->local.count <= VIPL_MAX_SEGMENTS &&
              send->local.bytes <= vi->attributes.MaxTransferSize,
          op, "core has checked the descriptor");
}

void vipl_check_short(struct vipl_vi *vi, size_t bytes)
{
    static const char op[] = "send_short, rdma_short";
    check(vipl_rank_held(VIPL_RANK_SEND) && vipl_biased_is_held(&vi->send.lock), op,
          "the VI's send lock is held");
    check(vipl_rank_not_held(VIPL_RANK_RECV), op, "no receive lock is held");
    check(vi->state == VIP_STATE_CONNECTED, op, "the VI is connected");
    check(vi->send.completed == vi->send.posted, op, "all earlier sends are done");
    check(bytes > 0 && bytes <= vi->attributes.MaxTransferSize, op, "core has checked the descriptor");
}

void vipl_check_send_posted(const struct vipl_send *send, enum vipl_posted posted)
{
    static const char op[] = "post_send";
    check(posted == VIPL_POSTED_DONE || posted == VIPL_POSTED_PENDING || posted == VIPL_POSTED_AGAIN, op,
          "DONE, PENDING or AGAIN");
    check(posted != VIPL_POSTED_DONE || (send->status & ~(uint32_t)VIP_STATUS_ERROR_MASK) == 0, op,
          "status has error bits only");
}

void vipl_check_recv(struct vipl_vi *vi, const struct vipl_recv *recv)
{
    static const char op[] = "post_recv";
    check(vipl_rank_held(VIPL_RANK_RECV) && vipl_biased_is_held(&vi->recv.lock), op,
          "the VI's receive lock is held");
    check(vi->state == VIP_STATE_CONNECTED || vi->state == VIP_STATE_CONNECT_PENDING, op,
          "the VI is connected or connects");
    check(recv->sequence == vi->recv.executed && recv->sequence != vi->recv.posted, op,
          "receives come in posting order");
    check(recv->local.count <= VIPL_MAX_SEGMENTS && recv->local.bytes <= vi->attributes.MaxTransferSize &&
              (!recv->invalid || recv->local.count == 0),
          op, "core has checked the descriptor");
}

void vipl_check_recv_posted(enum vipl_posted posted)
{
    check(posted == VIPL_POSTED_PENDING || posted == VIPL_POSTED_AGAIN, "post_recv", "PENDING or AGAIN");
}
