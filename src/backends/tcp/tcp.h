/* SPDX-License-Identifier: MIT */
/*
 * The device "tcp": VIs of different hosts over kernel sockets that speak iWARP.
 *
 *   tcp.c      the device: its settings, limits, addresses and names, the operations table
 *   address.c  host addresses and the ports of a discriminator
 *   watch.c    sockets that are watched, and times
 *   loop.c     progress, sleeping, keepalive
 *   conn.c     a connection from its socket to the peer's end of it
 *   request.c  how a connection starts: MPA's request and reply, with VIPL peers and foreign ones
 *   listen.c   the accepting side: ports, half-open connections, requests
 *   connect.c  the requesting side: the probe loop over ports, client-server and peer-to-peer requests
 *   open.c     an open connection: what its socket's readiness, the peer's first FPDU and its failure lead to
 *   output.c    what leaves together
 *   message.c  a message as FPDUs, and how far it is in the stream
 *   tx.c       posts and responses to RDMA Reads, into the stream
 *   rx.c       the stream into receives, registered memory and outcomes
 *   foreign.c  FPDUs for foreign peers: they fit TCP's segments, with markers for peers that ask for them
 *
 * A VIPL peer is another instance of this library, which describes its VI in MPA's private data. A foreign peer speaks iWARP
 * without that.
 *
 * Copies: a send leaves from the program's memory by one system call; a short one, or one of a burst, is copied first. Received payload is copied once,
 * out of the buffer that one system call fills for many messages; large payload of connections without CRC is
 * received to where it goes. With CRC payload is copied in any case, because it must not be placed before its CRC
 * is known to be right; and so is the payload of responses before it is sent, because its memory may change.
 *
 * Locks: `lock` of the device (rank BACKEND_RX) guards everything but a connection's sending side, which
 * has a lock of its own (rank BACKEND_TX). A VI's area is written under both queue locks in addition.
 */
#ifndef VIPL_TCP_TCP_H
#define VIPL_TCP_TCP_H

#include "backends/tcp/watch.h"
#include "base/list.h"
#include "core/backend.h"
#include "os/os.h"
#include "os/os_biased.h"

enum {
    TCP_PROBES = 8, /* ports that a discriminator has, at most */
    TCP_READS = 64, /* IRD and ORD between VIPL peers */
    /* Payload bytes of a DDP segment between VIPL peers. An FPDU of an RDMA Write or of a read response is a
     * multiple of 16 bytes with that, and what is sent in multiples of pages ends nowhere in the middle of its
     * head: Wireshark loses its way where TCP's segment ends 4 bytes into an FPDU. */
    TCP_SEGMENT = 65500,
    TCP_TRANSFER_SIZE = 4 << 20,
    TCP_SCRATCH = 256 * 1024,
    TCP_PLACES = VIPL_MAX_SEGMENTS + 1,
    TCP_POLL_BUDGET = 16 /* system calls in a row for one socket: its peer may send faster than we receive */
};

enum tcp_crc { TCP_CRC_AUTO, TCP_CRC_ON, TCP_CRC_OFF };

struct tcp_settings {
    uint32_t first_port;
    uint32_t ports;
    uint32_t probes;       /* how many of them a discriminator has */
    uint32_t crc;          /* enum tcp_crc */
    uint32_t handshake_ms; /* a half-open connection sends its request within this time */
    uint32_t half_open;    /* such connections at most; beyond, the host that has the most loses its oldest */
    struct vipl_socket_tuning tuning;
};

/* An opened device. From a pool: a thread that polls may come late, and finds under `lock` that there is nothing for it. Fields
 * without a remark are guarded by `lock`; what follows `poll_filter` begins at zero. */
struct tcp_nic {
    struct vipl_list free;               /* in the pool */
    struct vipl_biased lock;             /* rank BACKEND_RX */
    struct vipl_poll_filter poll_filter; /* constant: each look is a poll */
    struct vipl_nic *core;               /* constant */
    struct vipl_address address;         /* constant */
    struct vipl_inet inet;               /* constant: the same, as the system has it */
    struct tcp_settings settings;        /* constant */
    struct tcp_loop loop;
    struct tcp_timer accept_timer; /* accepting goes on after a lack of descriptors */
    struct tcp_timer
        keepalive_timer;          /* looks for hosts that have gone; runs while an acknowledgment is due */
    struct vipl_list conns;       /* tcp_conn.link */
    struct vipl_list half_open;   /* tcp_peer_host.link, in the order of their first such connection */
    struct vipl_list listeners;   /* tcp_listener.link, the latest used last */
    struct vipl_list connect_ops; /* tcp_connect_op.link */
    uint32_t half_open_count;
    uint32_t conn_count;
    uint32_t poll_epoch; /* atomic, relaxed: at the device, by any thread; written under `lock` */
    uint32_t
        changed; /* atomic, relaxed: something is watched for, has a time, or has ended, that was not in the last turn */
    /* The program may have closed the loop's descriptors: to be checked before the loop runs. */
    bool check_poller;
    bool unwatched;           /* the system could not watch a connection for lack of memory */
    bool wake_sleeper;        /* a sleeping thread may have to wake earlier than it thinks */
    uint32_t slept;           /* atomic, relaxed: a thread has slept since the loop ran last */
    uint32_t sleeping;        /* atomic: threads between prepare_wait and finish_wait */
    uint32_t ran;             /* `poll_epoch` when the loop ran last */
    uint32_t spacing;         /* polls until it is to run again */
    uint64_t spaced_at;       /* ns: when it last ran for that */
    struct tcp_conn *hot;     /* received last, or opened first; NULL: none */
    struct tcp_conn *resting; /* the kernel does not watch it, because a program polls it; NULL: none */
    bool heard;               /* that has received something */
    uint8_t *scratch;         /* TCP_SCRATCH bytes */
    struct vipl_iov *pieces;  /* of what is received by one system call: TCP_PLACES, behind `scratch` */
    struct vipl_mutex tx_pending_lock; /* rank BACKEND_TX; never held with a connection's */
    /* tcp_conn.tx_pending, where posts wait for room, read responses for their turn, or a burst for its end; guarded by
     * tx_pending_lock. */
    struct vipl_list tx_pending;
    void *spare_output;      /* atomic: a struct tcp_output that no connection has; NULL: none */
    void *spare_batch;       /* atomic: a struct tcp_many that no thread sends; NULL: none */
    uint32_t has_tx_pending; /* atomic, relaxed: 0: `tx_pending` is empty. Written under tx_pending_lock */
    uint32_t tx_active;      /* atomic, relaxed: something has been sent since keepalive looked last */
};

/* The device that core passes to the operations. */
static inline struct tcp_nic *tcp_nic_of(struct vipl_be_nic *be)
{
    return (struct tcp_nic *)(void *)be;
}

#endif
