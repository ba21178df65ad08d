/* SPDX-License-Identifier: MIT */
/* The way programs of 1998-2005 are written: C89, <vipl.h>, descriptors in char arrays, both member
 * dialects, one of the device names of the time. */
#include <stdio.h>
#include <string.h>
#include <vipl.h>

static char room[64 * 3];

int main(void)
{
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_VI_ATTRIBUTES attributes;
    VIP_MEM_HANDLE memory;
    VIP_DESCRIPTOR *descriptor, *done;
    char *base = room + (64 - (size_t)room % 64);

    if (VipOpenNic("VINIC", &nic) != VIP_SUCCESS) {
        return 1;
    }
    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 4096;
    if (VipRegisterMem(nic, room, sizeof(room), NULL, &memory) != VIP_SUCCESS ||
        VipCreateVi(nic, &attributes, NULL, NULL, &vi) != VIP_SUCCESS) {
        return 2;
    }
    descriptor = (VIP_DESCRIPTOR *)(void *)base;
    descriptor->CS.SegCount = 1;
    descriptor->Control.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->Data[0].Data.Address = base + 64;
    descriptor->DS[0].Local.Handle = memory;
    descriptor->CS.Length = descriptor->Data[0].Length = 16;

    /* Nobody is connected: the send is flushed at once. */
    if (VipPostSend(vi, descriptor, memory) != VIP_SUCCESS || VipSendWait(vi, 1000, &done) != VIP_ERROR ||
        done != descriptor || !(done->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR)) {
        return 3;
    }
    if (VipDestroyVi(vi) != VIP_SUCCESS || VipCloseNic(nic) != VIP_SUCCESS) {
        return 4;
    }
    printf("an old program is served\n");
    return 0;
}
