/* SPDX-License-Identifier: MIT */
/*
 * A plain TCP connection, as a program without VIPL would use it: what the tcp device is compared
 * with. The messages have the size and the waiting mode of the VIPL figure beside them; a polling
 * end never sleeps in the kernel. Both ends lie in the two processes of limits.c, on the same two
 * CPUs.
 */
#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tool_os.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool try_later(void)
{
    return (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) && !tool_stop;
}

static bool put(int fd, const unsigned char *bytes, size_t count, bool block)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | (block ? 0 : MSG_DONTWAIT));

        if (sent < 0 && !try_later()) {
            return false;
        }
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool get(int fd, unsigned char *bytes, size_t count, bool block)
{
    while (count > 0) {
        ssize_t received = recv(fd, bytes, count, block ? 0 : MSG_DONTWAIT);

        if (received == 0 || (received < 0 && !try_later())) {
            return false;
        }
        bytes += received > 0 ? received : 0;
        count -= received > 0 ? (size_t)received : 0;
    }
    return true;
}

/* ---- the second process ---------------------------------------------------------------------- */

bool perf_tcp_answer(int fd, unsigned char *memory, const struct perf_tcp_order *order)
{
    bool well = true;

    for (uint32_t i = 0; well && i < order->count; i++) {
        well = get(fd, memory, order->size, order->block) &&
               (order->stream || put(fd, memory, order->size, order->block));
    }
    return well && (!order->stream || put(fd, memory, 1, order->block));
}

/* ---- the first ------------------------------------------------------------------------------- */

bool perf_tcp_pings(int fd, unsigned char *memory, const struct perf_tcp_order *order, struct perf_hist *hist)
{
    uint64_t last = tool_now_ns();

    for (uint32_t i = 0; i < order->count; i++) {
        uint64_t now;

        if (!put(fd, memory, order->size, order->block) || !get(fd, memory, order->size, order->block)) {
            return false;
        }
        now = tool_now_ns();
        if (i > 0) { /* the first wakes the other process up */
            perf_hist_add(hist, now - last);
        }
        last = now;
    }
    return true;
}

uint64_t perf_tcp_stream(int fd, unsigned char *memory, const struct perf_tcp_order *order)
{
    uint64_t start = tool_now_ns();

    for (uint32_t i = 0; i < order->count; i++) {
        if (!put(fd, memory, order->size, order->block)) {
            return 0;
        }
    }
    return get(fd, memory, 1, order->block) ? tool_now_ns() - start : 0;
}

/* ---- the connection -------------------------------------------------------------------------- */

static bool no_delay(int fd)
{
    int on = 1;

    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0;
}

static bool connect_to_self(int listener, int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        return false;
    }
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&address, size) != 0) {
        return false;
    }
    ends[1] = accept(listener, NULL, NULL);
    return ends[1] >= 0 && no_delay(ends[0]) && no_delay(ends[1]);
}

bool perf_tcp_open(int ends[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bool well = listener >= 0 && connect_to_self(listener, ends);

    if (listener >= 0) {
        close(listener);
    }
    return well;
}
