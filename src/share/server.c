/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process: its holders, whose sockets the first thread watches, and a thread for each channel. A
 * holder ends with its socket: its calls are cancelled, their threads end, then its references are dropped.
 */
#include "share/server.h"

#include <errno.h>
#include <string.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "core/queue.h"
#include "core/vi.h"

enum { SPINS = 2000, READY = 32, RELEASE_MS = 100 };

struct holder {
    struct vipl_mutex hearing; /* rank NOTES; guards reading notes, and doing what they ask for */
    int fd;                    /* constant */
    unsigned number;           /* constant */
    bool refused;              /* guarded by hearing: it was logged that a call was refused */
    uint32_t channels;         /* guarded by the keeper's lock: channels whose thread runs */
};

/* A channel's thread. */
struct server {
    struct holder *holder;
    struct vipl_channel *channel;
    struct vipl_waker *waker; /* atomic: the thread's, once it runs */
    uint32_t over;            /* atomic: its holder has ended; what stands in the channel counts no more */
    uint32_t posting;         /* atomic: a post is being made */
    uint32_t heard;           /* the thread's: of the holder's notes without an answer */
    struct vipl_call
        *asked; /* guarded by its holder's hearing: a call that needs rights, from who has them */
    bool taken; /* guarded by the keeper's lock */
};

static struct {
    struct vipl_mutex lock; /* rank SHARE; guards servers' taken, holders' channels and holders */
    struct vipl_arena *arena;
    struct holder *holders[VIPL_SHARE_HOLDERS];
    uint32_t holder_count; /* until their references are dropped */
    struct server servers[VIPL_SHARE_CHANNELS];
    struct vipl_pollset sockets;
    struct vipl_pollset ends; /* of holders' sockets; until what it left to others is theirs */
    struct vipl_waker waker;  /* a holder is gone for good */
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

static void forget_number(const struct holder *holder)
{
    vipl_mutex_lock(&keeper.lock);
    keeper.holders[holder->number] = NULL;
    keeper.holder_count--;
    vipl_mutex_unlock(&keeper.lock);
}

/* Drops a holder's references. That may take a while: what was sent goes out first. */
static void holder_gone(void *arg)
{
    struct holder *holder = arg;
    while (!vipl_keeper_release(holder->number, NULL)) { /* its memory is not given to others meanwhile */
        vipl_poll(NULL, 0, RELEASE_MS, NULL);
    }
    forget_number(holder);
    vipl_fd_close(holder->fd);
    vipl_free(holder);
    vipl_waker_signal(&keeper.waker);
}

/* The last of a holder's threads drops its references. */
static void leave(struct server *server)
{
    struct holder *holder = server->holder;
    vipl_mutex_lock(&holder->hearing);
    vipl_free(server->asked);
    server->asked = NULL;
    vipl_mutex_unlock(&holder->hearing);
    vipl_mutex_lock(&keeper.lock);
    server->taken = false;
    vipl_store_ptr((void **)&server->waker, NULL);
    bool last = --holder->channels == 0;
    vipl_mutex_unlock(&keeper.lock);
    if (last) {
        holder_gone(holder);
    }
}

static bool hear_one(struct holder *holder);

/* The holder sent these notes before it made the call: a child that it forked has what the call may destroy. */
static void hear_before(struct server *server)
{
    uint32_t sent = vipl_load_relaxed(&server->channel->sent);
    if (sent == server->heard) {
        return;
    }
    vipl_mutex_lock(&server->holder->hearing);
    while (hear_one(server->holder)) {
    }
    vipl_mutex_unlock(&server->holder->hearing);
    server->heard = sent;
}

/* A call that needs rights is the one that came by the socket, if one did. */
static void make_with_rights(struct server *server, struct vipl_call *call)
{
    vipl_mutex_lock(&server->holder->hearing);
    struct vipl_call *asked = server->asked;
    server->asked = NULL;
    vipl_mutex_unlock(&server->holder->hearing);
    call->rc = VIP_ERROR_RESOURCE;
    if (asked != NULL) {
        *call = *asked;
        vipl_keeper_make_call(server->holder->number, call);
    }
    vipl_free(asked);
}

static void cancel(struct server *server)
{
    vipl_store_ordered(&server->channel->cancelled, 1);
    struct vipl_waker *waker = vipl_load_ptr((void *const *)&server->waker);
    if (waker != NULL) {
        vipl_waker_signal(waker);
    }
}

/* The keeper's lock is held. */
static void end_channel(struct server *server)
{
    vipl_store_ordered(&server->over, 1); /* pairs with settle()'s load */
    vipl_exchange(&server->channel->turn, VIPL_TURN_OVER);
    vipl_futex_wake_one(&server->channel->turn);
    cancel(server);
}

static void make_post(struct server *server, struct vipl_call *call)
{
    vipl_store_ordered(&server->posting, 1); /* before the VI is looked up; pairs with settle()'s load */
    vipl_keeper_make_call(server->holder->number, call);
    vipl_store_release(&server->posting, 0);
}

/* Who disconnects a VI, or destroys something, may know that another process has ended. That one is not one of those any more who
 * hold an object: so what it was just posting either is posted by now, or finds no VI; and is not on the VI's next connection. */
static void settle(void)
{
    struct vipl_ready any;
    while (vipl_pollset_ready(&keeper.ends, &any, 1) > 0) {
        vipl_poll(NULL, 0, 1, NULL); /* the first thread is about to see it: holder_ended() */
    }
    for (uint32_t i = 0; i < VIPL_SHARE_CHANNELS; i++) {
        const struct server *server = &keeper.servers[i];
        while (vipl_load_ordered(&server->posting) != 0 && vipl_load_ordered(&server->over) != 0) {
            vipl_poll(NULL, 0, 1, NULL); /* posts do not wait for anybody */
        }
    }
}

/* A connection, or somebody's reference. */
static bool ends_something(const struct vipl_call *call)
{
    switch (call->name) {
    case VIPL_CALL_DISCONNECT:
    case VIPL_CALL_CLOSE:
    case VIPL_CALL_DESTROY_PTAG:
    case VIPL_CALL_DEREGISTER:
    case VIPL_CALL_DESTROY_VI:
    case VIPL_CALL_DESTROY_CQ:
    case VIPL_CALL_FREE:
        return true;
    default:
        return false;
    }
}

static void make_call(struct server *server, struct vipl_call *call)
{
    hear_before(server);
    if (ends_something(call)) {
        settle();
    }
    if (vipl_keeper_needs_rights(call)) {
        make_with_rights(server, call);
    } else if (call->name == VIPL_CALL_POST_SEND || call->name == VIPL_CALL_POST_RECV) {
        make_post(server, call);
    } else {
        vipl_keeper_make_call(server->holder->number, call);
    }
}

static void serve(void *arg)
{
    struct server *server = arg;
    struct vipl_channel *channel = server->channel;
    struct vipl_waker *waker = vipl_thread_waker();
    if (waker != NULL) {
        waker->cancel = &channel->cancelled;
        vipl_mutex_lock(&keeper.lock);
        vipl_store_ptr((void **)&server->waker, waker); /* pairs with cancel()'s load */
        vipl_mutex_unlock(&keeper.lock);
        if (vipl_load_ordered(&channel->cancelled) != 0) { /* by somebody who had no waker to signal yet */
            vipl_waker_signal(waker);
        }
    }
    while (await_turn(server) == VIPL_TURN_KEEPER) {
        struct vipl_call call = channel->call; /* a copy: the holder may write there at any time */
        make_call(server, &call);
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
    server->heard = 0;
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

static bool find_number(struct holder *holder)
{
    unsigned number = 0;
    vipl_mutex_lock(&keeper.lock);
    while (number < VIPL_SHARE_HOLDERS && keeper.holders[number] != NULL) {
        number++;
    }
    if (number < VIPL_SHARE_HOLDERS) {
        holder->number = number;
        vipl_store_relaxed(&keeper.arena->events[number].written, 0);
        vipl_store_relaxed(&keeper.arena->events[number].read, 0);
        keeper.holders[number] = holder;
        keeper.holder_count++;
    }
    vipl_mutex_unlock(&keeper.lock);
    return number < VIPL_SHARE_HOLDERS;
}

/* It has what its parent (NULL: none) has before it is heard. */
static int welcome(struct holder *holder, const struct holder *parent)
{
    struct vipl_note note = {.name = VIPL_NOTE_NUMBER, .number = holder->number};
    if (parent != NULL) {
        vipl_keeper_inherit(parent->number, holder->number);
    }
    vipl_local_name_senders(holder->fd);
    vipl_local_send(holder->fd, &note, sizeof(note), NULL,
                    0); /* it may have ended: that is seen by the next look */
    int error = vipl_pollset_add_end(&keeper.ends, holder->fd, holder);
    error = error != 0 ? error : vipl_pollset_add(&keeper.sockets, holder->fd, holder);
    if (error != 0) {
        vipl_keeper_release(holder->number, NULL);
        vipl_pollset_remove(&keeper.ends, holder->fd);
    }
    return error;
}

static int new_holder(int fd, const struct holder *parent)
{
    struct holder *holder = vipl_zalloc(sizeof(*holder));
    if (holder == NULL) {
        return ENOMEM;
    }
    vipl_mutex_init(&holder->hearing, VIPL_RANK_NOTES);
    holder->fd = fd;
    holder->channels = 1; /* the first thread's part: it goes last if there are no channels */
    int error = find_number(holder) ? 0 : EAGAIN;
    if (error == 0) {
        error = welcome(holder, parent);
        if (error != 0) {
            forget_number(holder);
        }
    }
    if (error != 0) {
        vipl_free(holder);
    }
    return error;
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

static void end_channels(const struct holder *holder)
{
    vipl_mutex_lock(&keeper.lock);
    for (uint32_t i = 0; i < VIPL_SHARE_CHANNELS; i++) {
        struct server *server = &keeper.servers[i];
        if (server->taken && server->holder == holder) {
            end_channel(server);
        }
    }
    vipl_mutex_unlock(&keeper.lock);
}

static void holder_ended(struct holder *holder)
{
    vipl_keeper_forget_handlers(holder->number);
    vipl_pollset_remove(&keeper.sockets, holder->fd);
    vipl_keeper_for_each(VIPL_KIND_VI, renew_vi);
    vipl_keeper_for_each(VIPL_KIND_CQ, renew_cq);
    end_channels(holder);
    vipl_keeper_leave_to_others(holder->number);
    vipl_pollset_remove(&keeper.ends, holder->fd); /* settle() goes on */
    vipl_mutex_lock(&keeper.lock);
    bool last = --holder->channels == 0;
    vipl_mutex_unlock(&keeper.lock);
    if (last) {
        end_beside(holder);
    }
}

/* --- notes --- */

/* The child finds the end of its socket, if there is no room for it. */
static void note_fork(const struct holder *parent, int fd)
{
    int error = fd < 0 ? EBADF : new_holder(fd, parent);
    if (error != 0) {
        vipl_log_os("a child has no shared objects: no room for it in the keeper", error);
        vipl_fd_close(fd);
    }
}

static void vi_bell(unsigned holder, const void *handle, bool recv, int fds[2])
{
    void *real = vipl_keeper_held(VIPL_KIND_VI, handle, holder);
    struct vipl_vi *vi = recv ? vipl_vi_lock_recv(real) : vipl_vi_lock_send(real);
    if (vi == NULL) {
        return;
    }
    struct vipl_queue *q = recv ? &vi->recv : &vi->send;
    if (q->keeping != NULL) {
        vipl_board_bell_share(&q->keeping->bell, &q->keeping->board->rung, fds);
    }
    vipl_mutex_unlock(&q->lock);
}

static void nic_bell(unsigned holder, const void *handle, int fds[2])
{
    int fd;
    if (VipxGetFd(VIPX_FD_CONNECT, vipl_keeper_held(VIPL_KIND_NIC, handle, holder), &fd) != VIP_SUCCESS ||
        vipl_fd_duplicate(fd, 0, &fds[0]) != 0) {
        fds[0] = -1;
    }
}

/* Duplicates: who destroys the object meanwhile closes its own. */
static void bell_of(unsigned holder, const struct vipl_note *note, int fds[2])
{
    switch (vipl_handle_kind(note->handle)) {
    case VIPL_KIND_VI:
        vi_bell(holder, note->handle, note->number != 0, fds);
        break;
    case VIPL_KIND_CQ:
        vipl_keeper_cq_bell(holder, note->handle, fds);
        break;
    default: /* the keeper itself says when somebody has to be answered */
        nic_bell(holder, note->handle, fds);
        break;
    }
}

/* The system said who sent it, and that was before it could have become another. */
static void note_call(struct holder *holder, const struct vipl_call_note *note,
                      const struct vipl_sender *sender)
{
    struct vipl_call *asked = NULL;
    if (vipl_has_same_rights(sender)) {
        asked = vipl_alloc(sizeof(*asked));
    } else if (!holder->refused) {
        holder->refused = true;
        vipl_log(VIPL_LOG_ERROR,
                 "process %d has other users, groups or capabilities than when shared objects were first "
                 "opened: it "
                 "uses what it has, but does not open, listen, connect or register",
                 sender->pid);
    }
    if (asked != NULL) {
        *asked = note->call;
    }
    vipl_mutex_lock(&keeper.lock);
    uint32_t number = note->note.number;
    struct server *server = number < VIPL_SHARE_CHANNELS ? &keeper.servers[number] : NULL;
    if (server != NULL && server->taken && server->holder == holder) {
        struct vipl_call *former = server->asked;
        server->asked = asked;
        asked = former;
    }
    vipl_mutex_unlock(&keeper.lock);
    vipl_free(asked);
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

static void answer(const struct holder *holder, const struct vipl_note *note, const int bells[2])
{
    unsigned count = bells[0] < 0 ? 0 : bells[1] < 0 ? 1 : 2;
    vipl_local_send(holder->fd, note, sizeof(*note), bells, count); /* its end is seen by the next look */
}

static void do_note(struct holder *holder, struct vipl_call_note *whole, const struct vipl_sender *sender,
                    int fd)
{
    struct vipl_note *note = &whole->note;
    int bells[2] = {-1, -1};
    int error;
    switch (note->name) {
    case VIPL_NOTE_CHANNEL:
        error = open_channel(holder, &note->number);
        if (error != 0) {
            vipl_log_os("a channel of the keeper", error);
            note->number = UINT32_MAX;
        }
        answer(holder, note, bells);
        break;
    case VIPL_NOTE_FORK:
        note_fork(holder, fd);
        return; /* the socket is the child's */
    case VIPL_NOTE_CALL:
        note_call(holder, whole, sender);
        break;
    case VIPL_NOTE_BELL:
        bell_of(holder->number, note, bells);
        answer(holder, note, bells);
        vipl_fd_close(bells[0]);
        vipl_fd_close(bells[1]);
        break;
    default:
        note_cancel(holder, note->number);
        break;
    }
    vipl_fd_close(fd);
}

/* A holder that ended while it had not read all leaves an error first, and then what it sent. */
static int receive(const struct holder *holder, struct vipl_call_note *note, size_t *length, int fds[2],
                   struct vipl_sender *sender)
{
    int error = vipl_local_receive_from(holder->fd, note, sizeof(*note), length, fds, sender);
    return error == ECONNRESET ? vipl_local_receive_from(holder->fd, note, sizeof(*note), length, fds, sender)
                               : error;
}

/* One note. False: there is none, or there will be none. `hearing` is held. */
static bool hear_one(struct holder *holder)
{
    struct vipl_call_note note;
    struct vipl_sender sender;
    size_t length = 0;
    note.note.name = VIPL_NOTE_NUMBER;
    int fds[2];
    if (receive(holder, &note, &length, fds, &sender) != 0) {
        return false;
    }
    vipl_fd_close(fds[1]);
    if (length != (note.note.name == VIPL_NOTE_CALL ? sizeof(note) : sizeof(note.note)) || length == 0) {
        vipl_fd_close(fds[0]);
        return length != 0;
    }
    do_note(holder, &note, &sender, fds[0]);
    return true;
}

/* What one holder sends does not keep the others waiting. */
static void hear(struct holder *holder, bool hangup)
{
    vipl_mutex_lock(&holder->hearing);
    bool more = hear_one(holder);
    vipl_mutex_unlock(&holder->hearing);
    if (!more && hangup) {
        holder_ended(holder);
    }
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
    vipl_keeper_objects_init(arena);
    vipl_keeper_heap_init(&arena->heap);
    vipl_keeper_calls_init(arena);
    vipl_keeper_events_init(arena);
    if (vipl_pollset_open(&keeper.sockets) != 0 || vipl_pollset_open(&keeper.ends) != 0 ||
        vipl_waker_open(&keeper.waker) != 0 || new_holder(socket, NULL) != 0) {
        return; /* the socket's end tells */
    }
    while (anybody()) {
        int const fds[2] = {keeper.sockets.fd, keeper.waker.fd};
        vipl_poll(fds, 2, -1, NULL);
        vipl_waker_reset(&keeper.waker);
        unsigned count = vipl_pollset_ready(&keeper.sockets, ready, READY);
        for (unsigned i = 0; i < count; i++) {
            hear(ready[i].tag, ready[i].hangup);
        }
    }
}
