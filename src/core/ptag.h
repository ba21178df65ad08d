/* SPDX-License-Identifier: MIT */
/* Protection tags: a number that regions and VIs share, and a count of the regions and VIs that use it. */
#ifndef VIPL_CORE_PTAG_H
#define VIPL_CORE_PTAG_H

#include <stdint.h>

#include "base/list.h"
#include "vipl/vipl.h"

struct vipl_nic;

/* From the pool; live while `handle` is set. */
struct vipl_ptag {
    struct vipl_list nic_link; /* nic->ptags, guarded by the NIC's lock; in the pool: free link */
    void *handle;              /* atomic; NULL: not a live tag */
    struct vipl_nic *nic;      /* constant while live */
    uint32_t number;           /* constant while live; unique in the NIC handle, never 0 */
    uint32_t users;            /* regions and VIs; guarded by the NIC's lock */
};

VIP_RETURN vipl_ptag_create(struct vipl_nic *nic, void **handle);
VIP_RETURN vipl_ptag_destroy(struct vipl_nic *nic, void *handle);
/* Takes a use of a tag; NULL handle: the default tag. VIP_INVALID_PTAG: not a live tag of this NIC. The
 * NIC's lock is held. */
VIP_RETURN vipl_ptag_use_locked(struct vipl_nic *nic, void *handle, struct vipl_ptag **out);
void vipl_ptag_drop_all(struct vipl_nic *nic); /* at close */
void vipl_ptag_abandon_pool(void);

#endif
