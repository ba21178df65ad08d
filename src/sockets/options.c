/* SPDX-License-Identifier: MIT */
#include "sockets/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "sockets/conn.h"
#include "sockets/io.h"

enum { RCVTIMEO_64 = 66, SNDTIMEO_64 = 67 }; /* with two times 64 bits on each system */

/* The milliseconds of a timeout, rounded up; 0: there is none. */
static uint32_t milliseconds(int64_t s, int64_t us)
{
    const int64_t most = UINT32_MAX - 1;
    int64_t ms = s > most / 1000 ? most : s * 1000 + (us + 999) / 1000;
    return ms < 0 ? 0 : (uint32_t)ms;
}

bool sock_options_knows(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO || name == RCVTIMEO_64 ||
                                   name == SNDTIMEO_64 || name == SO_LINGER);
}

/* Reads a timeout. Returns false if the option is none. */
static bool read_timeout(int level, int name, const void *value, socklen_t length, uint32_t *ms)
{
    if (level == SOL_SOCKET && (name == RCVTIMEO_64 || name == SNDTIMEO_64) &&
        length >= 2 * sizeof(int64_t)) {
        int64_t time[2];
        memcpy(time, value, sizeof(time));
        *ms = milliseconds(time[0], time[1]);
        return true;
    }
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO) &&
        length >= sizeof(struct timeval)) {
        struct timeval time;
        memcpy(&time, value, sizeof(time));
        *ms = milliseconds(time.tv_sec, time.tv_usec);
        return true;
    }
    return false;
}

void sock_options_set(struct sock_conn *conn, int level, int name, const void *value, socklen_t length)
{
    uint32_t ms;
    if (read_timeout(level, name, value, length, &ms)) {
        bool receives = name == SO_RCVTIMEO || name == RCVTIMEO_64;
        vipl_store_relaxed(receives ? &conn->receive_ms : &conn->send_ms, ms);
    } else if (level == IPPROTO_TCP && name == TCP_CORK && length >= sizeof(int)) {
        int on;
        memcpy(&on, value, sizeof(on));
        vipl_store_relaxed(&conn->corked, on != 0);
        if (on == 0 && sock_conn_state(conn) == SOCK_MOVED) {
            vipl_stream_push(conn->stream);
        }
    } else if (level == SOL_SOCKET && name == SO_LINGER && length >= sizeof(struct linger)) {
        struct linger linger;
        memcpy(&linger, value, sizeof(linger));
        vipl_store_relaxed(&conn->resets, linger.l_onoff != 0 && linger.l_linger == 0);
    }
}

void sock_options_read(struct sock_conn *conn, int fd)
{
    static const int names[] = {SO_RCVTIMEO, SO_SNDTIMEO, SO_LINGER};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        union {
            struct timeval time;
            struct linger linger;
        } value;
        socklen_t length = sizeof(value);
        if (getsockopt(fd, SOL_SOCKET, names[i], &value, &length) == 0) {
            sock_options_set(conn, SOL_SOCKET, names[i], &value, length);
        }
    }
}

void sock_options_inherit(struct sock_conn *conn, const struct sock_conn *listener)
{
    vipl_store_relaxed(&conn->receive_ms, vipl_load_relaxed(&listener->receive_ms));
    vipl_store_relaxed(&conn->send_ms, vipl_load_relaxed(&listener->send_ms));
    vipl_store_relaxed(&conn->resets, vipl_load_relaxed(&listener->resets));
}

/* Whether only TCP can do what the option asks for. */
static bool needs_tcp(int level, int name)
{
    if (level == SOL_SOCKET) {
        return name == SO_ZEROCOPY || name == SO_OOBINLINE || name == SO_ATTACH_FILTER ||
               name == SO_ATTACH_BPF;
    }
    return level == IPPROTO_TCP && (name == TCP_ULP || name == TCP_REPAIR || name == TCP_MD5SIG);
}

bool sock_options_may_set(struct sock_conn *conn, int level, int name)
{
    if (!needs_tcp(level, name)) {
        return true;
    }
    sock_conn_give_up(conn, SOCK_OPTION);
    return sock_conn_state(conn) != SOCK_MOVED;
}

int sock_options_get(struct sock_conn *conn, int level, int name, void *value, socklen_t *length)
{
    if (level != SOL_SOCKET || name != SO_ERROR || sock_conn_state(conn) < SOCK_MOVED) {
        return SOCK_KERNEL;
    }
    int error = sock_conn_take_error(conn);
    socklen_t size = *length < sizeof(error) ? *length : sizeof(error);
    memcpy(value, &error, size);
    *length = size;
    return 0;
}

int sock_options_ioctl(struct sock_conn *conn, unsigned long command, void *argument)
{
    if (command == FIOASYNC) {
        sock_conn_give_up(conn, SOCK_OPTION);
    }
    enum sock_state state = sock_conn_advance(conn, command == FIONREAD ? POLLIN : 0).state;
    if (state == SOCK_PLAIN || state == SOCK_LISTENING || (state == SOCK_STRIPPING && command != FIONREAD)) {
        return SOCK_KERNEL;
    }
    size_t bytes;
    switch (command) {
    case FIONREAD:
        bytes = state == SOCK_MOVED ? vipl_stream_pending(conn->stream) : 0;
        break;
    case SIOCOUTQ:
    case SIOCOUTQNSD:
        bytes = state == SOCK_MOVED ? vipl_stream_unsent(conn->stream) : 0;
        break;
    case FIOASYNC:
        errno = EOPNOTSUPP;
        return -1;
    default:
        return SOCK_KERNEL;
    }
    *(int *)argument = bytes > INT_MAX ? INT_MAX : (int)bytes;
    return 0;
}

void sock_options_nonblocking(struct sock_conn *conn, bool nonblocking)
{
    vipl_store_relaxed(&conn->nonblocking, nonblocking);
}
