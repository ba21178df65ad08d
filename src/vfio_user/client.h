/* SPDX-License-Identifier: MIT */
/*
 * The client's end of a vfio-user connection: requests that wait for their reply, stores that do
 * not, and answers to what the server asks of this process's memory. Any thread may call at any
 * time.
 */
#ifndef VFIO_USER_CLIENT_H
#define VFIO_USER_CLIENT_H

#include "os/os_mutex.h"
#include "vfio_user/capabilities.h"
#include "vfio_user/channel.h"

/* A server that says nothing for so long is taken for gone: for a reply, the first one too, and for
 * a place among those that it serves. */
enum { VFU_PATIENCE_MS = 30000 };

/* The server accesses memory: reads it into `data`, or writes that there. 0, or the errno value
 * that it is told. Called under the lock. */
typedef int vfu_client_dma(void *context, const struct vfu_dma *dma, void *data, bool is_write);

struct vfu_client {
    /* rank VIPL_RANK_PCI; guards all but what is constant or atomic */
    struct vipl_mutex lock;
    struct vfu_channel channel;     /* its descriptor is constant until the end */
    uint16_t id;                    /* of the last request */
    uint32_t gone;                  /* atomic: the connection is over, for good */
    uint8_t *data;                  /* VFU_MAX_DATA for an answer, allocated */
    vfu_client_dma *dma;            /* constant, as the next two */
    void *context;                  /* of it */
    struct vfu_capabilities theirs; /* the server's */
};

struct vfu_request {
    enum vfu_command command;
    const void *payload;
    size_t bytes;
    const int *pass; /* descriptors that go along */
    unsigned count;
    void *reply; /* the first reply_bytes of its payload, which must have as many */
    size_t reply_bytes;
    size_t *reply_length; /* if not NULL: it may have fewer; how many that were */
    /* a descriptor that comes with the reply, -1: none did; NULL: it would be closed */
    int *reply_fd;
};

/* Takes the descriptor, also on failure, and agrees on the version. EBUSY: the server has no
 * function left. */
int vfu_client_open(struct vfu_client *client, int fd, vfu_client_dma *dma, void *context);
void vfu_client_close(struct vfu_client *client); /* last call */

/* The error that the server says; ENODEV: the connection is over. */
int vfu_client_ask(struct vfu_client *client, const struct vfu_request *request);
/* A store to a region, which is made before whatever is asked later. */
void vfu_client_post(struct vfu_client *client, const struct vfu_access *access, const uint8_t *data);
/* Answers what the server asks, and notices its end, without blocking; a thread that finds another
 * one at it returns. */
void vfu_client_progress(struct vfu_client *client);
/* The same, but waits until the other thread has finished. */
void vfu_client_serve(struct vfu_client *client);
bool vfu_client_is_gone(const struct vfu_client *client);

#endif
