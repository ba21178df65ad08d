/* SPDX-License-Identifier: MIT */
/* An address out of names: a hash, its bits spread, of which 46 bits are used. */
#include "adapter/mac.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "os/os.h"

enum { MAX_HOST = 256, MAX_ID = 64 };

/* With its end, so that two texts do not run into each other. */
static uint64_t add_text(uint64_t hash, const char *text)
{
    return vipl_hash(hash, text, strlen(text) + 1);
}

static uint64_t spread(uint64_t hash)
{
    hash = (hash ^ hash >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    hash = (hash ^ hash >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return hash ^ hash >> 33;
}

static void make_single(uint8_t mac[RNIC_MAC_BYTES])
{
    mac[0] = (uint8_t)((mac[0] & 0xFC) | 2); /* locally administered, of one card */
}

void rnic_mac_of(const char *machine, uint32_t user, const char *name, uint8_t mac[RNIC_MAC_BYTES])
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%lu", (unsigned long)user);
    uint64_t hash = spread(add_text(add_text(add_text(VIPL_HASH_OF_NOTHING, machine), number), name));
    for (int i = 0; i < RNIC_MAC_BYTES; i++) {
        mac[i] = (uint8_t)(hash >> 8 * i);
    }
    make_single(mac);
}

/* Its name, and the number that its system has drawn, for hosts that are called alike; either may
 * be missing. */
static void name_machine(char machine[MAX_HOST + MAX_ID])
{
    if (vipl_host_name(machine, MAX_HOST) != 0) {
        machine[0] = '\0';
    }
    size_t length = strlen(machine);
    FILE *file = fopen("/etc/machine-id", "re");
    if (file != NULL) {
        size_t bytes = fread(machine + length, 1, MAX_ID - 1, file);
        machine[length + bytes] = '\0';
        (void)fclose(file);
    }
}

void rnic_mac_choose(const char *path, uint8_t mac[RNIC_MAC_BYTES])
{
    char machine[MAX_HOST + MAX_ID];
    if (path != NULL && path[0] == '/') {
        name_machine(machine);
        rnic_mac_of(machine, vipl_local_user(), path, mac);
    } else {
        (void)vipl_entropy(mac, RNIC_MAC_BYTES);
        make_single(mac);
    }
}
