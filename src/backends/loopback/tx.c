/* SPDX-License-Identifier: MIT */
/*
 * The beginning and end of sessions, and their sending side: a VI's sends go into its link's ring.
 * RDMA accesses the peer's memory directly where that is possible. Sending runs under the VI's send
 * lock.
 */
#include "backends/loopback/tx.h"

#include <errno.h>
#include <string.h>

#include "backends/loopback/direct.h"
#include "backends/loopback/pieces.h"
#include "backends/loopback/poll_filter.h"
#include "backends/loopback/rx.h"
#include "base/iov.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum {
    MAX_BATCH = 256,
    MIN_ROOM = VIPL_MAX_SEGMENTS * LO_PIECE +
               LO_MAPPABLE_BYTES, /* the largest payload that is not cut into chunks */
};

/* --- making and ending a session: the caller holds the registry's lock or none --- */

/* Finds a free slot of the table, which grows if need be. Returns false if there is none. rx is
 * held. */
static bool find_session_slot(struct lo_link *link, uint32_t *slot)
{
    for (*slot = link->first_free; *slot < link->session_slots; ++*slot) {
        if (link->sessions[*slot] == NULL) {
            return true;
        }
    }
    uint32_t slots = link->session_slots == 0 ? 16 : link->session_slots * 2;
    struct lo_session **table = vipl_zalloc(slots * sizeof(struct lo_session *));
    if (table == NULL || slots > 1u << (32 - LO_GENERATION_BITS)) {
        vipl_free(table);
        return false;
    }
    if (link->sessions != NULL) {
        memcpy(table, link->sessions, link->session_slots * sizeof(struct lo_session *));
    }
    vipl_free(link->sessions);
    link->sessions = table;
    link->session_slots = slots;
    return true;
}

/* Returns the access word of the session in that slot. NULL: the session gets no direct access. rx
 * is held. */
static uint32_t *take_access_epoch(struct lo_link *link, uint32_t slot)
{
    struct lo_accesses *ours = &link->segment->accesses[link->side];
    if (link->exports.base == NULL || slot >= LO_ACCESSES) {
        return NULL;
    }
    if (slot >= link->access_epochs) {
        link->access_epochs = slot + 1;
        /* before the first access; pairs with exports.c */
        vipl_store_ordered(&ours->used, slot + 1);
    }
    uint32_t *word = lo_access_epoch(ours, slot);
    vipl_store_release(word, 0);
    return word;
}

static void set_session(struct vipl_vi *vi, struct lo_session *session)
{
    vipl_up_send_lock(vi);
    vipl_up_recv_lock(vi);
    lo_vi_of(vi)->session = session;
    vipl_up_recv_unlock(vi);
    vipl_up_send_unlock(vi);
}

struct lo_session *vipl_lo_session_open(struct lo_link *link, struct vipl_vi *vi, uint32_t peer_number,
                                        const struct vipl_vi_params *params, uint32_t peer_tag, bool *opened)
{
    struct lo_session *session = vipl_zalloc(sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    uint32_t slot;
    vipl_list_init(&session->blocked);
    vipl_list_init(&session->held);
    session->link = link;
    session->vi = vi;
    session->peer_number = peer_number;
    session->params = *params;
    session->peer_tag = peer_tag;
    session->opened = opened;
    vipl_biased_lock(&lo_remote_of(link->be)->rx);
    bool room = link->dead == 0 && find_session_slot(link, &slot);
    if (room) {
        /* The generation is never 0, so that the number is never 0. */
        uint32_t generation = link->sessions_opened++ % ((1u << LO_GENERATION_BITS) - 1) + 1;
        session->number = slot << LO_GENERATION_BITS | generation;
        session->access = take_access_epoch(link, slot);
        link->sessions[slot] = session;
        link->first_free = slot + 1;
    }
    vipl_biased_unlock(&lo_remote_of(link->be)->rx);
    if (!room) {
        vipl_free(session);
        return NULL;
    }
    set_session(vi, session);
    return session;
}

/* The peer has set up its end of the link: lets it make the barriers from now on, if it does.
 * Returns whether it does. */
static bool rely_on_barriers(struct lo_link *link)
{
    bool relies = false;
    if (link->makes_barriers) {
        vipl_biased_lock(&link->tx);
        relies = vipl_lo_ring_rely(&link->out);
        vipl_biased_unlock(&link->tx);
    }
    return relies;
}

void vipl_lo_session_begin_locked(struct lo_session *session)
{
    struct vipl_vi_params own;
    session->open = true;
    session->link->confirmed = true;
    session->peer_makes_barriers = rely_on_barriers(session->link);
    session->peer_permission =
        lo_permission(session->link->segment, 1 - session->link->side, session->peer_number);
    if (session->opened != NULL) {
        *session->opened = true;
        session->opened = NULL;
    }
    /* RDMA without direct access is served by this process, even if the program makes no call. */
    vipl_up_vi_params(session->vi, &own);
    if (own.rdma_write || own.rdma_read) {
        struct lo_link *link = session->link;
        uint32_t *word = lo_permission(link->segment, link->side, session->number);
        /* pairs with direct.c */
        session->has_permission = vipl_compare_exchange(word, 0, session->number);
        vipl_up_need_service(session->link->be->core);
    }
}

/* Withdraws the permission: the peer begins no further direct access by this session. One may be
 * going on. */
static void revoke_permission(const struct lo_session *session)
{
    struct lo_link *link = session->link;
    if (session->has_permission) {
        vipl_compare_exchange(lo_permission(link->segment, link->side, session->number), session->number,
                              0); /* pairs with direct.c */
    }
}

static void clear_request_slots(struct lo_session *session)
{
    struct lo_link *link = session->link;
    for (uint32_t i = 0; i < LO_REQUEST_SLOTS; i++) {
        if (link->request_slots[i].session == session) {
            link->request_slots[i].session =
                NULL; /* the slot stays busy until the peer's reply, which finds no session */
            vipl_store_ordered(&link->out.shared->generations[i],
                               vipl_load_relaxed(&link->out.shared->generations[i]) + 1);
        }
    }
}

/* --- waiting for room; tx is held --- */

static bool ring_has_room(struct lo_link *link)
{
    return vipl_lo_ring_room(&link->out, LO_MAX_CHUNK) >= MIN_ROOM;
}

void vipl_lo_link_want_room(struct lo_link *link)
{
    vipl_store_relaxed(&link->waiting, 1);
    vipl_lo_filter_invalidate(link->be);
    vipl_store_ordered(&link->out.shared->wanting, 1); /* pairs with vipl_lo_ring_release */
    if (link->free_slots > 0 && ring_has_room(link)) {
        /* the peer has read everything meanwhile, and has not seen the mark */
        vipl_up_wake(link->be->core);
    }
}

/* --- the end of a session --- */

/* Sends CLOSE for ended sessions, as far as there is room, and frees them. rx is held. */
static void send_pending_closes(struct lo_link *link)
{
    bool wake = false;
    vipl_biased_lock(&link->tx);
    while (!vipl_list_empty(&link->pending_closes) && vipl_lo_ring_claim(&link->out, 0, true) != NULL) {
        struct lo_session *s =
            VIPL_CONTAINER(vipl_list_take(&link->pending_closes), struct lo_session, blocked);
        struct lo_message message = {.type = LO_CLOSE, .session = s->peer_number};
        wake |= vipl_lo_ring_publish(&link->out, &message);
        vipl_free(s);
    }
    vipl_store_relaxed(&link->waiting, !vipl_list_empty(&link->blocked));
    if (!vipl_list_empty(&link->pending_closes)) {
        vipl_lo_link_want_room(link);
    }
    vipl_biased_unlock(&link->tx);
    if (wake) {
        vipl_lo_link_wake(link);
    }
}

/* Sends CLOSE, now or when there is room, and then frees the session. The link may be freed
 * afterwards. */
static void close_session(struct lo_session *session)
{
    struct lo_link *link = session->link;
    struct lo_remote *remote = lo_remote_of(link->be);
    vipl_biased_lock(&remote->rx); /* keeps the link from being freed */
    bool silent = link->dead != 0 || session->peer_number == 0;
    vipl_lo_drop_held(session);
    uint32_t slot = session->number >> LO_GENERATION_BITS;
    link->sessions[slot] = NULL;
    link->first_free = slot < link->first_free ? slot : link->first_free;
    vipl_biased_lock(&link->tx);
    clear_request_slots(session);
    revoke_permission(session);
    vipl_list_remove(&session->blocked);
    if (!silent) {
        vipl_list_append(&link->pending_closes, &session->blocked);
    }
    vipl_biased_unlock(&link->tx);
    if (silent) {
        vipl_free(session);
    } else {
        send_pending_closes(link);
    }
    vipl_biased_unlock(&remote->rx);
}

void vipl_lo_session_forget(struct lo_session *session)
{
    set_session(session->vi, NULL);
    session->peer_number = 0;
    close_session(session);
}

void vipl_lo_session_end(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    vipl_up_send_lock(vi);
    vipl_up_recv_lock(vi);
    struct lo_session *session = lo_vi_of(vi)->session;
    lo_vi_of(vi)->session = NULL;
    vipl_up_recv_unlock(vi);
    vipl_up_send_unlock(vi);
    if (session != NULL) {
        revoke_permission(session);
        if (session->has_permission) {
            vipl_lo_session_drain_accesses(session);
        }
        close_session(session);
    }
}

bool vipl_lo_session_is_answering(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    const struct lo_session *session = lo_vi_of(vi)->session;
    (void)be;
    return session != NULL && vipl_load_relaxed(&session->reads) != 0;
}

void vipl_lo_session_revoke(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct lo_session *session = lo_vi_of(vi)->session;
    (void)be;
    if (session != NULL) {
        revoke_permission(session);
        vipl_biased_lock(&session->link->tx);
        clear_request_slots(session);
        vipl_biased_unlock(&session->link->tx);
    }
}

void vipl_lo_link_free_closes(struct lo_link *link)
{
    struct vipl_list *l;
    while ((l = vipl_list_take(&link->pending_closes)) != NULL) {
        vipl_free(VIPL_CONTAINER(l, struct lo_session, blocked));
    }
}

/* --- request slots; tx is held --- */

static uint32_t take_request_slot(struct lo_session *session, const struct vipl_send *send)
{
    struct lo_link *link = session->link;
    for (uint32_t n = 0; n < LO_REQUEST_SLOTS; n++) {
        uint32_t i = (link->next_slot + n) % LO_REQUEST_SLOTS;
        struct lo_request_slot *slot = &link->request_slots[i];
        if (!slot->busy) {
            link->next_slot = i + 1;
            slot->busy = true;
            slot->rendezvous = slot->resending = false;
            link->free_slots--;
            slot->session = session;
            slot->sequence = send->sequence;
            slot->bytes = (uint32_t)send->local.bytes;
            uint32_t generation = vipl_load_relaxed(&link->out.shared->generations[i]);
            slot->name = lo_slot_name(i, generation);
            return slot->name;
        }
    }
    return 0;
}

/* --- waiting for room --- */

/* There is no room: the next thread that makes progress on the link and finds room resumes the VI.
 * The send lock is held. */
static enum vipl_posted block_session(struct lo_session *session)
{
    struct lo_link *link = session->link;
    vipl_biased_lock(&link->tx);
    if (vipl_list_empty(&session->blocked)) {
        vipl_list_append(&link->blocked, &session->blocked);
    }
    vipl_lo_link_want_room(link);
    vipl_biased_unlock(&link->tx);
    return VIPL_POSTED_AGAIN;
}

bool vipl_lo_link_has_room(struct lo_link *link)
{
    vipl_biased_lock(&link->tx);
    bool blocked = !vipl_list_empty(&link->blocked) && link->free_slots > 0;
    bool wanted =
        blocked || link->reads_count > 0 || link->resending || !vipl_list_empty(&link->pending_closes);
    /* marks first: the peer may have cleared the last mark and made less room than is needed */
    if (wanted) {
        vipl_store_ordered(&link->out.shared->wanting, 1);
    }
    bool room = wanted && ring_has_room(link);
    vipl_biased_unlock(&link->tx);
    return room;
}

/* --- sending --- */

static bool wants_reply(const struct vipl_send *send)
{
    return send->op != VIP_CONTROL_OP_SENDRECV || send->reliability == VIP_SERVICE_RELIABLE_RECEPTION;
}

static void put_remote_address(unsigned char *to, const struct vipl_send *send)
{
    memcpy(to, &send->remote_address, 8);
    memcpy(to + 8, &send->remote_handle, 4);
    memset(to + 12, 0, 4);
}

/* Frees the request slot of a send that ends without its last chunk: no reply comes. tx is held. */
static void free_slot(struct lo_session *session)
{
    struct lo_request_slot *slot = &session->link->request_slots[lo_slot_number(session->tx_slot)];
    if (session->tx_slot != 0 && slot->session == session) {
        slot->busy = false;
        slot->session = NULL;
        session->link->free_slots++;
    }
}

/* Returns how many of the remaining bytes go into the next chunk, behind a prefix: as many as fit,
 * but a short rest is not cut. */
static uint32_t chunk_bytes(struct lo_link *link, uint32_t left, uint32_t prefix)
{
    if (left <= LO_RING_SLOT) {
        return left;
    }
    uint32_t room =
        vipl_lo_ring_room(&link->out, left + prefix < LO_MAX_CHUNK ? left + prefix : LO_MAX_CHUNK);
    return room < prefix + LO_RING_SLOT ? left : room - prefix < left ? room - prefix : left;
}

/* Sends one more chunk of the oldest send. Returns false if there is no room, or memory is not
 * there (!*accessible). */
static bool put_chunk(struct lo_session *session, const struct vipl_send *send, uint32_t flags,
                      bool *accessible)
{
    struct lo_link *link = session->link;
    bool rdma = send->op == VIP_CONTROL_OP_RDMAWRITE;
    uint32_t prefix = rdma ? LO_RDMA_PREFIX : 0;
    bool placed = (flags & LO_FLAG_PLACED) != 0;
    uint32_t left = placed ? 0 : (uint32_t)send->local.bytes - session->tx_offset;
    bool first = session->tx_offset == 0;
    vipl_biased_lock(&link->tx);
    uint32_t bytes = chunk_bytes(link, left, prefix);
    unsigned char *payload =
        bytes > LO_MAX_CHUNK ? NULL : vipl_lo_ring_claim(&link->out, bytes + prefix, false);
    *accessible =
        payload == NULL || vipl_iov_gather(payload + prefix, &send->local, session->tx_offset, bytes);
    if (!*accessible) {
        payload = NULL;
        if (!first && wants_reply(send)) {
            free_slot(session);
        }
    } else if (payload != NULL && first && wants_reply(send)) {
        session->tx_slot = take_request_slot(session, send);
        payload = session->tx_slot == 0 ? NULL : payload;
    }
    if (payload == NULL) {
        vipl_biased_unlock(&link->tx);
        return false;
    }
    if (rdma) {
        put_remote_address(payload, send);
    }
    struct lo_message message = {
        .type = rdma ? LO_WRITE : LO_SEND,
        .flags = (uint8_t)(flags | (bytes == left ? LO_FLAG_LAST : 0) |
                           (send->immediate ? LO_FLAG_IMMEDIATE : 0) | (wants_reply(send) ? LO_FLAG_ACK : 0)),
        .session = session->peer_number,
        .bytes = bytes + prefix,
        .slot = session->tx_slot,
        .immediate = send->immediate_data,
        .total = (uint32_t)send->local.bytes,
        .offset = session->tx_offset,
    };
    session->tx_offset += bytes;
    lo_publish(link, &message);
    return true;
}

static enum vipl_posted send_through_ring(struct lo_session *session, struct vipl_send *send, uint32_t flags)
{
    if (session->tx_refusal != 0) {
        send->status = session->tx_refusal;
        session->tx_refusal = 0;
        session->tx_offset = 0;
        return VIPL_POSTED_DONE;
    }
    if (session->tx_held) { /* the message that is sent again goes first */
        return block_session(session);
    }
    do {
        bool there;
        if (!put_chunk(session, send, flags, &there)) {
            if (there) {
                return block_session(session);
            }
            session->tx_offset = 0;
            send->status = VIP_STATUS_PROTECTION_ERROR;
            return VIPL_POSTED_DONE;
        }
    } while ((flags & LO_FLAG_PLACED) == 0 && session->tx_offset < send->local.bytes);
    session->tx_offset = 0;
    send->status = 0;
    return wants_reply(send) ? VIPL_POSTED_PENDING : VIPL_POSTED_DONE;
}

/* Makes a rendezvous send: the receiver fetches the message. */
static enum vipl_posted send_rendezvous(struct lo_session *session, struct vipl_send *send,
                                        const struct lo_pieces *pieces)
{
    struct lo_link *link = session->link;
    uint32_t bytes = vipl_lo_pieces_bytes(pieces);
    vipl_biased_lock(&link->tx);
    unsigned char *payload = vipl_lo_ring_claim(&link->out, bytes, false);
    uint32_t slot = payload == NULL ? 0 : take_request_slot(session, send);
    if (slot == 0) {
        vipl_biased_unlock(&link->tx);
        return block_session(session);
    }
    vipl_lo_pieces_put(payload, pieces);
    link->request_slots[lo_slot_number(slot)].rendezvous = true;
    struct lo_message message = {
        .type = LO_RENDEZVOUS,
        .flags = (uint8_t)(LO_FLAG_LAST | LO_FLAG_ACK | (send->immediate ? LO_FLAG_IMMEDIATE : 0) |
                           (pieces->are_mappable ? LO_FLAG_MAPPABLE : 0)),
        .session = session->peer_number,
        .bytes = bytes,
        .slot = slot,
        .immediate = send->immediate_data,
        .total = (uint32_t)send->local.bytes,
    };
    lo_publish(link, &message);
    return VIPL_POSTED_PENDING;
}

static enum vipl_posted request_read(struct lo_session *session, struct vipl_send *send)
{
    struct lo_link *link = session->link;
    vipl_biased_lock(&link->tx);
    unsigned char *payload = vipl_lo_ring_claim(&link->out, LO_RDMA_PREFIX, false);
    uint32_t slot = payload == NULL ? 0 : take_request_slot(session, send);
    if (slot == 0) {
        vipl_biased_unlock(&link->tx);
        return block_session(session);
    }
    put_remote_address(payload, send);
    struct lo_message message = {
        .type = LO_READ,
        .flags = LO_FLAG_ACK,
        .session = session->peer_number,
        .bytes = LO_RDMA_PREFIX,
        .slot = slot,
        .total = (uint32_t)send->local.bytes,
    };
    lo_publish(link, &message);
    return VIPL_POSTED_PENDING;
}

static enum vipl_posted send_rdma(struct lo_session *session, struct vipl_send *send)
{
    bool write = send->op == VIP_CONTROL_OP_RDMAWRITE;
    if (session->tx_offset == 0 && send->local.bytes > 0 &&
        vipl_lo_direct_may(session, write, send->remote_address)) {
        if (send->has_outstanding) {
            return VIPL_POSTED_AGAIN; /* core posts it again when the earlier ones are complete */
        }
        if (vipl_lo_direct_access(session, send)) {
            send->status = 0;
            return send->immediate ? send_through_ring(session, send, LO_FLAG_PLACED) : VIPL_POSTED_DONE;
        }
    }
    return send->op == VIP_CONTROL_OP_RDMAREAD ? request_read(session, send)
                                               : send_through_ring(session, send, 0);
}

/* The fast path: a message of one chunk and one piece that wants no reply, while no earlier send
 * waits. Returns false, without effect, if it is not that or there is no room. */
static inline bool put_short(struct lo_session *session, const void *from, uint32_t bytes,
                             const uint32_t *immediate)
{
    struct lo_link *link = session->link;
    if (session->tx_refusal != 0 || session->tx_held || session->tx_offset != 0) {
        return false;
    }
    vipl_biased_lock_own(&link->tx);
    unsigned char *payload = vipl_lo_ring_claim(&link->out, bytes, false);
    if (payload == NULL) {
        vipl_biased_unlock(&link->tx);
        return false;
    }
    memcpy(payload, from, bytes);
    struct lo_message message = {
        .type = LO_SEND,
        .flags = (uint8_t)(LO_FLAG_LAST | (immediate != NULL ? LO_FLAG_IMMEDIATE : 0)),
        .session = session->peer_number,
        .bytes = bytes,
        .slot = 0,
        .immediate = immediate != NULL ? *immediate : 0,
        .total = bytes,
    };
    lo_publish(link, &message);
    return true;
}

/* Whether the peer may map the memory: for that number of bytes fetching is then faster than two
 * copies. */
static VIPL_NOINLINE bool is_mappable(const void *from, size_t bytes)
{
    struct vipl_mappable mappable;
    vipl_shm_find_mappable(from, bytes, &mappable);
    return mappable.descriptor != 0;
}

VIPL_NOINLINE bool vipl_lo_session_send_short(struct lo_session *session, const void *from, size_t bytes)
{
    struct lo_link *link = session->link;
    return lo_may_send(link) && bytes <= link->be->settings_inline &&
           (VIPL_LIKELY(bytes <= link->be->settings_inline_mappable) || !is_mappable(from, bytes)) &&
           put_short(session, from, (uint32_t)bytes, NULL);
}

/* Whether to make a rendezvous send, as far as size and memory decide. */
static bool is_for_rendezvous(const struct vipl_be_nic *be, const struct vipl_send *send,
                              struct lo_pieces *pieces)
{
    if (send->local.bytes <= be->settings_inline_mappable) {
        return false;
    }
    vipl_lo_pieces_find(pieces, &send->local);
    return pieces->are_mappable || send->local.bytes > be->settings_inline;
}

enum vipl_posted vipl_lo_session_send(struct vipl_vi *vi, struct lo_session *session, struct vipl_send *send)
{
    (void)vi;
    if (VIPL_UNLIKELY(!lo_may_send(session->link))) {
        return VIPL_POSTED_AGAIN; /* the connection has ended; core flushes the send */
    }
    if (send->op != VIP_CONTROL_OP_SENDRECV) {
        return send_rdma(session, send);
    }
    struct lo_pieces pieces;
    bool large = is_for_rendezvous(session->link->be, send, &pieces);
    if (!large && send->local.count == 1 && !wants_reply(send) && !vipl_iov_is_safe() &&
        put_short(session, send->local.iov[0].base, (uint32_t)send->local.bytes,
                  send->immediate ? &send->immediate_data : NULL)) {
        send->status = 0;
        return VIPL_POSTED_DONE;
    }
    if (large && session->tx_offset == 0 && vipl_load_relaxed(&session->link->peer_direct_access) != 0) {
        return send_rendezvous(session, send, &pieces);
    }
    return send_through_ring(session, send, 0);
}

/* --- messages that are sent again --- */

/*
 * A rendezvous send that the peer cannot fetch is sent again through the ring. Later sends of the
 * session wait meanwhile. The kernel copies the message, because its memory may not be there. rx is
 * held.
 */

static void set_tx_held(struct lo_session *session, bool back)
{
    vipl_up_send_lock(session->vi);
    session->tx_held = back;
    vipl_up_send_unlock(session->vi);
}

void vipl_lo_resend_begin(struct lo_link *link, uint32_t name, bool alone)
{
    struct lo_request_slot *slot = &link->request_slots[lo_slot_number(name)];
    vipl_biased_lock(&link->tx);
    struct lo_session *session = slot->busy && slot->rendezvous ? slot->session : NULL;
    if (session != NULL && !slot->resending) {
        slot->resending = true;
        slot->resent = 0;
        link->resending = true;
    }
    vipl_biased_unlock(&link->tx);
    if (session != NULL && !alone) {
        vipl_log(VIPL_LOG_INFO, "process %d cannot read our memory any more", link->peer.pid);
        vipl_store_relaxed(&link->peer_direct_access, 0);
    }
    if (session != NULL) {
        set_tx_held(session, true);
    }
}

/* Returns the next request slot whose message is to be sent again. NULL: there is none. */
static struct lo_request_slot *next_resend(struct lo_link *link, struct lo_session **session)
{
    struct lo_request_slot *found = NULL;
    vipl_biased_lock(&link->tx);
    for (unsigned i = 0; i < LO_REQUEST_SLOTS && found == NULL; i++) {
        struct lo_request_slot *slot = &link->request_slots[i];
        bool live = slot->busy && slot->session != NULL; /* else the send was flushed */
        found = slot->resending && live ? slot : NULL;
        slot->resending = slot->resending && live;
    }
    *session = found == NULL ? NULL : found->session;
    link->resending = found != NULL;
    vipl_biased_unlock(&link->tx);
    return found;
}

/* Sends one more chunk of a message that is sent again. If the send is not valid, or its memory
 * turns out not to be there (!*valid), sends one empty chunk with AGAIN. Returns false if there is
 * no room. */
static bool put_resent_chunk(struct lo_session *session, struct lo_request_slot *slot,
                             const struct vipl_send *send, bool *valid)
{
    struct lo_link *link = session->link;
    vipl_biased_lock(&link->tx);
    if (slot->session != session || !slot->resending) {
        vipl_biased_unlock(&link->tx); /* the send was flushed meanwhile */
        return true;
    }
    uint32_t offset = *valid ? slot->resent : 0;
    uint32_t total = *valid ? (uint32_t)send->local.bytes : 0;
    uint32_t left = total - offset;
    uint32_t bytes = vipl_lo_ring_room(&link->out, left < LO_MAX_CHUNK ? left : LO_MAX_CHUNK);
    unsigned char *payload = bytes == 0 && left > 0 ? NULL : vipl_lo_ring_claim(&link->out, bytes, false);
    if (payload == NULL) {
        vipl_lo_link_want_room(link);
        vipl_biased_unlock(&link->tx);
        return false;
    }
    if (*valid && !vipl_iov_gather_checked(payload, &send->local, offset, bytes)) {
        *valid = false;
        offset = total = left = bytes = 0;
    }
    bool immediate = *valid && send->immediate;
    struct lo_message message = {
        .type = LO_SEND,
        .flags = (uint8_t)(LO_FLAG_ACK | (bytes == left ? LO_FLAG_LAST : 0) |
                           (immediate ? LO_FLAG_IMMEDIATE : 0) | (*valid ? 0 : LO_FLAG_AGAIN)),
        .session = session->peer_number,
        .bytes = bytes,
        .slot = slot->name,
        .immediate = immediate ? send->immediate_data : 0,
        .total = total,
        .offset = offset,
    };
    slot->resent = offset + bytes;
    if (bytes == left) {
        slot->resending = false;
        session->tx_held = false;
    }
    lo_publish(link, &message);
    return true;
}

/* Sends one more chunk of a message that is to be sent again. Returns false if there is no room. */
static bool resend_next(struct lo_link *link)
{
    struct lo_session *session;
    struct vipl_send send;
    struct lo_request_slot *slot = next_resend(link, &session);
    if (slot == NULL) {
        return true;
    }
    uint32_t sequence = slot->sequence; /* constant under rx: only a reply frees the slot */
    vipl_up_send_lock(session->vi);
    bool valid = vipl_up_pending_send(session->vi, sequence, &send) && send.local.bytes == slot->bytes;
    bool room = put_resent_chunk(session, slot, &send, &valid);
    vipl_up_send_unlock(session->vi);
    if (!valid && room) {
        vipl_up_send_done(session->vi, sequence, VIP_STATUS_PROTECTION_ERROR, 0);
    }
    return room;
}

/* --- progress of what waits for room: rx is held --- */

static struct lo_session *next_blocked(struct lo_link *link)
{
    vipl_biased_lock(&link->tx);
    struct vipl_list *l = NULL;
    if (link->free_slots > 0 && ring_has_room(link)) {
        l = vipl_list_take(&link->blocked);
    }
    vipl_biased_unlock(&link->tx);
    return l == NULL ? NULL : VIPL_CONTAINER(l, struct lo_session, blocked);
}

void vipl_lo_link_resume(struct lo_link *link)
{
    struct lo_session *s;
    while (link->resending && resend_next(link)) {
    }
    if (vipl_load_relaxed(&link->waiting) == 0) {
        return;
    }
    for (unsigned n = 0; n < MAX_BATCH && (s = next_blocked(link)) != NULL; n++) {
        vipl_up_send_resume(s->vi);
    }
    send_pending_closes(link);
}
