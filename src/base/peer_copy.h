/* SPDX-License-Identifier: MIT */
/* Copying between lists of this process and lists of a peer process, of any length. */
#ifndef VIPL_BASE_PEER_COPY_H
#define VIPL_BASE_PEER_COPY_H

#include "os/os.h"

/* Copies `bytes` bytes, which both lists have. Returns what vipl_peer_read() returns; after a
 * failure some bytes may have been copied. */
int vipl_peer_copy_lists(const struct vipl_peer *peer, bool write, const struct vipl_iov *local,
                         unsigned locals, const struct vipl_iov *remote, unsigned remotes, size_t bytes);

#endif
