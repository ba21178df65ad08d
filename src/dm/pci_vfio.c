/* SPDX-License-Identifier: MIT */
/*
 * PCI functions by the kernel's VFIO; see pci.h. Each function has a container of its own, and so a
 * map of addresses of its own: the driver of the RDMA card, which has its own too, and this one
 * know nothing of each other. Memory that both use is mapped twice, at two addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dm/bytes.h"
#include "dm/pci.h"
#include "dm/reason.h"

enum {
    BARS = 6,
    MAX_SPANS = 16,
    MAX_PAGES = 4,     /* calls of take_pages() */
    INFO_BYTES = 4096, /* room for what the kernel says of an IOMMU */
    COMMAND = 4,       /* in configuration space */
    COMMAND_MEMORY_AND_MASTER = 6
};
static const uint64_t FIRST_ADDRESS = UINT64_C(1) << 20; /* 0 is nobody's */

struct mapped {
    uint8_t *at; /* NULL: not mapped */
    uint64_t bytes;
};

struct span {
    uint64_t next; /* address that is free, as all behind it */
    uint64_t last;
};

struct vfio_pci {
    struct dm_pci base;
    int container;
    int group;
    int device;
    uint64_t page_bytes;
    struct span spans[MAX_SPANS];
    unsigned span_count;
    struct mapped bars[BARS];
    struct mapped pages[MAX_PAGES];
    unsigned page_count;
};

static struct vfio_pci *vfio_of(struct dm_pci *pci)
{
    return (struct vfio_pci *)pci;
}

/* --- registers and BARs ----------------------------------------------------------------------- */

/* Registers are little-endian on every machine. */
static uint32_t vfio_read(struct dm_pci *pci, uint32_t offset)
{
    uint8_t bytes[4];
    uint32_t word = __atomic_load_n((const uint32_t *)(const void *)(vfio_of(pci)->bars[0].at + offset),
                                    __ATOMIC_ACQUIRE);

    memcpy(bytes, &word, sizeof(bytes));
    return dm_get32(bytes, false);
}

/* The fence is for stores to memory of other kinds: a queue's, and that of a BAR. */
static void vfio_write(struct dm_pci *pci, uint32_t offset, uint32_t value)
{
    uint8_t bytes[4];
    uint32_t word;

    dm_put_little(bytes, value, sizeof(bytes));
    memcpy(&word, bytes, sizeof(word));
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n((uint32_t *)(void *)(vfio_of(pci)->bars[0].at + offset), word, __ATOMIC_RELEASE);
}

static int find_region(const struct vfio_pci *vfio, unsigned index, struct vfio_region_info *info)
{
    *info = (struct vfio_region_info){.argsz = sizeof(*info), .index = index};
    return ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, info) == 0 ? 0 : errno;
}

static int vfio_map_bar(struct dm_pci *pci, unsigned bar, uint8_t **at, uint64_t *bytes)
{
    struct vfio_pci *vfio = vfio_of(pci);
    struct vfio_region_info info;
    void *mapping;
    int error = bar < BARS ? find_region(vfio, bar, &info) : ENXIO;

    if (error != 0 || info.size == 0 || info.size > SIZE_MAX) {
        return error != 0 ? error : ENXIO;
    }
    if (vfio->bars[bar].at == NULL) {
        mapping = mmap(NULL, (size_t)info.size, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->device,
                       (off_t)info.offset);
        if (mapping == MAP_FAILED) {
            return errno;
        }
        vfio->bars[bar] = (struct mapped){mapping, info.size};
    }
    *at = vfio->bars[bar].at;
    *bytes = vfio->bars[bar].bytes;
    return 0;
}

static int allow_bus(const struct vfio_pci *vfio)
{
    struct vfio_region_info info;
    uint8_t command[2];
    off_t at;
    int error = find_region(vfio, VFIO_PCI_CONFIG_REGION_INDEX, &info);

    if (error != 0) {
        return error;
    }
    at = (off_t)(info.offset + COMMAND);
    if (pread(vfio->device, command, 2, at) != 2) {
        return EIO;
    }
    command[0] |= COMMAND_MEMORY_AND_MASTER;
    return pwrite(vfio->device, command, 2, at) == 2 ? 0 : EIO;
}

static int vfio_begin(struct dm_pci *pci)
{
    uint8_t *at;
    uint64_t bytes = 0;
    int error = vfio_map_bar(pci, 0, &at, &bytes);

    if (error == 0) {
        error = allow_bus(vfio_of(pci));
    }
    pci->register_bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    return error;
}

static int vfio_reset(struct dm_pci *pci)
{
    return ioctl(vfio_of(pci)->device, VFIO_DEVICE_RESET) == 0 ? 0 : errno;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int vfio_take_addresses(struct dm_pci *pci, uint64_t bytes, uint64_t *bus)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint64_t whole = dm_round_up(bytes, vfio->page_bytes);

    for (unsigned i = 0; i < vfio->span_count; i++) {
        struct span *span = &vfio->spans[i];
        if (span->next <= span->last && whole - 1 <= span->last - span->next) {
            *bus = span->next;
            span->next += whole;
            return 0;
        }
    }
    return ENOSPC;
}

static int vfio_map(struct dm_pci *pci, void *at, uint64_t bytes, uint64_t *bus)
{
    struct vfio_pci *vfio = vfio_of(pci);
    struct vfio_iommu_type1_dma_map map = {.argsz = sizeof(map),
                                           .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
                                           .vaddr = (uintptr_t)at,
                                           .size = dm_round_up(bytes, vfio->page_bytes)};
    uint64_t address;
    int error = vfio_take_addresses(pci, bytes, &address);

    if (error != 0) {
        return error;
    }
    map.iova = address;
    if (ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map) != 0) {
        return errno;
    }
    *bus = address;
    return 0;
}

static int vfio_take_pages(struct dm_pci *pci, uint64_t bytes, uint8_t **at, uint64_t *bus)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint64_t whole = dm_round_up(bytes, vfio->page_bytes);
    void *pages;
    int error;

    if (vfio->page_count == MAX_PAGES) {
        return ENOSPC;
    }
    pages = mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return errno;
    }
    (void)madvise(pages, (size_t)whole, MADV_DONTFORK); /* a child's copy would move these pages away */
    error = vfio_map(pci, pages, whole, bus);
    if (error != 0) {
        munmap(pages, (size_t)whole);
        return error;
    }
    vfio->pages[vfio->page_count++] = (struct mapped){pages, whole};
    *at = pages;
    return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void close_file(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void unmap_all(const struct mapped *mapped, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (mapped[i].at != NULL) {
            munmap(mapped[i].at, (size_t)mapped[i].bytes);
        }
    }
}

/* The kernel resets the function with the last file of the device, and ends its maps with that of
 * the container. Only then are the pages given back. */
static void vfio_close(struct dm_pci *pci)
{
    struct vfio_pci *vfio = vfio_of(pci);

    unmap_all(vfio->bars, BARS);
    close_file(vfio->device);
    close_file(vfio->group);
    close_file(vfio->container);
    unmap_all(vfio->pages, vfio->page_count);
    free(vfio);
}

static const struct dm_pci_ops vfio_ops = {
    .close = vfio_close,
    .begin = vfio_begin,
    .read = vfio_read,
    .write = vfio_write,
    .reset = vfio_reset,
    .map_bar = vfio_map_bar,
    .take_addresses = vfio_take_addresses,
    .map = vfio_map,
    .take_pages = vfio_take_pages,
};

bool dm_pci_is_address(const char *text)
{
    static const char form[] = "xxxx:xx:xx.x";
    size_t i = 0;

    for (; form[i] != '\0'; i++) {
        bool is_digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (form[i] == 'x' ? !is_digit : text[i] != form[i]) {
            return false;
        }
    }
    return text[i] == '\0';
}

/* The last part of what a link in the function's folder leads to. */
static bool read_link(const char *address, const char *link, char *name, size_t room)
{
    char path[96];
    char target[512];
    ssize_t length;
    const char *last;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, link);
    length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    last = strrchr(target, '/');
    return last != NULL && snprintf(name, room, "%s", last + 1) < (int)room;
}

static int find_group(const char *address, const char *what, char *group, size_t room,
                      struct vipl_dm_reason *reason)
{
    char name[64];

    if (!dm_pci_is_address(address)) {
        return dm_fail(reason, EINVAL, "%s: not the address of a PCI function, such as 0000:05:00.0", what);
    }
    if (!read_link(address, "subsystem", name, sizeof(name))) {
        return dm_fail(reason, ENODEV, "%s: there is no such PCI function", what);
    }
    if (!read_link(address, "iommu_group", group, room)) {
        return dm_fail(reason, ENODEV, "%s: it is behind no IOMMU", what);
    }
    if (!read_link(address, "driver", name, sizeof(name)) || strcmp(name, "vfio-pci") != 0) {
        return dm_fail(reason, ENODEV, "%s: the kernel's driver vfio-pci does not have it", what);
    }
    return 0;
}

static int open_group(struct vfio_pci *vfio, const char *group, const char *what,
                      struct vipl_dm_reason *reason)
{
    struct vfio_group_status status = {.argsz = sizeof(status)};
    char path[96];

    snprintf(path, sizeof(path), "/dev/vfio/%s", group);
    vfio->group = open(path, O_RDWR | O_CLOEXEC);
    if (vfio->group < 0 && errno == EBUSY) {
        return dm_fail(reason, EBUSY, "%s: another program has it, or another part of this one", what);
    }
    if (vfio->group < 0 || ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status) != 0) {
        int error = errno;
        return dm_fail(reason, error, "%s: %s: %s", what, path, strerror(error));
    }
    if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
        return dm_fail(reason, EPERM, "%s: vfio-pci does not have all functions of its IOMMU group", what);
    }
    return 0;
}

/* Addresses that memory may have on the bus, by what the kernel says of the IOMMU. */
static void take_spans(struct vfio_pci *vfio, const struct vfio_iommu_type1_info_cap_iova_range *ranges,
                       size_t room)
{
    for (unsigned i = 0; i < ranges->nr_iovas && i < room && i < MAX_SPANS; i++) {
        uint64_t first = ranges->iova_ranges[i].start;
        uint64_t next = dm_round_up(first > FIRST_ADDRESS ? first : FIRST_ADDRESS, vfio->page_bytes);
        vfio->spans[vfio->span_count++] = (struct span){next, ranges->iova_ranges[i].end};
    }
}

static int find_spans(struct vfio_pci *vfio)
{
    union {
        struct vfio_iommu_type1_info head;
        uint8_t bytes[INFO_BYTES];
    } info;
    struct vfio_info_cap_header head;
    const size_t least = sizeof(struct vfio_iommu_type1_info_cap_iova_range);
    uint64_t system = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t smallest;
    uint32_t at;

    memset(&info, 0, sizeof(info));
    info.head.argsz = sizeof(info);
    if (ioctl(vfio->container, VFIO_IOMMU_GET_INFO, &info) != 0) {
        return errno;
    }
    smallest = info.head.iova_pgsizes & (~info.head.iova_pgsizes + 1);
    vfio->page_bytes = smallest > system ? smallest : system;
    at = (info.head.flags & VFIO_IOMMU_INFO_CAPS) != 0 ? info.head.cap_offset : 0;
    while (at != 0 && at % 8 == 0 && at <= INFO_BYTES - least) {
        memcpy(&head, info.bytes + at, sizeof(head));
        if (head.id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
            take_spans(vfio, (const void *)(info.bytes + at),
                       (INFO_BYTES - at - least) / sizeof(struct vfio_iova_range));
            break;
        }
        at = head.next > at ? head.next : 0;
    }
    return vfio->span_count > 0 ? 0 : ENOTSUP;
}

static int open_container(struct vfio_pci *vfio, const char *address, const char *what,
                          struct vipl_dm_reason *reason)
{
    int error = 0;

    vfio->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
    if (vfio->container < 0 || ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) != 0 ||
        ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0) {
        error = errno;
    }
    error = error == 0 ? find_spans(vfio) : error;
    if (error != 0) {
        return dm_fail(reason, error, "%s: its IOMMU cannot be used: %s", what, strerror(error));
    }
    vfio->device = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, address);
    if (vfio->device < 0) {
        error = errno;
        return dm_fail(reason, error, "%s: %s", what, strerror(error));
    }
    return 0;
}

int dm_pci_open(const char *address, const char *what, struct dm_pci **pci, struct vipl_dm_reason *reason)
{
    char group[64];
    struct vfio_pci *vfio;
    int error = find_group(address, what, group, sizeof(group), reason);

    if (error != 0) {
        return error;
    }
    vfio = calloc(1, sizeof(*vfio));
    if (vfio == NULL) {
        return dm_fail(reason, ENOMEM, "%s: no memory", what);
    }
    vfio->base.ops = &vfio_ops;
    vfio->container = -1;
    vfio->group = -1;
    vfio->device = -1;
    error = open_group(vfio, group, what, reason);
    if (error == 0) {
        error = open_container(vfio, address, what, reason);
    }
    if (error != 0) {
        vfio_close(&vfio->base);
        return error;
    }
    *pci = &vfio->base;
    return 0;
}
