/* SPDX-License-Identifier: MIT */
/*
 * Access to one function of an RDMA card on a PCI bus, whatever stands behind it: the model in this
 * process, an adapter that serves the function over vfio-user, a simulator behind a socket, the
 * kernel's VFIO, or the files of sysfs. The driver reaches the card through this interface alone:
 * register accesses, mapped doorbells, memory that is mapped for DMA, and interrupts.
 *
 * Functions return errno values, 0 for success. Any thread may call them at any time. They take no
 * lock of the caller.
 */
#ifndef BACKENDS_RNIC_PCI_PCI_H
#define BACKENDS_RNIC_PCI_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RNIC_PCI_SLAB_BYTES = 2 << 20 };

/* What the card may do with memory that is mapped for DMA. */
enum rnic_pci_access { RNIC_PCI_READ = 1, RNIC_PCI_WRITE = 2 };

struct rnic_pci_ops;

/* An opened function. Each way of access embeds this structure as the first member of its own. All
 * fields are constant while the function is open. */
struct rnic_pci {
    const struct rnic_pci_ops *ops;
    /* BAR2, mapped and shared with the card. NULL: BAR2 cannot be mapped, and write() is used. */
    uint8_t *doorbells;
    /* BAR4, mapped: device memory, of which the last part may not be there. NULL: there is none, or
     * it cannot be mapped. */
    uint8_t *device;
    size_t device_bytes;
    /* True: a mapped range is one range of addresses for the card. False: the card needs a list of
     * pages, which pages() returns. */
    bool linear;
    /* True: map() fixes the pages and the access rights for as long as the range is mapped. False:
     * at each access by the card, the rights count that the program has then. */
    bool keeps_pages;
    /* True: the end of the card wakes a driver that sleeps on `end_fd` or on the descriptor of
     * wait_hint(). False: the driver has to ask is_gone() from time to time. */
    bool tells_end;
    /* A local socket that is closed when the card ends; a sleeper ignores everything else that it
     * reports. -1: there is none. */
    int end_fd;
    /* How the card reaches memory, as text for people. */
    const char *dma;
};

/* Memory for rings: pages of this process that no forked child inherits, mapped for DMA in both
 * directions. */
struct rnic_pci_slab {
    uint8_t *base;
    uint64_t iova;
    size_t bytes;
};

struct rnic_pci_ops {
    const char *name;
    /* The last call: gives the function back and unmaps everything. */
    void (*close)(struct rnic_pci *pci);
    /* Called in a forked child: forgets the parent's function without touching it.
     * Async-signal-safe. */
    void (*abandon)(struct rnic_pci *pci);

    /* Reads and writes a register of BAR0 or BAR2: 32 bits, in the processor's byte order. A read
     * that fails returns all ones, which means that the card is gone. */
    uint32_t (*read)(struct rnic_pci *pci, unsigned bar, uint32_t offset);
    void (*write)(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value);
    /* Reads and writes 1, 2 or 4 bytes of configuration space. */
    uint32_t (*config_read)(struct rnic_pci *pci, uint32_t offset, unsigned bytes);
    void (*config_write)(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value);
    /* Resets the function. Mapped memory stays mapped. */
    int (*reset)(struct rnic_pci *pci);

    /*
     * Maps memory of the program for DMA at an IOVA that keeps the offset within the page.
     * `access`: RNIC_PCI_READ, RNIC_PCI_WRITE or both. If `keeps_pages` is false, the memory need
     * not be writable, nor even present, before the card accesses it.
     */
    int (*map)(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova);
    void (*unmap)(struct rnic_pci *pci, uint64_t iova, size_t bytes);
    /* Only if `linear` is false: stores the bus addresses of the pages that contain the range, at
     * most `most` of them. *count: how many there are; *page_bytes: the size of each. */
    int (*pages)(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                 size_t *count, size_t *page_bytes);

    /* Allocates and frees memory for rings. */
    int (*slab)(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out);
    void (*free_slab)(struct rnic_pci *pci, struct rnic_pci_slab *slab);

    /* Returns the descriptor that becomes readable when the vector fires. -1: there are no
     * interrupts, and the caller has to poll. */
    int (*interrupt_fd)(struct rnic_pci *pci, unsigned vector);
    /* Makes the descriptor unreadable until the vector fires again. */
    void (*interrupt_clear)(struct rnic_pci *pci, unsigned vector);

    /* Optional (may be NULL). Runs the card in the calling thread, if the card lives in this
     * process; answers the requests of the adapter, if there is one. Never blocks. */
    void (*progress)(struct rnic_pci *pci);
    /* How long the caller may sleep before it has to call progress(): *ms milliseconds (-1: for
     * ever), or until the descriptor *fd becomes readable (-1: there is none). */
    void (*wait_hint)(struct rnic_pci *pci, int *fd, int *ms);
    /* Returns true if the card, its adapter or the connection to it is gone for good. The answer
     * may be some ten milliseconds late, unless an access to the card has failed meanwhile. */
    bool (*is_gone)(struct rnic_pci *pci);
    /* Optional (may be NULL). After is_gone() has returned true: why, as text for people; NULL: the
     * card has ended by itself. */
    const char *(*gone_because)(const struct rnic_pci *pci);
};

/* Resets the function by CTRL.RESET, for ways on which a function-level reset takes the system a
 * tenth of a second. ENODEV: the card is gone. ETIMEDOUT: the card does not become ready. */
int rnic_pci_reset_by_register(struct rnic_pci *pci);

/*
 * Returns true some hundred times a second: when a connection to a card is to be looked at by a
 * program that never sleeps. `*checked_at`, which starts at 0, is when that was last so, in
 * milliseconds: atomic, relaxed.
 */
bool rnic_pci_check_is_due(uint32_t *checked_at);

/* Switches MSI-X on, which is off after each reset, in the capability that configuration space
 * lists. The vectors stay masked. */
void rnic_pci_enable_msix(struct rnic_pci *pci);

/*
 * Called when another process has the function. That process may have just ended, and the system
 * may still be resetting its function. Returns true after a pause: the caller tries again. Returns
 * false when `*tried`, which starts at 0 and counts the calls, is too large: the function is in
 * use.
 */
bool rnic_pci_wait_until_free(unsigned *tried);

/* Opens a function of a card. `device`: the text after "rnic:" in the device name. ENODEV: no card
 * has that name. */
typedef int rnic_pci_opener(const char *device, struct rnic_pci **out);
int rnic_pci_open(const char *device, struct rnic_pci **out);

/* The ways to a card. Each returns ENODEV for a name that belongs to another way. */
rnic_pci_opener rnic_pci_inproc_open;    /* "inproc" */
rnic_pci_opener rnic_pci_vfio_user_open; /* "", "socket:PATH" */
rnic_pci_opener rnic_pci_bus_open;       /* "bus:PATH" */
rnic_pci_opener rnic_pci_vfio_open;      /* "pci:ADDRESS", bound to vfio-pci */
rnic_pci_opener rnic_pci_sysfs_open;     /* "pci:ADDRESS", no IOMMU */

/* Says in words which adapter the device "" is. */
typedef void rnic_pci_sayer(char *text, size_t size);
rnic_pci_sayer rnic_pci_adapter_say;

/*
 * What the library has of these, which the build sets (rnic_table.c): rnic_pci_inproc_open(), or
 * NULL without VIPL_BACKEND_RNIC_MODEL; the other ways, in the order in which rnic_pci_open() tries
 * them, up to NULL; rnic_pci_adapter_say(), or NULL without them.
 */
extern rnic_pci_opener *const rnic_pci_open_model;
extern rnic_pci_opener *const rnic_pci_openers[];
extern rnic_pci_sayer *const rnic_pci_say_adapter;

#endif
