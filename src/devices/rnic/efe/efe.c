/* SPDX-License-Identifier: MIT */
/* EFE's public functions: the area, functions of the adapter, flows as the layer above sees them,
 * wire and clock. */
#include "devices/rnic/efe/efe.h"

#include <string.h>

#include "devices/rnic/efe/credit.h"
#include "devices/rnic/efe/flow.h"
#include "devices/rnic/efe/layout.h"
#include "devices/rnic/efe/path.h"
#include "devices/rnic/efe/rng.h"
#include "devices/rnic/efe/send.h"
#include "devices/rnic/efe/state.h"
#include "devices/rnic/efe/table.h"

enum { AREA_ALIGNMENT = 64, GROUP_MAC = 1 };

/* --- The area --- */

static uint64_t area_part(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + AREA_ALIGNMENT - 1) / AREA_ALIGNMENT * AREA_ALIGNMENT;
    return at;
}

/* Sets where things are; returns the area's bytes. */
static size_t area_lay_out(struct efe_state *s, const struct efe_config *config)
{
    uint64_t end = 0, flows = config->flows;
    for (s->buckets = 1; s->buckets < flows; s->buckets *= 2) {
    }
    area_part(&end, sizeof *s);
    s->flows_at = area_part(&end, flows * sizeof(struct efe_flow));
    s->paths_at = area_part(&end, flows * sizeof(struct efe_path));
    s->flow_hash_at = area_part(&end, s->buckets * sizeof(uint32_t));
    s->path_hash_at = area_part(&end, s->buckets * sizeof(uint32_t));
    s->heap_at = area_part(&end, 2 * flows * sizeof(uint32_t));
    s->places_at = area_part(&end, 2 * flows * sizeof(uint32_t));
    s->due_at = area_part(&end, 2 * flows * sizeof(uint64_t));
    s->slots_at = area_part(&end, config->frames * sizeof(struct efe_slot));
    s->frames_at = area_part(&end, rnic_frames_bytes(config->frames, config->mtu));
    return (size_t)end;
}

size_t efe_bytes(const struct efe_config *config)
{
    struct efe_state s;
    return area_lay_out(&s, config);
}

void efe_init(struct efe *efe, void *area, const struct efe_config *config, const struct efe_host *host,
              void *context)
{
    efe_attach(efe, area, host, context);
    struct efe_state *s = efe_state(efe);
    s->config = *config;
    area_lay_out(s, config);
    s->random = config->seed;
    s->hash_seed = rnic_rng_next(&s->random);
    s->blocked_first = s->pool_first = s->pool_last = EFE_NONE;
    rnic_frames_init(efe_frames(s), config->frames, config->mtu);
    efe_timer_init(s);
    efe_table_init(s);
}

void efe_attach(struct efe *efe, void *area, const struct efe_host *host, void *context)
{
    *efe = (struct efe){.area = area, .host = host, .context = context};
}

static bool knows_structures(void)
{
    return rnic_layout_efe.bytes == sizeof(struct efe_state) &&
           rnic_layout_efe_flow.bytes == sizeof(struct efe_flow) &&
           rnic_layout_efe_path.bytes == sizeof(struct efe_path) &&
           rnic_layout_efe_slot.bytes == sizeof(struct efe_slot);
}

bool efe_swap(void *area, const struct efe_config *config)
{
    struct efe_state *s = area;
    struct efe_state here = {.config = *config};
    uint64_t flows = config->flows;
    area_lay_out(&here, config);
    if (!knows_structures()) {
        return false;
    }
    rnic_layout_swap(&rnic_layout_efe, s, 1);
    if (s->buckets != here.buckets || s->flows_at != here.flows_at || s->frames_at != here.frames_at) {
        return false;
    }
    rnic_layout_swap(&rnic_layout_efe_flow, efe_flow(s, 0), flows);
    rnic_layout_swap(&rnic_layout_efe_path, efe_path(s, 0), flows);
    rnic_layout_swap(&rnic_layout_efe_slot, efe_slot(s, 0), config->frames);
    rnic_layout_swap_numbers((char *)s + s->flow_hash_at, s->buckets, 4);
    rnic_layout_swap_numbers((char *)s + s->path_hash_at, s->buckets, 4);
    rnic_layout_swap_numbers((char *)s + s->heap_at, 2 * flows, 4);
    rnic_layout_swap_numbers((char *)s + s->places_at, 2 * flows, 4);
    rnic_layout_swap_numbers((char *)s + s->due_at, 2 * flows, 8);
    return rnic_frames_swap(efe_frames(s), config->frames, config->mtu);
}

const struct efe_counters *efe_counted(const struct efe *efe)
{
    return &efe_state(efe)->counters;
}

/* --- Functions --- */

void efe_function_enable(struct efe *efe, uint16_t fn)
{
    struct efe_state *s = efe_state(efe);
    if (fn < s->config.functions) {
        s->enabled[fn] = 1;
    }
}

void efe_function_reset(struct efe *efe, uint64_t now, uint16_t fn)
{
    struct efe_state *s = efe_state(efe);
    if (fn < s->config.functions) {
        s->enabled[fn] = 0;
    }
    for (uint32_t i = 0; i < s->config.flows; i++) {
        struct efe_flow *flow = efe_flow(s, i);
        if (flow->state == EFE_FLOW_OPEN && flow->local_fn == fn) {
            efe_life_end(efe, now, flow, EFE_DEAD_LOCAL);
        } else if (flow->state == EFE_FLOW_LEFT && flow->local_fn == fn) {
            efe_life_finish(efe, flow, EFE_DEAD_LOCAL);
        }
    }
    efe_credit_notify(efe);
}

/* --- Flows --- */

/* NULL: there is no such open flow. */
static struct efe_flow *flow_at(const struct efe *efe, uint32_t index)
{
    const struct efe_state *s = efe_state(efe);
    if (index >= s->config.flows || efe_flow(s, index)->state != EFE_FLOW_OPEN) {
        return NULL;
    }
    return efe_flow(s, index);
}

uint32_t efe_open(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                  uint16_t remote_fn)
{
    struct efe_state *s = efe_state(efe);
    if (local_fn != EFE_ADAPTER && (local_fn >= s->config.functions || !s->enabled[local_fn])) {
        return EFE_NO_FLOW;
    }
    struct efe_flow *flow = efe_table_find(s, local_fn, remote_mac, remote_fn);
    if (flow == NULL) {
        flow = efe_life_begin(efe, now, local_fn, remote_mac, remote_fn);
    }
    return flow == NULL ? EFE_NO_FLOW : efe_index(s, flow);
}

void efe_hold(struct efe *efe, uint32_t index)
{
    struct efe_flow *flow = flow_at(efe, index);
    if (flow != NULL) {
        flow->users++;
        efe_send_refresh(efe_state(efe), flow);
    }
}

void efe_release(struct efe *efe, uint32_t index)
{
    struct efe_flow *flow = flow_at(efe, index);
    if (flow != NULL && flow->users > 0) {
        flow->users--;
        efe_send_refresh(efe_state(efe), flow);
    }
}

void efe_ends_of(const struct efe *efe, uint32_t index, struct efe_ends *out)
{
    const struct efe_flow *flow = efe_flow(efe_state(efe), index);
    memcpy(out->remote_mac, flow->remote_mac, sizeof(out->remote_mac));
    out->local_fn = flow->local_fn;
    out->remote_fn = flow->remote_fn;
}

void efe_describe(const struct efe *efe, uint32_t index, struct efe_flow_info *out)
{
    const struct efe_flow *flow = flow_at(efe, index);
    *out = (struct efe_flow_info){.users = 0};
    if (flow == NULL) {
        return;
    }
    const struct efe_path *path = efe_path_of(efe_state(efe), flow);
    memcpy(out->remote_mac, flow->remote_mac, 6);
    out->local_fn = flow->local_fn;
    out->remote_fn = flow->remote_fn;
    out->users = flow->users;
    out->outstanding = efe_outstanding(flow);
    out->kept = flow->kept;
    out->peer_window = efe_ahead(flow->first, flow->edge) > 0 ? flow->edge - flow->first : 0;
    out->rtt_ns = path->rtt;
    out->base_rtt_ns = efe_path_base(path);
    out->congestion = path->window;
    out->in_flight = path->in_flight;
}

/* --- Sending --- */

uint8_t *efe_reserve(struct efe *efe, uint32_t index)
{
    struct efe_state *s = efe_state(efe);
    struct efe_flow *flow = flow_at(efe, index);
    if (flow == NULL) {
        return NULL;
    }
    uint32_t slot = efe_credit_reserve(s, flow);
    efe_send_refresh(s, flow);
    return slot == EFE_NONE ? NULL : rnic_frames_at(efe_frames(s), slot) + EFE_PAYLOAD_AT;
}

void efe_commit(struct efe *efe, uint64_t now, uint32_t index, const struct efe_send *send,
                uint32_t payload_bytes, uint64_t tag)
{
    struct efe_state *s = efe_state(efe);
    struct efe_flow *flow = flow_at(efe, index);
    if (flow == NULL || flow->reserved == EFE_NONE || payload_bytes > efe_payload_max(s->config.mtu) ||
        !efe_type_is_numbered(send->type)) {
        return;
    }
    struct efe_slot *slot = efe_slot(s, flow->reserved);
    slot->state = EFE_SLOT_QUEUED;
    slot->tag = tag;
    slot->header = (struct efe_header){.type = send->type,
                                       .flags = send->flags & (EFE_FIRST | EFE_LAST | EFE_ACK_NOW),
                                       .payload_bytes = (uint16_t)payload_bytes,
                                       .sequence = flow->end,
                                       .to_qp = send->to_qp,
                                       .from_qp = send->from_qp,
                                       .left = send->left,
                                       .message = send->message};
    flow->valid_at = efe_outstanding(flow) > 0 ? flow->valid_at : now;
    *efe_outgoing(flow, flow->end++) = flow->reserved;
    flow->reserved = EFE_NONE;
    efe_send_schedule(s, flow);
    efe_send_pump(efe, now, efe_path_of(s, flow));
    efe_ack_watch_window(s, now, flow);
    efe_send_refresh(s, flow);
}

void efe_cancel(struct efe *efe, uint32_t index)
{
    struct efe_state *s = efe_state(efe);
    struct efe_flow *flow = flow_at(efe, index);
    if (flow != NULL && flow->reserved != EFE_NONE) {
        efe_credit_release(s, flow->reserved);
        flow->reserved = EFE_NONE;
        efe_send_refresh(s, flow);
    }
}

static void resume_open(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    efe_receive_deliver(efe, flow);
    if (!flow->refused) {
        efe_send_ack(efe, now, flow); /* the window is open again */
    }
    efe_send_refresh(efe_state(efe), flow);
    efe_credit_notify(efe);
}

static void resume_left(struct efe *efe, struct efe_flow *flow)
{
    efe_receive_deliver(efe, flow);
    if (!flow->refused) {
        efe_life_finish(efe, flow, (enum efe_death)flow->death);
    }
}

void efe_resume(struct efe *efe, uint64_t now, uint32_t index)
{
    struct efe_state *s = efe_state(efe);
    struct efe_flow *flow = index < s->config.flows ? efe_flow(s, index) : NULL;
    if (flow == NULL || !flow->refused) {
        return;
    }
    if (flow->state == EFE_FLOW_OPEN) {
        resume_open(efe, now, flow);
    } else if (flow->state == EFE_FLOW_LEFT) {
        resume_left(efe, flow);
    }
}

/* --- Wire and clock --- */

void efe_receive(struct efe *efe, uint64_t now, const uint8_t *frame, uint32_t bytes)
{
    struct efe_state *s = efe_state(efe);
    struct efe_header header;
    s->counters.received++;
    enum efe_fault fault = efe_frame_read(frame, bytes, &header);
    if (fault != EFE_FRAME_OK) {
        s->counters.faults[fault]++;
    } else if (memcmp(header.to_mac, s->config.mac, 6) != 0 || (header.from_mac[0] & GROUP_MAC) != 0 ||
               header.payload_bytes > efe_payload_max(s->config.mtu)) {
        s->counters.not_ours++;
    } else {
        efe_receive_frame(efe, now, &header, frame);
        efe_credit_notify(efe);
    }
}

void efe_unblock(struct efe *efe, uint64_t now)
{
    struct efe_state *s = efe_state(efe);
    uint32_t index = s->blocked_first;
    s->blocked_first = EFE_NONE;
    while (index != EFE_NONE) {
        struct efe_path *path = efe_path(s, index);
        index = path->blocked_next;
        path->blocked = false;
        efe_send_pump(efe, now, path);
    }
}

/* A timer that ends late says that this adapter stood still: its process was stopped, or its host
 * was. In that time the peer could not be heard, so that its silence then means nothing. */
static void skip_standstill(struct efe_flow *flow, uint64_t due, uint64_t now)
{
    uint64_t valid_at = flow->valid_at + (now - due);
    flow->valid_at = valid_at < now ? valid_at : now;
}

static void advance_flow(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    if (flow->state != EFE_FLOW_OPEN) {
        efe_life_repeat(efe, now, flow);
        return;
    }
    skip_standstill(flow, efe_timer_due(s, efe_index(s, flow)), now);
    if (now >= efe_send_dead_at(flow)) {
        s->counters.died++;
        efe_life_end(efe, now, flow, EFE_DEAD_SILENT);
        return;
    }
    efe_ack_timer(efe, now, flow);
    efe_send_refresh(s, flow);
}

void efe_advance(struct efe *efe, uint64_t now)
{
    struct efe_state *s = efe_state(efe);
    uint32_t timer;
    while ((timer = efe_timer_first(s)) != EFE_NONE && efe_timer_due(s, timer) <= now) {
        if (timer < s->config.flows) {
            advance_flow(efe, now, efe_flow(s, timer));
        } else {
            efe_send_pump(efe, now, efe_path(s, timer - s->config.flows));
        }
    }
    efe_credit_notify(efe);
}

uint64_t efe_deadline(const struct efe *efe)
{
    const struct efe_state *s = efe_state(efe);
    uint32_t timer = efe_timer_first(s);
    if (s->pool_freed && s->pool_count > 0) {
        return 0; /* a flow is to be told of room */
    }
    return timer == EFE_NONE ? EFE_NEVER : efe_timer_due(s, timer);
}
