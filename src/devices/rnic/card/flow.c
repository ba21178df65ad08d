/* SPDX-License-Identifier: MIT */
/* Frames on their way down: what the rest of the card asks of EFE. */
#include "devices/rnic/card/flow.h"

#include <string.h>

#include "iwarp/rdmap.h"

struct efe rnic_flow_efe(const struct rnic_card *card)
{
    return (struct efe){rnic_at(card, rnic_state(card)->efe), card->flows, (void *)(uintptr_t)card};
}

uint32_t rnic_flow_open(struct rnic_card *card, unsigned fn, const uint8_t mac[6], uint16_t peer_fn)
{
    struct efe efe = rnic_flow_efe(card);
    return efe_open(&efe, rnic_state(card)->now, (uint16_t)fn, mac, peer_fn);
}

void rnic_flow_hold(struct rnic_card *card, uint32_t flow)
{
    struct efe efe = rnic_flow_efe(card);
    efe_hold(&efe, flow);
}

void rnic_flow_release(struct rnic_card *card, uint32_t flow)
{
    struct efe efe = rnic_flow_efe(card);
    efe_release(&efe, flow);
}

uint8_t *rnic_flow_reserve(struct rnic_card *card, uint32_t flow)
{
    struct efe efe = rnic_flow_efe(card);
    return efe_reserve(&efe, flow);
}

void rnic_flow_cancel(struct rnic_card *card, uint32_t flow)
{
    struct efe efe = rnic_flow_efe(card);
    efe_cancel(&efe, flow);
}

void rnic_flow_commit(struct rnic_card *card, unsigned fn, uint32_t flow, const struct efe_send *send,
                      uint32_t bytes, uint64_t tag)
{
    struct efe efe = rnic_flow_efe(card);
    efe_commit(&efe, rnic_state(card)->now, flow, send, bytes, tag);
    if (fn < rnic_state(card)->config.functions && send->type == EFE_DATA) {
        rnic_count(card, fn, RNIC_COUNT_TX_FRAMES, 1);
        rnic_count(card, fn, RNIC_COUNT_TX_BYTES, bytes);
    }
}

void rnic_flow_terminate(struct rnic_card *card, unsigned fn, uint32_t flow, uint8_t *payload, uint16_t to_qp,
                         uint16_t from_qp, const uint8_t *content, uint32_t bytes)
{
    struct vipl_ddp ddp = {
        .last = true, .op = VIPL_RDMAP_TERMINATE, .queue = VIPL_DDP_QUEUE_TERMINATE, .msn = 1};
    struct efe_send send = {
        .type = EFE_DATA, .flags = EFE_FIRST | EFE_LAST, .to_qp = to_qp, .from_qp = from_qp, .left = bytes};
    vipl_ddp_write(payload, &ddp);
    memcpy(payload + VIPL_DDP_UNTAGGED_BYTES, content, bytes);
    rnic_flow_commit(card, fn, flow, &send, VIPL_DDP_UNTAGGED_BYTES + bytes, 0);
}
