/* SPDX-License-Identifier: MIT */
/*
 * Copying within this process by the kernel, which reports memory that is not there by an error,
 * and not by a signal. Where process_vm_readv() does not work (a seccomp filter, an emulator,
 * memory of memfd_secret()), the bytes go through a pipe.
 */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/posix/pipe_copy.h"

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
    return vipl_copy_by_pipe((char *)to + done, (const char *)from + done, bytes - done);
}
