/* SPDX-License-Identifier: MIT */
/* A system on which no process reaches the memory of another one: the bytes go through rings. */
#include <errno.h>

#include "os/os.h"

int vipl_peer_mark_make(struct vipl_peer_mark *mark)
{
    *mark = (struct vipl_peer_mark){0};
    return 0;
}

int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    (void)peer;
    (void)local;
    (void)locals;
    (void)remote;
    (void)remotes;
    (void)bytes;
    return ENOTSUP;
}

int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    (void)peer;
    (void)local;
    (void)locals;
    (void)remote;
    (void)remotes;
    (void)bytes;
    return ENOTSUP;
}
