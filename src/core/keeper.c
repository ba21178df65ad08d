/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process: its holders, whose sockets the first thread watches, and a thread for each channel. A
 * holder ends with its socket: its calls are cancelled, their threads end, then its references are dropped.
 */
#include "core/keeper.h"

#include <errno.h>
#include <string.h>

#include "core/lock_rank.h"
#include "core/log.h"
#include "core/queue.h"
#include "core/vi.h"

enum { SPINS = 2000, READY = 32 };

struct holder {
    int fd;
    unsigned number;
    uint32_t channels; /* guarded by the keeper's lock: channels whose thread runs */
};

/* A channel's thread. */
struct server {
    struct holder *holder;
    struct vipl_channel *channel;
    struct vipl_waker *waker; /* atomic: the thread's, once it runs */
    uint32_t over;            /* atomic: its holder has ended; what stands in the channel counts no more */
    bool taken;               /* guarded by the keeper's lock */
};

static struct {
    struct vipl_mutex lock; /* rank SHARE; guards servers' taken, holders' channels and holders */
    struct vipl_arena *arena;
    struct holder *holders[VIPL_SHARE_HOLDERS];
    uint32_t holder_count; /* until their references are dropped */
    struct server servers[VIPL_SHARE_CHANNELS];
    struct vipl_pollset sockets;
    struct vipl_waker waker; /* a holder is gone for good */
} keeper;

/* --- channels --- */

/* Until it is the keeper's turn, or the holder has ended. */
static enum vipl_turn await_turn(const struct server *server)
{
    struct vipl_channel *channel = server->channel;
    uint32_t turn = VIPL_TURN_HOLDER;
    for (int i = 0; i < SPINS && turn == VIPL_TURN_HOLDER; i++) {
        turn = vipl_load_acquire(&channel->turn); /* pairs with the holder's store */
    }
    while (turn == VIPL_TURN_HOLDER) {
        vipl_store_ordered(&channel->keeper_asleep, 1);
        if (vipl_load_ordered(&channel->turn) == VIPL_TURN_HOLDER) {
            vipl_futex_wait(&channel->turn, VIPL_TURN_HOLDER);
        }
        vipl_store_ordered(&channel->keeper_asleep, 0);
        turn = vipl_load_acquire(&channel->turn);
    }
    if (vipl_load_ordered(&server->over) != 0) { /* a process that has lost its socket may write on */
        return VIPL_TURN_OVER;
    }
    return (enum vipl_turn)turn;
}

/* Drops a holder's references. That may take a while: what was sent goes out first. */
static void holder_gone(void *arg)
{
    struct holder *holder = arg;
    vipl_keeper_release(holder->number, NULL);
    vipl_mutex_lock(&keeper.lock);
    keeper.holders[holder->number] = NULL;
    keeper.holder_count--;
    vipl_mutex_unlock(&keeper.lock);
    vipl_fd_close(holder->fd);
    vipl_free(holder);
    vipl_waker_signal(&keeper.waker);
}

/* The last of a holder's threads drops its references. */
static void leave(struct server *server)
{
    struct holder *holder = server->holder;
    vipl_mutex_lock(&keeper.lock);
    server->taken = false;
    vipl_store_ptr((void **)&server->waker, NULL);
    bool last = --holder->channels == 0;
    vipl_mutex_unlock(&keeper.lock);
    if (last) {
        holder_gone(holder);
    }
}

static void serve(void *arg)
{
    struct server *server = arg;
    struct vipl_channel *channel = server->channel;
    struct vipl_waker *waker = vipl_thread_waker();
    if (waker != NULL) {
        waker->cancel = &channel->cancelled;
        vipl_store_ptr((void **)&server->waker, waker); /* pairs with cancel()'s load */
    }
    while (await_turn(server) == VIPL_TURN_KEEPER) {
        struct vipl_call call = channel->call; /* a copy: the holder may write there at any time */
        vipl_store_ordered(&channel->cancelled, 0);
        if (vipl_load_ordered(&channel->turn) ==
            VIPL_TURN_OVER) { /* set before `cancelled`: see holder_ended() */
            break;
        }
        vipl_keeper_make_call(server->holder->number, &call);
        channel->call = call;
        if (!vipl_compare_exchange(&channel->turn, VIPL_TURN_KEEPER, VIPL_TURN_HOLDER)) {
            break;
        }
        if (vipl_load_ordered(&channel->holder_asleep) != 0) {
            vipl_futex_wake_one(&channel->turn);
        }
    }
    leave(server);
}

static void cancel(struct server *server)
{
    vipl_store_ordered(&server->channel->cancelled, 1);
    struct vipl_waker *waker = vipl_load_ptr((void *const *)&server->waker);
    if (waker != NULL) {
        vipl_waker_signal(waker);
    }
}

static struct server *take_channel(struct holder *holder, uint32_t *number)
{
    struct server *server = NULL;
    vipl_mutex_lock(&keeper.lock);
    for (uint32_t i = 0; server == NULL && i < VIPL_SHARE_CHANNELS; i++) {
        if (!keeper.servers[i].taken) {
            server = &keeper.servers[i];
            server->taken = true;
            holder->channels++;
            *number = i;
        }
    }
    vipl_mutex_unlock(&keeper.lock);
    return server;
}

static int open_channel(struct holder *holder, uint32_t *number)
{
    struct vipl_thread thread;
    struct server *server = take_channel(holder, number);
    if (server == NULL) {
        return EAGAIN;
    }
    vipl_store_ordered(&server->over, 0);
    server->holder = holder;
    server->channel = &keeper.arena->channels[*number];
    memset(server->channel, 0, sizeof(*server->channel));
    int error = vipl_thread_start(&thread, serve, server);
    if (error != 0) {
        vipl_mutex_lock(&keeper.lock);
        server->taken = false;
        holder->channels--;
        vipl_mutex_unlock(&keeper.lock);
        return error;
    }
    vipl_thread_detach(&thread);
    return 0;
}

/* --- holders --- */

static struct holder *new_holder(int fd)
{
    struct holder *holder = vipl_zalloc(sizeof(*holder));
    unsigned number = 0;
    if (holder == NULL) {
        return NULL;
    }
    vipl_mutex_lock(&keeper.lock);
    while (number < VIPL_SHARE_HOLDERS && keeper.holders[number] != NULL) {
        number++;
    }
    if (number < VIPL_SHARE_HOLDERS) {
        holder->fd = fd;
        holder->number = number;
        holder->channels = 1; /* the first thread's part: it goes last if there are no channels */
        vipl_store_relaxed(&keeper.arena->events[number].written, 0);
        vipl_store_relaxed(&keeper.arena->events[number].read, 0);
        keeper.holders[number] = holder;
        keeper.holder_count++;
    }
    vipl_mutex_unlock(&keeper.lock);
    if (number == VIPL_SHARE_HOLDERS || vipl_pollset_add(&keeper.sockets, fd, holder) != 0) {
        if (number < VIPL_SHARE_HOLDERS) {
            vipl_mutex_lock(&keeper.lock);
            keeper.holders[number] = NULL;
            keeper.holder_count--;
            vipl_mutex_unlock(&keeper.lock);
        }
        vipl_free(holder);
        return NULL;
    }
    return holder;
}

/* What it was told of but has not taken is told to others; whoever sleeps looks again. */
static void renew_vi(struct vipl_keeper_object *vi)
{
    vipl_keeping_renew(&vi->queues[0]);
    vipl_keeping_renew(&vi->queues[1]);
}

static void renew_cq(struct vipl_keeper_object *cq)
{
    vipl_cq_keeping_renew(cq->cq);
}

/* Other holders are heard meanwhile. */
static void end_beside(struct holder *holder)
{
    struct vipl_thread thread;
    int error = vipl_thread_start(&thread, holder_gone, holder);
    if (error == 0) {
        vipl_thread_detach(&thread);
    } else {
        vipl_log_os("ending a holder beside the others", error);
        holder_gone(holder);
    }
}

static void holder_ended(struct holder *holder)
{
    vipl_keeper_forget_handlers(holder->number);
    vipl_pollset_remove(&keeper.sockets, holder->fd);
    vipl_keeper_for_each(VIPL_KIND_VI, renew_vi);
    vipl_keeper_for_each(VIPL_KIND_CQ, renew_cq);
    vipl_mutex_lock(&keeper.lock);
    for (uint32_t i = 0; i < VIPL_SHARE_CHANNELS; i++) {
        struct server *server = &keeper.servers[i];
        if (server->taken && server->holder == holder) {
            vipl_store_ordered(&server->over, 1);
            vipl_exchange(&server->channel->turn, VIPL_TURN_OVER);
            vipl_futex_wake_one(&server->channel->turn);
            cancel(server);
        }
    }
    bool last = --holder->channels == 0;
    vipl_mutex_unlock(&keeper.lock);
    if (last) {
        end_beside(holder);
    }
}

/* --- notes --- */

static int note_fork(struct holder *holder, int fd)
{
    struct holder *child = fd < 0 ? NULL : new_holder(fd);
    if (child == NULL) {
        vipl_fd_close(fd);
        return EAGAIN;
    }
    vipl_keeper_inherit(holder->number, child->number);
    return 0;
}

static void vi_bell(const void *handle, bool recv, int fds[2])
{
    void *real = vipl_keeper_real(VIPL_KIND_VI, handle);
    struct vipl_vi *vi = recv ? vipl_vi_lock_recv(real) : vipl_vi_lock_send(real);
    if (vi == NULL) {
        return;
    }
    struct vipl_queue *q = recv ? &vi->recv : &vi->send;
    const struct vipl_waker *waker =
        q->keeping == NULL ? NULL : vipl_board_bell_open(&q->keeping->bell, &q->keeping->board->rung);
    if (waker != NULL) {
        fds[0] = waker->fd;
        fds[1] = waker->write_fd;
    }
    vipl_mutex_unlock(&q->lock);
}

static void bell_of(const struct vipl_note *note, int fds[2])
{
    switch (vipl_handle_kind(note->handle)) {
    case VIPL_KIND_VI:
        vi_bell(note->handle, note->number != 0, fds);
        break;
    case VIPL_KIND_CQ:
        vipl_keeper_cq_bell(note->handle, fds);
        break;
    default: /* the keeper itself says when somebody has to be answered */
        VipxGetFd(VIPX_FD_CONNECT, vipl_keeper_real(VIPL_KIND_NIC, note->handle), &fds[0]);
        break;
    }
}

static void note_cancel(const struct holder *holder, uint32_t number)
{
    vipl_mutex_lock(&keeper.lock);
    if (number < VIPL_SHARE_CHANNELS && keeper.servers[number].taken &&
        keeper.servers[number].holder == holder) {
        cancel(&keeper.servers[number]);
    }
    vipl_mutex_unlock(&keeper.lock);
}

static void answer(struct holder *holder, struct vipl_note *note, int fd)
{
    int error = 0;
    int bells[2] = {-1, -1};
    switch (note->name) {
    case VIPL_NOTE_CHANNEL:
        error = open_channel(holder, &note->number);
        note->number = error == 0 ? note->number : UINT32_MAX;
        break;
    case VIPL_NOTE_FORK:
        note->number = (uint32_t)note_fork(holder, fd);
        fd = -1;
        break;
    case VIPL_NOTE_NUMBER:
        note->number = holder->number;
        break;
    case VIPL_NOTE_BELL:
        bell_of(note, bells);
        break;
    default:
        note_cancel(holder, note->number);
        return;
    }
    vipl_fd_close(fd);
    if (error != 0) {
        vipl_log_os("a channel of the keeper", error);
    }
    unsigned count = bells[0] < 0 ? 0 : bells[1] < 0 || bells[1] == bells[0] ? 1 : 2;
    vipl_local_send(holder->fd, note, sizeof(*note), bells, count); /* its end is seen by the next look */
}

static void hear(struct holder *holder)
{
    struct vipl_note note;
    size_t length = 0;
    int fds[2];
    int error = vipl_local_receive(holder->fd, &note, sizeof(note), &length, fds);
    if (error == EAGAIN) {
        return;
    }
    vipl_fd_close(error == 0 ? fds[1] : -1);
    if (error != 0 || length != sizeof(note)) {
        vipl_fd_close(error == 0 ? fds[0] : -1);
        holder_ended(holder);
        return;
    }
    answer(holder, &note, fds[0]);
}

static bool anybody(void)
{
    vipl_mutex_lock(&keeper.lock);
    bool any = keeper.holder_count > 0;
    vipl_mutex_unlock(&keeper.lock);
    return any;
}

/* --- the process --- */

void vipl_keeper_run(struct vipl_arena *arena, int socket)
{
    struct vipl_ready ready[READY];
    keeper.arena = arena;
    vipl_mutex_init(&keeper.lock, VIPL_RANK_SHARE);
    vipl_keeper_objects_init();
    vipl_keeper_calls_init(arena);
    vipl_keeper_events_init(arena);
    if (vipl_pollset_open(&keeper.sockets) != 0 || vipl_waker_open(&keeper.waker) != 0 ||
        new_holder(socket) == NULL) {
        return; /* the socket's end tells */
    }
    while (anybody()) {
        int const fds[2] = {keeper.sockets.fd, keeper.waker.fd};
        vipl_poll(fds, 2, -1, NULL);
        vipl_waker_reset(&keeper.waker);
        unsigned count = vipl_pollset_ready(&keeper.sockets, ready, READY);
        for (unsigned i = 0; i < count; i++) {
            hear(ready[i].tag);
        }
    }
}
