/* SPDX-License-Identifier: MIT */
/* Printing what an adapter tells about itself. */
#include "adapter/stats.h"

#include <errno.h>
#include <stdio.h>

enum { WAIT_MS = 10000 };

static int print_once(const char *path)
{
    char part[4096];
    size_t length = 1;
    unsigned none;
    int fd;
    int error = vipl_unix_connect(path, &fd);
    if (error != 0) {
        return error;
    }
    while (error == 0 && length > 0) {
        error = vipl_unix_receive(fd, part, sizeof(part), &length, NULL, 0, &none);
        if (error == EAGAIN) {
            error = vipl_poll(&fd, 1, WAIT_MS, NULL);
            length = 1;
        } else if (error == 0) {
            fwrite(part, 1, length, stdout);
        }
    }
    vipl_fd_close(fd);
    fflush(stdout);
    return error;
}

int rnic_stats_print(const char *socket, unsigned seconds)
{
    enum { MS = 1000 };
    char path[RNIC_MAX_PATH];
    int error = rnic_stats_path(socket, path);
    error = error == 0 ? print_once(path) : error;
    while (error == 0 && seconds > 0) {
        (void)vipl_poll(NULL, 0, (int)seconds * MS, NULL);
        error = print_once(path);
    }
    return error;
}
