/* SPDX-License-Identifier: MIT */
/* Controllers by their addresses; see shared.h. */
#include "dm/nvme/shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "dm/reason.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of its members' users */
static struct dm_nvme *all;

static bool *part_of(struct dm_nvme *nvme, bool is_store)
{
    return is_store ? &nvme->has_store : &nvme->has_memory;
}

static struct dm_nvme *find_controller(const char *address)
{
    struct dm_nvme *nvme = all;

    while (nvme != NULL && strcmp(nvme->address, address) != 0) {
        nvme = nvme->next;
    }
    return nvme;
}

void dm_nvme_share(struct dm_nvme *nvme, const char *address)
{
    snprintf(nvme->address, sizeof(nvme->address), "%s", address);
    nvme->next = all;
    all = nvme;
}

static int open_new(const char *address, const char *what, struct dm_nvme **out,
                    struct vipl_dm_reason *reason)
{
    struct dm_pci *pci = NULL;
    int error = dm_pci_open(address, what, &pci, reason);

    if (error == 0) {
        error = dm_nvme_open(pci, &dm_clock_system, what, out, reason);
    }
    if (error == 0) {
        dm_nvme_share(*out, address);
    }
    return error;
}

int dm_nvme_take(const char *address, const char *name, bool is_store, struct dm_nvme **out,
                 struct vipl_dm_reason *reason)
{
    struct dm_nvme *nvme;
    int error = 0;

    pthread_mutex_lock(&lock);
    nvme = find_controller(address);
    if (nvme == NULL) {
        error = open_new(address, name, &nvme, reason);
    } else if (*part_of(nvme, is_store)) {
        error = dm_fail(reason, EBUSY, "%s: another part of this program has it", name);
    }
    if (error == 0) {
        *part_of(nvme, is_store) = true;
        *out = nvme;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void dm_nvme_give(struct dm_nvme *nvme, bool is_store)
{
    struct dm_nvme **link = &all;

    pthread_mutex_lock(&lock);
    *part_of(nvme, is_store) = false;
    if (!nvme->has_store && !nvme->has_memory) {
        while (*link != NULL && *link != nvme) {
            link = &(*link)->next;
        }
        if (*link != NULL) {
            *link = nvme->next;
        }
        dm_nvme_close(nvme);
    }
    pthread_mutex_unlock(&lock);
}
