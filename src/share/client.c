/* SPDX-License-Identifier: MIT */
/*
 * A client's connection to the server: joining it, making calls, and what happens around a fork.
 *
 * `socket_lock` guards questions and replies on the socket: one note and its reply at a time. A
 * fork takes no lock and does not wait for the server: its note has no reply, and its state belongs
 * to the forking thread. Nothing else here takes a lock. A call takes any free channel, also in a
 * signal handler, and in the middle of a fork.
 */
#include "share/client.h"

#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/guard.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "share/client_post.h"
#include "share/client_start.h"
#include "share/note.h"
#include "share/rings.h"

enum {
    SPINS = 2000,
    CHECK_MS = 1000, /* how often a call that waits checks that the server lives */
    CHANNELS = 256,
    /* Nested forks of one thread: each but the first is made by a handler that interrupted
     * the one before. */
    MAX_FORKS = 4,
    FORK_MS = 1000 /* how long a fork waits for room in the socket */
};

struct ready_fd {
    /* atomic, written after `waker`, under `socket_lock`: the object's handle; NULL: none */
    void *handle;
    struct vipl_waker waker;
};

/* What this process has of one server. The struct is large, and mostly untouched. */
struct tables {
    struct tables *older;        /* those of an earlier server, which other threads may still use */
    struct vipl_arena *arena;    /* constant */
    uint32_t channel_count;      /* atomic: grows */
    uint32_t channels[CHANNELS]; /* numbers of channels in the arena; constant once counted */
    uint32_t busy[CHANNELS];     /* atomic: a call is under way */
    /* Ready descriptors by slot: */
    struct ready_fd vi_ready_fds[VIPL_SHARE_VIS][2];
    struct ready_fd cq_ready_fds[VIPL_SHARE_CQS];
    struct ready_fd nic_ready_fds[VIPL_SHARE_NICS]; /* for connection requests */
};

static struct {
    /* rank SHARE; guards questions on the socket, and adding channels and ready descriptors */
    struct vipl_mutex socket_lock;
    struct vipl_arena *arena; /* atomic; NULL: none */
    /* The process that has the channels of `mine`. A child that the fork handlers did not
     * see has none. */
    int pid;
    int socket;                    /* its number stays: a fork may be about to use it */
    int lifeline;                  /* its number stays, too */
    bool fork_handlers_registered; /* the fork handlers are registered; guarded by `socket_lock` */
    /* atomic, written under `socket_lock`: the number of this client; UINT32_MAX: not known yet */
    uint32_t number;
    uint32_t sent; /* atomic: notes without a reply, counted after they are sent */
    /* atomic, stored before `arena`: of the last server; NULL: there was none */
    struct tables *mine;
} share = {
    .socket_lock = VIPL_MUTEX_INIT(VIPL_RANK_SHARE), .socket = -1, .lifeline = -1, .number = UINT32_MAX};

/* The sockets of the children that this thread is about to fork; -1: a child that gets none. */
static _Thread_local struct {
    volatile uint32_t count;
    volatile int sockets[MAX_FORKS];
} forks VIPL_FAST_THREAD_LOCAL;

struct vipl_arena *vipl_share_arena(void)
{
    return vipl_load_ptr((void *const *)&share.arena);
}

int vipl_share_lifeline(void)
{
    return share.lifeline;
}

/* A server that has ended is marked asleep, also if it was awake then. So each post checks on it
 * first, and none is accepted any more (client_post.c). */
bool vipl_share_server_lives(void)
{
    bool lives = vipl_poll(&share.lifeline, 1, 0, NULL) != 0; /* a signal may end even this poll */
    struct vipl_arena *arena = vipl_share_arena();
    if (!lives && arena != NULL) {
        vipl_store_relaxed(&arena->posts.asleep, 1); /* pairs with server_may_live() */
    }
    return lives;
}

/* --- notes --- */

/* Receives a note. `socket_lock` is held. Returns 0, or an errno value: the server has ended, or
 * does not know this process. */
static int receive_locked(struct vipl_note *note, int fds[2])
{
    size_t length = 0;
    int error;
    while ((error = vipl_local_receive(share.socket, note, sizeof(*note), &length, fds)) == EAGAIN) {
        vipl_poll(&share.socket, 1, -1, NULL); /* a signal ends the poll: tries again */
    }
    return error == 0 && length != sizeof(*note) ? EPIPE : error;
}

static void abandon_server_locked(void);

/* Receives the server's first note, with the number of this client, unless it is known. The note
 * comes when the server has read of the fork. `socket_lock` is held. */
static int receive_number_locked(void)
{
    struct vipl_note note;
    int none[2];
    if (vipl_load_relaxed(&share.number) != UINT32_MAX) {
        return 0;
    }
    int error = receive_locked(&note, none);
    if (error == 0 && note.name == VIPL_NOTE_NUMBER && note.number < VIPL_SHARE_CLIENTS) {
        vipl_store_release(&share.number, note.number);
    } else if (vipl_share_server_lives()) {
        abandon_server_locked(); /* the server has no room for this process, and has said so */
    }
    return error;
}

/* Sends a note, and puts the reply in its place. `socket_lock` is held. Returns 0 or
 * an errno value. */
static int exchange_locked(struct vipl_note *note, int fds[2])
{
    fds[0] = fds[1] = -1;
    int error = receive_number_locked();
    if (error == 0) {
        error = vipl_local_send(share.socket, note, sizeof(*note), NULL, 0);
    }
    return error == 0 ? receive_locked(note, fds) : error;
}

/* Sends a note that has no reply, which needs no lock. The note is counted after it was sent, so
 * the server reads it before it makes the next call. Waits for room in the socket, at most `ms`
 * (VIP_INFINITE: while the server lives). */
static int send_note(const void *note, size_t length, int pass, VIP_ULONG ms)
{
    uint64_t end = vipl_deadline(ms);
    int error;
    while ((error = vipl_local_send(share.socket, note, length, &pass, pass < 0 ? 0 : 1)) == EAGAIN &&
           vipl_now_ns() < end && vipl_share_server_lives()) {
        vipl_poll(NULL, 0, 1, NULL); /* on a busy machine this takes much longer */
    }
    if (error == 0) {
        vipl_fetch_add(&share.sent, 1); /* pairs with the load of vipl_share_call() */
    }
    return error;
}

/* --- forking --- */

/* Returns the child's end of its socket, whose other end is on its way to the server; -1: none. */
static int announce_child(void)
{
    int ends[2];
    struct vipl_note note = {.name = VIPL_NOTE_FORK};
    int error = vipl_local_pair(ends);
    if (error == 0) {
        vipl_local_name_senders(ends[1]);
        error = send_note(&note, sizeof(note), ends[1], FORK_MS);
        vipl_fd_close(ends[1]);
        if (error == 0) {
            return ends[0];
        }
        vipl_fd_close(ends[0]);
    }
    vipl_log(VIPL_LOG_ERROR, "shared objects are not passed on to the child: error %d",
             error); /* no text: a handler that forks may have interrupted the C library */
    return -1;
}

static int last_socket(void)
{
    uint32_t count = forks.count;
    return count == 0 || count > MAX_FORKS ? -1 : forks.sockets[count - 1];
}

/* Names the socket that the child keeps: that of this fork or, after it, of the fork that this
 * handler has interrupted. Without a socket, the fork may be that of the server. */
static void pass_last(void)
{
    int socket = last_socket();
    if (socket >= 0) {
        vipl_fd_pass(socket, share.lifeline);
    }
}

/* Between its fork handlers a thread does not know whether it is in the parent or in the child. */
bool vipl_share_is_forking(void)
{
    return forks.count != 0;
}

static void before_fork(void)
{
    bool shares = vipl_share_arena() != NULL && share.pid == vipl_pid();
    uint32_t mine = forks.count++;
    if (mine < MAX_FORKS) {
        forks.sockets[mine] = -1;
        forks.sockets[mine] = shares ? announce_child() : -1;
    }
    pass_last();
}

/* From now on only the child has its end of the socket. If there is no child, the server sees the
 * end of a client. */
static void after_fork_in_parent(void)
{
    int socket = last_socket();
    forks.count--;
    if (socket >= 0) {
        vipl_fd_close(socket);
        vipl_fd_pass(-1, -1);
        pass_last();
    }
}

/* The child's socket takes the place of the parent's, which was closed. The child has
 * no channels yet. */
static void after_fork_in_child(void)
{
    int socket = last_socket();
    forks.count--;
    if (socket >= 0) {
        vipl_fd_pass(-1, -1);
    }
    /* another thread of the parent may have held the lock */
    vipl_mutex_init(&share.socket_lock, VIPL_RANK_SHARE);
    vipl_share_submit_in_child();
    share.number = UINT32_MAX;
    share.sent = 0;
    if (share.mine != NULL) {
        share.mine->channel_count = 0;
        memset(share.mine->busy, 0, sizeof(share.mine->busy));
    }
    share.pid = vipl_pid();
    share.socket = socket;
    if (socket < 0 || vipl_share_arena() == NULL) {
        vipl_fd_close(socket);
        vipl_fd_close(socket < 0 ? -1 : share.lifeline);
        share.socket = share.lifeline = -1;
        vipl_store_ptr((void **)&share.arena, NULL);
        return;
    }
    struct vipl_note note = {.name = VIPL_NOTE_HERE};
    /* the socket is empty, so there is room */
    vipl_local_send(socket, &note, sizeof(note), NULL, 0);
}

/* --- joining --- */

/* Called in a forked server process, which has inherited `socket_lock` as its parent held it. */
static void begin_server(void)
{
    vipl_fd_pass(-1, -1);
    vipl_mutex_unlock(&share.socket_lock);
    vipl_guard_cancelled(); /* the API call that started the server goes on in the parent only */
}

/* Puts a descriptor of a new server in the place of that of the former one. */
static int replace_fd(int *of, int fd)
{
    if (*of < 0) {
        *of = fd;
        return 0;
    }
    int error = vipl_local_replace(*of, &fd);
    if (error != 0) {
        vipl_fd_close(fd);
    }
    return error;
}

/* Starts a server. `socket_lock` is held. Returns 0 or an errno value. */
static int start_server(struct vipl_arena **arena)
{
    struct vipl_server_link line;
    int error = vipl_share_start(&line, begin_server);
    if (error != 0) {
        return error;
    }
    *arena = line.arena;
    int socket_error = replace_fd(&share.socket, line.socket);
    int life_error = replace_fd(&share.lifeline, line.lifeline);
    return socket_error != 0 ? socket_error : life_error;
}

/* The server has ended, or does not know this process, so another one may be started. The old
 * arena stays mapped, because other threads may still use it. Its handles are not valid with
 * the new server. */
static void abandon_server_locked(void)
{
    vipl_store_ptr((void **)&share.arena, NULL);
}

static VIP_RETURN join_locked(bool fork_handlers)
{
    if (vipl_share_arena() != NULL && share.pid != vipl_pid()) {
        return VIP_ERROR_RESOURCE; /* a child that the fork handlers did not see */
    }
    if (vipl_share_arena() != NULL && vipl_share_server_lives()) {
        return VIP_SUCCESS;
    }
    abandon_server_locked();
    if (fork_handlers && !share.fork_handlers_registered) {
        if (vipl_around_fork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
            return VIP_ERROR_RESOURCE;
        }
        share.fork_handlers_registered = true;
    }
    struct vipl_arena *arena = NULL;
    struct tables *mine = vipl_zalloc(sizeof(*mine));
    int error = mine == NULL ? ENOMEM : start_server(&arena);
    if (error != 0) {
        vipl_free(mine);
        vipl_log_os(VIPL_LOG_ERROR, "starting the server of shared objects", error);
        return VIP_ERROR_RESOURCE;
    }
    mine->older = share.mine;
    mine->arena = arena;
    vipl_store_ptr((void **)&share.mine, mine);
    share.pid = vipl_pid();
    vipl_store_release(&share.number, UINT32_MAX);
    vipl_store_ptr((void **)&share.arena, arena);
    return receive_number_locked() == 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

VIP_RETURN vipl_share_join(bool fork_handlers)
{
    vipl_mutex_lock(&share.socket_lock);
    VIP_RETURN rc = join_locked(fork_handlers);
    vipl_mutex_unlock(&share.socket_lock);
    return rc;
}

/* --- channels --- */

static bool take_free(struct tables *mine, uint32_t *index)
{
    /* pairs with add_channel()'s release */
    uint32_t count = vipl_load_acquire(&mine->channel_count);
    for (*index = 0; *index < count; ++*index) {
        if (vipl_compare_exchange(&mine->busy[*index], 0, 1)) {
            return true;
        }
    }
    return false;
}

static bool add_channel(struct tables *mine, uint32_t *index)
{
    struct vipl_note note = {.name = VIPL_NOTE_CHANNEL};
    int none[2];
    vipl_mutex_lock(&share.socket_lock);
    uint32_t count = mine->channel_count;
    bool added = mine == share.mine && count < CHANNELS && exchange_locked(&note, none) == 0 &&
                 note.number < VIPL_SHARE_CHANNELS;
    if (added) {
        mine->channels[count] = note.number;
        vipl_store_relaxed(&mine->busy[count], 1);
        vipl_store_release(&mine->channel_count, count + 1);
        *index = count;
    }
    vipl_mutex_unlock(&share.socket_lock);
    return added;
}

static void send_cancel(uint32_t number)
{
    struct vipl_note note = {.name = VIPL_NOTE_CANCEL, .number = number};
    vipl_local_send(share.socket, &note, sizeof(note), NULL, 0);
}

static void write_call(struct vipl_call *call, enum vipl_call_name name, void *object, const void *arguments)
{
    call->name = name;
    call->object = object;
    memcpy(&call->a, arguments, vipl_calls[name].bytes);
}

/* If the call needs rights, sends it through the socket, where the system says which process sent
 * it. The note is not made from the channel, where every process that has the arena can write.
 * Returns 0, or an errno value: the server has ended. */
static int send_call(const struct vipl_arena *arena, uint32_t number, enum vipl_call_name name, void *object,
                     const void *arguments)
{
    struct vipl_call_note note;
    note.note = (struct vipl_note){.name = VIPL_NOTE_CALL, .number = number};
    note.call.rc = VIP_NOT_DONE;
    write_call(&note.call, name, object, arguments);
    return vipl_call_needs_rights(&arena->heap, &note.call)
               ? send_note(&note, vipl_call_note_bytes(name), -1, VIP_INFINITE)
               : 0;
}

/* Waits until it is this side's turn again. Returns false if the server has ended. */
static bool await_answer(struct vipl_channel *channel, uint32_t number, bool cancellable, bool *cancelled)
{
    uint32_t turn = VIPL_TURN_SERVER;
    for (int i = 0; i < SPINS && turn == VIPL_TURN_SERVER; i++) {
        turn = vipl_load_acquire(&channel->turn); /* pairs with the server's exchange */
    }
    while (turn == VIPL_TURN_SERVER) {
        vipl_store_ordered(&channel->client_asleep, 1);
        int why = vipl_futex_wait_for(&channel->turn, VIPL_TURN_SERVER, CHECK_MS);
        vipl_store_ordered(&channel->client_asleep, 0);
        turn = vipl_load_acquire(&channel->turn);
        if (turn == VIPL_TURN_SERVER && why == EINTR && cancellable && !*cancelled) {
            *cancelled = true;
            send_cancel(number);
        } else if (turn == VIPL_TURN_SERVER && why == ETIMEDOUT && !vipl_share_server_lives()) {
            return false;
        }
    }
    return true;
}

/* Writes the call into the channel, and has the server make it. Returns false if the
 * server has ended. */
static bool submit_call(struct vipl_arena *arena, uint32_t number, enum vipl_call_name name, void *object,
                        const void *arguments)
{
    struct vipl_channel *channel = &arena->channels[number];
    if ((vipl_calls[name].properties & VIPL_RIGHTS) != 0 &&
        send_call(arena, number, name, object, arguments) != 0) {
        return false;
    }
    write_call(&channel->call, name, object, arguments);
    channel->sent = vipl_load_acquire(&share.sent);
    /* here, because a cancellation may come before the server sees the call */
    vipl_store_ordered(&channel->cancelled, 0);
    vipl_store_ordered(&channel->turn, VIPL_TURN_SERVER);
    if (vipl_load_ordered(&channel->server_asleep) != 0) {
        vipl_futex_wake_one(&channel->turn);
    }
    return true;
}

/* Makes a call through a channel that this thread has taken. Returns false if the
 * server has ended. */
static bool make_call(struct vipl_arena *arena, uint32_t number, enum vipl_call_name name, void *object,
                      void *arguments, bool restart)
{
    struct vipl_channel *channel = &arena->channels[number];
    bool waits = (vipl_calls[name].properties & VIPL_WAITS) != 0;
    bool answered;
    bool cancelled;
    do { /* repeated if the cancellation of an earlier call came late */
        cancelled = false;
        if (!submit_call(arena, number, name, object, arguments)) {
            return false;
        }
        if (waits) { /* signal handlers that run during the call may post and reap */
            vipl_guard_sleep();
        }
        answered = await_answer(channel, number, waits && !restart, &cancelled);
        if (waits) {
            vipl_guard_wake();
        }
    } while (answered && channel->call.rc == VIP_INTERRUPTED && !cancelled);
    if (answered) {
        memcpy(arguments, &channel->call.a, vipl_calls[name].bytes);
    }
    return answered;
}

VIP_RETURN vipl_share_call(enum vipl_call_name name, void *object, void *arguments, bool restart)
{
    struct vipl_arena *arena = vipl_share_arena();
    struct tables *mine = vipl_load_ptr((void *const *)&share.mine);
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    uint32_t index;
    /* the handle is of a server that has ended */
    if (arena == NULL || share.pid != vipl_pid() || mine->arena != arena) {
        return VIP_INVALID_PARAMETER;
    }
    if (!take_free(mine, &index) && !add_channel(mine, &index)) {
        return vipl_share_arena() == NULL ? VIP_INVALID_PARAMETER : VIP_ERROR_RESOURCE;
    }
    uint32_t number = mine->channels[index];
    /* otherwise the channel is not used again */
    if (make_call(arena, number, name, object, arguments, restart)) {
        rc = arena->channels[number].call.rc;
        vipl_store_release(&mine->busy[index], 0);
    }
    return rc;
}

/* --- ready descriptors --- */

static struct ready_fd *ready_fd_of(const void *handle, bool recv)
{
    uint32_t slot = vipl_handle_slot(handle);
    struct tables *mine = vipl_load_ptr((void *const *)&share.mine);
    if (mine == NULL) {
        return NULL;
    }
    switch (vipl_handle_kind(handle)) {
    case VIPL_KIND_VI:
        return slot < VIPL_SHARE_VIS ? &mine->vi_ready_fds[slot][recv ? 1 : 0] : NULL;
    case VIPL_KIND_CQ:
        return slot < VIPL_SHARE_CQS ? &mine->cq_ready_fds[slot] : NULL;
    case VIPL_KIND_NIC:
        return slot < VIPL_SHARE_NICS ? &mine->nic_ready_fds[slot] : NULL;
    default:
        return NULL;
    }
}

/* Asks the server for a ready descriptor, which replaces that of a destroyed object.
 * `socket_lock` is held. */
static void query_ready_fd_locked(struct ready_fd *ready_fd, const void *handle, bool recv)
{
    struct vipl_note note = {
        .name = VIPL_NOTE_READY_FD, .number = recv ? 1 : 0, .handle = (void *)(uintptr_t)handle};
    int fds[2];
    if (ready_fd->handle != NULL) {
        vipl_fd_own(ready_fd->waker.fd); /* a child that is forked meanwhile closes its copies */
        vipl_fd_own(ready_fd->waker.write_fd);
        vipl_store_ptr(&ready_fd->handle, NULL);
        vipl_fd_close(ready_fd->waker.fd);
        vipl_fd_close(ready_fd->waker.write_fd == ready_fd->waker.fd ? -1 : ready_fd->waker.write_fd);
    }
    if (exchange_locked(&note, fds) == 0 && fds[0] >= 0) {
        ready_fd->waker.fd = fds[0];
        /* one descriptor if both are the same */
        ready_fd->waker.write_fd = fds[1] < 0 ? fds[0] : fds[1];
        vipl_fd_begin();
        vipl_fd_disown(fds[0]); /* a child that is forked from now on shares the descriptor */
        vipl_fd_disown(fds[1]);
        vipl_store_ptr(&ready_fd->handle, (void *)(uintptr_t)handle);
        vipl_fd_end();
    }
}

struct vipl_waker *vipl_share_ready_fd(const void *handle, bool recv)
{
    struct ready_fd *ready_fd = ready_fd_of(handle, recv);
    if (ready_fd != NULL && vipl_load_ptr(&ready_fd->handle) != handle) {
        vipl_mutex_lock(&share.socket_lock);
        if (ready_fd->handle != handle) {
            query_ready_fd_locked(ready_fd, handle, recv);
        }
        vipl_mutex_unlock(&share.socket_lock);
    }
    return ready_fd != NULL && vipl_load_ptr(&ready_fd->handle) == handle ? &ready_fd->waker : NULL;
}

void vipl_share_lock(void)
{
    vipl_mutex_lock(&share.socket_lock);
}

void vipl_share_unlock(void)
{
    vipl_mutex_unlock(&share.socket_lock);
}

unsigned vipl_share_number(void)
{
    /* pairs with receive_number_locked()'s release */
    uint32_t number = vipl_load_acquire(&share.number);
    if (number == UINT32_MAX && vipl_share_arena() != NULL && share.pid == vipl_pid()) {
        vipl_mutex_lock(&share.socket_lock);
        receive_number_locked();
        number = vipl_load_relaxed(&share.number);
        vipl_mutex_unlock(&share.socket_lock);
    }
    return number < VIPL_SHARE_CLIENTS ? number : VIPL_SHARE_CLIENTS;
}

bool vipl_share_holds(const void *handle)
{
    unsigned number = vipl_share_number();
    return vipl_arena_holds(vipl_share_arena(), number, handle);
}
