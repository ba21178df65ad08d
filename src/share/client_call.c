/* SPDX-License-Identifier: MIT */
/* Calls on shared objects: arguments go to the server, results come back. */
#include "share/client_call.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "share/client.h"
#include "share/client_blocks.h"
#include "share/client_events.h"
#include "share/client_post.h"

/* What this process has of a NIC handle: what the attributes point at (every thread that queries
 * them writes the same), and whether calls go on after signals. */
static struct {
    uint8_t address[VIPL_MAX_HOST_ADDRESS];
    struct vipl_call_address discovered;
    VIP_NET_ADDRESS *discovered_list[1];
    uint32_t restart; /* atomic: blocking calls go on after signals */
} nics[VIPL_SHARE_NICS];

static uint32_t *restart_of(const void *nic)
{
    return &nics[vipl_handle_slot(nic) % VIPL_SHARE_NICS].restart;
}

bool vipl_share_restarts(const void *nic)
{
    return vipl_load_relaxed(restart_of(nic)) != 0;
}

/* The NIC handle of the object of a call that waits, which is that handle or a VI. NULL: there is
 * no such VI, and the call will say so. */
static const void *nic_handle_of(const void *object)
{
    struct vipl_arena *arena = vipl_share_arena();
    uint32_t slot = vipl_handle_slot(object);
    if (vipl_handle_kind(object) == VIPL_KIND_NIC) {
        return object;
    }
    return arena == NULL || slot >= VIPL_SHARE_VIS ? NULL : vipl_load_ptr(&arena->vis[slot].nic);
}

/* For each call, a function that takes the call's object and arguments. */
#define CALL(name, function, kind, properties, arguments) \
    static inline VIP_RETURN call_##name(void *object, struct vipl_call_##arguments *a) \
    { \
        bool restart = ((properties)&VIPL_WAITS) == 0 || vipl_share_restarts(nic_handle_of(object)); \
        return vipl_share_call(VIPL_CALL_##name, object, a, restart); \
    }
VIPL_CALL_LIST(CALL)
#undef CALL

/* Only the bytes that the lengths name are read. Every device refuses what is longer
 * than any address. */
static bool write_call_address(struct vipl_call_address *to, const VIP_NET_ADDRESS *from)
{
    if (from->HostAddressLen > VIPL_MAX_HOST_ADDRESS || from->DiscriminatorLen > VIPL_MAX_DISCRIMINATOR) {
        return false;
    }
    memcpy(to, from,
           offsetof(VIP_NET_ADDRESS, HostAddress) + (size_t)from->HostAddressLen + from->DiscriminatorLen);
    return true;
}

static void read_call_address(VIP_NET_ADDRESS *to, const struct vipl_call_address *from)
{
    memcpy(to, from,
           offsetof(VIP_NET_ADDRESS, HostAddress) + (size_t)from->address.HostAddressLen +
               from->address.DiscriminatorLen);
}

/* --- NIC handles --- */

VIP_RETURN vipl_share_open(const char *device, bool fork_handlers, void **nic)
{
    struct vipl_call_open a = {.nic = NULL};
    if (device != NULL && strlen(device) >= sizeof(a.device)) {
        return VIP_ERROR_RESOURCE;
    }
    snprintf(a.device, sizeof(a.device), "%s", device == NULL ? "" : device);
    VIP_RETURN rc = vipl_share_join(fork_handlers);
    if (rc == VIP_SUCCESS) {
        rc = call_OPEN(NULL, &a);
    }
    if (rc == VIP_SUCCESS) {
        vipl_store_relaxed(restart_of(a.nic), vipl_config_number("VIPL_RESTART"));
        *nic = a.nic;
    }
    return rc;
}

VIP_RETURN vipl_share_close(void *nic)
{
    struct vipl_call_nothing a;
    VIP_RETURN rc = call_CLOSE(nic, &a);
    if (rc == VIP_SUCCESS) {
        vipl_share_events_finish();
    }
    return rc;
}

VIP_RETURN vipl_share_query_nic(void *nic, VIP_NIC_ATTRIBUTES *out)
{
    struct vipl_call_nic a;
    VIP_RETURN rc = call_QUERY_NIC(nic, &a);
    if (rc == VIP_SUCCESS) {
        uint8_t *address = nics[vipl_handle_slot(nic) % VIPL_SHARE_NICS].address;
        memcpy(address, a.address, sizeof(a.address));
        *out = a.attributes;
        out->LocalNicAddress = address;
    }
    return rc;
}

VIP_RETURN vipl_share_set_restart(void *nic, bool restarts)
{
    struct vipl_call_nic a;
    VIP_RETURN rc = call_QUERY_NIC(nic, &a); /* fails if `nic` is not a NIC handle */
    if (rc == VIP_SUCCESS) {
        vipl_store_relaxed(restart_of(nic), restarts ? 1 : 0);
    }
    return rc;
}

/* --- tags and memory --- */

VIP_RETURN vipl_share_create_ptag(void *nic, void **out)
{
    struct vipl_call_ptag a;
    VIP_RETURN rc = call_CREATE_PTAG(nic, &a);
    *out = rc == VIP_SUCCESS ? a.ptag : NULL;
    return rc;
}

VIP_RETURN vipl_share_destroy_ptag(void *nic, void *ptag)
{
    struct vipl_call_ptag a = {.ptag = ptag};
    return call_DESTROY_PTAG(nic, &a);
}

VIP_RETURN vipl_share_register(void *nic, void *address, VIP_ULONG length,
                               const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *out)
{
    struct vipl_call_mem a = {.address = address, .length = length, .attributes = *attributes};
    const struct vipl_arena *arena = vipl_share_arena();
    if (arena != NULL && !vipl_share_is_heap(&arena->heap, address, length)) {
        vipl_shared_mapping(address, length,
                            &a.mapping); /* if this fails, the server has no such mapping either */
    }
    VIP_RETURN rc = call_REGISTER(nic, &a);
    *out = rc == VIP_SUCCESS ? a.memory : 0;
    return rc;
}

VIP_RETURN vipl_share_deregister(void *nic, void *address, VIP_MEM_HANDLE memory)
{
    struct vipl_call_mem a = {.address = address, .memory = memory};
    return call_DEREGISTER(nic, &a);
}

VIP_RETURN vipl_share_query_mem(void *nic, void *address, VIP_MEM_HANDLE memory, VIP_MEM_ATTRIBUTES *out)
{
    struct vipl_call_mem a = {.address = address, .memory = memory};
    VIP_RETURN rc = call_QUERY_MEM(nic, &a);
    if (rc == VIP_SUCCESS) {
        *out = a.attributes;
    }
    return rc;
}

VIP_RETURN vipl_share_change_mem(void *nic, void *address, VIP_MEM_HANDLE memory,
                                 const VIP_MEM_ATTRIBUTES *in)
{
    struct vipl_call_mem a = {.address = address, .memory = memory, .attributes = *in};
    return call_CHANGE_MEM(nic, &a);
}

VIP_RETURN vipl_share_alloc(VIP_ULONG length, bool fork_handlers, void **out)
{
    struct vipl_call_block a = {.length = length};
    VIP_RETURN rc = vipl_share_join(fork_handlers);
    if (rc == VIP_SUCCESS) {
        rc = call_ALLOC(NULL, &a);
    }
    if (rc == VIP_SUCCESS) {
        *out = a.address;
        /* a block has whole units, whose sum is less than the heap */
        vipl_share_add_block(a.address,
                             ((size_t)length + VIPL_SHARE_PAGE - 1) / VIPL_SHARE_PAGE * VIPL_SHARE_PAGE);
    }
    return rc;
}

VIP_RETURN vipl_share_free(void *address)
{
    struct vipl_call_block a = {.address = address};
    return call_FREE(NULL, &a);
}

/* --- handlers and statistics --- */

VIP_RETURN vipl_share_notify(void *vi, bool recv, void *context, VIP_VI_CALLBACK handler)
{
    struct vipl_call_handler a = {.kind = VIPL_SHARED_VI,
                                  .recv = recv ? VIP_TRUE : VIP_FALSE,
                                  .context = context,
                                  .vi_handler = handler};
    VIP_RETURN rc = vipl_share_events_start();
    return rc == VIP_SUCCESS ? call_NOTIFY_VI(vi, &a) : rc;
}

VIP_RETURN vipl_share_notify_cq(void *cq, void *context, VIP_CQ_CALLBACK handler)
{
    struct vipl_call_handler a = {.kind = VIPL_SHARED_CQ, .context = context, .cq_handler = handler};
    VIP_RETURN rc = vipl_share_events_start();
    return rc == VIP_SUCCESS ? call_NOTIFY_CQ(cq, &a) : rc;
}

VIP_RETURN vipl_share_error_handler(void *nic, void *context, VIP_ERROR_HANDLER handler)
{
    struct vipl_call_handler a = {.kind = VIPL_SHARED_ERROR, .context = context, .error_handler = handler};
    VIP_RETURN rc = handler == NULL ? VIP_SUCCESS : vipl_share_events_start();
    return rc == VIP_SUCCESS ? call_ERROR_HANDLER(nic, &a) : rc;
}

/* The list must be in this process's memory. */
static VIP_RETURN autodiscover(void *nic, VIP_AUTODISCOVERY_LIST *list)
{
    VIP_NIC_ATTRIBUTES attributes;
    VIP_RETURN rc = vipl_share_query_nic(nic, &attributes);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    uint32_t slot = vipl_handle_slot(nic) % VIPL_SHARE_NICS;
    VIP_NET_ADDRESS *address = &nics[slot].discovered.address;
    address->HostAddressLen = attributes.NicAddressLen;
    memcpy(address->HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
    nics[slot].discovered_list[0] = address;
    list->ADAddrArray = nics[slot].discovered_list;
    list->NumAdAddrs = 1;
    return VIP_SUCCESS;
}

static VIP_RETURN query_nic_statistics(void *nic, VIPX_NIC_STATISTICS *out)
{
    struct vipl_call_nic_statistics a;
    VIP_RETURN rc = call_NIC_STATISTICS(nic, &a);
    if (rc == VIP_SUCCESS) {
        *out = a.statistics;
    }
    return rc;
}

static VIP_RETURN query_vi_statistics(void *nic, VIPX_VI_STATISTICS *out)
{
    void *vi = out->ViHandle;
    struct vipl_call_vi_statistics a = {.statistics = {.ViHandle = vi}};
    VIP_RETURN rc = call_VI_STATISTICS(nic, &a);
    if (rc == VIP_SUCCESS) {
        *out = a.statistics;
        out->ViHandle = vi;
    }
    return rc;
}

VIP_RETURN vipl_share_manage(void *nic, VIP_ULONG type, void *info)
{
    struct vipl_call_nic a;
    switch (type) {
    case VIP_SMI_AUTODISCOVERY:
        return autodiscover(nic, info);
    case VIPX_SMI_NIC_STATISTICS:
        return query_nic_statistics(nic, info);
    case VIPX_SMI_VI_STATISTICS:
        return query_vi_statistics(nic, info);
    default: {
        VIP_RETURN rc = call_QUERY_NIC(nic, &a); /* fails if `nic` is not a NIC handle */
        return rc == VIP_SUCCESS ? VIP_ERROR_NOT_SUPPORTED : rc;
    }
    }
}

/* --- completion queues --- */

VIP_RETURN vipl_share_create_cq(void *nic, VIP_ULONG entries, void **out)
{
    struct vipl_call_cq a = {.entries = entries};
    VIP_RETURN rc = call_CREATE_CQ(nic, &a);
    *out = rc == VIP_SUCCESS ? a.cq : NULL;
    return rc;
}

VIP_RETURN vipl_share_hand_on(const void *cq, uint32_t code)
{
    struct vipl_call_hand_on a = {.code = code};
    return call_HAND_ON((void *)(uintptr_t)cq, &a);
}

VIP_RETURN vipl_share_destroy_cq(void *cq)
{
    struct vipl_call_nothing a;
    return call_DESTROY_CQ(cq, &a);
}

VIP_RETURN vipl_share_resize_cq(void *cq, VIP_ULONG entries)
{
    struct vipl_call_cq a = {.entries = entries};
    return call_RESIZE_CQ(cq, &a);
}

/* --- VIs --- */

VIP_RETURN vipl_share_create_vi(void *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq, void *recv_cq,
                                void **out)
{
    struct vipl_call_create_vi a = {.attributes = *attributes, .cqs = {send_cq, recv_cq}};
    VIP_RETURN rc = call_CREATE_VI(nic, &a);
    *out = rc == VIP_SUCCESS ? a.vi : NULL;
    return rc;
}

VIP_RETURN vipl_share_destroy_vi(void *vi)
{
    struct vipl_call_nothing a;
    return call_DESTROY_VI(vi, &a);
}

VIP_RETURN vipl_share_query_vi(void *vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
                               VIP_BOOLEAN *send_empty, VIP_BOOLEAN *recv_empty)
{
    struct vipl_call_vi a;
    VIP_RETURN rc = call_QUERY_VI(vi, &a);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    *state = a.state;
    if (attributes != NULL) {
        *attributes = a.attributes;
    }
    if (send_empty != NULL) {
        *send_empty = a.empty[0];
    }
    if (recv_empty != NULL) {
        *recv_empty = a.empty[1];
    }
    return VIP_SUCCESS;
}

VIP_RETURN vipl_share_change_vi(void *vi, const VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call_vi a = {.attributes = *attributes};
    return call_CHANGE_VI(vi, &a);
}

VIP_RETURN vipl_share_set_user_data(void *vi, void *data)
{
    struct vipl_call_user_data a = {.data = data};
    return call_SET_USER_DATA(vi, &a);
}

void *vipl_share_get_user_data(void *vi)
{
    struct vipl_call_user_data a;
    return call_GET_USER_DATA(vi, &a) == VIP_SUCCESS ? a.data : NULL;
}

VIP_RETURN vipl_share_post(void *vi, bool recv, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    if (!recv && vipl_share_submit(vi, descriptor, memory)) {
        return VIP_SUCCESS;
    }
    struct vipl_call_post a = {descriptor, memory};
    return recv ? call_POST_RECV(vi, &a) : call_POST_SEND(vi, &a);
}

void vipl_share_call_server(void)
{
    struct vipl_call_nothing a;
    call_CATCH_UP(NULL, &a);
}

/* --- connections --- */

VIP_RETURN vipl_share_connect_wait(void *nic, const VIP_NET_ADDRESS *local, VIP_ULONG timeout,
                                   VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **conn)
{
    struct vipl_call_connect a = {.timeout = timeout};
    if (!write_call_address(&a.local, local)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = call_CONNECT_WAIT(nic, &a);
    if (rc == VIP_SUCCESS) {
        read_call_address(remote, &a.remote);
        *attributes = a.attributes;
        *conn = a.conn;
    }
    return rc;
}

VIP_RETURN vipl_share_accept(void *conn, void *vi)
{
    struct vipl_call_accept a = {.vi = vi};
    return call_ACCEPT(conn, &a);
}

VIP_RETURN vipl_share_reject(void *conn)
{
    struct vipl_call_nothing a;
    return call_REJECT(conn, &a);
}

VIP_RETURN vipl_share_connect(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                              VIP_ULONG flags, VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call_connect a = {.flags = flags, .timeout = timeout};
    if (!write_call_address(&a.local, local) || !write_call_address(&a.remote, remote)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = call_CONNECT(vi, &a);
    if (rc == VIP_SUCCESS && attributes != NULL) {
        *attributes = a.attributes;
    }
    return rc;
}

VIP_RETURN vipl_share_disconnect(void *vi)
{
    struct vipl_call_nothing a;
    return call_DISCONNECT(vi, &a);
}

VIP_RETURN vipl_share_peer_request(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                   VIP_ULONG timeout)
{
    struct vipl_call_connect a = {.timeout = timeout};
    if (!write_call_address(&a.local, local) || !write_call_address(&a.remote, remote)) {
        return VIP_INVALID_PARAMETER;
    }
    return call_PEER_REQUEST(vi, &a);
}

VIP_RETURN vipl_share_peer_done(void *vi, bool wait, VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call_vi a;
    VIP_RETURN rc = wait ? call_PEER_WAIT(vi, &a) : call_PEER_DONE(vi, &a);
    if (rc == VIP_SUCCESS && attributes != NULL) {
        *attributes = a.attributes;
    }
    return rc;
}

/* --- names --- */

VIP_RETURN vipl_share_host_by_name(void *nic, const char *name, VIP_NET_ADDRESS *out, VIP_ULONG index)
{
    struct vipl_call_host a = {.index = index};
    if (strlen(name) >= sizeof(a.name)) {
        return VIP_ERROR_NAMESERVICE;
    }
    snprintf(a.name, sizeof(a.name), "%s", name);
    VIP_RETURN rc = call_HOST_BY_NAME(nic, &a);
    if (rc == VIP_SUCCESS) {
        read_call_address(out, &a.address);
    }
    return rc;
}

VIP_RETURN vipl_share_host_by_address(void *nic, const VIP_NET_ADDRESS *address, char *name,
                                      VIP_ULONG *length)
{
    struct vipl_call_host a = {.index = 0};
    if (!write_call_address(&a.address, address)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = call_HOST_BY_ADDRESS(nic, &a);
    if (rc == VIP_SUCCESS) {
        VIP_ULONG needed = (VIP_ULONG)strlen(a.name) + 1;
        if (*length < needed) {
            rc = VIP_ERROR_RESOURCE;
        } else {
            memcpy(name, a.name, needed);
        }
        *length = needed;
    }
    return rc;
}
