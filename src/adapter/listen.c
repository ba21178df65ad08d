/* SPDX-License-Identifier: MIT */
/* Accepts programs. A program for which there is no function is told so, and disconnected. */
#include "adapter/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapter/adapter.h"

/* A program whose hang-up has not been looked at yet. */
static bool is_free(struct rnic_function *f)
{
    if (f->channel.fd >= 0 && vipl_local_has_hung_up(f->channel.fd)) {
        rnic_function_detach(f);
    }
    return f->channel.fd < 0;
}

/* The lowest; but where functions have sockets of their own, those are likely to be the low
 * ones. */
static struct rnic_function *free_function(struct rnic_adapter *a)
{
    for (unsigned i = 0; i < a->config.functions; i++) {
        unsigned number = a->fixed == NULL ? i : a->config.functions - 1 - i;
        if (is_free(&a->functions[number])) {
            return &a->functions[number];
        }
    }
    return NULL;
}

static void give_function(struct rnic_listener *l, int fd)
{
    struct rnic_function *f = l->function != NULL ? l->function : free_function(l->adapter);
    if (f == NULL || !is_free(f)) {
        l->protocol->refuse(fd);
    } else {
        (void)rnic_function_attach(f, l->protocol, fd); /* else the program sees its connection end */
    }
}

static void listener_ready(struct rnic_source *source)
{
    struct rnic_listener *l = VIPL_CONTAINER(source, struct rnic_listener, source);
    int fd = -1;
    int error = vipl_local_accept(l->fd, &fd);
    if (error == 0) {
        l->accepted(l, fd);
    } else if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) {
        l->is_deaf = vipl_pollset_change(&l->adapter->set, l->fd, &l->source, false, false) == 0;
        l->adapter->deaf_at = l->adapter->is_deaf ? l->adapter->deaf_at : vipl_now_ns();
        l->adapter->is_deaf = true;
    }
}

void rnic_listener_init_for(struct rnic_listener *listener, struct rnic_adapter *adapter,
                            void (*accepted)(struct rnic_listener *listener, int fd))
{
    memset(listener, 0, sizeof(*listener));
    listener->source.ready = listener_ready;
    listener->adapter = adapter;
    listener->accepted = accepted;
    listener->fd = listener->lock = -1;
}

void rnic_listener_init(struct rnic_listener *listener, struct rnic_adapter *adapter,
                        const struct rnic_protocol *protocol, struct rnic_function *function)
{
    rnic_listener_init_for(listener, adapter, give_function);
    listener->protocol = protocol;
    listener->function = function;
}

int rnic_listener_open(struct rnic_listener *listener, const char *path)
{
    if (strlen(path) >= sizeof(listener->path)) {
        return ENAMETOOLONG;
    }
    int error = vipl_unix_listen(path, &listener->fd, &listener->lock);
    if (error != 0) {
        return error;
    }
    snprintf(listener->path, sizeof(listener->path), "%s", path);
    error = vipl_pollset_add(&listener->adapter->set, listener->fd, &listener->source);
    if (error != 0) {
        rnic_listener_close(listener);
    }
    return error;
}

void rnic_listener_close(struct rnic_listener *listener)
{
    if (listener->fd >= 0) {
        vipl_unix_unlisten(listener->path, listener->fd, listener->lock);
        listener->fd = listener->lock = -1;
    }
}

void rnic_listener_resume(struct rnic_listener *listener)
{
    if (listener->is_deaf) {
        listener->is_deaf =
            vipl_pollset_change(&listener->adapter->set, listener->fd, &listener->source, true, false) != 0;
    }
}
