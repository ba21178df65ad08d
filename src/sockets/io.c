/* SPDX-License-Identifier: MIT */
#include "sockets/io.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "base/deadline.h"
#include "sockets/conn.h"
#include "sockets/signals.h"

enum { PIECES = 16, FILE_BYTES = 65536, FEW_BYTES = 8192, DISCARD_BYTES = 4096 };

/* A call that goes on until it has moved enough bytes. */
struct transfer {
    struct sock_conn *conn;
    const struct iovec *pieces;
    size_t count;
    size_t bytes; /* of all pieces */
    size_t done;
    bool blocks;
    bool has_more;     /* MSG_MORE, or TCP_CORK: a send of the program is about to follow */
    uint64_t deadline; /* of the next wait; VIPL_NO_DEADLINE: none */
};

static ssize_t fail(int error)
{
    errno = error;
    return -1;
}

/* Returns false if the lengths are not valid, with errno set. */
static bool begin(struct transfer *transfer, struct sock_conn *conn, const struct iovec *pieces, size_t count,
                  int flags, const uint32_t *timeout_ms)
{
    uint32_t ms = vipl_load_relaxed(timeout_ms);
    *transfer = (struct transfer){.conn = conn, .pieces = pieces, .count = count};
    transfer->blocks = (flags & MSG_DONTWAIT) == 0 && vipl_load_relaxed(&conn->nonblocking) == 0;
    transfer->has_more = (flags & MSG_MORE) != 0 || vipl_load_relaxed(&conn->corked) != 0;
    transfer->deadline = ms == 0 ? VIPL_NO_DEADLINE : vipl_deadline(ms);
    if (count > IOV_MAX) {
        errno = (flags & SOCK_OF_FILES) != 0 ? EINVAL : EMSGSIZE;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].iov_len > SSIZE_MAX - transfer->bytes) {
            errno = EINVAL;
            return false;
        }
        transfer->bytes += pieces[i].iov_len;
    }
    return true;
}

/* Lists the next pieces, as many as there is room for. Returns their number. */
static unsigned next_pieces(const struct transfer *transfer, struct vipl_iov out[PIECES])
{
    size_t skip = transfer->done;
    unsigned count = 0;
    for (size_t i = 0; i < transfer->count && count < PIECES; i++) {
        const struct iovec *piece = &transfer->pieces[i];
        if (skip >= piece->iov_len) {
            skip -= piece->iov_len;
            continue;
        }
        out[count++] = (struct vipl_iov){(char *)piece->iov_base + skip, piece->iov_len - skip};
        skip = 0;
    }
    return count;
}

/* Waits for the outcome of the handshake. Returns 0, or -1 with errno set. */
static ssize_t await(struct transfer *transfer, short wanted)
{
    int error = sock_conn_await(transfer->conn, wanted, transfer->blocks, transfer->deadline);
    return error == 0 ? 0 : fail(error);
}

static bool is_kernels(const struct sock_conn *conn)
{
    enum sock_state state = sock_conn_state(conn);
    return state == SOCK_PLAIN || state == SOCK_LISTENING || state == SOCK_STRIPPING;
}

/* Waits until the stream has one of the events. Returns 0, or the errno value that ends the
 * call. */
static int wait_stream(struct transfer *transfer, unsigned event)
{
    if (!transfer->blocks) {
        return EAGAIN;
    }
    int rc = vipl_stream_wait(transfer->conn->stream, event, transfer->deadline, NULL);
    if (rc == EINTR && transfer->deadline == VIPL_NO_DEADLINE && sock_signals_restart()) {
        return 0;
    }
    return rc == ETIMEDOUT ? EAGAIN : rc;
}

/* --- receiving --- */

/* The connection has ended without FIN: the error is reported once, and then the end. */
static ssize_t receive_lost(struct sock_conn *conn)
{
    int error = sock_conn_take_error(conn);
    return error == 0 ? 0 : fail(error);
}

static ssize_t receive_moved(struct transfer *transfer, bool peeks, bool waits_for_all)
{
    struct sock_conn *conn = transfer->conn;
    for (;;) {
        struct vipl_iov pieces[PIECES];
        unsigned count = next_pieces(transfer, pieces);
        size_t got = 0;
        int error = vipl_stream_receive(conn->stream, pieces, count, peeks, &got);
        if (error == 0) {
            transfer->done += got;
            bool is_enough = got == 0 || peeks || transfer->done == transfer->bytes;
            if (is_enough || (!waits_for_all && count < PIECES)) {
                return (ssize_t)transfer->done;
            }
            continue;
        }
        if (error == EAGAIN && (transfer->done == 0 || waits_for_all)) {
            error = wait_stream(transfer, VIPL_STREAM_READABLE);
            if (error == 0) {
                continue;
            }
        } else if (error == EAGAIN) {
            return (ssize_t)transfer->done;
        }
        if (transfer->done > 0) {
            return (ssize_t)transfer->done;
        }
        return error == ECONNRESET || error == ECONNABORTED ? receive_lost(conn) : fail(error);
    }
}

/* recv() of no bytes waits as others do, and has not failed when the time is over. */
static ssize_t receive_nothing(struct transfer *transfer)
{
    while ((sock_conn_ready(transfer->conn) & POLLIN) == 0) {
        int error = wait_stream(transfer, VIPL_STREAM_READABLE);
        if (error != 0) {
            return error == EAGAIN && transfer->blocks ? 0 : fail(error);
        }
    }
    bool is_lost = (vipl_stream_events(transfer->conn->stream) & VIPL_STREAM_BROKEN) != 0;
    return is_lost && vipl_stream_pending(transfer->conn->stream) == 0 ? receive_lost(transfer->conn) : 0;
}

/* MSG_TRUNC: the bytes are thrown away. */
static ssize_t discard(struct transfer *transfer, bool waits_for_all)
{
    char bytes[DISCARD_BYTES];
    size_t wanted = transfer->bytes;
    size_t done = 0;
    do {
        struct iovec piece = {bytes, wanted - done < sizeof(bytes) ? wanted - done : sizeof(bytes)};
        struct transfer part = *transfer;
        part.pieces = &piece;
        part.count = 1;
        part.bytes = piece.iov_len;
        part.blocks = transfer->blocks && (done == 0 || waits_for_all);
        ssize_t got = receive_moved(&part, false, waits_for_all);
        if (got <= 0) {
            return done > 0 ? (ssize_t)done : got;
        }
        done += (size_t)got;
    } while (done < wanted);
    return (ssize_t)done;
}

ssize_t sock_io_receive(struct sock_conn *conn, const struct iovec *pieces, size_t count, int flags)
{
    struct transfer transfer;
    if (!begin(&transfer, conn, pieces, count, flags, &conn->receive_ms)) {
        return -1;
    }
    if (transfer.bytes == 0 && (flags & SOCK_OF_FILES) != 0) {
        return 0; /* read() of nothing does not come to the socket */
    }
    if (await(&transfer, POLLIN) != 0) {
        return -1;
    }
    if (sock_conn_state(conn) == SOCK_STRIPPING && sock_conn_is_stopped(conn)) {
        return 0; /* no byte of the program has come, but one of the handshake may have */
    }
    if (is_kernels(conn)) {
        return SOCK_KERNEL;
    }
    if (sock_conn_state(conn) != SOCK_MOVED) {
        return receive_lost(conn);
    }
    if ((flags & MSG_OOB) != 0) {
        return fail(EINVAL); /* as if none had come */
    }
    if ((flags & MSG_ERRQUEUE) != 0) {
        return fail(EAGAIN);
    }
    bool waits_for_all = (flags & MSG_WAITALL) != 0;
    if (transfer.bytes == 0) {
        return receive_nothing(&transfer);
    }
    bool peeks = (flags & MSG_PEEK) != 0;
    return (flags & MSG_TRUNC) != 0 && !peeks ? discard(&transfer, waits_for_all)
                                              : receive_moved(&transfer, peeks, waits_for_all);
}

/* --- sending --- */

/* The connection has ended: the error is reported once, and then EPIPE. */
static ssize_t send_lost(struct sock_conn *conn)
{
    int error = sock_conn_take_error(conn);
    return fail(error == 0 ? EPIPE : error);
}

/* A call for no bytes fails as others do once the connection is lost, and not if the peer has
 * closed: the kernel learns that from its answer to the next byte. */
static ssize_t send_nothing(struct sock_conn *conn)
{
    size_t sent = 0;
    int error = vipl_stream_send(conn->stream, NULL, 0, &sent);
    return error == ECONNRESET ? send_lost(conn) : 0;
}

static ssize_t send_moved(struct transfer *transfer)
{
    struct sock_conn *conn = transfer->conn;
    while (transfer->done < transfer->bytes) {
        struct vipl_iov pieces[PIECES];
        size_t sent = 0;
        unsigned count = next_pieces(transfer, pieces);
        int error = transfer->has_more ? vipl_stream_send_more(conn->stream, pieces, count, &sent)
                                       : vipl_stream_send(conn->stream, pieces, count, &sent);
        if (error == 0) {
            transfer->done += sent;
            continue;
        }
        if (error == EAGAIN) {
            error = wait_stream(transfer, VIPL_STREAM_WRITABLE);
            if (error == 0) {
                continue;
            }
        }
        if (transfer->done > 0) {
            break;
        }
        return error == ECONNRESET || error == EPIPE ? send_lost(conn) : fail(error);
    }
    return (ssize_t)transfer->done;
}

ssize_t sock_io_send(struct sock_conn *conn, const struct iovec *pieces, size_t count, int flags)
{
    struct transfer transfer;
    if (!begin(&transfer, conn, pieces, count, flags, &conn->send_ms)) {
        return -1;
    }
    if (transfer.bytes == 0 && (flags & SOCK_OF_FILES) != 0) {
        return 0; /* writev() of nothing does not come to the socket */
    }
    if (await(&transfer, POLLOUT) != 0) {
        return -1;
    }
    if (vipl_load_relaxed(&conn->owes) != 0) {
        sock_handshake_pay(conn);
    }
    if (is_kernels(conn)) {
        return SOCK_KERNEL;
    }
    if (sock_conn_state(conn) != SOCK_MOVED) {
        return send_lost(conn);
    }
    if ((flags & MSG_OOB) != 0) {
        return fail(EOPNOTSUPP);
    }
    if ((vipl_load_relaxed(&conn->shut) & SOCK_SHUT_WRITE) != 0) {
        return send_lost(conn);
    }
    return transfer.bytes == 0 ? send_nothing(conn) : send_moved(&transfer);
}

ssize_t sock_io_send_file(struct sock_conn *conn, int from, off64_t *offset, size_t size)
{
    char few[FEW_BYTES]; /* an allocation of many bytes is a mapping, which costs more than the call */
    char *bytes = size <= sizeof(few) ? few : vipl_alloc(FILE_BYTES);
    size_t done = 0;
    ssize_t result = bytes == NULL ? fail(ENOMEM) : 0;
    off64_t at = offset != NULL ? *offset : lseek64(from, 0, SEEK_CUR);
    while (result >= 0 && done < size) {
        struct iovec piece = {bytes, size - done < FILE_BYTES ? size - done : FILE_BYTES};
        ssize_t got = pread64(from, bytes, piece.iov_len, at);
        if (got <= 0) {
            result = got;
            break;
        }
        piece.iov_len = (size_t)got;
        result = sock_io_send(conn, &piece, 1, 0);
        if (result > 0) {
            done += (size_t)result;
            at += result;
        }
        if (result < got) {
            break;
        }
    }
    if (bytes != few) {
        vipl_free(bytes);
    }
    if (done > 0 && offset != NULL) {
        *offset = at;
    } else if (done > 0) {
        lseek64(from, at, SEEK_SET);
    }
    return done > 0 ? (ssize_t)done : result;
}

/* --- shutdown() --- */

int sock_io_shutdown(struct sock_conn *conn, int how)
{
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
        return (int)fail(EINVAL);
    }
    uint32_t bits = (how != SHUT_WR ? SOCK_SHUT_READ : 0) | (how != SHUT_RD ? SOCK_SHUT_WRITE : 0);
    sock_conn_give_up(conn, SOCK_SHUT_DOWN);
    if (is_kernels(conn)) {
        vipl_fetch_or(&conn->shut, bits); /* which counts while bytes of the handshake may come */
        sock_conn_touch(conn);
        return SOCK_KERNEL;
    }
    bool has_finished = (vipl_load_relaxed(&conn->shut) & SOCK_SHUT_WRITE) != 0;
    if (sock_conn_state(conn) == SOCK_BROKEN && conn->error == 0 && !has_finished) {
        vipl_fetch_or(&conn->shut, bits);
        sock_conn_touch(conn);
        return 0;
    }
    if (sock_conn_state(conn) != SOCK_MOVED) {
        return (int)fail(ENOTCONN);
    }
    unsigned events = vipl_stream_events(conn->stream);
    if ((events & (VIPL_STREAM_BROKEN | VIPL_STREAM_RESET)) != 0 ||
        (has_finished && (events & VIPL_STREAM_ENDED) != 0)) {
        return (int)fail(ENOTCONN);
    }
    vipl_fetch_or(&conn->shut, bits);
    if (how != SHUT_WR) {
        vipl_stream_stop(conn->stream);
    }
    if (how != SHUT_RD) {
        vipl_stream_finish(conn->stream);
    }
    sock_conn_touch(conn);
    return 0;
}
