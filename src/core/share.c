/* SPDX-License-Identifier: MIT */
/*
 * A holder's side: joining the keeper, making calls, and what happens around a fork.
 *
 * `talk` guards the socket: one note and its answer at a time. A fork keeps it from before to after, so that no
 * other thread's socket gets into a child by mistake. Nothing else here takes a lock: a call takes any
 * channel that is free, and that may be done in a signal handler.
 */
#include "core/share.h"

#include <errno.h>
#include <string.h>

#include "core/config.h"
#include "core/lock_rank.h"
#include "core/log.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum { SPINS = 2000, LOOK_MS = 200, CHANNELS = 64, MIB = 1 << 20 };

struct bell {
    void *handle; /* whose descriptor it is; NULL: none. Guarded by talk, as fd is */
    int fd;
};

static struct {
    struct vipl_mutex talk;   /* rank SHARE; guards the socket, and adding channels and bells */
    struct vipl_arena *arena; /* atomic; NULL: none */
    int pid;                  /* whose channels these are: a child that the handlers did not see has none */
    int socket;
    int lifeline;
    int child_socket;                  /* while forking: the child's end, or -1 */
    bool forking;                      /* talk is held by before_fork() */
    bool watching;                     /* the handlers are there */
    uint32_t channel_count;            /* atomic: grows */
    uint32_t channels[CHANNELS];       /* numbers in the arena; constant once counted */
    uint32_t busy[CHANNELS];           /* atomic: a call is under way */
    void *dropped_vis[VIPL_SHARE_VIS]; /* atomic: this process has dropped its reference of that handle */
    void *dropped_cqs[VIPL_SHARE_CQS]; /* atomic, likewise */
    struct bell vi_bells[VIPL_SHARE_VIS][2];
    struct bell cq_bells[VIPL_SHARE_CQS];
} share = {.talk = {0, VIPL_RANK_SHARE}, .socket = -1, .lifeline = -1, .child_socket = -1};

struct vipl_arena *vipl_share_arena(void)
{
    return vipl_load_ptr((void *const *)&share.arena);
}

int vipl_share_lifeline(void)
{
    return share.lifeline;
}

bool vipl_share_keeper_lives(void)
{
    return vipl_poll(&share.lifeline, 1, 0, NULL) != 0; /* a signal may end even a look */
}

/* --- notes --- */

/* Sends a note and has the answer in its place. `talk` is held. 0, or an errno value. */
static int exchange_locked(struct vipl_note *note, int pass, int *passed)
{
    size_t length = 0;
    int fds[2];
    int error = vipl_local_send(share.socket, note, sizeof(*note), &pass, pass < 0 ? 0 : 1);
    while (error == 0) {
        error = vipl_local_receive(share.socket, note, sizeof(*note), &length, fds);
        if (error != EAGAIN) {
            break;
        }
        vipl_poll(&share.socket, 1, -1, NULL); /* a signal: looks again */
        error = 0;
    }
    if (error == 0 && length != sizeof(*note)) {
        return EPIPE; /* the keeper is no more */
    }
    *passed = error == 0 ? fds[0] : -1;
    return error;
}

/* --- forking --- */

static void before_fork(void)
{
    if (vipl_share_arena() == NULL || share.pid != vipl_pid()) {
        return;
    }
    vipl_mutex_lock(&share.talk);
    share.forking = true;
    int ends[2];
    int none;
    struct vipl_note note = {.name = VIPL_NOTE_FORK};
    int error = vipl_local_pair(ends);
    if (error == 0) {
        error = exchange_locked(&note, ends[1], &none);
        vipl_fd_close(ends[1]);
        if (error == 0 && note.number == 0) {
            share.child_socket = ends[0];
            return;
        }
        vipl_fd_close(ends[0]);
    }
    vipl_log_os("shared objects are not passed on to the child", error == 0 ? (int)note.number : error);
}

static void after_fork_in_parent(void)
{
    if (share.forking) {
        vipl_fd_close(share.child_socket);
        share.child_socket = -1;
        share.forking = false;
        vipl_mutex_unlock(&share.talk);
    }
}

/* The child's socket takes the place of the parent's; its channels are yet to be asked for. */
static void after_fork_in_child(void)
{
    if (!share.forking) {
        vipl_store_ptr((void **)&share.arena, NULL);
        return;
    }
    vipl_mutex_unlock(&share.talk);
    share.forking = false;
    vipl_fd_close(share.socket);
    share.socket = share.child_socket;
    share.child_socket = -1;
    share.pid = vipl_pid();
    share.channel_count = 0;
    memset(share.busy, 0, sizeof(share.busy));
    if (share.socket < 0) {
        vipl_store_ptr((void **)&share.arena, NULL);
    }
}

/* --- joining --- */

#if UINTPTR_MAX > 0xFFFFFFFFu
enum { HEAP_MIB = 1024, MOST_HEAP_MIB = 1 << 20 };
#else
enum { HEAP_MIB = 64, MOST_HEAP_MIB = 1024 };
#endif

/* The heap lies behind the arena's own part, at a multiple of its units: a mapping does not begin at one. */
static struct vipl_arena *make_arena(void)
{
    struct vipl_shm shm;
    size_t own = sizeof(struct vipl_arena) + VIPL_SHARE_PAGE;
    size_t heap = (size_t)vipl_config_number("VIPL_SHARED_MIB", HEAP_MIB, 1, MOST_HEAP_MIB) * MIB;
    int error = vipl_shm_reserve(&shm, "vipl-shared", own + heap);
    if (error != 0) {
        vipl_log_os("memory for shared objects", error);
        return NULL;
    }
    vipl_shm_close_fd(&shm);
    struct vipl_arena *arena = shm.base;
    uintptr_t end = (uintptr_t)shm.base + own;
    arena->heap = (unsigned char *)shm.base + own - end % VIPL_SHARE_PAGE;
    arena->heap_bytes = heap;
    return arena;
}

struct beginning {
    struct vipl_arena *arena;
    int socket;
};

/* In the keeper's process, which has inherited `talk` as its parent held it. */
static void keeper_main(void *arg)
{
    struct beginning *beginning = arg;
    vipl_mutex_unlock(&share.talk);
    vipl_keeper_run(beginning->arena, beginning->socket);
}

/* `talk` is held. */
static int start_keeper(struct vipl_arena *arena)
{
    int holder[2];
    int life[2];
    int error = vipl_local_pair(holder);
    if (error != 0) {
        return error;
    }
    error = vipl_local_pair(life);
    if (error != 0) {
        vipl_fd_close(holder[0]);
        vipl_fd_close(holder[1]);
        return error;
    }
    struct beginning beginning = {arena, holder[1]};
    int const keepers[2] = {holder[1], life[1]};
    error = vipl_spawn(keeper_main, &beginning, keepers, 2);
    vipl_fd_close(holder[1]);
    vipl_fd_close(life[1]);
    share.socket = holder[0];
    share.lifeline = life[0];
    if (error != 0) {
        vipl_fd_close(holder[0]);
        vipl_fd_close(life[0]);
    }
    return error;
}

static VIP_RETURN join_locked(void)
{
    if (vipl_share_arena() != NULL) {
        return share.pid == vipl_pid() ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
    }
    if (!share.watching) {
        if (vipl_around_fork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
            return VIP_ERROR_RESOURCE;
        }
        share.watching = true;
    }
    struct vipl_arena *arena = make_arena();
    if (arena == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    int error = start_keeper(arena);
    if (error != 0) {
        vipl_log_os("starting the keeper of shared objects", error);
        return VIP_ERROR_RESOURCE;
    }
    share.pid = vipl_pid();
    share.channel_count = 0;
    memset(share.busy, 0, sizeof(share.busy));
    vipl_store_ptr((void **)&share.arena, arena);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_share_join(void)
{
    vipl_mutex_lock(&share.talk);
    VIP_RETURN rc = join_locked();
    vipl_mutex_unlock(&share.talk);
    return rc;
}

/* --- channels --- */

static bool take_free(uint32_t *index)
{
    uint32_t count = vipl_load_acquire(&share.channel_count); /* pairs with add_channel()'s release */
    for (*index = 0; *index < count; ++*index) {
        if (vipl_compare_exchange(&share.busy[*index], 0, 1)) {
            return true;
        }
    }
    return false;
}

static bool add_channel(uint32_t *index)
{
    struct vipl_note note = {.name = VIPL_NOTE_CHANNEL};
    int none;
    vipl_mutex_lock(&share.talk);
    uint32_t count = share.channel_count;
    bool added =
        count < CHANNELS && exchange_locked(&note, -1, &none) == 0 && note.number < VIPL_SHARE_CHANNELS;
    if (added) {
        share.channels[count] = note.number;
        vipl_store_relaxed(&share.busy[count], 1);
        vipl_store_release(&share.channel_count, count + 1);
        *index = count;
    }
    vipl_mutex_unlock(&share.talk);
    return added;
}

static void send_cancel(uint32_t number)
{
    struct vipl_note note = {.name = VIPL_NOTE_CANCEL, .number = number};
    vipl_local_send(share.socket, &note, sizeof(note), NULL, 0); /* needs no lock: it is not answered */
}

/* Until it is this side's turn again. False: the keeper is no more. */
static bool await_answer(struct vipl_channel *channel, uint32_t number, bool cancellable, bool *cancelled)
{
    uint32_t turn = VIPL_TURN_KEEPER;
    for (int i = 0; i < SPINS && turn == VIPL_TURN_KEEPER; i++) {
        turn = vipl_load_acquire(&channel->turn); /* pairs with the keeper's exchange */
    }
    while (turn == VIPL_TURN_KEEPER) {
        vipl_store_ordered(&channel->holder_asleep, 1);
        int why = vipl_futex_wait_for(&channel->turn, VIPL_TURN_KEEPER, LOOK_MS);
        vipl_store_ordered(&channel->holder_asleep, 0);
        turn = vipl_load_acquire(&channel->turn);
        if (turn == VIPL_TURN_KEEPER && why == EINTR && cancellable && !*cancelled) {
            *cancelled = true;
            send_cancel(number);
        } else if (turn == VIPL_TURN_KEEPER && why == ETIMEDOUT && !vipl_share_keeper_lives()) {
            return false;
        }
    }
    return true;
}

VIP_RETURN vipl_share_call(struct vipl_call *call, bool blocking, bool restart)
{
    struct vipl_arena *arena = vipl_share_arena();
    uint32_t index;
    if (arena == NULL || share.pid != vipl_pid()) {
        return VIP_INVALID_PARAMETER;
    }
    if (!take_free(&index) && !add_channel(&index)) {
        return VIP_ERROR_RESOURCE;
    }
    uint32_t number = share.channels[index];
    struct vipl_channel *channel = &arena->channels[number];
    struct vipl_call asked = *call;
    bool answered;
    bool cancelled;
    do { /* again, if it was another call's cancellation that came late */
        cancelled = false;
        channel->call = asked;
        vipl_store_ordered(&channel->turn, VIPL_TURN_KEEPER);
        if (vipl_load_ordered(&channel->keeper_asleep) != 0) {
            vipl_futex_wake_one(&channel->turn);
        }
        answered = await_answer(channel, number, blocking && !restart, &cancelled);
        *call = channel->call;
    } while (answered && call->rc == VIP_INTERRUPTED && !cancelled);
    if (answered) {
        vipl_store_release(&share.busy[index], 0);
    }
    return answered ? call->rc : VIP_ERROR_RESOURCE;
}

/* --- bells --- */

static struct bell *bell_of(const void *handle, bool recv)
{
    uint32_t slot = vipl_handle_slot(handle);
    if (vipl_handle_kind(handle) == VIPL_KIND_CQ) {
        return slot < VIPL_SHARE_CQS ? &share.cq_bells[slot] : NULL;
    }
    return slot < VIPL_SHARE_VIS ? &share.vi_bells[slot][recv ? 1 : 0] : NULL;
}

int vipl_share_bell(const void *handle, bool recv)
{
    struct bell *bell = bell_of(handle, recv);
    if (bell == NULL) {
        return -1;
    }
    vipl_mutex_lock(&share.talk);
    if (bell->handle != handle) {
        struct vipl_note note = {
            .name = VIPL_NOTE_BELL, .number = recv ? 1 : 0, .handle = (void *)(uintptr_t)handle};
        int fd = -1;
        vipl_fd_close(bell->handle == NULL ? -1 : bell->fd); /* an object's that is no more */
        bell->handle = NULL;
        if (exchange_locked(&note, -1, &fd) == 0 && fd >= 0) {
            bell->fd = fd;
            bell->handle = (void *)(uintptr_t)handle;
        }
    }
    int fd = bell->handle == handle ? bell->fd : -1;
    vipl_mutex_unlock(&share.talk);
    return fd;
}

/* --- references --- */

static void **dropped_of(const void *handle)
{
    uint32_t slot = vipl_handle_slot(handle);
    if (vipl_handle_kind(handle) == VIPL_KIND_CQ) {
        return slot < VIPL_SHARE_CQS ? &share.dropped_cqs[slot] : NULL;
    }
    return slot < VIPL_SHARE_VIS ? &share.dropped_vis[slot] : NULL;
}

void vipl_share_drop(const void *handle)
{
    void **dropped = dropped_of(handle);
    if (dropped != NULL) {
        vipl_store_ptr(dropped, (void *)(uintptr_t)handle);
    }
}

static void drop_if_on(void *const *handle, void *const *nic, const void *of)
{
    const void *dropped = vipl_load_ptr(handle);
    if (dropped != NULL && vipl_load_ptr(nic) == of) {
        vipl_share_drop(dropped);
    }
}

void vipl_share_drop_all(const void *nic)
{
    const struct vipl_arena *arena = vipl_share_arena();
    for (uint32_t i = 0; i < VIPL_SHARE_VIS; i++) {
        drop_if_on(&arena->vis[i].handle, &arena->vis[i].nic, nic);
    }
    for (uint32_t i = 0; i < VIPL_SHARE_CQS; i++) {
        drop_if_on(&arena->cqs[i].handle, &arena->cqs[i].nic, nic);
    }
}

bool vipl_share_has_dropped(const void *handle)
{
    void **dropped = dropped_of(handle);
    return dropped == NULL || vipl_load_ptr(dropped) == handle;
}
