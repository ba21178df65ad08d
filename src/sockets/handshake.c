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
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/log.h"
#include "sockets/conn.h"
#include "sockets/fault.h"
#include "sockets/handshake.h"
#include "sockets/probe.h"
#include "vipl/posix.h"

enum {
    JOIN_MS = 2000,     /* for the VIs to be connected, once both ends know that they want it */
    PART_MS = 1000,     /* for the rest of a message to come */
    PART_LOOK_MS = 5,   /* between two looks for it */
    ASK_LOOK_MS = 1,    /* between two looks for the answer of another host */
    PATIENCE_MS = 1000, /* a client's write, for the outcome */
    MOST_EARLY = 128    /* VIs that are being connected, where a client's still waits for WELCOME */
};
static const uint64_t ns_per_ms = 1000000;

/* --- the kernel's socket --- */

static short kernel_ready(struct sock_conn *conn, short events)
{
    struct pollfd fd = {.fd = conn->kernel, .events = events};
    return (short)(poll(&fd, 1, 0) == 1 ? fd.revents : 0);
}

enum { NOTHING_YET = -1, LOST = -2 };

/* Looks at what has come, without taking it. Returns the bytes; 0: the end; NOTHING_YET; or LOST,
 * with the error, which the kernel reports no more, in conn->error. */
static int look(struct sock_conn *conn, uint8_t *bytes, size_t size)
{
    ssize_t got;
    do {
        got = recv(conn->kernel, bytes, size, MSG_PEEK | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EAGAIN) {
        conn->error = errno;
        return LOST;
    }
    return got >= 0 ? (int)got : NOTHING_YET;
}

static void take(struct sock_conn *conn, size_t count)
{
    uint8_t bytes[SOCK_HELLO_BYTES + 1];
    ssize_t got;
    do {
        got = recv(conn->kernel, bytes, count, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
}

static bool put_bytes(struct sock_conn *conn, const void *bytes, size_t count, int flags)
{
    ssize_t sent;
    do {
        sent = send(conn->kernel, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) {
        conn->error = errno; /* which the kernel reports no more */
    }
    return sent == (ssize_t)count;
}

static bool put_byte(struct sock_conn *conn, uint8_t byte)
{
    return put_bytes(conn, &byte, 1, 0);
}

static bool put_message(struct sock_conn *conn, enum sock_hello_kind kind, enum sock_reason why)
{
    uint8_t bytes[SOCK_HELLO_BYTES];
    struct sock_hello hello = {.kind = kind, .version = SOCK_HELLO_VERSION, .why = (uint8_t)why};
    if (kind != SOCK_DECLINE) {
        hello.host_length = (uint8_t)vipl_stream_nic_address(conn->device, hello.host);
        hello.window = vipl_stream_own_window();
        memcpy(hello.nonce, conn->nonce, sizeof(hello.nonce));
        memcpy(hello.peer_nonce, conn->peer_nonce, sizeof(hello.peer_nonce));
        memcpy(hello.device, conn->device_name, strlen(conn->device_name));
        hello.user = vipl_local_user();
    }
    sock_hello_encode(&hello, bytes);
    return put_bytes(conn, bytes, sizeof(bytes), 0);
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
    return (kernel_ready(conn, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
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
    if (count == LOST) {
        lose(conn, conn->error, NULL);
    }
    return count == LOST;
}

/* --- steps: each returns true if the state has changed --- */

/* A part of a message has come. Returns true if the rest does not come. */
static bool part_is_late(struct sock_conn *conn)
{
    conn->has_part = vipl_now_ns() - conn->since < PART_MS * ns_per_ms;
    return !conn->has_part;
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
    if (reason == SOCK_MOVED_TO_VIPL && !put_message(conn, SOCK_HELLO, 0)) {
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
    short ready = kernel_ready(conn, POLLOUT | POLLRDHUP);
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

/* An end that knows that the other one wants its VI to be connected. */
static enum sock_reason begin_late(struct sock_conn *conn)
{
    return sock_pending_join(conn, SOCK_MOST_JOINING) ? begin_join(conn, JOIN_MS) : SOCK_NOT_CONNECTED;
}

/* The client reads the server's first bytes. */
static bool step_hello_sent(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES];
    int count = look(conn, bytes, sizeof(bytes));
    if (count == LOST && conn->error == ECONNRESET) {
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
        put_byte(conn, SOCK_COMMIT_TCP);
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
    take(conn, SOCK_HELLO_BYTES);
    if (!sock_hello_decode(bytes, &conn->peer) || conn->peer.kind == SOCK_HELLO ||
        (conn->peer.kind == SOCK_WELCOME && conn->peer.version != SOCK_HELLO_VERSION)) {
        lose(conn, ECONNRESET, "the server's reply is no message of the handshake");
        return true;
    }
    if (conn->peer.kind == SOCK_DECLINE) {
        enum sock_reason why = conn->peer.why > 0 && conn->peer.why < SOCK_REASONS
                                   ? (enum sock_reason)conn->peer.why
                                   : SOCK_NOT_CONNECTED;
        put_byte(conn, SOCK_COMMIT_TCP);
        stay(conn, why, false, 0);
        return true;
    }
    enum sock_reason reason = conn->stream == NULL ? begin_late(conn) : SOCK_MOVED_TO_VIPL;
    if (reason != SOCK_MOVED_TO_VIPL) {
        put_byte(conn, SOCK_COMMIT_TCP);
        stay(conn, reason, false, 1);
    } else {
        conn->join_by = vipl_deadline(JOIN_MS);
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
    put_message(conn, SOCK_DECLINE, why);
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
    if (!put_message(conn, SOCK_WELCOME, 0)) {
        stay(conn, SOCK_NOT_CONNECTED, false, 1); /* the client has gone */
        return true;
    }
    conn->join_by = vipl_deadline(JOIN_MS);
    sock_conn_change_locked(conn, SOCK_JOINING);
    return true;
}

/* The server reads the client's first bytes. */
static bool step_unknown(struct sock_conn *conn)
{
    uint8_t bytes[SOCK_HELLO_BYTES + 1];
    int count = look(conn, bytes, sizeof(bytes));
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
        take(conn, SOCK_HELLO_BYTES + 1);
        stay(conn, SOCK_NOT_CONNECTED, false, 0);
        return true;
    }
    take(conn, SOCK_HELLO_BYTES);
    return answer(conn);
}

/* Takes the peer's byte if it has come. Returns false if the peer has gone instead. */
static bool take_commit(struct sock_conn *conn)
{
    uint8_t byte;
    int count = conn->peer_commit != 0 ? NOTHING_YET : look(conn, &byte, 1);
    if (count > 0) {
        take(conn, 1);
        conn->peer_commit = byte;
    }
    return count != 0 && count != LOST;
}

/* The VIs could not be connected, or an end does not want them to be. The other's byte may yet
 * come. */
static bool refuse(struct sock_conn *conn, enum sock_reason reason)
{
    put_byte(conn, SOCK_COMMIT_TCP);
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
    if (!put_byte(conn, SOCK_COMMIT_VIPL)) {
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
    int count = look(conn, bytes, conn->strips_message ? sizeof(bytes) : conn->strips);
    if (count < 0) {
        return is_lost(conn, count);
    }
    if (count == 0 && sock_conn_is_stopped(conn)) {
        return false; /* the end is this one's doing: bytes of the handshake may yet come */
    }
    if (conn->strips_message && count > 0 && sock_hello_begins(bytes, (size_t)count)) {
        conn->has_part = count < SOCK_HELLO_BYTES;
        if (conn->has_part) {
            return false;
        }
        take(conn, SOCK_HELLO_BYTES);
        struct sock_hello hello;
        bool is_decline = sock_hello_decode(bytes, &hello) && hello.kind == SOCK_DECLINE;
        conn->strips_message = false;
        conn->strips = is_decline ? 0 : 1;
    } else if (conn->strips_message || count == 0) {
        conn->strips_message = false;
        conn->strips = 0;
    } else {
        take(conn, (size_t)count);
        conn->strips = (uint8_t)(conn->strips - count);
    }
    if (conn->strips == 0) {
        sock_conn_change_locked(conn, SOCK_PLAIN);
    }
    return true;
}

bool sock_handshake_step_locked(struct sock_conn *conn)
{
    conn->has_part = false;
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

/* --- from outside --- */

/* The milliseconds, rounded up, that a write still waits for the outcome. */
static int patience_left(const struct sock_conn *conn)
{
    uint64_t waited = vipl_now_ns() - conn->since;
    return waited >= conn->patience ? 0 : (int)((conn->patience - waited + ns_per_ms - 1) / ns_per_ms);
}

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

static void give_up_locked(struct sock_conn *conn, enum sock_reason reason)
{
    switch (sock_conn_state(conn)) {
    case SOCK_CONNECTING:
        stay(conn, reason, false, 0);
        break;
    case SOCK_UNKNOWN:
        stay(conn, reason, true, 0);
        break;
    case SOCK_HELLO_SENT:
        put_byte(conn, SOCK_COMMIT_TCP);
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

/* What a thread waits for that waits for a connection in a handshake. */
static void describe_locked(struct sock_conn *conn, short wanted, struct sock_now *now)
{
    bool writes = (wanted & POLLOUT) != 0;
    now->kernel = POLLIN;
    now->nic = conn->stream != NULL ? conn->device : NULL;
    switch (now->state) {
    case SOCK_CONNECTING:
        now->kernel = (short)(conn->is_asking ? 0 : POLLOUT);
        now->again_ms = conn->is_asking ? ASK_LOOK_MS : -1;
        break;
    case SOCK_HELLO_SENT:
        now->again_ms = writes ? patience_left(conn) : -1;
        break;
    case SOCK_UNKNOWN:
        now->again_ms = writes ? patience_left(conn) : -1;
        writes = now->again_ms == 0;
        break;
    case SOCK_JOINING:
        now->kernel = (short)(conn->peer_commit == 0 ? POLLIN : 0);
        now->again_ms = vipl_ms_left(conn->join_by);
        break;
    default:
        break;
    }
    if (writes && (now->state == SOCK_STRIPPING || now->state == SOCK_UNKNOWN)) {
        now->ready = (short)(kernel_ready(conn, POLLOUT) & (POLLOUT | POLLWRNORM));
        now->kernel |= POLLOUT;
        now->again_ms = -1;
    }
    if (now->state == SOCK_STRIPPING && sock_conn_is_stopped(conn)) {
        bool is_shut = (vipl_load_relaxed(&conn->shut) & SOCK_SHUT_WRITE) != 0;
        now->ready = (short)(now->ready | POLLIN | POLLRDNORM | POLLRDHUP | (is_shut ? POLLHUP : 0));
        now->kernel &= ~POLLIN; /* the kernel's socket is readable for good */
    }
    if (conn->has_part) {
        now->kernel &= ~POLLIN;
        now->again_ms = PART_LOOK_MS;
    }
}

/* A client's write has waited in vain for a server of this process, which may have no thread but
 * this one: the server's end is decided here, once, and the client waits again. */
static void help_own_server(struct sock_conn *conn)
{
    vipl_mutex_lock(&conn->lock);
    bool helps = sock_conn_state(conn) == SOCK_HELLO_SENT && conn->is_own && patience_left(conn) == 0;
    conn->is_own = conn->is_own && !helps;
    conn->patience += helps ? SOCK_OWN_PATIENCE_MS * ns_per_ms : 0;
    vipl_mutex_unlock(&conn->lock);
    if (helps) {
        sock_handshakes_decide();
    }
}

struct sock_now sock_conn_advance(struct sock_conn *conn, short wanted)
{
    struct sock_now now = {.state = sock_conn_state(conn), .again_ms = -1};
    if (!sock_state_is_over(now.state)) {
        if ((wanted & POLLOUT) != 0) {
            help_own_server(conn);
        }
        vipl_mutex_lock(&conn->lock);
        while (sock_handshake_step_locked(conn)) {
        }
        if (sock_conn_state(conn) == SOCK_HELLO_SENT && (wanted & POLLOUT) != 0 && patience_left(conn) == 0) {
            give_up_locked(conn, SOCK_NO_REPLY);
            while (sock_handshake_step_locked(conn)) {
            }
        }
        now.state = sock_conn_state(conn);
        if (!sock_state_is_over(now.state)) {
            describe_locked(conn, wanted, &now);
        }
        bool is_signalled = conn->has_part && sock_fault_is(SOCK_FAULT_SIGNAL);
        vipl_mutex_unlock(&conn->lock);
        if (is_signalled) {
            raise(SIGUSR1);
        }
    }
    if (now.state >= SOCK_MOVED) {
        now.ready = sock_conn_ready(conn);
    }
    return now;
}

void sock_conn_give_up(struct sock_conn *conn, enum sock_reason reason)
{
    sock_handshake_finish(conn);
    vipl_mutex_lock(&conn->lock);
    give_up_locked(conn, reason);
    vipl_mutex_unlock(&conn->lock);
}

void sock_handshake_pay(struct sock_conn *conn)
{
    vipl_mutex_lock(&conn->lock);
    if (vipl_load_relaxed(&conn->owes) != 0) {
        put_byte(conn, SOCK_COMMIT_TCP); /* if it fails, so does what the program sends */
        vipl_store_relaxed(&conn->owes, 0);
        sock_conn_change_locked(conn, SOCK_PLAIN);
    }
    vipl_mutex_unlock(&conn->lock);
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
    int count = look(conn, bytes, sizeof(bytes));
    if (count >= SOCK_HELLO_BYTES && sock_hello_decode(bytes, &hello)) {
        take(conn, hello.kind == SOCK_WELCOME ? (size_t)count : SOCK_HELLO_BYTES);
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
        put_bytes(conn, &byte, 1, MSG_MORE); /* with the FIN: the peer sees both or neither */
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

void sock_handshake_begin(struct sock_conn *conn, bool is_own_process)
{
    vipl_mutex_lock(&conn->lock);
    conn->is_client = true;
    conn->is_own = is_own_process;
    conn->patience = (is_own_process ? SOCK_OWN_PATIENCE_MS : PATIENCE_MS) * ns_per_ms;
    sock_pending_enter(conn);
    while (sock_handshake_step_locked(conn)) {
    }
    vipl_mutex_unlock(&conn->lock);
}
