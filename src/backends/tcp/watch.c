/* SPDX-License-Identifier: MIT */
/* Watched sockets and timers. */
#include "backends/tcp/watch.h"

#include <limits.h>

enum { AT_ONCE = 8, MAX_ROUNDS = 128 }; /* sockets per system call, system calls per turn */

int vipl_tcp_loop_begin(struct tcp_loop *loop)
{
    vipl_list_init(&loop->timers);
    vipl_list_init(&loop->ended);
    loop->lost = false;
    return vipl_pollset_open(&loop->set);
}

/* --- sockets --- */

void vipl_tcp_watch_init(struct tcp_watch *watch, int fd, void (*ready)(struct tcp_watch *watch, int events))
{
    watch->ready = ready;
    watch->fd = fd;
    watch->events = 0;
}

int vipl_tcp_watch_for(struct tcp_loop *loop, struct tcp_watch *watch, int events)
{
    int error = 0;
    if (loop->lost || events == watch->events) {
        return 0;
    }
    if (events == 0) {
        vipl_pollset_remove(&loop->set, watch->fd);
    } else {
        error = vipl_pollset_watch(&loop->set, watch->fd, watch, watch->events == 0,
                                   (events & TCP_READABLE) != 0, (events & TCP_WRITABLE) != 0);
        if (error != 0 && watch->events != 0) {
            vipl_pollset_remove(&loop->set, watch->fd);
        }
    }
    watch->events = error == 0 ? events : 0;
    return error;
}

static int events_of(const struct vipl_ready *ready)
{
    return ready->broken ? TCP_READABLE | TCP_WRITABLE
                         : (ready->readable ? TCP_READABLE : 0) | (ready->writable ? TCP_WRITABLE : 0);
}

/* A watch that this turn has stopped has no events any more, and is not called. */
static void call_ready(struct tcp_loop *loop)
{
    struct vipl_ready ready[AT_ONCE];
    unsigned count = AT_ONCE;
    for (int round = 0; round < MAX_ROUNDS && count == AT_ONCE; round++) {
        count = vipl_pollset_ready(&loop->set, ready, AT_ONCE);
        for (unsigned i = 0; i < count; i++) {
            struct tcp_watch *watch = ready[i].tag;
            int events = events_of(&ready[i]);
            events &= ready[i].broken && watch->events != 0 ? events : watch->events;
            if (events != 0) {
                watch->ready(watch, events);
            }
        }
    }
}

/* --- times --- */

static uint64_t now_ms(void)
{
    return vipl_now_ns() / 1000000;
}

void vipl_tcp_timer_init(struct tcp_timer *timer, void (*due)(struct tcp_timer *timer))
{
    vipl_list_init(&timer->link);
    timer->due = due;
}

/* Searches from the end: mostly the new timer is the last one, because many have the
 * same time limit. */
void vipl_tcp_timer_start(struct tcp_loop *loop, struct tcp_timer *timer, uint64_t ms)
{
    vipl_list_remove(&timer->link);
    timer->at_ms = now_ms() + ms;
    struct vipl_list *before = loop->timers.prev;
    while (before != &loop->timers && VIPL_CONTAINER(before, struct tcp_timer, link)->at_ms > timer->at_ms) {
        before = before->prev;
    }
    vipl_list_append(before->next, &timer->link);
}

void vipl_tcp_timer_stop(struct tcp_timer *timer)
{
    vipl_list_remove(&timer->link);
}

/* A timer that is started again by a due function is called in a later turn. */
static void call_due(struct tcp_loop *loop)
{
    if (vipl_list_empty(&loop->timers)) {
        return;
    }
    uint64_t now = now_ms();
    struct vipl_list due;
    vipl_list_init(&due);
    while (!vipl_list_empty(&loop->timers) &&
           VIPL_CONTAINER(loop->timers.next, struct tcp_timer, link)->at_ms <= now) {
        vipl_list_append(&due, vipl_list_take(&loop->timers));
    }
    struct vipl_list *link;
    while ((link = vipl_list_take(&due)) != NULL) {
        struct tcp_timer *timer = VIPL_CONTAINER(link, struct tcp_timer, link);
        timer->due(timer);
    }
}

int vipl_tcp_loop_ms(const struct tcp_loop *loop)
{
    if (!vipl_list_empty(&loop->ended)) {
        return 0;
    }
    if (vipl_list_empty(&loop->timers)) {
        return -1;
    }
    uint64_t at = VIPL_CONTAINER(loop->timers.next, struct tcp_timer, link)->at_ms;
    uint64_t now = now_ms();
    return at <= now ? 0 : at - now >= INT_MAX ? INT_MAX : (int)(at - now) + 1;
}

/* --- ended objects, and the loop --- */

void vipl_tcp_free_later(struct tcp_loop *loop, struct tcp_ended *ended,
                         void (*free)(struct tcp_ended *ended))
{
    ended->free = free;
    vipl_list_append(&loop->ended, &ended->link);
}

static void free_ended(struct tcp_loop *loop)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(&loop->ended)) != NULL) {
        struct tcp_ended *ended = VIPL_CONTAINER(link, struct tcp_ended, link);
        ended->free(ended);
    }
}

void vipl_tcp_loop_turn(struct tcp_loop *loop)
{
    call_due(loop);
    call_ready(loop);
    free_ended(loop);
}

void vipl_tcp_loop_end(struct tcp_loop *loop)
{
    free_ended(loop);
    if (loop->lost) {
        vipl_fd_disown(loop->set.fd); /* its number may be the program's by now */
    } else {
        vipl_pollset_close(&loop->set);
    }
}
