/* SPDX-License-Identifier: MIT */
/* One end of a stream: a VI, its descriptors and buffers, and what has come for the program. */
#ifndef VIPL_STREAM_ENDPOINT_H
#define VIPL_STREAM_ENDPOINT_H

#include "base/list.h"
#include "os/os_mutex.h"
#include "stream/state.h"
#include "stream/stream.h"
#include "vipl/vipl.h"

enum {
    VIPL_STREAM_MESSAGES = 32,         /* receives of this end, and sends */
    VIPL_STREAM_MESSAGE_BYTES = 65536, /* of a buffer */
    VIPL_STREAM_SEND_SLOTS = 32
};

/* A message with data that has come and was not received by the program yet. */
struct vipl_stream_filled {
    uint32_t slot; /* of the receive */
    uint32_t bytes;
};

/* Why a stream is looked after (closer.c) although its program may make no call. */
enum vipl_stream_attended {
    VIPL_STREAM_UNATTENDED,
    VIPL_STREAM_HOLDING,  /* bytes wait for more, or have done so since the last look */
    VIPL_STREAM_DEAF,     /* this end neither sends nor receives: data that comes resets the connection */
    VIPL_STREAM_LINGERING /* closed, and the peer has yet to take what was sent */
};

/* Guarded by lock unless they say otherwise. */
struct vipl_stream {
    struct vipl_stream_nic *nic;    /* constant */
    VIP_VI_HANDLE vi;               /* constant */
    struct vipl_list nic_link;      /* guarded by the device's lock */
    uint32_t generation;            /* constant: of the process that made the stream */
    uint32_t users;                 /* guarded by the device's lock */
    struct vipl_list attended_link; /* see closer.c; guarded by its lock */
    uint64_t lingers_since;         /* valid while the stream lingers; guarded by closer.c's lock */
    struct vipl_mutex lock;         /* rank STREAM */
    struct vipl_stream_state state;
    struct vipl_list watches; /* vipl_stream_watch.link */
    uint32_t arrivals;        /* see vipl_stream_arrivals() */
    uint32_t rooms;           /* see vipl_stream_rooms() */
    bool peer_began;          /* the first message with data was the peer's */
    uint32_t sent;            /* counts messages with data that were sent */

    /* Registered as one region: descriptors, then the buffers of receives, then those of sends.
     * Pages are there once they have been used. */
    char *memory;          /* constant */
    VIP_MEM_HANDLE region; /* constant */
    VIP_DESCRIPTOR *receives;
    VIP_DESCRIPTOR *sends;
    VIP_DESCRIPTOR *read; /* an RDMA Read of memory that the peer offers */

    struct vipl_stream_filled filled[VIPL_STREAM_MESSAGES]; /* a ring, in the order of the stream */
    uint32_t first;                                         /* counts messages that were received */
    uint32_t last;                                          /* counts messages that have come */
    uint32_t used;                                          /* bytes of the first that were received */

    uint8_t free_slots[VIPL_STREAM_SEND_SLOTS]; /* a stack: what was used last is used next */
    uint32_t free_count;
    size_t unsent; /* bytes in sends that are not complete */

    /* Bytes that wait for more to follow, in the buffer of a send that is not posted. */
    size_t held; /* 0: none, and there is no such send */
    uint8_t held_slot;
    bool holds_on;    /* the program has said that more follows */
    bool held_lately; /* since closer.c's last look */
    bool wants_room;  /* a send did not find enough */

    struct vipl_stream_offer offered; /* what is left of the memory that the peer offers */
    VIP_MEM_HANDLE offer_region;      /* of the memory that this end offers */
    void *offer_memory;               /* NULL: none */

    bool begun; /* connected, the peer's window known */
    bool lost;  /* the connection has ended, or the peer has broken the protocol */
    /* atomic: 1: ended by this end. Set without the lock, before VipDisconnect(), so that a
     * thread that sees the connection end sees why. */
    uint32_t aborted;
    bool stopped;                       /* see vipl_stream_stop() */
    bool over;                          /* the owner's reference was given back */
    enum vipl_stream_attended attended; /* written under closer.c's lock too */
};

static inline bool vipl_stream_is_aborted(const struct vipl_stream *stream)
{
    return vipl_load_acquire(&stream->aborted) != 0; /* pairs with vipl_stream_abort() */
}

/* For the device. Takes what has come, sends what has waited for credits, and notifies the watches.
 * Ends a closed stream whose peer has taken everything. */
void vipl_stream_progress(struct vipl_stream *stream);
/* Ends the connection and frees everything. No other thread uses the stream. */
void vipl_stream_destroy(struct vipl_stream *stream);

/* The rest is called with the lock held. */

/* receive.c: takes what has come. */
void vipl_stream_take_locked(struct vipl_stream *stream);
/* receive.c: posts a receive, again or for the first time. */
void vipl_stream_post_receive_locked(struct vipl_stream *stream, uint32_t slot);
/* send.c: reaps the sends that are complete. */
void vipl_stream_reap_locked(struct vipl_stream *stream);
/* send.c: returns true if a message of the type can be sent now. */
bool vipl_stream_can_send_locked(struct vipl_stream *stream, enum vipl_stream_message type);
/* send.c: sends a message that can be sent, with bytes of the pieces from `offset` on. */
void vipl_stream_post_locked(struct vipl_stream *stream, enum vipl_stream_message type,
                             const struct vipl_iov *pieces, unsigned count, size_t offset, size_t bytes);
/* send.c: sends what waits for more if there is a credit for it. */
void vipl_stream_push_locked(struct vipl_stream *stream);
/* send.c: sends the acknowledgements, credits and ends that are due and that there are credits
 * for. */
void vipl_stream_flush_locked(struct vipl_stream *stream);
/* offer.c: reads offered memory into the caller's. Returns 0 or ECONNRESET. */
int vipl_stream_read_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                            size_t *received);
/* endpoint.c: the connection is over. Logs why, if there is a reason. */
void vipl_stream_lose_locked(struct vipl_stream *stream, const char *reason);
/* endpoint.c: the events of now. */
unsigned vipl_stream_events_locked(struct vipl_stream *stream);
/* endpoint.c: notifies the watches. */
void vipl_stream_notify_locked(struct vipl_stream *stream);

/* endpoint.c: the number of bytes of pieces, and copies between them and a buffer. */
size_t vipl_stream_length(const struct vipl_iov *pieces, unsigned count);
void vipl_stream_gather(void *to, const struct vipl_iov *pieces, unsigned count, size_t offset, size_t bytes);
void vipl_stream_scatter(const struct vipl_iov *pieces, unsigned count, size_t offset, const void *from,
                         size_t bytes);

/* closer.c: has the stream looked after if its state needs that now. The caller has a reference. */
void vipl_stream_attend_locked(struct vipl_stream *stream);

/* closer.c: looks at the streams that are looked after, as at the time `now` (vipl_now_ns()). No
 * lock is held. */
void vipl_stream_look_after(uint64_t now);

#endif
