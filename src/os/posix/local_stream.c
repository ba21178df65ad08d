/* SPDX-License-Identifier: MIT */
/*
 * Messages over stream sockets, where the system has no seqpacket sockets: the length of a message
 * goes before it, in the byte order of this machine, and its descriptors go along with the first
 * byte. A socket has one receiver at a time.
 *
 * A message is sent by one call of the system, which takes all of it or nothing: there is room for
 * the longest message, or the socket is not writable. A receiver looks at the bytes first and takes
 * a message only when all of it is there. A peer that sends anything else is not this library: its
 * connection ends.
 */
#include <errno.h>
#include <string.h>

#include "os/os.h"
#include "os/posix/descriptor.h"
#include "os/posix/local.h"

enum {
    HEADER = sizeof(uint32_t),
    MOST = 1024,       /* bytes of a message */
    MAX_LOOKS = 20,    /* at a message whose rest has not come */
    PAUSE_NS = 1000000 /* between two looks */
};

const int vipl_local_type = SOCK_STREAM;

void vipl_local_tune(int fd)
{
    int room = HEADER + MOST;
    /* Linux has no such option, and takes a message that is much shorter than its buffer whole. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDLOWAT, &room, sizeof(room));
}

/* Ends the connection for both ends, because what follows in the stream is not a message. */
static int end_stream(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
    return EPROTO;
}

int vipl_local_put(int fd, const struct msghdr *msg)
{
    const struct iovec *content = msg->msg_iov;
    uint32_t length = (uint32_t)content->iov_len;
    struct iovec both[] = {{.iov_base = &length, .iov_len = HEADER}, *content};
    struct msghdr whole = *msg;
    ssize_t n;
    if (content->iov_len == 0 || content->iov_len > MOST) {
        return EMSGSIZE;
    }
    whole.msg_iov = both;
    whole.msg_iovlen = 2;
    do {
        n = sendmsg(fd, &whole, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno;
    }
    return (size_t)n == HEADER + content->iov_len ? 0 : end_stream(fd);
}

/* Whether `bytes` are the first of a message. *whole is its length with its header, if that is
 * known. */
static bool is_message(const char *bytes, size_t count, size_t *whole)
{
    uint32_t length;
    *whole = SIZE_MAX;
    if (count < HEADER) {
        return true;
    }
    memcpy(&length, bytes, HEADER);
    *whole = HEADER + (size_t)length;
    return length > 0 && length <= MOST;
}

static ssize_t peek_at_stream(int fd, char bytes[HEADER + MOST])
{
    ssize_t n;
    do {
        n = recv(fd, bytes, HEADER + MOST, MSG_PEEK | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* Finds a message, and waits for its rest, which comes at once if the peer is this library. *whole
 * is its length with its header; 0 at the end of the stream, which may come in the middle of a
 * message. EAGAIN: there is nothing. */
static int find_message(int fd, char bytes[HEADER + MOST], size_t *whole)
{
    bool has_ended = false;
    for (int looks = 0; looks < MAX_LOOKS; looks++) {
        ssize_t n = peek_at_stream(fd, bytes);
        if (n < 0) {
            return errno;
        }
        if (!is_message(bytes, (size_t)n, whole)) {
            return end_stream(fd);
        }
        if ((size_t)n >= *whole) {
            return 0;
        }
        if (n == 0 || has_ended) {
            *whole = 0;
            return 0;
        }
        has_ended = vipl_local_has_hung_up(fd); /* the next look sees all that has come */
        if (!has_ended) {
            vipl_pause(PAUSE_NS);
        }
    }
    return end_stream(fd);
}

int vipl_local_get(int fd, struct msghdr *msg, size_t *length)
{
    char bytes[HEADER + MOST];
    struct iovec *content = msg->msg_iov;
    struct iovec all = {.iov_base = bytes};
    struct msghdr message = *msg;
    ssize_t n;
    int error = find_message(fd, bytes, &all.iov_len);
    msg->msg_controllen = 0;
    if (error != 0 || all.iov_len == 0) {
        *length = 0;
        return error;
    }
    message.msg_iov = &all;
    do {
        n = vipl_fd_receive(fd, &message, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    error = n < 0 ? errno : 0;
    if (error == 0) {
        msg->msg_controllen = message.msg_controllen;
        msg->msg_flags = message.msg_flags;
        error = (size_t)n == all.iov_len ? 0 : end_stream(fd); /* descriptors came in its middle */
    }
    if (error == 0) {
        *length = all.iov_len - HEADER < content->iov_len ? all.iov_len - HEADER : content->iov_len;
        memcpy(content->iov_base, bytes + HEADER, *length);
    }
    return error;
}
