/* SPDX-License-Identifier: MIT */
/* A server around poll(): VipxGetFd() makes VIs and connection requests part of any event loop. */
#include <poll.h>

#include "loop.h"

static struct loop_server server;
static struct pollfd set[1 + LOOP_CLIENTS]; /* requests, then each line */

static void accept_clients(void)
{
    struct loop_line *line;

    while ((line = loop_accept(&server)) != NULL) {
        set[server.connected] = (struct pollfd){.fd = line->fd, .events = POLLIN};
    }
}

int main(void)
{
    loop_start_clients();
    loop_open(&server);
    loop_listen(&server);
    set[0] = (struct pollfd){.fd = server.fd, .events = POLLIN};
    accept_clients();
    while (server.left < LOOP_CLIENTS) {
        if (poll(set, 1 + (nfds_t)server.connected, EXAMPLE_TIMEOUT) <= 0) {
            fputs("no client came\n", stderr);
            return 1;
        }
        for (int i = 0; i < server.connected; i++) {
            if (set[1 + i].revents != 0 && !loop_answer(&server, &server.lines[i])) {
                set[1 + i].fd = -1; /* before the VI, and with it the descriptor, goes */
                loop_close(&server, &server.lines[i]);
            }
        }
        if (set[0].revents != 0) {
            accept_clients();
        }
    }
    return loop_end(&server);
}
