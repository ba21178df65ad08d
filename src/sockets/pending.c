/* SPDX-License-Identifier: MIT */
/* The list of the connections whose handshake has begun. */
#include "base/lock_rank.h"
#include "sockets/handshake.h"

static struct vipl_mutex list_lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_LIST);
static struct vipl_list handshakes = {&handshakes, &handshakes}; /* sock_conn.link; guarded by list_lock */
static uint32_t joining_count; /* atomic: VIs that are being connected; written under list_lock */

static void enter_locked(struct sock_conn *conn)
{
    vipl_list_remove(&conn->link);
    vipl_list_append(&handshakes, &conn->link);
}

void sock_pending_enter(struct sock_conn *conn)
{
    vipl_mutex_lock(&list_lock);
    enter_locked(conn);
    vipl_mutex_unlock(&list_lock);
}

void sock_pending_leave(struct sock_conn *conn)
{
    vipl_mutex_lock(&list_lock);
    vipl_list_remove(&conn->link);
    vipl_store_relaxed(&joining_count, joining_count - (conn->joins ? 1 : 0));
    conn->joins = false;
    vipl_mutex_unlock(&list_lock);
}

bool sock_pending_join(struct sock_conn *conn, uint32_t most)
{
    vipl_mutex_lock(&list_lock);
    enter_locked(conn);
    conn->joins = joining_count < most;
    vipl_store_relaxed(&joining_count, joining_count + (conn->joins ? 1 : 0));
    bool joins = conn->joins;
    vipl_mutex_unlock(&list_lock);
    return joins;
}

/* Takes references to at most `most` connections; `joins`: of those whose VIs are being connected.
 * Returns their number. */
static unsigned list_some(struct sock_conn **some, unsigned most, bool joins)
{
    unsigned count = 0;
    vipl_mutex_lock(&list_lock);
    for (struct vipl_list *l = handshakes.next; l != &handshakes && count < most; l = l->next) {
        struct sock_conn *conn = VIPL_CONTAINER(l, struct sock_conn, link);
        if ((!joins || conn->joins) && sock_file_get_used(&conn->file)) {
            some[count++] = conn;
        }
    }
    vipl_mutex_unlock(&list_lock);
    return count;
}

unsigned sock_pending_joining(struct sock_conn *conns[SOCK_MOST_JOINING])
{
    return vipl_load_relaxed(&joining_count) == 0 ? 0 : list_some(conns, SOCK_MOST_JOINING, true);
}

void sock_handshakes_each(void (*each)(struct sock_conn *conn, void *arg), void *arg)
{
    struct sock_conn *some[SOCK_LOOKED_AT];
    unsigned count = list_some(some, SOCK_LOOKED_AT, false);
    for (unsigned i = 0; i < count; i++) {
        each(some[i], arg);
        sock_conn_put(some[i]);
    }
}

void sock_handshake_forked(void)
{
    vipl_mutex_init(&list_lock, VIPL_RANK_SOCK_LIST);
    vipl_list_init(&handshakes);
    vipl_store_relaxed(&joining_count, 0);
}
