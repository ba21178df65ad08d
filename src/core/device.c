/* SPDX-License-Identifier: MIT */
/* From a device name to a backend: the default device, old programs' spellings, configured aliases. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "core/nic.h"

static const char *const default_spellings[] = {"VINIC",       "VINIC0",      "nic0",
                                                "/dev/via_lo", "/etc/via_lo", "/dev/clanvi0"};

/* VIPL_DEVICE_ALIASES="/dev/clanvi0=tcp:eth0,VINIC1=loopback": device becomes what stands for it. */
static bool replace_alias(char device[64])
{
    char aliases[1024];
    char *save = NULL;
    vipl_config_text("VIPL_DEVICE_ALIASES", aliases, sizeof(aliases));
    for (char *entry = strtok_r(aliases, ",", &save); entry != NULL; entry = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(entry, '=');
        if (equals == NULL) {
            continue;
        }
        *equals = '\0';
        const char *alias = entry + strspn(entry, " ");
        if (alias[0] != '\0' && strcmp(alias, device) == 0) {
            snprintf(device, 64, "%s", equals + 1);
            return true;
        }
    }
    return false;
}

static bool means_default(const char *device)
{
    for (size_t i = 0; i < sizeof(default_spellings) / sizeof(default_spellings[0]); i++) {
        if (strcmp(device, default_spellings[i]) == 0) {
            return true;
        }
    }
    return device[0] == '\0';
}

static const struct vipl_backend *by_name(const char *device, const char **rest)
{
    size_t n = strcspn(device, ":");
    for (size_t i = 0; vipl_backends[i] != NULL; i++) {
        const char *name = vipl_backends[i]->name;
        if (strlen(name) == n && memcmp(name, device, n) == 0) {
            *rest = device[n] == ':' ? device + n + 1 : device + n;
            return vipl_backends[i];
        }
    }
    return NULL;
}

const struct vipl_backend *vipl_device_find(const char *device, char name[64], const char **rest)
{
    if (device != NULL && strlen(device) >= 64) {
        return NULL;
    }
    snprintf(name, 64, "%s", device == NULL ? "" : device);
    if (!replace_alias(name) && means_default(name)) {
        if (!vipl_config_text("VIPL_DEVICE", name, 64) || name[0] == '\0') {
            snprintf(name, 64, "%s", vipl_backends[0]->name);
        }
    }
    return by_name(name, rest);
}
