/* SPDX-License-Identifier: MIT */
/* The adapter's sockets: who connects gets a function, or whatever else the socket is for. */
#ifndef ADAPTER_LISTEN_H
#define ADAPTER_LISTEN_H

#include "adapter/function.h"

enum { RNIC_MAX_PATH = 108 };

struct rnic_listener {
    struct rnic_source source;
    struct rnic_adapter *adapter;
    void (*accepted)(struct rnic_listener *listener, int fd); /* takes the descriptor */
    struct rnic_function *function; /* which a connection gets; NULL: the next free one */
    int fd;                         /* -1: it is closed */
    int lock;
    bool is_deaf; /* there were no descriptors left to accept with */
    char path[RNIC_MAX_PATH];
};

void rnic_listener_init(struct rnic_listener *listener, struct rnic_adapter *adapter,
                        struct rnic_function *function);
/* Likewise, of a socket at which functions are not given away. */
void rnic_listener_init_for(struct rnic_listener *listener, struct rnic_adapter *adapter,
                            void (*accepted)(struct rnic_listener *listener, int fd));
int rnic_listener_open(struct rnic_listener *listener, const char *path);
void rnic_listener_close(struct rnic_listener *listener);
void rnic_listener_resume(struct rnic_listener *listener); /* descriptors may be free again */

#endif
