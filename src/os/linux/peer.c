/* SPDX-License-Identifier: MIT */
/* Copying between two processes' memories in one system call, where the kernel allows it; entropy. */
#include <errno.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "os/os.h"

_Static_assert(sizeof(struct vipl_iov) == sizeof(struct iovec) &&
                   offsetof(struct vipl_iov, base) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct vipl_iov, len) == offsetof(struct iovec, iov_len),
               "vipl_iov is handed to the kernel as an iovec");

static int outcome(ssize_t moved, size_t bytes)
{
    if (moved < 0) {
        return errno;
    }
    return (size_t)moved == bytes ? 0 : EFAULT; /* stopped at a page that is not there */
}

int vipl_peer_read(int pid, const struct vipl_iov *local, unsigned locals, const struct vipl_iov *remote,
                   unsigned remotes, size_t bytes)
{
    return outcome(
        process_vm_readv(pid, (const struct iovec *)local, locals, (const struct iovec *)remote, remotes, 0),
        bytes);
}

int vipl_peer_write(int pid, const struct vipl_iov *local, unsigned locals, const struct vipl_iov *remote,
                    unsigned remotes, size_t bytes)
{
    return outcome(
        process_vm_writev(pid, (const struct iovec *)local, locals, (const struct iovec *)remote, remotes, 0),
        bytes);
}

int vipl_entropy(void *bytes, size_t length)
{
    char *p = bytes;
    while (length > 0) {
        ssize_t n = getrandom(p, length, 0);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        if (n > 0) {
            p += n;
            length -= (size_t)n;
        }
    }
    return 0;
}
