/* SPDX-License-Identifier: MIT */
#include "sockets/responder.h"

#include <string.h>
#include <unistd.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "sockets/lease.h"
#include "vipl/posix.h"

enum {
    MOST_LEASES = 4096, /* of a responder */
    MOST_ACCEPTING = 32 /* threads that accept a request each */
};

struct sock_responder {
    struct sock_address place; /* constant, as the next one */
    const char *device;
    uint32_t pid;        /* constant: of the process whose thread it has */
    uint32_t references; /* atomic: the listener's, the thread's, and those of threads that accept */
    uint32_t ends;       /* atomic: 1: the listener has been closed */
    struct vipl_waker waker;
    /* The thread's own. */
    VIP_NIC_HANDLE nic;
    VIP_CQ_HANDLE queue;
    union sock_lease_name name;
    int request_fd;         /* readable while a request waits */
    int queue_fd;           /* readable while the queue has an entry */
    struct vipl_mutex lock; /* rank SOCK_PROBE; guards the rest */
    struct vipl_list leases;
    uint32_t lease_count;
    uint32_t accepting_count;
};

static void put_responder(struct sock_responder *responder)
{
    if (vipl_fetch_add(&responder->references, UINT32_MAX) == 1) {
        vipl_waker_close(&responder->waker);
        vipl_free(responder);
    }
}

/* --- leases ---------------------------------------------------------------------------------- */

static void forget_lease(struct sock_responder *responder, struct sock_lease *lease)
{
    vipl_mutex_lock(&responder->lock);
    vipl_list_remove(&lease->link);
    responder->lease_count--;
    vipl_mutex_unlock(&responder->lock);
    sock_lease_end(lease);
}

/* A request, and the lease that is to be connected. */
struct accepting {
    struct sock_responder *responder;
    struct sock_lease *lease;
    VIP_CONN_HANDLE request;
};

static void run_accept(void *arg)
{
    struct accepting *accepting = arg;
    struct sock_responder *responder = accepting->responder;
    struct sock_lease *lease = accepting->lease;
    VIP_RETURN rc = VipConnectAccept(accepting->request, lease->vi);
    if (rc != VIP_SUCCESS) {
        VipConnectReject(accepting->request); /* if it is still there */
    }
    vipl_mutex_lock(&responder->lock);
    lease->is_accepting = false;
    bool is_over = rc != VIP_SUCCESS || lease->is_over;
    responder->accepting_count--;
    vipl_mutex_unlock(&responder->lock);
    if (is_over) {
        forget_lease(responder, lease);
    }
    vipl_waker_signal(&responder->waker); /* the responder may wait for this thread to end */
    put_responder(responder);
    vipl_free(accepting);
}

/* Enters a lease, if there may be one more. */
static struct sock_lease *new_lease(struct sock_responder *responder)
{
    struct sock_lease *lease = NULL;
    vipl_mutex_lock(&responder->lock);
    bool may = responder->lease_count < MOST_LEASES && responder->accepting_count < MOST_ACCEPTING;
    responder->lease_count += may ? 1 : 0;
    responder->accepting_count += may ? 1 : 0;
    vipl_mutex_unlock(&responder->lock);
    if (may) {
        lease = sock_lease_new(responder->nic, responder->queue);
    }
    vipl_mutex_lock(&responder->lock);
    if (lease != NULL) {
        lease->is_accepting = true;
        vipl_list_append(&responder->leases, &lease->link);
    } else if (may) {
        responder->lease_count--;
        responder->accepting_count--;
    }
    vipl_mutex_unlock(&responder->lock);
    return lease;
}

static void begin_accept(struct sock_responder *responder, VIP_CONN_HANDLE request)
{
    struct vipl_thread thread;
    struct accepting *accepting = vipl_zalloc(sizeof(*accepting));
    struct sock_lease *lease = accepting == NULL ? NULL : new_lease(responder);
    if (lease == NULL) {
        vipl_free(accepting);
        VipConnectReject(request);
        return;
    }
    *accepting = (struct accepting){responder, lease, request};
    vipl_fetch_add(&responder->references, 1);
    if (vipl_thread_start(&thread, run_accept, accepting) == 0) {
        vipl_thread_detach(&thread);
        return;
    }
    VipConnectReject(request);
    vipl_mutex_lock(&responder->lock);
    responder->accepting_count--;
    vipl_mutex_unlock(&responder->lock);
    forget_lease(responder, lease);
    put_responder(responder);
    vipl_free(accepting);
}

/* The queue has named the VI of a lease that is over. The thread that accepts it ends it if it has
 * not returned from that call. */
static void end_lease_of(struct sock_responder *responder, VIP_VI_HANDLE vi)
{
    struct sock_lease *ended = NULL;
    vipl_mutex_lock(&responder->lock);
    for (struct vipl_list *l = responder->leases.next; l != &responder->leases; l = l->next) {
        struct sock_lease *lease = VIPL_CONTAINER(l, struct sock_lease, link);
        if (lease->vi == vi && sock_lease_is_over(lease)) {
            ended = lease->is_accepting ? NULL : lease;
        }
    }
    vipl_mutex_unlock(&responder->lock);
    if (ended != NULL) {
        forget_lease(responder, ended);
    }
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Takes what has come. Returns false if requests cannot be waited for. */
static bool take(struct sock_responder *responder)
{
    union sock_lease_name remote;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    VIP_RETURN rc;
    while ((rc = VipConnectWait(responder->nic, &responder->name.net, 0, &remote.net, &attributes,
                                &request)) == VIP_SUCCESS) {
        begin_accept(responder, request);
    }
    while (VipCQDone(responder->queue, &vi, &is_recv) == VIP_SUCCESS) {
        end_lease_of(responder, vi);
    }
    if (rc != VIP_TIMEOUT) {
        vipl_log(VIPL_LOG_REASON, "sockets: other hosts cannot ask for port %u over %s: %s",
                 (unsigned)responder->place.port, responder->device, VipxStrError(rc));
    }
    return rc == VIP_TIMEOUT;
}

static VIP_RETURN open_device(struct sock_responder *responder)
{
    VIP_NIC_ATTRIBUTES attributes;
    char host[SOCK_ADDRESS_BYTES];
    VIP_RETURN rc = VipxOpenNic(responder->device, VIPX_QUIET | VIPX_NO_LINGER, &responder->nic);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    rc = VipQueryNic(responder->nic, &attributes);
    if (rc == VIP_SUCCESS) {
        rc = VipCreateCQ(responder->nic, MOST_LEASES, &responder->queue);
    }
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    responder->name.net.HostAddressLen = attributes.NicAddressLen;
    memcpy(responder->name.room + offsetof(VIP_NET_ADDRESS, HostAddress), attributes.LocalNicAddress,
           attributes.NicAddressLen);
    sock_address_host(&responder->place, host);
    sock_lease_name(&responder->name, host, responder->place.port);
    rc = VipxGetFd(VIPX_FD_CONNECT, responder->nic, &responder->request_fd);
    return rc == VIP_SUCCESS ? VipxGetFd(VIPX_FD_CQ, responder->queue, &responder->queue_fd) : rc;
}

/* Waits for the threads that accept, ends all leases, and closes the NIC handle. */
static void close_nic(struct sock_responder *responder)
{
    bool is_accepting = true;
    while (is_accepting) {
        vipl_waker_reset(&responder->waker); /* then looks */
        vipl_mutex_lock(&responder->lock);
        is_accepting = responder->accepting_count > 0;
        vipl_mutex_unlock(&responder->lock);
        if (is_accepting) {
            vipl_poll(&responder->waker.fd, 1, -1, NULL);
        }
    }
    while (!vipl_list_empty(&responder->leases)) {
        forget_lease(responder, VIPL_CONTAINER(responder->leases.next, struct sock_lease, link));
    }
    if (responder->queue != NULL) {
        VipDestroyCQ(responder->queue);
    }
    if (responder->nic != NULL) {
        VipCloseNic(responder->nic);
    }
}

static void run_responder(void *arg)
{
    struct sock_responder *responder = arg;
    const int fds[] = {responder->waker.fd, responder->request_fd, responder->queue_fd};
    while (vipl_load_acquire(&responder->ends) == 0 && take(responder)) {
        vipl_poll(fds, sizeof(fds) / sizeof(*fds), -1, NULL);
        vipl_waker_reset(&responder->waker); /* `ends` is looked at next */
    }
    close_nic(responder);
    put_responder(responder);
}

/* Returns true if requests are taken from now on. */
static bool start(struct sock_responder *responder)
{
    struct vipl_thread thread;
    VIP_RETURN rc = open_device(responder);
    if (rc != VIP_SUCCESS) {
        vipl_log(VIPL_LOG_ERROR, "sockets: the device %s cannot be opened (%s): other hosts stay with TCP",
                 responder->device, VipxStrError(rc));
    } else if (take(responder) && vipl_thread_start(&thread, run_responder, responder) == 0) {
        vipl_thread_detach(&thread);
        return true;
    }
    close_nic(responder);
    return false;
}

/* --- the listener ---------------------------------------------------------------------------- */

struct sock_responder *sock_responder_new(const struct sock_address *place, const char *device)
{
    struct sock_responder *responder = vipl_zalloc(sizeof(*responder));
    if (responder == NULL || vipl_waker_open(&responder->waker) != 0) {
        vipl_free(responder);
        return NULL;
    }
    responder->place = *place;
    responder->device = device;
    responder->pid = (uint32_t)getpid();
    responder->references = 2;
    vipl_mutex_init(&responder->lock, VIPL_RANK_SOCK_PROBE);
    vipl_list_init(&responder->leases);
    if (!start(responder)) {
        vipl_store_relaxed(&responder->references, 1);
        put_responder(responder);
        return NULL;
    }
    return responder;
}

struct sock_responder *sock_responder_keep(struct sock_responder *responder)
{
    if (responder == NULL || responder->pid == (uint32_t)getpid()) {
        return responder;
    }
    struct sock_responder *own = sock_responder_new(&responder->place, responder->device);
    sock_responder_free(responder);
    return own;
}

bool sock_responder_has_clients(struct sock_responder *responder)
{
    if (responder == NULL) {
        return false;
    }
    vipl_mutex_lock(&responder->lock);
    bool has_clients = responder->lease_count > 0;
    vipl_mutex_unlock(&responder->lock);
    return has_clients;
}

void sock_responder_free(struct sock_responder *responder)
{
    if (responder->pid != (uint32_t)getpid()) { /* its thread and all else is the parent's */
        vipl_waker_close(&responder->waker);
        vipl_free(responder);
        return;
    }
    vipl_store_release(&responder->ends, 1); /* pairs with run_responder() */
    vipl_waker_signal(&responder->waker);
    put_responder(responder);
}
