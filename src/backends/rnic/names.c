/* SPDX-License-Identifier: MIT */
/*
 * The name service: this host's name is the card's address; others are in a file like /etc/ethers,
 * with a line "02:00:00:12:34:56 name" for each card, and a name may have several. An address may
 * stand for a name.
 */
#include "backends/rnic/rnic.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/hostname.h"
#include "base/log.h"
#include "os/os.h"

enum { MAC_BYTES = 6, LINE = 512, MAX_HOSTS = 1 << 20 };

static bool parse_mac(const char *text, uint8_t mac[MAC_BYTES])
{
    unsigned byte[MAC_BYTES];
    char rest;
    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5],
               &rest) != MAC_BYTES) {
        return false;
    }
    for (unsigned i = 0; i < MAC_BYTES; i++) {
        mac[i] = (uint8_t)byte[i];
    }
    return true;
}

static char *read_hosts(void)
{
    char path[256];
    char *text;
    bool named = vipl_config_text("VIPL_RNIC_HOSTS", path, sizeof(path));
    int error = vipl_read_text(named ? path : "/etc/ethers", MAX_HOSTS, &text);
    if (error != 0 && named) {
        vipl_log_os(VIPL_LOG_REASON, "reading the names of cards (VIPL_RNIC_HOSTS)", error);
    }
    return error == 0 ? text : NULL;
}

/* The next line that has an address and a name; "#" begins a comment. */
static bool next_host(char **text, uint8_t mac[MAC_BYTES], char name[LINE])
{
    char *line;
    char address[LINE];
    while (*text != NULL && (line = vipl_config_next_line(text)) != NULL) {
        line[strcspn(line, "#")] = '\0';
        if (sscanf(line, "%511s %511s", address, name) == 2 && parse_mac(address, mac)) {
            return true;
        }
    }
    return false;
}

static bool find_address(const char *name, uint32_t index, uint8_t mac[MAC_BYTES])
{
    char each[LINE];
    bool found = false;
    char *text = read_hosts();
    char *rest = text;
    while (!found && next_host(&rest, mac, each)) {
        found = strcmp(each, name) == 0 && index-- == 0;
    }
    vipl_free(text);
    return found;
}

static bool find_name(const uint8_t mac[MAC_BYTES], char name[LINE])
{
    uint8_t each[MAC_BYTES];
    bool found = false;
    char *text = read_hosts();
    char *rest = text;
    while (!found && next_host(&rest, each, name)) {
        found = memcmp(each, mac, MAC_BYTES) == 0;
    }
    vipl_free(text);
    return found;
}

VIP_RETURN vipl_rnic_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                             struct vipl_address *out)
{
    uint8_t mac[MAC_BYTES];
    bool found;
    if (vipl_hostname_is_own(name)) {
        memcpy(mac, vipl_rnic_query(rnic_nic_of(be)->rnic)->mac, MAC_BYTES);
        found = index == 0;
    } else {
        found = (index == 0 && parse_mac(name, mac)) || find_address(name, index, mac);
    }
    if (!found) {
        return VIP_ERROR_NAMESERVICE;
    }
    memset(out, 0, sizeof(*out));
    out->host_len = MAC_BYTES;
    memcpy(out->host, mac, MAC_BYTES);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_rnic_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size)
{
    char found[LINE];
    if (host->host_len != MAC_BYTES) {
        return VIP_ERROR_NAMESERVICE;
    }
    if (memcmp(host->host, vipl_rnic_query(rnic_nic_of(be)->rnic)->mac, MAC_BYTES) == 0) {
        return vipl_host_name(name, size) == 0 ? VIP_SUCCESS : VIP_ERROR_NAMESERVICE;
    }
    if (!find_name(host->host, found) || strlen(found) >= size) {
        return VIP_ERROR_NAMESERVICE;
    }
    memcpy(name, found, strlen(found) + 1);
    return VIP_SUCCESS;
}
