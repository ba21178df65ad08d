/* SPDX-License-Identifier: MIT */
/* Terminates, by the codes of RFC 5040 (section 4.8) and RFC 5041. */
#include "devices/rnic/card/terminate.h"

#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/record.h"
#include "devices/rnic/card/request.h"

struct vipl_rdmap_terminate rnic_terminate_for(uint16_t reason, const struct vipl_ddp *ddp,
                                               uint32_t segment_bytes)
{
    return (struct vipl_rdmap_terminate){
        .reason = reason, .segment_bytes = (uint16_t)segment_bytes, .with_ddp = true, .ddp = *ddp};
}

uint16_t rnic_terminate_fault(enum vipl_ddp_fault fault, bool tagged)
{
    switch (fault) {
    case VIPL_DDP_FAULT_VERSION:
        return tagged ? VIPL_TERM_DDP_TAGGED_VERSION : VIPL_TERM_DDP_UNTAGGED_VERSION;
    case VIPL_DDP_FAULT_RDMAP_VERSION:
        return VIPL_TERM_RDMAP_VERSION;
    case VIPL_DDP_FAULT_QUEUE:
        return VIPL_TERM_DDP_UNTAGGED_QUEUE;
    case VIPL_DDP_FAULT_OPCODE:
        return VIPL_TERM_RDMAP_OPCODE;
    default:
        return VIPL_TERM_RDMAP_UNSPECIFIED;
    }
}

uint16_t rnic_terminate_bus(struct rnic_card *card, unsigned fn)
{
    bool is_gone = card->host->is_gone != NULL && card->host->is_gone(card->context, fn);
    if (is_gone) {
        rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_GONE, .fn = (uint16_t)fn});
    }
    return is_gone ? VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC : VIPL_TERM_RDMAP_ACCESS;
}

uint16_t rnic_terminate_refusal(enum rnic_refusal refusal, bool read)
{
    switch (refusal) {
    case RNIC_REFUSED_TAG:
        return read ? VIPL_TERM_RDMAP_INVALID_STAG : VIPL_TERM_DDP_TAGGED_STAG;
    case RNIC_REFUSED_BOUNDS:
        return read ? VIPL_TERM_RDMAP_BASE_BOUNDS : VIPL_TERM_DDP_TAGGED_BOUNDS;
    case RNIC_REFUSED_WRAP:
        return read ? VIPL_TERM_RDMAP_TO_WRAP : VIPL_TERM_DDP_TAGGED_WRAP;
    case RNIC_REFUSED_DOMAIN:
        return read ? VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED : VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED;
    default:
        return VIPL_TERM_RDMAP_ACCESS;
    }
}

/* --- received --- */

/* Whether the Terminate's segment is of this entry. */
static bool is_about(const struct vipl_rdmap_terminate *terminate, const struct rnic_request *request)
{
    const struct vipl_ddp *ddp = &terminate->ddp;
    const struct rnic_work *work = &request->work;
    if (!request->begun) {
        return false;
    }
    if (work->opcode == RNIC_WORK_READ) {
        return !ddp->tagged && ddp->queue == VIPL_DDP_QUEUE_READ_REQUEST && ddp->msn == request->msn;
    }
    if (work->opcode == RNIC_WORK_WRITE && ddp->tagged) {
        return ddp->stag == work->remote_stag && ddp->offset - work->remote_address <= work->length;
    }
    bool own = !ddp->tagged && ddp->queue == VIPL_DDP_QUEUE_SEND;
    return own && (ddp->msn == request->msn || ddp->msn == request->immediate_msn);
}

static bool is_access(uint16_t reason)
{
    return reason == VIPL_TERM_RDMAP_ACCESS || (reason >= VIPL_TERM_RDMAP_INVALID_STAG && reason <= 0x01FF) ||
           (reason >= VIPL_TERM_DDP_TAGGED_STAG && reason <= VIPL_TERM_DDP_TAGGED_WRAP);
}

/* The peer took the message and had no place for it. */
static bool is_receive(const struct vipl_rdmap_terminate *terminate)
{
    uint16_t reason = terminate->reason;
    bool message = !terminate->with_ddp || terminate->ddp.queue != VIPL_DDP_QUEUE_READ_REQUEST;
    return message &&
           (reason == VIPL_TERM_DDP_UNTAGGED_NO_BUFFER || reason == VIPL_TERM_DDP_UNTAGGED_TOO_LONG ||
            reason == VIPL_TERM_DDP_LOCAL_CATASTROPHIC);
}

static uint16_t terminate_error(const struct vipl_rdmap_terminate *terminate)
{
    uint16_t reason = terminate->reason;
    if (reason == VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC) {
        return RNIC_ERROR_TERMINATED;
    }
    if (reason == VIPL_TERM_RDMAP_STREAM_CATASTROPHIC) {
        return RNIC_ERROR_CONNECTION_LOST;
    }
    return is_access(reason)       ? RNIC_ERROR_REMOTE_ACCESS
           : is_receive(terminate) ? RNIC_ERROR_REMOTE_RECEIVE
                                   : RNIC_ERROR_REMOTE_OTHER;
}

/* The oldest entry that it is about. What is before that one has been received. */
static struct rnic_request *find_request(struct rnic_card *card, uint32_t qp,
                                         const struct vipl_rdmap_terminate *terminate)
{
    struct rnic_request *request = rnic_request_first(card, qp);
    while (request != NULL && !is_about(terminate, request)) {
        request = rnic_request_behind(card, request);
    }
    return request;
}

static uint16_t request_status(const struct rnic_qp *row, const struct rnic_request *request, uint16_t error)
{
    if (error == RNIC_ERROR_REMOTE_ACCESS && request->work.opcode != RNIC_WORK_SEND) {
        return RNIC_STATUS_REMOTE_ACCESS;
    }
    return error == RNIC_ERROR_REMOTE_RECEIVE && row->level == RNIC_LEVEL_RECEPTION
               ? RNIC_STATUS_REMOTE_RECEIVE
               : RNIC_STATUS_OK;
}

void rnic_terminate_received(struct rnic_card *card, uint32_t qp, const uint8_t *payload, uint32_t bytes)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    struct vipl_rdmap_terminate terminate;
    if (!vipl_rdmap_terminate_read(payload, bytes, &terminate)) {
        rnic_qp_fail(card, qp, RNIC_ERROR_REMOTE_OTHER, NULL);
        return;
    }
    uint16_t error = terminate_error(&terminate);
    struct rnic_request *culprit = terminate.with_ddp ? find_request(card, qp, &terminate) : NULL;
    if (culprit != NULL) {
        culprit->status = request_status(row, culprit, error);
        rnic_complete_before(card, qp, culprit);
        if (culprit->status != RNIC_STATUS_OK) {
            rnic_complete_alone(card, qp, culprit);
        }
    }
    rnic_qp_fail(card, qp, error, NULL);
}
