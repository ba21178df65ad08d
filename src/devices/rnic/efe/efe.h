/* SPDX-License-Identifier: MIT */
/*
 * EFE: flows of frames between two functions of adapters. Frames are delivered in order and exactly
 * once, over a wire that may lose, duplicate, reorder and corrupt them; docs/rnic/efe.md is the
 * specification. A flow joins (function, MAC) here to (function, MAC) there, which may be the same
 * adapter. A flow is created when either side sends, and ends by a reset or when the peer is silent
 * for too long.
 *
 * EFE is pure and deterministic: all state lies in an area without pointers, which may be saved and
 * restored byte for byte between two calls. Callers pass the time, in nanoseconds, which never
 * decreases. One thread at a time.
 *
 * Callbacks may call efe_open(), efe_hold(), efe_release(), efe_reserve(), efe_commit(),
 * efe_cancel() and the functions that only read; nothing else. transmit() may call nothing.
 */
#ifndef DEVICES_RNIC_EFE_EFE_H
#define DEVICES_RNIC_EFE_EFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/rnic/efe/frame.h"

enum { EFE_NO_FLOW = 0xFFFFFFFF };

struct efe_config {
    uint32_t functions; /* 1 to 256, besides EFE_ADAPTER */
    uint32_t flows;     /* 1 to 65,536 */
    /* 16 to 1,048,576: buffers for frames that are not acknowledged and for frames out of order */
    uint32_t frames;
    uint32_t mtu; /* 576 to 9,000 */
    uint8_t mac[6];
    uint64_t seed;
    bool simulated;       /* shorter minima of the timers, because only the wire takes time */
    uint32_t first_epoch; /* of each flow, for tests of wrapping numbers; 0: random */
};

/* Why a flow died. */
enum efe_death {
    /* no valid frame came for five seconds while something was outstanding or a frame was
     * missing */
    EFE_DEAD_SILENT,
    EFE_DEAD_RESET, /* the peer has ended the flow, or does not know it any more */
    EFE_DEAD_LOCAL  /* efe_function_reset() */
};

/* The callbacks of EFE. */
struct efe_host {
    /* Passes a whole frame to the switch. Returns false if the switch has no room; EFE then keeps
     * the frame until efe_unblock(). */
    bool (*transmit)(void *context, const uint8_t *frame, uint32_t bytes);
    /*
     * Delivers the next numbered frame of a flow, once. Returns false if the layer above has no
     * room; EFE then keeps the frame, closes the flow's window and delivers the frame again at
     * efe_resume(). Payload and header are valid during the call only.
     */
    bool (*deliver)(void *context, uint32_t index, const struct efe_header *header, const uint8_t *payload);
    /* The frame that was committed with this tag, and all frames before it, are in the memory of
     * the adapter at the other end. Called in order of commit. */
    void (*acknowledged)(void *context, uint32_t flow, uint64_t tag);
    /* Called once after efe_reserve() has failed for this flow, when it would succeed. Another flow
     * may take the buffer first. */
    void (*room)(void *context, uint32_t flow);
    /*
     * The flow has ended: its frames are dropped, acknowledged or not. After this call its number
     * may name another flow. Frames that were received and acknowledged before the peer ended are
     * delivered first, if the flow has users; no frame can be sent meanwhile.
     */
    void (*dead)(void *context, uint32_t flow, enum efe_death why);
};

/* EFE outside its area. */
struct efe {
    void *area;
    const struct efe_host *host;
    void *context; /* the argument of the callbacks */
};

/* Counted since efe_init(). */
struct efe_counters {
    uint64_t sent;      /* frames of all types that the switch took */
    uint64_t resent;    /* of these, numbered frames sent before */
    uint64_t received;  /* all frames that arrived */
    uint64_t delivered; /* numbered frames, upwards */
    uint64_t acks;      /* sent */
    uint64_t probes;    /* sent, tail probes not counted */
    uint64_t resets_sent;
    uint64_t resets_received; /* that ended a flow */
    uint64_t timeouts;
    uint64_t faults[EFE_FAULTS]; /* bytes that are no frame */
    uint64_t not_ours;           /* another destination MAC, or a source MAC that is a group's */
    uint64_t no_function;        /* a function that is not there or not enabled */
    uint64_t unknown_epoch;      /* a frame of another life of the flow, or of no flow */
    uint64_t impossible;         /* acknowledges what was never sent, or a reset of another life */
    uint64_t outside;            /* a number outside the window */
    uint64_t duplicates;         /* numbered frames that were here already */
    /* numbered frames dropped because no buffer was free; the peer sends them again */
    uint64_t no_buffer;
    uint64_t no_flow;   /* flows that could not be opened: all are in use */
    uint64_t reclaimed; /* idle flows that were ended to make room for others */
    uint64_t silent;    /* answers withheld by the limit of their rate */
    uint64_t died;      /* flows, of silence */
};

/* A flow, for statistics and tests. */
struct efe_flow_info {
    uint8_t remote_mac[6];
    uint16_t local_fn;
    uint16_t remote_fn;
    uint32_t users;       /* efe_hold() less efe_release() */
    uint32_t outstanding; /* numbered frames committed and not acknowledged */
    uint32_t kept;        /* numbered frames that came and are not delivered */
    uint32_t peer_window; /* frames that the peer takes beyond what it has acknowledged */
    uint64_t rtt_ns;      /* smoothed, of the path: all flows to this MAC; 0: not known */
    uint64_t base_rtt_ns; /* the smallest recent one */
    uint32_t congestion;  /* the path's congestion window, in bytes */
    uint32_t in_flight;   /* bytes of the path, sent and neither acknowledged nor lost */
};

/* The two functions of a flow. */
struct efe_ends {
    uint8_t remote_mac[6];
    uint16_t local_fn;
    uint16_t remote_fn;
};

/* The fields of the header that the sender chooses. */
struct efe_send {
    uint8_t type;  /* EFE_DATA, EFE_CONTROL or EFE_MESSAGE_ACK */
    uint8_t flags; /* EFE_FIRST, EFE_LAST, EFE_ACK_NOW */
    uint16_t to_qp;
    uint16_t from_qp;
    uint32_t left;
    uint32_t message;
};

/* Returns the size of the area, a multiple of 64. */
size_t efe_bytes(const struct efe_config *config);
/* Starts EFE. `area`: efe_bytes() zeroed bytes, aligned to 64. All functions except EFE_ADAPTER are
 * disabled. */
void efe_init(struct efe *efe, void *area, const struct efe_config *config, const struct efe_host *host,
              void *context);
/* Continues with an area that was in use before, or a copy of one. */
void efe_attach(struct efe *efe, void *area, const struct efe_host *host, void *context);

/* Turns an area that a CPU of the other byte order has saved into one of this CPU. Returns false
 * if it is not an area of this configuration, or this CPU has other structures. */
bool efe_swap(void *area, const struct efe_config *config);

/* --- Functions --- */

/* Enables a function: its frames are accepted from now on. */
void efe_function_enable(struct efe *efe, uint16_t fn);
/*
 * Ends the flows of a function and disables it. Each peer is sent a reset, repeated a few times;
 * dead(EFE_DEAD_LOCAL) is called for each flow. When the function is enabled again, its frames
 * belong to new flows.
 */
void efe_function_reset(struct efe *efe, uint64_t now, uint16_t fn);

/* --- Flows --- */

/* Finds or creates a flow. If all are in use, the idle flow that was used longest ago is ended.
 * Sends nothing. EFE_NO_FLOW: no flow is free or idle, or the function is disabled. */
uint32_t efe_open(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                  uint16_t remote_fn);
/* Add and remove a user of the flow, such as a connected queue pair. A flow with users is not ended
 * to make room for others. The end of the flow removes all users. */
void efe_hold(struct efe *efe, uint32_t index);
void efe_release(struct efe *efe, uint32_t index);
void efe_describe(const struct efe *efe, uint32_t index, struct efe_flow_info *out);
/* Stores the two functions of the flow. Within dead(): those that it had. */
void efe_ends_of(const struct efe *efe, uint32_t index, struct efe_ends *out);

/*
 * Returns a buffer of efe_payload_max() bytes for the next frame of the flow; the same one if it is
 * called again before efe_commit() or efe_cancel(). NULL: the window of the peer is closed, or no
 * buffer is free; room() is called when there is room.
 */
uint8_t *efe_reserve(struct efe *efe, uint32_t index);
/* Numbers the frame in the reserved buffer, which has `payload_bytes` bytes of payload, and sends
 * it as soon as window and pace allow. */
void efe_commit(struct efe *efe, uint64_t now, uint32_t index, const struct efe_send *send,
                uint32_t payload_bytes, uint64_t tag);
/* Gives the reserved buffer back, if there is one. */
void efe_cancel(struct efe *efe, uint32_t index);
/* Called when the layer above has room again: delivers the frames that it refused, until it refuses
 * one. */
void efe_resume(struct efe *efe, uint64_t now, uint32_t index);

/* --- Wire and clock --- */

/* Handles bytes from the wire or from the switch, beginning with the destination MAC. An invalid
 * frame is counted and ignored. */
void efe_receive(struct efe *efe, uint64_t now, const uint8_t *frame, uint32_t bytes);
/* Called when the switch has room again. */
void efe_unblock(struct efe *efe, uint64_t now);
/* Does everything that is due. */
void efe_advance(struct efe *efe, uint64_t now);
/* Returns when efe_advance() has to be called next; UINT64_MAX: nothing is due. */
uint64_t efe_deadline(const struct efe *efe);
const struct efe_counters *efe_counted(const struct efe *efe);

#endif
