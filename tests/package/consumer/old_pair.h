/* SPDX-License-Identifier: MIT */
/* What the old programs here have in common: a device, memory full of other things, and two VIs
 * that are connected. In what C89 and C++98 both understand. */
#ifndef OLD_PAIR_H
#define OLD_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define DESCRIPTORS 8
#define DESCRIPTOR_BYTES 128 /* up to six segments */
#define BUFFER_BYTES 4096
#define PATIENCE 30000

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi[2];
static VIP_MEM_HANDLE memory;
static VIP_NIC_ATTRIBUTES nic_attributes;
static char *block, *descriptors, *buffer;

static void check(int right, const char *what)
{
    if (!right) {
        printf("failed: %s\n", what);
        exit(1);
    }
}

/* Nobody clears descriptors: they have in them whatever was there. */
static VIP_DESCRIPTOR *descriptor_at(int i)
{
    return (VIP_DESCRIPTOR *)(void *)(descriptors + i * DESCRIPTOR_BYTES);
}

static VIP_NET_ADDRESS *address_of(const char *name)
{
    size_t length = strlen(name);
    VIP_NET_ADDRESS *address =
        (VIP_NET_ADDRESS *)malloc(sizeof(VIP_NET_ADDRESS) + nic_attributes.NicAddressLen + length);
    check(address != NULL, "memory for an address");
    address->HostAddressLen = nic_attributes.NicAddressLen;
    address->DiscriminatorLen = (VIP_UINT16)length;
    memcpy(address->HostAddress, nic_attributes.LocalNicAddress, nic_attributes.NicAddressLen);
    memcpy(address->HostAddress + nic_attributes.NicAddressLen, name, length);
    return address;
}

static void open_pair(const char *device)
{
    VIP_MEM_ATTRIBUTES rights;
    VIP_VI_ATTRIBUTES attributes;
    VIP_NET_ADDRESS *here, *there;
    size_t bytes = DESCRIPTORS * DESCRIPTOR_BYTES + BUFFER_BYTES;
    check(VipOpenNic(device, &nic) == VIP_SUCCESS, "VipOpenNic");
    check(VipQueryNic(nic, &nic_attributes) == VIP_SUCCESS, "VipQueryNic");

    block = (char *)malloc(bytes + VIP_DESCRIPTOR_ALIGNMENT);
    check(block != NULL, "memory");
    memset(block, 0xA5, bytes + VIP_DESCRIPTOR_ALIGNMENT);
    descriptors = block + (VIP_DESCRIPTOR_ALIGNMENT - (size_t)block % VIP_DESCRIPTOR_ALIGNMENT);
    buffer = descriptors + DESCRIPTORS * DESCRIPTOR_BYTES;
    rights.Ptag = NULL;
    rights.EnableRdmaWrite = rights.EnableRdmaRead = VIP_TRUE;
    check(VipRegisterMem(nic, descriptors, bytes, &rights, &memory) == VIP_SUCCESS, "VipRegisterMem");

    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = BUFFER_BYTES;
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_TRUE;
    check(VipCreateVi(nic, &attributes, NULL, NULL, &vi[0]) == VIP_SUCCESS, "VipCreateVi");
    check(VipCreateVi(nic, &attributes, NULL, NULL, &vi[1]) == VIP_SUCCESS, "VipCreateVi");
    here = address_of("old here");
    there = address_of("old there");
    check(VipConnectPeerRequest(vi[0], here, there, PATIENCE) == VIP_SUCCESS, "VipConnectPeerRequest");
    check(VipConnectPeerRequest(vi[1], there, here, PATIENCE) == VIP_SUCCESS, "VipConnectPeerRequest");
    check(VipConnectPeerWait(vi[0], &attributes) == VIP_SUCCESS, "VipConnectPeerWait");
    check(VipConnectPeerWait(vi[1], &attributes) == VIP_SUCCESS, "VipConnectPeerWait");
    free(here);
    free(there);
}

static void close_pair(void)
{
    int i;
    for (i = 0; i < 2; i++) {
        check(VipDisconnect(vi[i]) == VIP_SUCCESS, "VipDisconnect");
        check(VipDestroyVi(vi[i]) == VIP_SUCCESS, "VipDestroyVi");
    }
    check(VipDeregisterMem(nic, descriptors, memory) == VIP_SUCCESS, "VipDeregisterMem");
    check(VipCloseNic(nic) == VIP_SUCCESS, "VipCloseNic");
    free(block);
}

#endif
