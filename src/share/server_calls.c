/* SPDX-License-Identifier: MIT */
/*
 * The server makes its clients' calls: handles and memory are translated and checked here, the call itself is
 * that of any program.
 */
#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "core/nic.h"
#include "core/vi.h"
#include "share/server.h"

static struct vipl_arena *arena; /* constant once the server runs */

bool vipl_server_needs_rights(const struct vipl_call *call)
{
    return vipl_call_needs_rights(vipl_server_heap(), call);
}

void vipl_server_calls_init(struct vipl_arena *shared)
{
    arena = shared;
}

/* --- shared memory --- */

static VIP_RETURN alloc(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *block = vipl_server_object_new(VIPL_KIND_BLOCK, VIPL_SHARE_OBJECTS);
    if (block == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    block->address = vipl_server_heap_take(call->number, &block->bytes);
    if (block->address == NULL) {
        vipl_server_object_free(block);
        return VIP_ERROR_RESOURCE;
    }
    call->address = block->address;
    vipl_server_object_enter(block, client);
    return VIP_SUCCESS;
}

/* The server has what the program had mapped when it was forked off, at the same address. */
static bool is_here(const struct vipl_call *call)
{
    struct vipl_mapping here;
    return vipl_share_is_heap(vipl_server_heap(), call->address, call->number) ||
           (vipl_shared_mapping(call->address, call->number, &here) == 0 &&
            here.device == call->mapping.device && here.inode == call->mapping.inode &&
            here.offset == call->mapping.offset);
}

/* --- objects' ends --- */

/* VIP_ERROR_RESOURCE: a peer may still write there, so that it is not over. */
static VIP_RETURN act_region(struct vipl_server_object *region)
{
    return VipDeregisterMem(vipl_server_real(VIPL_KIND_NIC, region->nic), region->address, region->memory);
}

static struct vipl_vi_rings *vi_rings(const struct vipl_server_object *vi)
{
    return &arena->vis[vipl_handle_slot(vi->handle)];
}

/* The VI is no more in this process: its ring is free, its completion queues have a queue less. */
static void clear_vi(struct vipl_server_object *vi)
{
    vipl_store_ptr(&vi_rings(vi)->handle, NULL);
    for (int i = 0; i < 2; i++) {
        vipl_shared_queue_forget(&vi->queues[i], VIPL_SHARE_CLIENTS);
        vipl_shared_ready_end(&vi->queues[i].ready_fd, &vi_rings(vi)->queues[i].signalled);
        if (vi->cqs[i] != NULL) {
            vipl_server_use_cq(vi->cqs[i], vi->nic, -1);
        }
    }
}

static void clear_cq(const struct vipl_server_object *cq)
{
    vipl_store_ptr(&cq->cq->ring->handle, NULL);
    vipl_shared_cq_forget(cq->cq, VIPL_SHARE_CLIENTS);
    vipl_shared_ready_end(&cq->cq->ready_fd, &cq->cq->ring->signalled);
}

/* Nobody holds it: what was sent goes out, what is complete is nobody's. */
static void end_vi(struct vipl_server_object *vi)
{
    VIP_VI_STATE state;
    if (VipQueryVi(vi->real, &state, NULL, NULL, NULL) == VIP_SUCCESS && state == VIP_STATE_CONNECTED) {
        VipDisconnect(vi->real);
    }
    struct vipl_vi *real = vipl_handle_find(VIPL_KIND_VI, vi->real);
    if (real != NULL) {
        vipl_vi_close(real, vi->real);
    }
    clear_vi(vi);
}

/* False: it could not be ended now, and is there as before. */
static bool end_object(struct vipl_server_object *object)
{
    bool ended = true;
    switch (object->kind) {
    case VIPL_KIND_NIC:
        ended = VipCloseNic(object->real) != VIP_ERROR_RESOURCE;
        break;
    case VIPL_KIND_VI:
        end_vi(object);
        break;
    case VIPL_KIND_CQ:
        clear_cq(object);
        break;
    case VIPL_KIND_PTAG:
        VipDestroyPtag(vipl_server_real(VIPL_KIND_NIC, object->nic), object->real);
        break;
    case VIPL_KIND_CONN:
        VipConnectReject(object->real);
        break;
    case VIPL_KIND_REGION:
        ended = act_region(object) != VIP_ERROR_RESOURCE;
        break;
    default:
        vipl_server_heap_give(object->address, object->bytes);
        break;
    }
    if (ended) {
        vipl_server_object_free(object);
    }
    return ended;
}

static bool release_one(uint32_t kind, const void *handle, unsigned client)
{
    struct vipl_server_object *object;
    if (vipl_server_drop(kind, handle, client, &object) == VIPL_SERVER_WAS_LAST && !end_object(object)) {
        vipl_server_keep_on(object, client);
        return false;
    }
    return true;
}

/* Users before what they use. */
bool vipl_server_release(unsigned client, const void *nic)
{
    static const uint32_t order[] = {VIPL_KIND_CONN, VIPL_KIND_VI,  VIPL_KIND_CQ,   VIPL_KIND_REGION,
                                     VIPL_KIND_PTAG, VIPL_KIND_NIC, VIPL_KIND_BLOCK};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        void *handle;
        while ((handle = vipl_server_next_held(order[i], nic, client)) != NULL) {
            if (!release_one(order[i], handle, client)) {
                return false;
            }
        }
    }
    return true;
}

/* --- NIC handles --- */

static VIP_RETURN open_nic(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *nic = vipl_server_object_new(VIPL_KIND_NIC, VIPL_SHARE_NICS);
    if (nic == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    call->text[sizeof(call->text) - 1] = '\0';
    VIP_RETURN rc = VipOpenNic(call->text[0] == '\0' ? NULL : call->text, &nic->real);
    struct vipl_nic *real = rc == VIP_SUCCESS ? vipl_nic_get(nic->real) : NULL;
    if (real == NULL) {
        vipl_server_object_free(nic);
        return rc == VIP_SUCCESS ? VIP_ERROR_RESOURCE : rc;
    }
    vipl_fetch_add(&real->service.ready_fds,
                   1); /* completions are awaited elsewhere: the program is never active */
    real->progress_mode = VIPL_PROGRESS_THREAD;
    rc = vipl_service_start(real);
    vipl_nic_put(real);
    if (rc != VIP_SUCCESS) {
        VipCloseNic(nic->real);
        vipl_server_object_free(nic);
        return rc;
    }
    call->nic = nic->handle;
    vipl_server_object_enter(nic, client);
    return VIP_SUCCESS;
}

static VIP_RETURN close_nic(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *nic;
    vipl_server_forget_nic(call->nic, client);
    if (!vipl_server_release(client, call->nic)) {
        return VIP_ERROR_RESOURCE;
    }
    switch (vipl_server_drop(VIPL_KIND_NIC, call->nic, client, &nic)) {
    case VIPL_SERVER_NOT_HELD:
        return VIP_INVALID_PARAMETER;
    case VIPL_SERVER_WAS_LAST:
        if (!end_object(nic)) {
            vipl_server_keep_on(nic, client);
            return VIP_ERROR_RESOURCE;
        }
        break;
    default:
        break;
    }
    return VIP_SUCCESS;
}

/* LocalNicAddress points into the caller's memory: its bytes travel with `local`. */
static VIP_RETURN query_nic(unsigned client, struct vipl_call *call)
{
    (void)client;
    VIP_NIC_ATTRIBUTES *a = &call->attributes;
    VIP_RETURN rc = VipQueryNic(vipl_server_real(VIPL_KIND_NIC, call->nic), a);
    if (rc == VIP_SUCCESS) {
        call->local.address.HostAddressLen = a->NicAddressLen;
        memcpy(call->local.address.HostAddress, a->LocalNicAddress, a->NicAddressLen);
        a->MaxVI = a->MaxVI < VIPL_SHARE_VIS ? a->MaxVI : VIPL_SHARE_VIS;
        a->MaxCQ = a->MaxCQ < VIPL_SHARE_CQS ? a->MaxCQ : VIPL_SHARE_CQS;
        a->MaxCQEntries = VIPL_SHARE_ENTRIES;
        a->MaxDescriptorsPerQueue = VIPL_SHARE_DEPTH;
    }
    return rc;
}

/* --- tags and memory --- */

static VIP_RETURN create_ptag(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *tag = vipl_server_object_new(VIPL_KIND_PTAG, VIPL_SHARE_OBJECTS);
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    if (tag != NULL) {
        rc = VipCreatePtag(vipl_server_real(VIPL_KIND_NIC, call->nic), &tag->real);
    }
    if (rc != VIP_SUCCESS) {
        if (tag != NULL) {
            vipl_server_object_free(tag);
        }
        return rc;
    }
    tag->nic = call->nic;
    call->object = tag->handle;
    vipl_server_object_enter(tag, client);
    return VIP_SUCCESS;
}

/* Drops a reference; the last one acts as VIPL says, and stays if VIPL refuses. */
static VIP_RETURN drop(uint32_t kind, const void *handle, unsigned client,
                       VIP_RETURN (*act)(struct vipl_server_object *object))
{
    struct vipl_server_object *object;
    switch (vipl_server_drop(kind, handle, client, &object)) {
    case VIPL_SERVER_NOT_HELD:
        return VIP_INVALID_PARAMETER;
    case VIPL_SERVER_DROPPED:
        return VIP_SUCCESS;
    default:
        break;
    }
    VIP_RETURN rc = act(object);
    if (rc == VIP_SUCCESS) {
        vipl_server_object_free(object);
    } else {
        vipl_server_keep_on(object, client);
    }
    return rc;
}

static VIP_RETURN act_ptag(struct vipl_server_object *tag)
{
    return VipDestroyPtag(vipl_server_real(VIPL_KIND_NIC, tag->nic), tag->real);
}

static VIP_RETURN destroy_ptag(unsigned client, struct vipl_call *call)
{
    if (vipl_server_handle_of_nic(VIPL_KIND_PTAG, call->object) != call->nic) {
        return VIP_INVALID_PARAMETER;
    }
    return drop(VIPL_KIND_PTAG, call->object, client, act_ptag);
}

/* The tag of attributes, as this process knows it; a strange one stays strange. */
static void *real_ptag(unsigned client, void *handle)
{
    void *real = !vipl_server_is_held(VIPL_KIND_PTAG, handle, client)
                     ? NULL
                     : vipl_server_real(VIPL_KIND_PTAG, handle);
    return real == NULL ? handle : real;
}

/* The default tag has no handle that clients know. */
static void *known_ptag(const void *real)
{
    return vipl_server_handle_of(VIPL_KIND_PTAG, real);
}

static VIP_RETURN register_mem(unsigned client, struct vipl_call *call)
{
    if (!is_here(call)) {
        vipl_log(VIPL_LOG_ERROR, "memory at %p is not shared with all who may use it: see VipxAllocShared()",
                 call->address);
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_server_object *region = vipl_server_object_new(VIPL_KIND_REGION, VIPL_SHARE_OBJECTS);
    if (region == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    call->mem.Ptag = real_ptag(client, call->mem.Ptag);
    VIP_RETURN rc = VipRegisterMem(vipl_server_real(VIPL_KIND_NIC, call->nic), call->address, call->number,
                                   &call->mem, &call->memory);
    if (rc != VIP_SUCCESS) {
        vipl_server_object_free(region);
        return rc;
    }
    region->nic = call->nic;
    region->address = call->address;
    region->bytes = call->number;
    region->memory = call->memory;
    vipl_server_object_enter(region, client);
    return VIP_SUCCESS;
}

static VIP_RETURN deregister(unsigned client, struct vipl_call *call)
{
    return drop(VIPL_KIND_REGION, vipl_server_region(call->nic, call->address, call->memory), client,
                act_region);
}

static bool holds_region(unsigned client, const struct vipl_call *call)
{
    return vipl_server_is_held(VIPL_KIND_REGION, vipl_server_region(call->nic, call->address, call->memory),
                               client);
}

static VIP_RETURN query_mem(unsigned client, struct vipl_call *call)
{
    if (!holds_region(client, call)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc =
        VipQueryMem(vipl_server_real(VIPL_KIND_NIC, call->nic), call->address, call->memory, &call->mem);
    call->mem.Ptag = known_ptag(call->mem.Ptag);
    return rc;
}

static VIP_RETURN change_mem(unsigned client, struct vipl_call *call)
{
    if (!holds_region(client, call)) {
        return VIP_INVALID_PARAMETER;
    }
    call->mem.Ptag = real_ptag(client, call->mem.Ptag);
    return VipSetMemAttributes(vipl_server_real(VIPL_KIND_NIC, call->nic), call->address, call->memory,
                               &call->mem);
}

static VIP_RETURN act_block(struct vipl_server_object *block)
{
    vipl_server_heap_give(block->address, block->bytes);
    return VIP_SUCCESS;
}

static VIP_RETURN free_block(unsigned client, struct vipl_call *call)
{
    return drop(VIPL_KIND_BLOCK, vipl_server_block(call->address), client, act_block);
}

/* Threads of several channels may do it at once. */
static void note_used(uint32_t *used, uint32_t slot)
{
    uint32_t most;
    do {
        most = vipl_load_relaxed(used);
    } while (most <= slot && !vipl_compare_exchange(used, most, slot + 1));
}

/* --- completion queues: a ring, and no queue of this process's --- */

/* There is room for as many as any may have; who wants to be told when fewer do not suffice says so. */
static uint32_t cq_limit(VIP_ULONG entries)
{
    return vipl_config_has_word("VIPL_STRICT", "cq") ? (uint32_t)entries : VIPL_SHARE_ENTRIES;
}

static VIP_RETURN create_cq(unsigned client, struct vipl_call *call)
{
    if (vipl_server_real(VIPL_KIND_NIC, call->nic) == NULL || call->number == 0) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_server_object *cq =
        call->number > VIPL_SHARE_ENTRIES ? NULL : vipl_server_object_new(VIPL_KIND_CQ, VIPL_SHARE_CQS);
    if (cq == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    cq->cq = vipl_zalloc(sizeof(*cq->cq));
    if (cq->cq == NULL) {
        vipl_server_object_free(cq);
        return VIP_ERROR_RESOURCE;
    }
    vipl_mutex_init(&cq->cq->lock, VIPL_RANK_CQ);
    vipl_list_init(&cq->cq->notifies);
    cq->cq->arena = arena;
    struct vipl_cq_ring *ring = &arena->cqs[vipl_handle_slot(cq->handle)];
    cq->cq->ring = ring;
    cq->nic = call->nic;
    vipl_store_relaxed(&ring->pushed, 0);
    vipl_store_relaxed(&ring->taken, 0);
    vipl_store_relaxed(&ring->signalled, 0);
    vipl_store_relaxed(&ring->limit, cq_limit(call->number));
    vipl_store_ptr(&ring->nic, cq->nic);
    note_used(&arena->cqs_used, vipl_handle_slot(cq->handle));
    vipl_store_ptr(&ring->handle, cq->handle);
    call->object = cq->handle;
    vipl_server_object_enter(cq, client);
    return VIP_SUCCESS;
}

static VIP_RETURN act_cq(struct vipl_server_object *cq)
{
    if (cq->users > 0) { /* `ending`, so nobody changes it now */
        return VIP_ERROR_RESOURCE;
    }
    clear_cq(cq);
    return VIP_SUCCESS;
}

static VIP_RETURN destroy_cq(unsigned client, struct vipl_call *call)
{
    return drop(VIPL_KIND_CQ, call->object, client, act_cq);
}

static VIP_RETURN resize_cq(unsigned client, struct vipl_call *call)
{
    if (call->number == 0 || !vipl_server_is_held(VIPL_KIND_CQ, call->object, client)) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_cq_ring *ring = &arena->cqs[vipl_handle_slot(call->object)];
    uint32_t queued = vipl_load_acquire(&ring->pushed) - vipl_load_acquire(&ring->taken);
    if (call->number > VIPL_SHARE_ENTRIES || call->number < queued) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_store_relaxed(&ring->limit, cq_limit(call->number));
    return VIP_SUCCESS;
}

static VIP_RETURN hand_on(unsigned client, struct vipl_call *call)
{
    bool known = call->number < 2 * VIPL_SHARE_VIS &&
                 vipl_server_cq_hand_on(client, call->object, (uint32_t)call->number);
    return known ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/* --- VIs --- */

static void follow(struct vipl_queue *q)
{
    if (q->shared != NULL) {
        vipl_shared_queue_follow(q->shared, q);
    }
}

/* What clients have reaped counts as reaped for the call that comes. */
static void follow_vi(void *real)
{
    struct vipl_vi *vi = vipl_vi_lock_quiet(real);
    if (vi != NULL) {
        follow(&vi->send);
        follow(&vi->recv);
        vipl_vi_unlock(vi);
    }
}

/* Both queues complete through the rings from now on: nothing is posted yet. */
static void keep_vi(struct vipl_server_object *object, struct vipl_shared_cq *const cqs[2])
{
    struct vipl_vi_rings *rings = vi_rings(object);
    struct vipl_vi *vi = vipl_vi_lock_quiet(object->real);
    struct vipl_queue *const queues[2] = {&vi->send, &vi->recv};
    for (uint32_t i = 0; i < 2; i++) {
        struct vipl_ring *ring = &rings->queues[i];
        struct vipl_shared_queue *shared = &object->queues[i];
        memset(ring, 0, offsetof(struct vipl_ring, entries));
        ring->cq = cqs[i] == NULL ? 0 : 1 + vipl_handle_slot(object->cqs[i]);
        shared->ring = ring;
        shared->vi = object->handle;
        shared->q = queues[i];
        vipl_list_init(&shared->notifies);
        shared->cq = cqs[i];
        shared->code = vipl_handle_slot(object->handle) << 1 | i;
        queues[i]->shared = shared;
        queues[i]->limit = VIPL_SHARE_DEPTH;
    }
    vipl_vi_unlock(vi);
    vipl_store_ptr(&rings->nic, object->nic);
    note_used(&arena->vis_used, vipl_handle_slot(object->handle));
    vipl_store_ptr(&rings->handle, object->handle);
}

/* The completion queues of a new VI, with a use of each; VIP_INVALID_PARAMETER: one is none of the NIC handle's. */
static VIP_RETURN use_cqs(unsigned client, const struct vipl_call *call, struct vipl_server_object *vi,
                          struct vipl_shared_cq *cqs[2])
{
    void *const handles[2] = {call->other, call->third};
    for (int i = 0; i < 2; i++) {
        cqs[i] = vipl_server_is_held(VIPL_KIND_CQ, handles[i], client)
                     ? vipl_server_use_cq(handles[i], call->nic, 1)
                     : NULL;
        if (handles[i] != NULL && cqs[i] == NULL) {
            if (i == 1 && cqs[0] != NULL) {
                vipl_server_use_cq(handles[0], call->nic, -1);
            }
            return VIP_INVALID_PARAMETER;
        }
        vi->cqs[i] = handles[i];
    }
    return VIP_SUCCESS;
}

static VIP_RETURN make_vi(unsigned client, struct vipl_server_object *vi, struct vipl_call *call)
{
    struct vipl_shared_cq *cqs[2];
    vi->nic = call->nic;
    vi->queues = vipl_zalloc(2 * sizeof(*vi->queues));
    VIP_RETURN rc = vi->queues == NULL ? VIP_ERROR_RESOURCE : use_cqs(client, call, vi, cqs);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    call->vi.Ptag = real_ptag(client, call->vi.Ptag);
    rc = VipCreateVi(vipl_server_real(VIPL_KIND_NIC, call->nic), &call->vi, NULL, NULL, &vi->real);
    if (rc == VIP_SUCCESS) {
        keep_vi(vi, cqs);
        return VIP_SUCCESS;
    }
    for (int i = 0; i < 2; i++) {
        if (cqs[i] != NULL) {
            vipl_server_use_cq(vi->cqs[i], vi->nic, -1);
        }
    }
    return rc;
}

static VIP_RETURN create_vi(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *vi = vipl_server_object_new(VIPL_KIND_VI, VIPL_SHARE_VIS);
    if (vi == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = make_vi(client, vi, call);
    if (rc != VIP_SUCCESS) {
        vipl_server_object_free(vi);
        return rc;
    }
    call->object = vi->handle;
    vipl_server_object_enter(vi, client);
    return VIP_SUCCESS;
}

static VIP_RETURN act_vi(struct vipl_server_object *vi)
{
    follow_vi(vi->real);
    VIP_RETURN rc = VipDestroyVi(vi->real);
    if (rc == VIP_SUCCESS) {
        clear_vi(vi);
    }
    return rc;
}

static VIP_RETURN destroy_vi(unsigned client, struct vipl_call *call)
{
    return drop(VIPL_KIND_VI, call->object, client, act_vi);
}

static void *real_vi(unsigned client, const struct vipl_call *call)
{
    return vipl_server_held(VIPL_KIND_VI, call->object, client);
}

static VIP_RETURN query_vi(unsigned client, struct vipl_call *call)
{
    follow_vi(real_vi(client, call));
    VIP_RETURN rc =
        VipQueryVi(real_vi(client, call), &call->state, &call->vi, &call->empty[0], &call->empty[1]);
    call->vi.Ptag = known_ptag(call->vi.Ptag);
    return rc;
}

static VIP_RETURN change_vi(unsigned client, struct vipl_call *call)
{
    call->vi.Ptag = real_ptag(client, call->vi.Ptag);
    return VipSetViAttributes(real_vi(client, call), &call->vi);
}

static VIP_RETURN set_user_data(unsigned client, struct vipl_call *call)
{
    return VipSetUserData(real_vi(client, call), call->address);
}

static VIP_RETURN get_user_data(unsigned client, struct vipl_call *call)
{
    call->address = VipGetUserData(real_vi(client, call));
    return VIP_SUCCESS;
}

static VIP_RETURN post_send(unsigned client, struct vipl_call *call)
{
    void *real = real_vi(client, call);
    struct vipl_vi *vi = vipl_vi_lock_send(real);
    if (vi != NULL) {
        follow(&vi->send);
        vipl_mutex_unlock(&vi->send.lock);
    }
    return VipPostSend(real, call->descriptor, call->memory);
}

static VIP_RETURN post_recv(unsigned client, struct vipl_call *call)
{
    void *real = real_vi(client, call);
    struct vipl_vi *vi = vipl_vi_lock_recv(real);
    if (vi != NULL) {
        follow(&vi->recv);
        vipl_mutex_unlock(&vi->recv.lock);
    }
    return VipPostRecv(real, call->descriptor, call->memory);
}

/* --- connections --- */

static VIP_RETURN connect_wait(unsigned client, struct vipl_call *call)
{
    struct vipl_server_object *conn = vipl_server_object_new(VIPL_KIND_CONN, VIPL_SHARE_OBJECTS);
    if (conn == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = VipConnectWait(vipl_server_real(VIPL_KIND_NIC, call->nic), &call->local.address,
                                   call->number, &call->remote.address, &call->vi, &conn->real);
    if (rc != VIP_SUCCESS) {
        vipl_server_object_free(conn);
        return rc;
    }
    conn->nic = call->nic;
    call->object = conn->handle;
    vipl_server_object_enter(conn, client);
    return VIP_SUCCESS;
}

/* A request is over with its first answer, whoever else holds it. */
static void forget_conn(const void *handle, const void *real)
{
    struct vipl_server_object *conn;
    for (unsigned client = 0; client < VIPL_SHARE_CLIENTS; client++) {
        if (vipl_server_real(VIPL_KIND_CONN, handle) != real) {
            return;
        }
        if (vipl_server_drop(VIPL_KIND_CONN, handle, client, &conn) == VIPL_SERVER_WAS_LAST) {
            vipl_server_object_free(conn);
            return;
        }
    }
}

static VIP_RETURN accept(unsigned client, struct vipl_call *call)
{
    void *real = vipl_server_held(VIPL_KIND_CONN, call->object, client);
    void *vi = vipl_server_held(VIPL_KIND_VI, call->other, client);
    if (real == NULL || vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VipConnectAccept(real, vi);
    if (vipl_handle_find(VIPL_KIND_CONN, real) == NULL) { /* else it may be answered once more */
        forget_conn(call->object, real);
    }
    return rc;
}

static VIP_RETURN reject(unsigned client, struct vipl_call *call)
{
    void *real = vipl_server_held(VIPL_KIND_CONN, call->object, client);
    VIP_RETURN rc = VipConnectReject(real);
    if (rc == VIP_SUCCESS) {
        forget_conn(call->object, real);
    }
    return rc;
}

static VIP_RETURN connect(unsigned client, struct vipl_call *call)
{
    return VipConnectRequest(real_vi(client, call), &call->local.address, &call->remote.address, call->number,
                             &call->vi);
}

static VIP_RETURN disconnect(unsigned client, struct vipl_call *call)
{
    return VipDisconnect(real_vi(client, call));
}

static VIP_RETURN peer_request(unsigned client, struct vipl_call *call)
{
    return VipConnectPeerRequest(real_vi(client, call), &call->local.address, &call->remote.address,
                                 call->number);
}

static VIP_RETURN peer_done(unsigned client, struct vipl_call *call)
{
    return VipConnectPeerDone(real_vi(client, call), &call->vi);
}

static VIP_RETURN peer_wait(unsigned client, struct vipl_call *call)
{
    return VipConnectPeerWait(real_vi(client, call), &call->vi);
}

/* --- statistics --- */

static VIP_RETURN nic_statistics(unsigned client, struct vipl_call *call)
{
    (void)client;
    return VipQuerySystemManagementInfo(vipl_server_real(VIPL_KIND_NIC, call->nic), VIPX_SMI_NIC_STATISTICS,
                                        &call->nic_statistics);
}

static VIP_RETURN vi_statistics(unsigned client, struct vipl_call *call)
{
    VIP_VI_HANDLE real = vipl_server_held(VIPL_KIND_VI, call->vi_statistics.ViHandle, client);
    follow_vi(real);
    call->vi_statistics.ViHandle = real;
    return VipQuerySystemManagementInfo(vipl_server_real(VIPL_KIND_NIC, call->nic), VIPX_SMI_VI_STATISTICS,
                                        &call->vi_statistics);
}

/* --- names --- */

static VIP_RETURN host_by_name(unsigned client, struct vipl_call *call)
{
    (void)client;
    call->text[sizeof(call->text) - 1] = '\0';
    return VipNSGetHostByName(vipl_server_real(VIPL_KIND_NIC, call->nic), call->text, &call->remote.address,
                              call->number);
}

static VIP_RETURN host_by_address(unsigned client, struct vipl_call *call)
{
    (void)client;
    call->number = sizeof(call->text);
    return VipNSGetHostByAddr(vipl_server_real(VIPL_KIND_NIC, call->nic), &call->remote.address, call->text,
                              &call->number);
}

void vipl_server_make_call(unsigned client, struct vipl_call *call)
{
    static VIP_RETURN (*const calls[VIPL_CALLS])(unsigned client, struct vipl_call *call) = {
        [VIPL_CALL_OPEN] = open_nic,
        [VIPL_CALL_CLOSE] = close_nic,
        [VIPL_CALL_QUERY_NIC] = query_nic,
        [VIPL_CALL_CREATE_PTAG] = create_ptag,
        [VIPL_CALL_DESTROY_PTAG] = destroy_ptag,
        [VIPL_CALL_REGISTER] = register_mem,
        [VIPL_CALL_DEREGISTER] = deregister,
        [VIPL_CALL_QUERY_MEM] = query_mem,
        [VIPL_CALL_CHANGE_MEM] = change_mem,
        [VIPL_CALL_CREATE_VI] = create_vi,
        [VIPL_CALL_DESTROY_VI] = destroy_vi,
        [VIPL_CALL_QUERY_VI] = query_vi,
        [VIPL_CALL_CHANGE_VI] = change_vi,
        [VIPL_CALL_SET_USER_DATA] = set_user_data,
        [VIPL_CALL_GET_USER_DATA] = get_user_data,
        [VIPL_CALL_CONNECT_WAIT] = connect_wait,
        [VIPL_CALL_ACCEPT] = accept,
        [VIPL_CALL_REJECT] = reject,
        [VIPL_CALL_CONNECT] = connect,
        [VIPL_CALL_DISCONNECT] = disconnect,
        [VIPL_CALL_PEER_REQUEST] = peer_request,
        [VIPL_CALL_PEER_DONE] = peer_done,
        [VIPL_CALL_PEER_WAIT] = peer_wait,
        [VIPL_CALL_POST_SEND] = post_send,
        [VIPL_CALL_POST_RECV] = post_recv,
        [VIPL_CALL_CREATE_CQ] = create_cq,
        [VIPL_CALL_DESTROY_CQ] = destroy_cq,
        [VIPL_CALL_RESIZE_CQ] = resize_cq,
        [VIPL_CALL_HOST_BY_NAME] = host_by_name,
        [VIPL_CALL_HOST_BY_ADDRESS] = host_by_address,
        [VIPL_CALL_ALLOC] = alloc,
        [VIPL_CALL_FREE] = free_block,
        [VIPL_CALL_NOTIFY] = vipl_server_notify,
        [VIPL_CALL_NOTIFY_CQ] = vipl_server_notify_cq,
        [VIPL_CALL_ERROR_HANDLER] = vipl_server_error_handler,
        [VIPL_CALL_HAND_ON] = hand_on,
        [VIPL_CALL_NIC_STATISTICS] = nic_statistics,
        [VIPL_CALL_VI_STATISTICS] = vi_statistics,
    };
    bool known = call->name < VIPL_CALLS &&
                 (call->nic == NULL || vipl_server_is_held(VIPL_KIND_NIC, call->nic, client));
    call->rc = known ? calls[call->name](client, call) : VIP_INVALID_PARAMETER;
}
