/* SPDX-License-Identifier: MIT */
/*
 * The client's end of a vfio-user connection. The client makes requests that wait for a reply and
 * stores that do not, and serves the server's requests for this process's memory. Any thread may
 * call any function at any time, except vfu_client_open() and vfu_client_close().
 */
#ifndef VFIO_USER_CLIENT_H
#define VFIO_USER_CLIENT_H

#include "os/os_mutex.h"
#include "vfio_user/capabilities.h"
#include "vfio_user/channel.h"

/* A server that sends nothing for this time is considered gone. The time counts for each reply,
 * also the first one, and for a place among the clients that the server serves. */
enum { VFU_PATIENCE_MS = 30000 };

/* Called under the lock when the server accesses memory: copies the memory to `data`, or `data` to
 * the memory. Returns 0, or the errno value that the server is sent. */
typedef int vfu_client_dma(void *context, const struct vfu_dma *dma, void *data, bool is_write);

struct vfu_client {
    /* rank VIPL_RANK_PCI; guards the other fields */
    struct vipl_mutex lock;
    struct vipl_framer channel;     /* the descriptor is constant */
    uint16_t id;                    /* of the last request */
    uint32_t gone;                  /* atomic: the connection has ended */
    uint8_t *data;                  /* VFU_MAX_DATA for an answer, allocated */
    vfu_client_dma *dma;            /* constant */
    void *context;                  /* constant: the argument of dma() */
    struct vfu_capabilities theirs; /* constant: the server's */
};

struct vfu_request {
    enum vfu_command command;
    const void *payload;
    size_t bytes;
    const int *pass; /* descriptors that are sent with the request */
    unsigned count;
    void *reply;          /* receives the first reply_bytes bytes of the reply's payload */
    size_t reply_bytes;   /* a shorter reply ends the connection, unless reply_length is set */
    size_t *reply_length; /* not NULL: the reply may be shorter; receives its length */
    /* not NULL: receives the descriptor that comes with the reply; -1: none came */
    int *reply_fd;
};

/* Opens a connection on the socket `fd` and negotiates the version. The client owns `fd`, also on
 * failure. EBUSY: the server has no free function. */
int vfu_client_open(struct vfu_client *client, int fd, vfu_client_dma *dma, void *context);
/* Closes the connection. The last call. */
void vfu_client_close(struct vfu_client *client);

/* Makes a request and waits for the reply. Returns the server's errno value. ENODEV: the connection
 * has ended. */
int vfu_client_ask(struct vfu_client *client, const struct vfu_request *request);
/* Stores to a region without waiting. The server executes the store before later requests. */
void vfu_client_post(struct vfu_client *client, const struct vfu_access *access, const uint8_t *data);
/* Serves the server's requests that have arrived, and notices that the server has ended. Never
 * blocks; does nothing while another thread holds the lock. */
void vfu_client_progress(struct vfu_client *client);
/* The same, but waits for the lock. */
void vfu_client_serve(struct vfu_client *client);
/* Returns true if the connection has ended. */
bool vfu_client_is_gone(const struct vfu_client *client);

#endif
