/* SPDX-License-Identifier: MIT */
/* The kinds of ports; see port.h. */
#include "dm/port.h"

#include "dm/reason.h"

static const struct dm_port_kind *const port_kinds[] = {
    &dm_port_packet,
    &dm_port_dpdk,
#if VIPL_DM_RNIC
    &dm_port_rnic,
#endif
};
static const char *const absent_ports[] = {"rnic", NULL};

static const struct dm_port_kind *port_kind_of(const char *name, const char **argument)
{
    for (size_t i = 0; i < sizeof(port_kinds) / sizeof(port_kinds[0]); i++) {
        *argument = dm_argument(name, port_kinds[i]->name);
        if (*argument != NULL) {
            return port_kinds[i];
        }
    }
    return NULL;
}

int dm_port_open(const char *name, enum dm_port_direction direction, struct dm_port **port,
                 struct vipl_dm_reason *reason)
{
    const char *argument;
    const struct dm_port_kind *kind = port_kind_of(name, &argument);

    if (kind == NULL) {
        return dm_no_such_kind(reason, "port", name, absent_ports);
    }
    return kind->open(argument, direction, port, reason);
}

void dm_port_close(struct dm_port *port)
{
    if (port != NULL) {
        port->kind->close(port);
    }
}
