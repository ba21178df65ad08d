/* SPDX-License-Identifier: MIT */
/* Output coalescing. */
#include "backends/tcp/output.h"

#include <assert.h>
#include <errno.h>

#include "backends/tcp/conn.h"
#include "os/os_atomic.h"

enum { MAX_REPORTS = 64 /* sends per call of vipl_up_sends_done() */ };

_Static_assert((TCP_OUTPUT_SENDS & (TCP_OUTPUT_SENDS - 1)) == 0, "running numbers wrap");
_Static_assert(TCP_OUTPUT_BYTES <= UINT16_MAX, "ends are 16 bits");

static bool output_has_room(const struct tcp_output *output, size_t bytes)
{
    return bytes <= TCP_OUTPUT_BYTES - output->bytes && output->sends - output->reported < TCP_OUTPUT_SENDS;
}

/* The spare buffer of the device, or a new one. */
static struct tcp_output *new_output(struct tcp_nic *nic)
{
    struct tcp_output *output = vipl_load_ptr(&nic->spare_output);
    if (output == NULL || !vipl_compare_exchange_ptr(&nic->spare_output, output, NULL)) {
        output = vipl_alloc(sizeof(*output));
    }
    if (output != NULL) {
        output->bytes = output->flushed = 0;
        output->sends = output->sent = output->reported = 0;
        output->only_response = false;
    }
    return output;
}

static void drop_output(struct tcp_nic *nic, struct tcp_output *output)
{
    if (!vipl_compare_exchange_ptr(&nic->spare_output, NULL, output)) {
        vipl_free(output);
    }
}

bool vipl_tcp_output_has_room(struct tcp_conn *conn, size_t bytes)
{
    struct tcp_sending *tx = &conn->tx;
    if (tx->output == NULL) {
        tx->output = new_output(conn->nic);
        if (tx->output == NULL) {
            return false;
        }
    }
    return output_has_room(tx->output, bytes) ||
           (vipl_tcp_output_flush(conn) && output_has_room(tx->output, bytes));
}

bool vipl_tcp_output_add(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count)
{
    struct tcp_output *output = conn->tx.output;
    size_t at = output->bytes;
    for (unsigned i = 0; i < count; i++) {
        if (!vipl_iov_bytes(output->data + at, pieces[i].base, pieces[i].len)) {
            return false;
        }
        at += pieces[i].len;
    }
    output->bytes = at;
    return true;
}

/* The buffer is empty, so the send ends at its byte 0: it counts as sent with what
 * is flushed next. */
void vipl_tcp_output_cork(struct tcp_conn *conn, const struct vipl_send *send)
{
    assert(!vipl_tcp_output_is_unsent(conn->tx.output));
    conn->tx.corked = true;
    if (send != NULL) {
        vipl_tcp_output_end_send(conn, send);
    }
}

void vipl_tcp_output_end_send(struct tcp_conn *conn, const struct vipl_send *send)
{
    struct tcp_output *output = conn->tx.output;
    output->send[output->sends++ % TCP_OUTPUT_SENDS] =
        (struct tcp_output_send){send->sequence, (uint16_t)output->bytes, (uint16_t)send->local.bytes};
}

/* The kernel has taken more bytes of the buffer, and holds none of them back. */
static void count_sent(struct tcp_output *output)
{
    while (output->sent != output->sends &&
           output->send[output->sent % TCP_OUTPUT_SENDS].end <= output->flushed) {
        output->sent++;
    }
    if (output->flushed == output->bytes) {
        output->flushed = output->bytes = 0;
    }
}

void vipl_tcp_output_uncork(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    if (tx->corked) {
        tx->corked = false;
        count_sent(tx->output);
    }
}

/* Has the kernel send what it holds back. */
static void push_corked(struct tcp_conn *conn)
{
    if (conn->tx.corked) {
        vipl_socket_push(conn->fd);
        vipl_tcp_output_uncork(conn);
    }
}

/* `more`: more bytes follow at once, and the kernel may hold these back until then. Only if no send
 * ends in them. */
static bool flush_output(struct tcp_conn *conn, bool more)
{
    struct tcp_sending *tx = &conn->tx;
    struct tcp_output *output = tx->output;
    if (!vipl_tcp_output_is_unsent(output)) {
        return true;
    }
    if (tx->closed) { /* the connection is about to fail, which flushes the sends */
        push_corked(conn);
        output->bytes = output->flushed = 0;
        output->sends = output->sent;
        return false;
    }
    size_t sent = 0;
    struct vipl_iov rest = {output->data + output->flushed, output->bytes - output->flushed};
    vipl_tcp_note_activity(conn->nic);
    int error = vipl_socket_send(conn->fd, &rest, 1, more, &sent);
    /* the receiving side gets the error too, and fails the VI */
    tx->closed |= error != 0 && error != EAGAIN;
    output->flushed += sent;
    output->only_response = false;
    if (sent > 0) { /* bytes sent without MSG_MORE push those before them */
        tx->corked = more;
    }
    if (!tx->corked) {
        count_sent(output);
    } else if (more && output->flushed == output->bytes) { /* no send ends in these bytes */
        output->flushed = output->bytes = 0;
    }
    return output->bytes == 0;
}

bool vipl_tcp_output_flush(struct tcp_conn *conn)
{
    return flush_output(conn, false);
}

bool vipl_tcp_output_flush_before(struct tcp_conn *conn)
{
    const struct tcp_output *output = conn->tx.output;
    return flush_output(conn, output != NULL && output->sends == output->sent);
}

bool vipl_tcp_output_flush_all(struct tcp_conn *conn)
{
    bool all = vipl_tcp_output_flush(conn);
    push_corked(conn);
    return all;
}

/* Takes up to MAX_REPORTS complete sends that core has not been told of. Returns how many. */
static unsigned take_reports(struct tcp_output *output, struct vipl_send_done *out)
{
    unsigned count = 0;
    for (; count < MAX_REPORTS && output->reported != output->sent; output->reported++) {
        const struct tcp_output_send *each = &output->send[output->reported % TCP_OUTPUT_SENDS];
        out[count++] = (struct vipl_send_done){each->sequence, each->length};
    }
    return count;
}

static void drop_if_empty(struct tcp_conn *conn)
{
    struct tcp_output *output = conn->tx.output;
    if (output != NULL && output->bytes == 0 && output->reported == output->sends) {
        conn->tx.output = NULL;
        drop_output(conn->nic, output);
    }
}

bool vipl_tcp_output_poll(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_send_done sends[MAX_REPORTS];
    unsigned count;
    bool rest;
    do {
        vipl_biased_lock(&tx->lock);
        tx->piggyback = tx->piggyback && !(tx->output != NULL && tx->output->only_response);
        rest = !vipl_tcp_output_flush_all(conn) && !tx->closed;
        count = tx->output == NULL ? 0 : take_reports(tx->output, sends);
        drop_if_empty(conn);
        vipl_biased_unlock(&tx->lock);
        if (count > 0 && conn->vi != NULL) {
            vipl_up_sends_done(conn->vi, sends, count);
        }
    } while (count > 0);
    return rest;
}
