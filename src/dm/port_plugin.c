/* SPDX-License-Identifier: MIT */
/*
 * Ports whose driver is a plug-in, `dpdk:NAME`; see plugin.h. The plug-in stays loaded: libraries
 * of drivers have threads and handlers, and do not go again.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "dm/plugin.h"
#include "dm/reason.h"

/* VIPL_DM_DPDK names the file; else it is the installed one. */
static const struct dm_plugin *load_plugin(struct vipl_dm_reason *reason)
{
    const char *named = secure_getenv("VIPL_DM_DPDK");
    const char *path = named != NULL ? named : VIPL_DM_DPDK_PLUGIN;
    void *loaded;
    const struct dm_plugin *plugin;

    loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (loaded == NULL) {
        dm_fail(reason, ENODEV, "port \"dpdk\": there is no plug-in for DPDK: %.180s", dlerror());
        return NULL;
    }
    plugin = dlsym(loaded, DM_PLUGIN_SYMBOL);
    if (plugin == NULL || plugin->version != DM_PLUGIN_VERSION) {
        dm_fail(reason, ENODEV, "port \"dpdk\": %.150s is no plug-in of this version", path);
        return NULL;
    }
    return plugin;
}

static int dpdk_open(const char *argument, enum dm_port_direction direction, struct dm_port **port,
                     struct vipl_dm_reason *reason)
{
    const struct dm_plugin *plugin = load_plugin(reason);

    return plugin == NULL ? ENODEV : plugin->open_port(argument, direction, port, reason);
}

/* The port that is opened is of the plug-in's kind. */
const struct dm_port_kind dm_port_dpdk = {.name = "dpdk", .open = dpdk_open};
