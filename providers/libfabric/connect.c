/* SPDX-License-Identifier: MIT */
/*
 * Connecting. fi_connect() does not block, and VIPL's request for a connection does: a thread makes
 * it, waits for the accepting side's first message (hello.c), and ends. While it waits it does what
 * a program that reads the completion queue would do. So the program may sleep on its event queue.
 */
#include <string.h>
#include <time.h>

#include "provider.h"

enum { LOOK_MS = 20 }; /* until the thread sees that another one has taken the message */

/* Locked. The connect has failed, with the private data of a rejection. */
static void connect_failed(struct prov_ep *ep, enum prov_state state, int error, size_t bytes)
{
    ep->state = state;
    prov_eq_add(ep->eq, &ep->connected, FI_CONNECTED, error, bytes);
}

/* Locked. */
static void connected(struct prov_ep *ep, uint32_t posted, uint32_t credit_handle, uint64_t credit_address,
                      size_t bytes)
{
    ep->peer_posted = posted;
    ep->peer_credit_handle = credit_handle;
    ep->peer_credit_address = credit_address;
    ep->state = PROV_CONNECTED;
    prov_eq_add(ep->eq, &ep->connected, FI_CONNECTED, 0, bytes);
    prov_credit_advertise(ep);
}

void prov_ep_hello_done(struct prov_ep *ep, struct prov_op *op)
{
    struct prov_hello hello;
    if (ep->state != PROV_CONNECTING) {
        return; /* it was sent, or came too late */
    }
    if (op->entry.error != 0) {
        connect_failed(ep, PROV_GONE, FI_ECONNABORTED, 0);
        return;
    }
    if (!prov_hello_read(op->inject, op->descriptor.CS.Length, &hello)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "the peer's first message is not of this provider\n");
        connect_failed(ep, PROV_GONE, FI_ECONNABORTED, 0);
        return;
    }
    memcpy(ep->peer_data, hello.data, hello.bytes);
    if (hello.accepted) {
        connected(ep, hello.posted, hello.credit_handle, hello.credit_address, hello.bytes);
    } else {
        connect_failed(ep, PROV_GONE, FI_ECONNREFUSED, hello.bytes);
    }
}

void prov_ep_gone(struct prov_ep *ep)
{
    if (ep->state == PROV_CONNECTED) {
        ep->state = PROV_GONE;
        prov_eq_add_shutdown(ep->eq, &ep->shutdown, ep);
        prov_cancel_waiting(ep);
    }
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The VI is connected: waits for the accepting side's first message. */
static void await_hello(struct prov_ep *ep)
{
    uint64_t end = now_ms() + prov_connect_timeout_ms();
    prov_nic_lock(ep->nic);
    while (ep->state == PROV_CONNECTING && !ep->cancelled) {
        VIP_VI_HANDLE vi = NULL;
        VIP_BOOLEAN recv = VIP_FALSE;
        if (prov_ep_reap(ep, true)) {
            continue;
        }
        prov_nic_unlock(ep->nic);
        VIP_RETURN rc = VipCQWait(ep->queues.rx->handle, LOOK_MS, &vi, &recv);
        prov_nic_lock(ep->nic);
        if (rc == VIP_SUCCESS) {
            prov_cq_took(ep->queues.rx, vi, recv);
        }
        if (ep->state == PROV_CONNECTING && now_ms() >= end) {
            connect_failed(ep, PROV_GONE, FI_ETIMEDOUT, 0);
        }
    }
    prov_cq_update_wake(ep->queues.rx);
    prov_cq_update_wake(ep->queues.tx);
    prov_nic_unlock(ep->nic);
}

static void *connector_run(void *argument)
{
    struct prov_ep *ep = argument;
    VIP_VI_ATTRIBUTES theirs;
    VIP_RETURN rc = VipxConnectRequest(ep->vi, &ep->from.net, &ep->to.net, VIPX_AT_ONCE,
                                       prov_connect_timeout_ms(), &theirs);
    if (rc == VIP_SUCCESS && ep->rdm == NULL) { /* links leave it to the thread that will use the VI */
        await_hello(ep);
    }
    prov_nic_lock(ep->nic);
    if (rc != VIP_SUCCESS && !ep->cancelled) {
        PROV_LOG(FI_LOG_INFO, FI_LOG_EP_CTRL, "not connected: %s\n", VipxExplainError(rc));
        connect_failed(ep, PROV_ENABLED, -prov_error(rc), 0);
    }
    ep->connector_ends = true;
    (void)pthread_cond_signal(&ep->connector_ended);
    prov_nic_unlock(ep->nic);
    return NULL;
}

void prov_ep_cancel_connect(struct prov_ep *ep)
{
    prov_nic_lock(ep->nic);
    ep->cancelled = true;
    while (ep->has_connector && !ep->connector_ends) {
        struct timespec end;
        prov_nic_unlock(ep->nic);
        (void)VipDisconnect(ep->vi); /* ends the call, once the thread is in it */
        prov_nic_lock(ep->nic);
        (void)clock_gettime(CLOCK_REALTIME, &end);
        end.tv_nsec += LOOK_MS * 1000000L;
        end.tv_sec += end.tv_nsec / 1000000000L;
        end.tv_nsec %= 1000000000L;
        if (!ep->connector_ends) {
            (void)pthread_cond_timedwait(&ep->connector_ended, &ep->nic->lock, &end);
        }
    }
    bool join = ep->has_connector;
    ep->has_connector = false;
    prov_nic_unlock(ep->nic);
    if (join) {
        (void)pthread_join(ep->connector, NULL);
    }
}

/* What the peer is told, with private data. */
static struct prov_hello own_hello(struct prov_ep *ep, const void *data, size_t bytes)
{
    struct prov_hello hello = {.accepted = true,
                               .posted = ep->posted,
                               .credit_handle = ep->credit_handle,
                               .credit_address = (uintptr_t)ep->credit,
                               .bytes = bytes};
    if (bytes > 0) {
        memcpy(hello.data, data, bytes);
    }
    ep->advertised = ep->posted;
    return hello;
}

/* Locked. */
static int begin_connect(struct prov_ep *ep, const void *data, size_t bytes)
{
    uint8_t text[PROV_HELLO_BYTES];
    if (ep->state != PROV_ENABLED || ep->request != NULL || !list_is_alone(&ep->connected.of_eq)) {
        return -FI_EOPBADSTATE;
    }
    const struct prov_hello hello = own_hello(ep, data, bytes);
    prov_address_set(ep->nic, ep->nic->host, text, prov_hello_write(&hello, text), &ep->from);
    prov_address_listener(ep->nic, ep->peer_host, ep->peer_port, &ep->to);
    if (ep->has_connector) { /* of a connect that has failed */
        (void)pthread_join(ep->connector, NULL);
        ep->has_connector = false;
    }
    ep->connector_ends = false;
    ep->state = PROV_CONNECTING;
    int rc = prov_thread_start(&ep->connector, connector_run, ep);
    if (rc != 0) {
        ep->state = PROV_ENABLED;
        return rc;
    }
    ep->has_connector = true;
    ep->has_peer = true;
    return 0;
}

/* The bytes of an address that libfabric passes without its length. */
static size_t address_bytes(const struct prov_nic *nic)
{
    return nic->family == PROV_ETHERNET ? sizeof(struct sockaddr_storage) : sizeof(struct sockaddr);
}

static int ep_connect(struct fid_ep *fid, const void *address, const void *data, size_t bytes)
{
    struct prov_ep *ep = prov_ep_of(fid);
    uint8_t host[PROV_HOST_BYTES];
    uint16_t port = 0;
    if (bytes > PROV_CM_DATA) {
        return -FI_EINVAL;
    }
    int rc = prov_address_read(ep->nic, address, address_bytes(ep->nic), host, &port);
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "not an address that the device %s reaches\n", ep->nic->name);
        return rc;
    }
    prov_nic_lock(ep->nic);
    memcpy(ep->peer_host, host, sizeof(host));
    ep->peer_port = port;
    rc = begin_connect(ep, data, bytes);
    prov_nic_unlock(ep->nic);
    return rc;
}

/* Locked. The VI is connected: the first message, and the event. */
static void accepted(struct prov_ep *ep, const struct prov_hello *hello)
{
    const struct prov_request *request = ep->request;
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(ep->hello, PROV_OP_HELLO, VIP_CONTROL_OP_SENDRECV);
    prov_op_own_bytes(ep->hello, segment, prov_hello_write(hello, ep->hello->inject));
    (void)VipPostSend(ep->vi, &ep->hello->descriptor, ep->pool_handle);
    connected(ep, request->posted, request->credit_handle, request->credit_address, 0);
}

static int ep_accept(struct fid_ep *fid, const void *data, size_t bytes)
{
    struct prov_ep *ep = prov_ep_of(fid);
    if (bytes > PROV_CM_DATA) {
        return -FI_EINVAL;
    }
    prov_nic_lock(ep->nic);
    if (ep->state != PROV_ENABLED || ep->request == NULL) {
        prov_nic_unlock(ep->nic);
        return -FI_EOPBADSTATE;
    }
    const struct prov_hello hello = own_hello(ep, data, bytes);
    VIP_RETURN rc = VipConnectAccept(ep->request->conn, ep->vi);
    if (rc == VIP_SUCCESS) {
        accepted(ep, &hello);
    } else {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "not accepted: %s\n", VipxExplainError(rc));
        (void)VipConnectReject(ep->request->conn);
        connect_failed(ep, PROV_GONE, FI_ECONNABORTED, 0);
    }
    prov_request_free(ep->request);
    ep->request = NULL;
    prov_nic_unlock(ep->nic);
    return 0;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    if (flags != 0) {
        return -FI_EINVAL;
    }
    prov_nic_lock(ep->nic);
    bool was = ep->state == PROV_CONNECTED;
    if (was) {
        ep->state = PROV_GONE; /* the program ends it: FI_SHUTDOWN is for the peer */
        prov_cancel_waiting(ep);
    }
    prov_nic_unlock(ep->nic);
    return was ? prov_error(VipDisconnect(ep->vi)) : -FI_ENOTCONN;
}

static int ep_getname(fid_t fid, void *address, size_t *bytes)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    return prov_address_copy(ep->nic, ep->nic->host, 0, address, bytes);
}

static int ep_getpeer(struct fid_ep *fid, void *address, size_t *bytes)
{
    struct prov_ep *ep = prov_ep_of(fid);
    const struct fi_info *info = ep->info;
    if (ep->has_peer) {
        return prov_address_copy(ep->nic, ep->peer_host, ep->peer_port, address, bytes);
    }
    if (info->dest_addr == NULL) {
        return -FI_ENOTCONN;
    }
    memcpy(address, info->dest_addr, *bytes < info->dest_addrlen ? *bytes : info->dest_addrlen);
    int rc = *bytes < info->dest_addrlen ? -FI_ETOOSMALL : 0;
    *bytes = info->dest_addrlen;
    return rc;
}

static int no_setname(fid_t fid, void *address, size_t bytes)
{
    (void)fid;
    (void)address;
    (void)bytes;
    return -FI_ENOSYS;
}

int prov_no_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

int prov_no_reject(struct fid_pep *pep, fid_t handle, const void *data, size_t bytes)
{
    (void)pep;
    (void)handle;
    (void)data;
    (void)bytes;
    return -FI_ENOSYS;
}

struct fi_ops_cm prov_ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = no_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = prov_no_listen,
    .accept = ep_accept,
    .reject = prov_no_reject,
    .shutdown = ep_shutdown,
};
