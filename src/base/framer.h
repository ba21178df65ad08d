/* SPDX-License-Identifier: MIT */
/*
 * One end of a local stream of bytes that carries messages, some of them with descriptors. The peer
 * is not trusted; which bytes are a message is for the user of the framer to say.
 *
 * One thread at a time may use a framer.
 */
#ifndef VIPL_BASE_FRAMER_H
#define VIPL_BASE_FRAMER_H

#include <stddef.h>
#include <stdint.h>

#include "os/os.h"

struct vipl_framer {
    int fd;      /* -1: closed */
    uint8_t *in; /* the message that is being received, allocated; the caller knows its size */
    size_t received;
    /* received with the message; a caller that keeps a descriptor stores -1 in its place */
    int fds[VIPL_UNIX_FDS];
    unsigned fd_count;
    uint8_t *out; /* bytes that could not be sent yet; allocated when needed */
    size_t out_bytes;
    size_t out_room;
    size_t max_kept; /* constant: the most bytes that `out` may have */
};

/* Opens a framer on the socket `fd`, which the framer owns, also on failure. `max_bytes`: of a
 * message that is received. `max_kept`: of messages that the peer does not take yet. */
int vipl_framer_open(struct vipl_framer *framer, int fd, size_t max_bytes, size_t max_kept);
void vipl_framer_close(struct vipl_framer *framer);

/* Receives until the first `wanted` bytes of the message, at most max_bytes, are in `in`. EAGAIN:
 * they have not arrived yet. Any other value: the connection has ended. */
int vipl_framer_fill(struct vipl_framer *framer, size_t wanted);
/* Releases the message, and closes its descriptors that the caller has not kept. */
void vipl_framer_next(struct vipl_framer *framer);

/*
 * Sends a whole message: `bytes`, then `data`. Bytes that the socket does not take are kept for
 * vipl_framer_flush(). Descriptors are sent with the first byte, and only while no bytes are kept.
 * On an error the connection has ended. ENOBUFS: the peer does not read.
 */
int vipl_framer_send(struct vipl_framer *framer, const void *bytes, size_t length, const void *data,
                     size_t data_bytes, const int *pass, unsigned count);
/* Sends the kept bytes. EAGAIN: some of them are still kept. */
int vipl_framer_flush(struct vipl_framer *framer);

#endif
