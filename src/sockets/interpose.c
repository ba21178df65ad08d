/* SPDX-License-Identifier: MIT */
/*
 * The exported functions, but those that wait. Each looks its descriptor up; for a connection that
 * is the kernel's, or is no connection, it makes the kernel's call.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sockets/attach.h"
#include "sockets/conn.h"
#include "sockets/descriptors.h"
#include "sockets/interpose.h"
#include "sockets/io.h"
#include "sockets/options.h"
#include "sockets/process.h"
#include "sockets/real.h"
#include "sockets/rights.h"
#include "sockets/stats.h"

/* What programs are compiled to with _FORTIFY_SOURCE; no header declares them. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from,
                       socklen_t *length);

/* --- the beginning and the end of each call --- */

enum lookup { OF_KERNEL, OF_CONNECTION, OF_BUSY };

/* Finds the connection that a descriptor stands for, and enters the library. OF_BUSY: the caller is
 * a signal handler whose thread is inside the library, and the call fails. */
static enum lookup begin(int fd, struct sock_conn **conn)
{
    *conn = sock_descriptor_is_kernels(fd) ? NULL : sock_conn_of(fd);
    if (*conn == NULL) {
        return OF_KERNEL;
    }
    if (sock_enter()) {
        return OF_CONNECTION;
    }
    enum sock_state state = sock_conn_state(*conn);
    sock_conn_put(*conn);
    errno = EAGAIN;
    return state == SOCK_PLAIN || state == SOCK_LISTENING ? OF_KERNEL : OF_BUSY;
}

static void end(struct sock_conn *conn)
{
    int error = errno;
    sock_conn_put(conn);
    sock_leave();
    errno = error;
}

/* Calls `call` for a connection; the result is SOCK_KERNEL if the kernel's call is to be made. */
#define ON_CONNECTION(result, fd, call) \
    do { \
        struct sock_conn *conn; \
        enum lookup found = begin(fd, &conn); \
        (result) = found == OF_BUSY ? -1 : SOCK_KERNEL; \
        if (found == OF_CONNECTION) { \
            (result) = (call); \
            end(conn); \
        } \
    } while (false)

/* Raises SIGPIPE where the kernel would. */
static ssize_t sent(ssize_t result, int flags)
{
    if (result < 0 && errno == EPIPE && (flags & MSG_NOSIGNAL) == 0) {
        raise(SIGPIPE);
        errno = EPIPE;
    }
    return result;
}

/* --- receiving --- */

ssize_t recv(int fd, void *to, size_t size, int flags)
{
    struct iovec piece = {to, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_receive(conn, &piece, 1, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(recv)(fd, to, size, flags) : result;
}

ssize_t read(int fd, void *to, size_t size)
{
    struct iovec piece = {to, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_receive(conn, &piece, 1, SOCK_OF_FILES));
    return result == SOCK_KERNEL ? SOCK_REAL(read)(fd, to, size) : result;
}

ssize_t readv(int fd, const struct iovec *pieces, int count)
{
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_receive(conn, pieces, (size_t)count, SOCK_OF_FILES));
    return result == SOCK_KERNEL ? SOCK_REAL(readv)(fd, pieces, count) : result;
}

ssize_t recvfrom(int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length)
{
    struct iovec piece = {to, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_receive(conn, &piece, 1, flags));
    if (result == SOCK_KERNEL) {
        return SOCK_REAL(recvfrom)(fd, to, size, flags, from, length);
    }
    if (result >= 0 && length != NULL) {
        *length = 0; /* as the kernel says of TCP */
    }
    return result;
}

static ssize_t receive_message(struct sock_conn *conn, struct msghdr *message, int flags)
{
    ssize_t result = sock_io_receive(conn, message->msg_iov, message->msg_iovlen, flags);
    if (result >= 0) {
        message->msg_namelen = 0;
        message->msg_controllen = 0;
        message->msg_flags = 0;
    }
    return result;
}

static ssize_t receive_by(ssize_t (*real)(int, struct msghdr *, int), int fd, struct msghdr *message,
                          int flags)
{
    ssize_t result;
    ON_CONNECTION(result, fd, receive_message(conn, message, flags));
    if (result == SOCK_KERNEL) {
        result = real(fd, message, flags);
        if (result >= 0) {
            sock_rights_received(message);
        }
    }
    return result;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return receive_by(SOCK_REAL(recvmsg), fd, message, flags);
}

static int receive_messages(struct sock_conn *conn, struct mmsghdr *messages, unsigned count, int flags)
{
    int done = 0;
    int error = sock_conn_take_error(conn); /* the kernel looks for it first, in this call alone */
    if (error != 0) {
        errno = error;
        return -1;
    }
    while ((unsigned)done < count) {
        int now = flags | (done > 0 && (flags & MSG_WAITFORONE) != 0 ? MSG_DONTWAIT : 0);
        ssize_t result = receive_message(conn, &messages[done].msg_hdr, now & ~MSG_WAITFORONE);
        if (result < 0) {
            return done > 0 ? done : (int)result;
        }
        messages[done++].msg_len = (unsigned)result;
        if (result == 0) {
            break;
        }
    }
    return done;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    int result;
    ON_CONNECTION(result, fd, receive_messages(conn, messages, count, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(recvmmsg)(fd, messages, count, flags, timeout) : result;
}

ssize_t __read_chk(int fd, void *to, size_t size, size_t room)
{
    return size <= room ? read(fd, to, size) : SOCK_REAL(__read_chk)(fd, to, size, room);
}

ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    return size <= room ? recv(fd, to, size, flags) : SOCK_REAL(__recv_chk)(fd, to, size, room, flags);
}

ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from,
                       socklen_t *length)
{
    return size <= room ? recvfrom(fd, to, size, flags, from, length)
                        : SOCK_REAL(__recvfrom_chk)(fd, to, size, room, flags, from, length);
}

/* --- sending --- */

ssize_t send(int fd, const void *from, size_t size, int flags)
{
    struct iovec piece = {(void *)(uintptr_t)from, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send(conn, &piece, 1, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(send)(fd, from, size, flags) : sent(result, flags);
}

ssize_t write(int fd, const void *from, size_t size)
{
    struct iovec piece = {(void *)(uintptr_t)from, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send(conn, &piece, 1, 0));
    return result == SOCK_KERNEL ? SOCK_REAL(write)(fd, from, size) : sent(result, 0);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send(conn, pieces, (size_t)count, SOCK_OF_FILES));
    return result == SOCK_KERNEL ? SOCK_REAL(writev)(fd, pieces, count) : sent(result, 0);
}

ssize_t sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    struct iovec piece = {(void *)(uintptr_t)from, size};
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send(conn, &piece, 1, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(sendto)(fd, from, size, flags, to, length) : sent(result, flags);
}

static ssize_t send_by(ssize_t (*real)(int, const struct msghdr *, int), int fd, const struct msghdr *message,
                       int flags)
{
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send(conn, message->msg_iov, message->msg_iovlen, flags));
    if (result != SOCK_KERNEL) {
        return sent(result, flags);
    }
    return sock_rights_may_pass(message) ? real(fd, message, flags) : -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return send_by(SOCK_REAL(sendmsg), fd, message, flags);
}

static int send_messages(struct sock_conn *conn, struct mmsghdr *messages, unsigned count, int flags)
{
    int done = 0;
    while ((unsigned)done < count) {
        const struct msghdr *message = &messages[done].msg_hdr;
        ssize_t result = sock_io_send(conn, message->msg_iov, message->msg_iovlen, flags);
        if (result < 0) {
            return done > 0 ? done : (int)result;
        }
        messages[done++].msg_len = (unsigned)result;
    }
    return done;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int result;
    ON_CONNECTION(result, fd, send_messages(conn, messages, count, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(sendmmsg)(fd, messages, count, flags) : (int)sent(result, flags);
}

ssize_t sendfile64(int fd, int from, off64_t *offset, size_t size)
{
    ssize_t result;
    ON_CONNECTION(result, fd, sock_io_send_file(conn, from, offset, size));
    return result == SOCK_KERNEL ? SOCK_REAL(sendfile64)(fd, from, offset, size) : sent(result, 0);
}

ssize_t sendfile(int fd, int from, off_t *offset, size_t size)
{
    off64_t at = offset == NULL ? 0 : *offset;
    ssize_t result = sendfile64(fd, from, offset == NULL ? NULL : &at, size);
    if (offset != NULL) {
        *offset = (off_t)at;
    }
    return result;
}

/* Programs fall back to read() and write() at EINVAL. */
ssize_t splice(int from, off64_t *at, int to, off64_t *to_at, size_t size, unsigned flags)
{
    if (sock_descriptor_is_kernels(from) && sock_descriptor_is_kernels(to)) {
        return SOCK_REAL(splice)(from, at, to, to_at, size, flags);
    }
    errno = EINVAL;
    return -1;
}

/* --- connections --- */

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int result = SOCK_REAL(connect)(fd, to, length);
    int error = errno;
    bool has_begun = result == 0 || error == EINPROGRESS || error == EINTR;
    if (has_begun && sock_is_inet(to, length) && sock_enter()) {
        sock_attach_connected(fd, to, length);
        sock_leave();
    }
    errno = error;
    return result;
}

int listen(int fd, int backlog)
{
    int result = SOCK_REAL(listen)(fd, backlog);
    int error = errno;
    if (result == 0 && sock_enter()) {
        sock_attach_listener(fd);
        sock_leave();
    }
    errno = error;
    return result;
}

/* The peer's address: in the caller's memory, which has `room` bytes, if that is enough. */
static int accepted(int listener, int fd, int flags, const struct sockaddr *from, socklen_t room,
                    const socklen_t *length)
{
    int error = errno;
    if (fd >= 0 && sock_enter()) {
        bool is_there = from != NULL && length != NULL && *length <= room;
        sock_attach_accepted(listener, fd, (flags & SOCK_NONBLOCK) != 0, is_there ? from : NULL,
                             is_there ? *length : 0);
        sock_leave();
    }
    errno = error;
    return fd;
}

int accept(int fd, struct sockaddr *from, socklen_t *length)
{
    socklen_t room = from != NULL && length != NULL ? *length : 0;
    return accepted(fd, SOCK_REAL(accept)(fd, from, length), 0, from, room, length);
}

int accept4(int fd, struct sockaddr *from, socklen_t *length, int flags)
{
    socklen_t room = from != NULL && length != NULL ? *length : 0;
    return accepted(fd, SOCK_REAL(accept4)(fd, from, length, flags), flags, from, room, length);
}

int shutdown(int fd, int how)
{
    int result;
    ON_CONNECTION(result, fd, sock_io_shutdown(conn, how));
    return result == SOCK_KERNEL ? SOCK_REAL(shutdown)(fd, how) : result;
}

/* --- options --- */

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    int result;
    ON_CONNECTION(result, fd, sock_options_get(conn, level, name, value, length));
    return result == SOCK_KERNEL ? SOCK_REAL(getsockopt)(fd, level, name, value, length) : result;
}

static int set_option(struct sock_conn *conn, int (*real)(int, int, int, const void *, socklen_t), int fd,
                      int level, int name, const void *value, socklen_t length)
{
    if (!sock_options_may_set(conn, level, name)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    int result = real(fd, level, name, value, length);
    if (result == 0) {
        sock_options_set(conn, level, name, value, length);
    }
    return result;
}

static int set_any_option(int (*real)(int, int, int, const void *, socklen_t), int fd, int level, int name,
                          const void *value, socklen_t length)
{
    int result;
    ON_CONNECTION(result, fd, set_option(conn, real, fd, level, name, value, length));
    if (result != SOCK_KERNEL) {
        return result;
    }
    result = real(fd, level, name, value, length);
    if (result == 0 && sock_options_knows(level, name) && sock_enter()) {
        struct sock_conn *listener = sock_conn_of(fd);
        if (listener != NULL) {
            sock_options_set(listener, level, name, value, length);
            sock_conn_put(listener);
        }
        sock_leave();
    }
    return result;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    return set_any_option(SOCK_REAL(setsockopt), fd, level, name, value, length);
}

static int control_device(int (*real)(int, unsigned long, ...), int fd, unsigned long command, void *argument)
{
    int result;
    ON_CONNECTION(result, fd, sock_options_ioctl(conn, command, argument));
    if (result != SOCK_KERNEL) {
        return result;
    }
    result = real(fd, command, argument);
    if (result == 0 && command == FIONBIO) {
        sock_descriptor_nonblocking(fd, *(const int *)argument != 0);
    }
    return result;
}

int ioctl(int fd, unsigned long command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control_device(SOCK_REAL(ioctl), fd, command, argument);
}

static int control(int (*real)(int, int, ...), int fd, int command, void *argument)
{
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        int to = real(fd, command, argument);
        return sock_descriptor_duplicated(fd, to);
    }
    if (command == F_SETFL && ((int)(intptr_t)argument & O_ASYNC) != 0 && !sock_descriptor_stays(fd)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    int result = real(fd, command, argument);
    if (result == 0 && command == F_SETFL) {
        sock_descriptor_nonblocking(fd, ((int)(intptr_t)argument & O_NONBLOCK) != 0);
    }
    return result;
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control(SOCK_REAL(fcntl), fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control(SOCK_REAL(fcntl64), fd, command, argument);
}

/* --- descriptors --- */

int close(int fd)
{
    return sock_descriptor_drop(fd) ? SOCK_REAL(close)(fd) : -1;
}

int close_range(unsigned first, unsigned last, int flags)
{
    return sock_descriptors_close(first, last, flags);
}

void closefrom(int first)
{
    int error = errno;
    if (sock_descriptors_close(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0) != 0) {
        SOCK_REAL(closefrom)(first);
    }
    errno = error;
}

int dup(int fd)
{
    return sock_descriptor_duplicated(fd, SOCK_REAL(dup)(fd));
}

int dup2(int fd, int to)
{
    if (fd == to || !sock_descriptor_may_replace(fd, to)) {
        return fd == to ? SOCK_REAL(dup2)(fd, to) : -1;
    }
    return sock_descriptor_duplicated(fd, SOCK_REAL(dup2)(fd, to));
}

int dup3(int fd, int to, int flags)
{
    if (fd == to || !sock_descriptor_may_replace(fd, to)) {
        return fd == to ? SOCK_REAL(dup3)(fd, to, flags) : -1;
    }
    return sock_descriptor_duplicated(fd, SOCK_REAL(dup3)(fd, to, flags));
}

/* --- a time_t of 64 bits on 32-bit systems --- */

#ifdef SOCK_TIME64
/* No header declares them under these names. */
int __fcntl_time64(int fd, int command, ...);
int __ioctl_time64(int fd, unsigned long command, ...);
ssize_t __recvmsg64(int fd, struct msghdr *message, int flags);
ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags);
int __recvmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags,
                 struct sock_timespec64 *timeout);
int __sendmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __getsockopt64(int fd, int level, int name, void *value, socklen_t *length);
int __setsockopt64(int fd, int level, int name, const void *value, socklen_t length);

int __fcntl_time64(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control(SOCK_REAL(__fcntl_time64), fd, command, argument);
}

int __ioctl_time64(int fd, unsigned long command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control_device(SOCK_REAL(__ioctl_time64), fd, command, argument);
}

ssize_t __recvmsg64(int fd, struct msghdr *message, int flags)
{
    return receive_by(SOCK_REAL(__recvmsg64), fd, message, flags);
}

ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags)
{
    return send_by(SOCK_REAL(__sendmsg64), fd, message, flags);
}

int __recvmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags, struct sock_timespec64 *timeout)
{
    int result;
    ON_CONNECTION(result, fd, receive_messages(conn, messages, count, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(__recvmmsg64)(fd, messages, count, flags, timeout) : result;
}

int __sendmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int result;
    ON_CONNECTION(result, fd, send_messages(conn, messages, count, flags));
    return result == SOCK_KERNEL ? SOCK_REAL(__sendmmsg64)(fd, messages, count, flags)
                                 : (int)sent(result, flags);
}

int __getsockopt64(int fd, int level, int name, void *value, socklen_t *length)
{
    int result;
    ON_CONNECTION(result, fd, sock_options_get(conn, level, name, value, length));
    return result == SOCK_KERNEL ? SOCK_REAL(__getsockopt64)(fd, level, name, value, length) : result;
}

int __setsockopt64(int fd, int level, int name, const void *value, socklen_t length)
{
    return set_any_option(SOCK_REAL(__setsockopt64), fd, level, name, value, length);
}
#endif

/* --- the end of the program --- */

void _exit(int status)
{
    sock_process_end();
    if (sock_process_is_own()) {
        sock_stats_print();
    }
    SOCK_REAL(_exit)(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

/* --- for the library itself --- */

ssize_t sock_program_recv(int fd, void *to, size_t size, int flags)
{
    return recv(fd, to, size, flags);
}

ssize_t sock_program_send(int fd, const void *from, size_t size, int flags)
{
    return send(fd, from, size, flags);
}

int sock_program_close(int fd)
{
    return close(fd);
}
