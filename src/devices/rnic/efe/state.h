/* SPDX-License-Identifier: MIT */
/*
 * EFE's area: flows, paths, frames and timers, named by index. Only the files efe*.c include this.
 * One thread at a time is in here, as efe.h says; nothing has another guard.
 */
#ifndef DEVICES_RNIC_EFE_STATE_H
#define DEVICES_RNIC_EFE_STATE_H

#include "devices/rnic/efe/efe.h"
#include "devices/rnic/efe/frames.h"

enum { EFE_NONE = 0xFFFFFFFF };
#define EFE_NEVER UINT64_MAX
#define EFE_US UINT64_C(1000)
#define EFE_MS UINT64_C(1000000)

/* What a buffer has in it. */
enum efe_slot_state {
    EFE_SLOT_RESERVED, /* nothing yet */
    EFE_SLOT_QUEUED,   /* a frame that was never sent */
    EFE_SLOT_INFLIGHT, /* sent; in its flow's list of these */
    EFE_SLOT_LOST,     /* sent, and to be sent again */
    EFE_SLOT_ARRIVED,  /* the peer has it, but not all before it */
    EFE_SLOT_KEPT      /* received */
};

/* A buffer's description, with the buffer's index. */
struct efe_slot {
    struct efe_header header; /* of a frame to send: but for what each transmission fills in */
    uint64_t tag;
    uint64_t order;          /* the transmission's number among all of the path */
    uint64_t sent_at;        /* the last transmission */
    uint32_t previous, next; /* in the list of frames in flight, by `order` */
    uint8_t state;           /* enum efe_slot_state */
    bool resent;
};

enum efe_flow_state {
    EFE_FLOW_FREE,
    EFE_FLOW_OPEN,
    /* its peer is gone; no frame belongs to it but those that it keeps, which are still
     * delivered */
    EFE_FLOW_LEFT,
    EFE_FLOW_ENDED /* no frame belongs to it; its reset is repeated, until the place is needed */
};

/* Numbers of frames are compared by the sign of their difference. */
struct efe_flow {
    uint8_t state; /* enum efe_flow_state */
    uint8_t death; /* enum efe_death: of a flow that is left over */
    uint8_t remote_mac[6];
    uint16_t local_fn, remote_fn;
    uint32_t path;
    uint32_t hash_next;
    uint32_t users;
    uint32_t idle_previous,
        /* flows that may be reclaimed; idle_previous is the flow itself: not among them */
        idle_next;

    /* Sending. */
    uint32_t epoch;                         /* also the number of the first frame */
    uint32_t first;                         /* the oldest that is not acknowledged */
    uint32_t unsent;                        /* the oldest that was never sent */
    uint32_t end;                           /* the number of the next to be committed */
    uint32_t edge;                          /* the peer takes frames before this one */
    uint32_t reserved;                      /* slot */
    uint32_t inflight_first, inflight_last; /* slots, by order of transmission */
    uint32_t lost_count;
    uint32_t lost[EFE_WINDOW_MAX / 32]; /* a bit for each number whose frame is EFE_SLOT_LOST */
    /* the greatest orders of transmissions that arrived, the greatest first; 0: none */
    uint64_t arrived[3];
    uint32_t ready_next; /* in its path's list of flows that may send */
    bool ready;
    bool wants_room; /* efe_reserve() has failed */
    bool wants_pool; /* it is in the list of flows that are told in turn */
    bool told;       /* of room, and no failure since */
    uint32_t pool_next;

    /* Receiving. */
    bool heard;              /* peer_epoch and all below is known */
    bool refused;            /* the layer above has no room */
    uint32_t peer_epoch;     /* also the number of the first frame that the peer sent */
    uint32_t expected;       /* the next number that has not come */
    uint32_t undelivered;    /* the next to be delivered; frames from here to `expected` are kept */
    uint32_t kept;           /* slots in incoming[] */
    uint32_t unacknowledged; /* numbered frames that came since next_expected was last sent */
    uint32_t echo;           /* `sent` of the last frame from the peer */
    uint32_t echo_seen;      /* the echo that the last round trip time was taken from */
    bool echo_taken;         /* there was one */
    uint64_t echo_at;        /* when that frame came */
    uint32_t edge_stamp;     /* `sent` of the frame that `edge` is from */
    uint64_t edge_at;        /* when that came */

    /* Timers: EFE_NEVER: not set. */
    uint64_t ack_at;     /* an acknowledgment is due */
    uint64_t tail_at;    /* the last frame in flight is sent again, to be told what is missing */
    uint64_t timeout_at; /* all frames in flight are taken for lost */
    uint64_t probe_at;   /* the window is asked for; in an ended flow: the reset is repeated */
    /* when something valid came, or something became outstanding after there was nothing */
    uint64_t valid_at;
    uint32_t backoff; /* timeouts, probes or repeated resets in succession */
    bool tail_sent;   /* since a frame arrived */

    uint32_t outgoing[EFE_WINDOW_MAX]; /* slots by number: from `first` to `end` */
    /* slots by number: within EFE_WINDOW_MAX of `undelivered`; EFE_NONE */
    uint32_t incoming[EFE_WINDOW_MAX];
};

/* All flows to one MAC share the way. Its congestion window is in bytes. */
struct efe_path {
    uint8_t mac[6];
    bool starting;  /* the window doubles in each round: no congestion was seen yet */
    bool limited;   /* in this round, frames waited for the congestion window */
    bool blocked;   /* the switch has refused a frame: in the list of such paths */
    uint32_t flows; /* that are on it */
    uint32_t hash_next;
    uint32_t blocked_next;
    uint32_t ready_first, ready_last; /* flows that may send, in turn */
    uint32_t window;                  /* bytes that may be in flight */
    uint32_t in_flight;
    uint64_t order; /* of the next transmission, from 1 */
    /* the round ends when a transmission of this order or a later one has arrived */
    uint64_t round_end;
    uint32_t arrived, lost;  /* frames, since losses were judged last */
    uint64_t round_rtt;      /* the sum of the round trip times of the round, ... */
    uint32_t round_samples;  /* ... and their number */
    uint64_t rtt, deviation; /* smoothed, in ns */
    bool measured;           /* they are known */
    /* the least round trip time of this interval and of the one before; EFE_NEVER */
    uint64_t base[2];
    uint64_t base_until; /* the interval's end */
    uint64_t next_send;  /* the pace */
    uint64_t cut_until;  /* no further timeout makes the window smaller before */
};

struct efe_state {
    struct efe_config config;
    struct efe_counters counters;
    uint64_t random;
    /* the limit of answers to strangers: when the last of them was paid for */
    uint64_t answers_at;
    uint32_t flow_free, path_free; /* lists, by hash_next */
    uint32_t idle_first, idle_last;
    uint32_t blocked_first;                     /* paths */
    uint32_t pool_first, pool_last, pool_count; /* flows that want a buffer, in order */
    bool pool_freed;                            /* a buffer became free since they were told */
    uint32_t sending, receiving;                /* buffers in use for each */
    uint32_t buckets;                           /* of each hash table: a power of two */
    uint64_t hash_seed;
    uint32_t timers;      /* that are set */
    uint8_t enabled[256]; /* functions */
    /* Where in the area: */
    uint64_t flows_at, paths_at, flow_hash_at, path_hash_at, heap_at, places_at, due_at, slots_at, frames_at;
};

static inline struct efe_state *efe_state(const struct efe *efe)
{
    return efe->area;
}
static inline struct efe_flow *efe_flow(const struct efe_state *s, uint32_t index)
{
    return (struct efe_flow *)((char *)s + s->flows_at) + index;
}
static inline struct efe_path *efe_path(const struct efe_state *s, uint32_t index)
{
    return (struct efe_path *)((char *)s + s->paths_at) + index;
}
static inline struct efe_slot *efe_slot(const struct efe_state *s, uint32_t index)
{
    return (struct efe_slot *)((char *)s + s->slots_at) + index;
}
static inline struct rnic_frames *efe_frames(const struct efe_state *s)
{
    return (struct rnic_frames *)((char *)s + s->frames_at);
}
static inline uint32_t efe_index(const struct efe_state *s, const struct efe_flow *flow)
{
    return (uint32_t)(flow - efe_flow(s, 0));
}
static inline uint32_t efe_path_index(const struct efe_state *s, const struct efe_path *path)
{
    return (uint32_t)(path - efe_path(s, 0));
}
static inline struct efe_path *efe_path_of(const struct efe_state *s, const struct efe_flow *flow)
{
    return efe_path(s, flow->path);
}

/* How many numbers b is after a; negative: before it. */
static inline int32_t efe_ahead(uint32_t a, uint32_t b)
{
    return (int32_t)(b - a);
}
static inline uint32_t *efe_outgoing(struct efe_flow *flow, uint32_t number)
{
    return &flow->outgoing[number % EFE_WINDOW_MAX];
}
static inline uint32_t *efe_incoming(struct efe_flow *flow, uint32_t number)
{
    return &flow->incoming[number % EFE_WINDOW_MAX];
}
static inline uint32_t efe_outstanding(const struct efe_flow *flow)
{
    return flow->end - flow->first;
}
/* Time in frames. */
static inline uint32_t efe_stamp(uint64_t now)
{
    return (uint32_t)(now / EFE_US);
}

#endif
