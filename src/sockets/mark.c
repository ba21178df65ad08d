/* SPDX-License-Identifier: MIT */
#include "sockets/mark.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/pool.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "sockets/real.h"
#include "sockets/table.h"

enum { BACKLOG = 4096, LOWEST_FD = 512 };

struct sock_mark {
    struct sock_file file;     /* the table knows the descriptor, so that the program cannot close it */
    struct vipl_list link;     /* in the pool: free */
    struct sock_address place; /* constant */
    uint32_t fd;               /* atomic: the listening socket; NO_FD: another process has the name */
    uint32_t asked_at;         /* atomic: seconds on the clock when a client asked last */
};
#define NO_FD UINT32_MAX

static void make_mark(void *object)
{
    struct sock_mark *mark = object;
    mark->file.kind = &sock_mark_kind;
}

static struct vipl_pool marks = VIPL_POOL_INIT(marks, struct sock_mark, link, make_mark);

static bool is_v4(const struct sock_address *place)
{
    return IN6_IS_ADDR_V4MAPPED(&place->host);
}

/* Returns the name that a listener's mark has. */
static socklen_t name_of(const char *host, uint16_t port, struct sockaddr_un *name)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "vipl/sockets/%u/%s/%u",
                          (unsigned)geteuid(), host, (unsigned)port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)length);
}

void sock_address_host(const struct sock_address *place, char host[SOCK_ADDRESS_BYTES])
{
    bool all_v4 = is_v4(place) && memcmp(&place->host.s6_addr[12], "\0\0\0", 4) == 0;
    if (all_v4 || IN6_IS_ADDR_UNSPECIFIED(&place->host)) {
        strcpy(host, all_v4 ? "*4" : place->is_v6_only ? "*6" : "*");
    } else {
        inet_ntop(AF_INET6, &place->host, host, SOCK_ADDRESS_BYTES);
    }
}

void sock_address_hosts(const struct sock_address *place, char host[SOCK_ADDRESS_BYTES],
                        const char *names[SOCK_ADDRESS_NAMES])
{
    sock_address_host(place, host);
    names[0] = host;
    names[1] = is_v4(place) ? "*4" : "*6";
    names[2] = "*";
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
static int listen_for(const struct sock_address *place)
{
    char host[SOCK_ADDRESS_BYTES];
    struct sockaddr_un name;
    sock_address_host(place, host);
    socklen_t length = name_of(host, place->port, &name);
    int fd = local_socket();
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, BACKLOG) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void take_name(struct sock_mark *mark)
{
    int fd = listen_for(&mark->place);
    if (fd >= 0 && vipl_compare_exchange(&mark->fd, NO_FD, (uint32_t)fd)) {
        sock_table_set(fd, &mark->file);
    } else if (fd >= 0) {
        close(fd);
    }
}

/* The descriptor stays open until the mark is freed. */
static void nothing(struct sock_file *file)
{
    (void)file;
}

static void nothing_moved(struct sock_file *file, int fd, int other)
{
    (void)file;
    (void)fd;
    (void)other;
}

static void free_mark(struct sock_file *file)
{
    vipl_pool_put(&marks, VIPL_CONTAINER(file, struct sock_mark, file));
}

const struct sock_file_kind sock_mark_kind = {nothing, nothing_moved, free_mark};

struct sock_mark *sock_mark_new(const struct sock_address *place)
{
    struct sock_mark *mark = vipl_pool_get(&marks);
    if (mark == NULL) {
        return NULL;
    }
    vipl_list_init(&mark->link);
    mark->place = *place;
    mark->fd = NO_FD;
    mark->asked_at = 0;
    vipl_store_release(&mark->file.refs, 1); /* pairs with sock_file_of() */
    take_name(mark);
    return mark;
}

void sock_mark_free(struct sock_mark *mark)
{
    uint32_t fd = vipl_load_relaxed(&mark->fd);
    if (fd != NO_FD) {
        sock_table_drop((int)fd);
        close((int)fd);
    }
    sock_file_put(&mark->file);
}

void sock_marks_forked(void)
{
    vipl_pool_abandon(&marks);
}

static uint32_t seconds(void)
{
    return (uint32_t)(vipl_now_ns() / 1000000000);
}

bool sock_mark_keep(struct sock_mark *mark)
{
    uint32_t fd = vipl_load_relaxed(&mark->fd);
    if (fd == NO_FD) {
        take_name(mark);
        return true; /* clients may have asked the one who has the name */
    }
    /* poll() costs a third of an accept() that finds nothing, which makes a socket first */
    struct pollfd asked = {.fd = (int)fd, .events = POLLIN};
    int client = -1;
    while (poll(&asked, 1, 0) == 1 && (client = accept4((int)fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        close(client);
        vipl_store_relaxed(&mark->asked_at, seconds());
    }
    return seconds() - vipl_load_relaxed(&mark->asked_at) <= 1;
}

static enum sock_marked ask(int fd, const char *host, uint16_t port)
{
    struct sockaddr_un name;
    struct ucred peer;
    socklen_t length = name_of(host, port, &name);
    socklen_t size = sizeof(peer);
    if (connect(fd, (struct sockaddr *)&name, length) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return SOCK_MARKED_NO;
    }
    return peer.uid != geteuid()    ? SOCK_MARKED_OTHER
           : peer.pid == vipl_pid() ? SOCK_MARKED_SELF
                                    : SOCK_MARKED;
}

enum sock_marked sock_mark_ask(const struct sock_address *place)
{
    char host[SOCK_ADDRESS_BYTES];
    const char *names[SOCK_ADDRESS_NAMES];
    enum sock_marked answer = SOCK_MARKED_NO;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return SOCK_MARKED_NO;
    }
    sock_address_hosts(place, host, names);
    for (size_t i = 0; i < SOCK_ADDRESS_NAMES && answer == SOCK_MARKED_NO; i++) {
        answer = ask(fd, names[i], place->port);
    }
    close(fd);
    return answer;
}
