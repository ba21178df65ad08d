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
    bool joins = joining_count < most;
    if (joins) {
        enter_locked(conn);
        conn->joins = true;
        vipl_store_relaxed(&joining_count, joining_count + 1);
    }
    vipl_mutex_unlock(&list_lock);
    return joins;
}

static struct sock_conn *conn_of(struct vipl_list *link)
{
    return VIPL_CONTAINER(link, struct sock_conn, link);
}

unsigned sock_pending_joining(struct sock_conn *conns[SOCK_MOST_JOINING])
{
    unsigned count = 0;
    if (vipl_load_relaxed(&joining_count) == 0) {
        return 0;
    }
    vipl_mutex_lock(&list_lock);
    for (struct vipl_list *l = handshakes.next; l != &handshakes && count < SOCK_MOST_JOINING; l = l->next) {
        if (conn_of(l)->joins && sock_file_get_used(&conn_of(l)->file)) {
            conns[count++] = conn_of(l);
        }
    }
    vipl_mutex_unlock(&list_lock);
    return count;
}

/* Takes references to the first connections, which are the last ones from now on. Returns their
 * number. */
static unsigned take_turns(struct sock_conn *conns[SOCK_LOOKED_AT])
{
    unsigned count = 0;
    vipl_mutex_lock(&list_lock);
    struct vipl_list *last = handshakes.prev;
    struct vipl_list *l = &handshakes;
    while (l != last && count < SOCK_LOOKED_AT) {
        l = handshakes.next;
        enter_locked(conn_of(l));
        if (sock_file_get_used(&conn_of(l)->file)) {
            conns[count++] = conn_of(l);
        }
    }
    vipl_mutex_unlock(&list_lock);
    return count;
}

static unsigned call_each(void (*each)(struct sock_conn *conn, void *arg), void *arg)
{
    struct sock_conn *some[SOCK_LOOKED_AT];
    unsigned count = take_turns(some);
    for (unsigned i = 0; i < count; i++) {
        each(some[i], arg);
        sock_conn_put(some[i]);
    }
    return count;
}

void sock_handshakes_each(void (*each)(struct sock_conn *conn, void *arg), void *arg)
{
    (void)call_each(each, arg);
}

static unsigned count_rounds(void)
{
    unsigned count = 0;
    vipl_mutex_lock(&list_lock);
    for (const struct vipl_list *l = handshakes.next; l != &handshakes; l = l->next) {
        count++;
    }
    vipl_mutex_unlock(&list_lock);
    return count / SOCK_LOOKED_AT + 1;
}

void sock_handshakes_all(void (*each)(struct sock_conn *conn, void *arg), void *arg)
{
    unsigned rounds = count_rounds();
    while (rounds > 0 && call_each(each, arg) == SOCK_LOOKED_AT) {
        rounds--;
    }
}

void sock_handshake_forked(void)
{
    vipl_mutex_init(&list_lock, VIPL_RANK_SOCK_LIST);
    vipl_list_init(&handshakes);
    vipl_store_relaxed(&joining_count, 0);
}
