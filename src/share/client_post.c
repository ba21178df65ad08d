/* SPDX-License-Identifier: MIT */
/*
 * How a client posts sends to shared VIs. What VipPostSend() returns is decided here, or the post
 * becomes a call. The threads of a process share its ring, and write to it one at a time, under a
 * lock in their own memory. No handler that interrupts a post posts (base/guard.h), so no thread
 * takes the lock twice.
 */
#include "share/client_post.h"

#include "base/lock_rank.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "share/client.h"
#include "share/client_call.h"
#include "share/posts.h"
#include "share/rings.h"

enum {
    TOUCHABLE_ALIGNMENT = 8, /* the alignment that vipl_descriptor_admit() requires */
    CHECK_NS = 200000000,
    /* A server that is awake has posted long before; one that is being woken needs
     * a little longer. */
    SPINS = 20000
};

static struct {
    struct vipl_mutex lock; /* rank POSTS; guards writing to this client's ring */
    uint32_t checked;       /* atomic: when the server was last seen alive, in units of CHECK_NS */
} submit = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_POSTS)};

void vipl_share_submit_in_child(void)
{
    vipl_mutex_init(&submit.lock, VIPL_RANK_POSTS);
}

/* A server that sleeps, or has not made the posts before this one, may have ended. Whether it has
 * takes a system call, which is made a few times a second if the server does not sleep. */
static bool server_may_live(const struct vipl_posts *posts, const struct vipl_submissions *mine)
{
    if (vipl_load_relaxed(&posts->asleep) != 0) {
        return vipl_share_server_lives();
    }
    if (vipl_load_relaxed(&mine->tail) == vipl_load_relaxed(&mine->head)) {
        return true;
    }
    uint32_t now = (uint32_t)(vipl_now_ns() / CHECK_NS);
    if (vipl_load_relaxed(&submit.checked) == now) {
        return true;
    }
    vipl_store_relaxed(&submit.checked, now);
    return vipl_share_server_lives();
}

/* Whether the call would return VIP_SUCCESS, if there is room in the queue. */
static bool is_acceptable(const struct vipl_arena *arena, unsigned number, const void *vi,
                          const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    return vipl_handle_kind(vi) == VIPL_KIND_VI && vipl_arena_holds(arena, number, vi) &&
           (uintptr_t)descriptor % TOUCHABLE_ALIGNMENT == 0 &&
           vipl_posts_covers(&arena->posts, vipl_load_ptr(&arena->vis[vipl_handle_slot(vi)].nic), memory,
                             descriptor, sizeof(VIP_CONTROL_SEGMENT));
}

bool vipl_share_submit(void *vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    struct vipl_arena *arena = vipl_share_arena();
    unsigned number;
    if (arena == NULL || vipl_share_is_forking() || (number = vipl_share_number()) >= VIPL_SHARE_CLIENTS ||
        !is_acceptable(arena, number, vi, descriptor, memory) ||
        !server_may_live(&arena->posts, &arena->posts.clients[number])) {
        return false;
    }
    struct vipl_submission entry = {vi, descriptor, memory, 0};
    struct vipl_ring *ring = &arena->vis[vipl_handle_slot(vi)].queues[0];
    vipl_mutex_lock(&submit.lock);
    bool done = vipl_posts_put(&arena->posts, number, ring, &entry);
    vipl_mutex_unlock(&submit.lock);
    if (done && vipl_posts_mark_pending(&arena->posts, number)) {
        vipl_futex_wake_one(&arena->posts.asleep);
    }
    return done;
}

/* The server empties the ring before it makes any call. */
bool vipl_share_catch_up(void)
{
    const struct vipl_arena *arena = vipl_share_arena();
    unsigned number = vipl_share_number(); /* every process that polls knows its number already */
    if (arena == NULL || number >= VIPL_SHARE_CLIENTS) {
        return false;
    }
    const struct vipl_submissions *mine = &arena->posts.clients[number];
    uint32_t tail = vipl_load_relaxed(&mine->tail);
    uint32_t head = vipl_load_acquire(&mine->head); /* pairs with the server's store */
    if (head == tail) {
        return false;
    }
    for (int i = 0; i < SPINS && (int32_t)(head - tail) < 0; i++) {
        head = vipl_load_acquire(&mine->head);
    }
    if ((int32_t)(head - tail) >= 0) {
        return true;
    }
    bool lives = vipl_share_server_lives();
    if (lives) {
        vipl_share_call_server();
    }
    return lives;
}
