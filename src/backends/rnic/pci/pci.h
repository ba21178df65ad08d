/* SPDX-License-Identifier: MIT */
/*
 * Access to one function of an RDMA card on a PCI bus, whatever stands behind it: the model in this process, an adapter that
 * serves the function over vfio-user, the kernel's VFIO, or the files of sysfs. This is all that the driver has of the card:
 * register accesses, mapped doorbells, memory that is mapped for DMA, and interrupts.
 *
 * Results are errno values, 0 for success. Any thread may call at any time; no lock of the caller's is taken.
 */
#ifndef BACKENDS_RNIC_PCI_PCI_H
#define BACKENDS_RNIC_PCI_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RNIC_PCI_SLAB_BYTES = 2 << 20 };

enum rnic_pci_access { RNIC_PCI_READ = 1, RNIC_PCI_WRITE = 2 }; /* by the card */

struct rnic_pci_ops;

/* An opened function; each way of access has its own part behind this. */
struct rnic_pci {
    const struct rnic_pci_ops *ops;
    uint8_t *
        doorbells; /* BAR2, mapped and shared with the card; NULL: it cannot be mapped, and is written by `write` */
    bool linear; /* a mapped range is one range for the card; false: it is a list of pages, see pages() */
    bool
        keeps_pages; /* the bus keeps the pages that are there when memory is mapped, and what may be done with them then; false: what counts
                        is what the program may do at each access */
    bool
        tells_end; /* constant: a driver that sleeps is told of the card's end, by `end_fd` or that of wait_hint(); false: it has to ask */
    int end_fd; /* constant: a local socket that the card's end closes, of which nothing else matters to who sleeps; -1: none */
    const char *dma; /* constant: how the card gets at memory, in words for people */
};

/* Memory for rings: pages of this process that no forked child has, mapped for DMA both ways. */
struct rnic_pci_slab {
    uint8_t *base;
    uint64_t iova;
    size_t bytes;
};

struct rnic_pci_ops {
    const char *name;
    /* Last call: the function is given back, and everything mapped goes. */
    void (*close)(struct rnic_pci *pci);
    /* In a forked child: forgets the parent's function without touching it. Async-signal-safe. */
    void (*abandon)(struct rnic_pci *pci);

    /* Registers of BAR0 and BAR2, 32 bits, in the processor's order. A read that cannot be made is all ones: the card is gone. */
    uint32_t (*read)(struct rnic_pci *pci, unsigned bar, uint32_t offset);
    void (*write)(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value);
    /* Configuration space: 1, 2 or 4 bytes. */
    uint32_t (*config_read)(struct rnic_pci *pci, uint32_t offset, unsigned bytes);
    void (*config_write)(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value);
    /* Function reset; everything stays mapped. */
    int (*reset)(struct rnic_pci *pci);

    /* Maps memory of the program for DMA, at an IOVA of its own that keeps the offset in the page. `access`: what the card
     * may do. Without `keeps_pages` the memory need not be mapped writable, nor be there at all until the card touches it. */
    int (*map)(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova);
    void (*unmap)(struct rnic_pci *pci, uint64_t iova, size_t bytes);
    /* Without `linear`: the addresses on the bus of the pages (of *page_bytes each) that [address, bytes) lies in; at most `most`. */
    int (*pages)(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                 size_t *count, size_t *page_bytes);

    int (*slab)(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out);
    void (*free_slab)(struct rnic_pci *pci, struct rnic_pci_slab *slab);

    /* A descriptor that becomes readable when the vector has fired; -1: there are no interrupts, the caller has to poll. */
    int (*interrupt_fd)(struct rnic_pci *pci, unsigned vector);
    void (*interrupt_clear)(struct rnic_pci *pci, unsigned vector);

    /* Lets the card work in the calling thread, where it lives in this process; otherwise answers what the adapter asks.
     * Does not block. NULL: nothing to do. */
    void (*progress)(struct rnic_pci *pci);
    /* Milliseconds until progress has something to do by itself (-1: never), and a descriptor that becomes readable when it has
     * before (-1: none). */
    void (*wait_hint)(struct rnic_pci *pci, int *fd, int *ms);
    /* Whether the card, its adapter or the connection to it is gone for good: known after some ten milliseconds, or with the next access. */
    bool (*is_gone)(struct rnic_pci *pci);
};

/* The reset by CTRL.RESET, for those ways to a card on which a function-level reset takes the system a tenth of a second. ENODEV: the card has
 * gone; ETIMEDOUT: it does not obey. */
int rnic_pci_reset_by_register(struct rnic_pci *pci);

/* For a function that another process has: it may be one that has just ended, whose function the system is still resetting. True: a moment has
 * passed, and trying again makes sense; false: it is used. `tried`: how often that has been so, 0 at first. */
bool rnic_pci_wait_until_free(unsigned *tried);

/* Opens a function of a card. `device`: what follows "rnic:" in the device name. ENODEV: it names no card that is there. */
typedef int rnic_pci_opener(const char *device, struct rnic_pci **out);
int rnic_pci_open(const char *device, struct rnic_pci **out);

/* The ways, which rnic_pci_open() tries in this order. Each returns ENODEV for a name that is not its own. */
rnic_pci_opener rnic_pci_inproc_open;    /* "inproc" */
rnic_pci_opener rnic_pci_vfio_user_open; /* "", "socket:PATH" */
rnic_pci_opener rnic_pci_vfio_open;      /* "pci:ADDRESS", bound to vfio-pci */
rnic_pci_opener rnic_pci_sysfs_open;     /* "pci:ADDRESS", no IOMMU */

/* rnic_pci_inproc_open(), or NULL in a library that was built without VIPL_BACKEND_RNIC_MODEL (backend_table.c). */
extern rnic_pci_opener *const rnic_pci_open_model;

#endif
