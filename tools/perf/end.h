/* SPDX-License-Identifier: MIT */
/*
 * One connected VI with its descriptors and buffers: end.c makes it and posts, reap.c takes
 * completions. Both ends of a session have one.
 */
#ifndef VIPL_PERF_END_H
#define VIPL_PERF_END_H

#include <stdbool.h>
#include <stdint.h>

#include "tool_vipl.h"
#include "wire.h"

enum perf_test { PERF_LAT, PERF_BW, PERF_BIBW, PERF_RATE, PERF_TESTS };
enum perf_op { PERF_SEND, PERF_WRITE, PERF_READ, PERF_OPS };

/* One figure's worth of traffic. */
struct perf_run {
    enum perf_test test;
    enum perf_op op;
    bool block;
    bool verify;
    bool polls; /* who waits for an RDMA Write to be there calls the library between looks */
    uint32_t size;
    uint64_t count; /* of one thread */
};

#define PERF_NOTES 16
#define PERF_SPARE_RECEIVES 8
#define PERF_MAX_DEPTH 480
#define PERF_MAX_SIZE (UINT32_C(1) << 30)
#define PERF_MAX_MEMORY (UINT64_C(1) << 30)

/* What both ends agree on for a session. */
struct perf_shape {
    uint32_t size;  /* the largest */
    uint32_t depth; /* messages in flight */
    bool verify;    /* then each message in flight has a buffer of its own */
    bool rdma;      /* then there is a window to write and read */
    bool cq;
    uint32_t connections; /* VIs that are used in turn; more than one have a completion queue */
};

enum perf_queue { PERF_SENDS, PERF_RECEIVES };

struct perf_event {
    enum perf_queue queue;
    VIP_DESCRIPTOR *desc;
    enum perf_kind kind; /* of a receive */
    uint32_t value;      /* of a receive */
};

/*
 * One VI, or several that are used in turn, and all they work with; used by one thread. `ring`
 * holds descriptors, receive buffers and the local ends of sends, writes and reads. `window` holds
 * the slots the peer writes, then the slots it reads. Without verification few buffers serve all
 * descriptors, as in other benchmarks.
 */
struct perf_end {
    VIP_NIC_HANDLE nic; /* not owned */
    VIP_VI_HANDLE *vis;
    VIP_VI_HANDLE vi; /* the first: what is not measured goes there */
    VIP_CQ_HANDLE cq;
    uint32_t connections; /* of vis */
    uint32_t next_vi;     /* of the next measured message */
    uint64_t *taken;      /* messages of this run that each of vis has received */
    uint64_t in_order;    /* of this run: no earlier one is missing */
    struct perf_shape shape;
    struct tool_mem ring;
    struct tool_mem window;
    uint32_t stride;
    uint32_t receive_count;
    uint32_t receive_slots;
    uint32_t local_slots;
    uint32_t window_slots; /* to write; as many to read */
    VIP_DESCRIPTOR *receives;
    VIP_DESCRIPTOR *sends;
    VIP_DESCRIPTOR *notes; /* control messages, each with PERF_MESSAGE_BYTES */
    unsigned char *receive_base;
    unsigned char *local_base;
    unsigned char *note_base;
    struct perf_message peer; /* its window */
    bool block;
    uint32_t timeout_ms;
    uint32_t turn;           /* sends[] to post next */
    uint32_t turns;          /* sends[] in use by this run */
    uint32_t note_turn;      /* notes[] to post next */
    uint32_t data_out;       /* posted and not reaped */
    uint32_t notes_out;      /* the same of notes */
    struct perf_event *held; /* reaped, and to be handed out by perf_next() */
    uint32_t held_room;
    uint32_t held_first;
    uint32_t held_count;
    bool quiet; /* a server: a client's end is no fault */
    bool says;  /* a server: prints what it runs */
};

/* Make VI, memory and descriptors in a zeroed end whose nic is set, and post `first` receives. */
bool perf_end_create(struct perf_end *end, const struct perf_shape *shape, VIP_VI_ATTRIBUTES *attributes);
void perf_end_destroy(struct perf_end *end);

/* A server's VIs exist before it knows the shape: create in two steps. */
bool perf_end_create_vis(struct perf_end *end, bool cq, uint32_t connections, VIP_VI_ATTRIBUTES *attributes);
bool perf_end_create_rings(struct perf_end *end, const struct perf_shape *shape);

/* Whether the shape is valid and its memory within PERF_MAX_MEMORY. */
bool perf_shape_fits(const struct perf_shape *shape);

/* Lay out the send descriptors for a run, and clear what it will spin on. */
void perf_prepare(struct perf_end *end, const struct perf_run *run);

/*
 * The next completion of either queue; blocks on `want` where blocking can only be on one. A failed
 * descriptor is VIP_DESCRIPTOR_ERROR, a stop VIP_INTERRUPTED, no progress VIP_TIMEOUT.
 */
VIP_RETURN perf_next(struct perf_end *end, enum perf_queue want, struct perf_event *event);

/* One completion more; a receive is kept for perf_next(), and a send too if `keep_sends`. */
VIP_RETURN perf_reap_one(struct perf_end *end, bool keep_sends);

/* Reap until at most `left` measured messages are out; receives that come meanwhile are kept. */
VIP_RETURN perf_reap_sends(struct perf_end *end, uint32_t left);
/* Reap the oldest message that is out, if it is complete and there is no completion queue. */
VIP_RETURN perf_reap_done(struct perf_end *end);

/* Reap all sends, notes included. */
VIP_RETURN perf_drain(struct perf_end *end);

/* The next receive, whatever sends complete meanwhile. */
VIP_RETURN perf_next_receive(struct perf_end *end, struct perf_event *event);

/* Give a receive descriptor back to the VI. */
VIP_RETURN perf_repost(struct perf_end *end, VIP_DESCRIPTOR *desc);

/* A measured message was received: how many there are now, at the front, without a gap. Those of
 * several VIs overtake each other. */
uint32_t perf_count_received(struct perf_end *end, const VIP_DESCRIPTOR *desc);

/* Post the next measured message. */
VIP_RETURN perf_post(struct perf_end *end);

/* The local buffer of the message that perf_post() posts next. */
unsigned char *perf_next_local(const struct perf_end *end);

/* Immediate data only; or a control message. */
VIP_RETURN perf_note(struct perf_end *end, enum perf_kind kind, uint32_t value);
VIP_RETURN perf_send_message(struct perf_end *end, const struct perf_message *message);

unsigned char *perf_received(const VIP_DESCRIPTOR *desc);
unsigned char *perf_window_slot(const struct perf_end *end, uint32_t slot);

/* In a loop without library calls: every so often the clock, the stop flag and the VI's state. */
struct perf_watch {
    uint32_t turns;
    uint64_t since;
};
VIP_RETURN perf_watch(struct perf_end *end, struct perf_watch *watch);

/* A call of the library that makes it go on; what completes is kept for perf_next(). */
VIP_RETURN perf_poll_end(struct perf_end *end);

#endif
