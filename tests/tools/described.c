/* SPDX-License-Identifier: MIT */
/* A descriptor and an address that gdb shows in test_gdb.py, which stops in stop(). */
#include <string.h>

#include <vipl/vipl.h>

extern VIP_DESCRIPTOR work;
extern union address {
    VIP_NET_ADDRESS net;
    char room[100];
} address;
void stop(void);

VIP_DESCRIPTOR work __attribute__((aligned(VIP_DESCRIPTOR_ALIGNMENT)));
union address address;

__attribute__((noinline)) void stop(void)
{
    __asm__ volatile("" ::: "memory");
}

int main(void)
{
    address.net.HostAddressLen = 6;
    address.net.DiscriminatorLen = 8;
    memcpy(address.net.HostAddress, "\x7f\0\0\1\0\0tutorial", 14);
    work.CS.SegCount = 2;
    work.CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
    work.CS.ImmediateData = 42;
    work.CS.Status = VIP_STATUS_DONE | VIP_STATUS_LENGTH_ERROR | VIP_STATUS_OP_RDMA_WRITE;
    work.DS[0].Remote.Data.AddressBits = 0x1000;
    work.DS[0].Remote.Handle = 7;
    work.DS[1].Local.Data.AddressBits = 0x2000;
    work.DS[1].Local.Handle = 9;
    work.DS[1].Local.Length = 64;
    stop();
    return 0;
}
