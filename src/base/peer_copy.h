/* SPDX-License-Identifier: MIT */
/* Lists of this process copied from and to lists of another one, however long they are. */
#ifndef VIPL_BASE_PEER_COPY_H
#define VIPL_BASE_PEER_COPY_H

#include "os/os.h"

/* `bytes` bytes, which both lists have. The result is that of vipl_peer_read(); after a failure some bytes may have been copied. */
int vipl_peer_copy_lists(const struct vipl_peer *peer, bool write, const struct vipl_iov *local,
                         unsigned locals, const struct vipl_iov *remote, unsigned remotes, size_t bytes);

#endif
