/* SPDX-License-Identifier: MIT */
/* Messages out of a stream and into it. No byte of the next message is received with a message, so
 * that descriptors come with the message they belong to. */
#include "base/framer.h"

#include <errno.h>
#include <string.h>

int vipl_framer_open(struct vipl_framer *framer, int fd, size_t max_bytes, size_t max_kept)
{
    *framer = (struct vipl_framer){.fd = fd, .in = vipl_alloc(max_bytes), .max_kept = max_kept};
    if (framer->in == NULL) {
        vipl_framer_close(framer);
        return ENOMEM;
    }
    return 0;
}

static void close_fds(struct vipl_framer *framer)
{
    for (unsigned i = 0; i < framer->fd_count; i++) {
        vipl_fd_close(framer->fds[i]);
    }
    framer->fd_count = 0;
}

void vipl_framer_close(struct vipl_framer *framer)
{
    close_fds(framer);
    vipl_fd_close(framer->fd);
    vipl_free(framer->in);
    vipl_free(framer->out);
    *framer = (struct vipl_framer){.fd = -1};
}

int vipl_framer_fill(struct vipl_framer *framer, size_t wanted)
{
    while (framer->received < wanted) {
        size_t length = 0;
        unsigned count = 0;
        int error =
            vipl_unix_receive(framer->fd, framer->in + framer->received, wanted - framer->received, &length,
                              framer->fds + framer->fd_count, VIPL_UNIX_FDS - framer->fd_count, &count);
        framer->fd_count += count;
        if (error != 0 || length == 0) {
            return error == 0 ? EPIPE : error;
        }
        framer->received += length;
    }
    return 0;
}

void vipl_framer_next(struct vipl_framer *framer)
{
    close_fds(framer);
    framer->received = 0;
}

static bool make_out_room(struct vipl_framer *framer, size_t more)
{
    size_t needed = framer->out_bytes + more;
    if (needed <= framer->out_room) {
        return true;
    }
    uint8_t *room = needed > framer->max_kept ? NULL : vipl_alloc(framer->max_kept);
    if (room == NULL) {
        return false;
    }
    framer->out = room; /* the first time: there was none */
    framer->out_room = framer->max_kept;
    return true;
}

static void keep_bytes(struct vipl_framer *framer, const void *bytes, size_t length)
{
    if (length > 0) {
        memcpy(framer->out + framer->out_bytes, bytes, length);
        framer->out_bytes += length;
    }
}

/* Sends one piece, or the first part of it. */
static int send_piece(struct vipl_framer *framer, const void *bytes, size_t length, const int *pass,
                      unsigned count, size_t *sent)
{
    int error = framer->out_bytes > 0 || length == 0
                    ? EAGAIN
                    : vipl_unix_send(framer->fd, bytes, length, pass, count, sent);
    return error == EAGAIN ? 0 : error;
}

int vipl_framer_send(struct vipl_framer *framer, const void *bytes, size_t length, const void *data,
                     size_t data_bytes, const int *pass, unsigned count)
{
    size_t sent = 0;
    size_t data_sent = 0;
    if (count > 0 && framer->out_bytes > 0) {
        return ENOBUFS;
    }
    int error = send_piece(framer, bytes, length, pass, count, &sent);
    if (error == 0 && sent == length) {
        error = send_piece(framer, data, data_bytes, NULL, 0, &data_sent);
    }
    size_t left = length - sent + data_bytes - data_sent;
    if (error != 0 || left == 0) {
        return error;
    }
    if ((count > 0 && sent == 0) || !make_out_room(framer, left)) {
        /* a descriptor cannot be kept; it would not be the peer's any more when it is sent */
        return ENOBUFS;
    }
    keep_bytes(framer, (const char *)bytes + sent, length - sent);
    keep_bytes(framer, (const char *)data + data_sent, data_bytes - data_sent);
    return 0;
}

int vipl_framer_flush(struct vipl_framer *framer)
{
    size_t done = 0;
    int error = 0;
    while (error == 0 && done < framer->out_bytes) {
        size_t sent = 0;
        error = vipl_unix_send(framer->fd, framer->out + done, framer->out_bytes - done, NULL, 0, &sent);
        done += sent;
    }
    framer->out_bytes -= done;
    if (done > 0 && framer->out_bytes > 0) {
        memmove(framer->out, framer->out + done, framer->out_bytes);
    }
    return error;
}
