/* SPDX-License-Identifier: MIT */
/*
 * The memory that a function's program has mapped for DMA, and access to as much of it as this
 * process can reach: mapped shared memory, or a file that is read and written. The rest is the
 * caller's to exchange in messages.
 *
 * The program is not trusted: its descriptors are looked at before they are used (os.h,
 * vipl_file_identify()), and what it may take up here is limited. The adapter's only thread is in
 * here.
 */
#ifndef ADAPTER_DMA_H
#define ADAPTER_DMA_H

#include "base/list.h"
#include "base/ranges.h"
#include "vfio_user/message.h"

enum {
    RNIC_DMA_MAX_MAPS = 65535,
    /* mapped at the same time: the system allows a process 65,530 mappings */
    RNIC_DMA_MAX_FILES = 1024,
    RNIC_DMA_MAX_OPEN = 16 /* files that are read and written, and so stay open */
};

/* One file of the program's, however often it was passed. */
struct rnic_dma_file;

struct rnic_dma {
    struct vipl_ranges maps; /* struct rnic_dma_map, by IOVA */
    struct vipl_list files;  /* struct rnic_dma_file */
    unsigned file_count;
    unsigned open_count;
    uint64_t mapped_bytes;
    struct rnic_dma_file *memory; /* the program's own memory, once that is proven; NULL before */
    bool is_gone;                 /* that memory was found to be gone: the program has ended */
};

void rnic_dma_init(struct rnic_dma *dma);
void rnic_dma_clear(struct rnic_dma *dma); /* everything is unmapped */

/*
 * `fd`: what came along, -1: nothing. It is taken, and -1 is left in its place, or it is the
 * caller's to close. Memory that cannot be reached from here is mapped nevertheless, to be accessed
 * by messages. Not 0: an errno value, and nothing has changed.
 */
int rnic_dma_map(struct rnic_dma *dma, const struct vfu_dma_map *map, int *fd);
/* Every map within the range goes; none is fine. EINVAL: one is partly outside, and nothing has
 * changed. */
int rnic_dma_unmap(struct rnic_dma *dma, uint64_t address, uint64_t bytes);

enum rnic_dma_outcome {
    RNIC_DMA_DONE,
    RNIC_DMA_REFUSED, /* mapped without this right, or the memory is not there */
    RNIC_DMA_MESSAGE, /* mapped, but not to be reached from here */
    RNIC_DMA_UNMAPPED
};
struct rnic_dma_access {
    uint64_t iova;
    uint8_t *data; /* of the card's */
    uint32_t bytes;
    bool is_write; /* into the program's memory */
};
/*
 * Moves as much of the beginning as one map has, or none. *bytes: how much the outcome is about, at
 * least 1. A write lands in address order, aligned items of 4 or 8 bytes whole, the last one after
 * all others.
 */
enum rnic_dma_outcome rnic_dma_move(struct rnic_dma *dma, const struct rnic_dma_access *access,
                                    uint32_t *bytes);

#endif
