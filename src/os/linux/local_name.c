/* SPDX-License-Identifier: MIT */
/* Names in the abstract name space, which vanish with the last descriptor of their socket. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "os/os.h"
#include "os/posix/local.h"

static socklen_t make_abstract_address(struct sockaddr_un *a, const void *name, size_t length)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    if (length > sizeof(a->sun_path) - 1) {
        length = sizeof(a->sun_path) - 1;
    }
    memcpy(a->sun_path + 1, name, length); /* a leading NUL makes the name abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int vipl_local_listen(const void *name, size_t length, int *fd, int *lock)
{
    struct sockaddr_un a;
    socklen_t n = make_abstract_address(&a, name, length);
    int s;
    int rc = vipl_local_open(&s);
    if (rc != 0) {
        return rc;
    }
    if (bind(s, (struct sockaddr *)&a, n) != 0 || listen(s, VIPL_LOCAL_BACKLOG) != 0) {
        rc = errno;
        vipl_fd_close(s);
        return rc;
    }
    *fd = s;
    *lock = -1;
    return 0;
}

void vipl_local_unlisten(const void *name, size_t length, int fd, int lock)
{
    (void)name;
    (void)length;
    (void)lock;
    vipl_fd_close(fd);
}

int vipl_local_connect(const void *name, size_t length, int *fd)
{
    struct sockaddr_un a;
    socklen_t n = make_abstract_address(&a, name, length);
    int rc = *fd >= 0 ? 0 : vipl_local_open(fd);
    if (rc != 0) {
        *fd = -1;
        return rc;
    }
    return connect(*fd, (struct sockaddr *)&a, n) == 0 ? 0 : errno;
}
