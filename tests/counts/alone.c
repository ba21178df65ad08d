/* SPDX-License-Identifier: MIT */
/* Both ends in one process and on one NIC handle. */
#include "counts.h"

#include <poll.h>

#include "tool_text.h"

static bool reap(VIP_VI_HANDLE vi, bool receive)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc = VIP_NOT_DONE;

    for (unsigned polls = 0; rc == VIP_NOT_DONE && polls < COUNTS_MAX_POLLS; polls++) {
        rc = receive ? VipRecvDone(vi, &desc) : VipSendDone(vi, &desc);
    }
    return counts_right(receive ? "VipRecvDone" : "VipSendDone", rc);
}

/* What the completion queue names next is taken from there. `wait`: by a wait that finds it at
 * once. */
static bool reap_named(VIP_CQ_HANDLE cq, bool wait)
{
    struct pollfd fd = {.fd = -1, .events = POLLIN};
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    VIP_RETURN rc = VIP_NOT_DONE;

    for (unsigned polls = 0; rc == VIP_NOT_DONE && polls < COUNTS_MAX_POLLS; polls++) {
        rc = wait ? VipxCQWaitFds(cq, &fd, 1, COUNTS_TIMEOUT_MS, NULL, &vi, &is_receive)
                  : VipCQDone(cq, &vi, &is_receive);
    }
    return counts_right(wait ? "VipxCQWaitFds" : "VipCQDone", rc) && reap(vi, is_receive != VIP_FALSE);
}

static bool post(struct counts_end *end)
{
    return counts_right("VipPostSend", VipPostSend(end->vi, end->memory.sends, end->memory.handle));
}

static bool send_one(struct counts_end *one, struct counts_end *other)
{
    struct counts_memory *memory = &other->memory;

    if (!counts_right("VipPostRecv", VipPostRecv(other->vi, memory->receives, memory->handle)) ||
        !post(one)) {
        return false;
    }
    if (one->cq != NULL) {
        return reap_named(one->cq, one->plan->waits) && reap_named(other->cq, one->plan->waits);
    }
    return reap(one->vi, false) && reap(other->vi, true);
}

static bool move_one(struct counts_end *one, struct counts_end *other)
{
    VIP_DESCRIPTOR *desc;

    switch (one->plan->op) {
    case COUNTS_SEND:
        return send_one(one, other);
    case COUNTS_WRITE:
    case COUNTS_READ:
        return post(one) && (one->cq != NULL ? reap_named(one->cq, one->plan->waits) : reap(one->vi, false));
    case COUNTS_POLL:
        return VipRecvDone(other->vi, &desc) == VIP_NOT_DONE;
    default:
        tool_complain("that takes two processes");
        return false;
    }
}

static bool move(struct counts_end *one, struct counts_end *other)
{
    for (uint32_t i = 0; i < one->plan->messages; i++) {
        if (!move_one(one, other)) {
            return false;
        }
    }
    return true;
}

bool counts_run_alone(const struct counts_plan *plan)
{
    struct counts_end one;
    struct counts_end other;

    if (!counts_end_create(plan, NULL, &one) || !counts_end_create(plan, one.nic, &other) ||
        !counts_connect_both(&one, &other)) {
        return false;
    }
    counts_write_sends(&one);
    tool_desc_local(other.memory.receives, 0, other.memory.in, other.memory.handle, plan->size);
    counts_stop_clock();
    for (uint32_t part = 0; part <= plan->parts; part++) { /* the first is for what happens once */
        counts_mark(part > 0);
        if (!move(&one, &other)) {
            return false;
        }
        counts_mark(false);
    }
    return true;
}
