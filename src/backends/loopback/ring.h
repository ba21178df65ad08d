/* SPDX-License-Identifier: MIT */
/*
 * A ring carries messages in one direction between two processes, in 64-byte slots of shared
 * memory. A message is contiguous: a head of 32 bytes, and the payload behind it. The first word of
 * the head publishes the message: it is written last, and has the number of the producer's lap.
 * Before that the producer makes sure that the first word behind the message is not such a number,
 * so that old payload is never taken for a head.
 *
 * The slots of a ring get memory in the producer's first lap, piece by piece, so that a link that
 * carries little takes little. Consumers and the words in front of the slots never touch other
 * memory.
 *
 * The producer's position is private to its process, under the link's tx lock. The consumer's
 * position is shared, and the producer reads it only when the ring looks full. What is read from
 * shared memory is read once, copied and checked: a hostile peer loses its own connections, and no
 * more.
 *
 * All words have 32 bits and the byte order of both processes; other processes are refused when
 * they connect.
 */
#ifndef VIPL_LOOPBACK_RING_H
#define VIPL_LOOPBACK_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LO_RING_SLOT = 64, LO_HEAD = 32, LO_RESERVE = 512, LO_REQUEST_SLOTS = 256 };
/* The slots of a ring that have memory from the beginning. */
enum { LO_FIRST_SLOTS = 32 };

enum lo_type {
    LO_PAD = 1,    /* no message: fills the rest of the ring up to its end */
    LO_OPEN,       /* the requester has accepted the acceptance */
    LO_SEND,       /* a chunk of a message */
    LO_RENDEZVOUS, /* a message that the receiver fetches; the payload says where it lies */
    LO_WRITE,      /* a chunk of an RDMA Write */
    LO_READ,       /* an RDMA Read request */
    LO_DATA,       /* a chunk of the reply to LO_READ */
    LO_ACK,        /* the reply for a request slot: its status */
    LO_CLOSE       /* the session is over */
};

enum {
    LO_FLAG_IMMEDIATE = 1, /* `immediate` is valid */
    LO_FLAG_LAST = 2,      /* the last chunk */
    LO_FLAG_ACK = 4,       /* the sender wants a reply for the request slot */
    LO_FLAG_PLACED = 8,    /* of a WRITE: the data is in place already, by direct access */
    /* of an ACK: send the message again through the ring; of a SEND: that is not possible */
    LO_FLAG_AGAIN = 16,
    LO_FLAG_MAPPABLE = 32, /* of a RENDEZVOUS: the payload also names the mappable memory */
    LO_FLAG_ALONE = 64     /* of an ACK with AGAIN: later messages may be fetched */
};

/* The head of a message, in the process's own memory. Unused members are 0. */
struct lo_message {
    uint8_t type;
    uint8_t flags;
    uint32_t session; /* the number of the receiver's session */
    uint32_t bytes;   /* of payload */
    uint32_t slot;    /* the name of a request slot, see link.h; an ACK has the status in `total` */
    uint32_t immediate;
    uint32_t total;  /* bytes of the whole transfer */
    uint32_t offset; /* of this chunk in it */
};

/* The words of a ring that the two processes share. The words of each writer have cache lines of
 * their own. */
struct lo_ring_shared {
    uint32_t head; /* the consumer's position, in slots */
    /* set by a consumer before the first message: it makes a barrier in all processes before it
     * sleeps */
    uint32_t sleeps_properly;
    uint32_t pad0[14];
    /* set by the consumer before it sleeps; cleared by the producer that wakes it */
    uint32_t asleep;
    uint32_t pad1[15];
    /* set by a producer that waits for room; cleared by the consumer that wakes it */
    uint32_t wanting;
    uint32_t relies; /* set by a producer: from now on the consumer has to make that barrier */
    uint32_t pad2[14];
    /* the current generations of the producer's request slots */
    uint32_t generations[LO_REQUEST_SLOTS];
};

struct lo_ring {
    struct lo_ring_shared *shared;
    unsigned char *slots;
    uint32_t count; /* of slots, a power of two */
    uint32_t shift; /* its logarithm */
    uint32_t at;    /* the position: the next slot to write, or to read */
    /* producer: it may write up to this position without looking at anything else; consumer: the
     * position that the producer surely knows */
    uint32_t known;
    uint32_t backed; /* producer: this many slots, from the first one on, have memory */
    /* producer, atomic: there was no memory for a message; the link is of no more use */
    uint32_t starved;
    bool relies; /* producer: it has set the shared `relies` */
};

/* --- producer --- */

/* Claims room for a message with `bytes` of payload, and returns where to write the payload; NULL:
 * there is no room. A `reply` may use the reserve that other messages leave free for replies. */
unsigned char *vipl_lo_ring_claim(struct lo_ring *ring, uint32_t bytes, bool reply);
/* Publishes the claimed message. Returns true if the consumer sleeps: the caller then wakes it. */
bool vipl_lo_ring_publish(struct lo_ring *ring, const struct lo_message *message);
/* Makes publishing a plain store from now on, if the consumer makes a barrier in all processes
 * between its mark that it sleeps and its last check of the ring. This process has to take part in
 * such barriers (os.h). Returns false if the consumer does not. */
bool vipl_lo_ring_rely(struct lo_ring *ring);
/* Returns the largest payload that fits now, at most `most`. */
uint32_t vipl_lo_ring_room(struct lo_ring *ring, uint32_t most);

/* --- consumer --- */

enum lo_peek { LO_PEEK_EMPTY, LO_PEEK_OK, LO_PEEK_BROKEN };
/* Finds the next message: copies and checks its head, and leaves the payload in place. */
enum lo_peek vipl_lo_ring_peek(struct lo_ring *ring, struct lo_message *out, const unsigned char **payload);
/* Returns the word that becomes *value when the next message is published. */
uint32_t *vipl_lo_ring_next(const struct lo_ring *ring, uint32_t *value);
/* Steps behind the message that was peeked. */
void vipl_lo_ring_pop(struct lo_ring *ring, const struct lo_message *message);
/* Marks the consumer as asleep. The caller then checks whether the ring is empty. Returns true if
 * the caller has to make a barrier in all processes between the two. */
bool vipl_lo_ring_mark_asleep(struct lo_ring *ring);
bool vipl_lo_ring_is_empty(const struct lo_ring *ring);
/* Gives the slots that were read back to the producer. `empty`: there is no further message.
 * Returns true if the producer waits for room: the caller then wakes it. */
bool vipl_lo_ring_release(struct lo_ring *ring, bool empty);

#endif
