/* SPDX-License-Identifier: MIT */
/*
 * The program that counts.py runs under valgrind: it moves messages of one kind over the public
 * interface alone, and shows by marks which of its parts are counted. Everything it does is the
 * same each time, on each machine.
 */
#ifndef VIPL_COUNTS_H
#define VIPL_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include <vipl/posix.h>

#include "tool_vipl.h"

enum {
    COUNTS_TIMEOUT_MS = 30000,
    COUNTS_MAX_IN_FLIGHT = 256,
    COUNTS_MAX_POLLS = 1000000, /* for one completion: the clock may stand still, and ends nothing */
};

enum counts_op {
    COUNTS_SEND,
    COUNTS_WRITE,
    COUNTS_READ,
    COUNTS_POLL,
    COUNTS_PING_PONG,
    COUNTS_POST,
    COUNTS_CONNECT,
    COUNTS_WAKE, /* a send to a process that sleeps in VipxCQWaitFds() */
    /* Calls for a TCP connection; none of VIPL's. */
    COUNTS_PLAIN_READ,
    COUNTS_PLAIN_WRITE,
    COUNTS_PLAIN_POLL,
    COUNTS_PLAIN_EPOLL
};

/* What the command line says. */
struct counts_plan {
    const char *device;
    enum counts_op op;
    uint32_t size;
    uint32_t in_flight; /* sends that are posted before the first is reaped */
    uint32_t messages;  /* in one counted part */
    uint32_t parts;     /* that are counted */
    int line;           /* the socket to the other process; -1: both ends are in this one */
    bool second;        /* this process has the other end */
    bool through_cq;    /* both queues report to a completion queue */
    bool waits;         /* for the completion queue and a descriptor, one process: VipxCQWaitFds() */
    bool shared_memory; /* buffers are from VipxAllocShared() */
    bool shareable;     /* the first end's NIC handle is VIPX_SHAREABLE */
    bool waits_itself;  /* NIC handles are VIPX_INLINE */
    char discriminator[32];
};

/* A buffer, and the descriptors of both queues. */
struct counts_memory {
    unsigned char *base;
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *sends;    /* in_flight of them */
    VIP_DESCRIPTOR *receives; /* likewise */
    unsigned char *out;
    unsigned char *in;
};

/* What an end must know of the other: its memory, its process. */
struct counts_remote {
    uint64_t in;
    uint64_t out;
    uint32_t handle;
    uint32_t process;
};

/* One end of the connection. */
struct counts_end {
    const struct counts_plan *plan;
    VIP_NIC_HANDLE nic;
    VIP_CQ_HANDLE cq; /* NULL: none */
    VIP_VI_HANDLE vi;
    struct counts_memory memory;
    struct counts_remote remote;
    bool counted; /* what the first process does now */
};

/* False: a message has said what failed. */
bool counts_right(const char *what, VIP_RETURN rc);

/* What follows is counted, or is not. Shown by calls, whose costs are the program's. */
void counts_mark(bool counted);

/* From now on the library's clock stands still: what it does after some time is not counted by
 * chance. */
void counts_stop_clock(void);
/* From now on the library's random numbers are the same each time; others for another number. */
void counts_choose_chance(uint64_t number);

/* An end on `nic`, which has memory and a VI that is not connected; NULL: it opens the device. */
bool counts_end_create(const struct counts_plan *plan, VIP_NIC_HANDLE nic, struct counts_end *end);
/* Two ends of this process; the two ends of two processes, which also learn of each other's
 * memory. */
bool counts_connect_both(struct counts_end *one, struct counts_end *other);
bool counts_connect(struct counts_end *end);
/* Lays out and posts the receives of an end. */
bool counts_post_receives(struct counts_end *end);
/* Lays out the sends. */
void counts_write_sends(struct counts_end *end);

/* The operations of counted parts, in one process; those for a TCP connection; those of the first
 * process of two; what the second does until it is told to end. */
bool counts_run_alone(const struct counts_plan *plan);
bool counts_run_plain(const struct counts_plan *plan);
bool counts_run_first(const struct counts_plan *plan);
bool counts_run_second(const struct counts_plan *plan);

/* Bytes through the line: the other process is to do something, or has. */
bool counts_say(int line, const void *bytes, size_t length);
bool counts_hear(int line, void *bytes, size_t length);

#endif
