/* SPDX-License-Identifier: MIT */
/*
 * The memory that a function's program has mapped for DMA. This file accesses the memory that this
 * process can reach: shared memory that is mapped here, or a file that is read and written. For
 * other memory the caller exchanges messages with the program.
 *
 * The program is not trusted: vipl_file_identify() checks its descriptors before they are used, and
 * its use of the adapter's resources is limited. Only the adapter's thread calls these functions.
 */
#ifndef ADAPTER_DMA_H
#define ADAPTER_DMA_H

#include "base/list.h"
#include "base/ranges.h"
#include "vfio_user/message.h"

enum {
    RNIC_DMA_MAX_MAPS = 65535,
    /* files that are mapped at the same time: Linux allows a process 65,530 mappings */
    RNIC_DMA_MAX_FILES = 1024,
    RNIC_DMA_MAX_OPEN = 16 /* files that are read and written, and so stay open */
};

/* A file of the program. A file that is passed several times is one rnic_dma_file. */
struct rnic_dma_file;

struct rnic_dma {
    struct vipl_ranges maps; /* struct rnic_dma_map, by IOVA */
    struct vipl_list files;  /* struct rnic_dma_file */
    unsigned file_count;
    unsigned open_count;
    uint64_t mapped_bytes;
    struct rnic_dma_file *memory; /* the program's own memory, once that is proven; NULL: not yet */
    bool is_gone;                 /* access to `memory` has failed: the program has ended */
};

void rnic_dma_init(struct rnic_dma *dma);
/* Unmaps everything. */
void rnic_dma_clear(struct rnic_dma *dma);

/*
 * Maps memory. *fd: the descriptor that came with the request, or -1. If the function keeps the
 * descriptor, it stores -1 in *fd; otherwise the caller closes it. Memory that cannot be reached
 * from here is mapped too, and accessed by messages. On an error nothing has changed.
 */
int rnic_dma_map(struct rnic_dma *dma, const struct vfu_dma_map *map, int *fd);
/* Unmaps every map within the range; there may be none. EINVAL: a map is partly outside the range,
 * and nothing has changed. */
int rnic_dma_unmap(struct rnic_dma *dma, uint64_t address, uint64_t bytes);

enum rnic_dma_outcome {
    RNIC_DMA_DONE,
    RNIC_DMA_REFUSED, /* mapped without this right, or the memory does not exist */
    RNIC_DMA_MESSAGE, /* mapped, but this process cannot reach it */
    RNIC_DMA_UNMAPPED
};
struct rnic_dma_access {
    uint64_t iova;
    uint8_t *data; /* the card's buffer */
    uint32_t bytes;
    bool is_write; /* the card writes to the program's memory */
};
/*
 * Executes the part of the access that lies in its first map. *bytes: the length of that part, at
 * least 1, which the outcome is about. A write stores in address order; aligned items of 4 or 8
 * bytes are stored whole, and the last item after all others.
 */
enum rnic_dma_outcome rnic_dma_move(struct rnic_dma *dma, const struct rnic_dma_access *access,
                                    uint32_t *bytes);

#endif
