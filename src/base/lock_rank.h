/* SPDX-License-Identifier: MIT */
/*
 * The lock order. A thread takes locks only downwards through this list; a debug build aborts
 * otherwise (os_mutex.h). No handler of the program runs under any of these locks.
 *
 * A thread never holds two locks of one rank. A thread that needs both ends of a connection takes
 * the sender's VIPL_RANK_SEND and then the receiver's VIPL_RANK_RECV.
 */
#ifndef VIPL_BASE_LOCK_RANK_H
#define VIPL_BASE_LOCK_RANK_H

enum vipl_lock_rank {
    /* sockets/epoll.h: a set's entries; sockets/conn.h: the handshake of a connection */
    VIPL_RANK_SOCK_EPOLL = 1,
    VIPL_RANK_SOCK_CONN,
    VIPL_RANK_SOCK_LIST,     /* sockets/pending.c: the connections whose handshake has begun */
    VIPL_RANK_SOCK_DEVICE,   /* sockets/device.c: the device is being opened */
    VIPL_RANK_SOCK_PROBE,    /* sockets/probe.c: what is known of other hosts; sockets/responder.c */
    VIPL_RANK_SOCK_PLACES,   /* sockets/places.c: what is known of this host's listeners */
    VIPL_RANK_STREAM,        /* stream/stream.c: a stream, during the library's calls for its VI */
    VIPL_RANK_STREAM_CLOSER, /* stream/closer.c: closed streams whose peer has yet to take all */
    VIPL_RANK_STREAM_NIC,    /* stream/nic.c: the streams of a device */
    VIPL_RANK_SOCK_READY,    /* sockets/epoll.h: entries that have changed; taken by notifications */
    VIPL_RANK_SOCK_TABLE,    /* sockets/table.c: what descriptors stand for */
    VIPL_RANK_NOTES,         /* server.c: messages of one client are read and handled in their order */
    /* server/rights.c: the clients' processes, and what the server itself may do */
    VIPL_RANK_RIGHTS,
    /* share/client_post.c: a client's ring of posts; server/posts.c: all of them */
    VIPL_RANK_POSTS,
    /* share/client.c, server/objects.c, server/heap.c: a client's channels; the server's objects */
    VIPL_RANK_SHARE,
    VIPL_RANK_CACHES,  /* cache.c: a registration cache is made or ended */
    VIPL_RANK_REGIONS, /* mem.h: one region ends or changes at a time, at the backend too */
    /* listener.c: a NIC handle begins or stops taking requests, at the backend too */
    VIPL_RANK_LISTEN,
    VIPL_RANK_BACKEND,      /* a backend's connection set-up and links */
    VIPL_RANK_BACKEND_MEM,  /* a backend's tables of registered memory */
    VIPL_RANK_BACKEND_RX,   /* a backend's receiving side: one thread makes progress */
    VIPL_RANK_NIC,          /* nic.h: an opened device's lists of objects, its users */
    VIPL_RANK_SEND,         /* queue.h: a VI's send queue; with RECV, the VI's state */
    VIPL_RANK_RECV,         /* queue.h: a VI's receive queue */
    VIPL_RANK_CQ,           /* cq.h: entries and waiters of a completion queue */
    VIPL_RANK_BACKEND_TX,   /* a backend's sending side */
    VIPL_RANK_RNIC_COMMAND, /* backends/rnic: commands to the card, one at a time */
    VIPL_RANK_RNIC_SLAB,    /* backends/rnic: memory for rings; memory of the card */
    /* backends/rnic: the way to the card; the card itself, where it is in this process */
    VIPL_RANK_RNIC_PCI,
    VIPL_RANK_CACHE_LIST, /* cache.c: the caches that are told of memory that goes */
    VIPL_RANK_CACHE,      /* cache.c: the entries of a registration cache */
    VIPL_RANK_MEM,        /* mem.h: changes of the region table (look-ups take no lock) */
    VIPL_RANK_SERVICE,    /* service.h: events waiting for the callback thread */
    VIPL_RANK_WAIT,       /* wait.h: the sleeping threads of a NIC handle */
    /* vfio_user/client.h, bus/host.h: one request of a card's function at a time */
    VIPL_RANK_PCI,
    VIPL_RANK_IOVA,   /* backends/rnic/pci/maps.h: the memory that a card may ask for */
    VIPL_RANK_HANDLE, /* handle.h: free slots of the handle table */
    VIPL_RANK_POOL,   /* pool.h: free objects */
    VIPL_RANK_LOG     /* log.h */
};

#endif
