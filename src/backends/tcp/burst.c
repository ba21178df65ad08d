/* SPDX-License-Identifier: MIT */
/* What leaves together. */
#include "backends/tcp/burst.h"

#include <assert.h>
#include <errno.h>

#include "backends/tcp/conn.h"
#include "os/os_atomic.h"

enum { TELL = 64 /* sends, by one call */ };

_Static_assert((TCP_BURST_SENDS & (TCP_BURST_SENDS - 1)) == 0, "running numbers wrap");
_Static_assert(TCP_BURST_BYTES <= UINT16_MAX, "ends are 16 bits");

static bool has_room(const struct tcp_burst *burst, size_t bytes)
{
    return bytes <= TCP_BURST_BYTES - burst->bytes && burst->sends - burst->told < TCP_BURST_SENDS;
}

/* The spare one, or one more. */
static struct tcp_burst *new_burst(struct tcp_nic *nic)
{
    struct tcp_burst *burst = vipl_load_ptr(&nic->spare_burst);
    if (burst == NULL || !vipl_compare_exchange_ptr(&nic->spare_burst, burst, NULL)) {
        burst = vipl_alloc(sizeof(*burst));
    }
    if (burst != NULL) {
        burst->bytes = burst->left = 0;
        burst->sends = burst->gone = burst->told = 0;
        burst->answer = false;
    }
    return burst;
}

static void drop_burst(struct tcp_nic *nic, struct tcp_burst *burst)
{
    if (!vipl_compare_exchange_ptr(&nic->spare_burst, NULL, burst)) {
        vipl_free(burst);
    }
}

bool vipl_tcp_burst_has_room(struct tcp_conn *conn, size_t bytes)
{
    struct tcp_sending *tx = &conn->tx;
    if (tx->burst == NULL) {
        tx->burst = new_burst(conn->nic);
        if (tx->burst == NULL) {
            return false;
        }
    }
    return has_room(tx->burst, bytes) || (vipl_tcp_burst_flush(conn) && has_room(tx->burst, bytes));
}

bool vipl_tcp_burst_add(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count)
{
    struct tcp_burst *burst = conn->tx.burst;
    size_t at = burst->bytes;
    for (unsigned i = 0; i < count; i++) {
        if (!vipl_iov_bytes(burst->data + at, pieces[i].base, pieces[i].len)) {
            return false;
        }
        at += pieces[i].len;
    }
    burst->bytes = at;
    return true;
}

/* What is in `data` has left, so its bytes end there at 0: with those that leave next. */
void vipl_tcp_burst_stay(struct tcp_conn *conn, const struct vipl_send *send)
{
    assert(!vipl_tcp_burst_is_unsent(conn->tx.burst));
    conn->tx.stays = true;
    if (send != NULL) {
        vipl_tcp_burst_end_send(conn, send);
    }
}

void vipl_tcp_burst_end_send(struct tcp_conn *conn, const struct vipl_send *send)
{
    struct tcp_burst *burst = conn->tx.burst;
    burst->send[burst->sends++ % TCP_BURST_SENDS] =
        (struct tcp_burst_send){send->sequence, (uint16_t)burst->bytes, (uint16_t)send->local.bytes};
}

/* The system has taken some bytes more. */
static void count_gone(struct tcp_burst *burst)
{
    while (burst->gone != burst->sends && burst->send[burst->gone % TCP_BURST_SENDS].end <= burst->left) {
        burst->gone++;
    }
    if (burst->left == burst->bytes) {
        burst->left = burst->bytes = 0;
    }
}

void vipl_tcp_burst_pushed(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    if (tx->stays) {
        tx->stays = false;
        count_gone(tx->burst);
    }
}

/* What the system has, it sends. */
static void push(struct tcp_conn *conn)
{
    if (conn->tx.stays) {
        vipl_socket_push(conn->fd);
        vipl_tcp_burst_pushed(conn);
    }
}

/* `more`: something follows at once, and the system may keep this until then; only if no send ends in it. */
static bool flush(struct tcp_conn *conn, bool more)
{
    struct tcp_sending *tx = &conn->tx;
    struct tcp_burst *burst = tx->burst;
    if (!vipl_tcp_burst_is_unsent(burst)) {
        return true;
    }
    if (tx->closed) { /* the connection is about to fail, and the sends are flushed */
        push(conn);
        burst->bytes = burst->left = 0;
        burst->sends = burst->gone;
        return false;
    }
    size_t sent = 0;
    struct vipl_iov rest = {burst->data + burst->left, burst->bytes - burst->left};
    vipl_tcp_note_activity(conn->nic);
    int error = vipl_socket_send(conn->fd, &rest, 1, more, &sent);
    tx->closed |=
        error != 0 && error != EAGAIN; /* the receiving side meets the error too, and the VI fails there */
    burst->left += sent;
    burst->answer = false;
    if (sent > 0) { /* what is sent without a word of more pushes what came before */
        tx->stays = more;
    }
    if (!tx->stays) {
        count_gone(burst);
    } else if (more &&
               burst->left == burst->bytes) { /* no send ends in it, so nothing is to be counted later */
        burst->left = burst->bytes = 0;
    }
    return burst->bytes == 0;
}

bool vipl_tcp_burst_flush(struct tcp_conn *conn)
{
    return flush(conn, false);
}

bool vipl_tcp_burst_precede(struct tcp_conn *conn)
{
    const struct tcp_burst *burst = conn->tx.burst;
    return flush(conn, burst != NULL && burst->sends == burst->gone);
}

bool vipl_tcp_burst_leave(struct tcp_conn *conn)
{
    bool all = vipl_tcp_burst_flush(conn);
    push(conn);
    return all;
}

/* What core has not been told of, as much as there is room for. */
static unsigned take_gone(struct tcp_burst *burst, struct vipl_sent *out)
{
    unsigned count = 0;
    for (; count < TELL && burst->told != burst->gone; burst->told++) {
        const struct tcp_burst_send *each = &burst->send[burst->told % TCP_BURST_SENDS];
        out[count++] = (struct vipl_sent){each->sequence, each->length};
    }
    return count;
}

static void drop_if_empty(struct tcp_conn *conn)
{
    struct tcp_burst *burst = conn->tx.burst;
    if (burst != NULL && burst->bytes == 0 && burst->told == burst->sends) {
        conn->tx.burst = NULL;
        drop_burst(conn->nic, burst);
    }
}

bool vipl_tcp_burst_tend(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_sent gone[TELL];
    unsigned count;
    bool rest;
    do {
        vipl_biased_lock(&tx->lock);
        tx->rides = tx->rides && !(tx->burst != NULL && tx->burst->answer);
        rest = !vipl_tcp_burst_leave(conn) && !tx->closed;
        count = tx->burst == NULL ? 0 : take_gone(tx->burst, gone);
        drop_if_empty(conn);
        vipl_biased_unlock(&tx->lock);
        if (count > 0 && conn->vi != NULL) {
            vipl_up_sends_done(conn->vi, gone, count);
        }
    } while (count > 0);
    return rest;
}
