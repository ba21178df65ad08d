/* SPDX-License-Identifier: MIT */
/* Datagram endpoints as libfabric's objects: opened, bound, enabled, closed. */
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

/* --- binding and enabling --- */

static int bind_av(struct rdm_ep *ep, struct rdm_av *av, uint64_t flags)
{
    if (av->domain != ep->domain || ep->av != NULL || flags != 0) {
        return -FI_EINVAL;
    }
    ep->av = av;
    list_append(&av->endpoints, &ep->of_av);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    int rc = -FI_EOPBADSTATE;
    if (other->fclass == FI_CLASS_EQ) {
        return 0; /* which hears nothing of datagram endpoints */
    }
    if (other->fclass != FI_CLASS_CQ && other->fclass != FI_CLASS_AV) {
        return prov_no_bind(fid, other, flags);
    }
    prov_nic_lock(ep->nic);
    if (!ep->enabled) {
        rc = other->fclass == FI_CLASS_CQ
                 ? prov_cq_bind(container_of(other, struct prov_cq, fid.fid), ep->domain, &ep->queues, flags)
                 : bind_av(ep, container_of(other, struct rdm_av, fid.fid), flags);
    }
    prov_nic_unlock(ep->nic);
    return rc;
}

struct prov_cq *rdm_receive_queue(const struct rdm_ep *ep)
{
    return ep->queues.rx;
}

bool rdm_may_sleep(const struct rdm_ep *ep)
{
    return ep->queues.tx->wait != FI_WAIT_NONE || ep->queues.rx->wait != FI_WAIT_NONE;
}

/* Locked. What reads of the queue have to see to, beside its own completions. */
static void count_others(struct prov_cq *cq)
{
    cq->has_others = cq->looks = false;
    for (size_t i = 0; i < PROV_CQ_DATAGRAMS; i++) {
        const struct rdm_ep *ep = cq->datagrams[i];
        cq->has_others = cq->has_others || (ep != NULL && ep->queues.rx != cq);
        cq->looks = cq->looks || (ep != NULL && !rdm_may_sleep(ep));
    }
}

/* Locked. Reads of a queue see to what comes for its endpoints; false if it has too many. */
static bool join_queue(struct prov_cq *cq, struct rdm_ep *ep)
{
    for (size_t i = 0; i < PROV_CQ_DATAGRAMS; i++) {
        if (cq->datagrams[i] == NULL || cq->datagrams[i] == ep) {
            cq->datagrams[i] = ep;
            count_others(cq);
            return true;
        }
    }
    return false;
}

/* Locked. */
static void leave_queue(struct prov_cq *cq, const struct rdm_ep *ep)
{
    for (size_t i = 0; i < PROV_CQ_DATAGRAMS; i++) {
        cq->datagrams[i] = cq->datagrams[i] == ep ? NULL : cq->datagrams[i];
    }
    count_others(cq);
}

static void leave_queues(struct rdm_ep *ep)
{
    prov_nic_lock(ep->nic);
    leave_queue(ep->queues.tx, ep);
    leave_queue(ep->queues.rx, ep);
    prov_nic_unlock(ep->nic);
}

static int join_queues(struct rdm_ep *ep)
{
    prov_nic_lock(ep->nic);
    bool joined = join_queue(ep->queues.tx, ep) && join_queue(ep->queues.rx, ep);
    prov_nic_unlock(ep->nic);
    return joined ? 0 : -FI_ENOSPC;
}

static int enable(struct rdm_ep *ep)
{
    if (ep->enabled) {
        return -FI_EOPBADSTATE;
    }
    if (ep->av == NULL) {
        return -FI_ENOAV;
    }
    if (ep->queues.tx == NULL || ep->queues.rx == NULL) {
        return -FI_ENOCQ;
    }
    int rc = join_queues(ep);
    if (rc == 0) {
        rc = rdm_send_start(ep);
    }
    if (rc == 0) {
        rc = rdm_watch_start(ep);
    }
    if (rc != 0) { /* which may be tried again */
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "an endpoint is not enabled: %s\n", fi_strerror(-rc));
        leave_queues(ep);
        rdm_send_end(ep);
        return rc;
    }
    ep->enabled = true;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *argument)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    (void)argument;
    return command == FI_ENABLE ? enable(ep) : -FI_ENOSYS;
}

/* --- the end --- */

/* Locked. What other objects know of the endpoint. */
static void leave(struct rdm_ep *ep)
{
    list_remove(&ep->of_av);
    if (ep->queues.tx != NULL) {
        leave_queue(ep->queues.tx, ep);
        ep->queues.tx->users--;
    }
    if (ep->queues.rx != NULL) {
        leave_queue(ep->queues.rx, ep);
        ep->queues.rx->users--;
    }
    ep->domain->users--;
}

static void free_infos(struct rdm_ep *ep)
{
    if (ep->info != NULL) {
        prov_info_free(ep->info);
    }
    if (ep->link_info != NULL) {
        prov_info_free(ep->link_info);
    }
}

static int ep_close(struct fid *fid)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    rdm_watch_stop(ep);
    rdm_links_close(ep);
    rdm_receive_end(ep);
    rdm_send_end(ep);
    prov_nic_lock(ep->nic);
    leave(ep);
    prov_nic_unlock(ep->nic);
    (void)fi_close(&ep->pep->fid);
    (void)fi_close(&ep->eq->fid);
    (void)pthread_cond_destroy(&ep->watch_goes_on);
    (void)pthread_mutex_destroy(&ep->events);
    free_infos(ep);
    free(ep->to);
    free(ep);
    return 0;
}

/* --- what an endpoint is asked --- */

static int ep_getname(fid_t fid, void *address, size_t *bytes)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    return fi_getname(&ep->pep->fid, address, bytes);
}

static int ep_setname(fid_t fid, void *address, size_t bytes)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    return fi_setname(&ep->pep->fid, address, bytes);
}

static int no_getpeer(struct fid_ep *ep, void *address, size_t *bytes)
{
    (void)ep;
    (void)address;
    (void)bytes;
    return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *address, const void *data, size_t bytes)
{
    (void)ep;
    (void)address;
    (void)data;
    (void)bytes;
    return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep;
    (void)flags;
    return -FI_ENOSYS;
}

static int no_option(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    (void)fid;
    (void)level;
    (void)name;
    (void)value;
    (void)bytes;
    return -FI_ENOPROTOOPT;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = rdm_cancel,
    .getopt = no_option,
    .setopt = prov_cm_setopt,
    .tx_ctx = prov_no_tx_context,
    .rx_ctx = prov_no_rx_context,
    .rx_size_left = prov_no_size_left,
    .tx_size_left = prov_no_size_left,
};

static struct fi_ops_cm ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = no_getpeer,
    .connect = no_connect,
    .listen = prov_no_listen,
    .accept = prov_no_accept,
    .reject = prov_no_reject,
    .shutdown = no_shutdown,
};

/* --- opening --- */

/* The event queue and the passive endpoint of the links. */
static int open_listener(struct rdm_ep *ep)
{
    struct fi_eq_attr attributes = {.wait_obj = FI_WAIT_FD};
    struct fid_fabric *fabric = &ep->domain->fabric->fid;
    int rc = prov_eq_open(fabric, &attributes, &ep->eq, NULL);
    if (rc != 0) {
        return rc;
    }
    rc = prov_pep_open(fabric, ep->link_info, &ep->pep, NULL);
    if (rc == 0) {
        rc = fi_pep_bind(ep->pep, &ep->eq->fid, 0);
        if (rc != 0) {
            (void)fi_close(&ep->pep->fid);
        }
    }
    if (rc != 0) {
        (void)fi_close(&ep->eq->fid);
    }
    return rc;
}

int rdm_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid);
    struct rdm_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    ep->nic = domain->nic;
    ep->info = prov_info_dup(info);
    ep->link_info = prov_link_info(domain->nic, info->src_addr, info->src_addrlen);
    list_init(&ep->of_av);
    list_init(&ep->links);
    (void)pthread_mutex_init(&ep->events, NULL);
    (void)pthread_cond_init(&ep->watch_goes_on, NULL);
    rdm_receive_start(ep);
    int rc = ep->info != NULL && ep->link_info != NULL ? open_listener(ep) : -FI_ENOMEM;
    if (rc != 0) {
        free_infos(ep);
        free(ep);
        return rc;
    }
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &ep_cm_ops;
    ep->fid.msg = &rdm_msg_ops;
    ep->fid.tagged = &rdm_tagged_ops;
    prov_nic_lock(domain->nic);
    domain->users++;
    prov_nic_unlock(domain->nic);
    *out = &ep->fid;
    return 0;
}
