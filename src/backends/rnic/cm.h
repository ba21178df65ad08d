/* SPDX-License-Identifier: MIT */
/*
 * Control messages of VIPL's driver, by which connections begin and end. A message begins with the
 * header CONTROL of the data sheet. The fields that follow are big-endian too:
 *
 *   REQUEST     the discriminator that is called, the attributes, the requester's discriminator
 *   ACCEPT      the attributes
 *   REJECT      REASON says why; with CM_DISAGREES four bytes, a VIP_RETURN
 *   CANCEL      the discriminator that was called; with REASON CM_ELSEWHERE the message does not
 *               concern the queue pair that it names as its destination
 *   READY, DISCONNECT   nothing
 *   REFUSED     from a card: at least the header of the request
 *
 * Attributes, 16 bytes: version (1); flags (1): 1 peer-to-peer, 2 RDMA Write, 4 RDMA Read, 8 QoS,
 * 16 addresses of 32 bits; reliability (2), a VIP_SERVICE_...; MaxTransferSize (8); IRD (1); ORD
 * (1); bytes of the requester's discriminator (2).
 *
 * REJECT with CM_PENDING does not end the request: a program will answer later. Every message after
 * REQUEST names the queue pair and the serial number of its request. A message that matches no
 * request is ignored; if its sender would wait for ever, it is answered by CANCEL or DISCONNECT.
 */
#ifndef BACKENDS_RNIC_CM_H
#define BACKENDS_RNIC_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/backend.h"

/* REASON of a CANCEL: another queue pair has accepted. */
enum { CM_ELSEWHERE = 1 };

/* REASON of a REJECT. */
enum {
    CM_REJECTED = 1, /* by the program */
    CM_DISAGREES,    /* the attributes of the two VIs do not agree */
    CM_NO_MATCH,     /* no program listens for such requests now */
    CM_FULL,         /* too many requests are waiting: the requester tries again */
    CM_PENDING       /* the request has arrived and waits for an answer */
};

enum { CM_MAX_BYTES = 16 + VIPL_MAX_DISCRIMINATOR + 16 + VIPL_MAX_DISCRIMINATOR };

struct cm_discriminator {
    uint16_t length;
    uint8_t bytes[VIPL_MAX_DISCRIMINATOR];
};

struct cm_message {
    uint8_t kind;   /* RNIC_CONTROL_... */
    uint8_t reason; /* REJECT: CM_...; REFUSED: RNIC_REFUSED_... */
    uint32_t source_qp;
    uint32_t destination_qp;
    uint32_t serial;
    uint32_t code;                /* REJECT, CM_DISAGREES */
    struct cm_discriminator to;   /* REQUEST, CANCEL */
    struct cm_discriminator from; /* REQUEST */
    bool peer;                    /* REQUEST */
    struct vipl_vi_params params; /* REQUEST, ACCEPT, as the next two */
    uint8_t ird;
    uint8_t ord;
};

/* Writes the message and returns its length. */
size_t vipl_rnic_cm_write(const struct cm_message *message, uint8_t out[CM_MAX_BYTES]);
/* Returns false if the bytes are no valid message. */
bool vipl_rnic_cm_read(const uint8_t *bytes, size_t length, struct cm_message *out);

#endif
