// SPDX-License-Identifier: MIT
//
// Names, values and layouts of <vipl/vipl.h>, which programs compiled elsewhere depend on to the
// bit. Most of it is decided when this file compiles; the cases make it count in the report.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "support/role_case.hpp"

using namespace vipl_test;

static_assert(std::is_same<VIP_PVOID, void *>::value, "");
static_assert(std::is_same<VIP_BOOLEAN, int>::value, "");
static_assert(std::is_same<VIP_CHAR, char>::value && std::is_same<VIP_UCHAR, unsigned char>::value, "");
static_assert(std::is_same<VIP_USHORT, unsigned short>::value && std::is_same<VIP_SHORT, short>::value, "");
static_assert(std::is_same<VIP_ULONG, unsigned long>::value && std::is_same<VIP_LONG, long>::value, "");
static_assert(sizeof(VIP_UINT8) == 1 && sizeof(VIP_UINT16) == 2 && sizeof(VIP_UINT32) == 4, "");
static_assert(sizeof(VIP_UINT64) == 8 && sizeof(VIP_MEM_HANDLE) == 4, "");
static_assert(std::is_same<VIP_EVENT_HANDLE, void *>::value && std::is_same<VIP_QOS, void *>::value, "");
static_assert(sizeof(VIP_NIC_HANDLE) == sizeof(void *) && sizeof(VIP_CONN_HANDLE) == sizeof(void *), "");

TEST_CASE("scalar constants have their values", "[layout][early]")
{
    EXPECT_EQ(1, VIP_TRUE);
    EXPECT_EQ(0, VIP_FALSE);
    EXPECT_EQ(64, VIP_DESCRIPTOR_ALIGNMENT);
    EXPECT_EQ(~0ul, VIP_INFINITE);
    EXPECT_EQ(1ul, VIP_SMI_AUTODISCOVERY);
    EXPECT_EQ(1, VIP_SERVICE_UNRELIABLE);
    EXPECT_EQ(2, VIP_SERVICE_RELIABLE_DELIVERY);
    EXPECT_EQ(4, VIP_SERVICE_RELIABLE_RECEPTION);
}

TEST_CASE("return codes are numbered in their order from 0", "[layout][early]")
{
    const VIP_RETURN codes[] = {VIP_SUCCESS,
                                VIP_NOT_DONE,
                                VIP_INVALID_PARAMETER,
                                VIP_ERROR_RESOURCE,
                                VIP_TIMEOUT,
                                VIP_REJECT,
                                VIP_INVALID_RELIABILITY_LEVEL,
                                VIP_INVALID_MTU,
                                VIP_INVALID_QOS,
                                VIP_INVALID_PTAG,
                                VIP_INVALID_RDMAREAD,
                                VIP_DESCRIPTOR_ERROR,
                                VIP_INVALID_STATE,
                                VIP_ERROR_NAMESERVICE,
                                VIP_NO_MATCH,
                                VIP_NOT_REACHABLE,
                                VIP_ERROR_NOT_SUPPORTED,
                                VIP_INTERRUPTED};
    int expected = 0;
    for (const VIP_RETURN code : codes) {
        EXPECT_EQ(expected++, static_cast<int>(code));
    }
    EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VIP_ERROR);
}

TEST_CASE("VI states, resource codes and error codes are numbered in their order from 0", "[layout][early]")
{
    const int states[] = {VIP_STATE_IDLE, VIP_STATE_CONNECTED, VIP_STATE_CONNECT_PENDING, VIP_STATE_ERROR};
    const int resources[] = {VIP_RESOURCE_NIC, VIP_RESOURCE_VI, VIP_RESOURCE_CQ, VIP_RESOURCE_DESCRIPTOR};
    const int errors[] = {VIP_ERROR_POST_DESC,      VIP_ERROR_CONN_LOST,   VIP_ERROR_RECVQ_EMPTY,
                          VIP_ERROR_VI_OVERRUN,     VIP_ERROR_RDMAW_PROT,  VIP_ERROR_RDMAW_DATA,
                          VIP_ERROR_RDMAW_ABORT,    VIP_ERROR_RDMAR_PROT,  VIP_ERROR_COMP_PROT,
                          VIP_ERROR_RDMA_TRANSPORT, VIP_ERROR_CATASTROPHIC};
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(i, states[i]);
        EXPECT_EQ(i, resources[i]);
    }
    for (int i = 0; i < 11; ++i) {
        EXPECT_EQ(i, errors[i]);
    }
}

TEST_CASE("control bits have their values", "[layout][early]")
{
    EXPECT_EQ(0, VIP_CONTROL_OP_SENDRECV);
    EXPECT_EQ(1, VIP_CONTROL_OP_RDMAWRITE);
    EXPECT_EQ(2, VIP_CONTROL_OP_RDMAREAD);
    EXPECT_EQ(3, VIP_CONTROL_OP_RESERVED);
    EXPECT_EQ(3, VIP_CONTROL_OP_MASK);
    EXPECT_EQ(4, VIP_CONTROL_IMMEDIATE);
    EXPECT_EQ(8, VIP_CONTROL_QFENCE);
    EXPECT_EQ(0xFFF0, VIP_CONTROL_RESERVED);
}

TEST_CASE("status bits have their values", "[layout][early]")
{
    EXPECT_EQ(1, VIP_STATUS_DONE);
    EXPECT_EQ(2, VIP_STATUS_FORMAT_ERROR);
    EXPECT_EQ(4, VIP_STATUS_PROTECTION_ERROR);
    EXPECT_EQ(8, VIP_STATUS_LENGTH_ERROR);
    EXPECT_EQ(0x10, VIP_STATUS_PARTIAL_ERROR);
    EXPECT_EQ(0x20, VIP_STATUS_DESC_FLUSHED_ERROR);
    EXPECT_EQ(0x40, VIP_STATUS_TRANSPORT_ERROR);
    EXPECT_EQ(0x80, VIP_STATUS_RDMA_PROT_ERROR);
    EXPECT_EQ(0x100, VIP_STATUS_REMOTE_DESC_ERROR);
    EXPECT_EQ(0x1FE, VIP_STATUS_ERROR_MASK);
    EXPECT_EQ(0, VIP_STATUS_OP_SEND);
    EXPECT_EQ(0x10000, VIP_STATUS_OP_RECEIVE);
    EXPECT_EQ(0x20000, VIP_STATUS_OP_RDMA_WRITE);
    EXPECT_EQ(0x30000, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
    EXPECT_EQ(0x40000, VIP_STATUS_OP_RDMA_READ);
    EXPECT_EQ(0x70000, VIP_STATUS_OP_MASK);
    EXPECT_EQ(0x80000, VIP_STATUS_IMMEDIATE);
    EXPECT_EQ(0xFFF0FE00u, VIP_STATUS_RESERVED);
}

TEST_CASE("a descriptor has the same byte offsets on every CPU", "[layout][early]")
{
    EXPECT_EQ(64u, sizeof(VIP_DESCRIPTOR));
    EXPECT_EQ(32u, sizeof(VIP_CONTROL_SEGMENT));
    EXPECT_EQ(16u, sizeof(VIP_ADDRESS_SEGMENT));
    EXPECT_EQ(16u, sizeof(VIP_DATA_SEGMENT));
    EXPECT_EQ(16u, sizeof(VIP_DESCRIPTOR_SEGMENT));
    EXPECT_EQ(8u, sizeof(VIP_PVOID64));
    EXPECT_EQ(0u, offsetof(VIP_CONTROL_SEGMENT, Next));
    EXPECT_EQ(8u, offsetof(VIP_CONTROL_SEGMENT, NextHandle));
    EXPECT_EQ(12u, offsetof(VIP_CONTROL_SEGMENT, SegCount));
    EXPECT_EQ(14u, offsetof(VIP_CONTROL_SEGMENT, Control));
    EXPECT_EQ(16u, offsetof(VIP_CONTROL_SEGMENT, Reserved));
    EXPECT_EQ(20u, offsetof(VIP_CONTROL_SEGMENT, ImmediateData));
    EXPECT_EQ(24u, offsetof(VIP_CONTROL_SEGMENT, Length));
    EXPECT_EQ(28u, offsetof(VIP_CONTROL_SEGMENT, Status));
    EXPECT_EQ(8u, offsetof(VIP_ADDRESS_SEGMENT, Handle));
    EXPECT_EQ(12u, offsetof(VIP_ADDRESS_SEGMENT, Reserved));
    EXPECT_EQ(8u, offsetof(VIP_DATA_SEGMENT, Handle));
    EXPECT_EQ(12u, offsetof(VIP_DATA_SEGMENT, Length));
    EXPECT_EQ(32u, offsetof(VIP_DESCRIPTOR, DS));
}

TEST_CASE("a descriptor answers to both member dialects at once", "[layout][early]")
{
    VIP_DESCRIPTOR descriptor{};
    EXPECT(static_cast<void *>(&descriptor.CS) == static_cast<void *>(&descriptor.Control));
    EXPECT(static_cast<void *>(&descriptor.DS[0]) == static_cast<void *>(&descriptor.Data[0]));
    descriptor.CS.SegCount = 7;
    descriptor.Data[0].Length = 99;
    EXPECT_EQ(7, descriptor.Control.SegCount);
    EXPECT_EQ(99u, descriptor.DS[0].Local.Length);
    EXPECT_EQ(2u, sizeof descriptor.DS / sizeof descriptor.DS[0]);
    EXPECT_EQ(1u, sizeof descriptor.Data / sizeof descriptor.Data[0]);
}

TEST_CASE("a cleared VIP_PVOID64 takes AddressBits, Address or Descriptor alike", "[layout][early]")
{
    VIP_DESCRIPTOR target{};
    VIP_PVOID64 by_address{}, by_descriptor{}, by_bits{};
    by_address.Address = &target;
    by_descriptor.Descriptor = &target;
    by_bits.AddressBits = reinterpret_cast<uintptr_t>(&target);
    EXPECT_EQ(by_bits.AddressBits, by_address.AddressBits);
    EXPECT_EQ(by_bits.AddressBits, by_descriptor.AddressBits);
    EXPECT(by_bits.Address == &target);
    EXPECT(by_bits.Descriptor == &target);
}

TEST_CASE("a VIP_NET_ADDRESS is two 16-bit lengths and then bytes", "[layout][early]")
{
    EXPECT_EQ(0u, offsetof(VIP_NET_ADDRESS, HostAddressLen));
    EXPECT_EQ(2u, offsetof(VIP_NET_ADDRESS, DiscriminatorLen));
    EXPECT_EQ(4u, offsetof(VIP_NET_ADDRESS, HostAddress));
    EXPECT_EQ(1u, sizeof(VIP_NET_ADDRESS::HostAddress));
}

TEST_CASE("structure members come in the order of the interface", "[layout][early]")
{
    // Aggregate initialisation in declaration order is the test: a swap changes the values below.
    const VIP_UINT8 host[6] = {1, 2, 3, 4, 5, 6};
    const VIP_NIC_ATTRIBUTES nic = {"name", 1, 2,  6,  host, VIP_TRUE, 64, 5,  6, 7,
                                    8,      9, 10, 11, 12,   13,       14, 15, 7, 3};
    EXPECT_EQ(64u, sizeof nic.Name);
    EXPECT_EQ(1ul, nic.HardwareVersion);
    EXPECT_EQ(2ul, nic.ProviderVersion);
    EXPECT_EQ(6, nic.NicAddressLen);
    EXPECT(nic.LocalNicAddress == host);
    EXPECT_EQ(64, nic.MaxDiscriminatorLen);
    const VIP_ULONG *const limits = &nic.MaxRegisterBytes;
    const VIP_ULONG *const named[] = {&nic.MaxRegisterBytes,
                                      &nic.MaxRegisterRegions,
                                      &nic.MaxRegisterBlockBytes,
                                      &nic.MaxVI,
                                      &nic.MaxDescriptorsPerQueue,
                                      &nic.MaxSegmentsPerDesc,
                                      &nic.MaxCQ,
                                      &nic.MaxCQEntries,
                                      &nic.MaxTransferSize,
                                      &nic.NativeMTU,
                                      &nic.MaxPtags};
    for (VIP_ULONG i = 0; i < 11; ++i) {
        EXPECT_EQ(5 + i, *named[i]);
        EXPECT(named[i] == limits + i);
    }
    EXPECT_EQ(7, nic.ReliabilityLevelSupport);
    EXPECT_EQ(3, nic.RDMAReadSupport);

    int one = 0, two = 0, three = 0;
    const VIP_VI_ATTRIBUTES vi = {4, 1000, &one, &two, 1, 0};
    EXPECT(vi.ReliabilityLevel == 4 && vi.MaxTransferSize == 1000 && vi.QoS == &one && vi.Ptag == &two);
    EXPECT(vi.EnableRdmaWrite == 1 && vi.EnableRdmaRead == 0);
    const VIP_MEM_ATTRIBUTES mem = {&one, 1, 0};
    EXPECT(mem.Ptag == &one && mem.EnableRdmaWrite == 1 && mem.EnableRdmaRead == 0);
    const VIP_ERROR_DESCRIPTOR error = {&one, &two, &three, nullptr, 9, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST};
    EXPECT(error.NicHandle == &one && error.ViHandle == &two && error.CQHandle == &three);
    EXPECT(error.DescriptorPtr == nullptr && error.OpCode == 9);
    EXPECT(error.ResourceCode == VIP_RESOURCE_VI && error.ErrorCode == VIP_ERROR_CONN_LOST);
    const VIP_AUTODISCOVERY_LIST list = {1, nullptr, 2};
    EXPECT(list.NumberOfHops == 1 && list.ADAddrArray == nullptr && list.NumAdAddrs == 2);
}
