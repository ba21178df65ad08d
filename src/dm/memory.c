/* SPDX-License-Identifier: MIT */
/* The kinds of memory; see memory.h. */
#include "dm/memory.h"

#include <errno.h>
#include <stdio.h>

#include "dm/port.h"
#include "dm/reason.h"

static const struct dm_memory_kind *const memory_kinds[] = {
    &dm_memory_ram,
#if VIPL_DM_RNIC
    &dm_memory_rnic,
#endif
};
static const char *const absent_memory[] = {"cmb", "p2p", "bar", "rnic", NULL};

static int open_named(const char *name, uint64_t bytes, struct dm_port *port, struct dm_memory **memory,
                      struct vipl_dm_reason *reason)
{
    const char *refusal = port != NULL ? port->kind->needs_main : NULL;

    for (size_t i = 0; i < sizeof(memory_kinds) / sizeof(memory_kinds[0]); i++) {
        const char *argument = dm_argument(name, memory_kinds[i]->name);
        if (argument == NULL) {
            continue;
        }
        if (refusal != NULL && !memory_kinds[i]->is_main) {
            return dm_fail(reason, ENOTSUP, "memory \"%s\": %s", name, refusal);
        }
        return memory_kinds[i]->open(argument, bytes, port, memory, reason);
    }
    return dm_no_such_kind(reason, "memory", name, absent_memory);
}

int dm_memory_open(const char *name, uint64_t bytes, struct dm_port *port, bool allow_ram,
                   struct dm_memory **memory, struct vipl_dm_reason *reason)
{
    const char *wanted = name != NULL ? name : dm_memory_ram.name;
    struct vipl_dm_reason why;
    int error = open_named(wanted, bytes, port, memory, reason);

    if (error == 0 || error == EINVAL || !allow_ram) { /* EINVAL: a name that means nothing */
        return error;
    }
    why = *reason;
    error = dm_memory_ram.open("", bytes, port, memory, reason);
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
