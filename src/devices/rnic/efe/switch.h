/* SPDX-License-Identifier: MIT */
/*
 * The adapter's embedded switch: frames for its own MAC wait in a bounded queue of the function
 * that they are for, others leave by the wire. An impairment may lie on both ways. Nothing is
 * dropped but by the impairment: a sender is told that a queue is full.
 *
 * Pure and deterministic; all state lies in an area without pointers. A callback must not call the
 * switch, except that arrive() may cause rnic_switch_send().
 */
#ifndef DEVICES_RNIC_EFE_SWITCH_H
#define DEVICES_RNIC_EFE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/rnic/efe/impair.h"

struct rnic_switch_config {
    uint32_t functions; /* 1 to 256; the adapter itself has a queue besides */
    /* 16 to 1,048,576: that wait in queues or are held by the impairment, together */
    uint32_t frames;
    uint32_t mtu; /* 576 to 9,000 */
    uint8_t mac[6];
    struct rnic_impair_config impair;
};

struct rnic_switch_host {
    /* The frame leaves by the wire. */
    void (*transmit)(void *context, const uint8_t *frame, uint32_t bytes);
    /* The frame is for this adapter. */
    void (*arrive)(void *context, const uint8_t *frame, uint32_t bytes);
};

struct rnic_switch {
    void *area;
    const struct rnic_switch_host *host;
    void *context; /* of the callbacks */
};

struct rnic_switch_counters {
    uint64_t local;   /* frames that arrived at a function of this adapter */
    uint64_t left;    /* by the wire */
    uint64_t refused; /* for want of room: the sender keeps them */
    uint64_t lost;    /* by the impairment, as the next three */
    uint64_t doubled;
    uint64_t corrupted;
    uint64_t overflow; /* its queue, or the switch's frames, were full */
};

/* A multiple of 64. */
size_t rnic_switch_bytes(const struct rnic_switch_config *config);
/* Starts the switch. `area`: rnic_switch_bytes() zeroed bytes, aligned to 64. */
void rnic_switch_init(struct rnic_switch *sw, void *area, const struct rnic_switch_config *config,
                      const struct rnic_switch_host *host, void *context);
/* An area that was in use before, or a copy of one. */
void rnic_switch_attach(struct rnic_switch *sw, void *area, const struct rnic_switch_host *host,
                        void *context);
/* Turns an area that a CPU of the other byte order has saved into one of this CPU. Returns false
 * if it is not an area of this configuration, or this CPU has other structures. */
bool rnic_switch_swap(void *area, const struct rnic_switch_config *config);
/* Another wire from now on; what is on its way stays so. */
void rnic_switch_impair(struct rnic_switch *sw, const struct rnic_impair_config *impair);

/*
 * Takes a frame of EFE that this adapter sends. False: no room now; there may be after the next
 * rnic_switch_advance(). A frame that is longer than the MTU allows, or shorter than its headers,
 * is taken and counted as lost. `ready`: when the adapter has finished making the frame; `now`, or
 * later.
 */
bool rnic_switch_send(struct rnic_switch *sw, uint64_t now, uint64_t ready, const uint8_t *frame,
                      uint32_t bytes);
/*
 * Takes a frame of a raw queue pair, which may be longer by a VLAN's tag and shorter than EFE's
 * headers. What is for this adapter and not EFE's waits in the queue of the adapter itself.
 */
bool rnic_switch_send_raw(struct rnic_switch *sw, uint64_t now, uint64_t ready, const uint8_t *frame,
                          uint32_t bytes);
/* Returns from when on rnic_switch_send_raw() takes such a frame and does not lose it for want of
 * room. Half of the buffers are for EFE alone. 0: at any time. UINT64_MAX: when frames have been
 * handed out. */
uint64_t rnic_switch_room(const struct rnic_switch *sw, const uint8_t *frame, uint32_t bytes);
/*
 * Takes a frame that has come by the wire into the queue of its function, or of the adapter, from
 * which rnic_switch_advance() hands it out. Without a free buffer the frame is lost. Returns false,
 * and takes nothing, if the frame is longer than the MTU allows or shorter than its headers, EFE's
 * included if it is EFE's.
 */
bool rnic_switch_take(struct rnic_switch *sw, const uint8_t *frame, uint32_t bytes);
/* Lets what is due leave or join its queue, then hands out at most `most` frames of the queues,
 * function by function. Returns how many it handed out. */
uint32_t rnic_switch_advance(struct rnic_switch *sw, uint64_t now, uint32_t most);
/* When something is due: 0: at once; UINT64_MAX: nothing is. `takes`: the adapter takes frames out
 * of the queues now; otherwise these are left out. */
uint64_t rnic_switch_deadline(const struct rnic_switch *sw, bool takes);
const struct rnic_switch_counters *rnic_switch_counted(const struct rnic_switch *sw);

#endif
