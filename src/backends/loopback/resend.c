/* SPDX-License-Identifier: MIT */
/*
 * A message was offered to a peer that can no longer read our memory: one of the two has another user by now, say. The
 * receiver asks for it again, and it comes through the ring, as if it had been sent so. What had followed it already
 * is kept by the receiver meanwhile, session by session, so that the order stays; what would follow waits here.
 */
#include <string.h>

#include "backends/loopback/link.h"
#include "base/iov.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum { HELD_MOST = 16 << 20 }; /* bytes a link: a peer may go on sending as long as it likes */

/* --- the receiver. rx is held --- */

/* A message behind the one that is awaited. */
struct lo_held {
    struct vipl_list link; /* session->held */
    struct lo_message message;
    unsigned char payload[];
};

bool vipl_lo_ask_again(struct lo_session *session, const struct lo_message *m)
{
    struct lo_message message = {.type = LO_ACK,
                                 .flags = LO_FLAG_AGAIN,
                                 .ticket = m->ticket,
                                 .total =
                                     VIP_STATUS_TRANSPORT_ERROR}; /* to one that does not know the flag */
    session->awaited = m->ticket;
    return vipl_lo_link_reply(session->link, &message);
}

bool vipl_lo_is_held(const struct lo_session *session, const struct lo_message *m)
{
    bool follows = m->type != LO_CLOSE && m->type != LO_OPEN;
    return session->awaited != 0 && follows && !(m->type == LO_SEND && m->ticket == session->awaited);
}

bool vipl_lo_turn_away(struct lo_link *link, const struct lo_message *m)
{
    bool last = (m->flags & LO_FLAG_LAST) != 0 || m->type == LO_READ;
    struct lo_message message = {.type = LO_ACK, .ticket = m->ticket, .total = VIP_STATUS_TRANSPORT_ERROR};
    return (m->flags & LO_FLAG_ACK) == 0 || !last || vipl_lo_link_reply(link, &message);
}

bool vipl_lo_hold(struct lo_session *session, const struct lo_message *m, const unsigned char *payload)
{
    struct lo_link *link = session->link;
    size_t bytes = sizeof(struct lo_held) + m->bytes;
    struct lo_held *held = link->held_bytes + bytes > HELD_MOST ? NULL : vipl_alloc(bytes);
    if (held == NULL) {
        return false;
    }
    held->message = *m;
    memcpy(held->payload, payload, m->bytes);
    link->held_bytes += bytes;
    vipl_list_append(&session->held, &held->link);
    return true;
}

struct lo_held *vipl_lo_take_held(struct lo_session *session, const struct lo_message **m,
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

void vipl_lo_held_free(struct lo_held *held)
{
    vipl_free(held);
}

/* The peer gets its tickets back. */
void vipl_lo_drop_held(struct lo_session *session)
{
    const struct lo_message *m;
    const unsigned char *payload;
    struct lo_held *held;
    struct lo_message awaited = {
        .type = LO_PULL, .flags = LO_FLAG_ACK | LO_FLAG_LAST, .ticket = session->awaited};
    if (session->awaited != 0) {
        vipl_lo_turn_away(session->link, &awaited);
    }
    while ((held = vipl_lo_take_held(session, &m, &payload)) != NULL) {
        vipl_lo_turn_away(session->link, m);
        vipl_lo_held_free(held);
    }
}

/* --- the sender. rx is held --- */

static void hold_back(struct lo_session *session, bool back)
{
    vipl_up_send_lock(session->vi);
    session->tx_held = back;
    vipl_up_send_unlock(session->vi);
}

void vipl_lo_resend_begin(struct lo_link *link, uint32_t name)
{
    struct lo_ticket *ticket = &link->tickets[lo_ticket_number(name)];
    vipl_mutex_lock(&link->tx);
    struct lo_session *session = ticket->busy && ticket->offered ? ticket->session : NULL;
    if (session != NULL && !ticket->resending) {
        ticket->resending = true;
        ticket->resent = 0;
        link->resending = true;
    }
    vipl_mutex_unlock(&link->tx);
    if (session != NULL) {
        vipl_log(VIPL_LOG_INFO, "process %d cannot read our memory any more", link->pid);
        vipl_store_relaxed(&link->peer_can_reach, 0);
        hold_back(session, true);
    }
}

/* One that is to be sent again; NULL: none is left. */
static struct lo_ticket *next_resend(struct lo_link *link, struct lo_session **session)
{
    struct lo_ticket *found = NULL;
    vipl_mutex_lock(&link->tx);
    for (unsigned i = 0; i < LO_TICKETS && found == NULL; i++) {
        struct lo_ticket *ticket = &link->tickets[i];
        bool live = ticket->busy && ticket->session != NULL; /* else the send was flushed */
        found = ticket->resending && live ? ticket : NULL;
        ticket->resending = ticket->resending && live;
    }
    *session = found == NULL ? NULL : found->session;
    link->resending = found != NULL;
    vipl_mutex_unlock(&link->tx);
    return found;
}

/* One more chunk; all in one and empty, if the send is not valid, or its memory is found not to be there now. False: no
 * room in the ring. */
static bool put_chunk(struct lo_session *session, struct lo_ticket *ticket, const struct vipl_send *send,
                      bool *valid)
{
    struct lo_link *link = session->link;
    vipl_mutex_lock(&link->tx);
    if (ticket->session != session || !ticket->resending) {
        vipl_mutex_unlock(&link->tx); /* flushed just now */
        return true;
    }
    uint32_t offset = *valid ? ticket->resent : 0;
    uint32_t total = *valid ? (uint32_t)send->local.bytes : 0;
    uint32_t left = total - offset;
    uint32_t bytes = vipl_lo_ring_room(&link->out, left < LO_MAX_CHUNK ? left : LO_MAX_CHUNK);
    unsigned char *payload = bytes == 0 && left > 0 ? NULL : vipl_lo_ring_claim(&link->out, bytes, false);
    if (payload == NULL) {
        vipl_store_ordered(&link->out.shared->wanting, 1); /* pairs with vipl_lo_ring_release */
        vipl_mutex_unlock(&link->tx);
        return false;
    }
    if (*valid && !vipl_iov_gather(payload, &send->local, offset, bytes)) {
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
        .ticket = ticket->name,
        .immediate = immediate ? send->immediate_data : 0,
        .total = total,
        .offset = offset,
    };
    ticket->resent = offset + bytes;
    if (bytes == left) {
        ticket->resending = false;
        session->tx_held = false;
    }
    lo_publish(link, &message);
    return true;
}

bool vipl_lo_resend(struct lo_link *link)
{
    struct lo_session *session;
    struct vipl_send send;
    struct lo_ticket *ticket = next_resend(link, &session);
    if (ticket == NULL) {
        return true;
    }
    uint32_t sequence =
        ticket->sequence; /* under rx no other send gets the ticket, as only an answer frees it */
    vipl_up_send_lock(session->vi);
    bool valid = vipl_up_pending_send(session->vi, sequence, &send) && send.local.bytes == ticket->bytes;
    bool room = put_chunk(session, ticket, &send, &valid);
    vipl_up_send_unlock(session->vi);
    if (!valid && room) {
        vipl_up_send_done(session->vi, sequence, VIP_STATUS_PROTECTION_ERROR, 0);
    }
    return room;
}
