/* SPDX-License-Identifier: MIT */
/* The beginning and end of sessions, and their sending side. */
#ifndef VIPL_LOOPBACK_TX_H
#define VIPL_LOOPBACK_TX_H

#include "backends/loopback/link.h"

/* --- beginning and end: the caller holds the registry's lock or none, unless stated --- */

/* Makes a session for a VI, which is not open yet. *opened is set when it opens; `opened` may be
 * NULL. NULL: no resources, or the link is dead. Takes rx and both queue locks of the VI. */

struct lo_session *vipl_lo_session_open(struct lo_link *link, struct vipl_vi *vi, uint32_t peer_number,
                                        const struct vipl_vi_params *params, uint32_t peer_tag, bool *opened);
/* Opens the session, because both ends have agreed. rx is held. */
void vipl_lo_session_begin_locked(struct lo_session *session);
/* Frees a session that did not open, without a message to the peer. */
void vipl_lo_session_forget(struct lo_session *session);
/* As vipl_backend.revoke: withdraws the session's permission for direct access and invalidates the
 * request slots of its pending sends. Both queue locks of the VI are held. */
void vipl_lo_session_revoke(struct vipl_be_nic *be, struct vipl_vi *vi);
/* As vipl_backend.is_answering. */
bool vipl_lo_session_is_answering(struct vipl_be_nic *be, struct vipl_vi *vi);
/* As vipl_backend.disconnect, for a VI that may have a session: waits for the peer's direct
 * accesses and sends CLOSE. */
void vipl_lo_session_end(struct vipl_be_nic *be, struct vipl_vi *vi);

/* --- sending: the caller holds the VI's send lock --- */

/* As vipl_backend.post_send. */
enum vipl_posted vipl_lo_session_send(struct vipl_vi *vi, struct lo_session *session, struct vipl_send *send);
/* As vipl_backend.send_short. */
bool vipl_lo_session_send_short(struct lo_session *session, const void *from, size_t bytes);

/* --- what waits for room in the ring: the caller holds rx, unless stated otherwise --- */

/* Whether something waits for room, and there is room. */
bool vipl_lo_link_has_room(struct lo_link *link);
/* Notes that something waits for room: the peer then wakes a sleeper of this process when it has
 * read from the ring. tx is held, rx need not be. */
void vipl_lo_link_want_room(struct lo_link *link);
/* Goes on, as far as there is room, with messages that are sent again, blocked sends and pending
 * closes. */
void vipl_lo_link_resume(struct lo_link *link);
/* Frees the sessions whose CLOSE was not sent, because the link is freed. */
void vipl_lo_link_free_closes(struct lo_link *link);
/* The peer cannot fetch a rendezvous send: begins to send that message again through the ring.
 * `alone`: the peer can fetch later ones; otherwise there are no more rendezvous sends on this
 * link. */
void vipl_lo_resend_begin(struct lo_link *link, uint32_t name, bool alone);

#endif
