/* SPDX-License-Identifier: MIT */
/* Wakers are eventfds. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"

int vipl_waker_open(struct vipl_waker *waker)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (error != 0) {
        return error;
    }
    waker->fd = fd;
    waker->write_fd = fd;
    waker->generation = vipl_fork_generation();
    waker->cancel = NULL;
    return 0;
}

void vipl_waker_close(struct vipl_waker *waker)
{
    if (waker->generation == vipl_fork_generation()) { /* else it was closed at the fork */
        vipl_fd_close(waker->fd);
    }
}

void vipl_waker_signal(struct vipl_waker *waker)
{
    int saved = errno;
    int cancel = vipl_cancel_off();
    uint64_t one = 1;
    /* EAGAIN: already signalled 2^64-2 times */
    ssize_t n = write(waker->write_fd, &one, sizeof(one));
    (void)n;
    vipl_cancel_restore(cancel);
    errno = saved;
}

void vipl_waker_reset(struct vipl_waker *waker)
{
    uint64_t count;
    ssize_t n = read(waker->fd, &count, sizeof(count)); /* EAGAIN: the waker was not signalled */
    (void)n;
}
