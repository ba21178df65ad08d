/* SPDX-License-Identifier: MIT */
/*
 * The server posts what clients have left in their rings. One thread watches the rings while there
 * is something, and for a moment longer; otherwise it sleeps. A thread that makes a call first
 * posts, itself, what was posted before the call. One lock guards posting, so a thread finds done
 * what another one has begun.
 *
 * What is read from a ring is read once, and trusted no more than a call.
 */
#include "server/posts.h"

#include "base/lock_rank.h"
#include "base/log.h"
#include "core/sink.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "server/objects.h"

enum {
    WORDS = VIPL_SHARE_CLIENTS / 32,
    /* How long the thread checks for more before it sleeps: about as long as waking it takes. */
    SPIN_NS = 50000,
    CHECKS_PER_CLOCK = 64, /* checks between two readings of the clock */
    MAX_UNSYNCED = 4       /* posts to a queue before core is told what clients have reaped */
};

/* What the server knows of a send queue, in memory that clients cannot write. Guarded
 * by the lock. */
struct account {
    uint32_t posted; /* descriptors that core has accepted */
    uint32_t synced; /* `posted` when core was last told what clients have reaped */
};

/* A ring that is being emptied. */
struct source {
    unsigned client;
    uint32_t tail;
    struct vipl_submission next; /* the entry at its head, which is not `tail` */
};

static struct {
    /* rank POSTS; guards posting, all below, and writing the table of regions */
    struct vipl_mutex lock;
    struct vipl_arena *arena; /* constant */
    uint32_t words;           /* atomic: words of `pending` that were ever used; grows */
    uint32_t heads[VIPL_SHARE_CLIENTS];
    struct account accounts[VIPL_SHARE_VIS];
    struct source sources[VIPL_SHARE_CLIENTS];
    uint32_t source_count;
} posts;

static struct vipl_ring *ring_of(const void *vi)
{
    return &posts.arena->vis[vipl_handle_slot(vi)].queues[0];
}

/* --- one post: the lock is held --- */

/* Tells core what clients have reaped. */
static void sync_queue(void *real, const void *vi, struct account *account)
{
    vipl_sink_taken(real, false, vipl_load_acquire(&ring_of(vi)->reaped));
    account->synced = account->posted;
}

static VIP_RETURN post_submission(unsigned client, const struct vipl_submission *post)
{
    void *real;
    if (!vipl_server_held(VIPL_KIND_VI, post->vi, client, &real)) {
        return VIP_INVALID_PARAMETER;
    }
    struct account *account = &posts.accounts[vipl_handle_slot(post->vi)];
    if (account->posted - account->synced >= MAX_UNSYNCED) {
        sync_queue(real, post->vi, account);
    }
    VIP_RETURN rc = VipPostSend(real, post->descriptor, post->memory);
    if (rc == VIP_ERROR_RESOURCE) {
        sync_queue(real, post->vi, account);
        rc = VipPostSend(real, post->descriptor, post->memory);
    }
    account->posted += rc == VIP_SUCCESS ? 1 : 0;
    return rc;
}

/* Returns a claim, unless the VI was destroyed since: the slot's queue is another one then. */
static void return_claim(const void *vi)
{
    const void *now = vipl_handle_slot(vi) < VIPL_SHARE_VIS
                          ? vipl_load_ptr(&posts.arena->vis[vipl_handle_slot(vi)].handle)
                          : NULL;
    if (now != NULL && now == vi) {
        vipl_fetch_add(&ring_of(vi)->claimed, UINT32_MAX);
    }
}

/* Makes a post that its client believes to have succeeded. It fails if another thread or process
 * has given up the VI or the descriptor's memory since, or if there is no memory, which is logged.
 * The descriptor does not come back then. */
static void post_from_ring(unsigned client, const struct vipl_submission *post)
{
    VIP_RETURN rc = post_submission(client, post);
    if (rc != VIP_SUCCESS) {
        return_claim(post->vi);
    }
    if (rc == VIP_ERROR_RESOURCE) {
        vipl_log(VIPL_LOG_ERROR, "a descriptor that was posted on vi %p is lost: no memory", post->vi);
    }
}

/* --- all posts: the lock is held --- */

static bool is_older(uint32_t stamp, uint32_t than)
{
    return (int32_t)(stamp - than) < 0;
}

/* Reads an entry. A stamp that has not been given out yet was overwritten by a faulty program: the
 * entry then counts as old, so that it does not stay in the ring. */
static struct vipl_submission read_entry(const struct vipl_submissions *ring, uint32_t index, uint32_t limit)
{
    struct vipl_submission entry = vipl_posts_read(ring, index);
    uint32_t next = vipl_load_acquire(&posts.arena->posts.stamp);
    entry.stamp = is_older(entry.stamp, next) ? entry.stamp : limit - 1;
    return entry;
}

/* Lists a ring that is not empty, up to what it has now. */
static void list_source(unsigned client, uint32_t limit)
{
    const struct vipl_submissions *ring = &posts.arena->posts.clients[client];
    /* pairs with the client's store, after the entries */
    uint32_t tail = vipl_load_ordered(&ring->tail);
    uint32_t count = tail - posts.heads[client];
    if (count > VIPL_SHARE_POSTS) { /* a faulty program has overwritten the tail */
        posts.heads[client] = tail;
    } else if (count > 0) {
        posts.sources[posts.source_count++] =
            (struct source){client, tail, read_entry(ring, posts.heads[client], limit)};
    }
}

static void list_sources(uint32_t limit)
{
    posts.source_count = 0;
    for (uint32_t i = 0; i < vipl_load_acquire(&posts.words); i++) {
        uint32_t *word = &posts.arena->posts.pending[i];
        uint32_t bits = vipl_load_ordered(word) == 0 ? 0 : vipl_exchange(word, 0);
        for (uint32_t bit = 0; bits != 0; bit++, bits >>= 1) {
            if ((bits & 1) != 0) {
                list_source(i * 32 + bit, limit);
            }
        }
    }
}

/* The ring whose next post is the oldest. */
static struct source *oldest_source(void)
{
    struct source *oldest = &posts.sources[0];
    for (uint32_t i = 1; i < posts.source_count; i++) {
        if (is_older(posts.sources[i].next.stamp, oldest->next.stamp)) {
            oldest = &posts.sources[i];
        }
    }
    return oldest;
}

/* Moves a ring's head after a post, by which the client sees that the post is made and has
 * its room back. */
static void advance_source(struct source *source, uint32_t limit)
{
    struct vipl_submissions *ring = &posts.arena->posts.clients[source->client];
    uint32_t head = ++posts.heads[source->client];
    vipl_store_release(&ring->head, head); /* pairs with the client's load */
    if (head != source->tail) {
        source->next = read_entry(ring, head, limit);
    } else {
        *source = posts.sources[--posts.source_count];
    }
}

/* Marks the rings that have younger posts for the next time: the posts that they may follow need
 * not have been seen this time. */
static void requeue_younger(void)
{
    for (uint32_t i = 0; i < posts.source_count; i++) {
        unsigned client = posts.sources[i].client;
        vipl_fetch_or(&posts.arena->posts.pending[client / 32], UINT32_C(1) << client % 32);
    }
}

/* Posts what is older than the next stamp, in the order of stamps. */
static void drain_locked(void)
{
    /* read before the rings; see posts.h */
    uint32_t limit = vipl_load_acquire(&posts.arena->posts.stamp);
    list_sources(limit);
    while (posts.source_count > 0) {
        struct source *source = oldest_source();
        if (!is_older(source->next.stamp, limit)) {
            break;
        }
        struct vipl_submission post = source->next;
        post_from_ring(source->client, &post);
        advance_source(source, limit);
    }
    requeue_younger();
}

void vipl_server_posts_drain(void)
{
    vipl_mutex_lock(&posts.lock);
    drain_locked();
    vipl_mutex_unlock(&posts.lock);
}

/* --- the thread --- */

static bool is_pending(void)
{
    for (uint32_t i = 0; i < vipl_load_acquire(&posts.words); i++) {
        if (vipl_load_ordered(&posts.arena->posts.pending[i]) != 0) {
            return true;
        }
    }
    return false;
}

/* Checks for a while. Returns false if there was nothing. */
static bool await_pending(void)
{
    uint64_t end = vipl_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < CHECKS_PER_CLOCK; i++) {
            if (is_pending()) {
                return true;
            }
        }
    } while (vipl_now_ns() < end);
    return false;
}

static void post_thread(void *unused)
{
    uint32_t *asleep = &posts.arena->posts.asleep;
    (void)unused;
    for (;;) {
        while (await_pending()) {
            vipl_server_posts_drain();
        }
        vipl_store_ordered(asleep, 1); /* pairs with the load of a client that has posted */
        if (!is_pending()) {
            vipl_futex_wait(asleep, 1);
        }
        vipl_store_ordered(asleep, 0);
    }
}

bool vipl_server_posts_start(struct vipl_arena *arena)
{
    struct vipl_thread thread;
    posts.arena = arena;
    vipl_mutex_init(&posts.lock, VIPL_RANK_POSTS);
    int error = vipl_thread_start(&thread, post_thread, NULL);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "starting the thread that posts", error);
        return false;
    }
    vipl_thread_detach(&thread);
    return true;
}

/* --- clients --- */

void vipl_server_posts_begin(unsigned client)
{
    struct vipl_submissions *ring = &posts.arena->posts.clients[client];
    vipl_mutex_lock(&posts.lock);
    posts.heads[client] = 0;
    vipl_store_relaxed(&ring->head, 0);
    vipl_store_relaxed(&ring->claiming, 0);
    vipl_store_ordered(&ring->tail, 0);
    if (posts.words <= client / 32) {
        vipl_store_release(&posts.words, client / 32 + 1); /* pairs with the thread's loads */
    }
    vipl_mutex_unlock(&posts.lock);
}

/* The client may have been killed while posting: without a stored `tail` there is no post, and its
 * bit may be missing. */
void vipl_server_posts_end(unsigned client)
{
    struct vipl_submissions *ring = &posts.arena->posts.clients[client];
    vipl_mutex_lock(&posts.lock);
    vipl_fetch_or(&posts.arena->posts.pending[client / 32], UINT32_C(1) << client % 32);
    drain_locked();
    vipl_store_ordered(&ring->claiming, 0);
    vipl_mutex_unlock(&posts.lock);
}

/* --- queues --- */

void vipl_server_posts_open(const void *vi)
{
    vipl_mutex_lock(&posts.lock);
    posts.accounts[vipl_handle_slot(vi)] = (struct account){0, 0};
    vipl_mutex_unlock(&posts.lock);
}

/* Forgets the claims of clients that were killed before they wrote their entries, if all other
 * claims are known: `claimed` is read before the rings, and is not changed if there was another
 * claim since. The lock is held. */
static void forget_claims(struct vipl_ring *ring, const void *vi)
{
    uint32_t claimed = vipl_load_acquire(&ring->claimed);
    for (uint32_t i = 0; i < vipl_load_relaxed(&posts.words) * 32; i++) {
        const struct vipl_submissions *other = &posts.arena->posts.clients[i];
        if (vipl_load_acquire(&other->claiming) == vipl_posts_code(vi)) {
            return;
        }
    }
    drain_locked();
    vipl_compare_exchange(&ring->claimed, claimed, posts.accounts[vipl_handle_slot(vi)].posted);
}

/* Posts a send under the lock. If there is no room core returns the error, unless it finds
 * another one first. */
static VIP_RETURN post_locked(unsigned client, const struct vipl_submission *post)
{
    struct vipl_ring *ring = ring_of(post->vi);
    bool claimed = vipl_posts_claim(ring);
    if (!claimed) {
        forget_claims(ring, post->vi);
        claimed = vipl_posts_claim(ring);
    }
    uint32_t posted = posts.accounts[vipl_handle_slot(post->vi)].posted;
    if (!claimed && posted - vipl_load_acquire(&ring->reaped) < VIPL_SHARE_DEPTH) {
        return VIP_ERROR_RESOURCE; /* posts that others are about to make take the room */
    }
    VIP_RETURN rc = post_submission(client, post);
    if (claimed && rc != VIP_SUCCESS) {
        return_claim(post->vi);
    }
    return rc;
}

VIP_RETURN vipl_server_post(unsigned client, void *vi, const struct vipl_call_post *post)
{
    struct vipl_submission submission = {vi, post->descriptor, post->memory, 0};
    vipl_mutex_lock(&posts.lock);
    VIP_RETURN rc = post_locked(client, &submission);
    vipl_mutex_unlock(&posts.lock);
    return rc;
}

/* --- regions --- */

void vipl_server_posts_region(void *nic, void *address, size_t bytes, VIP_MEM_HANDLE memory)
{
    vipl_mutex_lock(&posts.lock);
    vipl_posts_enter_region(&posts.arena->posts, nic, address, bytes, memory);
    vipl_mutex_unlock(&posts.lock);
}

void vipl_server_posts_no_region(const void *nic, VIP_MEM_HANDLE memory)
{
    vipl_mutex_lock(&posts.lock);
    vipl_posts_leave_region(&posts.arena->posts, nic, memory);
    vipl_mutex_unlock(&posts.lock);
}
