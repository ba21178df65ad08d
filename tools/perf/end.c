/* SPDX-License-Identifier: MIT */
/*
 * One connected VI and what it works with; see struct perf_end. Everything is allocated when the
 * end is created: posting and reaping touch only descriptors and counters.
 *
 * The receive queue is kept full: `receive_count` descriptors, of which twice the depth are for
 * measured messages (the peer's credits see to that) and PERF_SPARE_RECEIVES for notes. Without
 * verification the receive buffers are shared; the protocol never has two payloads that matter in
 * flight to one end at a time.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Slots a verified session needs one of a message, others but two. */
static uint32_t slots_of(const struct perf_shape *shape, uint32_t verified)
{
    return shape->verify && verified > 2 ? verified : 2;
}

static uint32_t receives_of(const struct perf_shape *shape)
{
    return round_up(2 * shape->depth, shape->connections) + PERF_SPARE_RECEIVES;
}

static uint32_t stride_of(const struct perf_shape *shape)
{
    return round_up(shape->size < PERF_MESSAGE_BYTES ? PERF_MESSAGE_BYTES : shape->size, 64);
}

bool perf_shape_fits(const struct perf_shape *shape)
{
    uint64_t slots;

    if (shape->size == 0 || shape->size > PERF_MAX_SIZE || shape->depth == 0 ||
        shape->depth > PERF_MAX_DEPTH || shape->connections == 0 ||
        shape->connections > PERF_MAX_CONNECTIONS) {
        return false;
    }
    slots = (uint64_t)slots_of(shape, receives_of(shape)) + slots_of(shape, shape->depth) * UINT64_C(3);
    return slots * stride_of(shape) <= PERF_MAX_MEMORY;
}

bool perf_end_create_vis(struct perf_end *end, bool cq, uint32_t connections, VIP_VI_ATTRIBUTES *attributes)
{
    VIP_RETURN rc = VIP_SUCCESS;

    end->vis = calloc(connections, sizeof(VIP_VI_HANDLE));
    end->taken = calloc(connections, sizeof(*end->taken));
    if (end->vis == NULL || end->taken == NULL) {
        tool_complain("no memory");
        return false;
    }
    if (cq) {
        rc = VipCreateCQ(end->nic, 4 * PERF_MAX_DEPTH + connections, &end->cq);
    }
    while (rc == VIP_SUCCESS && end->connections < connections) {
        rc = VipCreateVi(end->nic, attributes, end->cq, end->cq, &end->vis[end->connections]);
        end->connections += rc == VIP_SUCCESS;
    }
    end->vi = end->vis[0];
    if (rc != VIP_SUCCESS) {
        tool_complain_rc(end->vi == NULL && cq ? "VipCreateCQ or VipCreateVi" : "VipCreateVi", rc);
    }
    return rc == VIP_SUCCESS;
}

/* Cut the registered memory into descriptors and buffers. */
static void lay_out_ring(struct perf_end *end, uint32_t sends)
{
    unsigned char *at = end->ring.base;

    end->receives = (VIP_DESCRIPTOR *)(void *)at;
    end->sends = end->receives + end->receive_count;
    end->notes = end->sends + sends;
    at = (unsigned char *)(end->notes + PERF_NOTES);
    end->note_base = at;
    at += PERF_NOTES * PERF_MESSAGE_BYTES;
    end->receive_base = at;
    at += (size_t)end->receive_slots * end->stride;
    end->local_base = at;
}

static bool create_memory(struct perf_end *end)
{
    uint32_t sends = end->shape.depth > 2 ? end->shape.depth : 2;
    size_t descriptors = end->receive_count + sends + PERF_NOTES;
    size_t bytes = descriptors * sizeof(VIP_DESCRIPTOR) + PERF_NOTES * PERF_MESSAGE_BYTES +
                   (size_t)end->stride * (end->receive_slots + end->local_slots);

    if (!tool_mem_create(end->nic, bytes, false, false, &end->ring)) {
        return false;
    }
    lay_out_ring(end, sends);
    end->held_room = end->receive_count + sends + PERF_NOTES;
    end->held = calloc(end->held_room, sizeof(*end->held));
    if (end->held == NULL) {
        tool_complain("no memory");
        return false;
    }
    return !end->shape.rdma ||
           tool_mem_create(end->nic, (size_t)end->stride * end->window_slots * 2, true, true, &end->window);
}

/* The VI that a receive is posted to each time: each has its share of those for measured messages,
 * the first one all others. */
static uint32_t vi_of(const struct perf_end *end, const VIP_DESCRIPTOR *receive)
{
    uint32_t index = (uint32_t)(receive - end->receives);

    return index + PERF_SPARE_RECEIVES < end->receive_count ? index % end->connections : 0;
}

static bool post_receives(struct perf_end *end)
{
    for (uint32_t i = 0; i < end->receive_count; i++) {
        unsigned char *slot = end->receive_base + (size_t)(i % end->receive_slots) * end->stride;
        VIP_RETURN rc;

        tool_desc_local(&end->receives[i], 0, slot, end->ring.handle, end->stride);
        rc = VipPostRecv(end->vis[vi_of(end, &end->receives[i])], &end->receives[i], end->ring.handle);
        if (rc != VIP_SUCCESS) {
            tool_complain_rc("VipPostRecv", rc);
            return false;
        }
    }
    return true;
}

bool perf_end_create_rings(struct perf_end *end, const struct perf_shape *shape)
{
    end->shape = *shape;
    end->stride = stride_of(shape);
    end->receive_count = receives_of(shape);
    end->receive_slots = slots_of(shape, end->receive_count);
    end->local_slots = slots_of(shape, shape->depth);
    end->window_slots = slots_of(shape, shape->depth);
    return create_memory(end) && post_receives(end);
}

bool perf_end_create(struct perf_end *end, const struct perf_shape *shape, VIP_VI_ATTRIBUTES *attributes)
{
    return perf_end_create_vis(end, shape->cq, shape->connections, attributes) &&
           perf_end_create_rings(end, shape);
}

void perf_end_destroy(struct perf_end *end)
{
    for (uint32_t i = 0; i < end->connections; i++) {
        tool_vi_destroy(end->vis[i]);
    }
    if (end->cq != NULL) {
        VipDestroyCQ(end->cq);
    }
    tool_mem_destroy(&end->ring);
    tool_mem_destroy(&end->window);
    free(end->held);
    free(end->vis);
    free(end->taken);
    memset(end, 0, sizeof(*end));
}

unsigned char *perf_received(const VIP_DESCRIPTOR *desc)
{
    return (unsigned char *)(uintptr_t)desc->DS[0].Local.Data.AddressBits;
}

unsigned char *perf_window_slot(const struct perf_end *end, uint32_t slot)
{
    return end->window.base + (size_t)slot * end->stride;
}

static unsigned char *local_slot(const struct perf_end *end, uint32_t turn)
{
    return end->local_base + (size_t)(turn % end->local_slots) * end->stride;
}

unsigned char *perf_next_local(const struct perf_end *end)
{
    return local_slot(end, end->turn);
}

/* ---- preparing a run ------------------------------------------------------------------------- */

static void lay_out_send(struct perf_end *end, const struct perf_run *run, uint32_t turn)
{
    VIP_DESCRIPTOR *desc = &end->sends[turn];
    unsigned char *local = local_slot(end, turn);
    uint32_t slot = end->peer.slots > 0 ? turn % end->peer.slots : 0;
    bool announced = run->test == PERF_LAT && run->block;

    if (run->op == PERF_SEND) {
        tool_desc_local(desc, VIP_CONTROL_OP_SENDRECV, local, end->ring.handle, run->size);
    } else if (run->op == PERF_WRITE) {
        tool_desc_rdma(desc, VIP_CONTROL_OP_RDMAWRITE | (announced ? VIP_CONTROL_IMMEDIATE : 0u),
                       end->peer.address + (uint64_t)slot * end->peer.stride, end->peer.handle, local,
                       end->ring.handle, run->size);
        desc->CS.ImmediateData = announced ? (uint32_t)PERF_KIND_WRITTEN << 24 : 0;
    } else {
        tool_desc_rdma(desc, VIP_CONTROL_OP_RDMAREAD,
                       end->peer.address + (uint64_t)(slot + end->peer.slots) * end->peer.stride,
                       end->peer.handle, local, end->ring.handle, run->size);
    }
}

/* Zero what RDMA Writes will arrive in, fill what RDMA Reads will fetch. */
static void prepare_window(struct perf_end *end, const struct perf_run *run)
{
    for (uint32_t slot = 0; slot < end->window_slots; slot++) {
        perf_window_slot(end, slot)[run->size - 1] = 0;
        if (run->verify && run->op == PERF_READ) {
            tool_pattern_fill(perf_window_slot(end, slot + end->window_slots), run->size,
                              perf_slot_seed(slot));
        }
    }
}

void perf_prepare(struct perf_end *end, const struct perf_run *run)
{
    end->block = run->block;
    end->turn = 0;
    end->next_vi = 0;
    end->in_order = 0;
    memset(end->taken, 0, end->connections * sizeof(*end->taken));
    end->turns = run->test == PERF_LAT ? 2 : end->shape.depth;
    for (uint32_t turn = 0; turn < end->turns; turn++) {
        lay_out_send(end, run, turn);
    }
    if (run->op != PERF_SEND && end->window.base != NULL) {
        prepare_window(end, run);
    }
}

/* ---- posting --------------------------------------------------------------------------------- */

VIP_RETURN perf_repost(struct perf_end *end, VIP_DESCRIPTOR *desc)
{
    desc->CS.Length = end->stride;
    return VipPostRecv(end->vis[vi_of(end, desc)], desc, end->ring.handle);
}

uint32_t perf_count_received(struct perf_end *end, const VIP_DESCRIPTOR *desc)
{
    uint64_t before = end->in_order;

    end->taken[vi_of(end, desc)]++;
    while (end->taken[end->in_order % end->connections] > end->in_order / end->connections) {
        end->in_order++;
    }
    return (uint32_t)(end->in_order - before);
}

VIP_RETURN perf_post(struct perf_end *end)
{
    VIP_DESCRIPTOR *desc = &end->sends[end->turn];
    VIP_VI_HANDLE vi = end->vis[end->next_vi];

    end->turn = end->turn + 1 < end->turns ? end->turn + 1 : 0;
    end->next_vi = end->next_vi + 1 < end->connections ? end->next_vi + 1 : 0;
    end->data_out++;
    return VipPostSend(vi, desc, end->ring.handle);
}

/* The next control descriptor, its send reaped; with the bytes that belong to it. */
static VIP_RETURN take_note(struct perf_end *end, VIP_DESCRIPTOR **desc, unsigned char **bytes)
{
    VIP_RETURN rc = VIP_SUCCESS;

    while (rc == VIP_SUCCESS && end->notes_out == PERF_NOTES) {
        rc = perf_reap_one(end, true);
    }
    *desc = &end->notes[end->note_turn];
    *bytes = end->note_base + (size_t)end->note_turn * PERF_MESSAGE_BYTES;
    end->note_turn = (end->note_turn + 1) % PERF_NOTES;
    return rc;
}

static VIP_RETURN post_note(struct perf_end *end, VIP_DESCRIPTOR *desc, enum perf_kind kind, uint32_t value)
{
    desc->CS.Control = VIP_CONTROL_IMMEDIATE;
    desc->CS.ImmediateData = (uint32_t)kind << 24 | (value & PERF_VALUE_MASK);
    end->notes_out++;
    return VipPostSend(end->vi, desc, end->ring.handle);
}

VIP_RETURN perf_note(struct perf_end *end, enum perf_kind kind, uint32_t value)
{
    VIP_DESCRIPTOR *desc;
    unsigned char *bytes;
    VIP_RETURN rc = take_note(end, &desc, &bytes);

    if (rc != VIP_SUCCESS) {
        return rc;
    }
    tool_desc_empty(desc, 0);
    return post_note(end, desc, kind, value);
}

VIP_RETURN perf_send_message(struct perf_end *end, const struct perf_message *message)
{
    VIP_DESCRIPTOR *desc;
    unsigned char *bytes;
    VIP_RETURN rc = take_note(end, &desc, &bytes);

    if (rc != VIP_SUCCESS) {
        return rc;
    }
    perf_message_encode(message, bytes);
    tool_desc_local(desc, 0, bytes, end->ring.handle, PERF_MESSAGE_BYTES);
    return post_note(end, desc, PERF_KIND_MESSAGE, 0);
}
