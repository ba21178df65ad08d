/* SPDX-License-Identifier: MIT */
/* Maps by IOVA, the files behind them, and copies between those and the card. */
#include "adapter/dma.h"

#include <errno.h>
#include <string.h>

#include "base/iov.h"
#include "os/os.h"

enum { COOKIE_BYTES = 8 };
/* of a process's addresses, which functions share */
static const uint64_t MAX_MAPPED = UINT64_C(1) << 38;

struct rnic_dma_file {
    struct vipl_list link; /* in rnic_dma.files */
    struct vipl_file is;
    unsigned users; /* maps of it */
    int fd;         /* -1: it is mapped, and closed */
    uint8_t *base;  /* mapped; NULL: it is read and written */
    bool writable;
};

struct map {
    struct vipl_range range;
    struct rnic_dma_file *file; /* NULL: accessed by messages */
    uint64_t offset;            /* in the file, of the range's first byte */
    uint32_t flags;             /* VFU_DMA_READABLE, VFU_DMA_WRITEABLE */
};

void rnic_dma_init(struct rnic_dma *dma)
{
    memset(dma, 0, sizeof(*dma));
    vipl_ranges_init(&dma->maps);
    vipl_list_init(&dma->files);
}

/* --- files --- */

static void release_file(struct rnic_dma *dma, struct rnic_dma_file *file)
{
    if (file == NULL || --file->users > 0) {
        return;
    }
    if (file->base != NULL) {
        vipl_file_unmap(file->base, file->is.bytes);
        dma->mapped_bytes -= file->is.bytes;
    }
    if (file->fd >= 0) {
        vipl_fd_close(file->fd);
        dma->open_count--;
    }
    dma->file_count--;
    dma->memory = file == dma->memory ? NULL : dma->memory;
    vipl_list_remove(&file->link);
    vipl_free(file);
}

static struct rnic_dma_file *known_file(struct rnic_dma *dma, const struct vipl_file *is)
{
    for (struct vipl_list *l = dma->files.next; l != &dma->files; l = l->next) {
        struct rnic_dma_file *file = VIPL_CONTAINER(l, struct rnic_dma_file, link);
        if (file->is.device == is->device && file->is.inode == is->inode && file->is.kind == is->kind) {
            return file;
        }
    }
    return NULL;
}

/* Maps all of it; one that was mapped and has grown since, again. */
static int map_file(struct rnic_dma *dma, struct rnic_dma_file *file, int fd, uint64_t bytes)
{
    void *base;
    bool writable;
    if (bytes > MAX_MAPPED - dma->mapped_bytes) {
        return ENOSPC;
    }
    int error = vipl_file_map(fd, bytes, &base, &writable);
    if (error != 0) {
        return error;
    }
    if (file->base != NULL) {
        vipl_file_unmap(file->base, file->is.bytes);
        dma->mapped_bytes -= file->is.bytes;
    }
    file->base = base;
    file->writable = writable;
    file->is.bytes = bytes;
    dma->mapped_bytes += bytes;
    return 0;
}

static int reach_file(struct rnic_dma *dma, struct rnic_dma_file *file, int *fd)
{
    if (file->is.kind == VIPL_FILE_MAPPABLE) {
        return map_file(dma, file, *fd, file->is.bytes);
    }
    if (dma->open_count == RNIC_DMA_MAX_OPEN) {
        return ENOSPC;
    }
    file->fd = *fd;
    file->writable = true; /* else the system says so at each write */
    *fd = -1;
    dma->open_count++;
    return 0;
}

static struct rnic_dma_file *new_file(struct rnic_dma *dma, const struct vipl_file *is, int *fd)
{
    struct rnic_dma_file *file =
        dma->file_count < RNIC_DMA_MAX_FILES ? vipl_zalloc(sizeof(struct rnic_dma_file)) : NULL;
    if (file == NULL) {
        return NULL;
    }
    file->is = *is;
    file->fd = -1;
    if (reach_file(dma, file, fd) != 0) {
        vipl_free(file);
        return NULL;
    }
    vipl_list_append(&dma->files, &file->link);
    dma->file_count++;
    return file;
}

/* The file of a descriptor, held for one map more; NULL: it is of no use here. */
static struct rnic_dma_file *hold_file(struct rnic_dma *dma, bool is_memory, int *fd)
{
    struct vipl_file is;
    if (*fd < 0 || vipl_file_identify(*fd, &is) != 0 || is.kind == VIPL_FILE_OTHER ||
        (is.kind == VIPL_FILE_PROCESS) != is_memory) {
        return NULL;
    }
    struct rnic_dma_file *file = known_file(dma, &is);
    if (file == NULL) {
        file = new_file(dma, &is, fd);
    } else if (file->base != NULL && is.bytes > file->is.bytes) {
        /* else the range lies outside, as it is known here */
        (void)map_file(dma, file, *fd, is.bytes);
    } else if (file->base == NULL) {
        file->is.bytes = is.bytes;
    }
    if (file != NULL) {
        file->users++;
    }
    return file;
}

/* --- a process's own memory --- */

/* The program has put a number at the address, and finds its complement behind it if this
 * descriptor is really its memory as it sees it; under an emulator addresses may be others. */
static bool prove(const struct rnic_dma_file *file, uint64_t address)
{
    uint8_t cookie[COOKIE_BYTES];
    if (vipl_file_read(file->fd, address, cookie, COOKIE_BYTES) != 0) {
        return false;
    }
    for (int i = 0; i < COOKIE_BYTES; i++) {
        cookie[i] = (uint8_t)~cookie[i];
    }
    return vipl_file_write(file->fd, address + COOKIE_BYTES, cookie, COOKIE_BYTES) == 0;
}

/* Maps after the first one need no descriptor any more. */
static struct rnic_dma_file *hold_memory(struct rnic_dma *dma, const struct vfu_dma_map *map, int *fd)
{
    if (dma->memory != NULL) {
        dma->memory->users++;
        return dma->memory;
    }
    struct rnic_dma_file *file = hold_file(dma, true, fd);
    if (file != NULL && map->bytes >= (uint64_t)2 * COOKIE_BYTES && prove(file, map->offset)) {
        dma->memory = file;
        return file;
    }
    release_file(dma, file);
    return NULL;
}

/* --- maps --- */

static struct map *map_of(struct vipl_range *range)
{
    return VIPL_CONTAINER(range, struct map, range);
}

static void remove_map(struct rnic_dma *dma, struct map *map)
{
    vipl_ranges_remove(&dma->maps, &map->range);
    release_file(dma, map->file);
    vipl_free(map);
}

void rnic_dma_clear(struct rnic_dma *dma)
{
    while (dma->maps.root != NULL) {
        remove_map(dma, map_of(dma->maps.root));
    }
}

static bool wraps(uint64_t first, uint64_t bytes)
{
    return bytes == 0 || first + (bytes - 1) < first;
}

static bool fits_in_file(const struct rnic_dma_file *file, const struct vfu_dma_map *map)
{
    return !wraps(map->offset, map->bytes) &&
           (file->is.kind == VIPL_FILE_PROCESS ||
            (map->bytes <= file->is.bytes && map->offset <= file->is.bytes - map->bytes));
}

static int check_map(const struct rnic_dma *dma, const struct vfu_dma_map *map)
{
    if (wraps(map->address, map->bytes)) {
        return EINVAL;
    }
    const struct vipl_range *next = vipl_ranges_at_or_after(&dma->maps, map->address);
    if (next != NULL && next->first <= map->address + (map->bytes - 1)) {
        return EEXIST;
    }
    return dma->maps.count == RNIC_DMA_MAX_MAPS ? ENOSPC : 0;
}

int rnic_dma_map(struct rnic_dma *dma, const struct vfu_dma_map *map, int *fd)
{
    bool is_memory = (map->flags & VFU_DMA_MEMORY_FILE) != 0;
    int error = check_map(dma, map);
    struct map *made = error == 0 ? vipl_zalloc(sizeof(*made)) : NULL;
    if (made == NULL) {
        return error == 0 ? ENOMEM : error;
    }
    made->file = is_memory ? hold_memory(dma, map, fd) : hold_file(dma, false, fd);
    if ((is_memory && made->file == NULL) || (made->file != NULL && !fits_in_file(made->file, map))) {
        release_file(dma, made->file);
        vipl_free(made);
        return is_memory ? EFAULT : EINVAL;
    }
    made->range.first = map->address;
    made->range.last = map->address + (map->bytes - 1);
    made->offset = map->offset;
    made->flags = map->flags & (VFU_DMA_READABLE | VFU_DMA_WRITEABLE);
    vipl_ranges_add(&dma->maps, &made->range); /* which overlaps none: that was looked at */
    return 0;
}

int rnic_dma_unmap(struct rnic_dma *dma, uint64_t address, uint64_t bytes)
{
    if (wraps(address, bytes)) {
        return EINVAL;
    }
    uint64_t last = address + (bytes - 1);
    const struct vipl_range *begin = vipl_ranges_at_or_after(&dma->maps, address);
    const struct vipl_range *end = vipl_ranges_at_or_after(&dma->maps, last);
    if ((begin != NULL && begin->first < address) ||
        (end != NULL && end->first <= last && end->last > last)) {
        return EINVAL;
    }
    for (struct vipl_range *r;
         (r = vipl_ranges_at_or_after(&dma->maps, address)) != NULL && r->first <= last;) {
        remove_map(dma, map_of(r));
    }
    return 0;
}

/* --- access --- */

/* Single stores of the system for what is to be whole, the last item by itself; see base/iov.h for
 * what it may rely on. */
static int write_file(const struct rnic_dma_file *file, uint64_t offset, const uint8_t *data, uint32_t bytes)
{
    uint32_t tail = bytes > 8 ? 8 - (uint32_t)(-(offset + bytes) % 8) : 0;
    int error = vipl_file_write(file->fd, offset, data, bytes - tail);
    return error != 0 ? error : vipl_file_write(file->fd, offset + bytes - tail, data + bytes - tail, tail);
}

static bool is_allowed(const struct map *map, bool is_write)
{
    return (map->flags & (is_write ? VFU_DMA_WRITEABLE : VFU_DMA_READABLE)) != 0 &&
           (!is_write || map->file == NULL || map->file->writable);
}

static bool move_run(struct rnic_dma *dma, const struct map *map, const struct rnic_dma_access *access,
                     uint32_t bytes)
{
    const struct rnic_dma_file *file = map->file;
    uint64_t offset = map->offset + (access->iova - map->range.first);
    if (file->base == NULL) {
        int error = access->is_write ? write_file(file, offset, access->data, bytes)
                                     : vipl_file_read(file->fd, offset, access->data, bytes);
        dma->is_gone = dma->is_gone || (error == ESRCH && file->is.kind == VIPL_FILE_PROCESS);
        return error == 0;
    }
    if (!access->is_write) {
        memcpy(access->data, file->base + offset, bytes);
        return true;
    }
    return vipl_iov_ordered_piece(file->base + offset, access->data, bytes) == VIPL_IOV_DONE;
}

enum rnic_dma_outcome rnic_dma_move(struct rnic_dma *dma, const struct rnic_dma_access *access,
                                    uint32_t *bytes)
{
    struct vipl_range *range = vipl_ranges_at_or_after(&dma->maps, access->iova);
    bool is_mapped = range != NULL && range->first <= access->iova;
    uint64_t end = is_mapped ? range->last : range != NULL ? range->first - 1 : UINT64_MAX;
    *bytes = end - access->iova < access->bytes ? (uint32_t)(end - access->iova) + 1 : access->bytes;
    if (!is_mapped) {
        return RNIC_DMA_UNMAPPED;
    }
    const struct map *map = map_of(range);
    if (!is_allowed(map, access->is_write)) {
        return RNIC_DMA_REFUSED;
    }
    if (map->file == NULL) {
        return RNIC_DMA_MESSAGE;
    }
    return move_run(dma, map, access, *bytes) ? RNIC_DMA_DONE : RNIC_DMA_REFUSED;
}
