/* SPDX-License-Identifier: MIT */
/* Copies through a pipe, which is made for one copy alone: it needs no lock, and a forked child
 * shares none. */
#include "os/posix/pipe_copy.h"

#include <errno.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/descriptor.h"

enum { PIPE_BATCH = 4096 }; /* an empty pipe always takes that number of bytes */

/* Reads or writes a whole piece. Returns 0 or an errno value. */
static int move_whole(ssize_t (*call)(int, void *, size_t), int fd, void *at, size_t bytes)
{
    ssize_t n;
    do {
        n = call(fd, at, bytes);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)bytes ? 0 : n < 0 ? errno : EFAULT;
}

static ssize_t write_bytes(int fd, void *at, size_t bytes)
{
    return write(fd, at, bytes);
}

static int move_through_pipe(const int fds[2], char *to, const char *from, size_t bytes)
{
    int error = 0;
    while (bytes > 0 && error == 0) {
        size_t n = bytes < PIPE_BATCH ? bytes : PIPE_BATCH;
        error = move_whole(write_bytes, fds[1], (void *)(uintptr_t)from, n);
        if (error == 0) {
            error = move_whole(read, fds[0], to, n);
        }
        to += n;
        from += n;
        bytes -= n;
    }
    return error;
}

int vipl_copy_by_pipe(char *to, const char *from, size_t bytes)
{
    int fds[2];
    int cancel = vipl_cancel_off();
    vipl_fd_begin();
    int error = vipl_fd_pipe(fds, true) == 0 ? vipl_fd_adopt_pair(fds) : errno;
    vipl_fd_end();
    if (error == 0) {
        error = move_through_pipe(fds, to, from, bytes);
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
    }
    vipl_cancel_restore(cancel);
    return error;
}
