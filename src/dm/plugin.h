/* SPDX-License-Identifier: MIT */
/*
 * Plug-ins: kinds of ports that need a library which many machines do not have. A plug-in is a
 * shared object of the same version as libvipldm, in the folder of the programs that the library
 * runs, and has one symbol, DM_PLUGIN_SYMBOL: a struct dm_plugin.
 */
#ifndef VIPL_DM_PLUGIN_H
#define VIPL_DM_PLUGIN_H

#include <stdint.h>

#include "dm/port.h"

#define DM_PLUGIN_SYMBOL "vipl_dm_plugin"
/* Grows with each change of what a plug-in and the library share: port.h, memory.h, reason.h. */
#define DM_PLUGIN_VERSION 2U

struct dm_plugin {
    uint32_t version; /* DM_PLUGIN_VERSION */
    int (*open_port)(const char *argument, enum dm_port_direction direction, struct dm_port **port,
                     struct vipl_dm_reason *reason);
};

#endif
