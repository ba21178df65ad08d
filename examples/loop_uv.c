/* SPDX-License-Identifier: MIT */
/* The server of loop_poll.c as part of a libuv loop. */
#include <uv.h>

#include "loop.h"

static struct loop_server server;
static uv_loop_t loop;
static uv_poll_t requests;
static uv_poll_t receives[LOOP_CLIENTS];
static uv_timer_t limit;

static void on_receive(uv_poll_t *watch, int status, int events)
{
    struct loop_line *line = watch->data;

    (void)status;
    (void)events;
    if (!loop_answer(&server, line)) {
        uv_close((uv_handle_t *)watch, NULL); /* before the VI, and with it the descriptor, goes */
        loop_close(&server, line);
    }
    if (server.left == LOOP_CLIENTS) {
        uv_close((uv_handle_t *)&requests, NULL);
        uv_close((uv_handle_t *)&limit, NULL);
    }
}

static void on_request(uv_poll_t *watch, int status, int events)
{
    struct loop_line *line;

    (void)watch;
    (void)status;
    (void)events;
    while ((line = loop_accept(&server)) != NULL) {
        uv_poll_t *receive = &receives[server.connected - 1];
        uv_poll_init(&loop, receive, line->fd);
        receive->data = line;
        uv_poll_start(receive, UV_READABLE, on_receive);
    }
}

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    fputs("not done in time\n", stderr);
    exit(1);
}

int main(void)
{
    loop_start_clients();
    loop_open(&server);
    loop_listen(&server);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &limit);
    uv_timer_start(&limit, on_limit, 4 * EXAMPLE_TIMEOUT, 0);
    uv_poll_init(&loop, &requests, server.fd);
    uv_poll_start(&requests, UV_READABLE, on_request);
    on_request(&requests, 0, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return loop_end(&server);
}
