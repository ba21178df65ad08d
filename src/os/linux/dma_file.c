/* SPDX-License-Identifier: MIT */
/*
 * Files that other processes name as memory for a device, and descriptors that they name as its
 * interrupts. These processes are not trusted. A file may be truncated while it is mapped, which
 * raises a signal; it may lie on a file system that the process serves, where an access never ends;
 * or it may be one that only this process may write, which would write in this process's name.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "os/os.h"

/* Reads the name that the system has for the open file. Returns false if it has none or a longer
 * one. */
static bool read_file_name(int fd, char *name, size_t size)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, size - 1);
    name[n < 0 ? 0 : n] = '\0';
    return n > 0 && (size_t)n < size - 1;
}

/* Whether the file is /proc/N/mem. Any other file of /proc would be written in this process's
 * name. */
static bool is_process_memory(int fd)
{
    char name[64];
    struct statfs fs;
    int end = 0;
    if (fstatfs(fd, &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC || !read_file_name(fd, name, sizeof(name))) {
        return false;
    }
    return sscanf(name, "/proc/%*u/mem%n", &end) == 0 && end > 0 && name[end] == '\0';
}

/* Only shared memory has seals. Seals the file against shrinking, if it takes another seal. */
static enum vipl_file_kind kind_of_memory(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0) {
        return VIPL_FILE_OTHER;
    }
    if ((seals & F_SEAL_SHRINK) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
        seals |= F_SEAL_SHRINK;
    }
    return (seals & F_SEAL_SHRINK) != 0 ? VIPL_FILE_MAPPABLE : VIPL_FILE_MEMORY;
}

int vipl_file_identify(int fd, struct vipl_file *out)
{
    struct stat st;
    enum vipl_file_kind kind = VIPL_FILE_OTHER;
    if (fstat(fd, &st) != 0) {
        return errno;
    }
    if (S_ISREG(st.st_mode)) {
        kind = is_process_memory(fd) ? VIPL_FILE_PROCESS : kind_of_memory(fd);
    }
    /* again: the size, now that it cannot shrink */
    if (kind != VIPL_FILE_OTHER && fstat(fd, &st) != 0) {
        return errno;
    }
    *out = (struct vipl_file){kind, (uint64_t)st.st_dev, (uint64_t)st.st_ino,
                              st.st_size < 0 ? 0 : (uint64_t)st.st_size};
    return 0;
}

int vipl_file_map(int fd, uint64_t bytes, void **base, bool *writable)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2) {
        return EFBIG;
    }
    if (vipl_resource_fails(ENOMEM)) {
        return errno;
    }
    *writable = true;
    /* Huge pages are reserved here, or this call fails: touching a page later raises no signal. */
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED && (errno == EACCES || errno == EPERM)) {
        *writable = false;
        at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (at == MAP_FAILED) {
        return errno;
    }
    madvise(at, (size_t)bytes, MADV_DONTFORK);
    *base = at;
    return 0;
}

void vipl_file_unmap(void *base, uint64_t bytes)
{
    munmap(base, (size_t)bytes);
}

static int file_error(ssize_t n)
{
    return n == 0 ? ESRCH : errno == EIO ? EFAULT : errno;
}

/* pread() and pwrite() may move a part; the loops go on with the rest. */
int vipl_file_read(int fd, uint64_t offset, void *out, size_t bytes)
{
    char *to = out;
    while (bytes > 0) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            return file_error(n);
        }
        n = n < 0 ? 0 : n;
        to += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int vipl_file_write(int fd, uint64_t offset, const void *in, size_t bytes)
{
    const char *from = in;
    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, bytes, (off_t)offset);
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            return file_error(n);
        }
        n = n < 0 ? 0 : n;
        from += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int vipl_own_memory(int *fd)
{
    vipl_fd_begin();
    int made = vipl_resource_fails(EMFILE) ? -1 : open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    int error = vipl_fd_adopt(&made);
    vipl_fd_end();
    if (error == 0) {
        *fd = made;
    }
    return error;
}

/* --- events --- */

int vipl_event_open(int *fd)
{
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

void vipl_event_clear(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof(count)); /* EAGAIN: the event was not signalled */
    (void)n;
}

bool vipl_event_is(int fd)
{
    char name[64];
    if (!read_file_name(fd, name, sizeof(name)) || strcmp(name, "anon_inode:[eventfd]") != 0) {
        return false;
    }
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* The process that made the event may make it block again: it then loses its interrupts, and this
 * thread does not block. */
void vipl_event_signal(int fd)
{
    uint64_t one = 1;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) != 0) {
        ssize_t n = write(fd, &one, sizeof(one)); /* EAGAIN: already signalled 2^64-2 times */
        (void)n;
    }
}
