/* SPDX-License-Identifier: MIT */
/*
 * Endpoints: a VI, Reliable Delivery, that the peer may read and write by RDMA. It is created when
 * the endpoint is enabled, with a pool of operations: so many as the attributes say, and those of
 * the provider's own.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

enum { OWN_OPS = 1 + PROV_CREDIT_OPS + PROV_PART_OPS, PAGE = 4096, CACHE_LINE = 64 };

struct prov_op *prov_op_take(struct list *free)
{
    if (list_is_alone(free)) {
        return NULL;
    }
    struct prov_op *op = container_of(free->next, struct prov_op, entry.link);
    list_remove(&op->entry.link);
    return op;
}

void prov_op_give(struct prov_op *op)
{
    struct prov_ep *ep = op->ep;
    switch (op->kind) {
    case PROV_OP_RECV:
        list_prepend(&ep->rx_free, &op->entry.link);
        break;
    case PROV_OP_CREDIT:
        list_prepend(&ep->credit_free, &op->entry.link);
        break;
    case PROV_OP_PART:
        list_prepend(&ep->part_free, &op->entry.link);
        break;
    case PROV_OP_HELLO:
        break;
    default:
        list_prepend(&ep->tx_free, &op->entry.link);
        break;
    }
}

void prov_op_release(struct prov_entry *entry)
{
    prov_op_give(container_of(entry, struct prov_op, entry));
}

VIP_DESCRIPTOR_SEGMENT *prov_op_begin(struct prov_op *op, enum prov_kind kind, uint16_t control)
{
    VIP_CONTROL_SEGMENT *head = &op->descriptor.CS;
    op->kind = kind;
    op->entry.error = 0;
    op->entry.buffer = NULL;
    op->entry.data = 0;
    op->entry.length = 0;
    op->wanted = false;
    op->takes_receive = false;
    head->Control = control;
    head->Reserved = 0;
    head->SegCount = 0;
    head->Status = 0;
    head->Length = 0;
    head->ImmediateData = 0;
    return op->descriptor.DS;
}

void prov_op_own_bytes(struct prov_op *op, VIP_DESCRIPTOR_SEGMENT *segment, size_t bytes)
{
    segment->Local.Data.AddressBits = (uintptr_t)op->inject;
    segment->Local.Handle = op->ep->pool_handle;
    segment->Local.Length = (VIP_UINT32)bytes;
    op->descriptor.CS.SegCount = (VIP_UINT16)(segment - op->descriptor.DS + 1);
}

/* Operations that may be in the send queue, and in the receive queue. */
static size_t tx_operations(const struct prov_ep *ep)
{
    return ep->info->tx_attr->size + OWN_OPS;
}

static size_t rx_operations(const struct prov_ep *ep)
{
    return ep->info->rx_attr->size + 1;
}

/* The pool: operations that send, with bytes to inject behind all of them; and those that
 * receive. */
static int make_pool(struct prov_ep *ep)
{
    size_t senders = ep->info->tx_attr->size + OWN_OPS, all = senders + ep->info->rx_attr->size;
    size_t bytes = all * sizeof(struct prov_op) + senders * PROV_INJECT;
    if (posix_memalign(&ep->pool, PAGE, bytes) != 0) {
        ep->pool = NULL;
        return -FI_ENOMEM;
    }
    memset(ep->pool, 0, bytes);
    struct prov_op *ops = ep->pool;
    uint8_t *inject = (uint8_t *)(ops + all);
    list_init(&ep->tx_free);
    list_init(&ep->rx_free);
    list_init(&ep->credit_free);
    list_init(&ep->part_free);
    ep->hello = ops;
    for (size_t i = 0; i < all; i++) {
        ops[i].ep = ep;
        ops[i].inject = i < senders ? inject + i * PROV_INJECT : NULL;
        ops[i].entry.release = prov_op_release;
        ops[i].entry.source = FI_ADDR_NOTAVAIL;
        list_init(&ops[i].entry.link);
        ops[i].kind = i == 0                                 ? PROV_OP_HELLO
                      : i <= PROV_CREDIT_OPS                 ? PROV_OP_CREDIT
                      : i <= PROV_CREDIT_OPS + PROV_PART_OPS ? PROV_OP_PART
                      : i < senders                          ? PROV_OP_SEND
                                                             : PROV_OP_RECV;
        prov_op_give(&ops[i]);
    }
    VIP_MEM_ATTRIBUTES rights = {.Ptag = ep->domain->ptag};
    return prov_error(VipRegisterMem(ep->nic->handle, ep->pool, bytes, &rights, &ep->pool_handle));
}

static int make_credit(struct prov_ep *ep)
{
    VIP_MEM_ATTRIBUTES rights = {
        .Ptag = ep->domain->ptag, .EnableRdmaWrite = VIP_TRUE, .EnableRdmaRead = VIP_TRUE};
    void *memory = NULL;
    if (posix_memalign(&memory, CACHE_LINE, CACHE_LINE) != 0) {
        return -FI_ENOMEM;
    }
    ep->credit = memory;
    memset(ep->credit, 0, CACHE_LINE); /* not a count and its complement: it says nothing yet */
    return prov_error(
        VipRegisterMem(ep->nic->handle, ep->credit, sizeof(*ep->credit), &rights, &ep->credit_handle));
}

static int make_vi(struct prov_ep *ep)
{
    VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                                    .MaxTransferSize = ep->nic->attributes.MaxTransferSize,
                                    .Ptag = ep->domain->ptag,
                                    .EnableRdmaWrite = VIP_TRUE,
                                    .EnableRdmaRead = VIP_TRUE};
    VIP_RETURN rc =
        VipCreateVi(ep->nic->handle, &attributes, ep->reports_sends ? ep->queues.tx->handle : NULL,
                    ep->queues.rx->handle, &ep->vi);
    if (rc == VIP_SUCCESS) {
        rc = VipSetUserData(ep->vi, ep);
    }
    if (rc == VIP_SUCCESS &&
        ep->request == NULL) { /* the accepting side's first message is for the provider */
        prov_op_own_bytes(ep->hello, prov_op_begin(ep->hello, PROV_OP_HELLO, VIP_CONTROL_OP_SENDRECV),
                          PROV_INJECT);
        rc = VipPostRecv(ep->vi, &ep->hello->descriptor, ep->pool_handle);
    }
    return prov_error(rc);
}

/* What the device has for an enabled endpoint. The VI is not connected, or has been
 * disconnected. */
static void unmake(struct prov_ep *ep)
{
    VIP_NIC_HANDLE nic = ep->nic->handle;
    if (ep->vi != NULL) {
        (void)VipDestroyVi(ep->vi);
        ep->vi = NULL;
    }
    if (ep->pool_handle != 0) {
        (void)VipDeregisterMem(nic, ep->pool, ep->pool_handle);
    }
    if (ep->credit_handle != 0 && VipDeregisterMem(nic, ep->credit, ep->credit_handle) != VIP_SUCCESS) {
        /* A peer that has been stopped may still write there. */
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "%zu bytes of a stopped peer stay allocated\n",
                 sizeof(*ep->credit));
        ep->credit = NULL;
    }
    free(ep->credit);
    free(ep->pool);
    ep->pool = NULL;
    ep->credit = NULL;
    ep->pool_handle = ep->credit_handle = 0;
}

/* Room in both completion queues, or in none. */
static int grow_queues(struct prov_ep *ep)
{
    int rc = prov_cq_grow(ep->queues.tx, tx_operations(ep));
    if (rc == 0) {
        rc = prov_cq_grow(ep->queues.rx, rx_operations(ep));
        if (rc != 0) {
            prov_cq_shrink(ep->queues.tx, tx_operations(ep));
        }
    }
    return rc;
}

static int enable(struct prov_ep *ep)
{
    if (ep->state != PROV_IDLE) {
        return -FI_EOPBADSTATE;
    }
    if (ep->eq == NULL) {
        return -FI_ENOEQ;
    }
    if (ep->queues.tx == NULL || ep->queues.rx == NULL) {
        return -FI_ENOCQ;
    }
    int rc = grow_queues(ep);
    if (rc != 0) {
        return rc;
    }
    rc = make_pool(ep);
    if (rc == 0) {
        rc = make_credit(ep);
    }
    if (rc == 0) {
        rc = make_vi(ep);
    }
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "an endpoint is not enabled: %s\n", fi_strerror(-rc));
        unmake(ep);
        prov_cq_shrink(ep->queues.tx, tx_operations(ep));
        prov_cq_shrink(ep->queues.rx, rx_operations(ep));
        return rc;
    }
    ep->state = PROV_ENABLED;
    list_append(&ep->nic->endpoints, &ep->of_nic);
    return 0;
}

static int ep_control(struct fid *fid, int command, void *argument)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    (void)argument;
    if (command != FI_ENABLE) {
        return -FI_ENOSYS;
    }
    prov_nic_lock(ep->nic);
    int rc = enable(ep);
    prov_nic_unlock(ep->nic);
    return rc;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    int rc = -FI_EINVAL;
    if (other->fclass != FI_CLASS_EQ && other->fclass != FI_CLASS_CQ) {
        return prov_no_bind(fid, other, flags);
    }
    prov_nic_lock(ep->nic);
    if (ep->state != PROV_IDLE) {
        rc = -FI_EOPBADSTATE;
    } else if (other->fclass == FI_CLASS_CQ) {
        rc = prov_cq_bind(container_of(other, struct prov_cq, fid.fid), ep->domain, &ep->queues, flags);
    } else if (ep->eq == NULL && flags == 0) {
        ep->eq = container_of(other, struct prov_eq, fid.fid);
        ep->eq->users++;
        rc = 0;
    }
    prov_nic_unlock(ep->nic);
    return rc;
}

/* Locked. What other objects know of the endpoint. */
static void leave(struct prov_ep *ep)
{
    list_remove(&ep->of_nic);
    prov_clear_pending(ep);
    if (ep->awaited > 0) {
        ep->awaited = 1;
        prov_cq_awaits_less(ep->queues.tx, ep);
    }
    if (ep->request != NULL) {
        (void)VipConnectReject(ep->request->conn);
        prov_request_free(ep->request);
    }
    if (ep->eq != NULL) {
        prov_eq_remove(ep->eq, &ep->connected);
        prov_eq_remove(ep->eq, &ep->shutdown);
        ep->eq->users--;
    }
    if (ep->rdm != NULL) {
        rdm_link_forget(ep->rdm);
    }
    if (ep->queues.tx != NULL) {
        prov_cq_forget(ep->queues.tx, ep);
        ep->queues.tx->users--;
    }
    if (ep->queues.rx != NULL) {
        prov_cq_forget(ep->queues.rx, ep);
        ep->queues.rx->users--;
    }
    if (ep->state != PROV_IDLE) {
        prov_cq_shrink(ep->queues.tx, tx_operations(ep));
        prov_cq_shrink(ep->queues.rx, rx_operations(ep));
    }
    ep->domain->users--;
}

static int ep_close(struct fid *fid)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    prov_nic_lock(ep->nic);
    bool has_vi = ep->vi != NULL;
    if (ep->state == PROV_CONNECTED) {
        ep->state = PROV_GONE; /* the program closes it: no FI_SHUTDOWN */
    }
    prov_nic_unlock(ep->nic);
    if (has_vi) {
        prov_ep_cancel_connect(ep);
        (void)VipDisconnect(ep->vi);
    }
    prov_nic_lock(ep->nic);
    leave(ep);
    unmake(ep); /* with the lock: another thread may be looking up whose completion it has */
    prov_nic_unlock(ep->nic);
    (void)pthread_cond_destroy(&ep->connector_ended);
    prov_info_free(ep->info);
    free(ep);
    return 0;
}

/* Nothing takes a descriptor back from a VI but the end of its connection. */
static ssize_t ep_cancel(fid_t fid, void *context)
{
    (void)fid;
    (void)context;
    return -FI_ENOSYS;
}

int prov_cm_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    (void)fid;
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) {
        return -FI_ENOPROTOOPT;
    }
    if (*bytes < sizeof(size_t)) {
        return -FI_ETOOSMALL;
    }
    *(size_t *)value = PROV_CM_DATA;
    *bytes = sizeof(size_t);
    return 0;
}

int prov_cm_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    (void)fid;
    (void)level;
    (void)name;
    (void)value;
    (void)bytes;
    return -FI_ENOPROTOOPT;
}

int prov_no_tx_context(struct fid_ep *ep, int index, struct fi_tx_attr *attributes, struct fid_ep **out,
                       void *context)
{
    (void)ep;
    (void)index;
    (void)attributes;
    (void)out;
    (void)context;
    return -FI_ENOSYS;
}

int prov_no_rx_context(struct fid_ep *ep, int index, struct fi_rx_attr *attributes, struct fid_ep **out,
                       void *context)
{
    (void)ep;
    (void)index;
    (void)attributes;
    (void)out;
    (void)context;
    return -FI_ENOSYS;
}

ssize_t prov_no_size_left(struct fid_ep *ep)
{
    (void)ep;
    return -FI_ENOSYS;
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
    .cancel = ep_cancel,
    .getopt = prov_cm_getopt,
    .setopt = prov_cm_setopt,
    .tx_ctx = prov_no_tx_context,
    .rx_ctx = prov_no_rx_context,
    .rx_size_left = prov_no_size_left,
    .tx_size_left = prov_no_size_left,
};

static int check_info(const struct fi_info *info)
{
    if (info->ep_attr == NULL || info->tx_attr == NULL || info->rx_attr == NULL ||
        info->ep_attr->type != FI_EP_MSG || info->tx_attr->size == 0 || info->tx_attr->size > PROV_TX_MOST ||
        info->rx_attr->size == 0 || info->rx_attr->size > PROV_RX_MOST || info->ep_attr->tx_ctx_cnt > 1 ||
        info->ep_attr->rx_ctx_cnt > 1) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "not an endpoint of this provider\n");
        return -FI_EINVAL;
    }
    return 0;
}

/* The request that the endpoint is to accept; the handle comes from a program. */
static int take_request(struct prov_ep *ep, const struct fid *handle)
{
    prov_nic_lock(ep->nic);
    ep->request = handle != NULL ? prov_request_find(ep->nic, handle) : NULL;
    for (struct list *one = ep->nic->endpoints.next; one != &ep->nic->endpoints && ep->request != NULL;
         one = one->next) {
        if (container_of(one, struct prov_ep, of_nic)->request == ep->request) {
            ep->request = NULL; /* another endpoint has it */
        }
    }
    if (handle == NULL || ep->request != NULL) {
        ep->domain->users++;
        handle = NULL;
    }
    prov_nic_unlock(ep->nic);
    return handle == NULL ? 0 : -FI_EINVAL;
}

int prov_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid);
    int rc = check_info(info);
    if (rc != 0) {
        return rc;
    }
    struct prov_ep *ep = calloc(1, sizeof(*ep));
    struct fi_info *copy = prov_info_dup(info);
    if (ep == NULL || copy == NULL) {
        rc = -FI_ENOMEM;
        goto give_up;
    }
    copy->handle = NULL;
    ep->domain = domain;
    ep->nic = domain->nic;
    ep->info = copy;
    list_init(&ep->of_nic);
    list_init(&ep->pending);
    list_init(&ep->awaiting);
    ep->reports_sends = true;
    list_init(&ep->waiting);
    prov_event_init(&ep->connected, &ep->fid.fid, ep->peer_data);
    prov_event_init(&ep->shutdown, &ep->fid.fid, ep->peer_data);
    (void)pthread_cond_init(&ep->connector_ended, NULL);
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &prov_ep_cm_ops;
    ep->fid.msg = &prov_msg_ops;
    ep->fid.rma = &prov_rma_ops;
    rc = take_request(ep, info->handle);
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "the handle is not of a connection request\n");
        goto give_up;
    }
    *out = &ep->fid;
    return 0;

give_up:
    if (copy != NULL) {
        prov_info_free(copy);
    }
    free(ep);
    return rc;
}
