/* SPDX-License-Identifier: MIT */
/*
 * A function of the card and the program that has it: a vfio-user connection, the doorbells that
 * both have mapped, the memory that the card may access, and the events by which it interrupts. The
 * adapter's only thread is in here.
 */
#ifndef ADAPTER_FUNCTION_H
#define ADAPTER_FUNCTION_H

#include "adapter/dma.h"
#include "os/os.h"
#include "rnic/registers.h"
#include "vfio_user/channel.h"

struct rnic_adapter;

/* A descriptor of the adapter's poll set. */
struct rnic_source {
    void (*ready)(struct rnic_source *source);
};

/* A store to registers that has been answered and is still to be made: at once, or when the card
 * has the memory that it waits for. */
struct rnic_kept_write {
    uint64_t offset;
    uint64_t value;
    uint32_t region;
    unsigned bytes;
};
enum {
    RNIC_KEPT_BYTES = 8,    /* of one, at most */
    RNIC_MAX_ACCESS = 4096, /* bytes of registers that one message reads or writes */
    RNIC_MAX_KEPT = RNIC_MAX_ACCESS / RNIC_KEPT_BYTES
};

/* A DMA in messages: the card waits for one at a time. */
struct rnic_exchange {
    uint8_t *data; /* of the one under way; NULL: none is */
    uint64_t iova; /* of it, as the next two */
    uint32_t bytes;
    bool is_write;
    bool failed;    /* the program has said so */
    uint32_t most;  /* bytes of one that the program takes */
    uint16_t id;    /* of the last one sent */
    unsigned late;  /* replies to come that nothing waits for */
    bool is_silent; /* the last one was not answered in time: no other is sent until it is */
};

struct rnic_function {
    struct rnic_source socket_source;
    struct rnic_source process_source;
    struct rnic_adapter *adapter; /* constant, as the next one */
    unsigned number;
    struct vfu_channel channel; /* fd -1: the function has no program */
    /* readable once the program has ended; -1: the system has no such thing */
    int process;
    struct vipl_shm bar2;
    struct rnic_dma dma;
    int events[RNIC_VECTORS]; /* -1: none */
    struct rnic_exchange exchange;
    struct rnic_kept_write *kept; /* a ring of RNIC_MAX_KEPT, as the next two say */
    unsigned first_kept;
    unsigned kept_count;
    bool greeted;         /* VERSION has been answered */
    bool memory_file;     /* the program knows VFU_DMA_MEMORY_FILE: it is this library */
    bool vectors_changed; /* the card's vector table may not say which vectors have events */
    bool is_blocked;      /* its next request, which has been received, has to wait for the card */
    bool is_over;         /* the connection is to be closed */
    bool is_behind;       /* the poll set looks for room in the socket, and not for requests */
    int pid;              /* of the program; 0: not known */
};

void rnic_function_init(struct rnic_function *function, struct rnic_adapter *adapter, unsigned number);
/* A program has connected: the function begins for it. The descriptor is taken, also on failure. */
int rnic_function_attach(struct rnic_function *function, int fd);
/* The program has gone: function reset, and everything of it is closed. Not from within the card's
 * callbacks. */
void rnic_function_detach(struct rnic_function *function);
/* The program asks for a reset: its memory and its events stay. */
void rnic_function_reset(struct rnic_function *function);

/* Requests and stores that had to wait for the card, and a connection that is over. Not from within
 * the card's callbacks. */
void rnic_function_resume(struct rnic_function *function);

/* --- access.c: accesses to a function's registers, of any length, as the card takes them: aligned,
 * of 1, 2, 4 or 8 bytes --- */

enum { RNIC_CONFIG_BYTES = 4096 };

uint64_t rnic_region_bytes(unsigned region); /* 0: there is no such region */
/* Whether all of the access lies in a region. */
bool rnic_access_is_valid(const struct vfu_access *access);
void rnic_access_read(struct rnic_function *function, const struct vfu_access *access, uint8_t *out);
void rnic_access_write(struct rnic_function *function, const struct vfu_access *access, const uint8_t *in);

/* --- requests.c: what programs ask of their function over vfio-user, and the replies --- */

/*
 * Receives one message and executes it. `in_card`: the card is waiting for this program's memory;
 * then the function's registers may be read, and every request that changes the card waits. Returns
 * 0: done. EAGAIN: there is no message. EBUSY: the request waits until the card has finished, and
 * is taken again by the next call. Any other value: the connection is over.
 */
int rnic_request_serve(struct rnic_function *function, bool in_card);

/* --- exchange.c: the card's accesses to a program's memory, by whatever way that can be reached
 * --- */

/* The card accesses the program's memory; called by the card's callbacks. False: there is no such
 * memory. */
bool rnic_function_dma(struct rnic_function *function, const struct rnic_dma_access *access);

#endif
