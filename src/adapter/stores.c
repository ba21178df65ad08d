/* SPDX-License-Identifier: MIT */
/* A ring of stores. While the first one is executed, others may come: the card may wait for memory,
 * and the program's messages are served meanwhile. */
#include "adapter/function.h"
#include "base/little.h"

bool rnic_stores_keep(struct rnic_function *function, const struct vfu_access *access, const uint8_t *data)
{
    struct rnic_function *f = function;
    if ((access->bytes + RNIC_KEPT_BYTES - 1) / RNIC_KEPT_BYTES > RNIC_MAX_KEPT - f->kept_count) {
        return false;
    }
    for (uint32_t done = 0; done < access->bytes; done += RNIC_KEPT_BYTES) {
        uint32_t bytes = access->bytes - done < RNIC_KEPT_BYTES ? access->bytes - done : RNIC_KEPT_BYTES;
        f->kept[(f->first_kept + f->kept_count++) % RNIC_MAX_KEPT] = (struct rnic_kept_write){
            access->offset + done, vipl_get_little(data + done, bytes), access->region, bytes};
    }
    return true;
}

/* A doorbell, or WAKE. */
static bool only_rings(const struct rnic_kept_write *w)
{
    return w->region == VFU_REGION_BAR0 + 2 ||
           (w->region == VFU_REGION_BAR0 && w->offset == RNIC_REG_WAKE && w->bytes == 4);
}

bool rnic_stores_only_ring(const struct rnic_function *function)
{
    bool only = true;
    for (unsigned i = 0; only && i < function->kept_count; i++) {
        only = only_rings(&function->kept[(function->first_kept + i) % RNIC_MAX_KEPT]);
    }
    return only;
}

void rnic_stores_make(struct rnic_function *function)
{
    while (function->kept_count > 0) {
        struct rnic_kept_write kept = function->kept[function->first_kept];
        struct vfu_access access = {kept.offset, kept.region, kept.bytes};
        uint8_t bytes[RNIC_KEPT_BYTES];
        vipl_put_little(bytes, kept.value, kept.bytes);
        function->first_kept = (function->first_kept + 1) % RNIC_MAX_KEPT;
        function->kept_count--;
        rnic_access_write(function, &access, bytes);
        /* a reset, perhaps */
        function->vectors_changed = function->vectors_changed || access.region == VFU_REGION_CONFIG;
    }
}
