/* SPDX-License-Identifier: MIT */
/* TCP sockets, and the names of hosts. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#endif

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/posix/descriptor.h"
#include "os/posix/sockaddr.h"

#if !defined(TCP_KEEPIDLE) && defined(TCP_KEEPALIVE)
#define TCP_KEEPIDLE TCP_KEEPALIVE /* what macOS calls it */
#endif

_Static_assert(sizeof(struct vipl_iov) == sizeof(struct iovec), "the kernel reads our lists");
_Static_assert(offsetof(struct vipl_iov, len) == offsetof(struct iovec, iov_len),
               "the kernel reads our lists");

enum { BACKLOG = 1024, MIN_SEGMENT = 536, MAX_PIECES = 1024 };

bool vipl_inet_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out)
{
    return vipl_sockaddr_resolve(name, index, host_len, out);
}

int vipl_host_full_name(char *name, size_t size)
{
    const struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int error = vipl_host_name(name, size);
    if (error != 0) {
        return error;
    }
    if (getaddrinfo(name, NULL, &hints, &list) != 0) {
        return ENOENT;
    }
    const char *full = list->ai_canonname;
    error = full == NULL || strlen(full) >= size ? ENOENT : 0;
    if (error == 0) {
        memcpy(name, full, strlen(full) + 1);
    }
    freeaddrinfo(list);
    return error;
}

bool vipl_inet_reverse(const struct vipl_inet *inet, char *name, size_t size)
{
    return vipl_sockaddr_reverse(inet, name, size);
}

static uint32_t ipv4_of(const struct vipl_inet *inet)
{
    uint32_t bits;
    memcpy(&bits, inet->host, sizeof(bits));
    return ntohl(bits);
}

/* Whether the address is that of a host in own's network: neither the network nor its broadcast
 * address. */
static bool is_host_of(const struct vipl_inet *inet, const struct vipl_inet *own,
                       const struct vipl_inet *mask)
{
    uint32_t host = ipv4_of(inet) & ~ipv4_of(mask);
    bool same = ((ipv4_of(inet) ^ ipv4_of(own)) & ipv4_of(mask)) == 0;
    return same && host != 0 && host != ~ipv4_of(mask);
}

static bool has_address(const struct ifaddrs *interface, const struct vipl_inet *inet)
{
    struct vipl_inet own;
    struct vipl_inet mask;
    if (interface->ifa_addr == NULL) {
        return false;
    }
    vipl_sockaddr_read((const void *)interface->ifa_addr, &own);
    if (own.host_len != inet->host_len) {
        return false;
    }
    if (memcmp(own.host, inet->host, own.host_len) == 0) {
        return own.scope == inet->scope;
    }
    if (own.host_len != 4 || (interface->ifa_flags & IFF_LOOPBACK) == 0 || interface->ifa_netmask == NULL) {
        return false;
    }
    vipl_sockaddr_read((const void *)interface->ifa_netmask, &mask);
    return mask.host_len == 4 && is_host_of(inet, &own, &mask);
}

bool vipl_inet_is_own(const struct vipl_inet *inet)
{
    struct ifaddrs *list;
    bool own = false;
    if (getifaddrs(&list) != 0) {
        return false;
    }
    for (const struct ifaddrs *each = list; each != NULL && !own; each = each->ifa_next) {
        own = has_address(each, inet);
    }
    freeifaddrs(list);
    return own;
}

static void set_option(int fd, int level, int option, int value)
{
    /* ignored: the socket works without the option */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

#ifdef TCP_KEEPIDLE
static int seconds(uint32_t ms)
{
    return ms < 1000 ? 1 : (int)(ms / 1000);
}

/* Sets when the system asks a silent peer whether it is still there. */
static void set_keepalive_times(int fd, const struct vipl_socket_tuning *tuning)
{
    uint32_t left = tuning->timeout_ms > tuning->idle_ms ? tuning->timeout_ms - tuning->idle_ms : 1000;
    int pause = seconds(left / 4);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(tuning->idle_ms));
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT,
               seconds(left) / pause); /* four probes, if that is at least four seconds */
}
#else
/* The times are the system's own, for all sockets. */
static void set_keepalive_times(int fd, const struct vipl_socket_tuning *tuning)
{
    (void)fd;
    (void)tuning;
}
#endif

/* Sets the options that every socket of the library has. */
static void set_tcp_options(int fd, const struct vipl_socket_tuning *tuning)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_keepalive_times(fd, tuning);
#if defined(TCP_USER_TIMEOUT) && !defined(__linux__)
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)tuning->timeout_ms);
#elif defined(TCP_RXT_CONNDROPTIME) /* macOS */
    set_option(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, seconds(tuning->timeout_ms));
#endif
    if (tuning->buffer > 0) {
        set_option(fd, SOL_SOCKET, SO_SNDBUF, (int)tuning->buffer);
        set_option(fd, SOL_SOCKET, SO_RCVBUF, (int)tuning->buffer);
    }
}

/* Linux gives an accepted socket all options of its listener. Other systems need not. */
static void tune_accepted(int fd, const struct vipl_socket_tuning *tuning)
{
#ifdef __linux__
    (void)fd;
    (void)tuning;
#else
    set_tcp_options(fd, tuning);
#endif
}

static int open_tcp_socket(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *out)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE)
                 ? -1
                 : vipl_fd_socket(local->host_len == 4 ? AF_INET : AF_INET6, SOCK_STREAM);
    int error = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (error == 0) {
        set_tcp_options(fd, tuning);
        *out = fd;
    }
    return error;
}

static int bind_to(int fd, const struct vipl_inet *local)
{
    union vipl_sockaddr address;
    socklen_t size = vipl_sockaddr_of(local, &address);
    return bind(fd, &address.any, size) == 0 ? 0 : errno;
}

int vipl_socket_listen(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *fd)
{
    int made = -1; /* gcc at -O3 asks for a value */
    int error = open_tcp_socket(local, tuning, &made);
    if (error != 0) {
        return error;
    }
    /* takes a port whose connections have just ended */
    set_option(made, SOL_SOCKET, SO_REUSEADDR, 1);
    if (local->host_len == 16) {
        set_option(made, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    error = bind_to(made, local);
    if (error == 0 && listen(made, BACKLOG) != 0) {
        error = errno;
    }
    if (error != 0) {
        vipl_fd_close(made);
        return error;
    }
    *fd = made;
    return 0;
}

int vipl_socket_accept(int listener, const struct vipl_socket_tuning *tuning, int *fd, struct vipl_inet *peer)
{
    union vipl_sockaddr address = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof(address);
    int made;
    vipl_fd_begin();
    do {
        made = vipl_resource_fails(EMFILE) ? -1 : vipl_fd_accept(listener, &address.any, &size);
    } while (made < 0 && (errno == EINTR || errno == ECONNABORTED));
    int error = vipl_fd_adopt(&made);
    error = error == EWOULDBLOCK ? EAGAIN : error;
    vipl_fd_end();
    if (error == 0) {
        tune_accepted(made, tuning);
        vipl_sockaddr_read(&address, peer);
        *fd = made;
    }
    return error;
}

int vipl_socket_connect(const struct vipl_inet *local, const struct vipl_inet *remote,
                        const struct vipl_socket_tuning *tuning, int *fd)
{
    union vipl_sockaddr address;
    struct vipl_inet from = *local;
    int made = -1; /* gcc at -O3 asks for a value */
    int error = open_tcp_socket(remote, tuning, &made);
    if (error != 0) {
        return error;
    }
    from.port = 0;
#ifdef IP_BIND_ADDRESS_NO_PORT
    set_option(made, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT,
               1); /* a port for each pair of ends, not for each end */
#endif
    error = from.host_len == remote->host_len ? bind_to(made, &from) : 0;
    socklen_t size = vipl_sockaddr_of(remote, &address);
    if (error == 0 && connect(made, &address.any, size) != 0 && errno != EINPROGRESS && errno != EINTR) {
        error = errno;
    }
    if (error != 0) {
        vipl_fd_close(made);
        return error;
    }
    *fd = made;
    return 0;
}

int vipl_socket_connect_result(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Linux's TCP_USER_TIMEOUT does not serve: it also ends connections whose peer replies with a
 * closed window because its program is busy, and it comes late if the network has gone. */
bool vipl_socket_signs_of_life(int fd, struct vipl_socket_signs *out)
{
#ifdef __linux__
    struct tcp_info info;
    socklen_t size = sizeof(info);
    memset(&info, 0, sizeof(info));
    int queued = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || ioctl(fd, SIOCOUTQ, &queued) != 0) {
        return false;
    }
    out->queued = queued > 0;
    out->silent_ms = info.tcpi_last_ack_recv;
    out->unanswered = info.tcpi_unacked > 0;
    out->probed = info.tcpi_probes > 1; /* the answer to one may be on its way */
    return true;
#else
    (void)fd;
    (void)out;
    return false;
#endif
}

uint32_t vipl_socket_segment_bytes(int fd)
{
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    bool known = getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) == 0;
    return known && bytes > MIN_SEGMENT ? (uint32_t)bytes : MIN_SEGMENT;
}

static int transfer_result(ssize_t n, size_t *bytes)
{
    if (n < 0) {
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    }
    *bytes = (size_t)n;
    return 0;
}

/* For tests: describes at most `most` bytes of the first non-empty piece, as if the system moved no
 * more. Returns false if there is no limit: the caller then uses the whole list. */
static bool limit_for_test(const struct vipl_iov *pieces, unsigned count, uint32_t most,
                           struct vipl_iov *first)
{
    unsigned i = 0;
    if (most == 0 || count == 0) {
        return false;
    }
    while (i + 1 < count && pieces[i].len == 0) {
        i++;
    }
    first->base = pieces[i].base;
    first->len = pieces[i].len < most ? pieces[i].len : most;
    return true;
}

static void fill_message(struct msghdr *message, const struct vipl_iov *pieces, unsigned count)
{
    memset(message, 0, sizeof(*message));
    message->msg_iov = (struct iovec *)(uintptr_t)pieces;
    message->msg_iovlen = count > MAX_PIECES ? MAX_PIECES : count;
}

#ifdef MSG_MORE
enum { MORE = MSG_MORE };
#else
enum { MORE = 0 };
#endif

/* Sending and receiving one piece costs the kernel less than a list. Plain system calls are no
 * cancellation points, which the C library's functions are. ThreadSanitizer has to see the latter,
 * because what is sent happens before what is received. */
#if defined(SYS_sendto) && defined(SYS_recvfrom) && !defined(__SANITIZE_THREAD__)
static ssize_t send_piece(int fd, const struct vipl_iov *piece, int flags)
{
    return syscall(SYS_sendto, fd, piece->base, piece->len, flags, NULL, 0);
}

static ssize_t receive_piece(int fd, const struct vipl_iov *piece)
{
    return syscall(SYS_recvfrom, fd, piece->base, piece->len, MSG_DONTWAIT, NULL, NULL);
}
#else
static ssize_t send_piece(int fd, const struct vipl_iov *piece, int flags)
{
    int cancel = vipl_cancel_off();
    ssize_t n = send(fd, piece->base, piece->len, flags);
    vipl_cancel_restore(cancel);
    return n;
}

static ssize_t receive_piece(int fd, const struct vipl_iov *piece)
{
    int cancel = vipl_cancel_off();
    ssize_t n = recv(fd, piece->base, piece->len, MSG_DONTWAIT);
    vipl_cancel_restore(cancel);
    return n;
}
#endif

static ssize_t send_pieces(int fd, const struct vipl_iov *pieces, unsigned count, int flags)
{
    struct msghdr message;
    fill_message(&message, pieces, count);
    int cancel = vipl_cancel_off();
    ssize_t n = sendmsg(fd, &message, flags);
    vipl_cancel_restore(cancel);
    return n;
}

static ssize_t receive_pieces(int fd, const struct vipl_iov *pieces, unsigned count)
{
    struct msghdr message;
    fill_message(&message, pieces, count);
    return recvmsg(fd, &message, MSG_DONTWAIT);
}

int vipl_socket_send(int fd, const struct vipl_iov *pieces, unsigned count, bool more, size_t *sent)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MORE : 0);
    struct vipl_iov few;
    ssize_t n;
    if (limit_for_test(pieces, count, vipl_load_relaxed(&vipl_test_hooks.max_sent), &few)) {
        pieces = &few;
        count = 1;
    }
    do {
        n = count == 1 ? send_piece(fd, pieces, flags) : send_pieces(fd, pieces, count, flags);
    } while (n < 0 && errno == EINTR);
    return transfer_result(n, sent);
}

/* Setting TCP_NODELAY again sends what the kernel holds back. */
void vipl_socket_push(int fd)
{
    if (MORE != 0) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
}

int vipl_socket_receive(int fd, const struct vipl_iov *pieces, unsigned count, size_t *received)
{
    struct vipl_iov few;
    ssize_t n;
    if (limit_for_test(pieces, count, vipl_load_relaxed(&vipl_test_hooks.max_received), &few)) {
        pieces = &few;
        count = 1;
    }
    do {
        n = count == 1 ? receive_piece(fd, pieces) : receive_pieces(fd, pieces, count);
    } while (n < 0 && errno == EINTR);
    return transfer_result(n, received);
}

void vipl_socket_finish(int fd)
{
    (void)shutdown(fd, SHUT_WR); /* fails only if the peer has gone */
}
