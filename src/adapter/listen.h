/* SPDX-License-Identifier: MIT */
/* The adapter's sockets. A program that connects gets a function, or what else the socket is
 * for. */
#ifndef ADAPTER_LISTEN_H
#define ADAPTER_LISTEN_H

#include "adapter/function.h"

enum { RNIC_MAX_PATH = 108 };

struct rnic_listener {
    struct rnic_source source;
    struct rnic_adapter *adapter;
    void (*accepted)(struct rnic_listener *listener, int fd); /* owns `fd` */
    /* what programs speak that get a function; NULL: they get none */
    const struct rnic_protocol *protocol;
    /* the function that a connection gets; NULL: the next free one */
    struct rnic_function *function;
    int fd; /* -1: the listener is closed */
    int lock;
    bool is_deaf; /* accept() has failed: no descriptors were left */
    char path[RNIC_MAX_PATH];
};

void rnic_listener_init(struct rnic_listener *listener, struct rnic_adapter *adapter,
                        const struct rnic_protocol *protocol, struct rnic_function *function);
/* The same for a socket whose connections get no function: `accepted` is called for each. */
void rnic_listener_init_for(struct rnic_listener *listener, struct rnic_adapter *adapter,
                            void (*accepted)(struct rnic_listener *listener, int fd));
int rnic_listener_open(struct rnic_listener *listener, const char *path);
void rnic_listener_close(struct rnic_listener *listener);
/* Accepts again, when descriptors may be free. */
void rnic_listener_resume(struct rnic_listener *listener);

#endif
