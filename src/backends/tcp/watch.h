/* SPDX-License-Identifier: MIT */
/*
 * Sockets that are watched, and times: what a connection, a listener or a request waits for. A turn calls those that are ready and
 * those whose time is up; it takes little stack, for it may run in a signal handler. The device's lock is held.
 */
#ifndef VIPL_TCP_WATCH_H
#define VIPL_TCP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "os/os.h"

enum { TCP_READABLE = 1, TCP_WRITABLE = 2 };

struct tcp_watch {
    void (*ready)(struct tcp_watch *watch,
                  int events); /* constant; what is no more than an error is both events */
    int fd;                    /* constant */
    int events;                /* that are watched for; 0: the system does not know of it */
};

struct tcp_timer {
    struct vipl_list link;                /* tcp_loop.timers, while it runs */
    void (*due)(struct tcp_timer *timer); /* constant */
    uint64_t at_ms;
};

/* Something that is no more, but may still be named by what is under way. */
struct tcp_ended {
    struct vipl_list link;
    void (*free)(struct tcp_ended *ended);
};

struct tcp_loop {
    struct vipl_pollset set;
    struct vipl_list timers; /* the one that is due first comes first */
    struct vipl_list ended;
    bool lost; /* the program has closed the set's descriptor: nothing is done with that number any more */
};

int vipl_tcp_loop_begin(struct tcp_loop *loop); /* 0, or an errno value */
void vipl_tcp_loop_end(struct tcp_loop *loop);  /* nothing is watched, no timer runs */
void vipl_tcp_loop_turn(struct tcp_loop *loop);
int vipl_tcp_loop_ms(
    const struct tcp_loop *loop); /* until a turn has something to do anyway; -1: no time is known */

void vipl_tcp_watch_init(struct tcp_watch *watch, int fd, void (*ready)(struct tcp_watch *watch, int events));
/* 0 events: for none. On failure the system knows of none: 0, or an errno value. */
int vipl_tcp_watch_for(struct tcp_loop *loop, struct tcp_watch *watch, int events);

void vipl_tcp_timer_init(struct tcp_timer *timer, void (*due)(struct tcp_timer *timer));
void vipl_tcp_timer_start(struct tcp_loop *loop, struct tcp_timer *timer, uint64_t ms); /* or again */
void vipl_tcp_timer_stop(struct tcp_timer *timer);
static inline bool vipl_tcp_timer_runs(const struct tcp_timer *timer)
{
    return !vipl_list_empty(&timer->link);
}

/* It is freed at the end of a turn. */
void vipl_tcp_free_later(struct tcp_loop *loop, struct tcp_ended *ended,
                         void (*free)(struct tcp_ended *ended));

#endif
