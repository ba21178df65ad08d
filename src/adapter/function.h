/* SPDX-License-Identifier: MIT */
/*
 * A function of the card and its program: the connection, over which the program speaks vfio-user
 * or the bus protocol. With vfio-user both processes have the doorbells mapped, the adapter has the
 * memory that the card may access, and interrupts are eventfds; with the bus protocol all that is
 * messages. Only the adapter's thread calls these functions.
 */
#ifndef ADAPTER_FUNCTION_H
#define ADAPTER_FUNCTION_H

#include "adapter/dma.h"
#include "bus/message.h"
#include "os/os.h"
#include "rnic/registers.h"
#include "vfio_user/channel.h"

struct rnic_adapter;
struct rnic_function;

/* What a program speaks. */
struct rnic_protocol {
    /* Opens the channel on the socket `fd`, which the channel owns, also on failure. */
    int (*open)(struct vipl_framer *channel, int fd);
    /*
     * Receives one message and executes it. `in_card`: the card is waiting for this program's
     * memory, or another one's; then every request that changes the card waits. Returns 0: done.
     * EAGAIN: there is no message. EBUSY: the request waits until the card has finished, and is
     * taken again by the next call. Any other value: the connection is over.
     */
    int (*serve)(struct rnic_function *function, bool in_card);
    /* Executes what serve() has set aside, if anything; the card is not waiting. May be NULL. */
    int (*resume)(struct rnic_function *function);
    /* Sends the access to memory that `function->exchange` describes. A write of which the program
     * does not say that it is done is ended here. */
    int (*send_dma)(struct rnic_function *function);
    /* Tells of an interrupt. NULL: the function's eventfds do. */
    int (*interrupt)(struct rnic_function *function, unsigned vector);
    /* Tells a program that there is no function for it, and closes `fd`. */
    void (*refuse)(int fd);
    /* True: the program is also read from while it does not take what it is sent. */
    bool reads_while_behind;
};
extern const struct rnic_protocol rnic_vfio_user_protocol; /* requests.c */
extern const struct rnic_protocol rnic_bus_protocol;       /* bus.c */

/* A descriptor of the adapter's poll set. */
struct rnic_source {
    void (*ready)(struct rnic_source *source);
};

/* A store to a register that has been answered but not executed. It is executed at once, or after
 * the access to memory that the card waits for. */
struct rnic_kept_write {
    uint64_t offset;
    uint64_t value;
    uint32_t region;
    unsigned bytes;
};
enum {
    RNIC_KEPT_BYTES = 8,    /* of one store, at most */
    RNIC_MAX_ACCESS = 4096, /* bytes of registers that one message reads or writes */
    RNIC_MAX_KEPT = RNIC_MAX_ACCESS / RNIC_KEPT_BYTES
};

/* A DMA by messages. One is under way at a time, and the card waits for it. */
struct rnic_exchange {
    uint8_t *data; /* the card's buffer; NULL: no DMA is under way */
    uint64_t iova; /* of the DMA under way, as the next two */
    uint32_t bytes;
    bool is_write;
    bool failed;   /* the program has answered with an error */
    uint32_t most; /* bytes that the program accepts in one message */
    uint16_t id;   /* of the last message sent */
    /* replies that are still to arrive, and for which the card does not wait any more */
    unsigned late;
    /* the program did not answer, or did not read, in time: it is not asked before it has */
    bool is_silent;
};

struct rnic_function {
    struct rnic_source socket_source;
    struct rnic_source process_source;
    struct rnic_adapter *adapter;         /* constant */
    unsigned number;                      /* constant */
    const struct rnic_protocol *protocol; /* of the program; constant while there is one */
    struct vipl_framer channel;           /* fd -1: the function has no program */
    /* becomes readable when the program has ended; -1: the system has no such descriptors */
    int process;
    struct vipl_shm bar2;
    struct vipl_shm bar4; /* device memory; base NULL: the card has none */
    struct rnic_dma dma;
    int events[RNIC_VECTORS]; /* -1: none */
    struct rnic_exchange exchange;
    /* a ring of RNIC_MAX_KEPT elements: kept_count from first_kept on */
    struct rnic_kept_write *kept;
    unsigned first_kept;
    unsigned kept_count;
    /* of the bus protocol: a READ or RESET that is not answered yet (kind 0: there is none), and
     * how many WRITEs have come since the last answer */
    struct rnic_bus_message question;
    unsigned writes;
    bool greeted;         /* VERSION or HELLO has been answered */
    bool memory_file;     /* the program knows VFU_DMA_MEMORY_FILE: it uses this library */
    bool vectors_changed; /* the card's vector table may not say which vectors have events */
    bool is_blocked;      /* a request that has been received has to wait for the card */
    bool is_over;         /* the connection shall be closed */
    bool is_behind;       /* the poll set watches for room in the socket instead of for requests */
    int pid;              /* of the program; 0: not known */
};

void rnic_function_init(struct rnic_function *function, struct rnic_adapter *adapter, unsigned number);
/* Gives the function to a program that has connected. The function owns `fd`, also on failure. */
int rnic_function_attach(struct rnic_function *function, const struct rnic_protocol *protocol, int fd);
/* Called when the program has ended: resets the function and closes the connection. Not called from
 * the card's callbacks. */
void rnic_function_detach(struct rnic_function *function);
/* Resets the function for its program. Memory stays mapped, and the eventfds stay. */
void rnic_function_reset(struct rnic_function *function);

/* Executes requests and stores that had to wait for the card, and closes a connection that has
 * ended. Not called from the card's callbacks. */
void rnic_function_resume(struct rnic_function *function);

/* --- access.c: register accesses of any length, cut into aligned ones of 1, 2, 4 or 8 bytes --- */

enum { RNIC_CONFIG_BYTES = 4096 };

/* Returns the size of a region; 0: there is no such region. */
uint64_t rnic_region_bytes(const struct rnic_function *function, unsigned region);
/* Returns true if the whole access lies in a region. */
bool rnic_access_is_valid(const struct rnic_function *function, const struct vfu_access *access);
void rnic_access_read(struct rnic_function *function, const struct vfu_access *access, uint8_t *out);
void rnic_access_write(struct rnic_function *function, const struct vfu_access *access, const uint8_t *in);

/* --- stores.c: stores to registers that have been accepted and not executed --- */

/* Keeps a store of any length, in pieces of RNIC_KEPT_BYTES. Returns false if there is no room. */
bool rnic_stores_keep(struct rnic_function *function, const struct vfu_access *access, const uint8_t *data);
/* Returns true if all kept stores only ring: they say that there is something to do, for which the
 * card takes its time. */
bool rnic_stores_only_ring(const struct rnic_function *function);
/* Executes the kept stores. Not called from the card's callbacks. */
void rnic_stores_make(struct rnic_function *function);

/* --- exchange.c: the card's accesses to a program's memory, here or by messages --- */

/* Executes an access of the card to the program's memory. Called by the card's callbacks. Returns
 * false if the memory does not exist. */
bool rnic_function_dma(struct rnic_function *function, const struct rnic_dma_access *access);
/* Waits until all DMA_WRITEs have been executed, but for those to `except` (NULL: none), by a read
 * that is answered after them. Called before `except`'s program, or a card on the wire, can learn
 * that they are done: it may tell the program that they are for, which then looks at its memory. */
void rnic_exchange_flush(struct rnic_adapter *adapter, const struct rnic_function *except);
/* The program's answer to the message `id`: the bytes that were to be read, or nothing. An answer
 * that the card does not wait for any more is ignored. EPROTO: the program was not asked, or there
 * are too few bytes. */
int rnic_exchange_answer(struct rnic_function *function, uint16_t id, bool failed, const uint8_t *data,
                         size_t bytes);

#endif
