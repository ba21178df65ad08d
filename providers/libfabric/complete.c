/* SPDX-License-Identifier: MIT */
/* What follows when a descriptor is complete: a completion for the program, or for the provider. */
#include "provider.h"

static int error_of(uint32_t status)
{
    if ((status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) {
        return FI_ECANCELED;
    }
    if ((status & VIP_STATUS_LENGTH_ERROR) != 0) {
        return FI_ETRUNC;
    }
    if ((status & VIP_STATUS_RDMA_PROT_ERROR) != 0) {
        return FI_EACCES;
    }
    if ((status & (VIP_STATUS_FORMAT_ERROR | VIP_STATUS_PROTECTION_ERROR)) != 0) {
        return FI_EINVAL;
    }
    return (status & VIP_STATUS_REMOTE_DESC_ERROR) != 0 ? FI_EREMOTEIO : FI_EIO;
}

/* For the program: it reads the completion, or never hears of it. */
static void finish(struct prov_op *op, struct prov_cq *cq)
{
    if (op->wanted || op->entry.error != 0) {
        prov_cq_add(cq, &op->entry);
    } else {
        prov_op_give(op);
    }
}

static void receive_done(struct prov_ep *ep, struct prov_op *op)
{
    uint32_t status = op->entry.status;
    ep->received++;
    if (ep->rdm != NULL) {
        rdm_link_received(ep->rdm, op);
        prov_credit_advertise(ep);
        return;
    }
    op->entry.length = op->descriptor.CS.Length;
    op->entry.flags = FI_RECV | FI_MSG;
    if ((status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE) {
        op->entry.flags = FI_REMOTE_WRITE | FI_RMA;
        op->entry.buffer = NULL;
    }
    if ((status & VIP_STATUS_IMMEDIATE) != 0) {
        op->entry.flags |= FI_REMOTE_CQ_DATA;
        op->entry.data = op->descriptor.CS.ImmediateData;
    }
    finish(op, ep->queues.rx);
    prov_credit_advertise(ep);
}

void prov_op_finish(struct prov_op *op)
{
    if (op->ep->rdm != NULL) {
        rdm_link_done(op->ep->rdm, op);
    } else {
        finish(op, op->ep->queues.tx);
    }
}

static void part_done(struct prov_ep *ep, struct prov_op *op)
{
    if (op->entry.error != 0 && ep->transfer.error == 0) {
        ep->transfer.error = op->entry.error;
        ep->transfer.status = op->entry.status;
    }
    prov_op_give(op);
    ep->transfer.posted--;
    prov_push_ep(ep);
}

static void complete(struct prov_ep *ep, struct prov_op *op, bool failed)
{
    op->entry.status = op->descriptor.CS.Status;
    op->entry.error = failed ? error_of(op->entry.status) : 0;
    if (failed) {
        VIP_VI_STATE state = VIP_STATE_CONNECTED;
        if (VipQueryVi(ep->vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state != VIP_STATE_CONNECTED) {
            prov_ep_gone(ep);
        }
    }
    switch (op->kind) {
    case PROV_OP_HELLO:
        prov_ep_hello_done(ep, op);
        break;
    case PROV_OP_CREDIT:
        prov_op_give(op);
        prov_credit_advertise(ep);
        break;
    case PROV_OP_PART:
        part_done(ep, op);
        break;
    case PROV_OP_RECV:
        receive_done(ep, op);
        break;
    default:
        if (ep->transfer.last == op) {
            if (ep->transfer.error != 0) {
                op->entry.error = ep->transfer.error;
                op->entry.status = ep->transfer.status;
            }
            ep->transfer.last = NULL;
        }
        prov_op_finish(op);
        break;
    }
}

bool prov_ep_reap(struct prov_ep *ep, bool recv)
{
    VIP_DESCRIPTOR *descriptor = NULL;
    VIP_RETURN rc = recv ? VipRecvDone(ep->vi, &descriptor) : VipSendDone(ep->vi, &descriptor);
    if (descriptor == NULL) {
        return false;
    }
    complete(ep, container_of(descriptor, struct prov_op, descriptor), rc != VIP_SUCCESS);
    return true;
}

void prov_ep_reap_sends(struct prov_ep *ep)
{
    while (prov_ep_reap(ep, false)) {
    }
    prov_cq_update_wake(ep->queues.tx);
}
