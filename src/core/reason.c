/* SPDX-License-Identifier: MIT */
/* Log lines about failed connections, and texts of the addresses in them. */
#include "core/connect.h"

#include <ctype.h>
#include <stdio.h>

#include "base/log.h"

enum { HOST_TEXT = 3 * VIPL_MAX_HOST_ADDRESS, NAME_TEXT = 2 * VIPL_MAX_DISCRIMINATOR + 3 };

/* The text of a host address. 4 bytes are an IPv4 address, and so are 6 bytes of which the last two
 * are 0, as old programs expect; 16 bytes are an IPv6 address; any other length is written as
 * bytes. */
static void host_text(const struct vipl_address *address, char text[HOST_TEXT])
{
    const uint8_t *host = address->host;
    bool v4 = address->host_len == 4 || (address->host_len == 6 && host[4] == 0 && host[5] == 0);
    bool v6 = address->host_len == 16;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < (v4 ? 4u : address->host_len); i += v6 ? 2 : 1) {
        char *to = text + used;
        const char *between = i == 0 ? "" : v4 ? "." : ":";
        if (v6) {
            used += (size_t)snprintf(to, HOST_TEXT - used, "%s%x", between, host[i] << 8 | host[i + 1]);
        } else {
            used += (size_t)snprintf(to, HOST_TEXT - used, v4 ? "%s%u" : "%s%02x", between, host[i]);
        }
    }
}

/* The discriminator in quotation marks if it is a text, otherwise its bytes. */
static void name_text(const struct vipl_address *address, char text[NAME_TEXT])
{
    bool printable = true;
    for (unsigned i = 0; i < address->disc_len; i++) {
        printable = printable && isprint(address->disc[i]) != 0;
    }
    if (printable) {
        snprintf(text, NAME_TEXT, "\"%.*s\"", (int)address->disc_len, (const char *)address->disc);
        return;
    }
    for (unsigned i = 0; i < address->disc_len; i++) {
        snprintf(text + 2 * (size_t)i, 3, "%02x", address->disc[i]);
    }
}

void vipl_reason_connect(const struct vipl_nic *nic, const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
                         VIP_RETURN rc)
{
    struct vipl_address address;
    char host[HOST_TEXT];
    char name[NAME_TEXT];
    if (!vipl_address_read(nic, remote, &address)) {
        return;
    }
    host_text(&address, host);
    name_text(&address, name);
    switch (rc) {
    case VIP_NO_MATCH:
        vipl_log(VIPL_LOG_REASON, "no program at %s waits for %s", host, name);
        break;
    case VIP_NOT_REACHABLE:
        vipl_log(VIPL_LOG_REASON, "%s is no address that this device reaches", host);
        break;
    case VIP_TIMEOUT:
        vipl_log(VIPL_LOG_REASON, "no reply from %s for %s in %lu ms", host, name, (unsigned long)timeout);
        break;
    case VIP_REJECT:
        vipl_log(VIPL_LOG_REASON, "the program at %s that waits for %s refused the request", host, name);
        break;
    case VIP_INVALID_MTU:
    case VIP_INVALID_QOS:
    case VIP_INVALID_RELIABILITY_LEVEL:
        vipl_log(VIPL_LOG_REASON, "the VI of the program at %s that waits for %s is not like this one", host,
                 name);
        break;
    default:
        break;
    }
}

void vipl_reason_disagree(const struct vipl_vi_params *own, const struct vipl_vi_params *peer, VIP_RETURN rc)
{
    if (rc == VIP_INVALID_MTU) {
        vipl_log(VIPL_LOG_REASON, "this VI has a MaxTransferSize of %llu, the requester's VI one of %llu",
                 (unsigned long long)own->max_transfer_size, (unsigned long long)peer->max_transfer_size);
    } else if (rc == VIP_INVALID_RELIABILITY_LEVEL) {
        vipl_log(VIPL_LOG_REASON, "this VI has the reliability level %u, the requester's VI has %u",
                 (unsigned)own->reliability, (unsigned)peer->reliability);
    }
}
