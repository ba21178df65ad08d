/* SPDX-License-Identifier: MIT */
/*
 * The host's end of a connection of the bus protocol: accesses that wait for the card's answer,
 * writes that do not, and the card's accesses to the host's memory. Any thread may call any
 * function at any time, except rnic_bus_host_open() and rnic_bus_host_close(). The card is not
 * trusted: the first message that it may not send ends the connection.
 */
#ifndef BUS_HOST_H
#define BUS_HOST_H

#include "bus/link.h"
#include "os/os_mutex.h"

/* For rnic_bus_host_open(): a simulator takes its time. */
enum { BUS_PATIENCE_MS = 30000 };

/* What the card does to the host. Called under the connection's lock, in the order in which the
 * card has sent it. */
struct rnic_bus_host_ops {
    /* Copies memory to `out`. Returns false if it is not the card's to read, or not there. */
    bool (*dma_read)(void *context, uint64_t address, void *out, uint32_t bytes);
    /* Copies `in` to memory, in address order; the last aligned item of 4 or 8 bytes is stored
     * whole and last. Returns NULL, or why it cannot, as text for people. */
    const char *(*dma_write)(void *context, uint64_t address, const void *in, uint32_t bytes);
    /* Returns false if there is no such vector. */
    bool (*interrupt)(void *context, uint64_t vector);
    /* Messages to the card are kept, because the card does not read: the owner of the connection
     * has some thread call rnic_bus_host_serve() soon. */
    void (*behind)(void *context);
};

struct rnic_bus_host {
    struct vipl_mutex lock;     /* rank VIPL_RANK_PCI; guards the fields below but the atomic ones */
    struct vipl_framer channel; /* the descriptor is constant */
    /* a card that takes longer for an answer, or to read what it was sent, is gone. Its user may
     * change it before another thread has the connection; then it is constant */
    unsigned patience_ms;
    bool greeted;    /* the card's HELLO has come */
    uint32_t id;     /* of the last access that waits for an answer */
    unsigned writes; /* since the last answer */
    uint8_t *data;   /* BUS_MAX_DMA bytes of an answer, allocated */
    uint32_t gone;   /* atomic: the connection has ended */
    /* why, for people; constant once `gone` is set. NULL: the card has closed it */
    const char *why;
    uint64_t bars[BUS_BARS]; /* constant: the sizes of the card's */
    const struct rnic_bus_host_ops *ops;
    void *context; /* the argument of the operations */
};

/* Opens a connection on the socket `fd`, and exchanges HELLOs. The host owns `fd`, also on failure.
 * EBUSY: the card has no function for this program. EPROTO: the peer does not speak this version.
 * ENODEV: the connection has ended. `host->why` says more, unless it is NULL. */
int rnic_bus_host_open(struct rnic_bus_host *host, int fd, unsigned patience_ms,
                       const struct rnic_bus_host_ops *ops, void *context);
/* Says BYE and waits until the card has ended the connection: then it has reset the function. */
void rnic_bus_host_leave(struct rnic_bus_host *host);
/* Closes the connection. The last call. */
void rnic_bus_host_close(struct rnic_bus_host *host);

/* Reads `width` bytes of a space and waits for them; all ones if the card has nothing there.
 * ENODEV: the connection has ended. */
int rnic_bus_host_read(struct rnic_bus_host *host, unsigned space, uint64_t address, unsigned width,
                       uint64_t *value);
/* Writes without waiting. The card executes the write before later accesses. */
void rnic_bus_host_write(struct rnic_bus_host *host, unsigned space, uint64_t address, unsigned width,
                         uint64_t value);
/* Resets the function and waits until the card has done so. ENODEV, or EIO: the card refuses. */
int rnic_bus_host_reset(struct rnic_bus_host *host);

/* Handles what the card has sent. Never blocks. Returns false if messages to the card are kept,
 * because the card does not read: the caller comes again soon. */
bool rnic_bus_host_serve(struct rnic_bus_host *host);
/* The same, but does nothing while another thread holds the lock. */
void rnic_bus_host_progress(struct rnic_bus_host *host);
/* Returns true if the connection has ended. */
bool rnic_bus_host_is_gone(const struct rnic_bus_host *host);

#endif
