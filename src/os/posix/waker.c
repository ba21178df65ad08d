/* SPDX-License-Identifier: MIT */
/* Wakers are pipes, where the system has no eventfds. A full pipe counts as signalled. */
#include <errno.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/descriptor.h"

int vipl_waker_open(struct vipl_waker *waker)
{
    int ends[2] = {-1, -1};
    vipl_fd_begin();
    bool made = !vipl_resource_fails(EMFILE) && vipl_fd_pipe(ends, false) == 0;
    int error = made ? vipl_fd_adopt_pair(ends) : errno;
    vipl_fd_end();
    if (error != 0) {
        return error;
    }
    waker->fd = ends[0];
    waker->write_fd = ends[1];
    waker->generation = vipl_fork_generation();
    waker->cancel = NULL;
    return 0;
}

void vipl_waker_close(struct vipl_waker *waker)
{
    if (waker->generation == vipl_fork_generation()) { /* otherwise the fork has closed them */
        vipl_fd_close(waker->write_fd);
        vipl_fd_close(waker->fd);
    }
}

void vipl_waker_signal(struct vipl_waker *waker)
{
    int saved = errno;
    int cancel = vipl_cancel_off();
    ssize_t n = write(waker->write_fd, "", 1); /* EAGAIN: the pipe is full */
    (void)n;
    vipl_cancel_restore(cancel);
    errno = saved;
}

void vipl_waker_reset(struct vipl_waker *waker)
{
    char bytes[64];
    while (read(waker->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) {
    }
}
