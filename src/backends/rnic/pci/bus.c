/* SPDX-License-Identifier: MIT */
/*
 * A card that something else has behind a socket, a simulator of hardware perhaps: "bus:PATH". The
 * card and this process have no memory in common. Registers and doorbells are messages, and so is
 * each access of the card to this program's memory: a thread of this process makes it, or any
 * thread that waits for the card.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/pci/maps.h"
#include "backends/rnic/pci/pci.h"
#include "backends/rnic/pci/start.h"
#include "base/deadline.h"
#include "base/iov.h"
#include "base/list.h"
#include "base/log.h"
#include "bus/host.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "rnic/registers.h"

enum {
    ROOM_MS = 1, /* until messages that the card does not read are sent again */
    VECTOR_BYTES = 16,
    VECTOR_CONTROL = 12 /* in an entry of the MSI-X table */
};

struct bus_function {
    struct rnic_pci pci; /* first */
    struct rnic_bus_host host;
    struct rnic_maps maps;
    struct vipl_waker events[RNIC_VECTORS]; /* constant once it is open, as what follows but the last */
    unsigned event_count;                   /* of them that are open */
    struct vipl_waker wake;                 /* for the thread: to end, or to send what is kept */
    struct vipl_thread thread;
    bool has_wake;
    bool has_thread;
    uint32_t is_closing; /* atomic: the thread is to end */
    uint32_t checked_at; /* see rnic_pci_check_is_due() */
};

static struct bus_function *bus_function_of(struct rnic_pci *pci)
{
    return VIPL_CONTAINER(pci, struct bus_function, pci);
}

/* --- registers --- */

static uint32_t read_space(struct rnic_pci *pci, unsigned space, uint32_t offset, unsigned bytes)
{
    uint64_t value;
    return rnic_bus_host_read(&bus_function_of(pci)->host, space, offset, bytes, &value) == 0
               ? (uint32_t)value
               : UINT32_MAX;
}

static uint32_t bus_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    return read_space(pci, bar, offset, 4);
}

static void bus_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    rnic_bus_host_write(&bus_function_of(pci)->host, bar, offset, 4, value);
}

static uint32_t bus_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    return read_space(pci, BUS_CONFIG, offset, bytes);
}

static void bus_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    rnic_bus_host_write(&bus_function_of(pci)->host, BUS_CONFIG, offset, bytes, value);
}

/* An interrupt is a message that names its vector, so that the vectors need no addresses. */
static int bus_reset(struct rnic_pci *pci)
{
    int error = rnic_bus_host_reset(&bus_function_of(pci)->host);
    if (error != 0) {
        return error;
    }
    rnic_pci_enable_msix(pci);
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        bus_write(pci, 0, RNIC_MSIX_TABLE + i * VECTOR_BYTES + VECTOR_CONTROL, 0);
    }
    return 0;
}

/* --- what the card does --- */

/* The program's memory is reached with the access rights that the program itself has now. */
static bool read_program_memory(void *context, uint64_t address, void *out, uint32_t bytes)
{
    struct bus_function *f = context;
    const struct rnic_mapping *held;
    const uint8_t *at = rnic_maps_hold(&f->maps, address, bytes, RNIC_PCI_READ, &held);
    bool is_there = at != NULL;
    if (!is_there) {
        return false;
    }
    if (held->is_slab) {
        memcpy(out, at, bytes);
    } else {
        is_there = vipl_copy_checked(out, at, bytes) == 0;
    }
    rnic_maps_release(&f->maps);
    return is_there;
}

static const char *write_program_memory(void *context, uint64_t address, const void *in, uint32_t bytes)
{
    struct bus_function *f = context;
    const struct rnic_mapping *held;
    uint8_t *at = rnic_maps_hold(&f->maps, address, bytes, RNIC_PCI_WRITE, &held);
    bool is_there = true;
    if (at == NULL) {
        return "the card writes to memory that it was not given";
    }
    if (held->is_slab) {
        vipl_iov_put(at, in, bytes); /* the last word of an entry tells the driver that it is there */
    } else {
        is_there = vipl_iov_put_checked(at, in, bytes);
    }
    rnic_maps_release(&f->maps);
    return is_there ? NULL : "the card writes to registered memory that the program has unmapped";
}

static bool fire(void *context, uint64_t vector)
{
    struct bus_function *f = context;
    if (vector >= f->event_count) {
        return false;
    }
    vipl_waker_signal(&f->events[vector]);
    return true;
}

static void behind(void *context)
{
    struct bus_function *f = context;
    vipl_waker_signal(&f->wake);
}

static void serve_card(void *context)
{
    struct bus_function *f = context;
    const int fds[2] = {f->host.channel.fd, f->wake.fd};
    bool is_done = true;
    while (vipl_load_acquire(&f->is_closing) == 0 && !rnic_bus_host_is_gone(&f->host)) {
        (void)vipl_poll(fds, 2, is_done ? -1 : ROOM_MS, NULL);
        vipl_waker_reset(&f->wake); /* before the look at what it is for */
        is_done = rnic_bus_host_serve(&f->host);
    }
}

/* --- memory --- */

static int bus_map(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    return rnic_maps_add(&bus_function_of(pci)->maps, address, bytes, access, false, iova);
}

static void bus_unmap(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    rnic_maps_remove(&bus_function_of(pci)->maps, iova, bytes);
}

static int bus_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    struct vipl_shm shm;
    uint64_t iova;
    int error = vipl_shm_create(&shm, "rnic-slab", bytes); /* no child inherits it */
    if (error != 0) {
        return error;
    }
    vipl_shm_close_fd(&shm);
    error = rnic_maps_add(&bus_function_of(pci)->maps, shm.base, bytes, RNIC_PCI_READ | RNIC_PCI_WRITE, true,
                          &iova);
    if (error != 0) {
        vipl_shm_release(&shm);
        return error;
    }
    *out = (struct rnic_pci_slab){shm.base, iova, bytes};
    return 0;
}

static void bus_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    struct vipl_shm shm = {-1, slab->base, slab->bytes};
    bus_unmap(pci, slab->iova, slab->bytes);
    vipl_shm_release(&shm);
}

/* --- interrupts and progress --- */

static int bus_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    return vector < RNIC_VECTORS ? bus_function_of(pci)->events[vector].fd : -1;
}

static void bus_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    vipl_waker_reset(&bus_function_of(pci)->events[vector]);
}

/* The end of the connection is noticed at its socket, which a program that never sleeps reads from
 * time to time. */
static void bus_progress(struct rnic_pci *pci)
{
    struct bus_function *f = bus_function_of(pci);
    if (rnic_pci_check_is_due(&f->checked_at)) {
        rnic_bus_host_progress(&f->host);
    }
}

static void bus_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    (void)pci;
    *fd = *ms = -1;
}

static bool bus_is_gone(struct rnic_pci *pci)
{
    struct bus_function *f = bus_function_of(pci);
    bus_progress(pci);
    return rnic_bus_host_is_gone(&f->host);
}

static const char *bus_gone_because(const struct rnic_pci *pci)
{
    return ((const struct bus_function *)(const void *)pci)->host.why;
}

/* --- opening and closing --- */

static void close_function(struct bus_function *f)
{
    if (f->has_thread) {
        vipl_store_release(&f->is_closing, 1); /* pairs with serve_card() */
        vipl_waker_signal(&f->wake);
        vipl_thread_join(&f->thread);
    }
    if (f->has_wake) {
        vipl_waker_close(&f->wake);
    }
    rnic_bus_host_close(&f->host);
    for (unsigned i = 0; i < f->event_count; i++) {
        vipl_waker_close(&f->events[i]);
    }
    rnic_maps_fini(&f->maps);
    vipl_free(f);
}

static void bus_close(struct rnic_pci *pci)
{
    close_function(bus_function_of(pci));
}

/* A child has none of the descriptors: os.h sees to that. */
static void bus_abandon(struct rnic_pci *pci)
{
    (void)pci;
}

static const struct rnic_pci_ops pci_ops = {.name = "bus",
                                            .close = bus_close,
                                            .abandon = bus_abandon,
                                            .read = bus_read,
                                            .write = bus_write,
                                            .config_read = bus_config_read,
                                            .config_write = bus_config_write,
                                            .reset = bus_reset,
                                            .map = bus_map,
                                            .unmap = bus_unmap,
                                            .pages = NULL, /* ranges are whole */
                                            .slab = bus_slab,
                                            .free_slab = bus_free_slab,
                                            .interrupt_fd = bus_interrupt_fd,
                                            .interrupt_clear = bus_interrupt_clear,
                                            .progress = bus_progress,
                                            .wait_hint = bus_wait_hint,
                                            .is_gone = bus_is_gone,
                                            .gone_because = bus_gone_because};
static const struct rnic_bus_host_ops host_ops = {
    .dma_read = read_program_memory, .dma_write = write_program_memory, .interrupt = fire, .behind = behind};

static int open_events(struct bus_function *f)
{
    int error = vipl_waker_open(&f->wake);
    f->has_wake = error == 0;
    while (error == 0 && f->event_count < RNIC_VECTORS) {
        error = vipl_waker_open(&f->events[f->event_count]);
        f->event_count += error == 0 ? 1 : 0;
    }
    return error;
}

/* The connection is the last to begin: then the card may do all that it may do. */
static int set_up_function(struct bus_function *f, int fd)
{
    f->pci = (struct rnic_pci){
        .ops = &pci_ops, .dma = "messages of the bus", .linear = true, .tells_end = true, .end_fd = fd};
    f->host.channel.fd = -1;
    rnic_maps_init(&f->maps);
    int error = open_events(f);
    if (error != 0) {
        vipl_fd_close(fd);
        return error;
    }
    error = rnic_bus_host_open(&f->host, fd, BUS_PATIENCE_MS, &host_ops, f);
    if (error == 0 && (f->host.bars[0] < RNIC_BAR0_BYTES || f->host.bars[2] < RNIC_BAR2_BYTES)) {
        f->host.why = "its BARs are too small for the registers and doorbells of this card";
        error = EPROTO;
    }
    if (error == 0) {
        error = vipl_thread_start(&f->thread, serve_card, f);
        f->has_thread = error == 0;
    }
    return error;
}

int rnic_pci_bus_open(const char *device, struct rnic_pci **out)
{
    static const char prefix[] = "bus:";
    int fd = -1;
    if (strncmp(device, prefix, sizeof(prefix) - 1) != 0) {
        return ENODEV;
    }
    int error = rnic_pci_connect_path(device + sizeof(prefix) - 1, vipl_deadline(BUS_PATIENCE_MS), &fd);
    struct bus_function *f = error == 0 ? vipl_zalloc(sizeof(*f)) : NULL;
    if (f == NULL) {
        vipl_fd_close(fd);
        return error == 0 ? ENOMEM : error;
    }
    error = set_up_function(f, fd);
    if (error != 0) {
        if (f->host.why != NULL) {
            vipl_log(VIPL_LOG_REASON, "rnic: %s: %s", device, f->host.why);
        }
        close_function(f);
        return error == ENODEV ? ECONNRESET : error; /* the connection has ended */
    }
    *out = &f->pci;
    return 0;
}
