/* SPDX-License-Identifier: MIT */
/* The kinds of memory; see memory.h. */
#include "dm/memory.h"

#include <errno.h>
#include <stdio.h>

#include "dm/port.h"
#include "dm/reason.h"

static const struct dm_memory_kind *const memory_kinds[] = {
    &dm_memory_ram,  &dm_memory_bar, &dm_memory_cmb, &dm_memory_p2p,
#if VIPL_DM_RNIC
    &dm_memory_rnic,
#endif
};
static const char *const absent_memory[] = {"rnic", NULL};

static int open_kind(const struct dm_memory_kind *kind, const char *name, uint64_t bytes,
                     const struct dm_memory_use *use, struct dm_memory **memory,
                     struct vipl_dm_reason *reason)
{
    const char *refusal = use->port != NULL ? use->port->kind->needs_main : NULL;
    struct dm_memory *opened = NULL;
    int error;

    if (refusal != NULL && !kind->is_main) {
        return dm_fail(reason, ENOTSUP, "memory \"%s\": %s", name, refusal);
    }
    error = kind->open(dm_argument(name, kind->name), bytes, use->port, &opened, reason);
    if (error != 0) {
        return error;
    }
    if (use->by_kernel && opened->on_bus != NULL) {
        error = dm_fail(reason, ENOTSUP, "memory \"%s\": %s", name, opened->on_bus);
        kind->close(opened);
        return error;
    }
    *memory = opened;
    return 0;
}

static int open_named(const char *name, uint64_t bytes, const struct dm_memory_use *use,
                      struct dm_memory **memory, struct vipl_dm_reason *reason)
{
    for (size_t i = 0; i < sizeof(memory_kinds) / sizeof(memory_kinds[0]); i++) {
        if (dm_argument(name, memory_kinds[i]->name) != NULL) {
            return open_kind(memory_kinds[i], name, bytes, use, memory, reason);
        }
    }
    return dm_no_such_kind(reason, "memory", name, absent_memory);
}

int dm_memory_open(const char *name, uint64_t bytes, const struct dm_memory_use *use,
                   struct dm_memory **memory, struct vipl_dm_reason *reason)
{
    const char *wanted = name != NULL ? name : dm_memory_ram.name;
    struct vipl_dm_reason why;
    int error = open_named(wanted, bytes, use, memory, reason);

    if (error == 0 || error == EINVAL || !use->allow_ram) { /* EINVAL: a name that means nothing */
        return error;
    }
    why = *reason;
    error = dm_memory_ram.open("", bytes, use->port, memory, reason);
    if (error == 0) {
        snprintf((*memory)->text, sizeof((*memory)->text), "ram, because %.80s", why.text);
    }
    return error;
}

void dm_memory_close(struct dm_memory *memory)
{
    if (memory != NULL) {
        memory->kind->close(memory);
    }
}
