/* SPDX-License-Identifier: MIT */
/* Calls on shared objects, as they go to the server: arguments in, results out. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/guard.h"
#include "base/log.h"
#include "share/shm.h"

/* What this process has of a NIC handle: what its attributes point at (written alike by all who ask), and what signals
 * do. */
static struct {
    uint8_t address[VIPL_MAX_HOST_ADDRESS];
    struct vipl_call_address discovered;
    VIP_NET_ADDRESS *discovered_list[1];
    uint32_t restart; /* atomic: blocking calls resume */
} nics[VIPL_SHARE_NICS];

static VIP_RETURN make(struct vipl_call *call, uint32_t name)
{
    call->name = name;
    return vipl_share_call(call, false, true);
}

static uint32_t *restart_of(const void *nic)
{
    return &nics[vipl_handle_slot(nic) % VIPL_SHARE_NICS].restart;
}

bool vipl_share_restarts(const void *nic)
{
    return vipl_load_relaxed(restart_of(nic)) != 0;
}

/* NULL: no such VI, as the call will say. */
static const void *nic_of_vi(const void *vi)
{
    struct vipl_arena *arena = vipl_share_arena();
    uint32_t slot = vipl_handle_slot(vi);
    return arena == NULL || slot >= VIPL_SHARE_VIS ? NULL : vipl_load_ptr(&arena->vis[slot].nic);
}

static VIP_RETURN make_blocking(struct vipl_call *call, uint32_t name)
{
    call->name = name;
    return vipl_share_call(call, true,
                           vipl_share_restarts(call->nic != NULL ? call->nic : nic_of_vi(call->object)));
}

/* Only what the lengths say is read; what is longer than any address is refused by all devices alike. */
static bool put_address(struct vipl_call_address *to, const VIP_NET_ADDRESS *from)
{
    if (from->HostAddressLen > VIPL_MAX_HOST_ADDRESS || from->DiscriminatorLen > VIPL_MAX_DISCRIMINATOR) {
        return false;
    }
    memcpy(to, from,
           offsetof(VIP_NET_ADDRESS, HostAddress) + (size_t)from->HostAddressLen + from->DiscriminatorLen);
    return true;
}

static void get_address(VIP_NET_ADDRESS *to, const struct vipl_call_address *from)
{
    memcpy(to, from,
           offsetof(VIP_NET_ADDRESS, HostAddress) + (size_t)from->address.HostAddressLen +
               from->address.DiscriminatorLen);
}

/* --- NIC handles --- */

VIP_RETURN vipl_share_open(const char *device, void **nic)
{
    struct vipl_call call = {.name = VIPL_CALL_OPEN};
    char level[16];
    vipl_log_set_level_text(vipl_config_text("VIPL_LOG", level, sizeof(level)) ? level : NULL);
    if (device != NULL && strlen(device) >= sizeof(call.text)) {
        return VIP_ERROR_RESOURCE;
    }
    snprintf(call.text, sizeof(call.text), "%s", device == NULL ? "" : device);
    VIP_RETURN rc = vipl_share_join();
    if (rc == VIP_SUCCESS) {
        rc = make(&call, VIPL_CALL_OPEN);
    }
    if (rc == VIP_SUCCESS) {
        vipl_store_relaxed(restart_of(call.nic), vipl_config_number("VIPL_RESTART", 0, 0, 1));
        *nic = call.nic;
    }
    return rc;
}

VIP_RETURN vipl_share_close(void *nic)
{
    struct vipl_call call = {.nic = nic};
    VIP_RETURN rc = make(&call, VIPL_CALL_CLOSE);
    if (rc == VIP_SUCCESS) {
        vipl_share_events_settle();
    }
    return rc;
}

VIP_RETURN vipl_share_query_nic(void *nic, VIP_NIC_ATTRIBUTES *out)
{
    struct vipl_call call = {.nic = nic};
    VIP_RETURN rc = make(&call, VIPL_CALL_QUERY_NIC);
    if (rc == VIP_SUCCESS) {
        *out = call.attributes;
        uint32_t slot = vipl_handle_slot(nic) % VIPL_SHARE_NICS;
        memcpy(nics[slot].address, (const char *)&call.local + offsetof(VIP_NET_ADDRESS, HostAddress),
               VIPL_MAX_HOST_ADDRESS);
        out->LocalNicAddress = nics[slot].address;
    }
    return rc;
}

VIP_RETURN vipl_share_set_restart(void *nic, bool restarts)
{
    VIP_NIC_ATTRIBUTES attributes;
    VIP_RETURN rc = vipl_share_query_nic(nic, &attributes); /* is it one at all? */
    if (rc == VIP_SUCCESS) {
        vipl_store_relaxed(restart_of(nic), restarts ? 1 : 0);
    }
    return rc;
}

/* --- tags and memory --- */

VIP_RETURN vipl_share_create_ptag(void *nic, void **out)
{
    struct vipl_call call = {.nic = nic};
    VIP_RETURN rc = make(&call, VIPL_CALL_CREATE_PTAG);
    *out = rc == VIP_SUCCESS ? call.object : NULL;
    return rc;
}

VIP_RETURN vipl_share_destroy_ptag(void *nic, void *ptag)
{
    struct vipl_call call = {.nic = nic, .object = ptag};
    return make(&call, VIPL_CALL_DESTROY_PTAG);
}

VIP_RETURN vipl_share_register(void *nic, void *address, VIP_ULONG length,
                               const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *out)
{
    struct vipl_call call = {.nic = nic, .address = address, .number = length, .mem = *attributes};
    const struct vipl_arena *arena = vipl_share_arena();
    if (arena != NULL && !vipl_share_is_heap(&arena->heap, address, length)) {
        vipl_shared_mapping(address, length, &call.mapping); /* none: the server has none like it */
    }
    VIP_RETURN rc = make(&call, VIPL_CALL_REGISTER);
    *out = rc == VIP_SUCCESS ? call.memory : 0;
    return rc;
}

VIP_RETURN vipl_share_deregister(void *nic, void *address, VIP_MEM_HANDLE memory)
{
    struct vipl_call call = {.nic = nic, .address = address, .memory = memory};
    return make(&call, VIPL_CALL_DEREGISTER);
}

VIP_RETURN vipl_share_query_mem(void *nic, void *address, VIP_MEM_HANDLE memory, VIP_MEM_ATTRIBUTES *out)
{
    struct vipl_call call = {.nic = nic, .address = address, .memory = memory};
    VIP_RETURN rc = make(&call, VIPL_CALL_QUERY_MEM);
    if (rc == VIP_SUCCESS) {
        *out = call.mem;
    }
    return rc;
}

VIP_RETURN vipl_share_change_mem(void *nic, void *address, VIP_MEM_HANDLE memory,
                                 const VIP_MEM_ATTRIBUTES *in)
{
    struct vipl_call call = {.nic = nic, .address = address, .memory = memory, .mem = *in};
    return make(&call, VIPL_CALL_CHANGE_MEM);
}

VIP_RETURN VI_CALL VipxAllocShared(VIP_ULONG Length, VIP_PVOID *Address)
{
    VIPL_VISIT(VIP_ERROR_NOT_SUPPORTED);
    struct vipl_call call = {.number = Length};
    if (Address == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *Address = NULL;
    VIP_RETURN rc = Length == 0 ? VIP_INVALID_PARAMETER : vipl_share_join();
    if (rc == VIP_SUCCESS) {
        rc = make(&call, VIPL_CALL_ALLOC);
    }
    if (rc == VIP_SUCCESS) {
        *Address = call.address;
    }
    return rc;
}

VIP_RETURN VI_CALL VipxFreeShared(VIP_PVOID Address)
{
    VIPL_VISIT(VIP_ERROR_NOT_SUPPORTED);
    struct vipl_call call = {.address = Address};
    return make(&call, VIPL_CALL_FREE);
}

/* --- handlers and statistics --- */

static VIP_RETURN make_with_handler(struct vipl_call *call, uint32_t name)
{
    VIP_RETURN rc = vipl_share_events_start();
    return rc == VIP_SUCCESS ? make(call, name) : rc;
}

VIP_RETURN vipl_share_notify(void *vi, bool recv, void *context, VIP_VI_CALLBACK handler)
{
    struct vipl_call call = {.object = vi,
                             .number = recv ? 1 : 0,
                             .event = {.kind = VIPL_SHARED_VI, .context = context, .vi_handler = handler}};
    return make_with_handler(&call, VIPL_CALL_NOTIFY);
}

VIP_RETURN vipl_share_notify_cq(void *cq, void *context, VIP_CQ_CALLBACK handler)
{
    struct vipl_call call = {.object = cq,
                             .event = {.kind = VIPL_SHARED_CQ, .context = context, .cq_handler = handler}};
    return make_with_handler(&call, VIPL_CALL_NOTIFY_CQ);
}

VIP_RETURN vipl_share_error_handler(void *nic, void *context, VIP_ERROR_HANDLER handler)
{
    struct vipl_call call = {
        .nic = nic, .event = {.kind = VIPL_SHARED_ERROR, .context = context, .error_handler = handler}};
    return handler == NULL ? make(&call, VIPL_CALL_ERROR_HANDLER)
                           : make_with_handler(&call, VIPL_CALL_ERROR_HANDLER);
}

/* The list has to be in this process's memory. */
static VIP_RETURN discover(void *nic, VIP_AUTODISCOVERY_LIST *list)
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

VIP_RETURN vipl_share_manage(void *nic, VIP_ULONG type, void *info)
{
    struct vipl_call call = {.nic = nic};
    VIP_RETURN rc = VIP_SUCCESS;
    switch (type) {
    case VIP_SMI_AUTODISCOVERY:
        return discover(nic, info);
    case VIPX_SMI_NIC_STATISTICS:
        rc = make(&call, VIPL_CALL_NIC_STATISTICS);
        if (rc == VIP_SUCCESS) {
            *(VIPX_NIC_STATISTICS *)info = call.nic_statistics;
        }
        return rc;
    case VIPX_SMI_VI_STATISTICS: {
        VIPX_VI_STATISTICS *out = info;
        void *vi = out->ViHandle;
        call.vi_statistics.ViHandle = vi;
        rc = make(&call, VIPL_CALL_VI_STATISTICS);
        if (rc == VIP_SUCCESS) {
            *out = call.vi_statistics;
            out->ViHandle = vi;
        }
        return rc;
    }
    default:
        rc = vipl_share_query_nic(nic, &call.attributes); /* is it one at all? */
        return rc == VIP_SUCCESS ? VIP_ERROR_NOT_SUPPORTED : rc;
    }
}

/* --- completion queues --- */

VIP_RETURN vipl_share_create_cq(void *nic, VIP_ULONG entries, void **out)
{
    struct vipl_call call = {.nic = nic, .number = entries};
    VIP_RETURN rc = make(&call, VIPL_CALL_CREATE_CQ);
    *out = rc == VIP_SUCCESS ? call.object : NULL;
    return rc;
}

VIP_RETURN vipl_share_hand_on(const void *cq, uint32_t code)
{
    struct vipl_call call = {.object = (void *)(uintptr_t)cq, .number = code};
    return make(&call, VIPL_CALL_HAND_ON);
}

VIP_RETURN vipl_share_destroy_cq(void *cq)
{
    struct vipl_call call = {.object = cq};
    return make(&call, VIPL_CALL_DESTROY_CQ);
}

VIP_RETURN vipl_share_resize_cq(void *cq, VIP_ULONG entries)
{
    struct vipl_call call = {.object = cq, .number = entries};
    return make(&call, VIPL_CALL_RESIZE_CQ);
}

/* --- VIs --- */

VIP_RETURN vipl_share_create_vi(void *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq, void *recv_cq,
                                void **out)
{
    struct vipl_call call = {.nic = nic, .vi = *attributes, .other = send_cq, .third = recv_cq};
    VIP_RETURN rc = make(&call, VIPL_CALL_CREATE_VI);
    *out = rc == VIP_SUCCESS ? call.object : NULL;
    return rc;
}

VIP_RETURN vipl_share_destroy_vi(void *vi)
{
    struct vipl_call call = {.object = vi};
    return make(&call, VIPL_CALL_DESTROY_VI);
}

static VIP_RETURN make_on_vi(struct vipl_call *call, uint32_t name, bool blocking)
{
    return blocking ? make_blocking(call, name) : make(call, name);
}

VIP_RETURN vipl_share_query_vi(void *vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
                               VIP_BOOLEAN *send_empty, VIP_BOOLEAN *recv_empty)
{
    struct vipl_call call = {.object = vi};
    VIP_RETURN rc = make_on_vi(&call, VIPL_CALL_QUERY_VI, false);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    *state = call.state;
    if (attributes != NULL) {
        *attributes = call.vi;
    }
    if (send_empty != NULL) {
        *send_empty = call.empty[0];
    }
    if (recv_empty != NULL) {
        *recv_empty = call.empty[1];
    }
    return VIP_SUCCESS;
}

VIP_RETURN vipl_share_change_vi(void *vi, const VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call call = {.object = vi, .vi = *attributes};
    return make_on_vi(&call, VIPL_CALL_CHANGE_VI, false);
}

VIP_RETURN vipl_share_set_user_data(void *vi, void *data)
{
    struct vipl_call call = {.object = vi, .address = data};
    return make_on_vi(&call, VIPL_CALL_SET_USER_DATA, false);
}

void *vipl_share_get_user_data(void *vi)
{
    struct vipl_call call = {.object = vi};
    return make_on_vi(&call, VIPL_CALL_GET_USER_DATA, false) == VIP_SUCCESS ? call.address : NULL;
}

VIP_RETURN vipl_share_post(void *vi, bool recv, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    struct vipl_call call = {.object = vi, .descriptor = descriptor, .memory = memory};
    return make_on_vi(&call, recv ? VIPL_CALL_POST_RECV : VIPL_CALL_POST_SEND, false);
}

/* --- connections --- */

VIP_RETURN vipl_share_connect_wait(void *nic, const VIP_NET_ADDRESS *local, VIP_ULONG timeout,
                                   VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **conn)
{
    struct vipl_call call = {.nic = nic, .number = timeout};
    if (!put_address(&call.local, local)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = make_blocking(&call, VIPL_CALL_CONNECT_WAIT);
    if (rc == VIP_SUCCESS) {
        get_address(remote, &call.remote);
        *attributes = call.vi;
        *conn = call.object;
    }
    return rc;
}

VIP_RETURN vipl_share_accept(void *conn, void *vi)
{
    struct vipl_call call = {.object = conn, .other = vi};
    return make(&call, VIPL_CALL_ACCEPT);
}

VIP_RETURN vipl_share_reject(void *conn)
{
    struct vipl_call call = {.object = conn};
    return make(&call, VIPL_CALL_REJECT);
}

VIP_RETURN vipl_share_connect(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                              VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call call = {.object = vi, .number = timeout};
    if (!put_address(&call.local, local) || !put_address(&call.remote, remote)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = make_on_vi(&call, VIPL_CALL_CONNECT, true);
    if (rc == VIP_SUCCESS && attributes != NULL) {
        *attributes = call.vi;
    }
    return rc;
}

VIP_RETURN vipl_share_disconnect(void *vi)
{
    struct vipl_call call = {.object = vi};
    return make_on_vi(&call, VIPL_CALL_DISCONNECT, false);
}

VIP_RETURN vipl_share_peer_request(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                   VIP_ULONG timeout)
{
    struct vipl_call call = {.object = vi, .number = timeout};
    if (!put_address(&call.local, local) || !put_address(&call.remote, remote)) {
        return VIP_INVALID_PARAMETER;
    }
    return make_on_vi(&call, VIPL_CALL_PEER_REQUEST, false);
}

VIP_RETURN vipl_share_peer_done(void *vi, bool wait, VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_call call = {.object = vi};
    VIP_RETURN rc = make_on_vi(&call, wait ? VIPL_CALL_PEER_WAIT : VIPL_CALL_PEER_DONE, wait);
    if (rc == VIP_SUCCESS && attributes != NULL) {
        *attributes = call.vi;
    }
    return rc;
}

/* --- names --- */

VIP_RETURN vipl_share_host_by_name(void *nic, const char *name, VIP_NET_ADDRESS *out, VIP_ULONG index)
{
    struct vipl_call call = {.nic = nic, .number = index};
    if (strlen(name) >= sizeof(call.text)) {
        return VIP_ERROR_NAMESERVICE;
    }
    snprintf(call.text, sizeof(call.text), "%s", name);
    VIP_RETURN rc = make(&call, VIPL_CALL_HOST_BY_NAME);
    if (rc == VIP_SUCCESS) {
        get_address(out, &call.remote);
    }
    return rc;
}

VIP_RETURN vipl_share_host_by_address(void *nic, const VIP_NET_ADDRESS *address, char *name,
                                      VIP_ULONG *length)
{
    struct vipl_call call = {.nic = nic};
    if (!put_address(&call.remote, address)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = make(&call, VIPL_CALL_HOST_BY_ADDRESS);
    if (rc == VIP_SUCCESS) {
        VIP_ULONG needed = (VIP_ULONG)strlen(call.text) + 1;
        if (*length < needed) {
            rc = VIP_ERROR_RESOURCE;
        } else {
            memcpy(name, call.text, needed);
        }
        *length = needed;
    }
    return rc;
}
