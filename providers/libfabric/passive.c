/* SPDX-License-Identifier: MIT */
/*
 * Passive endpoints, and the connection requests that come in for them.
 *
 * A port is reserved among the programs of this host by a UDP socket that carries nothing: VIPL
 * lets several programs listen for one discriminator. VIPL goes on listening until the NIC handle
 * is closed, so a listener outlives its passive endpoint and rejects what comes then.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

static struct prov_pep *pep_of(struct fid_pep *fid)
{
    return container_of(fid, struct prov_pep, fid);
}

struct prov_request *prov_request_find(struct prov_nic *nic, const struct fid *handle)
{
    for (struct list *one = nic->requests.next; one != &nic->requests; one = one->next) {
        struct prov_request *request = container_of(one, struct prov_request, of_nic);
        if (&request->fid == handle) {
            return request;
        }
    }
    return NULL;
}

void prov_request_free(struct prov_request *request)
{
    list_remove(&request->of_nic);
    if (request->event.info != NULL) { /* the program has not read it */
        prov_info_free(request->event.info);
    }
    free(request);
}

/* A rejection with private data: a connection that ends after one message (hello.c). The requester
 * has posted a receive for it. */
static VIP_RETURN reject_with_data(struct prov_request *request, const void *data, size_t bytes)
{
    enum { PAGE = 4096, WAIT_MS = 1000 };
    struct prov_nic *nic = request->nic;
    struct prov_hello hello = {.accepted = false, .bytes = bytes};
    VIP_VI_ATTRIBUTES attributes = request->theirs;
    VIP_MEM_HANDLE memory = 0;
    VIP_VI_HANDLE vi = NULL;
    VIP_DESCRIPTOR *done = NULL;
    void *page = NULL;
    attributes.Ptag = NULL;
    attributes.EnableRdmaRead = attributes.EnableRdmaWrite = VIP_FALSE;
    memcpy(hello.data, data, bytes);
    if (posix_memalign(&page, PAGE, PAGE) != 0) {
        return VIP_ERROR_RESOURCE;
    }
    memset(page, 0, PAGE);
    VIP_DESCRIPTOR *send = page;
    uint8_t *text = (uint8_t *)page + sizeof(*send);
    VIP_RETURN rc = VipRegisterMem(nic->handle, page, PAGE, NULL, &memory);
    if (rc == VIP_SUCCESS) {
        rc = VipCreateVi(nic->handle, &attributes, NULL, NULL, &vi);
    }
    if (rc == VIP_SUCCESS) {
        rc = VipConnectAccept(request->conn, vi);
    }
    if (rc == VIP_SUCCESS) {
        send->CS.Control = VIP_CONTROL_OP_SENDRECV;
        send->CS.SegCount = 1;
        send->DS[0].Local.Data.AddressBits = (uintptr_t)text;
        send->DS[0].Local.Handle = memory;
        send->DS[0].Local.Length = (VIP_UINT32)prov_hello_write(&hello, text);
        (void)VipPostSend(vi, send, memory);
        (void)VipSendWait(vi, WAIT_MS, &done);
        (void)VipDisconnect(vi);
    }
    if (vi != NULL) {
        (void)VipDestroyVi(vi);
    }
    if (memory != 0) {
        (void)VipDeregisterMem(nic->handle, page, memory);
    }
    free(page);
    return rc;
}

/* Locked. A request that has come in, as an event; false if it is not one of a peer of this
 * provider, or there is no memory. */
static bool queue_request(struct prov_pep *pep, const union prov_net *from, VIP_CONN_HANDLE conn,
                          const VIP_VI_ATTRIBUTES *theirs)
{
    struct prov_nic *nic = pep->fabric->nic;
    struct prov_hello hello;
    const uint8_t *host = from->bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
    size_t bytes = sizeof(struct sockaddr_in6);
    if (!prov_hello_read(host + from->net.HostAddressLen, from->net.DiscriminatorLen, &hello)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "a request that is not of this provider is rejected\n");
        return false;
    }
    struct prov_request *request = calloc(1, sizeof(*request));
    struct fi_info *info = prov_info_dup(pep->info);
    void *address = calloc(1, bytes);
    if (request == NULL || info == NULL || address == NULL) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "no memory for a request\n");
        free(request);
        free(address);
        if (info != NULL) {
            prov_info_free(info);
        }
        return false;
    }
    (void)prov_address_copy(nic, host, 0, address, &bytes);
    free(info->dest_addr);
    info->dest_addr = address;
    info->dest_addrlen = bytes;
    info->handle = &request->fid;
    request->fid.fclass = FI_CLASS_CONNREQ;
    request->nic = nic;
    request->conn = conn;
    request->theirs = *theirs;
    request->posted = hello.posted;
    request->credit_handle = hello.credit_handle;
    request->credit_address = hello.credit_address;
    memcpy(request->data, hello.data, hello.bytes);
    list_append(&nic->requests, &request->of_nic);
    prov_event_init(&request->event, &pep->fid.fid, request->data);
    request->event.info = info;
    prov_eq_add(pep->eq, &request->event, FI_CONNREQ, 0, hello.bytes);
    return true;
}

void prov_take_requests(struct prov_nic *nic)
{
    for (struct list *one = nic->listeners.next; one != &nic->listeners; one = one->next) {
        struct prov_listener *listener = container_of(one, struct prov_listener, of_nic);
        union prov_net from;
        VIP_VI_ATTRIBUTES theirs;
        VIP_CONN_HANDLE conn = NULL;
        while (VipConnectWait(nic->handle, &listener->address.net, 0, &from.net, &theirs, &conn) ==
               VIP_SUCCESS) {
            if (listener->pep == NULL || !queue_request(listener->pep, &from, conn, &theirs)) {
                (void)VipConnectReject(conn);
            }
        }
    }
}

void prov_listeners_free(struct prov_nic *nic)
{
    while (!list_is_alone(&nic->listeners)) {
        free(container_of(list_pop(&nic->listeners), struct prov_listener, of_nic));
    }
    while (!list_is_alone(&nic->requests)) {
        prov_request_free(container_of(list_pop(&nic->requests), struct prov_request, of_nic));
    }
}

/* Locked. The listener of a port: a new one, or the one that a former passive endpoint has left. */
static struct prov_listener *find_listener(struct prov_nic *nic, uint16_t port)
{
    for (struct list *one = nic->listeners.next; one != &nic->listeners; one = one->next) {
        struct prov_listener *listener = container_of(one, struct prov_listener, of_nic);
        if (listener->port == port) {
            return listener;
        }
    }
    struct prov_listener *listener = calloc(1, sizeof(*listener));
    if (listener != NULL) {
        listener->port = port;
        prov_address_listener(nic, nic->host, port, &listener->address);
        list_append(&nic->listeners, &listener->of_nic);
    }
    return listener;
}

static int reserve_port(struct prov_pep *pep)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(pep->port)};
    socklen_t bytes = sizeof(address);
    if (pep->port_socket >= 0) {
        return 0;
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        int rc = -errno;
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "port %u is not free: %s\n", pep->port, fi_strerror(-rc));
        if (fd >= 0) {
            (void)close(fd);
        }
        return rc;
    }
    pep->port_socket = fd;
    pep->port = ntohs(address.sin_port);
    return 0;
}

static int pep_listen(struct fid_pep *fid)
{
    struct prov_pep *pep = pep_of(fid);
    struct prov_nic *nic = pep->fabric->nic;
    if (pep->eq == NULL) {
        return -FI_ENOEQ;
    }
    if (pep->listener != NULL) {
        return -FI_EOPBADSTATE;
    }
    int rc = reserve_port(pep);
    if (rc != 0) {
        return rc;
    }
    prov_nic_lock(nic);
    rc = prov_eq_listens(pep->eq);
    struct prov_listener *listener = rc == 0 ? find_listener(nic, pep->port) : NULL;
    if (listener != NULL) {
        listener->pep = pep;
        pep->listener = listener;
        prov_take_requests(nic); /* the device listens from this look on */
    } else if (rc == 0) {
        rc = -FI_ENOMEM;
    }
    prov_nic_unlock(nic);
    return rc;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t bytes)
{
    struct prov_nic *nic = pep_of(fid)->fabric->nic;
    prov_nic_lock(nic);
    struct prov_request *request = prov_request_find(nic, handle);
    prov_nic_unlock(nic);
    if (request == NULL || bytes > PROV_CM_DATA) {
        return -FI_EINVAL;
    }
    if (bytes == 0 || reject_with_data(request, data, bytes) != VIP_SUCCESS) {
        (void)VipConnectReject(request->conn);
    }
    prov_nic_lock(nic);
    prov_request_free(request);
    prov_nic_unlock(nic);
    return 0;
}

static int pep_getname(fid_t fid, void *address, size_t *bytes)
{
    struct prov_pep *pep = container_of(fid, struct prov_pep, fid.fid);
    int rc = reserve_port(pep);
    if (rc != 0) {
        return rc;
    }
    return prov_address_copy(pep->fabric->nic, pep->fabric->nic->host, pep->port, address, bytes);
}

static int pep_setname(fid_t fid, void *address, size_t bytes)
{
    struct prov_pep *pep = container_of(fid, struct prov_pep, fid.fid);
    uint8_t host[PROV_HOST_BYTES];
    return pep->port_socket >= 0 ? -FI_EOPBADSTATE
                                 : prov_address_read(pep->fabric->nic, address, bytes, host, &pep->port);
}

int prov_no_accept(struct fid_ep *ep, const void *data, size_t bytes)
{
    (void)ep;
    (void)data;
    (void)bytes;
    return -FI_ENOSYS;
}

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct prov_pep *pep = container_of(fid, struct prov_pep, fid.fid);
    if (other->fclass != FI_CLASS_EQ || pep->eq != NULL || flags != 0) {
        return -FI_EINVAL;
    }
    pep->eq = container_of(other, struct prov_eq, fid.fid);
    prov_nic_lock(pep->fabric->nic);
    pep->eq->users++;
    prov_nic_unlock(pep->fabric->nic);
    return 0;
}

/* Locked. A request of this passive endpoint that the program has not read. */
static struct prov_request *unread_request(struct prov_pep *pep)
{
    struct list *one = pep->eq->events.next;
    while (one != &pep->eq->events) {
        struct prov_event *event = container_of(one, struct prov_event, of_eq);
        if (event->fid == &pep->fid.fid) {
            return container_of(event, struct prov_request, event);
        }
        one = one->next;
    }
    return NULL;
}

static int pep_close(struct fid *fid)
{
    struct prov_pep *pep = container_of(fid, struct prov_pep, fid.fid);
    prov_nic_lock(pep->fabric->nic);
    if (pep->listener != NULL) {
        pep->listener->pep = NULL;
    }
    for (struct prov_request *one = pep->eq != NULL ? unread_request(pep) : NULL; one != NULL;
         one = unread_request(pep)) {
        prov_eq_remove(pep->eq, &one->event);
        (void)VipConnectReject(one->conn);
        prov_request_free(one);
    }
    if (pep->eq != NULL) {
        pep->eq->users--;
    }
    pep->fabric->users--;
    prov_nic_unlock(pep->fabric->nic);
    if (pep->port_socket >= 0) {
        (void)close(pep->port_socket);
    }
    prov_info_free(pep->info);
    free(pep);
    return 0;
}

static int pep_control(struct fid *fid, int command, void *argument)
{
    (void)fid;
    (void)argument;
    return command == FI_BACKLOG ? 0 : -FI_ENOSYS; /* requests wait in VIPL, as many as there are */
}

static struct fi_ops pep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = pep_close,
    .bind = pep_bind,
    .control = pep_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_ep pep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .getopt = prov_cm_getopt,
    .setopt = prov_cm_setopt,
};

static struct fi_ops_cm pep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = pep_setname,
    .getname = pep_getname,
    .listen = pep_listen,
    .accept = prov_no_accept,
    .reject = pep_reject,
};

int prov_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out, void *context)
{
    struct prov_fabric *fabric = container_of(fid, struct prov_fabric, fid);
    uint8_t host[PROV_HOST_BYTES];
    uint16_t port = 0;
    int rc = info->src_addr != NULL
                 ? prov_address_read(fabric->nic, info->src_addr, info->src_addrlen, host, &port)
                 : 0;
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "not an address of the device %s\n", fabric->nic->name);
        return rc;
    }
    struct prov_pep *pep = calloc(1, sizeof(*pep));
    struct fi_info *copy = prov_info_dup(info);
    if (pep == NULL || copy == NULL) {
        free(pep);
        if (copy != NULL) {
            prov_info_free(copy);
        }
        return -FI_ENOMEM;
    }
    copy->handle = NULL;
    pep->fabric = fabric;
    pep->info = copy;
    pep->port = port;
    pep->port_socket = -1;
    pep->fid.fid.fclass = FI_CLASS_PEP;
    pep->fid.fid.context = context;
    pep->fid.fid.ops = &pep_fid_ops;
    pep->fid.ops = &pep_ops;
    pep->fid.cm = &pep_cm_ops;
    prov_nic_lock(fabric->nic);
    fabric->users++;
    prov_nic_unlock(fabric->nic);
    *out = &pep->fid;
    return 0;
}
