/* SPDX-License-Identifier: MIT */
/*
 * The frame of EFE: bytes in, structures out, and back. Pure functions; whether a frame fits its
 * flow is the caller's affair. docs/rnic/efe.md has the table. Numbers are big-endian; offsets
 * below count from the destination MAC.
 */
#ifndef DEVICES_RNIC_EFE_FRAME_H
#define DEVICES_RNIC_EFE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EFE_ETHERTYPE = 0x88B5, /* IEEE 802: local experimental 1 */
    EFE_VERSION = 1,
    EFE_ETHERNET_BYTES = 14, /* destination MAC, source MAC, EtherType */
    EFE_TAG_BYTES = 4,       /* of a VLAN, which raw frames may have besides */
    EFE_HEADER_BYTES = 48,   /* what follows them */
    EFE_PAYLOAD_AT = EFE_ETHERNET_BYTES + EFE_HEADER_BYTES,
    EFE_CRC_BYTES = 4, /* directly behind the payload; Ethernet's padding comes after it */
    EFE_SACK_BYTES = 32,
    /* frames of a flow that may be on their way: a bit of the selective acknowledgment each */
    EFE_WINDOW_MAX = 256,
    EFE_ADAPTER = 0xFFFF /* the function number of the adapter itself */
};

enum efe_type {
    EFE_DATA = 1,        /* numbered: carries a DDP segment */
    EFE_ACK = 2,         /* not numbered: carries EFE_SACK_BYTES of selective acknowledgment */
    EFE_CONTROL = 3,     /* numbered: connection management */
    EFE_MESSAGE_ACK = 4, /* numbered: messages that were placed, or could not be */
    EFE_PROBE = 5,       /* not numbered, no payload: asks for an acknowledgment */
    EFE_RESET = 6        /* not numbered, no payload: the flow has ended */
};

enum efe_flag {
    EFE_FIRST = 0x80,   /* of the message */
    EFE_LAST = 0x40,    /* of the message */
    EFE_ACK_NOW = 0x20, /* the receiver acknowledges without delay */
    /* the sender has not heard of this flow from the receiver: next_expected, echo and held say
     * nothing */
    EFE_NEW = 0x10
};

/* All fields of a frame but its payload and CRC. */
struct efe_header {
    uint8_t to_mac[6];
    uint8_t from_mac[6];
    uint8_t type;  /* enum efe_type */
    uint8_t flags; /* enum efe_flag, added */
    uint16_t payload_bytes;
    uint16_t from_fn;
    uint16_t to_fn;
    /* of the sender's end of the flow: random, not 0, and the number of its first numbered frame */
    uint32_t epoch;
    /* a numbered frame's number; of others, the number that the next one will have */
    uint32_t sequence;
    /* all numbered frames before this one have come. In a reset: the receiver's epoch, or 0 */
    uint32_t next_expected;
    uint16_t window; /* number of frames, from next_expected on, that may be sent */
    uint16_t to_qp;
    uint16_t from_qp;
    uint32_t left;    /* bytes of the message, from this frame's payload on */
    uint32_t message; /* its number, of the QP */
    uint32_t sent;    /* when, in microseconds of the sender's clock */
    uint32_t echo;    /* `sent` of the frame that came last to the sender */
    uint32_t held;    /* microseconds from its coming until `sent` */
};

/* Why bytes are no frame. */
enum efe_fault {
    EFE_FRAME_OK,
    EFE_FAULT_SHORT,     /* shorter than its headers, payload and CRC */
    EFE_FAULT_ETHERTYPE, /* not EFE */
    EFE_FAULT_VERSION,
    EFE_FAULT_TYPE,   /* unknown */
    EFE_FAULT_LENGTH, /* a payload that its type does not have */
    EFE_FAULT_CRC,
    EFE_FAULTS
};

/*
 * Reads and checks everything that one frame alone shows. `frame` is from the destination MAC on
 * and may be padded. Writes *out if it is EFE_FRAME_OK; the payload is out->payload_bytes at frame
 * + EFE_PAYLOAD_AT.
 */
enum efe_fault efe_frame_read(const uint8_t *frame, size_t bytes, struct efe_header *out);

/* Writes EFE_PAYLOAD_AT bytes in front of the payload. */
void efe_frame_write(uint8_t *frame, const struct efe_header *header);
/* Writes the CRC behind header and payload, which must be in place. Returns the frame's length. */
uint32_t efe_frame_seal(uint8_t *frame);

/* Whether frames of this type are numbered: delivered in order, exactly once. */
bool efe_type_is_numbered(unsigned type);

/* The most payload in a frame, where Ethernet carries `mtu` bytes. */
static inline uint32_t efe_payload_max(uint32_t mtu)
{
    return mtu - EFE_HEADER_BYTES - EFE_CRC_BYTES;
}

/* Bit i (from 1 on; bit 0 is always clear) of the selective acknowledgment: frame next_expected + i
 * has come. */
static inline bool efe_sack_get(const uint8_t *sack, unsigned i)
{
    return (sack[i / 8] & 0x80u >> i % 8) != 0;
}
static inline void efe_sack_set(uint8_t *sack, unsigned i)
{
    sack[i / 8] = (uint8_t)(sack[i / 8] | 0x80u >> i % 8);
}

#endif
