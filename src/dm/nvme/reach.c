/* SPDX-License-Identifier: MIT */
/* Which memory a controller reaches; see reach.h. */
#include "dm/nvme/reach.h"

#include <errno.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/nvme/memory_cmb.h"
#include "dm/reason.h"

/* Of what Identify says: vendor, serial number, model and revision of its firmware. */
enum { LASTING_BYTES = 72 };

/* Whether the page has what the controller writes there. A controller that has its memory at
 * another address, or none, writes elsewhere, and says that all is well. */
static int try_page(struct dm_nvme *nvme, uint8_t *at, uint64_t bus, unsigned *status, bool *is_there)
{
    uint64_t before[DM_NVME_PAGE / 8];
    uint64_t after[DM_NVME_PAGE / 8];
    int error;

    dm_copy_words(before, at, DM_NVME_PAGE);
    dm_clear_words(at, DM_NVME_PAGE);
    error = dm_nvme_identify(nvme, NVME_IDENTIFY_CONTROLLER, 0, bus, status);
    dm_copy_words(after, at, DM_NVME_PAGE);
    dm_copy_words(at, before, DM_NVME_PAGE);
    if (error == 0) {
        error = dm_nvme_identify(nvme, NVME_IDENTIFY_CONTROLLER, 0, nvme->identity_bus, status);
    }
    *is_there = error == 0 && memcmp(after, nvme->identity, LASTING_BYTES) == 0;
    return error;
}

static int try_memory(struct dm_nvme *nvme, const struct dm_memory *memory, uint64_t bus,
                      struct vipl_dm_reason *reason)
{
    uint64_t last = dm_round_down(memory->bytes - 1, DM_NVME_PAGE);
    const uint64_t pages[2] = {0, last};
    bool is_there = memory->bytes >= DM_NVME_PAGE;
    unsigned status = 0;
    int error = 0;

    for (unsigned i = 0; i < 2 && is_there && error == 0; i++) {
        error = try_page(nvme, memory->base + pages[i], bus + pages[i], &status, &is_there);
    }
    if (error == 0 && is_there) {
        return 0;
    }
    return dm_fail(reason, error == 0 || status != 0 ? ENOTSUP : error,
                   "memory \"%s\": what the NVMe controller writes there does not arrive: status 0x%x",
                   memory->text, status);
}

/* A controller's own buffer has the address that the controller was given. Other memory is mapped
 * for it: the IOMMU may have a say. */
static int find_bus(struct dm_nvme *nvme, const struct dm_memory *memory, enum dm_direction direction,
                    uint64_t *bus, struct vipl_dm_reason *reason)
{
    int error;

    if (dm_nvme_cmb_find(nvme, memory, bus)) {
        return dm_nvme_cmb_allows(memory, direction)
                   ? 0
                   : dm_fail(reason, ENOTSUP, "memory \"%s\" may not have the data of %s", memory->text,
                             direction == DM_READ ? "reads" : "writes");
    }
    error = nvme->pci->ops->map(nvme->pci, memory->base, memory->bytes, bus);
    return error == 0 ? 0
                      : dm_fail(reason, ENOTSUP, "memory \"%s\": the NVMe controller does not reach it: %s",
                                memory->text, strerror(error));
}

int dm_nvme_reach(struct dm_nvme *nvme, const struct dm_memory *memory, enum dm_direction direction,
                  uint64_t *bus, struct vipl_dm_reason *reason)
{
    int error = find_bus(nvme, memory, direction, bus, reason);

    return error != 0 || memory->kind->is_main ? error : try_memory(nvme, memory, *bus, reason);
}
