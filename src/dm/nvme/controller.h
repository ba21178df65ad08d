/* SPDX-License-Identifier: MIT */
/*
 * An NVMe controller with one namespace, one pair of queues for commands to the namespace, and no
 * interrupts. Everything that it says is compared with what can be: a controller that is broken, or
 * hostile, costs the store, and not the program. After a failure it is disabled, and reaches no
 * memory.
 *
 * A controller is shared by a store and by memory of its own, which use it in one thread.
 */
#ifndef VIPL_DM_NVME_CONTROLLER_H
#define VIPL_DM_NVME_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "dm/clock.h"
#include "dm/nvme/queue.h"
#include "dm/pci.h"
#include "dm/store.h"
#include "vipl/device_memory.h"

enum {
    DM_NVME_PAGE = 4096,
    DM_NVME_ENTRIES = 64, /* of the queue for the namespace, at most: 63 commands at a time */
    /* Of one command at most: what one page with a list of pages tells. */
    DM_NVME_MOST = 1 << 21,
    DM_NVME_BOUNCE = 1 << 16,      /* bytes of main memory for what is read and written at once */
    DM_NVME_OWN = DM_MAX_TRANSFERS /* the transfer of what is done at once */
};

/* A part of a transfer that the controller is at work on; its number is the command's. */
struct dm_nvme_command {
    bool is_busy;
    uint16_t transfer;
};

/* A transfer: parts that are to be posted, parts that are posted. */
struct dm_nvme_transfer {
    bool is_busy;
    uint8_t opcode;
    int error;
    uint32_t cookie;
    uint32_t bytes;
    uint32_t left;    /* bytes that are not posted yet */
    uint32_t pending; /* commands */
    uint64_t serial;  /* the older one goes first */
    uint64_t bus;     /* of the bytes that are left */
    uint64_t block;
};

struct dm_nvme {
    struct dm_pci *pci;
    const struct dm_clock *clock;
    /* shared.c */
    char address[DM_PCI_ADDRESS_ROOM];
    struct dm_nvme *next;
    bool has_store;
    bool has_memory;

    char model[41];
    uint32_t block_bytes;
    uint64_t blocks;
    uint32_t most_bytes; /* of one command, whole pages */
    bool has_cache;      /* that a flush writes */
    uint64_t ready_ns;   /* the longest time that enabling takes */
    uint32_t cap_high;
    int error; /* 0, or an errno value: it is of no use any more */

    struct dm_nvme_queue admin;
    struct dm_nvme_queue io;
    uint8_t *identity; /* a page for Identify */
    uint64_t identity_bus;
    uint8_t said[DM_NVME_PAGE]; /* what was there, copied once */
    uint8_t *bounce;
    uint64_t bounce_bus;
    uint8_t *lists; /* a page for each command */
    uint64_t lists_bus;

    struct dm_nvme_command commands[DM_NVME_ENTRIES];
    struct dm_nvme_transfer transfers[DM_MAX_TRANSFERS + 1];
    uint32_t pending; /* commands */
    uint64_t serial;
    uint64_t heard_at; /* when a command ended, or the oldest of them was posted */
    uint64_t asked_at; /* when the controller was asked whether it is well */
};

/* Starts a controller, which is closed with `pci`; also if this fails. `what` it is, for the
 * reason. */
int dm_nvme_open(struct dm_pci *pci, const struct dm_clock *clock, const char *what, struct dm_nvme **out,
                 struct vipl_dm_reason *reason);
void dm_nvme_close(struct dm_nvme *nvme);

/* A command of the admin queue, and its end. Returns 0, or an errno value; *status is what the
 * controller says. */
int dm_nvme_admin(struct dm_nvme *nvme, const uint8_t *command, unsigned *status);
/* Has the controller write what it is, 4,096 bytes, to an address on the bus. */
int dm_nvme_identify(struct dm_nvme *nvme, unsigned what, uint32_t name_space, uint64_t bus,
                     unsigned *status);

/* 0, or why the controller does not work: ENODEV, it is gone; EIO, it has failed. */
int dm_nvme_look(struct dm_nvme *nvme);
uint64_t dm_nvme_now(const struct dm_nvme *nvme);
/* Waits for a moment; `since`: when the waiting began. */
void dm_nvme_pause(const struct dm_nvme *nvme, uint64_t since);
/* The controller stops, and all that was under way ends with this error. */
void dm_nvme_fail(struct dm_nvme *nvme, int error);

/* transfers.c: moves blocks between the namespace and memory at an address on the bus, which is a
 * multiple of 4; bytes are whole blocks. EAGAIN: too many are under way. */
int dm_nvme_submit(struct dm_nvme *nvme, unsigned opcode, uint64_t bus, uint64_t block, uint32_t bytes,
                   uint32_t cookie);
/* As dm_store_kind.reap. */
unsigned dm_nvme_reap(struct dm_nvme *nvme, struct dm_transferred *ended, unsigned room, bool wait);
/* The same at once, for bytes of the bounce buffer; NVME_FLUSH: no bytes. */
int dm_nvme_do(struct dm_nvme *nvme, unsigned opcode, uint64_t block, uint32_t bytes);

#endif
