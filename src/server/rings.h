/* SPDX-License-Identifier: MIT */
/* Completions of shared queues, in the server, which fills the rings, calls handlers, and
 * signals ready descriptors. */
#ifndef VIPL_SERVER_RINGS_H
#define VIPL_SERVER_RINGS_H

#include "base/list.h"
#include "core/sink.h"
#include "os/os_mutex.h"
#include "share/arena.h"

/* The ready descriptor of a queue. */
struct vipl_shared_ready {
    struct vipl_waker waker; /* written before `open` */
    uint32_t open;           /* atomic: whether `waker` is open */
};
/* A registered handler of a client. */
struct vipl_server_notify {
    struct vipl_list link;
    unsigned client;                /* constant */
    struct vipl_call_handler event; /* the call to make */
};
struct vipl_shared_cq {
    struct vipl_mutex lock;    /* rank CQ; guards pushing entries, and `notifies` */
    struct vipl_arena *arena;  /* constant */
    struct vipl_cq_ring *ring; /* constant */
    struct vipl_list notifies; /* vipl_server_notify.link */
    struct vipl_shared_ready ready_fd;
};
struct vipl_shared_queue {
    struct vipl_sink sink;     /* core delivers completions through it */
    struct vipl_mutex lock;    /* rank CQ; guards `notifies` */
    struct vipl_ring *ring;    /* constant */
    struct vipl_shared_cq *cq; /* constant; NULL: none */
    uint32_t code;             /* constant: names this queue in entries of the completion queue */
    /* Guarded by the lock of the queue in core: the ring's `completed`, where
     * clients cannot write. */
    uint32_t completed;
    void *vi;                  /* constant: the clients' handle */
    struct vipl_list notifies; /* vipl_server_notify.link */
    struct vipl_shared_ready ready_fd;
};

/* Prepares a queue of a new VI, before its sink is attached. */
void vipl_shared_queue_init(struct vipl_shared_queue *shared, struct vipl_ring *ring,
                            struct vipl_shared_cq *cq);
/* A client has ended: waiting processes check again, and completions that had been announced to it
 * are announced again. */
void vipl_shared_queue_reannounce(struct vipl_shared_queue *shared);
void vipl_shared_cq_reannounce(struct vipl_shared_cq *cq);
/* Registers a handler, and calls it if there is a completion already. Returns false if the queue
 * has a completion queue. */
bool vipl_shared_queue_notify(struct vipl_shared_queue *shared, struct vipl_server_notify *notify);
void vipl_shared_cq_notify(struct vipl_shared_cq *cq, struct vipl_server_notify *notify);
/* Forgets the handlers of a client, or of all clients (VIPL_SHARE_CLIENTS). */
void vipl_shared_queue_forget(struct vipl_shared_queue *shared, unsigned client);
void vipl_shared_cq_forget(struct vipl_shared_cq *cq, unsigned client);
/* Appends an entry again that a client took and cannot use. */
void vipl_shared_cq_hand_on(struct vipl_shared_cq *cq, uint32_t code);
/* Duplicates the file descriptors of a ready descriptor into `fds`; the second is left alone if
 * both are one, and fds[0] is -1 if it fails. The ready descriptor is opened if it is not, and then
 * is readable, so that waiting processes check. */
void vipl_shared_ready_share(struct vipl_shared_ready *ready_fd, uint32_t *signalled, int fds[2]);
/* The object is destroyed, as `handle` in its ring says already: waiting processes wake up
 * and see that. */
void vipl_shared_ready_end(struct vipl_shared_ready *ready_fd, uint32_t *signalled);

#endif
