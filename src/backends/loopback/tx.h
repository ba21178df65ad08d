/* SPDX-License-Identifier: MIT */
/* Sessions: their beginning and end, and their sending side. */
#ifndef VIPL_LOOPBACK_TX_H
#define VIPL_LOOPBACK_TX_H

#include "backends/loopback/link.h"

/* --- beginning and end; the registry's lock or nothing is held unless it says otherwise --- */

struct lo_session *vipl_lo_session_open(struct lo_link *link, struct vipl_vi *vi, uint32_t peer_number,
                                        const struct vipl_vi_params *params, uint32_t peer_tag, bool *opened);
void vipl_lo_session_begin_locked(struct lo_session *session); /* both ends have agreed; rx is held */
/* Takes back a session that came to nothing. */
void vipl_lo_session_forget(struct lo_session *session);
/* As vipl_backend.revoke: withdraws the session's permission for direct access and invalidates the
 * request slots of its pending sends. Both queue locks of the VI are held. */
void vipl_lo_session_revoke(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_lo_session_end(struct vipl_be_nic *be, struct vipl_vi *vi);

/* --- sending: the VI's send lock is held --- */

enum vipl_posted vipl_lo_session_send(struct vipl_vi *vi, struct lo_session *session, struct vipl_send *send);
/* As vipl_backend.send_short. */
bool vipl_lo_session_send_short(struct lo_session *session, const void *from, size_t bytes);

/* --- what is not in the ring yet; rx is held --- */

bool vipl_lo_link_has_room(struct lo_link *link); /* for something that waits for room */
/* Something has to wait: the peer wakes a sleeper of this process when it has read. tx is held. */
void vipl_lo_link_want_room(struct lo_link *link);
/* There may be room: goes on with sends, messages that are sent again, and ends of sessions. */
void vipl_lo_link_resume(struct lo_link *link);
void vipl_lo_link_free_closes(struct lo_link *link);
/* The peer asks for a message that it cannot fetch: it is sent again, through the ring. `alone`: later ones may be fetched. */
void vipl_lo_resend_begin(struct lo_link *link, uint32_t name, bool alone);

#endif
