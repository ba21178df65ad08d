/* SPDX-License-Identifier: MIT */
#include "sockets/mark.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "sockets/real.h"

enum { BACKLOG = 4096, LOWEST_FD = 512 };

struct sock_mark {
    uint16_t port;     /* constant */
    uint32_t fd;       /* atomic: the listening socket; NO_FD: another process has the name */
    uint32_t asked_at; /* atomic: seconds on the clock when a client asked last */
};
#define NO_FD UINT32_MAX

static socklen_t name_of(uint16_t port, struct sockaddr_un *name)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "vipl/sockets/%u/%u",
                          (unsigned)geteuid(), (unsigned)port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)length);
}

/* Makes a socket that is out of the way of the program's low numbers. */
static int local_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    if (high < 0) {
        return fd;
    }
    close(fd);
    return high;
}

/* Returns a socket that listens for a mark; -1: the name is taken, or there is no descriptor. */
static int listen_for(uint16_t port)
{
    struct sockaddr_un name;
    socklen_t length = name_of(port, &name);
    int fd = local_socket();
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, BACKLOG) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

struct sock_mark *sock_mark_new(uint16_t port)
{
    struct sock_mark *mark = vipl_zalloc(sizeof(*mark));
    if (mark != NULL) {
        mark->port = port;
        mark->fd = (uint32_t)listen_for(port);
    }
    return mark;
}

void sock_mark_free(struct sock_mark *mark)
{
    uint32_t fd = vipl_load_relaxed(&mark->fd);
    if (fd != NO_FD) {
        close((int)fd);
    }
    vipl_free(mark);
}

static uint32_t seconds(void)
{
    return (uint32_t)(vipl_now_ns() / 1000000000);
}

bool sock_mark_keep(struct sock_mark *mark)
{
    uint32_t fd = vipl_load_relaxed(&mark->fd);
    if (fd == NO_FD) {
        uint32_t mine = (uint32_t)listen_for(mark->port);
        if (mine != NO_FD && !vipl_compare_exchange(&mark->fd, NO_FD, mine)) {
            close((int)mine);
        }
        return true; /* clients may have asked the one who has the name */
    }
    for (;;) {
        int client = accept4((int)fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) {
            return seconds() - vipl_load_relaxed(&mark->asked_at) <= 1;
        }
        close(client);
        vipl_store_relaxed(&mark->asked_at, seconds());
    }
}

enum sock_marked sock_mark_ask(uint16_t port)
{
    struct sockaddr_un name;
    struct ucred peer;
    socklen_t length = name_of(port, &name);
    socklen_t size = sizeof(peer);
    enum sock_marked answer = SOCK_MARKED_NO;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return SOCK_MARKED_NO;
    }
    if (connect(fd, (struct sockaddr *)&name, length) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        answer = peer.uid != geteuid()    ? SOCK_MARKED_OTHER
                 : peer.pid == vipl_pid() ? SOCK_MARKED_SELF
                                          : SOCK_MARKED;
    }
    close(fd);
    return answer;
}
