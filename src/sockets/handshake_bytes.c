/* SPDX-License-Identifier: MIT */
#include "sockets/handshake_bytes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

short sock_bytes_ready(struct sock_conn *conn, short events)
{
    struct pollfd fd = {.fd = conn->kernel, .events = events};
    return (short)(poll(&fd, 1, 0) == 1 ? fd.revents : 0);
}

int sock_bytes_look(struct sock_conn *conn, uint8_t *bytes, size_t size)
{
    ssize_t got;
    do {
        got = recv(conn->kernel, bytes, size, MSG_PEEK | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EAGAIN) {
        conn->error = errno;
        return SOCK_LOST;
    }
    return got >= 0 ? (int)got : SOCK_NOTHING_YET;
}

void sock_bytes_take(struct sock_conn *conn, size_t count)
{
    uint8_t bytes[SOCK_HELLO_BYTES + 1];
    ssize_t got;
    do {
        got = recv(conn->kernel, bytes, count, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
}

bool sock_bytes_put(struct sock_conn *conn, const void *bytes, size_t count, int flags)
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

bool sock_bytes_put_one(struct sock_conn *conn, uint8_t byte)
{
    return sock_bytes_put(conn, &byte, 1, 0);
}

bool sock_bytes_put_message(struct sock_conn *conn, enum sock_hello_kind kind, enum sock_reason why)
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
    return sock_bytes_put(conn, bytes, sizeof(bytes), 0);
}
