/* SPDX-License-Identifier: MIT */
/*
 * The receiving side of sessions: handles the messages that come out of a link's ring. Runs under
 * the NIC's rx lock, in any thread that makes progress. The ring has copied and checked the head of
 * each message; session numbers, request slots, offsets and addresses are checked here. A peer that
 * breaks the rules loses the link.
 */
#include "backends/loopback/rx.h"

#include <errno.h>
#include <string.h>

#include "backends/loopback/pieces.h"
#include "backends/loopback/tx.h"
#include "base/iov.h"
#include "base/log.h"
#include "base/peer_copy.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum {
    MAX_BATCH = 256,
    HELD_MAX = 16 << 20 /* bytes of held messages per link, because a peer may go on sending */
};

/* Reports that the session's connection is lost, once. rx is held. */
static void fail_session(struct lo_session *session)
{
    if (!session->broken) {
        session->broken = true;
        vipl_up_fail(session->vi, VIP_ERROR_CONN_LOST);
    }
}

void vipl_lo_link_teardown(struct lo_link *link)
{
    for (uint32_t i = 0; i < link->session_slots; i++) {
        if (link->sessions[i] != NULL && link->sessions[i]->open) {
            fail_session(link->sessions[i]);
        }
    }
}

/* --- replies --- */

/* Sends the reply for a request slot. There is always room: the peer has at most LO_REQUEST_SLOTS
 * outstanding requests. */
static bool send_ack(struct lo_link *link, uint32_t slot, uint32_t status)
{
    struct lo_message message = {.type = LO_ACK, .slot = slot, .total = status};
    return vipl_lo_link_reply(link, &message);
}

/* Refuses a message by a reply, if the peer wants one for it. */
static bool refuse_message(struct lo_link *link, const struct lo_message *m)
{
    bool last = (m->flags & LO_FLAG_LAST) != 0 || m->type == LO_READ;
    return (m->flags & LO_FLAG_ACK) == 0 || !last || send_ack(link, m->slot, VIP_STATUS_TRANSPORT_ERROR);
}

/* --- messages that are sent again --- */

/*
 * The system may not allow this process to fetch a rendezvous send: one of the two processes has
 * become another user, or the message lies in memory that no other process can read. The peer is
 * then asked to send the message again, through the ring. Messages of that session that follow are
 * held meanwhile, so that the order is kept.
 */

/* A message that came behind the awaited one. */
struct lo_held {
    struct vipl_list link; /* session->held */
    struct lo_message message;
    unsigned char payload[];
};

/* Asks the peer to send a rendezvous send again. `alone`: later ones may be fetched. A peer that
 * does not know the flag completes the send with the status. */
static bool request_resend(struct lo_session *session, const struct lo_message *m, bool alone)
{
    struct lo_message message = {.type = LO_ACK,
                                 .flags = LO_FLAG_AGAIN | (alone ? LO_FLAG_ALONE : 0),
                                 .slot = m->slot,
                                 .total = VIP_STATUS_TRANSPORT_ERROR};
    session->awaited = m->slot;
    return vipl_lo_link_reply(session->link, &message);
}

static bool is_held(const struct lo_session *session, const struct lo_message *m)
{
    bool follows = m->type != LO_CLOSE && m->type != LO_OPEN;
    return session->awaited != 0 && follows && !(m->type == LO_SEND && m->slot == session->awaited);
}

static bool queue_held(struct lo_session *session, const struct lo_message *m, const unsigned char *payload)
{
    struct lo_link *link = session->link;
    size_t bytes = sizeof(struct lo_held) + m->bytes;
    struct lo_held *held = link->held_bytes + bytes > HELD_MAX ? NULL : vipl_alloc(bytes);
    if (held == NULL) {
        return false;
    }
    held->message = *m;
    memcpy(held->payload, payload, m->bytes);
    link->held_bytes += bytes;
    vipl_list_append(&session->held, &held->link);
    return true;
}

static struct lo_held *take_held(struct lo_session *session, const struct lo_message **m,
                                 const unsigned char **payload)
{
    struct vipl_list *l = vipl_list_take(&session->held);
    if (l == NULL) {
        return NULL;
    }
    struct lo_held *held = VIPL_CONTAINER(l, struct lo_held, link);
    session->link->held_bytes -= sizeof(*held) + held->message.bytes;
    *m = &held->message;
    *payload = held->payload;
    return held;
}

void vipl_lo_drop_held(struct lo_session *session)
{
    const struct lo_message *m;
    const unsigned char *payload;
    struct lo_held *held;
    struct lo_message awaited = {
        .type = LO_RENDEZVOUS, .flags = LO_FLAG_ACK | LO_FLAG_LAST, .slot = session->awaited};
    if (session->awaited != 0) {
        refuse_message(session->link, &awaited);
    }
    while ((held = take_held(session, &m, &payload)) != NULL) {
        refuse_message(session->link, m);
        vipl_free(held);
    }
}

/* --- request slots --- */

static bool generation_is_current(const struct lo_link *link, uint32_t slot)
{
    uint32_t number = lo_slot_number(slot);
    return lo_slot_name(number, vipl_load_ordered(&link->in.shared->generations[number])) == slot;
}

/* A reply has come for a request slot: returns the VI whose send it stands for, and frees the slot
 * if `last`. NULL: that send was flushed. */
static struct vipl_vi *complete_slot(struct lo_link *link, uint32_t name, bool last, uint32_t *sequence,
                                     uint32_t *bytes)
{
    struct lo_request_slot *slot = &link->request_slots[lo_slot_number(name)];
    struct vipl_vi *vi = NULL;
    vipl_biased_lock(&link->tx);
    if (slot->busy) {
        vi = slot->session == NULL ? NULL : slot->session->vi;
        *sequence = slot->sequence;
        *bytes = slot->bytes;
        if (last) {
            slot->busy = false;
            slot->session = NULL;
            link->free_slots++;
        }
    }
    vipl_biased_unlock(&link->tx);
    return vi;
}

/* The peer refuses the rest of a message of which only a part is in the ring. Such a send is not
 * pending yet. */
static void refuse_partial_send(struct vipl_vi *vi, uint32_t slot, uint32_t status)
{
    vipl_up_send_lock(vi);
    struct lo_session *session = lo_vi_of(vi)->session;
    bool half = session != NULL && session->tx_offset > 0 && session->tx_slot == slot;
    if (half) {
        session->tx_refusal = status;
    }
    vipl_up_send_unlock(vi);
    if (half) {
        vipl_up_send_resume(vi);
    }
}

static void on_ack(struct lo_link *link, const struct lo_message *m)
{
    uint32_t sequence;
    uint32_t bytes;
    uint32_t status = m->total & VIP_STATUS_ERROR_MASK;
    if ((m->flags & LO_FLAG_AGAIN) != 0) {
        vipl_lo_resend_begin(link, m->slot, (m->flags & LO_FLAG_ALONE) != 0);
        return;
    }
    struct vipl_vi *vi = complete_slot(link, m->slot, true, &sequence, &bytes);
    if (vi == NULL) {
        return;
    }
    if (status != 0) {
        refuse_partial_send(vi, m->slot, status);
    }
    vipl_up_send_done(vi, sequence, status, bytes);
}

/* --- messages --- */

/* Cuts the list to its first `bytes`. */
static void trim_list(struct vipl_sg *sg, size_t bytes)
{
    unsigned i = 0;
    for (size_t left = bytes; left > 0; i++) {
        if (sg->iov[i].len > left) {
            sg->iov[i].len = left;
        }
        left -= sg->iov[i].len;
    }
    sg->count = i;
    sg->bytes = bytes;
}

static const uint32_t *immediate_of(const struct lo_message *m)
{
    return (m->flags & LO_FLAG_IMMEDIATE) != 0 ? &m->immediate : NULL;
}

static bool chunk_is_valid(const struct lo_message *m, uint32_t bytes)
{
    bool last = (m->flags & LO_FLAG_LAST) != 0;
    return m->offset <= m->total && bytes <= m->total - m->offset && last == (m->offset + bytes == m->total);
}

/* Returns the status for the sender, who learns only at Reliable Reception that the receiver had no
 * usable receive. */
static uint32_t status_for_sender(const struct lo_session *s, uint32_t status)
{
    bool reception = s->params.reliability == VIP_SERVICE_RELIABLE_RECEPTION;
    return !reception && status == VIP_STATUS_REMOTE_DESC_ERROR ? 0 : status;
}

/* Sends the reply for a message, if the sender wants one: when the message is complete, or at
 * Reliable Reception as soon as it is refused, so that the sender gets the status before the loss
 * of the connection. */
static void ack_send(struct lo_session *s, const struct lo_message *m, bool was_refused)
{
    bool reception = s->params.reliability == VIP_SERVICE_RELIABLE_RECEPTION;
    bool over = (m->flags & LO_FLAG_LAST) != 0 || (reception && s->rx_status != 0);
    bool answered = reception && was_refused;
    if ((m->flags & LO_FLAG_ACK) != 0 && over && !answered) {
        send_ack(s->link, m->slot, status_for_sender(s, s->rx_status));
    }
}

/* Copies a chunk into the receive. A message that is sent again is copied with checks: this
 * process's memory for it may be what is not there. */
static bool scatter_chunk(const struct lo_session *s, const struct lo_message *m, const struct vipl_sg *to,
                          const unsigned char *payload)
{
    bool comes_again = m->slot != 0 && m->slot == s->awaited;
    return comes_again ? vipl_iov_scatter_checked(to, m->offset, payload, m->bytes)
                       : vipl_iov_scatter(to, m->offset, payload, m->bytes);
}

static void place_chunk(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    struct vipl_sg to;
    if (vipl_up_recv_claim(s->vi, m->total, &to) != VIPL_CLAIM_OK) {
        s->rx_dropping = true;
    } else if (!scatter_chunk(s, m, &to, payload)) {
        vipl_up_recv_finish(s->vi, VIP_STATUS_PROTECTION_ERROR, 0, false, NULL);
        s->rx_dropping = true;
    } else if ((m->flags & LO_FLAG_LAST) != 0) {
        vipl_up_recv_finish(s->vi, 0, m->total, false, immediate_of(m));
    }
    s->rx_status = s->rx_dropping ? VIP_STATUS_REMOTE_DESC_ERROR : 0;
}

/* Handles a chunk of a message. The receive is claimed again for each chunk, as it is the oldest
 * until it is finished. */
static void on_send(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    vipl_up_recv_lock(s->vi);
    if (m->offset == 0) {
        s->rx_dropping = (m->flags & LO_FLAG_AGAIN) != 0; /* the message cannot be sent again */
        s->rx_status = 0;
    }
    bool was_refused = s->rx_status != 0;
    if (!s->rx_dropping) {
        place_chunk(s, m, payload);
    }
    vipl_up_recv_unlock(s->vi);
    ack_send(s, m, was_refused);
}

/* Copies from memory that both processes have mapped, or by a system call. Returns 0 or an errno
 * value. */
static int copy_pieces(struct lo_link *link, const struct lo_message *m, const unsigned char *payload,
                       const struct vipl_sg *to, struct vipl_sg *from)
{
    if (vipl_lo_pieces_map(link, m, payload, from)) {
        return vipl_iov_copy(to, from) == VIPL_IOV_DONE ? 0 : EFAULT;
    }
    return vipl_peer_copy_lists(&link->peer, false, to->iov, to->count, from->iov, from->count, m->total);
}

/* Fetches a rendezvous send, and returns its status. *again is an errno value if the message cannot
 * be fetched and has to be sent again, else 0. EFAULT: the memory of the sender cannot be read by
 * other processes, or memory of one of the two is not there; the ring finds out which. */
static uint32_t fetch_message(struct lo_session *s, const struct lo_message *m, const unsigned char *payload,
                              struct vipl_sg *from, int *again)
{
    struct vipl_sg to;
    *again = 0;
    if (vipl_up_recv_claim(s->vi, m->total, &to) != VIPL_CLAIM_OK) {
        return VIP_STATUS_REMOTE_DESC_ERROR;
    }
    trim_list(&to, m->total);
    int error = copy_pieces(s->link, m, payload, &to, from);
    if (!generation_is_current(s->link, m->slot)) {
        return 0; /* the send was flushed meanwhile: the bytes may be anything */
    }
    if (error != 0) {
        *again = error;
        if (error != EFAULT && vipl_exchange(&s->link->direct_access, 0) != 0) {
            vipl_log(VIPL_LOG_INFO, "the memory of process %d cannot be read any more", s->link->peer.pid);
        }
        return 0;
    }
    vipl_up_recv_finish(s->vi, 0, m->total, false, immediate_of(m));
    return 0;
}

static bool on_rendezvous(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    struct vipl_sg from;
    from.iov = lo_remote_of(s->link->be)->pieces;
    if (!vipl_lo_pieces_read(m, payload, &from)) {
        return false;
    }
    vipl_up_recv_lock(s->vi);
    int again;
    uint32_t status = fetch_message(s, m, payload, &from, &again);
    vipl_up_recv_unlock(s->vi);
    if (again != 0) {
        return request_resend(s, m, again == EFAULT);
    }
    return send_ack(s->link, m->slot, status_for_sender(s, status));
}

/* --- RDMA of a peer without direct access --- */

struct target {
    uint64_t address;
    uint32_t handle;
};

static struct target rdma_target_of(const unsigned char *payload)
{
    struct target t;
    memcpy(&t.address, payload, 8);
    memcpy(&t.handle, payload + 8, 4);
    return t;
}

static void complete_write(struct lo_session *s, const struct lo_message *m)
{
    const uint32_t *immediate = immediate_of(m);
    if (immediate == NULL || s->rx_status != 0) {
        return;
    }
    if (vipl_up_recv_claim(s->vi, 0, NULL) == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(s->vi, 0, m->total, true, immediate);
    } else {
        s->rx_status = VIP_STATUS_REMOTE_DESC_ERROR;
    }
}

static bool on_write(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    bool placed = (m->flags & LO_FLAG_PLACED) != 0;
    uint32_t bytes = m->bytes < LO_RDMA_PREFIX ? 0 : m->bytes - LO_RDMA_PREFIX;
    if (m->bytes < LO_RDMA_PREFIX || (placed ? bytes != 0 : !chunk_is_valid(m, bytes))) {
        return false;
    }
    struct target t = rdma_target_of(payload);
    vipl_up_recv_lock(s->vi);
    if (m->offset == 0) {
        s->rx_status = 0;
    }
    bool was_refused = s->rx_status != 0;
    /* The whole range is checked for each chunk, because the region may end between two chunks. */
    if (!placed && s->rx_status == 0 && !vipl_up_rdma_allowed(s->vi, true, t.handle, t.address, m->total)) {
        s->rx_status = VIP_STATUS_RDMA_PROT_ERROR;
    }
    if (!placed && s->rx_status == 0 && bytes > 0) {
        if (vipl_iov_ordered_piece((unsigned char *)(uintptr_t)t.address + m->offset,
                                   payload + LO_RDMA_PREFIX, bytes) != VIPL_IOV_DONE) {
            vipl_up_rdma_refuse(s->vi, true);
            s->rx_status = VIP_STATUS_RDMA_PROT_ERROR;
        }
    }
    if ((m->flags & LO_FLAG_LAST) != 0) {
        complete_write(s, m);
    }
    vipl_up_recv_unlock(s->vi);
    bool reliable = s->params.reliability != VIP_SERVICE_UNRELIABLE;
    if (reliable && was_refused) {
        return true; /* the sender has been told */
    }
    bool answers = (m->flags & LO_FLAG_LAST) != 0 || (reliable && s->rx_status != 0);
    return !answers || send_ack(s->link, m->slot, status_for_sender(s, s->rx_status));
}

static bool on_read(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    struct lo_link *link = s->link;
    if (m->bytes != LO_RDMA_PREFIX || link->reads_count == LO_REQUEST_SLOTS) {
        return false;
    }
    struct target t = rdma_target_of(payload);
    vipl_up_recv_lock(s->vi);
    bool allowed = vipl_up_rdma_allowed(s->vi, false, t.handle, t.address, m->total);
    vipl_up_recv_unlock(s->vi);
    if (!allowed || m->total == 0) {
        return send_ack(link, m->slot, allowed ? 0 : VIP_STATUS_RDMA_PROT_ERROR);
    }
    struct lo_read *read = &link->reads[(link->reads_first + link->reads_count++) % LO_REQUEST_SLOTS];
    read->session = s->number;
    read->slot = m->slot;
    read->handle = t.handle;
    read->total = m->total;
    read->offset = 0;
    read->address = t.address;
    vipl_store_relaxed(&s->reads, s->reads + 1); /* before the program sees any later message */
    return true;
}

static struct lo_session *find_session(struct lo_link *link, uint32_t number)
{
    uint32_t slot = number >> LO_GENERATION_BITS;
    struct lo_session *s = slot < link->session_slots ? link->sessions[slot] : NULL;
    return s != NULL && s->number == number ? s : NULL;
}

/* Sends one more chunk of an RDMA Read. Returns false if there is no room in the ring, or memory is
 * not there (!*accessible). The VI's receive lock is held. */
static bool put_read_data(struct lo_link *link, struct lo_read *read, bool *accessible)
{
    uint32_t left = read->total - read->offset;
    vipl_biased_lock(&link->tx);
    uint32_t bytes = vipl_lo_ring_room(&link->out, left < LO_MAX_CHUNK ? left : LO_MAX_CHUNK);
    unsigned char *payload = bytes == 0 ? NULL : vipl_lo_ring_claim(&link->out, bytes, false);
    *accessible = payload == NULL ||
                  vipl_iov_bytes(payload, (const char *)(uintptr_t)read->address + read->offset, bytes);
    if (payload == NULL || !*accessible) {
        if (payload == NULL) {
            vipl_lo_link_want_room(link);
        }
        vipl_biased_unlock(&link->tx);
        return false;
    }
    struct lo_message message = {
        .type = LO_DATA,
        .flags = bytes == left ? LO_FLAG_LAST : 0,
        .bytes = bytes,
        .slot = read->slot,
        .total = read->total,
        .offset = read->offset,
    };
    read->offset += bytes;
    lo_publish(link, &message);
    return true;
}

/* Goes on with the oldest RDMA Read. Returns false if it has to wait for room. */
static bool serve_read(struct lo_link *link)
{
    struct lo_read *read = &link->reads[link->reads_first];
    struct lo_session *s = find_session(link, read->session);
    bool over = s == NULL;
    if (s != NULL) {
        vipl_up_recv_lock(s->vi);
        bool allowed = vipl_up_rdma_allowed(s->vi, false, read->handle, read->address, read->total);
        bool there = true;
        bool moved = allowed && put_read_data(link, read, &there);
        if (!there) {
            vipl_up_rdma_refuse(s->vi, false);
            allowed = false;
        }
        vipl_up_recv_unlock(s->vi);
        if (allowed && !moved) {
            return false;
        }
        if (!allowed) {
            send_ack(link, read->slot, VIP_STATUS_RDMA_PROT_ERROR);
        }
        over = !allowed || read->offset == read->total;
    }
    if (over) {
        link->reads_first = (link->reads_first + 1) % LO_REQUEST_SLOTS;
        link->reads_count--;
    }
    if (over && s != NULL) {
        vipl_store_relaxed(&s->reads, s->reads - 1);
        if (s->reads == 0) {
            vipl_up_answered(s->vi);
        }
    }
    return true;
}

static void on_data(struct lo_link *link, const struct lo_message *m, const unsigned char *payload)
{
    bool last = (m->flags & LO_FLAG_LAST) != 0;
    struct vipl_sg to;
    uint32_t sequence;
    uint32_t bytes;
    struct vipl_vi *vi = complete_slot(link, m->slot, last, &sequence, &bytes);
    if (vi == NULL) {
        return;
    }
    vipl_up_send_lock(vi);
    bool valid = vipl_up_read_target(vi, sequence, &to) && m->total == to.bytes;
    valid = valid && vipl_iov_scatter(&to, m->offset, payload, m->bytes);
    vipl_up_send_unlock(vi);
    if (last || !valid) {
        vipl_up_send_done(vi, sequence, valid ? 0 : VIP_STATUS_PROTECTION_ERROR, bytes);
    }
}

/* --- the ring --- */

static void on_open(struct lo_session *s, const struct lo_message *m)
{
    if (s->open || m->total == 0) {
        return;
    }
    s->peer_number = m->total;
    vipl_store_relaxed(&s->link->peer_direct_access, m->immediate != 0);
    vipl_lo_session_begin_locked(s);
    if (!vipl_up_connected(s->vi, &s->params)) {
        fail_session(s);
    }
}

/* The requester has taken up an acceptance that this process had given up: ends the requester's
 * connection. */
static bool refuse_open(struct lo_link *link, const struct lo_message *m)
{
    struct lo_message message = {.type = LO_CLOSE, .session = m->total};
    return vipl_lo_link_reply(link, &message);
}

/* Holds a message until the awaited one has come. If it cannot be held, the connection ends, and
 * all further messages are refused. */
static bool hold_message(struct lo_session *s, const struct lo_message *m, const unsigned char *payload)
{
    if (!s->broken && queue_held(s, m, payload)) {
        return true;
    }
    if (!s->broken) {
        vipl_log(VIPL_LOG_ERROR, "process %d sent too much behind a message that it sends again",
                 s->link->peer.pid);
    }
    fail_session(s);
    return refuse_message(s->link, m);
}

static bool dispatch(struct lo_link *link, const struct lo_message *m, const unsigned char *payload);

/* The awaited message has come, or will not come: handles those that were held, up to the next one
 * that has to be sent again. */
static bool dispatch_held(struct lo_session *s)
{
    const struct lo_message *m;
    const unsigned char *payload;
    struct lo_held *held;
    bool valid = true;
    s->awaited = 0;
    while (valid && s->awaited == 0 && (held = take_held(s, &m, &payload)) != NULL) {
        valid = dispatch(s->link, m, payload);
        vipl_free(held);
    }
    return valid;
}

/* The fast path: a message of one chunk, without immediate data, that wants no reply, into a
 * receive of one piece. Returns false, without effect, if it is not that. */
static inline bool take_short(struct lo_link *link, const struct lo_message *m, const unsigned char *payload)
{
    if (m->type != LO_SEND || m->flags != LO_FLAG_LAST || m->offset != 0 || m->bytes != m->total) {
        return false;
    }
    struct lo_session *s = find_session(link, m->session);
    if (s == NULL || !s->open || s->awaited != 0) {
        return false;
    }
    return vipl_up_recv_take(s->vi, payload, m->bytes);
}

/* Handles a message. Returns false if the peer breaks the rules. */
static VIPL_NOINLINE bool dispatch(struct lo_link *link, const struct lo_message *m,
                                   const unsigned char *payload)
{
    if (m->type == LO_ACK) {
        on_ack(link, m);
        return true;
    }
    if (m->type == LO_DATA) {
        bool valid = chunk_is_valid(m, m->bytes);
        if (valid) {
            on_data(link, m, payload);
        }
        return valid;
    }
    struct lo_session *s = find_session(link, m->session);
    if (s == NULL && m->type == LO_OPEN) {
        return refuse_open(link, m);
    }
    if (s == NULL || (!s->open && m->type != LO_OPEN && m->type != LO_CLOSE)) {
        return refuse_message(link, m);
    }
    if (is_held(s, m)) {
        return hold_message(s, m, payload);
    }
    switch (m->type) {
    case LO_OPEN:
        on_open(s, m);
        return true;
    case LO_SEND:
        if (!chunk_is_valid(m, m->bytes)) {
            return false;
        }
        on_send(s, m, payload);
        return m->slot == 0 || m->slot != s->awaited || (m->flags & LO_FLAG_LAST) == 0 || dispatch_held(s);
    case LO_RENDEZVOUS:
        return on_rendezvous(s, m, payload);
    case LO_WRITE:
        return on_write(s, m, payload);
    case LO_READ:
        return on_read(s, m, payload);
    case LO_CLOSE:
        fail_session(s);
        return true;
    default:
        return false;
    }
}

void vipl_lo_link_receive(struct lo_link *link)
{
    struct lo_message message;
    const unsigned char *payload;
    enum lo_peek peek = LO_PEEK_EMPTY;
    unsigned n = 0;
    while (n < MAX_BATCH && (peek = vipl_lo_ring_peek(&link->in, &message, &payload)) == LO_PEEK_OK) {
        bool valid = take_short(link, &message, payload) || dispatch(link, &message, payload);
        vipl_lo_ring_pop(&link->in, &message);
        n++;
        if (!valid) {
            peek = LO_PEEK_BROKEN;
            break;
        }
    }
    if (peek == LO_PEEK_BROKEN) {
        vipl_log(VIPL_LOG_ERROR, "process %d breaks the rules of the link: cut", link->peer.pid);
        lo_set_dead(link);
        return;
    }
    if (n > 0 && vipl_lo_ring_release(&link->in, peek == LO_PEEK_EMPTY)) {
        vipl_lo_link_wake(link);
    }
    while (link->reads_count > 0 && serve_read(link)) {
    }
}
