/* SPDX-License-Identifier: MIT */
/*
 * The handshake of a connection, step by step. Each step makes calls that do not block, and is made
 * under the connection's lock.
 *
 *     client: HELLO                          V or T    data
 *     server:         WELCOME or DECLINE     V or T    data       (nothing after DECLINE, but data)
 *
 * Within the host, the client's VI requests its connection before HELLO, and HELLO says by which
 * address the server's VI is to request its own: so the VIs are connected by two messages of
 * theirs, the server's request and the client's answer, while WELCOME is under way. A thread that
 * waits sleeps for the VIs' device and for the kernel's sockets at once.
 *
 * The client always sends its byte, even if the server declines or writes data at once; it sends T
 * at any time before V when it does not want to wait any longer. The server sends its byte if it
 * has sent WELCOME. So each end knows which bytes of the handshake come before the program's, and a
 * connection that stays with TCP is STRIPPING until those have come.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/config.h"
#include "base/deadline.h"
#include "base/log.h"
#include "sockets/conn.h"
#include "sockets/fault.h"
#include "sockets/handshake.h"
#include "sockets/handshake_bytes.h"
#include "sockets/probe.h"
#include "vipl/posix.h"

enum {
    PART_MS = 1000, /* for the rest of a message to come */
    /* VIs that are being connected: where a client's still waits for WELCOME, and where a server's
     * begins. The rest of the places is for clients that have WELCOME, for whom servers' VIs wait:
     * so these get on, also where two processes are each other's clients. */
    MOST_EARLY = 128,
    MOST_ANSWERED = 192
};
static const uint64_t ns_per_ms = 1000000;

VIP_ULONG sock_join_ms(void)
{
    static uint32_t known; /* atomic, relaxed; 0: not read yet */
    uint32_t ms = vipl_load_relaxed(&known);
    if (ms == 0) {
        ms = vipl_config_number("VIPL_SOCKETS_JOIN_MS");
        vipl_store_relaxed(&known, ms);
    }
    return ms;
}

/* --- outcomes --- */

static void drop_stream(struct sock_conn *conn)
{
    sock_pending_leave(conn);
    if (conn->stream != NULL) {
        vipl_stream_close(conn->stream);
        conn->stream = NULL;
    }
}

static void lose(struct sock_conn *conn, int error, const char *why)
{
    if (why != NULL) {
        vipl_log(VIPL_LOG_ERROR, "sockets: a connection is reset: %s", why);
    }
    drop_stream(conn);
    shutdown(conn->kernel, SHUT_RDWR);
    conn->error = error;
    if (why != NULL) {
        sock_stats_lost();
    }
    sock_conn_change_locked(conn, SOCK_BROKEN);
}

/* Whether the peer has ended the connection already, which is then neither moved nor with TCP. */
static bool has_left(struct sock_conn *conn)
{
    return (sock_bytes_ready(conn, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* The kernel's socket has the connection. `strips` bytes of the handshake come first, and before
 * them perhaps a message. If an error has been seen, the program gets it from this library. */
static void stay(struct sock_conn *conn, enum sock_reason reason, bool message, uint8_t strips)
{
    if (conn->error != 0) {
        lose(conn, conn->error, NULL);
        return;
    }
    drop_stream(conn);
    conn->strips_message = message;
    conn->strips = strips;
    if (reason != SOCK_NOT_CONNECTED || !has_left(conn)) {
        sock_stats_count(reason);
    }
    sock_conn_change_locked(conn, message || strips > 0 ? SOCK_STRIPPING : SOCK_PLAIN);
}

/* The peer has closed, and the kernel resets the connection because a message of this end was not
 * read. The program has sent nothing, and sees the end that it would see without the message. */
static bool end_unread(struct sock_conn *conn)
{
    drop_stream(conn);
    conn->error = 0;
    sock_conn_change_locked(conn, SOCK_BROKEN);
    return true;
}

/* Nothing can be looked at. Returns true if that ends the handshake. */
static bool is_lost(struct sock_conn *conn, int count)
{
    if (count == SOCK_LOST) {
        lose(conn, conn->error, NULL);
    }
    return count == SOCK_LOST;
}

/* --- steps: each returns true if the state has changed --- */

/* A part of a message has come. Returns true if the rest does not come. */
static bool part_is_late(struct sock_conn *conn)
{
    conn->is_held = vipl_now_ns() - conn->since < PART_MS * ns_per_ms;
    return !conn->is_held;
}

static void write_address(VIP_NET_ADDRESS *to, const uint8_t *host, unsigned length, const uint8_t *nonce)
{
    uint8_t *bytes = (uint8_t *)to + offsetof(VIP_NET_ADDRESS, HostAddress);
    to->HostAddressLen = (VIP_UINT16)length;
    to->DiscriminatorLen = SOCK_NONCE_BYTES;
    memcpy(bytes, host, length);
    memcpy(bytes + length, nonce, SOCK_NONCE_BYTES);
}

/* Makes the stream, and requests its connection to the peer's, within `ms`. */
static enum sock_reason begin_join(struct sock_conn *conn, VIP_ULONG ms)
{
    union {
        VIP_NET_ADDRESS address;
        uint8_t room[sizeof(VIP_NET_ADDRESS) + SOCK_HOST_BYTES + SOCK_NONCE_BYTES];
    } own = {0}, peer = {0};
    uint8_t host[SOCK_HOST_BYTES];
    struct vipl_stream_nic *nic = conn->device;
    if (sock_fault_is(SOCK_FAULT_STREAM) || vipl_stream_new(nic, &conn->stream) != 0) {
        return SOCK_NO_STREAM;
    }
    unsigned length = vipl_stream_nic_address(nic, host);
    uint8_t nonce[SOCK_NONCE_BYTES];
    memcpy(nonce, conn->peer_nonce, sizeof(nonce));
    nonce[0] ^= sock_fault_is(SOCK_FAULT_JOIN) ? 1 : 0;
    write_address(&own.address, host, length, conn->nonce);
    write_address(&peer.address, conn->peer.host, conn->peer.host_length, nonce);
    VIP_RETURN rc = VipConnectPeerRequest(vipl_stream_vi(conn->stream), &own.address, &peer.address, ms);
    return rc == VIP_SUCCESS ? SOCK_MOVED_TO_VIPL : SOCK_NOT_CONNECTED;
}

/* Whether the peer's message stays where it is, because too many VIs are being connected. If there
 * is a place, this connection has it, and gives it back if it needs none (drop_stream). */
static bool awaits_place(struct sock_conn *conn)
{
    bool has_place =
        conn->joins || sock_pending_join(conn, conn->is_client ? SOCK_MOST_JOINING : MOST_ANSWERED);
    conn->is_held = !has_place && vipl_now_ns() - conn->since < sock_join_ms() * ns_per_ms;
    return conn->is_held;
}

/* Within the host, where the server's VI has the same NIC address, the client's VI requests its
 * connection before the server knows of it: so the server's request finds that one, and the two
 * need no other word. */
static enum sock_reason begin_early(struct sock_conn *conn)
{
    conn->peer.host_length = (uint8_t)vipl_stream_nic_address(conn->device, conn->peer.host);
    return sock_device_is_local(conn->device_name) && sock_pending_join(conn, MOST_EARLY)
               ? begin_join(conn, VIP_INFINITE)
               : SOCK_MOVED_TO_VIPL;
}

static bool say_hello(struct sock_conn *conn)
{
    enum sock_reason reason = SOCK_NO_STREAM;
    conn->device = sock_device(conn->device_name);
    if (conn->device == NULL) {
        reason = SOCK_NO_DEVICE;
    } else if (vipl_entropy(conn->nonce, sizeof(conn->nonce)) == 0 &&
               vipl_entropy(conn->peer_nonce, sizeof(conn->peer_nonce)) == 0) {
        reason = begin_early(conn);
    }
    if (reason == SOCK_MOVED_TO_VIPL && !sock_bytes_put_message(conn, SOCK_HELLO, 0)) {
        reason = SOCK_NO_STREAM;
    }
    if (reason != SOCK_MOVED_TO_VIPL) {
        stay(conn, reason, false, 0);
        return true;
    }
    conn->since = vipl_now_ns();
    sock_conn_change_locked(conn, SOCK_HELLO_SENT);
    return true;
}

static bool step_connecting(struct sock_conn *conn)
{
    short ready = sock_bytes_ready(conn, POLLOUT | POLLRDHUP);
    if (ready == 0) {
        return false;
    }
    if ((ready & (POLLERR | POLLHUP | POLLRDHUP)) != 0) {
        sock_conn_change_locked(conn, SOCK_PLAIN); /* the kernel tells the program how it ended */
        return true;
    }
    if (conn->is_remote) {
        enum sock_reason answer;
        conn->is_asking = !sock_probe_ask(&conn->place, conn->device_name, &answer);
        if (conn->is_asking) {
            return false;
        }
        if (answer != SOCK_MOVED_TO_VIPL) {
            stay(conn, answer, false, 0);
            return true;
        }
    }
    return say_hello(conn);
}

/* An end that knows that the other one wants its VI to be connected, and has a place for its own,
 * or has waited in vain for one. */
static enum sock_reason begin_late(struct sock_conn *conn)
{
    return conn->joins ? begin_join(conn, sock_join_ms()) : SOCK_NOT_CONNECTED;
}

/* The client reads the server's first bytes. */
static bool step_hello_sent(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES];
    int count = sock_bytes_look(conn, bytes, sizeof(bytes));
    if (count == SOCK_LOST && conn->error == ECONNRESET) {
        return end_unread(conn);
    }
    if (count < 0) {
        return is_lost(conn, count);
    }
    if (count == 0) { /* the server sends no more: it may yet read, or reset what is sent */
        vipl_store_relaxed(&conn->owes, 1);
        stay(conn, SOCK_NOT_CONNECTED, false, 1);
        return true;
    }
    if (!sock_hello_begins(bytes, (size_t)count)) {
        sock_bytes_put_one(conn, SOCK_COMMIT_TCP);
        stay(conn, SOCK_WROTE_FIRST, false, 0);
        return true;
    }
    if (count < SOCK_HELLO_BYTES) {
        if (part_is_late(conn)) {
            lose(conn, ECONNRESET, "the server has sent a part of a message");
            return true;
        }
        return false;
    }
    bool is_reply = sock_hello_decode(bytes, &conn->peer) && conn->peer.kind != SOCK_HELLO;
    if (is_reply && conn->peer.kind == SOCK_WELCOME && awaits_place(conn)) {
        return false;
    }
    sock_bytes_take(conn, SOCK_HELLO_BYTES);
    if (!is_reply || (conn->peer.kind == SOCK_WELCOME && conn->peer.version != SOCK_HELLO_VERSION)) {
        lose(conn, ECONNRESET, "the server's reply is no message of the handshake");
        return true;
    }
    if (conn->peer.kind == SOCK_DECLINE) {
        enum sock_reason why = conn->peer.why > 0 && conn->peer.why < SOCK_REASONS
                                   ? (enum sock_reason)conn->peer.why
                                   : SOCK_NOT_CONNECTED;
        sock_bytes_put_one(conn, SOCK_COMMIT_TCP);
        stay(conn, why, false, 0);
        return true;
    }
    enum sock_reason reason = conn->stream == NULL ? begin_late(conn) : SOCK_MOVED_TO_VIPL;
    if (reason != SOCK_MOVED_TO_VIPL) {
        sock_bytes_put_one(conn, SOCK_COMMIT_TCP);
        stay(conn, reason, false, 1);
    } else {
        conn->join_by = vipl_deadline(sock_join_ms());
        sock_conn_change_locked(conn, SOCK_JOINING);
    }
    return true;
}

/* Whether a program has written to the kernel's socket before, in another process. */
static bool has_written(struct sock_conn *conn)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    return getsockopt(conn->kernel, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_bytes_sent > 0;
}

static bool decline(struct sock_conn *conn, enum sock_reason why)
{
    sock_bytes_put_message(conn, SOCK_DECLINE, why);
    stay(conn, why, false, 1);
    return true;
}

/* Whether the two ends have the same device. Hosts may name their interfaces differently. */
static bool is_peers_device(const struct sock_conn *conn)
{
    return strcmp(conn->peer.device, conn->device_name) == 0 ||
           (conn->is_remote && sock_device_is_alike(conn->peer.device, conn->device_name));
}

/* The server answers HELLO, which it has taken. */
static bool answer(struct sock_conn *conn)
{
    if (conn->peer.version != SOCK_HELLO_VERSION) {
        return decline(conn, SOCK_OTHER_VERSION);
    }
    if (!is_peers_device(conn)) {
        return decline(conn, SOCK_OTHER_DEVICE);
    }
    if (conn->peer.user != vipl_local_user() && sock_device_is_local(conn->device_name)) {
        return decline(conn, SOCK_OTHER_USER); /* this process may not be the listener's */
    }
    conn->device = sock_device(conn->device_name);
    if (conn->device == NULL || sock_fault_is(SOCK_FAULT_DECLINE)) {
        return decline(conn, SOCK_NO_DEVICE);
    }
    memcpy(conn->nonce, conn->peer.peer_nonce, sizeof(conn->nonce));
    memcpy(conn->peer_nonce, conn->peer.nonce, sizeof(conn->peer_nonce));
    enum sock_reason reason = begin_late(conn);
    if (reason != SOCK_MOVED_TO_VIPL) {
        return decline(conn, reason);
    }
    if (!sock_bytes_put_message(conn, SOCK_WELCOME, 0)) {
        stay(conn, SOCK_NOT_CONNECTED, false, 1); /* the client has gone */
        return true;
    }
    conn->join_by = vipl_deadline(sock_join_ms());
    sock_conn_change_locked(conn, SOCK_JOINING);
    return true;
}

/* The server reads the client's first bytes. */
static bool step_unknown(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES + 1];
    int count = sock_bytes_look(conn, bytes, sizeof(bytes));
    if (count < 0) {
        return is_lost(conn, count);
    }
    if (count == 0 || !sock_hello_begins(bytes, (size_t)count)) {
        stay(conn, SOCK_PEER_PLAIN, false, 0);
        return true;
    }
    if (count < SOCK_HELLO_BYTES) {
        if (part_is_late(conn)) {
            stay(conn, SOCK_BAD_HELLO, false, 0); /* the program gets the bytes */
            return true;
        }
        return false;
    }
    if (has_written(conn)) {
        stay(conn, SOCK_WROTE_FIRST, true, 0);
        return true;
    }
    if (!sock_hello_decode(bytes, &conn->peer) || conn->peer.kind != SOCK_HELLO) {
        vipl_log(VIPL_LOG_ERROR, "sockets: a client has sent what is no message of the handshake");
        stay(conn, SOCK_BAD_HELLO, false, 0);
        return true;
    }
    if (count > SOCK_HELLO_BYTES && bytes[SOCK_HELLO_BYTES] != SOCK_COMMIT_TCP) {
        lose(conn, ECONNRESET, "the client has sent HELLO and more");
        return true;
    }
    if (count > SOCK_HELLO_BYTES) { /* the client did not want to wait */
        sock_bytes_take(conn, SOCK_HELLO_BYTES + 1);
        stay(conn, SOCK_NOT_CONNECTED, false, 0);
        return true;
    }
    if (awaits_place(conn)) {
        return false;
    }
    sock_bytes_take(conn, SOCK_HELLO_BYTES);
    return answer(conn);
}

/* Takes the peer's byte if it has come. Returns false if the peer has gone instead. */
static bool take_commit(struct sock_conn *conn)
{
    uint8_t byte;
    int count = conn->peer_commit != 0 ? SOCK_NOTHING_YET : sock_bytes_look(conn, &byte, 1);
    if (count > 0) {
        sock_bytes_take(conn, 1);
        conn->peer_commit = byte;
    }
    return count != 0 && count != SOCK_LOST;
}

/* The VIs could not be connected, or an end does not want them to be. The other's byte may yet
 * come. */
static bool refuse(struct sock_conn *conn, enum sock_reason reason)
{
    sock_bytes_put_one(conn, SOCK_COMMIT_TCP);
    stay(conn, reason, false, conn->peer_commit == 0 ? 1 : 0);
    return true;
}

/* Instead of its byte, the end of the peer has come. A client that closes at once need not have
 * read what this end has sent. */
static bool peer_has_left(struct sock_conn *conn)
{
    if (!conn->is_client && conn->error == ECONNRESET) {
        return end_unread(conn);
    }
    lose(conn, ECONNRESET, NULL);
    return true;
}

static bool step_joining(struct sock_conn *conn)
{
    if (!take_commit(conn)) {
        return peer_has_left(conn);
    }
    if (conn->peer_commit == SOCK_COMMIT_TCP) {
        return refuse(conn, SOCK_NOT_CONNECTED);
    }
    if (sock_fault_is(SOCK_FAULT_DIE)) {
        vipl_process_end();
    }
    VIP_RETURN rc = VipConnectPeerDone(vipl_stream_vi(conn->stream), NULL);
    if (rc == VIP_NOT_DONE && vipl_now_ns() < conn->join_by) {
        return false;
    }
    if (rc != VIP_SUCCESS || sock_fault_is(SOCK_FAULT_COMMIT)) {
        vipl_log(VIPL_LOG_REASON, "sockets: a connection stays with TCP: %s", VipxStrError(rc));
        if (conn->is_remote && conn->is_client) {
            sock_probe_doubt(&conn->place, conn->device_name);
        }
        return refuse(conn, SOCK_NOT_CONNECTED);
    }
    if (!sock_bytes_put_one(conn, SOCK_COMMIT_VIPL)) {
        lose(conn, ECONNRESET, NULL);
        return true;
    }
    sock_conn_change_locked(conn, SOCK_COMMITTING);
    return true;
}

static bool step_committing(struct sock_conn *conn)
{
    if (!take_commit(conn)) {
        return peer_has_left(conn);
    }
    if (conn->peer_commit == 0) {
        return false;
    }
    if (conn->peer_commit == SOCK_COMMIT_VIPL) {
        sock_pending_leave(conn);
        vipl_stream_refuse_offers(conn->stream); /* a program may not want to wait for the peer */
        vipl_stream_begin(conn->stream, conn->peer.window);
        sock_stats_count(SOCK_MOVED_TO_VIPL);
        sock_conn_change_locked(conn, SOCK_MOVED);
    } else if (conn->peer_commit == SOCK_COMMIT_TCP) {
        stay(conn, SOCK_NOT_CONNECTED, false, 0);
    } else {
        lose(conn, ECONNRESET, "the peer has sent neither of the two bytes that end the handshake");
    }
    return true;
}

/* Takes a message of the peer, if there is one, and then the bytes that follow it. */
static bool step_stripping(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES];
    if (vipl_load_relaxed(&conn->owes) != 0) {
        return false;
    }
    int count = sock_bytes_look(conn, bytes, conn->strips_message ? sizeof(bytes) : conn->strips);
    if (count < 0) {
        return is_lost(conn, count);
    }
    if (count == 0 && sock_conn_is_stopped(conn)) {
        return false; /* the end is this one's doing: bytes of the handshake may yet come */
    }
    if (conn->strips_message && count > 0 && sock_hello_begins(bytes, (size_t)count)) {
        conn->is_held = count < SOCK_HELLO_BYTES;
        if (conn->is_held) {
            return false;
        }
        sock_bytes_take(conn, SOCK_HELLO_BYTES);
        struct sock_hello hello;
        bool is_decline = sock_hello_decode(bytes, &hello) && hello.kind == SOCK_DECLINE;
        conn->strips_message = false;
        conn->strips = is_decline ? 0 : 1;
    } else if (conn->strips_message || count == 0) {
        conn->strips_message = false;
        conn->strips = 0;
    } else {
        sock_bytes_take(conn, (size_t)count);
        conn->strips = (uint8_t)(conn->strips - count);
    }
    if (conn->strips == 0) {
        sock_conn_change_locked(conn, SOCK_PLAIN);
    }
    return true;
}

bool sock_handshake_step_locked(struct sock_conn *conn)
{
    conn->is_held = false;
    if (conn->kernel < 0) {
        return false;
    }
    switch (sock_conn_state(conn)) {
    case SOCK_CONNECTING:
        return step_connecting(conn);
    case SOCK_UNKNOWN:
        return step_unknown(conn);
    case SOCK_HELLO_SENT:
        return step_hello_sent(conn);
    case SOCK_JOINING:
        return step_joining(conn);
    case SOCK_COMMITTING:
        return step_committing(conn);
    case SOCK_STRIPPING:
        return step_stripping(conn);
    default:
        return false;
    }
}

/* --- an end that does not want to go on --- */

/* Waits for the peer's last byte, which may be what it has said already. */
static void finish_commit_locked(struct sock_conn *conn)
{
    struct pollfd fd = {.fd = conn->kernel, .events = POLLIN};
    while (sock_conn_state(conn) == SOCK_COMMITTING && !sock_handshake_step_locked(conn)) {
        if (poll(&fd, 1, SOCK_COMMIT_MS) == 0) {
            lose(conn, ECONNRESET, "the peer has not said whether its VI is connected");
        }
    }
}

void sock_handshake_give_up_locked(struct sock_conn *conn, enum sock_reason reason)
{
    switch (sock_conn_state(conn)) {
    case SOCK_CONNECTING:
        stay(conn, reason, false, 0);
        break;
    case SOCK_UNKNOWN:
        stay(conn, reason, true, 0);
        break;
    case SOCK_HELLO_SENT:
        sock_bytes_put_one(conn, SOCK_COMMIT_TCP);
        stay(conn, reason, true, 0);
        break;
    case SOCK_JOINING:
        refuse(conn, reason);
        break;
    case SOCK_COMMITTING:
        finish_commit_locked(conn);
        break;
    default:
        break;
    }
}

/* Takes what the peer has said in the handshake: for bytes that are not read, the kernel would
 * reset the connection. */
static void take_last(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES + 1];
    struct sock_hello hello;
    if (sock_conn_state(conn) == SOCK_JOINING) {
        (void)take_commit(conn);
        return;
    }
    int count = sock_bytes_look(conn, bytes, sizeof(bytes));
    if (count >= SOCK_HELLO_BYTES && sock_hello_decode(bytes, &hello)) {
        sock_bytes_take(conn, hello.kind == SOCK_WELCOME ? (size_t)count : SOCK_HELLO_BYTES);
    }
}

/* A server's bytes stay where they are: another process that has the descriptor may read them. */
void sock_handshake_close_locked(struct sock_conn *conn)
{
    const uint8_t byte = SOCK_COMMIT_TCP;
    switch (sock_conn_state(conn)) {
    case SOCK_HELLO_SENT:
    case SOCK_JOINING:
        take_last(conn);
        sock_bytes_put(conn, &byte, 1, MSG_MORE); /* with the FIN: the peer sees both or neither */
        drop_stream(conn);
        vipl_store_release(&conn->state, SOCK_PLAIN);
        break;
    case SOCK_COMMITTING:
        finish_commit_locked(conn);
        break;
    default:
        break;
    }
    sock_pending_leave(conn);
}
