/* SPDX-License-Identifier: MIT */
/*
 * Watched sockets and timers, for which a connection, a listener or a request waits. A turn of the
 * loop calls the ready functions of ready sockets and the due functions of expired timers. It takes
 * little stack, because it may run in a signal handler. The device's lock is held.
 */
#ifndef VIPL_TCP_WATCH_H
#define VIPL_TCP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "os/os.h"

enum { TCP_READABLE = 1, TCP_WRITABLE = 2 };

struct tcp_watch {
    /* constant; an error counts as both events */
    void (*ready)(struct tcp_watch *watch, int events);
    int fd; /* constant */
    /* TCP_READABLE, TCP_WRITABLE: watched for; 0: the pollset does not have the socket */
    int events;
};

struct tcp_timer {
    struct vipl_list link;                /* in tcp_loop.timers, while the timer runs */
    void (*due)(struct tcp_timer *timer); /* constant */
    uint64_t at_ms;
};

/* An object that has ended, but that functions under way may still name. */
struct tcp_ended {
    struct vipl_list link;
    void (*free)(struct tcp_ended *ended);
};

struct tcp_loop {
    struct vipl_pollset set;
    struct vipl_list timers; /* sorted, the one that is due first at the front */
    struct vipl_list ended;
    /* The program has closed the set's descriptor: nothing is done with that number any more. */
    bool lost;
};

int vipl_tcp_loop_begin(struct tcp_loop *loop); /* 0, or an errno value */
void vipl_tcp_loop_end(struct tcp_loop *loop);  /* the caller has stopped every watch and timer */
void vipl_tcp_loop_turn(struct tcp_loop *loop);
/* Milliseconds until a turn has something to do even if no socket is ready; -1: no
 * time is known. */
int vipl_tcp_loop_ms(const struct tcp_loop *loop);

void vipl_tcp_watch_init(struct tcp_watch *watch, int fd, void (*ready)(struct tcp_watch *watch, int events));
/* Watches a socket for these events; 0: for none. Returns 0 or an errno value; after an error the
 * pollset does not have the socket. */
int vipl_tcp_watch_for(struct tcp_loop *loop, struct tcp_watch *watch, int events);

void vipl_tcp_timer_init(struct tcp_timer *timer, void (*due)(struct tcp_timer *timer));
/* starts or restarts */
void vipl_tcp_timer_start(struct tcp_loop *loop, struct tcp_timer *timer, uint64_t ms);
void vipl_tcp_timer_stop(struct tcp_timer *timer);
static inline bool vipl_tcp_timer_runs(const struct tcp_timer *timer)
{
    return !vipl_list_empty(&timer->link);
}

/* Has `free` called for the object at the end of a turn. */
void vipl_tcp_free_later(struct tcp_loop *loop, struct tcp_ended *ended,
                         void (*free)(struct tcp_ended *ended));

#endif
