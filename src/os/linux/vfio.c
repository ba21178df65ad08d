/* SPDX-License-Identifier: MIT */
/*
 * VFIO, by which the kernel gives a PCI function to a process. The process opens a file for the
 * function, one for its group and one for the IOMMU; all three are registered as the library's
 * descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os/os.h"

enum { MAX_VECTORS = 64, INFO_BYTES = 4096, PATH = 128 };

/* Reads the last part of the target of a link in the function's folder. Returns false if there is
 * no such link. */
static bool link_name(const char *address, const char *link, char *name, size_t size)
{
    char path[PATH];
    char target[PATH * 4];
    int length = snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, link);
    ssize_t n = length > 0 && (size_t)length < sizeof(path) ? readlink(path, target, sizeof(target) - 1) : -1;
    target[n > 0 ? n : 0] = '\0';
    const char *last = strrchr(target, '/');
    return last != NULL && snprintf(name, size, "%s", last + 1) < (int)size;
}

static int open_vfio_file(const char *path, int *fd)
{
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : open(path, O_RDWR | O_CLOEXEC);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

/* The kernel lets one process at a time open the group's file. */
static int open_group(const char *group, struct vipl_vfio *vfio)
{
    char path[PATH];
    struct vfio_group_status status = {.argsz = sizeof(status)};
    snprintf(path, sizeof(path), "/dev/vfio/%s", group);
    int error = open_vfio_file(path, &vfio->group);
    error = error == 0 && ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status) != 0 ? errno : error;
    return error != 0 ? error : (status.flags & VFIO_GROUP_FLAGS_VIABLE) != 0 ? 0 : EPERM;
}

static int open_container(struct vipl_vfio *vfio)
{
    int error = open_vfio_file("/dev/vfio/vfio", &vfio->container);
    if (error == 0 && (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) != 0 ||
                       ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0)) {
        error = errno;
    }
    return error;
}

static int open_device(const char *address, struct vipl_vfio *vfio)
{
    vipl_fd_begin();
    vfio->device = vipl_resource_fails(EMFILE) ? -1 : ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, address);
    int error = vipl_fd_adopt(&vfio->device);
    vipl_fd_end();
    return error;
}

int vipl_vfio_open(const char *address, struct vipl_vfio *out)
{
    char driver[PATH / 2];
    char group[PATH / 2];
    struct vipl_vfio vfio = {-1, -1, -1};
    if (!vipl_pci_is_address(address) || !link_name(address, "driver", driver, sizeof(driver)) ||
        strcmp(driver, "vfio-pci") != 0 || !link_name(address, "iommu_group", group, sizeof(group))) {
        return ENODEV;
    }
    int error = open_group(group, &vfio);
    error = error == 0 ? open_container(&vfio) : error;
    error = error == 0 ? open_device(address, &vfio) : error;
    if (error != 0) {
        vipl_vfio_close(&vfio);
        return error;
    }
    *out = vfio;
    return 0;
}

void vipl_vfio_close(const struct vipl_vfio *vfio)
{
    vipl_fd_close(vfio->device);
    vipl_fd_close(vfio->group);
    vipl_fd_close(vfio->container);
}

int vipl_vfio_region(const struct vipl_vfio *vfio, unsigned index, uint64_t *offset, uint64_t *bytes)
{
    struct vfio_region_info info = {.argsz = sizeof(info), .index = index};
    if (ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, &info) != 0) {
        return errno;
    }
    *offset = info.offset;
    *bytes = info.size;
    return 0;
}

/* --- the IOMMU --- */

/* What the kernel tells of the IOMMU, with a list of capabilities behind it. */
union iommu_info {
    struct vfio_iommu_type1_info head;
    uint8_t bytes[INFO_BYTES];
};

/* Returns the capability with that id and at least `least` bytes. NULL: there is none. */
static const struct vfio_info_cap_header *find_capability(const union iommu_info *info, uint16_t id,
                                                          size_t least)
{
    uint32_t at = (info->head.flags & VFIO_IOMMU_INFO_CAPS) != 0 ? info->head.cap_offset : 0;
    while (at != 0 && at <= INFO_BYTES - least) {
        const struct vfio_info_cap_header *cap = (const void *)(info->bytes + at);
        if (cap->id == id) {
            return cap;
        }
        at = cap->next;
    }
    return NULL;
}

int vipl_vfio_spans(const struct vipl_vfio *vfio, struct vipl_span *out, unsigned most, unsigned *count,
                    size_t *page_bytes)
{
    union iommu_info info;
    memset(&info, 0, sizeof(info));
    info.head.argsz = sizeof(info);
    if (ioctl(vfio->container, VFIO_IOMMU_GET_INFO, &info) != 0) {
        return errno;
    }
    const struct vfio_iommu_type1_info_cap_iova_range *ranges =
        (const void *)find_capability(&info, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, sizeof(*ranges));
    if (ranges == NULL || (info.head.flags & VFIO_IOMMU_INFO_PGSIZES) == 0 || info.head.iova_pgsizes == 0) {
        return ENOTSUP;
    }
    size_t room = (size_t)(info.bytes + INFO_BYTES - (const uint8_t *)ranges->iova_ranges);
    *count = ranges->nr_iovas < most ? ranges->nr_iovas : most;
    *count = *count < room / sizeof(ranges->iova_ranges[0])
                 ? *count
                 : (unsigned)(room / sizeof(ranges->iova_ranges[0]));
    for (unsigned i = 0; i < *count; i++) {
        out[i] = (struct vipl_span){ranges->iova_ranges[i].start, ranges->iova_ranges[i].end};
    }
    size_t smallest = (size_t)(info.head.iova_pgsizes & (~info.head.iova_pgsizes + 1));
    *page_bytes = smallest > vipl_page_bytes() ? smallest : vipl_page_bytes();
    return 0;
}

int vipl_vfio_map(const struct vipl_vfio *vfio, void *address, uint64_t iova, size_t bytes, bool writable)
{
    struct vfio_iommu_type1_dma_map map = {.argsz = sizeof(map),
                                           .flags = VFIO_DMA_MAP_FLAG_READ |
                                                    (writable ? (uint32_t)VFIO_DMA_MAP_FLAG_WRITE : 0),
                                           .vaddr = (uint64_t)(uintptr_t)address,
                                           .iova = iova,
                                           .size = bytes};
    if (vipl_resource_fails(ENOMEM)) {
        return errno;
    }
    return ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map) == 0 ? 0 : errno;
}

void vipl_vfio_unmap(const struct vipl_vfio *vfio, uint64_t iova, size_t bytes)
{
    struct vfio_iommu_type1_dma_unmap unmap = {.argsz = sizeof(unmap), .iova = iova, .size = bytes};
    (void)ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &unmap);
}

/* --- interrupts, reset --- */

/* The kernel's structure ends in an array, for which this has room: one descriptor for each
 * vector. */
union irq_set {
    struct vfio_irq_set head;
    uint8_t bytes[sizeof(struct vfio_irq_set) + MAX_VECTORS * sizeof(int32_t)];
};

static int set_interrupt_events(const struct vipl_vfio *vfio, const int *fds, unsigned count)
{
    union irq_set set = {.head = {.argsz = (uint32_t)(sizeof(set.head) + count * sizeof(int32_t)),
                                  .flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
                                  .index = VFIO_PCI_MSIX_IRQ_INDEX,
                                  .count = count}};
    for (unsigned i = 0; i < count; i++) {
        int32_t fd = fds[i];
        memcpy(set.bytes + sizeof(set.head) + i * sizeof(fd), &fd, sizeof(fd));
    }
    return ioctl(vfio->device, VFIO_DEVICE_SET_IRQS, &set) == 0 ? 0 : errno;
}

int vipl_vfio_interrupts(const struct vipl_vfio *vfio, int *fds, unsigned count)
{
    int error = count <= MAX_VECTORS ? 0 : EINVAL;
    unsigned opened = 0;
    while (error == 0 && opened < count) {
        error = vipl_event_open(&fds[opened]);
        opened += error == 0 ? 1 : 0;
    }
    error = error == 0 ? set_interrupt_events(vfio, fds, count) : error;
    for (unsigned i = 0; error != 0 && i < opened; i++) {
        vipl_fd_close(fds[i]);
    }
    return error;
}

int vipl_vfio_reset(const struct vipl_vfio *vfio)
{
    return ioctl(vfio->device, VFIO_DEVICE_RESET) == 0 ? 0 : errno;
}
