/* SPDX-License-Identifier: MIT */
/*
 * The server makes its clients' calls. Handles and memory are translated and checked here; the call
 * itself is made as by any program.
 */
#include "server/calls.h"

#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "core/sink.h"
#include "os/os_atomic.h"
#include "server/events.h"
#include "server/heap.h"
#include "server/objects.h"
#include "server/posts.h"
#include "server/rings.h"

/* A call under way. */
struct job {
    unsigned client;
    void *object; /* the clients' handle; NULL: the call has no object */
    void *real;   /* this process's handle of the object; NULL for a completion queue */
    union vipl_call_arguments *a;
};

static struct vipl_arena *arena; /* constant once the server runs */

bool vipl_server_needs_rights(const struct vipl_call *call)
{
    return vipl_call_needs_rights(vipl_server_heap(), call);
}

void vipl_server_calls_init(struct vipl_arena *shared)
{
    arena = shared;
}

/* Ends the making of an object: if it succeeded, the object exists from now on and the caller holds
 * it. Returns `rc`. */
static VIP_RETURN enter_object(const struct job *job, struct vipl_server_object *made, VIP_RETURN rc)
{
    if (rc == VIP_SUCCESS) {
        vipl_server_object_enter(made, job->client);
    } else {
        vipl_server_object_free(made);
    }
    return rc;
}

/* --- shared memory --- */

static VIP_RETURN alloc_block(struct job *job)
{
    struct vipl_server_object *block = vipl_server_object_new(VIPL_KIND_BLOCK, VIPL_SHARE_OBJECTS, NULL);
    if (block == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    block->address = vipl_server_heap_take(job->a->block.length, &block->bytes);
    job->a->block.address = block->address;
    return enter_object(job, block, block->address != NULL ? VIP_SUCCESS : VIP_ERROR_RESOURCE);
}

/* Whether the memory is in the heap, or the server has the same mapping at the same address. */
static bool is_shared(const struct vipl_call_mem *mem)
{
    struct vipl_mapping here;
    return vipl_share_is_heap(vipl_server_heap(), mem->address, mem->length) ||
           (vipl_shared_mapping(mem->address, mem->length, &here) == 0 &&
            here.device == mem->mapping.device && here.inode == mem->mapping.inode &&
            here.offset == mem->mapping.offset);
}

/* --- ending objects --- */

/* Deregisters a region. Returns VIP_ERROR_RESOURCE if a peer may still write to it. */
static VIP_RETURN try_end_region(struct vipl_server_object *region)
{
    /* from now on posts that use the region are calls */
    vipl_server_posts_no_region(region->nic, region->memory);
    return VipDeregisterMem(vipl_server_real(VIPL_KIND_NIC, region->nic), region->address, region->memory);
}

static struct vipl_vi_rings *vi_rings(const struct vipl_server_object *vi)
{
    return &arena->vis[vipl_handle_slot(vi->handle)];
}

/* The VI is destroyed in this process: frees its rings, and its uses of completion queues. */
static void clear_vi(struct vipl_server_object *vi)
{
    vipl_store_ptr(&vi_rings(vi)->handle, NULL);
    for (int i = 0; i < 2; i++) {
        vipl_shared_queue_forget(&vi->queues[i], VIPL_SHARE_CLIENTS);
        vipl_shared_ready_end(&vi->queues[i].ready_fd, &vi_rings(vi)->queues[i].signalled);
        vipl_server_leave_cq(vi->cqs[i]);
    }
}

/* No process holds the completion queue any more, though VIs may still report to it. */
static void clear_cq(const struct vipl_server_object *cq)
{
    vipl_store_ptr(&cq->cq->ring->handle, NULL);
    vipl_shared_cq_forget(cq->cq, VIPL_SHARE_CLIENTS);
    vipl_shared_ready_end(&cq->cq->ready_fd, &cq->cq->ring->signalled);
}

/* Ends a VI without a client: pending sends are finished, and completions are lost. */
static void end_vi(struct vipl_server_object *vi)
{
    VipDisconnect(vi->real);
    VipDestroyVi(vi->real);
    clear_vi(vi);
}

/* Ends an object without a client. Returns VIP_ERROR_RESOURCE if it cannot be ended now. */
static VIP_RETURN end_object(struct vipl_server_object *object)
{
    VIP_RETURN rc = VIP_SUCCESS;
    switch (object->kind) {
    case VIPL_KIND_NIC:
        rc = VipCloseNic(object->real);
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
        rc = try_end_region(object);
        break;
    default:
        vipl_server_heap_give(object->address, object->bytes);
        break;
    }
    return rc == VIP_ERROR_RESOURCE ? rc : VIP_SUCCESS;
}

/* Drops a reference. For the last one, calls `act`; if that fails, the client
 * keeps the reference. */
static VIP_RETURN drop_reference(uint32_t kind, const void *handle, unsigned client,
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
        vipl_server_give_back(object, client);
    }
    return rc;
}

/* The order of kinds is: users before what they use. */
bool vipl_server_release(unsigned client, const void *nic)
{
    static const uint32_t order[] = {VIPL_KIND_CONN, VIPL_KIND_VI,  VIPL_KIND_CQ,   VIPL_KIND_REGION,
                                     VIPL_KIND_PTAG, VIPL_KIND_NIC, VIPL_KIND_BLOCK};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        void *handle;
        while ((handle = vipl_server_next_held(order[i], nic, client)) != NULL) {
            if (drop_reference(order[i], handle, client, end_object) == VIP_ERROR_RESOURCE) {
                return false;
            }
        }
    }
    return true;
}

/* --- NIC handles --- */

/* Opens the server's NIC handle. Its calls go on after signals, because the only signals here are
 * those by which the C library changes the users of all threads (rights.h). A client's signal ends
 * a call by cancelling it. */
static VIP_RETURN open_real(const char *device, void **real)
{
    VIP_RETURN rc = VipOpenNic(device[0] == '\0' ? NULL : device, real);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    VipxSetRestart(*real, VIP_TRUE);
    rc = vipl_sink_serve(*real);
    if (rc != VIP_SUCCESS) {
        VipCloseNic(*real);
    }
    return rc;
}

static VIP_RETURN open_nic(struct job *job)
{
    struct vipl_server_object *nic = vipl_server_object_new(VIPL_KIND_NIC, VIPL_SHARE_NICS, NULL);
    if (nic == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    job->a->open.device[sizeof(job->a->open.device) - 1] = '\0';
    job->a->open.nic = nic->handle;
    return enter_object(job, nic, open_real(job->a->open.device, &nic->real));
}

static VIP_RETURN close_nic(struct job *job)
{
    vipl_server_forget_nic(job->object, job->client);
    return vipl_server_release(job->client, job->object)
               ? drop_reference(VIPL_KIND_NIC, job->object, job->client, end_object)
               : VIP_ERROR_RESOURCE;
}

/* LocalNicAddress must point into the caller's memory, so its bytes are sent
 * with the attributes. */
static VIP_RETURN query_nic(struct job *job)
{
    VIP_NIC_ATTRIBUTES *a = &job->a->nic.attributes;
    VIP_RETURN rc = VipQueryNic(job->real, a);
    if (rc == VIP_SUCCESS) {
        memcpy(job->a->nic.address, a->LocalNicAddress, a->NicAddressLen);
        a->MaxVI = a->MaxVI < VIPL_SHARE_VIS ? a->MaxVI : VIPL_SHARE_VIS;
        a->MaxCQ = a->MaxCQ < VIPL_SHARE_CQS ? a->MaxCQ : VIPL_SHARE_CQS;
        a->MaxCQEntries = VIPL_SHARE_ENTRIES;
        a->MaxDescriptorsPerQueue = VIPL_SHARE_DEPTH;
    }
    return rc;
}

/* --- tags and memory --- */

static VIP_RETURN create_ptag(struct job *job)
{
    struct vipl_server_object *tag = vipl_server_object_new(VIPL_KIND_PTAG, VIPL_SHARE_OBJECTS, job->object);
    if (tag == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    job->a->ptag.ptag = tag->handle;
    return enter_object(job, tag, VipCreatePtag(job->real, &tag->real));
}

static VIP_RETURN try_end_ptag(struct vipl_server_object *tag)
{
    return VipDestroyPtag(vipl_server_real(VIPL_KIND_NIC, tag->nic), tag->real);
}

static VIP_RETURN destroy_ptag(struct job *job)
{
    void *tag = job->a->ptag.ptag;
    if (vipl_server_handle_of_nic(VIPL_KIND_PTAG, tag) != job->object) {
        return VIP_INVALID_PARAMETER;
    }
    return drop_reference(VIPL_KIND_PTAG, tag, job->client, try_end_ptag);
}

/* The tag in a client's attributes, as this process knows it. A handle that is not one of the
 * client's tags stays as it is. */
static void *real_ptag(unsigned client, void *handle)
{
    void *real;
    return vipl_server_held(VIPL_KIND_PTAG, handle, client, &real) ? real : handle;
}

/* The clients' handle of a tag; NULL for the default tag. */
static void *known_ptag(const void *real)
{
    return vipl_server_handle_of(VIPL_KIND_PTAG, real);
}

static VIP_RETURN register_mem(struct job *job)
{
    struct vipl_call_mem *mem = &job->a->mem;
    if (!is_shared(mem)) {
        vipl_log(VIPL_LOG_ERROR, "memory at %p is not shared with all who may use it: see VipxAllocShared()",
                 mem->address);
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_server_object *region =
        vipl_server_object_new(VIPL_KIND_REGION, VIPL_SHARE_OBJECTS, job->object);
    if (region == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    mem->attributes.Ptag = real_ptag(job->client, mem->attributes.Ptag);
    VIP_RETURN rc = VipRegisterMem(job->real, mem->address, mem->length, &mem->attributes, &mem->memory);
    region->address = mem->address;
    region->memory = mem->memory;
    if (rc == VIP_SUCCESS) {
        vipl_server_posts_region(job->object, mem->address, mem->length, mem->memory);
    }
    return enter_object(job, region, rc);
}

static void *region_of(const struct job *job)
{
    return vipl_server_region(job->object, job->a->mem.address, job->a->mem.memory);
}

static VIP_RETURN deregister_mem(struct job *job)
{
    return drop_reference(VIPL_KIND_REGION, region_of(job), job->client, try_end_region);
}

static bool holds_region(const struct job *job)
{
    void *none;
    return vipl_server_held(VIPL_KIND_REGION, region_of(job), job->client, &none);
}

static VIP_RETURN query_mem(struct job *job)
{
    struct vipl_call_mem *mem = &job->a->mem;
    if (!holds_region(job)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VipQueryMem(job->real, mem->address, mem->memory, &mem->attributes);
    mem->attributes.Ptag = known_ptag(mem->attributes.Ptag);
    return rc;
}

static VIP_RETURN change_mem(struct job *job)
{
    struct vipl_call_mem *mem = &job->a->mem;
    if (!holds_region(job)) {
        return VIP_INVALID_PARAMETER;
    }
    mem->attributes.Ptag = real_ptag(job->client, mem->attributes.Ptag);
    return VipSetMemAttributes(job->real, mem->address, mem->memory, &mem->attributes);
}

static VIP_RETURN free_block(struct job *job)
{
    return drop_reference(VIPL_KIND_BLOCK, vipl_server_block(job->a->block.address), job->client, end_object);
}

/* Slots up to this one are used. Threads of several channels may call this at once. */
static void note_used(uint32_t *used, uint32_t slot)
{
    uint32_t most;
    do {
        most = vipl_load_relaxed(used);
    } while (most <= slot && !vipl_compare_exchange(used, most, slot + 1));
}

/* --- completion queues: each is a ring of the arena; this process has no queue of its own
 * for it --- */

/* Every completion queue has room for VIPL_SHARE_ENTRIES entries. A program that sets
 * VIPL_STRICT=cq gets only those it asked for. */
static uint32_t cq_limit(VIP_ULONG entries)
{
    return vipl_config_has_word("VIPL_STRICT", "cq") ? (uint32_t)entries : VIPL_SHARE_ENTRIES;
}

static void init_cq(struct vipl_server_object *object, VIP_ULONG entries)
{
    struct vipl_shared_cq *cq = object->cq;
    struct vipl_cq_ring *ring = &arena->cqs[vipl_handle_slot(object->handle)];
    vipl_mutex_init(&cq->lock, VIPL_RANK_CQ);
    vipl_list_init(&cq->notifies);
    cq->arena = arena;
    cq->ring = ring;
    vipl_store_relaxed(&ring->pushed, 0);
    vipl_store_relaxed(&ring->taken, 0);
    vipl_store_relaxed(&ring->signalled, 0);
    vipl_store_relaxed(&ring->limit, cq_limit(entries));
    vipl_store_ptr(&ring->nic, object->nic);
    note_used(&arena->cqs_used, vipl_handle_slot(object->handle));
    vipl_store_ptr(&ring->handle, object->handle);
}

static VIP_RETURN create_cq(struct job *job)
{
    VIP_ULONG entries = job->a->cq.entries;
    if (entries == 0) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_server_object *cq = entries > VIPL_SHARE_ENTRIES
                                        ? NULL
                                        : vipl_server_object_new(VIPL_KIND_CQ, VIPL_SHARE_CQS, job->object);
    if (cq == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    cq->cq = vipl_zalloc(sizeof(*cq->cq));
    if (cq->cq == NULL) {
        return enter_object(job, cq, VIP_ERROR_RESOURCE);
    }
    init_cq(cq, entries);
    job->a->cq.cq = cq->handle;
    return enter_object(job, cq, VIP_SUCCESS);
}

static VIP_RETURN try_end_cq(struct vipl_server_object *cq)
{
    if (vipl_load_acquire(&cq->users) > 0) { /* it is `ending`, so there will not be more users */
        return VIP_ERROR_RESOURCE;
    }
    clear_cq(cq);
    return VIP_SUCCESS;
}

static VIP_RETURN destroy_cq(struct job *job)
{
    return drop_reference(VIPL_KIND_CQ, job->object, job->client, try_end_cq);
}

static VIP_RETURN resize_cq(struct job *job)
{
    VIP_ULONG entries = job->a->cq.entries;
    if (entries == 0) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_cq_ring *ring = &arena->cqs[vipl_handle_slot(job->object)];
    uint32_t queued = vipl_load_acquire(&ring->pushed) - vipl_load_acquire(&ring->taken);
    if (entries > VIPL_SHARE_ENTRIES || entries < queued) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_store_relaxed(&ring->limit, cq_limit(entries));
    return VIP_SUCCESS;
}

static VIP_RETURN hand_on(struct job *job)
{
    uint32_t code = job->a->hand_on.code;
    bool known = code < 2 * VIPL_SHARE_VIS && vipl_server_cq_hand_on(job->client, job->object, code);
    return known ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/* --- VIs --- */

/* Tells core what clients have reaped, before a call that depends on it. */
static void sync_queue(void *real, const void *handle, bool recv)
{
    const struct vipl_vi_rings *rings = &arena->vis[vipl_handle_slot(handle)];
    vipl_sink_taken(real, recv, vipl_load_acquire(&rings->queues[recv ? 1 : 0].reaped));
}

static void sync_vi(void *real, const void *handle)
{
    sync_queue(real, handle, false);
    sync_queue(real, handle, true);
}

/* Both queues complete through the rings from now on. Nothing has been posted yet. */
static void attach_rings(struct vipl_server_object *vi, struct vipl_shared_cq *const cqs[2])
{
    struct vipl_vi_rings *rings = vi_rings(vi);
    struct vipl_sink *const sinks[2] = {&vi->queues[0].sink, &vi->queues[1].sink};
    for (uint32_t i = 0; i < 2; i++) {
        vipl_shared_queue_init(&vi->queues[i], &rings->queues[i], cqs[i]);
        vi->queues[i].vi = vi->handle;
        vi->queues[i].code = vipl_handle_slot(vi->handle) << 1 | i;
        rings->queues[i].cq = cqs[i] == NULL ? 0 : 1 + vipl_handle_slot(vi->cqs[i]);
    }
    vipl_server_posts_open(vi->handle);
    vipl_sink_attach(vi->real, sinks, VIPL_SHARE_DEPTH);
    vipl_store_ptr(&rings->nic, vi->nic);
    note_used(&arena->vis_used, vipl_handle_slot(vi->handle));
    vipl_store_ptr(&rings->handle, vi->handle);
}

/* Takes a use of each completion queue of a new VI. Returns VIP_INVALID_PARAMETER if one is not on
 * the VI's NIC handle. */
static VIP_RETURN use_cqs(unsigned client, void *const handles[2], struct vipl_server_object *vi,
                          struct vipl_shared_cq *cqs[2])
{
    for (int i = 0; i < 2; i++) {
        void *none;
        bool held = vipl_server_held(VIPL_KIND_CQ, handles[i], client, &none);
        cqs[i] = held ? vipl_server_use_cq(handles[i], vi->nic) : NULL;
        if (handles[i] != NULL && cqs[i] == NULL) {
            vipl_server_leave_cq(vi->cqs[0]);
            return VIP_INVALID_PARAMETER;
        }
        vi->cqs[i] = handles[i];
    }
    return VIP_SUCCESS;
}

static VIP_RETURN make_vi(unsigned client, void *nic, struct vipl_server_object *vi,
                          struct vipl_call_create_vi *a)
{
    struct vipl_shared_cq *cqs[2];
    vi->queues = vipl_zalloc(2 * sizeof(*vi->queues));
    VIP_RETURN rc = vi->queues == NULL ? VIP_ERROR_RESOURCE : use_cqs(client, a->cqs, vi, cqs);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    a->attributes.Ptag = real_ptag(client, a->attributes.Ptag);
    rc = VipCreateVi(nic, &a->attributes, NULL, NULL, &vi->real);
    if (rc == VIP_SUCCESS) {
        attach_rings(vi, cqs);
        return VIP_SUCCESS;
    }
    vipl_server_leave_cq(vi->cqs[0]);
    vipl_server_leave_cq(vi->cqs[1]);
    return rc;
}

static VIP_RETURN create_vi(struct job *job)
{
    struct vipl_server_object *vi = vipl_server_object_new(VIPL_KIND_VI, VIPL_SHARE_VIS, job->object);
    if (vi == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    job->a->create_vi.vi = vi->handle;
    return enter_object(job, vi, make_vi(job->client, job->real, vi, &job->a->create_vi));
}

static VIP_RETURN try_end_vi(struct vipl_server_object *vi)
{
    VIP_RETURN rc = VipDestroyVi(vi->real);
    if (rc == VIP_SUCCESS) {
        clear_vi(vi);
    }
    return rc;
}

static VIP_RETURN destroy_vi(struct job *job)
{
    return drop_reference(VIPL_KIND_VI, job->object, job->client, try_end_vi);
}

static VIP_RETURN query_vi(struct job *job)
{
    struct vipl_call_vi *vi = &job->a->vi;
    sync_vi(job->real, job->object);
    VIP_RETURN rc = VipQueryVi(job->real, &vi->state, &vi->attributes, &vi->empty[0], &vi->empty[1]);
    vi->attributes.Ptag = known_ptag(vi->attributes.Ptag);
    return rc;
}

static VIP_RETURN change_vi(struct job *job)
{
    job->a->vi.attributes.Ptag = real_ptag(job->client, job->a->vi.attributes.Ptag);
    return VipSetViAttributes(job->real, &job->a->vi.attributes);
}

static VIP_RETURN set_user_data(struct job *job)
{
    return VipSetUserData(job->real, job->a->user_data.data);
}

static VIP_RETURN get_user_data(struct job *job)
{
    job->a->user_data.data = VipGetUserData(job->real);
    return VIP_SUCCESS;
}

static VIP_RETURN post_send(struct job *job)
{
    return vipl_server_post(job->client, job->object, &job->a->post);
}

static VIP_RETURN post_recv(struct job *job)
{
    sync_queue(job->real, job->object, true);
    return VipPostRecv(job->real, job->a->post.descriptor, job->a->post.memory);
}

/* Does nothing: before every call the server posts what clients have left in their rings. */
static VIP_RETURN catch_up(struct job *job)
{
    (void)job;
    return VIP_SUCCESS;
}

/* --- connections --- */

static VIP_RETURN connect_wait(struct job *job)
{
    struct vipl_call_connect *a = &job->a->connect;
    struct vipl_server_object *conn = vipl_server_object_new(VIPL_KIND_CONN, VIPL_SHARE_OBJECTS, job->object);
    if (conn == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    a->conn = conn->handle;
    return enter_object(job, conn,
                        VipConnectWait(job->real, &a->local.address, a->timeout, &a->remote.address,
                                       &a->attributes, &conn->real));
}

/* Drops all references to a request that was answered. */
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

static VIP_RETURN accept_request(struct job *job)
{
    void *vi;
    if (!vipl_server_held(VIPL_KIND_VI, job->a->accept.vi, job->client, &vi)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VipConnectAccept(job->real, vi);
    /* otherwise it may be answered once more */
    if (vipl_handle_find(VIPL_KIND_CONN, job->real) == NULL) {
        forget_conn(job->object, job->real);
    }
    return rc;
}

static VIP_RETURN reject_request(struct job *job)
{
    VIP_RETURN rc = VipConnectReject(job->real);
    if (rc == VIP_SUCCESS) {
        forget_conn(job->object, job->real);
    }
    return rc;
}

static VIP_RETURN connect_vi(struct job *job)
{
    struct vipl_call_connect *a = &job->a->connect;
    return VipxConnectRequest(job->real, &a->local.address, &a->remote.address, a->flags, a->timeout,
                              &a->attributes);
}

static VIP_RETURN disconnect_vi(struct job *job)
{
    return VipDisconnect(job->real);
}

static VIP_RETURN peer_request(struct job *job)
{
    struct vipl_call_connect *a = &job->a->connect;
    return VipConnectPeerRequest(job->real, &a->local.address, &a->remote.address, a->timeout);
}

static VIP_RETURN peer_done(struct job *job)
{
    return VipConnectPeerDone(job->real, &job->a->vi.attributes);
}

static VIP_RETURN peer_wait(struct job *job)
{
    return VipConnectPeerWait(job->real, &job->a->vi.attributes);
}

/* --- handlers, statistics, names --- */

static VIP_RETURN register_handler(struct job *job)
{
    return vipl_server_notify(job->client, vipl_handle_kind(job->object), job->object, &job->a->handler);
}

static VIP_RETURN error_handler(struct job *job)
{
    return vipl_server_error_handler(job->client, job->real, job->object, &job->a->handler);
}

static VIP_RETURN nic_statistics(struct job *job)
{
    return VipQuerySystemManagementInfo(job->real, VIPX_SMI_NIC_STATISTICS,
                                        &job->a->nic_statistics.statistics);
}

static VIP_RETURN vi_statistics(struct job *job)
{
    VIPX_VI_STATISTICS *statistics = &job->a->vi_statistics.statistics;
    void *vi;
    if (!vipl_server_held(VIPL_KIND_VI, statistics->ViHandle, job->client, &vi)) {
        return VIP_INVALID_PARAMETER;
    }
    sync_vi(vi, statistics->ViHandle);
    statistics->ViHandle = vi;
    return VipQuerySystemManagementInfo(job->real, VIPX_SMI_VI_STATISTICS, statistics);
}

static VIP_RETURN host_by_name(struct job *job)
{
    struct vipl_call_host *host = &job->a->host;
    host->name[sizeof(host->name) - 1] = '\0';
    return VipNSGetHostByName(job->real, host->name, &host->address.address, host->index);
}

static VIP_RETURN host_by_address(struct job *job)
{
    struct vipl_call_host *host = &job->a->host;
    VIP_ULONG room = sizeof(host->name);
    return VipNSGetHostByAddr(job->real, &host->address.address, host->name, &room);
}

void vipl_server_make_call(unsigned client, struct vipl_call *call)
{
    static VIP_RETURN (*const functions[VIPL_CALLS])(struct job * job) = {
#define FUNCTION(name, function, kind, properties, arguments) function,
        VIPL_CALL_LIST(FUNCTION)
#undef FUNCTION
    };
    struct job job = {client, call->object, NULL, &call->a};
    uint32_t kind = vipl_calls[call->name].kind;
    bool known = kind == VIPL_KIND_NONE || vipl_server_held(kind, job.object, client, &job.real);
    call->rc = known ? functions[call->name](&job) : VIP_INVALID_PARAMETER;
    if (call->rc == VIP_INVALID_STATE && !vipl_server_held(kind, job.object, client, &job.real)) {
        call->rc = VIP_INVALID_PARAMETER; /* the object was being disconnected because it ends */
    }
}
