/* SPDX-License-Identifier: MIT */
/* Another process's memory. */
#ifndef VIPL_OS_PEER_H
#define VIPL_OS_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "os/memory.h"

/* --- another process's memory ----------------------------------------------------------------- */

/*
 * A random word at a random address of a program, by which other processes know that they reach the
 * memory of this program and of no other. After an exec the word is gone, and a forked child does
 * not have it.
 */
struct vipl_peer_mark {
    uint64_t address;
    uint32_t value;
};
/* Makes the mark of this program. The mark lasts as long as the program. */
int vipl_peer_mark_make(struct vipl_peer_mark *mark);

/* Another process, as long as it runs the program that has told this mark. */
struct vipl_peer {
    int pid;
    struct vipl_peer_mark mark;
};
enum { VIPL_PEER_PIECES = 16 }; /* the most pieces in a list of one call, the mark's included */
/*
 * Copy `bytes` between pieces of this process and pieces of the peer, in one system call. The
 * caller leaves the first piece of each list free for the mark; `locals` and `remotes` count it.
 * Return 0 if all bytes were copied. ESRCH: the process has ended or runs another program, or its
 * number belongs to another process, of which no byte was read or written. EFAULT: memory is not
 * there, or may not be accessed in this way; some bytes may have been copied. Other errno values:
 * the system does not allow the access.
 */
int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes);
int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes);

#endif
