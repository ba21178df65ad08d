/* SPDX-License-Identifier: MIT */
/*
 * Copying within this process by the kernel, which reports memory that is not there by an error,
 * and not by a signal. Where process_vm_readv() does not work (a seccomp filter, an emulator,
 * memory of memfd_secret()), the bytes go through a pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"

enum { PIPE_BATCH = 4096 }; /* an empty pipe always takes that number of bytes */

/* atomic: process_vm_readv() has failed; set more than once without harm */
static uint32_t use_pipe;

/* *done: the number of bytes that have been copied, also after an error. */
static int copy_by_process_vm(char *to, const char *from, size_t bytes, size_t *done)
{
    for (*done = 0; *done < bytes;) {
        struct iovec local = {to + *done, bytes - *done};
        struct iovec there = {(void *)(uintptr_t)(from + *done), bytes - *done};
        ssize_t n = process_vm_readv(getpid(), &local, 1, &there, 1, 0);
        if (n <= 0) {
            return n < 0 ? errno : EFAULT;
        }
        *done += (size_t)n;
    }
    return 0;
}

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

/* Makes a pipe for this copy alone: the pipe needs no lock, and a forked child shares none. */
static int copy_by_pipe(char *to, const char *from, size_t bytes)
{
    int fds[2];
    int cancel = vipl_cancel_off();
    vipl_fd_begin();
    int error = pipe2(fds, O_CLOEXEC) == 0 ? vipl_fd_adopt_pair(fds) : errno;
    vipl_fd_end();
    if (error == 0) {
        error = move_through_pipe(fds, to, from, bytes);
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
    }
    vipl_cancel_restore(cancel);
    return error;
}

int vipl_copy_checked(void *to, const void *from, size_t bytes)
{
    size_t done = 0;
    if (vipl_load_relaxed(&use_pipe) == 0) {
        int error = copy_by_process_vm(to, from, bytes, &done);
        if (error == 0) {
            return 0;
        }
        if (error != EFAULT) {
            vipl_store_relaxed(&use_pipe, 1);
        }
    }
    return copy_by_pipe((char *)to + done, (const char *)from + done, bytes - done);
}
