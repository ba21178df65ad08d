/* SPDX-License-Identifier: MIT */
/* The parts of a path; see path.h. */
#include "dm/path.h"

#include <errno.h>
#include <inttypes.h>

#include "dm/reason.h"
#include "dm/store.h"

#define DEFAULT_CHUNK_BYTES (UINT32_C(1) << 20)
#define MAX_CHUNK_BYTES (UINT32_C(1) << 30)
#define MAX_MEMORY_BYTES (UINT64_C(1) << 40)
#define PAGE 4096U /* what stores ask for */

uint32_t dm_path_chunk_bytes(const struct vipl_dm_path *path)
{
    return path->chunk_bytes != 0 ? path->chunk_bytes : DEFAULT_CHUNK_BYTES;
}

int dm_path_check(const struct vipl_dm_path *path, struct vipl_dm_reason *reason)
{
    uint32_t chunk = dm_path_chunk_bytes(path);

    if (path->store == NULL || path->port == NULL) {
        return dm_fail(reason, EINVAL, "a store and a port are needed");
    }
    if (chunk < DM_MIN_CHUNK_BYTES || chunk > MAX_CHUNK_BYTES || chunk % PAGE != 0) {
        return dm_fail(reason, EINVAL,
                       "a chunk of %" PRIu32 " bytes is not a multiple of 4096 from 65536 to 2^30", chunk);
    }
    if (path->memory_bytes > MAX_MEMORY_BYTES) {
        return dm_fail(reason, EINVAL, "memory of %" PRIu64 " bytes is more than 2^40", path->memory_bytes);
    }
    return 0;
}

int dm_path_open(const struct vipl_dm_path *path, enum dm_port_direction direction, struct dm_port **port,
                 struct dm_memory **memory, struct vipl_dm_reason *reason)
{
    const char *argument;
    int error = 0;
    const struct dm_store_kind *store = dm_store_kind_of(path->store, &argument, reason, &error);
    struct dm_memory_use use = {NULL, store != NULL && store->by_kernel, path->allow_ram != 0};

    if (error == 0) {
        error = dm_port_open(path->port, direction, port, reason);
        use.port = *port;
    }
    if (error == 0) {
        error = dm_memory_open(path->memory, path->memory_bytes, &use, memory, reason);
    }
    if (error == 0 && (*port)->kind->attach != NULL) {
        error = (*port)->kind->attach(*port, *memory, reason);
    }
    return error;
}
