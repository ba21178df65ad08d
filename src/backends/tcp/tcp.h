/* SPDX-License-Identifier: MIT */
/*
 * The device "tcp": VIs of different hosts over kernel sockets that speak iWARP.
 *
 *   tcp.c      the device: settings, limits, addresses and names, the operations table
 *   address.c  host addresses, and the ports of a discriminator
 *   watch.c    sockets that are watched, and timers
 *   loop.c     progress, sleeping, keepalive
 *   conn.c     a connection, from its socket to the peer's end of it
 *   request.c  how a connection starts: MPA's request and reply, with VIPL peers and foreign ones
 *   listen.c   the accepting side: ports, half-open connections, requests
 *   connect.c  the requesting side: probing ports, client-server and peer-to-peer requests
 *   open.c     an open connection: readiness, the peer's first FPDU, failure
 *   output.c   output coalescing
 *   message.c  a message as FPDUs, and sending them
 *   tx.c       sending: posts, and responses to RDMA Reads
 *   rx.c       receiving: the stream into receives, registered memory and outcomes
 *   foreign.c  FPDUs for foreign peers: they fit TCP's segments, with markers if the peer asks
 *
 * A VIPL peer is another instance of this library, which describes its VI in MPA's private data. A
 * foreign peer speaks iWARP without that.
 *
 * Copies: one system call sends a message from the program's memory; a short or coalesced one is
 * copied first. Received payload is copied once, out of the buffer that one system call fills for
 * many messages. Large payload of a connection without CRC is received straight into the memory
 * that it is for. With CRC, payload is always copied, because it must not be placed before its CRC
 * has been checked; the payload of responses is copied before it is sent, because its memory may
 * change.
 *
 * Locks: the device's `lock` (rank BACKEND_RX) guards everything but a connection's sending side,
 * which has a lock of its own (rank BACKEND_TX). A VI's area is written under both queue locks as
 * well.
 */
#ifndef VIPL_TCP_TCP_H
#define VIPL_TCP_TCP_H

#include "backends/tcp/watch.h"
#include "base/list.h"
#include "core/backend.h"
#include "os/os.h"
#include "os/os_biased.h"

enum {
    TCP_MAX_PROBES = 8, /* ports that a discriminator may have */
    TCP_MAX_READS = 64, /* IRD and ORD between VIPL peers */
    /* Payload bytes of a DDP segment between VIPL peers. With this number an FPDU of an RDMA Write
     * or a read response is a multiple of 16 bytes, so that TCP's segments, if they are multiples
     * of pages, never end in the middle of an FPDU's head: Wireshark loses its way where one ends 4
     * bytes into an FPDU. */
    TCP_SEGMENT = 65500,
    TCP_TRANSFER_SIZE = 4 << 20,
    TCP_SCRATCH = 256 * 1024,
    TCP_RECEIVE_PIECES = VIPL_MAX_SEGMENTS + 1,
    /* successive system calls for one socket: its peer may send faster than this side receives */
    TCP_POLL_BUDGET = 16,
    TCP_MAX_STREAK = 8 /* polls in a row that leave the other connections alone, at most */
};

enum tcp_crc { TCP_CRC_AUTO, TCP_CRC_ON, TCP_CRC_OFF };

struct tcp_settings {
    uint32_t first_port;
    uint32_t ports;
    uint32_t probes;       /* how many ports a discriminator has */
    uint32_t crc;          /* enum tcp_crc */
    uint32_t handshake_ms; /* a half-open connection must send its request within this time */
    /* The number of such connections that is allowed. Beyond it, the host that has the most loses
     * its oldest one. */
    uint32_t half_open;
    struct vipl_socket_tuning tuning;
};

/* An opened device, from a pool: a thread that polls late finds under `lock` that there is
 * nothing to do. Fields without a remark are guarded by `lock`; those from `core` on are zero in
 * a new device. */
struct tcp_nic {
    struct vipl_list free;               /* link of the pool */
    struct vipl_biased lock;             /* rank BACKEND_RX */
    struct vipl_poll_filter poll_filter; /* constant; its poll function is vipl_tcp_poll_fast() */
    struct vipl_nic *core;               /* constant */
    struct vipl_address address;         /* constant */
    struct vipl_inet inet;               /* constant: the same address, for os.h */
    struct tcp_settings settings;        /* constant */
    struct tcp_loop loop;
    struct tcp_timer accept_timer; /* starts accepting again after a lack of descriptors */
    /* looks for hosts that are gone; runs while an acknowledgment is due */
    struct tcp_timer keepalive_timer;
    struct vipl_list conns; /* tcp_conn.link */
    /* tcp_peer_host.link, in the order of each host's first half-open connection */
    struct vipl_list half_open;
    struct vipl_list listeners;   /* tcp_listener.link */
    struct vipl_list connect_ops; /* tcp_connect_op.link */
    uint32_t half_open_count;
    uint32_t conn_count;
    uint32_t poll_epoch; /* atomic, relaxed: counts the polls of the device; written under `lock` */
    /* Atomic, relaxed: since the last turn of the loop something has been watched,
     * timed or ended. */
    uint32_t changed;
    /* The program may have closed the loop's descriptors, which is checked before the loop runs. */
    bool check_poller;
    bool unwatched;       /* the system could not watch a socket for lack of memory */
    bool wake_sleeper;    /* a sleeping thread may have to wake earlier than it has planned */
    uint32_t slept;       /* atomic, relaxed: a thread has slept since the loop ran last */
    uint32_t sleeping;    /* atomic: threads between prepare_wait and finish_wait */
    uint32_t ran_epoch;   /* `poll_epoch` when the loop ran last */
    uint32_t spacing;     /* polls between two runs of the loop */
    uint64_t spaced_at;   /* ns: when `spacing` was last adjusted */
    struct tcp_conn *hot; /* the connection that received last, or was opened first; NULL: none */
    /* the connection that the kernel does not watch, because a program polls it; NULL: none */
    struct tcp_conn *paused;
    bool hot_has_received; /* `hot` has received something */
    /* messages, or parts of long ones, that `hot` has received in a row, at most TCP_MAX_STREAK: as
     * many polls in a row may leave the other connections alone */
    uint32_t hot_streak;
    uint8_t *scratch;                  /* TCP_SCRATCH bytes */
    struct vipl_iov *pieces;           /* TCP_RECEIVE_PIECES for one system call, after `scratch` */
    struct vipl_mutex tx_pending_lock; /* rank BACKEND_TX; never held with a connection's tx.lock */
    /* tcp_conn.tx_pending: of connections whose posts wait for room, read responses for their turn,
     * or output for a flush; guarded by tx_pending_lock. */
    struct vipl_list tx_pending;
    void *spare_output; /* atomic: a struct tcp_output that no connection uses; NULL: none */
    void *spare_batch;  /* atomic: a struct tcp_large_batch that no thread uses; NULL: none */
    /* atomic, relaxed: 0: `tx_pending` is empty; written under tx_pending_lock */
    uint32_t has_tx_pending;
    /* atomic, relaxed: something has been sent since the last keepalive check */
    uint32_t tx_active;
};

/* The device that core passes to the operations. */
static inline struct tcp_nic *tcp_nic_of(struct vipl_be_nic *be)
{
    return (struct tcp_nic *)(void *)be;
}

#endif
