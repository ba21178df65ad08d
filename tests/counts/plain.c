/* SPDX-License-Identifier: MIT */
/*
 * Calls of an ordinary program for a TCP connection. The same program is counted with the sockets
 * library loaded and without it: what the connection costs that stays with TCP. The other end's
 * calls go to the system directly.
 */
#include "counts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tool_text.h"

struct plain {
    int accepted;
    int other;
    int set; /* of epoll; has the accepted end */
};

static bool fail(const char *what)
{
    tool_complain("%s: %s", what, strerror(errno));
    return false;
}

static bool connect_both(struct plain *plain)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    plain->other = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || plain->other < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(plain->other, (struct sockaddr *)&address, length) != 0) {
        return fail("connect");
    }
    plain->accepted = accept(listener, NULL, NULL);
    return plain->accepted >= 0 || fail("accept");
}

static bool watch(struct plain *plain)
{
    struct epoll_event event = {.events = EPOLLIN};
    plain->set = epoll_create1(0);
    return (plain->set >= 0 && epoll_ctl(plain->set, EPOLL_CTL_ADD, plain->accepted, &event) == 0) ||
           fail("epoll");
}

static bool other_writes(const struct plain *plain)
{
    return syscall(SYS_write, plain->other, "x", 1) == 1;
}

static bool other_reads(const struct plain *plain)
{
    char byte;
    return syscall(SYS_read, plain->other, &byte, 1) == 1;
}

static bool call_once(const struct plain *plain, enum counts_op op)
{
    struct pollfd fd = {.fd = plain->accepted, .events = POLLIN};
    struct epoll_event event;
    char byte;

    switch (op) {
    case COUNTS_PLAIN_READ:
        return other_writes(plain) && read(plain->accepted, &byte, 1) == 1;
    case COUNTS_PLAIN_WRITE:
        return write(plain->accepted, "x", 1) == 1 && other_reads(plain);
    case COUNTS_PLAIN_POLL:
        return poll(&fd, 1, COUNTS_TIMEOUT_MS) == 1;
    default:
        return epoll_wait(plain->set, &event, 1, COUNTS_TIMEOUT_MS) == 1;
    }
}

bool counts_run_plain(const struct counts_plan *plan)
{
    struct plain plain;
    char byte;

    /* The first byte shows that the peer does not use VIPL; the second one is there to be waited
     * for. */
    if (!connect_both(&plain) || !watch(&plain) || !other_writes(&plain) ||
        read(plain.accepted, &byte, 1) != 1) {
        return fail("the connection");
    }
    if ((plan->op == COUNTS_PLAIN_POLL || plan->op == COUNTS_PLAIN_EPOLL) && !other_writes(&plain)) {
        return fail("the connection");
    }
    counts_stop_clock();
    for (uint32_t part = 0; part <= plan->parts; part++) { /* the first is for what happens once */
        counts_mark(part > 0);
        for (uint32_t i = 0; i < plan->messages; i++) {
            if (!call_once(&plain, plan->op)) {
                return fail("the call that is counted");
            }
        }
        counts_mark(false);
    }
    return true;
}
