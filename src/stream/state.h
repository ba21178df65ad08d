/* SPDX-License-Identifier: MIT */
/*
 * The protocol of a stream, as a state machine without input or output.
 *
 * Each end posts a number of receives, its window, and tells the other end in the handshake how
 * many and of how many bytes (hello.h). A message takes one of the peer's receives, a credit. The
 * immediate data of each message has its type in the upper 8 bits, and in the lower 24 bits the
 * number of receives that the sender has posted again since its last message. So the payload of a
 * message is data of the stream and nothing else.
 *
 * DATA leaves two credits, RTS leaves one, and the others may take the last one: an end whose peer
 * reads nothing can still return credits and finish. Credits travel with any message; an end that
 * owes half of its window sends a CREDIT.
 *
 * An end that sends no more sends FIN, as shutdown() does; one that does not receive any more
 * either sends CLOSE, with or without a FIN before. The peer answers each with an ACK as soon as it
 * has taken it, and with it all that came before, whether or not its program has read that. After
 * the ACK to a CLOSE the connection may be ended without loss; an end that has taken a CLOSE may
 * end the connection at any time.
 *
 * The peer is not trusted. vipl_stream_on_message() checks every message against what the peer may
 * send in its state, and a breach ends this stream only.
 */
#ifndef VIPL_STREAM_STATE_H
#define VIPL_STREAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum vipl_stream_message {
    VIPL_STREAM_DATA = 1,   /* 1 byte up to the receiver's message size */
    VIPL_STREAM_CREDIT = 2, /* no bytes: only returns credits */
    VIPL_STREAM_FIN = 3,    /* no bytes: no DATA and no RTS will follow */
    VIPL_STREAM_CLOSE = 4,  /* no bytes: a FIN, and DATA that comes is thrown away */
    VIPL_STREAM_ACK = 5,    /* no bytes: a FIN or CLOSE has been taken */
    VIPL_STREAM_RTS = 6,    /* a struct vipl_stream_offer: ready to send by the peer's RDMA Reads */
    VIPL_STREAM_DONE = 7    /* no bytes: all of the offered memory has been read */
};

/* What an end has posted, as it says in the handshake. */
struct vipl_stream_window {
    uint32_t messages;
    uint32_t bytes; /* of each message, at most */
};
enum {
    VIPL_STREAM_MIN_MESSAGES = 4,
    VIPL_STREAM_MAX_MESSAGES = 4096,
    VIPL_STREAM_MIN_BYTES = 512,
    VIPL_STREAM_MAX_BYTES = 1 << 20, /* the VIs' MaxTransferSize */
    VIPL_STREAM_OFFER_BYTES = 24,    /* the payload of an RTS */
    VIPL_STREAM_MAX_OFFER = 1 << 30  /* bytes that one RTS offers, at most */
};
/* Returns true if the figures are within those limits. */
bool vipl_stream_window_is_valid(struct vipl_stream_window window);

/* Memory of the sender that the receiver of an RTS may read. */
struct vipl_stream_offer {
    uint64_t address;
    uint64_t length; /* 1 to VIPL_STREAM_MAX_OFFER */
    uint32_t handle;
};
void vipl_stream_offer_encode(struct vipl_stream_offer offer, uint8_t bytes[VIPL_STREAM_OFFER_BYTES]);
/* Returns false if the bytes are not an offer. */
bool vipl_stream_offer_decode(const uint8_t bytes[VIPL_STREAM_OFFER_BYTES], struct vipl_stream_offer *offer);

/* One end. All fields are guarded by the owner's lock. */
struct vipl_stream_state {
    struct vipl_stream_window own;  /* constant once connected */
    struct vipl_stream_window peer; /* constant once connected */
    uint32_t credits;               /* messages that the peer has receives for */
    uint32_t owed;                  /* receives posted again that the peer does not know of */
    uint32_t unacknowledged;        /* FIN and CLOSE that were sent, less the ACKs that came */
    uint32_t acks_due;              /* FIN and CLOSE that came, less the ACKs that were sent */
    bool fin_sent;                  /* FIN or CLOSE */
    bool fin_received;              /* FIN or CLOSE */
    bool close_sent;
    bool close_received;
    bool offering; /* an RTS was sent, and its DONE has not come */
    bool offered;  /* an RTS came, and its DONE has not been sent */
    bool holding;  /* bytes of the program wait for more, and go before what comes after them */
    /* What the owner wants to be sent as soon as there is a credit for it: */
    bool finishing; /* a FIN */
    bool closing;   /* a CLOSE */
    bool has_read;  /* a DONE: all of the peer's memory has been read */
    /* An RTS is a breach; constant once connected. */
    bool refuses_offers;
};

/* The windows are known. The state was zeroed before, and may have something to finish. */
void vipl_stream_state_begin(struct vipl_stream_state *state, struct vipl_stream_window own,
                             struct vipl_stream_window peer);

/* Returns true if a message of the type may be sent now. */
bool vipl_stream_may_send(const struct vipl_stream_state *state, enum vipl_stream_message type);
/* A message that may be sent is sent. Returns its immediate data. */
uint32_t vipl_stream_on_send(struct vipl_stream_state *state, enum vipl_stream_message type);

/* A message of the peer has come. Returns its type, or 0 if it is a breach of the protocol, which
 * changes nothing. The receive that the message took is the caller's to post again. */
enum vipl_stream_message vipl_stream_on_message(struct vipl_stream_state *state, uint32_t immediate,
                                                uint32_t bytes);
/* A receive has been posted again. */
void vipl_stream_on_repost(struct vipl_stream_state *state);
/* Returns the type of a message without data that is to be sent now, and may be sent; 0: none. */
enum vipl_stream_message vipl_stream_due(const struct vipl_stream_state *state);

#endif
