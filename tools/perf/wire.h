/* SPDX-License-Identifier: MIT */
/*
 * What the two ends of vipl-perf tell each other: immediate data, control messages, the requester's
 * name. Defined byte by byte in wire.c.
 */
#ifndef VIPL_PERF_WIRE_H
#define VIPL_PERF_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What travels as immediate data, in the top byte; the other 24 bits are a value. */
enum perf_kind {
    PERF_KIND_DATA = 0,    /* no immediate data: a message that is measured */
    PERF_KIND_WRITTEN = 1, /* an RDMA Write that is measured, announced */
    PERF_KIND_CREDIT = 2,  /* value: messages the receiver takes in addition */
    PERF_KIND_MARK = 3,    /* value: RDMA Writes since the last mark, 0 for all */
    PERF_KIND_FIN = 4,     /* the receiver has everything */
    PERF_KIND_GO = 5,      /* start */
    PERF_KIND_END = 6,     /* the client has finished the run */
    PERF_KIND_MESSAGE = 7  /* the payload is a struct perf_message */
};

#define PERF_VALUE_MASK 0xffffffu

enum perf_type { PERF_HELLO = 1, PERF_WELCOME, PERF_RUN, PERF_READY, PERF_RESULT };

/* Every control message; members a type has no use for are 0. On the wire: big-endian bytes. */
struct perf_message {
    enum perf_type type;
    uint8_t test;
    uint8_t op;
    uint8_t block;
    uint8_t verify;
    uint8_t polls;       /* RUN: who waits for an RDMA Write looks at memory and calls the library in turns */
    uint32_t size;       /* RUN: bytes per message; HELLO: the largest of the session */
    uint32_t depth;      /* HELLO: messages in flight */
    uint64_t count;      /* RUN: messages; RESULT: messages found wrong */
    uint64_t address;    /* HELLO, WELCOME: the sender's RDMA window */
    uint32_t handle;     /* its memory handle */
    uint32_t stride;     /* bytes from one slot to the next */
    uint32_t slots;      /* slots to write; as many to read follow */
    uint32_t timeout_ms; /* HELLO */
};

#define PERF_MESSAGE_BYTES 64
#define PERF_MAGIC UINT32_C(0x56505231)
#define PERF_VERSION 2

void perf_message_encode(const struct perf_message *message, unsigned char *bytes);
bool perf_message_decode(const unsigned char *bytes, uint32_t length, struct perf_message *message);

#define PERF_MAX_THREADS 64
#define PERF_MAX_CONNECTIONS 4096

/* The requester's name tells the server, before it has a VI, what kind of VI to make, and of how
 * many it is one: all requests of a client have the same name. */
struct perf_name {
    uint32_t party; /* the client, as opposed to others */
    uint32_t threads;
    uint32_t connections; /* of each thread */
    bool cq;
};

#define PERF_NAME_BYTES 12
void perf_name_encode(const struct perf_name *from, unsigned char *name);
bool perf_name_decode(const unsigned char *name, size_t length, struct perf_name *to);

#endif
