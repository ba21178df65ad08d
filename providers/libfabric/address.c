/* SPDX-License-Identifier: MIT */
/*
 * Addresses. A program of libfabric names a host and a port: a sockaddr_in on the devices loopback
 * and tcp, and on an RDMA card the sockaddr_in6 of the link-local address that belongs to the
 * card's MAC address (EUI-64). VIPL names a host address of the device and a discriminator, which
 * is "ofi:" and the port.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

uint32_t prov_address_format(const struct prov_nic *nic)
{
    return nic->family == PROV_ETHERNET ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

int prov_address_copy(const struct prov_nic *nic, const uint8_t *host, uint16_t port, void *out,
                      size_t *bytes)
{
    union {
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address;
    size_t length = sizeof(address.in);
    memset(&address, 0, sizeof(address));
    if (nic->family == PROV_ETHERNET) {
        const uint8_t local[16] = {0xfe,        0x80,    0,       0,    0,    0,       0,       0,
                                   host[0] ^ 2, host[1], host[2], 0xff, 0xfe, host[3], host[4], host[5]};
        length = sizeof(address.in6);
        address.in6.sin6_family = AF_INET6;
        address.in6.sin6_port = htons(port);
        memcpy(&address.in6.sin6_addr, local, sizeof(local));
    } else {
        address.in.sin_family = AF_INET;
        address.in.sin_port = htons(port);
        memcpy(&address.in.sin_addr, host, 4);
    }
    memcpy(out, &address, *bytes < length ? *bytes : length);
    int rc = *bytes < length ? -FI_ETOOSMALL : 0;
    *bytes = length;
    return rc;
}

/* Whether the address is one of this host's: a socket can have it. */
static bool is_here(struct sockaddr_in address)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    address.sin_port = 0;
    bool here = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return here;
}

static int read_in(const struct prov_nic *nic, struct sockaddr_in in, uint8_t *host, uint16_t *port)
{
    if (nic->family == PROV_LOOPBACK && !is_here(in)) {
        return -FI_EADDRNOTAVAIL;
    }
    *port = ntohs(in.sin_port);
    memcpy(host, nic->host, PROV_HOST_BYTES);
    if (nic->family == PROV_INET && in.sin_addr.s_addr != htonl(INADDR_ANY)) {
        memset(host, 0, PROV_HOST_BYTES);
        memcpy(host, &in.sin_addr, 4);
    }
    return 0;
}

static int read_in6(const struct prov_nic *nic, const struct sockaddr_in6 *in6, uint8_t *host, uint16_t *port)
{
    const uint8_t *at = in6->sin6_addr.s6_addr;
    static const uint8_t link[8] = {0xfe, 0x80};
    *port = ntohs(in6->sin6_port);
    memcpy(host, nic->host, PROV_HOST_BYTES);
    if (IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)) {
        return 0;
    }
    if (memcmp(at, link, sizeof(link)) != 0 || at[11] != 0xff || at[12] != 0xfe) {
        return -FI_EADDRNOTAVAIL; /* not made from a MAC address */
    }
    const uint8_t mac[6] = {at[8] ^ 2, at[9], at[10], at[13], at[14], at[15]};
    memcpy(host, mac, sizeof(mac));
    return 0;
}

int prov_address_read(const struct prov_nic *nic, const void *address, size_t bytes, uint8_t *host,
                      uint16_t *port)
{
    sa_family_t family = AF_UNSPEC;
    if (address == NULL || bytes < sizeof(struct sockaddr)) {
        return -FI_EINVAL;
    }
    memcpy(&family, (const uint8_t *)address + offsetof(struct sockaddr, sa_family), sizeof(family));
    if (family == AF_INET && nic->family != PROV_ETHERNET && bytes >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        return read_in(nic, in, host, port);
    }
    if (family == AF_INET6 && nic->family == PROV_ETHERNET && bytes >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        return read_in6(nic, &in6, host, port);
    }
    return -FI_EINVAL;
}

void prov_address_set(const struct prov_nic *nic, const uint8_t *host, const void *discriminator,
                      size_t bytes, union prov_net *out)
{
    size_t host_bytes = nic->attributes.NicAddressLen;
    uint8_t *at = out->bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
    out->net.HostAddressLen = (VIP_UINT16)host_bytes;
    out->net.DiscriminatorLen = (VIP_UINT16)bytes;
    memcpy(at, host, host_bytes);
    memcpy(at + host_bytes, discriminator, bytes);
}

void prov_address_listener(const struct prov_nic *nic, const uint8_t *host, uint16_t port,
                           union prov_net *out)
{
    const uint8_t name[PROV_NAME_BYTES] = {'o', 'f', 'i', ':', (uint8_t)(port >> 8), (uint8_t)port};
    prov_address_set(nic, host, name, sizeof(name), out);
}
