/* SPDX-License-Identifier: MIT */
/*
 * One direction between two processes: messages in 64-byte slots of shared memory. A message has a
 * 32-byte head and its payload behind it, contiguous. The head's first word says that it is there:
 * it holds the number of the producer's lap, written last; the producer makes sure first that
 * the word behind the message is not one, so old payload is never taken for a head.
 *
 * The producer's position is private to its process (under the link's TX lock), the consumer's is
 * shared, and read only when the ring looks full. What is read from shared memory is read once,
 * copied and checked: the other side may be hostile, and then loses only its own connections.
 *
 * All words are 32-bit, in the byte order of both processes (others are refused at the handshake).
 */
#ifndef VIPL_LOOPBACK_RING_H
#define VIPL_LOOPBACK_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LO_RING_SLOT = 64, LO_HEAD = 32, LO_RESERVE = 512, LO_REQUEST_SLOTS = 256 };

enum lo_type {
    LO_PAD = 1,    /* nothing: the rest of the ring up to its end */
    LO_OPEN,       /* the requester has accepted the acceptance */
    LO_SEND,       /* a chunk of a message */
    LO_RENDEZVOUS, /* a message to be fetched: payload lists where it lies */
    LO_WRITE,      /* a chunk of an RDMA Write */
    LO_READ,       /* an RDMA Read request */
    LO_DATA,       /* a chunk of its reply */
    LO_ACK,        /* what came of a request slot */
    LO_CLOSE       /* the session is over */
};

enum {
    LO_FLAG_IMMEDIATE = 1, /* `immediate` is valid */
    LO_FLAG_LAST = 2,      /* the last chunk */
    LO_FLAG_ACK = 4,       /* the sender wants a reply for its slot */
    LO_FLAG_PLACED = 8,    /* of an RDMA Write: the data is there already */
    LO_FLAG_AGAIN = 16,    /* of an ACK: the message is to come through the ring; of a SEND: it will not */
    LO_FLAG_MAPPABLE =
        32, /* of a RENDEZVOUS: it says as well which memory that may be mapped the message lies in */
    LO_FLAG_ALONE = 64 /* of an ACK with AGAIN: that is so for this message's memory, and not for all */
};

/* A message's head, in a process's own memory. Unused fields are 0. */
struct lo_message {
    uint8_t type;
    uint8_t flags;
    uint32_t session; /* the receiver's number of it */
    uint32_t bytes;   /* of payload */
    uint32_t slot;    /* its number and generation, see link.h; an ACK has the status in `total` */
    uint32_t immediate;
    uint32_t total;  /* bytes of the whole transfer */
    uint32_t offset; /* of this chunk in it */
};

/* What two processes share of a ring, each word in a cache line of its writer. */
struct lo_ring_shared {
    uint32_t head; /* the consumer's position, in slots */
    uint32_t
        sleeps_properly; /* set by a consumer before the first message: it makes a barrier in all processes before it sleeps */
    uint32_t pad0[14];
    uint32_t asleep; /* set by the consumer before it sleeps, taken by the producer that wakes it */
    uint32_t pad1[15];
    uint32_t wanting; /* set by a producer that waits for room, taken by the consumer that wakes it */
    uint32_t relies;  /* set by a producer from which on the consumer has to make that barrier */
    uint32_t pad2[14];
    uint32_t generations[LO_REQUEST_SLOTS]; /* of the producer's request slots: the current ones */
};

struct lo_ring {
    struct lo_ring_shared *shared;
    unsigned char *slots;
    uint32_t count; /* of slots, a power of two */
    uint32_t shift; /* its logarithm */
    uint32_t at;    /* next slot to write, or to read */
    uint32_t
        known; /* producer: the consumer's position when last looked at; consumer: what the producer surely knows */
    bool relies; /* producer: it has said so */
};

/* --- producer --- */

/* Room for a message of `bytes` payload: where to write the payload, or NULL. `reply` may use the reserve
 * that requests leave free for replies. */
unsigned char *vipl_lo_ring_claim(struct lo_ring *ring, uint32_t bytes, bool reply);
/* Publishes the claimed message. True: the consumer sleeps, and the caller is to wake it. */
bool vipl_lo_ring_publish(struct lo_ring *ring, const struct lo_message *message);
/* From now on publishing is a plain store, if the consumer makes its part of the barrier between its mark that it sleeps and its last
 * look. This process takes part in barriers (os.h). False: it does not. */
bool vipl_lo_ring_rely(struct lo_ring *ring);
/* The largest payload that would fit now, up to `most`. */
uint32_t vipl_lo_ring_room(struct lo_ring *ring, uint32_t most);

/* --- consumer --- */

enum lo_peek { LO_PEEK_EMPTY, LO_PEEK_OK, LO_PEEK_BROKEN };
/* The next message: its head copied and checked, its payload in place. */
enum lo_peek vipl_lo_ring_peek(struct lo_ring *ring, struct lo_message *out, const unsigned char **payload);
/* The word that says that the next message is there, when it is *value. */
uint32_t *vipl_lo_ring_next(const struct lo_ring *ring, uint32_t *value);
void vipl_lo_ring_pop(struct lo_ring *ring, const struct lo_message *message);
/* The consumer is about to sleep: it says so, and then looks whether the ring is empty. True: between the two it has to make a barrier
 * in all processes. */
bool vipl_lo_ring_mark_asleep(struct lo_ring *ring);
bool vipl_lo_ring_is_empty(const struct lo_ring *ring);
/* Tells the producer how far it got. `empty`: there is no further message. True: the producer waits for room, and the caller is to
 * wake it. */
bool vipl_lo_ring_release(struct lo_ring *ring, bool empty);

#endif
