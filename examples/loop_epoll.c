/* SPDX-License-Identifier: MIT */
/* The server of loop_poll.c around epoll, told of changes only: each wake-up takes all there is. */
#include <sys/epoll.h>

#include "loop.h"

static struct loop_server server;

static void watch(int loop, int fd, struct loop_line *line)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.ptr = line}};

    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) {
        perror("epoll_ctl");
        exit(1);
    }
}

static void serve(int loop, struct loop_line *line)
{
    if (line == NULL) {
        while ((line = loop_accept(&server)) != NULL) {
            watch(loop, line->fd, line);
        }
    } else if (!loop_answer(&server, line)) {
        epoll_ctl(loop, EPOLL_CTL_DEL, line->fd, NULL); /* before the VI, and with it the descriptor, goes */
        loop_close(&server, line);
    }
}

int main(void)
{
    struct epoll_event events[4];
    int loop = epoll_create1(EPOLL_CLOEXEC);

    loop_start_clients();
    loop_open(&server);
    loop_listen(&server);
    watch(loop, server.fd, NULL);
    serve(loop, NULL);
    while (server.left < LOOP_CLIENTS) {
        int count = epoll_wait(loop, events, 4, EXAMPLE_TIMEOUT);
        if (count <= 0) {
            fputs("no client came\n", stderr);
            return 1;
        }
        for (int i = 0; i < count; i++) {
            serve(loop, events[i].data.ptr);
        }
    }
    close(loop);
    return loop_end(&server);
}
