/* SPDX-License-Identifier: MIT */
/*
 * Links: making them, progress over all links of a NIC handle, sleeping and waking, and the death
 * of a peer.
 */
#include "backends/loopback/link.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backends/loopback/control.h"
#include "backends/loopback/exports.h"
#include "backends/loopback/mapped.h"
#include "backends/loopback/poll_filter.h"
#include "backends/loopback/rx.h"
#include "backends/loopback/tx.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "base/peer_copy.h"
#include "base/pool.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum { MAX_EVENTS = 32 };
static const uint32_t BYTE_ORDER_MARK = 0x01020304;

uint8_t vipl_lo_process_uid[LO_UID];
struct vipl_peer_mark vipl_lo_mark;

/* Makes the NIC handle's identity, and this process's if it has none. */
static int make_identity(struct lo_remote *remote)
{
    static const uint8_t none[LO_UID] = {0};
    int error = vipl_entropy(remote->uid, sizeof(remote->uid));
    if (error == 0 && memcmp(vipl_lo_process_uid, none, LO_UID) == 0) {
        error = vipl_peer_mark_make(&vipl_lo_mark);
        error = error != 0 ? error : vipl_entropy(vipl_lo_process_uid, sizeof(vipl_lo_process_uid));
    }
    return error;
}

/* Opens both poll sets. Connecting has its own, so that the data path does not read its sockets. */
static int open_pollsets(struct lo_remote *remote)
{
    int error = vipl_pollset_open(&remote->set);
    if (error != 0) {
        return error;
    }
    error = vipl_pollset_open(&remote->setup);
    if (error == 0) {
        remote->setup_source = (struct lo_source){LO_SOURCE_SETUP, remote->setup.fd};
        error = vipl_pollset_add(&remote->set, remote->setup.fd, &remote->setup_source);
        if (error != 0) {
            vipl_pollset_close(&remote->setup);
        }
    }
    if (error != 0) {
        vipl_pollset_close(&remote->set);
    }
    return error;
}

static void make_remote(void *object)
{
    struct lo_remote *remote = object;
    vipl_biased_init(&remote->rx, VIPL_RANK_BACKEND_RX);
}

static struct vipl_pool remote_pool = VIPL_POOL_INIT(remote_pool, struct lo_remote, free, make_remote);

void vipl_lo_remotes_abandon(void)
{
    vipl_pool_abandon(&remote_pool);
}

/* Takes a remote part from the pool, and initializes it. */
static struct lo_remote *remote_new(struct vipl_be_nic *be, const struct lo_setup *connecting)
{
    struct lo_remote *remote = vipl_pool_get(&remote_pool);
    const size_t kept = offsetof(struct lo_remote, connecting);
    if (remote == NULL) {
        return NULL;
    }
    memset((char *)remote + kept, 0, sizeof(*remote) - kept);
    remote->connecting = connecting;
    vipl_list_init(&remote->sockets);
    vipl_list_init(&remote->incomings);
    vipl_list_init(&remote->links);
    vipl_list_init(&remote->controls);
    vipl_store_relaxed(&remote->request_count, 0);
    vipl_biased_lock(&remote->rx);
    remote->be = be;
    vipl_biased_unlock(&remote->rx);
    return remote;
}

static void remote_free(struct lo_remote *remote)
{
    vipl_biased_lock(&remote->rx);
    remote->be = NULL;
    vipl_biased_unlock(&remote->rx);
    vipl_pool_put(&remote_pool, remote);
}

struct lo_remote *vipl_lo_remote_get(struct vipl_be_nic *be, const struct lo_setup *connecting)
{
    struct lo_remote *remote = lo_remote_of(be);
    if (remote != NULL) {
        return remote;
    }
    remote = remote_new(be, connecting);
    if (remote == NULL) {
        return NULL;
    }
    if (vipl_lo_own_exports(be) < 0) {
        remote_free(remote);
        return NULL;
    }
    int error = make_identity(remote);
    if (error == 0) {
        error = open_pollsets(remote);
    }
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "preparing to talk to other processes", error);
        remote_free(remote);
        return NULL;
    }
    vipl_store_ptr(&be->remote, remote); /* pairs with lo_remote_of */
    vipl_lo_filter_open(be);
    return remote;
}

/* --- making links --- */

static size_t segment_bytes(uint32_t slots)
{
    return sizeof(struct lo_segment) + 2 * (sizeof(struct lo_ring_shared) + (size_t)slots * LO_RING_SLOT);
}

/* Sets up one of the two rings. Does not read the number of slots in the segment again: the peer
 * may have changed it since it was checked. */
static void set_up_ring(struct lo_ring *ring, struct lo_segment *segment, uint32_t slots, unsigned which)
{
    size_t each = sizeof(struct lo_ring_shared) + (size_t)slots * LO_RING_SLOT;
    unsigned char *start = (unsigned char *)(segment + 1) + which * each;
    ring->shared = (struct lo_ring_shared *)(void *)start;
    ring->slots = start + sizeof(struct lo_ring_shared);
    ring->count = slots;
    ring->shift = 0;
    while (UINT32_C(1) << ring->shift < slots) {
        ring->shift++;
    }
    ring->at = 0;
    ring->known = 0;
    ring->backed = LO_FIRST_SLOTS;
    ring->starved = 0;
    ring->relies = false;
}

/* Makes a link without a segment. NULL: no memory. */
static struct lo_link *link_new(struct lo_remote *remote, const uint8_t peer_uid[LO_UID])
{
    struct lo_link *link = vipl_zalloc(sizeof(*link));
    if (link == NULL) {
        return NULL;
    }
    link->source.kind = LO_SOURCE_LINK;
    link->source.fd = -1;
    link->waker = (struct lo_source){LO_SOURCE_WAKER, -1};
    link->be = remote->be;
    link->shm.fd = -1;
    link->exports.fd = -1;
    link->claims.fd = -1;
    memcpy(link->peer_uid, peer_uid, LO_UID);
    vipl_biased_init(&link->tx, VIPL_RANK_BACKEND_TX);
    vipl_biased_allow(&link->tx);
    vipl_list_init(&link->blocked);
    vipl_list_init(&link->pending_closes);
    link->free_slots = LO_REQUEST_SLOTS;
    return link;
}

static void link_free(struct lo_link *link)
{
    vipl_shm_retire(&link->shm); /* a thread that polls may still read it */
    vipl_shm_release(&link->exports);
    vipl_shm_release(&link->claims);
    vipl_lo_mapped_free(link);
    vipl_free(link->sessions);
    vipl_free(link);
}

/* Frees a link that was in the list. The waker leaves the poll set first, because the peer keeps it
 * open. */
static void link_close(struct lo_remote *remote, struct lo_link *link)
{
    vipl_lo_control_drop(link);
    vipl_lo_link_free_closes(link);
    if (link->waker.fd >= 0) {
        vipl_pollset_remove(&remote->set, link->waker.fd);
    }
    vipl_fd_close(link->waker.fd);
    vipl_fd_close((int)vipl_load_relaxed(&link->peer_waker_plus_one) - 1);
    vipl_fd_close(link->source.fd);
    link_free(link);
}

/* Maps the peer's export table, and closes the descriptor. Without the table all RDMA goes through
 * the rings. */
static void map_peer_exports(struct lo_link *link, int exports_fd)
{
    if (exports_fd >= 0 &&
        vipl_shm_attach(&link->exports, exports_fd, sizeof(struct lo_exports), false) != 0) {
        link->exports.base = NULL;
    }
    link->exports.fd = -1;
    vipl_fd_close(exports_fd);
}

/* Adds the link to the list: polls and sleepers see it from now on. rx is held. */
static void activate_link(struct lo_remote *remote, struct lo_link *link)
{
    vipl_list_append(&remote->links, &link->link);
    vipl_store_relaxed(&remote->link_count, remote->link_count + 1);
    vipl_lo_filter_invalidate(remote->be);
    vipl_biased_allow(&remote->rx);
    if (remote->waiting_threads > 0) {
        (void)vipl_lo_ring_mark_asleep(&link->in); /* nothing has been sent yet */
    }
}

/* Sets up the rings of a link with a segment, and activates it. On failure the link is freed, and
 * fd stays the caller's. */
static struct lo_link *link_start(struct lo_remote *remote, struct lo_link *link, int fd, uint32_t slots)
{
    uint32_t user;
    link->segment = link->shm.base;
    set_up_ring(&link->out, link->segment, slots, link->side);
    set_up_ring(&link->in, link->segment, slots, 1 - link->side);
    vipl_pollset_remove(&remote->setup, fd); /* fd was watched there until now */
    int error = vipl_local_peer(fd, &link->peer.pid, &user);
    link->source.fd = fd;
    link->makes_barriers = vipl_barrier_take_part() && vipl_barrier_in_all();
    /* A program that may sleep for each message makes no barriers: one costs more than the fences
     * of the messages that follow it. */
    bool sleeps_properly = link->makes_barriers && !vipl_up_waits_itself(remote->be->core);
    vipl_store_release(&link->in.shared->sleeps_properly,
                       sleeps_properly ? 1 : 0); /* pairs with vipl_lo_ring_rely() */
    vipl_biased_lock(&remote->rx);
    if (error == 0) { /* last: another thread may get an event of it at once */
        error = vipl_pollset_add(&remote->set, fd, &link->source);
    }
    if (error == 0) {
        activate_link(remote, link);
    }
    vipl_biased_unlock(&remote->rx);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "setting up a link to another process", error);
        link_free(link);
        return NULL;
    }
    return link;
}

/* Makes the segment of a link. Only the first slots of each ring have memory, and each producer
 * adds to its ring what it needs. Where the system cannot allocate a part, all slots have
 * memory. */
static int make_segment(struct lo_link *link, uint32_t slots)
{
    static const char label[] = "vipl-link";
    size_t each = sizeof(struct lo_ring_shared) + (size_t)slots * LO_RING_SLOT;
    size_t first = sizeof(struct lo_ring_shared) + (size_t)LO_FIRST_SLOTS * LO_RING_SLOT;
    int error = vipl_shm_create_sparse(&link->shm, label, segment_bytes(slots));
    if (error != 0) {
        return error;
    }
    struct lo_segment *segment = link->shm.base;
    error = vipl_shm_allocate(segment, sizeof(*segment) + first);
    error = error != 0 ? error : vipl_shm_allocate((char *)(segment + 1) + each, first);
    if (error != 0) {
        vipl_shm_release(&link->shm);
        link->shm.fd = -1;
    }
    return error == ENOTSUP ? vipl_shm_create(&link->shm, label, segment_bytes(slots)) : error;
}

struct lo_link *vipl_lo_link_create(struct lo_remote *remote, int fd, int exports_fd,
                                    const uint8_t peer_uid[LO_UID])
{
    struct lo_link *link = link_new(remote, peer_uid);
    if (link == NULL) {
        return NULL;
    }
    uint32_t slots = 1024;
    while (slots * LO_RING_SLOT < remote->be->settings_ring) {
        slots *= 2;
    }
    int error = vipl_entropy(&link->id, sizeof(link->id));
    if (error == 0) {
        error = make_segment(link, slots);
    }
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "making a shared segment", error);
        vipl_free(link);
        return NULL;
    }
    struct lo_segment *segment = link->shm.base;
    segment->magic = LO_SEGMENT_MAGIC;
    segment->version = LO_VERSION;
    segment->byte_order = BYTE_ORDER_MARK;
    segment->word_bits = sizeof(void *) * 8;
    segment->slots = slots;
    link = link_start(remote, link, fd, slots);
    if (link != NULL) {
        map_peer_exports(link, exports_fd);
    }
    return link;
}

static bool segment_is_valid(const struct lo_segment *segment, uint32_t slots)
{
    return segment->magic == LO_SEGMENT_MAGIC && segment->version == LO_VERSION &&
           segment->byte_order == BYTE_ORDER_MARK && segment->word_bits == sizeof(void *) * 8 &&
           segment->slots == slots;
}

struct lo_link *vipl_lo_link_attach(struct lo_remote *remote, int fd, int shm_fd, int exports_fd, uint64_t id,
                                    uint32_t slots, const uint8_t peer_uid[LO_UID])
{
    struct lo_link *link = link_new(remote, peer_uid);
    if (link == NULL) {
        return NULL;
    }
    if (shm_fd < 0) {
        vipl_log(VIPL_LOG_ERROR, "another process's segment has not come: it sent none, or this process has "
                                 "no descriptor left");
        link_free(link);
        return NULL;
    }
    bool valid = slots >= 1024 && slots <= 1u << 20 && (slots & (slots - 1)) == 0;
    int error = valid ? vipl_shm_attach(&link->shm, shm_fd, segment_bytes(slots), true) : EINVAL;
    link->shm.fd = -1; /* closed below on success, by the caller otherwise */
    if (error == 0 && !segment_is_valid(link->shm.base, slots)) {
        error = EINVAL;
    }
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "mapping another process's segment", error);
        link_free(link);
        return NULL;
    }
    link->id = id;
    link->side = 1;
    link = link_start(remote, link, fd, slots);
    if (link != NULL) {
        map_peer_exports(link, exports_fd);
        vipl_fd_close(shm_fd);
    }
    return link;
}

struct lo_link *vipl_lo_link_find(struct lo_remote *remote, const uint8_t *peer_uid, uint64_t id)
{
    struct lo_link *found = NULL;
    vipl_biased_lock(&remote->rx);
    for (struct vipl_list *l = remote->links.next; l != &remote->links && found == NULL; l = l->next) {
        struct lo_link *link = VIPL_CONTAINER(l, struct lo_link, link);
        bool same = peer_uid == NULL ? link->id == id
                                     : link->confirmed && memcmp(link->peer_uid, peer_uid, LO_UID) == 0;
        found = link->dead == 0 && same ? link : NULL;
    }
    vipl_biased_unlock(&remote->rx);
    return found;
}

bool vipl_lo_link_is_confirmed(struct lo_link *link)
{
    struct lo_remote *remote = lo_remote_of(link->be);
    vipl_biased_lock(&remote->rx);
    bool confirmed = link->confirmed && link->dead == 0 && !link->hung_up;
    vipl_biased_unlock(&remote->rx);
    return confirmed;
}

void vipl_lo_link_drop(struct lo_link *link)
{
    struct lo_remote *remote = lo_remote_of(link->be);
    vipl_biased_lock(&remote->rx);
    lo_set_dead(link);
    vipl_pollset_remove(&remote->set, link->source.fd);
    vipl_store_relaxed(&remote->dead_links, 1);
    vipl_biased_unlock(&remote->rx);
}

void vipl_lo_link_probe(struct lo_link *link, const struct vipl_peer_mark *mark)
{
    uint32_t setting = link->be->settings_rendezvous;
    link->peer.mark = *mark;
    int error =
        setting == LO_RENDEZVOUS_OFF ? EPERM : vipl_peer_copy_lists(&link->peer, false, NULL, 0, NULL, 0, 0);
    if (error != 0 && setting == LO_RENDEZVOUS_ON) {
        vipl_log_os(VIPL_LOG_ERROR, "VIPL_LOOPBACK_PULL=on, but the peer's memory cannot be read", error);
    }
    vipl_store_relaxed(&link->direct_access, error == 0 ? 1 : 0);
}

/* --- waking --- */

void vipl_lo_link_wake(struct lo_link *link)
{
    uint32_t waker_plus_one = vipl_load_acquire(&link->peer_waker_plus_one);
    if (waker_plus_one != 0) {
        vipl_shared_waker_signal((int)waker_plus_one - 1);
    } else { /* a failure is harmless: the socket is full, or hung up */
        vipl_local_send(link->source.fd, "!", 1, NULL, 0);
    }
}

/* Passes the peer a waker, if both ends have the link and the system has shared wakers. The peer
 * goes on waking by bytes if that fails. rx is held. */
static void pass_waker(struct lo_remote *remote, struct lo_link *link)
{
    if (link->passes_waker || !link->confirmed) {
        return;
    }
    int fd;
    link->passes_waker = true;
    if (vipl_shared_waker_open(&fd) != 0) {
        return;
    }
    bool passed = vipl_pollset_add_signals(&remote->set, fd, &link->waker) == 0;
    if (passed && vipl_local_send(link->source.fd, "!", 1, &fd, 1) != 0) {
        vipl_pollset_remove(&remote->set, fd);
        passed = false;
    }
    if (passed) {
        link->waker.fd = fd;
    } else {
        vipl_fd_close(fd);
    }
}

bool vipl_lo_link_reply(struct lo_link *link, const struct lo_message *message)
{
    vipl_biased_lock(&link->tx);
    if (vipl_lo_ring_claim(&link->out, 0, true) == NULL) {
        vipl_biased_unlock(&link->tx);
        return false;
    }
    lo_publish(link, message);
    return true;
}

/* --- hang-up and end; rx is held --- */

static void link_die(struct lo_remote *remote, struct lo_link *link)
{
    if (link->dead == 0) {
        lo_set_dead(link);
        vipl_pollset_remove(&remote->set, link->source.fd);
        vipl_log(VIPL_LOG_INFO, "process %d has gone", link->peer.pid);
    }
    vipl_lo_link_teardown(link);
}

/* Whether no session uses the dead link any more. */
static bool is_torn_down(const struct lo_link *link)
{
    for (uint32_t i = 0; i < link->session_slots; i++) {
        if (link->sessions[i] != NULL) {
            return false;
        }
    }
    return true;
}

/* Tells connecting of dead links. The registry's lock is held, rx is not. */
static void report_dead_links(struct lo_remote *remote)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->links.next; l != &remote->links;
         l = next) { /* links are removed under the registry's lock only */
        struct lo_link *link = VIPL_CONTAINER(l, struct lo_link, link);
        next = l->next;
        if (vipl_load_relaxed(&link->dead) != 0) {
            remote->connecting->link_gone(link);
        }
    }
}

/* Removes dead links that no session uses. The registry's lock is held: no new connection can begin
 * to use one. */
static void remove_dead_links_locked(struct lo_remote *remote)
{
    report_dead_links(remote);
    struct vipl_list *next;
    bool left = false;
    vipl_biased_lock(&remote->rx);
    for (struct vipl_list *l = remote->links.next; l != &remote->links; l = next) {
        struct lo_link *link = VIPL_CONTAINER(l, struct lo_link, link);
        next = l->next;
        if (link->dead != 0 && is_torn_down(link)) {
            vipl_list_remove(&link->link);
            vipl_store_relaxed(&remote->link_count, remote->link_count - 1);
            link_close(remote, link);
        } else {
            left |= link->dead != 0;
        }
    }
    vipl_store_relaxed(&remote->dead_links, left ? 1 : 0);
    vipl_biased_unlock(&remote->rx);
}

static void remove_dead_links(struct lo_remote *remote)
{
    if (vipl_load_relaxed(&remote->dead_links) != 0) {
        vipl_mutex_lock(&vipl_lo_registry.lock);
        remove_dead_links_locked(remote);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
    }
}

/* The peer has woken one thread, and has cleared the mark before. Others may still sleep. rx is
 * held. */
static void woken_by(struct lo_remote *remote, struct lo_link *link)
{
    if (remote->waiting_threads > 0 && vipl_lo_ring_mark_asleep(&link->in)) {
        (void)vipl_barrier_in_all();
    }
}

/* Handles an event of a link's socket. rx is held. */
static void link_event(struct lo_remote *remote, struct lo_link *link, bool hangup, bool all)
{
    if (!vipl_lo_control_receive(link, all)) {
        lo_set_dead(link); /* receive_links() tears the link down */
    }
    woken_by(remote, link);
    if (hangup) { /* receive_links() receives the last messages, and then tears the link down */
        link->hung_up = true;
        vipl_store_relaxed(&link->tx_ended, 1);
    }
}

/* --- progress --- */

/* Serves a link that is not quiet: sends what waits, or tears the link down. rx is held. */
static VIPL_NOINLINE void serve_link(struct lo_remote *remote, struct lo_link *link)
{
    if (link->dead == 0) {
        vipl_lo_link_resume(link);
    }
    bool starved = vipl_load_relaxed(&link->out.starved) != 0;
    if (starved && link->dead == 0) {
        vipl_log(VIPL_LOG_ERROR, "no memory for messages to process %d: cut", link->peer.pid);
    }
    if (link->dead != 0 || starved || (link->hung_up && vipl_lo_ring_is_empty(&link->in))) {
        link_die(remote, link);
        vipl_store_relaxed(&remote->dead_links, 1);
        vipl_store_relaxed(&remote->look_at_sockets, 1); /* the next poll removes dead links */
    }
}

static void receive_links_locked(struct lo_remote *remote)
{
    uint32_t quiet = 0;
    for (struct vipl_list *l = remote->links.next; l != &remote->links; l = l->next) {
        struct lo_link *link = VIPL_CONTAINER(l, struct lo_link, link);
        if (VIPL_LIKELY(link->dead == 0)) {
            vipl_lo_link_receive(link);
        }
        if (VIPL_LIKELY(vipl_lo_filter_add(&remote->be->poll_filter, quiet, link))) {
            quiet++;
        } else {
            serve_link(remote, link);
        }
    }
    vipl_lo_filter_commit(remote, quiet);
}

/* Receives from all links. Unless `certainly`, does nothing while another thread does so.
 * `certainly`: a peer has woken this thread for a message that the other thread may not have
 * seen. */
static void receive_links(struct lo_remote *remote, const struct vipl_be_nic *be, bool certainly)
{
    if (certainly) {
        vipl_biased_lock(&remote->rx);
    } else if (!vipl_biased_trylock_own(&remote->rx)) {
        return; /* another thread receives */
    }
    if (remote->be == be) {
        receive_links_locked(remote);
    }
    vipl_biased_unlock(&remote->rx);
}

void vipl_lo_remote_receive(struct lo_remote *remote, const struct vipl_be_nic *be)
{
    receive_links(remote, be, false);
}
/* What a read of the poll set has found. */
struct socket_events {
    bool sockets;  /* the sockets of connecting have something */
    bool controls; /* control messages wait to be handled */
    bool full;     /* there may be more events */
};

/* Reads the events of the links' sockets, under rx, so that no link is freed meanwhile. `all`: a
 * batch from each socket, not one message. */
static struct socket_events read_link_sockets(struct lo_remote *remote, bool all)
{
    struct vipl_ready ready[MAX_EVENTS];
    struct socket_events seen = {false, false, false};
    vipl_biased_lock(&remote->rx);
    unsigned n = vipl_pollset_ready(&remote->set, ready, MAX_EVENTS);
    seen.full = n == MAX_EVENTS;
    for (unsigned i = 0; i < n; i++) {
        struct lo_source *source = ready[i].tag;
        if (source->kind == LO_SOURCE_LINK) {
            link_event(remote, (struct lo_link *)(void *)source, ready[i].hangup, all);
        } else if (source->kind == LO_SOURCE_WAKER) {
            woken_by(remote, VIPL_CONTAINER(source, struct lo_link, waker));
        } else {
            seen.sockets = true;
        }
    }
    seen.controls = !vipl_list_empty(&remote->controls);
    vipl_biased_unlock(&remote->rx);
    return seen;
}

bool vipl_lo_links_read_sockets(struct lo_remote *remote)
{
    struct socket_events seen = {false, false, true};
    bool sockets = false;
    uint32_t most = vipl_load_relaxed(&remote->link_count) / MAX_EVENTS + 1;
    for (uint32_t i = 0; i < most && seen.full; i++) {
        seen = read_link_sockets(remote, true);
        sockets = sockets || seen.sockets;
    }
    /* a wake-up that was read may have been for another thread */
    receive_links(remote, remote->be, true);
    return sockets || seen.full;
}

/* Reads all sockets. Takes the registry's lock only if connecting has something to do. */
static void look_at_sockets(struct lo_remote *remote)
{
    struct socket_events seen = read_link_sockets(remote, false);
    if (seen.sockets || seen.controls || vipl_load_relaxed(&remote->timed) != 0) {
        remote->connecting->progress(remote, seen.sockets);
    }
    remove_dead_links(remote);
}

void vipl_lo_remote_poll(struct vipl_be_nic *be)
{
    struct lo_remote *remote = lo_remote_of(be);
    if (remote == NULL) {
        return;
    }
    bool look = vipl_load_relaxed(&remote->request_count) > 0 ||
                vipl_load_relaxed(&remote->look_at_sockets) != 0 || vipl_lo_filter_poll_is_due(be, remote);
    if (look) {
        vipl_store_relaxed(&remote->look_at_sockets, 0);
        look_at_sockets(remote);
    }
    if (vipl_load_relaxed(&remote->link_count) > 0) {
        receive_links(remote, be, look);
    }
}

/* Marks this process as asleep for all peers. Returns false if the system did not make the barrier
 * that a peer relies on: that peer may not see the mark. rx is held. */
static bool mark_asleep_locked(struct lo_remote *remote)
{
    bool barrier = false;
    for (struct vipl_list *l = remote->links.next; l != &remote->links; l = l->next) {
        barrier |= vipl_lo_ring_mark_asleep(&VIPL_CONTAINER(l, struct lo_link, link)->in);
    }
    return !barrier || vipl_barrier_in_all();
}

static bool link_has_work(struct lo_link *link)
{
    return link->dead != 0 || link->hung_up || vipl_load_relaxed(&link->out.starved) != 0 ||
           !vipl_lo_ring_is_empty(&link->in) || vipl_lo_link_has_room(link);
}

/* Prepares a sleep. Returns the most milliseconds to sleep; 0: there is work now; -1: no limit. */
static int prepare_links(struct lo_remote *remote)
{
    vipl_biased_lock(&remote->rx);
    remote->waiting_threads++;
    int ms = mark_asleep_locked(remote) ? -1 : 1;
    for (struct vipl_list *l = remote->links.next; l != &remote->links; l = l->next) {
        struct lo_link *link = VIPL_CONTAINER(l, struct lo_link, link);
        pass_waker(remote, link);
        ms = link_has_work(link) ? 0 : ms;
    }
    vipl_biased_unlock(&remote->rx);
    return ms;
}

void vipl_lo_remote_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    struct lo_remote *remote = lo_remote_of(be);
    *hint = (struct vipl_poll_hint){.fd = remote == NULL ? -1 : remote->set.fd, .ms = -1};
    if (remote == NULL) {
        return;
    }
    hint->ms = prepare_links(remote);
    if (hint->ms < 0 && vipl_load_relaxed(&remote->timed) != 0) {
        vipl_mutex_lock(&vipl_lo_registry.lock);
        hint->ms = remote->connecting->tick(remote);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
    }
}

void vipl_lo_remote_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    struct lo_remote *remote = lo_remote_of(be);
    if (hint->fd < 0) {
        return; /* there was no remote part at prepare_wait */
    }
    vipl_biased_lock(&remote->rx);
    if (--remote->waiting_threads == 0) {
        for (struct vipl_list *l = remote->links.next; l != &remote->links; l = l->next) {
            vipl_store_relaxed(&VIPL_CONTAINER(l, struct lo_link, link)->in.shared->asleep, 0);
        }
    }
    vipl_biased_unlock(&remote->rx);
    if (!hint->quiet || vipl_load_relaxed(&remote->timed) != 0) {
        vipl_store_relaxed(&remote->look_at_sockets, 1);
    }
    vipl_lo_filter_invalidate(be);
}

void vipl_lo_remote_close(struct vipl_be_nic *be)
{
    struct lo_remote *remote = lo_remote_of(be);
    if (remote == NULL) {
        return;
    }
    vipl_mutex_lock(&vipl_lo_registry.lock);
    remote->connecting->close(remote);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    struct vipl_list *l;
    while ((l = vipl_list_take(&remote->links)) != NULL) {
        link_close(remote, VIPL_CONTAINER(l, struct lo_link, link));
    }
    vipl_pollset_close(&remote->setup);
    vipl_pollset_close(&remote->set);
    vipl_store_ptr(&be->remote, NULL);
    remote_free(remote);
}
