/* SPDX-License-Identifier: MIT */
/* An open device and its streams. */
#ifndef VIPL_STREAM_NIC_H
#define VIPL_STREAM_NIC_H

#include "base/address.h"
#include "base/list.h"
#include "os/os_mutex.h"
#include "stream/stream.h"

enum { VIPL_STREAM_BUCKETS = 64 };

struct vipl_stream_nic {
    VIP_NIC_HANDLE nic;                            /* constant */
    VIP_CQ_HANDLE cq;                              /* constant; receive queues of all streams report to it */
    uint8_t address[VIPL_MAX_HOST_ADDRESS];        /* constant */
    unsigned address_length;                       /* constant */
    uint32_t generation;                           /* constant: of the process that opened the device */
    struct vipl_mutex lock;                        /* rank STREAM_NIC */
    struct vipl_list streams[VIPL_STREAM_BUCKETS]; /* stream.nic_link, by VI; guarded by lock */
    struct vipl_list waiters; /* vipl_stream_waiter.link: those in no use; guarded by lock */
    uint32_t references;      /* the opener's and the streams'; guarded by lock */
};

/* Enters a new stream with one user, its owner. It has a reference to the device until it is
 * destroyed. */
void vipl_stream_nic_add(struct vipl_stream_nic *nic, struct vipl_stream *stream);
/* Adds a user to a stream that has one. */
void vipl_stream_hold(struct vipl_stream *stream);
/* A user has done with a stream. The last one destroys it. */
void vipl_stream_put(struct vipl_stream *stream);

/* wait.c: frees the waiters of a device that no thread uses any more. */
void vipl_stream_waiters_free(struct vipl_stream_nic *nic);

#endif
