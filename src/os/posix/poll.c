/* SPDX-License-Identifier: MIT */
/* Sleeping on descriptors. poll() is never restarted after a handler, whatever SA_RESTART says. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "os/os.h"

enum { MAX_FDS = 4 };

int vipl_poll(const int *fds, unsigned count, int timeout_ms)
{
    struct pollfd set[MAX_FDS];
    nfds_t n = 0;
    for (unsigned i = 0; i < count && n < MAX_FDS; i++) {
        if (fds[i] >= 0) {
            set[n].fd = fds[i];
            set[n].events = POLLIN;
            set[n++].revents = 0;
        }
    }
    int ready = poll(set, n, timeout_ms);
    if (ready < 0) {
        return errno;
    }
    return ready == 0 ? ETIMEDOUT : 0;
}

void vipl_fd_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}
