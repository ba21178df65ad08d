/* SPDX-License-Identifier: MIT */
/*
 * EFE: flows of frames between two functions of adapters, in order and exactly once over a wire
 * that loses, duplicates, reorders and corrupts; docs/rnic/efe.md is the specification. A flow
 * joins (function, MAC) here to (function, MAC) there, which may be this same adapter. It appears
 * when either side sends, and dies by a reset or when the peer is silent for too long.
 *
 * Pure and deterministic: all state lies in an area without pointers and may be saved and restored
 * byte for byte between two calls. Time comes with the calls, in nanoseconds, and never goes back.
 * One thread at a time.
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
    uint32_t functions; /* 1 to 256; EFE_ADAPTER is there besides */
    uint32_t flows;     /* 1 to 65,536 */
    /* 16 to 1,048,576: buffers, of what is not acknowledged and of what came out of order */
    uint32_t frames;
    uint32_t mtu; /* 576 to 9,000 */
    uint8_t mac[6];
    uint64_t seed;
    bool simulated;       /* shorter floors of the timers: nothing but the wire takes time */
    uint32_t first_epoch; /* of each flow, for tests of what wraps around; 0: random */
};

/* Why a flow died. */
enum efe_death {
    /* nothing valid came for five seconds while something was outstanding, or a frame was
     * missing */
    EFE_DEAD_SILENT,
    EFE_DEAD_RESET, /* the peer has ended it, or does not know it any more */
    EFE_DEAD_LOCAL  /* efe_function_reset() */
};

/* What EFE does to its surroundings. */
struct efe_host {
    /* A whole frame goes to the switch. False: it has no room; EFE keeps the frame until
     * efe_unblock(). */
    bool (*transmit)(void *context, const uint8_t *frame, uint32_t bytes);
    /*
     * A numbered frame: the next one of its flow, once. False: the layer above has no room; EFE
     * keeps the frame, closes the flow's window and delivers it again at efe_resume(). Payload and
     * header are valid during the call only.
     */
    bool (*deliver)(void *context, uint32_t index, const struct efe_header *header, const uint8_t *payload);
    /* The frame that was committed with this tag is in the peer adapter's memory, as are all before
     * it. In order of commit. */
    void (*acknowledged)(void *context, uint32_t flow, uint64_t tag);
    /* efe_reserve() has failed for this flow and would not now. Once per failure; another flow may
     * be faster. */
    void (*room)(void *context, uint32_t flow);
    /*
     * The flow is over: its frames are gone, acknowledged or not. Its number may mean another flow
     * after this call. What was received from a peer that has ended, and acknowledged, is delivered
     * before, if the flow has users; no frame can be sent meanwhile.
     */
    void (*dead)(void *context, uint32_t flow, enum efe_death why);
};

/* EFE outside its area. */
struct efe {
    void *area;
    const struct efe_host *host;
    void *context; /* of the callbacks */
};

/* What has happened since efe_init(). */
struct efe_counters {
    uint64_t sent;      /* frames of all types that the switch took */
    uint64_t resent;    /* of these, numbered frames sent before */
    uint64_t received;  /* whatever came */
    uint64_t delivered; /* numbered frames, upwards */
    uint64_t acks;      /* sent */
    uint64_t probes;    /* sent, tail probes not counted */
    uint64_t resets_sent;
    uint64_t resets_received; /* that ended a flow */
    uint64_t timeouts;
    uint64_t faults[EFE_FAULTS]; /* bytes that were no frame */
    uint64_t not_ours;           /* another destination MAC, or a source MAC that is a group's */
    uint64_t no_function;        /* a function that is not there or not enabled */
    uint64_t unknown_epoch;      /* a frame of another life of the flow, or of no flow */
    uint64_t impossible;         /* acknowledges what was never sent, or a reset of another life */
    uint64_t outside;            /* a number outside the window */
    uint64_t duplicates;         /* numbered frames that were here already */
    /* numbered frames dropped for want of one: they will be sent again */
    uint64_t no_buffer;
    uint64_t no_flow;   /* flows that could not be opened: all are in use */
    uint64_t reclaimed; /* idle flows that gave way to others */
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
    uint64_t base_rtt_ns; /* the least of late */
    uint32_t congestion;  /* the path's congestion window, in bytes */
    uint32_t in_flight;   /* bytes of the path, sent and neither acknowledged nor lost */
};

/* The two functions of a flow. */
struct efe_ends {
    uint8_t remote_mac[6];
    uint16_t local_fn;
    uint16_t remote_fn;
};

/* The header's fields that are the sender's to choose. */
struct efe_send {
    uint8_t type;  /* EFE_DATA, EFE_CONTROL or EFE_MESSAGE_ACK */
    uint8_t flags; /* EFE_FIRST, EFE_LAST, EFE_ACK_NOW */
    uint16_t to_qp;
    uint16_t from_qp;
    uint32_t left;
    uint32_t message;
};

/* A multiple of 64. */
size_t efe_bytes(const struct efe_config *config);
/* Starts in an area of so many zeroed bytes, aligned to 64. All functions are disabled, but for
 * EFE_ADAPTER. */
void efe_init(struct efe *efe, void *area, const struct efe_config *config, const struct efe_host *host,
              void *context);
/* An area that was in use before, or a copy of one. */
void efe_attach(struct efe *efe, void *area, const struct efe_host *host, void *context);

/* --- Functions --- */

/* Frames for the function are taken from now on. */
void efe_function_enable(struct efe *efe, uint16_t fn);
/*
 * Ends the function's flows: a reset goes to each peer, repeated a few times, and
 * dead(EFE_DEAD_LOCAL) upwards. The function is disabled. What is sent by the next life of the
 * function is of new flows.
 */
void efe_function_reset(struct efe *efe, uint64_t now, uint16_t fn);

/* --- Flows --- */

/* Finds the flow, or makes it, if need be by giving up the idle flow that was used longest ago.
 * Sends nothing. EFE_NO_FLOW: all are in use; or the function is disabled. */
uint32_t efe_open(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                  uint16_t remote_fn);
/* A user, such as a connected QP: the flow is not given up for others while it has any. Death ends
 * all use. */
void efe_hold(struct efe *efe, uint32_t index);
void efe_release(struct efe *efe, uint32_t index);
void efe_describe(const struct efe *efe, uint32_t index, struct efe_flow_info *out);
/* The functions that the flow is between; within dead(), was between. */
void efe_ends_of(const struct efe *efe, uint32_t index, struct efe_ends *out);

/*
 * A buffer of efe_payload_max() bytes for the next frame of the flow; asked for again before commit
 * or cancel, the same one. NULL: no room by the peer's window or in the pool; room() says when
 * there is.
 */
uint8_t *efe_reserve(struct efe *efe, uint32_t index);
/* The reserved buffer has so many bytes of payload: the frame is numbered, and sent as soon as
 * window and pace allow. */
void efe_commit(struct efe *efe, uint64_t now, uint32_t index, const struct efe_send *send,
                uint32_t payload_bytes, uint64_t tag);
/* The reserved buffer, if any, is not needed. */
void efe_cancel(struct efe *efe, uint32_t index);
/* The layer above has room again: what was refused is delivered, until it refuses once more. */
void efe_resume(struct efe *efe, uint64_t now, uint32_t index);

/* --- Wire and clock --- */

/* Bytes came by the wire or from the switch, from the destination MAC on. Whatever is wrong with
 * them is counted. */
void efe_receive(struct efe *efe, uint64_t now, const uint8_t *frame, uint32_t bytes);
/* The switch has room again. */
void efe_unblock(struct efe *efe, uint64_t now);
/* Everything is done that was due by now. */
void efe_advance(struct efe *efe, uint64_t now);
/* When the next thing is due; UINT64_MAX: nothing is. */
uint64_t efe_deadline(const struct efe *efe);
const struct efe_counters *efe_counted(const struct efe *efe);

#endif
