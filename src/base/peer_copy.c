/* SPDX-License-Identifier: MIT */
/* Copies lists in as many system calls as they need. Each call checks the identity of the peer by
 * itself. */
#include "base/peer_copy.h"

#include "os/os_compiler.h"

/* The rest of a list. If there is a first piece, it has bytes left. */
struct rest {
    const struct vipl_iov *piece;
    unsigned count;
    size_t done; /* bytes of the first piece */
};

static void skip_empty(struct rest *rest)
{
    while (rest->count > 0 && rest->piece->len == rest->done) {
        rest->piece++;
        rest->count--;
        rest->done = 0;
    }
}

static struct rest whole_list(const struct vipl_iov *pieces, unsigned count)
{
    struct rest rest = {pieces, count, 0};
    skip_empty(&rest);
    return rest;
}

/* Returns the number of bytes of the next pieces that fit into one call, at most `most`. */
static size_t bytes_ahead(const struct rest *rest, size_t most)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < rest->count && i < VIPL_PEER_PIECES - 1 && bytes < most; i++) {
        bytes += rest->piece[i].len - (i == 0 ? rest->done : 0);
    }
    return bytes < most ? bytes : most;
}

/* Takes `bytes` bytes off the rest of the list; returns the number of pieces in `out`. */
static unsigned take_pieces(struct rest *rest, size_t bytes, struct vipl_iov *out)
{
    unsigned n = 0;
    while (bytes > 0) {
        size_t left = rest->piece->len - rest->done;
        size_t taken = left < bytes ? left : bytes;
        out[n++] = (struct vipl_iov){(char *)rest->piece->base + rest->done, taken};
        bytes -= taken;
        rest->done += taken;
        skip_empty(rest);
    }
    return n;
}

static VIPL_NOINLINE int copy_long_lists(const struct vipl_peer *peer, bool write,
                                         const struct vipl_iov *local, unsigned locals,
                                         const struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    struct vipl_iov here[VIPL_PEER_PIECES];
    struct vipl_iov there[VIPL_PEER_PIECES];
    struct rest here_left = whole_list(local, locals);
    struct rest there_left = whole_list(remote, remotes);
    int error = 0;
    do {
        size_t step = bytes_ahead(&there_left, bytes_ahead(&here_left, bytes));
        unsigned n = take_pieces(&here_left, step, here + 1);
        unsigned m = take_pieces(&there_left, step, there + 1);
        error = write ? vipl_peer_write(peer, here, n + 1, there, m + 1, step)
                      : vipl_peer_read(peer, here, n + 1, there, m + 1, step);
        bytes -= step;
    } while (error == 0 && bytes > 0);
    return error;
}

int vipl_peer_copy_lists(const struct vipl_peer *peer, bool write, const struct vipl_iov *local,
                         unsigned locals, const struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    if (locals != 1 || remotes != 1) {
        return copy_long_lists(peer, write, local, locals, remote, remotes, bytes);
    }
    struct vipl_iov here[2] = {[1] = {local->base, bytes}};
    struct vipl_iov there[2] = {[1] = {remote->base, bytes}};
    return write ? vipl_peer_write(peer, here, 2, there, 2, bytes)
                 : vipl_peer_read(peer, here, 2, there, 2, bytes);
}
