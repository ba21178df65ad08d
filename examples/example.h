/* SPDX-License-Identifier: MIT */
/* What the longer examples share: giving up, addresses, descriptors. */
#ifndef VIPL_EXAMPLE_H
#define VIPL_EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vipl/vipl.h>

enum { EXAMPLE_TIMEOUT = 30000 }; /* milliseconds: a user may start the two ends by hand */

/* Room for an address of any device. */
union example_address {
    VIP_NET_ADDRESS net;
    char room[160];
};

static inline void example_must(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)rc);
        exit(1);
    }
}

/* This host, and a name on it. */
static inline void example_local_address(VIP_NIC_HANDLE nic, const char *name, union example_address *out)
{
    VIP_NIC_ATTRIBUTES limits;

    example_must("query", VipQueryNic(nic, &limits));
    memset(out, 0, sizeof(*out));
    out->net.HostAddressLen = limits.NicAddressLen;
    out->net.DiscriminatorLen = (VIP_UINT16)strlen(name);
    memcpy(out->net.HostAddress, limits.LocalNicAddress, limits.NicAddressLen);
    memcpy(out->net.HostAddress + limits.NicAddressLen, name, strlen(name));
}

/* A descriptor of one piece of local memory. */
static inline void example_describe(VIP_DESCRIPTOR *work, void *bytes, VIP_UINT32 length,
                                    VIP_MEM_HANDLE memory)
{
    memset(work, 0, sizeof(*work));
    work->CS.SegCount = 1;
    work->CS.Length = length;
    work->DS[0].Local.Data.Address = bytes;
    work->DS[0].Local.Handle = memory;
    work->DS[0].Local.Length = length;
}

static inline VIP_VI_ATTRIBUTES example_attributes(void)
{
    VIP_VI_ATTRIBUTES attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 4096;
    attributes.EnableRdmaWrite = VIP_TRUE;
    return attributes;
}

#endif
