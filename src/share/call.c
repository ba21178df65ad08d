/* SPDX-License-Identifier: MIT */
/* The table of calls. */
#include "share/call.h"

#include <string.h>

#include "os/os_atomic.h"

const struct vipl_call_traits vipl_calls[VIPL_CALLS] = {
#define TRAITS(name, function, kind, properties, arguments) \
    {#name, VIPL_KIND_##kind, properties, sizeof(struct vipl_call_##arguments)},
    VIPL_CALL_LIST(TRAITS)
#undef TRAITS
};

bool vipl_call_read(struct vipl_call *to, const struct vipl_call *from)
{
    /* read once, so that the copy has the size of this call */
    uint32_t name = vipl_load_relaxed(&from->name);
    if (name >= VIPL_CALLS) {
        return false;
    }
    memcpy(to, from, vipl_call_bytes(name));
    to->name = name;
    return true;
}
