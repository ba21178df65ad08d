/* SPDX-License-Identifier: MIT */
/* Completions of shared queues, in the server: the rings are filled here, and handlers and ready descriptors told. */
#ifndef VIPL_SERVER_RINGS_H
#define VIPL_SERVER_RINGS_H

#include "base/list.h"
#include "core/sink.h"
#include "os/os_mutex.h"
#include "share/arena.h"

/* The ready descriptor of a queue. */
struct vipl_shared_ready {
    struct vipl_waker waker; /* written before open */
    uint32_t open;           /* atomic: whether there is one */
};
/* A registered handler of a client. */
struct vipl_server_notify {
    struct vipl_list link;
    unsigned client;                /* constant */
    struct vipl_call_handler event; /* what to call */
};
struct vipl_shared_cq {
    struct vipl_mutex lock;    /* rank CQ; guards pushing, and notifies */
    struct vipl_arena *arena;  /* constant */
    struct vipl_cq_ring *ring; /* constant */
    struct vipl_list notifies; /* vipl_server_notify.link */
    struct vipl_shared_ready ready_fd;
};
struct vipl_shared_queue {
    struct vipl_sink sink;     /* through which core delivers */
    struct vipl_mutex lock;    /* rank CQ; guards notifies */
    struct vipl_ring *ring;    /* constant */
    struct vipl_shared_cq *cq; /* constant; NULL: none */
    uint32_t code;             /* constant: of this queue, in the completion queue */
    uint32_t
        completed; /* guarded by the lock of core's queue: what the ring says, where clients cannot write */
    void *vi;      /* constant: the clients' handle */
    struct vipl_list notifies; /* vipl_server_notify.link */
    struct vipl_shared_ready ready_fd;
};

/* Prepares one of a new VI's queues; its sink may be attached then. */
void vipl_shared_queue_init(struct vipl_shared_queue *shared, struct vipl_ring *ring,
                            struct vipl_shared_cq *cq);
/* A client has ended: waiting processes look again, and what had been announced to it is announced again. */
void vipl_shared_queue_reannounce(struct vipl_shared_queue *shared);
void vipl_shared_cq_reannounce(struct vipl_shared_cq *cq);
/* Registers a handler, and calls it if there is a completion already. False: the queue has a completion queue. */
bool vipl_shared_queue_notify(struct vipl_shared_queue *shared, struct vipl_server_notify *notify);
void vipl_shared_cq_notify(struct vipl_shared_cq *cq, struct vipl_server_notify *notify);
/* Forgets the handlers of a client, or of all (client: VIPL_SHARE_CLIENTS). */
void vipl_shared_queue_forget(struct vipl_shared_queue *shared, unsigned client);
void vipl_shared_cq_forget(struct vipl_shared_cq *cq, unsigned client);
/* Puts an entry that a client took and cannot use back, at the end. */
void vipl_shared_cq_hand_on(struct vipl_shared_cq *cq, uint32_t code);
/* Duplicates of a ready descriptor's, the second -1 if both are one; -1: there are none to be had. It is made if need be, and
 * is readable then, so that waiting processes look. */
void vipl_shared_ready_share(struct vipl_shared_ready *ready_fd, uint32_t *signalled, int fds[2]);
/* The object is destroyed, as `handle` in its ring says already: waiting processes wake up and see that. */
void vipl_shared_ready_end(struct vipl_shared_ready *ready_fd, uint32_t *signalled);

#endif
