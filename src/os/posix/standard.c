/* SPDX-License-Identifier: MIT */
/*
 * Opening descriptors, and the numbers 0 to 2. In a program that has closed these, the next
 * descriptor that is opened gets such a number, and the program's output goes there. The library
 * therefore keeps none below 3, and moves what it opens at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif

#include "os/event.h"
#include "os/os.h"
#include "os/os_atomic.h"

enum { STANDARD = 3 };

static uint32_t least_wanted = STANDARD; /* atomic: where the library's descriptors begin */

void vipl_fd_keep_above(int least)
{
    vipl_store_relaxed(&least_wanted, least < STANDARD ? STANDARD : (uint32_t)least);
}

/* Moves a descriptor that has just been opened to a number above 2. Returns what vipl_fd_adopt()
 * returns. */
static int lift_descriptor(int *fd)
{
    if (*fd < 0) {
        return errno;
    }
    int wanted = (int)vipl_load_relaxed(&least_wanted);
    if (*fd >= wanted) {
        return 0;
    }
    int low = *fd;
    if (wanted > STANDARD) {
        int high = vipl_resource_fails(EMFILE) ? -1 : fcntl(low, F_DUPFD_CLOEXEC, wanted);
        if (high >= 0) {
            *fd = high;
            close(low);
        }
        if (*fd >= STANDARD) {
            return 0;
        }
    }
    *fd = vipl_resource_fails(EMFILE) ? -1 : fcntl(low, F_DUPFD_CLOEXEC, STANDARD);
    int error = *fd < 0 ? errno : 0;
    close(low);
    return error == EINVAL ? EMFILE : error; /* EINVAL: the limit of descriptors is 3 or lower */
}

int vipl_fd_adopt(int *fd)
{
    int error = lift_descriptor(fd);
    vipl_fd_own(*fd);
    return error;
}

int vipl_fd_adopt_pair(int fds[2])
{
    int error = vipl_fd_adopt(&fds[0]);
    int other = vipl_fd_adopt(&fds[1]);
    error = error != 0 ? error : other;
    if (error != 0) {
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
    }
    return error;
}

bool vipl_fds_are_of_system(void)
{
    return true;
}

bool vipl_fd_is_poller(int fd)
{
#ifdef __linux__
    struct epoll_event event;
    return epoll_wait(fd, &event, 1, 0) >= 0 || errno == EINTR;
#else
    return fcntl(fd, F_GETFD) >= 0;
#endif
}

/* Opening a file that the user named must neither block nor make a terminal the controlling one.
 * Writing to it may block. */
int vipl_fd_append(const char *path, int *fd)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    *fd = vipl_resource_fails(EMFILE) ? -1 : open(path, flags, 0666);
    int error = lift_descriptor(fd);
    if (error == 0) {
        (void)fcntl(*fd, F_SETFL, O_APPEND);
    }
    return error;
}

/* A file of size 0 may have content (/proc). Of a file that grows meanwhile, the first st_size
 * bytes are read. */
static int read_all(int fd, size_t most, char **text)
{
    struct stat st;
    size_t length = 0;
    ssize_t n = 1;
    if (fstat(fd, &st) != 0) {
        return errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    }
    if (st.st_size > (off_t)most) {
        return EFBIG;
    }
    size_t room = st.st_size > 0 ? (size_t)st.st_size : most;
    char *bytes = vipl_alloc(room + 1);
    if (bytes == NULL) {
        return ENOMEM;
    }
    while (n > 0 && length < room) {
        n = read(fd, bytes + length, room - length);
        length += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        int error = errno;
        vipl_free(bytes);
        return error;
    }
    bytes[length] = '\0';
    *text = bytes;
    return 0;
}

int vipl_read_text(const char *path, size_t most, char **text)
{
    vipl_fd_begin();
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (error == 0) {
        error = read_all(fd, most, text);
        vipl_fd_close(fd);
    }
    return error;
}

int vipl_fd_duplicate(int fd, int least, int *out)
{
    vipl_fd_begin();
    *out = vipl_resource_fails(EMFILE) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, least < STANDARD ? STANDARD : least);
    int error = *out < 0 ? errno : 0;
    vipl_fd_own(*out);
    vipl_fd_end();
    return error;
}

void vipl_fd_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* on failure the limit stays as it is */
    }
}
