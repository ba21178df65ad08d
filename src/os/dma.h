/* SPDX-License-Identifier: MIT */
/* What an emulated card, and the driver of a card, need of the system. */
#ifndef VIPL_OS_DMA_H
#define VIPL_OS_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/socket.h"

/* --- events: descriptors that count, made by this process or another one ---------------------- */

int vipl_event_open(int *fd); /* the descriptor does not block; -1 on failure */
void vipl_event_clear(int fd);
/* Whether it is safe to signal a descriptor that another process has made. */
bool vipl_event_is(int fd);
void vipl_event_signal(int fd);

/* --- files as the memory of a device ---------------------------------------------------------- */

enum vipl_file_kind {
    VIPL_FILE_OTHER,    /* nothing is known of it: an access may block, or raise a signal */
    VIPL_FILE_MAPPABLE, /* shared memory whose pages cannot be taken away while it is mapped */
    VIPL_FILE_MEMORY,   /* other shared memory: to be read and written as a file */
    VIPL_FILE_PROCESS   /* /proc/N/mem, the memory of a process: the offset is the address */
};
struct vipl_file {
    enum vipl_file_kind kind;
    uint64_t device;
    uint64_t inode;
    uint64_t bytes; /* not valid for the memory of a process */
};
/* Finds out what a descriptor from another process stands for. Seals the file against shrinking
 * where that makes it mappable. */
int vipl_file_identify(int fd, struct vipl_file *out);
/* Maps a whole mappable file as shared memory; read-only if it may not be written. */
int vipl_file_map(int fd, uint64_t bytes, void **base, bool *writable);
void vipl_file_unmap(void *base, uint64_t bytes);
/* Read and write all bytes at an offset. ESRCH: the file ends before them or, for the memory of a
 * process, that process has ended. EFAULT: memory is not there, or may not be accessed in this way.
 * The file does not grow. */
int vipl_file_read(int fd, uint64_t offset, void *out, size_t bytes);
int vipl_file_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* Opens this process's own memory, for another process to read and write. */
int vipl_own_memory(int *fd);

/* --- PCI functions of this machine, named by an address such as 0000:00:05.0 ------------------ */

/* A PCI function that the kernel's vfio-pci driver has. */
struct vipl_vfio {
    int device;    /* the file of the function; its regions are ranges of the file */
    int group;     /* the file of the group: the functions that no IOMMU tells from each other */
    int container; /* the file of the IOMMU */
};
struct vipl_span {
    uint64_t first;
    uint64_t last;
};
/* ENODEV: there is no such function, or vfio-pci does not have it. EBUSY: another process has
 * opened it. EPERM: vfio-pci does not have all functions of its group. */
int vipl_vfio_open(const char *address, struct vipl_vfio *out);
void vipl_vfio_close(const struct vipl_vfio *vfio);
/* Where a BAR (index 0 to 5) or the configuration space (index 7) lies in the function's file. */
int vipl_vfio_region(const struct vipl_vfio *vfio, unsigned index, uint64_t *offset, uint64_t *bytes);
/* The ranges of addresses that memory may have on the bus, in order. *page_bytes is what the
 * addresses and lengths of memory and of its place on the bus are multiples of. */
int vipl_vfio_spans(const struct vipl_vfio *vfio, struct vipl_span *out, unsigned most, unsigned *count,
                    size_t *page_bytes);
/* Locks memory and maps it for DMA. EFAULT: the memory is not there, or not writable; ENOMEM: the
 * limit of locked memory; ENOSPC: the limit of mappings. */
int vipl_vfio_map(const struct vipl_vfio *vfio, void *address, uint64_t iova, size_t bytes, bool writable);
void vipl_vfio_unmap(const struct vipl_vfio *vfio, uint64_t iova, size_t bytes);
/* Opens one descriptor for each MSI-X vector, which becomes readable when the vector fires. */
int vipl_vfio_interrupts(const struct vipl_vfio *vfio, int *fds, unsigned count);
int vipl_vfio_reset(const struct vipl_vfio *vfio);

/* Opens a file of the function in sysfs for reading and writing. ENODEV: there is no such function;
 * EBUSY: another process has opened the file by this call. */
int vipl_pci_open(const char *address, const char *name, int *fd);
/* Writes a word to a file. */
int vipl_pci_set(const char *address, const char *name, const char *value);
bool vipl_pci_is_address(const char *address); /* whether the text has the form of an address */
bool vipl_pci_has_iommu(const char *address);
/* Make one access of 1, 2 or 4 bytes. Return false if it failed. */
bool vipl_pci_read(int fd, uint64_t offset, void *out, size_t bytes);
bool vipl_pci_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* Maps registers or doorbells. Forked children do not have the mapping. NULL: they cannot be
 * mapped. */
void *vipl_pci_map(int fd, uint64_t offset, size_t bytes);
void vipl_pci_unmap(void *base, size_t bytes);

/* --- memory for DMA --------------------------------------------------------------------------- */

/* Returns zeroed pages aligned to 2 MiB, which forked children do not have. `physical`: 2 MiB
 * exactly, at one range of physical addresses. NULL: there is no memory, or the system has set no
 * such pages aside. */
void *vipl_dma_pages(size_t bytes, bool physical);
void vipl_dma_pages_free(void *pages, size_t bytes);
/* Locks pages into memory. Locks do not nest: one unlock undoes any number of them. ENOMEM: not all
 * of the memory is there, or the limit of locked memory is reached. */
int vipl_memory_lock(const void *address, size_t bytes);
void vipl_memory_unlock(const void *address, size_t bytes);
uint64_t vipl_memory_lock_limit(void); /* bytes that this process may lock; UINT64_MAX: no limit */
uint64_t vipl_memory_total(void);      /* bytes of memory that the system has */
/* The physical addresses of whole pages. EPERM: the process may not know them; EFAULT: a page is
 * not there, and has the address 0, while the others have theirs. */
int vipl_physical_pages(const void *address, size_t count, uint64_t *out);

/* --- whole frames: they never block. EAGAIN: nothing has come, or there is no room now -------- */

/* Datagrams between hosts, each with one frame. EADDRINUSE: the port is taken. */
int vipl_datagram_open(const struct vipl_inet *local, int *fd);
int vipl_datagram_send(int fd, const struct vipl_inet *to, const void *bytes, size_t length);
/* A datagram that is longer than `size` is cut. */
int vipl_datagram_receive(int fd, struct vipl_inet *from, void *bytes, size_t size, size_t *length);
/* Frames on a network interface, each from its destination address on: those of one EtherType,
 * which vipl_frame_receive() takes; or with type 0 all that arrive, for any address, which
 * vipl_packet_receive() takes. EPERM: this process may not; ENODEV: there is no such Ethernet
 * interface. */
int vipl_packet_open(const char *interface, uint16_t type, uint8_t mac[6], uint32_t *mtu, int *fd);
/* As vipl_frame_receive(). Puts the tag of a VLAN, which the system has taken out of the frame,
 * back to its place; what this host sends is left out. */
int vipl_packet_receive(int fd, void *frame, size_t size, size_t *length);
/* Frames through a virtual interface, which is made if it is missing: what is sent here arrives
 * there. */
int vipl_tap_open(const char *interface, int *fd);
int vipl_frame_send(int fd, const void *frame, size_t length);
/* ENODEV: the interface is gone, for good. */
int vipl_frame_receive(int fd, void *frame, size_t size, size_t *length);

#endif
